"""Placement: to which holders bytes go that the host program hands over, and which of several holders send
bytes that it wants.

Decides for writes, fills and reads on workers with memory of their own (`LinkCosts.direct`): their bytes go
straight between the program's array and the workers, over all links at once, and a buffer that the host never
maps has no home at all. On workers that share the host's memory everything handed over goes home, unless one of them
alone uses the buffer and has memory for it already: the only worker, or the only one that has anything of a small buffer, or of
one that is kept there.

Where a byte goes: to the worker that holds it, since the next launch probably reads it where the last one
did; else to one with memory for it; else to the worker whose block of the buffer it lies in, the buffer being
cut into equal blocks. A wrong guess is mended by copies between workers, which cost a fraction of a host
link's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vdev.planner.builder import GRANULE
from vdev.planner.directory import HOST, BufferState
from vdev.planner.links import LinkCosts
from vdev.translators.ranges.region import EMPTY, Region

#: bytes beyond its block for which a worker takes memory as well, at most: then a kernel's halo, or a cut slightly
#: beside the block's edge, moves no allocation
MARGIN = 1 << 20

Placed = list[tuple[int, Region]]


def place(state: BufferState, region: Region, links: LinkCosts) -> Placed:
    """Who gets which bytes of `region` that the host program gives new values. No holder twice.

    A byte of a buffer of at least `links.large_nbytes` goes to one holder. One of a smaller buffer goes to
    every worker that holds it, none of which then has to wait for another, and home where there is none. One of
    a fine-grain buffer goes home. A worker that alone uses a buffer gets what it has memory for: whatever comes next uses it
    there.
    """
    if state.fine:
        return [(HOST, region)]
    alone = links.only if links.direct else _alone(state, links)
    if alone is not None and _has_memory(state, alone, region):
        return [(alone, region)]
    if not links.direct:
        return [(HOST, region)]
    if state.nbytes < links.large_nbytes:
        return _with_rest_at_home(
            [(worker, region & state.valid_at(worker)) for worker in links.direct], region
        )
    others = [held for holder, held in state.valid if holder != HOST and holder not in links.direct]
    at_home = region & (Region.union(others) - _held_by(state, links.direct)) if others else EMPTY
    rest = region - at_home
    placed = _divided(state, rest, len(region), links)
    return [*placed, (HOST, at_home)] if at_home else placed


def _divided(state: BufferState, rest: Region, most: int, links: LinkCosts) -> Placed:
    """Each byte of `rest` to one worker: one that holds it, or else has memory for it, or else its equal share.

    `most`: runs that a part may have, and some more if it is long.
    """
    found: dict[int, list[Region]] = {}
    held = {worker: state.valid_at(worker) for worker in links.direct}
    memory = {
        worker: Region.span(start, stop) for worker, start, stop in state.replicas if worker in links.direct
    }
    for places in (held, memory):
        for worker, part in share(rest, places):
            # Columns: a host link is for long runs. The workers exchange short ones faster than it does.
            if len(part) <= most + part.nbytes // GRANULE:
                found.setdefault(worker, []).append(part)
                rest = rest - part
    for worker, block in equal_blocks(0, state.nbytes, links.direct):
        part = rest & block
        if part:
            found.setdefault(worker, []).append(part)
    return [(worker, Region.union(parts)) for worker, parts in sorted(found.items())]


def senders(state: BufferState, region: Region, links: LinkCosts) -> Placed:
    """From which holders the host program gets the initialised bytes of `region`, each byte once.

    The home's own first, since nothing has to travel; then those of workers with memory of their own, shared
    out evenly; then others', at the least cost of their links.
    """
    at_home = region & state.valid_at(HOST)
    placed: Placed = [(HOST, at_home)] if at_home else []
    rest = region - at_home if at_home else region
    direct = {holder: held for holder, held in state.valid if holder in links.direct}
    for worker, part in share(rest, direct):
        placed.append((worker, part))
        rest = rest - part
    costs = links.per_byte
    for holder, held in sorted(state.valid, key=lambda item: (costs[item[0]][HOST], item[0])):
        if not rest:
            break
        if holder != HOST and holder not in direct:
            part = rest & held
            if part:
                placed.append((holder, part))
                rest = rest - part
    return placed


def share(region: Region, held: dict[int, Region]) -> Iterator[tuple[int, Region]]:
    """The bytes of `region` that somebody holds, each to one of its holders; what several hold in even
    parts."""
    parts = {holder: both for holder, all_held in held.items() if (both := region & all_held)}
    if len(parts) < 2:
        yield from parts.items()
        return
    given: dict[int, Region] = {}
    left = Region.union(parts.values())
    seen, twice = EMPTY, EMPTY
    for part in parts.values():
        twice = twice | (part & seen)
        seen = seen | part
    for holder, part in parts.items():
        given[holder] = part - twice
    if twice:
        left = twice
        for holder, block in equal_blocks(twice.start, twice.stop, tuple(parts)):
            mine = twice & block & parts[holder]
            given[holder] = given[holder] | mine
            left = left - mine
        for holder, part in parts.items():
            mine = left & part
            given[holder] = given[holder] | mine
            left = left - mine
    for holder, part in given.items():
        if part:
            yield holder, part


def equal_blocks(start: int, stop: int, workers: Sequence[int]) -> Iterator[tuple[int, Region]]:
    """[start, stop) in contiguous blocks, one for each of `workers`, whose edges lie on whole GRANULEs.

    >>> [(worker, block.start, block.stop) for worker, block in equal_blocks(0, 20000, (0, 1, 2))]
    [(0, 0, 8192), (1, 8192, 12288), (2, 12288, 20000)]
    """
    count = len(workers)
    edges = [start, *(_nearest(start + part * (stop - start) // count) for part in range(1, count)), stop]
    low = start
    for worker, edge in zip(workers, edges[1:], strict=True):
        high = min(max(edge, low), stop)
        if high > low:
            yield worker, Region.span(low, high)
        low = high


def with_margin(part: Region, state: BufferState, links: LinkCosts) -> tuple[int, int]:
    """The bytes for which a worker that is given `part` takes memory.

    Some beyond it on either side, in proportion: most kernels look a little over the edge of their share.
    """
    if state.nbytes < links.large_nbytes:
        return part.start, part.stop
    margin = min((part.stop - part.start) // 16, MARGIN)
    return max(part.start - margin, 0), min(part.stop + margin, state.nbytes)


def _alone(state: BufferState, links: LinkCosts) -> int | None:
    """The worker that alone uses a buffer, as far as can be seen, where workers share the host's memory; None for none. Of a large
    buffer a worker may have everything only until the next launch is cut, for which home is as near.
    """
    if links.only is not None or not (state.nbytes < links.large_nbytes or state.kept is not None):
        return links.only
    using = [worker for worker, _ in state.valid if worker != HOST]
    return using[0] if len(using) == 1 and state.kept in (None, using[0]) else None


def _has_memory(state: BufferState, worker: int, region: Region) -> bool:
    return any(
        holder == worker and start <= region.start and region.stop <= stop
        for holder, start, stop in state.replicas
    )


def _nearest(offset: int) -> int:
    return (offset + GRANULE // 2) // GRANULE * GRANULE


def _held_by(state: BufferState, workers: Sequence[int]) -> Region:
    return Region.union(held for holder, held in state.valid if holder in workers)


def _with_rest_at_home(parts: Placed, region: Region) -> Placed:
    found = [(holder, part) for holder, part in parts if part]
    rest = region - Region.union(part for _, part in found)
    return [*found, (HOST, rest)] if rest else found
