"""What a launch is given for the arguments of a call: memories, pointers into them, and descriptors of images.

Decides nothing. Fresh memory for each launch leaves the caller's arrays as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdev.backends.base import Backend, BackendProgram, Bytes, LocalBytes
from vdev.harness.arguments import Empty, Given, Ready
from vdev.process import switches
from vdev.translators.dialects.checked import Root
from vdev.translators.frontend.source import ArgInfo
from vdev.translators.values import dataclass

_MEMORY_FACTOR, _MEMORY_MORE = 4, 200_000_000

Mask = npt.NDArray[np.bool_]


class Memory:
    """A buffer: its content, and which of its bytes have been written.

    `again`: makes the content once more, for a launch that does not need it afterwards; the content then takes no
    memory here while a worker has it.
    """

    def __init__(self, content: Bytes, written: Mask, again: Callable[[], Bytes] | None = None) -> None:
        self.nbytes = len(content)
        self.written = written
        self._content: Bytes | None = content
        self._again = again

    @property
    def content(self) -> Bytes:
        if self._content is None:
            assert self._again is not None
            self._content = self._again()
        return self._content

    def load(self) -> None:
        """Make sure that the content is here."""
        _ = self.content

    @property
    def is_kept(self) -> bool:
        """Whether the content after a launch is needed."""
        return self._again is None

    @property
    def is_written(self) -> bool:
        """Whether all of it has been written."""
        return self.written.strides == (0,) or bool(self.written.all())

    def taken(self) -> None:
        """A worker has taken the content."""
        if self._again is not None:
            self._content = None

    def mark(self, granules: Mask, granule: int) -> None:
        """Update which bytes have been written: by granule of that many bytes, whether it has been."""
        if self.written.strides != (0,) and granules.any():
            self.written |= np.repeat(granules, granule)[: self.nbytes]


def whole(nbytes: int) -> Mask:
    """Everything has been written: a mask that takes no memory and cannot be changed."""
    return np.broadcast_to(np.True_, nbytes)


@dataclass(frozen=True)
class Pointer:
    """An argument that points `offset` bytes into `memory` and may use `nbytes` from there."""

    memory: Memory
    offset: int
    nbytes: int


#: A kernel argument: a buffer, a value's bytes, local memory, or a null pointer.
Argument = Pointer | bytes | LocalBytes | None


def memories_of(args: Sequence[Argument]) -> list[Memory]:
    """The memories behind arguments, each once."""
    found: list[Memory] = []
    for arg in args:
        if isinstance(arg, Pointer) and not any(arg.memory is known for known in found):
            found.append(arg.memory)
    return found


def size_of(root: Root, args: Sequence[Argument]) -> int:
    """Bytes of a root in a launch; 0 for a null pointer."""
    if root.arg is None:
        return root.nbytes
    arg = args[root.arg]
    return arg.nbytes if isinstance(arg, Pointer | LocalBytes) else 0


def memory_limit(args: Sequence[Argument]) -> int:
    """Bytes that a launch may take for copies of its buffers and for shadow memory."""
    return limit_for(sum(memory.nbytes for memory in memories_of(args)))


def limit_for(nbytes: int) -> int:
    """The same for buffers of that many bytes."""
    given = switches.check_memory()
    if given is not None:
        return given
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_MEMORY_FACTOR * nbytes + _MEMORY_MORE, machine // 2)


def local_room(
    backend: Backend, program: BackendProgram, kernel: str, args: Sequence[Argument], hidden: LocalBytes
) -> tuple[int, int]:
    """Bytes of local memory that a work-group would need, and bytes that there are."""
    own = backend.build(program).kernels[kernel].local_memory_nbytes
    given = sum(arg.nbytes for arg in args if isinstance(arg, LocalBytes))
    room = max(backend.info.local_memory_nbytes, backend.info.most_local_nbytes)
    return own + given + hidden.nbytes, room


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
    """Whether a kernel may leave something in a parameter's memory that the caller wants."""
    if info.kind == "image":
        return info.access_qualifier != "read_only"
    return info.kind == "global" and not info.pointee_const


def array_of(arg: Ready, memory: Memory) -> npt.NDArray[Any]:
    """What a memory holds, in the shape and type of the argument that it was made for."""
    assert isinstance(arg, Given | Empty)
    like = arg.whole if isinstance(arg, Given) else arg
    return memory.content.view(like.dtype).reshape(like.shape)
