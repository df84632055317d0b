"""Two waves on strings of their own, advanced through one queue that keeps no order: events say what follows what, and a
third kernel adds up both strings once both waves are done.

Source: the wave equation by central differences, R. Courant, K. Friedrichs and H. Lewy (1928).
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 256
SPEED = np.float32(0.25)  # the square of the Courant number
SOURCE = """
__kernel void wave(__global const float *now, __global float *next, const float speed, const int n)
{
    const int i = get_global_id(0);
    if (i > 0 && i < n - 1)
        next[i] = 2.0f * now[i] - next[i] + speed * (now[i - 1] - 2.0f * now[i] + now[i + 1]);
}

__kernel void add(__global const float *one, __global const float *other, __global float *both, const int n)
{
    const int i = get_global_id(0);
    if (i < n)
        both[i] = one[i] + other[i];
}
"""


def waved(string: common.Array, steps: int) -> common.Array:
    """A string after so many steps, from rest, in double precision; its ends stay."""
    now = string.astype(np.float64)
    before = now.copy()
    for _ in range(steps):
        change = now[:-2] - 2 * now[1:-1] + now[2:]
        before[1:-1] = 2 * now[1:-1] - before[1:-1] + float(SPEED) * change
        now, before = before, now
    return now


def main() -> None:
    parser = common.parser(__doc__, size=1 << 16, meaning="points of a string")
    parser.add_argument("--steps", type=common.positive, default=20, help="of time (default: %(default)s)")
    args = parser.parse_args()
    n = args.size
    points = np.linspace(0, 1, n, dtype=np.float32)
    strings = np.sin(np.pi * points), points * (1 - points)
    both = np.empty(n, np.float32)
    context = cl.create_some_context(interactive=False)
    some = context.devices[0].queue_properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = cl.CommandQueue(context, properties=some)  # in order where the device knows no other
    common.announce(queue, f"{args.steps} steps of two strings of {n} points")
    program = cl.Program(context, SOURCE).build()
    wave, add = cl.Kernel(program, "wave"), cl.Kernel(program, "add")
    grid, count = (common.round_up(n, GROUP),), np.int32(n)

    def upload() -> list[cl.Buffer]:
        room = [common.room(queue, string.nbytes) for string in (*strings, *strings, both)]
        return room

    def launch(buffers: list[cl.Buffer]) -> None:
        ends = []
        for number, string in enumerate(strings):
            pair = buffers[number::2][:2]
            last = [cl.enqueue_copy(queue, buffer, string, is_blocking=False) for buffer in pair]
            for _ in range(args.steps):
                last = [wave(queue, grid, (GROUP,), *pair, SPEED, count, wait_for=last)]
                pair.reverse()
            ends.append((pair[0], last))
        waits = [event for _, last in ends for event in last]
        add(queue, grid, (GROUP,), *(buffer for buffer, _ in ends), buffers[4], count, wait_for=waits)
        cl.enqueue_barrier(queue)

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, both, buffers[4])
        return both

    job = common.Job(queue, upload, launch, download)
    common.run(job, "steps", count=2e-6 * n * args.steps, unit="million points")
    expected = sum(waved(string, args.steps) for string in strings)
    common.check(f"{n} points", both, expected, 1e-4)


if __name__ == "__main__":
    main()
