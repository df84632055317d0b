"""Single launches: how they are cut, why not, and what the plan of one consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from vdev.translators.interpreter.summaries import AccessRange, Reason
from vdev.translators.ranges.grain import Grain, of_store, of_unit
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev.planner import candidates
from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState, buffer_state
from vdev.planner.footprints import PointerArg, covered_twice, whole_elements
from vdev.planner.instructions import Copy, Fetch, Fill, Launch, Merge, Plan, Reserve, Stage
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.merges import identity_of

SIZE = 1 << 16
GROUPS = NDRange((1024,), (64,), (0,))  # 16 groups, each its 4 KiB
span = Region.span


def own_part(chunk: Chunk) -> Region:
    return span(chunk.start[0] * 4096, chunk.stop[0] * 4096)


def increment(chunk: Chunk) -> list[AccessRange]:
    """Argument 0, each item its own bytes."""
    return [AccessRange(0, "read", own_part(chunk), True), AccessRange(0, "write", own_part(chunk), True)]


def at_host() -> BufferState:
    return buffer_state(SIZE, [(HOST, span(0, SIZE))])


def on_worker(worker: int) -> BufferState:
    return buffer_state(SIZE, [(worker, span(0, SIZE))], [(worker, 0, SIZE)])


def plan_of(
    evaluate: Callable[[Chunk], Sequence[AccessRange]],
    states: Sequence[BufferState],
    options: LaunchOptions | None = None,
    **request: object,
) -> Plan:
    """On four workers, argument k the whole of slot k, unless told otherwise."""
    args = tuple(PointerArg(slot, slot, 0, state.nbytes) for slot, state in enumerate(states))
    options = options or LaunchOptions((0, 1, 2, 3), LinkCosts.uniform(4))
    settings = {"args": args, "ndrange": GROUPS, "evaluate": evaluate, **request}
    return plan_launch(states, LaunchRequest(**settings), options)  # type: ignore[arg-type]


def of_kind(plan: Plan, kind: type) -> list:
    return [item for item in plan.instructions if isinstance(item, kind)]


# how a launch is cut ----------------------------------------------------------------------------


def test_each_worker_gets_its_share() -> None:
    plan = plan_of(increment, [at_host()])
    quarter = SIZE // 4
    assert plan.partition == tuple((w, Chunk((4 * w,), (4 * w + 4,))) for w in range(4))
    assert plan.reasons == ()
    assert plan.workers == (0, 1, 2, 3)
    assert plan.moved == tuple((HOST, w, quarter) for w in range(4))
    assert of_kind(plan, Reserve) == [
        Reserve(w, 0, w * quarter, (w + 1) * quarter, Region.empty()) for w in range(4)
    ]
    assert [item.bases for item in of_kind(plan, Launch)] == [((0, 0, w * quarter),) for w in range(4)]
    assert plan.dependencies == ((),) * len(plan.instructions), "workers have nothing to wait for"
    assert plan.states[0].valid_at(HOST) == Region.empty()


def test_the_same_states_give_the_same_plan() -> None:
    first, second = plan_of(increment, [at_host()]), plan_of(increment, [at_host()])
    assert first.instructions == second.instructions
    assert first.states == second.states


@pytest.mark.parametrize("worker", [0, 2])
def test_one_worker_is_the_one_that_has_the_data(worker: int) -> None:
    plan = plan_of(increment, [on_worker(worker)], one_worker=(Reason("spins on a flag", 12),))
    assert plan.partition == ((worker, Chunk((0,), (16,))),)
    assert plan.reasons == ("spins on a flag (line 12)",)
    assert plan.moved == ()


def test_what_one_chunk_touches_is_looked_at_once_whichever_worker_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolved: list[object] = []
    resolve = candidates.resolve

    def counted(footprints, **rest):  # type: ignore[no-untyped-def]
        resolved.append(footprints)
        return resolve(footprints, **rest)

    monkeypatch.setattr(candidates, "resolve", counted)
    half = SIZE // 2  # no worker has all of it, so that each is rated
    state = buffer_state(
        SIZE, [(HOST, span(0, half)), (2, span(half, SIZE))], [(worker, 0, SIZE) for worker in range(4)]
    )
    plan = plan_of(increment, [state], one_worker=(Reason("spins on a flag", 12),))
    assert plan.partition == ((2, Chunk((0,), (16,))),)
    assert len(resolved) == 1


def test_splitting_is_preferred_even_where_all_is_on_one_worker() -> None:
    plan = plan_of(increment, [on_worker(1)])
    assert len(plan.partition) == 4
    assert plan.moved_nbytes == SIZE * 3 // 4


SQUARE = NDRange((256, 256), (16, 16), (0, 0))  # 16 x 16 groups, each a tile of 16 rows of 16 bytes
ROW = 256


def tiles(chunk: Chunk, halo: int) -> list[AccessRange]:
    """Argument 0: each item its own byte, with so many rows beside."""
    (x, y), (right, bottom) = ((16 * at for at in edge) for edge in (chunk.start, chunk.stop))
    top, low = max(y - halo, 0), min(bottom + halo, 256)
    wanted = Region.boxes(top * ROW + x, right - x, ((ROW, low - top),))
    return [AccessRange(0, "read", wanted, True)]


def cuts_looked_at(state: BufferState, halo: int, per_run: float = 64.0) -> tuple[Plan, int]:
    """On four workers: the plan, and how many cuts of the 16 x 16 groups were evaluated for it."""
    seen = []

    def evaluate(chunk: Chunk) -> list[AccessRange]:
        seen.append(chunk)
        return tiles(chunk, halo)

    options = LaunchOptions((0, 1, 2, 3), LinkCosts.uniform(4, per_run=per_run))
    return plan_of(evaluate, [state], options, ndrange=SQUARE), len(seen) // 4


def test_a_cut_that_moves_hardly_more_than_any_must_is_taken_at_once() -> None:
    plan, looked_at = cuts_looked_at(at_host(), 1)
    assert looked_at == 1
    assert [chunk for _, chunk in plan.partition] == [Chunk((0, 4 * n), (16, 4 * n + 4)) for n in range(4)]


def test_a_cut_that_moves_far_more_than_necessary_is_compared_with_all_others() -> None:
    plan, looked_at = cuts_looked_at(at_host(), 64, per_run=1.0)
    assert looked_at == 3
    rows = sum(min(64 * n + 128, 256) - max(64 * n - 64, 0) for n in range(4)) * ROW
    assert plan.moved_nbytes < rows


def test_if_runs_cost_nothing_the_fewest_bytes_win() -> None:
    assert cuts_looked_at(at_host(), 1, per_run=0.0)[1] == 3
    assert cuts_looked_at(at_host(), 0, per_run=0.0)[1] == 1  # no cut moves less than each byte once


def test_bytes_that_workers_hold_already_must_not_come_from_home() -> None:
    """What is there needs no look at others where it costs nothing; where it does, all are looked at."""
    columns = [(n, Region.boxes(64 * n, 64, ((ROW, 256),))) for n in range(4)]
    state = buffer_state(SIZE, [(HOST, span(0, SIZE)), *columns], [(n, 0, SIZE) for n in range(4)])
    plan, looked_at = cuts_looked_at(state, 1)
    assert looked_at > 1
    assert plan.moved == ()
    assert [chunk for _, chunk in plan.partition] == [Chunk((4 * n, 0), (4 * n + 4, 16)) for n in range(4)]


def test_an_estimate_of_the_kernels_time_decides_how_many() -> None:
    def options(per_group: float) -> LaunchOptions:
        return LaunchOptions(
            (0, 1, 2, 3), LinkCosts.uniform(4), compute_cost=lambda groups, _: groups * per_group
        )

    small = plan_of(increment, [on_worker(1)], options(1.0))
    assert small.partition == ((1, Chunk((0,), (16,))),)
    assert small.reasons == ("1 of 4 workers by the kernel's estimated time",)
    assert len(plan_of(increment, [on_worker(1)], options(1e6)).partition) == 4


def test_small_launches_stay_together() -> None:
    options = LaunchOptions((0, 1, 2, 3), LinkCosts.uniform(4), min_items=1025)
    assert plan_of(increment, [at_host()], options).reasons == ("fewer than 1025 work-items",)
    one_group = NDRange((64,), (64,), (0,))
    assert plan_of(increment, [at_host()], ndrange=one_group).reasons == ("one work-group",)
    two_groups = NDRange((128,), (64,), (0,))
    plan = plan_of(increment, [at_host()], ndrange=two_groups)
    assert len(plan.partition) == 2
    assert plan.reasons == ("2 of 4 workers for 2 work-groups",)


def test_launches_that_one_worker_runs_at_once_stay_there() -> None:
    """16 work-groups of 64 work-items."""

    def reasons(units: int) -> tuple[str, ...]:
        options = LaunchOptions((0, 1, 2, 3), LinkCosts.uniform(4), compute_units=units)
        plan = plan_of(increment, [at_host()], options)
        assert len(plan.partition) == (1 if plan.reasons else 4)
        return plan.reasons

    assert reasons(16) == ("fewer than 17 work-groups: one worker runs them all at the same time",)
    assert reasons(8) == ("fewer than 1025 work-items: one worker runs them all at the same time",)
    assert reasons(7) == ()


@pytest.mark.parametrize("limit", [{"min_items": 1025}, {"compute_units": 16}, {"compute_units": 8}])
def test_small_launches_are_cut_where_their_data_lies(limit: dict[str, int]) -> None:
    """A quarter on each worker: to bring the rest to one of them takes longer than to hand the launch over to all, or does not."""
    quarter = SIZE // 4
    spread = [(n, span(n * quarter, (n + 1) * quarter)) for n in range(4)]
    state = buffer_state(SIZE, spread, [(n, n * quarter, (n + 1) * quarter) for n in range(4)])

    def plan(seconds_per_cost: float, state: BufferState = state) -> Plan:
        options = LaunchOptions(
            (0, 1, 2, 3), LinkCosts.uniform(4), seconds_per_cost=seconds_per_cost, **limit
        )
        return plan_of(increment, [state], options)

    dear = plan(1e-7)
    assert [worker for worker, _ in dear.partition] == [0, 1, 2, 3]
    assert dear.moved == ()
    assert dear.reasons == ("small, but cut: its data lies on several workers",)
    for cheap in (plan(1e-10), plan(0.0), plan(1e-7, on_worker(1)), plan(1e-7, at_host())):
        assert len(cheap.partition) == 1
        assert cheap.reasons[0].startswith("fewer than")


def test_only_the_workers_that_are_left_are_used() -> None:
    options = LaunchOptions((1, 3), LinkCosts.uniform(4))
    plan = plan_of(increment, [at_host()], options)
    assert [worker for worker, _ in plan.partition] == [1, 3]
    assert plan.reasons == ()


def test_one_worker_alone_needs_no_reason() -> None:
    plan = plan_of(increment, [at_host()], LaunchOptions((0,), LinkCosts.uniform(1)))
    assert (len(plan.partition), plan.reasons) == (1, ())


def test_nothing_to_run() -> None:
    plan = plan_of(increment, [at_host()], ndrange=NDRange((0,), (1,), (0,)))
    assert plan.instructions == ()
    assert plan.states == (at_host(),)


# where bytes come from --------------------------------------------------------------------------


def everything(chunk: Chunk) -> list[AccessRange]:
    return [AccessRange(0, "read", span(0, SIZE), True)]


def test_a_broadcast_goes_on_from_peers_where_that_is_cheaper() -> None:
    host_only = plan_of(everything, [at_host()])
    assert host_only.moved == tuple((HOST, w, SIZE) for w in range(4))
    fast = LaunchOptions((0, 1, 2, 3), LinkCosts.uniform(4, peer=0.1))
    plan = plan_of(everything, [at_host()], fast)
    assert plan.moved[0] == (HOST, 0, SIZE)
    assert all(source != HOST for source, target, _ in plan.moved if target != 0)
    assert len({source for source, target, _ in plan.moved if target != 0}) > 1, "not all from one"
    for index, item in enumerate(plan.instructions):
        if isinstance(item, Copy) and item.source != HOST:
            arrival = next(
                i for i, c in enumerate(plan.instructions) if isinstance(c, Copy) and c.target == item.source
            )
            assert arrival in plan.dependencies[index]


def test_a_launch_waits_for_peers_that_still_read_what_it_overwrites() -> None:
    def shift_by_one_part(chunk: Chunk) -> list[AccessRange]:
        return [*increment(chunk), AccessRange(0, "read", span(0, own_part(chunk).stop), True)]

    spread = plan_of(increment, [at_host()]).states
    plan = plan_of(shift_by_one_part, spread)
    launches = [index for index, item in enumerate(plan.instructions) if isinstance(item, Launch)]
    copies = [i for i, item in enumerate(plan.instructions) if isinstance(item, Copy) and item.source == 0]
    assert set(copies) == set(plan.dependencies[launches[0]])


def test_uninitialised_bytes_do_not_move() -> None:
    plan = plan_of(increment, [buffer_state(SIZE)])
    assert plan.moved == ()
    assert plan.states[0].initialised == span(0, SIZE)


def test_an_exact_write_needs_nothing_before() -> None:
    plan = plan_of(lambda chunk: increment(chunk)[1:], [at_host()])
    assert plan.moved == ()


# arguments --------------------------------------------------------------------------------------


def test_arguments_that_share_a_buffer() -> None:
    """Two sub-buffers, the second 16 KiB further on: one replica, two shifts."""

    def shifted(chunk: Chunk) -> list[AccessRange]:
        part = own_part(chunk).clip(0, SIZE - 16384)
        return [AccessRange(0, "read", part, True), AccessRange(1, "write", part, True)]

    args = (PointerArg(0, 0, 0, SIZE - 16384), PointerArg(1, 0, 16384, SIZE - 16384))
    plan = plan_of(shifted, [at_host()], args=args)
    last = of_kind(plan, Launch)[2]
    assert last.bases == ((0, 0, 32768), (1, 0, 32768 - 16384))
    assert Reserve(2, 0, 32768, 65536, Region.empty()) in plan.instructions
    assert plan.moved_nbytes == SIZE - 16384
    assert plan.states[0].valid_at(HOST) == span(0, 16384), "what argument 1 does not reach"


def test_a_pointer_that_is_not_used_still_points_somewhere() -> None:
    args = (PointerArg(0, 0, 0, SIZE), PointerArg(1, 1, 8192, 64))
    plan = plan_of(increment, [at_host(), at_host()], args=args)
    assert of_kind(plan, Launch)[3].bases[1] == (1, 1, 0)
    assert [item for item in of_kind(plan, Reserve) if item.slot == 1] == [
        Reserve(w, 1, 8192, 12288, Region.empty()) for w in range(4)
    ]


def test_a_kernel_that_runs_as_it_is_written_gets_whole_buffers() -> None:
    args = (PointerArg(0, 0, 4096, 8192),)

    def some(chunk: Chunk) -> list[AccessRange]:
        return [AccessRange(0, "write", span(0, 100), False)]

    plan = plan_of(some, [at_host()], args=args, whole_replicas=True)
    assert of_kind(plan, Reserve) == [Reserve(0, 0, 0, SIZE, Region.empty())]
    assert of_kind(plan, Launch)[0].bases == ((0, 0, -4096),)
    assert plan.reasons == ("the kernel runs as it is written",)


# writes of several chunks -----------------------------------------------------------------------


def all_write(exact: Callable[[Chunk], bool]) -> Callable[[Chunk], list[AccessRange]]:
    return lambda chunk: [AccessRange(0, "write", span(0, 64), exact(chunk))]


def test_the_last_chunk_that_surely_writes_has_the_last_word() -> None:
    plan = plan_of(all_write(lambda chunk: chunk.start[0] < 8), [at_host()])
    assert plan.states[0].valid_at(1) == span(0, 64)
    assert plan.states[0].valid_at(HOST) == span(64, SIZE)
    assert plan.moved == ()


def test_looking_for_races_also_compares_certain_writes() -> None:
    options = LaunchOptions((0, 1, 2, 3), LinkCosts.uniform(4), trust_exact=False)
    plan = plan_of(all_write(lambda _: True), [at_host()], options)
    assert of_kind(plan, Merge) == [Merge(0, span(0, 64), (0, 1, 2, 3), "diff", "V1")]


def test_a_comparison_uses_the_smallest_store_and_fits_the_arguments_offset() -> None:
    def units(first: int, second: int, offset: int) -> list[tuple[int, int, Grain]]:
        args = [PointerArg(0, 0, 0, SIZE), PointerArg(1, 0, offset, SIZE - offset)]
        ranges = [
            AccessRange(0, "write", span(0, 64), False, grains=((span(0, 64), of_unit(first)),)),
            AccessRange(1, "write", span(0, 64), False, grains=((span(0, 64), of_unit(second)),)),
        ]
        merges = of_kind(plan_of(lambda chunk: ranges, [at_host()], args=args), Merge)
        return [(merge.region.start, merge.region.stop, merge.grain) for merge in merges]

    assert units(16, 4, 0) == [(0, 64, of_unit(4))]
    assert units(8, 16, 0) == [(0, 64, of_unit(8))]
    between = of_store(8, 4, 8)
    assert sorted(units(8, 8, 60)) == [(0, 60, of_unit(8)), (60, 64, of_unit(4)), (64, 124, between)]


def test_bytes_that_several_may_write_are_compared_with_a_twin() -> None:
    def halves(chunk: Chunk) -> list[AccessRange]:
        part = own_part(chunk)
        return [
            AccessRange(0, "write", span(part.start, min(part.stop + 64, SIZE)), False, reason="i*k", line=4)
        ]

    plan = plan_of(halves, [at_host()])
    seams = Region.from_runs([(w * SIZE // 4, w * SIZE // 4 + 64) for w in (1, 2, 3)])
    (merge,) = of_kind(plan, Merge)
    assert (merge.region, merge.op) == (seams, "diff")
    assert plan.states[0].valid_at(HOST) == seams
    assert plan.states[0].valid_at(1) == span(SIZE // 4 + 64, SIZE // 2)
    assert [fetch.region.nbytes for fetch in of_kind(plan, Fetch)] == [64, 128, 128, 64]
    assert plan.stages[1] == Stage(0, Region.from_runs([(16384, 16448), (32768, 32832)]))
    assert plan.reasons == (
        "argument 0: 192 bytes that several chunks may write are compared with a twin (i*k), line 4",
    )
    fetches = [index for index, item in enumerate(plan.instructions) if isinstance(item, Fetch)]
    assert set(fetches) <= set(plan.dependencies[plan.instructions.index(merge)])


def atomics(op: str | None, dtype: str | None = "int32") -> Callable[[Chunk], list[AccessRange]]:
    return lambda chunk: [AccessRange(0, "atomic", span(0, 16), False, op, dtype, "result used", 8)]


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor"])
def test_commuting_atomics_start_from_the_identity(op: str) -> None:
    plan = plan_of(atomics(op), [at_host()])
    assert of_kind(plan, Fill) == [Fill(w, 0, span(0, 16), identity_of(op, "int32")) for w in range(4)]
    assert of_kind(plan, Merge) == [Merge(0, span(0, 16), (0, 1, 2, 3), op, "int32")]
    assert plan.states[0].valid_at(HOST) == span(0, SIZE)
    assert plan.reasons == (f"16 bytes merged by atomic {op}",)


def test_atomics_that_cannot_be_merged_run_on_one_worker() -> None:
    plan = plan_of(atomics(None), [at_host()])
    assert plan.reasons == (
        "argument 0: atomics that cannot be merged touch the same bytes in several chunks"
        " (result used), line 8",
    )
    assert len(plan.partition) == 1


def test_atomics_on_bytes_of_one_chunk_each_stay_where_they_are() -> None:
    plan = plan_of(lambda chunk: [AccessRange(0, "atomic", own_part(chunk), False, None, None)], [at_host()])
    assert len(plan.partition) == 4
    assert plan.moved_nbytes == SIZE
    assert of_kind(plan, Merge) == []


@pytest.mark.parametrize(
    "other",
    [
        AccessRange(0, "read", span(4, 8), True),
        AccessRange(0, "write", span(4, 8), True),
        AccessRange(0, "write", span(4, 8), False),
        AccessRange(0, "atomic", span(4, 8), False, "min", "int32"),
    ],
)
def test_merged_bytes_that_are_also_accessed_otherwise_run_on_one_worker(other: AccessRange) -> None:
    plan = plan_of(lambda chunk: [*atomics("add")(chunk), other], [at_host()])
    assert plan.reasons == (
        "argument 0: bytes changed by atomics in several chunks are also accessed otherwise"
        " (result used), line 8",
    )


def test_a_chunk_that_reads_anothers_atomics_runs_with_it() -> None:
    def waiting(chunk: Chunk) -> list[AccessRange]:
        if chunk.start[0] == 0:
            return [AccessRange(0, "atomic", span(0, 4), False, "add", "int32", None, 8)]
        return [AccessRange(0, "read", span(0, 4), True)]

    def evaluate(chunk: Chunk) -> list[AccessRange]:
        whole = chunk.ngroups == 16
        return [*waiting(Chunk((0,), (1,))), *waiting(Chunk((1,), (2,)))] if whole else waiting(chunk)

    plan = plan_of(evaluate, [at_host()])
    assert plan.reasons == (
        "argument 0: bytes changed by atomics in one chunk are accessed by another, line 8",
    )


def test_another_cut_may_have_no_conflict() -> None:
    """Rows conflict, columns do not: the grid is chosen that can be run."""
    square = NDRange((4, 4), (1, 1), (0, 0))

    def columns(chunk: Chunk) -> list[AccessRange]:
        left, right = chunk.start[0], chunk.stop[0]
        return [AccessRange(0, "atomic", span(left * 4, right * 4), False, None, None)]

    plan = plan_of(columns, [at_host()], ndrange=square)
    assert [chunk.start for _, chunk in plan.partition] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert plan.reasons == ()


# parts ------------------------------------------------------------------------------------------


def test_partial_elements_are_not_touched_by_atomics() -> None:
    assert whole_elements(span(2, 13), "uint32") == span(4, 12)
    assert whole_elements(span(2, 5), "uint64") == Region.empty()
    assert whole_elements(span(2, 5), None) == span(2, 5)


def test_bytes_covered_twice() -> None:
    assert covered_twice([]) == Region.empty()
    assert covered_twice([span(0, 4), span(4, 8), span(8, 9)]) == Region.empty()
    assert covered_twice([span(0, 4), span(8, 9), span(2, 9)]) == Region.from_runs([(2, 4), (8, 9)])
    assert covered_twice([span(0, 9), span(1, 9), span(2, 9), span(9, 10)]) == span(1, 9)


def test_instructions_on_the_host_have_no_order_of_their_own() -> None:
    """A copy out of two filled parts of the home waits for both fills."""
    builder = PlanBuilder([buffer_state(100)], LinkCosts.uniform(1))
    builder.fill(0, HOST, span(0, 50), b"\0")
    builder.fill(0, HOST, span(50, 100), b"\1")
    builder.copy(0, HOST, 0, span(0, 100))
    builder.fill(0, HOST, span(0, 10), b"\2")
    assert builder.finish().dependencies == ((), (), (0, 1), (0, 2))


def test_only_the_last_of_one_workers_instructions_is_waited_for() -> None:
    builder = PlanBuilder([buffer_state(100)], LinkCosts.uniform(2))
    builder.reserve(0, 0, 0, 100)
    builder.fill(0, 0, span(0, 50), b"\0")
    builder.fill(0, 0, span(50, 100), b"\1")
    builder.reserve(0, 1, 0, 100)
    builder.copy(0, 0, 1, span(0, 100))
    assert builder.finish().dependencies == ((), (), (), (), (2,))


def test_costs_are_square() -> None:
    with pytest.raises(ValueError, match="as many targets"):
        LinkCosts(((0.0, 1.0), (1.0,)))


def test_no_identity_for_other_operations() -> None:
    with pytest.raises(ValueError, match="no identity"):
        identity_of("xchg", "int32")
