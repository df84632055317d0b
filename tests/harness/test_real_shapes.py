"""Shapes of real programs: mistakes are found by their line, and what is correct raises no alarm and leaves no note."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.pair_checks import check_mistake, check_twin
from tests.harness.pairs_form import Pair
from tests.harness.real_shapes import CORRECT, PAIRS
from vdev.harness import Program

IDS = [pair.name for pair in PAIRS]


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_the_mistake_is_found_by_its_line(pair: Pair) -> None:
    check_mistake(pair)


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_the_twin_raises_no_alarm(pair: Pair) -> None:
    check_twin(pair)


@pytest.mark.parametrize(("text", "args"), [case[1:] for case in CORRECT], ids=[case[0] for case in CORRECT])
def test_what_is_correct_raises_no_alarm(text: str, args: tuple[Any, ...]) -> None:
    outputs = Program(text).kernel("k")(*args, global_size=64, local_size=16)

    assert outputs.notes == ()


def test_checked_loops_are_not_unrolled() -> None:
    program = Program({name: text for name, text, _ in CORRECT}["loops that ask to be unrolled"])

    assert "pragma unroll" not in program.checked.program.source
