"""The kernels of `check_cost.py` and their launches; nothing but NumPy is needed, so that any OpenCL runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

MATRICES = """
kernel void k(global const float *a, global const float *b, global float *c, int n) {
  local float s[16][16], t[16][16];
  int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1);
  float sum = 0;
  for (int j = 0; j < n; j += 16) {
    s[ly][lx] = a[y * n + j + lx];
    t[ly][lx] = b[(j + ly) * n + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 16; i++) sum += s[ly][i] * t[i][lx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[y * n + x] = sum;
}"""
BODIES = """
kernel void k(global const float4 *positions, global float4 *speeds, int n, float dt) {
  local float4 tile[64];
  int i = get_global_id(0), l = get_local_id(0);
  float4 here = positions[i];
  float x = 0, y = 0, z = 0;
  for (int j = 0; j < n; j += 64) {
    tile[l] = positions[j + l];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int m = 0; m < 64; m++) {
      float4 d = tile[m] - here;
      float r = rsqrt(d.x * d.x + d.y * d.y + d.z * d.z + 0.01f), f = tile[m].w * r * r * r;
      x += f * d.x; y += f * d.y; z += f * d.z;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  speeds[i] += dt * (float4)(x, y, z, 0);
}"""
SUM = """
kernel void k(global const float *in, global float *out, int n) {
  local float t[256];
  int l = get_local_id(0);
  float sum = 0;
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) sum += in[i];
  t[l] = sum;
  for (int h = 128; h; h /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < h) t[l] += t[l + h];
  }
  if (l == 0) out[get_group_id(0)] = t[0];
}"""
STENCIL = """
kernel void k(global const float *a, global float *b, int n) {
  int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2), i = (z * n + y) * n + x;
  if (min(x, min(y, z)) < 1 || max(x, max(y, z)) > n - 2) return;
  b[i] = 0.5f * a[i] + 0.1f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n] + a[i - n * n] + a[i + n * n]);
}"""
SORT = """
kernel void k(global uint *keys, int distance, int size) {
  int i = get_global_id(0), other = i ^ distance;
  if (other > i) {
    uint a = keys[i], b = keys[other];
    if ((a > b) == ((i & size) == 0)) { keys[i] = b; keys[other] = a; }
  }
}"""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A kernel `k`, its buffers, and the numbers behind them, launch by launch."""

    name: str
    source: str
    arrays: tuple[Array, ...]
    launches: tuple[tuple[Any, ...], ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)


def _matrices(size: int, values: Array) -> Case:
    squares = tuple(values[: size * size].copy() for _ in range(3))
    return Case("matrix multiplication", MATRICES, squares, ((np.int32(size),),), (size, size), (16, 16))


def _bodies(size: int, values: Array) -> Case:
    count = size * 8
    arrays = values[: 4 * count].copy(), np.zeros(4 * count, np.float32)
    return Case("N-body", BODIES, arrays, ((np.int32(count), np.float32(0.1)),), (count,), (64,))


def _sum(size: int, values: Array) -> Case:
    return Case(
        "reduction", SUM, (values, values[:64].copy()), ((np.int32(len(values)),),), (64 * 256,), (256,)
    )


def _stencil(size: int, values: Array) -> Case:
    cube = size // 2
    arrays = values[: cube**3].copy(), values[: cube**3].copy()
    return Case("3-D stencil", STENCIL, arrays, ((np.int32(cube),),), (cube,) * 3, (16, 4, 4))


def _sort(size: int, values: Array) -> Case:
    count = 1 << (size * size).bit_length() - 1
    keys = (values[:count] * 2.0**31).astype(np.uint32)
    steps = [1 << step for step in range(count.bit_length())]
    launches = tuple(
        (np.int32(distance), np.int32(length))
        for length in steps[1:]
        for distance in reversed(steps)
        if distance < length
    )
    return Case("bitonic sort", SORT, (keys,), launches, (count,), (256,))


MAKERS: dict[str, Callable[[int, Array], Case]] = {
    "matrices": _matrices, "bodies": _bodies, "sum": _sum, "stencil": _stencil, "sort": _sort,
}  # fmt: skip


def case(name: str, size: int) -> Case:
    """`size`: a multiple of 32; some `size` cubed operations, and `size` squared keys to sort."""
    return MAKERS[name](size, np.random.default_rng(1).random(size**3 // 4, np.float32))
