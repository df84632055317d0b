"""Statistics: the figures of a run as plain data, for programs, reports and tests.

Decides how a session's tallies and what its back ends counted are put side by side: the two are counted
independently, and `Statistics.moved` equals `Statistics.counted` when all commands have ended well. Changes
nothing, and starts nothing.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from vdev.observe.figures import Moved, Times
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.observe.exchanges import Exchange, Steady
    from vdev.observe.observed import ObservedSession
    from vdev.observe.past import Past
    from vdev.observe.recorder import Recorder
    from vdev.observe.tallies import ArgumentTally, CommandTally, KernelTally, Outcome


@dataclass(frozen=True)
class WorkerStatistics:
    """One worker, as its back end counted; bytes."""

    number: int
    backend: str
    name: str
    launches: int
    from_host_nbytes: int
    to_host_nbytes: int
    from_peer_nbytes: int  #: from other workers
    local_nbytes: int  #: copied within the worker
    filled_nbytes: int
    allocated_nbytes: int  #: held now
    peak_nbytes: int  #: the most ever held


@dataclass(frozen=True)
class Reason:
    """Why launches were not split over all workers, or why results had to be merged."""

    text: str
    line: int | None  #: of the kernel's source
    source: str = ""  #: what stands in that line


@dataclass(frozen=True)
class PartitionStatistics:
    """A way in which launches of a kernel were run.

    `chunks` are those of the first such launch: (worker, first work-group, one past the last), for every
    dimension; with `global_size` and `local_size` as it had them. `cycles`: of chunks that take turns, (dimension, work-groups of a
    block, work-groups from one block to the next), None of others.
    """

    launches: int
    workers: int  #: that took part
    available: int  #: workers that there were
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    chunks: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
    reasons: tuple[Reason, ...]
    cycles: tuple[tuple[int, int, int] | None, ...] = ()


@dataclass(frozen=True)
class ArgumentStatistics:
    """One pointer argument of a kernel, over all launches; bytes.

    `access` is 'read', 'write', 'both', 'atomic' or 'none' (an atomic counts as such whatever else is done); 'unknown'
    where no launch needed to know it: on one worker a launch takes no plan, and nothing is analysed.
    `exact`: analysis knew the very set of bytes each time; otherwise `reason` says why it did not, and
    `line` and `text` which access it was. `merged_nbytes` were compared with a twin or combined from atomics.
    """

    index: int
    name: str
    type_name: str
    access: str
    exact: bool
    reason: str | None
    line: int | None
    text: str
    nbytes: int  #: the largest it was
    shares_with: str | None  #: the argument with which its bytes are counted, being the same buffer
    moved: Moved
    merged_nbytes: int
    inexact_mode: str | None = None  #: 'read', 'write' or 'atomic': what `reason` is about
    fine: bool = False  #: it was fine-grain shared virtual memory in some launches


@dataclass(frozen=True)
class WayStatistics:
    """What launches of a kernel took on so many workers, by the model of time and by measurement: means, in seconds of the busiest
    worker, over `measured_launches` that were sampled; None where none was.

    `close` of `judged` of these were predicted within a quarter: those that took 100 us at least.
    """

    workers: int
    launches: int
    measured_launches: int
    predicted: float | None
    measured: float | None
    judged: int
    close: int
    reason: str  #: why not on more


@dataclass(frozen=True)
class KernelStatistics:
    """One kernel of one source, over all launches."""

    name: str
    program: int  #: programs are numbered in the order of first launches
    line: int | None
    launches: int
    split: int  #: launches that ran on several workers
    partitions: tuple[PartitionStatistics, ...]  #: the most frequent first
    arguments: tuple[ArgumentStatistics, ...]  #: those that point to buffers
    moved: Moved
    merged_nbytes: int
    plans: int  #: made; the plans of all other launches came from the cache
    planning_ns: int  #: analysing the kernel and making plans
    times: Times
    ways: tuple[WayStatistics, ...] = ()  #: the one on most workers first


@dataclass(frozen=True)
class CommandStatistics:
    """All commands of a kind other than launches: 'write', 'read', 'copybuffer', 'fill', 'map', 'unmap',
    'migrate'; and what no command asked for: 'evict' (replicas that had to leave a worker's memory),
    'fold' (what atomics had left on several workers, merged for what uses it) and 'check' (VDEV_CHECK)."""

    kind: str
    count: int
    moved: Moved
    within_host_nbytes: int  #: between the program's arrays and the buffers' homes, both in host memory
    planning_ns: int  #: of writes, reads, copies and fills; the others' plans are made in next to no time
    times: Times


@dataclass(frozen=True)
class Statistics:
    """What `vdev.stats()` gives.

    `moved` is what the rows of `kernels` and `commands` add up to, as planned; `counted` is what the back
    ends counted. `undone` is what was planned and not carried out because a command failed: `moved` =
    `counted` + `undone`. Times other than planning are 0 unless `timed`.
    """

    workers: tuple[WorkerStatistics, ...]
    kernels: tuple[KernelStatistics, ...]
    commands: tuple[CommandStatistics, ...]
    moved: Moved
    counted: Moved
    undone: Moved
    timed: bool
    #: only with VDEV_EXPLAIN; what `moved` is made of, by the command that wrote the bytes and the one that wanted them
    exchanges: tuple[Exchange, ...] | None = None
    steady: Steady | None = None  #: only with VDEV_EXPLAIN
    past: Past | None = None  #: only with VDEV_EXPLAIN

    @property
    def launches(self) -> int:
        """All launches."""
        return sum(kernel.launches for kernel in self.kernels)

    def kernel(self, name: str) -> KernelStatistics:
        """The row of the kernel called `name`, the first of several. Raises KeyError."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)

    def as_dict(self) -> dict[str, Any]:
        """The same without `past` in dictionaries, lists, strings and numbers, as `--json` prints it."""
        found: dict[str, Any] = dataclasses.asdict(dataclasses.replace(self, past=None))
        del found["past"]  # that is what a trace is for
        return found

    def _repr_html_(self) -> str:
        """What notebooks show: the page of `vdev-info --explain --html`."""
        from vdev.observe import page  # nothing is loaded until somebody looks

        return page.as_fragment(self)


def current() -> Statistics:
    """The figures of this process so far, once all that was submitted has ended.

    Empty where no virtual device was opened.
    """
    module = sys.modules.get("vdev.start.current")
    session = None if module is None else module.current_session()
    return NOTHING if session is None else of_session(session)


def of_session(session: ObservedSession) -> Statistics:
    """The figures of a session so far, once all that was submitted has ended."""
    last = session.executor.last_number
    session.executor.quiesce()
    return snapshot(session, last)


def snapshot(session: ObservedSession, until: int = 0) -> Statistics:
    """The figures of a session as they are now; waits for nothing. Commands up to number `until` have ended."""
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
    return Statistics(
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
    for (source, target), nbytes in session.executor.undone_nbytes.items():
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


NOTHING = Statistics((), (), (), Moved(), Moved(), Moved(), False)
