"""Members that are less aligned than their types, in the translation to CUDA: never read or written by more than their alignment."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from clang.cindex import Cursor
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.dialects.cuda.unaligned import Unaligned
from vdev.translators.frontend import clang
from vdev.translators.frontend.source import parse_program

from tests.gpu.corpus import packed

from .cuda_host import COMPILER, MISSING, HostProgram, aligned
from .nvrtc import MISSING as NO_NVRTC
from .nvrtc import compile_cuda, library

# ruff: noqa: E501 - kernels are texts
needs_nvrtc = pytest.mark.skipif(library() is None, reason=NO_NVRTC)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)

_ACCESS = re.compile(r"\b(?:ld|st)(?:\.volatile|\.relaxed\S*)?\.(?:global|shared|const)(?:\.nc)?\.(\S+)")


def accesses(source: str) -> dict[str, set[str]]:
    """What each kernel's loads and stores are of, as PTX spells it, the stack's left out."""
    program = translate_cuda(parse_program(source))
    done, ptx = compile_cuda(program.source, program.options)
    assert done, ptx[:4000]
    return {
        name: set(_ACCESS.findall(ptx.partition(f".entry {kernel.entry}(")[2].partition("\n}")[0]))
        for name, kernel in program.kernels.items()
    }


def plant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all members for aligned."""
    monkeypatch.setattr(Unaligned, "_find", lambda *rest: None)


@needs_nvrtc
def test_every_access_is_of_bytes() -> None:
    found = accesses(packed.source(told=False))
    assert set(found) == {f"packed_{name}" for name in packed.STATEMENTS}
    assert all(found.values())
    assert {name: kinds for name, kinds in found.items() if not kinds <= {"u8", "s8", "b8"}} == {}


@needs_nvrtc
def test_members_taken_for_aligned_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = accesses(packed.source(told=False))
    wrong = {name for name, kinds in found.items() if not kinds <= {"u8", "s8", "b8"}}
    assert wrong >= {
        f"packed_{name}"
        for name in ("called", "part", "vectors", "built_in", "local", "constant", "pointers")
    }


#: members, the structure's attributes, and how `f` and `p.q` are stored; they are aligned as far as this
ALIGNED = {
    ("float4 f; struct { char a; short q; } p;", ""): {"v4.f32", "u16"},
    ("float4 f; struct { char a; short q; } p;", "packed, aligned(16)"): {"v4.f32", "u16"},
    ("char a; struct { char a; short q; } p; float4 f __attribute__((aligned(16)));", "packed"): {
        "v4.f32",
        "u8",
    },
    ("short a; struct { char a; short q; } p; float4 f;", "packed, aligned(2)"): {"u8", "u16"},
    ("short a; struct { char a; short q; } p; float4 f;", "packed"): {"u8"},
}


@needs_nvrtc
@pytest.mark.parametrize(("members", "attributes"), ALIGNED)
def test_what_is_aligned_is_stored_at_once(members: str, attributes: str) -> None:
    source = f"""typedef struct __attribute__(({attributes})) {{ {members} }} S;
      kernel void k(global S *s, float4 v, short n) {{ size_t i = get_global_id(0); s[i].f = v; s[i].p.q = n; }}"""
    assert accesses(source)["k"] == ALIGNED[members, attributes]


#: types, and statements on `global S *s` beside the corpus's
OTHERS = {
    "union": ("typedef union __attribute__((packed)) { char c; float4 f; struct { char a; int b; } n; short h[3]; } S;",
              "s[i].f = s[i + 1].f.yxwz; s[2].n = s[i].n; S t = s[3]; t.h[1]++; s[1] = t; s[4].n.b -= t.h[2]; S u = {.n = s[5].n}; s[6] = u;"),
    "tagged": ("struct S { char c; struct inner { int2 v; struct S *next; } n; short s; } __attribute__((packed)); typedef struct S S;",
               "struct inner n = s[i].n; n.v++; s[i].n = n; struct S t = {1, n, 3}, u = {.s = 4}; s[i + 1] = i ? t : u; s[3].n.v.x = s[4].n.next == 0;"),
    "inner packed": ("typedef struct { int a; struct __attribute__((packed)) { char c; float2 v; int4 w[2]; } n, m[2]; short s; } S;",
                     "s[i].n = s[i + 1].m[1]; s[i].m[0].w[1] = s[2].n.w[0].wzyx; S t = s[3]; t.n.v *= 2; t.m[i & 1].v += t.n.v; s[4] = t; int4 *p = t.n.w; s[5].a = p == 0;"),
    "in a function": ("typedef char S[64];",
                      "struct __attribute__((packed)) { char c; short4 v; struct { char p; short q; } n; } t = {1, (short4)(i), {2, 3}}, u = t; u.v += t.v; u.n = t.n; s[i][0] = u.v.x + u.n.q; "
                      "for (struct __attribute__((packed)) { char c; int n; } j = {1, 2}; j.n < 5; j.n++) s[1][j.n] = j.c;"),
    "reserved": ("typedef struct class { char new; int2 this; } __attribute__((packed)) S;", "s[i].this = s[1].this.yx; struct class t = s[2]; t.this.x++; s[3] = t;"),
    "pointers": ("typedef struct __attribute__((packed)) { char c; global int *p; global float4 *q[2]; } S;",
                 "s[i].p = s[i + 1].p + 1; s[i].p[2] = 3; *s[i].p = 4; s[2].q[1]->x = 5; s[3].p++; s[4].p = 0; s[i].p = (global int *)s[1].q[0]; S t = {1, s[3].p, {s[1].q[1]}}; s[5] = t;"),
    "bools": ("typedef struct __attribute__((packed)) { bool b; int n; bool c[2]; } S;", "s[i].n = s[1].b && s[2].c[i & 1]; s[3].b = s[i].n > 3; s[i].c[0] = s[2].n;"),
    "qualified": ("typedef struct __attribute__((packed)) { char c; const int2 v; volatile int n; volatile float2 w; } S;", "s[i].n += s[1].v.x; s[i].w = s[1].w.yx; s[2].w.x = s[1].n; int n = s[3].n;"),
    "macro": ("#define FIELD(t, n) t n\ntypedef struct __attribute__((packed)) { FIELD(char, c); FIELD(float3, v); } S;", "s[i].v = s[1].v + s[2].v.zyx;"),
    "aligned type": ("typedef int wide __attribute__((aligned(1))); typedef struct { char c; wide n; struct { wide m; short s; } q; } S;", "s[i].n = s[1].n + 1; S t = s[2]; t.q.m++; s[3] = t; s[4].q = s[5].q;"),
}  # fmt: skip


@needs_nvrtc
@pytest.mark.parametrize("name", OTHERS)
def test_other_types(name: str) -> None:
    types, statements = OTHERS[name]
    for language in ("1.2", "2.0"):
        head = types if language == "1.2" else types.replace("struct S *next", "global struct S *next")
        program = translate_cuda(
            parse_program(
                f"{head}\nkernel void k(global S *s, int i) {{ {statements} }}", [f"-cl-std=CL{language}"]
            )
        )
        done, said = compile_cuda(program.source, program.options)
        assert done, said[:2000]


@needs_compiler
def test_a_misaligned_access_is_found(tmp_path: Path) -> None:
    source = "kernel void k(global char *s, int at, int by) { s[0] = by; *(global int *)(s + at) += by; }"
    program = HostProgram(translate_cuda(parse_program(source)), tmp_path)
    memory = aligned(np.zeros(8, np.uint8))
    program.run("k", [memory, np.int32(4), np.int32(1)], (1,), (1,))
    with pytest.raises(AssertionError, match=r"kernel k: <kernel>:1:.*is not aligned to 4 bytes"):
        program.run("k", [memory, np.int32(3), np.int32(2)], (1,), (1,))
    program.run("k", [memory, np.int32(4), np.int32(3)], (1,), (1,))
    assert memory.tobytes() == b"\3\0\0\2\4\0\0\0"


@needs_nvrtc
@pytest.mark.parametrize(
    ("declarations", "aligned"),
    [
        ("constant ulong t[4] __attribute__((aligned(4))) = {1, 2, 3, 4};", 8),
        ("constant ulong __attribute__((aligned(2), unused)) t[4] = {1, 2, 3, 4};", 8),
        ("__attribute__((__aligned__(1))) constant ulong t[4] = {1, 2, 3, 4};", 8),
        ("constant uchar t[32] __attribute__((aligned(sizeof(long)))) = {1};", 8),
        ("constant uint t[8] __attribute__((aligned(32))) = {1};", 32),
    ],
)
def test_variables_are_aligned_as_their_types_at_least(declarations: str, aligned: int) -> None:
    """Pointers to them are taken for aligned, natively as well; engines align all variables as they like."""
    body = "local long l[4] __attribute__((aligned(1))); l[i & 3] = i; o[i] = *((constant long *)t + i) + l[3 - i];"
    source = f"{declarations}\nkernel void k(global long *o) {{ size_t i = get_global_id(0); {body} }}"
    program = translate_cuda(parse_program(source))
    done, ptx = compile_cuda(program.source, program.options)
    assert done, ptx[:4000]
    found = re.findall(r"\.align (\d+) \.b8 \w*user\w*\[32\]", ptx)
    assert sorted(map(int, found)) == [8, aligned]


def test_places_of_declarations_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each of them those of all others: headers bring hundreds."""
    asked: list[Cursor] = []
    extent_of = clang.extent_of

    def extent(cursor: Cursor) -> tuple[int, int]:
        asked.append(cursor)
        return extent_of(cursor)

    monkeypatch.setattr(clang, "extent_of", extent)
    counts = []
    for n in (20, 160):
        more = "".join(f"int f{i}(int x) {{ return x + {i}; }} " for i in range(n))
        used = " + ".join(f"f{i}(1)" for i in range(n))
        parsed = parse_program(
            "struct __attribute__((packed)) s { char c; int i; }; "
            f"{more}kernel void k(global struct s *p) {{ p->i = {used}; }}"
        )
        asked.clear()
        translate_cuda(parsed)
        counts.append(len(asked))
    assert counts[1] < 9 * counts[0]
