"""What a checked program consists of, and the numbers that its text shares with whoever runs it.

Decides the layout of the hidden arguments and of the log; `include/checked.cl` is the other half of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from vdev.translators.values import dataclass

from ...frontend.source import ArgKind

#: In a comment on a line, or in `__attribute__((annotate("…")))` of a variable, an argument or a function: races
#: there are intended.
INTENDED = "vdev: intended race"


class Kind(IntEnum):
    """The kind of a record in the log. From NOTE_ELSEWHERE on, records are not findings."""

    OUTSIDE = 0  #: an access outside the memory of its argument or array
    NULL = 1  #: an access through a null pointer
    GROUPS = 2  #: two work-groups on one address of global memory
    ITEMS = 3  #: two work-items of a group on one address between barriers
    UNWRITTEN = 4  #: global memory that nobody has written
    UNWRITTEN_LOCAL = 5
    INDEX = 6  #: an index beyond an array of known size
    DIVISION = 7
    SHIFT = 8
    SAME_GROUPS = 9  #: as GROUPS, except that the same value was there already
    SAME_ITEMS = 10
    BARRIER = 11  #: a barrier that not all work-items of the group reach
    CONVERSION = 12  #: a floating-point value that does not fit the integer type
    OVERFLOW = 13  #: overflow of signed integers
    NON_FINITE = 14  #: NaN or infinity from finite operands
    UNWRITTEN_PRIVATE = 15  #: a private variable used before it is written
    MISALIGNED = 16  #: an access at an address that is not aligned for its type
    NOT_AWAITED = 17  #: a use of what an asynchronous copy writes, before any wait for it
    UNFENCED = 18  #: as ITEMS, in global memory, where the barriers between them have no fence for it
    PIXEL = 19  #: coordinates outside of an image
    NOTE_ELSEWHERE = 20  #: a pointer that leads to none of the launch's arguments: not checked
    NOTE_ORDERED = 21  #: two work-groups on one address, perhaps in an order that atomics establish


#: 32-bit words of a record: kind, site, root, group, item, other site, other (item + 1 or group + 1, 0: several), place
#: (low, high), size, free, free
RECORD_WORDS = 12
#: The most records for each site and kind, and in total.
KEPT, MOST_RECORDS = 4, 1024
#: If a launch is repeated to find who wrote a few places: the most places, and the last writers kept of each.
TRACKED_PLACES, TRACKED_LAST = 8, 4
#: 32-bit words of a place: root, first byte (low, high), bytes, writes, and site, group and item of each writer kept.
TRACKED_WORDS = 5 + 3 * TRACKED_LAST
#: Numbers of the launch before those of the roots: granules of shadow that local memory has.
HEAD_NUMBERS = 1
#: The same of a fast program: granules of local memory, nothing, counters in the log, cells of global memory.
FAST_HEAD_NUMBERS = 4
#: The most counters in a fast program's log: further work-items share them.
FAST_COUNTERS = 1 << 22


@dataclass(frozen=True)
class Site:
    """One place in the source that is checked.

    `line` and `column` are the user's (for text from macros, those of the expansion), `text` is its source. `nbytes`
    is the size of the access; `name` the variable, if one is known.
    """

    number: int
    action: str  #: 'read', 'write', 'update', 'atomic', 'index', 'division', 'shift', 'pixel read' and so on
    file: str
    line: int
    column: int
    function: str
    text: str
    name: str = ""
    space: str = ""
    nbytes: int = 0
    limit: int = 0  #: of an index: elements; of a shift: bits


@dataclass(frozen=True)
class Root:
    """Memory that a kernel's pointers may lead to: an argument (`arg`), or an array in local memory of `nbytes` bytes."""

    name: str
    space: ArgKind  #: GLOBAL, CONSTANT or LOCAL
    arg: int | None
    nbytes: int
    intended: bool = False  #: whether its declaration says that races on it are intended


@dataclass(frozen=True)
class CheckedKernel:
    """A kernel with hidden arguments behind its own: numbers of the launch, shadow and initial state of global memory, log, local memory.

    `roots`: in the order of the launch's numbers.
    """

    name: str
    roots: tuple[Root, ...]
    local: bool  #: whether it uses local memory
    written: frozenset[int] = frozenset()  #: in a fast program: roots of global memory that it may write
    read: frozenset[int] = frozenset()  #: and may read


def log_words(nsites: int) -> int:
    """32-bit words of the log of a program with that many sites."""
    return 1 + len(Kind) * (nsites + 1) + MOST_RECORDS * RECORD_WORDS


def far_offset(nsites: int, scratch_nbytes: int, *, tracked: bool) -> int:
    """Bytes of scratch memory, log and, in a tracked program, its table of places, in whole 64-bit words."""
    words = log_words(nsites) + tracked * TRACKED_PLACES * TRACKED_WORDS
    return 2 * scratch_nbytes + -(-words // 2) * 8


@dataclass(frozen=True)
class CheckedProgram:
    """OpenCL C for an engine. A fast program has only those kernels that have a fast form.

    `granule`: bytes that one cell of shadow stands for. `skipped`: (line, what is not checked and why).
    `scratch_nbytes`: the size of the memory to which forbidden accesses are redirected, in global and in local
    memory, twice each.
    """

    source: str
    options: tuple[str, ...]
    kernels: Mapping[str, CheckedKernel]
    sites: tuple[Site, ...]
    granule: int
    scratch_nbytes: int
    skipped: tuple[tuple[int, str], ...]
    far_macro: str  #: a text that defines it keeps the shadow of local memory behind the log
    narrow_macro: str  #: a text that defines it has 2 words of shadow for a granule instead of 4, and records no work-items there
    #: in a fast program: defined as 1, reads of what is only read are checked, too
    inits_macro: str = ""
    #: functions whose declarations say that their races are intended
    intended: frozenset[str] = frozenset()
    tracked: bool = False  #: whether a table of places stands behind the log (`include/tracked.cl`)

    @property
    def log_words(self) -> int:
        """32-bit words of the log behind the scratch memory: a counter, one for each kind and site, records."""
        return log_words(len(self.sites))

    @property
    def far_offset(self) -> int:
        """Bytes from the start of the scratch memory to what stands behind the log."""
        return far_offset(len(self.sites), self.scratch_nbytes, tracked=self.tracked)

    def numbers(self, nbytes: list[int], cells: list[int], local_cells: int) -> list[int]:
        """The numbers of a launch: by root, bytes and first granule of its shadow."""
        found = [local_cells]
        for size, cell in zip(nbytes, cells, strict=True):
            found += [size, cell]
        return found
