"""Programs of many shapes on simulated GPUs, of this file's making: `python -m tests.pure.shapes [--only NAMES] [--workers 2,4,8]`.

Each is looked at with kernels that take tens, hundreds and thousands of microseconds on one GPU. What is printed is how many times as
fast as on one GPU it runs, in its first tenth and after that: it may lose a little at first, and nothing later on.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

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
    arguments = parser.parse_args()
    os.environ["VDEV_CACHE"] = "0"
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
