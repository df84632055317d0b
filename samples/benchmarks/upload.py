"""How fast a plain NumPy array gets to where the next kernel reads it in blocks, natively and on 1, 2, 4 ...
workers.

    python samples/benchmarks/upload.py [--nbytes N] [--workers 1,2,4] [--json FILE]

The time is that of making a buffer, writing the array and running a kernel in which each work-group adds up
a block of it. The write is enqueued without waiting, or waited for, or is the buffer's making
(COPY_HOST_PTR); the targets are for the first.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import pyopencl as cl  # noqa: E402

GROUP, BLOCK = 256, 16384  # work-items of a group, numbers that it adds up
SOURCE = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void add_blocks(__global const uint *values, __global uint *sums)
{
    __local uint scratch[GROUP];
    const uint lid = get_local_id(0);
    uint sum = 0;
    for (uint i = lid; i < BLOCK; i += GROUP)
        sum += values[get_group_id(0) * BLOCK + i];
    scratch[lid] = sum;
    for (uint reach = GROUP / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < reach)
            scratch[lid] += scratch[lid + reach];
    }
    if (lid == 0)
        sums[get_group_id(0)] = scratch[0];
}
"""
WAYS = "write", "blocking write", "copy when made"
ROUNDS = 2


def measure(nbytes: int) -> columns.Figures:
    """GB a second of each way, the best of some rounds after one."""
    blocks = nbytes // (4 * BLOCK)
    drawn = np.random.default_rng(1).integers(0, 1 << 32, min(blocks * BLOCK, common.MOST_DRAWN), np.uint32)
    values = common.repeated(drawn, blocks * BLOCK)
    sums = np.empty(blocks, np.uint32)
    context, queue = common.open_queue()
    program = cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}", f"-DBLOCK={BLOCK}"])
    add_blocks = cl.Kernel(program, "add_blocks")
    chosen = common.some(blocks, 4096)
    expected = values.reshape(blocks, BLOCK)[chosen].sum(1, dtype=np.uint32)
    found: dict[str, Any] = {"device": queue.device.name.strip(), "nbytes": values.nbytes}

    def seconds(way: str) -> float:
        target = common.room(queue, sums.nbytes)
        sums[:] = 0
        queue.finish()
        begin = time.perf_counter()
        flags = cl.mem_flags.READ_ONLY
        if way == "copy when made":
            buffer, event = cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=values), None
        else:
            buffer = cl.Buffer(context, flags, values.nbytes)
            event = cl.enqueue_copy(queue, buffer, values, is_blocking=way == "blocking write")
        add_blocks(queue, (blocks * GROUP,), (GROUP,), buffer, target)
        queue.finish()
        end = time.perf_counter()
        cl.enqueue_copy(queue, sums, target)
        del event
        common.check(f"{way}: sums of {chosen.size} of {blocks} blocks", sums[chosen], expected)
        return end - begin

    for way in WAYS:
        times = [seconds(way) for _ in range(ROUNDS + 1)]
        found[way] = values.nbytes * 1e-9 / min(times[1:])
        found[f"{way}, first"] = values.nbytes * 1e-9 / times[0]
    return found


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--nbytes", type=common.positive, default=1 << 33, help="(default: %(default)s)")
    options = parser.parse_args()
    found = columns.measured(options, lambda: measure(options.nbytes))
    lines, bars = [], []
    for name, figures in found.items():
        if "failed" not in figures:
            rates = "; ".join(
                f"{way} {figures[way]:.1f} (first {figures[f'{way}, first']:.1f})" for way in WAYS
            )
            lines.append(f"{name}: GB/s: {rates}")
    native = columns.value(found, machine.NATIVE, "write")
    for workers, wanted in (("2", 3.0), ("4", 5.0)):
        if workers in found:
            ratio = columns.quotient(columns.value(found, workers, "write"), native)
            bars.append(columns.least(f"upload read in blocks, {workers} over native", ratio, wanted))
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
