"""Stretches: commands handed over without a submission of their own have the same results, events, order and failures as
if each had been submitted.
"""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from vdev.backends.reference import Faults, ReferenceBackend
from vdev.errors import DEPENDENCY_FAILED, OUT_OF_RESOURCES
from vdev.executor import completion as completion_module
from vdev.executor.completion import COMPLETE, Completion
from vdev.executor.mark import MARK_EVERY
from vdev.executor.stretch import Part, Stretch, Timer
from vdev.process.finalisers import collect
from vdev.session.commands import CopyBuffer, Fill, Marker
from vdev.session.ordering import QueueOrder
from vdev.session.session import VirtualBuffer

from .test_session_failures import NBYTES, WORDS, Program, ended, numbers, triple


@pytest.fixture(autouse=True)
def any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference workers let any thread work with them."""
    monkeypatch.setattr(ReferenceBackend, "any_thread", True)


def filled(program: Program, buffer: VirtualBuffer, queue: QueueOrder | None = None) -> Completion:
    return program.submit(Fill(buffer, 0, NBYTES, b"\1\0\0\0"), (), queue)


def copied(
    program: Program, source: VirtualBuffer, target: VirtualBuffer, queue: QueueOrder | None = None
) -> Completion:
    plain = (NBYTES, NBYTES)
    command = CopyBuffer(source, target, (1, 1, NBYTES), 0, plain, 0, plain)
    return program.submit(command, (), queue)


def in_one_stretch(
    program: Program, commands: Callable[[], list[Completion]], going_on: threading.Event | None = None
) -> list[Part]:
    """What `commands` has handed over, all of it in one stretch: its thread may be at work, and then it is tried again.
    `going_on`: without it the device stands still, and does so at the end.
    """
    for _ in range(200):
        if going_on is not None:
            going_on.set()
        program.session.executor.quiesce()
        if going_on is not None:
            going_on.clear()
        found = commands()
        parts = [completion for completion in found if isinstance(completion, Part)]
        if len(parts) == len(found) and len({id(part.stretch) for part in parts}) == 1:
            return parts
    raise AssertionError("commands were never handed over in one stretch")


def resident(program: Program, count: int) -> list[VirtualBuffer]:
    """Buffers that have been used on the worker; buffer n holds triple(numbers(n))."""
    buffers = [program.buffer(number) for number in range(count)]
    for buffer in buffers:
        program.launch(buffer, buffer)
        filled(program, buffer)
    for one in buffers:
        for other in buffers:
            if one is not other:
                copied(program, one, other)
    for number, buffer in enumerate(buffers):
        program.write(buffer, number)
        program.launch(buffer, buffer)
    return buffers


def test_commands_of_all_kinds_and_queues_stand_together() -> None:
    with Program(1) as program:
        one, other = resident(program, 2)
        queues = [program.queue, program.session.create_queue(in_order=False)]

        def commands() -> list[Completion]:
            return [
                filled(program, one, queues[0]),
                program.launch(other, one, (), queues[1]),
                copied(program, other, one, queues[0]),
                program.launch(other, other, (), queues[1]),
            ]

        parts = in_one_stretch(program, commands)
        assert [part.index for part in parts] == [0, 1, 2, 3]
        assert program.content(one).tolist() == [4] * WORDS
        assert program.content(other).tolist() == [13] * WORDS
        assert [ended(part) for part in parts] == [COMPLETE] * 4


@pytest.mark.parametrize("looked_at", [False, True])
def test_a_failure_concerns_its_own_command_and_what_depends_on_it(looked_at: bool) -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        for _ in range(200):
            bad, user, apart = resident(program, 3)
            program.session.executor.quiesce()
            first = program.backends[0]._handed_over
            faults[first + 1] = -5
            events = [
                program.launch(apart, apart),
                program.launch(bad, bad),  # the second operation
                program.launch(user, bad),
            ]
            events.append(program.launch(apart, apart))
            events.append(program.launch(apart, apart, [events[1]]))
            stretches = {id(event.stretch) for event in events if isinstance(event, Part)}
            together = len(stretches) == 1 and all(isinstance(event, Part) for event in events)
            if looked_at:
                assert all(event.error is None or event.error < 0 for event in events)
            program.session.executor.quiesce()
            faults.clear()
            assert [ended(event) for event in events] == [COMPLETE, -5, -5, COMPLETE, DEPENDENCY_FAILED]
            assert ended(program.read(bad)[0]) < 0
            assert ended(program.read(user)[0]) < 0
            if together:
                break
        assert together


def test_the_rest_goes_on_after_a_failure() -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        bad, fine = resident(program, 2)
        program.session.executor.quiesce()
        faults[program.backends[0]._handed_over] = -5
        failed = program.launch(bad, bad)
        assert ended(failed) == -5
        assert ended(program.launch(bad, bad)) == -5
        assert ended(program.launch(fine, fine, [failed])) == DEPENDENCY_FAILED
        program.write(fine, 7)
        program.launch(fine, fine)
        in_one_stretch(program, lambda: [program.launch(fine, fine) for _ in range(3)])
        assert ended(filled(program, bad)) == COMPLETE
        program.launch(bad, bad)
        in_one_stretch(program, lambda: [program.launch(bad, bad) for _ in range(3)])
        assert ended(program.read(bad)[0]) == COMPLETE


def test_a_completion_that_nobody_has_looked_at_tells_its_end() -> None:
    with Program(1) as program:
        (buffer,) = resident(program, 1)
        parts = in_one_stretch(program, lambda: [program.launch(buffer, buffer) for _ in range(4)])
        assert ended(parts[1]) == COMPLETE
        program.session.executor.quiesce()
        assert [part.settled for part in parts] == [True] * 4
        assert [part.status for part in parts] == [COMPLETE] * 4
        heard = threading.Semaphore(0)
        parts[2].add_callback(lambda _: heard.release())
        assert heard.acquire(timeout=300)


def test_a_completion_is_made_under_no_lock_of_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are settled under the executor's lock, and take that one then."""
    held: list[bool] = []
    look_at = Stretch.look_at

    def noted(self: Stretch, part: Part) -> None:
        held.append(completion_module._rare._is_owned())  # type: ignore[attr-defined]
        look_at(self, part)

    monkeypatch.setattr(Stretch, "look_at", noted)
    with Program(1) as program:
        (buffer,) = resident(program, 1)
        parts = in_one_stretch(program, lambda: [program.launch(buffer, buffer) for _ in range(4)])
        held.clear()
        heard = threading.Semaphore(0)
        parts[0].add_callback(lambda _: heard.release())
        assert ended(parts[1]) == COMPLETE
        assert parts[2].status == COMPLETE
        assert parts[3].settled
        assert heard.acquire(timeout=300)
    assert held
    assert not any(held)


def test_who_asks_before_the_end_hears_of_it() -> None:
    going_on = threading.Event()
    with Program(1, {0: Faults(delay=lambda _: 0 if going_on.wait(100) else 1)}) as program:
        going_on.set()
        (buffer,) = resident(program, 1)
        parts = in_one_stretch(program, lambda: [program.launch(buffer, buffer) for _ in range(3)], going_on)
        assert not parts[0].settled
        assert parts[0].status > COMPLETE
        heard: list[int] = []
        told = threading.Semaphore(0)

        def note(status: int) -> None:
            heard.append(status)
            told.release()

        parts[0].add_callback(note)
        parts[2].add_callback(note)
        going_on.set()
        assert told.acquire(timeout=300)
        assert told.acquire(timeout=300)
        assert heard == [COMPLETE, COMPLETE]
        assert ended(parts[1]) == COMPLETE


def test_nothing_is_kept_alive_by_an_event() -> None:
    with Program(1) as program:
        held = resident(program, 1)
        parts = in_one_stretch(program, lambda: [program.launch(held[0], held[0]) for _ in range(3)])
        assert ended(parts[0]) == COMPLETE
        program.session.executor.quiesce()
        gone = weakref.ref(held.pop())
        collect()
        assert gone() is None
        assert [part.status for part in parts] == [COMPLETE] * 3


def test_marks_bound_what_stands_together() -> None:
    with Program(1) as program:
        (buffer,) = resident(program, 1)
        for _ in range(4 * MARK_EVERY):
            program.launch(buffer, buffer)
        program.session.executor.quiesce()
        events = [program.launch(buffer, buffer) for _ in range(3 * MARK_EVERY)]
        sizes = [event.stretch.launches for event in events if isinstance(event, Part)]
        assert sizes
        assert max(sizes) <= MARK_EVERY
        assert ended(events[-1]) == COMPLETE


def test_a_command_does_not_overtake_what_it_waits_for() -> None:
    with Program(1) as program:
        one, other = resident(program, 2)
        gate = program.session.user_completion()
        second = program.session.create_queue(in_order=True)
        held = program.submit(Fill(one, 0, NBYTES, b"\2\0\0\0"), [gate], second)
        events = [
            program.launch(other, one, [held]),
            program.launch(other, other),  # behind it in its queue
        ]
        assert not any(event.settled for event in events)
        gate.set_status(0)
        assert [ended(event) for event in events] == [COMPLETE, COMPLETE]
        assert program.content(other).tolist() == [22] * WORDS
        loose = program.session.create_queue(in_order=False)
        gate = program.session.user_completion()
        barrier = program.submit(Marker(barrier=True), [gate], loose)
        late = program.launch(other, other, (), loose)
        assert not late.settled
        gate.set_status(-9)
        assert ended(barrier) < 0
        assert ended(late) == DEPENDENCY_FAILED
        assert program.content(other).tolist() == [22] * WORDS


@pytest.mark.parametrize("seed", range(3))
def test_random_commands_of_several_threads(seed: int) -> None:
    threads, count = 3, 120
    drawn = random.Random(seed)
    with Program(1, {0: Faults(delay=lambda _: drawn.choice((0, 0, 0, 0.0002)))}) as program:
        results: list[bool] = []

        def work(own: int) -> None:
            rng = random.Random(100 * seed + own)
            queue = program.session.create_queue(in_order=rng.random() < 0.5)
            buffers = [program.buffer(number, queue) for number in range(2)]
            arrays = [numbers(number) for number in range(2)]
            last: list[Completion] = []
            for _ in range(count):
                at = rng.randrange(2)
                action = rng.choice(("launch", "launch", "launch", "fill", "copy", "wait", "write", "read"))
                if action == "launch":
                    after = last[-1:] if rng.random() < 0.3 else ()
                    last.append(program.launch(buffers[at], buffers[1 - at], after, queue))
                    arrays[at] = triple(arrays[1 - at])
                elif action == "fill":
                    last.append(filled(program, buffers[at], queue))
                    arrays[at] = np.ones(WORDS, np.uint32)
                elif action == "copy":
                    last.append(copied(program, buffers[at], buffers[1 - at], queue))
                    arrays[1 - at] = arrays[at]
                elif action == "write":
                    last.append(program.write(buffers[at], own, queue=queue))
                    arrays[at] = numbers(own)
                elif action == "wait" and last:
                    assert ended(rng.choice(last)) == COMPLETE
                elif action == "read":
                    completion, content = program.read(buffers[at], queue=queue)
                    assert ended(completion) == COMPLETE
                    assert content.tolist() == arrays[at].tolist()
            assert {ended(event) for event in last} == {COMPLETE}
            for buffer, array in zip(buffers, arrays, strict=True):
                completion, content = program.read(buffer, queue=queue)
                assert ended(completion) == COMPLETE
                assert content.tolist() == array.tolist()
            results.append(True)

        running = [threading.Thread(target=work, args=(own,)) for own in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(60)
        assert results == [True] * threads


@pytest.mark.parametrize("looked_at", [False, True])
def test_a_process_that_ends_leaves_no_event_waiting(looked_at: bool) -> None:
    going_on = threading.Event()
    with Program(1, {0: Faults(delay=lambda _: 0 if going_on.wait(100) else 1)}) as program:
        going_on.set()
        (buffer,) = resident(program, 1)
        parts = in_one_stretch(program, lambda: [program.launch(buffer, buffer) for _ in range(2)], going_on)
        if looked_at:
            assert not any(part.settled for part in parts)
        parts[0].stretch.abandon(OUT_OF_RESOURCES)  # as the executor does with all that have not ended
        assert [part.status for part in parts] == [OUT_OF_RESOURCES] * 2
        going_on.set()


def test_what_has_ended_leaves_nothing_to_the_collector() -> None:
    """A collection of all objects takes tens of milliseconds in a program that has many."""
    with Program(1) as program:
        buffer, other = resident(program, 2)
        in_one_stretch(program, lambda: [program.launch(buffer, other)])
        program.session.executor.quiesce()
        collect()
        gc.disable()
        try:
            handed_over = 0
            for _ in range(20):
                handed_over += isinstance(program.launch(buffer, other), Part)
                program.session.executor.quiesce()
            gc.set_debug(gc.DEBUG_SAVEALL)  # what is found is kept
            collect()
            left = [found for found in gc.garbage if isinstance(found, Stretch)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert handed_over
        assert left == []


def test_two_threads_that_ask_for_times_get_the_same() -> None:
    """The other one has found them when the first has asked the back end; the clock was compared anew in between."""
    readings, told = [(90, 190), (100, 200)], [4, 95]
    others: list[tuple[int, int, int, int]] = []

    def ask() -> tuple[int, int]:
        found = readings.pop()
        if readings:  # where another thread comes between
            others.append(timer.times())
        return found

    timer = Timer(50, ask, 5, told, Completion())
    found = timer.times()
    assert others == [found] == [timer.times()]
    assert told == [5, found[3]]
