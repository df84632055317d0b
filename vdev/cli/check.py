"""`vdev-check`: a PyOpenCL program run with its kernels checked, or a file of kernels read; findings as text or for
services, exit status 1 where there are any.

Decides what the command line means; `vdev.harness` does the rest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from vdev.harness.findings import KINDS
from vdev.harness.formats import FORMATS
from vdev.harness.reports import Report, read_kernels, run_program

_EPILOG = """\
With a .cl file, build options behind it: what clang says, and what a run could not check. With anything else: the program is
run as python would run it, on vdev's virtual device (VDEV_WORKERS says where; one CPU worker where it says nothing), and every launch is
checked before it is made. The exit status is 1 with findings, 2 for a wrong command line, else the program's own.
"""
_WITH_VALUE = ("--format", "--report", "--most")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit status."""
    parser = _parser()
    options, program = _divided(list(sys.argv[1:] if arguments is None else arguments))
    given = parser.parse_args(options, argparse.Namespace(program=program))
    if not program:
        parser.error("name a .cl file, or a program to run")
    try:
        report = _report(given)
    except OSError as error:
        print(f"vdev-check: {error}", file=sys.stderr)
        return 2
    text = FORMATS[given.format](report.findings)
    if given.format == "text":
        sys.stdout.write(f"{text}\n\n" if text else "")
        print(report.summary())
    else:
        print(text)
        print(report.summary(), file=sys.stderr)
    return report.exit_status


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own options, and the program with its arguments, which may look like options."""
    index = 0
    while (
        index < len(arguments) and arguments[index].startswith("-") and arguments[index] not in ("-m", "-c")
    ):
        index += 2 if arguments[index] in _WITH_VALUE else 1
    return arguments[:index], arguments[index:]


def _report(given: argparse.Namespace) -> Report:
    program: list[str] = given.program
    if program[0].endswith(".cl"):
        return read_kernels(program[0], program[1:])
    return run_program(program, report=given.report, most=given.most, quiet=given.format != "text")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vdev-check",
        usage="vdev-check [option ...] (kernel.cl | script.py | -m module | -c code) [argument ...]",
        description="Find mistakes in OpenCL kernels.",
        epilog=_EPILOG,
    )
    parser.add_argument("--format", choices=list(FORMATS), default="text", help="how findings are printed")
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        choices=KINDS,
        help="tell of this kind, too (same-value-race, signed-overflow, non-finite)",
    )
    parser.add_argument(
        "--most", type=int, default=0, metavar="N", help="check N launches of each kernel (default: all)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
