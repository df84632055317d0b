"""Random kernels give the same bytes on 2, 3, 4 and 8 workers as on one.

FUZZ_KERNELS sets the number of kernels (160); `python -m tests.cpu.equivalence_long` is the long run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from vdev.translators.interpreter.accesses import AccessRange
from vdev.translators.interpreter.launch_ranges import LaunchRanges
from vdev.translators.ranges.ndrange import Chunk, NDRange

from tests.pure.kernels import Buffer, GeneratedKernel

from .equivalence import Case, Different, Machines, Outside, Race, random_case, run_items

pytestmark = pytest.mark.skipif(os.environ.get("VDEV") == "1", reason="opens workers of its own")

KERNELS = int(os.environ.get("FUZZ_KERNELS", "160"))
BATCH = 20  # kernels of one program: most of a round's time is the engine's compiler


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    opened = Machines()
    yield opened
    opened.close()


# A seed cannot be made smaller in a way that means anything: no shrinking.
@settings(
    max_examples=-(-KERNELS // BATCH), deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_results_do_not_depend_on_the_number_of_workers(machines: Machines, seed: int) -> None:
    rng = random.Random(seed)
    machines.check([random_case(rng, number) for number in range(BATCH)])


def test_most_launches_are_cut(machines: Machines) -> None:
    """The comparison means something: work is spread, and the mergers have something to merge."""
    rng = random.Random(1)
    machines.counts.clear()
    machines.check([random_case(rng, number) for number in range(BATCH)])
    counts = machines.counts
    assert counts["launches cut"] > counts["launches"] / 2
    for number, (what, c) in enumerate(MERGED.items()):
        machines.check([by_hand(c, "item.read(0, 0, 4)", number=number)])
        assert counts[f"launches {what}"] > 0


#: what is merged, by what tells so
MERGED = {
    "with a twin": "a[40 + get_global_id(0) + (a[0] & 1)] = 1;",
    "with merged atomics": "atomic_add(&a[90], a[get_global_id(0)]);",
}


def by_hand(c: str, py: str, nbytes: int = 400, number: int = 0) -> Case:
    """A case of 8 groups of 4 with one buffer of ints; `c` and `py` are the bodies."""
    scope: dict[str, object] = {}
    exec(f"def run(item): {py}", scope)
    text = f"__kernel void k(__global int *a) {{\n{c}\n}}\n"
    kernel = GeneratedKernel(text, py, [Buffer(0, "a", "int", 4, "int", 4)], {}, scope["run"])
    return Case(number, kernel, NDRange((32,), (4,), (0,)), [nbytes], [(0, 0, nbytes)], 4, 0)


def test_a_difference_is_found(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an analysis that misses the neighbour whom every work-item reads."""
    text = "int i = get_global_id(0); out[place] = a[i + 1]; a[i + 40] = i;"
    accesses = "item.write(0, item.gid[0] * 4 + 160, 4); item.read(0, item.gid[0] * 4 + 4, 4)"
    machines.check([by_hand(text, accesses)])
    evaluate = LaunchRanges.of

    def evaluate_half(self: LaunchRanges, chunk: Chunk) -> tuple[AccessRange, ...]:
        found = evaluate(self, chunk)
        return tuple(replace(r, region=r.region.clip(0, 64)) if r.mode == "read" else r for r in found)

    monkeypatch.setattr(LaunchRanges, "of", evaluate_half)
    with pytest.raises(Different, match="buffer 1 at"):
        machines.check(
            [by_hand(text + " ;", accesses)]
        )  # another program: what is known of the first one stays known


@pytest.mark.parametrize(
    ("py", "expected"),
    [
        ("item.write(0, item.gid[0] * 4, 4)", None),
        ("item.write(0, 0, 4)", None),  # all write the same
        ("item.update(0, 0, 4)", Race),
        ("item.write(0, item.gid[0] * 4, 4); item.read(0, 0, 4)", Race),
        ("item.write(0, item.gid[0] * 2, 4)", Race),
        ("item.write(0, item.gid[0] * 4, 4); item.load(0, item.gid[0] * 4, 4, 'int')", Race),
        ("item.atomic(0, 0, 4, 'add')", None),
        ("item.atomic(0, 0, 4, 'add'); item.atomic(0, 0, 4, 'min')", Race),
        ("item.atomic(0, 0, 4, 'add'); item.read(0, 0, 4)", Race),
        ("item.atomic(0, item.gid[0] * 4, 4, 'add'); item.read(0, item.gid[0] * 4, 4)", None),
        ("item.read(0, 398, 4)", Outside),
        ("item.read(0, -1, 1)", Outside),
    ],
)
def test_brute_force_sorts_out_what_has_no_one_result(py: str, expected: type[Exception] | None) -> None:
    case = by_hand("", py)
    if expected is None:
        run_items(case, case.contents())
    else:
        with pytest.raises(expected):
            run_items(case, case.contents())
