"""Launches on several GPUs whose buffers are made anew for each step: a plan that is compiled once is told of other memory each time
(`vdev.executor.plan_form`). Here, on machines without a GPU; random programs of that kind are `test_new_buffers`'.
"""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from vdev.errors import DEPENDENCY_FAILED
from vdev.executor.completion import Completion
from vdev.executor.holdings import Holdings
from vdev.executor.plan_form import _FromHome
from vdev.session.moves import outcome_of

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: each step makes two new values of one: item by item, and of items that lie elsewhere, for which replicas have to grow
PROGRAM = """
import ctypes, gc, weakref
import numpy as np, pyopencl as cl
from vdev.executor.plan_form import PlanForm
from vdev.facade.handles import state_of
from vdev.process.finalisers import collect
from vdev.session import spare_buffers
from vdev.start.current import get_session
spare_buffers.MOST_EACH = 0  # each buffer is new
made, grown, take = [0], [0], PlanForm.was_made
def noted(self):
    made[0] += 1
    grown[0] += any(before is not None for _, _, before in self._replaced)
    take(self)
PlanForm.was_made = noted
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void scaled(global uint *out, global const uint *a, const uint by, local uint *unused)
{ out[get_global_id(0)] = a[get_global_id(0)] * by + 1; }
kernel void spread(global uint *out, global const uint *a, const uint n)
{ const uint i = get_global_id(0); out[i] = a[i] + 3 * a[(i + n / 2) % n] + 5 * a[(i + n / 3) % n]; }
kernel void added(global uint *out, global const uint *a) { out[get_global_id(0)] += a[get_global_id(0)]; }
''').build()
scaled, spread, added = (cl.Kernel(program, name) for name in ("scaled", "spread", "added"))
scaled.set_arg_types([None, None, np.uint32, None]), spread.set_arg_types([None, None, np.uint32])
n, flags = 6144, cl.mem_flags
local = cl.LocalMemory(256)
class Value:
    def __init__(self, seed=0):
        self.array = np.random.default_rng(seed).integers(0, 2**32, n, np.uint32)
        self.buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=self.array)
    def step(self, number, local=local):
        half, out = cl.Buffer(context, flags.READ_WRITE, 4 * n), cl.Buffer(context, flags.READ_WRITE, 4 * n)
        first = scaled(queue, (n,), (64,), half, self.buffer, np.uint32(number), local)
        second = spread(queue, (n,), (64,), out, half, np.uint32(n))
        array = self.array * np.uint32(number) + np.uint32(1)
        self.array = array + np.uint32(3) * np.roll(array, -(n // 2)) + np.uint32(5) * np.roll(array, -(n // 3))
        self.buffer = out
        return first, second
    @property
    def is_right(self):
        found = np.empty(n, np.uint32)
        cl.enqueue_copy(queue, found, self.buffer)
        return (found == self.array).all()
value = Value()
for number in range(12):
    value.step(number)
    queue.finish()  # the workers' threads are not behind
assert value.is_right
for turn in range(10):  # on a busy machine the workers' threads are behind
    before = made[0]
    for number in range(20):
        value.step(number)
        if number % 7 == 3:
            assert value.is_right
    assert value.is_right
    if made[0] >= before + 10 and grown[0] >= 5:
        break
else:
    raise AssertionError((before, made, grown))
"""


def _run(folder: Path, script: str, workers: int = 3, planted: str = "", **orders: int) -> str:
    """What a script prints behind the program."""
    always = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "4"}
    env = fake_cuda.environment(folder, f"cuda:0-{workers - 1}", **orders) | always
    if planted:
        env[fake_cuda.PLANTED] = planted
    found = fake_cuda.run(PROGRAM + script + '\nprint("right")', env)
    assert "right" in found
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


#: other values, memory that a kernel has of another size, no buffer of the program's own, and plans for the same buffers in between
CHANGING = """
for number in range(12):
    value.step(number, local if number % 3 else cl.LocalMemory(512))
    if number % 5 == 4:
        value.step(number)[1].wait()
assert value.is_right
kept = Value(1)
for number in range(90):
    added(queue, (n,), (64,), kept.buffer, value.buffer)
    kept.array = kept.array + value.array
    if number % 30 == 29:
        value.step(number)
        assert value.is_right and kept.is_right
together = get_session().executor.together
for number in range(80):
    added(queue, (n,), (64,), kept.buffer, value.buffer), added(queue, (n,), (64,), value.buffer, kept.buffer)
    kept.array = kept.array + value.array
    value.array = value.array + kept.array
assert kept.is_right and value.is_right
for number in range(60):  # what all have read of a buffer is changed by means of another one, and read again
    out = cl.Buffer(context, flags.READ_WRITE, 4 * n)
    spread(queue, (n,), (64,), out, kept.buffer, np.uint32(n))
    added(queue, (n,), (64,), kept.buffer, out)
    old = kept.array
    kept.array = 2 * old + np.uint32(3) * np.roll(old, -(n // 2)) + np.uint32(5) * np.roll(old, -(n // 3))
assert kept.is_right
for number in range(3):
    value.step(number), kept.step(number)
assert kept.is_right and value.is_right
"""


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize(
    "orders", [{"late": 0}, {"late": 1}, {"seed": 5}], ids=["late-0", "late-1", "seed-5"]
)
def test_buffers_are_others_in_each_step(folder: Path, orders: dict[str, int], workers: int) -> None:
    _run(folder, CHANGING, workers, **orders)


#: up to the next marks, the workers keep the memory of a hundred values
DROPPED = """
def taken():
    queue.finish()
    return [each.allocated_nbytes for each in get_session().executor.counters()]
least = taken()
for number in range(600):
    value.step(number)
    if number % 50 == 49:
        assert all(now <= then + 100 * 4 * n for now, then in zip(taken(), least)), (taken(), least)
former = weakref.ref(state_of(value.buffer).buffer)
value.step(1)
for number in range(70):  # up to the next marks
    value.step(number)
queue.finish()
collect()
assert former() is None, [type(each) for each in gc.get_referrers(former())]
assert value.is_right
last = weakref.ref(state_of(value.buffer).buffer)
queue.finish()
del value
collect()
assert last() is None, [type(each) for each in gc.get_referrers(last())]
"""


def test_memory_is_given_back_and_no_buffer_is_kept(folder: Path) -> None:
    _run(folder, DROPPED)


#: the driver refuses a call of one of its functions; what became of that
REFUSED = """
import ctypes
queue.finish()
refuse = ctypes.PyDLL("libcuda.so.1").fake_refuse
refuse(b"{function}", ctypes.c_long({number}))
events = [event for number in range(4) for event in value.step(number)]
refuse(b"", ctypes.c_long(0))
statuses = []
for event in events:
    try:
        event.wait()
    except cl.Error:
        pass
    statuses.append(event.command_execution_status)
failed = next((at for at, status in enumerate(statuses) if status < 0), len(statuses))
assert all(status == 0 for status in statuses[:failed]) and all(status < 0 for status in statuses[failed:]), statuses
if failed == len(statuses):
    assert value.is_right
value = Value(3)
for number in range(20):
    value.step(number)
assert value.is_right
print(failed)
"""


@pytest.mark.parametrize("function", ["cuLaunchKernelEx", "cuEventRecord", "cuStreamWaitEvent"])
@pytest.mark.parametrize("number", [1, 2, 4, 5, 7, 9])
def test_a_refused_call_fails_its_command_at_most(folder: Path, function: str, number: int) -> None:
    """A launch, a copy from another worker or from the replica before, a fence or a wait."""
    found = _run(folder, REFUSED.format(function=function, number=number), late=1)
    if function == "cuLaunchKernelEx":
        assert int(found.split()[-2]) < 8, "nothing has failed"


#: launches that read one half of a new buffer or the other, as a value says or as their argument begins there
HALVES = """
part = cl.Kernel(cl.Program(context, '''kernel void part(global uint *out, global const uint *a, const uint from)
{ out[get_global_id(0)] = a[from + get_global_id(0)]; }''').build(), "part")
around = cl.Kernel(cl.Program(context, '''kernel void around(global uint *out, global const uint *a, const uint n)
{ out[get_global_id(0)] = a[(get_global_id(0) + n / 2) % n]; }''').build(), "around")
part.set_arg_types([None, None, np.uint32]), around.set_arg_types([None, None, np.uint32])
def step(number, at, parted):
    whole, out = cl.Buffer(context, flags.READ_WRITE, 4 * n), cl.Buffer(context, flags.READ_WRITE, 2 * n)
    scaled(queue, (n,), (64,), whole, value.buffer, np.uint32(number), local)
    given = whole.get_sub_region(4 * at, 2 * n) if parted else whole
    part(queue, (n // 2,), (64,), out, given, np.uint32(0 if parted else at))
    return out, (value.array * np.uint32(number) + np.uint32(1))[at : at + n // 2]
def is_right(out, expected):
    found = np.empty(n // 2, np.uint32)
    cl.enqueue_copy(queue, found, out)
    return (found == expected).all()
for turn in range(12):
    before = made[0]
    for number in range(24):
        assert is_right(*step(number, n // 2 * (number % 2), number % 4 > 1)), number
    if turn > 1 and made[0] >= before + 40:
        break
else:
    raise AssertionError((before, made))
kept = Value(1)
def is_around(kept):
    out, found = cl.Buffer(context, flags.READ_WRITE, 4 * n), np.empty(n, np.uint32)
    around(queue, (n,), (64,), out, kept.buffer, np.uint32(n))
    cl.enqueue_copy(queue, found, out)
    return (found == np.roll(kept.array, -(n // 2))).all()
added(queue, (n,), (64,), kept.buffer, value.buffer)  # for which replicas grow
kept.array = kept.array + value.array
for number in range(12):  # everything is everywhere, and nothing is copied any more
    assert is_around(kept)
for number in range(24):
    at, out = n // 2 * (number % 2), cl.Buffer(context, flags.READ_WRITE, 2 * n)
    part(queue, (n // 2,), (64,), out, kept.buffer.get_sub_region(4 * at, 2 * n), np.uint32(0))
    assert is_right(out, kept.array[at : at + n // 2])
for number in range(12):  # as each worker has its own part only
    added(queue, (n,), (64,), kept.buffer, value.buffer)
    kept.array = kept.array + value.array
    assert is_around(kept) and is_around(kept)
"""


@pytest.mark.parametrize("late", [0, 2])
def test_what_matters_to_a_plan_is_looked_at_for_each_launch(folder: Path, late: int) -> None:
    _run(folder, HALVES, late=late)


@pytest.mark.parametrize(
    "what", ["whatever its values", "wherever its arguments point", "whatever its buffers hold"]
)
def test_a_plan_with_a_form_that_is_another_launch_s_is_found(what: str, folder: Path) -> None:
    with pytest.raises(AssertionError):
        _run(folder, HALVES, planted=f"a form of a plan is found {what}", late=0)


#: what would go wrong with launches that are told of other memory
DEFECTS = (
    "a form of a plan waits for nobody who has changed what it reads",
    "a form of a plan waits for nobody who reads what it changes",
    "a form of a plan notes no change",
    "a form of a plan copies from the replica of its first command",
    "a form of a plan takes the memory of its first command",
    "a form of a plan keeps the memory that it replaces",
)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, folder: Path) -> None:
    with pytest.raises(AssertionError):
        _run_late(folder, DROPPED if "keeps" in defect else CHANGING, defect)


def _run_late(folder: Path, script: str, planted: str) -> None:
    """With each worker's work as late as possible in turn."""
    for late in range(3):
        _run(folder, script, planted=planted, late=late)


#: a read of what one GPU has, which waits for work of all of them, in a queue that keeps no order
READ_BEHIND = """
from vdev.session.moves import Moves
begun, begin = [0], Moves._begin_reading
def counted(self, *given, **more):
    found = begin(self, *given, **more)
    begun[0] += type(found).__name__ == "Arriving"
    return found
Moves._begin_reading = counted
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
found = np.empty(4, np.uint32)
for number in range(6):
    first, second = value.step(number)
    out = cl.Buffer(context, flags.READ_WRITE, 4 * n)
    other = scaled(queue, (n,), (64,), out, value.buffer, np.uint32(1), local, wait_for=[second])
    cl.enqueue_copy(queue, found, value.buffer, wait_for=[other, first])
    assert (found == value.array[:4]).all()
    assert other.command_execution_status == first.command_execution_status == cl.command_execution_status.COMPLETE
assert begun[0] >= 4, begun
"""


def test_a_read_waits_for_what_all_were_given(folder: Path) -> None:
    _run(folder, READ_BEHIND, late=1)


def test_a_read_that_waits_for_nobody_is_found(folder: Path) -> None:
    with pytest.raises(AssertionError):
        _run(folder, READ_BEHIND, planted="a read waits for nobody else's work", late=1)


def test_a_read_fails_with_what_it_waits_for() -> None:
    well, failed = Completion(), Completion()
    well.settle(0), failed.settle(-5)
    assert outcome_of((well, well)) == 0
    assert outcome_of((well, failed)) == DEPENDENCY_FAILED


#: tables, and sums that begin with what the program has filled them with, are new for each launch: a few bytes of homes go to all
FROM_HOMES = """
import ctypes
tallied = cl.Kernel(cl.Program(context, '''kernel void tallied(global uint *out, global uint *sums, global const uint *table)
{ const size_t i = get_global_id(0); out[i] = table[i % 256] * 3; atomic_add(&sums[i % 32], table[(i * 7) % 256]); }
''').build(), "tallied")
ids = np.arange(n)
def step(number):
    table = np.random.default_rng(number).integers(0, 2**16, 256, np.uint32)
    given = table.copy()
    buffer = cl.Buffer(context, flags.READ_ONLY | flags.USE_HOST_PTR, hostbuf=given)
    out, sums = cl.Buffer(context, flags.READ_WRITE, 4 * n), cl.Buffer(context, flags.READ_WRITE, 128)
    cl.enqueue_fill_buffer(queue, sums, np.uint32(number), 0, 128)
    count = made[0]
    event = tallied(queue, (n,), (64,), out, sums, buffer)
    if made[0] > count:
        given[:] = 7  # the bytes were taken: nobody is to look at the program's memory again
    return event, out, sums, table
def is_right(number, out, sums, table):
    found, added = np.empty(n, np.uint32), np.empty(32, np.uint32)
    cl.enqueue_copy(queue, found, out), cl.enqueue_copy(queue, added, sums)
    expected = np.full(32, number, np.uint32)
    np.add.at(expected, ids % 32, table[ids * 7 % 256])
    return (found == table[ids % 256] * 3).all() and (added == expected).all()
for number in range(12):
    assert is_right(number, *step(number)[1:])
for turn in range(10):
    before = made[0]
    for number in range(20):
        assert is_right(number, *step(number)[1:])
    if made[0] >= before + 18:
        break
else:
    raise AssertionError((before, made))
for number in range(0, 40, 4):
    some = [step(number + each) for each in range(4)]
    assert all(is_right(number + each, *found[1:]) for each, found in enumerate(some))
"""
REFUSED_FROM_HOMES = """
refuse = ctypes.PyDLL("libcuda.so.1").fake_refuse
for function in (b"cuMemcpyAsync", b"cuMemsetD32Async", b"cuLaunchKernelEx", b"cuEventRecord"):
    for at in (1, 2, 3):
        queue.finish()
        refuse(function, ctypes.c_long(at))
        event, *rest = step(at)
        refuse(b"", ctypes.c_long(0))
        try:
            event.wait()
        except cl.Error:
            pass
        if event.command_execution_status == 0:
            assert is_right(at, *rest), (function, at)
        for number in range(6):
            assert is_right(number, *step(number)[1:]), (function, at)
"""


#: sums that all GPUs add to are folded to be read, or for a launch, of which some are new each time and others are kept for a while
FOLDS = """
tallied = cl.Kernel(cl.Program(context, '''kernel void tallied(global uint *sums, global const uint *a)
{ const size_t i = get_global_id(0); atomic_add(&sums[i % 1024], a[i]); }''').build(), "tallied")
expected, one = np.zeros(1024, np.uint32), Value(5)
np.add.at(expected, np.arange(n) % 1024, one.array)
import random
drawn, kept = random.Random(1), []
def step():
    sums = cl.Buffer(context, flags.READ_WRITE, 4096)
    cl.enqueue_fill_buffer(queue, sums, np.uint32(0), 0, 4096)
    tallied(queue, (n,), (64,), sums, one.buffer)
    if drawn.random() < 0.5:
        kept.append([sums, 1])
        if len(kept) > 8:
            kept.pop(drawn.randrange(8))
    if kept and drawn.random() < 0.3:  # what was folded is added to once more
        again = drawn.choice(kept)
        tallied(queue, (n,), (64,), again[0], one.buffer)
        again[1] += 1
    for buffer, times in [(sums, 1), *kept][-2:]:
        times = next((count for other, count in kept if other is buffer), times)
        found = np.empty(1024, np.uint32)
        cl.enqueue_copy(queue, found, buffer)
        assert (found == expected * np.uint32(times)).all(), times
for number in range(60):
    step()
before, folded = made[0], [0]
was_made = PlanForm.was_made
def counted(self):
    folded[0] += any(call.what == "fold" for leg in self._legs for call in leg.calls)
    was_made(self)
PlanForm.was_made = counted
for number in range(60):
    step()
assert folded[0] >= 30, folded
"""


@pytest.mark.parametrize(
    "orders", [{"late": 0}, {"late": 2}, {"seed": 3}], ids=["late-0", "late-2", "seed-3"]
)
def test_folds_of_new_buffers_have_a_form(folder: Path, orders: dict[str, int]) -> None:
    _run(folder, FOLDS, **orders)


@pytest.mark.parametrize("what", ["reads what it read first", "goes where it went first", "waits for nobody"])
def test_a_defect_of_folds_of_new_buffers_is_found(what: str, folder: Path) -> None:
    with pytest.raises(AssertionError):
        _run_late(folder, FOLDS, f"a form of a fold {what}")


@pytest.mark.parametrize("orders", [{"late": 0}, {"seed": 3}], ids=["late-0", "seed-3"])
def test_a_few_bytes_of_homes_are_part_of_a_form(folder: Path, orders: dict[str, int]) -> None:
    _run(folder, FROM_HOMES + REFUSED_FROM_HOMES, **orders)


@pytest.mark.parametrize(
    "defect",
    [
        "a form of a plan brings the first command's bytes",
        "a form of a plan fills memory of its first command",
    ],
)
def test_a_defect_with_homes_is_found(defect: str, folder: Path) -> None:
    with pytest.raises(AssertionError):
        _run(folder, FROM_HOMES, planted=defect, late=1)


def test_bytes_of_a_home_that_are_not_there_yet_are_not_taken() -> None:
    home, worker = np.arange(8, dtype=np.uint8), Mock(completed=4)
    holdings, call = Holdings((), 8, lambda: home), Mock()
    bringing = _FromHome(0, 2, 4)
    bringing.calls = [call]
    holdings.home_writes = {0: 5}
    assert not bringing.take(holdings, [worker])
    assert not call.set_values.called
    holdings.home_writes = {0: 4}
    assert bringing.take(holdings, [worker])
    assert call.set_values.call_args.args[0] == ((-1, b"\2\3"),)


def test_few_bytes_go_to_the_workers_on_the_thread_that_submits(folder: Path) -> None:
    """A table that the program writes anew for each launch."""
    _run(
        folder,
        """
import threading
from vdev.executor.launch_step import LaunchStep
from vdev.executor.worker import Worker
threads, perform = [], Worker._perform
def noted(self, entry):
    if any(isinstance(step, LaunchStep) for step in entry[1].steps):
        threads.append(threading.current_thread().name)
    perform(self, entry)
Worker._perform = noted
looked = cl.Kernel(cl.Program(context, '''kernel void looked(global uint *out, global const uint *table)
{ uint sum = 0; for (uint k = 0; k < 256; ++k) sum += table[k] * (get_global_id(0) % (k + 1)); out[get_global_id(0)] = sum; }
''').build(), "looked")
out, found = cl.Buffer(context, flags.READ_WRITE, 4 * n), np.empty(n, np.uint32)
ids, k = np.arange(n, dtype=np.uint32)[:, None], np.arange(256, dtype=np.uint32)
for number in range(12):
    given = k * np.uint32(number)
    table = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=given)
    queue.finish()
    looked(queue, (n,), (64,), out, table)
    given[:] = 7  # nobody reads it any more
    cl.enqueue_copy(queue, found, out)
    assert (found == (k * np.uint32(number) * (ids % (k + 1))).sum(1, dtype=np.uint32)).all()
assert sum(name != "MainThread" for name in threads) <= 12, threads  # of 36
""",
        late=1,
    )
