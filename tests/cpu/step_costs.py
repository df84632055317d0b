"""What steps of recurring programs cost the host on several GPUs, on the driver for machines without one:

    python -m tests.cpu.step_costs [--workers 1,2,4] [--only NAME,...] [--profile NAME]

Kernels do nothing there (`FAKE_CUDA_IDLE`), so that what is left is what vdev and the driver's calls take. Shown are, for a step,
the microseconds of the program's calls, those of the processor that the calling thread and all threads take, and the bytecodes of
Python that the calling thread executes. How long the driver's calls take is not a GPU's; what is done between them is.

    repeated    a launch without exchange
    pair        the same on two buffers in turn
    halo        a launch that reads its neighbours' items; two buffers take turns
    stencil     the same in three dimensions
    merge       bins added by atomics, and a kernel that reads them
    anew        a launch into a new buffer, and one that reads it into another; both are dropped
    chain       four short kernels on the same buffers
    kmeans      4 KiB are written, a kernel adds to sums by atomics, and they are read
    gradient    a matrix-vector product that needs the whole vector, two sums, two updates, and a read of 4 bytes
    pagerank    a product that needs the whole vector, by an index, and a read of 4 bytes each tenth step
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.bytecodes import Bytecodes

STEPS, WARM, ROUNDS, COUNTED = 300, 300, 5, 60
SOURCE = """
__kernel void add(__global uint *out, const uint step) { out[get_global_id(0)] += step; }
__kernel void scale(__global float *out, __global const float *in, const float by)
{
    out[get_global_id(0)] = in[get_global_id(0)] * by;
}
__kernel void smooth(__global float *out, __global const float *in, const float middle)
{
    const size_t i = get_global_id(0), last = get_global_size(0) - 1;
    const float before = i > 0 ? in[i - 1] : 0.0f, after = i < last ? in[i + 1] : 0.0f;
    out[i] = middle * in[i] + 0.25f * (before + after);
}
__kernel void stencil(__global float *to, __global const float *from, const int planes, const int rows, const int wide)
{
    const int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    const long at = ((long)z * rows + y) * wide + x;
    if (x == 0 || y == 0 || z == 0 || x == wide - 1 || y == rows - 1 || z >= planes - 1)
        return;
    to[at] = 0.4f * from[at] + 0.1f * (from[at - 1] + from[at + 1] + from[at - wide] + from[at + wide]
                                       + from[at - (long)rows * wide] + from[at + (long)rows * wide]);
}
__kernel void count(__global uint *bins, __global const uint *values)
{
    atomic_inc(&bins[values[get_global_id(0)] % 1024]);
}
__kernel void look(__global uint *seen, __global const uint *bins) { seen[get_global_id(0)] += bins[get_global_id(0)] & 1; }
__kernel void assign(__global uint *sums, __global const float *points, __global const float *centroids)
{
    const float at = points[get_global_id(0)];
    uint best = 0;
    for (uint k = 1; k < 1024; k++)
        if (fabs(at - centroids[k]) < fabs(at - centroids[best]))
            best = k;
    atomic_inc(&sums[best]);
}
__kernel void clear(__global uint *sums) { sums[get_global_id(0)] = 0; }
__kernel void product(__global float *out, __global const float *matrix, __global const float *in, const int n)
{
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += matrix[get_global_id(0) * n + k] * in[k];
    out[get_global_id(0)] = sum;
}
__kernel void dot_parts(__global float *parts, __global const float *a, __global const float *b, __local float *kept)
{
    const int at = get_local_id(0);
    kept[at] = a[get_global_id(0)] * b[get_global_id(0)];
    for (int rest = get_local_size(0) / 2; rest > 0; rest /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (at < rest)
            kept[at] += kept[at + rest];
    }
    if (at == 0)
        parts[get_group_id(0)] = kept[0];
}
__kernel void total(__global float *out, __global const float *parts, const int n)
{
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += parts[k];
    out[0] = sum;
}
__kernel void update(__global float *out, __global const float *in, __global const float *by)
{
    out[get_global_id(0)] += in[get_global_id(0)] * by[0];
}
__kernel void rank(__global float *out, __global const float *in, __global const uint *sources, const float damping)
{
    const int i = get_global_id(0);
    float sum = 0;
    for (int k = 0; k < 8; k++)
        sum += in[sources[8 * i + k]];
    out[i] = 0.15f + damping * sum;
}
"""
N, GROUP = 4096, 64
Step = Callable[[int], object]


class Programs:
    """A context, a queue, and the programs on them."""

    def __init__(self) -> None:
        import pyopencl as cl

        self.cl = cl
        self.context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(self.context)
        self.kernels = {
            each.function_name: each for each in cl.Program(self.context, SOURCE).build().all_kernels()
        }

    def kernel(self, name: str, *types: object) -> Callable[..., object]:
        kernel = self.kernels[name]
        kernel.set_arg_types(types)
        return kernel

    def buffer(self, items: int = N) -> object:
        given = np.zeros(items, np.float32)
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.COPY_HOST_PTR
        return self.cl.Buffer(self.context, flags, hostbuf=given)

    def repeated(self) -> Step:
        add, counts = self.kernel("add", None, np.uint32), self.buffer()
        return lambda number: add(self.queue, (N,), (GROUP,), counts, np.uint32(1))

    def pair(self) -> Step:
        scale, pair = self.kernel("scale", None, None, np.float32), [self.buffer(), self.buffer()]
        half = np.float32(0.5)
        return lambda number: scale(
            self.queue, (N,), (GROUP,), pair[number % 2], pair[(number + 1) % 2], half
        )

    def halo(self) -> Step:
        smooth, pair = self.kernel("smooth", None, None, np.float32), [self.buffer(), self.buffer()]
        half = np.float32(0.5)
        return lambda number: smooth(
            self.queue, (N,), (GROUP,), pair[number % 2], pair[(number + 1) % 2], half
        )

    def stencil(self) -> Step:
        kernel = self.kernel("stencil", None, None, np.int32, np.int32, np.int32)
        numbers = [np.int32(n) for n in (32, 16, 64)]
        pair = [self.buffer(32 * 16 * 64) for _ in range(2)]
        size, local = (64, 16, 32), (64, 4, 1)
        return lambda number: kernel(
            self.queue, size, local, pair[number % 2], pair[(number + 1) % 2], *numbers
        )

    def merge(self) -> Step:
        count, look = self.kernel("count", None, None), self.kernel("look", None, None)
        bins, seen, values = self.buffer(1024), self.buffer(1024), self.buffer()

        def step(_: int) -> None:
            count(self.queue, (N,), (GROUP,), bins, values)
            look(self.queue, (1024,), (GROUP,), seen, bins)

        return step

    def anew(self) -> Step:
        scale = self.kernel("scale", None, None, np.float32)
        smooth, begun, half = self.kernel("smooth", None, None, np.float32), self.buffer(), np.float32(0.5)

        def step(_: int) -> None:
            scaled, smoothed = (
                self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, 4 * N) for _ in range(2)
            )
            scale(self.queue, (N,), (GROUP,), scaled, begun, half)
            smooth(self.queue, (N,), (GROUP,), smoothed, scaled, half)

        return step

    def chain(self) -> Step:
        scale, update = self.kernel("scale", None, None, np.float32), self.kernel("update", None, None, None)
        a, b, c, one = self.buffer(), self.buffer(), self.buffer(), self.buffer(64)

        def step(number: int) -> None:
            scale(self.queue, (N,), (GROUP,), a, b, np.float32(number))
            update(self.queue, (N,), (GROUP,), b, a, one)
            scale(self.queue, (N,), (GROUP,), c, b, np.float32(0.5))
            update(self.queue, (N,), (GROUP,), b, c, one)

        return step

    def kmeans(self) -> Step:
        assign, clear = self.kernel("assign", None, None, None), self.kernel("clear", None)
        sums, points, centroids = self.buffer(1024), self.buffer(), self.buffer(1024)
        given, found = np.zeros(1024, np.float32), np.zeros(1024, np.uint32)

        def step(_: int) -> None:
            self.cl.enqueue_copy(self.queue, centroids, given)
            clear(self.queue, (1024,), (GROUP,), sums)
            assign(self.queue, (N,), (GROUP,), sums, points, centroids)
            self.cl.enqueue_copy(self.queue, found, sums)

        return step

    def gradient(self) -> Step:
        n, queue = 1024, self.queue
        product = self.kernel("product", None, None, None, np.int32)
        dot_parts, total = (
            self.kernel("dot_parts", None, None, None, None),
            self.kernel("total", None, None, np.int32),
        )
        update = self.kernel("update", None, None, None)
        matrix, x, r, p, q = self.buffer(n * n), *(self.buffer(n) for _ in range(4))
        parts, one, other = self.buffer(n // GROUP), self.buffer(1), self.buffer(1)
        local, groups, found = self.cl.LocalMemory(4 * GROUP), np.int32(n // GROUP), np.zeros(1, np.float32)

        def step(_: int) -> None:
            product(queue, (n,), (GROUP,), q, matrix, p, np.int32(n))
            dot_parts(queue, (n,), (GROUP,), parts, p, q, local)
            total(queue, (1,), (1,), one, parts, groups)
            update(queue, (n,), (GROUP,), x, p, one)
            update(queue, (n,), (GROUP,), r, q, one)
            dot_parts(queue, (n,), (GROUP,), parts, r, r, local)
            total(queue, (1,), (1,), other, parts, groups)
            update(queue, (n,), (GROUP,), p, r, other)
            self.cl.enqueue_copy(queue, found, other)

        return step

    def pagerank(self) -> Step:
        rank, queue = self.kernel("rank", None, None, None, np.float32), self.queue
        pair, sources = [self.buffer(), self.buffer()], self.buffer(8 * N)
        damping, found = np.float32(0.85), np.zeros(1, np.float32)

        def step(number: int) -> None:
            rank(queue, (N,), (GROUP,), pair[number % 2], pair[(number + 1) % 2], sources, damping)
            if number % 10 == 9:
                self.cl.enqueue_copy(queue, found, pair[number % 2])

        return step


NAMES = ("repeated", "pair", "halo", "stencil", "merge", "anew", "chain", "kmeans", "gradient", "pagerank")


def measure(programs: Programs, name: str, profiled: bool) -> dict[str, float]:
    """Of a step: microseconds of the calls, of the calling thread's processor time, and of all threads', the best of some rounds."""
    step, best = getattr(programs, name)(), [float("inf")] * 3
    for number in range(WARM):
        step(number)
    programs.queue.finish()
    for _ in range(ROUNDS):
        began = time.perf_counter(), time.thread_time(), time.process_time()
        for number in range(STEPS):
            step(number)
        taken = time.perf_counter() - began[0], time.thread_time() - began[1], time.process_time() - began[2]
        programs.queue.finish()
        best = [min(least, each / STEPS * 1e6) for least, each in zip(best, taken, strict=True)]
    found = dict(zip(("calls", "thread", "process"), best, strict=True))
    found["bytecodes"] = _bytecodes(step)
    programs.queue.finish()
    if profiled:
        _profile(programs, step)
    return found


def _bytecodes(step: Step) -> float:
    """How many of Python's instructions a step takes of the calling thread: the same on a busy machine."""
    with Bytecodes() as found:
        for number in range(COUNTED):
            step(number)
    return found.count / COUNTED


def _profile(programs: Programs, step: Step) -> None:
    """Print where the calling thread's time goes, and how many functions of Python a step calls."""
    import cProfile
    import pstats

    profile = cProfile.Profile()
    profile.enable()
    for number in range(STEPS):
        step(number)
    profile.disable()
    programs.queue.finish()
    found = pstats.Stats(profile, stream=sys.stderr)
    found.sort_stats("tottime").print_stats(45)


def main_of_child(names: list[str], profiled: bool) -> None:
    programs = Programs()
    print(json.dumps({name: measure(programs, name, profiled) for name in names}))


def main() -> int:
    from tests.pure import fake_cuda

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", default="1,2,4", metavar="COUNT,...")
    parser.add_argument("--only", default=",".join(NAMES), metavar="NAME,...")
    parser.add_argument(
        "--profile", action="store_true", help="where the calling thread's time goes, on the standard error"
    )
    options = parser.parse_args()
    names = options.only.split(",")
    folder = Path(tempfile.gettempdir()) / f"vdev-step-costs-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    always = {
        "VDEV_MIN_ITEMS": "0",
        "VDEV_PLANNING": "always",
        "VDEV_GATHER": "0",
        "FAKE_CUDA_IDLE": "1",
        "PYOPENCL_NO_CACHE": "1",
    }
    for count in options.workers.split(","):
        workers = "cuda:" + ",".join(str(number) for number in range(int(count)))
        env = fake_cuda.environment(folder, workers) | always | {"FAKE_CUDA_DEVICES": count}
        script = (
            f"from tests.cpu.step_costs import main_of_child; main_of_child({names!r}, {options.profile})"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            return done.returncode
        for name, figures in json.loads(done.stdout.splitlines()[-1]).items():
            print(
                f"{count} workers, {name:9} {figures['calls']:7.1f} us of calls, {figures['thread']:7.1f} of the thread's,"
                f" {figures['process']:7.1f} of the process's processor time; {figures['bytecodes']:7.0f} bytecodes"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
