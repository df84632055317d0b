"""Records whose places are a matter of chance: a kernel that stores at places which an atomic function hands out leaves the same
records in one order or another, on one device as well.

Compares contents of a buffer as sets of records. Pure; which bytes may be looked at in this way is for `vdev.check.checking`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vdev.check.differences import Bytes, Dtype, Mask, close_elements
from vdev.translators.values import dataclass

Rows = npt.NDArray[np.uint8]  #: one record after the other, (records, bytes of one)


@dataclass(frozen=True, eq=False)
class Records:
    """Those of the records from byte `start` of a buffer, each of `size` bytes, that `chosen` says."""

    start: int
    size: int
    chosen: Mask
    data: Mask  #: by byte of the buffer: False at padding
    dtype: Dtype  #: of the scalars in a record

    def of(self, content: Bytes) -> Rows:
        """The chosen records in a buffer's content, with zeros for padding."""
        part = slice(self.start, self.start + len(self.chosen) * self.size)
        kept = np.where(self.data[part], content[part], np.uint8(0))
        found: Rows = kept.reshape(-1, self.size)[self.chosen]
        return found

    def mask(self) -> Mask:
        """By byte of the buffer: whether it belongs to a chosen record."""
        found = np.zeros(len(self.data), bool)
        found[self.start : self.start + len(self.chosen) * self.size] = np.repeat(self.chosen, self.size)
        return found

    def same(self, one: Bytes, other: Bytes) -> bool:
        """Whether two contents have the same records, each as often, in any order."""
        return _ordered(self.of(one)).tobytes() == _ordered(self.of(other)).tobytes()

    def close(self, one: Bytes, other: Bytes) -> bool:
        """Whether two contents may have the same records but for rounding: each scalar's values, in ascending order, are close."""
        first, second = (self._ascending(content) for content in (one, other))
        return bool((close_elements(first, second, self.dtype) | (first == second)).all())

    def _ascending(self, content: Bytes) -> Bytes:
        """The bytes of the chosen records with the values of each scalar in ascending order, whatever record they are from."""
        rows = np.ascontiguousarray(self.of(content)).reshape(-1, self.dtype.itemsize)
        fields = (
            [(kind, start) for kind, start, *_ in self.dtype.fields.values()]
            if self.dtype.fields
            else [(self.dtype, 0)]
        )
        for kind, start in fields:
            part = np.ascontiguousarray(rows[:, start : start + kind.itemsize])
            values = part.view(kind)[:, 0] if kind.kind != "V" else _ordered(part)
            rows[:, start : start + kind.itemsize] = np.sort(values).view(np.uint8).reshape(len(rows), -1)
        return rows.reshape(-1)

    def all_same(self, contents: Sequence[Bytes]) -> bool:
        return all(self.same(contents[0], content) for content in contents[1:])

    def all_close(self, contents: Sequence[Bytes]) -> bool:
        return all(self.close(contents[0], content) for content in contents[1:])

    def surplus(self, one: Bytes, other: Bytes) -> int:
        """The first byte of a record that `one` has more often than `other`; of the first chosen one if there is none."""
        left = _counted(self.of(other))
        places = self.start + np.flatnonzero(self.chosen) * self.size
        for place, row in zip(places.tolist(), self.of(one), strict=True):
            key = row.tobytes()
            if not left.get(key):
                return int(place)
            left[key] -= 1
        return int(places[0])


def records_at(mask: Mask, start: int, nbytes: int, size: int, data: Mask, dtype: Dtype) -> Records:
    """Those of the records in `nbytes` bytes from `start` of which `mask` has a byte.

    >>> mask = np.array([0, 0, 0, 0, 0, 1, 0, 0], bool)
    >>> records_at(mask, 0, 8, 4, np.ones(8, bool), np.dtype("i4")).chosen.tolist()
    [False, True]
    """
    count = nbytes // size
    chosen: Mask = np.logical_or.reduce(mask[start : start + count * size].reshape(count, size), axis=1)
    return Records(start, size, chosen, data, dtype)


def _ordered(rows: Rows) -> npt.NDArray[np.void]:
    """The records in an order of their own: by their bytes."""
    whole = np.ascontiguousarray(rows)
    return np.sort(whole.view(np.dtype(("V", whole.shape[1])))[:, 0])


def _counted(rows: Rows) -> dict[bytes, int]:
    counts: dict[bytes, int] = {}
    for row in rows:
        key = row.tobytes()
        counts[key] = counts.get(key, 0) + 1
    return counts
