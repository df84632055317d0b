"""Numbers put together from bits of others: the bytes that a kernel is taken to access are those that it accesses."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import Chunk, NDRange

from .test_access_forms import summary

WHOLE, WIDTH, PLANE = 1 << 32, 64, NDRange((64, 32), (8, 4), (0, 0))
CHUNKS = (
    Chunk((0, 0), (8, 8)),
    Chunk((0, 0), (8, 4)),
    Chunk((0, 4), (8, 8)),
    Chunk((2, 1), (5, 7)),
    Chunk((3, 0), (4, 1)),
)
NBYTES = 1 << 24

#: a text in C and what it is, of numbers of 32 bits
Term = tuple[str, Callable[[int, int, int], int]]

X: Term = "x", lambda x, y, n: x
Y: Term = "y", lambda x, y, n: y
N: Term = "n", lambda x, y, n: n


def number(value: int) -> Term:
    return f"{value}u", lambda x, y, n: value


def joined(operator: str, a: Term, b: Term) -> Term:
    apply: Callable[[int, int], int] = {
        "&": lambda p, q: p & q,
        "|": lambda p, q: p | q,
        "^": lambda p, q: p ^ q,
        "+": lambda p, q: (p + q) % WHOLE,
        "<<": lambda p, q: (p << (q & 31)) % WHOLE,
        ">>": lambda p, q: p >> (q & 31),
    }[operator]
    return f"({a[0]} {operator} {b[0]})", lambda x, y, n: apply(a[1](x, y, n), b[1](x, y, n))


def some_term(rng: random.Random, depth: int) -> Term:
    """At random: masks, bits moved and put together, now and then ones that meet, so that nobody knows what comes of them."""
    if depth == 0:
        return rng.choice((X, X, Y, Y, N, number(rng.choice((1, 5, 21, 64, rng.randrange(1 << 12))))))
    below = some_term(rng, depth - 1)
    match rng.randrange(6):
        case 0:
            return joined(
                "&", below, number(rng.choice((0x55555555, 0x33, 0xF0F, 0xFF0, 7, rng.randrange(1 << 12))))
            )
        case 1:
            return joined("<<", below, number(rng.choice((0, 1, 2, 3, 4, 27))))
        case 2:
            return joined(">>", below, rng.choice((number(rng.choice((0, 1, 2, 3, 4, 25))), N)))
        case 3:
            return joined("^", below, number(rng.choice((1, 5, 63, rng.randrange(1 << 9)))))
        case _:
            return joined(rng.choice("||^+&"), below, some_term(rng, depth - 1))


def accessed(term: Term, chunk: Chunk, n: int) -> set[int]:
    """The elements of a chunk of `PLANE`."""
    (x0, y0), (x1, y1) = chunk.start, chunk.stop
    return {term[1](x, y, n) & 0xFFFFF for y in range(4 * y0, 4 * y1) for x in range(8 * x0, 8 * x1)}


def compared(term: Term, n: int = 3) -> list[bool]:
    """Whether each chunk is exact; what it is taken to access is compared with what it accesses."""
    text = (
        "kernel void k(global char *a, uint n)"
        f" {{ uint x = get_global_id(0), y = get_global_id(1); a[{term[0]} & 0xfffff] = 1; }}"
    )
    found, exact = summary(text), []
    for chunk in CHUNKS:
        (item,) = found.evaluate(PLANE, chunk, {1: n}, {0: NBYTES})
        wanted = accessed(term, chunk, n)
        runs = item.region.runs
        places = np.array(sorted(wanted))
        at = np.searchsorted(runs[:, 0], places, side="right") - 1
        missing = places[(at < 0) | (places >= runs[at, 1])]
        assert not len(missing), f"{text}: {missing[:4]} of {chunk}"
        assert not item.exact or item.region.nbytes == len(wanted), f"{text}: more than {chunk} accesses"
        exact.append(item.exact)
    return exact


@pytest.mark.parametrize("seed", range(12))
def test_random_bits(seed: int) -> None:
    rng = random.Random(seed)
    exact = [compared(some_term(rng, rng.randint(1, 5)), rng.choice((0, 1, 3, 12, 40))) for _ in range(30)]
    assert sum(map(sum, exact)) > len(exact), "those of which each bit is known"


def spread(a: Term) -> Term:
    for by, mask in ((4, 0x0F0F), (2, 0x3333), (1, 0x5555)):
        a = joined("&", joined("|", a, joined("<<", a, number(by))), number(mask))
    return a


def gathered(a: Term) -> Term:
    a = joined("&", a, number(0x5555))
    for by, mask in ((1, 0x3333), (2, 0x0F0F), (4, 0x00FF)):
        a = joined("&", joined("^", a, joined(">>", a, number(by))), number(mask))
    return a


def turned(a: Term) -> Term:
    for by, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        low = joined("<<", joined("&", a, number(mask)), number(by))
        a = joined("|", low, joined("&", joined(">>", a, number(by)), number(mask)))
    return joined(">>", joined("|", joined("<<", a, number(16)), joined(">>", a, number(16))), number(26))


NUMBER = joined("|", joined("<<", Y, number(6)), X)
FORMS: dict[str, Term] = {
    "a curve": joined("|", spread(X), joined("<<", spread(Y), number(1))),
    "a curve's places": joined(
        "+", joined("<<", gathered(joined(">>", NUMBER, number(1))), number(6)), gathered(NUMBER)
    ),
    "bits in reversed order": joined("+", joined("<<", Y, number(6)), turned(X)),
    "bits that are lost": joined(">>", joined("<<", NUMBER, number(25)), number(25)),
    "a partner": joined("^", NUMBER, number(0b10110)),
    "two digits that change places": joined(
        "|",
        joined("&", NUMBER, number(~0x33 & 0x7FF)),
        joined(
            "|",
            joined("<<", joined("&", NUMBER, number(3)), number(4)),
            joined("&", joined(">>", NUMBER, number(4)), number(3)),
        ),
    ),
    "a bit left out": joined(
        "|",
        joined("<<", joined(">>", NUMBER, N), joined("+", N, number(1))),
        joined("&", NUMBER, number((1 << 3) - 1)),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_of_which_each_bit_is_known(name: str) -> None:
    assert all(compared(FORMS[name])), "exact"


def test_a_number_that_may_be_negative() -> None:
    text = (
        "kernel void k(global char *a) { int x = (int)get_global_id(0) - 8; a[((x >> 1) ^ 5) & 0x55] = 1; }"
    )
    (item,) = summary(text).evaluate(NDRange((64,), (8,), (0,)), Chunk((0,), (4,)), {}, {0: 4096})
    wanted = {((x >> 1) ^ 5) & 0x55 for x in range(-8, 24)}
    assert wanted <= {byte for low, high in item.region.runs.tolist() for byte in range(low, high)}


def test_quotients_by_numbers_that_do_not_divide_one_another() -> None:
    text = "kernel void k(global char *a) { int i = get_global_id(0); a[i / 4 + 64 * (i / 6) + 4096 * (i / 12)] = 1; }"
    for start, stop in ((0, 8), (2, 5), (7, 8)):
        (item,) = summary(text).evaluate(
            NDRange((64,), (8,), (0,)), Chunk((start,), (stop,)), {}, {0: NBYTES}
        )
        wanted = {i // 4 + 64 * (i // 6) + 4096 * (i // 12) for i in range(8 * start, 8 * stop)}
        assert wanted <= {byte for low, high in item.region.runs.tolist() for byte in range(low, high)}


@pytest.mark.parametrize(("start", "stop"), [(16, 2064), (1, 4095), (1234, 3001)])
def test_a_number_that_is_cut_at_both_ends(start: int, stop: int) -> None:
    """The digit that decides most is cut first: some boxes, and not as many as the others have values."""
    text = """
    kernel void k(global char *a) {
        uint r = get_global_id(0);
        r = (r >> 1 & 0x5555) | (r & 0x5555) << 1; r = (r >> 2 & 0x3333) | (r & 0x3333) << 2;
        r = (r >> 4 & 0x0f0f) | (r & 0x0f0f) << 4; r = (r >> 8 & 0x00ff) | (r & 0x00ff) << 8;
        a[r] = 1;
    }"""
    (item,) = summary(text).evaluate(
        NDRange((1 << 16,), (16,), (0,)), Chunk((start,), (stop,)), {}, {0: NBYTES}
    )
    wanted = {int(f"{i:016b}"[::-1], 2) for i in range(16 * start, 16 * stop)}
    assert wanted == {byte for low, high in item.region.runs.tolist() for byte in range(low, high)}
    assert item.exact


def test_more_digits_that_are_cut_at_both_ends() -> None:
    """As many bytes as work-items: each has its own."""
    text = """
    kernel void k(global char *a) {
        uint r = get_global_id(0);
        r = (r >> 1 & 0x55555555) | (r & 0x55555555) << 1; r = (r >> 2 & 0x33333333) | (r & 0x33333333) << 2;
        r = (r >> 4 & 0x0f0f0f0f) | (r & 0x0f0f0f0f) << 4; r = (r >> 8 & 0x00ff00ff) | (r & 0x00ff00ff) << 8;
        a[(r >> 16 | r << 16) >> 10] = 1;
    }"""
    found, chunk = summary(text), Chunk((123456 // 16,), (3000000 // 16,))
    (item,) = found.evaluate(NDRange((1 << 22,), (16,), (0,)), chunk, {}, {0: NBYTES})
    assert item.exact
    assert item.region.nbytes == 16 * chunk.ngroups
