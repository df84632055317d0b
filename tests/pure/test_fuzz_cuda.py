"""Random programs are translated to CUDA and compiled: a fixed seed, so that what fails is what changed.

FUZZ_SEED takes another one; `python -m tests.fuzz.cuda` is the long run, with a fresh one.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz import cuda
from tests.fuzz.writer import Features

from .nvrtc import MISSING, library

pytestmark = pytest.mark.skipif(library() is None, reason=MISSING)

#: batches, and programs of each
BATCHES, SIZE = 16, 12
SEED = int(os.environ.get("FUZZ_SEED", "20"))


def test_random_programs_compile(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\nrandom programs for CUDA of seed {SEED}")
    features = Features(partial_groups=False)
    said = {number: cuda.refused(SEED, number, SIZE, features) for number in range(BATCHES)}
    assert not {number: text for number, text in said.items() if text is not None}, f"seed {SEED}"


def test_what_nvrtc_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    translate = cuda.translate_cuda

    def wrong(program: object) -> object:
        found = translate(program)  # type: ignore[arg-type]
        object.__setattr__(found, "source", found.source + "int broken = undeclared;\n")
        return found

    monkeypatch.setattr(cuda, "translate_cuda", wrong)
    assert "undeclared" in (cuda.refused(1, 0, 2, Features(partial_groups=False)) or "")
