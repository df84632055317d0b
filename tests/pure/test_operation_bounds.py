"""What an operator gives is within the bounds that analysis takes it to have, also of negative numbers: every element that a
kernel writes at a computed place is in the region that it is taken to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from .test_access_forms import LINE, SECOND_QUARTER, summary

OFFSET, NBYTES = 1_000_000, 2_000_000


def quotient(a: int, b: int) -> int:
    """C99 6.5.5p6: towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


#: by operator, its value in C
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "/": quotient,
    "%": lambda a, b: a - quotient(a, b) * b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    ">>": lambda a, b: a >> b,
    "<<": lambda a, b: a * 2**b,
}
#: by what a kernel makes `v`, its values in the work-items that are looked at
NUMBERS: dict[str, Iterable[int]] = {
    "b[i]": range(-128, 128),
    "b[i] - 128": range(-256, 0),
    "b[i] & 15": range(16),
    "i - 24": range(-8, 8),
    "i - 40": range(-24, -8),
    "5 * (i - 24)": range(-40, 40, 5),
    "-i": range(-31, -15),
    "-700 - i": range(-731, -715),
}
CONSTANTS = (1, 2, 3, 7, 10, 16, 64, 100, 200, 1000, -1, -3, -7, -16, -100)


def missing(expression: str, values: Iterable[int], before: str = "") -> list[int]:
    """Of the values that `expression` may have, those at which a kernel is not taken to write."""
    text = (
        "kernel void k(global char *a, global const char *b, global const char *c) {"
        f" int i = get_global_id(0); {before} a[{OFFSET} + ({expression})] = 1; }}"
    )
    found = summary(text).evaluate(LINE, SECOND_QUARTER, {}, {0: NBYTES, 1: 4096, 2: 4096})
    (region,) = [item.region for item in found if item.arg == 0 and item.mode == "write"]
    runs, wanted = region.runs, np.array(sorted(set(values)))
    at = np.searchsorted(runs[:, 0], OFFSET + wanted, side="right") - 1
    return wanted[(at < 0) | (OFFSET + wanted >= runs[at, 1])].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_and_a_number(operator: str, number: str) -> None:
    for constant in CONSTANTS:
        if operator in (">>", "<<") and not 0 <= constant < 6:
            continue
        values = {OPERATORS[operator](v, constant) for v in NUMBERS[number]}
        wrong = missing(f"v {operator} ({constant})", values, f"int v = {number};")
        assert not wrong, (constant, wrong)


@pytest.mark.parametrize("operator", [each for each in OPERATORS if each not in (">>", "<<")])
@pytest.mark.parametrize(
    ("number", "other"),
    [
        ("b[i]", "c[i]"),
        ("b[i]", "c[i] | 1"),
        ("i - 24", "c[i]"),
        ("b[i]", "i - 40"),
        ("b[i] - 128", "c[i] & 15"),
    ],
)
def test_an_operator_of_two_numbers(operator: str, number: str, other: str) -> None:
    values = {
        "c[i]": range(-128, 128),
        "c[i] | 1": range(-127, 128, 2),
        "c[i] & 15": range(16),
        "i - 40": range(-24, -8),
    }
    results = {
        OPERATORS[operator](v, w) for v in NUMBERS[number] for w in values[other] if w or operator not in "/%"
    }
    wrong = missing(f"v {operator} w", results, f"int v = {number}, w = {other};")
    assert not wrong


@pytest.mark.parametrize("number", NUMBERS)
def test_quotients_of_quotients_and_their_rests(number: str) -> None:
    for first, second in ((3, 5), (-7, 2), (16, -3)):
        values = {quotient(quotient(v, first), second) for v in NUMBERS[number]}
        assert not missing(f"v / ({first}) / ({second})", values, f"int v = {number};")
        values = {
            quotient(v, first) * 10 + (v - quotient(v, first) * first) % abs(second) for v in NUMBERS[number]
        }
        text = f"v / ({first}) * 10 + ((v % ({first})) % {abs(second)} + {abs(second)}) % {abs(second)}"
        assert not missing(text, values, f"int v = {number};")
