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

GROUP = 64
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
                const uint y = y0 + j, x = x0 + i, baseline = y * (y + 1) / 2 + x;
                if (x <= y && baseline < baselines)
                    visibilities[(size_t)channel * baselines + baseline]
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
    for name, default, meaning in (
        ("channels", 16, "frequency channels"),
        ("times", 256, "samples of each"),
        ("groups", 4, "work-groups of a channel"),
    ):
        parser.add_argument(
            f"--{name}", type=common.positive, default=default, help=f"{meaning} (default: %(default)s)"
        )
    args = parser.parse_args()
    stations, channels, times = args.size, args.channels, args.times
    baselines = stations * (stations + 1) // 2
    samples = common.random(14, channels, stations, times, 4)
    samples -= np.float32(0.5)
    samples = samples.view(np.complex64)
    visibilities = np.empty((channels, baselines, 2, 2), np.complex64)
    context, queue = common.open_queue()
    common.announce(
        queue, f"{stations} stations ({baselines} baselines), {channels} channels, {times} samples"
    )
    correlate = cl.Kernel(cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}"]), "correlate")
    grid = args.groups * GROUP, channels

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, samples), common.room(queue, visibilities.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        correlate(queue, grid, (GROUP, 1), *buffers, np.uint32(stations), np.uint32(times))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, visibilities, buffers[1])
        return visibilities

    job = common.Job(queue, upload, launch, download)
    common.run(job, "correlation", count=32e-9 * baselines * channels * times, unit="Gflop")
    some_channels, some_stations = common.some(channels, 16), common.some(stations, 256)
    rows, columns = (some_stations[side] for side in np.tril_indices(some_stations.size))
    chosen = rows * (rows + 1) // 2 + columns
    expected = np.stack([products(samples[channel][some_stations]) for channel in some_channels])
    what = f"{chosen.size} baselines of {some_channels.size} of {channels} channels"
    common.check(what, visibilities[np.ix_(some_channels, chosen)], expected, common.rounding(times))


if __name__ == "__main__":
    main()
