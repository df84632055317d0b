"""Tallies: what a session counts for every command, whether or not anybody will ask.

Decides what is counted, and keeps it small: one row for each kernel, however often it is built, one for each way in
which its launches were cut, and one for each argument. A launch whose plan moves nothing increments one number. Holds
neither plans nor buffers nor programs. All of it changes under the session's lock.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vdev.observe.figures import Moved, Times
from vdev.planner.instructions import (
    HOST,
    Copy,
    Download,
    Fold,
    Instruction,
    Launch,
    Merge,
    Plan,
    Reserve,
    Restore,
    Upload,
    moves_of,
)
from vdev.translators.frontend.kernels import Line
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.planner.footprints import PointerArg
    from vdev.translators.frontend.source import KernelInfo
    from vdev.translators.interpreter.summaries import AccessRange, KernelSummary

#: bytes that a command moves: from the host to workers, between these, from them to the host, and within the host
Travels: TypeAlias = tuple[int, int, int, int]
#: Ways of cutting one kernel that are counted separately; all other ways share a last row.
_MOST_OUTCOMES = 64
#: index spaces of a kernel's last launches without plans that are kept
_MOST_PASSED = 256
#: takes those of launches that nobody will weigh
UNWEIGHED: deque[NDRange] = deque(maxlen=0)
_LINE = re.compile(r"\bline (\d+)(?: of ([^()]+))?\)?$")
_NBYTES = re.compile(r"\d+ bytes")


@dataclass(slots=True)
class ArgumentTally:
    """One pointer argument of a kernel over all of its launches."""

    index: int
    name: str
    type_name: str
    reads: bool = False
    writes: bool = False
    atomic: bool = False
    analysed: bool = False  #: whether at least one launch needed to know what it is used for
    #: whether every range was exactly the set of bytes touched
    exact: bool = True
    #: where its first access is or, if one is not exact, the first that is not; and why it is not
    line: int | None = None
    reason: str | None = None
    text: str = ""  #: the access as written in the source
    inexact_mode: str | None = None  #: 'read', 'write' or 'atomic': what `reason` is about
    nbytes: int = 0  #: the largest it ever was
    shares_with: str | None = None  #: its bytes are counted with this argument, which was the same buffer
    moved: Moved = field(default_factory=Moved)
    merged_nbytes: int = 0
    fine: bool = False  #: it was fine-grain shared virtual memory


@dataclass(slots=True)
class Outcome:
    """One way in which launches were run: on how many of the workers, and why not on more."""

    chunks: tuple[tuple[int, Chunk], ...] = ()  #: (worker, work-groups) of the first such launch
    ndrange: NDRange | None = None  #: of the first such launch
    available: int = 0  #: workers that the device has
    reasons: tuple[tuple[str, int | None, str], ...] = ()  #: (text, line of the source, text of that line)
    launches: int = 0


#: the least seconds of a launch whose prediction is judged, and how far off a good prediction may be
LONG, CLOSE = 1e-4, 0.25


@dataclass(slots=True)
class Forecasts:
    """What the time model predicted for a kernel's launches in one way, and what they took; seconds of the busiest
    worker.
    """

    launches: int = 0  #: launches that were measured, without the first, of which nothing was known
    predicted: float = 0.0
    measured: float = 0.0
    judged: int = 0  #: how many of the launches took at least `LONG`
    close: int = 0  #: of these, how many predictions were off by at most `CLOSE`

    def add(self, predicted: float, measured: float) -> None:
        """One more launch."""
        self.launches += 1
        self.predicted += predicted
        self.measured += measured
        if measured >= LONG:
            self.judged += 1
            self.close += abs(predicted - measured) <= CLOSE * measured


@dataclass(slots=True)
class KernelTally:
    """One kernel of one source."""

    name: str
    program: int  #: the program's number, in the order of first launches
    line: int | None
    outcomes: dict[object, Outcome] = field(default_factory=dict)
    arguments: dict[int, ArgumentTally] = field(default_factory=dict)
    #: on one of several workers: the index spaces of the last launches without plans, those that were not weighed yet
    passed: deque[NDRange] = field(default_factory=lambda: deque(maxlen=_MOST_PASSED))
    plans: int = 0  #: plans made; the other launches found theirs in the cache
    planning_ns: int = 0  #: analysing and making plans
    times: Times = field(default_factory=Times)
    #: by number of workers: what the time model predicted for launches that were measured
    forecasts: dict[int, Forecasts] = field(default_factory=dict)

    @property
    def launches(self) -> int:
        return sum(outcome.launches for outcome in self.outcomes.values())

    def foretold(self, workers: int, predicted: float, measured: float) -> None:
        """A launch on that many workers was measured; the prediction is 0 if nothing was known yet."""
        if predicted > 0:
            self.forecasts.setdefault(workers, Forecasts()).add(predicted, measured)


@dataclass(slots=True)
class CommandTally:
    """All commands of a kind that is not a launch."""

    kind: str
    count: int = 0
    moved: Moved = field(default_factory=Moved)
    #: copied between the program's arrays and homes, that is within host memory
    within_host_nbytes: int = 0
    planning_ns: int = 0
    times: Times = field(default_factory=Times)


class Traffic:
    """What every launch of one plan moves and merges, by argument."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[ArgumentTally, Moved, int]]) -> None:
        self.parts = parts

    def count(self) -> None:
        """Count one more launch."""
        for argument, moved, merged_nbytes in self.parts:
            argument.moved.include(moved)
            argument.merged_nbytes += merged_nbytes


class CopyTraffic:
    """What every launch of a plan moves that moves by copies alone, added up when one is counted: a plan whose numbers
    were filled in has few launches."""

    __slots__ = ("_instructions", "_routes")

    def __init__(self, routes: Routes, instructions: Sequence[Instruction]) -> None:
        self._routes = routes
        self._instructions = instructions

    def count(self) -> None:
        """One more launch."""
        for number, argument, source, target in self._routes:
            item = self._instructions[number]
            assert isinstance(item, Copy), "plans that differ in their numbers have the same instructions"
            add_route(argument.moved, source, target, item.region.nbytes)


#: of a plan's copies: their numbers among its instructions, where they are counted, and from where they go to where
Routes = tuple[tuple[int, "ArgumentTally", int, int], ...]


def routes_of(plan: Plan, by_slot: dict[int, ArgumentTally]) -> Routes | None:
    """The copies of plans like this one; None where it moves or merges anything in another way."""
    found = []
    for number, item in enumerate(plan.instructions):
        if isinstance(item, Copy) and item.slot in by_slot:
            found.append((number, by_slot[item.slot], item.source, item.target))
        elif not isinstance(item, Launch):
            return None
    return tuple(found)


class CountedProgram(Protocol):
    """A program, as far as its kernels' rows show it."""

    @property
    def source(self) -> str | bytes:
        """As the user wrote it."""

    @property
    def options(self) -> tuple[str, ...]:
        """The options with which it was built."""


class CountedKernel(Protocol):
    """A kernel, as far as its row shows it."""

    @property
    def name(self) -> str: ...
    @property
    def info(self) -> KernelInfo: ...
    @property
    def program(self) -> CountedProgram: ...
    @property
    def summary(self) -> KernelSummary | None: ...


class Ledger:
    """All tallies of a session."""

    def __init__(self) -> None:
        self.kernels: dict[object, KernelTally] = {}
        self.commands: dict[str, CommandTally] = {}
        self._programs: dict[object, int] = {}

    def kernel(self, kernel: CountedKernel) -> KernelTally:
        """The row of a kernel; one for all programs with the same source and options."""
        program = (hash(kernel.program.source), kernel.program.options)
        number = self._programs.setdefault(program, len(self._programs) + 1)
        found = self.kernels.get((number, kernel.name))
        if found is None:
            found = KernelTally(kernel.name, number, kernel.info.line or None)
            self.kernels[number, kernel.name] = found
        return found

    def command(self, kind: str) -> CommandTally:
        """The row of a kind of command."""
        found = self.commands.get(kind)
        if found is None:
            found = self.commands[kind] = CommandTally(kind)
        return found

    def count(self, kind: str, plan: Plan) -> CommandTally:
        """Count one more command that is not a launch, in its row."""
        return self.add(kind, travels_of(plan))

    def add(self, kind: str, travels: Travels) -> CommandTally:
        """The same where it is known what its plan moves."""
        tally = self.commands.get(kind) or self.command(kind)
        tally.count += 1
        if not any(travels):
            return tally
        moved = tally.moved
        to_workers, between, to_host, within = travels
        moved.host_to_worker += to_workers
        moved.worker_to_worker += between
        moved.worker_to_host += to_host
        tally.within_host_nbytes += within
        return tally


def travels_of(plan: Plan) -> Travels:
    """What a plan's command counts as moved."""
    moved, within = Moved(), 0
    for route in plan.moved:
        add_route(moved, *route)
    for item in plan.instructions:
        if item.worker == HOST and isinstance(item, (Upload, Download)):
            within += item.region.nbytes
    return moved.host_to_worker, moved.worker_to_worker, moved.worker_to_host, within


def count_plan(
    tally: KernelTally,
    kernel: CountedKernel,
    ndrange: NDRange,
    pointers: Sequence[PointerArg],
    plan: Plan,
    ranges: Sequence[Sequence[AccessRange]] | None,
    available: int,
) -> tuple[Outcome, Traffic | None]:
    """Where launches of `plan` have to be counted; without traffic if it moves nothing.

    `ranges`: what each chunk of the partition accesses, or None if not evaluated; `available`: how many workers there
    were.
    """
    tally.plans += 1
    arguments = [_argument(tally, kernel, pointer) for pointer in pointers]
    by_index = {argument.index: argument for argument in arguments}
    for argument in arguments:
        argument.analysed = argument.analysed or ranges is not None
    for of_chunk in ranges or ():
        for item in of_chunk:
            if item.region and item.arg in by_index:
                _note_access(by_index[item.arg], item, kernel)
    by_slot: dict[int, ArgumentTally] = {}
    for pointer, argument in zip(pointers, arguments, strict=True):
        argument.fine = argument.fine or plan.states[pointer.slot].fine
        first = by_slot.setdefault(pointer.slot, argument)
        if first is not argument:
            argument.shares_with = first.name
    outcome = _outcome(tally, kernel.program.source, ndrange, plan, available)
    return outcome, traffic_of(tally, plan, by_slot)


def arguments_by_slot(tally: KernelTally, pointers: Sequence[PointerArg]) -> dict[int, ArgumentTally]:
    """For launches that have been counted: the argument under which a buffer's bytes are counted."""
    return {pointer.slot: tally.arguments[pointer.arg] for pointer in reversed(pointers)}


def _argument(tally: KernelTally, kernel: CountedKernel, pointer: PointerArg) -> ArgumentTally:
    found = tally.arguments.get(pointer.arg)
    if found is None:
        info = kernel.info.args[pointer.arg]
        name = info.name or f"argument {pointer.arg}"
        found = tally.arguments[pointer.arg] = ArgumentTally(pointer.arg, name, info.type_name)
    found.nbytes = max(found.nbytes, pointer.nbytes_own)
    return found


def _note_access(argument: ArgumentTally, item: AccessRange, kernel: CountedKernel) -> None:
    new = not (argument.reads or argument.writes or argument.atomic)
    argument.reads = argument.reads or item.mode == "read"
    argument.writes = argument.writes or item.mode == "write"
    argument.atomic = argument.atomic or item.mode == "atomic"
    worse = not item.exact and (argument.exact or (argument.inexact_mode == "read" and item.mode != "read"))
    if worse:  # an inexact write costs more than an inexact read
        argument.exact, argument.inexact_mode = False, item.mode
        argument.reason, argument.line = item.reason, item.line
    elif new:
        argument.line = item.line or _first_line(kernel, item)
    if worse or new:
        argument.text = access_text(kernel.program.source, argument.line, argument.name)


def _first_line(kernel: CountedKernel, item: AccessRange) -> int | None:
    """Where an exact access is in the source."""
    accesses = () if kernel.summary is None else kernel.summary.accesses
    return next((a.line for a in accesses if (a.arg, a.mode) == (item.arg, item.mode)), None)


def _outcome(
    tally: KernelTally, source: str | bytes, ndrange: NDRange, plan: Plan, available: int
) -> Outcome:
    grid = tuple(len({chunk.start[i] for _, chunk in plan.partition}) for i in range(ndrange.work_dim))
    reasons_alike = tuple(_NBYTES.sub("", reason) for reason in plan.reasons)
    # A whole launch is the same whoever runs it; chunks are told apart by their workers.
    order = tuple(worker for worker, _ in plan.partition) if len(plan.partition) > 1 else ()
    key: object = (grid, reasons_alike, len(plan.partition), order)
    if key not in tally.outcomes and len(tally.outcomes) >= _MOST_OUTCOMES:
        key = "others"
    found = tally.outcomes.get(key)
    if found is None:
        lines = [line_of(text) for text in plan.reasons]
        places = [source_line(source, line) for line in lines]
        reasons = tuple(zip(plan.reasons, lines, places, strict=True))
        found = tally.outcomes[key] = Outcome(plan.partition, ndrange, available, reasons)
    return found


def line_of(reason: str) -> int | None:
    """The source line that a reason of the planner ends with.

    >>> line_of("`goto` (line 14)"), line_of("one work-group"), line_of("`goto`, line 2 of a.h").file
    (14, None, 'a.h')
    """
    match = _LINE.search(reason)
    if match is None:
        return None
    return int(match[1]) if match[2] is None else Line(int(match[1]), match[2])


def traffic_of(tally: KernelTally, plan: Plan, by_slot: dict[int, ArgumentTally]) -> Traffic | None:
    """What each launch of a plan moves and merges; None if that is nothing."""
    moved, merged = _by_slot(plan)
    if not moved and not merged:
        return None
    parts = []
    for slot in sorted({*moved, *merged}):
        argument = by_slot.get(slot)
        if argument is None:  # shared memory that the kernel reaches through addresses stored elsewhere
            argument = tally.arguments.setdefault(-1, ArgumentTally(-1, "(no argument)", "", exact=False))
        parts.append((argument, moved.get(slot, Moved()), merged.get(slot, 0)))
    return Traffic(parts)


def _by_slot(plan: Plan) -> tuple[dict[int, Moved], dict[int, int]]:
    """What a plan moves, and the bytes that it merges, by slot."""
    moved: dict[int, Moved] = {}
    merged: dict[int, int] = {}
    for item in plan.instructions:
        kind = type(item)
        if kind is Launch or kind is Reserve:
            continue
        # on the host or on a worker: every merged byte counts once
        if isinstance(item, (Merge, Restore, Fold)):
            merged[item.slot] = merged.get(item.slot, 0) + item.region.nbytes
        slot = getattr(item, "slot", -1)
        for route in moves_of(item):
            of_slot = moved.get(slot)
            if of_slot is None:
                of_slot = moved[slot] = Moved()
            add_route(of_slot, *route)
    return moved, merged


def add_route(moved: Moved, source: int, target: int, nbytes: int) -> None:
    """Count bytes from holder to holder."""
    if source == HOST:
        moved.host_to_worker += nbytes
    elif target == HOST:
        moved.worker_to_host += nbytes
    else:
        moved.worker_to_worker += nbytes


def source_line(source: str | bytes, line: int | None) -> str:
    """The text of a line of the source, or of the file that it includes; empty if there is no such line."""
    if line is None or isinstance(source, bytes):
        return ""
    lines = (_text_of(line.file) if isinstance(line, Line) else source).splitlines()
    return lines[line - 1].strip() if 1 <= line <= len(lines) else ""


def _text_of(file: str) -> str:
    """A file that the program includes; empty where it cannot be read, as where `#line` names what is no file."""
    if not os.path.isfile(file):  # reading a pipe or a terminal would wait
        return ""
    try:
        with open(file, encoding="utf-8", errors="replace") as content:
            return content.read()
    except OSError:
        return ""


def access_text(source: str | bytes, line: int | None, name: str) -> str:
    """The first access through `name` in line `line` of a source; the whole line where there is none, as
    after a pointer went through a variable.

    >>> access_text("void k(...) {\\n  out[idx[i]] = 1;\\n}", 2, "out")
    'out[idx[i]]'
    """
    text = source_line(source, line)
    start = text.find(name)
    while start >= 0:
        opening = start + len(name)
        while text[opening : opening + 1].isspace():
            opening += 1
        whole_word = not (start and (text[start - 1].isalnum() or text[start - 1] == "_"))
        if whole_word and text[opening : opening + 1] == "[":
            closing = _closing(text, opening)
            return text if closing is None else text[start : closing + 1]
        start = text.find(name, start + 1)
    return text


def _closing(text: str, opening: int) -> int | None:
    """Where the bracket that is opened there is closed; None if it is not."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "[") - (text[at] == "]")
        if depth == 0:
            return at
    return None
