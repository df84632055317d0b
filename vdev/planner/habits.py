"""Habits: the cut that launches of a kernel had before, tried first when one of them is planned again.

Programs launch a kernel with other numbers on other parts of the same data, and the best cut is nearly always the one
used last time. Decides when it is used without comparing others: if it moves hardly more than the best of all cuts
did when they were last compared. Each time a comparison finds the same cut again, the next one comes later. A launch of
fewer work-groups than there are workers is like others of as many, each on a worker of its own.
"""

from __future__ import annotations

from math import prod

from vdev.translators.values import dataclass

#: a usual cut may cost this many times as much as the best did, or this much more
RATIO, MORE = 1.25, float(1 << 16)
#: the most plans between two looks at all cuts
MOST = 128
#: cuts that are remembered of a kernel whose best one is another one again and again
MOST_RECENT = 3


@dataclass(slots=True)
class Habit:
    """The cut of the last launch: parts in each dimension, and the worker of each chunk."""

    cuts: tuple[int, ...]
    workers: tuple[int, ...]
    cost: float  #: of the best cut when all were last looked at
    patience: int = 0  #: plans between the last look and the next
    left: int = 0  #: of these


#: numbers of work-groups of launches too small for all workers, for each of which there is a habit
MOST_SMALL = 64

#: dimensions, or for a launch of fewer work-groups than workers these; and the workers
_Kind = tuple[int | tuple[int, ...], tuple[int, ...]]


def _kind(groups: tuple[int, ...], workers: tuple[int, ...]) -> _Kind:
    return (groups if prod(groups) < len(workers) else len(groups)), workers


class Habits:
    """The habits of one kernel, by dimensions and workers."""

    __slots__ = ("_known", "_recent")

    def __init__(self) -> None:
        self._known: dict[_Kind, Habit] = {}
        #: cuts that were the best at some time, the last one first
        self._recent: dict[_Kind, tuple[tuple[int, ...], ...]] = {}

    def find(self, groups: tuple[int, ...], workers: tuple[int, ...]) -> Habit | None:
        """The habit of launches of so many work-groups on these workers, unless it is time to look at all cuts again."""
        habit = self.latest(groups, workers)
        return habit if habit is not None and habit.left > 0 else None

    def latest(self, groups: tuple[int, ...], workers: tuple[int, ...]) -> Habit | None:
        """The same, whether or not it is time."""
        return self._known.get(_kind(groups, workers))

    def recent(self, groups: tuple[int, ...], workers: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Cuts that were the best in turn, as when data is transposed there and back; none where it was always the same."""
        found = self._recent.get(_kind(groups, workers), ())
        return found if len(found) > 1 else ()

    @staticmethod
    def allows(habit: Habit, cost: float) -> bool:
        """Whether the usual cut is used, now that its cost is known; if so, one more plan is counted."""
        if cost > max(habit.cost * RATIO, habit.cost + MORE):
            habit.left = habit.patience = 0
            return False
        habit.left -= 1
        return True

    def learn(
        self,
        groups: tuple[int, ...],
        available: tuple[int, ...],
        cuts: tuple[int, ...],
        workers: tuple[int, ...],
        cost: float,
    ) -> None:
        """All cuts, or the recent ones, were compared, and this one was the best."""
        kind = _kind(groups, available)
        if kind not in self._known and len(self._known) >= MOST_SMALL:
            self._known.clear()
            self._recent.clear()
        others = tuple(other for other in self._recent.get(kind, ()) if other != cuts)
        self._recent[kind] = (cuts, *others)[:MOST_RECENT]
        habit = self._known.get(kind)
        if habit is None or (habit.cuts, habit.workers) != (cuts, workers):
            self._known[kind] = Habit(cuts, workers, cost)
            return
        habit.cost = cost
        habit.left = habit.patience = min(max(2 * habit.patience, 2), MOST)
