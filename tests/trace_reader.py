"""Reading a trace as what opens traces does, and refusing what that would drop.

The rules are those of the "Trace Event Format" and of Perfetto's importer: slices of one track nest or lie
apart, an arriving flow has begun before, every track has a name. Perfetto's own trace processor reads the
trace as well (`tests.trace_processor`): what it has then is compared slice by slice, flow by flow and value by
value with the file, and its sums with the report.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.trace_processor import missing, open_trace

Event = dict[str, Any]
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
        slices = (event for event in self.slices if (event["pid"], event["tid"]) in tids)
        return sorted(slices, key=lambda event: (event["start"], event["took"]))

    def ordered(self) -> list[Event]:
        """The slices as the importer sorts them: as they begin, the longest first, and then as in the file."""
        return sorted(self.slices, key=lambda event: (event["start"], -event["took"]))

    def took(self, category: str) -> int:
        """The durations of a category's slices, added up."""
        return sum(event["took"] for event in self.slices if event["cat"] == category)

    def nbytes(self, category: str) -> int:
        """The bytes of a category's slices, added up."""
        return sum(event["args"]["bytes"] for event in self.slices if event["cat"] == category)

    def _check_nesting(self) -> None:
        stacks: dict[tuple[int, int], list[Event]] = defaultdict(list)
        for event in self.ordered():
            stack = stacks[event["pid"], event["tid"]]
            end = event["start"] + event["took"]
            while stack and stack[-1]["start"] + stack[-1]["took"] <= event["start"]:
                stack.pop()
            assert not stack or end <= stack[-1]["start"] + stack[-1]["took"], (stack[-1], event)
            stack.append(event)

    def _check_flows(self) -> None:
        begun: set[str] = set()
        ended: set[str] = set()
        for event in self.ordered():
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


def check_peaks(trace: Trace, figures: dict[str, Any]) -> None:
    """The counters of memory against the most that each worker held, as its back end counted it."""
    held = {
        f"memory held by worker {worker['number']}": worker["peak_nbytes"] for worker in figures["workers"]
    }
    most = dict.fromkeys(held, 0)
    for event in trace.counters:
        if event["name"] in most:
            most[event["name"]] = max(most[event["name"]], event["args"]["bytes"])
    assert most == held


def read_with_perfetto(path: Path, figures: dict[str, Any]) -> None:
    """The same from Perfetto's trace processor; nothing where it is not installed, which `test_trace` tells."""
    if missing():
        return
    trace = Trace(path)
    with open_trace(path) as processor:
        check_import(processor, trace)
        check_perfetto_sums(processor, figures)


def ask(processor: Any, query: str) -> list[tuple[Any, ...]]:
    """The rows; columns have different names."""
    return [tuple(vars(row).values()) for row in processor.query(query)]


def check_import(processor: Any, trace: Trace) -> None:
    """The processor dropped and changed nothing."""
    bad = "severity in ('error', 'data_loss') or name glob 'flow_*'"
    complaints = ask(processor, f"select name, value from stats where value > 0 and ({bad})")
    assert not complaints, complaints
    slices = ask(
        processor,
        "select slice.id, process.pid, process.name as process, thread.tid, thread.name as thread, "
        "slice.name, category, ts, dur from slice join thread_track on track_id = thread_track.id "
        "join thread using (utid) join process using (upid) order by slice.id",
    )
    ordered = trace.ordered()
    expected: list[tuple[Any, ...]] = []
    for event in ordered:
        pid, tid = event["pid"], event["tid"]
        names = PROCESSES[pid], tid, trace.names[pid, tid], event["name"], event["cat"]
        expected.append((pid, *names, event["start"], event["took"]))
    assert [row[1:] for row in slices] == expected, "slices"
    _check_flows(processor, {row[0]: event for row, event in zip(slices, ordered, strict=True)})
    values = (
        "select counter_track.name, ts, cast(value as int) as value "
        "from counter join counter_track on track_id = counter_track.id"
    )
    expected = [
        (f"{event['name']} {unit}", round(event["ts"] * 1000), value)
        for event in trace.counters
        for unit, value in event["args"].items()
    ]
    assert sorted(ask(processor, values)) == sorted(expected), "values"


def _check_flows(processor: Any, events: dict[int, Event]) -> None:
    """One arrives at each slice that a command caused, from where the command was last: at the host's slice, or at
    its queue's if that has begun."""
    latest: dict[str, int] = {}
    expected = []
    for number, event in events.items():
        if "flow_in" in event:
            expected.append((latest[event["bind_id"]], number))
        if "flow_out" in event:
            latest[event["bind_id"]] = number
    assert ask(processor, "select slice_out, slice_in from flow order by slice_in") == expected, "flows"


def check_perfetto_sums(processor: Any, figures: dict[str, Any]) -> None:
    """The processor's sums against a report's: times, bytes by route, the most memory held."""
    took = dict(ask(processor, "select category, sum(dur) as took from slice group by category"))
    for kind in ("planning", "kernel", "transfer", "device", "merge", "host"):
        assert took.get(kind, 0) == total(figures, f"{kind}_ns"), kind
    kernels: dict[str, int] = defaultdict(int)
    for row in figures["kernels"]:
        kernels[row["name"]] += row["times"]["kernel_ns"]
    by_name = "select name, sum(dur) as took from slice where category = 'kernel' group by name"
    assert {name: time for name, time in ask(processor, by_name) if time} == {
        name: time for name, time in kernels.items() if time
    }
    routes = (
        "select case when name glob 'host to *' then 'host_to_worker' when name glob '* to host' "
        "then 'worker_to_host' else 'worker_to_worker' end as route, "
        "sum(extract_arg(arg_set_id, 'args.bytes')) as bytes from slice where category = 'transfer' group by route"
    )
    assert dict.fromkeys(figures["moved"], 0) | dict(ask(processor, routes)) == figures["moved"]
    peaks = (
        "select counter_track.name, cast(max(value) as int) as bytes from counter "
        "join counter_track on track_id = counter_track.id where counter_track.name glob 'memory *' "
        "group by counter_track.name"
    )
    held = {
        f"memory held by worker {worker['number']} bytes": worker["peak_nbytes"]
        for worker in figures["workers"]
    }
    assert dict.fromkeys(held, 0) | dict(ask(processor, peaks)) == held
