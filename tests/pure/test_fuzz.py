"""The generator of random programs: its arithmetic of bounds, what its programs contain, and its planted defects."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fuzz import shrink
from tests.fuzz.__main__ import worker_lists
from tests.fuzz.host import ALIGNMENT, LAUNCHES
from tests.fuzz.images import ADDRESSING, CHANNELS
from tests.fuzz.machines import Difference
from tests.fuzz.mutations import BY_NAME, DEFECTS, Defect, check_applies, nowhere, plant
from tests.fuzz.program import KINDS, Bound, Launch
from tests.fuzz.run import Options, Run
from tests.fuzz.strength import measured
from tests.fuzz.values import (
    INTS,
    Ex,
    IntType,
    bits_of_either,
    converted,
    counts,
    scalar_operation,
    truncated,
)
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


def test_bounds_hold_bits_chosen_from_two_numbers() -> None:
    rng = random.Random(0)
    for _ in range(400):
        t = rng.choice(INTS)
        a, b = random_span(rng, t), random_span(rng, t)
        low, high = bits_of_either(t, Ex("a", t, *a), Ex("b", t, *b))
        for x, y in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1)):
            mask = rng.randrange(1 << t.bits)
            assert low <= wrapped(t, x & ~mask | y & mask) <= high, (x, y, mask)


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("popcount", lambda bits: bits.count("1")),
        ("clz", lambda bits: len(bits) - len(bits.lstrip("0"))),
        ("ctz", lambda bits: len(bits) - len(bits.rstrip("0"))),
    ],
)
def test_bounds_hold_all_counts_of_bits(kind: str, count: Callable[[str], int]) -> None:
    rng = random.Random(kind)
    for _ in range(400):
        t = rng.choice(INTS)
        span = random_span(rng, t)
        low, high = counts(kind, Ex("a", t, *span))
        for x in range(span[0], span[1] + 1):
            assert low <= count(f"{x % (1 << t.bits):0{t.bits}b}") <= high, (t, span, x)


def test_a_conversion_wraps() -> None:
    for t in INTS:
        assert converted(t, t.lo, t.hi) == (t.lo, t.hi)
        assert converted(t, t.lo - 1, 0) == (t.lo, t.hi)


@pytest.fixture(scope="module")
def batches() -> list:
    return [random_batch(7, number, 24, Features()) for number in range(12)]


def test_a_seed_and_a_number_make_one_batch(batches: list) -> None:
    again = random_batch(7, 3, 24, Features())
    assert again.source() == batches[3].source()
    assert again.options == batches[3].options
    assert [p.steps for p in again.programs] == [p.steps for p in batches[3].programs]
    assert random_batch(6, 3, 24, Features()).source() != again.source()


def test_older_compilers_get_what_c99_has() -> None:
    """What some refuse, or take for another program."""
    newer = ("#elifdef", "#elifndef", "0b11", "SEMI", "LETTER", "memory_order_", "atomic_fetch_", "ctz(")
    plain, rich = (
        [random_batch(5, number, 6, Features(partial_groups=False, plain=plain)) for number in range(12)]
        for plain in (True, False)
    )
    texts = [" ".join((batch.source(), *batch.options)) for batch in plain]
    assert not [word for word in newer for text in texts if word in text]
    assert any(word in batch.source() for batch in rich for word in newer)


def test_images_are_read_and_written_in_all_ways() -> None:
    """Of every kind, with samplers of every sort; and each has a pixel for all that work-items write."""
    programs = [each for number in (2, 8, 14) for each in random_batch(7, number, 24, Features()).programs]
    programs = [program for program in programs if "images" in program.forms]
    forms = {buffer.image for program in programs for buffer in program.buffers if buffer.image is not None}
    assert {form.kind for form in forms} == set(KINDS)
    assert {form.data_type for form in forms} == set(CHANNELS)
    text = "".join(program.source() for program in programs)
    assert not [word for word in ADDRESSING.values() if f"CLK_ADDRESS_{word} " not in text]
    for wanted in (
        "CLK_NORMALIZED_COORDS_TRUE",
        "sampler_t p",
        "read_write",
        "write_imageui",
        "get_image_array_size",
    ):
        assert wanted in text, wanted
    for program in programs:
        images = [buffer for buffer in program.buffers if buffer.image is not None]
        assert len(images) >= 2
        assert all(buffer.content.size == buffer.image.nbytes for buffer in images if buffer.image)


#: Stands in for a process of a run: programs 2 and 11 of batch 1 are refused natively, program 5 ends it.
CHILD = """#!{python}
import json, os, sys

def say(**what):
    print("FUZZ " + json.dumps(what), flush=True)

parts = [(int(n), *map(int, p.split("-"))) for n, p in (text.split(":") for text in sys.argv[1:] if text[:1].isdigit() and ":" in text)]
while parts:
    number, first, stop = parts.pop(0)
    name, inside = f"{{number}}:{{first}}-{{stop}}", range(first, stop)
    say(phase="native build", part=name, program="")
    if number == 1 and 5 in inside:
        os.abort()
    if number == 1 and (2 in inside or 11 in inside):
        if stop - first == 1:
            say(refused=number, program=f"p{{first}}", log="no")
            continue
        halves = [(number, first, (first + stop) // 2), (number, (first + stop) // 2, stop)]
        parts[:0] = halves
        say(split=name, into=[f"{{n}}:{{a}}-{{b}}" for n, a, b in halves])
        continue
    say(done=number, programs=stop - first, launches=0, forms={{}}, counts={{}}, reasons=[], times={{}})
say(ended=True)
"""


def test_a_program_that_natively_fails_takes_only_itself_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"
    child.write_text(CHILD.format(python=sys.executable))
    child.chmod(0o755)
    monkeypatch.setattr("tests.fuzz.run.sys.executable", str(child))
    outcome = Run(Options(1, ("cpu:2",), jobs=1, size=24), 72, float("inf"), print).run()
    assert outcome.programs == 72 - 3
    assert [text.split(":")[0] for text in outcome.crashed] == ["batch 1 p5"]
    assert [text.split(":")[0] for text in outcome.refused] == ["batch 1 p2", "batch 1 p11"]
    assert not outcome.failures


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
        "row", "sweep", "by branches", "by switch", "by jumps", "by counting", "by pointer", "by helper", "pointer to one of two",
        "in an array", "in a structure", "goto", "pointers in an array", "half", "table of structures", "number at program scope",
        "copy of a group", "rows of groups", "local atomics", "range of case labels", "components", "C11 atomics",
        "generic pointer", "global or private", "structure by value",
        "vector", "vector condition as a place", "vector store", "walking loop", "work-item functions in a helper", "wrapping loop",
    }  # fmt: skip
    assert not wanted - set(forms)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_applies(defect: Defect) -> None:
    """To the code as it is: each piece stands once where it is looked for, and what stands there then is Python."""
    check_applies(defect)


def test_a_defect_that_does_not_apply_is_not_measured() -> None:
    stale = Defect("stale", "analysis", (("vdev.translators.symbolic.logic", "no such piece", "pass"),))
    with pytest.raises(LookupError, match="0 times: no such piece"):
        measured(stale, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["kept buffers change while others read them", "launches on kept buffers overtake their queue"]
)
def test_a_planted_defect_of_order_is_found_by_tests(name: str) -> None:
    assert measured(BY_NAME[name], None)["programs"]  # type: ignore[arg-type]


def test_each_known_fault_is_among_the_defects() -> None:
    assert {defect.issue for defect in DEFECTS} - {""} == {
        f"{n:02}" for n in (1, 2, 3, 4, 5, 6, 7, 12, 13, 20, 21, 22, 23)
    }
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 40
    assert {defect.kind for defect in DEFECTS} == {
        "analysis",
        "preprocessor",
        "planner",
        "merging",
        "session",
        "translation",
        "cuda",
        "check",
    }


def test_a_module_already_imported_takes_no_defect() -> None:
    import vdev.planner.merges  # noqa: F401

    with pytest.raises(RuntimeError, match="imported already"):
        plant("min begins at the lowest")


def test_workers_of_several_sessions() -> None:
    assert worker_lists("cpu:2,cpu:3") == ("cpu:2", "cpu:3")
    assert worker_lists("cuda:0,cuda:0-1") == ("cuda:0", "cuda:0-1")
    assert worker_lists("cuda:0,2,cpu:2") == ("cuda:0,2", "cpu:2")


def test_a_defect_that_nothing_imports_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table would call it not found, or found, for no reason of its own."""
    defect = Defect("nowhere", "planner", (("vdev.planner.links", "import", "import"),))
    monkeypatch.setitem(BY_NAME, "nowhere", defect)
    assert nowhere("nowhere") == ["vdev.planner.links"]


def test_a_run_that_is_worth_nothing_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child"
    child.write_text(
        f'#!{sys.executable}\nprint("FUZZ {{\\"error\\": \\"nothing imports it\\"}}", flush=True)\n'
    )
    child.chmod(0o755)
    monkeypatch.setattr("tests.fuzz.run.sys.executable", str(child))
    outcome = Run(Options(1, ("cpu:2",), jobs=1, size=24), 72, float("inf"), print).run()
    assert outcome.errors == ["nothing imports it"]
    assert not outcome.failures


def test_a_smaller_program_fails_as_the_first_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without what it needs builds natively and not here, which is no smaller form of other results."""

    def build(source: str, options: object) -> str:
        if "needed" not in source:
            raise RuntimeError("undeclared")
        return source

    native = SimpleNamespace(build=lambda source, options: source, run=lambda built, program: [])
    machines = SimpleNamespace(build=build, check=lambda *given: Difference("cpu:3", "other bytes"))
    batch = SimpleNamespace(options=(), head="")
    monkeypatch.setattr(shrink, "compare", lambda *given: None)
    shrinker = shrink.Shrinker(native, machines, batch)  # type: ignore[arg-type]
    program: Any = SimpleNamespace()
    first = shrinker.differs("needed idle used", program)
    assert first is not None
    assert first.workers == "cpu:3"
    assert shrinker.differs("idle used", program) is None
    assert shrinker.differs("needed used", program) is not None
    other = shrink.Shrinker(native, machines, batch)  # type: ignore[arg-type]
    assert [other.differs(text, program) is None for text in ("used", "needed", "idle")] == [
        False,
        True,
        False,
    ]
