"""Reports: those that a command line asks for, the table for people, and the files that are written.

Decides what is printed and written at the end of a run with coverage; `services` and `pages` write the other formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vdev.harness.coverage.data import Data, erase, load
from vdev.harness.coverage.figures import (
    FileFigures,
    Threshold,
    Total,
    figures_of,
    percent,
    ranges,
    total_of,
)
from vdev.harness.coverage.pages import write_pages
from vdev.harness.coverage.services import as_cobertura, as_lcov
from vdev.translators.values import dataclass

#: By kind: where it is written if nobody says.
PATHS = {
    "text": "",
    "lcov": "opencl-coverage.lcov",
    "xml": "opencl-coverage.xml",
    "html": "opencl-coverage-html",
}
#: The most lines in the table's second part: what was never taken on lines that ran.
_MOST_NEVER = 20


@dataclass(frozen=True)
class Wish:
    """A report that was asked for. `path`: a file, or for html a folder; empty for the terminal."""

    kind: str
    path: str

    @staticmethod
    def parse(text: str) -> Wish:
        """`text`, `lcov`, `xml` or `html`, and a path after a colon. ValueError for others.

        >>> Wish.parse("html:out"), Wish.parse("lcov").path
        (Wish(kind='html', path='out'), 'opencl-coverage.lcov')
        """
        kind, _, path = text.partition(":")
        if kind not in PATHS:
            raise ValueError(
                f"unknown kind of coverage report: {text!r}; the kinds are {', '.join(PATHS)}, each with :PATH"
            )
        return Wish(kind, path or PATHS[kind])


@dataclass(frozen=True)
class Outcome:
    """The result of a run: text for the terminal, and whether the threshold was reached."""

    text: str
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A run with coverage, in any number of processes.

    `root`: paths and names are relative to it. `folder`: what processes leave there belongs to the run. `append`: so
    does what was there before.
    """

    root: Path
    folder: Path
    wishes: Sequence[Wish]
    threshold: Threshold
    append: bool

    def begin(self) -> None:
        if not self.append:
            erase(self.root / self.folder)

    def end(self) -> Outcome:
        """Merge and report. OSError or ValueError if files cannot be written or read."""
        return report(load(self.root / self.folder), self.wishes, self.threshold, self.root)


def report(data: Data, wishes: Sequence[Wish], threshold: Threshold, root: Path) -> Outcome:
    """Write the requested reports, with paths relative to `root`. OSError if a file cannot be written."""
    files = figures_of(data.latest(root))
    total = total_of(files)
    parts = []
    for wish in wishes:
        content = _written(wish, data, files, root)
        if wish.path:
            _write(wish, content, files, root)
            parts.append(f"coverage of kernels as {wish.kind}: {wish.path}")
        else:
            parts.append(content)
    failures = tuple(threshold.failures(total))
    return Outcome("\n".join([*parts, *failures]), failures)


def _written(wish: Wish, data: Data, files: Sequence[FileFigures], root: Path) -> str:
    if wish.kind == "lcov":
        return as_lcov(files)
    if wish.kind == "xml":
        return as_cobertura(files, root)
    return as_text(data, files) if wish.kind == "text" else ""


def _write(wish: Wish, content: str, files: Sequence[FileFigures], root: Path) -> None:
    path = root / wish.path
    if wish.kind == "html":
        write_pages(files, path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")


def as_text(data: Data, files: Sequence[FileFigures]) -> str:
    """A table of files, what never happened on lines that ran, and what was not counted."""
    rows: list[tuple[str, ...]] = [
        ("file", "lines", "missed", "cover", "branches", "missed", "cover", "lines that never ran")
    ]
    for each in files:
        known = [line.line for line in each.lines]
        rows.append((each.count.name, *_columns(each.total), ranges(each.missed, known)))
    rows.append(("in all", *_columns(total_of(files)), ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  ".join(
            cell.ljust(width) if index in (0, 7) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*table, *_never(files), *_notes(data)])


def _columns(total: Total) -> tuple[str, ...]:
    missed, untaken = total.nlines - total.lines_hit, total.noutcomes - total.taken
    branches = (
        (str(total.noutcomes), str(untaken), percent(total.branch_rate))
        if total.noutcomes
        else ("0", "0", "-")
    )
    return str(total.nlines), str(missed), percent(total.line_rate), *branches


def _never(files: Sequence[FileFigures]) -> list[str]:
    found = [
        f"  {each.count.name}:{line.line}: {what}"
        for each in files
        for line in each.lines
        if line.hits
        for what in line.never
    ]
    more = len(found) - _MOST_NEVER
    return found if more <= 0 else [*found[:_MOST_NEVER], f"  and {more} more, which the pages show"]


def _notes(data: Data) -> list[str]:
    return [
        f"  not counted: {file}{f':{line}' if line else ''}: {what}"
        for file, line, what in sorted(data.notes)
    ]
