"""Compare several workers with one on many random kernels: `python -m tests.cpu.equivalence_long [kernels]
[first seed]`. Every seed is a program of 20 kernels."""

from __future__ import annotations

import random
import sys
from time import perf_counter

from .equivalence import Different, Machines, random_case

BATCH = 20


def main(kernels: int = 10_000, first: int = 0) -> int:
    """Returns the number of programs whose results depend on the number of workers."""
    machines = Machines()
    failed = 0
    start = perf_counter()
    for number, seed in enumerate(range(first, first + -(-kernels // BATCH)), 1):
        rng = random.Random(seed)
        try:
            machines.check([random_case(rng, index) for index in range(BATCH)])
        except Different as difference:
            failed += 1
            print(f"seed {seed}: {difference}\n", file=sys.stderr, flush=True)
        if number % 25 == 0:
            print(
                f"{machines.counts['kernels']} kernels, {failed} failed, {perf_counter() - start:.0f} s",
                flush=True,
            )
    print(f"{machines.counts['kernels']} kernels, {failed} programs failed, {perf_counter() - start:.0f} s")
    for name, count in machines.counts.most_common():
        print(f"{count:8d}  {name}")
    machines.close()
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
