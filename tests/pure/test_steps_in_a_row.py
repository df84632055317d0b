"""Steps of a program that writes a little, launches, adds up and reads the sums: what they ask of several GPUs besides their work, and
that they come behind what they have to. On machines without a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: what is counted of the steps; commands are old as soon as they are handed over, if `OLD_NS` is negative
PROGRAM = """
import numpy as np, pyopencl as cl
from collections import Counter
from vdev.backends.cuda.backend import CudaBackend
from vdev.executor import together
from vdev.executor.worker import Worker
from vdev.session.moves import Moves
together.MARK_AFTER_NS = OLD_NS
counts = Counter()
def counting(owner, name):
    original = getattr(owner, name)
    def counted(self, *given):
        found = original(self, *given)
        counts[name] += found is not None
        return found
    setattr(owner, name, counted)
for owner, name in (CudaBackend, "record"), (Worker, "has_passed"), (Moves, "write_again"):
    counting(owner, name)
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void add(global uint *sums, global const uint *values, global const uint *by)
{
    const uint value = values[get_global_id(0)], bin = value % 64;
    atomic_add(&sums[bin], value * by[bin]);
}
kernel void twice(global uint *to) { to[get_global_id(0)] *= 2; }
kernel void turn(global uint *to, global const uint *from) { to[get_global_id(0)] = from[(get_global_id(0) + 64) % 4096] + 1; }
''').build()
add, twice, turn = (cl.Kernel(program, name) for name in ("add", "twice", "turn"))
def written(array):
    return cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
values = np.random.default_rng(0).integers(0, 2**31, 4096).astype(np.uint32)
bins = values % 64
points, sums, factors = written(values), written(np.zeros(64, np.uint32)), written(np.zeros(64, np.uint32))
def step(number, by=None, start=0):
    by = np.full(64, number, np.uint32) if by is None else by
    wanted, found = np.zeros(64, np.uint32), np.empty(64, np.uint32)
    factor[start : start + by.size] = by
    cl.enqueue_copy(queue, factors, by, dst_offset=4 * start)
    cl.enqueue_fill_buffer(queue, sums, np.uint32(0), 0, 256)
    event = add(queue, (4096,), (64,), sums, points, factors)
    by[:] = 77  # the bytes have been read
    cl.enqueue_copy(queue, found, sums)
    with np.errstate(over="ignore"):
        np.add.at(wanted, bins, values * factor[bins])
    assert (found == wanted).all(), number
    return event
factor = np.zeros(64, np.uint32)
for number in range(60):
    step(number)
counts.clear()
"""

STEADY = """
for turn in range(60):  # on a busy machine the workers' threads are behind for a while
    counts.clear()
    for number in range(64):
        step(number)
    # 64 commands, of which a step has four, share their marks
    if counts["record"] <= 3 * 6 and counts["write_again"] == 64 and counts["has_passed"] <= 3 * 6:
        break
else:
    raise AssertionError(counts)
print("right")
"""

#: somebody waits for a command with others behind it, and there are marks again
EARLY = """
fields = [written(np.ones(4096, np.uint32)) for _ in range(2)]
def launched():
    return [twice(queue, (4096,), (64,), fields[turn % 2]) for turn in range(4)]
for number in range(20):
    events = launched()
    step(number)
    events[1].wait()
    events = [launched()[0], step(number, start=8, by=np.arange(8, dtype=np.uint32))]
    events[0].wait()
for turn in range(20):
    counts.clear()
    for number in range(20):
        launched()[1].wait()
    if counts["record"] >= 3 * 50:  # most of 80 launches have got their own
        break
else:
    raise AssertionError(counts)
print("right")
"""

#: other bytes, other arrays and other places each time
DEVIATIONS = """
import random
chance = random.Random(5)
for number in range(160):
    start, size = chance.choice([(0, 64), (0, 64), (8, 16), (8, 56)])
    by = np.array([chance.randrange(1 << 32) for _ in range(size)], np.uint32)
    kind = chance.randrange(6)
    if kind == 0:  # a part of an array that is twice as large
        around = np.full(2 * size, 3, np.uint32)
        around[size:] = by
        factor[start : start + size] = by
        cl.enqueue_copy(queue, factors, around, buffer_origin=(4 * start, 0, 0), host_origin=(4 * size, 0, 0), region=(4 * size, 1, 1))
        step(number, factor[:8].copy())
    elif kind == 1:
        given = np.empty(64, np.uint32)
        cl.enqueue_copy(queue, given, factors)
        assert (given == factor).all(), number
        step(number, by, start)
    else:
        step(number, by, start)
assert counts["write_again"] > 10, counts
print("right")
"""

#: a read of what one worker has, behind a launch that all of them have got, which needs what others have changed before
BEHIND = """
one, given, field = written(np.arange(64, dtype=np.uint32)), np.empty(64, np.uint32), np.arange(4096, dtype=np.uint32)
fields = [written(field) for _ in range(2)]
for number in range(1, 31):
    twice(queue, (64,), (64,), one)
    turn(queue, (4096,), (64,), fields[number % 2], fields[(number + 1) % 2])
    cl.enqueue_copy(queue, given, one)
    assert (given == np.arange(64, dtype=np.uint32) << number).all()
found = np.empty(4096, np.uint32)
cl.enqueue_copy(queue, found, fields[number % 2])
assert (found == np.roll(field, -64 * number) + number).all()
print("right")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def _run(folder: Path, script: str, old_ns: int = -1, **orders: int) -> str:
    always = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    env = fake_cuda.environment(folder, "cuda:0-2", **orders) | always
    return fake_cuda.run(f"OLD_NS = {old_ns}\n{PROGRAM}{script}", env)


def test_a_program_that_waits_for_all_each_time_puts_no_marks_and_asks_nobody(folder: Path) -> None:
    """Nor do its writes take the way of one that is made for the first time."""
    assert _run(folder, STEADY) == "right\n"


@pytest.mark.parametrize("orders", [{}, {"late": 1}, {"seed": 3}])
def test_who_waits_for_one_of_several_commands_has_marks_again(folder: Path, orders: dict[str, int]) -> None:
    assert _run(folder, EARLY, **orders) == "right\n"


@pytest.mark.parametrize("orders", [{"late": 0}, {"late": 2}, {"seed": 1}])
def test_writes_that_deviate_bring_their_bytes(folder: Path, orders: dict[str, int]) -> None:
    assert _run(folder, DEVIATIONS, **orders) == "right\n"


@pytest.mark.parametrize("late", [0, 1, 2])
def test_what_follows_a_read_comes_after_what_others_still_do(folder: Path, late: int) -> None:
    assert _run(folder, BEHIND, late=late) == "right\n"
