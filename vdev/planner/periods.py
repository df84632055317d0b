"""Periods: what really passes from one look of the program at its results to the next, in the ways that were in use.

A program that waits for results pays for everything that is on the way to them: folds of pending reductions, round trips to
devices, threads that are woken. The time model (`timing`) knows launches and transfers, and adds up what can happen at the
same time; of the rest it knows nothing. So where a program looks at its results again and again, whole periods are measured.

What they take beyond the model's time is *unexplained*. Most of it is the program's own, which is the same in any way. Where it is
more than the model says that several workers gain, though, it may as well be theirs: then one worker is tried for some
periods. The way whose periods are shorter stays; so does, of two numbers of workers, that with the shorter ones. What
those over several workers were found to take more than the model had it, beside those on one, is charged to them from
then on (`toll`): heavier launches of the same buffers are split all the same.

A trial happens only if changing there and back, and the trial itself, take a small part of the time since the last one; each
makes the next one later. Decides when there is one and how it ends; knows no clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Mapping
from enum import Enum, auto
from math import ceil

from vdev.planner.timing import Way

#: periods that are looked at together, and of one worker that is tried
_WINDOW, _TRIAL = 16, 9
#: the first periods of a way, which do what is done once
_SETTLING = 3
#: Seconds, and the most periods that one counts for: what disturbs periods, threads that are woken and the like, takes the same time in
#: each, so that of long ones fewer say as much. One that takes so many seconds counts for two, and so on.
_LONG, _MOST_WEIGHT = 0.005, 3
#: periods of one kind that count, and how many there must be
_KEPT, _ENOUGH = 9, 3
#: of those, the longest fourth takes at most so many times what the shortest does, or where there are enough of them to see that they
#: become neither longer nor shorter, so many times, as on a busy host: others do not recur
_ALIKE, _UNSTEADY = 1.25, 1.4
#: of those, how many there must be to see whether they become longer or shorter
_TREND = 6
#: of the periods that are looked at together, those at least that have to be of kinds which are known: a few others come in between
_KNOWN = 0.75
#: kinds of periods of a program that are told apart
_MOST_KINDS = 32
#: of the time since the last trial, what one may cost
_SHARE = 0.1
#: each trial makes the next one so many times later, up to so many of them
_AGAIN, _MOST_AGAIN = 4, 6
#: periods over another number of workers after which they are compared with those before
_COMPARED = 5
#: of a period over several workers, what one on a single worker takes at most to be the shorter one
_SHORTER = 0.98
#: what is charged is forgotten by so much with each period, so that several workers are tried again some time
_FORGET = 0.999


class Turn(Enum):
    """What is to be done after a look."""

    GO_ON = auto()
    TRY_ONE = auto()  #: take one worker, on trial
    SPLIT_AGAIN = auto()  #: the trial is over: several workers are the better ones
    FORMER_COUNT = auto()  #: take as many workers as before, `former`: periods were shorter


class _Kind:
    """Periods of one kind."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    @property
    def value(self) -> float | None:
        """The median; None where there are too few of them, or they are not alike."""
        count = len(self._seconds)
        if count < _ENOUGH:
            return None
        found = sorted(self._seconds)
        least, most = found[count // 4], found[count - 1 - count // 4]
        if most > (_ALIKE if count < _TREND else _UNSTEADY) * least or self._changes():
            return None
        return found[count // 2]

    def _changes(self) -> bool:
        """Whether they become longer or shorter: the earlier half differs from the later one."""
        values, half = list(self._seconds), len(self._seconds) // 2
        if len(values) < _TREND:
            return False
        earlier, later = (sorted(part)[half // 2] for part in (values[:half], values[-half:]))
        return max(earlier, later) > _ALIKE * min(earlier, later)


class Periods:
    """Those of one account's launches."""

    __slots__ = (
        "_after",
        "_alone",
        "_began",
        "_charged",
        "_count",
        "_folds",
        "_folds_each",
        "_folds_from",
        "_former",
        "_gain",
        "_is_prolonged",
        "_kinds",
        "_left",
        "_settling",
        "_split",
        "_trials",
        "_tried",
        "_weight",
        "former",
        "looks",
        "toll",
    )

    def __init__(self) -> None:
        #: by kind of period: its seconds over several workers, and on one
        self._split: dict[Hashable, _Kind] = {}
        self._alone: dict[Hashable, _Kind] = {}
        #: the number of workers before, where periods over those in use are to be compared with theirs; 0: they are not
        self.former = 0
        self._former: dict[Hashable, _Kind] = {}  #: as `_split`
        #: seconds that a period over several workers takes longer than is foretold, beside one on a single worker
        self.toll = 0.0
        self.looks = 0  #: periods in all
        self._charged = 0  #: of these, how many the toll was taken for
        #: what folds take by the model: seconds since several workers are in use, from how many periods on, and for each period
        self._folds, self._folds_from, self._folds_each = 0.0, 0, 0.0
        self._settling = _SETTLING  #: periods that do not count yet
        self._kinds: Counter[Hashable] = Counter()  #: of the window
        self._weight = 0  #: what its periods count for
        #: what the periods of a trial have to count for, and those that are still to come
        self._tried, self._left = _TRIAL, 0
        self._is_prolonged = (
            False  #: whether a trial has gone on for as many again, as those before were not alike
        )
        #: of what a trial was begun for: periods, and the seconds that splitting was foretold to gain
        self._count, self._gain = 0, 0.0
        self._trials = 0
        self._began = self._after = 0.0  #: seconds since the last trial, and before the next one

    @property
    def on_trial(self) -> bool:
        """Whether one worker is being tried."""
        return self._left > 0

    @property
    def in_window(self) -> int:
        """How many periods the window has so far."""
        return self._kinds.total()

    @property
    def is_full(self) -> bool:
        """Whether the window has enough for `judge`."""
        return self._weight >= _WINDOW

    def skip(self) -> Turn:
        """Begin another window: it is not known what was launched in this one."""
        self._begin_window()
        return Turn.GO_ON

    def _begin_window(self) -> Counter[Hashable]:
        """Another one; the kinds of the last."""
        kinds, self._kinds, self._weight = self._kinds, Counter(), 0
        return kinds

    def changed(self) -> None:
        """Another way is in use."""
        if self._folds:
            self._folds_each = self._folds / max(self.looks - self._folds_from, 1)
        self._folds, self._folds_from = 0.0, self.looks
        self._settling, self._left = _SETTLING, 0
        self._begin_window()
        self.former = 0

    def take_count(self, former: int) -> None:
        """Another number of workers is in use than `former`."""
        self.former, self._former, self._split = former, self._split, {}

    def compare(self) -> Turn:
        """Whether periods over the number of workers in use are longer than over the one before: once it is known, it is asked no more."""
        if not self.former:
            return Turn.GO_ON
        kinds = _known(self._kinds, self._split, self._former)
        if kinds and _expected(kinds, self._former) < _SHORTER * _expected(kinds, self._split):
            return Turn.FORMER_COUNT
        if kinds or self.is_full:
            self.former = 0
        return Turn.GO_ON

    def pass_by(self, seconds: float, count: int = 1) -> None:
        """So many periods on one worker that is not on trial: only time passes, until several workers may be tried again."""
        self.looks += count
        self.toll *= _FORGET if count == 1 else _FORGET**count
        self._began += seconds

    def add(self, kind: Hashable, seconds: float, *, split: bool) -> bool:
        """A period of this kind. Whether a window over several workers is full, for `judge`, or those over another number of them
        suffice to `compare`, or a trial is over, for `end`.
        """
        self.pass_by(seconds)
        weight = min(1 + int(seconds / _LONG), _MOST_WEIGHT)
        if self._settling:
            self._settling = max(self._settling - weight, 0)
            return False
        table = self._split if split else self._alone
        if kind not in table:
            if len(table) >= _MOST_KINDS:
                table.clear()
            table[kind] = _Kind()
        table[kind].add(seconds)
        self._kinds[kind] += 1
        self._weight += weight
        if self.on_trial:
            self._left = max(self._left - weight, 0)
            return self._left == 0
        return split and self._weight >= (_COMPARED if self.former else _WINDOW)

    def fold(self, seconds: float) -> None:
        """What launches over several workers had left pending was folded, which takes so long by the model."""
        self._folds += seconds

    def take_toll(self, *, split: bool) -> Way:
        """What is charged to several workers since it was last. `split`: they are in use, and folds have been charged to them."""
        count, self._charged = self.looks - self._charged, self.looks
        each = self.toll if split else max(self.toll, self._folds_each)
        return Way(each * count, each * count)

    def judge(self, split: float, one: float, change: float) -> Turn:
        """A window is full, whose launches take `split` seconds by the model, and would take `one` on one worker; to change there
        takes `change`.
        """
        each_counts = self._weight / self._kinds.total()
        kinds = self._begin_window()
        known = _known(kinds, self._split)
        gain = one - split
        if not known:
            return Turn.GO_ON
        took = _expected(known, self._split) * kinds.total() / known.total()
        if took - split <= gain:
            return Turn.GO_ON  # all of what is not explained would not outweigh it
        # In a trial, each kind of period has to come often enough to be known.
        recurring = sum([kind.value is not None for kind in self._split.values()])
        self._tried = max(_TRIAL, ceil(_ENOUGH * recurring * each_counts))
        each = max(gain, 0.0) / kinds.total()  # where they lose by the model, too, it may take long to say so
        cost = 2 * change + (self._tried + _SETTLING) / each_counts * each
        if self._began < max(cost / _SHARE, self._after):
            return Turn.GO_ON
        self._trials = min(self._trials + 1, _MOST_AGAIN)
        self._after = _AGAIN**self._trials * took
        self._alone.clear()
        self._count, self._gain = kinds.total(), gain
        return Turn.TRY_ONE

    def begin_trial(self) -> None:
        """One worker has been taken for it."""
        self.changed()
        self._left, self._is_prolonged = self._tried, False

    def end(self) -> Turn:
        """A trial is over, or goes on: the first periods of a way may still do what is done once."""
        window = self._begin_window()
        kinds = _known(window, self._alone, self._split)
        if not kinds and not self._is_prolonged and _known(window, self._split):
            self._left, self._is_prolonged = self._tried, True
            return Turn.GO_ON
        self._began = 0.0
        if not kinds:  # the program does something else by now
            return Turn.SPLIT_AGAIN
        alone, split = _expected(kinds, self._alone), _expected(kinds, self._split)
        self.toll = max((split - alone) / kinds.total() + self._gain / self._count, 0.0)
        return Turn.GO_ON if alone < _SHORTER * split else Turn.SPLIT_AGAIN


def _known(kinds: Counter[Hashable], *tables: Mapping[Hashable, _Kind]) -> Counter[Hashable]:
    """Those of so many periods of each kind of which every table has what they take; none where these are too few of all."""
    found = Counter(
        {
            kind: count
            for kind, count in kinds.items()
            if all(kind in table and table[kind].value is not None for table in tables)
        }
    )
    return found if found.total() >= _KNOWN * kinds.total() else Counter()


def _expected(kinds: Mapping[Hashable, int], table: Mapping[Hashable, _Kind]) -> float:
    """Seconds of so many periods of each kind, which are `_known`."""
    return sum([count * (table[kind].value or 0.0) for kind, count in kinds.items()])
