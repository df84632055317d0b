"""Breadth-first search, level by level: every vertex of the last level reaches its neighbours, and the host asks after
each level whether there were new ones.

Source: P. Harish and P. J. Narayanan, "Accelerating Large Graph Algorithms on the GPU Using CUDA" (HiPC 2007); BFS in
Parboil and Rodinia.
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 256
SOURCE = """
__kernel void advance(__global const int *starts, __global const int *targets, __global int *levels,
                      __global int *found, const int level, const int n)
{
    const int vertex = get_global_id(0);
    if (vertex >= n || levels[vertex] != level)
        return;
    int new = 0;
    for (int k = starts[vertex]; k < starts[vertex + 1]; ++k)
        if (levels[targets[k]] < 0) {
            levels[targets[k]] = level + 1;
            new = 1;
        }
    if (new)
        *found = 1;
}
"""


def graph(n: int, degree: int) -> tuple[common.Array, common.Array]:
    """A connected graph of n vertices with `degree` random edges each, and one to the next: starts and targets."""
    drawn = (common.random(51, n, degree) * n).astype(np.int32)
    np.minimum(drawn, n - 1, out=drawn)
    drawn[:, 0] = (np.arange(n) + 1) % n
    return np.arange(n + 1, dtype=np.int32) * np.int32(degree), drawn.ravel()


def searched(starts: common.Array, targets: common.Array) -> common.Array:
    """The level of each vertex, from vertex 0."""
    levels = np.full(len(starts) - 1, -1, np.int32)
    levels[0] = 0
    edges = targets.reshape(len(levels), -1)
    last = np.zeros(1, np.int64)
    level = 0
    while last.size:
        level += 1
        reached = np.unique(edges[last])
        last = reached[levels[reached] < 0]
        levels[last] = level
    return levels


def main() -> None:
    parser = common.parser(__doc__, size=1 << 17, meaning="vertices")
    parser.add_argument("--degree", type=common.positive, default=8, help="edges of a vertex")
    args = parser.parse_args()
    n = args.size
    starts, targets = graph(n, args.degree)
    first = np.full(n, -1, np.int32)
    first[0] = 0
    levels, found = np.empty_like(first), np.zeros(1, np.int32)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} vertices with {targets.size} edges")
    advance = cl.Kernel(cl.Program(context, SOURCE).build(), "advance")

    def upload() -> list[cl.Buffer]:
        edges = [common.write(queue, array) for array in (starts, targets)]
        return [*edges, common.write(queue, first, kept=True), common.room(queue, found.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        common.rewrite(queue, buffers[2], first)
        found[:] = 1
        level = 0
        while found[0]:
            found[:] = 0
            cl.enqueue_copy(queue, buffers[3], found)
            size = (common.round_up(n, GROUP),)
            advance(queue, size, (GROUP,), *buffers, np.int32(level), np.int32(n))
            cl.enqueue_copy(queue, found, buffers[3])
            level += 1

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, levels, buffers[2])
        return levels

    job = common.Job(queue, upload, launch, download)
    common.run(job, "search", count=1e-6 * targets.size, unit="million edges")
    common.check(f"levels of {n} vertices", levels, searched(starts, targets))


if __name__ == "__main__":
    main()
