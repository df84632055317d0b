"""What a driver's command buffers (cl_khr_command_buffer) would save: the same commands one by one and as one buffer, natively.

    python samples/benchmarks/command_buffers.py [--native FOLDER] [--loader FILE] [--rounds 31] [--json FILE]

Rows of 1 to 16 launches or copies, of one work-group and of some thousand, with the same values and with another one each
time (cl_khr_command_buffer_mutable_dispatch): how long the submitting thread takes, and all threads together, as ratios in one
process. vdev's workers on OpenCL drivers enqueue one by one: a command of a program's is one launch for each of them, and a
copy or two where workers exchange bytes. This shows whether that should change for a driver, and whether its command buffers
do what the specification says.
Needs a C compiler, and an OpenCL loader: the machine's, or one of this Python environment.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import c_programs
import machine

from vdev.start import engines

SOURCE = Path(__file__).with_suffix(".c")
Figures = dict[str, float]
WAYS = "separate", "buffer"
#: what is shown of each row, and of which figure
SHOWN = {"thread": "submitting thread", "process": "all threads"}
TIMEOUT = 300  # seconds


def run(loader: str | None, rounds: int) -> tuple[str, Figures]:
    """The driver, and the figures that the program prints. SystemExit where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        program = c_programs.build(Path(folder), loader, SOURCE)
        done = subprocess.run(
            [str(program), str(rounds)], capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
    if done.returncode:
        sys.exit(f"status {done.returncode}: {machine.last_line(done.stdout + done.stderr)}")
    first, *lines = done.stdout.splitlines()
    return first.removeprefix("# "), {
        name: float(value) for name, value in (line.split("\t") for line in lines)
    }


def ratios(found: Figures, figure: str) -> dict[tuple[str, int], float]:
    """By kind and length of a row: what it takes as a buffer, over what it takes one by one."""
    result = {}
    for name, value in found.items():
        kind, *rest = name.split(", ")
        if len(rest) == 3 and rest[1:] == [WAYS[1], figure]:
            result[kind, int(rest[0])] = value / found[f"{kind}, {rest[0]}, {WAYS[0]}, {figure}"]
    return result


def version(number: float) -> str:
    """A cl_version as text; nothing for 0."""
    bits = int(number)
    return f"{bits >> 22}.{bits >> 12 & 0x3FF}.{bits & 0xFFF}" if bits else ""


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(logs := [math.log(value) for value in values]) / len(logs))


def table(found: Figures) -> list[str]:
    """Lines of Markdown: what the driver has, what it does wrong, and a table of ratios for each figure."""
    if not found["version"]:
        return ["The driver has no cl_khr_command_buffer."]
    checks = {
        name.removeprefix("check "): value for name, value in found.items() if name.startswith("check ")
    }
    wrong = [name for name, value in checks.items() if not value]
    lines = [
        f"cl_khr_command_buffer {version(found['version'])}, mutable dispatch {version(found['mutable version']) or 'none'}; "
        + (
            f"of {len(checks)} checks wrong: {', '.join(wrong)}"
            if wrong
            else f"all {len(checks)} checks well"
        )
    ]
    for figure, title in SHOWN.items():
        of_rows = ratios(found, figure)
        lengths = sorted({length for _, length in of_rows})
        if not lengths:
            continue
        lines += [
            "",
            f"| {title}: buffer / one by one | " + " | ".join(map(str, lengths)) + " |",
            "|---|" + "---|" * len(lengths),
        ]
        for kind in dict.fromkeys(kind for kind, _ in of_rows):
            lines.append(f"| {kind} | " + " | ".join(f"{of_rows[kind, each]:.2f}" for each in lengths) + " |")
        means = [mean(value for (_, length), value in of_rows.items() if length == each) for each in lengths]
        lines.append("| geometric mean | " + " | ".join(f"{each:.2f}" for each in means) + " |")
    return lines


def main() -> int:
    """1 where a check of the driver's command buffers failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--native", metavar="FOLDER", help="of the driver's .icd file (default: found)")
    parser.add_argument("--loader", metavar="FILE", help="the OpenCL loader to link with (default: found)")
    parser.add_argument("--rounds", type=int, default=31, help="of each row in turn (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write what was found")
    options = parser.parse_args()
    if options.native is None:
        engines.register_engines()
    else:
        os.environ["OCL_ICD_VENDORS"] = options.native
    driver, found = run(options.loader, options.rounds)
    lines = [driver, *table(found)]
    print("\n".join(lines))
    if options.json is not None:
        content = {
            "command": machine.command_line(sys.argv).replace(str(options.native), "FOLDER"),
            "machine": machine.description(),
            "driver": driver,
            "found": found,
            "lines": lines,
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0 if all(value for name, value in found.items() if name.startswith("check ")) else 1


if __name__ == "__main__":
    sys.exit(main())
