"""The directory: which holder has which bytes of a buffer, and how that changes.

A `BufferState` is an immutable value and interned: equal states are one object, so that a plan cache can key
on them at the price of a pointer. (Where plans are filled in, a state is kept as one map from bytes to holders; two of
these are one object, but one that the planner has made of the same bytes may be another. A plan is then made twice.)
A `Draft` is a state being changed while one command is planned. Neither knows memory, workers' threads or commands.

Words. A *holder* is the home in host memory (`HOST`) or a worker. A byte is *initialised* once somebody wrote
it; then it is *valid* at one holder or more. A byte that nobody wrote has no holder, and costs nothing to
move. A *replica* is a worker's device memory for one contiguous range of the buffer; the home covers all of
it. A buffer is *kept* on a worker where launches on it are not to be cut (`regret`): part of the state, so
that a plan that is found by its states is one for that way.

A buffer is *fine-grain* where the host may read and write its home at any time, without a word (specification
5.6.1, CL_MEM_SVM_FINE_GRAIN_BUFFER). Between commands the home alone counts then: what a worker has is taken
as stale, so that every command brings there anew what it needs, when it is carried out, and brings home what
it has changed before it is complete. Part of the state for the same reason.

Bytes are *pending* where several holders each have a part of a reduction: they hold what their parts come to under
its operation, and no holder has them valid. One of the parts began with the content from before, the others with the
operation's identity; which one is of no account.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from vdev.planner.nearby import Nearby
from vdev.translators.ranges.labelled import Labelled, labelled, numbers_of, regions_of
from vdev.translators.ranges.labelled_bands import LabelledBands
from vdev.translators.ranges.region import EMPTY, Region

#: holder number of the home in host memory; workers are 0, 1, …
HOST = -1

#: holders up to which looking at each costs less than making a table for every state
FEW_HOLDERS = 8
#: boxes of holders' regions up to which they are combined into one map
MOST_LABELLED = 1024

Valid = tuple[tuple[int, Region], ...]
Replicas = tuple[tuple[int, int, int], ...]


class Pending(NamedTuple):
    """A reduction that nobody has folded yet: each byte has parts at two holders or more, in whole elements."""

    op: str  #: as of `instructions.Merge`
    dtype: str
    parts: Valid  #: by holder, ascending, never empty

    @property
    def region(self) -> Region:
        """The bytes that are pending."""
        return Region.union(part for _, part in self.parts)


#: what a state consists of
Content = tuple[int, Valid, Replicas, int | None, bool, tuple[Pending, ...]]


def label_of(holder: int) -> int:
    """The label of a holder's bytes in a map of all holders'."""
    return 1 << holder - HOST


def holders_of(label: int) -> tuple[int, ...]:
    """Those who have the bytes with this label, ascending."""
    return tuple([number + HOST for number in numbers_of(label)])


def map_of(valid: Iterable[tuple[int, Region]]) -> Labelled | None:
    """What each holder has as one map; None if their regions do not go together, or are very many boxes."""
    found = [(label_of(holder), region) for holder, region in valid]
    return labelled(found) if sum([region.nboxes for _, region in found]) <= MOST_LABELLED else None


def valid_by_labels(bands: LabelledBands, pitches: tuple[int, ...]) -> Valid:
    """By holder, the bytes that have its label; numbers may be traced."""
    return tuple([(number + HOST, region) for number, region in regions_of(bands, pitches).items()])


class BufferState:
    """Who holds what of one buffer. Made by `buffer_state`; equality is identity.

    `valid`: (holder, bytes valid there), ascending by holder, never empty regions. `replicas`: (worker,
    start, stop), ascending. `kept`: the worker on which launches run whole, None where they are cut. `fine`:
    whether it is fine-grain. `pending`: reductions, ascending by operation and type.
    """

    __slots__ = (
        "__weakref__",
        "_initialised",
        "_labelled",
        "_nearby",
        "_pitches_held",
        "_valid",
        "_valid_at",
        "fine",
        "kept",
        "nbytes",
        "pending",
        "replicas",
        "resident",
    )

    nbytes: int  #: size of the buffer
    replicas: Replicas  #: device memory that exists, by byte range of the buffer
    kept: int | None
    fine: bool  #: invariant: then the home has all bytes, and no worker has any
    #: invariant: a worker's parts lie inside its replica; no byte of theirs is valid
    pending: tuple[Pending, ...]
    #: the worker that has memory for all bytes and alone holds them; None if there is none
    resident: int | None
    #: the same bytes as regions and as one map; each is made from the other when it is first needed
    _valid: Valid | None
    _labelled: Labelled | bool | None  #: False until it is needed
    _valid_at: dict[int, Region] | None
    _initialised: Region | None
    _nearby: Nearby | None
    _pitches_held: frozenset[tuple[int, ...]] | None

    def __init__(
        self,
        nbytes: int,
        valid: Valid | Labelled,
        replicas: Replicas,
        kept: int | None = None,
        fine: bool = False,
        pending: tuple[Pending, ...] = (),
    ) -> None:
        """`valid`: by holder, or as a map whose labels are those of `label_of`."""
        self.nbytes = nbytes
        self.replicas = replicas
        self.kept = kept
        self.fine = fine
        self.pending = pending
        self._valid_at = self._initialised = self._nearby = self._pitches_held = None
        if isinstance(valid, Labelled):
            self._valid, self._labelled = None, valid
            self.resident = self._alone_by_labels(valid)
        else:
            self._valid, self._labelled = valid, False
            self.resident = None
            if len(valid) == 1 and valid[0][1].nbytes == nbytes and (valid[0][0], 0, nbytes) in replicas:
                self.resident = valid[0][0]

    def _alone_by_labels(self, found: Labelled) -> int | None:
        if len(found.bands) != 1 or found.pitches:
            return None
        ((start, stop, label),) = found.bands
        for worker, low, high in self.replicas:
            if label == label_of(worker) and (start, stop) == (low, high) == (0, self.nbytes):
                return worker
        return None

    @property
    def valid(self) -> Valid:
        """Invariant: a worker's region lies inside its replica."""
        if self._valid is None:
            assert isinstance(self._labelled, Labelled), "it was made of one of them"
            self._valid = valid_by_labels(self._labelled.bands, self._labelled.pitches)
        return self._valid

    @property
    def is_mapped(self) -> bool:
        """Whether `labelled` is known already."""
        return self._labelled is not False

    @property
    def labelled(self) -> Labelled | None:
        """The same as one map; None if the holders' regions do not go together, or are very many boxes."""
        if self._labelled is False:
            self._labelled = map_of(self.valid)
        return self._labelled  # type: ignore[return-value]

    def valid_at(self, holder: int) -> Region:
        """The bytes that are valid at `holder`, maybe none."""
        if self._valid_at is None:
            self._valid_at = dict(self.valid)
        return self._valid_at.get(holder, EMPTY)

    def near(self, region: Region) -> Sequence[tuple[int, Region]]:
        """Of `valid`, in its order, those that may have bytes of `region`, all that do among them."""
        return self.valid if len(self.valid) <= FEW_HOLDERS else self.nearby.meeting(region)

    @property
    def nearby(self) -> Nearby:
        if self._nearby is None:
            self._nearby = Nearby(self.valid)
        return self._nearby

    @property
    def pitches_held(self) -> frozenset[tuple[int, ...]]:
        """Those of the holders' regions."""
        if self._pitches_held is None:
            self._pitches_held = frozenset([region.pitches for _, region in self.valid])
        return self._pitches_held

    def replica(self, worker: int) -> tuple[int, int] | None:
        """Start and stop of the worker's replica, None if it has none."""
        for owner, start, stop in self.replicas:
            if owner == worker:
                return start, stop
        return None

    @property
    def initialised(self) -> Region:
        """The bytes that have a holder, or are pending."""
        if self._initialised is None:
            held = [region for _, region in self.valid]
            self._initialised = Region.union([*held, *(item.region for item in self.pending)])
        return self._initialised

    def followed_by(
        self,
        valid: Iterable[tuple[int, Region]],
        replicas: Iterable[tuple[int, int, int]],
        pending: Iterable[Pending] = (),
    ) -> BufferState:
        """The state of the same buffer with its bytes in these places."""
        return buffer_state(self.nbytes, valid, replicas, self.kept, pending=pending)

    def __repr__(self) -> str:
        def name(holder: int) -> str:
            return "host" if holder == HOST else f"worker {holder}"

        held = ", ".join(f"{name(holder)}: {region}" for holder, region in self.valid) or "nothing valid"
        memory = ", ".join(f"{name(worker)} has [{start}, {stop})" for worker, start, stop in self.replicas)
        way = "" if self.kept is None else f"; kept on {name(self.kept)}"
        way += "; fine-grain" if self.fine else ""
        for item in self.pending:
            way += f"; pending {item.op} of {item.dtype} at {', '.join(name(holder) for holder, _ in item.parts)}"
        return f"<{self.nbytes} bytes; {held}{'; ' + memory if memory else ''}{way}>"

    def __reduce__(self) -> tuple[object, Content]:
        return buffer_state, (
            self.nbytes,
            self.valid,
            self.replicas,
            self.kept,
            self.fine,
            self.pending,
        )


#: states of new and of whole buffers, kept for the next ones
_MOST_KEPT = 256
_interned: WeakValueDictionary[Content | tuple[object, ...], BufferState] = WeakValueDictionary()
_interning = threading.Lock()


def buffer_state(
    nbytes: int,
    valid: Iterable[tuple[int, Region]] = (),
    replicas: Iterable[tuple[int, int, int]] = (),
    kept: int | None = None,
    fine: bool = False,
    pending: Iterable[Pending] = (),
) -> BufferState:
    """The one state with this content. A new buffer is `buffer_state(nbytes)`.

    Nothing initialised, no device memory.
    """
    held = tuple(sorted((h, r) for h, r in valid if r))
    return interned((nbytes, held, tuple(sorted(replicas)), kept, fine, tuple(sorted(pending))))


@lru_cache(maxsize=_MOST_KEPT)
def new_state(nbytes: int) -> BufferState:
    """The state of a new buffer, of which nothing is initialised. Programs make many of few sizes."""
    return buffer_state(nbytes)


@lru_cache(maxsize=_MOST_KEPT)
def unwritten_state(nbytes: int, replicas: Replicas, kept: int | None = None) -> BufferState:
    """The state of a buffer that has device memory, and of which nothing is initialised."""
    return buffer_state(nbytes, (), replicas, kept)


@lru_cache(maxsize=_MOST_KEPT)
def whole_state(nbytes: int, worker: int, kept: int | None = None) -> BufferState:
    """The state of a buffer that one worker has whole, and nobody else any of it."""
    return buffer_state(nbytes, ((worker, Region.span(0, nbytes)),), ((worker, 0, nbytes),), kept)


def interned(content: Content) -> BufferState:
    """The one state of this content, which is in order."""
    with _interning:
        state = _interned.get(content)
        if state is None:
            state = _interned[content] = BufferState(*content)
    return state


def mapped_state(before: BufferState, found: Labelled) -> BufferState:
    """The state of the same buffer, of which nothing is pending, with the same replicas, whose bytes lie as a map says. One
    for each map: another one with equal content, made of regions, may be another object.
    """
    key = (before.nbytes, found, before.replicas, before.kept)
    with _interning:
        state = _interned.get(key)
        if state is None:
            state = _interned[key] = BufferState(before.nbytes, found, before.replicas, before.kept)
    return state


def kept_on(state: BufferState, worker: int | None) -> BufferState:
    """The state with the same bytes in the same places, kept on `worker`, or on none."""
    if state.kept == worker:
        return state
    return buffer_state(state.nbytes, state.valid, state.replicas, worker, state.fine, state.pending)


def fine_grain_state(
    nbytes: int, replicas: Iterable[tuple[int, int, int]] = (), kept: int | None = None
) -> BufferState:
    """The one state of a fine-grain buffer with these replicas, as it is between commands."""
    return buffer_state(nbytes, ((HOST, Region.span(0, nbytes)),), replicas, kept, fine=True)


class Draft:
    """A buffer's state while a command is planned. Every method keeps the invariants that `check` tests."""

    __slots__ = ("_changed", "_nearby", "before", "nbytes", "pending", "replicas", "valid")

    nbytes: int
    before: BufferState  #: the state it started from
    valid: dict[int, Region]  #: by holder; empty regions may stand here
    replicas: dict[int, tuple[int, int]]  #: by worker
    #: by operation and type, by holder; empty regions may stand here
    pending: dict[tuple[str, str], dict[int, Region]]

    def __init__(self, state: BufferState) -> None:
        self.nbytes = state.nbytes
        self.valid = dict(state.valid)
        self.replicas = {worker: (start, stop) for worker, start, stop in state.replicas}
        self.pending = {(item.op, item.dtype): dict(item.parts) for item in state.pending}
        self.before = state
        self._changed = False
        #: what holders have, or may have had; None until it is needed
        self._nearby: Nearby | None = None

    @property
    def is_changed(self) -> bool:
        """Whether anything has been done to the state that it started from."""
        return self._changed

    def has_same_bytes(self) -> bool:
        """Whether each holder has what it had in that state, as the same regions."""
        if not self._changed:
            return True
        valid, before = self.valid, self.before.valid
        if sum(map(bool, valid.values())) != len(before):
            return False
        return all(valid.get(holder) is held for holder, held in before)

    def freeze(self) -> BufferState:
        """The state reached; for a fine-grain buffer, whose changes have been brought home, the state between
        commands.
        """
        if not self._changed:
            return self.before
        replicas = ((worker, start, stop) for worker, (start, stop) in self.replicas.items())
        if self.before.fine:
            return fine_grain_state(self.nbytes, replicas, self.before.kept)
        if not self.pending:
            return self.before.followed_by(self.valid.items(), replicas)
        return self.before.followed_by(self.valid.items(), replicas, self._pending())

    def _pending(self) -> Iterator[Pending]:
        for (op, dtype), parts in self.pending.items():
            left = tuple((holder, part) for holder, part in sorted(parts.items()) if part)
            if left:
                yield Pending(op, dtype, left)

    def become(self, state: BufferState) -> None:
        """Hold what that state of the same buffer holds; it has the same replicas."""
        self.valid = dict.fromkeys(self.valid, EMPTY) | dict(state.valid)
        self.pending = {(item.op, item.dtype): dict(item.parts) for item in state.pending}
        self._changed = self._changed or state is not self.before

    def valid_at(self, holder: int) -> Region:
        return self.valid.get(holder, EMPTY)

    def initialised(self) -> Region:
        """The bytes that have a holder now, or are pending."""
        if not self.pending:
            return Region.union(self.valid.values())
        parts = [part for of_kind in self.pending.values() for part in of_kind.values()]
        return Region.union([*self.valid.values(), *parts])

    def part_of(self, holder: int) -> Region:
        """The bytes at which `holder` has a part of a reduction."""
        return Region.union(parts.get(holder, EMPTY) for parts in self.pending.values())

    def pend(self, op: str, dtype: str, parts: Mapping[int, Region]) -> None:
        """From now on these holders have parts of a reduction, besides those that others have of the same one.

        Together, each byte has at least two, and is valid nowhere.
        """
        region = Region.union(parts.values())
        self._lose(region)
        known = self.pending.setdefault((op, dtype), {})
        for holder, part in parts.items():
            known[holder] = known.get(holder, EMPTY) | part
        self._changed = True

    def near(self, region: Region) -> Iterator[tuple[int, Region]]:
        """The holders that may have bytes of `region`, with what they hold, all that do among them."""
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
        """The bytes of `region` that are valid only at `holder`."""
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
        self._lose(region)
        self._drop_parts(region)

    def _lose(self, region: Region) -> None:
        """`region` is no longer valid anywhere."""
        for holder, held in self.near(region):
            if held.overlaps(region):
                self.valid[holder] = held - region
                self._changed = True

    def _drop_parts(self, region: Region) -> None:
        """What was pending there has been overwritten, or folded."""
        for parts in self.pending.values():
            for holder, part in parts.items():
                if part.overlaps(region):
                    parts[holder] = part - region
                    self._changed = True

    def own(self, holder: int, region: Region) -> None:
        """`region` was written at `holder`: it alone holds it."""
        self.forget(region)
        self.add(holder, region)

    def own_each(self, owns: Sequence[tuple[int, Region]]) -> None:
        """What was written at each holder, in disjoint regions, only that holder has from now on."""
        written = [(holder, region) for holder, region in owns if region]
        if self.pending:
            self._drop_parts(Region.union(region for _, region in written))
        lost, everything = self._losing(written), EMPTY
        for holder, regions in lost.items():
            gone = Region.union(regions) if len(regions) <= len(written) // 2 else everything
            # since everybody may have everything; each holder gets back what it owns at once
            if not gone:
                gone = everything = Region.union([region for _, region in written])
            held = self.valid[holder]
            if held.overlaps(gone):
                self.valid[holder] = held - gone
                self._changed = True
        for holder, region in written:
            self.add(holder, region)

    def _losing(self, written: Sequence[tuple[int, Region]]) -> dict[int, Sequence[Region]]:
        """By holder, what others write of what it may have. Where most have something of what one writes, all count as losing most of it:
        to look at each of them for each writer would be to look at n times n.
        """
        lost: dict[int, list[Region]] = {}
        for owner, region in written:
            near = list(self.near(region))
            if len(near) > max(FEW_HOLDERS, len(written) // 2):
                most = [each for _, each in written]
                return dict.fromkeys([holder for holder, held in self.valid.items() if held], most)
            for holder, held in near:
                if holder != owner and held.start < region.stop and region.start < held.stop:
                    lost.setdefault(holder, []).append(region)
        return dict(lost)

    def drop(self, holder: int, region: Region) -> None:
        """`region` is no longer valid at `holder`. The caller has made sure that it is valid elsewhere."""
        held = self.valid_at(holder)
        if held.overlaps(region):
            self.valid[holder] = held - region
            self._changed = True

    def narrow(self, holder: int, region: Region) -> None:
        """Of what `holder` has, only `region` is valid there from now on. The caller has made sure that the rest is valid
        elsewhere.
        """
        self.valid[holder] = region
        self._changed = True

    def reserve(self, worker: int, start: int, stop: int) -> Region:
        """The worker's replica is [start, stop) from now on (nothing where they are equal).

        Returns the bytes that remain, valid ones and parts of reductions. ValueError where one of these would be lost.
        """
        part = self.part_of(worker) if self.pending else EMPTY
        if part and not (start <= part.start and part.stop <= stop):
            raise ValueError(f"worker {worker} has a part of a reduction outside of [{start}, {stop})")
        if start == stop:
            self.replicas.pop(worker, None)
        else:
            self.replicas[worker] = (start, stop)
        kept = self.valid_at(worker).clip(start, stop)
        self.valid[worker] = kept
        self._changed = True
        return kept | part if part else kept


def check(state: BufferState) -> None:
    """Raise AssertionError if an invariant does not hold. Tests call it on every state that a plan leaves."""
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
    _check_pending(state)
    content = (state.nbytes, state.valid, state.replicas, state.kept, state.fine, state.pending)
    found = state.labelled
    same = buffer_state(*content)
    assert same is state or (found is not None and mapped_state(state, found) is state), "interned"
    assert contents(same) == contents(state)


def contents(state: BufferState) -> Content:
    """Everything that a state says. Two states have equal contents if they say the same."""
    return state.nbytes, state.valid, state.replicas, state.kept, state.fine, state.pending


def _check_pending(state: BufferState) -> None:
    known = Region.union(region for _, region in state.valid)
    assert not (state.fine and state.pending), "a fine-grain buffer has its content at home"
    assert [(item.op, item.dtype) for item in state.pending] == sorted(
        {(item.op, item.dtype) for item in state.pending}
    ), "each kind of reduction once"
    for item in state.pending:
        holders = [holder for holder, _ in item.parts]
        assert holders == sorted(set(holders)), "each part once, ascending"
        assert not known.overlaps(item.region), "pending bytes are valid nowhere, and of one reduction"
        known = known | item.region
        for index, (holder, part) in enumerate(item.parts):
            assert part, "no empty parts"
            assert part.whole(np.dtype(item.dtype).itemsize) == part, "whole elements"
            others = [other for at, (_, other) in enumerate(item.parts) if at != index]
            assert Region.union(others).contains(part), "two parts at least"
            replica = state.replica(holder)
            assert holder == HOST or (replica and Region.span(*replica).contains(part)), "inside the replica"
