"""A tiny executor on NumPy arrays, for planner tests: homes, replicas and stages, and a check of every plan
it runs.

It carries out a plan in a random order that the dependencies and the workers' own orders allow; fresh memory
holds garbage, so that a missing copy shows. It works out for itself what each instruction touches, and fails
where two instructions without an order touch the same bytes and one of them writes, or where the plan's own
account of its touches leaves something out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from vdev.translators.ranges.grain import Grain
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region

from vdev.planner.directory import HOST, BufferState, Pending, buffer_state, check, fine_grain_state
from vdev.planner.instructions import (
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
    Touch,
    Upload,
)
from vdev.planner.transfers import Box

OPERATIONS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


class SimulatedBuffer:
    """A buffer as several memories, and beside it what one device would hold."""

    def __init__(self, nbytes: int, rng: np.random.Generator, *, fine: bool = False) -> None:
        self.rng = rng
        self.state: BufferState = fine_grain_state(nbytes) if fine else buffer_state(nbytes)
        self.home = self.garbage(nbytes)
        self.replicas: dict[int, tuple[int, np.ndarray]] = {}
        #: one device's content, and which bytes of it a program may rely on
        self.model = self.home.copy()
        self.defined = np.full(nbytes, fine)

    @property
    def nbytes(self) -> int:
        return self.state.nbytes

    def garbage(self, nbytes: int) -> np.ndarray:
        return self.rng.integers(0, 256, nbytes, dtype=np.uint8)

    def at(self, holder: int, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The holder's memory, and where in it bytes `indices` of the buffer lie."""
        if holder == HOST:
            return self.home, indices
        start, memory = self.replicas[holder]
        inside = indices - start
        assert len(inside) == 0 or (inside.min() >= 0 and inside.max() < len(memory)), "outside the replica"
        return memory, inside

    def get(self, holder: int, region: Region) -> np.ndarray:
        memory, where = self.at(holder, positions(region))
        return memory[where]

    def put(self, holder: int, region: Region, values: np.ndarray) -> None:
        memory, where = self.at(holder, positions(region))
        memory[where] = values

    def scribble(self, where: np.ndarray) -> None:
        """The host writes to some bytes of a fine-grain buffer, and tells nobody."""
        where = where[self.rng.random(len(where)) < 0.2]
        self.home[where] = self.model[where] = self.rng.integers(0, 256, len(where), dtype=np.uint8)
        self.defined[where] = True

    def verify(self) -> None:
        """The directory's invariants, and that every holder holds what one device would."""
        check(self.state)
        assert {w: (s, s + len(m)) for w, (s, m) in self.replicas.items()} == {
            w: (start, stop) for w, start, stop in self.state.replicas
        }
        initialised = np.zeros(self.nbytes, bool)
        for holder, region in self.state.valid:
            where = positions(region)
            initialised[where] = True
            sure = where[self.defined[where]]
            memory, inside = self.at(holder, sure)
            wrong = np.flatnonzero(memory[inside] != self.model[sure])
            assert len(wrong) == 0, f"holder {holder} is wrong at bytes {sure[wrong][:8]}"
        for item in self.state.pending:
            where = positions(item.region)
            initialised[where] = True
            wrong = np.flatnonzero((self.reduced(item) != self.model)[where] & self.defined[where])
            assert len(wrong) == 0, f"a pending {item.op} is wrong at bytes {where[wrong][:8]}"
        assert not (self.defined & ~initialised).any(), "a byte that was written has no holder"

    def reduced(self, item: Pending) -> np.ndarray:
        """The buffer with what the parts of a reduction come to."""
        found, met = self.model.copy(), np.zeros(self.nbytes, bool)
        for holder, part in item.parts:
            where = positions(part)
            values = self.get(holder, part)
            again = met[where]
            found[where[~again]] = values[~again]
            old = found[where[again]].view(item.dtype)
            found[where[again]] = OPERATIONS[item.op](old, values[again].view(item.dtype)).view(np.uint8)
            met[where] = True
        return found


def positions(region: Region) -> np.ndarray:
    """Every byte offset of the region."""
    if not region:
        return np.empty(0, np.int64)
    return np.concatenate([np.arange(start, stop) for start, stop in region.runs])


def changed_units(where: np.ndarray, changed: np.ndarray, grain: Grain) -> np.ndarray:
    """Which of the bytes at `where`, ascending, change: with one byte of a unit all of it that lies in one run."""
    begins = np.isin(where % grain.period, grain.cuts)
    begins[1:] |= np.diff(where) != 1
    begins[:1] = True
    number = np.cumsum(begins) - 1
    found: np.ndarray = np.isin(number, number[changed])
    return found


def box_positions(box: Box) -> np.ndarray:
    """Every byte offset of the box, in the box's order."""
    slices, rows, nbytes = box.shape
    offsets = (
        np.arange(slices)[:, None, None] * box.pitches[0]
        + np.arange(rows)[None, :, None] * box.pitches[1]
        + np.arange(nbytes)[None, None, :]
    )
    return box.start + offsets.ravel()


class View:
    """A kernel's pointer arguments on one worker.

    Bytes relative to each argument, through the shift that the launch gives.
    """

    def __init__(self, buffers: Sequence[SimulatedBuffer], item: Launch) -> None:
        self._where = {
            arg: (buffers[slot].replicas[item.worker][1], shift) for arg, slot, shift in item.bases
        }
        self._where |= {arg: (buffers[slot].home, -offset) for arg, slot, offset in item.homes}

    def read(self, arg: int, indices: np.ndarray) -> np.ndarray:
        memory, shift = self._where[arg]
        return memory[self._inside(memory, indices - shift)]

    def write(self, arg: int, indices: np.ndarray, values: np.ndarray) -> None:
        memory, shift = self._where[arg]
        memory[self._inside(memory, indices - shift)] = values

    @staticmethod
    def _inside(memory: np.ndarray, where: np.ndarray) -> np.ndarray:
        assert len(where) == 0 or (where.min() >= 0 and where.max() < len(memory)), (
            "the kernel left its replica"
        )
        return where


Kernel = Callable[[Chunk, View], None]


class Run:
    """One plan being carried out on the buffers of its slots."""

    def __init__(
        self,
        plan: Plan,
        buffers: Sequence[SimulatedBuffer],
        rng: np.random.Generator,
        *,
        kernel: Kernel | None = None,
        host: tuple[np.ndarray, np.ndarray] | None = None,
        anywhere: bool = True,
        launch_touches: Callable[[Launch], Sequence[Touch]] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """`host`: the command's array, and for each byte of the buffer its index there (-1: none).

        `anywhere`: workers may exchange bytes with it, not only the home. `meanwhile`: what the host program
        does again and again while the command runs.
        """
        self.meanwhile = meanwhile
        self.plan = plan
        self.buffers = buffers
        self.rng = rng
        self.kernel = kernel
        self.host = host
        self.anywhere = anywhere
        self.launch_touches = launch_touches
        self.stages = [rng.integers(0, 256, max(s.region.stop, 1), dtype=np.uint8) for s in plan.stages]

    def finish(self) -> None:
        """Check the plan, carry it out, take over the new states."""
        self.check_order()
        for index in self.random_order():
            if self.meanwhile is not None:
                self.meanwhile()
            self.carry_out(self.plan.instructions[index])
        for buffer, state in zip(self.buffers, self.plan.states, strict=True):
            buffer.state = state

    # order --------------------------------------------------------------------------------------

    def predecessors(self) -> list[set[int]]:
        """What directly precedes each instruction: its dependencies, and the one before it on its worker."""
        last: dict[int, int] = {}
        found = []
        for index, (item, waits) in enumerate(
            zip(self.plan.instructions, self.plan.dependencies, strict=True)
        ):
            assert all(earlier < index for earlier in waits), "a dependency on a later instruction"
            direct = set(waits)
            if item.worker != HOST:
                direct |= {last[item.worker]} if item.worker in last else set()
                last[item.worker] = index
            found.append(direct)
        return found

    def random_order(self) -> list[int]:
        waiting = [set(direct) for direct in self.predecessors()]
        order: list[int] = []
        left = set(range(len(waiting)))
        while left:
            ready = sorted(index for index in left if not waiting[index])
            chosen = ready[int(self.rng.integers(len(ready)))]
            order.append(chosen)
            left.remove(chosen)
            for other in left:
                waiting[other].discard(chosen)
        return order

    def check_order(self) -> None:
        before: list[int] = []  # bit k of the number: instruction k comes before
        for direct in self.predecessors():
            mask = 0
            for earlier in direct:
                mask |= before[earlier] | 1 << earlier
            before.append(mask)
        touched = [self.touches(item) for item in self.plan.instructions]
        for index, (item, real) in enumerate(zip(self.plan.instructions, touched, strict=True)):
            self.check_account(item, real, self.plan.touches[index])
            for earlier in range(index):
                if isinstance(item, Launch) and isinstance(self.plan.instructions[earlier], Launch):
                    continue  # what of it has no order natively has none here
                if not before[index] >> earlier & 1:
                    assert not any(clash(a, b) for a in touched[earlier] for b in real), (
                        f"no order between {self.plan.instructions[earlier]} and {item}"
                    )

    @staticmethod
    def check_account(item: Instruction, real: Sequence[Touch], told: Sequence[Touch]) -> None:
        """Whatever an instruction touches stands in the plan."""
        for touch in real:
            if touch.slot >= 0:
                told_region = Region.union(
                    t.region
                    for t in told
                    if (t.slot, t.holder) == (touch.slot, touch.holder) and (t.writes or not touch.writes)
                )
                assert told_region.contains(touch.region), f"{item} does not tell of {touch}"

    def touches(self, item: Instruction) -> list[Touch]:
        """What an instruction touches, from its meaning alone.

        A stage is slot -1 with its number as the holder.
        """
        if isinstance(item, Reserve):
            old = self.buffers[item.slot].state.replica(item.worker) or (item.start, item.stop)
            span = Region.span(item.start, item.stop) | Region.span(*old)
            return [Touch(item.slot, item.worker, span, True)]
        if isinstance(item, Copy):
            assert item.source != item.target
            return [
                Touch(item.slot, item.source, item.region, False),
                Touch(item.slot, item.target, item.region, True),
            ]
        if isinstance(item, Fetch):
            assert self.plan.stages[item.stage].region == item.region
            return [
                Touch(item.slot, item.worker, item.region, False),
                Touch(-1, item.stage, item.region, True),
            ]
        if isinstance(item, Merge):
            parts = [Touch(-1, stage, self.plan.stages[stage].region, False) for stage in item.stages]
            assert Region.union(part.region for part in parts) == item.region
            parts += [Touch(-1, twin, self.plan.stages[twin].region, False) for twin in item.twins]
            return [*parts, Touch(item.slot, HOST, item.region, True)]
        if isinstance(item, Gather):
            assert self.plan.stages[item.stage].region == item.region
            return [
                Touch(item.slot, item.source, item.region, False),
                Touch(-1, item.stage, item.region, True),
            ]
        if isinstance(item, Combine):
            version = (item.slot, item.worker) if item.stage is None else (-1, item.stage)
            found = [Touch(*version, item.region, False), Touch(-1, item.target, item.region, True)]
            return found if item.twin is None else [*found, Touch(-1, item.twin, item.region, False)]
        if isinstance(item, Fold):
            assert Region.union(part for _, part in item.parts) == item.region
            assert item.worker not in dict(item.parts)
            reads = [Touch(item.slot, source, part, False) for source, part in item.parts]
            return [*reads, Touch(item.slot, item.worker, item.region, True)]
        if isinstance(item, Restore):
            return [
                Touch(item.slot, item.worker, item.region, True),
                Touch(-1, item.stage, item.region, False),
            ]
        if isinstance(item, CopyBetween):
            source, target = boxes(item)
            return [
                Touch(item.source_slot, item.worker, source.region(), False),
                Touch(item.target_slot, item.worker, target.region(), True),
            ]
        if isinstance(item, Launch):
            return list(self.launch_touches(item)) if self.launch_touches else []
        return [Touch(item.slot, item.worker, item.region, not isinstance(item, Download))]

    # action -------------------------------------------------------------------------------------

    def carry_out(self, item: Instruction) -> None:
        if isinstance(item, Reserve):
            self.reserve(item)
        elif isinstance(item, Copy):
            assert item.worker == (item.source if item.target == HOST else item.target)
            buffer = self.buffers[item.slot]
            buffer.put(item.target, item.region, buffer.get(item.source, item.region))
        elif isinstance(item, Fetch):
            self.stages[item.stage][positions(item.region)] = self.buffers[item.slot].get(
                item.worker, item.region
            )
        elif isinstance(item, Merge):
            self.merge(item)
        elif isinstance(item, Gather):
            assert self.plan.stages[item.stage].worker == item.worker
            values = self.buffers[item.slot].get(item.source, item.region)
            self.stages[item.stage][positions(item.region)] = values
        elif isinstance(item, Combine):
            self.combine(item)
        elif isinstance(item, Fold):
            buffer = self.buffers[item.slot]
            for source, part in item.parts:
                old = buffer.get(item.worker, part).view(item.dtype)
                new = buffer.get(source, part).view(item.dtype)
                buffer.put(item.worker, part, OPERATIONS[item.op](old, new).view(np.uint8))
        elif isinstance(item, Restore):
            where = positions(item.region)
            self.buffers[item.slot].put(item.worker, item.region, self.stages[item.stage][where])
        elif isinstance(item, Fill):
            self.fill(item)
        elif isinstance(item, CopyBetween):
            source, target = boxes(item)
            memory, where = self.buffers[item.source_slot].at(item.worker, box_positions(source))
            values = memory[where]
            memory, where = self.buffers[item.target_slot].at(item.worker, box_positions(target))
            memory[where] = values
        elif isinstance(item, Launch):
            assert self.kernel is not None
            self.kernel(item.chunk, View(self.buffers, item))
        else:
            self.exchange(item)

    def reserve(self, item: Reserve) -> None:
        buffer = self.buffers[item.slot]
        old = buffer.replicas.pop(item.worker, None)
        if item.start == item.stop:
            assert old is not None, "nothing to free"
            return
        assert item.start % 4096 == 0
        memory = buffer.garbage(item.stop - item.start)
        if item.keep:
            assert old is not None, "nothing to keep from"
            where = positions(item.keep)
            assert Region.span(old[0], old[0] + len(old[1])).contains(item.keep)
            memory[where - item.start] = old[1][where - old[0]]
        buffer.replicas[item.worker] = (item.start, memory)

    def combine(self, item: Combine) -> None:
        where = positions(item.region)
        if item.stage is None:
            values = self.buffers[item.slot].get(item.worker, item.region)
        else:
            values = self.stages[item.stage][where]
        target = self.stages[item.target]
        if item.op == "diff":
            assert item.twin is not None
            changed = changed_units(where, values != self.stages[item.twin][where], item.grain)
            target[where[changed]] = values[changed]
        else:
            old = target[where].view(item.dtype)
            target[where] = OPERATIONS[item.op](old, values.view(item.dtype)).view(np.uint8)

    def merge(self, item: Merge) -> None:
        home = self.buffers[item.slot].home
        before = home.copy()
        assert len(item.twins) == (len(item.stages) if item.apart and item.op == "diff" else 0)
        for index, number in enumerate(item.stages):
            where = positions(self.plan.stages[number].region)
            values = self.stages[number][where]
            if item.op == "diff":
                twin = self.stages[item.twins[index]] if item.apart else before
                changed = changed_units(where, values != twin[where], item.grain)
                home[where[changed]] = values[changed]
            else:
                old = home[where].view(item.dtype)
                home[where] = OPERATIONS[item.op](old, values.view(item.dtype)).view(np.uint8)

    def fill(self, item: Fill) -> None:
        pattern = np.frombuffer(item.pattern, np.uint8)
        for start, stop in item.region.runs:
            assert (stop - start) % len(pattern) == 0, "a part of a pattern"
            values = np.tile(pattern, (stop - start) // len(pattern))
            self.buffers[item.slot].put(item.worker, Region.span(start, stop), values)

    def exchange(self, item: Upload | Download) -> None:
        assert self.host is not None
        assert self.anywhere or item.worker == HOST, "a rectangle is exchanged with the home alone"
        array, places = self.host
        where = places[positions(item.region)]
        assert (where >= 0).all(), "outside the command's layout"
        buffer = self.buffers[item.slot]
        if isinstance(item, Upload):
            buffer.put(item.worker, item.region, array[where])
        else:
            array[where] = buffer.get(item.worker, item.region)


def boxes(item: CopyBetween) -> tuple[Box, Box]:
    return (
        Box(item.shape, item.source_start, item.source_pitches),
        Box(item.shape, item.target_start, item.target_pitches),
    )


def clash(first: Touch, second: Touch) -> bool:
    same = (first.slot, first.holder) == (second.slot, second.holder)
    return same and (first.writes or second.writes) and first.region.overlaps(second.region)
