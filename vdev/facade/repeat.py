"""Repeated calls: a kernel called again with what it was called with the last time.

Decides whether a call is the same as the last: the same queue, index space and arguments, buffers that have not been
released, no wait list. Then its arguments need no conversion and nothing has to be checked again; of numbers that
have changed only they are converted, where the launch's plan does not depend on them. What changes under its name (a
structure, an array) is never taken for the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.facade.errors import native
from vdev.facade.event import Event
from vdev.facade.handles import state_of
from vdev.facade.memory import Memory, MemoryObjectHolder
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_memory import is_in_use

if TYPE_CHECKING:
    from vdev.facade.kernel import KernelState
    from vdev.facade.queue import QueueState
    from vdev.session.commands import Repeater
    from vdev.session.programs import SessionKernel

_new_event = object.__new__
_COMMAND = native.command_type.NDRANGE_KERNEL
_numbers = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_)}
#: what stays as it is
_FIXED = frozenset({bool, int, float, complex, bytes, type(None), native.LocalMemory, *_numbers})
#: of these, what equals another of its type has the same bytes; zeros of real numbers may differ in their sign
_WHOLE = frozenset(
    {bool, int, bytes, *(kind for kind in _numbers if issubclass(kind, np.integer | np.bool_))}
)
_REAL = frozenset({float, *(kind for kind in _numbers if issubclass(kind, np.floating))})
_NUMBERS = frozenset({int, float, *_numbers})


def _same(value: Any, known: Any) -> bool:
    """Whether both are passed to a kernel as the same bytes; False where that is not certain."""
    kind = type(value)
    if kind is not type(known) or value != known:
        return False
    return kind in _WHOLE or (kind in _REAL and bool(value))


class Repeat:
    """The last launch of a kernel, as far as it can be made again."""

    __slots__ = (
        "_context",
        "_count",
        "_global_size",
        "_kernel",
        "_local_size",
        "_memories",
        "_one_each",
        "_order",
        "_repetition",
        "_values",
    )

    def __init__(
        self,
        line: QueueState,
        kernel: SessionKernel,
        memories: Sequence[Memory],
        sizes: tuple[tuple[Any, ...], tuple[Any, ...] | None],
        repetition: Repeater,
    ) -> None:
        """`memories`: what the kernel's arguments refer to. `sizes`: global and local, of a launch without an offset
        and in work-items.
        """
        self._kernel = kernel
        self._order = line.order  # not the queue, which the kernel shall not keep alive
        self._context = line.context
        self._global_size, self._local_size = sizes
        #: by argument: what shall be given for it
        self._values: list[Any] = []
        self._one_each = False  #: whether that is one for each of the kernel's arguments
        self._count = -1  #: arguments of a call; no call has so many before `learn`
        self._memories = memories
        self._repetition = repetition

    def learn(self, kernel: KernelState, args: Sequence[Any]) -> None:
        """The launch was a call of the kernel with `args`: queue, sizes, and the arguments.

        Of a buffer the memory object is kept and not the wrapper, whose end may be its end.
        """
        values = [state_of(arg) if isinstance(arg, MemoryObjectHolder) else arg for arg in args[3:]]
        if all(type(value) is Memory or type(value) in _FIXED for value in values):
            self._values, self._count = values, len(args)
            self._one_each = len(values) == len(kernel.args)

    def called(self, kernel: KernelState, args: tuple[Any, ...]) -> Event | None:
        """The event of a call of `kernel`, whose last launch this was, with `args` that are the same, but for numbers;
        None where there is more to it.
        """
        if len(args) != self._count:
            return None
        others: list[int] | None = None
        for at, known in enumerate(self._values, 3):
            value = args[at]
            if value is known:
                continue
            if type(known) is Memory:
                if not isinstance(value, MemoryObjectHolder) or state_of(value) is not known:
                    return None
            elif not _same(value, known):
                if type(value) is not type(known) or type(value) not in _NUMBERS:
                    return None
                others = [at] if others is None else [*others, at]
        if others is not None:
            return self._with_others(kernel, args, others)
        return self.again(args[0], args[1], args[2], None, False)

    def _with_others(self, kernel: KernelState, args: tuple[Any, ...], others: Sequence[int]) -> Event | None:
        """The event of a call with other numbers at these places of `args`."""
        queue = args[0]
        if not self._one_each or not self._stands(queue, args[1], args[2]):
            return None
        try:
            ndrange = kernel.ndranges[args[1], args[2], None, False]
            numbers = [(at - 3, kernel.convert(at - 3, args[at])) for at in others]
        except Exception:
            return None  # it is made in the usual way, which says what is wrong
        if ndrange is None:
            return None
        for index, number in numbers:
            kernel.args[index] = number
            self._values[index] = args[index + 3]
        captured = tuple([arg.argument if type(arg) is Memory else arg for arg in kernel.args])
        repetition = self._repetition
        if not repetition.with_others(self._order, captured, ndrange):  # type: ignore[arg-type]
            return None
        return self._event(queue)

    def again(
        self, queue: CommandQueue, global_size: Any, local_size: Any, offset: Any, g_times_l: Any
    ) -> Event | None:
        """The event of the same launch, made once more; None where it is not the same or cannot be."""
        if offset is not None or g_times_l is not False or not self._stands(queue, global_size, local_size):
            return None
        return self._event(queue) if self._repetition.again(self._order) else None

    def made_again(self, queue: CommandQueue, global_size: Any, local_size: Any) -> bool:
        """Make the same launch once more, for a caller who wants no event; False where it is not the same or cannot be."""
        return self._stands(queue, global_size, local_size) and self._repetition.again(self._order)

    def _stands(self, queue: CommandQueue, global_size: Any, local_size: Any) -> bool:
        """Whether the launch is to the same queue, with the same index space, on memory that is still there."""
        if type(queue) is not CommandQueue:
            return False
        line = state_of(queue)
        if line.order is not self._order or line.is_finalized:
            return False
        try:
            if global_size != self._global_size or local_size != self._local_size:
                return False
        except ValueError:  # arrays
            return False
        for memory in self._memories:
            if memory.references <= 0:
                return False
        # else more than its arguments may change under their names
        return not is_in_use() or self._kernel.addresses is None

    def _event(self, queue: CommandQueue) -> Event:
        event = _new_event(Event)
        Event.__init__(event, queue, self._context, _COMMAND, self._repetition.completion)
        return event
