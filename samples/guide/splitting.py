"""Launches every kernel of splitting.cl and compares the results with NumPy. What becomes of each launch on the
virtual device is told in splitting.md.
"""

from pathlib import Path

import numpy as np
import pyopencl as cl

WIDTH, HEIGHT = 256, 128
COUNT = WIDTH * HEIGHT
GROUP = 64

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, Path(__file__).with_name("splitting.cl").read_text()).build()
add = cl.Kernel(program, "add")
random = np.random.default_rng(1)


def buffer(content):
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(context, flags, hostbuf=content)


def check(name, memory, expected):
    found = np.empty_like(expected)
    cl.enqueue_copy(queue, found, memory)
    if not np.allclose(found, expected, rtol=1e-5):
        raise SystemExit(f"{name}: wrong result")
    print(f"{name}: ok")


a, b = random.random((2, COUNT), np.float32)
index = random.permutation(COUNT).astype(np.int32)
whole = random.integers(-100, 100, COUNT).astype(np.int32)
letters = random.integers(0, 256, COUNT).astype(np.uint8)
zeros = np.zeros(COUNT, np.float32)
line, plate = (COUNT,), (WIDTH, HEIGHT)

out = buffer(zeros)
add(queue, line, (GROUP,), buffer(a), buffer(b), out, np.uint32(COUNT - 5))
check("add", out, np.append(a[:-5] + b[:-5], zeros[-5:]))

out = buffer(zeros)
program.blur(queue, plate, (16, 16), buffer(a), out, np.uint32(WIDTH))
field, blurred = a.reshape(HEIGHT, WIDTH), zeros.reshape(HEIGHT, WIDTH).copy()
blurred[1:-1, 1:-1] = (
    field[:-2, 1:-1] + field[1:-1, :-2] + field[1:-1, 1:-1] + field[1:-1, 2:] + field[2:, 1:-1]
) / 5
check("blur", out, blurred)

program.transpose(queue, plate, (16, 16), buffer(a), out, np.uint32(WIDTH), np.uint32(HEIGHT))
check("transpose", out, field.T.copy())

squares = buffer(a)
program.square_all(queue, (COUNT // 4,), (GROUP,), squares, np.uint32(COUNT))
check("square_all", squares, a * a)

sums = buffer(np.zeros(COUNT // GROUP, np.int32))
program.sum_groups(queue, line, (GROUP,), buffer(whole), sums, cl.LocalMemory(4 * GROUP))
check("sum_groups", sums, whole.reshape(-1, GROUP).sum(1, dtype=np.int32))

program.gather(queue, line, (GROUP,), buffer(a), buffer(index), out)
check("gather", out, a[index])

program.scatter(queue, line, (GROUP,), buffer(a), buffer(index), out)
scattered = np.empty_like(a)
scattered[index] = a
check("scatter", out, scattered)

bins = buffer(np.zeros(256, np.uint32))
program.histogram(queue, line, (GROUP,), buffer(letters), bins)
check("histogram", bins, np.bincount(letters, minlength=256).astype(np.uint32))

count = buffer(np.zeros(1, np.uint32))
program.keep_positive(queue, line, (GROUP,), buffer(whole), buffer(np.zeros(COUNT, np.int32)), count)
check("keep_positive", count, np.array([(whole > 0).sum()], np.uint32))

done, total = buffer(np.zeros(1, np.uint32)), buffer(np.zeros(1, np.int32))
program.sum_all(queue, line, (GROUP,), buffer(whole), sums, done, total)
check("sum_all", total, np.array([whole.sum()], np.int32))

starts = np.arange(1, COUNT + 1, dtype=np.int32) % 1000 + 1
steps = buffer(np.zeros(COUNT, np.int32))
program.collatz(queue, line, (GROUP,), buffer(starts), steps)
known = {1: 0}
for start in range(2, 1001):
    value, length = start, 0
    while value not in known:
        value, length = (3 * value + 1 if value % 2 else value // 2), length + 1
    known[start] = length + known[value]
check("collatz", steps, np.array([known[int(start)] for start in starts], np.int32))

out = buffer(zeros)
add(queue, (512,), (GROUP,), buffer(a), buffer(b), out, np.uint32(512))
check("add of 512", out, np.append(a[:512] + b[:512], zeros[512:]))
