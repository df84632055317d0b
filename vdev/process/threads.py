"""Threads that Python knows nothing of: those that drivers and other libraries make for themselves.

Decides whether they rest. A pool's threads look for work a while before they sleep, and count until then as part of what
they were last at: of an arena of TBB, in a child of a fork for ever. Whose thread it is the system does not tell, so one
that never rests is no longer waited for until it has been seen asleep.
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
