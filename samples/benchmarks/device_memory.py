"""Buffers that add up to more than one GPU's memory, made and added up on the device, on 2, 4 ... workers.

    python samples/benchmarks/device_memory.py [--share 1.5 | --nbytes N] [--workers 2,4] [--json FILE]

One kernel fills each buffer, another adds each up; the host only sees the sums of work-groups. The sums are
known in closed form. The peak of the process's host memory is measured.
"""

from __future__ import annotations

import resource
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

GROUP, ITEMS, PERIOD = 256, 1 << 20, 1021
SOURCE = """
__kernel void fill(__global uint *values, const ulong n, const uint least)
{
    const size_t i = get_global_id(0);
    if (i < n)
        values[i] = least + (uint)(i % PERIOD);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void add_up(__global const uint *values, __global ulong *sums, const ulong n, const ulong block)
{
    __local ulong scratch[GROUP];
    const uint lid = get_local_id(0);
    const size_t start = get_group_id(0) * block, stop = min((size_t)n, (size_t)(start + block));
    ulong sum = 0;
    for (size_t i = start + lid; i < stop; i += GROUP)
        sum += values[i];
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
MOST_NBYTES, LEAST_BUFFERS = 1 << 32, 4
MOST_HOST_NBYTES = 2e9


def measure(nbytes: int) -> columns.Figures:
    """Seconds to make and to add up so many bytes, the rate of adding up once they are there, and memory."""
    context, queue = common.open_queue()
    number = max(LEAST_BUFFERS, -(-nbytes // MOST_NBYTES))
    n = nbytes // number // 4
    program = cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}", f"-DPERIOD={PERIOD}"])
    fill, add_up = cl.Kernel(program, "fill"), cl.Kernel(program, "add_up")
    groups = max(1, min(ITEMS // GROUP, n // GROUP))
    block = np.uint64(-(-n // groups))
    sums = np.empty(groups, np.uint64)
    sums_buffer = common.room(queue, sums.nbytes)
    began = time.perf_counter()
    buffers = [common.room(queue, 4 * n) for _ in range(number)]
    for least, buffer in enumerate(buffers):
        fill(queue, (common.round_up(n, GROUP),), (GROUP,), buffer, np.uint64(n), np.uint32(least))
    queue.finish()
    made = time.perf_counter() - began
    began = time.perf_counter()
    found = []
    for buffer in buffers:
        add_up(queue, (groups * GROUP,), (GROUP,), buffer, sums_buffer, np.uint64(n), block)
        cl.enqueue_copy(queue, sums, sums_buffer)
        found.append(int(sums.sum()))
    reduced = time.perf_counter() - began
    whole, rest = divmod(n, PERIOD)
    once = whole * (PERIOD * (PERIOD - 1) // 2) + rest * (rest - 1) // 2
    common.check("the buffers' sums", found, [once + least * n for least in range(number)])
    return {
        "device": queue.device.name.strip(),
        "nbytes": 4 * n * number,
        "buffers": number,
        "made_s": made,
        "added_s": reduced,
        "host_nbytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def memory_of_a_gpu() -> int:
    """Bytes of the first GPU's memory."""
    gpus = machine.gpus()
    if not gpus:
        sys.exit("there is no GPU here; say --nbytes")
    return int(gpus[0].split(",")[1].strip().split()[0]) << 20  # "NVIDIA H200, 143771 MiB, 580.159.04"


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--share", type=float, default=1.5, help="of one GPU's memory (default: %(default)s)")
    parser.add_argument("--nbytes", type=common.positive, help="in the place of a share")
    options = parser.parse_args()
    nbytes = options.nbytes or int(options.share * memory_of_a_gpu())
    # One worker has no room for it; where the memory is the host's there is nothing to exceed.
    options.workers = ",".join(str(count) for count in machine.counts_of(options) if count > 1) or "2"
    found = columns.measured(options, lambda: measure(nbytes), native=False)
    lines, bars = [], []
    for name, figures in found.items():
        if "failed" in figures:
            bars.append(columns.least(f"{nbytes / 1e9:.1f} GB of buffers on {name}: right sums", 0, 1))
            continue
        lines.append(
            f"{name}: {figures['buffers']} buffers, {figures['nbytes'] / 1e9:.1f} GB: made in {figures['made_s']:.2f} s, "
            f"added up in {figures['added_s']:.2f} s; {figures['host_nbytes'] / 1e9:.2f} GB of host memory at most"
        )
        bars.append(columns.least(f"{figures['nbytes'] / 1e9:.1f} GB of buffers on {name}: right sums", 1, 1))
        if machine.kind_of(options) == "cuda":  # elsewhere the buffers themselves are in it
            host = columns.value(found, name, "host_nbytes")
            bars.append(columns.most(f"host memory in bytes meanwhile, on {name}", host, MOST_HOST_NBYTES))
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
