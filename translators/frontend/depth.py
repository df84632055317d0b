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

__all__ = ["deep_recursion", "deep_translation"]

#: Frames of Python. A sum of n terms is n nodes deep, and a walk takes several frames for each.
_LIMIT = 6000

_lock = Lock()
#: the limits that the program had, one for each walk that is going on
_before: list[int] = []


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Allow deep recursion meanwhile. Python's limit is one for all threads: the last walk that ends puts it back.

    Raises RecursionError for what is deeper still.
    """
    with _lock:
        _before.append(sys.getrecursionlimit() if not _before else _before[0])
        sys.setrecursionlimit(max(_before[0], _LIMIT))
    try:
        yield
    except ArgumentError as error:
        # ctypes puts its own error in the place of one that comes up while it converts an argument for libclang
        if RecursionError.__name__ in str(error):
            raise RecursionError(str(error)) from error
        raise
    finally:
        with _lock:
            limit = _before.pop()
            if not _before:
                sys.setrecursionlimit(limit)


@contextmanager
def deep_translation() -> Iterator[None]:
    """The same for a translation. Raises Untranslatable for what is deeper still."""
    try:
        with deep_recursion():
            yield
    except RecursionError:
        raise Untranslatable("its expressions are nested too deeply") from None
