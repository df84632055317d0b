"""What `Backend.merge` computes, in NumPy: for host memory and for the reference back end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
    """The same, but elements that are the operation's `identity` in `stage` are not even written back."""
    kind = np.dtype(dtype)
    changed = (stage.reshape(-1, kind.itemsize) != np.frombuffer(identity, np.uint8)).any(axis=1)
    target = into.view(kind)
    target[changed] = _OPERATIONS[op](target[changed], stage.view(kind)[changed])


def copy_changes(into: Bytes, new: Bytes, old: Bytes, start: int, unit: int) -> None:
    """Put the units of `new` that differ from `old` into `into`; all begin at byte `start` of a buffer."""
    first = -start % unit
    count = max(len(into) - first, 0) // unit
    if unit == 1 or count == 0:
        np.copyto(into, new, where=new != old)
        return
    last = first + count * unit
    for edge in (slice(0, first), slice(last, None)):
        np.copyto(into[edge], new[edge], where=new[edge] != old[edge])
    whole = slice(first, last)
    word = f"u{min(unit, 8)}"  # the widest that NumPy compares at once
    shape = (count, -1)
    changed = (new[whole].view(word) != old[whole].view(word)).reshape(shape).any(axis=1, keepdims=True)
    np.copyto(into[whole].view(word).reshape(shape), new[whole].view(word).reshape(shape), where=changed)
