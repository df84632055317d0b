"""From a launch's numbers to the bytes that its chunks touch.

The numbers are put into a kernel's accesses once, for the whole index space. What a chunk touches is the image of the part of each
domain that its work-groups are; of two chunks whose parts differ by a translation only, one image is the other one moved, whichever
launches of the kernel they are of. Accesses for which that would say less than the chunk alone (what depends on values of which only
bounds are known, for example) are evaluated for each chunk. Decides no ranges of its own: `scopes` and `domain_image` do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from operator import lt
from typing import Any, NamedTuple

from ..ranges.grain import Grain
from ..ranges.ndrange import Chunk, NDRange, whole_chunk
from ..ranges.region import Region
from ..ranges.tracing import Number
from ..symbolic import expression as ex
from ..symbolic.domain import Domain, Form
from ..symbolic.domain_image import image
from ..symbolic.evaluation import explore, scope_of
from ..symbolic.launch_numbers import Launch, uniform_pieces
from ..symbolic.nodes import LONG, Expr, GlobalId, GroupId
from .accesses import Access, AccessRange
from .scopes import Ways, byte_offset, doubt
from .ways import Step, StepKind

__all__ = ["Images", "LaunchRanges", "Values"]

Values = Mapping[int, int | float | bytes]

#: Cases of one access in the whole index space; an access with more is evaluated for each chunk, which has fewer.
_MAX_CASES = 16
#: Boxes of all images of a kernel that are kept from launch to launch, of some hundred bytes each; and how many runs of a list, which
#: is mostly not even made, are as many bytes as one of these.
_MOST_BOXES, _RUNS_FOR_BOX = 1 << 15, 32


class LaunchRanges:
    """What the chunks of one launch touch."""

    def __init__(
        self,
        accesses: Sequence[Access],
        merged: frozenset[int],
        names: Mapping[int, str],
        ndrange: NDRange,
        values: Values,
        sizes: Mapping[int, int],
        before: Mapping[int, int],
        kept: Images,
    ) -> None:
        """`values`, `sizes`, `before`: as for `KernelSummary.evaluate`. `kept`: of the kernel's launches."""
        self._names, self._ndrange, self._merged = names, ndrange, merged
        self._before = before
        self._values = (
            {**values, **{_ahead(arg): nbytes for arg, nbytes in before.items()}} if before else values
        )
        #: each access that can touch anything, with its number and the bytes of its memory
        self._accesses = [
            (number, access, size)
            for number, access in enumerate(accesses)
            if (size := sizes.get(access.arg, 0) + before.get(access.arg, 0)) > 0
        ]
        self._pieces: list[_Piece] | None = None
        numbers: list[object] = [
            *self._values.values(),
            *ndrange.global_size,
            *ndrange.local_size,
            *ndrange.offset,
        ]
        self._traced = any(type(number) is Number for number in numbers)
        self._images = Images(traced=True) if self._traced else kept
        self._images.begin()
        #: numbers of accesses that are evaluated for each chunk
        self._apart: set[int] = set()
        #: what was asked for: candidates for cuts have chunks in common, and whoever counts what a plan's chunks touch asks again
        self._found: dict[Chunk, tuple[AccessRange, ...]] = {}

    def of(self, chunk: Chunk) -> tuple[AccessRange, ...]:
        """The ranges of a chunk: at most one per (arg, mode, op, dtype)."""
        if self._traced:  # traced numbers are no keys
            return self._evaluated(chunk)
        found = self._found.get(chunk)
        if found is None:
            found = self._found[chunk] = self._evaluated(chunk)
        return found

    def _evaluated(self, chunk: Chunk) -> tuple[AccessRange, ...]:
        if chunk.ngroups == 0:
            return ()
        if chunk.cycle is not None:
            return self.alone(chunk)
        if self._pieces is None:
            self._pieces = [_Piece(each) for each in self._launches(whole_chunk(self._ndrange))]
        parts: _Parts = {}
        for piece in self._pieces:
            box = _common(piece.launch.chunk, chunk)
            if box is not None:
                self._add_derived(parts, piece, box)
        return self._ranges(parts)

    def alone(self, chunk: Chunk) -> tuple[AccessRange, ...]:
        """The same, with the launch's numbers put in for this chunk alone."""
        parts: _Parts = {}
        for launch in self._launches(chunk) if chunk.ngroups else ():
            ways = Ways(scope_of(launch))
            for _, access, size in self._accesses:
                part = self._part(parts, access, size)
                if not part.full:
                    part.add(access, ways)
        return self._ranges(parts)

    def _ranges(self, parts: _Parts) -> tuple[AccessRange, ...]:
        found = (part.range(*key, self._names.get(key[0], ""), self._images) for key, part in parts.items())
        return tuple([item for item in found if item is not None])

    def _launches(self, chunk: Chunk) -> list[Launch]:
        """A chunk's parts in which each function of work-items has one answer."""
        pieces = uniform_pieces(self._ndrange, chunk, self._merged)
        return [Launch(self._ndrange, piece, self._values, self._merged) for piece in pieces]

    def _add_derived(self, parts: _Parts, piece: _Piece, box: Chunk) -> None:
        """What the work-groups of `box`, which is a part of a piece of the index space, touch."""
        narrowed: dict[int, _Narrowed | None] = {}
        limits, apart = piece.limits(box), self._apart
        direct: Ways | None = None
        for number, access, size in self._accesses:
            part = self._part(parts, access, size)
            if part.full:
                continue
            places = (
                None if number in apart else piece.places(number, access, part.ahead, self._images.traced)
            )
            if places is not None and self._add_places(part, number, access, places, limits, narrowed):
                continue
            apart.add(number)
            if direct is None:
                launch = piece.launch
                direct = Ways(scope_of(Launch(launch.ndrange, box, launch.values, launch.merged)))
            part.add(access, direct)

    def _add_places(
        self,
        part: _Part,
        number: int,
        access: Access,
        places: Sequence[_Place],
        limits: tuple[tuple[int, int, int], ...],
        narrowed: dict[int, _Narrowed | None],
    ) -> bool:
        """Add what an access touches in these cases, within a chunk's limits; False, and nothing, where the chunk alone might say more."""
        found: list[tuple[_Known, int, str | None]] = []
        for place in places:
            name = id(place.domain)
            if name in narrowed:
                within = narrowed[name]
            else:
                points = place.domain.within(limits)
                within = None if points is None else _Narrowed(points, self._images.name_of(points))
                narrowed[name] = within
            if within is None:
                continue
            if place.form is None:
                part.everywhere(access)
                return True
            known = self._images.of(within, place, access.nbytes, part.size)
            if known is None:
                return False
            if known[0].region:
                found.append((*known, place.doubt))
        for known_image, distance, doubtful in found:
            part.add_known(number, access, known_image, distance, doubtful)
        return True

    def _part(self, parts: _Parts, access: Access, size: int) -> _Part:
        key = (access.arg, access.mode, access.op, access.dtype)
        part = parts.get(key)
        if part is None:
            ahead = ex.argument(_ahead(access.arg), 0, LONG) if access.arg in self._before else ex.ZERO
            part = parts[key] = _Part(size, self._before.get(access.arg, 0), ahead)
        return part


def _ahead(arg: int) -> int:
    """Under which number of an argument, that none has, the bytes before a pointer are one of a launch's: parts of a buffer are often
    launched over in turn, and a plan in which that is a number like another is good for all of them.
    """
    return -1 - arg


def _common(one: Chunk, other: Chunk) -> Chunk | None:
    """The work-groups of both, None if there are none."""
    start = tuple(map(max, one.start, other.start))
    stop = tuple(map(min, one.stop, other.stop))
    return Chunk(start, stop) if all(map(lt, start, stop)) else None


class _Place(NamedTuple):
    """One case of an access in the whole index space."""

    domain: Domain
    form: Form | None  #: of the offset; None if it is not known
    terms: frozenset[tuple[int, int]] | None  #: of the form, as a key; traced numbers are none
    doubt: str | None  #: why nobody knows whether work-items come to the access; None if all of the domain do


class _Piece:
    """A part of the index space in which each function of work-items has one answer."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        root = scope_of(launch)
        self._ways = Ways(root, certain=True)
        self._places: dict[int, list[_Place] | None] = {}
        self._doubts: dict[Step, str | None] = {}  #: by the end of a way
        #: dimension, its variable, and how many values of it a work-group has
        self._variables: list[tuple[int, int, int]] = []
        for dimension in range(launch.ndrange.work_dim):
            merged = dimension in launch.merged
            for variable in root.ids[GlobalId if merged else GroupId, dimension].terms:
                unit = launch.ndrange.local_size[dimension] if merged else 1
                self._variables.append((dimension, variable, unit))

    def places(self, number: int, access: Access, ahead: Expr, traced: bool) -> list[_Place] | None:
        """The cases of an access; None if it has to be evaluated for each chunk. `ahead`: bytes before its pointer."""
        if number not in self._places:
            self._places[number] = self._cases(access, ahead, traced)
        return self._places[number]

    def _cases(self, access: Access, ahead: Expr, traced: bool) -> list[_Place] | None:
        found: list[_Place] = []
        doubtful = self._doubt_on(access.way)
        for start in self._ways.scopes(access.way):
            if not start.domain.exact:
                return None
            if access.offset is None:
                found.append(_Place(start.domain, None, None, doubtful))
                continue
            place = ex.add(access.offset, ahead)
            for scope, form in explore(start, lambda s: byte_offset(s, place)):  # noqa: B023 (called at once)
                domain = scope.domain
                if not domain.exact or domain.is_loose(form) or len(found) == _MAX_CASES:
                    return None
                if domain.is_like(start.domain):
                    domain = start.domain
                    if not scope.position:  # no case of several
                        start.memo = scope.memo  # what its parts are also holds for the next offset
                        start.words = scope.words
                found.append(
                    _Place(domain, form, None if traced else frozenset(form.terms.items()), doubtful)
                )
        return found

    def _doubt_on(self, way: Step) -> str | None:
        """Why nobody knows whether the end of a way is reached, what comes first; None if that is known."""
        unknown: list[Step] = []
        step: Step | None = way
        while step is not None and step not in self._doubts:
            unknown.append(step)
            step = step.parent
        found = None if step is None else self._doubts[step]
        for step in reversed(unknown):
            if found is None and step.kind is StepKind.MAYBE:
                found = doubt(step)
            self._doubts[step] = found
        return found

    def limits(self, box: Chunk) -> tuple[tuple[int, int, int], ...]:
        """The variables of some work-groups of the piece, each with its bounds."""
        size, found = self.launch.ndrange.global_size, []
        for dimension, variable, unit in self._variables:
            low, high = box.start[dimension], box.stop[dimension] - 1
            if unit != 1:
                low, high = low * unit, min((high + 1) * unit, size[dimension]) - 1
            found.append((variable, low, high))
        return tuple(found)


class _Narrowed(NamedTuple):
    """The part of a domain that a chunk is."""

    domain: Domain
    name: int | None  #: of its shape: domains that differ by a translation share it; None if it has none


class _Known:
    """The image of an offset over a domain, exact."""

    __slots__ = ("constant", "least", "most", "name", "region")

    def __init__(self, name: int, constant: int, region: Region, least: int, most: int) -> None:
        self.name = name
        self.constant = constant  #: the offset where each variable has its least value
        self.region = region
        self.least, self.most = least, most  #: bounds of the offset, less `constant`


class Images:
    """Images of the domains of chunks of one kernel, and the unions of them that were asked for, by all that they depend on."""

    def __init__(self, *, traced: bool = False) -> None:
        self.traced = traced  #: whether the numbers of the launch are: nothing is known by them
        self._names: dict[Any, int] = {}
        self._fresh = (
            count()
        )  #: names that none had before: several threads may evaluate launches of one kernel
        self._known: dict[Any, _Known] = {}
        #: by what is united: how far it was moved, and the range
        self._unions: dict[Any, tuple[int, AccessRange]] = {}
        self._nboxes = 0  #: in all that is kept

    def begin(self) -> None:
        """A launch begins: what it asks for is kept at least until its end."""
        if self._nboxes > _MOST_BOXES:
            self._nboxes = 0
            for table in (self._names, self._known, self._unions):
                table.clear()

    def _count(self, region: Region) -> None:
        self._nboxes += 1 + (region.nboxes // _RUNS_FOR_BOX if region.bands is None else region.nboxes)

    def name_of(self, domain: Domain) -> int | None:
        """The name of a domain's shape."""
        if self.traced:
            return None
        outline = domain.outline()
        found = self._names.get(outline)
        if found is None:
            found = self._names.setdefault(outline, next(self._fresh))
            self._nboxes += 1
        return found

    def of(self, within: _Narrowed, place: _Place, nbytes: int, size: int) -> tuple[_Known, int] | None:
        """The image of a place's offset, and how far it is moved; None if it is not known exactly."""
        domain, form = within.domain, place.form
        assert form is not None
        constant = domain.corner(form)
        key = (within.name, place.terms, nbytes)
        if not self.traced:
            known = self._known.get(key)
            # The ends of the memory must cut nothing.
            if known is not None and constant + known.least >= 0 and constant + known.most <= size - nbytes:
                return known, constant - known.constant
        low, high = domain.bounds(form)
        region, exact, _ = image(domain.copy(), form, nbytes, size)
        if not exact:
            return None
        if self.traced or low < 0 or high > size - nbytes:
            return _Known(-1, constant, region, 0, 0), 0
        known = self._known.get(key)  # of a place whose bounds are less close
        if known is None:
            known = _Known(next(self._fresh), constant, region, low - constant, high - constant)
            self._known[key] = known
            self._count(region)
        return known, constant - known.constant

    def united(self, key: Any) -> tuple[int, AccessRange] | None:
        """The union of this key, as it was kept, and how far its parts were moved."""
        return self._unions.get(key)

    def keep(self, key: Any, moved: int, made: AccessRange) -> None:
        self._unions[key] = moved, made
        self._count(made.region)


class _Part:
    """The regions of one (argument, mode, op, dtype) while they are collected."""

    def __init__(self, size: int, nbytes_ahead: int, ahead: Expr) -> None:
        self.size = size
        self.nbytes_ahead, self.ahead = nbytes_ahead, ahead  #: bytes of the memory before the pointer
        self.exact_regions: list[Region] = []
        self.other_regions: list[Region] = []
        self.reason: str | None = None
        self.line: int | None = None
        self.grains: dict[Grain, list[Region]] = {}
        self.unmergeable: tuple[str, int | None] | None = None
        self.full = False
        #: of accesses whose images are known: number, access, image, how far it is moved, whether it is certain
        self.known: list[tuple[int, Access, _Known, int, bool]] = []

    def add(self, access: Access, ways: Ways) -> None:
        """What an access touches at the end of its way."""
        offset = access.offset
        if offset is None:
            if ways.scopes(access.way):
                self.everywhere(access)
            return
        place = ex.add(offset, self.ahead)
        for region, exact, reason in ways.images(access.way, place, access.nbytes, self.size):
            self._touch(access)
            self._store(region, access)
            if exact:
                self.exact_regions.append(region)
            else:
                self._because(access, reason)
                self._inexact(region, access)

    def everywhere(self, access: Access) -> None:
        """An access may touch any byte."""
        region = Region.span(0, self.size)
        self._touch(access)
        self._because(access, None)
        self._inexact(region, access)
        self._store(region, access)

    def add_known(
        self, number: int, access: Access, known: _Known, distance: int, doubtful: str | None
    ) -> None:
        """What an access touches is this image, moved. `doubtful`: why nobody knows whether it touches it at all."""
        self._touch(access)
        if doubtful is not None:
            self._because(access, doubtful)
        self.known.append((number, access, known, distance, doubtful is None))

    def _touch(self, access: Access) -> None:
        if access.mode == "atomic" and access.op is None and self.unmergeable is None:
            self.unmergeable = (access.reason or "an atomic that does not commute", access.line)

    def _store(self, region: Region, access: Access) -> None:
        if access.mode == "write":
            self.grains.setdefault(access.grain, []).append(region)

    def _because(self, access: Access, reason: str | None) -> None:
        if self.reason is None:
            self.reason, self.line = access.reason or reason, access.line

    def _inexact(self, region: Region, access: Access) -> None:
        self.other_regions.append(region)
        self.full = access.mode == "read" and region.start == 0 and region.nbytes >= self.size

    def range(
        self, arg: int, mode: str, op: str | None, dtype: str | None, name: str, images: Images
    ) -> AccessRange | None:
        """All of it; None if nothing is touched."""
        known = self.known
        if not known or self.exact_regions or self.other_regions or any(each[2].name < 0 for each in known):
            return self._united(arg, mode, op, dtype, name)
        moved = known[0][3]
        key = (
            arg,
            mode,
            op,
            dtype,
            self.nbytes_ahead,
            *[(each[0], each[2].name, each[3] - moved) for each in known],
        )
        united = images.united(key)
        if united is None:
            made = self._united(arg, mode, op, dtype, name)
            assert made is not None, "what is known is not empty"
            images.keep(key, moved, made)
            return made
        return _moved(united[1], moved - united[0])

    def _united(
        self, arg: int, mode: str, op: str | None, dtype: str | None, name: str
    ) -> AccessRange | None:
        united: set[Any] = set()
        for _, access, known, distance, certain in self.known:
            same = (known.name, distance, certain, access.grain)
            if known.name >= 0 and same in united:
                continue
            united.add(same)
            region = known.region.shift(distance)
            self._store(region, access)
            if certain:
                self.exact_regions.append(region)
            else:
                self._inexact(region, access)
        if not self.exact_regions and not self.other_regions:
            return None
        certainly = Region.union(self.exact_regions)
        possibly = Region.union(self.other_regions)
        exact = certainly.contains(possibly)
        reason, line = (None, None) if exact else (self.reason, self.line)
        if self.unmergeable is not None:
            reason, line = self.unmergeable
        region = certainly if exact else certainly | possibly
        return AccessRange(arg, mode, region, exact, op, dtype, reason, line, self._grains(region), name)

    def _grains(self, region: Region) -> tuple[tuple[Region, Grain], ...]:
        if len(self.grains) == 1:
            return tuple((region, grain.shift(self.nbytes_ahead)) for grain in self.grains)
        return tuple(
            (Region.union(regions), grain.shift(self.nbytes_ahead)) for grain, regions in self.grains.items()
        )


def _moved(item: AccessRange, distance: int) -> AccessRange:
    """The same range some bytes further on."""
    if not distance:
        return item
    region = item.region.shift(distance)
    grains = tuple(
        [(region if part is item.region else part.shift(distance), grain) for part, grain in item.grains]
    )
    return AccessRange(
        item.arg,
        item.mode,
        region,
        item.exact,
        item.op,
        item.dtype,
        item.reason,
        item.line,
        grains,
        item.name,
    )


_Parts = dict[
    tuple[int, str, str | None, str | None], _Part
]  #: by argument, mode, operation and element type
