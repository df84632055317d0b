"""A program that asks for a command's status in a loop learns of its end, though it hardly ever lets other threads run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: The stand-in has done a launch when it returns, so whoever asks afterwards can be told.
PROGRAM = """
import json, sys, numpy as np, pyopencl as cl
import vdev
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
kernel = cl.Kernel(cl.Program(context, "kernel void more(global int *a) { a[get_global_id(0)] += 1; }").build(), "more")
result = np.zeros(1 << 16, np.int32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=result)
kernel.set_args(buffer)
sys.setswitchinterval(0.3)  # seconds until another thread gets the interpreter from one that keeps it
asked = []
for _ in range(24):
    event = cl.enqueue_nd_range_kernel(queue, kernel, result.shape, None)
    asked.append(1)
    while event.command_execution_status != cl.command_execution_status.COMPLETE:
        asked[-1] += 1
sys.setswitchinterval(0.005)
cl.enqueue_copy(queue, result, buffer)
split = vdev.stats().kernels[0].split
print(json.dumps({"asked": asked, "split": split, "right": bool((result == 24).all())}))
"""


@pytest.mark.parametrize(("workers", "split"), [("cuda:0,1", 24), ("cuda:0", 0)])
def test_a_loop_that_asks_learns_of_the_end(workers: str, split: int, tmp_path: Path) -> None:
    environment = fake_cuda.environment(tmp_path, workers) | {"VDEV_PLANNING": "always"}
    said = json.loads(fake_cuda.run(PROGRAM, environment))
    assert (said["split"], said["right"]) == (split, True)
    # the first launches are handed over by the workers' threads
    assert sum(times > 1 for times in said["asked"]) <= 6, said["asked"]
