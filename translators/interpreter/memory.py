"""The interpreter's state and what memory accesses do to it.

Decides what a load returns and a store changes: private variables are followed, accesses behind pointer arguments are
recorded, everything else is unknown. Never looks at syntax.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from vdev.translators.values import dataclass

from ..frontend.types import (
    NO_BUFFER,
    Aggregated,
    CBits,
    CBool,
    CType,
    CVector,
    has_gaps,
    integer_of,
    leaves_of,
)
from ..symbolic import expression as ex
from ..symbolic import logic
from ..symbolic.effort import spend
from ..symbolic.nodes import Expr
from .access_recorder import Record, Ways
from .values import (
    LOADED,
    Aggregate,
    Anywhere,
    Argument,
    Constants,
    Number,
    Place,
    Pointer,
    Private,
    Shared,
    Target,
    Value,
    Vector,
    disguised,
    join_values,
    load_private,
    places_of,
    same_value,
    store_private,
    unknown_value,
)
from .ways import Step


class State:
    """What holds at one point of the program: the private variables and the way that led there."""

    __slots__ = ("env", "way")

    def __init__(self, env: dict[Private, Value], way: Step) -> None:
        self.env = env
        self.way = way

    def branch(self, way: Step) -> State:
        """A state that continues on `way`, with its own variables."""
        spend(len(self.env) >> 4)
        return State(dict(self.env), way)


@dataclass(frozen=True, slots=True, eq=False)
class Location:
    """An lvalue: where it is and its type."""

    pointer: Pointer
    type: CType


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """An lvalue that is several components of a vector, in their order."""

    pointer: Pointer
    type: CVector
    components: tuple[int, ...]


Frame = dict[int, Place]


def unknown_truth(origin: str = "") -> Expr:
    return ex.unknown(0, 1, origin)


class Memory:
    """Private variables, the way so far, and the records of all accesses."""

    def __init__(self) -> None:
        self.ways = Ways()
        self.state = State({}, self.ways.root)
        self.records: list[Record] = []
        self.frame: Frame = {}
        self.written: set[Private] = set()  #: private objects stored to, for loops to look at
        self.loads: dict[
            Expr, tuple[int, Expr]
        ] = {}  #: for what was loaded: the argument, and the offset if it is always the same
        #: arguments for whose content a loop waits, and the loop's line
        self.polls: list[tuple[int, int | None]] = []
        #: where addresses are used as numbers or loaded from memory: what happens there, and the line
        self.addresses: list[tuple[str, int | None]] = []
        #: the user's line that called the function being walked, if that function is not the user's text
        self.called_from: int | None = None
        #: how far the walk has come: the last of the user's lines that it has reached
        self.line: int | None = None

    # memory -----------------------------------------------------------------------------------------

    def record(
        self,
        place: Place,
        mode: str,
        offset: Expr | None,
        nbytes: int,
        line: int | None,
        *,
        condition: Expr | None = None,
        op: str | None = None,
        dtype: str | None = None,
        reason: str | None = None,
        pieces: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Record an access, unless the place is not a buffer. `pieces`: see `Record`."""
        if isinstance(place, Argument):
            arg: int | None = place.index
        elif isinstance(place, Anywhere):
            arg, offset = None, None
            reason = reason or "a pointer that is not followed"
            self.addresses.append(("memory is reached through a pointer that is not followed", line))
        else:
            return
        if nbytes <= 0:  # a type without a size: how far it reaches is not known
            offset, reason = None, reason or "an access of unknown size"
        way = self.state.way
        if condition is not None:
            way = self.ways.condition(way, condition)
        line = self.called_from if line is None else line
        spend(3)
        self.records.append(Record(arg, mode, offset, nbytes, way, line, op, dtype, reason, pieces))

    def load(self, pointer: Pointer, ctype: CType, line: int | None) -> Value:
        """The value of type `ctype` that `pointer` points to."""
        found: Value | None = None
        for target in pointer.targets:
            value = self._load_target(target, ctype, line)
            if found is None:
                found = value
            else:
                found = join_values(logic.negate(target.condition or unknown_truth()), found, value)
        return unknown_value(ctype, LOADED) if found is None else found

    def _load_target(self, target: Target, ctype: CType, line: int | None) -> Value:
        place = target.place
        if isinstance(place, Private):
            content = self.state.env.get(place)
            if content is None:
                return unknown_value(ctype, LOADED)
            _spend_on(content)
            for value in disguised(content, target.offset, ctype):
                self.show_address(value, "the address of a buffer is read as another type", line)
            return load_private(content, place.type, target.offset, ctype)
        if isinstance(place, Shared):
            return _load_constant(place.constants, target.offset, ctype)
        if ctype.space in NO_BUFFER and isinstance(place, Anywhere):
            return unknown_value(ctype, LOADED)  # the type says that it is not a buffer
        if ctype.volatile:
            self._volatile(target, ctype, line)
        else:
            self.record(place, "read", target.offset, ctype.size, line, condition=target.condition)
        value = unknown_value(ctype, LOADED)
        if isinstance(value, Aggregate):
            return Aggregate(value.cells, value.places, complete=True)
        if isinstance(value, Number) and isinstance(place, Argument):
            self.loads[value.expr] = place.index, target.offset
        return value

    def _volatile(self, target: Target, ctype: CType, line: int | None) -> None:
        self.record(
            target.place,
            "atomic",
            target.offset,
            ctype.size,
            line,
            condition=target.condition,
            reason="a volatile access",
        )

    def store(self, pointer: Pointer, ctype: CType, value: Value, line: int | None) -> None:
        certain = len(pointer.targets) == 1 and pointer.targets[0].condition is None
        if any(not isinstance(target.place, Private) for target in pointer.targets):
            self.show_address(value, "the address of a buffer is stored", line)
        for target in pointer.targets:
            place = target.place
            if isinstance(place, Private):
                self._store_private(place, target, ctype, value, certain)
            elif ctype.space in NO_BUFFER and isinstance(place, Anywhere):
                continue
            elif ctype.volatile:
                self._volatile(target, ctype, line)
            else:
                self.record_write(target, ctype, value, line)

    def show_address(self, value: Value, text: str, line: int | None) -> None:
        """Note that a kernel uses an address in `value` as a number."""
        if any(isinstance(place, Argument) for place in places_of(value)):
            self.addresses.append((text, line))

    def _store_private(
        self, place: Private, target: Target, ctype: CType, value: Value, certain: bool
    ) -> None:
        self.written.add(place)
        content = self.state.env.get(place)
        if content is None:
            content = unknown_value(place.type)
        _spend_on(content)
        self.state.env[place] = store_private(content, place.type, target.offset, ctype, value, certain)

    def record_write(self, target: Target, ctype: CType, value: Value, line: int | None) -> None:
        """Record a store of an object.

        Bytes of the object that compilers may either leave unchanged or write count as may-write: they must hold what
        they held before.
        """
        place, offset, condition = target.place, target.offset, target.condition
        perhaps = logic.both(condition or logic.TRUE, unknown_truth())
        if isinstance(ctype, CVector) and ctype.count == 3:
            # Twelve bytes are the value (OpenCL C 6.1.5).
            self.record(place, "write", offset, 3 * ctype.element.size, line, condition=condition)
            reason = "padding of a 3-component vector"
            self.record(place, "write", offset, ctype.size, line, condition=perhaps, reason=reason)
        elif isinstance(ctype, Aggregated) and not (isinstance(value, Aggregate) and value.is_set(ctype)):
            reason, pieces = "a structure with members that may not have been set", leaves_of(ctype)
            self.record(
                place, "write", offset, ctype.size, line, condition=perhaps, reason=reason, pieces=pieces
            )
        elif has_gaps(ctype):
            bits = isinstance(ctype, CBits)
            reason = "a bit-field that shares bytes with others" if bits else "padding of a structure"
            pieces = leaves_of(ctype) if bits else ()
            self.record(
                place, "write", offset, ctype.size, line, condition=perhaps, reason=reason, pieces=pieces
            )
        else:
            self.record(place, "write", offset, ctype.size, line, condition=condition)

    def load_place(self, place: Location | Components, line: int | None) -> Value:
        if isinstance(place, Location):
            return self.load(place.pointer, place.type, line)
        element = element_like(place.type)
        return Vector(
            tuple(
                self.load(place.pointer.moved(ex.const(c * element.size)), element, line)
                for c in place.components
            )
        )

    def store_place(self, place: Location | Components, value: Value, line: int | None) -> None:
        if isinstance(place, Location):
            self.store(place.pointer, place.type, value, line)
            return
        element = element_like(place.type)
        items = value.items if isinstance(value, Vector) else (value,) * len(place.components)
        for component, item in zip(place.components, items, strict=False):
            pointer = place.pointer.moved(ex.const(component * element.size))
            if component >= place.type.count:  # `.hi` of three: the padding may be written or not
                pointer = Pointer(tuple(_uncertain(target) for target in pointer.targets))
            self.store(pointer, element, item, line)


def _spend_on(content: Value) -> None:
    """Whatever is kept of an object is gone through, member by member."""
    if isinstance(content, Aggregate):
        spend(len(content.cells) >> 3)


def _uncertain(target: Target) -> Target:
    condition = logic.both(target.condition or logic.TRUE, unknown_truth())
    return Target(target.place, target.offset, condition)


def _load_constant(constants: Constants | None, offset: Expr, ctype: CType) -> Value:
    """An element of a constant object, or of local memory; a load across elements, or of another type, gives any
    value of that type.
    """
    if constants is not None and isinstance(ctype, CVector):
        size = ctype.element.size
        places = [ex.add(offset, ex.const(index * size)) for index in range(ctype.count)]
        return Vector(tuple(_load_constant(constants, place, ctype.element) for place in places))
    if constants is None or isinstance(ctype, CBool) or integer_of(ctype) != constants.kind:
        return unknown_value(ctype, LOADED)
    if gcd(*ex.congruence(offset)) % ctype.size:
        return unknown_value(ctype, LOADED)
    return Number(ex.unknown(constants.lowest, constants.highest, LOADED), constants.kind)


def element_like(vector: CVector) -> CType:
    """The element type of a vector object, with the object's volatility and address space."""
    return replace(vector.element, volatile=vector.volatile, space=vector.space)


def join_envs(condition: Expr, a: dict[Private, Value], b: dict[Private, Value]) -> dict[Private, Value]:
    """The variables when `condition` decides between two states; those that only one of them has are out of scope."""
    if a is b:
        return a
    spend(len(a) >> 2)
    joined: dict[Private, Value] = {}
    for place, value in a.items():
        other = b.get(place)
        if other is None:
            continue
        joined[place] = (
            value if other is value or same_value(value, other) else join_values(condition, value, other)
        )
    return joined
