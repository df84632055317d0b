"""Sets of byte offsets.

A `Region` decides nothing: it is the arithmetic on which access ranges, the directory and plans rest. It never knows
whose bytes they are.

A region carries its own *pitches*: the bytes of a plane, of a row, of a step, each a multiple of the next. In the
digits that they give an offset it is a few nested bands (`bands`), whatever the number of bytes and rows: a tile of a
matrix, its every third column, the inside of a field are one box. Sets of different pitches are brought to the
pitches of both; a contiguous run has none and fits any. A pitch that spares no band is dropped. Where the pitches of
two sets do not go together (rows of 1000 bytes and of 1024), what is smaller is taken apart; sets in many runs
without any shape are arrays of runs. That is exact as well, but its cost grows with the number of runs: callers that
can do with more bytes ask for a `cover` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import index

import numpy as np
import numpy.typing as npt

from . import bands as nested
from . import byte_runs, compiled
from .bands import Bands, Units
from .byte_runs import Block, Runs
from .pitches import merged, open_box, pitches_for
from .tracing import whole

#: runs of a set without pitches above which they are an array
MOST_BANDS = 64
#: bands up to which pitches that save none are dropped; with more bands they may still help with other sets
FEW_BANDS = 8
#: runs of either of two sets whose pitches do not go together, up to which they are compared as arrays
MOST_RUNS = 1 << 17
#: runs in an array that cost as much as one that has to become a band
RUNS_FOR_BAND = 32


class Region:
    """An immutable set of byte offsets. The empty one is always the same object.

    >>> a = Region.span(0, 8) | Region.span(8, 12)
    >>> a
    Region([0, 12))
    >>> a - Region.span(4, 6)
    Region([0, 4) [6, 12))
    >>> Region.boxes(0, 4, ((16, 3),)).nbytes
    12
    """

    __slots__ = (
        "_corners",
        "_fine",
        "_nboxes",
        "_nbytes",
        "_nruns",
        "_runs",
        "bands",
        "pitches",
        "start",
        "stop",
    )

    start: int  #: the first byte; 0 for the empty region
    stop: int  #: one past the last byte; 0 for the empty region
    #: in bytes, the widest first: the distances at which bands repeat inside each other
    pitches: tuple[int, ...]
    bands: Bands | None  #: None if there are many runs and no pitches
    _runs: Runs | None
    _nbytes: int  #: -1 until asked for
    _nruns: int
    _nboxes: int
    _fine: tuple[tuple[int, ...], Bands] | None  #: its bands in the other pitches that were last requested
    #: the corners that were last requested: pitches, number, result
    _corners: tuple[tuple[tuple[int, ...], int, list[nested.Corner]], ...]

    def __init__(
        self,
        start: int,
        stop: int,
        pitches: tuple[int, ...],
        bands: Bands | None,
        nbytes: int = -1,
        runs: Runs | None = None,
    ) -> None:
        """For this module and for `patterns`. `nbytes`: the number of bytes, if it is known."""
        self.start = start
        self.stop = stop
        self.pitches = pitches
        self.bands = bands
        self._runs = runs
        self._nbytes = nbytes
        self._nruns = self._nboxes = -1
        self._corners = ()
        self._fine = None

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _wrap if self.bands is None else _made_again, (
            (self.runs,) if self.bands is None else (self.bands, self.pitches)
        )

    # making -------------------------------------------------------------------------------------

    @staticmethod
    def empty() -> Region:
        return EMPTY

    @staticmethod
    def span(start: int, stop: int) -> Region:
        """The bytes `start` <= b < `stop`; empty if `stop` <= `start`."""
        return _run(start, stop)

    @staticmethod
    def spans(spans: Iterable[tuple[int, int]]) -> Region:
        """The union of a few half-open runs, in any order."""
        return _from_pairs(spans)

    @staticmethod
    def from_runs(runs: npt.ArrayLike) -> Region:
        """The union of half-open runs, shape (n, 2), in any order, overlapping or not. Costs a step for each."""
        array = np.asarray(runs, np.int64).reshape(-1, 2)
        if len(array) <= 8:
            return _from_pairs((start, stop) for start, stop in array.tolist())
        return _of_array(byte_runs.normal(array))

    @staticmethod
    def boxes(start: int, nbytes: int, dims: Sequence[tuple[int, int]]) -> Region:
        """A strided box: runs of `nbytes` bytes at `start` + i1*stride1 + i2*stride2 + …

        `dims` holds (stride in bytes, count) pairs; strides may be negative or zero. Costs nothing for a stride that
        is a multiple of the next smaller one that is taken for a pitch; for another, a step for each of its count.
        """
        if nbytes <= 0 or any(count <= 0 for _, count in dims):
            return EMPTY
        low, extent, rest = open_box(start, nbytes, dims)
        return Region.span(low, low + extent).copies(rest)

    @staticmethod
    def union(regions: Iterable[Region]) -> Region:
        return _union(tuple(regions))

    # reading ------------------------------------------------------------------------------------

    @property
    def runs(self) -> Runs:
        """Start and stop of each run, in bytes, ascending, shape (n, 2), read-only.

        For reports and for sets known to be small: costs a step for each run.
        """
        runs = self._runs
        if runs is None:
            runs = byte_runs.NO_RUNS
            if self.bands:
                runs = byte_runs.joined(nested.runs(self.bands, self.units))
                runs.setflags(write=False)
            self._runs = runs  # complete: threads of several workers ask
        return runs

    @property
    def nbytes(self) -> int:
        if self._nbytes < 0:
            if self.bands is None:
                runs = self.runs
                self._nbytes = int((runs[:, 1] - runs[:, 0]).sum())
            else:
                self._nbytes = nested.count(self.bands, self.units)
        return self._nbytes

    @property
    def counted(self) -> int:
        """The number of bytes, if anybody has asked for it; otherwise -1."""
        return self._nbytes

    @property
    def nboxes(self) -> int:
        """The number of boxes, which is the cost of working with the region."""
        if self._nboxes < 0:
            self._nboxes = len(self.runs) if self.bands is None else nested.count_boxes(self.bands)
        return self._nboxes

    def __bool__(self) -> bool:
        return self is not EMPTY  # there is no other empty one

    def __len__(self) -> int:
        return self.nruns

    @property
    def nruns(self) -> int:
        """The number of runs; not counted one by one."""
        if self._nruns < 0:
            self._nruns = (
                len(self.runs) if self.bands is None else nested.count_runs(self.bands, self.units)[0]
            )
        return self._nruns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        if self is other:
            return True
        if self.start != other.start or self.stop != other.stop:
            return False
        if self.pitches == other.pitches and self.bands is not None and other.bands is not None:
            return self.bands == other.bands
        if len(self) != len(other) or self.nbytes != other.nbytes:
            return False
        if not self.pitches and not other.pitches:
            return bool(np.array_equal(self.runs, other.runs))
        return not self - other

    def __hash__(self) -> int:
        return hash((self.start, self.stop, self.nbytes))

    def __repr__(self) -> str:
        few = self if len(self) <= 6 else self.clip(self.start, self._seventh())
        shown = " ".join(f"[{start}, {stop})" for start, stop in few.runs[:6].tolist())
        more = f" … {len(self)} runs" if len(self) > 6 else ""
        return f"Region({shown}{more})"

    def hull(self) -> Region:
        """The one run from the first byte to the last."""
        return self if self.is_span else Region.span(self.start, self.stop)

    def contains(self, other: Region) -> bool:
        if not other:
            return True
        if other.start < self.start or self.stop < other.stop:
            return False
        return self.is_span or not (other - self)

    def overlaps(self, other: Region) -> bool:
        if not self or not other or self.stop <= other.start or other.stop <= self.start:
            return False
        if self.is_span and other.is_span:
            return True
        if self.bands is None or other.bands is None:
            return bool(self & other)
        mine, yours, _ = _common(self, other) or (None, None, ())
        return bool(self & other) if mine is None or yours is None else nested.meet(mine, yours)

    # set arithmetic -----------------------------------------------------------------------------

    def __or__(self, other: Region) -> Region:
        if not self or self is other:
            return other
        if not other:
            return self
        if self.is_span and other.is_span and self.start <= other.stop and other.start <= self.stop:
            if self.start <= other.start and other.stop <= self.stop:
                return self
            return Region.span(min(self.start, other.start), max(self.stop, other.stop))
        found = _common(self, other)
        if found is None:
            return _of_array(byte_runs.normal(np.concatenate((self.runs, other.runs))))
        mine, yours, pitches = found
        return region_in(nested.unite(mine, yours, (*pitches, 1)), pitches)

    def __and__(self, other: Region) -> Region:
        if self is other:
            return self
        if self.stop <= other.start or other.stop <= self.start:
            return EMPTY
        pitches = self.pitches
        if pitches and pitches == other.pitches:  # so neither is an array
            return region_in(nested.intersect(self.bands or (), other.bands or ()), pitches)
        if self.is_span:
            return other.clip(self.start, self.stop)
        if other.is_span:
            return self.clip(other.start, other.stop)
        if _easy(self, other):
            found = _common(self, other)
        else:
            self, other = self.clip(other.start, other.stop), other.clip(self.start, self.stop)
            found = _common(self, other)
        if found is None:
            return _of_array(byte_runs.intersection(self.runs, other.runs)) if self and other else EMPTY
        mine, yours, pitches = found
        return region_in(nested.intersect(mine, yours), pitches)

    def __sub__(self, other: Region) -> Region:
        if self is EMPTY or other is EMPTY or self.stop <= other.start or other.stop <= self.start:
            return self
        if other.is_span:
            if other.start <= self.start and self.stop <= other.stop:
                return EMPTY
            if self.is_span or self.bands is None:
                return self.clip(self.start, other.start) | self.clip(other.stop, self.stop)
        elif self is other:
            return EMPTY
        less = other if _easy(self, other) else other.clip(self.start, self.stop)
        if not less:
            return self
        found = _common(self, less)
        if found is None:
            return _of_array(
                byte_runs.intersection(self.runs, byte_runs.gaps(less.runs, self.start, self.stop))
            )
        mine, yours, pitches = found
        return region_in(nested.subtract(mine, yours, (*pitches, 1)), pitches)

    def shift(self, offset: int) -> Region:
        """The same set moved by `offset` bytes."""
        if offset == 0 or not self:
            return self
        if self.is_span:
            return Region.span(self.start + offset, self.stop + offset)
        if self.bands is None:
            return _wrap(self.runs + offset)
        return region_in(nested.shift(self.bands, whole(offset), self.units), self.pitches)

    def copies(self, dims: Sequence[tuple[int, int]]) -> Region:
        """The union of copies at a box's distances, as `open_box` leaves them: (stride, count) pairs, the smallest stride first."""
        found, kept = self, pitches_for(tuple(dims))
        if self.pitches:  # all of which have to divide a further one
            kept = frozenset(number for number in kept if dims[number][0] % self.pitches[0] == 0)
        for number, (stride, count) in enumerate(dims):
            found = found._repeated(stride, count) if number in kept else found._moved(stride, count)
        return found

    def clip(self, start: int, stop: int) -> Region:
        """The part from `start` up to `stop`."""
        if stop <= start or self.stop <= start or stop <= self.start:
            return EMPTY
        if start <= self.start and self.stop <= stop:
            return self
        if self.is_span:
            return Region.span(max(start, self.start), min(stop, self.stop))
        if self.bands is None:
            return _of_array(byte_runs.clipped(self.runs, start, stop))
        window = nested.span(whole(max(start, self.start)), whole(min(stop, self.stop)), self.units)
        return region_in(nested.intersect(self.bands, window), self.pitches)

    def whole(self, size: int, origin: int = 0) -> Region:
        """The whole elements of `size` bytes in the region, counted from `origin`."""
        moved = self.shift(-origin % size)
        if size == 1 or not self:
            return self
        if moved.bands is not None and nested.divisor(moved.bands, moved.units) % size == 0:
            return self
        runs = self.runs - origin
        if not (runs % size).any():
            return self
        edges = byte_runs.paired(-(-runs[:, 0] // size) * size, runs[:, 1] // size * size)
        return Region.from_runs(edges + origin)

    def goes_with(self, other: Region) -> bool:
        """Whether working with both costs only what their boxes cost: their pitches go together, or one is small."""
        if self.pitches == other.pitches or merged(self.pitches, other.pitches) is not None:
            return True
        return min(len(self), len(other)) <= MOST_BANDS

    def corners(self, pitches: tuple[int, ...], most: int) -> list[nested.Corner]:
        """At most `most` boxes around it in the digits that `pitches` give: the least of each and one more than the
        largest. Two sets that meet have boxes that do. Rows are whole where its own pitches do not go with these.

        >>> Region.boxes(4, 2, ((8, 6),)).corners((16,), 8)  # at 4 and at 12 of each row
        [((0, 3), (4, 6)), ((0, 3), (12, 14))]
        """
        for known in self._corners:
            if known[0] == pitches and known[1] == most:
                return known[2]
        found = self._corners_in(pitches)
        if len(found) > most:  # neighbours together
            share = -(-len(found) // most)
            found = [nested.around(found[at : at + share]) for at in range(0, len(found), share)]
        # those who call this alternate between two kinds
        self._corners = (*self._corners[-1:], (pitches, most, found))
        return found

    def _corners_in(self, pitches: tuple[int, ...]) -> list[nested.Corner]:
        first = pitches[0] if pitches else 1
        low, high = self.start // first, -(-self.stop // first)
        joint = None if self.bands is None else merged(self.pitches, pitches)
        if joint is None or (self.is_span and high - low > 1):
            return [((low, high), *((0, one // other) for one, other in pairwise((*pitches, 1))))]
        found, units = nested.corners(self.refined(joint), (*joint, 1)), [*joint, 1]
        for depth in range(len(joint) - 1, -1, -1):
            if joint[depth] not in pitches:
                found = nested.joined_digits(found, depth, units[depth] // units[depth + 1])
                del units[depth]
        return found

    def parts(self) -> Iterator[tuple[int, int, nested.Dims]]:
        """The region as disjoint boxes, as `boxes` takes them: first byte, bytes in a row, (stride, count) pairs."""
        return nested.leaves(self.flat(), self.units)

    # for copies ---------------------------------------------------------------------------------

    def blocks(self) -> list[Block]:
        """The region as few strided blocks: each a rectangular copy in two or three dimensions."""
        if not self:
            return []
        if self.is_span:
            nbytes = self.stop - self.start
            return [Block(self.start, nbytes, nbytes, 1)]
        if self.bands is None:
            return byte_runs.blocks_of_runs(self.runs)
        # From its first byte on, a box does not cross the ends of rows.
        moved = self.shift(-self.start)
        if moved.bands is None or not moved.pitches:
            return byte_runs.blocks_of_runs(self.runs)
        found: list[Block] = []
        for start, nbytes, dims in nested.leaves(moved.bands, moved.units):
            found += byte_runs.blocks_of_box(start + self.start, nbytes, dims)
        return found

    # inside -------------------------------------------------------------------------------------

    @property
    def is_span(self) -> bool:
        """Whether it is a single run."""
        bands = self.bands
        return bands is not None and not self.pitches and len(bands) == 1

    @property
    def units(self) -> Units:
        """The pitches, and the byte."""
        return (*self.pitches, 1)

    def refined(self, pitches: tuple[int, ...]) -> Bands:
        """The bands in `pitches`, which have all of its own."""
        if self.is_span:
            return nested.span(self.start, self.stop, (*pitches, 1))
        fine = self._fine  # read once: another thread may ask for other pitches meanwhile
        if fine is not None and fine[0] == pitches:  # one set is compared with many
            return fine[1]
        bands = nested.refine(self.flat(), self.units, (*pitches, 1))
        self._fine = pitches, bands
        return bands

    def flat(self) -> Bands:
        """The bands, even if there are many."""
        return (
            tuple((start, stop, None) for start, stop in self.runs.tolist())
            if self.bands is None
            else self.bands
        )

    def _seventh(self) -> int:
        """An offset after the sixth run, and close to it if that can be told without counting."""
        stop = self.start + 1
        while len(self.clip(self.start, stop)) < 7:
            stop = min(self.start + 2 * (stop - self.start), self.stop)
            if stop == self.stop:
                break
        return stop

    def _repeated(self, stride: int, count: int) -> Region:
        """The union of `count` copies, each `stride` further on, where all pitches divide `stride`."""
        stride = index(stride)  # a pitch is a key to what is known of pitches: a number as such
        pitches = self.pitches if stride in self.pitches else (stride, *self.pitches)
        bands = nested.refine(self.flat(), self.units, (*pitches, 1))
        return region_in(nested.repeat(bands, count, (*pitches, 1)), pitches)

    def _moved(self, stride: int, count: int) -> Region:
        """The same for any stride."""
        found, have = self, 1
        while have < count:
            more = min(have, count - have)
            found, have = found | found.shift(more * stride), have + more
        return found


# results ------------------------------------------------------------------------------------------------


def region_in(bands: Bands, pitches: tuple[int, ...]) -> Region:
    """A region of bands in these pitches, of which it may need fewer. For the modules of this package."""
    if not bands:
        return EMPTY
    bands, pitches, start, stop = nested.settled(bands, pitches, FEW_BANDS)
    if not pitches and len(bands) > MOST_BANDS:
        return _wrap(np.array([band[:2] for band in bands], np.int64))
    return Region(start, stop, pitches, bands)


def _made_again(bands: Bands, pitches: tuple[int, ...]) -> Region:
    return region_in(bands, pitches)  # compiled functions cannot be pickled


def _run(start: int, stop: int) -> Region:
    """As `Region.span`."""
    start, stop = whole(start), whole(stop)
    return Region(start, stop, (), ((start, stop, None),)) if start < stop else EMPTY


def _union(regions: tuple[Region, ...]) -> Region:
    """As `Region.union`."""
    parts = [region for region in regions if region is not EMPTY]
    if len(parts) > 2 and all(not part.pitches and type(part) is Region for part in parts):
        if all(part.bands is not None for part in parts):
            return _from_pairs((lo, hi) for part in parts for lo, hi, _ in part.bands or ())
        return _of_array(byte_runs.normal(np.concatenate([part.runs for part in parts])))
    if len(parts) > 2:
        pitches = _joint(parts)
        if pitches is not None:
            return _united(parts, pitches)
        parts = _alike_united(parts)
    while len(parts) > 1:  # in pairs, so that no part is traversed again and again
        pairs = [one | other for one, other in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(parts) & ~1 :]
    return parts[0] if parts else EMPTY


def _from_pairs(pairs: Iterable[tuple[int, int]]) -> Region:
    found: list[nested.Band] = []
    for start, stop in sorted(pairs):
        if stop <= start:
            continue
        if found and start <= found[-1][1]:
            if stop > found[-1][1]:
                found[-1] = (found[-1][0], stop, None)
        else:
            found.append((start, stop, None))
    return region_in(tuple(found), ())


def _of_array(runs: Runs) -> Region:
    """A region of normalised runs, in bands if there are few."""
    if len(runs) > MOST_BANDS:
        return _wrap(runs)
    return region_in(tuple((start, stop, None) for start, stop in runs.tolist()), ())


def _wrap(runs: Runs) -> Region:
    runs.setflags(write=False)
    return Region(int(runs[0, 0]), int(runs[-1, 1]), (), None, runs=runs)


# two sets -----------------------------------------------------------------------------------------------


def _easy(a: Region, b: Region) -> bool:
    """Whether combining two regions costs little, however far they reach beyond each other."""
    return a.bands is not None and b.bands is not None and merged(a.pitches, b.pitches) is not None


def _joint(regions: Sequence[Region]) -> tuple[int, ...] | None:
    """Pitches that all of these can have; None where there are none, or one of them has no bands."""
    pitches: tuple[int, ...] | None = ()
    for region in regions:
        if region.bands is None or pitches is None:
            return None
        if region.pitches != pitches:
            pitches = merged(pitches, region.pitches)
    return pitches


def _united(regions: Sequence[Region], pitches: tuple[int, ...]) -> Region:
    """The union of regions that can have these pitches, in pairs; which it needs is looked at once."""
    units = (*pitches, 1)
    found = [
        region.refined(pitches) if region.pitches != pitches else region.bands or () for region in regions
    ]
    while len(found) > 1:
        pairs = [nested.unite(a, b, units) for a, b in zip(found[::2], found[1::2], strict=False)]
        found = pairs + found[len(found) & ~1 :]
    return region_in(found[0], pitches)


def _alike_united(regions: Sequence[Region]) -> list[Region]:
    """Those of the same pitches as one, since only then their bands are joined as they are."""
    alike: dict[tuple[int, ...], list[Region]] = {}
    for region in regions:
        alike.setdefault(region.pitches, []).append(region)
    if len(alike) == len(regions) or len(alike) == 1:
        return list(regions)
    return [Region.union(each) for each in alike.values()]


def _common(a: Region, b: Region) -> tuple[Bands, Bands, tuple[int, ...]] | None:
    """Two regions' bands in pitches that both can have; None if it is better to compare them as arrays of runs."""
    if a.pitches == b.pitches and a.bands is not None and b.bands is not None:
        return a.bands, b.bands, a.pitches
    if a.bands is None or b.bands is None:
        irregular, other = (a, b) if a.bands is None else (b, a)
        if len(other) <= min(max(RUNS_FOR_BAND * len(irregular), MOST_BANDS), MOST_RUNS):
            return None
    pitches = merged(a.pitches, b.pitches)
    if pitches is None:
        return _reconciled(a, b)
    return a.refined(pitches), b.refined(pitches), pitches


def _reconciled(a: Region, b: Region) -> tuple[Bands, Bands, tuple[int, ...]] | None:
    """The same for pitches that do not go together: the set that is cheaper to take apart gives up its own."""
    choices = []
    for region, other in ((a, b), (b, a)):
        lost = frozenset(
            depth for depth, pitch in enumerate(region.pitches) if merged((pitch,), other.pitches) is None
        )
        choices.append((nested.coarsening_cost(region.flat(), region.units, lost), lost))
    (cost, lost), losing = min(choices[0], choices[1], key=lambda choice: choice[0]), a
    if choices[1][0] < choices[0][0]:
        losing = b
    if cost > MOST_BANDS and len(a) <= MOST_RUNS and len(b) <= MOST_RUNS:
        return None
    bands, pitches = losing.flat(), losing.pitches
    for depth in sorted(lost, reverse=True):
        bands = nested.coarsen(bands, (*pitches, 1), depth)
        pitches = pitches[:depth] + pitches[depth + 1 :]
    staying = b if losing is a else a
    both = merged(pitches, staying.pitches)
    assert both is not None, "what did not go together is gone"
    mine = nested.refine(bands, (*pitches, 1), (*both, 1))
    yours = staying.refined(both)
    return (mine, yours, both) if losing is a else (yours, mine, both)


EMPTY = Region(0, 0, (), ())

compiled.replace(globals(), ("region_in", "_run", "_union"))
compiled.replace_methods(
    Region, ("__or__", "__and__", "__sub__", "__bool__", "overlaps", "contains", "shift", "copies", "clip")
)
