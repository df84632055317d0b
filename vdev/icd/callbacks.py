"""Callbacks for the events of C programs.

Decides in what order they are called: one at a time, in the order in which commands reached their states, as native drivers do.
Programs rely on that: they would have to protect what callbacks change, and to sort what callbacks append to. They rely also on
the callbacks of ended commands having been called when a wait for these returns. PyOpenCL has a thread for each callback, and so
has the façade.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from vdev.executor.completion import COMPLETE, Completion
from vdev.facade.errors import native
from vdev.facade.event import Event, context_of, run_apart
from vdev.facade.handles import state_of
from vdev.facade.queue import CommandQueue
from vdev.icd import host
from vdev.process.forking import in_child

#: seconds that a program which has waited for its commands waits for their callbacks: one of these may wait for the program
_PATIENCE = 1.0


class _Asked(NamedTuple):
    """A callback: the command, and the queue that it is in, if it is in any."""

    queue: CommandQueue | None
    completion: Completion
    call: Callable[[int], object]


class _Line:
    """Callbacks one behind another. One of them may belong to a command that a thread waits for, which then makes the call itself:
    programs that are called back after each command have only one under way, and two threads less take part in it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._open: dict[int, _Asked] = {}  #: those that have not returned yet
        #: those whose turn has come, in order, with what was reached
        self._turns: deque[tuple[_Asked, int]] = deque()
        self._caller = 0  #: the thread that makes the calls; 0 for none, -1 for one that has yet to begin
        self._untold = 0  #: how many commands have yet to be told to call
        self._awaited: _Asked | None = None  #: what a thread waits for, and calls then

    def ask(self, asked: _Asked, state: int) -> None:
        """Have `asked.call` called once the command has reached that state."""
        can_wait = state == COMPLETE and asked.completion.is_submitted
        with self._changed:
            self._open[id(asked)] = asked
            host.set_callbacks(len(self._open))
            if can_wait and self._awaited is None and not self._untold:
                self._awaited = asked
            else:
                can_wait = False
                self._untold += 1
        if not can_wait:
            asked.completion.add_callback(partial(self._reached, asked), state)
            return
        try:
            run_apart(partial(self._wait, asked))
        except BaseException:  # there can be no more threads
            self._awaited = None
            self._forget(asked)
            raise

    def wait_for(self, queue: CommandQueue) -> None:
        """Wait until the callbacks of commands that have ended in a queue have returned, or for as long as it is worth."""
        if self._open and self._caller != threading.get_ident():
            state_of(queue).session.executor.settle_complete()
            with self._changed:
                self._changed.wait_for(lambda: not self._are_due(queue), _PATIENCE)

    def _are_due(self, queue: CommandQueue) -> bool:
        return any(asked.queue is queue and asked.completion.settled for asked in self._open.values())

    def _wait(self, asked: _Asked) -> None:
        asked.completion.wait()
        self._line_up(lambda: self._take(asked))

    def _reached(self, asked: _Asked, reached: int) -> None:
        """On the notifier's thread, which must go on."""

        def take() -> None:
            self._untold -= 1
            earlier = self._awaited
            if earlier is not None and earlier.completion.settled:  # its thread has yet to wake up
                self._take(earlier)
            self._turns.append((asked, reached))

        self._line_up(take, run_apart)

    def _take(self, asked: _Asked) -> None:
        """It is its turn, if it has not come before. Under the lock."""
        if self._awaited is asked:
            self._awaited = None
            self._turns.append((asked, asked.completion.status))

    def _line_up(
        self, take: Callable[[], None], run: Callable[[Callable[[], None]], None] = lambda call: call()
    ) -> None:
        """Take turns, and make the calls here or in a thread that `run` finds, if none is at it."""
        with self._changed:
            take()
            if self._caller:
                return
            self._caller = -1
        try:
            run(self._make_calls)
        except BaseException:  # there can be no more threads: the next makes these as well
            self._caller = 0
            raise

    def _make_calls(self) -> None:
        while True:
            with self._changed:
                self._caller = threading.get_ident() if self._turns else 0
                if not self._caller:
                    return
                asked, reached = self._turns.popleft()
            try:
                asked.call(reached)
            except BaseException:  # vdev's own: functions in C raise nothing
                traceback.print_exc()
            self._forget(asked)
            del asked  # keep nothing of the program's alive

    def _forget(self, asked: _Asked) -> None:
        with self._changed:
            del self._open[id(asked)]
            host.set_callbacks(len(self._open))
            self._changed.notify_all()


_line = _Line()


def _forget() -> None:
    """In a forked child: the callbacks still to be made are the parent's."""
    global _line
    _line = _Line()


in_child(_forget)


def call_in_order(event: Event, state: int, call: Callable[[int], object]) -> None:
    """Have `call(reached)` called once the event's command has reached that state, behind those that were to be called before."""
    completion = state_of(event)
    if completion.settled:  # earlier commands may be complete, and not settled
        state_of(context_of(event)).session.executor.settle_complete()
    _line.ask(_Asked(event.get_info(native.event_info.COMMAND_QUEUE), completion, call), state)


def wait_for_calls(queue: CommandQueue) -> None:
    """The program has waited for commands in a queue: until their callbacks have been called."""
    _line.wait_for(queue)
