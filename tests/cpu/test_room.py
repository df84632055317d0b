"""Native workers with less memory than a program uses: translated kernels, real transfers, right results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange

from vdev.backends.base import Backend
from vdev.backends.opencl.backend import opener
from vdev.backends.opencl.native import load_native
from vdev.session.commands import BufferArg, CopyBuffer, Launch
from vdev.session.session import NoRoom, Session, VirtualBuffer
from vdev.start.engines import register_engines

from ..pure.session_program import SessionUser

ROOM = 1 << 20  # bytes of each worker
WORDS = 1 << 16

SOURCE = """
__kernel void fill(__global uint *out, uint seed) { out[get_global_id(0)] = get_global_id(0) * seed; }
__kernel void reduce(__global uint *sums, __global const uint *a) {
  sums[get_global_id(0)] += a[get_global_size(0) - 1 - get_global_id(0)];
}
__kernel void scatter(__global uint *out, __global const uint *index, __global const uint *a) {
  out[index[get_global_id(0)]] = a[get_global_id(0)];
}
"""


class Program(SessionUser):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.kernels = session.build(SOURCE).kernels

    def launch(self, name: str, *args: VirtualBuffer | int) -> int:
        captured = tuple(
            np.uint32(arg).tobytes() if isinstance(arg, int) else BufferArg(arg, 0, arg.nbytes)
            for arg in args
        )
        first = args[0]
        assert isinstance(first, VirtualBuffer)
        command = Launch(self.kernels[name], captured, NDRange((first.nbytes // 4,), (64,), (0,)))
        return self.session.submit(command, queue=self.queue).wait()

    def made(self, seed: int, words: int = WORDS) -> VirtualBuffer:
        buffer = self.session.create_buffer(4 * words)
        assert self.launch("fill", buffer, seed) == 0
        return buffer


@pytest.fixture
def run() -> Iterator[Program]:
    register_engines()
    cl = load_native()
    devices: list[Any] = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    device = next(d for d in devices if d.get_info(cl.device_info.TYPE) & cl.device_type.CPU)

    def limited() -> Callable[[], Backend]:
        def open_worker() -> Backend:
            backend = opener(device, 2)()
            backend.info = replace(backend.info, room_nbytes=ROOM)
            return backend

        return open_worker

    session = Session([limited(), limited()])
    yield Program(session)
    peaks = [counters.peak_nbytes for counters in session.executor.counters()]
    session.close()
    assert max(peaks) <= ROOM


def multiples(seed: int) -> np.ndarray:
    return np.arange(WORDS, dtype=np.uint32) * np.uint32(seed)


def test_six_times_the_memory(run: Program) -> None:
    buffers = {seed: run.made(seed) for seed in range(1, 49)}  # 12 MiB in 2 MiB
    sums = run.made(0)
    expected = multiples(0)
    for seed in (3, 40, 17, 1, 48, 3):
        assert run.launch("reduce", sums, buffers[seed]) == 0
        expected += multiples(seed)[::-1]
    np.testing.assert_array_equal(run.content(sums), expected)
    for seed, buffer in buffers.items():
        np.testing.assert_array_equal(run.content(buffer), multiples(seed))


def test_merges_and_copies_with_little_memory(run: Program) -> None:
    index = np.random.default_rng(1).permutation(WORDS).astype(np.uint32)
    into = run.written(index)
    found = {}
    for seed in range(1, 9):
        out, source = run.made(5), run.made(seed)
        assert run.launch("scatter", out, into, source) == 0
        copied = run.session.create_buffer(out.nbytes)
        shape, pitches = (1, 1, out.nbytes), (out.nbytes, out.nbytes)
        copy = CopyBuffer(out, copied, shape, 0, pitches, 0, pitches)
        assert run.session.submit(copy, queue=run.queue).wait() == 0
        found[seed] = copied
    for seed, copied in found.items():
        expected = np.empty(WORDS, np.uint32)
        expected[index] = multiples(seed)
        np.testing.assert_array_equal(run.content(copied), expected)


def test_more_than_a_worker_can_ever_hold(run: Program) -> None:
    kept, index = run.made(9), run.written(np.arange(WORDS, dtype=np.uint32))
    large = run.session.create_buffer(4 * ROOM)
    with pytest.raises(NoRoom):
        run.launch("scatter", large, index, kept)  # each work-group may write anywhere
    np.testing.assert_array_equal(run.content(kept), multiples(9))
    assert run.launch("fill", large, 1) == 0  # in turns
    np.testing.assert_array_equal(run.content(large), np.arange(ROOM, dtype=np.uint32))
    data = np.arange(ROOM, dtype=np.uint32)
    np.testing.assert_array_equal(run.content(run.written(data)), data)
