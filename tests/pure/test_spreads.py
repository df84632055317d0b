"""What many workers need alike is brought by the same plans as what they need one by one, and n workers do not cost n times n steps."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region
from vdev.translators.values import replace

from samples.benchmarks import planning_growth as growth
from tests.bytecodes import Bytecodes
from vdev.planner import candidates, launches
from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState, Draft, buffer_state, check
from vdev.planner.instructions import Fill, Launch, Plan, Touch
from vdev.planner.links import LinkCosts
from vdev.planner.spreads import spread_of, supply_alike

NBYTES = 1 << 14


def content(plan: Plan) -> dict[str, object]:
    return {name: getattr(plan, name) for name in Plan.__slots__}


def parts(rng: random.Random, holders: Sequence[int], kind: str) -> list[tuple[int, Region]]:
    """What holders have, disjoint, of blocks or of columns; some bytes nobody has."""
    width = NBYTES // len(holders) // 64 * 64 if kind == "blocks" else 64 * 4 // len(holders) // 4 * 4
    found = []
    for place, holder in enumerate(holders):
        start = place * width
        if kind == "blocks":
            part = Region.span(start, start + width - rng.choice((0, 0, 64)))
        else:
            part = Region.boxes(start, width, ((256, NBYTES // 256),))
        found.append((holder, part))
    return found


def random_state(rng: random.Random, nworkers: int) -> BufferState:
    holders = list(range(nworkers))
    if rng.random() < 0.3:
        holders.remove(rng.randrange(nworkers))
    if rng.random() < 0.3:
        holders.append(HOST)
    found = parts(rng, holders, rng.choice(("blocks", "columns")))
    if rng.random() < 0.2:  # two have the same bytes
        part = found[rng.randrange(len(found) - 1)][1]
        found[-1] = (found[-1][0], found[-1][1] | part.clip(part.start, part.start + 8))
    replicas = [(worker, 0, NBYTES) for worker in range(nworkers) if rng.random() < 0.9 or worker in holders]
    return buffer_state(NBYTES, found, replicas)


def random_links(rng: random.Random, nworkers: int) -> LinkCosts:
    kind = rng.randrange(8)
    if kind == 0:  # of two kinds, which have no links to each other
        return LinkCosts.between(
            [("a", 0.1)] * (nworkers // 2) + [("b", 0.1)] * (nworkers - nworkers // 2), host=1.0, per_run=8.0
        )
    if kind == 1:  # the home is as near as anybody
        return LinkCosts.uniform(nworkers, peer=1.0, per_run=8.0, direct=True)
    if kind == 2:  # some links are better than others
        costs = [
            [0.0 if a == b else 1.0 + (a * b % 3 == 1) for b in range(nworkers + 1)]
            for a in range(nworkers + 1)
        ]
        return LinkCosts(tuple(map(tuple, costs)))
    links = LinkCosts.uniform(nworkers, peer=0.1, per_run=64.0, direct=True)
    # as near as others, but by the home
    return replace(links, groups=(0,) * 5 + (1,) * (nworkers - 5)) if kind == 3 else links


def supplied(
    state: BufferState, links: LinkCosts, workers: Sequence[int], needed: Region, seed: int, *, alike: bool
) -> tuple[Plan, bool]:
    """The plan of a launch of which each chunk reads that; and whether it was brought to all at once."""
    rng = random.Random(seed)
    ends = [
        (holder, Region.span(0, 256)) for holder, _ in state.valid
    ]  # which one of these sends depends on what each has sent
    builder = PlanBuilder((state, buffer_state(NBYTES, ends, state.replicas)), links)
    for worker in workers:
        if rng.random() < 0.9 or builder.drafts[0].replicas.get(worker) is None:
            builder.reserve(0, worker, 0, NBYTES)
    kind, other = rng.randrange(12), rng.choice(workers)
    source, part = (
        rng.choice(state.valid) if rng.random() < 0.5 else state.valid[0]
    )  # the home, if that has any
    if kind < 3:  # somebody has done something with what a holder has to send, or gets
        touched = part if kind else Region.span(0, 64)
        builder._append(Fill(other, 0, touched, b"a"), (Touch(0, source, touched, kind != 1),))
    elif kind == 3:  # somebody has got a part of it already
        builder.make_valid(0, other, part)
    done = alike and supply_alike(builder, 0, workers, [needed] * len(workers))
    if not done:
        for worker in workers:
            builder.make_valid(0, worker, needed)
    last = workers[-1]
    builder.drafts[1].drop(last, Region.span(0, 256))
    if builder.drafts[1].replicas.get(last):
        builder.make_valid(1, last, Region.span(0, 256))
    for touched, (source, part) in product((False, True), state.valid):
        # has to wait for all that was sent from there, and all that came there
        region = Region.span(0, NBYTES) if touched else part
        builder._append(Fill(last, 0, region, b"b"), (Touch(0, source, region, True),))
    for worker in workers:
        base = (0, 0, builder.drafts[0].replicas[worker][0])
        builder.launch(
            Launch(worker, Chunk((worker,), (worker + 1,)), (base,)), (Touch(0, worker, needed, False),)
        )
    builder.drafts[0].own_each([(worker, Region.span(64 * worker, 64 * worker + 64)) for worker in workers])
    return builder.finish(), done


def test_plans_are_those_of_one_worker_after_the_other() -> None:
    supplied_at_once = 0
    for seed in range(500):
        rng = random.Random(seed)
        nworkers = rng.randrange(9, 20)
        state, links = random_state(rng, nworkers), random_links(rng, nworkers)
        start = rng.choice((0, 0, 512))
        needed = Region.span(start, NBYTES) if rng.random() < 0.8 else Region.boxes(start, 100, ((256, 40),))
        workers = list(range(nworkers))
        if rng.random() < 0.3:
            rng.shuffle(workers)
        found, done = supplied(state, links, workers, needed, seed, alike=True)
        wanted, _ = supplied(state, links, workers, needed, seed, alike=False)
        assert content(found) == content(wanted), seed
        for state_after in found.states:
            check(state_after)
        supplied_at_once += done
    assert 100 < supplied_at_once < 300


def test_everybody_loses_what_others_write() -> None:
    whole = Region.span(0, 4800)
    state = buffer_state(
        4800, [(worker, whole) for worker in range(12)], [(worker, 0, 4800) for worker in range(12)]
    )
    draft = Draft(state)
    written = [(worker, Region.boxes(8 * worker, 8, ((96, 20),))) for worker in range(12)]
    draft.own_each(written)
    everything = Region.union([region for _, region in written])
    for worker, region in written:
        assert draft.valid_at(worker) == (whole - everything) | region
    check(draft.freeze())


def plans(program: object, workers: int, launches_of: int) -> Iterator[Plan]:
    planner = growth.Planner(1 << 20, workers)
    kept: list[Plan] = []
    made = growth.plan_launch

    def plan(*args: object) -> Plan:
        kept.append(made(*args))  # type: ignore[arg-type]
        return kept[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "plan_launch", plan)
        for step in program(1 << 20, launches_of):  # type: ignore[operator]
            planner.launch(step)
    return iter(kept)


@pytest.mark.parametrize("program", growth.PROGRAMS, ids=lambda program: program.__name__)
def test_programs_have_the_plans_that_they_have_without(
    program: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list(plans(program, 12, 8))
    monkeypatch.setattr(launches, "supply_alike", lambda *_: False)
    monkeypatch.setattr(candidates, "spread_of", lambda *_: None)
    wanted = list(plans(program, 12, 8))
    assert [content(plan) for plan in found] == [content(plan) for plan in wanted]


def test_what_is_not_alike_is_no_spread() -> None:
    blocks = [(worker, Region.span(64 * worker, 64 * worker + 64)) for worker in range(12)]
    replicas = [(worker, 0, 1024) for worker in range(12)]
    whole, state = Region.span(0, 768), buffer_state(1024, blocks, replicas)
    spread = spread_of(state, [whole] * 12)
    assert spread is not None
    assert spread.everything == whole
    assert spread_of(state, [whole] * 8) is None  # few need it
    assert spread_of(state, [whole] * 11 + [Region.span(0, 700)]) is None  # one needs less
    assert spread_of(state, [whole] * 5 + [Region.span(0, 700)] + [whole] * 6) is None
    assert spread_of(state, [Region.span(0, 200)] * 12) is None  # few have it
    twice = [*blocks[:11], (11, Region.span(700, 768))]
    assert spread_of(buffer_state(1024, twice, replicas), [whole] * 12) is None  # two have some of it


def test_what_has_moved_meanwhile_is_no_longer_looked_at_as_it_was() -> None:
    blocks = [(worker, Region.span(64 * worker, 64 * worker + 64)) for worker in range(12)]
    state = buffer_state(768, blocks, [(worker, 0, 768) for worker in range(12)])
    for lost, holder, gained, alike in (
        (8, 5, 0, False),
        (64, 5, 0, False),
        (0, 5, 8, False),
        (0, HOST, 8, False),
        (0, 5, 0, True),
    ):
        builder = PlanBuilder((state,), LinkCosts.uniform(12, direct=True))
        builder.drafts[0].forget(Region.span(0, lost))
        builder.drafts[0].add(holder, Region.span(0, gained))
        assert supply_alike(builder, 0, range(12), [Region.span(0, 768)] * 12) is alike
        assert bool(builder.finish().instructions) is alike


def test_all_that_is_lacking_costs_what_its_pieces_do() -> None:
    rng = random.Random(1)
    for seed in range(60):
        nworkers = rng.randrange(9, 16)
        state, links = random_state(random.Random(seed), nworkers), random_links(rng, nworkers)
        spread = spread_of(state, [Region.span(0, NBYTES)] * nworkers)
        if spread is None:
            continue
        for target in (HOST, *range(nworkers)):
            held = sorted(
                (part for part in state.valid if part[0] != target),
                key=lambda item: links.per_byte[item[0]][target],
            )
            added, of_runs = 0.0, 5.0
            for source, part in held:
                added += part.nbytes * links.per_byte[source][target]
                of_runs += part.nruns * links.per_run
            nbytes = sum(part.nbytes for source, part in held if HOST not in (source, target))
            nruns = sum(part.nruns for _, part in held)
            assert spread.lacking(target, links, 5.0) == (added, of_runs, nruns, nbytes)


def test_what_everybody_needs_of_everybody_costs_what_workers_do() -> None:
    """Bytecodes of a launch that copies n * n pieces: no more than four times as many for four times as many workers."""

    def cost(workers: int) -> int:
        planner = growth.Planner(1 << 20, workers)
        counts = []
        for number, step in enumerate(growth.everybody(1 << 20, 7)):
            with Bytecodes() as counted:
                planner.launch(step)
            if number in (4, 6):
                assert planner.instructions == workers * workers
                counts.append(counted.count)
        return min(counts)

    assert cost(48) <= 4 * cost(12)
