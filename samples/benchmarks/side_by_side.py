"""Two versions of vdev side by side: the samples' times in this checkout and in another one, alternating sample by sample.

    python samples/benchmarks/side_by_side.py --before FOLDER --python PYTHON [--workers 1,2] [--preset small]
        [--rounds 2] [--again 0] [--only NAME,...] [--json FILE] [--write FILE]

`FOLDER` is a checkout of the earlier version, and PYTHON the interpreter of an environment in which it is installed (editable);
the other version is this checkout with the interpreter that runs this. For each sample in turn, the `run_all.py` of each version
measures it, so that other load on the machine affects both; the best of all rounds counts. After these, samples with a time that is
longer than it should be are measured in up to `--again` further rounds, both versions in the same way: what other load has lengthened
gets another chance, and what has become slower stays so. Shown are the times now divided by the
times before, for kernels on resident data and for whole jobs from NumPy arrays. The native column is the same program twice, and
shows how far to trust the rest. Target: no time more than 3 % longer, beyond what the native column of its row differs by.
A sample that one of the versions cannot run stops no other: it is named at the end, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import catalogue
import machine

HERE = Path(__file__).resolve().parent
NOW, BEFORE = "now", "before"
MOST = 1.03
#: by (sample, part or "whole job", column): seconds
Times = dict[tuple[str, str, str], float]
#: by (sample, version, column or "all"): the end of what was said where nothing was measured
Missing = dict[tuple[str, str, str], str]
ALL = "all"


def measured(
    python: str, benchmarks: Path, sample: str, options: argparse.Namespace
) -> tuple[Times, dict[str, str]]:
    """The least times of one sample in one version; by column, why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "run_all.py", "--preset", options.preset, "--workers", options.workers]
        command += [
            "--kind",
            machine.kind_of(options),
            "--one-at-a-time",
            "--only",
            sample,
            "--results",
            folder,
        ]
        done = subprocess.run(command, cwd=benchmarks, capture_output=True, text=True, check=False)
        results = Path(folder) / "benchmarks.json"
        records = json.loads(results.read_text())["measurements"] if results.exists() else []
        found: Times = {}
        missing: dict[str, str] = {}
        for each in records:
            column = each["workers"]
            if each.get("status", 0) != 0:
                missing[column] = each.get("said", "")
                continue
            for part, times in each.get("resident", {}).items():
                found[sample, part, column] = min(times["seconds"])
            if each.get("cold"):
                found[sample, "whole job", column] = min(each["cold"])
        if not found and not missing:
            missing[ALL] = done.stdout + done.stderr
        return found, missing


def compared(options: argparse.Namespace) -> tuple[dict[str, Times], Missing]:
    """The least times of each version, over all rounds, and what was not measured in some round."""
    versions = {
        NOW: (sys.executable, HERE),
        BEFORE: (options.python, options.before / "samples" / "benchmarks"),
    }
    found: dict[str, Times] = {NOW: {}, BEFORE: {}}
    missing: Missing = {}
    for number in range(options.rounds + options.again):
        left = {sample for sample, _, _ in longer(found)} if number >= options.rounds else {*options.only}
        for sample in filter(left.__contains__, options.only):
            for version, (python, benchmarks) in versions.items():
                times, failed = measured(python, benchmarks, sample, options)
                for key, seconds in times.items():
                    found[version][key] = min(seconds, found[version].get(key, math.inf))
                missing |= {(sample, version, column): said for column, said in failed.items()}
            print(number + 1, sample, flush=True)
    return found, missing


def longer(found: dict[str, Times]) -> dict[tuple[str, str, str], float]:
    """The times that are more than 3 % longer than before, beyond what the native one of their row is: over those before."""
    ratio = {key: found[NOW][key] / before for key, before in found[BEFORE].items() if key in found[NOW]}
    return {
        key: now
        for key, now in sorted(ratio.items())
        if key[2] != machine.NATIVE and now > MOST * max(1.0, ratio.get((*key[:2], machine.NATIVE), 1.0))
    }


def not_measured(missing: Missing) -> str:
    """What was not measured, each with the last line of what was said; nothing if all was."""
    lines = []
    for (sample, version, column), said in sorted(missing.items()):
        why = (said.strip().splitlines() or ["it said nothing"])[-1]
        lines.append(f"- {sample}, {version}{'' if column == ALL else f', {column}'}: {why}")
    return "\n".join(["", "", f"Not measured: {len(lines)}", *lines]) if lines else ""


def report(found: dict[str, Times], columns: list[str]) -> str:
    """A table of times now over times before, and their geometric means."""
    keys = sorted(key for key in found[NOW] if key in found[BEFORE])
    ratio = {key: found[NOW][key] / found[BEFORE][key] for key in keys}
    lines = ["| sample | what | " + " | ".join(columns) + " |", "|---|---|" + "---:|" * len(columns)]
    for sample, part in dict.fromkeys(key[:2] for key in keys):
        cells = [f"{ratio[sample, part, c]:.2f}" if (sample, part, c) in ratio else "" for c in columns]
        lines.append(f"| {sample} | {part} | " + " | ".join(cells) + " |")
    for whole in (False, True):
        means = []
        for column in columns:
            values = [r for key, r in ratio.items() if key[2] == column and (key[1] == "whole job") is whole]
            means.append(f"{math.exp(sum(map(math.log, values)) / len(values)):.3f}" if values else "")
        name = "whole jobs" if whole else "resident data"
        lines.append(f"| geometric mean | {name} | " + " | ".join(means) + " |")
    slower = [
        f"{sample} ({part}) on {column}: {now:.2f}" for (sample, part, column), now in longer(found).items()
    ]
    count = sum(key[2] != machine.NATIVE for key in keys)
    lines += [
        "",
        f"More than 3 % longer: {len(slower)} of {count}" + "".join(f"\n- {line}" for line in slower),
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    machine.add_options(parser)
    names = [entry.sample for entry in catalogue.ENTRIES]
    parser.add_argument("--before", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--python", required=True, metavar="PYTHON")
    parser.add_argument("--preset", choices=catalogue.PRESETS, default="small")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--again", type=int, default=0, help="rounds more for samples with longer times")
    parser.add_argument("--only", type=lambda text: text.split(","), default=names)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the times")
    parser.add_argument("--write", type=Path, metavar="FILE", help="where to write the table")
    parser.set_defaults(workers="1,2")
    options = parser.parse_args()
    found, missing = compared(options)
    table = report(found, [machine.NATIVE, *options.workers.split(",")]) + not_measured(missing)
    print(table)
    about = machine.one_line(machine.description())
    if options.json is not None:
        times = {version: [[*key, each] for key, each in of.items()] for version, of in found.items()}
        options.json.write_text(json.dumps({"machine": about, **times}, indent=1) + "\n")
    if options.write is not None:
        head = "Times now over times before, the best of all rounds; made by `samples/benchmarks/side_by_side.py`."
        options.write.write_text(f"# Side by side\n\n{head}\n\n{about}\n\n{table}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
