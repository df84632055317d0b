"""Launches that are made again behind others: on one of several workers only while all went to it by its line."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from vdev.translators.ranges.ndrange import NDRange

from vdev.executor.line import Line, Streak
from vdev.executor.mark import Mark

SPACE, LARGER = NDRange((64,), (64,), (0,)), NDRange((128,), (64,), (0,))


class Program:
    """Two workers and a line to the first; nothing is computed."""

    def __init__(self, *, alone: bool) -> None:
        backend = SimpleNamespace(
            has_visitors=False, leave=None, pending=lambda: 1, launched=lambda handles, launches: None,
            tells_times=False, begins_timed=False,
        )  # fmt: skip
        self.worker: Any = SimpleNamespace(
            number=0, turn=threading.Lock(), holder=0, queue=[], submitted=0, issued=0, completed=0, wanted=1 << 60,
            watching=True, next_mark=Mark(), backend=backend, memory=SimpleNamespace(fresh_nbytes=0), wake=lambda: None,
        )  # fmt: skip
        home: Any = SimpleNamespace(number=1, submitted=0, completed=0)
        self.executor: Any = SimpleNamespace(
            lock=threading.RLock(), standing=object(), last_number=0, closed=False, has_failed=False, unsettled={},
            no_steps=[0, 0], all_workers=[self.worker, home],
        )  # fmt: skip
        self.line = Line(self.executor, self.worker, home, alone=alone)
        self.made: list[object] = []  #: the shapes with which launches were made again
        self.shapes: dict[NDRange, object] = {LARGER: "larger", SPACE: "first"}  #: for others there is none
        self.args = [SimpleNamespace(buffer=SimpleNamespace(holdings=SimpleNamespace(written=[0, 0])))]

    def launch(self) -> Streak:
        """One that goes to the worker by its line; what repeats it."""
        holdings: Any = [arg.buffer.holdings for arg in self.args]
        entry: Any = (SimpleNamespace(step=None), holdings, self.args, SPACE, ((0, 0, 0),), ())
        over: Any = lambda ndrange, places: self.shapes.get(ndrange)  # noqa: E731
        return Streak(self.line.enter_launched([(entry, 1)], []).stretch, entry, self.start, over)

    def start(self, changed: Sequence[tuple[int, bytes]] = (), shape: Any = None, /) -> int:
        self.made.append(shape)
        return 1

    def again(self, streak: Streak, space: NDRange = SPACE) -> bool:
        part = self.line.again(streak, self.executor.standing, space, self.args, ())
        return part is not None

    def submit_elsewhere(self) -> None:
        self.executor.last_number += 1


@pytest.mark.parametrize("alone", [False, True])
def test_launches_in_rotation_are_made_again(alone: bool) -> None:
    program = Program(alone=alone)
    one, other = program.launch(), program.launch()
    assert all(program.again(streak) for _ in range(5) for streak in (one, other))
    assert len(program.made) == 10
    assert program.executor.last_number == program.worker.submitted == 12
    assert program.args[0].buffer.holdings.written == ([12, 0] if not alone else [0, 0])


def test_what_was_submitted_elsewhere_ends_them_on_one_of_several_workers() -> None:
    """It may concern their buffers: another worker may still have to read what they would change."""
    program = Program(alone=False)
    one, other = program.launch(), program.launch()
    program.submit_elsewhere()
    assert not program.again(one)
    program.launch()
    assert not program.again(one), "a launch since then says nothing of these buffers"
    assert not program.again(other)
    assert program.made == []
    later = program.launch()
    program.launch()
    assert program.again(later)


def test_the_back_end_is_told_when_the_index_space_changes() -> None:
    program = Program(alone=True)
    streak = program.launch()
    assert all(program.again(streak, space) for space in (SPACE, LARGER, LARGER, SPACE, SPACE, LARGER))
    assert program.made == [None, "larger", None, "first", None, "larger"]
    del program.shapes[SPACE]
    number = program.executor.last_number
    assert not program.again(streak, SPACE), "the back end does not make that one again"
    assert (program.executor.last_number, len(program.made)) == (number, 6)
    assert program.again(streak, LARGER)
    assert program.made[6:] == [None]


def test_the_only_worker_gets_them_in_order_anyway() -> None:
    program = Program(alone=True)
    one = program.launch()
    program.submit_elsewhere()
    assert program.again(one)


def test_the_host_comes_first() -> None:
    program = Program(alone=False)
    one = program.launch()
    program.launch()
    program.executor.all_workers[1].submitted = 1
    assert not program.again(one)
    program.executor.all_workers[1].completed = 1
    assert program.again(one)
