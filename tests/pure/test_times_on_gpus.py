"""Times of commands in profiled queues on GPUs, which events between the commands tell: on one GPU and on several, whatever the order in
which the driver carries out what no event orders.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

SCRIPT = """
import json, time
import numpy as np
import pyopencl as cl
from vdev.backends.cuda.backend import CudaBackend
from vdev.executor.line import Line

marks = [0]
record, time_of = CudaBackend.record, Line._time
def recorded(self):
    marks[0] += 1
    return record(self)
CudaBackend.record = recorded
timed = [0]
def counted(self, *given):
    timed[0] += 1
    return time_of(self, *given)
Line._time = counted

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
kernel = cl.Kernel(cl.Program(context, "kernel void f(global uint *a) { a[get_global_id(0)] += 3; }").build(), "f")
a, b = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 1024) for _ in range(2))
host, found = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
kernel.set_args(a)

def launch():
    return cl.enqueue_nd_range_kernel(queue, kernel, (256,), (64,))
calls = [
    lambda: cl.enqueue_copy(queue, a, host, is_blocking=False), launch, launch,
    lambda: cl.enqueue_copy(queue, b, a), lambda: cl.enqueue_fill_buffer(queue, a, np.uint32(7), 0, 512), launch,
    lambda: cl.enqueue_marker(queue), lambda: cl.enqueue_copy(queue, found, a),
]
wrong, before, began = [], 0, time.perf_counter_ns()
def check(events):
    global before
    for name, event in events:
        times = [event.profile.queued, event.profile.submit, event.profile.start, event.profile.end]
        if times != sorted(times) or times[0] < began or times[3] > time.perf_counter_ns() or times[2] < before:
            wrong.append((name, before, times))
        before = times[3]
for turn in range(30):  # asked at once, and when all is through
    events = []
    for number, call in enumerate(calls):
        began_here, event = time.perf_counter_ns(), call()
        if turn % 2:
            event.wait()
            check([(number, event)])
            if event.profile.queued < began_here:
                wrong.append((number, "queued before the call"))
        events.append((number, event))
    if not turn % 2:
        queue.finish()
        check(events)
    expected = np.where(np.arange(256) < 128, 7, np.arange(256) + 6) + 3
    if found.tolist() != expected.tolist():
        wrong.append((turn, found.tolist()[:3]))
made = timed[0], marks[0]
for _ in range(60):
    event = launch()
    event.wait()
print(json.dumps([wrong, timed[0] - made[0], marks[0] - made[1]]))
"""


#: the most steps of Python's between the event before a launch and the one behind it
STEPS = """
import gc, json
from contextlib import nullcontext
import numpy as np
import pyopencl as cl
from vdev.backends.cuda.driver import Driver
from vdev.backends.cuda.marker import Lapse
from tests.bytecodes import Bytecodes

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
kernel = cl.Kernel(cl.Program(context, "kernel void f(global uint *a, uint n) { a[get_global_id(0)] += n; }").build(), "f")
buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 1024) for _ in range(3)]
steps, found = Bytecodes(), []
begin, finish = Lapse.begin, Lapse.finish
def begun(self, *given):
    begin(self, *given)
    steps.count = 0
def finished(self, *given):
    found.append(steps.count)
    finish(self, *given)
Lapse.begin, Lapse.finish = begun, finished
gc.disable()  # what a collection calls is no step of the launch that it comes amid
for turn in range(2000):  # a worker's thread that is in the way has launches submitted
    with steps if turn > 20 else nullcontext():
        for number, buffer in enumerate(buffers):
            kernel(queue, (256 - 64 * (turn % 3),), (64,), buffer, np.uint32(turn * number))
    queue.finish()
    if len(found) > 150:
        break
print(json.dumps([len(found), max(found)]))
"""


def test_events_enclose_nothing_but_the_launch(tmp_path: Path) -> None:
    """A GPU that waits reaches them as soon as it gets them."""
    env = fake_cuda.environment(tmp_path, "cuda:0") | {"PYOPENCL_NO_CACHE": "1"}
    launches, most = json.loads(fake_cuda.run(STEPS, env).splitlines()[-1])
    assert launches > 150
    assert most < 40  # with those of what counts them


@pytest.mark.parametrize(
    ("workers", "settings"),
    [
        ("cuda:0", {}),
        ("cuda:0", {"FAKE_CUDA_LATE": "0"}),
        ("cuda:0,1", {}),
        ("cuda:0,1", {"FAKE_CUDA_SEED": "3"}),
        ("cuda:0,1", {"VDEV_PLANNING": "always", "VDEV_MIN_ITEMS": "1"}),
    ],
    ids=str,
)
def test_times_are_in_order(workers: str, settings: dict[str, str], tmp_path: Path) -> None:
    env = fake_cuda.environment(tmp_path, workers) | {"PYOPENCL_NO_CACHE": "1"}
    env.pop("VDEV_PLANNING", None)
    wrong, timed, marks = json.loads(fake_cuda.run(SCRIPT, env | settings).splitlines()[-1])
    assert wrong == []
    if "VDEV_PLANNING" not in settings:  # launches are not split, and take a marker now and then only
        assert 57 <= timed <= 60  # one that is weighed has its times from elsewhere
        assert marks < 20
