"""A chain of two hundred small kernels: each changes a vector a little, alternating between in place and from its neighbours.

The kernels are those of a random program: what they have in common is that each is over soon.
"""

import common
import numpy as np
import pyopencl as cl

GROUP, LINKS = 256, 200
SOURCE = """
__kernel void turn(__global const uint *now, __global uint *next, const uint n, const uint number)
{
    const uint i = get_global_id(0);
    if (i < n)
        next[i] = now[i] * 1664525u + number;
}

__kernel void mix(__global const uint *now, __global uint *next, const uint n, const uint number)
{
    const uint i = get_global_id(0);
    if (i < n)
        next[i] = now[i] ^ (now[i ? i - 1 : n - 1] >> number % 13) ^ (now[i + 1 < n ? i + 1 : 0] << number % 7);
}
"""


def chained(values: common.Array, rounds: int) -> common.Array:
    """The same in NumPy."""
    for number in range(rounds * LINKS):
        number = number % LINKS
        if number % 2:
            left, right = np.roll(values, 1), np.roll(values, -1)
            values = values ^ (left >> np.uint32(number % 13)) ^ (right << np.uint32(number % 7))
        else:
            values = values * np.uint32(1664525) + np.uint32(number)
    return values


def main() -> None:
    parser = common.parser(__doc__, size=1 << 14, meaning="elements of the vector")
    parser.add_argument("--rounds", type=common.positive, default=1, help="how often (default: %(default)s)")
    args = parser.parse_args()
    n = args.size
    values = (common.random(121, n) * (1 << 24)).astype(np.uint32)
    result = np.empty_like(values)
    context, queue = common.open_queue()
    common.announce(queue, f"{args.rounds} times {LINKS} kernels on {n} elements")
    program = cl.Program(context, SOURCE).build()
    kernels = [cl.Kernel(program, name) for name in ("turn", "mix")]

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, values, kept=True), common.room(queue, values.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        common.rewrite(queue, buffers[0], values)
        for _ in range(args.rounds):
            for number in range(LINKS):
                size = (common.round_up(n, GROUP),)
                kernels[number % 2](queue, size, (GROUP,), *buffers, np.uint32(n), np.uint32(number))
                buffers.reverse()

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, result, buffers[0])
        return result

    job = common.Job(queue, upload, launch, download)
    common.run(job, "kernels", count=args.rounds * LINKS, unit="kernels")
    common.check(f"{n} elements", result, chained(values, args.rounds))


if __name__ == "__main__":
    main()
