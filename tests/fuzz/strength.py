"""The generator's strength: `python -m tests.fuzz.strength`, a table of planted defects and the programs each took.

Each defect is planted in a process of its own that runs the programs of one seed in order, until one differs. Decides
nothing of what a defect is (`mutations`). The status is 1 if one was not found.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .__main__ import worker_lists
from .mutations import DEFECTS, Defect
from .run import Options, Outcome, Run

#: programs of a batch
SIZE = 8


def differ_anyhow(args: argparse.Namespace, cache: str) -> str:
    """Programs that differ without a defect; their native results come into the cache."""
    options = Options(args.seed, worker_lists(args.workers), jobs=args.jobs, size=SIZE, shrink=0, cache=cache)
    outcome = Run(options, args.programs, float("inf"), print).run()
    keys = [re.match(r"batch (\d+) (p\d+)", key) for key in outcome.failures]
    return ",".join(f"{key[1]}:{key[2]}" for key in keys if key is not None)


def measured(defect: Defect, args: argparse.Namespace, cache: str, left_out: str) -> dict[str, Any]:
    options = Options(
        args.seed,
        worker_lists(args.workers),
        jobs=1,
        size=SIZE,
        shrink=0,
        defect=defect.name,
        failures=1,
        cache=cache,
        left_out=left_out,
    )
    outcome = Run(options, args.programs, float("inf"), lambda text: None).run()
    took, what = first_failure(outcome)
    found = {
        "defect": defect.name,
        "kind": defect.kind,
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


def markdown(table: list[dict[str, Any]]) -> str:
    lines = ["| defect | where | fault | programs |", "|---|---|---|---|"]
    for row in table:
        took = row["programs"] if row["programs"] is not None else f"not in {row['ran']}"
        lines.append(f"| {row['defect']} | {row['kind']} | {row['issue']} | {took} |")
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
    parser.add_argument(
        "--jobs", type=int, default=2, help="processes that look for what differs without a defect"
    )
    parser.add_argument(
        "--left-out", default=None, metavar="LIST", help="what does, as printed by a run before"
    )
    parser.add_argument("--only", default="*", metavar="PATTERN", help="defects by name, as in a shell")
    parser.add_argument("--known", default="", metavar="FILE", help="a table that is gone on with")
    parser.add_argument("--cache", default="", metavar="FOLDER", help="keeps what the native device gives")
    parser.add_argument("--json", default="", metavar="FILE", help="write the table to a file")
    args = parser.parse_args()
    table: list[dict[str, Any]] = json.loads(Path(args.known).read_text())["defects"] if args.known else []
    known = {row["defect"] for row in table if row["programs"] is not None}
    table = [row for row in table if row["defect"] in known]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        cache = args.cache or scratch
        Path(cache).mkdir(parents=True, exist_ok=True)
        left_out = args.left_out if args.left_out is not None else differ_anyhow(args, cache)
        print(f"differ without a defect: {left_out or 'none'}", flush=True)
        for defect in sorted(DEFECTS, key=lambda defect: defect.kind == "analysis"):
            if defect.name in known or not fnmatch.fnmatchcase(defect.name, args.only):
                continue
            row = measured(defect, args, cache, left_out)
            table.append(row)
            print(
                f"{row['programs'] or 'not found':>9}  {row['seconds']:6.1f} s  {row['kind']:12}  {row['defect']}",
                flush=True,
            )
            if args.json:
                write(args, table, time.monotonic() - started)
    print(markdown(table))
    return int(any(row["programs"] is None for row in table))


def write(args: argparse.Namespace, table: list[dict[str, Any]], seconds: float) -> None:
    order = {defect.name: number for number, defect in enumerate(DEFECTS)}
    table = sorted(table, key=lambda row: order.get(row["defect"], len(order)))
    content = {
        "seed": args.seed,
        "workers": args.workers,
        "limit": args.programs,
        "seconds": round(seconds),
        "defects": table,
    }
    path = Path(args.json)
    path.write_text(json.dumps(content, indent=1) + "\n")
    head = (
        "# Planted defects\n\n"
        f"`python -m tests.fuzz.strength --seed {args.seed} --workers {args.workers} --programs {args.programs} --json {path.name}`\n"
        "plants each in a process of its own and runs the programs of that seed in order. The last column: programs until one\n"
        "differed from its native result; the numbers are those of faults that were found by hand and are put back.\n\n"
    )
    path.with_name(f"{path.stem.upper()}.md").write_text(head + markdown(table))


if __name__ == "__main__":
    sys.exit(main())
