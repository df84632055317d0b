"""How work is spread over work-groups, as loops' bounds tell it, compared with what work-items really do."""

from __future__ import annotations

from itertools import pairwise

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.work import spread_of_work
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
