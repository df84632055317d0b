"""Abstract evaluation of expressions: values, places, and the accesses they make.

Decides what every operator does to symbolic values and which place an lvalue is. Statements, loops and calls
of the program's own functions are `walk`'s; functions of OpenCL C are `builtins`'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from ..frontend.operator_kinds import Binary, Unary
from ..frontend.syntax import CType, Node, Unsupported, Variable
from ..symbolic import expression as ex
from ..symbolic import logic
from ..symbolic.expression import INT, LONG, Expr, IntType
from . import operators
from .memory import Location, Memory, State, element_like, join_envs, unknown_truth
from .operators import COMPARISONS, LOGICAL, SHIFTS
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
    """Pointers into one object compare as their offsets (C99 6.5.8p5); of others nothing is known."""
    if isinstance(a, Pointer) and isinstance(b, Pointer) and len(a.targets) == len(b.targets) == 1:
        s, t = a.targets[0], b.targets[0]
        if (
            s.place is t.place
            and s.condition is t.condition is None
            and not isinstance(s.place, Anywhere | Shared)
        ):
            return bool_number(operators.compare(operator, s.offset, t.offset))
    return bool_number(unknown_truth("a comparison of pointers"))


class Calculator(Memory, ABC):
    """Evaluates expressions in the current state and records accesses."""

    # what subclasses know ---------------------------------------------------------------------------

    @abstractmethod
    def call(self, node: Node, *, used: bool) -> Value: ...

    @abstractmethod
    def execute(self, node: Node) -> None: ...

    @abstractmethod
    def block(self, node: Node) -> Value: ...

    @abstractmethod
    def program_place(self, node: Node) -> Place: ...

    # places -----------------------------------------------------------------------------------------

    def place(self, node: Node) -> Location:
        """Where an lvalue expression is."""
        kind = node.kind
        if kind == "variable":
            return Location(pointer_to(self.variable_place(node)), node.type)
        if kind == "index":
            return self._indexed(node)
        if kind == "member":
            base, byte, arrow, unit = node.args
            pointer = self.pointer(base) if arrow else self.place(base).pointer
            pointer = pointer.moved(ex.const(byte))
            if unit:
                ctype = CType("bits", unit)
                self.load(pointer, ctype, node.line)
                return Location(pointer, ctype)
            return Location(pointer, node.type)
        if kind == "deref":
            return Location(self.pointer(node.args[0]), node.type)
        if kind == "swizzle":
            return self._swizzled(node)
        if kind == "cast" and _same_bytes(node.args[0].type, node.type):
            inner = self.place(node.args[0])
            return Location(inner.pointer, node.type, inner.components)
        temporary = Private("temporary", node.type)
        self.state.env[temporary] = self.value(node)
        return Location(pointer_to(temporary), node.type)

    def variable_place(self, node: Node) -> Place:
        place = self.frame.get(node.args[0])
        return self.program_place(node) if place is None else place

    def _indexed(self, node: Node) -> Location:
        base, index = node.args
        if base.type.kind == "vector":
            whole = self.place(base)
            pointer = whole.pointer if whole.components is None else POINTS_ANYWHERE
        else:
            pointer = self.pointer(base)
        return Location(self.advance(pointer, self.value(index), node.type.size), node.type)

    def advance(self, pointer: Pointer, count: Value, size: int) -> Pointer:
        """`pointer` moved by `count` elements of `size` bytes."""
        if not isinstance(count, Number):
            return pointer.moved(ex.unknown(-ex.INFINITE, ex.INFINITE))
        steps = count.observed() if count.kind.bits < 64 else count.expr
        return pointer.moved(ex.scale(steps, size))

    def _swizzled(self, node: Node) -> Location:
        base, components, arrow = node.args
        if arrow:
            vector = base.type.element
            whole = Location(self.pointer(base), vector)
        else:
            whole = self.place(base)
            if whole.components is not None:
                inner = whole.components
                whole = Location(whole.pointer, whole.type)
                if any(c >= len(inner) for c in components):
                    raise Unsupported("a component that is not there", node.line)
                components = tuple(inner[c] for c in components)
        if whole.type.element is None:
            raise Unsupported("components of what is no vector", node.line)
        if len(components) == 1:
            element = whole.type.element
            moved = whole.pointer.moved(ex.const(components[0] * element.size))
            return Location(moved, element_like(element, whole.type))
        return Location(whole.pointer, whole.type, components)

    # values -----------------------------------------------------------------------------------------

    def value(self, node: Node) -> Value:
        """The value of an expression, after its side effects."""
        self.tick()
        evaluate = _VALUES.get(node.kind)
        if evaluate is not None:
            return evaluate(self, node)
        self.execute(node)
        return unknown_value(node.type)

    def pointer(self, node: Node) -> Pointer:
        value = self.value(node)
        return value if isinstance(value, Pointer) else POINTS_ANYWHERE

    def number(self, node: Node) -> Expr:
        """The observed value of an integer expression."""
        value = self.value(node)
        return value.observed() if isinstance(value, Number) else ex.unknown(-ex.INFINITE, ex.INFINITE)

    def condition(self, node: Node) -> Expr:
        """The truth value of an expression."""
        if node.kind == "binary" and node.args[0] in LOGICAL and node.type.kind != "vector":
            return self._short_circuit(node)
        if node.kind == "unary" and node.args[0] is Unary.NOT and node.type.kind != "vector":
            return logic.negate(self.condition(node.args[1]))
        if node.kind == "cast" and node.type.integer is not None and node.args[0].type.integer is not None:
            return (
                self.condition(node.args[0]) if node.type.kind == "bool" else logic.truth(self.number(node))
            )
        value = self.value(node)
        if isinstance(value, Number):
            return logic.truth(value.observed())
        return unknown_truth(FLOATING if value is OPAQUE else "")

    def _short_circuit(self, node: Node) -> Expr:
        operator, a, b = node.args
        first = self.condition(a)
        found: list[Expr] = []
        wanted = first if operator is Binary.BOTH else logic.negate(first)
        self.branch(wanted, lambda: found.append(self.condition(b)), lambda: None)
        if not found:
            return first
        return logic.both(first, found[0]) if operator is Binary.BOTH else logic.either(first, found[0])

    def branch(self, condition: Expr, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Evaluate one of two things; neither leaves the expression, so the way behind is the way before."""
        if condition is logic.TRUE:
            then()
            return
        if condition is logic.FALSE:
            otherwise()
            return
        way = self.state.way
        before = self.state
        self.state = State(dict(before.env), self.ways.condition(way, condition))
        then()
        taken = self.state
        self.state = State(before.env, self.ways.condition(way, logic.negate(condition)))
        otherwise()
        self.state = State(join_envs(condition, taken.env, self.state.env), way)

    def _conditional(self, node: Node) -> Value:
        test, a, b = node.args
        if test.type.kind == "vector":
            return operators.choose(self.value(test), self.value(a), self.value(b), node.type)
        condition = self.condition(test)
        found: dict[bool, Value] = {}

        def then() -> None:
            found[True] = convert(self.value(a), node.type)

        def otherwise() -> None:
            found[False] = convert(self.value(b), node.type)

        self.branch(condition, then, otherwise)
        if len(found) == 1:
            return next(iter(found.values()))
        return join_values(condition, found[True], found[False])

    def _int(self, node: Node) -> Value:
        kind = node.type.integer or INT
        return Number(ex.const(kind.wrap(node.args[0])), kind)

    def _float(self, node: Node) -> Value:
        return OPAQUE

    def _string(self, node: Node) -> Value:
        return pointer_to(SHARED)

    def _at_place(self, node: Node) -> Value:
        """An lvalue used as a value: arrays become pointers, everything else is loaded."""
        if node.kind == "variable" and node.type.kind != "array":
            place = self.variable_place(node)
            if isinstance(place, Private):
                known = self.state.env.get(place)
                if known is not None:
                    return known
        where = self.place(node)
        if where.type.kind == "array":
            return where.pointer
        if where.type.kind == "other" and node.type.integer is not None:
            self.load_place(where, node.line)
            return unknown_value(node.type)
        return self.load_place(where, node.line)

    def _binary(self, node: Node) -> Value:
        operator, a, b = node.args
        if operator in LOGICAL and node.type.kind != "vector":
            return bool_number(self._short_circuit(node))
        return self.operate(operator, self.value(a), self.value(b), a.type, node.type)

    def operate(self, operator: Binary, a: Value, b: Value, a_type: CType, ctype: CType) -> Value:
        """A binary operator on values whose types C's conversions have already made equal."""
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            return self._operate_pointers(operator, a, b, a_type, ctype)
        return operators.binary(operator, a, b, ctype)

    def _operate_pointers(self, operator: Binary, a: Value, b: Value, a_type: CType, ctype: CType) -> Value:
        if operator in (Binary.ADD, Binary.SUBTRACT) and ctype.kind == "pointer":
            size = ctype.element.size if ctype.element is not None else 1
            size = max(size, 1)  # void* moves by bytes
            if isinstance(a, Pointer) and isinstance(b, Number):
                if operator is Binary.SUBTRACT:
                    b = Number(ex.scale(b.observed() if b.kind.bits < 64 else b.expr, -1), LONG)
                return self.advance(a, b, size)
            if operator is Binary.ADD and isinstance(b, Pointer) and isinstance(a, Number):
                return self.advance(b, a, size)
            return POINTS_ANYWHERE
        if operator is Binary.SUBTRACT and isinstance(a, Pointer) and isinstance(b, Pointer):
            size = a_type.element.size if a_type.element is not None else 1
            if len(a.targets) == len(b.targets) == 1 and a.targets[0].place is b.targets[0].place:
                distance = ex.sub(a.targets[0].offset, b.targets[0].offset)
                return Number(ex.div(ex.cast(LONG, distance), ex.const(max(size, 1))), LONG)
        if ctype.kind != "pointer" and operator in COMPARISONS:
            if ANYWHERE in places_of(a) | places_of(b):
                for value in (a, b):
                    self.show_address(value, "the address of a buffer is compared with one from memory", None)
            return _compare_pointers(operator, a, b)
        return unknown_value(ctype)

    def _unary(self, node: Node) -> Value:
        operator, a = node.args
        if operator is Unary.NOT and node.type.kind != "vector":
            return bool_number(logic.negate(self.condition(a)))
        return operators.unary(operator, self.value(a), node.type)

    def _assign(self, node: Node) -> Value:
        target, source = node.args
        value = self.value(source)
        where = self.place(target)
        stored = convert(value, node.type)
        self.store_place(where, stored, node.line)
        # A bit-field keeps some of the bits, and its value is what it keeps (C99 6.5.16p3).
        return unknown_value(node.type) if where.type.kind == "other" else stored

    def _update(self, node: Node) -> Value:
        operator, target, source = node.args
        operand = self.value(source)
        where = self.place(target)
        old = self.load_place(where, node.line)
        ctype: CType = target.type
        if isinstance(old, Pointer):
            result: Value = self._operate_pointers(operator, old, operand, ctype, ctype)
        elif isinstance(old, Number) and isinstance(operand, Number):
            result = self._update_number(operator, old, operand, ctype)
        elif isinstance(old, Vector):
            result = operators.binary(operator, old, convert(operand, ctype), ctype)
        else:
            result = unknown_value(ctype)
        self.store_place(where, result, node.line)
        return result

    def _update_number(self, operator: Binary, old: Number, operand: Number, ctype: CType) -> Value:
        shifts = operator in SHIFTS
        common = promoted(old.kind) if shifts else usual_conversion(old.kind, operand.kind)
        wide = CType("int", common.bits // 8)
        wide.integer = common
        a = convert(old, wide)
        b = operand if shifts else convert(operand, wide)
        return convert(operators.binary(operator, a, b, wide), ctype)

    def _step(self, node: Node) -> Value:
        target, direction, postfix = node.args
        where = self.place(target)
        old = self.load_place(where, node.line)
        ctype: CType = target.type
        if isinstance(old, Pointer):
            size = ctype.element.size if ctype.element is not None else 1
            new: Value = old.moved(ex.const(direction * max(size, 1)))
        elif isinstance(old, Number):
            new = self._update_number(Binary.ADD, old, Number(ex.const(direction), INT), ctype)
        elif isinstance(old, Vector):
            one = convert(Number(ex.const(direction), INT), ctype)
            new = operators.binary(Binary.ADD, old, one, ctype)
        else:
            new = unknown_value(ctype)
        self.store_place(where, new, node.line)
        return old if postfix else new

    def _cast(self, node: Node) -> Value:
        (inner,) = node.args
        if node.type.kind == "void":
            if inner.kind == "call":
                self.call(inner, used=False)
            else:
                self.value(inner)
            return OPAQUE
        if node.type.kind == "bool" and inner.type.kind != "vector":
            kind = node.type.integer
            assert kind is not None
            return Number(self.condition(inner), kind)
        value = self.value(inner)
        if node.type.kind == "pointer" and isinstance(value, Number) and value.expr is ex.ZERO:
            return NULL
        if node.type.integer is not None:
            self.show_address(value, "the address of a buffer becomes a number", node.line)
        return convert(value, node.type)

    def _spread(self, node: Node) -> Value:
        return operators.spread(self.value(node.args[0]), node.type)

    def _astype(self, node: Node) -> Value:
        (inner,) = node.args
        return reinterpret(self.value(inner), node.type)

    def _address(self, node: Node) -> Value:
        return self.place(node.args[0]).pointer

    def _comma(self, node: Node) -> Value:
        first, second = node.args
        self.execute(first)
        return self.value(second)

    def _call(self, node: Node) -> Value:
        return self.call(node, used=True)

    def _function(self, node: Node) -> Value:
        return OPAQUE

    def _list(self, node: Node) -> Value:
        """An initialiser list: of a vector, or of a struct or array."""
        ctype = node.type
        values = [self.value(item) for item in node.args]
        if ctype.kind == "vector":
            return self._vector_of(values, ctype)
        if ctype.kind in ("record", "array"):
            return self._aggregate_of(values, node)
        return convert(values[0], ctype) if values else unknown_value(ctype)

    def _vector_of(self, values: list[Value], ctype: CType) -> Value:
        assert ctype.element is not None
        items: list[Value] = []
        for value in values:
            items += value.items if isinstance(value, Vector) else [value]
        if len(items) == 1:
            items *= ctype.count
        if len(items) != ctype.count:
            return unknown_value(ctype)
        return Vector(tuple(convert(item, ctype.element) for item in items))

    def _aggregate_of(self, values: list[Value], node: Node) -> Value:
        ctype = node.type
        if ctype.kind == "array" and ctype.element is not None:
            slots = [(index * ctype.element.size, ctype.element) for index in range(len(values))]
        else:
            slots = list(ctype.fields.values())
        whole: Value = Aggregate({}, frozenset(), complete=True)  # what is not listed is zero (C99 6.7.8)
        if len(values) > len(slots) or any(item.kind == "opaque" for item in node.args) or len(values) > 64:
            places = frozenset().union(*(places_of(value) for value in values))
            return Aggregate({}, places, complete=True)
        for (byte, member), value in zip(slots, values, strict=False):
            whole = store_private(whole, ctype, ex.const(byte), member, convert(value, member), True)
        return whole

    def give_away(self, value: Value, reason: str, line: int | None) -> None:
        """Something that is not followed gets `value`: it may do anything behind the pointers in it, atomically too."""
        found: set[Place] = set()
        places = list(places_of(value))
        while places:
            place = places.pop()
            if place in found:
                continue
            found.add(place)
            self.record(place, "atomic", None, 1, line, condition=unknown_truth(), reason=reason)
            if place in self.state.env:
                places += places_of(self.state.env[place])
                everywhere = Pointer((Target(place, ex.unknown(0, 1)),))
                self.store(everywhere, CType("other", 1), OPAQUE, line)

    def _opaque(self, node: Node) -> Value:
        """Something that is not followed: what it is made of may be evaluated or not."""

        def evaluate(child: Node) -> None:
            self.give_away(self.value(child), "an operation that is not known", node.line)

        for child in node.args:
            if isinstance(child, Node):
                self.branch(unknown_truth(), partial(evaluate, child), lambda: None)
        return unknown_value(node.type)

    def declare_only(self, variable: Variable) -> Private | None:
        """A variable comes into scope; None where it is none of the work-item's own. What it holds is not known."""
        space = _space(variable.type)
        if space in (1, 2, 3):
            self.frame[variable.key] = SHARED if space != 1 else ANYWHERE
            return None
        place = Private(variable.name, variable.type)
        self.frame[variable.key] = place
        return place

    def declare(self, variable: Variable) -> None:
        """A variable comes into being."""
        ctype = variable.type
        place = self.declare_only(variable)
        if place is None:
            return
        if variable.init is not None:
            value = convert(self.value(variable.init), ctype)
        elif ctype.kind in ("record", "array"):
            value = EMPTY_AGGREGATE
        else:
            value = NULL if ctype.kind == "pointer" else unknown_value(ctype)
        self.state.env[place] = value


def _same_bytes(a: CType, b: CType) -> bool:
    """Whether a conversion from `a` to `b` leaves every byte as it is, and is so the same object."""
    if a.kind != b.kind or a.size != b.size or a.integer != b.integer:
        return False
    if a.kind == "vector" and a.element is not None and b.element is not None:
        return a.count == b.count and _same_bytes(a.element, b.element)
    return a.kind in ("int", "bool", "float", "record", "array", "vector")


def _space(ctype: CType) -> int:
    while ctype.kind == "array" and ctype.element is not None and ctype.space in (0, 4):
        if ctype.element.space not in (0, 4):
            return ctype.element.space
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


_VALUES: dict[str, Callable[[Calculator, Node], Value]] = {
    "int": Calculator._int,
    "float": Calculator._float,
    "string": Calculator._string,
    "variable": Calculator._at_place,
    "index": Calculator._at_place,
    "member": Calculator._at_place,
    "deref": Calculator._at_place,
    "swizzle": Calculator._at_place,
    "binary": Calculator._binary,
    "unary": Calculator._unary,
    "assign": Calculator._assign,
    "update": Calculator._update,
    "step": Calculator._step,
    "cast": Calculator._cast,
    "spread": Calculator._spread,
    "astype": Calculator._astype,
    "address": Calculator._address,
    "comma": Calculator._comma,
    "conditional": Calculator._conditional,
    "call": Calculator._call,
    "function": Calculator._function,
    "list": Calculator._list,
    "opaque": Calculator._opaque,
    "block": lambda self, node: self.block(node),
}
