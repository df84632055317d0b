"""What becomes of a launch's records: which are findings of their own, and which are explained by others."""

from __future__ import annotations

import pytest
from vdev.translators.dialects.checked import translate_checked
from vdev.translators.dialects.checked.program import Kind
from vdev.translators.frontend.source import parse_program
from vdev.translators.ranges.ndrange import NDRange

from vdev.harness.reading import Reader, Record

SOURCE = (
    "kernel void k(local int *b, int n) { int l = get_local_id(0); b[l] = n; if (l == 0) b[l] += b[l + 1]; }"
)


@pytest.mark.parametrize(
    ("race", "kinds"),
    [
        (Kind.ITEMS, ["race-between-items"]),  # the value that is read is another with other schedules
        (Kind.SAME_ITEMS, ["same-value-race", "unwritten-value"]),  # what was there by chance is no excuse
        (None, ["unwritten-value"]),
    ],
)
def test_a_race_explains_what_is_read_too_early(race: Kind | None, kinds: list[str]) -> None:
    program = translate_checked(parse_program(SOURCE))
    kernel = program.kernels["k"]
    written = next(site.number for site in program.sites if site.text == "b[l]" and site.action == "write")
    read = next(site.number for site in program.sites if site.text == "b[l + 1]")
    found = [Record(Kind.UNWRITTEN_LOCAL, read, 0, 0, 0, 0, 0, 4, 4, 1)]
    if race is not None:
        found.append(Record(race, written, 0, 0, 1, read, 1, 4, 4, 1))
    findings = Reader(program, SOURCE).findings(kernel, found, NDRange((2,), (2,), (0,)), (8,))
    assert sorted(finding.kind for finding in findings) == kinds
