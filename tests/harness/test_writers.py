"""Comparisons name the work-item that wrote an element last, and its line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vdev.harness import Program, assert_allclose, assert_equal, empty, local, origins
from vdev.process.finalisers import collect

SOURCE = """kernel void sums(global float *o, global const float *x) {
  int i = get_global_id(0);
  o[i] = 0;
  for (int j = 0; j < 30; j++)
    o[i] += x[i];
  if (i == 5) o[i] -= 1;
}
kernel void vectors(global float *o) { vstore4((float4)(1), get_global_id(0), o); }
kernel void copies(global float *o, local float *t) {
  t[get_local_id(0)] = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  event_t e = async_work_group_copy(o + 4 * get_group_id(0), t, 4, 0);
  wait_group_events(1, &e);
}
kernel void counts(volatile global int *o) { atomic_add(o + get_group_id(0), 1); }
typedef struct { char a; float b[2]; } record_t;
void set(global float *where, float value) {
  *where = value;
}
kernel void members(global record_t *o) {
  o[get_global_id(0)].a = 1;
  set(&o[get_global_id(0)].b[1], 2);
}
kernel void random(global uint *o, global uint *state) { o[0] = (uint)(ulong)o; }
"""
PROGRAM = Program(SOURCE)
X = np.arange(8, dtype=np.float32)


def message(result: Any, expected: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_allclose(result, expected, ulp=0)
    return str(caught.value)


@pytest.fixture
def sums() -> Any:
    return PROGRAM.sums(empty((4, 3), np.float32), X, global_size=8, local_size=4)[0]


def test_the_last_of_many_writes(sums: Any) -> None:
    text = message(sums.reshape(-1)[:8], 30 * X)
    assert "at [5]: 149.0, expected 150.0" in text
    assert (
        "written by work-item (5) of work-group (1) at <kernel>:6, the last of 32 writes: if (i == 5)" in text
    )


def test_places_of_views(sums: Any) -> None:
    view = sums[::-1, 1:]
    expected = view.copy()
    expected[2, 0] = 7  # row 1, column 1: element 4
    assert "at [2, 0]: 120.0, expected 7.0" in message(view, expected)
    assert "written by work-item (4) of work-group (1) at <kernel>:5" in message(view, expected)
    expected = view.copy()
    expected[0, 1] = 7  # element 11
    assert "no work-item wrote it" in message(view, expected)


def test_nothing_is_said_of_what_is_not_known(sums: Any) -> None:
    assert "written" not in message(2 * sums, 0)
    assert "wrote" not in message(2 * sums, 0)
    sums[1, 2] = 99
    assert "wr" not in message(sums.reshape(-1)[5:6], 0)


@pytest.mark.parametrize(
    ("kernel", "args", "sizes", "where", "text"),
    [
        (
            "vectors",
            [empty((2, 4), np.float32)],
            (2, 1),
            (1, 3),
            "work-item (1) of work-group (1) at <kernel>:8:",
        ),
        (
            "copies",
            [empty(8, np.float32), local(4, np.float32)],
            (8, 4),
            (6,),
            "of work-group (1) at <kernel>:12:",
        ),
        (
            "counts",
            [np.zeros(2, np.int32)],
            (8, 4),
            (1,),
            "of work-group (1) at <kernel>:15, the last of 4 writes:",
        ),
    ],
)
def test_every_way_to_write(
    kernel: str, args: list[Any], sizes: tuple[int, int], where: Any, text: str
) -> None:
    (result,) = PROGRAM.kernel(kernel)(*args, global_size=sizes[0], local_size=sizes[1])
    expected = result.copy()
    expected[where] += 1
    assert text in message(result, expected)


def test_members_of_structures() -> None:
    record = np.dtype([("a", "i1"), ("b", "f4", 2)], align=True)
    (result,) = PROGRAM.members(np.zeros(3, record), global_size=3)
    assert "work-item (2) of work-group" in message(result["b"][:, 1], [2, 2, 3])
    assert "at <kernel>:18: *where = value;" in message(result["b"][:, 1], [2, 2, 3])
    assert "at <kernel>:21: o[get_global_id(0)].a = 1;" in message(result["a"], [1, 1, 0])


def test_an_element_that_another_run_writes_differently_has_no_writer() -> None:
    """The content is an address, or was one: who wrote this one is not known."""
    (result, _) = PROGRAM.random(np.zeros(1, np.uint32), np.zeros(1, np.uint32), global_size=1)
    assert "1 of 1" in message(result, result + 1)


def test_arrays_are_forgotten() -> None:
    collect()
    before = len(origins._known)
    results = [PROGRAM.sums(empty(8, np.float32), X, global_size=8) for _ in range(3)]
    assert len(origins._known) == before + 3
    view = results[0][0][2:]
    del results
    collect()
    assert len(origins._known) == before + 1
    assert origins.find(view) is not None
    assert_equal(view, 30 * X[2:] - (X[2:] == 5))
