"""Every planted mistake is found, named by its line and kind; no twin raises an alarm."""

from __future__ import annotations

import pytest

from tests.harness.pair_checks import check_mistake, check_twin
from tests.harness.pairs import PAIRS
from tests.harness.pairs_form import Pair
from vdev.harness.findings import KINDS

IDS = [pair.name for pair in PAIRS]


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_the_mistake_is_found_by_its_line(pair: Pair) -> None:
    check_mistake(pair)


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_the_twin_raises_no_alarm(pair: Pair) -> None:
    check_twin(pair)


def test_every_kind_has_its_pairs() -> None:
    assert {pair.kind for pair in PAIRS} == set(KINDS) - {"compiler", "same-value-race"}
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
