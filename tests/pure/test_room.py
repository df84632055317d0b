"""Memory that does not suffice: what leaves a worker, where it goes, and that nothing is lost.

Sessions on reference workers of a megabyte or so; every content is checked at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.base import Backend
from vdev.backends.reference import Faults, Pointer, ReferenceBackend, ReferenceProgram
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_RESOURCES, BackendError
from vdev.process.finalisers import collect
from vdev.session.commands import BufferArg, CopyBuffer, Fill, Launch, Map, Read, Write
from vdev.session.programs import SessionProgram
from vdev.session.session import NoRoom, Session, VirtualBuffer

LOCAL = 64
KIB = 1024

SOURCE = """
__kernel void make(__global uint *out, uint seed) {
  size_t i = get_global_id(0);
  out[i] = i * 3 + seed;
}
__kernel void reduce(__global uint *sums, __global const uint *a, __global const uint *b) {
  size_t i = get_global_id(0);
  sums[i] += a[i] ^ b[i];
}
__kernel void backwards(__global uint *out, __global const uint *in) {
  size_t i = get_global_id(0);
  out[i] = in[get_global_size(0) - 1 - i];
}
"""


def _items(ndrange: NDRange, chunk: Chunk) -> tuple[int, int]:
    return chunk.start[0] * LOCAL, chunk.stop[0] * LOCAL


def _make(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = _items(ndrange, chunk)
    seed = np.frombuffer(args[1], np.uint32)[0]  # type: ignore[call-overload]
    args[0].view("u4", start, stop - start)[:] = np.arange(start, stop, dtype=np.uint32) * 3 + seed


def _reduce(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = _items(ndrange, chunk)
    sums, a, b = (arg.view("u4", start, stop - start) for arg in args)
    sums += a ^ b


def _backwards(args: list[Pointer], ndrange: NDRange, chunk: Chunk) -> None:
    start, stop = _items(ndrange, chunk)
    n = ndrange.global_size[0]
    args[0].view("u4", start, stop - start)[:] = args[1].view("u4", n - stop, stop - start)[::-1]


class Program:
    """A session on reference workers with little memory, far from the host's."""

    def __init__(self, session: Session, backends: list[ReferenceBackend]) -> None:
        self.session = session
        self.backends = backends
        self.queue = session.create_queue(in_order=True)
        program = SessionProgram(SOURCE, (), session.workers)
        native = ReferenceProgram(
            functions={"make": _make, "reduce": _reduce, "backwards": _backwards}  # type: ignore[dict-item]
        )
        program.build(lambda _: list(session.executor.build(native)))
        program.native = native
        self.kernels = program.kernels

    def make(self, words: int, seed: int, buffer: VirtualBuffer | None = None) -> VirtualBuffer:
        buffer = buffer or self.session.create_buffer(4 * words)
        self.launch("make", buffer, np.uint32(seed).tobytes())
        return buffer

    def launch(self, name: str, *args: VirtualBuffer | bytes) -> None:
        assert self.tries(name, *args) == 0

    def tries(self, name: str, *args: VirtualBuffer | bytes) -> int:
        """The status that a launch ends with."""
        captured = tuple(
            BufferArg(arg, 0, arg.nbytes) if isinstance(arg, VirtualBuffer) else arg for arg in args
        )
        first = args[0]
        assert isinstance(first, VirtualBuffer)
        ndrange = NDRange((first.nbytes // 4,), (LOCAL,), (0,))
        return self.session.submit(Launch(self.kernels[name], captured, ndrange), queue=self.queue).wait()

    def write(self, buffer: VirtualBuffer, data: np.ndarray) -> None:
        layout = Layout.contiguous(0, data.nbytes)
        write = Write(buffer, layout, data.view(np.uint8))
        assert self.session.submit(write, queue=self.queue).wait() == 0

    def content(self, buffer: VirtualBuffer) -> np.ndarray:
        host = np.zeros(buffer.nbytes // 4, np.uint32)
        read = Read(buffer, Layout.contiguous(0, buffer.nbytes), host.view(np.uint8))
        completion = self.session.submit(read, queue=self.queue)
        assert completion.wait() == 0, completion.reason
        return host

    def check(self, buffer: VirtualBuffer, seed: int) -> None:
        np.testing.assert_array_equal(self.content(buffer), made(buffer.nbytes // 4, seed))

    def from_workers_to_host(self) -> int:
        return sum(backend.counters.to_host for backend in self.backends)


def made(words: int, seed: int) -> np.ndarray:
    return np.arange(words, dtype=np.uint32) * 3 + np.uint32(seed)


@contextmanager
def program(
    workers: int, kib: int, faults: dict[int, Faults] | None = None, claimed_kib: int = 0, far: bool = True
) -> Iterator[Program]:
    """`kib`: what each worker really has, which it overstates as `claimed_kib`."""
    backends: list[ReferenceBackend] = []

    def opener(number: int) -> Callable[[], Backend]:
        def open_worker() -> Backend:
            found = (faults or {}).get(number)
            backend = ReferenceBackend(f"reference-{number}", found, kib * KIB, is_cpu=not far)
            if claimed_kib:
                backend.info = replace(backend.info, room_nbytes=claimed_kib * KIB)
            backends.append(backend)
            return backend

        return open_worker

    session = Session([opener(number) for number in range(workers)])
    backends.sort(key=lambda backend: backend.info.name)
    try:
        yield Program(session, backends)
    finally:
        session.close()


def test_buffers_larger_in_sum_than_one_worker() -> None:
    """One and a half workers' memory, made and reduced on two, and no byte of it in host memory."""
    words = 128 * KIB  # half a megabyte each
    with program(2, 1024) as run:
        a, b, sums = run.make(words, 1), run.make(words, 2), run.make(words, 3)
        for _ in range(3):
            run.launch("reduce", sums, a, b)
        assert run.from_workers_to_host() == 0
        expected = made(words, 3) + np.uint32(3) * (made(words, 1) ^ made(words, 2))
        np.testing.assert_array_equal(run.content(sums), expected)
        assert all(buffer.home._memory is None for buffer in (a, b, sums))
        assert all(backend.counters.peak_nbytes <= 1024 * KIB for backend in run.backends)


@pytest.mark.parametrize("far", [True, False])
def test_what_does_not_fit_goes_to_the_host_and_comes_back(far: bool) -> None:
    """Three times the memory of both workers."""
    words = 64 * KIB
    with program(2, 512, far=far) as run:
        buffers = [run.make(words, seed) for seed in range(12)]
        assert run.from_workers_to_host() > 0
        sums = run.make(words, 100)
        expected = made(words, 100)
        for seed in (0, 5, 11):
            run.launch("reduce", sums, buffers[seed], buffers[seed])
        for seed in (1, 7):
            run.launch("reduce", sums, buffers[seed], buffers[0])
            expected += made(words, seed) ^ made(words, 0)
        np.testing.assert_array_equal(run.content(sums), expected)
        for seed, buffer in enumerate(buffers):
            run.check(buffer, seed)
        assert all(backend.counters.peak_nbytes <= 512 * KIB for backend in run.backends)


def test_what_others_hold_goes_first() -> None:
    with program(1, 512) as run:
        words = 48 * KIB
        shared, alone = run.make(words, 1), run.make(words, 2)
        run.check(alone, 2)  # `shared` is now the longest unused, but only `alone` goes for nothing:
        # its bytes are brought home by a mapping
        run.session.submit(Map(alone, 0, alone.nbytes, True, False), queue=run.queue).wait()
        before = run.from_workers_to_host()
        third = run.make(words, 3)
        assert run.from_workers_to_host() == before
        assert alone.state.replica(0) is None
        assert shared.state.replica(0) is not None
        for buffer, seed in ((shared, 1), (alone, 2), (third, 3)):
            run.check(buffer, seed)


def test_the_longest_unused_goes_first() -> None:
    with program(1, 512) as run:
        words = 40 * KIB
        first, second, third = (run.make(words, seed) for seed in range(3))
        run.make(words, 0, first)
        run.make(words, 3)
        assert second.state.replica(0) is None
        assert first.state.replica(0) is not None
        assert third.state.replica(0) is not None
        run.check(second, 1)


def test_another_worker_with_room_takes_what_has_to_go() -> None:
    """A worker full of one buffer has to hold another whole; the first moves over, not home."""
    words = 96 * KIB  # 384 KiB
    with program(2, 1024) as run:
        small = replace(run.session.launch_options, min_items=1 << 30)  # every launch on one worker
        run.session.launch_options = small
        a, b = run.make(words, 1), run.make(words, 2)
        c = run.make(words, 3)
        assert {holder for buffer in (a, b, c) for holder, _ in buffer.state.valid} == {0, 1}
        assert run.from_workers_to_host() == 0
        for buffer, seed in ((a, 1), (b, 2), (c, 3)):
            run.check(buffer, seed)


def test_memory_of_dropped_buffers_counts_no_more() -> None:
    words = 32 * KIB
    with program(2, 256) as run:
        for seed in range(40):
            buffer = run.make(words, seed)
            del buffer
        assert run.from_workers_to_host() == 0


def test_memory_that_the_back_end_does_not_take_back_fails_no_command(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(self: ReferenceBackend, allocation: object) -> None:
        raise BackendError(OUT_OF_RESOURCES, "the device is gone")

    words = 32 * KIB
    with program(2, 1024) as run, caplog.at_level("INFO", "vdev.executor"):
        monkeypatch.setattr(ReferenceBackend, "free", refused)
        for seed in range(8):
            kept = run.make(words, seed)
            collect()
            run.check(kept, seed)
        monkeypatch.undo()
    said = [record.getMessage() for record in caplog.records]
    assert any(text.endswith("bytes of memory are not given back: the device is gone (-5)") for text in said)


def test_without_room_a_command_fails_before_anything_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdev.planner.turns.MOST_TURNS", 0)
    words = 64 * KIB
    with program(2, 256) as run:
        kept = run.make(words, 7)
        run.content(kept)
        before = kept.state
        large = run.session.create_buffer(4 * 256 * KIB)
        with pytest.raises(NoRoom):
            run.make(256 * KIB, 1, large)
        assert kept.state is before
        assert large.state.valid == ()
        run.check(kept, 7)
        user = run.session.user_completion()
        command = Launch(
            run.kernels["make"],
            (BufferArg(large, 0, large.nbytes), np.uint32(1).tobytes()),
            NDRange((256 * KIB,), (LOCAL,), (0,)),
        )
        waiting = run.session.submit(command, (user,), queue=run.session.create_queue(in_order=False))
        user.set_status(0)
        assert waiting.wait() == MEM_OBJECT_ALLOCATION_FAILURE
        run.check(kept, 7)


def test_a_write_without_room_goes_home() -> None:
    with program(2, 512) as run:
        data = np.arange(600 * KIB, dtype=np.uint32)
        large = run.session.create_buffer(data.nbytes)
        run.write(large, data)
        np.testing.assert_array_equal(run.content(large), data)
        assert large.state.replicas == ()
        completion = run.session.submit(Fill(large, 0, large.nbytes, b"\5"), queue=run.queue)
        assert completion.wait() == 0
        np.testing.assert_array_equal(run.content(large), np.full(600 * KIB, 0x05050505, np.uint32))


def test_a_command_that_needs_its_own_replicas_elsewhere() -> None:
    """A buffer read from the other end: there is no room on a worker for what it has and what it needs."""
    words = 96 * KIB
    with program(2, 416) as run:
        a = run.make(words, 1)
        out = run.session.create_buffer(a.nbytes)
        run.launch("backwards", out, a)
        np.testing.assert_array_equal(run.content(out), made(words, 1)[::-1])
        back = run.session.create_buffer(a.nbytes)
        copy = CopyBuffer(out, back, (1, 1, a.nbytes), 0, (a.nbytes, a.nbytes), 0, (a.nbytes, a.nbytes))
        assert run.session.submit(copy, queue=run.queue).wait() == 0
        np.testing.assert_array_equal(run.content(back), made(words, 1)[::-1])
        run.check(a, 1)


def test_a_worker_that_has_less_than_it_says() -> None:
    """The first command that finds out fails; afterwards less is counted on, and nothing was lost."""
    words = 32 * KIB
    with program(2, 256, claimed_kib=1024) as run:
        buffers = {}
        failures = 0
        for seed in range(24):
            buffer = run.session.create_buffer(4 * words)
            if run.tries("make", buffer, np.uint32(seed).tobytes()) == 0:
                buffers[seed] = buffer
            else:
                failures += 1
        assert 1 <= failures <= 2, "one for each worker"
        for seed, buffer in buffers.items():
            run.check(buffer, seed)


def test_an_eviction_that_fails_loses_nothing() -> None:
    """The worker that was to take what another gives up has less memory than it says."""
    words = 96 * KIB
    with program(2, 1024, {1: Faults(capacity=100 * KIB)}) as run:
        run.session.launch_options = replace(run.session.launch_options, min_items=1 << 30, workers=(0,))
        a, b = run.make(words, 1), run.make(words, 2)
        c = run.session.create_buffer(a.nbytes)
        ends = []
        while not ends or (ends[-1] != 0 and len(ends) < 4):  # half as much is counted on after each
            ends.append(run.tries("make", c, np.uint32(3).tobytes()))
            run.check(a, 1)
            run.check(b, 2)
        assert ends == [MEM_OBJECT_ALLOCATION_FAILURE] * 2 + [0]
        for buffer, seed in ((a, 1), (b, 2), (c, 3)):
            run.check(buffer, seed)


@pytest.mark.parametrize("seed", range(6))
def test_any_program_keeps_within_the_memory(seed: int) -> None:
    """Random launches, writes, copies and drops in a fraction of the memory they would like to have."""
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(1, 5))
    kib = 40 + int(rng.integers(340, 500)) // workers  # what the largest launch needs, and a little
    with program(workers, kib, far=bool(rng.random() < 0.7)) as run:
        held: list[tuple[VirtualBuffer, np.ndarray]] = []
        for _ in range(60):
            words = int(rng.choice([1, 8, 16, 24])) * KIB
            action = rng.choice(["make", "write", "reduce", "backwards", "copy", "drop", "read"])
            same = [item for item in held if len(item[1]) == words]
            if action == "make" or len(held) < 3:
                number = int(rng.integers(1000))
                held.append((run.make(words, number), made(words, number)))
            elif action == "write":
                data = rng.integers(0, 2**32, words, dtype=np.uint32)
                buffer = same[0][0] if same and rng.random() < 0.5 else run.session.create_buffer(4 * words)
                run.write(buffer, data)
                held = [item for item in held if item[0] is not buffer] + [(buffer, data)]
            elif action == "drop":
                held.pop(int(rng.integers(len(held))))
            elif action == "read":
                buffer, expected = held[int(rng.integers(len(held)))]
                np.testing.assert_array_equal(run.content(buffer), expected)
            elif len(same) >= 3:
                (a, of_a), (b, of_b), (c, of_c) = (
                    same[index] for index in rng.permutation(len(same))[:3].tolist()
                )
                if action == "reduce":
                    run.launch("reduce", a, b, c)
                    of_a += of_b ^ of_c
                elif action == "backwards":
                    run.launch("backwards", a, b)
                    of_a[:] = of_b[::-1]
                else:
                    shape, pitches = (1, 1, a.nbytes), (a.nbytes, a.nbytes)
                    copy = CopyBuffer(b, a, shape, 0, pitches, 0, pitches)
                    assert run.session.submit(copy, queue=run.queue).wait() == 0
                    of_a[:] = of_b
            while len(held) > 40:
                held.pop(0)
        for buffer, expected in held:
            np.testing.assert_array_equal(run.content(buffer), expected)
        assert all(backend.counters.peak_nbytes <= kib * KIB for backend in run.backends)
