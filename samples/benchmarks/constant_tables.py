"""Tables in the constant address space: natively and on 1, 2 ... workers.

    python samples/benchmarks/constant_tables.py [--workers 1,2] [--size N] [--kind cpu|cuda] [--json FILE]

Kernels of N work-items read a table that the program defines, of 256 bytes or of 4 KB, in different ways: all work-items the same
element in turn, each its own, one that data give, and elements at places that the compiler knows. Beside each, the same kernel with the
table in a buffer. The time of a launch is the least of some rounds of launches in a row, the best of three processes for each column.
"""

from __future__ import annotations

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

#: by name: elements of the table, and what a work-item makes of its number `x` and the table
CASES = {
    "the same for all, 4 KB": (1024, "for (int j = 0; j < n; j++) s = s * x + T[j];"),
    "the same for all, 256 bytes": (64, "for (int j = 0; j < n; j++) s = s * x + T[j & 63];"),
    "each its own, 4 KB": (1024, "for (int j = 0; j < n; j++) s += x * T[(j * 7 + get_local_id(0)) & 1023];"),
    "given by data, 4 KB": (
        1024,
        "int at = x * 1000; for (int j = 0; j < n; j++) { at = (at * 5 + 3) & 1023; s += x * T[at]; }",
    ),
    "given by data, 256 bytes": (
        64,
        "int at = x * 1000; for (int j = 0; j < n; j++) { at = (at * 5 + 3) & 63; s += x * T[at]; }",
    ),
    "known places": (64, "for (int j = 0; j < 64; j++) s = s * x + T[j];"),
}
BODY = "int i = get_global_id(0); float s = 0, x = from[i]; {work} to[i] = s;"
SIZE, TIMES, ROUNDS, LAUNCHES, TURNS, MOST = 1 << 16, 256, 5, 10, 3, 1.03
_GROUP = 64


def measure(size: int) -> columns.Figures:
    """Seconds of a launch."""
    context, queue = common.open_queue()
    rng = np.random.default_rng(5)
    numbers = rng.random(size, dtype=np.float32)
    source, target = common.write(queue, numbers, kept=True), common.write(queue, numbers, kept=True)
    found: columns.Figures = {"device": queue.device.name.strip(), "sum": 0.0}
    for name, (elements, work) in CASES.items():
        table = rng.random(elements, dtype=np.float32)
        values = ", ".join(f"{value:.8f}f" for value in table)
        body = BODY.format(work=work)
        text = f"constant float T[{elements}] = {{{values}}};" + (
            f"kernel void apply(global const float *from, global float *to, int n) {{ {body} }}"
        )
        other = f"kernel void apply(global const float *from, global float *to, int n, global const float *T) {{ {body} }}"
        given = common.write(queue, table, kept=True)
        for label, program, more in ((name, text, ()), (f"{name}, buffer", other, (given,))):
            apply = cl.Kernel(cl.Program(context, program).build(), "apply")
            seconds = []
            for _ in range(ROUNDS + 1):
                common.finish(queue)
                began = time.perf_counter()
                for _ in range(LAUNCHES):
                    apply(queue, (size,), (_GROUP,), source, target, np.int32(TIMES), *more)
                common.finish(queue)
                seconds.append((time.perf_counter() - began) / LAUNCHES)
            found[label] = min(seconds[1:])
            found["sum"] += min(seconds[1:])
    return found


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument(
        "--size", type=common.positive, default=SIZE, help="work-items (default: %(default)s)"
    )
    parser.set_defaults(workers="1,2")
    options = parser.parse_args()
    size = -(-options.size // _GROUP) * _GROUP
    found = columns.measured(options, lambda: measure(size), turns=TURNS, least="sum")
    native = found.get(machine.NATIVE, {})
    lines, bars = [], []
    for name in CASES:
        for label in (name, f"{name}, buffer"):
            if label not in native:
                continue
            line = f"{label:38}{native[label] * 1e6:9.1f} us"
            for column, figures in found.items():
                if column == machine.NATIVE or label not in figures:
                    continue
                ratio = columns.quotient(figures[label], native[label])
                line += f"{ratio or 0:8.2f}"
                if label == name and column == "1":
                    bars.append(columns.most(f"{label}, {column} worker over native", ratio, MOST))
            lines.append(line)
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
