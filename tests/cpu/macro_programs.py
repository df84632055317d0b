# ruff: noqa: E501 (programs, one a line)
"""Programs that are nasty to a preprocessor, and what they write: `python -m tests.cpu.macro_programs`.

Each is a head and a list of expressions; item `i` of its kernel writes their values, each plus `i`. One line a program: its
name, its results' hash and the first of them, or how its build failed. To be run with and without the virtual device.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyopencl as cl

_ITEMS = 256

#: name: (head, expressions, build options)
PROGRAMS: dict[str, tuple[str, str, str]] = {
    "line in arguments": ("#define S(a, b) ((a) * 100 + (b))\n", "S(__LINE__,\n__LINE__), __LINE__, S(1,\n\n2) + __LINE__", ""),
    "line in bodies": ("#define L __LINE__\n#define F() L\n#define G(x) x + F()\n", "L, F(\n), G(\n__LINE__\n), L", ""),
    "line behind splices": ("#define L \\\n __LINE__\n", "L + \\\n __LINE__, __LI\\\nNE__, L", ""),
    "line behind comments": ("/* a\n b */ constant int c = __LINE__; /* d\n */ constant int d = __LINE__;\n", "c, d, /* \n */ __LINE__", ""),
    "line directives": ("#line 70\n#define N 5\n", "__LINE__,\n#line 1000 \"other.h\"\n__LINE__,\n__LINE__, sizeof(__FILE__)", ""),
    "line from a macro": ("#define L 400 \"x\"\n#line L\n", "__LINE__, sizeof(__FILE__), __FILE__[0]", ""),
    "line in conditions": ("#if __LINE__ == 1\n#define A 1\n#else\n#define A 2\n#endif\n#if \\\n __LINE__ == 7\n#define B 1\n#else\n#define B 2\n#endif\n", "A, B", ""),
    "line through pasting": ("#define CAT(a, b) a ## b\n#define XCAT(a, b) CAT(a, b)\n", "CAT(__LI, NE__), XCAT(1,\n__LINE__), XCAT(__LINE__,\n\n0)", ""),
    "true and false": ("#if true && !false\n#define A 1\n#else\n#define A 2\n#endif\n", "A, true + true", ""),
    "true by option": ("#if USE\n#define A 1\n#else\n#define A 2\n#endif\n", "A", "-DUSE=true"),
    "elifdef": ("#define Y\n#ifdef X\n#define A 0\n#elifdef Y\n#define A 1\n#else\n#define A 2\n#endif\n", "A", ""),
    "elifndef nested": ("#ifdef X\n#if 1\n#elifdef Y\n#endif\n#define A 0\n#elifndef Z\n#define A 1\n#elifndef Q\n#define A 2\n#endif\n", "A", ""),
    "elif behind taken": ("#if 1\n#define A 1\n#elif 1 / 0\n#define A 2\n#elif (\n#endif\n", "A", ""),
    "skipped garbage": ("#if 0\n don't x \"y\n#nonsense\n#elif 0\n garbage (\n#endif\n#define A 3\n", "A", ""),
    "characters": ("#if 'a' == 97 && '\\x41' == 'A' && '\\101' == 65 && '\\'' == 39\n#define A 1\n#else\n#define A 2\n#endif\n", "A, 'ab', '\\xff', '\\0'", ""),
    "signed characters": ("#if '\\xff' < 0\n#define A 1\n#else\n#define A 2\n#endif\n#if '\\377' == -1\n#define B 1\n#else\n#define B 2\n#endif\n", "A, B", ""),
    "several characters": ("#if 'ab' == 24930 && 'abcd' == 1633837924\n#define A 1\n#else\n#define A 2\n#endif\n", "A, 'abcd'", ""),
    "wide characters": ("#define L 5\n#if L'a' == 97\n#define A 1\n#else\n#define A 2\n#endif\n", "A, L'b', L", ""),
    "wide arithmetic": ("#if 0x7fffffffffffffff + 1 < 0\n#define A 1\n#else\n#define A 2\n#endif\n#if 1 << 64\n#define B 1\n#else\n#define B 2\n#endif\n", "A, B", ""),
    "unsigned promotion": ("#if -1 > 0u\n#define A 1\n#else\n#define A 2\n#endif\n#if (0 ? 1u : -1) > 0\n#define B 1\n#else\n#define B 2\n#endif\n", "A, B", ""),
    "division": ("#if -7 / 2 == -3 && -7 % 2 == -1 && (1 || 1 / 0) && !(0 && 1 % 0)\n#define A 1\n#else\n#define A 2\n#endif\n", "A", ""),
    "shifts": ("#if (-8 >> 1) == -4 && (1 << 62 >> 60) == 4\n#define A 1\n#else\n#define A 2\n#endif\n", "A", ""),
    "ternary": ("#if 1 ? 0 ? 4 : 0 : 5\n#define A 1\n#else\n#define A 2\n#endif\n", "A", ""),
    "commas": ("#if (0, 1)\n#define A 1\n#else\n#define A 2\n#endif\n", "A", ""),
    "octal and binary": ("#if 010 == 8 && 0b101 == 5 && 0X1F == 31 && 1ULL == 1lu\n#define A 1\n#else\n#define A 2\n#endif\n", "A", ""),
    "digraphs": ("constant int v2<:2:> = <%1, 2%>;\n%:define A 4\n%:define S(x) sizeof(%:x)\n%:define C(a, b) a%:%:b\n", "A, S(abc), C(1, 2), v2<:1:>", ""),
    "digraphs around a body": ("int f(int x) <% int a<:2:> = <%x%>; return a<:0:> + get_group_id(0) - get_group_id(0); %>\n", "f(3), f(4)", ""),
    "trigraphs": ("??=define A 4\n#define S \"??/\"??)\"\n", "A, sizeof(S), 5 ??' 1, sizeof(\"??!\"), sizeof(\"?\\?!\")", ""),
    "counter": ("#define C __COUNTER__\n#define T(x) x + x\n#define R(x) #x\n", "C, C, T(C), sizeof(R(C)), __COUNTER__", ""),
    "include level": ("", "__INCLUDE_LEVEL__", ""),
    "defined by expansion": ("#define D defined(A) && !defined B\n#define A\n#if D\n#define V 1\n#else\n#define V 2\n#endif\n", "V", ""),
    "defined function": ("#define F(x) x\n#if defined F && defined(F)\n#define V 1\n#else\n#define V 2\n#endif\n", "V", ""),
    "stringizing blanks": ("#define S(...) sizeof(#__VA_ARGS__)\n", "S(a b), S( a   b ), S(a/**/b), S(a\nb), S(\"a\\n\" '\\0'), S(), S(a , b)", ""),
    "stringizing expanded": ("#define S_(x) #x\n#define S(x) sizeof(S_(x))\n#define N -\n#define E\n", "S(N-1), S(-N), S(E a E), S(a E b), S(\"\\\\\"), S(E E)", ""),
    "pasting nothing": ("#define C(a, b, c) a ## b ## c\n", "C(1,2,3), C(,1,), C(1,,2), C(4,,) C(,,) ", ""),
    "pasting numbers": ("#define C(a, b) a ## b\n", "(int)C(1, e2), C(0x, ff), C(1, u), (int)C(.5e, 1)", ""),
    "pasting operators": ("#define C(a, b) a ## b\n", "1 C(<, <) 3, 5 C(!, =) 4, 7 C(&, &) 0", ""),
    "blue paint": ("#define f(x) g(x) + f\n#define g(x) x * f\nconstant int f_ = 3;\n#define z z_ + y\n#define y z_\nconstant int z_ = 5;\n", "z, y", ""),
    "self reference": ("constant int foo = 4;\n#define foo (foo + 1)\n#define bar foo + bar2\n#define bar2 foo\n", "foo, bar", ""),
    "rescanning": ("#define x 3\n#define f(a) h(x * (a))\n#undef x\n#define x 2\n#define h(a) a\n#define t(a) a\n#define g f\n", "f(x + 1), t(g)(4), t(t(g)(0) + 1)", ""),
    "delayed": ("#define E\n#define ID(x) x\n#define A() 123\n#define D(x) x E ()\n", "ID(D(A)), ID(ID(A)()), ID(A ())", ""),
    "variable arguments": ("#define F(...) (0, ##__VA_ARGS__)\n#define G(a, ...) (a, ##__VA_ARGS__)\n#define H(a, r...) (a, ##r)\n", "F(2), G(1), G(1, 2), H(3), H(3, 4, 5)", ""),
    "optional arguments": ("#define F(a, ...) (a __VA_OPT__(+ (__VA_ARGS__)))\n#define E\n", "F(1), F(1, 2), F(1,), F(1, E), F(1, 2, 3)", ""),
    "counting": ("#define N_(a, b, c, d, n, ...) n\n#define N(...) N_(__VA_ARGS__, 4, 3, 2, 1, 0)\n", "N(x), N(x, y), N((x, y)), N(x, y, z, w)", ""),
    "x macros": ("#define LIST(X) X(a, 1) X(b, 2) X(c, 3)\n#define E(n, v) e_##n = v,\nenum { LIST(E) };\n#define S(n, v) + v\n", "e_a, e_c, 0 LIST(S)", ""),
    "recursion by hand": ("#define EVAL(...) E1(E1(__VA_ARGS__))\n#define E1(...) __VA_ARGS__\n#define EMPTY()\n#define DEFER(m) m EMPTY()\n#define R(n) n + DEFER(Q)()(n)\n#define Q() R_\n#define R_(n) n\n", "EVAL(R(3))", ""),
    "splices in names": ("#def\\\nine LO\\\nNG 12\\\n3\n", "LO\\\nNG, LON\\\nG", ""),
    "splices in comments": ("// a \\\n#define A 1\n#ifndef A\n#define A 2\n#endif\n/\\\n* #define A 3 *\\\n/\n", "A", ""),
    "blanks behind splices": ("#define A 1 \\  \n + 2\n", "A", ""),
    "comments in directives": ("#define /* x */ A /* y\n z */ 4 // 5\n/* */ # /* */ if /* */ A == 4 /* */\n#define B 1\n#else\n#define B 2\n#endif\n", "A, B", ""),
    "comments in strings": ("#define A \"/*\"\n", "sizeof(A), sizeof(\"//\"), sizeof(\"*/\") /* \" */, '/*' == '/*'", ""),
    "quotes in comments": ("// don't\n/* \" */\n#define A 6 // '\n", "A", ""),
    "push and pop": ("#define A 1\n#pragma push_macro(\"A\")\n#undef A\n#define A 2\nconstant int a = A;\n#pragma pop_macro(\"A\")\n", "A, a", ""),
    "pragma operator": ("#define U _Pragma(\"unroll 2\")\nint f(int n) { int s = 0; U for (int i = 0; i < n; i++) s += i; return s; }\n", "f(5)", ""),
    "pack": ("#define pack 3\n#pragma pack(push, 1)\nstruct s { char c; int i; };\n#pragma pack(pop)\nstruct t { char c; int i; };\n", "sizeof(struct s), sizeof(struct t), pack", ""),
    "contraction": ("#pragma OPENCL FP_CONTRACT OFF\n", "(int)(1.5f * i + 2.5f)", ""),
    "version macros": ("#if __OPENCL_C_VERSION__ >= 120 && __OPENCL_VERSION__ >= CL_VERSION_1_2\n#define A 1\n#else\n#define A 2\n#endif\n", "A, __OPENCL_C_VERSION__", ""),
    "version by option": ("", "__OPENCL_C_VERSION__, CL_VERSION_2_0", "-cl-std=CL2.0"),
    "endian and images": ("#ifdef __ENDIAN_LITTLE__\n#define A 1\n#else\n#define A 2\n#endif\n", "A, __IMAGE_SUPPORT__, __ENDIAN_LITTLE__", ""),
    "relaxed": ("#ifdef __FAST_RELAXED_MATH__\n#define A 1\n#else\n#define A 2\n#endif\n", "A", "-cl-fast-relaxed-math"),
    "not relaxed": ("#ifdef __FAST_RELAXED_MATH__\n#define A 1\n#else\n#define A 2\n#endif\n", "A", ""),
    "sizes": ("#if __SIZEOF_POINTER__ == 8 && __CHAR_BIT__ == 8 && INT_MAX == 2147483647\n#define A 1\n#else\n#define A 2\n#endif\n", "A, __SIZEOF_LONG__, CHAR_BIT", ""),
    "compiler": ("#ifdef __GNUC__\n#define A 1\n#else\n#define A 2\n#endif\n#if __clang_major__ >= 19\n#define B 1\n#else\n#define B 2\n#endif\n", "A, B, __clang_major__", ""),
    "vendor": ("#ifdef __INTEL_LLVM_COMPILER\n#define A 1\n#else\n#define A 2\n#endif\n#if defined __SPIR__ || defined(__POCL__)\n#define B 1\n#else\n#define B 2\n#endif\n", "A, B", ""),
    "features": ("#if __has_builtin(__builtin_astype) && __has_attribute(overloadable) && !__has_builtin(nothing)\n#define A 1\n#else\n#define A 2\n#endif\n", "A", ""),
    "extensions": ("#ifdef cl_khr_fp64\n#define A 1\n#else\n#define A 2\n#endif\n#ifdef cl_nothing\n#define B 1\n#else\n#define B 2\n#endif\n", "A, B", ""),
    "undefined names": ("#if NOTHING == 0 && !OTHER\n#define A 1\n#else\n#define A 2\n#endif\n", "A", ""),
    "constants by option": ("", "(int)(M_PI * 100), CHAR_BIT, N", "-DM_PI=5 -DN=7"),
    "options with blanks": ("#define S_(x) #x\n#define S(x) sizeof(S_(x))\n", "N, S(N), S(T)", '-D N="1 + 2" -DT=\\"a\\ b\\"'),
    "options in order": ("", "A, B", "-DA=1 -DB=2 -DB=3"),
    "functions by option": ("", "F(3), G", '-D"F(x)=x * 2" -DG=F(4)'),
    "character by option": ("", "C", "-DC='a'"),
    "empty by option": ("", "1 E + 2", "-DE="),
    "include": ('#include "one.h"\n#include <one.h>\n#define NAME "two.h"\n#include NAME\n', "ONE, TWO, one, two", "-I FOLDER"),
    "once": ('#include "once.h"\n#include "once.h"\n', "once", "-IFOLDER"),
    "import": ('#import "counted.h"\n#import "counted.h"\n#include "counted.h"\n', "COUNT", "-IFOLDER"),
    "import of what was included": ('#include "counted.h"\n#import "counted.h"\n#include "counted.h"\n', "COUNT", "-IFOLDER"),
    "include in blanks": ('#include "three.h"\n', "three", '-I "FOLDER/a b"'),
    "has include": ('#if __has_include("one.h") && !__has_include(<nothing.h>)\n#define A 1\n#else\n#define A 2\n#endif\n', "A", "-I FOLDER"),
    "undefined constants": ("#undef INT_MAX\n#define INT_MAX 3\n", "INT_MAX, CHAR_BIT", ""),
    "names of types": ("#define real float\n#define real4 float4\n", "sizeof(real4), sizeof(real)", ""),
    "keywords": ("#define int long\n#define if(x) while (x)\n", "sizeof(int)", ""),
    "directive in arguments": ("#define ID(x) x\n", "ID(\n#define Z 4\n#ifdef Z\n5\n#else\n6\n#endif\n)", ""),
    "unbalanced": ("#define O (\n#define X O 1 + 2 )\n#define F(x) x\n#define P F(7) + O\n", "X * 2, O 1 ), P 1 )", ""),
    "dollars": ("#define $a 4\n#define b$ $a + 1\n", "$a, b$", ""),
    "unicode": ("#define \u00e9t\u00e9 9\n", "\u00e9t\u00e9", ""),
    "stray hash": ("#define H # x\n#define S(x) sizeof(#x)\n#define T(x) S(x)\n#\n# /* nothing */\n", "T(H)", ""),
    "carriage returns": ("#define A 1 + \\\r\n 2\r\n#if A == 3\r\n#define B 1\r\n#else\r\n#define B 2\r\n#endif\r\n", "A, B, __LINE__", ""),
    "form feeds": ("#define\fA\v4\n\f#define B\t5\n", "A\f+\vB", ""),
}  # fmt: skip


def source_of(head: str, expressions: str) -> str:
    """The program; `i` is the item."""
    return (
        f"{head}kernel void put(global long *out) {{\n  int i = get_global_id(0);\n  long v[] = {{ {expressions} }};\n"
        "  int n = sizeof(v) / sizeof(v[0]);\n  for (int j = 0; j < 16; j++) out[16 * i + j] = j < n ? v[j] + i : -1;\n}\n"
    )


def headers(folder: Path) -> None:
    """The files that programs include."""
    (folder / "a b").mkdir()
    (folder / "one.h").write_text(
        "#ifndef ONE\n#define ONE 11\nconstant int one = __LINE__ + 10 * __INCLUDE_LEVEL__;\n#endif\n"
    )
    (folder / "two.h").write_text('#include "one.h"\n#define TWO ONE + 1\nconstant int two = __LINE__;\n')
    (folder / "once.h").write_text("#pragma once\nconstant int once = __COUNTER__;\n")
    (folder / "counted.h").write_text(
        "#ifndef COUNT\n#define COUNT 1\n#elif COUNT == 1\n#undef COUNT\n#define COUNT 2\n#else\n#undef COUNT\n#define COUNT 3\n#endif\n"
    )
    (folder / "a b" / "three.h").write_text("constant int three = 3;\n")


def result_of(context: cl.Context, queue: cl.CommandQueue, name: str, folder: Path) -> str:
    head, expressions, options = PROGRAMS[name]
    try:
        # PyOpenCL's own way would split and join the options.
        program = cl._cl._Program(context, source_of(head, expressions))
        program._build(options.replace("FOLDER", str(folder)).encode(), None)
        kernel = cl.Kernel(program, "put")
    except cl.Error as error:
        return f"refused ({type(error).__name__})"
    got = np.full(16 * _ITEMS, -7, np.int64)
    out = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=got)
    kernel(queue, (_ITEMS,), (16,), out)
    cl.enqueue_copy(queue, got, out)
    first = " ".join(str(value) for value in got[:16] if value != -1)
    return f"{hashlib.sha256(got.tobytes()).hexdigest()[:12]} {first}"


def main() -> int:
    warnings.simplefilter("ignore")
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    with tempfile.TemporaryDirectory() as folder:
        headers(Path(folder))
        for name in PROGRAMS:
            print(f"{name}: {result_of(context, queue, name, Path(folder))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
