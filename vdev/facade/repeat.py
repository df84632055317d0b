"""Calls of a kernel like the previous one: with the same number of arguments, each of the same type as before.

Decides whether a call is like that. If so, each argument is converted by the converter that it had before, without the
function that PyOpenCL has generated for the kernel's signature, and unchanged arguments are not converted at all. Objects
whose content can change (a structure, an array) are never taken as unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress, count
from operator import is_not
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vdev.facade.errors import native
from vdev.facade.handles import state_of
from vdev.facade.memory import Memory, MemoryObjectHolder

if TYPE_CHECKING:
    from vdev.facade.context import Context
    from vdev.session.commands import Argument

_numbers = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_)}
#: types whose objects never change
_FIXED = frozenset({bool, int, float, complex, bytes, type(None), native.LocalMemory, *_numbers})
#: of these, the types of which another object is converted in the same way
_CONVERTED = frozenset({int, float, bytes, native.LocalMemory, *_numbers})

#: arguments of a call before the kernel's own: queue, global and local size
_AHEAD = 3


class CalledKernel(Protocol):
    """A kernel as its calls see it (`vdev.facade.kernel.KernelState`)."""

    context: Context
    args: list[Any]  #: the values of its arguments
    #: by argument: the function that turns its value into what is kept
    converting: list[Callable[[Any], Any]]
    repetition: Any  #: repeats the last launch


class Repeat:
    """The arguments of a kernel's last call, without queue and sizes."""

    __slots__ = ("_captured", "_count", "_kinds", "_values")

    def __init__(self, kernel: CalledKernel, args: Sequence[Any]) -> None:
        given = args[_AHEAD:]
        #: by argument: what was given for it, and the type that may be given instead. Of a buffer the memory object
        #: is kept and not the wrapper, since dropping the wrapper may release it.
        self._values = [state_of(arg) if isinstance(arg, MemoryObjectHolder) else arg for arg in given]
        self._kinds = [
            type(arg) if type(arg) in _CONVERTED or isinstance(arg, MemoryObjectHolder) else None
            for arg in given
        ]
        #: the arguments as a launch captures them, without what keeps memory alive
        self._captured: list[Any] = [None if type(kept) is Memory else kept for kept in kernel.args]
        self._count = len(args)

    def takes(self, kernel: CalledKernel, args: Sequence[Any]) -> tuple[Argument, ...] | None:
        """Set the kernel's arguments to those of another call; what a launch captures of them.

        None if the usual way has to do it, which reports what is wrong with them.
        """
        if len(args) != self._count:
            return None
        given, values, kinds = args[_AHEAD:], self._values, self._kinds
        captured = self._captured.copy()
        for at in compress(count(), map(is_not, given, values)):
            value, known, kind = given[at], values[at], kinds[at]
            if type(value) is not kind:
                return None
            if kind is int and value == known:  # as sizes are, which are new objects each time
                continue
            if type(known) is Memory:
                arg = self._replaced(kernel, at, value._vdev_state, known)
            else:
                arg = self._converted(kernel, at, value)
            if arg is None:
                return None
            captured[at] = arg
        return tuple(captured)

    def _replaced(self, kernel: CalledKernel, at: int, memory: Any, known: Memory) -> Argument:
        """What a launch captures of a buffer, which may be another one than `known`; None if it must not take that one's place."""
        if type(memory) is not Memory or memory.references <= 0:
            return None
        if memory is not known:
            if memory.context is not kernel.context:
                return None
            self._values[at] = kernel.args[at] = memory
            kernel.repetition = None
        found: Argument = getattr(memory, "argument", None)
        return found

    def _converted(self, kernel: CalledKernel, at: int, value: Any) -> Argument:
        """What a launch captures of another value; None if the argument cannot have that value."""
        try:
            arg: Any = kernel.converting[at](value)
        except Exception:
            return None
        self._values[at] = value
        before = self._captured[at]
        if arg == before:
            return before  # type: ignore[no-any-return]
        self._captured[at] = kernel.args[at] = arg
        repetition = kernel.repetition
        if repetition is not None and not (type(arg) is bytes and repetition.takes_values):
            kernel.repetition = None
        return arg  # type: ignore[no-any-return]


def repeat_of(kernel: CalledKernel, args: Sequence[Any]) -> Repeat | None:
    """Takes later calls like the one with these arguments, which has just set the kernel's; None if that is not
    possible.
    """
    if len(args) != len(kernel.args) + _AHEAD:
        return None
    for arg in args[_AHEAD:]:
        if isinstance(arg, MemoryObjectHolder):
            if type(state_of(arg)) is not Memory:  # an image
                return None
        elif type(arg) not in _FIXED:
            return None
    return Repeat(kernel, args)
