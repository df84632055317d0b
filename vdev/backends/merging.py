"""What `Backend.merge` computes, in NumPy: for host memory and for the reference back end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import gcd

import numpy as np
import numpy.typing as npt

from vdev.translators.ranges.byte_runs import Block, blocks_of_runs
from vdev.translators.ranges.grain import BYTES, Grain
from vdev.translators.ranges.region import Region

Bytes = npt.NDArray[np.uint8]
#: runs of equal length and spacing: a row for each
Rows = npt.NDArray[np.uint8]

_OPERATIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def blocks(region: Region) -> list[Block]:
    """The region's runs as blocks of one slice each, so that a member of many structures costs no step for each of them.

    Not `Region.blocks`, which may cut runs, and with them units.
    """
    return blocks_of_runs(region.runs)


def rows_of(memory: Bytes, start: int, block: Block) -> Rows:
    """A block in a memory that begins at byte `start` of the buffer; not a copy."""
    shape, first = (block.count, block.nbytes), block.start - start
    rows: Rows = np.ndarray(shape, np.uint8, memory.data, first, (block.stride, 1))
    return rows


def combine(into: Bytes, stage: Bytes, op: str, dtype: str) -> None:
    """`into` = `into` op `stage`, in elements of `dtype`; integers wrap around. Both have whole elements, in each row."""
    target = into.view(dtype)
    _OPERATIONS[op](target, stage.view(dtype), out=target)


def combine_changes(into: Bytes, stage: Bytes, op: str, dtype: str, identity: bytes) -> None:
    """The same, but elements of `stage` that equal the operation's `identity` are not written back at all."""
    kind = np.dtype(dtype)
    elements = stage.reshape(*stage.shape[:-1], -1, kind.itemsize)
    changed = (elements != np.frombuffer(identity, np.uint8)).any(axis=-1)
    target = into.view(kind)
    target[changed] = _OPERATIONS[op](target[changed], stage.view(kind)[changed])


def _copy_changed_bytes(into: Bytes, new: Bytes, old: Bytes) -> None:
    np.copyto(into, new, where=new != old)


def copy_changes(into: Bytes, new: Bytes, old: Bytes, start: int, grain: Grain) -> None:
    """Put the units of `grain` in `new` that differ from `old` into `into`; all begin at byte `start` of a buffer."""
    if grain == BYTES:
        _copy_changed_bytes(into, new, old)
        return
    period = grain.period
    first = min((grain.cuts[0] - start) % period, len(into))
    count = (len(into) - first) // period
    last = first + count * period
    for low, high in (*grain.units(start, start + first), *grain.units(start + last, start + len(into))):
        edge = slice(low - start, high - start)
        if (new[edge] != old[edge]).any():
            into[edge] = new[edge]
    if count:
        whole = slice(first, last)
        _copy_rows(into[whole], new[whole], old[whole], grain)


def copy_changed_rows(into: Rows, new: Rows, old: Rows, block: Block, grain: Grain) -> None:
    """The same for the rows of a block of the buffer."""
    if grain == BYTES:
        _copy_changed_bytes(into, new, old)
        return
    # Place after place or row after row: whichever takes fewer steps. A row may have a million places.
    patterns = min(_same_after(block, grain), block.count)
    if patterns * len(grain.cuts) * (1 + block.nbytes // grain.period) >= block.count:
        for row in range(block.count):
            copy_changes(into[row], new[row], old[row], block.start + row * block.stride, grain)
        return
    for every, unit in _places(block, grain):
        _copy_unit(*(rows[every, unit] for rows in (into, new, old)))


def _same_after(block: Block, grain: Grain) -> int:
    """After how many rows the grain's cuts lie at the same places of a row again."""
    return grain.period // gcd(grain.period, block.stride)


def _places(block: Block, grain: Grain) -> Iterator[tuple[slice, slice]]:
    """Rows in which the grain has the same cuts, and a unit that all of them have there."""
    step = _same_after(block, grain)
    for row in range(min(step, block.count)):
        start = block.start + row * block.stride
        for low, high in grain.units(start, start + block.nbytes):
            yield slice(row, None, step), slice(low - start, high - start)


def _copy_unit(into: Rows, new: Rows, old: Rows) -> None:
    word = widest_word(into.shape[1])
    target, found, twin = (rows.view(word) for rows in (into, new, old))
    np.copyto(target, found, where=(found != twin).any(axis=1, keepdims=True))


def widest_word(*sizes: int) -> str:
    """The widest type that NumPy compares and assigns directly and of which all sizes are multiples."""
    return f"u{gcd(8, *sizes)}"


def _copy_rows(into: Bytes, new: Bytes, old: Bytes, grain: Grain) -> None:
    """The same, where all are whole periods from a first cut."""
    edges = [cut - grain.cuts[0] for cut in grain.cuts] + [grain.period]
    word = widest_word(*edges)
    size = np.dtype(word).itemsize
    target, found, twin = (part.view(word).reshape(-1, grain.period // size) for part in (into, new, old))
    for low, high in pairwise(edges):
        unit = slice(low // size, high // size)
        changed = (found[:, unit] != twin[:, unit]).any(axis=1, keepdims=True)
        np.copyto(target[:, unit], found[:, unit], where=changed)
