"""Comparisons of sets of bytes that are made more than once while a command is planned.

A launch's candidates are rated by what they would bring to their workers, and the one that is chosen brings it: both ask what of
the same sets is missing, and who has what of that. Decides nothing.
"""

from __future__ import annotations

from vdev.translators.ranges.region import Region

_Known = dict[tuple[int, int], tuple[Region, Region, Region]]


class Comparisons:
    """What one set has beside another, and what both have. Sets are the same if they are one object: each is kept here, so that no
    other takes its place.
    """

    __slots__ = ("_beside", "_common")

    def __init__(self) -> None:
        #: by the identities of two sets: these, and what was found
        self._beside: _Known = {}
        self._common: _Known = {}

    def beside(self, region: Region, other: Region) -> Region:
        """`region` without `other`."""
        key = id(region), id(other)
        known = self._beside.get(key)
        if known is None:
            known = self._beside[key] = region, other, region - other
        return known[2]

    def common(self, region: Region, other: Region) -> Region:
        """What both have."""
        key = id(region), id(other)
        known = self._common.get(key)
        if known is None:
            known = self._common[key] = region, other, region & other
        return known[2]
