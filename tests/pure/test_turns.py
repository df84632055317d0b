"""Launches taken in turns, and memory that no step touches unless it is there; on reference workers, with poison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev.backends.base import Backend
from vdev.backends.reference import Faults, Pointer, ReferenceBackend, ReferenceProgram
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE
from vdev.executor.completion import Completion
from vdev.executor.worker_memory import WorkerMemory
from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, buffer_state
from vdev.planner.evictions import plan_evictions, propose_evictions
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.session.commands import BufferArg, Launch
from vdev.session.programs import SessionProgram
from vdev.session.session import NoRoom, Session, VirtualBuffer

from .session_program import SessionUser

LOCAL, GROUPS, KIB = 64, 32, 1024
ITEMS = LOCAL * GROUPS

SOURCE = """
__kernel void stripes(__global uint *out, __global const uint *in, uint n) {
  for (uint i = get_global_id(0); i < n; i += get_global_size(0)) out[i] += in[i] * 3;
}
__kernel void blocks(__global uint *out, __global const uint *in) {
  uint i = get_global_id(0);
  out[i] = in[i] + 1;
}
__kernel void anywhere(__global uint *out, __global const uint *in, __global const uint *index) {
  uint i = get_global_id(0);
  out[index[i]] = in[i];
}
"""


def _stripes(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    n = int(np.frombuffer(args[2], np.uint32)[0])  # type: ignore[call-overload]
    start, stop = chunk.start[0] * LOCAL, chunk.stop[0] * LOCAL
    for at in range(0, n, ndrange.global_size[0]):
        count = min(stop, n - at) - start
        if count > 0:
            args[0].view("u4", at + start, count)[:] += args[1].view("u4", at + start, count) * np.uint32(3)


def _blocks(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, count = chunk.start[0] * LOCAL, chunk.ngroups * LOCAL
    args[0].view("u4", start, count)[:] = args[1].view("u4", start, count) + np.uint32(1)


def _anywhere(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, count = chunk.start[0] * LOCAL, chunk.ngroups * LOCAL
    index = args[2].view("u4", start, count).tolist()
    for place, value in zip(index, args[1].view("u4", start, count).tolist(), strict=True):
        args[0].view("u4", place, 1)[0] = value


class Program(SessionUser):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.plans: list[Plan] = []
        program = SessionProgram(SOURCE, (), session.workers)
        functions = {"stripes": _stripes, "blocks": _blocks, "anywhere": _anywhere}
        native = ReferenceProgram(functions=functions)  # type: ignore[arg-type]
        program.build(lambda _: list(session.executor.build(native)))
        program.native = native
        self.kernels = program.kernels
        session.observers.append(lambda command, plan: self.plans.append(plan))

    def launch(self, name: str, items: int, *args: VirtualBuffer | int) -> int:
        captured = tuple(
            np.uint32(arg).tobytes() if isinstance(arg, int) else BufferArg(arg, 0, arg.nbytes)
            for arg in args
        )
        command = Launch(self.kernels[name], captured, NDRange((items,), (LOCAL,), (0,)))
        return self.session.submit(command, queue=self.queue).wait()


@contextmanager
def program(
    monkeypatch: pytest.MonkeyPatch, workers: int, kib: int, *, far: bool = True, faults: Faults | None = None
) -> Iterator[Program]:
    monkeypatch.setattr(WorkerMemory, "poisoned", True)

    def opener(number: int) -> Callable[[], Backend]:
        def open_worker() -> Backend:
            backend = ReferenceBackend(f"reference-{number}", faults, is_cpu=not far)
            backend.limit(kib * KIB)
            return backend

        return open_worker

    session = Session([opener(number) for number in range(workers)])
    try:
        yield Program(session)
        assert max(counters.peak_nbytes for counters in session.executor.counters()) <= kib * KIB
        assert all(worker.backend.counters.allocated_nbytes >= 0 for worker in session.executor.all_workers)
    finally:
        session.close()


@pytest.mark.parametrize("far", [True, False])
@pytest.mark.parametrize(("workers", "words"), [(1, 48 * KIB), (2, 96 * KIB), (4, 112 * KIB)])
def test_stripes_of_buffers_larger_than_a_worker(
    monkeypatch: pytest.MonkeyPatch, workers: int, words: int, far: bool
) -> None:
    """1.5, 3 and 3.5 times a worker's memory in each of two buffers, whose hulls no worker can hold."""
    rng = np.random.default_rng(words)
    a, b = (rng.integers(0, 1 << 32, words, dtype=np.uint32) for _ in range(2))
    with program(monkeypatch, workers, 128, far=far) as run:
        out, into = run.written(a), run.written(b)
        for _ in range(2):
            assert run.launch("stripes", ITEMS, out, into, words) == 0
        assert any("turns" in reason for reason in run.plans[-1].reasons), run.plans[-1].reasons
        np.testing.assert_array_equal(run.content(out), a + np.uint32(6) * b)
        np.testing.assert_array_equal(run.content(into), b)


def test_blocks_of_a_buffer_larger_than_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(128 * KIB, dtype=np.uint32)
    with program(monkeypatch, 2, 128) as run:
        into = run.written(data)
        out = run.session.create_buffer(data.nbytes)
        assert run.launch("blocks", data.size, out, into) == 0
        np.testing.assert_array_equal(run.content(out), data + 1)
        again = run.written(data[: 4 * KIB])
        assert run.launch("blocks", 4 * KIB, again, into) == 0, "what fits still runs as ever"
        np.testing.assert_array_equal(run.content(again), data[: 4 * KIB] + 1)


def test_a_launch_whose_work_groups_have_no_room_is_refused_and_touches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with program(monkeypatch, 2, 128) as run:
        kept = run.written(np.arange(9 * KIB, dtype=np.uint32))
        large = run.written(np.arange(64 * KIB, dtype=np.uint32))
        index = run.written(np.arange(KIB, dtype=np.uint32)[::-1].copy())
        states = [kept.state, large.state]
        with pytest.raises(NoRoom):
            run.launch("anywhere", KIB, large, kept, index)  # it may write anywhere
        np.testing.assert_array_equal(run.content(kept), np.arange(9 * KIB, dtype=np.uint32))
        np.testing.assert_array_equal(run.content(large), np.arange(64 * KIB, dtype=np.uint32))
        assert [state.initialised for state in states] == [kept.state.initialised, large.state.initialised]
        small = run.written(np.zeros(KIB, np.uint32))
        assert run.launch("anywhere", KIB, small, kept, index) == 0
        np.testing.assert_array_equal(run.content(small), np.arange(KIB, dtype=np.uint32)[::-1])


def test_memory_given_back_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poison itself: a reader that is let run after the memory is free finds it."""
    with program(monkeypatch, 1, 256) as run:
        worker = run.session.executor.worker(0)

        def use_after_free(backend: Backend) -> np.ndarray:
            allocation = worker.memory.allocate(64)
            memory = allocation.native
            assert isinstance(memory, np.ndarray)
            worker.memory.free(allocation)
            backend.record().wait()
            return memory

        assert set(run.session.executor.call(0, use_after_free).tolist()) == {0xA5}


def test_an_eviction_loses_nothing_to_the_replica_that_goes() -> None:
    """The worker that takes what is saved has a replica elsewhere, which the hull that goes covers."""
    mib = 1 << 20
    links = LinkCosts.uniform(2, peer=0.05, direct=True)
    before = buffer_state(
        400 * mib,
        [(0, Region.span(300 * mib, 310 * mib)), (1, Region.span(0, 10 * mib))],
        [(0, 0, 310 * mib), (1, 0, 10 * mib)],
    )
    plan = plan_evictions([before], 0, propose_evictions([before], 0, 1), links, [0, 1 << 40])
    assert plan.states[0].initialised == before.initialised
    assert plan.states[0].replica(0) is None


def test_a_replica_cannot_drop_the_last_holder_of_a_byte() -> None:
    before = buffer_state(1 << 20, [(0, Region.span(0, 1 << 20))], [(0, 0, 1 << 20)])
    builder = PlanBuilder([before], LinkCosts.uniform(1))
    builder.resize(0, 0, 4096, 8192)
    assert builder.finish().states[0].valid == (
        (HOST, Region.span(0, 4096) | Region.span(8192, 1 << 20)),
        (0, Region.span(4096, 8192)),
    )


def test_no_step_touches_memory_beside_the_replica_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that was to grow is refused: what the plan was to copy into it goes nowhere."""
    kib = 64
    with program(monkeypatch, 1, kib) as run:
        executor = run.session.executor
        buffer = run.session.create_buffer(1 << 20, np.zeros(1 << 20, np.uint8))
        links = LinkCosts.uniform(1)
        first, region = PlanBuilder([buffer.state], links), Region.span(1 << 19, (1 << 19) + 4096)
        first.resize(0, 0, 1 << 19, (1 << 19) + 4096)
        first.make_valid(0, 0, region)
        plan = first.finish()
        completion = Completion()
        executor.submit(executor.prepare(plan), [buffer.holdings], completion)
        assert completion.wait() == 0
        second = PlanBuilder(plan.states, links)
        second.resize(0, 0, 0, 1 << 20)  # more than there is
        second.make_valid(0, 0, Region.span(0, 4096))
        completion = Completion()
        executor.submit(executor.prepare(second.finish()), [buffer.holdings], completion)
        assert completion.wait() == MEM_OBJECT_ALLOCATION_FAILURE
        backend = executor.worker(0).backend
        assert isinstance(backend, ReferenceBackend)
        assert backend.log.count("write") == 1, backend.log
        assert not backend.failures
