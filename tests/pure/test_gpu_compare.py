"""The comparison of a GPU's results: what counts as equal, and which side's values do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.gpu.compare import Outcome, compared
from tests.gpu.corpus import Case, all_cases, differences

CASE = Case(
    "doubled", "kernel void doubled(global int *a) {}", "doubled", (np.arange(4, dtype=np.int32),), (4,), None, (0,)
).stating(np.array([0, 2, 4, 6]))  # fmt: skip
RIGHT: Outcome = (np.array([0, 2, 4, 6], np.int32),)
WRONG: Outcome = (np.array([0, 2, 4, 7], np.int32),)
ERRING = replace(CASE, native_errs="7.0: the last one is doubled, too")


def verdicts(case: Case, native: Outcome, vdev: Outcome, *, alone: bool = False) -> list[str]:
    found = compared([case], {case.name: native}, {case.name: vdev}, alone=alone)
    return [entry["verdict"] for entry in found]


def test_a_native_run_is_the_reference_unless_it_is_known_to_err() -> None:
    assert verdicts(CASE, RIGHT, RIGHT) == []
    assert verdicts(CASE, WRONG, RIGHT) == ["differs"]
    assert verdicts(CASE, WRONG, WRONG) == []
    assert verdicts(CASE, "build: no", RIGHT) == []
    assert verdicts(CASE, "build: no", WRONG) == ["differs"]
    assert verdicts(CASE, WRONG, WRONG, alone=True) == ["differs"]


def test_stated_values_count_if_the_native_side_is_wrong() -> None:
    assert verdicts(ERRING, WRONG, RIGHT) == ["native errs"]
    assert verdicts(ERRING, RIGHT, RIGHT) == []
    assert verdicts(ERRING, RIGHT, WRONG) == ["differs"]
    assert verdicts(ERRING, WRONG, WRONG) == ["differs", "native errs"]
    assert verdicts(ERRING, WRONG, WRONG, alone=True) == ["native errs"]
    assert verdicts(ERRING, RIGHT, "run: failed") == ["fails"]
    same = compared([ERRING], {"doubled": WRONG}, {"doubled": WRONG}, alone=False, same_compiler=True)
    assert [entry["verdict"] for entry in same] == ["native errs"]
    same = compared([ERRING], {"doubled": WRONG}, {"doubled": RIGHT}, alone=False, same_compiler=True)
    assert [entry["verdict"] for entry in same] == ["differs", "native errs"]
    (_, entry) = compared([ERRING], {"doubled": WRONG}, {"doubled": WRONG}, alone=False)
    assert (entry["why"], entry["count"], entry["first"][0]["native"]) == (ERRING.native_errs, 1, "7")


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_infinity_is_the_number_after_the_largest_finite_one(kind: type) -> None:
    largest = np.finfo(kind).max
    near = np.array([largest, -largest, largest, largest / 2, 1, np.nan], kind)
    beyond = np.array([np.inf, -np.inf, -np.inf, np.inf, np.inf, np.inf], kind)
    for found, expected in ((near, beyond), (beyond, near)):
        assert differences(found, expected, 4).tolist() == [2, 3, 4, 5]
        assert differences(found, expected, 0).tolist() == [0, 1, 2, 3, 4, 5]


def test_cases_whose_native_run_errs_state_values_and_can_fail() -> None:
    cases = [case for case in all_cases() if case.native_errs]
    assert len(cases) >= 37
    for case in cases:
        assert case.native_errs[0].isdigit(), case.name
        assert case.expected is not None, case.name
        changed = tuple(array + 1 for array in case.expected)
        assert verdicts(case, case.expected, case.expected) == []
        assert verdicts(case, case.expected, changed) == ["differs"], case.name


def test_stated_values_are_what_the_clauses_say() -> None:
    cases = {case.name: case for case in all_cases()}

    def stated(name: str) -> np.ndarray:
        expected = cases[name].expected
        assert expected is not None
        return expected[0]

    (numbers, _) = cases["convert_double_uint_sat"].args
    assert isinstance(numbers, np.ndarray)
    rows = dict(
        zip(
            map(str, numbers.tolist()), stated("convert_double_uint_sat").reshape(-1, 5).tolist(), strict=True
        )
    )
    assert [rows["nan"], rows["inf"], rows["-inf"]] == [[0] * 5, [2**32 - 1] * 5, [0] * 5]
    assert [rows["0.5"], rows["3.0"], rows["-2.0"]] == [[0, 0, 0, 1, 0], [3] * 5, [0] * 5]
    assert set(stated("lgamma_r_second_float").tolist()) == {1}
    assert set(stated("lgamma_r_sign_double4").tolist()) == {-1, 0, 1}
    smooth = stated("smoothstep_scalar_double4")
    assert (smooth[0], smooth.min(), smooth.max()) == (3.649473912715809e-05, 0, 1)
    a, b, c = (int(array[4]) for array in cases["mad_sat_long"].args[:3])  # type: ignore[index]
    assert a * b + c < stated("mad_sat_long")[4] == -(2**63)
