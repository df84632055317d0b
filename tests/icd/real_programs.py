"""Programs that nobody here wrote, and libraries that others wrote, natively and on three workers: the same output?

`python -m tests.icd.real_programs [PROGRAM …]` builds what it can from Debian's packages (clinfo, clpeak, libclblast-dev,
libviennacl-dev, libboost-dev, opencl-clhpp-headers, erlang-cl, hashcat) and, where it is installed, tinygrad, and prints a row
for each; a program that is named by its path, such as BabelStream's, is run as well. Figures of time and bandwidth differ
from run to run: of clinfo, clpeak and named programs only the exit status is compared.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.icd.driver import HERE, build, run_natively, run_on_vdev

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


def _compare(name: str, words: list[str | Path], *, output: bool) -> bool:
    natively, done = run_natively(*words), run_on_vdev(*words, VDEV_EXPLAIN="1")
    same = natively.returncode == done.returncode and (not output or natively.stdout == done.stdout)
    split = sum(line.count(", split") + line.count("all split") for line in done.stderr.splitlines())
    print(f"{name:26} {'same' if same else 'DIFFERENT'}, kernels split: {split}")
    return same


def main(named: list[str]) -> int:
    """0 where all are the same."""
    same = True
    with tempfile.TemporaryDirectory() as folder:
        for source, libraries in SOURCES.items():
            try:
                program = build(source, Path(folder), links=libraries)
            except (AssertionError, pytest.skip.Exception) as reason:
                print(f"{source:26} not built: {str(reason).strip().splitlines()[-1]}")
                continue
            # the device's name is in its first line
            same &= _compare(source, [program], output=source != "vector_add.c")
    for command in EXACT_COMMANDS:
        if shutil.which(command[0]):
            same &= _compare(
                Path(command[1]).name if len(command) == 2 else command[0], [*command], output=True
            )
    for command in (*COMMANDS, *([word] for word in named)):
        if shutil.which(command[0]):
            same &= _compare(command[0], [*command], output=False)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
