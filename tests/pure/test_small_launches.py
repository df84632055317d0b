"""Small launches on workers that share hardware: without plans on one of them, until a larger launch comes on their buffers.

Splitting gains nothing there, whatever the launches' size, and no measured time tells that some of them are large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange

from tests.pure.repeating import again
from tests.pure.test_choosing import Program
from tests.pure.test_direct import slow_plans
from tests.pure.virtual_gpus import VirtualGpu
from vdev.planner.launch_request import USUAL_MIN_ITEMS
from vdev.session.commands import BufferArg
from vdev.session.launch_plans import THRIFTY
from vdev.session.session import Session, VirtualBuffer

SOURCE = """
kernel void add(global uint *to, global const uint *from, const uint step)
{
    to[get_global_id(0)] = from[get_global_id(0)] + step;
}
kernel void other(global uint *to) { to[get_global_id(0)] += 1; }
kernel void take(global uint *to) { to[atomic_inc(to)] = get_global_id(0); }
kernel void look(global uint *to, global const uint *table, const uint n) { to[get_global_id(0)] = table[to[get_global_id(0)] % n]; }
"""
KERNELS = "add", "other", "take", "look"
SMALL, LARGE = USUAL_MIN_ITEMS // 2, 64 * USUAL_MIN_ITEMS
#: launches after which small ones are on one worker, before and after a large one
ENOUGH = 48
#: seconds that a plan takes
PLAN = 5e-5


Opener = Callable[[int], Program]
Unseen = Callable[..., Callable[[int], object] | None]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Opens a program on so many CPU workers that are one device's, and whose launches take plans or not."""
    made, opened = VirtualGpu.__init__, Session.__init__

    def open_worker(self: VirtualGpu, *given: Any) -> None:
        made(self, *given)
        self.info = replace(self.info, device_key=("all the same",), is_cpu=True)

    def thrifty(self: Session, *args: Any, **settings: Any) -> None:
        opened(self, *args, **settings, plan_always=False)

    monkeypatch.setattr(VirtualGpu, "__init__", open_worker)
    monkeypatch.setattr(Session, "__init__", thrifty)
    slow_plans(monkeypatch, PLAN)  # whatever they take here
    return lambda workers: Program(SOURCE, dict.fromkeys(KERNELS, 1e-15), workers=workers)


@pytest.fixture
def program(opened: Opener) -> Iterator[Program]:
    with opened(3) as found:
        yield found


def run(program: Program, nitems: int, count: int, *buffers: VirtualBuffer) -> list[str]:
    """So many launches of so many work-items: how each of them ran."""
    program.plans.clear()
    for number in range(count):
        program.launch("add", (nitems,), (64,), *buffers, np.uint32(number))
    return ways(program)


def ways(program: Program) -> list[str]:
    """How the launches since the last call ran: cut, or whole with a plan or without."""
    found = [
        "cut" if len(plan.partition) > 1 else "free" if THRIFTY in plan.reasons else "whole"
        for plan in program.plans
    ]
    program.plans.clear()
    return found


def pair(program: Program, nitems: int = LARGE) -> tuple[VirtualBuffer, VirtualBuffer]:
    return program.buffer(4 * nitems), program.buffer(4 * nitems)


def test_small_launches_take_no_plans_soon(program: Program) -> None:
    found = run(program, SMALL, ENOUGH, *pair(program, SMALL))
    assert found[0] == "whole"
    assert found[-1] == "free"


def test_a_large_launch_on_their_buffers_is_cut_at_once(program: Program) -> None:
    buffers = pair(program)
    run(program, SMALL, ENOUGH, *buffers)
    assert run(program, USUAL_MIN_ITEMS - 64, 1, *buffers) == ["free"], "no other would cut that either"
    assert run(program, USUAL_MIN_ITEMS, 1, *buffers) == ["cut"]
    assert run(program, LARGE, 3, *buffers) == ["cut"] * 3
    assert run(program, SMALL, 1, *pair(program)) == ["free"], "which says nothing of small ones on others"


def test_small_ones_are_free_again_after_it_and_a_large_one_is_cut_again(program: Program) -> None:
    buffers = pair(program)
    for _ in range(3):
        assert run(program, SMALL, ENOUGH, *buffers)[-1] == "free"
        assert run(program, LARGE, 1, *buffers) == ["cut"]


def test_a_large_launch_between_holds_small_ones_back(program: Program) -> None:
    buffers = pair(program)
    for _ in range(8):
        assert run(program, LARGE, 1, *buffers) == ["cut"]
        assert run(program, SMALL, 6, *buffers) == ["whole"] * 6


def test_another_kernel_is_cut_on_their_buffers(program: Program) -> None:
    first, second = pair(program)
    run(program, SMALL, ENOUGH, first, second)
    program.launch("other", (LARGE,), (64,), first)
    assert ways(program) == ["cut"]


def test_new_buffers_begin_free_but_for_a_large_launch(program: Program) -> None:
    run(program, SMALL, ENOUGH, *pair(program))
    buffers = pair(program)
    assert run(program, SMALL, 1, *buffers) == ["free"]
    assert run(program, LARGE, 1, *pair(program)) == ["cut"]
    assert run(program, SMALL, 1, *pair(program)) == ["free"], "which was the only one"
    assert run(program, LARGE, 1, *buffers) == ["cut"]


def test_buffers_that_are_gone_leave_what_is_known_to_new_ones(program: Program) -> None:
    buffers = pair(program)
    run(program, SMALL, ENOUGH, *buffers)
    program.wait()
    del buffers
    large = pair(program)
    assert run(program, LARGE, 1, *large) == ["cut"]
    assert run(program, SMALL, 1, *pair(program)) == ["free"], "a large one on others changes nothing"


def test_what_is_never_cut_needs_no_plans_however_large_it_is(program: Program) -> None:
    (buffer, _) = pair(program)
    for _ in range(2 * ENOUGH):
        program.launch("take", (LARGE,), (64,), buffer)
    found = ways(program)
    assert (found[0], found[-1]) == ("whole", "free")
    program.launch("take", (2 * LARGE,), (64,), buffer)
    assert ways(program) == ["free"]
    program.launch("other", (LARGE,), (64,), buffer)
    assert ways(program) == ["cut"], "it is another kernel's launch"


def test_large_launches_that_lose_long_enough_stay_on_one_worker(program: Program) -> None:
    """As before, there are limits to what cutting them may cost; larger ones are cut again."""
    buffers = pair(program, 64 * LARGE)
    assert run(program, LARGE, 1000, *buffers)[-1] == "free"
    assert run(program, 2 * LARGE, 1, *buffers) == ["free"]
    assert run(program, 8 * LARGE, 1, *buffers) == ["cut"]


@pytest.fixture
def unseen(program: Program, monkeypatch: pytest.MonkeyPatch) -> Unseen:
    """Launches that nobody looks on at are handed over at once, and those in a row by one call of the back end, whatever their sizes:
    makes that call for launches like the given one, over other index spaces. None where that was not handed over at once.
    """
    monkeypatch.setattr(VirtualGpu, "again", again)
    monkeypatch.setattr(VirtualGpu, "repeats_over", lambda *_: True)
    program.session.observers.clear()

    def begin(name: str, nitems: int, *buffers: VirtualBuffer) -> Callable[[int], object] | None:
        kernel, at_once = program.kernels[name], program.session.at_once
        assert at_once is not None
        args = (*[BufferArg(each, 0, each.nbytes) for each in buffers], bytes(4))[: len(kernel.info.args)]
        part = at_once.launch(kernel, args, space(nitems), (), program.queue)
        row = None if part is None else at_once.in_a_row(kernel, program.queue, part)
        return None if row is None else lambda other: row.again(program.queue, space(other), args)

    return begin


def test_a_large_launch_in_a_row_of_small_ones_takes_a_plan(program: Program, unseen: Unseen) -> None:
    buffers = pair(program)
    run(program, SMALL, ENOUGH, *buffers)
    row_again = unseen("add", SMALL, *buffers)
    assert row_again is not None
    for nitems in (SMALL, SMALL // 2, USUAL_MIN_ITEMS - 64):
        assert row_again(nitems) is not None
    assert row_again(LARGE) is None
    assert unseen("add", LARGE, *buffers) is None
    program.session.observers.append(program._observe)
    assert run(program, LARGE, 1, *buffers) == ["cut"]


def test_large_ones_that_are_never_cut_may_follow_in_a_row(program: Program, unseen: Unseen) -> None:
    (buffer, _) = pair(program)
    for _ in range(ENOUGH):
        program.launch("take", (LARGE,), (64,), buffer)
    row_again = unseen("take", LARGE, buffer)
    assert row_again is not None
    assert row_again(LARGE // 2) is not None


def test_both_sizes_count_where_every_other_launch_is_large(program: Program) -> None:
    """Few of them are looked at, and of these all may be of one size."""
    buffers = pair(program, 64 * LARGE)
    found = [
        way for _ in range(300) for nitems in (LARGE, SMALL) for way in run(program, nitems, 1, *buffers)
    ]
    assert found[0] == "cut", "what is found of small ones is not taken to be so of these"
    assert found[-2:] == ["free", "free"], "and what these lose is noticed"


def test_what_moves_at_each_launch_counts(program: Program) -> None:
    """One worker fills a table, which all read: it goes to the others each time."""
    table, to = pair(program, 16 * LARGE)
    found = []
    for _ in range(24):
        program.launch("take", (LARGE,), (64,), table)
        program.launch("look", (LARGE,), (64,), to, table, np.uint32(LARGE))
        found += ways(program)
    assert found[1] == "cut"
    assert found.count("cut") < 12
    steady = pair(program, 16 * LARGE)
    assert run(program, 16 * LARGE, 24, *steady) == ["cut"] * 24, "here nothing does"


def test_large_launches_that_take_long_are_cut_for_ever(program: Program) -> None:
    program.machine.per_item["add"] = 0.01 / LARGE
    buffers = pair(program)
    for _ in range(10):
        assert run(program, LARGE, 100, *buffers) == ["cut"] * 100
        program.wait()


def test_the_next_run_begins_where_the_last_one_ended(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path))
    with opened(3) as first:
        assert run(first, LARGE, 1000, *pair(first))[-1] == "free"
        first.launch("other", (LARGE,), (64,), first.buffer(4 * LARGE))
        assert ways(first) == ["cut"]
    with opened(3) as second:
        assert run(second, LARGE, 2, *pair(second)) == ["free", "free"]
        assert run(second, 8 * LARGE, 1, *pair(second, 8 * LARGE)) == ["cut"], "it is larger"
        second.launch("other", (LARGE,), (64,), second.buffer(4 * LARGE))
        assert ways(second) == ["cut"], "of which nothing was found"
        table, to = second.buffer(64 * LARGE), pair(second)
        run(second, LARGE, 1, *to)
        second.launch("add", (LARGE,), (64,), table, to[0], np.uint32(1))
        assert ways(second) == ["free"], (
            "on a larger buffer that nothing is known of, beside one that is kept"
        )
    with opened(2) as another:
        assert run(another, LARGE, 1, *pair(another)) == ["cut"], "it is another machine"


def test_what_runs_beside_others_without_plans_does_so_in_the_next_run(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nothing was ever lost by it."""
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path))
    with opened(3) as first:
        buffers = pair(first)
        run(first, LARGE, 1000, *buffers)
        first.launch("other", (LARGE,), (64,), buffers[0])
        first.launch("take", (SMALL,), (64,), buffers[0])
        assert ways(first) == ["free", "free"]
    with opened(3) as second:
        buffers = pair(second)
        second.launch("other", (LARGE,), (64,), buffers[0])
        second.launch("take", (SMALL,), (64,), buffers[0])
        assert ways(second) == ["free", "free"]
        second.launch("take", (LARGE,), (64,), second.buffer(4 * LARGE))
        assert ways(second) == ["whole"], "of large ones nothing is known"


def space(nitems: int) -> NDRange:
    return NDRange((nitems,), (64,), (0,))
