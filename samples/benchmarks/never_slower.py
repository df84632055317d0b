"""Programs of many shapes, natively and on 1, 2, 4 ... workers: none may be slower than natively.

    python samples/benchmarks/never_slower.py [--preset small|large] [--only NAME,...] [--workers 1,2,4] [--json FILE]

Rows are samples, and the programs of `planning_programs` that are hard to plan for (their times are of kernels alone). Each
column is a process; in it each row runs `--runs` times from plain arrays to results (`first`, and `whole`, the best), and
then its kernels alone on resident data (`kernels`, the best). Results are compared with native ones; `--check` has the
samples check themselves as well. A row that fails, or takes longer than `--limit`, does not stop the others: the column continues after it
in a new process. A column ends after `--budget` seconds. With `--turns`, each column has so many processes, by turns, and a row's times are
the best of them: which core a process comes to run on, and what else runs there, lasts as long as the process.
On the virtual device: seconds that the model of time predicted over
those measured, and how many launches ran on several workers.

With `--seconds S`, first runs of at least so long are what counts: natively a row's launches are repeated in one run, and waited for each
time, until they have taken so long; everywhere else as often. Each row has a process of its own in each column, where nothing is kept from
earlier ones, on disk either. `kernels` is then the best of those rounds, the bar is that of what trying may lose, and nothing is checked.

Decides sizes and how rows are timed; the samples decide the rest.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import queue as queues
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import planning_programs  # noqa: E402
import pyopencl as cl  # noqa: E402
from measure import arrays_in, difference, digest_of  # noqa: E402

PRESETS = "small", "large"
#: what begins a line of a column's process that tells of a row: which one is next, and what was found
NEXT, FOUND = "@next ", "@found "
#: of native speed that every row must reach
WANTED = 0.97
#: of native speed that a row's first run must reach which is long (`--seconds`)
WANTED_FIRST = 0.9
#: of the launches over 100 us that must take what was predicted, within a quarter
CLOSE = 0.9
#: seconds that kernels on resident data take in all
RESIDENT_SECONDS, MOST_RESIDENT = 0.6, 12


@dataclass(frozen=True)
class Row:
    """A program: a sample with its arguments for GPUs and for a small machine, or one of `planning_programs`.

    `bars`: speed-ups over native that it must reach, by workers, beside what all must. `strays`: the part of the results that may
    be anything, where rounding decides on some of them. `sample`: where it has another name than the row.
    """

    name: str
    large: str = ""
    small: str = ""
    tolerance: float = 1e-4
    bars: tuple[tuple[int, float], ...] = ()
    strays: float = 0.0
    sample: str = ""

    @property
    def planned(self) -> bool:
        """It is one of `planning_programs`."""
        return not self.small

    def arguments(self, preset: str) -> list[str]:
        return (self.large if preset == "large" else self.small).split()


ROWS = (
    Row(
        "conjugate_gradient", "--size 2048 --iterations 100", "--size 256 --iterations 40", 5e-2, ((4, 1.2),)
    ),
    Row("page_rank", "--size 4194304 --steps 40", "--size 65536 --steps 20", bars=((4, 2.0),)),
    Row(
        "page_rank_large",
        "--size 16777216 --steps 20",
        "--size 131072 --steps 10",
        bars=((4, 2.0),),
        sample="page_rank",
    ),
    Row("breadth_first_search", "--size 8388608", "--size 131072", 0.0),
    Row("k_means", "--size 67108864 --steps 20", "--size 262144 --steps 10", bars=((4, 2.5),)),
    Row(
        "k_means_64",
        "--size 67108864 --clusters 64 --steps 20",
        "--size 262144 --clusters 64 --steps 5",
        bars=((4, 2.5),),
        sample="k_means",
    ),
    Row("histogram", "--size 134217728 --runs 20", "--size 2097152 --runs 5", 0.0, ((4, 2.8),)),
    Row("option_arrays", "--size 67108864 --steps 200", "--size 131072 --steps 20", bars=((4, 3.5),)),
    Row("fill_and_sum", "--size 536870912 --rounds 40", "--size 2097152 --rounds 10", bars=((4, 3.6),)),
    Row(
        "mandelbrot",
        "--size 8192 --most 2000 --pictures 10",
        "--size 256 --pictures 4",
        bars=((4, 3.6),),
        strays=0.01,
    ),
    Row("triangular", "--size 40960 --runs 100", "--size 1500 --runs 20", bars=((4, 3.6),)),
    Row("particle_binning", "--size 16777216 --steps 10", "--size 131072 --steps 5", 0.0),
    Row("scan_sort_compact", "--size 8388608", "--size 65536", 0.0),
    Row("stencil_3d", "--size 1024 --steps 60", "--size 96 --steps 10", 1e-5, ((4, 3.4),)),
    Row("kernel_chain", "--size 1048576 --rounds 5", "--size 16384 --rounds 1", 0.0),
    Row("out_of_order", "--size 4194304 --steps 100", "--size 65536 --steps 40", 1e-3),
    *(
        Row(name, tolerance=2e-3)
        for name in (
            "small_steps",
            "multigrid",
            "particles",
            "wavefront",
            "lu",
            "fields_3d",
            "wavelet",
            "receivers",
        )
    ),
)


class Measured(Exception):
    """All is measured: what a sample would check now is not looked at."""


class Timing:
    """Times jobs in place of `common.run`, and keeps what it found of one."""

    def __init__(self, runs: int, checked: bool) -> None:
        self.runs = runs
        self.checked = checked
        self.found: dict[str, Any] = {}

    def __call__(self, job: common.Job) -> Any:
        times, results, buffers = [], None, None
        for _ in range(self.runs):
            common.finish(job.queue)
            began = time.perf_counter()
            buffers = job.upload()
            job.launch(buffers)
            results = common.finished(job, buffers)
            times.append(time.perf_counter() - began)
        self.found = {"first": times[0], "whole": min(times)}
        self.found["digest"] = {key: value.tolist() for key, value in digest_of(results).items()}
        held = list(arrays_in(results)) if self.checked else []
        kept = [array.copy() for array in held]
        if buffers is not None:
            self.found["kernels"] = _resident(job, buffers)
        buffers = None
        if not self.checked:
            raise Measured
        for array, values in zip(held, kept, strict=True):  # launches on resident data go on from there
            array[...] = values
        return results


class LongRun:
    """Times one run of a job, whose launches are repeated in it, in place of `common.run`."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.found: dict[str, Any] = {}

    def __call__(self, job: common.Job) -> Any:
        common.finish(job.queue)
        began = time.perf_counter()
        buffers = job.upload()

        def launch() -> float:
            started = time.perf_counter()
            job.launch(buffers)
            common.finish(job.queue)
            return time.perf_counter() - started

        times = repeated(self.options, launch)
        results = common.finished(job, buffers)
        self.found = _long(time.perf_counter() - began, times, results)
        raise Measured


def repeated(options: argparse.Namespace, launch: Callable[[], float]) -> list[float]:
    """What each of `options.rounds` rounds took that `launch` makes, or, where that is 0, of as many as take `options.seconds`."""
    times: list[float] = []
    while len(times) < options.rounds if options.rounds else sum(times) < options.seconds:
        times.append(launch())
    return times


def _long(first: float, times: list[float], results: Any) -> dict[str, Any]:
    """The figures of a first run of several rounds."""
    digest = {key: value.tolist() for key, value in digest_of(results).items()}
    return {"first": first, "whole": first, "kernels": min(times), "rounds": len(times), "digest": digest}


def _resident(job: common.Job, buffers: Any) -> float:
    """The best of some launches on resident data, in seconds."""
    times: list[float] = []
    while not times or (sum(times) + times[-1] <= RESIDENT_SECONDS and len(times) < MOST_RESIDENT):
        common.finish(job.queue)
        began = time.perf_counter()
        job.launch(buffers)
        common.finish(job.queue)
        times.append(time.perf_counter() - began)
    return min(times)


# one column, in a process of its own ---------------------------------------------------------------


def measure_rows(options: argparse.Namespace) -> None:
    """Measure the rows in the environment of this process, and tell of each."""
    context, queue = common.open_queue()
    for row in chosen(options):
        print(NEXT + row.name, flush=True)
        before = _counted()
        try:
            found = (_planned_row if row.planned else _sample_row)(row, options, context, queue)
        except Exception as error:  # a row that fails stops no other, whatever it is
            found = {"failed": f"{type(error).__name__}: {error}"[:500]}
        gc.collect()
        print(FOUND + json.dumps(found | _modelled(before)), flush=True)


def _sample_row(row: Row, options: argparse.Namespace, context: Any, queue: Any) -> dict[str, Any]:
    timing = LongRun(options) if options.seconds else Timing(options.runs, options.check)
    common.measured_by = timing
    sys.argv = [row.name, *row.arguments(options.preset)]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            __import__(row.sample or row.name).main()
        except Measured:
            return timing.found
        except SystemExit as end:
            return {"failed": str(end)}
    return timing.found | {"checks": said.getvalue().count("check ok")}


def _planned_row(row: Row, options: argparse.Namespace, context: Any, queue: Any) -> dict[str, Any]:
    program, sizes = planning_programs.PROGRAMS[row.name]
    results: list[Any] = []

    def launch() -> float:
        bench = planning_programs.Bench(context, queue, *sizes[options.preset])
        steps = program(bench)
        next(steps)
        queue.finish()
        began = time.perf_counter()
        for _ in steps:
            pass
        queue.finish()
        took = time.perf_counter() - began
        if not results:
            results.extend(_read(queue, *item) for item in bench.results)
        del bench, steps
        gc.collect()
        return took

    if options.seconds:
        times = repeated(options, launch)
        return _long(sum(times), times, results)
    times = [launch() for _ in range(options.runs)]
    digest = {key: value.tolist() for key, value in digest_of(results).items()}
    return {"first": times[0], "whole": min(times), "kernels": min(times), "digest": digest}


def _read(queue: Any, buffer: Any, kind: Any) -> Any:
    array = np.empty(buffer.size // np.dtype(kind).itemsize, kind)
    cl.enqueue_copy(queue, array, buffer)
    return array


def _stats() -> Any:
    """The virtual device's figures; None natively."""
    if "vdev.session.session" not in sys.modules:
        return None
    import vdev

    return vdev.stats()


def _counted() -> dict[tuple[str, int], tuple[int, int]]:
    """By kernel: launches so far, and how many of them were split."""
    found = _stats()
    if found is None:
        return {}
    return {(each.name, each.program): (each.launches, each.split) for each in found.kernels}


def _modelled(before: dict[tuple[str, int], tuple[int, int]]) -> dict[str, Any]:
    """What was done since `before`: launches, those that were split, and what the model of time says of the kernels."""
    stats = _stats()
    if stats is None:
        return {}
    launches = split = 0
    kernels = {}
    for each in stats.kernels:
        then = before.get((each.name, each.program), (0, 0))
        if each.launches > then[0]:
            launches += each.launches - then[0]
            split += each.split - then[1]
            ways = getattr(each, "ways", ())
            kernels[each.name] = [
                {
                    "workers": way.workers,
                    "launches": way.launches,
                    "predicted": way.predicted,
                    "measured": way.measured,
                    "judged": way.judged,
                    "close": way.close,
                    "reason": way.reason,
                }
                for way in ways
            ]
    return {"launches": launches, "split": split, "kernels_ways": kernels}


# all columns ----------------------------------------------------------------------------------------


def measured_in_turn(
    options: argparse.Namespace, kind: str, rounds: dict[str, int]
) -> Iterable[tuple[str, columns.Figures]]:
    """The figures of each column, by its name."""
    if options.seconds:
        return measure_first_runs(options, kind, rounds).items()
    wanted = None, *machine.counts_of(options)
    return [(_named(workers), measure_column(options, kind, workers)) for workers in wanted]


def measure_column(options: argparse.Namespace, kind: str, workers: int | None) -> columns.Figures:
    """What was found of all rows in one column: in one process, or in several where some of them end early."""
    rows: dict[str, Any] = {}
    left = [row.name for row in chosen(options)]
    began = time.perf_counter()
    while left:
        ends = began + options.budget
        if time.perf_counter() > ends:
            rows |= {name: {"failed": "not run: the column's time is up"} for name in left}
            break
        found = _process(options, kind, workers, left, ends)
        if not found:
            found = {left[0]: {"failed": "the process ended before any row"}}
        rows |= found
        left = [name for name in left if name not in rows]
    return {"rows": rows, "seconds": time.perf_counter() - began}


def measure_first_runs(
    options: argparse.Namespace, kind: str, rounds: dict[str, int]
) -> dict[str, columns.Figures]:
    """What was found of long first runs by column, each row's natively first.

    `rounds`: how many a row's run has, once that is known. Ends after `options.budget` seconds for each column.
    """
    wanted = None, *machine.counts_of(options)
    found: dict[str, columns.Figures] = {_named(workers): {"rows": {}, "seconds": 0.0} for workers in wanted}
    ends = time.perf_counter() + options.budget * len(wanted)
    for row in chosen(options):
        for workers in wanted:
            options.rounds = rounds.get(row.name, 0)
            began, figures = time.perf_counter(), found[_named(workers)]
            if began > ends or not (workers is None or options.rounds):
                figures["rows"][row.name] = {"failed": "not run: the time is up, or natively it failed"}
                continue
            with tempfile.TemporaryDirectory() as kept:
                figures["rows"] |= _process(options, kind, workers, [row.name], ends, _keeping_in(kept))
            figures["seconds"] += time.perf_counter() - began
            rounds.setdefault(row.name, figures["rows"][row.name].get("rounds", 0))
    return found


def _named(workers: int | None) -> str:
    return machine.NATIVE if workers is None else str(workers)


def _keeping_in(folder: str) -> dict[str, str]:
    """Variables that have everybody keep compiled kernels in a folder, or not at all."""
    return {"VDEV_CACHE_DIR": folder, "CUDA_CACHE_PATH": folder, "PYOPENCL_NO_CACHE": "1"}


def _process(
    options: argparse.Namespace,
    kind: str,
    workers: int | None,
    names: list[str],
    ends: float,
    variables: dict[str, str] | None = None,
) -> dict[str, Any]:
    """What one process, whose environment has these `variables` too, found until it ended, or was ended because of a row."""
    command = [sys.executable, sys.argv[0], "--part", "--kind", kind, "--only", ",".join(names)]
    command += ["--preset", options.preset, "--runs", str(options.runs), *["--check"] * options.check]
    command += ["--seconds", str(options.seconds), "--rounds", str(options.rounds)]
    environment = machine.environment(kind, workers, options.native) | (variables or {})
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        command, env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert child.stdout is not None
    lines: queues.Queue[str | None] = queues.Queue()
    threading.Thread(target=_forward, args=(child.stdout, lines), daemon=True).start()
    found: dict[str, Any] = {}
    current, said, failed = names[0], "", ""
    due = time.perf_counter() + options.limit
    while True:
        try:
            line = lines.get(timeout=max(min(due, ends) - time.perf_counter(), 0.01))
        except queues.Empty:
            failed = f"not done in {options.limit:.0f} s" if due <= ends else "the column's time is up"
            break
        if line is None:
            break
        if line.startswith(NEXT):
            current, due = line[len(NEXT) :].strip(), time.perf_counter() + options.limit
        elif line.startswith(FOUND):
            found[current] = json.loads(line[len(FOUND) :])
            _tell(workers, current, found[current])
        else:
            said = (said + line)[-1500:]
    child.kill()
    status = child.wait()
    if current not in found:
        found[current] = {"failed": failed or f"ended with status {status}: {said.strip()}"}
        _tell(workers, current, found[current])
    return found


def _forward(stream: IO[str], lines: queues.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _tell(workers: int | None, name: str, found: dict[str, Any]) -> None:
    what = found.get("failed") or f"{found['whole']:.4f} s, kernels {found['kernels']:.4f} s"
    print(f"{_named(workers)} {name}: {what}", flush=True)


# results --------------------------------------------------------------------------------------------


def compared(
    options: argparse.Namespace, found: dict[str, columns.Figures]
) -> tuple[list[str], list[columns.Figures]]:
    """The table and the bars; results that differ from native ones are noted in `found`."""
    native = found.get(machine.NATIVE, {}).get("rows", {})
    head = ("workers", "whole s", "of native", "first", "kernels s", "of native", "split", "predicted")
    lines = ["row".ljust(22) + "".join(name.rjust(11) for name in head)]
    bars: list[columns.Figures] = []
    for row in chosen(options):
        base = native.get(row.name, {})
        for column, figures in found.items():
            own = figures["rows"].get(row.name, {"failed": "not run"})
            if "failed" in own:
                lines.append(f"{row.name:22s}{column:>11s}  FAILED: {own['failed']}")
                continue
            own["correct"] = _agrees(row, own, base)
            lines.append(_line(row, column, own, base))
            if column != machine.NATIVE:
                bars += _bars(row, column, own, base)
    for column, figures in found.items():
        for own in figures["rows"].values():  # of no use to anybody later
            own.pop("digest", None)
        judged, close = _foretold(figures["rows"].values())
        if judged:
            lines.append(
                f"{column} workers: {close} of {judged} sampled launches over 100 us within a quarter"
            )
            bars.append(columns.least(f"{column}: launches within a quarter", close / judged, CLOSE))
    return lines, bars


def _foretold(rows: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """Of a column's launches over 100 us that were measured: those of which something was predicted, and how many of them took what was
    predicted, within a quarter.
    """
    ways = [way for own in rows for ways in own.get("kernels_ways", {}).values() for way in ways]
    return sum(way["judged"] for way in ways), sum(way["close"] for way in ways)


def _agrees(row: Row, own: dict[str, Any], base: dict[str, Any]) -> bool | None:
    """Whether results agree with native ones; None where there are none."""
    if "digest" not in base or "digest" not in own:
        return None
    arrays = [{key: np.array(value) for key, value in each["digest"].items()} for each in (own, base)]
    if row.strays:
        return _strays(*arrays) <= row.strays
    return difference(*arrays) <= row.tolerance


def _strays(digest: dict[str, Any], expected: dict[str, Any]) -> float:
    """The largest part of the values of any array that differ at all; infinite where they are not of the same results."""
    if {key: values.shape for key, values in digest.items()} != {
        key: values.shape for key, values in expected.items()
    }:
        return float("inf")
    elements = [key for key in expected if key.startswith("elements")]
    return max(float(np.mean(digest[key] != expected[key])) for key in elements)


def _speed_up(own: dict[str, Any], base: dict[str, Any], what: str) -> float | None:
    return columns.quotient(base.get(what), own.get(what))


def _bars(row: Row, column: str, own: dict[str, Any], base: dict[str, Any]) -> list[columns.Figures]:
    whole = _speed_up(own, base, "whole")
    if "rounds" in own:
        name = f"{row.name}, {column}: first run, {own['rounds']} rounds"
        return [columns.least(name, whole, WANTED_FIRST)]
    bars = [columns.least(f"{row.name}, {column}: whole", whole, WANTED)]
    for workers, wanted in row.bars:
        if column == str(workers):
            bars.append(
                columns.least(f"{row.name}, {column}: kernels", _speed_up(own, base, "kernels"), wanted)
            )
    return bars


def _best(tries: list[columns.Figures]) -> columns.Figures:
    """Of one column's processes, each row's figures where the whole took least, with the least time of its kernels and that of the
    very first run.
    """
    rows = columns.best_of_each([each["rows"] for each in tries], lambda own: own["whole"])
    for name, own in rows.items():
        if "failed" not in own:
            own["first"] = tries[0]["rows"][name]["first"]
            own["kernels"] = min(each["rows"][name]["kernels"] for each in tries)
    return {"rows": rows, "seconds": sum(each["seconds"] for each in tries)}


def _line(row: Row, column: str, own: dict[str, Any], base: dict[str, Any]) -> str:
    def ratio(what: str) -> str:
        found = _speed_up(own, base, what)
        return f"{'' if found is None else f'{found:.2f}':>11s}"

    text = f"{row.name:22s}{column:>11s}{own['whole']:11.4f}{ratio('whole')}{ratio('first')}"
    text += f"{own['kernels']:11.4f}{ratio('kernels')}"
    if "launches" in own:
        text += f"{own['split']:6d}/{own['launches']:<6d}{_predicted(own)}"
    return text + ("  WRONG RESULT" if own["correct"] is False else "")


def _predicted(own: dict[str, Any]) -> str:
    """What was predicted for all launches over what they took, in per cent, of those of which both are known."""
    predicted = measured = 0.0
    for ways in own["kernels_ways"].values():
        for way in ways:
            if way["predicted"] and way["measured"]:
                predicted += way["predicted"] * way["launches"]
                measured += way["measured"] * way["launches"]
    return f"{100 * predicted / measured:7.0f} %" if measured else ""


def chosen(options: argparse.Namespace) -> list[Row]:
    return [row for row in ROWS if row.name in options.only]


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--preset", choices=PRESETS, help="sizes (default: large for cuda, else small)")
    everything = [row.name for row in ROWS]
    parser.add_argument(
        "--only", type=columns.names_among(everything), default=everything, help="rows by commas"
    )
    parser.add_argument("--runs", type=int, default=3, help="of each row (default: %(default)s)")
    parser.add_argument(
        "--turns", type=int, default=1, help="processes of each column (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="that first runs take at least, which are measured then"
    )
    parser.add_argument("--rounds", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=25, help="seconds of a row (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=75, help="seconds of a column (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="samples check themselves too")
    options = parser.parse_args()
    kind = machine.kind_of(options)
    options.preset = options.preset or ("large" if kind == "cuda" else "small")
    if options.part:
        measure_rows(options)
        return 0
    turns: dict[str, list[columns.Figures]] = {}
    rounds: dict[str, int] = {}
    for _ in range(options.turns):
        for name, figures in measured_in_turn(options, kind, rounds):
            turns.setdefault(name, []).append(figures)
    found = {name: _best(tries) for name, tries in turns.items()}
    lines, bars = compared(options, found)
    status = columns.conclude(options, found, lines, bars)
    bad = [
        f"{name}, {column}"
        for column, figures in found.items()
        for name, own in figures["rows"].items()
        if "failed" in own or own.get("correct") is False
    ]
    if bad:
        print("wrong or failed:", "; ".join(bad))
    return 1 if bad else status


if __name__ == "__main__":
    sys.exit(main())
