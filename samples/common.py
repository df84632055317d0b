"""What the samples share: the command line, a queue, the stop-watch, and the check of a result.

Decides how a sample reports; never what it computes. Used by every sample beside it as ``import common``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

Array = npt.NDArray[Any]


def positive(text: str) -> int:
    """An integer of at least one, from the command line."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def power_of_two(text: str) -> int:
    """A power of two, from the command line."""
    number = positive(text)
    if number & (number - 1):
        raise argparse.ArgumentTypeError(f"{number} is not a power of two")
    return number


def parser(
    description: str | None, *, size: int, meaning: str, kind: Any = positive
) -> argparse.ArgumentParser:
    """A command line with ``--size``; `meaning` says what it counts, `kind` converts and validates it."""
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument(
        "--size", type=kind, default=size, metavar="N", help=f"{meaning} (default: %(default)s)"
    )
    return result


def open_queue() -> tuple[cl.Context, cl.CommandQueue]:
    """A context of the default device and an in-order queue on it."""
    context = cl.create_some_context(interactive=False)
    return context, cl.CommandQueue(context)


def announce(queue: cl.CommandQueue, job: str) -> None:
    """Print what is about to be computed, and where."""
    print(f"{Path(sys.argv[0]).stem}: {job} on {queue.device.name.strip()}")


@contextmanager
def timed(queue: cl.CommandQueue, what: str, *, count: float = 0, unit: str = "") -> Iterator[None]:
    """Print how long the commands enqueued inside take; `count` of `unit` done give the rate."""
    queue.finish()
    start = time.perf_counter()
    yield
    queue.finish()
    seconds = time.perf_counter() - start
    rate = f", {count / seconds:.3g} {unit} a second" if count else ""
    print(f"  {what}: {seconds:.3f} s{rate}")


def round_up(number: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is not below `number`."""
    return -(-number // multiple) * multiple


def some(number: int, most: int) -> npt.NDArray[np.int64]:
    """At most `most` of the indices below `number`, ascending.

    All of them where they are no more, else random ones with the first and the last among them.
    """
    if number <= most:
        return np.arange(number)
    drawn = np.random.default_rng(7).integers(0, number, most)
    drawn[:2] = 0, number - 1
    return np.unique(drawn)


def check(what: str, computed: Any, expected: Any, tolerance: float = 0.0) -> None:
    """Compare with the expected values and print the error found; end the program with status 1 on a failure.

    The error is the largest difference divided by the largest magnitude expected. A tolerance of zero asks
    for equal values. Values that are not finite, no values, or another shape than expected fail.
    """
    computed, expected = np.asarray(computed), np.asarray(expected)
    if computed.shape != expected.shape or not expected.size:
        sys.exit(f"check FAILED: {what}: shape {computed.shape}, expected {expected.shape}")
    if tolerance == 0.0:
        wrong = int(np.count_nonzero(computed != expected))
        verdict(wrong == 0, what, f"{wrong} of {expected.size} values differ")
    else:
        wide = np.result_type(computed, expected, np.float64)
        difference = np.abs(computed.astype(wide) - expected.astype(wide)).max()
        error = float(difference) / (float(np.abs(expected).max()) or 1.0)
        verdict(bool(error <= tolerance), what, f"relative error {error:.1e}, allowed {tolerance:.0e}")


def verdict(passed: bool, what: str, finding: str) -> None:
    """Print a check's outcome; end the program with status 1 if it did not pass."""
    if not passed:
        sys.exit(f"check FAILED: {what}: {finding}")
    print(f"check ok: {what}: {finding}")
