"""Homes that are copied again and again are pinned, whatever the program does with its mappings, and given back."""

from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np
import pytest

from vdev.backends.cuda.pinned_homes import PinnedHomes

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

BEGIN = '''
import gc
import numpy as np, pyopencl as cl
from vdev.backends.cuda.pinned_homes import PinnedHomes
pins, pin = [0], PinnedHomes.pin
def counted(homes, memory):
    found = pin(homes, memory)
    pins[0] += found is not None
    return found
PinnedHomes.pin = counted
context = cl.create_some_context(interactive=False)
queue, alone = cl.CommandQueue(context), len(context._vdev_state.session.workers) == 1
source = """
kernel void add(global int *a, int more) { a[get_global_id(0)] += more; }
kernel void total(global int *s, global const int *a) { int i = get_global_id(0); s[i] += a[i]; }
kernel void move(global int *b, global const int *a) { int i = get_global_id(0); b[i] = a[i]; }
"""
program = cl.Program(context, source).build()
add, total, move = program.add, program.total, program.move
size, flags = 1 << 16, cl.map_flags
s = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(size, np.int32))
both = flags.READ | flags.WRITE
def mapped(buffer, how=both):
    return cl.enqueue_map_buffer(queue, buffer, how, 0, (size,), np.int32)[0]
'''
#: what programs do, and how many homes are pinned meanwhile
PROGRAMS = {
    "mapped again and again": (
        """
a = cl.Buffer(context, cl.mem_flags.ALLOC_HOST_PTR, 4 * size)
expected = np.arange(size)
mapped(a, flags.WRITE_INVALIDATE_REGION)[:] = expected
for turn in range(12):
    add(queue, (size,), None, a, np.int32(turn))
    expected = expected + turn
    array = mapped(a)
    assert (array == expected).all(), turn
    array[turn::7] = expected[turn::7] = turn
    array.base.release(queue)
""",
        1,
    ),
    "shared virtual memory": (
        """
a = cl.SVM(cl.csvm_empty(context, size, np.int32))
with a.map_rw(queue) as array:
    array[:] = 0
for turn in range(12):
    add(queue, (size,), None, a, np.int32(1))
    with a.map_rw(queue) as array:
        assert (array[1:] == turn + 1).all() and array[0] == 2 * turn + 1
        array[0] += 1
""",
        1,
    ),
    "mapped once": (
        """
a = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(size, np.int32))
for turn in range(12):
    add(queue, (size,), None, a, np.int32(1))
assert (mapped(a) == 12).all()
""",
        0,
    ),
    "given up and written again and again": (
        """
a, b = [cl.Buffer(context, cl.mem_flags.ALLOC_HOST_PTR, 4 * size) for _ in range(2)]
other, expected = cl.CommandQueue(context), 0
for turn in range(12):
    array, _ = cl.enqueue_map_buffer(other if turn % 3 == 2 else queue, a, flags.WRITE_INVALIDATE_REGION, 0, (size,), np.int32)
    array[:] = turn  # not before what the last turn wrote has been taken
    array.base.release(queue)
    add(queue, (size,), None, a, np.int32(1))
    cl.enqueue_copy(queue, b, a)
    expected = expected + turn + 1
    total(queue, (size,), None, s, b)
    for number in range(3):
        array = mapped(a, flags.WRITE_INVALIDATE_REGION)
        array[:] = number
        array.base.release(queue)
        total(queue, (size,), None, s, a)
    expected = expected + 3
    part, event = cl.enqueue_map_buffer(other, a, flags.WRITE_INVALIDATE_REGION, 0, (16,), np.int32, is_blocking=False)
    event.wait()
    part[:] = 1000  # few bytes, in another queue, while all of them are on their way
    part.base.release(other)
found = np.empty(size, np.int32)
cl.enqueue_copy(queue, found, s)
assert (found == expected).all()
""",
        1,
    ),
    "written and read in turn": (
        """
a = cl.Buffer(context, cl.mem_flags.ALLOC_HOST_PTR, 4 * size)
mapped(a, flags.WRITE_INVALIDATE_REGION)[:] = 0
expected = np.zeros(size, np.int32)
for turn in range(24):
    how = both if turn % 5 else flags.WRITE_INVALIDATE_REGION
    array = mapped(a, how)
    if how == both:
        assert (array == expected).all(), turn
    array[:] = expected = expected * 3 + turn
    array.base.release(queue)
    for _ in range(turn % 3):
        add(queue, (size,), None, a, np.int32(1))
        expected = expected + 1
""",
        1,
    ),
    "dropped as soon as it was written": (
        """
kept, expected = [], 0
for number in range(4):
    a = cl.Buffer(context, cl.mem_flags.ALLOC_HOST_PTR, 4 * size + 4096 * number)
    for turn in range(9):
        array = mapped(a, flags.WRITE_INVALIDATE_REGION)
        array[:] = turn
        array.base.release(queue)
        total(queue, (size,), None, s, a)
        expected += turn
    del a, array
    gc.collect()
found = np.empty(size, np.int32)
cl.enqueue_copy(queue, found, s)
assert (found == expected).all()
""",
        4,
    ),
    "the program's own memory": (
        """
own = np.zeros(size, np.int32)
a = cl.Buffer(context, cl.mem_flags.USE_HOST_PTR, hostbuf=own)
expected = 0
for turn in range(12):
    array = mapped(a, flags.WRITE_INVALIDATE_REGION)
    array[:] = turn
    array.base.release(queue)
    if alone and turn > 6:  # it should not, but by then what it has mapped has been taken when the mapping has ended
        own[:] = -1
    total(queue, (size,), None, s, a)
    expected += turn
found = np.empty(size, np.int32)
cl.enqueue_copy(queue, found, s)
assert (found == expected).all()
""",
        1,
    ),
    "interrupted": (
        """
from vdev.executor import direct_reads
wait, made = direct_reads.in_driver, PinnedHomes._unpin
a = cl.Buffer(context, cl.mem_flags.ALLOC_HOST_PTR, 4 * size)
for turn in range(9):
    mapped(a, flags.WRITE_INVALIDATE_REGION)[:] = turn
    add(queue, (size,), None, a, np.int32(1))
    assert (mapped(a, flags.READ) == turn + 1).all()
def interrupted(wait):
    raise KeyboardInterrupt
add(queue, (size,), None, a, np.int32(1))
direct_reads.in_driver = interrupted
try:
    mapped(a, flags.READ)
    assert not alone, "it was not interrupted"
except KeyboardInterrupt:
    pass
direct_reads.in_driver = wait
home = a._vdev_state.buffer.home()
assert (home.view(np.int32) == 10).all()  # the copy has come, and will not come later
""",
        1,
    ),
    "transfers from and to a mapped buffer": (
        """
a, b = [cl.Buffer(context, cl.mem_flags.ALLOC_HOST_PTR, 4 * size) for _ in range(2)]
for turn in range(6):
    mapped(a, both).base.release(queue)
    add(queue, (size,), None, a, np.int32(0))
array = mapped(a)
found = np.empty(size, np.int32)
for number in range(6):
    for nitems in (size, size, 1000, 1000, 1000):  # what the program writes afterwards must not overtake the bytes on their way
        array[:nitems] = number
        cl.enqueue_copy(queue, b, array[:nitems])
        array[:nitems] = -1
        add(queue, (size,), None, b, np.int32(1))
    cl.enqueue_copy(queue, found, b)
    assert (found[:1000] == number + 1).all() and (found[1000:] == number + 4).all(), number
    cl.enqueue_copy(queue, array, b)
    assert (array == found).all()
""",
        1,
    ),
    "a back end by itself": (
        """
from vdev.backends.base import Box
from vdev.backends.cuda.backend import opener
backend = opener(0)()
backend.enter()
memory, found = np.zeros(1 << 20, np.uint8), np.zeros(1 << 20, np.uint8)
pinned, there = backend.pin(memory), backend.allocate(memory.size)
for number, nbytes in enumerate((1 << 20, 100, 64 << 10, 1 << 20)):
    box = Box.contiguous(0, 0, nbytes)
    memory[:] = number
    backend.write(there, memory, box)
    memory[:] = 255  # the bytes have been taken
    backend.read(there, found, box)
    assert (found[:nbytes] == number).all()
backend.close()
backend.give_back()
""",
        1,
    ),
    "buffers that are dropped, their arrays that stay": (
        """
kept = []
for number in range(4):
    a = cl.Buffer(context, cl.mem_flags.ALLOC_HOST_PTR, 4 * size)
    for turn in range(6):
        array = mapped(a)
        array[:] = number
        array.base.release(queue)
        add(queue, (size,), None, a, np.int32(1))
    queue.finish()
    kept.append(mapped(a))
    del a, array
    gc.collect()
assert all((array == number + 1).all() for number, array in enumerate(kept))
""",
        4,
    ),
}


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize(("workers", "late"), [("cuda:0", "0"), ("cuda:0,1", "1")])
@pytest.mark.parametrize("what", PROGRAMS)
def test_homes_that_are_copied_often_are_pinned(what: str, workers: str, late: str, tmp_path: Path) -> None:
    code, often = PROGRAMS[what]
    env = fake_cuda.environment(tmp_path, workers) | {
        "FAKE_CUDA_LATE": late,
        "FAKE_CUDA_CALLS": str(tmp_path / "calls"),
    }
    fake_cuda.run(f"{BEGIN}{code}\nassert pins == [{often}], pins", env)
    calls = dict(map(str.split, (tmp_path / "calls").read_text().splitlines()))
    taken = int(calls.get("fake_registered", 0)) + int(calls.get("fake_pinned", 0))
    assert taken == int(calls.get("fake_pinned_gone", 0)), calls


FRAMES = """
import ctypes
a, b = [cl.Buffer(context, cl.mem_flags.ALLOC_HOST_PTR, 4 * size) for _ in range(2)]
calls = ctypes.CDLL("libcuda.so.1").fake_calls
calls.restype = ctypes.c_long
for turn in range(80):
    if turn == 40:
        before = calls()
    array = mapped(a, flags.WRITE_INVALIDATE_REGION)
    array[:] = turn
    array.base.release(queue)
    move(queue, (size,), None, b, a)
    array = mapped(b, flags.READ)
    assert (array == turn).all()
    array.base.release(queue)
print((calls() - before) / 40)
"""


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_a_frame_is_two_copies_and_a_launch(tmp_path: Path) -> None:
    """Written by a mapping, and its result read by one: the driver is asked for these, whether anything is left to be waited for, and to
    wait for the result.
    """
    printed = fake_cuda.run(f"{BEGIN}{FRAMES}", fake_cuda.environment(tmp_path, "cuda:0"))
    assert float(printed) < 8, (
        "each wait for one of the copies, and each context that is set for it, is one more"
    )


class _Runtime:
    CUDARuntimeError = ValueError

    def __init__(self) -> None:
        self.pinned: dict[int, int] = {}
        self.refuses = False

    def hostRegister(self, start: int, nbytes: int, flags: int) -> None:
        if self.refuses:
            raise ValueError("no more")
        assert flags == 1
        self.pinned[start] = nbytes

    def hostUnregister(self, start: int) -> None:
        del self.pinned[start]


class _CuPy:
    def __init__(self) -> None:
        self.cuda = self
        self.runtime = _Runtime()


def test_what_is_pinned_is_known_by_address() -> None:
    cupy = _CuPy()
    homes = PinnedHomes(cupy)
    memory = np.zeros(1000, np.uint8)
    start = memory.ctypes.data
    pin = homes.pin(memory[100:900])
    assert pin is not None
    assert cupy.runtime.pinned == {start + 100: 800}
    assert homes.cover(start + 100, 800)
    assert not homes.cover(start + 99, 10)
    assert not homes.cover(start + 890, 11)
    assert homes.touch(start + 890, 11)
    assert homes.touch(start, 101)
    assert not homes.touch(start, 100)
    assert not homes.touch(start + 900, 100)
    assert homes.pin(memory[:200]) is None  # some of it is
    del pin
    assert not homes.cover(start + 100, 800)
    assert not cupy.runtime.pinned


def test_memory_lives_until_it_is_unpinned() -> None:
    cupy = _CuPy()
    homes = PinnedHomes(cupy)
    memory = np.zeros(1000, np.uint8)
    gone, order = weakref.ref(memory), []
    unregister = cupy.runtime.hostUnregister
    cupy.runtime.hostUnregister = lambda start: (order.append(gone() is None), unregister(start))  # type: ignore[method-assign]
    pin = homes.pin(memory)
    del memory, pin
    assert not homes.cover(0, 1)
    assert order == [False]
    assert gone() is None


def test_memory_that_may_go_at_any_time_is_not_pinned() -> None:
    cupy = _CuPy()
    homes = PinnedHomes(cupy)
    assert homes.pin(np.frombuffer(bytearray(100), np.uint8)) is None
    assert homes.pin(np.zeros(0, np.uint8)) is None
    cupy.runtime.refuses = True
    assert homes.pin(np.zeros(100, np.uint8)) is None
    assert not homes.starts
    assert not cupy.runtime.pinned


def test_all_is_given_back_at_the_end() -> None:
    cupy = _CuPy()
    homes = PinnedHomes(cupy)
    pins = [homes.pin(np.zeros(100, np.uint8)) for _ in range(3)]
    assert len(cupy.runtime.pinned) == 3
    homes.close()
    assert not cupy.runtime.pinned
    del pins  # nothing is left to be done
    assert not homes.cover(0, 1)
