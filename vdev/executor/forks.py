"""Before a fork: all threads are kept out of the back ends, and the drivers' own come to rest.

Decides how long that may take, and what is done if it takes longer: the fork goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from vdev.executor.worker import Worker
from vdev.process.forking import is_anyone_inside, keep_out
from vdev.process.threads import give_up_waiting

#: seconds that a fork waits for threads to leave their back ends and for the work that they have handed over, and as
#: long again for the drivers' own threads; for one attempt to take all turns; and between two looks
_HOLDING, _TAKING, _LOOKING = 2.0, 0.002, 0.0002
#: how many looks in a row must find everything at rest: a thread may have been woken just after the first
_LOOKS = 2


def hold_workers(workers: Sequence[Worker]) -> Callable[[], None]:
    """Keep all threads out of the back ends for a fork, as far as that takes little time; returns a function that
    lets them go on.

    Threads inside a driver, its own and the program's, hold its locks now and then and take part in its
    scheduling. In a child, where they do not exist, those locks would be held for ever.
    """
    deadline = time.monotonic() + _HOLDING
    held = _take_turns(workers, deadline)
    for worker in workers:
        if worker.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            held.append(worker.lock)
    let_in = keep_out()  # not before: a thread that has a turn may still have to go in
    while not _is_quiet(workers) and time.monotonic() < deadline:
        time.sleep(_LOOKING)
    _let_drivers_rest(workers)

    def go_on() -> None:
        let_in()
        for lock in held:
            lock.release()

    return go_on


def _let_drivers_rest(workers: Sequence[Worker]) -> None:
    deadline, looks = time.monotonic() + _HOLDING, 0
    while looks < _LOOKS:
        if time.monotonic() > deadline:
            give_up_waiting()
            return
        time.sleep(_LOOKING)
        looks = looks + 1 if all(worker.backend.is_at_rest() for worker in workers) else 0


def _is_quiet(workers: Sequence[Worker]) -> bool:
    return not is_anyone_inside() and all(worker.is_quiet() for worker in workers)


def _take_turns(workers: Sequence[Worker], deadline: float) -> list[threading.Lock | threading.RLock]:
    """Every worker's turn, or as many as could be had by `deadline`.

    All or none at a time: the worker whose turn is missing may be waiting for one whose turn has been taken.
    """
    while True:
        held = [worker.turn for worker in workers if worker.turn.acquire(timeout=_TAKING)]
        if len(held) == len(workers) or time.monotonic() > deadline:
            return list(held)
        for turn in held:
            turn.release()
        time.sleep(_LOOKING)
