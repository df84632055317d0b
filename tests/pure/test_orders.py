"""What plans in a row wait for (`vdev.executor.orders`), compared with what comes before what when the fences and waits are carried out."""

from __future__ import annotations

import random

import pytest
from vdev.translators.ranges.region import Region

from vdev.executor import orders
from vdev.executor.orders import Accesses, Edge, Leg, Order, Orders

BUFFERS = "abcd"
ANYWHERE = Region.span(0, 8)


class Carried:
    """Workers that carry plans out: of each, how many steps of the others' whatever it does next comes after."""

    def __init__(self, count: int) -> None:
        self.steps = [0] * count
        self.after = [[0] * count for _ in range(count)]
        self.fences = [[0] * count for _ in range(count)]
        self.written: dict[tuple[str, int], int] = {}
        self.read: dict[tuple[str, int], dict[int, int]] = {}
        #: what others have read of a replica since it was changed last: the reader's step, and the bytes
        self.bytes_read: dict[tuple[str, int], list[tuple[int, int, Region]]] = {}
        self.late = 0  #: waits that an interior did without

    def put_fence(self, worker: int) -> None:
        self.fences[worker] = [*self.after[worker]]
        self.fences[worker][worker] = self.steps[worker]

    def wait(self, worker: int, other: int) -> None:
        self.after[worker] = [*map(max, self.after[worker], self.fences[other])]

    def carry_out(self, plan: Accesses, edge: Edge) -> None:
        """AssertionError where something comes before what it needs, or is not needed to come after."""
        for worker in edge.fences:
            self.put_fence(worker)
        for worker, other in edge.early:
            assert (worker, other) in edge.waits
            self.wait(worker, other)
        for buffer, worker, region in plan.interiors:
            for reader, step, read in self.bytes_read.get((buffer, worker), ()):
                if reader != worker and read.overlaps(region):
                    assert self.after[worker][reader] >= step, "an interior changes bytes too early"
        self.late += len([wait for wait in edge.waits if wait not in edge.early])
        for worker, other in edge.waits:
            self.wait(worker, other)
        for buffer, holder, reader, _ in plan.reads:
            assert self.after[reader][holder] >= self.written.get((buffer, holder), 0), "read too early"
        for buffer, worker, _ in plan.changes:
            for reader, step in self.read.get((buffer, worker), {}).items():
                assert reader == worker or self.after[worker][reader] >= step, "changed too early"
        before = [*self.steps]
        for leg in plan.legs:
            for other in leg.after:
                self.wait(leg.worker, other)
            self.steps[leg.worker] = before[leg.worker] + leg.last
            if leg.fences:
                self.put_fence(leg.worker)
        for buffer, worker, last in plan.changes:
            self.written[buffer, worker] = before[worker] + last
            self.read.pop((buffer, worker), None)
            self.bytes_read.pop((buffer, worker), None)
        for buffer, holder, reader, last in plan.reads:
            self.read.setdefault((buffer, holder), {})[reader] = before[reader] + last
            region = plan.regions.get((buffer, holder, reader), ANYWHERE)
            found = self.bytes_read.setdefault((buffer, holder), [])
            found.append((reader, before[reader] + last, region))


def random_plan(drawn: random.Random, count: int) -> Accesses:
    """On some workers, which change buffers of theirs and read others' replicas of other buffers; fences of some precede others' legs."""
    workers = drawn.sample(range(count), drawn.randint(1, count))
    changed = drawn.sample(BUFFERS, drawn.randint(0, 2))
    steps = {worker: drawn.randint(1, 3) for worker in workers}
    changes = [
        (buffer, worker, drawn.randint(1, steps[worker]))
        for worker in workers
        for buffer in changed
        if drawn.random() < 0.8
    ]
    others = [buffer for buffer in BUFFERS if buffer not in changed]
    reads = [
        (buffer, holder, worker, drawn.randint(1, steps[worker]))
        for worker in workers
        for holder in range(count)
        for buffer in others
        if holder != worker and drawn.random() < 0.3
    ]
    fencing = {worker for worker in workers[:-1] if drawn.random() < 0.3}
    legs = []
    for at, worker in enumerate(workers):
        after = [other for other in workers[:at] if other in fencing and drawn.random() < 0.5]
        legs.append(Leg(worker, steps[worker], after, worker in fencing))
    regions = {read[:3]: random_region(drawn) for read in reads if drawn.random() < 0.8}
    interiors = [
        (buffer, worker, random_region(drawn))
        for buffer, worker, _ in changes
        if not fencing and drawn.random() < 0.5
    ]
    return Accesses(changes, reads, legs, regions, interiors)


def random_region(drawn: random.Random) -> Region:
    start = drawn.randrange(8)
    return Region.span(start, drawn.randint(start + 1, 8))


#: by program: waits that interiors did without
late_waits: list[int] = []


def carry_out(seed: int, periods: int = 12) -> int:
    """Hand a random period of plans over again and again, with others in between now and then; how many edges were worked out in the
    second half.
    """
    drawn = random.Random(seed)
    count = drawn.randint(2, 4)
    plans = [random_plan(drawn, count) for _ in range(drawn.randint(1, 6))]
    known, carried = Orders(count), Carried(count)
    order: Order = known.root
    late = 0
    for period in range(periods):
        for number, plan in enumerate(plans):
            edge = order.edges.get(number)
            if edge is None:
                edge = known.after(order, number, plan)
                late += period >= periods // 2
            carried.carry_out(plan, edge)
            order = edge.order
    late_waits.append(carried.late)
    return late


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_nothing_comes_too_early_and_periods_are_recognised(first: int) -> None:
    late_waits.clear()
    assert [seed for seed in range(first, first + 100) if carry_out(seed)] == []
    assert sum(map(bool, late_waits)) > 20


@pytest.mark.parametrize(
    "defect",
    [
        "no waits",
        "no readers",
        "old fences",
        "fences inside forgotten",
        "only the last bytes",
        "no early waits",
    ],
)
def test_a_defect_is_found(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs, advance, go_through = orders._needs, orders.advance, orders._go_through
    if defect == "no waits":
        monkeypatch.setattr(orders, "_needs", lambda written, readers, plan: needs({}, readers, plan))
    elif defect == "no readers":
        monkeypatch.setattr(orders, "_needs", lambda written, readers, plan: needs(written, {}, plan))
    elif defect == "old fences":
        monkeypatch.setattr(orders, "advance", lambda *given: ((), *advance(*given)[1:]))
    elif defect == "no early waits":
        monkeypatch.setattr(orders, "_early", lambda *given: frozenset())
    elif defect == "only the last bytes":
        read = orders._read
        monkeypatch.setattr(orders, "_read", lambda accesses, readers, regions: read(accesses, (), regions))
    else:  # the plan's own fences are taken to be behind all of it

        def forgetful(legs, top, ordered, fenced):  # type: ignore[no-untyped-def]
            go_through(legs, top, ordered, fenced)
            for leg in legs:
                for other in range(len(top)):
                    ordered[leg.worker, other] = top[other]

        monkeypatch.setattr(orders, "_go_through", forgetful)
    with pytest.raises(AssertionError, match="too early"):
        sum(map(carry_out, range(200)))


def test_one_plan_again_and_again_needs_no_order() -> None:
    plan = Accesses(
        [("a", 0, 1), ("a", 1, 1)], (), [Leg(0, 1, (), fences=False), Leg(1, 1, (), fences=False)]
    )
    known = Orders(2)
    first = known.after(known.root, "plan", plan)
    assert (first.fences, first.waits) == ((), ())
    assert known.after(first.order, "plan", plan).order is first.order


def test_plans_that_leave_the_same_order_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "_MOST_EDGES", 8)
    plan = Accesses(
        [("a", 0, 1), ("a", 1, 1)], (), [Leg(0, 1, (), fences=False), Leg(1, 1, (), fences=False)]
    )
    known = Orders(2)
    order = known.root
    for number in range(100):
        order = known.after(order, number, plan).order
        assert sum(len(each.edges) for each in {id(each): each for each in (order, known.root)}.values()) <= 9
