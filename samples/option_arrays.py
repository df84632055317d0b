"""Call options by the Black-Scholes formula, on arrays that stay on the device: an elementwise kernel prices them again and
again as time goes by, and adds up how far the prices have moved.

Source: F. Black and M. Scholes (1973), through `pyopencl.elementwise`.
"""

import math

import common
import numpy as np
import pyopencl.array as cl_array
from pyopencl.elementwise import ElementwiseKernel

RATE, VOLATILITY = 0.03, 0.25
NORMAL = """
float normal(const float x)
{
    return 0.5f * erfc(-0.70710678f * x);
}
"""
PRICE = """
    const float spread = volatility * sqrt(years[i]);
    const float d1 = (log(stocks[i] / strikes[i]) + rate * years[i]) / spread + 0.5f * spread;
    const float now = strikes[i] * exp(-rate * years[i]);
    const float price = stocks[i] * normal(d1) - now * normal(d1 - spread);
    moved[i] += fabs(price - prices[i]);
    prices[i] = price;
    years[i] += step;
"""


def priced(stocks: common.Array, strikes: common.Array, years: common.Array) -> common.Array:
    """The prices in double precision."""
    normal = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
    spread = VOLATILITY * np.sqrt(years)
    d1 = (np.log(stocks / strikes) + RATE * years) / spread + 0.5 * spread
    prices: common.Array = stocks * normal(d1) - strikes * np.exp(-RATE * years) * normal(d1 - spread)
    return prices


def main() -> None:
    parser = common.parser(__doc__, size=1 << 16, meaning="options")
    parser.add_argument("--steps", type=common.positive, default=10, help="points in time")
    args = parser.parse_args()
    n, step = args.size, np.float32(0.125)
    stocks, strikes = (5 + 45 * common.random(seed, n) for seed in (81, 82))
    years = 0.25 + common.random(83, n)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} options at {args.steps} points in time")
    arguments = "const float *stocks, const float *strikes, float *years, float *prices, float *moved"
    price = ElementwiseKernel(
        context, f"{arguments}, float rate, float volatility, float step", PRICE, "price", preamble=NORMAL
    )

    def upload() -> list[cl_array.Array]:
        given = [cl_array.to_device(queue, array) for array in (stocks, strikes, years)]
        return [*given, *(cl_array.zeros(queue, n, np.float32) for _ in range(2))]

    def launch(arrays: list[cl_array.Array]) -> None:
        for _ in range(args.steps):
            price(*arrays, np.float32(RATE), np.float32(VOLATILITY), step)

    def download(arrays: list[cl_array.Array]) -> list[common.Array]:
        return [array.get() for array in arrays[2:]]

    job = common.Job(queue, upload, launch, download)
    later, prices, moved = common.run(job, "pricing", count=1e-6 * n * args.steps, unit="million options")
    chosen = common.some(n, 1 << 12)
    given = [array[chosen].astype(np.float64) for array in (stocks, strikes, years)]
    expected, far = np.zeros(chosen.size), np.zeros(chosen.size)
    for number in range(args.steps):
        before, expected = expected, priced(*given[:2], given[2] + number * float(step))
        far += np.abs(expected - before)
    common.check(f"{chosen.size} of {n} prices", prices[chosen], expected, 1e-4)
    common.check("how far they moved", moved[chosen], far, 1e-4)
    common.check("years left", later[chosen], given[2] + args.steps * float(step), 1e-5)


if __name__ == "__main__":
    main()
