"""Findings: what is wrong with a kernel, as data.

Decides what a finding consists of and what it is called; `formats` prints it, `reading` makes it from a log.
"""

from __future__ import annotations

from collections.abc import Iterable

from vdev.translators.values import dataclass

#: By kind: what to do about it, in one line.
REMEDIES = {
    "out-of-bounds": "compare the index with the number of elements, or launch fewer work-items",
    "null-pointer": "give the argument a buffer, or test it before it is used",
    "index": "keep the index below the number of elements that the array is declared with",
    "race-between-groups": "work-groups have no order: give each its own elements, use atomics, or use two launches",
    "race-between-items": "put a barrier with the fence of that memory between the two, where all work-items reach it",
    "same-value-race": "the value does not depend on the order here; let one work-item write it",
    "unwritten-value": "write the element first, or give the buffer its initial content",
    "divergent-barrier": "let all work-items of a group reach it: put it after the condition, or make the condition the same for all",
    "misaligned": "use vload and vstore, which need only the alignment of one element",
    "copy-not-awaited": "call wait_group_events with the copy's event first: a barrier does not wait for it",
    "order-dependent": "work-groups have no order: make the result independent of which of them comes first",
    "division-by-zero": "test the divisor: the result is undefined (OpenCL C 6.3)",
    "conversion-out-of-range": "clamp the value first, or use convert_…_sat: the result is undefined (C99 6.3.1.4)",
    "signed-overflow": "compute with unsigned or wider numbers: the result is undefined (C99 6.5p5)",
    "non-finite": "look at the operands: this is the first operation with a result that is not finite",
    "compiler": "a warning from clang: fix the code, or make the intention clear in it",
    "shift-too-wide": "only the lowest bits of the amount count (OpenCL C 6.3.j): mask it if that is intended",
}
KINDS = tuple(REMEDIES)
#: The remedy if a work-item's own variable was used, rather than memory.
_UNWRITTEN_PRIVATE = "give it a value on every path that leads here"
#: Kinds that are reported only if they are asked for.
OFF_BY_DEFAULT = frozenset({"same-value-race", "signed-overflow", "non-finite", "order-dependent"})


def hidden_kinds(report: Iterable[str] = (), ignore: Iterable[str] = ()) -> frozenset[str]:
    """The kinds that are not reported when these are switched on and off. Raises ValueError for unknown kinds."""
    unknown = [kind for kind in (*report, *ignore) if kind not in KINDS]
    if unknown:
        raise ValueError(f"unknown kind of finding {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
    return (OFF_BY_DEFAULT - frozenset(report)) | frozenset(ignore)


Ids = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """A place in the source; `file` is empty for a program that was given as text. Lines and columns count from 1."""

    file: str
    line: int
    column: int
    function: str
    expression: str
    excerpt: str


@dataclass(frozen=True)
class Who:
    """A work-item by its global ids, or only a work-group if the item is not known."""

    group: Ids
    item: Ids | None = None


@dataclass(frozen=True)
class Finding:
    """One mistake.

    `kernel` is the kernel launched, `argument` the variable accessed. `offset` is in bytes from the start of its
    memory, which has `nbytes` bytes if that is known. `other`: the other side of a race. `count`: how often it
    happened in the launch that showed it first.
    """

    kind: str
    message: str
    kernel: str
    argument: str
    action: str
    place: Place
    who: Who | None  #: None: nothing has run
    offset: int | None = None
    nbytes: int | None = None
    other: Place | None = None
    other_who: Who | None = None
    count: int = 1

    @property
    def remedy(self) -> str:
        if self.kind == "unwritten-value" and self.action == "private":
            return _UNWRITTEN_PRIVATE
        return REMEDIES[self.kind]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for two findings of the same mistake, whichever launches showed them."""
        other = None if self.other is None else (self.other.file, self.other.line, self.other.column)
        here = (self.place.file, self.place.line, self.place.column)
        return self.kind, self.kernel, self.argument, frozenset({here, other})
