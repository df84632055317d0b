"""States of buffers: interning, transitions, invariants."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vdev.translators.ranges.region import Region

from vdev.planner.directory import HOST, BufferState, Draft, buffer_state, check

SIZE = 100
spans = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(
    lambda pair: Region.span(min(pair), max(pair))
)
holders = st.integers(HOST, 2)


def test_equal_states_are_one_object() -> None:
    one = buffer_state(8, [(1, Region.span(0, 4)), (HOST, Region.span(2, 8))], [(1, 0, 8)])
    other = buffer_state(
        8,
        [(HOST, Region.from_runs([(2, 5), (5, 8)])), (1, Region.span(0, 4)), (0, Region.empty())],
        [(1, 0, 8)],
    )
    assert one is other
    assert buffer_state(8) is buffer_state(8)
    assert buffer_state(8) is not buffer_state(9)
    assert pickle.loads(pickle.dumps(one)) is one
    assert copy.deepcopy(one) is one


def test_what_a_state_answers() -> None:
    state = buffer_state(8, [(HOST, Region.span(2, 5)), (1, Region.span(0, 4))], [(1, 0, 8)])
    assert state.valid_at(1) == Region.span(0, 4)
    assert state.valid_at(0) == Region.empty()
    assert state.initialised == Region.span(0, 5)
    assert state.replica(1) == (0, 8)
    assert state.replica(0) is None


def test_a_draft_that_nothing_happened_to_is_the_state() -> None:
    state = buffer_state(8, [(HOST, Region.span(0, 8))])
    draft = Draft(state)
    draft.forget(Region.empty())
    assert draft.freeze() is state


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "own", "forget", "reserve", "free"]), holders, spans), max_size=12
    )
)
def test_drafts_keep_the_invariants(steps: list[tuple[str, int, Region]]) -> None:
    """Against sets of bytes; a worker's replica is made to cover what it is given, as plans do."""
    draft = Draft(buffer_state(SIZE))
    model: dict[int, set[int]] = {holder: set() for holder in range(HOST, 3)}
    for action, holder, region in steps:
        bytes_of = {byte for start, stop in region.runs.tolist() for byte in range(start, stop)}
        if action in ("add", "own"):
            if holder != HOST and region:
                old = draft.replicas.get(holder, (region.start, region.stop))
                draft.reserve(holder, min(old[0], region.start), max(old[1], region.stop))
            if action == "own":
                draft.own(holder, region)
                model = {other: held - bytes_of for other, held in model.items()}
            else:
                draft.add(holder, region)
            model[holder] |= bytes_of
        elif action == "forget":
            draft.forget(region)
            model = {other: held - bytes_of for other, held in model.items()}
        elif holder != HOST and (region or action == "free"):
            start, stop = (region.start, region.stop) if action == "reserve" else (0, 0)
            kept = draft.reserve(holder, start, stop)
            model[holder] &= set(range(start, stop))
            assert kept.nbytes == len(model[holder])
        state = draft.freeze()
        check(state)
        for other, held in model.items():
            assert {
                b for start, stop in state.valid_at(other).runs.tolist() for b in range(start, stop)
            } == held
            elsewhere = set().union(*(bytes_ for third, bytes_ in model.items() if third != other))
            assert draft.held_alone(other, Region.span(0, SIZE)).nbytes == SIZE - len(elsewhere)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: BufferState(8, ((0, Region.span(0, 4)),), ()),  # bytes without a replica
        lambda: BufferState(8, ((0, Region.span(0, 4)),), ((0, 2, 8),)),  # outside the replica
        lambda: BufferState(8, ((HOST, Region.span(0, 9)),), ()),  # outside the buffer
        lambda: BufferState(8, ((HOST, Region.empty()),), ()),  # an entry that says nothing
        lambda: BufferState(8, (), ((0, 0, 9),)),  # a replica outside the buffer
        lambda: BufferState(8, (), ((0, 4, 4),)),  # an empty replica
        lambda: BufferState(8, (), ((HOST, 0, 8),)),  # the home as a replica
        lambda: BufferState(8, ((0, Region.span(0, 4)), (HOST, Region.span(0, 4))), ((0, 0, 8),)),  # unsorted
        lambda: BufferState(8, (), ()),  # not interned
    ],
)
def test_the_check_finds_what_is_wrong(wrong: object) -> None:
    with pytest.raises(AssertionError):
        check(wrong())  # type: ignore[operator]
