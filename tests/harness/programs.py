"""`python -m tests.harness.programs`: real programs whole under `vdev-check`, and a table of what it said.

The samples, PyOpenCL's examples and its tests, file by file, and, where loopy is installed, its tests: its own folder of them,
or the one that `--loopy` names. Each program runs in a process of its own with every launch checked. A row of the table says
how many launches were checked, what was found, and what could not be checked and why. A finding that is known to be real
stands in `EXPLAINED` with its reason; the exit status is 0 where no other was made, and every program ended as it should.

A program that takes too long is interrupted, and its row says how far it came. `--json FILE` keeps the rows, each with the
commit that it was made at, and writes the table beside them; a run of some programs replaces their rows alone.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.outcomes import environment
from tests.conformance.source import fetch
from tests.cpu.test_samples import ARGUMENTS, PICTURES, SAMPLES

SECONDS = 1800
LAST_SECONDS = 60  #: for an interrupted program to say how far it came
ROOT = Path(__file__).parents[2]
#: A shell's background jobs are deaf to interrupts, and so would be what they start.
_CHILD = """
import json, signal, sys
from dataclasses import asdict
from vdev.harness.reports import run_program
signal.signal(signal.SIGINT, signal.default_int_handler)
report = run_program(sys.argv[3:], quiet=True, most=int(sys.argv[2]))
fields = asdict(report)
open(sys.argv[1], "w").write(json.dumps(fields))
"""
_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull)


@dataclass(frozen=True)
class Known:
    """A finding that is no false alarm: by kernel, kind and variable (regular expressions), and why it is one; `programs`:
    in which of them.
    """

    kernel: str
    kind: str
    argument: str
    reason: str
    programs: str = r".*"


EXPLAINED = (
    Known(
        r"scan_lev[12]",
        "unwritten-value",
        r"psc_l(data|_segment_start_flags)|psc_sum",
        "the last tile of a scan is partly filled; work-items behind its end read, and drop what they make of it",
    ),
    Known(
        r"scan_final_update",
        "unwritten-value",
        r"psc_ldata",
        "work-items behind the end of a scan's last tile read their neighbours' items, and do not look at them",
    ),
    Known(
        r"scan_lev1",
        "race-between-items",
        r"psc_partial_scan_buffer",
        "a mistake: work-item 0 reads from global memory what another of its group wrote, and the barrier between them "
        "(local_barrier) fences local memory alone",
    ),
    Known(
        r"advance",
        "race-between-groups",
        r"levels",
        "breadth_first_search sets levels without atomics: all who set one set the same, and a new one is not yet looked for",
        r"breadth_first_search",
    ),
    Known(
        r"brightness_adj",
        "conversion-out-of-range",
        r".*",
        "a mistake: dark pixels become negative, and then unsigned without _sat",
        r"image_filters_using_image2d_t",
    ),
    Known(
        r"sum",
        "unwritten-value",
        r"a",
        "test_wrapper doubles a buffer of which nobody has written anything",
        r"test_wrapper",
    ),
    Known(
        r"loopy_kernel",
        "unwritten-value",
        r"y[12]?",
        "test_callables packs a call's results: what they were before the call is copied in, and nobody has written it",
        r"test_callables",
    ),
    Known(
        r"loopy_kernel",
        "unwritten-value",
        r"temp|out",
        "test_atomic_load: loopy makes an atomic store of a loop with a compare-and-swap, which compares with what is there: "
        "before the first store what nobody has written",
        r"test_loopy",
    ),
    Known(
        r"loopy_kernel",
        "unwritten-value",
        r"t(_arr|_local)?_save_slot",
        "test_save_…: a kernel that the host launches in a loop reloads its array from memory before it has saved it once; of "
        "t and t_arr all that was reloaded is then replaced, of t_local what is not is saved again",
        r"test_loopy",
    ),
    Known(
        r"loopy_kernel_and_loopy_kernel",
        "unwritten-value",
        r"f",
        "test_finite_difference_expr_subst fills f from 1 to n, and takes the differences of f from 0 to n + 1",
        r"test_loopy",
    ),
    Known(
        r"loopy_kernel",
        "unwritten-value",
        r"z",
        "test_nop and test_global_barrier add to a temporary array that nothing has filled",
        r"test_loopy",
    ),
    Known(
        r"loopy_kernel(_[01])?",
        "race-between-items",
        r"z",
        "test_global_barrier, of barriers alone: each work-item reads its neighbour's z[i + 1] and writes its own in one "
        "statement, without a barrier",
        r"test_loopy",
    ),
    Known(
        r"loopy_kernel",
        "unwritten-value",
        r"tmp",
        "test_vec_loops_surrounded_by_preds stores elements 1 to 3 of tmp and doubles element 0 as well",
        r"test_loopy",
    ),
)


@dataclass(frozen=True)
class Case:
    """A program: what it is called, its command line behind `vdev-check`, and the folder it runs in. `needs_end`: whether
    it has to end with status 0.
    """

    group: str
    name: str
    command: tuple[str, ...]
    folder: Path
    needs_end: bool = True


def samples(folder: Path) -> Iterator[Case]:
    for name, arguments in ARGUMENTS.items():
        picture = ["--output", str(folder / "picture.png")] if name in PICTURES else []
        yield Case("samples", name, (str(SAMPLES / f"{name}.py"), *arguments.split(), *picture), folder)


def examples(folder: Path) -> Iterator[Case]:
    """PyOpenCL's. One that asks for a screen or a terminal, or for a package that is not here, ends by itself."""
    copy = shutil.copytree(fetch() / "examples", folder / "examples")
    for path in sorted(copy.glob("*.py")):
        yield Case("examples", path.stem, (path.name,), copy, needs_end=False)


def suite(_folder: Path) -> Iterator[Case]:
    yield from tests_in("pyopencl", fetch() / "test")


def loopy(_folder: Path) -> Iterator[Case]:
    if importlib.util.find_spec("loopy") is not None:
        yield from tests_in("loopy", fetch("loopy") / "test")


def tests_in(group: str, folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("test_*.py")):
        yield Case(group, path.stem, (*_PYTEST, f"--rootdir={folder}", path.name), folder, needs_end=False)


def run(
    case: Case, seconds: float = SECONDS, most: int = 0, cache: Path | None = None, chosen: str = ""
) -> dict[str, Any]:
    """A row: counts, findings that are explained and others, notes, and what could not be checked. `most`: launches of each
    kernel that are checked; 0: all. `cache`: a folder for what was compiled, kept for further runs. `chosen`: which of a
    file's tests, as for pytest's `-k`.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "report.json")
        environ = environment(None) | {"XDG_CACHE_HOME": str(cache or scratch), "VDEV_WORKERS": "cpu:1"}
        command = [*case.command, *(["-k", chosen] if chosen else [])]
        with Path(scratch, "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", _CHILD, str(path), str(most), *command], cwd=case.folder, env=environ,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            in_time = _ends(process, seconds)
        found = json.loads(path.read_text()) if path.exists() else None
        output = Path(scratch, "log").read_text(errors="replace")
    row: dict[str, Any] = {
        "group": case.group, "program": case.name, "seconds": round(time.monotonic() - started), "commit": commit(),
    } | ({"most": most} if most else {}) | ({"chosen": chosen} if chosen else {})  # fmt: skip
    late = "" if in_time else f"not done after {seconds:.0f} s"
    if found is None:
        return row | {"ended": late or "without a report", "checked": 0, "findings": []}
    row |= _row(case.name, found, output)
    return row | ({"ended": f"{late}: {row['ended']}"} if late else {})


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it ends by itself in time. Else it is interrupted, and ended where that does not help."""
    for limit, end in ((seconds, signal.SIGINT), (LAST_SECONDS, signal.SIGKILL)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)
            return end is signal.SIGINT
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, end)
    process.wait()
    return False


def commit() -> str:
    """What the checkout is, and a plus where files differ from it."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def _row(program: str, found: dict[str, Any], output: str) -> dict[str, Any]:
    findings = [_finding(program, fields) for fields in found["findings"]]
    return {
        "ended": _ended(found["status"], output),
        "checked": found["nchecked"],
        "findings": [text for text, reason in findings if reason is None],
        "explained": {text: reason for text, reason in findings if reason is not None},
        "notes": sorted({f"{kernel}: {what}" for kernel, _, what in found["notes"]}),
        "not checked": found["unchecked"],
    }


def _finding(program: str, fields: dict[str, Any]) -> tuple[str, str | None]:
    """A finding of a program in a line, and why it is none to worry about."""
    text = f"{fields['kind']}: {fields['message']} ({fields['place']['excerpt'].strip()})"
    for known in EXPLAINED:
        asked = (
            (known.programs, program),
            (known.kernel, fields["kernel"]),
            (known.kind, fields["kind"]),
            (known.argument, fields["argument"]),
        )
        if all(re.fullmatch(pattern, value) for pattern, value in asked):
            return text, known.reason
    return text, None


def _ended(status: int, output: str) -> str:
    """The status, and for tests what pytest says of them."""
    summary = re.findall(r"^\d+ (?:passed|failed|skipped|error).* in [\d.]+s.*$", output, re.MULTILINE)
    if summary:
        return re.sub(r", \d+ warnings?| in .*", "", str(summary[-1]))
    return "well" if status == 0 else f"status {status}: {(output.strip().splitlines() or [''])[-1][:100]}"


def is_well(case: Case, row: dict[str, Any]) -> bool:
    """Whether nothing is left to explain."""
    return (
        not row["findings"]
        and not row["ended"].startswith("not done")
        and (not case.needs_end or row["ended"] == "well")
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| program | ended | launches checked | findings | explained | notes | not checked | seconds | commit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        unchecked = "; ".join(f"{count}: {reason}" for reason, count in row.get("not checked", {}).items())
        cells = (
            f"{row['group']}: {row['program']}{_chosen(row)}", row["ended"], _checked(row), len(row["findings"]),
            len(row.get("explained", ())), len(row.get("notes", ())), unchecked, row["seconds"], row.get("commit", ""),
        )  # fmt: skip
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _chosen(row: dict[str, Any]) -> str:
    return f" ({row['chosen']})" if "chosen" in row else ""


def _checked(row: dict[str, Any]) -> str:
    return (
        f"{row['checked']} (at most {row['most']} of each kernel)" if "most" in row else str(row["checked"])
    )


def page(rows: Sequence[dict[str, Any]], command: str) -> str:
    """The table, what made it, and why findings in it are none to worry about."""
    reasons = sorted({(row["program"], why) for row in rows for why in row.get("explained", {}).values()})
    parts = [
        "# Real programs under `vdev-check`",
        f"Made with `{command}`, one program at a time; {sum(row['seconds'] for row in rows)} seconds in all.",
        table(rows),
        "Explained:",
        "\n".join(f"- {program}: {why}" for program, why in reasons) or "- nothing",
        "A row *not done* says how far the program came before its time was over; what came after that is not known.",
    ]
    return "\n\n".join(parts) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.programs", description=__doc__)
    parser.add_argument("--groups", default=",".join(GROUPS), help="of these (default: %(default)s)")
    parser.add_argument("--loopy", metavar="FOLDER", type=Path, help="loopy's folder of tests")
    parser.add_argument("--only", default="", help="programs whose names hold this text")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="for each program (default: %(default)s)"
    )
    parser.add_argument("--most", type=int, default=0, help="launches of each kernel to check (default: all)")
    parser.add_argument("--tests", default="", help="of files of tests those that fit, as for pytest's -k")
    parser.add_argument("--cache", metavar="FOLDER", type=Path, help="keep there what is compiled")
    parser.add_argument(
        "--json", type=Path, help="a file for the rows, and beside it the table; rows of other programs stay"
    )
    return parser.parse_args()


GROUPS = {"samples": samples, "examples": examples, "pyopencl": suite, "loopy": loopy}


def _cases(options: argparse.Namespace, scratch: Path) -> Iterator[Case]:
    for group in options.groups.split(","):
        own = group == "loopy" and options.loopy
        cases = tests_in(group, options.loopy.resolve()) if own else GROUPS[group](scratch)
        yield from (case for case in cases if options.only in case.name)


def _keep(path: Path, rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    ordered = sorted(rows.values(), key=lambda row: (list(GROUPS).index(row["group"]), row["program"]))
    path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    command = shlex.join(["python", "-m", "tests.harness.programs", *sys.argv[1:]])
    path.with_suffix(".md").write_text(page(ordered, command))


def main() -> int:
    options = _options()
    known = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    rows = {(row["group"], row["program"]): row for row in known}
    done = True
    with tempfile.TemporaryDirectory() as scratch:
        for case in _cases(options, Path(scratch)):
            row = run(
                case, options.seconds, options.most, options.cache and options.cache.resolve(), options.tests
            )
            rows[case.group, case.name] = row
            done = done and is_well(case, row)
            print(
                f"{case.group} {case.name}: {row['ended']}, {row['checked']} checked, {row['seconds']} s",
                flush=True,
            )
            for text in row["findings"]:
                print(f"  {text}", flush=True)
            if options.json:
                _keep(options.json, rows)
    print(table(list(rows.values())))
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
