"""A short run of the stress test, and what the long one has found."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdev.executor.executor import Executor
from vdev.facade.platform_device import Platform
from vdev.planner.instructions import HOST
from vdev.session import Session
from vdev.switches import WorkerSpec
from vdev.workers import open_workers

from .test_facade_objects import cl, mf

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    opened = Session(open_workers([WorkerSpec("cpu", (), 2)]))
    yield opened
    opened.close()


@pytest.fixture
def ctx(session: Session) -> Any:
    return cl.Context(Platform(session).get_devices())


def run(*arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", "-m", "tests.cpu.stress", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-8000:]
    return done.stdout


def test_many_threads_contexts_and_queues() -> None:
    assert "nothing differed" in run("--seconds", "3", "--seed", str(time.time_ns() % 1000))


def test_ten_thousand_enqueues() -> None:
    assert "nothing differed" in run("--enqueues", "10000")


def test_work_done_inline_lets_go_who_waits_for_it(
    session: Session, ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread may come to wait for a command between its submission and its end."""
    host = session.executor.worker(HOST)
    inline = Executor._run_inline

    def late(executor: Executor, job: Any) -> bool:
        deadline = time.monotonic() + 5
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
    waiting.join(10)
    assert not waiting.is_alive()
