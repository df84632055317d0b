"""Kernels with a second version for arguments that lie apart: which have one, and that it runs where these do, and nowhere else.

The second part runs on machines without a GPU (`fake_cuda`), whose driver tells which functions were launched.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vdev.translators.dialects.cuda.program import Apart, CudaKernel
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import parse_program
from vdev.translators.ranges.ndrange import NDRange, whole_chunk

from vdev.backends.base import LaunchShape
from vdev.backends.cuda.launch import CudaAllocation, Kernel
from vdev.backends.cuda.programs import _plain_program, _read_program

from . import fake_cuda
from .cuda_host import COMPILER
from .cuda_host import MISSING as NO_COMPILER
from .cuda_parts import TARGET, Loaded, cuda_without_a_gpu, launch_shape
from .nvrtc import MISSING, compile_cuda, library

HEAD = "kernel void f(global const float *a, global float *b, global ulong *m, int n) {"
LOOP = "for (int i = 0; i < n; i++) b[i] = a[i + 1];"
RECORD = "struct S { float x[3]; };"
HOLDER = "struct S { global float *p; };"


def _apart(source: str, *options: str) -> Apart | None:
    return translate_cuda(parse_program(source, options, target=TARGET)).kernels["f"].apart


@pytest.mark.parametrize(
    ("source", "written"),
    [
        (HEAD + LOOP + "}", (1, 2)),
        (HEAD + "int i = 0; while (i < n) b[i++] += a[i]; }", (1, 2)),
        (HEAD + "int i = 0; do b[i]++; while (++i < n && a[i] > 0); }", (1, 2)),
        ("void g(global float *p, float v) { *p = v; }" + HEAD + "for (int i = 0; i < n; i++) g(b + i, a[i]); }", (1, 2)),
        ("void g(global const float *p, global float *q, int n) { for (int i = 0; i < n; i++) q[i] = p[i]; }"
         + HEAD + "g(a, b, n); }", (1, 2)),
        (HEAD + "for (int i = 0; i < n; i++) vstore4(vload4(i, a), i, b); }", (1, 2)),
        (HEAD + "global const float *c = b;" + LOOP + "b[0] = c[1]; }", (1, 2)),
        ("typedef const float held; kernel void f(global held *a, global float *b, int n) {" + LOOP + "}", (1,)),
        ("kernel void f(global const float (*a)[4], global float (*b)[4], int n)"
         "{ for (int i = 0; i < n; i++) b[i][1] = a[i][2]; }", (1,)),
        (RECORD + "kernel void f(global const struct S *a, global struct S *b, int n)"
         "{ for (int i = 0; i < n; i++) b[i].x[1] = a[i].x[2]; }", (1,)),
        ("kernel void f(global const float4 *a, global float4 *b, int n) { for (int i = 0; i < n; i++) b[i].xy = a[i].zw; }", (1,)),
    ],
)  # fmt: skip
def test_kernels_that_store_in_a_loop_have_a_second_version(source: str, written: tuple[int, ...]) -> None:
    assert _apart(source) == Apart("vdev_cuda_kernel0_apart", (0,), written)


@pytest.mark.parametrize(
    "source",
    [
        HEAD + "b[0] = a[0]; }",
        HEAD + "float s = 0; for (int i = 0; i < n; i++) s += a[i]; b[0] = s; }",
        HEAD + "local float t[8]; for (int i = 0; i < 8; i++) t[i] = a[i]; b[0] = t[n]; }",
        HEAD + "float s = 0; for (int i = 0; i < n; i++) s += a[i]; for (int i = 0; i < n; i++) b[i] = s; }",
        HEAD + "local int t[8]; for (int i = 0; i < n; i++) atomic_inc(t + (int)a[i]); b[0] = t[n]; }",
        HEAD.replace("const", "const volatile") + LOOP + "}",
        HEAD.replace("const float *a", "float *const a") + LOOP + "}",
        HEAD + "global float *c = (global float *)a;" + LOOP + "c[0] = 1; }",
        HEAD + "global float *c = a;" + LOOP + "c[0] = 1; }",
        "void g(global float *p) { p[0] = 1; }" + HEAD + LOOP + "g(a); }",
        "global float *g(global const float *p) { return p; }" + HEAD + LOOP + "g(a)[0] = 1; }",
        HEAD + LOOP + "((global float *)m[0])[0] = 1; }",
        HEAD + LOOP + "ulong x = m[0]; (*(global float **)&x)[0] = 1; }",
        HOLDER + HEAD + LOOP + "struct S s; *(ulong *)&s = m[0]; s.p[0] = 1; }",
        HOLDER + HEAD + LOOP + "((global struct S *)m)->p[0] = 1; }",
        HEAD + LOOP + "(*(global float *global *)m)[0] = 1; }",
        HEAD + LOOP + "global float *c; *(ulong *)&c = *(ulong *)&a; c[0] = 1; }",
        HEAD
        + LOOP
        + "global float *c; char *q = (char *)&c, *p = (char *)&a; for (int i = 0; i < 8; i++) q[i] = p[i]; c[0] = 1; }",
        HEAD + LOOP + "global float *c; void *q = &c; *(ulong *)q = (ulong)a; c[0] = 1; }",
        HEAD + LOOP + "global float *c; vstore4((uint4)(1), 0, (uint *)&c); c[0] = 1; }",
        HEAD + LOOP + "global float *c; ulong q = (ulong)&c; *(ulong *)q = (ulong)a; c[0] = 1; }",
        "kernel void f(global const float (*a)[4], global float (*b)[4], int n)"
        "{ global float (*c)[4] = (global float (*)[4])a; for (int i = 0; i < n; i++) c[i][1] = b[i][2]; }",
        RECORD + "kernel void f(global const struct S *a, global struct S *b, int n)"
        "{ global float *q = a->x; for (int i = 0; i < n; i++) b[i].x[1] = a[i].x[2]; q[0] = 1; }",
    ],
)
def test_others_have_none(source: str) -> None:
    """Nothing to gain, or a pointer that stores comes from elsewhere than an argument without `const`."""
    assert _apart(source) is None


@pytest.mark.parametrize("kept", ["global float *global kept;", "global int kept;"])
def test_a_variable_at_program_scope_may_hold_a_pointer_of_an_earlier_launch(kept: str) -> None:
    source = f"{kept} {HEAD} {LOOP} {'kept = b; kept[0] = 1;' if '*' in kept else 'kept = 1;'} }}"
    assert (_apart(source, "-cl-std=CL2.0") is None) == ("*" in kept)


def test_a_pointer_may_come_from_memory_or_from_a_built_in_function() -> None:
    for rest in ("m[0][0] = 1;", "to_global(p)[0] = 1;", ""):
        head = HEAD.replace("ulong *m", "float *global *m")
        source = f"{head} int own = 0; int *p = &own; {LOOP} {rest} }}"
        assert (_apart(source, "-cl-std=CL2.0") is None) == bool(rest), rest


def test_it_is_kept_with_the_translation() -> None:
    program = translate_cuda(parse_program(HEAD + LOOP + "}", (), target=TARGET))
    assert _read_program(json.loads(json.dumps(_plain_program(program)))) == program


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_only_the_second_version_reads_past_what_is_stored() -> None:
    program = translate_cuda(parse_program(HEAD + LOOP + "}", (), target=TARGET))
    compiled, text = compile_cuda(program.source, program.options)
    assert compiled, text
    plain, _, apart = text.partition(".entry vdev_cuda_kernel0_apart")
    if ".entry vdev_cuda_kernel0(" in apart:
        apart, _, plain = apart.partition(".entry vdev_cuda_kernel0(")
    assert "ld.global.nc" in apart
    assert "ld.global.nc" not in plain


def _shape(info: CudaKernel, size: int) -> LaunchShape:
    """1024 work-items in groups of `size`."""
    ndrange = NDRange((1024,), (size,), (0,))
    chunk = whole_chunk(ndrange)
    return launch_shape(ndrange, chunk, info.pack(ndrange, chunk, (0, 0, 0))[:-8], 0)


def test_the_largest_groups_have_a_second_version_too() -> None:
    backend, driver = cuda_without_a_gpu()
    info = translate_cuda(parse_program(HEAD + LOOP + "}", (), target=TARGET)).kernels["f"]
    usual, usual_apart, largest, largest_apart = (
        Kernel(info, Loaded(threads), number, backend.driver)  # type: ignore[arg-type]
        for number, threads in enumerate((256, 256, 1024, 1024), 1)
    )
    usual.apart, usual.largest, largest.apart = usual_apart, largest, largest_apart
    blocks = [SimpleNamespace(ptr=0x7F00_0000_1000 * number) for number in (1, 2, 3)]
    apart: list[Any] = [*(CudaAllocation(block, 4096) for block in blocks), struct.pack("<i", 7)]
    for args, size, number in ((apart, 256, 2), (apart, 512, 4), ([apart[1], *apart[1:]], 512, 3)):
        shape = _shape(info, size)
        backend.launch(usual, args, shape)
        backend.again(usual, args, shape)()
        backend.again_whole(usual, args, shape)(args, None)
        assert [call[0] for call in driver.launched[-3:]] == [number] * 3


def test_groups_for_which_the_second_version_has_no_registers_take_the_first() -> None:
    backend, driver = cuda_without_a_gpu()
    info = translate_cuda(parse_program(HEAD + LOOP + "}", (), target=TARGET)).kernels["f"]
    kernel = Kernel(info, Loaded(1024), 1, backend.driver)  # type: ignore[arg-type]
    kernel.apart = Kernel(info, Loaded(64), 2, backend.driver)  # type: ignore[arg-type]
    blocks = [SimpleNamespace(ptr=0x7F00_0000_1000 * number) for number in (1, 2, 3)]
    args: list[Any] = [*(CudaAllocation(block, 4096) for block in blocks), struct.pack("<i", 7)]

    small, large = _shape(info, 64), _shape(info, 128)
    for given in (small, large):
        backend.launch(kernel, args, given)
    again = backend.again(kernel, args, small)
    again()
    assert [call[0] for call in driver.launched] == [2, 1, 2]
    assert backend.repeats_over(kernel, small)
    assert not backend.repeats_over(kernel, large)  # `again` would make the second version's call
    # two parts of one allocation are one memory
    part = CudaAllocation(blocks[1], 1024)
    backend.launch(kernel, [part, args[1], args[2], args[3]], small)
    assert driver.launched[-1][0] == 1


PROGRAM = """
import ctypes
import numpy as np, pyopencl as cl
driver = ctypes.PyDLL("libcuda.so.1")
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void sums(global const uint *a, global const uint *c, global uint *b, const uint each, const uint by)
{
    const size_t first = get_global_id(0) * each;
    for (uint k = 0; k < each; k++)
        b[first + k] = a[first + k] * by + (k ? c[first + k - 1] : 0);
}
''').build()
sums = cl.Kernel(program, "sums")
sums.set_arg_types([None, None, None, np.uint32, np.uint32])
EACH, N, flags = 8, 8 * 1024, cl.mem_flags
rng = np.random.default_rng(1)
class Value:
    def __init__(self):
        self.array = rng.integers(0, 2**32, N, np.uint32)
        self.buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=self.array)
    def set_to(self, a, c, by):
        sums(queue, (N // EACH,), (64,), a.buffer, c.buffer, self.buffer, np.uint32(EACH), np.uint32(by))
        first, second, out = (each.array.reshape(-1, EACH) for each in (a, c, self))  # out may be one of them
        for k in range(EACH):
            out[:, k] = first[:, k] * np.uint32(by) + (second[:, k - 1] if k else 0)
    def check(self):
        found = np.empty(N, np.uint32)
        cl.enqueue_copy(queue, found, self.buffer)
        assert (found == self.array).all()
    def made(self, a, c, by):
        self.set_to(a, c, by)
        if WAITS:
            queue.finish()
def launches():
    queue.finish()
    return np.array([driver.fake_launches(b"vdev_cuda_kernel0" + name) for name in (b"", b"_apart")])
"""

#: rounds of launches of one kind each, then of all in turn
KINDS = """
x, y, z = Value(), Value(), Value()
whole = cl.Buffer(context, flags.READ_WRITE, 4 * 2 * N)
class Part(Value):
    def __init__(self, at):
        super().__init__()
        self.buffer = whole.get_sub_region(4 * N * at, 4 * N)
        cl.enqueue_copy(queue, self.buffer, self.array)
low, high = Part(0), Part(1)
def anew(by):
    new = Value()
    new.made(new, x, by)
kinds = {  # and whether arguments lie apart
    "apart": (lambda by: z.made(x, y, by), True),
    "read twice": (lambda by: z.made(x, x, by), True),
    "in place": (lambda by: x.made(x, y, by), False),
    "another in place": (lambda by: x.made(y, x, by), False),
    "parts of one": (lambda by: low.made(high, y, by), False),
    "a part": (lambda by: low.made(x, y, by), True),
    "the other way": (lambda by: y.made(x, z, by), True),
    "made anew": (lambda by: Value().made(x, z, by), True),
    "made anew in place": (anew, False),
}
def look(kind, count):
    call, apart = kinds[kind]
    before = launches()
    for by in range(count):
        call(by)
    new = launches() - before
    assert new[int(apart)] >= count and not new[int(not apart)], (kind, new)
    for value in (x, y, z, low):
        value.check()
for kind in kinds:
    look(kind, 12)
for _ in range(25):
    look(list(kinds)[rng.integers(len(kinds))], int(rng.integers(1, 6)))
for value in (x, y, z, low, high):
    value.check()
from vdev.observe import explain, snapshots
assert "arguments that lie apart: sums" in explain.as_text(snapshots.current())
print("right")
"""


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
@pytest.mark.parametrize(("workers", "waits"), [(1, False), (1, True), (2, False), (3, True)])
def test_the_second_version_runs_where_arguments_lie_apart(tmp_path: Path, workers: int, waits: bool) -> None:
    env = fake_cuda.environment(tmp_path, f"cuda:0-{workers - 1}" if workers > 1 else "cuda:0")
    env |= {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    assert "right" in fake_cuda.run(PROGRAM.replace("WAITS", str(waits)) + KINDS, env)
