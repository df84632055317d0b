"""Threads that Python does not know: those that drivers and other libraries create for themselves.

Decides whether they are at rest. A pool's threads look for work for a while before they sleep, and until then count
as busy with their last task, such as an arena of TBB; a child forked at that moment would count them as busy for
ever. The system does not tell whose thread it is, so one that never rests is not waited for again until it has been
seen asleep.
"""

from __future__ import annotations

import os
import threading

from vdev.process.forking import in_child

_TASKS = "/proc/self/task"
#: threads that stayed awake for as long as anybody waited
_restless: set[str] = set()


def others_asleep() -> bool:
    """Whether all threads sleep, except those that Python has started and the restless ones; also True if the system
    does not tell.
    """
    awake = _awake()
    _restless.intersection_update(awake)
    return awake <= _restless


def give_up_waiting() -> None:
    """From now on, whoever is awake counts as restless."""
    _restless.update(_awake())


def _awake() -> set[str]:
    own = {str(thread.native_id) for thread in threading.enumerate()}
    try:
        return {task for task in os.listdir(_TASKS) if task not in own and not _sleeps(task)}
    except OSError:
        return set()


def _sleeps(task: str) -> bool:
    """Whether its state (proc(5), stat) is sleeping, or it has ended."""
    try:
        with open(f"{_TASKS}/{task}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return True  # it has ended meanwhile
    return line[line.rindex(b")") + 2 :].startswith((b"S", b"Z", b"X"))


in_child(_restless.clear)
