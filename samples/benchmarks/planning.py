"""Programs whose launches differ from one another, natively and on 1, 2, 4 ... workers: what planning them costs.

    python samples/benchmarks/planning.py [--preset small|large] [--only NAME,...] [--workers 1,2,4] [--json FILE]

Each program runs twice in a process for its column, from plain buffers to a wait at the end: `cold` makes all plans,
`again` finds those that are cached. Results are compared with the native ones. A run that takes longer than `--limit` is stopped
between two steps, and its time is what all steps would take at that pace. With `--turns`, each column has so many processes, by turns, and
the best of them counts for each program: which core a process comes to run on, and what else runs there, lasts as long.
On the virtual device: microseconds of
planning for a launch, plans made and found, and boxes that the directory holds at the end.

Decides how the programs of `planning_programs` and `planning_shapes` are timed.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path
from typing import Any

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import planning_programs  # noqa: E402
import planning_shapes  # noqa: E402
import pyopencl as cl  # noqa: E402
from measure import difference, digest_of  # noqa: E402

PROGRAMS = planning_programs.PROGRAMS | planning_shapes.PROGRAMS
PRESETS = "small", "large"
LIMITS = {"small": 6.0, "large": 4.0}
TOLERANCE = 2e-3
MOST_TIMES_NATIVE = 1 / 0.97
#: how many times the native speed programs with long kernels have on four workers, with the large sizes
ON_FOUR = {"lu": 1.5, "table": 2.5, "fields_3d": 3.0, "multigrid": 1.5}


def measure(options: argparse.Namespace) -> columns.Figures:
    """The figures of all programs on the device of this process."""
    context, queue = common.open_queue()
    found = {}
    for name in options.only:
        try:
            found[name] = _program(context, queue, name, options)
        except (cl.Error, RuntimeError) as error:
            found[name] = {"failed": str(error)[:500]}
        gc.collect()
        print(name, found[name].get("cold", found[name].get("failed")), flush=True)
    return {"device": queue.device.name.strip(), "programs": found}


def _program(context: Any, queue: Any, name: str, options: argparse.Namespace) -> dict[str, Any]:
    program, sizes = PROGRAMS[name]
    figures: dict[str, Any] = {}
    for run in ("cold", "again"):
        before = _counted()
        bench = planning_programs.Bench(context, queue, *sizes[options.preset])
        seconds, done, steps = _timed(program(bench), queue, options.limit)
        figures |= {run: seconds * steps / max(done, 1), "steps": steps}
        figures |= {f"stopped_{run}": done} if done < steps else {}
        figures |= _planned(before, run)
    results = [_read(queue, *item) for item in bench.results]
    figures["digest"] = {key: value.tolist() for key, value in digest_of(results).items()}
    return figures


def _timed(steps: planning_programs.Steps, queue: Any, limit: float) -> tuple[float, int, int]:
    """Seconds of the steps that were made until `limit`, how many these are, and how many there are."""
    total = next(steps)
    queue.finish()
    done = 0
    began = time.perf_counter()
    for _ in steps:
        done += 1
        if time.perf_counter() - began > limit:
            break
    queue.finish()
    seconds = time.perf_counter() - began
    return seconds, done, total


def _counted() -> tuple[int, int, int]:
    """Launches, plans and nanoseconds of planning so far; nothing natively."""
    if "vdev.session.session" not in sys.modules:
        return 0, 0, 0
    import vdev

    found = vdev.stats()
    planning = sum(kernel.planning_ns for kernel in found.kernels) + sum(
        item.planning_ns for item in found.commands
    )
    return found.launches, sum(kernel.plans for kernel in found.kernels), planning


def _planned(before: tuple[int, int, int], run: str) -> dict[str, Any]:
    """What was planned since `before`, and what the directory holds now."""
    launches, plans, nanoseconds = (now - then for now, then in zip(_counted(), before, strict=True))
    if not launches:
        return {}
    return {
        "launches": launches,
        f"plans_{run}": plans,
        f"planning_us_{run}": nanoseconds / launches / 1e3,
        "boxes": _boxes(),
    }


def _boxes() -> int:
    """The parts of buffers, by holder, that the directory of the virtual device tells apart."""
    from vdev.session import buffers

    alive = filter(None, [found() for found in list(buffers._by_holdings.values())])
    return sum(len(region.blocks()) for buffer in alive for _, region in buffer.state.valid)


def _read(queue: Any, buffer: Any, kind: Any) -> Any:
    array = np.empty(buffer.size // np.dtype(kind).itemsize, kind)
    cl.enqueue_copy(queue, array, buffer)
    return array


def compared(
    found: dict[str, columns.Figures], only: list[str], preset: str
) -> tuple[list[str], list[columns.Figures]]:
    """A table of all programs and columns, and the bars that follow; wrong results are noted in `found`."""
    native = found.get(machine.NATIVE, {}).get("programs", {})
    heads = (
        ("workers", 8),
        ("cold s", 9),
        ("again s", 9),
        ("ratio", 7),
        ("us/launch", 11),
        ("again", 8),
        ("plans", 7),
        ("launches", 9),
    )
    lines = ["program".ljust(17) + "".join(head.rjust(width) for head, width in (*heads, ("boxes", 7)))]
    bars = []
    for name in only:
        for column, figures in found.items():
            own, base = figures.get("programs", {}).get(name, {}), native.get(name, {})
            if "cold" not in own:
                lines.append(f"{name:17s}{column:>8s}  {own.get('failed', 'not run')}")
                continue
            own["correct"] = _correct(own, base)
            ratio = (
                min(own["cold"], own["again"]) / min(base["cold"], base["again"]) if "cold" in base else None
            )
            lines.append(_line(name, column, own, ratio))
            if column != machine.NATIVE:
                bars.append(columns.most(f"{name}, {column} over native", ratio, MOST_TIMES_NATIVE))
            if column == "4" and preset == "large" and name in ON_FOUR:
                speed = None if ratio is None else 1 / ratio
                bars.append(columns.least(f"{name}, speed on 4", speed, ON_FOUR[name]))
    return lines, bars


def _best(tries: list[columns.Figures]) -> columns.Figures:
    """Of one column's processes, each program's figures where its best run took least."""
    programs = columns.best_of_each(
        [each["programs"] for each in tries], lambda own: float(min(own["cold"], own["again"]))
    )
    return {"device": tries[0]["device"], "programs": programs}


def _correct(own: dict[str, Any], base: dict[str, Any]) -> bool | None:
    """Whether results agree; None where they cannot be compared."""
    if "stopped_again" in own or "stopped_again" in base or "digest" not in base:
        return None
    arrays = [{key: np.array(value) for key, value in each["digest"].items()} for each in (own, base)]
    return difference(*arrays) <= TOLERANCE


def _line(name: str, column: str, own: dict[str, Any], ratio: float | None) -> str:
    text = f"{name:17s}{column:>8s}{own['cold']:9.3f}{own['again']:9.3f}" + (
        " " * 7 if ratio is None else f"{ratio:7.2f}"
    )
    if "launches" in own:
        text += f"{own['planning_us_cold']:11.1f}{own['planning_us_again']:8.1f}"
        text += f"{own['plans_cold'] + own['plans_again']:7d}{own['launches']:9d}{own['boxes']:7d}"
    if own["correct"] is False:
        text += "  WRONG RESULT"
    return text + ("  (stopped)" if "stopped_cold" in own or "stopped_again" in own else "")


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--preset", choices=PRESETS, help="sizes (default: large for cuda, else small)")
    parser.add_argument(
        "--only", type=columns.names_among(PROGRAMS), default=list(PROGRAMS), help="programs by commas"
    )
    parser.add_argument(
        "--turns", type=int, default=1, help="processes of each column (default: %(default)s)"
    )
    parser.add_argument("--limit", type=float, help="seconds of a run (default: 6, large: 4)")
    options = parser.parse_args()
    options.preset = options.preset or ("large" if machine.kind_of(options) == "cuda" else "small")
    options.limit = options.limit or LIMITS[options.preset]
    found = columns.measured(options, lambda: measure(options), turns=options.turns, least=_best)
    lines, bars = compared(found, options.only, options.preset)
    wrong = [
        f"{name}, {column}"
        for column, figures in found.items()
        for name, own in figures.get("programs", {}).items()
        if own.get("correct") is False or "failed" in own
    ]
    for figures in found.values():  # of no use to anybody later
        for own in figures.get("programs", {}).values():
            own.pop("digest", None)
    status = columns.conclude(options, found, lines, bars)
    if wrong:
        print("wrong or failed:", "; ".join(wrong))
    return 1 if wrong else status


if __name__ == "__main__":
    sys.exit(main())
