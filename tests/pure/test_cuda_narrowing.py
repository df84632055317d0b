"""Work-item functions of which the low 32 bits are used: which calls give no more, and that no value changes. Index spaces begin
beyond 2^32, so that what is cut off shows.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import parse_program
from vdev.translators.ranges.ndrange import Chunk, Cycle, NDRange

from .cuda_host import COMPILER, HostProgram, aligned
from .cuda_host import MISSING as NO_COMPILER
from .cuda_parts import TARGET
from .nvrtc import MISSING, compile_cuda, library

OFFSET = (3 << 32) + 5

#: expressions of 64 bits, and whether their low bits need no more than those of work-item functions
EXPRESSIONS = {
    "get_global_id(0)": True,
    "(get_global_id(0))": True,
    "get_global_id(0) + n": True,
    "n * get_group_id(0) - wide": True,
    "(get_global_id(0) ^ 9) & wide | get_num_groups(0)": True,
    "get_global_id(0) << 3": True,
    "-get_global_id(0) + ~get_global_size(0)": True,
    "n > 2 ? get_global_id(0) : wide": True,
    "get_global_linear_id() * 3": True,
    "get_local_id(0) * 16 + get_global_offset(0)": True,
    "get_global_id(n)": True,
    "get_global_id(0) / 3": False,
    "get_global_id(0) % 7": False,
    "get_global_id(0) >> 1": False,
    "get_global_id(0) << 40 >> 40": False,
    "get_global_id(0) << 40": False,
    "get_global_id(0) << n": False,
    "get_global_id(0) > wide": False,
    "get_global_id(0) && n": False,
    "(size_t)(get_global_id(0) * 0.5f)": False,
    "max(get_global_id(0), (size_t)n)": False,
    "wide + n": False,
}
SOURCE = """
kernel void f(global {of} *out, int n, ulong wide)
{{
    const size_t at = get_global_id(0) - get_global_offset(0);
    {statement}
}}
"""


def _cuda(statement: str, of: str = "int") -> str:
    """What the kernel's body becomes."""
    source = SOURCE.format(of=of, statement=statement)
    text = translate_cuda(parse_program(source, ("-cl-std=CL2.0",), target=TARGET)).source
    return text[text.index("const size_t at") :].partition("\n")[2].partition("\n}")[0]


def _is_narrow(text: str) -> bool:
    return "low_get_" in text


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_low_bits_are_computed_where_only_they_count(expression: str) -> None:
    assert _is_narrow(_cuda(f"int i = {expression}; out[at] = i;")) == EXPRESSIONS[expression]


@pytest.mark.parametrize(
    "statement",
    [
        "out[at] = get_global_id(0);",
        "out[at] = (int)get_global_id(0);",
        "out[at] = (uchar)get_global_id(0);",
        "out[at] += get_global_id(0);",
        "out[at] = min((int)get_global_id(0), n);",
        "for (uint i = get_global_id(0); i < n; i++) out[at] = i;",
        "for (int i = 0; i < n; i += get_global_size(0)) out[at] = i;",
        "short s[2] = {1, get_global_id(0)}; out[at] = s[n];",
        "int2 v = (int2)(get_global_id(0), n); out[at] = v.x;",
    ],
)
def test_wherever_a_number_is_cut_off(statement: str) -> None:
    assert _is_narrow(_cuda(statement))


@pytest.mark.parametrize(
    "statement",
    [
        "size_t i = get_global_id(0); out[at] = i;",
        "bool b = get_global_id(0); out[at] = b;",
        "float f = get_global_id(0); out[at] = f;",
        "long l = get_global_id(0); out[at] = l >> 3;",
        "out[get_global_id(0) - get_global_offset(0)] = n;",
        "if (get_global_id(0) < n) out[at] = n;",
        "out[at] >>= get_global_id(0) & 31;",
        "out[at] /= get_global_id(0);",
        "ulong u = n; u += get_global_id(0); out[at] = u >> 32;",
    ],
)
def test_all_bits_are_computed_where_they_count(statement: str) -> None:
    assert not _is_narrow(_cuda(statement))


def test_a_programs_own_function_of_that_name_is_called() -> None:
    source = """
size_t vdev_get_global_id(uint d) { return d + 7; }
kernel void f(global int *out) { int i = vdev_get_global_id(3), j = get_global_id(0); out[j] = i; }
"""
    text = translate_cuda(parse_program(source, target=TARGET)).source
    assert "int i = vdev_get_global_id(3), j = vdev1_low_get_global_id(vdev1_g, 0);" in text


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_places_are_extended_by_one_instruction() -> None:
    """Before, a place of 64 bits was multiplied by one of which the sign had been extended."""
    source = """
kernel void f(global float *to, int rows)
{
    const int y = get_global_id(0);
    if (y < rows - 1)
        to[(long)y * rows] = 1;
}
"""
    program = translate_cuda(parse_program(source, target=TARGET))
    done, text = compile_cuda(program.source, program.options)
    assert done, text[:4000]
    assert "mul.wide.s32" in text
    assert "mul.lo.s64" not in text


CONVERTED = {"int": np.int32, "uint": np.uint32, "short": np.int16, "uchar": np.uint8}


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
def test_values_of_expressions(tmp_path: Path) -> None:
    """Each as 64 bits in a variable of its own, then cut off, and cut off at once; in a helper as well."""
    kernels = [
        f"""
{of} helper_{of}_{number}(int n, ulong wide) {{ return {expression}; }}
kernel void k_{of}_{number}(global {of} *out, int n, ulong wide)
{{
    const size_t at = 3 * (get_global_id(0) - get_global_offset(0));
    volatile ulong all = {expression};
    out[at] = ({of})all;
    out[at + 1] = {expression};
    out[at + 2] = helper_{of}_{number}(n, wide);
}}
"""
        for of in CONVERTED
        for number, expression in enumerate(EXPRESSIONS)
    ]
    parsed = parse_program("".join(kernels), ("-cl-std=CL2.0",), target=TARGET)
    program = HostProgram(translate_cuda(parsed), tmp_path)
    for of, kind in CONVERTED.items():
        for number, expression in enumerate(EXPRESSIONS):
            out = aligned(np.zeros(3 * 24, kind))
            program.run(
                f"k_{of}_{number}", [out, np.int32(1), np.uint64((1 << 40) + 12345)], (24,), (8,), (OFFSET,)
            )
            whole, at_once, helper = out.reshape(-1, 3).T
            assert (at_once == whole).all(), (of, expression)
            assert (helper == whole).all(), (of, expression)


FUNCTIONS = (
    *(
        f"get_{name}({axis})"
        for name in ("global_id", "group_id", "num_groups", "global_size", "global_offset")
        for axis in (0, 1, 2, 3)
    ),
    "get_global_linear_id()",
)
BOTH = f"""
kernel void k(global uint *low, global ulong *whole)
{{
    const size_t x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1);
    const size_t at = (y * get_global_size(0) + x) * {len(FUNCTIONS)};
    {" ".join(f"low[at + {i}] = {text}; whole[at + {i}] = {text};" for i, text in enumerate(FUNCTIONS))}
}}
"""


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
@pytest.mark.parametrize("renumbers", [False, True])
def test_every_function_in_every_part(renumbers: bool, tmp_path: Path) -> None:
    translated = translate_cuda(parse_program(BOTH, ("-cl-std=CL2.0",), target=TARGET), renumbers=renumbers)
    program = HostProgram(translated, tmp_path)
    size, local, offset = (12, 14), (3, 2), (OFFSET, (5 << 32) + 2)
    low, whole = (aligned(np.zeros(size[0] * size[1] * len(FUNCTIONS), k)) for k in (np.uint32, np.uint64))
    groups = NDRange(size, local, offset).num_groups
    for start, stop in pairwise((0, 1, 2)):
        parts = (
            Chunk((start, 0), groups, Cycle(0, 1, 2))
            if renumbers
            else Chunk((2 * start, 0), (2 * stop, groups[1]))
        )
        program.run("k", [low, whole], size, local, offset, parts)
    assert (low == whole.astype(np.uint32)).all()
    found = whole.reshape(size[1], size[0], len(FUNCTIONS)).astype(np.int64)
    assert (found[:, :, 0] == offset[0] + np.arange(size[0])).all()
    assert (found[:, :, 1] == offset[1] + np.arange(size[1])[:, np.newaxis]).all()
