"""What follows from measured times: speed-ups, means, the papers' ideal, the bars; as text, table and plot.

Pure, but for writing the plot. Times are the best of the runs measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import catalogue
import machine

NATIVE = machine.NATIVE
FLOW = "lattice_boltzmann"
Content = dict[str, Any]


def best(record: dict[str, Any], what: str, part: str = "all") -> float:
    """The least seconds of cold runs or of a launch on resident data; not a number where there are none."""
    found = record.get("cold", []) if what == "cold" else _resident(record, part)
    return min(found, default=math.nan)


def _resident(record: dict[str, Any], part: str) -> Sequence[float]:
    seconds: Sequence[float] = record.get("resident", {}).get(part, {}).get("seconds", [])
    return seconds


def records(content: Content) -> dict[tuple[str, str], dict[str, Any]]:
    """The measurements that succeeded, by sample and column."""
    return {(m["sample"], m["workers"]): m for m in content["measurements"] if m["status"] == 0}


def ideal(native: dict[str, Any], workers: int) -> float:
    """Amdahl's speed-up on so many devices, as Kim et al. (section 4.2) have it: the kernels' time on one
    device is the part that is parallel, all other time is serial.

    >>> round(ideal({"steps": {"upload": 1.0, "kernels": 8.0, "download": 1.0}}, 4), 3)
    2.5
    """
    steps = native["steps"]
    parallel = steps["kernels"] / sum(steps.values())
    return float(1 / (1 - parallel + parallel / workers))


def geometric_mean(values: Iterable[float]) -> float:
    """Of values above zero; not a number where there are none.

    >>> geometric_mean([1, 4])
    2.0
    """
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def columns(content: Content) -> list[str]:
    """The numbers of workers measured, ascending."""
    return sorted({m["workers"] for m in content["measurements"]} - {NATIVE}, key=int)


def speed_ups(content: Content, what: str, group: str, workers: str) -> dict[str, float]:
    """Native time over that on so many workers, by sample, or by kernel where kernels count."""
    found, result = records(content), {}
    for entry in catalogue.ENTRIES:
        native, virtual = found.get((entry.sample, NATIVE)), found.get((entry.sample, workers))
        if native is None or virtual is None or entry.group != group:
            continue
        for part in (entry.parts or ("all",)) if what != "cold" else ("all",):
            ratio = best(native, what, part) / best(virtual, what, part)
            if not math.isnan(ratio):
                result[entry.sample if part == "all" else part] = ratio
    return result


def _bar(name: str, found: float, wanted: float, *, most: bool = False, of: str = "") -> dict[str, Any]:
    """A bar: `found` must be at least `wanted`, or at most where `most`."""
    met = None if math.isnan(found) else (found <= wanted if most else found >= wanted)
    return {
        "bar": name,
        "found": None if math.isnan(found) else round(found, 3),
        "wanted": wanted,
        "at": "most" if most else "least",
        "of": of,
        "met": met,
    }


def _count(number: int, group: str) -> str:
    parts = [max(1, len(entry.parts)) if group == catalogue.AMGE else 1 for entry in catalogue.ENTRIES
             if entry.group == group]  # fmt: skip
    return f"{number} of {sum(parts)} measured"


def bars(content: Content) -> list[dict[str, Any]]:
    """What must be shown, with what was found."""
    result = _agreement_bars(content) + _translator_bars(content) + _kim_bars(content)
    for workers, wanted in (("2", 1.98), ("4", 3.89)):
        found = speed_ups(content, "resident", catalogue.AMGE, workers)
        name = f"AMGE's kernels on resident data, {workers} over native: geometric mean"
        count = _count(len(found), catalogue.AMGE)
        result.append(_bar(name, geometric_mean(found.values()), wanted, of=count))
    flow = speed_ups(content, "resident", catalogue.OTHER, "4").get(FLOW, math.nan)
    result.append(
        _bar("lattice-Boltzmann, cell updates a second, 4 over native", flow, 3.5, of=_updates(content))
    )
    for name, extra in content["extras"].items():
        for bar in extra.get("bars", []):
            value = math.nan if bar["found"] is None else bar["found"]
            result.append(_bar(bar["bar"], value, bar["wanted"], most=bar["most"], of=name))
    return result


def _updates(content: Content) -> str:
    """Cell updates a second of the lattice-Boltzmann sample, natively and on workers."""
    found, texts = records(content), []
    for column in (NATIVE, *columns(content)):
        record = found.get((FLOW, column))
        if record is not None:
            words = record["arguments"].split()
            size, steps = (int(words[words.index(option) + 1]) for option in ("--size", "--steps"))
            texts.append(f"{column}: {size**3 * steps / best(record, 'resident') * 1e-9:.3g}")
    return "billions: " + ", ".join(texts) if texts else ""


def _agreement_bars(content: Content) -> list[dict[str, Any]]:
    """How many samples pass their checks and agree with the native results."""
    result = []
    for workers in columns(content):
        statuses = [m["status"] == 0 for m in content["measurements"] if m["workers"] == workers]
        name = f"samples with the native results, {workers} workers".replace("1 workers", "1 worker")
        result.append(_bar(name, sum(statuses), len(statuses), of=f"{len(statuses)} measured"))
    return result


def _translator_bars(content: Content) -> list[dict[str, Any]]:
    ratios: dict[str, float] = {}
    for group in (catalogue.KIM, catalogue.AMGE, catalogue.OTHER):
        ratios |= speed_ups(content, "resident", group, "1")
    mean = geometric_mean(ratios.values())
    least = min(ratios.items(), key=lambda item: item[1], default=("", math.nan))
    text = "kernels on one worker, native time over its own"
    return [
        _bar(f"{text}: geometric mean", mean, 1.03, of=f"{len(ratios)} measured"),
        _bar(f"{text}: the least", least[1], 0.97, of=least[0]),
    ]


def _kim_bars(content: Content) -> list[dict[str, Any]]:
    found = speed_ups(content, "cold", catalogue.KIM, "4")
    native = {name: ideal(records(content)[name, NATIVE], 4) for name in found}
    count = _count(len(found), catalogue.KIM)
    text = "Kim et al.'s eleven from NumPy arrays, 4 over native"
    result = [_bar(f"{text}: geometric mean", geometric_mean(found.values()), 3.6, of=count)]
    for name, speed_up in found.items():
        result.append(_bar(f"{text}: Amdahl's ideal", speed_up, round(native[name], 3), of=name))
    return result


def line(record: dict[str, Any]) -> str:
    """A measurement in a line."""
    text = f"{record['sample']:24s} {record['workers']:>7s}  {record['wall']:6.1f} s of wall time"
    if record["status"] != 0:
        return f"{text}  FAILED: {record.get('said', '')[-500:].strip()}"
    steps = " + ".join(f"{record['steps'][step] * 1e3:.1f}" for step in ("upload", "kernels", "download"))
    text += f"  cold {best(record, 'cold') * 1e3:9.2f} ms  resident {best(record, 'resident') * 1e3:9.3f} ms"
    text += f"  steps {steps} ms"
    text += f"  difference {record['difference']:.0e}" if "difference" in record else ""
    return text + (f"  ended with status {record['exit']}" if "exit" in record else "")


def markdown(content: Content) -> str:
    """The tables."""
    lines = ["# Benchmarks", "", f"`{content['command']}`", "", machine.one_line(content["machine"]) + "."]
    lines += ["", f"Sizes: `{content['preset']}` in `catalogue.py`. Times are the best of those measured. "
              + (f"The run took {content['seconds']:.0f} s." if "seconds" in content else "The run was cut off."), ""]  # fmt: skip
    lines += ["## Bars", "", "| | of | found | wanted | |", "|---|---|---:|---:|---|"]
    for bar in content["bars"]:
        verdict = {True: "met", False: "**missed**", None: "not measured"}[bar["met"]]
        value = "" if bar["found"] is None else f"{bar['found']:.4g}"
        lines.append(
            f"| {bar['bar']} | {bar['of']} | {value} | at {bar['at']} {bar['wanted']:.4g} | {verdict} |"
        )
    lines += _cold_table(content) + _resident_table(content) + _steps_table(content)
    lines += _extras(content) + _failures(content)
    return "\n".join(lines) + "\n"


def _cold_table(content: Content) -> list[str]:
    """Uploads, kernels and downloads."""
    counts, found = columns(content), records(content)
    lines = ["", "## Uploads, kernels and downloads, from NumPy arrays", ""]
    lines += [
        "Native: milliseconds, all and each by itself. The others: speed-up over native, and Amdahl's ideal.",
        "",
    ]
    head = [
        "",
        "native ms",
        "upload",
        "kernels",
        "download",
        *counts,
        *(f"ideal {n}" for n in counts if n != "1"),
    ]
    lines += [_row(head), _row(["---", *["---:"] * (len(head) - 1)])]
    for entry in catalogue.ENTRIES:
        native = found.get((entry.sample, NATIVE))
        if native is None:
            continue
        steps = [f"{native['steps'][step] * 1e3:.1f}" for step in ("upload", "kernels", "download")]
        ratios = [speed_ups(content, "cold", entry.group, n).get(entry.sample, math.nan) for n in counts]
        ideals = [f"{ideal(native, int(n)):.2f}" for n in counts if n != "1"]
        cells = [entry.sample, f"{best(native, 'cold') * 1e3:.1f}", *steps, *map(_number, ratios), *ideals]
        lines.append(_row(cells))
    return lines


def _resident_table(content: Content) -> list[str]:
    """Kernels on resident data."""
    counts, found = columns(content), records(content)
    lines = ["", "## Kernels on resident data", ""]
    lines += [
        "Native: milliseconds of one launch of all of a sample's kernels. The others: speed-up over native.",
        "",
    ]
    lines += [_row(["", "native ms", *counts]), _row(["---", *["---:"] * (len(counts) + 1)])]
    for entry in catalogue.ENTRIES:
        native = found.get((entry.sample, NATIVE))
        if native is None:
            continue
        for part in ("all", *entry.parts):
            ratios = [
                best(native, "resident", part) / best(found.get((entry.sample, n), {}), "resident", part)
                for n in counts
            ]
            name = entry.sample if part == "all" else part
            cells = [name, f"{best(native, 'resident', part) * 1e3:.3f}", *map(_number, ratios)]
            lines.append(_row(cells))
    return lines


def _steps_table(content: Content) -> list[str]:
    """Each step by itself, on every number of workers."""
    counts, found = columns(content), records(content)
    lines = [
        "",
        "## Each step by itself",
        "",
        "Milliseconds of uploads + kernels + downloads, waiting after each.",
        "",
    ]
    lines += [_row(["", NATIVE, *counts]), _row(["---", *["---:"] * (len(counts) + 1)])]
    for entry in catalogue.ENTRIES:
        cells = []
        for column in (NATIVE, *counts):
            steps = found.get((entry.sample, column), {}).get("steps")
            cells.append(" + ".join(f"{seconds * 1e3:.1f}" for seconds in steps.values()) if steps else "")
        if any(cells):
            lines.append(_row([entry.sample, *cells]))
    return lines


def _extras(content: Content) -> list[str]:
    lines = []
    for name, extra in content["extras"].items():
        lines += ["", f"## {name}", "", f"`{extra.get('command', name)}`", ""]
        lines += [f"- {text}" for text in extra.get("lines", [])]
        if "failed" in extra:
            lines += ["Failed:", "```", extra["failed"].strip(), "```"]
    return lines


def _failures(content: Content) -> list[str]:
    failed = [m for m in content["measurements"] if m["status"] != 0 or "exit" in m]
    lines = ["", "## Failed", ""] if failed else []
    for record in failed:
        what = f" (measured, then ended with status {record['exit']})" if "exit" in record else ""
        said = record.get("said", "").strip()[-800:]
        lines += [f"{record['sample']}, {record['workers']}{what}:", "```", said, "```"]
    return lines


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def plot(content: Content, path: Path) -> None:
    """Speed-ups over native as bars, cold above and resident below; none where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts, found = columns(content), records(content)
    names = [entry.sample for entry in catalogue.ENTRIES if (entry.sample, NATIVE) in found]
    if not names or not counts:
        return
    figure, axes = pyplot.subplots(2, 1, figsize=(14, 9), sharex=True)
    titles = ("cold", "uploads, kernels and downloads"), ("resident", "kernels on resident data")
    for axis, (what, title) in zip(axes, titles, strict=True):
        for number, workers in enumerate(counts):
            heights = [
                best(found[name, NATIVE], what) / best(found.get((name, workers), {}), what) for name in names
            ]
            places = [
                place + (number - (len(counts) - 1) / 2) * 0.8 / len(counts) for place in range(len(names))
            ]
            axis.bar(places, heights, 0.8 / len(counts), label=f"{workers} worker{'s' * (workers != '1')}")
        axis.axhline(1, color="black", linewidth=0.6)
        axis.set_ylabel("speed-up over native")
        axis.set_title(title)
        axis.legend()
    axes[-1].set_xticks(range(len(names)), names, rotation=40, ha="right")
    figure.suptitle(machine.one_line(content["machine"]), fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
