"""What the programs of this folder share: a device with short names, a registry, comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

Program = Callable[["Device"], None]
PROGRAMS: dict[str, Program] = {}
i32, u32, f32 = np.int32, np.uint32, np.float32


def program(run: Program) -> Program:
    PROGRAMS[run.__name__] = run
    return run


class Device:
    """A context with one queue, and short names for what every program does."""

    def __init__(self) -> None:
        self.context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
        self.queue = cl.CommandQueue(self.context)
        self.random = np.random.default_rng(17)

    def build(self, source: str, *options: str) -> cl.Program:
        return cl.Program(self.context, source).build(list(options))

    def buffer(self, content: np.ndarray | list[float], dtype: Any = None) -> cl.Buffer:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self.context, flags, hostbuf=np.ascontiguousarray(content, dtype))

    def empty(self, nbytes: int) -> cl.Buffer:
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)

    def read(self, buffer: cl.Buffer, dtype: Any, shape: int | tuple[int, ...]) -> np.ndarray:
        content = np.empty(shape, dtype)
        cl.enqueue_copy(self.queue, content, buffer)
        return content

    def integers(self, low: int, high: int, shape: int | tuple[int, ...], dtype: Any = i32) -> np.ndarray:
        return self.random.integers(low, high, shape).astype(dtype)

    def floats(self, *shape: int) -> np.ndarray:
        return self.random.random(shape).astype(f32)


def up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


same = np.testing.assert_array_equal


def close(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
