"""Calls of a driver's functions without what ctypes does for each: lists of them that are made in a row, without the interpreter in
between, and prepared calls, which are made one by one.

A library in C (`native/calls.c`) makes them. It comes with the installation; where it does not, it is compiled once into the
cache. Without it there are no lists, whoever wants one makes its calls one by one; and a prepared call is made by ctypes.
"""

from __future__ import annotations

import ctypes
import threading
from _ctypes import CFuncPtr
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from vdev.backends import own_libraries
from vdev.packaging import library as compiling

#: a call of a driver's function, which returns 0 if all went well: of ctypes, with integers or ctypes' objects for parameters
DriverCall = partial[int]
#: what makes calls of a list: of its address, the first, where to stop, and where the result goes; as `native/calls.c` says
Walker = Callable[..., int]
#: one that takes no arguments: what the driver's function returns
PreparedCall = Callable[[], int]

_MOST_PARAMETERS = 12
#: words of a call: the function's address, how many parameters, and these
_WORDS = 2 + _MOST_PARAMETERS
#: the number of the word that says how many bytes are copied (`struct boxes` in `native/calls.c`)
_NBYTES_AT = 10
_OneCall = ctypes.c_uint64 * _WORDS


class NoWalker(RuntimeError):
    """The library cannot be had; the text says why."""


class Place(NamedTuple):
    """What is written to fill in a place of a list (`CallList.place`)."""

    at: int
    function: int
    parameter: int


class CallList:
    """Calls by place, each made in turn or left out. Not for two threads at a time."""

    __slots__ = ("_all", "_count", "_functions", "_kept", "_make", "_result", "words")

    def __init__(
        self,
        walker: Walker,
        calls: Sequence[DriverCall],
        left_out: Collection[int] = (),
        keeps: object = None,
    ) -> None:
        """`left_out`: places whose calls are not made unless they are put. `keeps`: kept as long as this, since calls may point there."""
        #: of all calls. Who fills in places for each launch writes here what `place` says.
        self.words = (ctypes.c_uint64 * (_WORDS * len(calls)))()
        self._functions: list[int] = []
        for place, call in enumerate(calls):
            at = place * _WORDS
            for number, word in enumerate(_words_of(call)):
                self.words[at + number] = word
            self._functions.append(self.words[at])
            if place in left_out:
                self.words[at] = 0
        self._result = ctypes.c_int32()
        self._kept = (tuple(calls), keeps)
        self._make = partial(walker, ctypes.c_void_p(ctypes.addressof(self.words)))
        self._count = len(calls)
        owner = self.words, self._kept
        #: made with one call; a number tells what is wrong, as `native/calls.c` says
        self._all = None if _prepare is None else _prepare(self.words, self._count, waits=False, owner=owner)

    def place(self, number: int, parameter: int = 0) -> Place:
        """How a place is filled in: the index of the word that is `function` where the call is made and 0 where it is left out, that
        function, and the index of a parameter.
        """
        at = number * _WORDS
        return Place(at, self._functions[number], at + 2 + parameter)

    def make_all(self) -> int:
        """Make all calls, up to the first that fails: its place; the number of places if none does."""
        if self._all is None:
            return self.make(0, self._count)
        wrong = self._all()
        if not wrong:
            return self._count
        result = self._result.value = ctypes.c_int32(wrong).value
        return wrong - result >> 32

    def make(self, first: int, stop: int) -> int:
        """The same from place `first` on, before `stop`."""
        result = ctypes.c_void_p(ctypes.addressof(self._result))
        return self._make(ctypes.c_int64(first), ctypes.c_int64(stop), result)

    @property
    def result(self) -> int:
        """What the call that has failed last returned."""
        return self._result.value


class Addresses:
    """Words of calls that are addresses in memories: they are told of other memories all at once. Not for two threads at a time."""

    __slots__ = ("_kept", "_now", "_write")

    def __init__(self, words: Sequence[tuple[int, int]], memories: Sequence[int], apart: int) -> None:
        """`words`: where one is, which the caller keeps, and the number of the memory that it points into. `memories`: by number, where
        they begin. Those that take each other's place are to be a multiple of `apart` bytes away from each other. Raises NoWalker.
        """
        walker()
        assert _place is not None, "the library is there"
        first = (ctypes.c_uint64 * len(memories))(*memories)
        self._now: Any = type(first)(*memories)
        table = (ctypes.c_uint64 * (3 * len(words)))()
        for number, (at, memory) in enumerate(words):
            ahead = ctypes.c_uint64.from_address(at).value - memories[memory]
            table[3 * number : 3 * number + 3] = [at, memory, ahead & (1 << 64) - 1]
        places = [ctypes.c_void_p(ctypes.addressof(each)) for each in (table, first, self._now)]
        numbers = [ctypes.c_uint64(each) for each in (len(words), len(memories), apart)]
        call = partial(_place, places[0], numbers[0], *places[1:], *numbers[1:])
        self._kept = table, first
        self._write = prepared(call)

    def move(self, memories: Sequence[int]) -> bool:
        """Have the calls take place in memories that begin there; False, and nothing has changed, if they cannot."""
        self._now[:] = memories
        return not self._write()


class CopyingLaunch(NamedTuple):
    """A launch that copies boxes: where it has what it is launched with, all addresses."""

    parameters: int  #: words: a box's nine; of several boxes, their units in all and the nine of each
    groups: int  #: 32 bits
    started: int  #: a word with the function
    again: int  #: another one
    most_groups: int
    width: int  #: items of a group
    most_nbytes: int  #: bytes that it does not reach
    functions: Sequence[int]  #: those for units of 1, 2, 4, 8 and 16 bytes


class Boxes:
    """What has a launch copy other boxes: the blocks of buffers' bytes that there are now, between memories that have such bytes. Not for
    two threads at a time.
    """

    __slots__ = ("_fill", "_kept", "_table")

    def __init__(
        self,
        launch: CopyingLaunch,
        blocks: ctypes.Array[ctypes.c_int64],
        memories: ctypes.Array[ctypes.c_int64],
        boxes: Sequence[tuple[int, int, int]],
    ) -> None:
        """`blocks`: the numbers of each, as `Block` has them. `memories`: of each, its address, and the first byte that it has and one past
        the last. `boxes`: the number of a block, and those of the memories from which and to which it is copied.
        """
        walker()
        assert _fill_boxes is not None, "the library is there"
        *parts, functions = launch
        words = [ctypes.addressof(blocks), ctypes.addressof(memories), len(boxes), *parts, 0, *functions]
        words += [number for box in boxes for number in box]
        self._table = (ctypes.c_uint64 * len(words))(*words)
        self._kept = blocks, memories
        call = partial(_fill_boxes, ctypes.c_void_p(ctypes.addressof(self._table)))
        self._fill = prepared(call)

    def fill(self) -> bool:
        """Have the launch copy the boxes; False, and nothing has changed, if it cannot."""
        return not self._fill()

    @property
    def nbytes(self) -> int:
        """How many bytes it copies since then."""
        return self._table[_NBYTES_AT]


def _words_of(call: DriverCall) -> list[int]:
    """A function's address, the number of its parameters, and these."""
    function: Any = call.func
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address, "a function of a library"
    assert len(call.args) <= _MOST_PARAMETERS
    return [address, len(call.args), *[_word(each) for each in call.args]]


def _word(parameter: Any) -> int:
    value = parameter if isinstance(parameter, int) else parameter.value
    return int(value or 0) & (1 << 64) - 1


class _Preparing:
    """Makes prepared calls, by the library."""

    def __init__(self, library: ctypes.PyDLL) -> None:
        self._make: Any = library["vdev_prepare"]
        self._make.restype = ctypes.py_object
        self._make.argtypes = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.py_object

    def __call__(self, words: ctypes.Array[Any], count: int, *, waits: bool, owner: object) -> PreparedCall:
        """A function that makes so many calls, whose words these are; 0, or what is wrong as `native/calls.c` says. It keeps the
        `owner` of the words, and of what they point to.
        """
        made: PreparedCall = self._make(ctypes.addressof(words), count, waits, owner)
        return made


_loading = threading.Lock()
#: once the library is there: what makes prepared calls, and its function that `Addresses` calls
_prepare: _Preparing | None = None
_place: Any = None
_fill_boxes: Any = None  #: the one that `Boxes` calls


def prepared(call: DriverCall | PreparedCall, *, waits: bool = False) -> PreparedCall:
    """The call as a function that takes a tenth of ctypes' time; the call itself where the library is not there (`walker` brings it), or
    where what it calls is none of ctypes' functions.

    `waits`: for a call that may take long, during which other threads run. Others keep the interpreter lock, as ctypes.PyDLL does: who
    lets it go may get it back milliseconds later, and a launch takes microseconds. (Where a thousand launches wait for the device, the
    driver has the next one wait until one has begun; nothing of Python's is needed for that.)
    """
    prepare = _prepare
    if prepare is None or not _is_of_ctypes(call):
        return call
    words = _OneCall(*_words_of(call))
    return prepare(words, 1, waits=waits, owner=(words, call))


def changing(call: DriverCall, *parameters: int) -> tuple[PreparedCall, Sequence[Callable[[int], object]]]:
    """The same for a call of which these parameters, ctypes objects, are others each time; and what sets each."""
    prepare = _prepare
    if prepare is None or not _is_of_ctypes(call):
        return call, [partial(setattr, call.args[each], "value") for each in parameters]
    words = _OneCall(*_words_of(call))
    setters = [partial(words.__setitem__, 2 + each) for each in parameters]
    return prepare(words, 1, waits=False, owner=(words, call)), setters


def _is_of_ctypes(call: DriverCall | PreparedCall) -> TypeGuard[DriverCall]:
    return isinstance(call, partial) and isinstance(call.func, CFuncPtr)


def walker() -> Walker:
    """What walks lists. Raises NoWalker, each time with the same text."""
    with _loading:
        found = _walker()
    if isinstance(found, NoWalker):
        raise NoWalker(str(found))
    return found


@lru_cache(maxsize=1)
def _walker() -> Walker | NoWalker:
    global _prepare, _place, _fill_boxes
    try:
        # The interpreter lock is kept, as for each call alone: see `prepared`.
        library = _library()
        function, _place = library["vdev_make_calls"], library["vdev_place"]
        _fill_boxes = library["vdev_fill_boxes"]
    except AttributeError:
        return NoWalker("how this system passes parameters is not known")
    except (OSError, compiling.NoCompiler) as error:
        return NoWalker(str(error))
    function.restype = ctypes.c_int64
    if library["vdev_find_python"]():
        _prepare = _Preparing(library)
    return function


def _library() -> ctypes.PyDLL:
    """The one that came with the installation, or one in the cache."""
    packed = Path(__file__).with_name(compiling.CALLS_NAME)
    return own_libraries.find("calls", compiling.calls_key(), packed, compiling.compile_calls)
