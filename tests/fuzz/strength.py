"""The generator's strength: `python -m tests.fuzz.strength`, a table of planted defects and the programs each took.

Each defect is planted in a process of its own that runs the programs of one seed in order, until one differs. The table is
written after each; a run that is broken off is gone on with by the same command. Decides nothing of what a defect is
(`mutations`). The status is 1 if one was not found.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from .__main__ import worker_lists
from .mutations import DEFECTS, Defect, check_applies
from .run import ROOT, Options, Outcome, Run
from .writer import Features, random_batch

#: programs of a batch
SIZE = 8


class Bench:
    """Runs the generator against defects. Programs that differ without one prove nothing: a batch in which a defect is found is run
    without it as well, once.
    """

    def __init__(self, args: argparse.Namespace, cache: str) -> None:
        self.args = args
        self.options = Options(
            args.seed, worker_lists(args.workers), jobs=1, size=SIZE, shrink=0, cache=cache
        )
        self.anyhow: dict[
            int, set[str]
        ] = {}  #: programs of a batch that differ without a defect, as "batch:name"

    def run(self, defect: Defect) -> Outcome:
        """Up to the first program that the defect alone makes different."""
        while True:
            left_out = ",".join(sorted(set().union(*self.anyhow.values())))
            options = replace(
                self.options, defect=defect.name, failures=1, left_out=left_out, excused=defect.checked
            )
            outcome = Run(options, self.args.programs, float("inf"), lambda text: None).run()
            took, _ = first_failure(outcome)
            if took is None or not self._differ_anyhow((took - 1) // SIZE) - set(left_out.split(",")):
                return outcome

    def _differ_anyhow(self, batch: int) -> set[str]:
        if batch not in self.anyhow:
            outcome = Run(replace(self.options, first=batch), SIZE, float("inf"), print).run()
            keys = [re.match(r"batch (\d+) (p\d+)", key) for key in outcome.failures]
            self.anyhow[batch] = {f"{key[1]}:{key[2]}" for key in keys if key is not None}
        return self.anyhow[batch]


def in_cuda(defect: str, seed: int, first: int, stop: int) -> Iterator[tuple[int, dict[str, str]]]:
    """By batch, the programs whose translation to CUDA differs, and how."""
    command = [sys.executable, "-m", "tests.fuzz.cuda_child", "--seed", str(seed), "--size", str(SIZE)]
    command += ["--defect", defect, str(first), str(stop)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            for line in child.stdout or ():
                if line.startswith("CUDA "):
                    said = json.loads(line[5:])
                    yield said["batch"], dict(text.split(": ", 1) for text in said["found"])
        finally:
            child.kill()


def run_in_cuda(defect: Defect, args: argparse.Namespace) -> Outcome:
    """As Bench.run, for the translation to CUDA, run as the host's C++."""
    outcome, started, stop = Outcome(), time.monotonic(), -(-args.programs // SIZE)
    for number, found in in_cuda(defect.name, args.seed, 0, stop):
        outcome.programs = (number + 1) * SIZE
        anyhow = dict(in_cuda("", args.seed, number, number + 1)).get(number, {}) if found else {}
        for name in sorted(set(found) - set(anyhow), key=lambda name: int(name[1:]))[:1]:
            outcome.programs = number * SIZE + int(name[1:]) + 1
            outcome.failures[f"batch {number} {name}"] = {"what": found[name]}
        if outcome.failures:
            break
    if not outcome.programs:
        outcome.errors.append(f"{defect.name}: no program was run")
    outcome.seconds = time.monotonic() - started
    return outcome


def run_in_tests(defect: Defect) -> Outcome:
    """As Bench.run, for a file of tests: each counts as a program."""
    outcome, started = Outcome(), time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz.planted_tests", defect.name]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("TESTS ")]
    if not lines:
        outcome.errors.append(f"{defect.name}: {ended.stderr.strip() or ended.stdout[-300:]}")
        return outcome
    said = json.loads(lines[-1][6:])
    outcome.programs, outcome.seconds = said["ran"], time.monotonic() - started
    if said["failed"]:
        batch, at = divmod(said["ran"] - 1, SIZE)
        outcome.failures[f"batch {batch} p{at}"] = {"what": said["failed"]}
    return outcome


def measured(defect: Defect, bench: Bench) -> dict[str, Any]:
    """Raises LookupError where the defect does not apply to the code of today: a process that it ends would count as found."""
    check_applies(defect)
    if defect.tests:
        outcome = run_in_tests(defect)
    else:
        outcome = run_in_cuda(defect, bench.args) if defect.kind == "cuda" else bench.run(defect)
    if outcome.errors:
        raise SystemExit("; ".join(outcome.errors))
    took, what = first_failure(outcome)
    found = {
        "defect": defect.name,
        "kind": f"{defect.kind}, tests" if defect.tests and defect.kind != "session" else defect.kind,
        "issue": defect.issue,
        "programs": took,
        "what": what[:300],
    }
    return found | {"ran": outcome.programs, "seconds": round(outcome.seconds, 1)}


def first_failure(outcome: Outcome) -> tuple[int | None, str]:
    """Programs up to the first that failed, that one included."""
    for key, failure in outcome.failures.items():
        match = re.match(r"batch (\d+) (?:p(\d+))?", key)
        if match is not None:
            return int(match[1]) * SIZE + int(match[2] or 0) + 1, failure["what"]
    return None, ""


def markdown(table: list[dict[str, Any]], programs: str) -> str:
    """`programs`: the digest of those that are not marked as an earlier generator's."""
    lines = ["| defect | where | fault | programs |", "|---|---|---|---|"]
    for row in table:
        took = row["programs"] if row["programs"] is not None else f"not in {row['ran']}"
        mark = "" if row["generator"] == programs else " *"
        lines.append(f"| {row['defect']} | {row['kind']} | {row['issue']} | {took}{mark} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--programs", type=int, default=2400, help="how many a defect may take (default: %(default)s)"
    )
    parser.add_argument("--workers", default="cpu:3", help="a session each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="defects by name, as in a shell")
    parser.add_argument(
        "--again", action="store_true", help="measure what the table in --json has found, too"
    )
    parser.add_argument("--cache", default="", metavar="FOLDER", help="keeps what the native device gives")
    parser.add_argument("--json", default="", metavar="FILE", help="write the table to a file")
    args = parser.parse_args()
    programs, rows = generator(args.seed), written_rows(args)
    table = [] if args.again else [row for row in rows if is_known(row, programs, args)]
    known = {row["defect"] for row in table}
    with tempfile.TemporaryDirectory() as scratch:
        cache = args.cache or scratch
        Path(cache).mkdir(parents=True, exist_ok=True)
        bench = Bench(args, cache)
        for defect in in_order(DEFECTS, rows):
            if defect.name in known or not fnmatch.fnmatchcase(defect.name, args.only):
                continue
            row = measured(defect, bench) | {"generator": programs}
            table.append(row)
            print(
                f"{row['programs'] or 'not found':>9}  {row['seconds']:6.1f} s  {row['kind']:12}  {row['defect']}",
                flush=True,
            )
            if args.json:
                write(args, table, rows, programs)
    print(markdown(table, programs))
    return int(any(row["programs"] is None for row in table))


def in_order(defects: Iterable[Defect], rows: list[dict[str, Any]]) -> list[Defect]:
    """Those first that took least time before, so that a run that is broken off has measured most; new ones last."""
    took = {row["defect"]: row["seconds"] for row in rows}
    return sorted(defects, key=lambda defect: took.get(defect.name, float("inf")))


def generator(seed: int) -> str:
    """A digest of programs: what was measured with others is measured again."""
    text = "".join(random_batch(seed, number, SIZE, Features()).source() for number in range(12))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def written_rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of the table in --json, of whatever programs with this seed and these workers."""
    path = Path(args.json)
    content = json.loads(path.read_text()) if args.json and path.exists() else {}
    if (content.get("seed"), content.get("workers")) != (args.seed, args.workers):
        return []
    names = {defect.name for defect in DEFECTS}
    return [row for row in content["defects"] if row["defect"] in names]


def is_known(row: dict[str, Any], programs: str, args: argparse.Namespace) -> bool:
    """Whether a row is not to be measured now: found with these programs, or not in as many, or left out by --only."""
    if row["generator"] != programs:
        return False
    enough = row["programs"] is not None or row["ran"] >= args.programs
    return enough or not fnmatch.fnmatchcase(row["defect"], args.only)


def write(
    args: argparse.Namespace, table: list[dict[str, Any]], before: list[dict[str, Any]], programs: str
) -> None:
    """`before`: rows of which those stay that `table` does not have."""
    order = {defect.name: number for number, defect in enumerate(DEFECTS)}
    fresh = {row["defect"] for row in table}
    kept = [row for row in before if row["defect"] not in fresh]
    table = sorted([*table, *kept], key=lambda row: order.get(row["defect"], len(order)))
    content = {
        "seed": args.seed,
        "workers": args.workers,
        "limit": args.programs,
        "generator": programs,
        "seconds": round(sum(row["seconds"] for row in table)),
        "defects": table,
    }
    path = Path(args.json)
    path.write_text(json.dumps(content, indent=1) + "\n")
    head = (
        "# Planted defects\n\n"
        f"`python -m tests.fuzz.strength --seed {args.seed} --workers {args.workers} --programs {args.programs} --json {path.name}`\n"
        "plants each in a process of its own and runs the programs of that seed in order. The last column: programs until one\n"
        "differed from its native result; the numbers are those of faults that were found by hand and are put back. A star: measured\n"
        "with an earlier generator. Where it says session or tests, tests of one file are run instead of programs.\n\n"
    )
    path.with_name(f"{path.stem.upper()}.md").write_text(head + markdown(table, programs))


if __name__ == "__main__":
    sys.exit(main())
