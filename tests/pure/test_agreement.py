"""No other program than the one that was written: disagreements are planted in the preprocessor, and each is found."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from vdev.translators.dialects.cuda.translation import UnknownOption, nvrtc_options, translate_cuda
from vdev.translators.dialects.subgrid import translate_subgrid
from vdev.translators.frontend import clang, macros, source
from vdev.translators.frontend import preprocessor as preprocess
from vdev.translators.frontend.compiler_macros import answers_from, question_program
from vdev.translators.frontend.kernels import Untranslatable
from vdev.translators.frontend.macros import Expander
from vdev.translators.frontend.preprocessor import Preprocessed, Preprocessor
from vdev.translators.frontend.source import CompileError, parse_program
from vdev.translators.frontend.tokens import Token, TokenKind

from vdev.backends.base import BackendProgram, BuildResult, KernelResources, WorkerInfo
from vdev.backends.cuda.programs import Cubins, translated
from vdev.errors import BuildFailure
from vdev.session.programs import SessionProgram

from .random_macros import Generator, verdict

SOURCE = """#define TWICE(x) ((x) + (x))
#define NAME(a, b) a ## b
#define TEXT(x) #x
#if 'a' == 97 && !0
#define V 1
#elif 1
#define V 2
#endif
struct s { char c; int i; };
constant char text[] = TEXT(a  b);
kernel __attribute__((reqd_work_group_size(V * 8, 1, 1))) void k(global int *out) {
  int NAME(x, 1) = V;
#pragma unroll V
  for (int i = 0; i < 4; i++) x1 += i;
  out[get_global_id(0)] = TWICE(x1) + __LINE__ + sizeof(text) + sizeof(struct s);
}
"""


def _token(text: str, kind: TokenKind) -> Callable[..., Token]:
    return lambda self, token: Token(text, kind, token.space)


def _opposite(words: Sequence[str]) -> bool:
    return len(words) == 1


STRINGS = macros._stringized
PASTED = macros._pasted
EXPAND = Expander.expand

# what is put in the place of what: each makes another program of SOURCE, and a valid one
PLANTED: dict[str, tuple[Any, str, Any]] = {
    "another line": (Expander, "_predefined", lambda self, token: Token("99", TokenKind.NUMBER) if token.text == "__LINE__" else token),
    "another branch": (preprocess, "_holds", _opposite),
    "another string": (macros, "_stringized", lambda tokens: Token('"a  b"', TokenKind.STRING)),
    "an operator": (
        Expander, "expand",
        lambda self, *a, **k: [Token("-" if t.text == "+" else t.text, t.kind, t.space) for t in EXPAND(self, *a, **k)],
    ),
    "a constant's type": (
        Expander, "expand",
        lambda self, *a, **k: [Token("1u" if t.text == "1" else t.text, t.kind, t.space) for t in EXPAND(self, *a, **k)],
    ),
    "a name": (macros, "_pasted", lambda left, right: Token("out1", TokenKind.NAME) if left.text == "x" else PASTED(left, right)),
    "a line left out": (
        Preprocessor, "_text",
        lambda self, file, line, old=Preprocessor._text: None if "x1 +=" in line.text else old(self, file, line),
    ),
    "a declaration left out": (
        Preprocessor, "_text",
        lambda self, file, line, old=Preprocessor._text: None if "text[]" in line.text else old(self, file, line),
    ),
}  # fmt: skip


def test_without_a_defect_the_program_is_split() -> None:
    program = parse_program(SOURCE)
    assert program.exact
    assert list(translate_subgrid(program).kernels) == ["k"]


@pytest.mark.parametrize("name", PLANTED)
def test_planted_disagreements_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, instead = PLANTED[name]
    monkeypatch.setattr(where, what, instead)
    program = parse_program(SOURCE)
    assert not program.exact
    assert program.doubts
    assert program.preprocessed == SOURCE
    assert list(program.kernels) == ["k"]
    assert program.kernels["k"].reqd_work_group_size == (8, 1, 1)
    for translate in (translate_subgrid, translate_cuda):
        with pytest.raises(Untranslatable, match="macros could not be expanded"):
            translate(program)


def test_the_program_runs_as_it_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The safe path of a session: the user's text and options, whole on one worker, and the reason; a build error on CUDA."""
    where, what, instead = PLANTED["another branch"]
    monkeypatch.setattr(where, what, instead)
    built: list[BackendProgram] = []

    def build(program: BackendProgram) -> list[BuildResult]:
        built.append(program)
        return [BuildResult("", {"k": KernelResources(8, (8, 1, 1), 0, 0, 1)}, b"")]

    worker = WorkerInfo(
        "reference", "r", ("r",), 1, 1 << 30, 1 << 30, 256, (256,) * 3, 1 << 16, 128, version="OpenCL 3.0 r"
    )
    program = SessionProgram(SOURCE, ["-DN=1"], [worker])
    program.build(build)
    assert [(each.source, each.options) for each in built] == [(SOURCE, ("-DN=1",))]
    kernel = program.kernels["k"]
    assert kernel.subgrid is None
    assert "clang reads line" in kernel.one_worker[0].text
    with pytest.raises(BuildFailure) as caught:
        translated(built[0], Cubins(tmp_path, lambda source, options: (b"", ""), "1"))
    assert caught.value.log.startswith(
        "not available on CUDA workers: macros could not be expanded: clang reads line"
    )


PRAGMA = "#define A\n#ifdef A\n#pragma OPENCL FP_CONTRACT OFF\n#else\n#pragma STDC FP_CONTRACT ON\n#endif\n"


def test_pragmas_that_no_tree_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    source = PRAGMA + "kernel void k(global float *a) { a[0] = a[1] * a[2] + a[3]; }\n"
    assert parse_program(source).exact
    monkeypatch.setattr(Expander, "is_defined", lambda self, name: False)
    (doubt,) = parse_program(source).doubts
    assert doubt == "clang treats the pragma on line 3 differently in the expanded program"


def test_layouts_that_no_tree_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "#define N 1\n#pragma pack(N)\nstruct s { char c; int i; };\nkernel void k(global struct s *a) { a[1].i = 2; }\n"
    assert parse_program(source).exact
    old = EXPAND
    monkeypatch.setattr(
        Expander,
        "expand",
        lambda self, *a, **k: [
            Token("2", TokenKind.NUMBER) if t.text == "1" else t for t in old(self, *a, **k)
        ],
    )
    assert "bytes at" in parse_program(source).doubts[0]


# Programs that came out as others: head and expression, and what the expression is to clang.
RIGHT = {
    "line behind a call": ("#define S(a, b) ((a) + (b))\n", "S(0,\n0); return __LINE__", "3"),
    "line in an argument": ("#define S(a, b) b\n", "S(0,\n__LINE__)", "3"),
    "line in a body": ("#define S(a, b) __LINE__\n", "S(0,\n0)", "3"),
    "line behind a splice": ("", "\\\n__LINE__", "2"),
    "line behind a comment": ("", "/*\n*/ __LINE__", "2"),
    "true": ("#if true\n#define V 1\n#else\n#define V 2\n#endif\n", "V", "1"),
    "elifdef": ("#define B\n#ifdef A\n#define V 0\n#elifdef B\n#define V 1\n#else\n#define V 2\n#endif\n", "V", "1"),
    "elifndef": ("#ifdef A\n#define V 0\n#elifndef B\n#define V 1\n#else\n#define V 2\n#endif\n", "V", "1"),
    "sign of a character": ("#if '\\xff' < 0\n#define V 1\n#else\n#define V 2\n#endif\n", "V", "1"),
    "characters": ("#if 'ab' == 24930\n#define V 1\n#else\n#define V 2\n#endif\n", "V", "1"),
    "digraphs": ("%:define C(a, b) a%:%:b\n", "C(1, 2)", "12"),
    "trigraphs": ("??=define V 4\n", "V", "4"),
    "128 bits": ("#if 0x7fffffffffffffff + 1 > 0\n#define V 1\n#else\n#define V 2\n#endif\n", "V", "1"),
    "optional": ("#define F(a, ...) a __VA_OPT__(+ 5)\n", "F(1, 2)", "1 + 5"),
    "strict comma": ("#define F(...) sizeof(#__VA_ARGS__)\n#define G(...) F(1, ##__VA_ARGS__)\n", "G()", 'sizeof ("1,")'),
    "include level": ("", "__INCLUDE_LEVEL__", "0"),
    "pushed": ("#define V 1\n#pragma push_macro(\"V\")\n#undef V\n#define V 2\n#pragma pop_macro(\"V\")\n", "V", "1"),
    "compiler's own": ("#ifdef __SPIR64__\n#define V 1\n#else\n#define V 2\n#endif\n", "V", "1"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_the_same_program(name: str) -> None:
    head, expression, expected = RIGHT[name]
    program = parse_program(f"{head}int f(void) {{ return {expression}; }}\n")
    assert program.exact
    printed = clang.printed(program.definition("f"))
    assert printed.rpartition("return ")[2].partition(";")[0].replace("sizeof(", "sizeof (") == expected


def test_true_by_option() -> None:
    source = "#if USE\nint yes(void);\n#else\nint no(void);\n#endif\n"
    assert [cursor.spelling for cursor in parse_program(source, ["-DUSE=true"]).functions()] == ["yes"]


def test_random_programs_are_the_same() -> None:
    """A slice; `python -m tests.pure.random_macros` runs longer ones, with fresh seeds."""
    seed = int(os.environ.get("FUZZ_SEED", "20"))
    generator = Generator(seed)
    answers = []
    for number in range(int(os.environ.get("FUZZ_MACROS", "120"))):
        source = generator.program()
        answers.append(verdict(source))
        assert answers[-1] in ("same", "invalid"), f"seed {seed}, program {number}:\n{source}"
    assert answers.count("same") > len(answers) // 3


def test_answers_come_back_in_names() -> None:
    questions = (
        "__OPENCL_C_VERSION__",
        "__NOTHING__",
        "NEGATIVE",
        "__has_builtin(__builtin_popcount)",
        "__VERSION__",
        "__UINT64_MAX__",
    )
    text = "#define NEGATIVE -5\n" + question_program(questions)
    found = answers_from(questions, parse_program(text, ["-cl-std=CL1.2"]).kernels)
    assert found == {
        "__OPENCL_C_VERSION__": "120", "__NOTHING__": None, "NEGATIVE": "(-5)", "__has_builtin(__builtin_popcount)": "1",
        "__VERSION__": clang.definition("__VERSION__"), "__UINT64_MAX__": str(2**64 - 1),
    }  # fmt: skip
    assert answers_from(questions[:2], parse_program(question_program(questions[:2], values=False)).kernels) == {
        "__OPENCL_C_VERSION__": "120", "__NOTHING__": None,
    }  # fmt: skip


def test_the_devices_own_compiler_is_asked() -> None:
    asked: list[frozenset[str]] = []

    def ask(questions: frozenset[str]) -> dict[str, str | None]:
        asked.append(questions)
        known = {"__GNUC__": None, "__clang_major__": "23", "__OTHER__": "1"}
        return {question: known[question] for question in questions}

    source = """#ifdef __GNUC__
int gnu(void);
#elif __clang_major__ == 23 && defined(__OTHER__) && !defined cl_khr_fp64
int other(void) { return __clang_major__; }
#endif
"""
    program = parse_program(source, ask=ask)
    assert program.exact
    assert asked[0] == {"__GNUC__"}
    assert asked[1] == {"__clang_major__", "__OTHER__"}
    assert program.functions() == []  # cl_khr_fp64 is the target's
    program = parse_program(source.replace(" && !defined cl_khr_fp64", ""), ask=ask)
    assert [cursor.spelling for cursor in program.functions()] == ["other"]
    assert program.exact
    assert "return __clang_major__" in program.preprocessed  # the engine's own


@pytest.mark.parametrize(
    ("answers", "times"),
    [
        ({"__GNUC__": "4", "__OTHER__": None}, 1),  # clang's own
        ({}, 1),
        ({"__GNUC__": "5"}, 2),
        ({"__GNUC__": None}, 2),
        ({"__OTHER__": "1"}, 2),
    ],
)
def test_a_text_is_expanded_again_only_for_another_answer(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, str | None], times: int
) -> None:
    expanded: list[str] = []

    def counted(text: str, *rest: Any) -> Preprocessed:
        expanded.append(text)
        return preprocess.preprocess(text, *rest)

    monkeypatch.setattr(source, "preprocess", counted)
    text = "#if __GNUC__ == 4 && !defined(__OTHER__)\nint clangs(void);\n#else\nint other(void);\n#endif\n"
    program = parse_program(text, ask=lambda questions: answers)
    assert len(expanded) == times
    assert [cursor.spelling for cursor in program.functions()] == ["clangs" if times == 1 else "other"]
    assert dict(program.target.answers)["__GNUC__"] == answers.get("__GNUC__", "4")


def test_only_what_defines_structures_is_searched_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """#pragma omp declare target
constant float table[4] = {1, 2, 3, 4};
typedef struct { char c; int i; } s_t;
constant s_t records[1] = {{1, 2}};
int sum(int n) { return n + (int)table[n & 3]; }
int inner(void) { struct s { char c; int i; } s = {1, 2}; return s.i; }
"""
    searched: list[str] = []
    walk = clang.walk

    def noted(cursor: Any) -> Any:
        searched.append(cursor.spelling)
        return walk(cursor)

    monkeypatch.setattr(clang, "walk", noted)
    assert parse_program(text).exact
    assert "inner" in searched
    assert {"table", "records", "sum"}.isdisjoint(searched)


OPTIONS = (
    "-Wall -Wextra -Wno-unused-variable -Wno-error=incompatible-pointer-types -w -g -O0 -O3 -cl-opt-disable -cl-kernel-arg-info "
    "-cl-std=CL1.2 -cl-mad-enable -cl-no-signed-zeros -cl-uniform-work-group-size -cl-strict-aliasing -x cl -cl-nv-verbose "
    "-cl-nv-opt-level 2 -nv-line-info -fno-strict-aliasing -gline-tables-only -cl-nv-maxrregcount=64 -profiling"
)


def test_options_on_cuda() -> None:
    program = parse_program("kernel void k(global int *a) { int unused; a[0] = N; }", ["-DN=3", OPTIONS])
    assert "--maxrregcount=64" in translate_cuda(program).options
    for option in OPTIONS.replace("-x cl", "-x=cl").replace("-level 2", "-level=2").split():
        assert nvrtc_options([option]), option
    refused = ("-nonsense", "-fnonsense", "-ffast-math", "-cl-nonsense", "foo", "-D", "-cl-std=CL2.1")
    for option in (*refused, "-cl-std=cl2.0", "-cl-std=CLC++"):
        with pytest.raises(UnknownOption):
            nvrtc_options([option])


def test_an_unknown_option_is_an_invalid_one_on_cuda(tmp_path: Path) -> None:
    program = BackendProgram(
        "", (), parse_program("kernel void k(global int *a) { a[0] = 1; }", ["-nonsense"])
    )
    with pytest.raises(BuildFailure) as caught:
        translated(program, Cubins(tmp_path, lambda source, options: (b"", ""), "1"))
    assert caught.value.status == -43


def test_messages_are_clangs_about_the_users_text() -> None:
    source = "kernel void k(global int *a) { int unused; a[0] = 1; }"
    assert "unused variable 'unused'" in parse_program(source, ["-Wall"]).log
    assert parse_program(source, ["-Wall -w"]).log == ""
    assert parse_program(source, ["-Wall"]).engine_options == ()
    with pytest.raises(CompileError, match="unused variable"):
        parse_program(source, ["-Wall", "-Werror"])
    assert parse_program(source, ["-Wall -Werror -Wno-unused-variable"]).engine_options == (
        "-Wno-unused-variable",
    )
