"""Commands other than launches: which buffers each concerns, and how its plan is made.

Decides what a plan depends on, so that the session can keep it for the next command like it. Plans themselves are
made by `vdev.planner.transfers`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from vdev.planner import transfers
from vdev.session.commands import Command, CopyBuffer, Fill, Map, Migrate, Read, Unmap, Write
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.ranges.region import EMPTY, Region

if TYPE_CHECKING:
    from vdev.backends.base import Bytes
    from vdev.planner.instructions import Plan
    from vdev.planner.links import LinkCosts
    from vdev.session.buffers import VirtualBuffer


class Transfer(NamedTuple):
    """What a session plans and submits for a command."""

    buffers: Sequence[VirtualBuffer]
    #: the plan, for the buffers as they are
    make: Callable[[LinkCosts], Plan]
    #: everything that `make` depends on besides the buffers' states and the costs; None: its plan is not kept
    what: Hashable = None
    #: by buffer: the bytes that must be there for the command, and those that it replaces whatever they were; None:
    #: all must be there
    reaches: Callable[[], Sequence[tuple[Region, Region]]] | None = None
    host: Bytes | None = None  #: the program's memory
    layout: Layout | None = None  #: where its bytes are in that memory
    host_writes: bool = False  #: whether the command writes to the program's memory
    shares_host: bool = True  #: whether it is the program's at all, and no copy
    args: tuple[Any, ...] = ()  #: its bytes and that layout, where nobody else knows them (`Executor.submit`)
    homes: tuple[int, ...] = ()  #: positions in `buffers` of those whose home in host memory is used


def _write(command: Write) -> Transfer:
    buffer, layout = command.buffer, command.layout
    return Transfer(
        (buffer,),
        lambda links: transfers.plan_write(buffer.state, layout.buffer_region(), links),
        layout,
        lambda: [(EMPTY, layout.buffer_region())],
        command.host,
        layout,
        shares_host=not command.is_copied,
        args=(command.host.tobytes(), layout) if command.is_copied else (),
    )


def _read(command: Read) -> Transfer:
    buffer, layout = command.buffer, command.layout
    return Transfer(
        (buffer,),
        lambda links: transfers.plan_read(
            buffer.state, layout.buffer_region(), links, contiguous=layout.is_contiguous
        ),
        layout,
        lambda: [(layout.buffer_region(), EMPTY)],
        command.host,
        layout,
        host_writes=True,
    )


def _copy(command: CopyBuffer) -> Transfer:
    buffers = [command.source] if command.source is command.target else [command.source, command.target]
    source = transfers.Box(command.shape, command.source_start, command.source_pitches)
    target = transfers.Box(command.shape, command.target_start, command.target_pitches)
    return Transfer(
        buffers,
        lambda links: transfers.plan_copy([buffer.state for buffer in buffers], source, target, links),
        (source, target),
        None if len(buffers) == 1 else lambda: [(source.region(), EMPTY), (EMPTY, target.region())],
    )


def _fill(command: Fill) -> Transfer:
    buffer, what = command.buffer, (command.offset, command.nbytes, command.pattern)
    region = Region.span(command.offset, command.offset + command.nbytes)
    return Transfer(
        (buffer,),
        lambda links: transfers.plan_fill(buffer.state, *what, links),
        what,
        lambda: [(EMPTY, region)],
    )


def _map(command: Map) -> Transfer:
    buffer = command.buffer
    region = Region.span(command.offset, command.offset + command.nbytes)
    reach = (region if command.read else EMPTY, region if command.write else EMPTY)
    return Transfer(
        (buffer,),
        lambda links: transfers.plan_map(buffer.state, region, links, read=command.read, write=command.write),
        (command.offset, command.nbytes, command.read, command.write),
        lambda: [reach],
        homes=(0,),
    )


def _unmap(command: Unmap) -> Transfer:
    mapping = command.map
    buffer = mapping.buffer
    region = Region.span(mapping.offset, mapping.offset + mapping.nbytes)
    return Transfer(
        (buffer,),
        lambda links: transfers.plan_unmap(
            buffer.state, region, links, write=mapping.write, before=mapping.before
        ),
        (mapping.offset, mapping.nbytes, mapping.write, mapping.before),
        reaches=lambda: [(EMPTY, region if mapping.write else EMPTY)],
        homes=(0,),
    )


def _migrate(command: Migrate) -> Transfer:
    buffers = list(dict.fromkeys(command.buffers))
    return Transfer(
        buffers,
        lambda links: transfers.plan_migrate(
            [buffer.state for buffer in buffers], links, to_host=command.to_host
        ),
    )


#: by command, what makes its transfer
TRANSFERS: dict[type[Command], Callable[[Any], Transfer]] = {
    Write: _write,
    Read: _read,
    CopyBuffer: _copy,
    Fill: _fill,
    Map: _map,
    Unmap: _unmap,
    Migrate: _migrate,
}


def transfer_of(command: Command) -> Transfer:
    """The transfer that a command in `TRANSFERS` makes."""
    return TRANSFERS[type(command)](command)
