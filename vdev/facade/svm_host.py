"""Transfers whose host memory lies in shared virtual memory.

Between its mappings that memory is the device's, and its newest bytes may be on any worker. A program that still
passes it to a transfer as host memory works on a device that shares the host's memory, so it must work here: such a
transfer is submitted as if the program had mapped the bytes for it. Decides nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vdev.facade.handles import state_of
from vdev.facade.hostbuf import Bytes
from vdev.facade.svm_memory import is_in_use, shared_place
from vdev.session.commands import Command, Map, Unmap

if TYPE_CHECKING:
    from vdev.facade.queue import CommandQueue
    from vdev.session.session import Completion, Session


def submit_with_host(
    queue: CommandQueue, command: Command, host: Bytes, after: Sequence[Completion], *, writes: bool
) -> Completion:
    """Submit a transfer from `host`, or to it if it `writes` there."""
    line = state_of(queue)
    mapping = _mapping(host, write=writes) if is_in_use() else None
    if mapping is None:
        return line.submit(command, after)
    mapped = line.submit(mapping, after)
    done = line.submit(command, (mapped,))
    return line.submit(Unmap(mapping), (done,)) if writes else done


def bring_home(session: Session, host: Bytes) -> None:
    """Return when the bytes of `host` are what the last commands left in them."""
    mapping = _mapping(host, write=False) if is_in_use() else None
    if mapping is not None:
        session.submit(mapping, queue=session.create_queue(in_order=False)).wait()


def _mapping(host: Bytes, *, write: bool) -> Map | None:
    """The mapping of `host`; None if it is not shared virtual memory."""
    place = shared_place(host)
    return None if place is None else Map(*place, host.size, read=True, write=write)
