"""Neighbours in spaces that go on at the other end: what chunks access is known exactly, and is what they access."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from vdev.translators.ranges.ndrange import Chunk, NDRange

from .test_access_forms import summary

WIDTH, HEIGHT = 24, 16
PLANE = NDRange((WIDTH, HEIGHT), (4, 2), (0, 0))
CHUNKS = (
    *(
        Chunk((0, 0), (6, 8)),
        Chunk((0, 0), (6, 1)),
        Chunk((0, 7), (6, 8)),
        Chunk((0, 2), (6, 5)),
        Chunk((0, 0), (1, 8)),
    ),
    *(Chunk((5, 0), (6, 8)), Chunk((2, 0), (4, 4)), Chunk((5, 7), (6, 8))),
)


def around(x: int, y: int, reach: int, shift: int) -> Iterator[int]:
    for j in range(-reach, reach + 1):
        for i in range(-reach, reach + 1):
            yield (y + j * shift + HEIGHT) % HEIGHT * WIDTH + (x + i * shift + WIDTH) % WIDTH


@pytest.mark.parametrize(("reach", "shift"), [(1, 1), (2, 1), (1, 3), (0, 1)])
def test_a_box_of_neighbours(reach: int, shift: int) -> None:
    text = f"""
    kernel void k(global char *to, global const char *from, int w, int h, int s) {{
        int x = get_global_id(0), y = get_global_id(1), sum = 0;
        for (int j = -{reach}; j <= {reach}; ++j) for (int i = -{reach}; i <= {reach}; ++i)
            sum += from[(y + j * s + h) % h * w + (x + i * s + w) % w];
        to[y * w + x] = sum;
    }}"""
    found = summary(text)
    for chunk in CHUNKS:
        (item,) = [
            item
            for item in found.evaluate(PLANE, chunk, {2: WIDTH, 3: HEIGHT, 4: shift}, {0: 4096, 1: 4096})
            if item.mode == "read"
        ]
        (x0, y0), (x1, y1) = chunk.start, chunk.stop
        wanted = {
            place
            for y in range(2 * y0, 2 * y1)
            for x in range(4 * x0, 4 * x1)
            for place in around(x, y, reach, shift)
        }
        assert wanted == {byte for low, high in item.region.runs.tolist() for byte in range(low, high)}
        assert item.exact, chunk


def test_a_row_in_a_line() -> None:
    """A number that is a row's and a column's, and the row below that goes on at the top."""
    text = """
    kernel void k(global char *to, global const char *from, int n) {
        int i = get_global_id(0), x = i % n, y = i / n;
        to[i] = from[(y + 1) % n * n + x] + from[(y + n - 1) % n * n + (x + n - 1) % n];
    }"""
    found, n = summary(text), 16
    for start, stop in ((0, 32), (0, 8), (8, 32), (3, 5), (30, 32)):
        (item,) = [
            item
            for item in found.evaluate(
                NDRange((256,), (8,), (0,)), Chunk((start,), (stop,)), {2: n}, {0: 4096, 1: 4096}
            )
            if item.mode == "read"
        ]
        wanted = set()
        for i in range(8 * start, 8 * stop):
            x, y = i % n, i // n
            wanted |= {(y + 1) % n * n + x, (y - 1) % n * n + (x - 1) % n}
        assert wanted == {byte for low, high in item.region.runs.tolist() for byte in range(low, high)}
        assert item.exact
