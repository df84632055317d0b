"""Putting a plan together: instructions with their dependencies, and the drafts of the states they lead to.

Decides where a missing byte is fetched from, how large a replica becomes, and which instruction waits for
which. What is to be computed or moved for a command is decided by its callers, `launches` and `transfers`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple

from vdev.planner.directory import HOST, BufferState, Draft, holders_of
from vdev.planner.instructions import (
    FOLD_NBYTES,
    STAGE_ALIGNMENT,
    Combine,
    Copy,
    CopyBetween,
    Download,
    Fetch,
    Fill,
    Fold,
    Gather,
    Instruction,
    Launch,
    Merge,
    Plan,
    Reserve,
    Restore,
    Stage,
    Touch,
    Upload,
    moved_bytes,
)
from vdev.planner.links import LinkCosts
from vdev.translators.ranges.conflicts import Log, conflicts
from vdev.translators.ranges.grain import BYTES, Grain
from vdev.translators.ranges.labelled import Cut, Labelled, regions_by_label
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import EMPTY, Region

#: replicas begin and end at multiples of this many bytes (or at the buffer's end): alignment, and fewer moves
#: of allocations
GRANULE = 4096

#: a replica that grows gets up to this much more than needed in the direction of growth; one that moves on and keeps
#: what it had gets as much again as it then has, so that a walk over a buffer moves it only a few times
MAX_SLACK = 1 << 20

#: below this size a replica's hull may contain gaps whatever they cost
SMALL_REPLICA = 1 << 20

#: above it, a hull may be this many times as large as the bytes wanted of it
GAPS = 2

#: entries of a log up to which looking at each costs less
FEW_ENTRIES = 8

#: make a copy and a touch of tuples of what they have, without a step of Python: plans have many
_as_copy, _as_touch = partial(tuple.__new__, Copy), partial(tuple.__new__, Touch)


class Bundle(NamedTuple):
    """Pieces of one buffer that many copies bring to many workers, in an order that each of these enters at another place; all that
    follows from a piece and its holder alone is worked out once. Everything twice in a row, so that each takes what follows one another.
    """

    slot: int
    sources: list[int]
    pieces: list[Region]
    nbytes: list[int]
    reads: list[Touch]
    waits: list[tuple[int, ...]]  #: what a copy of the piece has to wait for
    entries: list[list[tuple[int, int, Region]]]  #: what is known to read there


class PlanBuilder:
    """One plan in the making. Instructions are appended in an order that is already a correct sequential
    program.

    Dependencies follow from what the instructions touch: each waits for the earlier ones that touch the same
    bytes at the same holder, at least one of the two writing; only waits across workers are recorded, a
    worker's own order being given.
    """

    def __init__(self, states: Sequence[BufferState], links: LinkCosts) -> None:
        self.drafts = [Draft(state) for state in states]
        self.links = links
        self._instructions: list[Instruction] = []
        self._dependencies: list[tuple[int, ...]] = []
        self._touches: list[tuple[Touch, ...]] = []
        self._stages: list[Stage] = []
        #: by (slot, holder, whether it writes): what instructions touch there
        self._log: defaultdict[tuple[int, int, bool], Log] = defaultdict(Log)
        #: bytes that each holder has to send in this plan, to spread the load
        self._outgoing: dict[int, int] = {}
        #: by worker: how many bytes more than before the plan it has, and the most there were in between
        self._grown: dict[int, tuple[int, int]] = {}
        #: the first and behind the last instruction of each part of a bundle; and what these move, as in `Plan.moved`
        self._bundled: list[tuple[int, int]] = []
        self._moved: list[tuple[int, int, int]] = []

    @staticmethod
    def resumed(plan: Plan, states: Sequence[BufferState], links: LinkCosts) -> PlanBuilder:
        """The builder of a finished plan for `states` that changes no memory, as it was before the end."""
        found = PlanBuilder(states, links)
        found._instructions, found._dependencies = list(plan.instructions), list(plan.dependencies)
        found._touches, found._stages = list(plan.touches), list(plan.stages)
        for draft, after in zip(found.drafts, plan.states, strict=True):
            draft.become(after)
        for index, (item, touches) in enumerate(zip(plan.instructions, plan.touches, strict=True)):
            for touch in touches:
                key = (touch.slot, touch.holder, touch.writes)
                found._log[key].entries.append((index, item.worker, touch.region))
            if isinstance(item, Copy):
                found._outgoing[item.source] = found._outgoing.get(item.source, 0) + item.region.nbytes
        return found

    def finish(
        self,
        partition: Sequence[tuple[int, Chunk]] = (),
        reasons: Sequence[str] = (),
        *,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
        overwrites: Sequence[int] = (),
    ) -> Plan:
        """The plan."""
        for slot, draft in enumerate(self.drafts):
            if draft.before.fine:
                self._bring_home(slot)
        workers = sorted(set(map(attrgetter("worker"), self._instructions)) - {HOST})
        return Plan(
            tuple(self._instructions),
            tuple(self._dependencies),
            tuple(self._touches),
            tuple(draft.freeze() for draft in self.drafts),
            tuple(self._stages),
            tuple(partition),
            tuple(reasons),
            moved_bytes(self._beside_bundles(), self._moved),
            tuple(workers),
            tuple(reads),
            tuple(writes),
            tuple(overwrites),
            tuple((worker, *grown) for worker, grown in sorted(self._grown.items())),
        )

    # moving bytes -------------------------------------------------------------------------------

    def make_valid(self, slot: int, holder: int, region: Region, held: Labelled | None = None) -> None:
        """Copy what is missing of `region` to `holder`, each byte once, from where it is cheapest. The replica covers
        it already. `held`: the buffer as one map, where there is one: then nobody has to be asked.
        """
        draft = self.drafts[slot]
        missing = region - draft.valid_at(holder)
        if not missing:
            return
        pitches = None if held is None else held.joint(missing)
        if held is None or pitches is None:
            found = list(self._cheapest_first(holder, draft, missing))
        else:
            found = self._cheapest_by_map(holder, held.cut(missing, pitches))
        # every worker begins with a different one, so that no two ask the same one at once
        if holder != HOST:
            count = len(self.links.per_byte)
            found.sort(key=lambda item: (item[0] - holder) % count)
        for source, piece in found:
            self.copy(slot, source, holder, piece)

    def _cheapest_first(self, target: int, draft: Draft, missing: Region) -> Iterator[tuple[int, Region]]:
        """From where each byte of `missing` comes that anybody else holds.

        By cost of the link; at equal cost from those that held it before the plan (no copy has to be waited for),
        of them from the home (no device has to be waited for), then from the idlest.
        """
        costs, least = self.links.per_byte, self.links.cheapest[target]
        outgoing, before = self._outgoing, draft.before
        # Those that come first, and are usually enough: what this plan has moved does not matter among them.
        first = sorted(
            (source != HOST, outgoing.get(source, 0), source, held)
            for source, held in before.near(missing)
            if source != target and costs[source][target] == least
        )
        for _, _, source, held in first:
            now = draft.valid_at(source)
            piece = missing & held if now is held else missing & held & now
            if piece:
                yield source, piece
                missing = missing - piece
                if not missing:
                    return
        rest: list[tuple[float, bool, bool, int, int, Region]] = []
        for source, now in draft.near(missing):
            if source == target:
                continue
            key = source != HOST, outgoing.get(source, 0), source
            cost, held = costs[source][target], before.valid_at(source)
            if now is not held:
                rest.append((cost, True, *key, now))
            if held and cost > least:
                rest.append((cost, False, *key, held if now is held else now & held))
        for *_, source, held in sorted(rest):
            piece = missing & held
            if piece:
                yield source, piece
                missing = missing - piece
                if not missing:
                    return

    def _cheapest_by_map(self, target: int, missing: Cut) -> list[tuple[int, Region]]:
        """From where each byte of `missing` comes: by cost of the link, then from the home, then from the idlest."""
        costs, outgoing = self.links.per_byte, self._outgoing
        found: dict[int, list[Region]] = {}
        for label, region in regions_by_label(missing.inside, missing.pitches).items():
            source = min(
                holders_of(label),
                key=lambda source: (costs[source][target], source != HOST, outgoing.get(source, 0), source),
            )
            found.setdefault(source, []).append(region)
        return [(source, Region.union(regions)) for source, regions in sorted(found.items())]

    def copy(self, slot: int, source: int, target: int, region: Region) -> None:
        """Bytes of one buffer from holder to holder; both hold them afterwards, and so does the home where
        they have to go by it.
        """
        if not (self.links.are_one_group or self.links.linked(source, target)):
            home = region - self.drafts[slot].valid_at(HOST)
            if home:
                self.copy(slot, source, HOST, home)
            source = HOST
        worker = source if target == HOST else target
        touches = _as_touch((slot, source, region, False)), _as_touch((slot, target, region, True))
        self._append(_as_copy((worker, slot, source, target, region, False)), touches)
        self._outgoing[source] = self._outgoing.get(source, 0) + region.nbytes
        self.drafts[slot].add(target, region)

    def bundle(
        self, slot: int, found: Sequence[tuple[int, Region]], targets: Sequence[int], everything: Region
    ) -> Bundle | None:
        """Pieces, disjoint, by holder, `everything` together, for copies to each of these workers (`copy_bundle`), which only have to wait
        for what the pieces' holders have done before; None if they might have to wait for more.
        """
        for target in targets:
            if conflicts(self._log, (Touch(slot, target, everything, True),), target, True, FEW_ENTRIES):
                return None
        reads = [Touch(slot, source, piece, False) for source, piece in found]
        waits = []
        for read in reads:
            earlier = set(conflicts(self._log, (read,), read.holder, False, FEW_ENTRIES))
            if any(self._instructions[index].worker not in (read.holder, HOST) for index in earlier):
                return None
            waits.append(self._last_of_each(earlier) if earlier else ())
        sources, pieces = [source for source, _ in found], [piece for _, piece in found]
        entries = [self._log[slot, source, False].entries for source in sources]
        for source, piece in found:
            sent = piece.nbytes * (len(targets) - (source in targets))
            self._outgoing[source] = self._outgoing.get(source, 0) + sent
        nbytes = [piece.nbytes for piece in pieces]
        return Bundle(slot, sources * 2, pieces * 2, nbytes * 2, reads * 2, waits * 2, entries * 2)

    def copy_bundle(self, bundle: Bundle, target: int, first: int, stop: int) -> None:
        """Pieces `first` to `stop` of a bundle to a worker that has none of them, as of `copy`. That it has them then is the caller's task
        to say.
        """
        sources, pieces = bundle.sources[first:stop], bundle.pieces[first:stop]
        index, slot = len(self._instructions), bundle.slot
        to, of = repeat(target), repeat(slot)
        self._bundled.append((index, index + len(pieces)))
        self._moved.extend(zip(sources, to, bundle.nbytes[first:stop], strict=False))
        self._instructions.extend(map(_as_copy, zip(to, of, sources, to, pieces, repeat(False))))
        self._dependencies.extend(bundle.waits[first:stop])
        writes = map(_as_touch, zip(of, to, pieces, repeat(True)))
        self._touches.extend(zip(bundle.reads[first:stop], writes, strict=True))
        entries = list(zip(range(index, index + len(pieces)), to, pieces, strict=False))
        self._log[slot, target, True].entries.extend(entries)
        deque(map(list.append, bundle.entries[first:stop], entries), maxlen=0)

    def _beside_bundles(self) -> Iterator[Instruction]:
        """The instructions that are no part of a bundle."""
        done = 0
        for first, stop in self._bundled:
            yield from self._instructions[done:first]
            done = stop
        yield from self._instructions[done:]

    def _bring_home(self, slot: int) -> None:
        """What workers alone hold of a fine-grain buffer is what the command has changed there: before it is complete,
        that goes home, and nothing else does.
        """
        draft = self.drafts[slot]
        for worker in sorted(draft.valid):
            changed = EMPTY if worker == HOST else draft.valid_at(worker) - draft.valid_at(HOST)
            if changed:
                self._append(
                    Copy(worker, slot, worker, HOST, changed, result=True),
                    (Touch(slot, worker, changed, False), Touch(slot, HOST, changed, True)),
                )
                draft.add(HOST, changed)

    def fetch(self, slot: int, worker: int, region: Region) -> int:
        """Bytes of a replica into a new stage, whose number is returned."""
        stage = len(self._stages)
        self._stages.append(Stage(slot, region))
        self._append(Fetch(worker, slot, region, stage), (Touch(slot, worker, region, False),))
        return stage

    def merge(
        self,
        slot: int,
        region: Region,
        stages: Sequence[int],
        op: str,
        dtype: str,
        grain: Grain = BYTES,
        *,
        apart: bool = False,
        twins: Sequence[int] = (),
    ) -> None:
        """Combine fetched stages into the home, which holds `region` alone afterwards."""
        fetches = [
            index
            for index, item in enumerate(self._instructions)
            if isinstance(item, Fetch) and (item.stage in stages or item.stage in twins)
        ]
        item = Merge(slot, region, tuple(stages), op, dtype, apart, tuple(twins), grain)
        self._append(item, (Touch(slot, HOST, region, True),), fetches)
        self.drafts[slot].own(HOST, region)

    def gather(self, slot: int, worker: int, source: int, region: Region) -> int:
        """Bytes of `source`'s replica into a new stage on `worker`, whose number is returned."""
        stage = len(self._stages)
        self._stages.append(Stage(slot, region, worker))
        self._take(worker, self._stages[stage].nbytes)
        self._append(Gather(worker, slot, source, region, stage), (Touch(slot, source, region, False),))
        return stage

    def combine(
        self,
        slot: int,
        worker: int,
        region: Region,
        stage: int | None,
        target: int,
        twin: int | None,
        op: str,
        dtype: str,
        grain: Grain = BYTES,
    ) -> None:
        """A version of `region`, a stage or the worker's replica, into stage `target`."""
        touches = (Touch(slot, worker, region, False),) if stage is None else ()
        self._append(Combine(worker, slot, region, stage, target, twin, op, dtype, grain), touches)
        self._give_back(stage)

    def restore(self, slot: int, worker: int, region: Region, stage: int, twin: int | None) -> None:
        """A stage into the worker's replica, which holds `region` alone afterwards."""
        self._append(Restore(worker, slot, region, stage, twin), (Touch(slot, worker, region, True),))
        self._give_back(stage)
        self._give_back(twin)
        self.drafts[slot].own(worker, region)

    def fold(
        self, slot: int, worker: int, region: Region, parts: Sequence[tuple[int, Region]], op: str, dtype: str
    ) -> None:
        """What others hold of `parts` into the worker's replica, which holds all of `region` alone afterwards."""
        if parts:
            reached = Region.union([part for _, part in parts])
            stage = min(reached.stop - reached.start + STAGE_ALIGNMENT, FOLD_NBYTES)
            self._take(worker, stage)
            self._take(worker, -stage)
            self._append(
                Fold(worker, slot, reached, tuple(parts), op, dtype),
                (
                    *[Touch(slot, source, part, False) for source, part in parts],
                    Touch(slot, worker, reached, True),
                ),
            )
        self.drafts[slot].own(worker, region)

    def _give_back(self, stage: int | None) -> None:
        if stage is not None:
            self._take(self._stages[stage].worker, -self._stages[stage].nbytes)

    def fill(self, slot: int, holder: int, region: Region, pattern: bytes) -> None:
        """A pattern over `region`, whose runs are whole patterns. Says nothing about validity: that is the caller's
        task.
        """
        if region:
            self._append(Fill(holder, slot, region, pattern), (Touch(slot, holder, region, True),))

    def upload(self, slot: int, holder: int, region: Region) -> None:
        """The command's host array to a holder, one of those that hold `region` afterwards.

        The caller had it forgotten before.
        """
        self._append(Upload(holder, slot, region), (Touch(slot, holder, region, True),))
        self.drafts[slot].add(holder, region)

    def download(self, slot: int, holder: int, region: Region) -> None:
        self._append(Download(holder, slot, region), (Touch(slot, holder, region, False),))
        self._outgoing[holder] = self._outgoing.get(holder, 0) + region.nbytes

    def copy_between(self, item: CopyBetween, source: Region, target: Region) -> None:
        """A copy within one holder; `source` and `target` are the bytes it reads and writes. Validity is the caller's
        task.
        """
        self._append(
            item,
            (
                Touch(item.source_slot, item.worker, source, False),
                Touch(item.target_slot, item.worker, target, True),
            ),
        )

    def launch(self, item: Launch, touches: Sequence[Touch]) -> None:
        """A chunk, on the worker's replicas as they are."""
        slots = dict.fromkeys(slot for _, slot, _ in item.bases)
        extents = tuple((slot, *self.drafts[slot].replicas[item.worker]) for slot in slots)
        self._append(Launch(item.worker, item.chunk, item.bases, item.homes, extents), tuple(touches))

    def written(self, slot: int) -> dict[int, Region]:
        """By holder, what launches of the plan may have changed there."""
        found: dict[int, Region] = {}
        for item, touches in zip(self._instructions, self._touches, strict=True):
            for touch in touches if isinstance(item, Launch) else ():
                if touch.slot == slot and touch.writes:
                    found[touch.holder] = found.get(touch.holder, EMPTY) | touch.region
        return found

    # replicas -----------------------------------------------------------------------------------

    def reserve(self, slot: int, worker: int, start: int, stop: int, *, slack: bool = True) -> None:
        """Make sure that the worker's replica covers [start, stop), at least one byte. `slack`: whether one that
        grows may become larger than necessary.
        """
        draft = self.drafts[slot]
        old = draft.replicas.get(worker)
        if old is not None and old[0] <= start and stop <= old[1]:
            return
        start, stop = round_out(start, stop, draft.nbytes)
        if old is not None:
            start, stop = self._grow(slot, worker, old, start, stop, slack)
        self.resize(slot, worker, start, stop)

    def resize(self, slot: int, worker: int, start: int, stop: int) -> None:
        """Give the worker a replica of exactly [start, stop), or none.

        What it would lose and nobody else holds goes home first: no caller can drop the last holder of a byte.
        """
        draft = self.drafts[slot]
        replaced = draft.replicas.get(worker)
        held = draft.valid_at(worker)
        lost = held - held.clip(start, stop)
        if lost and (alone := draft.held_alone(worker, lost)):
            self.copy(slot, worker, HOST, alone)
        old = replaced or (start, stop)
        kept = draft.reserve(worker, start, stop)
        freed = 0 if replaced is None else old[1] - old[0]
        if kept:
            self._take(worker, stop - start)
            self._take(worker, -freed)
        else:  # nothing to carry over: the old memory goes first
            self._take(worker, -freed)
            self._take(worker, stop - start)
        whole = Region.span(min(start, old[0]) if stop > start else old[0], max(stop, old[1]))
        self._append(Reserve(worker, slot, start, stop, kept), (Touch(slot, worker, whole, True),))

    # for one launch -------------------------------------------------------------------------------

    def hold(self, slot: int, worker: int, start: int, stop: int, counted: int, *, sparse: bool) -> None:
        """Memory for [start, stop) until `let_go`, if the worker has no replica; it counts as `counted` bytes."""
        self._take(worker, counted)
        draft = self.drafts[slot]
        draft.reserve(worker, start, stop)
        whole = Region.span(start, stop)
        self._append(Reserve(worker, slot, start, stop, EMPTY, sparse), (Touch(slot, worker, whole, True),))

    def bring_home(self, slot: int, worker: int, region: Region) -> None:
        """Bring home what a launch has changed; afterwards only the home counts."""
        draft = self.drafts[slot]
        draft.own(worker, region)
        self._append(
            Copy(worker, slot, worker, HOST, region, result=True),
            (Touch(slot, worker, region, False), Touch(slot, HOST, region, True)),
        )
        draft.own(HOST, region)

    def let_go(self, slot: int, worker: int, counted: int) -> None:
        """End what `hold` began; the home holds all that is there."""
        draft = self.drafts[slot]
        start, stop = draft.replicas[worker]
        draft.drop(worker, draft.valid_at(worker))
        draft.reserve(worker, 0, 0)
        whole = Region.span(start, stop)
        self._append(Reserve(worker, slot, 0, 0, EMPTY), (Touch(slot, worker, whole, True),))
        self._take(worker, -counted)

    def _take(self, worker: int, nbytes: int) -> None:
        now, most = self._grown.get(worker, (0, 0))
        self._grown[worker] = (now + nbytes, max(most, now + nbytes))

    def _grow(
        self, slot: int, worker: int, old: tuple[int, int], start: int, stop: int, slack: bool
    ) -> tuple[int, int]:
        """What a replica [old) becomes that must also cover [start, stop).

        The hull of both, where that holds few gaps; otherwise as much as is valid there; otherwise as much as
        nobody else holds. Where even that would be mostly gaps, what nobody else holds goes first, to workers
        whose replicas cover it or home. Slack in the direction of growth keeps a replica that grows launch by
        launch from being moved each time: a part of what it has where the ranges wanted grow; where they move on
        and all is kept, as much as it then has, if that is allowed to lie idle (`LinkCosts.gaps_nbytes`).
        """
        draft = self.drafts[slot]
        if part := draft.part_of(worker):  # which must stay where it is
            start, stop = round_out(min(start, part.start), max(stop, part.stop), draft.nbytes)
        needed = stop - start
        low, high = min(old[0], start), max(old[1], stop)
        roomy = worker in self.links.direct and high - low <= self.links.gaps_nbytes
        if roomy or _few_gaps(old, start, stop, needed + (old[1] - old[0])):
            more = min((old[1] - old[0]) // 4, MAX_SLACK) if slack else 0
            overlap = max(min(old[1], stop) - max(old[0], start), 0)
            if slack and roomy and needed > 2 * overlap:
                more = max(more, min(high - low, self.links.gaps_nbytes - (high - low)))
            low = low - more if low < old[0] else low
            high = high + more if high > old[1] else high
            return round_out(max(low, 0), high, draft.nbytes)
        held = draft.valid_at(worker)
        alone = draft.held_alone(worker, held)
        for kept in (held, alone):
            if not kept:
                return start, stop
            if _few_gaps((kept.start, kept.stop), start, stop, needed + kept.nbytes):
                return round_out(min(kept.start, start), max(kept.stop, stop), draft.nbytes)
        self._hand_on(slot, worker, alone - Region.span(start, stop))
        return start, stop

    def _hand_on(self, slot: int, worker: int, alone: Region) -> None:
        """Copy what only this worker has to others whose replicas cover it, and the rest home."""
        for other, replica in self.drafts[slot].replicas.items():
            if alone and other != worker and self.links.linked(worker, other):
                held = alone.clip(*replica)
                if held:
                    self.copy(slot, worker, other, held)
                    alone = alone - held
        if alone:
            self.copy(slot, worker, HOST, alone)

    # order --------------------------------------------------------------------------------------

    def _append(self, item: Instruction, touches: tuple[Touch, ...], after: Sequence[int] = ()) -> None:
        index, worker, instructions = len(self._instructions), item.worker, self._instructions
        earlier = conflicts(self._log, touches, worker, worker != HOST, FEW_ENTRIES)
        if earlier and isinstance(
            item, Launch
        ):  # chunks of one launch, in one memory: work-groups have no order
            earlier = [number for number in earlier if not isinstance(instructions[number], Launch)]
        log = self._log
        for slot, holder, region, writes in touches:
            log[slot, holder, writes].entries.append((index, worker, region))
        instructions.append(item)
        self._dependencies.append(self._last_of_each({*after, *earlier}) if earlier or after else ())
        self._touches.append(touches)

    def _last_of_each(self, waits: set[int]) -> tuple[int, ...]:
        """Of several instructions of one worker the last suffices, since they run in order.

        Those of HOST have no order.
        """
        last: dict[int, int] = {}
        kept = []
        for index in waits:
            worker = self._instructions[index].worker
            if worker == HOST:
                kept.append(index)
            else:
                last[worker] = max(index, last.get(worker, index))
        return tuple(sorted((*kept, *last.values())))


def round_out(start: int, stop: int, nbytes: int) -> tuple[int, int]:
    """[start, stop) out to multiples of GRANULE, within a buffer of `nbytes`."""
    return start - start % GRANULE, min(-(-stop // GRANULE) * GRANULE, nbytes)


def _few_gaps(kept: tuple[int, int], start: int, stop: int, useful: int) -> bool:
    """Whether a replica over `kept` and [start, stop), of which `useful` bytes are wanted, is worth its size."""
    extent = max(kept[1], stop) - min(kept[0], start)
    return extent <= max(GAPS * useful, SMALL_REPLICA)
