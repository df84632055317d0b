"""Callbacks for the events of C programs.

Decides in what order they are called: one at a time, in the order in which commands reached their states, as native drivers do.
Programs rely on that: they would have to protect what callbacks change, and to sort what callbacks append to. PyOpenCL has a
thread for each callback, and so has the façade.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial

from vdev.executor.completion import COMPLETE, Completion
from vdev.facade.event import Event, context_of, run_apart
from vdev.facade.handles import state_of
from vdev.process.forking import in_child

_Call = Callable[[int], object]


class _Line:
    """Callbacks one behind another. One of them may belong to a command that a thread waits for, which then makes the call itself:
    programs that are called back after each command have only one under way, and two threads less take part in it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: deque[Callable[[], object]] = deque()  #: those whose turn has come, in order
        self._is_busy = False  #: whether a thread makes them
        self._asked = 0  #: those that commands have yet to be told to call
        self._awaited: tuple[Completion, _Call] | None = None  #: what a thread waits for, and calls then

    def ask(self, completion: Completion, state: int, call: _Call) -> None:
        """Have `call` called once the command has reached that state."""
        awaited = (completion, call) if state == COMPLETE and completion.is_submitted else None
        with self._lock:
            if awaited is not None and self._awaited is None and not self._asked:
                self._awaited = awaited
            else:
                awaited = None
                self._asked += 1
        if awaited is None:
            completion.add_callback(partial(self._reached, call), state)
            return
        try:
            run_apart(partial(self._wait, awaited))
        except BaseException:  # there can be no more threads
            self._awaited = None
            raise

    def _wait(self, awaited: tuple[Completion, _Call]) -> None:
        awaited[0].wait()
        self._line_up(lambda: self._take(awaited))

    def _reached(self, call: _Call, reached: int) -> None:
        """On the notifier's thread, which must go on."""

        def take() -> None:
            self._asked -= 1
            if self._awaited is not None and self._awaited[0].settled:  # an earlier command, whose thread has yet to wake up
                self._take(self._awaited)
            self._calls.append(partial(call, reached))

        self._line_up(take, run_apart)

    def _take(self, awaited: tuple[Completion, _Call]) -> None:
        """It is its turn, if it has not come before. Under the lock."""
        if self._awaited is awaited:
            self._awaited = None
            self._calls.append(partial(awaited[1], awaited[0].status))

    def _line_up(
        self, take: Callable[[], None], run: Callable[[Callable[[], None]], None] = lambda call: call()
    ) -> None:
        """Append calls, and make them here or in a thread that `run` finds, if none is at it."""
        with self._lock:
            take()
            is_free, self._is_busy = not self._is_busy, True
        if not is_free:
            return
        try:
            run(self._make_calls)
        except BaseException:  # there can be no more threads: the next makes these as well
            self._is_busy = False
            raise

    def _make_calls(self) -> None:
        while True:
            with self._lock:
                self._is_busy = bool(self._calls)
                if not self._is_busy:
                    return
                call = self._calls.popleft()
            try:
                call()
            except BaseException:  # vdev's own: functions in C raise nothing
                traceback.print_exc()
            del call  # keep nothing of the program's alive


_line = _Line()


def _forget() -> None:
    """In a forked child: the callbacks still to be made are the parent's."""
    global _line
    _line = _Line()


in_child(_forget)


def call_in_order(event: Event, state: int, call: _Call) -> None:
    """Have `call(reached)` called once the event's command has reached that state, behind those that were to be called before."""
    completion = state_of(event)
    if completion.settled:  # earlier commands may be complete, and not settled
        state_of(context_of(event)).session.executor.settle_complete()
    _line.ask(completion, state, call)
