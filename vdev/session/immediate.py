"""Commands that a worker is given immediately, by the thread that submits them.

Decides which: commands whose plan is known and is one step on one worker, and which are not observed. With several
workers, these are launches on buffers that are kept on one, and transfers of bytes that one holds alone. They are
counted like any other. `vdev.executor.stretch` describes the worker's side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from operator import attrgetter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias

from vdev.executor.completion import Completion
from vdev.executor.line import Line
from vdev.executor.stretch import Entry, Part, Timed
from vdev.observe.tallies import UNWEIGHED
from vdev.process.processor_time import busy_ns
from vdev.session.anywhere import Transfers
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import (
    Argument,
    BufferArg,
    Command,
    CopyBuffer,
    Fill,
    Launch,
    Marker,
    Migrate,
    Read,
    Unmap,
)
from vdev.session.immediate_forms import Formed
from vdev.session.immediate_maps import MapsAtOnce
from vdev.session.immediate_moves import completion_of, is_at_home, is_new, timed_in
from vdev.session.in_a_row import InARow, Made, ReadyLaunch, count_moves
from vdev.session.kernel_timing import UNTIL_LOOKED_AT
from vdev.session.launch_plans import CachedPlan, LaunchCache
from vdev.session.telling import tell_direct

if TYPE_CHECKING:
    from vdev.backends.base import DriverMemory
    from vdev.executor.holdings import Holdings
    from vdev.session.accounts import Account
    from vdev.session.core import SessionCore
    from vdev.session.immediate_moves import Counted
    from vdev.session.ordering import QueueOrder
    from vdev.session.programs import SessionKernel
    from vdev.translators.ranges.ndrange import NDRange

_Found: TypeAlias = tuple[
    CachedPlan, int, list[VirtualBuffer], list["Holdings"], tuple[tuple[int, int, int], ...]
]

_account_of: Callable[[VirtualBuffer], Any] = attrgetter("account")


class AtOnce(MapsAtOnce):
    """The immediate commands of one session."""

    def __init__(self, session: SessionCore, transfers: Transfers) -> None:
        super().__init__(session, transfers)
        self.until_looked_at = UNTIL_LOOKED_AT
        self.submits: LaunchCache | None = None
        self._is_timed = False  #: the current launch is one that was looked at
        self._cached: CachedPlan | None = None  #: the plan of the last of the launches in a row
        self._standing: object = None  #: the executor's when the last of them was checked
        self._places: tuple[tuple[int, int, int], ...] = ()  #: where its pointers point
        #: with several workers: the number of a command before which all of them had done what they were given, but the one that had it
        self._others_done = -1
        self._limit = inf  #: work-items from which on those in a row take another way (`Cutoff.below`)
        #: with several workers, one keeps buffers only if ways are chosen
        self._launches = self._only is not None or session.choosing is not None
        self._kinds: dict[type, Callable[[Any, Sequence[Completion], QueueOrder], Completion | None]] = {
            Launch: self._submit_launch,
            Fill: self._submit_transfer,
            CopyBuffer: self._submit_transfer,
            Read: self._submit_read,
            Marker: self._submit_marker,
            Migrate: self._submit_migrate,
            Unmap: self._submit_unmap,
        }

    def submit(self, command: Command, after: Sequence[Completion], queue: QueueOrder) -> Completion | None:
        """Hand a command over. None if it has to be submitted: then nothing has happened."""
        kind = self._kinds.get(type(command))
        return None if kind is None else kind(command, after, queue)

    def _submit_launch(
        self, launch: Launch, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        if launch.shared or launch.tried:
            return None
        part = self.launch(launch.kernel, launch.args, launch.ndrange, after, queue)
        return None if part is None else completion_of(part)

    def launch(
        self,
        kernel: SessionKernel,
        args: Sequence[Argument],
        ndrange: NDRange,
        after: Sequence[Completion],
        queue: QueueOrder,
    ) -> Part | None:
        """The same for a launch that reaches memory only through its arguments."""
        session, executor = self._session, self._executor
        with session.lock:
            in_a_row, self.streak_length, recorder = self.streak_length, 0, session.recorder
            self._streak_before = in_a_row
            started = 0 if recorder is None else perf_counter_ns()
            if session.observers or session.deferrals.held or session.checker is not None:
                return None
            standing, found = executor.standing, self._found(kernel.plans, args, ndrange)
            if found is None:
                return None
            cached, worker, buffers, holdings, places = found
            line = executor.lines[worker]
            if line is None or not (
                self._only is not None or self._is_kept(line, kernel.plans, ndrange, found, queue)
            ):
                return None
            if (after or queue.barrier or executor.failures.any) and not self._may_go(
                after, queue, worker, holdings
            ):
                return None
            entry = (cached.prepared, holdings, args, ndrange, places, after)
            hand_over = partial(self._hand_over_timed, line) if self._is_timed else line.hand_over
            part = hand_over(entry, standing, timed=timed_in(queue) if queue.profiled else None)
            if part is None:
                return None
            if recorder is not None and kernel.plans is not None:
                given = None if places is kernel.plans.plain_places else args
                tell_direct(recorder, part, started, queue, kernel.plans, cached, given, buffers, holdings)
            number = session.number = session.number + 1
            self.streak_length, self._at = in_a_row + 1 if worker == self._at else 1, worker
            self._cached, self._standing, self._places = cached, standing, places
            for buffer in buffers:
                buffer.used = number
            cached.outcome.launches += 1
            (UNWEIGHED if self.is_alone or kernel.plans is None else kernel.plans.tally.passed).append(
                ndrange
            )
            if queue.last is not part.stretch.completion:
                queue.remember(part.stretch.completion)
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part

    def went_on(self, worker: int) -> None:
        """The last launch could not be handed over at once, as where none of its buffers was kept on a worker yet, but runs whole on this
        one nevertheless: the launches in a row there go on. Under the session's lock.
        """
        self.streak_length = self._streak_before + 1 if worker == self._at else 0

    def is_undisturbed(self, number: int) -> bool:
        """Whether a launch that was handed over at once as the command of that `number` may be made again as it was then: with
        several workers, if all since has gone the same way.
        """
        line = self._executor.lines[self._at]
        return self.is_alone or (line is not None and line.has_had_all_since(number))

    def formed(self, kernel: SessionKernel, before: Formed | None) -> Formed | None:
        """What makes launches like the kernel's last one, which was handed over just now, with other arguments: the one from `before`,
        if there was one for that worker, which has learnt that. None where nothing does.
        """
        session, cache = self._session, kernel.plans
        with session.lock:
            if cache is None or session.checker is not None:
                return None
            at, cached, places = self._at, self._cached, self._places
            line = self._executor.lines[at]
            if line is None or cached is None or len(places) != len(cache.pointers):
                return before
            if cached is not cache.resident.get((at, len({slot for _, slot, _ in places}))):
                return before  # another thread has launched another kernel meanwhile
            form = cached.prepared.step.form(places)
            if form is not None and (before is None or before.line is not line):
                before = Formed(session, self._executor, self, line, cache)
            if before is not None and before.line is line:
                before.learn(form, cached, places)
            return before

    def are_here(
        self, buffers: Sequence[VirtualBuffer], worker: int, cache: LaunchCache, args: Sequence[Argument]
    ) -> bool:
        """As `_all_placed`, of the buffers of a launch with these `args`; with several workers, for the account of one that is kept
        there.
        """
        account = None
        if self._only is not None:  # as mostly, with fewer calls
            for buffer in buffers:
                if buffer.resident is None and self._placed(buffer, worker) is None:
                    break
            else:
                return True
        else:
            for buffer in buffers:
                if _keeps(buffer.account, worker):
                    account = buffer.account
                    break
            else:
                account = cache.account_of_new
                if not (_keeps(account, worker) and _may_join(buffers, worker)):
                    return False
        return self._all_placed(buffers, worker, account, partial(_counted, cache, args))

    def are_kept(
        self,
        line: Line,
        cache: LaunchCache,
        ndrange: NDRange,
        buffers: Sequence[VirtualBuffer],
        holdings: Sequence[Holdings],
        queue: QueueOrder,
        stay: bool,
    ) -> bool:
        """As `_is_kept`, with fewer calls: whose turn to be looked at has come, is looked at behind it. `stay`: all of the buffers are
        known to (`VirtualBuffer.stays`): then it is one like those before if nothing was submitted elsewhere.
        """
        left, last = self.until_looked_at - cache.weight, queue.last
        if (
            stay
            and left >= 0
            and line.last == self._executor.last_number
            and line.first <= self._others_done
            and (last is line.latest or last is None)
            and line.worker.number == self._at
        ):
            self.until_looked_at = left
            return True
        return self._are_kept(line, cache, ndrange, buffers, holdings, queue)

    def _are_kept(
        self,
        line: Line,
        cache: LaunchCache,
        ndrange: NDRange,
        buffers: Sequence[VirtualBuffer],
        holdings: Sequence[Holdings],
        queue: QueueOrder,
    ) -> bool:
        """The same where something may be otherwise for this launch than for the last one, or it is one to be looked at."""
        worker, left = line.worker.number, self.until_looked_at - cache.weight
        if left < 0 and cache is self.submits:
            return False
        seen: Account | None = None
        for buffer in buffers:  # loops, as in `Formed`
            account = buffer.account
            if account is seen and account is not None:  # most launches' buffers have the same
                continue
            if account is None or not (account.thrifty and account.keeper == worker):
                return False
            if account.cutoff.below < inf and ndrange.nitems >= max(account.cutoff.below, cache.cutoff.below):
                return False
            seen = account
        last = queue.last
        is_free = last is line.latest or last is None
        for each in holdings:
            if each.readers[worker] is not None:
                is_free = False
        if not (is_free or self._is_free(line, holdings, queue)):
            return False
        self.until_looked_at = left
        if worker != self._at:
            self.streak_length, self._at = 0, worker
        self._note_staying(line, buffers)
        return True

    def _note_staying(self, line: Line, buffers: Sequence[VirtualBuffer]) -> None:
        """Launches on these buffers are kept on the line's worker, which has all of them: the next ones need not be asked, as long as
        nothing changes for these, and nobody else can be reading any, as none but it has had work since all others had done theirs.
        """
        worker, executor = line.worker, self._executor
        for buffer in buffers:
            if buffer.stays is None and buffer.account.cutoff.below == inf:
                buffer.stays = worker.number
        if line.last != executor.last_number or line.first <= self._others_done:
            return
        for each in executor.all_workers:
            if each is not worker and each.completed < each.submitted:
                return
        self._others_done = line.last

    def ready(
        self,
        kernel: SessionKernel,
        args: Sequence[Argument],
        ndrange: NDRange,
        queue: QueueOrder,
        own: object | None,
    ) -> ReadyLaunch | None:
        """What makes a launch again as `launch` would, without Python; None where that is not possible. Until another command
        than such launches is submitted, it stays what `launch` would do.

        `own`: that of an earlier answer for the same kernel object, if there was one.
        """
        with self._session.lock:
            line = self._line_without_python(queue)
            found = None if line is None else self._found(kernel.plans, args, ndrange)
            if line is None or found is None:
                return None
            cached, _, buffers, holdings, places = found
            if own is None:
                own = line.worker.backend.own_kernel(kernel.program.native, kernel.name)
            entry = (cached.prepared, holdings, args, ndrange, places, ())
            driver = None if own is None else line.for_driver(entry, own)
            return None if driver is None else ReadyLaunch(self, cached, buffers, entry, queue, own, driver)

    def ready_memory(self, buffer: VirtualBuffer, queue: QueueOrder) -> DriverMemory | None:
        """The same for transfers of a buffer's bytes in a queue: all of it is on the only worker."""
        with self._session.lock:
            line = self._line_without_python(queue)
            if line is None or buffer.resident != line.worker.number:
                return None
            return line.memory_for_driver(buffer.holdings)

    def may_be_kept(self, buffer: VirtualBuffer) -> bool:
        """Whether a buffer that a program no longer needs may serve as a new one later: the only worker has all of it, or nobody has any,
        and nothing is held back or has failed that may have to do with it.
        """
        with self._session.lock:
            if self._line_without_python(None) is None:
                return False
            return buffer.resident == self._only or is_new(buffer.state)

    def _line_without_python(self, queue: QueueOrder | None) -> Line | None:
        """The direct way to the only worker, if commands may be made without Python, in that queue if one is given. Under the session's
        lock.
        """
        session, executor = self._session, self._executor
        watched = session.observers or session.checker is not None or session.recorder is not None
        if self._only is None or watched:
            return None
        held_up = queue is not None and queue.barrier is not None and not queue.barrier.settled
        if session.deferrals.held or held_up or executor.failures.any:
            return None
        line = executor.lines[self._only]
        return line if line is not None and line.is_at_worker else None

    def made(self, runs: Sequence[tuple[Made, int]], handles: Sequence[int]) -> Part | None:
        """Commands were made without Python, since anything else was submitted: which, in order, and how often in a row.
        The first of them, which the others follow in its stretch; None at the end. `handles`: as in `Backend.launched`.
        """
        line, first = self._executor.lines[0], None
        assert line is not None
        while first is None and not self._executor.closed:
            first = self._entered(
                line, runs, handles
            )  # the worker's thread may have its turn, and want the session's lock
        if line.worker.marked != line.looked_at:
            line.throttle()
        return first

    def ended(
        self, launches: Sequence[tuple[ReadyLaunch, int]], moves: Sequence[tuple[str, int, int]]
    ) -> None:
        """Commands that were made without Python have ended well, and nobody asks for any of them: they are only counted. `launches`:
        which, and how often. `moves`: under which name transfers are counted, how many, and of how many bytes.
        """
        session, line = self._session, self._executor.lines[0]
        assert line is not None
        with session.lock:
            for ready, count in launches:
                session.number += count
                for buffer in ready.buffers:
                    buffer.used = session.number
                ready.count(count, session.ledger)
                line.worker.backend.counters.launches += count
            for name, count, nbytes in moves:
                session.number += count
                count_moves(name, count, nbytes, session.ledger)

    @property
    def may_go_on(self) -> bool:
        """Whether more may be made without Python: nothing is known to have failed."""
        return not (self._executor.failures.any or self._executor.closed)

    def _entered(self, line: Line, runs: Sequence[tuple[Made, int]], handles: Sequence[int]) -> Part | None:
        """Enter commands that were made; None if that was not possible now."""
        session, executor = self._session, self._executor
        with session.lock, line.turn() as has_turn, executor.lock:
            if executor.closed or not has_turn:
                return None
            first = line.enter_launched([(ready.entry, count) for ready, count in runs], handles)
            completion = first.stretch.completion
            for ready, count in runs:
                session.number += count
                for buffer in ready.buffers:
                    buffer.used = session.number
                ready.count(count, session.ledger)
                if ready.queue is not None and ready.queue.last is not completion:
                    ready.queue.remember(completion)
        return first

    def in_a_row(
        self,
        kernel: SessionKernel,
        queue: QueueOrder,
        part: Part,
        again: tuple[Sequence[Argument], NDRange] | None = None,
    ) -> InARow | None:
        """What makes launches like the one of `part` again, which was handed over last; None where that is not possible. `again`: its
        arguments and its index space, where it may be over by now.
        """
        session, cache = self._session, kernel.plans
        with session.lock:
            line, cached = self._executor.lines[self._at], self._cached
            if session.observers:
                return None
            if line is None or cached is None or cache is None or line.worker.number != part.stretch.worker:
                return None
            standing = self._standing  # whatever has been held back or has failed since then counts
            entry = None
            if again is not None:
                found = self._found(cache, *again)
                if found is None or found[0] is not cached:
                    return None
                _, _, _, holdings, places = found
                entry = (cached.prepared, holdings, *again, places, ())
            streak = line.streak(part, entry) if standing is self._executor.standing else None
            if streak is None:
                return None
            streak.limit = self._limit
            return InARow(
                session, self, line, streak, standing, cached, queue, cache, looks=self._only is None
            )

    def _found(self, cache: LaunchCache | None, args: Sequence[Argument], ndrange: NDRange) -> _Found | None:
        """The plan of a launch without its own, if all its buffers are on one worker: that worker, the buffers by
        slot with their holdings, and where its pointers point.
        """
        if cache is None or not self._launches:
            return None
        pointers = cache.pointers
        buffers, offsets = _pointed_to(pointers, args)
        worker, account = self._only, None
        if worker is None:
            for buffer in buffers:  # the first that is kept on a worker without plans
                account = buffer.account
                if account is not None and account.thrifty:
                    break
            else:
                account = self._account_of_new(cache, buffers, ndrange)
            worker = None if account is None else account.keeper
            if worker is None:
                return None
        holdings, are_here = [], True
        for buffer in buffers:
            if buffer.resident != worker or (account is not None and buffer.account is None):
                are_here = False
            holdings.append(buffer.holdings)
        if not are_here and not self._all_placed(buffers, worker, account, partial(_counted, cache, args)):
            return None
        cached = cache.resident.get((worker, len(buffers)))
        if cached is None:
            return None
        is_plain = not offsets and len(buffers) == len(pointers)
        places = cache.plain_places if is_plain else _places(pointers, args, buffers)
        return cached, worker, buffers, holdings, places

    def _account_of_new(
        self, cache: LaunchCache, buffers: Sequence[VirtualBuffer], ndrange: NDRange
    ) -> Account | None:
        """With several workers: whose launches on buffers that belong to no account, and of which no other worker has had anything, take
        no plans, if these are such: the account of the kernel's last launch on such buffers.
        """
        account: Account | None = cache.account_of_new
        if account is None or not account.thrifty:
            account = self._begun_account(cache, buffers, ndrange) if _may_join(buffers, None) else None
        elif not _may_join(buffers, account.keeper):
            account = None
        if account is None:
            return None
        # Larger ones are split, which concerns no others.
        return account if ndrange.nitems < max(account.cutoff.below, cache.cutoff.below) else None

    def _begun_account(
        self, cache: LaunchCache, buffers: Sequence[VirtualBuffer], ndrange: NDRange
    ) -> Account | None:
        """The same where there was none: these may be kept from now on."""
        choosing = self._session.choosing
        if choosing is None or not (choosing.without_plans or choosing.alone):
            return None
        if choosing.keeper_without_plans(buffers, cache.tally, ndrange.nitems) is None:
            return None
        account: Account | None = buffers[0].account
        if account is None or not account.thrifty:
            return None
        cache.account_of_new = account
        return account

    def _all_placed(
        self,
        buffers: Sequence[VirtualBuffer],
        worker: int,
        account: Account | None,
        counted: Callable[[VirtualBuffer], Counted | None],
    ) -> bool:
        """Whether buffers are all on that worker, now that those that are new have got their memory there, and those that only the home
        has their content. `counted`: where what is brought of a buffer counts.
        """
        for buffer in buffers:
            if buffer.resident is None and self._placed(buffer, worker, account) is None:
                self._brought(buffer, worker, account, counted)
            if buffer.resident != worker:
                return False
            if account is not None and buffer.account is None:  # what a program has put there (`fill_new`)
                account.enter(buffer)
                account.set_way((buffer,))
        return True

    def _is_kept(
        self, line: Line, cache: LaunchCache | None, ndrange: NDRange, found: _Found, queue: QueueOrder
    ) -> bool:
        """With several workers: whether launches on these buffers, which are on one, run there without a plan, and
        nobody else is concerned with them. Now and then one checks whether they still should, and is timed.
        """
        choosing, (_, worker, buffers, holdings, _) = self._session.choosing, found
        self._is_timed = False
        if choosing is None or cache is None:
            return False
        limit = self._limit = _limit_of(cache, buffers, worker)
        if (
            limit < inf
            and (nitems := ndrange.nitems) >= limit
            and choosing.keeper_without_plans(buffers, cache.tally, nitems) != worker
        ):
            return False
        is_free = queue.last is None or queue.last is line.latest
        for each in holdings:
            if each.readers[worker] is not None:
                is_free = False
        if not (is_free or self._is_free(line, holdings, queue)):  # which mostly need not be asked
            return False
        self.until_looked_at -= cache.weight
        if self.until_looked_at >= 0:
            return True
        if cache is self.submits:  # as a look behind the last one has found
            self.submits, self.until_looked_at = None, UNTIL_LOOKED_AT
            return False
        if self.goes_on(cache, ndrange, buffers, worker):
            return True
        self.until_looked_at = UNTIL_LOOKED_AT
        began = busy_ns()
        self._is_timed = not choosing.is_to_be_submitted(cache, ndrange, buffers)
        choosing.look_took((busy_ns() - began) * 1e-9)
        return self._is_timed

    def goes_on(
        self, cache: LaunchCache, ndrange: NDRange, buffers: Sequence[VirtualBuffer], worker: int
    ) -> bool:
        """With several workers: whether the turn of a launch over `ndrange` on these buffers to be looked at passes by, since nothing would
        come of it. They are still kept on that worker for launches without plans.
        """
        choosing = self._session.choosing
        if choosing is None:
            return False
        if not _keep_all(buffers, worker):
            return False  # another kernel's launch has changed that
        if not choosing.passes_by(cache, ndrange):
            return False
        self.until_looked_at = UNTIL_LOOKED_AT
        return True

    def looked_at(
        self,
        hand_over: Callable[[], Part | None],
        cache: LaunchCache,
        ndrange: NDRange,
        buffers: Sequence[VirtualBuffer],
        worker: int,
    ) -> Part | None:
        """Hand over a launch over `ndrange` on these buffers to the worker that keeps them, and look whether such launches should still be
        kept there, or the next one is to be sampled. A look takes the host as long as several launches: behind a launch the worker is
        busy meanwhile, and only the next one takes another way. Under the session's lock.
        """
        choosing, began = self._session.choosing, busy_ns()
        part = hand_over()
        busy = busy_ns() - began
        if part is None or choosing is None or self.goes_on(cache, ndrange, buffers, worker):
            return part
        if _keep_all(buffers, worker):
            choosing.handed_over_at_once(busy * 1e-9)
            self.until_looked_at, began = UNTIL_LOOKED_AT, busy_ns()
            if choosing.is_to_be_submitted(cache, ndrange, buffers):
                self.submits, self.until_looked_at = cache, 0
            choosing.look_took((busy_ns() - began) * 1e-9)
        if not _keep_all(buffers, worker):
            self._executor.standing = object()  # launches take another way: none is repeated
        return part

    def _hand_over_timed(
        self, line: Line, entry: Entry, standing: object, *, timed: Timed | None
    ) -> Part | None:
        """Hand over a launch that was looked at, so the time that this takes must be known."""
        self._is_timed, began = False, busy_ns()
        part = line.hand_over(entry, standing, timed=timed)
        if part is not None and self._session.choosing is not None:
            self._session.choosing.handed_over_at_once((busy_ns() - began) * 1e-9)
        return part


def _keeps(account: Account | None, worker: int) -> bool:
    """Whether launches on the buffers of an account are made on that worker, without plans."""
    return account is not None and account.thrifty and account.keeper == worker


def _keep_all(buffers: Sequence[VirtualBuffer], worker: int) -> bool:
    """The same of all of these buffers' accounts."""
    for account in {*map(_account_of, buffers)}:  # noqa: SIM110 (mostly there is one: a generator takes longer than the rest)
        if not _keeps(account, worker):
            return False
    return True


def _limit_of(cache: LaunchCache, buffers: Sequence[VirtualBuffer], worker: int) -> float:
    """Work-items from which on a launch on these buffers may take another way: inf where size does not decide, 0 where they are not all
    kept on that worker for launches without plans.
    """
    limit = inf
    for account in {*map(_account_of, buffers)}:
        if account is None or not (account.thrifty and account.keeper == worker):
            return 0.0
        if account.cutoff.below < limit:
            limit = max(account.cutoff.below, cache.cutoff.below)
    return limit


def _may_join(buffers: Sequence[VirtualBuffer], worker: int | None) -> bool:
    """Whether these belong to no account, and no worker but that one has had anything of any of them yet."""
    for buffer in buffers:
        if buffer.account is not None:
            return False
        if buffer.resident is None:
            if not (is_new(buffer.state) or is_at_home(buffer.state)):
                return False
        elif buffer.resident != worker:
            return False
    return True


def _pointed_to(pointers: Sequence[int], args: Sequence[Argument]) -> tuple[list[VirtualBuffer], int]:
    """The buffers that a launch's pointers point to, each once; and whether any pointer does not point to the beginning of one."""
    given: list[VirtualBuffer] = []
    offsets = 0
    for index in pointers:  # which takes less time than iterators over a few arguments take to be made
        arg = args[index]
        if type(arg) is BufferArg:
            given.append(arg.buffer)
            offsets |= arg.offset
    return [*dict.fromkeys(given)], offsets


def _places(
    pointers: Sequence[int], args: Sequence[Argument], buffers: Sequence[VirtualBuffer]
) -> tuple[tuple[int, int, int], ...]:
    """Where the pointers point: (argument, slot, bytes into the buffer)."""
    return tuple(
        [
            (index, buffers.index(arg.buffer), arg.offset)
            for index in pointers
            if type(arg := args[index]) is BufferArg
        ]
    )


def _counted(cache: LaunchCache, args: Sequence[Argument], buffer: VirtualBuffer) -> Counted | None:
    """Where it counts what a launch with these `args` brings of a buffer; None before a launch of the kernel has been planned."""
    for index in cache.pointers:
        arg = args[index]
        if type(arg) is BufferArg and arg.buffer is buffer:
            tally = cache.tally.arguments.get(index)
            return None if tally is None else (cache.tally, tally)
    return None
