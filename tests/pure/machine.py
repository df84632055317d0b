"""A small session for tests: the real planner and executor on reference workers; no façade, no translator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.ranges.region import Region

from vdev.backends.base import Backend
from vdev.backends.reference import Faults, Pointer, ReferenceBackend, ReferenceProgram
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.executor.failures import repaired
from vdev.executor.launch_step import LaunchRecipe
from vdev.planner.directory import BufferState, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.transfers import Box, plan_copy, plan_fill, plan_map, plan_read, plan_write

LOCAL = 64  #: work-items of a work-group; every buffer element is a uint32
Words = np.ndarray


def items(ndrange: NDRange, chunk: Chunk) -> tuple[int, int]:
    """First and one past the last work-item of a one-dimensional chunk."""
    return chunk.start[0] * LOCAL, min(chunk.stop[0] * LOCAL, ndrange.global_size[0])


def span(start: int, stop: int) -> Region:
    return Region.span(start * 4, stop * 4)


@dataclass(frozen=True)
class Kernel:
    """A kernel as a test needs it: what a worker runs, what the planner is told, what it means."""

    name: str
    run: Callable[[Sequence[Pointer], NDRange, Chunk], None]
    access: Callable[[int, int, int], list[AccessRange]]  #: start, stop, number of work-items
    meaning: Callable[..., None]  #: on whole arrays, in place


def _axpy(args: Sequence[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = items(ndrange, chunk)
    out, a, b = (arg.view("u4", start, stop - start) for arg in args)
    out[:] = a * np.uint32(3) + b


def _stencil(args: Sequence[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = items(ndrange, chunk)
    n = ndrange.global_size[0]
    low, high = max(start - 1, 0), min(stop + 1, n)
    a = args[1].view("u4", low, high - low)
    out = args[0].view("u4", start, stop - start)
    at = np.arange(start, stop)
    out[:] = a[np.maximum(at - 1, 0) - low] + a[np.minimum(at + 1, n - 1) - low]


def _scatter(args: Sequence[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = items(ndrange, chunk)
    n = ndrange.global_size[0]
    at = np.arange(start, stop)
    args[0].view("u4", 0, n)[(at * 5) % n] = at + 7


def _count(args: Sequence[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = items(ndrange, chunk)
    np.add.at(args[0].view("u4", 0, 16), args[1].view("u4", start, stop - start) % 16, 1)


def _mean_axpy(out: Words, a: Words, b: Words) -> None:
    out[:] = a * np.uint32(3) + b


def _mean_stencil(out: Words, a: Words) -> None:
    out[:] = np.concatenate((a[:1], a[:-1])) + np.concatenate((a[1:], a[-1:]))


def _mean_scatter(out: Words) -> None:
    at = np.arange(len(out))
    out[(at * 5) % len(out)] = at + 7


def _mean_count(out: Words, a: Words) -> None:
    np.add.at(out, a % 16, 1)


AXPY = Kernel(
    "axpy",
    _axpy,
    lambda start, stop, n: [
        AccessRange(0, "write", span(start, stop), True),
        AccessRange(1, "read", span(start, stop), True),
        AccessRange(2, "read", span(start, stop), True),
    ],
    _mean_axpy,
)
STENCIL = Kernel(
    "stencil",
    _stencil,
    lambda start, stop, n: [
        AccessRange(0, "write", span(start, stop), True),
        AccessRange(1, "read", span(max(start - 1, 0), min(stop + 1, n)), True),
    ],
    _mean_stencil,
)
SCATTER = Kernel(
    "scatter",
    _scatter,
    lambda start, stop, n: [AccessRange(0, "write", span(0, n), False, reason="an index from memory")],
    _mean_scatter,
)
COUNT = Kernel(
    "count",
    _count,
    lambda start, stop, n: [
        AccessRange(0, "atomic", span(0, 16), False, op="add", dtype="uint32"),
        AccessRange(1, "read", span(start, stop), True),
    ],
    _mean_count,
)
KERNELS = (AXPY, STENCIL, SCATTER, COUNT)


def reference_openers(
    count: int,
    backends: list[ReferenceBackend],
    faults: dict[int, Faults] | None = None,
    *,
    is_cpu: bool = True,
) -> list[Callable[[], Backend]]:
    """What opens so many reference workers, each of which enters itself in `backends` (in any order)."""

    def opener(number: int) -> Callable[[], Backend]:
        def open_worker() -> Backend:
            backend = ReferenceBackend(f"reference-{number}", (faults or {}).get(number), is_cpu=is_cpu)
            backends.append(backend)
            return backend

        return open_worker

    return [opener(number) for number in range(count)]


class Buffer:
    """A virtual buffer: its home, what is known of it, and where it is."""

    def __init__(self, machine: Machine, nbytes: int) -> None:
        self._home = np.zeros(nbytes, np.uint8)
        self.nbytes = nbytes
        self.state: BufferState = buffer_state(nbytes)
        home = self._home  # not self: the holdings go with the buffer
        self.holdings = machine.executor.holdings(nbytes, lambda: home)

    @property
    def home(self) -> np.ndarray:
        return self._home


class Machine:
    """Reference workers behind an executor; commands are planned and submitted at once. A context manager."""

    def __init__(self, workers: int, faults: dict[int, Faults] | None = None) -> None:
        faults = faults or {}
        self.backends: list[ReferenceBackend] = []

        def opener(number: int) -> Callable[[], Backend]:
            def open_worker() -> Backend:
                backend = ReferenceBackend(f"reference-{number}", faults.get(number))
                self.backends.append(backend)
                return backend

            return open_worker

        self.executor = Executor([opener(number) for number in range(workers)])
        self.backends.sort(key=lambda backend: backend.info.name)
        self.links = LinkCosts.uniform(workers)
        self.options = LaunchOptions(tuple(range(workers)), self.links)
        self.program = ReferenceProgram(functions={kernel.name: kernel.run for kernel in KERNELS})
        self.executor.build(self.program)
        self.last: Completion | None = None

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.executor.close()

    def buffer(self, nbytes: int) -> Buffer:
        return Buffer(self, nbytes)

    def _submit(self, plan, buffers, *, recipe=None, in_order=True, profiled=False, **rest) -> Completion:  # type: ignore[no-untyped-def]
        completion = Completion(profiled)
        for buffer, state in zip(buffers, plan.states, strict=True):
            buffer.state = state
        prepared = self.executor.prepare(plan, recipe)
        order = self.last if in_order else None
        holdings = [buffer.holdings for buffer in buffers]
        self.executor.submit(prepared, holdings, completion, order=order, **rest)
        self.last = completion
        self.executor.throttle()
        return completion

    def repair(self, buffers: Sequence[Buffer]) -> None:
        """What a session does before it plans anything after a failure."""
        if not self.executor.damaged:
            return
        damages = {id(holdings): damage for holdings, damage in self.executor.repair()}
        for buffer in buffers:
            damage = damages.get(id(buffer.holdings))
            if damage is not None:
                buffer.state = repaired(buffer.state, buffer.holdings, damage)

    def write(self, buffer: Buffer, data: np.ndarray, offset: int = 0, **rest: object) -> Completion:
        host = data.view(np.uint8)
        layout = Layout.contiguous(offset, host.nbytes)
        plan = plan_write(buffer.state, layout.buffer_region(), self.links)
        return self._submit(plan, [buffer], host=host, layout=layout, **rest)

    def read(self, buffer: Buffer, host: np.ndarray, offset: int = 0, **rest: object) -> Completion:
        """Into `host`, all of it."""
        layout = Layout.contiguous(offset, host.nbytes)
        return self.read_box(buffer, host, layout, **rest)

    def read_box(self, buffer: Buffer, host: np.ndarray, layout: Layout, **rest: object) -> Completion:
        region = layout.buffer_region()
        plan = plan_read(buffer.state, region, self.links, contiguous=layout.is_contiguous)
        return self._submit(plan, [buffer], host=host.view(np.uint8), layout=layout, host_writes=True, **rest)

    def fill(self, buffer: Buffer, offset: int, nbytes: int, pattern: bytes, **rest: object) -> Completion:
        return self._submit(plan_fill(buffer.state, offset, nbytes, pattern, self.links), [buffer], **rest)

    def copy(
        self, source: Buffer, target: Buffer, source_start: int, target_start: int, nbytes: int
    ) -> Completion:
        boxes = Box.contiguous(source_start, nbytes), Box.contiguous(target_start, nbytes)
        return self._submit(plan_copy([source.state, target.state], *boxes, self.links), [source, target])

    def map(self, buffer: Buffer, **rest: object) -> Completion:
        """For reading and writing; all of it."""
        plan = plan_map(buffer.state, Region.span(0, buffer.nbytes), self.links, read=True, write=True)
        return self._submit(plan, [buffer], homes=(0,), **rest)

    def launch(self, kernel: Kernel, buffers: Sequence[Buffer], nitems: int, **rest: object) -> Completion:
        ndrange = NDRange((nitems,), (LOCAL,), (0,))

        def evaluate(chunk: Chunk) -> list[AccessRange]:
            return kernel.access(*items(ndrange, chunk), nitems)

        slots: list[Buffer] = list(dict.fromkeys(buffers))
        args = tuple(
            PointerArg(arg, slots.index(buffer), 0, buffer.nbytes) for arg, buffer in enumerate(buffers)
        )
        plan = plan_launch(
            [slot.state for slot in slots], LaunchRequest(args, ndrange, evaluate), self.options
        )
        recipe = LaunchRecipe(self.program, kernel.name, ndrange, lambda ndrange, chunk, bases: b"")
        return self._submit(plan, slots, recipe=recipe, args=(None,) * len(buffers), **rest)
