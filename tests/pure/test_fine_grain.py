"""Fine-grain buffers: what workers with memory of their own are brought for each command and bring home after it,
while the host uses the same memory without a word.

Kernels here are Python functions, so that the host can be made to write in the middle of one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.ranges.region import Region

from vdev.backends.merging import combine_changes
from vdev.backends.reference import Faults, Pointer, ReferenceBackend, ReferenceProgram
from vdev.errors import OUT_OF_RESOURCES
from vdev.executor.completion import Completion
from vdev.planner.directory import HOST, BufferState, buffer_state, check, fine_grain_state, kept_on
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Copy, Fetch, Merge, Plan
from vdev.planner.instructions import Launch as LaunchInstruction
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.merges import identity_of
from vdev.planner.transfers import Box, plan_copy, plan_fill, plan_write
from vdev.session.commands import BufferArg, CopyBuffer, Fill, Launch, Map, Migrate, Read, Unmap, Write
from vdev.session.programs import SessionProgram
from vdev.session.session import Session, VirtualBuffer

from .machine import reference_openers

LOCAL, WORDS, BINS = 64, 1024, 128
span = Region.span

SOURCE = """
__kernel void add(__global uint *out, __global const uint *in) {
  size_t i = get_global_id(0);
  out[i] += in[i];
}
__kernel void scatter(__global uint *out, __global const uint *index) {
  out[index[get_global_id(0)]] = get_global_id(0) + 7;
}
__kernel void count(__global uint *bins, __global const uint *in) {
  atomic_inc(&bins[in[get_global_id(0)] % 128]);
}
"""


def _items(chunk: Chunk) -> tuple[int, int]:
    return chunk.start[0] * LOCAL, chunk.stop[0] * LOCAL


def _add(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = _items(chunk)
    args[0].view("u4", start, stop - start)[:] += args[1].view("u4", start, stop - start)


def _scatter(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = _items(chunk)
    args[0].view("u4", 0, WORDS)[args[1].view("u4", start, stop - start)] = np.arange(start, stop) + 7


def _count(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = _items(chunk)
    np.add.at(args[0].view("u4", 0, BINS), args[1].view("u4", start, stop - start) % BINS, 1)


class Program:
    """A session on reference workers, and fine-grain memory that the test, as the host, reads and writes itself."""

    def __init__(self, workers: int, *, far: bool, faults: dict[int, Faults] | None = None) -> None:
        """`far`: they are what GPUs are, with transfers of their own and merges; else they share a machine's CPU."""
        self.backends: list[ReferenceBackend] = []
        self.session = Session(reference_openers(workers, self.backends, faults, is_cpu=not far))
        self.backends.sort(key=lambda backend: backend.info.name)
        self.queue = self.session.create_queue(in_order=True)
        self.plans: list[Plan] = []
        self.session.observers.append(lambda command, plan: self.plans.append(plan))
        self.meanwhile: Callable[[], None] = lambda: None
        program = SessionProgram(SOURCE, (), self.session.workers)
        functions: Any = {
            function.__name__[1:]: self._interrupted(function) for function in (_add, _scatter, _count)
        }
        native = ReferenceProgram(functions=functions)
        program.build(lambda _: list(self.session.executor.build(native)))
        program.native = native
        self.kernels = program.kernels

    def _interrupted(self, function: Callable[..., None]) -> Callable[..., None]:
        """A kernel in the middle of which the host does something."""

        def run(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
            self.meanwhile()
            function(args, ndrange, chunk)

        return run

    def memory(self, content: np.ndarray, *, fine: bool = True) -> tuple[VirtualBuffer, np.ndarray]:
        """A buffer, and its home for the host to use."""
        home = content.astype(np.uint32)
        return self.session.create_buffer(home.nbytes, home.view(np.uint8), fine=fine), home

    def submit(self, command: Any) -> Completion:
        return self.session.submit(command, queue=self.queue)

    def launch(self, name: str, *buffers: VirtualBuffer) -> Completion:
        args = tuple(BufferArg(buffer, 0, buffer.nbytes) for buffer in buffers)
        return self.submit(Launch(self.kernels[name], args, NDRange((WORDS,), (LOCAL,), (0,))))


@pytest.fixture(params=[(1, False), (3, False), (4, True)], ids=["one", "near", "far"])
def run(request: pytest.FixtureRequest) -> Iterator[Program]:
    workers, far = request.param
    program = Program(workers, far=far)
    yield program
    program.session.close()


# what the host and the kernels see of each other ------------------------------------------------------


def test_neither_needs_a_command_to_see_the_other(run: Program) -> None:
    """Repeated launches, the host changing what they read and what they wrote between any two of them."""
    rng = np.random.default_rng(1)
    (out, seen), (into, given) = (run.memory(rng.integers(0, 1000, WORDS)) for _ in range(2))
    for number in range(50):
        given[rng.integers(0, WORDS, 9)] = number
        seen[rng.integers(0, WORDS, 9)] = number
        expected = seen + given
        assert run.launch("add", out, into).wait() == 0
        np.testing.assert_array_equal(seen, expected)
    moved = [plan.moved_nbytes for plan in run.plans]
    counted = [backend.counters for backend in run.backends]
    assert sum(moved) == sum(item.from_host + item.to_host + item.from_peer for item in counted)
    assert moved[-1] == 3 * 4 * WORDS, "both there, one of them back"


def test_queues_in_any_order(run: Program) -> None:
    loose = run.session.create_queue(in_order=False)
    (out, seen), (into, _) = run.memory(np.zeros(WORDS)), run.memory(np.ones(WORDS))
    args = tuple(BufferArg(buffer, 0, buffer.nbytes) for buffer in (out, into))
    after: tuple[Completion, ...] = ()
    for _ in range(6):
        command = Launch(run.kernels["add"], args, NDRange((WORDS,), (LOCAL,), (0,)))
        after = (run.session.submit(command, after, queue=loose),)
    assert after[0].wait() == 0
    assert (seen == 6).all()


def test_a_command_that_waits_for_the_host_sees_what_it_then_wrote(run: Program) -> None:
    (out, seen), (into, given) = run.memory(np.zeros(WORDS)), run.memory(np.ones(WORDS))
    gate = run.session.user_completion()
    args = tuple(BufferArg(buffer, 0, buffer.nbytes) for buffer in (out, into))
    command = Launch(run.kernels["add"], args, NDRange((WORDS,), (LOCAL,), (0,)))
    done = run.session.submit(command, (gate,), queue=run.queue)
    given[:] = 5
    gate.set_status(0)
    assert done.wait() == 0
    assert (seen == 5).all()


@pytest.mark.parametrize("name", ["scatter", "count"])
def test_the_host_may_use_other_bytes_meanwhile(run: Program, name: str) -> None:
    """Of bytes that a kernel may write it writes some, and the host has others: neither loses anything."""
    rng = np.random.default_rng(2)
    size = WORDS if name == "scatter" else BINS
    out, seen = run.memory(rng.integers(10, 1000, size))
    index, given = run.memory(rng.permutation(WORDS) // 2 * 2 % size)  # even places
    hosts = np.arange(1, size, 2)
    values, turn = iter(range(10_000, 20_000)), threading.Lock()

    def write() -> None:
        with turn:  # workers run at the same time
            seen[hosts] = next(values)

    run.meanwhile = write
    for _ in range(3):
        expected = seen.copy()
        assert run.launch(name, out, index).wait() == 0
        if name == "count":
            np.add.at(expected, given % BINS, 1)
            np.testing.assert_array_equal(seen[::2], expected[::2])
        else:
            assert set(given[seen[::2] - 7]) == set(range(0, size, 2)), (
                "each place has the number of one of its items"
            )
        assert (seen[hosts] >= 10_000).all()
        assert (seen[hosts] == next(values) - 1).all(), "the host's last"


def test_a_write_of_what_was_there_before_counts(run: Program) -> None:
    """The content is another in each launch: no twin may be older than what its worker was given."""
    out, seen = run.memory(np.zeros(WORDS))
    index, _ = run.memory(np.arange(WORDS))
    for value in (3, 0, 3):
        seen[:] = value
        assert run.launch("scatter", out, index).wait() == 0
        np.testing.assert_array_equal(seen, np.arange(WORDS) + 7)


def test_beside_other_buffers(run: Program) -> None:
    """A buffer that is not fine-grain stays on the workers that wrote it."""
    fine, given = run.memory(np.ones(WORDS))
    coarse, _ = run.memory(np.zeros(WORDS), fine=False)
    for number in range(1, 4):
        given[:] = number
        assert run.launch("add", coarse, fine).wait() == 0
    assert run.plans[-1].moved_nbytes == 4 * WORDS
    found = np.zeros(WORDS, np.uint32)
    read = Read(coarse, Layout.contiguous(0, 4 * WORDS), found.view(np.uint8))
    assert run.submit(read).wait() == 0
    assert (found == 6).all()


def test_other_commands_work_at_home(run: Program) -> None:
    nbytes = 4 * WORDS
    (one, first), (other, second) = run.memory(np.zeros(WORDS)), run.memory(np.zeros(WORDS))
    coarse, _ = run.memory(np.ones(WORDS), fine=False)
    assert run.launch("add", one, other).wait() == 0
    assert run.submit(Fill(one, 0, nbytes, np.uint32(9).tobytes())).wait() == 0
    assert (first == 9).all()
    whole = Layout.contiguous(0, nbytes)
    assert run.submit(Write(other, whole, np.full(WORDS, 4, np.uint32).view(np.uint8))).wait() == 0
    assert (second == 4).all()
    second[:7] = 1
    assert run.submit(CopyBuffer(other, one, (1, 1, nbytes), 0, (nbytes,) * 2, 0, (nbytes,) * 2)).wait() == 0
    np.testing.assert_array_equal(first, second)
    assert run.launch("add", coarse, one).wait() == 0
    assert run.submit(CopyBuffer(coarse, one, (1, 1, nbytes), 0, (nbytes,) * 2, 0, (nbytes,) * 2)).wait() == 0
    np.testing.assert_array_equal(first, second + 1)
    mapping = Map(one, 0, nbytes, read=True, write=True)
    assert run.submit(mapping).wait() == 0
    first[:] = 77
    assert run.submit(Unmap(mapping)).wait() == 0
    assert run.submit(Migrate((one, other), to_host=False)).wait() == 0
    assert run.launch("add", one, other).wait() == 0
    np.testing.assert_array_equal(first, second + 77)


# failures ---------------------------------------------------------------------------------------------


def launch_step(far: bool) -> int:
    """Which of the worker's operations the first launch is."""
    run = Program(1, far=far)
    out, into = run.memory(np.zeros(WORDS))[0], run.memory(np.ones(WORDS))[0]
    run.launch("add", out, into).wait()
    run.session.close()
    return run.backends[0].log.index("launch")


@pytest.mark.parametrize("far", [False, True])
def test_a_failed_launch_leaves_no_trace(far: bool) -> None:
    """What waited for it does not run and changes nothing; what is submitted later takes what is in the memory."""
    run = Program(1, far=far, faults={0: Faults(refuse={launch_step(far): OUT_OF_RESOURCES})})
    (out, seen), (into, _) = run.memory(np.full(WORDS, 8)), run.memory(np.ones(WORDS))
    other, kept = run.memory(np.full(WORDS, 3))
    failed = run.launch("add", out, into)
    args = tuple(BufferArg(buffer, 0, buffer.nbytes) for buffer in (other, into))
    command = Launch(run.kernels["add"], args, NDRange((WORDS,), (LOCAL,), (0,)))
    waiting = run.session.submit(command, (failed,), queue=run.queue)
    assert failed.wait() == OUT_OF_RESOURCES
    assert waiting.wait() < 0
    assert (seen == 8).all()
    assert (kept == 3).all(), "a command that did not run"
    seen[:] = 1
    assert run.launch("add", out, into).wait() == 0
    assert (seen == 2).all()
    run.session.close()


# plans ------------------------------------------------------------------------------------------------

NBYTES = 4 * 256
LINE = NDRange((256,), (64,), (0,))
FAR = LinkCosts.uniform(2, peer=0.1, direct=True)


def plan_of(state: BufferState, exact: bool, *, in_place: bool = False, links: LinkCosts = FAR) -> Plan:
    """A launch that reads and writes its part of a buffer, or whatever of it."""

    def evaluate(chunk: Chunk) -> list[AccessRange]:
        part = span(chunk.start[0] * 256, chunk.stop[0] * 256) if exact else span(0, NBYTES)
        return [AccessRange(0, mode, part, exact) for mode in ("read", "write")]

    request = LaunchRequest((PointerArg(0, 0, 0, NBYTES),), LINE, evaluate, in_place=in_place)
    return plan_launch([state], request, LaunchOptions((0, 1), links))


def copies(plan: Plan) -> list[tuple[int, int, Region, bool]]:
    return [(i.source, i.target, i.region, i.result) for i in plan.instructions if isinstance(i, Copy)]


def test_bytes_that_are_certainly_written_go_home_unmerged() -> None:
    first = plan_of(fine_grain_state(NBYTES), exact=True)
    halves = span(0, NBYTES // 2), span(NBYTES // 2, NBYTES)
    there = [(HOST, worker, half, False) for worker, half in enumerate(halves)]
    back = [(worker, HOST, half, True) for worker, half in enumerate(halves)]
    assert copies(first) == there + back
    (state,) = first.states
    check(state)
    assert state.fine
    assert state.valid == ((HOST, span(0, NBYTES)),)
    again = plan_of(state, exact=True)
    assert copies(again) == there + back, "the host may have changed anything"
    assert again.states == (state,)


def test_each_worker_has_a_twin_of_its_own() -> None:
    plan = plan_of(fine_grain_state(NBYTES), exact=False)
    kinds = [type(item) for item in plan.instructions if isinstance(item, (Fetch, LaunchInstruction, Merge))]
    assert kinds == [Fetch, Fetch, LaunchInstruction, LaunchInstruction, Fetch, Fetch, Merge]
    (merge,) = (item for item in plan.instructions if isinstance(item, Merge))
    assert (merge.twins, merge.stages, merge.apart) == ((0, 1), (2, 3), True)
    assert not any(result for *_, result in copies(plan))
    assert "fine-grain memory that may be written" in plan.reasons[0]


def test_in_place_nothing_moves() -> None:
    """Two chunks of one launch that may write the same bytes run at the same time, as its work-groups do natively."""
    for exact in (True, False):
        plan = plan_of(fine_grain_state(NBYTES), exact, in_place=True, links=LinkCosts.uniform(2))
        assert [type(item) for item in plan.instructions] == [LaunchInstruction] * 2
        assert [item.homes for item in plan.instructions] == [((0, 0, 0),)] * 2  # type: ignore[union-attr]
        assert plan.dependencies == ((), ())
        assert plan.states == (fine_grain_state(NBYTES),)
        assert {touch.holder for touches in plan.touches for touch in touches} == {HOST}
    other = plan_of(buffer_state(NBYTES, [(HOST, span(0, NBYTES))]), exact=True, in_place=True)
    assert copies(other), "only what is fine-grain is used at home"


def test_transfers_leave_workers_alone() -> None:
    links = LinkCosts(FAR.per_byte, direct=(0, 1), large_nbytes=1)
    state = fine_grain_state(NBYTES, [(0, 0, NBYTES)])
    on_worker = buffer_state(NBYTES, [(0, span(0, NBYTES))], [(0, 0, NBYTES)])
    box = Box.contiguous(0, NBYTES)
    for plan in (
        plan_write(state, span(0, NBYTES), links),
        plan_fill(state, 0, NBYTES, b"ab", links),
        plan_copy([state, state], box, box, links),
    ):
        assert plan.moved == ()
        assert plan.states[-1] is state
    plan = plan_copy([on_worker, state], box, box, links)
    assert plan.moved == ((0, HOST, NBYTES),)


def test_states() -> None:
    state = fine_grain_state(8, [(0, 0, 8)])
    assert state is not buffer_state(8, state.valid, state.replicas)
    assert kept_on(state, 1).fine
    assert repr(state).endswith("fine-grain>")
    with pytest.raises(AssertionError, match="home"):
        check(buffer_state(8, [(0, span(0, 8))], [(0, 0, 8)], fine=True))


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor"])
def test_elements_that_no_atomic_met_are_not_written(op: str) -> None:
    identity = identity_of(op, "int32")
    stage = np.frombuffer(identity * 3 + np.int32(5).tobytes(), np.uint8)
    target = np.array([1, -2, 3, 4], np.int32)
    memory = target.view(np.uint8)
    memory.flags.writeable = True
    guarded = memory.copy()
    combine_changes(guarded, stage, op, "int32", identity)
    functions = {"add": np.add, "min": np.minimum, "max": np.maximum}
    functions |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    assert guarded.view(np.int32).tolist() == [1, -2, 3, int(functions[op](np.int32(4), np.int32(5)))]
