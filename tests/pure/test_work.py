"""How work is spread over work-groups, as loops' bounds tell it, compared with what work-items really do; and how much it is."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.plain import plain_summary, summary_of_plain
from vdev.translators.interpreter.work import bytes_of_launch, scalars_of_work, spread_of_work
from vdev.translators.ranges.ndrange import NDRange

GROUPS, LOCAL = 200, 8


def spread(body: str, n: int = 1000) -> tuple[tuple[int, ...], tuple[float, ...]] | None:
    source = f"kernel void k(global float *a, global const int *b, const int n) {{ {body} }}"
    summary = analyse_kernel(parse_program(source), "k")
    return spread_of_work(summary, NDRange((GROUPS * LOCAL,), (LOCAL,), (0,)), 0, {2: n})


@pytest.mark.parametrize(
    ("body", "times"),
    [
        ("int g = get_group_id(0); for (int k = 0; k <= g; k++) a[k] = 1;", lambda g: g + 1),
        ("int g = get_group_id(0); for (int k = g; k < n; k++) a[k] = 1;", lambda g: 1000 - g),
        ("int g = get_group_id(0); for (int k = get_local_id(0); k <= 3 * g; k += 8) a[k] = 1;", lambda g: 3 * g // 8 + 1),
        ("int i = get_global_id(0); for (int k = 0; k < i; k++) for (int j = 0; j < 5; j++) a[k + j] = 1;", lambda g: 5 * (8 * g + 7)),
        ("int g = get_group_id(0); for (int k = g; k > 0; k--) a[k] += 1;", lambda g: 2 * g),
        ("int i = get_global_id(0); if (i < n) for (int k = 0; k < i; k++) a[k] = 1;", lambda g: 8 * g + 7 if 8 * g + 7 < 1000 else 0),
    ],
)  # fmt: skip
def test_parts_have_the_work_that_they_do(body, times):
    edges, density = spread(body)
    assert (edges[0], edges[-1]) == (0, GROUPS)
    assert all(start < stop for start, stop in pairwise(edges))
    whole = sum(map(times, range(GROUPS)))
    foreseen = sum(
        each * (stop - start) for each, (start, stop) in zip(density, pairwise(edges), strict=True)
    )
    for each, (start, stop) in zip(density, pairwise(edges), strict=True):
        actual = sum(map(times, range(start, stop))) / whole
        # Within a part work is taken for linear, across an end as well.
        assert each * (stop - start) / foreseen == pytest.approx(actual, abs=0.08 if "if" in body else 0.02)


@pytest.mark.parametrize(
    "body",
    [
        "a[get_global_id(0)] = 1;",
        "for (int k = 0; k < n; k++) a[k] += get_global_id(0);",
        "for (int k = get_global_id(0); k < 100 * n; k += get_global_size(0)) a[k] = 1;",
        "int g = get_group_id(0); for (int k = 0; k < b[g]; k++) a[k] = 1;",
        "int g = get_group_id(0); for (int k = b[g]; k < b[g + 1]; k++) a[k] = 1;",
        "int g = get_group_id(0); for (int k = 0; k < g; k++) { if (a[k] > 4) break; a[k] = 1; }",
    ],
)
def test_even_work_and_work_that_depends_on_data_have_no_spread(body):
    assert spread(body) is None


ITEMS = GROUPS * LOCAL


def asked(body: str, **given: int) -> float | None:
    """The bytes that each work-item asks for."""
    source = (
        "kernel void k(global float *a, global const int *b, const int n, const int m, local float *s) "
        f"{{ int i = get_global_id(0), l = get_local_id(0); float x = i; {body} }}"
    )
    summary = analyse_kernel(parse_program(source), "k")
    summary = summary_of_plain(json.loads(json.dumps(plain_summary(summary))))  # as it is kept
    numbers = {2: given.get("n", 50), 3: given.get("m", 30)}
    values = {index: numbers[index] for index in scalars_of_work(summary) | summary.scalars}
    sizes = {0: 4 * ITEMS, 1: 4 * ITEMS * given.get("longer", 1)}
    found = bytes_of_launch(summary, NDRange((ITEMS,), (LOCAL,), (0,)), values, sizes)
    return None if found is None else found / ITEMS


@pytest.mark.parametrize(
    ("body", "nbytes"),
    [
        ("a[i] = 1;", 4),
        ("a[i] += b[i];", 12),
        ("if (i < n) a[i] = 1;", 4),
        ("for (int k = 0; k < n; k++) a[i] += b[k];", 50 * 12),
        ("for (int k = 0; k < n; k++) for (int j = 0; j < m; j++) a[b[j]] = 1;", 50 * 30 * 8),
        ("for (int k = 0; k < n; k++) { if (a[k] > 4) break; a[k] = 1; }", 50 * 8),
        ("for (int k = 0; k < n && x < 4; k++) x = x * x; a[i] = x;", 50 * 8 + 4),
        ("for (int k = 0; k < n; k++) for (int j = 0; j < m; j++) x += sin(x); a[i] = x;", 50 * 30 * 8 + 4),
        ("for (int k = 0; k < n; k += 10) { s[l] = a[k]; for (int j = 0; j < 10; j++) x += s[j]; }", 5 * 4 + 50 * 8),
    ],
)  # fmt: skip
def test_a_launch_asks_for_what_its_loops_come_to(body, nbytes):
    assert asked(body) == nbytes


@pytest.mark.parametrize(
    "loop", ["int k = n; k > 0; k >>= 1", "uint k = 1; k < n; k *= 2", "int k = n; k > 0; k /= 2"]
)
def test_loops_that_halve_or_double_end_soon(loop):
    assert asked(f"s[l] = a[i]; for ({loop}) s[l] += s[k]; a[i] = s[l];") == 8


def test_where_data_tells_when_a_loop_ends_it_goes_through_memory_a_few_times():
    body = "for (int k = b[i]; k < b[i + 1]; k++) a[i] += 1;"
    assert 8 + 4 * 8 <= asked(body) <= 8 + 16 * 8
    body = "for (int k = b[i]; k < b[i + 1]; k++) x += b[k]; a[i] = x;"
    assert asked(body, longer=25) > 20 * asked(body) / 2


@pytest.mark.parametrize(
    "body",
    [
        "while (fabs(x - 3) > 1) x = x / 2 + 1; a[i] = x;",
        "int k = b[i]; while (k > 1) { k = k % 2 ? 3 * k + 1 : k / 2; x += 1; } a[i] = x;",
        "for (int k = 0; k < n; k++) while (x > 1) x -= s[k]; a[i] = x;",
    ],
)
def test_nothing_is_known_of_loops_that_touch_nothing_and_end_nobody_knows_when(body):
    assert asked(body) is None
