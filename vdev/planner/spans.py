"""Spans: over how many of the workers launches on some buffers are split, where fewer than all may be faster.

Each additional worker costs the host time for handing the launch over, and needs bytes of its neighbours, while each
worker's share of the work shrinks. So the best number may be neither one nor all. Candidates are all workers, half of
them, and so on; workers that are not chosen get no chunks and no copies.

How long a launch would take over another number of workers is predicted from its plan (`over`): with fewer workers,
chunks are larger, and what they exchange is another part of what they touch (`exchanges`). Predictions only start a
trial: for numbers that have been in use, measured times count. The number is changed as ways are (`regret`): once
launches have lost as much time as changing there and back takes. Each change makes the next one more expensive, so
that a wrong prediction costs little more than once.

Decides nothing about bytes; knows no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vdev.planner.regret import Stake, Stretch
from vdev.planner.timing import Way
from vdev.translators.values import replace

#: one worker without plans, among the numbers of workers
ONE = 1
#: what is predicted counts this many times for a number of workers that was never tried
UNTRIED = 1.1
#: seconds after which what launches have taken counts half
_RECENT = 0.02
#: of what one worker takes, what is foretold of several at most, for these to be tried in its place
WORTH = 0.9
#: what was known no longer counts
_FORGOTTEN = 0.05
#: each change makes the next this many times as expensive, up to this many of them
_AGAIN, _MOST_AGAIN = 2, 10


def halves(count: int) -> tuple[int, ...]:
    """The numbers of workers that are candidates, without one.

    >>> halves(16), halves(6), halves(1)
    ((16, 8, 4, 2), (6, 3), ())
    """
    found = []
    while count > 1:
        found.append(count)
        count //= 2
    return tuple(found)


def over(stake: Stake, now: int, span: int) -> Stake:
    """What a launch that is split over `now` workers would have at stake over `span` of them.

    One that has fewer chunks than workers, since it has no more work-groups, has as many over more workers.
    """
    before = stake.workers
    after = min(before, span) if before < now else span
    if after == before or before < 2:
        return stake
    share = min(stake.share * before / after, 1.0)
    there = replace(stake, workers=after, share=share)
    if not stake.messages:
        return there
    if stake.routes is None:  # it was never split, and may be an exchange between neighbours
        each = min(stake.messages / before, after - 1)
        return replace(there, messages=round(after * each), busiest=min(stake.busiest, after - 1))
    here, then = stake.routes.over(now, before), stake.routes.over(now, after)
    return replace(
        there,
        messages=round(stake.messages * _ratio(then.messages, here.messages)),
        busiest=round(stake.busiest * _ratio(then.busiest, here.busiest)),
        moved=stake.moved * _ratio(then.moved, here.moved),
        incoming=stake.incoming * _ratio(then.incoming, here.incoming),
    )


def _ratio(then: float, here: float) -> float:
    return then / here if here else 1.0


def between(foretold: Stake, known: Stake, weight: float) -> Stake:
    """A stake whose exchange is that of `known` for so much, and that of `foretold` for the rest."""
    if weight < _FORGOTTEN:
        return foretold

    def mixed(one: float, other: float) -> float:
        return one + weight * (other - one)

    return replace(
        foretold,
        moved=mixed(foretold.moved, known.moved),
        incoming=mixed(foretold.incoming, known.incoming),
        messages=round(mixed(foretold.messages, known.messages)),
        busiest=round(mixed(foretold.busiest, known.busiest)),
    )


class Spans:
    """What the launches of an account take over each number of workers, and when another one is to be taken.

    Ways are given by number of workers, `ONE` standing for one worker without plans.
    """

    __slots__ = ("_credit", "_others", "_planned", "_recent", "changes")

    def __init__(self, credit: float) -> None:
        """`credit`: as for `Stretch`."""
        self._credit = credit
        self._others: dict[int, Stretch] = {}
        self._recent: dict[int, Way] = {}
        self._planned = 0.0  #: seconds of planning for the recent launches over several workers
        self.changes = 0  #: of the number of workers, by what was weighed

    @property
    def regret(self) -> float:
        """Seconds that were lost compared with the best other number, not below 0."""
        return max((stretch.regret for stretch in self._others.values()), default=0.0)

    def weigh(
        self,
        now: int,
        ways: Mapping[int, Way],
        thought: float,
        change: Callable[[int], float],
        *,
        goes_on: bool = False,
    ) -> int | None:
        """Some more launches over `now` workers, with what they take over each number, and took to plan over several. The number
        to take from now on, if another one. `change`: seconds that changing to a number takes.

        `goes_on`: as long as launches take so much planning, whatever their number of workers, the host is busy with it, and devices
        may as well take longer.
        """
        self.note(ways, thought)
        ready, planning = [], Way(thought if goes_on else 0.0, 0.0)
        for span, way in ways.items():
            if span in (now, ONE):
                continue
            stretch = self._others.get(span)
            if stretch is None:
                stretch = self._others[span] = Stretch(self._credit)
            dearer = _AGAIN ** min(self.changes, _MOST_AGAIN)
            if stretch.weigh(ways[now] + planning, way + planning, change(span) * dearer):
                ready.append((stretch.regret, span))
        return max(ready)[1] if ready else None

    def note(self, ways: Mapping[int, Way], thought: float) -> None:
        """Some launches take this over each number of workers, and so many seconds to plan."""
        self._planned += thought
        if any(way.seconds > _RECENT for way in self._recent.values()):
            self._planned /= 2
            self._recent = {span: Way(way.host / 2, way.device / 2) for span, way in self._recent.items()}
        for span, way in ways.items():
            self._recent[span] = self._recent.get(span, Way(0.0, 0.0)) + way

    def best(self) -> int | None:
        """The number of workers over which the last launches have taken least, or would have; None where none were seen."""
        return min(
            (span for span in self._recent if span != ONE),
            key=lambda span: self._recent[span].seconds,
            default=None,
        )

    def instead_of_one(self, now: int) -> int | None:
        """The number of workers to try before one worker is taken in the place of `now`; None where one is as good."""
        best, one = self.best(), self._recent.get(ONE)
        if best is None or best == now or one is None:
            return None
        several = self._recent[best] + Way(self._planned, 0.0)
        return best if several.seconds < WORTH * one.seconds else None

    def is_worth(self, span: int) -> bool:
        """Whether the last launches would have taken less over so many workers than on one, with what planning them took: all is
        planned anew.
        """
        one = self._recent.get(ONE)
        several = self._recent[span] + Way(self._planned, 0.0)
        return one is not None and several.seconds < WORTH * one.seconds

    def leave_out(self, most: int) -> None:
        """So many workers, and fewer, are no candidates any more."""
        for table in (self._others, self._recent):
            for span in [span for span in table if ONE < span <= most]:
                del table[span]

    def changed(self) -> None:
        """Another way is now in use."""
        self._others.clear()
        self._recent.clear()
        self._planned = 0.0
