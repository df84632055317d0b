"""New buffers with content that the calling thread gives to their worker: no launch has to bring it, and none has another content."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from vdev.backends.base import Allocation, Box
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.executor import Executor
from vdev.session.session import VirtualBuffer

from .test_runs import Caller
from .test_session_failures import NBYTES, Program, ended, numbers, triple


@pytest.fixture(autouse=True)
def like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any thread may work with the worker; what is written at once has been read when the call returns."""

    def write_now(self: ReferenceBackend, target: Allocation, source: np.ndarray, box: Box) -> None:
        self.write(target, source.copy(), box)

    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "small_write_nbytes", NBYTES)
    monkeypatch.setattr(ReferenceBackend, "write_now", write_now)


def filled(program: Program, seed: int) -> VirtualBuffer:
    """A buffer made of an array that changes at once."""
    host = numbers(seed)
    made = program.session.create_filled(NBYTES, host.view(np.uint8))
    host[:] = 0xDEADBEEF
    return made


def test_launches_on_them_bring_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[object] = []
    plain = Executor.submit
    monkeypatch.setattr(
        Executor, "submit", lambda *given, **more: submitted.append(given) or plain(*given, **more)
    )
    with Program(1, {0: Faults(delay=lambda _: 0.0002)}) as program:
        launch, out, without = Caller(program), program.buffer(1), 0
        for seed in range(200):
            program.session.executor.quiesce()  # the thread may still be at work, and then something is submitted
            counted = program.session.ledger.command("write").count
            submitted.clear()
            source = filled(program, seed)
            is_there = source.resident == 0
            assert program.session.ledger.command("write").count == counted + is_there
            launch(out, source)
            without += is_there and not submitted
            assert program.content(out).tolist() == triple(numbers(seed)).tolist()
            assert program.content(source).tolist() == numbers(seed).tolist()
            if without == 5:
                break
        assert without == 5


@pytest.mark.parametrize("workers", [1, 2])
def test_longer_contents_are_given_to_the_only_worker_while_it_is_idle(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceBackend, "small_write_nbytes", NBYTES // 4)
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", True)
    monkeypatch.setattr(
        "vdev.session.immediate_moves._LONG", 0
    )  # launches until it is known which worker has new buffers
    slow = Faults()
    with Program(workers, {0: slow}, is_cpu=False) as program:
        launch, out = Caller(program), program.buffer(1)
        program.session.executor.quiesce()
        idle = filled(program, 5)
        assert (idle.resident == 0) == (workers == 1)
        going_on = threading.Event()
        slow.delay = lambda _: 0 if going_on.wait(60) else 1
        launch(out, out)
        busy = filled(program, 6)
        assert busy.resident is None
        going_on.set()
        slow.delay = None
        for buffer, seed in ((idle, 5), (busy, 6)):
            assert program.content(buffer).tolist() == numbers(seed).tolist()


def test_where_there_is_no_room_they_begin_at_home() -> None:
    with Program(1) as program:
        program.session.room.occupancy.room[0] = NBYTES // 2
        made = filled(program, 5)
        assert made.resident is None
        assert made.home().view(np.uint32).tolist() == numbers(5).tolist()


def test_commands_on_one_that_could_not_be_filled_fail() -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        out, launch = program.buffer(1), Caller(program)
        for seed in range(50):
            program.session.executor.quiesce()
            faults[program.backends[0]._handed_over] = -5
            made = filled(program, seed)
            if made.resident is None:
                faults.clear()
                continue
            assert ended(launch(out, made)) == -5
            return
        raise AssertionError("no buffer was filled at once")
