"""Assignments of structures in the translation to CUDA: members are copied, padding stays as it was in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import parse_program

from .cuda_host import COMPILER, MISSING, HostProgram
from .nvrtc import MISSING as NO_NVRTC
from .nvrtc import compile_cuda, library

#: one record of each kind; `class` is a word of C++
TYPES = """
typedef struct { char a; int b; short class; } simple;
typedef struct { char a; simple s; struct { char u; short v; } m; struct { char p; short q; } n[2][2]; char r[3]; } nested;
typedef struct { char a; union { char c; long l; }; struct { char x; short y; }; union { struct { char p; int q; } g; int h; } u; } odd;
typedef struct __attribute__((packed)) {
  char a; short f[2]; struct { char p; int q; } n[2]; union { struct { char c; long l; } g; int h; } u[2]; } packed;
typedef struct { char a; int4 v; struct { int f, g; } w[2]; short s; } aligned;
typedef struct {
  char a; volatile int2 v; volatile struct { char c; short d; } w[2]; volatile half h; volatile char2 x[2]; int i; } restless;
"""
#: bytes that belong to members, in order of the bytes; a point is padding
LAYOUTS = {
    "simple": "a...bbbbcc..",
    "nested": "a..." + "a...bbbbcc.." + "u.vv" + "p.qq" * 4 + "rrr.",
    "odd": "a......." + "l" * 8 + "x.yy" + "u" * 8 + "....",
    "packed": "a" + "ffff" + "p...qqqq" * 2 + "u" * 32,
    "restless": "a" + "." * 7 + "v" * 8 + "c.dd" * 2 + "hhxxxx.." + "iiii" + "....",
    "aligned": "a" + "." * 15 + "v" * 16 + "w" * 16 + "ss" + "." * 14,
}
#: assignments from `from` to `to`, both global pointers to a RECORD
ASSIGNMENTS = {
    "element": "to[i] = from[i];",
    "pointee": "*(to + i) = *(from + i);",
    "parentheses": "(to[i]) = (from[i]);",
    "private": "RECORD p = from[i]; to[i] = p;",
    "chained": "RECORD p, q; to[i] = q = p = from[i];",
    "volatile": "volatile global RECORD *v = (volatile global RECORD *)to; v[i] = ((volatile global const RECORD *)from)[i];",
    "local": "local RECORD l[4]; l[i] = from[i]; to[i] = l[i];",
    "result": "to[i] = made_RECORD(from + i);",
    "conditional": "to[i] = i < 9 ? from[i] : to[0];",
    "statement": "to[i] = ({ RECORD p = from[i]; p; });",
    "used": "if ((to[i] = from[i]).a > 0) return;",
    "loop": "int n = 0; for (to[i] = from[i]; n < 2; ++n, to[i] = from[i]) ;",
    "member": "struct { int k; RECORD p; } w; w.p = from[i]; to[i] = w.p;",
}


def text() -> str:
    """A kernel RECORD_NAME for each record and each assignment."""
    parts = [TYPES]
    for record in LAYOUTS:
        part = "RECORD made_RECORD(global const RECORD *p) { return *p; }\n"
        for name, statement in ASSIGNMENTS.items():
            head = f"kernel void RECORD_{name}(global RECORD *to, global const RECORD *from)"
            part += f"{head} {{ int i = get_global_id(0); {statement} }}\n"
        parts.append(part.replace("RECORD", record))
    return "".join(parts)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_padding_stays(tmp_path: Path) -> None:
    program = HostProgram(translate_cuda(parse_program(text())), tmp_path)
    for record, layout in LAYOUTS.items():
        padding = np.frombuffer(layout.encode(), np.uint8) == ord(".")
        assert padding.any()
        source = np.random.default_rng(1).integers(0, 100, (4, len(layout))).astype(np.uint8)
        for name in ASSIGNMENTS:
            target = np.full((4, len(layout)), 0xEE, np.uint8)
            program.run(f"{record}_{name}", [target, source], (4,), (4,))
            assert np.array_equal(target, np.where(padding, 0xEE, source)), (record, name)


@pytest.mark.skipif(library() is None, reason=NO_NVRTC)
def test_compiles() -> None:
    program = translate_cuda(parse_program(text()))
    done, said = compile_cuda(program.source, program.options)
    assert done, said[:4000]


def test_a_structure_without_padding_is_assigned_as_a_whole() -> None:
    source = "typedef struct { int a; short b[2]; } full; kernel void k(global full *to) { to[0] = to[1]; int x = to[0].a; }"
    assert "assigned(" not in translate_cuda(parse_program(source)).source.partition("namespace user")[2]


#: definitions with no blank that C can do without
TIGHT = """
typedef struct S{enum E{A=1,B}e;struct T{int x;}t;union{int q;float w;}u;enum{C=5}z;}S_t;
typedef struct{char c;struct D{short s;}d;}__attribute__((packed))P_t;
struct __attribute__((packed))R{char c;int i;}made(int);enum{X1=4,X2}next(int);
struct R made(int i){struct R r;r.c=(char)i;r.i=i*2;return r;}
struct Z{char c;struct __attribute__((packed))H{char c;int i;}h;enum{V1,V2}__attribute__((packed))v;}__attribute__((packed));
typedef struct __attribute__((packed)){char c;int i;}Q;
kernel void tight(global int*o){int i=get_global_id(0);S_t t;P_t p;Q q;struct Z z;struct H h;
struct __attribute__((packed)){char c;int i;}l;struct M{int a;}m={i};enum{F=3}f=F;union{int i;float f;}n;
t.e=B;t.t.x=i;t.u.q=6;t.z=C;p.d.s=(short)i;q.i=i+1;h.i=7;h.c=1;z.h=h;z.v=V2;l.i=i;n.i=8;
o[i]=t.e+t.t.x*10+t.u.q*100+t.z*1000+p.d.s*10000+q.i*20000+z.h.i*30000+z.v*40000+l.i*50000+m.a*60000+f*70000+n.i*80000+made(i).i;
o[i]+=X1*90000+sizeof(P_t)*1000000+sizeof(Q)*2000000+sizeof(struct R)*4000000;}
"""


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_names_may_touch_braces(tmp_path: Path) -> None:
    program = HostProgram(translate_cuda(parse_program(TIGHT)), tmp_path)
    out = np.zeros(4, np.int32)
    program.run("tight", [out], (4,), (4,))
    i = np.arange(4)
    expected = 2 + 10 * i + 600 + 5000 + 10000 * i + 20000 * (i + 1) + 210000 + 40000 + 110000 * i + 210000
    assert out.tolist() == (expected + 640000 + 2 * i + 360000 + 3000000 + 10000000 + 20000000).tolist()
