"""Launches that the library makes again without Python (`native/ready.c`): what it needs for them, and how they are told.

Decides nothing about when they are made. What such a launch is, and that it is counted like any other, is
`vdev.session.immediate`'s.
"""

from __future__ import annotations

import logging
from typing import Any, TypeVar

from vdev.executor.completion import DONE
from vdev.executor.stretch import Part
from vdev.facade.errors import native
from vdev.facade.event import Event
from vdev.facade.handles import state_of
from vdev.facade.launch import ready_launch
from vdev.facade.memory import USE_HOST_PTR, Memory
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_memory import is_in_use
from vdev.icd import host
from vdev.session.in_a_row import ReadyLaunch

E = TypeVar("E", bound=Event)

logger = logging.getLogger("vdev.icd")
_made = 0  #: launches without Python
#: memory that the host must not read, or that is the program's own
_LOOKED_AT = USE_HOST_PTR | native.mem_flags.HOST_WRITE_ONLY | native.mem_flags.HOST_NO_ACCESS


def make(queue: CommandQueue, kernel: Any, size: Any, local: Any, offset: Any) -> tuple[Any, ...] | None:
    """What the library makes the launch with that was made last of a kernel: its record here, and the driver's queue and
    kernel, memory by argument, first work-item, global and local size, the value of a last argument, and by argument how many
    bytes of it the library may read. None where that is not possible.
    """
    found = ready_launch(queue, kernel, size, local, offset, kernel._vdev_own)
    # The library knows one kernel of the driver's for each of the program's: that of the thread that came first.
    if found is None or vars(kernel).setdefault("_vdev_own", found.own) is not found.own:
        return None
    driver = found.driver
    sizes = driver.first, driver.global_size, driver.local_size
    rooms = tuple([_room(arg) for arg in state_of(kernel).args])
    return found, driver.queue, driver.kernel, driver.memory, *sizes, driver.hidden, rooms


def _room(arg: Any) -> int:
    """How many bytes of an argument's memory may be read from the only worker without a look at anything else."""
    if type(arg) is not Memory or arg.offset or arg.flags & _LOOKED_AT or is_in_use():
        return 0
    replica = arg.buffer.holdings.replicas[0]
    is_whole = replica is not None and replica.start == 0 and replica.stop >= arg.nbytes
    return arg.nbytes if is_whole and arg.buffer.resident == 0 else 0


def launched(runs: tuple[tuple[ReadyLaunch, int], ...], handles: tuple[int, ...]) -> int | None:
    """The library has made launches: which, in order, and how often in a row; and their native events. None where there shall
    be no more of them.
    """
    global _made
    _made += len(handles)
    return 1 if runs[0][0].maker.launched(runs, handles) else None


def report(reads: int) -> None:
    """At the end of the process."""
    if _made or reads:
        logger.info("%d launches were made without Python, and %d reads", _made, reads)


def looked_at(event: E) -> E:
    """The event of a command that a program has enqueued. Where the command was handed over at once, or is a read that is done, it
    leaves everything as it was for launches that are ready.
    """
    completion: Any = event._vdev_state
    if type(completion) is Part or completion is DONE:
        host.keep_ready()
    return event
