"""What new accesses must not overtake: compiled, it is what the function in Python says, and traced numbers have noted the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges import compiled
from vdev.translators.ranges import conflicts as module
from vdev.translators.ranges.conflicts import Log
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region
from vdev.translators.ranges.tracing import Trace
from vdev.translators.ranges.unlisted import Unlisted

from tests.pure.test_neighbours import PROGRAM
from vdev.backends import own_libraries
from vdev.packaging import library
from vdev.planner.instructions import Touch

pytestmark = pytest.mark.skipif(not any(True for _ in library.compilers()), reason="there is no C compiler")


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    assert own_libraries.load_ranges()


def unlisted() -> Region:
    """A triangle's rows."""
    summary = analyse_kernel(PROGRAM, "diagonal")
    ranges = summary.of_launch(
        NDRange((512, 512), (8, 4), (0, 0)), {2: 512, 3: 400}, {0: 1 << 20, 1: 1 << 20}
    )
    found = ranges.of(Chunk((0, 0), (64, 128)))[0].region
    assert isinstance(found, Unlisted)
    assert len(found.runs) > 300  # listed now: how it answers does not change any more
    return found


TRIANGLE = unlisted()


def outcome(seed: int, *, traced: bool) -> Any:
    """What each of many accesses finds, and all that was noted of traced numbers."""
    rng, trace, found = random.Random(seed), Trace(), []
    number = trace.parameter if traced else int

    def region() -> Region:
        kind = rng.randrange(20)
        if kind == 0:
            return Region.empty() if rng.random() < 0.5 else TRIANGLE
        start = number(rng.randrange(0, 4000, 8))
        if kind < 8:
            return Region.boxes(start, 4, ((64, rng.randrange(2, 6)),))
        return Region.span(start, start + rng.choice((8, 40, 900)))

    logs: dict[tuple[int, int, bool], Log] = {}
    few = rng.choice((0, 3, 8))
    for index in range(rng.randrange(2, 25)):
        maker = rng.randrange(-1, 3)
        touches = tuple(
            Touch(rng.randrange(2), rng.choice((-1, 0, 1)), region(), rng.random() < 0.4)
            for _ in range(rng.randrange(4))
        )
        found.append(module.conflicts(logs, touches, maker, maker != -1, few))
        for touch in touches:
            entries = logs.setdefault((touch.slot, touch.holder, touch.writes), Log()).entries
            entries.append((index, maker, touch.region))
    return found, trace.calculation(()), [log._known for log in logs.values()]


@pytest.mark.parametrize("traced", [False, True])
def test_results_are_those_of_the_function_in_python(traced: bool) -> None:
    conflicts = 0
    for seed in range(600):
        found = outcome(seed, traced=traced)
        with compiled.plainly():
            wanted = outcome(seed, traced=traced)
        assert found == wanted, seed
        conflicts += sum(map(len, found[0]))
    assert conflicts > 1200
