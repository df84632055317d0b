"""A picture of which bytes of which argument each worker reads and writes, as SVG.

Decides how bytes become marks on paper: a row for each argument, a column or a lane for each worker. Where an
argument has a pitch, its bytes are laid out in rows of that many. It knows regions and nothing of kernels. SVG
is written by hand: it needs no package, and lines of text stay text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

#: modes in the order in which they are painted
COLOURS = {"read": "#8ab6e8", "write": "#d9542b", "atomic": "#6b3fa0"}
_MARGIN, _LABEL, _WIDTH = 16, 150, 720  #: sizes of the page, of the names at the left, and of the bars
_LANE, _GAP, _HEAD = 14, 18, 44
_TALLEST = 180  #: the size of an argument that is drawn in two dimensions
_CELLS = 240  #: the most cells along an edge of such a drawing
_MOST_RUNS = 1 << 16  #: runs that are drawn individually
_SLOTS = 1440  #: the most marks along a bar

Cells = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Row:
    """One argument. `touched[worker][mode]`: bytes from the argument's beginning. `pitch`: bytes from one row of a
    matrix to the next; None if it is drawn as a line.
    """

    name: str
    nbytes: int
    touched: Sequence[Mapping[str, Region]]
    pitch: int | None = None


def draw(title: str, rows: Sequence[Row]) -> str:
    """The picture as the text of an SVG file."""
    parts: list[str] = []
    y = _MARGIN + _HEAD
    for row in rows:
        height, marks = _matrix(row, y) if row.pitch else _line(row, y)
        parts += _names(row, y)
        parts += marks
        y += height + _GAP
    width, height = 2 * _MARGIN + _LABEL + _WIDTH, y - _GAP + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            _text(_MARGIN, _MARGIN + 10, title, 'font-size="13" font-weight="bold"'),
            *_legend(rows),
            *parts,
            "</svg>\n",
        ]
    )


def _legend(rows: Sequence[Row]) -> Iterator[str]:
    used = {mode for row in rows for touched in row.touched for mode, region in touched.items() if region}
    x = _MARGIN + _LABEL
    for mode, colour in COLOURS.items():
        if mode in used:
            yield f'<rect x="{x}" y="{_MARGIN + 20}" width="10" height="10" fill="{colour}"/>'
            yield _text(x + 14, _MARGIN + 29, mode)
            x += 70


def _names(row: Row, y: int) -> Iterator[str]:
    yield _text(_MARGIN, y + 11, row.name, 'font-weight="bold"')
    size = f"{row.nbytes} bytes"
    yield _text(_MARGIN, y + 25, size if not row.pitch else f"{size}, {row.pitch} a row", 'fill="#666"')


def _line(row: Row, y: int) -> tuple[int, list[str]]:
    """Bars below each other, one for each worker, reads in the upper half and changes in the lower."""
    marks = []
    x = _MARGIN + _LABEL
    slots = max(min(_SLOTS, row.nbytes), 1)
    unit = _WIDTH / slots
    for worker, touched in enumerate(row.touched):
        top = y + worker * (_LANE + 3)
        marks.append(_frame(x, top, _WIDTH, _LANE))
        marks.append(_text(x - 8, top + 11, f"worker {worker}", 'text-anchor="end" fill="#444"'))
        for mode in _present(touched):
            cells = _rasterised(touched[mode], row.nbytes, row.nbytes, 1, slots)
            half = _LANE / 2
            level = top if mode == "read" else top + half
            for _, first, _, stop in _boxes(cells):
                marks.append(_box(x + first * unit, level, (stop - first) * unit, half, mode))
    return len(row.touched) * (_LANE + 3) - 3, marks


def _matrix(row: Row, y: int) -> tuple[int, list[str]]:
    """Matrices beside each other, one for each worker, changes as smaller marks on top of reads."""
    pitch = row.pitch or row.nbytes
    nrows = max(-(-row.nbytes // pitch), 1)
    count = len(row.touched)
    wide = (_WIDTH - (count - 1) * 10) / count
    tall = min(max(wide * min(nrows / pitch * 4, 1.5), 24), _TALLEST)
    lines, columns = min(nrows, _CELLS), min(pitch, _CELLS)
    marks = []
    for worker, touched in enumerate(row.touched):
        x = _MARGIN + _LABEL + worker * (wide + 10)
        marks.append(_text(x, y + 10, f"worker {worker}", 'fill="#444"'))
        top = y + 15
        marks.append(_frame(x, top, wide, tall))
        for mode in _present(touched):
            cells = _rasterised(touched[mode], row.nbytes, pitch, lines, columns)
            for upper, left, lower, right in _boxes(cells):
                inset = 0.0 if mode == "read" else min((lower - upper) * tall / lines / 4, 2.0)
                marks.append(
                    _box(
                        x + left * wide / columns,
                        top + upper * tall / lines + inset,
                        (right - left) * wide / columns,
                        (lower - upper) * tall / lines - 2 * inset,
                        mode,
                    )
                )
    return int(tall) + 15, marks


def _present(touched: Mapping[str, Region]) -> list[str]:
    return [mode for mode in COLOURS if touched.get(mode)]


def _rasterised(region: Region, nbytes: int, pitch: int, lines: int, columns: int) -> Cells:
    """Which cells of a drawing of `lines` by `columns` contain a byte of `region`, in rows of `pitch` bytes."""
    nrows = max(-(-nbytes // pitch), 1)
    cells = np.zeros((lines, columns), bool)
    shown = region.clip(0, nbytes)
    if len(shown) > _MOST_RUNS:  # one row stands for all in its line
        rows = [(2 * line + 1) * nrows // (2 * lines) for line in range(lines)]
        shown = Region.union(shown.clip(row * pitch, (row + 1) * pitch) for row in rows)
    if len(shown) > _MOST_RUNS:  # gaps too small to be seen
        shown = Region.union(
            Region.span(start, start + nbytes + sum(stride * (count - 1) for stride, count in dims))
            for start, nbytes, dims in shown.parts()
        )
    for start, stop in shown.runs.tolist():
        first, last = start // pitch, (stop - 1) // pitch
        for line, left, right in _pieces(start, stop, first, last, pitch):
            upper = line[0] * lines // nrows
            lower = max(-(-line[1] * lines // nrows), upper + 1)
            cells[upper:lower, left * columns // pitch : max(-(-right * columns // pitch), 1)] = True
    return cells


def _pieces(
    start: int, stop: int, first: int, last: int, pitch: int
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """A run as rectangles: ((first row, one past the last), first column, one past the last)."""
    if first == last:
        yield (first, first + 1), start - first * pitch, stop - first * pitch
        return
    if start % pitch:
        yield (first, first + 1), start - first * pitch, pitch
        first += 1
    whole = stop // pitch
    if whole > first:
        yield (first, whole), 0, pitch
    if stop % pitch:
        yield (whole, whole + 1), 0, stop - whole * pitch


def _boxes(cells: Cells) -> Iterator[tuple[int, int, int, int]]:
    """The set cells as rectangles (top, left, bottom, right): runs of a row, joined with equal ones below."""
    open_runs: dict[tuple[int, int], int] = {}
    for number, line in enumerate([*cells, np.zeros(cells.shape[1], bool)]):
        edges = np.flatnonzero(np.diff(line, prepend=False, append=False)).reshape(-1, 2)
        runs = {(int(left), int(right)) for left, right in edges}
        for run in [run for run in open_runs if run not in runs]:
            yield open_runs.pop(run), run[0], number, run[1]
        for run in runs:
            open_runs.setdefault(run, number)


def _box(x: float, y: float, width: float, height: float, mode: str) -> str:
    return (
        f'<rect class="{mode}" x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.5):.2f}" height="{max(height, 0.5):.2f}" '
        f'fill="{COLOURS[mode]}"/>'
    )


def _frame(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="#f4f4f4" stroke="#bbb"/>'


def _text(x: float, y: float, content: str, style: str = "") -> str:
    return f'<text x="{x:.2f}" y="{y:.2f}" {style}>{escape(content)}</text>'
