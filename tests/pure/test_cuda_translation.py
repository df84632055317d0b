"""The CUDA translator: what NVRTC makes of its output, what the text says, what is refused."""

from __future__ import annotations

import ctypes
import re
import runpy
import struct
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from clang.cindex import Cursor
from vdev.translators.dialects.checked import translate_checked
from vdev.translators.dialects.cuda import tables as cuda_dialect
from vdev.translators.dialects.cuda.translation import (
    CudaProgram,
    Untranslatable,
    nvrtc_options,
    translate_cuda,
)
from vdev.translators.dialects.image_lowering import lower_images
from vdev.translators.frontend import clang, depth
from vdev.translators.frontend.depth import DeepRecursion
from vdev.translators.frontend.source import parse_program
from vdev.translators.frontend.unused_functions import without_unused
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges.ndrange import Chunk, NDRange

from .nvrtc import MISSING, compile_cuda, library

needs_nvrtc = pytest.mark.skipif(library() is None, reason=MISSING)
SAMPLES = Path(__file__).parents[2] / "samples"

#: Every kernel compiles; (name, options, text). One for each line of what the translator's docstring promises.
KERNELS = {
    "work_items": """
        size_t place(void) { return get_global_id(1) * get_global_size(0) + get_global_offset(1) + get_num_groups(2); }
        kernel void k(global ulong *a) {
          a[get_global_id(0)] = place() + get_group_id(1) + get_local_id(0) * get_local_size(1) + get_work_dim()
            + get_global_size(get_work_dim() - 1); }""",
    "pointers": """
        typedef struct node { int value; struct node *next; } node;
        float first(global const float *p, int n) { global const float *q = p + n; return *q; }
        kernel void k(global float *restrict a, constant float *c, global const float4 *b, global void *raw) {
          node n = { 1, 0 }; node *p = NULL; p = (n.value > 2) ? &n : NULL; if (p == NULL) p = &n; n.next = p;
          void *anything = p; node *again = anything; global int *words = raw; private int x = words[1];
          a[0] = first(a, 2) + c[1] + b[0].x + ((global float *)b)[5] + again->value + x; }""",
    "local_memory": """
        void put(local float *tile, int i, float x) { tile[i] = x; }
        kernel void k(global float *a, local float *x, local float4 *y) {
          local float block[2][64], more[3]; local int *kept; int i = get_local_id(0);
          block[1][i] = a[i]; put(x, i, 1); y[i] = (float4)(x[i]); kept = (local int *)x;
          barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); mem_fence(CLK_GLOBAL_MEM_FENCE);
          more[0] = block[1][63 - i]; a[i] = more[0] + x[0] + y[0].w + kept[0]; }""",
    "constants": """
        enum { COUNT = 3 };
        constant int table[COUNT] = { 1, -2, 3u }; constant float2 pairs[] = { (float2)(1.0f, 2), { 3, 4 } };
        __constant float limits[2] = { INFINITY, -FLT_MAX }; constant uchar bytes[2] = { 255, 'a' };
        constant struct { int a; float4 b; } settings = { 1, (float4)(2) };
        kernel void k(global float *a) { constant int inner[2] = { 4, 5 }; constant float *p = limits;
          a[0] = table[1] + pairs[1].y + p[1] + bytes[0] + settings.b.z + inner[1] + M_PI_F + NAN + INT_MAX;
          }""",
    "layouts": """
        typedef union { struct { float x, y; } __attribute__((aligned (sizeof(float)))); float2 v; } pair_t;
        kernel void k(global int *a, global pair_t *p) {
          int check[sizeof(pair_t) == 8 ? 1 : -1]; check[0] = 1; a[0] = check[0] + p[1].y; }""",
    "records": """
        typedef struct { char a; int b; float2 c; } __attribute__((packed)) packed_t;
        typedef struct { float x; } __attribute__((aligned(16))) aligned_t;
        typedef union { float4 f; int i[4]; uchar16 bytes; } bits_t;
        struct outer { packed_t p; aligned_t q[2]; unsigned flag; };
        kernel void k(global struct outer *o, packed_t p, global int *sizes) {
          struct outer x = { { 1, 2, (float2)(3, 4) }, { { 1 }, { 2 } }, 5 }, zero = { 0 };
          packed_t list[2] = { p, { .a = 3, .c = (float2)(1) } }; bits_t u; u.f = (float4)(1); u.i[2] ^= 3;
          u.bytes.s0F = 7;
          x.p = (packed_t){ 1, u.i[1], list[1].c }; o[0] = x; o[1] = zero;
          sizes[0] = sizeof(packed_t); sizes[1] = sizeof(float3); sizes[2] = sizeof 'a';
          sizes[3] = vec_step(float3); }""",
    "vectors": """
        float4 turned(float4 v) { return v.wzyx; }
        kernel void k(global float4 *a, global int4 *m, global float3 *t, float s, uchar4 q) {
          float4 x = a[0], y = (float4)(x.xy, s, 1), z = { 1, 2, 3, 4 }, w = 0.0f;
          float16 big = (float16)(x, y, z, w);
          x.xy += s; x.lo.x = 3; x.s3 = y.even.y; (x).odd = y.hi; a->yz = turned(x).xy; big.s0F = big.sAb;
          x *= 2;
          z = -x + y * 2 / (float4)(s) - turned(z); int4 c = x < y || !(z == w); z = c ? x : y;
          z = s > 1 ? x : 0;
          c = c << 33 | c >> (int4)(1) & ~c ^ c % 3; c = (int4)(s < 1); c += (int4)(true); c++; --c.x; --c.xy;
          z = select(x, y, c); a[1][c.x & 3] = z[2]; t[0] = big.s123; t[1].xz = t[0].zx; m[0] = c && c;
          volatile global float4 *v = a; v[0] += v[1]; v[2] = z; z = v[3]; v[4].xy = v[5].yx;
          a[2] = convert_float4(q) * 2.0f; m[1] = (int4)(q.x, convert_int2(q.yz), 1);
          float4 fours[2] = { z, { 1, 2, 3, 4 } };
          a[3] = fours[1] + fours[0].xxyy; }""",
    "volatile_halves": """
        #pragma OPENCL EXTENSION cl_khr_fp16 : enable
        kernel void k(volatile global half *a, global float *b, volatile global half4 *v, local volatile half *l) {
          b[0] = (float)a[0] * (float)a[1] + a[2]; half x = a[3]; a[4] = x; a[5] = a[6]; a[7] = a[0] + a[1] * x; a[1] = 1;
          a[2] += x; a[3] -= 2.5f; a[4] *= a[4]; ++a[5]; b[1] = a[6]--; b[2] = a[0] < a[1] ? a[2] : x; b[3] = -a[0];
          v[0] += v[1]; v[2].xy = v[3].yx; l[0] = a[0]; b[4] = fma(a[0], l[0], x); b[5] = vload_half(3, (global half *)a);
          volatile half y = x; y += y; y = -y; b[6] = y; }""",
    "statements_within_expressions": """
        #define LARGER(a, b) ({ float x_ = (a), y_ = (b); x_ > y_ ? x_ : y_; })
        #define DO(what) ({ switch (what) { case 0: n++; break; \\
          default: for (int i = 0; i < 9; i++) { if (i == n) continue; if (i > n) break; n += i; } } })
        int of(int n) { DO(n); return ({ n < 3; }); }
        kernel void k(global float *a, global float4 *v, int n) { int i = get_global_id(0);
          a[i] = LARGER(a[i + 1], LARGER(a[i + 2], 1)); DO(n); v[i] = ({ float4 t = v[i + 1]; t.x = n; t; }) * 2; a[n] = of(n);
          a[0] = ({ if (n > 3) a[1] = 2; n; }); (void)({ a[2] = 1; }); ({}); }""",
    "conversions": """
        kernel void k(global float4 *f, global int4 *i, global uchar *b, global double *d, global long *l) {
          i[0] = convert_int4_sat_rte(f[0]) + convert_int4_rtp(f[1]) + as_int4(f[2]); f[1] = as_float4(i[0]);
          b[0] = convert_uchar_sat(l[0]); b[1] = convert_uchar_sat_rtn(d[0]); l[1] = convert_long_sat(d[1]);
          d[1] = convert_double_rtz(l[0]); f[2].x = convert_float_rtp(l[1]); f[2].y = convert_float_rtn(d[1]);
          l[2] = as_long(d[0]); l[3] = as_ushort((short)3); float3 t = as_float3(i[1]); f[3].xyz = t;
          i[2] = convert_int4(convert_ulong4(i[1])); i[3].x = (int)f[0].x + (uchar)300 + (char)f[0].y; }""",
    "memory": """
        kernel void k(global float *f, global half *h, constant int *c, local uchar *l) {
          float4 x = vload4(1, f); vstore4(x, 2, f); vstore3(x.xyz, 3, f); float3 y = vload3(0, f);
          int2 z = vload2(0, c);
          vstore16((uchar16)(7), 0, l); f[0] = vload_half(1, h); x = vload_half4(2, h);
          y = vloada_half3(1, h);
          vstore_half(x.x, 1, h); vstore_half4_rtz(x, 2, h); vstorea_half3(y, 3, h);
          vstore_half_rte((float)z.x, 4, h);
          event_t e = async_work_group_copy(l, (global uchar *)f, 64, 0);
          e = async_work_group_strided_copy((global uchar *)f, l, 8, 2, e); wait_group_events(1, &e);
          prefetch(f, 3); }""",
    "mathematics": """
        kernel void k(global float *f, global float4 *v, global double *d, global int4 *n, float s) {
          float4 x = v[0], y = v[1]; int4 e; int i; float w;
          x = sin(x) + cospi(x) + exp10(y) + pow(x, y) + pown(x, n[0]) + rootn(x, n[0]) + fmax(x, s) + ldexp(x, 3);
          x += sincos(x, &y) + fract(x, &y) + modf(x, &y) + frexp(x, &e) + lgamma_r(x, &e) + remquo(x, y, &e) + nan((uint4)(3));
          f[0] = native_sin(s) + half_exp(s) + native_divide(s, 3.0f) + mad(s, s, 1.0f) + fma(s, s, s) + rsqrt(s) + erfc(s) + sinh(s);
          f[1] = sincos(s, &w) + fract(s, &w) + frexp(s, &i) + nextafter(s, w) + maxmag(s, w) + atan2pi(s, w) + tgamma(s) + ilogb(s);
          d[0] = sqrt(d[1]) + pown(d[1], 3) + powr(d[1], d[2]) + hypot(d[0], 2.0) + fabs(d[3]) + logb(d[0]) + acospi(d[2])
            + fma(d[0], d[1], 2);
          v[2] = x + mix(x, y, s) + clamp(x, 0.0f, s) + smoothstep(0.0f, 1.0f, x) + step(s, x) + sign(x) + degrees(x) + radians(y);
          v[3] = cross(x, y) + normalize(x) + fast_normalize(y) + dot(x, y) + length(x.xyz) + distance(x, y) + fast_length(x.xy); }""",
    "integers": """
        kernel void k(global int4 *v, global uint *u, global char *c, global long *l, global ulong2 *w) {
          int4 a = v[0], b = v[1]; uint4 p = abs(a) + abs_diff(a, b);
          a = max(a, 3) + min(a, b) + clamp(a, 1, 5) + mul24(a, b) + mad24(a, b, a) + mad_sat(a, b, a) + mad_hi(a, b, a)
            + rotate(a, (int4)3);
          a += hadd(a, b) + rhadd(a, b) + add_sat(a, b) + sub_sat(a, b) + mul_hi(a, b) + clz(a) + popcount(b) + bitselect(a, b, a);
          c[0] = add_sat(c[1], c[2]) + mul_hi(c[0], (char)3) + clz(c[1]) + rotate(c[2], (char)3) + max(c[0], (char)'a');
          l[0] = mad_sat(l[1], l[2], l[3]) + mul_hi(l[0], 7l) + upsample((int)3, u[0]);
          w[0] = mul_hi(w[1], w[2]) + popcount(w[0]);
          u[0] = upsample((ushort)1, (ushort)2) + (u[1] << c[0]) + (1 << u[2] >> 3); l[1] <<= c[0];
          c[2] >>= u[0]; v[2] = a; v[3] = convert_int4(p); }""",
    "relations": """
        kernel void k(global float4 *f, global int4 *i, global int *s, global double2 *d, global long2 *l, global uchar4 *c) {
          i[0] = isnan(f[0]) | isless(f[0], f[1]) | signbit(f[1]) | isnormal(f[0]) | isordered(f[0], f[1]);
          l[0] = isfinite(d[0]) + (d[0] > d[1]);
          s[0] = any(f[0] < f[1]) + all(i[0]) + isinf(d[0].x) + islessgreater(1.0f, f[0].x) + select(1, 2, s[1])
            + max(s[0] < 3, s[1] > 2);
          f[2] = shuffle(f[0], (uint4)(3, 2, 1, 0)); c[0] = shuffle2(c[1], c[2], (uchar4)(7, 0, 4, 1));
          f[3] = bitselect(f[0], f[1], f[2]); }""",
    "atomics": """
        kernel void k(volatile global int *a, global uint *u, local int *l, global float *f, global long *q) {
          a[1] = atomic_add(a, 2) + atomic_sub(l, 1) + atomic_inc(l) + atomic_dec(a) + atomic_cmpxchg(a, 1, 2) + atomic_xor(l, 3);
          u[1] = atomic_min(u, 3u) + atomic_max(u, 4u) + atomic_and(u, 5u) + atomic_or(u, 6u) + atom_add(u, 1u) + atom_inc(u);
          f[1] = atomic_xchg(f, 1.0f); }""",
    "names": """
        int class(int new, int *this) { int template = new, threadIdx = 2, namespace = 3; *this = template; return threadIdx
            + namespace; }
        float max3(float a, float b, float c) { return max(a, max(b, c)); }
        float atomicAdd(float x) { return x; } struct operator { int private_, delete; } ;
        kernel void main_(global int *typename, int friend, local int *virtual) { struct operator o = { 1, 2 }; int float5 = o.delete;
          goto catch; catch: typename[friend] = class(float5, &friend) + atomicAdd(2) + virtual[0]; }
        kernel void typeid(global int *a) { a[0] = max3(1, 2, 3); }""",
    "overloads": """
        int __attribute__((overloadable)) f(global const int *p) { return p[0]; }
        int __attribute__((overloadable)) f(local const int *p) { return p[1]; }
        float __attribute__((overloadable)) f(float x) { return get_global_id(0) * x; }
        kernel void k(global int *a, local int *b) { a[0] = f(a) + f(b) + (int)f(2.0f); }""",
    "called_kernels": """
        kernel void inner(global int *a, local int *t) { a[get_global_id(0)] = t[0]; }
        kernel void outer(global int *a, local int *t) { inner(a + 1, t); }""",
    "large_local_memory": """
        kernel void k(global float *a, local float4 *more) {
          local float tile[150][100], row[64]; local int2 class; int i = get_local_id(0);
          if (i == 0) class = (int2)(3); tile[i][1] = a[i]; row[i] = more[i].x; barrier(1); a[i] = tile[63 - i][1] + row[0] + class.y; }
        kernel void small(global float *a) { local float t[64]; t[get_local_id(0)] = a[0]; barrier(1); a[1] = t[2]; }""",
    "statements": """
        enum mode { FIRST, SECOND = 5 };
        __attribute__((always_inline)) static int pick(int n) { switch (n) { case FIRST:; int x = 3; return x; default: return SECOND; } }
        __attribute__((work_group_size_hint(64, 1, 1))) kernel void k(global int *a, int n) {
          enum mode m = n; int r = 0; if (n > 3) goto end; int y = 4; r = y;
          __attribute__((opencl_unroll_hint(4))) for (int i = 0; i < n; ++i) { if (i == 2) continue;
          r += pick(i); }
          do { r--; } while (r > 10); end: a[0] = r + m; printf("%d %s %f\\n", r, "text", 1.5f); }""",
}

#: The same in OpenCL C 2.0.
KERNELS_2 = {
    "c11_atomics": """
        kernel void k(global atomic_int *a, volatile global atomic_uint *u, global atomic_flag *f, global int *out, local atomic_int *l) {
          int e = 3; atomic_init(l, 1); atomic_store(a, 3);
          out[0] = atomic_load_explicit(a, memory_order_acquire);
          out[1] = atomic_fetch_add_explicit(a, 1, memory_order_relaxed, memory_scope_device) + atomic_fetch_max(a, 4)
            + atomic_exchange(l, 2);
          out[2] = atomic_compare_exchange_strong(a, &e, 4); out[3] = atomic_flag_test_and_set(f);
          atomic_flag_clear(f);
          out[4] = atomic_fetch_or(u, 3u);
          atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device); }""",
    "work_groups": """
        kernel void k(global int *a, global float *f, global double *d, global long *l) { int i = get_local_linear_id();
          a[i] = work_group_reduce_add(i) + work_group_scan_inclusive_max(i) + work_group_scan_exclusive_add(i) + work_group_all(i > 2)
            + work_group_any(i) + work_group_broadcast(i, 0) + work_group_broadcast(i, 1, 2);
          f[i] = work_group_reduce_min(f[i]); d[i] = work_group_scan_exclusive_max(d[i]);
          l[i] = work_group_scan_exclusive_min(l[i]);
          work_group_barrier(CLK_LOCAL_MEM_FENCE, memory_scope_device); }""",
    "generic_pointers": """
        int sum(int *p) { return p[0] + get_fence(p); }
        kernel void k(global int *a, local int *b) { int c[2] = { 1, 2 }; a[0] = sum(a) + sum(b) + sum(c)
            + (int)get_enqueued_local_size(0); }""",
}
HALVES = """
    #pragma OPENCL EXTENSION cl_khr_fp16 : enable
    kernel void k(global half *h, global half4 *v, global float *f) {
      half a = h[0], b = 1.5h; a = a * b + 1; a += 2; half4 x = v[0] * a + (half4)(1.0h, b, 2, 3); x.xy = x.yx; v[1] = x;
      if (a > b) a = -a; h[1] = fabs(a) + sqrt(b); f[0] = a; h[2] = f[1]; h[3] = max(a, b);
      h[4] = convert_half_rtz(f[2]); f[3] = (float)b; }"""


def translate(source: str, *options: str) -> CudaProgram:
    return translate_cuda(parse_program(source, options))


def user_part(program: CudaProgram) -> str:
    return str(program.source.rpartition('#line 1 "<kernel>"\n')[2])


def compiled(program: CudaProgram) -> str:
    done, text = compile_cuda(program.source, program.options)
    assert done, text[:4000]
    return text


@needs_nvrtc
@pytest.mark.parametrize("name", KERNELS)
def test_compiles(name: str) -> None:
    program = translate(KERNELS[name])
    ptx = compiled(program)
    assert all(f".visible .entry {kernel.entry}(" in ptx for kernel in program.kernels.values())


@needs_nvrtc
@pytest.mark.parametrize("name", KERNELS_2)
def test_compiles_as_2_0(name: str) -> None:
    assert ".visible .entry" in compiled(translate(KERNELS_2[name], "-cl-std=CL2.0"))


@needs_nvrtc
def test_halves_compile() -> None:
    assert ".visible .entry" in compiled(translate(HALVES))


class Built(BaseException):
    """A sample has built its program; no more of it is wanted."""


@needs_nvrtc
@pytest.mark.parametrize(
    "path", [p for p in sorted(SAMPLES.glob("*.py")) if "SOURCE" in p.read_text()], ids=lambda p: p.stem
)
def test_samples_compile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a sample builds, caught before any device is asked for."""
    cl = pytest.importorskip("pyopencl")
    built: list[tuple[str, list[str]]] = []

    class Program:
        def __init__(self, context: object, source: str) -> None:
            self.source = source

        def build(self, options: object = ()) -> None:
            built.append((self.source, [options] if isinstance(options, str) else list(options)))  # type: ignore[call-overload]
            raise Built

    monkeypatch.syspath_prepend(str(SAMPLES))
    common = __import__("common")
    monkeypatch.setattr(cl, "Program", Program)
    monkeypatch.setattr(cl, "Buffer", MagicMock())
    monkeypatch.setattr(cl, "enqueue_copy", MagicMock())
    monkeypatch.setattr(cl, "enqueue_fill_buffer", MagicMock())
    queue = MagicMock()
    queue.device.extensions = "cl_khr_fp64"
    monkeypatch.setattr(common, "open_queue", lambda: (MagicMock(), queue))
    monkeypatch.setattr(cl, "create_some_context", MagicMock())
    monkeypatch.setattr(cl, "CommandQueue", MagicMock())
    monkeypatch.setattr(sys, "argv", [str(path)])
    with pytest.raises(Built):
        runpy.run_path(str(path), run_name="__main__")
    ((source, options),) = built
    compiled(translate_cuda(lower_images(parse_program(source, options)).program))


@needs_nvrtc
def test_errors_name_the_users_line() -> None:
    program = translate("kernel void k(global int *a) {\n\n  a[0] = 1; }")
    done, log = compile_cuda(program.source.replace("a[0] = 1;", "a[0] = oops;"), program.options)
    assert not done
    assert "<kernel>(3): error" in log


@needs_nvrtc
def test_memory_is_known_to_be_global_or_shared() -> None:
    source = "kernel void k(global float4 *a, local float4 *t) { t[get_local_id(0)] = a[get_global_id(0)];"
    ptx = compiled(translate(source + " barrier(1); a[get_global_id(0)] = t[0] + t[1]; }"))
    assert "ld.global.v4.f32" in ptx
    assert "st.global.v4.f32" in ptx
    assert "st.shared.v4.f32" in ptx
    assert "ld.shared." in ptx
    assert "\tld.f32" not in ptx


@needs_nvrtc
@pytest.mark.parametrize(
    ("types", "statement", "most"),
    [
        ("float4, float4", "b[i] = a[i] * a[i + 1].x + a[i].wzyx", 3),
        ("uchar4, float4", "b[i] = convert_float4(a[i])", 2),
        ("float4, uchar4", "b[i] = convert_uchar4_sat_rte(a[i])", 2),
        ("float8, float8", "b[i] = a[i] < a[i + 1] ? a[i] : sqrt(a[i])", 6),
        ("short8, short8", "b[i] = a[i] * a[i + 1]", 3),
        ("uchar4, uchar16", "b[i] = (uchar16)(a[i], a[1], a[2], a[3])", 5),
        ("float16, float4", "b[i] = a[i].s0123 + a[i].hi.lo", 3),
        ("double2, double2", "b[i] = (double2)(dot(a[i], a[i]), fma(a[i], a[i], a[i]).x)", 2),
        ("float3, float3", "b[i] = normalize(a[i])", 2),
    ],
)
def test_vectors_are_loaded_and_stored_at_once(types: str, statement: str, most: int) -> None:
    """At most so many instructions, each of the whole vector or of 16 bytes of it."""
    one, other = types.split(", ")
    source = f"kernel void k(global const {one} *a, global {other} *b) {{ size_t i = get_global_id(0); {statement}; }}"
    ptx = compiled(translate(source))
    assert len(re.findall(r"\t(?:ld|st)\.global", ptx)) <= most, ptx


@needs_nvrtc
@pytest.mark.parametrize("copy", ["b[i] = a[i];", "r p = a[i]; p.n++; b[i] = p;"])
def test_members_of_records_are_copied_at_once(copy: str) -> None:
    """Bytes behind the last member belong to the structure, or NVCC would copy byte by byte; loads come before stores."""
    source = "typedef struct { float4 v; int n; } r; kernel void k(global r *a, global r *b) { size_t i = get_global_id(0); COPY }"
    ptx = compiled(translate(source.replace("COPY", copy)))
    found = re.findall(r"\t(ld|st)\.global\.(v4|u32)", ptx)
    assert sorted(found[:2]) == [("ld", "u32"), ("ld", "v4")]
    assert sorted(found[2:]) == [("st", "u32"), ("st", "v4")]
    assert len(re.findall(r"\t(?:ld|st)\.global", ptx)) == 4


@needs_nvrtc
@pytest.mark.parametrize("product", ["mul24(x, -3)", "mad24(x, -3, 0)"])
def test_an_index_by_mul24_may_be_that_of_another_element(product: str) -> None:
    """With x = 1 the second store is to p[0]. Taken apart by NVVM, such a product makes it reuse the 7."""
    source = f"kernel void k(global int *p, int x, global int *r) {{ p[0] = 7; p[3 + {product}] = 5; r[0] = p[0]; }}"
    assert "ld.global.u32" in compiled(translate(source))


@needs_nvrtc
def test_constant_memory_is_read_through_the_read_only_cache() -> None:
    source = (
        "kernel void k(constant float *a, global const float *restrict b, global float *c, global float *d) {"
    )
    ptx = compiled(translate(source + " c[get_global_id(0)] = a[get_global_id(1)] + b[2] + d[0]; }"))
    assert len(re.findall(r"\tld\.global\.nc\.f32", ptx)) == 2
    assert len(re.findall(r"\tld\.global\.f32", ptx)) == 1


@needs_nvrtc
def test_a_required_work_group_size_is_a_constant() -> None:
    head = "kernel __attribute__((reqd_work_group_size(64, 2, 1))) void k(global int *a) {"
    ptx = compiled(translate(head + " a[get_global_id(0)] = get_local_size(0) / get_local_size(1); }"))
    assert "%ntid" not in ptx
    assert ".maxntid 128" in ptx


def test_hints_to_unroll_are_kept() -> None:
    text = """kernel void k(global int *a, int n) {
#pragma unroll 4
  for (int i = 0; i < n; ++i) a[i]++;
  __attribute__((opencl_unroll_hint(8))) for (int i = 0; i < n; ++i) a[i]--;
  __attribute__((opencl_unroll_hint)) for (int i = 0; i < n; ++i) a[i]--; }"""
    found = user_part(translate(text))
    assert "#pragma unroll 4\n" in found
    assert '_Pragma("unroll 8") for' in found
    assert '_Pragma("unroll") for' in found


def test_text() -> None:
    source = """kernel void k(global float4 *a, constant float *c, local int *l, int n, float s) {
  local float tile[4];
  a[0].xy = (float2)(s, 1); a[1].x = a[2].zw.y; tile[n] = c[n];
  float4 x = a[0] * 2; x = n ? x : s; x = (x < a[1]) ? x : a[1];
  n = n << n; n = n << 3; n = max(n > 2, 'a');
}"""
    lines = user_part(translate(source)).split("\n")
    assert "__shared__  float tile[4];" in lines[1 + _prelude_lines(lines)]
    start = _prelude_lines(lines)
    assert (
        "a[0].ref<0, 1>() = ::vdev_cl::make<::vdev_cl::vec<float, 2>>(s, ((float)(1)));" in lines[start + 2]
    )
    assert "a[1].v[0] = a[2].get<2, 3>().v[1];" in lines[start + 2]
    assert "a[0] * ((::vdev_cl::vec<float, 4>)(((float)(2))))" in lines[start + 3]
    assert "x = n ? x : ((::vdev_cl::vec<float, 4>)(s));" in lines[start + 3]
    assert "::vdev_cl::choose((x < a[1]) , x , a[1])" in lines[start + 3]
    assert "n = n << ((n) & 31); n = n << 3;" in lines[start + 4]
    assert "max(((int)(n > 2)), ((int)'a'))" in lines[start + 4]


def _prelude_lines(lines: list[str]) -> int:
    """Where the user's first line is."""
    return next(index for index, line in enumerate(lines) if "tile" in line) - 1


def test_pointers_are_not_moved_by_kernels() -> None:
    """The back end does that; and their names are those that C++ leaves to programs."""
    source = """kernel void k(global int *this, constant float c[], global const float4 *restrict x, int n, local int *l)
    { l[0] = n; this[0] = (int)(c[0] + x[1].y) + l[0]; }"""
    text = user_part(translate(source))
    assert text.count("decltype(vdev_p_") == text.count(" = vdev_p_") == 3
    assert "vdev_hidden.shift[" not in text
    assert " this " not in text


def test_interface() -> None:
    source = """__attribute__((reqd_work_group_size(8, 4, 2)))
        kernel void k(global int *a, local int *x, float s, constant int *c, local double *y) { a[0] = x[0] + s + c[0] + y[0]; }"""
    kernel = translate(source).kernels["k"]
    assert (kernel.pointer_args, kernel.local_args, kernel.hidden_index) == ((0, 3), (1, 4), 5)
    assert kernel.max_work_group_size == 64
    assert kernel.local_layout([100, 8]) == ((0, 128), 256)
    hidden = kernel.pack(NDRange((32, 8), (8, 4), (3, 0)), Chunk((1, 0), (4, 2)), [16, -8])
    assert len(hidden) == kernel.hidden_nbytes
    assert struct.unpack("<15Q2qQ", hidden) == (1, 0, 0, 4, 2, 1, 32, 8, 1, 3, 0, 0, 11, 0, 0, 16, -8, 2)
    with pytest.raises(ValueError, match="not a multiple"):
        kernel.pack(NDRange((33,), (8,), (0,)), Chunk((0,), (5,)), [0, 0])
    with pytest.raises(ValueError, match="local sizes"):
        kernel.local_layout([1])


def test_local_variables_beyond_48_kb_stand_before_local_arguments() -> None:
    kernels = translate(KERNELS["large_local_memory"]).kernels
    nbytes = 60032 + 256 + 128
    assert kernels["k"].local_nbytes == nbytes
    assert kernels["k"].local_layout([100]) == ((nbytes,), nbytes + 128)
    assert kernels["small"].local_nbytes == 0


def test_local_variables_stand_behind_labels_as_well() -> None:
    kernel = "kernel void k(global float *a) { goto l; l: local float t[20000]; m: n: local int u; t[0] = u = 1; a[0] = t[0] + u; }"
    assert translate(kernel).kernels["k"].local_nbytes == 80000 + 128


def test_local_variables_are_not_sought_in_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many cursors are asked for what is in them: as many where a kernel has local variables, but for a few."""
    asked: list[Cursor] = []
    children = clang.children
    monkeypatch.setattr(clang, "children", lambda cursor: asked.append(cursor) or children(cursor))
    numbers = []
    for space in ("private", "local"):
        asked.clear()
        translate(
            f"kernel void k(global int *a) {{ {space} int t[4]; t[0] = 1; a[0] = {'t[0] + ' * 50}a[1]; }}"
        )
        numbers.append(len(asked))
    assert numbers[0] > 200
    assert numbers[1] - numbers[0] < 10


def test_options() -> None:
    assert "--use_fast_math" in nvrtc_options(["-cl-fast-relaxed-math", "-w", "-cl-std=CL1.2"])
    exact = nvrtc_options(["-cl-fp32-correctly-rounded-divide-sqrt"])
    assert "--prec-div=true" in exact
    assert "--prec-div=false" not in exact
    assert "--ftz=true" in nvrtc_options(["-cl-denorms-are-zero"])
    assert "--ftz=true" in nvrtc_options(["-cl-unsafe-math-optimizations"])
    assert "--maxrregcount=32" in nvrtc_options(["-cl-nv-maxrregcount", "32", "-cl-nv-verbose"])
    with pytest.raises(Untranslatable, match="-cl-unheard-of"):
        nvrtc_options(["-cl-unheard-of"])


def test_contraction_is_off_where_a_program_says_so() -> None:
    source = "kernel void k(global float *a) { %s a[0] = a[1] * a[2] + a[3]; }"
    assert "--fmad=true" in translate(source % "").options
    for pragma in ("OPENCL FP_CONTRACT OFF", "STDC FP_CONTRACT OFF", "clang fp contract(off)"):
        off = translate(source % f"\n#pragma {pragma}\n").options
        assert "--fmad=false" in off
        assert "--fmad=true" not in off
    assert "--fmad=true" in translate(source % "\n#pragma OPENCL FP_CONTRACT ON\n").options


SHARED = """kernel void k(global float *a, const int n) {
    float x = a[0], y = a[1], previous;
    for (int i = 0; i < n && x * x + y * y <= 4.0f; i++) {
        previous = x * x - y * y + a[2];
        y = 2.0f * x * y + a[3];
        x = previous;
    }
    a[4] = x + y;
}"""


def test_products_that_sums_have_in_common_are_fused_with_each() -> None:
    text = user_part(translate(SHARED))
    assert "::vdev_cl::fused_float(x, x, (y * y)) <= 4.0f" in text
    assert "previous = ::vdev_cl::fused_float(x, x, -(y * y)) + a[2];" in text
    assert "y = 2.0f * x * y + a[3];" in text, "the compiler fuses what is used once"


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        (
            "p * q + r - (q - p * q)",
            "::vdev_cl::fused_float(p, q, (r)) - (::vdev_cl::fused_onto_float(q, -(p), q))",
        ),
        ("(p * q) + n * (p * q)", "fused_float(p, q, (n * (p * q)))"),
        ("p * i + q * (p * i)", "fused_float(p, i, (q * (p * i)))"),
        ("d * d - d + d * d", "fused_onto_double(::vdev_cl::fused_double(d, d, -(d)), (d), d)"),
    ],
)
def test_the_parts_of_a_fused_product(expression: str, printed: str) -> None:
    source = (
        "kernel void k(global double *a, float p, float q, float r, float n, int i, double d) { a[0] = %s; }"
    )
    assert printed in user_part(translate(source % expression))


@pytest.mark.parametrize(
    "expression",
    [
        "p * q + r",  # once
        "p * q - q * p",  # 0
        "(p * q - p * q) + r",  # 0
        "i * i + j + i * i",  # whole numbers
        "v.x + dot(v * v + v, v * v)",  # vectors
        "p * q\n + r - (p * q)",  # on two lines, which stay two
    ],
)
def test_what_is_not_to_be_fused_stays_as_it_is(expression: str) -> None:
    source = (
        "kernel void k(global float *a, float p, float q, float r, int i, int j, float4 v) { a[0] = %s; }"
    )
    assert "fused" not in user_part(translate(source % expression))
    fused = "a[0] = p * q + r; a[1] = p * q + q;"
    assert "fused_float" in user_part(translate(source.replace("a[0] = %s;", fused)))
    pragma = "\n#pragma OPENCL FP_CONTRACT OFF\n"
    assert "fused" not in user_part(translate(source.replace("a[0] = %s;", pragma + fused)))


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_shared_products_take_no_instructions_of_their_own() -> None:
    """Of a step of an iteration x² + y² and x² - y² + a, 2xy + b: two products, one sum, three that are fused."""

    def counted(program: CudaProgram) -> tuple[int, int, int]:
        done, ptx = compile_cuda(program.source, program.options)
        assert done, ptx
        loop = ptx[ptx.index("BB0_") :]
        steps = len(re.findall(r"setp\.\w+\.f32", loop))
        assert steps > 0
        return tuple(  # type: ignore[return-value]
            len(re.findall(rf"\b{name}\S*\.f32", loop)) // steps for name in ("mul", "(?:add|sub)", "fma")
        )

    assert counted(translate(SHARED))[2] == 3
    separate = translate(
        SHARED.replace("x * x - y * y", "x * x\n - y * y").replace("x * x + y", "x * x\n + y")
    )
    assert counted(separate)[2] < 3, "NVRTC does it itself by now"


def test_single_precision_constants() -> None:
    text = user_part(
        translate("kernel void k(global float *a) { a[0] = 1.5 + M_PI; }", "-cl-single-precision-constant")
    )
    assert "a[0] = ((float)(1.5)) + ((float)M_PI);" in text


def test_every_constant_of_the_language_is_defined() -> None:
    constants = cuda_dialect.constants()
    assert constants["CLK_GLOBAL_MEM_FENCE"] == "0x02"
    assert "VDEV_OPENCL_C_BASE_H" not in constants
    assert constants["M_PI_H"] == "(::vdev_cl::half_of(0x4248))"


@pytest.mark.parametrize(
    ("source", "options", "reason", "line"),
    [
        ("kernel void k(read_only image2d_t i, global int *a) { a[0] = get_image_width(i); }", (), "image2d_t", 1),
        ("kernel void k(global int *a) {\n sampler_t s = 0; a[0] = 1; }", (), "sampler_t", 2),
        ("kernel void k(global int *a) {\n int b[3] = { [2] = 2, [1] = 3, [2] = 4 }; a[0] = b[1]; }", (), "out of order", 2),
        ("kernel void k(global int *a) {\n float4 b[3] = { [0 ... 1] = (float4)(1) }; a[0] = b[1].x; }", (), "not a constant number", 2),
        ("kernel void k(global int *a, float x) {\n a[0] = _Generic(x, int: 1, float: 2); }", (), "_Generic", 2),
        ("kernel void k(global int *a) {\n int *p = (int[]){ 1, 2 }; a[0] = p[1]; }", ("-cl-std=CL2.0",), "array literal", 2),
        ("kernel void k(global float4 *a) {\n a[0] = __builtin_shufflevector(a[1], a[2], 0, 4, 1, 5); }", (), "shufflevector", 2),
        ("kernel void k(global int *a) {\n switch (a[0]) { case 3 ... 1: a[0] = 2; } }", (), "empty range", 2),
    ],
)  # fmt: skip
def test_refused(source: str, options: tuple[str, ...], reason: str, line: int) -> None:
    with pytest.raises(Untranslatable, match=reason) as caught:
        translate(source, *options)
    assert caught.value.line == line


UNUSED = """
int early(int x);
static inline int unused(int x) { return x /
  0 + early(x); }
int __attribute__((overloadable)) twice(int x) { return 2 * x; }
float __attribute__((overloadable)) twice(float x) { return 2 * x; }
__attribute__((always_inline)) int
refused(int x) {
#line 20 "other.h"
  switch (x) { case 3 ... 1: return 1; } return x; }
int early(int x) { return twice(x) + 1; }
kernel void k(global int *a) { a[0] = early(a[1]); a[2] = __LINE__; }
"""


def test_functions_that_no_kernel_calls_are_only_declared() -> None:
    program = parse_program(UNUSED)
    found = without_unused(program)
    assert "unused(int x) ;" in found.preprocessed
    assert "refused(int x) ;" in found.preprocessed
    assert found.preprocessed.count("return") == 3
    assert 'other.h"\n' in found.preprocessed
    assert found.kernels["k"].line == program.kernels["k"].line
    assert without_unused(found) is found


@needs_nvrtc
def test_what_is_not_called_is_not_refused() -> None:
    compiled(translate(UNUSED))
    with pytest.raises(Untranslatable):
        translate(UNUSED.replace("early(a[1])", "refused(a[1])"))


def _sum(count: int) -> str:
    terms = " + ".join(f"a[i] * {number}" for number in range(count))
    return f"kernel void k(global int *a) {{ int i = get_global_id(0); a[i] = {terms}; }}"


def test_long_sums() -> None:
    """A sum is as deep as it has terms: programs that programs write have hundreds. Deeper ones are refused with the reason."""
    assert translate(_sum(600)).source.count("* 599") == 1
    with pytest.raises(Untranslatable, match="nested too deeply"):
        translate(_sum(6000))


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Python's limit as it was and became, in one that no other thread of this process changes."""
    seen = [1000]
    monkeypatch.setattr(
        depth, "sys", SimpleNamespace(getrecursionlimit=lambda: seen[-1], setrecursionlimit=seen.append)
    )
    monkeypatch.setattr(depth, "_before", [])
    return seen


def test_deep_walks_on_several_threads(limits: list[int]) -> None:
    """Python's limit is one for all threads: whoever ends last puts it back."""
    first, second = DeepRecursion(), DeepRecursion()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert limits == [1000, 6000]
    second.__exit__(None, None, None)
    assert limits == [1000, 6000, 1000]


def test_a_walk_that_ends_while_another_begins(limits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = DeepRecursion(), DeepRecursion()
    first.__enter__()

    class Lock:
        """The second walk waits for it until the first has ended."""

        def __enter__(self) -> None:
            monkeypatch.setattr(depth, "_lock", nullcontext())
            first.__exit__(None, None, None)

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(depth, "_lock", Lock())
    second.__enter__()
    assert limits == [1000, 6000, 1000, 6000]
    second.__exit__(None, None, None)
    assert limits[-1] == 1000


def test_a_limit_that_ctypes_meets() -> None:
    with pytest.raises(RecursionError), DeepRecursion():
        raise ctypes.ArgumentError("argument 1: RecursionError: ???")
    with pytest.raises(ctypes.ArgumentError), DeepRecursion():
        raise ctypes.ArgumentError("argument 1: TypeError: wrong type")


def test_analysis_of_long_sums() -> None:
    assert not analyse_kernel(parse_program(_sum(300)), "k").one_worker
    (reason,) = analyse_kernel(parse_program(_sum(6000)), "k").one_worker
    assert "nested too deeply" in reason.text


def test_checks_of_long_sums() -> None:
    assert translate_checked(parse_program(_sum(300))).kernels
    for count in range(2500, 2510):  # wherever in a walk it is that there is no room for one more frame
        with pytest.raises(Untranslatable, match="nested too deeply"):
            translate_checked(parse_program(_sum(count)))
