"""Draws the guide's pictures of a coverage page and of a race's report, from real runs: `python -m tests.harness.pictures`.

Decides how they look; what they say comes from `vdev-check`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from vdev.harness.coverage.data import load
from vdev.harness.coverage.figures import FileFigures, LineFigures, State, figures_of, percent

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "samples" / "guide"
#: The sample on the coverage page, what it is given, and the lines shown.
SAMPLE, ARGUMENTS, SHOWN = "samples/eigenvalue_bisection.py", ("--size", "40"), range(21, 33)

_WIDTH, _LINE, _TOP = 860, 20, 84
_FILLS = {State.COVERED: "#e8f6ee", State.PARTIAL: "#fff4d6", State.MISSED: "#fdebe9"}
_INKS = {State.COVERED: "#1a7f4b", State.PARTIAL: "#8a5a00", State.MISSED: "#b3261e"}
_SIGNS = {State.COVERED: "✓", State.PARTIAL: "◐", State.MISSED: "✗"}
_QUIET, _INK = "#5a6478", "#1d2433"
_STYLE = """\
text { font-size: 13px; white-space: pre; }
.mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
.sans { font-family: system-ui, 'DejaVu Sans', sans-serif; }
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _check("--no-check", "--coverage-data", folder, "--coverage", SAMPLE, *ARGUMENTS)
        (file,) = figures_of(load(Path(folder)).latest(ROOT))
    (GUIDE / "coverage.svg").write_text(coverage_page(file), "utf-8")
    report = _check("samples/guide/overrun.py")
    (GUIDE / "race.svg").write_text(race_report(report.splitlines()), "utf-8")


def _check(*arguments: str) -> str:
    """What `vdev-check` prints, run in the root."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "vdev.cli.check", *arguments],
        cwd=ROOT, env=environment | {"PYOPENCL_NO_CACHE": "1"}, text=True, capture_output=True, check=False,
    )  # fmt: skip
    return done.stdout


def coverage_page(file: FileFigures) -> str:
    """The head of a file's page, and some of its lines."""
    total = file.total
    parts = [
        _text(20, 32, file.count.name, "sans", _INK, "bold"),
        _text(
            20,
            56,
            f"{percent(total.line_rate)} of {total.nlines} lines, {percent(total.branch_rate)} of {total.noutcomes} branches",
            "sans",
            _QUIET,
        ),
    ]
    texts = file.count.text.splitlines()
    found = {line.line: line for line in file.lines}
    y = _TOP
    for number in SHOWN:
        height, drawn = _row(number, texts[number - 1], found.get(number), y)
        parts += drawn
        y += height
    return _drawing(y + 8, f"Coverage of the kernels in {file.count.name}, by line", parts)


def _row(number: int, text: str, line: LineFigures | None, y: int) -> tuple[int, list[str]]:
    """A line of source: its height and its parts."""
    base = y + 14
    parts = [_text(20, base, f"{number:3d}", "mono", _QUIET), _text(170, base, text, "mono", _INK)]
    if line is None:
        return _LINE, parts
    never = line.never if line.hits else []
    height = _LINE * (1 + len(never))
    taken, total = line.outcomes
    ink = _INKS[line.state]
    parts.insert(
        0, f'<rect x="1" y="{y}" width="{_WIDTH - 2}" height="{height}" fill="{_FILLS[line.state]}"/>'
    )
    parts += [
        _text(58, base, _SIGNS[line.state], "mono", ink, "bold"),
        _text(80, base, f"{line.hits:3d}×", "mono", _QUIET),
    ]
    if total:
        parts.append(_text(128, base, f"{taken}/{total}", "mono", ink))
    parts += [_text(170, base + _LINE * (i + 1), what, "sans", ink) for i, what in enumerate(never)]
    return height, parts


def race_report(lines: Sequence[str]) -> str:
    """What `vdev-check` says of a race."""
    start = next(index for index, line in enumerate(lines) if ": race-" in line)
    stop = next((index for index in range(start, len(lines)) if not lines[index].strip()), len(lines))
    shown = ["$ vdev-check samples/guide/overrun.py", *lines[start:stop]]
    parts = []
    for index, line in enumerate(shown):
        ink = _QUIET if line.startswith(("$", "  remedy", "  by")) else _INK
        if ": race-" in line:
            place, kind, rest = line.split(": ", 2)
            first, _, second = rest.partition(", ")
            parts.append(
                _text(
                    20,
                    32,
                    f"{place}: ",
                    "mono",
                    _INK,
                    "bold",
                    (f"{kind}: ", _INKS[State.MISSED]),
                    (first, _INK),
                )
            )
            line = f"  {second}" if second else ""
        elif index == 0:
            continue
        parts.append(_text(20, 32 + _LINE * len(parts), line, "mono", ink))
    return _drawing(32 + _LINE * len(parts), "A race between two work-items, as vdev-check reports it", parts)


def _text(
    x: int, y: int, text: str, family: str, fill: str, weight: str = "normal", *more: tuple[str, str]
) -> str:
    rest = "".join(f'<tspan font-weight="bold" fill="{ink}">{escape(each)}</tspan>' for each, ink in more)
    bold = ' font-weight="bold"' if weight == "bold" else ""
    return f'<text x="{x}" y="{y}" class="{family}" fill="{fill}"{bold} xml:space="preserve">{escape(text)}{rest}</text>'


def _drawing(height: int, title: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n'
        f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff" stroke="#d8dde8"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    main()
