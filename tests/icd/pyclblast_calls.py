"""Calls pyclblast, which hands PyOpenCL's objects to a library in C: its results, as sums of their bytes."""

import zlib

import numpy as np
import pyclblast
import pyopencl as cl
from pyopencl.array import to_device

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
random = np.random.default_rng(1)
x, y = (to_device(queue, random.random(1 << 18, np.float32)) for _ in range(2))
a, b, c = (to_device(queue, random.random((256, 256), np.float32)) for _ in range(3))
for _ in range(3):
    pyclblast.axpy(queue, x.size, x, y, alpha=0.25)
    y *= np.float32(0.5)  # the program's own launches, between those of the library
    pyclblast.gemm(queue, 256, 256, 256, a, b, c, a_ld=256, b_ld=256, c_ld=256, alpha=0.01, beta=0.5)
    pyclblast.gemv(queue, 256, 256, c, x, y, a_ld=256, alpha=0.5, beta=0.5)
for result in (y, c):
    print(zlib.crc32(result.get().tobytes()))
