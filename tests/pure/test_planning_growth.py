"""What planning costs must not grow with the bytes of buffers, nor with the history of launches.

Counted are calls of the functions that walk through regions, which is the same on any machine, loaded or not. That
none of them works through arrays, whose length would not show in calls, is told by the boxes that a state has.
"""

from __future__ import annotations

import sys
from itertools import islice, pairwise
from statistics import median
from types import FrameType
from typing import Any, NamedTuple

import pytest

from samples.benchmarks import planning_growth as growth
from vdev.planner.directory import check

WALKING = ("bands.py", "region.py", "byte_runs.py")
COMPARING = {"__and__", "__sub__", "__or__", "overlaps", "clip"}


def calls_per_launch(program: Any, nbytes: int, workers: int, launches: int) -> tuple[float, int]:
    """The median number of calls in regions' modules for one launch, and the most boxes that a buffer lay in."""
    calls = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.endswith(WALKING)

    planner = growth.Planner(nbytes, workers, habits=False)  # every launch looks at all cuts
    found = []
    for step in program(nbytes, launches):
        calls = 0
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            planner.launch(step)
        finally:
            sys.setprofile(before)
        found.append(calls)
    return median(found), planner.most_boxes


class Work(NamedTuple):
    """What the second half of some launches took, whose cut is known by then."""

    calls: int  #: of functions, all of them
    compared: int  #: how often two regions were
    instructions: int


def work(program: Any, workers: int, launches: int) -> Work:
    calls = compared = instructions = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls, compared
        if event == "call":
            code = frame.f_code
            calls += 1
            compared += code.co_name in COMPARING and code.co_filename.endswith("region.py")

    planner = growth.Planner(1 << 24, workers)
    for number, step in enumerate(program(1 << 24, launches)):
        before = sys.getprofile()
        if number >= launches // 2:
            sys.setprofile(count)
        try:
            planner.launch(step)
        finally:
            sys.setprofile(before)
        if number >= launches // 2:
            instructions += planner.instructions
    return Work(calls, compared, instructions)


@pytest.mark.parametrize("program", growth.PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("fewer", [2, 4])
def test_planning_grows_with_instructions_not_with_pairs_of_workers(program: Any, fewer: int) -> None:
    """Chunks that need something of a few others', of a row and a column of them, of all, or of whoever has it: what a
    plan takes grows no faster than the workers, or than the copies and launches that it consists of."""
    # After so many, no more of them look at all cuts.
    launches = 12 if program in (growth.table, growth.fields) else 8
    few, many = (work(program, workers, launches) for workers in (fewer, 64))
    most = 1.25 * max(many.instructions / few.instructions, 64 / fewer)
    assert many.calls <= most * few.calls, (few, many)
    if fewer > 2:  # of two, each has one other to look at
        assert many.compared <= most * few.compared, (few, many)


@pytest.mark.parametrize("program", growth.PROGRAMS, ids=lambda program: program.__name__)
def test_planning_does_not_grow_with_buffers(program: Any) -> None:
    # Where a window's rows are hardly longer than the granule of a margin, what was copied is joined at other steps.
    sizes = (29, 31, 33, 36) if program is growth.moving_window else (20, 22, 29, 36)
    counts = [calls_per_launch(program, 1 << size, 4, 12) for size in sizes]
    assert all(boxes <= 200 for _, boxes in counts), counts
    assert all(more <= 1.5 * less for (less, _), (more, _) in pairwise(counts)), counts
    assert counts[-1][0] <= 1.5 * counts[0][0], counts


@pytest.mark.parametrize("direct", [False, True])
def test_a_tile_that_moves_on_a_thousand_times_leaves_few_boxes(direct: bool) -> None:
    planner = growth.Planner(1 << 24, 3, direct=direct)
    seen = []
    for step in islice(growth.moving_tile(1 << 24, 1000), 1000):
        planner.launch(step)
        seen.append(planner.boxes)
    assert max(seen[500:]) <= max(seen[:500]) <= 170
    for state in planner.states.values():
        check(state)
    # Brought together again and again, bytes move, but not the whole buffer for each launch.
    assert planner.moved_nbytes <= 1000 * (1 << 24) // 48


def test_a_window_on_a_matrix_that_nobody_writes_is_copied_in_few_boxes() -> None:
    """What workers have copied piece by piece becomes few boxes, and no more than twice what they read is moved for that."""
    nbytes, workers = 1 << 24, 8
    planner = growth.Planner(nbytes, workers)
    seen = []
    for step in islice(growth.moving_window(nbytes, 400), 400):
        planner.launch(step)
        check(planner.states[1])
        seen.append(sum(region.nboxes for _, region in planner.states[1].valid))
    assert max(seen) <= 120
    n = growth.side(nbytes, 2)
    rows, columns = n // 8 // workers + n // 4, n // 8 + 2 * (n // 4)  # around all that one worker has read
    written = n // 8 * (n // 8) * 4
    assert planner.moved_nbytes <= written + 2 * workers * rows * columns * 4
