"""Samples under VDEV_CHECK=1, each in a child of its own: `VDEV=1 VDEV_CHECK=1 VDEV_WORKERS=cpu:3 python -m tests.cpu.clean_samples
FOLDER [NAME ...]`, in which FOLDER gets their pictures.

Writes a line of JSON for each: its exit status, what it printed and what it said on standard error. The children are forked from a
process that has imported what all of them import, and opened nothing: that takes longer than most samples.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
from pathlib import Path

import pyopencl.array  # noqa: F401  (what samples import)

from tests.cpu.planted import say_what_was_checked
from tests.cpu.test_samples import ARGUMENTS, NAMES, SAMPLES


def run(name: str, folder: Path) -> dict[str, object]:
    """A sample in a child, which ends as a program does."""
    files = [folder / f"{name}.{stream}" for stream in ("out", "err")]
    child = os.fork()
    if child == 0:
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(folder)
        atexit.register(say_what_was_checked)
        sys.argv = [str(SAMPLES / f"{name}.py"), *ARGUMENTS[name].split()]
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit()
    _, status = os.waitpid(child, 0)
    out, err = (file.read_text() for file in files)
    return {"name": name, "status": os.waitstatus_to_exitcode(status), "out": out, "err": err}


def main(folder: str, *names: str) -> None:
    for name in names or NAMES:
        print(json.dumps(run(name, Path(folder))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
