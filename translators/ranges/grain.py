"""Grains: where the stores to a memory begin and end, so that what one of them wrote can be told from the rest.

A `Grain` cuts memory into units: between two neighbouring cuts no store begins or ends, so each store writes all of a
unit or nothing of it. Versions of a memory that are merged unit by unit keep what each store wrote as a whole, and
keep apart what different stores wrote. Decides nothing else; knows neither kernels nor buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import gcd, lcm

from vdev.translators.values import dataclass

#: the most bytes after which a pattern of cuts repeats; what would be longer is cut at every byte
MAX_PERIOD = 4096
#: the most cuts in one period
MAX_CUTS = 256


@dataclass(frozen=True, slots=True)
class Grain:
    """A cut before every byte b with `b % period` among `cuts`; no cuts: nothing is stored at all.

    Made by the functions below, which find the shortest period, so that equal patterns are equal.

    >>> pairs = of_store(8, 0, 4) | of_store(8, 4, 1)  # structures of an int and a char
    >>> pairs, list(pairs.units(2, 18))
    (Grain(period=8, cuts=(0, 4, 5)), [(2, 4), (4, 5), (5, 8), (8, 12), (12, 13), (13, 16), (16, 18)])
    """

    period: int
    cuts: tuple[int, ...]

    def __or__(self, other: Grain) -> Grain:
        """The cuts of both."""
        if self == other or not other.cuts:
            return self
        return other if not self.cuts else _joined(self, other)

    def shift(self, offset: int) -> Grain:
        """The pattern moved by `offset` bytes."""
        if offset % self.period == 0:
            return self
        return _normal(self.period, ((cut + offset) % self.period for cut in self.cuts))

    @property
    def unit(self) -> int | None:
        """The size in bytes of all units, if they have the same size, are aligned to it and it is a power of two."""
        if self.cuts == (0,) and self.period & (self.period - 1) == 0:
            return self.period
        return None

    def floor(self, offset: int) -> int:
        """The last cut that is not after `offset`."""
        base, inside = offset - offset % self.period, offset % self.period
        before = [cut for cut in self.cuts if cut <= inside]
        if before:
            return base + before[-1]
        return base - self.period + self.cuts[-1] if self.cuts else 0

    def units(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The units, or parts of units, that make up the bytes [start, stop)."""
        low = start
        while low < stop:
            high = min(self._next(low), stop)
            yield low, high
            low = high

    def _next(self, offset: int) -> int:
        base, inside = offset - offset % self.period, offset % self.period
        for cut in self.cuts:
            if cut > inside:
                return base + cut
        return base + self.period + (self.cuts[0] if self.cuts else 0)


#: nothing is stored
NOTHING = Grain(1, ())
#: every byte may be stored by itself
BYTES = Grain(1, (0,))


def of_unit(nbytes: int) -> Grain:
    """Units of `nbytes` bytes, aligned to their size."""
    return _normal(nbytes, (0,))


@lru_cache(maxsize=4096)
def of_store(modulus: int, residue: int, nbytes: int) -> Grain:
    """Stores of `nbytes` bytes at places that are `residue` modulo `modulus`; 0 as modulus: at one place only."""
    if modulus == 0:  # whatever lies around it: a store anywhere else does not belong to it
        modulus = max(16, 1 << (nbytes - 1).bit_length())
    if modulus > MAX_PERIOD:
        modulus = gcd(modulus, MAX_PERIOD)
    return _normal(modulus, (residue % modulus, (residue + nbytes) % modulus))


def joined(grains: Iterable[Grain]) -> Grain:
    """The cuts of all of them."""
    found = NOTHING
    for grain in grains:
        found = found | grain
    return found


@lru_cache(maxsize=4096)
def _joined(one: Grain, other: Grain) -> Grain:
    period = lcm(one.period, other.period)
    if period > MAX_PERIOD:
        return BYTES
    cuts = {
        cut + repeat * grain.period
        for grain in (one, other)
        for cut in grain.cuts
        for repeat in range(period // grain.period)
    }
    return BYTES if len(cuts) > MAX_CUTS else _normal(period, cuts)


def _normal(period: int, cuts: Iterable[int]) -> Grain:
    found = frozenset(cuts)
    for shorter in range(1, period + 1):
        if period % shorter == 0 and len({cut % shorter for cut in found}) * (period // shorter) == len(
            found
        ):
            return Grain(shorter, tuple(sorted({cut % shorter for cut in found})))
    return Grain(period, tuple(sorted(found)))


__all__ = ["BYTES", "NOTHING", "Grain", "joined", "of_store", "of_unit"]
