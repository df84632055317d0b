"""Examples in docstrings are so."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.pure.house import MODULES, ROOT

WITH_EXAMPLES = [name for name, path in MODULES.items() if ">>> " in path.read_text()]
WITH_EXAMPLES += ["report", "tests.fuzz.parts", "tests.gpu.corpus.case"]


@pytest.mark.parametrize("name", sorted(WITH_EXAMPLES))
def test_examples_are_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "samples/benchmarks")  # its scripts import one another by their names
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.FAIL_FAST)
    assert results.attempted, "no docstring that doctest finds holds the example"
    assert not results.failed


def test_a_wrong_example_is_found() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda _: None).failed
