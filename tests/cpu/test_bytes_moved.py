"""How many bytes move, stated for each of six programs and 2, 3 and 4 workers, at the first launch and at
the second.

The figures are derived here from what each chunk must have, not taken from a run. What the back ends
counted must agree with the plans.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

import pytest

SIZE, COUNT, BINS = 64, 3 * 4096, 256
LONG = (1 << 20) + 37
MATRIX, VECTOR, ROW = SIZE * SIZE * 4, COUNT * 4, SIZE * 4
FACTOR = 512 * 512 * 4

workers = pytest.mark.parametrize("count", [2, 3, 4])


@functools.cache
def run(name: str, count: int) -> dict[str, Any]:
    environment = os.environ | {
        "VDEV": "1",
        "VDEV_WORKERS": f"cpu:{count}",
        "VDEV_MIN_ITEMS": "0",
        "PYOPENCL_NO_CACHE": "1",
    }
    command = [sys.executable, "-m", "tests.cpu.bytes_moved_scenarios", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def launches(name: str, count: int) -> list[int]:
    """Bytes moved by each launch; every one of them is split over all workers."""
    found = run(name, count)["launches"]
    assert [launch["workers"] for launch in found] == [count] * len(found), found
    return [launch["nbytes"] for launch in found]


@workers
def test_matrix_multiplication(count: int) -> None:
    # By rows, each worker gets its part of A and all of B; four workers do better in a 2 x 2 grid: half of
    # each. That saves FACTOR bytes, and FACTOR is large enough for them to count more than the short runs
    # that half of B's columns consist of.
    first = FACTOR + count * FACTOR if count < 4 else 4 * (FACTOR // 2 + FACTOR // 2)
    assert launches("matrix_multiplication", count) == [first, 0]


@workers
def test_stencil(count: int) -> None:
    # By rows: one halo row on either side of each cut, less its two ends, which only copy themselves. A 2 x 2
    # grid for four workers would move fewer bytes, half of them as columns of single elements, which cost
    # more. Afterwards only the halo changes hands.
    halo = 2 * (count - 1) * (ROW - 2 * 4)
    assert launches("stencil", count) == [MATRIX + halo, halo, halo]


@workers
def test_transpose(count: int) -> None:
    assert launches("transpose", count) == [MATRIX, 0]


@workers
def test_saxpy(count: int) -> None:
    # Two launches for each expression, 3 * x and then + y: each brings the operand that is new, in blocks.
    assert launches("saxpy", count) == [VECTOR, VECTOR, 0, 0]


@workers
def test_histogram(count: int) -> None:
    # Every worker counts from zero into bins of its own, which are added up at home when the program reads them.
    assert launches("histogram", count) == [VECTOR, 0]
    assert run("histogram", count)["folded"] == count * BINS * 4


@workers
def test_scatter(count: int) -> None:
    # Where a value lands is known to nobody before: everybody holds all of it, and the results are compared
    # with the twin at home.
    merged = 2 * count * VECTOR
    assert launches("scatter", count) == [2 * VECTOR + merged, merged]


@workers
def test_stripes(count: int) -> None:
    # Left in blocks and read in strides of the grid, twice: all but each worker's own part of its block changes hands.
    # From then on it is left where it is read.
    nbytes, sums = 4 * LONG, 4 * 64 * 12 * 8
    crossing = nbytes - nbytes // count
    moved = launches("stripes", count)
    assert moved[0::2] == [0] * 5
    assert moved[1] == pytest.approx(crossing + sums, rel=0.01)
    assert moved[3] == pytest.approx(crossing, rel=0.01)
    assert moved[5::2] == [0] * 3


@workers
@pytest.mark.parametrize(
    "name", ["matrix_multiplication", "stencil", "transpose", "saxpy", "histogram", "scatter", "stripes"]
)
def test_plans_say_what_back_ends_count(name: str, count: int) -> None:
    result = run(name, count)
    assert result["planned"] == result["counted"]
