"""The threads that run programs' callbacks: kept for the next, as many as there are at one time, and gone after a while."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable

import pytest

from vdev.executor.completion import Completion
from vdev.facade import event
from vdev.process.finalisers import collect

from .test_event_order import wait_until


def _ran(threads: event._CallbackThreads, call: Callable[[], object] = lambda: None) -> threading.Thread:
    """The thread that has run a call."""
    found: list[threading.Thread] = []
    done = threading.Event()

    def run() -> None:
        call()
        found.append(threading.current_thread())
        done.set()

    threads.run(run)
    assert done.wait(60)
    return found[0]


def test_the_next_callback_is_run_by_the_same_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event, "_LINGERING", 600.0)
    threads = event._CallbackThreads()
    first = _ran(threads)
    for _ in range(5):
        wait_until(lambda: len(threads._idle) == 1)
        assert _ran(threads) is first


def test_one_that_waits_for_another_does_not_hold_it_up() -> None:
    threads = event._CallbackThreads()
    outer = _ran(threads, lambda: _ran(threads))
    wait_until(lambda: len(threads._idle) in (0, 2))  # both wait, or both have gone
    assert outer is not threading.current_thread()


def test_idle_threads_end_and_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event, "_LINGERING", 0.01)
    threads = event._CallbackThreads()

    class Call:
        def __call__(self) -> None:
            pass

    call = Call()
    gone = weakref.ref(call)
    thread = _ran(threads, call)
    del call
    thread.join(60)
    assert not thread.is_alive()
    assert not threads._idle
    collect()
    assert gone() is None
    assert _ran(threads) is not thread


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (ValueError("a value"), "ValueError: a value"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (_Unprintable(), r".*_Unprintable: <exception str\(\) failed>"),
    ],
)
def test_what_a_callback_raises_is_reported_with_its_lines(
    error: BaseException, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = event._CallbackThreads()
    monkeypatch.setattr(event, "_threads", threads)
    monkeypatch.setattr(event, "_LINGERING", 600.0)  # it is there whenever this thread looks
    heard: list[int] = []

    def inner() -> None:
        raise error

    def callback(reached: int) -> None:
        heard.append(reached)
        inner()

    event._notify(callback, 0)
    wait_until(lambda: len(threads._idle) == 1)  # the thread is ready for the next
    reported = capsys.readouterr().err
    assert heard == [0]
    start = r"\[pyopencl\] event callback handler threw an exception, ignoring: Traceback \(most recent call last\):\n"
    assert re.match(start + r'  File ".*", line \d+, in callback\n', reported)
    assert "in inner\n" in reported
    assert re.search(rf"^{named}$", reported, re.MULTILINE)
    assert "facade" not in reported


class _Progress:
    """A command that ends when it is told to."""

    def __init__(self, completion: Completion) -> None:
        self.completion = completion
        self.ended = threading.Event()
        self.waiting = threading.Event()
        self.hurried = False

    def wait(self) -> None:
        self.waiting.set()
        assert self.ended.wait(60)

    def poll(self) -> int:
        return 2

    def hurry(self) -> None:
        self.hurried = True

    def end(self, status: int) -> None:
        self.completion.settle(status)
        self.ended.set()


def _submitted() -> tuple[event.Event, _Progress]:
    completion = Completion()
    progress = _Progress(completion)
    completion.bind(progress)
    return event.Event._vdev_of_command(None, None, 0, completion), progress  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [0, -5])
def test_the_thread_that_waits_for_a_command_runs_its_callback(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event, "_threads", threads := event._CallbackThreads())
    heard: list[tuple[int, str]] = []
    for count in range(1, 4):
        made, progress = _submitted()
        made.set_callback(0, lambda reached: heard.append((reached, threading.current_thread().name)))
        assert progress.waiting.wait(60)  # which nobody does for a callback that the notifier runs
        assert not progress.hurried
        progress.end(status)
        wait_until(lambda: len(heard) == count and len(threads._idle) == 1)  # noqa: B023 (it ends before the next)
    assert heard == [(status, "vdev-callback")] * 3


def test_only_one_waits_and_others_are_called_in_their_own_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event, "_threads", event._CallbackThreads())
    heard: list[str] = []
    (first, slow), (second, quick), (third, last) = (_submitted() for _ in range(3))
    first.set_callback(0, lambda reached: heard.append("first"))
    assert slow.waiting.wait(60)
    second.set_callback(0, lambda reached: heard.append("second"))
    assert quick.hurried
    quick.end(0)
    wait_until(lambda: heard == ["second"])
    slow.end(0)
    wait_until(lambda: heard == ["second", "first"] and not event._threads._waits)
    third.set_callback(0, lambda reached: heard.append("third"))
    assert last.waiting.wait(60)
    last.end(0)
    wait_until(lambda: heard[2:] == ["third"])


def test_nobody_waits_for_what_may_never_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event, "_threads", threads := event._CallbackThreads())
    completion = Completion()  # held back by an event of the program's
    made = event.Event._vdev_of_command(None, None, 0, completion)  # type: ignore[arg-type]
    heard: list[int] = []
    made.set_callback(0, heard.append)
    assert not threads._waits
    completion.bind(progress := _Progress(completion))
    assert progress.hurried
    progress.end(0)
    wait_until(lambda: heard == [0])
