"""Commands: what a host program may ask of the virtual device, free of PyOpenCL and of devices.

A command says what is to be done, never how: which worker holds or computes what is the planner's decision.
Commands are made by the façade after every check of the OpenCL specification has passed; nothing below it
validates again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from vdev.backends import compiled
from vdev.backends.base import LocalBytes
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.planner.directory import BufferState
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.ordering import QueueOrder
    from vdev.session.programs import SessionKernel

Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Write:
    """Host memory to a buffer. `host` (1-D uint8) must stay unchanged until completion."""

    buffer: VirtualBuffer
    layout: Layout
    host: Bytes
    is_copied: bool = False  #: whether `host` is a copy of the program's, which nobody else knows


@dataclass(slots=True, eq=False)
class Read:
    """A buffer to host memory `host` (1-D uint8, writable)."""

    buffer: VirtualBuffer
    layout: Layout
    host: Bytes
    is_aside: bool = False  #: whether `host` is not the program's, which is given the bytes later


@dataclass(slots=True, eq=False)
class CopyBuffer:
    """Buffer to buffer: a box of `shape`; the two may be one buffer where the boxes do not overlap."""

    source: VirtualBuffer
    target: VirtualBuffer
    shape: tuple[int, int, int]
    source_start: int
    source_pitches: tuple[int, int]
    target_start: int
    target_pitches: tuple[int, int]


@dataclass(slots=True, eq=False)
class Fill:
    """`nbytes` bytes from `offset` filled with `pattern`, whose length divides both."""

    buffer: VirtualBuffer
    offset: int
    nbytes: int
    pattern: bytes


class _Known:
    """What may be referred to weakly (`dataclass` gives it no place for that before Python 3.11)."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, eq=False)
class BufferArg(_Known):
    """A buffer or sub-buffer as kernel argument.

    The pointer is `offset` bytes into `buffer`, `nbytes` from there are its own, and `before` bytes ahead of
    it (a pointer into shared virtual memory may be used in both directions).
    """

    buffer: VirtualBuffer
    offset: int
    nbytes: int
    before: int = 0


#: `__local` memory of `nbytes` bytes, as back ends take it
LocalArg = LocalBytes

#: one captured kernel argument: a buffer, the bytes of a value, local memory, or a null pointer
Argument = BufferArg | bytes | LocalArg | None


def marks(args: Sequence[Argument], *, values: bool) -> tuple[Hashable, ...]:
    """Places of a launch's arguments, and its `values` if they count, to be compared with those of another launch of the kernel.
    They keep no buffer alive; where one has gone, its place may be taken for that of a later one.
    """
    return tuple(
        [
            (id(arg.buffer), arg.offset, arg.nbytes) if type(arg) is BufferArg else arg
            for arg in args
            if values or type(arg) is not bytes
        ]
    )


class Repeater(Protocol):
    """What makes a launch again (`repetition.Repetition`)."""

    @property
    def used(self) -> list[bool]:
        """One element: whether it has made a launch. It keeps no memory alive."""

    @property
    def takes_values(self) -> bool:
        """Whether a launch may have other values than the one that is repeated."""

    def again(
        self,
        queue: QueueOrder,
        ndrange: NDRange,
        args: Sequence[Argument],
        after: Sequence[Completion] = (),
    ) -> Completion | None:
        """Launch once more in `queue` and behind all of `after`, with the same arguments, but for their values if it `takes_values`:
        what tells of its end. None where that takes a submission, as over another index space it may: then nothing has happened.
        """


class _Once:
    """Repeats nothing."""

    takes_values = True
    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = [False]

    def again(
        self,
        queue: QueueOrder,
        ndrange: NDRange,
        args: Sequence[Argument],
        after: Sequence[Completion] = (),
    ) -> Completion | None:
        return None


#: stands for what would repeat a launch that has been made once with its arguments
ONCE = _Once()


@dataclass(slots=True, eq=False)
class Launch:
    """A kernel over an NDRange; `args` were captured at enqueue (specification 5.9.2).

    `shared`: buffers that it may reach by the addresses of their homes, with and without an argument.
    """

    kernel: SessionKernel
    args: tuple[Argument, ...]
    ndrange: NDRange
    shared: tuple[VirtualBuffer, ...] = ()
    #: where its pointer arguments point: (argument, slot, bytes into the buffer); filled in where its plan needs it
    places: Sequence[tuple[int, int, int]] = ()
    #: what repeats it, once it has been submitted
    repetition: Repeater | None = None
    #: whether it could not be handed over at once (`vdev.session.immediate`)
    tried: bool = False


@dataclass(slots=True, eq=False)
class Map:
    """Make the home of `buffer` hold `nbytes` bytes from `offset` for the host to read or write in place."""

    buffer: VirtualBuffer
    offset: int
    nbytes: int
    read: bool
    write: bool
    #: the buffer's state before it; None until it is planned
    before: BufferState | None = None
    #: what ends it where it was made at once (`vdev.session.immediate_maps`)
    made: Any = None


@dataclass(slots=True, eq=False)
class Unmap:
    """End of a mapping: what the host wrote there is what the buffer holds."""

    map: Map


@dataclass(slots=True, eq=False)
class Migrate:
    """Move `buffers` to the host; a hint, never a change of contents."""

    buffers: tuple[VirtualBuffer, ...]
    to_host: bool


@dataclass(slots=True, eq=False)
class Marker:
    """No work: completes when what it waits for has completed."""

    barrier: bool = False


Command = Write | Read | CopyBuffer | Fill | Launch | Map | Unmap | Migrate | Marker


compiled.code.replace_methods(BufferArg, ())  # which compiled methods read
