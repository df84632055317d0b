"""What statements and shapes of operands make of an index: the analysis allows all that a work-item may touch.

Each row is a kernel's body, with `out` of `int` and eight of them for each work-item, and the places that its work-items
touch, by their specification: what is allowed must have them all, and keep away from the neighbours' where it is said to.
"""

from __future__ import annotations

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

NITEMS = 64


def written(body: str, before: str = "") -> AccessRange:
    """What the second half of 64 work-items writes."""
    text = f"{before}\nkernel void k(global int *out, global const int *in) {{ int i = get_global_id(0); {body} }}"
    summary = analyse_kernel(parse_program(text, ("-cl-std=CL2.0",)), "k")
    assert not summary.one_worker
    ranges = summary.evaluate(NDRange((NITEMS,), (8,), (0,)), Chunk((4,), (8,)), {}, {0: 2048 + 256, 1: 4096})
    (found,) = [access for access in ranges if access.mode == "write"]
    return found


def places(*of_an_item: int) -> Region:
    """Those of all work-items of the half, by their numbers within an item's eight."""
    runs = [
        (4 * (8 * i + k), 4 * (8 * i + k) + 4)
        for i in range(NITEMS // 2, NITEMS)
        for k in sorted(set(of_an_item))
    ]
    return Region.from_runs(runs)


#: name -> (body, places, text in front of the kernel)
ROWS: dict[str, tuple[str, tuple[int, ...], str]] = {
    "components of a comparison are -1": (
        "int4 c = (int4)(in[i]) > (int4)(7); out[8 * i + 3 + c.x + c.w] = 1;", (1, 3), "",
    ),
    "components of a comparison of floats": (
        "int2 c = (float2)(in[i]) < (float2)(7.0f); out[8 * i + 3 + c.y] = 1;", (2, 3), "",
    ),
    "each component is chosen by itself": (
        "int2 c = (int2)(in[i], in[i + 1]) != 0; int2 r = c ? (int2)(1) : (int2)(0); out[8 * i + 1 + r.x - r.y] = 1;",
        (0, 1, 2), "",
    ),
    "select by each component": (
        "int2 r = select((int2)(0), (int2)(1), (int2)(in[i], in[i + 1])); out[8 * i + 1 + r.x - r.y] = 1;", (0, 1, 2), "",
    ),
    "select on vectors looks at the most significant bit": (
        "int2 r = select((int2)(0), (int2)(5), (int2)(1)); out[8 * i + r.x] = 1;", (0,), "",
    ),
    "a bool becomes all bits of a vector": (
        "bool b = in[i]; short2 v = b; out[8 * i + 3 + v.y] = 1;", (2, 3), "",
    ),
    "a bool cast to a vector": (
        "bool b = in[i]; int4 v = (int4)b; out[8 * i + 3 + v.x] = 1;", (2, 3), "",
    ),
    "a bool's cast to a vector": (
        "char2 v = (char2)(bool)in[i]; out[8 * i + 3 + v.y] = 1;", (2, 3), "",
    ),
    "a bool in a vector literal is one": (
        "bool b = in[i]; int4 v = (int4)(b); out[8 * i + 3 + v.x] = 1;", (3, 4), "",
    ),
    "a bool in parentheses in a vector literal": (
        "int4 v = (int4) /* ( */ ((bool)in[i]); out[8 * i + 3 + v.x] = 1;", (3, 4), "",
    ),
    "bools in a vector literal are ones": (
        "bool b = in[i]; int2 v = (int2)(b, b); out[8 * i + 3 + v.y] = 1;", (3, 4), "",
    ),
    "a bool in a vector literal that a macro writes": (
        "bool b = in[i]; int4 v = VEC(b); out[8 * i + 3 + v.x] = 1;", (3, 4), "#define VEC(x) (int4)(x)",
    ),
    "a bool beside a vector's operator is one": (
        "bool b = in[i]; int2 v = (int2)(3); v += b; out[8 * i + v.y] = 1;", (3, 4), "",
    ),
    "a narrowing cast behind a shift may turn the sign": (
        "int x = 510; for (int k = 0; k < 2; ++k) { out[8 * i + (x < 0)] = x; x = (char)(x >> 1); }", (0, 1), "",
    ),
    "a narrowing cast in front of a division may turn the sign": (
        "int x = 200; for (int k = 0; k < 2; ++k) { out[8 * i + (x < 0)] = x; x = (char)x / 2; }", (0, 1), "",
    ),
    "a narrow variable that is masked": (
        "int x = 0x8000; for (int k = 0; k < 2; ++k) { out[8 * i + (x < 0)] = x; x = (short)(x & 0xffff); }", (0, 1), "",
    ),
    "a table read as a wider type": (
        "uint w = *(constant uint *)(t + 4 * (i & 1)); out[8 * i + (w >> 8)] = 1;", (0, 1),
        "constant uchar t[8] __attribute__((aligned(8))) = {0, 0, 0, 0, 0, 1, 0, 0};",
    ),
    "a table read with the other sign": (
        "char w = ((constant char *)t)[i & 1]; out[8 * i + 1 + (w < 0)] = 1;", (1, 2), "constant uchar t[2] = {1, 200};",
    ),
    "a table read across its elements": (
        "int w = *(constant int *)((constant char *)t + 1); out[8 * i + (w >> 28 & 7)] = 1;", (0,), "constant int t[2] = {3, 5};",
    ),
    "an unsigned number in a table of wider signed ones": (
        "out[8 * i + (t[i & 1] > 0)] = 1;", (1,), "constant long t[2] = {-1u, -1u};",
    ),
    "a semicolon in a character": (
        "int c; for (c = ';'; c < 61; ) ++c; out[8 * i + c - 59] = 1;", (2,), "",
    ),
    "a bracket in a string": (
        "int c = 0; for (; \"a;b(\"[c] != '('; ) ++c; out[8 * i + 7] = 1;", (7,), "",
    ),
    "a semicolon in a comment and in a statement expression": (
        "int c; for (/*;(*/ c = ({ int q = 1; q; }); ; ++c) if (c > 3) break; out[8 * i + c] = 1;", (4,), "",
    ),
    "an array in front of the first case": (
        "switch (i & 1) { int t[2] = {0, 0}; case 0: t[0] = 3; out[8 * i + t[0]] = 1; break; "
        "default: t[1] = 2; out[8 * i + t[1]] = 1; }", (), "",
    ),
    "a number in front of the first case": (
        "switch (in[i] & 1) { int t = 1; case 0: t = 3; out[8 * i + t] = 1; break; default: t = 2; out[8 * i + t] = 1; }",
        (2, 3), "",
    ),
    "a range of cases": (
        "switch (in[i]) { case 0 ... 3: out[8 * i] = 1; break; default: out[8 * i + 1] = 1; }", (0, 1), "",
    ),
    "an enumeration without negative numbers": (
        "enum E e = (enum E)(in[i] | 0x80000000); out[8 * i + (e > 5)] = 1;", (1,), "enum E { A, B };",
    ),
    "as_type of other components": (
        "short2 s = __builtin_astype((in[i] & 1) << 16, short2); out[8 * i + s.y] = 1;", (0, 1), "",
    ),
    "the upper half of three components": (
        "int3 v = (int3)(1, 2, in[i] & 1); out[8 * i + v.hi.x] = 1;", (0, 1), "",
    ),
    "components of a store that lie apart": (
        "global int4 *p = (global int4 *)(out + 8 * i); p[1].wx = (int2)(1, 2);", (4, 7), "",
    ),
    "a saturating conversion of a vector": (
        "uchar2 v = convert_uchar2_sat((int2)(in[i] & 0x3fffffff | 0x40000000)); out[8 * i + (v.y >> 7)] = 1;", (1,), "",
    ),
    "any and all": (
        "int2 v = (int2)(in[i]); out[8 * i + any(v) + 2 * all(v)] = 1;", (0, 3), "",
    ),
    "mul24 of numbers that may have more than 24 bits": (
        "out[8 * i + (mul24(0x1000001u, 3u) >> 24)] = 1;", (), "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_all_that_is_touched_is_allowed(name: str) -> None:
    body, numbers, before = ROWS[name]
    assert written(body, before).region.contains(places(*numbers))


#: Of these the analysis knows just the places, as long as nothing is taken for its neighbour.
TIGHT = {
    "components of a comparison are -1": (1, 3),
    "select on vectors looks at the most significant bit": (0,),
    "a bool becomes all bits of a vector": (2, 3),
    "a bool in a vector literal is one": (3, 4),
    "a bool cast to a vector": (2, 3),
    "a bool beside a vector's operator is one": (3, 4),
    "components of a store that lie apart": (4, 7),
}


@pytest.mark.parametrize("name", TIGHT)
def test_no_more_is_allowed(name: str) -> None:
    body, _, before = ROWS[name]
    assert places(*TIGHT[name]).contains(written(body, before).region)


def test_an_array_in_front_of_the_first_case_is_private() -> None:
    """What the cases store in it is seen: elements are not taken for the initialiser's."""
    body, _, before = ROWS["an array in front of the first case"]
    found = written(body, before).region
    touched = [(4 * (8 * i + 3 - (i & 1)), 4 * (8 * i + 3 - (i & 1)) + 4) for i in range(NITEMS // 2, NITEMS)]
    assert found.contains(Region.from_runs(touched))


def test_a_case_inside_another_statement_is_not_passed_over() -> None:
    text = "kernel void k(global int *o, int n) { switch (n) { { case 1: o[1] = 1; } break; if (0) { case 2: o[2] = 1; } } }"
    assert analyse_kernel(parse_program(text), "k").one_worker
