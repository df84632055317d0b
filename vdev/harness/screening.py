"""One launch in a form that says only whether there may be a finding: fast, and complete if there is none.

Decides when that form may be used and when its answer is no. It changes the memories of a launch only if
nothing was found; otherwise the launch is repeated from what they hold, with precise checks (`checked_launch`).

Each work-item marks in the shadow what it writes and reads, without atomics, and counts its group's first marks. If two
groups mark the same cell, in any order, there are more first marks than marked cells (`_agrees`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from math import prod

import numpy as np

from vdev.backends.base import (
    Allocation,
    Backend,
    BackendProgram,
    Box,
    Bytes,
    KernelArgument,
    LaunchShape,
    LocalBytes,
)
from vdev.errors import BackendError, BuildFailure
from vdev.harness.forms import Forms
from vdev.harness.memories import (
    Argument,
    Mask,
    Memory,
    Pointer,
    local_room,
    memories_of,
    memory_limit,
    size_of,
)
from vdev.translators.dialects.checked import CheckedKernel, CheckedProgram
from vdev.translators.dialects.checked.program import FAST_COUNTERS
from vdev.translators.frontend.kernels import Untranslatable
from vdev.translators.frontend.source import ArgKind
from vdev.translators.ranges.ndrange import NDRange, whole_chunk

logger = logging.getLogger("vdev.harness")

_LOCAL_CELL_NBYTES = 8
_BY_ATOMIC = 0xFFFFFFFE
_INITIAL = 1  #: the mark of what has been written before the launch
_FIRST = 2  #: the mark of the first work-item
_MOST_ITEMS = 1 << 30
_PIECE = 1 << 22  #: cells looked at in one go


class Screen:
    """A program's fast form."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._natives: list[BackendProgram] = []

    @functools.cached_property
    def program(self) -> CheckedProgram | None:
        try:
            program = self._forms.fast
        except Untranslatable as reason:
            logger.debug("a program has no fast form: %s", reason)
            return None
        if program is None:
            return None
        options = [(*program.options, f"-D{program.inits_macro}={inits}") for inits in (0, 1)]
        self._natives = [BackendProgram(program.source, each) for each in options]
        return program

    def prepare(self, backend: Backend) -> bool:
        """Build it, as the first launch of a new text does. Whether there is such a form."""
        if self.program is None:
            return False
        try:
            backend.build(self._natives[0])
        except BuildFailure as failure:
            logger.debug("the fast form of a program does not compile: %s", failure.log)
        return True

    def passes(self, backend: Backend, name: str, args: Sequence[Argument], ndrange: NDRange) -> bool:
        """Run the kernel. True if there are no findings; the arguments' memories are then as it leaves them. False if there
        may be findings.
        """
        kernel = None if self.program is None else self.program.kernels.get(name)
        if self.program is None or kernel is None or not _is_plain(ndrange):
            return False
        run = _Screening(self.program, kernel, args, ndrange)
        if not run.possible or run.nbytes > memory_limit(args):
            return False
        native = self._natives[int(run.inits)]
        try:
            backend.build(native)
            return run.passes(backend, native)
        except (BuildFailure, BackendError) as reason:
            logger.debug("kernel %s: the fast form does not run: %s", name, reason)
            return False


def _is_plain(ndrange: NDRange) -> bool:
    """Whether the numbers of groups and items fit their fields, and all groups have the same size."""
    sizes = zip(ndrange.global_size, ndrange.local_size, strict=True)
    return prod(ndrange.global_size) < _MOST_ITEMS and not any(size % group for size, group in sizes)


class _Screening:
    """The memory of one launch on a worker."""

    def __init__(
        self, program: CheckedProgram, kernel: CheckedKernel, args: Sequence[Argument], ndrange: NDRange
    ) -> None:
        self._program = program
        self._kernel = kernel
        self._args = args
        self._ndrange = ndrange
        self._memories = memories_of(args)
        self._written = self._behind(kernel.written)
        read_alone = self._behind(kernel.read - kernel.written)
        granule = program.granule
        self.inits = any(not self._memories[slot].is_written for slot in read_alone)
        shadowed = sorted(self._written | (read_alone if self.inits else set()))
        starts = [arg for arg in args if isinstance(arg, Pointer)]
        #: by memory that has shadow: its first cell
        self._cells: dict[int, int] = {}
        total = 0
        for slot in shadowed:
            self._cells[slot] = total
            total += -(-self._memories[slot].nbytes // granule)
        self._ncells = total
        self._reads = bool(kernel.written & kernel.read)
        self._local_cells = 0
        #: the fast form cannot handle a memory that is written under one name and only read under another
        self.possible = not (self._written & read_alone) and all(arg.offset % granule == 0 for arg in starts)
        self._natives: list[Allocation] = []
        self._kept: list[Bytes] = []

    @property
    def nbytes(self) -> int:
        """Bytes of copies, shadow memory and counters, and of what is looked at here in one go."""
        copies = sum(memory.nbytes for memory in self._memories)
        cells = 4 * self._ncells * (2 if self._reads else 1)
        counters = 4 * min(prod(self._ndrange.global_size), FAST_COUNTERS)
        return copies + cells + 2 * counters + min(cells, 8 * _PIECE)

    def _behind(self, roots: frozenset[int]) -> set[int]:
        """The memories of roots."""
        found = set()
        for number in roots:
            root = self._kernel.roots[number]
            arg = None if root.arg is None else self._args[root.arg]
            if isinstance(arg, Pointer):
                found.add(self._slot(arg.memory))
        return found

    def _slot(self, memory: Memory) -> int:
        return next(slot for slot, known in enumerate(self._memories) if known is memory)

    def passes(self, backend: Backend, native: BackendProgram) -> bool:
        try:
            return self._passes(backend, native)
        finally:
            for allocation in self._natives:
                backend.free(allocation)

    def _passes(self, backend: Backend, native: BackendProgram) -> bool:
        items = prod(self._ndrange.global_size)
        exclusive = items <= FAST_COUNTERS
        scratch = 2 * self._program.scratch_nbytes
        numbers = self._numbers(items if exclusive else 0)
        local = LocalBytes(scratch + _LOCAL_CELL_NBYTES * max(1, self._local_cells))
        needed, room = local_room(backend, native, self._kernel.name, self._args, local)
        if needed > room:
            return False
        contents = [self._uploaded(backend, memory.content) for memory in self._memories]
        backend.record().wait()
        self._kept.clear()
        for memory in self._memories:
            memory.taken()
        hidden = [
            self._uploaded(backend, np.array(numbers, np.uint64).view(np.uint8)),
            cells := self._shadow(backend),
            log := self._filled(backend, scratch + 4 * (1 + min(items, FAST_COUNTERS))),
        ]
        args: list[KernelArgument] = [
            (contents[self._slot(arg.memory)], arg.offset) if isinstance(arg, Pointer) else arg
            for arg in self._args
        ]
        grid = self._ndrange
        shape = LaunchShape(grid, whole_chunk(grid), grid.global_size, grid.local_size, grid.offset, (), None)
        given: list[KernelArgument] = [*args, hidden[0], cells, cells, log, local]
        backend.launch(backend.kernel(native, self._kernel.name), given, shape)
        found = self._read(backend, log, scratch, 1 + min(items, FAST_COUNTERS))
        if found[0] or not self._agrees(backend, cells, int(found[1:].sum(dtype=np.uint64))):
            return False
        for slot in sorted(self._written):
            if self._memories[slot].is_kept:
                content = self._memories[slot].content
                backend.read(contents[slot], content, Box.contiguous(0, 0, len(content)))
        backend.record().wait()
        return True

    def _numbers(self, counters: int) -> list[int]:
        """What the kernel is told: see `checked_fast.cl`."""
        found: list[int] = []
        for root in self._kernel.roots:
            nbytes = size_of(root, self._args)
            cell = 0
            if root.space is ArgKind.LOCAL:
                cell = self._local_cells
                self._local_cells += -(-nbytes // self._program.granule)
            else:
                arg = None if root.arg is None else self._args[root.arg]
                if isinstance(arg, Pointer):
                    cell = self._cells.get(self._slot(arg.memory), 0) + arg.offset // self._program.granule
            found += [nbytes, cell]
        return [self._local_cells, self._bits, counters, self._ncells, *found]

    def _uploaded(self, backend: Backend, content: Bytes) -> Allocation:
        allocation = backend.allocate(max(1, len(content)))
        self._natives.append(allocation)
        self._kept.append(content)  # until the worker has taken it
        backend.write(allocation, content, Box.contiguous(0, 0, len(content)))
        return allocation

    def _filled(self, backend: Backend, nbytes: int) -> Allocation:
        allocation = backend.allocate(nbytes)
        self._natives.append(allocation)
        backend.fill(allocation, 0, nbytes, bytes(4))
        return allocation

    def _shadow(self, backend: Backend) -> Allocation:
        """A mark for each granule's writer, and behind them one for each granule's reader."""
        allocation = self._filled(backend, 4 * max(1, self._ncells * (2 if self._reads else 1)))
        granule = self._program.granule
        for slot, first in self._cells.items():
            written = self._memories[slot].written
            count = -(-len(written) // granule)
            if self._memories[slot].is_written:
                backend.fill(allocation, 4 * first, 4 * count, _INITIAL.to_bytes(4, "little"))
            elif written.any():
                padded = np.ones(count * granule, np.bool_)
                padded[: len(written)] = written
                whole: Mask = np.asarray(padded.reshape(-1, granule).all(axis=1))
                marks = whole.astype(np.uint32).view(np.uint8)
                self._kept.append(marks)
                backend.write(allocation, marks, Box.contiguous(0, 4 * first, len(marks)))
        return allocation

    def _agrees(self, backend: Backend, cells: Allocation, claims: int) -> bool:
        """Whether no cell belongs to two work-groups. If so, it is known what was written."""
        marked = 0
        found: dict[int, list[np.ndarray]] = {slot: [] for slot in self._written}
        granule = self._program.granule
        for slot in self._written:
            first = self._cells[slot]
            stop = first + -(-self._memories[slot].nbytes // granule)
            for start in range(first, stop, _PIECE):
                count = min(_PIECE, stop - start)
                writers = self._read(backend, cells, 4 * start, count)
                touched = writers > _INITIAL
                if self._reads:
                    readers = self._read(backend, cells, 4 * (self._ncells + start), count)
                    both = touched & (readers != 0)
                    if np.any(self._groups(writers[both]) != self._groups(readers[both])):
                        return False
                    marked += int(np.count_nonzero(readers))
                    marked += int(np.count_nonzero(touched))
                    touched |= readers == _BY_ATOMIC
                else:
                    marked += int(np.count_nonzero(touched))
                found[slot].append(touched)
        if marked != claims:
            return False
        for slot, pieces in found.items():
            if self._memories[slot].is_kept:
                self._memories[slot].mark(np.concatenate(pieces), granule)
        return True

    @property
    def _bits(self) -> int:
        """Bits of a work-item in a mark: there are two more marks than work-items."""
        return (prod(self._ndrange.global_size) + _FIRST + 2).bit_length()

    def _groups(self, marks: np.ndarray) -> np.ndarray:
        """By mark of a work-item: its group. The mark for several groups, or for atomics, is beyond all groups."""
        items = (marks & np.uint32((1 << self._bits) - 1)) - np.uint32(_FIRST)
        return np.asarray(items // np.uint32(prod(self._ndrange.local_size)))

    def _read(self, backend: Backend, source: Allocation, start: int, words: int) -> np.ndarray:
        """32-bit words, from byte `start` on."""
        found = np.empty(4 * words, np.uint8)
        backend.read(source, found, Box.contiguous(start, 0, len(found)))
        backend.record().wait()
        return found.view(np.uint32)
