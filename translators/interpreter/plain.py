"""Summaries as plain values (numbers, texts, lists and dictionaries, as JSON has them), and back.

For summaries that are kept between processes. Decides neither where they are kept nor for how long they hold;
`FORMAT` changes whenever this format does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ranges.grain import NOTHING, Grain
from ..symbolic.nodes import Expr
from ..symbolic.tables import Writer, read_table
from .summaries import Access, KernelSummary, Reason
from .ways import Step, StepKind

__all__ = ["FORMAT", "plain_summary", "summary_of_plain"]

FORMAT = 2


class _Ways:
    """Steps as rows: parent, kind, expression, counter, text, line; a parent stands before its followers."""

    def __init__(self, writer: Writer) -> None:
        self.rows: list[list[Any]] = []
        self._writer = writer
        self._numbers: dict[Step, int] = {}

    def number(self, way: Step) -> int:
        missing: list[Step] = []
        step: Step | None = way
        while step is not None and step not in self._numbers:
            missing.append(step)
            step = step.parent
        for step in reversed(missing):
            self._numbers[step] = len(self.rows)
            self.rows.append(self._row(step))
        return self._numbers[way]

    def _row(self, step: Step) -> list[Any]:
        parent = None if step.parent is None else self._numbers[step.parent]
        counter = None if step.counter is None else self._writer.number(step.counter)
        return [parent, step.kind.name, self._writer.number(step.expr), counter, step.text, step.line]


def plain_summary(summary: KernelSummary) -> dict[str, Any]:
    """`summary` as plain values."""
    writer = Writer()
    ways = _Ways(writer)
    grains: dict[Grain, int] = {}
    accesses = [
        [
            access.arg,
            access.mode,
            access.nbytes,
            access.line,
            access.op,
            access.dtype,
            access.reason,
            None if access.offset is None else writer.number(access.offset),
            ways.number(access.way),
            grains.setdefault(access.grain, len(grains)),
        ]
        for access in summary.accesses
    ]
    loops = [ways.number(way) for way in summary.loops]
    return {
        "format": FORMAT,
        "name": summary.name,
        "names": sorted(summary.names.items()),
        "one_worker": [_plain_reason(reason) for reason in summary.one_worker],
        "scalars": sorted(summary.scalars),
        "images": summary.images,
        "addresses": None if summary.addresses is None else _plain_reason(summary.addresses),
        "merged": sorted(summary.merged),
        "grains": [[grain.period, list(grain.cuts)] for grain in grains],
        "ways": ways.rows,
        "accesses": accesses,
        "loops": loops,
        "nodes": writer.table(),
    }


def summary_of_plain(plain: Mapping[str, Any]) -> KernelSummary:
    """The summary from which `plain_summary` made these values. Raises ValueError, or what unexpected plain values
    raise, for anything else.
    """
    if plain["format"] != FORMAT:
        raise ValueError(f"a summary of format {plain['format']}")
    names = {int(index): str(name) for index, name in plain["names"]}
    nodes = read_table(plain["nodes"])
    ways = _read_ways(plain["ways"], nodes)
    grains = [NOTHING if not cuts else Grain(period, tuple(cuts)) for period, cuts in plain["grains"]]
    accesses = tuple(
        Access(
            arg,
            mode,
            nbytes,
            line,
            op,
            dtype,
            reason,
            names,
            None if offset is None else nodes[offset],
            ways[way],
            grains[grain],
        )
        for arg, mode, nbytes, line, op, dtype, reason, offset, way, grain in plain["accesses"]
    )
    return KernelSummary(
        plain["name"],
        accesses,
        tuple(Reason(*reason) for reason in plain["one_worker"]),
        frozenset(plain["scalars"]),
        tuple(plain["images"]),
        None if plain["addresses"] is None else Reason(*plain["addresses"]),
        names,
        frozenset(plain["merged"]),
        tuple(ways[way] for way in plain["loops"]),
    )


def _read_ways(rows: Sequence[Sequence[Any]], nodes: Sequence[Expr]) -> list[Step]:
    ways: list[Step] = []
    for parent, kind, expr, counter, text, line in rows:
        before = None if parent is None else ways[parent]
        counted = None if counter is None else nodes[counter]
        ways.append(Step(before, StepKind[kind], nodes[expr], counted, text, line))
    return ways


def _plain_reason(reason: Reason) -> list[Any]:
    return [reason.text, reason.line]
