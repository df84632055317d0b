"""Events: what a program sees of a command's completion.

Decides nothing about order; an event wraps the session's completion. A `NannyEvent` keeps host memory alive
and waits when it is dropped, as programs rely on that.
"""

from __future__ import annotations

import queue
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

from vdev.facade.context import Context
from vdev.facade.errors import as_int, check_type, fail, fail_cast, fail_type, native, status
from vdev.facade.handles import Handle, state_of
from vdev.process.finalisers import may_wait
from vdev.process.forking import in_child
from vdev.process.interrupts import waits
from vdev.session.lost import LostSession

if TYPE_CHECKING:
    from vdev.facade.queue import CommandQueue
    from vdev.session.session import Completion, UserCompletion

_COMPLETE = 0
_EXECUTION_STATUS = native.event_info.COMMAND_EXECUTION_STATUS
_CALLBACK_STATES = (0, 1, 2)  # complete, running, submitted
_PROFILING = {
    native.profiling_info.QUEUED: 0,
    native.profiling_info.SUBMIT: 1,
    native.profiling_info.START: 2,
    native.profiling_info.END: 3,
    native.profiling_info.COMPLETE: 3,
}


class Event(Handle):
    """An event; its state is the command's completion. Only the enqueue functions make one."""

    __slots__ = ("__weakref__", "_command_type", "_context", "_handle", "_queue", "_vdev_state")

    _retain = "clRetainEvent"
    _invalid = status.INVALID_EVENT

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Event or cls is NannyEvent:
            raise TypeError(f"pyopencl._cl.{cls.__name__}: no constructor defined!")
        return super().__new__(cls)

    def __init__(
        self, queue: CommandQueue | None, context: Context, command_type: int, completion: Completion
    ) -> None:
        self._handle = 0
        self._queue = queue
        self._context = context
        self._command_type = command_type
        self._vdev_state = completion

    @staticmethod
    def _vdev_of_command(
        queue: CommandQueue, context: Context, command_type: int, completion: Completion
    ) -> Event:
        """The same as `make_event` with fewer calls: every launch makes one."""
        event: Event = _new_event(Event)
        event._handle = 0
        event._queue = queue
        event._context = context
        event._command_type = command_type
        event._vdev_state = completion
        return event

    def get_info(self, arg: int, /) -> Any:
        if arg is _EXECUTION_STATUS:  # which programs ask again and again
            return self._vdev_state.status
        arg = as_int("get_info", arg)
        info = native.event_info
        if arg == info.COMMAND_QUEUE:
            return self._queue
        if arg == info.COMMAND_TYPE:
            return self._command_type
        if arg == info.COMMAND_EXECUTION_STATUS:
            return self._vdev_state.status
        if arg == info.REFERENCE_COUNT:
            return 1
        if arg == info.CONTEXT:
            return self._context
        fail("Event.get_info", status.INVALID_VALUE)

    def get_profiling_info(self, arg: int, /) -> int:
        """Nanoseconds of the host's clock (clGetEventProfilingInfo)."""
        index = _PROFILING.get(arg if type(arg) is int else as_int("get_profiling_info", arg))
        if index is None:
            fail("Event.get_profiling_info", status.INVALID_VALUE)
        completion = self._vdev_state
        times: tuple[int, int, int, int] | None = completion.times
        if times is None:
            queue = self._queue
            if queue is None or not state_of(queue).is_profiling or completion.status != _COMPLETE:
                fail("clGetEventProfilingInfo", status.PROFILING_INFO_NOT_AVAILABLE)
            times = completion.times  # it has just been found to be complete
        if times is None:
            fail("clGetEventProfilingInfo", status.PROFILING_INFO_NOT_AVAILABLE)
        return times[index]

    @waits
    def wait(self) -> None:
        completion = self._vdev_state
        if completion.is_submitted:  # otherwise it has ended, or the program itself has to do something first
            self._context._vdev_state.session.look()
        if completion.wait() < 0:
            _fail_wait(self._context)

    def set_callback(self, arg0: int, arg1: Callable[[int], object], /) -> None:
        """Call `arg1` with the status once the command has reached that state, in another thread, as natively.

        If the command fails before, `arg1` gets its negative status (specification 5.11).
        """
        state = as_int("set_callback", arg0, -(2**31), 2**31 - 1)
        if arg1 is None:
            fail_type("set_callback", arg0, arg1)
        if state not in _CALLBACK_STATES:
            fail("clSetEventCallback", status.INVALID_VALUE)
        completion = self._vdev_state
        if state != _COMPLETE or not _threads.wait_for(completion, arg1):
            completion.add_callback(lambda reached: _notify(arg1, reached), state)


#: the context of an event
context_of: Callable[[Event], Context] = attrgetter("_context")


#: seconds that a thread without a callback waits for the next: starting one takes longer than most callbacks
_LINGERING = 1.0


class _CallbackThreads:
    """Threads that run programs' callbacks: as many as there are callbacks under way at one time, since each may wait for other events.

    One of them may wait for a command, and then run the callback itself: programs that are called back after each command have only
    one under way, and two threads less take part in it.
    """

    def __init__(self) -> None:
        self._idle: deque[queue.SimpleQueue[Callable[[], object]]] = deque()
        #: whether one waits for a command: others end when they want, and a second one would wait for the first
        self._waits = False

    def wait_for(self, completion: Completion, callback: Callable[[int], object]) -> bool:
        """Have a thread wait for a command's end, and then run a callback; False if one waits already, or the command may not begin
        before the program does something else.
        """
        if self._waits or not completion.is_submitted:
            return False
        self._waits = True  # of two threads that come here at once both may get one
        try:
            self.run(partial(self._wait, completion, callback))
        except BaseException:  # there can be no more threads
            self._waits = False
            raise
        return True

    def _wait(self, completion: Completion, callback: Callable[[int], object]) -> None:
        try:
            reached = completion.wait()
        finally:
            self._waits = False
        _call_back(callback, reached)

    def run(self, call: Callable[[], object]) -> None:
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._main, args=(inbox,), name="vdev-callback", daemon=True).start()
        inbox.put(call)

    def forget(self) -> None:
        """In a forked child: there are no threads."""
        self._idle.clear()
        self._waits = False

    def _main(self, inbox: queue.SimpleQueue[Callable[[], object]]) -> None:
        while True:
            try:
                call = inbox.get(timeout=_LINGERING)
            except queue.Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:  # somebody has just taken it, to put a callback there
                    continue
                return
            call()
            call = None  # type: ignore[assignment]  # keep nothing of the program's alive while waiting
            self._idle.append(inbox)


_threads = _CallbackThreads()
in_child(_threads.forget)


def run_apart(call: Callable[[], object]) -> None:
    """Have a thread run `call`, which may wait for commands."""
    _threads.run(call)


def _notify(callback: Callable[[int], object], reached: int) -> None:
    """Have a thread call a program's callback: this one must go on with its own work."""
    _threads.run(partial(_call_back, callback, reached))


def _call_back(callback: Callable[[int], object], reached: int) -> None:
    try:
        callback(reached)
    except BaseException as error:
        # the native module reports it in this way and goes on, whatever it is: `sys.exit` does not end a process from here
        report = traceback.TracebackException.from_exception(error)
        del report.stack[0]  # this function's line
        text = "".join(report.format()).rstrip("\n")
        print(f"[pyopencl] event callback handler threw an exception, ignoring: {text}", file=sys.stderr)


class Ward:
    """Keeps the program's object whose memory a transfer uses for as long as the transfer may use it."""

    __slots__ = ("in_use", "kept")

    def __init__(self, kept: Any, *, in_use: bool = True) -> None:
        self.kept = kept  #: None once nobody waits for the transfer
        #: False once the transfer no longer needs the memory, even if it has not ended
        self.in_use = in_use

    def release(self) -> None:
        """The transfer is done."""
        self.kept = None

    def let_go(self, completion: Completion) -> None:
        """The program no longer waits for the transfer; the memory is kept until it ends."""
        kept, self.kept = self.kept, None
        completion.add_callback(partial(_let_go, kept))


class NannyEvent(Event):
    """The event of a transfer to or from host memory: it holds the program's object, and waits for the transfer when
    it is dropped.
    """

    # without __slots__: natively programs can set attributes
    _ward: Ward

    @staticmethod
    def _vdev_of_transfer(
        queue: CommandQueue, command_type: int, completion: Completion, ward: Ward
    ) -> NannyEvent:
        event = _new_event(NannyEvent)
        Event.__init__(event, queue, queue._vdev_state.context, command_type, completion)
        event._ward = ward
        return event

    @staticmethod
    def _vdev_of_taken(
        queue: CommandQueue,
        context: Context,
        command_type: int,
        completion: Completion,
        hostbuf: Any,
        in_use: bool = False,
    ) -> NannyEvent:
        """The event of a transfer that no longer needs `hostbuf`, with few calls: many transfers make one. `in_use`: it still does."""
        event: NannyEvent = _new_event(NannyEvent)
        event._handle = 0
        event._queue = queue
        event._context = context
        event._command_type = command_type
        event._vdev_state = completion
        ward = event._ward = _new_ward(Ward)
        ward.kept, ward.in_use = hostbuf, in_use
        return event

    def get_ward(self) -> Any:
        return self._ward.kept

    def _vdev_disown(self) -> None:
        """Leave the memory to the program, as natively in C."""
        self._ward.release()

    @waits
    def wait(self) -> None:
        super().wait()
        self._ward.release()

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # at the interpreter's end the threads that could finish the transfer no longer run
        ward = self._ward
        if not ward.in_use or ward.kept is None or is_ending() or state_of(self._context).is_lost:
            return
        if may_wait():
            _warn_of_failure(self._vdev_state.wait())
        else:  # a collection can come at any moment: it is enough to keep the memory until the transfer ends
            self._ward.let_go(self._vdev_state)


class UserEvent(Event):
    """An event whose status the program sets."""

    # without __slots__: natively programs can set attributes
    _vdev_state: UserCompletion

    def __init__(self, context: Context) -> None:
        check_type("__init__", context, Context)
        completion = state_of(context).session.user_completion()
        super().__init__(None, context, native.command_type.USER, completion)

    def set_status(self, arg: int, /) -> None:
        code = as_int("set_status", arg, -(2**31), 2**31 - 1)
        if code > 0:
            fail("clSetUserEventStatus", status.INVALID_VALUE)
        if self._vdev_state.status <= 0:
            fail("clSetUserEventStatus", status.INVALID_OPERATION)
        self._vdev_state.set_status(code)


def warn_cleanup(routine: str, code: int) -> None:
    """The warning that the native module gives where it cannot raise."""
    print(
        "PyOpenCL WARNING: a clean-up operation failed (dead context maybe?)\n"
        f"{routine} failed with code {code}",
        file=sys.stderr,
    )


_new_event = _new_ward = object.__new__


def _let_go(ward: object, ended: int) -> None:
    """The transfer has ended after its event was dropped; `ward` was kept until now."""
    _warn_of_failure(ended)


def _warn_of_failure(ended: int) -> None:
    if ended < 0:
        warn_cleanup("clWaitForEvents", status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)


def make_event(queue: CommandQueue, command_type: int, completion: Completion) -> Event:
    """The event of a command in `queue`."""
    return Event._vdev_of_command(queue, queue._vdev_state.context, command_type, completion)


def make_nanny_event(
    queue: CommandQueue, command_type: int, completion: Completion, ward: Ward
) -> NannyEvent:
    """The event of a transfer that uses the memory of `ward`."""
    return NannyEvent._vdev_of_transfer(queue, command_type, completion, ward)


def parse_wait_list(wait_for: Iterable[Event] | None, context: Context, routine: str) -> Sequence[Completion]:
    """The completions of a wait list; INVALID_CONTEXT for an event of another context."""
    if wait_for is None:
        return ()
    found: dict[Completion, None] = {}  # for arrays, ten and more, often the same ones twice
    for event in wait_for:
        if type(event) is not Event and not isinstance(event, Event):
            fail_cast()
        if context_of(event) is not context:
            fail(routine, status.INVALID_CONTEXT)
        found[event._vdev_state] = None
    return [*found]


@waits
def wait_for_events(arg: Sequence[Event], /) -> None:
    """Wait for all of them; fails if any has failed (clWaitForEvents)."""
    if arg is None:
        fail_type("wait_for_events", arg)
    if len(arg) == 0:
        fail("clWaitForEvents", status.INVALID_VALUE)
    context = _context_of_all(arg)
    completions = parse_wait_list(arg, context, "clWaitForEvents")
    failed = False
    for completion in completions:
        if completion.is_submitted:
            state_of(context).session.look()
        failed = completion.wait() < 0 or failed
    if failed:
        _fail_wait(context_of(arg[0]))


def _fail_wait(context: Context) -> NoReturn:
    if state_of(context).is_lost:  # it has ended because that one failed
        raise LostSession.failure()
    fail("clWaitForEvents", status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)


def _context_of_all(events: Iterable[Event]) -> Context:
    first = next(iter(events))
    if not isinstance(first, Event):
        fail_cast()
    return context_of(first)
