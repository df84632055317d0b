"""Fast Fourier transform of one long complex vector: a Stockham radix-2 pass a launch, to and fro between
two buffers.

Source: N. K. Govindaraju et al., "High Performance Discrete Fourier Transforms on Graphics Processors" (SC
2008), on which Parboil's FFT rests; fft1D in Table 1 of AMGE (ICS 2015).
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 128
SOURCE = """
/* One pass: pairs half a vector apart are combined; the transforms of `span` points double. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void butterflies(__global const float2 *from, __global float2 *to, const uint pairs, const uint span)
{
    const uint j = get_global_id(0);
    if (j >= pairs)
        return;
    const uint k = j % span;
    const float2 even = from[j], odd = from[j + pairs];
    const float turn = (float)k / (float)span;
    const float c = cospi(turn), s = -sinpi(turn);
    const float2 turned = (float2)(odd.x * c - odd.y * s, odd.x * s + odd.y * c);
    const uint at = (j / span) * span * 2 + k;
    to[at] = even + turned;
    to[at + span] = even - turned;
}
"""
MOST_CHECKED_WHOLE = 1 << 22


def coefficients(signal: common.Array, chosen: common.Array) -> common.Array:
    """The Fourier coefficients `chosen`, each from its definition, in double precision."""
    n = signal.size
    turns = np.arange(n, dtype=np.int64)
    return np.array([np.sum(signal * np.exp(-2j * np.pi / n * (int(k) * turns % n))) for k in chosen])


def main() -> None:
    parser = common.parser(
        __doc__, size=1 << 18, meaning="complex points, a power of two", kind=common.power_of_two
    )
    n = parser.parse_args().size
    context, queue = common.open_queue()
    common.announce(queue, f"{n} complex points")
    rng = np.random.default_rng(9)
    signal = (rng.standard_normal(2 * n, np.float32)).view(np.complex64)

    flags = cl.mem_flags
    here = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=signal)
    there = cl.Buffer(context, flags.READ_WRITE, signal.nbytes)
    butterflies = cl.Kernel(cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}"]), "butterflies")
    pairs, span = n // 2, 1
    with common.timed(queue, "transform", count=5e-9 * n * np.log2(n), unit="Gflop"):
        while span < n:
            grid = (common.round_up(pairs, GROUP),)
            butterflies(queue, grid, (GROUP,), here, there, np.uint32(pairs), np.uint32(span))
            here, there = there, here
            span *= 2

    spectrum = np.empty_like(signal)
    cl.enqueue_copy(queue, spectrum, here)
    if n <= MOST_CHECKED_WHOLE:
        common.check(f"all {n} coefficients", spectrum, np.fft.fft(signal.astype(np.complex128)), 1e-5)
    else:
        chosen = common.some(n, 8)
        common.check(
            f"{chosen.size} of {n} coefficients", spectrum[chosen], coefficients(signal, chosen), 1e-5
        )


if __name__ == "__main__":
    main()
