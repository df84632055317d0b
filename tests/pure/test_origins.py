"""Sub-buffers on GPUs may begin at any byte, as NVIDIA's own driver has it, whatever alignment the device says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

PROGRAM = """
import json, numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void triple(global int *a, int n) { int i = get_global_id(0); a[i] = a[i] * 3 + n; }
kernel void next(global uchar *to, global const uchar *from) { int i = get_global_id(0); to[i] = from[i] + 1; }
kernel void count(global int *bins, global const uchar *of) { atomic_inc(&bins[of[get_global_id(0)] % 16]); }
''').build()
triple, next_, count = (cl.Kernel(program, name) for name in ("triple", "next", "count"))
SIZE, ROOM = 1 << 14, 512
def made(array):
    return cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
def content(buffer, like):
    found = np.empty_like(like)
    cl.enqueue_copy(queue, found, buffer)
    return found
wrong = []
for origin in (4, 12, 20, 512, 1028):
    numbers, to, bins = np.arange(SIZE + ROOM, dtype=np.int32), np.zeros(SIZE + ROOM, np.uint8), np.zeros(ROOM, np.int32)
    at, part = origin // 4, SIZE - 1088
    a, b, c = made(numbers), made(to), made(bins)
    whole, bytes_of, those = a.get_sub_region(origin, 4 * SIZE), b.get_sub_region(origin + 1, part), c.get_sub_region(origin, 64)
    source = a.get_sub_region(origin + 3, SIZE)
    for turn in range(4):
        triple(queue, (SIZE,), (64,), whole, np.int32(turn))
        numbers[at : at + SIZE] = numbers[at : at + SIZE] * 3 + turn
        next_(queue, (part,), (64,), bytes_of, source)
        to[origin + 1 : origin + 1 + part] = numbers.view(np.uint8)[origin + 3 : origin + 3 + part] + 1
        count(queue, (SIZE,), (64,), those, b)
        bins[at : at + 16] += np.bincount(to[:SIZE] % 16, minlength=16).astype(np.int32)
    for name, buffer, expected in (("triple", a, numbers), ("next", b, to), ("count", c, bins)):
        if content(buffer, expected).tobytes() != expected.tobytes():
            wrong.append((name, origin))
print(json.dumps([wrong, context.devices[0].mem_base_addr_align]))
"""


@pytest.mark.parametrize("workers", ["cuda:0", "cuda:0,1,2"])
def test_parts_begin_anywhere(workers: str, tmp_path: Path) -> None:
    split = {"FAKE_CUDA_DEVICES": "3", "VDEV_MIN_ITEMS": "0", "VDEV_PLANNING": "always", "VDEV_GATHER": "0"}
    said = json.loads(fake_cuda.run(PROGRAM, fake_cuda.environment(tmp_path, workers) | split))
    assert said == [[], 4096]
