"""Buffers that a program has released, for those that it makes next.

Programs make their arrays of a few sizes anew in each step, and drop them. A new buffer that is a released one of its size has device
memory where the last one had it, and the commands on it find the plans that were made for the last one. Its content is undefined, as
that of every new buffer (specification 5.2.1): nothing of it is valid anywhere, so that nothing is moved for its sake. Decides which
buffers are kept, how many of them, and which serves next.

They are given up as soon as a command lacks room on a worker, or a worker memory.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from vdev.planner.directory import unwritten_state

if TYPE_CHECKING:
    from vdev.executor.executor import Executor
    from vdev.session.commands import BufferArg
    from vdev.session.ordering import Deferrals

#: bytes of a buffer that is kept: to fill a larger one takes a GPU longer than a plan takes the host
MOST_EACH = 64 << 20
#: bytes and number of all of them: programs make their temporaries of few sizes, and have little use for many
MOST_NBYTES, MOST_BUFFERS = 256 << 20, 64
_MOST_SIZES = 4 * MOST_BUFFERS  #: that lists are kept of, if they have any or not
#: seconds that a thread that lacks memory waits for another's change, which takes microseconds
_PATIENCE = 0.1


class SessionWithBuffers(Protocol):
    """The session as its released buffers see it."""

    lock: threading.RLock
    observers: list[Any]
    checker: Any

    @property
    def executor(self) -> Executor:
        """What carries its commands out."""

    @property
    def deferrals(self) -> Deferrals:
        """The commands that are held back."""


class SpareBuffers:
    """The released buffers of one session. Any thread may call any method, finalisers among them.

    Nobody waits for a lock here to keep a buffer or to take one: finalisers may run wherever a lock is held, and whoever makes a buffer
    may hold one that they want, as that of a memory pool. Where a lock is not to be had, a buffer is given up, or made.
    """

    def __init__(self, session: SessionWithBuffers) -> None:
        self._session = session
        #: Those in use. The garbage of a program that refers to itself has them not among it: else their finalisers would run, and give
        #: their memory back, though they are kept.
        self._in_use: set[BufferArg] = set()
        #: not reentrant: a collection while it is held may release another buffer, which would find half of a change
        self._lock = threading.Lock()
        #: what launches know them by, in the order in which they were released
        self._kept: dict[BufferArg, None] = {}
        #: those of one size, in bytes, in that order; of some sizes none
        self._by_size: dict[int, list[BufferArg]] = {}
        self.nbytes = 0  #: of all of them
        self._is_closed = False

    def __len__(self) -> int:
        """How many there are."""
        return len(self._kept)

    def enter(self, arg: BufferArg) -> None:
        """A buffer has been made that is to be kept when the program releases it."""
        self._in_use.add(arg)

    def keep(self, arg: BufferArg) -> None:
        """The program has released a buffer.

        While a command is held back until the program sets an event, none is kept: it may use the buffer, and commands on the next one
        would wait for it.
        """
        nbytes, session, dropped = arg.nbytes, self._session, None
        self._in_use.discard(arg)
        if nbytes > MOST_EACH or self._is_closed or session.deferrals.held or session.executor.poisons_memory:
            return
        if not self._lock.acquire(False):
            return
        try:
            self.nbytes += nbytes
            self._kept[arg] = None
            alike = self._by_size.get(nbytes)
            if alike is None:
                alike = self._of_new_size(nbytes)
            alike.append(arg)
            if self.nbytes > MOST_NBYTES or len(self._kept) > MOST_BUFFERS:
                dropped = self._shrink()
        finally:
            self._lock.release()
        del dropped  # outside the lock

    def take(self, nbytes: int) -> BufferArg | None:
        """A buffer of that size, as new, and what launches knew it by; None if there is none. The last one that was released: it has
        served most launches of late.
        """
        session = self._session
        if not self._by_size.get(nbytes) or not session.lock.acquire(False):
            return None
        try:
            arg = self._taken(nbytes)
            if arg is None or self._is_renewed(arg):
                return arg
        finally:
            session.lock.release()
        self._in_use.discard(arg)
        return None

    def _taken(self, nbytes: int) -> BufferArg | None:
        """The last one of that size that was released, which is in use from now on."""
        if not self._lock.acquire(False):
            return None
        try:
            alike = self._by_size.get(nbytes)
            if not alike:
                return None
            arg = alike.pop()
            del self._kept[arg]
            self.nbytes -= nbytes
            self._in_use.add(arg)
            return arg
        finally:
            self._lock.release()

    def drop(self) -> bool:
        """Give up all of them; whether there were any."""
        # In a finaliser that runs amid a change of these, it would wait for ever.
        if not self._lock.acquire(timeout=_PATIENCE):
            return False
        try:
            dropped = [*self._kept]
            self._kept.clear()
            self._by_size.clear()
            self.nbytes = 0
        finally:
            self._lock.release()
        return bool(dropped)

    def close(self) -> None:
        """Keep none from now on; those that there are stay."""
        self._is_closed = True

    def _shrink(self) -> list[BufferArg]:
        """Give up those that were released first, until no more are left than there may be."""
        dropped = []
        while self.nbytes > MOST_NBYTES or len(self._kept) > MOST_BUFFERS:
            arg = next(iter(self._kept))
            del self._kept[arg]
            self.nbytes -= arg.nbytes
            self._by_size[arg.nbytes].remove(arg)
            dropped.append(arg)
        return dropped

    def _of_new_size(self, nbytes: int) -> list[BufferArg]:
        """Where those of a size are listed from now on. Programs of few sizes find it again and again; of many, those that there are none
        of are forgotten.
        """
        if len(self._by_size) >= _MOST_SIZES:
            self._by_size = {size: alike for size, alike in self._by_size.items() if alike}
        alike = self._by_size[nbytes] = []
        return alike

    def _is_renewed(self, arg: BufferArg) -> bool:
        """Make a released buffer a new one. Not where somebody looks at what becomes of each buffer, or commands have failed. Under the
        session's lock.
        """
        buffer, session = arg.buffer, self._session
        executor = session.executor
        # Before the look at failures: either sees the other.
        buffer.holdings.renew(executor.last_number, executor.unsettled)
        if session.observers or session.checker is not None or executor.failures.any or executor.closed:
            return False
        buffer.writer = None
        # A worker that has it whole keeps it so: launches there ask for no more than that.
        if buffer.resident is None:
            state = buffer.state
            unwritten = unwritten_state(state.nbytes, state.replicas, state.kept)
            if state is not unwritten:
                buffer.state = unwritten
                executor.standing = object()  # what came before was repeated for what it held
        return True
