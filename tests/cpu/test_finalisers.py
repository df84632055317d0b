"""Finalisers of mappings and transfers, wherever they run: at once on the program's thread, and without
waiting for anybody where others may be waiting for that thread.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.executor.completion import call_soon
from vdev.facade.handles import state_of
from vdev.facade.platform_device import Platform
from vdev.planner.instructions import Plan
from vdev.process.finalisers import collect, may_wait
from vdev.process.switches import WorkerSpec
from vdev.session.commands import Command, Fill, Unmap, Write
from vdev.session.session import Session
from vdev.start.workers import open_workers

from .test_facade_objects import cl, mf

NBYTES = 256


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    opened = Session(open_workers([WorkerSpec("cpu", (), 2)]))
    yield opened
    opened.close()


@pytest.fixture
def queue(session: Session) -> Any:
    return cl.CommandQueue(cl.Context(Platform(session).get_devices()))


@pytest.fixture
def unmapped(session: Session) -> Iterator[list[Command]]:
    """The Unmap commands so far."""
    found: list[Command] = []

    def observe(command: Command, plan: Plan) -> None:
        if isinstance(command, Unmap):
            found.append(command)

    session.observers.append(observe)
    yield found
    session.observers.remove(observe)


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    """But those that a test asks for."""
    collect()
    gc.disable()
    yield
    gc.enable()


class Cycle:
    """Garbage that only a collection finds."""

    def __init__(self, *items: object) -> None:
        self.items = items
        self.me = self


def in_time(*works: Callable[[], object]) -> None:
    """Run each on a thread of its own; fail where one does not come to an end."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"


def soon(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 100
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    return bool(condition())


def mapped(queue: Any, nbytes: int = NBYTES) -> tuple[Any, Any]:
    """A buffer and an array that maps it for writing, filled with ones."""
    buffer = cl.Buffer(state_of(queue).context, mf.READ_WRITE, nbytes)
    array, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.WRITE, 0, (nbytes,), np.uint8)
    array[:] = 1
    return buffer, array


def content(queue: Any, buffer: Any) -> Any:
    host = np.zeros(NBYTES, np.uint8)
    cl._enqueue_read_buffer(queue, buffer, host).wait()
    return host


def test_where_a_finaliser_may_wait(session: Session) -> None:
    found: list[bool] = []

    class Asks:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            found.append(may_wait())

    assert may_wait()
    item = Asks()
    item.me = None  # type: ignore[assignment]
    del item
    assert found == [True]
    Asks()
    collect()
    assert found == [True, False]
    assert may_wait()
    assert not session.executor.call(0, lambda backend: may_wait())
    call_soon(lambda: found.append(may_wait()))
    assert soon(lambda: len(found) == 3)
    assert not found[2]


def test_a_mapping_ends_when_the_program_drops_it(queue: Any, unmapped: list[Command]) -> None:
    buffer, array = mapped(queue)
    del array
    assert len(unmapped) == 1
    assert (content(queue, buffer) == 1).all()


def test_collecting_while_another_thread_collects() -> None:
    """Python's own collection does nothing then."""
    begun, ended = threading.Event(), threading.Event()

    class Slow:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            begun.set()
            ended.wait(100)

    Slow()
    other = threading.Thread(target=gc.collect)
    other.start()
    assert begun.wait(100)
    gone = weakref.ref(Cycle())
    assert not collect(0.01), "the other thread's finaliser is not through"
    assert gone() is not None
    threading.Timer(0.05, ended.set).start()
    assert collect(100)
    assert gone() is None
    other.join()


def test_collecting_from_within_a_collection() -> None:
    """Is not waited for: it would be for ever."""
    found: list[tuple[bool, bool]] = []

    class Collects:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            began = time.monotonic()
            found.append((collect(1000), time.monotonic() - began < 500))

    Collects()
    assert collect(100)
    assert found == [(False, True)]


def test_a_mapping_in_a_cycle_ends_without_the_collections_thread(
    session: Session, queue: Any, unmapped: list[Command]
) -> None:
    """A collection under the executor's lock while another thread, with the session's, wants that."""
    buffer, array = mapped(queue)
    Cycle(array)
    del array
    held, collected = threading.Event(), threading.Event()

    def collect_under_locks() -> None:
        held.wait()
        with session.executor.lock:
            collect()
            collected.set()

    def submit() -> None:
        other, order = session.create_buffer(NBYTES), session.create_queue(in_order=True)
        with session.lock:
            held.set()
            collected.wait(5)  # as long as it takes, where it does not wait for us
            session.submit(Fill(other, 0, NBYTES, b"\0"), queue=order)

    in_time(collect_under_locks, submit)
    assert soon(lambda: unmapped)
    assert (content(queue, buffer) == 1).all()


def test_a_mapping_dropped_by_a_worker_does_not_stop_it(
    session: Session, queue: Any, unmapped: list[Command]
) -> None:
    """A command keeps the array that it writes from; the thread that sees its end drops it."""
    nbytes = 1 << 20  # more than is done at once on the program's own thread
    _, array = mapped(queue, nbytes)

    def program() -> None:
        nonlocal array
        order, user = session.create_queue(in_order=False), session.user_completion()
        target, layout = session.create_buffer(nbytes), Layout.contiguous(0, nbytes)
        zeros = np.zeros(nbytes, np.uint8)
        with session.lock:
            session.submit(Write(target, layout, array[:]), (user,), queue=order)
            array = None
            user.set_status(0)
            last = session.submit(Write(target, layout, zeros), queue=order)
            # nobody but the worker that drops the array sees the end of both
            assert soon(lambda: last.settled)

    in_time(program)
    assert soon(lambda: unmapped)


def test_a_transfer_is_over_when_the_program_drops_its_event(queue: Any) -> None:
    buffer = cl.Buffer(state_of(queue).context, mf.READ_WRITE, NBYTES)
    host = np.full(NBYTES, 7, np.uint8)
    event = cl._enqueue_write_buffer(queue, buffer, host, is_blocking=False)
    completion = state_of(event)
    del event
    assert completion.settled


def test_a_transfer_in_a_reference_cycle_keeps_its_memory_without_waiting(
    session: Session, queue: Any
) -> None:
    buffer, user = (
        cl.Buffer(state_of(queue).context, mf.READ_WRITE, NBYTES),
        cl.UserEvent(state_of(queue).context),
    )
    host = np.full(NBYTES, 7, np.uint8)
    event = cl._enqueue_write_buffer(queue, buffer, host, wait_for=[user], is_blocking=False)
    Cycle(event, host)
    del event, host

    def collect_under_locks() -> None:
        with session.lock, session.executor.lock:
            collect()

    in_time(collect_under_locks)
    others = [np.zeros(NBYTES, np.uint8) for _ in range(100)]  # would lie where it lay
    user.set_status(0)
    assert (content(queue, buffer) == 7).all()
    assert not any(other.any() for other in others)


def test_a_failed_transfer_in_a_cycle_is_reported(queue: Any, capsys: pytest.CaptureFixture[str]) -> None:
    buffer, user = (
        cl.Buffer(state_of(queue).context, mf.READ_WRITE, NBYTES),
        cl.UserEvent(state_of(queue).context),
    )
    host = np.zeros(NBYTES, np.uint8)
    Cycle(cl._enqueue_write_buffer(queue, buffer, host, wait_for=[user], is_blocking=False))
    user.set_status(-1)
    collect()
    said: list[str] = []

    def heard() -> bool:
        said.append(capsys.readouterr().err)
        return "clWaitForEvents failed with code -14" in "".join(said)

    assert soon(heard)
