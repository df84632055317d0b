"""Cuts for what later launches read: which there are, and whether later launches then bring what was foretold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev.planner import launch_search, successors
from vdev.planner.directory import BufferState, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Plan
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.successors import Reading, Successors, readings_of


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both what is read later and in which order workers run chunks count, for however few bytes.

    One without the other, a reader that found its chunks' data on other workers than the usual ones is planned on the usual
    ones once less than `REORDER_NBYTES` would have to move, and moves that.
    """
    monkeypatch.setattr(successors, "LEAST_NBYTES", 1)
    monkeypatch.setattr(launch_search, "REORDER_NBYTES", 1)


def writer(size: int, each: int) -> Callable[[Chunk], Sequence[AccessRange]]:
    """Work-group g writes the `each` bytes from g * each on."""

    def evaluate(chunk: Chunk) -> Sequence[AccessRange]:
        parts = [Region.span(each * box.start[0], min(each * box.stop[0], size)) for box in chunk.boxes()]
        return (AccessRange(0, "write", Region.union(parts), True),)

    return evaluate


def strider(size: int, each: int, groups: int) -> Callable[[Chunk], Sequence[AccessRange]]:
    """Of `groups` work-groups each reads `each` bytes at a time, in strides of all of them."""

    def evaluate(chunk: Chunk) -> Sequence[AccessRange]:
        (start,), (stop,) = chunk.start, chunk.stop
        width, period = each * (stop - start), each * groups
        count = -(-size // period)
        found = Region.boxes(each * start, width, ((period, count),)).clip(0, size)
        return (AccessRange(0, "read", found, True),) if found else ()

    return evaluate


def plan(
    state: BufferState,
    groups: int,
    evaluate: Callable[[Chunk], Sequence[AccessRange]],
    workers: int,
    *readings: Reading,
    in_turn: bool = False,
) -> Plan:
    request = LaunchRequest(
        (PointerArg(0, 0, 0, state.nbytes),),
        NDRange((groups,), (1,), (0,)),
        evaluate,
        readings={0: readings} if readings else {},
        in_turn=in_turn,
    )
    return plan_launch(
        [state], request, LaunchOptions(tuple(range(workers)), LinkCosts.uniform(workers, peer=0.1))
    )


@settings(max_examples=150, deadline=None)
@example(workers=5, each=1000, write_each=1, groups=37, rounds=3, short=0)
@given(
    workers=st.integers(2, 5),
    each=st.sampled_from([4, 64, 1000]),
    write_each=st.sampled_from([1, 2, 3]),
    groups=st.integers(5, 40),
    rounds=st.integers(3, 9),
    short=st.integers(0, 70),
)
def test_results_written_in_stripes_are_not_moved_again(
    workers: int, each: int, write_each: int, groups: int, rounds: int, short: int
) -> None:
    size = max(each * groups * rounds - short, 1)
    wide = each * write_each
    written, read = writer(size, wide), strider(size, each, groups)
    of_writer = -(-size // wide)
    evenly = plan(buffer_state(size), of_writer, written, workers)
    brings = plan(evenly.states[0], groups, read, workers)
    found = dict(readings_of(brings))
    if not found:
        return
    again = plan(brings.states[0], of_writer, written, workers, found[0])
    later = plan(again.states[0], groups, read, workers)
    assert later.moved_nbytes <= brings.moved_nbytes
    edges = [part[1].start for part in found[0].parts]
    if all(edge % wide == 0 for edge in (*edges, each * groups)) and 2 * each * groups <= of_writer * wide:
        assert later.moved_nbytes == 0
        assert all(chunk.cycle is not None for _, chunk in again.partition)


def test_blocks_in_turn_leave_nothing_to_be_brought() -> None:
    size, groups = 1 << 16, 8
    written, read = writer(size, 256), strider(size, 256, groups)
    evenly = plan(buffer_state(size), size // 256, written, 2)
    brings = plan(evenly.states[0], groups, read, 2)
    (reading,) = dict(readings_of(brings)).values()
    again = plan(brings.states[0], size // 256, written, 2, reading)
    assert all(chunk.cycle is not None for _, chunk in again.partition)
    assert brings.moved_nbytes > 0
    assert plan(again.states[0], groups, read, 2).moved_nbytes == 0


def reader(size: int, each: int) -> Callable[[Chunk], Sequence[AccessRange]]:
    """Work-group g reads the `each` bytes from g * each on."""
    written = writer(size, each)
    return lambda chunk: [AccessRange(0, "read", access.region, True) for access in written(chunk)]


@settings(max_examples=100, deadline=None)
@given(
    workers=st.integers(2, 5),
    each=st.sampled_from([4, 64, 1000]),
    groups=st.integers(5, 40),
    rounds=st.integers(3, 9),
    short=st.integers(0, 70),
)
def test_what_lies_in_stripes_is_read_where_it_lies(
    workers: int, each: int, groups: int, rounds: int, short: int
) -> None:
    size = max(each * groups * rounds - short, 1)
    of_reader = -(-size // each)
    evenly = plan(buffer_state(size), of_reader, writer(size, each), workers)
    brings = plan(evenly.states[0], groups, strider(size, each, groups), workers)
    found = dict(readings_of(brings))
    if not found:
        return
    striped = plan(brings.states[0], of_reader, writer(size, each), workers, found[0]).states[0]
    even, along = (
        plan(striped, of_reader, reader(size, each), workers, in_turn=in_turn) for in_turn in (False, True)
    )
    assert all(chunk.cycle is None for _, chunk in even.partition), "it needs kernels that nobody has made"
    assert along.moved_nbytes <= even.moved_nbytes
    assert sum(chunk.ngroups for _, chunk in along.partition) == of_reader
    if all(len(region.blocks()) > 1 for _, region in striped.valid) and 2 * groups <= of_reader:
        assert along.moved_nbytes == 0


def test_a_reader_of_stripes_is_cut_along_them() -> None:
    size, groups = 1 << 16, 8
    evenly = plan(buffer_state(size), size // 256, writer(size, 256), 2)
    brings = plan(evenly.states[0], groups, strider(size, 256, groups), 2)
    (reading,) = dict(readings_of(brings)).values()
    striped = plan(brings.states[0], size // 256, writer(size, 256), 2, reading).states[0]
    along = plan(striped, size // 256, reader(size, 256), 2, in_turn=True)
    assert all(chunk.cycle is not None for _, chunk in along.partition)
    assert along.reasons == ("cut into blocks of 4, 4 work-groups in turn, as its data lies",)
    assert along.moved_nbytes == 0
    assert plan(striped, size // 256, reader(size, 256), 2).moved_nbytes > 0


def test_what_is_read_again_and_again_counts_more_than_what_is_brought_once() -> None:
    """An input that lies in blocks is brought to stripes of the same size once; what is written in blocks is brought with each reading."""
    size, groups, workers = 1 << 16, 8, 2
    inputs = plan(buffer_state(size), size // 256, writer(size, 256), workers).states[0]
    brings = plan(inputs, groups, strider(size, 256, groups), workers)
    (reading,) = dict(readings_of(brings)).values()

    def evaluate(chunk: Chunk) -> Sequence[AccessRange]:
        return [
            *writer(size, 256)(chunk),
            *(AccessRange(1, "read", each.region, True) for each in writer(size, 256)(chunk)),
        ]

    request = LaunchRequest(
        (PointerArg(0, 0, 0, size), PointerArg(1, 1, 0, size)),
        NDRange((size // 256,), (1,), (0,)),
        evaluate,
        readings={0: (reading,)},
    )
    options = LaunchOptions(tuple(range(workers)), LinkCosts.uniform(workers, peer=0.1))
    found = plan_launch([brings.states[0], inputs], request, options)
    assert all(chunk.cycle is not None for _, chunk in found.partition)


def test_a_reading_counts_once_it_was_seen_twice() -> None:
    known, reading = Successors(), Reading(((0, Region.span(0, 4)), (1, Region.span(4, 8))))
    assert not known.note("here", reading)
    assert not known
    assert known.of("here") == ()
    assert known.note("here", reading), "it may be used"
    assert not known, "it is not yet"
    assert known.of("here") == ()
    known.use("here")
    assert known
    assert known.of("here") == (reading,)
    assert known.of("elsewhere") == ()
    assert not known.note("here", reading), "once"


def test_readers_that_disagree_are_all_kept_in_mind() -> None:
    known = Successors()
    readings = [Reading(((0, Region.span(0, at)), (1, Region.span(at, 8)))) for at in range(1, 8)]
    for reading in readings * 2:
        known.note("here", reading)
    known.use("here")
    assert known.of("here") == tuple(readings[:4]), "of many the first"
