"""Plans of random command sequences, run on the simulator.

Every holder always holds what one device would.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vdev.translators.ranges.ndrange import Chunk, whole_chunk
from vdev.translators.ranges.region import EMPTY, Region

from vdev.planner.directory import HOST
from vdev.planner.evictions import plan_evictions, propose_evictions
from vdev.planner.instructions import Launch, Plan
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.pending import Unfolded, plan_fold, stands_against
from vdev.planner.transfers import (
    Box,
    plan_copy,
    plan_fill,
    plan_gather,
    plan_map,
    plan_migrate,
    plan_read,
    plan_unmap,
    plan_write,
)

from .forced_cuts import CutsInTurn
from .random_kernels import random_kernel
from .simulator import Run, SimulatedBuffer, View, box_positions, positions


def random_links(rng: np.random.Generator, workers: int) -> LinkCosts:
    """Workers that share the host's memory, workers with memory of their own, or some of either kind."""
    peer = float(rng.choice([1.0, 0.25]))
    kinds = [("near" if rng.random() < 0.7 else "far", peer) for _ in range(workers)]
    if rng.random() < 0.6:
        links = LinkCosts.uniform(workers, peer=peer, direct=bool(rng.random() < 0.6))
        return replace(
            links, large_nbytes=int(rng.choice([1, 100, 5000])), gaps_nbytes=int(rng.choice([0, 1 << 30]))
        )
    direct = [number for number, (kind, _) in enumerate(kinds) if kind == "near"]
    merging = direct if rng.random() < 0.7 else ()
    links = LinkCosts.between(kinds, host=1.0, per_run=0.0, direct=direct, merging=merging)
    return replace(links, large_nbytes=int(rng.choice([1, 100, 5000, 1 << 20])))


class Program:
    """A host program of random commands on one virtual device, checked after each."""

    def __init__(self, seed: int, workers: int, *, most: int = 36000) -> None:
        """`most`: bytes of its largest buffer."""
        self.rng = np.random.default_rng(seed)
        self.workers = workers
        self.links = random_links(self.rng, workers)
        self.options = LaunchOptions(
            tuple(range(workers)),
            self.links,
            trust_exact=bool(self.rng.random() < 0.7),
            pending=bool(self.rng.random() < 0.7),
        )
        self.cuts = CutsInTurn()
        if self.rng.random() < 0.5:
            self.options = replace(self.options, cuts=self.cuts)
        self.kernel: Any = None  #: of the last launch
        self.pended = 0  #: launches that found a pending reduction and left one
        sizes = [
            int(self.rng.integers(1, 80)),
            int(self.rng.integers(40, 300)),
            int(self.rng.integers(most // 9, most)),
        ]
        fine = self.rng.random(len(sizes)) < (0.4 if self.rng.random() < 0.5 else 0.0)
        self.buffers = [
            SimulatedBuffer(size, self.rng, fine=bool(one)) for size, one in zip(sizes, fine, strict=True)
        ]
        #: whether workers use fine-grain buffers at home
        self.in_place = bool(self.rng.random() < 0.4)
        for buffer in self.buffers:
            if self.rng.random() < 0.7:  # as programs do: most buffers start with an array
                self.write_box(buffer, Box.contiguous(0, buffer.nbytes))

    def step(self) -> None:
        commands = [
            self.write,
            self.read,
            self.fill,
            self.copy,
            self.map,
            self.migrate,
            self.gather,
            self.evict,
        ]
        command = self.launch if self.rng.random() < 0.5 else commands[int(self.rng.integers(len(commands)))]
        for buffer in self.buffers:
            if buffer.state.fine:
                buffer.scribble(np.arange(buffer.nbytes))
        command()
        for buffer in self.buffers:
            buffer.verify()

    def settle(self, buffer: SimulatedBuffer, used: Region, replaced: Region = EMPTY) -> None:
        """Fold what is pending, where a command that uses and replaces these bytes wants that."""
        if stands_against(buffer.state, used, replaced):
            self.fold(buffer)

    def fold(self, buffer: SimulatedBuffer, *, at_home: bool | None = None) -> None:
        at_home = bool(self.rng.random() < 0.3) if at_home is None else at_home
        plan = plan_fold(buffer.state, self.links, at_home=at_home)
        assert not at_home or not any(most for _, _, most in plan.growth), "at home it takes no memory"
        Run(plan, [buffer], self.rng).finish()
        assert not buffer.state.pending
        buffer.verify()

    def pick(self) -> SimulatedBuffer:
        return self.buffers[int(self.rng.integers(len(self.buffers)))]

    def box(self, nbytes: int) -> Box:
        """A contiguous run or a rectangle, inside a buffer of `nbytes`."""
        start = int(self.rng.integers(nbytes))
        if self.rng.random() < 0.5:
            return Box.contiguous(start, int(self.rng.integers(1, nbytes - start + 1)))
        row, rows, slices = (int(self.rng.integers(1, 6)) for _ in range(3))
        pitch = row + int(self.rng.integers(0, 4))
        slice_pitch = pitch * rows + int(self.rng.integers(0, 9))
        box = Box((slices, rows, row), start, (slice_pitch, pitch))
        return box if box.region().stop <= nbytes else Box.contiguous(start, nbytes - start)

    def host_array(self, buffer: SimulatedBuffer, box: Box) -> tuple[np.ndarray, np.ndarray]:
        """A host array of the box's bytes, and where each byte of the buffer lies in it."""
        where = box_positions(box)
        places = np.full(buffer.nbytes, -1)
        places[where] = np.arange(len(where))
        return self.rng.integers(0, 256, len(where), dtype=np.uint8), places

    def write(self) -> None:
        buffer = self.pick()
        self.write_box(buffer, self.box(buffer.nbytes))

    def write_box(self, buffer: SimulatedBuffer, box: Box) -> None:
        array, places = self.host_array(buffer, box)
        self.settle(buffer, EMPTY, box.region())
        Run(
            plan_write(buffer.state, box.region(), self.links), [buffer], self.rng, host=(array, places)
        ).finish()
        buffer.model[box_positions(box)] = array
        buffer.defined[box_positions(box)] = True

    def read(self) -> None:
        buffer = self.pick()
        box = self.box(buffer.nbytes)
        array, places = self.host_array(buffer, box)
        contiguous = box.shape[:2] == (1, 1)
        self.settle(buffer, box.region())
        plan = plan_read(buffer.state, box.region(), self.links, contiguous=contiguous)
        anywhere = contiguous or bool(self.links.direct)
        Run(plan, [buffer], self.rng, host=(array, places), anywhere=anywhere).finish()
        where = box_positions(box)
        sure = buffer.defined[where]
        assert (array[sure] == buffer.model[where[sure]]).all()

    def fill(self) -> None:
        buffer = self.pick()
        length = int(self.rng.choice([1, 2, 4, 16]))
        if buffer.nbytes < length:
            return
        offset = int(self.rng.integers(buffer.nbytes // length)) * length
        count = int(self.rng.integers(1, (buffer.nbytes - offset) // length + 1))
        pattern = self.rng.bytes(length)
        self.settle(buffer, EMPTY, Region.span(offset, offset + count * length))
        Run(plan_fill(buffer.state, offset, count * length, pattern, self.links), [buffer], self.rng).finish()
        buffer.model[offset : offset + count * length] = np.tile(np.frombuffer(pattern, np.uint8), count)
        buffer.defined[offset : offset + count * length] = True

    def copy(self) -> None:
        first, second = self.pick(), self.pick()
        source = self.box(min(first.nbytes, second.nbytes))
        slack = second.nbytes - source.region().stop
        shift = int(self.rng.integers(-source.start, slack + 1))
        pitches = source.pitches
        if source.shape[:2] != (1, 1) and self.rng.random() < 0.5:  # packed at the target
            pitches = (source.shape[1] * source.shape[2], source.shape[2])
        target = Box(source.shape, source.start + shift, pitches)
        if first is second and source.region().hull().overlaps(target.region().hull()):
            return
        buffers = [first] if first is second else [first, second]
        self.settle(first, source.region())
        self.settle(second, EMPTY, target.region())
        plan = plan_copy([buffer.state for buffer in buffers], source, target, self.links)
        Run(plan, buffers, self.rng).finish()
        taken, put = box_positions(source), box_positions(target)
        second.model[put] = first.model[taken]
        second.defined[put] = first.defined[taken]

    def map(self) -> None:
        buffer = self.pick()
        start = int(self.rng.integers(buffer.nbytes))
        region = Region.span(start, int(self.rng.integers(start + 1, buffer.nbytes + 1)))
        write = bool(self.rng.random() < 0.5)
        keep = bool(self.rng.random() < 0.7) or not write
        self.settle(buffer, region if keep else EMPTY, region if write else EMPTY)
        before = buffer.state
        Run(plan_map(buffer.state, region, self.links, read=keep, write=write), [buffer], self.rng).finish()
        where = positions(region)
        if keep:
            sure = where[buffer.defined[where]]
            assert (buffer.home[sure] == buffer.model[sure]).all()
        else:
            buffer.defined[where] = False
        if write:
            touched = where if not keep else where[self.rng.random(len(where)) < 0.5]
            buffer.home[touched] = buffer.model[touched] = self.rng.integers(
                0, 256, len(touched), dtype=np.uint8
            )
            buffer.defined[touched] = True
        plan = plan_unmap(buffer.state, region, self.links, write=write, before=before)
        Run(plan, [buffer], self.rng).finish()

    def migrate(self) -> None:
        undefined = bool(self.rng.random() < 0.3)
        for buffer in self.buffers:
            everything = buffer.state.initialised
            self.settle(buffer, EMPTY if undefined else everything, everything if undefined else EMPTY)
        plan = plan_migrate([b.state for b in self.buffers], self.links, to_host=True, undefined=undefined)
        Run(plan, self.buffers, self.rng).finish()
        for buffer in self.buffers:
            if undefined:
                buffer.defined[:] = False
                assert buffer.state.fine or buffer.state.valid == ()
            assert buffer.state.valid_at(HOST) == buffer.state.initialised

    def gather(self) -> None:
        found = [buffer for buffer in self.buffers if not buffer.state.fine]
        some = found[: int(self.rng.integers(1, 3))]
        if not some:
            return
        for buffer in some:
            self.settle(buffer, buffer.state.initialised)
        worker = int(self.rng.integers(self.workers))
        Run(plan_gather([buffer.state for buffer in some], worker, self.links), some, self.rng).finish()
        assert all(buffer.state.resident == worker for buffer in some)

    def evict(self) -> None:
        worker = int(self.rng.integers(self.workers))
        states = [buffer.state for buffer in self.buffers]
        wanted = int(self.rng.integers(1, 20000))
        evictions = propose_evictions(states, worker, wanted)
        while folds := [item.slot for item in evictions if item.folds]:
            for slot in folds:
                self.fold(self.buffers[slot], at_home=True)
            states = [buffer.state for buffer in self.buffers]
            evictions = propose_evictions(states, worker, wanted)
        Run(plan_evictions(states, worker, evictions, self.links), self.buffers, self.rng).finish()
        left = [buffer for buffer in self.buffers if worker in buffer.replicas]
        assert sum(eviction.frees for eviction in evictions) >= wanted or not left

    def launch(self) -> None:
        kernel = self.kernel = self.next_kernel()
        buffers = [self.buffers[slot] for slot in kernel.slots]
        request = LaunchRequest(kernel.args, kernel.ndrange, kernel.evaluate, in_place=self.in_place)
        plan: Plan | None = None
        while plan is None:  # where cuts come in turn, the next one may want others folded
            found = any(buffer.state.pending for buffer in buffers)
            try:
                plan = plan_launch([buffer.state for buffer in buffers], request, self.options)
            except Unfolded as refusal:
                for slot in refusal.slots:
                    self.fold(buffers[slot])
        self.pended += found and any(state.pending for state in plan.states)

        def run(chunk: Chunk, view: View) -> None:
            kernel.run(chunk, view.read, view.write)

        free = [self.untouched(kernel, slot, buffer) for slot, buffer in enumerate(buffers)]

        def scribble() -> None:
            for buffer, where in zip(buffers, free, strict=True):
                if buffer.state.fine:
                    buffer.scribble(where)

        Run(
            plan, buffers, self.rng, kernel=run, launch_touches=kernel.launch_touches, meanwhile=scribble
        ).finish()
        scribble()
        assert sum(chunk.ngroups for _, chunk in plan.partition) == len(kernel.work)
        self.model(kernel, buffers)

    def next_kernel(self) -> Any:
        """One that is new, or the last one."""
        if self.kernel is None or self.rng.random() < 0.4:
            return random_kernel(self.rng, [buffer.nbytes for buffer in self.buffers])
        return self.kernel

    @staticmethod
    def untouched(kernel: object, slot: int, buffer: SimulatedBuffer) -> np.ndarray:
        """The bytes of a buffer that no work-group touches, which the host may use while the kernel runs."""
        whole = Launch(0, whole_chunk(kernel.ndrange), ())  # type: ignore[attr-defined]
        touches = kernel.launch_touches(whole)  # type: ignore[attr-defined]
        used = Region.union(touch.region for touch in touches if touch.slot == slot)
        return positions(Region.span(0, buffer.nbytes) - used)

    @staticmethod
    def model(kernel: object, buffers: list[SimulatedBuffer]) -> None:
        """The same launch on one device; what follows from undefined bytes is undefined."""
        offsets = {pointer.arg: (pointer.slot, pointer.offset) for pointer in kernel.args}  # type: ignore[attr-defined]
        tainted = False

        def read(arg: int, where: np.ndarray) -> np.ndarray:
            nonlocal tainted
            slot, offset = offsets[arg]
            tainted = tainted or not buffers[slot].defined[offset + where].all()
            return buffers[slot].model[offset + where]

        def write(arg: int, where: np.ndarray, values: np.ndarray) -> None:
            slot, offset = offsets[arg]
            buffers[slot].model[offset + where] = values
            buffers[slot].defined[offset + where] = not tainted

        for group, work in kernel.work.items():  # type: ignore[attr-defined]
            tainted = False
            work.run(read, write, kernel.number(group))  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), workers=st.integers(1, 8), steps=st.integers(1, 14))
def test_any_program_finds_what_one_device_would_hold(seed: int, workers: int, steps: int) -> None:
    program = Program(seed, workers)
    for _ in range(steps):
        program.step()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), workers=st.integers(2, 4), steps=st.integers(4, 14))
def test_replicas_that_avoid_every_gap_lose_nothing(seed: int, workers: int, steps: int) -> None:
    with mock.patch("vdev.planner.builder.SMALL_REPLICA", 0), mock.patch("vdev.planner.builder.GAPS", 1):
        program = Program(seed, workers)
        for _ in range(steps):
            program.step()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), workers=st.integers(1, 6), steps=st.integers(3, 14))
@example(seed=1_478_103_139, workers=2, steps=4)  # a buffer of which a part is pending is brought together
def test_widening_ranges_and_gathering_buffers_loses_nothing(seed: int, workers: int, steps: int) -> None:
    """With any range of two boxes or more widened, and any buffer of three or more brought together; or, where nothing was
    written, what workers have copied of it joined."""
    tidying = "vdev.planner.tidying"
    with (
        mock.patch(f"{tidying}.MOST_BOXES", 1),
        mock.patch(f"{tidying}.RUN_NBYTES", 1 << 20),
        mock.patch(f"{tidying}.MOST_HELD", 2),
        mock.patch(f"{tidying}.HELD_EACH", 0),
        mock.patch(f"{tidying}.HELD_FRESH", 0),
        mock.patch(f"{tidying}.KEPT_BOXES", 1),
        mock.patch(f"{tidying}.UNWRITTEN", 8 if seed % 2 else 1 << 20),
        mock.patch(f"{tidying}.MOST_COPIES", 0),
        mock.patch(f"{tidying}.FEW_COPIES", 0),
        mock.patch("vdev.planner.builder.FEW_ENTRIES", 0),
    ):
        run_steps(Program(seed, workers), steps)


def run_steps(program: Program, steps: int) -> None:
    """Launches and other commands in turn, each followed by a look at every byte."""
    for _ in range(steps):
        program.launch()
        program.step()
        for buffer in program.buffers:
            buffer.verify()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), workers=st.integers(2, 5), steps=st.integers(2, 10))
def test_merges_shared_out_among_workers_are_those_of_one(seed: int, workers: int, steps: int) -> None:
    with mock.patch("vdev.planner.merges.SHARED_NBYTES", 0):
        program = Program(seed, workers)
        program.links = LinkCosts.uniform(workers, peer=0.25, direct=True)
        program.options = replace(program.options, links=program.links)
        run_steps(program, steps)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), workers=st.integers(2, 6), steps=st.integers(2, 10))
def test_chunks_may_run_on_workers_in_any_order(seed: int, workers: int, steps: int) -> None:
    """Coherence does not rest on which worker runs which chunk."""
    program = Program(seed, workers)

    def any_order(
        shares: object, usual: tuple[int, ...], able: tuple[int, ...], links: LinkCosts
    ) -> tuple[int, ...]:
        return tuple(program.rng.permutation(able).tolist())[: len(usual)]

    with (
        mock.patch("vdev.planner.launch_search.REORDER_NBYTES", 0),
        mock.patch("vdev.planner.launch_search.assign_chunks", any_order),
        mock.patch("vdev.planner.launch_search.Search._waits", return_value=(0, 0)),
    ):
        for _ in range(steps):
            program.launch()
            program.step()
            for buffer in program.buffers:
                buffer.verify()
