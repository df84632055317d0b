"""How long the analysis of real kernels takes: `python -m tests.cpu.analysis_times`.

Runs all samples, and PyOpenCL's own tests for the kernels that PyOpenCL generates (`--samples-only` leaves
them out), on the virtual device, and collects what `vdev.session.programs` logs of each kernel it analyses. Prints
median and longest time and the slowest kernels; the exit status is 0 where the median is under 50 ms and
none takes 2 s.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conformance.source import fetch
from tests.cpu.test_samples import ARGUMENTS, SAMPLES

MEDIAN_MS, LONGEST_MS = 50.0, 2000.0
_LINE = re.compile(r"analysis of kernel (\S+): ([0-9.]+) ms")


def times_of(command: list[str], folder: Path) -> list[tuple[float, str]]:
    """(milliseconds, kernel) of every kernel that `command` has analysed."""
    switches = {"VDEV": "1", "VDEV_WORKERS": "cpu:2", "VDEV_LOG": "debug", "VDEV_MIN_ITEMS": "0"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | switches,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return [(float(ms), name) for name, ms in _LINE.findall(done.stderr)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cpu.analysis_times", description=__doc__)
    parser.add_argument("--samples-only", action="store_true", help="without PyOpenCL's generated kernels")
    options = parser.parse_args()
    found: list[tuple[float, str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, arguments in ARGUMENTS.items():
            found += times_of(
                [sys.executable, str(SAMPLES / f"{name}.py"), *arguments.split()], Path(scratch)
            )
    print(f"samples: {len(found)} kernels")
    if not options.samples_only:
        suite = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "."]
        generated = times_of(suite, fetch() / "test")
        print(f"PyOpenCL's tests: {len(generated)} kernels")
        found += generated
    found.sort(reverse=True)
    for ms, name in found[:10]:
        print(f"{ms:9.2f} ms  {name}")
    if not found:
        print("no kernel was analysed")
        return 1
    median, longest = statistics.median(ms for ms, _ in found), found[0][0]
    print(f"{len(found)} kernels: median {median:.2f} ms, longest {longest:.2f} ms")
    return 0 if median < MEDIAN_MS and longest < LONGEST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
