"""Exchanges: which command wrote the bytes that were moved for another one, and who held which buffer before and
after launches.

Decides what is kept, and keeps it small: sums by pair of commands and by route, and the last launches with the states
of their buffers, which hold no memory. Made only if a report is wanted, and called under the session's lock.

A buffer has one writer here, the command that last changed any of it: if several commands wrote parts of a buffer,
all of its bytes count as written by the last. Moves that belong to no command (evictions, folds) write nothing new.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.executor.holdings import Holdings
    from vdev.planner.directory import BufferState

NOBODY = "(no command)"
OTHERS = "(others)"
#: launches that are kept, of which one period or the last few are shown
_MOST_CHANGES = 48
_SHOWN = 6
#: how many pairs of commands and routes are counted separately
_MOST_ROUTES = 4096
_noted_of: Callable[[Any], Any] = attrgetter("noted")
CELLS = 32  #: parts of a buffer that a picture shows separately


@dataclass(frozen=True)
class Exchange:
    """Bytes that were moved for `user` from holder `source` to `target` (-1: host memory), of buffers last written by `writer`."""

    writer: str
    user: str
    source: int
    target: int
    nbytes: int


@dataclass(frozen=True)
class Held:
    """The bytes of a buffer that are valid at one holder (-1: host memory): how many in total, and the share of each of
    `CELLS` equal parts."""

    holder: int
    nbytes: int
    shares: tuple[float, ...]


@dataclass(frozen=True)
class BufferHeld:
    """Which holders had what of a buffer before and after a launch; `pending`: bytes of which several workers hold
    parts of a sum.
    """

    buffer: int  #: its number, in the order of first use
    name: str  #: of the argument
    nbytes: int
    before: tuple[Held, ...]
    after: tuple[Held, ...]
    pending_before: int
    pending_after: int


@dataclass(frozen=True)
class LaunchHeld:
    """A launch with its buffers."""

    kernel: str
    buffers: tuple[BufferHeld, ...]


@dataclass(frozen=True)
class Steady:
    """The last launches, those apart that change nothing and follow themselves: the last period that occurred twice in a row, or
    otherwise the last few.
    """

    periodic: bool
    launches: tuple[LaunchHeld, ...]


class _Noted:
    """What is kept of a buffer, in its `Holdings`: its number, in the order of first use, and who has last changed any of it."""

    __slots__ = ("number", "writer")

    def __init__(self, number: int) -> None:
        self.number = number
        self.writer = NOBODY


#: a launch: the kernel's name, its buffers, the names of the arguments that they are, and their states before and after
_Change: TypeAlias = tuple[
    str, tuple[_Noted, ...], tuple[str, ...], "tuple[BufferState, ...]", "tuple[BufferState, ...]"
]


class Exchanged(Protocol):
    """What a command's plan moves and changes (`vdev.observe.recorder.Shape`)."""

    name: str
    moves: tuple[tuple[int, int, int, int], ...]
    writes: tuple[int, ...]


class Exchanges:
    """The exchanges of one session."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str, int, int], int] = {}
        self._count = 0  #: buffers that have been met
        self._last: _Change | None = None
        self._changes: deque[_Change] = deque(maxlen=_MOST_CHANGES)

    def note(self, shape: Exchanged, holdings: Sequence[Holdings], *, writes: bool = True) -> None:
        """A plan is carried out. `holdings`: of its buffers, by slot."""
        user = shape.name
        for slot, *route in shape.moves:
            noted = None if slot < 0 else holdings[slot].noted
            self._add(NOBODY if noted is None else noted.writer, user, *route)
        if writes:
            for slot in shape.writes:
                (holdings[slot].noted or self._meet(holdings[slot])).writer = user

    def wrote(self, user: str, holdings: Holdings) -> None:
        """A command has changed bytes of a buffer at home."""
        (holdings.noted or self._meet(holdings)).writer = user

    def _add(self, writer: str, user: str, source: int, target: int, nbytes: int) -> None:
        key = (writer, user, source, target)
        if key not in self._routes and len(self._routes) >= _MOST_ROUTES:
            key = (OTHERS, OTHERS, source, target)
        self._routes[key] = self._routes.get(key, 0) + nbytes

    def _meet(self, holdings: Holdings) -> _Noted:
        self._count += 1
        holdings.noted = found = _Noted(self._count)
        return found

    def launched(
        self,
        shape: Exchanged,
        holdings: Sequence[Holdings],
        names: tuple[str, ...],
        before: tuple[BufferState, ...],
        after: tuple[BufferState, ...],
    ) -> None:
        """A launch takes place that finds its buffers in states `before` and leaves them in `after`; all by slot, as the `names` of
        the arguments that they are.
        """
        self.note(shape, holdings)
        noted = tuple([each.noted or self._meet(each) for each in holdings])
        change = shape.name, noted, names, before, after
        if before != after or change != self._last:
            self._last = change
            self._changes.append(change)

    def stayed(
        self,
        shape: Exchanged,
        holdings: Sequence[Holdings],
        names: tuple[str, ...],
        states: tuple[BufferState, ...],
    ) -> None:
        """The same of a launch that moves nothing, changes all of its buffers, and leaves them in the `states` that it finds them in."""
        noted: tuple[_Noted, ...] = (*map(_noted_of, holdings),)
        if None in noted:
            noted = tuple([each.noted or self._meet(each) for each in holdings])
        name = shape.name
        for each in noted:
            each.writer = name
        change = name, noted, names, states, states
        if change != self._last:
            self._last = change
            self._changes.append(change)

    def table(self) -> tuple[Exchange, ...]:
        """All exchanges, the largest first."""
        rows = [Exchange(*key, nbytes) for key, nbytes in self._routes.items()]
        return tuple(
            sorted(rows, key=lambda row: (-row.nbytes, row.writer, row.user, row.source, row.target))
        )

    def steady(self) -> Steady:
        """The last launches with their buffers' holders."""
        changes = list(self._changes)
        period = last_period(changes)
        shown = changes[-_SHOWN:] if period is None else changes[period]
        return Steady(period is not None, tuple([_launch_held(change) for change in shown]))


def period_of(items: Sequence[object], most: int = _MOST_CHANGES // 2) -> int | None:
    """After how many items the last ones repeat; None where they do not.

    >>> period_of("xababab"), period_of("abc"), period_of("aa"), period_of("")
    (2, None, 1, None)
    """
    for period in range(1, min(most, len(items) // 2) + 1):
        if items[-period:] == items[-2 * period : -period]:
            return period
    return None


def last_period(items: Sequence[object]) -> slice | None:
    """Where the last sequence is that occurred twice in a row, maybe followed by something else.

    >>> last_period("xababy"), last_period("abc")
    (slice(3, 5, None), None)
    """
    for stop in range(len(items), 1, -1):
        period = period_of(items[:stop])
        if period is not None:
            return slice(stop - period, stop)
    return None


def _launch_held(change: _Change) -> LaunchHeld:
    kernel, buffers, *rest = change
    numbers = [each.number for each in buffers]
    return LaunchHeld(kernel, tuple([_buffer_held(*row) for row in zip(numbers, *rest, strict=True)]))


def _buffer_held(number: int, name: str, before: BufferState, after: BufferState) -> BufferHeld:
    pending = [sum(item.region.nbytes for item in state.pending) for state in (before, after)]
    return BufferHeld(number, name, after.nbytes, holders_of(before), holders_of(after), *pending)


def holders_of(state: BufferState) -> tuple[Held, ...]:
    """The valid bytes of each holder, host memory first."""
    edges = [state.nbytes * cell // CELLS for cell in range(CELLS + 1)]
    found = []
    for holder, region in state.valid:
        shares = [
            region.clip(start, stop).nbytes / (stop - start) if stop > start else 0.0
            for start, stop in pairwise(edges)
        ]
        found.append(Held(holder, region.nbytes, tuple(shares)))
    return tuple(found)
