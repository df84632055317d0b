"""Where launches are cut whose work-groups take unequal times: the profile of the work, and programs on simulated GPUs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vdev.translators.ranges.ndrange import Chunk

from tests.pure.test_choosing import Program
from vdev.observe.explain import as_text
from vdev.observe.snapshots import of_session
from vdev.planner.balance import Balance, WorkProfile, cut_at, cut_dimension
from vdev.planner.partitioner import make_partition

# profiles ---------------------------------------------------------------------------------------


@st.composite
def measurements(draw: st.DrawFn) -> tuple[int, list[tuple[tuple[int, ...], list[float]]]]:
    """A number of groups, and cuts of them with the seconds of their chunks."""
    ngroups = draw(st.integers(8, 500))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        inner = draw(st.sets(st.integers(1, ngroups - 1), min_size=1, max_size=7))
        edges = (0, *sorted(inner), ngroups)
        found.append((edges, [draw(st.floats(1e-6, 1.0)) for _ in edges[1:]]))
    return ngroups, found


@given(measurements(), st.integers(1, 8))
def test_a_profile_foretells_what_was_measured_last(case, count):
    ngroups, measured = case
    profile = WorkProfile(ngroups)
    for edges, seconds in measured:
        profile.measured(edges, seconds)
        assert profile.foretell(edges) == pytest.approx(max(seconds))
        for (start, stop), took in zip(pairwise(edges), seconds, strict=True):
            assert profile.foretell((start, stop)) == pytest.approx(took)
    edges = profile.even(count)
    assert (edges[0], edges[-1], len(edges)) == (0, ngroups, count + 1)
    assert all(start < stop for start, stop in pairwise(edges))


@given(st.integers(0, 2), st.integers(2, 6), st.data())
def test_cuts_elsewhere_cover_the_same_groups(dimension, count, data):
    groups = data.draw(st.tuples(*[st.integers(8, 40)] * 3))
    cuts = tuple(count if number == dimension else 1 for number in range(3))
    even = make_partition(groups, cuts)
    inner = data.draw(st.sets(st.integers(1, groups[dimension] - 1), min_size=count - 1, max_size=count - 1))
    edges = (0, *sorted(inner), groups[dimension])
    found = cut_at(groups, even, edges)
    assert cut_dimension(groups, found.chunks) == dimension
    seen = np.zeros(groups, int)
    for chunk in found.chunks:
        seen[tuple(map(slice, chunk.start, chunk.stop))] += 1
    assert (seen == 1).all()


def test_grids_are_left_alone():
    groups = (8, 8)
    grid = make_partition(groups, (2, 2))
    balance = Balance()
    assert not balance.wants(groups, grid.chunks, (0, 1, 2, 3), 1)
    assert balance.find(groups, grid, (0, 1, 2, 3)) is None


@pytest.mark.parametrize("seed", range(20))
def test_before_the_launch_that_it_names_none_is_looked_at(seed: int):
    """Whatever was measured: nobody has to ask before, unless launches are cut anew."""
    rng = np.random.default_rng(seed)
    balance, groups, quiet = Balance(), (64,), 0
    halves = make_partition(groups, (2,)).chunks
    skipped = 0
    for number in range(2000):
        wanted = balance.wants(groups, halves, (0, 1), number)
        if number < quiet:
            assert not wanted, number
            skipped += 1
            continue
        quiet = balance.looks_again(groups, halves, (0, 1))
        if wanted and balance.wants_sample(groups, halves, (0, 1), number) and rng.random() < 0.9:
            seconds = (1e-4, 1e-4 * float(rng.uniform(0.98, 1.02)))
            balance.measured(groups, halves, (0, 1), seconds, 0.0, number, number)
    assert skipped > 1000
    grid = make_partition((8, 8), (2, 2))
    assert balance.looks_again((8, 8), grid.chunks, (0, 1, 2, 3)) > 1 << 40, "it never is"


def test_index_spaces_that_never_come_again_are_not_measured():
    balance, measured = Balance(), []
    for number in range(40):
        groups = (400 - number,)
        halves = make_partition(groups, (2,)).chunks
        assert balance.wants(groups, halves, (0, 1), number) == balance.wants_sample(
            groups, halves, (0, 1), number + 1
        )
        balance.measured(groups, halves, (0, 1), (1e-4, 1e-4), 0.0, number + 1, number + 1)
        measured.append(balance.wants(groups, halves, (0, 1), number + 1))
    assert any(measured[:4])
    assert not any(measured[18:])
    groups = (361,)
    halves = make_partition(groups, (2,)).chunks
    assert balance.wants_sample(groups, halves, (0, 1), 60), "it comes again"


NO_CUTS = [
    [[8], 0, [0, 1], [0, 4, 4, 8], 1e-3, 1e-2],
    [[8], 0, [0, 1], [0, 9], 1e-3, 1e-2],
    [[8], 0, [0, 1], [0, 5, 9], 1e-3, 1e-2],
    [[8], 0, [0, 1], [1, 5, 8], 1e-3, 1e-2],
    [[8], 0, [0, 1], [0, 5.0, 8], 1e-3, 1e-2],
    [[8], 1, [0, 1], [0, 5, 8], 1e-3, 1e-2],
    [[8], 0, [0, 1], [0, 5, 8], float("inf"), 1e-2],
    [[8], 0, [0, 1], [0, 5, 8], 1e-3, "soon"],
    [[8], 0, [0, 1], 7, 1e-3, 1e-2],
]


@pytest.mark.parametrize("entry", NO_CUTS)
def test_what_is_no_cut_is_not_taken(entry):
    with pytest.raises((ValueError, TypeError)):
        Balance().take([entry])


def test_the_launch_in_hand_when_cuts_change_is_cut_as_before():
    """Its plan was found before, and says nothing against the new cuts."""
    groups, evenly, workers = (64,), make_partition((64,), (2,)), (0, 1)
    balance = Balance()
    for number in (1, 2):
        changed = balance.measured(groups, evenly.chunks, workers, (1e-2, 3e-2), 0.0, number, number)
    assert changed
    found = balance.find(groups, evenly, workers)
    for _ in range(3):
        assert not balance.measured(groups, evenly.chunks, workers, (1e-2, 3e-2), 0.0, 3, 4)
    assert balance.find(groups, evenly, workers) == found


def foreseen():
    """Launches of 64 work-groups on two workers, of which the last are most of the work; and where they are cut by the bounds of
    their loops.
    """
    balance, evenly = Balance(), make_partition((64,), (2,))
    profile = WorkProfile.foreseen((0, 32, 64), (1e-4, 3e-4))
    found = balance.find((64,), evenly, (0, 1), lambda _: profile, ())
    assert found.edges == (0, 43, 64)
    return balance, evenly, found


def test_cuts_that_were_too_dear_for_a_few_launches_are_not_for_many():
    """They are known from the kernel's loops: that data had to be moved for them says nothing against them."""
    balance, evenly, found = foreseen()
    for number in (2, 3):
        changed = balance.measured((64,), evenly.chunks, (0, 1), (1e-2, 3e-2), 0.0, number, 1000)
    assert changed
    again = balance.find((64,), evenly, (0, 1), None, ())
    assert again.edges == found.edges
    assert again.worth > 5 * found.worth


def test_cuts_that_are_foreseen_and_gain_nothing_are_given_up():
    balance, evenly, _ = foreseen()
    for number in (2, 3):
        changed = balance.measured((64,), evenly.chunks, (0, 1), (2e-2, 2e-2), 0.0, number, 1000)
    assert not changed
    assert balance.find((64,), evenly, (0, 1), None, ()) is None


def test_what_is_moved_for_cuts_is_soon_looked_at():
    """As many launches as there were would have gained what may be spent: the first of those that spend it are measured."""
    balance, evenly, _ = foreseen()
    for number in (2, 3):
        balance.measured((64,), evenly.chunks, (0, 1), (1e-2, 3e-2), 0.0, number, 1000)
    elsewhere = cut_at((64,), evenly, balance.find((64,), evenly, (0, 1), None, ()).edges).chunks
    for number in (1001, 1002):
        assert balance.wants((64,), elsewhere, (0, 1), number)
        balance.measured((64,), elsewhere, (0, 1), (2e-2, 2e-2), 0.2, number, number)
    assert balance.find((64,), evenly, (0, 1), None, ()) is None


def test_cuts_that_stay_are_there_in_the_next_run():
    groups, chunks, workers = (64,), make_partition((64,), (2,)).chunks, (0, 1)
    balance = Balance()
    for number in (1, 2):
        assert balance.news() is None
        changed = balance.measured(groups, chunks, workers, (1e-2, 3e-2), 0.0, number, number)
    assert changed
    found = balance.find(groups, make_partition(groups, (2,)), workers)
    elsewhere = cut_at(groups, make_partition(groups, (2,)), found.edges).chunks
    for number in (3, 4):
        balance.measured(groups, elsewhere, workers, (2e-2, 2e-2), 0.0, number, number)
    kept = json.loads(json.dumps(balance.news()))
    assert balance.news() is None
    later = Balance()
    later.take(kept)
    assert later.news() is None
    again = later.find(groups, make_partition(groups, (2,)), workers)
    assert (again.edges, again.gain) == (found.edges, pytest.approx(1e-2, rel=0.2))


# programs ---------------------------------------------------------------------------------------

ROWS = 4096
SOURCE = """
kernel void uneven(global float *out, global const float *in, int step) {
    int x = get_global_id(0), y = get_global_id(1);
    out[y * 64 + x] = in[y * 64 + x] + step;
}
kernel void even(global float *out, global const float *in) {
    int x = get_global_id(0), y = get_global_id(1);
    out[y * 64 + x] = in[y * 64 + x] * 2;
}
"""
Density = Callable[[np.ndarray], np.ndarray]


def triangle(x: np.ndarray) -> np.ndarray:
    return x


def peak(x: np.ndarray) -> np.ndarray:
    """As the rows of a fractal: some forty times as much in the middle."""
    return 0.1 + 4 * np.exp(-(((x - 0.45) / 0.1) ** 2))


def tail(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0.97, 60.0, 1.0)


def flat(x: np.ndarray) -> np.ndarray:
    return np.ones_like(x)


def rows(density: Density, seconds: float) -> Callable[[Chunk], float]:
    """What a chunk of rows takes, of a launch that takes so many seconds on one worker."""
    work = density((np.arange(ROWS) + 0.5) / ROWS)
    done = np.concatenate(([0.0], np.cumsum(work))) * seconds / work.sum()
    return lambda chunk: float(done[chunk.stop[1]] - done[chunk.start[1]])


class Rows:
    """A program over `ROWS` rows of 64 floats."""

    def __init__(
        self, density: Density, seconds: float = 4e-3, *, even: float = 0.0, workers: int = 4
    ) -> None:
        per_item = {"uneven": rows(density, seconds), "even": even / (64 * ROWS)}
        self.program = Program(SOURCE, per_item, workers=workers)
        self.machine = self.program.machine
        self.a, self.b = (self.program.buffer(4 * 64 * ROWS) for _ in range(2))

    def run(self, name: str, step: int = 0, *, back: bool = False) -> float:
        """Seconds of one launch."""
        before = self.program.wait()
        pair = (self.b, self.a) if back else (self.a, self.b)
        more = (np.int32(step),) if name == "uneven" else ()
        self.program.launch(name, (64, ROWS), (64, 1), *pair, *more)
        return self.program.wait() - before

    def widths(self) -> list[int]:
        """Rows of each worker in the last launch."""
        return [chunk.stop[1] - chunk.start[1] for _, chunk in self.program.plans[-1].partition]


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
@pytest.mark.parametrize("density", [triangle, peak, tail])
def test_uneven_rows_take_as_long_as_even_ones_would(density: Density, workers: int) -> None:
    case = Rows(density, workers=workers)
    with case.program:
        took = [case.run("uneven") for _ in range(60)]
    ideal = 4e-3 / workers
    near = (
        1.35 if density is tail and workers == 2 else 1.15
    )  # half of the work in so few rows is found step by step
    assert took[-1] <= near * ideal
    assert sum(took[24:]) <= 1.05 * near * ideal * len(took[24:])


def test_even_rows_stay_as_they_are() -> None:
    case = Rows(flat)
    with case.program:
        for _ in range(60):
            case.run("uneven")
        assert case.widths() == [ROWS // 4] * 4
        assert len(set(map(id, case.program.plans[2:]))) == 1, "nothing is planned anew"


@pytest.mark.parametrize("step", [0, 1], ids=["the same numbers", "a step among them"])
def test_there_and_back_between_two_buffers(step: int) -> None:
    """Launches on two buffers in turn: rows of either move once."""
    case = Rows(triangle)
    with case.program:
        took = [case.run("uneven", step * number, back=number % 2 == 1) for number in range(120)]
    assert took[-1] <= 1.1e-3
    assert took[-2] <= 1.1e-3
    assert sum(took) <= 120 * 1.2e-3


def test_unequal_workers_get_what_they_can() -> None:
    """One has half its units taken: of seven equal parts it gets one, and each of three others two."""
    case = Rows(flat)
    case.machine.slower[1] = 2.0
    with case.program:
        took = [case.run("uneven") for _ in range(40)]
        assert case.widths()[1] == pytest.approx(ROWS / 7, rel=0.1)
    assert took[-1] <= 1.1 * 4e-3 * 2 / 7


def test_launches_are_not_recut_if_that_moves_more_than_it_gains() -> None:
    """Another kernel wants even cuts of the same rows, over slow links."""
    case = Rows(triangle, 200e-6, even=100e-6)
    case.machine.peer_rate = 1e9
    with case.program:
        took = 0.0
        for _ in range(150):
            took += case.run("uneven") + case.run("even", back=True)
    evenly = (200e-6 * 7 / 16 + 100e-6 / 4) * 150
    assert took <= 1.1 * evenly + 25e-3  # not each launch is weighed that loses


def test_cuts_that_do_not_help_are_given_up() -> None:
    """Times that say nothing of the work: a worker is slow when a launch is cut evenly, and another one when it is not."""
    case = Rows(flat)
    number = iter(range(1 << 30))

    def whims(chunk: Chunk) -> float:
        return 2e-3 if next(number) % 4 == 0 and chunk.start[1] != ROWS // 4 else 1e-3

    case.machine.per_item["uneven"] = whims  # type: ignore[index]
    with case.program:
        for _ in range(300):
            case.run("uneven")
        anew = len(set(map(id, case.program.plans)))
    assert anew <= 24


@pytest.mark.parametrize("bad", [{1}, {1, 2}, {2, 5, 6}, {1, 4, 7, 10}, {3}], ids=str)
@pytest.mark.parametrize("how", ["the other way round", "even", "too long", "too short"])
def test_samples_that_are_wrong_mislead_nobody(bad: set[int], how: str) -> None:
    """Some launches seem to take what they do not, as where a worker waits for its host between two marks."""
    case = Rows(triangle, 430e-6, workers=2)
    right = rows(triangle, 430e-6)
    launches = 0

    def wrong(chunk: Chunk) -> float:
        nonlocal launches
        first = chunk.start[1] == 0
        launches += first
        if launches not in bad:
            return right(chunk)
        times = {
            "the other way round": (417e-6, 150e-6),
            "even": (4e-3, 4.2e-3),
            "too long": (3e-3, right(chunk)),
            "too short": (right(chunk), 1e-6),
        }
        return times[how][not first]

    case.machine.per_item["uneven"] = wrong  # type: ignore[index]
    with case.program:
        for _ in range(300):
            case.run("uneven")
            assert case.widths()[0] >= ROWS // 2, "the first rows are the shortest"
        assert case.widths()[0] == pytest.approx(ROWS * 0.5**0.5, rel=0.06)


TRIANGULAR = (Path(__file__).parents[2] / "samples" / "triangular.py").read_text()


@pytest.mark.parametrize("workers", [2, 4])
def test_loop_bounds_tell_of_uneven_work_before_the_first_launch(workers: int) -> None:
    """Of a triangle, whose rows no launch has to be measured for."""
    n = 24576
    done = np.concatenate(([0.0], np.cumsum(np.arange(n) + 20.0)))
    done *= 430e-6 / done[-1]
    source = TRIANGULAR.partition('SOURCE = """')[2].partition('"""')[0]
    per_item = {"multiply": lambda chunk: float(done[chunk.stop[0]] - done[chunk.start[0]])}
    program = Program(source, per_item, workers=workers, options=("-DGROUP=64",))
    with program:
        buffers = [program.buffer(4 * size) for size in (n * (n + 1) // 2, n, n)]
        began = program.wait()
        for _ in range(400):
            program.launch("multiply", (64 * n,), (64,), *buffers)
        took = program.wait() - began
        chunks = [chunk for _, chunk in program.plans[0].partition]
        assert [chunk.stop[0] for chunk in chunks] == pytest.approx(
            [n * ((number + 1) / workers) ** 0.5 for number in range(workers)], rel=0.02
        )
        assert took <= 1.15 * 400 * 430e-6 / workers
        said = " ".join(as_text(of_session(program.session)).split())
    assert "cut by the bounds of its loops, into" in said


def test_work_that_changes_with_each_launch_is_not_predicted_anew_each_time() -> None:
    """Its plans are filled in, which cuts elsewhere would not let them be."""
    source = """kernel void rest(global float *a, const int first) {
        int i = get_global_id(0);
        for (int k = first + i; k < 65536; k++) a[i] += 1;
    }"""
    program = Program(source, {"rest": 1e-9}, workers=2)
    with program:
        a = program.buffer(4 << 16)
        for first in range(200):
            program.launch("rest", (1 << 16,), (64,), a, np.int32(first))
        program.wait()
        widths = [[chunk.ngroups for _, chunk in plan.partition] for plan in program.plans]
    assert widths[0][0] < 400, "the first groups do most"
    assert widths[-1] == [512, 512]


def test_the_report_says_where_launches_are_cut() -> None:
    case = Rows(triangle)
    with case.program:
        for _ in range(40):
            case.run("uneven")
        text = as_text(of_session(case.program.session)).replace("\n", " ")
    assert re.search(
        r"note: cut by measured times, into 5\d%, 2\d%, 1\d%, 1\d% of its work-groups", " ".join(text.split())
    )


def test_a_second_run_begins_with_the_cuts_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path))
    for first in (True, False):
        case = Rows(triangle)
        with case.program:
            took = [case.run("uneven") for _ in range(20)]
        assert (took[0] > 1.7e-3) is first
        assert took[-1] <= 1.1e-3
    other = Rows(triangle, workers=3)
    with other.program:
        assert other.run("uneven") > 1.3 * 4e-3 / 3, "other workers' cuts are not these"


def test_cuts_stay_where_short_chunks_were_late_at_first():
    """Devices that wait for their host take several times as long, the one that gets its chunk first the longest."""
    chunks = make_partition((64,), (2,)).chunks
    late, steady = [(195e-6, 58e-6), (58.8e-6, 31.6e-6), (27.3e-6, 21.7e-6)], [(65e-6, 31e-6)] * 3
    for seen, recuts in ((late, False), (steady, True)):
        balance = Balance()
        found = [balance.measured((64,), chunks, (0, 1), took, 0.0, 81, 80, 1e-3) for took in seen]
        assert any(found) == recuts
