"""The page of results names every file beside it, and its table of targets says what these files say."""

from __future__ import annotations

import fnmatch
import json
import re
from typing import Any

import pytest

from tests.pure.house import ROOT

FOLDER = ROOT / "samples" / "benchmarks" / "results"
PAGE = FOLDER / "README.md"
#: bar, most or least, the limit, what was found, the verdict, the file
ROW = re.compile(
    r"^\| `([^`]+)`[^|]* \| at (most|least) ([\d.]+) \| ([^|]+) \| (met|\*\*missed\*\*) \| `([^`]+)` \|$"
)
MET = {True: "met", False: "**missed**"}


def _targets(text: str) -> list[tuple[str, str, str, str, str, str]]:
    """The rows of the tables of targets."""
    matches = (ROW.match(line) for line in text.splitlines())
    return [(m[1], m[2], m[3], m[4], m[5], m[6]) for m in matches if m]


def _at_most(bar: dict[str, Any]) -> bool:
    return bool(bar["most"] if "most" in bar else bar["at"] == "most")


def _holds(bar: dict[str, Any]) -> bool:
    found, wanted = bar["found"], bar["wanted"]
    return found is not None and bool(found <= wanted if _at_most(bar) else found >= wanted)


def _rounded(number: float, text: str) -> str:
    """With as many digits as a text has."""
    return f"{number:.{len(text.partition('.')[2])}f}"


def _faults(row: tuple[str, str, str, str, str, str]) -> list[str]:
    """What a row says that its file does not."""
    name, at, wanted, found, verdict, file = row
    bars = [
        bar
        for bar in json.loads((FOLDER / file).read_text())["bars"]
        if fnmatch.fnmatchcase(bar["bar"], name)
    ]
    if not bars:
        return [f"{file} has no `{name}`"]
    held = [_holds(bar) for bar in bars]
    said = f"{sum(held)} of {len(held)}" if "*" in name else _rounded(bars[0]["found"], found)
    limits = {("most" if _at_most(bar) else "least", _rounded(bar["wanted"], wanted)) for bar in bars}
    return [
        f"{file}, `{name}`: {what}, not {written}"
        for what, written in ((said, found), (MET[all(held)], verdict), (limits, {(at, wanted)}))
        if what != written
    ]


def _names(text: str) -> list[str]:
    """What a page calls files of this folder, with `*` for anything."""
    return re.findall(r"`(\w[\w*]*\.(?:json|md|png|\*))`", text)


def test_the_page_names_every_file_and_no_other() -> None:
    there = {path.name for path in FOLDER.iterdir()} - {PAGE.name}
    matches = {name: set(fnmatch.filter(there, name)) for name in _names(PAGE.read_text())}
    assert [name for name, files in matches.items() if not files] == []
    assert there == set().union(*matches.values())


def test_every_target_is_what_its_file_says() -> None:
    rows = _targets(PAGE.read_text())
    assert [fault for row in rows for fault in _faults(row)] == []


def test_every_row_that_names_a_target_is_read() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if re.search(r"\| at (most|least) ", line)]
    assert len(lines) == len(_targets(PAGE.read_text())) > 30


@pytest.mark.parametrize(
    "change",
    [("| 2.58 |", "| 2.59 |"), ("| 27 of 30 |", "| 28 of 30 |"), ("| 1.08 | **missed**", "| 1.08 | met"),
     ("at least 3.4", "at least 2.4"), ("`stencil_3d, 4: kernels`", "`stencil_3d, 8: kernels`")],
)  # fmt: skip
def test_a_wrong_row_is_found(change: tuple[str, str]) -> None:
    text = PAGE.read_text()
    assert change[0] in text
    assert any(_faults(row) for row in _targets(text.replace(*change)))
