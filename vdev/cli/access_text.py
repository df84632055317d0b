"""What the analysis has found out about kernels, as text for people and as JSON for programs.

Decides how it is presented, not what is in it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from vdev.cli.access_facts import KernelReport, LaunchReport
from vdev.translators.frontend.source import KernelInfo
from vdev.translators.interpreter.summaries import Access, AccessRange, KernelSummary


def as_text(reports: Sequence[KernelReport]) -> str:
    """The report for people."""
    return "\n\n".join("\n".join(_kernel_text(report)) for report in reports)


def _kernel_text(report: KernelReport) -> Iterator[str]:
    info, summary = report.info, report.summary
    yield f"kernel {info.name}, line {info.line}"
    rows = list(_argument_rows(info, summary))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        indent = " " * (sum(widths[:3]) + 10)
        kept = line.replace("(line ", "(line\0")  # stays together
        for part in textwrap.wrap(
            kept, 150, initial_indent="  ", subsequent_indent=indent, break_long_words=False
        ):
            yield part.replace("\0", " ")
    for reason in summary.one_worker:
        yield f"  one worker: {reason}"
    if not summary.one_worker and not (report.problem or "").startswith("one worker"):
        yield "  nothing in the kernel prevents splitting"
    if report.problem is not None:
        yield f"  {report.problem}"
    if report.launch is not None:
        yield from _launch_text(info, report.launch)


def _argument_rows(info: KernelInfo, summary: KernelSummary) -> Iterator[tuple[str, str, str, str]]:
    """(argument, type, mode, place and line)."""
    for index, arg in enumerate(info.args):
        first = (arg.name, f"{arg.kind} {arg.type_name}" if arg.kind != "value" else arg.type_name)
        told = []
        for access in summary.accesses:
            if access.arg == index and (row := (access.mode, _place(access))) not in told:
                told.append(row)
        if arg.kind == "value":
            told = [
                ("", "determines which bytes are accessed" if index in summary.scalars else "does not matter")
            ]
        for number, row in enumerate(told or [("", "not touched")]):
            yield (*(first if number == 0 else ("", "")), *row)


def _place(access: Access) -> str:
    """Where an access is, when it happens, and why more is not known."""
    if access.expression is None:
        text = "anywhere"
    else:
        text = f"{access.nbytes} bytes at {readable(str(access.expression))}"
    if access.conditions:
        text += " if " + " and ".join(readable(condition) for condition in access.conditions)
    if access.op is not None:
        text += f", atomic {access.op}, merged"
    if access.reason:
        text += f"; {access.reason}"
    return text if access.line is None else f"{text} (line {access.line})"


def readable(text: str) -> str:
    """An expression without conversions between integers, and with `?` for values that come from memory.

    >>> readable("4*int32(gid0) + u71")
    '4*gid0 + ?'
    >>> readable("(((gid0 + -1) >= 0) && ((width + -1*uint64((gid0 + 1)) + -1) >= 0))")
    'gid0 >= 1 && width - gid0 >= 2'
    """
    text = re.sub(r"\bu?int(?:8|16|32|64)(?=\()", "", text)  # parentheses stay
    text = re.sub(r"\b[uh]\d+\b", "?", text)
    text = text.replace("+ -1*", "- ").replace("+ -", "- ")
    previous = ""
    while previous != text:
        previous = text
        text = re.sub(r"(?<!\w)\(([\w?]+|[\w?]+\*[\w?]+)\)", r"\1", text)
        text = re.sub(r"(?<!\w)\(\(([^()]*)\)\)", r"(\1)", text)
        text = re.sub(r"- \(([\w?]+) \+ (\w+)\)", r"- \1 - \2", text)
        text = re.sub(r"- (\d+) - (\d+)\b(?!\*)", lambda m: f"- {int(m[1]) + int(m[2])}", text)
        text = re.sub(r"(?<!\w)\(\(([^()&|]*)\) (>=|==|!=) 0\)", r"\1 \2 0", text)
        text = re.sub(r"([^()&|]*?) - (\d+) (>=|==|!=) 0", r"\1 \3 \2", text)
        text = re.sub(r"(?<![\w*])\(([^()&|]* (?:>=|==|!=) [^()&|]*)\)(?! [-+*/])", r"\1", text)
        text = re.sub(r"(?<!\w)\(([^()|]* && [^()|]*)\)", r"\1", text)
    return text


def _launch_text(info: KernelInfo, launch: LaunchReport) -> Iterator[str]:
    ndrange = launch.ndrange
    yield f"  launch of {times(ndrange.global_size)} work-items in groups of {times(ndrange.local_size)}:"
    yield f"    {'split over ' + str(len(launch.parts)) + ' workers' if len(launch.parts) > 1 else 'one worker'}"
    for reason in launch.reasons:
        yield f"    {reason}"
    yield f"    {launch.moved_nbytes} bytes move if everything is in host memory before"
    for index in launch.sizes:
        assumed = " (assumed)" if index in launch.assumed else ""
        yield f"    {info.args[index].name}, {launch.sizes[index]} bytes{assumed}"
        for part in launch.parts:
            for found in part.ranges:
                if found.arg == index:
                    yield f"      worker {part.worker} {_range_text(found)}"
    for part in launch.parts:
        spans = [
            f"{first}..{stop - 1}" for first, stop in zip(part.chunk.start, part.chunk.stop, strict=True)
        ]
        yield f"    worker {part.worker} runs work-groups {' x '.join(spans)}"


def _range_text(found: AccessRange) -> str:
    runs = len(found.region)
    where = f"[{found.region.start}, {found.region.stop})" + (f" in {runs} runs" if runs > 1 else "")
    how = "exact" if found.exact else "at most: " + (found.reason or "not known")
    line = f" (line {found.line})" if found.line is not None and not found.exact else ""
    mode = f"atomic {found.op}" if found.mode == "atomic" and found.op else found.mode
    return f"{mode}s {found.region.nbytes} bytes, {where}, {how}{line}"


def times(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


# JSON and picture -------------------------------------------------------------------------------


def as_json(reports: Sequence[KernelReport]) -> list[dict[str, Any]]:
    """The report for programs: one object for each kernel."""
    return [_kernel_json(report) for report in reports]


def _kernel_json(report: KernelReport) -> dict[str, Any]:
    info, summary = report.info, report.summary
    found: dict[str, Any] = {
        "kernel": info.name,
        "line": info.line,
        "arguments": [
            {
                "name": arg.name,
                "type": arg.type_name,
                "kind": arg.kind,
                "decides_what_is_touched": index in summary.scalars,
                "accesses": [_access_json(access) for access in summary.accesses if access.arg == index],
            }
            for index, arg in enumerate(info.args)
        ],
        "one_worker": [{"reason": reason.text, "line": reason.line} for reason in summary.one_worker],
        "problem": report.problem,
    }
    if report.launch is not None:
        found["launch"] = _launch_json(info, report.launch)
    return found


def _access_json(access: Access) -> dict[str, Any]:
    return {
        "mode": access.mode,
        "nbytes": access.nbytes,
        "offset": None if access.expression is None else str(access.expression),
        "conditions": list(access.conditions),
        "op": access.op,
        "reason": access.reason,
        "line": access.line,
    }


def _launch_json(info: KernelInfo, launch: LaunchReport) -> dict[str, Any]:
    return {
        "global_size": launch.ndrange.global_size,
        "local_size": launch.ndrange.local_size,
        "split": len(launch.parts) > 1,
        "reasons": launch.reasons,
        "moved_nbytes": launch.moved_nbytes,
        "sizes": {info.args[index].name: nbytes for index, nbytes in launch.sizes.items()},
        "workers": [
            {
                "worker": part.worker,
                "first_group": part.chunk.start,
                "last_group_before": part.chunk.stop,
                "ranges": [
                    {
                        "argument": info.args[found.arg].name,
                        "mode": found.mode,
                        "op": found.op,
                        "nbytes": found.region.nbytes,
                        "start": found.region.start,
                        "stop": found.region.stop,
                        "exact": found.exact,
                        "reason": found.reason,
                        "line": found.line,
                    }
                    for found in part.ranges
                ],
            }
            for part in launch.parts
        ],
    }
