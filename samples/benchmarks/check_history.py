"""Mistakes in public OpenCL projects, before and after their fixes: they are found before, and nothing is reported after.

The kernels come from clones that the user has, in a folder where each is called `owner+name` or `name`; nothing is fetched, and a
case whose clone or commit is not there is skipped and says so. Oclgrind (Debian package `oclgrind`) runs the same calls where it is
installed. Exit status 1 if a mistake is missed, or if something is reported for a fixed kernel that the case does not explain.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from history_cases import CASES, Case

from vdev.backends.base import LocalBytes
from vdev.harness import FindingsError, Program
from vdev.harness.arguments import Empty, Given, Ready, prepare

RESULT = Path(__file__).parent / "results" / "check_history"
_RAW = re.compile(r'R"(\w*)\((.*)\)\1"', re.DOTALL)
_TIMEOUT = 120  #: seconds for a kernel in Oclgrind
_SAID = {
    "invalid accesses": r"^Invalid (?:read|write|memory)",
    "races": r"^(?:Read-write|Write-write) data race",
    "uninitialised values": r"^Uninitialized value",
}


class NotThere(Exception):
    """What a case needs is not among the clones; the text says what."""


@dataclass
class Row:
    """What was said of a case. `skipped`: why nothing was run."""

    project: str
    mended_by: str
    file: str
    kernel: str
    wrong: str
    found_before: list[str] = field(default_factory=list)
    found_after: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    oclgrind_before: str = ""
    oclgrind_after: str = ""
    skipped: str = ""
    left: str = ""  #: why what is found afterwards is real

    @property
    def is_silent(self) -> bool:
        """Found before, and nothing said after."""
        return bool(self.found_before) and not (self.found_after or self.notes)

    @property
    def is_right(self) -> bool:
        explained = bool(self.left) and set(self.found_after) < set(self.found_before) and not self.notes
        return bool(self.skipped) or self.is_silent or explained


def clone_of(project: str, clones: Path) -> Path:
    """Raises NotThere."""
    owner, _, name = project.partition("/")
    for folder in (f"{owner}+{name}", f"{owner}/{name}", name, f"{name}.git"):
        if (clones / folder).is_dir():
            return clones / folder
    raise NotThere(f"no clone of {project}")


def read(clone: Path, project: str, revision: str, path: str) -> str:
    """A file as a commit has it, from the clone alone. Raises NotThere."""
    quiet = {"GIT_NO_LAZY_FETCH": "1", "GIT_CEILING_DIRECTORIES": str(clone.resolve().parent), "LC_ALL": "C"}
    done = subprocess.run(
        ["git", "-C", str(clone.resolve()), "show", f"{revision}:{path}"],
        capture_output=True, text=True, errors="replace", check=False, env=os.environ | quiet,
    )  # fmt: skip
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["git show fails"])[0]
        raise NotThere(f"the clone of {project} has no {revision[:8]}{revision[40:]}:{path} ({reason})")
    return done.stdout


def source(case: Case, clones: Path, *, mended: bool) -> str:
    """The program as it was before or after the commit. Raises NotThere."""
    clone = clone_of(case.project, clones)
    revision = case.mended_by + ("" if mended else "~")
    texts = [read(clone, case.project, revision, path) for path in case.files]
    return "\n".join([case.preface, *(raw[2] if (raw := _RAW.search(text)) else text for text in texts)])


def found(program: Program, case: Case, *, mended: bool) -> tuple[list[str], list[str]]:
    """(kinds and variables, what was not checked)"""
    kernel = program.kernel(case.kernel)
    try:
        outputs = kernel(*case.arguments(mended), global_size=case.global_size, local_size=case.local_size)
    except FindingsError as error:
        return sorted({f"{each.kind}: {each.argument}" for each in error.findings}), []
    return [], sorted({text for _, text in outputs.notes})


def under_oclgrind(program: Program, case: Case, *, mended: bool) -> str:
    """How often Oclgrind says what."""
    if shutil.which("oclgrind-kernel") is None:
        return "not installed"
    kernel = program.kernel(case.kernel)
    ready = prepare(kernel.name, kernel.infos, kernel.types, case.arguments(mended))
    sizes = [" ".join(map(str, (*size, 1, 1)[:3])) for size in (case.global_size, case.local_size)]
    kinds = ["--data-races", *(["--uninitialized"] if case.initialised else [])]
    options = ["--build-options", case.options] if case.options else []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cl").write_text(program.source)
        (Path(folder) / "k.sim").write_text(
            "\n".join(["k.cl", case.kernel, *sizes, *map(_simulated, ready)]) + "\n"
        )
        try:
            done = subprocess.run(
                ["oclgrind-kernel", *kinds, "--max-errors", "1000", *options, "k.sim"], cwd=folder, capture_output=True,
                text=True, errors="replace", timeout=_TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"does not end within {_TIMEOUT} s"
    return said_in(done.stdout + done.stderr)


def said_in(text: str) -> str:
    counts = Counter({name: len(re.findall(line, text, re.MULTILINE)) for name, line in _SAID.items()})
    failed = re.search(
        r"(?im)^.*(?:build failed|fatal error|error:|OCLGRIND (?:FATAL )?ERROR|^Line \d+: ).*$", text
    )
    if failed and not counts.total():
        return f"not run: {failed[0].strip()[:60]}"
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"


def _simulated(arg: Ready) -> str:
    """An argument in a simulation file."""
    match arg:
        case None:
            return "<null>"
        case LocalBytes():
            return f"<size={arg.nbytes} char>"
        case Empty():
            return f"<size={int(np.prod(arg.shape)) * arg.dtype.itemsize} char noinit>"
        case Given():
            raw = arg.whole.tobytes()
        case bytes():
            raw = arg
    return f"<size={len(raw)} char>\n" + " ".join(map(str, np.frombuffer(raw, np.int8)))


def row(case: Case, clones: Path) -> Row:
    said = Row(case.project, case.mended_by, case.files[-1], case.kernel, case.wrong)
    try:
        before, after = (
            Program(source(case, clones, mended=mended), case.options) for mended in (False, True)
        )
    except NotThere as reason:
        said.skipped = str(reason)
        return said
    said.found_before, _ = found(before, case, mended=False)
    said.found_after, said.notes = found(after, case, mended=True)
    said.left = case.left[1] if said.found_after == sorted(case.left[0]) else ""
    said.oclgrind_before = under_oclgrind(before, case, mended=False)
    said.oclgrind_after = under_oclgrind(after, case, mended=True)
    return said


def table(rows: Sequence[Row]) -> str:
    """Rows as Markdown."""
    head = (
        "project", "mended by", "file, kernel", "what was wrong", "found before", "found after", "Oclgrind before",
        "Oclgrind after",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for each in rows:
        where = f"`{Path(each.file).name}`, `{each.kernel}`"
        cells = [each.project, each.mended_by[:8], where, each.wrong]
        if each.skipped:
            cells += [f"skipped: {each.skipped}", "", "", ""]
        else:
            after = [*each.found_after, *(f"note: {text}" for text in each.notes)]
            cells += ["; ".join(each.found_before) or "nothing", "; ".join(after) or "nothing"]
            cells += [each.oclgrind_before, each.oclgrind_after]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    ran = [each for each in rows if not each.skipped]
    silent, others = (
        sum(each.is_silent for each in ran),
        sum(bool(each.left) and each.is_right for each in ran),
    )
    more = f"; {others} found, with another mistake left that is real" if others else ""
    return f"{silent} of {len(ran)} found before and silent after{more}; {len(rows) - len(ran)} skipped"


def page(rows: Sequence[Row]) -> str:
    left = "".join(f"\n`{each.kernel}` afterwards: {each.left}.\n" for each in rows if each.left)
    return f"""# Bugs of public projects, before and after they were mended

`python samples/benchmarks/check_history.py --clones FOLDER --write`: kernels as they stood before a commit that mended a mistake, and
after it, called through `vdev.harness` with small arrays made for the purpose. The kernels are not kept here: FOLDER has clones of the
projects. Oclgrind (`--data-races`, and `--uninitialized` where it does not end in errors of its own) ran the same calls, and stops
counting at 1,000.

{summary(rows)}.

{table(rows)}
{left}
Looked at and left out: `bottom_scan` of vetter/shoc (240335b), where the barriers of the scan stand between the accesses that the
commit parts, and `edgeTrackKernel` of arrayfire/arrayfire (8c635962b), which is found before and has further races after: neighbours
are read while others mark them. Before, it hangs at times, as the race decides how often work-items meet at the barrier.
"""


def main(argv: Sequence[str] | None = None, cases: Sequence[Case] = CASES) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--clones", type=Path, required=True, metavar="FOLDER", help="clones called owner+name or name"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose project or kernel holds this")
    parser.add_argument("--json", type=Path, help="write the rows")
    parser.add_argument("--write", action="store_true", help=f"write results/{RESULT.name}.md and .json")
    given = parser.parse_args(argv)
    rows = [row(case, given.clones) for case in cases if given.only in f"{case.project} {case.kernel}"]
    print(f"{table(rows)}\n\n{summary(rows)}")
    paths = [*([given.json] if given.json else []), *([RESULT.with_suffix(".json")] if given.write else [])]
    for path in paths:
        path.write_text(json.dumps([asdict(each) for each in rows], indent=1) + "\n", "utf-8")
    if given.write:
        RESULT.with_suffix(".md").write_text(page(rows), "utf-8")
    return 0 if all(each.is_right for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
