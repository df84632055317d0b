"""Calls of a kernel like the previous one: with the same number of arguments, each of the same type as before.

Decides whether a call is like that. If so, each argument is converted by the converter that it had before, without the
function that PyOpenCL has generated for the kernel's signature, and unchanged arguments are not converted at all. Objects
whose content can change (a structure, an array) are never taken as unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress, count
from operator import attrgetter, is_, is_not, itemgetter, not_
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
#: of these, the types of numbers that are equal only if their bytes are, nought aside
_COMPARED = frozenset(
    {int, float, *(kind for kind in _numbers if not issubclass(kind, np.complexfloating | np.longdouble))}
)

#: arguments of a call before the kernel's own: queue, global and local size
_AHEAD = 3

_STATE, _ARGUMENT = attrgetter("_vdev_state"), attrgetter("argument")
_REFERENCES, _CONTEXT = attrgetter("references"), attrgetter("context")


class CalledKernel(Protocol):
    """A kernel as its calls see it (`vdev.facade.kernel.KernelState`)."""

    context: Context
    args: list[Any]  #: the values of its arguments
    #: by argument: the function that turns its value into what is kept
    converting: list[Callable[[Any], Any]]
    repetition: Any  #: repeats the last launch


class Repeat:
    """The arguments of a kernel's last call, without queue and sizes.

    Buffers are looked at all at once, by functions that take no step of Python's for each of them.
    """

    __slots__ = (
        "_arrange",
        "_captured",
        "_count",
        "_kinds",
        "_memories",
        "_pick_buffers",
        "_pick_values",
        "_places",
        "_rest",
        "_values",
    )

    def __init__(self, kernel: CalledKernel, args: Sequence[Any]) -> None:
        given = args[_AHEAD:]
        are_buffers = [isinstance(arg, MemoryObjectHolder) for arg in given]
        #: where the buffers are among the arguments, and where all others are
        self._places = [*compress(count(), are_buffers)]
        self._rest = [*compress(count(), map(not_, are_buffers))]
        self._pick_buffers, self._pick_values = picking(self._places), picking(self._rest)
        order = [*self._places, *self._rest]
        #: takes buffers, and all others behind them, in the order of the arguments
        self._arrange = picking(sorted(range(len(order)), key=order.__getitem__))
        #: The memory objects are kept and not the wrappers, since dropping a wrapper may release it.
        self._memories: list[Memory] = [*map(_STATE, self._pick_buffers(given))]
        #: of the others: what was given, and the type that may be given instead
        self._values = [*self._pick_values(given)]
        self._kinds = [type(arg) if type(arg) in _CONVERTED else None for arg in self._values]
        #: and what a launch captures of them
        self._captured: list[Any] = [*self._pick_values(kernel.args)]
        self._count = len(args)

    def takes(self, kernel: CalledKernel, args: Sequence[Any]) -> Sequence[Argument] | None:
        """Set the kernel's arguments to those of another call; what a launch captures of them.

        None if the usual way has to do it, which reports what is wrong with them.
        """
        if len(args) != self._count:
            return None
        given = args[_AHEAD:]
        try:
            memories = [*map(_STATE, self._pick_buffers(given))]
            found = [*map(_ARGUMENT, memories)]
            if memories and min(map(_REFERENCES, memories)) <= 0:
                return None
        except AttributeError:  # released, perhaps by another thread just now; or no buffer
            return None
        if memories != self._memories and not self._replaced(kernel, memories):
            return None
        values = self._pick_values(given)
        if not (all(map(is_, values, self._values)) or self._changed(kernel, values)):
            return None
        return self._arrange((*found, *self._captured))

    def _replaced(self, kernel: CalledKernel, memories: list[Any]) -> bool:
        """Set the kernel's buffers to others than before; whether they may take the place of those."""
        number = len(memories)
        if [*map(type, memories)].count(Memory) != number:
            return False
        if [*map(_CONTEXT, memories)].count(kernel.context) != number:
            return False
        self._memories, kept = memories, kernel.args
        for at, memory in zip(self._places, memories, strict=True):
            kept[at] = memory
        kernel.repetition = None
        return True

    def _changed(self, kernel: CalledKernel, values: Sequence[Any]) -> bool:
        """Set the kernel's other arguments to these; False if the usual way has to do it."""
        for number in compress(count(), map(is_not, values, self._values)):
            value, kind = values[number], self._kinds[number]
            if type(value) is not kind:
                return False
            # numbers that programs make again for each call; there are several kinds of nought
            if value == self._values[number] and (kind is int or (value and kind in _COMPARED)):
                continue
            if not self._converts(kernel, number, value):
                return False
        return True

    def _converts(self, kernel: CalledKernel, number: int, value: Any) -> bool:
        """Set one of the other arguments; False if it cannot have that value."""
        at = self._rest[number]
        try:
            arg: Any = kernel.converting[at](value)
        except Exception:
            return False
        self._values[number] = value
        if arg != self._captured[number]:
            self._captured[number] = kernel.args[at] = arg
            repetition = kernel.repetition
            if repetition is not None and not (type(arg) is bytes and repetition.takes_values):
                kernel.repetition = None
        return True


def picking(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Takes what stands at these places of a sequence, in order.

    >>> picking([2, 0])("abc"), picking([1])("abc"), picking([])("abc")
    (('c', 'a'), 'b', '')
    """
    if len(places) > 1:
        return itemgetter(*places)
    start = places[0] if places else 0
    return itemgetter(slice(start, start + len(places)))


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
