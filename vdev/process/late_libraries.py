"""Libraries that are loaded after the first OpenCL call, such as a compiler, and the exit of a C program.

At exit the C library calls what was registered last first: destructors of libraries, and the program's handlers. A C
program has `ending.end` registered with its first OpenCL call. So whatever is loaded later is torn down before that,
and a thread of vdev's that is inside it then crashes. A Python program has no such problem: there the interpreter calls
`ending.end`, before any destructor.

Decides how long the exit of a C program waits for threads inside such a library, and that none enters it afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator

from vdev.process import ending
from vdev.process.forking import in_child, keep_for_ever

#: Seconds that an exit waits for a thread inside. After that the process ends without any destructor.
_LONGEST = 10.0


class Ending(RuntimeError):
    """The process is ending, and the library is no longer to be used."""


class LateLibrary:
    """One such library, and how many threads are inside it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._registered = False
        self._renew()
        in_child(self._renew)  # the parent's threads are not there

    def _renew(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._over = False

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Around calls that use the library. Ending once the process has begun to end."""
        with self._changed:
            if self._over:
                raise Ending(f"{self._name} cannot be used any more: the process is ending")
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def loaded(self) -> None:
        """It has been loaded. From now on an exit waits for the threads inside before it is torn down."""
        with self._changed:
            if self._registered or not ending.is_called_by_c():
                return
            self._registered = True
        finish = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._finish)
        keep_for_ever(finish)
        ctypes.CDLL(None)["__cxa_atexit"](finish, None, None)

    def _finish(self, _: int | None) -> None:
        with self._changed:
            self._over = True
            if not self._changed.wait_for(lambda: not self._inside, _LONGEST):
                ending.leave_behind(self)
