"""Brute force: runs every work-item of a generated kernel and notes each byte it touches.

Knows nothing of the analysis. Numbers follow C's rules, spelled out in `ARITHMETIC`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from .kernels import TYPES, GeneratedKernel


class Undefined(Exception):
    """The kernel does what C leaves undefined, or never ends."""


def _wrap(bits: int, signed: bool) -> Any:
    half, size = (1 << (bits - 1) if signed else 0), 1 << bits

    def wrap(number: int) -> int:
        return (number + half) % size - half

    return wrap


def c_div(a: int, b: int) -> int:
    if b == 0:
        raise Undefined
    return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)


def c_mod(a: int, b: int) -> int:
    return a - b * c_div(a, b)


def _fits_24(*numbers: int) -> None:
    if any(not -(1 << 23) <= number < 1 << 23 for number in numbers):
        raise Undefined


def c_mul24(a: int, b: int) -> int:
    _fits_24(a, b)
    return a * b


def c_mad24(a: int, b: int, c: int) -> int:
    _fits_24(a, b)
    return a * b + c


ARITHMETIC: dict[str, Any] = {
    **{f"w_{name}": _wrap(*kind) for name, kind in TYPES.items()},
    "c_div": c_div,
    "c_mod": c_mod,
    "c_min": min,
    "c_max": max,
    "c_clamp": lambda x, low, high: min(max(x, low), high),
    "c_mul24": c_mul24,
    "c_mad24": c_mad24,
    "c_select": lambda a, b, c: b if c else a,
}

_INT_WRAPS = {name: ARITHMETIC[f"w_{name}"] for name in TYPES}


class WorkItem:
    """One work-item's ids, and for how long it may run."""

    def __init__(self, ndrange: NDRange, group: tuple[int, ...], lid: tuple[int, ...]) -> None:
        dims = range(ndrange.work_dim)
        self.lid, self.group = lid, group
        self.gid = [group[d] * ndrange.local_size[d] + lid[d] + ndrange.offset[d] for d in dims]
        # of a partial work-group what it is (OpenCL C 3.0, 6.15.1)
        self.lsize = [
            min(ndrange.local_size[d], ndrange.global_size[d] - group[d] * ndrange.local_size[d])
            for d in dims
        ]
        self.gsize = ndrange.global_size
        self.ngroups, self.offset = ndrange.num_groups, ndrange.offset
        self.ticks = 0

    def tick(self) -> bool:
        self.ticks += 1
        if self.ticks > 300:
            raise Undefined
        return True


class Item(WorkItem):
    """One work-item whose accesses are traced."""

    def __init__(self, trace: Trace, ndrange: NDRange, group: tuple[int, ...], lid: tuple[int, ...]) -> None:
        super().__init__(ndrange, group, lid)
        self.trace = trace

    def read(self, buffer: int, offset: int, nbytes: int) -> None:
        self.trace.touch(buffer, "read", None, offset, nbytes)

    def write(self, buffer: int, offset: int, nbytes: int) -> None:
        self.trace.touch(buffer, "write", None, offset, nbytes)

    def update(self, buffer: int, offset: int, nbytes: int) -> None:
        self.read(buffer, offset, nbytes)
        self.write(buffer, offset, nbytes)

    def atomic(self, buffer: int, offset: int, nbytes: int, op: str | None) -> None:
        self.trace.touch(buffer, "atomic", op, offset, nbytes)

    def load(self, buffer: int, offset: int, nbytes: int, name: str) -> int:
        self.read(buffer, offset, nbytes)
        return self.trace.number(buffer, offset, name)

    def noise(self, site: int, name: str) -> int:
        return self.trace.number(-site, self.gid[0] * 7 + self.ticks, name)


class Trace:
    """The bytes touched by the work-items of one chunk, clipped to the buffers."""

    def __init__(self, sizes: dict[int, int], seed: int) -> None:
        self.sizes = sizes
        self.seed = seed
        self.masks: dict[tuple[int, str, str | None], npt.NDArray[np.bool_]] = {}

    def touch(self, buffer: int, mode: str, op: str | None, offset: int, nbytes: int) -> None:
        offset = (offset + (1 << 63)) % (1 << 64) - (1 << 63)
        key = (buffer, mode, op)
        mask = self.masks.get(key)
        if mask is None:
            mask = self.masks[key] = np.zeros(self.sizes[buffer], bool)
        start, stop = max(offset, 0), min(offset + nbytes, len(mask))
        if start < stop:
            mask[start:stop] = True

    def number(self, buffer: int, offset: int, name: str) -> int:
        """What is at a place: small numbers mostly, sometimes negative ones."""
        mixed = hash((self.seed, buffer, offset % (1 << 64))) & 0xFFFF
        number = mixed % 17 if mixed & 0xF000 else -(mixed % 5)
        return int(_INT_WRAPS[name](number))

    def region(self, buffer: int, mode: str, op: str | None) -> Region:
        mask = self.masks.get((buffer, mode, op))
        if mask is None:
            return Region.empty()
        edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
        return Region.from_runs(edges.reshape(-1, 2))


def touched(
    kernel: GeneratedKernel, ndrange: NDRange, chunk: Chunk, sizes: dict[int, int], seed: int
) -> Trace:
    """What the work-items of `chunk` touch. Raises Undefined where the kernel has no meaning."""
    trace = Trace(sizes, seed)
    arguments = list(kernel.scalars.values())
    groups = [
        itertools.product(*(range(a, b) for a, b in zip(box.start, box.stop, strict=True)))
        for box in chunk.boxes()
    ]
    for group in itertools.chain(*groups):
        for lid in itertools.product(*(range(n) for n in ndrange.local_size)):
            inside = all(
                g * n + i < size
                for g, n, i, size in zip(group, ndrange.local_size, lid, ndrange.global_size, strict=True)
            )
            if inside:
                kernel.run(Item(trace, ndrange, group, lid), *arguments)
    return trace
