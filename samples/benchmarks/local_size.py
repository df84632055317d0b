"""Launches whose local size is left open: 20 index spaces and 4 kernels, natively and on 1, 2 ... workers.

    python samples/benchmarks/local_size.py [--workers 1,2] [--rounds N] [--kind cpu|cuda] [--json FILE]

The kernels: a product of matrices, the same with the dimensions of its index space turned, a sum of neighbours, and one
that asks for its place in the work-group. The time of a launch is the least of some rounds, taken from the better of two processes
for each column. Printed are the ratios to native; the targets are for their geometric means over those launches that take so long
natively that the overhead of launching hardly counts.
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import pyopencl as cl  # noqa: E402

SOURCE = """
#define ITEM int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2); \\
    int w = get_global_size(0), h = get_global_size(1), d = get_global_size(2);
kernel void product(global const float *a, global const float *b, global float *c, int n) {
    ITEM
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[(y + z) % h * n + k] * b[k * w + x];
    c[(z * h + y) * w + x] = sum;
}
kernel void turned(global const float *a, global const float *b, global float *c, int n) {
    ITEM
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[x * n + k] * b[k * h + (y + z) % h];
    c[(x * h + y) * d + z] = sum;
}
kernel void neighbours(global const float *a, global const float *b, global float *c, int n) {
    ITEM
    int at = (z * h + y) * w + x, most = w * h * d - 1;
    c[at] = a[at] + a[max(at - 1, 0)] + a[min(at + 1, most)] + a[max(at - w, 0)] + a[min(at + w, most)];
}
kernel void placed(global const float *a, global const float *b, global float *c, int n) {
    ITEM
    int at = (z * h + y) * w + x;
    c[at] = a[at] * (1 + (get_local_id(0) + get_local_id(1) + get_local_id(2)) % 1);
}
"""
SPACES: tuple[tuple[int, ...], ...] = (
    (1 << 10,), (1 << 14,), (1 << 18,), (100_000,), (65_521,), (96_000,),
    (64, 64), (256, 256), (512, 512), (500, 500), (509, 509), (4096, 16), (16, 4096), (1, 8192), (8192, 1), (1000, 30),
    (64, 64, 64), (32, 32, 8), (100, 50, 10), (4, 256, 64),
)  # fmt: skip
KERNELS = ("product", "turned", "neighbours", "placed")
INNER, ROUNDS, TURNS, MOST, LEAST_SECONDS = 64, 7, 2, 1.2, 200e-6


def name_of(kernel: str, space: tuple[int, ...]) -> str:
    return f"{kernel} {'x'.join(map(str, space))}"


def measure(rounds: int) -> columns.Figures:
    """Seconds of each launch."""
    context, queue = common.open_queue()
    program = cl.Program(context, SOURCE).build()
    most = max(math.prod(space) for space in SPACES)
    content = np.ones(most, np.float32)
    a, b = (common.write(queue, np.resize(content, most * INNER // 8), kept=True) for _ in range(2))
    c = common.write(queue, content, kept=True)
    found: columns.Figures = {"device": queue.device.name.strip(), "sum": 0.0}
    for name in KERNELS:
        kernel = cl.Kernel(program, name)
        for space in SPACES:
            inner = max(1, min(INNER, most * INNER // 8 // max(space)))
            seconds = []
            for _ in range(rounds):
                common.finish(queue)
                began = time.perf_counter()
                kernel(queue, space, None, a, b, c, np.int32(inner))
                common.finish(queue)
                seconds.append(time.perf_counter() - began)
            found[name_of(name, space)] = min(seconds[1:])
            found["sum"] += min(seconds[1:])
    return found


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--rounds", type=common.positive, default=ROUNDS, help="(default: %(default)s)")
    parser.set_defaults(workers="1,2")
    options = parser.parse_args()
    found = columns.measured(options, lambda: measure(max(2, options.rounds)), turns=TURNS, least="sum")
    others = [column for column in found if column != machine.NATIVE]
    lines, bars = [f"{'':26}{'native':>12}" + "".join(f"{column:>8}" for column in others)], []
    ratios: dict[str, list[float]] = {column: [] for column in others}
    for kernel in KERNELS:
        for space in SPACES:
            name = name_of(kernel, space)
            native = columns.value(found, machine.NATIVE, name)
            line = f"{name:26}{(native or 0) * 1e6:9.1f} us"
            for column in others:
                ratio = columns.quotient(columns.value(found, column, name), native)
                if ratio is not None:
                    ratios[column] += [ratio] if native is not None and native >= LEAST_SECONDS else []
                    line += f"{ratio:8.2f}"
            lines.append(line)
    for column, each in ratios.items():
        mean = math.exp(sum(map(math.log, each)) / len(each)) if each else None
        bars.append(
            columns.most(
                f"geometric mean over native of launches from {LEAST_SECONDS * 1e6:.0f} us, {column} workers",
                mean,
                MOST,
            )
        )
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
