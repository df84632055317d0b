"""Transfers anywhere in buffers that one worker alone has: one plan says how all of a kind are made."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.ranges.region import Region

from tests.pure.session_program import SessionUser
from vdev.backends.reference import ReferenceBackend
from vdev.executor.anywhere import step_anywhere
from vdev.executor.prepare import PreparedPlan
from vdev.executor.steps import FillStep
from vdev.planner.directory import HOST, BufferState, buffer_state, whole_state
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.planner.transfers import (
    Box,
    elsewhere,
    is_alike_everywhere,
    is_one_fill,
    plan_copy,
    plan_fill,
    plan_read,
    plan_write,
    with_pattern,
)
from vdev.session import transfers
from vdev.session.anywhere import Transfers
from vdev.session.commands import CopyBuffer, Fill, Read, Write
from vdev.session.launch_plans import ReadyPlan
from vdev.session.session import Session

MACHINES = (
    LinkCosts.uniform(1, peer=0.05, direct=True),
    LinkCosts.uniform(1, peer=1.0),
    LinkCosts.uniform(3, peer=0.05, direct=True),
    LinkCosts.uniform(3, peer=1.0),
)
NBYTES = (1 << 8, 1 << 16, 1 << 26)


def states(nbytes: int, workers: int) -> Iterator[BufferState]:
    yield whole_state(nbytes, 0)
    yield whole_state(nbytes, workers - 1, workers - 1)
    yield buffer_state(nbytes)
    yield buffer_state(
        nbytes, [(HOST, Region.span(0, nbytes // 2)), (0, Region.span(nbytes // 2, nbytes))], [(0, 0, nbytes)]
    )
    yield buffer_state(
        nbytes, [(HOST, Region.span(0, nbytes)), (0, Region.span(0, nbytes))], [(0, 0, nbytes)]
    )


def planned(kind: type, state: BufferState, start: int, stop: int, links: LinkCosts) -> Plan:
    region = Region.span(start, stop)
    return (
        plan_write(state, region, links)
        if kind is Write
        else plan_read(state, region, links, contiguous=True)
    )


def by_field(plan: Plan) -> dict[str, Any]:
    return {field.name: getattr(plan, field.name) for field in fields(plan)} | {"touches": [*plan.touches]}


def described(prepared: PreparedPlan) -> dict[str, Any]:
    """Everything of a prepared plan, with its steps by what they do."""
    found = {name: getattr(prepared, name) for name in PreparedPlan.__slots__}
    found["batches"] = [
        (
            [(type(step), step.slot, step.region) for step in batch.steps],
            batch.waits,
            batch.marks,
            batch.rows,
            batch.brief,
        )
        for _, batch in prepared.batches
    ]
    for name in ("download", "upload", "step"):
        found[name] = type(found[name])
    return found


@pytest.mark.parametrize("kind", [Read, Write])
@pytest.mark.parametrize("links", MACHINES, ids=["one GPU", "one CPU", "GPUs", "CPUs"])
def test_a_plan_for_some_bytes_tells_that_for_others(kind: type, links: LinkCosts) -> None:
    """Wherever a plan is taken to tell them, the planner makes the same; and it is, where a worker alone has the buffer."""
    rng, alike = random.Random(1), 0
    for nbytes in NBYTES:
        for state in states(nbytes, len(links.per_byte) - 1):
            for _ in range(8):
                (start, stop), other = (sorted(rng.sample(range(nbytes + 1), 2)) for _ in range(2))
                first = planned(kind, state, start, stop, links)
                if not is_alike_everywhere(first, state):
                    assert state.resident is None or (
                        kind is Write and not links.direct and links.only is None
                    )
                    continue
                alike += 1
                there, found = planned(kind, state, *other, links), elsewhere(first, Region.span(*other))
                assert by_field(found) == by_field(there)
                assert described(PreparedPlan(first, None).elsewhere(found)) == described(
                    PreparedPlan(there, None)
                )
    assert alike or (kind is Write and not links.direct and links.only is None)


@pytest.mark.parametrize("links", MACHINES, ids=["one GPU", "one CPU", "GPUs", "CPUs"])
def test_the_plan_of_a_fill_tells_that_of_another_pattern(links: LinkCosts) -> None:
    alike = 0
    for nbytes in NBYTES:
        for state in states(nbytes, len(links.per_byte) - 1):
            first = plan_fill(state, 64, nbytes - 64, b"\1\2\3\4", links)
            if not is_one_fill(first, state):
                continue
            alike += 1
            there, found = plan_fill(state, 64, nbytes - 64, bytes(4), links), with_pattern(first, bytes(4))
            assert by_field(found) == by_field(there)
            step = PreparedPlan(first, None).elsewhere(found).step
            assert isinstance(step, FillStep)
            assert (step.pattern, step.runs) == (bytes(4), [[64, nbytes]])
    assert alike == 2 * len(NBYTES), "where one worker alone has it"


#: a box of at most 96 bytes, from a byte on
_SHAPES = ((1, 1, 1), (1, 1, 96), (1, 4, 24), (2, 3, 16))


def planned_at(
    kind: type,
    states: list[BufferState],
    starts: tuple[int, int],
    shape: tuple[int, int, int],
    links: LinkCosts,
) -> tuple[Any, Plan]:
    """What a transfer's plan depends on, and the plan. `starts`: in the source, or the only buffer, and in the target."""
    pitches = shape[1] * 32, 32
    layout = Layout(shape, starts[0], pitches, 0, pitches)
    region = layout.buffer_region()
    if kind is Write:
        return layout, plan_write(states[0], region, links)
    if kind is Read:
        return layout, plan_read(states[0], region, links, contiguous=layout.is_contiguous)
    if kind is Fill:
        what = (starts[0], 64 * shape[1], b"\1\2\3\4"[: 4 // shape[0]])
        return what, plan_fill(states[0], *what, links)
    source, target = (Box(shape, start, pitches) for start in starts)
    return (source, target), plan_copy(states, source, target, links)


@pytest.mark.parametrize("kind", [Read, Write, Fill, CopyBuffer])
@pytest.mark.parametrize("links", MACHINES, ids=["one GPU", "one CPU", "GPUs", "CPUs"])
def test_a_transfer_of_a_kind_tells_all_others(kind: type, links: LinkCosts) -> None:
    """Wherever one is taken to tell them, the planner makes of each of them one step of the same worker, which does the same to what
    depends on it.
    """
    rng, alike = random.Random(2), 0
    for nbytes in (1 << 12, 1 << 26):
        for state, other in itertools.product(states(nbytes, len(links.per_byte) - 1), repeat=2):
            given = [state] if kind is not CopyBuffer or state is other else [state, other]
            if kind is not CopyBuffer and state is not other:
                continue
            plans = Transfers()
            for _ in range(12):
                shape, starts = (
                    rng.choice(_SHAPES),
                    tuple(4 * rng.randrange(nbytes // 4 - 256) for _ in range(2)),
                )
                if len(given) == 1 and kind is CopyBuffer and abs(starts[0] - starts[1]) < 256:
                    continue
                what, plan = planned_at(kind, given, starts, shape, links)
                prepared = PreparedPlan(plan, None)
                found = (
                    plans.move_anywhere(kind, what, state)
                    if isinstance(what, Layout)
                    else getattr(plans.anywhere(kind, given), "part", None)
                )
                plans.remember((kind, what, *given), ReadyPlan(plan, prepared))
                if found is None:
                    continue
                alike += 1
                assert len(plan.instructions) == 1
                assert [*plan.states] == given
                for name in (
                    "alone",
                    "own_writes",
                    "hazards",
                    "reads",
                    "writes",
                    "overwrites",
                    "careful",
                    "stages",
                ):
                    assert getattr(found.prepared, name) == getattr(prepared, name), name
                ((_, batch),), ((_, usual),) = found.prepared.batches, prepared.batches
                assert type(batch.steps[0]) is type(step_anywhere(usual.steps[0], nbytes))
    assert alike or (kind is Write and not links.direct and links.only is None)


def test_fills_with_other_patterns_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is made with its own pattern, and at its own place."""
    made, plans = transfers.transfers.plan_fill, [0]

    def counted(*given: Any) -> Plan:
        plans[0] += 1
        return made(*given)

    monkeypatch.setattr(transfers.transfers, "plan_fill", counted)
    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    session = Session([lambda: ReferenceBackend(0, is_cpu=False)])
    try:
        user = SessionUser(session)
        buffer, expected = session.create_buffer(4096), np.zeros(1024, np.uint32)

        def fill(offset: int, nbytes: int, pattern: bytes) -> None:
            assert session.submit(Fill(buffer, offset, nbytes, pattern), queue=user.queue).wait() == 0
            expected.view(np.uint8)[offset : offset + nbytes] = np.resize(
                np.frombuffer(pattern, np.uint8), nbytes
            )
            np.testing.assert_array_equal(user.content(buffer), expected)

        for _ in range(3):
            fill(0, 4096, b"\1\2\3\4")
        plans[0] = 0
        for number in range(20):
            fill(0, 4096, np.uint32(number).tobytes())
        fill(0, 4096, b"\7\6")
        fill(1024, 64, np.uint32(3).tobytes())
        fill(1024, 64, np.uint32(5).tobytes())
        assert plans[0] == 0
    finally:
        session.close()


def test_rows_of_a_buffer_on_one_worker_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[str] = []
    for name in ("plan_read", "plan_write"):
        made = getattr(transfers.transfers, name)
        monkeypatch.setattr(
            transfers.transfers,
            name,
            lambda *a, made=made, name=name, **k: plans.append(name) or made(*a, **k),
        )
    session = Session([lambda: ReferenceBackend(0, is_cpu=False)])
    try:
        user = SessionUser(session)
        data = np.full(1 << 20, 7, np.uint32)
        buffer = session.create_buffer(data.nbytes)
        fill = Fill(buffer, 0, data.nbytes, data[:1].tobytes())
        assert session.submit(fill, queue=user.queue).wait() == 0
        assert buffer.state.resident == 0
        plans.clear()
        rng = np.random.default_rng(3)
        for _ in range(40):
            at, count = int(rng.integers(0, (1 << 20) - 96)), int(rng.integers(1, 96))
            layout = Layout.contiguous(4 * at, 4 * count)
            host = np.zeros(count, np.uint32)
            assert session.submit(Read(buffer, layout, host.view(np.uint8)), queue=user.queue).wait() == 0
            np.testing.assert_array_equal(host, data[at : at + count])
            data[at : at + count] = rng.integers(0, 1 << 32, count, np.uint32)
            host = data[at : at + count].copy()
            assert session.submit(Write(buffer, layout, host.view(np.uint8)), queue=user.queue).wait() == 0
        np.testing.assert_array_equal(user.content(buffer), data)
        assert sorted(plans) == ["plan_read", "plan_write"]
    finally:
        session.close()
