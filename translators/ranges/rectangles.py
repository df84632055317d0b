"""Boxes of bytes in a buffer and in host memory (specification 5.2.2). What lies where; moves nothing."""

from __future__ import annotations

from functools import lru_cache

from vdev.translators.values import dataclass

from .region import Region


@dataclass(frozen=True, slots=True)
class Layout:
    """How a box of bytes lies in a buffer and in host memory (clEnqueueReadBufferRect, specification 5.2.2).

    `shape` is (slices, rows, bytes in a row); pitches are (slice, row), in bytes.
    """

    shape: tuple[int, int, int]
    buffer_start: int
    buffer_pitches: tuple[int, int]
    host_start: int
    host_pitches: tuple[int, int]

    @staticmethod
    @lru_cache(maxsize=4096)
    def contiguous(buffer_start: int, nbytes: int, host_start: int = 0) -> Layout:
        """Consecutive bytes. The same object for the same numbers, so that what is derived from it can be found by
        identity.
        """
        return Layout((1, 1, nbytes), buffer_start, (nbytes, nbytes), host_start, (nbytes, nbytes))

    @property
    def is_contiguous(self) -> bool:
        return self.shape[0] == 1 and self.shape[1] == 1

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def reach(self) -> int:
        """Bytes of the buffer from the first to the last."""
        slices, rows, nbytes = self.shape
        return (slices - 1) * self.buffer_pitches[0] + (rows - 1) * self.buffer_pitches[1] + nbytes

    def buffer_region(self) -> Region:
        return box_region(self.shape, self.buffer_start, self.buffer_pitches)


def box_region(shape: tuple[int, int, int], start: int, pitches: tuple[int, int]) -> Region:
    """The bytes of a box of `shape` (slices, rows, bytes in a row) at `start` with (slice, row) `pitches`."""
    return Region.boxes(start, shape[2], ((pitches[1], shape[1]), (pitches[0], shape[0])))
