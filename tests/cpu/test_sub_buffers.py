"""Kernels that reach beyond their sub-buffers: on several workers they find there what they find on one device.

Nothing says that they may (specification 5.2.1), and nothing keeps them from it: programs that lay out structures in one buffer, with
distances between them, give their kernels a sub-buffer where a structure begins.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import numpy as np, pyopencl as cl, vdev
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void halo(global const int *a, global int *b, int s)
{
    int i = get_global_id(0);
    b[i] = a[i - 1 - s] + 3 * a[i + 1 + s];
}
kernel void gather(global const int *a, global const int *at, global int *b)
{
    int i = get_global_id(0);
    b[i] = a[at[i]];
}
kernel void scatter(global int *a, global const int *at)
{
    int i = get_global_id(0);
    a[at[i]] = i;
}
kernel void backwards(global int *a)
{
    int i = get_global_id(0);
    a[-1 - i] = 7 * i;
}
kernel void linked(global const long *record)
{
    global const char *other = (global const char *)record + record[0];
    global long *own = (global long *)record + 1;
    own[get_global_id(0)] = ((global const long *)other)[get_global_id(0)];
}
kernel void count(global int *a, int by)
{
    int i = get_global_id(0);
    a[i] = i + by;
}
''').build()
N, HALF, GROUP = 4096, 2048, (64,)
kernels = {name: cl.Kernel(program, name) for name in ("halo", "gather", "scatter", "backwards", "linked", "count")}
rng = np.random.default_rng(1)
flags = cl.mem_flags
a, b = (cl.Buffer(context, flags.READ_WRITE, 4 * N) for _ in range(2))
found = {}

def part(buffer, first, count):
    return buffer.get_sub_region(4 * first, 4 * count)

def content(buffer, dtype=np.int32):
    host = np.empty(4 * N // np.dtype(dtype).itemsize, dtype)
    cl.enqueue_copy(queue, host, buffer)
    return host

def counted(by):
    kernels["count"](queue, (N,), GROUP, a, np.int32(by))  # parts of it on each worker
    return np.arange(N, dtype=np.int32) + by

def check(name, got, expected):
    found[name] = found.get(name, 0) + int(np.count_nonzero(got != expected))

for s in (0, 1, 2, 3, 100, 5, 1000, 7, 8, 9):  # one plan may serve for several
    for first in (1024, 1280, 1536):
        host = counted(s)
        kernels["halo"](queue, (1024,), GROUP, part(a, first, 1024), b, np.int32(s))
        i = first + np.arange(1024)
        check("halo", content(b)[:1024], host[i - 1 - s] + 3 * host[i + 1 + s])
for first in (256, 1024, 2048):
    host = counted(first)
    places = rng.integers(-first, N - first, HALF).astype(np.int32)
    at = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=places)
    kernels["gather"](queue, (HALF,), GROUP, part(a, first, 512), at, b)
    check("gather", content(b)[:HALF], host[first + places])
    places = (rng.permutation(N) - first).astype(np.int32)[:HALF]
    at = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=places)
    kernels["scatter"](queue, (HALF,), GROUP, part(a, first, 512), at)
    host[first + places] = np.arange(HALF)
    check("scatter", content(a), host)
host = counted(5)
kernels["backwards"](queue, (1024,), GROUP, part(a, HALF, 64))
host[HALF - 1 - np.arange(1024)] = 7 * np.arange(1024)
check("backwards", content(a), host)
for first, target in ((1024, 0), (512, 1024)):  # in elements of eight bytes
    records = np.arange(N // 2, dtype=np.int64)
    records[first] = 8 * (target - first)
    cl.enqueue_copy(queue, b, records)
    kernels["linked"](queue, (256,), GROUP, part(b, 2 * first, 16))
    records[first + 1 : first + 257] = records[target : target + 256]
    check("linked", content(b, np.int64), records)
split = [kernel.name for kernel in vdev.stats().kernels if kernel.split] if "vdev" in context.devices[0].platform.name.lower() else []
print("FOUND", json.dumps([found, split]))
"""


@functools.cache
def _found(workers: int | None) -> tuple[dict[str, int], list[str]]:
    """By kernel, how many elements differ from what NumPy finds, natively (None) or on so many workers; and which are split."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    if workers is not None:
        environ |= {
            "VDEV": "1",
            "VDEV_WORKERS": f"cpu:{workers}",
            "VDEV_MIN_ITEMS": "0",
            "VDEV_PLANNING": "always",
        }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=900)
    assert "FOUND" in done.stdout, done.stderr
    found, split = json.loads(done.stdout.split("FOUND")[1])
    return found, split


@pytest.mark.parametrize("workers", [None, 1, 2, 3])
@pytest.mark.parametrize("kernel", ["halo", "gather", "scatter", "backwards", "linked"])
def test_kernels_find_what_lies_beside_their_sub_buffers(kernel: str, workers: int | None) -> None:
    assert _found(workers)[0][kernel] == 0


def test_those_of_which_that_is_known_are_split_all_the_same() -> None:
    assert {"halo", "gather", "backwards", "count"} <= set(_found(2)[1])
