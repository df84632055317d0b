"""Reads that the program does not wait for yet, from the only worker, which the calling thread hands over by itself: all
else is as if each had been submitted.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor import Completion
from vdev.executor.line import Line
from vdev.session.commands import Fill, Read, Write
from vdev.session.immediate import AtOnce
from vdev.session.ordering import QueueOrder
from vdev.session.session import VirtualBuffer

from .repeating import again
from .test_runs import Caller
from .test_session_failures import NBYTES, WORDS, Program, ended, numbers, triple

#: parts of the buffers, by words
PARTS = [(0, WORDS), (0, 4), (WORDS - 8, 8)]
LAYOUTS = [Layout.contiguous(4 * start, 4 * count) for start, count in PARTS]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Any thread may work with the only worker and wait for it. Of each read that was submitted: whether it was handed over
    at once.
    """
    for name in ("any_thread", "any_thread_alone", "can_wait_for_all"):
        monkeypatch.setattr(ReferenceBackend, name, True)
    monkeypatch.setattr(ReferenceBackend, "again", again)
    found: list[bool] = []
    submit = AtOnce._submit_read

    def noted(self: AtOnce, *arguments: object) -> object:
        part = submit(self, *arguments)  # type: ignore[arg-type]
        found.append(part is not None)
        return part

    monkeypatch.setattr(AtOnce, "_submit_read", noted)
    return found


@pytest.fixture
def program() -> Iterator[Program]:
    with Program(1, is_cpu=False) as made:
        yield made


def read(
    program: Program,
    buffer: VirtualBuffer,
    host: np.ndarray,
    part: int = 0,
    after: tuple[Completion, ...] = (),
    queue: QueueOrder | None = None,
) -> Completion:
    start, count = PARTS[part]
    command = Read(buffer, LAYOUTS[part], host[start : start + count].view(np.uint8))
    return program.submit(command, after, queue)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_between_other_commands(workers: int, seed: int, in_order: bool, at_once: list[bool]) -> None:
    drawn = random.Random(seed)
    delayed = Faults(delay=lambda _: drawn.choice((0, 0, 0.0003)))
    with Program(workers, dict.fromkeys(range(workers), delayed), is_cpu=False) as program:
        _random_commands(program, drawn, in_order)
    assert sum(at_once) > (30 if workers == 1 else -1)


def _random_commands(program: Program, drawn: random.Random, in_order: bool) -> None:
    """Arrays of the host's are read into, written from while that is under way, and looked at when it has ended."""
    queue = program.session.create_queue(in_order=in_order)
    buffers = [program.session.create_buffer(NBYTES) for _ in range(3)]
    launches = [Caller(program) for _ in buffers]
    arrays = [numbers(number) for number in range(3)]
    hosts = [np.zeros(WORDS, np.uint32) for _ in range(2)]
    expected = [host.copy() for host in hosts]
    last: Completion | None = None
    for buffer, array in zip(buffers, arrays, strict=True):
        command = Write(buffer, LAYOUTS[0], array.copy().view(np.uint8))
        last = program.submit(command, () if last is None else (last,), queue)
    for step in range(300):
        one, other, place, part = (
            drawn.randrange(3),
            drawn.randrange(3),
            drawn.randrange(2),
            drawn.randrange(3),
        )
        after = () if in_order or last is None else (last,)
        if drawn.random() < 0.3:  # workers that are busy are handed nothing
            program.session.executor.quiesce()
        action = drawn.choice(("launch", "launch", "read", "read", "read", "write", "fill", "look"))
        if action == "launch":
            if in_order:
                last = launches[one](buffers[one], buffers[other], queue)
            else:
                last = program.launch(buffers[one], buffers[other], after, queue)
            arrays[one] = triple(arrays[other])
        elif action == "read":
            last = read(program, buffers[one], hosts[place], part, after, queue)
            start, count = PARTS[part]
            expected[place][start : start + count] = arrays[one][start : start + count]
        elif action == "write":
            host = hosts[place].view(np.uint8)
            last = program.submit(Write(buffers[one], LAYOUTS[0], host), after, queue)
            arrays[one] = expected[place].copy()
        elif action == "fill":
            last = program.submit(Fill(buffers[one], 0, NBYTES, step.to_bytes(4, "little")), after, queue)
            arrays[one] = np.full(WORDS, step, np.uint32)
        else:
            assert last is not None
            if drawn.random() < 0.5:
                assert ended(last) == 0
            else:
                program.session.finish(queue)
            assert [host.tolist() for host in hosts] == [each.tolist() for each in expected]


def known(program: Program, count: int = 2) -> list[VirtualBuffer]:
    """Buffers whose reads were planned before."""
    buffers = [program.buffer(number) for number in range(1, count + 1)]
    for buffer in buffers:
        for _ in range(3):
            assert ended(program.launch(buffer, buffer)) == 0
            assert ended(read(program, buffer, np.zeros(WORDS, np.uint32))) == 0
            program.session.executor.quiesce()
    return buffers


def test_a_loop_of_launches_and_reads_is_handed_over_at_once(program: Program, at_once: list[bool]) -> None:
    source, out = known(program)
    launch, hosts = Caller(program), [np.zeros(WORDS, np.uint32) for _ in range(20)]
    before, counted = len(at_once), program.session.ledger.commands["read"].count
    for host in hosts:
        launch(out, source, program.queue)
        read(program, out, host)
    program.session.finish(program.queue)
    assert at_once[before:].count(True) >= 18
    assert program.session.ledger.commands["read"].count == counted + 20
    assert {tuple(host.tolist()) for host in hosts} == {tuple(program.content(out).tolist())}


def test_it_does_not_overtake_commands_that_wait_for_the_program(
    program: Program, at_once: list[bool]
) -> None:
    buffer, other = known(program)
    gate, host = program.session.user_completion(), np.zeros(WORDS, np.uint32)
    wanted = triple(program.content(other))
    launched = program.launch(buffer, other, (gate,))
    count = len(at_once)
    done = read(program, buffer, host)
    assert not any(at_once[count:])
    gate.set_status(0)
    assert ended(launched) == ended(done) == 0
    assert host.tolist() == wanted.tolist()


def test_failures_are_those_of_what_has_failed(program: Program, at_once: list[bool]) -> None:
    buffer, other = known(program)
    backend, hosts = program.backends[0], [np.zeros(WORDS, np.uint32) for _ in range(3)]
    fine_bytes = program.content(other).tolist()
    program.session.executor.quiesce()
    backend.faults.fail[backend._handed_over] = -5
    count = len(at_once)
    failed, fine = read(program, buffer, hosts[0]), read(program, other, hosts[1])
    assert at_once[count:] == [True, True]
    assert (ended(failed), ended(fine)) == (-5, 0)
    assert hosts[1].tolist() == fine_bytes
    backend.faults.fail[backend._handed_over] = -6
    launched = program.launch(buffer, other)
    behind = read(program, buffer, hosts[2])
    assert ended(launched) == -6
    assert ended(behind) < 0


def test_what_writes_from_memory_that_is_being_read_into_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceBackend, "small_write_nbytes", NBYTES)
    slow = Faults()
    with Program(1, {0: slow}, is_cpu=False) as program:
        buffer, other = known(program)
        wanted = program.content(buffer).tolist()
        host, going_on = np.zeros(WORDS, np.uint32), threading.Event()
        for _ in range(3):
            assert ended(program.submit(Write(other, LAYOUTS[0], np.zeros(NBYTES, np.uint8)))) == 0
            program.session.executor.quiesce()
        slow.delay = lambda _: 0 if going_on.wait(60) else 1
        done = read(program, buffer, host)
        command = Write(other, LAYOUTS[0], host.view(np.uint8))
        assert program.session.write_at_once(command, (), program.queue) is None
        behind = program.submit(command)
        going_on.set()
        assert ended(done) == ended(behind) == 0
        slow.delay = None
        assert program.content(other).tolist() == wanted


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_or_a_refusal_leaves_nothing_waiting(
    program: Program, stop: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, _ = known(program)
    host, perform = np.zeros(WORDS, np.uint32), ReferenceBackend.read
    left: list[Callable[[], None]] = [lambda: None]

    def interrupted(self: ReferenceBackend, *arguments: object) -> object:
        if left:
            left.pop()
            raise stop
        return perform(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ReferenceBackend, "read", interrupted)
    if stop is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            read(program, buffer, host)
    else:
        assert ended(read(program, buffer, host)) == 0
    program.session.finish(program.queue)
    assert ended(read(program, buffer, host)) == 0
    assert host.tolist() == program.content(buffer).tolist()
    assert not program.session.executor.uses_host()


def test_nothing_is_handed_over_to_one_whose_transfers_wait(
    program: Program, at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, _ = known(program)
    assert at_once[-1]
    monkeypatch.setattr(program.session.executor.worker(0), "takes_transfers", False)
    assert ended(read(program, buffer, np.zeros(WORDS, np.uint32))) == 0
    assert not at_once[-1]
    assert isinstance(program.session.executor.lines[0], Line)
