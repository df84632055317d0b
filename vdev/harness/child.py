"""The process in which `vdev-check` runs a program: everything is as the program expects, except that its launches
are checked.

Decides nothing; it writes findings to a file, as soon as they are found and when the process ends.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import runpy
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vdev import boot
from vdev.harness.coverage.counting import Counting, start
from vdev.harness.coverage.data import save
from vdev.harness.coverage.whole_program import count_programs
from vdev.harness.whole_program import Watch
from vdev.start import current


def main(arguments: list[str]) -> None:
    """`arguments`: the file for the report, kinds not to report, launches of each kernel to check ('none': no checks), the
    folder for coverage data (empty: no coverage), and the program (`-m module`, `-c code` or a file) with its own arguments.
    """
    path, kinds, most, coverage, *program = arguments
    watch = Watch(frozenset(filter(None, kinds.split(","))), 0 if most == "none" else int(most))
    checkers = [] if most == "none" else [watch.checker()]
    if coverage:
        count_programs(_counting(Path(coverage), os.getpid()), checkers)
    elif checkers:
        current.check_with(checkers[0])
    report = functools.partial(_write, Path(path), watch, os.getpid())
    watch.told_more = report
    atexit.register(report, whole=True)
    boot.install()
    _run(program)


def _counting(folder: Path, process: int) -> Counting:
    """What counts coverage; the data are saved when the process ends."""
    counting = start(Path.cwd())

    def leave() -> None:
        if os.getpid() == process:
            save(counting.data, folder)

    atexit.register(leave)
    return counting


def _run(program: list[str]) -> None:
    option = program[0]
    if option == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *program[2:]]
        exec(compile(program[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        if os.path.isfile(option):  # runpy itself puts a folder or an archive on the path
            sys.path.insert(0, os.path.dirname(os.path.realpath(option)))
        sys.argv = program
        runpy.run_path(option, run_name="__main__")


def _write(path: Path, watch: Watch, process: int, *, whole: bool = False) -> None:
    """Write the report. `whole`: nothing more will follow."""
    if os.getpid() != process:
        return  # the launches of a forked child are its own
    report: dict[str, Any] = {
        "findings": [asdict(finding) for finding in watch.findings],
        "checked": watch.nchecked,
        "unchecked": dict(watch.unchecked),
        "notes": sorted(watch.notes),
        "one_worker": {kernel: sorted(reasons) for kernel, reasons in watch.one_worker.items()},
        "whole": whole,
    }
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(report), "utf-8")
    fresh.replace(path)  # the process may end at any time
