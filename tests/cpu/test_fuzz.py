"""Random programs give the same bytes natively and on 2, 3 and 5 workers: a slice with a fixed seed, and a planted defect.

FUZZ_PROGRAMS sets how many there are in the slice (192); FUZZ_SEED takes another seed. `python -m tests.fuzz` is
the long run, with a fresh one, `python -m tests.fuzz.strength` the table of planted defects: nine of ten are found by as many programs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.run import Options, Run

pytestmark = pytest.mark.skipif(os.environ.get("VDEV") == "1", reason="opens workers of its own")


PROGRAMS = int(os.environ.get("FUZZ_PROGRAMS", "192"))
SEED = int(os.environ.get("FUZZ_SEED", "20"))


def test_a_slice_of_random_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\nrandom programs of seed {SEED}")
    options = Options(SEED, ("cpu:2", "cpu:3", "cpu:5"), keep=str(tmp_path), shrink=0)
    found: list[str] = []
    outcome = Run(options, PROGRAMS, float("inf"), found.append).run()
    scripts = "\n".join(path.read_text() for path in sorted(tmp_path.glob("*.py"))[:1])
    assert not outcome.failures, f"seed {SEED}\n" + "\n".join(found) + scripts
    assert outcome.programs >= 0.9 * PROGRAMS
    assert outcome.counts["launches cut"] > outcome.counts["launches"] / 2
    assert outcome.counts["launches with a twin"]
    assert outcome.counts["launches with merged atomics"]
    assert outcome.counts["plans filled in"] or outcome.programs < 150
    assert len(outcome.undetermined) * 100 <= outcome.programs


@pytest.mark.parametrize(
    ("defect", "size"), [("group ids begin at 0", 4), ("unsigned pixels are written as signed ones", 8)]
)
def test_a_planted_defect_is_found(defect: str, size: int) -> None:
    options = Options(1, ("cpu:3",), jobs=1, size=size, shrink=0, defect=defect, failures=1)
    outcome = Run(options, 24, float("inf"), lambda text: None).run()
    assert outcome.failures
