"""A worker that fails, seen through the session: events, dependants, user events, queues, and the end.

The workers are reference ones with injected faults; sources are real and analysed, kernels are Python.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.base import BackendProgram, BuildResult
from vdev.backends.reference import Faults, Pointer, ReferenceBackend, ReferenceProgram
from vdev.errors import DEPENDENCY_FAILED
from vdev.executor.completion import Completion
from vdev.process.finalisers import collect
from vdev.session.commands import (
    BufferArg,
    CopyBuffer,
    Fill,
    Launch,
    Map,
    Marker,
    Migrate,
    Read,
    Unmap,
    Write,
)
from vdev.session.ordering import QueueOrder
from vdev.session.programs import SessionProgram
from vdev.session.session import Session, VirtualBuffer

from .machine import reference_openers

WORDS, LOCAL = 1024, 64
NBYTES = 4 * WORDS

SOURCE = """
__kernel void triple(__global uint *out, __global const uint *in) {
  size_t i = get_global_id(0);
  out[i] = in[i] * 3 + 1;
}
"""


def _triple(args: Sequence[object], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = (ndrange.offset[0] + group * LOCAL for group in (chunk.start[0], chunk.stop[0]))
    out, source = args[0], args[1]
    assert isinstance(out, Pointer)
    assert isinstance(source, Pointer)
    out.view("u4", start, stop - start)[:] = source.view("u4", start, stop - start) * np.uint32(
        3
    ) + np.uint32(1)


def triple(words: np.ndarray) -> np.ndarray:
    return words * np.uint32(3) + np.uint32(1)


class Program:
    """A session on reference workers, one in-order queue, and what a host program does with them."""

    def __init__(
        self, workers: int = 2, faults: dict[int, Faults] | None = None, *, is_cpu: bool = True
    ) -> None:
        self.backends: list[ReferenceBackend] = []
        self.session = Session(reference_openers(workers, self.backends, faults, is_cpu=is_cpu))
        self.backends.sort(key=lambda backend: backend.info.name)
        self.queue = self.session.create_queue(in_order=True)
        program = SessionProgram(SOURCE, (), self.session.workers)
        native = ReferenceProgram(functions={"triple": _triple})

        def build(_: BackendProgram) -> list[BuildResult]:
            return list(self.session.executor.build(native))

        program.build(build)
        program.native = native
        self.kernel = program.kernels["triple"]

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def submit(
        self, command: object, after: Sequence[Completion] = (), queue: QueueOrder | None = None
    ) -> Completion:
        return self.session.submit(command, after, queue=queue or self.queue)  # type: ignore[arg-type]

    def buffer(self, seed: int | None = None, queue: QueueOrder | None = None) -> VirtualBuffer:
        """With the numbers from `seed` on, or without content."""
        made = self.session.create_buffer(NBYTES)
        if seed is not None:
            self.write(made, seed, queue=queue)
        return made

    def write(
        self,
        buffer: VirtualBuffer,
        seed: int,
        after: Sequence[Completion] = (),
        queue: QueueOrder | None = None,
    ) -> Completion:
        return self.submit(
            Write(buffer, Layout.contiguous(0, NBYTES), numbers(seed).view(np.uint8)), after, queue
        )

    def read(
        self, buffer: VirtualBuffer, after: Sequence[Completion] = (), queue: QueueOrder | None = None
    ) -> tuple[Completion, np.ndarray]:
        host = np.zeros(WORDS, np.uint32)
        command = Read(buffer, Layout.contiguous(0, NBYTES), host.view(np.uint8))
        return self.submit(command, after, queue), host

    def launch(
        self,
        out: VirtualBuffer,
        source: VirtualBuffer,
        after: Sequence[Completion] = (),
        queue: QueueOrder | None = None,
    ) -> Completion:
        args = (BufferArg(out, 0, NBYTES), BufferArg(source, 0, NBYTES))
        return self.submit(Launch(self.kernel, args, NDRange((WORDS,), (LOCAL,), (0,))), after, queue)

    def content(self, buffer: VirtualBuffer) -> np.ndarray:
        completion, host = self.read(buffer)
        assert ended(completion) == 0, completion.reason
        return host


def numbers(seed: int) -> np.ndarray:
    return np.arange(seed, seed + WORDS, dtype=np.uint32)


def ended(completion: Completion) -> int:
    """The final status; a test that waits for ever says so."""
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(completion.wait()), daemon=True)
    thread.start()
    thread.join(100)
    assert statuses, "a command does not end"
    return statuses[0]


def position(what: str, worker: int, run: Callable[[Program], object]) -> int:
    """The number of the first operation of a kind that `run` hands to a worker."""
    with Program() as program:
        run(program)
        program.session.executor.quiesce()
        return program.backends[worker].log.index(what)


def one_launch(program: Program) -> tuple[VirtualBuffer, VirtualBuffer, Completion]:
    out, source = program.buffer(), program.buffer(5)
    return out, source, program.launch(out, source)


LAUNCH = position("launch", 1, one_launch)
COPY = position("write", 1, one_launch)
FAULTS = pytest.mark.parametrize(
    "faults", [Faults(refuse={LAUNCH: -5}), Faults(fail={LAUNCH: -5})], ids=["refused", "fails on the device"]
)


def test_without_faults() -> None:
    with Program() as program:
        out, _, completion = one_launch(program)
        assert ended(completion) == 0
        np.testing.assert_array_equal(program.content(out), triple(numbers(5)))
        assert all(backend.counters.launches == 1 for backend in program.backends)


@FAULTS
def test_a_failure_reaches_dependants_and_nothing_else(faults: Faults) -> None:
    with Program(2, {1: faults}) as program:
        other = program.session.create_queue(in_order=False)
        out, source, failed = one_launch(program)
        waiting = program.launch(program.buffer(), source, (failed,), other)
        marker = program.submit(Marker(), (waiting,), other)
        reading, _ = program.read(out)
        copied = program.buffer()
        copy = CopyBuffer(out, copied, (1, 1, NBYTES), 0, (NBYTES, NBYTES), 0, (NBYTES, NBYTES))
        copying = program.submit(copy)
        reading_copy, _ = program.read(copied)
        assert ended(failed) == -5
        assert ended(waiting) == ended(marker) == DEPENDENCY_FAILED
        assert ended(reading) == ended(copying) == ended(reading_copy) == -5
        # the queue goes on, the input is whole, other buffers work, and overwriting heals
        np.testing.assert_array_equal(program.content(source), numbers(5))
        fresh = program.buffer(9)
        assert ended(program.launch(program.buffer(), fresh)) == 0
        program.write(out, 3)
        assert ended(program.launch(fresh, out)) == 0
        np.testing.assert_array_equal(program.content(fresh), triple(numbers(3)))


def test_a_copy_that_fails_late_is_no_failure_of_the_next_buffer_there() -> None:
    """The program has released the buffer meanwhile, and has made another one, which has that one's memory."""
    may_end = threading.Event()

    def delay(number: int) -> float:
        assert number != COPY or may_end.wait(100)
        return 0

    with Program(2, {1: Faults(fail={COPY: -5}, delay=delay)}) as program:
        _, source, failed = one_launch(program)
        spares, released = program.session.spares, BufferArg(source, 0, NBYTES)
        spares.enter(released)
        spares.keep(released)
        assert spares.take(NBYTES) is released
        program.write(source, 9)
        out = program.buffer()
        launched, (read, host) = program.launch(out, source), program.read(out)
        may_end.set()
        assert ended(failed) == -5
        assert ended(launched) == ended(read) == 0, read.reason
        np.testing.assert_array_equal(host, triple(numbers(9)))


@FAULTS
def test_an_in_order_queue_does_not_pass_a_failure_on(faults: Faults) -> None:
    with Program(2, {1: faults}) as program:
        _, source, failed = one_launch(program)
        behind, marker = program.launch(program.buffer(), source), program.submit(Marker())
        program.session.finish(program.queue)
        assert failed.status == -5
        assert behind.status == marker.status == 0


@FAULTS
def test_launching_again_heals(faults: Faults) -> None:
    """The kernel writes all of its output and reads none of it."""
    with Program(2, {1: faults}) as program:
        out, source, failed = one_launch(program)
        assert ended(failed) == -5
        assert ended(program.launch(out, source)) == 0
        np.testing.assert_array_equal(program.content(out), triple(numbers(5)))


@FAULTS
def test_filling_heals_as_writing_does(faults: Faults) -> None:
    with Program(2, {1: faults}) as program:
        out, _, failed = one_launch(program)
        assert ended(failed) == -5
        half = program.submit(Fill(out, 0, NBYTES // 2, b"\1"))
        assert ended(half) == 0
        assert ended(program.read(out)[0]) < 0, "half of it is still what the launch should have written"
        program.submit(Fill(out, 0, NBYTES, b"\2"))
        assert (program.content(out) == 0x02020202).all()


@FAULTS
def test_mapping_bytes_that_a_failed_launch_should_have_written_fails(faults: Faults) -> None:
    with Program(2, {1: faults}) as program:
        out, source, _ = one_launch(program)
        assert ended(program.submit(Map(out, 0, NBYTES, read=True, write=False))) == -5
        whole = Map(source, 0, NBYTES, read=True, write=True)
        assert ended(program.submit(whole)) == 0
        source.home()[:4] = np.frombuffer(struct.pack("=I", 77), np.uint8)
        program.submit(Unmap(whole))
        assert program.content(source)[0] == 77
        invalidating = Map(out, 0, NBYTES, read=False, write=True)
        assert ended(program.submit(invalidating)) == 0
        out.home()[:] = 3
        program.submit(Unmap(invalidating))
        assert (program.content(out) == 0x03030303).all(), "a mapping that replaces all of it heals"


def test_bytes_lost_in_a_failure_are_not_mistaken_for_unwritten_ones() -> None:
    """The launch's only copy is moved by the worker that fails: reading must not succeed with nothing."""

    def grow(program: Program) -> tuple[VirtualBuffer, VirtualBuffer, Completion]:
        out, source, _ = one_launch(program)
        return out, source, program.submit(Migrate((out,), to_host=True))

    at = position("read", 1, grow)
    with Program(2, {1: Faults(fail={LAUNCH: -5, at: -5})}) as program:
        out, _, moved = grow(program)
        ended(moved)
        copied = program.buffer()
        for _ in range(2):
            assert ended(program.read(out)[0]) < 0
            copy = CopyBuffer(out, copied, (1, 1, NBYTES), 0, (NBYTES, NBYTES), 0, (NBYTES, NBYTES))
            assert ended(program.submit(copy)) < 0
            assert ended(program.read(copied)[0]) < 0
            assert ended(program.submit(Map(out, 0, NBYTES, read=True, write=False))) < 0


# user events ------------------------------------------------------------------------------------


def test_a_failed_user_event_fails_everything_that_waits_for_it() -> None:
    with Program() as program:
        user = program.session.user_completion()
        source, out = program.buffer(5), program.buffer(50)
        other = program.session.create_queue(in_order=False)
        first = program.launch(out, source, (user,), other)
        second = program.launch(program.buffer(), out, (first,), other)
        callbacks: list[int] = []
        heard = threading.Event()

        def callback(status: int) -> None:
            callbacks.append(status)
            heard.set()

        second.add_callback(callback)
        assert (first.status, second.status) == (3, 3)
        user.set_status(-77)
        assert ended(first) == ended(second) == DEPENDENCY_FAILED
        assert heard.wait(100)
        assert callbacks == [DEPENDENCY_FAILED]
        # never planned: its output still holds what it did
        np.testing.assert_array_equal(program.content(out), numbers(50))


def test_commands_held_back_in_order_continue_after_a_failed_user_event() -> None:
    with Program() as program:
        user = program.session.user_completion()
        source, out = program.buffer(5), program.buffer(0)
        held = program.launch(out, source, (user,))
        behind = program.launch(source, source)
        reading, host = program.read(source)
        assert (held.status, behind.status, reading.status) == (3, 3, 3)
        user.set_status(-1)
        assert ended(held) == DEPENDENCY_FAILED
        assert ended(behind) == ended(reading) == 0
        np.testing.assert_array_equal(host, triple(numbers(5)))


@FAULTS
def test_a_worker_that_fails_in_deferred_commands(faults: Faults) -> None:
    with Program(2, {1: faults}) as program:
        user = program.session.user_completion()
        other = program.session.create_queue(in_order=False)
        out, source = program.buffer(), program.buffer(5)
        held = program.launch(out, source, (user,))
        waiting = program.launch(program.buffer(), source, (held,), other)
        reading, _ = program.read(out)
        last, host = program.read(source)
        user.set_status(0)
        assert ended(held) == -5
        assert ended(waiting) == DEPENDENCY_FAILED
        assert ended(reading) == -5
        assert ended(last) == 0
        np.testing.assert_array_equal(host, numbers(5))


@FAULTS
def test_a_command_deferred_behind_a_failure_that_came_first(faults: Faults) -> None:
    with Program(2, {1: faults}) as program:
        user = program.session.user_completion()
        other = program.session.create_queue(in_order=False)
        _, source, failed = one_launch(program)
        waiting = program.launch(program.buffer(), source, (user, failed), other)
        assert ended(failed) == -5
        assert waiting.status == 3
        user.set_status(0)
        assert ended(waiting) == DEPENDENCY_FAILED


def test_a_barrier_behind_a_failed_command_lets_the_rest_through() -> None:
    with Program(2, {1: Faults(fail={LAUNCH: -5})}) as program:
        other = program.session.create_queue(in_order=False)
        out, source = program.buffer(queue=other), program.buffer(5, queue=other)
        failed = program.launch(out, source, queue=other)
        barrier = program.submit(Marker(barrier=True), queue=other)
        assert ended(failed) == -5
        assert ended(barrier) == DEPENDENCY_FAILED
        later, host = program.read(source, queue=other)
        assert ended(later) == 0
        np.testing.assert_array_equal(host, numbers(5))


# the whole --------------------------------------------------------------------------------------


def _story(program: Program) -> list[tuple[Completion, np.ndarray, np.ndarray]]:
    """Launches and reads with a user event among them: (read, what it read, what it should have)."""
    a, b, c = program.buffer(5), program.buffer(50), program.buffer()
    found = []

    def note(buffer: VirtualBuffer, wanted: np.ndarray) -> None:
        found.append((*program.read(buffer), wanted))

    program.launch(c, a)
    note(c, triple(numbers(5)))
    user = program.session.user_completion()
    program.launch(a, c, (user,))
    note(a, triple(triple(numbers(5))))
    user.set_status(0)
    program.launch(c, b)
    note(c, triple(numbers(50)))
    program.write(a, 7)
    program.launch(b, a)
    note(b, triple(numbers(7)))
    return found


def test_every_single_failure_ends_in_an_error_or_the_right_result() -> None:
    with Program() as program:
        for completion, host, wanted in _story(program):
            assert ended(completion) == 0
            np.testing.assert_array_equal(host, wanted)
        program.session.executor.quiesce()
        counts = [len(backend.log) for backend in program.backends]
    errors = 0
    for worker, count in enumerate(counts):
        for number in range(count):
            for faults in (Faults(refuse={number: -5}), Faults(fail={number: -5})):
                with Program(2, {worker: faults}) as program:
                    for completion, host, wanted in _story(program):
                        if ended(completion) == 0:
                            np.testing.assert_array_equal(host, wanted)
                        else:
                            errors += 1
                    for seed in (1, 2, 3):  # the fault may come as late as here; then all goes on
                        source, out = program.buffer(seed), program.buffer()
                        launched, (read, host) = program.launch(out, source), program.read(out)
                        assert ended(launched) == ended(read) or ended(launched) == 0
                        if ended(read) == 0:
                            np.testing.assert_array_equal(host, triple(numbers(seed)))
                    assert ended(read) == 0
    assert errors > sum(counts) / 2


def test_a_shortage_of_memory_fails_the_command_but_not_for_ever() -> None:
    with Program(1, {0: Faults(capacity=5 * NBYTES // 2)}) as program:
        source = program.buffer(5)
        first, second = program.buffer(), program.buffer()
        assert ended(program.launch(first, source)) == 0
        assert ended(program.launch(second, first)) == -4
        np.testing.assert_array_equal(program.content(first), triple(numbers(5)))
        del source
        collect()
        assert ended(program.launch(second, first)) == 0
        np.testing.assert_array_equal(program.content(second), triple(triple(numbers(5))))


def test_buffers_made_by_other_threads_while_damage_is_repaired() -> None:
    """A repair looks up the buffers concerned; those that come and go meanwhile do not disturb it."""
    stop = threading.Event()

    def churn(session: Session) -> None:
        while not stop.is_set():
            session.create_buffer(64)

    for number in range(4):
        with Program(2, {1: Faults(fail={number: -5})}) as program:
            stop.clear()
            threads = [threading.Thread(target=churn, args=(program.session,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            try:
                for seed in range(20):
                    out, source = program.buffer(), program.buffer(seed)
                    completion = program.launch(out, source)
                    assert ended(completion) in (0, -5)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()


def test_the_interpreter_exits_after_failures_and_with_deferred_commands() -> None:
    script = textwrap.dedent("""
        from tests.pure.test_session_failures import LAUNCH, Program, one_launch
        from vdev.backends.reference import Faults
        program = Program(2, {1: Faults(fail={LAUNCH: -5})})
        out, source, failed = one_launch(program)
        never = program.session.user_completion()
        held = program.launch(program.buffer(), source, (never,))
        print(failed.wait(), held.status)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["-5", "3"]
    assert not done.stderr


def test_the_interpreter_exits_while_a_worker_hangs() -> None:
    script = textwrap.dedent(f"""
        from tests.pure.test_session_failures import Program, one_launch
        from vdev.backends.reference import Faults
        program = Program(2, {{1: Faults(hang_at={LAUNCH})}})
        program.session.executor.exit_timeout = 0.2
        out, source, hangs = one_launch(program)
        behind, _ = program.read(out)
        waiting = program.launch(program.buffer(), source, (hangs,))
        print(hangs.status > 0, behind.status > 0, waiting.status > 0)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * 3
    assert not done.stderr
