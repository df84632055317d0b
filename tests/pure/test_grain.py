"""Where stores begin and end: no store cuts a unit, and units are as large as that allows."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from vdev.translators.ranges.grain import BYTES, MAX_PERIOD, NOTHING, Grain, joined, of_store, of_unit
from vdev.translators.symbolic import expression as ex
from vdev.translators.symbolic import nodes

stores = st.lists(
    st.tuples(st.integers(1, 16), st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=4
)


def cuts_between(grain: Grain, start: int, stop: int) -> set[int]:
    return {at for at in range(start, stop) if at % grain.period in grain.cuts}


@given(stores)
def test_units_are_the_largest_that_no_store_cuts(found: list[tuple[int, int, int]]) -> None:
    grain = joined(of_store(*store) for store in found)
    edges = {
        edge
        for modulus, residue, nbytes in found
        for start in range(residue % modulus - 20 * modulus, 400, modulus)
        for edge in (start, start + nbytes)
    }
    if grain != BYTES:  # which stands for what repeats too late as well
        assert cuts_between(grain, 0, 200) == {edge for edge in edges if 0 <= edge < 200}
    else:
        assert cuts_between(grain, 0, 200) >= {edge for edge in edges if 0 <= edge < 200}


@given(stores, st.integers(-50, 50), st.integers(0, 60), st.integers(0, 60))
def test_shifts_floors_and_units_are_those_of_the_cuts(
    found: list[tuple[int, int, int]], offset: int, start: int, length: int
) -> None:
    grain = joined(of_store(*store) for store in found)
    moved = grain.shift(offset)
    assert cuts_between(moved, 500, 600) == {
        at + offset for at in cuts_between(grain, 500 - offset, 600 - offset)
    }
    assert moved.shift(-offset) == grain, "equal patterns are equal"
    assert grain.floor(start + 500) == max(
        at for at in range(start - 4000, start + 501) if cuts_between(grain, at, at + 1)
    )
    units = list(grain.units(start, start + length))
    edges = [start, *sorted(cuts_between(grain, start + 1, start + length)), start + length]
    assert units == (list(pairwise(edges)) if length else [])


def test_a_pattern_that_repeats_too_late_is_cut_everywhere() -> None:
    assert of_store(4093, 0, 8) | of_store(4091, 0, 8) == BYTES
    assert of_store(3 * MAX_PERIOD, 8, 4).period <= MAX_PERIOD
    assert NOTHING | of_unit(4) == of_unit(4) == of_unit(4) | NOTHING
    assert of_store(0, 100, 12).units(96, 120) is not None
    assert (100, 112) in list(of_store(0, 100, 12).units(96, 120))
    assert of_unit(8).unit == 8
    assert of_unit(12).unit is None


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 3)), max_size=4), st.integers(-99, 99), st.data()
)
def test_congruences_hold_whatever_the_leaves_are(
    terms: list[tuple[int, int]], constant: int, data: st.DataObject
) -> None:
    x, y = ex.argument(0, 0, nodes.INT), ex.argument(1, 0, nodes.INT)
    byte = ex.cast(nodes.IntType(8, False), ex.add(ex.scale(x, 12), ex.const(300)))
    forms = [x, ex.mul(x, y), byte, ex.minimum(ex.scale(x, 6), ex.add(ex.scale(y, 9), ex.const(3)))]
    expr = ex.const(constant)
    for factor, which in terms:
        expr = ex.add(expr, forms[which], factor)
    modulus, residue = ex.congruence(expr)
    a, b = data.draw(st.integers(-50, 50)), data.draw(st.integers(-50, 50))
    values = [a, a * b, (12 * a + 300) % 256, min(6 * a, 9 * b + 3)]
    value = constant + sum(factor * values[which] for factor, which in terms)
    assert value == residue if modulus == 0 else value % modulus == residue
