"""Commands that the library makes without Python (`native/ready.c`, `native/commands.c`): what it needs for them, and how they are told.

Decides nothing about when they are made. What such a launch is, and that it is counted like any other, is
`vdev.session.immediate`'s.
"""

from __future__ import annotations

import logging
from typing import Any, TypeVar

from vdev.errors import OUT_OF_RESOURCES
from vdev.executor.completion import DONE, Completion
from vdev.executor.prepare import touching
from vdev.executor.stretch import Clocked, Part, Timed
from vdev.facade.context import Context
from vdev.facade.errors import native
from vdev.facade.event import Event, make_event
from vdev.facade.handles import state_of
from vdev.facade.launch import ready_launch
from vdev.facade.memory import USE_HOST_PTR, Memory
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_memory import is_in_use
from vdev.icd import host
from vdev.session.in_a_row import Maker, ReadyLaunch, ReadyMove

E = TypeVar("E", bound=Event)

logger = logging.getLogger("vdev.icd")
_made = _moves = 0  #: launches without Python, and other commands
_MOST_KEPT = (
    1 << 25
)  #: bytes that buffers may have together which the program has released, and which are kept for new ones
_KEPT_SHARE = 64  #: … and of the device's memory at most one part of so many
#: memory that the host must not read, or not write, or that is the program's own
_UNREAD = USE_HOST_PTR | native.mem_flags.HOST_WRITE_ONLY | native.mem_flags.HOST_NO_ACCESS
_UNWRITTEN = USE_HOST_PTR | native.mem_flags.HOST_READ_ONLY | native.mem_flags.HOST_NO_ACCESS
#: the completions of commands that were handed over at once, and of reads that are done
_AT_ONCE = frozenset({Part, Timed, Clocked})
#: by number in `native/commands.c`: the kinds of other commands, the name under which each is counted, and what it does to its buffers
_KINDS = (
    ("read", touching(reads=(0,))),
    ("write", touching(writes=(0,))),
    ("write", touching(writes=(0,), overwrites=(0,))),
    ("fill", touching(writes=(0,))),
    ("fill", touching(writes=(0,), overwrites=(0,))),
    ("copybuffer", touching(reads=(0,), writes=(1,))),
    ("copybuffer", touching(reads=(0,), writes=(1,), overwrites=(1,))),
    ("marker", touching()),
    ("content", touching(writes=(0,), overwrites=(0,))),
)


def make(queue: CommandQueue, kernel: Any, size: Any, local: Any, offset: Any) -> tuple[Any, ...] | None:
    """What the library makes the launch with that was made last of a kernel: its record here, and the driver's queue and
    kernel, memory by argument, first work-item, global and local size, the value of a last argument; by argument how many
    bytes of it the library may read and how many it may write; whether all its memory may be other buffers' that the library knows; and of
    the queue what `_of_queue` says. None where that is not possible.
    """
    found = ready_launch(queue, kernel, size, local, offset, kernel._vdev_own)
    # The library knows one kernel of the driver's for each of the program's: that of the thread that came first.
    if found is None or vars(kernel).setdefault("_vdev_own", found.own) is not found.own:
        return None
    driver, args = found.driver, state_of(kernel).args
    sizes = driver.first, driver.global_size, driver.local_size
    is_plain = [_is_plain(arg) for arg in args]
    rooms = [tuple([_room(arg, refused) for arg in args]) for refused in (_UNREAD, _UNWRITTEN)]
    pointers = tuple([index for index, arg in enumerate(args) if isinstance(arg, Memory)])
    takes_others = pointers == found.pointers and all(is_plain[index] for index in pointers)
    of_queue = _of_queue(queue, driver.offset_ns)
    return (
        found,
        driver.queue,
        driver.kernel,
        driver.memory,
        *sizes,
        driver.hidden,
        *rooms,
        takes_others,
        *of_queue,
    )


def _of_queue(queue: CommandQueue, offset_ns: int) -> tuple[Any, ...]:
    """What identifies its context, whether it is in order, whether its commands' times are wanted, and what is added to these."""
    order = state_of(queue).order
    return id(state_of(queue).context), order.in_order, order.profiled, offset_ns


def _is_plain(arg: Any) -> bool:
    """Whether an argument is a buffer of which the only worker has all, and nobody else any."""
    if type(arg) is not Memory or arg.parent is not None or arg.flags & USE_HOST_PTR or is_in_use():
        return False
    replica = arg.buffer.holdings.replicas[0]
    is_whole = replica is not None and replica.start == 0 and replica.stop >= arg.nbytes
    return is_whole and arg.buffer.resident == 0


def _room(arg: Any, refused: int) -> int:
    """How many bytes of an argument's memory, unless it has one of these flags, may be moved from or to the only worker without a look at
    anything else.
    """
    return arg.nbytes if _is_plain(arg) and not arg.flags & refused else 0


def place(queue: CommandQueue, memory: Memory) -> tuple[Any, ...] | None:
    """What the library moves a buffer's bytes with: the driver's queue, the driver's memory, how many bytes may be read and how many
    written, and what `_of_queue` says. None where that is not possible.
    """
    at_once = state_of(queue).session.at_once
    if at_once is None or not _is_plain(memory) or state_of(queue).is_finalized:
        return None
    found = at_once.ready_memory(memory.buffer, state_of(queue).order)
    if found is None:
        return None
    rooms = _room(memory, _UNREAD), _room(memory, _UNWRITTEN)
    return found.queue, found.memory, *rooms, *_of_queue(queue, found.offset_ns)


def may_be_kept(memory: Memory) -> int:
    """Whether a buffer that the program has released may be its next one of that size, with whatever it contains: how many bytes such
    buffers may have together, 0 if not.
    """
    context = state_of(memory.context)
    at_once = context.session.at_once
    is_used = memory.references > 1 or memory.map_count or memory.at_end or memory.parent is not None
    if at_once is None or is_used or is_in_use() or not at_once.may_be_kept(memory.buffer):
        return 0
    nbytes: int = min(_MOST_KEPT, context.limits["GLOBAL_MEM_SIZE"] // _KEPT_SHARE)
    return nbytes


def made(
    runs: tuple[tuple[Any, int], ...],
    handles: tuple[int, ...],
    wanted: tuple[tuple[int, CommandQueue, int], ...],
) -> tuple[Any, ...] | None:
    """The library has made commands: of each a launch's record, that and the memory of its pointers, or what `_moved` takes, in order, and
    how often in a row; their native events; and of those whose events the program has: the place among them, the queue and the type.
    Whether there may be more of them, and these events.
    """
    global _made, _moves
    commands = [(_command(item), count) for item, count in runs]
    launches = sum(count for command, count in commands if type(command) is ReadyLaunch)
    moved = len(handles) - launches
    _made += launches
    _moves += moved
    maker = _maker_of(runs[0][0])
    assert maker is not None, "it has made something ready"
    first = maker.made(commands, handles)
    return maker.may_go_on, *[_event_of(first, *each) for each in wanted]


def ended(runs: tuple[tuple[Any, int], ...]) -> None:
    """Commands that the library has made have ended well, and nobody has their events: launches' records and how often each was made, and
    what `_moved` takes of others, of each kind how many, and all their bytes.
    """
    global _made, _moves
    maker = _maker_of(runs[0][0])
    assert maker is not None, "it has made something ready"
    launches = [(item, count) for item, count in runs if type(item) is ReadyLaunch]
    moves = [(_KINDS[item[0]][0], count, item[2]) for item, count in runs if type(item) is tuple]
    # counted before anything is added: other threads add theirs meanwhile
    launched, moved = sum(count for _, count in launches), sum(count for _, count, _ in moves)
    _made += launched
    _moves += moved
    maker.ended(launches, moves)


def _command(item: Any) -> ReadyLaunch | ReadyMove:
    """A command that the library has made."""
    if type(item) is not tuple:
        launch: ReadyLaunch = item
        return launch
    if type(item[0]) is ReadyLaunch:
        return item[0].on([memory.argument for memory in item[1:]])
    return _moved(*item)


def _maker_of(item: Any) -> Maker | None:
    first = item[0] if type(item) is tuple else item
    return first.maker if type(first) is ReadyLaunch else state_of(item[1]).session.at_once


def _moved(kind: int, queue: CommandQueue | Context, nbytes: int, *memories: Memory) -> ReadyMove:
    """A transfer that the library has made, in a queue, or in none: of the first content of a buffer."""
    name, prepared = _KINDS[kind]
    order = None if isinstance(queue, Context) else state_of(queue).order
    return ReadyMove(name, prepared, [memory.buffer for memory in memories], nbytes, order)


def _event_of(first: Part | None, place: int, queue: CommandQueue, kind: int) -> Event:
    """The event of a command that the library has made: that at some place behind the first."""
    if first is None:  # the process ends
        completion = Completion()
        completion.settle(OUT_OF_RESOURCES)
        return make_event(queue, kind, completion)
    return make_event(queue, kind, Part(first.stretch, first.index + place))


def report(reads: int, buffers: int, kernels: int) -> None:
    """At the end of the process. `buffers` and `kernels`: how many the library has made of those that the program had released."""
    if _made or reads:
        logger.info("%d launches were made without Python, and %d reads", _made, reads)
    if _moves:
        logger.info("%d other commands were made without Python", _moves)
    if buffers or kernels:
        logger.info("%d buffers and %d kernels were made without Python", buffers, kernels)


def looked_at(event: E) -> E:
    """The event of a command that a program has enqueued. Where the command was handed over at once, or is a read that is done, it
    leaves everything as it was for launches that are ready.
    """
    completion: Any = event._vdev_state
    if type(completion) in _AT_ONCE or completion is DONE:
        host.keep_ready()
    return event


def waited(queue: CommandQueue) -> None:
    """The program has waited for something in a queue: the library hears of it where all that was ever enqueued is known to be complete."""
    session = state_of(queue).session
    at_once = session.at_once
    if at_once is None or not at_once.is_alone:  # nothing is made without Python
        return
    given = host.begin_era()
    for worker in session.executor.all_workers:
        if worker.completed < worker.submitted:
            return
    if not session.deferrals:
        host.begin_era(given)
