"""Figures from what was counted: by line, by file, in total.

Decides when a line is covered (a statement that starts on it ran), and when it is covered in part (another statement
did not, or a condition on it had only one outcome). Branches are counted by outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum

from vdev.harness.coverage.data import Condition, FileCount
from vdev.translators.values import dataclass

_PER_CENT = re.compile(r"\d+(\.\d+)?(,\d+(\.\d+)?)?", re.ASCII)


class State(Enum):
    """The state of a line."""

    COVERED = "covered"
    PARTIAL = "partial"
    MISSED = "missed"


@dataclass(frozen=True)
class LineFigures:
    """A line with statements or conditions. `hits`: launches in which any statement on it ran."""

    line: int
    hits: int
    nmissed: int  #: statements on it that never ran
    conditions: tuple[Condition, ...]

    @property
    def outcomes(self) -> tuple[int, int]:
        """(taken, total)"""
        hits = [number for condition in self.conditions for number in condition.outcomes.values()]
        return sum(number > 0 for number in hits), len(hits)

    @property
    def state(self) -> State:
        if not self.hits:
            return State.MISSED
        taken, total = self.outcomes
        return State.PARTIAL if self.nmissed or taken < total else State.COVERED

    @property
    def never(self) -> list[str]:
        """What never happened on a line that ran, in words."""
        found = [_never(condition) for condition in self.conditions if 0 in condition.outcomes.values()]
        if self.nmissed:
            found.insert(0, "a statement on the line never ran")
        return found


@dataclass(frozen=True)
class Total:
    """Lines and outcomes of branches: how many ran, and how many there are."""

    lines_hit: int = 0
    nlines: int = 0
    taken: int = 0
    noutcomes: int = 0

    def __add__(self, other: Total) -> Total:
        return Total(
            self.lines_hit + other.lines_hit,
            self.nlines + other.nlines,
            self.taken + other.taken,
            self.noutcomes + other.noutcomes,
        )

    @property
    def line_rate(self) -> float:
        """From 0 to 1; 1 if there is nothing to cover."""
        return self.lines_hit / self.nlines if self.nlines else 1.0

    @property
    def branch_rate(self) -> float:
        return self.taken / self.noutcomes if self.noutcomes else 1.0


@dataclass(frozen=True)
class FileFigures:
    """A file's lines, in order."""

    count: FileCount
    lines: tuple[LineFigures, ...]

    @property
    def total(self) -> Total:
        ran = sum(line.hits > 0 for line in self.lines)
        taken, total = (
            sum(column) for column in zip((0, 0), *(line.outcomes for line in self.lines), strict=True)
        )
        return Total(ran, len(self.lines), taken, total)

    @property
    def missed(self) -> list[int]:
        """Lines that never ran."""
        return [line.line for line in self.lines if line.state is State.MISSED]


@dataclass(frozen=True)
class Threshold:
    """What a run must reach, in per cent. None: no limit."""

    lines: float | None = None
    branches: float | None = None

    @staticmethod
    def parse(text: str) -> Threshold:
        """`LINES` or `LINES,BRANCHES`. ValueError for what is no per cent.

        >>> Threshold.parse("95,85")
        Threshold(lines=95.0, branches=85.0)
        """
        if not _PER_CENT.fullmatch(text) or not all(float(part) <= 100 for part in text.split(",")):
            raise ValueError(
                f"not a threshold: {text!r}; give a percentage of lines, or of lines and of branches: 95,85"
            )
        return Threshold(*map(float, text.split(",")))

    def failures(self, total: Total) -> list[str]:
        """The limits that were missed, in a sentence each."""
        pairs = (("line", total.line_rate, self.lines), ("branch", total.branch_rate, self.branches))
        return [
            f"{what} coverage of kernels is {percent(rate)}, and {bar:g}% is required"
            for what, rate, bar in pairs
            if bar is not None and 100 * rate < bar
        ]


def figures_of(counts: Iterable[FileCount]) -> list[FileFigures]:
    """The figures of those files that have any line to run."""
    found = [FileFigures(count, _lines(count)) for count in counts]
    return [each for each in found if each.lines]


def total_of(files: Iterable[FileFigures]) -> Total:
    return sum((each.total for each in files), Total())


def percent(rate: float) -> str:
    """A rate for people: whole per cent, 100 only where nothing is missing, 0 only where nothing is there.

    >>> percent(0.999), percent(1.0), percent(0.001)
    ('99%', '100%', '1%')
    """
    number = round(100 * rate)
    if rate < 1 and number == 100:
        number = 99
    return f"{1 if rate > 0 and number == 0 else number}%"


def ranges(lines: Sequence[int], known: Sequence[int]) -> str:
    """Line numbers, those joined that have no other line of `known` between them.

    >>> ranges([3, 4, 9, 12], [1, 3, 4, 9, 10, 12])
    '3-9, 12'
    """
    place = {line: index for index, line in enumerate(known)}
    runs: list[list[int]] = []
    for line in lines:
        if runs and place[line] == place[runs[-1][-1]] + 1:
            runs[-1].append(line)
        else:
            runs.append([line])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _lines(count: FileCount) -> tuple[LineFigures, ...]:
    hits: dict[int, list[int]] = {}
    for (line, _), statement in count.statements.items():
        hits.setdefault(line, []).append(statement.hits)
    conditions: dict[int, list[Condition]] = {}
    for (line, _, _), condition in sorted(count.conditions.items(), key=lambda item: item[0]):
        conditions.setdefault(line, []).append(condition)
    return tuple(
        _line(line, hits.get(line, []), conditions.get(line, ())) for line in sorted({*hits, *conditions})
    )


def _line(line: int, hits: Sequence[int], conditions: Sequence[Condition]) -> LineFigures:
    # A condition on a line of its own has no statement: the line ran if any outcome occurred.
    ways = [] if hits else [number for condition in conditions for number in condition.outcomes.values()]
    most = max([*hits, *ways, 0])
    return LineFigures(line, most, sum(not number for number in hits), tuple(conditions))


def _never(condition: Condition) -> str:
    missing = [outcome for outcome, hits in condition.outcomes.items() if not hits]
    if len(missing) == len(condition.outcomes):
        return f"{condition.text} is never reached"
    return f"{condition.text} is never {' or '.join(missing)}"
