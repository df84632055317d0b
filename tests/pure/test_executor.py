"""The executor with reference workers: order, results whatever the timing, failures, ends."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.ranges.grain import Grain, of_store, of_unit
from vdev.translators.ranges.rectangles import Layout

from tests.pure.machine import AXPY, COUNT, KERNELS, SCATTER, STENCIL, Buffer, Kernel, Machine
from tests.pure.simulator import changed_units
from tests.pure.virtual_gpus import Machine as VirtualMachine
from vdev.backends.base import Backend
from vdev.backends.merging import copy_changes
from vdev.backends.reference import Faults, ReferenceBackend, ReferenceProgram
from vdev.errors import DEPENDENCY_FAILED, OUT_OF_RESOURCES, BackendError
from vdev.executor.completion import Completion
from vdev.executor.executor import QUEUE_LIMIT, Executor
from vdev.executor.worker import Worker
from vdev.planner.instructions import HOST
from vdev.process.finalisers import collect

WORDS = 3 * 1024  #: elements of a buffer: three of the planner's granules, so that workers hold parts
NBYTES = 4 * WORDS


@pytest.fixture(autouse=True, params=[False, True], ids=["own-threads", "any-thread"])
def any_thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Every test also with workers whose back end lets the submitting thread work with it."""
    monkeypatch.setattr(ReferenceBackend, "any_thread", request.param)
    return bool(request.param)


def counting(seed: int) -> np.ndarray:
    return (np.arange(WORDS, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed)).astype(np.uint32)


def content(machine: Machine, buffer: Buffer) -> np.ndarray:
    host = np.zeros(WORDS, np.uint32)
    assert machine.read(buffer, host).wait() == 0
    return host


def delays(seed: int) -> Faults:
    source = random.Random(seed)
    return Faults(delay=lambda _: source.choice((0, 0, 0, 0.0002, 0.002)))


# results ----------------------------------------------------------------------------------------


class Twins:
    """Buffers on a machine, and the plain arrays they have to equal."""

    def __init__(self, machine: Machine, count: int) -> None:
        self.machine = machine
        self.buffers = [machine.buffer(NBYTES) for _ in range(count)]
        self.arrays = [counting(seed) for seed in range(count)]
        for buffer, array in zip(self.buffers, self.arrays, strict=True):
            machine.write(buffer, array.copy())

    def launch(self, kernel: Kernel, at: Sequence[int], **rest: object) -> None:
        self.machine.launch(kernel, [self.buffers[i] for i in at], WORDS, **rest)
        kernel.meaning(*(self.arrays[i] for i in at))

    def write(self, at: int, start: int, count: int, seed: int) -> None:
        data = counting(seed)[:count].copy()
        self.machine.write(self.buffers[at], data, 4 * start)
        self.arrays[at][start : start + count] = data

    def fill(self, at: int, start: int, count: int, value: int) -> None:
        self.machine.fill(self.buffers[at], 4 * start, 4 * count, np.uint32(value).tobytes())
        self.arrays[at][start : start + count] = value

    def copy(self, source: int, target: int, start: int, to: int, count: int) -> None:
        self.machine.copy(self.buffers[source], self.buffers[target], 4 * start, 4 * to, 4 * count)
        self.arrays[target][to : to + count] = self.arrays[source][start : start + count]

    def check(self) -> None:
        for buffer, array in zip(self.buffers, self.arrays, strict=True):
            np.testing.assert_array_equal(content(self.machine, buffer), array)


three = st.permutations([0, 1, 2])
spans = st.tuples(st.integers(0, WORDS - 1), st.integers(1, WORDS)).map(
    lambda s: (s[0], min(s[1], WORDS - s[0]))
)
actions = st.one_of(
    st.tuples(st.just("axpy"), three),
    st.tuples(st.just("stencil"), three),
    st.tuples(st.just("scatter"), three),
    st.tuples(st.just("count"), three),
    st.tuples(st.just("write"), three, spans, st.integers(0, 99)),
    st.tuples(st.just("fill"), three, spans, st.integers(0, 99)),
    st.tuples(st.just("copy"), three, spans),
    st.tuples(st.just("read"), three),
)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 1 << 30), st.lists(actions, max_size=14))
def test_random_delays_do_not_change_results(workers: int, seed: int, program: list) -> None:
    with Machine(workers, {number: delays(seed + number) for number in range(workers)}) as machine:
        twins = Twins(machine, 3)
        for name, at, *rest in program:
            if name in ("axpy", "stencil", "scatter", "count"):
                kernel = next(kernel for kernel in KERNELS if kernel.name == name)
                twins.launch(kernel, at[: {"axpy": 3, "stencil": 2, "scatter": 1, "count": 2}[name]])
            elif name == "write":
                twins.write(at[0], *rest[0], rest[1])
            elif name == "fill":
                twins.fill(at[0], *rest[0], rest[1])
            elif name == "copy":
                start, count = rest[0]
                twins.copy(at[0], at[1], start, WORDS - count, count)
            else:
                np.testing.assert_array_equal(content(machine, twins.buffers[at[0]]), twins.arrays[at[0]])
        twins.check()


def test_a_stencil_goes_back_and_forth() -> None:
    with Machine(3, {number: delays(number) for number in range(3)}) as machine:
        twins = Twins(machine, 2)
        for step in range(30):
            twins.launch(STENCIL, (1, 0) if step % 2 == 0 else (0, 1))
        twins.check()
        moved = sum(backend.counters.from_peer for backend in machine.backends)
        assert 0 < moved < 30 * NBYTES // 4, "only halos move"


def test_commands_of_several_threads() -> None:
    lock = threading.Lock()
    with Machine(2, {number: delays(number) for number in range(2)}) as machine:
        groups = [Twins(machine, 2) for _ in range(3)]

        def work(twins: Twins) -> None:
            for step in range(10):
                with lock:
                    twins.launch(STENCIL, (step % 2, 1 - step % 2), in_order=False)

        threads = [threading.Thread(target=work, args=(twins,)) for twins in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for twins in groups:
            twins.check()


def test_a_box_is_read_from_all_holders() -> None:
    with Machine(2) as machine:
        twins = Twins(machine, 3)
        twins.launch(AXPY, (0, 1, 2))
        layout = Layout((2, 3, 20), 100, (3000, 400), 8, (256, 32))
        host = np.zeros(1024, np.uint8)
        assert machine.read_box(twins.buffers[0], host, layout).wait() == 0
        wanted, source = np.zeros(1024, np.uint8), twins.arrays[0].view(np.uint8)
        for i in range(2):
            for j in range(3):
                start = 100 + i * 3000 + j * 400
                wanted[8 + i * 256 + j * 32 :][:20] = source[start : start + 20]
        np.testing.assert_array_equal(host, wanted)


def test_part_of_a_box_is_read_where_the_rest_was_never_written() -> None:
    with Machine(2) as machine:
        buffer, host = machine.buffer(NBYTES), np.full(64, 0xEE, np.uint8)
        machine.write(buffer, np.arange(10, dtype=np.uint8), 10)
        layout = Layout((1, 4, 5), 8, (20, 5), 0, (64, 16))
        assert machine.read_box(buffer, host, layout).wait() == 0
        wanted = np.full(64, 0xEE, np.uint8)
        wanted[2:5], wanted[16:21], wanted[32:34] = (0, 1, 2), (3, 4, 5, 6, 7), (8, 9)
        np.testing.assert_array_equal(host, wanted)


def test_host_memory_orders_commands_on_different_buffers() -> None:
    with Machine(1, {0: Faults(delay=lambda _: 0.01)}) as machine:
        twins, target = Twins(machine, 3), machine.buffer(NBYTES)
        twins.launch(AXPY, (0, 1, 2))
        host = np.zeros(WORDS, np.uint32)
        machine.read(twins.buffers[0], host)  # slow: from the worker
        machine.write(target, host)  # from the same array
        np.testing.assert_array_equal(content(machine, target), twins.arrays[0])


def test_a_mapping_waits_for_copies_out_of_and_into_the_home() -> None:
    with Machine(1, {0: Faults(delay=lambda _: 0.01)}) as machine:
        twins = Twins(machine, 3)
        twins.launch(AXPY, (0, 1, 2))
        machine.map(twins.buffers[1], in_order=False).wait()
        twins.buffers[1].home[:] = 0  # the launch has read it already, or it is wrong
        machine.map(twins.buffers[0], in_order=False).wait()
        np.testing.assert_array_equal(twins.buffers[0].home.view(np.uint32), twins.arrays[0])


def test_atomics_and_scatters_merge() -> None:
    with Machine(3, {number: delays(number) for number in range(3)}) as machine:
        twins = Twins(machine, 2)
        twins.launch(COUNT, (0, 1))
        twins.launch(SCATTER, (1,))
        twins.launch(COUNT, (0, 1))
        twins.check()


class DrainedWhenMeasured:
    """A worker's queue that the worker empties as soon as the test has asked for its length."""

    def __init__(self, machine: Machine, gate: threading.Event) -> None:
        self._machine, self._gate = machine, gate
        self._queue = machine.executor.worker(0).queue

    def __len__(self) -> int:
        length = len(self._queue)
        if threading.current_thread().name == "throttled":
            self._gate.set()
            self._machine.executor.quiesce()
        return length


def hold_with_long_queue(
    machine: Machine, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> threading.Thread:
    """Have the worker wait for `gate` with more in its queue than a caller may leave there; the thread whose call holds it."""
    buffer = machine.buffer(NBYTES)
    machine.launch(COUNT, [buffer, machine.buffer(NBYTES)], WORDS)
    begun = threading.Event()
    holding = threading.Thread(target=machine.executor.call, args=(0, lambda _: begun.set() or gate.wait()))
    holding.start()
    assert begun.wait(100)  # else what follows could be done before it
    with monkeypatch.context() as unlimited:
        unlimited.setattr("vdev.executor.executor.QUEUE_LIMIT", 1 << 30)
        for _ in range(QUEUE_LIMIT + 10):
            machine.launch(COUNT, [buffer, machine.buffer(NBYTES)], WORDS)
    return holding


def test_throttling_does_not_wait_for_steps_that_nobody_has_submitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Machine(1) as machine:
        executor, gate = machine.executor, threading.Event()
        holding = hold_with_long_queue(machine, gate, monkeypatch)
        monkeypatch.setattr(executor.worker(0), "queue", DrainedWhenMeasured(machine, gate))
        throttled = threading.Thread(target=executor.throttle, name="throttled", daemon=True)
        throttled.start()
        throttled.join(100)
        assert not throttled.is_alive()
        holding.join()


def test_who_is_held_back_waits_until_the_queue_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would stay long for as long as commands are submitted, and none of them could be handed over by their own thread."""
    with Machine(1) as machine:
        executor, gate = machine.executor, threading.Event()
        worker, asked, wait = executor.worker(0), [], Worker.marker_at
        holding = hold_with_long_queue(machine, gate, monkeypatch)

        def noted(self: Worker, step: int, asking: Worker | None = None) -> object:
            asked.append((self, step))
            gate.set()
            return wait(self, step, asking)

        monkeypatch.setattr(Worker, "marker_at", noted)
        executor.throttle()
        assert asked[0] == (worker, worker.submitted)
        assert not worker.queue
        holding.join()


def test_zeros_are_not_written_to_a_home_that_has_never_been_touched() -> None:
    with Machine(2) as machine:
        home, asked = np.zeros(NBYTES, np.uint8), []
        buffer = machine.buffer(NBYTES)
        buffer.holdings = machine.executor.holdings(NBYTES, lambda: asked.append(1) or home, blank=True)
        machine.fill(buffer, 0, NBYTES, b"\0" * 4).wait()
        assert not asked
        np.testing.assert_array_equal(content(machine, buffer), np.zeros(WORDS))
        machine.map(buffer).wait()
        home[:] = 1  # as the program may, through the mapping
        machine.fill(buffer, 0, NBYTES // 2, b"\0" * 4).wait()
        assert not content(machine, buffer)[: WORDS // 2].any()
        machine.fill(buffer, 0, NBYTES, b"\1" * 4).wait()
        machine.fill(buffer, 0, NBYTES, b"\0" * 4).wait()
        np.testing.assert_array_equal(content(machine, buffer), np.zeros(WORDS))


# completions ------------------------------------------------------------------------------------


def test_status_callbacks_and_times() -> None:
    with Machine(2, {number: Faults(delay=lambda _: 0.002) for number in range(2)}) as machine:
        twins = Twins(machine, 3)
        before = time.perf_counter_ns()
        completion = machine.launch(AXPY, twins.buffers, WORDS, profiled=True)
        called: list[tuple[int, str]] = []
        heard = threading.Event()

        def callback(status: int) -> None:
            called.append((status, threading.current_thread().name))
            heard.set()

        completion.add_callback(callback)
        assert completion.status in (0, 1, 2)
        assert heard.wait(100), "a callback comes without anybody waiting for the command"
        assert called == [(0, "vdev-callbacks")]
        assert completion.status == 0
        queued, submitted, start, end = completion.times or (0, 0, 0, 0)
        assert before <= queued <= submitted <= start < end <= time.perf_counter_ns()
        assert end - start >= 2_000_000, "the work took at least its delay"


def test_times_of_an_in_order_queue_do_not_overlap() -> None:
    # One worker is ahead of the other; a program that adds durations up must get the time that passed.
    with Machine(2, {1: Faults(delay=lambda _: 0.002)}) as machine:
        twins = Twins(machine, 3)
        before = time.perf_counter_ns()
        completions = [machine.launch(AXPY, twins.buffers, WORDS, profiled=True) for _ in range(10)]
        assert completions[-1].wait() == 0
        passed = time.perf_counter_ns() - before
        times = [completion.times or (0, 0, 0, 0) for completion in completions]
        for earlier, later in pairwise(times):
            assert earlier[3] <= later[2] < later[3]
        assert 10 * 2_000_000 <= sum(end - start for _, _, start, end in times) <= passed


def test_a_poll_sees_the_end() -> None:
    with Machine(1) as machine:
        twins = Twins(machine, 3)
        completion = machine.launch(AXPY, twins.buffers, WORDS)
        deadline = time.monotonic() + 100
        while completion.status > 0:
            assert time.monotonic() < deadline
            time.sleep(0.0001)
        assert completion.status == 0


def test_a_marker_and_an_order_hold_back_completion() -> None:
    going_on = threading.Event()
    with Machine(2, {1: Faults(delay=lambda _: 0 if going_on.wait(60) else 1)}) as machine:
        twins = Twins(machine, 3)
        launched = machine.launch(AXPY, twins.buffers, WORDS)
        marker, follower = Completion(), Completion()
        machine.executor.submit_empty(marker, after=(launched,))
        machine.executor.submit_empty(follower, order=marker)
        assert follower.status > 0
        going_on.set()
        assert follower.wait() == 0
        assert launched.settled
        assert marker.settled


def test_waiting_for_a_command_that_is_not_submitted_yet() -> None:
    with Machine(1) as machine:
        completion = Completion()
        statuses: list[int] = []
        thread = threading.Thread(target=lambda: statuses.append(completion.wait()))
        thread.start()
        assert completion.status == 3
        with pytest.raises(ValueError, match="not submitted"):
            machine.executor.submit_empty(Completion(), after=(completion,))
        machine.executor.submit_empty(completion)
        thread.join(100)
        assert statuses == [0]


def test_a_user_event_settles_by_hand() -> None:
    completion, heard = Completion(), threading.Event()
    completion.add_callback(lambda status: heard.set())
    completion.settle(-5)
    completion.settle(0)
    assert heard.wait(100)
    assert completion.wait() == completion.status == -5


def test_calls_run_on_the_workers_thread_and_raise_here() -> None:
    with Machine(2) as machine:
        name = machine.executor.call(1, lambda backend: threading.current_thread().name + backend.info.name)
        assert name == "vdev-worker-1reference-1"
        with pytest.raises(BackendError, match="rejected"):
            machine.executor.build(ReferenceProgram(failure="no"))


def test_what_is_done_meanwhile_is_done_while_workers_build(monkeypatch: pytest.MonkeyPatch) -> None:
    done, build, calls = threading.Event(), ReferenceBackend.build, []

    def waiting(backend: ReferenceBackend, program: ReferenceProgram):  # type: ignore[no-untyped-def]
        assert done.wait(60), "what is done meanwhile waits for the build"
        return build(backend, program)

    def meanwhile() -> None:
        calls.append(threading.current_thread())
        done.set()

    with Machine(3) as machine:
        monkeypatch.setattr(ReferenceBackend, "build", waiting)
        assert len(machine.executor.build(machine.program, meanwhile)) == 3
    assert calls == [threading.current_thread()]


def test_what_takes_no_compiler_is_built_by_the_thread_that_asks(
    any_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One device does it here, while the others' threads do the same."""
    build, threads, meanwhile = ReferenceBackend.build, [], []

    def noted(backend: ReferenceBackend, program: ReferenceProgram):  # type: ignore[no-untyped-def]
        threads.append((backend.info.name, threading.current_thread().name))
        return build(backend, program)

    with Machine(2) as machine:
        monkeypatch.setattr(ReferenceBackend, "build", noted)
        monkeypatch.setattr(ReferenceBackend, "kept", noted)
        before = machine.executor.all_workers[0].issued
        assert len(machine.executor.build(machine.program, lambda: meanwhile.append(1))) == 2
        here = threading.current_thread().name if any_thread else "vdev-worker-0"
        assert sorted(threads) == [("reference-0", here), ("reference-1", "vdev-worker-1")]
        assert (machine.executor.all_workers[0].issued == before) == any_thread
        assert meanwhile == [1]  # the others are at work
        machine.executor.close()
        with pytest.raises(BackendError, match="closed"):
            machine.executor.build(machine.program)


def test_a_build_on_the_asking_thread_leaves_the_worker_asleep(
    any_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceBackend, "kept", ReferenceBackend.build)
    with Machine(1) as machine:
        worker = machine.executor.all_workers[0]
        machine.executor.quiesce()
        woken: list[object] = []
        # others that earlier tests have left may be woken
        monkeypatch.setattr(type(worker), "wake", lambda self: woken.append(self) if self is worker else None)
        if any_thread:
            machine.executor.build(machine.program)
            assert woken == []
        monkeypatch.undo()


def test_a_back_end_that_does_not_open() -> None:
    def opener():  # type: ignore[no-untyped-def]
        raise BackendError(-1, "no such device")

    with pytest.raises(BackendError, match="no such device"):
        Executor([opener])


def test_a_closed_executor_refuses_and_nobody_waits() -> None:
    with Machine(2) as machine:
        twins = Twins(machine, 3)
    assert machine.launch(AXPY, twins.buffers, WORDS).wait() < 0
    with pytest.raises(BackendError, match="closed"):
        machine.executor.call(0, lambda backend: backend.info)


# failures ---------------------------------------------------------------------------------------


def position(what: str, worker: int, run: object) -> int:
    """The number of the first operation of a kind that a program hands to a worker."""
    with Machine(2) as machine:
        run(machine)  # type: ignore[operator]
        machine.executor.quiesce()
        return machine.backends[worker].log.index(what)


def axpy(machine: Machine) -> tuple[Twins, Completion]:
    twins = Twins(machine, 3)
    return twins, machine.launch(AXPY, twins.buffers, WORDS)


@pytest.mark.parametrize("late", [False, True], ids=["refused", "fails on the device"])
def test_a_failing_launch_reaches_its_dependants_and_nobody_else(late: bool) -> None:
    at = position("launch", 1, axpy)
    faults = Faults(fail={at: -5}) if late else Faults(refuse={at: -5})
    with Machine(2, {1: faults}) as machine:
        twins, failed = axpy(machine)
        other = Twins(machine, 3)
        host = np.zeros(WORDS, np.uint32)
        read = machine.read(twins.buffers[0], host)
        waiting = machine.read(twins.buffers[1], host, after=(failed,), in_order=False)
        indirect = machine.launch(AXPY, [other.buffers[0], twins.buffers[0], other.buffers[1]], WORDS)
        other.launch(AXPY, (1, 2, 2))
        assert failed.wait() == -5
        assert read.wait() == -5
        assert waiting.wait() == DEPENDENCY_FAILED
        assert indirect.wait() == -5
        # inputs are whole, and what has nothing to do with it works
        np.testing.assert_array_equal(content(machine, twins.buffers[1]), twins.arrays[1])
        np.testing.assert_array_equal(content(machine, other.buffers[1]), other.arrays[1])
        # later commands on the same bytes fail at once; overwriting heals
        assert machine.read(twins.buffers[0], host).wait() == -5
        assert not machine.executor.damaged
        twins.write(0, 0, WORDS, seed=9)
        twins.launch(STENCIL, (2, 0))
        twins.check()


def test_commands_behind_a_failure_do_not_run() -> None:
    at = position("launch", 0, axpy)
    with Machine(2, {0: Faults(refuse={at: -54})}) as machine:
        _, failed = axpy(machine)
        assert failed.wait() == -54
        others = Twins(machine, 3)
        launches = [backend.counters.launches for backend in machine.backends]
        behind = machine.launch(AXPY, others.buffers, WORDS, after=(failed,))
        assert behind.wait() == DEPENDENCY_FAILED
        assert [backend.counters.launches for backend in machine.backends] == launches
        # the buffers it was to write are spoilt, those it was to read are not
        host = np.zeros(WORDS, np.uint32)
        assert machine.read(others.buffers[0], host).wait() == DEPENDENCY_FAILED
        np.testing.assert_array_equal(content(machine, others.buffers[1]), others.arrays[1])


def test_memory_that_runs_out_is_reported_and_repaired() -> None:
    with Machine(1, {0: Faults(capacity=5 * NBYTES // 2)}) as machine:
        twins = Twins(machine, 3)
        failed = machine.launch(AXPY, twins.buffers, WORDS)  # needs three
        assert failed.wait() == -4
        assert machine.executor.damaged
        machine.repair(twins.buffers)
        assert not machine.executor.damaged
        for buffer in twins.buffers[:1]:
            machine.write(buffer, counting(0))
        twins.arrays[0][:] = counting(0)
        twins.check()
        first = machine.buffer(NBYTES)
        machine.write(first, counting(5))
        again = machine.launch(STENCIL, twins.buffers[:2], WORDS)
        assert again.wait() == 0, again.reason
        STENCIL.meaning(*twins.arrays[:2])
        twins.check()


def test_memory_of_dropped_buffers_is_used_again() -> None:
    with Machine(1, {0: Faults(capacity=6 * NBYTES, delay=lambda _: 0.0005)}) as machine:
        for _ in range(20):  # three buffers each, held by commands in flight
            twins = Twins(machine, 3)
            twins.launch(AXPY, (0, 1, 2))
        twins.check()
        assert machine.backends[0].counters.peak_nbytes <= 6 * NBYTES


def test_a_failing_copy_spoils_only_what_it_should_have_brought() -> None:
    at = position("write", 1, axpy)
    with Machine(2, {1: Faults(fail={at: -5})}) as machine:
        twins, failed = axpy(machine)
        assert failed.wait() == -5
        assert machine.executor.damaged
        machine.repair(twins.buffers)
        twins.write(0, 0, WORDS, seed=3)
        twins.launch(AXPY, (0, 1, 2))  # brings the inputs again
        twins.check()


def test_every_single_failure_ends_in_an_error_or_the_right_result() -> None:
    def program(machine: Machine) -> list[tuple[Completion, np.ndarray, np.ndarray]]:
        twins = Twins(machine, 3)
        found = []
        for kernel, at in (
            (AXPY, (0, 1, 2)),
            (STENCIL, (1, 0)),
            (COUNT, (2, 1)),
            (SCATTER, (0,)),
            (AXPY, (1, 0, 2)),
        ):
            machine.repair(twins.buffers)
            twins.launch(kernel, at)
            host = np.zeros(WORDS, np.uint32)
            found.append((machine.read(twins.buffers[at[0]], host), host, twins.arrays[at[0]].copy()))
        return found

    with Machine(2) as machine:
        program(machine)
        machine.executor.quiesce()
        counts = [len(backend.log) for backend in machine.backends]
    for worker, count in enumerate(counts):
        for number in range(count):
            for faults in (Faults(refuse={number: -5}), Faults(fail={number: -5})):
                with Machine(2, {worker: faults}) as machine:
                    for completion, host, wanted in program(machine):
                        if completion.wait() == 0:
                            np.testing.assert_array_equal(host, wanted)


def test_the_interpreter_exits_while_a_worker_hangs() -> None:
    script = textwrap.dedent("""
        import numpy as np
        from tests.pure.machine import AXPY, Machine
        from vdev.backends.reference import Faults
        machine = Machine(2, {1: Faults(hang_at=3)})
        machine.executor.exit_timeout = 0.2
        buffers = [machine.buffer(12288) for _ in range(3)]
        for buffer in buffers:
            machine.write(buffer, np.zeros(3072, np.uint32))
        completion = machine.launch(AXPY, buffers, 3072)
        print("status", completion.status)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "status"
    assert not done.stderr


# endurance --------------------------------------------------------------------------------------


def test_memory_stays_flat_over_many_commands() -> None:
    """What is lost is lost in every round; other threads take some once in a while, and let go of commands a little later."""

    def enqueue(count: int) -> None:
        for _ in range(count):
            machine.launch(AXPY, twins.buffers, WORDS)
        machine.executor.quiesce()

    def held() -> int:
        for backend in machine.backends:
            backend.log.clear()
        collect()
        return tracemalloc.get_traced_memory()[0]

    def grown() -> int:
        base = held()
        enqueue(1500)
        deadline = time.monotonic() + 1
        while (found := held() - base) >= most and time.monotonic() < deadline:
            time.sleep(0.01)
        return found

    most = 1500 * 2 * 400  # the reference workers remember the times of 10,000 operations
    with Machine(2) as machine:
        twins = Twins(machine, 3)
        enqueue(300)
        tracemalloc.start()
        try:
            assert any(grown() < most for _ in range(4))
        finally:
            tracemalloc.stop()


def test_buffers_give_their_memory_back() -> None:
    with Machine(2) as machine:
        for _ in range(3):
            Twins(machine, 3).launch(AXPY, (0, 1, 2))
        machine.executor.quiesce()
        deadline = time.monotonic() + 100
        while any(backend.counters.allocated_nbytes for backend in machine.backends):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        assert machine.executor.worker(HOST).completed > 0


@pytest.mark.parametrize(
    "grain",
    [
        *map(of_unit, (1, 2, 4, 8, 16, 12)),
        of_store(8, 0, 4) | of_store(8, 4, 1),
        of_store(5, 1, 4),
        of_store(24, 20, 8),
    ],
)
def test_bytes_that_differ_from_the_twin_are_taken_in_units(grain: Grain) -> None:
    rng = np.random.default_rng(grain.period)
    for start, stop in ((0, 64), (3, 61), (5, 12), (16, 32), (7, 8)):
        old = rng.integers(0, 3, stop - start).astype(np.uint8)
        new, into = (rng.integers(0, 3, stop - start).astype(np.uint8) for _ in range(2))
        changed = changed_units(np.arange(start, stop), new != old, grain)
        expected = np.where(changed, new, into)

        copy_changes(into, new, old, start, grain)

        assert into.tolist() == expected.tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 12, 16, 32, 128])
@pytest.mark.parametrize("start", [0, 5])
def test_a_home_is_filled_with_whole_patterns(size: int, start: int) -> None:
    pattern, count = bytes(range(1, size + 1)), 7
    with Machine(2) as machine:
        buffer = machine.buffer(2048)
        buffer.home[:] = 255
        machine.write(buffer, np.full(2048, 255, np.uint8))
        assert machine.fill(buffer, start * size, count * size, pattern).wait() == 0
        assert machine.map(buffer).wait() == 0
    expected = b"\xff" * start * size + pattern * count
    assert buffer.home.tobytes() == expected + b"\xff" * (2048 - len(expected))


def test_the_submitting_thread_hands_over_where_it_may(
    any_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches with copies between idle workers are issued here; else each by its worker's thread."""
    issued: set[int] = set()
    launch = ReferenceBackend.launch

    def noted(self: ReferenceBackend, *rest: object) -> None:
        issued.add(threading.get_ident())
        launch(self, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ReferenceBackend, "launch", noted)
    with Machine(3) as machine:
        first, second = machine.buffer(NBYTES), machine.buffer(NBYTES)
        machine.write(first, counting(1))
        machine.launch(STENCIL, [first, second], WORDS)  # takes memory: not handed over at once
        machine.executor.quiesce()
        for _ in range(3):
            machine.launch(STENCIL, [first, second], WORDS)
            machine.launch(STENCIL, [second, first], WORDS)
        machine.executor.quiesce()
        issued.clear()
        machine.launch(STENCIL, [first, second], WORDS)
        machine.executor.quiesce()
    assert issued
    assert (issued == {threading.get_ident()}) is any_thread


def exchange_edges(machine: Machine) -> None:
    """A stencil, twelve times between two buffers."""
    first, second = machine.buffer(NBYTES), machine.buffer(NBYTES)
    machine.write(first, counting(1))
    for _ in range(6):
        machine.launch(STENCIL, [second, first], WORDS)
        machine.launch(STENCIL, [first, second], WORDS)
    machine.executor.quiesce()


def test_neighbours_wait_for_what_came_before_and_no_more(
    any_thread: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Who exchanges edges waits for the neighbour's last command, not for the one that it has been handed since."""
    too_far: list[tuple[int, int]] = []
    waited: list[int] = []
    find = Worker.marker_at

    def noted(self: Worker, step: int, asking: Worker | None = None) -> object:
        marker = find(self, step, asking)
        job = None if asking is None else asking.current
        if job is not None and step <= job.bases[self.number]:
            covered = [mark.step for mark in self.marks if mark.marker is marker]
            waited.extend(covered)
            too_far.extend(
                (covered[0], job.bases[self.number]) for _ in covered if covered[0] > job.bases[self.number]
            )
        return marker

    monkeypatch.setattr(Worker, "marker_at", noted)
    # Python's own: with a shorter one, which another test's session may have left, all is complete when it is asked for.
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(0.005)
    for attempt in range(60):  # what is complete when it is asked for is not waited for
        with Machine(3, {number: delays(number + 3 * attempt) for number in range(3)}) as machine:
            exchange_edges(machine)
        assert not (any_thread and too_far)
        if waited:
            break
    assert waited or not any_thread


def test_copies_from_both_neighbours_are_requested_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes between the two copies, once no replica grows any more: a back end may make them one."""
    calls: list[str] = []

    def noted(name: str) -> None:
        original = getattr(ReferenceBackend, name)

        def call(self: ReferenceBackend, *rest: object) -> object:
            if self is machine.backends[1]:
                calls.append(name)
            return original(self, *rest)

        monkeypatch.setattr(ReferenceBackend, name, call)

    with Machine(3, {number: delays(number) for number in range(3)}) as machine:
        for name in ("copy_from_peer", "order_after", "record", "launch"):
            noted(name)
        exchange_edges(machine)
    assert calls.count("copy_from_peer") == 2 * calls.count("launch") - 2
    places = [index for index, name in enumerate(calls) if name == "copy_from_peer"]
    between = [second - first for first, second in zip(places[::2], places[1::2], strict=True)]
    assert between[1:] == [1] * (len(between) - 1)
    # A neighbour's launch is waited for once, for what it wrote; that it has read before, too, needs no wait.
    assert calls.count("order_after") <= 2 * calls.count("launch")


def marked_steps(machine: Machine, monkeypatch: pytest.MonkeyPatch, launches: int) -> list[int]:
    """The steps behind which worker 0 put markers for launches that were queued before it took up the first."""
    worker = machine.executor.worker(0)
    first, second = machine.buffer(NBYTES), machine.buffer(NBYTES)
    machine.write(first, counting(1))
    machine.executor.quiesce()
    assert worker.marks_by_age
    steps: list[int] = []
    record = worker.backend.record
    monkeypatch.setattr(worker.backend, "record", lambda: (steps.append(worker.issued), record())[1])
    with worker.turn:  # neither its thread nor the submitting one may go on
        for _ in range(launches):
            machine.launch(AXPY, [first, first, second], WORDS)
        steps.clear()
    worker.wake()
    machine.executor.quiesce()
    return steps


def test_others_do_not_wait_for_a_launch_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where markers are cheap there is one behind each launch, for who needs that one's results and no later one's."""
    monkeypatch.setattr(ReferenceBackend, "cheap_markers", True)
    monkeypatch.setattr("vdev.executor.worker.MARK_AFTER_NS", 0)
    with Machine(2) as machine:
        assert len(set(marked_steps(machine, monkeypatch, 8))) >= 8


def test_a_row_of_quick_launches_shares_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceBackend, "cheap_markers", True)
    monkeypatch.setattr("vdev.executor.worker.MARK_AFTER_NS", 3_600_000_000_000)
    with Machine(2) as machine:
        assert len(set(marked_steps(machine, monkeypatch, 8))) <= 4


def test_one_worker_alone_needs_no_markers_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceBackend, "cheap_markers", True)
    with Machine(1) as machine:
        assert not machine.executor.worker(0).marks_by_age


def test_the_submitting_thread_takes_over_again(any_thread: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that once had to be queued do not keep all that follow in the workers' queues."""
    issued: list[int] = []
    launch = ReferenceBackend.launch
    with Machine(2) as machine:
        first, second = machine.buffer(NBYTES), machine.buffer(NBYTES)
        machine.write(first, counting(1))
        machine.write(second, counting(2))
        monkeypatch.setattr(
            ReferenceBackend, "launch", lambda *rest: (issued.append(threading.get_ident()), launch(*rest))[1]
        )
        with machine.executor.worker(0).turn:
            machine.launch(AXPY, [first, first, second], WORDS)
        machine.executor.worker(0).wake()
        for _ in range(400):
            machine.launch(AXPY, [first, first, second], WORDS)
            time.sleep(0.0005)  # a machine with much to do lets the workers run as well
        machine.executor.quiesce()
    assert issued[0] != threading.get_ident()
    assert (threading.get_ident() in issued[-40:]) is any_thread


def test_a_marker_that_cannot_be_made_fails_its_commands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a back end raises instead: its thread goes on, and nobody waits for ever."""

    def refuse() -> None:
        raise RuntimeError("refused")

    with Machine(2) as machine:
        worker = machine.executor.worker(1)
        buffer = machine.buffer(NBYTES)
        machine.write(buffer, counting(1)).wait()
        machine.executor.quiesce()
        with monkeypatch.context() as patched:
            patched.setattr(worker.backend, "record", refuse)
            failed = machine.launch(AXPY, [buffer, buffer, buffer], WORDS)
            assert failed.wait() == OUT_OF_RESOURCES
            machine.executor.quiesce()
        again = machine.buffer(NBYTES)
        assert machine.write(again, counting(2)).wait() == 0
        assert machine.launch(AXPY, [again, again, again], WORDS).wait() == 0
        machine.executor.quiesce()


def test_workers_are_opened_side_by_side() -> None:
    """Each opener waits until all of them have begun: one after the other none would end."""
    machine, all_begun = VirtualMachine({}), threading.Barrier(4, timeout=900)

    def opener(number: int) -> Callable[[], Backend]:
        open_gpu = machine.opener(number)

        def open_worker() -> Backend:
            all_begun.wait()
            return open_gpu()

        return open_worker

    executor = Executor([opener(number) for number in range(4)])
    assert len(executor.workers) == 4
    executor.close()


def test_one_of_several_gpus_cannot_be_opened() -> None:
    machine = VirtualMachine({})

    def failing() -> Backend:
        raise BackendError(OUT_OF_RESOURCES, "planted")

    with pytest.raises(BackendError, match="planted"):
        Executor([machine.opener(0), failing, machine.opener(2)])
