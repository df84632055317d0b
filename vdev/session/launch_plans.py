"""The caches of plans: which parts of a launch, or of a transfer, matter to its plan.

Decides the key under which a plan is found again: kernel, index space, the placement of each pointer
argument, the values that analysis depends on, and the interned state of every buffer. What is not in the key
cannot change which bytes are touched. The plan itself is the planner's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from math import inf
from operator import attrgetter
from typing import Any

from vdev.executor.prepare import PreparedPlan
from vdev.observe.recorder import Shape
from vdev.observe.tallies import (
    CopyTraffic,
    KernelTally,
    Outcome,
    Traffic,
    Travels,
    travels_of,
)
from vdev.planner.balance import Balance
from vdev.planner.directory import BufferState
from vdev.planner.footprints import PointerArg
from vdev.planner.habits import Habits
from vdev.planner.instructions import Plan
from vdev.planner.regret import Stake
from vdev.planner.spans import ONE
from vdev.planner.successors import Reading, Successors
from vdev.planner.transfers import elsewhere, is_alike_everywhere, is_one_fill, with_pattern
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import BufferArg, Fill, Launch
from vdev.session.cutoff import Cutoff
from vdev.session.filling import Forms
from vdev.session.interiors import Interiors
from vdev.session.kept_plans import KeptPlans
from vdev.session.programs import SessionKernel
from vdev.session.requests import (
    RangeCache,
    Reader,
    pointer_args,
    pointer_into,
    scalar_readers,
)
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

KEPT = (
    "kept on one worker: if they were split, launches on these buffers would exchange so much that one worker takes less"
    " time (VDEV_GATHER)"
)
THRIFTY = (
    "on one worker without a plan: planning launches on these buffers, handing them over to several workers and exchanging"
    " data took longer than splitting them saved (VDEV_PLANNING)"
)
PRESUMED = (
    "begun on one worker without a plan: by what it asks for, none of the program's launches so far takes long enough to gain"
    " by several ones (VDEV_PLANNING)"
)

#: plans kept for each kernel (of all of them: `vdev.session.kept_plans`); a program that needs more of them changes something with
#: every launch, and gains nothing from a cache
_MOST_PLANS = 1024
#: of each kernel: plans with a form that are found by the identities of what they depend on
_MOST_FORMED = 64
_BUFFERS = {BufferArg}
_buffer_of: Callable[[BufferArg], VirtualBuffer] = attrgetter("buffer")
_state_of: Callable[[VirtualBuffer], BufferState] = attrgetter("state")
_place_of = attrgetter("offset", "nbytes", "before")
#: launches in a row that were not repeated, after which only those with the arguments of the one before may be
_MOST_IN_VAIN = 8
#: of those that earlier runs of a program made to one worker, the returns that count: its next run may do something else
_MOST_KEPT_RETURNS = 3
#: the weight of a launch of which nothing is known: each is looked at
_EVERY = 1 << 20
#: boxes of bytes in a remembered plan of a transfer
_MOST_TRANSFER_BOXES = 256


@dataclass(slots=True, eq=False)
class PlanHistory:
    """What is counted of a plan from launch to launch."""

    #: how often it was handed over for a launch that was weighed
    handed: int = 0
    #: the number of the kernel's launch before which nobody wants to know what its chunks take beside each other
    looked_until: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class CachedPlan:
    """A plan, ready to run, with the states it leads to and the arguments that are the same each time."""

    plan: Plan
    prepared: PreparedPlan
    states: tuple[BufferState, ...]
    #: where its launches are counted, and what each of them moves; None where that is nothing
    outcome: Outcome = field(default_factory=Outcome)
    traffic: Traffic | CopyTraffic | None = None
    #: it leaves every buffer as it finds it: the same launch has the same plan next time
    steady: bool = False
    #: for the recorder, if there is one
    shape: Shape | None = None
    #: for the choice between all workers and one, if there is one
    stake: Stake | None = None
    #: it is for a launch that needs none (`vdev.session.direct`)
    direct: bool = False
    #: whether it was filled in rather than made (`vdev.session.filling`)
    filled: bool = False
    #: what it moves has to move only once: the next such launch is planned anew
    once: bool = False
    #: what its chunks read of buffers of which they bring much from each other, by slot
    readings: tuple[tuple[int, Reading], ...] = ()
    #: slots whose pending bytes have to be folded first: there is no plan yet
    unfolded: tuple[int, ...] = ()
    #: the plan with interiors that is handed over in its place, if there is one
    divided: Plan | None = None
    history: PlanHistory = field(default_factory=PlanHistory)


@dataclass(slots=True, eq=False)
class ReadyPlan:
    """The plan of a transfer, ready to run."""

    plan: Plan
    prepared: PreparedPlan
    #: for the recorder, if there is one
    shape: Shape | None = None
    _travels: Travels | None = None

    @property
    def travels(self) -> Travels:
        """What is counted as moved, found out when it is asked for first."""
        if self._travels is None:
            self._travels = travels_of(self.plan)
        return self._travels

    def elsewhere(self, region: Region) -> ReadyPlan:
        """The same for other bytes that are moved in the same way."""
        plan = elsewhere(self.plan, region)
        return ReadyPlan(plan, self.prepared.elsewhere(plan))

    def with_pattern(self, pattern: bytes) -> ReadyPlan:
        """The same fill with another pattern of the same length."""
        plan = with_pattern(self.plan, pattern)
        return ReadyPlan(plan, self.prepared.elsewhere(plan))


class TransferPlans:
    """The plans of writes, reads, copies and fills, by everything that they depend on.

    A program that keeps making the same transfers plans none of them twice, nor those of other consecutive bytes of a
    buffer that one worker alone has.
    """

    __slots__ = ("_alike", "_fills", "_known", "_others", "_same")

    def __init__(self) -> None:
        self._known: dict[Any, ReadyPlan] = {}
        #: of reads and writes, by the identity of a state: the plan that says how bytes anywhere in the buffer are moved
        self._alike: dict[tuple[type, int], tuple[BufferState, ReadyPlan]] = {}
        #: of reads and writes, by the identities of layout and state
        self._same: dict[tuple[type, int, int], tuple[Layout, BufferState, ReadyPlan]] = {}
        #: of fills, by bytes, length of the pattern and the identity of a state: the last one that is one step of one worker
        self._fills: dict[tuple[int, int, int, int], tuple[BufferState, ReadyPlan]] = {}
        #: of others, by what they depend on and the identities of their buffers' states
        self._others: dict[tuple[Any, ...], tuple[Sequence[BufferState], ReadyPlan]] = {}

    def find(self, key: Any) -> ReadyPlan | None:
        return self._known.get(key)

    def find_move(self, kind: type, layout: Layout, state: BufferState) -> ReadyPlan | None:
        """The plan of a read, or write, of a buffer in a state: looked up by identity first, since hashing the two
        takes longer than everything else.
        """
        key = (kind, id(layout), id(state))
        same = self._same.get(key)
        if same is not None and same[0] is layout and same[1] is state:
            return same[2]
        found = self._known.get((kind, layout, state)) or self._found_alike(kind, layout, state)
        if found is not None:
            if len(self._same) >= _MOST_PLANS:
                self._same.clear()
            self._same[key] = (layout, state, found)
        return found

    def _found_alike(self, kind: type, layout: Layout, state: BufferState) -> ReadyPlan | None:
        alike = self._alike.get((kind, id(state)))
        if alike is None or alike[0] is not state or not layout.is_contiguous:
            return None
        found = alike[1].elsewhere(layout.buffer_region())
        self._keep((kind, layout, state), found)
        return found

    def find_fill(self, fill: Fill, state: BufferState) -> ReadyPlan | None:
        """The plan of a fill like one of the same bytes with another pattern, of a buffer in the same state."""
        like = self._fills.get((fill.offset, fill.nbytes, len(fill.pattern), id(state)))
        return None if like is None or like[0] is not state else like[1].with_pattern(fill.pattern)

    def find_same(self, what: tuple[Any, ...], states: Sequence[BufferState]) -> ReadyPlan | None:
        """What `remember_same` was given for the same: found by identity, since hashing states takes longer than
        everything else.
        """
        same = self._others.get((*what, *map(id, states)))
        return None if same is None else same[1]

    def remember_same(self, what: tuple[Any, ...], states: Sequence[BufferState], found: ReadyPlan) -> None:
        """Keep the plan of something in these states, which live as long as it is known."""
        if len(self._others) >= _MOST_PLANS:
            self._others.clear()
        key = (*what, *map(id, states))
        self._others[key] = (states, found)

    def remember(self, key: Any, found: ReadyPlan) -> None:
        """Keep it, unless it is long: rectangles of many rows cost more to keep than to plan."""
        nboxes = sum(touch.region.nboxes for touches in found.plan.touches for touch in touches)
        nboxes += sum(region.nboxes for state in found.plan.states for _, region in state.valid)
        if nboxes > _MOST_TRANSFER_BOXES:
            return
        self._keep(key, found)
        kind, what, *states = key
        if kind is Fill and is_one_fill(found.plan, states[0]):
            offset, nbytes, pattern = what
            if len(self._fills) >= _MOST_PLANS:
                self._fills.clear()
            self._fills[offset, nbytes, len(pattern), id(states[0])] = states[0], found
        if isinstance(what, Layout) and what.is_contiguous and is_alike_everywhere(found.plan, states[0]):
            if len(self._alike) >= _MOST_PLANS:
                self._alike.clear()
            self._alike[kind, id(states[0])] = states[0], found

    def _keep(self, key: Any, found: ReadyPlan) -> None:
        if len(self._known) >= _MOST_PLANS:
            self._known.clear()
        self._known[key] = found

    def forget(self) -> None:
        """Forget all of them: they are made again when they are needed."""
        for plans in (self._known, self._alike, self._fills, self._same, self._others):
            plans.clear()


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What launches have in common whose arguments point into buffers in the same way, wherever in them, and whose
    work-groups are alike.
    """

    _pointers: tuple[PointerArg, ...]

    def pointers(self, offsets: Sequence[int]) -> tuple[PointerArg, ...]:
        """The arguments that point to these offsets."""
        return tuple(
            [
                pointer_into(each.arg, each.slot, offset, each.before + each.nbytes, each.nbytes_own)
                if each.before or each.nbytes_own < each.nbytes
                else each
                for each, offset in zip(self._pointers, offsets, strict=True)
            ]
        )


class LaunchCache:
    """The plans of one kernel."""

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_cutoff_kept",
        "_formed",
        "_in_vain",
        "_kept",
        "_kernel",
        "_machine",
        "_names",
        "_once",
        "_places",
        "_plans",
        "_readers",
        "_scalars",
        "_span_kept",
        "_written",
        "account_of_new",
        "balance",
        "cutoff",
        "forms",
        "generation",
        "habits",
        "has_forms",
        "has_refills",
        "interiors",
        "is_new",
        "kept_returns",
        "kept_toll",
        "placed",
        "plain_places",
        "pointers",
        "ranges",
        "repeated",
        "resident",
        "span",
        "successors",
        "tally",
        "weight",
    )

    def __init__(self, kernel: SessionKernel, tally: KernelTally, kept: KeptPlans | None = None) -> None:
        """`tally`: where the kernel's launches are counted. `kept`: the plans of all kernels that share a limit."""
        self._kernel = kernel
        self._kept = KeptPlans() if kept is None else kept
        self._kept.enter(self)
        self.tally = tally
        self.pointers = kernel.pointers
        #: where they point if each points to the beginning of a buffer of its own: (argument, slot, bytes into the buffer)
        self.plain_places = tuple((index, slot, 0) for slot, index in enumerate(self.pointers))
        self._names: tuple[str, ...] | None = None
        self._scalars: tuple[int, ...] | None = None  #: known once the kernel has been analysed
        self._plans: dict[Any, CachedPlan] = {}
        self.generation = 0  #: how often plans were forgotten
        self._once: set[int] = set()  #: hashes of the keys of plans that were filled in and not kept
        self._places: dict[Any, Place] = {}  #: by local size, and by slot and bounds of each pointer argument
        self._readers: tuple[Reader, ...] | None = None
        self.ranges = RangeCache()
        self.habits = Habits()
        self.balance = Balance()
        self.is_new = True  #: no split launch has been weighed
        self.successors = Successors()
        self.interiors = Interiors()
        self._written: tuple[int, ...] | None = None
        #: over how many workers launches are split on buffers for which nothing has been chosen; 0: all
        self.span = 0
        self._span_kept: tuple[int, int] | None = (
            None  #: from the program's last run, or for its next: with returns
        )
        self.kept_returns = 0  #: of launches on one worker, what the program's earlier runs count for
        #: of the same: seconds that a period over several workers was measured to take longer than is foretold (`Periods.toll`)
        self.kept_toll = 0.0
        self.cutoff = Cutoff(0)  #: of the kernel's launches
        self._cutoff_kept = 0  #: likewise
        self._machine = ""  #: the name under which these and cuts are kept between runs; empty: they are not
        self.forms = Forms()
        self.has_forms = (
            False  #: whether plans are handed over for whatever buffers (`vdev.executor.plan_form`)
        )
        self.has_refills = False  #: whether any is handed over as one of its form was compiled (`vdev.executor.refilled_plan`)
        #: a plan that was made to be handed over at once, and what it depends on: it may have to be submitted
        self._ahead: tuple[Any, CachedPlan] | None = None
        #: of these plans, by the identities of index space and states, which are kept with them
        self._formed: dict[Any, tuple[CachedPlan, NDRange, Sequence[BufferState]]] = {}
        #: whether the last repetition has made a launch, and how many in a row have not
        self.repeated: list[bool] | None = None
        self._in_vain = 0
        #: plans of direct launches: by worker and number of buffers where all are there, else by their states
        self.resident: dict[tuple[int, int], CachedPlan] = {}
        self.placed: dict[Any, CachedPlan] = {}
        #: for launches without a plan, one of which is looked at now and then: how many short ones each stands for
        self.weight = _EVERY
        #: with several workers: the account of the last launches on buffers of which no worker had anything yet, or None
        self.account_of_new: Any = None

    @property
    def kernel(self) -> SessionKernel:
        """Whose plans they are."""
        return self._kernel

    @property
    def nplans(self) -> int:
        """How many plans are kept."""
        return len(self._plans) + len(self.placed)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the pointer arguments."""
        if self._names is None:
            args = self._kernel.info.args
            self._names = tuple([args[index].name or "" for index in self.pointers])
        return self._names

    @property
    def readers(self) -> tuple[Reader, ...]:
        """The value arguments on which the kernel's ranges depend, in order, and what reads each of them."""
        if self._readers is None:
            self._readers = scalar_readers(self._kernel)
        return self._readers

    @property
    def written(self) -> tuple[int, ...]:
        """The pointer arguments through which the kernel writes."""
        if self._written is None:
            summary = self._kernel.summary
            accesses = () if summary is None else summary.accesses
            self._written = tuple(sorted({item.arg for item in accesses if item.mode != "read"}))
        return self._written

    def is_read_in_stripes(self, launch: Launch) -> bool:
        """Whether `launch` is planned for what later ones read."""
        args = launch.args
        return any(
            type(arg := args[index]) is BufferArg
            and self.successors.of(self.left_in(launch, index, arg.buffer))
            for index in self.written
        )

    def left_in(self, launch: Launch, index: int, buffer: VirtualBuffer) -> Hashable:
        """What launches have in common that leave the same in a buffer through an argument."""
        scalars = tuple([launch.args[number] for number in self._scalars or ()])
        return index, launch.ndrange.global_size, launch.ndrange.local_size, buffer.nbytes, scalars

    def readings(self, launch: Launch, pointers: Sequence[PointerArg]) -> dict[int, tuple[Reading, ...]]:
        """By slot, what later launches read of what `launch` leaves."""
        found = {}
        for pointer in pointers:
            arg = launch.args[pointer.arg]
            if type(arg) is BufferArg and (
                known := self.successors.of(self.left_in(launch, pointer.arg, arg.buffer))
            ):
                found[pointer.slot] = known
        return found

    def place_of(self, launch: Launch, buffers: Sequence[VirtualBuffer]) -> tuple[Place, list[int]]:
        """One object for all launches that differ at most in their numbers, and where in their buffers the arguments of this
        one point. `buffers`: by slot.
        """
        parts: list[Any] = [launch.ndrange.local_size, launch.ndrange.regroups]
        offsets = []
        for index in self.pointers:
            arg = launch.args[index]
            if type(arg) is BufferArg:
                parts.append((index, buffers.index(arg.buffer), arg.nbytes, arg.buffer.nbytes))
                offsets.append(arg.offset)
        key = tuple(parts)
        found = self._places.get(key)
        if found is None:
            if len(self._places) >= _MOST_PLANS:
                self._places.clear()
            found = self._places[key] = Place(pointer_args(launch, buffers))
        return found, offsets

    def expects_repetition(self) -> bool:
        """Whether it pays to prepare for the same launch to come again, whatever its arguments."""
        last, self.repeated = self.repeated, None
        if last is not None:
            self._in_vain = 0 if last[0] else self._in_vain + 1
        return self._in_vain < _MOST_IN_VAIN

    def find(
        self, launch: Launch, plan: Callable[[Launch, list[VirtualBuffer]], CachedPlan]
    ) -> tuple[CachedPlan, list[VirtualBuffer]]:
        """The plan for `launch` as the directory stands, and its buffers by slot. `plan` makes it if there is none
        yet.
        """
        key, buffers = self._key_of(launch)
        found = self._plans.get(key)
        if found is None:
            ahead, self._ahead = self._ahead, None
            found = (
                ahead[1] if ahead is not None and ahead[0] == key else self._made(key, plan(launch, buffers))
            )
        return found, buffers

    def find_ahead(
        self, launch: Launch, plan: Callable[[Launch, list[VirtualBuffer]], CachedPlan]
    ) -> tuple[CachedPlan, list[VirtualBuffer]]:
        """The same for who asks again if the launch has to be submitted, with nothing changed since: it is planned once."""
        key, buffers = self._key_of(launch)
        found = self._plans.get(key)
        if found is None:
            found = self._made(key, plan(launch, buffers))
            self._ahead = key, found
        return found, buffers

    def _made(self, key: Any, found: CachedPlan) -> CachedPlan:
        """The plan was made, and is kept where that is of use."""
        if not found.once and (not found.filled or self._wanted_again(key)):
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._kept.added()  # may drop those before
            self._plans[key] = found
        return found

    def known(self, launch: Launch) -> tuple[CachedPlan | None, list[VirtualBuffer]]:
        """The same, where there is a plan."""
        key, buffers = self._key_of(launch)
        return self._plans.get(key), buffers

    def known_form(self, launch: Launch) -> tuple[CachedPlan | None, list[VirtualBuffer]]:
        """As `known`, of a launch that reaches no buffers but its arguments': that of a plan with a form is found without a look at each of
        these.
        """
        args, ndrange = launch.args, launch.ndrange
        given: list[Any] = [*map(args.__getitem__, self.pointers)]
        if {*map(type, given)} != _BUFFERS or self._scalars is None:
            return self.known(launch)
        buffers = [*map(_buffer_of, given)]
        if len({*buffers}) != len(buffers):
            return self.known(launch)
        states = [*map(_state_of, buffers)]
        values = map(args.__getitem__, self._scalars)
        key = (id(ndrange), self.span_of(buffers), *map(id, states), *map(_place_of, given), *values)
        found = self._formed.get(key)
        if found is not None:
            return found[0], buffers
        cached, _ = self.known(launch)
        if cached is not None and cached.prepared.form is not None:
            if len(self._formed) >= _MOST_FORMED:
                self._formed.clear()
            self._formed[key] = cached, ndrange, states
        return cached, buffers

    def _key_of(self, launch: Launch) -> tuple[Any, list[VirtualBuffer]]:
        """Everything that a launch's plan depends on, and its buffers by slot."""
        if self._scalars is None:
            self._scalars = tuple(sorted(self._kernel.scalars))
        args = launch.args
        buffers: list[VirtualBuffer] = []
        parts: list[Any] = [launch.ndrange]
        for index in self.pointers:
            arg = args[index]
            if type(arg) is not BufferArg:
                parts.append(None)
                continue
            buffer = arg.buffer
            if buffer in buffers:
                parts.append(buffers.index(buffer))
            else:
                buffers.append(buffer)
                parts.append(buffer.state)
            parts.append((arg.offset, arg.nbytes, arg.before))
        for index in self._scalars:
            parts.append(args[index])
        if launch.shared:
            _add_shared(launch, buffers, parts)
        parts.append(self.span_of(buffers))
        return tuple(parts), buffers

    def span_of(self, buffers: Sequence[VirtualBuffer]) -> int:
        """Over how many workers a launch on `buffers` is split: the first for which that has been chosen decides. 0:
        all.
        """
        for buffer in buffers:
            if buffer.span:
                return buffer.span
        return self.span

    def begin(self, machine: str) -> int | None:
        """Begin with the best cuts of the program's last run on a machine with such workers. Gives the number of workers that was
        kept of it, None where that is none.
        """
        self._machine = machine
        kept = self._kernel.program.kept
        if kept is None:
            return None
        name = self._kernel.name
        kept.noted(name, f"cuts {machine}", lambda plain: self.balance.take(plain["cuts"]))
        way = kept.noted(name, f"workers {machine}", _way_of)
        if way is None:
            return None
        found, self.kept_toll = way
        self._span_kept = found
        # An earlier run may have been too short to gain.
        self.kept_returns = min(max(found[1], 1), _MOST_KEPT_RETURNS)
        return found[0]

    def keep_balance(self) -> None:
        """Keep the best cuts that were seen, where they are others than before."""
        kept = self._kernel.program.kept
        found = None if kept is None or not self._machine else self.balance.news()
        if kept is not None and found is not None:
            kept.note(self._kernel.name, f"cuts {self._machine}", {"cuts": found})

    def keep_span(self, span: int, returns: int, toll: float) -> None:
        """The program's next run begins with launches over so many workers, after so many returns to one, and with what is charged to
        several for a period, in seconds.
        """
        kept, found = self._kernel.program.kept, (span, returns if span == ONE else 0)
        if kept is not None and self._machine and found != self._span_kept:
            self._span_kept = found
            way = {"workers": found[0], "returns": found[1], "toll": toll}
            kept.note(self._kernel.name, f"workers {self._machine}", way)

    def begin_cutoff(self, cutoff: Cutoff) -> None:
        """After `begin`: begin with this cutoff, and with what the program's last run has kept of one."""
        kept = self._kernel.program.kept
        if kept is not None and self._machine:
            name, what = self._kernel.name, f"cutoff {self._machine}"
            self._cutoff_kept = kept.noted(name, what, lambda plain: int(plain["below"])) or 0
        self.cutoff = cutoff
        cutoff.below = max(cutoff.below, self._cutoff_kept)

    def keep_cutoff(self) -> None:
        """The program's next run begins with this one."""
        kept, below = self._kernel.program.kept, int(self.cutoff.below)
        if kept is not None and self._machine and below != self._cutoff_kept:
            self._cutoff_kept = below
            kept.note(self._kernel.name, f"cutoff {self._machine}", {"below": below})

    def forget(self) -> None:
        """Forget all plans: they are made again when they are needed."""
        self.generation += 1
        self._ahead = None
        self._plans.clear()
        self._formed.clear()
        self._once.clear()

    def place(self, key: Any, found: CachedPlan) -> None:
        """Keep the plan of a direct launch, by its buffers' states."""
        if len(self.placed) >= _MOST_PLANS:
            self.placed.clear()
        self._kept.added()  # may drop those before
        self.placed[key] = found

    def drop(self) -> None:
        """Keep no plans any more but those of direct launches whose buffers are all there, of which there are few."""
        self._ahead = None
        self._plans.clear()
        self._formed.clear()
        self.placed.clear()

    def _wanted_again(self, key: Any) -> bool:
        """Whether a plan that is easily filled in again is worth keeping: the garbage collector would have to go
        through those of scalars that never come back.
        """
        name = hash(key)
        if name in self._once:
            return True
        if len(self._once) >= _MOST_PLANS:
            self._once.clear()
        self._once.add(name)
        return False


def _way_of(plain: Mapping[str, Any]) -> tuple[tuple[int, int], float]:
    """What `LaunchCache.keep_span` has kept: workers and returns, and the toll. ValueError if it is none."""
    toll = float(plain.get("toll", 0.0))
    if not 0 <= toll < inf:
        raise ValueError(f"a period cannot be charged {toll} s")
    return (int(plain["workers"]), int(plain.get("returns", 1))), toll


def _add_shared(launch: Launch, buffers: list[VirtualBuffer], parts: list[Any]) -> None:
    """The buffers that a launch reaches without an argument, and what they add to the key of its plan."""
    known = {id(buffer): slot for slot, buffer in enumerate(buffers)}  # there may be thousands
    for buffer in launch.shared:
        slot = known.get(id(buffer))
        if slot is None:
            buffers.append(buffer)
            parts.append(buffer.state)
        else:
            parts.append(slot)
