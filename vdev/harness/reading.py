"""From the log of a checked launch to findings.

Decides which records belong to one mistake, how it is worded, and which races are intended: none is reported on a
line with `vdev: intended race` in a comment, nor for a declaration with that annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vdev.harness.findings import Finding, Ids, Place, Who
from vdev.translators.dialects.checked.program import (
    INTENDED,
    MOST_RECORDS,
    RECORD_WORDS,
    TRACKED_LAST,
    TRACKED_WORDS,
    CheckedKernel,
    CheckedProgram,
    Kind,
    Site,
)
from vdev.translators.frontend.preprocessor import MAIN_FILE
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.values import dataclass

_NAMES = {
    Kind.OUTSIDE: "out-of-bounds",
    Kind.NULL: "null-pointer",
    Kind.GROUPS: "race-between-groups",
    Kind.ITEMS: "race-between-items",
    Kind.UNFENCED: "race-between-items",
    Kind.UNWRITTEN: "unwritten-value",
    Kind.UNWRITTEN_LOCAL: "unwritten-value",
    Kind.UNWRITTEN_PRIVATE: "unwritten-value",
    Kind.INDEX: "index",
    Kind.DIVISION: "division-by-zero",
    Kind.SHIFT: "shift-too-wide",
    Kind.BARRIER: "divergent-barrier",
    Kind.CONVERSION: "conversion-out-of-range",
    Kind.OVERFLOW: "signed-overflow",
    Kind.NON_FINITE: "non-finite",
    Kind.MISALIGNED: "misaligned",
    Kind.NOT_AWAITED: "copy-not-awaited",
    Kind.PIXEL: "out-of-bounds",
    Kind.SAME_GROUPS: "same-value-race",
    Kind.SAME_ITEMS: "same-value-race",
}
_DIFFERENT = (Kind.GROUPS, Kind.ITEMS, Kind.UNFENCED)
_RACES = (*_DIFFERENT, Kind.SAME_GROUPS, Kind.SAME_ITEMS)
#: The same kinds within one group. They are not mistakes of their own if groups race at the same places.
_WITHIN = {Kind.ITEMS: Kind.GROUPS, Kind.UNFENCED: Kind.GROUPS, Kind.SAME_ITEMS: Kind.SAME_GROUPS}
#: Kinds whose second site is the other side of the race.
_PAIRED = (*_RACES, Kind.BARRIER, Kind.UNWRITTEN_PRIVATE, Kind.NOT_AWAITED)
_VALUES = (Kind.UNWRITTEN, Kind.UNWRITTEN_LOCAL)
_SAYS = {
    Kind.BARRIER: "calls {} where not all work-items of the group arrive",
    Kind.CONVERSION: "converts a number that {} cannot represent",
    Kind.OVERFLOW: "computes an integer that its signed type cannot represent",
    Kind.NON_FINITE: "computes infinity or NaN from finite numbers",
    Kind.UNWRITTEN_PRIVATE: "uses {}, which nobody has written",
    Kind.DIVISION: "divides by zero",
    Kind.NOT_AWAITED: "uses {} during a copy that was not waited for",
}
_NOTES = {
    Kind.NOTE_ELSEWHERE: "a pointer that leads to no argument of the launch is not checked",
    Kind.NOTE_ORDERED: "atomics may order the accesses of two work-groups: no race is reported",
}
_MEETS = {
    Kind.GROUPS: "work-group uses in the same launch",
    Kind.ITEMS: "work-item uses with no barrier between them",
    Kind.UNFENCED: "work-item of the group uses, with no barrier with CLK_GLOBAL_MEM_FENCE between them",
}
_DID = {
    "read": "reads",
    "write": "writes",
    "update": "changes",
    "atomic": "changes atomically",
    "copy": "copies",
    "pixel read": "reads",
    "pixel write": "writes",
}


@dataclass(frozen=True)
class Record:
    """One entry of the log."""

    kind: Kind
    site: int
    root: int
    group: int
    item: int
    other_site: int
    other: int
    rel: int
    nbytes: int
    count: int


def records(log: npt.NDArray[np.uint32], nsites: int) -> Iterator[Record]:
    """The records of a log (without its scratch memory), in the order in which they were written."""
    counts = log[1 : 1 + len(Kind) * (nsites + 1)].reshape(len(Kind), nsites + 1)
    rows = log[1 + counts.size :].reshape(-1, RECORD_WORDS)
    for row in rows[: min(int(log[0]), MOST_RECORDS)].tolist():
        kind, site, root = Kind(row[0]), row[1], int(np.uint32(row[2]).astype(np.int32))
        place = row[7] | row[8] << 32
        group, item, other_site, other = row[3:7]
        rel, count = place - (place >> 63 << 64), int(counts[kind, site])
        yield Record(kind, site, root, group, item, other_site, other, rel, row[9], count)


@dataclass(frozen=True)
class Writer:
    """Which work-item wrote a place last, and where in the source. `count`: how often it was written."""

    who: Who
    place: Place
    count: int


def table_of(places: Sequence[tuple[int, int, int]], kernel: CheckedKernel) -> npt.NDArray[np.uint8]:
    """The (argument, first byte, bytes) of places whose writers are wanted, in the form of `include/tracked.cl`."""
    table = np.zeros((len(places), TRACKED_WORDS), np.uint32)
    roots = {root.arg: number for number, root in enumerate(kernel.roots)}
    for row, (arg, first, nbytes) in zip(table, places, strict=True):
        row[:4] = roots[arg], first & 0xFFFFFFFF, first >> 32, nbytes
    return table.view(np.uint8).reshape(-1)


class Reader:
    """Makes findings for one checked program. `source`: the user's text, `file` its name or an empty text."""

    def __init__(self, program: CheckedProgram, source: str, file: str = "") -> None:
        self._program = program
        self._file = file
        self._lines = {MAIN_FILE: source.splitlines()}

    def findings(
        self, kernel: CheckedKernel, found: Sequence[Record], ndrange: NDRange, sizes: Sequence[int]
    ) -> list[Finding]:
        """One finding for each mistake, in order of lines. `sizes`: bytes of each root."""
        made: dict[tuple[object, ...], Finding] = {}
        races = [r for r in found if r.kind in _DIFFERENT or self._is_intended(kernel, r)]
        racing = {site for r in races for site in (r.site, r.other_site)}
        crossing = _sites_between_groups(found)
        parted = any(record.kind is Kind.BARRIER for record in found)
        for record in found:
            if parted and record.kind in (*_RACES, *_VALUES):
                continue  # after a missed barrier, what others find in memory is not what it should be
            if record.kind in _WITHIN and {record.site, record.other_site} <= crossing[_WITHIN[record.kind]]:
                continue
            # What a race reads too early is not a mistake of its own, and depends on the schedule. What happens to be in memory that
            # nobody has written may be the value that is written too late: that race alone would not be reported.
            early = record.kind in _VALUES and record.site in racing
            if record.kind in _NAMES and not early and not self._is_intended(kernel, record):
                finding = self._finding(kernel, record, ndrange, sizes)
                made.setdefault(finding.key, finding)
        return sorted(made.values(), key=lambda each: (each.place.file, each.place.line, each.place.column))

    def notes(self, found: Sequence[Record]) -> list[tuple[int, str]]:
        """(line, what was not checked in this launch and why)."""
        noted = {(self._site(r.site).line, _NOTES[r.kind]) for r in found if r.kind in _NOTES}
        return sorted(noted)

    def writers(self, table: npt.NDArray[np.uint32], nplaces: int, ndrange: NDRange) -> list[Writer | None]:
        """Which work-item last wrote each place; None if none did."""
        found: list[Writer | None] = []
        for row in table[: nplaces * TRACKED_WORDS].reshape(-1, TRACKED_WORDS).tolist():
            count = row[4]
            if not count:
                found.append(None)
                continue
            last = 5 + 3 * ((count - 1) % TRACKED_LAST)
            site, group, item = row[last : last + 3]
            found.append(Writer(_who(ndrange, group, item), self._place(self._site(site)), count))
        return found

    def line_of(self, kernel: CheckedKernel) -> int:
        """The first line of the kernel on which anything is checked."""
        return min((site.line for site in self._program.sites if site.function == kernel.name), default=1)

    def _site(self, number: int) -> Site:
        return self._program.sites[number - 1]

    def _finding(
        self, kernel: CheckedKernel, record: Record, ndrange: NDRange, sizes: Sequence[int]
    ) -> Finding:
        site = self._site(record.site)
        root = kernel.roots[record.root] if 0 <= record.root < len(kernel.roots) else None
        size = sizes[record.root] if root is not None else None
        other = self._site(record.other_site) if record.kind in _PAIRED and record.other_site else None
        offset = record.rel if root is not None and record.kind is not Kind.PIXEL else None
        return Finding(
            _NAMES[record.kind],
            self._message(kernel, record, site, root.name if root else site.name, size),
            kernel.name,
            root.name if root is not None else site.name,
            site.action,
            self._place(site),
            _who(ndrange, record.group, record.item),
            offset,
            size,
            None if other is None else self._place(other),
            _other(ndrange, record) if record.kind in _PAIRED else None,
            record.count,
        )

    def _message(self, kernel: CheckedKernel, record: Record, site: Site, name: str, size: int | None) -> str:
        did = f"kernel {kernel.name} {_DID.get(site.action, 'uses')}"
        what = f"{record.nbytes} bytes at byte {record.rel} of {name}"
        if record.kind in _SAYS:
            return f"kernel {kernel.name} {_SAYS[record.kind].format(site.name)}"
        match record.kind:
            case Kind.OUTSIDE:
                return f"{did} {what}, which has {size}"
            case Kind.PIXEL:
                at = [
                    int(np.uint32(n & 0xFFFFFFFF).astype(np.int32))
                    for n in (record.rel, record.rel >> 32, record.nbytes)
                ]
                sizes = f"{record.other_site} by {record.other} pixels"
                return f"{did} pixel ({', '.join(map(str, at))}) of {name}, which has {sizes}"
            case Kind.NULL:
                return f"{did} {record.nbytes} bytes through {name or 'a pointer'}, which is null"
            case Kind.GROUPS | Kind.ITEMS | Kind.UNFENCED:
                return f"{did} {what}, which another {_MEETS[record.kind]}"
            case Kind.SAME_GROUPS | Kind.SAME_ITEMS:
                return f"{did} {what} as others do, with the value that is already there"
            case Kind.UNWRITTEN | Kind.UNWRITTEN_LOCAL:
                return f"{did} {what}, which nobody has written"
            case Kind.INDEX:
                return (
                    f"kernel {kernel.name} uses index {record.rel} of {name}, which has {site.limit} elements"
                )
            case Kind.MISALIGNED:
                return (
                    f"kernel {kernel.name} accesses memory {record.rel} bytes past a multiple of {site.limit}"
                )
            case _:
                return f"kernel {kernel.name} shifts a value of {site.limit} bits by {record.rel}"

    def _place(self, site: Site) -> Place:
        file = self._file if site.file == MAIN_FILE else site.file
        return Place(file, site.line, site.column, site.function, site.text, self._line(site))

    def _line(self, site: Site) -> str:
        lines = self._lines.get(site.file)
        if lines is None:
            path = Path(site.file)
            lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
            self._lines[site.file] = lines
        return lines[site.line - 1] if 0 < site.line <= len(lines) else ""

    def _is_intended(self, kernel: CheckedKernel, record: Record) -> bool:
        if record.kind not in _RACES:
            return False
        if 0 <= record.root < len(kernel.roots) and kernel.roots[record.root].intended:
            return True
        sites = [self._site(number) for number in (record.site, record.other_site) if number]
        return any(INTENDED in self._line(site) or site.function in self._program.intended for site in sites)


def _sites_between_groups(found: Sequence[Record]) -> dict[Kind, set[int]]:
    """The sites where groups race, and those where they do so whatever the values are; 0 for sites that are not
    known.
    """
    different = {0}.union(*({r.site, r.other_site} for r in found if r.kind is Kind.GROUPS))
    same = different.union(*({r.site, r.other_site} for r in found if r.kind is Kind.SAME_GROUPS))
    return {Kind.GROUPS: different, Kind.SAME_GROUPS: same}


def _other(ndrange: NDRange, record: Record) -> Who | None:
    if not record.other:
        return None
    if record.kind in (*_WITHIN, Kind.BARRIER):
        return _who(ndrange, record.group, record.other - 1)
    return Who(_delinearised(record.other - 1, ndrange.num_groups))


def _who(ndrange: NDRange, group: int, item: int) -> Who:
    groups = _delinearised(group, ndrange.num_groups)
    sizes = tuple(
        min(local, size - g * local)
        for g, local, size in zip(groups, ndrange.local_size, ndrange.global_size, strict=True)
    )
    locals_ = _delinearised(item, sizes)
    ids = tuple(
        offset + g * size + one
        for offset, g, size, one in zip(ndrange.offset, groups, ndrange.local_size, locals_, strict=True)
    )
    return Who(groups, ids)


def _delinearised(number: int, sizes: Ids) -> Ids:
    found = []
    for size in sizes:
        found.append(number % size)
        number //= size
    return tuple(found)
