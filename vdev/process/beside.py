"""Work beside the program: one piece after the other on a thread of its own, which is there as long as there is any; and what compilers do
on a few others, for which no other work waits.

Decides that nothing begins once the process ends, and how long its end and forks wait for the piece that has begun. What fails is logged,
and is for whoever needs it to find out: the work is such as can be done again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from vdev.process import ending
from vdev.process.forking import before_fork, in_child

logger = logging.getLogger("vdev.process.beside")

#: Seconds that the end of the process waits for the piece that has begun. After that the process ends without any destructor.
_LONGEST = 10.0
#: Seconds that a fork waits for it.
_PAUSING = 2.0
#: The most compilers at a time: each takes a processor for tens of milliseconds. Half of the processors are the program's.
_MOST_COMPILERS = 4


class Beside:
    """Pieces of work of this process, begun in the order in which they come."""

    def __init__(self, threads: int = 1) -> None:
        """`threads`: how many pieces are done at a time, at most."""
        self._threads = threads
        self._pauses = False  #: whether forks wait
        self._renew()
        in_child(self._renew)  # the parent's thread is not there

    def _renew(self) -> None:
        self._changed = threading.Condition()
        #: a thread holds its own during each piece
        self._pieces = [threading.Lock() for _ in range(self._threads)]
        self._free = [*self._pieces]  #: of no thread that there is
        self._waiting: deque[Callable[[], object]] = deque()
        self._over = self._is_known = False

    def begin(self, work: Callable[[], object]) -> bool:
        """Have `work` done soon, behind what was given before, on a thread of no one else's; False if that is not possible: the process
        ends, or its end, which is C's, would tear down what the work needs in its midst, or it may have no more threads.
        """
        if ending.is_called_by_c():
            return False
        with self._changed:
            if self._over:
                return False
            self._waiting.append(work)
            if not self._pauses:
                # Asked for late, it comes before all that was asked for earlier: a piece may need locks that others hold during a fork.
                self._pauses = True
                before_fork(self._pause)
            if not self._is_known:
                self._is_known = True
                ending.at_end(self._end)
            return not self._free or self._starts_one() or self._is_at_work()

    def _starts_one(self) -> bool:
        """Have one more thread; whether there is one."""
        piece = self._free.pop()
        try:
            threading.Thread(target=self._run, args=(piece,), name="vdev-beside", daemon=True).start()
        except RuntimeError as refusal:
            logger.info("no more is done beside the program: %s", refusal)
            self._free.append(piece)
            if not self._is_at_work():
                self._waiting.clear()
            return False
        return True

    def _is_at_work(self) -> bool:
        return len(self._free) < self._threads

    def wait(self) -> None:
        """Return when all that was given before is done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_at_work())

    def _run(self, piece: threading.Lock) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._free.append(piece)
                    self._changed.notify_all()
                    return
                work = self._waiting.popleft()
            try:
                with piece:
                    work()
            except Exception:  # of whatever kind: the thread is for other work as well
                logger.exception("what was done beside the program failed")

    def _pause(self) -> Callable[[], object]:
        """Before a fork: let the pieces end that have begun, whose locks a child would find held for ever, if they soon do."""
        ends = time.monotonic() + _PAUSING
        paused = [each for each in self._pieces if each.acquire(timeout=max(ends - time.monotonic(), 0))]

        def go_on() -> None:
            for each in paused:
                each.release()

        return go_on

    def _end(self) -> None:
        with self._changed:
            self._over = True
            self._waiting.clear()
            if not self._changed.wait_for(lambda: not self._is_at_work(), _LONGEST):
                ending.leave_behind(self)


#: of this process: for work that takes Python, and for compilers, which take long and no Python
beside, compilers = Beside(), Beside(max(1, min(_MOST_COMPILERS, (os.cpu_count() or 1) // 2)))
