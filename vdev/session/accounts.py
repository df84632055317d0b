"""Buffers that belong together, and the way in use for their launches.

Decides which buffers share an account (those that launches use together), and which workers have room for all of
them. `choosing` decides when the ways change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import inf
from weakref import WeakKeyDictionary

from vdev.observe.tallies import KernelTally
from vdev.planner.directory import BufferState, kept_on
from vdev.planner.outlook import Outlook
from vdev.planner.periods import Periods
from vdev.planner.regret import Stretch, TwoWays
from vdev.planner.spans import ONE, Spans
from vdev.session.buffers import Occupancy, VirtualBuffer
from vdev.session.cutoff import Cutoff
from vdev.session.host_times import HostTime
from vdev.session.kernel_timing import KernelTiming

#: seconds of a way's gains that count at most when it begins to lose: sequences of launches gain and lose in turn,
#: and when one gives way to another, this much is lost before that is noticed
_CREDIT = 0.004
#: the fraction of a worker's free memory that gathered buffers may take
_ROOM_SHARE = 0.9


class Account:
    """Buffers that belong together, and the way in use for them."""

    __slots__ = (
        "__weakref__",
        "alone",
        "barred",
        "budget",
        "buffers",
        "cramped",
        "cutoff",
        "dear",
        "gained",
        "gained_before",
        "hands",
        "host",
        "keeper",
        "kernels",
        "met",
        "outlook",
        "periods",
        "planned",
        "prepaid",
        "presumed",
        "returns",
        "span",
        "spans",
        "spent",
        "split_states",
        "staked",
        "thought",
        "thought_once",
        "thrift",
        "thrifty",
        "tried",
        "wanted",
        "ways",
    )

    def __init__(self, below: float = inf) -> None:
        """`below`: where the cutoff begins."""
        #: in the order in which they came
        self.buffers: WeakKeyDictionary[VirtualBuffer, None] = WeakKeyDictionary()
        self.ways = TwoWays()
        self.keeper: int | None = None  #: the worker on which they are kept; None: launches are split
        #: transfers still to come that belong to the change of ways, in the unit of costs
        self.budget = 0.0
        self.barred = False  #: no worker has room for them
        #: what planning, handing over and exchanging cost, against what splitting gains
        self.thrift = Stretch(_CREDIT)
        self.hands = Stretch(_CREDIT)  #: the same without planning
        #: seconds of planning that have not been weighed yet; those for plans that are made once, whatever follows
        self.thought = self.thought_once = 0.0
        #: by the identity of its tally, each kernel that was planned for them: tally, timing, launches that are weighed
        self.kernels: dict[int, tuple[KernelTally, KernelTiming, int]] = {}
        self.met: set[int] = set()  #: by the same, each kernel of whose launches one was weighed on them
        self.outlook = Outlook()  #: of launches that shrink
        self.host = HostTime()  #: what the program does between launches
        self.periods = Periods()  #: from one look of the program to the next
        self.thrifty = False  #: they are kept because of what planning took, and launches take no plans
        #: while they take none: larger launches are planned again, unless their kernels' cutoffs are higher
        self.cutoff = Cutoff(below)
        self.alone: set[int] = set()  #: by the identity of its tally, each kernel that was kept with them
        #: whether they are kept only since all kernels are presumed to be short (`presuming`)
        self.presumed = False
        self.returns = 0  #: how often they were split again after that
        #: seconds by which all split launches together took less than they would have on one worker, with all of their plans; and
        #: those when they were split again last
        self.gained = self.gained_before = 0.0
        #: seconds that splitting them again was expected to take, before its price rose with each return
        self.staked = 0.0
        #: while one worker is tried: the kernels that were split, with their timings
        self.tried: tuple[tuple[KernelTally, KernelTiming], ...] = ()
        #: seconds of plans made once that were counted when they were split again, and have not been made yet
        self.prepaid = 0.0
        #: seconds of planning since launches are split, whatever it was for, as far as it is believed; and the most that it came to before
        #: they were on one worker
        self.spent = self.dear = 0.0
        self.span = 0  #: over how many workers launches are split; 0: all
        self.spans = Spans(_CREDIT)
        self.planned = 0.0  #: seconds of planning over the number of workers in use: over another number everything is planned anew
        self.wanted = 0  #: the number of workers that will be used next; 0: the one in use
        self.cramped = 0  #: this many workers, and fewer, have no room for them
        #: while they are kept: the states that they would have if launches were split
        self.split_states: WeakKeyDictionary[VirtualBuffer, BufferState] = WeakKeyDictionary()

    @property
    def open(self) -> bool:
        """Whether every launch counts; otherwise only those that exchange much."""
        return (self.keeper is not None and not self.thrifty) or self.ways.regret > 0

    def take_thought(self) -> tuple[float, float]:
        """What is to be weighed of planning: that which goes on, and that which is done once."""
        found = self.thought, self.thought_once
        self.thought = self.thought_once = 0.0
        return found

    def keep_on(self, keeper: int | None, *, thrifty: bool) -> None:
        """Keep its buffers on that worker from now on, None: split their launches; `thrifty`: without plans. Nobody else changes either:
        what was found of a buffer's launches holds no more.
        """
        self.keeper, self.thrifty = keeper, thrifty
        for buffer in self.buffers:
            buffer.stays = None

    def enter(self, buffer: VirtualBuffer) -> None:
        """A buffer belongs to it from now on."""
        buffer.account, buffer.stays = self, None
        self.buffers[buffer] = None
        buffer.span = self.span

    def remember(self, span: int) -> None:
        """Its kernels run over so many workers, on other buffers and in the program's next run. Where size decides, that is their
        cutoffs' matter.
        """
        if self.cutoff.below < inf:
            return
        for _, timing, _ in self.kernels.values():
            if timing.cache is not None:
                timing.cache.keep_span(span, self.returns, self.periods.toll)
                if span != ONE:
                    timing.cache.span = span

    def begin_way(self) -> None:
        """Another way is in use."""
        self.take_thought()
        self.planned, self.wanted = 0.0, 0
        for _, timing, _ in self.kernels.values():
            timing.look_again()
        self.kernels.clear()
        for each in (
            self.ways,
            self.thrift,
            self.hands,
            self.spans,
            self.periods,
            self.host,
            self.outlook,
        ):
            each.changed()

    def set_way(self, buffers: Iterable[VirtualBuffer]) -> None:
        """Have plans for these buffers made for the way in use."""
        for buffer in buffers:
            buffer.state = kept_on(buffer.state, self.keeper)
            buffer.span = self.span


class Accounts:
    """The accounts of one session, by buffer. Under its lock."""

    def __init__(self, below: float = inf) -> None:
        self.below = below  #: the cutoff of those of which nothing is known
        # In the order in which they came: the same program makes the same choices, wherever its objects lie in memory.
        #: of which every launch counts
        self.open: WeakKeyDictionary[Account, None] = WeakKeyDictionary()
        #: whose launches take no plans
        self.without_plans: WeakKeyDictionary[Account, None] = WeakKeyDictionary()
        #: by the identity of its tally, each kernel and the account of its last launch that was weighed
        self._latest: dict[int, tuple[KernelTally, Account]] = {}

    def __contains__(self, buffer: VirtualBuffer) -> bool:
        return buffer.account is not None

    def get(self, buffer: VirtualBuffer) -> Account | None:
        """The account of a buffer, if it has one."""
        account: Account | None = buffer.account
        return account

    def is_open(self, buffer: VirtualBuffer) -> bool:
        account = self.get(buffer)
        return account is not None and account.open

    def joined(
        self, buffers: Sequence[VirtualBuffer], kept: int | None, tally: KernelTally | None = None
    ) -> Account:
        """The single account of these buffers, whose launch has just been planned to be kept on `kept` or to be
        split. `tally`: of the launch's kernel, if it is weighed.
        """
        found = list(dict.fromkeys(filter(None, map(self.get, buffers))))
        if not found and tally is not None and (left := self.left(tally)) is not None and left.keeper == kept:
            found = [left]
        account = found[0] if found else Account(self.below)
        if tally is not None:
            self._latest[id(tally)] = tally, account
            account.met.add(id(tally))
        for other in found[1:]:
            self._merge(account, other)
        for buffer in buffers:
            if buffer not in account.buffers:
                account.enter(buffer)
        if account.keeper != kept:  # the first of them that is kept decides, as in the plan
            account.keep_on(kept, thrifty=account.thrifty and kept is not None)
            account.ways.changed()
            account.set_way(account.buffers)
        return account

    def left(self, tally: KernelTally) -> Account | None:
        """The account of a kernel's last launches, if its buffers are gone: launches on new buffers, which a program makes for each
        of them, are weighed together with those before. Without this they would all be the first of their account.
        """
        _, account = self._latest.get(id(tally), (tally, None))
        if account is None or account.buffers:
            return None
        # which was so of the buffers that are gone
        account.barred, account.cramped, account.budget = False, 0, 0.0
        return account

    def kept(self, kernels: Collection[int]) -> list[Account]:
        """The accounts that are kept on one worker, with plans or without, and had launches of these kernels, which are given by the
        identities of their tallies.
        """
        latest = [account for kernel, (_, account) in self._latest.items() if kernel in kernels]
        found = dict.fromkeys([*self.open, *self.without_plans, *latest])
        return [each for each in found if each.keeper is not None and not each.met.isdisjoint(kernels)]

    def _merge(self, account: Account, other: Account) -> None:
        """Let the buffers of another account belong to this one, which takes over what is known of them."""
        account.ways.join(other.ways)
        account.thought += other.thought
        account.thought_once += other.thought_once
        account.thrift.join(other.thrift)
        account.hands.join(other.hands)
        account.kernels.update(other.kernels)
        account.returns = max(account.returns, other.returns)
        account.alone |= other.alone
        account.met |= other.met
        account.prepaid += other.prepaid
        account.spent += other.spent
        account.dear = max(account.dear, other.dear)
        account.gained += other.gained
        account.gained_before += other.gained_before
        account.staked = max(account.staked, other.staked)
        account.tried += other.tried
        kept = [each for each in (account, other) if each.thrifty]
        account.presumed = bool(kept) and all(each.presumed for each in kept)
        account.cutoff.join(other.cutoff)
        if other.thrifty and account.keeper is None:
            account.keep_on(other.keeper, thrifty=True)
            self.without_plans[account] = None
            account.set_way(account.buffers)
        self.without_plans.pop(other, None)
        account.budget += other.budget
        account.barred = account.barred or other.barred
        account.split_states.update(other.split_states)
        account.set_way(other.buffers)
        for buffer in other.buffers:
            account.enter(buffer)
        self.open.pop(other, None)
        account.cramped = max(account.cramped, other.cramped)

    def enter_kept(self, buffer: VirtualBuffer, account: Account) -> None:
        """A buffer without an account that `account.keeper` has whole joins what is kept there."""
        account.enter(buffer)
        account.set_way((buffer,))

    def found(self, buffer: VirtualBuffer) -> Account | None:
        """The account of a buffer; one that a launch without a plan has left on a worker joins those that are there."""
        account = self.get(buffer)
        if account is None and buffer.state.kept is not None:
            # Of several the one that was given up last: most likely its launches left the buffer there.
            there = [other for other in self.without_plans if other.keeper == buffer.state.kept]
            account = there[-1] if there else None
            if account is not None:
                account.enter(buffer)
        return account

    @staticmethod
    def kept_together(buffers: Sequence[VirtualBuffer]) -> int | None:
        """The worker on which all of these buffers are kept by accounts whose launches take no plans; None if there
        is none.
        """
        keeper: int | None = None
        for buffer in buffers:
            account = buffer.account
            if account is None or not account.thrifty or (keeper is not None and account.keeper != keeper):
                return None
            keeper = account.keeper
        return keeper

    def set_open(self, account: Account) -> None:
        """Note whether every launch of an account counts."""
        if account.open:
            self.open[account] = None
        else:
            self.open.pop(account, None)


def have_room(account: Account, occupancy: Occupancy, workers: Sequence[int], in_use: int) -> bool:
    """Whether `workers` have room for an account's buffers, which are now spread over `in_use` of them."""
    occupancy.settle()
    free, room = occupancy.free(), occupancy.room
    nbytes = sum(buffer.nbytes for buffer in account.buffers)
    each, held = nbytes / len(workers), nbytes / in_use
    return all(each <= min(free[worker] + held, room[worker]) * _ROOM_SHARE for worker in workers)


def with_room(account: Account, occupancy: Occupancy, workers: Sequence[int]) -> list[int]:
    """Those of `workers` that have room for all buffers of an account."""
    occupancy.settle()
    free = occupancy.free()
    wanted = sum(buffer.nbytes for buffer in account.buffers)

    def missing(worker: int) -> int:
        replicas = [buffer.state.replica(worker) for buffer in account.buffers]
        return wanted - sum(stop - start for start, stop in filter(None, replicas))

    return [worker for worker in workers if missing(worker) <= free[worker] * _ROOM_SHARE]
