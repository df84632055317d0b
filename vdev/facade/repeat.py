"""Calls of a kernel like the previous one: with the same number of arguments, each of the same type as before.

Decides whether a call is like that. If so, each argument is converted by the converter that it had before, without the
function that PyOpenCL has generated for the kernel's signature, and unchanged arguments are not converted at all. Objects
whose content can change (a structure, an array) are never taken as unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.facade.errors import native
from vdev.facade.handles import state_of
from vdev.facade.memory import Memory, MemoryObjectHolder

if TYPE_CHECKING:
    from vdev.facade.kernel import KernelState

_numbers = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_)}
#: what stays as it is
_FIXED = frozenset({bool, int, float, complex, bytes, type(None), native.LocalMemory, *_numbers})
#: of these, what another one of the type is converted as well
_CONVERTED = frozenset({int, float, bytes, native.LocalMemory, *_numbers})

#: arguments of a call ahead of the kernel's own: queue, and global and local size
_AHEAD = 3


class Repeat:
    """The arguments of a kernel's last call: queue, sizes, and those of the kernel."""

    __slots__ = ("_count", "_kinds", "_values")

    def __init__(self, args: Sequence[Any]) -> None:
        #: by argument: what was given for it, and the type of what may be given instead. Of a buffer the memory object is
        #: kept and not the wrapper, whose end may be its end.
        self._values = [state_of(arg) if isinstance(arg, MemoryObjectHolder) else arg for arg in args]
        self._values[:_AHEAD] = [None] * _AHEAD
        self._kinds = [
            type(arg) if type(arg) in _CONVERTED or isinstance(arg, MemoryObjectHolder) else None
            for arg in args
        ]
        self._count = len(args)

    def takes(self, kernel: KernelState, args: Sequence[Any]) -> bool:
        """Set the kernel's arguments to those of another call. False where the usual way has to, which says what is
        wrong with them.
        """
        values, kinds, kept = self._values, self._kinds, kernel.args
        if len(args) != self._count:
            return False
        for at in range(_AHEAD, self._count):
            value, known = args[at], values[at]
            if value is known:
                continue
            if type(value) is not kinds[at]:
                return False
            index = at - _AHEAD
            if type(known) is Memory:
                value = arg = state_of(value)
                if not _is_usable(arg, kernel):
                    return False
            else:
                try:
                    arg = kernel.converting[index](value)
                except Exception:
                    return False
            values[at] = value
            if arg != kept[index]:
                kept[index] = arg
                kernel.repetition = None
        return True


def _is_usable(memory: Any, kernel: KernelState) -> bool:
    """Whether it may stand where a buffer of the kernel's context has stood."""
    return type(memory) is Memory and memory.references > 0 and memory.context is kernel.context


def repeat_of(kernel: KernelState, args: Sequence[Any]) -> Repeat | None:
    """What takes calls like one with these arguments, which has just set the kernel's; None where that cannot be."""
    if len(args) != len(kernel.args) + _AHEAD:
        return None
    for arg in args[_AHEAD:]:
        if isinstance(arg, MemoryObjectHolder):
            if type(state_of(arg)) is not Memory:  # an image
                return None
        elif type(arg) not in _FIXED:
            return None
    return Repeat(args)
