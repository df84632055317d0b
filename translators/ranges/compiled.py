"""What plans spend most of their time with, compiled from C (`native/bands.c`).

Decides whether functions of `bands` and `labelled_bands` are those in Python or compiled ones, which stand in their places under
their names and give the same results. Those in Python are the definition; they serve where there is no library, and compiled
functions call them for numbers that are traced.

The library lies beside this module where it was built with the distribution; whoever has compiled it elsewhere calls `load`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable

NAME = "libvdev_ranges.so"
_SOURCE = Path(__file__).with_name("native") / "bands.c"

#: the names of modules that have functions of which there are compiled ones, and those functions in Python
_replaceable: list[tuple[dict[str, Any], dict[str, Any]]] = []
#: gives the compiled function of a name, for the one in Python; None as long as there is no library
_make: Callable[[bytes, Any], Any] | None = None
_looked = False


def key() -> str:
    """What a library has in it that was made from these sources."""
    return hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]


def are_compiled() -> bool:
    """Whether there are compiled functions."""
    return _make is not None


def load(library: ctypes.PyDLL) -> bool:
    """Take functions from a library that was made from these sources, unless there are some; whether there are now."""
    global _make
    if _make is None and library["vdev_ranges_find_python"]():
        import ctypes

        make: Any = library["vdev_range_function"]
        make.restype = ctypes.py_object
        make.argtypes = ctypes.c_char_p, ctypes.py_object
        _make = make
        _put_in_place()
    return are_compiled()


def replace(names: dict[str, Any], functions: Sequence[str]) -> None:
    """Have compiled functions stand in the places of these, among the names of a module: now, or as soon as there are any."""
    _replaceable.append((names, {name: names[name] for name in functions}))
    _look_beside()
    _put_in_place()


@contextmanager
def plainly() -> Iterator[None]:
    """For tests: as if there were no library. Not while other threads work with regions."""
    global _make
    kept, _make = _make, None
    _put_in_place()
    try:
        yield
    finally:
        _make = kept
        _put_in_place()


def _look_beside() -> None:
    """Take the library that came with the distribution, if it was made from these sources and for this machine."""
    global _looked
    if _looked:
        return
    _looked = True
    packed = Path(__file__).with_name(NAME)
    if not packed.is_file() or key().encode() not in packed.read_bytes():
        return
    import ctypes

    try:
        library = ctypes.PyDLL(str(packed))
    except OSError:  # of another machine that shares the disk: as if there were none
        return
    load(library)


def _put_in_place() -> None:
    """Give the modules their functions, compiled if there is a library."""
    for names, functions in _replaceable:
        for name, plain in functions.items():
            names[name] = plain if _make is None else _make(name.encode(), plain)
