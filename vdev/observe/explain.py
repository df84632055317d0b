"""The report: figures and advice for people, and as one JSON object for programs.

Decides what is said in which order: kernels, the one that took longest first; other commands; totals beside what the
back ends counted; advice.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from vdev.observe.advice import (
    AVOIDS_EXCHANGE,
    Advice,
    Expense,
    advise,
    costliest_exchange,
    most_expensive,
    size,
)
from vdev.observe.figures import Moved, Times
from vdev.observe.statistics import (
    ArgumentStatistics,
    CommandStatistics,
    KernelStatistics,
    PartitionStatistics,
    Statistics,
    WayStatistics,
)

_WIDTH = 110
_MOST_PARTITIONS = 8  #: rows of a kernel that are shown; the others are added up
_MOST_CHUNKS = 8


def as_dict(figures: Statistics) -> dict[str, Any]:
    """The report as `--json` prints it: the figures, `advice`, and what was `most_expensive` apart from the kernels' own work."""
    expense = most_expensive(figures)
    return figures.as_dict() | {
        "advice": [_advice_as_dict(item) for item in advise(figures)],
        "most_expensive": None if expense is None else dataclasses.asdict(expense),
    }


def _advice_as_dict(item: Advice) -> dict[str, Any]:
    return dataclasses.asdict(item) | {"message": str(item)}


def as_text(figures: Statistics) -> str:
    """The report for people."""
    if not figures.workers:
        return "vdev: the virtual device was not used"
    names = ", ".join(dict.fromkeys(worker.name for worker in figures.workers))
    lines = [
        f"vdev: {_count(figures.launches, 'launch')} on {_count(len(figures.workers), 'worker')} ({names})"
    ]
    for kernel in sorted(figures.kernels, key=_weight, reverse=True):
        lines += ["", *_kernel(kernel, figures.timed)]
    if figures.commands:
        lines += ["", "other commands", *_commands(figures.commands, figures.timed)]
    lines += ["", *_totals(figures)]
    advice = advise(figures)
    lines += ["", *_most_expensive(most_expensive(figures)), *_exchange(figures)]
    lines.append("advice, most expensive first" if advice else "no advice")
    for number, item in enumerate(advice, 1):
        lines += textwrap.wrap(
            f"{number}. {item} [{_cost(item)}]", _WIDTH, initial_indent="  ", subsequent_indent="     "
        )
    return "\n".join(lines)


def _most_expensive(expense: Expense | None) -> list[str]:
    if expense is None:
        return []
    text = f"largest expense apart from the kernels' own work: {expense} [about {duration(expense.cost_ns)}]"
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")


def _exchange(figures: Statistics) -> list[str]:
    """The two commands between which most bytes went from worker to worker."""
    found = costliest_exchange(figures)
    if found is None:
        return []
    writer, user, nbytes = found
    text = (
        f"most bytes between workers: {size(nbytes)} that {writer} wrote and {user} needed. {AVOIDS_EXCHANGE}"
    )
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")


def _weight(kernel: KernelStatistics) -> tuple[int, int, int]:
    return kernel.times.kernel_ns + kernel.times.transfer_ns, kernel.moved.nbytes, kernel.launches


def _cost(item: Advice) -> str:
    parts = []
    if item.cost_ns is not None:
        parts.append(f"about {duration(item.cost_ns)}")
    if item.cost_nbytes:
        parts.append(size(item.cost_nbytes))
    return ", ".join(parts) or "not timed"


# kernels ----------------------------------------------------------------------------------------


def _kernel(kernel: KernelStatistics, timed: bool) -> list[str]:
    at = "" if kernel.line is None else f", line {kernel.line}"
    if kernel.split == kernel.launches:
        split = "all split" if kernel.launches > 1 else "split"
    else:
        split = f"{kernel.split} split" if kernel.split else "not split"
    lines = [
        f"kernel {kernel.name} (program {kernel.program}{at}): {_count(kernel.launches, 'launch')}, {split}"
    ]
    for partition in kernel.partitions[:_MOST_PARTITIONS]:
        lines += _partition(partition)
    rest = sum(partition.launches for partition in kernel.partitions[_MOST_PARTITIONS:])
    if rest:
        lines.append(f"  {rest} x in other ways")
    lines += _arguments(kernel.arguments)
    moved = f"  moved {_moved(kernel.moved)}"
    lines.append(moved + (f"; merged {size(kernel.merged_nbytes)}" if kernel.merged_nbytes else ""))
    lines += [_way(way) for way in kernel.ways if way.predicted is not None and way.measured is not None]
    plans = f"planning {duration(kernel.planning_ns)} ({_count(kernel.plans, 'plan')})"
    lines.append(f"  time: {_times(kernel.times, timed, always=('kernel', 'transfer'))}{plans}")
    return lines


def _way(way: WayStatistics) -> str:
    """What was predicted for launches in one way, and what they took."""
    assert way.predicted is not None
    assert way.measured is not None
    text = f"  on {_count(way.workers, 'worker')} a launch takes {duration(round(way.measured * 1e9))}"
    text += f", predicted {duration(round(way.predicted * 1e9))} ({_count(way.measured_launches, 'sample')})"
    return text + (f"; {way.close} of {way.judged} within a quarter" if way.judged else "")


def _partition(partition: PartitionStatistics) -> list[str]:
    of = f"{partition.workers} of {partition.available} workers"
    if partition.workers == partition.available:
        of = _count(partition.workers, "worker")
    shape = f"{_product(partition.global_size)} work-items in groups of {_product(partition.local_size)}"
    lines = [f"  {partition.launches} x on {of}: {shape}"]
    if len(partition.chunks) > 1:
        shown = [
            f"worker {worker}: {_span(start, stop, cycle)}"
            for (worker, start, stop), cycle in zip(
                partition.chunks[:_MOST_CHUNKS],
                (partition.cycles or (None,) * len(partition.chunks))[:_MOST_CHUNKS],
                strict=True,
            )
        ]
        more = len(partition.chunks) - _MOST_CHUNKS
        text = "work-groups of " + ", ".join(shown) + (f" and {more} more" if more > 0 else "")
        lines += textwrap.wrap(text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8)
    for reason in partition.reasons:
        text = reason.text + (f": `{reason.source}`" if reason.source else "")
        label = "      why: " if partition.workers < partition.available else "      note: "
        lines += textwrap.wrap(text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label))
    return lines


def _span(start: Sequence[int], stop: Sequence[int], cycle: tuple[int, int, int] | None = None) -> str:
    """
    >>> _span((2, 0), (16, 4), (0, 2, 8))
    '2..3 of every 8 x 0..3'
    """
    shown = [f"{first}..{last - 1}" for first, last in zip(start, stop, strict=True)]
    if cycle is not None:
        axis, block, stride = cycle
        shown[axis] = f"{start[axis]}..{start[axis] + block - 1} of every {stride}"
    return " x ".join(shown)


def _arguments(arguments: Sequence[ArgumentStatistics]) -> list[str]:
    if not arguments:
        return []
    rows = [("argument", "access", "size", "host>worker", "worker>worker", "worker>host", "merged")]
    rows += [
        (
            argument.name,
            _access(argument),
            size(argument.nbytes),
            _nbytes(argument.moved.host_to_worker),
            _nbytes(argument.moved.worker_to_worker),
            _nbytes(argument.moved.worker_to_host),
            _nbytes(argument.merged_nbytes),
        )
        for argument in arguments
    ]
    lines = _table(rows)
    found = [lines[0]]
    for argument, line in zip(arguments, lines[1:], strict=True):
        found.append(line)
        if not argument.exact and argument.reason:
            at = "" if argument.line is None else f", line {argument.line}"
            text = f"`{argument.text}`{at}: {argument.reason}" if argument.text else f"{argument.reason}{at}"
            found += textwrap.wrap(text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8)
        if argument.shares_with:
            found.append(
                f"      the same buffer as {argument.shares_with} in some launches, its bytes counted there"
            )
    return found


def _access(argument: ArgumentStatistics) -> str:
    if argument.access in ("none", "unknown"):
        return argument.access
    access = "read/write" if argument.access == "both" else argument.access
    return f"{access}, {'exact' if argument.exact else 'not exact'}"


# everything else --------------------------------------------------------------------------------


def _commands(commands: Iterable[CommandStatistics], timed: bool) -> list[str]:
    lines = []
    for row in commands:
        within = f"; within host memory {size(row.within_host_nbytes)}" if row.within_host_nbytes else ""
        lines.append(f"  {row.kind}: {row.count} x, moved {_moved(row.moved)}{within}")
        if timed:
            lines.append(f"      time: {_times(row.times, timed)}planning {duration(row.planning_ns)}")
    return lines


def _totals(figures: Statistics) -> list[str]:
    lines = [f"in all: moved {_moved(figures.moved)}"]
    if figures.counted == figures.moved:
        lines.append("  the back ends counted the same bytes")
    else:
        lines.append(f"  the back ends counted {_moved(figures.counted)}")
    if figures.undone.nbytes:
        lines.append(f"  not carried out, because commands failed: {_moved(figures.undone)}")
    times = Times()
    for part in (*(row.times for row in figures.kernels), *(row.times for row in figures.commands)):
        times.include(part)
    planning = sum(row.planning_ns for row in figures.kernels) + sum(
        row.planning_ns for row in figures.commands
    )
    lines.append(
        f"  time: {_times(times, figures.timed, always=('kernel', 'transfer'))}planning {duration(planning)}"
    )
    peaks = ", ".join(size(worker.peak_nbytes) for worker in figures.workers)
    lines.append(f"  peak memory, by worker: {peaks}")
    apart = sorted({name for worker in figures.workers for name in worker.apart})
    if apart:
        lines.append(f"  run in a version for arguments that lie apart: {', '.join(apart)}")
    return lines


def _moved(moved: Moved) -> str:
    if not moved.nbytes:
        return "nothing"
    routes = (
        ("host to workers", moved.host_to_worker),
        ("between workers", moved.worker_to_worker),
        ("workers to host", moved.worker_to_host),
    )
    parts = ", ".join(f"{name} {size(nbytes)}" for name, nbytes in routes if nbytes)
    return f"{size(moved.nbytes)} ({parts})"


def _times(times: Times, timed: bool, always: Sequence[str] = ()) -> str:
    """Times, each followed by a comma; nothing if none was taken."""
    if not timed:
        return ""
    names = {
        "kernel": "kernel",
        "transfer": "transfer",
        "device": "fills and copies",
        "merge": "merge",
        "host": "host",
    }
    parts = [
        f"{name} {duration(getattr(times, kind + '_ns'))}, "
        for kind, name in names.items()
        if kind in always or getattr(times, kind + "_ns")
    ]
    return "".join(parts)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns: the first two flush left, the others flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "    "
        + "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _product(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _nbytes(nbytes: int) -> str:
    return size(nbytes) if nbytes else "-"


def _count(number: int, word: str) -> str:
    plural = word + ("es" if word.endswith("ch") else "s")
    return f"{number} {word if number == 1 else plural}"


def duration(nanoseconds: int) -> str:
    """A time for people.

    >>> duration(1_234_567), duration(12_000_000_000), duration(0)
    ('1.23 ms', '12 s', '0')
    """
    for unit, scale in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds >= scale:
            return (
                f"{nanoseconds / scale:.3g} {unit}"
                if nanoseconds < 1000 * scale
                else f"{nanoseconds // scale} {unit}"
            )
    return f"{nanoseconds} ns" if nanoseconds else "0"
