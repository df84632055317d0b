"""`vdev-info --explain`: runs a program on the virtual device, and prints a report after the program's output.

Decides how the program is run: in its own process, as `python -m vdev` runs it, so that it ends as it
would alone, whatever it does to its process. With `--json`, standard output has only the report, and the
program's output goes to standard error. The exit status is the program's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

USAGE = """\
usage: vdev-info --explain [--json | --html FILE] [-m module | -c code | script.py] [argument ...]

Runs a program on vdev's virtual device and says what was split and what was not, what moved and where the
time went, with advice. VDEV_EXPLAIN=1 does the same for a program that is run otherwise.
--html writes the report as one page into FILE, with a time line, traffic and who holds what; reports of processes that
the program started go beside it, with their numbers in the names.
"""


def main(arguments: Sequence[str], *, as_json: bool = False, page: str | None = None) -> int:
    """Run the program that `arguments` name; its exit status, or 128 plus the signal's number if a signal ended it.

    `page`: the file for the report as a page. 2 if options are wrong, 1 if a page could not be written.
    """
    rest = list(arguments)
    if rest and rest[0] == "--json":
        as_json = True
        del rest[0]
    if len(rest) > 1 and rest[0] == "--html":
        page = rest[1]
        del rest[:2]
    if not rest or rest[0] in ("-h", "--help", "--html") or (as_json and page is not None):
        (sys.stdout if rest else sys.stderr).write(USAGE)
        return 0 if rest and rest[0] != "--html" and not (as_json and page is not None) else 2
    try:
        return _explain(rest, as_json) if page is None else _write_page(rest, Path(page))
    except OSError as error:
        print(
            f"vdev-info: the report needs a temporary file (TMPDIR names another folder): {error}",
            file=sys.stderr,
        )
        return 1


def _explain(arguments: Sequence[str], as_json: bool) -> int:
    """Run the program and print its report."""
    with tempfile.TemporaryDirectory(prefix="vdev-") as folder:
        suffix = ".json" if as_json else ".txt"
        process, status = _run(arguments, str(Path(folder, f"%p{suffix}")), as_json)
        reports = {int(path.stem): path.read_text("utf-8") for path in Path(folder).glob(f"*{suffix}")}
    own = reports.pop(process, None)
    sys.stderr.flush()
    print(_as_json(own, reports, status) if as_json else _as_text(own, reports, status))
    return status


def _run(arguments: Sequence[str], report: str, as_json: bool) -> tuple[int, int]:
    """The program's process number and exit status."""
    program = subprocess.Popen(
        [sys.executable, "-m", "vdev", *arguments],
        env=os.environ | {"VDEV": "1", "VDEV_EXPLAIN": report},
        stdout=sys.stderr if as_json else None,
    )
    # An interrupt from the terminal also reaches the program, which deals with it in its own way.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        status = program.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return program.pid, status if status >= 0 else 128 - status


def _write_page(arguments: Sequence[str], page: Path) -> int:
    """Run the program; its report becomes `page`, and those of other processes are placed beside it."""
    with tempfile.TemporaryDirectory(prefix="vdev-") as folder:
        process, status = _run(arguments, str(Path(folder, "%p.html")), False)
        reports = {int(path.stem): path.read_bytes() for path in Path(folder).glob("*.html")}
    if process not in reports:
        print(f"\nvdev: {_why_none(status)}", file=sys.stderr)
    for number, text in reports.items():
        target = page if number == process else page.with_name(f"{page.stem}.{number}{page.suffix}")
        try:
            target.write_bytes(text)
        except OSError as error:
            print(f"\nvdev: the page could not be written: {error}", file=sys.stderr)
            return status or 1
        print(f"\nvdev: {target}", file=sys.stderr)
    return status


def _why_none(status: int) -> str:
    if status > 128:
        return f"no report: the program was ended by signal {status - 128}"
    return (
        "no report: the program did not use the virtual device, or did not end through Python's normal exit"
    )


def _as_text(own: str | None, others: dict[int, str], status: int) -> str:
    texts = [f"vdev: {_why_none(status)}" if own is None else own.rstrip()]
    texts += [f"process {number}, which the program started\n{text}" for number, text in others.items()]
    return "\n" + "\n\n".join(text.rstrip() for text in texts)


def _as_json(own: str | None, others: dict[int, str], status: int) -> str:
    report = {"problem": _why_none(status)} if own is None else json.loads(own)
    found = {**report, "exit_status": status}
    if others:
        found["processes"] = {str(number): json.loads(text) for number, text in others.items()}
    return json.dumps(found, indent=2)
