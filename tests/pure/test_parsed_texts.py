"""What the parser makes of programs is held for those that will ask for it, and is the same when it is made again."""

from __future__ import annotations

from pathlib import Path
from weakref import ref

import pytest

from vdev.backends.base import BackendProgram, BuildResult, KernelResources, WorkerInfo
from vdev.session import programs
from vdev.session.programs import SessionProgram

SOURCE = "kernel void f(global int *a) { a[get_global_id(0)] = N; }\n"
WORKER = WorkerInfo(
    "reference", "r", ("r",), 1, 1 << 30, 1 << 30, 256, (256,) * 3, 1 << 16, 128, version="OpenCL 3.0 r"
)
TWO = SOURCE + "kernel void g(global int *a) { a[0] = N; }\n"


def built(source: str, *options: str) -> SessionProgram:
    """A program built for two workers, whose compilers take everything."""
    program = SessionProgram(source, ["-DN=1", *options], [WORKER] * 2)

    def build(given: BackendProgram) -> list[BuildResult]:
        resources = KernelResources(256, (0, 0, 0), 0, 0, 32)
        return [BuildResult("", dict.fromkeys("fg", resources), b"")] * 2

    program.build(build)
    return program


def test_a_program_whose_kernels_are_analysed_lets_go_of_its_text() -> None:
    program = built(TWO)
    assert program.parsed is not None
    parsed, text = ref(program.parsed), program.parsed.preprocessed
    assert program.kernels["f"].summary is not None
    assert parsed() is not None  # g is still to be analysed
    assert program.kernels["g"].summary is not None
    assert parsed() is None
    assert program.lowered is not None
    assert program.parsed.preprocessed == text


def test_few_programs_hold_what_was_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_MOST_PARSED", 2)
    made = [built(SOURCE + f"// {number}\n") for number in range(3)]
    held = [ref(program.parsed) for program in made[1:]]
    first = made[0].parsed  # parsed again, which is the turn of the next
    assert first is not None
    assert [parsed() is None for parsed in held] == [True, False]
    assert all(program.kernels["f"].summary is not None for program in made)


def test_a_text_with_files_stays(tmp_path: Path) -> None:
    (tmp_path / "few.h").write_text("#define FEW 3\n")
    program = built('#include "few.h"\n' + SOURCE, "-I", f'"{tmp_path}"')
    parsed = program.parsed
    (tmp_path / "few.h").write_text("#define FEW 4\n")
    assert program.kernels["f"].summary is not None
    assert program.parsed is parsed
