"""Kernels that are surely too short to gain begin on one worker, before anything of them is measured; long ones are split from their
first launch on. On GPUs whose work takes time (`fake_cuda.clock`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

SCRIPT = """
from tests.pure.fake_cuda import clock
clock.use()
import json
import numpy as np, pyopencl as cl, vdev
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
built = cl.Program(context, '''
kernel void begin(global float *a) { a[get_global_id(0)] = 1; }
kernel void spread(global float *a, global const int *next, global int *flag)
{ int i = get_global_id(0); if (a[next[i]] > a[i]) { a[i] = a[next[i]]; *flag = 1; } }
kernel void long_one(global float *a, const int n)
{ int i = get_global_id(0); float x = a[i]; for (int k = 0; k < n; k++) x = x * 0.5f + k; a[i] = x; }
kernel void longer_than_it_looks(global float *a) { a[get_global_id(0)] *= 2; }
''').build()
n = 1 << 17
made = []  # and kept, or others would get their memory and be where they were
def new(nbytes=4 * n):
    made.append(cl.Buffer(context, cl.mem_flags.READ_WRITE, nbytes))
    return made[-1]
def launch(name, *args):
    cl.Kernel(built, name)(queue, (n,), (64,), *args)
number = np.zeros(1, np.int32)
for number_of_round in range(3):  # on new buffers, beside a small one in the memory of the last
    a, b, flag = new(), new(), cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
    if not number_of_round:
        launch("begin", a)
    for _ in range(20):
        cl.enqueue_copy(queue, flag, number)
        launch("spread", a, b, flag)
        cl.enqueue_copy(queue, number, flag)
found = {"short": {each.name: [each.launches, each.split] for each in vdev.stats().kernels}}
found["why"] = [str(reason) for each in vdev.stats().kernels for part in each.partitions for reason in part.reasons]
if LATE:
    for _ in range(100):
        launch("longer_than_it_looks", new())
        queue.finish()
for _ in range(3):
    launch("long_one", a, np.int32(10_000))
    launch("long_one", b, np.int32(10_000))
    queue.finish()
found["all"] = {each.name: [each.launches, each.split] for each in vdev.stats().kernels}
print(json.dumps(found))
"""
#: nanoseconds of a work-group, of which there are 2,048
TIMES = "begin=1.5 spread=5 long_one=1000 longer_than_it_looks=500"


def run(folder: Path, *, late: bool) -> dict[str, Any]:
    env = fake_cuda.environment(folder, "cuda:0-3")
    env |= {"FAKE_CUDA_DEVICES": "4", "FAKE_CUDA_TIMES": TIMES, "VDEV_PLANNING": "auto"}
    found: dict[str, Any] = json.loads(fake_cuda.run(f"LATE = {late}\n{SCRIPT}", env))
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("presumed"), late=False)


def test_short_launches_are_never_split(found: dict[str, Any]) -> None:
    """Whatever small buffer they use of which it is known where it was."""
    assert found["short"] == {"begin": [1, 0], "spread": [60, 0]}
    assert len(found["why"]) == 2
    assert all("begun on one worker" in each for each in found["why"])


def test_long_launches_are_split_at_once_on_buffers_that_short_ones_had_on_one_worker(
    found: dict[str, Any],
) -> None:
    assert found["all"]["long_one"] == [6, 6]


def test_what_was_measured_goes_before_what_was_presumed(tmp_path: Path) -> None:
    launches, split = run(tmp_path, late=True)["all"]["longer_than_it_looks"]
    assert launches == 100
    assert 80 <= split < 100
