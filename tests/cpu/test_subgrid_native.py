"""The sub-grid translation at work on a native engine: chunk by chunk gives what one launch gives."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.dialects.subgrid import SubgridProgram, translate_subgrid
from vdev.translators.frontend.source import parse_program
from vdev.translators.ranges.ndrange import Chunk, Cycle, NDRange

from vdev.start.engines import register_engines

pytestmark = pytest.mark.skipif(os.environ.get("VDEV") == "1", reason="compares with the native engine")

NVALUES = 8  # what every work-item of the kernels below writes

INDEX = """
#define W 8
#define PLACE ((((get_global_id(2) - get_global_offset(2)) * get_global_size(1) + get_global_id(1) \\
  - get_global_offset(1)) * get_global_size(0) + get_global_id(0) - get_global_offset(0)) * W)
"""

# Every kernel takes (out, in) and writes out[PLACE .. PLACE + W).
KERNELS = {
    "every function in every dimension": """
__kernel void k(__global ulong *out, __global const ulong *in) {
  __global ulong *o = out + PLACE;
  for (uint d = 0; d < 3; ++d) {
    o[0] = o[0] * 31 + get_global_id(d); o[1] = o[1] * 31 + get_group_id(d);
    o[2] = o[2] * 31 + get_num_groups(d); o[3] = o[3] * 31 + get_global_size(d);
    o[4] = o[4] * 31 + get_global_offset(d); o[5] = o[5] * 31 + get_local_id(d);
    o[6] = o[6] * 31 + get_local_size(d);
  }
  o[7] = get_work_dim();
}""",
    "dimensions that do not exist": """
__kernel void k(__global ulong *out, __global const ulong *in) {
  __global ulong *o = out + PLACE;
  uint d = 3 + (uint)in[0] % 5;
  o[0] = get_global_id(d); o[1] = get_group_id(d); o[2] = get_num_groups(d); o[3] = get_global_size(d);
  o[4] = get_global_offset(d); o[5] = get_global_id(7) + get_num_groups(100); o[6] = get_local_size(d);
  o[7] = d;
}""",
    "helpers, declared before and defined after": """
ulong leaf(uint d);
static ulong twice(int x, uint d) { return leaf(d) * x + (leaf)(d == 0); }
inline __attribute__((always_inline)) ulong plain(ulong x) { return x * 3; }
__kernel void k(__global ulong *out, __global const ulong *in) {
  ulong leaf(uint);
  out[PLACE] = twice(2, 0); out[PLACE + 1] = plain(twice(plain(1), 1));
  out[PLACE + 2] = leaf(get_work_dim() - 1);
  for (ulong i = leaf(0); i < leaf(0) + 3; i += plain(1) / 3) out[PLACE + 3] += i;
}
ulong leaf(uint d) { return get_global_id(d) + 1000 * get_group_id(d); }
""".replace("(leaf)(d == 0)", "leaf(d == 0)"),
    "functions without parameters, and overloads": """
ulong me() { return get_global_id(0); }
ulong you(void) { return me() + get_num_groups(0); }
ulong __attribute__((overloadable)) of(ulong x) { return x + get_group_id(0); }
ulong __attribute__((overloadable)) of(float x) { return (ulong)x; }
__kernel void k(__global ulong *out, __global const ulong *in)
{ out[PLACE] = me ( ) ; out[PLACE+1] = you(); out[PLACE + 2] = of(me()); out[PLACE + 3] = of(2.0f); }""",
    "names that mean something else": """
typedef struct { ulong get_group_id, leaf; } get;
ulong leaf(void) { return get_group_id(0); }
__kernel void k(__global ulong *out, __global const ulong *in) {
  get s = {.get_group_id = leaf(), .leaf = 7};
  out[PLACE] = s.get_group_id + s.leaf;
  { ulong leaf = 3, vdev_g = 5; __global ulong *in = out; in[PLACE + 1] = leaf + vdev_g; }
  goto leaf; out[PLACE] = 0;
leaf:
  out[PLACE + 2] = in[0];
}""",
    "macros that make the calls": """
#define ID(d) get_global_ ## id(d)
#define CALL(f, ...) f(__VA_ARGS__)
#define EACH(body) for (ulong i = ID(0); i < \\
   ID(0) + 3; ++i) { body; }
__kernel void k(__global ulong *out, __global const ulong *in)
{ EACH(out[PLACE] += CALL(get_group_id, 0) + i) out[PLACE + 1] = CALL(ID, 1); }""",
    "a kernel called by a kernel": """
__kernel void inner(__global ulong *to, __global const ulong *from, ulong plus)
{ to[1] = from[0] + plus + get_global_id(0) + get_num_groups(0); }
void through(__global ulong *to, __global const ulong *from) { inner(to, from, 5); }
__kernel void k(__global ulong *out, __global const ulong *in)
{ inner(out + PLACE, in, (ulong)(3)); through(out + PLACE + 3, in); }""",
    "parameters of all manners": """
typedef __global ulong *pointer;
__kernel void declared(pointer, __constant ulong *restrict);
__kernel void declared(pointer const out, __constant ulong *restrict in) { out[0] = in[0]; }
__kernel __attribute__((vec_type_hint(ulong))) void k(
  __global ulong out[], __global const ulong (*const in)[4])
{ out[PLACE] = in[0][1] + in[1][0] + get_global_id(0); if (in != NULL) out[PLACE + 1] = (*in)[3]; }""",
    "the grid in unevaluated and odd places": """
ulong leaf(ulong x) { return get_global_id(0) + x; }
__kernel void k(__global ulong *out, __global const ulong *in) {
  __typeof__(leaf(1)) t = leaf(2); ulong v[4] = {[1] = leaf(3), leaf(4)};
  ulong2 p = (ulong2)(leaf(sizeof(leaf(5))),
    get_global_id(0) ? leaf(6), leaf(7) : leaf(get_global_id(leaf(0) * 0)));
  out[PLACE] = t; out[PLACE + 1] = v[1] + v[2]; out[PLACE + 2] = p.x; out[PLACE + 3] = p.y;
  switch (leaf(0) & 1) { case 0: do out[PLACE + 4]++; while (out[PLACE + 4] < (leaf(1) & 3));
    break; default: ; }
}""",
    "local memory, barriers and constants": """
__constant ulong table[4] = {3, 1, 4, 1};
ulong pick(void) { return table[get_global_id(0) & 3]; }
__kernel void k(__global ulong *out, __global const ulong *in) {
  __local ulong shared[1];
  if (get_local_id(0) + get_local_id(1) + get_local_id(2) == 0)
    shared[0] = get_group_id(0) * 100 + get_group_id(1);
  barrier(CLK_LOCAL_MEM_FENCE);
  out[PLACE] = shared[0] + pick();
}""",
}


@pytest.fixture(scope="module")
def native() -> Any:
    register_engines()
    cl = pytest.importorskip("pyopencl")
    try:
        devices = cl.get_platforms()[0].get_devices()
    except (cl.Error, IndexError):
        pytest.skip("no OpenCL engine")
    return _Native(cl, cl.Context(devices[:1]))


class _Native:
    """Builds and runs programs on the engine itself."""

    def __init__(self, cl: Any, context: Any) -> None:
        self.cl, self.context = cl, context
        self.queue = cl.CommandQueue(context)
        self._programs: dict[str, Any] = {}

    def kernel(self, source: str, name: str, options: Sequence[str] = ()) -> Any:
        if source not in self._programs:
            self._programs[source] = self.cl.Program(self.context, source).build(
                list(options), cache_dir=False
            )
        return self.cl.Kernel(self._programs[source], name)

    def buffer(self, content: np.ndarray) -> Any:
        flags = self.cl.mem_flags
        return self.cl.Buffer(self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=content)

    def read(self, buffer: Any, like: np.ndarray) -> np.ndarray:
        result = np.empty_like(like)
        self.cl.enqueue_copy(self.queue, result, buffer)
        return result

    def run(self, kernel: Any, ndrange: NDRange, *args: Any) -> None:
        offset = ndrange.offset if any(ndrange.offset) else None
        kernel(self.queue, ndrange.global_size, ndrange.local_size, *args, global_offset=offset)

    def run_chunk(self, kernel: Any, ndrange: NDRange, chunk: Chunk, *args: Any) -> None:
        kernel(
            self.queue,
            chunk.global_size(ndrange),
            ndrange.local_size,
            *args,
            global_offset=chunk.first(ndrange),
        )


@st.composite
def launches(draw: st.DrawFn) -> tuple[NDRange, list[Chunk]]:
    """An NDRange of one to three dimensions and a random partition of it by a grid of cuts, or into blocks that repeat."""
    ndim = draw(st.integers(1, 3))
    local = tuple(draw(st.integers(1, 3)) for _ in range(ndim))
    groups = tuple(draw(st.integers(1, 4 if ndim > 1 else 11)) for _ in range(ndim))
    offset = tuple(draw(st.sampled_from([0, 0, 1, 13])) for _ in range(ndim))
    cuts = [sorted({0, count, *draw(st.sets(st.integers(0, count), max_size=2))}) for count in groups]
    chunks = [
        Chunk(tuple(start for start, _ in spans), tuple(stop for _, stop in spans))
        for spans in product(*(list(pairwise(cut)) for cut in cuts))
    ]
    axis = draw(st.integers(0, ndim - 1))
    if groups[axis] > 1 and draw(st.booleans()):
        stride = draw(st.integers(2, groups[axis]))
        edges = sorted({0, stride, draw(st.integers(1, stride - 1)), draw(st.integers(1, stride - 1))})
        whole = [chunk for chunk in chunks if chunk.start[axis] == 0]
        chunks = [
            Chunk(
                (*chunk.start[:axis], start, *chunk.start[axis + 1 :]),
                (*chunk.stop[:axis], groups[axis], *chunk.stop[axis + 1 :]),
                Cycle(axis, stop - start, stride),
            )
            for chunk in whole
            for start, stop in pairwise(edges)
        ]
    ndrange = NDRange(tuple(g * n for g, n in zip(groups, local, strict=True)), local, offset)
    return ndrange, draw(st.permutations(chunks))


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=6, deadline=None)
@given(launch=launches())
def test_chunks_give_what_one_launch_gives(
    native: Any, name: str, launch: tuple[NDRange, list[Chunk]]
) -> None:
    ndrange, chunks = launch
    source = INDEX + KERNELS[name]
    renumbers = any(chunk.cycle is not None for chunk in chunks)
    translated = translate_subgrid(parse_program(source), renumbers=renumbers)
    kernel = translated.kernels["k"]
    given_in = np.arange(40, dtype=np.uint64) * 7 + 1
    given_out = np.zeros(ndrange.nitems * NVALUES, np.uint64)

    expected = native.buffer(given_out)
    native.run(native.kernel(source, "k"), ndrange, expected, native.buffer(given_in))

    # Buffers whose first bytes are not the user's: the shift takes the pointer to where the user's begin.
    lead = 64
    padded_out, padded_in = (
        native.buffer(np.concatenate([np.zeros(lead, np.uint8), a.view(np.uint8)]))
        for a in (given_out, given_in)
    )
    views = [buffer.get_sub_region(0, buffer.size) for buffer in (padded_out, padded_in)]
    assert kernel.pointer_args == (0, 1)
    assert kernel.hidden_index == 2
    for chunk in chunks:
        hidden = np.frombuffer(kernel.pack(ndrange, chunk, [-lead, -lead]), np.uint8)
        run = native.kernel(translated.source, "k")
        native.run_chunk(run, ndrange, chunk, *views, hidden)
    result = native.read(padded_out, np.empty(lead + given_out.nbytes, np.uint8))
    np.testing.assert_array_equal(result[lead:].view(np.uint64), native.read(expected, given_out))
    assert not result[:lead].any()


def _translated(source: str) -> SubgridProgram:
    return translate_subgrid(parse_program(source))


def test_windows_of_a_buffer(native: Any) -> None:
    """Every chunk gets buffers that hold only what it touches; the kernel indexes as if they were whole."""
    source = """
    __kernel void blur(__global const float *a, __global float *b, int n) {
      int i = get_global_id(0);
      if (i > 0 && i < n - 1) b[i] = a[i - 1] + 2 * a[i] + a[i + 1];
    }"""
    translated = _translated(source)
    kernel = translated.kernels["blur"]
    n, local = 48, 4
    a = np.random.default_rng(1).random(n, np.float32)
    expected = np.zeros(n, np.float32)
    expected[1:-1] = a[:-2] + 2 * a[1:-1] + a[2:]
    ndrange = NDRange((n,), (local,), (0,))
    result = np.zeros(n, np.float32)
    for start, stop in [(0, 3), (3, 4), (4, 12)]:
        first, last = start * local, stop * local
        low, high = max(first - 1, 0), min(last + 1, n)
        inputs, outputs = native.buffer(a[low:high]), native.buffer(np.zeros(last - first, np.float32))
        hidden = kernel.pack(ndrange, Chunk((start,), (stop,)), [4 * low, 4 * first])
        run = native.kernel(translated.source, "blur")
        native.run_chunk(
            run,
            ndrange,
            Chunk((start,), (stop,)),
            inputs,
            outputs,
            np.int32(n),
            np.frombuffer(hidden, np.uint8),
        )
        result[first:last] = native.read(outputs, result[first:last])
    np.testing.assert_array_equal(result, expected)


def test_null_stays_null(native: Any) -> None:
    translated = _translated("__kernel void k(__global int *a, __global int *b) { b[0] = a == 0 ? 1 : 2; }")
    kernel = translated.kernels["k"]
    buffer = native.buffer(np.zeros(1, np.int32))
    whole = NDRange((1,), (1,), (0,))
    hidden = np.frombuffer(kernel.pack(whole, Chunk((0,), (1,)), [0, 0]), np.uint8)
    native.run_chunk(native.kernel(translated.source, "k"), whole, Chunk((0,), (1,)), None, buffer, hidden)
    assert native.read(buffer, np.zeros(1, np.int32))[0] == 1


def test_what_is_guarded_is_left_alone(native: Any) -> None:
    """Intel's vectoriser once ran all of the last work-group, where pointers were made from integers."""
    row = "128 * ((int)get_group_id(0)) + ((int)get_local_id(0))"
    statements = " ".join(f"out[{row}].s{at:x} = 2.0f * a[16 * ({row}) + {at}];" for at in range(16))
    source = f"""__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
    void k(__global const float *restrict a, __global float16 *restrict out, const int n)
    {{ if (-1 + -128 * ((int)get_group_id(0)) + -1 * ((int)get_local_id(0)) + n >= 0)
      {{ {statements} }} }}"""
    rows, wanted = 1280, 1184
    a, untouched = np.arange(16 * rows, dtype=np.float32), np.full(16 * rows, -7, np.float32)
    translated = _translated(source)
    ndrange = NDRange((rows,), (128,), (0,))
    inputs, result = native.buffer(a), native.buffer(untouched)
    for chunk in (Chunk((0,), (3,)), Chunk((3,), (10,))):
        hidden = np.frombuffer(translated.kernels["k"].pack(ndrange, chunk, [0, 0]), np.uint8)
        run = native.kernel(translated.source, "k")
        native.run_chunk(run, ndrange, chunk, inputs, result, np.int32(wanted), hidden)
    found = native.read(result, untouched)
    np.testing.assert_array_equal(found[: 16 * wanted], 2 * a[: 16 * wanted])
    np.testing.assert_array_equal(found[16 * wanted :], untouched[16 * wanted :])


def test_non_uniform_last_group(native: Any) -> None:
    """The last work-group of an NDRange built for non-uniform work-groups is partial, in its chunk too."""
    source = """__kernel void k(__global uint *a) {
      a[get_global_id(0)] = get_local_size(0) + 100 * get_enqueued_local_size(0) + 10000 * get_num_groups(0);
    }"""
    if not native.context.devices[0].get_info(native.cl.device_info.NON_UNIFORM_WORK_GROUP_SUPPORT):
        pytest.skip("the engine has no non-uniform work-groups")
    options = ["-cl-std=CL2.0"]
    translated = translate_subgrid(parse_program(source, options))
    ndrange = NDRange((10,), (4,), (0,))
    expected = native.buffer(np.zeros(10, np.uint32))
    native.run(native.kernel(source, "k", options), ndrange, expected)
    result = native.buffer(np.zeros(10, np.uint32))
    for chunk in (Chunk((0,), (1,)), Chunk((1,), (3,))):
        hidden = np.frombuffer(translated.kernels["k"].pack(ndrange, chunk, [0]), np.uint8)
        native.run_chunk(native.kernel(translated.source, "k", options), ndrange, chunk, result, hidden)
    like = np.zeros(10, np.uint32)
    np.testing.assert_array_equal(native.read(result, like), native.read(expected, like))


def test_the_engine_reports_the_users_lines(native: Any) -> None:
    """A message about translated text names the line of the user's source that it is about."""
    source = (
        "#define TWO 2\n\n__kernel void k(__global int *a) {\n  a[get_global_id(0)] = TWO;\n  /* here */\n}\n"
    )
    translated = _translated(source)
    spoiled = translated.source.replace("= 2;", "= missing;")
    with pytest.raises(native.cl.RuntimeError) as caught:
        native.kernel(spoiled, "k")
    assert ":4:" in str(caught.value)


def test_pack_is_what_the_structure_says() -> None:
    kernel = _translated(
        "__kernel void k(__global int *a, int n, __constant int *c) { a[0] = n + c[0]; }"
    ).kernels["k"]
    assert (kernel.hidden_index, kernel.pointer_args) == (3, (0, 2))
    ndrange = NDRange((12, 10), (3, 5), (100, 200))
    packed = kernel.pack(ndrange, Chunk((1, 0), (4, 2)), [-8, 16])
    assert len(packed) == kernel.hidden_nbytes
    numbers = struct.unpack("<15Q2q", packed)
    assert numbers == (1, 0, 0, 4, 2, 1, 12, 10, 1, 100, 200, 0, 103, 200, 0, -8, 16)
    with pytest.raises(ValueError, match="2 shifts expected"):
        kernel.pack(ndrange, Chunk((0, 0), (4, 2)), [0])
    with pytest.raises(ValueError, match="contiguous"):
        kernel.pack(ndrange, Chunk((0, 0), (4, 2), Cycle(0, 1, 2)), [0, 0])
