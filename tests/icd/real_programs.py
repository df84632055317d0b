"""Programs that nobody here wrote, and libraries that others wrote, natively and on three workers: the same output?

`python -m tests.icd.real_programs [--only] [--ignore PATTERN] [--tests FOLDER] [PROGRAM …]` builds what it can from Debian's packages
(clinfo, clpeak, clblast-tests, clfft-client, libclblast-dev, libviennacl-dev, libboost-dev, opencl-clhpp-headers, erlang-cl, hashcat) and,
where it is installed, tinygrad, and prints a row for each. PROGRAM is one of yours, such as BabelStream, or a folder of them,
such as PolyBench's, each of which runs in the folder that it lies in; `--only` runs nothing else. Figures of time and
bandwidth differ from run to run: lines of their output that contain the pattern are not compared, and of clinfo and
clpeak only the exit status is. `--tests` runs the tests of a Python library in FOLDER with pytest, natively and with `VDEV=1`, and
compares how each ends: those of pyclblast (its package and Debian's libclblast-dev installed) are CLBlast's src/pyclblast/test.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.icd.driver import HERE, build, run_in_python, run_natively, run_on_vdev

#: source, and what it is linked with
SOURCES = {
    "clblast_calls.cpp": ["-lclblast"],
    "viennacl_calls.cpp": [],
    "boost_compute_calls.cpp": [],
    "bindings_calls.cpp": [],
    "every_call.c": [],
    "vector_add.c": [],
    "threads.c": [],
}
#: whose whole output is compared. hashcat tests its kernels by itself before it looks for the number that has this hash.
EXACT_COMMANDS = (
    ("escript", str(HERE / "erlang_calls.erl")),
    *([(sys.executable, str(HERE / "tinygrad_calls.py"))] if find_spec("tinygrad") else []),
    # it transforms data of its own to and fro, and compares
    ("clFFT-client", "-c", "-x", "64", "-y", "128", "-z", "4", "-p", "1"),
    *((f"clblast_test_{name}",) for name in ("xaxpy", "xdot", "xnrm2")),
    (
        "hashcat",
        "--quiet",
        "--force",
        "--potfile-disable",
        "-m",
        "0",
        "-a",
        "3",
        "81dc9bdb52d04dc20036dbd8313ed055",
        "?d?d?d?d",
    ),
)
COMMANDS = (("clinfo",), ("clpeak", "--global-bandwidth", "--kernel-latency"))


#: with what `VDEV_EXPLAIN=1` begins its report at a program's end
_REPORT = re.compile(r"^vdev: \d+ launch", re.M)
#: how a test of pytest's ended, and its name
_END = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+)", re.M)


def _compare(words: Sequence[str | Path], *, ignored: str | None, folder: Path | None = None) -> bool:
    """Print a row about a program. `ignored`: what the lines contain that are not compared; None for all of them."""
    natively = run_natively(*words, folder=folder)
    done = run_on_vdev(*words, folder=folder, VDEV_EXPLAIN="1")
    program, report = _parts(done.stderr)
    same = natively.returncode == done.returncode
    if ignored is not None:
        texts = ((natively.stdout, done.stdout), (natively.stderr, program))
        same = same and all(_kept(one, ignored) == _kept(other, ignored) for one, other in texts)
    _print_row(_name(words), same, report)
    return same


def _compare_tests(folder: Path) -> bool:
    """Print a row about a Python library's tests in this folder."""
    words = (sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", ".")
    natively = run_natively(*words, folder=folder)
    done = run_in_python(*words, folder=folder, VDEV_EXPLAIN="1")
    ends = [sorted(_END.findall(each.stdout)) for each in (natively, done)]
    same = natively.returncode == done.returncode and ends[0] == ends[1] != []
    passed = sum(outcome == "PASSED" for outcome, _ in ends[1])
    _print_row(f"{folder}: {passed} passed", same, _parts(done.stderr)[1])
    return same


def _parts(errors: str) -> tuple[str, str]:
    """What a program wrote to standard error, and vdev's report behind it."""
    begin = _REPORT.search(errors)
    return (errors, "") if begin is None else (errors[: begin.start()], errors[begin.start() :])


def _print_row(name: str, same: bool, report: str) -> None:
    split = sum(line.count(", split") + line.count("all split") for line in report.splitlines())
    print(f"{name:26} {'same' if same else 'DIFFERENT'}, kernels split: {split}", flush=True)


def _kept(text: str, ignored: str) -> list[str]:
    return [line for line in text.splitlines() if not ignored or not re.search(ignored, line, re.I)]


def _name(words: Sequence[str | Path]) -> str:
    """Of a program, or of the script that it runs."""
    return Path(words[-1] if Path(words[-1]).parent == HERE else words[0]).name


def _built(folder: Path) -> Iterator[Path]:
    """Programs of this folder's sources."""
    for source, libraries in SOURCES.items():
        try:
            yield build(source, folder, links=libraries)
        except (AssertionError, pytest.skip.Exception) as reason:
            print(f"{source:26} not built: {str(reason).strip().splitlines()[-1]}")


def _named(places: Sequence[Path]) -> Iterator[Path]:
    """Programs, each given or lying in a folder that is."""
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and os.access(path, os.X_OK) and path.read_bytes()[:4] == b"\x7fELF":
                yield path.resolve()


def from_packages() -> bool:
    """Whether all that can be had here are the same."""
    same = True
    with tempfile.TemporaryDirectory() as folder:
        for program in _built(Path(folder)):
            # the device's name is in its first line
            same &= _compare([program], ignored=None if program.name == "vector_add" else "")
    for command in EXACT_COMMANDS:
        if shutil.which(command[0]):
            same &= _compare([*command], ignored="on OpenCL device")
    for command in COMMANDS:
        if shutil.which(command[0]):
            same &= _compare([*command], ignored=None)
    return same


def main(words: Sequence[str] | None = None) -> int:
    """0 where all are the same."""
    parser = argparse.ArgumentParser(prog="python -m tests.icd.real_programs", description=__doc__)
    parser.add_argument("--only", action="store_true", help="only the programs named")
    parser.add_argument("--ignore", default="", help="lines of theirs that contain this are not compared")
    parser.add_argument("--tests", action="append", default=[], type=Path, help="a Python library's tests")
    parser.add_argument("programs", nargs="*", type=Path)
    options = parser.parse_args(words)
    same = options.only or from_packages()
    for program in _named(options.programs):
        same &= _compare([program], ignored=options.ignore, folder=program.parent)
    for folder in options.tests:
        same &= _compare_tests(folder)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
