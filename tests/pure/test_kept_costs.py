"""What staying on one of several GPUs takes of the host beyond what a GPU alone takes: in bytecodes, the same on a busy machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: of many launches in a row, and of the reads behind them, the least that one takes: those that are looked at take more
SCRIPT = """
import json
import numpy as np
import pyopencl as cl
from tests.bytecodes import Bytecodes

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
kernel = cl.Kernel(cl.Program(context, "kernel void f(global uint *a, uint n) { a[get_global_id(0)] += n; }").build(), "f")
kernel.set_arg_types([None, np.uint32])
data, seen, one = cl.Buffer(context, cl.mem_flags.READ_WRITE, 1024), np.zeros(16, np.uint32), np.uint32(1)
cl.enqueue_copy(queue, data, np.zeros(256, np.uint32))

def launch():
    return kernel(queue, (256,), (64,), data, one)
def read():
    cl.enqueue_copy(queue, seen, data)
least = [1 << 30] * 2
for turn in range(600):
    for at, call in enumerate((launch, read)):
        if turn < 400:
            call()
            continue
        with Bytecodes() as steps:
            call()
        least[at] = min(least[at], steps.count)
print(json.dumps([least, seen.tolist()]))
"""


def test_launches_and_reads_on_one_of_two_gpus_take_hardly_more_than_on_one(tmp_path: Path) -> None:
    found = []
    for workers in ("cuda:0", "cuda:0,1"):
        env = fake_cuda.environment(tmp_path, workers) | {"PYOPENCL_NO_CACHE": "1"}
        env.pop("VDEV_PLANNING", None)
        least, seen = json.loads(fake_cuda.run(SCRIPT, env).splitlines()[-1])
        assert seen == [600] * 16
        found.append(least)
    (launch, read), (kept_launch, kept_read) = found
    assert kept_launch - launch < 20
    # Looks at periods are counted there, while the bytes are on their way.
    assert kept_read - read < 60
