"""Programs that swap a kernel's buffers after each launch: nearly all of their launches are made again at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SWAPPED = """
import numpy as np, pyopencl as cl
from vdev.session.immediate_forms import Formed
from vdev.session.in_a_row import InARow
made = [0]
def count(again):
    def counted(self, *given):
        part = again(self, *given)
        made[0] += part is not None
        return part
    return counted
InARow.again, Formed.launch = count(InARow.again), count(Formed.launch)
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context, properties={properties})
step = cl.Kernel(cl.Program(context, '''
__kernel void step(__global uint *out, __global const uint *in, uint more) {{ out[get_global_id(0)] = in[get_global_id(0)] + more; }}
''').build(), "step")
pair = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096) for _ in range(2)]
for each in pair:
    cl.enqueue_fill_buffer(queue, each, np.uint32(0), 0, 4096)
last, whole = [], 0
for number in range(600):
    {call}
    whole += number
    pair.reverse()
    if number == 299:
        queue.finish()
        before = made[0]
found = np.zeros(1024, np.uint32)
cl.enqueue_copy(queue, found, pair[1], wait_for=last)
assert (found == whole).all()
print("again:", made[0] - before)
"""
CALLS = {
    "a call": "step(queue, (1024,), (64,), *pair, np.uint32(number))",
    "set and enqueued": "step.set_args(*pair, np.uint32(number)); cl.enqueue_nd_range_kernel(queue, step, (1024,), (64,))",
    "behind the last": "last = [step(queue, (1024,), (64,), *pair, np.uint32(number), wait_for=last)]",
}


@pytest.mark.parametrize("call", CALLS)
def test_launches_on_swapped_buffers_are_made_again(call: str) -> None:
    """Nearly all of them, on the only worker; behind the last in a queue that is out of order, where it can be."""
    out_of_order = (
        "cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE & context.devices[0].queue_properties"
    )
    script = SWAPPED.format(call=CALLS[call], properties=out_of_order if call == "behind the last" else 0)
    environment = os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:1", "PYOPENCL_NO_CACHE": "1"}
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split("again:")[1]) > 270
