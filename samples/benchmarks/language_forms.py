"""Kernels of one form of OpenCL C each, natively and on one worker: which of them the translation makes slower?

    python samples/benchmarks/language_forms.py [--only NAME,...] [--items N] [--kind cpu|cuda] [--json FILE]

Each kernel repeats one operation, function, access or statement; its time is the least of some rounds of launches and a wait.
Shown are those that take more than 1.05 times as long as natively, and the geometric mean of all. Of each kernel some results are
compared with the native ones: integers exactly, others to a thousandth, which tells a wrong form from another rounding.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from pathlib import Path

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import pyopencl as cl  # noqa: E402

#: a round takes about this long; results of a kernel that are compared; bytes of an item's element at most
ROUND_SECONDS, ROUNDS, COMPARED, MOST_NBYTES = 0.03, 4, 64, 64
#: elements of the array that some kernels take as a table or a matrix of 2048 columns
TABLE = 1 << 22
HEAD = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define ID size_t i = get_global_id(0)
#define TABLE_MASK 4194303
"""


def repeated(type_: str, expression: str, times: int = 64) -> str:
    """A kernel that computes an expression of `v` so often, each time from what it was before."""
    return f"""kernel void k(global {type_} *y, global const {type_} *x) {{
    ID; {type_} v = x[i]; for (int j = 0; j < {times}; ++j) v = {expression}; y[i] = v; }}"""


def copied(type_: str) -> str:
    return f"kernel void k(global {type_} *y, global const {type_} *x) {{ ID; y[i] = x[i] + ({type_})(1); }}"


def forms() -> dict[str, tuple[str, str]]:
    """By name: the kernel, and the type of its results as NumPy knows it."""
    found: dict[str, tuple[str, str]] = {}
    for name in [
        "sin",
        "cos",
        "exp",
        "tanh",
        "exp2",
        "cbrt",
        "erf",
        "tgamma",
        "sinpi",
        "fabs",
        "floor",
        "rint",
        "native_sin",
        "native_exp",
        "half_exp",
        "atan",
        "asin",
        "sinh",
        "expm1",
    ]:
        found[name] = repeated("float", f"{name}(v) * 0.5f + 0.25f"), "f4"
    for name in ["sqrt", "rsqrt", "log", "log2", "log1p"]:
        found[name] = repeated("float", f"{name}(v * v + 1.0f) + 0.5f"), "f4"
    for name in ["pow", "powr", "atan2", "fmod", "hypot", "fmin", "remainder"]:
        found[name] = repeated("float", f"{name}(v * v + 1.0f, 0.75f) * 0.5f"), "f4"
    for name in ["sin", "exp", "sqrt", "log", "rsqrt"]:
        found[f"double {name}"] = repeated("double", f"{name}(v * v + 1.0) * 0.5", 16), "f8"
    for type_, name in (("float", "f4"), ("double", "f8")):
        found[f"{type_} quotient"] = repeated(type_, f"({type_})1.5 / (v + ({type_})2)"), name
        found[f"{type_} fma"] = repeated(type_, f"fma(v, ({type_})1.0001, ({type_})0.001)", 256), name
        found[f"{type_} sum of product"] = repeated(type_, f"v * ({type_})1.0001 + ({type_})0.001", 256), name
    for name, (type_, expression, of) in _EXPRESSIONS.items():
        found[name] = repeated(type_, expression), of
    for type_ in [
        "float2",
        "float3",
        "float4",
        "float8",
        "float16",
        "uchar4",
        "uchar16",
        "short8",
        "int4",
        "double2",
        "double4",
        "ulong2",
    ]:
        found[f"copy of {type_}"] = copied(type_), "u1"
    return found | _KERNELS


_EXPRESSIONS = {
    "int quotient": ("int", "(v * 7 + 12345) / ((v & 15) + 3)", "i4"),
    "uint remainder": ("uint", "(v * 7 + 12345) % ((v & 1023) + 3)", "u4"),
    "long quotient": ("long", "(v * 7 + 12345) / ((v & 1023) + 3)", "i8"),
    "ulong remainder": ("ulong", "(v * 7 + 12345) % ((v & 1023) + 3)", "u8"),
    "mad24": ("int", "mad24(v & 0xFFFF, 13, 7)", "i4"),
    "mul_hi": ("uint", "mul_hi(v, 0x9E3779B9u) + 7u", "u4"),
    "ulong mul_hi": ("ulong", "mul_hi(v, 0x9E3779B97F4A7C15ul) + 7ul", "u8"),
    "rotate": ("uint", "rotate(v, 7u) + 0x1234567u", "u4"),
    "ulong rotate": ("ulong", "rotate(v, 7ul) + 0x1234567ul", "u8"),
    "popcount": ("uint", "popcount(v) * 0x1234567u + v", "u4"),
    "clz": ("uint", "clz(v) * 0x1234567u + v", "u4"),
    "hadd": ("uint", "hadd(v, 0x7654321u) * 3u", "u4"),
    "add_sat": ("int", "add_sat(v, 77777) * 3", "i4"),
    "short sub_sat": ("short", "sub_sat(v, (short)77) * (short)3", "i2"),
    "uchar add_sat": ("uchar", "add_sat(v, (uchar)77) * (uchar)3", "u1"),
    "abs_diff": ("uint", "abs_diff(v, 0x7654321u) * 3u", "u4"),
    "int abs_diff": ("int", "(int)abs_diff(v, 0x7654321) * 3", "i4"),
    "uchar arithmetic": ("uchar", "(uchar)(v * 3 + 7) >> 1", "u1"),
    "short arithmetic": ("short", "(short)(v * 3 + 7)", "i2"),
    "half arithmetic": ("half", "v * (half)0.97h + (half)0.01h", "f2"),
    "bitselect": ("uint", "bitselect(v, 0x5555u, 0xF0F0u) * 3u + 1u", "u4"),
    "convert_uchar_sat_rte": ("float", "convert_uchar_sat_rte(v * 1.7f) * 0.9f + 1.0f", "f4"),
    "convert_short_sat": ("float", "convert_short_sat(v * 17.0f) * 0.09f + 1.0f", "f4"),
    "convert_int_rte": ("float", "convert_int_rte(v * 1.7f) * 0.5f + 1.0f", "f4"),
    "convert_long_rtz": ("float", "convert_long_rtz(v * 1.7f) * 0.5f + 1.0f", "f4"),
    "as_float": ("float", "as_float(as_int(v) ^ 0x400)", "f4"),
    "mix and clamp": ("float", "clamp(mix(v, 2.0f, 0.3f), 0.1f, 3.0f) * 1.01f", "f4"),
    "smoothstep": ("float", "smoothstep(0.0f, 2.0f, v) * 1.5f + 0.1f", "f4"),
    "sign and step": ("float", "sign(v - 1.0f) + step(0.5f, v) * 0.3f + v * 0.5f", "f4"),
    "ldexp": ("float", "ldexp(v * v + 1.0f, (int)v) * 0.5f", "f4"),
    "select": ("float", "select(v * 2.0f, v * 0.5f, (int)(v > 1.0f))", "f4"),
    "isnan": ("float", "(isnan(v) || isinf(v)) ? 0.5f : v * 0.5f + 0.1f", "f4"),
    "hash of ulong": ("ulong", "(v ^ (v >> 33)) * 0xff51afd7ed558ccdul", "u8"),
    "rounds of a digest": ("uint", "rotate(v, 6u) ^ rotate(v, 11u) ^ (rotate(v, 25u) + (v & 0x5A5A5A5Au ^ ~v & 0xA5A5A5A5u))", "u4"),
    "float4 swizzle": ("float4", "v.wzyx * 0.9f + v.xxyy * 0.1f", "f4"),
    "float4 dot and normalize": ("float4", "normalize(v + (float4)(0.1f, 0.2f, 0.3f, 0.4f)) * dot(v, v) * 0.5f", "f4"),
    "uchar16 shuffle": ("uchar16", "shuffle(v, (uchar16)(3,2,1,0, 7,6,5,4, 11,10,9,8, 15,14,13,12)) + (uchar16)1", "u1"),
}  # fmt: skip

_KERNELS = {
    "vload3 and vstore3": ("kernel void k(global float *y, global const float *x) { ID; vstore3(vload3(i, x) * 2.0f, i, y); }", "f4"),
    "vload16 of uchar": ("kernel void k(global uchar *y, global const uchar *x) { ID; vstore16(vload16(i, x) + (uchar16)3, i, y); }", "u1"),
    "vload_half4": ("kernel void k(global half *y, global const half *x) { ID; vstore_half4(vload_half4(i, x) * 0.5f, i, y); }", "f2"),
    "structure": ("""typedef struct { float3 p, v; float m; } body;
kernel void k(global body *y, global const body *x) { ID; body b = x[i]; b.p += b.v * 0.1f; b.m *= 2; y[i].p = b.p; y[i].m = b.m;
}""", "u1"),
    "cross and length": ("""kernel void k(global float4 *y, global const float4 *x) { ID; float3 v = x[i].xyz;
for (int j = 0; j < 64; ++j) v = cross(v, (float3)(1, 2, 3)) / (length(v) + 1.0f) + (float3)(0.1f); y[i].xyz = v; }""", "f4"),
    "private array": ("""kernel void k(global float *y, global const float *x) { ID; float a[16], s = 0;
for (int j = 0; j < 16; ++j) a[j] = x[i] * j;
for (int r = 0; r < 16; ++r) { int m = (int)(x[i] * 7) & 15; for (int j = 0; j < 16; ++j) s += a[(j + m) & 15] * r; } y[i] = s; }""", "f4"),
    "sort in private memory": ("""kernel void k(global int *y, global const int *x) { ID; int a[16];
for (int j = 0; j < 16; ++j) a[j] = (x[i] * 1664525 + j * 1013904223) ^ (j * 77);
for (int p = 0; p < 16; ++p) for (int j = 0; j < 15; ++j) if (a[j] > a[j + 1]) { int t = a[j]; a[j] = a[j + 1]; a[j + 1] = t;
} y[i] = a[7]; }""", "i4"),
    "switch": ("""kernel void k(global int *y, global const int *x) { ID; int v = x[i]; for (int j = 0; j < 64; ++j) switch (v & 7) {
case 0: v = v * 3 + 1; break; case 1: v ^= 0x55; break; case 2: v += 7; break; case 3: v = v >> 1; break; case 4: v = ~v; break;
case 5: v = v * 5; break; case 6: v -= 13; break; default: v += j; } y[i] = v; }""", "i4"),
    "loop of unknown length": ("""kernel void k(global int *y, global const int *x) { ID; uint v = (uint)x[i] | 1u; int n = 0;
while (v != 1u && n < 200) { v = (v & 1u) ? 3u * v + 1u : v >> 1; ++n; } y[i] = n; }""", "i4"),
    "table in constant memory": ("""constant float t[256] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
kernel void k(global float *y, global const float *x) { ID; float s = x[i]; for (int j = 0; j < 256; ++j) s = s * 0.5f + t[j];
y[i] = s; }""", "f4"),
    "constant argument": ("""kernel void k(global float *y, constant float *x) { ID; float s = 0;
for (int j = 0; j < 256; ++j) s = s * 0.5f + x[j]; y[i] = s; }""", "f4"),
    "reduction in local memory": ("""kernel __attribute__((reqd_work_group_size(256, 1, 1))) void k(global float *y,
global const float *x) {
local float t[256]; ID, l = get_local_id(0); t[l] = x[i]; for (int r = 0; r < 16; ++r) { barrier(CLK_LOCAL_MEM_FENCE);
for (int s = 128; s > 0; s >>= 1) { if (l < s) t[l] += t[l + s] * 0.5f; barrier(CLK_LOCAL_MEM_FENCE); } } y[i] = t[l]; }""", "f4"),
    "local atomics": ("""kernel void k(global int *y, global const int *x) { local int t[256]; ID, l = get_local_id(0); t[l] = 0;
barrier(CLK_LOCAL_MEM_FENCE); for (int j = 0; j < 32; ++j) atomic_add(&t[(x[i] + j * l) & 255], 1); barrier(CLK_LOCAL_MEM_FENCE);
y[i] = t[l]; }""", "i4"),
    "global atomics": ("""kernel void k(global int *y, global const int *x) { ID; for (int j = 0; j < 4;
++j) atomic_max(&y[(x[i] * 7 + j * 13) & 65535], x[i]); }""", "i4"),
    "async_work_group_copy": ("""kernel void k(global float *y, global const float *x) { local float t[256];
size_t g = get_group_id(0) * 256, l = get_local_id(0);
event_t e = async_work_group_copy(t, x + g, 256, 0); wait_group_events(1, &e); float s = t[l] + t[255 - l]; barrier(CLK_LOCAL_MEM_FENCE);
t[l] = s; barrier(CLK_LOCAL_MEM_FENCE); e = async_work_group_copy(y + g, t, 256, 0); wait_group_events(1, &e); }""", "f4"),
    "transpose in local memory": ("""kernel __attribute__((reqd_work_group_size(256, 1, 1))) void k(global float *y,
global const float *x) {
local float t[16][17]; int g = get_group_id(0), l = get_local_id(0), bx = g % 128, by = g / 128, tx = l % 16, ty = l / 16;
t[ty][tx] = x[((by * 16 + ty) * 2048 + bx * 16 + tx) & TABLE_MASK]; barrier(CLK_LOCAL_MEM_FENCE);
y[((bx * 16 + ty) * 2048 + by * 16 + tx) & TABLE_MASK] = t[tx][ty]; }""", "f4"),
    "bodies in tiles of local memory": ("""kernel void k(global float4 *y, global const float4 *x) { local float4 t[256];
ID, l = get_local_id(0); int n = get_local_size(0); float4 own = x[i], sum = 0; for (int b = 0; b < 8; ++b) { t[l] = x[b * n + l];
barrier(CLK_LOCAL_MEM_FENCE); for (int j = 0; j < n; ++j) { float4 d = t[j] - own; d.w = 0; float r = rsqrt(dot(d, d) + 0.01f);
sum += d * (r * r * r * t[j].w); } barrier(CLK_LOCAL_MEM_FENCE); } y[i] = sum; }""", "f4"),
    "scattered loads": ("""kernel void k(global float *y, global const float *x) { ID; uint v = i; float s = 0;
for (int j = 0; j < 4; ++j) { v = v * 1664525u + 1013904223u; s += x[v & TABLE_MASK]; } y[i] = s; }""", "f4"),
    "five-point stencil": ("""kernel void k(global float *y, global const float *x) {
int i = get_global_id(0), w = 2048, r = i / w, c = i % w;
if (r < 1 || c < 1 || r >= w - 1 || c >= w - 1) { y[i] = x[i]; return;
} y[i] = 0.2f * (x[i] + x[i - 1] + x[i + 1] + x[i - w] + x[i + w]); }""", "f4"),
    "pointer to a function": ("""float sum(global const float *p, int i, int n) { float s = 0; for (int j = 0; j < n;
++j) s += p[(i + j) & TABLE_MASK]; return s; }
kernel void k(global float *y, global const float *x) { int i = get_global_id(0); y[i] = sum(x, i, 64); }""", "f4"),
    "matrix product": ("""kernel void k(global float *y, global const float *x) {
int i = get_global_id(0), w = 2048, r = i / w, c = i % w; float s = 0;
for (int j = 0; j < w; ++j) s += x[r * w + j] * x[j * w + c]; y[i] = s; }""", "f4"),
    "xorshift": ("""kernel void k(global float *y, global const uint *x) { ID; uint s = x[i] | 1u; int in = 0; for (int j = 0;
j < 128; ++j) {
s ^= s << 13; s ^= s >> 17; s ^= s << 5; float a = s * 2.3283064e-10f; s ^= s << 13; s ^= s >> 17; s ^= s << 5;
float b = s * 2.3283064e-10f;
in += a * a + b * b < 1.0f; } y[i] = in / 128.0f; }""", "f4"),
    "frexp": ("""kernel void k(global float *y, global const float *x) { ID; float v = x[i];
for (int j = 0; j < 32; ++j) { int e; float m = frexp(v * 3.0f + 1.0f, &e); v = m + e * 0.1f; } y[i] = v; }""", "f4"),
    "sincos": ("""kernel void k(global float *y, global const float *x) { ID; float v = x[i];
for (int j = 0; j < 64; ++j) { float c, s = sincos(v, &c); v = s * 0.5f + c * 0.25f; } y[i] = v; }""", "f4"),
}  # fmt: skip


def measure(names: list[str], items: int) -> columns.Figures:
    """Milliseconds of each kernel, and some of its results."""
    warnings.simplefilter("ignore", cl.CompilerWarning)
    context, queue = common.open_queue()
    nbytes = max(items * MOST_NBYTES, 4 * TABLE)
    x, y = common.room(queue, nbytes), common.room(queue, nbytes)
    values = common.random(3, TABLE)
    for start in range(0, nbytes, values.nbytes):
        cl.enqueue_copy(queue, x, values[: (nbytes - start) // 4], dst_offset=start)
    found: columns.Figures = {}
    for name in names:
        source, of = forms()[name]
        cl.enqueue_fill_buffer(queue, y, np.uint32(0), 0, nbytes)
        kernel = cl.Kernel(cl.Program(context, HEAD + source).build(), "k")
        kernel.set_args(y, x)
        once = _seconds(queue, kernel, items, 2)
        result = np.empty(COMPARED, of)
        cl.enqueue_copy(queue, result, y)
        count = max(2, min(200, int(ROUND_SECONDS / once)))
        seconds = min(_seconds(queue, kernel, items, count) for _ in range(ROUNDS))
        found[name] = {"ms": seconds * 1e3, "results": result.astype(object).tolist()}
    return found


def _seconds(queue: cl.CommandQueue, kernel: cl.Kernel, items: int, count: int) -> float:
    queue.finish()
    begin = time.perf_counter()
    for _ in range(count):
        cl.enqueue_nd_range_kernel(queue, kernel, (items,), (256,))
    queue.finish()
    return (time.perf_counter() - begin) / count


def differs(one: list[float], other: list[float], of: str) -> bool:
    """Whether results tell a wrong form from another rounding."""
    if of[0] in "iu":
        return one != other
    a, b = np.array(one, float), np.array(other, float)
    return not np.allclose(a, b, 1e-3 if of != "f2" else 1e-2, 1e-5, equal_nan=True)


def main() -> int:
    parser = columns.parser(__doc__)
    known = list(forms())
    parser.add_argument("--only", type=columns.names_among(known), default=known, help="kernels by commas")
    parser.add_argument(
        "--items",
        type=common.positive,
        default=1 << 22,
        help="work-items, whole groups of 256 (default: %(default)s)",
    )
    options = parser.parse_args()
    found = columns.measured(options, lambda: measure(options.only, options.items), timeout=600)
    native, lines, bars = found.get(machine.NATIVE, {}), [], []
    for column, figures in found.items():
        if column == machine.NATIVE or "failed" in figures or "failed" in native:
            continue
        ratios = {name: native[name]["ms"] / figures[name]["ms"] for name in options.only}
        for name, ratio in sorted(ratios.items(), key=lambda item: item[1]):
            if ratio < 1 / 1.05:
                lines.append(f"{column}: {name}: {ratio:.2f} of native speed ({figures[name]['ms']:.3f} ms)")
            if differs(native[name]["results"], figures[name]["results"], forms()[name][1]):
                lines.append(f"{column}: {name}: other results than natively")
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        bars.append(
            columns.least(f"{len(ratios)} kernels on {column}, geometric mean of native speed", mean, 1.0)
        )
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
