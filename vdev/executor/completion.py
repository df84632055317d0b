"""Completions: what a command's event stands on.

A completion says whether a command is done and how it ended. It decides nothing about order, and knows
workers only through the `Progress` that the executor binds to it at submission. Callbacks run on a thread of
their own, never on a worker's.
"""

from __future__ import annotations

import operator
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from vdev.process.ending import is_over, stop_here
from vdev.process.finalisers import enter_own_thread
from vdev.process.forking import in_child
from vdev.process.interrupts import block, waits

QUEUED, SUBMITTED, RUNNING, COMPLETE = 3, 2, 1, 0

Callback = Callable[[int], object]


class Progress(Protocol):
    """How far a submitted command is; the executor's side of a completion."""

    def wait(self) -> None:
        """Return when the command is complete or has failed, and its completion is settled."""

    def poll(self) -> int:
        """SUBMITTED or RUNNING, after settling the completion where that is due."""

    def hurry(self) -> None:
        """Somebody wants to hear of the end without waiting for it."""


# One lock for what is rare or short. Reentrant: a collection may run another completion's finaliser while it
# is held.
_rare = threading.RLock()


class Completion:
    """The state of one command. Its status is that of clGetEventInfo: 3 queued, 2 submitted, 1 running, 0
    complete, negative failed.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_final",
        "_gates",
        "_progress",
        "error",
        "not_before_ns",
        "profiled",
        "queued_ns",
        "reason",
        "settled_ns",
        "spans",
        "submitted_ns",
    )

    def __init__(self, profiled: bool = False) -> None:
        self.profiled = profiled
        #: the status that the command will end with; set before the end, so that the rest of the command is skipped
        self.error: int | None = None
        #: what went wrong, for the log
        self.reason: str | None = None
        self._final: int | None = None
        self._progress: Progress | None = None
        #: locks that open when the command was submitted or has ended, one for each thread that waits for that
        self._gates: list[threading.Lock] | None = None
        #: (state, function): what to call when the command has come so far
        self._callbacks: list[tuple[int, Callback]] | None = None
        #: (start, end) of the command's parts, for profiled commands
        self.spans: list[tuple[int, int]] = []
        #: when the commands that it waited for had ended, for profiled commands
        self.not_before_ns = 0
        self.queued_ns = time.perf_counter_ns() if profiled else 0
        self.submitted_ns = 0
        self.settled_ns = 0

    @property
    def status(self) -> int:
        final = self._final
        if final is not None:
            return final
        progress = self._progress
        if progress is None:
            return QUEUED
        state = progress.poll()
        return state if self._final is None else self._final

    @property
    def settled(self) -> bool:
        """Whether the final status is known already; asks no device."""
        return self._final is not None

    @property
    def is_submitted(self) -> bool:
        """Whether workers have got the command, and it has not ended yet as far as is known."""
        return self._progress is not None

    @property
    def is_awaited(self) -> bool:
        """Whether anybody asked to be called."""
        return self._callbacks is not None

    @property
    def progress(self) -> Progress | None:
        """The executor's side; None before submission and after the end."""
        return self._progress

    @waits
    def wait(self) -> int:
        """Block until the command has ended; its final status. Waits for the submission too."""
        while self._final is None:
            progress = self._progress
            if progress is not None:
                progress.wait()
                continue
            with _rare:
                if self._final is not None or self._progress is not None:
                    continue
                if self._gates is None:
                    self._gates = []
                gate = threading.Lock()
                gate.acquire()
                self._gates.append(gate)
            # `bind` stores its progress before it looks for us, we the other way round: one of the two sees
            # the other.
            if self._final is None and self._progress is None:
                block(gate.acquire)
        if is_over():
            stop_here()
        return self._final

    def add_callback(self, function: Callback, state: int = COMPLETE) -> None:
        """Call `function(state)` once, on the notifier's thread, when the command reaches `state` (SUBMITTED, RUNNING
        or COMPLETE), or at once if it has. A command that fails before calls it with the negative status.
        """
        with _rare:
            final = self._final
            if final is None:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append((state, function))
                progress = self._progress
            else:  # put there under the lock, as what a command's end calls is: behind the callbacks of earlier commands
                _notifier.put(function, final if final else state)
                return
        if state != COMPLETE:
            self._call_back(self.status)
        elif progress is not None:
            progress.hurry()

    def _call_back(self, reached: int) -> None:
        """Call those who asked for the state that was reached, or for an earlier one."""
        with _rare:
            asked = self._callbacks or []
            now = sorted((item for item in asked if item[0] >= reached), key=_state_of, reverse=True)
            self._callbacks = [item for item in asked if item[0] < reached] or None
            for state, function in now:
                _notifier.put(function, reached if reached < 0 else state)

    @property
    def times(self) -> tuple[int, int, int, int] | None:
        """(queued, submit, start, end) in nanoseconds of time.perf_counter_ns; None unless profiled and complete.

        One worker may be some commands ahead of another. Programs add durations up, so the device as a whole starts a
        command of an in-order queue only when it has ended the one before (specification 5.11). They divide by durations as
        well: none is 0.
        """
        if not self.profiled or self._final != COMPLETE:
            return None
        submitted, spans = self.submitted_ns or self.queued_ns, self.spans
        earliest = self.not_before_ns if self.not_before_ns > submitted else submitted
        if len(spans) == 1:  # on one worker
            ((start, end),) = spans
        elif spans:
            start, end = min(span[0] for span in spans), max(span[1] for span in spans)
        else:
            start = end = self.settled_ns
        start = start if start > earliest else earliest
        return self.queued_ns, submitted, start, end if end > start else start + 1

    # for the executor, and for user events ----------------------------------------------------------

    def bind(self, progress: Progress) -> None:
        """The command was submitted. Called once."""
        if self.profiled:
            self.submitted_ns = time.perf_counter_ns()
        self._progress = progress
        # Nearly no command is waited for before it is submitted: look without the lock first.
        if self._gates is not None or self._callbacks is not None:
            with _rare:
                gates, self._gates = self._gates, None
                called_for = self._callbacks is not None
            _open(gates)
            if called_for:
                self._call_back(SUBMITTED)
                progress.hurry()

    def carry_on(self, progress: Progress) -> None:
        """From now on `progress` knows how far the command is."""
        self._progress = progress

    def started(self) -> None:
        """A worker begins with the command's work."""
        if self._callbacks is not None:
            self._call_back(RUNNING)

    def settle(self, status: int) -> None:
        """The command has ended; 0 or a negative status. Only the first call counts."""
        if self.profiled:
            self.settled_ns = time.perf_counter_ns()
        with _rare:
            if self._final is None:
                self._final = status
            gates, self._gates = self._gates, None
            if self._callbacks is not None:
                self._call_back(self._final)
        self._progress = None
        _open(gates)

    def abandon(self, status: int) -> None:
        """The process is ending and takes the command with it: no callback is called, and no thread waits any longer."""
        self._callbacks = None
        self.settle(status)


#: the state that a callback is for: earlier ones are larger
_state_of = operator.itemgetter(0)


def _open(gates: list[threading.Lock] | None) -> None:
    """Wake the threads that wait for a change."""
    for gate in gates or ():
        gate.release()


#: of commands that were done before anybody could ask
DONE = Completion()
DONE.settle(COMPLETE)


class Notifier:
    """The thread that runs callbacks, in the order in which commands reached their states; started by the first."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callback, int]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, function: Callback, status: int) -> None:
        self._queue.put((function, status))
        thread = self._thread
        if thread is None:
            with _rare:
                if self._thread is thread:
                    self._thread = threading.Thread(target=self._run, name="vdev-callbacks", daemon=True)
                    self._thread.start()

    def forget(self) -> None:
        """In a forked child: there is no thread, and the callbacks still to be called are the parent's."""
        self._queue = queue.SimpleQueue()
        self._thread = None

    def _run(self) -> None:
        enter_own_thread()
        while True:
            function, status = self._queue.get()
            try:
                function(status)
            except BaseException as error:  # the user's code: reported as Python reports an error in a thread
                threading.excepthook(
                    threading.ExceptHookArgs((type(error), error, error.__traceback__, self._thread))
                )
            function = None  # type: ignore[assignment]  # keep nothing of the user's alive while waiting


_notifier = Notifier()
in_child(_notifier.forget)


def call_soon(function: Callable[[], object]) -> None:
    """Call `function` on the notifier's thread, for a finaliser that must not do its work where it runs.

    Takes no lock that anybody holds while waiting for something else.
    """
    _notifier.put(lambda status: function(), COMPLETE)
