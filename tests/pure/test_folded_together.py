"""Sums that are read one behind the other are folded together from then on: with what may come in between, in whatever order GPUs do
what no event orders. On machines without a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: adds to three kinds of sums, and says which buffers each fold was of
PROGRAM = """
import gc, random
import numpy as np, pyopencl as cl
from vdev.process.finalisers import collect
from vdev.session.folding import Folding
folds = []
fold = Folding._fold
def noted(self, buffers, found):
    folds.append(len(buffers))
    fold(self, buffers, found)
Folding._fold = noted
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void add(global uint *counts, global uint *sums, global uint *most, global const uint *values, uint by)
{
    const uint value = values[get_global_id(0)], bin = value % 64;
    atomic_inc(&counts[bin]);
    atomic_add(&sums[bin], value * by);
    atomic_max(&most[bin], value * by % 1009);
}
kernel void look(global uint *seen, global const uint *a, global const uint *b)
{ seen[get_global_id(0)] += a[get_global_id(0)] ^ b[63 - get_global_id(0)]; }
''').build()
add, look = cl.Kernel(program, "add"), cl.Kernel(program, "look")
add.set_arg_types([None, None, None, None, np.uint32])
values = np.random.default_rng(0).integers(0, 2**31, 4096).astype(np.uint32)
bins = values % 64
def written(array):
    return cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
given = written(values)
class Sums:
    def __init__(self):
        self.wanted = [np.zeros(64, np.uint32) for _ in range(3)]
        self.buffers = [written(array) for array in self.wanted]
    def add(self, by):
        add(queue, (4096,), (64,), *self.buffers, given, np.uint32(by))
        counts, sums, most = self.wanted
        counts += np.bincount(bins, minlength=64).astype(np.uint32)
        with np.errstate(over="ignore"):
            np.add.at(sums, bins, values * np.uint32(by))
            np.maximum.at(most, bins, values * np.uint32(by) % 1009)
    def read(self, *which):
        for number in which or range(3):
            found = np.empty(64, np.uint32)
            cl.enqueue_copy(queue, found, self.buffers[number])
            assert (found == self.wanted[number]).all(), f'WRONG: {number}'
    def clear(self, number):
        cl.enqueue_fill_buffer(queue, self.buffers[number], np.uint32(0), 0, 256)
        self.wanted[number][:] = 0
one, other = Sums(), Sums()
"""

STEPS = """
for number in range(40):
    one.add(number)
    one.read()
assert folds[-1] == 3, folds  # the first alone, then the others behind it, then all together
assert folds.count(1) < 15, folds
folds.clear()
for number in range(200):
    one.add(number)
    one.read()
# from time to time each of the two that have followed is left out, to see whether it comes again
assert set(folds) == {1, 2, 3} and folds.count(3) > 180, folds
print("right")
"""

DEVIATIONS = """
chance = random.Random(SEED)
sums = [one, other]
seen, looked = written(np.zeros(64, np.uint32)), np.zeros(64, np.uint32)
for number in range(400):
    of = chance.choice(sums)
    for _ in range(chance.randrange(1, 3)):
        of.add(number)
    if chance.random() < 0.2:
        of.clear(chance.randrange(3))
    if chance.random() < 0.2:  # a kernel looks at two at once
        a, b = chance.sample(range(3), 2)
        look(queue, (64,), (16,), seen, of.buffers[a], of.buffers[b])
        looked += of.wanted[a] ^ of.wanted[b][::-1]
    which = chance.sample(range(3), chance.randrange(4)) if chance.random() < 0.3 else range(3)
    if which:
        of.read(*which)
    if chance.random() < 0.05:
        sums[chance.randrange(2)] = Sums()
        gc.collect()
for each in sums:
    each.read()
found = np.empty(64, np.uint32)
cl.enqueue_copy(queue, found, seen)
assert (found == looked).all(), 'WRONG: seen'
assert max(folds) == 3, folds
print("right")
"""

#: one of the buffers is gone
GONE = """
for number in range(40):
    one.add(number)
    one.read()
kept, one.buffers[1] = one.buffers[0], written(one.wanted[1])
collect()
folds.clear()
for number in range(5):
    one.add(number)
    one.read()
assert folds[0] == 1 and folds[-1] == 3, folds
print("right")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def _run(folder: Path, script: str, **orders: int) -> str:
    always = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_4096": "1", "FAKE_CUDA_DEVICES": "3"}
    env = fake_cuda.environment(folder, "cuda:0-2", **orders) | always
    return fake_cuda.run(PROGRAM + script, env)


@pytest.mark.parametrize("orders", [{}, {"late": 1}, {"seed": 3}])
def test_sums_that_are_read_in_turn_are_folded_together(folder: Path, orders: dict[str, int]) -> None:
    assert _run(folder, STEPS, **orders) == "right\n"


@pytest.mark.parametrize("orders", [{"late": 0}, {"late": 2}, {"seed": 1}, {"seed": 2}])
def test_programs_that_deviate_get_the_same_bytes(folder: Path, orders: dict[str, int]) -> None:
    seed = 10 * orders.get("seed", 0) + orders.get("late", 0)
    assert _run(folder, DEVIATIONS.replace("SEED", str(seed)), **orders) == "right\n"


def test_a_buffer_that_is_gone_is_folded_with_no_other(folder: Path) -> None:
    assert _run(folder, GONE) == "right\n"


def test_where_memory_is_short_each_is_folded_by_itself(folder: Path) -> None:
    short = """
from vdev.session.room import RoomMaker
chance, is_short = random.Random(7), False
lacks, fold_all = RoomMaker.lacks, Folding.fold
def some(self, buffers, *, at_home=False):
    global is_short
    is_short = chance.random() < 0.3
    fold_all(self, buffers, at_home=at_home)
    is_short = False
Folding.fold = some
RoomMaker.lacks = lambda self, plan: is_short or lacks(self, plan)
"""
    assert _run(folder, short + DEVIATIONS.replace("SEED", "5"), late=1) == "right\n"
