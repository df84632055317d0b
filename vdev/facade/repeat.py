"""Calls of a kernel like the previous one: with the same number of arguments, each of the same type as before.

Decides whether a call is like that. If so, each argument is converted by the converter that it had before, without the
function that PyOpenCL has generated for the kernel's signature, and unchanged arguments are not converted at all. Objects
whose content can change (a structure, an array of NumPy's) are never taken as unchanged. Of an array of PyOpenCL's that function makes
two arguments, its memory and an offset, and it waits for the array's events: so does what takes the place of such a call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress, count
from operator import attrgetter, is_, is_not, itemgetter, methodcaller, not_
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vdev.facade.arguments import PACKERS, refuse
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

#: converters of numbers of a type that the kernel was told of, which convert numbers of all types to that one
_PACKING = frozenset(PACKERS.values())
#: what turns an array's offset into the bytes of the kernel's argument
_PACK_OFFSET = PACKERS[b"l"]

#: arguments of a call before the kernel's own: queue, global and local size
_AHEAD = 3

_BYTES_OF = methodcaller("tobytes")
_STATE, _ARGUMENT = attrgetter("_vdev_state"), attrgetter("argument")
#: of an array of PyOpenCL's: its memory, where it begins there, what it waits for; and what tells whether it is contiguous
_BASE_STATE, _OFFSET, _EVENTS = (
    attrgetter("base_data._vdev_state"),
    attrgetter("offset"),
    attrgetter("events"),
)
_QUEUE, _FORM, _IS_CONTIGUOUS = (
    attrgetter("queue"),
    attrgetter("shape", "strides", "dtype"),
    attrgetter("flags.forc"),
)
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

    has_arrays = False  #: whether a call may wait for more than it says (`behind`)
    __slots__ = (
        "_arrange",
        "_captured",
        "_count",
        "_kinds",
        "_memories",
        "_numbers",
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
        self._keep_values(kernel, given)
        self._count = len(args)

    def _keep_values(self, kernel: CalledKernel, given: Sequence[Any]) -> None:
        """Of what is no buffer: what was given, the type that may be given instead, and what a launch captures of it."""
        self._values = [*self._pick_values(given)]
        self._kinds = [type(arg) if type(arg) in _CONVERTED else None for arg in self._values]
        self._captured: list[Any] = [kernel.args[at] for at in self._rest]
        #: their types if all are numbers of NumPy's, whose bytes are what is captured
        self._numbers = [*map(type, self._values)] if self._are_numbers(kernel) else None

    def _are_numbers(self, kernel: CalledKernel) -> bool:
        values, captured = self._values, self._captured
        if not _numbers.issuperset(map(type, values)) or [*map(_BYTES_OF, values)] != captured:
            return False
        return all(map(_keeps_bytes, map(type, values), [kernel.converting[at] for at in self._rest]))

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

    def behind(self, args: Sequence[Any], wait_for: Iterable[Any] | None) -> Iterable[Any] | None:
        """What a call with these arguments waits for. `wait_for`: for what it says."""
        return wait_for

    def _replaced(self, kernel: CalledKernel, memories: list[Any]) -> bool:
        """Set the kernel's buffers to others than before; whether they may take the place of those."""
        number = len(memories)
        if [*map(type, memories)].count(Memory) != number:
            return False
        if [*map(_CONTEXT, memories)].count(kernel.context) != number:
            return False
        self._memories = memories
        _set_each(kernel.args, self._places, memories)
        kernel.repetition = None
        return True

    def _changed(self, kernel: CalledKernel, values: Sequence[Any]) -> bool:
        """Set the kernel's other arguments to these; False if the usual way has to do it."""
        if self._numbers is not None and [*map(type, values)] == self._numbers:
            return self._renumbered(kernel, values)
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

    def _renumbered(self, kernel: CalledKernel, values: Sequence[Any]) -> bool:
        """The same for numbers of NumPy's of the same types as before, all at once."""
        found = [*map(_BYTES_OF, values)]
        self._values = [*values]
        if found != self._captured:
            self._captured = found
            _set_each(kernel.args, self._rest, found)
            if kernel.repetition is not None and not kernel.repetition.takes_values:
                kernel.repetition = None
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


def _keeps_bytes(kind: type[np.generic], converter: Callable[[Any], Any]) -> bool:
    """Whether a converter that has taken one number of that type, and its bytes as they are, does that with all of them. Zero has the same
    bytes in many types.
    """
    if converter in _PACKING:
        return PACKERS.get(np.dtype(kind).char.encode()) is converter
    return converter is not refuse


def _set_each(kept: list[Any], places: Sequence[int], values: Sequence[Any]) -> None:
    """Set what stands at these places, with no step of Python's for each."""
    any(map(kept.__setitem__, places, values))  # which return None


def picking(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Takes what stands at these places of a sequence, in order.

    >>> picking([2, 0])("abc"), picking([1])("abc"), picking([])("abc")
    (('c', 'a'), 'b', '')
    """
    if len(places) > 1:
        return itemgetter(*places)
    start = places[0] if places else 0
    return itemgetter(slice(start, start + len(places)))


class RepeatOfArrays(Repeat):
    """The same where there are arrays of PyOpenCL's among the arguments: of each the kernel gets two."""

    has_arrays = True
    __slots__ = ("_forms", "_offsets", "_offsets_at", "_packed", "_pick_arrays")

    def __init__(self, kernel: CalledKernel, args: Sequence[Any], arrays: Sequence[int]) -> None:
        """`arrays`: where they are among the arguments."""
        given = args[_AHEAD:]
        buffers = [at for at, arg in enumerate(given) if isinstance(arg, MemoryObjectHolder)]
        others = [at for at in range(len(given)) if at not in {*buffers, *arrays}]
        starts = _starts(len(given), arrays)
        self._pick_arrays, self._pick_buffers = picking(arrays), picking(buffers)
        self._pick_values = picking(others)
        #: among the kernel's arguments
        self._places = [starts[at] for at in (*arrays, *buffers)]
        self._rest, self._offsets_at = [starts[at] for at in others], [starts[at] + 1 for at in arrays]
        order = [*self._places, *self._rest, *self._offsets_at]
        self._arrange = picking(sorted(range(len(order)), key=order.__getitem__))
        found = self._pick_arrays(given)
        self._memories = [*map(_BASE_STATE, found), *map(_STATE, self._pick_buffers(given))]
        self._keep_values(kernel, given)
        self._forms, self._offsets = [*map(_FORM, found)], [*map(_OFFSET, found)]
        self._packed = [kernel.args[at] for at in self._offsets_at]
        self._count = len(args)

    def takes(self, kernel: CalledKernel, args: Sequence[Any]) -> Sequence[Argument] | None:
        if len(args) != self._count:
            return None
        given = args[_AHEAD:]
        arrays = self._pick_arrays(given)
        try:
            memories = [*map(_BASE_STATE, arrays), *map(_STATE, self._pick_buffers(given))]
            found = [*map(_ARGUMENT, memories)]
            if min(map(_REFERENCES, memories)) <= 0 or not self._may_be_given(arrays, args[0]):
                return None
            offsets = [*map(_OFFSET, arrays)]
        except AttributeError:  # released, or no array
            return None
        if memories != self._memories and not self._replaced(kernel, memories):
            return None
        if offsets != self._offsets and not self._moved(kernel, offsets):
            return None
        values = self._pick_values(given)
        if not (all(map(is_, values, self._values)) or self._changed(kernel, values)):
            return None
        return self._arrange((*found, *self._captured, *self._packed))

    def _may_be_given(self, arrays: Sequence[Any], queue: Any) -> bool:
        """Whether the generated function takes such arrays: contiguous ones, of that queue."""
        queues = [*map(_QUEUE, arrays)]
        if queues.count(queue) != len(queues) and any(
            each is not None and each is not queue for each in queues
        ):
            return False
        forms = [*map(_FORM, arrays)]
        if forms != self._forms:
            if not all(map(_IS_CONTIGUOUS, arrays)):
                return False
            self._forms = forms
        return True

    def _moved(self, kernel: CalledKernel, offsets: list[Any]) -> bool:
        """Set the kernel's offsets to others than before; False if the usual way has to do it."""
        try:
            packed = [
                kernel.converting[at](value) for at, value in zip(self._offsets_at, offsets, strict=True)
            ]
        except Exception:
            return False
        self._offsets, self._packed = offsets, packed
        for at, each in zip(self._offsets_at, packed, strict=True):
            kernel.args[at] = each
        if kernel.repetition is not None and not kernel.repetition.takes_values:
            kernel.repetition = None
        return True

    def behind(self, args: Sequence[Any], wait_for: Iterable[Any] | None) -> Iterable[Any] | None:
        """Also for the events of its arrays."""
        events = [*map(_EVENTS, self._pick_arrays(args[_AHEAD:]))]
        return [*(wait_for or ()), *chain.from_iterable(events)] if any(events) else wait_for


def _starts(count: int, arrays: Sequence[int]) -> list[int]:
    """Where each of so many arguments begins among a kernel's, which gets two of each array.

    >>> _starts(4, [0, 2])
    [0, 2, 3, 5]
    """
    return [at + sum(other < at for other in arrays) for at in range(count)]


def _arrays_among(kernel: CalledKernel, args: Sequence[Any]) -> list[int]:
    """Where the arrays of PyOpenCL's are among the arguments of a call that has just set the kernel's; none unless each of them has
    become two.
    """
    module = sys.modules.get("pyopencl.array")
    if module is None:
        return []
    given = args[_AHEAD:]
    found = [at for at, arg in enumerate(given) if isinstance(arg, module.Array)]
    if len(given) + len(found) != len(kernel.args):
        return []
    starts = _starts(len(given), found)
    for at in found:
        base, start = given[at].base_data, starts[at]
        if not isinstance(base, MemoryObjectHolder) or kernel.args[start] is not state_of(base):
            return []
        if type(state_of(base)) is not Memory or kernel.converting[start + 1] is not _PACK_OFFSET:
            return []
    return found


def repeat_of(kernel: CalledKernel, args: Sequence[Any]) -> Repeat | None:
    """Takes later calls like the one with these arguments, which has just set the kernel's; None if that is not
    possible.
    """
    arrays: list[int] = []
    if len(args) != len(kernel.args) + _AHEAD:
        arrays = _arrays_among(kernel, args)
        if not arrays:
            return None
    for at, arg in enumerate(args[_AHEAD:]):
        if isinstance(arg, MemoryObjectHolder):
            if type(state_of(arg)) is not Memory:  # an image
                return None
        elif type(arg) not in _FIXED and at not in arrays:
            return None
    return RepeatOfArrays(kernel, args, arrays) if arrays else Repeat(kernel, args)
