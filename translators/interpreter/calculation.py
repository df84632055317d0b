"""Abstract evaluation of expressions: values, places, and the accesses they make.

Decides what every operator does to symbolic values and which place an lvalue is. Statements, loops and calls of the
program's own functions are handled in `walk`, functions of OpenCL C in `builtins`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from ..frontend.operator_kinds import COMPARISONS, LOGICAL, SHIFTS, Binary, Unary
from ..frontend.syntax import (
    AddressOf,
    Assign,
    BinaryOperation,
    Block,
    Call,
    Cast,
    Comma,
    Conditional,
    Dereference,
    Expression,
    FloatLiteral,
    FunctionName,
    Increment,
    Index,
    InitialiserList,
    IntLiteral,
    Member,
    Node,
    Opaque,
    Reinterpret,
    Spread,
    Statement,
    StringLiteral,
    Swizzle,
    UnaryOperation,
    Unsupported,
    Update,
    Use,
    Variable,
)
from ..frontend.types import (
    OWN,
    Aggregated,
    CArray,
    CBits,
    CBool,
    CInt,
    COther,
    CPointer,
    CType,
    CVector,
    CVoid,
    Space,
    Whole,
    integer_of,
    integer_type,
    same_bytes,
)
from ..symbolic import expression as ex
from ..symbolic import logic, nodes
from ..symbolic.effort import TooMuch, own_meter
from ..symbolic.exhaustive import assert_never
from ..symbolic.nodes import INT, LONG, Expr, IntType
from . import operators
from .memory import Components, Location, Memory, State, element_like, join_envs, unknown_truth
from .values import (
    ANYWHERE,
    EMPTY_AGGREGATE,
    FLOATING,
    NULL,
    OPAQUE,
    POINTS_ANYWHERE,
    SHARED,
    Aggregate,
    Anywhere,
    Number,
    Place,
    Pointer,
    Private,
    Shared,
    Target,
    Value,
    Vector,
    convert,
    join_values,
    places_of,
    pointer_to,
    reinterpret,
    store_private,
    unknown_value,
)


def bool_number(condition: Expr) -> Number:
    return Number(condition, INT)


def _compare_pointers(operator: Binary, a: Value, b: Value) -> Number:
    """Pointers into one object compare like their offsets (C99 6.5.8p5); nothing is known of others."""
    if isinstance(a, Pointer) and isinstance(b, Pointer) and len(a.targets) == len(b.targets) == 1:
        s, t = a.targets[0], b.targets[0]
        if (
            s.place is t.place
            and s.condition is t.condition is None
            and not isinstance(s.place, Anywhere | Shared)
        ):
            return bool_number(operators.compare(operator, s.offset, t.offset))
    return bool_number(unknown_truth("a comparison of pointers"))


class Flow(Protocol):
    """Follows what is more than an expression: statements, calls of the program's own functions, its variables."""

    def call(self, node: Call, *, used: bool) -> Value: ...

    def execute(self, node: Node) -> None: ...

    def block(self, node: Block) -> Value: ...

    def program_place(self, node: Use) -> Place: ...


#: The cost of evaluating a node (see `effort`).
_STEPS = 4


class Calculator:
    """Evaluates expressions in the memory's current state, which records their accesses."""

    def __init__(self, memory: Memory, flow: Flow) -> None:
        self.memory = memory
        self.flow = flow
        self._meter = own_meter()

    # places -----------------------------------------------------------------------------------------

    def place(self, node: Expression) -> Location | Components:
        """The place of an lvalue expression; any other expression gets a place of its own."""
        match node:
            case Use():
                return Location(pointer_to(self.variable_place(node)), node.type)
            case Index():
                return self._indexed(node)
            case Member():
                return self._member(node)
            case Dereference():
                return Location(self.pointer(node.pointer), node.type)
            case Swizzle():
                return self._swizzled(node)
            case Cast() if same_bytes(node.operand.type, node.type):
                inner = self.place(node.operand)
                return Location(inner.pointer, node.type) if isinstance(inner, Location) else inner
        temporary = Private("temporary", node.type)
        self.memory.state.env[temporary] = self.value(node)
        return Location(pointer_to(temporary), node.type)

    def variable_place(self, node: Use) -> Place:
        place = self.memory.frame.get(node.key)
        return self.flow.program_place(node) if place is None else place

    def _indexed(self, node: Index) -> Location:
        if isinstance(node.base.type, CVector):
            whole = self.place(node.base)
            pointer = whole.pointer if isinstance(whole, Location) else POINTS_ANYWHERE
        else:
            pointer = self.pointer(node.base)
        return Location(self.advance(pointer, self.value(node.index), node.type.size), node.type)

    def _member(self, node: Member) -> Location:
        pointer = self.pointer(node.base) if node.arrow else self.place(node.base).pointer
        pointer = pointer.moved(ex.const(node.byte))
        if node.bits is None:
            return Location(pointer, node.type)
        self.memory.load(pointer, node.bits, node.line)
        return Location(pointer, node.bits)

    def advance(self, pointer: Pointer, count: Value, size: int) -> Pointer:
        """`pointer` moved by `count` elements of `size` bytes."""
        if not isinstance(count, Number):
            return pointer.moved(ex.unknown(-nodes.INFINITE, nodes.INFINITE))
        steps = count.observed() if count.kind.bits < 64 else count.expr
        return pointer.moved(ex.scale(steps, size))

    def _swizzled(self, node: Swizzle) -> Location | Components:
        components = node.components
        if isinstance(node.base.type, CPointer):
            pointer, vector = self.pointer(node.base), node.base.type.pointee
        else:
            whole = self.place(node.base)
            pointer, vector = whole.pointer, whole.type
            if isinstance(whole, Components):
                if any(c >= len(whole.components) for c in components):
                    raise Unsupported("a component that does not exist", node.line)
                components = tuple(whole.components[c] for c in components)
        if not isinstance(vector, CVector):
            raise Unsupported("components of a value that is not a vector", node.line)
        if len(components) == 1:
            element = element_like(vector)
            return Location(pointer.moved(ex.const(components[0] * element.size)), element)
        return Components(pointer, vector, components)

    # values -----------------------------------------------------------------------------------------

    def value(self, node: Expression) -> Value:  # noqa: C901 (a case for each kind)
        """The value of an expression, after its side effects."""
        meter = self._meter  # as `spend` does, which would take longer than many a node
        left = meter.left = meter.left - _STEPS
        if left < 0:
            raise TooMuch
        if node.line is not None:
            self.memory.line = node.line
        match node:  # the frequent ones first
            case Cast():
                return self._cast(node)
            case Use():
                return self._used(node)
            case IntLiteral():
                kind = integer_of(node.type) or INT
                return Number(ex.const(kind.wrap(node.number)), kind)
            case BinaryOperation():
                return self._binary(node)
            case Call():
                return self.flow.call(node, used=True)
            case Index() | Member() | Dereference() | Swizzle():
                return self._at_place(node)
            case Assign():
                return self._assign(node)
            case Update():
                return self._update(node)
            case Increment():
                return self._increment(node)
            case UnaryOperation():
                return self._unary(node)
            case Conditional():
                return self._conditional(node)
            case FloatLiteral() | FunctionName():
                return OPAQUE
            case StringLiteral():
                return pointer_to(SHARED)
            case AddressOf():
                return self.place(node.place).pointer
            case Comma():
                self.flow.execute(node.first)
                return self.value(node.second)
            case Spread():
                return operators.spread(self.value(node.operand), node.type)
            case Reinterpret():
                return reinterpret(self.value(node.operand), node.type)
            case InitialiserList():
                return self._list(node)
            case Block():
                return self.flow.block(node)
            case Opaque():
                return self._opaque(node)
        assert_never(node)

    def pointer(self, node: Expression) -> Pointer:
        value = self.value(node)
        return value if isinstance(value, Pointer) else POINTS_ANYWHERE

    def number(self, node: Expression) -> Expr:
        """The observed value of an integer expression."""
        value = self.value(node)
        return value.observed() if isinstance(value, Number) else ex.unknown(-nodes.INFINITE, nodes.INFINITE)

    def condition(self, node: Expression) -> Expr:
        """The truth value of an expression."""
        if not isinstance(node.type, CVector):
            match node:
                case BinaryOperation() if node.operator in LOGICAL:
                    return self._short_circuit(node)
                case UnaryOperation(operator=Unary.NOT):
                    return logic.negate(self.condition(node.operand))
                case Cast(operand=operand) if isinstance(operand.type, Whole):
                    if isinstance(node.type, CBool):
                        return self.condition(operand)
        value = self.value(node)
        if isinstance(value, Number):
            return logic.truth(value.observed())
        return unknown_truth(FLOATING if value is OPAQUE else "")

    def _short_circuit(self, node: BinaryOperation) -> Expr:
        first = self.condition(node.left)
        found: list[Expr] = []
        joins = node.operator is Binary.BOTH
        wanted = first if joins else logic.negate(first)
        self.branch(wanted, lambda: found.append(self.condition(node.right)), lambda: None)
        if not found:
            return first
        return logic.both(first, found[0]) if joins else logic.either(first, found[0])

    def branch(self, condition: Expr, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Evaluate one of two things; neither leaves the expression, so the way afterwards is the way before."""
        if condition is logic.TRUE:
            then()
            return
        if condition is logic.FALSE:
            otherwise()
            return
        way = self.memory.state.way
        before = self.memory.state
        self.memory.state = before.branch(self.memory.ways.condition(way, condition))
        then()
        taken = self.memory.state
        self.memory.state = State(before.env, self.memory.ways.condition(way, logic.negate(condition)))
        otherwise()
        self.memory.state = State(join_envs(condition, taken.env, self.memory.state.env), way)

    def _conditional(self, node: Conditional) -> Value:
        if isinstance(node.condition.type, CVector) and isinstance(node.type, CVector):
            test = self.value(node.condition)
            return operators.choose(test, self.value(node.yes), self.value(node.no), node.type)
        condition = self.condition(node.condition)
        found: dict[bool, Value] = {}

        def then() -> None:
            found[True] = convert(self.value(node.yes), node.type)

        def otherwise() -> None:
            found[False] = convert(self.value(node.no), node.type)

        self.branch(condition, then, otherwise)
        if len(found) == 1:
            return next(iter(found.values()))
        return join_values(condition, found[True], found[False])

    def _used(self, node: Use) -> Value:
        """A variable used as a value: most are the work-item's own."""
        place = self.memory.frame.get(node.key)
        if isinstance(place, Private) and not isinstance(node.type, CArray):
            known = self.memory.state.env.get(place)
            if known is not None:
                return known
        return self._at_place(node)

    def _at_place(self, node: Use | Index | Member | Dereference | Swizzle) -> Value:
        """An lvalue used as a value: arrays become pointers, everything else is loaded."""
        where = self.place(node)
        if isinstance(where.type, CArray):
            return where.pointer
        found = self.memory.load_place(where, node.line)
        # For a bit-field its surroundings are loaded, and its value is unknown.
        return unknown_value(node.type) if isinstance(where.type, CBits) else found

    def _binary(self, node: BinaryOperation) -> Value:
        if node.operator in LOGICAL and not isinstance(node.type, CVector):
            return bool_number(self._short_circuit(node))
        a, b = self.value(node.left), self.value(node.right)
        return self.operate(node.operator, a, b, node.left.type, node.type)

    def operate(self, operator: Binary, a: Value, b: Value, a_type: CType, ctype: CType) -> Value:
        """A binary operator on values whose types C's conversions have already made equal."""
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            return self._operate_pointers(operator, a, b, a_type, ctype)
        return operators.binary(operator, a, b, ctype)

    def _operate_pointers(self, operator: Binary, a: Value, b: Value, a_type: CType, ctype: CType) -> Value:
        match operator, a, b:
            case ((Binary.ADD | Binary.SUBTRACT), _, _) if isinstance(ctype, CPointer):
                return self._moved(operator, a, b, ctype.stride)
            case Binary.SUBTRACT, Pointer(), Pointer() if isinstance(a_type, CPointer):
                if len(a.targets) == len(b.targets) == 1 and a.targets[0].place is b.targets[0].place:
                    distance = ex.sub(a.targets[0].offset, b.targets[0].offset)
                    return Number(ex.div(ex.cast(LONG, distance), ex.const(a_type.stride)), LONG)
        if operator in COMPARISONS and not isinstance(ctype, CPointer):
            if ANYWHERE in places_of(a) | places_of(b):
                for value in (a, b):
                    self.memory.show_address(
                        value, "the address of a buffer is compared with one from memory", None
                    )
            return _compare_pointers(operator, a, b)
        return unknown_value(ctype)

    def _moved(self, operator: Binary, a: Value, b: Value, size: int) -> Pointer:
        """A pointer and a number added, or the number subtracted from it."""
        match a, b:
            case Pointer(), Number():
                if operator is Binary.SUBTRACT:
                    b = Number(ex.scale(b.observed() if b.kind.bits < 64 else b.expr, -1), LONG)
                return self.advance(a, b, size)
            case Number(), Pointer() if operator is Binary.ADD:
                return self.advance(b, a, size)
        return POINTS_ANYWHERE

    def _unary(self, node: UnaryOperation) -> Value:
        if node.operator is Unary.NOT and not isinstance(node.type, CVector):
            return bool_number(logic.negate(self.condition(node.operand)))
        return operators.unary(node.operator, self.value(node.operand), node.type)

    def _assign(self, node: Assign) -> Value:
        value = self.value(node.value)
        where = self.place(node.target)
        stored = convert(value, node.type)
        self.memory.store_place(where, stored, node.line)
        # A bit-field keeps some of the bits, and the value is what it keeps (C99 6.5.16p3).
        return unknown_value(node.type) if isinstance(where.type, CBits) else stored

    def _update(self, node: Update) -> Value:
        operand = self.value(node.value)
        where = self.place(node.target)
        old = self.memory.load_place(where, node.line)
        ctype = node.target.type
        match old, operand:
            case Pointer(), _:
                result = self._operate_pointers(node.operator, old, operand, ctype, ctype)
            case Number(), Number() if isinstance(ctype, Whole):
                result = self._update_number(node.operator, old, operand, ctype)
            case Vector(), _:
                result = operators.binary(node.operator, old, convert(operand, ctype), ctype)
            case _:
                result = unknown_value(ctype)
        self.memory.store_place(where, result, node.line)
        return result

    def _update_number(self, operator: Binary, old: Number, operand: Number, ctype: CType) -> Value:
        shifts = operator in SHIFTS
        common = promoted(old.kind) if shifts else usual_conversion(old.kind, operand.kind)
        wide = integer_type(common)
        a = convert(old, wide)
        b = operand if shifts else convert(operand, wide)
        return convert(operators.binary(operator, a, b, wide), ctype)

    def _increment(self, node: Increment) -> Value:
        where = self.place(node.target)
        old = self.memory.load_place(where, node.line)
        ctype, step = node.target.type, Number(ex.const(node.by), INT)
        match old, ctype:
            case Pointer(), CPointer():
                new: Value = old.moved(ex.const(node.by * ctype.stride))
            case Number(), _:
                new = self._update_number(Binary.ADD, old, step, ctype)
            case Vector(), _:
                new = operators.binary(Binary.ADD, old, convert(step, ctype), ctype)
            case _:
                new = unknown_value(ctype)
        self.memory.store_place(where, new, node.line)
        return old if node.postfix else new

    def _cast(self, node: Cast) -> Value:
        ctype, inner = node.type, node.operand
        if isinstance(ctype, CInt):
            value = self.value(inner)
            if isinstance(value, Number):
                # Mostly it is of that type: clang has a conversion wherever a variable is read.
                return value if ctype.integer is value.kind else convert(value, ctype)
        elif isinstance(ctype, CVoid):
            self.flow.execute(inner)
            return OPAQUE
        elif isinstance(ctype, CBool) and not isinstance(inner.type, CVector):
            return Number(self.condition(inner), ctype.integer)
        else:
            value = self.value(inner)
        if not isinstance(value, Number) and isinstance(ctype, Whole):
            self.memory.show_address(value, "the address of a buffer is converted to a number", node.line)
        return convert(value, ctype)

    def _list(self, node: InitialiserList) -> Value:
        """An initialiser list: of a vector, or of a struct or array."""
        ctype = node.type
        values = [self.value(item) for item in node.items]
        if isinstance(ctype, CVector):
            return self._vector_of(values, ctype)
        if isinstance(ctype, Aggregated):
            return self._aggregate_of(values, node.items, ctype)
        return convert(values[0], ctype) if values else unknown_value(ctype)

    def _vector_of(self, values: list[Value], ctype: CVector) -> Value:
        items: list[Value] = []
        for value in values:
            items += value.items if isinstance(value, Vector) else [value]
        if len(items) == 1:
            items *= ctype.count
        if len(items) != ctype.count:
            return unknown_value(ctype)
        return Vector(tuple(convert(item, ctype.element) for item in items))

    def _aggregate_of(self, values: list[Value], items: Sequence[Expression], ctype: Aggregated) -> Value:
        if isinstance(ctype, CArray):
            slots = [(index * ctype.element.size, ctype.element) for index in range(len(values))]
        else:
            slots = list(ctype.members.values())
        whole: Value = Aggregate({}, frozenset(), complete=True)  # what is not listed is zero (C99 6.7.8)
        if len(values) > min(len(slots), 64) or any(isinstance(item, Opaque) for item in items):
            places = frozenset().union(*(places_of(value) for value in values))
            return Aggregate({}, places, complete=True)
        for (byte, member), value in zip(slots, values, strict=False):
            whole = store_private(whole, ctype, ex.const(byte), member, convert(value, member), True)
        return whole

    def give_away(self, value: Value, reason: str, line: int | None) -> None:
        """Something that is not followed gets `value`: it may do anything with the memory behind pointers in it, also
        atomically.
        """
        found: set[Place] = set()
        places = list(places_of(value))
        while places:
            place = places.pop()
            if place in found:
                continue
            found.add(place)
            self.memory.record(place, "atomic", None, 1, line, condition=unknown_truth(), reason=reason)
            if place in self.memory.state.env:
                places += places_of(self.memory.state.env[place])
                everywhere = Pointer((Target(place, ex.unknown(0, 1)),))
                self.memory.store(everywhere, COther(1), OPAQUE, line)

    def _opaque(self, node: Opaque) -> Value:
        """Something that is not followed: its parts may be evaluated or not."""

        def evaluate(part: Node) -> None:
            if isinstance(part, Statement):
                self.flow.execute(part)
            else:
                self.give_away(self.value(part), "an unknown operation", node.line)

        for part in node.parts:
            self.branch(unknown_truth(), partial(evaluate, part), lambda: None)
        return unknown_value(node.type)

    def declare_only(self, variable: Variable) -> Private | None:
        """A variable comes into scope; None if it is not one of the work-item's own. Its content is not known."""
        space = _space(variable.type)
        if space in (Space.GLOBAL, Space.LOCAL, Space.CONSTANT):
            self.memory.frame[variable.key] = ANYWHERE if space is Space.GLOBAL else SHARED
            return None
        place = Private(variable.name, variable.type)
        self.memory.frame[variable.key] = place
        return place

    def declare(self, variable: Variable) -> None:
        """A variable comes into being."""
        ctype = variable.type
        place = self.declare_only(variable)
        if place is None:
            return
        if variable.init is not None:
            value = convert(self.value(variable.init), ctype)
        elif isinstance(ctype, Aggregated):
            value = EMPTY_AGGREGATE
        else:
            value = NULL if isinstance(ctype, CPointer) else unknown_value(ctype)
        self.memory.state.env[place] = value


def _space(ctype: CType) -> Space:
    while isinstance(ctype, CArray) and ctype.space in OWN:
        ctype = ctype.element
    return ctype.space


def promoted(kind: IntType) -> IntType:
    """C's integer promotion."""
    return INT if kind.bits < 32 else kind


def usual_conversion(a: IntType, b: IntType) -> IntType:
    """C's usual arithmetic conversions (C99 6.3.1.8)."""
    a, b = promoted(a), promoted(b)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return IntType(a.bits, a.signed and b.signed)
