"""Symbolic expressions live as long as somebody needs them."""

from __future__ import annotations

from typing import Any, get_args

from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.symbolic import expression, logic, nodes, operations, sharing

from vdev.process.beside import beside
from vdev.process.finalisers import collect

LOOP = """
__kernel void scale(__global int *a, int n)
{ for (int i = get_global_id(0); i < n; i += get_global_size(0)) a[i] = 2 * a[i]; }
"""


def live() -> set[tuple[object, ...]]:
    """The keys of all nodes that there are; what earlier tests of the process have left may go at any time."""
    beside.wait()
    collect()
    return set(sharing.table)


def test_there_is_a_rule_for_each_node() -> None:
    assert set(operations.RULES) == set(get_args(nodes.Expr))


def test_equal_expressions_are_one_object() -> None:
    i, j = expression.workitem(expression.GlobalId, 0), expression.workitem(expression.GlobalId, 1)
    assert expression.add(expression.scale(i, 2), j) is expression.add(j, expression.add(i, i))
    assert expression.div(i, j) is expression.div(i, j)
    assert expression.div(i, j) is not expression.div(j, i)
    leaf = expression.counter()
    assert expression.mul(i, leaf) is not expression.mul(i, expression.counter())


def test_a_node_that_another_thread_has_made_meanwhile_is_the_one() -> None:
    """Between the question whether there is one and the answer to keep."""
    made = []

    def late(lo: int, hi: int, serial: int, depth: int, *parts: Any) -> expression.LocalId:
        made.append(expression._interned(expression.LocalId, key, lo, hi, 0, parts))
        return expression.LocalId(lo, hi, serial, depth, *parts)

    key = ("a key of this test",)
    found = expression._interned(late, key, 0, 7, 0, (2,))  # type: ignore[type-var]
    assert found is made[0]
    assert expression._interned(expression.LocalId, key, 0, 7, 0, (2,)) is found


def test_a_count_of_iterations_goes_with_what_defines_it() -> None:
    before = live()

    def define(leaf: expression.Expr) -> expression.Trips:
        rest = expression.sub(expression.argument(0, 0, expression.INT), leaf)
        return expression.Trips(logic.ge0(leaf), logic.ge0(rest), logic.equal(rest, leaf), True)

    leaf = expression.trips(define)
    assert live() - before
    del leaf
    assert not live() - before


def test_expressions_of_a_kernel_go_with_the_program() -> None:
    def analyse() -> None:
        program = parse_program(LOOP, ())
        assert analyse_kernel(program, "scale").accesses

    analyse()
    before = live()
    analyse()
    assert not live() - before


def test_conditions_that_occur_together_are_negated_once_each() -> None:
    """Its size as a tree doubles with every step."""
    conditions = [logic.is_not_zero(expression.argument(index, 0, expression.INT)) for index in range(60)]
    first, second = conditions[0], conditions[1]
    for condition in conditions[2:]:
        some, all_ = logic.either(second, condition), logic.both(second, condition)
        first, second = logic.both(first, some), logic.either(first, all_)
    negated = logic.negate(first)
    assert logic.negate(negated) is first
    assert logic.both(first, negated) is logic.FALSE
    assert logic.either(negated, first) is logic.TRUE
    assert logic.both(first, second) is not logic.FALSE


def test_a_node_that_took_the_place_of_a_dead_one_is_found() -> None:
    key = ("a key of this test",)
    first, second = expression.counter(), expression.counter()
    gone = sharing.table[key] = sharing.Held(first, lambda gone: None)  # which is about to be told of its end
    gone.key = key
    del first
    assert sharing.hold(key, second) is second
    sharing._forget(gone)
    assert sharing.table[key]() is second
    sharing._forget(sharing.table[key])
    assert key not in sharing.table


def test_bounds_of_a_product_beyond_all_numbers_stay_in_order() -> None:
    large = expression.unknown(1 << 60, 1 << 61)
    product = expression.mul(expression.mul(large, expression.unknown(1 << 60, 1 << 61)), large)
    assert (product.lo, product.hi) == (expression.INFINITE, expression.INFINITE)
    negative = expression.mul(product, expression.unknown(-5, -4))
    assert (negative.lo, negative.hi) == (-expression.INFINITE, -expression.INFINITE)
