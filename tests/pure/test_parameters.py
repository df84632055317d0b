"""Plans with parameters: a plan that is filled in is the one that the planner makes, instruction by instruction."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
from vdev.translators.interpreter.launch_ranges import LaunchRanges
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region
from vdev.translators.ranges.tracing import Trace

from samples.benchmarks import changed_scalars as bench
from samples.benchmarks import planning_programs
from samples.benchmarks.changed_scalars import Bench, Step
from vdev.executor.launch_step import LaunchRecipe, LaunchStep
from vdev.executor.prepare import PreparedPlan
from vdev.executor.steps import CopyStep
from vdev.planner import parameters, views
from vdev.planner.directory import HOST, BufferState, buffer_state, check, contents
from vdev.planner.habits import Habit, Habits
from vdev.planner.instructions import Copy, Launch, Plan, Touch
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.parameters import Form, Windows, _Writer
from vdev.planner.transfers import plan_read, plan_write
from vdev.session import filling, making_plans, requests, view_plans
from vdev.session.commands import BufferArg

SOURCE = """
kernel void shifted(global int *to, global const int *from, int n, int by) {
    int i = get_global_id(0);
    if (i + by >= 0 && i + by < n) to[i] = from[i + by];
}
kernel void backwards(global int *a, int last) { a[last - (int)get_global_id(0)] += 1; }
kernel void every(global int *a, int first, int step) { a[first + step * get_global_id(0)] = first; }
kernel void tile(global int *a, int n, int x0, int y0) {
    int x = get_global_id(0) + x0, y = get_global_id(1) + y0;
    if (x < n && y < n) a[y * n + x] += a[y * n + x0] * a[y0 * n + x];
}
kernel void below(global int *a, int n, int d) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x + d <= y) a[y * n + x] = d;
}
kernel void sum_rows(global int *sums, global const int *a, int n, int from, int to) {
    int y = get_global_id(0), sum = 0;
    for (int x = from; x < to; ++x) sum += a[y * n + x];
    sums[y] = sum;
}
kernel void histogram(global int *counts, global const int *a, int first) {
    atomic_inc(&counts[a[get_global_id(0) + first] & 63]);
}
kernel void scatter(global int *a, global const int *where, int first) { a[where[get_global_id(0) + first]] = first; }
kernel void between(global int *a, int low, int high, int value) {
    int i = get_global_id(0);
    if (i >= low && i < high) a[i] = value;
}
kernel void ring(global int *a, global const int *b, int n, int step) {
    int i = get_global_id(0);
    a[(step % 16) * n + i] = b[i] + a[((step + 15) % 16) * n + i];
}
kernel void wrapped(global int *a, uint first, uint mask) { a[(get_global_id(0) + first) & mask] = first; }
kernel void chosen(global int *a, global const int *b, int which) {
    int i = get_global_id(0);
    a[i] = which > 3 ? b[i + which] : b[i];
}
"""
SKEWED = """
kernel void skewed(global int *u, int n, int from, int t) {
    int i = from - t + get_global_id(0), now = (t & 1) * n;
    if (i >= 1 && i < n - 1) u[n - now + i] = u[now + i - 1] + u[now + i + 1];
}
"""
#: of a factorisation by tiles of 32
FACTORS = "#define T 32\n" + planning_programs.LU
DIAGONALS = (
    f"#define T 32\n{planning_programs.CHOLESKY}"
    + """
kernel void row_of_tiles(global float *a, global const float *x, int n, int row) {
    int c = get_global_id(0), r = row + get_global_id(1);
    if (c <= r) a[r * n + c] += x[r] * x[c];
}
kernel void scaled(global float *x, global const float *a, int n, int row) {
    int r = row + get_global_id(0);
    x[r] = 0.5f * x[r] + 1e-3f * a[r * n + r];
}
"""
)
TABLE = """
#define TILE 4
kernel void across(global int *d, int n, int k) {
    int x = get_global_id(0);
    if (x >= n || (x >= k && x < k + TILE)) return;
    for (int p = k; p < k + TILE; ++p)
        for (int y = k; y < k + TILE; ++y) d[y * n + x] = min(d[y * n + x], d[y * n + p] + d[p * n + x]);
}
kernel void others(global int *d, int n, int k) {
    int x = get_global_id(0), y = get_global_id(1);
    if (y >= k && y < k + TILE) return;
    for (int p = k; p < k + TILE; ++p) d[y * n + x] += d[p * n + x];
}
"""
KERNELS = re.findall(r"kernel void (\w+)", SOURCE)
N = 128  #: a side of a matrix


def launches(rng: random.Random) -> Iterator[Step]:
    """Some launches of one kernel, with scalars that go on, stay, or jump."""
    kernel = rng.choice(KERNELS)
    x, y, step = rng.randrange(40), rng.randrange(40), rng.choice((1, 1, 2, 5))
    size = rng.choice((256, 1024, 1000))
    for number in range(rng.randrange(4, 40)):
        if rng.random() < 0.06:
            x, y = rng.randrange(60), rng.randrange(60)
        if rng.random() < 0.05:
            size = rng.choice((256, 512, 1000, 1024))
        x, y = x + step, y + rng.choice((0, 1))
        at = number % 2
        ends = [*(rng.sample(("a", "b"), 2) if rng.random() < 0.1 else ("a", "b"))]
        yield {
            "shifted": Step("shifted", (size,), (8,), (*ends, 4096, x - 30)),
            "backwards": Step("backwards", (size,), (8,), ("a", 2048 + 4 * x)),
            "every": Step("every", (size,), (8,), ("a", x, 1 + at)),
            "tile": Step("tile", (32, 32), (8, 8), ("a", N, x % 96, (x if at else y) % 96)),
            "below": Step("below", (64, 64), (8, 8), ("a", N, x % 50)),
            "sum_rows": Step("sum_rows", (128,), (8,), (*ends[::-1], N, x % 50, 50 + y % 50)),
            "histogram": Step("histogram", (size,), (8,), (*ends, 8 * x)),
            "scatter": Step("scatter", (size,), (8,), (*ends, x)),
            "between": Step("between", (1024,), (8,), ("a", 4 * x, 4 * x + 8 * y, number)),
            "ring": Step("ring", (256,), (8,), (*ends, 256, number)),
            "wrapped": Step("wrapped", (256,), (8,), ("a", 16 * x, 1023)),
            "chosen": Step("chosen", (size,), (8,), (*ends, x % 8)),
        }[kernel]


class Usual(Habits):
    """Habits that know one cut."""

    def __init__(self, habit: Habit | None) -> None:
        super().__init__()
        self.habit = habit

    def find(self, groups: tuple[int, ...], workers: tuple[int, ...]) -> Habit | None:
        return None if self.habit is None else replace(self.habit, left=2)


class Comparison:
    """Has the planner make every plan that is filled in."""

    def __init__(self) -> None:
        self.count = 0
        self.blocks = 0  #: numbers of blocks that were compared

    def __call__(
        self,
        plan: Plan,
        states: Sequence[BufferState],
        request: LaunchRequest,
        options: LaunchOptions,
        habit: Habit | None,
    ) -> None:
        self.count += 1
        made = plan_launch(states, replace(request, habits=Usual(habit)), options)
        for item in fields(Plan):
            ours, theirs = getattr(plan, item.name), getattr(made, item.name)
            if item.name == "states":
                ours, theirs = tuple(map(contents, ours)), tuple(map(contents, theirs))
            if item.name == "blocks":  # only a plan that was filled in has them
                continue
            assert ours == theirs, (item.name, ours, theirs)
        self._compare_blocks(plan, made)
        for state in plan.states:
            check(state)
            for _, region in state.valid:  # what was worked out with the plan
                assert region.nbytes == sum(stop - start for start, stop in region.runs.tolist())

    def _compare_blocks(self, plan: Plan, made: Plan) -> None:
        """What the plan's numbers say of its copies is what the planner's copies move."""
        numbers = None if plan.blocks is None else plan.blocks.numbers()
        if plan.blocks is None or numbers is None:
            return
        copied = [item.region.blocks() if isinstance(item, Copy) else () for item in made.instructions]
        assert [*plan.blocks.counts] == [*map(len, copied)]
        assert [*numbers] == [number for blocks in copied for block in blocks for number in block.numbers]
        self.blocks += len(numbers)


class RangesComparison:
    """Evaluates all access ranges that are filled in."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, known: dict[Chunk, Sequence[AccessRange]], request: LaunchRequest) -> None:
        for chunk, found in known.items():
            self.count += 1
            made = tuple(request.evaluate(chunk))
            assert found == made
            for ours, theirs in zip(found, made, strict=True):
                assert ours.region.pitches == theirs.region.pitches
                assert ours.region.nbytes == theirs.region.nbytes == Region.from_runs(ours.region.runs).nbytes


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Comparison:
    found = Comparison()
    monkeypatch.setattr(filling, "check", found)
    return found


@pytest.fixture
def compared_ranges(monkeypatch: pytest.MonkeyPatch) -> RangesComparison:
    found = RangesComparison()
    monkeypatch.setattr(filling, "check_ranges", found)
    return found


def traces(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Which of these functions of `filling` are called from now on, in order."""
    made: list[str] = []

    def counted(name: str, trace: Callable[..., Any], *args: Any) -> Any:
        made.append(name)
        return trace(*args)

    for name in names:
        monkeypatch.setattr(filling, name, partial(counted, name, getattr(filling, name)))
    return made


def test_launches_that_point_elsewhere_differ_in_numbers() -> None:
    program = Bench(2)
    launch = program.command(Step("window", (1024,), (64,), ("a", 0)))
    buffer = program.buffers["a"]
    moved = replace(launch, args=(BufferArg(buffer, 4096, 8192), *launch.args[1:]))  # type: ignore[arg-type]
    further = replace(launch, args=(BufferArg(buffer, 8192, 8192), *launch.args[1:]))  # type: ignore[arg-type]
    cache = launch.kernel.plans
    places = [cache.place_of(each, [buffer]) for each in (launch, moved, further)]
    assert places[1][0] is places[2][0] is not places[0][0]  # the argument has as many bytes
    assert [offsets for _, offsets in places] == [[0], [4096], [8192]]
    (pointer,) = places[1][0].pointers(places[2][1])
    assert (pointer.offset, pointer.before, pointer.nbytes_own) == (8192, 8192, 8192)
    assert pointer.nbytes == buffer.nbytes - 8192  # what lies beside it can be reached


def launched_in_parts(program: Bench, rng: random.Random, kernel: str) -> None:
    """Launches on parts of buffers, as sub-buffers are, that move on or jump."""
    at = [rng.randrange(0, 65536, 512) for _ in range(2)]
    steps = [rng.choice((512, 1024)) for _ in range(2)]
    for number in range(50):
        jumps = rng.random() < 0.05
        at = [
            rng.randrange(0, 1 << 17, 4) if jumps else each + by for each, by in zip(at, steps, strict=True)
        ]
        step = {
            "shifted": Step("shifted", (1024,), (8,), ("a", "b", 4096, 7)),
            "tile": Step("tile", (32, 32), (8, 8), ("a", N, number % 64, 3)),
            "sum_rows": Step("sum_rows", (128,), (8,), ("a", "b", N, 5, 70)),
            "between": Step("between", (1024,), (8,), ("a", 100, 900, number)),
        }[kernel]
        command = program.command(step)
        args = list(command.args)
        for index, offset in zip(range(2), at, strict=True):
            if isinstance(args[index], BufferArg):
                args[index] = BufferArg(args[index].buffer, offset, 1 << 16)
        program.launch(replace(command, args=tuple(args)))


@pytest.mark.parametrize("seed", range(6))
def test_plans_of_launches_on_parts_of_buffers_that_move_are_the_planners(
    seed: int, compared: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those for the launches themselves: where their arguments point is no scalar of theirs."""
    rng = random.Random(seed)
    program = Bench(2 + seed % 3, near=seed % 2 == 0, source=SOURCE)
    fill, own = making_plans._filled_in, Comparison()

    def fill_and_compare(launch: Any, buffers: Any, states: Any, options: Any, executor: Any) -> Any:
        habit = launch.kernel.plans.habits.find(launch.ndrange.num_groups, options.workers)
        habit = None if habit is None else replace(habit)
        found = fill(launch, buffers, states, options, executor)
        if found is not None:
            own(found.plan, states, requests.request_of(launch, buffers), options, habit)
        return found

    monkeypatch.setattr(making_plans, "_filled_in", fill_and_compare)
    for kernel in ("shifted", "tile", "sum_rows", "between"):
        launched_in_parts(program, rng, kernel)
    assert program.filled == compared.count == own.count > 20


def test_states_that_come_back_are_the_same_objects(compared: Comparison) -> None:
    program = Bench(3)
    order = [*range(60), *[57, 60, 58] * 12]  # goes on, and is filled in; then the same few again and again
    made = []
    for first in order:
        program.launch(program.command(Step("window", (1 << 16,), (64,), ("a", 64 * first))))
        made.append(program.plans)
    assert compared.count > 20
    assert made[59] < made[-1] == made[-12]  # plans of states that are known are found
    assert program.buffers["a"].state.labelled is not None
    check(program.buffers["a"].state)


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("name", [name for name in bench.PROGRAMS if name != "leap"])
def test_plans_of_the_benchmarks_programs_are_the_planners(
    name: str, near: bool, compared: Comparison
) -> None:
    program = Bench(3, near=near)
    for step in bench.PROGRAMS[name](120):
        program.launch(program.command(step))
    assert compared.count == program.filled >= 40
    assert (compared.blocks > 0) == (name not in ("count", "record")), "nothing else launches without copies"


def transfer(program: Bench, rng: random.Random) -> None:
    """The host writes or reads a part of a buffer."""
    links = program.workers.options.links
    buffer = rng.choice([*program.buffers.values()])
    start = rng.randrange(0, 8192, 4)
    region = Region.span(start, start + rng.randrange(4, 8192, 4))
    reads = rng.random() < 0.5
    plan = (
        plan_read(buffer.state, region, links, contiguous=True)
        if reads
        else plan_write(buffer.state, region, links)
    )
    (buffer.state,) = plan.states


def run_random(seed: int, workers: int, near: bool) -> int:
    """How many plans of a random program were filled in."""
    rng = random.Random(seed)
    program = Bench(workers, near=near, source=SOURCE)
    for _ in range(14):
        for step in launches(rng):
            program.launch(program.command(step))
            if rng.random() < 0.03:
                transfer(program, rng)
    return program.filled


@pytest.mark.parametrize("seed", range(6))
def test_plans_of_random_launches_are_the_planners(seed: int, compared: Comparison) -> None:
    filled = run_random(seed, 2 + seed % 3, seed % 2 == 0)
    assert filled == compared.count
    assert filled > 20


@pytest.fixture
def viewed(monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """Compares plans that are made on views, as nearly all are that can be."""
    found = Comparison()
    monkeypatch.setattr(view_plans, "check", found)
    monkeypatch.setattr(views, "FEW_BOXES", 0)
    monkeypatch.setattr(views, "WORTH", 0)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_plans_that_are_made_on_views_are_those_of_the_whole(seed: int, viewed: Comparison) -> None:
    run_random(seed + 100, 2 + seed % 3, seed % 2 == 0)
    assert viewed.count > 20


@pytest.mark.parametrize("name", ["tile", "update"])
def test_what_a_moving_tile_leaves_is_brought_together_by_plans_that_are_made_on_views(
    name: str, viewed: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling.Forms, "_fill", lambda *_: None)
    program, gathered = Bench(4), 0
    for step in bench.PROGRAMS[name](60):
        before = viewed.count
        items = program.launch(program.command(step)).plan.instructions
        last = max(index for index, item in enumerate(items) if isinstance(item, Launch))
        gathered += viewed.count > before and last < len(items) - 1  # copies behind the launches
    assert viewed.count > 20
    assert gathered > 1


def test_buffers_in_many_boxes_are_planned_on_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the limits that are in force."""
    compared = Comparison()
    monkeypatch.setattr(view_plans, "check", compared)
    program = Bench(4)
    for step in bench.PROGRAMS["update"](60):
        program.launch(program.command(step))
    assert compared.count > 5


@pytest.mark.parametrize("seed", range(6))
def test_ranges_of_random_launches_are_those_that_are_evaluated(
    seed: int, compared_ranges: RangesComparison
) -> None:
    run_random(seed, 2 + seed % 3, seed % 2 == 0)
    assert compared_ranges.count > 50


def test_ranges_are_filled_in_where_the_planner_makes_the_plan(compared_ranges: RangesComparison) -> None:
    """A tile moves on, and what it leaves behind is brought together again and again: of the launches whose plans have
    to be made, few evaluate anything."""
    program = Bench(4)
    evaluated = 0
    evaluate = requests.evaluator

    def counting(*args: Any) -> Any:
        found = evaluate(*args)

        def counted(chunk: Chunk) -> Any:
            nonlocal evaluated
            evaluated += 1
            return found(chunk)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "evaluator", counting)
        patch.setattr(filling, "check_ranges", None)
        plans = []
        for step in bench.PROGRAMS["tile"](160):
            before = evaluated, program.filled
            program.launch(program.command(step))
            if program.filled == before[1]:
                plans.append(evaluated - before[0])
    assert len(plans) > 15
    whole = plans.index(0)
    assert whole < 10
    later = plans[whole:]  # those that look at all cuts evaluate chunks of another one
    assert later.count(0) >= len(later) // 2, str(plans)
    assert max(later) <= 4, str(plans)


def planted_conditions(trace: Trace) -> tuple[list[Any], list[Any]]:
    return [], []


@pytest.mark.parametrize("comparison", ["compared", "compared_ranges"])
def test_a_plan_or_ranges_for_other_conditions_would_be_seen(
    request: pytest.FixtureRequest, comparison: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(comparison)
    monkeypatch.setattr(Trace, "bounds", planted_conditions)
    with pytest.raises(AssertionError):
        sum(run_random(seed, 3, True) for seed in range(6))


def test_a_scalar_that_no_range_depends_on_leads_to_no_plan() -> None:
    program = Bench(4)
    for step in bench.PROGRAMS["leap"](100):
        program.launch(program.command(step))
    assert program.plans <= 4


def test_steps_are_those_of_a_plan_made_ready_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a plan is prepared into, it is from its own numbers."""
    count = 0
    with_numbers = PreparedPlan.with_numbers

    def compare(self: PreparedPlan, plan: Plan, recipe: LaunchRecipe) -> PreparedPlan:
        nonlocal count
        found, made = with_numbers(self, plan, recipe), PreparedPlan(plan, recipe)
        for name in PreparedPlan.__slots__:
            if name not in ("batches", "refills", "regions", "workers"):
                assert getattr(found, name) == getattr(made, name), name
        for (worker, ours), (other, theirs) in zip(found.batches, made.batches, strict=True):
            assert worker == other
            for name in ("waits", "marks", "careful", "plain", "brief", "rows"):
                assert getattr(ours, name) == getattr(theirs, name), name
            for one, another in zip(ours.steps, theirs.steps, strict=True):
                assert content(one) == content(another)
        count += 1
        return found

    monkeypatch.setattr(PreparedPlan, "with_numbers", compare)
    for seed in range(3):
        run_random(seed, 3, True)
    assert count > 50


def content(step: Any) -> Any:
    if isinstance(step, LaunchStep):
        shape = step.shape
        of_shape = (shape.ndrange, shape.chunk, shape.global_size, shape.first, shape.bases, shape.hidden)
        return LaunchStep, step.bases, step.homes, step.recipe.ndrange, of_shape
    if isinstance(step, CopyStep):
        return type(step), step.slot, step.source, step.target, step.region
    names = [name for kind in type(step).__mro__ for name in getattr(kind, "__slots__", ())]
    return type(step), [getattr(step, name) for name in names]


def test_the_counts_are_those_that_the_planner_would_have_made() -> None:
    """The same program with and without plans that are filled in."""
    found = []
    for fills in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not fills:
                patch.setattr(filling.Forms, "_fill", lambda *_: None)
            program = Bench(3, near=True)
            moved = []
            for step in bench.PROGRAMS["tile"](80):
                cached = program.launch(program.command(step))
                cached.outcome.launches += 1
                if cached.traffic is not None:
                    cached.traffic.count()
                moved.append(cached.plan.moved)
            tally = program.kernels["tile"].plans.tally  # type: ignore[union-attr]
            outcomes = [
                (key, item.chunks, item.reasons, item.launches) for key, item in tally.outcomes.items()
            ]
            found.append((program.filled, moved, tally.arguments, outcomes, tally.plans))
    filled, plain = found
    assert filled[0] > 20
    assert plain[0] == 0
    assert filled[1:] == plain[1:]


def planned(name: str, count: int) -> tuple[Bench, list[tuple[tuple[int, int, int], ...]]]:
    """A program, and what each of its launches moved."""
    program = Bench(3)
    return program, [program.launch(program.command(step)).plan.moved for step in bench.PROGRAMS[name](count)]


def test_what_plans_touch_is_written_down_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    write = parameters._Writer.function

    def write_and_note(writer: Any, made: Any, **how: Any) -> Any:
        parts = made if isinstance(made, tuple) else ()
        if any(isinstance(part, tuple) and part and isinstance(part[0], Touch) for part in parts):
            written.append(made)
        return write(writer, made, **how)

    monkeypatch.setattr(parameters._Writer, "function", write_and_note)
    program = Bench(3)
    found = [program.launch(program.command(step)) for step in bench.scan(60)]
    assert program.traced > 0
    assert program.filled > 40
    assert not written  # though the traced launches' steps were made ready for workers
    for each in found:
        assert sum(map(len, each.plan.touches)) > 3
    assert 0 < len(written) <= program.traced


def test_launches_of_fewer_work_groups_than_the_usual_cut_has_parts(caplog: pytest.LogCaptureFixture) -> None:
    """What is left of a matrix is a single work-group in the end, several times."""
    program = Bench(2)
    for k in range(95):
        rest = -(-(95 - k) // 8) * 8
        program.launch(program.command(Step("update", (rest, rest), (8, 8), ("a", 96, k))))
    assert not [record for record in caplog.records if record.exc_info]
    assert program.filled > 20


@pytest.mark.parametrize("fault", ["trace_plan", "trace_windows", "views_of"])
def test_a_fault_of_tracing_or_filling_in_is_not_the_programs(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = planned("window", 40)[1]

    def fail(*_: Any) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(filling, fault, fail)
    program, found = planned("window", 40)
    assert found == right
    assert program.filled == 0


def test_launches_are_not_traced_for_ever_if_nothing_uses_the_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Form, "fill", lambda *_: None)
    program, _ = planned("tile", 200)
    forms = program.kernels["tile"].plans.forms  # type: ignore[union-attr]
    assert 0 < forms.traced <= filling.MOST_AT_FIRST + 2  # of 200 launches; the next one would be among 320
    assert program.filled == 0


def test_launches_whose_plans_change_memory_are_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that grows: workers' memory grows with each launch, and a plan that changes memory is never filled in."""
    monkeypatch.setattr("vdev.planner.builder.MAX_SLACK", 0)
    traced = traces(monkeypatch, "trace_plan")
    program = Bench(3, near=True)
    links = program.workers.options.links
    program.workers.options = replace(program.workers.options, links=replace(links, gaps_nbytes=0))
    grown = 0
    for number in range(60):
        step = Step("count", (4096 * (number + 4),), (64,), ("a", "b", 4096 * (number + 4) - 37))
        grown += bool(program.launch(program.command(step)).plan.growth)
    assert grown > 50
    assert not traced


def test_launches_for_which_all_cuts_are_looked_at_are_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then the usual cut is compared with others. Those launches have no cut in common that could be traced."""
    traced = traces(monkeypatch, "trace_windows", "trace_plan")
    program, _ = planned("window", 120)
    assert traced == ["trace_windows", "trace_plan"]
    assert program.filled > 90


def test_small_launches_whose_data_is_elsewhere_are_not_traced(compared: Comparison) -> None:
    """All cuts are looked at for them, and kept in tables, where no traced number must be found later."""
    program = Bench(3, source=SOURCE)
    program.workers.options = replace(program.workers.options, min_items=2000, seconds_per_cost=1e-4)
    chunks = []
    for number in range(180):
        size = 1000 + 8 * (number // 3 + number % 3)
        program.launch(program.command(Step("shifted", (4096,), (8,), ("a", "b", 100000, 0))))
        small = program.command(Step("shifted", (size,), (8,), ("a", "b", 100000, number // 3 % 7)))
        chunks += [chunk for _, chunk in program.launch(small).plan.partition]
    assert all(type(number) is int for chunk in chunks for number in (*chunk.start, *chunk.stop))
    assert program.filled == compared.count > 0


@pytest.mark.parametrize("fit", [False, True])
def test_what_launches_touch_is_traced_later_and_later_where_no_launch_is_like_another(
    monkeypatch: pytest.MonkeyPatch, fit: bool
) -> None:
    """Bytes that lie apart by a scalar: what was traced serves no other distance. It is traced once where it does not go with
    the buffer's pitches either, `fit` or not."""
    traced, trace = [], filling.trace_windows

    def counted(scalars: Sequence[int], *rest: Any) -> Any:
        traced.append(scalars)
        return trace(scalars, *rest)

    monkeypatch.setattr(filling, "trace_windows", counted)
    if fit:
        monkeypatch.setattr(filling.Windows, "fit", lambda windows, states: True)
    program = Bench(3, source=SOURCE)
    for number in range(60):
        program.launch(program.command(Step("every", (256,), (8,), ("a", 0, 2 + number))))
    assert 2 <= len(traced) <= 5 if fit else len(traced) == 1
    assert program.filled == 0


def test_launches_of_a_few_scalars_in_turn_are_not_traced() -> None:
    """Colours of a grid: each finds its plan again once the states of its buffers come back; until then they are other ones."""
    program = Bench(3, source=SOURCE)
    for number in range(16):
        step = Step("chosen", (1024,), (8,), ("a", "b", 8 + number % 2))
        program.launch(program.command(step))
        program.buffers["a"].state = moved_on(program.buffers["a"].state, number)
    assert program.plans > 12
    cache = program.kernels["chosen"].plans
    assert cache is not None
    assert not any(kind.windows for kind in cache.forms._kinds.values())


def test_launches_of_the_same_scalars_are_filled_in_where_no_states_come_back(compared: Comparison) -> None:
    """A product with a matrix of which something changes in between: its scalars are the same each time, and its plan another one."""
    program = Bench(3, source=SOURCE)
    for number in range(200):
        program.launch(program.command(Step("chosen", (1024,), (8,), ("a", "b", 8))))
        program.buffers["a"].state = moved_on(program.buffers["a"].state, number % 100)
    assert program.filled == compared.count > 30


def test_a_skewed_tile_has_windows_for_each_of_its_ends_and_steps(
    compared: Comparison, compared_ranges: RangesComparison
) -> None:
    """Time steps of a tile, each of which lies one further left: it is cut off at both ends, and two halves of a buffer take turns."""
    program, width = Bench(3, source=SKEWED), 1 << 12
    for number in range(640):
        tile, t = number // 8 % 17, number % 8
        program.launch(program.command(Step("skewed", (width,), (64,), ("a", 16 * width, tile * width, t))))
    assert program.filled == compared.count > 300


def moved_on(state: BufferState, number: int) -> BufferState:
    """Some bytes of a buffer are at home only, others each time."""
    fresh = Region.span(64 * number, 64 * number + 64)
    held = [(holder, region - fresh) for holder, region in state.valid if holder != HOST]
    home = next((region for holder, region in state.valid if holder == HOST), Region.empty())
    return buffer_state(state.nbytes, [(HOST, home | fresh), *held], state.replicas)


def test_no_map_is_made_of_a_buffer_whose_pitches_are_not_those_of_the_launch() -> None:
    """The diagonal of a matrix that lies by columns: the planner plans each launch, and asks for no map."""
    n = 512
    columns = [Region.boxes(4 * first, 4 * n // 2, ((4 * n, n),)) for first in (0, n // 2)]
    state = buffer_state(4 * n * n, list(enumerate(columns)), [(worker, 0, 4 * n * n) for worker in range(2)])
    diagonal = Region.boxes(0, 4, ((4 * (n + 1), n),))
    windows = Windows(lambda _: (diagonal,), (frozenset({diagonal.pitches}),))
    assert not windows.fit([state])
    assert not state.is_mapped
    assert Windows(lambda _: (columns[0],), (frozenset({columns[0].pitches}),)).fit([state])


def test_a_buffer_brought_together_looks_the_same_each_time() -> None:
    """A tile that moves on: every few launches what it left is brought together, and what lies around it then is no
    new pattern, which would take a trace of its own."""
    program, _ = planned("tile", 150)
    forms = program.kernels["tile"].plans.forms  # type: ignore[union-attr]
    assert forms.traced <= 3
    assert program.filled >= 115


def factorised(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Tiles on the diagonal, of which launches read triangles."""
    monkeypatch.setattr(bench, "NBYTES", 1 << 22)
    program, n, tile = Bench(3, source=FACTORS), 1024, 32
    for k in range(0, 26 * tile, tile):
        rest = n - k - tile
        program.launch(program.command(Step("lu_tile", (tile,), (tile,), ("a", n, k))))
        program.launch(program.command(Step("lu_row", (rest,), (16,), ("a", n, k))))
        program.launch(program.command(Step("lu_update", (rest, rest), (16, 16), ("a", n, k))))
    return program


def test_a_factorisation_by_tiles_is_filled_in(
    compared: Comparison, compared_ranges: RangesComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a triangle, which are listed, follow the tile as well as its corners do."""
    program = factorised(monkeypatch)
    filled = {name: kernel.plans.forms.filled for name, kernel in program.kernels.items() if kernel.plans}
    assert filled["lu_tile"] >= 15
    assert filled["lu_row"] >= 10
    assert compared.count == program.filled


@pytest.mark.parametrize("workers", [2, 3])
def test_what_lies_on_a_diagonal_is_filled_in(
    workers: int, compared: Comparison, compared_ranges: RangesComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pitch of a diagonal does not go with that of rows, in which its buffer lies: what is read and written on it is taken as runs."""
    monkeypatch.setattr(bench, "NBYTES", 1 << 22)
    program, n, tile = Bench(workers, source=DIAGONALS), 1024, 32
    for k in range(0, 26 * tile, tile):
        program.launch(program.command(Step("root_tile", (tile,), (tile,), ("a", n, k))))
        program.launch(program.command(Step("solve_column", (n - k - tile,), (16,), ("a", n, k))))
        program.launch(program.command(Step("row_of_tiles", (k + tile, tile), (16, 16), ("b", "x", n, k))))
        program.launch(program.command(Step("scaled", (16,), (16,), ("x", "b", n, k))))
    filled = {name: kernel.plans.forms.filled for name, kernel in program.kernels.items() if kernel.plans}
    assert filled["root_tile"] >= 12
    assert filled["scaled"] >= 10
    for step in range(2):  # tiles that lie across those
        program.launch(program.command(Step("root_tile", (tile,), (tile,), ("a", n, 7 + 5 * step))))
    assert compared.count == program.filled


def test_a_factorisation_by_tiles_is_planned_on_views(
    viewed: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling.Forms, "_fill", lambda *_: None)
    factorised(monkeypatch)
    assert viewed.count >= 10


def test_whole_rows_that_are_cut_by_columns_are_filled_in(compared: Comparison) -> None:
    """All that such a launch touches is one run, as all that its buffer's holders have may be; what it leaves is cut in each row."""
    program, n, tile = Bench(2, source=TABLE), 512, 4
    for k in range(0, n - tile, tile):
        program.launch(program.command(Step("across", (n,), (16,), ("a", n, k))))
        program.launch(program.command(Step("others", (n, n), (16, 16), ("a", n, k))))
    plans = program.kernels["across"].plans
    assert plans is not None
    assert plans.forms.filled >= 80
    assert compared.count == program.filled


def test_a_ring_has_the_same_windows_each_time_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A position in a ring moves on by a scalar, and its remainder begins anew at each round: that a quotient was 0 in the
    first round does not matter to any range."""
    traced = traces(monkeypatch, "trace_windows")
    program = Bench(4)
    plans = []
    for number in range(6 * 32):
        before = program.plans - program.filled
        step = Step("record", (1 << 12,), (64,), ("a", "b", 1 << 12, 32, number))
        program.launch(program.command(step))
        plans.append(program.plans - program.filled - before)
    assert len(traced) == 1
    assert sum(plans[-64:]) < 8  # in the last two rounds


def test_plans_that_come_back_are_kept() -> None:
    """Launches of a few scalars in turn, on states that come back: found after the second time, not filled in again."""
    program = Bench(3, near=True, source=SOURCE)
    steps = [Step("chosen", (1024,), (8,), ("a", "b", 8 + number % 4)) for number in range(200)]
    for step in steps:
        program.launch(program.command(step))
    assert program.plans <= 40


def test_traces_are_paid_for_by_what_they_save() -> None:
    """Tiles anywhere: hardly a launch finds what an earlier one has found, so that traces are of little use."""
    program, rng = Bench(4), random.Random(3)
    for _ in range(300):
        step = Step("tile", (64, 64), (8, 8), ("a", 512, rng.randrange(440)))
        program.launch(program.command(step))
    assert program.plans - program.filled > 100
    earned = program.filled / filling.TRACE_COST
    assert 0 < program.traced <= filling.MOST_AT_FIRST + earned + 3  # those of 80, 160 and 320 launches


def test_windows_are_not_traced_for_ever_if_nothing_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches in as many kinds as there are sizes of groups, in each of which a few are made and no plan is filled in."""
    traced = traces(monkeypatch, "trace_windows")
    monkeypatch.setattr(Form, "fill", lambda *_: None)
    program = Bench(3, source=SOURCE)
    for group in range(1, 21):
        for number in range(6):
            step = Step("shifted", (240 * group,), (group,), ("a", "b", 100000, 10 * group + number))
            program.launch(program.command(step))
    assert 0 < len(traced) <= filling.MOST_AT_FIRST + 2


@pytest.mark.parametrize("seed", range(4))
def test_plans_of_launches_of_fewer_work_groups_than_workers_are_the_planners(
    seed: int, compared: Comparison
) -> None:
    rng = random.Random(seed)
    program = Bench(6, near=seed % 2 == 0, source=SOURCE)
    for number in range(240):
        count = 24 if number % 60 < 50 else rng.choice((16, 32, 40, 1024))
        kernel = rng.choice(("shifted", "backwards"))
        at = 16 * number if rng.random() < 0.9 else rng.randrange(4096)
        args = ("a", "b", 4096, at - 30) if kernel == "shifted" else ("a", 2048 + at)
        plan = program.launch(program.command(Step(kernel, (count,), (8,), args))).plan
        assert len(plan.partition) == min(count // 8, 6)
        assert bool(plan.reasons) == (count < 48)
    assert program.filled == compared.count > 5


def test_what_is_filled_in_may_depend_on_nothing() -> None:
    trace = Trace()
    number = trace.parameter(8)
    assert list(range(10))[number] == 8  # an index pins it
    for known in (True, False):
        written = _Writer(trace).function((number + 1, 3), known=known)
        assert written((8,)) == (9, 3)


def test_a_look_at_all_cuts_evaluates_nothing_of_the_usual_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated, evaluate = 0, LaunchRanges.of

    def counted(ranges: LaunchRanges, chunk: Chunk) -> Any:
        nonlocal evaluated
        evaluated += 1
        return evaluate(ranges, chunk)

    monkeypatch.setattr(LaunchRanges, "of", counted)
    program, looks = Bench(4), []
    for step in bench.PROGRAMS["window"](80):
        command = program.command(step)
        assert command.kernel.plans is not None
        look = command.kernel.plans.habits.find(command.ndrange.num_groups, (0, 1, 2, 3)) is None
        evaluated = 0
        program.launch(command)
        if look:
            looks.append(evaluated)
    assert looks == [4, 4, 4, 0, 0, 0, 0]  # once launches were traced
