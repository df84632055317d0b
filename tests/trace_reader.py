"""Reading a trace as what opens traces does, and refusing what that would drop.

The rules are those of the "Trace Event Format" and of Perfetto's importer: slices of one track nest or lie
apart, an arriving flow has begun before, every track has a name. Perfetto's own trace processor reads the
trace as well, where it is to be had: PyPI `perfetto` and, as that fetches its program from the network, the
program `trace_processor_shell` on the path.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

Event = dict[str, Any]
SHELL = shutil.which("trace_processor_shell")
PROCESSES = {1: "host program", 2: "queues", 3: "workers"}


class Trace:
    """A trace file, checked. Times in nanoseconds."""

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text())
        assert set(content) == {"displayTimeUnit", "traceEvents", "otherData"}
        self.figures: dict[str, Any] = content["otherData"]
        self.events: list[Event] = content["traceEvents"]
        self.slices = [event for event in self.events if event["ph"] == "X"]
        self.counters = [event for event in self.events if event["ph"] == "C"]
        self.names: dict[tuple[int, int], str] = {}
        for event in self.events:
            assert event["ph"] in "XCM", event
            if event["ph"] == "M":
                self._read_metadata(event)
        for event in self.slices:
            assert set(event) >= {"pid", "tid", "name", "cat", "ts", "dur"}, event
            event["start"], event["took"] = round(event["ts"] * 1000), round(event["dur"] * 1000)
            assert event["start"] >= 0, event
            assert event["took"] >= 0, event
            assert (event["pid"], event["tid"]) in self.names, event
        for event in self.counters:
            assert event["ts"] >= 0, event
            assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())
        self._check_nesting()
        self._check_flows()

    def _read_metadata(self, event: Event) -> None:
        if event["name"] == "process_name":
            assert event["args"]["name"] == PROCESSES[event["pid"]]
        elif event["name"] == "thread_name":
            assert (event["pid"], event["tid"]) not in self.names, "a track is named once"
            self.names[event["pid"], event["tid"]] = event["args"]["name"]
        else:
            assert event["name"] in ("process_sort_index", "thread_sort_index"), event

    def track(self, name: str) -> list[Event]:
        """The slices of the tracks whose names begin like this, in the order of time."""
        tids = {key for key, found in self.names.items() if found.startswith(name)}
        return [event for event in self._ordered() if (event["pid"], event["tid"]) in tids]

    def took(self, category: str) -> int:
        """The durations of a category's slices, added up."""
        return sum(event["took"] for event in self.slices if event["cat"] == category)

    def nbytes(self, category: str) -> int:
        """The bytes of a category's slices, added up."""
        return sum(event["args"]["bytes"] for event in self.slices if event["cat"] == category)

    def _ordered(self) -> list[Event]:
        return sorted(self.slices, key=lambda event: event["start"])  # stable, as the importer sorts

    def _check_nesting(self) -> None:
        stacks: dict[tuple[int, int], list[Event]] = defaultdict(list)
        for event in self._ordered():
            stack = stacks[event["pid"], event["tid"]]
            end = event["start"] + event["took"]
            while stack and stack[-1]["start"] + stack[-1]["took"] <= event["start"]:
                stack.pop()
            assert not stack or end <= stack[-1]["start"] + stack[-1]["took"], (stack[-1], event)
            stack.append(event)

    def _check_flows(self) -> None:
        begun: set[str] = set()
        ended: set[str] = set()
        for event in self._ordered():
            flow = event.get("bind_id")
            assert (flow is not None) == ("flow_in" in event or "flow_out" in event)
            if flow is None:
                continue
            assert int(flow, 16) > 0
            if "flow_in" in event:
                assert flow in begun, ("it arrives before it has begun", event)
                ended.add(flow)
            else:
                assert flow not in begun, ("it begins twice", event)
                begun.add(flow)
        assert begun == ended, "every command is in its queue"


def total(figures: dict[str, Any], what: str) -> int:
    """A time of the report, over all rows: 'kernel_ns', 'planning_ns'…"""
    rows = [*figures["kernels"], *figures["commands"]]
    return sum(row[what] if what in row else row["times"][what] for row in rows)


def check_sums(trace: Trace, figures: dict[str, Any]) -> None:
    """The trace's durations and bytes against a report's."""
    for kind in ("kernel", "transfer", "device", "merge", "host"):
        assert trace.took(kind) == total(figures, f"{kind}_ns"), kind
    assert trace.took("planning") == total(figures, "planning_ns")
    assert trace.nbytes("transfer") == sum(figures["moved"].values())
    for row in figures["kernels"]:
        named = [
            event for event in trace.slices if event["cat"] == "command" and event["name"] == row["name"]
        ]
        assert len(named) >= row["launches"]  # two programs may have kernels of one name


def read_with_perfetto(path: Path, figures: dict[str, Any]) -> None:
    """The same sums from Perfetto's trace processor; nothing where it is not installed."""
    if SHELL is None:
        return
    processor = pytest.importorskip("perfetto.trace_processor")
    config = processor.TraceProcessorConfig(bin_path=SHELL)
    with processor.TraceProcessor(trace=str(path), config=config) as trace:
        errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
        assert [(row.name, row.value) for row in trace.query(errors)] == []
        rows = trace.query(
            "select category, sum(dur) as took, count(*) as number from slice group by category"
        )
        took = {row.category: (row.took, row.number) for row in rows}
        for kind in ("kernel", "transfer", "merge"):
            expected = sum(row["times"][f"{kind}_ns"] for row in [*figures["kernels"], *figures["commands"]])
            found, number = took.get(kind, (0, 0))
            assert abs(found - expected) <= number  # it rounds each to a nanosecond
        flows = next(iter(trace.query("select count(*) as number from flow"))).number
        assert flows >= sum(row["launches"] for row in figures["kernels"])
