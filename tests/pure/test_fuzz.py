"""The generator of random programs: its arithmetic of bounds, what its programs contain, and its planted defects."""

from __future__ import annotations

import importlib.util
import itertools
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.__main__ import worker_lists
from tests.fuzz.host import ALIGNMENT, LAUNCHES
from tests.fuzz.mutations import DEFECTS, Defect, plant, replaced
from tests.fuzz.program import Bound, Launch
from tests.fuzz.values import INTS, Ex, IntType, converted, scalar_operation, truncated
from tests.fuzz.writer import Features, random_batch

OPERATIONS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": truncated,
    "%": lambda a, b: a - b * truncated(a, b), "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}  # fmt: skip


def wrapped(t: IntType, number: int) -> int:
    return (number - t.lo) % (1 << t.bits) + t.lo


def random_span(rng: random.Random, t: IntType) -> tuple[int, int]:
    lo = rng.choice([rng.randrange(max(t.lo, -9), 9), rng.choice([t.lo, t.hi - 3])])
    return lo, min(t.hi, lo + rng.randrange(4))


@pytest.mark.parametrize("op", sorted(OPERATIONS))
def test_bounds_hold_all_results(op: str) -> None:
    """Of every pair of operands, converted as C converts them; and no signed result overflows."""
    rng, allowed = random.Random(op), 0
    for _ in range(400):
        s, t = rng.choice(INTS), rng.choice(INTS)
        a, b = random_span(rng, s), random_span(rng, t)
        found = scalar_operation(op, Ex("a", s, *a), Ex("b", t, *b))
        if found is None:
            continue
        allowed += 1
        for x, y in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1)):
            left = wrapped(found.t, x)
            right = y if op in ("<<", ">>") else wrapped(found.t, y)
            result = OPERATIONS[op](left, right)
            if found.t.signed:
                assert found.t.lo <= result <= found.t.hi
            assert found.lo <= wrapped(found.t, result) <= found.hi, (found, x, y)
    assert allowed > 40


def test_a_conversion_wraps() -> None:
    for t in INTS:
        assert converted(t, t.lo, t.hi) == (t.lo, t.hi)
        assert converted(t, t.lo - 1, 0) == (t.lo, t.hi)


@pytest.fixture(scope="module")
def batches() -> list:
    return [random_batch(5, number, 24, Features()) for number in range(12)]


def test_a_seed_and_a_number_make_one_batch(batches: list) -> None:
    again = random_batch(5, 3, 24, Features())
    assert again.source() == batches[3].source()
    assert again.options == batches[3].options
    assert [p.steps for p in again.programs] == [p.steps for p in batches[3].programs]
    assert random_batch(6, 3, 24, Features()).source() != again.source()


def test_launches_are_enough_and_within_their_buffers(batches: list) -> None:
    for program in (program for batch in batches for program in batch.programs):
        assert program.nlaunches >= LAUNCHES
        for launch in (step for step in program.steps if isinstance(step, Launch)):
            for arg in (arg for arg in launch.args if isinstance(arg, Bound)):
                assert arg.offset % ALIGNMENT == 0
                assert 0 < arg.nbytes <= program.buffers[arg.buffer].content.size - arg.offset


def test_all_forms_come(batches: list) -> None:
    forms = Counter(form for batch in batches for program in batch.programs for form in program.forms)
    wanted = {
        "__LINE__", "atomics", "bool to vector", "break or continue", "constant table", "declared in a switch", "do loop",
        "early return", "grid-stride loop", "guarded store", "halving loop", "helper function", "helper that stores",
        "literal loop", "local memory", "loop", "macro over lines", "narrowing loop", "overlapping arguments",
        "place from a table", "place from data", "pointer variable", "preprocessor condition", "private array",
        "result of a group", "store as another type", "string table", "structure", "switch", "the same from all", "union",
        "vector", "vector condition as a place", "vector store", "walking loop", "wrapping loop",
    }  # fmt: skip
    assert not wanted - set(forms)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_applies(defect: Defect) -> None:
    """To the code as it is: each piece stands once where it is looked for, and what stands there then is Python."""
    for module in {module for module, _, _ in defect.edits}:
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        edits = [(old, new) for where, old, new in defect.edits if where == module]
        compile(replaced(Path(spec.origin).read_text(), edits, module), module, "exec")


def test_each_known_fault_is_among_the_defects() -> None:
    assert {defect.issue for defect in DEFECTS} - {""} == {f"{n:02}" for n in (1, 2, 3, 4, 5, 6, 7, 12, 20, 21, 22, 23)}
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 40
    assert {defect.kind for defect in DEFECTS} == {"analysis", "preprocessor", "planner", "merging", "translation"}


def test_what_is_imported_already_takes_no_defect() -> None:
    import vdev.planner.merges  # noqa: F401

    with pytest.raises(RuntimeError, match="imported already"):
        plant("min begins at the lowest")


def test_workers_of_several_sessions() -> None:
    assert worker_lists("cpu:2,cpu:3") == ("cpu:2", "cpu:3")
    assert worker_lists("cuda:0,cuda:0-1") == ("cuda:0", "cuda:0-1")
    assert worker_lists("cuda:0,2,cpu:2") == ("cuda:0,2", "cpu:2")
