"""The conditions of accesses in long chains of `&&` and `||`: each is looked at once, and what comes of it is what came of all of
them together.
"""

from __future__ import annotations

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges.ndrange import NDRange, whole_chunk
from vdev.translators.symbolic.evaluation import Scope

NDRANGE = NDRange((1 << 12,), (64,), (0,))
ELEMENTS = 1 << 12

#: of operand j, with its condition: `x > j` decides, `a[…] > 0` is known to nobody
OPERANDS = {
    "loaded": "a[i + {j}] != {j}",
    "cut": "i + {j} < n && a[i + {j}] > {j}",
    "cases": "i != {j} * 7 && a[i] > {j}",
    "many cases": "(i % 64 > {j} || i / 64 > {j}) && a[i] > {j}",
}


def ranges_of(operand: str, joined: str, count: int) -> tuple[int, list[tuple[str, bool, int, int]]]:
    """How many conditions were assumed, and what is touched."""
    condition = joined.join(f"({OPERANDS[operand].format(j=j)})" for j in range(count))
    source = f"kernel void k(global int *a, int n) {{ int i = get_global_id(0); if ({condition}) a[i] = 1; }}"
    summary = analyse_kernel(parse_program(source), "k")
    assumed, assume = 0, Scope.assume

    def counted(scope: Scope, condition: object) -> None:
        nonlocal assumed
        assumed += 1
        assume(scope, condition)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scope, "assume", counted)
        found = summary.of_launch(NDRANGE, {1: ELEMENTS - 3}, {0: 4 * ELEMENTS}).of(whole_chunk(NDRANGE))
    return assumed, [(item.mode, item.exact, item.region.start, item.region.stop) for item in found]


@pytest.mark.parametrize("joined", [" && ", " || "])
@pytest.mark.parametrize("operand", OPERANDS)
def test_twice_as_many_conditions_take_twice_as_long(operand: str, joined: str) -> None:
    few, _ = ranges_of(operand, joined, 90)
    many, _ = ranges_of(operand, joined, 180)
    assert many <= 3 * few


@pytest.mark.parametrize("joined", [" && ", " || "])
@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_operands_read_what_they_may_come_to(joined: str, count: int) -> None:
    _, found = ranges_of("loaded", joined, count)
    end = 4 * min(ELEMENTS + count - 1, ELEMENTS)
    assert ("read", True, 0, end) in found
    _, found = ranges_of("cut", joined, count)
    assert ("read", True, 0, 4 * (ELEMENTS - 3)) in found


def test_a_condition_holds_for_all_operands_behind_it() -> None:
    source = """kernel void k(global int *a, global int *b, int n) {
        int i = get_global_id(0);
        if (i >= 16 && a[i] > 0 && i < n && b[i] > 0 && i != 40 && b[i + 100] > 0) a[i] = 1;
    }"""
    summary = analyse_kernel(parse_program(source), "k")
    sizes = {0: 4 * ELEMENTS, 1: 8 * ELEMENTS}
    found = {
        (item.mode, item.arg): item.region
        for item in summary.of_launch(NDRANGE, {2: 50}, sizes).of(whole_chunk(NDRANGE))
    }
    assert found["read", 0].runs.tolist() == [[64, 4 * ELEMENTS]]
    assert found["read", 1].runs.tolist() == [[64, 200], [464, 560], [564, 600]]
    assert (found["write", 0].start, found["write", 0].stop) == (64, 200)
