"""Merging: how bytes that several chunks of a launch change become one content again (PPoPP'11 section 3.6).

Decides where that happens. Where all workers that take part can merge and copy from each other, on them: the
bytes are cut into one block for each, which takes its twin before the launch, gets the other workers' versions
of its block one after the other, merges them in the order of the chunks and holds the result: nothing of it
passes through the host. Otherwise in the home; so are fine-grain buffers, and there each worker's own copy from
before the launch is the twin, since the host may have changed the home meanwhile. Which bytes are merged, and how,
`footprints` has said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import inf

import numpy as np

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST
from vdev.planner.footprints import Resolution
from vdev.planner.links import LinkCosts
from vdev.planner.placement import equal_blocks
from vdev.translators.ranges.grain import BYTES, Grain
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

#: anything smaller is merged by one worker: with several, all would have to wait for one another, which costs more
#: than it saves
SHARED_NBYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Combination:
    """Bytes of one buffer that are merged in one way.

    `parts[k]` are those that chunk k may have changed. `sites`: by chunk whose worker merges, the block it
    merges; none where the home does. `op`, `dtype`, `apart` and `grain` are `instructions.Merge`'s.
    """

    region: Region
    parts: tuple[Region, ...]
    op: str
    dtype: str
    sites: tuple[tuple[int, Region], ...]
    apart: bool = False
    grain: Grain = BYTES


def combinations(resolution: Resolution, workers: Sequence[int], links: LinkCosts) -> tuple[Combination, ...]:
    """What has to be merged in one buffer, its chunks running on `workers`."""
    if not resolution.diff and not resolution.merges:
        return ()
    found = []
    on_workers, apart = merges_on(resolution, workers, links), resolution.apart
    for region, grain in resolution.grains:
        parts = tuple(part & region for part in resolution.diff_parts)
        sites = tuple(sites_of(region, parts, grain)) if on_workers else ()
        found.append(Combination(region, parts, "diff", "V1", sites, apart, grain))
    for merge in resolution.merges:
        sites = tuple(sites_of(merge.region, merge.parts, BYTES)) if on_workers else ()
        found.append(Combination(merge.region, merge.parts, merge.op, merge.dtype, sites, apart))
    return tuple(found)


def merges_on(resolution: Resolution, workers: Sequence[int], links: LinkCosts) -> bool:
    """Whether the workers themselves merge what a launch does to a buffer."""
    return not resolution.apart and links.merge_on(workers)


def sites_of(region: Region, parts: Sequence[Region], grain: Grain) -> Iterator[tuple[int, Region]]:
    """Edges lie on whole granules, or on cuts of `grain` before them: no element and no unit of a store is cut."""
    if region.nbytes < SHARED_NBYTES:
        yield max(range(len(parts)), key=lambda index: (parts[index].nbytes, -index)), region
        return
    start = region.start
    for index, block in equal_blocks(region.start, region.stop, range(len(parts))):
        stop = block.stop if block.stop == region.stop else grain.floor(block.stop)
        share = region & Region.span(start, stop)
        start = max(stop, start)
        if share:
            yield index, share


class Merging:
    """The merges of one buffer in one plan; `workers` by chunk. Its steps are called in the order below."""

    def __init__(
        self, builder: PlanBuilder, slot: int, workers: Sequence[int], found: Sequence[Combination]
    ) -> None:
        self._builder = builder
        self._slot = slot
        self._workers = workers
        self._found = found
        #: by combination and site: the stages of the result and of the twin
        self._stages: dict[tuple[int, int], tuple[int, int | None]] = {}
        #: by combination: the stages with what its chunks find, where these are the twins
        self._twins: dict[int, list[int]] = {}

    def blocks(self, chunk: int) -> list[Region]:
        """What the worker of a chunk must have room for in its replica, besides what the chunk touches."""
        return [block for item in self._found for index, block in item.sites if index == chunk]

    def supply(self) -> None:
        """Bring the content that is merged into to the place where that happens."""
        for item in self._found:
            for index, block in item.sites:
                self._builder.make_valid(self._slot, self._workers[index], block)
            if not item.sites:
                self._builder.make_valid(self._slot, HOST, item.region)

    def prepare(self) -> None:
        """Equal values where a twin is compared with bytes nobody has written yet; twins; the identity where
        atomics are merged.
        """
        builder, slot = self._builder, self._slot
        initialised = builder.drafts[slot].initialised()
        for number, item in enumerate(self._found):
            unwritten = item.region - initialised if item.op == "diff" else None
            if unwritten:
                sites = [(self._workers[index], block) for index, block in item.sites]
                for holder, block in sites or [(HOST, item.region)]:
                    builder.fill(slot, holder, block & unwritten, b"\0")
                for worker, part in zip(self._workers, item.parts, strict=True):
                    builder.fill(slot, worker, part & unwritten, b"\0")
            for index, block in item.sites:
                worker = self._workers[index]
                result = builder.gather(slot, worker, worker, block)
                twin = builder.gather(slot, worker, worker, block) if item.op == "diff" else None
                self._stages[number, index] = (result, twin)
            if item.op != "diff":
                for worker, part in zip(self._workers, item.parts, strict=True):
                    builder.fill(slot, worker, part, identity_of(item.op, item.dtype))
            elif item.apart:
                self._twins[number] = self._fetched(item)

    def finish(self) -> None:
        """After the launch: make one content from the versions."""
        for number, item in enumerate(self._found):
            if not item.sites:
                self._merge_at_home(item, self._twins.get(number, ()))
            for index, block in item.sites:
                self._merge_at(item, index, block, *self._stages[number, index])

    def _fetched(self, item: Combination) -> list[int]:
        """Stages with what each worker has now."""
        return [
            self._builder.fetch(self._slot, worker, part)
            for worker, part in zip(self._workers, item.parts, strict=True)
            if part
        ]

    def _merge_at_home(self, item: Combination, twins: Sequence[int]) -> None:
        stages = self._fetched(item)
        self._builder.merge(
            self._slot,
            item.region,
            stages,
            item.op,
            item.dtype,
            item.grain,
            apart=item.apart,
            twins=twins,
        )

    def _merge_at(self, item: Combination, site: int, block: Region, result: int, twin: int | None) -> None:
        builder, slot, worker = self._builder, self._slot, self._workers[site]
        for index, part in enumerate(item.parts):
            share = part & block
            if share:
                version = None if index == site else builder.gather(slot, worker, self._workers[index], share)
                builder.combine(slot, worker, share, version, result, twin, item.op, item.dtype, item.grain)
        builder.restore(slot, worker, block, result, twin)


@lru_cache(maxsize=64)
def identity_of(op: str, dtype: str) -> bytes:
    """One element that the operation leaves every other as it is with.

    >>> identity_of("and", "uint32")
    b'\\xff\\xff\\xff\\xff'
    >>> int(np.frombuffer(identity_of("min", "int32"), "int32")[0]) == 2**31 - 1
    True
    """
    kind = np.dtype(dtype)
    if op in ("add", "or", "xor"):
        return np.array(-0.0 if kind.kind == "f" else 0, kind).tobytes()  # -0.0 + -0.0 stays -0.0
    if op == "and":
        return b"\xff" * kind.itemsize
    if op not in ("min", "max"):
        raise ValueError(f"no identity for {op!r}")
    if kind.kind == "f":
        return np.array(inf if op == "min" else -inf, kind).tobytes()
    limits = np.iinfo(kind)
    return np.array(limits.max if op == "min" else limits.min, kind).tobytes()
