"""A kernel with a race: all work-groups write their number to one place. On one device some number results and nobody
notices; with VDEV_CHECK=1 the launch raises an error that names two of the writers.
"""

import numpy as np
import pyopencl as cl

SOURCE = """
__kernel void find(__global const int *in, __global int *found)
{
    if (in[get_global_id(0)] == 7)
        found[0] = get_global_id(0);
}
"""

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build()

numbers = np.zeros(100_000, np.int32)
numbers[[1_000, 60_000]] = 7
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
memory = cl.Buffer(context, flags, hostbuf=numbers)
found = cl.Buffer(context, flags, hostbuf=np.full(1, -1, np.int32))
program.find(queue, (100_000,), (100,), memory, found)
place = np.empty(1, np.int32)
cl.enqueue_copy(queue, place, found)
print("a 7 at", place[0])
