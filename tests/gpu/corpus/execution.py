"""Work-items, barriers, local memory, copies, atomics, work-group and sub-group functions."""

# ruff: noqa: E501 - kernels are texts, and tables stay tables

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .case import COUNT, Array, Case, Local, integers, reals

CL2 = ("-cl-std=CL2.0",)
CL3 = ("-cl-std=CL3.0",)
GROUP = 32
GROUPS = 3


def cases() -> list[Case]:
    return [
        *_work_items(),
        *_local_memory(),
        *_copies(),
        *_atomics(),
        *_c11_atomics(),
        *_float_atomics(),
        *_work_groups(),
        *_sub_groups(),
    ]


def _work_items() -> list[Case]:
    functions = (
        "get_global_id", "get_local_id", "get_group_id", "get_global_size", "get_local_size", "get_num_groups", "get_global_offset",
    )  # fmt: skip
    found = []
    for dims, (global_size, local_size) in enumerate(
        [((24,), (8,)), ((8, 6), (4, 3)), ((4, 6, 4), (2, 3, 2))], 1
    ):
        count = int(np.prod(global_size))
        place = "(get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0)"
        stores = " ".join(f"r[i * 29 + {k * 4} + d] = (uint){name}(d);" for k, name in enumerate(functions))
        source = (
            f"void stored_{dims}(global uint *r, size_t i, uint d) {{ {stores} }}\n"
            f"kernel void work_items_{dims}(global uint *r) {{\n  size_t i = {place};\n"
            f"  for (uint d = 0; d < 4; ++d) stored_{dims}(r, i, d);\n  r[i * 29 + 28] = get_work_dim();\n}}\n"
        )
        out = np.zeros(29 * count, np.uint32)
        found.append(
            Case(f"work_items_{dims}", source, f"work_items_{dims}", (out,), global_size, local_size, (0,))
        )
    source = (
        "kernel void linear(global uint *r) { size_t i = get_global_linear_id();\n"
        "  r[i * 3] = i; r[i * 3 + 1] = get_local_linear_id(); r[i * 3 + 2] = get_enqueued_local_size(0); }\n"
    )
    index = np.arange(48).reshape(6, 8)
    local = (index // 8 % 3) * 4 + index % 4
    expected = np.stack([index, local, np.full_like(index, 4)], -1).astype(np.uint32).reshape(-1)
    out = np.zeros(3 * 48, np.uint32)
    found.append(
        Case("linear", source, "linear", (out,), (8, 6), (4, 3), (0,), options=CL2, expected=(expected,))
    )
    source = (
        "kernel __attribute__((reqd_work_group_size(8, 2, 1))) void required(global uint *r) {\n"
        "  r[get_global_id(1) * get_global_size(0) + get_global_id(0)] = get_local_size(0) * 100 + get_local_size(1) * 10 + get_local_size(2); }\n"
    )
    found.append(Case("required", source, "required", (np.zeros(64, np.uint32),), (16, 4), (8, 2), (0,)))
    return found


def _local_memory() -> list[Case]:
    values = integers("local", "int", COUNT)
    source = """
kernel void reversed_groups(global const int *a, global int *r, local int *t, local float4 *u) {
  local int s[16], all; size_t l = get_local_id(0), i = get_global_id(0);
  if (l == 0) all = 0; t[l] = a[i]; u[l] = (float4)(l); barrier(CLK_LOCAL_MEM_FENCE);
  s[l] = t[15 - l]; atomic_add(&all, (int)(u[l].w)); barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  r[i] = s[l ^ 1] + all; }
"""
    args = (values, np.zeros_like(values), Local(64), Local(256))
    found = [Case("reversed_groups", source, "reversed_groups", args, (COUNT,), (16,), (1,))]
    source = """
kernel void large_local(global const float *a, global float *r, local float *more) {
  local float tile[128][100], row[128]; local float4 last; size_t l = get_local_id(0), i = get_global_id(0);
  for (int k = 0; k < 100; ++k) tile[l][k] = a[i] + k; more[l] = a[i]; row[l] = 2 * a[i]; if (l == 0) last = (float4)(3);
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0; for (int k = 0; k < 100; ++k) sum += tile[127 - l][k]; r[i] = sum + more[127 - l] + row[l ^ 1] + last.y; }
"""
    numbers = integers("large_local", "int", 256, -99, 99).astype(np.float32)
    pairs = numbers.reshape(2, 128)
    swapped = pairs.reshape(2, 64, 2)[:, :, ::-1].reshape(2, 128)
    expected = (101 * pairs[:, ::-1] + 4950 + 2 * swapped + 3).astype(np.float32).reshape(-1)
    args_large = (numbers, np.zeros_like(numbers), Local(512))
    found.append(
        Case("large_local", source, "large_local", args_large, (256,), (128,), (1,), expected=(expected,))
    )
    source = """
kernel void transposed(global const float *a, global float *r, int w, int h) {
  local float t[8][9]; int x = get_group_id(0) * 8 + get_local_id(0), y = get_group_id(1) * 8 + get_local_id(1);
  t[get_local_id(1)][get_local_id(0)] = a[y * w + x]; barrier(CLK_LOCAL_MEM_FENCE);
  r[(get_group_id(0) * 8 + get_local_id(1)) * h + get_group_id(1) * 8 + get_local_id(0)] = t[get_local_id(0)][get_local_id(1)]; }
"""
    matrix = reals("transposed", "float", 24 * 16)
    args_t = (matrix, np.zeros_like(matrix), np.int32(24), np.int32(16))
    found.append(Case("transposed", source, "transposed", args_t, (24, 16), (8, 8), (1,)))
    source = """
kernel void scanned(global const int *a, global int *r) {
  local int t[2][32]; int l = get_local_id(0), from = 0; t[0][l] = a[get_global_id(0)] & 1023; barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = 1; d < 32; d *= 2) { t[1 - from][l] = t[from][l] + (l >= d ? t[from][l - d] : 0); from = 1 - from; barrier(CLK_LOCAL_MEM_FENCE); }
  r[get_global_id(0)] = t[from][l]; }
"""
    found.append(Case("scanned", source, "scanned", (values, np.zeros_like(values)), (COUNT,), (32,), (1,)))
    return found


def _copies() -> list[Case]:
    found = []
    for type_ in ("char", "short", "int", "float", "double2", "float4", "uchar16", "float3"):
        source = f"""
kernel void copied_{type_}(global const {type_} *a, global {type_} *r, local {type_} *t) {{
  size_t n = get_local_size(0), first = get_group_id(0) * 2 * n;
  event_t e = async_work_group_copy(t, a + first, 2 * n, 0); wait_group_events(1, &e);
  {type_} mine = t[2 * get_local_id(0)]; barrier(CLK_LOCAL_MEM_FENCE); t[2 * get_local_id(0)] = t[2 * get_local_id(0) + 1];
  t[2 * get_local_id(0) + 1] = mine; barrier(CLK_LOCAL_MEM_FENCE);
  e = async_work_group_copy(r + first, t, 2 * n, 0); wait_group_events(1, &e); }}
kernel void strided_{type_}(global const {type_} *a, global {type_} *r, local {type_} *t) {{
  size_t n = get_local_size(0); event_t e = async_work_group_strided_copy(t, a + get_group_id(0), n, get_num_groups(0), 0);
  wait_group_events(1, &e); prefetch(a, 1);
  event_t f = async_work_group_strided_copy(r + get_group_id(0), t, n, get_num_groups(0), 0); wait_group_events(1, &f); }}
"""
        nbytes = {"char": 1, "short": 2, "int": 4, "float": 4}.get(type_, 16)
        nbytes = 16 if type_ in ("double2", "float4", "uchar16", "float3") else nbytes
        scalar = np.dtype({1: "u1", 2: "u2"}.get(nbytes, "u4"))
        values = integers(
            f"copied{type_}",
            {1: "uchar", 2: "ushort"}.get(nbytes, "uint"),
            2 * COUNT * nbytes // scalar.itemsize,
            0,
            100,
        )
        if type_ == "float3":
            values.reshape(-1, 4)[:, 3] = 0
        for name, local in (("copied", 2 * 16), ("strided", 16)):
            out = np.zeros_like(values)
            compare = type_ != "float3"  # whether the fourth component comes along is open
            found.append(
                Case(
                    f"{name}_{type_}", source, f"{name}_{type_}", (values, out, Local(local * nbytes)), (COUNT,), (16,), (1,),
                    compare=compare, alone=True,
                )
            )  # fmt: skip
    return found


def _atomics() -> list[Case]:
    """Operations whose result does not depend on their order."""
    operations = {
        "add": "a[i]",
        "sub": "a[i]",
        "min": "a[i]",
        "max": "a[i]",
        "and": "a[i] | 15",
        "or": "a[i] & 255",
        "xor": "a[i]",
    }
    found = []
    for type_ in ("int", "uint", "long", "ulong"):
        wide = type_.endswith("long")
        prefix = "atom" if wide else "atomic"
        values = integers(f"atomics{type_}", type_, COUNT)
        steps = " ".join(
            f"{prefix}_{op}(r + {k}, {operand}); {prefix}_{op}(t + {k}, {operand});"
            for k, (op, operand) in enumerate(operations.items())
        )
        extension = "cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"
        pragma = "".join(f"#pragma OPENCL EXTENSION {name} : enable\n" for name in extension) if wide else ""
        source = (
            f"{pragma}kernel void atomics_{type_}(global const {type_} *a, volatile global {type_} *r, global {type_} *s) {{\n"
            f"  volatile local {type_} t[10]; size_t i = get_global_id(0), l = get_local_id(0);\n"
            "  if (l < 10) t[l] = l == 4 ? -1 : 0; barrier(CLK_LOCAL_MEM_FENCE);\n"
            f"  {steps} {prefix}_inc(r + 7); {prefix}_dec(t + 8); {prefix}_xchg(r + 9, ({type_})5);\n"
            f"  {prefix}_cmpxchg(r + 10, ({type_})0, ({type_})(get_group_id(0) < 9 ? 7 : 8)); barrier(CLK_LOCAL_MEM_FENCE);\n"
            "  if (l < 10) s[get_group_id(0) * 10 + l] = t[l];\n}\n"
        )
        out = np.zeros(11, values.dtype)
        out[4] = np.array(-1).astype(values.dtype)
        args = (values, out, np.zeros(40, values.dtype))
        found.append(
            Case(
                f"atomics_{type_}",
                source,
                f"atomics_{type_}",
                args,
                (COUNT,),
                (16,),
                (1, 2),
                needs=extension if wide else (),
            )
        )
    source = "kernel void exchanged(volatile global float *r, global float *s) { s[get_global_id(0)] = atomic_xchg(r + get_global_id(0), 2.5f); }\n"
    numbers = reals("exchanged", "float", COUNT)
    found.append(
        Case("exchanged", source, "exchanged", (numbers, np.zeros_like(numbers)), (COUNT,), None, (0, 1))
    )
    source = """
kernel void locked(volatile global int *lock, global int *r) {
  if (get_local_id(0) == 0) { while (atomic_cmpxchg(lock, 0, 1)) ; r[0] += get_group_id(0); mem_fence(CLK_GLOBAL_MEM_FENCE); atomic_xchg(lock, 0); } }
"""
    found.append(
        Case(
            "locked",
            source,
            "locked",
            (np.zeros(1, np.int32), np.zeros(1, np.int32)),
            (COUNT,),
            (16,),
            (0, 1),
            compare=False,
        )
    )
    return found


def _c11_atomics() -> list[Case]:
    found = []
    for type_, kind in (("int", np.int32), ("uint", np.uint32), ("long", np.int64), ("ulong", np.uint64)):
        wide = type_.endswith("long")
        source = f"""
kernel void c11_{type_}(global const {type_} *a, volatile global atomic_{type_} *r) {{
  size_t i = get_global_id(0); {type_} e = 0;
  atomic_fetch_add(r, a[i]); atomic_fetch_sub_explicit(r + 1, a[i], memory_order_relaxed, memory_scope_device);
  atomic_fetch_min(r + 2, a[i]); atomic_fetch_max_explicit(r + 3, a[i], memory_order_acq_rel, memory_scope_device);
  atomic_fetch_and(r + 4, a[i] | 15); atomic_fetch_or(r + 5, a[i] & 255); atomic_fetch_xor(r + 6, a[i]);
  if (atomic_compare_exchange_strong(r + 7, &e, ({type_})3)) atomic_fetch_add(r + 8, ({type_})1);
  if (i == 0) {{ atomic_store(r + 9, ({type_})9); atomic_init(r + 10, atomic_load(r + 9)); atomic_exchange(r + 11, ({type_})4); }}
}}
"""
        values = integers(f"c11{type_}", type_, COUNT)
        out = np.zeros(12, kind)
        out[4] = np.array(-1).astype(kind)
        expected = out.copy()
        with np.errstate(over="ignore"):
            expected[0], expected[1] = values.sum(dtype=kind), (np.zeros(1, kind) - values.sum(dtype=kind))[0]
        expected[2], expected[3] = min(values.min(), 0), max(values.max(), 0)
        expected[4] = np.bitwise_and.reduce(values | 15)
        expected[5], expected[6] = np.bitwise_or.reduce(values & 255), np.bitwise_xor.reduce(values)
        expected[7:] = [3, 1, 9, 9, 4]
        needs = ("cl_khr_int64_base_atomics",) if wide else ()
        found.append(
            Case(
                f"c11_{type_}",
                source,
                f"c11_{type_}",
                (values, out),
                (COUNT,),
                (16,),
                (1,),
                options=CL2,
                expected=(expected,),
                needs=needs,
            )
        )
    source = """
kernel void flags(volatile global atomic_flag *f, volatile global atomic_int *n) {
  if (!atomic_flag_test_and_set(f)) atomic_fetch_add(n, 1); atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device);
  if (get_global_id(0) == 0) { atomic_flag_clear(f + 1); } }
"""
    args = (np.array([0, 1], np.int32), np.zeros(1, np.int32))
    done = (np.array([1, 0], np.int32), np.ones(1, np.int32))
    found.append(Case("flags", source, "flags", args, (COUNT,), (16,), (0, 1), options=CL2, expected=done))
    return found


def _float_atomics() -> list[Case]:
    found = []
    for type_, kind in (("float", np.float32), ("double", np.float64)):
        source = f"""
kernel void atomic_{type_}s(global const {type_} *a, volatile global atomic_{type_} *r) {{
  {type_} x = a[get_global_id(0)]; atomic_fetch_add_explicit(r, x, memory_order_relaxed, memory_scope_device);
  atomic_fetch_min_explicit(r + 1, x, memory_order_relaxed, memory_scope_device);
  atomic_fetch_max_explicit(r + 2, x, memory_order_relaxed, memory_scope_device); }}
"""
        values = integers(f"atomics{type_}", "int", COUNT, -99, 99).astype(kind)
        out = np.zeros(3, kind)
        expected = np.array([values.sum(), min(values.min(), 0), max(values.max(), 0)], kind)
        found.append(
            Case(
                f"atomic_{type_}s", source, f"atomic_{type_}s", (values, out), (COUNT,), (16,), (1,), options=CL3, expected=(expected,),
                needs=("cl_ext_float_atomics",),
            )
        )  # fmt: skip
    return found


def _scans(values: Array, group: int) -> dict[str, Array]:
    """Reductions and scans of groups of so many numbers, by the function's ending."""
    kind = values.dtype
    grouped = values.reshape(-1, group)
    if kind.kind == "f":
        low, high = -np.inf, np.inf
    else:
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
    found = {}
    for name, ufunc, identity in (("add", np.add, 0), ("min", np.minimum, high), ("max", np.maximum, low)):
        inclusive = ufunc.accumulate(grouped, axis=1, dtype=kind)
        first = np.full((len(grouped), 1), identity, kind)
        found[f"reduce_{name}"] = np.repeat(inclusive[:, -1:], group, 1).reshape(-1)
        found[f"scan_inclusive_{name}"] = inclusive.reshape(-1)
        found[f"scan_exclusive_{name}"] = np.concatenate([first, inclusive[:, :-1]], 1).reshape(-1)
    return found


def _collective_cases(
    what: str,
    group: int,
    local: int,
    options: tuple[str, ...],
    needs: tuple[str, ...],
    native_errs: Mapping[str, str],
) -> list[Case]:
    found = []
    for type_, kind in (
        ("int", np.int32),
        ("uint", np.uint32),
        ("long", np.int64),
        ("ulong", np.uint64),
        ("float", np.float32),
        ("double", np.float64),
    ):
        low = 0 if type_.startswith("u") else -99
        values = integers(f"{what}{type_}", "int", GROUPS * local, low, 99).astype(kind)
        results = _scans(values, group)
        stores = " ".join(f"r[i * 9 + {k}] = {what}_{name}(a[i]);" for k, name in enumerate(results))
        source = f"kernel void {what}_{type_}(global const {type_} *a, global {type_} *r) {{ size_t i = get_global_id(0); {stores} }}\n"
        expected = np.stack(list(results.values()), 1).reshape(-1)
        args = (values, np.zeros_like(expected))
        found.append(
            Case(
                f"{what}_{type_}",
                source,
                f"{what}_{type_}",
                args,
                (len(values),),
                (local,),
                (1,),
                options=options,
                expected=(expected,),
                needs=needs,
                native_errs=native_errs.get(type_, ""),
            )
        )
    return found


#: By the comparison on an H200.
_LANES = "6.13.15: the minimum is of the work-group's values; NVIDIA's is 0 for positive ones in a work-group of 80"
_IDENTITIES = (
    "6.13.15: the identity of min is +INF, of max -INF; NVIDIA's are FLT_MAX and FLT_MIN, DBL_MAX and DBL_MIN"
)
_GROUP_ERRS = {"uint": _LANES, "ulong": _LANES, "float": _IDENTITIES, "double": _IDENTITIES}


def _work_groups() -> list[Case]:
    found = _collective_cases("work_group", 80, 80, CL2, (), _GROUP_ERRS)
    source = """
kernel void votes(global const int *a, global int *r) { size_t i = get_global_id(0);
  r[i * 4] = work_group_all(a[i] < 90); r[i * 4 + 1] = work_group_any(a[i] > 98); r[i * 4 + 2] = work_group_broadcast(a[i], 7);
  r[i * 4 + 3] = work_group_broadcast(a[i], 70); }
"""
    values = integers("votes", "int", 4 * 80, -99, 99)
    grouped = values.reshape(4, 80)
    columns = [(grouped < 90).all(1), (grouped > 98).any(1), grouped[:, 7], grouped[:, 70]]
    expected = np.repeat(np.stack(columns, 1).astype(np.int32), 80, 0).reshape(-1)
    found.append(
        Case(
            "votes",
            source,
            "votes",
            (values, np.zeros_like(expected)),
            (4 * 80,),
            (80,),
            (1,),
            options=CL2,
            expected=(expected,),
        )
    )
    source = "kernel void broadcast_2d(global const int *a, global int *r) { size_t i = get_global_id(1) * get_global_size(0) + get_global_id(0); r[i] = work_group_broadcast(a[i], 2, 1); }\n"
    square = integers("broadcast", "int", 64).reshape(8, 8)
    spread = np.repeat(np.repeat(square[1::4, 2::4], 4, 0), 4, 1).reshape(-1)
    found.append(
        Case(
            "broadcast_2d",
            source,
            "broadcast_2d",
            (square.reshape(-1), np.zeros_like(spread)),
            (8, 8),
            (4, 4),
            (1,),
            options=CL2,
            expected=(spread,),
        )
    )
    return found


def _sub_groups() -> list[Case]:
    """As warps of 32: what other devices call a sub-group may be of another size, so only the expected values count."""
    needs = ("cl_khr_subgroups", "sub-groups of 32")
    found = _collective_cases("sub_group", 32, 64, CL2, needs, {})
    source = """
kernel void sub_groups(global const int *a, global int *r) { size_t i = get_global_id(0);
  r[i * 9] = get_sub_group_size(); r[i * 9 + 1] = get_max_sub_group_size(); r[i * 9 + 2] = get_num_sub_groups();
  r[i * 9 + 3] = get_sub_group_id(); r[i * 9 + 4] = get_sub_group_local_id(); r[i * 9 + 5] = get_enqueued_num_sub_groups();
  r[i * 9 + 6] = sub_group_all(a[i] < 90); r[i * 9 + 7] = sub_group_any(a[i] > 95); r[i * 9 + 8] = sub_group_broadcast(a[i], 5);
  sub_group_barrier(CLK_LOCAL_MEM_FENCE); }
"""
    values = integers("sub_groups", "int", 96, -99, 99)
    index = np.arange(96)
    lanes = values.reshape(3, 32)
    votes = np.repeat(np.stack([(lanes < 90).all(1), (lanes > 95).any(1), lanes[:, 5]], 1), 32, 0)
    columns = np.stack(
        [np.full(96, 32), np.full(96, 32), np.full(96, 3), index // 32, index % 32, np.full(96, 3)], 1
    )
    expected = np.concatenate([columns, votes], 1).astype(np.int32).reshape(-1)
    found.append(
        Case(
            "sub_groups",
            source,
            "sub_groups",
            (values, np.zeros_like(expected)),
            (96,),
            (96,),
            (1,),
            options=CL2,
            expected=(expected,),
            needs=needs,
        )
    )
    source = """
kernel void sub_group_part(global const int *a, global int *r) { size_t i = get_global_id(0);
  r[i * 3] = get_sub_group_size(); r[i * 3 + 1] = sub_group_reduce_add(a[i]); r[i * 3 + 2] = sub_group_scan_exclusive_max(a[i]); }
"""
    values = integers("part", "int", 40, -99, 99)
    parts = [values[:32], values[32:]]
    lowest = np.int32(-(2**31))
    rows = [
        np.stack(
            [
                np.full(len(p), len(p)),
                np.full(len(p), p.sum()),
                np.concatenate([[lowest], np.maximum.accumulate(p)[:-1]]),
            ],
            1,
        )
        for p in parts
    ]
    expected = np.concatenate(rows).astype(np.int32).reshape(-1)
    found.append(
        Case(
            "sub_group_part",
            source,
            "sub_group_part",
            (values, np.zeros_like(expected)),
            (40,),
            (40,),
            (1,),
            options=CL2,
            expected=(expected,),
            needs=needs,
        )
    )
    return found
