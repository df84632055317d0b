"""Loops that are unrolled as far as NVIDIA's OpenCL does: which, and that the hint stands where a compiler takes it."""

from __future__ import annotations

import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.dialects.cuda.unrolling import COPIES
from vdev.translators.frontend.source import parse_program

from .cuda_parts import TARGET
from .nvrtc import MISSING, compile_cuda, library

PULL = """{
            float4 way = tile[k] - mine;
            float square = way.x * way.x + way.y * way.y + way.z * way.z + 1e-3f;
            float inverse = rsqrt(square);
            pull.xyz += way.xyz * (tile[k].w * inverse * inverse * inverse);
        }"""
KERNEL = """
float further(float a) {{ return a * a; }}
kernel void f(global float4 *a, global float *b, int n) {{
    local float4 tile[256];
    float4 mine = a[get_global_id(0)], pull = (float4)(0.0f);
    tile[get_local_id(0)] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    {before}for ({head}) {body}
    a[get_global_id(0)] = pull;
}}
"""


def _cuda(head: str = "int k = 0; k < 64; ++k", body: str = PULL, before: str = "") -> str:
    source = KERNEL.format(head=head, body=body, before=before)
    return translate_cuda(parse_program(source, (), target=TARGET)).source


@pytest.mark.parametrize(
    "head",
    [
        "int k = 0; k < 64; ++k",
        "uint k = 0u; k != 32; k++",
        "int k = 63; k >= 0; k--",
        "int k = 0; k <= 126; k += 2",
        "size_t k = 8; k < 8 * sizeof(float4); k++",
    ],
)
def test_a_short_block_of_instructions_is_copied(head: str) -> None:
    assert f'_Pragma("unroll {COPIES}") for (' in _cuda(head)


@pytest.mark.parametrize(
    "head",
    [
        "int k = 0; k < n; ++k",
        "int k = 0; k < 24; ++k",  # it may be unrolled as a whole
        "int k = 0; k < 68; ++k",
        "int k = n; k < 64; ++k",
        "int k = 0; k < 256; k += n",
        "int k = 1; k < 256; k *= 2",
        "int k = 0; k < 64;",
        "; n < 64; ++n",
    ],
)
def test_other_numbers_of_turns_are_left_to_the_compiler(head: str) -> None:
    body = PULL if "int k" in head else PULL.replace("tile[k]", "tile[n]")
    assert "unroll" not in _cuda(head, body)


@pytest.mark.parametrize(
    "body",
    [
        "pull.x += tile[k].x;",  # NVRTC does it itself
        "{" + PULL * 3 + "}",
        PULL[:-1] + "if (square > 3.0f) pull.x += 1.0f; }",
        PULL[:-1] + "if (square > 3.0f) break; }",
        PULL[:-1] + "for (int i = 0; i < 4; i++) pull.x += 1.0f; }",
        PULL[:-1] + "while (pull.x < 4.0f) pull.x += 1.0f; }",
        PULL[:-1] + "switch (k) { case 1: pull.x += 1.0f; } }",
        PULL[:-1] + "barrier(CLK_LOCAL_MEM_FENCE); }",
        PULL[:-1] + "pull.x += further(square); }",
        PULL[:-1] + "pull.x += sin(square); }",
    ],
)
def test_other_bodies_are_left_to_the_compiler(body: str) -> None:
    assert "unroll" not in _cuda(body=body)


@pytest.mark.parametrize(
    "before",
    [
        "\n#pragma unroll 2\n    ",
        "\n#pragma nounroll\n\n    ",
        '_Pragma("unroll 4") ',
        "__attribute__((opencl_unroll_hint(2))) ",
        "__attribute__((opencl_unroll_hint)) ",
    ],
)
def test_the_authors_own_hint_counts(before: str) -> None:
    assert f"unroll {COPIES}" not in _cuda(before=before)


@pytest.mark.skipif(library() is None, reason=MISSING)
@pytest.mark.parametrize(
    "before",
    [
        "",
        "if (n > 4) ",
        "if (n > 4) ; else ",
        "again: ",
        "for (int i = 0; i < n; i++) ",
        "while (n--) ",
        "do ",
    ],
)
def test_a_loop_with_the_hint_compiles_wherever_it_stands(before: str) -> None:
    source = KERNEL.format(before=before, head="int k = 0; k < 64; ++k", body=PULL)
    if before == "do ":
        source = source.replace(PULL, PULL + " while (n-- > 0);")
    cuda = translate_cuda(parse_program(source, (), target=TARGET))
    assert cuda.source.count(f"unroll {COPIES}") == 1
    compiles, text = compile_cuda(cuda.source, cuda.options)
    assert compiles, text
    assert text.count("rsqrt.approx") == COPIES
