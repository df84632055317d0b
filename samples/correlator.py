"""Correlator of a radio telescope: the visibility of every pair of stations in every frequency channel.

Stations form a triangle of pairs, cut into cells of 2 x 2 stations. The work-groups of a channel share its
cells; a work-item finds its cell in the triangle by a square root, so work-items have unequal work and odd
indices.

Source: R. V. van Nieuwpoort and J. W. Romein, "Correlating Radio Astronomy Signals with Many-Core Hardware"
(2011); Correlator in Table 2 of Kim et al. (PPoPP 2011).
"""

import common
import numpy as np
import pyopencl as cl

GROUP, GROUPS = 64, 4  # work-items of a group, groups of a channel
SOURCE = """
/* sum += a * conj(b) */
float2 correlated(const float2 sum, const float2 a, const float2 b)
{
    return sum + (float2)(a.x * b.x + a.y * b.y, a.y * b.x - a.x * b.y);
}

/* Samples are two polarisations (x.re, x.im, y.re, y.im), visibilities their four products xx, xy, yx, yy. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void correlate(__global const float4 *samples, __global float8 *visibilities, const uint stations,
               const uint times)
{
    const uint channel = get_global_id(1);
    const uint blocks = (stations + 1) / 2, cells = blocks * (blocks + 1) / 2;
    const uint baselines = stations * (stations + 1) / 2;
    __global const float4 *of_channel = samples + (size_t)channel * stations * times;
    for (uint cell = get_global_id(0); cell < cells; cell += get_global_size(0)) {
        uint row = (uint)((sqrt(8.0f * cell + 1.0f) - 1.0f) * 0.5f);
        while (row * (row + 1) / 2 > cell) /* the square root may be one off */
            --row;
        while ((row + 1) * (row + 2) / 2 <= cell)
            ++row;
        const uint column = cell - row * (row + 1) / 2;
        const uint y0 = 2 * row, x0 = 2 * column;
        const uint y1 = min(y0 + 1, stations - 1), x1 = min(x0 + 1, stations - 1);

        float2 sums[2][2][4];
        for (int i = 0; i < 16; ++i)
            sums[i / 8][i / 4 % 2][i % 4] = (float2)(0.0f);
        for (uint t = 0; t < times; ++t) {
            const float4 y[2] = { of_channel[(size_t)y0 * times + t], of_channel[(size_t)y1 * times + t] };
            const float4 x[2] = { of_channel[(size_t)x0 * times + t], of_channel[(size_t)x1 * times + t] };
            for (int j = 0; j < 2; ++j)
                for (int i = 0; i < 2; ++i) {
                    sums[j][i][0] = correlated(sums[j][i][0], y[j].xy, x[i].xy);
                    sums[j][i][1] = correlated(sums[j][i][1], y[j].xy, x[i].zw);
                    sums[j][i][2] = correlated(sums[j][i][2], y[j].zw, x[i].xy);
                    sums[j][i][3] = correlated(sums[j][i][3], y[j].zw, x[i].zw);
                }
        }
        for (uint j = 0; j < 2; ++j)
            for (uint i = 0; i < 2; ++i) {
                const uint y = y0 + j, x = x0 + i;
                if (y < stations && x <= y)
                    visibilities[(size_t)channel * baselines + y * (y + 1) / 2 + x]
                        = (float8)(sums[j][i][0], sums[j][i][1], sums[j][i][2], sums[j][i][3]);
            }
    }
}
"""


def products(samples: common.Array) -> common.Array:
    """The visibilities of one channel: samples (station, time, polarisation) to products (baseline, 2, 2)."""
    stations = len(samples)
    lines = samples.transpose(0, 2, 1).reshape(2 * stations, -1).astype(np.complex128)
    pairs = (lines @ lines.conj().T).reshape(stations, 2, stations, 2).transpose(0, 2, 1, 3)
    of_triangle: common.Array = pairs[np.tril_indices(stations)]
    return of_triangle


def main() -> None:
    parser = common.parser(__doc__, size=64, meaning="stations")
    parser.add_argument(
        "--channels", type=common.positive, default=16, help="frequency channels (default: %(default)s)"
    )
    parser.add_argument(
        "--times", type=common.positive, default=256, help="samples of each (default: %(default)s)"
    )
    args = parser.parse_args()
    stations, channels, times = args.size, args.channels, args.times
    baselines = stations * (stations + 1) // 2
    context, queue = common.open_queue()
    common.announce(
        queue, f"{stations} stations ({baselines} baselines), {channels} channels, {times} samples"
    )
    rng = np.random.default_rng(14)
    samples = rng.standard_normal((channels, stations, times, 4), np.float32).view(np.complex64)

    flags = cl.mem_flags
    samples_buffer = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=samples)
    visibilities = np.empty((channels, baselines, 2, 2), np.complex64)
    visibilities_buffer = cl.Buffer(context, flags.WRITE_ONLY, visibilities.nbytes)
    correlate = cl.Kernel(cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}"]), "correlate")
    with common.timed(queue, "correlation", count=32e-9 * baselines * channels * times, unit="Gflop"):
        correlate(
            queue,
            (GROUPS * GROUP, channels),
            (GROUP, 1),
            samples_buffer,
            visibilities_buffer,
            np.uint32(stations),
            np.uint32(times),
        )

    cl.enqueue_copy(queue, visibilities, visibilities_buffer)
    chosen = common.some(channels, 16)
    expected = np.stack([products(samples[channel]) for channel in chosen])
    common.check(
        f"all baselines of {chosen.size} of {channels} channels", visibilities[chosen], expected, 1e-5
    )


if __name__ == "__main__":
    main()
