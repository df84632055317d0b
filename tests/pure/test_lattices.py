"""Guards that choose cells as a chessboard's colours do: the ranges are the very cells, in few boxes whatever the size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import KernelSummary, analyse_kernel
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

#: conditions on cells (x, y), as C and as Python, with a modulus m and a remainder r
GUARDS = {
    "(x + y) % m == r": lambda x, y, m, r: (x + y) % m == r,
    "(x + y + r) % m == 0": lambda x, y, m, r: (x + y + r) % m == 0,
    "(y - x + 100 * m) % m == r": lambda x, y, m, r: (y - x) % m == r,
    "(x + m * y) % m == r": lambda x, y, m, r: x % m == r,
    "(2 * x + y) % m == r": lambda x, y, m, r: (2 * x + y) % m == r,
    "y % m == r && (x + y) % 2 == 0": lambda x, y, m, r: y % m == r and (x + y) % 2 == 0,
    "((x + y) & 1) == (r & 1) && x >= y": lambda x, y, m, r: (x + y) & 1 == r & 1 and x >= y,
}
_summaries: dict[tuple[str, int], KernelSummary] = {}


def summary(guard: str, modulus: int) -> KernelSummary:
    if (guard, modulus) not in _summaries:
        text = f"""kernel void k(global float *a, int n, int w, int r) {{
            int x = get_global_id(0) + 1, y = get_global_id(1) + 1;
            if (x >= n || y >= n || !({guard.replace("m", str(modulus))})) return;
            a[y * w + x] = 1; }}"""
        _summaries[guard, modulus] = analyse_kernel(parse_program(text), "k")
    return _summaries[guard, modulus]


@given(
    st.sampled_from(sorted(GUARDS)), st.integers(2, 9), st.integers(0, 8), st.integers(2, 14) | st.integers(60, 160), st.integers(0, 5),
    st.tuples(*[st.integers(1, 4) | st.just(32)] * 2), st.booleans(), st.data(),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_the_very_cells(
    guard: str, m: int, r: int, n: int, pad: int, group: tuple[int, int], whole: bool, data: st.DataObject
) -> None:
    r, width = r % m, n + pad
    groups = tuple(-(-n // size) for size in group)
    ndrange = NDRange((groups[0] * group[0], groups[1] * group[1]), group, (0, 0))
    first, last = (0, 0), groups
    if not whole:
        first = tuple(data.draw(st.integers(0, count - 1)) for count in groups)
        last = tuple(data.draw(st.integers(low + 1, count)) for low, count in zip(first, groups, strict=True))
    values = {1: n, 2: width, 3: r}
    ranges = summary(guard, m).evaluate(ndrange, Chunk(first, last), values, {0: 4 * width * (n + 1)})
    xs, ys = (range(a * s + 1, min(b * s + 1, n)) for a, b, s in zip(first, last, group, strict=True))
    cells = [4 * (y * width + x) for y in ys for x in xs if GUARDS[guard](x, y, m, r)]
    region = Region.union(found.region for found in ranges)
    wanted = Region.from_runs([(cell, cell + 4) for cell in cells])
    assert not (wanted - region)
    if all(found.exact for found in ranges):
        assert region == wanted


def test_as_many_boxes_at_any_size() -> None:
    """The red cells of a plane are two boxes, whose evaluation enumerates nothing."""
    for n in (1 << 8, 1 << 14):
        groups = (n // 16, n // 16)
        ndrange = NDRange((n, n), (16, 16), (0, 0))
        [found] = summary("(x + y) % m == r", 2).evaluate(
            ndrange, Chunk((0, 0), (groups[0], groups[1] // 2)), {1: n - 1, 2: n, 3: 1}, {0: 4 * n * n}
        )
        assert found.exact
        assert found.region.nbytes == 4 * ((n - 2) * (n // 2) // 2)
        assert found.region.nboxes <= 4


def test_a_lattice_that_falls_the_other_way_is_as_few_boxes() -> None:
    """Every other cell but the last few, whichever way they are counted."""
    source = """kernel void k(global float *a, int n, int m) {
        int x = get_global_id(0), y = get_global_id(1);
        if ((CASE) % 2 == 0 && y * n + x < n * n - 5) a[y * n + x] = 1; }"""
    for case in ("x + y", "m - x - y"):
        lattice = analyse_kernel(parse_program(source.replace("CASE", case)), "k")
        for n in (64, 1024):
            ndrange, groups = NDRange((n, n), (16, 16), (0, 0)), (n // 16, n // 16)
            [found] = lattice.evaluate(ndrange, Chunk((0, 0), groups), {1: n, 2: 4 * n}, {0: 4 * n * n})
            assert found.exact, (case, n)
            assert found.region.nboxes <= 8


@pytest.mark.parametrize("n", [32, 64, 128, 256])
def test_parts_of_a_small_plane_are_as_few_boxes(n: int) -> None:
    """Though a few dozen of its rows could be told one by one."""
    groups = n // 16
    ndrange = NDRange((n, n), (16, 16), (0, 0))
    for colour in range(2):
        ranges = summary("(x + y) % m == r", 2).of_launch(
            ndrange, {1: n - 1, 2: n, 3: colour}, {0: 4 * n * n}
        )
        for x, y in ((0, 0), (groups // 2, 0), (0, groups // 2), (groups // 2, groups // 2)):
            [found] = ranges.of(Chunk((x, y), (x + groups // 2, y + groups // 2)))
            assert found.exact
            assert found.region.nboxes <= 4


CUBES = """kernel void k(global float *a, int n, int colour) {
    int x = 2 * get_global_id(0) + 1, y = get_global_id(1) + 1, z = get_global_id(2) + 1;
    x += (y + z + colour) % 2;
    if (x < n - 1 && y < n - 1 && z < n - 1) a[(z * n + y) * n + x] = 1; }"""


@pytest.mark.parametrize("n", [18, 66, 162])
def test_a_chessboard_of_cubes_is_as_few_boxes(n: int) -> None:
    """Whichever part of it: what is left for even rows is a lattice in its turn."""
    kernel = analyse_kernel(parse_program(CUBES), "k")
    half = n // 2
    ndrange = NDRange((half, n - 2, n - 2), (1, 1, 1), (0, 0, 0))
    for colour in range(2):
        ranges = kernel.of_launch(ndrange, {1: n, 2: colour}, {0: 4 * n**3})
        for first, last in (
            ((0, 0, 0), (half, n - 2, n - 2)),
            ((0, 0, 3), (half, n - 2, n // 2)),
            ((1, 2, 1), (half - 2, n // 2, n - 5)),
            ((half // 2, 5, 0), (half, n - 2, n - 2)),
        ):
            [found] = ranges.of(Chunk(first, last))
            assert found.exact
            assert found.region.nboxes <= 32
            if n == 18:
                y, z = (range(low + 1, high + 1) for low, high in zip(first[1:], last[1:], strict=True))
                cells = [
                    4 * ((k * n + j) * n + i)
                    for k in z
                    for j in y
                    for i in range(2 * first[0] + 1 + (j + k + colour) % 2, 2 * last[0] + 1, 2)
                    if i < n - 1
                ]
                assert found.region == Region.from_runs([(cell, cell + 4) for cell in sorted(cells)])
