"""What is asked of a pair: its mistake is found, named by its line and kind, and its twin raises no alarm."""

from __future__ import annotations

from tests.harness.pairs_form import Pair
from vdev.harness import Finding, FindingsError, Program


def findings(pair: Pair, source: str) -> tuple[Finding, ...]:
    kernel = Program(source, pair.options, report=pair.report).kernel("k")
    try:
        outputs = kernel(*pair.args, global_size=pair.global_size, local_size=pair.local_size)
    except FindingsError as error:
        return error.findings
    assert outputs.notes == (), outputs.notes
    assert outputs.findings == ()
    return ()


def check_mistake(pair: Pair) -> None:
    found = findings(pair, pair.faulty)

    assert {finding.kind for finding in found} == {pair.kind}
    assert {finding.place.line for finding in found} <= pair.lines


def check_twin(pair: Pair) -> None:
    assert findings(pair, pair.twin) == ()
