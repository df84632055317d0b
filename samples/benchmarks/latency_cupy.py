"""The programs of `latency.py` by CuPy's kernels, streams, events and copies on one or more GPUs, as one thread makes them by hand.

    python samples/benchmarks/latency_cupy.py --devices 0,1 [--only NAME,...]

Each GPU has a slab of the volume and of the values; neighbours copy each other's edge planes before each step, and the
bins of all are added on the first GPU. A device that is named twice stands for two. Prints one line of JSON:
microseconds of a step by program, and of its calls.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import cupy as cp
from cupy.cuda import runtime

SOURCE = """
extern "C" __global__ void stencil(float *to, const float *from, int planes, int rows, int wide)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z + 1;
    const long at = ((long)z * rows + y) * wide + x;
    if (x == 0 || y == 0 || x >= wide - 1 || y >= rows - 1 || z > planes)
        return;
    to[at] = 0.4f * from[at] + 0.1f * (from[at - 1] + from[at + 1] + from[at - wide] + from[at + wide]
                                       + from[at - (long)rows * wide] + from[at + (long)rows * wide]);
}
extern "C" __global__ void count(unsigned *bins, const unsigned *values, unsigned n)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[values[i] % 1024], 1u);
}
extern "C" __global__ void fold(unsigned *sums, const unsigned *parts, int n)
{
    for (int part = 0; part < n; ++part)
        sums[threadIdx.x] += parts[part * 1024 + threadIdx.x];
}
extern "C" __global__ void chain(unsigned *to, const unsigned *from)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i] + 1;
}
extern "C" __global__ void add(unsigned *counts, unsigned step)
{
    counts[blockIdx.x * blockDim.x + threadIdx.x] += step;
}
extern "C" __global__ void nothing(unsigned *counts) {}
"""
VOLUME, VALUES, ITEMS, CHAINED, BINS = (1280, 640, 640), 1 << 25, 1 << 20, 65536, 1024
STEPS, ROUNDS = 200, 3

Step = Callable[[int], object]


class Machine:
    """GPUs with a stream each, by number; one may stand for several."""

    def __init__(self, devices: list[int]) -> None:
        self.devices = devices
        self.streams: list[Any] = []
        self.kernels: list[dict[str, Any]] = []
        for number, device in enumerate(devices):
            with cp.cuda.Device(device):
                self.streams.append(cp.cuda.Stream(non_blocking=True))
                module = cp.RawModule(code=SOURCE)
                names = ("stencil", "count", "fold", "chain", "add", "nothing")
                self.kernels.append({name: module.get_function(name) for name in names})
                for other in set(devices) - {device}:
                    if number == devices.index(device):
                        runtime.deviceEnablePeerAccess(other)
        self.events = [self._event(device) for device in devices]

    @staticmethod
    def _event(device: int) -> Any:
        with cp.cuda.Device(device):
            return cp.cuda.Event(disable_timing=True)

    def zeros(self, number: int, shape: Any, dtype: Any) -> Any:
        with cp.cuda.Device(self.devices[number]), self.streams[number]:
            return cp.zeros(shape, dtype)

    def launch(
        self, number: int, name: str, grid: tuple[int, ...], block: tuple[int, ...], *args: Any
    ) -> None:
        with cp.cuda.Device(self.devices[number]), self.streams[number]:
            self.kernels[number][name](grid, block, args)

    def copy(self, to: int, target: int, source_of: int, source: int, nbytes: int) -> None:
        """On the receiver's stream, behind what the sender has been handed."""
        self.streams[to].wait_event(self.events[source_of])
        runtime.memcpyPeerAsync(
            target, self.devices[to], source, self.devices[source_of], nbytes, self.streams[to].ptr
        )

    def record(self) -> None:
        """An event behind what each GPU has been handed."""
        for event, stream in zip(self.events, self.streams, strict=True):
            event.record(stream)

    def finish(self) -> None:
        for stream in self.streams:
            stream.synchronize()


def stencil(m: Machine) -> Step:
    planes, rows, wide = VOLUME[0] // len(m.devices), *VOLUME[1:]
    plane = rows * wide * 4
    pairs = [[m.zeros(n, (planes + 2, rows, wide), cp.float32) for _ in "ab"] for n in range(len(m.devices))]
    grid, block = (wide // 64, rows // 4, planes), (64, 4, 1)

    def step(number: int) -> None:
        m.record()
        for n in range(len(m.devices)):
            source = pairs[n][number % 2]
            if n > 0:
                other = pairs[n - 1][number % 2]
                m.copy(n, source.data.ptr, n - 1, other.data.ptr + planes * plane, plane)
            if n + 1 < len(m.devices):
                other = pairs[n + 1][number % 2]
                m.copy(n, source.data.ptr + (planes + 1) * plane, n + 1, other.data.ptr + plane, plane)
        m.record()
        for n in range(len(m.devices)):
            # What neighbours copy from here has to be done before the step after next writes it: that one's copies wait
            # for theirs.
            to, source = pairs[n][(number + 1) % 2], pairs[n][number % 2]
            sizes = (cp.int32(planes), cp.int32(rows), cp.int32(wide))
            m.launch(n, "stencil", grid, block, to, source, *sizes)

    return step


def merge(m: Machine) -> Step:
    share = VALUES // len(m.devices)
    values = [m.zeros(n, share, cp.uint32) for n in range(len(m.devices))]
    for n, device in enumerate(m.devices):
        with cp.cuda.Device(device), m.streams[n]:
            values[n][:] = (cp.arange(share, dtype=cp.uint32) * cp.uint32(2654435761)) >> cp.uint32(7)
    bins = [m.zeros(n, BINS, cp.uint32) for n in range(len(m.devices))]
    parts, sums = m.zeros(0, (len(m.devices), BINS), cp.uint32), m.zeros(0, BINS, cp.uint32)

    def step(_: int) -> None:
        for n in range(len(m.devices)):
            m.launch(n, "count", (132 * 64,), (256,), bins[n], values[n], cp.uint32(share))
        m.record()
        for n in range(len(m.devices)):
            m.copy(0, parts[n].data.ptr, n, bins[n].data.ptr, BINS * 4)
        m.launch(0, "fold", (1,), (BINS,), sums, parts, cp.int32(len(m.devices)))

    return step


def chain(m: Machine) -> Step:
    count = len(m.devices)
    share = CHAINED // count
    pairs = [[m.zeros(n, share, cp.uint32) for _ in "ab"] for n in range(count)]
    inputs = [m.zeros(n, share, cp.uint32) for n in range(count)]

    def step(number: int) -> None:
        m.record()
        for n in range(count):
            ahead = (n + max(count // 4, 1)) % count
            m.copy(n, inputs[n].data.ptr, ahead, pairs[ahead][number % 2].data.ptr, share * 4)
        for n in range(count):
            m.launch(n, "chain", (share // 256,), (256,), pairs[n][(number + 1) % 2], inputs[n])

    return step


def small_read(m: Machine) -> Step:
    counts = m.zeros(0, 256, cp.uint32)

    def step(_: int) -> None:
        m.launch(0, "add", (1,), (256,), counts, cp.uint32(1))
        with cp.cuda.Device(m.devices[0]):
            counts[:16].get(stream=m.streams[0])

    return step


def empty(m: Machine) -> Step:
    counts = m.zeros(0, 256, cp.uint32)
    return lambda _: m.launch(0, "nothing", (1,), (256,), counts)


def rotation(m: Machine) -> Step:
    counts = m.zeros(0, 256, cp.uint32)
    text = "".join(
        f'extern "C" __global__ void k{k}(unsigned *c, unsigned s) {{ c[threadIdx.x] += {k} + s; }}\n'
        for k in range(100)
    )
    with cp.cuda.Device(m.devices[0]):
        module = cp.RawModule(code=text)
        kernels = [module.get_function(f"k{k}") for k in range(100)]

    def step(number: int) -> None:
        with cp.cuda.Device(m.devices[0]), m.streams[0]:
            kernels[number % 100]((1,), (256,), (counts, cp.uint32(number)))

    return step


def repeated(m: Machine) -> Step:
    share = ITEMS // len(m.devices)
    counts = [m.zeros(n, share, cp.uint32) for n in range(len(m.devices))]

    def step(_: int) -> None:
        for n in range(len(m.devices)):
            m.launch(n, "add", (share // 256,), (256,), counts[n], cp.uint32(1))

    return step


def waited(m: Machine) -> Step:
    launch = repeated(m)

    def step(number: int) -> None:
        launch(number)
        m.finish()

    return step


PROGRAMS = {f.__name__: f for f in (stencil, merge, chain, small_read, empty, rotation, repeated, waited)}


def timed(m: Machine, step: Step) -> tuple[float, float]:
    """Microseconds of a step, and of its calls, the best of some rounds."""
    best, number = (float("inf"), float("inf")), 0
    for _ in range(ROUNDS + 1):
        m.finish()
        began = time.perf_counter()
        for _ in range(STEPS):
            step(number)
            number += 1
        called = time.perf_counter()
        m.finish()
        best = min(best, ((time.perf_counter() - began) / STEPS * 1e6, (called - began) / STEPS * 1e6))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=lambda text: [int(part) for part in text.split(",")], default=[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PROGRAMS))
    options = parser.parse_args()
    machine, found = Machine(options.devices), {}
    for name, program in PROGRAMS.items():
        if name in options.only:
            found[name], found[f"{name}, calls"] = timed(machine, program(machine))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
