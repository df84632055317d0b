"""Buffers whose transfers are planned one by one are brought to one worker, and all bytes with them; launches stay split."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: boxes and rows between buffers of which each worker has a part, reads, writes and fills, each time of other bytes, with launches between
#: them that have all workers take part
PROGRAM = """
import numpy as np, pyopencl as cl
from vdev.facade.handles import state_of
from vdev.session import gathering
from vdev.session.choosing import Choosing
gathered = []
gather = gathering.Gathering._gather
def noted(self, buffers):
    gathered.append(gather(self, buffers))
    return gathered[-1]
gathering.Gathering._gather = noted
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
turn = cl.Kernel(cl.Program(context, '''
kernel void turn(global uint *values) { values[get_global_id(0)] = values[get_global_id(0)] * 5u + 1u; }
''').build(), "turn")
WIDE, BOX = 512, 24
random = np.random.default_rng(SEED)
class Sheet:
    def __init__(self):
        self.values = random.integers(0, 2**32, (WIDE, WIDE), dtype=np.uint32)
        self.buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=self.values)
    def is_right(self):
        found = np.empty_like(self.values)
        cl.enqueue_copy(queue, found, self.buffer)
        return bool((found == self.values).all())
    def is_whole(self):
        return state_of(self.buffer).buffer.resident is not None
    def turn(self):
        turn(queue, (WIDE * WIDE,), (64,), self.buffer)
        self.values = self.values * np.uint32(5) + np.uint32(1)
one, other = Sheet(), Sheet()
def box(source, target):
    x, y, to_x, to_y = map(int, random.integers(0, WIDE - BOX, 4))
    pitches = 4 * WIDE, 4 * WIDE * WIDE
    cl.enqueue_copy(queue, target.buffer, source.buffer, src_origin=(4 * x, y, 0), dst_origin=(4 * to_x, to_y, 0),
                    region=(4 * BOX, BOX, 1), src_pitches=pitches, dst_pitches=pitches)
    target.values[to_y : to_y + BOX, to_x : to_x + BOX] = source.values[y : y + BOX, x : x + BOX].copy()
def row(source, target):
    y, to = map(int, random.integers(0, WIDE, 2))
    cl.enqueue_copy(queue, target.buffer, source.buffer, src_offset=4 * WIDE * y, dst_offset=4 * WIDE * to, byte_count=4 * WIDE)
    target.values[to] = source.values[y].copy()
def fill(source, target):
    start, count, value = int(random.integers(0, WIDE * WIDE - 900)), int(random.integers(1, 900)), int(random.integers(1, 2**32))
    cl.enqueue_fill_buffer(queue, target.buffer, np.uint32(value), 4 * start, 4 * count)
    target.values.reshape(-1)[start : start + count] = value
def write(source, target):
    start, count = int(random.integers(0, WIDE * WIDE - 900)), int(random.integers(1, 900))
    array = random.integers(0, 2**32, count, dtype=np.uint32)
    cl.enqueue_copy(queue, target.buffer, array, dst_offset=4 * start)
    target.values.reshape(-1)[start : start + count] = array
def read(source, target):
    start, count = int(random.integers(0, WIDE * WIDE - 900)), int(random.integers(1, 900))
    array = np.empty(count, np.uint32)
    cl.enqueue_copy(queue, array, source.buffer, src_offset=4 * start)
    assert (array == source.values.reshape(-1)[start : start + count]).all(), "WRONG"
KINDS = box, row, fill, write, read
def some(count, kinds=KINDS):
    for _ in range(count):
        source, target = (one, other) if random.random() < 0.5 else (other, one)
        kinds[int(random.integers(len(kinds)))](source, target)
"""
#: at the least occasion
SOON = """
gathering._LEAST, gathering._PAYS, gathering._DEARER, gathering._FEWEST = 1e-9, 0.0, 1.0, 1
Choosing._lose = Choosing._exchange_loses = lambda *given: False  # launches stay split
for number in range(30):
    some(6)
    (one if number % 2 else other).turn()
    if number % 5 == 4:
        assert one.is_right() and other.is_right(), "WRONG"
assert sum(gathered) > 8, gathered
print("right")
"""
NOTHING_MOVED = """
from vdev.planner import transfers
class Builder(transfers.PlanBuilder):
    def make_valid(self, *given): pass
real = transfers.plan_gather
def planted(*given):
    transfers.PlanBuilder, kept = Builder, transfers.PlanBuilder
    try:
        return real(*given)
    finally:
        transfers.PlanBuilder = kept
gathering.plan_gather = planted
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def _run(folder: Path, script: str, which: int = 0, **orders: int) -> str:
    small = {"VDEV_PLANNING": "auto", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    program = f"SEED = {which}\n" + PROGRAM + script
    return fake_cuda.run(program, fake_cuda.environment(folder, "cuda:0-2", **orders) | small)


@pytest.mark.parametrize("orders", [{"late": 0}, {"late": 2}, {"seed": 1}, {"seed": 2}])
def test_what_is_brought_together_is_right(folder: Path, orders: dict[str, int]) -> None:
    assert _run(folder, SOON, sum(orders.values()), **orders) == "right\n"


def test_bytes_that_are_left_behind_are_found(folder: Path) -> None:
    with pytest.raises(AssertionError, match="WRONG"):
        _run(folder, NOTHING_MOVED + SOON)


def test_buffers_of_many_transfers_are_brought_together_once(folder: Path) -> None:
    script = """
gathering._LEAST, gathering._FEWEST = 1e-9, 4
gathering._DEARER = 1e12  # never again
assert not one.is_whole() and not other.is_whole()
some(3, [box])
assert not gathered
some(1, [box])
assert one.is_whole() and other.is_whole() and gathered == [True]
states = [state_of(sheet.buffer).buffer.state for sheet in (one, other)]
some(200)
assert [state_of(sheet.buffer).buffer.state for sheet in (one, other)] == states
assert one.is_right() and other.is_right(), "WRONG"
print("right")
"""
    assert _run(folder, script) == "right\n"


def test_few_or_whole_transfers_bring_nothing_together(folder: Path) -> None:
    script = """
gathering._LEAST = gathering._PAYS = 1e-9
from vdev.start.current import get_session
whole = [state_of(one.buffer).buffer]
for _ in range(40):
    get_session().moves._gathering.planned(whole, whole[0].nbytes, 1.0)
assert not gathered, gathered
some(gathering._FEWEST - 1, [box])
assert not gathered, gathered
assert one.is_right() and other.is_right(), "WRONG"
print("right")
"""
    assert _run(folder, script) == "right\n"
