"""What the samples share: the command line, a queue, the stop-watch, and the check of a result.

Decides how a sample reports; never what it computes. Used by every sample beside it as ``import common``.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

Array = npt.NDArray[Any]
MOST_DRAWN = 6_700_417  # random numbers that are drawn for one array; odd, and not near to a power of two


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
    finish(queue)
    start = time.perf_counter()
    yield
    finish(queue)
    seconds = time.perf_counter() - start
    rate = f", {count / seconds:.3g} {unit} a second" if count else ""
    print(f"  {what}: {seconds:.3f} s{rate}")


@dataclass(frozen=True)
class Job:
    """What a sample has a device do, in the steps of every OpenCL program.

    Each step may be repeated. `upload` makes buffers and enqueues the writes of the inputs, `launch` enqueues
    the kernels on these buffers, `download` reads results and returns them as arrays, complete.
    """

    queue: cl.CommandQueue
    upload: Callable[[], Any]
    launch: Callable[[Any], None]
    download: Callable[[Any], Any]
    #: launches of single kernels, by name, for those who want their times; they may spoil the results
    parts: Mapping[str, Callable[[Any], None]] = field(default_factory=dict)


#: Runs a job in place of `run` where somebody wants more of it than its results.
measured_by: Callable[[Job], Any] | None = None
#: Whether `write` has a buffer copy its array when it is made, in place of enqueueing a write.
copies_when_made = False
_writes: list[cl.Event] = []  # an event of a write that is let go waits for the write


def run(job: Job, what: str, *, count: float = 0, unit: str = "") -> Any:
    """Run the job once, print how long its launches take, and return its results."""
    if measured_by is not None:
        return measured_by(job)
    buffers = job.upload()
    with timed(job.queue, what, count=count, unit=unit):
        job.launch(buffers)
    return finished(job, buffers)


def finished(job: Job, buffers: Any) -> Any:
    """The job's results, with all writes done."""
    results = job.download(buffers)
    finish(job.queue)
    return results


def finish(queue: cl.CommandQueue) -> None:
    """Wait for all that is enqueued, and let the events of writes go."""
    queue.finish()
    _writes.clear()


def write(queue: cl.CommandQueue, array: Array, *, kept: bool = False) -> cl.Buffer:
    """A buffer to which a write of the array is enqueued; kernels may write to it too where it is `kept`.

    The array must not change until the queue is finished.
    """
    flags = cl.mem_flags.READ_WRITE if kept else cl.mem_flags.READ_ONLY
    if copies_when_made:
        return cl.Buffer(queue.context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
    buffer = cl.Buffer(queue.context, flags, array.nbytes)
    rewrite(queue, buffer, array)
    return buffer


def rewrite(queue: cl.CommandQueue, buffer: cl.Buffer, array: Array) -> None:
    """Enqueue a write of the array, which must not change until the queue is finished, to a buffer's beginning."""
    _writes.append(cl.enqueue_copy(queue, buffer, array, is_blocking=False))


def room(queue: cl.CommandQueue, nbytes: int) -> cl.Buffer:
    """A buffer for what kernels compute."""
    return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, nbytes)


def random(seed: int, *shape: int) -> Array:
    """Numbers from 0 to 1, float32, quickly: far into a large array they repeat, at no even distance."""
    size = math.prod(shape)
    drawn = np.random.default_rng(seed).random(min(size, MOST_DRAWN), np.float32)
    return repeated(drawn, size).reshape(shape)


def repeated(values: Array, size: int) -> Array:
    """The values again and again until there are `size` of them, copied by several threads."""
    if size == len(values):
        return values
    result = np.empty(size, values.dtype)

    def fill(start: int) -> None:
        part = result[start : start + len(values)]
        part[:] = values[: len(part)]

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(fill, range(0, size, len(values))))
    return result


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
    drawn.sort()
    different: npt.NDArray[np.int64] = drawn[np.diff(drawn, prepend=-1) > 0]
    return different


def rounding(terms: int) -> float:
    """The tolerance for sums of so many terms, one after the other in single precision."""
    return max(1e-5, 4e-7 * math.sqrt(terms))


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
