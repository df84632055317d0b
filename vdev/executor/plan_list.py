"""All calls of a compiled plan as one list, on all its workers, with no Python in between (`vdev.backends.call_lists`).

Decides what of the list is made for a command: which fences are put, and who waits for whom; and what it means where a call is
refused: the same as where calls are made one by one (`vdev.executor.legs`).

The list, all places whose calls depend on the command being left out at first:
    for each worker     go to it, put its fence          others wait for what it was given before this command
    for each leg        go to its worker                 going to a worker is left out until its back end says that it is needed
                        wait for another worker          one place for each; only in its worker's first leg, and in one that is aside
                        wait for fences of this plan
                        open what is aside               if it is an interior
                        the calls of its steps
                        close what is aside              if it is that
                        put the fence                    if others wait for it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vdev.backends.base import Marker
from vdev.backends.call_lists import CallList, DriverCall, NoWalker, walker
from vdev.backends.compiling import WAITED_FOR, CompilingBackend, ListedCall
from vdev.executor.legs import Changed, CompilingExecutor, Leg

if TYPE_CHECKING:
    from vdev.errors import BackendError
    from vdev.executor.job import Job
    from vdev.executor.mark import Mark, Moving
    from vdev.executor.orders import Edge
    from vdev.executor.prepare import Batch
    from vdev.executor.worker import Worker

#: (worker, another one, its step): what the first has to wait for
Need = tuple["Worker", "Worker", int]


class ListedLeg:
    """One leg in the list: the places of its calls, and what is known of it while they are made."""

    __slots__ = (
        "after", "after_at", "backend", "before", "begin", "calls", "closing", "coherent", "counted", "fences", "first",
        "from_peer", "is_aside", "is_last", "last", "launches", "leg", "mark", "number", "opening", "operations", "orders",
        "start", "starts", "stop", "waits", "worker",
    )  # fmt: skip

    def __init__(self, leg: Leg, calls: Sequence[ListedCall], start: int, *, first: bool) -> None:
        """`first`: of its worker's."""
        backend = leg.worker.compiling
        assert backend is not None, "plans are compiled for such back ends alone"
        self.leg, self.backend, self.calls, self.start, self.first = leg, backend, calls, start, first
        self.worker, self.number, self.after, self.coherent = (
            leg.worker,
            leg.worker.number,
            leg.after,
            leg.coherent,
        )
        self.fences, self.last, self.is_last = leg.fences, leg.last, leg.is_last
        self.is_aside = leg.is_aside
        self.operations = sum(call.operations * len(call.calls) for call in calls)
        counted: dict[str, int] = {}
        for call in calls:
            for name, more in call.counted:
                counted[name] = counted.get(name, 0) + more
        self.launches, self.from_peer = counted.pop("launches", 0), counted.pop("from_peer", 0)
        self.counted = tuple(counted.items())
        #: places: of waits, by worker; of each step's first call, which is the first's for `begin`; the end
        self.waits: dict[int, int] = {}
        self.after_at = self.begin = self.stop = 0
        #: places of calls that open and close what is aside
        self.opening = self.closing = range(0)
        self.starts: list[int] = []
        #: of the command that is handed over: what its worker is ordered after, (worker, step); its operations and mark before
        self.orders: list[tuple[int, int]] = []
        self.before = 0
        self.mark: Mark = leg.worker.next_mark

    def lay_out(self, others: Sequence[int]) -> list[DriverCall]:
        """The calls, with waits for these workers, and their places."""
        backend, leg = self.backend, self.leg
        found = [backend.entry()]  # at `start`
        for other in others:
            self.waits[other] = self.start + len(found)
            found.append(backend.waiting(0, aside=self.is_aside))
        self.after_at = self.start + len(found)
        for worker in leg.after:
            assert worker.compiling is not None, "all workers of a plan are compiled for"
            found.append(backend.waiting(worker.compiling.fence_event()))
        if leg.opens:
            self.opening = self._add(found, backend.opening())
        self.begin = self.start + len(found)
        for call in self.calls:
            self.starts.append(self.start + len(found))
            found += call.calls
        if leg.is_aside:
            self.closing = self._add(found, backend.closing())
        if leg.fences:
            found.append(backend.fencing())
        self.stop = self.start + len(found)
        return found

    def _add(self, found: list[DriverCall], calls: Sequence[DriverCall]) -> range:
        """The places of calls that are added to those `found`."""
        first = self.start + len(found)
        found += calls
        return range(first, first + len(calls))

    def handed_over(self, base: int, command: Moving) -> int:
        """Its calls were made for a command, with `base` steps of its worker's before: what is pending then."""
        worker, backend = self.worker, self.backend
        before = backend.pending()
        pending = backend.made(self.operations, self.launches)
        if self.from_peer:
            backend.counters.from_peer += self.from_peer
        if self.counted:
            _count(backend, self.counted)
        worker.issued = base + self.last
        if self.coherent:
            worker.next_mark.moves += [(command, step, before, pending) for step in self.coherent]
        for other in self.after:
            worker.ordered[other.number] = other.fenced
        if self.fences:
            worker.fenced = worker.issued
        return pending

    @property
    def is_plain(self) -> bool:
        """Whether it is all that its worker has to do, and concerns no other one."""
        return (
            self.first and self.is_last and not (self.coherent or self.after or self.fences or self.from_peer)
        )

    def call_at(self, place: int) -> int:
        """The number of the step's call that a place belongs to."""
        return max((number for number, start in enumerate(self.starts) if start <= place), default=0)


class PlanList:
    """The calls of a compiled plan."""

    __slots__ = (
        "_aside_legs", "_calls", "_end", "_enters", "_every", "_first_legs", "_go_to", "_head", "_legs", "_made_as",
        "_markers", "_put", "_waits", "_workers",
    )  # fmt: skip

    def __init__(
        self,
        legs: Sequence[Leg],
        calls: Sequence[Sequence[ListedCall]],
        workers: Sequence[Worker],
        go_to: Callable[[Worker], object],
    ) -> None:
        """`calls`: of each leg. `workers`: all that the executor compiles plans for. `go_to`: has the thread work with a worker's back
        end from now on. Raises NoWalker.
        """
        walking = walker()
        self._workers, self._go_to = workers, go_to
        self._enters = False  #: whether the list goes to each worker
        self._legs: list[ListedLeg] = []
        #: by worker: the first one, where waits are for all of them, and the one aside, where they are not for the interior
        self._first_legs: dict[int, ListedLeg] = {}
        self._aside_legs: dict[int, ListedLeg] = {}
        found = self._lay_out(legs, calls)
        self._end = len(found)
        optional = {*range(self._head)}
        for made in self._legs:
            optional |= {made.start, *made.waits.values()}
        self._calls = listed = CallList(walking, found, optional, keeps=calls)
        #: by leg and another worker: places that are filled in
        self._waits = {
            made: {other: listed.place(at, WAITED_FOR) for other, at in made.waits.items()}
            for made in (*self._first_legs.values(), *self._aside_legs.values())
        }
        for made in self._legs:
            for call, start in zip(made.calls, made.starts, strict=True):
                call.was_listed(listed, start)
        self._every = [call for of_leg in calls for call in of_leg]
        #: words of places that are not left out for the command that is handed over
        self._put: list[int] = []
        self._markers: dict[int, Marker] = {}  #: by such a word: what is waited for, if it is no fence
        #: what these words are put for, where that comes again
        self._made_as: Edge | None = None

    def _lay_out(self, legs: Sequence[Leg], calls: Sequence[Sequence[ListedCall]]) -> list[DriverCall]:
        """All calls, in order: those that each worker begins with, and those of each leg."""
        found: list[DriverCall] = []
        for worker in self._workers:
            assert worker.compiling is not None, "plans are compiled where all workers can take part"
            found += [worker.compiling.entry(), worker.compiling.fencing()]
        self._head = len(found)
        for leg, of_leg in zip(legs, calls, strict=True):
            number = leg.worker.number
            made = ListedLeg(leg, of_leg, len(found), first=number not in self._first_legs)
            waits = made.first or made.is_aside
            found += made.lay_out(
                [other.number for other in self._workers if waits and other is not leg.worker]
            )
            self._legs.append(made)
            self._first_legs.setdefault(number, made)
            if made.is_aside:
                self._aside_legs[number] = made
        return found

    def is_usable(self, needs: Sequence[Need]) -> bool:
        """Whether the calls can be made from the list just now. With the turns of the plan's workers, and of those that they wait for."""
        for made in self._first_legs.values():
            if not made.backend.takes_lists():
                return False
        for _, other, _ in needs:
            if other.number in self._first_legs:
                continue
            if other.compiling is None or not other.compiling.takes_lists():
                return False
        return True

    def hand_over(
        self,
        executor: CompilingExecutor,
        job: Job,
        needs: Sequence[Need],
        changed: Changed,
        left: dict[int, Batch],
    ) -> bool:
        """Make the calls for a command; False if a fence that others wait for was refused: then nothing of it was handed over. Under the
        lock, with the turns. Raises BackendError where a fence of the plan's own was refused.

        `left`: by worker, what is not handed over yet.
        """
        self._take_out()
        self._markers.clear()  # an interrupt may have left some
        fences = self._order(needs)
        if changed:
            for call in self._every:
                call.set_values(changed)
        self._begin(job)
        return self._were_made(executor, job, fences, self._make(), left)

    def _were_made(
        self,
        executor: CompilingExecutor,
        job: Job,
        fences: Sequence[Worker],
        place: int,
        left: dict[int, Batch],
    ) -> bool:
        """The calls up to that place were made for a command. `fences`: of these workers, which were to be put first. As `hand_over`."""
        if place < self._head:
            for made in self._legs:
                made.worker.current = None
            return False
        for worker in fences:
            worker.fenced = worker.issued
        for number, made in enumerate(self._legs):
            if made.stop > place:
                self._fail(executor, job, number, place, left)
                break
            self._was_made(job, made, left)
        self._markers.clear()
        return True

    def repeat(self, changed: Changed) -> tuple[int, BackendError | None]:
        """Make the calls for a command that waits for nothing: how many legs' calls were made, in the plan's order, and why the next one's
        was refused. The back ends are not told. With the turns of the plan's workers.
        """
        if self._put:
            self._take_out()
        if changed:
            for call in self._every:
                call.set_values(changed)
        place = self._make()
        if place == self._end:
            return len(self._legs), None
        at = next(number for number, made in enumerate(self._legs) if made.stop > place)
        made = self._legs[at]
        return at, made.backend.refused(self._calls.result, made.calls[made.call_at(place)].what)

    def _take_out(self) -> None:
        """Leave out what depends on the command."""
        words = self._calls.words
        for at in self._put:
            words[at] = 0
        self._put, self._made_as = [], None

    def _put_in(self, edge: Edge) -> None:
        """Put what a command with that edge waits for."""
        self._take_out()
        self._markers.clear()
        words, workers = self._calls.words, self._workers
        for number in edge.fences:
            self._put_fence(workers[number])
        for number, other in edge.waits:
            place, backend = (
                self._waits[self._leg_waiting(edge, number, other)][other],
                workers[other].compiling,
            )
            assert backend is not None, "plans wait for such workers alone"
            words[place.parameter], words[place.at] = backend.fence_event(), place.function
            self._put.append(place.at)
        self._made_as = edge

    def make_as(self, edge: Edge, changed: Changed) -> int:
        """Make the calls for a command that waits for what its `edge` says: up to which place they were made; `end` if all were. Nothing
        else is done, and the back ends are not told (`legs`, `conclude`). With the turns of all workers concerned.
        """
        if self._made_as is not edge:
            self._put_in(edge)
        if changed:
            for call in self._every:
                call.set_values(changed)
        return self._make()

    def _leg_waiting(self, edge: Edge, number: int, other: int) -> ListedLeg:
        """The leg in which a worker waits for another one."""
        aside = None if (number, other) in edge.early else self._aside_legs.get(number)
        return self._first_legs[number] if aside is None else aside

    def is_begun(self, place: int) -> bool:
        """Whether any of a command's own calls were made, where they were made up to that place."""
        return place >= self._head

    def conclude(
        self, executor: CompilingExecutor, job: Job, edge: Edge, place: int, left: dict[int, Batch]
    ) -> bool:
        """Not all of a command's calls were made, which came after `make_as`: go on as `hand_over` does."""
        for made in self._legs:
            made.orders = []
        fences = [self._workers[number] for number in edge.fences]
        for number, other in edge.waits:
            worker = self._workers[other]
            self._leg_waiting(edge, number, other).orders.append(
                (other, worker.issued if worker in fences else worker.fenced)
            )
        self._begin(job)
        return self._were_made(executor, job, fences, place, left)

    @property
    def legs(self) -> Sequence[ListedLeg]:
        """The legs, in the order in which they are made."""
        return self._legs

    @property
    def end(self) -> int:
        """The place behind the last call."""
        return self._end

    def _make(self) -> int:
        """Make the calls of all places, up to one that is refused and may not be: its place; or the end."""
        end, place = self._end, 0
        if self._enters:
            self._go_to(self._legs[-1].worker)  # which notes where the thread comes from
        place = self._calls.make_all()
        while place < end:
            if self._has_to_enter(place):
                self._enter()
                self._go_to(self._at(place))
                place = self._calls.make(place, end)
            elif self._is_let_pass(place):
                place = self._calls.make(place + 1, end)
            else:
                break
        if self._enters:
            self._go_to(self._legs[-1].worker)  # wherever the list has left the thread
        return place

    def _order(self, needs: Sequence[Need]) -> list[Worker]:
        """Put what is waited for into the list; the workers whose fences are put first, in the list as well."""
        words, put = self._calls.words, self._put
        fences: list[Worker] = []
        for made in self._waits:
            if made.orders:
                made.orders = []
        for worker, other, step in needs:
            number = other.number
            if worker.ordered.get(number, 0) >= step:
                continue  # everything handed over since then waits for that step or a later one
            made = self._first_legs[worker.number]
            place = self._waits[made][number]
            if other.fenced < step and other not in fences:
                marker = other.mark_near(step)
                if marker is not None:  # nearer than a new fence, which would be behind all that came since
                    made.orders.append((number, step))
                    event = made.backend.event_of(marker)
                    if event is None:
                        self._go_to(worker)
                        made.backend.order_after(marker)
                    elif event:
                        words[place.parameter], words[place.at] = event, place.function
                        put.append(place.at)
                        self._markers[place.at] = marker
                    continue
                fences.append(other)
                self._put_fence(other)
            assert other.compiling is not None, "plans wait for such workers alone"
            words[place.parameter], words[place.at] = other.compiling.fence_event(), place.function
            put.append(place.at)
            made.orders.append((number, other.issued if other in fences else other.fenced))
        return fences

    def _put_fence(self, worker: Worker) -> None:
        """Have a worker's fence put before the legs."""
        place = self._calls.place(2 * self._workers.index(worker) + 1)
        self._calls.words[place.at] = place.function
        self._put.append(place.at)

    def _has_to_enter(self, place: int) -> bool:
        """Whether a call was refused because the thread works with another back end, or with none."""
        backend = self._at(place).compiling
        return not self._enters and backend is not None and backend.is_elsewhere(self._calls.result)

    def _enter(self) -> None:
        """Have the list go to each worker from now on."""
        self._enters = True
        for number in (*range(0, self._head, 2), *(made.start for made in self._legs)):
            place = self._calls.place(number)
            self._calls.words[place.at] = place.function

    def _at(self, place: int) -> Worker:
        """The worker whose call is at a place."""
        return self._workers[place // 2] if place < self._head else self._leg_at(place).worker

    def _begin(self, job: Job) -> None:
        """Note where each worker is before the calls."""
        for made in self._legs:
            worker = made.worker
            worker.current = job
            if made.coherent:
                made.mark, made.before = worker.next_mark, made.backend.pending()

    def _is_let_pass(self, place: int) -> bool:
        """Whether a call that was refused is one that may be: it is done in another way, or what follows is refused as well."""
        if place < self._head:
            return place % 2 == 0  # going to a worker
        made = self._leg_at(place)
        if place == made.start:
            return True
        if place in made.opening or place in made.closing:
            self._go_to(made.worker)
            return made.backend.settle_aside(opened=place in made.closing)
        if place >= made.begin:
            return self._is_let_pass_in(made, place)
        self._go_to(made.worker)
        marker = self._markers.get(self._calls.place(place).at)
        if marker is not None:
            made.backend.order_after(marker)
        else:
            made.backend.order_after_fence(self._waited_for(made, place).backend, aside=made.is_aside)
        return True

    def _is_let_pass_in(self, made: ListedLeg, place: int) -> bool:
        """The same of a call of the leg's own."""
        number = made.call_at(place)
        call, at = made.calls[number], place - made.starts[number]
        return at < len(call.calls) and call.is_let_pass(at)

    def _leg_at(self, place: int) -> ListedLeg:
        return next(made for made in self._legs if place < made.stop)

    def _waited_for(self, made: ListedLeg, place: int) -> Worker:
        """The worker whose fence the wait at a place is for."""
        for number, at in made.waits.items():
            if at == place:
                return next(worker for worker in self._workers if worker.number == number)
        return made.leg.after[place - made.after_at]

    def _was_ordered(self, made: ListedLeg) -> None:
        """A leg's waits were handed over."""
        ordered = made.leg.worker.ordered
        for number, step in made.orders:
            ordered[number] = step
        for other in made.leg.after:
            ordered[other.number] = other.fenced

    def _was_made(self, job: Job, made: ListedLeg, left: dict[int, Batch]) -> None:
        """All of a leg was handed over."""
        worker, backend = made.worker, made.backend
        if made.orders or made.after:
            self._was_ordered(made)
        backend.made(made.operations, made.launches)
        if made.from_peer:
            backend.counters.from_peer += made.from_peer
        if made.counted:
            _count(backend, made.counted)
        if made.coherent:
            made.leg.enter(job, made.coherent, made.before, made.mark)
        else:
            worker.issued = job.bases[made.number] + made.last
        if made.fences:
            worker.fenced = worker.issued
        if made.is_last:
            worker.finish(job)
            del left[made.number]

    def _fail(
        self, executor: CompilingExecutor, job: Job, number: int, at: int, left: dict[int, Batch]
    ) -> None:
        """The call at a place in a leg was refused, and all before it were made: go on as where they are made one by one."""
        made, rest = self._legs[number], self._legs[number + 1 :]
        leg, backend, result = made.leg, made.backend, self._calls.result
        self._was_ordered(made)
        if leg.fences and at == made.stop - 1:
            backend.made(made.operations)
            _count(backend, [pair for each in made.calls for pair in each.counted])
            leg.enter(job, leg.coherent, made.before, made.mark)
            raise backend.refused(result, "a fence")
        call = made.call_at(at)
        backend.made(sum(each.operations * len(each.calls) for each in made.calls[: call + 1]))
        _count(backend, [pair for each in made.calls[:call] for pair in each.counted])
        self._go_to(made.worker)
        leg.fail(executor, job, call, backend.refused(result, made.calls[call].what), made.before, made.mark)
        if leg.is_aside:
            leg.close()
        _finish(job, leg, left)
        for later in rest:
            self._go_alone(executor, job, later)
            _finish(job, later.leg, left)

    def _go_alone(self, executor: CompilingExecutor, job: Job, made: ListedLeg) -> None:
        """A command has failed: hand over what has to be handed over of a leg all the same."""
        made.leg.worker.current = job
        place = self._calls.make(made.start, made.begin)
        while place < made.begin and self._is_let_pass(place):
            place = self._calls.make(place + 1, made.begin)
        self._go_to(made.worker)
        self._was_ordered(made)
        made.leg.go(executor, job, ())


def _finish(job: Job, leg: Leg, left: dict[int, Batch]) -> None:
    """A leg was handed over."""
    if leg.is_last:
        leg.worker.finish(job)
        del left[leg.worker.number]


def _count(backend: CompilingBackend, counted: Sequence[tuple[str, int]]) -> None:
    counters = backend.counters
    for name, more in counted:
        setattr(counters, name, getattr(counters, name) + more)


def listed(
    legs: Sequence[Leg], workers: Sequence[Worker], go_to: Callable[[Worker], object]
) -> PlanList | None:
    """The calls of these legs as one list; None where there can be none. With the turns. `go_to`: as in `PlanList`."""
    calls = [leg.listed for leg in legs]
    if not all(isinstance(worker.compiling, CompilingBackend) for worker in workers):
        return None
    found = [of_leg for of_leg in calls if of_leg]
    if len(found) != len(legs):
        return None
    try:
        return PlanList(legs, found, workers, go_to)
    except NoWalker:
        return None
