"""Boxes of a few bytes that the calling thread writes and reads by itself: all is as if each had been submitted."""

from __future__ import annotations

import random

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.base import Allocation, Box
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.session.commands import Read, Write

from .immediate_programs import RandomCommands
from .repeating import again
from .test_session_failures import NBYTES, WORDS, Program, ended

#: bytes in a row, and from one to the next, in the buffer and in the program's array
ROW, PITCH, HOST_PITCH = 12, 20, 16


@pytest.fixture(autouse=True)
def like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any thread may work with the worker and wait for it; small transfers keep nobody waiting."""

    def write_now(self: ReferenceBackend, target: Allocation, source: np.ndarray, box: Box) -> None:
        self.write(target, source.copy(), box)

    for name in ("any_thread", "can_wait_for_all", "writes_boxes_now"):
        monkeypatch.setattr(ReferenceBackend, name, True)
    for name in ("small_write_nbytes", "small_read_nbytes"):
        monkeypatch.setattr(ReferenceBackend, name, NBYTES)
    monkeypatch.setattr(ReferenceBackend, "write_now", write_now)
    monkeypatch.setattr(ReferenceBackend, "again", again)


class Boxes(RandomCommands):
    """Boxes of buffers, launches and fills."""

    written = read = 0  #: at once

    def _box(self) -> tuple[Layout, np.ndarray, np.ndarray]:
        """How it lies, and its words in a buffer and in an array, in order."""
        rows, start, host_start = (self.drawn.choice(each) for each in ((2, 5), (0, 16), (0, 4)))
        layout = Layout(
            (1, rows, ROW), start, (rows * PITCH, PITCH), host_start, (rows * HOST_PITCH, HOST_PITCH)
        )
        words = np.arange(ROW // 4)[None, :]
        at, there = (
            (first + np.arange(rows)[:, None] * pitch) // 4 + words
            for first, pitch in ((start, PITCH), (host_start, HOST_PITCH))
        )
        return layout, at.ravel(), there.ravel()

    def write_box(self, step: int, one: int, other: int) -> None:
        layout, at, there = self._box()
        host = np.arange(1000 * step, 1000 * step + WORDS, dtype=np.uint32)
        self.arrays[one] = self.arrays[one].copy()
        self.arrays[one][at] = host[there]
        command = Write(self.buffers[one], layout, host.view(np.uint8))
        done = self.program.session.write_at_once(command, self.after, self.queue)
        if done is None:
            self.submit(command)
            assert self.last is not None
            assert ended(self.last) == 0
        else:
            self.written, self.last = self.written + 1, done
        host[:] = 0xDEADBEEF

    def read_box(self, step: int, one: int, other: int) -> None:
        layout, at, there = self._box()
        host = np.full(WORDS, 77, np.uint32)
        command = Read(self.buffers[one], layout, host.view(np.uint8))
        status = self.program.session.read_at_once(command, self.queue, self.after)
        if status is None:
            self.submit(command)
            assert self.last is not None
            status = ended(self.last)
        else:
            self.read += 1
        expected = np.full(WORDS, 77, np.uint32)
        expected[there] = self.arrays[one][at]
        assert status == 0
        assert host.tolist() == expected.tolist()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("in_order", [True, False])
def test_between_other_commands(workers: int, in_order: bool) -> None:
    drawn = random.Random(workers)
    delayed = Faults(delay=lambda _: drawn.choice((0, 0, 0.0003)))
    with Program(workers, dict.fromkeys(range(workers), delayed), is_cpu=False) as program:
        commands = Boxes(program, drawn, in_order=in_order)
        commands.run((commands.launch, commands.write_box, commands.read_box, commands.fill))
        for number in range(3):
            commands.check(number)
    if workers == 1:
        assert commands.read > 20
        assert commands.written > 10
