"""What the check of launches compares with: layouts of elements, masks, rounding, exchanged memory."""

from __future__ import annotations

import numpy as np
import pytest
from vdev.translators.frontend.layout import element_types
from vdev.translators.frontend.source import parse_program
from vdev.translators.ranges.region import Region

from vdev.check.differences import (
    Bytes,
    close_elements,
    data_mask,
    element_type,
    exchanged,
    filled,
    mask_of,
    place_of,
    show_element,
    whole_scalars,
)
from vdev.check.records import Records, records_at

SOURCE = """
typedef float real;
typedef struct { char c; float3 p; union { int i; float f; }; struct { short s; double d[2]; } in; } body_t;
typedef struct { body_t bodies[200]; } all_t;
__kernel void k(__global real *a, __global float4 *b, __global float3 *c, __global body_t *d, int n,
                __local int *l, volatile __global uint *q, __constant double *z, __global all_t *w, image2d_t m,
                __global const int (*t)[4]) {}
"""


def test_layouts_are_clangs() -> None:
    found = element_types(parse_program(SOURCE), "k")

    assert {index: str(kind) for index, kind in found.items() if kind.kind != "V"} == {
        0: "float32",
        1: "float32",
        5: "int32",
        6: "uint32",
        7: "float64",
        10: "int32",
    }
    assert set(found) == {0, 1, 2, 3, 5, 6, 7, 10}, "an element of very many scalars has no layout"
    body = found[3]
    assert body.fields is not None
    assert {name: (str(kind), byte) for name, (kind, byte, *_) in body.fields.items()} == {
        "c": ("int8", 0),
        "p.x": ("float32", 16),
        "p.y": ("float32", 20),
        "p.z": ("float32", 24),
        "i": ("int32", 32),
        "f": ("float32", 32),
        "in.s": ("int16", 40),
        "in.d[0]": ("float64", 48),
        "in.d[1]": ("float64", 56),
    }
    assert body.itemsize == 64


def test_padding_is_no_data() -> None:
    pair = np.dtype({"names": ["a", "b"], "formats": ["u1", "u2"], "offsets": [0, 2], "itemsize": 6})

    assert np.flatnonzero(~data_mask(14, pair)).tolist() == [1, 4, 5, 7, 10, 11, 13]
    assert data_mask(7, np.dtype("f4")).all()


def test_places_have_names() -> None:
    pair = np.dtype({"names": ["a", "b.x"], "formats": ["u1", "f4"], "offsets": [0, 4], "itemsize": 8})

    assert (place_of(13, pair).start, place_of(13, pair).stop, place_of(13, pair).name) == (
        12,
        16,
        "element 1, b.x",
    )
    assert place_of(9, pair).name == "byte 1 of element 1"
    assert place_of(9, np.dtype("u4")).name == "element 2 of uint32"
    assert place_of(9, np.dtype("V5")).stop == 10


@pytest.mark.parametrize(
    ("one", "other", "close"),
    [
        (1.0, 1.0 + 1e-6, True),
        (1.0, 1.001, False),
        (float("nan"), float("nan"), True),
        (float("inf"), float("inf"), True),
        (float("inf"), 1.0, False),
        (1e-9, 2e-9, True),  # beside 1000, which stands in the same buffer
        (0.5, -0.5, False),
    ],
)
def test_rounding_is_told_from_difference(one: float, other: float, close: bool) -> None:
    found = close_elements(
        np.array([1000, one], np.float32).view(np.uint8), np.array([1000, other], np.float32).view(np.uint8),
        np.dtype("f4"),
    )  # fmt: skip

    assert found.tolist() == [True] * 4 + [close] * 4


def test_only_floats_of_a_structure_may_be_rounded() -> None:
    kind = np.dtype({"names": ["n", "x"], "formats": ["i4", "f4"], "offsets": [0, 4], "itemsize": 8})
    one, other = (np.array([(7, x)], kind).view(np.uint8) for x in (1.0, 1.000001))

    assert close_elements(one, other, kind).tolist() == [False] * 4 + [True] * 4


def test_a_byte_stands_for_its_scalar() -> None:
    pair = np.dtype({"names": ["a", "b"], "formats": ["u1", "u2"], "offsets": [0, 2], "itemsize": 4})
    mask = np.zeros(8, bool)
    mask[[0, 7]] = True

    assert np.flatnonzero(whole_scalars(mask, pair)).tolist() == [0, 6, 7]
    assert np.flatnonzero(whole_scalars(mask, np.dtype("f4"))).tolist() == list(range(8))


def test_exchanged_memory_keeps_the_kept_part_and_contains_only_old_values() -> None:
    content = np.arange(64, dtype=np.int32).view(np.uint8)
    kept = Region.from_runs([(0, 16), (100, 140)])

    found = exchanged(content, kept, np.dtype("i4"))

    mask = mask_of(kept, len(content))
    assert (found[mask] == content[mask]).all()
    words = found.view(np.int32)
    others = ~mask.reshape(-1, 4).any(axis=1)
    assert set(words.tolist()) <= set(range(64)), "what serves as an index stays one"
    assert (words[others] != np.arange(64)[others]).mean() > 0.95
    assert exchanged(content, Region.span(0, 256), np.dtype("i4")) is content


def test_filling_and_showing() -> None:
    content = np.zeros(16, np.uint8)

    assert filled(content, Region.span(4, 12), np.dtype("f4")).view(np.float32).tolist() == [0, 1, 1, 0]
    assert filled(content, Region.span(1, 3), np.dtype("V8")).tolist()[:4] == [0, 1, 1, 0]
    assert show_element(np.array([1.5], np.float32).view(np.uint8), np.dtype("f4")) == "1.5"
    assert show_element(content[:2], np.dtype("V1")) == "0x0000"
    assert element_type("body_t*", 12).itemsize == 12


RECORD = np.dtype({"names": ["x", "from"], "formats": ["f4", "i4"], "offsets": [0, 8], "itemsize": 12})


def _records(*pairs: tuple[float, int], beside: int = 0) -> Bytes:
    """Records of a float, four bytes of padding that hold `beside`, and an int, behind four bytes of something else."""
    content = np.full(4 + 12 * len(pairs), beside, np.uint8)
    found = content[4:].view(RECORD)
    found["x"], found["from"] = zip(*pairs, strict=True)
    return content


def _all_of(content: Bytes) -> Records:
    data = np.concatenate([np.ones(4, bool), data_mask(len(content) - 4, RECORD)])
    return records_at(np.ones(len(content), bool), 4, len(content) - 4, 12, data, RECORD)


def test_records_are_a_set_in_which_each_counts_as_often_as_it_is_there() -> None:
    one = _records((1.0, 5), (2.0, 6), (3.0, 7))
    records = _all_of(one)

    assert records.same(one, _records((3.0, 7), (1.0, 5), (2.0, 6), beside=9)), "padding is nobody's"
    assert not records.same(one, _records((3.0, 7), (1.0, 5), (1.0, 5))), "one twice and one not at all"
    assert not records.same(one, _records((1.0, 6), (2.0, 5), (3.0, 7))), "members belong together"
    assert records.mask().tolist() == [False] * 4 + [True] * 36


def test_records_of_which_no_byte_differs_are_left_out() -> None:
    one, other = _records((1.0, 5), (2.0, 6), (3.0, 7)), _records((1.0, 5), (3.0, 7), (2.0, 6))
    every = _all_of(one)
    records = records_at(one != other, 4, 36, 12, every.data, RECORD)

    assert records.chosen.tolist() == [False, True, True]
    assert records.same(one, other)
    assert records.surplus(_records((1.0, 5), (3.0, 7), (3.0, 7)), one) == 4 + 2 * 12


def test_records_in_another_order_may_be_rounded() -> None:
    one = _records((1.0, 5), (2.0, 6), (3.0, 7))
    records = _all_of(one)

    assert records.close(one, _records((3.0 + 1e-6, 7), (1.0, 5), (2.0, 6)))
    assert not records.close(one, _records((3.1, 7), (1.0, 5), (2.0, 6)))
    assert not records.close(one, _records((3.0, 8), (1.0, 5), (2.0, 6))), "an int is not rounded"
