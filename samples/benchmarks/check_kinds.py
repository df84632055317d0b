"""Kernels with one planted mistake each, checked by vdev and by Oclgrind side by side: which finds what, by its line.

Both run every faulty kernel and every twin of `tests.harness.pairs`; Oclgrind (the Debian package's `oclgrind-kernel`) gets
simulation files with the same arguments. A mistake counts as found if a message names one of the lines that the pair
allows. `--write` stores the table with the other results.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.harness.pairs import PAIRS  # noqa: E402
from tests.harness.pairs_form import Pair  # noqa: E402
from vdev.backends.base import LocalBytes  # noqa: E402
from vdev.harness import FindingsError, Program  # noqa: E402
from vdev.harness.arguments import Empty  # noqa: E402

RESULT = Path(__file__).parent / "results" / "check_kinds.md"
_LINE = re.compile(r"At line (\d+) \(column \d+\) of input\.cl")
_TIMEOUT = 60  #: seconds for a kernel in Oclgrind
_TYPES = {"b": "char", "h": "short", "i": "int", "l": "long", "B": "uchar", "H": "ushort", "I": "uint", "L": "ulong",
          "f": "float", "d": "double", "q": "long", "Q": "ulong", "?": "uchar"}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a tool says of a kernel: `said` is false where it says nothing, `found` true where it names an allowed line."""

    said: bool
    found: bool
    note: str = ""


@dataclass(frozen=True)
class Row:
    pair: Pair
    ours: Outcome
    twin: Outcome
    theirs: Outcome
    their_twin: Outcome


def ours(pair: Pair, source: str) -> Outcome:
    kernel = Program(source, pair.options, report=pair.report).kernel("k")
    try:
        kernel(*pair.args, global_size=pair.global_size, local_size=pair.local_size)
    except FindingsError as error:
        lines = {finding.place.line for finding in error.findings}
        kinds = {finding.kind for finding in error.findings}
        return Outcome(True, lines <= pair.lines and kinds == {pair.kind}, ", ".join(sorted(kinds)))
    return Outcome(False, False)


def theirs(pair: Pair, source: str) -> Outcome:
    """Oclgrind with all of its detectors."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cl").write_text(source)
        (Path(folder) / "k.sim").write_text(simulation(pair, source))
        options = ["--build-options", pair.options] if pair.options else []
        command = [
            "oclgrind-kernel",
            "--data-races",
            "--uninitialized",
            "--max-errors",
            "200",
            *options,
            "k.sim",
        ]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            return Outcome(True, False, "does not end")
    text = done.stdout + done.stderr
    if "error:" in text or "Build failed" in text or "ERROR" in text:
        first = next((line for line in text.splitlines() if re.search("error|failed|ERROR", line)), "")
        return Outcome(False, False, f"not run: {first.strip()[:60]}")
    said = re.findall(
        r"^(?:Invalid|Uninitialized|Read-write|Write-write|Work-group|.*divergence)[^\n]*", text, re.MULTILINE
    )
    lines = {int(line) for line in _LINE.findall(text)}
    return Outcome(
        bool(said),
        bool(lines & pair.lines),
        re.sub(r" (?:at|to|from) .*address.*", "", said[0].strip()) if said else "",
    )


def simulation(pair: Pair, source: str) -> str:
    """The launch as a simulation file."""
    size = (pair.global_size,) if isinstance(pair.global_size, int) else pair.global_size
    local = pair.local_size if pair.local_size is not None else 16
    group = (local,) if isinstance(local, int) else local
    head = ["k.cl", "k", " ".join(map(str, (*size, 1, 1)[:3])), " ".join(map(str, (*group, 1, 1)[:3]))]
    names = re.search(r"\bk\(([^)]*)\)", source)
    kinds = names[1].split(",") if names else []
    return (
        "\n".join([*head, *(_argument(arg, kind) for arg, kind in zip(pair.args, kinds, strict=True))]) + "\n"
    )


def _argument(arg: Any, declared: str) -> str:
    if arg is None:
        return "<null>"
    if isinstance(arg, LocalBytes):
        return f"<size={arg.nbytes}>"
    if isinstance(arg, Empty):
        return f"<size={int(np.prod(arg.shape)) * arg.dtype.itemsize} noinit>"
    if isinstance(arg, np.ndarray):
        return f"<size={arg.nbytes} char>\n" + " ".join(str(v) for v in np.frombuffer(arg.tobytes(), np.int8))
    scalar = declared.split()[-2] if len(declared.split()) > 1 else "int"
    value = np.asarray(arg)
    if value.dtype.names is not None or value.ndim:
        raw = value.tobytes()
        return f"<size={len(raw)} char>\n" + " ".join(str(v) for v in np.frombuffer(raw, np.int8))
    nbytes = {
        "char": 1,
        "uchar": 1,
        "short": 2,
        "ushort": 2,
        "long": 8,
        "ulong": 8,
        "double": 8,
        "size_t": 8,
    }.get(scalar, 4)
    name = "ulong" if scalar == "size_t" else scalar
    return f"<size={nbytes} {name}>\n{arg}"


def rows(pairs: Sequence[Pair]) -> list[Row]:
    """Oclgrind's runs are made beside ours."""
    found = []
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            (pool.submit(theirs, pair, pair.faulty), pool.submit(theirs, pair, pair.twin)) for pair in pairs
        ]
        for pair, (faulty, twin) in zip(pairs, jobs, strict=True):
            row = Row(pair, ours(pair, pair.faulty), ours(pair, pair.twin), faulty.result(), twin.result())
            found.append(row)
            alarms = (
                f"{'alarm' if row.twin.said else ''} {row.their_twin.note if row.their_twin.said else ''}"
            )
            print(
                f"{pair.kind:24} {pair.name:50} {_word(row.ours):10} {_word(row.theirs):10} {row.theirs.note:50} {alarms}",
                flush=True,
            )
    return found


def _word(outcome: Outcome) -> str:
    return "yes" if outcome.found else "elsewhere" if outcome.said else "no"


def table(found: Sequence[Row]) -> str:
    """Markdown."""
    version = subprocess.run(
        ["oclgrind-kernel", "--version"], capture_output=True, text=True, check=False
    ).stdout
    name = next((line.strip() for line in version.splitlines() if "Oclgrind" in line), "Oclgrind")
    lines = [
        "# Planted mistakes: vdev beside Oclgrind",
        "",
        f"`python samples/benchmarks/check_kinds.py --write`; {name} with `--data-races --uninitialized`. *yes*: a message names",
        "the line; *elsewhere*: there is a message, of another line; *not run*: the tool does not take the kernel.",
        "",
        "| kind | kernels | vdev finds | Oclgrind finds | Oclgrind alone | vdev: alarms on twins | Oclgrind: alarms on twins |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in (*sorted({row.pair.kind for row in found}), None):
        chosen = [row for row in found if kind in (None, row.pair.kind)]
        alone = sum(row.theirs.found and not row.ours.found for row in chosen)
        counts = [
            len(chosen), sum(row.ours.found for row in chosen), sum(row.theirs.found for row in chosen), alone,
            sum(row.twin.said for row in chosen), sum(row.their_twin.said for row in chosen),
        ]  # fmt: skip
        lines.append(f"| {kind or 'all'} | " + " | ".join(map(str, counts)) + " |")
    lines += ["", "| kernel | kind | vdev | Oclgrind | what Oclgrind says |", "|---|---|---|---|---|"]
    for row in found:
        word = "not run" if row.theirs.note.startswith("not run") else _word(row.theirs)
        said = row.theirs.note.removeprefix("not run: ").replace("|", "/")
        lines.append(f"| {row.pair.name} | {row.pair.kind} | {_word(row.ours)} | {word} | {said} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    parser.add_argument("--only", default="", help="kernels whose names contain this")
    given = parser.parse_args()
    if shutil.which("oclgrind-kernel") is None:
        print("oclgrind-kernel is not here: install the Debian package oclgrind", file=sys.stderr)
        return 2
    found = rows([pair for pair in PAIRS if given.only in pair.name])
    if given.write:
        RESULT.write_text(table(found))
    missed = [row.pair.name for row in found if not row.ours.found or row.twin.said]
    print(f"{len(found)} kernels; vdev found {sum(row.ours.found for row in found)}, Oclgrind "
          f"{sum(row.theirs.found for row in found)}; missed or alarmed by vdev: {missed}")  # fmt: skip
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
