"""Access summaries: which bytes of which argument a chunk of a kernel's index space reads and writes.

Decides nothing about partitions, buffers or workers: a summary says what is touched, whether that is the exact set,
and where and why it had to be estimated. A launch puts its numbers in (`KernelSummary.evaluate`; PPoPP'11 section
3.3, AMGE section 4.1). `access` makes summaries: nothing here reads source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any

from vdev.translators.values import dataclass

from ..ranges.grain import NOTHING, Grain
from ..ranges.ndrange import Chunk, NDRange
from ..ranges.region import Region
from ..symbolic import expression as ex
from ..symbolic import nodes
from ..symbolic.domain import Form
from ..symbolic.domain_image import image
from ..symbolic.evaluation import Scope, explore, scope_of
from ..symbolic.exhaustive import assert_never
from ..symbolic.launch_numbers import Launch, uniform_pieces
from ..symbolic.nodes import Expr, show
from .ways import Step, StepKind

__all__ = ["Access", "AccessRange", "KernelSummary", "Reason"]

#: Parts of ranges evaluated for one chunk before whole buffers are taken instead.
_MAX_PARTS = 4000

_NOTHING_BEFORE: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True)
class Reason:
    """Why something could not be decided, with the user's source line if there is one."""

    text: str
    line: int | None = None

    def __str__(self) -> str:
        return self.text if self.line is None else f"{self.text} (line {self.line})"


@dataclass(frozen=True)
class AccessRange:
    """The bytes of one argument that a chunk touches in one way.

    `region` is relative to the beginning of the argument's memory and clipped to it. A write that is exact writes every
    byte of `region` for certain (must-write); one that is not may write any of them (may-write).
    """

    arg: int
    mode: str  #: 'read', 'write' or 'atomic'
    region: Region
    exact: bool
    op: str | None = None  #: of an atomic: 'add', 'min', 'max', 'and', 'or', 'xor' when mergeable, else None
    dtype: str | None = None  #: NumPy name of an atomic's element
    reason: str | None = None  #: why it is not exact, or not mergeable
    line: int | None = None
    #: of a write: where stores begin and end in each part of `region`, counted from its beginning; parts may overlap,
    #: and bytes outside all of them may be stored one by one
    grains: tuple[tuple[Region, Grain], ...] = ()
    name: str = ""  #: the argument's, for messages


@dataclass(frozen=True, eq=False)
class Access:
    """One access in the kernel's text, as a function of ids, loop counters, scalar arguments and NDRange
    quantities.

    `nbytes` bytes at a symbolic byte offset of argument `arg`, in the iterations that `conditions` describe.
    """

    arg: int
    mode: str
    nbytes: int
    line: int | None
    op: str | None
    dtype: str | None
    reason: str | None
    names: Mapping[int, str] = field(repr=False)
    offset: Expr | None = field(repr=False)
    way: Step = field(repr=False)
    grain: Grain = NOTHING  #: of a write: see `AccessRange`; relative to the pointer

    @property
    def expression(self) -> Any:
        """The byte offset as a sympy expression, shortened if it is very long (see `to_sympy`); None if the access
        may be anywhere in the buffer.
        """
        from ..symbolic.report import to_sympy  # for messages

        return None if self.offset is None else to_sympy(self.offset, self.names)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must hold for the access to happen, outermost first."""
        found: list[str] = []
        way: Step | None = self.way
        while way is not None:
            match way.kind:
                case StepKind.MAYBE:
                    found.append(f"{way.text}?")
                case StepKind.IF | StepKind.WHILE | StepKind.EARLIER:
                    found.append(show(way.expr, self.names))
            way = way.parent
        return tuple(reversed(found))

    def __str__(self) -> str:
        name = self.names.get(self.arg, f"argument {self.arg}")
        place = "anywhere" if self.offset is None else str(self.expression)
        text = f"{self.mode} {self.nbytes} bytes of {name} at {place}"
        if self.conditions:
            text += " if " + " and ".join(self.conditions)
        if self.reason:
            text += f": {self.reason}"
        return text if self.line is None else f"{text} (line {self.line})"


@dataclass(frozen=True, eq=False)
class KernelSummary:
    """What one kernel does to its pointer arguments.

    `one_worker`: why it must run as one chunk, if it must. `scalars`: value arguments whose numbers influence
    `evaluate`. `images`: image arguments, which are not analysed.
    """

    name: str
    accesses: tuple[Access, ...] = ()
    one_worker: tuple[Reason, ...] = ()
    scalars: frozenset[int] = frozenset()
    images: tuple[int, ...] = ()
    #: where it uses addresses as numbers, or follows any other than its arguments'
    addresses: Reason | None = None
    names: Mapping[int, str] = field(default_factory=dict, repr=False)  #: of the arguments
    merged: frozenset[int] = field(default=frozenset(), repr=False)  #: dimensions with global ids only
    loops: bool = True  #: whether it has loops, or nothing is known of that

    def evaluate(
        self,
        ndrange: NDRange,
        chunk: Chunk,
        values: Mapping[int, int | float | bytes],
        sizes: Mapping[int, int],
        before: Mapping[int, int] = _NOTHING_BEFORE,
    ) -> tuple[AccessRange, ...]:
        """The ranges of `chunk`: at most one per (arg, mode, op, dtype).

        `values`: numbers of the scalar arguments by index (of those in `scalars`; a struct or vector as its
        bytes). `sizes`: bytes from the pointer to the end of its memory, by argument index; an argument left
        out (a NULL) has none. `before`: bytes of its memory before the pointer, where there are any.
        """
        if chunk.ngroups == 0:
            return ()
        parts: dict[tuple[int, str, str | None, str | None], _Part] = {}
        for piece in uniform_pieces(ndrange, chunk, self.merged):
            ways = Ways(scope_of(Launch(ndrange, piece, values, self.merged)))
            for access in self.accesses:
                ahead = before.get(access.arg, 0)
                size = sizes.get(access.arg, 0) + ahead
                if size <= 0:
                    continue
                key = (access.arg, access.mode, access.op, access.dtype)
                part = parts.get(key)
                if part is None:
                    part = parts[key] = _Part(size, ahead)
                if not part.full:
                    part.add(access, ways)
        return tuple(
            part.range(*key, self.names.get(key[0], ""))
            for key, part in parts.items()
            if part.exact_regions or part.other_regions
        )


_Image = tuple[Region, bool, str | None]  #: region, whether it is exact, and why not


class Ways:
    """The domains at the ends of ways; each way's conditions are evaluated once."""

    def __init__(self, root: Scope) -> None:
        self._known: dict[Step, list[Scope]] = {}
        self._images: dict[tuple[Step, Expr, int, int], list[_Image]] = {}
        #: by domain at the end of a way, terms of an offset, bytes and size: the constant of one offset, and its image
        self._alike: dict[tuple[int, frozenset[tuple[int, int]], int, int], tuple[int, _Image]] = {}
        self._root = root
        self._nparts = 0

    def images(self, way: Step, offset: Expr, nbytes: int, size: int) -> list[_Image]:
        """What an access at `offset` touches at the end of `way`, in parts: region, exact, reason."""
        key = (way, offset, nbytes, size)
        found = self._images.get(key)
        if found is None and self._nparts > _MAX_PARTS:
            return [(Region.span(0, size), False, "a kernel with too many cases")]
        if found is None:
            parts = (
                self._image(start, scope, form, nbytes, size)
                for start in self.scopes(way)
                for scope, form in explore(start, lambda s: _byte_offset(s, offset))
            )
            found = self._images[key] = [part for part in parts if part[0]]
            self._nparts += len(found)
        return found

    def _image(self, start: Scope, scope: Scope, form: Form, nbytes: int, size: int) -> _Image:
        """`image` of the offset `form`, which was evaluated in `scope`, a copy of `start`.

        A neighbouring access, as stencils have them, touches the same bytes some distance further on, unless the ends
        of the memory cut either of them.
        """
        if not scope.domain.is_like(start.domain):
            return image(scope.domain, form, nbytes, size)
        if not scope.position:  # no case of several
            start.memo = scope.memo  # what its parts are also holds for the next offset
        low, high = scope.domain.bounds(form)
        if type(form.constant) is not int or low < 0 or high > size - nbytes:
            return image(scope.domain, form, nbytes, size)
        if not all(type(coefficient) is int for coefficient in form.terms.values()):
            return image(scope.domain, form, nbytes, size)  # traced numbers are no keys
        key = (id(start), frozenset(form.terms.items()), nbytes, size)
        known = self._alike.get(key)
        if known is None:
            found = image(scope.domain, form, nbytes, size)
            self._alike[key] = form.constant, found
            return found
        constant, (region, exact, reason) = known
        return region.shift(form.constant - constant), exact, reason

    def scopes(self, way: Step) -> list[Scope]:
        found = self._known.get(way)
        if found is None:
            if way.parent is None:
                found = [self._root]
            else:
                found = [
                    scope
                    for start in self.scopes(way.parent)
                    for scope, _ in (
                        [(start, None)]
                        if way.kind is StepKind.LOOP
                        else explore(start, lambda s: _take(s, way))
                    )
                ]
                if len(found) > 64:
                    # Too many cases to follow: continue from the way's beginning, without what it says.
                    found = [_blurred(start) for start in self.scopes(way.parent)]
            self._known[way] = found
        return found


def _blurred(scope: Scope) -> Scope:
    twin = scope.copy()
    twin.domain.blur("a condition with too many cases")
    return twin


def _take(scope: Scope, way: Step) -> None:
    """Assume what one step of a way says."""
    match way.kind:
        case StepKind.IF:
            scope.assume(way.expr)
        case StepKind.WHILE:
            assert way.counter is not None
            scope.assume_while(way.counter, way.expr)
        case StepKind.EARLIER:
            assert way.counter is not None
            scope.assume_earlier(way.counter, way.expr)
        case StepKind.MAYBE:
            scope.domain.blur(way.text if way.line is None else f"{way.text} (line {way.line})")
        case StepKind.ROOT | StepKind.LOOP:  # says nothing
            pass
        case _:
            assert_never(way.kind)


class _Part:
    """The regions of one (argument, mode, op, dtype) while they are collected."""

    def __init__(self, size: int, ahead: int) -> None:
        self.size = size
        self.nbytes_ahead, self.ahead = ahead, ex.const(ahead)  #: bytes of the memory before the pointer
        self.exact_regions: list[Region] = []
        self.other_regions: list[Region] = []
        self.reason: str | None = None
        self.line: int | None = None
        self.grains: dict[Grain, list[Region]] = {}
        self.unmergeable: tuple[str, int | None] | None = None
        self.full = False

    def add(self, access: Access, ways: Ways) -> None:
        offset = access.offset
        touched = False
        if offset is None:
            if ways.scopes(access.way):
                touched = True
                everywhere = Region.span(0, self.size)
                self._inexact(everywhere, access, access.reason)
                self._store(everywhere, access)
        else:
            place = ex.add(offset, self.ahead)
            for region, exact, reason in ways.images(access.way, place, access.nbytes, self.size):
                touched = True
                self._store(region, access)
                if exact:
                    self.exact_regions.append(region)
                else:
                    self._inexact(region, access, access.reason or reason)
        if touched and access.mode == "atomic" and access.op is None and self.unmergeable is None:
            self.unmergeable = (access.reason or "an atomic that does not commute", access.line)

    def _store(self, region: Region, access: Access) -> None:
        if access.mode == "write":
            self.grains.setdefault(access.grain, []).append(region)

    def _inexact(self, region: Region, access: Access, reason: str | None) -> None:
        self.other_regions.append(region)
        if self.reason is None:
            self.reason, self.line = reason, access.line
        self.full = access.mode == "read" and region.start == 0 and region.nbytes >= self.size

    def range(self, arg: int, mode: str, op: str | None, dtype: str | None, name: str) -> AccessRange:
        certain = Region.union(self.exact_regions)
        possible = Region.union(self.other_regions)
        exact = certain.contains(possible)
        reason, line = (None, None) if exact else (self.reason, self.line)
        if self.unmergeable is not None:
            reason, line = self.unmergeable
        region = certain if exact else certain | possible
        return AccessRange(arg, mode, region, exact, op, dtype, reason, line, self._grains(region), name)

    def _grains(self, region: Region) -> tuple[tuple[Region, Grain], ...]:
        if len(self.grains) == 1:
            return tuple((region, grain.shift(self.nbytes_ahead)) for grain in self.grains)
        return tuple(
            (Region.union(regions), grain.shift(self.nbytes_ahead)) for grain, regions in self.grains.items()
        )


def _byte_offset(scope: Scope, offset: Expr) -> Any:
    """The offset's form; pointer arithmetic is modulo 2**64, so that an unsigned -1 moves back by one."""
    form = scope.value(offset)
    low, high = scope.domain.bounds(form)
    if nodes.LONG.lo <= low and high <= nodes.LONG.hi:
        return form
    return scope.cast(form, nodes.LONG)
