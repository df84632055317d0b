"""What checking a kernel's accesses costs: processor time of checked launches, as ratios to the same kernels alone.

Each kernel runs in turn as it is and checked, on one CPU worker; the least of several runs counts. Transfers and compilers
are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from vdev.translators.frontend.source import parse_program
from vdev.translators.ranges.ndrange import NDRange

from vdev.backends.base import Backend, BackendProgram
from vdev.harness.checking import Argument, CheckedSource, Memory, Pointer
from vdev.harness.running import open_session, whole_launch

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


@dataclass(frozen=True)
class Case:
    """A kernel `k` and its launch."""

    name: str
    source: str
    args: tuple[Any, ...]
    ndrange: NDRange


def cases(size: int) -> list[Case]:
    """The kernels, with some `size` cubed operations each."""
    values, count = np.random.default_rng(1).random(size**3 // 4, np.float32), size**3 // 4
    square = values[: size * size]
    plane, cube = NDRange((size, size), (16, 16), (0, 0)), size // 2
    return [
        Case("matrix multiplication", MATRICES, (square, square, square, np.int32(size)), plane),
        Case("reduction", SUM, (values, values[:64], np.int32(count)), NDRange((64 * 256,), (256,), (0,))),
        Case(
            "3-D stencil", STENCIL, (values[: cube**3], values[: cube**3], np.int32(cube)),
            NDRange((cube,) * 3, (16, 4, 4), (0, 0, 0)),
        ),
    ]  # fmt: skip


def arguments(case: Case) -> list[Argument]:
    found: list[Argument] = []
    for arg in case.args:
        if isinstance(arg, np.ndarray):
            content = arg.copy().view(np.uint8)
            found.append(Pointer(Memory(content, np.ones(len(content), np.bool_)), 0, len(content)))
        else:
            found.append(arg.tobytes())
    return found


def launch_time(backend: Backend, run: Callable[[], object]) -> float:
    """Processor time of the one launch that `run` makes."""
    spent: list[float] = []
    launch = backend.launch

    def timed(*given: Any) -> None:
        backend.record().wait()
        started = time.process_time()
        launch(*given)
        backend.record().wait()
        spent.append(time.process_time() - started)

    backend.launch = timed  # type: ignore[method-assign]
    try:
        run()
    finally:
        del backend.launch  # type: ignore[method-assign]
    return spent[0]


def ratio(backend: Backend, case: Case, repeats: int) -> tuple[float, float]:
    """Processor seconds of the kernel alone, and of its checked launch."""
    native = BackendProgram(case.source)
    checked = CheckedSource(parse_program(case.source))
    alone, watched = [], []
    for _ in range(repeats):
        alone.append(
            launch_time(backend, lambda: whole_launch(backend, native, "k", arguments(case), case.ndrange))
        )
        watched.append(
            launch_time(backend, lambda: checked.launch(backend, "k", arguments(case), case.ndrange))
        )
    return min(alone), min(watched)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=256, help="a multiple of 32; default: %(default)s")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    for case in cases(given.size):
        alone, checked = open_session("cpu:1").executor.call(
            0, lambda backend, case=case: ratio(backend, case, given.repeats)
        )
        print(
            f"{case.name:22} {1e3 * alone:8.2f} ms alone {1e3 * checked:8.2f} ms checked   {checked / alone:6.1f} times"
        )


if __name__ == "__main__":
    main()
