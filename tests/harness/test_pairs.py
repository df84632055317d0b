"""Every planted mistake is found, named by its line and kind; no twin raises an alarm."""

from __future__ import annotations

import pytest

from tests.harness.pairs import PAIRS
from tests.harness.pairs_form import Pair
from vdev.harness import Finding, FindingsError, Program
from vdev.harness.findings import KINDS

IDS = [pair.name for pair in PAIRS]


def findings(pair: Pair, source: str) -> tuple[Finding, ...]:
    kernel = Program(source, pair.options, report=pair.report).kernel("k")
    try:
        outputs = kernel(*pair.args, global_size=pair.global_size, local_size=pair.local_size)
    except FindingsError as error:
        return error.findings
    assert outputs.notes == (), outputs.notes
    assert outputs.findings == ()
    return ()


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_the_mistake_is_found_by_its_line(pair: Pair) -> None:
    found = findings(pair, pair.faulty)

    assert {finding.kind for finding in found} == {pair.kind}
    assert {finding.place.line for finding in found} <= pair.lines


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_the_twin_raises_no_alarm(pair: Pair) -> None:
    assert findings(pair, pair.twin) == ()


def test_every_kind_has_its_pairs() -> None:
    assert {pair.kind for pair in PAIRS} == set(KINDS) - {"compiler", "same-value-race"}
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
