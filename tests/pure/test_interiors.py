"""Chunks whose work-groups run while bytes come that others of them need: which these are, by brute force, and that plans with
interiors leave what plans without leave, wherever in their plan they are carried out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region
from vdev.translators.values import replace

from tests.pure.machine import AXPY, COUNT, LOCAL, SCATTER, STENCIL, Buffer, Kernel, Machine, items, span
from tests.pure.test_choosing import Program
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.launch_step import LaunchRecipe, LaunchStep
from vdev.executor.prepare import PreparedPlan
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Copy, Launch, Plan
from vdev.planner.interiors import Divided, border, divided, interior
from vdev.planner.launch_request import LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.session.interiors import Interiors

# which work-groups -----------------------------------------------------------------------------------


def groups_of(chunk: Chunk) -> set[tuple[int, ...]]:
    return set(product(*(range(a, b) for a, b in zip(chunk.start, chunk.stop, strict=True))))


def random_chunk(rng: random.Random, axes: int, cut: Sequence[int]) -> Chunk:
    """Long in the dimensions that are `cut`."""
    start = tuple(rng.randrange(6) for _ in range(axes))
    most = [(60 if len(cut) == 1 else 26) if axis in cut else 3 for axis in range(axes)]
    return Chunk(start, tuple(first + rng.randint(1, size) for first, size in zip(start, most, strict=True)))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_interior_is_free_and_ends_where_it_must(axes: int) -> None:
    """By brute force: single work-groups near the sides are not free, at random depths, and sometimes others."""
    rng, found_some = random.Random(axes), 0
    for _ in range(300):
        cut = rng.sample(range(axes), rng.randint(1, min(axes, 2)))
        chunk = random_chunk(rng, axes, cut)
        taken = set()
        for group in groups_of(chunk):
            depth = min(
                min(group[axis] - chunk.start[axis], chunk.stop[axis] - 1 - group[axis]) for axis in cut
            )
            if rng.random() < (0.6, 0.3, 0.002, 0.0)[min(depth, 3)]:
                taken.add(group)
        inside = interior(chunk, cut, lambda part, taken=taken: not (groups_of(part) & taken))
        if inside is None:
            continue
        found_some += 1
        own, parts = groups_of(inside), border(chunk, inside)
        assert own
        assert not own & taken
        assert 4 * (chunk.ngroups - inside.ngroups) <= chunk.ngroups
        assert sum(part.ngroups for part in parts) + inside.ngroups == chunk.ngroups
        assert set.union(own, *map(groups_of, parts)) == groups_of(chunk)
        assert all(
            inside.start[axis] == chunk.start[axis] and inside.stop[axis] == chunk.stop[axis]
            for axis in range(axes)
            if axis not in cut
        )
        for axis in cut:  # the next layer is either no part of the chunk, or not free
            for far in (False, True):
                wider = _wider(inside, axis, far=far)
                if groups_of(wider) <= groups_of(chunk):
                    assert groups_of(wider) & taken or _first_layer_is_free(chunk, axis, taken, far=far)
    assert found_some > 20


def _wider(inside: Chunk, axis: int, *, far: bool) -> Chunk:
    start, stop = list(inside.start), list(inside.stop)
    if far:
        stop[axis] += 1
    else:
        start[axis] -= 1
    return Chunk(tuple(start), tuple(stop))


def _first_layer_is_free(chunk: Chunk, axis: int, taken: set[tuple[int, ...]], *, far: bool) -> bool:
    edge = chunk.stop[axis] - 1 if far else chunk.start[axis]
    return not any(group[axis] == edge for group in taken)


# which plans -----------------------------------------------------------------------------------------


def _blur(args: Sequence[object], ndrange: NDRange, chunk: Chunk) -> None:
    """A sum over 130 neighbours to each side: more than two work-groups."""
    start, stop = items(ndrange, chunk)
    n = ndrange.global_size[0]
    low, high = max(start - 130, 0), min(stop + 130, n)
    a = args[1].view("u4", low, high - low)  # type: ignore[attr-defined]
    at = np.arange(start, stop)
    out = args[0].view("u4", start, stop - start)  # type: ignore[attr-defined]
    out[:] = a[np.maximum(at - 130, 0) - low] + a[at - low] + a[np.minimum(at + 130, n - 1) - low]


def _mean_blur(out: np.ndarray, a: np.ndarray) -> None:
    at = np.arange(len(out))
    out[:] = a[np.maximum(at - 130, 0)] + a + a[np.minimum(at + 130, len(out) - 1)]


BLUR = Kernel(
    "blur",
    _blur,
    lambda start, stop, n: [
        AccessRange(0, "write", span(start, stop), True),
        AccessRange(1, "read", span(max(start - 130, 0), min(stop + 130, n)), True),
    ],
    _mean_blur,
)


def _shift(args: Sequence[object], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = items(ndrange, chunk)
    out = args[0].view("u4", start, stop - start)  # type: ignore[attr-defined]
    out += 1


#: in place: each work-item changes its own element, and the next chunk's first ones are needed as they were, or not
ADD = Kernel(
    "add",
    _shift,
    lambda start, stop, n: [
        AccessRange(0, "write", span(start, stop), True),
        AccessRange(0, "read", span(start, min(stop + LOCAL, n)), True),
    ],
    lambda out: np.add(out, 1, out),
)


class Dividing(Machine):
    """Every launch's plan is divided, where that is possible."""

    def __init__(self, workers: int, faults: dict[int, Faults] | None = None, **more: bool) -> None:
        super().__init__(workers, faults)
        self.divides = more.get("divides", True)
        self.found: list[Divided] = []
        self.places = random.Random(workers)  #: which of the plans have their interiors last
        self.program.functions.update({each.name: each.run for each in (BLUR, ADD)})  # type: ignore[attr-defined]

    def plan(self, kernel: Kernel, buffers: Sequence[Buffer], nitems: int) -> tuple[Plan, Divided]:
        ndrange = NDRange((nitems,), (LOCAL,), (0,))
        slots = list(dict.fromkeys(buffers))
        args = tuple(
            PointerArg(arg, slots.index(buffer), 0, buffer.nbytes) for arg, buffer in enumerate(buffers)
        )

        def evaluate(chunk: Chunk) -> list[AccessRange]:
            return kernel.access(*items(ndrange, chunk), nitems)

        plan = plan_launch(
            [slot.state for slot in slots], LaunchRequest(args, ndrange, evaluate), self.options
        )
        return plan, divided(plan, args, ndrange.num_groups, evaluate)

    def launch(self, kernel: Kernel, buffers: Sequence[Buffer], nitems: int, **rest: object):  # type: ignore[no-untyped-def]
        plan, found = self.plan(kernel, buffers, nitems)
        self.found.append(found)
        if self.divides and found.plan is not None:
            plan = found.plan if self.places.random() < 0.3 else with_interiors_last(found.plan)
        ndrange = NDRange((nitems,), (LOCAL,), (0,))
        recipe = LaunchRecipe(self.program, kernel.name, ndrange, lambda ndrange, chunk, bases: b"")
        slots = list(dict.fromkeys(buffers))
        return self._submit(plan, slots, recipe=recipe, args=(None,) * len(buffers), **rest)


def with_interiors_last(plan: Plan) -> Plan:
    """Where they are carried out as late as they may be."""
    parts = sorted(
        zip(plan.instructions, plan.touches, strict=True),
        key=lambda part: isinstance(part[0], Launch) and part[0].is_interior,
    )
    return replace(
        plan, instructions=tuple(item for item, _ in parts), touches=tuple(touches for _, touches in parts)
    )


WORDS = 44 * LOCAL * 3


def filled(machine: Machine, count: int = 2) -> tuple[list[Buffer], list[np.ndarray]]:
    arrays = [
        np.random.default_rng(seed).integers(0, 1 << 32, WORDS, dtype=np.uint32) for seed in range(count)
    ]
    buffers = [machine.buffer(4 * WORDS) for _ in arrays]
    for buffer, array in zip(buffers, arrays, strict=True):
        machine.write(buffer, array.copy())
    return buffers, arrays


def test_a_plan_has_interiors_then_copies_then_borders() -> None:
    with Dividing(3) as machine:
        buffers, _ = filled(machine)
        for step in range(3):
            machine.launch(STENCIL, [buffers[step % 2], buffers[1 - step % 2]], WORDS)
        plan, found = machine.plan(STENCIL, [buffers[1], buffers[0]], WORDS)
        assert found.plan is not None
        assert [type(item) for item in plan.instructions] == [Copy] * 4 + [Launch] * 3
        kinds = [(type(item), item.worker) for item in found.plan.instructions]
        assert [kind for kind in kinds if kind[0] is not Copy] == [
            *[(Launch, 0), (Launch, 1), (Launch, 2)],
            *[(Launch, 0), (Launch, 1), (Launch, 1), (Launch, 2)],
        ]
        assert [kind for kind, _ in kinds[3:7]] == [Copy] * 4
        launches = [item for item in found.plan.instructions if isinstance(item, Launch)]
        assert [item.is_interior for item in launches] == [True] * 3 + [False] * 4
        for worker, chunk in plan.partition:
            parts = [item.chunk for item in launches if item.worker == worker]
            assert sorted(g for part in parts for g in groups_of(part)) == sorted(groups_of(chunk))
        assert dict(found.borders) == pytest.approx({0: 1 / 44, 1: 2 / 44, 2: 1 / 44})
        assert (found.plan.states, found.plan.moved) == (plan.states, plan.moved)


@pytest.mark.parametrize("any_thread", [False, True])
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_results_are_the_same(workers: int, any_thread: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where interiors run first or last, and where devices are late at random."""
    monkeypatch.setattr(ReferenceBackend, "any_thread", any_thread)
    for seed in range(4):
        rng = random.Random(seed)
        late = random.Random(seed)
        pause = Faults(delay=lambda _, late=late: late.choice((0, 0, 0.0003)))
        with Dividing(workers, {seed % workers: pause}) as machine:
            buffers, arrays = filled(machine, 3)
            for _ in range(24):
                kernel = rng.choice((STENCIL, STENCIL, BLUR, BLUR, ADD, AXPY, SCATTER))
                at = rng.sample(range(3), {"axpy": 3, "add": 1, "scatter": 1}.get(kernel.name, 2))
                machine.launch(kernel, [buffers[each] for each in at], WORDS)
                kernel.meaning(*[arrays[each] for each in at])
            for buffer, array in zip(buffers, arrays, strict=True):
                host = np.zeros(WORDS, np.uint32)
                assert machine.read(buffer, host).wait() == 0
                assert (host == array).all()
            assert any(each.plan is not None for each in machine.found)


def reason(kernel: Kernel, buffers: Sequence[int], before: Kernel = STENCIL) -> str:
    """Why a launch behind others stays as it is."""
    with Dividing(3) as machine:
        all_buffers, _ = filled(machine, 3)
        for step in range(3):
            machine.launch(before, [all_buffers[step % 2], all_buffers[1 - step % 2]], WORDS)
        _, found = machine.plan(kernel, [all_buffers[each] for each in buffers], WORDS)
        assert (found.plan is None) == bool(found.reason)
        return found.reason


def test_why_plans_stay_as_they_are() -> None:
    assert not reason(STENCIL, (1, 0))
    assert not reason(BLUR, (1, 0))
    assert "other parts than copies and chunks" in reason(AXPY, (2, 1, 1))  # nothing comes
    assert "other parts" in reason(SCATTER, (1,))
    assert "other parts" in reason(COUNT, (2, 1))
    # each chunk's first element is read by the one before, which may not change it meanwhile
    assert "other parts" in reason(ADD, (1,))


def more(kernel: Kernel, *ranges: AccessRange) -> Kernel:
    """A kernel of which each work-group does that as well."""
    return replace(kernel, access=lambda start, stop, n: [*kernel.access(start, stop, n), *ranges])


def test_what_all_work_groups_need_leaves_no_interior_where_it_comes() -> None:
    each = more(STENCIL, AccessRange(1, "read", span(WORDS - 1, WORDS), True))
    with Dividing(3) as machine:
        buffers, _ = filled(machine)
        for step in range(3):
            machine.launch(each, [buffers[step % 2], buffers[1 - step % 2]], WORDS)
        _, found = machine.plan(each, [buffers[1], buffers[0]], WORDS)
        assert [worker for worker, _ in found.borders] == [2]  # the last chunk has it


def test_chunks_that_write_the_same_stay_whole() -> None:
    each = more(STENCIL, AccessRange(0, "write", span(0, 1), True))
    assert "write the same bytes" in reason(each, (1, 0), each)


def test_a_wide_border_stays_with_its_chunk() -> None:
    def reaching(groups: int) -> Kernel:
        def access(start: int, stop: int, n: int) -> list[AccessRange]:
            reach = groups * LOCAL
            read = span(max(start - reach, 0), min(stop + reach, n))
            return [AccessRange(0, "write", span(start, stop), True), AccessRange(1, "read", read, True)]

        return replace(STENCIL, access=access)

    for groups in (5, 12):  # at each side, of 44
        assert bool(reason(reaching(groups), (1, 0), reaching(groups))) == (groups == 12)


def test_an_interior_may_not_change_what_others_read() -> None:
    """A plan in which a chunk writes, in its middle, bytes that another worker copies: it cannot be, but if it is, it stays."""
    with Dividing(2) as machine:
        buffers, _ = filled(machine)
        for step in range(3):
            machine.launch(STENCIL, [buffers[step % 2], buffers[1 - step % 2]], WORDS)
        ndrange, args = (
            NDRange((WORDS,), (LOCAL,), (0,)),
            (PointerArg(0, 0, 0, 4 * WORDS), PointerArg(1, 1, 0, 4 * WORDS)),
        )

        def evaluate(chunk: Chunk) -> list[AccessRange]:
            middle = Region.span(4 * 30 * LOCAL, 4 * 31 * LOCAL)
            start, stop = items(ndrange, chunk)
            found = [*STENCIL.access(start, stop, WORDS)]
            return (
                [*found, AccessRange(1, "write", middle & span(start, stop), True)]
                if start < 31 * LOCAL
                else found
            )

        states = [buffers[1].state, buffers[0].state]
        plan = plan_launch(states, LaunchRequest(args, ndrange, evaluate), machine.options)
        copies = [
            item._replace(region=item.region | Region.span(4 * 30 * LOCAL, 4 * 31 * LOCAL))
            if item.source == 0
            else item
            for item in plan.instructions
            if isinstance(item, Copy)
        ]
        launches = [item for item in plan.instructions if isinstance(item, Launch)]
        plan = replace(plan, instructions=(*copies, *launches), dependencies=((),) * len(plan.instructions))
        found = divided(plan, args, ndrange.num_groups, evaluate)
        assert [worker for worker, _ in found.borders] == [1], found.reason


def test_nothing_waits_inside_of_a_divided_plan() -> None:
    with Dividing(4) as machine:
        buffers, _ = filled(machine)
        for step in range(3):
            machine.launch(BLUR, [buffers[step % 2], buffers[1 - step % 2]], WORDS)
        _, found = machine.plan(BLUR, [buffers[1], buffers[0]], WORDS)
        assert found.plan is not None
        recipe = LaunchRecipe(machine.program, "blur", NDRange((WORDS,), (LOCAL,), (0,)), lambda *_: b"")
        prepared = PreparedPlan(found.plan, recipe)
        assert not prepared.careful
        assert prepared.is_compilable
        assert prepared.is_movable


# which launches --------------------------------------------------------------------------------------

ROWS = """
kernel void rows(global float *to, global const float *from, uint wide, uint n)
{ uint i = get_global_id(0); if (i >= wide && i < n - wide) to[i] = from[i - wide] + 3 * from[i] + from[i + wide]; }
"""


def simulated(switch: bool | None, kernel: float) -> tuple[float, bool]:
    with pytest.MonkeyPatch.context() as patched:
        run = LaunchStep.run

        def told(step: LaunchStep, worker: Any, job: Any) -> None:
            worker.backend.is_interior = step.item.is_interior
            run(step, worker, job)

        patched.setattr(LaunchStep, "run", told)
        return _simulated(switch, kernel)


def _simulated(switch: bool | None, kernel: float) -> tuple[float, bool]:
    """Seconds of a step on four simulated GPUs, on each of which the kernel takes so many, once all is settled; and whether chunks had
    interiors then. Neighbours exchange 1.6 MB.
    """
    n, wide = 1 << 24, 400_000
    with Program(ROWS, {"rows": kernel / (n / 4)}) as program:
        program.session.interiors = switch
        program.machine.floor = 3e-6
        pair = [program.buffer(4 * n) for _ in range(2)]
        ends = []
        for step in range(120):
            to, source = pair[(step + 1) % 2], pair[step % 2]
            program.launch("rows", (n,), (256,), to, source, np.uint32(wide), np.uint32(n))
            if step % 40 == 39:
                ends.append(program.wait())
        counts = [backend.counters.launches for backend in program.machine.backends]
        return (ends[2] - ends[1]) / 40, sum(counts) > 4 * 120


def test_where_times_say_that_it_gains_it_does() -> None:
    (whole, no), (chosen, yes), (always, _) = (simulated(switch, 235e-6) for switch in (False, None, True))
    assert (no, yes) == (False, True)
    assert chosen == pytest.approx(always, rel=0.01)
    assert chosen < 235e-6 * 1.05 < whole


def test_so_many_plans_are_made_although_they_might_be_filled_in() -> None:
    interiors = Interiors()
    assert not interiors.want_a_plan()
    interiors.begin(True)
    made = [interiors.want_a_plan() for _ in range(1000)]
    assert made == sorted(made, reverse=True)
    assert 10 < sum(made) < 100


def test_short_kernels_stay_whole() -> None:
    (whole, no), (chosen, still_no) = (simulated(switch, 15e-6) for switch in (False, None))
    assert (no, still_no) == (False, False)
    assert chosen == pytest.approx(whole, rel=0.01)


def test_several_launches_in_a_row_have_to_gain() -> None:
    interiors = Interiors()
    interiors.begin(None)
    given = 30e-6, 235e-6, 5e-6
    assert not any(
        interiors.measured(*given, host=1e-3) for _ in range(10)
    )  # the host takes longer than they do
    assert not any(interiors.measured(6e-6, 235e-6, 5e-6, 0.0) for _ in range(10))
    assert [interiors.measured(*given, host=1e-4) for _ in range(3)] == [False, False, True]
    assert not interiors.measured(*given, host=1e-4)  # once is enough
    for switch in (True, False):
        interiors.begin(switch)
        assert not any(interiors.measured(*given, host=1e-4) for _ in range(10))
        assert interiors.wanted == switch
