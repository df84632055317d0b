"""Which earlier accesses a new one must not overtake: those that touch the same bytes of one thing in one place, where either changes them.

Decides nothing about who makes them, nor what is waited for: things, places and whoever makes accesses are numbers.

The function is compiled as well (`compiled`): a change here needs the same change in `native/conflicts.c`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from . import compiled
from .region import EMPTY, Region

#: an access: the thing, the place, the bytes, and whether it changes them
Access = tuple[int, int, Region, bool]
#: the number of an access, who makes it, and its bytes
Entry = tuple[int, int, Region]


class Log:
    """Accesses of one kind, to one thing in one place."""

    __slots__ = ("_all", "_known", "entries")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._all = EMPTY  #: what those up to `_known` touch
        self._known = 0

    def meeting(self, region: Region) -> Sequence[Entry]:
        """The entries that may have bytes of `region`, all that do among them.

        When everybody gets a part from everybody else, most ask in vain, and learn that for the price of one question.
        """
        entries = self.entries
        if self._known < len(entries):
            self._all = Region.union((self._all, *map(itemgetter(2), entries[self._known :])))
            self._known = len(entries)
        return entries if self._all.overlaps(region) else ()


def conflicts(
    logs: Mapping[tuple[int, int, bool], Log],
    accesses: Sequence[Access],
    maker: int,
    in_order: bool,
    few: int,
) -> list[int]:
    """The numbers of those in the way of new accesses, which one maker makes together. `logs`: by thing, place, and whether accesses change
    bytes. `in_order`: whether what one maker makes is in order anyway. `few`: as many entries of a log as are looked at one by one.
    """
    found = []
    for thing, place, region, changes in accesses:
        for kind in (False, True) if changes else (True,):  # reads need no order among themselves
            log = logs.get((thing, place, kind))
            if log is None:
                continue
            entries = log.entries if len(log.entries) <= few else log.meeting(region)
            for number, other, touched in entries:
                if not (in_order and other == maker) and region.overlaps(touched):
                    found.append(number)
    return found


compiled.replace(globals(), ("conflicts",))
compiled.replace_methods(Log, ())  # which the function reads
