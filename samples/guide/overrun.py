"""A PyOpenCL program with two mistakes in its kernel, for the guide."""

import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(
    context,
    """
__kernel void neighbours(__global float *out, __global const float *in) {
  __local float tile[64];
  int i = get_global_id(0), l = get_local_id(0);
  tile[l] = in[i + 1];
  out[i] = tile[63 - l];
}
""",
).build()
x = np.arange(256, dtype=np.float32)
given = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
out = cl.Buffer(context, cl.mem_flags.READ_WRITE, x.nbytes)
program.neighbours(queue, x.shape, (64,), out, given)
cl.enqueue_copy(queue, x, out)
