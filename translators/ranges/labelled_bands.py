"""Bands with labels: the sets of `bands`, with labels in the place of None.

What `labelled` keeps as one value is worked with here: cut out, put somewhere else, laid over each other, told apart by
label, written in other pitches. Digits of a band that all have the same inside are looked at once.

What is called most is compiled as well (`compiled`): a change here needs the same change in `native/bands.c`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Union

from . import compiled
from .bands import Bands, Units

Pitches = tuple[int, ...]
LabelledBand = tuple[int, int, Union[int, "LabelledBands"]]
LabelledBands = tuple[LabelledBand, ...]
Inner = int | LabelledBands

#: by band: BREAK before one that does not go on where the last one ends, and its label or what is inside
LabelledPattern = tuple[Union[int, "LabelledPattern"], ...]

BREAK = -1

#: bands up to which it costs less to look at each than to search
FEW = 6
NOWHERE = 1 << 200  #: behind all digits
END: LabelledBand = (NOWHERE, NOWHERE, 0)

_start, _stop = itemgetter(0), itemgetter(1)

#: of digits of which one run each lies in the window: the first, one more than the last; what they have, and what of it lies
#: there; of what they have, how many bands end before the run, and how many do not go on behind it
RunPiece = tuple[int, int, LabelledBands, LabelledBands, int, int]
#: of digits of which another part lies in the window: the same up to what lies there, and the pieces of the next level
Piece = tuple[int, int, Inner, LabelledBands, Any]
#: by band of a window, its pieces, of the one kind or the other; none where it has its digits whole
Rows = tuple[list[Any], ...]


def _append(bands: list[Any], lo: int, hi: int, inner: Any) -> None:
    """Add a band behind the others, joined with the last where it goes on."""
    if bands:
        last = bands[-1]
        if last[1] == lo and last[2] == inner:
            bands[-1] = (last[0], hi, inner)
            return
    bands.append((lo, hi, inner))


def _joined(a: LabelledBands, b: LabelledBands) -> LabelledBands:
    """Bands behind others, joined where they go on."""
    if not a or not b:
        return a or b
    lo, hi, inner = a[-1]
    start, stop, other = b[0]
    if hi == start and inner == other:
        return (*a[:-1], (lo, stop, inner), *b[1:])
    return a + b


def painted(bands: Bands, label: int) -> LabelledBands:
    """A set whose members all have the label."""
    return tuple([(lo, hi, label if inner is None else painted(inner, label)) for lo, hi, inner in bands])


def apart(
    bands: LabelledBands, units: Units, level: int, names: Callable[[int], tuple[int, ...]]
) -> dict[int, Bands]:
    """By name, the set of those whose labels have it: `names` gives those of a label."""
    found: dict[int, list[Any]] = {}
    for lo, hi, inner in bands:
        if isinstance(inner, int):
            for number in names(inner):
                parts = found.get(number)
                if parts is None:
                    found[number] = [(lo, hi, None)]
                elif parts[-1][1] == lo and parts[-1][2] is None:
                    parts[-1] = (parts[-1][0], hi, None)
                else:
                    parts.append((lo, hi, None))
            continue
        size = units[level] // units[level + 1]
        for number, below in apart(inner, units, level + 1, names).items():
            full = len(below) == 1 and below[0] == (0, size, None)
            _append(found.setdefault(number, []), lo, hi, None if full else below)
    return {number: tuple(parts) for number, parts in found.items()}


def cut_out(a: LabelledBands, window: Bands, units: Units, level: int) -> tuple[LabelledBands, Rows | None]:
    """What of `a` lies in a set, and what `put_in` may need: by band of the set what lies there and beside it."""
    return _cut_out(a, window, units, level)


def _cut_out(a: LabelledBands, window: Bands, units: Units, level: int) -> tuple[LabelledBands, Rows]:
    inside: list[LabelledBand] = []
    rows: list[Any] = []
    for first, last, below in window:
        if below is not None:
            run = _one_run(below)
            if run is not None:  # as nearly all are
                rows.append(_run_cut(a, (first, last), run, units[level] // units[level + 1], inside))
            else:
                rows.append(_row_cut(a, (first, last, below), units, level, inside))
            continue
        rows.append([])
        for lo, hi, inner in _from(a, first):
            if lo >= last:
                break
            if hi > first:
                _append(inside, lo if lo > first else first, hi if hi < last else last, inner)
    return tuple(inside), tuple(rows)


def _run_cut(  # noqa: C901 (on the way of every launch: for each row a call would take a third longer)
    a: LabelledBands, digits: tuple[int, int], run: tuple[int, int], size: int, inside: list[LabelledBand]
) -> list[RunPiece]:
    """The pieces of a band of the window, which has a run of each of its digits. What lies in it is added to `inside`."""
    (at, last), (low, high) = digits, run
    pieces: list[RunPiece] = []
    held: LabelledBands = ()  # what the digits from `since` on have
    since = at
    for lo, hi, inner in _from(a, at):
        if lo >= last:
            break
        if hi <= at:
            continue
        if lo > at:
            pieces.append((at, lo, (), (), 0, 0))
            if held:
                _append(inside, since, at, held)
                held = ()
            at = lo
        bands = inner if type(inner) is tuple else ((0, size, inner),)
        before = bisect_right(bands, low, key=_stop)
        behind = bisect_left(bands, high, before, key=_start)
        middle = bands[before:behind]
        if middle:
            start, end, label = middle[0]
            if start < low:
                middle = ((low, end, label), *middle[1:])
                start = low
            if behind - before > 1:
                start, end, label = middle[-1]
            if end > high:
                middle = (*middle[:-1], (start, high, label))
                behind -= 1
        stop = hi if hi < last else last
        pieces.append((at, stop, bands, middle, before, behind))
        if middle != held:
            if held:
                _append(inside, since, at, held)
            held, since = middle, at
        at = stop
    if held:
        _append(inside, since, at, held)
    if at < last:
        pieces.append((at, last, (), (), 0, 0))
    return pieces


def _row_cut(
    a: LabelledBands,
    window: tuple[int, int, Bands],
    units: Units,
    level: int,
    inside: list[LabelledBand],
) -> list[Piece]:
    """The same for a band that has other parts of its digits."""
    at, last, below = window
    pieces: list[Piece] = []
    for lo, hi, inner in _from(a, at):
        if lo >= last:
            break
        if hi <= at:
            continue
        if lo > at:
            pieces.append(_piece(at, lo, 0, below, units, level))
            at = lo
        stop = hi if hi < last else last
        pieces.append(_piece(at, stop, inner, below, units, level))
        middle = pieces[-1][3]
        if middle:
            _append(inside, at, stop, middle)
        at = stop
    if at < last:
        pieces.append(_piece(at, last, 0, below, units, level))
    return pieces


def _from(a: LabelledBands, first: int) -> LabelledBands:
    """The bands that end behind a digit, and maybe some before them."""
    return a[bisect_right(a, first, key=_stop) :] if len(a) > FEW else a


def _one_run(below: Bands) -> tuple[int, int] | None:
    """Where it begins and ends, if a set is one run of digits."""
    if len(below) == 1 and below[0][2] is None:
        return below[0][0], below[0][1]
    return None


def _piece(lo: int, hi: int, inner: Inner, below: Bands, units: Units, level: int) -> Piece:
    """Some digits of a row that all have `inner`, 0 where they have nothing, of which `below` lies in the window."""
    return lo, hi, inner, *_cut_out(_opened(inner, units, level), below, units, level + 1)


def _opened(inner: Inner, units: Units, level: int) -> LabelledBands:
    """What lies inside a digit as bands."""
    if isinstance(inner, int):
        return ((0, units[level] // units[level + 1], inner),) if inner else ()
    return inner


def _parted(a: LabelledBands, start: int, stop: int) -> tuple[LabelledBands, LabelledBands]:
    """What of `a` lies before a digit, and what at another one and behind it."""
    count = bisect_left(a, (start,))
    left = a[:count]
    if count and a[count - 1][1] > start:
        lo, _, inner = a[count - 1]
        left = (*a[: count - 1], (lo, start, inner))
    count = bisect_left(a, (stop,), count)
    if count and a[count - 1][1] > stop:
        _, hi, inner = a[count - 1]
        return left, ((stop, hi, inner), *a[count:])
    return left, a[count:]


def put_in(
    a: LabelledBands, window: Bands, rows: Rows | None, inside: LabelledBands, units: Units, level: int
) -> LabelledBands:
    """`a` outside of a set, and `inside`, which lies in it, there. `rows`: as of `cut_out`."""
    if rows is None:
        rows = _cut_out(a, window, units, level)[1]
    return _put_in(a, window, rows, inside, units, level)


def _put_in(
    a: LabelledBands, window: Bands, rows: Rows, inside: LabelledBands, units: Units, level: int
) -> LabelledBands:
    found: LabelledBands = ()
    for (first, last, below), pieces in zip(window, rows, strict=True):
        here = inside
        if last < window[-1][1]:
            here, inside = _parted(inside, last, last)
        left, a = _parted(a, first, last)
        if below is not None:
            run = _one_run(below)
            if run is not None:
                here = _run_put(pieces, run, here, units[level] // units[level + 1])
            else:
                here = _row_put(pieces, below, here, units, level)
        found = _joined(_joined(found, left), here)
    return _joined(found, a)


def _run_put(pieces: list[RunPiece], run: tuple[int, int], inside: LabelledBands, size: int) -> LabelledBands:
    """The digits of one band of the window, which has a run of each, with `inside`, which lies in it."""
    # The walk stands in `_row_put` as well: as one generator for both it takes a tenth longer, on the way of every launch.
    low, high = run
    found: list[LabelledBand] = []
    rest = iter(inside)
    start, end, new = next(rest, END)
    since = 0
    held: Inner = ()  # what the digits from `since` on have: pieces have no gaps between them
    for lo, hi, outer, middle, before, behind in pieces:
        while lo < hi:
            while end <= lo:
                start, end, new = next(rest, END)
            put, stop = (new, end) if start <= lo else ((), start)
            if stop > hi:
                stop = hi
            row = outer
            if put != middle:
                row = _spliced(
                    outer, before, behind, low, high, put if type(put) is tuple else ((0, size, put),)
                )
            inner = row if len(row) != 1 else _unless_whole(row, size)
            if held != inner:
                if held:
                    found.append((since, lo, held))
                since, held = lo, inner
            lo = stop
    if held:
        found.append((since, lo, held))
    return tuple(found)


def _spliced(
    bands: LabelledBands, before: int, behind: int, low: int, high: int, put: LabelledBands
) -> LabelledBands:
    """The bands but for the digits from `low` up to `high`, and there `put_in`. `before`, `behind`: as of `RunPiece`."""
    left, right = bands[:before], bands[behind:]
    if before < len(bands):
        start, _, label = bands[before]
        if start < low:
            left += ((start, low, label),)
    if right:
        start, stop, label = right[0]
        if start < high:
            right = ((high, stop, label), *right[1:])
    if not put:
        return left + right
    if left:
        start, stop, label = left[-1]
        first = put[0]
        if stop == first[0] and label == first[2]:
            left, put = left[:-1], ((start, first[1], label), *put[1:])
    if right:
        start, stop, label = right[0]
        last = put[-1]
        if start == last[1] and label == last[2]:
            return (*left, *put[:-1], (last[0], stop, label), *right[1:])
    return left + put + right


def _row_put(
    pieces: list[Piece], below: Bands, inside: LabelledBands, units: Units, level: int
) -> LabelledBands:
    """The same for a band that has other parts of its digits."""
    found: list[LabelledBand] = []
    rest = iter(inside)
    start, end, new = next(rest, END)
    for lo, hi, outer, middle, rows in pieces:
        while lo < hi:
            while end <= lo:
                start, end, new = next(rest, END)
            put, stop = (new, end) if start <= lo else ((), start)
            if stop > hi:
                stop = hi
            inner = outer
            if put != middle:
                put = put if type(put) is tuple else _opened(put, units, level)
                inner = _put_in(_opened(outer, units, level), below, rows, put, units, level + 1)
                if len(inner) == 1:
                    inner = _unless_whole(inner, units[level] // units[level + 1])
            if inner:
                _append(found, lo, stop, inner)
            lo = stop
    return tuple(found)


def laid_over(a: LabelledBands, b: LabelledBands, units: Units, level: int) -> LabelledBands:
    """What either has, with the labels of both where both have it."""
    if not a or not b:
        return a or b
    found: list[LabelledBand] = []
    i, j, na, nb = 0, 0, len(a), len(b)
    alo, ahi, ain = a[0]
    blo, bhi, bin_ = b[0]
    while i < na and j < nb:
        if alo < blo:
            hi = ahi if ahi < blo else blo
            _append(found, alo, hi, ain)
            alo = hi
        elif blo < alo:
            hi = bhi if bhi < alo else alo
            _append(found, blo, hi, bin_)
            blo = hi
        else:
            hi = ahi if ahi < bhi else bhi
            _append(found, alo, hi, _both(ain, bin_, units, level))
            alo = blo = hi
        if alo == ahi:
            i += 1
            if i < na:
                alo, ahi, ain = a[i]
        if blo == bhi:
            j += 1
            if j < nb:
                blo, bhi, bin_ = b[j]
    rest: LabelledBands = ((alo, ahi, ain), *a[i + 1 :]) if i < na else ()
    if j < nb:
        rest = ((blo, bhi, bin_), *b[j + 1 :])
    return _joined(tuple(found), rest)


def _both(a: Inner, b: Inner, units: Units, level: int) -> Inner:
    """What lies inside one digit of level `level` that two maps have."""
    if isinstance(a, int) and isinstance(b, int):
        return a | b
    size = units[level] // units[level + 1]
    mine = ((0, size, a),) if isinstance(a, int) else a
    yours = ((0, size, b),) if isinstance(b, int) else b
    found = laid_over(mine, yours, units, level + 1)
    return _unless_whole(found, size)


def _unless_whole(bands: LabelledBands, size: int) -> Inner:
    """Bands, or their label where they are all of `size` digits and have the same."""
    if len(bands) == 1:
        lo, hi, inner = bands[0]
        if isinstance(inner, int) and lo == 0 and hi == size:
            return inner
    return bands


def refine(bands: LabelledBands, old: Pitches, new: Pitches) -> LabelledBands:
    """The same map in more pitches."""
    depth = 0
    old_units, new_units = (*old, 1), (*new, 1)
    while old_units != new_units:
        if old_units[depth] != new_units[depth]:
            bands = _split_at(bands, depth, new_units[depth] // old_units[depth])
            old_units = (*old_units[:depth], new_units[depth], *old_units[depth:])
        depth += 1
    return bands


def _split_at(bands: LabelledBands, depth: int, ratio: int) -> LabelledBands:
    if depth:
        return tuple(
            [
                (lo, hi, inner if isinstance(inner, int) else _split_at(inner, depth - 1, ratio))
                for lo, hi, inner in bands
            ]
        )
    found: list[LabelledBand] = []
    parts: list[LabelledBand] = []  # of the row that is not complete yet
    open_row = 0
    for start, hi, inner in bands:
        lo = start
        while lo < hi:
            row, low = divmod(lo, ratio)
            end = (row + 1) * ratio
            if parts and row != open_row:
                _append(found, open_row, open_row + 1, _unless_whole(tuple(parts), ratio))
                parts = []
            if low or hi < end:
                end = min(hi, end)
                _append(parts, low, end - row * ratio, inner)
                open_row = row
            else:
                end = hi - hi % ratio
                _append(found, row, end // ratio, inner if isinstance(inner, int) else ((0, ratio, inner),))
            lo = end
    if parts:
        _append(found, open_row, open_row + 1, _unless_whole(tuple(parts), ratio))
    return tuple(found)


def repeats(bands: LabelledBands, depth: int) -> bool:
    """Whether a proper part of a unit of this level is there for several digits."""
    parts = [(hi - lo, inner) for lo, hi, inner in bands if not isinstance(inner, int)]
    return any(width > 1 if depth == 0 else repeats(inner, depth - 1) for width, inner in parts)


def flat_at(bands: LabelledBands, depth: int, ratio: int) -> LabelledBands:
    if depth:
        return tuple(
            [
                (lo, hi, inner if isinstance(inner, int) else flat_at(inner, depth - 1, ratio))
                for lo, hi, inner in bands
            ]
        )
    found: list[LabelledBand] = []
    for lo, hi, inner in bands:
        if isinstance(inner, int):
            _append(found, lo * ratio, hi * ratio, inner)
            continue
        for row in range(lo, hi):
            for low, high, below in inner:
                _append(found, row * ratio + low, row * ratio + high, below)
    return tuple(found)


def is_span(bands: LabelledBands, start: int, stop: int, units: Units, level: int) -> bool:
    """Whether bands in which no digit is missing go from one number to another, in units of the last level."""
    unit = units[level]
    end, rest = divmod(start, unit)
    if rest or stop % unit:
        return False
    for lo, hi, inner in bands:
        if lo != end or (type(inner) is tuple and not is_span(inner, 0, unit, units, level + 1)):
            return False
        end = hi
    return end * unit == stop


def count_labelled(bands: LabelledBands, depth: int) -> int:
    """Boxes with one label each; `depth`: levels below this one."""
    if depth == 0:
        return len(bands)
    below = [inner for _, _, inner in bands if type(inner) is tuple]
    found = len(bands) - len(below)
    if depth == 1:
        return found + sum(map(len, below))
    return found + sum([count_labelled(inner, depth - 1) for inner in below])


def count_shared(bands: LabelledBands) -> int:
    """Boxes whose label has several numbers."""
    found = 0
    for _, _, inner in bands:
        if type(inner) is tuple:
            found += count_shared(inner)
        elif inner & (inner - 1):  # type: ignore[operator]
            found += 1
    return found


def numbers_of_labelled(bands: LabelledBands, numbers: list[int]) -> LabelledPattern:
    """The pattern of a map, its numbers added to `numbers`. What goes on where a band ends is no number of its own."""
    found: list[Any] = []
    end: int | None = None
    for lo, hi, inner in bands:
        if lo != end:
            found.append(BREAK)
            numbers.append(lo)
        numbers.append(hi)
        end = hi
        found.append(inner if isinstance(inner, int) else numbers_of_labelled(inner, numbers))
    return tuple(found)


compiled.replace(
    globals(),
    (
        *("laid_over", "cut_out", "put_in", "numbers_of_labelled", "count_labelled"),
        *("apart", "is_span", "painted"),
    ),
)
