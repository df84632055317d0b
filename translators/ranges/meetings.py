"""Which of many sets of bytes may meet a given one: each is looked at, which costs little for each where this is compiled.

Decides nothing. Sets whose pitches go together are compared; others by their first and last bytes alone, as to compare them could
cost a step for each run.

The function is compiled as well (`compiled`): a change here needs the same change in `native/meetings.c`.

>>> columns = [(number, Region.boxes(8 * number, 8, ((32, 4),))) for number in range(4)]
>>> [name for name, _ in may_meet(columns, Region.boxes(12, 8, ((32, 2),)))[0]]
[1, 2]
"""

from __future__ import annotations

from . import compiled
from .pitches import merged
from .region import Region

Entry = tuple[int, Region]  #: a name, a set


def may_meet(entries: list[Entry], region: Region) -> tuple[list[Entry], int]:
    """The entries that may have bytes of `region`, in order, all that do among them; and of how many that was told by their bounds."""
    found, unsure = [], 0
    for entry in entries:
        held = entry[1]
        if held.start >= region.stop or region.start >= held.stop:
            continue
        if region.bands is None or held.bands is None or merged(region.pitches, held.pitches) is None:
            unsure += 1
            found.append(entry)
        elif region.overlaps(held):
            found.append(entry)
    return found, unsure


compiled.replace(globals(), ("may_meet",))
