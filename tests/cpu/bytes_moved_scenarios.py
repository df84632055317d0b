"""Ordinary PyOpenCL programs whose traffic `test_bytes_moved` states; run as `python -m
tests.cpu.bytes_moved_scenarios NAME`.

Prints one JSON object: for every launch the bytes moved by its plan by route and how many workers took
part, in order, and what the back ends counted over the whole run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from vdev.session.commands import Launch
from vdev.start.current import get_session

SIZE = 64  # rows and columns of the matrices
FACTOR = 512  # of those that are multiplied
COUNT = 3 * 4096  # elements of the vectors
BINS = 256

Launches = list[dict[str, Any]]


def matrix_multiplication(queue: cl.CommandQueue) -> None:
    kernel = cl.Kernel(cl.Program(queue.context, MATMUL).build(), "multiply")
    a, b = (np.random.default_rng(k).random((FACTOR, FACTOR), np.float32) for k in (1, 2))
    c = np.empty_like(a)
    a_buf, b_buf = (cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=m) for m in (a, b))
    c_buf = cl.Buffer(queue.context, cl.mem_flags.WRITE_ONLY, c.nbytes)
    for _ in range(2):
        kernel(queue, (FACTOR, FACTOR), (8, 8), c_buf, a_buf, b_buf, np.int32(FACTOR), np.int32(FACTOR))
    cl.enqueue_copy(queue, c, c_buf)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


MATMUL = """
__kernel void multiply(__global float *C, __global const float *A, __global const float *B, int WA, int WB) {
    int i = get_global_id(0), j = get_global_id(1);
    float acc = 0;
    for (int k = 0; k < WA; k++) acc += A[k + j * WA] * B[i + k * WB];
    C[i + j * WB] = acc;
}
"""


def stencil(queue: cl.CommandQueue) -> None:
    kernel = cl.Kernel(cl.Program(queue.context, STENCIL).build(), "advance")
    field = np.random.default_rng(3).random((SIZE, SIZE), np.float32)
    u = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=field)
    v = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, field.nbytes)
    expected = field
    for _ in range(3):
        kernel(queue, (SIZE, SIZE), (8, 8), v, u, np.int32(SIZE), np.int32(SIZE))
        u, v = v, u
        inner = expected[1:-1, 1:-1] + np.float32(0.2) * (
            expected[:-2, 1:-1]
            + expected[2:, 1:-1]
            + expected[1:-1, :-2]
            + expected[1:-1, 2:]
            - 4 * expected[1:-1, 1:-1]
        )
        expected = expected.copy()
        expected[1:-1, 1:-1] = inner
    result = np.empty_like(field)
    cl.enqueue_copy(queue, result, u)
    np.testing.assert_allclose(result, expected, rtol=1e-4)


STENCIL = """
__kernel void advance(__global float *out, __global const float *in, int w, int h) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= w || y >= h) return;
    float c = in[y * w + x];
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
        c += 0.2f * (in[(y - 1) * w + x] + in[(y + 1) * w + x] + in[y * w + x - 1] + in[y * w + x + 1] - 4 *
        c);
    out[y * w + x] = c;
}
"""


def transpose(queue: cl.CommandQueue) -> None:
    kernel = cl.Kernel(cl.Program(queue.context, TRANSPOSE).build(), "transpose")
    matrix = np.random.default_rng(4).random((SIZE, SIZE), np.float32)
    source = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=matrix)
    target = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, matrix.nbytes)
    for _ in range(2):
        kernel(queue, (SIZE, SIZE), (8, 8), target, source, np.int32(SIZE), np.int32(SIZE))
    result = np.empty_like(matrix)
    cl.enqueue_copy(queue, result, target)
    np.testing.assert_array_equal(result, matrix.T)


TRANSPOSE = """
__kernel void transpose(__global float *out, __global const float *in, int w, int h) {
    __local float tile[8][9];
    int lx = get_local_id(0), ly = get_local_id(1);
    tile[ly][lx] = in[get_global_id(1) * w + get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    int x = get_group_id(1) * 8 + lx, y = get_group_id(0) * 8 + ly;
    out[y * h + x] = tile[lx][ly];
}
"""


def saxpy(queue: cl.CommandQueue) -> None:
    x = cl_array.to_device(queue, np.arange(COUNT, dtype=np.float32))
    y = cl_array.to_device(queue, np.ones(COUNT, np.float32))
    results = [3 * x + y for _ in range(2)]
    for result in results:
        np.testing.assert_array_equal(result.get(), 3 * np.arange(COUNT, dtype=np.float32) + 1)


def histogram(queue: cl.CommandQueue) -> None:
    kernel = cl.Kernel(cl.Program(queue.context, HISTOGRAM).build(), "histogram")
    data = np.random.default_rng(5).integers(0, BINS, COUNT).astype(np.uint32)
    values = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=data)
    bins = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(BINS, np.uint32))
    for _ in range(2):
        kernel(queue, (COUNT,), (64,), bins, values)
    result = np.empty(BINS, np.uint32)
    cl.enqueue_copy(queue, result, bins)
    np.testing.assert_array_equal(result, 2 * np.bincount(data, minlength=BINS))


HISTOGRAM = """
__kernel void histogram(__global uint *bins, __global const uint *values) {
    atomic_inc(&bins[values[get_global_id(0)] & 255]);
}
"""


def scatter(queue: cl.CommandQueue) -> None:
    kernel = cl.Kernel(cl.Program(queue.context, SCATTER).build(), "scatter")
    order = np.random.default_rng(6).permutation(COUNT).astype(np.int32)
    value = np.arange(COUNT, dtype=np.float32)
    order_buf, value_buf = (
        cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=m) for m in (order, value)
    )
    out = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.full(COUNT, -1, np.float32))
    for _ in range(2):
        kernel(queue, (COUNT,), (64,), out, order_buf, value_buf)
    result = np.empty(COUNT, np.float32)
    cl.enqueue_copy(queue, result, out)
    expected = np.empty_like(result)
    expected[order] = value
    np.testing.assert_array_equal(result, expected)


SCATTER = """
__kernel void scatter(__global float *out, __global const int *index, __global const float *value) {
    int i = get_global_id(0);
    out[index[i]] = value[i];
}
"""


def stripes(queue: cl.CommandQueue) -> None:
    """A kernel fills a vector, another one reads it in strides of its grid."""
    program = cl.Program(queue.context, STRIPES).build()
    fill, add = cl.Kernel(program, "fill"), cl.Kernel(program, "add")
    count, grid = LONG, 64 * 12 * 8
    values = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4 * count)
    sums = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(grid, np.int32))
    for step in range(5):
        fill(queue, (-(-count // 64) * 64,), (64,), values, np.int32(step), np.int32(count))
        add(queue, (grid,), (64,), sums, values, np.int32(count))
    found, last = np.empty(grid, np.int32), np.empty(count, np.int32)
    cl.enqueue_copy(queue, found, sums)
    cl.enqueue_copy(queue, last, values)
    numbers = np.arange(count, dtype=np.int64)
    expected = np.zeros(grid, np.int64)
    np.add.at(expected, numbers % grid, sum(numbers * 3 % 1021 + step for step in range(5)))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(last, numbers * 3 % 1021 + 4)


LONG = (1 << 20) + 37
STRIPES = """
__kernel void fill(__global int *values, int step, int n) {
    size_t i = get_global_id(0);
    if (i < n) values[i] = i * 3 % 1021 + step;
}
__kernel void add(__global int *sums, __global const int *values, int n) {
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) sums[get_global_id(0)] += values[i];
}
"""


SCENARIOS: dict[str, Callable[[cl.CommandQueue], None]] = {
    f.__name__: f for f in (matrix_multiplication, stencil, transpose, saxpy, histogram, scatter, stripes)
}


def run(name: str) -> dict[str, Any]:
    session = get_session()
    launches: Launches = []

    def observe(command: object, plan: Any) -> None:
        routes = {f"{source}>{target}": nbytes for source, target, nbytes in plan.moved}
        planned.append(plan.moved)
        if isinstance(command, Launch):
            launches.append(
                {
                    "workers": len(plan.partition),
                    "routes": routes,
                    "nbytes": plan.moved_nbytes,
                    "reasons": plan.reasons,
                }
            )

    planned: list[Any] = []
    session.observers.append(observe)
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    SCENARIOS[name](queue)
    queue.finish()
    counters = session.executor.counters()
    folds = session.ledger.command("fold").moved
    folded = folds.host_to_worker + folds.worker_to_worker + folds.worker_to_host
    return {
        "launches": launches,
        "folded": folded,
        "planned": folded + sum(nbytes for moved in planned for _, _, nbytes in moved),
        "counted": sum(c.from_host + c.to_host + c.from_peer for c in counters),
    }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])))
