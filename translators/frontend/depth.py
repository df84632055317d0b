"""How deeply the walks over a program's syntax may recurse.

Decides the limit alone. What a walk makes of a program that is nested deeper still, its caller says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import ArgumentError
from threading import Lock

from .kernels import Untranslatable

__all__ = ["DeepRecursion", "deep_translation"]

#: Frames of Python. A sum of n terms is n nodes deep, and a walk takes several frames for each.
_LIMIT = 6000

_lock = Lock()
#: the limits that the program had, one for each walk that is going on
_before: list[int] = []


class DeepRecursion:
    """Allow deep recursion within a `with`. Python's limit is one for all threads: the last walk that ends puts it back. A class, since
    what a generator takes would show in short analyses.

    Raises RecursionError for what is deeper still.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        with _lock:
            limit = sys.getrecursionlimit()
            _before.append(_before[0] if _before else limit)
            if limit < _LIMIT:
                sys.setrecursionlimit(_LIMIT)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        with _lock:
            limit = _before.pop()
            if not _before:
                sys.setrecursionlimit(limit)
        # ctypes puts its own error in the place of one that comes up while it converts an argument for libclang
        if kind is ArgumentError and RecursionError.__name__ in str(error):
            raise RecursionError(str(error)) from error


@contextmanager
def deep_translation() -> Iterator[None]:
    """The same for a translation. Raises Untranslatable for what is deeper still."""
    try:
        with DeepRecursion():
            yield
    except RecursionError:
        raise Untranslatable("its expressions are nested too deeply") from None
