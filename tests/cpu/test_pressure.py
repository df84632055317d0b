"""A small slice of the random launches under memory pressure, with poisoned memory and a seed that is printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cpu.pressure import run
from vdev.executor.worker_memory import WorkerMemory

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("workers", ["cpu:1", "cpu:3"])
def test_random_launches_in_a_fraction_of_the_memory(workers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerMemory, "poisoned", True)
    evicting = []
    for seed in range(5):  # of a seed whose buffers happen to fit, none evicts
        evicting.append(run(workers, "256K", 150, seed, 2.5)["evicting"])
        if sum(evicting) >= 3:  # a dozen or more, mostly
            return
    pytest.fail(f"launches that evicted, by run: {evicting}")


PROGRAM = """
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue, device = cl.CommandQueue(context), context.devices[0]
assert device.global_mem_size == 2 << 20, device.global_mem_size
assert device.max_mem_alloc_size == 2 << 20, device.max_mem_alloc_size
program = cl.Program(context, '''
kernel void anywhere(global int *a, global const int *index) { a[index[get_global_id(0)]] = 1; }
kernel void add(global int *a) { a[get_global_id(0)] += 1; }''').build()
flags = cl.mem_flags.READ_WRITE
small = cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.arange(65536, dtype=np.int32))
program.add(queue, (65536,), None, small)
large = cl.Buffer(context, flags, 2 << 20)
try:
    program.anywhere(queue, (65536,), None, large, small)
except cl.MemoryError as error:
    assert error.code == cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE
else:
    raise SystemExit("a launch for which there is no room was taken")
found = np.empty(65536, np.int32)
cl.enqueue_copy(queue, found, small)
assert (found == np.arange(65536) + 1).all()
program.add(queue, (1 << 19,), None, large)
queue.finish()
try:
    cl.Buffer(context, flags, (2 << 20) + 4)
except cl.Error as error:
    assert error.code == cl.status_code.INVALID_BUFFER_SIZE
else:
    raise SystemExit("a buffer larger than there may be was made")
"""


def test_a_program_with_less_memory_than_it_wants() -> None:
    """The device says what VDEV_MEMORY leaves it, what cannot fit is refused, and all else goes on."""
    environment = os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:2", "VDEV_MEMORY": "1M"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
