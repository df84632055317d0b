"""From a captured launch to the planner's request: where its pointers point, and what its chunks access.

Decides nothing: numbers come from the launch, ranges from the kernel's analysis.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vdev.executor.executor import Executor
from vdev.executor.launch_step import LaunchRecipe
from vdev.planner.balance import WorkProfile
from vdev.planner.footprints import PointerArg
from vdev.planner.launch_request import LaunchRequest
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import BufferArg, Launch
from vdev.session.filling import Forms
from vdev.session.programs import SessionKernel
from vdev.translators.dialects.subgrid_kernel import SubgridKernel
from vdev.translators.interpreter.launch_ranges import LaunchRanges
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.interpreter.work import spread_of_work
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

logger = logging.getLogger("vdev.session.requests")

#: boxes of bytes in remembered access ranges per kernel, of some hundred bytes each
_MOST_BOXES = 1 << 16


#: bytes that a work-group is assumed to ask for in a second, before anything is measured: a fast memory's bandwidth
_BYTES_PER_SECOND = 4e12

#: a value argument, and the function that makes a tuple with its number from its bytes; None if they are used as they
#: are
Reader = tuple[int, Callable[[Any], tuple[Any, ...]] | None]


class EvaluationFault(Exception):
    """The analysis could not say what a chunk touches, for a reason of its own."""


def request_of(launch: Launch, buffers: Sequence[VirtualBuffer], forms: Forms | None = None) -> LaunchRequest:
    """What the planner has to know of a launch besides its buffers' states. `buffers`: by slot. `forms`: where it was
    looked for in vain, what is known of launches like it.
    """
    kernel = launch.kernel
    pointers = pointer_args(launch, buffers)
    values = {index: scalar_value(kernel, index, launch.args[index]) for index in kernel.scalars}
    request = request_with(launch, launch.ndrange, pointers, values)
    if kernel.plans is None:
        return request
    key = tuple(launch.args[index] for index in sorted(kernel.scalars))
    places = tuple((pointer.arg, pointer.nbytes, pointer.before) for pointer in pointers)
    evaluate = request.evaluate if forms is None else forms.ranges(request)
    evaluate = kernel.plans.ranges.remember((launch.ndrange, key, places), evaluate)
    summary = kernel.summary

    def work(axis: int) -> WorkProfile | None:
        found = None if summary is None else spread_of_work(summary, launch.ndrange, axis, values)
        if found is None:
            return None
        edges, nbytes = found
        return WorkProfile.foreseen(edges, [each / _BYTES_PER_SECOND for each in nbytes])

    return replace(request, evaluate=evaluate, balance=kernel.plans.balance, work=work, work_depends=key)


def request_with(
    launch: Launch, ndrange: NDRange, pointers: tuple[PointerArg, ...], values: dict[int, Any]
) -> LaunchRequest:
    """The same with other numbers for its NDRange and its scalars. `values`: by argument."""
    kernel = launch.kernel
    return LaunchRequest(
        args=pointers,
        ndrange=ndrange,
        evaluate=evaluator(kernel, launch, pointers, ndrange, values),
        one_worker=kernel.one_worker,
        whole_replicas=kernel.subgrid is None,
        habits=None if kernel.plans is None else kernel.plans.habits,
    )


def pointer_args(launch: Launch, buffers: Sequence[VirtualBuffer]) -> tuple[PointerArg, ...]:
    """Where each pointer argument that is not NULL points, by slot. What it can reach is all of its buffer: what lies beside a
    sub-buffer is not for its kernels (specification 5.2.1), but on one device nothing keeps them from it, and programs that lay out
    structures in one buffer, with distances between them, count on that.
    """
    found = []
    for index in launch.kernel.pointers:
        arg = launch.args[index]
        if isinstance(arg, BufferArg):
            slot = buffers.index(arg.buffer)
            found.append(pointer_into(index, slot, arg.offset, arg.buffer.nbytes, arg.nbytes))
    return tuple(found)


def pointer_into(arg: int, slot: int, offset: int, size: int, own: int) -> PointerArg:
    """An argument that points into a buffer of `size` bytes."""
    return PointerArg(arg, slot, offset, size - offset, offset, own)


def evaluator(
    kernel: SessionKernel,
    launch: Launch,
    pointers: Sequence[PointerArg],
    ndrange: NDRange | None = None,
    values: Mapping[int, Any] | None = None,
) -> Callable[[Chunk], Sequence[AccessRange]]:
    """The access ranges of a chunk of `launch`.

    `ndrange`, `values`: another index space and other scalars, by argument, than those of the launch.
    """
    summary = kernel.summary
    if summary is None:  # only the worker's compiler understands the kernel
        return everything(pointers)
    if values is None:
        values = {index: scalar_value(kernel, index, launch.args[index]) for index in kernel.scalars}
    ndrange = launch.ndrange if ndrange is None else ndrange
    sizes = {pointer.arg: pointer.nbytes for pointer in pointers}
    before = {
        pointer.arg: pointer.before
        for pointer in pointers
        if type(pointer.before) is not int or pointer.before
    }
    ranges: LaunchRanges | None = None

    def evaluate(chunk: Chunk) -> Sequence[AccessRange]:
        nonlocal ranges
        try:
            if ranges is None:
                ranges = summary.of_launch(ndrange, values, sizes, before)
            return ranges.of(chunk)
        except Exception as error:
            # A fault of ours must not become the program's: the launch still runs, on one worker.
            logger.exception("the access ranges of kernel %s could not be evaluated", kernel.name)
            raise EvaluationFault from error

    return evaluate


def everything(pointers: Sequence[PointerArg]) -> Callable[[Chunk], Sequence[AccessRange]]:
    """What a kernel may do of which nothing is known: read and write everything that it is given."""
    ranges = [
        AccessRange(pointer.arg, mode, Region.span(0, pointer.before + pointer.nbytes), exact=False)
        for pointer in pointers
        for mode in ("read", "write")
    ]
    return lambda chunk: ranges


class RangeCache:
    """The access ranges of one kernel's chunks, by everything that they depend on.

    That is less than a plan depends on: a loop that goes through the same index spaces and numbers again, with
    buffers in other states, evaluates nothing again.
    """

    __slots__ = ("_known", "_nboxes")

    def __init__(self) -> None:
        self._known: dict[Any, Sequence[AccessRange]] = {}
        self._nboxes = 0

    def remember(
        self, key: Any, evaluate: Callable[[Chunk], Sequence[AccessRange]]
    ) -> Callable[[Chunk], Sequence[AccessRange]]:
        """`evaluate`, which depends only on `key` and the chunk, with a memory."""

        def known_or_evaluated(chunk: Chunk) -> Sequence[AccessRange]:
            found = self._known.get((key, chunk))
            if found is None:
                found = evaluate(chunk)
                self._nboxes += sum(item.region.nboxes + 1 for item in found)
                if self._nboxes > _MOST_BOXES:
                    self._known.clear()
                    self._nboxes = 0
                self._known[key, chunk] = found
            return found

        return known_or_evaluated


def scalar_value(kernel: SessionKernel, index: int, content: Any) -> Any:
    """The number in the bytes of a value argument; for a vector or a structure, the bytes themselves."""
    code = kernel.info.args[index].scalar
    return content if code is None else struct.unpack("=" + code, content)[0]


def scalar_readers(kernel: SessionKernel) -> tuple[Reader, ...]:
    """The value arguments on which a kernel's ranges depend, in order, and how the number is read from each."""
    codes = [(index, kernel.info.args[index].scalar) for index in sorted(kernel.scalars)]
    return tuple((index, None if code is None else struct.Struct("=" + code).unpack) for index, code in codes)


def recipe_of(
    launch: Launch, partition: Sequence[tuple[int, Chunk]], executor: Executor
) -> LaunchRecipe | None:
    """The kernel that runs these chunks; None if none runs chunks with cycles."""
    kernel, program = launch.kernel, launch.kernel.program
    native, subgrid = program.native, kernel.subgrid
    if any(chunk.cycle is not None for _, chunk in partition):
        renumbered = program.renumbered(executor.build)
        if renumbered is None:
            return None
        native, subgrid = renumbered.native, renumbered.kernels[kernel.name]
    return LaunchRecipe(native, kernel.name, launch.ndrange, hidden_packer(subgrid))


def hidden_packer(
    subgrid: SubgridKernel | None,
) -> Callable[[NDRange, Chunk | None, tuple[tuple[int, int], ...]], bytes] | None:
    """Fills the hidden argument of a chunk, or of the whole NDRange if there is none; None for a kernel without one."""
    if subgrid is None:
        return None

    #: the last shifts, and these packed: launches over one index space after the other have the same
    known: tuple[tuple[tuple[int, int], ...] | None, bytes] = (None, b"")
    pack_space, pack_whole = subgrid.packed_space, subgrid.packed_whole

    def pack(ndrange: NDRange, chunk: Chunk | None, shifts: tuple[tuple[int, int], ...]) -> bytes:
        nonlocal known
        before, packed = known
        if shifts is not before:
            by_arg = dict(shifts)
            packed = subgrid.packed_shifts([by_arg.get(arg, 0) for arg in subgrid.pointer_args])
            known = shifts, packed
        return pack_whole(ndrange, packed) if chunk is None else pack_space(ndrange, chunk) + packed

    return pack
