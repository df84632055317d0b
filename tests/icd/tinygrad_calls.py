"""A product of matrices and reductions with tinygrad, which calls OpenCL by ctypes."""

import numpy as np
from tinygrad import Tensor

given = np.arange(256 * 256, dtype=np.float32).reshape(256, 256)
a, b = Tensor(given % 17, device="CL").realize(), Tensor(given % 13, device="CL").realize()
c = (a @ b).realize()
print(c.sum().item(), c[3, 5].item(), (a + b).max().item(), (a * 2 + 1).relu().sum(axis=0)[:3].tolist())
