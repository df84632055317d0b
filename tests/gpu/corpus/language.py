"""The language itself: vectors and swizzles, literals, records, initialisers, constants, names, control flow, build options."""

# ruff: noqa: E501 - kernels are texts, and tables stay tables

from __future__ import annotations

import numpy as np

from .case import COUNT, INTEGERS, REALS, Array, Case, drawn, function_case, integers, reals

CL2 = ("-cl-std=CL2.0",)

#: name -> statements over int x (the work-item's number of `a`), size_t i and global int *r of four numbers for each
STATEMENTS = {
    "loops": "int s = 0; for (int k = 0; k < (x & 15); ++k) { if (k == 3) continue; if (k == 11) break; s += k * k; } "
    "int n = x & 7; while (n) { s ^= n--; } do { s += 2; } while (s < 0); r[0] = s;",
    "switches": "switch (x & 7) { case 0: case 1: r[0] = 1; break; case 2: { r[0] = 2; } case 3: r[1] = 3; break; default: r[2] = x; }",
    "jumps": "int n = 0; again: if (n++ < (x & 3)) goto again; if (n > 2) goto done; r[1] = 5; done: r[0] = n;",
    "promotions": "uchar c = 200; char d = (char)200; ushort e = 60000; r[0] = c + c; r[1] = d + d; r[2] = e * e; r[3] = (uchar)(c + c);",
    "shifts": "r[0] = x << (x & 63); r[1] = (uint)x >> (x & 63); r[2] = (int)(((long)x << 40) >> (x & 127)); r[3] = x >> 33;",
    "truths": "bool b = x; r[0] = b + b; r[1] = !x + (x > 3) * 2; r[2] = (x && i) | (x || i) << 1; r[3] = sizeof(bool);",
    "characters": "r[0] = 'a' + '\\n'; r[1] = sizeof('a'); char t[] = \"ab\"; r[2] = t[1]; r[3] = sizeof(t);",
    "sizes": "r[0] = sizeof(float3) + sizeof(int) * 100; r[1] = sizeof(x + 1l); r[2] = vec_step(int3) + vec_step(short) * 10; r[3] = sizeof(long16);",
    "literals": "r[0] = 0x7fffffff + 010; r[1] = (int)(1.5e1f + 0x1p3f); r[2] = 4294967295u == -1; r[3] = (int)(1ul << 33 >> 30);",
    "commas": "int y = (x++, x + 1); r[0] = y; r[1] = x ? y : -y; r[2] = (x > 0) ? 'a' : 2; r[3] = x > 0 ? x > 10 ? 1 : 2 : 3;",
    "pointers": "int t[4] = { x, 2, 3, 4 }; int *p = t + 1, *q = &t[3]; r[0] = *p + p[1]; r[1] = q - p; r[2] = (p < q) + !p; *q += 5; r[3] = t[3];",
    "arrays": "int t[2][3] = { { 1, 2, 3 }, { x } }; int u[] = { 1, 2, x }; r[0] = t[1][0] + t[1][2]; r[1] = sizeof(u) / sizeof(u[0]); r[2] = u[x & 1];",
    "dynamic_components": "int4 v = (int4)(x, 2, 3, 4); v[x & 3] = 7; r[0] = v[(x + 1) & 3]; r[1] = v.x; r[2] = ((int *)&v)[3]; r[3] = v.s2;",
    "swizzles": "int4 v = (int4)(x, 2, 3, 4); v.zw = v.yx; v.lo.y = 9; v.even = v.odd; r[0] = v.x; r[1] = v.y; r[2] = v.z; r[3] = v.w;",
    "wide_swizzles": "int16 v = (int16)(x, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); v.sF0 = v.s0F; v.hi.s01 += 3; v.s3A.y *= 2; "
    "r[0] = v.s0 + v.sf; r[1] = v.s8 + v.S9; r[2] = v.sA; r[3] = v.lo.hi.even.y;",
    "nested_literals": "int8 v = (int8)((int4)(x, (int2)(1, 2), 3), 4, (int3)(5, 6, 7)); r[0] = v.s0; r[1] = v.s2; r[2] = v.s7; r[3] = ((int4)(x)).z;",
    "vector_truths": "int4 v = (int4)(x, 0, -1, 5); int4 c = v > 0; r[0] = c.x; r[1] = (v && 1).y; r[2] = (!v).y; r[3] = any(c) + 2 * all(c);",
    "vector_updates": "int4 v = (int4)(x); v += 1; v *= (int4)(1, 2, 3, 4); v <<= 2; v %= 1000; v++; --v.y; v.xw ^= 3; "
    "r[0] = v.x; r[1] = v.y; r[2] = v.z; r[3] = v.w;",
    "increments": "int y = x; r[0] = y++ + ++y; r[1] = y--; r[2] = y; r[3] = -y + ~y;",
    "longs": "long l = (long)x * 4000000000l; ulong u = l; r[0] = l >> 32; r[1] = u % 1000; r[2] = l / 7 % 1000; r[3] = (int)(u >> 40);",
    "divisions": "int d = (x & 15) + 1; r[0] = x / d; r[1] = x % d; r[2] = -x / -d; r[3] = (uint)x / (uint)d;",
    "unrolled": "int s = 0;\n#pragma unroll 4\n  for (int k = 0; k < 16; ++k) s += x >> k;\n"
    "  __attribute__((opencl_unroll_hint(2))) for (int k = 0; k < 9; ++k) s ^= k;\n  r[0] = s;",
    "array_literals": "r[0] = ((int[]){ 1, x, 3 })[1]; r[1] = ((const int[4]){ 4, 5 })[2]; int k = 1; r[2] = ((int[2]){ 7, 8 })[k];",
    "typeof_": "__typeof__(x) y = 3; __typeof__(y + 1l) z = 1l << 33; __typeof__(int) w = 2; r[0] = y; r[1] = z >> 30; r[2] = w; r[3] = sizeof(z);",
    "statements_within": "r[0] = ({ int y = x; if (y < 0) y = -y; y; }) + ({ 'a'; }); r[1] = ({ int s = 0; for (int k = 0; k < 9; ++k) { if (k == x) break; "
    "s += k; } s; }); ({ r[2] = x; }); r[3] = ({ int4 v = (int4)(x); v.y = 4; v; }).y + ({ int y = ({ x + 1; }); switch (y & 1) { case 0: y *= 2; break; } y; });",
    "gnu_words": "__const int c = 3; __const__ int d = 4; __volatile__ int v = x; __signed__ char s = (char)200; __extension__ long l = 7; "
    "__auto_type q = x + 1l; _Static_assert(sizeof(q) == 8, \"long\"); _Alignas(16) int w[2] = { x, 2 }; r[0] = c + d + v + s; r[1] = l + q + w[1]; "
    "r[2] = __alignof__(float4) + __alignof(int) * 100 + _Alignof(short2) * 10000; r[3] = __extension__ ({ int y = x; y + 1; }) + (int)((size_t)w & 15);",
    "gnu_choices": "r[0] = __builtin_choose_expr(sizeof(int) == 4, x, 1.5f); r[1] = __builtin_types_compatible_p(int, int) + "
    "2 * __builtin_types_compatible_p(int, uint); r[2] = (x & 3) ?: 9; char k = (char)x; r[3] = sizeof(k ?: k) + (r[2]++ ?: 5); global int *p = 0; r[1] += *(p ?: &r[2]);",
    "ranges": "int t[6] = { [0 ... 2] = 7, [4] = x }; float f[3] = { [1 ... 2] = 1.5f }; switch (x & 15) { case 0 ... 3: r[0] = 1; break; case 7 ... 7: r[0] = 2; break; "
    "case -2 ... -1: case 9: r[0] = 3; break; default: r[0] = 4; } r[1] = t[x & 3]; r[2] = t[4] + t[5]; r[3] = (int)(f[x & 1] + f[2]);",
    "wide_ranges": "uint u = (uint)x * 0x01010101u; switch (u) { case 0x7fffff00 ... 0xc0000000: r[0] = 1; break; case 1 ... 0x7ffffe: r[0] = 2; break; case 0: "
    "r[0] = 3; break; default: r[0] = u; } switch ((long)(int)u << 20) { case -0x7fffffffffffffff ... -5: r[1] = 4; case 0x100000000 ... 0x7fffffffffffffff: r[1] += 5; } "
    "switch ((ulong)u << 32) { case 0x7000000000000000 ... 0x9000000000000000u: r[2] = 6; break; case 0x9000000000000001u ... 0xffffffffffffffffu: r[2] = 7; } "
    "switch ((char)x) { case -128 ... -1: r[3] = 8; break; case 1 ... 5: case 100 ... 127: r[3] = 9; }",
    "bools_to_vectors": "bool b = x & 1, t = true; char4 c = (char4)b, d = (char4)(b), e = b; ushort2 f = (ushort2)(bool)x; float2 g = (float2)b; int4 v = (int4)(x); "
    "v += b; v.xy ^= (int2)(bool)(x & 2); v = v + (t); r[0] = c.x + 10 * d.y + 100 * e.z; r[1] = f.y + (int)(g.x * 8) + all((char3)t) * 2 + any((long2)(bool)0); "
    "r[2] = v.x * 3 + v.w; e = t; v = (x > 0); uchar8 w = max((uchar8)t, (uchar8)(t)); r[3] = e.w + v.y * 4 + w.s7 * 16 + ((int2)t == t).x * 5000 + ((short2)(b, t)).y;",
    "case_labels": "uint u = (uint)(x & 7) - 3; switch (u) { case -1: r[0] = 1; break; case -3 ... -2: r[0] = 2; break; case 0x100000001l: r[0] = 3; break; default: r[0] = 4; } "
    "switch ((ulong)(x & 7) - 2) { case -1: r[1] = 1; break; case 0xfffffffffffffffe: r[1] = 2; break; case -5 ... -3: r[1] = 7; break; case 'a' - 95: r[1] = 3; } "
    "uchar c = (uchar)x; char d = (char)x; enum { A = 3, B } e = x & 3; switch (c & 3 ? 255 : c) { case -1: r[2] = 1; break; case 255: r[2] = 2; } "
    "switch (d) { case (char)255: case 3 ... 9: r[2] += 5; break; case 1 << 8: r[2] += 9; } switch ((long)x << 62) { case 0x8000000000000000: r[3] = 1; break; "
    "case 0x4000000000000000: r[3] = 2; switch (u) { case -2: r[3] = 7; } break; case -0x4000000000000000: r[3] = 3; } "
    "switch (e) { case A: r[3] += 10; break; case -1: case 2: r[3] += 20; } switch (x > 3) { case true: r[3] += 40; case -1: ; }",
    "index_by_mul24": "r[0] = 7; r[3 + mul24(x & 1, -3)] = 5; r[1] = r[0]; r[2] = mul24(x & 0xffff, -3) + mad24(-5, x & 255, 3);",
    "gnu_functions": "uint u = (uint)x | 16; ulong l = (ulong)u << 33; r[0] = __builtin_popcount(u) + 100 * __builtin_popcountl(l) + 10000 * __builtin_parity(u); "
    "r[1] = __builtin_clz(u) + 100 * __builtin_ctz(u) + 10000 * __builtin_ffs(x); r[2] = __builtin_clzl(l) + 100 * __builtin_ctzll(l) + 10000 * __builtin_abs(-5); "
    "if (__builtin_expect(x > 3, 0)) r[2]++; r[3] = (int)__builtin_sqrtf(16.0f) + "
    "(int)__builtin_fmaf(2, 3, 4) + (__builtin_inff() > 3.0f) + __builtin_isnan(__builtin_nanf(\"\"));",
    "gnu_memory": "int t[4] = { x, 2, 3, 4 }, u[4]; __builtin_memcpy(u, t, sizeof(t)); __builtin_memset(t, 1, 8); r[0] = u[0]; r[1] = u[3]; r[2] = t[1]; r[3] = t[2];",
    "bool_steps": "bool b = x & 1, c = 0; r[0] = b++; r[1] = b; r[2] = --b; --c; r[3] = c--; r[0] += 2 * c + 4 * ++c;",
    "loop_scopes": "int s = 0; for (int k = 0; k < 3; ++k) { int k = x; s += k; } for (int k = 0; k < 2; ++k) { for (int k = 0; k < 2; ++k) s++; } r[0] = s; const int unset; "
    "for (int k = 0, n = 3; k < n; ++k) { float n = 1.5f; r[1] += (int)(n * 2); }",
    "labels": "{ __label__ done; int n = 0; again: if (n++ < (x & 3)) goto again; if (n > 2) goto done; r[1] = 5; done: r[0] = n; }",
    "names_that_go_back": "struct { int a, b; int4 v; int t[3]; } q = { .t = { [2] = x, [0] = 1 }, .v = (int4)(3), .a = 5 }, o = { b: 2, a: x }; "
    "int n[4] = { [3] = x, [1] = 2, 9 }; r[0] = q.a * 10 + q.b; r[1] = q.t[0] + q.t[1] + q.t[2] + q.v.w; r[2] = o.a - o.b; r[3] = n[0] + n[1] * 2 + n[2] * 3 + n[3];",
    "designators": "int t[5] = { [1] = 2, [3] = x, 7 }; int4 p[2] = { [1] = (int4)(3) }; r[0] = t[1]; r[1] = t[3] + t[0]; r[2] = t[4]; r[3] = p[1].z + p[0].x;",
}  # fmt: skip

#: name -> (declarations at program scope, statements)
DECLARED = {
    "records": (
        "typedef struct { char a; int b; float4 c; short d[3]; } record; struct outer { record r; int n; };\n"
        "record made(int x) { record q = { 1, x, (float4)(2), { 3, 4 } }; q.d[2] = q.b; return q; }\n",
        "struct outer o = { made(x), 7 }, z = { 0 }, w; w = o; w.r.c.y = 5; r[0] = w.r.b + w.r.d[2]; r[1] = sizeof(struct outer); "
        "r[2] = (int)(w.r.c.x + w.r.c.y) + w.n; r[3] = z.n + (int)z.r.c.w;",
    ),
    "nested_definitions": (
        "typedef struct { struct pair { int a; struct point { int x, y; } p[2]; } *q, w; enum { LOW = 3, HIGH } e; enum level { OFF = 7, ON }; union both { int i; float f; } b; } whole;\n"
        "struct tight { char a; struct inside { char a; int b; } __attribute__((packed)) i; };\n"
        "constant struct { enum { FIRST, SECOND } e; int n; } table[2] = { { SECOND, 5 }, { FIRST, 6 } };\n"
        "struct point swapped(struct point p) { struct point q = { p.y, p.x }; return q; }\n",
        "whole h; struct pair d = { 1, { { x, 2 }, { 3, 4 } } }; enum level l = ON; union both b = { .f = 1.0f }; struct inside s = { 1, x }; h.w = d; h.e = HIGH; h.b = b; "
        "struct { struct here { int z; } k; enum { NEAR = 5, FAR } e; } n; struct here f = { x }; n.k = f; n.e = FAR; "
        "r[0] = swapped(h.w.p[0]).y + l + h.e * 100; r[1] = h.b.i; r[2] = sizeof(struct tight) * 100 + sizeof(struct inside) + s.b; "
        "r[3] = n.k.z + n.e + table[SECOND].n * 10 + table[0].e;",
    ),
    "spellings": (
        "static __inline__ int plus(int a) { return a + 1; }\n__inline int times(int a) { return a * 3; }\n"
        "int sum(int n, const int t[static 2], int u[const restrict]) { u[0] += n; return t[0] + t[1] + u[0]; }\nint assert(int a) { return a - 1; }\n",
        "int t[2] = { x, 2 }, u[1] = { 3 }; r[0] = plus(x); r[1] = times(x); r[2] = sum(4, t, u) + u[0]; r[3] = assert(x);",
    ),
    "strings": (
        "constant char s[3] = \"abc\"; constant uchar u[2][4] = { \"a'\\\"\\xff\", \"12\" }; typedef float real4 __attribute__((vector_size(16)));\n",
        "char t[2] = \"a\" \"b\"; uchar v[] = \"abc\"; real4 f = { 1, 2, 3, 4 }; r[0] = s[2] + s[x & 1]; r[1] = u[0][3] + u[0][1] * 256 + u[1][3]; "
        "r[2] = t[1] * 100 + sizeof(v); r[3] = v[x & 3] + (int)(f + f)[2];",
    ),
    "skipped_vectors": (
        "typedef struct { int a; float4 v; char3 c; double2 d; int t[3]; } wide; constant wide w = { .a = 2, .t = { [1] = 5 } };\n"
        "constant float4 many[3] = { [2] = (float4)(7) };\n",
        "r[0] = w.a + w.t[1] + w.t[0]; r[1] = (int)(w.v.x + w.v.w) + w.c.y + (int)w.d.y; r[2] = (int)(many[x & 1].x + many[2].w); r[3] = x;",
    ),
    "packed_records": (
        "typedef struct __attribute__((packed)) { char a; int b; short c; } tight; typedef struct { int x; } __attribute__((aligned(16))) wide;\n",
        "tight t = { 1, x, 3 }; wide u[2]; u[1].x = t.b; r[0] = sizeof(tight); r[1] = sizeof(wide); r[2] = (int)((char *)&u[1] - (char *)&u[0]); r[3] = u[1].x;",
    ),
    "records_with_attributes_behind": (
        "struct behind { char a; int b; } __attribute__((packed)); typedef struct { char a; short b; } __attribute__((packed, aligned(4))) even;\n"
        "struct outer { char a; struct inner { char a; int b; } __attribute__((packed)) i; };\n"
        "typedef union { char a; short b[3]; } __attribute__((aligned(16))) either;\n",
        "struct behind t[2] = { { 1, x }, { 2, 3 } }; struct outer o = { 1, { 2, x } }; r[0] = sizeof(even) * 10000 + sizeof(t) * 100 + sizeof(either); "
        "r[1] = (int)((char *)&t[1].b - (char *)t) + t[0].b; r[2] = (int)sizeof(struct outer) * 100 + o.i.b; r[3] = (int)((char *)&o.i.b - (char *)&o);",
    ),
    "unions": (
        "typedef union { float4 f; int4 i; uchar b[16]; struct { short lo, hi; } h; } bits;\n",
        "bits u; u.i = (int4)(x, 2, 3, 4); u.b[4] = 9; r[0] = u.h.lo; r[1] = u.i.y; u.f.z = 1.0f; r[2] = u.i.z; r[3] = u.b[11];",
    ),
    "enumerations": (
        "enum mode { OFF, ON = 5, AUTO }; typedef enum { A = 1, B = 2, C = 4 } mask;\n",
        "enum mode m = x & 1; m++; mask k = A | C; k |= B; m += 4; r[0] = m + AUTO; r[1] = k; r[2] = (k & B) == B; r[3] = ON * m; k = 3; r[0] += k;",
    ),
    "partial_records": (
        "struct point { float4 v; int n; int t[3]; };\n",
        "struct point d = { .n = x, .t = { [2] = 4 } }, b = { .v = (float4)(2), .t[1] = 6 }, c[2] = { (float4)(1), 2, 3, 4, 5, (float4)(6) };\n"
        "  r[0] = d.n + d.t[2] + d.t[0]; r[1] = (int)b.v.y + b.t[1]; r[2] = c[0].t[2] + (int)c[1].v.w; r[3] = c[1].n + c[0].n;",
    ),
    "flat_arrays": (
        "typedef struct { int a, b; } pair; constant pair pairs[3] = { 1, 2, 3, 4 }; constant int grid[2][2] = { 1, 2, 3 };\n",
        "int t[2][2] = { 1, x, 3, 4 }; pair p[2] = { 5, 6, x }; r[0] = t[0][1] + t[1][0]; r[1] = p[1].a + p[1].b + p[0].b; "
        "r[2] = pairs[1].b + pairs[2].a; r[3] = grid[1][0] + grid[1][1];",
    ),
    "constants": (
        "constant int table[4] = { 1, -2, 3u }; constant float2 pairs2[] = { (float2)(1.0f, 2), { 3, 4 } };\n"
        "constant struct { int a; float4 b; } settings = { 1, (float4)(2) }; constant int scale = 3; constant int *constant place = table + 1;\n"
        "int taken(constant int *p, int k) { return p[k & 3]; }\n",
        "constant int inner[2] = { 4, 5 }; r[0] = table[x & 3] + inner[x & 1]; r[1] = (int)(pairs2[1].y + settings.b.z); r[2] = taken(table, x) * scale; r[3] = place[0];",
    ),
    "constants_of_constants": (
        "constant float darkest = 16.0f, brightest = 0.1f; static constant float ratio = darkest / brightest; constant double exact = ratio / 3;\n"
        "constant float4 shades = (float4)(darkest, -ratio, 1.0f, brightest * 10); constant float steps[2] = { brightest, darkest - brightest };\n",
        "constant float half_way = ratio * 0.5f; r[0] = (int)ratio + (x & 3); r[1] = as_int(steps[x & 1]); r[2] = as_int(shades.y); "
        "r[3] = as_int((float)exact) ^ as_int(half_way);",
    ),
    "signs_of_pointers": (
        "uint total(uint t[4], const uint *u) { t[3] += u[1]; return t[0] + t[3]; } int first(int *p) { return p[0]++; }\n",
        "int t[4] = { x, 1, 2, 3 }, n[2][2] = { 4, 5, 6, 7 }; uint u = 8; r[0] = total(t, n[1]); r[1] = t[3]; r[2] = first(&u) + first(n[0]); r[3] = u;",
    ),
    "designated_constants": (
        "constant int sparse[6] = { [2] = 5, [4] = 7 }; constant struct { int a; int b[3]; } partial = { .b = { 1, 2 } };\n",
        "r[0] = sparse[x & 3]; r[1] = sparse[4] + sparse[5]; r[2] = partial.b[1] + partial.a; r[3] = partial.b[2];",
    ),
    "names": (
        "int class(int new, int *this) { int template = new, threadIdx = 2, namespace = 3; *this = template; return threadIdx + namespace; }\n"
        "struct operator { int private_, delete; }; float atomicAdd(float v) { return v + 1; } int min3(int a, int b, int c) { return min(a, min(b, c)); }\n",
        "struct operator o = { 1, 2 }; int typename, and = 3, float5 = o.delete, blockDim = 4, std = 1, warpSize = 2; "
        "goto catch; catch: r[0] = class(x, &typename) + typename; r[1] = (int)atomicAdd(float5) + and; r[2] = min3(x, 2, 3) + blockDim + std; r[3] = warpSize;",
    ),
    "overloads": (
        "int __attribute__((overloadable)) over(int v) { return v + 1; } float __attribute__((overloadable)) over(float v) { return v * 2; }\n"
        "int __attribute__((overloadable)) over(global const int *p) { return p[0]; } int __attribute__((overloadable)) over(private int *p) { return p[0] + 7; }\n",
        "int own = x; r[0] = over(x); r[1] = (int)over(3.5f); r[2] = over(a + i); r[3] = over(&own);",
    ),
    "helpers": (
        "size_t mine(void) { return get_global_id(0); } void put(global int *p, int v) { *p = v; }\n"
        "static inline int deeper(int n) { return n * (int)mine() + get_group_id(0); } int forward(int); int forward(int n) { return deeper(n) - 1; }\n",
        "put(r, deeper(2)); put(&r[1], (int)mine()); r[2] = forward(3); r[3] = get_global_size(0);",
    ),
    "pointers_to_records": (
        "typedef struct node { int value; struct node *next; } node;\n",
        "node c = { 3, 0 }, b = { 2, &c }, d = { x, &b }; int s = 0; for (node *p = &d; p; p = p->next) s += p->value; r[0] = s; void *q = &b; node *again = q; r[1] = again->next->value;",
    ),
}  # fmt: skip


def cases() -> list[Case]:
    found = [_statement_case(name, "", text) for name, text in STATEMENTS.items()]
    found += [_statement_case(name, before, text) for name, (before, text) in DECLARED.items()]
    return [
        *found,
        *_swizzles(),
        *_options(),
        *_arguments(),
        *_contraction(),
        *_byte_swaps(),
        *_generic(),
        *_printing(),
        *_program_scope(),
    ]


def _statement_case(name: str, before: str, text: str) -> Case:
    source = (
        f"{before}kernel void language_{name}(global const int *a, global int *out) {{\n"
        f"  size_t i = get_global_id(0); int x = a[i]; global int *r = out + 4 * i;\n  {text}\n}}\n"
    )
    values = integers(name, "int", COUNT, -99, 99)
    return Case(
        f"language_{name}",
        source,
        f"language_{name}",
        (values, np.zeros(4 * COUNT, np.int32)),
        (COUNT,),
        (16,),
        (1,),
        alone=bool(before),
    )


def _swizzles() -> list[Case]:
    found = []
    for type_ in (*INTEGERS, *REALS):
        a = (type_, drawn(f"swizzle{type_}", type_, COUNT * 4))
        b = (type_, drawn(f"swizzled{type_}", type_, COUNT * 8))
        found.append(function_case(f"swizzle_{type_}4", "(a.wzyx + a.xxyy) - a.s1302", [a], type_, width=4))
        found.append(
            function_case(f"parts_{type_}8", f"({type_}8)(a.hi.lo, a.odd, a.s70)", [b], type_, width=8)
        )
        found.append(
            function_case(f"halves_{type_}4", f"({type_}4)(a.lo.y, a.hi, a.even.x)", [a], type_, width=4)
        )
    return found


def _options() -> list[Case]:
    found = []
    a = ("float", reals("options", "float", COUNT, 0.1, 9))
    b = ("float", reals("optionsb", "float", COUNT, 0.1, 9))
    for name, options, call, ulp in (
        ("divided", (), "a / b", 5), ("rooted", (), "sqrt(a)", 6),
        ("divided_exactly", ("-cl-fp32-correctly-rounded-divide-sqrt",), "a / b", 0),
        ("rooted_exactly", ("-cl-fp32-correctly-rounded-divide-sqrt",), "sqrt(a)", 0),
        ("fast", ("-cl-fast-relaxed-math",), "exp(a) / b + sin(b)", 16384), ("unsafe", ("-cl-unsafe-math-optimizations",), "a / b * b", 64),
        ("mad_enabled", ("-cl-mad-enable", "-cl-no-signed-zeros", "-cl-finite-math-only"), "a * b + 9", 4),
        ("unoptimised", ("-cl-opt-disable",), "a + b", 0), ("single", ("-cl-single-precision-constant",), "a * 0.1 + 3.3", 2),
        ("defined", ("-DSCALE=2.0f", "-D", "PLUS(x)=((x)+1)"), "PLUS(a * SCALE)", 1), ("older", ("-cl-std=CL1.1",), "a - b", 0),
        ("quiet", ("-w",), "a * b", 0),
    ):  # fmt: skip
        found.append(function_case(f"option_{name}", call, [a, b], "float", ulp=ulp, options=options))
    found.append(
        function_case(
            "denormal", "a * 1e-38f", [("float", reals("denormal", "float", COUNT, 0.001, 1))], "float", ulp=0
        )
    )
    return found


def _arguments() -> list[Case]:
    source = """
typedef struct { float4 f; char c; int t[3]; } setting;
kernel void arguments(global int *r, char c, uchar4 v, short s, ulong l, float f, double d, setting q, float3 t, constant float *k, int2 e) {
  size_t i = get_global_id(0); r[i] = (int)(c + v.w + s + (long)l + f + d + q.f.y + q.c + q.t[2] + t.z + k[i & 3] + e.y) + (int)i; }
"""
    setting = np.zeros(1, np.dtype([("f", np.float32, 4), ("c", np.int8), ("t", np.int32, 3)], align=False))
    padded = np.zeros(
        1,
        np.dtype(
            {
                "names": ["f", "c", "t"],
                "formats": [(np.float32, 4), np.int8, (np.int32, 3)],
                "offsets": [0, 16, 20],
                "itemsize": 32,
            }
        ),
    )
    for field in setting.dtype.names or ():
        padded[field] = 3
    quad = np.dtype([(x, np.uint8) for x in "xyzw"])
    triple = np.dtype([(x, np.float32) for x in "xyzw"])
    pair = np.dtype([(x, np.int32) for x in "xy"])
    args = (
        np.zeros(COUNT, np.int32), np.int8(-3), np.array((1, 2, 3, 200), quad)[()], np.int16(-300), np.uint64(7), np.float32(2.5), np.float64(4.5),
        padded[0], np.array((1, 2, 9, 0), triple)[()], reals("constant", "float", 4), np.array((5, 6), pair)[()],
    )  # fmt: skip
    found = [Case("arguments", source, "arguments", args, (COUNT,), None, (0,), alone=True)]
    source = """
kernel void first_of_two(global int *a, int n) { a[get_global_id(0)] += n; }
kernel void second_of_two(global int *a, global int *b) { first_of_two(a, 3); first_of_two(b + 1, (int)get_global_size(0)); }
"""
    numbers = (np.arange(COUNT, dtype=np.int32), np.zeros(COUNT + 1, np.int32))
    found.append(Case("called_kernel", source, "second_of_two", numbers, (COUNT,), None, (0, 1), alone=True))
    source = "kernel void nothing(global int *a, global int *b, local int *c) { if (!b) a[get_global_id(0)] = 1; }\n"
    found.append(
        Case(
            "nothing",
            source,
            "nothing",
            (np.zeros(8, np.int32), np.zeros(1, np.int32)[:0], _local()),
            (8,),
            None,
            (0,),
            compare=False,
        )
    )
    return found


def _contraction() -> list[Case]:
    source = """
kernel void unfused(global const float *a, global float *r) {
  #pragma OPENCL FP_CONTRACT OFF
  size_t i = get_global_id(0); r[i] = a[i] * a[i] - a[i] * 0.7f; }
"""
    a = reals("unfused", "float", COUNT, 0.1, 9)
    expected = (a * a - a * np.float32(0.7)).astype(np.float32)
    args = (a, np.zeros_like(a))
    return [Case("unfused", source, "unfused", args, (COUNT,), None, (1,), expected=(expected,), alone=True)]


def _byte_swaps() -> list[Case]:
    """With stated values: of three in one expression NVIDIA's compiler makes another number."""
    source = """
kernel void byte_swaps(global const ulong *a, global ulong *r) {
  size_t i = get_global_id(0); r[3 * i] = __builtin_bswap64(a[i]); r[3 * i + 1] = __builtin_bswap32((uint)a[i]);
  r[3 * i + 2] = __builtin_bswap16((ushort)a[i]); }
"""
    a = integers("byte_swaps", "ulong", COUNT)
    narrow = (a.astype(np.uint32).byteswap(), a.astype(np.uint16).byteswap())
    expected = np.stack([a.byteswap(), *(part.astype(np.uint64) for part in narrow)], axis=1).reshape(-1)
    args = (a, np.zeros(3 * COUNT, np.uint64))
    return [
        Case(
            "byte_swaps",
            source,
            "byte_swaps",
            args,
            (COUNT,),
            None,
            (1,),
            expected=(expected,),
            alone=True,
            native_errs="6.12 has no such functions, GCC's manual has; NVIDIA's compiler makes another number of three in one expression",
        )
    ]


def _local() -> object:
    from .case import Local

    return Local(16)


def _generic() -> list[Case]:
    source = """
int summed(const int *p, int n) { int s = 0; for (int k = 0; k < n; ++k) s += p[k]; return s; }
kernel void generic_pointers(global const int *a, global int *r) {
  local int t[16]; int own[2] = { 1, 2 }; size_t l = get_local_id(0), i = get_global_id(0); t[l] = a[i]; barrier(CLK_LOCAL_MEM_FENCE);
  const int *p = l & 1 ? (const int *)t : (const int *)own; r[i] = summed(a, 3) + summed(t, 4) + summed(own, 2) + p[1] + (to_global(a) == a) * 1000; }
"""
    values = integers("generic", "int", COUNT, -99, 99)
    groups = values.reshape(-1, 16)
    lanes = np.arange(16)
    expected = (
        values[:3].sum()
        + groups[:, :4].sum(1, keepdims=True)
        + 3
        + np.where(lanes & 1, groups[:, 1:2], 2)
        + 1000
    )
    wanted: Array = expected.astype(np.int32).reshape(-1)
    return [
        Case(
            "generic_pointers",
            source,
            "generic_pointers",
            (values, np.zeros_like(values)),
            (COUNT,),
            (16,),
            (1,),
            options=CL2,
            expected=(wanted,),
            alone=True,
        )
    ]


def _printing() -> list[Case]:
    source = """
kernel void printing(global float4 *v, global int *n) {
  printf("%d %s %5.2f %c %%|", n[0], "text", v[0].x, 'c'); printf("%v4f|%v3hlf|%2.1v2f\\n", v[0], v[0].xyz, v[0].zw);
  uchar4 c = (uchar4)(1, 2, 3, 250); char2 d = (char2)(-1, 7); short2 s = (short2)(-3, 4); long2 l = (long2)(5, -6);
  printf("%v4hhu %v2hhd %v2hd %v2ld %v4hlx\\n", c, d, s, l, (int4)(16)); }
"""
    args = (np.array([1, 2, 3, 4], np.float32), np.array([42], np.int32))
    return [Case("printing", source, "printing", args, (1,), (1,), (1,))]


def _program_scope() -> list[Case]:
    source = """
global int counter = 5; global float4 kept = (float4)(1, 2, 3, 4); global int *global link; static global int many[4] = { 1, 2 };
kernel void program_scope(global int *r) { if (get_global_id(0) == 0) { counter++; kept.y += counter; many[2] += 3; link = r; }
  if (get_global_id(0) == 0) { r[0] = counter; r[1] = (int)kept.y; r[2] = many[0] + many[2]; r[3] = link == r; } }
"""
    expected = np.array([6, 8, 4, 1], np.int32)
    return [
        Case(
            "program_scope",
            source,
            "program_scope",
            (np.zeros(4, np.int32),),
            (8,),
            (8,),
            (0,),
            options=CL2,
            expected=(expected,),
            alone=True,
        )
    ]
