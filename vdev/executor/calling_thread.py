"""Commands handed over by the thread that submits them.

Waking threads and having them wait for each other's markers costs more than a whole command whose steps never wait.
If the back ends allow calls from any thread and their workers are idle, the submitting thread does the work itself.
Decides when this is the case, and in which order the steps of several workers are handed over: in the plan's order,
in which no step waits for a later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import GEN_CREATED, getgeneratorstate

from vdev.executor.job import Job
from vdev.executor.mark import MARKS_IN_FLIGHT
from vdev.executor.prepare import PreparedPlan
from vdev.executor.worker import Worker
from vdev.executor.worker_progress import Waits
from vdev.planner.instructions import HOST
from vdev.process.finalisers import may_wait

#: how many queued entries, and how many seconds, a thread that could do the work itself waits for
_SHORT_QUEUE, _DRAINING = 16, 0.001
#: bytes that one thread copies for each of several workers in less time than it takes to wake theirs, which then copy side by side
WHILE_WAKING_NBYTES = 1 << 20


def never_waits(all_workers: Sequence[Worker], prepared: PreparedPlan) -> bool:
    """Whether the thread that submits a plan may hand it over to the devices itself, because no step would make it wait."""
    if prepared.order is not None:
        return True
    if (
        prepared.moving_order is not None
        and all(all_workers[number].takes_transfers for number, _ in prepared.batches)
    ):  # not the one for the host's memory: what is done there waits for a worker's transfer by keeping its thread
        return True
    if prepared.alone is None:
        return _takes_at_once(all_workers, prepared)
    worker = all_workers[prepared.alone]
    if prepared.uses_host_array and worker.takes_transfers:
        return True
    # Copying a few bytes from or to an idle device takes less time than waking its thread.
    return 0 < prepared.host_nbytes <= worker.backend.own_thread_nbytes and worker.is_quiet_alone


def _takes_at_once(all_workers: Sequence[Worker], prepared: PreparedPlan) -> bool:
    """Whether several workers take what a write brings to them without keeping the calling thread: little, or what idle devices do not
    wait for, and not more than is copied while other threads are woken.
    """
    uploads = prepared.uploads
    if not uploads or sum(nbytes for _, nbytes in uploads) > WHILE_WAKING_NBYTES * len(uploads):
        return False
    for number, nbytes in uploads:
        worker = all_workers[number]
        backend = worker.backend
        is_calm = nbytes <= backend.own_thread_nbytes and worker.is_quiet_alone
        if nbytes > backend.small_write_nbytes and not is_calm:
            return False
    return True


def drained(all_workers: Sequence[Worker], prepared: PreparedPlan) -> bool:
    """Before a command that the submitting thread can hand over itself, wait a moment for workers that are almost
    idle. False if one of them did not become idle.

    Once entries are queued, the program's thread and the workers' threads compete for the interpreter lock, the
    queues only grow, and each command costs several times as much.
    """
    numbers = [number for number, _ in prepared.batches] if prepared.workers is None else None
    workers = prepared.workers if numbers is None else [all_workers[number] for number in numbers]
    assert workers is not None
    for worker in workers:
        if not worker.busy and not worker.queue:
            continue
        queue = worker.queue
        if (
            worker.behind
            or len(queue) > _SHORT_QUEUE
            or not all(batch.brief for _, batch, _, _ in tuple(queue))
        ):
            return False
        if not worker.drain(_DRAINING):
            return False
    return True


def idle_workers(
    all_workers: Sequence[Worker], prepared: PreparedPlan, waits: dict[int, Waits] | None
) -> tuple[Worker, ...] | None:
    """The workers that a command concerns or waits for, by number; None if one of them is busy."""
    workers = prepared.workers
    if workers is None:
        numbers = sorted(number for number, _ in prepared.batches)
        workers = prepared.workers = tuple(all_workers[number] for number in numbers)
    if waits and (others := _others(all_workers, workers, waits)):
        numbers = sorted({worker.number for worker in workers} | others)
        workers = tuple([all_workers[number] for number in numbers])
    if waits and HOST in waits:
        return None  # what is done in the host's memory waits by keeping its thread
    for worker in workers:
        if worker.queue or worker.busy or not (worker.backend.any_thread or worker.number == HOST):
            return None
    return workers if may_wait() else None


def _others(all_workers: Sequence[Worker], workers: tuple[Worker, ...], waits: dict[int, Waits]) -> set[int]:
    """The numbers of those that are waited for and are not among `workers`."""
    found = set()
    for each in waits.values():
        for _, other, _ in each:
            if all_workers[other] not in workers:
                found.add(other)
    return found


def perform_here(
    all_workers: Sequence[Worker], job: Job, workers: tuple[Worker, ...], waits: dict[int, Waits] | None
) -> None:
    """Hand a command over to its devices on this thread, unless another thread is working with one of them.

    That costs less than waking threads that then wait for each other's markers.
    """
    if len(workers) == 1 and not waits:  # most launches of small programs
        (worker,) = workers
        if not worker.take_turn():
            worker.wake()
            return
        try:
            if worker.queue and worker.queue[0][0] is job:
                worker.perform_entry(worker.queue.popleft())
        finally:
            worker.give_turn()
        if len(worker.marks) > MARKS_IN_FLIGHT:
            worker.throttle_here()
        return
    held: list[Worker] = []
    try:
        for worker in workers:
            if not worker.take_turn():
                break
            held.append(worker)
        else:
            if _is_next(all_workers, job, waits):
                _perform_steps(all_workers, job, waits)
    finally:
        for worker in held:
            worker.give_turn()
        if len(held) < len(workers):
            for number, _ in job.prepared.batches:
                all_workers[number].wake()
    for worker in held:
        if len(worker.marks) > MARKS_IN_FLIGHT:
            worker.throttle_here()


def _is_next(workers: Sequence[Worker], job: Job, waits: dict[int, Waits] | None) -> bool:
    """Whether the command is the next of all its workers, and what it waits for has been handed over."""
    for number, _ in job.prepared.batches:
        queue = workers[number].queue
        if not queue or queue[0][0] is not job:
            return False
    for found in waits.values() if waits else ():
        for _, other, step in found:
            if workers[other].issued < step:
                return False
    return True


def _perform_steps(workers: Sequence[Worker], job: Job, waits: dict[int, Waits] | None) -> None:
    prepared = job.prepared
    batches = prepared.batches
    if not prepared.careful:
        if waits and len(batches) > 1:
            # Every worker puts a marker behind what it has before any of them gets more: what they wait for are earlier commands
            # (`Hazards.find`), and with the marker in between they wait for nothing of this one. So each can be given all at once.
            for number, _ in batches:
                workers[number].mark_here()
        for number, _ in batches:
            worker = workers[number]
            worker.perform_entry(worker.queue.popleft())
        return
    order = prepared.order or prepared.moving_order
    if order is None:  # transfers of one worker's
        ((number, batch),) = batches
        order = (number,) * len(batch.steps)
    entries = {number: workers[number].queue.popleft() for number, _ in batches}
    running = {number: workers[number].stepwise(entry) for number, entry in entries.items()}
    try:
        for number in order:
            next(running[number])
        for steps in running.values():
            next(steps, None)
    except BaseException:  # an interrupt of the program's
        for number, steps in running.items():
            if getgeneratorstate(steps) == GEN_CREATED:
                workers[number].abandon(entries[number])
            steps.close()
        raise
