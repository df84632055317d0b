"""Kernels of samples, called as a user of the harness calls his own: results are NumPy's, on one worker and on several, whatever
the size of the work-groups, and for sizes that leave the last group partly used.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu.test_samples import SAMPLES
from vdev.harness import FindingsError, Program, assert_allclose, assert_equal, empty

F = np.float32
WORKERS = ["cpu:1", "cpu:3"]


def text(name: str) -> str:
    """The kernels of a sample, which is not run."""
    known, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(SAMPLES))
    try:
        return str(runpy.run_path(str(SAMPLES / f"{name}.py"))["SOURCE"])
    finally:
        sys.path[:] = path
        for each in {"common"} & set(sys.modules) - known:
            del sys.modules[each]


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).random(shape, F)


def up(number: int, group: int) -> int:
    return -(-number // group) * group


@pytest.mark.opencl(text("vector_addition"), workers=WORKERS, local_sizes=[1, 16, 64])
@pytest.mark.parametrize("count", [1, 63, 64, 1000])
def test_addition(kernels: Program, count: int) -> None:
    a, b = drawn(2, count)

    (c,) = kernels.add(a, b, empty(count, F), count, global_size=up(count, 64))

    assert_equal(c, a + b)


@pytest.mark.opencl(text("histogram"), options=["-DBINS=32"], workers=WORKERS, local_sizes=[16, 64])
@pytest.mark.parametrize("items", [64, 256])
def test_histogram(kernels: Program, items: int) -> None:
    values = np.random.default_rng(6).integers(0, 1 << 16, 1001).astype(np.uint16)

    (bins,) = kernels.count(values, np.zeros(32, np.uint32), len(values), global_size=items)

    assert_equal(bins, np.bincount(values % 32, minlength=32).astype(np.uint32))


@pytest.mark.opencl(workers=WORKERS)
@pytest.mark.parametrize("group", [8, 64])
@pytest.mark.parametrize("count", [5, 1000])
def test_sums_of_groups(opencl_program: Callable[..., Program], group: int, count: int) -> None:
    values, groups = drawn(count), 4
    kernel = opencl_program(text("reduction"), [f"-DGROUP={group}"]).kernel("sum")

    (sums,) = kernel(values, empty(groups, F), count, global_size=groups * group, local_size=group)

    stripes = np.zeros(up(count, 2 * group * groups), np.float64)
    stripes[:count] = values
    expected = stripes.reshape(-1, groups, 2 * group).sum(axis=(0, 2))
    assert_allclose(sums, expected.astype(F), rtol=1e-5)


@pytest.mark.opencl(workers=WORKERS)
@pytest.mark.parametrize("tile", [4, 8])
@pytest.mark.parametrize(("m", "n", "k"), [(8, 8, 8), (13, 21, 7)])
def test_product(opencl_program: Callable[..., Program], tile: int, m: int, n: int, k: int) -> None:
    a, b = drawn(m, k), drawn(k, n)
    kernel = opencl_program(text("matrix_multiplication"), [f"-DTILE={tile}"]).kernel("multiply")

    outputs = kernel(
        a, b, empty((m, n), F), m, n, k, global_size=(up(n, tile), up(m, tile)), local_size=(tile, tile)
    )

    assert_allclose(outputs["c"], a @ b, rtol=1e-5)


@pytest.mark.opencl(workers=WORKERS)
@pytest.mark.parametrize("tile", [4, 8])
@pytest.mark.parametrize("shape", [(16, 8), (19, 30)])
def test_transposition(opencl_program: Callable[..., Program], tile: int, shape: tuple[int, int]) -> None:
    matrix = drawn(*shape)
    rows, columns = shape
    kernel = opencl_program(text("transpose"), [f"-DTILE={tile}"]).kernel("transpose")
    grid = up(columns, tile), up(rows, tile)

    outputs = kernel(
        matrix, empty((columns, rows), F), rows, columns, global_size=grid, local_size=(tile, tile)
    )

    assert_equal(outputs["transposed"], matrix.T)


@pytest.mark.opencl(workers=WORKERS)
@pytest.mark.parametrize("group", [(4, 4), (8, 2)])
def test_stencil(opencl_program: Callable[..., Program], group: tuple[int, int]) -> None:
    nz, ny, nx = shape = 6, 9, 11
    now, centre, around = drawn(*shape), F(0.4), F(0.1)
    options = [f"-DGROUP_X={group[0]}", f"-DGROUP_Y={group[1]}"]
    kernel = opencl_program(text("stencil_3d"), options).kernel("advance")
    grid = up(nx, group[0]), up(ny, group[1])

    outputs = kernel(now, now.copy(), nx, ny, nz, centre, around, global_size=grid, local_size=group)

    expected = now.astype(np.float64)
    sides: Any = sum(np.roll(now, step, axis) for axis in range(3) for step in (1, -1))
    inner = (slice(1, -1),) * 3
    expected[inner] = 0.4 * now[inner] + 0.1 * sides[inner]
    assert_allclose(outputs["next"], expected.astype(F), rtol=1e-5)


PLANTED = [
    ("vector_addition", "if (i < n)", "if (i <= n)", "out-of-bounds"),
    ("vector_addition", "a[i] + b[i]", "a[i] - b[i]", None),
    ("vector_addition", "c[i] =", "c[i / 2] =", "race-between-items"),
]


@pytest.mark.opencl(workers=["cpu:1"])
@pytest.mark.parametrize(("name", "right", "wrong", "kind"), PLANTED)
def test_a_planted_mistake_fails(
    opencl_program: Callable[..., Program], name: str, right: str, wrong: str, kind: str | None
) -> None:
    """What the tests above rest on: a mistake of memory ends the call, and a wrong result the comparison."""
    source = text(name)
    assert right in source
    kernel = opencl_program(source.replace(right, wrong)).kernel("add")
    a, b = drawn(2, 63)

    def call() -> None:
        assert_equal(kernel(a, b, empty(63, F), 63, global_size=64, local_size=64)[0], a + b)

    with pytest.raises(FindingsError if kind else AssertionError, match=kind or "63 of 63 elements"):
        call()
