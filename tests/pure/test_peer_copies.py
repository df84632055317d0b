"""Copies between workers: nothing is prepared for those that are made once, and what repeats one is made for the memory that is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from vdev.translators.ranges.region import Region

from vdev.backends.base import Allocation, Box
from vdev.executor.holdings import Holdings, Replica
from vdev.executor.steps import CopyStep
from vdev.planner.instructions import Copy


class Noting:
    """A worker, its peer, and their back end, which notes what it is asked for."""

    def __init__(self, *, repeats: bool = True) -> None:
        self.number, self.backend, self.repeats = 1, self, repeats
        self.asked: list[tuple[str, Allocation, Allocation]] = []

    def peer(self, number: int) -> Noting:
        assert number == 0
        return self

    def copies_from_peer(
        self, peer: object, source: Allocation, target: Allocation, boxes: Sequence[Box]
    ) -> None:
        assert [*boxes] == [Box.contiguous(8, 4, 16)]
        self.asked.append(("copied", source, target))

    def copy_again(
        self, peer: object, source: Allocation, target: Allocation, boxes: Sequence[Box]
    ) -> Callable[[], object] | None:
        self.asked.append(("prepared", source, target))
        return (lambda: self.asked.append(("again", source, target))) if self.repeats else None


class Program:
    """A step that brings bytes 24 to 40 of a buffer from worker 0, and the buffers of its commands."""

    def __init__(self, **how: bool) -> None:
        self.worker = Noting(**how)
        self.step = CopyStep(Copy(1, slot=0, source=0, target=1, region=Region.span(24, 40)))

    def buffer(self) -> Holdings:
        there = [Replica(Allocation(None, 32), 16, 48), Replica(Allocation(None, 30), 20, 50)]
        return cast(Holdings, SimpleNamespace(replicas=there))

    def run(self, holdings: Holdings) -> list[str]:
        """What is asked of the back end for a command with that buffer, all of it for the memory that this has."""
        first = len(self.worker.asked)
        self.step.run(cast(Any, self.worker), cast(Any, SimpleNamespace(holdings=[holdings])))
        there = [replica.allocation for replica in holdings.replicas if replica is not None]
        asked = self.worker.asked[first:]
        assert all([source, target] == there for _, source, target in asked)
        return [what for what, _, _ in asked]


def test_what_repeats_a_copy_is_prepared_the_second_time() -> None:
    program = Program()
    first, second = program.buffer(), program.buffer()
    assert program.run(first) == ["copied"]
    assert program.run(second) == ["copied"]
    assert program.run(first) == ["copied", "prepared"]
    assert [program.run(first) for _ in range(2)] == [["again"]] * 2
    assert program.run(second) == ["copied", "prepared"]
    assert program.run(first) == program.run(second) == ["again"]
    first.replicas[1] = Replica(Allocation(None, 30), 20, 50)  # it has been moved
    assert program.run(first) == ["copied"]


def test_many_buffers_once_each_prepare_nothing() -> None:
    program = Program()
    assert all(program.run(program.buffer()) == ["copied"] for _ in range(20))


def test_a_copy_that_cannot_be_repeated_is_made_each_time() -> None:
    program = Program(repeats=False)
    buffer = program.buffer()
    assert program.run(buffer) == ["copied"]
    assert program.run(buffer) == program.run(buffer) == ["copied", "prepared"]
