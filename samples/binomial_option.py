"""Prices of American put options on a binomial lattice: a work-group holds the lattice of four options in
local memory.

Source: J. C. Cox, S. A. Ross and M. Rubinstein, "Option Pricing: A Simplified Approach" (1979), as in the
BinomialOption sample of the AMD APP SDK, with early exercise added; BinomialOption in Table 2 of Kim et al.
(PPoPP 2011).
"""

import common
import numpy as np
import pyopencl as cl

STEPS = 254  # of the lattice; even, so that two buffers take turns
GROUP = 256
RATE, VOLATILITY = 0.02, 0.30  # a year
SOURCE = """
/* One option in each component of the vectors; work-item i owns node i of the lattice's current time step. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void price(__global const float4 *stocks, __global const float4 *strikes, __global const float4 *years,
           __global float4 *prices)
{
    __local float4 one[GROUP], other[GROUP];
    const int lid = get_local_id(0);
    const size_t option = get_group_id(0);
    const float4 stock = stocks[option], strike = strikes[option], step = years[option] / STEPS;
    const float4 move = VOLATILITY * sqrt(step), up = exp(move), down = 1.0f / up;
    const float4 growth = exp(RATE * step), likely = (growth - down) / (up - down);
    const float4 of_up = likely / growth, of_down = (1.0f - likely) / growth;

    one[lid] = max(strike - stock * exp(move * (2.0f * lid - STEPS)), 0.0f);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int left = STEPS; left > 0; left -= 2) {
        if (lid < left) {
            const float4 now = strike - stock * exp(move * (2.0f * lid - (left - 1)));
            other[lid] = max(of_up * one[lid + 1] + of_down * one[lid], now);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < left - 1) {
            const float4 now = strike - stock * exp(move * (2.0f * lid - (left - 2)));
            one[lid] = max(of_up * other[lid + 1] + of_down * other[lid], now);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lid == 0)
        prices[option] = one[0];
}
"""


def lattice_prices(stocks: common.Array, strikes: common.Array, years: common.Array) -> common.Array:
    """The options' prices in double precision, all lattices at once."""
    stock, strike, step = (a.astype(np.float64)[:, None] for a in (stocks, strikes, years / STEPS))
    move = VOLATILITY * np.sqrt(step)
    up, growth = np.exp(move), np.exp(RATE * step)
    likely = (growth - 1 / up) / (up - 1 / up)
    value = np.maximum(strike - stock * np.exp(move * (2 * np.arange(STEPS + 1) - STEPS)), 0)
    for nodes in range(STEPS, 0, -1):
        exercised = strike - stock * np.exp(move * (2 * np.arange(nodes) - (nodes - 1)))
        value = np.maximum((likely * value[:, 1:] + (1 - likely) * value[:, :-1]) / growth, exercised)
    return value[:, 0]


def main() -> None:
    n = common.parser(__doc__, size=1024, meaning="options").parse_args().size
    padded = common.round_up(n, 4)
    stocks, strikes = (10 + 90 * common.random(seed, padded) for seed in (12, 13))
    years = np.float32(0.25) + np.float32(4.75) * common.random(14, padded)
    prices = np.empty_like(stocks)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} options, {STEPS} steps")
    options = [f"-DSTEPS={STEPS}", f"-DGROUP={GROUP}", f"-DRATE={RATE}f", f"-DVOLATILITY={VOLATILITY}f"]
    price = cl.Kernel(cl.Program(context, SOURCE).build(options), "price")

    def upload() -> list[cl.Buffer]:
        inputs = [common.write(queue, array) for array in (stocks, strikes, years)]
        return [*inputs, common.room(queue, prices.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        price(queue, (padded // 4 * GROUP,), (GROUP,), *buffers)

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, prices, buffers[-1])
        return prices

    common.run(common.Job(queue, upload, launch, download), "pricing", count=n, unit="options")
    chosen = common.some(n, 1024)
    expected = lattice_prices(stocks[chosen], strikes[chosen], years[chosen])
    common.check(f"{chosen.size} of {n} prices", prices[chosen], expected, 1e-4)


if __name__ == "__main__":
    main()
