"""Workers that wait for each other on their device alone: the threads that submit hand everything over, transfers of host
memory too, and bytes, order and events are those of commands that the workers' own threads hand over.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.base import Backend
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.session.commands import Fill, Map, Marker, Read
from vdev.session.session import VirtualBuffer

from .repeating import again
from .test_runs import Caller
from .test_session_failures import NBYTES, WORDS, Program, ended, numbers, triple


@pytest.fixture
def one_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference workers have one company, and repeat launches."""

    monkeypatch.setattr(ReferenceBackend, "any_thread_alone", True)
    monkeypatch.setattr(ReferenceBackend, "company", "one")
    monkeypatch.setattr(ReferenceBackend, "again", again)


@pytest.mark.parametrize(
    ("companies", "able", "any_thread"),
    [
        (["one"] * 3, True, True),
        (["one", "one", "another"], True, False),
        ([None] * 3, True, False),
        ([None], True, True),
        (["one"] * 3, False, False),
    ],
)
def test_threads_are_for_workers_that_wait_elsewhere(
    companies: list[str | None], able: bool, any_thread: bool
) -> None:
    def opener(company: str | None) -> Callable[[], Backend]:
        def opened() -> Backend:
            backend = ReferenceBackend()
            backend.any_thread_alone, backend.company = able, company
            return backend

        return opened

    executor = Executor([opener(company) for company in companies])
    try:
        for worker in executor.all_workers[:-1]:
            assert worker.backend.any_thread is worker.takes_transfers is any_thread
        assert executor.any_thread is any_thread
    finally:
        executor.close()


def read_now(program: Program, buffer: VirtualBuffer, start: int, stop: int) -> tuple[bool, np.ndarray]:
    """Words [start, stop) of a buffer by a blocking read, and whether that took no submission."""
    host = np.zeros(stop - start, np.uint32)
    command = Read(buffer, Layout.contiguous(4 * start, host.nbytes), host.view(np.uint8))
    status = program.session.read_at_once(command, program.queue)
    if status is None:
        assert ended(program.submit(command)) == 0
    else:
        assert status == 0
    return status is not None, host


@pytest.mark.usefixtures("one_company")
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_between_other_commands(seed: int, split: bool) -> None:
    drawn = random.Random(seed)
    slow = Faults(delay=lambda _: drawn.choice((0, 0, 0, 0.0005)))
    at_once = 0
    with Program(3, {0: slow, 2: slow}) as program:
        if not split:
            options = program.session.launch_options
            program.session.launch_options = type(options)(options.workers, options.links, 1 << 20)
        buffers = [program.buffer(7 * number) for number in range(3)]
        arrays = [numbers(7 * number) for number in range(3)]
        launches = [Caller(program) for _ in buffers]
        events: list[Completion] = []
        for _ in range(300):
            one, other = drawn.randrange(3), drawn.randrange(3)
            action = drawn.choice(("launch", "launch", "row", "read", "part", "fill", "write", "marker"))
            if action in ("launch", "row"):
                for _ in range(1 if action == "launch" else 9):
                    events.append(launches[one](buffers[one], buffers[other]))
                    arrays[one] = triple(arrays[other])
            elif action in ("read", "part"):
                third = WORDS // 3
                start = 0 if action == "read" else third * drawn.randrange(3)
                stop = WORDS if action == "read" else start + third
                here, found = read_now(program, buffers[one], start, stop)
                at_once += here
                assert found.tolist() == arrays[one][start:stop].tolist()
            elif action == "fill":
                events.append(program.submit(Fill(buffers[one], 0, NBYTES, b"\1\0\0\0")))
                arrays[one] = np.ones(WORDS, np.uint32)
            elif action == "write":
                events.append(program.write(buffers[one], other))
                arrays[one] = numbers(other)
            else:
                events.append(program.submit(Marker(barrier=drawn.random() < 0.5)))
        for buffer, array in zip(buffers, arrays, strict=True):
            assert program.content(buffer).tolist() == array.tolist()
        # On a busy machine there may have been no other that found its worker idle.
        at_once += read_now(program, buffers[0], 0, WORDS)[0]
    assert {ended(event) for event in events} == {0}
    assert at_once


@pytest.mark.usefixtures("one_company")
def test_the_submitting_thread_does_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch and a read on one of several workers wake none of their threads."""
    calls: list[tuple[str, bool]] = []
    main = threading.get_ident()

    def noted(name: str) -> None:
        original = getattr(ReferenceBackend, name)

        def call(self: ReferenceBackend, *rest: object) -> object:
            calls.append((name, threading.get_ident() == main))
            return original(self, *rest)

        monkeypatch.setattr(ReferenceBackend, name, call)

    for name in ("launch", "read"):
        noted(name)
    expected = numbers(3)
    with Program(3) as program:
        options = program.session.launch_options
        program.session.launch_options = type(options)(options.workers, options.links, 1 << 20)
        buffer, launch = program.buffer(3), Caller(program)
        for _ in range(100):  # a thread that looks after what is done may have the turn
            program.session.executor.quiesce()
            calls.clear()
            launch(buffer, buffer)
            expected = triple(expected)
            _, found = read_now(program, buffer, 0, WORDS)
            assert found.tolist() == expected.tolist()
            if calls == [("launch", True), ("read", True)]:
                return
    raise AssertionError(f"a thread was always woken: {calls}")


@pytest.mark.usefixtures("one_company")
def test_it_brings_buffers_from_home_and_back_for_several_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that fetches its parts from the home, and a mapping that brings the results there."""
    here: list[tuple[str, bool]] = []
    main = threading.get_ident()
    for name in ("write", "launch", "read"):
        original = getattr(ReferenceBackend, name)

        def call(
            self: ReferenceBackend,
            *rest: object,
            name: str = name,
            original: Callable[..., object] = original,
        ) -> object:
            here.append((name, threading.get_ident() == main))
            return original(self, *rest)

        monkeypatch.setattr(ReferenceBackend, name, call)
    with Program(3) as program:
        buffer, launch = program.buffer(), Caller(program)
        for turn in range(100):  # as above
            assert ended(program.write(buffer, turn)) == 0
            program.session.executor.quiesce()
            here.clear()
            launch(buffer, buffer)
            assert ended(program.submit(Map(buffer, 0, NBYTES, read=True, write=False))) == 0
            assert buffer.home().view(np.uint32).tolist() == triple(numbers(turn)).tolist()
            names = [name for name, _ in here]
            assert sorted(names) == ["launch"] * 3 + ["read"] * 3 + ["write"] * 3
            if all(is_here for _, is_here in here):
                return
    raise AssertionError(f"a thread was always woken: {here}")


@pytest.mark.usefixtures("one_company")
def test_it_does_not_wait_for_what_is_then_done_in_the_hosts_memory() -> None:
    """A rectangle is read at home, once a worker that is held up has brought its bytes there."""
    go_on = threading.Event()
    held, let_go = [False], []

    def delay(_: int) -> float:
        if held[0]:
            let_go.append(go_on.wait(60))
        return 0

    with Program(2, {0: Faults(delay=delay)}) as program:
        buffer, launch = program.buffer(3), Caller(program)
        launch(buffer, buffer)
        program.session.executor.quiesce()
        host = np.zeros(4, np.uint32)
        rows = Layout((1, 2, 8), 0, (16, 16), 0, (8, 8))
        held[0] = True
        try:
            event = program.submit(Read(buffer, rows, host.view(np.uint8)))
        finally:
            go_on.set()
        assert ended(event) == 0
        assert let_go
        assert all(let_go), "the call came back only then"
        assert host.tolist() == triple(numbers(3))[[0, 1, 4, 5]].tolist()


@pytest.mark.usefixtures("one_company")
def test_transfers_of_several_workers_with_one_host_array() -> None:
    """Each waits for the one before, which another worker does, and slowly."""
    slow = [False]
    third = WORDS // 3
    with Program(3, {0: Faults(delay=lambda _: 0.002 if slow[0] else 0)}) as program:
        buffer, launch = program.buffer(3), Caller(program)
        launch(buffer, buffer)
        expected = triple(numbers(3))
        for _ in range(20):
            program.session.executor.quiesce()
            host = np.zeros(third, np.uint32)
            slow[0] = True
            # in queues of their own: nothing but the array orders them
            events = [
                program.submit(
                    Read(buffer, Layout.contiguous(4 * third * part, host.nbytes), host.view(np.uint8)),
                    (),
                    program.session.create_queue(in_order=True),
                )
                for part in (0, 1, 0, 2)
            ]
            assert [ended(event) for event in events] == [0] * 4
            slow[0] = False
            assert host.tolist() == expected[2 * third : 3 * third].tolist()
