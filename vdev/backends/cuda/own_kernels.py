"""vdev's own kernels on one GPU: boxes copied, patterns filled and changes merged there, each with one launch.

Decides which of the kernels (`kernels`) does it, and in units of which size. When they run is the back end's decision.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from vdev.backends.base import Box
from vdev.backends.call_lists import CopyingLaunch, DriverCall, PreparedCall, prepared
from vdev.backends.cuda import kernels
from vdev.backends.cuda.boxes import (
    PlacedBox,
    blocks_of_elements,
    blocks_of_units,
    outline_of,
    placed,
    shared_regions,
    whole_units,
)
from vdev.backends.cuda.driver import launch_handles
from vdev.translators.ranges import byte_runs
from vdev.translators.ranges.grain import MAX_CUTS, Grain
from vdev.translators.ranges.region import Region

#: copies that are kept ready, and calls whose parameters come with each start
_MOST_COPIES = _MOST_STARTS = 256
#: shapes of boxes that are known
_MOST_ROWS = 256
#: groups of a kernel for each of the GPU's multiprocessors, at most
_GROUPS = 16
#: words of a box among a copy's parameters, of which the first two are the addresses of its source and its target; and the number of that
#: which says how many units it has
WORDS_OF_BOX, _UNITS = 9, 4
#: among a fold's parameters: the number of the word with the first part's address
PARTS_AT = 5
_COPIES = dict(kernels.COPIES)
#: the parameters of a copy of one box, and of several: the number of units first
_ONE_BOX, _BOXES = (
    struct.Struct(f"<{WORDS_OF_BOX}Q"),
    struct.Struct(f"<{1 + WORDS_OF_BOX * kernels.MOST_BOXES}Q"),
)


class Prepared:
    """A launch of one of the kernels, made any number of times."""

    __slots__ = ("_check", "_held", "_name", "call")

    def __init__(
        self, call: DriverCall, name: str, check: Callable[[int, str], None], held: Sequence[Any]
    ) -> None:
        self.call = call  #: the driver's
        self._name, self._check = name, check
        self._held = held  #: the parameters, and what else the call points to

    def with_parameters(self, parameters: bytes) -> None:
        """Launch with these in place of the parameters that it has, which are as many bytes."""
        self._held[0].raw = parameters
        self()

    @property
    def nbytes(self) -> int:
        """Of its parameters."""
        return len(self._held[0])

    def start_other(self, function: int, groups: int, parameters: bytes) -> int:
        """Launch another function from now on, which is returned, over so many groups and with as many bytes of parameters."""
        place, started = self.call.args[:2]
        self._held[0].raw = parameters
        place.kept.groups[0] = groups
        started.value = function
        return function

    def address(self, number: int) -> int:
        """Where one of the words of eight bytes is that its parameters consist of, which are read when it is made."""
        return ctypes.addressof(self._held[0]) + 8 * number

    def words(self) -> ctypes.Array[ctypes.c_uint64]:
        """All of these."""
        packed = self._held[0]
        found: Any = (ctypes.c_uint64 * (len(packed) // 8)).from_buffer(packed)
        return found  # type: ignore[no-any-return]

    def __call__(self) -> None:
        result = self.call()
        if result:
            self._check(result, self._name)


class PreparedFold(NamedTuple):
    """A launch that folds parts into a target: the first of its parameters is an address there, and from word `PARTS_AT` on there is one
    in each part.
    """

    call: Prepared
    parts: Sequence[int]  #: their numbers


class Rows:
    """Copies of rows, as many and as long as a box's and at the same distances, between any two addresses that the GPU reaches: there is
    one call for each unit that divides all that matters.
    """

    __slots__ = ("_alignment", "_box", "_calls", "_copying")

    def __init__(self, box: Box, copying: Callable[[Sequence[PlacedBox]], Prepared]) -> None:
        """`copying`: as `OwnKernels.copying`."""
        self._box = Box(box.shape, 0, box.source_pitches, 0, box.target_pitches)
        self._alignment = outline_of(self._box).alignment | max(_COPIES)
        self._copying = copying
        #: by unit: the call, and its parameters, of which the first two are the addresses; and what has both
        self._calls: dict[int, tuple[PreparedCall, ctypes.Array[ctypes.c_uint64], Prepared]] = {}

    def known(self, source: int, target: int) -> PreparedCall | None:
        """The driver's call that copies from one address to another, until the next one is asked for; None if it has to be `made`."""
        matters = self._alignment | source | target
        found = self._calls.get(matters & -matters)
        if found is None:
            return None
        call, words, _ = found
        words[0] = source
        words[1] = target
        return call

    def made(self, source: int, target: int) -> PreparedCall:
        """The same for the first of its kind, in the GPU's context."""
        matters = self._alignment | source | target
        copy = self._copying((placed(source, target, self._box),))
        call = prepared(copy.call)
        self._calls[matters & -matters] = call, copy.words(), copy
        return call


class OwnKernels:
    """The kernels as a GPU starts them in one of its streams."""

    def __init__(
        self,
        stream: int,
        compute_units: int,
        load: Callable[[], Callable[[str], int]],
        starting: Callable[[Sequence[int], int, int, tuple[ctypes.c_void_p, ...]], DriverCall],
        check: Callable[[int, str], None],
    ) -> None:
        """`load`: gives what gives a function by its name, called when the first is needed. `starting`: makes a call of the driver
        (`Driver.starting`). `check`: raises the error of a CUresult.
        """
        self._stream = stream
        self._most_groups = compute_units * _GROUPS
        self._load = load
        self._starting = starting
        self._check = check
        self._find: Callable[[str], int] | None = None
        self._functions: dict[str, int] = {}  #: those that were needed
        #: by boxes: the call that copies them; None once they have been copied without one. Programs that exchange the same edges again
        #: and again copy the same boxes.
        self._copies: dict[tuple[PlacedBox, ...], Prepared | None] = {}
        #: by shape and pitches: what copies such boxes; None once there has been one
        self._rows: dict[tuple[Any, ...], Rows | None] = {}
        #: by kernel, groups and bytes of the parameters
        self._starts: dict[tuple[str, int, int], Prepared] = {}

    def start(self, name: str, parameters: bytes, work: int) -> None:
        """Start one of the kernels over `work` items. The driver has copied the parameters when this returns."""
        key = (name, self._groups(work), len(parameters))
        call = self._starts.get(key)
        if call is None:
            if len(self._starts) >= _MOST_STARTS:
                self._starts.clear()
            call = self._starts[key] = self.prepared(name, parameters, work)
        call.with_parameters(parameters)

    def _groups(self, work: int) -> int:
        return min(-(-work // kernels.BLOCK), self._most_groups)

    def prepared(self, name: str, parameters: bytes, work: int, stream: int = 0) -> Prepared:
        """A call that starts one of the kernels over `work` items, any number of times; in another `stream` than usual."""
        function, groups = self._function(name), self._groups(work)
        packed = ctypes.create_string_buffer(parameters, len(parameters))
        size = ctypes.c_size_t(len(parameters))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0)
        sizes = (groups, 1, 1, kernels.BLOCK, 1, 1)
        handles = launch_handles(function, ctypes.addressof(extra))
        call = self._starting(sizes, 0, stream or self._stream, handles)
        return Prepared(call, name, self._check, (packed, size, extra))

    def _function(self, name: str) -> int:
        found = self._functions.get(name)
        if found is None:
            if self._find is None:
                self._find = self._load()
            found = self._functions[name] = self._find(name)
        return found

    def copy_boxes(self, boxes: Sequence[PlacedBox]) -> None:
        """Copy boxes between addresses that this GPU reaches, with one launch."""
        key = tuple(boxes)
        if key not in self._copies:
            if len(self._copies) >= _MOST_COPIES:
                self._copies.clear()
            self._copies[key] = None
            self.start(*self._copy_of(key))
            return
        copy = self._copies[key]
        if copy is None:
            copy = self._copies[key] = self.copying(key)
        copy()

    def copy_rows(self, source: int, target: int, box: Box) -> None:
        """Copy a box between the memories at two addresses that this GPU reaches."""
        shape = box.shape, box.source_pitches, box.target_pitches
        if shape not in self._rows:
            if len(self._rows) >= _MOST_ROWS:
                self._rows.clear()
            self._rows[shape] = None
            self.start(*self._copy_of((placed(source, target, box),)))
            return
        rows = self._rows[shape]
        if rows is None:
            rows = self._rows[shape] = self.rows(box)
        source, target = source + box.source_start, target + box.target_start
        call = rows.known(source, target) or rows.made(source, target)
        result = call()
        if result:
            self._check(result, "copy")

    def rows(self, box: Box) -> Rows:
        """What copies such rows, from anywhere to anywhere."""
        return Rows(box, self.copying)

    def copying(self, boxes: Sequence[PlacedBox], stream: int = 0) -> Prepared:
        """A call that copies boxes between addresses that this GPU reaches, with one launch, any number of times. `stream`: as of
        `prepared`.
        """
        return self.prepared(*self._copy_of(boxes), stream)

    def copy_others(self, copy: Prepared, boxes: Sequence[PlacedBox]) -> int:
        """Have a call of `copying` copy as many other boxes from now on: the function that it starts."""
        name, parameters, work = self._copy_of(boxes)
        return copy.start_other(self._function(name), self._groups(work), parameters)

    def copying_launch(self, copy: Prepared, again: int, most_nbytes: int) -> CopyingLaunch:
        """A call of `copying`, for `Boxes`. `again`: where there is another word with its function."""
        place, started = copy.call.args[:2]
        groups = ctypes.addressof(place.kept) + type(place.kept).groups.offset
        names = [
            _COPIES[unit] if copy.nbytes == _ONE_BOX.size else f"copy_boxes_u{unit}"
            for unit in sorted(_COPIES)
        ]
        return CopyingLaunch(
            copy.address(0),
            groups,
            ctypes.addressof(started),
            again,
            self._most_groups,
            kernels.BLOCK,
            most_nbytes,
            [*map(self._function, names)],
        )

    def _copy_of(self, boxes: Sequence[PlacedBox]) -> tuple[str, bytes, int]:
        """The kernel that copies boxes, its parameters and its work."""
        together = 0
        for box in boxes:
            together |= box.alignment
        unit = _unit_of(together)
        words = [box.words(unit) for box in boxes]
        if len(boxes) == 1:
            return _COPIES[unit], _ONE_BOX.pack(*words[0]), words[0][_UNITS]
        total = sum(map(itemgetter(_UNITS), words))
        missing = (0,) * (WORDS_OF_BOX * (kernels.MOST_BOXES - len(boxes)))
        return f"copy_boxes_u{unit}", _BOXES.pack(total, *chain.from_iterable(words), *missing), total

    def filling(self, address: int, nbytes: int, pattern: bytes) -> Prepared:
        """A call that repeats a pattern of up to `kernels.PATTERN_NBYTES` bytes from `address` on."""
        padded = pattern.ljust(kernels.PATTERN_NBYTES, b"\0")
        return self.prepared(
            "fill_pattern", struct.pack("<3Q", address, nbytes, len(pattern)) + padded, nbytes
        )

    def merge(
        self, addresses: tuple[int, int, int], region: Region, op: str, dtype: str, grain: Grain
    ) -> None:
        """Merge a region's bytes (`Backend.merge`).

        `addresses`: where offset 0 of the target, the stage and the twin is; 0 for none.
        """
        if op != "diff":
            for fold in self.folds(addresses[0], [(addresses[1], region)], op, dtype):
                fold.call()
            return
        for block in blocks_of_units(region, grain):
            self._merge_changes(addresses, block, grain)

    def folds(
        self, target: int, parts: Sequence[tuple[int, Region]], op: str, dtype: str
    ) -> list[PreparedFold]:
        """Calls that fold what lies at other addresses into a target, one after the other (`Backend.folding`): one for each
        block of bytes that the same parts have.

        `target`, and the address of each part: where offset 0 of the buffer would be.
        """
        name, unit = _fold(op, dtype), np.dtype(dtype).itemsize
        found = []
        for region, numbers in shared_regions([(number, part) for number, (_, part) in enumerate(parts)]):
            for block in blocks_of_elements(region, unit):
                width, total = block.nbytes // unit, block.nbytes // unit * block.count
                for first in range(0, len(numbers), kernels.MOST_PARTS):
                    some = numbers[first : first + kernels.MOST_PARTS]
                    places = [parts[number][0] + block.start for number in some]
                    places += [0] * (kernels.MOST_PARTS - len(some))
                    shape = (target + block.start, width, block.stride // unit, total, len(some))
                    packed = struct.pack(f"<{PARTS_AT}Q{kernels.MOST_PARTS}Q", *shape, *places)
                    found.append(PreparedFold(self.prepared(name, packed, total), some))
        return found

    def _merge_changes(self, addresses: tuple[int, int, int], block: byte_runs.Block, grain: Grain) -> None:
        """Merge the units of `block` that differ from the twin; as words if possible."""
        word = _word_of(grain)
        for whole, part in whole_units(block, word):
            if whole and word is not None:
                self._merge_rows(_words_merge(word), addresses, part, word)
                continue
            most = (part.nbytes // grain.period + 2) * len(
                grain.cuts
            ) + 1  # units that a row has only a part of
            total, cuts = most * part.count, grain.cuts
            numbers = (part.start, part.nbytes, part.stride, most, total, grain.period, len(cuts))
            packed = struct.pack(f"<{MAX_CUTS}H", *cuts, *(0,) * (MAX_CUTS - len(cuts)))
            self.start("merge_units", struct.pack("<10Q", *addresses, *numbers) + packed, total)

    def _merge_rows(
        self, name: str, addresses: tuple[int, int, int], block: byte_runs.Block, unit: int
    ) -> None:
        """Merge the rows of `block`, whose starts, lengths and strides are multiples of `unit`."""
        width = block.nbytes // unit
        total = width * block.count
        places = [address + block.start if address else 0 for address in addresses]
        self.start(name, struct.pack("<6Q", *places, width, block.stride // unit, total), total)


def copying_kernel(alignment: int) -> str:
    """The kernel that copies one box, of whose addresses, widths and pitches `alignment` is the combination with `or`."""
    return _COPIES[_unit_of(alignment)]


def _unit_of(alignment: int) -> int:
    """The largest unit that divides all of which this is the combination with `or`."""
    return min(alignment & -alignment, max(_COPIES))


def merging_kernel(op: str, dtype: str | None, grain: Grain) -> str | None:
    """The kernel that does most of a merge (`OwnKernels.merge`, `OwnKernels.folds`); None if there is none."""
    if op != "diff":
        name = None if dtype is None else _fold(op, dtype)
        return name if name in kernels.SOURCE_OF else None
    word = _word_of(grain)
    return "merge_units" if word is None else _words_merge(word)


def _fold(op: str, dtype: str) -> str:
    element = np.dtype(dtype)
    return f"fold_{op}_{element.kind}{element.itemsize}"


def _words_merge(nbytes: int) -> str:
    return f"merge_diff_u{nbytes}"


def _word_of(grain: Grain) -> int | None:
    """The bytes of a word, if units are compared as such."""
    return grain.unit if grain.unit in kernels.WORDS else None
