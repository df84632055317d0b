"""Memory that a program gives for a buffer (CL_MEM_USE_HOST_PTR), on workers that have no other memory than the host's: as natively,
kernels work in it, and programs that look into it without mapping the buffer see what kernels have done.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from vdev.facade import stand_in
from vdev.facade.errors import native
from vdev.facade.handles import state_of
from vdev.facade.platform_device import Platform
from vdev.process.switches import WorkerSpec
from vdev.session.session import Session
from vdev.start.workers import open_workers

cl: Any = ModuleType("pyopencl._cl")
stand_in.populate(cl)

N = 4096
FLAGS = native.mem_flags.READ_WRITE | native.mem_flags.USE_HOST_PTR
SOURCE = """
kernel void add(global int *a, int more) { a[get_global_id(0)] += more; }
kernel void shift(global const int *a, global int *b) { int i = get_global_id(0); b[i] = a[(i + 1) % get_global_size(0)]; }
kernel void count(global const int *a, global int *b) { atomic_add(b + (a[get_global_id(0)] & 7), 1); }
"""


@pytest.fixture(scope="module", params=[1, 3])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    made = Session(open_workers([WorkerSpec("cpu", (), request.param)]))
    yield made
    made.close()


@pytest.fixture(scope="module")
def context(session: Session) -> Any:
    return cl.Context(Platform(session).get_devices())


@pytest.fixture
def queue(context: Any) -> Any:
    return cl.CommandQueue(context)


@pytest.fixture(scope="module")
def program(context: Any) -> Any:
    made = cl._Program(context, SOURCE)
    made._build(b"", None)
    return made


def memory(beside: int = 0) -> np.ndarray[Any, Any]:
    """Numbers at the beginning of a page, or so many bytes behind."""
    raw = np.zeros(N * 4 + 8192, np.uint8)
    first = -raw.ctypes.data % 4096 + beside
    found = raw[first : first + N * 4].view(np.int32)
    found[:] = np.arange(N)
    return found


def launch(queue: Any, program: Any, name: str, *args: Any) -> None:
    kernel = cl.Kernel(program, name)
    for index, arg in enumerate(args):
        kernel.set_arg(index, arg)
    cl.enqueue_nd_range_kernel(queue, kernel, (N,), (64,))
    queue.finish()


def test_the_program_and_its_kernels_see_the_same(context: Any, queue: Any, program: Any) -> None:
    ours, others = memory(), memory()
    a, b = (cl.Buffer(context, FLAGS, 0, each) for each in (ours, others))
    plain = cl.Buffer(context, native.mem_flags.READ_WRITE, N * 4)
    for number in range(3):
        ours[:] = np.arange(N) * number
        launch(queue, program, "add", a, np.int32(5))
        assert (ours == np.arange(N) * number + 5).all()
        launch(queue, program, "shift", a, b)
        assert (others == np.roll(ours, -1)).all()
        launch(queue, program, "shift", b, plain)
        found = np.zeros(N, np.int32)
        cl._enqueue_read_buffer(queue, plain, found)
        assert (found == np.roll(ours, -2)).all()
    before = others.copy()
    launch(queue, program, "count", a, b)
    before[:8] += np.bincount(ours & 7, minlength=8).astype(np.int32)
    assert (others == before).all()


def test_part_of_it(context: Any, queue: Any, program: Any) -> None:
    ours = memory()
    whole = cl.Buffer(context, FLAGS, 0, ours)
    part = whole.get_sub_region(N * 2, N * 2, native.mem_flags.READ_WRITE)
    kernel = cl.Kernel(program, "add")
    kernel.set_arg(0, part)
    kernel.set_arg(1, np.int32(9))
    cl.enqueue_nd_range_kernel(queue, kernel, (N // 2,), (64,))
    queue.finish()
    assert (ours == np.arange(N) + 9 * (np.arange(N) >= N // 2)).all()
    cl._enqueue_write_buffer(queue, whole, np.full(16, -1, np.int32), 64)
    assert (ours[16:32] == -1).all()


def test_memory_that_is_not_aligned_is_copied(context: Any, queue: Any, program: Any) -> None:
    """Kernels may count on a buffer's alignment (CL_DEVICE_MEM_BASE_ADDR_ALIGN)."""
    ours = memory(beside=4)
    buffer = cl.Buffer(context, FLAGS, 0, ours)
    assert not state_of(buffer).buffer.state.fine
    launch(queue, program, "add", buffer, np.int32(5))
    found = np.zeros(N, np.int32)
    cl._enqueue_read_buffer(queue, buffer, found)
    assert (found == np.arange(N) + 5).all()
