"""The directory: which holder has which bytes of a buffer, and how that changes.

A `BufferState` is an immutable value and interned: equal states are one object, so that a plan cache can key
on them at the price of a pointer. A `Draft` is a state being changed while one command is planned. Neither
knows memory, workers' threads or commands.

Words. A *holder* is the home in host memory (`HOST`) or a worker. A byte is *initialised* once somebody wrote
it; then it is *valid* at one holder or more. A byte that nobody wrote has no holder, and costs nothing to
move. A *replica* is a worker's device memory for one contiguous range of the buffer; the home covers all of
it. A buffer is *kept* on a worker where launches on it are not to be cut (`regret`): part of the state, so
that a plan that is found by its states is one for that way.

A buffer is *fine-grain* where the host may read and write its home at any time, without a word (specification
5.6.1, CL_MEM_SVM_FINE_GRAIN_BUFFER). Between commands the home alone counts then: what a worker has is taken
as stale, so that every command brings there anew what it needs, when it is carried out, and brings home what
it has changed before it is complete. Part of the state for the same reason.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakValueDictionary

from vdev.planner.nearby import Nearby
from vdev.translators.ranges.region import EMPTY, Region

#: holder number of the home in host memory; workers are 0, 1, …
HOST = -1

#: holders up to which it costs less to look at each than to make a table for every state
FEW_HOLDERS = 8

Valid = tuple[tuple[int, Region], ...]
Replicas = tuple[tuple[int, int, int], ...]
#: what a state is made of
Content = tuple[int, Valid, Replicas, int | None, bool]


class BufferState:
    """Who holds what of one buffer. Made by `buffer_state`; equality is identity.

    `valid`: (holder, bytes valid there), ascending by holder, never empty regions. `replicas`: (worker,
    start, stop), ascending. `kept`: the worker on which launches run whole, None where they are cut. `fine`:
    whether it is fine-grain.
    """

    __slots__ = (
        "__weakref__",
        "_initialised",
        "_nearby",
        "_valid_at",
        "fine",
        "kept",
        "nbytes",
        "replicas",
        "resident",
        "valid",
    )

    nbytes: int  #: size of the buffer
    valid: Valid  #: invariant: a worker's region lies inside its replica
    replicas: Replicas  #: device memory that exists, by byte range of the buffer
    kept: int | None
    fine: bool  #: invariant: then the home has all bytes, and no worker has any
    #: the worker that has memory for all bytes and alone holds them; None where that is none
    resident: int | None
    _valid_at: dict[int, Region]
    _initialised: Region | None
    _nearby: Nearby | None

    def __init__(
        self, nbytes: int, valid: Valid, replicas: Replicas, kept: int | None = None, fine: bool = False
    ) -> None:
        self.nbytes = nbytes
        self.valid = valid
        self.replicas = replicas
        self.kept = kept
        self.fine = fine
        self._valid_at = dict(valid)
        self._initialised = None
        self._nearby = None
        self.resident = None
        if len(valid) == 1 and valid[0][1].nbytes == nbytes and (valid[0][0], 0, nbytes) in replicas:
            self.resident = valid[0][0]

    def valid_at(self, holder: int) -> Region:
        """The bytes that are valid at `holder`, maybe none."""
        return self._valid_at.get(holder, EMPTY)

    def near(self, region: Region) -> Sequence[tuple[int, Region]]:
        """Of `valid`, in its order, those that may have bytes of `region`, and all that do."""
        return self.valid if len(self.valid) <= FEW_HOLDERS else self.nearby.meeting(region)

    @property
    def nearby(self) -> Nearby:
        if self._nearby is None:
            self._nearby = Nearby(self.valid)
        return self._nearby

    def replica(self, worker: int) -> tuple[int, int] | None:
        """Start and stop of the worker's replica, None where it has none."""
        for owner, start, stop in self.replicas:
            if owner == worker:
                return start, stop
        return None

    @property
    def initialised(self) -> Region:
        """The bytes that have a holder."""
        if self._initialised is None:
            self._initialised = Region.union(region for _, region in self.valid)
        return self._initialised

    def followed_by(
        self, valid: Iterable[tuple[int, Region]], replicas: Iterable[tuple[int, int, int]]
    ) -> BufferState:
        """The state of the same buffer with these bytes in these places."""
        return buffer_state(self.nbytes, valid, replicas, self.kept)

    def __repr__(self) -> str:
        def name(holder: int) -> str:
            return "host" if holder == HOST else f"worker {holder}"

        held = ", ".join(f"{name(holder)}: {region}" for holder, region in self.valid) or "nothing valid"
        memory = ", ".join(f"{name(worker)} has [{start}, {stop})" for worker, start, stop in self.replicas)
        way = "" if self.kept is None else f"; kept on {name(self.kept)}"
        way += "; fine-grain" if self.fine else ""
        return f"<{self.nbytes} bytes; {held}{'; ' + memory if memory else ''}{way}>"

    def __reduce__(self) -> tuple[object, Content]:
        return buffer_state, (self.nbytes, self.valid, self.replicas, self.kept, self.fine)


_interned: WeakValueDictionary[Content, BufferState] = WeakValueDictionary()
_interning = threading.Lock()


def buffer_state(
    nbytes: int,
    valid: Iterable[tuple[int, Region]] = (),
    replicas: Iterable[tuple[int, int, int]] = (),
    kept: int | None = None,
    fine: bool = False,
) -> BufferState:
    """The one state with this content. A new buffer is `buffer_state(nbytes)`.

    Nothing initialised, no device memory.
    """
    return interned(
        (nbytes, tuple(sorted((h, r) for h, r in valid if r)), tuple(sorted(replicas)), kept, fine)
    )


def interned(content: Content) -> BufferState:
    """The one state of this content, which is in order."""
    with _interning:
        state = _interned.get(content)
        if state is None:
            state = _interned[content] = BufferState(*content)
    return state


def kept_on(state: BufferState, worker: int | None) -> BufferState:
    """The state with the same bytes in the same places, kept on `worker`, or on none."""
    if state.kept == worker:
        return state
    return buffer_state(state.nbytes, state.valid, state.replicas, worker, state.fine)


def fine_grain_state(
    nbytes: int, replicas: Iterable[tuple[int, int, int]] = (), kept: int | None = None
) -> BufferState:
    """The one state of a fine-grain buffer with these replicas, as it is between commands."""
    return buffer_state(nbytes, ((HOST, Region.span(0, nbytes)),), replicas, kept, fine=True)


class Draft:
    """A buffer's state while a command is planned. Every method keeps the invariants that `check` tests."""

    __slots__ = ("_changed", "_nearby", "before", "nbytes", "replicas", "valid")

    nbytes: int
    before: BufferState  #: the state it started from
    valid: dict[int, Region]  #: by holder; empty regions may stand here
    replicas: dict[int, tuple[int, int]]  #: by worker

    def __init__(self, state: BufferState) -> None:
        self.nbytes = state.nbytes
        self.valid = dict(state.valid)
        self.replicas = {worker: (start, stop) for worker, start, stop in state.replicas}
        self.before = state
        self._changed = False
        #: what holders have, and maybe had; None until it is asked for
        self._nearby: Nearby | None = None

    def freeze(self) -> BufferState:
        """The state reached; of a fine-grain buffer, whose changes have been brought home, what is between commands."""
        if not self._changed:
            return self.before
        replicas = ((worker, start, stop) for worker, (start, stop) in self.replicas.items())
        if self.before.fine:
            return fine_grain_state(self.nbytes, replicas, self.before.kept)
        return self.before.followed_by(self.valid.items(), replicas)

    def become(self, state: BufferState) -> None:
        """Hold what that state of the same buffer does, which has the same replicas."""
        self.valid = dict.fromkeys(self.valid, EMPTY) | dict(state.valid)
        self._changed = self._changed or state is not self.before

    def valid_at(self, holder: int) -> Region:
        return self.valid.get(holder, EMPTY)

    def initialised(self) -> Region:
        """The bytes that have a holder now."""
        return Region.union(self.valid.values())

    def near(self, region: Region) -> Iterator[tuple[int, Region]]:
        """The holders that may have bytes of `region`, with what they hold, and all that do."""
        if len(self.valid) <= FEW_HOLDERS:
            yield from self.valid.items()
            return
        if self._nearby is None:
            self._nearby = Nearby(self.valid.items()) if self._changed else self.before.nearby.copy()
        for holder in sorted(self._nearby.names(region)):
            held = self.valid[holder]
            if held:
                yield holder, held

    def held_alone(self, holder: int, region: Region) -> Region:
        """The bytes of `region` that are valid nowhere else than at `holder`, if there."""
        return region - Region.union(held for other, held in self.near(region) if other != holder)

    def add(self, holder: int, region: Region) -> None:
        """A copy arrived: `region` is valid at `holder` as well."""
        if region:
            self.valid[holder] = self.valid_at(holder) | region
            self._changed = True
            if self._nearby is not None:
                self._nearby.add(holder, region)

    def forget(self, region: Region) -> None:
        """The content of `region` is undefined from now on: no holder."""
        if not region:
            return
        for holder, held in self.near(region):
            if held.overlaps(region):
                self.valid[holder] = held - region
                self._changed = True

    def own(self, holder: int, region: Region) -> None:
        """`region` was written at `holder`: it alone holds it."""
        self.forget(region)
        self.add(holder, region)

    def own_each(self, owns: Sequence[tuple[int, Region]]) -> None:
        """What was written at each holder, disjoint regions, it alone holds."""
        written = [(holder, region) for holder, region in owns if region]
        lost: dict[int, list[Region]] = {}
        for owner, region in written:
            for holder, _ in self.near(region):
                if holder != owner:
                    lost.setdefault(holder, []).append(region)
        everything: Region | None = None
        for holder, regions in lost.items():
            gone = Region.union(regions) if len(regions) <= len(written) // 2 else everything
            if gone is None:  # as everybody may have everything; what is its own it has again at once
                gone = everything = Region.union(region for _, region in written)
            held = self.valid[holder]
            if held.overlaps(gone):
                self.valid[holder] = held - gone
                self._changed = True
        for holder, region in written:
            self.add(holder, region)

    def drop(self, holder: int, region: Region) -> None:
        """`region` is no longer valid at `holder`. The caller has seen to it that it is valid elsewhere."""
        held = self.valid_at(holder)
        if held.overlaps(region):
            self.valid[holder] = held - region
            self._changed = True

    def reserve(self, worker: int, start: int, stop: int) -> Region:
        """The worker's replica is [start, stop) from now on (nothing where they are equal).

        Returns the valid bytes that remain.
        """
        if start == stop:
            self.replicas.pop(worker, None)
        else:
            self.replicas[worker] = (start, stop)
        kept = self.valid_at(worker).clip(start, stop)
        self.valid[worker] = kept
        self._changed = True
        return kept


def check(state: BufferState) -> None:
    """Raise AssertionError where an invariant does not hold.

    Called by tests on every state that a plan leaves.
    """
    assert state.nbytes >= 0
    holders = [holder for holder, _ in state.valid]
    assert holders == sorted(set(holders)), "each holder once, ascending"
    workers = [worker for worker, _, _ in state.replicas]
    assert workers == sorted(set(workers)), "each replica once, ascending"
    assert all(worker >= 0 for worker in workers), "the home is no replica"
    for worker, start, stop in state.replicas:
        assert 0 <= start < stop <= state.nbytes, f"replica of worker {worker} outside the buffer"
    for holder, region in state.valid:
        assert region, "no empty regions"
        assert region.stop <= state.nbytes, "valid bytes outside the buffer"
        if holder != HOST:
            replica = state.replica(holder)
            assert replica is not None, f"worker {holder} holds bytes without a replica"
            assert Region.span(*replica).contains(region), f"worker {holder} holds bytes outside its replica"
    if state.fine and state.nbytes:
        assert state.valid == ((HOST, Region.span(0, state.nbytes)),), (
            "the home of a fine-grain buffer alone counts"
        )
    content = (state.nbytes, state.valid, state.replicas, state.kept, state.fine)
    assert buffer_state(*content) is state, "interned"
