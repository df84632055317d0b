"""How far a failure spreads.

Decides which submitted commands fail with a failed one, and which later ones will: those that wait for it
explicitly, and those that read bytes it should have written. All others go on. Called under the executor's lock;
asks no device.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vdev.errors import DEPENDENCY_FAILED, BackendError, status_of
from vdev.executor.holdings import Damage, Holdings
from vdev.planner.directory import HOST, BufferState, Pending, buffer_state, fine_grain_state
from vdev.translators.ranges.region import EMPTY, Region

if TYPE_CHECKING:
    from vdev.executor.job import Job
    from vdev.executor.step import Step

logger = logging.getLogger("vdev.executor")


def repaired(state: BufferState, holdings: Holdings, damage: Damage) -> BufferState:
    """What the directory may still believe about a damaged buffer.

    Bytes that should have left a worker, and did not, are valid there again. If other bytes have lost their last
    holder, every command that reads the buffer fails until one overwrites it whole. A fine-grain buffer is what its
    home holds, whatever has failed: the host may have written it anew.
    """
    replicas = [(worker, start, stop) for worker, (start, stop) in damage.replicas.items()]
    if state.fine:
        return fine_grain_state(state.nbytes, replicas, state.kept)
    valid = {}
    for holder, region in state.valid:
        kept = region - damage.invalid.get(holder, EMPTY)
        valid[holder] = kept if holder == HOST else kept.clip(*damage.replicas.get(holder, (0, 0)))
    pending = [item for item in state.pending if _has_parts(item, damage)]
    known = [*valid.values(), *(item.region for item in pending)]
    lost = state.initialised - Region.union(known)
    for worker, region, _ in damage.origins:
        back = lost & region.clip(*damage.replicas[worker])
        valid[worker] = valid.get(worker, EMPTY) | back
        lost = lost - back
    if lost:
        holdings.failure = damage.status
    return buffer_state(state.nbytes, valid.items(), replicas, state.kept, pending=pending)


def _has_parts(item: Pending, damage: Damage) -> bool:
    """Whether all parts of a reduction are still where they were."""
    return all(
        (holder == HOST or part.clip(*damage.replicas.get(holder, (0, 0))) == part)
        and not part.overlaps(damage.invalid.get(holder, EMPTY))
        for holder, part in item.parts
    )


class Failures:
    """The failures of one executor. `unsettled`: its commands in submission order, by number."""

    def __init__(self, unsettled: dict[int, Job]) -> None:
        self._unsettled = unsettled
        self._damaged: dict[Holdings, None] = {}
        #: whether a buffer has ever been affected; until then nothing has to be checked
        self.any = False

    @property
    def damaged(self) -> bool:
        return bool(self._damaged)

    def admit(self, job: Job) -> None:
        """A command is being submitted: fail it if it depends on what has already failed."""
        for earlier in job.after:
            error = earlier.error if not earlier.settled else earlier.status
            if error is not None and error < 0:
                self._fail(job, DEPENDENCY_FAILED, "a command it waits for failed")
                return
        if self.any:
            self._meet_buffers(job)

    def step_failed(self, job: Job, step: Step, error: Exception) -> None:
        """A step of a command could not be handed over."""
        if isinstance(error, (BackendError, MemoryError)):
            logger.info("%s of a command failed: %s", type(step).__name__, error)
        else:  # not the program's fault: without this only a status would remain of it
            logger.error("an internal error in %s", type(step).__name__, exc_info=error)
        if step.coherent:
            self._did_not_move(job, step, status_of(error), late=False)
        self._fail(job, status_of(error), repr(error))

    def work_failed(
        self, jobs: Iterable[Job], moves: Iterable[tuple[Job, Step]], error: BackendError
    ) -> None:
        """Work of `jobs` failed on a device, `moves` among it."""
        for job, step in moves:
            self._did_not_move(job, step, status_of(error), late=True)
        for job in jobs:
            if job.number in self._unsettled:
                self._fail(job, status_of(error), repr(error))

    def _did_not_move(self, job: Job, step: Step, status: int, *, late: bool) -> None:
        effect = step.effect(late=late)
        if effect is not None and job.holdings:
            slot, holder, region = effect
            holdings = job.holdings[slot]
            if late and holdings.is_another_for(job.number):
                return  # its memory is there, and nobody reads any more what should have come to it
            self._damage(holdings, holder, region, status)
            origin = step.origin()
            if origin is not None and not late and holdings.damage is not None:
                replica = holdings.replicas[origin]
                if replica is not None:
                    holdings.damage.origins.append((origin, region, replica))

    def ended(self, job: Job) -> None:
        """A failed command has ended, and the host knows. Nobody is told of what the host writes to a fine-grain
        buffer from now on, so later commands take what is there.
        """
        for slot in job.writes:
            if job.holdings[slot].fine:
                job.holdings[slot].failure = None

    def take_damage(self) -> list[tuple[Holdings, Damage]]:
        """The damaged buffers, each with the device memory that there really is; afterwards none counts as damaged.
        Call it only while nothing runs.
        """
        found = []
        for holdings in self._damaged:
            damage, holdings.damage = holdings.damage, None
            assert damage is not None
            damage.replicas = {
                number: (replica.start, replica.stop)
                for number, replica in enumerate(holdings.replicas)
                if replica is not None
            }
            damage.origins = [item for item in damage.origins if holdings.replicas[item[0]] is item[2]]
            found.append((holdings, damage))
        self._damaged = {}
        return found

    def _damage(self, holdings: Holdings, holder: int, region: Region, status: int) -> None:
        self.any = True
        if holdings.damage is None:
            holdings.damage = Damage(status)
            self._damaged[holdings] = None
        if region is not EMPTY:
            holdings.damage.add(holder, region)

    def _fail(self, job: Job, status: int, reason: str) -> None:
        """Mark a command, and all that depends on it, as failing."""
        if job.completion.error is None:
            self._mark(job, status, reason)
        self._spread(job)

    def _mark(self, job: Job, status: int, reason: str) -> None:
        completion = job.completion
        completion.reason = reason
        completion.error = status
        for slot in job.writes:
            self.any = True
            job.holdings[slot].fail(job.number, status)

    def _spread(self, job: Job) -> None:
        """Go through the later commands in order: each may depend on any failed before it, or restore a
        buffer by overwriting it.
        """
        for number, later in list(self._unsettled.items()):
            if number <= job.number or later.completion.error is not None:
                continue
            if any(earlier.error is not None for earlier in later.after):
                self._mark(later, DEPENDENCY_FAILED, "a command it waits for failed")
            else:
                self._meet_buffers(later)

    def _meet_buffers(self, job: Job) -> None:
        for holdings in job.holdings:
            # Planned while the directory believed too much: what it does to this buffer cannot be trusted.
            if holdings.damage is not None:
                self._mark(job, holdings.damage.status, "memory that it needs was not allocated")
                return
        for slot in job.reads:
            failure = job.holdings[slot].failure_for(job.number)
            if failure is not None:
                self._mark(job, failure, "a command that should have written what it reads failed")
                return
        for slot in job.prepared.overwrites:
            job.holdings[slot].fail(job.number, None)
