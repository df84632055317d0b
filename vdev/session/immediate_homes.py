"""Transfers and mappings of bytes that lie at home, made by the calling thread.

Where the home has a buffer's bytes, reads and mappings find them there; and where it alone has them, all commands but launches leave them
there. Wherever the bytes are, such a command is a copy in the host's memory at most, and changes no buffer's state. Decides where that is
so, by the rules of `vdev.planner.transfers`, and when nothing stands in its way: then the command is made before its call returns, and
takes neither a plan nor the thread of the host's worker. So does what goes on with a buffer that is being filled there for the first
time, which only gives the home more bytes of it. Any other command goes the way of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vdev.backends.base import Box, copy_box
from vdev.executor.boxes import box_of_layout
from vdev.executor.completion import COMPLETE, DONE
from vdev.executor.steps import fill_home
from vdev.planner.directory import HOST, BufferState, buffer_state
from vdev.planner.placement import place
from vdev.process.interrupts import waits
from vdev.session.commands import CopyBuffer, Fill, Map, Read, Unmap, Write
from vdev.session.gathering import nbytes_of
from vdev.session.immediate_markers import MarkersAtOnce
from vdev.session.ordering import all_complete
from vdev.session.telling import began, tell_at_home, tell_empty
from vdev.translators.ranges.region import Region

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.planner.links import LinkCosts
    from vdev.session.anywhere import Transfers
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.core import SessionCore
    from vdev.session.ordering import QueueOrder

#: the most bytes of a command that is made here: nobody else's command is planned meanwhile
_MOST_NBYTES = 1 << 20
#: states of buffers that are known
_MOST_KNOWN = 1024

_Moving: TypeAlias = Read | Write | Fill | CopyBuffer


class _AtHome(NamedTuple):
    """What the home has of a buffer in some state."""

    start: int  #: the first byte, of some that are consecutive
    stop: int  #: one past the last; not beyond the first where there are none
    is_alone: bool  #: whether no worker has any byte of the buffer
    takes_writes: bool  #: whether what the program gives new values goes home, too

    def has(self, reach: _Reach) -> bool:
        return self.start <= reach.start <= reach.stop <= self.stop


class _Reach(NamedTuple):
    """Bytes of a buffer that a command uses at home: the first, and one past the last."""

    buffer: VirtualBuffer
    start: int
    stop: int
    writes: bool = False  #: whether it changes them
    is_given: bool = False  #: whether the program gives them their values, instead of another buffer
    alone: bool = False  #: whether it uses them where they are, on workers as well
    adds: bool = False  #: whether the home may not have them before


_NOTHING = _AtHome(0, -1, False, False)

#: the kinds under which commands are counted
_NAMES: dict[type, str] = {Read: "read", Write: "write", Fill: "fill", CopyBuffer: "copybuffer"}
#: what such a command is called as a step on host memory
_STEPS: dict[type, str] = {Read: "download", Write: "upload", Fill: "fill", CopyBuffer: "copy"}


class HomesAtOnce(MarkersAtOnce):
    """The immediate commands of one session in the host's memory."""

    def __init__(self, session: SessionCore, transfers: Transfers) -> None:
        super().__init__(session, transfers)
        #: by a buffer's state, which holds no memory
        self._at_home: dict[BufferState, _AtHome] = {}

    def _submit_transfer(
        self, command: Fill | CopyBuffer, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        target = command.buffer if type(command) is Fill else command.target  # type: ignore[union-attr]
        done = self._made_at_home(command, after, queue) if target.resident is None else None
        return super()._submit_transfer(command, after, queue) if done is None else done

    def write(self, command: Write, after: Sequence[Completion], queue: QueueOrder) -> Completion | None:
        done = self._made_at_home(command, after, queue) if command.buffer.resident is None else None
        return super().write(command, after, queue) if done is None else done

    def _submit_read(
        self, command: Read, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        done = self._made_at_home(command, after, queue) if command.buffer.resident is None else None
        return super()._submit_read(command, after, queue) if done is None else done

    @waits
    def read_home(self, command: Read, after: Sequence[Completion], queue: QueueOrder) -> int | None:
        """A read that the program waits for; its status. None if it has to go another way: then nothing has happened."""
        if command.buffer.resident is not None:
            return None
        with self._session.lock:
            if not self._is_made_at_home(command, after, queue):
                return None
        return _waited_for(queue)

    @waits
    def map_home(self, command: Map, after: Sequence[Completion], queue: QueueOrder) -> int | None:
        """The same for a mapping: the bytes are where the program will use them."""
        buffer, session = command.buffer, self._session
        if buffer.resident is not None:
            return None
        with session.lock:
            state, reach = buffer.state, _reach_of(command)
            started = began(session.recorder)
            if not self._are_home((reach,)) or not self._may_follow_at_home(after, queue):
                return None
            buffer.used, command.before = session.next_number(), state
            session.ledger.command("map").count += 1
            if session.recorder is not None:
                tell_empty(session, DONE, started, queue, "map")
        return _waited_for(queue)

    def _unmapped_home(
        self, command: Unmap, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        """The end of a mapping that leaves the bytes where they are; None if it has to go another way."""
        mapping, session = command.map, self._session
        buffer = mapping.buffer
        with session.lock:
            started = began(session.recorder)
            if mapping.write and (
                mapping.before is not buffer.state or not self._are_home((_reach_of(mapping),))
            ):
                return None
            if not self._may_follow_at_home(after, queue):
                return None
            ended = self._behind_queue(queue)
            if ended is not None:
                buffer.used = session.next_number()
                session.ledger.command("unmap").count += 1
                if session.recorder is not None:
                    tell_empty(session, ended, started, queue, "unmap")
        self.throttle_behind(ended)
        return ended

    def _made_at_home(
        self, command: _Moving, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        """Make a command that nobody waits for yet; what tells of its end. None if it has to go another way."""
        with self._session.lock:
            ended: Completion | None = DONE
            if _is_to_follow(queue):
                if not self._may_be_made(command, _reaches_of(command), after, queue):
                    return None
                ended = self.mark((), queue)
            # Finalisers that the marker has set off may have submitted something.
            if ended is None or not self._is_made_at_home(command, after, queue):
                return None
        self.throttle_behind(ended)
        return ended

    def _behind_queue(self, queue: QueueOrder) -> Completion | None:
        """What tells that everything before in an in-order queue has ended; None where that takes a submission."""
        return self.mark((), queue) if _is_to_follow(queue) else DONE

    def _is_made_at_home(self, command: _Moving, after: Sequence[Completion], queue: QueueOrder) -> bool:
        """Copy or fill, if it is possible: False if not."""
        session, reaches = self._session, _reaches_of(command)
        if not self._may_be_made(command, reaches, after, queue):
            return False
        started = began(session.recorder)
        _perform(command)
        number = session.next_number()
        for reach in reaches:
            buffer = reach.buffer
            buffer.used = number
            if reach.writes and not self._home_of(buffer.state).has(reach):
                self._goes_on(buffer, reach)
        tally, nbytes = session.ledger.command(_NAMES[type(command)]), nbytes_of(command)
        tally.count += 1  # nothing travels
        if type(command) is Read or type(command) is Write:
            tally.within_host_nbytes += nbytes
        if session.recorder is not None:
            tell_at_home(session, started, queue, tally, _STEPS[type(command)], nbytes, reaches)
        return True

    def _may_be_made(
        self, command: _Moving, reaches: Sequence[_Reach], after: Sequence[Completion], queue: QueueOrder
    ) -> bool:
        """Whether all that a command reads and writes is at home, and nobody is using it."""
        if not self._are_home(reaches) or not self._may_follow_at_home(after, queue):
            return False
        if type(command) is not Read and type(command) is not Write:
            return True
        executor = self._executor
        with executor.lock:
            return not executor.uses_host()

    def _may_follow_at_home(self, after: Sequence[Completion], queue: QueueOrder) -> bool:
        """Whether a command waits for nothing but what is ordered by its bytes, and nobody looks at it."""
        if queue.profiled or (after and not all_complete(after)) or self._is_watched():
            return False
        return queue.in_order or queue.barrier is None or queue.barrier.settled

    def _is_watched(self) -> bool:
        """Whether anybody looks at single commands, or any is held back or has failed."""
        session, executor = self._session, self._executor
        return bool(
            session.observers
            or session.checker is not None
            or session.deferrals.held
            or executor.failures.any
            or executor.damaged
            or executor.closed
        )

    def _are_home(self, reaches: Sequence[_Reach]) -> bool:
        """Whether commands find these bytes at home and leave them there, they are not too many, and nobody is using them."""
        have_ended = self._executor.have_ended
        for reach in reaches:
            buffer, start, stop, writes, is_given, alone, _ = reach
            holdings, found = buffer.holdings, self._home_of(buffer.state)
            first, end, is_alone, takes_writes = found
            if not (first <= start <= stop <= end or self._may_go_on(found, reach)):
                return False
            if ((writes or alone) and not is_alone) or (is_given and not takes_writes):
                return False
            if holdings.home_writes and not have_ended(holdings.home_writes):
                return False
            if writes and holdings.home_reads and not have_ended(holdings.home_reads):
                return False
        return bool(reaches)

    def _may_go_on(self, found: _AtHome, reach: _Reach) -> bool:
        """Whether a command gives the home more bytes, which follow those that it has, or are the first."""
        if not reach.adds or not found.is_alone:
            return False
        if found.stop < found.start:  # which may be better off on the worker where new buffers begin
            return not self.places_new
        return reach.start <= found.stop and found.start <= reach.stop

    def _goes_on(self, buffer: VirtualBuffer, reach: _Reach) -> None:
        """The home has been given more bytes."""
        state = buffer.state
        found = self._home_of(state)
        start, stop = reach.start, reach.stop
        if found.start <= found.stop:
            start, stop = min(start, found.start), max(stop, found.stop)
        buffer.state = buffer_state(
            state.nbytes, ((HOST, Region.span(start, stop)),), state.replicas, state.kept
        )
        self._executor.standing = object()

    def _home_of(self, state: BufferState) -> _AtHome:
        found = self._at_home.get(state)
        if found is None:
            if len(self._at_home) >= _MOST_KNOWN:
                self._at_home.clear()
            found = self._at_home[state] = _looked_up(state, self._session.links)
        return found


def _looked_up(state: BufferState, links: LinkCosts) -> _AtHome:
    if state.fine or state.pending or (state.is_mapped and state.labelled and len(state.labelled.bands) > 1):
        return _NOTHING
    held, nholders = state.valid_at(HOST), len(state.valid)
    if (nholders and not held) or held.nbytes != held.stop - held.start:
        return _NOTHING
    is_alone = nholders < 2
    # Which bytes it is does not matter, but for whether a worker has memory for all of them.
    spans = (0, state.nbytes), *((start, stop) for _, start, stop in state.replicas)
    places = (place(state, Region.span(*span), links) for span in spans)
    takes_writes = is_alone and all(holder == HOST for parts in places for holder, _ in parts)
    first, end = (held.start, held.stop) if held else (0, -1)
    return _AtHome(first, end, is_alone, takes_writes)


def _is_to_follow(queue: QueueOrder) -> bool:
    """Whether a command in a queue ends behind one that may not have ended yet."""
    return queue.in_order and queue.last is not None and not queue.last.settled


@waits
def _waited_for(queue: QueueOrder) -> int:
    """A command has been made that the program waits for: so it does for what comes before it in its queue."""
    last = queue.last if queue.in_order else None
    if last is not None and not last.settled:
        last.wait()
    return COMPLETE


def _stop(start: int, pitches: tuple[int, int], shape: tuple[int, int, int]) -> int:
    """One past the last byte of a box."""
    return start + (shape[0] - 1) * pitches[0] + (shape[1] - 1) * pitches[1] + shape[2]


def _reach_of(command: Map) -> _Reach:
    """What the program may use while it is mapped."""
    return _Reach(command.buffer, command.offset, command.offset + command.nbytes, writes=command.write)


def _reaches_of(command: _Moving) -> Sequence[_Reach]:
    """What a command reads and writes; nothing if that is too much."""
    if type(command) is CopyBuffer:
        shape, source, target = command.shape, command.source_start, command.target_start
        if shape[0] * shape[1] * shape[2] > _MOST_NBYTES:
            return ()
        return (
            _Reach(command.source, source, _stop(source, command.source_pitches, shape), False, False, True),
            _Reach(
                command.target,
                target,
                _stop(target, command.target_pitches, shape),
                True,
                False,
                False,
                shape[:2] == (1, 1),
            ),
        )
    if type(command) is Fill:
        start, stop = command.offset, command.offset + command.nbytes
        if command.nbytes > _MOST_NBYTES:
            return ()
        return (_Reach(command.buffer, start, stop, True, True, False, True),)
    assert type(command) is Read or type(command) is Write
    layout, writes = command.layout, type(command) is Write
    start = layout.buffer_start
    if layout.nbytes > _MOST_NBYTES:
        return ()
    reach = _Reach(
        command.buffer, start, start + layout.reach, writes, writes, False, writes and layout.is_contiguous
    )
    return (reach,)


def _perform(command: _Moving) -> None:
    """Copy or fill."""
    if type(command) is CopyBuffer:
        source, target = command.source, command.target
        box = Box(
            command.shape,
            command.source_start,
            command.source_pitches,
            command.target_start,
            command.target_pitches,
        )
        copy_box(source.holdings.home(), target.holdings.home(), box)
        return
    buffer: VirtualBuffer = command.buffer  # type: ignore[union-attr]
    if type(command) is Fill:
        fill_home(buffer.holdings, command.offset, command.offset + command.nbytes, command.pattern)
        return
    assert type(command) is Read or type(command) is Write
    home, is_read = buffer.holdings.home(), type(command) is Read
    box = box_of_layout(command.layout, to_host=is_read)
    if is_read:
        copy_box(home, command.host, box)
    else:
        copy_box(command.host, home, box)
