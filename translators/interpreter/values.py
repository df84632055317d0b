"""What the abstract interpreter computes with: symbolic integers, pointers into arguments, private objects.

Decides how values are converted, joined and kept in private memory. Never records accesses: `walk`
does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from vdev.translators.values import dataclass

from ..frontend.types import (
    MOST_LEAVES,
    Aggregated,
    CArray,
    CBits,
    CBool,
    CFloat,
    CInt,
    COther,
    CPointer,
    CRecord,
    CType,
    CVector,
    CVoid,
    Whole,
    leaves_of,
)
from ..symbolic import expression as ex
from ..symbolic import logic, nodes
from ..symbolic.exhaustive import assert_never
from ..symbolic.nodes import Expr, IntType


class Place:
    """What a pointer points into."""

    __slots__ = ()


class Argument(Place):
    """The memory behind a global or constant pointer argument."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class Constants(NamedTuple):
    """Bounds of the integers of a constant object that contains only integers of one type."""

    kind: IntType
    lowest: int
    highest: int


class Shared(Place):
    """Memory that is not a buffer and not followed: local memory and constants of the program. `constants`: what is
    known of everything in it.
    """

    __slots__ = ("constants",)

    def __init__(self, constants: Constants | None = None) -> None:
        self.constants = constants


class Anywhere(Place):
    """Unknown memory: it may be any buffer of the kernel."""

    __slots__ = ()


class Private(Place):
    """A variable of one work-item. Its value is kept in the interpreter's state."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, ctype: CType) -> None:
        self.name = name
        self.type = ctype


SHARED = Shared()
ANYWHERE = Anywhere()


class Value:
    """A value that one work-item computes."""

    __slots__ = ()


class Number(Value):
    """An integer: the value of type `kind` congruent to `expr`."""

    __slots__ = ("expr", "kind")

    def __init__(self, expr: Expr, kind: IntType) -> None:
        self.expr = expr
        self.kind = kind

    def observed(self) -> Expr:
        """The exact value, for operations that depend on it."""
        return ex.cast(self.kind, self.expr)

    def same(self, other: Value) -> bool:
        return isinstance(other, Number) and self.expr is other.expr and self.kind == other.kind


class Opaque(Value):
    """A value that is not followed: floating point, events, samplers."""

    __slots__ = ()


OPAQUE = Opaque()

#: The origin of unknown values, for messages.
LOADED = "a value loaded from memory"
FLOATING = "a floating-point value"


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One thing a pointer may point to: `offset` bytes into `place`, when `condition` holds (None: for
    certain)."""

    place: Place
    offset: Expr
    condition: Expr | None = None


class Pointer(Value):
    """A pointer; without targets it is the null pointer."""

    __slots__ = ("targets",)

    def __init__(self, targets: tuple[Target, ...]) -> None:
        self.targets = targets

    def moved(self, nbytes: Expr) -> Pointer:
        if nbytes is ex.ZERO:
            return self
        return Pointer(tuple(Target(t.place, ex.add(t.offset, nbytes), t.condition) for t in self.targets))


class Vector(Value):
    """A short vector."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Value, ...]) -> None:
        self.items = items


class Aggregate(Value):
    """A struct or array: what is known of some of its bytes, and the places that pointers in it may point
    into."""

    __slots__ = ("cells", "complete", "places")

    def __init__(
        self, cells: dict[tuple[int, int], Value], places: frozenset[Place], *, complete: bool = False
    ) -> None:
        self.cells = cells  #: (byte, size) -> value
        self.places = places
        self.complete = complete  #: every member has certainly been given a value

    def is_set(self, ctype: CType) -> bool:
        """Whether every member of it, an object of type `ctype`, has certainly been given a value."""
        if self.complete:
            return True
        leaves = leaves_of(ctype)
        return len(leaves) <= MOST_LEAVES and all(self._covers(byte, byte + size) for byte, size in leaves)

    def _covers(self, start: int, stop: int) -> bool:
        for byte, size in sorted(self.cells):
            if byte <= start < byte + size:
                start = byte + size
        return start >= stop


EMPTY_AGGREGATE = Aggregate({}, frozenset())
NULL = Pointer(())
POINTS_ANYWHERE = Pointer((Target(ANYWHERE, ex.ZERO),))

_UNBOUNDED = (-nodes.INFINITE, nodes.INFINITE)


def pointer_to(place: Place) -> Pointer:
    return Pointer((Target(place, ex.ZERO),))


def pointer_into(places: Iterable[Place]) -> Pointer:
    """A pointer somewhere into one of `places`."""
    offset, which = "a pointer that is not followed", "which of several pointers is used"
    return Pointer(
        tuple(Target(place, ex.unknown(*_UNBOUNDED, offset), ex.unknown(0, 1, which)) for place in places)
    )


def unknown_number(kind: IntType, origin: str = "") -> Number:
    return Number(ex.unknown(kind.lo, kind.hi, origin), kind)


def unknown_value(ctype: CType, origin: str = "") -> Value:
    """Any value of a type. `origin`: where it comes from, for messages."""
    match ctype:
        case CInt():
            return unknown_number(ctype.integer, origin)
        case CBool():
            return Number(ex.unknown(0, 1, origin), ctype.integer)
        case CPointer():
            return POINTS_ANYWHERE
        case CVector():
            return Vector(tuple(unknown_value(ctype.element, origin) for _ in range(ctype.count)))
        case CRecord() | CArray():
            return Aggregate({}, frozenset((ANYWHERE,)))
        case CFloat() | CBits() | CVoid() | COther():
            return OPAQUE
    assert_never(ctype)


def convert(value: Value, ctype: CType) -> Value:
    """C's conversion to another type (C99 6.3)."""
    match ctype:
        case CInt() | CBool():
            if isinstance(value, Number):
                return _convert_number(value, ctype)
            return unknown_value(ctype, FLOATING if value is OPAQUE else "")
        case CPointer():
            if isinstance(value, Number) and value.expr is ex.ZERO:
                return NULL
            return value if isinstance(value, Pointer) else POINTS_ANYWHERE
        case CVector():
            return _convert_vector(value, ctype)
        case CRecord() | CArray():
            return value if isinstance(value, Aggregate) else unknown_value(ctype)
        case CFloat() | CBits() | CVoid() | COther():
            return OPAQUE
    assert_never(ctype)


def _convert_vector(value: Value, ctype: CVector) -> Value:
    if not isinstance(value, Vector):
        return Vector((convert(value, ctype.element),) * ctype.count)
    if len(value.items) != ctype.count:
        return unknown_value(ctype)
    return Vector(tuple(convert(item, ctype.element) for item in value.items))


def _convert_number(value: Number, ctype: Whole) -> Number:
    target = ctype.integer
    if isinstance(ctype, CBool):
        return Number(logic.truth(value.observed()), target)
    if target.bits > value.kind.bits:
        return Number(value.observed(), target)
    if target is value.kind:
        return value
    return Number(_strip_casts(value.expr, target.bits), target)


def _strip_casts(expr: Expr, bits: int) -> Expr:
    """The same modulo 2**bits, without conversions that make no difference there."""
    if isinstance(expr, nodes.Cast):
        return _strip_casts(expr.a, bits) if expr.kind.bits >= bits else expr
    if isinstance(expr, nodes.Sum) and any(isinstance(term, nodes.Cast) for term in expr.parts):
        result: Expr = ex.const(expr.constant)
        for term, coefficient in expr.terms:
            result = ex.add(result, _strip_casts(term, bits), coefficient)
        return result
    return expr


def reinterpret(value: Value, ctype: CType) -> Value:
    """The same bytes as another type of the same size, if that is easy to tell."""
    match ctype, value:
        case ((CInt() | CBool()), Number()) if value.kind.bits == ctype.size * 8:
            return value if ctype.integer is value.kind else Number(value.expr, ctype.integer)
        case CVector(), Vector() if len(value.items) == ctype.count:
            return Vector(tuple(reinterpret(item, ctype.element) for item in value.items))
        case CPointer(), _:
            return value if isinstance(value, Pointer) else POINTS_ANYWHERE
        case ((CRecord() | CArray()), Aggregate()):
            return value
    return unknown_value(ctype)


def places_of(value: Value) -> frozenset[Place]:
    """All places that pointers in `value` may point into."""
    if isinstance(value, Pointer):
        return frozenset(target.place for target in value.targets)
    if isinstance(value, Aggregate):
        return value.places.union(*(places_of(cell) for cell in value.cells.values()))
    return frozenset()


def same_value(a: Value, b: Value) -> bool:
    if a is b:
        return True
    if isinstance(a, Number):
        return a.same(b)
    if isinstance(a, Pointer) and isinstance(b, Pointer):
        return len(a.targets) == len(b.targets) and all(
            s.place is t.place and s.offset is t.offset and s.condition is t.condition
            for s, t in zip(a.targets, b.targets, strict=True)
        )
    if isinstance(a, Vector) and isinstance(b, Vector):
        return len(a.items) == len(b.items) and all(
            same_value(x, y) for x, y in zip(a.items, b.items, strict=True)
        )
    if isinstance(a, Aggregate) and isinstance(b, Aggregate):
        return (
            a.places == b.places
            and a.cells.keys() == b.cells.keys()
            and all(same_value(cell, b.cells[key]) for key, cell in a.cells.items())
        )
    return False


def join_values(condition: Expr, a: Value, b: Value) -> Value:
    """The value that is `a` if `condition` holds, and `b` otherwise."""
    if same_value(a, b) or condition is logic.TRUE:
        return a
    if condition is logic.FALSE:
        return b
    if isinstance(a, Number) and isinstance(b, Number):
        if a.kind == b.kind:
            return Number(logic.select(condition, a.expr, b.expr), a.kind)
        return unknown_number(a.kind)
    if isinstance(a, Pointer) and isinstance(b, Pointer):
        return _join_pointers(condition, a, b)
    if isinstance(a, Vector) and isinstance(b, Vector) and len(a.items) == len(b.items):
        return Vector(tuple(join_values(condition, x, y) for x, y in zip(a.items, b.items, strict=True)))
    if isinstance(a, Aggregate) and isinstance(b, Aggregate):
        cells = {
            key: join_values(condition, cell, b.cells[key]) for key, cell in a.cells.items() if key in b.cells
        }
        return Aggregate(cells, places_of(a) | places_of(b), complete=a.complete and b.complete)
    if isinstance(a, Pointer) or isinstance(b, Pointer):
        return POINTS_ANYWHERE
    return OPAQUE


def _join_pointers(condition: Expr, a: Pointer, b: Pointer) -> Pointer:
    if len(a.targets) == 1 and len(b.targets) == 1:
        (s,), (t,) = a.targets, b.targets
        if s.place is t.place and s.condition is t.condition:
            return Pointer((Target(s.place, logic.select(condition, s.offset, t.offset), s.condition),))
    if len(a.targets) + len(b.targets) > 8:
        return pointer_into(places_of(a) | places_of(b))
    joined = [_under(condition, target) for target in a.targets]
    joined += [_under(logic.negate(condition), target) for target in b.targets]
    return Pointer(tuple(joined))


def _under(condition: Expr, target: Target) -> Target:
    both = condition if target.condition is None else logic.both(condition, target.condition)
    return Target(target.place, target.offset, both)


# private memory -------------------------------------------------------------------------------------


def load_private(content: Value, whole: CType, offset: Expr, ctype: CType) -> Value:
    """The value of `ctype` at `offset` bytes in an object of type `whole`."""
    if not isinstance(offset, nodes.Const):
        between = _between_elements(content, whole, offset, ctype)
        return _load_somewhere(content, ctype) if between is None else between
    byte = offset.number
    if byte == 0 and not isinstance(content, Aggregate) and whole.size == ctype.size:
        return reinterpret(content, ctype)
    if isinstance(content, Vector) and isinstance(whole, CVector):
        index, rest = divmod(byte, whole.element.size)
        if rest == 0 and ctype.size == whole.element.size and 0 <= index < len(content.items):
            return reinterpret(content.items[index], ctype)
    if isinstance(content, Aggregate):
        cell = content.cells.get((byte, ctype.size))
        if cell is not None and not isinstance(ctype, Aggregated):
            return reinterpret(cell, ctype)
        if isinstance(ctype, Aggregated):
            stop = byte + ctype.size
            cells = {
                (at - byte, n): v for (at, n), v in content.cells.items() if byte <= at and at + n <= stop
            }
            return Aggregate(cells, places_of(content), complete=content.complete)
        return _load_component(content, byte, ctype)
    return _load_somewhere(content, ctype)


def _load_component(content: Aggregate, byte: int, ctype: CType) -> Value:
    """A component of a vector that is an element or a member."""
    for (at, nbytes), cell in content.cells.items() if isinstance(ctype, CInt | CBool) else ():
        if at <= byte < at + nbytes and isinstance(cell, Vector):
            index, rest = divmod(byte - at, ctype.size)
            if rest == 0 and index < len(cell.items):
                return reinterpret(cell.items[index], ctype)
    return _load_somewhere(content, ctype)


def _between_elements(content: Value, whole: CType, offset: Expr, ctype: CType) -> Value | None:
    """An integer somewhere in a private array of which all that it can be are known: a table of directions, whose element
    depends on a loop. None if something else may be there, or not all of it is known.
    """
    if not isinstance(content, Aggregate) or not content.cells or not isinstance(ctype, CInt):
        return None
    step, first = ex.congruence(offset)
    start, stop = max(offset.lo, 0), min(offset.hi, whole.size - ctype.size)
    if step == 0 or step % ctype.size or (stop - start) // step >= _MOST_ELEMENTS:
        return None
    lowest = highest = None
    for byte in range(start + (first - start) % step, stop + 1, step):
        found = load_private(content, whole, ex.const(byte), ctype)
        if not isinstance(found, Number):
            return None
        value = found.observed()
        lowest = value.lo if lowest is None else min(lowest, value.lo)
        highest = value.hi if highest is None else max(highest, value.hi)
    if lowest is None or highest is None:
        return None
    return Number(ex.unknown(lowest, highest, _ELEMENT), ctype.integer)


def disguised(content: Value, offset: Expr, ctype: CType) -> Iterable[Value]:
    """The pointers in private memory that a load of `ctype` reads as something else (a union)."""
    if isinstance(ctype, CPointer | Aggregated):
        return ()
    if isinstance(content, Pointer):
        return (content,)
    if not isinstance(content, Aggregate) or not isinstance(offset, nodes.Const):
        return ()
    start, stop = offset.number, offset.number + ctype.size
    return [
        value
        for (at, nbytes), value in content.cells.items()
        if at < stop and start < at + nbytes and isinstance(value, Pointer)
    ]


_ELEMENT = "an element of a private array"
#: of a private array that are looked at, if it is not known which one is loaded
_MOST_ELEMENTS = 256


def _load_somewhere(content: Value, ctype: CType) -> Value:
    if isinstance(ctype, CPointer):
        places = places_of(content)
        return pointer_into(places) if places else POINTS_ANYWHERE
    if isinstance(ctype, Aggregated):
        complete = isinstance(content, Aggregate) and content.complete
        return Aggregate({}, places_of(content), complete=complete)
    return unknown_value(ctype, _ELEMENT)


def store_private(
    content: Value, whole: CType, offset: Expr, ctype: CType, value: Value, certain: bool
) -> Value:
    """What an object of type `whole` holds after `value` was stored at `offset`."""
    if isinstance(offset, nodes.Const) and certain:
        byte = offset.number
        if byte == 0 and ctype.size == whole.size and not isinstance(whole, Aggregated):
            return reinterpret(value, whole)
        if isinstance(content, Vector) and isinstance(whole, CVector) and ctype.size == whole.element.size:
            index, rest = divmod(byte, ctype.size)
            if rest == 0 and 0 <= index < len(content.items):
                items = (
                    *content.items[:index],
                    reinterpret(value, whole.element),
                    *content.items[index + 1 :],
                )
                return Vector(items)
        if isinstance(content, Aggregate):
            return _store_cells(content, byte, ctype, value)
    if isinstance(content, Aggregate):
        places = places_of(content) | places_of(value)
        if isinstance(value, Number) and value.kind.bits == 64:
            places |= {ANYWHERE}  # it may be the bytes of a pointer
        complete = content.complete and not (isinstance(value, Aggregate) and not value.complete)
        return Aggregate({}, places, complete=complete)
    if isinstance(content, Pointer):
        return pointer_into(places_of(content) | (places_of(value) or {ANYWHERE}))
    return unknown_value(whole)


def _store_cells(content: Aggregate, byte: int, ctype: CType, value: Value) -> Aggregate:
    stop = byte + ctype.size
    cells = {key: v for key, v in content.cells.items() if key[0] + key[1] <= byte or stop <= key[0]}
    if isinstance(value, Aggregate):
        cells.update({(byte + at, size): v for (at, size), v in value.cells.items()})
        complete = content.complete and value.is_set(ctype)
        return Aggregate(cells, content.places | value.places, complete=complete)
    cells[byte, ctype.size] = value
    return Aggregate(cells, content.places, complete=content.complete)
