"""Programs that repeat a period, random ones and some that were slower on several GPUs than on one: what the choices cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from vdev.translators.ranges.ndrange import NDRange

from tests.pure.random_periods import FULL, Found, Program, Step, draw, run
from tests.pure.test_never_slower import PCIE, Bench, Case, Phases, Transforms, seconds, simulated_host
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND
from vdev.session.one_worker import OneWorker

#: what is lost at most until several workers are given up: seconds, and a part of the program
TO_NOTICE, PART = 8e-3, 0.1
#: of the time of one GPU, what the better of a program's last two quarters takes at most: one of them may hold a trial, and of two ways
#: that are as good the model may take the wrong one
SLOWER = 1.05


@pytest.fixture
def clocks() -> Iterator[list[Bench]]:
    with simulated_host() as benches:
        yield benches


def most_lost(program: Program, found: Found) -> float:
    """Seconds: of some bytes it takes longest to bring them where they are needed, there and back."""
    moving = 2 * program.buffers * (4 << program.log) / program.rate
    return TO_NOTICE + PART * sum(found.one) + moving


@pytest.mark.parametrize("seed", range(36))
def test_no_random_program_is_slower(seed: int) -> None:
    program = draw(seed)
    found = run(program, force=False)
    assert found.lost <= most_lost(program, found), program
    assert min(found.chosen[2] / found.one[2], found.chosen[3] / found.one[3]) <= SLOWER, program


def program(
    workers: int, rate: float, log: int, *period: tuple[str, int, tuple[int, ...], float], turns: bool = False
) -> Program:
    """Of kernel, work-items, buffers and seconds of each launch; in launches of another size, work-items take as long."""
    per_item: dict[str, float] = {}
    steps = []
    for kernel, nitems, buffers, each in period:
        steps.append(
            Step(kernel, nitems, buffers, (nitems,) if kernel in ("smooth", "rows", "columns") else ())
        )
        if kernel:
            per_item.setdefault(kernel, each / max(nitems, FULL))
    most = max(max(step.buffers) for step in steps if step.kernel != "residual") + 1
    return Program(workers, rate, log, most, tuple(steps), per_item, turns, 214)


def test_what_some_launches_of_a_period_gain_is_weighed_with_what_others_lose() -> None:
    """On one worker, launches that gain are looked at often, those that exchange more than they gain rarely."""
    n = 1 << 24
    drawn = program(
        4, PCIE, 24, ("smooth", n >> 2, (1, 3), 1.4e-4), ("smooth", n, (1, 0), 5.6e-4), ("columns", 4096, (2,), 1e-4),
        ("residual", n, (4, 2, 1), 6.5e-5), ("consume", n // 4, (2, 1), 2.9e-5), ("pick", n, (0, 1, 3), 2.3e-4),
        ("residual", n, (4, 1, 0), 6.5e-5),
    )  # fmt: skip
    found = run(drawn, force=False)
    assert found.chosen[1] <= 1.01 * found.one[1]
    assert found.chosen[3] <= 1.01 * found.one[3]


def test_a_look_weighs_launches_of_all_sizes() -> None:
    """One kernel has a short launch and a long one in each period: that the last was short says nothing of the period, which gains."""
    n = 1 << 24
    drawn = program(
        4, PCIE, 24, ("smooth", n, (0, 1), 2.1e-5), ("alone", n >> 5, (0,), 3.1e-5), ("", 0, (0,), 0.0),
        ("consume", n // 4, (3, 4), 2.1e-4), ("produce", n, (0, 2), 9e-6), ("smooth", n, (0, 4), 2.1e-5),
        ("alone", n, (2,), 1e-3), turns=True,
    )  # fmt: skip
    found = run(drawn, force=False)
    assert max(found.chosen) <= 0.4 * min(found.one)


def test_what_is_on_one_worker_does_not_hide_the_periods_of_what_is_not() -> None:
    """Of two groups of buffers one is given up, and the other one's launches are split: what waiting for them takes is seen."""
    n = 1 << 20
    drawn = program(
        4, 120e9, 20, ("rows", 1024, (1,), 1.6e-5), ("smooth", n >> 2, (4, 2), 1.8e-5), ("", 0, (0,), 0.0),
        ("produce", n, (3, 0), 1.9e-5), ("produce", n, (4, 1), 1.9e-5), ("residual", n, (5, 2, 4), 8e-6),
        ("rows", 1024, (1,), 1.6e-5),
    )  # fmt: skip
    found = run(drawn, force=False)
    assert found.chosen[3] <= 1.02 * found.one[3]


#: a cloud of particles on a plane, as large as in the benchmark
PARTICLES = Case("particles", 2048, 40, dict.fromkeys(("push", "deposit", "settle"), 2.4e-11))


@pytest.mark.parametrize("rate", [PEER_BYTES_PER_SECOND, PCIE])
def test_plans_that_are_made_once_are_no_reason_not_to_try_fewer_workers(
    clocks: list[Bench], rate: float
) -> None:
    """Eight are too many; over four, plans are made anew, but not with each step."""
    one, chosen = seconds(clocks, PARTICLES, 1), seconds(clocks, PARTICLES, 8, rate)
    assert sum(chosen) <= 0.95 * sum(one)
    assert chosen[1] <= 0.85 * one[1]


#: grids of 8192 by 8192 and coarser
GRIDS = Case(
    "multigrid", 8192, 20, dict.fromkeys(("sweep", "residual", "restriction", "prolongation"), 7.1e-12)
)


@pytest.mark.parametrize("workers", [4, 8])
def test_a_change_brings_all_that_belongs_together(clocks: list[Bench], workers: int) -> None:
    """Launches on the coarse grids lose, but the fine ones would move with them, and gain on two workers, which are taken at once where
    four lose.
    """
    one, chosen = seconds(clocks, GRIDS, 1), seconds(clocks, GRIDS, workers)
    assert sum(chosen) <= 0.9 * sum(one)
    assert chosen[1] <= 0.7 * one[1]


def test_a_launch_that_is_looked_at_twice_counts_once(clocks: list[Bench]) -> None:
    """Before it is submitted, to see whether it has to be, and then."""
    phases = Phases(clocks, 2)
    phases.run("light", 300)
    session = phases.bench.program.session
    tally = session.ledger.kernels[1, "light"]
    choosing, space = session.choosing, NDRange((phases.n,), (64,), (0,))
    assert choosing is not None
    buffers = [each.made for each in phases.buffers]
    assert buffers[0].account is not None
    choosing.times.timing(tally).look_again()
    for _ in range(3):
        assert not choosing.reconsider(space, tally, buffers)
        choosing.times.timing(tally).look_again()
    assert buffers[0].account.kernels[id(tally)][2] == tally.launches + 1


def test_looks_for_another_period_become_rarer(clocks: list[Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    see = OneWorker._see_again

    def looked(self: OneWorker, *args: object) -> bool:
        found = see(self, *args)  # type: ignore[arg-type]
        if found:
            seen.append(clocks[0].program.machine.seconds)
        return found

    monkeypatch.setattr(OneWorker, "_see_again", looked)
    transforms = Transforms(clocks, 2)
    transforms.upload()
    transforms.times(60, range(28))
    between = [after - before for before, after in itertools.pairwise(seen)]
    assert len(between) >= 2
    assert all(later >= 1.2 * before for before, later in itertools.pairwise(between))
