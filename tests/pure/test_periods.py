"""Periods from one look of the program to the next: when one worker is tried, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vdev.planner.periods import Periods, Turn

MILLISECONDS = 1e-3  #: so short that none counts for more than one


class Program:
    """One whose periods take `split` milliseconds over several workers and `alone` on one, where the model foretells others."""

    def __init__(
        self, split: float, alone: float, *, model: tuple[float, float], change: float = 0.0
    ) -> None:
        self.split, self.alone, self.model, self.change = split, alone, model, change
        self.periods = Periods()
        self.is_split = True
        self.trials = 0
        self.milliseconds = 0.0
        self.kinds = 1

    def run(self, count: int, more: Callable[[int], float] = lambda number: 0.0) -> None:
        for number in range(count):
            took = (self.split if self.is_split else self.alone) + more(number)
            self.milliseconds += took
            kind = f"a period of kind {number % self.kinds}"
            if not self.periods.add(kind, took * MILLISECONDS, split=self.is_split):
                continue
            if self.is_split:
                split, one = (each * MILLISECONDS * self.periods.in_window for each in self.model)
                if self.periods.judge(split, one, self.change * MILLISECONDS) is Turn.TRY_ONE:
                    self.trials += 1
                    self.is_split = False
                    self.periods.begin_trial()
            elif self.periods.end() is Turn.SPLIT_AGAIN:
                self.is_split = True
                self.periods.changed()


def counted(periods: Periods, seconds: list[float]) -> Turn:
    """Periods over several workers, until something is to be done."""
    for took in seconds:
        took *= MILLISECONDS
        if periods.add("a period", took, split=True) and (turn := periods.compare()) is not Turn.GO_ON:
            return turn
    return Turn.GO_ON


def other_count(before: list[float], after: list[float]) -> tuple[Periods, Turn]:
    """Two workers, then four."""
    periods = Periods()
    assert counted(periods, before) is Turn.GO_ON
    periods.changed()
    periods.take_count(2)
    return periods, counted(periods, after)


def test_a_number_of_workers_with_longer_periods_is_left_soon() -> None:
    periods, turn = other_count([1.0] * 8, [9.0] * 3 + [1.1] * 5)  # the first do what is done once
    assert (turn, periods.former) == (Turn.FORMER_COUNT, 2)


def test_a_number_of_workers_with_shorter_periods_stays() -> None:
    periods, turn = other_count([1.0] * 8, [9.0] * 3 + [0.9] * 5)
    assert (turn, periods.former) == (Turn.GO_ON, 0), "it is asked no more"
    assert counted(periods, [2.0] * 40) is Turn.GO_ON


def test_numbers_of_workers_are_not_compared_by_periods_that_are_not_known() -> None:
    assert other_count([1.0] * 4, [9.0] * 3 + [2.0] * 40)[1] is Turn.GO_ON
    assert other_count([1.0] * 8, [1.0, 9.0] * 20)[1] is Turn.GO_ON
    periods = Periods()
    counted(periods, [1.0] * 8)
    periods.changed()
    periods.take_count(2)
    periods.changed()  # to one worker
    assert periods.former == 0


def test_one_worker_stays_where_its_periods_are_shorter() -> None:
    program = Program(1.4, 1.0, model=(0.5, 0.8))
    program.run(200)
    assert (program.is_split, program.trials) == (False, 1)
    assert program.milliseconds <= 1.2 * 200


def test_what_one_worker_does_without_is_charged_to_several() -> None:
    program = Program(1.4, 1.0, model=(0.5, 0.8))
    program.run(80)
    # By the model they gain 0.3 and have lost 0.4; the toll is for both, less what is forgotten since.
    assert program.periods.toll == pytest.approx(0.7 * MILLISECONDS, rel=0.1)
    program.periods.take_toll(split=True)
    program.run(10)
    assert program.periods.take_toll(split=True).host == pytest.approx(7.0 * MILLISECONDS, rel=0.1)
    assert program.periods.take_toll(split=True).host == 0, "once"


def test_several_workers_stay_where_the_rest_of_a_period_is_the_programs_own() -> None:
    """It takes ten times what launches do, in either way: trials cost next to nothing, and become rare."""
    program = Program(10.5, 10.8, model=(0.5, 0.8))
    program.run(5000)
    assert program.is_split
    assert 1 <= program.trials <= 5
    assert program.milliseconds <= 1.001 * 5000 * 10.5


def test_nothing_is_tried_where_all_of_the_rest_would_not_outweigh_the_gain() -> None:
    program = Program(0.75, 9.0, model=(0.5, 0.8))
    program.run(1000)
    assert program.trials == 0


def test_one_worker_is_tried_where_the_model_is_slow_to_say_that_several_lose() -> None:
    """A kernel of some microseconds, waited for each time: by the model it loses five by being split, and it really loses fifty."""
    program = Program(0.072, 0.028, model=(0.037, 0.032))
    program.run(100)
    assert (program.is_split, program.trials) == (False, 1)
    # 44 longer than on one, where 5 are foretold
    assert program.periods.toll == pytest.approx(0.039 * MILLISECONDS, rel=0.1)


def test_where_the_model_says_so_wrongly_trials_become_rare() -> None:
    program = Program(1.0, 1.2, model=(0.5, 0.4), change=1.0)
    program.run(5000)
    assert program.is_split
    assert 1 <= program.trials <= 5
    assert program.milliseconds <= 1.01 * 5000 * 1.0


def test_a_trial_goes_on_until_its_first_periods_are_over() -> None:
    """On one worker they do what is done once, and become shorter."""
    program = Program(1.4, 0.6, model=(0.5, 0.8))
    since = iter(range(1000))
    program.run(200, lambda number: 0.0 if program.is_split else 8.0 * 0.7 ** next(since))
    assert (program.is_split, program.trials) == (False, 1)


def test_a_trial_whose_periods_are_never_alike_ends() -> None:
    program = Program(1.4, 1.0, model=(0.5, 0.8))
    program.run(200, lambda number: 0.0 if program.is_split else 2.0 * (number % 3))
    assert program.is_split
    assert 1 <= program.trials <= 3


@pytest.mark.parametrize("model", [(0.5, 0.8), (0.8, 0.3)])
def test_a_trial_waits_until_changing_is_a_small_part_of_the_time(model: tuple[float, float]) -> None:
    program = Program(1.4, 1.0, model=model, change=20.0)
    program.run(280)
    assert program.trials == 0
    program.run(80)
    assert program.trials == 1


def test_of_long_periods_fewer_suffice() -> None:
    """A network of a few layers whose steps take 22 ms on two GPUs and 13 on one: in the first quarter of a second it is found out."""
    program = Program(22.0, 13.0, model=(6.0, 8.0))
    program.run(12)
    assert (program.is_split, program.trials) == (False, 1)
    program = Program(10.0, 13.0, model=(4.0, 8.0))
    program.run(60)
    assert program.is_split
    assert program.milliseconds <= 1.05 * 60 * 10.0


@pytest.mark.parametrize("kinds", [1, 2, 4, 7])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_a_trial_takes_until_each_kind_of_period_is_known(kinds: int, scale: float) -> None:
    program = Program(1.4 * scale, 1.0 * scale, model=(0.5 * scale, 0.8 * scale))
    program.kinds = kinds
    program.run(160)
    assert (program.is_split, program.trials) == (False, 1)


@pytest.mark.parametrize(("every", "stays"), [(5, True), (2, False)])
def test_a_few_periods_that_do_not_recur_do_not_keep_a_trial_from_deciding(every: int, stays: bool) -> None:
    """As where a program waits for its queue once in a while, between two reads of which there are many."""
    periods, numbers = Periods(), iter(range(1000))

    def until_full(milliseconds: float, *, split: bool) -> None:
        for number in numbers:
            kind = "a period" if number % every else f"period {number}"
            if periods.add(kind, milliseconds * MILLISECONDS, split=split):
                return

    turns = []
    for _ in range(4):
        until_full(1.0, split=True)
        turns.append(periods.judge(0.1 * 16 * MILLISECONDS, 0.3 * 16 * MILLISECONDS, 0.0))
    assert (Turn.TRY_ONE in turns) is stays
    if stays:
        periods.begin_trial()
        until_full(0.6, split=False)
        assert periods.end() is Turn.GO_ON
        assert periods.toll == pytest.approx(0.6 * MILLISECONDS), (
            "0.4 more than on one, where 0.2 less are foretold"
        )


def test_other_counts_are_compared_by_what_recurs() -> None:
    periods = Periods()
    for number in range(30):
        periods.add("a period" if number % 6 else f"period {number}", MILLISECONDS, split=True)
    periods.changed()
    periods.take_count(2)
    turns = []
    for number in range(30):
        kind = "a period" if number % 6 else f"another period {number}"
        if periods.add(kind, 1.2 * MILLISECONDS, split=True):
            turns.append(periods.compare())
    assert Turn.FORMER_COUNT in turns


def test_periods_that_are_not_alike_decide_nothing() -> None:
    program = Program(1.0, 1.0, model=(0.5, 0.8))
    program.run(1000, lambda number: float(number % 4))
    assert program.trials == 0


@pytest.mark.parametrize("noise", [[0.0, 0.5], [0.1, 0.6, 0.0, 0.3, 0.5]])
def test_periods_of_a_busy_host_decide_all_the_same(noise: list[float]) -> None:
    program = Program(1.5, 0.9, model=(0.5, 0.8))
    program.run(200, lambda number: noise[number % len(noise)] if program.is_split else 0.0)
    assert (program.is_split, program.trials) == (False, 1)


def test_periods_that_become_shorter_decide_nothing() -> None:
    """A solver whose steps are less and less work: on one worker they would look shorter for that."""
    program = Program(0.1, 0.2, model=(0.05, 0.08))
    program.run(40, lambda number: 4.0 * 0.92**number)
    assert program.is_split


def test_a_pause_of_the_programs_does_not_count() -> None:
    program = Program(1.4, 1.0, model=(0.5, 0.8))
    program.run(200, lambda number: 1000.0 * (number % 50 == 30))
    assert (program.is_split, program.trials) == (False, 1)


def test_one_worker_that_the_model_has_chosen_is_left_alone() -> None:
    program = Program(1.4, 1.0, model=(0.5, 0.8))
    program.is_split = False
    program.run(1000)
    assert not program.is_split


def test_folds_are_remembered_when_another_way_is_taken() -> None:
    periods = Periods()
    for _ in range(8):
        periods.add("a period", 1.0, split=True)
        periods.fold(0.25)
    periods.changed()
    periods.take_toll(split=False)
    for _ in range(4):
        periods.add("a period", 1.0, split=False)
    assert periods.take_toll(split=False).host == pytest.approx(1.0)
    periods.add("a period", 1.0, split=True)
    assert periods.take_toll(split=True).host == 0, "several workers are charged for the folds themselves"
