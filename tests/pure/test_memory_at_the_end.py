"""What CUDA workers have taken from the driver is given back when the process ends, whatever the program still holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: what takes memory, and what gives it back
TAKING = ("cuMemAlloc_v2", "cuMemAllocManaged", "fake_pinned", "fake_registered")
GIVING = ("cuMemFree_v2", "fake_pinned_gone")

BEGIN = """
import sys, threading
import numpy as np, pyopencl as cl, pyopencl.array as cla
from vdev.executor import executor
executor.EXIT_TIMEOUT = 60  # what a busy machine has not done by then would be left behind
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
source = "kernel void scaled(global float *a, float by) { a[get_global_id(0)] *= by; }"
kernel = cl.Kernel(cl.Program(context, source).build(), "scaled")
host = np.ones(6 << 20, np.float32)  # so many bytes go through pinned blocks
items = (1 << 16,)  # those that a kernel changes
a = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=host)
kernel(queue, items, None, a, np.float32(2))
"""
#: how a program goes on, and its status
ENDINGS = {
    "everything is still there": (
        "cl.enqueue_copy(queue, host, a); assert host.sum() == host.size + items[0]",
        0,
    ),
    "a launch is queued": ("kernel(queue, items, None, a, np.float32(2))", 0),
    "small reads behind launches": (
        """
for _ in range(5):
    kernel(queue, items, None, a, np.float32(1))
    cl.enqueue_copy(queue, host[:8], a)
assert (host[:8] == 2).all()
""",
        0,
    ),
    "a small read is on its way": ("cl.enqueue_copy(queue, host[:8], a, is_blocking=False)", 0),
    "a read's event in a cycle": (
        "found = [cl.enqueue_copy(queue, host[:8], a, is_blocking=False)]; found.append(found)",
        0,
    ),
    "everything is dropped": ("queue.finish(); del a, kernel, queue, context", 0),
    "an array": ("x = cla.to_device(queue, host); assert float(cla.sum(x + 1).get()) == 2 * host.size", 0),
    "an exit with a status": ("sys.exit(7)", 7),
    "a user event that nobody sets": (
        "e = cl.UserEvent(context); kernel(queue, items, None, a, np.float32(2), wait_for=[e])",
        0,
    ),
    "scattered bytes": (
        """
scatter = cl.Program(context, '''kernel void scatter(global int *out, global const int *place) {
    out[place[get_global_id(0)]] = get_global_id(0); }''').build().scatter
place = np.random.default_rng(1).permutation(1 << 20).astype(np.int32)
p = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=place)
out = cl.Buffer(context, 0, place.nbytes)
scatter(queue, place.shape, None, out, p)
found = np.empty_like(place)
cl.enqueue_copy(queue, found, out)
assert (found[place] == np.arange(place.size)).all()
""",
        0,
    ),
}


@pytest.mark.parametrize(
    ("ending", "workers"),
    [*((ending, "cuda:0,1") for ending in ENDINGS), ("small reads behind launches", "cuda:0")],
)
def test_memory_is_given_back_at_the_end(ending: str, workers: str, tmp_path: Path) -> None:
    code, status = ENDINGS[ending]
    env = fake_cuda.environment(tmp_path, workers) | {"FAKE_CUDA_CALLS": str(tmp_path / "calls")}
    fake_cuda.run(BEGIN + code, env, status=status)
    calls = {
        name: int(count) for name, count in map(str.split, (tmp_path / "calls").read_text().splitlines())
    }
    assert calls["cuMemAlloc_v2"]
    assert calls.get("fake_pinned", 0) + calls.get("fake_registered", 0)
    taken = sum(calls.get(name, 0) for name in TAKING)
    assert taken == sum(calls.get(name, 0) for name in GIVING), calls
