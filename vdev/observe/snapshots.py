"""The figures of a session or of the process, as they are now.

Decides how a session's tallies and the back ends' counts are put side by side: the two are counted independently, and
`Statistics.moved` equals `Statistics.counted` when all commands have ended well. Changes nothing, and starts nothing.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

from vdev.observe.figures import Moved
from vdev.observe.statistics import (
    ArgumentStatistics,
    CommandStatistics,
    KernelStatistics,
    PartitionStatistics,
    Reason,
    Statistics,
    WayStatistics,
    WorkerStatistics,
)
from vdev.translators.ranges.ndrange import Chunk

if TYPE_CHECKING:
    from vdev.observe.exchanges import Exchange, Steady
    from vdev.observe.history_data import Past
    from vdev.observe.observed import ObservedSession
    from vdev.observe.recorder import Recorder
    from vdev.observe.tallies import ArgumentTally, CommandTally, KernelTally, Outcome


class Snapshot(Statistics):
    """Statistics that notebooks show as a page."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What notebooks show: the page of `vdev-info --explain --html`."""
        from vdev.observe import page  # nothing is loaded until somebody looks

        return page.as_fragment(self)


#: the figures if no virtual device was opened
NOTHING = Snapshot((), (), (), Moved(), Moved(), Moved(), False)


def current() -> Statistics:
    """The figures of this process so far, once everything submitted has ended. Empty if no virtual device was opened."""
    module = sys.modules.get("vdev.start.current")
    session = None if module is None else module.current_session()
    return NOTHING if session is None else of_session(session)


def of_session(session: ObservedSession) -> Statistics:
    """The figures of a session so far, once everything submitted has ended."""
    last = session.executor.last_number
    session.executor.quiesce()
    return snapshot(session, last)


def snapshot(session: ObservedSession, until: int = 0) -> Statistics:
    """The figures of a session as they are now; does not wait. Commands up to number `until` have ended."""
    with session.observing(until) as ledger:
        kernels = tuple(_kernel(tally) for tally in ledger.kernels.values() if tally.launches)
        commands = tuple(_command(tally) for tally in ledger.commands.values())
        workers = _workers(session)
        moved = Moved()
        for part in (*(row.moved for row in kernels), *(row.moved for row in commands)):
            moved.include(part)
        undone = _undone(session)
        recorded = _recorded(session.recorder)
    counted = Moved(
        sum(worker.from_host_nbytes for worker in workers),
        sum(worker.from_peer_nbytes for worker in workers),
        sum(worker.to_host_nbytes for worker in workers),
    )
    return Snapshot(
        workers, kernels, commands, moved, counted, undone, session.recorder is not None, *recorded
    )


def _recorded(
    recorder: Recorder | None,
) -> tuple[tuple[Exchange, ...] | None, Steady | None, Past | None]:
    if recorder is None or recorder.exchanges is None or recorder.history is None:
        return None, None, None
    return recorder.exchanges.table(), recorder.exchanges.steady(), recorder.history.past()


def _undone(session: ObservedSession) -> Moved:
    found = Moved()
    # as they are at one moment: commands that fail meanwhile enter theirs, under the executor's lock
    for (source, target), nbytes in list(session.executor.undone_nbytes.items()):
        if source < 0:
            found.host_to_worker += nbytes
        elif target < 0:
            found.worker_to_host += nbytes
        else:
            found.worker_to_worker += nbytes
    return found


def _workers(session: ObservedSession) -> tuple[WorkerStatistics, ...]:
    return tuple(
        WorkerStatistics(
            number,
            info.backend,
            info.name,
            counters.launches,
            counters.from_host,
            counters.to_host,
            counters.from_peer,
            counters.local,
            counters.filled,
            counters.allocated_nbytes,
            counters.peak_nbytes,
            tuple(sorted(counters.apart)),
        )
        for number, (info, counters) in enumerate(
            zip(session.workers, session.executor.counters(), strict=True)
        )
    )


def _kernel(tally: KernelTally) -> KernelStatistics:
    outcomes = sorted(tally.outcomes.values(), key=lambda outcome: -outcome.launches)
    arguments = tuple(_argument(argument) for _, argument in sorted(tally.arguments.items()))
    moved = Moved()
    for argument in arguments:
        moved.include(argument.moved)
    return KernelStatistics(
        tally.name,
        tally.program,
        tally.line,
        tally.launches,
        sum(outcome.launches for outcome in outcomes if len(outcome.chunks) > 1),
        tuple(_partition(outcome) for outcome in outcomes if outcome.launches),
        arguments,
        moved,
        sum(argument.merged_nbytes for argument in arguments),
        tally.plans,
        tally.planning_ns,
        dataclasses.replace(tally.times),
        _ways(tally),
    )


def _ways(tally: KernelTally) -> tuple[WayStatistics, ...]:
    found = []
    for workers in sorted({len(outcome.chunks) for outcome in tally.outcomes.values()}, reverse=True):
        outcomes = [each for each in tally.outcomes.values() if len(each.chunks) == workers and each.launches]
        if not outcomes:
            continue
        most = max(outcomes, key=lambda outcome: outcome.launches)
        seen = tally.forecasts.get(workers)
        count = 0 if seen is None else seen.launches
        found.append(
            WayStatistics(
                workers,
                sum(outcome.launches for outcome in outcomes),
                count,
                None if seen is None else seen.predicted / count,
                None if seen is None else seen.measured / count,
                0 if seen is None else seen.judged,
                0 if seen is None else seen.close,
                "; ".join(text for text, *_ in most.reasons),
            )
        )
    return tuple(found)


def _partition(outcome: Outcome) -> PartitionStatistics:
    ndrange = outcome.ndrange
    return PartitionStatistics(
        outcome.launches,
        len(outcome.chunks),
        outcome.available,
        () if ndrange is None else ndrange.global_size,
        () if ndrange is None else ndrange.local_size,
        tuple((worker, chunk.start, chunk.stop) for worker, chunk in outcome.chunks),
        tuple(Reason(*reason) for reason in outcome.reasons),
        tuple(_cycle(chunk) for _, chunk in outcome.chunks),
    )


def _cycle(chunk: Chunk) -> tuple[int, int, int] | None:
    cycle = chunk.cycle
    return None if cycle is None else (cycle.axis, cycle.block, cycle.stride)


def _argument(tally: ArgumentTally) -> ArgumentStatistics:
    return ArgumentStatistics(
        tally.index,
        tally.name,
        tally.type_name,
        _access(tally),
        tally.exact,
        tally.reason,
        tally.line,
        tally.text,
        tally.nbytes,
        tally.shares_with,
        dataclasses.replace(tally.moved),
        tally.merged_nbytes,
        tally.inexact_mode,
        tally.fine,
    )


def _access(tally: ArgumentTally) -> str:
    if not tally.analysed:
        return "unknown"
    if tally.atomic:
        return "atomic"
    if tally.reads and tally.writes:
        return "both"
    return "read" if tally.reads else "write" if tally.writes else "none"


def _command(tally: CommandTally) -> CommandStatistics:
    return CommandStatistics(
        tally.kind,
        tally.count,
        dataclasses.replace(tally.moved),
        tally.within_host_nbytes,
        tally.planning_ns,
        dataclasses.replace(tally.times),
    )
