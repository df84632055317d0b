"""Accepted findings: a file, kept beside a project's kernels, that lists them with reasons.

Decides which entry matches which finding: by kind, kernel and the text of the line, so that lines may move. An entry is a
paragraph of `name: value` lines; lines that begin with `#` are comments.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vdev.harness.findings import KINDS, Finding, Place
from vdev.translators.values import dataclass

_NAMES = ("kind", "kernel", "file", "line", "text", "reason")
_HEAD = """\
# Accepted findings. An entry accepts findings of this kind in this kernel, on lines with this text or, without a text, on
# the line with this number. Give each a reason.
"""


class AcceptedError(ValueError):
    """A file of accepted findings that cannot be read; the text says where."""


@dataclass(frozen=True)
class Entry:
    """What is accepted. `text` without surrounding spaces; `file` matches the end of a path, empty for any; `number`:
    the number of the entry's first line.
    """

    kind: str
    kernel: str
    file: str = ""
    line: int = 0
    text: str = ""
    reason: str = ""
    number: int = 0

    def covers(self, finding: Finding) -> bool:
        """Whether it matches the finding. Of a race, either side may be the one that the entry names."""
        if (self.kind, self.kernel) != (finding.kind, finding.kernel):
            return False
        return any(self._is_at(place) for place in (finding.place, finding.other) if place is not None)

    def _is_at(self, place: Place) -> bool:
        if self.file and not f"/{place.file}".endswith(f"/{self.file}"):
            return False
        return _flat(place.excerpt) == self.text if self.text else place.line == self.line

    def __str__(self) -> str:
        values = {
            "kind": self.kind,
            "kernel": self.kernel,
            "file": self.file,
            "line": self.line or "",
            "text": self.text,
        }
        lines = [f"{name}: {value}" for name, value in values.items() if value]
        return "\n".join([*lines, f"reason: {self.reason}".rstrip(), ""])


class Accepted:
    """The entries of a file, and which of them have matched a finding. A file that does not exist has none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries = list(_entries(path, path.read_text("utf-8"))) if path.exists() else []
        self.used: set[int] = set()  #: entries, by their first lines
        self.takes = False  #: whether findings without an entry get one
        #: findings that were accepted without an entry
        self.taken: list[Entry] = []

    def left(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that no entry covers; none if new entries are written for them."""
        found = [finding for finding in findings if not self._covered(finding)]
        if not self.takes:
            return found
        for finding in found:
            if not any(known.covers(finding) for known in self.taken):
                self.taken.append(entry_of(finding))
        return []

    def summary(self) -> list[str]:
        """A line for each entry that somebody should look at."""
        unused = [entry for entry in self.entries if entry.number not in self.used]
        lines = [
            f"{self.path}:{entry.number}: not found this time: {entry.kind} in kernel {entry.kernel}"
            for entry in unused
        ]
        bare = [entry for entry in self.entries if not entry.reason]
        return lines + [f"{self.path}:{entry.number}: accepted without a reason" for entry in bare]

    def told(self) -> dict[str, Any]:
        """What another process has to know (`hear`), in a form for JSON."""
        return {"used": sorted(self.used), "taken": [asdict(entry) for entry in self.taken]}

    def hear(self, told: dict[str, Any]) -> None:
        """What another process has found out about the same file."""
        self.used |= set(told["used"])
        self.taken += [entry for fields in told["taken"] if (entry := Entry(**fields)) not in self.taken]

    def write(self) -> int:
        """Append the new findings to the file. Returns the number of new entries."""
        if self.taken:
            known = self.path.read_text("utf-8").rstrip("\n") + "\n\n" if self.path.exists() else _HEAD + "\n"
            self.path.write_text(known + "\n".join(map(str, self.taken)), "utf-8")
        return len(self.taken)

    def _covered(self, finding: Finding) -> bool:
        numbers = {entry.number for entry in self.entries if entry.covers(finding)}
        self.used |= numbers
        return bool(numbers)


def entry_of(finding: Finding) -> Entry:
    """An entry that covers a finding: of a race, the side that comes first in the source."""
    places = [finding.place, *([finding.other] if finding.other is not None else [])]
    place = min(places, key=lambda each: (each.file, each.line, each.column))
    return Entry(finding.kind, finding.kernel, Path(place.file).name, place.line, _flat(place.excerpt))


@functools.cache
def load(path: Path) -> Accepted:
    """The accepted findings of a file, one object for each in a process. Raises AcceptedError."""
    return Accepted(path)


def _entries(path: Path, content: str) -> Iterator[Entry]:
    values: dict[str, str] = {}
    first = 0
    for number, line in enumerate([*content.splitlines(), ""], 1):
        name, colon, value = line.partition(":")
        if line.startswith("#"):
            continue
        if not line.strip():
            if values:
                yield _entry(path, first, values)
            values = {}
        elif not colon or name.strip() not in _NAMES:
            raise AcceptedError(
                f"{path}:{number}: expected one of {', '.join(_NAMES)}, and a colon; got {line!r}"
            )
        else:
            first = first if values else number
            values[name.strip()] = value.strip()


def _entry(path: Path, number: int, values: dict[str, str]) -> Entry:
    kind, line = values.get("kind", ""), values.get("line", "0")
    if kind not in KINDS:
        raise AcceptedError(
            f"{path}:{number}: unknown kind of finding {kind!r}; the kinds are {', '.join(KINDS)}"
        )
    if not line.isdigit() or not (int(line) or values.get("text")):
        raise AcceptedError(f"{path}:{number}: an entry needs the text of its line, or the line's number")
    text = _flat(values.get("text", ""))
    reason = values.get("reason", "")
    return Entry(kind, values.get("kernel", ""), values.get("file", ""), int(line), text, reason, number)


def _flat(text: str) -> str:
    """A line without surrounding spaces, and with single spaces inside."""
    return " ".join(text.split())
