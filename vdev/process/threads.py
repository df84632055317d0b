"""Threads that Python does not know: those that drivers and other libraries create for themselves.

Decides whether they rest. A pool's threads look for work for a while before they sleep, and until then count as busy
with their last task, such as an arena of TBB; a child forked in that moment counts them for ever. The system does not
tell whose thread it is, so one that never rests is not waited for again until it has been seen asleep.
"""

from __future__ import annotations

import os
import threading

from vdev.process.forking import in_child

_TASKS = "/proc/self/task"
#: threads that were awake as long as anybody cared to wait
_restless: set[str] = set()


def others_asleep() -> bool:
    """Whether all threads sleep but those that Python has begun, and the restless; also where the system does not tell."""
    awake = _awake()
    _restless.intersection_update(awake)
    return awake <= _restless


def give_up_waiting() -> None:
    """Whoever is awake now is restless."""
    _restless.update(_awake())


def _awake() -> set[str]:
    own = {str(thread.native_id) for thread in threading.enumerate()}
    try:
        return {task for task in os.listdir(_TASKS) if task not in own and not _sleeps(task)}
    except OSError:
        return set()


def _sleeps(task: str) -> bool:
    """By its state (proc(5), stat): sleeping, or at its end."""
    try:
        with open(f"{_TASKS}/{task}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return True  # it has ended meanwhile
    return line[line.rindex(b")") + 2 :].startswith((b"S", b"Z", b"X"))


in_child(_restless.clear)
