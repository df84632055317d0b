"""What `Backend.merge` computes, in NumPy: for host memory and for the reference back end."""

from __future__ import annotations

from itertools import pairwise
from math import gcd

import numpy as np
import numpy.typing as npt

from vdev.translators.ranges.grain import BYTES, Grain

Bytes = npt.NDArray[np.uint8]

_OPERATIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def combine(into: Bytes, stage: Bytes, op: str, dtype: str) -> None:
    """`into` = `into` op `stage`, in elements of `dtype`; integers wrap around. Both have whole elements."""
    target = into.view(dtype)
    _OPERATIONS[op](target, stage.view(dtype), out=target)


def combine_changes(into: Bytes, stage: Bytes, op: str, dtype: str, identity: bytes) -> None:
    """The same, but elements of `stage` that equal the operation's `identity` are not written back at all."""
    kind = np.dtype(dtype)
    changed = (stage.reshape(-1, kind.itemsize) != np.frombuffer(identity, np.uint8)).any(axis=1)
    target = into.view(kind)
    target[changed] = _OPERATIONS[op](target[changed], stage.view(kind)[changed])


def copy_changes(into: Bytes, new: Bytes, old: Bytes, start: int, grain: Grain) -> None:
    """Put the units of `grain` in `new` that differ from `old` into `into`; all begin at byte `start` of a buffer."""
    if grain == BYTES:
        np.copyto(into, new, where=new != old)
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


def _copy_rows(into: Bytes, new: Bytes, old: Bytes, grain: Grain) -> None:
    """The same, where all are whole periods from a first cut."""
    edges = [cut - grain.cuts[0] for cut in grain.cuts] + [grain.period]
    word = f"u{gcd(8, *edges)}"  # the widest type that NumPy compares directly
    size = np.dtype(word).itemsize
    target, found, twin = (part.view(word).reshape(-1, grain.period // size) for part in (into, new, old))
    for low, high in pairwise(edges):
        unit = slice(low // size, high // size)
        changed = (found[:, unit] != twin[:, unit]).any(axis=1, keepdims=True)
        np.copyto(target[:, unit], found[:, unit], where=changed)
