"""What is computed when a program is translated, and jumps for each of several conditions."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import parse_program

from .cuda_host import COMPILER, HostProgram, aligned
from .cuda_host import MISSING as NO_COMPILER
from .cuda_parts import TARGET
from .nvrtc import MISSING, compile_cuda, library

KERNEL = """
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
kernel void f(global double *out, float unknown, int number) {{ int n = 2; out[0] = {}; }}
"""
_HEXADECIMAL = re.compile(r"-?0x[01]\.[0-9a-f]+p[-+]\d+")


def _cuda(expression: str, *options: str) -> str:
    return translate_cuda(parse_program(KERNEL.format(expression), options, target=TARGET)).source


def _printed(source: str) -> str:
    return source[source.index("out[0] =") :].split(";")[0].removeprefix("out[0] =").strip()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("pow(M_PI_F, 2.5f)", float(np.float32(math.pow(float(np.float32(math.pi)), 2.5)))),
        ("pow(2.0f, -1.5f)", float(np.float32(2**-1.5))),
        ("exp(1.0)", math.e),
        ("exp((double)(1 + 2))", math.exp(3)),
        ("exp10(-2.0f)", float(np.float32(0.01))),
        ("log(3.0f / 2.0f)", float(np.float32(math.log(1.5)))),
        ("pown(1.5f, 3)", 3.375),
        ("rsqrt(4.0f)", 0.5),
        ("atan2(1.0f, -1.0f)", float(np.float32(0.75 * math.pi))),
        ("tgamma(5.0f)", 24.0),
        ("erf(0.5)", math.erf(0.5)),
        ("-cos(+1.0f)", float(np.float32(math.cos(1)))),  # the sign stays in front
    ],
)
def test_known_arguments(expression: str, value: float) -> None:
    (found,) = _HEXADECIMAL.findall(_printed(_cuda(expression)))
    assert float.fromhex(found) == value


#: near each of binary16's borders: its least numbers, where they get wider, in the middle between two, its largest
_HALVES = [
    (sign, f"{sign}{value.hex()}", value)
    for sign in ("", "-")
    for border in (
        0.0,
        2.0**-25,
        2.0**-24,
        3 * 2.0**-25,
        2.0**-14,
        1.0,
        1 + 2.0**-11,
        1 + 3 * 2.0**-11,
        65504.0,
        65520.0,
        98304.0,
        1e300,
    )
    for value in (border, math.nextafter(border, 0.0), math.nextafter(border, math.inf))
]
HALF_TABLES = """
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
constant half table[] = {{ {} }};
constant half several[] = {{ INFINITY, -INFINITY, 2.5f, (half)3, -1.5h, 1.0h + 0x1p-11f, 2.0h * 3.0h, 1.0h / 3.0h, 7 }};
constant half4 vectors[] = {{ (half4)(0.5f), (half4)(1, 2.0f, 3.0, 4.0h), -(half4)(INFINITY) }};
constant float back[] = {{ (half)65504.0f, (half)0x1.8p-24f, (half)-0x1p-14f, (half)1e9f, 1.0h < 2.0f }};
kernel void f(global ushort *out, global float *wide) {{
    size_t i = get_global_id(0);
    out[i] = as_ushort(table[i]);
    if (i < 9) out[100 + i] = as_ushort(several[i]);
    if (i < 3) vstore4(as_ushort4(vectors[i]), i, out + 200);
    if (i < 5) wide[i] = back[i];
}}
"""


def _half_tables() -> str:
    return HALF_TABLES.format(", ".join(text for _, text, _ in _HALVES))


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_tables_of_halves_compile() -> None:
    """What initialises constant memory is computed without the machine's instructions."""
    program = translate_cuda(parse_program(_half_tables(), target=TARGET))
    done, said = compile_cuda(program.source, program.options)
    assert done, said[:4000]


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_halves_without_instructions() -> None:
    """The compiler itself compares: it computes nothing else than what it initialises constant memory with."""
    program = translate_cuda(parse_program("kernel void f(global half *p) { p[0] = 1; }", target=TARGET))
    lines = [program.source]
    with np.errstate(over="ignore"):
        for sign, text, value in _HALVES:
            bits = np.float64(-value if sign else value).astype(np.float16).view(np.uint16)
            lines.append(f"static_assert(vdev_cl::known_half_bits({text}) == {bits:#x});")
    for bits in [
        0,
        1,
        2,
        0x3FF,
        0x400,
        0x3C00,
        0x3C01,
        0x7BFF,
        0x7C00,
        0x7E00,
        0x8000,
        0x8001,
        0x83FF,
        0xC500,
        0xFC00,
    ]:
        wide = np.uint16(bits).view(np.float16).astype(np.float32).view(np.uint32)
        lines.append(
            f"static_assert(__builtin_bit_cast(unsigned, vdev_cl::known_float_of_half({bits:#x})) == {wide:#x});"
        )
    for value in (
        "__builtin_bit_cast(double, 0x7ff0000000000001)",
        "__builtin_bit_cast(double, 0x7ff8000000000000)",
    ):
        lines.append(f"static_assert(vdev_cl::known_half_bits({value}) == 0x7e00);")
    done, said = compile_cuda("\n".join(lines), program.options)
    assert done, said[:4000]


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
def test_tables_of_halves(tmp_path: Path) -> None:
    program = translate_cuda(parse_program(_half_tables(), target=TARGET))
    out, wide = aligned(np.zeros(256, np.uint16)), aligned(np.zeros(8, np.float32))
    HostProgram(program, tmp_path).run("f", [out, wide], (len(_HALVES),), (1,))
    with np.errstate(over="ignore"):
        table = [np.float64(-value if sign else value).astype(np.float16) for sign, _, value in _HALVES]
        several = np.array([np.inf, -np.inf, 2.5, 3, -1.5, 1, 6, 1 / 3, 7], np.float16)
    assert out[: len(table)].tolist() == np.array(table).view(np.uint16).tolist()
    assert out[100:109].tolist() == several.view(np.uint16).tolist()
    vectors = np.array([0.5] * 4 + [1, 2, 3, 4] + [-np.inf] * 4, np.float16)
    assert out[200:212].tolist() == vectors.view(np.uint16).tolist()
    assert wide[:5].tolist() == [65504.0, 2.0**-23, -(2.0**-14), math.inf, 1.0]


def test_single_precision_constants() -> None:
    printed = _printed(_cuda("exp(1.0)", "-cl-single-precision-constant"))
    (found,) = _HEXADECIMAL.findall(printed)
    assert float.fromhex(found) == float(np.float32(math.e))


@pytest.mark.parametrize(
    "expression",
    [
        "exp(unknown)",
        "pow(2.0f, (float)n)",
        "exp((float)(n = 3))",
        "pown(2.0f, number)",
        "log(-1.0f)",  # no number
        "log(0.0f)",
        "exp(200.0f)",  # too large a number
        "exp(-100.0f)",  # a subnormal one, which options may make zero
        "sin(0.0f)",
        "exp(1.0f / 0.0f)",
        "exp((float2)(1.0f)).x",
        "exp(1.0h)",
        "native_exp(1.0f)",
        "exp(\n1.0f)",  # lines would move
    ],
)
def test_what_stays_a_call(expression: str) -> None:
    assert not _HEXADECIMAL.findall(_printed(_cuda(expression)))


def test_a_function_of_the_programs_own() -> None:
    source = "float expm1_(float a) { return a; } kernel void f(global float *out) { out[0] = expm1_(1.0f); }"
    assert not _HEXADECIMAL.findall(_printed(translate_cuda(parse_program(source, (), target=TARGET)).source))


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_literals_compile() -> None:
    text = KERNEL.format("pow(M_PI_F, 2.5f) * exp(1.0) + log(2.0f)")
    program = translate_cuda(parse_program(text, (), target=TARGET))
    compiled, said = compile_cuda(program.source, program.options)
    assert compiled, said


# guards ---------------------------------------------------------------------------------------------

GUARDED = """
kernel void f(global int *out, global const int *a, int n)
{
    int i = get_global_id(0), sum = 0;
    if (i >= n ||
        a[i] == 3 || !a[i]) return;
    for (int k = 0; k < 8; ++k) {
        if (a[k] == i || (k & 1 && sum > 6)) { continue; }
        if (k > 2) if (a[k] > 6 || sum > 20) break;
        if (k == 1 || k == 2) sum += 100; else sum += a[k];
        if (a[k] || sum) ++sum;
        if ((sum > 30 || k > 5)) { { break; } }
    }
    if ((sum) == 7 || (sum == 8)) return;
    out[i] = sum;
}
"""


def _modelled(a: np.ndarray, n: int) -> np.ndarray:
    out = np.full(a.size, -1, np.int32)
    for i in range(a.size):
        if i >= n or a[i] in (0, 3):
            continue
        total = 0
        for k in range(8):
            if a[k] == i or (k & 1 and total > 6):
                continue
            if k > 2 and (a[k] > 6 or total > 20):
                break
            total += 100 if k in (1, 2) else int(a[k])
            total += bool(a[k] or total)
            if total > 30 or k > 5:
                break
        if total not in (7, 8):
            out[i] = total
    return out


def test_each_condition_has_its_jump() -> None:
    source = translate_cuda(parse_program(GUARDED, (), target=TARGET)).source
    assert "if (i >= n ) return; else if (" in source
    assert "a[i] == 3 ) return; else if ( !a[i]) return;" in source
    assert "if (k == 1 || k == 2)" in source  # it does something
    printed = source[source.rindex("int i =") : source.index("out[i] = sum")]
    written = GUARDED[GUARDED.index("int i =") : GUARDED.index("out[i] = sum")]
    assert printed.count("\n") == written.count("\n")


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
def test_what_guards_compute(tmp_path: Path) -> None:
    program = HostProgram(translate_cuda(parse_program(GUARDED, (), target=TARGET)), tmp_path)
    for seed in range(20):
        a = aligned(np.random.default_rng(seed).integers(0, 9, 64, np.int32))
        out = aligned(np.full(64, -1, np.int32))
        program.run("f", [out, a, np.int32(60)], (64,), (8,))
        assert (out == _modelled(a, 60)).all()


JUMPS_OUT = """
#define UNLESS(condition, jump) ({ if (condition) jump; })
int first(global const int *a, int n) { for (int i = 0; i < n; i++) { UNLESS(a[i] > 4, return i); } return -1; }
kernel void f(global const int *a, global int *out, int n) {
    int i = get_global_id(0), sum = 0;
    UNLESS(i == 3, return);
    for (int j = 0; j < n; j++) {
        ({ int x = a[j]; UNLESS(x == 2, continue); if (x > i + 3) break; sum += ({ int y = x * 2; y + 1; }); });
        out[i + 8] += 1;
    }
    ({ if (sum == 3) goto last; sum += 100; });
last:
    out[i] = sum + first(a, n);
}
"""


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
def test_jumps_out_of_expressions(tmp_path: Path) -> None:
    """Where an expression in braces is a statement of its own, jumps may lead out of it."""
    program = translate_cuda(parse_program(JUMPS_OUT, target=TARGET))
    a, out = aligned(np.array([1, 2, 4, 3, 5, 9], np.int32)), aligned(np.zeros(16, np.int32))
    HostProgram(program, tmp_path).run("f", [a, out, np.int32(6)], (6,), (1,))
    assert out[:6].tolist() == [4 + 3, 4 + 119, 4 + 130, 0, 4 + 130, 4 + 130]
    assert out[8:14].tolist() == [1, 3, 4, 0, 4, 4]


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_jumps_out_of_expressions_compile() -> None:
    program = translate_cuda(parse_program(JUMPS_OUT, target=TARGET))
    done, said = compile_cuda(program.source, program.options)
    assert done, said[:4000]
