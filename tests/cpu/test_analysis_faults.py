"""A fault in analysis is ours, never the program's: the launch runs whole on one worker, and says why."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from vdev.process import switches
from vdev.session.commands import BufferArg, Launch, Read
from vdev.session.session import Session
from vdev.start.workers import open_workers

COUNT = 256
SOURCE = (
    "__kernel void twice(__global int *a, int n) { int i = get_global_id(0); if (i < n) a[i] = 2 * a[i]; }"
)


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session(open_workers(switches.parse_workers("cpu:2")))
    yield session
    session.close()


def launch(session: Session) -> Any:
    """Run the kernel; its plan."""
    plans: list[Any] = []
    session.observers.append(lambda command, plan: plans.append(plan))
    queue = session.create_queue(in_order=True)
    values = np.arange(COUNT, dtype=np.int32)
    buffer = session.create_buffer(values.nbytes, values.view(np.uint8).copy())
    kernel = session.build(SOURCE).kernels["twice"]
    args = (BufferArg(buffer, 0, values.nbytes), struct.pack("i", COUNT))
    assert session.submit(Launch(kernel, args, NDRange((COUNT,), (16,), (0,))), queue=queue).wait() == 0
    result = np.empty(values.nbytes, np.uint8)
    assert session.submit(Read(buffer, Layout.contiguous(0, result.size), result), queue=queue).wait() == 0
    np.testing.assert_array_equal(result.view(np.int32), 2 * values)
    return plans[0]


def test_without_a_fault_it_is_split(session: Session) -> None:
    plan = launch(session)
    assert len(plan.partition) == 2
    assert plan.reasons == ()


@pytest.mark.parametrize(
    "place",
    [
        "vdev.translators.interpreter.access.analyse_kernel",
        "vdev.translators.interpreter.summaries.KernelSummary.of_launch",
        "vdev.translators.interpreter.launch_ranges.LaunchRanges.of",
    ],
)
def test_a_fault_leaves_one_worker_and_a_reason(session: Session, place: str) -> None:
    with mock.patch(place, side_effect=OverflowError("planted")):
        plan = launch(session)
    assert len(plan.partition) == 1
    assert any("see the log" in reason for reason in plan.reasons)
