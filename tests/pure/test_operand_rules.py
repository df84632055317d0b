"""What the analysis says an expression may give has what the specification says it gives: every operator and integer
function, every shape of operands (see `operand_cases`).

`OPERAND_SEED` sets the seed, which a failure names.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.scopes import Ways, byte_offset
from vdev.translators.interpreter.summaries import KernelSummary
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.symbolic.evaluation import explore, scope_of
from vdev.translators.symbolic.launch_numbers import Launch

from . import operand_cases
from .operand_cases import FAMILIES, Case

SEED = int(os.environ.get("OPERAND_SEED", random.randrange(1 << 30)))
#: Expressions of each family, and operands for each.
NCASES, NDRAWS = 100, 6
#: Work-items that are looked at together.
NITEMS = 6


def allowed(
    summary: KernelSummary, values: dict[int, int | float | bytes], nitems: int = 1
) -> list[tuple[int, int]]:
    """The intervals in which the kernel's one write may lie, for all work-items together."""
    assert not summary.one_worker, summary.one_worker
    (access,) = [access for access in summary.accesses if access.mode == "write"]
    if access.offset is None:
        return [(-(1 << 63), (1 << 63) - 1)]
    ways = Ways(
        scope_of(Launch(NDRange((nitems,), (1,), (0,)), Chunk((0,), (nitems,)), values, summary.merged))
    )
    found = []
    for start in ways.scopes(access.way):
        for scope, form in explore(start, lambda s: byte_offset(s, access.offset)):
            scope.domain.settle()
            found.append(scope.domain.bounds(form))
    return found


def packed(case: Case, values: Sequence[tuple[int, ...]]) -> dict[int, int | float | bytes]:
    pairs = zip(case.operands, values, strict=True)
    return {
        number: value[0] if operand.width == 1 else operand.pack(value)
        for number, (operand, value) in enumerate(pairs, 1)
    }


def describe(case: Case, values: Sequence[tuple[int, ...]]) -> str:
    return f"{case.text} with {operand_cases.parameters(case)} = {values} (OPERAND_SEED={SEED})"


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_within_what_the_analysis_allows(family: str) -> None:
    rng = random.Random(f"{SEED} {family}")
    cases = list(FAMILIES[family]())
    cases = rng.sample(cases, min(NCASES, len(cases)))
    program = parse_program(operand_cases.source(cases), ("-cl-std=CL2.0",))
    for number, case in enumerate(cases):
        alone, together = (analyse_kernel(program, f"{letter}{number}") for letter in "km")
        for _ in range(NDRAWS):
            values = operand_cases.draw(case, rng)
            check(case, values, allowed(alone, packed(case, values)))
        for _ in range(NDRAWS // 3):
            values = operand_cases.draw(case, rng)
            intervals = allowed(together, packed(case, values), NITEMS)
            for item in range(NITEMS):
                check(case, operand_cases.moved(case, values, item), intervals)


def check(case: Case, values: Sequence[tuple[int, ...]], intervals: list[tuple[int, int]]) -> None:
    expected = case.expected(values)
    inside = expected is None or any(low <= expected <= high for low, high in intervals)
    assert inside, f"{describe(case, values)} is {expected}, allowed {intervals}"
