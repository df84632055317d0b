"""The trace: a run as a file that Perfetto and chrome://tracing open (JSON, "Trace Event Format").

Decides which track an event is on. Process "host program" has a track for each thread that submits: a slice
for each command, from when the session took it up until it was handed over, and in it one for each plan or
analysis made. Process "queues" has a track for each queue: a command lasts from the start of its first work to
the end of its last, and in an in-order queue begins when the one before has ended; where commands of an
out-of-order queue overlap the queue has more tracks. Process "workers" has a track for each worker and one
for host memory: kernels, transfers, merges, fills. A flow goes from the host's slice over the queue's to the
workers'. Counters: device memory held, and the rate of each link while bytes travel.

All times are those of `vdev.observe.timeline`, so durations by category add up to the report's.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import lru_cache
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdev.planner.instructions import HOST

if TYPE_CHECKING:
    from vdev.observe.recorder import StepShape
    from vdev.observe.timeline import Command, Slice

HOST_PROGRAM, QUEUES, WORKERS = 1, 2, 3
_HOST_MEMORY = 1000  #: number of its track among the workers'
_LANES = 100  #: tracks that one queue may have


class TraceWriter:
    """Writes slices to a file as they come; the file is whole after `close`."""

    def __init__(self, path: Path, zero: int) -> None:
        """`zero`: the time at which the trace begins. Raises OSError."""
        self._file: TextIOWrapper = path.open("w", encoding="utf-8")
        self._zero = zero
        self._lines: list[str] = []
        self._threads: dict[int, int] = {}
        #: by queue: when the last command on each of its tracks ended
        self._lanes: dict[int, list[int]] = {}
        self._memory: dict[int, int] = {}
        self._file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        names = ((HOST_PROGRAM, "host program"), (QUEUES, "queues"), (WORKERS, "workers"))
        for pid, name in names:
            self._metadata("process_name", pid, 0, name=name)
            self._metadata("process_sort_index", pid, 0, sort_index=pid)

    def name_workers(self, names: Sequence[str]) -> None:
        """Give each worker its track."""
        for number, name in enumerate(names):
            self._name_track(WORKERS, number + 1, f"worker {number}: {name}")
        self._name_track(WORKERS, _HOST_MEMORY, "host memory")

    # the sink -----------------------------------------------------------------------------------

    def planned(self, started: int, ended: int, thread: int, name: str) -> None:
        template = _slice(HOST_PROGRAM, self._thread(thread), name, "planning")
        self._lines.append(template % ((started - self._zero) / 1000, (ended - started) / 1000))

    def performed(self, command: Command, slices: Sequence[Slice]) -> None:
        lines, zero, shape, number = self._lines, self._zero, command.shape, command.number
        templates = shape.templates
        thread = command.thread
        template = templates.get(thread)
        if template is None:
            track = self._thread(thread)
            template = templates[thread] = _slice(HOST_PROGRAM, track, shape.name, "command", _FLOW_OUT)
        # From a nanosecond before, so that a plan made at once lies within.
        start = command.started - 1
        lines.append(template % (number, (start - zero) / 1000, (command.submitted - start) / 1000))
        lane, start, end = self._place(command, slices)
        template = templates.get(lane)
        if template is None:
            template = templates[lane] = _slice(*lane, shape.name, "queue", _FLOW_BOTH)
        lines.append(template % (number, (start - zero) / 1000, (end - start) / 1000))
        for worker, step, first, last, shared in slices:
            key = (worker, step, shared)
            template = templates.get(key)
            if template is None:
                template = templates[key] = _step_slice(worker, step.name, step.kind, step.nbytes, shared)
            lines.append(template % (number, (first - zero) / 1000, (last - first) / 1000))
            if step.kind == "transfer" and last > first:
                self._count_link(step, first, last)

    def held(self, time: int, worker: int, nbytes: int) -> None:
        if worker != HOST and self._memory.get(worker, 0) != nbytes:
            self._memory[worker] = nbytes
            self._count(f"memory held by worker {worker}", time, {"bytes": nbytes})

    def written(self) -> None:
        if self._lines:
            self._file.write("".join(self._lines))
            self._lines.clear()
            self._file.flush()

    def close(self, summary: dict[str, Any]) -> None:
        """End the file; `summary` is kept in it as `otherData`."""
        self.written()
        # An event without a comma behind it has to be the last.
        self._file.write(
            _event({"ph": "M", "name": "process_name", "pid": QUEUES, "args": {"name": "queues"}})
        )
        self._file.write(f'\n],\n"otherData": {json.dumps(summary)}}}\n')
        self._file.close()

    # tracks -------------------------------------------------------------------------------------

    def _thread(self, identifier: int) -> int:
        found = self._threads.get(identifier)
        if found is None:
            found = self._threads[identifier] = len(self._threads) + 1
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            self._name_track(HOST_PROGRAM, found, names.get(identifier, f"thread {found}"))
        return found

    def _place(self, command: Command, slices: Sequence[Slice]) -> tuple[tuple[int, int], int, int]:
        """The queue's track for a command, and from when to when it is there."""
        queue = command.queue
        lanes = self._lanes.get(queue)
        if lanes is None:
            kind = "in order" if command.in_order else "out of order"
            self._name_track(QUEUES, queue * _LANES, f"queue {queue} ({kind})")
            lanes = self._lanes[queue] = [0]
        if slices:
            start, end = min(item[2] for item in slices), max(item[3] for item in slices)
        else:
            start = end = command.submitted
        lane = 0
        if command.in_order or len(lanes) == _LANES:
            start = max(start, lanes[0])
            end = max(start, end)
        else:
            while lane < len(lanes) and lanes[lane] > start:
                lane += 1
            if lane == len(lanes):
                lanes.append(0)
                self._name_track(QUEUES, queue * _LANES + lane, f"queue {queue} (out of order, {lane + 1})")
        lanes[lane] = end
        return (QUEUES, queue * _LANES + lane), start, end

    def _name_track(self, pid: int, tid: int, name: str) -> None:
        self._metadata("thread_name", pid, tid, name=name)
        self._metadata("thread_sort_index", pid, tid, sort_index=tid)

    def _metadata(self, kind: str, pid: int, tid: int, **args: str | int) -> None:
        self._lines.append(_event({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}) + ",\n")

    # counters -----------------------------------------------------------------------------------

    def _count(self, name: str, time: int, args: dict[str, float]) -> None:
        event = {"ph": "C", "name": name, "pid": WORKERS, "ts": (time - self._zero) / 1000, "args": args}
        self._lines.append(_event(event) + ",\n")

    def _count_link(self, step: StepShape, start: int, end: int) -> None:
        rate = step.nbytes / (end - start)
        for time, value in ((start, rate), (end, 0.0)):
            self._count(f"rate {step.name}", time, {"GB/s": round(value, 6)})


_FLOW_OUT = '"flow_out":true,'
_FLOW_IN = '"flow_in":true,'
_FLOW_BOTH = '"flow_in":true,"flow_out":true,'


@lru_cache(maxsize=4096)
def _slice(pid: int, tid: int, name: str, category: str, flow: str = "", args: str = "") -> str:
    """A slice but for its times in microseconds and, where it has a flow, the flow's number before."""
    if flow:
        flow += '"bind_id":"0x%x",'
    quoted = json.dumps(name).replace("%", "%%")
    return (
        f'{{"ph":"X","pid":{pid},"tid":{tid},"name":{quoted},"cat":"{category}",{flow}{args}'
        '"ts":%.3f,"dur":%.3f},\n'
    )


@lru_cache(maxsize=4096)
def _step_slice(worker: int, name: str, kind: str, nbytes: int, shared: bool) -> str:
    args: dict[str, Any] = {"bytes": nbytes} if kind != "kernel" else {}
    if shared:
        args["time"] = "an equal share of what many short operations took together"
    text = f'"args":{json.dumps(args)},'.replace("%", "%%") if args else ""
    track = _HOST_MEMORY if worker == HOST else worker + 1
    return _slice(WORKERS, track, name, kind, _FLOW_IN, text)


def _event(event: dict[str, Any]) -> str:
    return json.dumps(event, separators=(",", ":"))
