"""The trace: a run as a file that Perfetto and chrome://tracing open (JSON, "Trace Event Format").

Decides which track an event is on. Process "host program" has a track for each thread that submits: a slice for each
command, from the moment the session received it until it was handed over, and within it one for each plan or analysis
made. Process "queues" has a track for each queue: a command lasts from the start of its first work to the end of its
last, and in an in-order queue begins when the one before has ended; where commands of an out-of-order queue overlap
the queue has more tracks. Process "workers" has a track for each worker and one for host memory: kernels, transfers,
merges, fills. A flow goes from the host's slice over the queue's to the workers', and, for work that begins before
its command's turn in the queue, past the queue's. Counters: device memory held, and the rate of each link while bytes
travel.

All times are those of `vdev.observe.timeline`, so durations by category add up to the report's; slices marked
`shared` have a share of the time of many short operations. Events are not sorted by time; programs that read
traces sort them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vdev.observe.rows import Numbers, Templates
from vdev.planner.instructions import HOST

if TYPE_CHECKING:
    from vdev.observe.recorder import CommandRecord, Shape, StepShape
    from vdev.observe.timeline import Run, Slice

HOST_PROGRAM, QUEUES, WORKERS = 1, 2, 3
_HOST_MEMORY = 1000  #: the number of its track among the workers'
_LANES = 100  #: the most tracks of one queue
_APART = 1 << 31  #: from here on flows of commands that have no numbers of their own are numbered
_FLOW_OUT = '"flow_out":true,'
_FLOW_IN = '"flow_in":true,'


class TraceWriter:
    """Writes slices to a file as they come; the file is complete after `close`."""

    def __init__(self, path: Path, zero: int) -> None:
        """`zero`: the time at which the trace begins. Raises OSError."""
        self._file: BufferedWriter = path.open("wb")
        self._zero = zero
        self._apart = _APART  #: the last flow of a command that has no number of its own
        self._templates = Templates()
        self._rows: list[int] = []  #: four numbers each: template, flow's number, time, duration or value
        #: by template: such rows in columns
        self._columns: dict[int, list[tuple[Numbers, ...]]] = {}
        self._lines: list[str] = []
        self._threads: dict[int, int] = {}
        self._in_order: dict[int, bool] = {}
        #: by queue: when the last command on each of its tracks ended
        self._lanes: dict[int, list[int]] = {}
        self._memory: dict[int, int] = {}
        self._file.write(b'{"displayTimeUnit": "ns", "traceEvents": [\n')
        names = ((HOST_PROGRAM, "host program"), (QUEUES, "queues"), (WORKERS, "workers"))
        for pid, name in names:
            self._metadata("process_name", pid, 0, name=name)
            self._metadata("process_sort_index", pid, 0, sort_index=pid)

    def name_workers(self, names: Sequence[str]) -> None:
        """Give each worker its track."""
        for number, name in enumerate(names):
            self._name_track(WORKERS, number + 1, f"worker {number}: {name}")
        self._name_track(WORKERS, _HOST_MEMORY, "host memory")

    def name_queues(self, in_order: dict[int, bool]) -> None:
        """`in_order`: of every queue, by number; it may grow."""
        self._in_order = in_order

    # the sink -----------------------------------------------------------------------------------

    def planned(self, started: int, ended: int, thread: int, name: str) -> None:
        template = self._slice(HOST_PROGRAM, self._thread(thread), name, "planning")
        self._rows += (template, 0, started - self._zero, ended - started)

    def performed(self, command: CommandRecord, slices: Sequence[Slice]) -> None:
        number, started, submitted, queue, thread, shape = command
        if shape.at_once:
            number = self._apart = self._apart + 1
        rows, zero = self._rows, self._zero
        if len(slices) == 1:
            _, start, end, _ = slices[0]
        elif slices:
            start, end = min([item[1] for item in slices]), max([item[2] for item in slices])
        else:
            start = end = submitted
        lanes = self._lanes.get(queue) or self._open_queue(queue)
        if self._in_order[queue]:
            lane = 0
            start = start if start > lanes[0] else lanes[0]
            end = end if end > start else start
        else:
            lane, start, end = self._place(queue, lanes, start, end)
        lanes[lane] = end
        known = self._command_templates(thread, queue * _LANES + lane, shape)
        # The command's own slice begins a nanosecond earlier, so that a plan made immediately lies within it.
        started -= zero + 1
        rows += (
            known[2], number, started, submitted - zero - started,
            known[3], number, start - zero, end - start,
        )  # fmt: skip
        for step, first, last, shared in slices:
            rows += (self._step_template(step, shared), number, first - zero, last - first)
            if step.kind == "transfer" and last > first:
                self._count_link(step, first, last)

    def performed_run(self, run: Run) -> None:
        lanes = self._lanes.get(run.queue) or self._open_queue(run.queue)
        track, zero, numbers = run.queue * _LANES, self._zero, run.numbers
        known = [self._command_templates(run.thread, track, shape) for shape in run.shapes]
        started = run.started - 1  # as in `performed`
        self._add([item[2] for item in known], run.which, numbers, started - zero, run.submitted - started)
        # A command begins in the queue when the one before has ended.
        starts = np.minimum.reduce([item[1] for item in run.workers])
        ends = np.maximum.accumulate(np.maximum.reduce([item[2] for item in run.workers]))
        ends = np.maximum(ends, lanes[0])
        starts = np.maximum(starts, np.concatenate((lanes, ends[:-1])))
        lanes[0] = int(ends[-1])
        self._add([item[3] for item in known], run.which, numbers, starts - zero, ends - starts)
        for worker, first, last, shared in run.workers:
            steps = [shape.steps[worker][0] for shape in run.shapes]
            templates = [self._step_template(step, share) for step in steps for share in (False, True)]
            self._add(templates, 2 * run.which + shared, numbers, first - zero, last - first)

    def _add(self, templates: list[int], which: npt.NDArray[np.intp], *columns: Numbers) -> None:
        """Add rows in columns; `which` of `templates` each has."""
        present = np.flatnonzero(np.bincount(which)).tolist()
        for index in present:
            rows = slice(None) if len(present) == 1 else which == index
            self._columns.setdefault(templates[index], []).append(tuple(column[rows] for column in columns))

    def held(self, time: int, worker: int, nbytes: int) -> None:
        if worker != HOST and self._memory.get(worker, 0) != nbytes:
            self._memory[worker] = nbytes
            self._count(f"memory held by worker {worker}", "bytes", time, nbytes)

    def written(self) -> None:
        if self._lines:
            self._file.write("".join(self._lines).encode())
            self._lines.clear()
        if self._rows:
            table = np.array(self._rows, np.int64).reshape(-1, 4)
            numbers, which = np.unique(table[:, 0], return_inverse=True)
            self._add(numbers.tolist(), which, *table[:, 1:].T)
            self._rows.clear()
        for template, parts in self._columns.items():
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
            self._file.write(self._templates.lines(template, columns).data)
        self._columns.clear()
        self._file.flush()

    def close(self, summary: dict[str, Any]) -> None:
        """End the file; `summary` is kept in it as `otherData`."""
        self.written()
        # The last event must not be followed by a comma.
        last = {"ph": "M", "name": "process_name", "pid": QUEUES, "args": {"name": "queues"}}
        self._file.write(f'{_event(last)}\n],\n"otherData": {json.dumps(summary)}}}\n'.encode())
        self._file.close()

    # tracks -------------------------------------------------------------------------------------

    def _thread(self, identifier: int) -> int:
        found = self._threads.get(identifier)
        if found is None:
            found = self._threads[identifier] = len(self._threads) + 1
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            self._name_track(HOST_PROGRAM, found, names.get(identifier, f"thread {found}"))
        return found

    def _open_queue(self, queue: int) -> list[int]:
        kind = "in order" if self._in_order[queue] else "out of order"
        self._name_track(QUEUES, queue * _LANES, f"queue {queue} ({kind})")
        lanes = self._lanes[queue] = [0]
        return lanes

    def _place(self, queue: int, lanes: list[int], start: int, end: int) -> tuple[int, int, int]:
        """The track of an out-of-order queue for a command, and the times from which and to which it is there."""
        for lane, ended in enumerate(lanes):
            if ended <= start:
                return lane, start, end
        if len(lanes) == _LANES:
            return 0, max(start, lanes[0]), max(end, lanes[0])
        lanes.append(0)
        lane = len(lanes) - 1
        self._name_track(QUEUES, queue * _LANES + lane, f"queue {queue} (out of order, {lane + 1})")
        return lane, start, end

    def _name_track(self, pid: int, tid: int, name: str) -> None:
        self._metadata("thread_name", pid, tid, name=name)
        self._metadata("thread_sort_index", pid, tid, sort_index=tid)

    def _metadata(self, kind: str, pid: int, tid: int, **args: str | int) -> None:
        self._lines.append(_event({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}) + ",\n")

    # templates ----------------------------------------------------------------------------------

    def _command_templates(self, thread: int, track: int, shape: Shape) -> tuple[int, int, int, int]:
        """`shape.template` for this thread and this track of the queue."""
        known = shape.template
        if known[0] != thread or known[1] != track:
            known = shape.template = (
                thread,
                track,
                self._slice(HOST_PROGRAM, self._thread(thread), shape.name, "command", _FLOW_OUT),
                self._slice(QUEUES, track, shape.name, "queue", _FLOW_IN + _FLOW_OUT),
            )
        return known

    def _step_template(self, step: StepShape, shared: bool) -> int:
        found = step.templates[shared]
        if found < 0:
            args: dict[str, Any] = {} if step.kind == "kernel" else {"bytes": step.nbytes}
            if shared:  # a share of the time that many short operations took together
                args["shared"] = True
            text = f'"args":{json.dumps(args)},' if args else ""
            track = _HOST_MEMORY if step.worker == HOST else step.worker + 1
            found = self._slice(WORKERS, track, step.name, step.kind, _FLOW_IN, text)
            step.templates[shared] = found
        return found

    def _slice(self, pid: int, tid: int, name: str, category: str, flow: str = "", args: str = "") -> int:
        """A slice; its times are in microseconds."""
        head = f'{{"ph":"X","pid":{pid},"tid":{tid},"name":{json.dumps(name)},"cat":"{category}",{args}'
        times = ('"ts":', (1, "f"), ',"dur":', (2, "f"), "},\n")
        if flow:
            return self._templates.add(f'{head}{flow}"bind_id":"0x', (0, "x"), '",', *times)
        return self._templates.add(head, *times)

    # counters -----------------------------------------------------------------------------------

    def _count(self, name: str, unit: str, time: int, value: int) -> None:
        head = f'{{"ph":"C","pid":{WORKERS},"name":{json.dumps(name)},"ts":'
        template = self._templates.add(head, (1, "f"), f',"args":{{"{unit}":', (2, "d"), "}},\n")
        self._rows += (template, 0, time - self._zero, value)

    def _count_link(self, step: StepShape, start: int, end: int) -> None:
        name = f"rate {step.name}"
        self._count(name, "MB/s", start, step.nbytes * 1000 // (end - start))
        self._count(name, "MB/s", end, 0)


def _event(event: dict[str, Any]) -> str:
    return json.dumps(event, separators=(",", ":"))
