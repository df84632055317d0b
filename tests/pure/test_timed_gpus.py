"""GPUs whose work takes time (`fake_cuda.clock`): launches, copies and waits take what a GPU would take for them, whatever else the
machine does, and what vdev decides follows from that as on GPUs.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

SCRIPT = """
from tests.pure.fake_cuda import clock
clock.use()
import json, time
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
built = cl.Program(context, '''
kernel void scale(global float *a, const float by) { for (int k = 0; k < 1000; k++) a[get_global_id(0)] *= by; }
kernel __attribute__((reqd_work_group_size(64, 1, 1))) void copies(global float *to, global const float *from)
{ to[get_global_id(0)] = from[get_global_id(0)]; }
kernel void runs(global int *a) { a[0] = 7; }
''').build()
scale, copies = cl.Kernel(built, "scale"), cl.Kernel(built, "copies")
n = 1 << 16
a, b, c = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * n) for _ in range(3))
scale.set_args(a, np.float32(2))
copies.set_args(b, c)
def run(kernel, count):
    queue.finish()
    began = time.perf_counter()
    for _ in range(count):
        event = cl.enqueue_nd_range_kernel(queue, kernel, (n,), (64,))
    handed = time.perf_counter()
    queue.finish()
    return [round(1e6 * (end - began) / count) for end in (handed, time.perf_counter())], event
found = {kernel.function_name: [run(kernel, count)[0] for _ in range(12)] for kernel, count in ((scale, 20), (copies, 100))}
event = run(scale, 1)[1]
found["profiled"] = round((event.profile.end - event.profile.start) / 1e3)
runs = cl.Kernel(built, "runs")
runs.set_args(c)
def profiled(enqueue):
    events = []
    for _ in range(5):  # the first ones make the host do what is done once
        events.append(enqueue())
        queue.finish()
    return round(min(event.profile.end - event.profile.start for event in events) / 1e3)
found["least"] = profiled(lambda: cl.enqueue_nd_range_kernel(queue, runs, (1,), (1,)))
number = np.zeros(1, np.int32)
cl.enqueue_copy(queue, number, c)
found["number"] = int(number[0])
found["copied"] = profiled(lambda: cl.enqueue_copy(queue, c, a))
import vdev
found["split"] = {each.name: [each.launches, each.split] for each in vdev.stats().kernels}
print(json.dumps(found))
"""
#: nanoseconds of a work-group, of which there are 1,024: 2 ms, and next to nothing; and 50 us at least, for what is run
TIMES = "scale=1953.125 copies=0.1 runs=0/50000!"


def _found(folder: Path, workers: str, **more: str) -> dict[str, Any]:
    env = fake_cuda.environment(folder, workers)
    env |= {
        "FAKE_CUDA_DEVICES": "4",
        "FAKE_CUDA_TIMES": TIMES,
        "FAKE_CUDA_CALL": "2000",
        "VDEV_PLANNING": "auto",
        **more,
    }
    found: dict[str, Any] = json.loads(fake_cuda.run(SCRIPT, env))
    return found


def test_a_kernel_takes_its_time_on_one(tmp_path: Path) -> None:
    found = _found(tmp_path, "cuda:0")
    handed, waited = zip(*found["scale"], strict=True)
    # Of the clock, in which nobody waits for this machine; what other threads of the process do counts in some of them.
    assert 2000 <= median(waited) < 2200, found["scale"]
    assert min(handed) < 500
    assert 2000 <= found["profiled"] < 2030
    assert 3 <= min(waited for _, waited in found["copies"]) < 500
    assert 50 <= found["least"] < 60
    assert found["number"] == 7, "the kernel was not run"
    assert 8 <= found["copied"] < 20
    copied = _found(tmp_path, "cuda:0", FAKE_CUDA_BYTES="1000")["copied"]
    assert 139 <= copied < 150  # 256 KB, in memory of 2 TB/s


def test_long_launches_are_split_and_short_ones_are_not(tmp_path: Path) -> None:
    found = _found(tmp_path, "cuda:0-3")
    assert found["split"]["scale"] == [241, 241]
    assert 500 <= median(waited for _, waited in found["scale"]) < 750, found["scale"]
    launches, split = found["split"]["copies"]
    assert split < launches / 2


THREADS = """
from tests.pure.fake_cuda import clock
import json, time
real = time.thread_time_ns
clock.use()
import pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
def taken(work):
    began = real(), time.perf_counter_ns(), time.thread_time_ns()
    work()
    return [after - before for before, after in zip(began, (real(), time.perf_counter_ns(), time.thread_time_ns()))]
a = cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 20)
def fill():
    for _ in range(100):
        cl.enqueue_fill_buffer(queue, a, bytes(4), 0, 1 << 20)
fill()
queue.finish()
def wait():
    fill()
    queue.finish()
print(json.dumps([taken(lambda: sum(range(3_000_000))), taken(fill), taken(wait)]))
"""


def test_a_threads_time_goes_on_with_the_clock_but_where_it_waits(tmp_path: Path) -> None:
    """By it vdev measures what handing commands over takes: it is that of the host which is meant."""
    env = fake_cuda.environment(tmp_path, "cuda:0")
    env |= {
        "FAKE_CUDA_TIMES": "none=1",
        "FAKE_CUDA_HOST": "3",
        "FAKE_CUDA_CALL": "100000",
        "FAKE_CUDA_BYTES": "10000",
    }
    computing, calling, waiting = json.loads(fake_cuda.run(THREADS, env))
    real, clock, busy = computing
    assert 2.9 * real <= busy <= 1.02 * clock
    assert busy <= 3.2 * real
    real, clock, busy = calling
    assert 10_000_000 <= busy <= 1.02 * clock, "a hundred calls of a tenth of a millisecond"
    real, clock, busy = waiting
    assert busy < clock / 2, "it stands still while it waits for what takes five milliseconds each"
