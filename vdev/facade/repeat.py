"""Calls of a kernel like the previous one: with the same number of arguments, each of the same type as before.

Decides whether a call is like that. If so, each argument is converted by the converter that it had before, without the
function that PyOpenCL has generated for the kernel's signature, and unchanged arguments are not converted at all. Objects
whose content can change (a structure, an array of NumPy's) are never taken as unchanged. Of an array of PyOpenCL's that function makes
two arguments, its memory and an offset, and it waits for the array's events: so does what takes the place of such a call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vdev.backends import compiled
from vdev.facade.arguments import PACKERS, refuse
from vdev.facade.errors import native
from vdev.facade.handles import state_of
from vdev.facade.images import Sampler
from vdev.facade.memory import Memory, MemoryObjectHolder
from vdev.facade.svm import SVMPointer
from vdev.facade.svm_memory import SVMArgument

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


class CalledKernel(Protocol):
    """A kernel as its calls see it (`vdev.facade.kernel.KernelState`)."""

    context: Context
    args: list[Any]  #: the values of its arguments
    images: Sequence[int]  #: those that are images
    #: by argument: the function that turns its value into what is kept
    converting: list[Callable[[Any], Any]]
    repetition: Any  #: repeats the last launch


class Repeat:
    """The arguments of a kernel's last call, without queue and sizes.

    They are looked at one by one: a step of Python's takes a tenth of the time that an iterator over a few arguments takes to be made.
    """

    has_arrays = False  #: whether a call may wait for more than it says (`behind`)
    __slots__ = ("_buffers", "_captured", "_count", "_keeps", "_kinds", "_memories", "_others", "_values")

    def __init__(self, kernel: CalledKernel, args: Sequence[Any]) -> None:
        places = range(len(args) - _AHEAD)
        self._keep(kernel, args, [(at + _AHEAD, at) for at in places])

    def _keep(self, kernel: CalledKernel, args: Sequence[Any], places: Sequence[tuple[int, int]]) -> None:
        """Keep what there is to know of arguments that are no arrays: by argument, where it is in a call and among the kernel's."""
        are_buffers = {at: isinstance(args[source], MemoryObjectHolder) for source, at in places}
        #: where buffers are in a call, and among the kernel's arguments; and where all others are
        self._buffers = [each for each in places if are_buffers[each[1]]]
        self._others = [each for each in places if not are_buffers[each[1]]]
        #: The memory objects are kept and not the wrappers, since dropping a wrapper may release it.
        self._memories: list[Memory] = [state_of(args[source]) for source, _ in self._buffers]
        #: by the kernel's argument, of those that are neither buffers nor arrays: what was given, the type that may be given
        #: instead, the same where a number's bytes are what is captured, and what a launch captures
        count = len(kernel.args)
        self._values: list[Any] = [None] * count
        self._kinds: list[type | None] = [None] * count
        self._keeps: list[Any] = [None] * count
        self._captured: list[Any] = [None] * count
        for source, at in self._others:
            value, kept = args[source], kernel.args[at]
            kind = type(value)
            self._values[at], self._captured[at] = value, kept
            self._kinds[at] = kind if kind in _CONVERTED else None
            if kind in _numbers and value.tobytes() == kept:
                self._keeps[at] = kind if _keeps_bytes(kind, kernel.converting[at]) else None
        self._count = len(args)

    def takes(self, kernel: CalledKernel, args: Sequence[Any]) -> Sequence[Argument] | None:
        """Set the kernel's arguments to those of another call; what a launch captures of them.

        None if the usual way has to do it, which reports what is wrong with them.
        """
        if len(args) != self._count:
            return None
        found, memories = [*self._captured], []
        try:
            for source, at in self._buffers:
                memory = args[source]._vdev_state
                found[at] = memory.argument
                if memory.references <= 0:
                    return None
                memories.append(memory)
        except AttributeError:  # released, perhaps by another thread just now; or no buffer
            return None
        if memories != self._memories and not self._replaced(kernel, memories):
            return None
        values = self._values
        for source, at in self._others:
            if args[source] is not values[at]:
                return self._with_values(kernel, args, found)
        return (*found,)

    def behind(self, args: Sequence[Any], wait_for: Iterable[Any] | None) -> Iterable[Any] | None:
        """What a call with these arguments waits for. `wait_for`: for what it says."""
        return wait_for

    def _replaced(self, kernel: CalledKernel, memories: list[Any]) -> bool:
        """Set the kernel's buffers to others than before; whether they may take the place of those."""
        context, kept = kernel.context, kernel.args
        for memory in memories:
            if type(memory) is not Memory or memory.context is not context:
                return False
        self._memories = memories
        number = 0
        for _, at in self._buffers:
            kept[at] = memories[number]
            number += 1  # noqa: SIM113 (each launch on other buffers comes here)
        kernel.repetition = None
        return True

    def _with_values(
        self, kernel: CalledKernel, args: Sequence[Any], found: list[Any]
    ) -> Sequence[Argument] | None:
        """Set the kernel's other arguments to those of a call; what a launch captures, of which `found` has the rest. None if the usual
        way has to do it.
        """
        values, captured, keeps = self._values, self._captured, self._keeps
        for source, at in self._others:
            value = args[source]
            if value is values[at]:
                found[at] = captured[at]
            elif type(value) is keeps[at]:  # as in `_changed`, with fewer calls
                values[at], arg = value, value.tobytes()
                found[at] = arg
                if arg != captured[at]:
                    captured[at] = kernel.args[at] = arg
                    repetition = kernel.repetition  # another thread may forget it meanwhile
                    if repetition is not None and not repetition.takes_values:
                        kernel.repetition = None
            elif self._changed(kernel, at, value):
                found[at] = captured[at]
            else:
                return None
        return (*found,)

    def _changed(self, kernel: CalledKernel, at: int, value: Any) -> bool:
        """Set one of the other arguments; False if it cannot have that value in this way."""
        kind, before = self._kinds[at], self._values[at]
        arg: Any
        if kind is None or type(value) is not kind:
            return False
        # numbers that programs make again for each call; there are several kinds of nought
        if value == before and (kind is int or (value and kind in _COMPARED)):
            return True
        try:
            arg = kernel.converting[at](value)
        except Exception:
            return False
        self._values[at] = value
        if arg != self._captured[at]:
            self._captured[at] = kernel.args[at] = arg
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


class RepeatOfImages(Repeat):
    """The same where there are images among the arguments, whose descriptors a launch captures behind all others, and samplers. With
    another sampler, or an image of another kind or access, the usual way sets the arguments.
    """

    __slots__ = ("_descriptors", "_samplers")

    def __init__(self, kernel: CalledKernel, args: Sequence[Any]) -> None:
        super().__init__(kernel, args)
        self._samplers = [source for source, _ in self._others if isinstance(args[source], Sampler)]
        self._describe(kernel)

    def _describe(self, kernel: CalledKernel) -> None:
        self._descriptors = tuple([kernel.args[at].descriptor() for at in kernel.images])

    def takes(self, kernel: CalledKernel, args: Sequence[Any]) -> Sequence[Argument] | None:
        found = super().takes(kernel, args)
        if found is None:
            return None
        for source in self._samplers:
            if not hasattr(args[source], "_vdev_state"):  # released, which the usual way reports
                return None
        return (*found, *self._descriptors)

    def _replaced(self, kernel: CalledKernel, memories: list[Any]) -> bool:
        for memory, before in zip(memories, self._memories, strict=True):
            if memory is before:
                continue
            if type(memory) is not type(before) or memory.context is not kernel.context:
                return False
            # what the kernel's argument has been found to take of the one before
            if type(memory) is not Memory and (memory.type, memory.flags) != (before.type, before.flags):
                return False
        self._memories = memories
        for number, (_, at) in enumerate(self._buffers):
            kernel.args[at] = memories[number]
        kernel.repetition = None
        self._describe(kernel)
        return True


class RepeatOfPointers(Repeat):
    """The same where there are pointers into shared virtual memory among the arguments. As the kernel does, it keeps no memory alive."""

    __slots__ = ("_pointers",)

    def __init__(self, kernel: CalledKernel, args: Sequence[Any], pointers: Sequence[int]) -> None:
        """`pointers`: where they are among the arguments."""
        places = [(at + _AHEAD, at) for at in range(len(args) - _AHEAD)]
        self._keep(kernel, args, [each for at, each in enumerate(places) if at not in pointers])
        #: of each: where it is in a call and among the kernel's arguments, its address, and what the kernel keeps of it
        self._pointers: list[tuple[int, int, int, SVMArgument]] = [
            (*places[at], args[at + _AHEAD].svm_ptr, kernel.args[at]) for at in pointers
        ]

    def takes(self, kernel: CalledKernel, args: Sequence[Any]) -> Sequence[Argument] | None:
        taken = super().takes(kernel, args)
        if taken is None:
            return None
        found = [*taken]
        try:
            for source, at, address, kept in self._pointers:
                pointer = args[source]
                if not isinstance(pointer, SVMPointer) or pointer.svm_ptr != address:
                    return None
                found[at] = kept.argument
        except AttributeError:  # freed: another allocation may have its address by now
            return None
        return (*found,)


class RepeatOfArrays(Repeat):
    """The same where there are arrays of PyOpenCL's among the arguments: of each the kernel gets two."""

    has_arrays = True
    __slots__ = ("_arrays", "_forms", "_offsets", "_plain")

    def __init__(self, kernel: CalledKernel, args: Sequence[Any], arrays: Sequence[int]) -> None:
        """`arrays`: where they are among the arguments."""
        starts = _starts(len(args) - _AHEAD, arrays)
        places = [(at + _AHEAD, start) for at, start in enumerate(starts)]
        self._keep(kernel, args, [each for at, each in enumerate(places) if at not in arrays])
        self._arrays = [places[at] for at in arrays]
        given = [args[source] for source, _ in self._arrays]
        #: where buffers are that are no arrays'; and all of them, arrays' first
        self._plain = self._buffers
        self._buffers = [*self._arrays, *self._buffers]
        self._memories = [*[state_of(array.base_data) for array in given], *self._memories]
        self._forms = [(array.shape, array.strides, array.dtype) for array in given]
        self._offsets = [array.offset for array in given]
        for _, start in self._arrays:
            self._captured[start + 1] = kernel.args[start + 1]

    def takes(self, kernel: CalledKernel, args: Sequence[Any]) -> Sequence[Argument] | None:
        if len(args) != self._count:
            return None
        found, queue, forms = [*self._captured], args[0], self._forms
        memories: list[Memory] = []
        offsets: list[Any] = []
        try:
            for source, at in self._arrays:
                array = args[source]
                if array.queue is not queue and array.queue is not None:
                    return None
                form = array.shape, array.strides, array.dtype
                if form != forms[len(offsets)] and not self._is_contiguous(len(offsets), array, form):
                    return None
                memory = array.base_data._vdev_state
                found[at] = memory.argument
                offsets.append(array.offset)
                memories.append(memory)
            for source, at in self._plain:
                memory = args[source]._vdev_state
                found[at] = memory.argument
                memories.append(memory)
        except AttributeError:  # released, or no array
            return None
        if (memories != self._memories and not self._replaced(kernel, memories)) or (
            offsets != self._offsets and not self._moved(kernel, offsets, found)
        ):
            return None
        values = self._values
        for source, at in self._others:
            if args[source] is not values[at]:
                return self._with_values(kernel, args, found)
        return (*found,)

    def _is_contiguous(self, number: int, array: Any, form: tuple[Any, ...]) -> bool:
        """Whether the generated function takes an array of that form, as the last call's of that number was not."""
        if not array.flags.forc:
            return False
        self._forms[number] = form
        return True

    def _moved(self, kernel: CalledKernel, offsets: list[Any], found: list[Any]) -> bool:
        """Set the kernel's offsets to others than before, also in what is `found` for a launch; False if the usual way has to do it."""
        places = [start + 1 for _, start in self._arrays]
        try:
            packed = [kernel.converting[at](value) for at, value in zip(places, offsets, strict=True)]
        except Exception:
            return False
        self._offsets = offsets
        for at, each in zip(places, packed, strict=True):
            self._captured[at] = kernel.args[at] = found[at] = each
        repetition = kernel.repetition  # as above
        if repetition is not None and not repetition.takes_values:
            kernel.repetition = None
        return True

    def behind(self, args: Sequence[Any], wait_for: Iterable[Any] | None) -> Iterable[Any] | None:
        """Also for the events of its arrays."""
        events = [*wait_for] if wait_for else []
        for source, _ in self._arrays:
            events += args[source].events
        return events or wait_for


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


def _is_inside(kept: object) -> bool:
    """Whether a kernel's argument is a pointer into an allocation, and not to its end, where another one may begin one day."""
    return type(kept) is SVMArgument and kept.offset < kept.allocation.nbytes


def repeat_of(kernel: CalledKernel, args: Sequence[Any]) -> Repeat | None:
    """Takes later calls like the one with these arguments, which has just set the kernel's; None if that is not
    possible.
    """
    arrays: list[int] = []
    if len(args) != len(kernel.args) + _AHEAD:
        arrays = _arrays_among(kernel, args)
        if not arrays:
            return None
    images = kernel.images
    pointers = [at for at, arg in enumerate(args[_AHEAD:]) if isinstance(arg, SVMPointer)]
    if pointers and (arrays or images or not all(_is_inside(kernel.args[at]) for at in pointers)):
        return None
    for at, arg in enumerate(args[_AHEAD:]):
        if isinstance(arg, MemoryObjectHolder):
            if type(state_of(arg)) is not Memory and (arrays or at not in images):
                return None
        elif (
            type(arg) not in _FIXED
            and at not in arrays
            and at not in pointers
            and not (images and type(arg) is Sampler)
        ):
            return None
    if images:
        return None if arrays else RepeatOfImages(kernel, args)
    if pointers:
        return RepeatOfPointers(kernel, args, pointers)
    return RepeatOfArrays(kernel, args, arrays) if arrays else Repeat(kernel, args)


compiled.code.replace_methods(Repeat, ("takes",))  # in `backends/native/launches/repeats.c`
compiled.code.replace_methods(RepeatOfArrays, ("takes",))
compiled.code.replace_methods(Memory, ())  # which those read
