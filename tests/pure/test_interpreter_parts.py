"""The interpreter's parts by themselves: memory without syntax, the calculation of expressions without statements, and what
types say of their objects.
"""

from __future__ import annotations

import pytest
from vdev.translators.frontend import types as ct
from vdev.translators.frontend.operator_kinds import Binary, Unary
from vdev.translators.frontend.syntax import (
    Assign,
    BinaryOperation,
    Block,
    Call,
    Cast,
    Conditional,
    Expression,
    Increment,
    Index,
    IntLiteral,
    Node,
    UnaryOperation,
    Use,
)
from vdev.translators.interpreter.calculation import Calculator
from vdev.translators.interpreter.memory import Components, Location, Memory
from vdev.translators.interpreter.values import (
    OPAQUE,
    SHARED,
    Aggregate,
    Argument,
    Number,
    Place,
    Private,
    Value,
    Vector,
    pointer_to,
    unknown_value,
)
from vdev.translators.symbolic import expression as ex
from vdev.translators.symbolic import logic, nodes

INT, CHAR, BOOL = ct.integer_type(nodes.INT), ct.integer_type(nodes.IntType(8, True)), ct.CBool(1)
FLOAT = ct.CFloat(4)
INT2, INT3 = ct.CVector(8, INT, 2), ct.CVector(16, INT, 3)
PADDED = ct.CRecord(8, {"a": (0, CHAR), "b": (4, INT)})
KEYS = {"a": 1, "i": 2, "j": 3}


def number(value: int) -> Number:
    return Number(ex.const(value), nodes.INT)


# types ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ctype", "gaps", "leaves", "uniform"),
    [
        (INT, False, ((0, 4),), nodes.INT),
        (BOOL, False, ((0, 1),), None),
        (FLOAT, False, ((0, 4),), None),
        (INT2, False, ((0, 4), (4, 4)), nodes.INT),
        (INT3, True, ((0, 4), (4, 4), (8, 4)), None),
        (PADDED, True, ((0, 1), (4, 4)), None),
        (ct.CArray(16, PADDED, 2), True, ((0, 1), (4, 4), (8, 1), (12, 4)), None),
        (ct.CRecord(8, {"a": (0, INT), "b": (4, INT)}), False, ((0, 4), (4, 4)), nodes.INT),
        (ct.CBits(2), True, ((0, 1), (1, 1)), None),
        (ct.CPointer(8, INT), False, ((0, 8),), None),
    ],
)
def test_types_know_their_bytes(
    ctype: ct.CType, gaps: bool, leaves: tuple[tuple[int, int], ...], uniform: nodes.IntType | None
) -> None:
    assert ct.has_gaps(ctype) == gaps
    assert ct.leaves_of(ctype) == leaves
    assert ct.uniform_integer(ctype) == uniform


def test_which_types_are_the_same_bytes() -> None:
    uint = ct.integer_type(nodes.UINT)
    assert ct.same_bytes(INT, ct.integer_type(nodes.INT))
    assert not ct.same_bytes(INT, uint)
    assert not ct.same_bytes(INT, FLOAT)
    assert not ct.same_bytes(CHAR, BOOL)
    assert ct.same_bytes(INT2, ct.CVector(8, INT, 2))
    assert not ct.same_bytes(INT2, ct.CVector(8, uint, 2))


# memory ---------------------------------------------------------------------------------------------


def test_private_memory_is_followed_and_leaves_no_record() -> None:
    memory, place = Memory(), Private("x", INT)
    memory.store(pointer_to(place), INT, number(5), None)
    found = memory.load(pointer_to(place), INT, None)
    assert isinstance(found, Number)
    assert found.expr is ex.const(5)
    assert memory.written == {place}
    assert not memory.records


def test_accesses_behind_arguments_are_recorded() -> None:
    memory, pointer = Memory(), pointer_to(Argument(3)).moved(ex.const(8))
    loaded = memory.load(pointer, INT, 7)
    memory.store(pointer, INT, number(1), 8)
    found = [(r.arg, r.mode, r.offset, r.nbytes, r.line) for r in memory.records]
    assert found == [(3, "read", ex.const(8), 4, 7), (3, "write", ex.const(8), 4, 8)]
    assert isinstance(loaded, Number)
    assert memory.loads[loaded.expr] == (3, ex.const(8))


def test_local_memory_is_no_buffer() -> None:
    memory = Memory()
    memory.store(pointer_to(SHARED), INT, number(1), None)
    assert not memory.records


@pytest.mark.parametrize(
    ("ctype", "value", "certain"),
    [
        (INT, number(1), True),
        (PADDED, Aggregate({}, frozenset(), complete=True), False),
        (ct.CRecord(4, {"a": (0, INT)}), Aggregate({}, frozenset(), complete=False), False),
        (ct.CRecord(4, {"a": (0, INT)}), Aggregate({}, frozenset(), complete=True), True),
        (ct.CBits(4), OPAQUE, False),
    ],
)
def test_padding_may_be_written(ctype: ct.CType, value: Value, certain: bool) -> None:
    memory = Memory()
    memory.store(pointer_to(Argument(0)), ctype, value, None)
    (record,) = memory.records
    assert (record.way is memory.state.way) == certain


def test_three_components_are_written_and_the_fourth_may_be() -> None:
    memory = Memory()
    memory.store(pointer_to(Argument(0)), INT3, unknown_value(INT3), None)
    assert [(r.nbytes, r.way is memory.state.way) for r in memory.records] == [(12, True), (16, False)]


def test_components_are_stored_one_by_one() -> None:
    memory, place = Memory(), Private("v", INT2)
    memory.state.env[place] = Vector((number(1), number(2)))
    memory.store_place(Components(pointer_to(place), INT2, (1, 0)), Vector((number(3), number(4))), None)
    found = memory.load_place(Location(pointer_to(place), INT2), None)
    assert isinstance(found, Vector)
    assert [item.expr for item in found.items if isinstance(item, Number)] == [ex.const(4), ex.const(3)]


def test_an_address_that_is_stored_is_shown() -> None:
    memory = Memory()
    memory.store(pointer_to(Argument(0)), ct.CPointer(8, INT), pointer_to(Argument(1)), 4)
    assert memory.addresses == [("the address of a buffer is stored", 4)]


# calculation ----------------------------------------------------------------------------------------


class NoFlow:
    """No statements, functions or variables outside."""

    def call(self, node: Call, *, used: bool) -> Value:
        raise NotImplementedError

    def execute(self, node: Node) -> None:
        raise NotImplementedError

    def block(self, node: Block) -> Value:
        raise NotImplementedError

    def program_place(self, node: Use) -> Place:
        raise NotImplementedError


GID = ex.workitem(nodes.GlobalId, 0)


@pytest.fixture
def calculator() -> Calculator:
    """`a` is argument 0, a pointer; `i` is the global id, `j` is 10."""
    memory = Memory()
    values = {
        "a": (ct.CPointer(8, INT), pointer_to(Argument(0))),
        "i": (INT, Number(GID, nodes.INT)),
        "j": (INT, number(10)),
    }
    for name, (ctype, value) in values.items():
        place = memory.frame[KEYS[name]] = Private(name, ctype)
        memory.state.env[place] = value
    return Calculator(memory, NoFlow())


def use(name: str, ctype: ct.CType = INT) -> Use:
    return Use(ctype, None, KEYS[name], name)


def literal(value: int) -> IntLiteral:
    return IntLiteral(INT, None, value)


def operation(
    operator: Binary, left: Expression, right: Expression, ctype: ct.CType = INT
) -> BinaryOperation:
    return BinaryOperation(ctype, None, operator, left, right)


def expr_of(value: Value) -> nodes.Expr:
    assert isinstance(value, Number)
    return value.expr


def test_operators_have_their_rules(calculator: Calculator) -> None:
    i, two = use("i"), literal(2)
    for operator, expected in (
        (Binary.ADD, ex.add(GID, ex.const(2))),
        (Binary.MULTIPLY, ex.scale(GID, 2)),
        (Binary.SHIFT_LEFT, ex.scale(GID, 4)),
        (Binary.DIVIDE, ex.div(ex.cast(nodes.INT, GID), ex.const(2))),
        (Binary.LESS, logic.less(ex.cast(nodes.INT, GID), ex.const(2))),
    ):
        assert expr_of(calculator.value(operation(operator, i, two))) is expected
    complement = UnaryOperation(INT, None, Unary.COMPLEMENT, i)
    assert expr_of(calculator.value(complement)) is ex.add(ex.const(-1), GID, -1)


def test_an_index_is_an_access(calculator: Calculator) -> None:
    target = Index(INT, 5, use("a", ct.CPointer(8, INT)), use("i"))
    calculator.value(Assign(INT, 5, target, literal(1)))
    (record,) = calculator.memory.records
    assert (record.arg, record.mode, record.line) == (0, "write", 5)
    assert record.offset is ex.scale(ex.cast(nodes.INT, GID), 4)


def test_steps_change_what_they_step(calculator: Calculator) -> None:
    assert expr_of(calculator.value(Increment(INT, None, use("j"), 1, True))) is ex.const(10)
    assert expr_of(calculator.value(Increment(INT, None, use("j"), -1, False))) is ex.const(10)
    assert expr_of(calculator.value(Increment(INT, None, use("j"), 1, False))) is ex.const(11)


def test_both_ways_of_a_conditional_join(calculator: Calculator) -> None:
    condition = operation(Binary.LESS, use("i"), literal(4))
    yes = Assign(INT, None, use("j"), literal(1))
    found = calculator.value(Conditional(INT, None, condition, yes, literal(2)))
    holds = logic.less(ex.cast(nodes.INT, GID), ex.const(4))
    assert expr_of(found) is logic.select(holds, ex.const(1), ex.const(2))
    assert expr_of(calculator.value(use("j"))) is logic.select(holds, ex.const(1), ex.const(10))


def test_the_right_side_of_and_is_evaluated_on_its_way(calculator: Calculator) -> None:
    right = Cast(BOOL, None, Index(INT, None, use("a", ct.CPointer(8, INT)), use("i")))
    calculator.value(operation(Binary.BOTH, operation(Binary.LESS, use("i"), literal(4)), right))
    (record,) = calculator.memory.records
    assert record.way.expr is logic.less(ex.cast(nodes.INT, GID), ex.const(4))
    assert record.way is not calculator.memory.state.way


def test_the_address_of_a_buffer_as_a_number_is_shown(calculator: Calculator) -> None:
    calculator.value(Cast(INT, 9, use("a", ct.CPointer(8, INT))))
    assert calculator.memory.addresses == [("the address of a buffer is converted to a number", 9)]
