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
POINTS = 1 << 14


def coefficients(signal: common.Array) -> tuple[common.Array, common.Array]:
    """Which of the Fourier coefficients are `k` plus a multiple of n / POINTS, for some `k`, and these.

    The signal, turned by `k`, is folded to POINTS points, of which a short transform gives all of them.
    """
    n = signal.size
    rows = n // POINTS
    offsets = common.some(rows, 4)[:, None]
    turned = np.exp(-2j * np.pi / rows * offsets * np.arange(rows)).astype(np.complex64)
    folded = (turned @ signal.reshape(rows, POINTS)).astype(np.complex128)
    folded *= np.exp(-2j * np.pi / n * offsets * np.arange(POINTS))
    return (offsets + rows * np.arange(POINTS)).ravel(), np.fft.fft(folded).ravel()


def main() -> None:
    parser = common.parser(
        __doc__, size=1 << 18, meaning="complex points, a power of two", kind=common.power_of_two
    )
    n = parser.parse_args().size
    signal = (common.random(9, 2 * n) - np.float32(0.5)).view(np.complex64)
    spectrum = np.empty_like(signal)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} complex points")
    butterflies = cl.Kernel(cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}"]), "butterflies")
    pairs, grid = n // 2, (common.round_up(n // 2, GROUP),)
    passes = n.bit_length() - 1
    order = [0, *[1, 2] * passes]  # of the buffers: the signal is kept, two others take turns

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, signal), *(common.room(queue, signal.nbytes) for _ in range(2))]

    def one_pass(buffers: list[cl.Buffer], number: int) -> None:
        between = buffers[order[number]], buffers[order[number + 1]]
        butterflies(queue, grid, (GROUP,), *between, np.uint32(pairs), np.uint32(1 << number))

    def launch(buffers: list[cl.Buffer]) -> None:
        for number in range(passes):
            one_pass(buffers, number)

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, spectrum, buffers[order[passes]])
        return spectrum

    parts = {"fft1D": lambda buffers: one_pass(buffers, 0)}
    job = common.Job(queue, upload, launch, download, parts)
    common.run(job, "transform", count=5e-9 * n * np.log2(n), unit="Gflop")
    if n <= MOST_CHECKED_WHOLE:
        common.check(f"all {n} coefficients", spectrum, np.fft.fft(signal.astype(np.complex128)), 1e-5)
    else:
        chosen, expected = coefficients(signal)
        common.check(f"{chosen.size} of {n} coefficients", spectrum[chosen], expected, 1e-5)


if __name__ == "__main__":
    main()
