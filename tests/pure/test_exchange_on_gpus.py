"""Edges exchanged between GPUs by the thread that submits: the CUDA back end as it is, on a driver without GPUs that runs whatever
no event orders in the worst order.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: a sum over three rows, from one buffer into another and back; then the first buffer is overwritten by one that reads the edges
#: of other GPUs again, while these may still be at the step before
PROGRAM = """
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
rows = cl.Kernel(cl.Program(context, '''
kernel void rows(global uint *to, global const uint *from, uint wide, uint n)
{ uint i = get_global_id(0); if (i >= wide && i < n - wide) to[i] = from[i - wide] + 3 * from[i] + from[i + wide]; }
''').build(), "rows")
rows.set_arg_types([None, None, np.uint32, np.uint32])
n, wide = 4096, 64
expected = [np.random.default_rng(1).integers(0, 2**32, n, dtype=np.uint32) for _ in range(2)]
pair = [cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array) for array in expected]
for number in range(20):
    to, source = (number + 1) % 2, number % 2
    rows(queue, (n,), (16,), pair[to], pair[source], np.uint32(wide), np.uint32(n))
    old, new = expected[source], expected[to]
    new[wide:-wide] = old[:-2 * wide] + np.uint32(3) * old[wide:-wide] + old[2 * wide:]
    if number in (3, 12, 19):
        found = np.empty(n, np.uint32)
        cl.enqueue_copy(queue, found, pair[to])
        assert (found == new).all(), f"step {number}"
print("right")
"""

#: no GPU waits for another; the host's threads still do
WITHOUT_WAITS = """
from vdev.backends.cuda import backend
backend.CudaBackend.order_after = lambda self, marker: None
"""
#: what is ready to be copied again is what was copied first
ALWAYS_THE_FIRST = """
from vdev.backends.cuda import own_kernels
copying, first = own_kernels.OwnKernels.copying, {}
own_kernels.OwnKernels.copying = lambda self, *given: first.setdefault(id(self), copying(self, *given))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def _environment(folder: Path, late: int | None = None, seed: int | None = None) -> dict[str, str]:
    always = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    return fake_cuda.environment(folder, "cuda:0-2", late, seed) | always


@pytest.mark.parametrize("late", [0, 1])
def test_neighbours_wait_for_each_other(folder: Path, late: int) -> None:
    assert "right" in fake_cuda.run(PROGRAM, _environment(folder, late))


@pytest.mark.parametrize("order", [{"late": 0}, {"late": 1}, {"seed": 7}])
def test_neighbours_wait_on_the_host_where_the_driver_orders_nothing(
    folder: Path, order: dict[str, int]
) -> None:
    env = _environment(folder, **order) | {"FAKE_CUDA_REFUSED": "cuStreamWaitEvent"}
    assert "right" in fake_cuda.run(PROGRAM, env)


def test_whatever_is_done_by_chance(folder: Path) -> None:
    for seed in range(3):
        assert "right" in fake_cuda.run(PROGRAM, _environment(folder, seed=seed))


@pytest.mark.parametrize("planted", [WITHOUT_WAITS, ALWAYS_THE_FIRST])
def test_a_mistake_is_found(folder: Path, planted: str) -> None:
    with pytest.raises(AssertionError, match=r"step \d"):
        fake_cuda.run(planted + PROGRAM, _environment(folder, 1))
