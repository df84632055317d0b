"""Bytes that several workers change, merged on the workers: as in the home, and without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.grain import Grain, joined, of_store, of_unit
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev.backends import merging
from vdev.backends.merging import Bytes, blocks, combine, combine_changes, copy_changed_rows, rows_of
from vdev.backends.reference import Faults, Pointer, ReferenceBackend, ReferenceProgram
from vdev.errors import OUT_OF_RESOURCES
from vdev.planner.directory import HOST, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Combine, Copy, Fetch, Gather, Merge, Plan, Restore
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.merges import identity_of
from vdev.session.commands import BufferArg, Launch
from vdev.session.programs import SessionProgram
from vdev.session.session import Session, VirtualBuffer

from .machine import reference_openers
from .session_program import SessionUser

LOCAL, WORDS = 64, 1 << 18
BINS = 128
span = Region.span

SOURCE = """
__kernel void scatter(__global uint *out, __global const uint *index) {
  size_t i = get_global_id(0);
  out[index[i]] = i + 7;
}
__kernel void count(__global uint *bins, __global const uint *in) {
  atomic_inc(&bins[in[get_global_id(0)] % 128]);
}
"""


def _items(ndrange: NDRange, chunk: Chunk) -> tuple[int, int]:
    return chunk.start[0] * LOCAL, chunk.stop[0] * LOCAL


def _scatter(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = _items(ndrange, chunk)
    out = args[0].view("u4", 0, WORDS)
    out[args[1].view("u4", start, stop - start)] = np.arange(start, stop) + 7


def _count(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = _items(ndrange, chunk)
    np.add.at(args[0].view("u4", 0, BINS), args[1].view("u4", start, stop - start) % BINS, 1)


class Program(SessionUser):
    """A session on four reference workers that merge."""

    def __init__(self, faults: dict[int, Faults] | None = None) -> None:
        self.backends: list[ReferenceBackend] = []
        super().__init__(Session(reference_openers(4, self.backends, faults, is_cpu=False)))
        self.backends.sort(key=lambda backend: backend.info.name)
        program = SessionProgram(SOURCE, (), self.session.workers)
        native = ReferenceProgram(functions={"scatter": _scatter, "count": _count})  # type: ignore[dict-item]
        program.build(lambda _: list(self.session.executor.build(native)))
        program.native = native
        self.kernels = program.kernels

    def launch(self, name: str, first: VirtualBuffer, second: VirtualBuffer) -> int:
        args = (BufferArg(first, 0, first.nbytes), BufferArg(second, 0, second.nbytes))
        command = Launch(self.kernels[name], args, NDRange((WORDS,), (LOCAL,), (0,)))
        return self.session.submit(command, queue=self.queue).wait()


@pytest.fixture
def run() -> Iterator[Program]:
    program = Program()
    yield program
    program.session.close()


def test_a_scatter_never_sees_the_host(run: Program) -> None:
    rng = np.random.default_rng(1)
    index = rng.permutation(WORDS).astype(np.uint32)
    old = rng.integers(0, 2**32, WORDS, dtype=np.uint32)
    index[::3] = index[0]  # many to one place: the last chunk's counts
    index[-1] = index[0]
    out, into = run.written(old), run.written(index)
    expected = old.copy()
    assert run.launch("scatter", out, into) == 0
    expected[index] = np.arange(WORDS) + 7
    assert sum(backend.counters.to_host for backend in run.backends) == 0
    assert [backend.counters.from_host for backend in run.backends] == [2 * WORDS] * 4
    assert all(backend.counters.merged for backend in run.backends), "each merges a part"
    np.testing.assert_array_equal(run.content(out), expected)
    assert out.home._memory is None
    assert {holder for holder, _ in out.state.valid} == {0, 1, 2, 3}


def test_counting_never_sees_the_host(run: Program) -> None:
    data = np.random.default_rng(2).integers(0, 2**32, WORDS, dtype=np.uint32)
    bins, source = run.written(np.full(BINS, 1000, np.uint32)), run.written(data)
    for _ in range(3):
        assert run.launch("count", bins, source) == 0
    assert sum(backend.counters.to_host for backend in run.backends) == 0
    expected = np.bincount(data % BINS, minlength=BINS).astype(np.uint32) * 3 + 1000
    np.testing.assert_array_equal(run.content(bins), expected)
    assert sum(backend.counters.merged > 0 for backend in run.backends) == 1, "so little is merged by one"


def test_memory_for_merges_is_given_back(run: Program) -> None:
    index = np.arange(WORDS, dtype=np.uint32)
    out, into = run.written(index), run.written(index)
    assert run.launch("scatter", out, into) == 0
    run.session.executor.quiesce()
    for number, backend in enumerate(run.backends):
        held = sum(
            stop - start
            for buffer in (out, into)
            for holder, start, stop in buffer.state.replicas
            if holder == number
        )
        assert backend.counters.allocated_nbytes == held
    assert run.session.room.occupancy.taken == [backend.counters.allocated_nbytes for backend in run.backends]


def test_memory_for_merges_is_given_back_after_a_failure() -> None:
    counted = Program()
    index = np.arange(WORDS, dtype=np.uint32)
    counted.launch("scatter", counted.written(index), counted.written(index))
    counted.session.executor.quiesce()
    merge = counted.backends[2].log.index("merge")
    counted.session.close()
    run = Program({2: Faults(refuse={merge: OUT_OF_RESOURCES})})
    out, into = run.written(index), run.written(index)
    assert run.launch("scatter", out, into) == OUT_OF_RESOURCES
    del out, into
    assert run.launch("scatter", run.written(index), run.written(index)) == 0
    run.session.executor.quiesce()
    run.session.executor.call(2, lambda backend: None)
    run.session.executor.quiesce()
    assert run.backends[2].counters.allocated_nbytes < 4 * WORDS * 2, "at most the replicas of two buffers"
    run.session.close()


# plans ----------------------------------------------------------------------------------------------

FAR = LinkCosts.uniform(4, peer=0.1, direct=True)


def scattered(nbytes: int, links: LinkCosts = FAR) -> Plan:
    """Four chunks that may write anywhere."""
    state = buffer_state(nbytes, [(0, span(0, nbytes))], [(0, 0, nbytes)])
    everywhere = AccessRange(0, "write", span(0, nbytes), False)
    request = LaunchRequest(
        (PointerArg(0, 0, 0, nbytes),), NDRange((256,), (64,), (0,)), lambda _: [everywhere]
    )
    return plan_launch([state], request, LaunchOptions((0, 1, 2, 3), links))


def of_kind(plan: Plan, *kinds: type) -> list[object]:
    return [item for item in plan.instructions if isinstance(item, kinds)]


def test_large_merges_are_shared_out() -> None:
    nbytes = 4 << 20
    plan = scattered(nbytes)
    blocks = [span(k << 20, (k + 1) << 20) for k in range(4)]
    assert plan.states[0].valid == tuple(enumerate(blocks))
    assert not of_kind(plan, Fetch, Merge)
    assert [item.region for item in of_kind(plan, Restore)] == blocks  # type: ignore[attr-defined]
    assert len(of_kind(plan, Combine)) == 16
    assert len([item for item in of_kind(plan, Gather) if item.source != item.worker]) == 12  # type: ignore[attr-defined]
    assert all(source != HOST and target != HOST for source, target, _ in plan.moved)
    # everything once to three others, and three versions of each block
    assert plan.moved_nbytes == 3 * nbytes + 3 * nbytes
    assert "compared with a twin" in plan.reasons[0]


def test_a_stage_at_a_time_is_what_a_merge_takes() -> None:
    nbytes = 4 << 20
    for worker, more, most in scattered(nbytes).growth:
        assert more == (0 if worker == 0 else nbytes)
        assert most == more + 3 * (nbytes // 4), "twin, result and one version"


def test_small_merges_are_one_workers() -> None:
    plan = scattered(4096)
    assert plan.states[0].valid == ((0, span(0, 4096)),)
    assert {item.worker for item in of_kind(plan, Combine)} == {0}  # type: ignore[attr-defined]


def test_workers_that_cannot_merge_leave_it_to_the_home() -> None:
    for links in (
        replace(FAR, merging=(0, 1, 2)),
        LinkCosts.between(
            [("a", 0.1)] * 2 + [("b", 0.1)] * 2, host=1.0, per_run=0.0, direct=range(4), merging=range(4)
        ),
    ):
        plan = scattered(4096, links)
        assert len(of_kind(plan, Merge)) == 1
        assert not of_kind(plan, Gather, Combine, Restore)
        assert of_kind(plan, Copy)


# the back end's part --------------------------------------------------------------------------------


grains = st.one_of(
    st.sampled_from([1, 2, 4, 8, 16]).map(of_unit),
    st.lists(
        st.tuples(st.integers(1, 24), st.integers(0, 99), st.integers(1, 16)), min_size=1, max_size=3
    ).map(lambda stores: joined(of_store(*store) for store in stores)),
)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_reference_merges_unit_by_unit(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    grain = data.draw(grains)
    size = 256
    target, stage, twin = (rng.integers(0, 3, size, dtype=np.uint8) for _ in range(3))
    cut = st.integers(16, 16 + size - 1)
    region = Region.union(span(*sorted((data.draw(cut), data.draw(cut)))) for _ in range(3))
    backend = ReferenceBackend(is_cpu=False)
    memories = []
    for content in (target, stage, twin):
        memory = backend.allocate(size)
        memory.native[:] = content  # type: ignore[index]
        memories.append(memory)
    backend.merge(memories[0], 16, memories[1], 16, memories[2], 16, region, "diff", "V1", grain)
    backend.record().wait()
    backend.close()
    np.testing.assert_array_equal(memories[0].native, merged(target, stage, twin, region, grain))


def merged(target: Bytes, stage: Bytes, twin: Bytes, region: Region, grain: Grain) -> Bytes:
    """What is to come out, of memories that begin at byte 16 of the buffer."""
    expected = target.copy()
    for start, stop in region.runs.tolist():
        at = start
        while at < stop:
            end = at + 1
            while end < stop and end % grain.period not in grain.cuts:
                end += 1
            part = slice(at - 16, end - 16)
            if (stage[part] != twin[part]).any():
                expected[part] = stage[part]
            at = end
    return expected


# the host's part ------------------------------------------------------------------------------------

#: rows: first byte, bytes in each, how many, and the bytes between two of them
rows = st.tuples(st.integers(16, 80), st.integers(1, 24), st.integers(1, 9), st.integers(1, 24))


@settings(max_examples=300, deadline=None)
@given(grains, st.lists(rows, min_size=1, max_size=2), st.integers(0, 2**32 - 1))
def test_the_host_merges_rows_unit_by_unit(
    grain: Grain, shapes: list[tuple[int, int, int, int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    target, stage, twin = (rng.integers(0, 3, 512, dtype=np.uint8) for _ in range(3))
    region = Region.union(
        span(first, first + nbytes).shift(row * (nbytes + between))
        for first, nbytes, count, between in shapes
        for row in range(count)
    )
    expected = merged(target, stage, twin, region, grain)

    for block in blocks(region):
        copy_changed_rows(*(rows_of(memory, 16, block) for memory in (target, stage, twin)), block, grain)

    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(("op", "dtype"), [("add", "<u4"), ("min", "<i2"), ("max", "<f8"), ("xor", "<u8")])
def test_the_host_combines_members_of_structures(op: str, dtype: str) -> None:
    rng, count, size = np.random.default_rng(0), 50, np.dtype(dtype).itemsize
    home, stage = (rng.integers(1, 99, (count, 3)).astype(dtype) for _ in range(2))
    home[::2, 1] = stage[::3, 1] = np.frombuffer(identity_of(op, dtype), dtype)
    region = Region.boxes(16 + size, size, [(3 * size, count)])
    operation = {"add": np.add, "min": np.minimum, "max": np.maximum, "xor": np.bitwise_xor}[op]
    for apart in (False, True):
        into = home.copy()
        (block,) = blocks(region)
        target, part = (rows_of(values.view(np.uint8).ravel(), 16, block) for values in (into, stage))
        if apart:
            combine_changes(target, part, op, dtype, identity_of(op, dtype))
        else:
            combine(target, part, op, dtype)

        np.testing.assert_array_equal(into[:, 1], operation(home[:, 1], stage[:, 1]))
        np.testing.assert_array_equal(into[:, ::2], home[:, ::2])


def test_a_long_row_costs_no_step_for_each_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_places", lambda *_: pytest.fail("unit by unit"))
    region = span(16, 4016) | span(5016, 9016)
    memories = [np.full(10000, value, np.uint8) for value in (0, 1, 2)]

    for block in blocks(region):
        copy_changed_rows(*(rows_of(memory, 0, block) for memory in memories), block, of_unit(4))

    assert np.flatnonzero(memories[0]).tolist() == [*range(16, 4016), *range(5016, 9016)]


def test_a_member_of_many_structures_costs_no_step_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    count, units = 1000, []
    copy_unit = merging._copy_unit
    monkeypatch.setattr(merging, "_copy_unit", lambda *rows: units.append(len(rows[0])) or copy_unit(*rows))
    monkeypatch.setattr(merging, "copy_changes", lambda *_: pytest.fail("one row by itself"))
    region = Region.boxes(16, 4, [(24, count)])
    memories = [np.full(24 * count, value, np.uint8) for value in (0, 1, 2)]

    (block,) = blocks(region)
    copy_changed_rows(*(rows_of(memory, 16, block) for memory in memories), block, of_store(24, 16, 4))

    assert units == [count]
    assert memories[0].reshape(count, 24).tolist() == [[1] * 4 + [0] * 20] * count
