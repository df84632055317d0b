"""A PyOpenCL program that hands its objects to C, as pyclblast does: the C functions of an OpenCL loader, called here.

Run with VDEV=1; prints what came back. `sys.argv[1]`: the loader.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p

import numpy as np
import pyopencl as cl

loader = ctypes.CDLL(sys.argv[1])
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
values = np.arange(4096, dtype=np.int32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
source = "__kernel void scale(__global int *a, int by) { a[get_global_id(0)] *= by; }"
kernel = cl.Kernel(cl.Program(context, source).build(), "scale")

# the program's objects in C
size, references = c_size_t(), c_uint()
print(loader.clGetMemObjectInfo(c_void_p(buffer.int_ptr), 0x1102, 8, byref(size), None), size.value)
memory, by, event = c_void_p(buffer.int_ptr), c_int(3), c_void_p()
print(loader.clSetKernelArg(c_void_p(kernel.int_ptr), 0, 8, byref(memory)))
print(loader.clSetKernelArg(c_void_p(kernel.int_ptr), 1, 4, byref(by)))
space = (c_size_t * 1)(4096)
queue_there, kernel_there = c_void_p(queue.int_ptr), c_void_p(kernel.int_ptr)
launch = (queue_there, kernel_there, 1, None, space, None, 0, None)
print(loader.clEnqueueNDRangeKernel(*launch, byref(event)))
# C's objects in the program: the event is the program's from here on
done = cl.Event.from_int_ptr(event.value, retain=False)
done.wait()
print(done.command_execution_status, done.int_ptr == event.value)
result = np.empty_like(values)
cl.enqueue_copy(queue, result, buffer)
print(int(np.count_nonzero(result != 3 * values)))
# the program sets arguments, too, and C knows: the same value set again in C is set
kernel.set_args(buffer, np.int32(5))
print(loader.clSetKernelArg(kernel_there, 1, 4, byref(by)), loader.clEnqueueNDRangeKernel(*launch, None))
cl.enqueue_copy(queue, result, buffer)
print(int(np.count_nonzero(result != 9 * values)))
# many launches in C, whose arguments and memory the program changes in between
cl.enqueue_copy(queue, buffer, values)
expected = values.copy()
for number in range(60):
    if number % 10 == 9:
        kernel.set_args(buffer, np.int32(number % 4 + 1))
        factor = number % 4 + 1
    if number % 10 == 4:
        by.value = factor = number % 3 + 1
        loader.clSetKernelArg(kernel_there, 1, 4, byref(by))
    if number % 20 == 15:
        cl.enqueue_fill(queue, buffer, np.int32(number), 4 * 1024)
        expected[:1024] = number
    expected *= factor if number > 3 else 3
    loader.clEnqueueNDRangeKernel(*launch, None)
cl.enqueue_copy(queue, result, buffer)
print(int(np.count_nonzero(result != expected)))
# C holds a buffer that the program drops
address = buffer.int_ptr
print(loader.clRetainMemObject(c_void_p(address)))
del buffer
again = cl.Buffer.from_int_ptr(address)
print(loader.clReleaseMemObject(c_void_p(address)), again.size, again.int_ptr == address)
made = c_int()
loader.clCreateBuffer.restype = c_void_p
mine = loader.clCreateBuffer(c_void_p(context.int_ptr), ctypes.c_uint64(1), c_size_t(64), None, byref(made))
print(made.value, cl.Buffer.from_int_ptr(mine, retain=False).size)
try:
    cl.Buffer.from_int_ptr(mine)
except cl.LogicError as error:
    print(error.code)
# C calls at the very end, when Python is gone: static objects of C++ libraries do, such as CLBlast's cache of programs
mine = loader.clCreateBuffer(c_void_p(context.int_ptr), ctypes.c_uint64(1), c_size_t(64), None, None)
loader.clRetainCommandQueue(queue_there)
at_the_end = ctypes.CDLL(None)["__cxa_atexit"]
for function, handle in ((loader.clReleaseMemObject, mine), (loader.clFinish, queue_there.value)):
    at_the_end(function, c_void_p(handle), None)
