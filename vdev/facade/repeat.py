"""Repeated calls: a kernel called again with what it was called with the last time.

Decides whether a call is the same as the last: the same queue, index space and arguments, buffers that have not been
released, no wait list. Then its arguments need no conversion and nothing has to be checked again. What changes under
its name (a structure, an array) is never taken for the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.facade.errors import native
from vdev.facade.event import Event
from vdev.facade.memory import Memory, MemoryObjectHolder
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_memory import is_in_use

if TYPE_CHECKING:
    from vdev.session.programs import SessionKernel
    from vdev.session.repetition import Repetition

_COMMAND = native.command_type.NDRANGE_KERNEL
_new_event = object.__new__
_numbers = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_)}
#: what stays as it is
_FIXED = frozenset({bool, int, float, complex, bytes, type(None), native.LocalMemory, *_numbers})
#: of these, what equals another of its type has the same bytes; zeros of real numbers may differ in their sign
_WHOLE = frozenset(
    {bool, int, bytes, *(kind for kind in _numbers if issubclass(kind, np.integer | np.bool_))}
)
_REAL = frozenset({float, *(kind for kind in _numbers if issubclass(kind, np.floating))})


def _same(value: Any, known: Any) -> bool:
    """Whether both are passed to a kernel as the same bytes; False where that is not certain."""
    kind = type(value)
    if kind is not type(known) or value != known:
        return False
    return kind in _WHOLE or (kind in _REAL and bool(value))


class Repeat:
    """The last launch of a kernel, as far as it can be made again."""

    __slots__ = (
        "_count",
        "_global_size",
        "_kernel",
        "_local_size",
        "_memories",
        "_order",
        "_repetition",
        "_values",
    )

    def __init__(
        self,
        queue: CommandQueue,
        kernel: SessionKernel,
        memories: Sequence[Memory],
        sizes: tuple[tuple[Any, ...], tuple[Any, ...] | None],
        repetition: Repetition,
    ) -> None:
        """`memories`: what the kernel's arguments refer to. `sizes`: global and local, of a launch without an offset
        and in work-items.
        """
        self._kernel = kernel
        self._order = queue._order  # not the queue, which the kernel shall not keep alive
        self._global_size, self._local_size = sizes
        #: by argument: what shall be given for it
        self._values: tuple[Any, ...] = ()
        self._count = -1  #: arguments of a call; no call has so many before `learn`
        self._memories = memories
        self._repetition = repetition

    def learn(self, args: Sequence[Any]) -> None:
        """The launch was a call of the kernel with `args`: queue, sizes, and the arguments.

        Of a buffer the memory object is kept and not the wrapper, whose end may be its end.
        """
        values = [arg._memory if isinstance(arg, MemoryObjectHolder) else arg for arg in args[3:]]
        if all(type(value) is Memory or type(value) in _FIXED for value in values):
            self._values, self._count = tuple(values), len(args)

    def called(self, args: tuple[Any, ...]) -> Event | None:
        """The event of a call of the kernel with `args` that is the same; None where it is not."""
        if len(args) != self._count:
            return None
        at = 3
        for known in self._values:
            value = args[at]
            at += 1
            if value is known:
                continue
            if type(known) is Memory:
                if not isinstance(value, MemoryObjectHolder) or value._memory is not known:
                    return None
            elif not _same(value, known):
                return None
        return self.again(args[0], args[1], args[2], None, False)

    def again(
        self, queue: CommandQueue, global_size: Any, local_size: Any, offset: Any, g_times_l: Any
    ) -> Event | None:
        """The event of the same launch, made once more; None where it is not the same or cannot be."""
        if type(queue) is not CommandQueue or queue._order is not self._order or queue._finalized:
            return None
        if offset is not None or g_times_l is not False:
            return None
        try:
            if global_size != self._global_size or local_size != self._local_size:
                return None
        except ValueError:  # arrays
            return None
        for memory in self._memories:
            if memory.references <= 0:
                return None
        if is_in_use() and self._kernel.addresses is not None:  # more than its arguments may change under their names
            return None
        repetition = self._repetition
        if not repetition.again(self._order):
            return None
        event = _new_event(Event)
        event._handle = 0
        event._queue = queue
        event._context = queue._context
        event._command_type = _COMMAND
        event._completion = repetition.completion
        return event
