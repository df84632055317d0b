"""Of our headers for CUDA C++ a program has what it needs (`vdev.translators.dialects.cuda.headers`)."""

from __future__ import annotations

import re

import pytest
from vdev.translators.dialects.cuda import tables
from vdev.translators.dialects.cuda.headers import needed_headers, pieces
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import parse_program

from .nvrtc import MISSING, compile_cuda, library
from .test_cuda_corpus import TARGET

OPTIONS = ("-cl-std=CL3.0",)
_NAME = re.compile(r"\b[A-Za-z_]\w*")
#: a program for each way in which it may need something of a header that it does not name itself
PROGRAMS = {
    "nothing": "kernel void f(global int *p) { p[get_global_id(0)] = 1; }",
    "a function of scalars": "kernel void f(global float *p) { p[get_global_id(0)] = powr(p[1], hypot(p[2], p[3])); }",
    "operators of vectors": "kernel void f(global float4 *p) { p[0] = p[1] * p[2] - 2.0f; p[3].xz = -p[4].wy; }",
    "comparisons of vectors": "kernel void f(global int4 *p) { p[0] = p[1] < p[2] ? p[3] : p[4]; p[5] = p[6] << 3; }",
    "halves": "kernel void f(global half *p) { p[0] = p[1] * p[2] + HALF_MAX; p[3] = sqrt(p[4]); }",
    "a constant that names another": "kernel void f(global char *p) { p[0] = CHAR_MAX; p[1] = CLK_LOCAL_MEM_FENCE; }",
    "enumerations": "enum e { A, B }; kernel void f(global int *p) { enum e x = A; x++; x |= B; p[0] = x; }",
    "names that macros put together": (
        "kernel void f(global int *p) { p[0] = work_group_scan_inclusive_add(p[1]) + sub_group_reduce_min(p[2]) + atom_max(p + 3, 4); }"
    ),
    "conversions": "kernel void f(global uchar4 *p, global float4 *q) { p[0] = convert_uchar4_sat_rte(q[0]); }",
    "a packed structure": (
        "struct __attribute__((packed)) s { char c; float4 v; }; kernel void f(global struct s *p) { p[1].v += p[0].v; }"
    ),
    "a swizzle's steps": "kernel void f(global int8 *p) { p[0].even++; p[1].hi = max(p[1].lo, p[2].odd); }",
}


def _whole(program: str) -> str:
    constants = "".join(f"#define {name} {value}\n" for name, value in tables.constants().items())
    return f"{tables.headers()}{constants}{program}"


def _parted(source: str) -> tuple[str, str]:
    """The part of a translation that are headers, and the rest."""
    at = source.index("extern __shared__ ")
    return source[:at], source[at:]


def test_pieces_are_all_that_the_headers_declare() -> None:
    """Nothing is between them but comments, and each declares what no piece of the rest does without being another one of it."""
    text = tables.headers()
    for piece in pieces():
        assert piece.text in text
        assert piece.declared, piece.text
        text = text.replace(piece.text, "", 1)
    left = re.sub(r'//[^\n]*|#line 1 "[^"]*"|namespace vdev_cl \{|^\}|\s', "", text, flags=re.MULTILINE)
    assert not left
    declared = frozenset[str]().union(*(piece.declared for piece in pieces()))
    assert {
        "powr",
        "get_local_id",
        "float4",
        "atomic_fetch_add_explicit",
        "sub_group_reduce_min",
        "rtz",
    } <= declared
    assert not declared & {"template", "inline", "constexpr", "class", "T", "N", "requires", "struct", "enum"}


def test_what_macros_name_is_declared() -> None:
    """As the tables have it, which are written by hand."""
    declared = frozenset[str]().union(*(piece.declared for piece in pieces()))
    put_together = {
        name for name in tables.known_functions() if name.startswith(("work_group_", "sub_group_", "atom"))
    }
    missing = {name for name in put_together - declared if not name.endswith("_")}
    assert all(name.startswith("atomic") and "_" not in name for name in missing), (
        missing
    )  # CUDA's own, and a word


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_what_is_mentioned_is_there(text: str) -> None:
    """All declarations of each name, so that none stands in the place of a better one that is missing."""
    program = translate_cuda(parse_program(text, OPTIONS, target=TARGET))
    headers, rest = _parted(program.source)
    kept = [piece for piece in pieces() if piece.text in headers]
    names = set(_NAME.findall(rest)).union(*(piece.mentioned for piece in kept))
    for piece in pieces():
        if piece.declared & names - {"operator"}:
            assert piece in kept, piece.text
    assert len(headers) < len(tables.headers()) / 2, "most is left out"


@pytest.mark.skipif(library() is None, reason=MISSING)
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_compiles_to_the_same(text: str) -> None:
    """As with the whole of our headers, but for variables that nothing uses."""
    program = translate_cuda(parse_program(text, OPTIONS, target=TARGET))
    fuses, rest = "#define VDEV_FUSES\n", _parted(program.source)[1]
    assert program.source.startswith(fuses)
    found = []
    for source in (program.source, fuses + _whole(rest)):
        done, said = compile_cuda(source, program.options)
        assert done, said[:4000]
        said = re.sub(r"_INTERNAL_\w{8}_\d+_test_cu_\w{8}", "", said)
        found.append([line for line in said.splitlines() if not line.startswith(".global .align 1 .u8 _ZN")])
    assert found[0] == found[1]


def test_places_are_told() -> None:
    """A compiler's message names the line in the header."""
    text = needed_headers("powr(x, y)", {})
    (at,) = (at for at, line in enumerate(text.splitlines()) if line.startswith("VDEV_MATH2(powr"))
    number = text.splitlines()[at - 1]
    whole = tables.headers().partition('#line 1 "vdev/mathematics.h"\n')[2].splitlines()
    assert number == f"#line {[line.startswith('VDEV_MATH2(powr') for line in whole].index(True) + 1}"


def test_constants_bring_what_they_name() -> None:
    text = needed_headers(
        "x = FIRST;", {"FIRST": "(SECOND + 1)", "SECOND": "hypot(3.0f, 4.0f)", "THIRD": "3"}
    )
    assert "#define FIRST (SECOND + 1)\n#define SECOND hypot(3.0f, 4.0f)\n" in text
    assert "THIRD" not in text
    assert "VDEV_MATH2(hypot" in text
