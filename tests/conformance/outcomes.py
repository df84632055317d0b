"""What became of each test and each example in one run, and how two runs compare.

Decides what counts as the same test in both runs, and what the virtual device owes: every test that passes
natively, with no exception. One that skips itself there is missing like one that fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from vdev.start import engines

#: Tests that take longest without showing more than their neighbours; `--select` leaves them out.
SLOW = (
    "test_bitonic_argsort", "test_bitwise", "test_clrandom_dtypes", "test_divide_scalar", "test_dot",
    "test_index_preservation", "test_mix_complex", "test_random_float_in_range",
    "test_reduction_nan_handling", "test_segmented_scan", "test_threaded_nanny_events",
    "test_zeros_large_array",
)  # fmt: skip
#: Rehearsed natively with this many seconds; an example that needs more is left out.
EXAMPLE_SECONDS = 60
TEST_SECONDS = 3600
#: Ids and messages hold the device's name, which differs.
#: Where there are several native devices, pytest numbers what they have in common.
_DEVICE = re.compile(r"<context factory for <pyopencl\.Device .*?>>\d*|<pyopencl\.(Device|Platform) .*?>\d*")


@dataclass(frozen=True)
class Outcome:
    """How one test ended: 'passed', 'failed', 'skipped' or 'missing', and why."""

    result: str
    reason: str = ""

    @property
    def passed(self) -> bool:
        return self.result == "passed"


@dataclass(frozen=True)
class Comparison:
    """Names of tests by what the virtual run makes of those that pass natively."""

    passing: tuple[str, ...]
    missing: tuple[str, ...]


def environment(workers: int | str | None, min_items: int | None = None) -> dict[str, str]:
    """The environment for a native run (None) or a virtual one, on the engine that OCL_ICD_VENDORS names, else
    on the one that vdev would choose. `workers`: a number of CPU workers, or what VDEV_WORKERS says."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    engines.register_engines()
    environ[engines.VARIABLE] = os.environ.get(engines.VARIABLE, "")
    environ |= {"PYOPENCL_CTX": "0", "MPLBACKEND": "Agg", "PYTHONFAULTHANDLER": "1"}
    if workers is not None:
        environ |= {
            "VDEV": "1",
            "VDEV_WORKERS": f"cpu:{workers}" if isinstance(workers, int) else workers,
            "VDEV_PLANNING": "always",
        }
        if min_items is not None:
            environ["VDEV_MIN_ITEMS"] = str(min_items)
    return environ


def run_tests(
    folder: Path,
    workers: int | str | None,
    *,
    select: bool = False,
    min_items: int | None = None,
    only: Iterable[str] = (),
    jobs: int = 1,
) -> dict[str, Outcome]:
    """PyOpenCL's tests in `folder`, by name. `only`: those of functions and modules called like these, if there are any. `jobs`: so
    many of its files at a time.
    """
    if jobs == 1:
        return _run_tests(folder, ".", workers, select, min_items, only)

    def run(name: str) -> dict[str, Outcome]:
        return _run_tests(folder, name, workers, select, min_items, only)

    names = sorted(path.name for path in folder.glob("test_*.py"))
    with ThreadPoolExecutor(jobs) as pool:
        return {test: outcome for found in pool.map(run, names) for test, outcome in found.items()}


def _run_tests(
    folder: Path,
    what: str,
    workers: int | str | None,
    select: bool,
    min_items: int | None,
    only: Iterable[str],
) -> dict[str, Outcome]:
    """The tests of one file, or of all."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command += [f"--rootdir={folder}", "-c", os.devnull, "--continue-on-collection-errors"]
        wanted = [f"not {name}" for name in SLOW if select]
        if only:
            wanted.append(f"({' or '.join(sorted(only))})")
        if wanted:
            command += ["-k", " and ".join(wanted)]
        environ = environment(workers, min_items) | {"XDG_CACHE_HOME": str(Path(scratch, "cache"))}
        with Path(scratch, "log").open("w+") as log:
            done = subprocess.run(
                [*command, what],
                cwd=folder,
                env=environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=TEST_SECONDS,
                check=False,
            )
            if not report.exists():
                log.seek(0)
                raise RuntimeError(
                    f"pytest ended with {done.returncode} and no report:\n{log.read()[-4000:]}"
                )
        return read_report(report)


def read_report(path: Path) -> dict[str, Outcome]:
    """Outcomes from a junit report; tests that differ in nothing but the device are one, which passes if all do."""
    found: dict[str, Outcome] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = _DEVICE.sub("device", f"{case.get('classname')}::{case.get('name')}")
        if name not in found or found[name].passed:
            found[name] = _outcome(case)
    return found


def _outcome(case: ElementTree.Element) -> Outcome:
    for child in case:
        if child.tag in ("failure", "error", "skipped"):
            reason = child.get("message") or ""
            if child.get("type") == "pytest.xfail":
                return Outcome("skipped", f"expected failure: {reason}")
            return Outcome("skipped" if child.tag == "skipped" else "failed", reason)
    return Outcome("passed")


def run_examples(
    folder: Path, workers: int | str | None, names: Iterable[str] | None = None
) -> dict[str, Outcome]:
    """PyOpenCL's examples in `folder`, or those of `names`, each in a copy of the folder and without a
    terminal."""
    wanted = sorted(path.name for path in folder.glob("*.py")) if names is None else sorted(names)
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(folder, Path(scratch, "examples"))
        environ = environment(workers) | {"XDG_CACHE_HOME": str(Path(scratch, "cache"))}
        return {name: _run_example(copy, name, environ, 1 if workers is None else 3) for name in wanted}


def _run_example(folder: Path, name: str, environ: Mapping[str, str], patience: int) -> Outcome:
    started = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, name], cwd=folder, env=dict(environ), stdin=subprocess.DEVNULL, text=True,
            errors="replace", capture_output=True, timeout=patience * EXAMPLE_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome("failed", f"not done after {time.monotonic() - started:.0f} s")
    if done.returncode == 0:
        return Outcome("passed")
    last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
    return Outcome("failed", last)


def functions_behind(virtual: Mapping[str, Outcome]) -> set[str]:
    """The functions with tests that did not pass on the virtual device, and modules that could not be collected: what passes
    there owes nothing, however it ends natively.
    """
    behind = (name for name, outcome in virtual.items() if not outcome.passed)
    return {name.rpartition("::")[2].partition("[")[0] for name in behind}


def compare(native: Mapping[str, Outcome], virtual: Mapping[str, Outcome]) -> Comparison:
    """What the virtual run owes to the native one, by the rule at the top."""
    owed = [name for name, outcome in native.items() if outcome.passed]
    behind = [name for name in owed if not virtual.get(name, Outcome("missing")).passed]
    return Comparison(tuple(name for name in owed if name not in behind), tuple(behind))
