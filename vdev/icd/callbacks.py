"""Callbacks for the events of C programs.

Decides which thread calls them, and in what order: one thread, in the order in which commands reached their states, as native
drivers do. Programs rely on that: what is called twice at one time has to protect its data, and a list that callbacks append
to has to be sorted. PyOpenCL has a thread for each callback, and so has the façade.
"""

from __future__ import annotations

from collections.abc import Callable

from vdev.executor.completion import Notifier
from vdev.facade.event import Event, context_of
from vdev.facade.handles import state_of
from vdev.process.forking import in_child

#: its callbacks may wait for commands: it is not the executor's, which must go on
_line = Notifier("vdev-callback", is_own=False)
in_child(_line.forget)


def call_in_order(event: Event, state: int, call: Callable[[int], object]) -> None:
    """Have `call(reached)` called once the event's command has reached that state, behind those that were to be called before."""
    completion = state_of(event)
    if completion.settled:
        state_of(context_of(event)).session.executor.settle_complete()
    completion.add_callback(lambda reached: _line.put(call, reached), state)
