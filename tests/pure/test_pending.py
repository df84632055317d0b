"""Pending reductions: random programs of atomics find what one device would hold, whenever somebody looks; and planted
mistakes are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.ranges.region import EMPTY, Region

from vdev.backends.reference import ReferenceProgram
from vdev.executor.failures import repaired
from vdev.executor.holdings import Damage
from vdev.executor.launch_step import LaunchRecipe
from vdev.executor.prepare import PreparedPlan
from vdev.planner import pending
from vdev.planner.directory import HOST, BufferState, Draft, Pending, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Copy, Fill, Fold, Launch, Merge, Plan, Reserve
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.pending import Reducing, Unfolded, plan_fold, stands_against
from vdev.planner.transfers import plan_fill
from vdev.session.commands import Read

from .random_kernels import random_kernel
from .test_choosing import Program as GpuProgram
from .test_planner import Program

BINS = Region.span(0, 1024)
NDRANGE = NDRange((1024,), (64,), (0,))


class Reductions(Program):
    """A program whose few kernels come again, most of them with atomics."""

    def __init__(self, seed: int, workers: int) -> None:
        super().__init__(seed, workers)
        self.options = replace(self.options, pending=True)
        self.pool: list[Any] = []

    def next_kernel(self) -> Any:
        if len(self.pool) < 3:
            self.pool.append(self._found())
        return self.pool[int(self.rng.integers(len(self.pool)))]

    def _found(self) -> Any:
        wanted = self.rng.random() < 0.8
        for _ in range(30):
            kernel = random_kernel(self.rng, [buffer.nbytes for buffer in self.buffers])
            if not wanted or any(work.atomics for work in kernel.work.values()):
                break
        return kernel


def run(seed: int, workers: int, steps: int = 12) -> int:
    program = Reductions(seed, workers)
    for _ in range(steps):
        program.step()
    return program.pended


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), workers=st.integers(2, 6), steps=st.integers(4, 20))
def test_whoever_looks_finds_what_one_device_would_hold(seed: int, workers: int, steps: int) -> None:
    run(seed, workers, steps)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), workers=st.integers(2, 5))
def test_folds_shared_out_among_workers_are_those_of_one(seed: int, workers: int) -> None:
    with mock.patch("vdev.planner.merges.SHARED_NBYTES", 0):
        program = Reductions(seed, workers)
        program.links = LinkCosts.uniform(workers, peer=0.25, direct=True)
        program.options = replace(program.options, links=program.links)
        for _ in range(12):
            program.step()


def test_the_programs_above_leave_much_pending() -> None:
    assert sum(run(seed, 2 + seed % 4) for seed in range(12)) > 5


# planted mistakes -----------------------------------------------------------------------------------------


@contextmanager
def nobody_folds_for_a_reader() -> Iterator[None]:
    def blind(state: BufferState, used: Region, replaced: Region) -> bool:
        return stands_against(state, EMPTY, replaced)

    with ExitStack() as stack:
        for name in ("vdev.planner.pending.stands_against", "tests.pure.test_planner.stands_against"):
            stack.enter_context(mock.patch(name, blind))
        yield


@contextmanager
def every_part_begins_with_the_content() -> Iterator[None]:
    def bases(self: Any, merge: Any, new: Region) -> dict[int, Region]:
        draft = self._builder.drafts[self._slot]
        pairs = zip(self._workers, merge.parts, strict=True)
        return {worker: part & draft.valid_at(worker) for worker, part in pairs}

    with mock.patch.object(Reducing, "_bases", bases):
        yield


@contextmanager
def what_may_be_overwritten_is_dropped() -> Iterator[None]:
    def hasty(state: BufferState, resolution: Any, reductions: Any) -> bool:
        return stands_against(state, EMPTY, Region.union(resolution.owns))

    with mock.patch("vdev.planner.candidates.launch_stands_against", hasty):
        yield


@contextmanager
def elements_are_cut() -> Iterator[None]:
    def careless(state: BufferState, used: Region, replaced: Region) -> bool:
        return any(item.region.overlaps(used) for item in state.pending)

    with ExitStack() as stack:
        for name in ("vdev.planner.pending.stands_against", "tests.pure.test_planner.stands_against"):
            stack.enter_context(mock.patch(name, careless))
        yield


@contextmanager
def a_fold_forgets_a_part() -> Iterator[None]:
    def short(builder: Any, slot: int, item: Pending, worker: int, share: Region) -> None:
        fold_on(builder, slot, item._replace(parts=item.parts[:-1]), worker, share)

    fold_on = pending._fold_on
    with mock.patch("vdev.planner.pending._fold_on", short):
        yield


@pytest.mark.parametrize(
    "mistake",
    [
        nobody_folds_for_a_reader,
        every_part_begins_with_the_content,
        what_may_be_overwritten_is_dropped,
        elements_are_cut,
        a_fold_forgets_a_part,
    ],
)
def test_a_planted_mistake_is_found(mistake: Callable[[], Any]) -> None:
    with mistake():
        for seed in range(1500):
            try:
                run(seed, 2 + seed % 4)
            except (AssertionError, ValueError):
                return
    raise AssertionError("nobody noticed")


# what moves -----------------------------------------------------------------------------------------------


def counting(op: str = "add") -> Callable[[Chunk], list[AccessRange]]:
    return lambda chunk: [AccessRange(0, "atomic", BINS, False, op=op, dtype="uint32")]


def plan_of(
    state: BufferState,
    links: LinkCosts,
    evaluate: Callable[[Chunk], Sequence[AccessRange]],
    workers: int = 2,
) -> Plan:
    options = LaunchOptions(tuple(range(workers)), links, pending=True)
    return plan_launch([state], LaunchRequest((PointerArg(0, 0, 0, 1024),), NDRANGE, evaluate), options)


GPUS = LinkCosts.uniform(2, peer=0.25, direct=True)
CPUS = LinkCosts.uniform(2)
WRITTEN = buffer_state(1024, [(HOST, BINS)])


def of_kind(plan: Plan, kind: type) -> list[Any]:
    return [item for item in plan.instructions if isinstance(item, kind)]


def test_a_second_launch_moves_nothing_fills_nothing_and_changes_no_state() -> None:
    for links in (GPUS, CPUS):
        first = plan_of(WRITTEN, links, counting())
        second = plan_of(first.states[0], links, counting())
        assert [type(item) for item in second.instructions] == [Launch, Launch]
        assert second.states == first.states
        assert second.moved == ()


def test_the_content_comes_to_one_worker_or_stays_at_home() -> None:
    on_gpus, on_cpus = (plan_of(WRITTEN, links, counting()) for links in (GPUS, CPUS))
    assert [(item.source, item.target) for item in of_kind(on_gpus, Copy)] == [(HOST, 0)]
    assert [item.worker for item in of_kind(on_gpus, Fill)] == [1]
    assert of_kind(on_cpus, Copy) == []
    assert [item.worker for item in of_kind(on_cpus, Fill)] == [0, 1]


def test_a_fold_is_where_parts_can_be_merged() -> None:
    (pended,) = plan_of(WRITTEN, GPUS, counting()).states
    near, home = plan_fold(pended, GPUS), plan_fold(pended, GPUS, at_home=True)
    (fold,) = near.instructions
    assert isinstance(fold, Fold)
    assert (fold.worker, fold.region, fold.parts) == (0, BINS, ((1, BINS),))
    assert near.moved == ((1, 0, 1024),)
    assert near.states[0].valid == ((0, BINS),)
    assert len(of_kind(home, Merge)) == 1
    assert home.states[0].valid == ((HOST, BINS),)


def test_a_replica_that_grows_keeps_its_part() -> None:
    state = plan_of(buffer_state(1 << 20, [(HOST, BINS)]), GPUS, counting()).states[0]

    def beside(chunk: Chunk) -> list[AccessRange]:
        place = 8192 * (chunk.start[0] + 1)
        return [*counting()(chunk), AccessRange(0, "write", Region.span(place, place + 64), True)]

    request = LaunchRequest((PointerArg(0, 0, 0, 1 << 20),), NDRANGE, beside)
    plan = plan_launch([state], request, LaunchOptions((0, 1), GPUS, pending=True))
    assert [(item.worker, item.keep) for item in of_kind(plan, Reserve)] == [(0, BINS), (1, BINS)]
    assert plan.states[0].pending == state.pending
    draft = Draft(state)
    with pytest.raises(ValueError, match="a part of a reduction"):
        draft.reserve(0, 0, 0)


def test_another_operation_has_parts_folded_before() -> None:
    (pended,) = plan_of(WRITTEN, GPUS, counting()).states
    with pytest.raises(Unfolded) as refusal:
        plan_of(pended, GPUS, counting("max"))
    assert refusal.value.slots == (0,)


def test_what_is_overwritten_is_dropped() -> None:
    (pended,) = plan_of(WRITTEN, GPUS, counting()).states

    def own(chunk: Chunk) -> list[AccessRange]:
        return [AccessRange(0, "write", Region.span(chunk.start[0] * 64, chunk.stop[0] * 64), True)]

    assert plan_of(pended, GPUS, own).states[0].valid == (
        (0, Region.span(0, 512)),
        (1, Region.span(512, 1024)),
    )
    filled = plan_fill(pended, 0, 1024, b"\0" * 4, GPUS)
    assert [type(item) for item in filled.instructions] == [Fill]
    assert filled.states[0].pending == ()


def test_half_an_element_is_not_dropped() -> None:
    (pended,) = plan_of(WRITTEN, GPUS, counting()).states
    assert not stands_against(pended, EMPTY, Region.span(4, 12))
    assert stands_against(pended, EMPTY, Region.span(4, 10))
    assert stands_against(pended, Region.span(4, 5), EMPTY)
    assert not stands_against(buffer_state(1024), BINS, BINS)


def test_a_launch_whose_result_is_used_runs_on_one_worker() -> None:
    def used(chunk: Chunk) -> list[AccessRange]:
        return [AccessRange(0, "atomic", BINS, False, op=None, dtype=None)]

    plan = plan_of(WRITTEN, GPUS, used)
    assert len(plan.partition) == 1
    assert plan.states[0].pending == ()


def test_a_sum_with_a_lost_part_is_lost() -> None:
    (pended,) = plan_of(WRITTEN, GPUS, counting()).states

    class Record:
        failure: int | None = None

    sound, broken = Record(), Record()
    whole = {worker: (start, stop) for worker, start, stop in pended.replicas}
    damage = Damage(-5)
    damage.replicas = whole
    assert repaired(pended, sound, damage) is pended  # type: ignore[arg-type]
    assert sound.failure is None
    damage.replicas = {0: whole[0]}
    after = repaired(pended, broken, damage)  # type: ignore[arg-type]
    assert (broken.failure, after.pending, after.valid) == (-5, (), ())


def test_a_failing_launch_that_adds_spoils_the_sum() -> None:
    """What it fills in is no new content: a failure from before is not forgotten."""
    plan = plan_of(WRITTEN, GPUS, counting())
    recipe = LaunchRecipe(ReferenceProgram(functions={}), "count", NDRANGE, lambda *_: b"")
    prepared = PreparedPlan(plan, recipe)
    assert (prepared.reads, prepared.writes, prepared.overwrites) == ((0,), (0,), ())


def test_a_state_says_what_is_pending() -> None:
    (pended,) = plan_of(WRITTEN, GPUS, counting()).states
    assert "pending add of uint32 at worker 0, worker 1" in repr(pended)
    assert pended.initialised == BINS
    assert np.dtype(pended.pending[0].dtype) == np.uint32


# sessions on simulated GPUs ---------------------------------------------------------------------------------

COUNT = "kernel void count(global const uint *a, global uint *bins) { atomic_inc(&bins[a[get_global_id(0)] & 255]); }"


def counted(workers: int, *, pending: bool) -> tuple[float, int, int]:
    """Twenty launches on the same bins and a read: seconds, bytes between GPUs, folds."""
    items = 1 << 24
    with GpuProgram(COUNT, {"count": 8 / 4000e9}, workers=workers) as program:
        session = program.session
        session.launch_options = replace(session.launch_options, pending=pending)
        program.machine.call, program.machine.floor = 4e-6, 3e-6
        data, bins, host = program.buffer(4 * items), program.buffer(1024), np.empty(1024, np.uint8)
        for _ in range(20):
            program.launch("count", (items,), (256,), data, bins)
        session.submit(Read(bins, Layout.contiguous(0, 1024), host), queue=program.queue)
        seconds = program.wait()
        moved = sum(backend.counters.from_peer for backend in program.machine.backends)
        return seconds, moved, session.ledger.command("fold").count


@pytest.mark.parametrize("workers", [2, 4])
def test_gpus_that_keep_counting_exchange_nothing_until_somebody_reads(workers: int) -> None:
    at_once, apart = (counted(workers, pending=pending) for pending in (False, True))
    assert apart[1:] == ((workers - 1) * 1024, 1)
    assert at_once[1] == 20 * apart[1]
    assert apart[0] < at_once[0]
