"""A program of short launches and transfers, whose figures do not depend on whether it is reported: run by `test_reported_ways` on
GPUs of machines without one, and by `tests.cpu.test_reported_ways` on an engine.
"""

from __future__ import annotations

PROGRAM = """
import json, os
import numpy as np, pyopencl as cl
from vdev.executor import executor
from vdev.observe.snapshots import of_session
from vdev.session import launches
from vdev.start.current import get_session
context = cl.create_some_context(interactive=False)
queue, session = cl.CommandQueue(context), get_session()
submitted = [0]
if os.environ.get("SUBMITTED"):  # each command, as if nothing came again
    session.at_once = session.executor.together = None
    launches.open_repetition = lambda *given: None
    launches.open_recall = lambda *given: None
    executor.submit_compiled = executor.submit_refilled = lambda *given: None
submit = session.executor.submit
def counted(*given, **more):
    submitted[0] += 1
    return submit(*given, **more)
session.executor.submit = counted
n, flags = 12288, cl.mem_flags
program = cl.Program(context, '''
kernel void begin(global int *x, int by) { x[get_global_id(0)] = (int) get_global_id(0) * by; }
kernel void add(global int *x, int by) { x[get_global_id(0)] += by; }
kernel void halo(global const int *x, global int *y, int n)
{ int i = get_global_id(0); y[i] = x[i > 0 ? i - 1 : 0] + x[i] - x[i < n - 1 ? i + 1 : n - 1]; }
''').build()
begin, add, halo = program.begin, program.add, program.halo
first, second, third = (cl.Buffer(context, flags.READ_WRITE, 4 * n) for _ in range(3))
for number, buffer in enumerate((first, second, third)):
    begin(queue, (n,), (64,), buffer, np.int32(number))
arrays = [np.arange(n, dtype=np.int32) * number for number in range(3)]
queue.finish()
commands = 3
def halved(x):
    return np.concatenate((x[:1], x[:-1])) + x - np.concatenate((x[1:], x[-1:]))
for step in range(STEPS):
    for by in range(4):  # one launch again and again, but for its numbers
        add(queue, (n,), (64,), first, np.int32(by + step % 3))
        arrays[0] += by + step % 3
    for place, buffer in ((1, second), (2, third)):  # with other buffers
        add(queue, (n,), (64,), buffer, np.int32(1))
        arrays[place] += 1
    halo(queue, (n,), (64,), first, third, np.int32(n))  # what one worker wrote others read
    arrays[2] = halved(arrays[0])
    cl.enqueue_copy(queue, second, third)
    arrays[1] = arrays[2].copy()
    commands += 8
    if step % 8 == 7:
        found = np.empty(16, np.int32)
        cl.enqueue_copy(queue, found, second)
        assert (found == arrays[1][:16]).all()
        cl.enqueue_copy(queue, third, np.full(16, step, np.int32))
        cl.enqueue_fill_buffer(queue, third, np.int32(step), 64, 64)
        arrays[2][:32] = step
        commands += 3
for step in range(STEPS):  # into new ones
    fresh = cl.Buffer(context, flags.READ_WRITE, 4 * n)
    halo(queue, (n,), (64,), first, fresh, np.int32(n))
    commands += 1
for step in range(2 * STEPS):  # in two buffers in turn
    halo(queue, (n,), (64,), first, third, np.int32(n))
    halo(queue, (n,), (64,), third, first, np.int32(n))
    arrays[2] = halved(arrays[0])
    arrays[0] = halved(arrays[2])
    commands += 2
for place, buffer in enumerate((first, second, third)):
    found = np.empty(n, np.int32)
    cl.enqueue_copy(queue, found, buffer)
    assert (found == arrays[place]).all(), place
    commands += 1
figures = of_session(session)
said = figures.as_dict()
def without(found, names):
    if isinstance(found, dict):
        return {name: without(item, names) for name, item in found.items() if name not in names}
    return [without(item, names) for item in found] if isinstance(found, (list, tuple)) else found
clocked = ("times", "planning_ns", "measured", "predicted", "measured_launches", "judged", "close", "plans")
print(json.dumps({
    "figures": without({name: said[name] for name in ("kernels", "commands", "moved", "counted", "undone")}, clocked),
    "exchanges": None if figures.exchanges is None else said["exchanges"],
    "steady": None if figures.steady is None else said["steady"],
    "recorded": None if figures.past is None else figures.past.commands,
    "timed": [kernel.times.kernel_ns for kernel in figures.kernels],
    "commands": commands, "submitted": submitted[0],
}))
"""


def program(steps: int) -> str:
    """The program, with so many steps."""
    return PROGRAM.replace("STEPS", str(steps))
