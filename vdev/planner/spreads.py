"""Spreads: bytes that many workers need alike, of which each holder has a part that no other has, as where everybody reads what everybody
has written.

What each of n workers lacks then is what the others have, whoever asks: it is looked at once, and neither what that costs nor the copies
that bring it are worked out pair by pair, of which there are n times n. Decides when bytes are needed like that, never where one comes
from: that and the order of copies are those of `PlanBuilder.make_valid`, which serves whatever is not like that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from itertools import repeat
from operator import add, itemgetter, mul

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import FEW_HOLDERS, HOST, BufferState
from vdev.planner.links import LinkCosts
from vdev.translators.ranges.region import Region


class Spread:
    """Bytes in disjoint pieces, by who has them."""

    __slots__ = ("_nbytes", "_nruns", "_places", "_take", "everything", "holders", "pieces")

    def __init__(self, found: Sequence[tuple[int, Region]], everything: Region) -> None:
        self.holders = tuple([holder for holder, _ in found])  #: ascending, the home first
        self.pieces = tuple([piece for _, piece in found])
        self.everything = everything  #: all pieces
        self._take = itemgetter(
            *self.holders
        )  # of something by holder, as a list in which the home is the last
        self._nbytes = [piece.nbytes for piece in self.pieces]
        self._nruns = [piece.nruns for piece in self.pieces]
        self._places = {holder: place for place, holder in enumerate(self.holders)}

    def lacking(self, target: int, links: LinkCosts, before: float) -> tuple[float, float, int, int]:
        """What all pieces cost that are not at `target`, without their runs; `before` with what their runs cost; how many these are; how
        many bytes come from workers. In the order in which `Candidates` adds
        them up, as sums of such numbers depend on it.
        """
        own = self._places.get(target)
        nbytes, nruns, costs = list(self._nbytes), list(self._nruns), self._take(links.into[target])
        if own is not None:
            nbytes[own] = nruns[own] = 0
        order = sorted(range(len(costs)), key=costs.__getitem__)
        added = reduce(add, map(mul, map(nbytes.__getitem__, order), map(costs.__getitem__, order)), 0.0)
        of_runs = reduce(add, map(mul, map(nruns.__getitem__, order), repeat(links.per_run)), before)
        at_home = 0 if target == HOST else sum(nbytes) - (nbytes[0] if self.holders[0] == HOST else 0)
        return added, of_runs, sum(nruns), at_home

    def is_as_cheap(self, target: int, links: LinkCosts) -> bool:
        """Whether no piece could come to a worker over a cheaper link than from who has it."""
        costs, least = self._take(links.into[target]), links.cheapest[target]
        own = self._places.get(target)
        others = costs if own is None else (*costs[:own], *costs[own + 1 :])
        return others.count(least) == len(others)


def spread_of(state: BufferState, needs: Sequence[Region]) -> Spread | None:
    """What several need of a buffer in this state, if it is the same for all of many, and lies with many holders of whom no two have the
    same byte; None otherwise.
    """
    first = needs[0]
    if len(needs) <= FEW_HOLDERS or len(state.valid) <= FEW_HOLDERS or type(first.start) is not int:
        return None
    if first != needs[-1] or any(first is not each and first != each for each in needs):
        return None
    found = [(holder, piece) for holder, held in state.near(first) if (piece := first & held)]
    if len(found) <= FEW_HOLDERS:
        return None
    everything = Region.union([piece for _, piece in found])
    apart = sum([piece.nbytes for _, piece in found]) == everything.nbytes
    return Spread(found, everything) if apart else None


def supply_alike(builder: PlanBuilder, slot: int, workers: Sequence[int], needs: Sequence[Region]) -> bool:
    """Bring to each of these workers what it needs, as `PlanBuilder.make_valid` does for one after the other; False, and nothing, where
    they do not need the same, or where that would have more to choose.
    """
    draft, links = builder.drafts[slot], builder.links
    if not (links.are_one_group and draft.has_same_bytes()) or HOST in workers:
        return False  # in several groups, some pieces have to go by the home
    spread = spread_of(draft.before, needs)
    if spread is None or not all(spread.is_as_cheap(worker, links) for worker in workers):
        return False
    if (
        links.groups
        and len({links.groups[holder] for holder in (*spread.holders, *workers) if holder != HOST}) > 1
    ):
        return False  # some pieces would have to go by the home
    # Each begins with itself or who comes next, as in `make_valid`, where the home comes behind all workers.
    home = spread.holders[0] == HOST
    found = list(zip(spread.holders, spread.pieces, strict=True))
    bundle = builder.bundle(slot, found[home:] + found[:home], workers, spread.everything)
    if bundle is None:
        return False
    numbers = spread.holders[home:]
    for worker in workers:
        first = bisect_left(numbers, worker)
        own = first < len(numbers) and numbers[first] == worker
        builder.copy_bundle(bundle, worker, first + own, first + len(found))
        draft.add(worker, spread.everything)
    return True
