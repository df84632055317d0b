"""Digits of numbers: what is divided several times is as exact as what is divided once, however many digits there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region


def reads(body: str, items: int, parts: int, *numbers: int) -> Iterator[tuple[range, Region, bool]]:
    """The work-items of each of some chunks, the bytes of `a` that they read, and whether these are exact."""
    text = f"kernel void k(global int *o, global const int *a, int n, int m) {{ uint i = get_global_id(0); {body} }}"
    summary, ndrange = analyse_kernel(parse_program(text), "k"), NDRange((items,), (8,), (0,))
    ranges = summary.of_launch(ndrange, dict(enumerate(numbers, 2)), {0: 4 * items, 1: 1 << 20})
    groups = items // 8
    for part in range(parts):
        start, stop = part * groups // parts, (part + 1) * groups // parts
        (found,) = (each for each in ranges.of(Chunk((start,), (stop,))) if each.arg == 1)
        yield range(8 * start, 8 * stop), found.region, found.exact


def check(
    body: str, items: int, numbers: tuple[int, ...], read: Callable[[int], int], all_of: tuple[int, ...]
) -> None:
    """All chunks together; `all_of`: of so many, each is to be exact."""
    for parts in (1, 2, 3, 4, 7):
        for chunk, region, exact in reads(body, items, parts, *numbers):
            wanted = Region.spans((4 * read(item), 4 * read(item) + 4) for item in chunk)
            assert not wanted - region
            assert region == wanted or not exact
            assert exact or parts not in all_of


@pytest.mark.parametrize(("n", "m"), [(4, 8), (5, 6), (16, 2)])
@pytest.mark.parametrize("order", ["x, y, z", "z, y, x", "y, z, x"])
def test_digits_of_a_mixed_radix(n: int, m: int, order: str) -> None:
    texts = {"x": "i % n", "y": "i / n % m", "z": "i / (n * m)"}
    body = "".join(f"int {name} = {texts[name]}; " for name in order.split(", "))
    check(
        body + "o[i] = a[(x * m + y) * 7 + z];",
        224,
        (n, m),
        lambda i: (i % n * m + i // n % m) * 7 + i // (n * m),
        (1, 2, 3, 4, 7),
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("(i + 3) / 4", "(i + 7) / 8"),
        ("i / 4", "(i + 8 * (i / 16)) / 8"),
        ("l / 4", "(l + 12 * g) / 8"),
        ("(l + 1) / 2", "(l + 6 * g + 3) / 4"),
    ],
)
def test_a_quotient_of_what_has_more_parts_than_one_that_is_known(first: str, second: str) -> None:
    """The other parts are divided as well."""

    def read(item: int) -> int:
        values = {"i": item, "l": item % 8, "g": item // 8}
        one, other = (eval(text.replace("/", "//"), values) for text in (first, second))
        return one + 100 * other

    body = f"uint l = get_local_id(0), g = get_group_id(0); int x = {first}, y = {second}; o[i] = a[x + 100 * y];"
    check(body, 224, (0, 0), read, (1, 2, 7))


def turned_round(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2)


@pytest.mark.parametrize("bits", [6, 9, 12])
@pytest.mark.parametrize("width", [16, 10])
def test_rows_by_the_bits_of_a_number_turned_round(bits: int, width: int) -> None:
    """Each bit is a variable of its own, of which some are one number again."""
    text = " | ".join(f"(i >> {bit} & 1u) << {bits - 1 - bit}" for bit in range(bits))

    def read(item: int) -> int:
        row, column = divmod(turned_round(item, bits), width)
        return row * (width + 5) + column

    check(
        f"int r = {text}; o[i] = a[r / n * (n + 5) + r % n];",
        1 << bits,
        (width,),
        read,
        (1, 2, 4) if bits > 9 else (1, 2, 3, 4, 7),
    )


def test_a_remainder_that_takes_turns_with_another() -> None:
    """Two variables are each other's remainders: either may stand for the other, for ever."""
    text = "kernel void k(global int *o, int n) { for (int k = get_global_id(0); k < n; k += get_global_size(0)) o[k % 40] = 1; }"
    summary = analyse_kernel(parse_program(text), "k")
    ranges = summary.of_launch(NDRange((64,), (4,), (0,)), {1: 500}, {0: 4096})
    (found,) = ranges.of(Chunk((0,), (16,)))
    assert found.region == Region.span(0, 160)
    assert found.exact


def test_even_places_from_behind() -> None:
    """Where the quotient says a bound of the number, it stands for it, though nothing else ties them."""
    text = (
        "kernel void k(global int *o, int n) { int i = get_global_id(0); if (i % 2 == 0) o[n - 1 - i] = i; }"
    )
    ndrange = NDRange((4096,), (64,), (0,))
    ranges = analyse_kernel(parse_program(text), "k").of_launch(ndrange, {1: 4096}, {0: 1 << 20})
    (found,) = ranges.of(Chunk((0,), (32,)))
    assert found.exact
    assert found.region == Region.boxes(4 * 2049, 4, ((8, 1024),))
