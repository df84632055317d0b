"""Functions and methods of Python's that a library compiled from C has as well, and which of the two is used.

Decides whether functions among the names of a module, and methods of classes whose objects have slots, are those in Python or compiled
ones, which stand in their places under their names and give the same results. Those in Python are the definition; they serve where there is
no library, and compiled ones call them for whatever is not as it mostly is.
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

#: slots that no object of Python's can be put into
_NO_VALUES = ("__weakref__", "__dict__")


class NativeCode:
    """What one library has of functions and methods. It lies beside a module where it was built with the distribution; whoever has compiled
    it elsewhere calls `load`.
    """

    def __init__(self, packed: Path, sources: Sequence[Path], prefix: str) -> None:
        """`packed`: where it lies. `sources`: the folders of what it is made from. `prefix`: with which the names begin that it exports."""
        self.packed, self._sources, self._prefix = packed, sources, prefix
        #: the names of modules that have functions of which there are compiled ones, and those functions in Python
        self.replaceable: list[tuple[dict[str, Any], dict[str, Any]]] = []
        #: classes that have methods of which there are compiled ones, and those methods in Python
        self.with_methods: list[tuple[type, dict[str, Any]]] = []
        #: gives the compiled function of a name, for the one in Python; None as long as there is no library
        self.make: Callable[[bytes, Any], Any] | None = None
        #: gives the compiled methods of a class, for those in Python: none for a class whose objects it does not know
        self._make_methods: Callable[[type, dict[str, Any]], dict[str, Any]] | None = None
        self._looked = False

    def key(self) -> str:
        """What a library has in it that was made from these sources."""
        sources = [source for folder in self._sources for source in sorted(folder.iterdir())]
        return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]

    def are_compiled(self) -> bool:
        """Whether there are compiled functions."""
        return self.make is not None

    def load(self, library: ctypes.PyDLL) -> bool:
        """Take functions from a library that was made from these sources, unless there are some; whether there are now."""
        if self.make is None and library[f"{self._prefix}_find_python"]():
            import ctypes

            make: Any = library[f"{self._prefix}_function"]
            make.restype = ctypes.py_object
            make.argtypes = ctypes.c_char_p, ctypes.py_object
            self.make, self._make_methods = make, self._maker_of_methods(library)
            self._put_in_place()
        return self.are_compiled()

    def replace(self, names: dict[str, Any], functions: Sequence[str]) -> None:
        """Have compiled functions stand in the places of these, among the names of a module: now, or as soon as there are any."""
        self.replaceable.append((names, {name: names[name] for name in functions}))
        self._look_beside()
        self._put_in_place()

    def replace_methods(self, cls: type, methods: Sequence[str]) -> None:
        """The same for methods of a class whose objects have slots and nothing else; none are replaced where it is not seen how these
        lie in memory.
        """
        self.with_methods.append((cls, {name: cls.__dict__[name] for name in methods}))
        self._look_beside()
        self._put_in_place()

    def _maker_of_methods(self, library: ctypes.PyDLL) -> Callable[[type, dict[str, Any]], dict[str, Any]]:
        import ctypes

        make: Any = library[f"{self._prefix}_method"]
        make.restype = ctypes.py_object
        make.argtypes = ctypes.c_char_p, ctypes.c_char_p, ctypes.py_object
        find: Any = library[f"{self._prefix}_slots"]
        find.argtypes = ctypes.c_char_p, ctypes.py_object, ctypes.py_object, ctypes.py_object

        def methods(cls: type, plain: dict[str, Any]) -> dict[str, Any]:
            # one of a class with the same slots, whose objects are let go without what finalisers do
            example: Any = object.__new__(type(cls.__name__, (cls,), {"__slots__": (), "__del__": _nothing}))
            values: dict[str, Any] = {}
            for slot in _slots_of(cls):
                values[slot] = None if slot in _NO_VALUES else [slot]
                if slot not in _NO_VALUES:
                    getattr(cls, slot).__set__(
                        example, values[slot]
                    )  # objects of some classes cannot be changed otherwise
            name = cls.__name__.encode()
            found = find(name, cls, example, values)
            if not found:
                return {}
            return {method: make(name, method.encode(), function) for method, function in plain.items()}

        return methods

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """For tests: as if there were no library. Not while other threads use what is compiled."""
        kept, self.make, self._make_methods = (self.make, self._make_methods), None, None
        self._put_in_place()
        try:
            yield
        finally:
            self.make, self._make_methods = kept
            self._put_in_place()

    def _look_beside(self) -> None:
        """Take the library that came with the distribution, if it was made from these sources and for this machine."""
        if self._looked:
            return
        self._looked = True
        if not self.packed.is_file() or self.key().encode() not in self.packed.read_bytes():
            return
        import ctypes

        try:
            library = ctypes.PyDLL(str(self.packed))
        except OSError:  # of another machine that shares the disk: as if there were none
            return
        self.load(library)

    def _put_in_place(self) -> None:
        """Give modules their functions, and classes their methods, compiled if there is a library."""
        for names, functions in self.replaceable:
            for name, plain in functions.items():
                names[name] = plain if self.make is None else self.make(name.encode(), plain)
        for cls, methods in self.with_methods:
            made = {} if self._make_methods is None else self._make_methods(cls, methods)
            for name, plain in methods.items():
                setattr(cls, name, made.get(name, plain))


def _slots_of(cls: type) -> list[str]:
    """The names of its objects' slots, those of its bases as well."""
    named = [each.__dict__.get("__slots__", ()) for each in cls.__mro__]
    return [slot for slots in named for slot in ((slots,) if isinstance(slots, str) else slots)]


def _nothing(example: object) -> None:
    """In place of a finaliser."""
