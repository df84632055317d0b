"""Whatever a program waits with is a look, which tells those who choose ways how long a period takes: once for all that it waits for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

PROGRAM = """
import json, numpy as np, pyopencl as cl
from vdev.session.choosing import Choosing
looks, looked = [], Choosing.looked

def noted(self, at_ns, nbytes):
    looks.append(nbytes)
    return looked(self, at_ns, nbytes)

Choosing.looked = noted
context = cl.create_some_context(interactive=False)
queue, other = cl.CommandQueue(context), cl.CommandQueue(context)
kernel = cl.Kernel(cl.Program(context, "kernel void more(global int *a) { a[get_global_id(0)] += 1; }").build(), "more")
given = np.zeros(1 << 16, np.int32)
buffers = [cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=given) for _ in range(2)]
found = np.empty(16, np.int32)

def launch(queue=queue, buffer=buffers[0]):
    return kernel(queue, given.shape, (64,), buffer)

def mapped(how=cl.map_flags.READ):
    array, event = cl.enqueue_map_buffer(queue, buffers[0], how, 0, (16,), np.int32)
    array.base.release(queue)

waits = {
    "an event": lambda: launch().wait(),
    "an event and its queue": lambda: (launch().wait(), queue.finish()),
    "two events of two queues": lambda: cl.wait_for_events([launch(), launch(other, buffers[1])]),
    "two events, one by one": lambda: [event.wait() for event in [launch(), launch(other, buffers[1])]],
    "a queue": lambda: (launch(), queue.finish()),
    "a queue, twice": lambda: (launch(), queue.finish(), queue.finish()),
    "a marker": lambda: (launch(), cl.enqueue_marker(queue).wait()),
    "a read": lambda: (launch(), cl.enqueue_copy(queue, found, buffers[0])),
    "a read that is waited for": lambda: (launch(), cl.enqueue_copy(queue, found, buffers[0], is_blocking=False).wait()),
    "a read and a queue": lambda: (launch(), cl.enqueue_copy(queue, found, buffers[0]), queue.finish()),
    "a mapping": lambda: (launch(), mapped()),
    "a mapping of what is given up": lambda: (launch(), mapped(cl.map_flags.WRITE_INVALIDATE_REGION)),
    "nothing": launch,
}
said = {}
for name, step in waits.items():
    counts = []
    for _ in range(12):
        queue.finish(), other.finish()
        looks.clear()
        step()
        counts.append(len(looks))
    said[name] = counts
ended = cl.UserEvent(context)
ended.set_status(0)
looks.clear()
ended.wait()
said["what has ended"] = [len(looks)]
print(json.dumps(said))
"""


@pytest.mark.parametrize("planning", ["auto", "always"])
def test_what_a_program_waits_with_is_one_look(planning: str, tmp_path: Path) -> None:
    # Late: nothing has ended before the program waits, for which no look would be needed.
    environment = fake_cuda.environment(tmp_path, "cuda:0,1", late=0) | {
        "VDEV_PLANNING": planning,
        "PYOPENCL_NO_CACHE": "1",
    }
    said = json.loads(fake_cuda.run(PROGRAM, environment))
    nothing = {"nothing", "what has ended"}
    assert {name: counts for name, counts in said.items() if set(counts) != {int(name not in nothing)}} == {}
