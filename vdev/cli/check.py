"""`vdev-check`: a PyOpenCL program run with its kernels checked, or a file of kernels read; findings as text or for
services, exit status 1 if there are any.

Decides what the command line means; `vdev.harness` does the rest.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from vdev.cli.pipes import ends_with_its_reader
from vdev.harness.accepted import Accepted
from vdev.harness.coverage.data import FOLDER
from vdev.harness.coverage.figures import Threshold
from vdev.harness.coverage.reports import Run, Wish
from vdev.harness.findings import KINDS, OFF_BY_DEFAULT, hidden_kinds
from vdev.harness.formats import FORMATS
from vdev.harness.reports import Report, read_kernels, run_program

T = TypeVar("T")

_EPILOG = """\
A .cl file, which may be followed by build options, is not run: vdev-check prints clang's messages, and what a run could not
check. Anything else is run as python would run it, on vdev's virtual device (VDEV_WORKERS selects the workers; one CPU worker
if it is not set), and every launch is checked before it is made. The exit status is 1 if there are findings, 2 for a wrong
command line, and otherwise the program's own.
"""
_WITH_VALUE = (
    "--format", "--report", "--ignore", "--most", "--accepted", "--coverage-report", "--coverage-fail-under",
    "--coverage-data",
)  # fmt: skip


@ends_with_its_reader
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = _parser()
    options, program = _divided(list(sys.argv[1:] if arguments is None else arguments))
    given = parser.parse_args(options, argparse.Namespace(program=program))
    if given.write_accepted and given.accepted is None:
        parser.error("--write-accepted needs --accepted FILE")
    if not program:
        parser.error("name a .cl file, or a program to run")
    if program[0] in ("-m", "-c") and not program[1:]:
        parser.error(f"{program[0]} needs an argument")
    if program[0] not in ("-m", "-c") and not os.path.exists(program[0]):
        parser.error(f"there is no file {program[0]!r}")
    coverage = _coverage(given)
    try:
        if coverage is not None:
            coverage.begin()
        report = _report(given, coverage)
        covered = None if coverage is None else coverage.end()
        if given.accepted is not None:
            accepted = Accepted(given.accepted)
            accepted.takes = given.write_accepted
            report.accept(accepted)
    except (OSError, ValueError) as error:
        print(f"vdev-check: {error}", file=sys.stderr)
        return 2
    text = FORMATS[given.format](report.findings)
    if given.format == "text":
        sys.stdout.write(f"{text}\n\n" if text else "")
        print(report.summary())
    else:
        print(text)
        print(report.summary(), file=sys.stderr)
    if covered is not None and covered.text:
        print(covered.text, file=sys.stdout if given.format == "text" else sys.stderr)
    return report.exit_status or int(covered is not None and bool(covered.failures))


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own options, and the program with its arguments, which may look like options."""
    index = 0
    while (
        index < len(arguments) and arguments[index].startswith("-") and arguments[index] not in ("-m", "-c")
    ):
        index += 2 if arguments[index] in _WITH_VALUE else 1
    return arguments[:index], arguments[index:]


def _coverage(given: argparse.Namespace) -> Run | None:
    """The run whose coverage is wanted."""
    if not (given.coverage or given.coverage_report or given.coverage_fail_under):
        return None
    if given.program[0].endswith(".cl"):
        return None  # nothing runs
    wishes = given.coverage_report or [Wish.parse("text")]
    return Run(
        Path.cwd(),
        Path(given.coverage_data),
        wishes,
        given.coverage_fail_under or Threshold(),
        given.coverage_append,
    )


def _report(given: argparse.Namespace, coverage: Run | None) -> Report:
    program: list[str] = given.program
    hidden = hidden_kinds(given.report, given.ignore)
    if program[0].endswith(".cl"):
        report = read_kernels(program[0], program[1:])
        report.findings = [finding for finding in report.findings if finding.kind not in hidden]
        return report
    return run_program(
        program,
        hidden=hidden,
        most=given.most,
        quiet=given.format != "text",
        check=given.check,
        coverage=None if coverage is None else coverage.folder,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vdev-check",
        usage="vdev-check [option ...] (kernel.cl | script.py | -m module | -c code) [argument ...]",
        description="Find mistakes in OpenCL kernels.",
        epilog=_EPILOG,
    )
    parser.add_argument("--format", choices=list(FORMATS), default="text", help="how findings are printed")
    _add_kinds(parser)
    parser.add_argument(
        "--accepted",
        type=Path,
        metavar="FILE",
        help="accepted findings, with reasons; they are not reported",
    )
    parser.add_argument(
        "--write-accepted", action="store_true", help="write the findings to the file of accepted findings"
    )
    parser.add_argument(
        "--most",
        type=int,
        default=0,
        metavar="N",
        help="check only the first N launches of each kernel (default: all)",
    )
    parser.add_argument("--no-check", dest="check", action="store_false", help="no checks, only coverage")
    _add_coverage(parser)
    return parser


def _add_kinds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        choices=KINDS,
        metavar="KIND",
        help=f"also report this kind, which is off by default: {', '.join(sorted(OFF_BY_DEFAULT))}",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        choices=KINDS,
        metavar="KIND",
        help=f"do not report this kind: {', '.join(KINDS)}",
    )


def _add_coverage(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("coverage of kernels")
    group.add_argument(
        "--coverage", action="store_true", help="report which lines and branches of kernels ran"
    )
    group.add_argument(
        "--coverage-report",
        action="append",
        type=_parsed(Wish.parse),
        metavar="KIND[:PATH]",
        help="text, lcov, xml (Cobertura) or html; may be given several times",
    )
    group.add_argument(
        "--coverage-fail-under",
        type=_parsed(Threshold.parse),
        metavar="LINES[,BRANCHES]",
        help="exit with status 1 if coverage is below these percentages",
    )
    group.add_argument("--coverage-append", action="store_true", help="add to the coverage of earlier runs")
    group.add_argument(
        "--coverage-data",
        default=FOLDER,
        metavar="FOLDER",
        help="folder for the data of runs (default: %(default)s)",
    )


def _parsed(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A parser; argparse prints its errors as they are."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


if __name__ == "__main__":
    sys.exit(main())
