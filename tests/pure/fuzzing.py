"""One round of comparing analysed ranges with brute force, for the tests and the long run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.grain import Grain
from vdev.translators.ranges.ndrange import Chunk, Cycle, NDRange, whole_chunk
from vdev.translators.ranges.region import Region

from .kernels import GeneratedKernel, Generator
from .oracle import Trace, Undefined, touched


class Mismatch(AssertionError):
    """The analysis and brute force disagree."""


def random_ndrange(rng: Any) -> NDRange:
    """One to three dimensions, some with an offset, some with a partial last work-group."""
    dims = rng.choice([1, 1, 1, 2, 2, 3])
    limit = {1: 8, 2: 4, 3: 2}[dims]
    local = tuple(rng.randrange(1, limit + 1) for _ in range(dims))
    groups = tuple(rng.randrange(1, 5 if dims < 3 else 3) for _ in range(dims))
    if dims == 1 and rng.random() < 0.3:
        groups = (rng.randrange(4, 13),)  # enough for several blocks
    size = tuple(
        n * g - (rng.randrange(n) if rng.random() < 0.2 else 0) for n, g in zip(local, groups, strict=True)
    )
    offset = tuple(rng.randrange(1, 9) if rng.random() < 0.2 else 0 for _ in range(dims))
    return NDRange(size, local, offset)


def random_chunk(rng: Any, ndrange: NDRange) -> Chunk:
    """A part that a partition over some workers could have: a cut along one dimension, or along all, or blocks that repeat."""
    whole = whole_chunk(ndrange)
    start, stop = list(whole.start), list(whole.stop)
    for d in range(ndrange.work_dim):
        if rng.random() < 0.6:
            start[d] = rng.randrange(stop[d])
            stop[d] = rng.randrange(start[d] + 1, stop[d] + 1)
    axis = rng.randrange(ndrange.work_dim)
    if rng.random() < 0.4 and stop[axis] - start[axis] > 1:
        stride = rng.randrange(2, stop[axis] - start[axis] + 1)
        return Chunk(tuple(start), tuple(stop), Cycle(axis, rng.randrange(1, stride), stride))
    return Chunk(tuple(start), tuple(stop))


def compare(
    kernel: GeneratedKernel, found: tuple[AccessRange, ...], trace: Trace, where: Callable[[], str]
) -> Counter[str]:
    """Raise Mismatch unless every touched byte is in its range, and no other byte in exact ones."""
    keys = [(r.arg, r.mode, r.op, r.dtype) for r in found]
    if len(keys) != len(set(keys)):
        raise Mismatch(f"two ranges for one key\n{where()}")
    counts: Counter[str] = Counter()
    for (arg, mode, op), _ in trace.masks.items():
        actual = trace.region(arg, mode, op)
        ranges = [r for r in found if r.arg == arg and r.mode == mode and (mode != "atomic" or r.op == op)]
        analysed = Region.union(r.region for r in ranges)
        if not analysed.contains(actual):
            raise Mismatch(f"{mode} of argument {arg} misses {actual - analysed}\n{where()}")
    for r in found:
        actual = trace.region(r.arg, r.mode, r.op)
        counts["exact" if r.exact else "inexact"] += 1
        if r.exact and r.region != actual:
            raise Mismatch(f"{r.mode} of argument {r.arg}: exact {r.region}, touched {actual}\n{where()}")
        if not r.exact and not r.reason:
            raise Mismatch(f"{r.mode} of argument {r.arg} is not exact for no reason\n{where()}")
        if not r.exact and r.region == actual:
            counts["inexact though equal"] += 1
    return counts


def compare_with_alone(
    found: tuple[AccessRange, ...], alone: tuple[AccessRange, ...], where: Callable[[], str]
) -> None:
    """Raise Mismatch unless the ranges of a chunk are those of the chunk evaluated alone, or closer ones."""
    by_key = {(r.arg, r.mode, r.op, r.dtype): r for r in alone}
    for r in found:
        other = by_key.pop((r.arg, r.mode, r.op, r.dtype), None)
        if other is not None and _grains(r) == _grains(other) and replace(r, grains=other.grains) == other:
            continue
        if other is None or other.exact or not other.region.contains(r.region):
            raise Mismatch(f"of a launch: {r}\nof the chunk: {other}\n{where()}")
    if any(other.exact for other in by_key.values()):
        raise Mismatch(f"of the chunk only: {by_key}\n{where()}")


def _grains(item: AccessRange) -> dict[Grain, Region]:
    """In whatever order."""
    return {grain: region for region, grain in item.grains}


def one_round(rng: Any) -> Counter[str]:
    """Generate a kernel and a few launches; compare. Raises Mismatch; returns what was seen."""
    ndrange = random_ndrange(rng)
    kernel = Generator(rng, ndrange.work_dim).write()
    sizes = {
        b.index: rng.choice([40, 200, 600, 2000]) * b.scalar_nbytes + rng.randrange(3) for b in kernel.buffers
    }
    seed = rng.randrange(1000)
    program = parse_program(kernel.c)
    summary = analyse_kernel(program, "k")
    counts: Counter[str] = Counter(kernel.forms)
    values = {index: kernel.scalars[index] for index in summary.scalars}
    ranges = summary.of_launch(ndrange, values, sizes)
    for _ in range(2):
        chunk = random_chunk(rng, ndrange)

        def where(chunk: Chunk = chunk) -> str:
            launch = f"{ndrange}\n{chunk}\nscalars {kernel.scalars} sizes {sizes} seed {seed}"
            return "\n".join([kernel.c, kernel.py, launch, *map(str, summary.accesses)])

        try:
            trace = touched(kernel, ndrange, chunk, sizes, seed)
        except Undefined:
            counts["undefined"] += 1
            return counts
        try:
            found, alone = ranges.of(chunk), ranges.alone(chunk)
        except Exception as error:
            raise Mismatch(f"{type(error).__name__}: {error}\n{where()}") from error
        compare_with_alone(found, alone, where)
        counts += compare(kernel, found, trace, where)
        counts["launches"] += 1
    return counts
