"""Repeats launches with programs that count, and adds the counts to the process's data.

Decides when a program becomes known (as soon as it is built, so that kernels that are never launched count as not
covered), and that no launch fails because it cannot be counted: the reason becomes a note.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from vdev.backends.base import Backend, BackendProgram
from vdev.errors import BackendError, BuildFailure
from vdev.harness.checked_launch import Argument, Memory, Pointer
from vdev.harness.coverage.data import Data, FileCount
from vdev.harness.coverage.places import Places
from vdev.harness.running import whole_launch
from vdev.session.programs import SessionProgram
from vdev.translators.dialects.counted import CountedProgram, translate_counted
from vdev.translators.frontend.kernels import Untranslatable
from vdev.translators.ranges.ndrange import NDRange

Counters = npt.NDArray[np.uint8]
#: Runs a function with a worker's back end and returns its result.
Caller = Callable[[Callable[[Backend], Counters]], Counters]


class Counting:
    """What the launches of this process have covered. `root`: file names are relative to it."""

    def __init__(self, root: Path) -> None:
        self.data = Data()
        self._root = root.absolute()
        self._lock = threading.Lock()
        self._sources: WeakKeyDictionary[SessionProgram, _Source | None] = WeakKeyDictionary()

    def built(self, program: SessionProgram, file: str = "") -> None:
        """A program has been built, from `file` if it came from one."""
        with self._lock:
            self._source(program, file)

    def launch(
        self, program: SessionProgram, name: str, args: Sequence[Argument], ndrange: NDRange, call: Caller
    ) -> None:
        """A kernel is being launched: also launch it in the program that counts, which changes the contents of
        `args`.
        """
        with self._lock:
            source = self._source(program, "")
        if source is None:
            return
        try:
            counters = call(lambda backend: source.launch(backend, name, args, ndrange))
        except (BuildFailure, BackendError, MemoryError) as error:
            self.lost(program, name, error.log if isinstance(error, BuildFailure) else str(error))
            return
        with self._lock:
            self.data.nlaunches += 1
            source.add(self.data, counters)

    def lost(self, program: SessionProgram, name: str, reason: str) -> None:
        """Launches of a kernel are not counted, and why."""
        with self._lock:
            source = self._source(program, "")
            lines = [line.strip() for line in reason.splitlines() if line.strip()]
            first = next(
                (line for line in lines if "error" in line), lines[0] if lines else "no reason given"
            )
            if source is not None:
                self.data.notes.add((source.name, 0, f"launches of kernel {name}: {first}"))

    def _source(self, program: SessionProgram, file: str) -> _Source | None:
        if program not in self._sources:
            self._sources[program] = self._made(program, file)
        return self._sources[program]

    def _made(self, program: SessionProgram, file: str) -> _Source | None:
        if not isinstance(program.source, str):
            return None  # an intermediate language has no lines
        places = Places(program.source, file, self._root, next(iter(program.kernels), "program"))
        try:
            if program.lowered is None:
                raise Untranslatable("; ".join(map(str, program.reasons)))
            source = _Source(translate_counted(program.lowered.program), places)
        except Untranslatable as error:
            self.data.notes.add((places.main.name, error.line + places.main.shift, error.reason))
            return None
        source.add(self.data, np.zeros(source.program.ncounters, np.uint8))
        return source


class _Source:
    """One program that counts."""

    def __init__(self, program: CountedProgram, places: Places) -> None:
        self.program = program
        self.name = places.main.name
        self._places = places
        self._known: dict[str, tuple[int, FileCount]] | None = None
        self._native = BackendProgram(program.source, program.options)

    def launch(self, backend: Backend, name: str, args: Sequence[Argument], ndrange: NDRange) -> Counters:
        """The counters that the launch sets."""
        nbytes = max(1, self.program.ncounters)
        memory = Memory(np.zeros(nbytes, np.uint8), np.ones(nbytes, np.bool_))
        whole_launch(backend, self._native, name, [*args, Pointer(memory, 0, nbytes)], ndrange)
        return memory.content

    def add(self, data: Data, counters: Counters) -> None:
        """Add what a launch has counted to the files' counts."""
        hits = [int(number != 0) for number in counters]
        counts = self._counts(data)
        for statement in self.program.statements:
            if statement.file in counts:
                shift, count = counts[statement.file]
                key = statement.line + shift, statement.ordinal
                count.add_statement(key, statement.stop + shift, hits[statement.counter])
        for branch in self.program.branches:
            if branch.file in counts:
                shift, count = counts[branch.file]
                where = branch.line + shift, branch.ordinal, branch.kind
                for outcome, counter in branch.outcomes:
                    count.add_outcome(where, branch.text, outcome, hits[counter])
        for function in self.program.functions:
            if function.file in counts:
                shift, count = counts[function.file]
                which = function.line + shift, function.name, function.kernel
                count.add_function(which, hits[function.counter])

    def _counts(self, data: Data) -> dict[str, tuple[int, FileCount]]:
        """By the name that the preprocessor gives a file: the number of lines before the program's first, and the
        file's count.
        """
        if self._known is None:
            self._known = {}
            program = self.program
            for file in (
                {statement.file for statement in program.statements}
                | {branch.file for branch in program.branches}
                | {function.file for function in program.functions}
            ):
                place = self._places.of(file)
                if place is None:
                    continue
                count = data.file(place.name, place.text)
                self._known[file] = place.shift, count
                if place.nlines:
                    count.spans.add((place.shift + 1, place.shift + place.nlines))
            self._note(data)
        return self._known

    def _note(self, data: Data) -> None:
        for file, line, what in self.program.skipped:
            if (place := self._places.of(file)) is not None:
                data.notes.add((place.name, line + place.shift, what))


_counting: Counting | None = None


def start(root: Path) -> Counting:
    """Count from now on in this process."""
    global _counting
    _counting = Counting(root)
    return _counting


def current() -> Counting | None:
    """The counter of this process, if there is one."""
    return _counting
