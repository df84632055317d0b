"""What the single-purpose benchmarks share: the same measurement in a process for each column, natively and on
1, 2, 4 ... workers, and the targets that it has to meet.

Decides how such a benchmark is started and what it writes; never what is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import machine

Figures = dict[str, Any]
TIMEOUT = 150  # seconds of a column


def parser(description: str | None) -> argparse.ArgumentParser:
    """A command line with what all of these benchmarks take."""
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    machine.add_options(result)
    result.add_argument("--json", type=Path, metavar="FILE", help="where to write what was found")
    result.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    return result


def names_among(known: Collection[str]) -> Callable[[str], list[str]]:
    """A type of argument: some of `known`, by commas."""

    def named(text: str) -> list[str]:
        names = text.split(",")
        unknown = set(names) - set(known)
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
        return names

    return named


def measured(
    options: argparse.Namespace,
    measure: Callable[[], Figures],
    *,
    native: bool = True,
    turns: int = 1,
    least: str | Callable[[list[Figures]], Figures] = "",
    timeout: int = TIMEOUT,
) -> dict[str, Figures]:
    """What `measure` finds in each column; in a process for one column it only prints that, and ends.

    `turns`: processes for each column, by turns, of which the one counts whose figure `least` is the least, or what `least` makes of
    them: which core a process comes to run on, and what else runs there, lasts as long as the process. A column that fails has an
    entry "failed" with what it said last.
    """
    if options.part:
        print("\n" + json.dumps(measure()))
        sys.exit(0)
    kind = machine.kind_of(options)
    columns: list[int | None] = [None] if native else []
    found: dict[str, list[Figures]] = {}
    for _ in range(turns):
        for workers in columns + machine.counts_of(options):
            name = machine.NATIVE if workers is None else str(workers)
            found.setdefault(name, []).append(_column(kind, workers, options.native, timeout))
    return {name: _best(tries, least) for name, tries in found.items()}


def _best(tries: list[Figures], least: str | Callable[[list[Figures]], Figures]) -> Figures:
    """Of several processes' figures those of the best one; of the first that failed where one did."""
    if callable(least) and not any("failed" in figures for figures in tries):
        return least(tries)
    return min(tries, key=lambda figures: -math.inf if "failed" in figures else figures.get(str(least), 0.0))


def best_of_each(tries: list[Figures], seconds: Callable[[Figures], float]) -> Figures:
    """By name, the figures that took the least `seconds` among several processes'; of one that failed where one did."""
    names = dict.fromkeys(name for each in tries for name in each)
    return {
        name: min(
            (each[name] for each in tries if name in each),
            key=lambda figures: -math.inf if "failed" in figures else seconds(figures),
        )
        for name in names
    }


def _column(kind: str, workers: int | None, native: str, timeout: int) -> Figures:
    """The figures of one column, found by a process of its own."""
    command = [sys.executable, sys.argv[0], *sys.argv[1:], "--part", "--kind", kind]
    environment = machine.environment(kind, workers, native)
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as late:
        return {"failed": f"not done in {late.timeout} s"}
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return {"failed": machine.last_line(done.stdout + done.stderr)}
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def least(name: str, found: float | None, wanted: float) -> Figures:
    """A bar that something must reach."""
    return {"bar": name, "found": found, "wanted": wanted, "most": False}


def most(name: str, found: float | None, wanted: float) -> Figures:
    """A bar that something must not pass."""
    return least(name, found, wanted) | {"most": True}


def verdict(bar: Figures) -> str:
    """A bar in a line."""
    if bar["found"] is None:
        return f"{bar['bar']}: not measured"
    met = bar["found"] <= bar["wanted"] if bar["most"] else bar["found"] >= bar["wanted"]
    wanted = f"at {'most' if bar['most'] else 'least'} {bar['wanted']:.3g} wanted"
    return f"{bar['bar']}: {bar['found']:.3g}, {wanted}: {'met' if met else 'missed'}"


def conclude(
    options: argparse.Namespace, found: dict[str, Figures], lines: list[str], bars: list[Figures]
) -> int:
    """Print and write what was found; the exit status, 1 where a column failed."""
    failed = {name: figures["failed"] for name, figures in found.items() if "failed" in figures}
    lines = lines + [f"{name}: FAILED: {said.strip()}" for name, said in failed.items()]
    for text in lines:
        print(text)
    for bar in bars:
        print(verdict(bar))
    if options.json is not None:
        content = {
            "command": machine.command_line(sys.argv),
            "machine": machine.description(),
            "columns": found,
            "lines": lines,
            "bars": bars,
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 1 if failed else 0


def value(found: dict[str, Figures], column: str, name: str) -> float | None:
    """A figure of a column, None where there is none."""
    figure = found.get(column, {}).get(name)
    return None if figure is None else float(figure)


def quotient(over: float | None, under: float | None) -> float | None:
    """One figure over another, None where one is missing."""
    return None if over is None or under is None else over / under
