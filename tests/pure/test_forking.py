"""Before a fork: threads inside a driver are waited for, others are kept out, and none of it takes for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from vdev.backends.reference import ReferenceBackend
from vdev.executor import forks
from vdev.executor.executor import Executor
from vdev.process.forking import in_driver, is_anyone_inside

#: seconds that anything here may take where nothing is in its way
SOON = 100.0
#: Python, which from 3.12 on warns of every fork of a process with threads
PYTHON = sys.executable, "-W", "ignore:This process:DeprecationWarning"


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Executor]:
    """It holds on for as long as anything takes on a busy machine."""
    monkeypatch.setattr(forks, "_HOLDING", SOON)
    executor = Executor([ReferenceBackend, ReferenceBackend])
    yield executor
    executor.close()


def begin(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_fork_waits_for_a_thread_inside_a_driver_and_lets_none_in(executor: Executor) -> None:
    out, began = threading.Event(), []
    inside = begin(lambda: in_driver(out.wait))
    until(is_anyone_inside)
    threading.Timer(0.1, out.set).start()
    go_on = executor.hold()
    try:
        assert out.is_set()
        assert not is_anyone_inside()
        late = begin(lambda: in_driver(lambda: began.append(True)))
        time.sleep(0.05)
        assert not began
    finally:
        go_on()
    inside.join(SOON)
    late.join(SOON)
    assert began


def test_a_thread_that_never_comes_out_does_not_hold_a_fork_up_for_ever(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "_HOLDING", 0.05)
    out = threading.Event()
    inside = begin(lambda: in_driver(out.wait))
    until(is_anyone_inside)
    executor.hold()()
    assert is_anyone_inside()
    out.set()
    inside.join(SOON)


def test_a_thread_with_a_turn_is_let_through(executor: Executor) -> None:
    worker, done = executor.all_workers[0], []

    def work() -> None:
        assert worker.take_turn()
        time.sleep(0.1)
        in_driver(lambda: done.append(True))
        worker.give_turn()

    thread = begin(work)
    until(lambda: worker.holder)
    began = time.monotonic()
    executor.hold()()
    assert done
    assert time.monotonic() - began < forks._HOLDING
    thread.join(SOON)


def test_several_executors_are_held_at_once(executor: Executor) -> None:
    other = Executor([ReferenceBackend])
    first, second = executor.hold(), other.hold()
    second()
    done: list[bool] = []
    thread = begin(lambda: in_driver(lambda: done.append(True)))
    time.sleep(0.05)
    early = list(done)
    first()
    thread.join(SOON)
    assert not early
    assert done
    other.close()


def test_workers_that_wait_for_each_other_are_both_held(executor: Executor) -> None:
    """One whose turn is missing wants the turn of another that was taken."""
    first, second = executor.all_workers[:2]
    assert second.turn.acquire(timeout=SOON)

    def work() -> None:
        with first.turn:
            second.turn.release()

    assert first.turn.acquire(timeout=SOON)
    thread = begin(work)
    first.turn.release()
    began = time.monotonic()
    executor.hold()()
    assert time.monotonic() - began < forks._HOLDING
    thread.join(SOON)


def test_a_worker_with_much_to_do_steps_aside_between_two_commands(executor: Executor) -> None:
    gate, calls = threading.Semaphore(0), []

    def call(backend: object) -> None:
        gate.acquire(timeout=SOON)
        calls.append(True)

    asked = [executor._ask(0, call) for _ in range(50)]
    until(lambda: executor.all_workers[0].busy)

    def release() -> None:
        until(lambda: executor.is_holding)
        gate.release()

    # Not before the fork waits: the worker would begin with the next command, which nothing ends.
    begin(release)
    began = time.monotonic()
    go_on = executor.hold()
    count, took = len(calls), time.monotonic() - began
    go_on()
    gate.release(50)
    assert 1 <= count < 50
    assert took < forks._HOLDING
    for answer in asked:
        answer()
    assert len(calls) == 50


def test_drivers_threads_are_let_come_to_rest(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []

    def is_at_rest(backend: object) -> bool:
        looks.append(len(looks) > 20)
        return looks[-1]

    monkeypatch.setattr(ReferenceBackend, "is_at_rest", is_at_rest)
    executor.hold()()
    assert looks.count(True) >= 2


def test_a_child_knows_nobody_inside() -> None:
    program = """
import os, threading, time
from vdev.process import forking
out = threading.Event()
thread = threading.Thread(target=lambda: forking.in_driver(out.wait)); thread.start()
while not forking.is_anyone_inside(): time.sleep(0.001)
forking.before_fork(forking.keep_out)
number = os.fork()
if number == 0:
    os._exit(2 * forking.is_anyone_inside() + (forking.in_driver(lambda: 5) != 5))
print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
out.set(); thread.join()
print(forking.in_driver(lambda: 6))
"""
    done = subprocess.run([*PYTHON, "-c", program], capture_output=True, text=True, timeout=900)
    assert (done.stdout.split(), done.stderr) == (["0", "6"], "")


def test_forks_of_two_threads_come_one_after_the_other() -> None:
    program = """
import os, threading, time
from vdev.process import forking
inside, most = [0], [0]
def hold():
    inside[0] += 1
    most[0] = max(most[0], inside[0])
    time.sleep(0.01)
    def go_on(): inside[0] -= 1
    return go_on
forking.before_fork(hold)
def forks():
    for _ in range(5):
        number = os.fork()
        if number == 0: os._exit(0)
        os.waitpid(number, 0)
threads = [threading.Thread(target=forks) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(most[0], inside[0])
"""
    done = subprocess.run([*PYTHON, "-c", program], capture_output=True, text=True, timeout=900)
    assert (done.stdout.split(), done.stderr) == (["1", "0"], "")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system does not tell of threads")
def test_awake_threads_are_waited_for_until_it_proves_useless() -> None:
    program = """
import hashlib, threading, time
from _thread import start_new_thread  # threads that Python's register does not have, like a driver's
from vdev.process.threads import give_up_waiting, others_asleep
def look(wanted):
    deadline = time.monotonic() + 100
    while others_asleep() != wanted and time.monotonic() < deadline: time.sleep(0.001)
    return others_asleep() == wanted
work = lambda rounds: start_new_thread(hashlib.pbkdf2_hmac, ("sha256", b"", b"", rounds))
start_new_thread(time.sleep, (30,))
registered = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 1_000_000)); registered.start()
print(look(True))  # of Python's own nobody asks
work(3_000_000)
print(look(False))
give_up_waiting()
print(others_asleep())  # a restless one
work(2_000_000)
print(look(False), look(True))
registered.join()
"""
    done = subprocess.run([*PYTHON, "-c", program], capture_output=True, text=True, timeout=900)
    assert (done.stdout.split(), done.stderr) == (["True"] * 5, "")


def test_a_child_has_none_of_its_parents_locks() -> None:
    program = """
import os, sys, threading
from functools import cached_property
from types import ModuleType
from vdev.process import forking
module = sys.modules["vdev.example"] = ModuleType("vdev.example")
code = '''
import threading
from functools import cached_property
lock = threading.RLock()
inside, out = threading.Event(), threading.Event()
class Example:
    lock = threading.Lock()
    @cached_property
    def size(self):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            out.wait()
        return 7
def hold():
    with lock, Example.lock:
        Example().size
'''
exec(code, vars(module))
thread = threading.Thread(target=module.hold); thread.start()
module.inside.wait()
number = os.fork()
if number == 0:
    free = [lock.acquire(timeout=60) for lock in (module.lock, module.Example.lock)]
    threading.Timer(100, os._exit, (9,)).start()
    os._exit(0 if all(free) and module.Example().size == 7 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
module.out.set(); thread.join()
"""
    done = subprocess.run([*PYTHON, "-c", program], capture_output=True, text=True, timeout=900)
    assert (done.stdout.split(), done.stderr) == (["0"], "")
