"""A launch as the planner sees it: what its plan depends on, and what decides beside the command how it is planned.

Decides nothing, and never looks at a kernel's source: access ranges come from a callable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field

from vdev.planner.balance import Balance, WorkProfile
from vdev.planner.builder import PlanBuilder
from vdev.planner.footprints import PointerArg
from vdev.planner.habits import Habits
from vdev.planner.links import LinkCosts
from vdev.planner.partitioner import Partition
from vdev.planner.successors import Reading
from vdev.planner.tidying import tidy
from vdev.translators.interpreter.summaries import AccessRange, Reason
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

Evaluate = Callable[[Chunk], Sequence[AccessRange]]

#: work-items below which no launch is worth two workers: a hand-over costs some 20 us
USUAL_MIN_ITEMS = 1024


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What decides, besides the command, how a launch is planned. The same for a whole session, or part of a cache
    key.
    """

    workers: tuple[int, ...]  #: numbers of the workers that may be used, ascending
    links: LinkCosts  #: for all workers, including those that may not be used
    #: launches of fewer work-items than this stay on one worker
    min_items: int = 0
    #: (work-groups of the largest chunk, number of chunks) to the kernel's time in the unit of `links`
    compute_cost: Callable[[int, int], float] | None = None
    #: False: bytes that several chunks certainly write are compared with a twin, so that races show
    trust_exact: bool = True
    #: compute units that each worker has for itself; 0: none, or launches that one worker runs at once are cut
    compute_units: int = 0
    #: bytes that several chunks change by commuting atomics stay on their workers until somebody looks
    pending: bool = False
    #: seconds that a unit of `links` takes, to set what cuts elsewhere move against what they gain; 0: not known
    seconds_per_cost: float = 0.0
    #: gives the cuts of an index space to choose from, for so many workers; None: the partitioner's
    cuts: Callable[[tuple[int, ...], int], Sequence[Partition]] | None = None
    #: they are fewer than there are because more would take longer (`spans`)
    fewer: bool = False


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One launch, as far as its plan depends on it."""

    args: tuple[PointerArg, ...]  #: the pointer arguments that are not NULL; several may name one slot
    ndrange: NDRange
    evaluate: Evaluate  #: the access ranges of a chunk, relative to each argument
    one_worker: tuple[Reason, ...] = ()  #: why it must not be cut
    #: The worker gets each buffer whole: for a kernel that does not know of shifted pointers. Then there is
    #: one chunk, and every shift is minus the argument's offset.
    whole_replicas: bool = False
    #: All workers that may be used share the host's memory: they use fine-grain buffers where these are, at home.
    in_place: bool = False
    #: how launches of the kernel were cut before; None: all cuts are compared
    habits: Habits | None = None
    #: by slot, what later launches read of what this one leaves (`successors`)
    readings: Mapping[int, tuple[Reading, ...]] = field(default_factory=dict)
    #: chunks in turn are to be had at once: a cut along the stripes in which a buffer lies is one of those that are compared
    in_turn: bool = False
    #: where cuts other than even ones are better for the kernel, from measured times; None: nothing was measured
    balance: Balance | None = None
    #: how its work is spread along a dimension, by the bounds of its loops; None: nothing is known
    work: Callable[[int], WorkProfile | None] | None = None
    work_depends: Hashable = None  #: what `work` depends on beside the index space
    #: keeps a buffer (by slot), of which some boxes were written, in few boxes
    tidied: Callable[[PlanBuilder, int, Sequence[Region]], None] = tidy
