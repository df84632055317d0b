"""What `vdev-check` found out: about a program that ran, or about a kernel file that did not.

Decides what counts, and what the summary says; `formats` prints the findings.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from vdev.harness.accepted import Accepted
from vdev.harness.checked_launch import CheckedSource, NotCheckable
from vdev.harness.findings import OFF_BY_DEFAULT, Finding, Place, Who
from vdev.translators.dialects.image_lowering import lower_images
from vdev.translators.dialects.subgrid import Untranslatable, translate_subgrid
from vdev.translators.frontend.source import CompileError, ParsedProgram, parse_program, read_source
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.values import dataclass

#: Clang's warnings that point to a mistake rather than to a habit.
_WARNINGS = (
    "-Warray-bounds", "-Wdivision-by-zero", "-Wshift-count-overflow", "-Wshift-count-negative", "-Wuninitialized",
    "-Wsometimes-uninitialized", "-Wreturn-type", "-Wunsequenced", "-Wtautological-compare",
)  # fmt: skip
_ENDED = "the program was ended by a signal: launches after its last finding are not counted"
_LAST_SECONDS = 10.0  #: seconds in which an interrupted program has to end by itself
_MESSAGE = re.compile(r"^(.*?):(\d+):(\d+): (?:warning|error|fatal error): (.*)$", re.MULTILINE)
#: Runs without the current folder on the path: a folder there called vdev is not what is installed.
_CHILD = "import sys; sys.path[:] = [p for p in sys.path if p]; from vdev.harness.child import main; main(sys.argv[1:])"


@dataclass
class Report:
    """Findings, and how much was checked.

    `status`: of the program that ran. `one_worker`: by kernel, why it would not be split over several workers.
    `told`: what to say about accepted findings; `naccepted` findings were left out.
    """

    findings: list[Finding]
    nchecked: int = 0
    unchecked: dict[str, int] = field(default_factory=dict)
    notes: list[tuple[str, int, str]] = field(default_factory=list)
    status: int = 0
    ran: bool = True
    one_worker: dict[str, list[str]] = field(default_factory=dict)
    naccepted: int = 0
    told: list[str] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """1 with findings, else the program's own."""
        return 1 if self.findings else self.status

    def accept(self, accepted: Accepted) -> None:
        """Leave out what the file accepts; add the others to it if it takes new findings."""
        left = accepted.left(self.findings)
        self.naccepted = len(self.findings) - len(left)
        self.findings = left
        self.told += accepted.summary()
        if accepted.takes and (count := accepted.write()):
            self.told.append(f"{accepted.path}: {count} written: give each a reason")

    def summary(self) -> str:
        """Everything worth knowing besides the findings, a line for each."""
        lines = [f"vdev-check: {_count(len(self.findings), 'finding')}"]
        if self.ran:
            lines[0] += f"; {_count(self.nchecked, 'launch', 'launches')} checked"
        if self.naccepted:
            lines[0] += f"; {self.naccepted} accepted"
        for kernel, reasons in sorted(self.one_worker.items()):
            lines += [f"  kernel {kernel}: one worker: {reason}" for reason in reasons]
            lines += [] if reasons else [f"  kernel {kernel}: split over several workers"]
        lines += [f"  {line}" for line in self.told]
        for reason, count in sorted(self.unchecked.items()):
            lines.append(f"  not checked: {_count(count, 'launch', 'launches')}: {reason}")
        for kernel, line, what in self.notes:
            where = f"kernel {kernel}, " if kernel else ""
            lines.append(f"  {where}line {line}: {what}")
        if self.status:
            lines.append(f"  the program ended with status {self.status}")
        return "\n".join(lines)


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


def run_program(
    arguments: Sequence[str],
    *,
    hidden: frozenset[str] = OFF_BY_DEFAULT,
    most: int = 0,
    quiet: bool = False,
    check: bool = True,
    coverage: Path | None = None,
) -> Report:
    """Run a PyOpenCL program with every launch checked.

    `hidden`: kinds not to report. `most`: launches of each kernel that are checked; 0: all. `quiet`: its output goes
    to the error stream. `check`: False for no checks. `coverage`: the folder for the coverage of its kernels.
    """
    with tempfile.TemporaryDirectory(prefix="vdev-") as folder:
        path = Path(folder, "report.json")
        checked = str(most) if check else "none"
        folder_of_data = "" if coverage is None else str(coverage.absolute())
        own = [str(path), ",".join(sorted(hidden)), checked, folder_of_data]
        command = [sys.executable, "-c", _CHILD, *own, *arguments]
        environment = {"VDEV_WORKERS": "cpu:1", **os.environ, "VDEV": "1"}
        with subprocess.Popen(command, env=environment, stdout=sys.stderr if quiet else None) as process:
            status = _end_of(process)
        return _report_of(path, status if status >= 0 else 128 - status)


def _report_of(path: Path, status: int) -> Report:
    """What a program that ended with `status` has left in a file."""
    if not path.exists():
        return Report(
            [],
            unchecked={"the program left no report: it did not end through Python's normal exit": 1},
            status=status or 1,
        )
    found = json.loads(path.read_text("utf-8"))
    notes = [(kernel, line, what) for kernel, line, what in found["notes"]]
    findings = [_finding(fields) for fields in found["findings"]]
    return Report(
        findings,
        found["checked"],
        found["unchecked"],
        notes,
        status,
        one_worker=found["one_worker"],
        told=[] if found["whole"] else [_ENDED],
    )


def _end_of(process: subprocess.Popen[bytes]) -> int:
    """Its exit status. Whoever interrupts us has usually interrupted the program as well: it gets time to report what
    it has found.
    """
    try:
        return process.wait()
    except KeyboardInterrupt:
        for last in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_LAST_SECONDS)
            process.send_signal(last)
        return process.wait()


def _finding(fields: dict[str, Any]) -> Finding:
    """A finding from its JSON."""
    who, other = fields["who"], fields["other"]
    other_who = fields["other_who"]
    made = dict(fields, place=Place(**fields["place"]), who=_who(who))
    made["other"] = None if other is None else Place(**other)
    made["other_who"] = None if other_who is None else _who(other_who)
    return Finding(**made)


def _who(fields: dict[str, Any]) -> Who:
    return Who(tuple(fields["group"]), None if fields["item"] is None else tuple(fields["item"]))


def read_kernels(path: str, options: Sequence[str] = ()) -> Report:
    """What can be said about a file of OpenCL C without running it: clang's messages, and what a run would not check."""
    text = read_source(Path(path))
    folder = f"-I{Path(path).resolve().parent}"
    try:
        parsed = parse_program(text, [*_WARNINGS, *options, folder])
    except CompileError as error:
        return Report(_messages(error.log, path, text), ran=False)
    notes: list[tuple[str, int, str]] = []
    try:
        notes += [("", line, what) for line, what in CheckedSource(parsed, path).skipped]
    except NotCheckable as reason:
        notes.append(("", 1, f"the accesses of its kernels cannot be checked: {reason}"))
    return Report(_messages(parsed.log, path, text), notes=notes, ran=False, one_worker=_one_worker(parsed))


def _one_worker(parsed: ParsedProgram) -> dict[str, list[str]]:
    """By kernel, what prevents any launch of it from being split. Kernels for which it depends on the launch are left
    out.
    """
    try:
        lowered = lower_images(parsed)
        translate_subgrid(lowered.program)
    except Untranslatable as error:
        return {name: [str(error)] for name in parsed.kernels}
    found = {
        name: [str(each) for each in analyse_kernel(lowered.model, name).one_worker]
        for name in parsed.kernels
    }
    return {name: reasons for name, reasons in found.items() if reasons}


def _messages(log: str, path: str, text: str) -> list[Finding]:
    lines = text.splitlines()
    found = []
    for match in _MESSAGE.finditer(log):
        line, column = int(match[2]), int(match[3])
        own = match[1] == "<kernel>"
        excerpt = lines[line - 1] if own and 0 < line <= len(lines) else ""
        place = Place(path if own else match[1], line, column, "", "", excerpt)
        found.append(Finding("compiler", match[4], "", "", "", place, None))
    return found
