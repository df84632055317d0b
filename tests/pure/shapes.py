"""Programs of many shapes on simulated GPUs, of this file's making: `python -m tests.pure.shapes [--only NAMES] [--workers 2,4,8]
[--plan SECONDS]`, for each plan that is made.

Each is looked at with kernels that take tens, hundreds and thousands of microseconds on one GPU. What is printed is how many times as
fast as on one GPU it runs, in its first tenth and after that: it may lose a little at first, and nothing later on.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from tests.pure import test_never_slower
from tests.pure.test_never_slower import CALL, Bench, simulated_host
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND
from vdev.session.commands import BufferArg, Launch, Read, Write

SOURCE = """
kernel void produce(global float *a, global const float *b) { int i = get_global_id(0); a[i] = b[i] + 1; }
kernel void consume(global float *c, global const float *a) {
    int i = get_global_id(0);
    c[i] += a[4 * i] + a[4 * i + 1] + a[4 * i + 2] + a[4 * i + 3];
}
kernel void smooth(global float *a, global const float *b, int n) {
    int i = get_global_id(0);
    a[i] = b[max(i - 1, 0)] + b[min(i + 1, n - 1)];
}
kernel void shrink(global float *a, global const float *b, int first) { int i = first + get_global_id(0); a[i] += b[i]; }
kernel void product(global float *c, global const float *a, global const float *b, int k) {
    int row = get_global_id(0);
    for (int x = 0; x < 16; ++x)
        for (int p = 0; p < k; ++p) c[row * 16 + x] += a[row * k + p] * b[p * 16 + x];
}
kernel void narrow(global float *b, global const float *a, global const float *c, int k, int m) {
    int p = get_global_id(0);
    for (int row = 0; row < m; ++row) b[p * 16 + row % 16] += a[row * k + p] * c[row * 16 + row % 16];
}
kernel void rows(global float *a, int n) {
    int y = get_global_id(0);
    for (int x = 1; x < n; ++x) a[y * n + x] += a[y * n + x - 1];
}
kernel void columns(global float *a, int n) {
    int x = get_global_id(0);
    for (int y = 1; y < n; ++y) a[y * n + x] += a[(y - 1) * n + x];
}
kernel void alone(global float *a) { a[get_global_id(0)] += 1; }
kernel void halve(global float *a, int n) { int i = get_global_id(0); if (i < n) a[i] += a[i + n]; }
kernel void pick(global float *out, global const float *table, global const int *where) {
    int i = get_global_id(0);
    out[i] = table[where[i]];
}
kernel void update(global float *table, global const float *out) { int i = get_global_id(0); table[i] = out[i]; }
kernel void sums(global float *parts, global const float *a) {
    int g = get_group_id(0);
    if (get_local_id(0) == 0) { float s = 0; for (int i = 0; i < 256; ++i) s += a[g * 256 + i]; parts[g] = s; }
}
kernel void scan(global float *parts, int n) { for (int i = 1; i < n; ++i) parts[i] += parts[i - 1]; }
kernel void spread(global float *a, global const float *parts) { a[get_global_id(0)] += parts[get_group_id(0)]; }
kernel void residual(global int *sum, global const float *a, global const float *b) {
    int i = get_global_id(0);
    if (a[i] > b[i]) atomic_add(sum, 1);
}
kernel void multiply(global float *y, global const float *m, global const float *x, int n) {
    int row = get_global_id(0);
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += m[row * n + k] * x[k];
    y[row] = sum;
}
kernel void normalise(global float *x, global const float *y, global const float *norm) {
    int i = get_global_id(0);
    x[i] = y[i] / norm[0];
}
kernel void squares(global int *sum, global const float *y) { atomic_add(sum, (int)(y[get_global_id(0)])); }
kernel void convolve(global float *out, global const float *in, global const float *weights, int width, int rows) {
    int i = get_global_id(0), x = i % width, y = i / width;
    float sum = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = 0; dx < 3; ++dx)
            sum += weights[3 * (dy + 1) + dx] * in[min(max(y + dy, 0), rows - 1) * width + min(x + dx, width - 1)];
    out[i] = sum;
}
kernel void pool(global float *out, global const float *in, int width) {
    int i = get_global_id(0), side = width / 2, x = i % side, y = i / side;
    out[i] = in[2 * y * width + 2 * x] + in[(2 * y + 1) * width + 2 * x + 1];
}
kernel void enlarge(global float *out, global const float *in, int width) {
    int i = get_global_id(0), x = i % width, y = i / width;
    out[i] += in[y / 2 * (width / 2) + x / 2];
}
kernel void border(global float *e, global float *psi, global const float *h, int first) {
    int i = get_global_id(0);
    psi[i] = 0.5f * psi[i] + h[first + i];
    e[first + i] += psi[i];
}
kernel void source(global float *e, int at, int step) { e[at + get_global_id(0)] += step; }
kernel void bin(global int *count, global const float *at) { atomic_inc(&count[(int)at[get_global_id(0)]]); }
kernel void neighbours(global int *near, global const float *at, global const int *count, int each) {
    int i = get_global_id(0);
    for (int k = 0; k < each; ++k) near[i * each + k] = count[(int)at[i] + k];
}
kernel void forces(global float *force, global const float *at, global const int *near, int each) {
    int i = get_global_id(0);
    float sum = 0;
    for (int k = 0; k < each; ++k) sum += at[near[i * each + k]] - at[i];
    force[i] = sum;
}
kernel void integrate(global float *at, global const float *force) { int i = get_global_id(0); at[i] += force[i]; }
kernel void walk(global int *sum, global const float *state, int step) {
    int i = get_global_id(0);
    if (state[i] > step) atomic_add(sum, 1);
}
kernel void gemms(global float *c, global const float *a, global const float *b, int first) {
    int g = first + get_global_id(0), matrix = g / 256, row = g / 16 % 16, column = g % 16;
    for (int k = 0; k < 16; ++k) c[g] += a[matrix * 256 + row * 16 + k] * b[matrix * 256 + k * 16 + column];
}
kernel void match(global int *found, global const uchar *text, global const uchar *pattern, int n) {
    int i = get_global_id(0), k = 0;
    while (k < 16 && text[min(i + k, n - 1)] == pattern[k]) ++k;
    if (k == 16) atomic_inc(found);
}
kernel void level(global float *x, global const float *values, global const int *where, int first, int each) {
    int row = first + get_global_id(0);
    float sum = 0;
    for (int k = 0; k < each; ++k) sum += values[row * each + k] * x[where[row * each + k]];
    x[row] -= sum;
}
kernel void tiny(global float *a) { a[get_global_id(0)] *= 2; }
"""


class Machine:
    """What a program sees: buffers, launches in one of two queues, and reads that it waits for."""

    def __init__(self, bench: Bench, each: float) -> None:
        self.bench, self.each = bench, each
        self.session = bench.program.session
        self.queues = [bench.program.queue, self.session.create_queue(in_order=True)]
        self.host = np.zeros(1 << 16, np.uint8)

    def zeros(self, count: int) -> Any:
        return self.bench.zeros(count).made

    def run(self, name: str, items: int, *args: Any, queue: int = 0) -> None:
        if not queue:
            self.bench.run(name, (items,), (64,), *args)
            return
        program = self.bench.program
        program.machine.work(CALL)
        given = tuple(BufferArg(arg, 0, arg.nbytes) for arg in args)
        ndrange = NDRange((items,), (64,), (0,))
        self.session.submit(Launch(program.kernels[name], given, ndrange), queue=self.queues[queue])

    def read(self, buffer: Any, nbytes: int) -> None:
        """Wait for the first bytes of a buffer, as the façade does."""
        read = Read(buffer, Layout.contiguous(0, nbytes), self.host[:nbytes])
        if self.session.read_at_once(read, self.queues[0]) is None:
            self.session.submit(read, queue=self.queues[0]).wait()

    def write(self, buffer: Any, nbytes: int) -> None:
        self.session.submit(
            Write(buffer, Layout.contiguous(0, nbytes), self.host[:nbytes]), queue=self.queues[0]
        )


Steps = Iterator[None]
N = 1 << 22


def producer_consumer(m: Machine) -> Steps:
    a, b, c = m.zeros(N), m.zeros(N), m.zeros(N // 4)
    while True:
        m.run("produce", N, a, b)
        m.run("consume", N // 4, c, a)
        yield


def ping_pong(m: Machine) -> Steps:
    """A stencil whose edge is looked at now and then."""
    pair = [m.zeros(N), m.zeros(N)]
    while True:
        for _ in range(20):
            m.run("smooth", N, *pair, N)
            pair.reverse()
        m.read(pair[0], 4096)
        yield


def shrinking(m: Machine) -> Steps:
    """Ranges that shrink to nothing, and begin again."""
    a, b = m.zeros(N), m.zeros(N)
    while True:
        for part in range(32):
            first = part * N // 32
            m.run("shrink", N - first, a, b, first)
            yield


def tall_and_skinny(m: Machine) -> Steps:
    rows, k = 1 << 18, 32
    a, b, c = m.zeros(rows * k), m.zeros(k * 16), m.zeros(rows * 16)
    while True:
        m.run("product", rows, c, a, b, k)
        m.run("tiny", k * 16, b)
        yield


def there_and_back(m: Machine) -> Steps:
    """All rows of a matrix, then all columns."""
    n = 2048
    a = m.zeros(n * n)
    while True:
        m.run("rows", n, a, n)
        m.run("columns", n, a, n)
        yield


def batches(m: Machine) -> Steps:
    """Small buffers that have nothing to do with each other."""
    buffers = [m.zeros(1 << 16) for _ in range(32)]
    while True:
        for buffer in buffers:
            m.run("alone", 1 << 16, buffer)
        yield


def tree(m: Machine) -> Steps:
    """A reduction in steps, whose result is waited for."""
    a = m.zeros(N)
    while True:
        m.run("alone", N, a)
        n = N // 2
        while n >= 64:
            m.run("halve", n, a, n)
            n //= 4
        m.read(a, 64)
        yield


def gather(m: Machine) -> Steps:
    """Random places of a large table, of which a small part changes."""
    table, out, where = m.zeros(1 << 25), m.zeros(N), m.zeros(N)
    while True:
        m.run("pick", N, out, table, where)
        m.run("update", 1 << 12, table, out)
        yield


def two_queues(m: Machine) -> Steps:
    chains = [[m.zeros(N), m.zeros(N)] for _ in range(2)]
    while True:
        for queue, pair in enumerate(chains):
            m.run("produce", N, *pair, queue=queue)
            pair.reverse()
        yield


def scan(m: Machine) -> Steps:
    a, parts = m.zeros(N), m.zeros(N // 64)
    while True:
        m.run("sums", N // 4, parts, a)
        m.run("scan", 1, parts, N // 256)
        m.run("spread", N, a, parts)
        yield


def convergence(m: Machine) -> Steps:
    """A stencil whose change is counted and waited for at each step."""
    pair, changed = [m.zeros(N), m.zeros(N)], m.zeros(16)
    while True:
        m.write(changed, 64)
        m.run("smooth", N, *pair, N)
        m.run("residual", N, changed, *pair)
        m.read(changed, 64)
        pair.reverse()
        yield


def mixed(m: Machine) -> Steps:
    """One long kernel, then many that take nothing."""
    a, b = m.zeros(N), m.zeros(1 << 14)
    while True:
        m.run("alone", N, a)
        for _ in range(20):
            m.run("tiny", 1 << 14, b)
        m.run("update", 1 << 14, a, b)
        yield


def power_iteration(m: Machine) -> Steps:
    """A matrix times a vector, which all rows read; its length is looked at now and then."""
    n = 1 << 13
    matrix, x, y, norm = m.zeros(n * n), m.zeros(n), m.zeros(n), m.zeros(16)
    for step in itertools.count():
        m.run("multiply", n, y, matrix, x, n)
        m.run("squares", n, norm, y)
        m.run("normalise", n, x, y, norm)
        if step % 10 == 9:
            m.read(norm, 64)
        yield


def checked_jacobi(m: Machine) -> Steps:
    """Ten sweeps, then what has changed is counted and waited for."""
    pair, changed = [m.zeros(N), m.zeros(N)], m.zeros(16)
    while True:
        for _ in range(10):
            m.run("smooth", N, *pair, N)
            pair.reverse()
        m.write(changed, 64)
        m.run("residual", N, changed, *pair)
        m.read(changed, 64)
        yield


def network(m: Machine) -> Steps:
    """Layer by layer, each with an image a fourth as large; then the last is looked at."""
    width = 2048
    layers = [(m.zeros(width * width >> 2 * k), m.zeros(width * width >> 2 * k)) for k in range(6)]
    weights = [m.zeros(16) for _ in layers]
    while True:
        for k, (image, out) in enumerate(layers):
            side = width >> k
            m.run("convolve", side * side, out, image, weights[k], side, side)
            if k + 1 < len(layers):
                m.run("pool", side * side // 4, layers[k + 1][0], out, side)
        m.read(layers[-1][1], 4096)
        yield


def absorbing(m: Machine) -> Steps:
    """Two fields, with thin layers at both ends and a source that is a few points."""
    e, h, edge = m.zeros(N), m.zeros(N), 1 << 14
    psi = [m.zeros(edge), m.zeros(edge)]
    for step in itertools.count():
        m.run("smooth", N, h, e, N)
        m.run("smooth", N, e, h, N)
        m.run("border", edge, e, psi[0], h, 0)
        m.run("border", edge, e, psi[1], h, N - edge)
        m.run("source", 64, e, N // 2, step)
        yield


def molecules(m: Machine) -> Steps:
    """Forces over lists of neighbours, which are made anew after twenty steps."""
    n, each = 1 << 18, 32
    at, force, count, lists = m.zeros(n), m.zeros(n), m.zeros(1 << 15), m.zeros(n * each)
    while True:
        m.run("tiny", 1 << 15, count)
        m.run("bin", n, count, at)
        m.run("neighbours", n, lists, at, count, each)
        for _ in range(20):
            m.run("forces", n, force, at, lists, each)
            m.run("integrate", n, at, force)
        yield


def monte_carlo(m: Machine) -> Steps:
    """Much work, and a few bytes that are waited for at each step."""
    state, total = m.zeros(N), m.zeros(16)
    for step in itertools.count():
        m.write(total, 64)
        m.run("walk", N, total, state, step)
        m.read(total, 4)
        yield


def small_products(m: Machine) -> Steps:
    """Many small matrices, a part of them at a time."""
    a, b, c = m.zeros(N), m.zeros(N), m.zeros(N)
    while True:
        for part in range(8):
            m.run("gemms", N // 8, c, a, b, part * N // 8)
        yield


def pyramid(m: Machine) -> Steps:
    """Levels of an image from large to small and back, for frame after frame."""
    width = 2048
    levels = [m.zeros(width * width >> 2 * k) for k in range(7)]
    while True:
        m.write(levels[0], 1 << 16)
        for k in range(6):
            m.run("pool", (width >> k) ** 2 // 4, levels[k + 1], levels[k], width >> k)
        for k in reversed(range(6)):
            m.run("enlarge", (width >> k) ** 2, levels[k], levels[k + 1], width >> k)
        yield


def patterns(m: Machine) -> Steps:
    """A text in which one pattern after the other is looked for."""
    text, pattern, found = m.zeros(N), m.zeros(16), m.zeros(16)
    while True:
        m.write(pattern, 16)
        m.write(found, 4)
        m.run("match", N, found, text, pattern, 4 * N)
        m.read(found, 4)
        yield


def triangular_solve(m: Machine) -> Steps:
    """By levels, whose rows read what earlier levels have found, wherever it is."""
    n, each = 1 << 18, 8
    x, values, where = m.zeros(n), m.zeros(n * each), m.zeros(n * each)
    sizes = [1 << 10, 1 << 14, 1 << 16, 1 << 16, 1 << 15, 1 << 13, 1 << 11, 1 << 9]
    while True:
        first = 0
        for size in sizes:
            m.run("level", size, x, values, where, first, each)
            first += size
        yield


@dataclass(frozen=True)
class Shape:
    """A program, its steps, and the work-items of launches that take the given time."""

    program: Callable[[Machine], Steps]
    steps: int
    items: dict[str, int]


SHAPES = {
    shape.program.__name__: shape
    for shape in (
        Shape(producer_consumer, 150, {"produce": N, "consume": N // 4}),
        Shape(ping_pong, 20, {"smooth": N}),
        Shape(shrinking, 320, {"shrink": N}),
        Shape(tall_and_skinny, 200, {"product": 1 << 18}),
        Shape(there_and_back, 150, {"rows": 2048, "columns": 2048}),
        Shape(batches, 20, {"alone": 1 << 16}),
        Shape(tree, 60, {"alone": N, "halve": N}),
        Shape(gather, 150, {"pick": N}),
        Shape(two_queues, 150, {"produce": N}),
        Shape(scan, 150, {"sums": N // 4, "spread": N}),
        Shape(convergence, 150, {"smooth": N, "residual": N}),
        Shape(mixed, 100, {"alone": N}),
        Shape(power_iteration, 100, {"multiply": 1 << 13}),
        Shape(checked_jacobi, 40, {"smooth": N, "residual": N}),
        Shape(network, 60, {"convolve": N, "pool": N}),
        Shape(absorbing, 100, {"smooth": N}),
        Shape(molecules, 20, {"forces": 1 << 18, "neighbours": 1 << 16, "integrate": N, "bin": N}),
        Shape(monte_carlo, 150, {"walk": N}),
        Shape(small_products, 40, {"gemms": N // 8}),
        Shape(pyramid, 60, {"pool": N // 4, "enlarge": N}),
        Shape(patterns, 150, {"match": N}),
        Shape(triangular_solve, 60, {"level": 1 << 16}),
    )
}
#: seconds that launches take on one GPU
TIMES = (3e-5, 3e-4, 3e-3)
#: so many times as many steps of the shortest: programs of some ten milliseconds
SHORT = 4


def took(shape: Shape, workers: int, each: float, rate: float = PEER_BYTES_PER_SECOND) -> tuple[float, float]:
    """Seconds of the first tenth of a shape, and of the rest."""
    count = shape.steps * (SHORT if each == min(TIMES) else 1)
    with simulated_host() as benches:
        names = [line.split("(")[0].split()[-1] for line in SOURCE.splitlines() if line.startswith("kernel")]
        per_item = {name: each / shape.items[name] if name in shape.items else 1e-12 for name in names}
        bench = Bench(per_item, 0, count, workers, rate)
        bench.build(SOURCE)
        assert all(kernel.summary is not None for kernel in bench.program.kernels.values())
        benches.append(bench)
        machine = bench.program.machine
        machine.latency = 1e-5
        steps = shape.program(Machine(bench, each))
        found = [bench.program.wait()]
        for number in range(1, count + 1):
            next(steps)
            if number == count // 10:
                found.append(bench.program.wait())
        found.append(bench.program.wait())
    return found[1] - found[0], found[2] - found[1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pure.shapes", description=__doc__)
    parser.add_argument("--only", default="", help="shapes, separated by commas")
    parser.add_argument("--workers", default="2,4,8", help="GPUs, separated by commas")
    parser.add_argument("--plan", type=float, default=0.0001, help="seconds that the making of a plan takes")
    arguments = parser.parse_args()
    os.environ["VDEV_CACHE"] = "0"
    test_never_slower.PLAN = arguments.plan
    counts = [int(each) for each in arguments.workers.split(",")]
    print(f"| program | each, us | {' | '.join(map(str, counts))} |\n|---|---:|{'---:|' * len(counts)}")
    for name, shape in SHAPES.items():
        if arguments.only and name not in arguments.only.split(","):
            continue
        for each in TIMES:
            one = took(shape, 1, each)
            cells = []
            for count in counts:
                several = took(shape, count, each)
                cells.append(" / ".join(f"{a / b:.2f}" for a, b in zip(one, several, strict=True)))
            print(f"| {name} | {each * 1e6:.0f} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
