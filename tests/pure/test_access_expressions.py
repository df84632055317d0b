"""What analysis makes of expressions: statements within them, what may be left out, parts that many others share."""

from __future__ import annotations

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges.region import Region

from .test_access_forms import LINE, SECOND_QUARTER, check, ranges, summary


def test_statements_within_an_expression() -> None:
    """clang folds them to their value, whatever else they do."""
    swap = "#define SWAP(x, y) ({ int t_ = x; x = y; y = t_; t_; })"
    found = ranges(
        "int i = get_global_id(0), j = i + 4; a[j] = ({ b[i + 1] = 2; 3; }); int k = SWAP(i, j); a[j] = k;",
        before=swap,
    )
    check(found[0, "write"], (64, 144))
    check(found[1, "write"], (68, 132))


def test_statements_within_an_expression_that_may_be_left_out() -> None:
    found = ranges("int i = get_global_id(0); a[i] = b[i] > 0 ? ({ b[i + 32] = 2; 3; }) : 4;")
    check(found[0, "write"], (64, 128))
    check(found[1, "write"], (192, 256), exact=False)


@pytest.mark.parametrize(
    "body", ["a[0] = ({ if (b[0] > 1) return; 3; });", "for (;;) a[0] = ({ if (b[0] > 1) break; 3; });"]
)
def test_a_jump_out_of_an_expression_is_not_followed(body: str) -> None:
    found = summary(
        "kernel void k(global float *a, global float *b) { " + body + " a[get_global_id(0)] = 1; }"
    )
    assert "jump out of an expression" in found.one_worker[0].text


def test_a_conditional_without_its_middle() -> None:
    found = ranges("int i = get_global_id(0); a[i] = (int)b[i] ?: ({ b[i + 32] = 2; 3; });")
    check(found[0, "write"], (64, 128))
    check(found[1, "read"], (64, 128), exact=False)
    check(found[1, "write"], (192, 256), exact=False)


def test_the_operand_of_sizeof_is_not_evaluated() -> None:
    found = ranges("int i = get_global_id(0); a[i] = sizeof(b[i]++);")
    assert set(found) == {(0, "write")}


@pytest.mark.parametrize(
    "statement",
    [
        "__atomic_fetch_add(b + get_global_id(0), 1, 5);",
        "__sync_fetch_and_add(b, 1);",
        "struct { global int *p; } s = { b }; vendor(&s);",
    ],
)
def test_what_is_not_known_may_be_atomic(statement: str) -> None:
    """Changes of several workers could not be brought together: the planner keeps such launches on one."""
    text = f"void vendor(void *p); kernel void k(global int *a, global int *b) {{ {statement} a[get_global_id(0)] = 1; }}"
    found = summary(text).evaluate(LINE, SECOND_QUARTER, {}, {0: 4096, 1: 4096})
    modes = {item.arg: (item.mode, item.op) for item in found}
    assert modes == {0: ("write", None), 1: ("atomic", None)}
    assert next(item for item in found if item.arg == 1).region == Region.span(0, 4096)


def test_asking_where_a_pointer_leads_touches_nothing() -> None:
    text = (
        "kernel void k(global int *a, global int *b) { a[get_global_id(0)] = get_fence((generic int *)b); }"
    )
    (found,) = analyse_kernel(parse_program(text, ("-cl-std=CL2.0",)), "k").accesses
    assert (found.arg, found.mode) == (0, "write")


@pytest.mark.parametrize(("space", "writes"), [("global", True), ("local", False), ("private", False)])
def test_a_pointer_made_one_of_its_address_space(space: str, writes: bool) -> None:
    text = (
        "kernel void k(global int *a, global int *b) { int *p = a + get_global_id(0);"
        f" {space} int *q = to_{space}(p); if (q) *q = b[get_global_id(0)]; }}"
    )
    found = analyse_kernel(parse_program(text, ("-cl-std=CL2.0",)), "k").evaluate(
        LINE, SECOND_QUARTER, {}, {0: 4096, 1: 4096}
    )
    regions = {(item.arg, item.mode): item.region for item in found}
    expected = {(1, "read"): Region.span(64, 128)} | ({(0, "write"): Region.span(64, 128)} if writes else {})
    assert regions == expected


#: Text that is repeated for many k; what follows it. Each repetition uses the results of the one before twice.
MANY_TIMES = {
    "conditions": ("{ int x = f && (g || i < k), y = f || (g && i < k); f = x; g = y; }", "if (f) a[i] = 1; else a[i] = 2;"),
    "branches": ("if (f && i < n + k) f = i > n - k; else f = !f;", "if (f) a[i] = 1; else b[i] = 2;"),
    "choices": ("f = f > n + k ? f - k : f + k;", "a[f & 31] = 1;"),
    "products": ("{ int x = f * g + k, y = f - g; f = x; g = y; }", "a[f & 31] = 1;"),
    "large_products": ("{ uint x = f * (g + 9), y = f + g; f = x; g = y; }", "a[f & 31] = 1;"),
    "extremes": ("{ int x = min(f, g + k), y = max(f - k, g); f = x; g = y; }", "a[clamp(f, 0, 31)] = 1;"),
    "bits": ("{ uint x = (f & g) ^ n, y = (f | g) >> 1; f = x; g = y; }", "a[f & 31] = 1;"),
}  # fmt: skip


@pytest.mark.parametrize("name", MANY_TIMES)
def test_a_part_that_is_shared_many_times_is_looked_at_once(name: str) -> None:
    """As trees these expressions have billions of parts: the test does not end where one of them is walked as such."""
    repeated, end = MANY_TIMES[name]
    body = (
        "int i = get_global_id(0), f = i, g = n;"
        + "".join(repeated.replace("k", str(k)) for k in range(40))
        + end
    )
    found = ranges(body, "__global int *a, __global int *b, int n", values={2: 3})
    written = found[0, "write"].region
    assert written
    assert (written - Region.span(0, 128)).nbytes == 0
    text = "\n".join(
        map(str, summary(f"kernel void k(global int *a, global int *b, int n) {{ {body} }}").accesses)
    )
    assert len(text) < 10_000


@pytest.mark.parametrize(
    "pointer",
    [
        "int *p = b[i] > 0 ? &x : &y;",
        "int *p = &x; if (b[i] > 0) p = &y;",
        "int *p = &y; if (b[i] > 0) p = &x; else if (b[i] > 1) p = &z;",
        "int *q[2] = { &x, &y }; int *p = q[b[i] > 0];",
    ],
)
def test_a_load_through_one_of_several_pointers(pointer: str) -> None:
    """Any of their values may be meant, whichever was made first."""
    body = f"int i = get_global_id(0), x = 3, y = 9, z = 5; {pointer} a[*p] = 1;"
    region = ranges(body)[0, "write"].region
    for index in (3, 9, 5) if "&z" in pointer else (3, 9):
        assert (region & Region.span(4 * index, 4 * index + 4)).nbytes == 4
