"""Every kernel of the corpus is translated and compiled for a GPU, many to a program."""

from __future__ import annotations

import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import Target, parse_program

from tests.gpu.corpus import Case, all_cases, batches, differences

from .nvrtc import MISSING, compile_cuda, library

#: What a GPU's device has beyond what the parser takes for granted.
EXTENSIONS = (
    "cl_khr_fp16", "cl_khr_subgroups", "cl_ext_float_atomics", "cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics",
)  # fmt: skip
TARGET = Target(extensions=(*Target().extensions, *EXTENSIONS))
BATCHES = list(batches(all_cases()))


@pytest.mark.skipif(library() is None, reason=MISSING)
@pytest.mark.parametrize(
    ("text", "options", "cases"), BATCHES, ids=[f"{cases[0].name}-{len(cases)}" for _, _, cases in BATCHES]
)
def test_compiles(text: str, options: tuple[str, ...], cases: list[Case]) -> None:
    program = translate_cuda(parse_program(text, options, target=TARGET))
    done, found = compile_cuda(program.source, program.options)
    assert done, found[:4000]
    entries = [program.kernels[case.kernel].entry for case in cases]
    assert all(f".visible .entry {entry}(" in found for entry in entries)


def test_cases_are_data() -> None:
    for case in all_cases():
        assert case.outputs or not case.compare
        assert f" {case.kernel}(" in case.source, case.name
        if case.expected is not None:
            for index, expected in zip(case.outputs, case.expected, strict=True):
                given = case.args[index]
                assert (expected.dtype, expected.size) == (given.dtype, given.size), case.name  # type: ignore[union-attr]
                assert len(differences(expected, expected, 0)) == 0
