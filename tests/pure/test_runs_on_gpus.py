"""Launches repeated on several GPUs: their calls are made from the list of the compiled plan, and are right, or fail, as where each is
made alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

PROGRAM = """
import ctypes, threading
import numpy as np
import pyopencl as cl
from vdev.executor import compiled_plan, repeated_launch
from vdev.start import current
made, again = [], compiled_plan.CompiledPlan.again
def counted(self, args):
    made.append(again(self, args))
    return made[-1]
compiled_plan.CompiledPlan.again = counted
n = 3 << 10
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
current.get_session().executor.together = None  # which takes launches behind a wait, on a busy machine more of them
add = cl.Program(context, '''
__kernel void add(__global uint *out, const uint by, const uint other) { out[get_global_id(0)] += by + 1000 * other; }
''').build().add
add.set_arg_types([None, np.uint32, np.uint32])
class Sum:
    def __init__(self):
        self.buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(n, np.uint32))
        self.total = 0
    def step(self, number):
        by, other = number % 7, number // 16
        self.total += by + 1000 * other
        return add(queue, (n,), (64,), self.buffer, np.uint32(by), np.uint32(other))
    def is_right(self):
        found = np.empty(n, np.uint32)
        cl.enqueue_copy(queue, found, self.buffer)
        return set(found.tolist()) == {self.total}
sums = Sum()
for number in range(150):  # a run ends after so many, and the plan is compiled when it comes again
    sums.step(number)
    if number < 8:
        queue.finish()
assert sums.is_right()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def _run(folder: Path, script: str, ahead: str = "", *, strict: bool = False, **orders: int) -> str:
    """What a script prints behind the program."""
    always = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    env = fake_cuda.environment(folder, "cuda:0-2", **orders) | always
    return fake_cuda.run(ahead + PROGRAM + script, env | ({"FAKE_CUDA_STRICT": "1"} if strict else {}))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("late", [0, 1])
def test_a_run_goes_on_with_the_plans_list(folder: Path, late: int, strict: bool) -> None:
    """Also where lists cannot be used for some launches: both ways know the values."""
    script = """
assert len(made) > 50 and all(found == (3, None) for found in made), made
takes = repeated_launch.Run._takes_lists
count = [0]
def now_and_then(self):
    count[0] += 1
    return count[0] % 5 not in (1, 2) and takes(self)
repeated_launch.Run._takes_lists = now_and_then
for number in range(150, 400):
    sums.step(number)
    if number % 40 == 0:
        queue.finish()
assert sums.is_right(), 'WRONG'
assert count[0] > 150, count
other = Sum()
for number in range(100):  # another buffer has its own plan's list
    other.step(number)
    sums.step(number)
assert sums.is_right() and other.is_right()
print("right")
"""
    assert _run(folder, script, strict=strict, late=late) == "right\n"


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_a_launch_that_is_refused_fails_unless_nothing_has_begun(folder: Path, refused: int) -> None:
    script = f"""
driver = ctypes.PyDLL("libcuda.so.1")
queue.finish()
for number in range(5):
    sums.step(number)
before = len(made)
driver.fake_refuse(b"cuLaunchKernelEx", ctypes.c_long({refused}))
events = [sums.step(number) for number in range(8)]
if len(made) == before:  # a worker's thread was at work just then, and the launches were submitted
    print("submitted")
    raise SystemExit
started, error = made[before]
assert started == {refused - 1} and error is not None and "add" in str(error), made[before:]
for event in events:
    try:
        event.wait()
    except cl.Error:
        pass
statuses = [event.command_execution_status for event in events]
if started == 0:  # submitted like any other, it was not refused again
    assert statuses == [0] * 8 and sums.is_right()
else:
    assert all(status < 0 for status in statuses), statuses
fresh = Sum()
for number in range(300):
    fresh.step(number)
assert fresh.is_right()
if started == 0:  # what has failed may concern others until the context is gone
    assert made[-1] == (3, None)
print("right")
"""
    found = [_run(folder, script, late=1)]
    while found[-1] == "submitted\n" and len(found) < 5:
        found.append(_run(folder, script, late=1))
    assert found[-1] == "right\n", found


def test_without_the_library_each_call_is_made_alone(folder: Path) -> None:
    missing = """
from vdev.backends import call_lists
def walker():
    raise call_lists.NoWalker("none")
call_lists.walker = walker
"""
    assert _run(folder, "assert not made\nprint('right')", missing) == "right\n"
