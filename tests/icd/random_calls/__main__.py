"""Random sequences of calls of OpenCL, natively and on the virtual device: the same errors, bytes, events and counts?

`python -m tests.icd.random_calls [--first N] [--count N] [--threads N] [--workers SPEC]` makes the calls of so many seeds
(`random_calls.c`), and prints for each seed that differs where its logs first do. The native driver makes them with each
command ended before the next, and in one thread. Even so, Intel's engine leaves other bytes in one run of some: a seed
that differs is run again alone, and counts if all of its native logs are the same and none is that of the virtual device.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.icd.driver import build, environment_natively, run_on_vdev

SOURCE = "random_calls/random_calls.c"
_AGAIN = 3  #: times that a seed which differs is run again
_BEFORE = 6  #: lines that are shown before the first that differs


def run_reference(program: Path, *numbers: str) -> subprocess.CompletedProcess[str]:
    """Natively, with each command ended before the next: what overtakes nothing is right on every driver."""
    environment = environment_natively() | {"CAREFUL": "1"}
    return subprocess.run([program, *numbers], env=environment, capture_output=True, text=True, check=False)


def logs(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    """By seed what its run has logged; under the empty name how the process has ended."""
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("seed "):
            found[line] = []
        elif line.startswith("end: "):
            found[""] = [line, str(done.returncode)]
        elif found:
            found[[*found][-1]].append(line)
    return found


def differences(natively: dict[str, list[str]], found: dict[str, list[str]]) -> list[str]:
    """A text for each seed whose logs differ, or that has none."""
    return [
        f"{seed or 'the end'}\n{_first_difference(lines, found.get(seed, []))}"
        for seed, lines in natively.items()
        if lines != found.get(seed)
    ]


def _first_difference(natively: list[str], found: list[str]) -> str:
    most = max(len(natively), len(found))
    padded = [lines + [""] * (most - len(lines)) for lines in (natively, found)]
    at = next(i for i in range(most) if padded[0][i] != padded[1][i])
    before = [f"      {line}" for line in natively[max(0, at - _BEFORE) : at]]
    return "\n".join([*before, f"    - {padded[0][at]}", f"    + {padded[1][at]}"])


def counts(program: Path, text: str, switches: dict[str, str]) -> bool:
    """Whether what differs does so for certain: the seed does again, and its native logs agree. How a process ends always counts."""
    what, seed, *_ = text.split()
    if what != "seed":
        return True
    native = [logs(run_reference(program, seed, "1")) for _ in range(_AGAIN)]
    found = [logs(run_on_vdev(program, seed, "1", **switches)) for _ in range(_AGAIN)]
    return all(each == native[0] for each in native) and native[0] not in found


def main(words: Sequence[str] | None = None) -> int:
    """0 where no seed differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.icd.random_calls", description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", default="cpu:3")
    parser.add_argument("--switch", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        program = build(SOURCE, Path(folder))
        numbers = [str(options.first), str(options.count), str(options.threads)]
        natively = run_reference(program, *numbers[:2])
        switches = {"VDEV_WORKERS": options.workers} | dict(each.split("=", 1) for each in options.switch)
        done = run_on_vdev(program, *numbers, **switches)
        differ = differences(logs(natively), logs(done))
        found = [text for text in differ if counts(program, text, switches)]
    for text in [*found, done.stderr]:
        print(text)
    print(f"{len(found)} of {options.count} seeds differ, {len(differ) - len(found)} only once")
    return 1 if found or done.stderr else 0


if __name__ == "__main__":
    sys.exit(main())
