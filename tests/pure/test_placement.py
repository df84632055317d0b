"""Where bytes go that the host program hands over: every byte once, evenly, and to whoever needs it next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.ranges.region import Region

from vdev.backends.reference import ReferenceBackend
from vdev.planner import instructions as plan_of
from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Copy, Download, Reserve, Upload
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LARGE_NBYTES, LinkCosts
from vdev.planner.placement import equal_blocks, place, senders
from vdev.planner.transfers import plan_fill, plan_read, plan_write
from vdev.session.commands import Fill, Read, Write
from vdev.session.session import Session

FAR = LinkCosts.uniform(4, peer=0.1, direct=True)
TWO = LinkCosts.uniform(2, peer=0.1, direct=True)
NEAR = LinkCosts.uniform(4)
SIZE = 16 << 20
span = Region.span
quarters = [span(k * SIZE // 4, (k + 1) * SIZE // 4) for k in range(4)]


def whole(worker: int) -> tuple[int, int, int]:
    return worker, 0, SIZE


def test_workers_that_share_the_hosts_memory_are_given_nothing_directly() -> None:
    assert place(buffer_state(SIZE), span(0, SIZE), NEAR) == [(HOST, span(0, SIZE))]
    state = buffer_state(SIZE, [(3, span(0, SIZE))], [whole(3)])
    assert place(state, span(100, 200), NEAR) == [(HOST, span(100, 200))]


def test_what_one_of_them_alone_uses_goes_there() -> None:
    memory = [(1, 0, 80), (2, 0, 100)]  # of which worker 2 has no use any more
    used = buffer_state(100, [(1, span(10, 80)), (HOST, span(0, 100))], memory)
    assert place(used, span(0, 80), NEAR) == [(1, span(0, 80))]
    assert place(used, span(40, 100), NEAR) == [(HOST, span(40, 100))], "it has no memory for all of it"
    both = buffer_state(100, [(1, span(0, 80)), (2, span(80, 100))], memory)
    assert place(both, span(0, 40), NEAR) == [(HOST, span(0, 40))]
    kept = buffer_state(SIZE, [(3, span(0, SIZE))], [whole(3)], kept=3)
    assert place(kept, span(100, 200), NEAR) == [(3, span(100, 200))], "launches on it run there"
    left = buffer_state(SIZE, [(3, span(0, SIZE))], [whole(3)], kept=1)
    assert place(left, span(100, 200), NEAR) == [(HOST, span(100, 200))], "they run elsewhere"


def test_a_new_large_buffer_goes_out_in_equal_blocks() -> None:
    assert place(buffer_state(SIZE), span(0, SIZE), FAR) == list(enumerate(quarters))
    middle = span(SIZE // 4 - 8, SIZE // 2)
    assert place(buffer_state(SIZE), middle, FAR) == [(0, middle & quarters[0]), (1, quarters[1])], (
        "blocks of the buffer, so that several writes of parts end as one of the whole"
    )


def test_a_new_small_buffer_goes_home() -> None:
    small = buffer_state(LARGE_NBYTES - 1)
    assert place(small, span(0, 100), FAR) == [(HOST, span(0, 100))]


def test_a_small_buffer_goes_to_all_that_hold_it() -> None:
    held = [(0, span(0, 80)), (2, span(40, 80))]
    state = buffer_state(100, held, [(0, 0, 100), (2, 0, 100)])
    assert place(state, span(20, 100), FAR) == [(0, span(20, 80)), (2, span(40, 80)), (HOST, span(80, 100))]


def test_what_one_worker_holds_goes_there() -> None:
    state = buffer_state(SIZE, [(3, span(0, SIZE))], [whole(3)])
    assert place(state, span(100, 200), FAR) == [(3, span(100, 200))]
    assert place(state, span(0, SIZE), FAR) == [(3, span(0, SIZE))]


def test_what_all_hold_goes_out_evenly() -> None:
    state = buffer_state(SIZE, [(k, span(0, SIZE)) for k in range(4)], [whole(k) for k in range(4)])
    assert place(state, span(0, SIZE), FAR) == list(enumerate(quarters))
    assert senders(state, span(0, SIZE), FAR) == list(enumerate(quarters))


def test_halos_are_sent_once() -> None:
    """Each worker holds its quarter and 4 KiB on either side."""
    held = [(k, span(max(q.start - 4096, 0), min(q.stop + 4096, SIZE))) for k, q in enumerate(quarters)]
    state = buffer_state(SIZE, held, [whole(k) for k in range(4)])
    placed = place(state, span(0, SIZE), FAR)
    assert sum(part.nbytes for _, part in placed) == SIZE
    assert all(quarters[worker].nbytes - part.nbytes <= 16384 for worker, part in placed)
    assert all(held[worker][1].contains(part) for worker, part in placed)


def test_unheld_bytes_go_where_memory_was_taken_before() -> None:
    state = buffer_state(SIZE, [(HOST, span(0, SIZE))], [(1, 0, SIZE // 2), (2, SIZE // 2, SIZE)])
    assert place(state, span(0, SIZE), FAR) == [(1, span(0, SIZE // 2)), (2, span(SIZE // 2, SIZE))]


def test_columns_are_not_sent_apart() -> None:
    """Two workers hold every other 64 bytes: the links get blocks, and the workers exchange columns."""
    rows = SIZE // 128
    held = [(k, Region.boxes(64 * k, 64, ((128, rows),))) for k in (0, 1)]
    state = buffer_state(SIZE, held, [whole(0), whole(1)])
    assert place(state, span(0, SIZE), TWO) == [(0, span(0, SIZE // 2)), (1, span(SIZE // 2, SIZE))]


def test_bytes_held_by_a_worker_on_the_host_go_home() -> None:
    links = replace(TWO, direct=(1,))
    state = buffer_state(SIZE, [(0, span(0, 8192)), (1, span(4096, 16384))], [whole(0), whole(1)])
    assert place(state, span(0, 16384), links) == [(1, span(4096, 16384)), (HOST, span(0, 4096))]


def test_the_uploads_of_a_write_wait_for_nothing() -> None:
    plan = plan_write(buffer_state(SIZE), span(0, SIZE), FAR)
    reserves = [item for item in plan.instructions if isinstance(item, Reserve)]
    assert [item for item in plan.instructions if isinstance(item, Upload)] == [
        Upload(k, 0, quarter) for k, quarter in enumerate(quarters)
    ]
    assert all(item.start <= quarters[item.worker].start for item in reserves)
    assert all(item.stop - item.start <= SIZE // 4 * 9 // 8 for item in reserves), "little more than a block"
    assert set(plan.dependencies) == {()}
    assert plan.moved == tuple((HOST, k, SIZE // 4) for k in range(4))
    (state,) = plan.states
    assert state.valid == tuple(enumerate(quarters))
    back = plan_read(state, span(0, SIZE), FAR, contiguous=True)
    assert back.instructions == tuple(Download(k, 0, quarter) for k, quarter in enumerate(quarters))
    assert set(back.dependencies) == {()}


def test_a_second_write_moves_no_memory() -> None:
    (state,) = plan_write(buffer_state(SIZE), span(0, SIZE), FAR).states
    plan = plan_write(state, span(0, SIZE), FAR)
    assert plan.instructions == tuple(Upload(k, 0, quarter) for k, quarter in enumerate(quarters))
    assert plan.states == (state,)


def test_a_rectangle_is_read_where_it_is() -> None:
    (state,) = plan_write(buffer_state(SIZE), span(0, SIZE), FAR).states
    rows = Region.boxes(100, 50, ((4096, SIZE // 4096),))
    plan = plan_read(state, rows, FAR, contiguous=False)
    assert plan.instructions == tuple(Download(k, 0, rows & quarter) for k, quarter in enumerate(quarters))


def test_a_large_fill_leaves_the_home_alone() -> None:
    plan = plan_fill(buffer_state(SIZE), 0, SIZE, bytes(4), FAR)
    assert plan.moved == ()
    assert plan.states[0].valid == tuple(enumerate(quarters))


def test_a_single_worker_fills_what_it_has_memory_for() -> None:
    at_home = [(HOST, span(0, 100))]
    for direct in (True, False):
        links = LinkCosts.uniform(1, direct=direct)
        plan = plan_fill(buffer_state(100, at_home, [(0, 0, 100)]), 40, 20, bytes(4), links)
        assert plan.instructions == (plan_of.Fill(0, 0, span(40, 60), bytes(4)),)
        assert plan.states[0].valid_at(0) == span(40, 60)
        assert plan.states[0].valid_at(HOST) == span(0, 40) | span(60, 100)
        assert plan.moved == ()
        for state in (buffer_state(100, at_home), buffer_state(100, at_home, [(0, 0, 50)])):
            assert plan_fill(state, 40, 20, bytes(4), links).states == (state,)
    several = buffer_state(100, at_home, [(0, 0, 100)])
    assert plan_fill(several, 40, 20, bytes(4), LinkCosts.uniform(2)).states == (several,)


def test_workers_of_different_kinds_exchange_by_the_home() -> None:
    links = LinkCosts.between([("a", 0.1), ("b", 0.1)], host=1.0, per_run=0.0)
    state = buffer_state(100, [(0, span(0, 100))], [(0, 0, 100), (1, 0, 100)])
    builder = PlanBuilder([state], links)
    builder.make_valid(0, 1, span(10, 20))
    plan = builder.finish()
    assert plan.instructions == (Copy(0, 0, 0, HOST, span(10, 20)), Copy(1, 0, HOST, 1, span(10, 20)))
    assert plan.dependencies == ((), (0,))


def test_everybody_gathers_from_those_that_had_it() -> None:
    """Of a buffer in quarters each worker gets the other three, none of them through a third worker."""
    state = buffer_state(SIZE, enumerate(quarters), [whole(k) for k in range(4)])
    builder = PlanBuilder([state], FAR)
    for worker in range(4):
        builder.make_valid(0, worker, span(0, SIZE))
    plan = builder.finish()
    assert set(plan.dependencies) == {()}
    assert plan.moved == tuple((s, t, SIZE // 4) for s in range(4) for t in range(4) if s != t)
    copies = [item for item in plan.instructions if isinstance(item, Copy)]
    for turn in range(3):
        sources = [[item.source for item in copies if item.target == t][turn] for t in range(4)]
        assert sorted(sources) == [0, 1, 2, 3], "no two ask the same one at once"


@st.composite
def states(draw: st.DrawFn) -> BufferState:
    nbytes = draw(st.integers(1, 60_000))
    cut = st.integers(0, nbytes)
    held, replicas = [], []
    for holder in draw(st.sets(st.integers(HOST, 3))):
        low, high = sorted((draw(cut), draw(cut)))
        if high > low:
            runs = [sorted((draw(st.integers(low, high)), draw(st.integers(low, high)))) for _ in range(3)]
            held.append((holder, Region.union(span(*run) for run in runs)))
            if holder != HOST:
                replicas.append((holder, low, high))
    return buffer_state(nbytes, held, replicas)


@settings(max_examples=80, deadline=None)
@given(states(), st.data())
def test_every_byte_goes_to_one_holder_and_comes_from_one_that_has_it(
    state: BufferState, data: st.DataObject
) -> None:
    direct = data.draw(st.sets(st.integers(0, 3)))
    links = replace(FAR, direct=tuple(sorted(direct)), large_nbytes=data.draw(st.sampled_from([1, 10_000])))
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, state.nbytes)] * 2)))
    region = span(low, high) - span((low + high) // 2, (low + 2 * high) // 3)
    placed = place(state, region, links)
    assert len({holder for holder, _ in placed}) == len(placed)
    using = {holder for holder, _ in state.valid if holder != HOST}
    alone = using if len(using) == 1 and not direct else set()
    assert {holder for holder, _ in placed} <= {HOST, *direct, *alone}
    for holder in {worker for worker, _ in placed} & alone:
        start, stop = state.replica(holder) or (0, 0)
        assert start <= region.start
        assert region.stop <= stop
    assert Region.union(part for _, part in placed) == region
    large = state.nbytes >= links.large_nbytes
    if large or not direct:
        assert sum(part.nbytes for _, part in placed) == region.nbytes
    sent = senders(state, region, links)
    assert Region.union(part for _, part in sent) == region & state.initialised
    assert sum(part.nbytes for _, part in sent) == (region & state.initialised).nbytes
    assert all(state.valid_at(holder).contains(part) for holder, part in sent)


@given(st.integers(0, 50_000), st.integers(0, 50_000), st.integers(1, 8))
def test_blocks_cover_and_do_not_overlap(start: int, nbytes: int, count: int) -> None:
    blocks = list(equal_blocks(start, start + nbytes, range(count)))
    assert Region.union(block for _, block in blocks) == span(start, start + nbytes)
    assert sum(block.nbytes for _, block in blocks) == nbytes
    assert all(block.nbytes <= nbytes / count + 4096 for _, block in blocks)


# from session to device ------------------------------------------------------------------------------


@pytest.fixture
def session() -> object:
    backends = []

    def opener(number: int) -> object:
        def open_worker() -> ReferenceBackend:
            backends.append(ReferenceBackend(f"reference-{number}", is_cpu=False))
            return backends[-1]

        return open_worker

    found = Session([opener(number) for number in range(4)])  # type: ignore[misc]
    yield found
    found.close()


def untouched(buffer: object) -> bool:
    return bool(buffer.holdings.blank) and buffer.home._memory is None  # type: ignore[attr-defined]


def test_a_large_array_never_sees_the_home(session: Session) -> None:
    queue = session.create_queue(in_order=True)
    nbytes = LARGE_NBYTES + 12345
    data = np.random.default_rng(1).integers(0, 256, nbytes, dtype=np.uint8)
    written, filled = session.create_buffer(nbytes), session.create_filled(nbytes, data)
    session.submit(Write(written, Layout.contiguous(0, nbytes), data), queue=queue)
    cleared = session.create_buffer(nbytes)
    session.submit(Fill(cleared, 0, nbytes, b"\x07"), queue=queue)
    for buffer, expected in ((written, data), (filled, data), (cleared, np.full_like(data, 7))):
        host = np.zeros_like(data)
        completion = session.submit(Read(buffer, Layout.contiguous(0, nbytes), host), queue=queue)
        assert completion.wait() == 0
        np.testing.assert_array_equal(host, expected)
        assert untouched(buffer)
    counters = session.executor.counters()
    assert sum(found.from_host for found in counters) == 2 * nbytes
    assert sum(found.to_host for found in counters) == 3 * nbytes
    assert all(abs(found.from_host - nbytes / 2) < 3 * 4096 for found in counters), "each link a quarter"


def test_a_rectangle_goes_both_ways_without_the_home(session: Session) -> None:
    queue = session.create_queue(in_order=True)
    rows, pitch, row = 1024, 2000, 900
    buffer = session.create_filled(rows * pitch, np.zeros(rows * pitch, np.uint8))
    data = np.random.default_rng(2).integers(0, 256, rows * row, dtype=np.uint8)
    layout = Layout((1, rows, row), 100, (rows * pitch, pitch), 0, (rows * row, row))
    session.submit(Write(buffer, layout, data), queue=queue)
    host = np.zeros_like(data)
    assert session.submit(Read(buffer, layout, host), queue=queue).wait() == 0
    np.testing.assert_array_equal(host, data)
    everything = np.empty(rows * pitch, np.uint8)
    session.submit(Read(buffer, Layout.contiguous(0, rows * pitch), everything), queue=queue).wait()
    expected = np.zeros((rows, pitch), np.uint8)
    expected[:, 100 : 100 + row] = data.reshape(rows, row)
    np.testing.assert_array_equal(everything.reshape(rows, pitch), expected)
    assert untouched(buffer)


def test_a_small_array_goes_home(session: Session) -> None:
    buffer = session.create_filled(100, np.arange(100, dtype=np.uint8))
    assert not untouched(buffer)
    assert all(found.from_host == 0 for found in session.executor.counters())


def test_a_replica_keeps_what_it_had_where_there_is_memory() -> None:
    """A program that goes over a buffer part by part: nothing is sent home on the way."""
    nbytes, part = 64 << 20, 4 << 20
    for gaps, sent_home in ((1 << 30, 0), (0, part)):
        links = replace(LinkCosts.uniform(2, peer=0.05, direct=True), gaps_nbytes=gaps)
        state = buffer_state(nbytes, ((0, Region.span(0, part)),), ((0, 0, part),))
        builder = PlanBuilder([state], links)
        builder.reserve(0, 0, 40 << 20, (40 << 20) + part)
        plan = builder.finish()
        moved = sum(
            item.region.nbytes for item in plan.instructions if isinstance(item, Copy) and item.target == HOST
        )
        assert moved == sent_home
        start, stop = plan.states[0].replica(0) or (0, 0)
        assert (start == 0) is (gaps > 0)
        assert stop >= (40 << 20) + part


@pytest.mark.parametrize(("halo", "most_copies"), [(4096, 7), (LARGE_NBYTES, 10), (SIZE, 16)])
def test_what_several_workers_read_comes_from_home_once(halo: int, most_copies: int) -> None:
    """If it is much, over all links alike; the edges of neighbours' blocks come with the blocks of one of them."""

    def read(chunk: Chunk) -> list[AccessRange]:
        block = quarters[chunk.start[0]]
        return [AccessRange(0, "read", span(max(block.start - halo, 0), min(block.stop + halo, SIZE)), True)]

    request = LaunchRequest((PointerArg(0, 0, 0, SIZE),), NDRange((256,), (64,), (0,)), read)
    state = buffer_state(SIZE, ((HOST, span(0, SIZE)),))
    plan = plan_launch([state], request, LaunchOptions((0, 1, 2, 3), FAR))
    copies = [item for item in plan.instructions if isinstance(item, Copy)]
    from_home = [0, 0, 0, 0]
    for item in copies:
        from_home[item.target] += item.region.nbytes if item.source == HOST else 0
    assert sum(from_home) == SIZE
    assert max(from_home) <= SIZE // 4 + (2 * halo if halo < SIZE else 8192)
    assert len(copies) <= most_copies
