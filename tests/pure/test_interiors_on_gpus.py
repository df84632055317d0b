"""Interiors of chunks on GPUs: bytes come, and borders are launched, aside while they run, by the CUDA back end as it is, on the driver for
machines without a GPU, which runs whatever no event orders in the worst order.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: a sum over three rows, from one buffer into another and back; in some steps the rows are wider, and plans change
PROGRAM = """
import numpy as np, pyopencl as cl
from vdev.backends.cuda.compiling import CudaCompiling
from vdev.executor.compiled_plan import CompiledPlan
from vdev.executor.launch_step import LaunchStep
from vdev.executor.plan_list import PlanList
from vdev.executor.together import Together
counts = dict.fromkeys(("interiors", "aside", "made", "listed", "together"), 0)
def counting(owner, name, counter):
    original = getattr(owner, name)
    def counted(self, *given, **more):
        found = original(self, *given, **more)
        counts[counter] += found is not None
        return found
    setattr(owner, name, counted)
counting(PlanList, "hand_over", "listed"), counting(PlanList, "make_as", "listed")
counting(CompiledPlan, "submit", "made"), counting(Together, "hand_over", "together")
own_launch = CudaCompiling.own_launch
def of_border(self, *given, aside=False):
    counts["aside"] += aside
    return own_launch(self, *given, aside=aside)
CudaCompiling.own_launch = of_border
run = LaunchStep.run
def of_interior(self, *given):
    counts["interiors"] += self.item.is_interior
    run(self, *given)
LaunchStep.run = of_interior
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context, properties=properties)
source = '''
kernel void rows(global uint *to, global const uint *from, uint wide, uint by, uint n)
{ uint i = get_global_id(0); if (i >= wide && i < n - wide) to[i] = from[i - wide] + by * from[i] + from[i + wide]; }
kernel void lower(global uint *to, global const uint *from, uint wide, uint by, uint n)
{ uint i = get_global_id(0); if (i >= wide) to[i] = from[i - wide] + by * from[i]; }
'''
rows = cl.Kernel(cl.Program(context, source).build(), "rows")
lower = cl.Kernel(rows.program, "lower")
rows.set_arg_types([None, None, np.uint32, np.uint32, np.uint32])
lower.set_arg_types([None, None, np.uint32, np.uint32, np.uint32])
n = 8192
class Pair:
    def __init__(self, seed):
        self.arrays = [np.random.default_rng(seed).integers(0, 2**32, n, dtype=np.uint32) for _ in range(2)]
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffers = [cl.Buffer(context, flags, hostbuf=array) for array in self.arrays]
        self.number = 0
    def step(self, by=3, wide=64):
        to, source = (self.number + 1) % 2, self.number % 2
        self.number += 1
        event = rows(queue, (n,), (16,), self.buffers[to], self.buffers[source], *map(np.uint32, (wide, by, n)))
        old, new = self.arrays[source], self.arrays[to]
        new[wide:-wide] = old[:-2 * wide] + np.uint32(by) * old[wide:-wide] + old[2 * wide:]
        return event
    def lower(self, by=3, wide=64):
        to, source = (self.number + 1) % 2, self.number % 2
        self.number += 1
        lower(queue, (n,), (16,), self.buffers[to], self.buffers[source], *map(np.uint32, (wide, by, n)))
        old, new = self.arrays[source], self.arrays[to]
        new[wide:] = old[:-wide] + np.uint32(by) * old[wide:]
    def check(self):
        found = np.empty(n, np.uint32)
        cl.enqueue_copy(queue, found, self.buffers[self.number % 2])
        assert (found == self.arrays[self.number % 2]).all(), f"step {self.number}"
"""
STEPS = """
pair, other = Pair(1), Pair(2)
for number in range(40):
    pair.step(by=1 + number), other.step(wide=64 if number % 10 else 48)
    if number < 8 or number % 9 == 0:
        queue.finish()
    if number in (5, 20, 30):
        pair.check(), other.check()
for number in range(30):
    pair.step(by=1 + number), other.step()
pair.check(), other.check()
"""
#: each plan is ordered after others by what is known of these at that moment
APART = """
from vdev.executor.together import Together
Together._begin = lambda self: False
"""
#: as where the library that walks lists is missing
SINGLY = """
from vdev.backends.call_lists import NoWalker
from vdev.executor import plan_list
def no_walker():
    raise NoWalker("none")
plan_list.walker = no_walker
"""
#: nothing is compiled
LONG_WAY = """
from vdev.executor import prepare
prepare._is_compilable = lambda prepared: False
prepare._is_movable = lambda prepared, plan: False
"""
WAYS = {
    "together": ("", ("aside", "listed", "together")),
    "apart": (APART, ("aside", "made", "listed")),
    "singly": (SINGLY, ("aside", "made")),
    "long way": (LONG_WAY, ("interiors",)),
}


def _run(folder: Path, script: str, *, properties: str = "0", status: int = 0, **orders: int | str) -> str:
    """What a script prints behind the program."""
    known = {name: orders.pop(name) for name in ("late", "seed") if name in orders}
    env = fake_cuda.environment(folder, "cuda:0-2", **known)  # type: ignore[arg-type]
    env |= {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    env |= {"VDEV_INTERIORS": "1"} | {name: str(value) for name, value in orders.items()}
    return fake_cuda.run(
        f"properties = {properties}\n{PROGRAM}{script}\nprint('right', counts)", env, status=status
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


@pytest.mark.parametrize("order", [{"late": 0}, {"late": 1}, {"seed": 3}], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_results_are_right_in_the_worst_orders(folder: Path, way: str, order: dict[str, int]) -> None:
    how, counted = WAYS[way]
    wanted = " and ".join(f"counts[{name!r}] > 1" for name in counted)
    assert "right" in _run(folder, f"{how}{STEPS}\nassert {wanted}, counts", **order)


#: of rows that depend on earlier ones alone: what a worker's interior changes is what the next worker has read
LOWER = """
pair = Pair(1)
for number in range(60):
    pair.lower(by=1 + number)
    if number < 8:
        queue.finish()
    if number in (15, 30):
        pair.check()
pair.check()
"""


@pytest.mark.parametrize("order", [{"late": 0}, {"late": 1}, {"late": 2}, {"seed": 5}], ids=str)
def test_interiors_come_after_those_that_read_what_they_change(folder: Path, order: dict[str, int]) -> None:
    assert "right" in _run(
        folder, f"{LOWER}\nassert counts['together'] > 1 and counts['aside'] > 1, counts", **order
    )


#: random periods of steps, some in buffers that are parts of one, through three queues, of which one is out of order, and in two programs;
#: in between buffers are overwritten
RANDOM = """
import random
drawn = random.Random(seed)
queues = [queue, cl.CommandQueue(context)]
queues.append(cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE))
kernels = [rows, cl.Kernel(cl.Program(context, source).build(), "rows")]
kernels[1].set_arg_types([None, None, np.uint32, np.uint32, np.uint32])
pairs = [Pair(1), Pair(2), Pair(3)]
base = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8 * n)
pairs[2].buffers = [base.get_sub_region(4 * n * number, 4 * n) for number in range(2)]
for buffer, array in zip(pairs[2].buffers, pairs[2].arrays):
    cl.enqueue_copy(queue, buffer, array)
for period in range(9):
    steps = [
        tuple(map(drawn.choice, (pairs, ("step", "step", "lower"), (32, 64, 96), queues, kernels)))
        for _ in range(drawn.randint(1, 3))
    ]
    for number in range(drawn.randint(12, 24)):
        for pair, kind, wide, queue, rows in steps:
            getattr(pair, kind)(by=number, wide=wide)
        if number < 6:
            for each in queues:
                each.finish()
    one, other = drawn.sample(pairs, 2)
    at, to = one.number % 2, other.number % 2
    if drawn.random() < 0.5:
        cl.enqueue_copy(queue, other.buffers[to], one.buffers[at])
        other.arrays[to] = one.arrays[at].copy()
    one.check()
for pair in pairs:
    pair.check()
assert counts["together"] > 9 and counts["aside"] > 9, counts
"""


@pytest.mark.parametrize(
    ("seed", "order"), [(1, {"late": 0}), (2, {"late": 1}), (3, {"late": 2}), (4, {"seed": 7})], ids=str
)
def test_random_periods_of_steps_are_right(folder: Path, seed: int, order: dict[str, int]) -> None:
    assert "right" in _run(folder, f"seed = {seed}\n{RANDOM}", **order)


def test_the_orders_find_an_interior_that_comes_too_early(folder: Path) -> None:
    planted = "from vdev.executor import orders\norders._early = lambda *given: frozenset()\n"
    with pytest.raises(AssertionError, match=r"step \d"):
        _run(folder, f"{planted}seed = 2\n{RANDOM}", late=1)


def test_the_orders_find_copies_that_wait_for_nothing(folder: Path) -> None:
    planted = "waiting = CudaCompiling.waiting\nCudaCompiling.waiting = lambda self, event, aside=False: waiting(self, event)\n"
    with pytest.raises(AssertionError, match=r"step \d"):
        _run(folder, f"{planted}seed = 1\n{RANDOM}", late=0)


#: by what is missing: the waits of a worker's stream for what is aside, or the other way round
MISSING_WAITS = {
    "closing": "Aside.closing = lambda self: Aside_closing(self)[:1]",
    "opening": "Aside.opening = lambda self: Aside_opening(self)[:1]",
}


@pytest.mark.parametrize("way", ["together", "singly"])
@pytest.mark.parametrize("missing", MISSING_WAITS)
def test_the_orders_find_a_wait_that_is_missing(folder: Path, missing: str, way: str) -> None:
    planted = (
        "from vdev.backends.cuda.aside import Aside\n"
        f"Aside_closing, Aside_opening = Aside.closing, Aside.opening\n{MISSING_WAITS[missing]}\n"
    )
    with pytest.raises(AssertionError, match=r"step \d"):
        _run(folder, planted + WAYS[way][0] + (STEPS if WAYS[way][0] else f"seed = 1\n{RANDOM}"), late=0)


@pytest.mark.parametrize("way", ["together", "long way"])
def test_a_call_that_is_refused_leaves_no_launch_aside_unordered(folder: Path, way: str) -> None:
    """Commands fail, or not; what is started afterwards is right."""
    script = """
pair, other = Pair(1), Pair(2)
for number in range(20):
    pair.step(), other.step()
    if number < 8:
        queue.finish()
queue.finish()
import ctypes
refuse, failed = ctypes.CDLL("libcuda.so.1").fake_refuse, 0
for function in (b"cuStreamWaitEvent", b"cuEventRecord", b"cuLaunchKernelEx"):
    for after in (1, 2, 3, 5, 8):
        pair = Pair(after)
        for number in range(8):
            pair.step()
        refuse(function, ctypes.c_long(after))
        events = []
        for number in range(6):
            try:
                events.append(pair.step())
            except cl.Error:
                failed += 1
        for event in events:
            try:
                event.wait()
            except cl.Error:
                failed += 1
        refuse(function, ctypes.c_long(0))
        if function != b"cuLaunchKernelEx" and not failed:
            pair.check()
        other.step(), other.check()
assert failed, "no launch has failed"
"""
    assert "right" in _run(folder, WAYS[way][0] + script, late=0)


@pytest.mark.parametrize("seed", [2, 4])
def test_where_the_driver_refuses_waits_the_host_waits(folder: Path, seed: int) -> None:
    assert "right" in _run(folder, STEPS, seed=seed, FAKE_CUDA_REFUSED="cuStreamWaitEvent")


def test_new_buffers_take_the_form_of_a_plan(folder: Path) -> None:
    script = """
import gc
from vdev.executor.plan_form import PlanForm
n = 2048  # of which chunks come in copies that a form has
def is_divided(form):
    return any(leg.is_aside for leg in form.legs)
for turn in range(200):
    fresh = Pair(turn)
    for _ in range(3):
        fresh.step()
    queue.finish()
    if turn % 10 == 9:
        fresh.check()
        forms = [each for each in gc.get_objects() if type(each) is PlanForm and is_divided(each)]
        if forms and counts["together"]:
            break
assert forms
for _ in range(3):
    fresh.step()
fresh.check()
"""
    assert "right" in _run(folder, script, late=1)


def test_times_of_profiled_commands(folder: Path) -> None:
    script = """
pair = Pair(1)
events = [pair.step() for _ in range(12)]
queue.finish()
pair.check()
times = [time for event in events for time in (event.profile.start, event.profile.end)]
assert times == sorted(times), times
assert counts["interiors"] > 5, counts
"""
    assert "right" in _run(folder, script, properties="2", late=1)


def test_a_trace_shows_both_launches(folder: Path) -> None:
    path = folder / "trace.json"
    assert "right" in _run(folder, STEPS, seed=1, VDEV_TRACE=str(path))
    whole = folder / "whole.json"
    assert "right" in _run(folder, STEPS, seed=1, VDEV_TRACE=str(whole), VDEV_INTERIORS="0")
    most = [
        max(
            Counter(
                each["bind_id"]
                for each in json.loads(made.read_text())["traceEvents"]
                if (each.get("name"), each.get("ph"), each.get("cat")) == ("rows", "X", "kernel")
            ).values()
        )
        for made in (path, whole)
    ]
    assert most == [7, 3]  # of three chunks, of which one has a border at both ends


#: before PROGRAM: which priorities streams are asked for, and CuPy as it was before there were any
PRIORITIES = """
from cupy_backends.cuda.api import runtime
asked, with_priority = [], runtime.streamCreateWithPriority
runtime.streamCreateWithPriority = lambda flags, priority: (asked.append(priority), with_priority(flags, priority))[1]
"""
NO_PRIORITIES = (
    "from cupy_backends.cuda.api import runtime\nasked = []\ndel runtime.streamCreateWithPriority\n"
)


@pytest.mark.parametrize(
    ("how", "switch", "expected"),
    [(PRIORITIES, "1", [-1] * 3), (PRIORITIES, "0", []), (NO_PRIORITIES, "1", [])],
    ids=["on", "off", "older"],
)
def test_only_what_is_aside_is_more_urgent(folder: Path, how: str, switch: str, expected: list[int]) -> None:
    script = "\npair = Pair(1)\nfor _ in range(12):\n    pair.step()\n    queue.finish()\n"
    script += f"pair.check()\nassert asked == {expected}, asked\n"
    env = fake_cuda.environment(folder, "cuda:0-2") | {"FAKE_CUDA_DEVICES": "3", "VDEV_INTERIORS": switch}
    env |= {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1"}
    assert "right" in fake_cuda.run(f"properties = 0\n{how}{PROGRAM}{script}print('right')", env)
