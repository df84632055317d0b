"""What a launch of a kernel takes for the arguments of a call: memory of its own for arrays, and descriptors for images."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdev.backends.base import LocalBytes
from vdev.harness.arguments import Empty, Given, Ready
from vdev.harness.checking import Argument, Memory, Pointer
from vdev.harness.memories import whole
from vdev.translators.frontend.source import ArgInfo


def memory_of(arg: Ready) -> Memory | None:
    """Fresh memory for a buffer: what runs on it leaves the caller's array as it is."""
    if isinstance(arg, Given):
        content = np.frombuffer(arg.whole.tobytes(), np.uint8).copy()
        return Memory(content, whole(len(content)))
    if isinstance(arg, Empty):
        nbytes = prod(arg.shape) * arg.dtype.itemsize
        return Memory(np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.bool_))
    return None


def _argument(arg: Ready, memory: Memory | None) -> Argument:
    if memory is not None:
        return Pointer(memory, 0, memory.nbytes)
    return arg if isinstance(arg, bytes | LocalBytes) else None


def launched(ready: Sequence[Ready], memories: Sequence[Memory | None]) -> list[Argument]:
    """What a launch takes: the arguments, and behind them the descriptors of those that are images."""
    args = [_argument(arg, memory) for arg, memory in zip(ready, memories, strict=True)]
    return [*args, *(arg.descriptor for arg in ready if isinstance(arg, Given | Empty) and arg.descriptor)]


def is_output(info: ArgInfo) -> bool:
    """Whether a kernel may leave something in a parameter's memory that somebody wants."""
    if info.kind == "image":
        return info.access_qualifier != "read_only"
    return info.kind == "global" and not info.pointee_const


def array_of(arg: Ready, memory: Memory) -> npt.NDArray[Any]:
    """What a memory holds, in the shape and type of the argument that it was made for."""
    assert isinstance(arg, Given | Empty)
    like = arg.whole if isinstance(arg, Given) else arg
    return memory.content.view(like.dtype).reshape(like.shape)
