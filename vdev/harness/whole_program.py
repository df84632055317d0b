"""Checking a whole program: each launch of its session first runs in a checked form, on copies of its buffers.

Decides which launches are checked and keeps the findings. It takes the place of `vdev.check` (`vdev.session.core.Checker`); the
program's own launches then run as usual.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary, ref

from vdev.backends.base import Backend
from vdev.check.differences import mask_of
from vdev.errors import BackendError
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.harness.checked_launch import Argument, Checked, CheckedSource, Memory, NotCheckable
from vdev.harness.coverage.places import Places
from vdev.harness.findings import KINDS, OFF_BY_DEFAULT, Finding, Place
from vdev.harness.launch_arguments import arguments_of
from vdev.harness.memories import limit_for, memories_of, whole
from vdev.harness.splitting import against_splitting
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.programs import SessionProgram
from vdev.session.shadow_runs import ShadowFailure, Shadows
from vdev.translators.frontend.kernels import Untranslatable
from vdev.translators.frontend.preprocessor import MAIN_FILE
from vdev.translators.frontend.source import ParsedProgram
from vdev.translators.ranges.ndrange import NDRange

logger = logging.getLogger("vdev.harness")

_HANGS = "divergent-barrier"
#: Of each byte of a buffer, before there is shadow: its content here and on the worker.
_COPIES = 2


class Watch:
    """What the launches of a process showed. `hidden`: kinds not to report. `most`: launches of each kernel that are
    checked; 0: all. `root`: files below it are looked for the programs' texts (None: the current folder).
    """

    def __init__(
        self, hidden: frozenset[str] = OFF_BY_DEFAULT, most: int = 0, root: Path | None = None
    ) -> None:
        self.root = root or Path.cwd()
        self.hidden = hidden
        self.most = most
        self.nchecked = 0
        #: launches that were not checked, by the reason
        self.unchecked: Counter[str] = Counter()
        #: (kernel, line, what was not checked and why)
        self.notes: set[tuple[str, int, str]] = set()
        #: by kernel: why its launches, one of each program, would not be split over several workers
        self.one_worker: dict[str, set[str]] = {}
        #: called where there is more to tell: the program's own launch comes next, and may end the process
        self.told_more: Callable[[], None] = lambda: None
        self._found: dict[tuple[object, ...], Finding] = {}
        self._launches: Counter[tuple[int, str]] = Counter()

    @property
    def findings(self) -> list[Finding]:
        """One for each mistake, in the order in which they were found."""
        return list(self._found.values())

    def splits(self, launch: Launch, buffers: list[VirtualBuffer]) -> None:
        """Note whether several workers would share a kernel's launch, at its first in a program."""
        if self._launches[launch.kernel.program.serial, launch.kernel.name] == 1:
            self.one_worker.setdefault(launch.kernel.name, set()).update(against_splitting(launch, buffers))

    def wants(self, launch: Launch) -> bool:
        key = launch.kernel.program.serial, launch.kernel.name
        self._launches[key] += 1
        if self.most and self._launches[key] > self.most:
            self.unchecked["earlier launches of the kernel were checked (--most)"] += 1
            return False
        return True

    def add(
        self,
        kernel: str,
        findings: list[Finding],
        notes: list[tuple[int, str]],
    ) -> None:
        """Keep what a launch showed. `notes`: (line, what was not checked and why)."""
        self.nchecked += 1
        self.notes.update((kernel, line, what) for line, what in notes)
        known = len(self._found)
        for finding in findings:
            if finding.kind not in self.hidden:
                self._found.setdefault(finding.key, finding)
        if len(self._found) > known:
            self.told_more()

    def checker(self) -> Callable[[Executor, LinkCosts], WatchedLaunches]:
        """What a session takes as `check`."""
        return lambda executor, links: WatchedLaunches(executor, links, self)


class NotLaunched(RuntimeError):
    """The program's own launch would wait for ever: it is not made."""


class WatchedLaunches:
    """Checks the launches of one session. Used under the session's lock."""

    def __init__(self, executor: Executor, links: LinkCosts, watch: Watch) -> None:
        self.failure: NotLaunched | None = None  #: no other finding ends a program
        self._executor = executor
        self._shadows = Shadows(executor, links)
        self._watch = watch
        self._sources: WeakKeyDictionary[SessionProgram, CheckedSource] = WeakKeyDictionary()
        self._places: WeakKeyDictionary[SessionProgram, Places] = WeakKeyDictionary()

    def built(self, program: SessionProgram) -> None:
        """A program that is not launched is not checked."""

    def begin(self, launch: Launch, buffers: list[VirtualBuffer], plan: Plan) -> None:
        """Run the launch, checked, on copies of what its buffers hold."""
        if not self._watch.wants(launch):
            return
        self._watch.splits(launch, buffers)
        kernel = launch.kernel.name
        try:
            source = self._source(launch.kernel.program)
            args = self._arguments(launch, buffers)
            checked = self._checked(source, kernel, args, launch.ndrange)
        except (NotCheckable, ShadowFailure, BackendError, MemoryError) as reason:
            self._watch.unchecked[f"kernel {kernel}: {reason}"] += 1
            logger.warning("a launch of kernel %s is not checked: %s", kernel, reason)
            return
        findings, notes = self._in_files(launch.kernel.program, kernel, checked, source.skipped)
        self._watch.add(kernel, findings, notes)
        for finding in findings:
            if finding.kind == _HANGS:
                self.failure = NotLaunched(
                    f"kernel {kernel} is not launched: not all work-items reach the barrier on line {finding.place.line}, and "
                    f"a device might wait for them for ever ({_HANGS})"
                )
                raise self.failure

    def _in_files(
        self, program: SessionProgram, kernel: str, checked: Checked, skipped: tuple[tuple[int, str], ...]
    ) -> tuple[list[Finding], list[tuple[int, str]]]:
        """Findings and notes with the files and lines where the program's text stands, so that services can show them there."""
        notes = [*checked.notes, *skipped]
        if not (checked.findings or notes):
            return [], []
        places = self._places.get(program)
        if places is None:
            text = program.source if isinstance(program.source, str) else ""
            places = self._places[program] = Places(text, "", self._watch.root, kernel)
        findings = [
            replace(
                found,
                place=_in_file(found.place, places),
                other=None if found.other is None else _in_file(found.other, places),
            )
            for found in checked.findings
        ]
        return findings, [(line + places.main.shift, what) for line, what in notes]

    def end(self, launch: Launch, buffers: list[VirtualBuffer], case: object, completion: Completion) -> None:
        """Nothing is compared afterwards."""

    def _checked(self, source: CheckedSource, kernel: str, args: list[Argument], ndrange: NDRange) -> Checked:
        """Between the two runs the contents are read again: not on the worker's thread, which it takes."""

        def passes(backend: Backend) -> bool:
            return source.passes(backend, kernel, args, ndrange)

        def precisely(backend: Backend) -> Checked:
            return source.precisely(backend, kernel, args, ndrange)

        if self._executor.call(0, passes):
            return Checked([])
        for memory in memories_of(args):
            memory.load()
        return self._executor.call(0, precisely)

    def _memory(self, buffer: VirtualBuffer) -> Memory:
        state = buffer.state
        everywhere = state.initialised.nbytes == buffer.nbytes
        written = whole(buffer.nbytes) if everywhere else mask_of(state.initialised, buffer.nbytes)
        return Memory(self._shadows.content(buffer), written, lambda: self._shadows.content(buffer))

    def _source(self, program: SessionProgram) -> CheckedSource:
        found = self._sources.get(program)
        if found is None:
            text = program.source if isinstance(program.source, str) else ""
            kinds = frozenset(KINDS) - self._watch.hidden
            found = CheckedSource(partial(_parsed, ref(program)), source=text, kinds=kinds, kept=program.kept)
            self._sources[program] = found
        return found

    def _arguments(self, launch: Launch, buffers: list[VirtualBuffer]) -> list[Argument]:
        nbytes = sum(buffer.nbytes for buffer in buffers)
        if (limit := limit_for(nbytes)) < _COPIES * nbytes:
            raise NotCheckable(
                f"copies of its buffers would take {_COPIES * nbytes / 1e6:,.1f} MB, and the limit is {limit / 1e6:,.1f} MB "
                "(VDEV_CHECK_MEMORY)"
            )
        memories = [self._memory(buffer) for buffer in buffers]
        return arguments_of(launch, buffers, memories)


def _in_file(place: Place, places: Places) -> Place:
    """A place of a program in its file; itself where no file below the root has the text."""
    home = places.of(place.file or MAIN_FILE)
    if home is None or not home.exists:
        return place
    return replace(place, file=home.name, line=place.line + home.shift)


def _parsed(program: ref[SessionProgram]) -> ParsedProgram:
    """A program, which its launch holds. Raises Untranslatable."""
    held = program()
    if held is None or held.lowered is None:
        raise Untranslatable("clang's parser rejects the program")
    return held.lowered.program
