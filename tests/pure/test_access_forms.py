"""The forms of access that the analysis must see: kernel, launch, chunk and the bytes expected."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest
import sympy
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.summaries import AccessRange, KernelSummary
from vdev.translators.ranges.grain import Grain, joined, of_store, of_unit
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

LINE = NDRange((64,), (8,), (0,))
SECOND_QUARTER = Chunk((2,), (4,))
PLANE = NDRange((16, 8), (4, 2), (0, 0))
LEFT_HALF = Chunk((0, 0), (2, 4))
LOWER_HALF = Chunk((0, 2), (4, 4))


def summary(text: str, name: str | None = None) -> KernelSummary:
    program = parse_program(text)
    return analyse_kernel(program, name or next(iter(program.kernels)))


def ranges(
    body: str,
    parameters: str = "__global float *a, __global float *b",
    *,
    ndrange: NDRange = LINE,
    chunk: Chunk = SECOND_QUARTER,
    values: Mapping[int, int | float | bytes] | None = None,
    sizes: int = 4096,
    before: str = "",
) -> dict[tuple[int, str], AccessRange]:
    """Ranges by (argument, mode) of a kernel with `body`."""
    found = summary(f"{before}\n__kernel void k({parameters}) {{ {body} }}", "k")
    assert not found.one_worker
    assert found.scalars <= set(values or {})
    result = found.evaluate(ndrange, chunk, values or {}, dict.fromkeys(range(8), sizes))
    return {(r.arg, r.mode): r for r in result}


def check(found: AccessRange, *runs: tuple[int, int], exact: bool = True) -> None:
    assert found.region == Region.from_runs(runs)
    assert found.exact is exact
    assert exact or found.reason


def test_subscript_of_global_id() -> None:
    found = ranges("int i = get_global_id(0); a[i] = b[i + 1];")
    check(found[0, "write"], (64, 128))
    check(found[1, "read"], (68, 132))


@pytest.mark.parametrize(
    ("parameters", "store"),
    [
        ("__global int *a, __global int d[4]", "d[i] = a[i];"),
        ("__global int *a, __global int d[restrict]", "(d)[i] = a[i];"),
        ("__global int a[], __global int d[8]", "*(i + d) = a[i];"),
        ("__global int a[2], __global int d[][1]", "d[i][0] = a[i];"),
        ("__global int *a, __global int d[4]", "d += i; d++; d[-1] = a[i];"),
        ("__global int *a, __global int d[4]", "put(a, d, i);"),
        ("__global int *a, __global int *d", "int t[2] = {1, 5}; halve(t); d[i + t[1] - 2] = a[i];"),
    ],
)
def test_parameters_that_are_written_as_arrays_are_pointers(parameters: str, store: str) -> None:
    helpers = (
        "void put(__global int *from, __global int to[3], int i) { to[i] = from[i]; }\n"
        "void halve(int t[2]) { t[1] >>= 1; }"
    )
    found = ranges(f"int i = get_global_id(0); a[i] = 9; {store}", parameters, before=helpers)
    assert set(found) == {(0, "write"), (0, "read"), (1, "write")}
    check(found[1, "write"], (64, 128))


@pytest.mark.parametrize(
    "declared", ["__typeof__(d) q = d;", "__auto_type q = d;", "__typeof__(d) q; q = d;"]
)
def test_what_has_the_type_of_such_a_parameter_is_not_lost(declared: str) -> None:
    text = "kernel void k(global int *a, global int d[4])"
    found = summary(f"{text} {{ int i = get_global_id(0); {declared} a[i] = 9; q[i] = a[i]; }}")
    written = {
        r.arg for r in found.evaluate(LINE, SECOND_QUARTER, {}, {0: 4096, 1: 4096}) if r.mode == "write"
    }
    assert found.one_worker or written == {0, 1}


def test_global_offset_and_partial_group() -> None:
    found = ranges("a[get_global_id(0)] = 1;", ndrange=NDRange((30,), (8,), (5,)), chunk=Chunk((2,), (4,)))
    check(found[0, "write"], ((16 + 5) * 4, (30 + 5) * 4))


def test_local_size_of_a_partial_group() -> None:
    """It is how many work-items the group really has."""
    body = "a[get_local_size(0) * 10] = 1;"
    line = ranges(body, ndrange=NDRange((30,), (8,), (0,)), chunk=Chunk((2,), (4,)))
    check(line[0, "write"], (240, 244), (320, 324))
    corner = ranges(
        "a[get_local_size(1) * 4 + get_local_size(0)] = 1;",
        ndrange=NDRange((5, 3), (4, 2), (0, 0)),
        chunk=Chunk((0, 0), (2, 2)),
    )
    check(corner[0, "write"], (20, 24), (32, 36), (36, 40), (48, 52))


def test_enqueued_local_size_of_a_partial_group() -> None:
    """It is how many work-items the group was to have."""
    text = "__kernel void k(__global int *a) { a[get_enqueued_local_size(0) * 10 + get_local_id(0)] = 1; }"
    found = analyse_kernel(parse_program(text, ("-cl-std=CL3.0",)), "k")
    for chunk, stop in ((Chunk((2,), (4,)), 352), (Chunk((3,), (4,)), 344)):
        (written,) = found.evaluate(NDRange((30,), (8,), (0,)), chunk, {}, {0: 4096})
        check(written, (320, stop))


@pytest.mark.parametrize(
    "body",
    [
        "if (i < n) a[i] = 1;",
        "if (i >= n) return; a[i] = 1;",
        "if (!(i < n && i >= 0)) return; a[i] = 1;",
        "if (0 <= i) { if (n > i) a[i] = 1; }",
        "a += i; if (i < n) *a = 1;",
        "__global float *p = &a[i]; if (i < n) p[0] = 1;",
        "switch (i < n) { case 1: a[i] = 1; break; default: break; }",
        "if (i < n) { if (b[i] > 0) a[i] = 1; else a[i] = 2; }",
        "if (i >= n) return; if (b[i] > 0) { a[i] = 1; return; } a[i] = 2;",
        "put(a, i, n);",
        "if (__builtin_expect(i < n, 1)) a[i] = 1;",
        "if (__builtin_expect(!!(i >= n), 0)) return; a[i] = 1;",
    ],
)
def test_guards_clip(body: str) -> None:
    before = "void put(__global float *p, int i, int n) { if (i >= n) return; p[i] = 1; }"
    found = ranges(
        f"int i = get_global_id(0); {body}",
        "__global float *a, __global float *b, int n",
        values={2: 25},
        before=before,
    )
    check(found[0, "write"], (64, 100))


@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = get_global_id(0); i < n; i += get_global_size(0)) a[i] = 1;",
        "for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) a[i] = 1;",
        "int i = get_global_id(0); while (i < n) { a[i] = 1; i += get_global_size(0); }",
        "int i = get_global_id(0); while (1) { if (i >= n) break; a[i] = 1; i += get_global_size(0); }",
        "int i = get_global_id(0); do { a[i] = 1; i += get_global_size(0); } while (i < n);",
        "__global float *p = a + get_global_id(0); for (; p < a + n; p += get_global_size(0)) *p = 1;",
    ],
)
def test_grid_stride_loops_are_block_cyclic(loop: str) -> None:
    found = ranges(loop, "__global float *a, int n", values={1: 150})
    check(found[0, "write"], (64, 128), (320, 384), (576, 600))


def test_elementwise_kernel_with_continue() -> None:
    found = ranges(
        """int lid = get_local_id(0); int gsize = get_global_size(0);
        int work_group_start = get_local_size(0)*get_group_id(0); long i;
        for (i = work_group_start + lid; i < n; i += gsize) { if (i == 70) continue; a[i] = b[i]; }""",
        "__global float *a, __global float *b, long n",
        values={2: 100},
    )
    check(found[0, "write"], (64, 128), (320, 384))
    assert ranges(
        "for (long i = get_global_id(0); i < n; i += 64) { if (i == 80) continue; a[i] = 1; }",
        "__global float *a, long n",
        values={1: 100},
    )[0, "write"].region == Region.from_runs([(64, 128), (320, 320), (324, 384)])


def test_one_result_per_group() -> None:
    check(ranges("if (get_local_id(0) == 0) a[get_group_id(0)] = 1;")[0, "write"], (8, 16))


def test_matrix_product() -> None:
    text = """int x = get_global_id(0), y = get_global_id(1); float s = 0;
    for (int k = 0; k < w; k++) s += a[y * w + k] * b[k * v + x]; c[y * v + x] = s;"""
    parameters = "__global float *a, __global float *b, __global float *c, int w, int v"
    values = {3: 6, 4: 16}
    rows = ranges(text, parameters, ndrange=PLANE, chunk=LOWER_HALF, values=values)
    check(rows[0, "read"], (4 * 6 * 4, 8 * 6 * 4))
    check(rows[1, "read"], (0, 6 * 16 * 4))
    check(rows[2, "write"], (4 * 16 * 4, 8 * 16 * 4))
    columns = ranges(text, parameters, ndrange=PLANE, chunk=LEFT_HALF, values=values)
    check(columns[1, "read"], *((k * 64, k * 64 + 32) for k in range(6)))
    check(columns[2, "write"], *((y * 64, y * 64 + 32) for y in range(8)))


def test_transpose_writes_a_block_of_columns() -> None:
    found = ranges(
        "int x = get_global_id(0), y = get_global_id(1); if (x < w && y < h) a[x * h + y] = b[y * w + x];",
        "__global float *a, __global float *b, int w, int h",
        ndrange=PLANE,
        chunk=LOWER_HALF,
        values={2: 15, 3: 7},
    )
    check(found[0, "write"], *((x * 28 + 16, x * 28 + 28) for x in range(15)))
    check(found[1, "read"], (4 * 15 * 4, 7 * 15 * 4))


def test_stencil_with_clamped_neighbours() -> None:
    found = ranges(
        "int i = get_global_id(0); a[i] = b[max(i - 1, 0)] + b[min(i + 1, n - 1)] + b[clamp(i, 0, n - 1)];",
        "__global float *a, __global float *b, int n",
        values={2: 20},
    )
    check(found[1, "read"], (60, 124))
    check(found[0, "write"], (64, 128))


def test_triangle() -> None:
    found = ranges(
        "int i = get_global_id(0); for (int j = 0; j <= i; j++) a[i * 8 + j] = 1;",
        ndrange=NDRange((8,), (2,), (0,)),
        chunk=Chunk((1,), (3,)),
    )
    check(found[0, "write"], *((i * 32, i * 32 + 4 * i + 4) for i in range(2, 6)))


def test_quotient_and_remainder() -> None:
    found = ranges(
        "int i = get_global_id(0); int x = i % w, y = i / w; a[y * w + x] = b[x * 4 + y];",
        "__global float *a, __global float *b, int w",
        values={2: 8},
    )
    check(found[0, "write"], (64, 128))
    check(found[1, "read"], *((x * 16 + 8, x * 16 + 16) for x in range(8)))


def test_unsigned_wrap_around_is_undone() -> None:
    check(ranges("size_t i = get_global_id(0) - 20; a[i + 20] = 1;")[0, "write"], (64, 128))


@pytest.mark.parametrize(
    ("text", "parameters", "nbytes"),
    [
        ("v[i] = (float4)(0);", "__global float4 *v", 16),
        ("vstore4((float4)(0), i, v);", "__global float *v", 16),
        ("vstore3((float3)(0), i, v);", "__global float *v", 12),
        ("vstore_half4((float4)(0), i, v);", "__global half *v", 8),
        ("v[i].s[1] = 1; v[i].s[0] = 1; v[i].t = (uchar8)(0);", "__global struct pair *v", 16),
        (
            "struct pair p; p.s[0] = i; p.s[1] = 2; p.t = (uchar8)(i); v[i] = p;",
            "__global struct pair *v",
            16,
        ),
        ("*(__global double*)(v + 2 * i) = 1;", "__global float *v", 8),
        (
            "__global int (*rows)[3] = (__global int (*)[3])v; for (int j = 0; j < 3; j++) rows[i][j] = 1;",
            "__global int *v",
            12,
        ),
        ("v[i].lo = (float2)(0); v[i].zw = (float2)(0);", "__global float4 *v", 16),
    ],
)
def test_element_types(text: str, parameters: str, nbytes: int) -> None:
    before = "struct pair { int s[2]; uchar8 t; };"
    found = ranges(f"int i = get_global_id(0); {text}", parameters, before=before)
    check(found[0, "write"], (16 * nbytes, 32 * nbytes))


def test_padding_of_three_component_vectors_may_be_written() -> None:
    check(
        ranges("a[get_global_id(0)] = (float3)(0);", "__global float3 *a")[0, "write"],
        (256, 512),
        exact=False,
    )


def test_pointer_walks_through_rows() -> None:
    found = ranges(
        """__global float *p = a + get_global_id(0) * 12;
        for (int y = 0; y < 2; y++) { for (int x = 0; x < n; x++) *p++ = 1; p += 6 - n; }""",
        "__global float *a, int n",
        ndrange=NDRange((4,), (1,), (0,)),
        chunk=Chunk((1,), (2,)),
        values={1: 4},
    )
    check(found[0, "write"], (48, 64), (72, 88))


def test_choice_between_pointers() -> None:
    text = "__global float *p = (turn & 1) ? a : b; p[get_global_id(0)] = 1;"
    parameters = "__global float *a, __global float *b, int turn"
    assert set(ranges(text, parameters, values={2: 3})) == {(0, "write")}
    assert set(ranges(text, parameters, values={2: 4})) == {(1, "write")}
    unknown = "__global float *p = a[0] > 0 ? a : b; p[get_global_id(0)] = 1;"
    found = ranges(unknown)
    check(found[0, "write"], (64, 128), exact=False)
    check(found[1, "write"], (64, 128), exact=False)


def test_pointers_in_private_arrays() -> None:
    text = "__global float *ps[2] = {a, b}; ps[c[0]][get_global_id(0)] = 1;"
    found = ranges(text, "__global float *a, __global float *b, __global int *c")
    assert {(0, "write"), (1, "write")} <= set(found)
    assert (2, "write") not in found


def test_pointers_swapped_in_a_loop() -> None:
    found = ranges(
        """__global float *from = a, *to = b;
        for (int s = 0; s < n; s++) { to[s] = from[s]; __global float *t = from; from = to; to = t; }""",
        "__global float *a, __global float *b, int n",
        values={2: 5},
    )
    for arg in (0, 1):
        for mode in ("read", "write"):
            assert found[arg, mode].region.contains(Region.span(0, 20))
            assert not found[arg, mode].exact


def test_index_loaded_from_memory() -> None:
    found = ranges(
        "int i = get_global_id(0); a[c[i]] = b[c[i]];",
        "__global float *a, __global float *b, __global int *c",
        sizes=1000,
    )
    check(found[0, "write"], (0, 1000), exact=False)
    assert found[1, "read"].region == Region.span(0, 1000)
    check(found[2, "read"], (64, 128))
    assert found[0, "write"].line == 2


@pytest.mark.parametrize(
    ("index", "parameters", "stop"),
    [
        ("c[i] & 15", "__global float *a, __global int *c", 16),
        ("c[i]", "__global float *a, __global uchar *c", 256),
        ("c[i] % 10", "__global float *a, __global uint *c", 10),
        ("min(c[i], 20u)", "__global float *a, __global uint *c", 21),
    ],
)
def test_partly_known_index(index: str, parameters: str, stop: int) -> None:
    found = ranges(
        f"int i = get_global_id(0); a[i * 256 + ({index})] = 1;",
        parameters,
        chunk=Chunk((0,), (1,)),
        sizes=1 << 20,
    )
    region = found[0, "write"].region
    assert not found[0, "write"].exact
    assert region == Region.boxes(0, stop * 4, ((1024, 8),))


def test_sparse_rows_have_loaded_bounds() -> None:
    found = ranges(
        "int i = get_global_id(0); float s = 0; for (int j = c[i]; j < c[i + 1]; j++) s += b[j]; a[i] = s;",
        "__global float *a, __global float *b, __global int *c",
    )
    check(found[0, "write"], (64, 128))
    assert found[1, "read"].region == Region.span(0, 4096)
    check(found[2, "read"], (64, 132))


def test_histogram_commutes() -> None:
    found = ranges("atomic_inc(&a[c[get_global_id(0)]]);", "__global uint *a, __global uchar *c")
    access = found[0, "atomic"]
    assert (access.op, access.dtype, access.region) == ("add", "uint32", Region.span(0, 1024))


@pytest.mark.parametrize(
    ("statement", "op"),
    [
        ("atomic_sub(&a[0], 2)", "add"),
        ("atomic_max(&a[0], 2)", "max"),
        ("atomic_xor(&a[0], 2)", "xor"),
        ("atomic_xchg(&a[0], 2)", None),
        ("int old = atomic_add(&a[0], 2)", None),
        ("a[1] = atomic_inc(&a[0])", None),
        ("while (atomic_cmpxchg(&a[0], 0, 1) != 0) ;", None),
    ],
)
def test_atomics(statement: str, op: str | None) -> None:
    access = ranges(f"{statement};", "__global int *a")[0, "atomic"]
    assert access.op == op
    assert (access.reason is None) == (op is not None)
    assert access.region == Region.span(0, 4)


def test_volatile_accesses_are_not_mergeable() -> None:
    access = ranges("a[get_global_id(0)] = 1;", "volatile __global int *a")[0, "atomic"]
    assert access.op is None
    assert access.reason == "a volatile access"


def test_reduction_kernel_of_pyopencl() -> None:
    found = ranges(
        """uint lid = get_local_id(0); const long base = get_group_id(0) * 8 * seq + lid;
        long i = start + base * step;
        float acc = 0;
        for (unsigned s = 0; s < seq; ++s) { if (i >= stop) break; acc += b[i]; i += 8 * step; }
        __local float l[8]; l[lid] = acc; barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < 4) l[lid] += l[lid + 4]; if (lid == 0) a[get_group_id(0)] = l[0];""",
        "__global float *a, __global float *b, long start, long step, long stop, uint seq",
        values={2: 0, 3: 1, 4: 52, 5: 2},
    )
    check(found[0, "write"], (8, 16))
    check(found[1, "read"], (2 * 16 * 4, 52 * 4))


def test_scan_intervals_are_disjoint() -> None:
    text = """const int begin = size * get_group_id(0); const int end = min(begin + size, n); int at = begin;
    for (; at + 16 <= end; at += 16) for (int k = 0; k < 2; k++) a[at + k * 8 + get_local_id(0)] = 1;
    if (at < end) for (int k = 0; k < 2; k++) {
        int o = k * 8 + get_local_id(0); if (at + o < end) a[at + o] = 2; }
    if (get_local_id(0) == 0) b[get_group_id(0)] = a[end - 1];"""
    parameters = "__global float *a, __global float *b, int n, int size"
    first = ranges(text, parameters, chunk=Chunk((0,), (4,)), values={2: 300, 3: 40})
    second = ranges(text, parameters, chunk=Chunk((4,), (8,)), values={2: 300, 3: 40})
    check(first[0, "write"], (0, 640))
    check(second[0, "write"], (640, 1200))
    check(second[1, "write"], (16, 32))


def test_unknown_conditions_are_may_writes() -> None:
    for body in (
        "if (b[i] > 0) a[i] = 1;",
        "if (b[i] > 0) return; a[i] = 1;",
        "for (int j = 0; j < 4; j++) { if (b[j] > 0) break; a[i] = 1; }",
        "while (b[i] > 0) a[i] = 1;",
    ):
        check(ranges(f"int i = get_global_id(0); {body}")[0, "write"], (64, 128), exact=False)


def test_async_copy_by_the_group() -> None:
    found = ranges(
        """__local float l[8]; event_t e = async_work_group_copy(l, b + get_group_id(0) * 8, 8, 0);
        e = async_work_group_strided_copy(a + get_group_id(0) * 16, l, 8, 2, e); wait_group_events(1, &e);"""
    )
    check(found[1, "read"], (64, 128))
    check(found[0, "write"], *((128 + 8 * k, 132 + 8 * k) for k in range(16)))


def test_struct_and_vector_arguments_are_read_from_their_bytes() -> None:
    found = ranges(
        "a[get_global_id(0) * size.y + m.first] = 1;",
        "__global float *a, int2 size, struct m m",
        before="struct m { char c; int first; };",
        values={1: bytes([9, 0, 0, 0, 2, 0, 0, 0]), 2: bytes([7, 0, 0, 0, 1, 0, 0, 0])},
    )
    check(found[0, "write"], *((4 + 8 * i, 8 + 8 * i) for i in range(16, 32)))


@pytest.mark.parametrize(
    "body",
    [
        "int (^add)(int) = ^(int x) { return x + n; }; a[i] = add(i);",
        "void (^store)(int) = ^(int x) { a[x] = 1; }; store(i);",
        "a[i] = ^{ return n; }();",
    ],
)
def test_a_kernel_with_a_block_runs_on_one_worker(body: str) -> None:
    """A block (OpenCL C 2.0, 6.12) has parts of which libclang cannot be asked the type: that ends the process."""
    script = f"""
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
text = "kernel void k(global int *a, int n) {{ int i = get_global_id(0); {body} }}"
found = analyse_kernel(parse_program(text, ["-cl-std=CL2.0"]), "k")
print([(reason.text, reason.line) for reason in found.one_worker])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[('a block is not followed', 1)]\n"), done.stderr


def test_constructs_that_are_not_followed_run_on_one_worker() -> None:
    found = summary(
        "__kernel void k(__global int *a) { int i = 0; again: a[i] = 1; if (++i < 4) goto again; }"
    )
    assert [reason.line for reason in found.one_worker] == [1]
    result = found.evaluate(LINE, SECOND_QUARTER, {}, {0: 100})
    assert {(r.mode, r.exact, r.region.nbytes) for r in result} == {
        ("read", False, 100),
        ("write", False, 100),
    }


def test_program_scope_constants_bound_an_index() -> None:
    found = ranges(
        "int i = get_global_id(0); a[i] = b[i + table[i & 3]];",
        before="__constant int table[4] = {-2, 3, 1, 0};",
        chunk=Chunk((1,), (2,)),
    )
    assert found[1, "read"].region == Region.span(6 * 4, 19 * 4)


@pytest.mark.parametrize(
    "index",
    ["(i + t[i & 3] + n) % n", "i + t[i & 3] & n - 1", "i + t[i & 3] & 63", "(uint)(i + t[i & 3] + n) % n"],
)
@pytest.mark.parametrize("quarter", range(4))
def test_distances_out_of_a_table_lead_round_a_closed_space(index: str, quarter: int) -> None:
    """As neighbours on a torus are found: at the ends of the space, too, no more is read than the ends."""
    found = summary(
        "constant int t[4] = {-2, 3, 1, 0};"
        f"kernel void k(global float *a, global const float *b, int n) {{ int i = get_global_id(0); a[i] = b[{index}]; }}"
    ).evaluate(LINE, Chunk((2 * quarter,), (2 * quarter + 2,)), {2: 64}, {0: 256, 1: 256})
    (read,) = [each.region for each in found if each.mode == "read"]
    numbers = {i % 64 for i in range(16 * quarter - 2, 16 * quarter + 16 + 3)}
    assert read == Region.spans((4 * number, 4 * number + 4) for number in numbers)


def test_what_leads_round_a_space_often_may_be_anywhere() -> None:
    found = ranges("a[get_global_id(0)] = b[(get_global_id(0) + table[b[0] > 1] + 999) % 99];",
        before="constant int table[2] = {0, 400};", chunk=Chunk((1,), (2,)))  # fmt: skip
    assert found[1, "read"].region == Region.span(0, 99 * 4)


@pytest.mark.parametrize(
    ("declared", "index", "lowest", "highest"),
    [
        ("int t[4] = {-2, 3, 1, 0};", "t[j]", -2, 3),
        ("int t[4]; t[0] = 1; t[1] = -1; t[2] = 2; t[3] = 1;", "t[j]", -1, 2),
        ("int t[4] = {9, 3, 1, 0}; t[0] = 2;", "t[j]", 0, 3),
        ("int t[4] = {-9, 3, 9, 1};", "t[1 + 2 * (j & 1)]", 1, 3),
        ("int t[4][2] = {{9, 1}, {9, 2}, {9, -1}, {9, 1}};", "t[j][1]", -1, 2),
        ("int2 t[4] = {(int2)(9, 1), (int2)(9, 2), (int2)(9, -1), (int2)(9, 1)};", "t[j].y", -1, 2),
        ("struct { int far, near; } t[2] = {{9, -2}, {9, 3}};", "t[j & 1].near", -2, 3),
        ("char t[4] = {-2, 3, 1, 0};", "t[j]", -2, 3),
        ("int t[4] = {-2, 3, 1, 0}; int *p = t + 1; ", "p[j & 1]", 1, 3),
    ],
)
def test_tables_in_private_memory_bound_an_index(
    declared: str, index: str, lowest: int, highest: int
) -> None:
    body = f"int i = get_global_id(0), j = i & 3; {declared} a[i] = b[i + {index}];"
    found = ranges(body, chunk=Chunk((1,), (2,)))
    assert found[1, "read"].region == Region.span((8 + lowest) * 4, (16 + highest) * 4)


@pytest.mark.parametrize(
    "declared",
    [
        "int t[4] = {0, 1, 0, 1}; t[j] = i;",
        "int t[4]; t[0] = 0; t[1] = 1; t[2] = 0;",
        "int t[4] = {0, 1, 0, 1}; if (b[i]) t[2] = b[0];",
        "int t[4] = {0, 1, 0, 1}; int *p = t; p[j] = b[0];",
        "int t[4] = {0, 1, 0, 1}; ((char *)t)[5] = 7;",
        "int t[4] = {0, 1, 0, 1}; for (int k = 0; k < 3; ++k) t[k] = b[k];",
        "union { int t[4]; short s[8]; } u = {{0, 1, 0, 1}}; u.s[3] = 5; int *t = u.t;",
        "int t[4] = {0, 1, 0, 1}; *(j ? t + 1 : &i) = b[0];",
    ],
)
def test_tables_of_which_not_all_is_known_do_not(declared: str) -> None:
    body = f"int i = get_global_id(0), j = i & 3; {declared} a[get_global_id(0)] = b[t[j]];"
    found = ranges(body, chunk=Chunk((1,), (2,)))
    assert found[1, "read"].region == Region.span(0, 4096)


def test_expression_is_sympy_with_arguments_as_symbols() -> None:
    (access,) = summary(
        "__kernel void k(__global float *a, long w) { a[get_global_id(1) * w + get_global_id(0)] = 1; }"
    ).accesses
    w, x, y = (
        sympy.Symbol(n, integer=True, nonnegative=p) for n, p in (("w", None), ("gid0", True), ("gid1", True))
    )
    assert sympy.expand(access.expression - 4 * (y * w + x)) == 0
    assert str(access).startswith("write 4 bytes of a at ")
    assert access.line == 1


def test_overloaded_functions_are_told_apart() -> None:
    before = """void __attribute__((overloadable)) put(__global float *p, int i) { p[i] = 1; }
    void __attribute__((overloadable)) put(__global float *p, float i) { p[0] = i; }"""
    found = ranges("put(a, (int)get_global_id(0)); put(b, 1.0f);", before=before)
    check(found[0, "write"], (64, 128))
    check(found[1, "write"], (0, 4))


def test_unknown_functions_may_do_anything_behind_pointers() -> None:
    found = ranges("float s, c; s = sincos(b[0], a + get_global_id(0)); s = fract(s, &c); a[0] = c;")
    check(found[0, "write"], (0, 4), (64, 128))
    assert (0, "read") not in found


def test_deep_expressions_and_many_statements() -> None:
    terms = " + ".join(f"b[i + {k}]" for k in range(500))
    found = ranges(f"int i = get_global_id(0); a[i] = {terms};")
    check(found[1, "read"], (64, 128 + 499 * 4))
    lines = "".join(f"if (i > {k % 40}) a[i + {k}] += b[i * {k}];" for k in range(400))
    assert (0, "write") in ranges(f"int i = get_global_id(0); {lines}")


def test_loops_nested_deeply_end_in_time() -> None:
    body = "a[" + " + ".join(f"i{k}" for k in range(12)) + "] = 1;"
    for k in reversed(range(12)):
        body = f"for (int i{k} = 0; i{k} < {'n' if k == 0 else f'i{k - 1} + 2'}; i{k}++) {{ {body} }}"
    found = ranges(body, "__global float *a, int n", values={1: 3})
    assert found[0, "write"].region.contains(Region.span(0, 4))


def test_images_are_listed_and_left_alone() -> None:
    found = summary("__kernel void k(__global int *a, read_only image2d_t m) { a[0] = get_image_width(m); }")
    assert found.images == (1,)
    assert {a.arg for a in found.accesses} == {0}


def test_lines_are_the_users() -> None:
    found = summary(
        "#define PUT(i) a[i] = 1\n\n__kernel void k(__global int *a, __global int *b)\n{\n  PUT(b[0]);\n}\n"
    )
    assert {access.line for access in found.accesses} == {5}


# what a store changes together, and what messages say ------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "store", "unit"),
    [
        ("__global int *a", "a[b[i]] = i", 4),
        ("__global uchar *a", "a[b[i]] = i", 1),
        ("__global double *a", "a[2 * b[i] + 1] = i", 8),
        ("__global float4 *a", "a[b[i]] = (float4)(i)", 16),
        ("__global float *a", "vstore4((float4)(i), b[i], a)", 16),
        ("__global float *a", "vstore4((float4)(i), 0, a + b[i])", 4),
        ("__global float *a", "vstore3((float3)(i), b[i], a)", of_unit(12)),
        ("__global float16 *a", "a[b[i]] = (float16)(i)", 64),
        ("__global float3 *a", "a[b[i]] = (float3)(i)", of_store(16, 0, 12)),
        ("__global half *a", "vstore_half(1.0f, b[i], a)", 2),
        ("__global struct whole *a", "struct whole s = {i, i, i}; a[b[i]] = s", of_unit(12)),
        (
            "__global struct whole *a",
            "struct whole s; s.hit = s.key = i; s.value = 1; a[b[i]] = s",
            of_unit(12),
        ),
        (
            "__global struct whole *a",
            "struct whole s; s.hit = i; a[b[i]] = s",
            of_store(12, 0, 4) | of_store(12, 8, 1),
        ),
        (
            "__global struct whole *a",
            "a[b[i]].hit = 1; a[b[i]].key = i",
            of_store(12, 0, 4) | of_store(12, 8, 1),
        ),
        ("__global struct packed *a", "a[b[i]].key = i", of_store(5, 1, 4)),
        ("__global struct packed *a", "((__global char *)a)[b[i]] = i; a[b[i]].key = i", 1),
        ("__global int *a", "a[b[i]] = i; if (b[i] > 7) ((__global short *)a)[b[i]] = i", 2),
        ("__global uchar *a", "*(__global int *)(a + b[i]) = i", 1),
        ("__global int *a", "__global int *p = i > 3 ? a + b[i] : a + 2; *p = i", 4),
    ],
)
def test_the_unit_of_a_write_is_what_every_store_covers(
    parameters: str, store: str, unit: int | Grain
) -> None:
    structs = """
    struct whole { int key; float value; uchar hit; };
    struct __attribute__((packed)) packed { uchar tag; int key; };
    """
    parameters += ", __global const int *b"
    found = ranges(f"int i = get_global_id(0); {store};", parameters, before=structs)
    expected = unit if isinstance(unit, Grain) else of_unit(unit)
    assert joined(grain for _, grain in found[0, "write"].grains) == expected


@pytest.mark.parametrize(
    ("kind", "store", "exact"),
    [
        ("padded", "struct padded p; p.a = i; p.b = i; a[i] = p", False),
        ("padded", "struct padded p = {i, 2}; a[i] = p", False),
        ("padded", "a[i] = a[i + 64]", False),
        ("padded", "a[i].a = i; a[i].b = 1", True),
        ("outer", "struct outer p; p.in.a = p.in.b = p.c = i; a[i] = p", False),
        ("either", "union either p; p.c = 1; a[i] = p", False),
        ("either", "a[i].l = 1", True),
        ("same", "a[i] = a[i + 64]", True),
        ("full", "struct full p; p.a = i; p.b = 1.0f; a[i] = p", True),
        ("full", "struct full p; p.a = i; a[i] = p", False),
        ("full", "struct full p; p.b = 1; if (n) p.a = i; a[i] = p", False),
        ("full", "struct full p; p.b = 1; if (n) p.a = i; else p.a = 1; a[i] = p", True),
        ("full", "struct full p = a[i + 64]; for (int k = 0; k < n; k++) p.a += k; a[i] = p", True),
        ("wide", "a[i].v = (char3)(1)", False),
    ],
)
def test_padding_and_unset_members_are_at_most_may_writes(kind: str, store: str, exact: bool) -> None:
    structs = """
    struct padded { int a; char b; };
    struct outer { char c; struct padded in; };
    union either { long l; char c; };
    union same { int i; float f; char s[4]; };
    struct full { int a; float b; };
    struct wide { char3 v; };
    """
    keyword = "union" if kind in ("either", "same") else "struct"
    parameters = f"__global {keyword} {kind} *a, int n"
    found = ranges(f"int i = get_global_id(0); {store};", parameters, before=structs)
    assert found[0, "write"].exact == exact
    if not exact:
        size = {"padded": 8, "outer": 12, "either": 8, "full": 8, "wide": 4}[kind]
        assert found[0, "write"].region == Region.span(size * 16, size * 32), "with all its padding"


@pytest.mark.parametrize(
    ("store", "start", "stop"),
    [("a[i].b = 1", 1, 4), ("a[i].d = 1", 1, 4), ("a[i].e = 1", 8, 12), ("a[i].f = 1", 12, 16)],
)
def test_a_bit_field_is_stored_with_those_beside_it(store: str, start: int, stop: int) -> None:
    before = """#pragma OPENCL EXTENSION __cl_clang_bitfields : enable
    struct bits { uchar c; uint b : 8; uint d : 12; uint x; uint e : 3; float f; };
    """
    found = ranges(
        f"int i = get_global_id(0); if (i == 20) {store};", "__global struct bits *a", before=before
    )
    write = found[0, "write"]
    assert write.region == Region.span(320 + start, 320 + stop)
    assert write.exact == store.startswith("a[i].f")


@pytest.mark.parametrize("index", ["v.a = i", "v.a", "v.a += i", "++v.a", "v.a++"])
def test_a_bit_field_keeps_some_of_the_bits(index: str) -> None:
    """What an assignment to it gives is what it keeps (C99 6.5.16p3)."""
    before = """#pragma OPENCL EXTENSION __cl_clang_bitfields : enable
    struct bits { uint a : 2; uint b : 30; };
    """
    found = ranges(
        f"uint i = get_global_id(0); struct bits v; v.a = i; a[{index}] = 1;",
        "__global int *a",
        before=before,
    )
    assert not found[0, "write"].exact


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("a[(int)b[i]] = 1;", "an index that depends on a floating-point value"),
        ("a[n[i]] = 1;", "an index that depends on a value loaded from memory"),
        ("if (n[i]) a[i & 3] = 1;", "a condition on a value loaded from memory"),
        ("if (b[i] > 0.5f) a[i] = 1;", "a condition on a floating-point value"),
        ("int k = i; while (k != 1) k = k & 1 ? 3 * k + 1 : k / 2; a[k] = 1;", "by varying steps"),
        ("for (int k = 0; k < 4; k++) { if (n[k] == i) break; a[k] = 1; }", "a value loaded from memory"),
        ("for (int k = 0; k < 4; k++) { a[k] = 1; if (n[k] == i) break; }", "how long a loop runs"),
    ],
)
def test_reasons_say_where_what_is_not_known_comes_from(body: str, reason: str) -> None:
    found = ranges(
        f"int i = get_global_id(0);\n{body}",
        "__global float *a, __global const float *b, __global const int *n",
    )
    write = found[0, "write"]
    assert not write.exact
    assert reason in str(write.reason)
    assert (write.line, write.name) == (3, "a")


def test_builtins_behind_infinity_and_nan_have_no_type_to_ask_about() -> None:
    found = ranges("a[get_global_id(0)] = -INFINITY + NAN + HUGE_VALF;")
    check(found[0, "write"], (64, 128))


def test_c11_atomics_whose_result_is_not_used_commute() -> None:
    text = """__kernel void k(__global atomic_uint *a, __global const int *b) {
        atomic_fetch_add_explicit(&a[b[get_global_id(0)]], 1, memory_order_relaxed, memory_scope_device); }"""
    found = analyse_kernel(parse_program(text, ["-cl-std=CL2.0"]), "k")
    (atomic,) = (access for access in found.accesses if access.mode == "atomic")
    assert (atomic.op, atomic.dtype) == ("add", "uint32")


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ("int v = -1; while (v < 0) { read_mem_fence(CLK_GLOBAL_MEM_FENCE); v = a[g]; } a[g + 1] = v;", True),
        ("while (a[g] == 0 || b[0] == 0) ; a[g + 1] = 1;", True),
        ("while (b[g] == 0) ; a[g] = 1;", False),  # nobody changes b
        ("for (int k = 0; k < 9 && a[g] == 0; k++) ; a[g + 1] = 1;", False),  # ends by itself
        ("while (a[g] > 0) a[g] -= 1;", False),  # it changes what it looks at
        ("int v = g; while (v != a[v]) v = a[v]; a[g] = v;", False),  # never twice the same place
        ("int v = b[g]; while (v > 1) { v = v / 2; a[v] = g; }", False),
    ],
)
def test_a_loop_that_waits_for_another_work_item_runs_on_one_worker(body: str, waits: bool) -> None:
    text = f"__kernel void k(__global int *a, __global const int *b) {{ int g = get_group_id(0);\n{body} }}"
    reasons = summary(text).one_worker
    assert [str(reason) for reason in reasons] == (
        ["a loop that waits for `a` to change (line 2)"] if waits else []
    )
