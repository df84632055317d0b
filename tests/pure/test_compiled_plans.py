"""Plans that are compiled: the CUDA back end on the driver for machines without a GPU (`fake_cuda`). What fails in the middle of one
reaches the events that it should, and nobody hangs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: rows summed from one buffer into another and back; `step` gives the event
PROGRAM = """
import numpy as np, pyopencl as cl
from vdev.errors import BackendError
from vdev.backends.cuda.compiling import CudaCompiling
from vdev.executor import compiled_plan
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
rows = cl.Kernel(cl.Program(context, '''
kernel void rows(global uint *to, global const uint *from, uint by, uint n)
{ uint i = get_global_id(0); to[i] = by * from[i] + (i >= 64 ? from[i - 64] : 0) + (i + 64 < n ? from[i + 64] : 0); }
''').build(), "rows")
rows.set_arg_types([None, None, np.uint32, np.uint32])
n = 4096
class Pair:
    def __init__(self, seed):
        self.arrays = [np.random.default_rng(seed).integers(0, 2**32, n, dtype=np.uint32) for _ in range(2)]
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffers = [cl.Buffer(context, flags, hostbuf=array) for array in self.arrays]
    def step(self, number, by=1, **more):
        to, source = (number + 1) % 2, number % 2
        event = rows(queue, (n,), (16,), self.buffers[to], self.buffers[source], np.uint32(by), np.uint32(n), **more)
        old = self.arrays[source]
        new = self.arrays[to] = np.uint32(by) * old
        new[64:] += old[:-64]
        new[:-64] += old[64:]
        return event
    def read(self, number):
        found = np.empty(n, np.uint32)
        cl.enqueue_copy(queue, found, self.buffers[number % 2])
        return found
    def is_right(self, number):
        return (self.read(number) == self.arrays[number % 2]).all()
"""
#: whose steps are handed over one by one, since they are not the driver's alone
TRAPS = """
traps = {}  # by method: which call from now on raises, and what
def sprung(method):
    trap = traps.get(method, (0, None))
    if trap[0] > 0:
        trap[0] -= 1
        if trap[0] == 0:
            raise trap[1]
def making(method, original):
    def made(self, *given, **more):
        call = original(self, *given, **more)
        def trapped(changed):
            sprung(method)
            call(changed)
        return call and trapped
    return made
for method in ("own_launch", "copies"):
    setattr(CudaCompiling, method, making(method, getattr(CudaCompiling, method)))
fence = CudaCompiling.fence
CudaCompiling.fence = lambda self: (sprung("fence"), fence(self))
"""
#: as where the library that walks lists is missing
SINGLY = """
from vdev.backends.call_lists import NoWalker
from vdev.executor import plan_list
def no_walker():
    raise NoWalker("none")
plan_list.walker = no_walker
"""
#: each plan is ordered after others by what is known of these at that moment
APART = """
from vdev.executor.together import Together
Together._begin = lambda self: False
"""
WARM = """
from vdev.executor import together
from vdev.executor.plan_list import PlanList
lists, made, gone_together = [0], [0], [0]
def counting(owner, name, *counters):
    original = getattr(owner, name)
    def counted(self, *given):
        found = original(self, *given)
        for counter in counters:
            counter[0] += found is not None
        return found
    setattr(owner, name, counted)
counting(PlanList, "hand_over", lists), counting(PlanList, "make_as", lists)
counting(compiled_plan.CompiledPlan, "submit", made), counting(together.Together, "hand_over", made, gone_together)
pair, other = Pair(1), Pair(2)
for number in range(20):
    pair.step(number), other.step(number)
    if number < 8:
        queue.finish()  # until there are plans, the workers' threads are behind, and have the commands
singly = "traps" in globals() or "no_walker" in globals()
apart = singly or together.Together._begin.__name__ == "<lambda>"
for _ in range(100):  # on a busy machine the workers' threads are behind for longer
    if made[0] > 20 and (singly or lists[0] > 10) and (apart or gone_together[0] > 5):
        break
    for number in (18, 19):
        pair.step(number), other.step(number)
    queue.finish()
assert pair.is_right(20) and other.is_right(20)
assert made[0] > 20, f"{made[0]} launches were compiled"
assert lists[0] == 0 if singly else lists[0] > 10, lists
assert gone_together[0] == 0 if apart else gone_together[0] > 5, gone_together
"""


def _run(folder: Path, script: str, how: str = "", **orders: int) -> str:
    """What a script prints behind the program, handed over in that way."""
    always = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    env = fake_cuda.environment(folder, "cuda:0-2", **orders) | always
    found = fake_cuda.run(PROGRAM + how + WARM + script, env)
    assert "right" in found
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def test_they_are_handed_over_together_again_soon_after_something_else(folder: Path) -> None:
    """Eight in a row each time, behind a launch on new buffers: six of them at least once those before have lasted."""
    script = """
number, before = 20, gone_together[0]
for turn in range(12):
    fresh = Pair(100 + turn)
    fresh.step(0)
    queue.finish()
    for _ in range(8):
        pair.step(number)
        number += 1
    queue.finish()
assert gone_together[0] - before >= 40, gone_together[0] - before
assert pair.is_right(number)
print("right")
"""
    _run(folder, script)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("place", [None, 0, 2])
@pytest.mark.parametrize("how", ["", APART], ids=["together", "apart"])
def test_lists_are_made_from_any_context(
    folder: Path, place: int | None, strict: bool, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They enter none unless the driver asks for that, and leave the thread where it was. `place`: whose context it has, if any."""
    if strict:
        monkeypatch.setenv("FAKE_CUDA_STRICT", "1")
    script = f"""
from vdev.backends.cuda.driver import load
driver, seen, make = load()[1], [], PlanList._make
PlanList._make = lambda self: (seen.append(self), make(self))[1]
pair.step(20), other.step(20)
contexts = [leg.backend.context for leg in seen[-1]._legs] + [0]
mine = contexts[{-1 if place is None else place}]
for number in range(21, 50):
    driver.set_context(mine)
    pair.step(number), other.step(number)
    # a thread that has none may be left in the first GPU's
    assert driver.context() in (mine, mine or contexts[0]), (driver.context(), contexts)
assert len(seen) > 30
assert {{each._enters for each in seen}} == {{{strict}}}
assert pair.is_right(50) and other.is_right(50)
print("right")
"""
    _run(folder, script, how, late=1)


REFUSED = 'BackendError(-5, "refused")'
#: the second call of a kind fails; the status of each command
FAILING = """
queue.finish()
traps["{method}"] = [2, {error}]
events, raised = [], None
for number in range(20, 28):
    try:
        events.append(pair.step(number))
    except BaseException as found:
        raised = found
        break
    armed = traps.pop("{method}")  # it is for the first pair, whichever way its commands were handed over
    other.step(number)
    traps["{method}"] = armed
statuses = []
for event in events:
    try:
        event.wait()
    except cl.Error:
        pass
    statuses.append(event.command_execution_status)
assert traps["{method}"][0] <= 0, "nothing has failed"
"""


@pytest.mark.parametrize("method", ["own_launch", "copies"])
@pytest.mark.parametrize("late", [0, 1])
def test_a_call_that_is_refused_fails_its_command_and_those_behind_it(
    folder: Path, method: str, late: int
) -> None:
    script = (
        FAILING.format(method=method, error=REFUSED)
        + """
failed = next(at for at, status in enumerate(statuses) if status < 0)
assert all(status == 0 for status in statuses[:failed]), statuses
assert all(status < 0 for status in statuses[failed:]), statuses
assert other.is_right(28)
fresh = Pair(5)
for number in range(9):
    fresh.step(number)
assert fresh.is_right(9)
print("right")
"""
    )
    _run(folder, script, TRAPS, late=late)


@pytest.mark.parametrize("late", [0, 1])
def test_where_no_fence_can_be_put_markers_do(folder: Path, late: int) -> None:
    # where one is needed: no marker is near
    script = (
        "from vdev.executor.worker import Worker\nWorker.mark_near = lambda self, step: None\n"
        + FAILING.format(method="fence", error=REFUSED)
        + """
assert statuses == [0] * 8, statuses
assert pair.is_right(28) and other.is_right(28)
print("right")
"""
    )
    _run(folder, script, TRAPS, late=late)


@pytest.mark.parametrize("method", ["own_launch", "copies"])
def test_an_interrupt_in_the_middle_leaves_nobody_waiting(folder: Path, method: str) -> None:
    script = (
        FAILING.format(method=method, error="KeyboardInterrupt()")
        + """
assert isinstance(raised, KeyboardInterrupt)
queue.finish()
fresh = Pair(5)
for number in range(9):
    fresh.step(number)
assert fresh.is_right(9)
print("right")
"""
    )
    _run(folder, script, TRAPS, late=1)


@pytest.mark.parametrize("how", ["", APART], ids=["together", "apart"])
def test_memory_that_changes_before_the_turns_are_taken_is_seen(folder: Path, how: str) -> None:
    """As where a worker's thread moves a buffer, which had been queued, between the first look and the turns."""
    script = """
import copy
where, owner = (together, together.Together) if gone_together[0] else (compiled_plan, compiled_plan.CompiledPlan)
name = "hand_over" if gone_together[0] else "submit"
take, left = where._take_turns, [1 if gone_together[0] else 3]  # it begins again only after some time
def moving(workers, held, **more):
    taken = take(workers, held, **more)
    if left[0] and len(workers) == 3 and "exchanged" in globals():
        left[0] -= 1
        replicas = exchanged[1].replicas
        moved = copy.copy(replicas[1])
        nbytes = moved.stop - moved.start
        moved.allocation, backend = workers[1].backend.allocate(nbytes), workers[1].backend
        backend.enter()
        from vdev.backends.base import Box
        backend.copy(replicas[1].allocation, moved.allocation, Box.contiguous(0, 0, nbytes))
        backend.fill(replicas[1].allocation, 0, nbytes, b"\1")
        replicas[1] = moved
    return taken
where._take_turns = moving
submit_before = getattr(owner, name)
def noting(self, *given):
    global exchanged
    exchanged = given[1][1] if gone_together[0] else given[1]
    return submit_before(self, *given)
setattr(owner, name, noting)
last = 100 if gone_together[0] else 32
for number in range(20, last):
    pair.step(number)
assert left == [0]
assert pair.is_right(last)
print("right")
"""
    _run(folder, script, how)


@pytest.mark.parametrize("how", ["", APART, SINGLY], ids=["together", "apart", "singly"])
@pytest.mark.parametrize(
    "orders", [{"late": 0}, {"late": 2}, {"seed": 5}], ids=["late-0", "late-2", "seed-5"]
)
def test_values_buffers_and_events_change_between_the_steps(
    folder: Path, orders: dict[str, int], how: str
) -> None:
    """Values that change, buffers that go and come, a wait for a user event, an out-of-order queue, and other kernels in between."""
    script = """
gate = cl.UserEvent(context)
for number in range(6):
    pair.step(number, by=number)
held = pair.step(6, by=3, wait_for=[gate])
pair.step(7, by=4)
assert held.command_execution_status > 0
gate.set_status(cl.command_execution_status.COMPLETE)
assert pair.is_right(8)
for number in range(12):
    if number % 4 == 3:
        other = Pair(number)
        for at in range(number % 3):
            other.step(at, by=7)
    pair.step(number, by=number // 2)
    other.step(number, by=5)
    if number % 5 == 4:
        assert other.is_right(number + 1)
assert pair.is_right(12)
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
last = None
for number in range(12):
    last = pair.step(number, by=number, wait_for=None if last is None else [last])
last.wait()
assert pair.is_right(12)
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
events = [pair.step(number) for number in range(12)]
assert pair.is_right(12)
assert all(event.profile.end >= event.profile.start > 0 for event in events)
print("right")
"""
    _run(folder, script, how, **orders)


def test_values_of_a_kind_that_threads_change_are_each_launchs_own(folder: Path) -> None:
    """Two threads launch two objects of one kernel on buffers of their own."""
    script = """
import threading
kernels = [rows, cl.Kernel(rows.program, "rows")]
kernels[1].set_arg_types([None, None, np.uint32, np.uint32])
class Own(Pair):
    def step(self, number, by):
        global rows
        to, source = (number + 1) % 2, number % 2
        self.kernel(self.queue, (n,), (16,), self.buffers[to], self.buffers[source], np.uint32(by), np.uint32(n))
        old = self.arrays[source]
        new = self.arrays[to] = np.uint32(by) * old
        new[64:] += old[:-64]
        new[:-64] += old[64:]
pairs = [Own(10), Own(11)]
for pair, kernel in zip(pairs, kernels):
    pair.kernel, pair.queue = kernel, cl.CommandQueue(context)
def work(pair, factor):
    for number in range(60):
        pair.step(number, factor * number + 1)
    pair.queue.finish()
threads = [threading.Thread(target=work, args=(pair, factor)) for pair, factor in zip(pairs, (3, 5))]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert all(pair.is_right(60) for pair in pairs)
print("right")
"""
    _run(folder, script, seed=2)


def test_each_of_several_pairs_is_compiled_once(folder: Path) -> None:
    """Six fields in two buffers each, in turn, share one plan."""
    script = """
compiled, compile_plan = [0], compiled_plan.compile_plan
def counted_compile(*given):
    compiled[0] += 1
    return compile_plan(*given)
compiled_plan.compile_plan = counted_compile
pairs = [Pair(seed) for seed in range(6)]
for number in range(12):
    for each in pairs:
        each.step(number)
    queue.finish()
before = compiled[0]
assert before >= 12, before
for turn in range(10):  # on a busy machine the workers' threads are behind
    handed = made[0]
    for number in range(12, 24):
        for each in pairs:
            each.step(number)
        queue.finish()
    if made[0] - handed >= 60:
        break
else:
    raise AssertionError(made[0] - handed)
assert compiled[0] == before, f"{compiled[0] - before} more"
assert all(each.is_right(24) for each in pairs)
print("right")
"""
    _run(folder, script, late=1)


def test_a_step_waits_for_the_nearest_marker(folder: Path) -> None:
    """What one GPU does alone between two steps is no concern of the others', where a marker is behind the first step."""
    script = """
import time
from vdev.executor.worker import Worker
near, mark_near = [0], Worker.mark_near
def counted_near(self, step):
    found = mark_near(self, step)
    near[0] += found is not None
    return found
one = cl.Kernel(cl.Program(context, "kernel void one(global uint *x, uint k) { x[get_local_id(0)] += k; }").build(), "one")
one.set_arg_types([None, np.uint32])
small = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(16, np.uint32))
alone = cl.CommandQueue(context)
handed = 0
for number in range(20, 40):
    Worker.mark_near = counted_near
    before = made[0]
    pair.step(number)
    Worker.mark_near = mark_near
    if made[0] > before:
        handed += near[0]
    near[0] = 0
    for _ in range(3):
        time.sleep(0.0004)
        one(alone, (16,), (16,), small, np.uint32(number))
assert pair.is_right(40)
assert handed > 0, "no wait was for a marker"
print("right")
"""
    _run(folder, script, APART, late=1)


#: the driver refuses a call of one of its functions; what became of that
REFUSED_BY_DRIVER = """
import ctypes, json
from vdev.start.current import get_session
for number in range(20, 60):
    pair.step(number), other.step(number)
queue.finish()
if not (singly or together.Together._begin.__name__ == "<lambda>"):
    assert get_session().executor.together.is_on, "the call that is refused would be another one's"
refuse = ctypes.PyDLL("libcuda.so.1").fake_refuse
refuse(b"{function}", ctypes.c_long({number}))
handed, events = made[0], []
for number in range(60, 66):
    events.append(pair.step(number))
    other.step(number)
refuse(b"", ctypes.c_long(0))
statuses = []
for event in events:
    try:
        event.wait()
    except cl.Error:
        pass
    statuses.append(event.command_execution_status)
handed = made[0] - handed
failed = next((at for at, status in enumerate(statuses) if status < 0), len(statuses))
assert all(status == 0 for status in statuses[:failed]) and all(status < 0 for status in statuses[failed:]), statuses
if failed == len(statuses):
    assert pair.is_right(66)
if "{function}" != "cuEventRecord":  # the event of a marker is behind the other commands, too
    assert other.is_right(66)
counters = [(each.launches, each.from_peer, each.merged, each.filled) for each in get_session().executor.counters()]
undone = sorted(get_session().executor.undone_nbytes.items())
fresh = Pair(5)
for number in range(9):
    fresh.step(number)
assert fresh.is_right(9)
print("right", json.dumps([handed, statuses, counters, undone]))
"""


@pytest.mark.parametrize(("number", "late"), [(1, 1), (2, 0), (3, 1), (4, 1), (5, 0), (6, 1)])
def test_a_refused_call_in_a_list_means_what_it_means_alone(folder: Path, number: int, late: int) -> None:
    """Launches and copies on each of three workers: commands, counters and what was not moved are the same as without a list."""
    script = REFUSED_BY_DRIVER.format(function="cuLaunchKernelEx", number=number)
    together, apart, singly = (_run(folder, script, how, late=late) for how in ("", APART, SINGLY))
    assert together == apart == singly
    assert "-" in singly, "nothing has failed"


@pytest.mark.parametrize("function", ["cuStreamWaitEvent", "cuEventRecord"])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("how", ["", APART], ids=["together", "apart"])
def test_a_refused_wait_or_event_in_a_list_costs_no_order(
    folder: Path, function: str, number: int, how: str
) -> None:
    """A wait that is refused takes place on the host; an event that is refused fails its command at most."""
    found = _run(folder, REFUSED_BY_DRIVER.format(function=function, number=number), how, late=1)
    if function == "cuStreamWaitEvent":
        assert "-" not in found, found


@pytest.mark.parametrize("part", ["copy", "launch"])
def test_what_fails_on_the_device_fails_its_command_of_several_in_one_job(folder: Path, part: str) -> None:
    """Two fields in turn, all in one job: a part of one command fails, and so do the commands that need it; the others do not."""
    script = f"""
from vdev.backends.cuda.marker import CudaMarker
from vdev.errors import BackendError
from vdev.start.current import get_session
together.MARK_AFTER_NS = 1 << 60
way = get_session().executor.together
for number in range(20, 40):
    pair.step(number), other.step(number)
queue.finish()
number = 40
while True:  # the workers' threads may put marks at any time
    events = [[], []]
    for _ in range(6):
        events[0].append(pair.step(number)), events[1].append(other.step(number))
        number += 1
    stretch = way._stretch
    if stretch.launches >= 12 and way.is_on and all(each.next_mark is stretch.marks[each.number] for each in way._workers):
        break
    queue.finish()
failing = 2 * 3  # the fourth of the first field's
index = stretch.launches - 12 + failing
ends = [end for _, end in stretch.on_workers[1]]
at = ends[index] - 1 if {part == "launch"} else ends[index - 1]
wait, mark = CudaMarker.wait, stretch.marks[1]
def failed(self):
    wait(self)
    if self is getattr(mark, "marker", None):
        raise BackendError(-5, "a part has failed", at=(at,))
CudaMarker.wait = failed
way._workers[1]._waits_for_all = False  # a marker tells
statuses = []
for each in events:
    for event in each:
        try:
            event.wait()
        except cl.Error:
            pass
    statuses.append([event.command_execution_status for event in each])
CudaMarker.wait = wait
assert statuses[0][:3] == [0] * 3 and all(status < 0 for status in statuses[0][3:]), statuses
assert statuses[1] == [0] * 6 and other.is_right(number), statuses
fresh = Pair(5)
for number in range(40):
    fresh.step(number)
assert fresh.is_right(40)
print("right")
"""
    _run(folder, script)
