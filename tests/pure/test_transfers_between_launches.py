"""Fills and copies between launches on several workers, handed over from where a program asks for them: of other bytes, with other
patterns, in other queues. On machines without a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: `at_once`: whether each transfer was handed over so
PROGRAM = """
import random
import numpy as np, pyopencl as cl
from vdev.session.immediate_copies import CopiesAtOnce
at_once = []
together = CopiesAtOnce._together
def noted(self, what, buffers, states, queue):
    completion = together(self, WHAT, buffers, states, queue)
    at_once.append(completion is not None)
    return completion
CopiesAtOnce._together = noted
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void add(global uint *sums, global uint *all, uint by)
{ const size_t i = get_global_id(0); all[i] += by; atomic_add(&sums[all[i] % 16], by); }
''').build()
add = cl.Kernel(program, "add")
add.set_arg_types([None, None, np.uint32])
N = 1024
def written(array):
    return cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
class Host:
    def __init__(self):
        self.sums, self.all = np.zeros(16, np.uint32), np.arange(N, dtype=np.uint32)
        self.kept = np.zeros(N, np.uint32)
        self.buffers = [written(array) for array in (self.sums, self.all, self.kept)]
    def add(self, by):
        add(queue, (N,), (64,), self.buffers[0], self.buffers[1], np.uint32(by))
        self.all += np.uint32(by)
        self.sums += (np.bincount(self.all % 16, minlength=16) * by).astype(np.uint32)
    def fill(self, array, start, count, value, queue=queue):
        which = next(i for i, each in enumerate((self.sums, self.all, self.kept)) if each is array)
        event = cl.enqueue_fill_buffer(queue, self.buffers[which], np.uint32(value), 4 * start, 4 * count)
        array[start : start + count] = value
        return event
    def copy(self, start, count):
        span = {"byte_count": 4 * count, "src_offset": 4 * start, "dst_offset": 4 * start}
        cl.enqueue_copy(queue, self.buffers[2], self.buffers[1], **span)
        self.kept[start : start + count] = self.all[start : start + count]
    def check(self):
        for array, buffer in zip((self.sums, self.all, self.kept), self.buffers):
            found = np.empty_like(array)
            cl.enqueue_copy(queue, found, buffer)
            assert (found == array).all(), 'WRONG'
host = Host()
"""

REPEATED = """
for turn in range(10):  # on a busy machine the workers' threads are behind
    for number in range(60):
        host.add(number)
        host.fill(host.sums, 0, 16, 0)
        host.copy(0, N)
        if number < 10:  # plans are compiled while the workers are idle
            queue.finish()
    host.check()
    if sum(at_once[-60:]) > 40:
        break
else:
    raise AssertionError(at_once)
print("right")
"""

#: patterns and bytes take turns; the program looks at all of them at each step, and then now and then
TURNS = """
for turn in range(5):
    for number in range(200):
        host.add(1)
        host.fill(host.sums, 0, 16, number % 3)
        host.copy(*((0, N), (8, 800))[number % 2])
        if number < 40 or number % 20 == 19:
            host.check()
    if sum(at_once[-400:]) > 100:
        break
else:
    raise AssertionError(at_once)
print("right")
"""

VARIED = """
chance = random.Random(SEED)
others = cl.CommandQueue(context), cl.CommandQueue(
    context, properties=cl.command_queue_properties.PROFILING_ENABLE
)
for number in range(300):
    if number < 40 or chance.random() < 0.1:
        queue.finish()
    host.add(chance.randrange(4))
    if chance.random() < 0.7:
        host.fill(host.sums, *chance.choice([(0, 16), (4, 4), (0, 8)]), chance.randrange(3))
    if chance.random() < 0.5:
        host.copy(*chance.choice([(0, N), (8, 800)]))
    if chance.random() < 0.3:
        host.fill(host.all, *chance.choice([(0, N), (100, 500), (0, N // 2)]), chance.randrange(2))
    if chance.random() < 0.1:
        queue.finish()
        event = host.fill(host.sums, 0, 16, 7, chance.choice(others))
        event.wait()
        if event.command_queue is others[1]:
            assert event.profile.end >= event.profile.start > 0
    if chance.random() < 0.05:
        host.check()
host.check()
print("right")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def _run(folder: Path, script: str, what: str = "what", **orders: int) -> str:
    always = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    env = fake_cuda.environment(folder, "cuda:0-2", **orders) | always
    return fake_cuda.run(PROGRAM.replace("WHAT", what) + script, env)


def test_those_that_come_again_are_handed_over_at_once(folder: Path) -> None:
    assert _run(folder, REPEATED) == "right\n"


@pytest.mark.parametrize("orders", [{}, {"late": 1}, {"seed": 4}])
def test_those_that_take_turns_are_as_well(folder: Path, orders: dict[str, int]) -> None:
    assert _run(folder, TURNS, **orders) == "right\n"


@pytest.mark.parametrize("orders", [{"late": 0}, {"late": 2}, {"seed": 1}, {"seed": 2}])
def test_programs_of_others_get_the_same_bytes(folder: Path, orders: dict[str, int]) -> None:
    seed = 10 * orders.get("seed", 0) + orders.get("late", 0)
    assert _run(folder, VARIED.replace("SEED", str(seed)), **orders) == "right\n"


def test_another_transfers_plan_would_be_found(folder: Path) -> None:
    """As if patterns did not count."""
    with pytest.raises(AssertionError, match="WRONG"):
        _run(folder, TURNS, "(*what[:-1], bytes(4)) if len(what) == 4 else what")
