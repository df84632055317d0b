"""What the recorder is told of commands that take no submission, whichever way they go.

Decides nothing: commands go the same ways whether or not anybody wants to know where the time goes. All of it happens under the
session's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from vdev.executor.stretch import Part
from vdev.observe.recorder import Shape
from vdev.session.commands import BufferArg

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.executor import Executor
    from vdev.executor.holdings import Holdings
    from vdev.observe.recorder import Recorder
    from vdev.observe.tallies import CommandTally
    from vdev.planner.directory import BufferState
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.commands import Argument
    from vdev.session.core import SessionCore
    from vdev.session.launch_plans import CachedPlan, LaunchCache, ReadyPlan
    from vdev.session.ordering import QueueOrder

_state_of: Callable[[VirtualBuffer], BufferState] = attrgetter("state")
_holdings_of: Callable[[VirtualBuffer], Holdings] = attrgetter("holdings")


class Reached(Protocol):
    """Bytes of a buffer that a command uses at home."""

    @property
    def buffer(self) -> VirtualBuffer: ...

    @property
    def writes(self) -> bool: ...


def began(recorder: Recorder | None) -> int:
    """When the session took a command up; 0 where nobody wants to know."""
    return 0 if recorder is None else perf_counter_ns()


def own_number(completion: Completion) -> int | None:
    """The number of a command that was handed over just now; None if it has none, since it gives no worker anything to do."""
    found: Any = completion if isinstance(completion, Part) else completion.progress
    return None if found is None else int(found.number)


def number_of(completion: Completion, executor: Executor) -> int:
    """The same of a command that was given to workers, one of which may have refused it."""
    number = own_number(completion)
    return executor.last_number if number is None else number


def names_of(
    cache: LaunchCache, args: Sequence[Argument], buffers: Sequence[VirtualBuffer]
) -> tuple[str, ...]:
    """By slot: the name of the first argument that is the buffer, empty where the launch reaches it otherwise."""
    names = [""] * len(buffers)
    for index, name in zip(cache.pointers, cache.names, strict=True):
        arg = args[index]
        if type(arg) is BufferArg and arg.buffer in buffers:
            slot = buffers.index(arg.buffer)
            names[slot] = names[slot] or name
    return tuple(names)


def tell_exchange(
    recorder: Recorder,
    cache: LaunchCache,
    cached: CachedPlan,
    args: Sequence[Argument],
    buffers: Sequence[VirtualBuffer],
) -> None:
    """What is exchanged for a launch, before the states of its buffers change."""
    exchanges, shape = recorder.exchanges, cached.shape
    if exchanges is None or shape is None:
        return
    names = None if cached.direct else shape.names  # launches with other arguments share a direct one's plan
    if names is None:
        names = shape.names = names_of(cache, args, buffers)
    holdings, states = [*map(_holdings_of, buffers)], (*map(_state_of, buffers),)
    # A direct launch that brings nothing leaves buffers as they are, which may be others than those that its plan was made for.
    after = states if cached.direct and cached.steady else cached.states
    exchanges.launched(shape, holdings, names, states, after)


def tell_direct(
    recorder: Recorder,
    part: Part,
    started: int,
    queue: QueueOrder,
    cache: LaunchCache,
    cached: CachedPlan,
    args: Sequence[Argument] | None,
    buffers: Sequence[VirtualBuffer],
    holdings: Sequence[Holdings],
) -> None:
    """A launch was handed over that leaves all of its `buffers` on its worker, where nothing had to be brought. `args`: None where each
    pointer points to a buffer of its own.
    """
    shape = cached.shape
    if shape is None:
        return
    recorder.handed_over(part.number, started, queue, shape)
    if recorder.exchanges is not None:
        names = cache.names if args is None else names_of(cache, args, buffers)
        recorder.exchanges.stayed(shape, holdings, names, (*map(_state_of, buffers),))


def tell_recalled(
    session: SessionCore,
    completion: Completion,
    started: int,
    queue: QueueOrder,
    cache: LaunchCache,
    cached: CachedPlan,
    args: Sequence[Argument],
    buffers: Sequence[VirtualBuffer],
) -> None:
    """A launch was handed over with a plan that it has had before; its buffers' states have not changed yet."""
    recorder, shape = session.recorder, cached.shape
    if recorder is not None and shape is not None:
        recorder.handed_over(number_of(completion, session.executor), started, queue, shape)
        tell_exchange(recorder, cache, cached, args, buffers)


def tell_transfer(
    session: SessionCore,
    number: int,
    started: int,
    queue: QueueOrder,
    found: ReadyPlan,
    name: str,
    holdings: Sequence[Holdings],
    nbytes: int | None = None,
) -> None:
    """A transfer of the kind `name` was handed over with this plan, or with this one's step for other bytes, so many."""
    recorder, shape = session.recorder, found.shape
    if recorder is None:
        return
    if shape is None:
        shape = found.shape = Shape(name, session.ledger.command(name).times, found.plan)
    tell_shape(recorder, number, started, queue, shape if nbytes is None else shape.of(nbytes), holdings)


def tell_part(
    session: SessionCore,
    part: Part,
    started: int,
    queue: QueueOrder,
    found: ReadyPlan,
    name: str,
    buffers: Sequence[VirtualBuffer],
    nbytes: int | None = None,
) -> None:
    """The same of one of a worker's."""
    holdings = [*map(_holdings_of, buffers)]
    tell_transfer(session, part.number, started, queue, found, name, holdings, nbytes)


def tell_shape(
    recorder: Recorder,
    number: int,
    started: int,
    queue: QueueOrder,
    shape: Shape,
    holdings: Sequence[Holdings],
) -> None:
    """A command that does this to some buffers was handed over."""
    recorder.handed_over(number, started, queue, shape)
    if recorder.exchanges is not None:
        recorder.exchanges.note(shape, holdings)


def tell_empty(
    session: SessionCore, completion: Completion, started: int, queue: QueueOrder, name: str
) -> None:
    """A command was made that gives no worker anything to do; it has a number of its own at most."""
    recorder = session.recorder
    if recorder is not None:
        number = own_number(completion)
        shape = recorder.empty_shape(name, at_once=number is None)
        recorder.handed_over(
            session.executor.last_number if number is None else number, started, queue, shape
        )


def tell_at_home(
    session: SessionCore,
    started: int,
    queue: QueueOrder,
    tally: CommandTally,
    step: str,
    nbytes: int,
    reaches: Sequence[Reached],
) -> None:
    """The calling thread has performed a command in the host's memory, as a step called `step`. `reaches`: of whose bytes."""
    recorder = session.recorder
    if recorder is None:
        return
    shape = recorder.shape_at_home(tally.kind, tally.times, step).of(nbytes)
    recorder.handed_over(session.executor.last_number, started, queue, shape)
    if recorder.exchanges is not None:
        for reach in reaches:
            if reach.writes:
                recorder.exchanges.wrote(tally.kind, reach.buffer.holdings)
