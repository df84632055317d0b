"""Lists of calls of a driver's functions that are made in a row, without the interpreter in between.

A library in C (`native/calls.c`) walks the list. It comes with the installation; where it does not, it is compiled once into the
cache. Without it there are no such lists, and whoever wants one makes its calls one by one.
"""

from __future__ import annotations

import ctypes
import logging
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from vdev.packaging import library as compiling
from vdev.process import folders, switches
from vdev.process.ending import at_end
from vdev.process.private_files import private_folder, read_private, write_private

#: a call of a driver's function, which returns 0 if all went well: of ctypes, with integers or ctypes' objects for parameters
DriverCall = partial[int]
#: what makes calls of a list: of its address, the first, where to stop, and where the result goes; as `native/calls.c` says
Walker = Callable[..., int]

logger = logging.getLogger("vdev.cuda")

_MOST_PARAMETERS = 12
#: seconds that the end of the process waits for a compiler
_LAST = 1.0
#: words of a call: the function's address, how many parameters, and these
_WORDS = 2 + _MOST_PARAMETERS


class NoWalker(RuntimeError):
    """The library cannot be had; the text says why."""


class Place(NamedTuple):
    """What is written to fill in a place of a list (`CallList.place`)."""

    at: int
    function: int
    parameter: int


class CallList:
    """Calls by place, each made in turn or left out. Not for two threads at a time."""

    __slots__ = ("_all", "_functions", "_kept", "_make", "_result", "words")

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
        # ctypes objects: with them the call takes less time
        self._make = partial(walker, ctypes.c_void_p(ctypes.addressof(self.words)))
        result = ctypes.c_void_p(ctypes.addressof(self._result))
        self._all = partial(self._make, ctypes.c_int64(0), ctypes.c_int64(len(calls)), result)

    def place(self, number: int, parameter: int = 0) -> Place:
        """How a place is filled in: the index of the word that is `function` where the call is made and 0 where it is left out, that
        function, and the index of a parameter.
        """
        at = number * _WORDS
        return Place(at, self._functions[number], at + 2 + parameter)

    def make_all(self) -> int:
        """Make all calls, up to the first that fails: its place; the number of places if none does."""
        return self._all()

    def make(self, first: int, stop: int) -> int:
        """The same from place `first` on, before `stop`."""
        result = ctypes.c_void_p(ctypes.addressof(self._result))
        return self._make(ctypes.c_int64(first), ctypes.c_int64(stop), result)

    @property
    def result(self) -> int:
        """What the call that has failed last returned."""
        return self._result.value


#: what a call within a context returns where it was not made, since the calling thread has another context
ELSEWHERE = -1


def within(call: DriverCall, ask: Any, own: int) -> Callable[[], int]:
    """A function that makes a call if the calling thread's context is `own`, and says so (`ELSEWHERE`) otherwise, and always as long as
    the library is not at hand. `ask`: the driver's function that gives a thread's context. Asking and calling are one step, and take a
    fraction of the time that ctypes takes for many parameters.
    """
    function = _made_within
    if function is None:
        return _elsewhere
    words = (ctypes.c_uint64 * (2 + _WORDS))(
        ctypes.cast(ask, ctypes.c_void_p).value or 0, own, *_words_of(call)
    )
    return partial(function, ctypes.byref(words))  # which keeps them


def _elsewhere() -> int:
    return ELSEWHERE


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


_loading = threading.Lock()
#: of the library, once it is loaded
_made_within: Walker | None = None


def have_at_hand() -> None:
    """Load the library, so that `within` has it, where that takes no compiler. Where what a compiler makes is kept, it is begun here, and
    goes on beside the caller.
    """
    with suppress(NoWalker, OSError):  # whoever needs lists is told
        if _made_within is None and _is_there():
            walker()
        elif _made_within is None and switches.cache():
            thread = threading.Thread(target=_compile_beside, name="vdev-calls", daemon=True)
            thread.start()
            at_end(partial(thread.join, _LAST))


def _compile_beside() -> None:
    with suppress(NoWalker):
        walker()


def walker() -> Walker:
    """What walks lists. Raises NoWalker, each time with the same text."""
    with _loading:
        found = _walker()
    if isinstance(found, NoWalker):
        raise NoWalker(str(found))
    return found


@lru_cache(maxsize=1)
def _walker() -> Walker | NoWalker:
    global _made_within
    try:
        # The interpreter lock is kept, as for each call alone: none of the calls waits, and whoever lets the lock go may get it back
        # milliseconds later.
        library = _library()
        function, made_within = library["vdev_make_calls"], library["vdev_make_within"]
    except AttributeError:
        return NoWalker("how this system passes parameters is not known")
    except (OSError, compiling.NoCompiler) as error:
        return NoWalker(str(error))
    function.restype, made_within.restype = ctypes.c_int64, ctypes.c_int32
    _made_within = made_within
    return function


def _packed(key: str) -> Path | None:
    """The library that came with the installation, if it was made from these sources."""
    packed = Path(__file__).with_name(compiling.CALLS_NAME)
    return packed if packed.is_file() and key.encode() in packed.read_bytes() else None


def _kept(key: str) -> Path:
    """Where the cache has the library, or will have it."""
    return private_folder(folders.cache_dir()) / f"calls-{key}-{sysconfig.get_platform()}"


def _is_there() -> bool:
    """Whether nothing has to be compiled, most likely."""
    key = compiling.calls_key()
    return _packed(key) is not None or (switches.cache() and (_kept(key) / compiling.CALLS_NAME).is_file())


def _library() -> ctypes.PyDLL:
    """The one that came with the installation, if it was made from these sources and for this machine, else the one in the cache."""
    key = compiling.calls_key()
    packed = _packed(key)
    if packed is not None:
        try:
            return ctypes.PyDLL(str(packed))
        except OSError as error:  # of another machine that shares the disk
            logger.info("the library that came with the installation cannot be loaded: %s", error)
    folder = None
    if switches.cache():
        folder = _kept(key)
        if read_private(private_folder(folder), compiling.CALLS_NAME) is not None:
            try:
                return ctypes.PyDLL(str(folder / compiling.CALLS_NAME))
            except OSError as error:  # cut short
                logger.info("the library in the cache cannot be loaded, and is compiled again: %s", error)
    with tempfile.TemporaryDirectory(prefix="vdev-") as scratch:
        target = Path(scratch, compiling.CALLS_NAME)
        compiling.compile_calls(target)
        if folder is not None:
            write_private(folder, compiling.CALLS_NAME, target.read_bytes())
        return ctypes.PyDLL(str(target))
