"""Launches of which each is over another index space, on a GPU of the driver for machines without one, and what makes them again.

Kernels say what they are told of their index space; local sizes are given, required, left open. Each launch comes behind those of other
kernels, or of the same one over the last index space once more, and has a number of its own.
"""

from __future__ import annotations

import os

import pytest

import vdev.executor.whole  # noqa: F401 (what defects are planted in is imported here, too)
from tests.pure import fake_cuda
from tests.pure.cuda_host import COMPILER, MISSING

SCRIPT = """
import random
import numpy as np
import pyopencl as cl
from vdev.executor.whole import WholeLaunchStep

SOURCE = '''
#define PLACE size_t x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1); \\\\
    size_t at = y * get_global_size(0) + x;
#define TOLD (uint)(get_global_size(0) + 3 * get_global_size(1) + 5 * get_global_offset(0) + 7 * get_work_dim()) + number
kernel void given(global uint *out, uint number) {
    PLACE
    out[at] = TOLD + 1000003u * get_local_size(0) + 101u * get_num_groups(1) + get_num_groups(0);
}
kernel void open(global uint *out, uint number) { PLACE out[at] = TOLD; }
kernel __attribute__((reqd_work_group_size(4, 2, 1))) void required(global uint *out, uint number) {
    PLACE
    out[at] = TOLD + 1000003u * get_local_size(0) + 101u * get_num_groups(1) + get_num_groups(0);
}
kernel void with_local(global uint *out, local uint *kept, uint number) {
    PLACE
    size_t lid = get_local_id(1) * get_local_size(0) + get_local_id(0);
    kept[lid] = TOLD;
    out[at] = kept[lid];
}
'''
MOST = 128
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build()
kernels = [{kernel.function_name: kernel for kernel in program.all_kernels()} for _ in range(2)]
outputs = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * MOST * MOST) for _ in range(6)]
over, count = WholeLaunchStep.over, [0]
def counted(self, *given):
    count[0] += 1
    return over(self, *given)
WholeLaunchStep.over = counted
chance = random.Random(1)

def space(name):
    group = (4, 2) if name == "required" else (chance.choice([4, 8]), chance.choice([1, 2]))
    size = tuple(each * chance.randint(1, MOST // each) for each in group)
    local = None if name == "open" or (name == "required" and chance.random() < 0.5) else group
    if name == "open" and chance.random() < 0.3:
        size = size[:1]
    return size, group, local, chance.choice([None, None, (8, 4)[:len(size)]])

last = [{name: space(name) for name in each} for each in kernels]
for turn in range(500):
    name = chance.choice([*kernels[0], "given", "open"])
    which = chance.random() < 0.3  # of two objects for one kernel: the same buffer each time, or one after the other
    if chance.random() < 0.4:
        last[which][name] = space(name)
    size, group, local, offset = last[which][name]
    kernel, out, number = kernels[which][name], outputs[0 if which else turn % 6], np.uint32(chance.randrange(1 << 20))
    args = [out, cl.LocalMemory(4 * group[0] * group[1]), number] if name == "with_local" else [out, number]
    for _ in range(chance.choice([1, 1, 3])):
        if offset is None:
            kernel(queue, size, local, *args)
        else:
            kernel.set_args(*args)
            cl.enqueue_nd_range_kernel(queue, kernel, size, local, offset)
    if turn % 3 == 0:
        continue
    wide, high = (*size, 1)[:2]
    found = np.empty(wide * high, np.uint32)
    cl.enqueue_copy(queue, found, out)
    wanted = wide + 3 * high + (5 * offset[0] if offset else 0) + 7 * len(size) + int(number)
    if name in ("given", "required"):
        wanted += 1000003 * group[0] + 101 * (high // group[1]) + wide // group[0]
    assert (found == np.uint32(wanted & 0xFFFFFFFF)).all(), (turn, name, size, local, offset, found, wanted)
print(count[0])
"""


DEFECTS = (
    "a launch has the last one's grid",
    "another launch's grid is taken for its own",
    "a launch is told of the last one's grid",
    "every index space has the last one's shape",
    "a required local size that a program leaves open is chosen",
    "a launch that is made again has the last one's sizes",
    "a launch that is made again is told of the last one's index space",
    "each index space has one work-group",
)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return fake_cuda.environment(tmp_path_factory.mktemp("cuda"), "cuda:0") | {"PYOPENCL_NO_CACHE": "1"}


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_launches_over_other_index_spaces(gpu: dict[str, str]) -> None:
    assert made_again(gpu) > 100


def test_launches_over_other_index_spaces_of_a_cpu_worker() -> None:
    env = os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:1", "PYOPENCL_NO_CACHE": "1"}
    assert made_again(env) > 100


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, gpu: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match=r"AssertionError|free|illegal"):
        made_again(gpu | {fake_cuda.PLANTED: defect})


def made_again(env: dict[str, str]) -> int:
    """How many launches were made again over another index space; all of them are checked."""
    return int(fake_cuda.run(SCRIPT, env))
