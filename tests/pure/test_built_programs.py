"""Programs that are built again are those that were built before, where nobody can tell the difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from vdev.translators.frontend import options

from vdev.backends.base import BackendProgram, BuildResult
from vdev.backends.reference import ReferenceProgram
from vdev.facade import program as programs
from vdev.session import built_programs
from vdev.session.session import Session

from .test_session_failures import SOURCE, Program, _triple, ended


def _builds(session: Session, monkeypatch: pytest.MonkeyPatch) -> ReferenceProgram:
    """Let a session build; what runs there, whatever the source."""
    native = ReferenceProgram(functions={"triple": _triple})

    def build(_: BackendProgram, meanwhile: object = None) -> list[BuildResult]:
        return list(session.executor.build(native))

    monkeypatch.setattr(session, "_build_on_workers", build)
    return native


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    with Program(2) as program:
        _builds(program.session, monkeypatch)
        yield program.session


def test_the_same_source_with_the_same_options_is_built_once(session: Session) -> None:
    first = session.build(SOURCE, ["-DN=3"])
    assert session.build(SOURCE, ["-DN=3"]) is first
    assert session.build(SOURCE, ["-DN=4"]) is not first
    assert session.build(SOURCE + "\n", ["-DN=3"]) is not first
    assert session.build(SOURCE, ["-DN=3"]) is first


@pytest.mark.parametrize(
    ("before", "options"),
    [
        ("global int counter;\nkernel void more(void) { counter++; }\n", ["-cl-std=CL2.0"]),
        ("static global int counter = 3;\n", ["-cl-std=CL3.0"]),
        ('#if 0\n#include "later.h"\n#endif\n', []),
        ("%:if 0\n%:include <later.h>\n%:endif\n", []),
        ("#if 0\n#inc\\\nlude <later.h>\n#endif\n", []),
        ("", ["-include", "/dev/null"]),
        ("void f(void) { static global int calls; }\n", ["-cl-std=CL2.0"]),  # a variable that stays
        ("#define STAYS sta##tic\n", ["-cl-std=CL3.0"]),
        ("#define STAYS sta\\\ntic\n", ["-cl-std=CL3.0"]),
        ("#define STAYS sta\\ \t\r\ntic\n", ["-cl-std=CL3.0"]),
        ("#if 0\n#inc??/\nlude <later.h>\n#endif\n", []),
        ("", ["-cl-std=CL3.0", "-DSTAYS=static"]),
    ],
)
def test_what_a_program_does_not_share_is_its_own(session: Session, before: str, options: list[str]) -> None:
    assert session.build(before + SOURCE, options) is not session.build(before + SOURCE, options)


@pytest.mark.parametrize("options", [[], ["-cl-std=CL3.0"]])
def test_macros_of_several_lines_are_no_reason_to_build_anew(session: Session, options: list[str]) -> None:
    macro = "#define PLACE \\\n    int x = get_global_id(0); \\ \n    int y = get_global_id(1);\n"
    assert session.build(macro + SOURCE, options) is session.build(macro + SOURCE, options)


@pytest.mark.parametrize("options", [[], ["-cl-std=CL1.2"], ["-cl-std=CL2.0"], ["-cl-std=CL3.0"]])
@pytest.mark.parametrize("nworkers", [1, 2])
def test_one_worker_shares_as_several_do(
    nworkers: int, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Program(nworkers) as program:
        _builds(program.session, monkeypatch)
        assert program.session.build(SOURCE, options) is program.session.build(SOURCE, options)
        variable = "global int counter;\nkernel void more(void) { counter++; }\n" + SOURCE
        assert program.session.build(variable, ["-cl-std=CL3.0"]) is not program.session.build(
            variable, ["-cl-std=CL3.0"]
        )


def test_launches_over_other_workers_have_plans_of_their_own(session: Session) -> None:
    every, first = session.launch_options, session.build(SOURCE)
    assert len(every.workers) == 2
    session.launch_options = replace(every, workers=every.workers[:1])
    alone = session.build(SOURCE)
    assert alone is not first
    assert session.build(SOURCE) is alone
    session.launch_options = every
    assert session.build(SOURCE) is first


def test_only_the_last_ones_are_kept(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built_programs, "_MOST", 2)
    first, second = session.build(SOURCE, ["-DN=1"]), session.build(SOURCE, ["-DN=2"])
    assert session.build(SOURCE, ["-DN=1"]) is first
    session.build(SOURCE, ["-DN=3"])
    assert session.build(SOURCE, ["-DN=1"]) is first
    assert session.build(SOURCE, ["-DN=2"]) is not second


def test_programs_with_many_plans_are_not_kept(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built_programs, "_MOST_PLANS", 10)
    first, second = session.build(SOURCE, ["-DN=1"]), session.build(SOURCE, ["-DN=2"])
    first.kernels["triple"].plans = SimpleNamespace(nplans=6)
    second.kernels["triple"].plans = SimpleNamespace(nplans=5)
    assert session.build(SOURCE, ["-DN=1"]) is first
    third = session.build(SOURCE, ["-DN=3"])
    assert session.build(SOURCE, ["-DN=1"]) is first
    assert session.build(SOURCE, ["-DN=3"]) is third
    assert session.build(SOURCE, ["-DN=2"]) is not second


def test_plans_are_not_counted_anew_for_each_program(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    class Plans:
        @property
        def nplans(self) -> int:
            counted.append(1)
            return 1

    for number in range(100):
        session.build(SOURCE, [f"-DN={number}"]).kernels["triple"].plans = Plans()
    assert 0 < len(counted) < 100 * built_programs._EVERY * 2, "some plans, however many programs there are"


def test_plans_of_a_program_are_found_when_it_is_built_again() -> None:
    with Program(2) as program, pytest.MonkeyPatch.context() as patch:
        native, made = _builds(program.session, patch), []
        for _ in range(3):
            built = program.session.build(SOURCE)
            built.native, program.kernel = native, built.kernels["triple"]
            out, source = program.buffer(1), program.buffer(2)
            assert ended(program.launch(out, source)) == 0
            made.append(program.session.ledger.kernel(program.kernel).plans)
        assert made == [1, 1, 1]


def test_the_same_options_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = options.split_options
    monkeypatch.setattr(options, "split_options", lambda text: read.append(text) or real(text))
    programs.option_words.cache_clear()
    for _ in range(3):
        assert programs.option_words(b'-DX="a b" -cl-strict-aliasing -w') == ('"-DX=a b"', "-w")
    assert programs.option_words(b"-w") == ("-w",)
    assert read == ['-DX="a b" -cl-strict-aliasing -w', "-w"]
