"""The trace without a device: lines of numbers, and records made up, to slices and to a file."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.ranges.grain import of_unit
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region

from tests.trace_reader import Trace
from vdev.executor.records import WorkRecords
from vdev.observe import timeline
from vdev.observe.figures import Times
from vdev.observe.recorder import Recorder, Shape, route_name
from vdev.observe.rows import Templates
from vdev.observe.timeline import Timeline, _Track, shares
from vdev.observe.trace import TraceWriter
from vdev.planner.directory import HOST
from vdev.planner.instructions import Copy, Launch, Merge, Plan

# lines ------------------------------------------------------------------------------------------

numbers = st.integers(0, 2**62)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), numbers, numbers, numbers), min_size=1, max_size=20))
def test_lines_say_what_rows_do(rows):
    templates = Templates()
    assert templates.add("a ", (0, "d"), "\n") == 0
    assert templates.add("b 0x", (2, "x"), " ", (0, "f"), "|", (1, "f"), "\n") == 1
    assert templates.add("c\n") == 2
    assert templates.add("a ", (0, "d"), "\n") == 0
    lines: list[str] = []
    for template in range(3):
        columns = [
            np.array(column, np.int64)
            for column in zip(*(row[1:] for row in rows if row[0] == template), strict=True)
        ]
        if columns:
            lines += templates.lines(template, columns).tobytes().decode().splitlines()
    expected = []
    for template in range(3):
        for _, x, y, z in (row for row in rows if row[0] == template):
            if template == 0:
                expected.append(f"a {x}")
            elif template == 1:
                parts = (f"{number // 1000}.{number % 1000:03d}" for number in (x, y))
                expected.append(f"b {z:#x} {'|'.join(parts)}")
            else:
                expected.append("c")
    assert [_without_padding(line) for line in lines] == [_without_padding(line) for line in expected]
    assert len({len(line) for line in lines if line[0] == "b"}) <= 1


def _without_padding(line: str) -> list[Any]:
    found = []
    for part in line.replace("|", " ").split():
        found.append(int(part, 16) if part.startswith("0x") else part)
    return found


@given(st.integers(0, 10**12), st.integers(0, 10**9), st.integers(1, 70))
def test_shares_are_equal_and_whole(start, took, count):
    edges = shares((start, start + took), count)
    assert (edges[0], edges[-1], len(edges)) == (start, start + took, count + 1)
    widths = [second - first for first, second in itertools.pairwise(edges)]
    assert max(widths) - min(widths) <= 1


def test_routes_have_names():
    assert route_name(2, HOST) == "worker 2 to host"


# records ----------------------------------------------------------------------------------------


def plan_of(*instructions: Any) -> Plan:
    return Plan(instructions, ((),) * len(instructions), ((),) * len(instructions), ())


def launch_on(*workers: int) -> Plan:
    return plan_of(*(Launch(worker, Chunk((0,), (1,)), ()) for worker in workers))


class Session:
    """What the recorder is told, made up: commands by number, and what workers did."""

    def __init__(self, workers: int, sinks: Any = ()) -> None:
        self.timeline = Timeline(sinks)
        self.records = WorkRecords(workers, exact=False)
        self.recorder = Recorder(
            self.records, lambda recorder, until: self.timeline.take(recorder, until=until)
        )
        self.recorder.queues[1] = True
        self.recorder.queues[2] = False
        self.clock = -1_000_000  # all is submitted before any of it is performed

    def submit(self, number: int, shape: Shape, queue: int = 1) -> None:
        self.recorder.commands.append((number, self.clock, self.clock + 50, queue, 7, shape))
        self.clock += 60

    def mark(self, worker: int, numbers: list[int], ends: list[int], whole: tuple[int, int] | None) -> None:
        self.records.marks[worker].append((numbers, ends, (), whole))

    def take(self, *, final: bool = True) -> None:
        self.recorder.take(1 << 40 if final else 0)


class Seen:
    """A sink that keeps slices as (command, worker, kind, start, end, whether shared)."""

    def __init__(self) -> None:
        self.slices: list[tuple[int, int, str, int, int, bool]] = []
        self.commands: list[int] = []

    def planned(self, started: int, ended: int, thread: int, name: str) -> None:
        raise AssertionError("nothing was planned")

    def performed(self, command: Any, slices: Any) -> None:
        self.commands.append(command[0])
        self.slices += [(command[0], step.worker, step.kind, *rest) for step, *rest in slices]

    def performed_run(self, run: Any) -> None:
        numbers, shapes = run.numbers.tolist(), [run.shapes[index] for index in run.which]
        self.commands += numbers
        for worker, starts, ends, shared in run.workers:
            assert [shape.steps[worker][0].worker for shape in shapes] == [worker] * len(shapes)
            rows = zip(numbers, starts.tolist(), ends.tolist(), shared.tolist(), strict=True)
            self.slices += [(number, worker, "kernel", *rest) for number, *rest in rows]

    def held(self, time: int, worker: int, nbytes: int) -> None:
        raise AssertionError("no memory was taken")

    def written(self) -> None:
        self.slices.sort()


def test_the_time_between_marks_is_shared():
    seen, times = Seen(), Times()
    session = Session(1, [seen])
    for number in (1, 2, 3):
        session.submit(number, Shape("k", times, launch_on(0)))
    session.mark(0, [1, 2, 3], [1, 2, 3], (100, 110))
    session.take()
    assert seen.slices == [
        (1, 0, "kernel", 100, 103, True),
        (2, 0, "kernel", 103, 106, True),
        (3, 0, "kernel", 106, 110, True),
    ]
    assert times.kernel_ns == 10


def test_times_of_operations_are_the_steps():
    """Steps of several operations, a command over two marks, and slices that would overlap."""
    seen, times = Seen(), Times()
    session = Session(2, [seen])
    plan = plan_of(
        Copy(0, 0, HOST, 0, Region.span(0, 64)),
        Launch(0, Chunk((0,), (1,)), ()),
        Merge(0, Region.span(0, 8), (0,), "diff", "V1", grain=of_unit(4)),
        Copy(1, 0, 0, 1, Region.span(0, 8)),
    )
    session.submit(5, Shape("k", times, plan))
    session.records.steps[0].extend([(5, 0, 3, 1, 2), (5, 1, 1, 2, 3)])
    session.records.steps[1].append((5, 0, 1, 4, 5))
    session.records.steps[HOST].append((5, 0, 0, 900, 950))
    session.records.marks[0].append(([5], [2], [(100, 110), (112, 120)], None))
    session.records.marks[0].append(([5], [2], [(120, 130), (125, 160)], None))
    session.records.marks[1].append(([5], [1], [(10, 20)], None))
    session.take()
    assert seen.slices == [
        (5, -1, "merge", 900, 950, False),
        (5, 0, "kernel", 130, 160, False),
        (5, 0, "transfer", 100, 130, False),
        (5, 1, "transfer", 10, 20, False),
    ]
    assert times == Times(kernel_ns=30, transfer_ns=40, merge_ns=50)


@pytest.mark.parametrize("count", [1, 20], ids=["one command", "many at once"])
def test_nothing_begins_before_its_command(count):
    """A device's clock that is behind the host's by 70 ns: flows would arrive before they have begun."""
    seen, times = Seen(), Times()
    session = Session(1, [seen])
    session.clock = 1000
    shape = Shape("k", times, launch_on(0))
    spans = []
    for number in range(1, count + 1):
        spans.append((session.clock - 60, session.clock + 5))
        session.submit(number, shape)
    session.records.marks[0].append((list(range(1, count + 1)), list(range(1, count + 1)), spans, None))
    session.take()
    assert [item[3:] for item in seen.slices] == [
        (1000 + 60 * index, 1005 + 60 * index, False) for index in range(count)
    ]


def test_failed_and_unowned_work_has_no_time():
    seen, times = Seen(), Times()
    session = Session(1, [seen])
    shape = Shape("k", times, launch_on(0))
    for number in (2, 4, 6):
        session.submit(number, shape)
    # 1, 3 and 7 are builds or checks; 4 was not performed
    session.mark(0, [1, 2, 3, 4, 6, 7], [2, 3, 4, 4, 5, 6], (0, 60))
    session.take()
    assert [item[:1] + item[3:] for item in seen.slices] == [(2, 20, 30, True), (6, 40, 50, True)]
    assert seen.commands == [2, 4, 6]


def test_what_is_not_complete_waits():
    seen = Seen()
    session = Session(2, [seen])
    shape = Shape("k", Times(), launch_on(0, 1))
    for number in (1, 2, 3):
        session.submit(number, shape)
    session.mark(0, [1, 2, 3], [1, 2, 3], (0, 30))
    session.mark(1, [1, 2], [1, 2], (0, 20))
    session.take(final=False)
    assert seen.commands == [1]
    session.mark(1, [3], [1], (20, 30))
    session.take()
    assert seen.commands == [1, 2, 3]
    assert len(seen.slices) == 6


@pytest.mark.parametrize("seed", range(20))
def test_many_at_once_or_one_by_one(seed, monkeypatch, tmp_path):
    """Working out a run of commands together gives the slices and the trace of doing it one by one."""
    found = []
    for short in (2, 5, 10**6):
        monkeypatch.setattr(timeline, "_SHORT_RUN", short)
        seen, path = Seen(), tmp_path / f"{short}.json"
        writer = TraceWriter(path, 0)
        writer.name_workers(["one", "other"])
        session = Session(2, [seen, writer])
        writer.name_queues(session.recorder.queues)
        shapes = _play(random.Random(seed), session)
        session.take()
        writer.close({})
        events = [json.dumps(event, sort_keys=True) for event in Trace(path).events]
        found.append((seen.slices, sorted(seen.commands), sorted(events), [shape.times for shape in shapes]))
    assert found[0] == found[1] == found[2]
    assert any(times.kernel_ns for times in found[0][3])


def _play(dice: random.Random, session: Session) -> list[Shape]:
    """Commands of several shapes, most of them plain, in two queues; taken out now and then."""
    shapes = [
        Shape(f"k{k}", Times(), launch_on(*workers)) for k, workers in enumerate([(0, 1), (0, 1), (1,)])
    ]
    copy = Copy(0, 0, HOST, 0, Region.span(0, 4096))
    shapes.append(Shape("moves", Times(), plan_of(copy, Launch(0, Chunk((0,), (1,)), ()))))
    clocks, number, queue = [10**6, 10**6], 0, 1
    for _ in range(12):
        queue = dice.choice((1, 1, queue))
        numbers: list[tuple[int, Shape]] = []
        for _ in range(dice.randrange(1, 12)):
            number += dice.choice((1, 1, 1, 2))
            numbers.append((number, dice.choice(shapes[:2] if dice.random() < 0.9 else shapes)))
            session.submit(*numbers[-1], queue if dice.random() < 0.95 else 2)
        for worker in (0, 1):
            mine = [(number, shape) for number, shape in numbers if worker in shape.steps]
            ends, count = [], 0
            for its_number, shape in mine:
                steps = shape.steps[worker]
                if len(steps) > 1:
                    session.records.steps[worker].extend(
                        (its_number, index, 1, 0, 0) for index in range(len(steps))
                    )
                count += len(steps)
                ends.append(count)
            start = clocks[worker] + dice.randrange(-5, 50)
            clocks[worker] = start + dice.randrange(10, 3000)
            whole = (max(start, 0), clocks[worker])
            spans = (
                []
                if dice.random() < 0.5
                else [(whole[0] + 9 * k, whole[0] + 9 * k + 11) for k in range(count)]
            )
            record = ([number for number, _ in mine], ends, spans, None if spans else whole)
            session.records.marks[worker].append(record)
        if dice.random() < 0.3:
            session.take(final=False)
    return shapes


def test_a_trace_is_whole_at_every_step(tmp_path: Path) -> None:
    """What is in the file when the program is killed can be read by who does not insist on the end."""
    path = tmp_path / "trace.json"
    writer = TraceWriter(path, 0)
    session = Session(1, [writer])
    writer.name_workers(["only"])
    writer.name_queues(session.recorder.queues)
    for number in range(1, 50):
        session.submit(number, Shape('quoted "%d" näme', Times(), launch_on(0)))
    session.mark(0, list(range(1, 50)), list(range(1, 50)), (20_000, 90_000))
    session.take(final=False)
    unfinished = path.read_text().rstrip().rstrip(",") + "]}"
    names = {event["name"] for event in json.loads(unfinished)["traceEvents"] if event["ph"] == "X"}
    assert names == {'quoted "%d" näme'}
    session.take()
    writer.close({"figures": 1})
    trace = Trace(path)
    assert trace.figures == {"figures": 1}
    assert trace.took("kernel") == 70_000
    assert len(trace.track("worker 0: only")) == 49
    assert len(trace.track("queue 1 (in order)")) == 49


def test_no_share_of_a_time_begins_before_its_command() -> None:
    """Launches that share a marker's time share it evenly, but the host may have made most of them late."""
    track = _Track()
    track.add_mark(((5, 6, 7, 8), (1, 2, 3, 4), (), (1000, 1400)))
    where = track.find_run([5, 6, 7, 8])
    assert where is not None
    submitted = np.array([1000, 1050, 1290, 1310])
    starts, ends, shared = track.take_run(where, submitted - 900, submitted)
    assert starts.tolist() == [1000, 1100, 1290, 1310]
    assert ends.tolist() == [1100, 1200, 1300, 1400]
    assert shared.all()
    known = _Track()
    known.add_mark(((5, 6), (1, 2), ((1000, 1100), (1100, 1200)), None))
    where = known.find_run([5, 6])
    assert where is not None
    submitted = np.array([1010, 1110])
    assert known.take_run(where, submitted - 500, submitted)[0].tolist() == [1000, 1100]  # measured
