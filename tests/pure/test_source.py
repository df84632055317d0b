"""The front end: what kernels' arguments are, what is rejected with which words, where things stand."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import clang.cindex as cindex
import pytest
from clang.cindex import CursorKind, TypeKind
from vdev.translators.frontend import clang, hidden_parts
from vdev.translators.frontend.operator_kinds import Binary, Joining, Placed, Unary
from vdev.translators.frontend.source import ArgInfo, CompileError, ParsedProgram, Target, parse_program
from vdev.translators.frontend.syntax import Node, Use, parts_of
from vdev.translators.frontend.syntax_reader import SyntaxReader

SIGNATURES = """
typedef struct { int a; float b; } S;
typedef __global float *pointer; typedef float real; typedef uint4 four;
__kernel __attribute__((reqd_work_group_size(4, 1 + 0x1, 1))) __attribute__((vec_type_hint(float4))) void f(
  __global const float *restrict a, unsigned int n, pointer p, __local float4 *l, S s, read_only image2d_t im,
  sampler_t sm, __constant volatile int c[], float3 v, unsigned long q, __global S *ps, __global void *pv,
  __global unsigned char *uc, real m, __global real *mp, four u, __global int (*pa)[4], const int ci,
  __global float * const cp, char, half h, write_only image3d_t out) {}
"""

#: of a function of ctypes: the interpreter lock is kept (FUNCFLAG_PYTHONAPI)
PYTHON_API = 4


def arg(kernel: str, name: str, source: str) -> ArgInfo:
    return next(a for a in parse_program(source).kernels[kernel].args if a.name == name)


# name, type_name, kind, type qualifiers, bytes, struct format (as Intel's CPU engine answers)
ARGUMENTS = [
    ("a", "float*", "global", ("const", "restrict"), 4, None),
    ("n", "uint", "value", (), 4, "I"),
    ("p", "float*", "global", (), 4, None),
    ("l", "float4*", "local", (), 16, None),
    ("s", "S", "value", (), 8, None),
    ("im", "image2d_t", "image", (), 8, None),
    ("sm", "sampler_t", "sampler", (), 8, None),
    ("c", "int*", "constant", ("const", "volatile"), 4, None),
    ("v", "float3", "value", (), 16, None),
    ("q", "ulong", "value", (), 8, "Q"),
    ("ps", "S*", "global", (), 8, None),
    ("pv", "void*", "global", (), 1, None),
    ("uc", "uchar*", "global", (), 1, None),
    ("m", "real", "value", (), 4, "f"),
    ("mp", "real*", "global", (), 4, None),
    ("u", "four", "value", (), 16, None),
    ("pa", "int[4]*", "global", (), 16, None),
    ("ci", "int", "value", (), 4, "i"),
    ("cp", "float*", "global", (), 4, None),
    ("", "char", "value", (), 1, "b"),
    ("h", "half", "value", (), 2, "e"),
    ("out", "image3d_t", "image", (), 8, None),
]


def test_arguments() -> None:
    kernel = parse_program(SIGNATURES).kernels["f"]
    found = [(a.name, a.type_name, a.kind, a.type_qualifiers, a.nbytes, a.scalar) for a in kernel.args]
    assert found == ARGUMENTS
    assert [a.access_qualifier for a in kernel.args if a.kind == "image"] == ["read_only", "write_only"]
    assert [a.name for a in kernel.args if a.pointee_const] == ["a"]
    assert [a.address_qualifier for a in kernel.args[:6]] == [
        "global", "private", "global", "local", "private", "global",
    ]  # fmt: skip


def test_attributes_and_lines() -> None:
    kernel = parse_program(SIGNATURES).kernels["f"]
    assert kernel.reqd_work_group_size == (4, 2, 1)
    assert kernel.vec_type_hint == "float4"
    assert kernel.attributes == "reqd_work_group_size(4,2,1) vec_type_hint(float4)"
    assert kernel.line == 4


def test_sizes_in_attributes_are_constant_expressions() -> None:
    """Those that need more than a preprocessor, in which an enumeration's names would be 0; and inherited ones."""
    kernels = parse_program("""
enum { EDGE = 8 }; typedef struct { int a, b; } Pair;
#define SIZED(n) reqd_work_group_size(n, 1, 1)
__kernel __attribute__((reqd_work_group_size(sizeof(Pair) * 2, EDGE, 1))) void both(__global int *a) {}
__kernel __attribute__((reqd_work_group_size(0x10u, 2ul, '\\1'))) void literals(__global int *a) {}
__kernel __attribute__((SIZED(EDGE), vec_type_hint(float4))) void declared(__global int *a);
__kernel void declared(__global int *a) {}
__kernel __attribute__((work_group_size_hint(EDGE, EDGE, 2))) void hinted(__global int *a) {}
""").kernels
    required = {name: kernel.reqd_work_group_size for name, kernel in kernels.items()}
    assert required == {"both": (16, 8, 1), "literals": (16, 2, 1), "declared": (8, 1, 1), "hinted": None}
    assert kernels["hinted"].work_group_size_hint == (8, 8, 2)
    assert kernels["both"].attributes == "reqd_work_group_size(16,8,1)"
    assert kernels["declared"].attributes == "reqd_work_group_size(8,1,1) vec_type_hint(float4)"


def test_kernels_are_what_is_defined_as_such() -> None:
    source = (
        "kernel void a(int x); void kernel b(int x) {} void c(int x) {} void a(int x) {} kernel void d(int);"
    )
    assert set(parse_program(source).kernels) == {"a", "b"}


@pytest.mark.parametrize(
    ("source", "messages"),
    [
        (
            "__kernel void k(__global int *a) {\n  a[0] = nothing;\n  a[1] = 2\n}\n",
            [
                "<kernel>:2:10: error: use of undeclared identifier 'nothing'",
                "    2 |   a[0] = nothing;",
                "      |          ^",
                "<kernel>:3:11: error: expected ';' after expression",
            ],
        ),
        (
            "#define BAD(x) missing(x)\n__kernel void k(__global int *a) {\n\n  BAD(a);\n}\n",
            [
                "<kernel>:4:3: error: use of undeclared identifier 'missing'",
                "<kernel>:1:16: note: expanded from macro 'BAD'",
            ],
        ),
        ('\n#include "nowhere.h"\n', ["<kernel>:2:10: fatal error: 'nowhere.h' file not found"]),
        ("#error no\n", ["<kernel>:1:2: error: no"]),
        (
            "kernel void k() { float x = as_float(1L); }",
            ["error: invalid reinterpretation: sizes of 'float' and 'long' must match"],
        ),
        ("kernel void k(int *a) {}", ["error: pointer arguments to kernel functions must reside in"]),
        ("kernel void k(size_t a) {}", ["cannot be used as the type of a kernel parameter"]),
        ("int f(int x) { return y; }", ["use of undeclared identifier 'y'"]),
    ],
)
def test_rejected_with_clangs_words(source: str, messages: list[str]) -> None:
    with pytest.raises(CompileError) as caught:
        parse_program(source)
    for message in messages:
        assert message in caught.value.log


def test_warnings_are_the_log() -> None:
    program = parse_program("#warning look here\nkernel void k(global int *a) { *a = 0; }")
    assert "<kernel>:1:2: warning: look here" in program.log
    assert program.exact
    assert parse_program("kernel void k(global int *a) { *a = 0; }").log == ""


# Everything here is accepted by native engines for the version named.
ACCEPTED = {
    120: [
        "a[0] = vload_half(0, (__global half *)a); vstore_half_rte(a[1], 0, (__global half *)a);",
        "float4 v = shuffle((float4)(1,2,3,4), (uint4)(3,2,1,0)); a[0] = v.s0 + dot(v, v) + v.hi.x;",
        'printf("%v4f %d %s\\n", (float4)(1.0f), 3, "x");',
        "event_t e = async_work_group_copy(l, a, 4, 0); wait_group_events(1, &e); prefetch(a, 4);",
        "b[0] = as_int(convert_uchar4_sat_rte((float4)(a[0]))); a[0] = as_float3((int4)(1)).x + as_float(3);",
        "b[0] = atomic_cmpxchg(b, 1, 2) + atomic_xchg(b, 1) + atom_add(b, 1); atomic_max(u, 3u);",
        "a[0] = FLT_MAX * M_PI_F + INFINITY + NAN + HUGE_VALF; b[0] = INT_MAX + CHAR_BIT + (b == NULL);",
        "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); mem_fence(CLK_LOCAL_MEM_FENCE);",
        "float f; int e; a[0] = fract(a[0], &f) + sincos(1.f, &f) + frexp(1.f, &e) + lgamma_r(1.f, &e);",
        "double d = 1.0; a[0] = convert_float_rtz(d); __local int s[4]; s[0] = vec_step(int4);",
        "half h = 1.0h; half4 h4 = (half4)(h); a[0] = convert_float(h4.x);",
    ],
    200: [
        "work_group_barrier(CLK_LOCAL_MEM_FENCE, memory_scope_work_group); b[0] = work_group_reduce_add(n);",
        "atomic_fetch_add_explicit((global atomic_int *)b, 1, memory_order_relaxed, memory_scope_device);",
        "int *g = b; g[0] = get_global_linear_id() + get_enqueued_local_size(0) + sub_group_reduce_add(n);",
        "queue_t q = get_default_queue(); ndrange_t r = ndrange_1D(1); clk_event_t e = CLK_NULL_EVENT;",
    ],
    300: [
        "atomic_store((global atomic_int *)b, 1); b[0] = work_group_broadcast(n, 0) + get_sub_group_size();"
    ],
}


@pytest.mark.parametrize(
    ("version", "body"), [(v, body) for v, bodies in ACCEPTED.items() for body in bodies]
)
def test_what_programs_may_use(version: int, body: str) -> None:
    head = "kernel void k(global float *a, global int *b, global uint *u, local float *l, int n) {"
    option = f"-cl-std=CL{version // 100}.{version // 10 % 10}"
    program = parse_program(f"{head}\n{body}\n}}", [option])
    assert program.exact


@pytest.mark.parametrize("version", ["0.9", "1.3", "2.1", "2.2", "3.1", "9.9"])
def test_versions_that_clang_does_not_know(version: str) -> None:
    """An engine says what it has: clang reads the text as the version before it."""
    assert parse_program("kernel void k(global int *a) { a[0] = 1; }", [f"-cl-std=CL{version}"]).exact


_TYPES = ("char", "uchar", "short", "ushort", "half", "int", "uint", "float", "long", "ulong", "double")


@pytest.mark.parametrize("count", ["", "2", "3", "4", "8", "16"])
def test_every_reinterpretation_is_declared(count: str) -> None:
    """Only those of sizes that a text names are, also where a macro composes their names."""
    for name in (f"{each}{count}" for each in _TYPES):
        taken = f"u{name}" if name[0] in "csil" else name
        body = f"{name} x = as_{name}(*({taken} *)p); *({name} *)p = as_{name}(x);"
        assert parse_program(f"kernel void k(global char *q) {{ private char p[128]; {body} }}").exact, name
    # Each text alone is read with what its own names need.
    composed = (
        f"#define AS(t) as_##t\nkernel void k(global char{count} *q) {{ q[0] = AS(char{count})(q[0]); }}"
    )
    assert parse_program(composed).exact


def test_extensions_follow_the_target() -> None:
    source = "kernel void k(global uint *a) { a[0] = bit_reverse(a[0]) + intel_sub_group_shuffle(a[0], 0u); }"
    assert parse_program(source, target=Target(extensions=("cl_khr_extended_bit_ops",))).exact
    with pytest.raises(CompileError, match="bit_reverse"):
        parse_program(source, target=Target(extensions=()))
    asks = "#ifdef cl_khr_fp64\ndouble x(void);\n#endif\n"
    asks += "#if __OPENCL_C_VERSION__ >= 200\nint new_(void);\n#endif\n"
    assert _functions(parse_program(asks)) == ["x"]
    assert _functions(parse_program(asks, ["-cl-std=CL3.0"], target=Target(extensions=()))) == ["new_"]


def _functions(program: ParsedProgram) -> list[str]:
    return [cursor.spelling for cursor in program.functions()]


def test_engines_constants_stay_and_users_are_expanded() -> None:
    source = "#undef M_PI\n#define M_PI 3\nkernel void k(global float *a) { a[0] = M_PI + M_E + FLT_MAX; }"
    assert "= 3 + M_E + FLT_MAX" in parse_program(source).preprocessed
    # Engines include the header with the constants behind the options' definitions.
    source = "kernel void k(global float *a) { a[0] = N + M_PI; }"
    assert "= 4 + M_PI" in parse_program(source, ["-DN=4 -D M_PI=5 -UM_PI"]).preprocessed


def test_cursors_are_exact_and_know_the_users_lines() -> None:
    source = "#define STORE(p, v) \\\n  p[get_global_id(0)] = v\n\n\n"
    source += "kernel void k(global int *a)\n{\n  STORE(a, 3);\n}\n"
    program = parse_program(source)
    calls = [c for c in clang.walk(program.definition("k")) if c.kind == CursorKind.CALL_EXPR]
    assert [program.text_of(c) for c in calls] == ["get_global_id(0)"]
    assert clang.line_of(calls[0]) == 7
    text = program.preprocessed.encode()
    start, stop = clang.extent_of(calls[0])
    assert text[start:stop] == b"get_global_id(0)"


def test_operators_are_told() -> None:
    program = parse_program("kernel void k(global int *a) { a[0] <<= 1; a[1] = -a[2] % 3, a[3]++; --a[4]; }")
    cursors = list(clang.walk(program.definition("k")))
    kinds = (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR)
    assert [clang.binary_operator(c) for c in cursors if c.kind in kinds] == [
        Binary.SHIFT_LEFT,
        Joining.COMMA,
        Joining.ASSIGN,
        Binary.REMAINDER,
    ]
    unary = [c for c in cursors if c.kind == CursorKind.UNARY_OPERATOR]
    assert [(clang.unary_operator(c), clang.is_postfix(c)) for c in unary] == [
        (Unary.MINUS, False),
        (Placed.RAISE, True),
        (Placed.LOWER, False),
    ]


def test_text_that_cannot_be_expanded_is_still_a_program() -> None:
    """Directives among a macro's arguments are undefined in C and accepted by clang: the original is kept."""
    source = "#define ID(x) x\nkernel void k(global int *a) {\n a[0] = ID(\n#define TWO 2\n TWO);\n}\n"
    program = parse_program(source)
    assert not program.exact
    assert program.doubts
    assert list(program.kernels) == ["k"]
    assert program.preprocessed == source


def test_odd_sources() -> None:
    assert parse_program("").kernels == {}
    assert parse_program("\ufeffkernel void k(void) {}").kernels["k"].args == ()
    umlaut = parse_program('kernel void k(global int *a) { /* ü */ printf("ä %d", a[0]); a[1] = 2; }')
    call = next(c for c in clang.walk(umlaut.definition("k")) if c.spelling == "printf")
    assert umlaut.text_of(call) == 'printf("ä %d", a[0])'
    assert parse_program("kernel void k(global int *a) {\r\n  a[0] = 1;\r\n}\r\n").kernels["k"].line == 1


#: what stands behind an operand: its tokens, and whether clang is asked for them
BEHIND = [
    (".xy", [".", "xy"], False),
    ("->s0", ["->", "s0"], False),
    (" . \n\t lo ", [".", "lo"], False),
    ("", [], False),
    (". /* .y */ x", [".", "/* .y */", "x"], True),
    (". // .y\nx", [".", "// .y", "x"], True),
    (".\\\nx", [".", "x"], True),
    (".x\\\ny", [".", "xy"], True),
    (", a.y", [",", "a", ".", "y"], True),
    (" + 1", ["+", "1"], True),
    (".x.y", [".", "x", ".", "y"], True),
    (".x)", [".", "x", ")"], True),
]


@pytest.mark.parametrize(("text", "expected", "asks"), BEHIND, ids=range(len(BEHIND)))
def test_what_stands_behind_an_operand(
    text: str, expected: list[str], asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = f"float4 v;\nfloat4 w = v{text};\n"
    unit = clang.parse(whole, ())
    start = whole.index("= v") + 3
    asked = []
    tokens_between = hidden_parts.tokens_between

    def counted(*given: int) -> Iterator[object]:
        asked.append(given)
        return tokens_between(*given)

    monkeypatch.setattr(hidden_parts, "tokens_between", counted)
    found = hidden_parts.spellings(unit, start, start + len(text), whole.encode())
    assert found == expected
    assert bool(asked) is asks
    assert found == hidden_parts.spellings(unit, start, start + len(text))  # as clang says of any text


def used_in(node: Node) -> Iterator[Use]:
    if isinstance(node, Use):
        yield node
    for part in parts_of(node):
        yield from used_in(part)


def test_a_name_is_read_once_and_known_again() -> None:
    program = parse_program(
        "enum { n = 3 }; kernel void f(global int *x, int y) { x[y] = y + n; { int y = 2; x[y] = y; } x[n] = y; }"
    )
    function = SyntaxReader(program).function("f")
    assert function is not None
    used = [*used_in(function.body)]
    assert [use.name for use in used] == ["x", "y", "y", "x", "y", "y", "x", "y"]
    outer, inner = used[1].key, used[4].key
    assert [use.key for use in used if use.name == "y"] == [outer, outer, inner, inner, outer]
    assert outer != inner


def test_what_cursors_and_types_say_of_themselves_is_asked_for_once() -> None:
    program = parse_program(
        "typedef struct { int x; } r; r g(r a) { return a; } kernel void k(global float4 *a, int n) { r b = {n}; a[n] = g(b).x; }"
    )
    for cursor in [found for function in program.functions() for found in clang.walk(function)]:
        others = cursor.referenced, *cursor.get_children(), cursor.type.get_declaration()
        types = cursor.type, cursor.type.get_canonical(), cursor.type.get_pointee()
        for one, kinds in [
            (cursor, CursorKind),
            *((o, CursorKind) for o in others),
            *((t, TypeKind) for t in types),
        ]:
            if one is not None:
                assert one.kind is kinds.from_id(one._kind_id)
                assert "kind" in vars(one)


def test_cursors_of_one_type_share_it() -> None:
    program = parse_program(
        "kernel void k(global int *a, int n) { const int b = n; uint c = b; a[0] = b + n + c; }"
    )
    (function,) = program.functions()
    cursors = [*clang.walk(function)]
    shared: dict[int, set[int]] = {}
    for cursor in cursors:
        shared.setdefault(clang.type_key(cursor), set()).add(id(cursor.type))
    assert all(len(found) == 1 for found in shared.values())
    assert {"int", "uint", "__global int *"} <= {cursor.type.spelling for cursor in cursors}
    assert all((cursor.type.data[0] or 0) == clang.type_key(cursor) for cursor in cursors)


def test_what_is_known_of_types_keeps_no_unit() -> None:
    """Without the collector: a program's unit is freed with the last of its cursors."""
    unit = clang.parse("kernel void k(global int *a, int n) { a[n] = n; }", ())
    held = weakref.ref(unit)
    cursors = [found for declared in clang.declarations(unit) for found in clang.walk(declared)]
    kinds = {clang.canonical(found.type).kind for found in cursors}
    assert TypeKind.INT in kinds
    collects = gc.isenabled()
    gc.disable()
    try:
        del unit
        assert held() is not None
        del cursors
        assert held() is None
    finally:
        if collects:
            gc.enable()


def test_only_what_takes_long_lets_other_threads_run() -> None:
    parse_program("kernel void k(global int *a) { a[0] = 1; }")
    kinds = "parse", "reparse", "create", "save", "dispose"
    long = {*(f"clang_{kind}TranslationUnit" for kind in kinds), "clang_codeCompleteAt"}
    for name, *_ in cindex.functionList:
        function = getattr(cindex.conf.lib, name, None)
        if function is not None:  # an older library may lack some
            assert bool(function._flags_ & PYTHON_API) == (name not in long), name
