"""Members that are less aligned than their types: of packed structures, of `#pragma pack`, of structures within."""

from __future__ import annotations

import re

import numpy as np

from .case import Array, Case

# ruff: noqa: E501 - kernels are texts
COUNT = 8
_TYPES = """
typedef enum { ONE = 1, TWO, MANY = 70000 } E;
typedef struct { char p; short q; } pair;
typedef struct { int2 z; char t; pair in[2]; } deep;
typedef struct __attribute__((packed)) {
  char c; struct { char p; short q; } n0; uint f1; int2 v; ushort3 w; float4 f; pair n[2]; deep d; E e; long g[2]; int2 a[2];
  union { float4 uf; int ui[4]; }; union { int2 b; char h; } u; short s; float x; double y; uchar4 k; short2 m[2][2]; } P;
#pragma pack(push, 2)
typedef struct { char c; int2 v; struct { char t; float r; } n[2]; double y; } Q;
#pragma pack(pop)
typedef struct { char c; int4 v __attribute__((packed)); int z; P p; Q q; } R;
void told(global const P *p, global int *r) {
  r[0] = p->c; r[1] = p->n0.p; r[2] = p->n0.q; r[3] = p->f1; r[4] = p->v.x; r[5] = p->v.y; r[6] = p->w.x; r[7] = p->w.y; r[8] = p->w.z;
  vstore4(as_int4(p->f), 0, r + 9); r[13] = p->n[0].p; r[14] = p->n[0].q; r[15] = p->n[1].p; r[16] = p->n[1].q; r[17] = p->d.z.x; r[18] = p->d.z.y;
  r[19] = p->d.t; r[20] = p->d.in[0].p; r[21] = p->d.in[0].q; r[22] = p->d.in[1].p; r[23] = p->d.in[1].q; r[24] = p->e; r[25] = (int)p->g[0];
  r[26] = (int)(p->g[1] >> 3); r[27] = p->a[0].x; r[28] = p->a[0].y; r[29] = p->a[1].x; r[30] = p->a[1].y; for (int i = 0; i < 4; ++i) r[31 + i] = p->ui[i];
  r[35] = p->u.b.x; r[36] = p->u.b.y; r[37] = p->s; r[38] = as_int(p->x); r[39] = (int)p->y; r[40] = as_int(p->k);
  for (int i = 0; i < 4; ++i) r[41 + i] = as_int(p->m[i >> 1][i & 1]); }
P made(P x, int n) { x.d.in[n].q += n; x.f.xz += x.f.yw; return x; }
Q other(Q x) { x.n[1] = x.n[0]; x.n[0].r += x.v.y; x.y *= 2; return x; }
int2 twice(int2 x) { return x * 2; }
int whole_of(pair x) { return x.p + x.q; }
constant P table[2] = {{1, {2, 3}, 4, (int2)(5, 6), (ushort3)(7), (float4)(1, 2, 3, 4), {{1, 2}, {3, 4}}, {(int2)(3, 4), 1, {{1, 2}}}, TWO, {1, 2},
  {(int2)(3), (int2)(4, 5)}}, {9, .s = 3, .x = 2, .y = 7, .k = (uchar4)(1, 2, 3, 4)}};
"""
#: what is done by kernels `packed_NAME(global const P *in, global P *out, int i)`, more than once each
STATEMENTS = {
    "whole": "P s = in[i]; s.c += 1; out[i] = s;",
    "called": "out[i] = made(in[i], i & 1); out[i].n0.q = made(in[i], 0).n0.q; out[i].s = made(in[i], 1).s; out[i].a[1].y = made(in[i], 1).a[0].x;",
    "part": "P s = in[i]; out[i].s = s.s; out[i].n0.q = s.n0.q; out[i].g[1] = s.g[1]; out[i].x = s.x; out[i].d.in[1] = s.d.in[0];",
    "vectors": "out[i].f = in[i].f.wzyx; out[i].v = in[i].v + (int2)(1, 2); out[i].w = in[i].w; out[i].v += in[i].v; ++out[i].v; out[i].v--; "
    "out[i].w <<= (ushort3)(1); out[i].a[1] = twice(in[i].a[0]); out[i].a[0].y = in[i].a[1].x; out[i].m[i & 1][1] = in[i].m[1][i & 1] * (short2)(3);",
    "swizzles": "out[i].f.xz = in[i].f.yw; out[i].f.wz.x = 3; out[i].f.y += 2; out[i].v.yx -= (int2)(3); out[i].k.s02 = in[i].k.s31; out[i].k.w++; "
    "out[i].f.lo.y = in[i].f.hi.x; out[i].w.z |= 5; out[i].v.x = out[i].v.y = 4; out[i].m[1][0].y <<= 2;",
    "built_in": "out[i].f = convert_float4(as_int4(in[i].f)); out[i].v = max(in[i].v, in[i].a[1]); out[i].w = convert_ushort3_sat(in[i].w + (ushort3)(7)); "
    "out[i].f.x = dot(in[i].f, in[i].f); out[i].a[0] = any(in[i].v == in[i].a[0]) ? clamp(in[i].v, -3, 9) : as_int2(in[i].g[1]); out[i].k = as_uchar4(in[i].x); "
    "out[i].s = convert_short_sat(in[i].f1); out[i].x = fmax(in[i].x, (float)in[i].s);",
    "records": "out[i].n[0] = in[i].n[1]; pair x = in[i].n[0]; x.q += 3; out[i].n[1] = x; out[i].c = whole_of(in[i].n[1]); out[i].d = in[i].d; out[i].d.in[1] = x; "
    "out[i].d.z.y = 7; deep y = in[i].d; y.z += in[i].d.z.yx; out[i].d.z = y.z; out[i].d.in[0].q += 1; out[i].n0 = in[i].n0;",
    "lists": "P s = {1, {2, in[i].n0.q}, 3, in[i].v, (ushort3)(1, 2, 3), in[i].f, {in[i].n[0], {4, 5}}, in[i].d, TWO}; "
    "P t = {.v = in[i].v, .e = MANY, .n = {{1, 2}, in[i].n[0]}, .s = in[i].c, .m = {{(short2)(3)}, {in[i].m[0][1]}}}; P q[2] = {s, in[i]}; "
    "out[i] = i & 1 ? s : t; if (i > 2) out[i] = q[i & 1]; if (i == 5) out[i] = (P){7, .f = in[i].f};",
    "enumerations": "out[i].e = in[i].e == ONE ? TWO : MANY; out[i].e++; out[i].e += in[i].c; switch (in[i].e) { case ONE: out[i].c = 1; break; default: out[i].c = in[i].e; } "
    "out[i].f1 = in[i].e; out[i].g[1] = out[i].e |= 1;",
    "unions": "out[i].uf = in[i].uf + 1.0f; out[i].ui[2] += 3; out[i].u.b = in[i].u.b.yx; out[i].u = in[i].u; out[i].uf.xy = in[i].uf.ww; int k = i & 3; out[i].ui[k] = in[i].ui[3 - k];",
    "chosen": "P s = in[i].c > 3 ? in[i] : in[0]; out[i].v = in[i].v.x > 0 ? in[i].v : in[0].v; out[i].a[0] = in[i].v > in[i].a[0] ? in[i].v : in[i].a[1]; out[i].f = s.f; "
    "out[i].n[0] = in[i].c & 1 ? s.n[1] : in[i].n[0]; out[i].v = out[i].a[1] = s.v; out[i].s = in[i].s ? in[i].s : s.s; out[i].x = in[i].s && !in[i].g[0] ? 1 : -s.x;",
    "local": "local P l[8]; l[i] = in[i]; barrier(CLK_LOCAL_MEM_FENCE); l[i].f *= 2; l[i].n[1] = l[i].n[0]; l[i].s++; barrier(CLK_LOCAL_MEM_FENCE); "
    "P p[3] = {l[7 - i], l[i]}; p[2] = p[i & 1]; p[i % 3].v.x = i; p[i % 3].s -= 1; out[i] = p[i & 2];",
    "constant": "out[i] = table[i & 1]; out[i].f += table[0].f; out[i].v = table[i & 1].a[1].yx; out[i].x += table[1].x; out[i].g[1] = table[1].y;",
    "pointers": "global P *p = out + i; global const P *q = &in[i]; (*p).v = q->v; p->f = (*q).f; p->a[1] = *q->a; *p->a = q->a[1]; *(&p->n[1]) = q->n[0]; p->w.s0 = (q->w).s1; "
    "(&p->n0)->q = (&q->n[0])[1].q; *p->m[1] = q->m[0][1];",
    "volatile": "volatile global P *o = out; volatile global const P *n = in; o[i].f = n[i].f; o[i].v += n[i].v; o[i].n[0] = n[i].n[1]; o[i].f.xz = n[i].f.zx; o[i].e++; o[i].s += 3; "
    "o[i].a[0].x = n[i].a[1].y; o[i].w.y--; P s = n[i]; s.c = 3; if (i & 1) o[i] = s;",
    "sizes": "P s = in[i]; out[i].g[0] = sizeof(P) * 1000 + sizeof(in[i].a) * 100 + sizeof(in[i].v) + __alignof__(P) + __alignof__(pair) + vec_step(in[i].w) + sizeof(R); "
    "__typeof__(s.f) x = in[i].f; __typeof__((s.n[0])) y = in[i].n[0]; __typeof__(s.s) z = s.s; y.q++; out[i].f = x + in[i].f; out[i].n[0] = y; out[i].s = z; out[i].f1 = __alignof__(R) + __alignof__(Q);",
    "numbers": "out[i].f1 += in[i].f1; out[i].g[i & 1] <<= in[i].c; out[i].x = in[i].x * 2 + in[i].s; out[i].s++; --out[i].s; out[i].y -= in[i].x; out[i].s *= 3; out[i].g[0] ^= ~in[i].g[1]; "
    "out[i].x /= 4; short s = in[i].s, t = out[i].s = s + 1; out[i].s %= 7; out[i].f1 >>= 3; out[i].y = t ? in[i].y : in[i].f1; out[i].n0.q = -in[i].s; out[i].d.in[1].q |= s;",
    "other_records": "Q q; q.c = in[i].c; q.v = in[i].v; q.n[0].t = 3; q.n[0].r = in[i].x; q.y = in[i].y; q = other(q); R r = {1, (int4)(in[i].v, 5, i), 2, in[i], q}; r.v.yz += r.v.wx; "
    "r.p.v += r.q.v; r.p.n[1] = r.p.n[0]; R t = r; t.q.n[1].r += t.z; out[i] = t.p; out[i].uf = (float4)(t.q.n[0].r, t.q.n[1].r, t.q.y, t.v.y); out[i].a[1] = t.v.zw; out[i].v = r.q.v.yx;",
}  # fmt: skip
_OWN = (
    "E", "ONE", "TWO", "MANY", "pair", "deep", "P", "Q", "R", "told", "made", "other", "twice", "whole_of", "table",
)  # fmt: skip
#: numbers that tell of a structure
TOLD = 45


def _named(text: str) -> str:
    """Names that no other case has."""
    return re.sub(rf"\b(?:{'|'.join(_OWN)})\b", lambda match: f"packed_own_{match.group()}", text)


def source(told: bool = True) -> str:
    """All kernels; `told`: what they have written is told as numbers."""
    kernels = "".join(
        f"kernel void packed_{name}(global const P *in, global P *out, global int *numbers) {{ int i = get_global_id(0); {text} "
        f"{f'told(out + i, numbers + {TOLD} * i); ' if told else ''}}}\n"
        for name, text in STATEMENTS.items()
    )
    return _named(_TYPES + kernels)


def _member(*fields: tuple[str, object, int], nbytes: int) -> np.dtype[np.void]:
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": nbytes})  # type: ignore[call-overload,no-any-return]


def layout() -> np.dtype[np.void]:
    """The structure P."""
    pair = _member(("p", "i1", 0), ("q", "<i2", 2), nbytes=4)
    deep = _member(("z", ("<i4", 2), 0), ("t", "i1", 8), ("in", (pair, 2), 10), nbytes=24)
    return np.dtype(
        [
            ("c", "i1"), ("n0", pair), ("f1", "<u4"), ("v", "<i4", 2), ("w", "<u2", 4), ("f", "<f4", 4), ("n", pair, 2), ("d", deep), ("e", "<u4"),
            ("g", "<i8", 2), ("a", "<i4", (2, 2)), ("uf", "<f4", 4), ("u", "<i4", 2), ("s", "<i2"), ("x", "<f4"), ("y", "<f8"), ("k", "u1", 4),
            ("m", "<i2", (2, 2, 2)),
        ]
    )  # fmt: skip


def _filled(seed: int) -> Array:
    """Structures of small numbers."""
    rng = np.random.default_rng(seed)

    def fill(part: Array) -> None:
        if part.dtype.fields is None:
            part[...] = rng.integers(0, 6, part.shape)
        else:
            for name in part.dtype.names or ():
                fill(part[name])

    found = np.zeros(COUNT, layout())
    fill(found)
    return found


def _told(p: Array) -> list[int]:
    """What the function `told` says of one structure."""
    pairs = [p["n0"], *p["n"]]
    ends = [*p["d"]["z"], p["d"]["t"], *(pair[name] for pair in p["d"]["in"] for name in ("p", "q"))]
    numbers = [
        p["c"], p["n0"]["p"], p["n0"]["q"], p["f1"], *p["v"], *p["w"][:3], *p["f"].view(np.int32),
        *(pair[name] for pair in pairs[1:] for name in ("p", "q")), *ends, p["e"], p["g"][0], p["g"][1] >> 3,
        *p["a"].reshape(-1), *p["uf"].view(np.int32), *p["u"], p["s"], p["x"].view(np.int32), int(p["y"]),
        *p["k"].view(np.int32), *p["m"].reshape(-1).view(np.int32),
    ]  # fmt: skip
    return [int(number) for number in numbers]


def _of_the_table() -> list[int]:
    """What `packed_constant` tells."""
    table = np.zeros(2, layout())
    first, second = table[:1], table[1:]
    first["c"], first["n0"], first["f1"], first["v"], first["w"], first["f"] = (
        1,
        (2, 3),
        4,
        (5, 6),
        7,
        (1, 2, 3, 4),
    )
    first["n"] = [(1, 2), (3, 4)]
    first["d"]["z"], first["d"]["t"] = (3, 4), 1
    first["d"]["in"][0, 0] = (1, 2)
    first["e"], first["g"], first["a"] = 2, (1, 2), ((3, 3), (4, 5))
    second["c"], second["s"], second["x"], second["y"], second["k"] = 9, 3, 2, 7, (1, 2, 3, 4)
    out = table.copy()
    out["f"] += table["f"][0]
    out["v"] = table["a"][:, 1, ::-1]
    out["x"] += table["x"][1]
    out["g"][:, 1] = 7
    return [number for i in range(COUNT) for number in _told(out[i & 1])]


def _of_calls(given: Array) -> list[int]:
    """What `packed_called` tells."""
    out = given.copy()
    for i in range(COUNT):
        out["d"]["in"]["q"][i, i & 1] += i & 1
    out["f"][:, ::2] += given["f"][:, 1::2]
    out["a"][:, 1, 1] = given["a"][:, 0, 0]
    return [number for structure in out for number in _told(structure)]


def cases() -> list[Case]:
    text = source()
    found = {
        name: Case(
            f"packed_{name}", text, f"packed_{name}",
            (_filled(1), _filled(2), np.zeros(TOLD * COUNT, np.int32)), (COUNT,), (COUNT,), (2,),
        )
        for name in STATEMENTS
    }  # fmt: skip
    found["constant"] = found["constant"].stating(
        np.array(_of_the_table()),
        native_errs="6.11.1: NVIDIA's compiler places the members of an initialised packed structure elsewhere",
    )
    found["called"] = found["called"].stating(
        np.array(_of_calls(_filled(1))),
        native_errs="6.11.1: NVIDIA's compiler ends in an error where a function returns a packed structure",
    )
    return list(found.values())
