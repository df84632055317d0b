"""What launches cost the host whose index space no launch had before: bytecodes of Python, which are the same on a busy machine.

Run by `test_index_spaces` in a process of its own, which prints them for each kind of launch.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyopencl as cl

from tests.bytecodes import Bytecodes

SOURCE = """
kernel void row_of_tiles(global float *a, global const float *x, int n, int row)
{
    int c = get_global_id(0), r = row + get_global_id(1);
    if (c <= r) a[r * n + c] += x[r] * x[c];
}
"""
N, TILE = 2048, 16
#: launches before those that are counted: by then, constructors are compiled (`vdev.translators.values`)
WARM, COUNTED = 64, 40
Launch = Callable[[int], object]


def launches() -> tuple[dict[str, Launch], cl.CommandQueue]:
    """By kind: the launch of that number, over an index space of its own but for `known`. And the queue."""
    context = cl.create_some_context(interactive=False)
    queue, flags = cl.CommandQueue(context), cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    a = cl.Buffer(context, flags, hostbuf=np.zeros(N * N, np.float32))
    x = cl.Buffer(context, flags, hostbuf=np.ones(N, np.float32))
    program = cl.Program(context, SOURCE).build()
    kernels = [cl.Kernel(program, "row_of_tiles") for _ in range(4)]
    n, groups = np.int32(N), (TILE, TILE)
    for kernel in kernels:
        kernel.set_arg_types([None, None, np.int32, np.int32])

    def known(number: int) -> object:
        return kernels[0](queue, (TILE, TILE), groups, a, x, n, np.int32(number))

    def size(number: int) -> object:
        return kernels[1](queue, (TILE * (number + 1), TILE), groups, a, x, n, np.int32(TILE * number))

    def set_args(number: int) -> object:
        kernels[2].set_args(a, x, n, np.int32(TILE * number))
        return cl.enqueue_nd_range_kernel(queue, kernels[2], (TILE * (number + 1), 2 * TILE), groups)

    def offset(number: int) -> object:
        kernels[3].set_args(a, x, n, np.int32(0))
        return cl.enqueue_nd_range_kernel(queue, kernels[3], (N, TILE), groups, (0, TILE * number))

    return {each.__name__: each for each in (known, size, set_args, offset)}, queue


def bytecodes(launch: Launch, queue: cl.CommandQueue) -> int:
    """Of the usual one: few have to do with what comes now and then, such as a marker."""
    counts = []
    for number in range(WARM):
        launch(number)
    queue.finish()
    for number in range(WARM, WARM + COUNTED):
        with Bytecodes() as found:
            launch(number)
        counts.append(found.count)
    return sorted(counts)[COUNTED // 2]


def main() -> None:
    made, queue = launches()
    print(json.dumps({name: bytecodes(launch, queue) for name, launch in made.items()}))


if __name__ == "__main__":
    main()
