"""What plans spend most of their time with, compiled from C (`native/`): sets of bytes, numbers that are traced, iteration domains.

Decides whether functions of `bands`, `labelled_bands`, `slicing` and others, and methods of regions, of domains and of numbers that are
traced, are those in Python or compiled ones, which stand in their places under their names and give the same results. Those in Python
are the definition; they serve where there is no library, and compiled ones call them for whatever is not as it mostly is.

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
_SOURCES = Path(__file__).with_name("native")

#: the names of modules that have functions of which there are compiled ones, and those functions in Python
_replaceable: list[tuple[dict[str, Any], dict[str, Any]]] = []
#: classes that have methods of which there are compiled ones, and those methods in Python
_with_methods: list[tuple[type, dict[str, Any]]] = []
#: gives the compiled function of a name, for the one in Python; None as long as there is no library
_make: Callable[[bytes, Any], Any] | None = None
#: gives the compiled methods of a class, for those in Python: none for a class whose objects it does not know
_make_methods: Callable[[type, dict[str, Any]], dict[str, Any]] | None = None
_looked = False


def key() -> str:
    """What a library has in it that was made from these sources."""
    sources = sorted(_SOURCES.iterdir())
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def are_compiled() -> bool:
    """Whether there are compiled functions."""
    return _make is not None


def load(library: ctypes.PyDLL) -> bool:
    """Take functions from a library that was made from these sources, unless there are some; whether there are now."""
    global _make, _make_methods
    if _make is None and library["vdev_ranges_find_python"]():
        import ctypes

        make: Any = library["vdev_range_function"]
        make.restype = ctypes.py_object
        make.argtypes = ctypes.c_char_p, ctypes.py_object
        _make = make
        _make_methods = _maker_of_methods(library)
        _put_in_place()
    return are_compiled()


def replace(names: dict[str, Any], functions: Sequence[str]) -> None:
    """Have compiled functions stand in the places of these, among the names of a module: now, or as soon as there are any."""
    _replaceable.append((names, {name: names[name] for name in functions}))
    _look_beside()
    _put_in_place()


def replace_methods(cls: type, methods: Sequence[str]) -> None:
    """The same for methods of a class whose objects have slots and nothing else; none are replaced where it is not seen how these
    lie in memory."""
    _with_methods.append((cls, {name: cls.__dict__[name] for name in methods}))
    _look_beside()
    _put_in_place()


def _maker_of_methods(library: ctypes.PyDLL) -> Callable[[type, dict[str, Any]], dict[str, Any]]:
    import ctypes

    make: Any = library["vdev_range_method"]
    make.restype = ctypes.py_object
    make.argtypes = ctypes.c_char_p, ctypes.c_char_p, ctypes.py_object
    find: Any = library["vdev_range_slots"]
    find.argtypes = ctypes.c_char_p, ctypes.py_object, ctypes.py_object, ctypes.py_object

    def methods(cls: Any, plain: dict[str, Any]) -> dict[str, Any]:
        example, values = object.__new__(cls), {slot: [slot] for slot in cls.__slots__}
        for slot, value in values.items():
            setattr(example, slot, value)
        name = cls.__name__.encode()
        if not find(name, cls, example, values):
            return {}
        return {method: make(name, method.encode(), function) for method, function in plain.items()}

    return methods


@contextmanager
def plainly() -> Iterator[None]:
    """For tests: as if there were no library. Not while other threads work with regions."""
    global _make, _make_methods
    kept, _make, _make_methods = (_make, _make_methods), None, None
    _put_in_place()
    try:
        yield
    finally:
        _make, _make_methods = kept
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
    """Give modules their functions, and classes their methods, compiled if there is a library."""
    for names, functions in _replaceable:
        for name, plain in functions.items():
            names[name] = plain if _make is None else _make(name.encode(), plain)
    for cls, methods in _with_methods:
        made = {} if _make_methods is None else _make_methods(cls, methods)
        for name, plain in methods.items():
            setattr(cls, name, made.get(name, plain))
