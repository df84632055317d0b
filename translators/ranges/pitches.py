"""Pitches: the strides in which a box, or a set of bands, is written.

Decides which of a box's dimensions become pitches, and which pitches suit two sets. What is called most is compiled as well
(`compiled`): a change here needs the same change in `native/slices.c`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from operator import index

from . import compiled
from .tracing import whole


def open_box(
    start: int, nbytes: int, dims: Sequence[tuple[int, int]]
) -> tuple[int, int, list[tuple[int, int]]]:
    """A box's first byte, the bytes of its runs, and the dimensions that remain when those that only make the runs,
    or one another, longer are gone; strides are positive, the smallest first.
    """
    low = whole(start + sum(stride * (count - 1) for stride, count in dims if stride < 0))
    extent = whole(nbytes)
    rest: list[tuple[int, int]] = []
    for stride, count in sorted((abs(whole(stride)), whole(count)) for stride, count in dims):
        if not rest and stride <= extent:
            extent += stride * (count - 1)
        elif rest and count > 1 and stride % rest[-1][0] == 0 and stride <= rest[-1][0] * rest[-1][1]:
            inner, many = rest[-1]
            rest[-1] = (inner, many + stride // inner * (count - 1))
        elif count > 1:
            rest.append((stride, count))
    return low, extent, rest


@lru_cache(maxsize=4096)
def merged(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...] | None:
    """The pitches of both; None if they do not all divide one another."""
    both = sorted({*first, *second}, reverse=True)
    return None if any(one % other for one, other in pairwise(both)) else tuple(both)


def joint(pitches: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Pitches in which sets of as many of these as possible can be represented together."""
    found: tuple[int, ...] = ()
    for each in sorted(set(pitches), key=lambda each: (-len(each), each)):
        found = merged(found, each) or found
    return found


def copies(dims: Sequence[tuple[int, int]]) -> int:
    """How many copies of a box `Region.boxes` has to combine, for dimensions as `open_box` gives them."""
    kept = pitches_for(tuple(dims))
    return prod(count for number, (_, count) in enumerate(dims) if number not in kept)


def pitches_for(dims: tuple[tuple[int, int], ...]) -> frozenset[int]:
    """Which of the dimensions, smallest stride first, become pitches: each divides the next, and the others have as
    few members as possible.
    """
    if len(dims) <= 10 and not any(other % one for (one, _), (other, _) in pairwise(dims)):
        return frozenset(range(len(dims)))
    return _known_pitches(tuple((index(stride), index(count)) for stride, count in dims))


@lru_cache(maxsize=1024)
def _known_pitches(dims: tuple[tuple[int, int], ...]) -> frozenset[int]:
    best, most = frozenset[int](), 0
    for choice in range(1, 1 << len(dims)) if len(dims) <= 10 else ():
        taken = [number for number in range(len(dims)) if choice >> number & 1]
        strides = [dims[number][0] for number in taken]
        if any(other % one for one, other in pairwise(strides)):
            continue
        size = prod(dims[number][1] for number in taken)
        if size > most:
            best, most = frozenset(taken), size
    return best


compiled.replace(globals(), ("open_box", "pitches_for", "copies"))
