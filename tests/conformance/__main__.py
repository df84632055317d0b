"""`python -m tests.conformance`: PyOpenCL's own tests, natively and on the virtual device.

Fetches PyOpenCL's source package for the installed version, runs its tests on the CPU engine natively and
then under VDEV=1 with each number of workers, and lists every test that passes natively and does not pass
virtually. `--examples` does the same with PyOpenCL's examples: those that end by themselves without a
screen and with status 0 natively have to virtually. The exit status is 0 where nothing is listed. `--engine`
names another driver than the one vdev would choose. On GPUs: `--engine FOLDER --workers cuda:0,cuda:0-1`, where
FOLDER has the .icd file of the native driver.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tests.conformance.outcomes import Comparison, Outcome, compare, run_examples, run_tests
from tests.conformance.source import fetch
from vdev.start import engines

Runner = Callable[[int | str | None], Mapping[str, Outcome]]


def check(title: str, run: Runner, counts: Sequence[int | str]) -> bool:
    """Run natively and with each number of workers, and say what came of it; whether nothing is missing."""
    native = _timed(f"{title}, natively", run, None)
    complete = True
    for workers in counts:
        named = f"workers {workers}" if isinstance(workers, str) else f"{workers} worker{'s' * (workers > 1)}"
        virtual = _timed(f"{title}, {named}", run, workers)
        comparison = compare(native, virtual)
        _print(comparison, virtual)
        complete = complete and not comparison.missing
    return complete


def _timed(title: str, run: Runner, workers: int | str | None) -> Mapping[str, Outcome]:
    started = time.monotonic()
    outcomes = run(workers)
    counts = Counter(outcome.result for outcome in outcomes.values())
    summary = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
    print(f"{title}: {summary} ({time.monotonic() - started:.0f} s)", flush=True)
    return outcomes


def _print(comparison: Comparison, virtual: Mapping[str, Outcome]) -> None:
    passing, missing = comparison.passing, comparison.missing
    print(f"  of those that pass natively {len(passing)} pass, {len(missing)} are missing")
    for name in missing:
        outcome = virtual.get(name, Outcome("missing"))
        print(f"  MISSING: {name}: {outcome.result}: {outcome.reason.strip().splitlines()[:1]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "--workers",
        default="1,2,3,8",
        help="numbers of CPU workers, or workers: cuda:0,cuda:0-1 (default: %(default)s)",
    )
    parser.add_argument("--select", action="store_true", help="without the slowest tests, as CI has it")
    parser.add_argument("--jobs", type=int, default=1, help="files of tests at a time (default: %(default)s)")
    parser.add_argument("--examples", action="store_true", help="PyOpenCL's examples instead of its tests")
    parser.add_argument(
        "--engine", help="a driver's library, its .icd file or a folder of these, for both runs"
    )
    parser.add_argument("--min-items", type=int, help="VDEV_MIN_ITEMS of the virtual runs")
    options = parser.parse_args()
    if options.engine:
        os.environ[engines.VARIABLE] = options.engine
    counts = [int(text) if text.isdigit() else text for text in options.workers.split(",")]
    folder = fetch()
    if not options.examples:
        given = {"select": options.select, "min_items": options.min_items, "jobs": options.jobs}
        done = check("tests", lambda n: run_tests(folder / "test", n, **given), counts)
        return 0 if done else 1
    running = [name for name, outcome in run_examples(folder / "examples", None).items() if outcome.passed]
    done = check("examples", lambda n: run_examples(folder / "examples", n, running), counts)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
