"""A short run of the stress test, and what the long one has found."""

from __future__ import annotations

import _thread
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pure.cuda_host import COMPILER, MISSING
from vdev.backends.opencl.device import SharedDevice
from vdev.executor.executor import Executor
from vdev.facade.platform_device import Platform
from vdev.planner.instructions import HOST
from vdev.process.switches import WorkerSpec
from vdev.session.session import Session
from vdev.start.workers import open_workers

from . import stress
from .test_facade_objects import cl, mf

ROOT = Path(__file__).parents[2]

needs_mallinfo = pytest.mark.skipif(not stress.used_nbytes(), reason="the C library tells no bytes in use")


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    opened = Session(open_workers([WorkerSpec("cpu", (), 2)]))
    yield opened
    opened.close()


@pytest.fixture
def ctx(session: Session) -> Any:
    return cl.Context(Platform(session).get_devices())


def run(
    *arguments: str, fails: bool = False, begin: str = "", environment: Mapping[str, str] = os.environ
) -> str:
    """What the command says. `begin`: is run before it."""
    script = f"{begin}; import sys; from tests.cpu import stress; sys.exit(stress.main())"
    command = [sys.executable, "-W", "ignore", "-c", script.removeprefix("; "), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == fails, done.stdout + done.stderr[-8000:]
    return done.stdout


def test_many_threads_contexts_and_queues() -> None:
    assert "nothing differed" in run("--seconds", "3", "--seed", str(time.time_ns() % 1000))


def test_sequences_of_one_thread() -> None:
    assert "nothing differed" in run("--sequences", "25", "--seed", str(time.time_ns() % 100_000))


@pytest.mark.parametrize("defect", ["a host write leaves old copies", "a fill forgets what it does not hold"])
def test_sequences_find_planted_defects(defect: str) -> None:
    begin = f"from tests.fuzz.mutations import plant; plant({defect!r})"
    assert "Different" in run("--sequences", "20", fails=True, begin=begin)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("defect", ["", "a submitted launch waits for nobody who has changed what it reads"])
def test_sequences_on_simulated_gpus(defect: str, tmp_path: Path) -> None:
    """What nothing orders comes by chance there: they find what is not waited for."""
    begin = f"from tests.fuzz.mutations import plant; plant({defect!r})" if defect else ""
    sequences = "20" if defect else "8"
    said = run(
        "--sequences", sequences, fails=bool(defect), begin=begin, environment=stress.gpus(tmp_path, 3, 7)
    )
    assert ("Different" in said) == bool(defect)


def test_ten_thousand_enqueues() -> None:
    assert "nothing differed" in run("--enqueues", "10000")


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[int], object]], list[str]]:
    """What the command says of one measure where each run, of 40,000 actions, does what is given."""
    monkeypatch.setattr(stress, "settled", lambda take, wanted, seconds: take())

    def judged(name: str, do: Callable[[int], object]) -> list[str]:
        def run(number: int) -> int:
            do(number)
            return 40_000

        return stress.judge([each for each in stress.measures(False) if each.name == name], run, lambda: None)

    return judged


@needs_mallinfo
def test_a_leak_of_some_bytes_per_action_is_found(judge: Any) -> None:
    held: list[bytearray] = []
    # Many times what is allowed: what earlier tests of this process left may be freed meanwhile.
    (left,) = judge("bytes in use", lambda number: held.append(bytearray(2_560 * 40_000)))
    assert left.startswith("bytes in use: ")
    assert len(held) == stress.RUNS


def test_a_leak_of_small_objects_is_found(judge: Any) -> None:
    held: list[object] = []
    (left,) = judge("blocks of Python's", lambda number: held.append([object() for _ in range(400_000)]))
    assert left.startswith("blocks of Python's: ")


@needs_mallinfo
def test_what_is_taken_once_is_no_leak(judge: Any) -> None:
    held: list[bytearray] = []
    assert judge("bytes in use", lambda number: held.append(bytearray(0 if number else 31 << 20))) == []
    assert len(held) == 2


@pytest.mark.skipif(not stress.spare_nbytes(), reason="objects come from another allocator")
def test_gaps_between_objects_do_not_count_as_the_processs_memory() -> None:
    before = stress.resident_nbytes()
    # Large and many, so that what else comes and goes meanwhile is little beside them.
    objects = [bytes(400) for _ in range(1_000_000)]
    full = stress.resident_nbytes()
    kept = objects[::20]  # in every pool
    del objects
    after = stress.resident_nbytes(), stress.spare_nbytes()
    assert len(kept) == 50_000
    assert full > before + (256 << 20)
    assert after[0] < before + (128 << 20)
    assert after[1] > 256 << 20


def test_threads_more_are_left_behind_at_once(judge: Any) -> None:
    stop = threading.Event()
    # several: one of an earlier test may end meanwhile
    running = [threading.Thread(target=stop.wait, daemon=True) for _ in range(5)]
    try:
        (left,) = judge("threads of Python's", lambda number: [thread.start() for thread in running])
        assert re.fullmatch(r"threads of Python's: \d more than before, 0 are allowed", left)
    finally:
        stop.set()
        for thread in running:
            thread.join()


def test_threads_that_a_driver_makes_once_are_no_leak_and_others_are(judge: Any) -> None:
    begun: list[threading.Lock] = []

    def some_more(number: int) -> None:
        for _ in range(5 if number < most else 0):
            begun.append(threading.Lock())
            begun[-1].acquire()
            _thread.start_new_thread(begun[-1].acquire, ())  # none that Python's register has

    try:
        most = 2
        assert judge("threads", some_more) == []
        most = stress.RUNS
        (left,) = judge("threads", some_more)
        assert re.fullmatch(r"threads: \d more than before, 0 are allowed", left)
    finally:
        for lock in begun:
            lock.release()


@needs_mallinfo
def test_the_command_finds_a_leak_that_is_planted() -> None:
    few = "import tests.cpu.stress; tests.cpu.stress.RUNS = 4"  # each of which waits for the leak to go
    found = run("--seconds", "0.5", "--keep", "200000", fails=True, begin=few)
    assert re.search("^bytes in use: [0-9]+ more than before", found, re.MULTILINE)


def test_one_thread_builds_for_all_workers_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler may keep memory for every thread that has ever built."""
    compile_program = SharedDevice._compile
    threads: list[threading.Thread] = []

    def noted(device: SharedDevice, *args: Any) -> None:
        threads.append(threading.current_thread())
        compile_program(device, *args)

    monkeypatch.setattr(SharedDevice, "_compile", noted)
    session = Session(open_workers([WorkerSpec("cpu", (), 4)]))
    try:
        for number in range(3):
            session.executor._ask(0, lambda backend: time.sleep(0.1))  # the others could begin
            session.build(f"__kernel void k(__global int *a) {{ a[get_global_id(0)] = {number}; }}")
        assert threads == [session.executor.worker(0).thread] * 3
    finally:
        session.close()


def test_work_done_inline_releases_those_who_wait_for_it(
    session: Session, ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread may come to wait for a command between its submission and its end."""
    host = session.executor.worker(HOST)
    inline = Executor._run_inline

    def late(executor: Executor, job: Any) -> bool:
        deadline = time.monotonic() + 100
        while not host.waiters and time.monotonic() < deadline:
            time.sleep(0.001)
        assert host.waiters
        return inline(executor, job)

    buffer = cl.Buffer(ctx, mf.READ_WRITE | mf.USE_HOST_PTR, hostbuf=np.zeros(16, np.int32))
    go = cl.UserEvent(ctx)
    event = cl._enqueue_fill_buffer(cl.CommandQueue(ctx), buffer, np.int32(7), 0, 64, wait_for=[go])
    waiting = threading.Thread(target=event.wait, daemon=True)
    waiting.start()
    monkeypatch.setattr(Executor, "_run_inline", late)
    go.set_status(0)
    waiting.join(100)
    assert not waiting.is_alive()


def test_the_last_launch_keeps_no_memory(session: Session, ctx: Any) -> None:
    """A program may let go of its buffers and then need the room for others."""
    program = cl._Program(ctx, "__kernel void k(__global int *a) { a[get_global_id(0)] += 1; }")
    program._build(b"")
    queue = cl.CommandQueue(ctx)
    kernel = cl.Kernel(program, "k")
    buffer = cl.Buffer(ctx, mf.READ_WRITE | mf.COPY_HOST_PTR, hostbuf=np.zeros(1 << 16, np.int32))
    kernel.set_arg(0, buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, (1 << 16,), None)
    queue.finish()

    def held() -> int:
        return sum(counters.allocated_nbytes for counters in session.executor.counters())

    assert held() >= 4 << 16
    buffer.release()
    del kernel, buffer
    assert stress.settled(held, 0, 5.0) == 0
