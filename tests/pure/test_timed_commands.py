"""Commands of profiled queues that are handed over at once: the same bytes and failures as those of others, and times that fit."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.completion import Completion
from vdev.executor.line import Line
from vdev.executor.stretch import Clocked, Part
from vdev.session.commands import CopyBuffer, Fill, Marker, Read
from vdev.session.ordering import QueueOrder

from .test_event_order import wait_until
from .test_session_failures import NBYTES, Program, ended, numbers, triple

WORKERS = [1, 2]


@pytest.fixture(autouse=True, params=["markers tell times", "the back end tells times"])
def at_once(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[Part]:
    """Any thread may work with the only worker; what was handed over at once in profiled queues."""
    handed: list[Part] = []
    plain = Line._enter

    def enter(*given: Any) -> Part:
        part = plain(*given)
        timed = given[5] if len(given) > 5 else None
        if timed is not None:
            handed.append(part)
        return part

    monkeypatch.setattr(Line, "_enter", enter)
    monkeypatch.setattr(ReferenceBackend, "any_thread_alone", True)
    monkeypatch.setattr(ReferenceBackend, "tells_times", request.param == "the back end tells times")
    return handed


def check_times(completions: list[Completion], began: int, *, apart: bool = True) -> None:
    """Those of commands in the order of their queue, which have ended. In nanoseconds. `apart`: none begins before the last one's end."""
    before = began
    for completion in completions:
        times = completion.times
        assert times is not None
        queued, submitted, start, end = times
        assert began <= queued <= submitted <= start < end <= time.perf_counter_ns(), (
            "programs divide by durations"
        )
        assert start >= before or not apart, "two commands of an in-order queue overlap"
        before = end


@pytest.mark.parametrize("delay", [0, 0.0005])
def test_a_row_of_launches_has_times(delay: float, at_once: list[Part]) -> None:
    with Program(1, {0: Faults(delay=lambda _: delay)}) as program:
        queue = program.session.create_queue(in_order=True, profiled=True)
        buffer = program.buffer(3, queue)
        began, completions = time.perf_counter_ns(), []
        while len(completions) < 40 or (len(at_once) <= 20 and len(completions) < 2000):
            program.session.executor.quiesce()  # its thread is through, mostly
            completions.append(program.launch(buffer, buffer, (), queue))
        assert {ended(each) for each in completions} == {0}
        assert len(at_once) > 20
        check_times(completions, began)
        if ReferenceBackend.tells_times:
            assert all(not part.stretch.markers for part in at_once), "markers that nobody needs"
            assert {part.times[2:] for part in at_once if part.times} <= {
                span[1:] for span in program.backends[0].spans.values()
            }, "more or less than the command's own work"
        for part in at_once if not ReferenceBackend.tells_times else ():
            (marker,), times = part.stretch.markers, part.stretch.completion.times
            measured = marker.times()
            assert measured is not None
            assert times is not None
            assert times[1] <= measured[0], "submitted after it was handed over"
            assert times[2:] == measured[2:], "more or less than the command's own work"
        expected = numbers(3)
        for _ in range(40):
            expected = triple(expected)
        assert program.content(buffer).tolist() == expected.tolist()


def test_a_failed_one_has_no_times_and_fails_what_waits_for_it(at_once: list[Part]) -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        queue = program.session.create_queue(in_order=True, profiled=True)
        good, bad = program.buffer(3, queue), program.buffer(4, queue)
        for _ in range(20):
            program.launch(good, good, (), queue), program.launch(bad, bad, (), queue)
        program.session.finish(queue)
        before = program.launch(good, good, (), queue)
        faults[program.backends[0]._handed_over] = -5
        at_once.clear()
        failed = program.launch(bad, bad, (), queue)
        assert at_once
        after = program.launch(good, good, (), queue)
        waiting = program.launch(good, good, (failed,), queue)
        assert (ended(before), ended(failed), ended(after), ended(waiting)) == (0, -5, 0, -14)
        assert failed.times is None
        assert waiting.times is None
        assert before.times is not None
        assert after.times is not None


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("seed", range(6))
def test_among_other_commands(seed: int, workers: int, at_once: list[Part]) -> None:
    """Of queues of every kind, with failures of commands now and then: buffers hold what those that succeeded leave."""
    drawn = random.Random(seed)
    delays = {n: Faults(delay=lambda _: drawn.choice((0, 0, 0.0003))) for n in range(workers)}
    with Program(workers, delays) as program:
        create = program.session.create_queue
        queues = [
            create(in_order=True, profiled=True),
            create(in_order=True),
            create(in_order=False, profiled=True),
        ]
        arrays = [numbers(7 * number) for number in range(3)]
        buffers = [program.buffer(7 * number) for number in range(3)]
        program.session.finish(program.queue)
        began = time.perf_counter_ns()
        by_queue: dict[int, list[Completion]] = {id(queue): [] for queue in queues}
        last: Completion | None = None
        for _ in range(250):
            one, other, queue = drawn.randrange(3), drawn.randrange(3), drawn.choice(queues)
            after = () if last is None else (last,)
            action = drawn.choice(("launch", "launch", "launch", "fill", "copy", "read", "write"))
            if action == "launch":
                last = program.launch(buffers[one], buffers[other], after, queue)
                arrays[one] = triple(arrays[other])
            elif action == "fill":
                last = program.submit(Fill(buffers[one], 0, NBYTES, bytes((other, 0, 0, 0))), after, queue)
                arrays[one] = numbers(0) * 0 + other
            elif action == "copy" and one != other:
                last = program.submit(_copy(buffers[one], buffers[other]), after, queue)
                arrays[other] = arrays[one].copy()
            elif action == "write":
                last = program.write(buffers[one], other, after, queue)
                arrays[one] = numbers(other)
            else:
                last, host = program.read(buffers[one], after, queue)
                assert ended(last) == 0
                assert host.tolist() == arrays[one].tolist()
            assert ReferenceBackend.tells_times or not (queue.profiled and type(last) is Part)
            by_queue[id(queue)].append(last)
        for queue in queues:
            commands = by_queue[id(queue)]
            assert {ended(each) for each in commands} == {0}
            assert all((each.times is not None) is queue.profiled for each in commands)
            if queue.profiled and queue.in_order:
                check_times(commands, began)
        for buffer, array in zip(buffers, arrays, strict=True):
            assert program.content(buffer).tolist() == array.tolist()
        assert at_once or workers > 1


def _copy(source: object, target: object) -> CopyBuffer:
    return CopyBuffer(source, target, (1, 1, NBYTES), 0, (NBYTES, NBYTES), 0, (NBYTES, NBYTES))  # type: ignore[arg-type]


def test_a_queue_without_times_gives_none() -> None:
    with Program(1) as program:
        queue: QueueOrder = program.session.create_queue(in_order=True)
        buffer = program.buffer(1, queue)
        completions = [program.launch(buffer, buffer, (), queue) for _ in range(9)]
        assert [ended(each) for each in completions] == [0] * 9
        assert {each.times for each in completions} == {None}


def test_markers_have_times(at_once: list[Part]) -> None:
    """One behind nothing, and some behind launches: each ends with what it waits for."""
    with Program(1, {0: Faults(delay=lambda _: 0.0005)}) as program:
        for in_order in (True, False):
            queue = program.session.create_queue(in_order=in_order, profiled=True)
            began, buffer = time.perf_counter_ns(), program.buffer(3, queue)
            program.session.finish(queue)
            completions = [program.submit(Marker(), (), queue)]
            for _ in range(12):
                completions.append(program.launch(buffer, buffer, (), queue))
                completions.append(program.submit(Marker(barrier=not in_order), (), queue))
            assert {ended(each) for each in completions} == {0}
            # without a timer, a marker ends when that is known
            check_times(completions, began, apart=ReferenceBackend.tells_times)


def test_a_read_that_is_made_at_once_has_times(at_once: list[Part], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("can_wait_for_all", True), ("small_read_nbytes", NBYTES)):
        monkeypatch.setattr(ReferenceBackend, name, value)
    with Program(1, {0: Faults(delay=lambda _: 0.0002)}) as program:
        session = program.session
        queue, plain = session.create_queue(in_order=True, profiled=True), program.queue
        buffer, host = program.buffer(3, queue), numbers(0)
        layout = Layout.contiguous(0, NBYTES)
        completions, began, made = [], time.perf_counter_ns(), 0
        # the worker's thread may be in the way
        while len(completions) < 24 or (
            ReferenceBackend.tells_times and made <= 6 and len(completions) < 4000
        ):
            completions.append(program.launch(buffer, buffer, (), queue))
            clocked = Clocked(time.perf_counter_ns())
            done = session.read_at_once(Read(buffer, layout, host.view(np.uint8)), queue, (), clocked)
            if done is None:  # the first is planned
                clocked, _ = program.read(buffer, (), queue)
                done = ended(clocked)
            else:
                made += 1
            assert done == 0
            completions.append(clocked)
        assert {ended(each) for each in completions} == {0}
        check_times(completions, began)
        assert (made > 6) is ReferenceBackend.tells_times
        assert program.content(buffer).tolist() == host.tolist() or not made

        def read(of: QueueOrder, *more: Any) -> int | None:
            """Waits until the worker's thread is out of the way."""
            wait_until(lambda: not session.executor.worker(0).queue and not session.executor.worker(0).busy)
            return session.read_at_once(Read(buffer, layout, host.view(np.uint8)), of, *more)

        for _ in range(
            4
        ):  # the last ones are made again; so may be one whose times are wanted, if there will be any
            assert read(plain) == 0
        assert buffer.reading is not None
        clocked = Clocked(time.perf_counter_ns())
        assert read(queue, (), clocked) == (0 if ReferenceBackend.tells_times else None)
