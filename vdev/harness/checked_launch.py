"""One checked launch on a worker: uploads memory, shadow memory and log, runs the kernel, and downloads them again.

Decides how the hidden arguments are filled in and what the launch returns: contents, what was written, findings. A
launch that cannot be checked is refused, with the reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

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
from vdev.harness.findings import Finding
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
    whole,
)
from vdev.harness.reading import Reader, Writer, records, table_of
from vdev.harness.screening import Screen
from vdev.harness.small import FLEETING, SmallLaunches, may_be_fleeting
from vdev.session.program_cache import CachedProgram
from vdev.translators.dialects.checked import CheckedKernel, CheckedProgram, Root
from vdev.translators.frontend.kernels import Untranslatable
from vdev.translators.frontend.source import ArgKind, ParsedProgram
from vdev.translators.ranges.ndrange import NDRange, whole_chunk
from vdev.translators.values import dataclass

__all__ = ["Argument", "Checked", "CheckedSource", "Memory", "NotCheckable", "Pointer", "whole"]

logger = logging.getLogger("vdev.harness")

_PIECE_NBYTES = 1 << 25  #: of shadow, looked at in one go
#: Of shadow for each granule of global memory, with marks of work-items and without.
_WIDE_CELL_NBYTES, _NARROW_CELL_NBYTES = 16, 8
_NARROW = "races between work-items of a group on global memory are not checked: the shadow would take too much memory"
_LOCAL_CELL_NBYTES = 24
#: The most shadow of local memory behind the log: every work-group has its own.
_MOST_FAR_NBYTES = 1 << 29


class NotCheckable(Exception):
    """A program or launch that cannot be checked; the text says why."""


@dataclass
class Checked:
    """What a checked launch showed. `notes`: (line, what was not checked and why). `writers`: of each place that was
    asked about.
    """

    findings: list[Finding]
    notes: list[tuple[int, str]] = field(default_factory=list)
    writers: list[Writer | None] = field(default_factory=list)


class CheckedSource:
    """A program made checkable, built on first use.

    `parsed`: the program without images, or a function that makes it when needed and may raise Untranslatable;
    `source`: the user's text; `kept`: where the checkable forms are kept. Raises NotCheckable.
    """

    def __init__(
        self,
        parsed: ParsedProgram | Callable[[], ParsedProgram],
        file: str = "",
        source: str | None = None,
        *,
        kinds: frozenset[str] = frozenset(),
        tracked: bool = False,
        kept: CachedProgram | None = None,
    ) -> None:
        self._parse: Callable[[], ParsedProgram] = (
            (lambda: parsed) if isinstance(parsed, ParsedProgram) else parsed
        )
        self._forms = Forms(self._parse, kinds, tracked=tracked, kept=kept)
        self._source, self._file = source, file
        self._natives: dict[tuple[bool, bool, bool], BackendProgram] = {}
        self._screen = Screen(self._forms)
        self._small = SmallLaunches()

    @property
    def skipped(self) -> tuple[tuple[int, str], ...]:
        """(line, what is not checked and why)"""
        try:
            return self._forms.skipped
        except Untranslatable as error:
            raise NotCheckable(str(error)) from error

    @property
    def program(self) -> CheckedProgram:
        """The precise form."""
        try:
            return self._forms.precise
        except Untranslatable as error:
            raise NotCheckable(str(error)) from error

    @cached_property
    def _reader(self) -> Reader:
        text = self._parse().source if self._source is None else self._source
        return Reader(self.program, text, self._file)

    def prepare(self, backend: Backend) -> None:
        """Build what the first launch, a small one, needs. Raises NotCheckable."""
        if self._may_be_fleeting(backend):
            self._build(backend, self._native(fleeting=True))
        elif not self._screen.prepare(backend):
            self._build(backend, self._native())

    def expect_many(self, name: str) -> None:
        """Run small launches of a kernel in optimised forms from the first one on, as happens after many of them
        anyway.
        """
        self._small.stop(name)

    def _may_be_fleeting(self, backend: Backend) -> bool:
        """Whether the program can do without its compiler's optimiser. Intel's engine crashes when work-items in
        unoptimised code wait for each other in loops that some of them leave.
        """
        try:
            return may_be_fleeting(backend) and not self._forms.waits
        except Untranslatable as error:
            raise NotCheckable(str(error)) from error

    @staticmethod
    def _build(backend: Backend, program: BackendProgram) -> None:
        try:
            backend.build(program)
        except BuildFailure as failure:
            raise NotCheckable(
                f"the checked program does not compile: {_first_error(failure.log)}"
            ) from failure

    def _native(self, *, far: bool = False, narrow: bool = False, fleeting: bool = False) -> BackendProgram:
        found = self._natives.get((far, narrow, fleeting))
        if found is None:
            macros = [self.program.far_macro] * far + [self.program.narrow_macro] * narrow
            text = "".join(f"#define {macro}\n" for macro in macros) + self.program.source
            options = (*self.program.options, *([FLEETING] if fleeting else []))
            found = self._natives[far, narrow, fleeting] = BackendProgram(text, options)
        return found

    def launch(
        self,
        backend: Backend,
        name: str,
        args: Sequence[Argument],
        ndrange: NDRange,
        places: Sequence[tuple[int, int, int]] = (),
    ) -> Checked:
        """Run a kernel on `backend`, on the contents of its arguments' memories, which it changes; waits.

        `places`, of a tracked program: the (argument, first byte, bytes) whose last writers are wanted.
        """
        if not places and self.passes(backend, name, args, ndrange):
            return Checked([])
        return self.precisely(backend, name, args, ndrange, places)

    def passes(self, backend: Backend, name: str, args: Sequence[Argument], ndrange: NDRange) -> bool:
        """The first half of `launch`: whether the launch has been made and has no findings. If not, memories that are
        kept are as before.
        """
        if self._small.takes(name, args, ndrange) and self._may_be_fleeting(backend):
            found = self._passes_fleetingly(backend, name, args, ndrange)
            if found is not None:
                return found
        return self._screen.passes(backend, name, args, ndrange)

    def _passes_fleetingly(
        self, backend: Backend, name: str, args: Sequence[Argument], ndrange: NDRange
    ) -> bool | None:
        """The same with the precise form, compiled without optimisation. None: the launch has not been made."""
        try:
            program = self._native(fleeting=True)
            self._build(backend, program)
            run = self._run(name, args)
            self._fit(run, args)
            if run.needs_far(backend, program, ndrange) or run.narrow:
                raise NotCheckable("there is too little memory for shadow memory")
        except NotCheckable as reason:
            logger.debug("kernel %s: no check without optimisation: %s", name, reason)
            self._small.stop(name)
            return None
        started = time.monotonic()
        try:
            checked = self._ran(run, backend, program, name, args, ndrange, only_clean=True)
        except BackendError as reason:
            logger.debug("kernel %s: the check without optimisation does not run: %s", name, reason)
            self._small.stop(name)
            return False
        self._small.spent(name, time.monotonic() - started)
        if checked.findings or checked.notes:
            self._small.stop(name)
            return False
        return True

    def precisely(
        self,
        backend: Backend,
        name: str,
        args: Sequence[Argument],
        ndrange: NDRange,
        places: Sequence[tuple[int, int, int]] = (),
    ) -> Checked:
        """The second half."""
        try:
            self._build(backend, self._native())
            run = self._run(name, args, places)
            far = run.needs_far(backend, self._native(), ndrange)
            self._fit(run, args)
            native = self._native(far=far, narrow=run.narrow)
            return self._ran(run, backend, native, name, args, ndrange, len(places))
        except BackendError as error:
            raise NotCheckable(f"the checked launch did not run: {error}") from error

    def _run(self, name: str, args: Sequence[Argument], places: Sequence[tuple[int, int, int]] = ()) -> _Run:
        kernel = self.program.kernels[name]
        return _Run(self.program, kernel, args, table_of(places, kernel))

    @staticmethod
    def _fit(run: _Run, args: Sequence[Argument]) -> None:
        """Use less shadow if memory is short. Raises NotCheckable."""
        limit = memory_limit(args)
        if run.nbytes > limit:
            run.narrow = True
        if run.nbytes > limit:
            raise NotCheckable(
                f"it would take {_megabytes(run.nbytes)} MB for copies of its buffers and shadow memory, and the limit is "
                f"{_megabytes(limit)} MB (VDEV_CHECK_MEMORY)"
            )

    def _ran(
        self,
        run: _Run,
        backend: Backend,
        native: BackendProgram,
        name: str,
        args: Sequence[Argument],
        ndrange: NDRange,
        nplaces: int = 0,
        *,
        only_clean: bool = False,
    ) -> Checked:
        """What the launch shows. `only_clean`: memories receive its results only if it has no findings."""
        try:
            run.upload(backend)
            log = run.launch(backend, native, ndrange)
            checked = self._read(run, log, name, args, ndrange, nplaces)
            if not (only_clean and (checked.findings or checked.notes)):
                run.keep(backend)
        finally:
            run.free(backend)
        return checked

    def _read(
        self,
        run: _Run,
        log: npt.NDArray[np.uint32],
        name: str,
        args: Sequence[Argument],
        ndrange: NDRange,
        nplaces: int,
    ) -> Checked:
        kernel, words = self.program.kernels[name], self.program.log_words
        found = list(records(log[:words], len(self.program.sites)))
        sizes = [size_of(root, args) for root in kernel.roots]
        return Checked(
            self._reader.findings(kernel, found, ndrange, sizes),
            [*([(self._reader.line_of(kernel), _NARROW)] if run.narrow else []), *self._reader.notes(found)],
            self._reader.writers(log[words:], nplaces, ndrange),
        )


def _megabytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.1f}"


def _first_error(log: str) -> str:
    """The first line of a compiler's log that reports an error."""
    lines = log.strip().splitlines()
    return next((line.strip() for line in lines if "error" in line), lines[0] if lines else "no reason given")


class _Run:
    """The memory of one launch on a worker."""

    def __init__(
        self, program: CheckedProgram, kernel: CheckedKernel, args: Sequence[Argument], table: Bytes
    ) -> None:
        self._program = program
        self._table = table  #: of the places whose writers are wanted
        self._kernel = kernel
        self._args = args
        self._memories = memories_of(args)
        self._granule = granule = program.granule
        sizes = [-(-memory.nbytes // granule) for memory in self._memories]
        #: by memory, and at the end: the number of granules before it
        self._starts = [0, *(int(n) for n in np.cumsum(sizes))]
        self._kept: list[Bytes] = []  # until the worker has taken them
        self._natives: list[Allocation] = []
        self._hidden: list[Allocation] = []
        self._local_cells = 0
        self._head = self._numbers()
        self._far_nbytes = 0
        self.narrow = False  #: whether the shadow of global memory has no marks of work-items

    @property
    def _cell_nbytes(self) -> int:
        return _NARROW_CELL_NBYTES if self.narrow else _WIDE_CELL_NBYTES

    def _slot(self, memory: Memory) -> int | None:
        return next((slot for slot, known in enumerate(self._memories) if known is memory), None)

    @property
    def nbytes(self) -> int:
        """Bytes of copies, of shadow memory and its initial content, and of what is looked at here in one go."""
        copies, cells = sum(memory.nbytes for memory in self._memories), self._starts[-1]
        looked_at = min(self._cell_nbytes * cells, _PIECE_NBYTES)
        return copies + (self._cell_nbytes + 2) * cells + looked_at + self._far_nbytes

    def upload(self, backend: Backend) -> None:
        """Allocate and fill everything that the kernel gets."""
        for memory in self._memories:
            self._natives.append(self._uploaded(backend, memory.content))
            backend.record().wait()
            self._kept.clear()
            memory.taken()
        self._hidden.append(self._uploaded(backend, np.array(self._head, np.uint64).view(np.uint8)))
        self._hidden.append(self._filled(backend, self._cell_nbytes * max(1, self._starts[-1])))
        self._hidden.append(self._initial(backend))
        self._hidden.append(self._filled(backend, self._program.far_offset + self._far_nbytes))
        if len(self._table):
            start = 2 * self._program.scratch_nbytes + 4 * self._program.log_words
            backend.write(self._hidden[-1], self._table, Box.contiguous(0, start, len(self._table)))

    def launch(self, backend: Backend, program: BackendProgram, ndrange: NDRange) -> npt.NDArray[np.uint32]:
        """Run the kernel. The log."""
        scratch = 2 * self._program.scratch_nbytes
        near = 0 if self._far_nbytes else max(1, self._local_cells) * _LOCAL_CELL_NBYTES
        local = LocalBytes(scratch + near)
        args = [*(self._native(arg) for arg in self._args), *self._hidden, local]
        size, group, first = ndrange.global_size, ndrange.local_size, ndrange.offset
        shape = LaunchShape(ndrange, whole_chunk(ndrange), size, group, first, (), None)
        backend.launch(backend.kernel(program, self._kernel.name), args, shape)
        log = self._hidden[-1]
        found = np.empty(self._program.far_offset, np.uint8)
        backend.read(log, found, Box.contiguous(0, 0, len(found)))
        backend.record().wait()
        return found[scratch:].view(np.uint32)

    def keep(self, backend: Backend) -> None:
        """Bring the memories up to date."""
        for memory, native in zip(self._memories, self._natives, strict=True):
            if memory.is_kept:
                backend.read(native, memory.content, Box.contiguous(0, 0, memory.nbytes))
        backend.record().wait()
        if any(memory.is_kept for memory in self._memories):
            self._mark(self._touched(backend, self._hidden[1]))

    def free(self, backend: Backend) -> None:
        for allocation in (*self._natives, *self._hidden):
            backend.free(allocation)

    def _uploaded(self, backend: Backend, content: Bytes) -> Allocation:
        allocation = backend.allocate(max(1, len(content)))
        self._kept.append(content)
        backend.write(allocation, content, Box.contiguous(0, 0, len(content)))
        return allocation

    @staticmethod
    def _filled(backend: Backend, nbytes: int) -> Allocation:
        allocation = backend.allocate(nbytes)
        backend.fill(allocation, 0, nbytes, bytes(4))
        return allocation

    def _numbers(self) -> list[int]:
        """What the kernel is told about its roots."""
        sizes, cells = [], []
        for root in self._kernel.roots:
            nbytes = size_of(root, self._args)
            sizes.append(nbytes)
            if root.space is ArgKind.LOCAL:
                cells.append(self._local_cells)
                self._local_cells += -(-nbytes // self._granule)
            else:
                cells.append(self._first_cell(root))
        return self._program.numbers(sizes, cells, self._local_cells)

    def _first_cell(self, root: Root) -> int:
        arg = None if root.arg is None else self._args[root.arg]
        slot = self._slot(arg.memory) if isinstance(arg, Pointer) else None
        if not isinstance(arg, Pointer) or slot is None:
            return 0
        return self._starts[slot] + arg.offset // self._granule

    def _initial(self, backend: Backend) -> Allocation:
        """A byte for each granule: whether all of it is written."""
        granule = self._granule
        allocation = backend.allocate(max(1, self._starts[-1]))
        backend.fill(allocation, 0, max(1, self._starts[-1]), b"\1")
        for memory, start in zip(self._memories, self._starts, strict=False):
            if memory.is_written:
                continue
            padded = np.ones(-(-memory.nbytes // granule) * granule, np.bool_)
            padded[: memory.nbytes] = memory.written
            marks = np.asarray(padded.reshape(-1, granule).all(axis=1)).astype(np.uint8)
            self._kept.append(marks)
            backend.write(allocation, marks, Box.contiguous(0, start, len(marks)))
        return allocation

    def _touched(self, backend: Backend, cells: Allocation) -> Mask:
        """By granule: whether it has been written."""
        found = np.zeros(self._starts[-1], np.bool_)
        nbytes = self._cell_nbytes
        step = _PIECE_NBYTES // nbytes
        for first in range(0, len(found), step):
            piece = np.empty(nbytes * min(step, len(found) - first), np.uint8)
            backend.read(cells, piece, Box.contiguous(nbytes * first, 0, len(piece)))
            backend.record().wait()
            found[first : first + step] = piece.view(np.uint32)[:: nbytes // 4] != 0
        return found

    def _mark(self, touched: Mask) -> None:
        for memory, start in zip(self._memories, self._starts, strict=False):
            memory.mark(touched[start : start + -(-memory.nbytes // self._granule)], self._granule)

    def _native(self, arg: Argument) -> KernelArgument:
        if not isinstance(arg, Pointer):
            return arg
        slot = self._slot(arg.memory)
        assert slot is not None
        return self._natives[slot] if not arg.offset else (self._natives[slot], arg.offset)

    def needs_far(self, backend: Backend, program: BackendProgram, ndrange: NDRange) -> bool:
        """Whether there is no room in local memory for its own shadow. Raises NotCheckable if there is no room
        elsewhere either.
        """
        scratch = LocalBytes(2 * self._program.scratch_nbytes)
        needed, room = local_room(backend, program, self._kernel.name, self._args, scratch)
        if needed + self._local_cells * _LOCAL_CELL_NBYTES <= room:
            return False
        ngroups = prod(
            -(-size // group) for size, group in zip(ndrange.global_size, ndrange.local_size, strict=True)
        )
        self._far_nbytes = ngroups * self._local_cells * _LOCAL_CELL_NBYTES
        if needed > room or self._far_nbytes > _MOST_FAR_NBYTES:
            raise NotCheckable(
                f"checking the local memory of kernel {self._kernel.name} in {ngroups} work-groups needs "
                f"{self._far_nbytes >> 20} MiB, and the limit is {_MOST_FAR_NBYTES >> 20} MiB"
            )
        return True
