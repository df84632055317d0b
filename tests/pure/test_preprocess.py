"""The preprocessor against the C standard's examples, and where it puts text."""

from __future__ import annotations

from pathlib import Path

import pytest
from vdev.translators.frontend.conditions import Malformed, evaluate_condition
from vdev.translators.frontend.macros import definitions
from vdev.translators.frontend.options import parse_options, split_options
from vdev.translators.frontend.preprocessor import Preprocessed, preprocess


def expand(source: str, *macros: str, include_dirs: tuple[str, ...] = ()) -> Preprocessed:
    return preprocess(source, {m.name: m for m in definitions(macros)}, include_dirs)


def words(source: str, *macros: str) -> str:
    result = expand(source, *macros)
    assert result.doubts == ()
    return " ".join(line for line in result.text.split("\n") if line.strip() and not line.startswith("#line"))


# C99 6.10.3.5, examples 3, 4, 5 and 7 (what the standard prints, white space as this preprocessor leaves it)
STANDARD = {
    "rescanning": (
        "#define x 3\n#define f(a) f(x * (a))\n#undef x\n#define x 2\n#define g f\n#define z z[0]\n"
        "#define h g(~\n"
        "#define m(a) a(w)\n#define w 0,1\n#define t(a) a\n#define p() int\n#define q(x) x\n"
        "#define r(x,y) x ## y\n"
        "#define str(x) # x\n"
        "f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);\ng(x+(3,4)-w) | h 5) & m\n(f)^m(m);\n"
        "p() i[q()] = { q(1), r(2,3), r(4,), r(,5), r(,) };\nchar c[2][6] = { str(hello), str() };\n",
        "f(2 * (y+1)) + f(2 * (f(2 * (z[0])))) % f(2 * (0)) + t(1); "
        "f(2 * (2+(3,4)-0,1)) | f(2 * (~ 5)) & f(2 * (0,1))^m(0,1); "
        'int i[] = { 1, 23, 4, 5, }; char c[2][6] = { "hello", "" };',
    ),
    "strings": (
        "#define str(s) # s\n#define xstr(s) str(s)\n#define INCFILE(n) vers ## n\n"
        "#define glue(a, b) a ## b\n"
        '#define xglue(a, b) glue(a, b)\n#define HIGHLOW "hello"\n#define LOW LOW ", world"\n'
        'fputs(str(strncmp("abc\\0d", "abc", \'\\4\') == 0) str(: @\\n), s);\n'
        "xstr(INCFILE(2).h) glue(HIGH, LOW); xglue(HIGH, LOW)\n",
        'fputs("strncmp(\\"abc\\\\0d\\", \\"abc\\", \'\\\\4\') == 0" ": @\\n", s); '
        '"vers2.h" "hello"; "hello" ", world"',
    ),
    "placemarkers": (
        "#define t(x,y,z) x ## y ## z\n"
        "int j[] = { t(1,2,3), t(,4,5), t(6,,7), t(8,9,), t(10,,), t(,11,), t(,,12), t(,,) };\n",
        "int j[] = { 123, 45, 67, 89, 10, 11, 12, };",
    ),
    "variable arguments": (
        "#define debug(...) fprintf(stderr, __VA_ARGS__)\n#define showlist(...) puts(#__VA_ARGS__)\n"
        "#define gnu(f, args...) f(1, ## args)\n"
        'debug("Flag"); debug("X = %d\\n", x);\n'
        "showlist(The first, second, and third items.); gnu(a); gnu(b, 2, 3);\n",
        'fprintf(stderr, "Flag"); fprintf(stderr, "X = %d\\n", x); '
        'puts("The first, second, and third items."); '
        "a(1); b(1, 2, 3);",
    ),
    "nothing": ("#define none\n#define f(x)\n#define g()\nnone a f(1) f() g() b none\n", "a b"),
    "neighbours stay apart": (
        "#define MINUS -\n#define EMPTY\n#define one 1\n"
        "-MINUS-x; a EMPTY b; x=MINUS one; +one; one.f; MINUS>y; xone one;\n",
        "- - -x; a b; x= - 1; +1; 1 .f; - >y; xone 1;",
    ),
}


@pytest.mark.parametrize("name", STANDARD)
def test_what_the_standard_prints(name: str) -> None:
    source, expected = STANDARD[name]
    assert words(source).split() == expected.split()


def test_lines_and_columns_stay() -> None:
    """A line without macros keeps its columns; #line appears only where counting lines would not do."""
    source = "/* a\n b */ int x; // c\nint /* y */ y;\n" + "\n" * 20 + "int z = \\\n  1;\nint w = __LINE__;\n"
    assert expand(source).text == "  int x;     \n\nint         y;\n#line 24\nint z =   1;\n\nint w = 26;\n"


def test_conditions_choose() -> None:
    source = "#if A > 1 && defined(B)\none\n#elif defined C || !defined D\ntwo\n#else\nthree\n#endif\n"
    assert words(source, "A=2", "B") == "one"
    assert words(source, "A=2") == "two"
    assert words(source, "D", "A=(2 - 1)") == "three"
    assert words("#define HAS defined(A)\n#if HAS\nyes\n#endif\n", "A") == "yes"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("__has_attribute(overloadable)", True),
        ("__has_attribute(__overloadable__) && !__has_attribute(no_such)", True),
        ("defined(__has_builtin) && __has_builtin(__builtin_popcount)", True),
        ("__has_builtin(no_such_builtin)", False),
        ("defined __has_extension && __has_feature(no_such) == __has_extension(no_such)", True),
        ("__is_identifier(kernel_of_mine)", True),
        ('__has_warning("-Wall")', True),
        ('__has_include("nowhere.h") || __has_include(<nowhere.h>)', False),
        ("HAS(overloadable)", True),
    ],
)
def test_what_conditions_ask_of_clang(condition: str, expected: bool) -> None:
    source = f"#define HAS(x) __has_attribute(x)\n#if {condition}\nyes\n#endif\n#ifndef __has_include\nmissing\n#endif\n"
    assert words(source) == ("yes" if expected else "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 == 7", True),
        ("- 1 > 0u", True),
        ("- 1 > 0", False),
        ("( 2 || 1 / 0 ) && ! 0", True),
        ("0 ? 1 / 0 : - 7 / 2 == - 3", True),
        ("- 7 % 3 == - 1", True),
        ("0x7fffffffffffffff + 1 < 0", True),
        ("1 << 3 >> 1 == 4 && ( 6 & 3 ^ 1 | 8 ) == 11", True),
        ("'A' == 65 && '\\n' == 10 && 010 == 8 && 0b11 == 3", True),
        ("name", False),
    ],
)
def test_values_of_conditions(text: str, expected: bool) -> None:
    assert evaluate_condition(text.split()) is expected


@pytest.mark.parametrize("text", ["", "1 +", "( 1", "1 2", "1 / 0", "1.5", '"a"', "09"])
def test_conditions_that_are_none(text: str) -> None:
    with pytest.raises(Malformed):
        evaluate_condition(text.split())


@pytest.mark.parametrize(
    "source",
    [
        "#if 1\n",
        "#endif\n",
        "#else\n",
        "#if 1\n#else\n#else\n#endif\n",
        "#define\n",
        "#define f(x\n",
        "#define f(x) #y\n",
        "#define f(x) x\nf(1,2)\n",
        "#define f(x) x\nf(1\n",
        "#define c(a,b) a##b\nc(+,/)\n",
        '#include "nowhere.h"\n',
        "#error stop\n",
        "#warning look\n",
        "#nonsense\n",
        "#define A 1\n#define A 2\n",
        "/* open\n",
        "#if __has_attribute\n#endif\n",
        "#if __has_attribute(overloadable\n#endif\n",
        "#if __has_builtin(5)\n#endif\n",
        "#if __has_include(a.h)\n#endif\n",
    ],
)
def test_what_clang_has_to_judge(source: str) -> None:
    assert expand(source).doubts


def test_parts_that_are_skipped_may_hold_anything() -> None:
    assert words("#if 0\n don't /*\n#nonsense\n/* #endif */\n#endif\nx\n") == "x"


def test_includes(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.h").write_text('#ifndef A\n#define A\n#include "deep/b.h"\nint a = TWO;\n#endif\n')
    (tmp_path / "deep" / "b.h").write_text('#pragma once\n#include "c.h"\n')
    (tmp_path / "deep" / "c.h").write_text("#define TWO 2\n")
    source = '#include "a.h"\n#define NAME <deep/b.h>\n#include NAME\n#include "a.h"\nint b = TWO;\n'
    result = expand(source, include_dirs=(str(tmp_path),))
    assert result.doubts == ()
    assert [Path(name).name for name in result.included] == ["a.h", "b.h", "c.h"]
    assert "int a = 2;" in result.text
    assert result.text.endswith('#line 5 "<kernel>"\nint b = 2;\n')


def test_asking_for_included_files(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#if __has_include("b.h") && __has_include(<b.h>)\nboth\n#endif\n')
    (tmp_path / "b.h").write_text("")
    source = "#define NAME <b.h>\n#if __has_include(NAME)\nnamed\n#endif\n#include <a.h>\n"
    result = expand(source, include_dirs=(str(tmp_path),))
    assert result.doubts == ()
    assert [line for line in result.text.split("\n") if line and line[0] != "#"] == ["named", "both"]
    assert [Path(name).name for name in result.included] == ["a.h"]


def test_pragmas_and_line_directives() -> None:
    source = """#define N 4
#define pack(a, b, c) a
#pragma unroll N
#pragma pack(push, N)
#pragma OPENCL EXTENSION N : enable
#line 70 "x.cl"
__LINE__ __FILE__
"""
    text = expand(source).text
    assert "#pragma unroll 4\n#pragma pack(push, 4)\n#pragma OPENCL EXTENSION N : enable\n" in text
    assert text.endswith('#line 70 "x.cl"\n70 "x.cl"\n')


def test_options() -> None:
    options = parse_options(
        ['-I "a b" -Ic', "-D", "X=1 ", "-DY", "-U", "X", "-cl-std=CL2.0", "-cl-mad-enable -w"]
    )
    assert options.include_dirs == ("a b", "c")
    assert options.macros == (("X", "1"), ("Y", "1"), ("X", None))
    assert options.c_version == 200
    assert options.for_engine == ("-cl-std=CL2.0", "-cl-mad-enable", "-w")
    assert parse_options(["-D"]).for_engine == ("-D",)  # for the engine to refuse
    assert split_options(r"-DS=\"s\" -DT='a b'") == ['-DS="s"', "-DT=a b"]
    # what stands between two character constants is none
    assert split_options("-DA='a' -DB='b c' -DC=';' -w") == ["-DA='a'", "-DB=b c", "-DC=';'", "-w"]
