"""The collector of garbage hardly ever comes while a launch is planned, and comes afterwards as the program has it."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from vdev.translators import collecting as _collecting

ROOT = Path(__file__).resolve().parents[2]
Numbers = tuple[int, int, int]


@pytest.mark.parametrize("what", ["nothing", "program", "analysis", "plans", "child"])
def test_how_often_python_collects(what: str) -> None:
    """In a process of its own, whose other threads are known."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.pure.collections_counted", what],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class Collector:
    """In the place of `gc`: numbers that are nobody else's. Interrupted in a call, once."""

    def __init__(self) -> None:
        self.numbers: Numbers = (700, 10, 10)
        self.calls = 0
        self.interrupted = -1  #: the call that an exception from outside ends, when it is done

    def get_threshold(self) -> Numbers:
        found = self.numbers
        self._called()
        return found

    def set_threshold(self, *numbers: int) -> None:
        self.numbers = (*numbers, *self.numbers[len(numbers) :])  # type: ignore[assignment]
        self._called()

    def _called(self) -> None:
        self.calls += 1
        if self.calls - 1 == self.interrupted:
            raise KeyboardInterrupt


@pytest.fixture
def collector() -> Collector:
    return Collector()


@pytest.fixture
def collecting(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module anew: threads that other tests have left may be inside such a function of the process's own."""
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    spec = importlib.util.spec_from_file_location("collecting_anew", _collecting.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.gc = collector  # type: ignore[attr-defined]
    return module


class Inside:
    """A thread inside such a function, until it is told to leave; a test that fails leaves it there, and the process ends all the same."""

    def __init__(self, collecting: Any, *, fails: bool = False, deep: int = 1) -> None:
        self._begun, self._may_end = threading.Event(), threading.Event()
        self._fails = fails
        work = self._work
        for _ in range(deep):
            work = collecting.seldom_collected(work)
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        assert self._begun.wait(100)

    def _run(self, work: Any) -> None:
        try:
            work()
        except KeyError:
            self._fails = False

    def _work(self) -> None:
        self._begun.set()
        self._may_end.wait()
        if self._fails:
            raise KeyError

    def leave(self) -> None:
        self._may_end.set()
        self._thread.join(100)
        assert not self._thread.is_alive()
        assert not self._fails


@pytest.mark.parametrize("seed", range(60))
def test_threads_come_and_go_and_the_program_has_its_numbers(
    collecting: Any, collector: Collector, seed: int
) -> None:
    """Whoever comes or leaves in which order, and whatever the program says meanwhile."""
    chance = random.Random(seed)
    programs, is_raised, inside = collector.numbers, False, list[Inside]()

    def seldom() -> Numbers:
        young, *older = programs
        return (young and max(young, collecting.MEANWHILE), *older)  # type: ignore[return-value]

    for _ in range(chance.randrange(4, 24)):
        match chance.randrange(5):
            case 0 | 1:
                inside.append(Inside(collecting, fails=chance.random() < 0.3, deep=chance.choice([1, 1, 2])))
                is_raised = True
            case 2 | 3 if inside:
                inside.pop(chance.randrange(len(inside))).leave()
                is_raised &= bool(inside)
            case _:
                # The number that holds meanwhile is, from the program, no other than that.
                said = [0, 1, 500, 200_000] + [collecting.MEANWHILE] * (not inside)
                programs, is_raised = (chance.choice(said), 10, 10), False
                collector.set_threshold(*programs)
        assert collector.numbers == (seldom() if is_raised else programs)
    for each in inside:
        each.leave()
    assert collector.numbers == programs


def test_who_comes_while_the_last_one_leaves_is_inside_as_others_are(
    collecting: Any, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits: what it found would be put back at once, and it would be inside with the program's numbers."""
    lock, is_there = collecting._lock, threading.Event()
    calling, read = threading.get_ident(), collector.get_threshold
    others: list[Inside] = []

    class Watched:
        def __enter__(self) -> None:
            if threading.get_ident() != calling:
                is_there.set()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    def come() -> None:
        others.append(Inside(collecting))
        is_there.set()

    def asked() -> Numbers:
        found = read()
        monkeypatch.setattr(collector, "get_threshold", read)
        thread.start()
        assert is_there.wait(100)
        return found

    thread = threading.Thread(target=come, daemon=True)
    collecting._lock = Watched()
    collecting.seldom_collected(lambda: monkeypatch.setattr(collector, "get_threshold", asked))()
    thread.join(100)
    assert collector.numbers == (collecting.MEANWHILE, 10, 10)
    others[0].leave()
    assert collector.numbers == (700, 10, 10)


@pytest.mark.parametrize("interrupted", range(4))
def test_an_exception_from_outside_leaves_nothing_for_ever(
    collecting: Any, collector: Collector, interrupted: int
) -> None:
    """In any call: at the latest when the next such function ends, the program has its numbers."""
    work = collecting.seldom_collected(lambda: None)
    collector.interrupted = interrupted
    with pytest.raises(KeyboardInterrupt):
        work()
    assert collector.calls > interrupted
    work()
    assert collector.numbers == (700, 10, 10)


def test_a_program_that_collects_as_seldom_goes_on_so(collecting: Any, collector: Collector) -> None:
    """After such functions with other numbers of its own: what was put back once is no more."""
    work = collecting.seldom_collected(lambda: None)
    for numbers in ((700, 10, 10), (collecting.MEANWHILE, 10, 10)):
        collector.set_threshold(*numbers)
        for _ in range(2):
            work()
            assert collector.numbers == numbers
