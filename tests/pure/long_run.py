"""Compare analysed ranges with brute force on many random kernels: `python -m tests.pure.long_run [kernels]
[first seed]`."""

from __future__ import annotations

import random
import sys
from collections import Counter
from time import perf_counter

from .fuzzing import Mismatch, one_round


def main(kernels: int = 10_000, first: int = 0) -> int:
    """Returns the number of kernels on which analysis and brute force disagree."""
    total: Counter[str] = Counter()
    failed = 0
    start = perf_counter()
    for seed in range(first, first + kernels):
        try:
            total += one_round(random.Random(seed))
        except Mismatch as mismatch:
            failed += 1
            print(f"seed {seed}: {mismatch}\n", file=sys.stderr)
        if (seed + 1 - first) % 1000 == 0:
            print(f"{seed + 1 - first} kernels, {failed} failed, {perf_counter() - start:.0f} s", flush=True)
    print(f"{kernels} kernels, {failed} failed, {perf_counter() - start:.0f} s")
    for name, count in total.most_common():
        print(f"{count:8d}  {name}")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
