"""Exceptions at random moments of random calls: a slice of `tests.cpu.interruptions` with a fresh seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "how",
    [
        ("--count", "60", "--seconds", "6"),
        ("--count", "30", "--seconds", "3", "--threads", "2"),
        ("--count", "30", "--seconds", "3", "--elsewhere"),
        ("--lines", "--seconds", "2"),
    ],
)
def test_every_call_happens_or_does_not(how: tuple[str, ...], tmp_path: Path):
    environ = {**os.environ, "VDEV": "1", "VDEV_WORKERS": "cpu:3", "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-m", "tests.cpu.interruptions", *how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environ, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every call happened or did not" in done.stdout
    assert "ignored" not in done.stderr, done.stderr
    assert list(tmp_path.glob("pyopencl/*"))
    assert not list(tmp_path.glob("pyopencl/*/lock")), "nobody can build any more"


def test_an_exception_leaves_the_call_in_which_it_arrived():
    script = """
import signal, numpy as np, pyopencl as cl
def handler(number, frame): raise TimeoutError("late")
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
branch = "    if (g %% %d < n %% %d) out[(g + %d) %% n] = g; else out[n - 1 - (g * %d) %% n] = n;\\n"
body = "".join(branch % (k + 2, k + 3, k, k + 1) for k in range(20))
source = "kernel void k(global int *out, int n) { int g = get_global_id(0);\\n" + body + " out[g] = g; }"
kernel = cl.Program(context, source).build().k
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * 4096)
signal.signal(signal.SIGALRM, handler)
assert signal.getsignal(signal.SIGALRM) is handler and signal.signal(signal.SIGALRM, handler) is handler
try:
    signal.setitimer(signal.ITIMER_REAL, 0.02)  # its analysis takes longer
    kernel(queue, (4096,), (64,), buffer, np.int32(4096))
    print("too late")
except TimeoutError:
    print("came")
queue.finish()
host = np.empty(4096, np.int32)
cl.enqueue_copy(queue, host, buffer)
event = cl.UserEvent(context)
for wait in (event.wait, lambda: cl.enqueue_copy(queue, host, buffer, wait_for=[event])):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        wait()
    except TimeoutError:
        print("came while waiting")
event.set_status(0)
queue.finish()
print("goes on")
"""
    environ = {**os.environ, "VDEV": "1", "VDEV_WORKERS": "cpu:3"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=900,
        env=environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["came", "came while waiting", "came while waiting", "goes on"]
