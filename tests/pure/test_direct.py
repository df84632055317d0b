"""Launches without plans: on one worker whatever changes from launch to launch, and on several where planning takes
longer than splitting gains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vdev.session.launches
from tests.pure import virtual_gpus
from tests.pure.test_choosing import Program
from vdev.executor.line import Line
from vdev.executor.stretch import Part
from vdev.observe.explain import as_text
from vdev.observe.snapshots import of_session
from vdev.observe.statistics import KernelStatistics
from vdev.session.buffers import VirtualBuffer
from vdev.session.choosing import Choosing
from vdev.session.direct import ONE_WORKER
from vdev.session.launch_plans import THRIFTY
from vdev.session.programs import SessionKernel
from vdev.session.session import Session
from vdev.session.way_times import WayTimes

SOURCE = """
kernel void tile(global float *a, int n, int k) {
    int x = get_global_id(0) + k, y = get_global_id(1) + k;
    if (x < n && y < n) a[y * n + x] = a[y * n + x] * 0.5f + k;
}
kernel void grow(global float *a, global const float *b) { a[get_global_id(0)] += b[get_global_id(0)]; }
"""
SIDE = 512


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning has its budget in sessions that are opened."""
    made = Session.__init__

    def thrifty(self: Session, *args: Any, **settings: Any) -> None:
        made(self, *args, **settings, plan_always=False)

    monkeypatch.setattr(Session, "__init__", thrifty)


def program(per_item: float, workers: int) -> Program:
    """A program that nobody looks on at: an observer is given plans that say all."""
    found = Program(SOURCE, {"tile": per_item, "grow": per_item}, workers=workers)
    found.session.observers.clear()
    return found


def of(found: Program, name: str = "tile") -> KernelStatistics:
    return next(kernel for kernel in of_session(found.session).kernels if kernel.name == name)


def tiles(found: Program, buffer: Any, count: int) -> None:
    for k in range(count):
        found.launch("tile", (256, 256), (16, 16), buffer, np.int32(SIDE), np.int32(k))
    found.wait()


def slow_plans(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let every plan that is made from access ranges take so long by the session's clock, which stands still else."""
    made = vdev.session.launches.make_plan
    late = [0]
    monkeypatch.setattr(vdev.session.launches, "time", SimpleNamespace(perf_counter_ns=lambda: late[0]))
    monkeypatch.setattr(vdev.session.launches, "busy_ns", lambda: late[0])

    def slowly(*args: Any) -> Any:
        late[0] += round(seconds * 1e9)
        return made(*args)

    monkeypatch.setattr(vdev.session.launches, "make_plan", slowly)


def test_one_worker_analyses_nothing_and_plans_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kernel: SessionKernel) -> None:
        raise AssertionError(f"kernel {kernel.name} was analysed")

    monkeypatch.setattr(SessionKernel, "summary", property(refuse))
    with program(1e-9, 1) as found:
        buffer = found.buffer(4 * SIDE * SIDE)
        tiles(found, buffer, 200)
        for items in range(64, 6400, 64):  # ranges that grow
            found.launch("grow", (items,), (64,), buffer, found.session.create_buffer(4 * SIDE * SIDE))
        found.wait()
        assert buffer.state.resident == 0
        report = as_text(of_session(found.session))
        assert of(found).plans == 1 or of(found).plans == 2
        assert of(found, "grow").plans <= 2
        assert of(found).launches == 200
    assert ONE_WORKER[:24] in report.replace("\n", " ")
    assert "unknown" in report


def test_planning_that_gains_nothing_is_given_up(auto: None, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_plans(monkeypatch, 0.002)
    with program(1e-12, 4) as found:
        buffer = found.buffer(4 * SIDE * SIDE)
        tiles(found, buffer, 300)
        seen = of(found)
        assert seen.plans < 20
        assert {reason.text for each in seen.partitions for reason in each.reasons} >= {THRIFTY}
        assert buffer.state.kept is not None


def test_planning_that_pays_goes_on(auto: None, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_plans(monkeypatch, 0.002)
    with program(0.1 / 256**2, 4) as found:  # 100 ms on one of them
        tiles(found, found.buffer(4 * SIDE * SIDE), 60)
        seen = of(found)
        assert seen.split >= 55
        assert THRIFTY not in {reason.text for each in seen.partitions for reason in each.reasons}


def test_a_kernel_that_gains_pays_for_another_on_the_same_buffers(
    auto: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_plans(monkeypatch, 0.002)
    with program(1e-12, 4) as found:
        found.machine.per_item = {"tile": 1e-12, "grow": 0.1 / SIDE**2}
        a, b = found.buffer(4 * SIDE * SIDE), found.buffer(4 * SIDE * SIDE)
        for k in range(60):
            found.launch("tile", (256, 256), (16, 16), a, np.int32(SIDE), np.int32(k))
            found.launch("grow", (SIDE * SIDE,), (64,), a, b)
        found.wait()
        assert of(found, "grow").split >= 55


def test_being_split_again_costs_what_all_plans_took_the_last_time(
    auto: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there were, and however long they took: of launches over grids of many sizes there is one for each."""
    slow_plans(monkeypatch, 0.002)
    with program(1e-12, 4) as found:
        buffer, choosing = found.buffer(4 * SIDE * SIDE), found.session.choosing
        assert choosing is not None
        for k in range(50):
            found.launch("tile", (256 + 16 * k, 256), (16, 16), buffer, np.int32(SIDE), np.int32(k))
        found.wait()
        assert buffer.state.kept is not None
        account = buffer.account
        assert account is not None
        split = of(found).split  # each over another index space: with a plan of its own
        assert split >= 1
        assert account.dear >= 0.002 * split
        assert account.spent == 0, "nothing since"
        assert choosing._one._change_of(account, [buffer]) < 0.5
        account.dear = 1.0
        assert choosing._one._change_of(account, [buffer]) >= 0.5


def test_it_is_tried_again_when_kernels_take_longer(auto: None, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_plans(monkeypatch, 0.002)
    with program(1e-8, 4) as found:
        buffer = found.buffer(4 * SIDE * SIDE)
        tiles(found, buffer, 50)
        assert buffer.state.kept is not None
        for k in range(500):
            found.launch("tile", (2048, 2048), (16, 16), buffer, np.int32(SIDE), np.int32(k))
            if buffer.state.kept is None:
                break
        assert buffer.state.kept is None


def test_other_kernels_on_other_buffers_are_still_split(auto: None, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_plans(monkeypatch, 0.002)
    with program(1e-12, 4) as found:
        tiles(found, found.buffer(4 * SIDE * SIDE), 50)
        split = of(found).split
        others = [found.buffer(4 * SIDE * SIDE) for _ in range(2)]
        found.launch("grow", (SIDE * SIDE,), (64,), *others)
        found.wait()
        assert of(found, "grow").split == 1
        assert others[0].state.kept is None
        other = found.buffer(4 * SIDE * SIDE)
        tiles(found, other, 1)
        assert of(found).split == split, "what was given up begins where it ended"
        assert other.state.kept is not None


def attempts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each attempt to hand a launch over at once did."""
    tried: list[bool] = []
    hand_over = Line.hand_over

    def noted(self: Line, *command: Any, **more: Any) -> Part | None:
        part = hand_over(self, *command, **more)
        tried.append(part is not None)
        return part

    monkeypatch.setattr(Line, "hand_over", noted)
    return tried


@contextlib.contextmanager
def kept_tiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Program, VirtualBuffer, list[bool]]]:
    """A program whose plans take long, a buffer that it has on one of four workers, and the attempts from then on."""
    slow_plans(monkeypatch, 0.002)
    tried = attempts(monkeypatch)
    with program(1e-12, 4) as found:
        buffer = found.buffer(4 * SIDE * SIDE)
        tiles(found, buffer, 50)
        assert buffer.state.kept is not None
        tried.clear()
        yield found, buffer, tried


def test_launches_on_kept_buffers_are_handed_over_at_once(
    auto: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several workers too; at one of many it is looked whether they are still better off there, and what it takes."""
    looks, timed = [], []
    looked, took = Choosing.is_to_be_submitted, WayTimes.handed_over_at_once
    monkeypatch.setattr(Choosing, "is_to_be_submitted", lambda *args: looks.append(1) or looked(*args))
    monkeypatch.setattr(WayTimes, "handed_over_at_once", lambda *args: timed.append(1) or took(*args))
    with kept_tiles(monkeypatch) as (found, buffer, tried):
        tiles(found, buffer, 1000)
        assert of(found).launches == 1050
        assert tried.count(True) >= 990
        assert 2 <= len(looks) <= 15, "one is sampled, one weighed, and ever fewer: it is the same each time"
        assert 1 <= len(timed) <= len(looks)


def test_immediate_launches_continue_behind_a_submitted_command_that_has_not_ended(
    auto: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept_tiles(monkeypatch) as (found, buffer, tried):
        with monkeypatch.context() as busy:
            busy.setattr(virtual_gpus._Marker, "done", lambda marker: False)
            for k in range(400):
                found.launch("tile", (256, 256), (16, 16), buffer, np.int32(SIDE), np.int32(k))
            found.wait()
        assert tried.count(True) >= 200
