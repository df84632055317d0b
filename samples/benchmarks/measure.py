"""Runs one sample with its job timed, on the devices that the environment shows; what `run_all.py` starts for
each measurement.

    python samples/benchmarks/measure.py RESULT.json SAMPLE [arguments of the sample]

Three times are taken, after one complete run to warm up: of uploads, kernels and downloads together, from
plain arrays (`cold`); of each of these steps by itself, waiting after each (`steps`; their sum is one of the cold times too); and of
the kernels in a loop on resident data (`resident`, also for each of the job's parts). A digest of the results goes beside RESULT.json as
RESULT.npz. The sample's own checks run as usual. With `--gated` the process writes `@ready` once its inputs are
made, opens no device before it has read a line, and writes `@measured` when it has released all buffers.

Decides how a job is timed; never what it computes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402

COLD_RUNS, WARM_UPS, ROUNDS, MOST_LAUNCHES = 4, 3, 3, 2000
BLOCKS, DRAWN = 256, 1 << 16


class Measurement:
    """Times a job in place of `common.run`, and keeps what it found."""

    def __init__(self, seconds: float, released: Callable[[], None]) -> None:
        """`seconds`: about as long as the loops on resident data take, and half as long as the cold runs take together,
        of which the first follow on idle time: a GPU comes to its clock again in some tenths of a second.
        """
        self.found: dict[str, Any] = {}
        self.digest: dict[str, Any] = {}
        self._seconds = seconds
        self._released = released

    def __call__(self, job: common.Job) -> Any:
        self.found["device"] = job.queue.device.name.strip()
        self.found["first"], results = _complete(job)
        cold: list[float] = []
        self.found["cold"] = cold
        while len(cold) < COLD_RUNS and (not cold or sum(cold) + cold[-1] <= 2 * self._seconds):
            seconds, results = _complete(job)
            cold.append(seconds)
        self.found["steps"], buffers = _steps(job)
        cold.append(sum(self.found["steps"].values()))
        self.found["resident"] = {"all": self._looped(job, job.launch, buffers)}
        for name, part in job.parts.items():
            self.found["resident"][name] = self._looped(job, part, buffers)
        del buffers
        common.finish(job.queue)
        self._released()
        self.digest = digest_of(results)
        return results

    def _looped(self, job: common.Job, launch: Callable[[Any], None], buffers: Any) -> dict[str, Any]:
        """Seconds of one launch, as found in each of some rounds of many."""
        once = 0.0
        for _ in range(WARM_UPS):  # the first of a part may still place data and make plans
            if once < 2 * self._seconds:
                common.finish(job.queue)
                began = time.perf_counter()
                launch(buffers)
                common.finish(job.queue)
                once = time.perf_counter() - began
        launches = int(max(1, min(MOST_LAUNCHES, self._seconds / ROUNDS / once)))
        found: list[float] = [once] if launches == 1 else []
        while len(found) < ROUNDS and (
            not found or (len(found) + 1) * launches * once <= 1.5 * self._seconds
        ):
            began = time.perf_counter()
            for _ in range(launches):
                launch(buffers)
            common.finish(job.queue)
            found.append((time.perf_counter() - began) / launches)
        return {"launches": launches, "seconds": found}


def _complete(job: common.Job) -> tuple[float, Any]:
    """Seconds of all steps in a row, and the results. Letting the buffers go is not in the time."""
    common.finish(job.queue)
    began = time.perf_counter()
    buffers = job.upload()
    job.launch(buffers)
    results = common.finished(job, buffers)
    return time.perf_counter() - began, results


def _steps(job: common.Job) -> tuple[dict[str, float], Any]:
    """Seconds of each step of the job, and the buffers, with their data on the device."""
    found = {}
    common.finish(job.queue)
    began = time.perf_counter()
    buffers = job.upload()
    common.finish(job.queue)
    found["upload"] = time.perf_counter() - began
    began = time.perf_counter()
    job.launch(buffers)
    common.finish(job.queue)
    found["kernels"] = time.perf_counter() - began
    began = time.perf_counter()
    common.finished(job, buffers)
    found["download"] = time.perf_counter() - began
    return found, buffers


def arrays_in(results: Any) -> Iterator[common.Array]:
    """The arrays of a job's results, one after the other."""
    if isinstance(results, tuple | list):
        for item in results:
            yield from arrays_in(item)
    else:
        array = np.asarray(results).ravel("K")
        yield array.view(array.real.dtype) if np.iscomplexobj(array) else array


def digest_of(results: Any) -> dict[str, common.Array]:
    """Of each array the sums of some blocks that cover it, and some of its elements; float64."""
    digest = {}
    for number, array in enumerate(arrays_in(results)):
        blocks = np.array_split(array, min(BLOCKS, array.size))
        digest[f"means{number}"] = np.array([block.mean(dtype=np.float64) for block in blocks])
        digest[f"elements{number}"] = array[common.some(array.size, DRAWN)].astype(np.float64)
    return digest


def difference(digest: dict[str, common.Array], expected: dict[str, common.Array]) -> float:
    """The largest difference of two digests, each over the largest magnitude expected in its array.

    Infinite where they are not of the same results.
    """
    if digest.keys() != expected.keys():
        return float("inf")
    worst = 0.0
    for name, values in expected.items():
        if digest[name].shape != values.shape:
            return float("inf")
        scale = float(np.abs(expected[name.replace("means", "elements")]).max()) or 1.0
        found = float(np.abs(digest[name] - values).max()) / scale
        worst = max(worst, found if np.isfinite(found) else float("inf"))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("sample")
    parser.add_argument("--gated", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--copies-when-made", action="store_true", help="buffers copy their arrays when made")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="for each kind of time (default: %(default)s)"
    )
    options, arguments = parser.parse_known_args()
    began = time.perf_counter()

    def released() -> None:
        measurement.found["devices"] = time.perf_counter() - began - measurement.found["inputs"]
        if options.gated:
            print("@measured", flush=True)

    def gated_queue() -> Any:
        nonlocal began
        measurement.found["inputs"] = time.perf_counter() - began
        if options.gated:
            print("@ready", flush=True)
            if not sys.stdin.readline():
                sys.exit("who started this is gone")
        began = time.perf_counter() - measurement.found["inputs"]  # less the wait
        return open_queue()

    measurement = Measurement(options.seconds, released)
    open_queue, common.open_queue = common.open_queue, gated_queue
    common.measured_by = measurement
    common.copies_when_made = options.copies_when_made
    sys.argv = [options.sample, *arguments]
    try:
        __import__(options.sample).main()
        measurement.found["checks"] = "passed"
    except SystemExit as end:
        measurement.found["checks"] = str(end)
    found = measurement.found
    found["checking"] = time.perf_counter() - began - found.get("inputs", 0) - found.get("devices", 0)
    arrays: dict[str, Any] = measurement.digest
    np.savez(options.result.with_suffix(".npz"), **arrays)
    options.result.write_text(json.dumps(measurement.found) + "\n")
    if measurement.found["checks"] != "passed":
        sys.exit(measurement.found["checks"])


if __name__ == "__main__":
    main()
