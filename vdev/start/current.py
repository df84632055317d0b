"""The process's own session, made on first use according to the switches.

Decides what a switch means for a session. The one place where checking and reports meet the session they belong to.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from vdev.backends.own_libraries import load_launches, load_ranges
from vdev.process import forking, switches
from vdev.start.workers import begin_opening, open_workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from vdev.executor.executor import Executor
    from vdev.observe.watch import Watch
    from vdev.planner.links import LinkCosts
    from vdev.session.core import Checker
    from vdev.session.session import Session

logger = logging.getLogger("vdev.start.current")

_session: Session | None = None
_opening = threading.Lock()
#: seconds that a fork waits for another thread that is opening the session
_OPENING = 5.0
#: makes the checker of launches in the place of VDEV_CHECK's
_checker: Callable[[Executor, LinkCosts], Checker] | None = None


def current_session() -> Session | None:
    """The process's session, if anything has opened it yet."""
    return _session


def check_with(checker: Callable[[Executor, LinkCosts], Checker]) -> None:
    """Have the process's session check its launches with what `checker` makes. RuntimeError once the session is open."""
    global _checker
    if _session is not None:
        raise RuntimeError(
            "the session is already open, and its launches are not checked: set the checker first"
        )
    _checker = checker


def get_session() -> Session:
    """The process's session, opened on first use with the workers that VDEV_WORKERS names. Raises whatever is wrong
    with them.
    """
    global _session
    with _opening:
        if _session is None:
            begin_opening(switches.workers())
            from vdev.session.session import Session  # loads most of vdev, while GPUs open

            for text, remedy in switches.slips():
                logger.warning("%s: %s", text, remedy)
            watch = _watch()
            workers = open_workers(switches.workers(), switches.memory())
            load_launches()
            if len(workers) > 1:  # one plans nothing
                load_ranges()
            _session = Session(
                workers,
                min_items=switches.min_items(),
                check=_checker or _own_checker(),
                gather=switches.gather(),
                plan_always=switches.plan_always() or switches.check(),  # what is not split is not checked
                interiors=switches.interiors(),
            )
            if watch is not None:
                watch.begin(_session)
        return _session


def _own_checker() -> Callable[[Executor, LinkCosts], Checker] | None:
    """The checker that VDEV_CHECK asks for."""
    if not switches.check():
        return None
    from vdev.check.checking import LaunchChecker  # as below

    return LaunchChecker


def _watch() -> Watch | None:
    """What VDEV_EXPLAIN and VDEV_TRACE ask for."""
    if switches.explain() is None and switches.trace() is None:
        return None
    from vdev.observe.watch import from_switches  # most runs need none

    return from_switches()


def _lose() -> None:
    """In a forked child: it has no session yet."""
    global _session
    _session = None


def _hold() -> Callable[[], object]:
    """Before a fork: wait for a thread that is opening the session."""
    return _opening.release if _opening.acquire(timeout=_OPENING) else lambda: None


forking.before_fork(_hold)
forking.in_child(_lose)
