"""Launches that need something folded first are recalled as well: the fold and the launch are handed over as before, and nothing is read
before it is folded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: adds to bins and looks at them, again and again, with a number that differs each time; now and then something else comes between
PROGRAM = """
import numpy as np, pyopencl as cl
from vdev.session import recalls
folded = []
fold = recalls.RecalledLaunch._fold
def noted(self, buffers):
    folded.append(fold(self, buffers))
    return folded[-1]
recalls.RecalledLaunch._fold = noted
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void count(global uint *bins, global const uint *values, uint by)
{ atomic_add(&bins[values[get_global_id(0)] % 256], by); }
kernel void look(global uint *seen, global const uint *bins)
{ seen[get_global_id(0)] += bins[255 - get_global_id(0)] & 7; }
''').build()
count, look = cl.Kernel(program, "count"), cl.Kernel(program, "look")
count.set_arg_types([None, None, np.uint32])
values = np.random.default_rng(0).integers(0, 2**31, 4096).astype(np.uint32)
each = np.bincount(values % 256, minlength=256).astype(np.uint32)
def written(array):
    return cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
def content(buffer):
    host = np.empty(256, np.uint32)
    cl.enqueue_copy(queue, host, buffer)
    return host
given = written(values)
class Bins:
    def __init__(self):
        self.bins, self.seen = written(np.zeros(256, np.uint32)), written(np.zeros(256, np.uint32))
        self.total, self.looked = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    def add(self, by):
        count(queue, (4096,), (64,), self.bins, given, np.uint32(by))
        self.total += each * np.uint32(by)
    def look(self):
        look(queue, (256,), (16,), self.seen, self.bins)
        self.looked += self.total[::-1] & 7
    def clear(self):
        cl.enqueue_fill_buffer(queue, self.bins, np.uint32(0), 0, 1024)
        self.total[:] = 0
    def write(self, by):
        self.total[:] = np.arange(256) * by
        cl.enqueue_copy(queue, self.bins, self.total)
    def is_right(self):
        return (content(self.bins) == self.total).all() and (content(self.seen) == self.looked).all()
one, other = Bins(), Bins()
"""

STEPS = """
for number in range(120):
    one.add(number % 13)
    one.look()
    if number < 10:  # plans are compiled while the workers are idle
        queue.finish()
assert one.is_right(), 'WRONG'
assert len(folded) > 60 and all(folded), len(folded)
for number in range(160):
    one.add(number % 11)
    if number % 10 == 3:
        one.add(5)  # more is pending
    if number % 10 == 5:
        other.add(number)
        other.look()
    if number % 10 == 7:
        one.clear()  # nothing is
    if number % 10 == 4:
        one.write(number)
    if number % 30 == 9:
        assert (content(one.bins) == one.total).all(), 'WRONG'  # it is folded by a read
    one.look()
    if number % 10 == 8:
        one.look()
assert one.is_right() and other.is_right(), 'WRONG'
print("right")
"""

#: the launch is recalled, and what is pending is left as it is
NOT_FOLDED = """
fold = lambda self, buffers: True
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def _run(folder: Path, script: str, **orders: int) -> str:
    always = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    return fake_cuda.run(PROGRAM + script, fake_cuda.environment(folder, "cuda:0-2", **orders) | always)


@pytest.mark.parametrize("orders", [{"late": 0}, {"late": 2}, {"seed": 1}, {"seed": 2}])
def test_sums_are_folded_before_launches_that_look_at_them(folder: Path, orders: dict[str, int]) -> None:
    assert _run(folder, STEPS, **orders) == "right\n"


def test_a_fold_that_is_missing_is_found(folder: Path) -> None:
    with pytest.raises(AssertionError, match="WRONG"):
        _run(folder, NOT_FOLDED + STEPS)


def test_where_it_is_folded_at_home_the_launch_is_planned(folder: Path) -> None:
    """As where the workers have no room: then its plan is another one."""
    script = """
from vdev.session.folding import Folding
folding = Folding.fold
for number in range(60):
    one.add(number)
    one.look()
    if number < 10:
        queue.finish()
Folding.fold = lambda self, buffers, at_home=False: folding(self, buffers, at_home=True)
folded.clear()
for number in range(20):
    one.add(number)
    one.look()
assert folded and not any(folded), folded
assert one.is_right(), 'WRONG'
print("right")
"""
    assert _run(folder, script) == "right\n"


def test_no_buffer_is_kept_for_what_was_folded_for_it(folder: Path) -> None:
    script = """
import gc, weakref
from vdev.facade.handles import state_of
from vdev.process.finalisers import collect
from vdev.start import current
for number in range(4):  # not recalled yet: what is folded is noted each time
    one.add(number)
    one.look()
queue.finish()
assert not folded
buffer = weakref.ref(state_of(one.bins).buffer)
del one, count, look
collect()
assert buffer() is None, [type(each) for each in gc.get_referrers(buffer())]
print("right")
"""
    assert _run(folder, script) == "right\n"
