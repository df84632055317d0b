"""A kernel run as written: on the virtual device's workers, on the device itself, or group by group in a chosen order.

Decides how arguments become buffers and back; each run changes the memories it is given and waits for its end.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from itertools import product

from vdev.backends.base import (
    Allocation,
    Backend,
    BackendProgram,
    Box,
    KernelArgument,
    LaunchShape,
)
from vdev.errors import BackendError
from vdev.harness.checked_launch import Argument, Memory, Pointer
from vdev.process.switches import parse_workers
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Argument as SessionArgument
from vdev.session.commands import BufferArg, Launch, Read
from vdev.session.session import Session, SessionKernel
from vdev.start.workers import open_workers
from vdev.translators.ranges.ndrange import Chunk, NDRange, whole_chunk
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.values import dataclass

#: The most work-groups launched one by one; beyond that, neighbours run together, in as many runs.
_MOST_PIECES = 256


@functools.cache
def open_session(workers: str) -> Session:
    """The session on these workers (as VDEV_WORKERS names them), one for each text in a process."""
    return Session(open_workers(parse_workers(workers)))


@dataclass(frozen=True)
class Order:
    """An order of work-groups: 'forward', 'backward' or 'shuffled' by a seed."""

    name: str
    seed: int = 0

    @staticmethod
    def parse(text: str) -> Order:
        """`forward`, `backward`, `shuffled` or `shuffled:SEED`. ValueError for others."""
        name, _, seed = text.partition(":")
        if name not in ("forward", "backward", "shuffled") or (seed and not seed.isdigit()):
            raise ValueError(
                f"no order of work-groups: {text!r}; there are forward, backward and shuffled:SEED"
            )
        return Order(name, int(seed or 0))

    def arrange(self, chunks: list[Chunk]) -> list[Chunk]:
        if self.name == "backward":
            return chunks[::-1]
        if self.name == "shuffled":
            random.Random(self.seed).shuffle(chunks)
        return chunks


def run_on_workers(
    session: Session, kernel: SessionKernel, args: Sequence[Argument], ndrange: NDRange
) -> None:
    """Through the session, like a program's launch: split over its workers if that is possible."""
    memories = _memories(args)
    buffers = [session.create_filled(len(memory.content), memory.content) for memory in memories]
    given = [_session_argument(arg, memories, buffers) for arg in args]
    queue = session.create_queue(in_order=True)
    done = [session.submit(Launch(kernel, tuple(given), ndrange), queue=queue)]
    for memory, buffer in zip(memories, buffers, strict=True):
        read = Read(buffer, Layout.contiguous(0, buffer.nbytes), memory.content)
        done.append(session.submit(read, queue=queue))
    for completion in done:
        if completion.wait() < 0:
            raise BackendError(completion.status, completion.reason or f"kernel {kernel.name} failed")


def launch_of(
    session: Session, kernel: SessionKernel, args: Sequence[Argument], ndrange: NDRange
) -> tuple[Launch, list[VirtualBuffer]]:
    """A launch on new buffers without content, and these buffers."""
    memories = _memories(args)
    buffers = [session.create_buffer(len(memory.content)) for memory in memories]
    given = tuple(_session_argument(arg, memories, buffers) for arg in args)
    return Launch(kernel, given, ndrange), buffers


def run_natively(session: Session, kernel: SessionKernel, args: Sequence[Argument], ndrange: NDRange) -> None:
    """On the first worker's device, the program as the user wrote it; images, if it has any, are plain memory."""
    program = BackendProgram(kernel.program.source, kernel.program.options)
    lowered = kernel.program.lowered
    if kernel.images and lowered is not None:
        program = BackendProgram(lowered.program.source, lowered.program.engine_options)
    session.executor.call(0, lambda backend: whole_launch(backend, program, kernel.name, args, ndrange))


def whole_launch(
    backend: Backend, program: BackendProgram, kernel: str, args: Sequence[Argument], ndrange: NDRange
) -> None:
    """A kernel of the program, over all of its index space, on one worker."""
    _run_pieces(backend, program, kernel, args, [_whole(ndrange)])


def run_in_order(
    session: Session, kernel: SessionKernel, order: Order, args: Sequence[Argument], ndrange: NDRange
) -> None:
    """On the first worker, work-group by work-group. ValueError for a kernel that can only run whole."""
    subgrid = kernel.subgrid
    if subgrid is None:
        reasons = "; ".join(str(reason) for reason in kernel.one_worker)
        raise ValueError(f"the work-groups of kernel {kernel.name} cannot be run one by one: {reasons}")
    zeros = (0,) * len(subgrid.pointer_args)
    shapes = [
        LaunchShape(
            ndrange,
            chunk,
            chunk.global_size(ndrange),
            ndrange.local_size,
            chunk.first(ndrange),
            (),
            subgrid.pack(ndrange, chunk, zeros),
        )
        for chunk in order.arrange(_pieces(ndrange))
    ]
    program = kernel.program.native
    session.executor.call(0, lambda backend: _run_pieces(backend, program, kernel.name, args, shapes))


def _pieces(ndrange: NDRange) -> list[Chunk]:
    """Single work-groups, or neighbours in the first dimension if there are too many."""
    counts = ndrange.num_groups
    rest = 1
    for count in counts[1:]:
        rest *= count
    run = max(1, -(-counts[0] * rest // _MOST_PIECES))
    starts = [range(0, counts[0], min(run, counts[0])), *(range(count) for count in counts[1:])]
    return [
        Chunk(start, (min(start[0] + run, counts[0]), *(each + 1 for each in start[1:])))
        for start in product(*starts)
    ]


def _whole(ndrange: NDRange) -> LaunchShape:
    return LaunchShape(
        ndrange, whole_chunk(ndrange), ndrange.global_size, ndrange.local_size, ndrange.offset, (), None
    )


def _run_pieces(
    backend: Backend,
    program: BackendProgram,
    kernel: str,
    args: Sequence[Argument],
    shapes: Sequence[LaunchShape],
) -> None:
    memories = _memories(args)
    natives: list[Allocation] = []
    try:
        for memory in memories:
            natives.append(backend.allocate(len(memory.content)))
            backend.write(natives[-1], memory.content, _box(memory))
        backend.build(program)
        handle = backend.kernel(program, kernel)
        given = [_native_argument(arg, memories, natives) for arg in args]
        for shape in shapes:
            backend.launch(handle, given, shape)
            backend.record().wait()
        for memory, native in zip(memories, natives, strict=True):
            backend.read(native, memory.content, _box(memory))
        backend.record().wait()
    finally:
        for native in natives:
            backend.free(native)


def _box(memory: Memory) -> Box:
    return Box.contiguous(0, 0, len(memory.content))


def _memories(args: Sequence[Argument]) -> list[Memory]:
    found: list[Memory] = []
    for arg in args:
        if isinstance(arg, Pointer) and not any(arg.memory is known for known in found):
            found.append(arg.memory)
    return found


def _slot(memory: Memory, memories: Sequence[Memory]) -> int:
    return next(slot for slot, known in enumerate(memories) if known is memory)


def _session_argument(
    arg: Argument, memories: Sequence[Memory], buffers: Sequence[VirtualBuffer]
) -> SessionArgument:
    if not isinstance(arg, Pointer):
        return arg
    return BufferArg(buffers[_slot(arg.memory, memories)], arg.offset, arg.nbytes)


def _native_argument(
    arg: Argument, memories: Sequence[Memory], natives: Sequence[Allocation]
) -> KernelArgument:
    if not isinstance(arg, Pointer):
        return arg
    native = natives[_slot(arg.memory, memories)]
    return native if not arg.offset else (native, arg.offset)
