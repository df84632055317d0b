"""Two GPUs of which one has half of its multiprocessors taken by somebody else: how near launches come to the ideal shares.

    python samples/benchmarks/unequal_workers.py [--size N] [--json FILE]

A kernel that computes is launched again and again on one GPU alone, on the other one alone, and on both. On the other one, once its first
launches are through, a kernel that never ends holds all registers of every second multiprocessor, so that no work-group has
room there. With the times t and u of the two alone, ideal shares take 1 / (1 / t + 1 / u); the bar is a tenth more than that. Equal shares
take half of u.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import pyopencl as cl  # noqa: E402

SOURCE = """
kernel void compute(global float *values, int count)
{
    int i = get_global_id(0);
    float x = values[i], y = 0.5f;
    for (int k = 0; k < count; ++k) { x = x * 0.999f + y; y = y * 0.998f - x * 1e-3f; }
    values[i] = x + y;
}
"""
#: takes a multiprocessor's registers with a single group: 1,024 threads of 64; for some seconds at most, whatever happens
OCCUPY = """
extern "C" __global__ void __launch_bounds__(1024, 1) occupy(volatile const int *go_on, float *out, unsigned long long most)
{
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
    float v[54];
    #pragma unroll
    for (int k = 0; k < 54; ++k) v[k] = threadIdx.x + k;
    int more = 1;
    while (more) {
        for (int n = 0; n < 64; ++n) {
            #pragma unroll
            for (int k = 0; k < 54; ++k) v[k] = v[k] * 0.9999f + v[(k + 1) % 54] * 1e-4f;
        }
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        more = __syncthreads_and(threadIdx.x || (*go_on && now - began < most));
    }
    float sum = 0;
    #pragma unroll
    for (int k = 0; k < 54; ++k) sum += v[k];
    out[blockIdx.x * 1024 + threadIdx.x] = sum;
}
"""
SIZE, COUNT, GROUP = 1 << 22, 8192, 256
#: launches before the other GPU is taken in part, launches to get used to it, and then rounds of launches
BEFORE, SETTLING, ROUNDS, LAUNCHES = 40, 400, 7, 40
MOST, SECONDS = 1.10, 20


def occupied(number: int) -> tuple[int, Callable[[], None]]:
    """Take half of a GPU's multiprocessors: the registers of a thread, and what gives them back."""
    import cupy as cp

    with cp.cuda.Device(number) as device:
        half = device.attributes["MultiProcessorCount"] // 2
        held = cp.cuda.alloc_pinned_memory(4)
        go_on = np.frombuffer(held, np.int32, 1)
        go_on[0] = 1
        stream, out = cp.cuda.Stream(non_blocking=True), cp.zeros(half * 1024, np.float32)
        kernel = cp.RawKernel(OCCUPY, "occupy")
        registers = int(kernel.num_regs)
        device.synchronize()
        with stream:
            kernel((half,), (1024,), (np.uint64(held.ptr), out, np.uint64(SECONDS * 10**9)))

    def give_back() -> None:
        go_on[0] = 0
        with cp.cuda.Device(number):
            stream.synchronize()

    return registers, give_back


def measure(size: int, taken: int | None) -> columns.Figures:
    """Seconds of a launch, the best of some rounds, where the GPU `taken` is taken by half."""
    context, queue = common.open_queue()
    compute = cl.Kernel(cl.Program(context, SOURCE).build(), "compute")
    compute.set_arg_types([None, np.int32])
    values = common.write(queue, np.linspace(0, 1, size, dtype=np.float32), kept=True)

    def launches(count: int) -> float:
        common.finish(queue)
        began = time.perf_counter()
        for _ in range(count):
            compute(queue, (size,), (GROUP,), values, np.int32(COUNT))
        common.finish(queue)
        return (time.perf_counter() - began) / count

    found: columns.Figures = {"device": queue.device.name.strip(), "before": launches(BEFORE)}
    registers, give_back = (0, lambda: None) if taken is None else occupied(taken)
    try:
        found["settling"] = launches(SETTLING)
        found["seconds"] = min(launches(LAUNCHES) for _ in range(ROUNDS))
    finally:
        give_back()
    return found | {"registers": registers, "groups": _groups()}


def _groups() -> list[int]:
    """By worker, the work-groups of the launches that were cut last."""
    import vdev

    (kernel,) = vdev.stats().kernels
    latest = kernel.partitions[-1].chunks
    return [stop[0] - start[0] for _, start, stop in latest]


def process(where: str, taken: str, size: int) -> columns.Figures:
    """What a process on these workers finds."""
    command = [sys.executable, sys.argv[0], "--part", "--taken", taken, "--size", str(size)]
    environment = machine.environment("cuda", 2) | {"VDEV_WORKERS": where}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=columns.TIMEOUT
    )
    if done.returncode:
        return {"failed": machine.last_line(done.stdout + done.stderr)}
    found: columns.Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument(
        "--size", type=common.positive, default=SIZE, help="work-items (default: %(default)s)"
    )
    parser.add_argument("--taken", default="", help="the GPU that is taken by half")
    options = parser.parse_args()
    size = -(-options.size // GROUP) * GROUP
    if options.part:
        print("\n" + json.dumps(measure(size, int(options.taken) if options.taken else None)))
        return 0
    found = {
        "one": process("cuda:0", "", size),
        "half": process("cuda:1", "1", size),
        "both": process("cuda:0,1", "1", size),
    }
    lines = [f"{name:6}{_told(figures)}" for name, figures in found.items()]
    times: Any = [columns.value(found, name, "seconds") for name in found]
    ratio = None if None in times else times[2] * (1 / times[0] + 1 / times[1])
    bars = [columns.most("both, over the ideal shares", ratio, MOST)]
    return columns.conclude(options, found, lines, bars)


def _told(figures: columns.Figures) -> str:
    if "failed" in figures:
        return str(figures["failed"])
    return (
        f"{figures['seconds'] * 1e6:9.1f} us a launch ({figures['before'] * 1e6:.1f} before), "
        f"work-groups {figures['groups']}"
    )


if __name__ == "__main__":
    sys.exit(main())
