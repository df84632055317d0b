"""European option prices by the Black-Scholes formula, one option a work-item.

Source: F. Black and M. Scholes (1973), with the normal distribution approximated as in J. C. Hull,
"Options, Futures, and Other Derivatives", as in PARSEC's blackscholes; Blackscholes in Table 2 of Kim et
al. (PPoPP 2011).
"""

import math

import common
import numpy as np
import pyopencl as cl

GROUP = 256
SOURCE = """
/* The cumulative normal distribution (Abramowitz and Stegun 26.2.17). */
float normal(const float x)
{
    const float k = 1.0f / (1.0f + 0.2316419f * fabs(x));
    const float density = 0.39894228f * exp(-0.5f * x * x);
    const float tail = density * k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f
                     + k * (-1.821255978f + k * 1.330274429f))));
    return x < 0.0f ? tail : 1.0f - tail;
}

__kernel void price(__global const float *stocks, __global const float *strikes, __global const float *rates,
                    __global const float *volatilities, __global const float *years, __global const int *puts,
                    __global float *prices, const int n)
{
    const int i = get_global_id(0);
    if (i >= n)
        return;
    const float stock = stocks[i], strike = strikes[i], rate = rates[i], time = years[i];
    const float spread = volatilities[i] * sqrt(time);
    const float d1 = (log(stock / strike) + rate * time) / spread + 0.5f * spread, d2 = d1 - spread;
    const float now = strike * exp(-rate * time);
    if (puts[i])
        prices[i] = now * (1.0f - normal(d2)) - stock * (1.0f - normal(d1));
    else
        prices[i] = stock * normal(d1) - now * normal(d2);
}
"""


def formula(inputs: list[common.Array]) -> common.Array:
    """The options' prices in double precision, with the normal distribution from the error function."""
    stock, strike, rate, volatility, time, put = (a.astype(np.float64) for a in inputs)
    normal = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
    spread = volatility * np.sqrt(time)
    d1 = (np.log(stock / strike) + rate * time) / spread + 0.5 * spread
    now = strike * np.exp(-rate * time)
    call = stock * normal(d1) - now * normal(d1 - spread)
    prices: common.Array = np.where(put, call + now - stock, call)
    return prices


def scaled(numbers: common.Array, low: float, high: float) -> common.Array:
    """Numbers from 0 to 1 brought to lie from `low` to `high`, in place."""
    numbers *= np.float32(high - low)
    numbers += np.float32(low)
    return numbers


def main() -> None:
    parser = common.parser(__doc__, size=1 << 18, meaning="options")
    parser.add_argument(
        "--runs", type=common.positive, default=1, help="how often all are priced (default: %(default)s)"
    )
    args = parser.parse_args()
    n = args.size
    # Prices, interest and volatility a year, years.
    ranges = (5, 50), (5, 50), (0.01, 0.1), (0.1, 0.6), (0.1, 2)
    inputs = [scaled(common.random(seed, n), low, high) for seed, (low, high) in enumerate(ranges)]
    inputs.append((common.random(len(ranges), n) < np.float32(0.5)).astype(np.int32))
    prices = np.empty(n, np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} options")
    price = cl.Kernel(cl.Program(context, SOURCE).build(), "price")

    def upload() -> list[cl.Buffer]:
        return [*(common.write(queue, array) for array in inputs), common.room(queue, prices.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        for _ in range(args.runs):
            price(queue, (common.round_up(n, GROUP),), (GROUP,), *buffers, np.int32(n))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, prices, buffers[-1])
        return prices

    job = common.Job(queue, upload, launch, download)
    common.run(job, "pricing", count=1e-6 * n * args.runs, unit="million options")
    chosen = common.some(n, 1 << 18)
    common.check(f"{chosen.size} of {n} prices", prices[chosen], formula([a[chosen] for a in inputs]), 1e-5)


if __name__ == "__main__":
    main()
