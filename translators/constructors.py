"""Constructors for classes of up to ten fields, compiled with this module: none has to be compiled for a class.

Those of `ASSIGNING` assign their arguments to attributes, those that `PUTTING` makes give them to functions of the object and the
value. They are patterns: attributes and parameters have other names, which `values` puts in. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

Constructor = Callable[..., None]
Put = Callable[[Any, Any], Any]


def _assign_1(self: Any, a: Any) -> None:
    self.a = a


def _assign_2(self: Any, a: Any, b: Any) -> None:
    self.a = a
    self.b = b


def _assign_3(self: Any, a: Any, b: Any, c: Any) -> None:
    self.a = a
    self.b = b
    self.c = c


def _assign_4(self: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d


def _assign_5(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e


def _assign_6(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f


def _assign_7(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g


def _assign_8(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h


def _assign_9(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i


def _assign_10(
    self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any, j: Any
) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j


def _put_1(put_a: Put) -> Constructor:
    def __init__(self: Any, a: Any) -> None:
        put_a(self, a)

    return __init__


def _put_2(put_a: Put, put_b: Put) -> Constructor:
    def __init__(self: Any, a: Any, b: Any) -> None:
        put_a(self, a)
        put_b(self, b)

    return __init__


def _put_3(put_a: Put, put_b: Put, put_c: Put) -> Constructor:
    def __init__(self: Any, a: Any, b: Any, c: Any) -> None:
        put_a(self, a)
        put_b(self, b)
        put_c(self, c)

    return __init__


def _put_4(put_a: Put, put_b: Put, put_c: Put, put_d: Put) -> Constructor:
    def __init__(self: Any, a: Any, b: Any, c: Any, d: Any) -> None:
        put_a(self, a)
        put_b(self, b)
        put_c(self, c)
        put_d(self, d)

    return __init__


def _put_5(put_a: Put, put_b: Put, put_c: Put, put_d: Put, put_e: Put) -> Constructor:
    def __init__(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
        put_a(self, a)
        put_b(self, b)
        put_c(self, c)
        put_d(self, d)
        put_e(self, e)

    return __init__


def _put_6(put_a: Put, put_b: Put, put_c: Put, put_d: Put, put_e: Put, put_f: Put) -> Constructor:
    def __init__(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> None:
        put_a(self, a)
        put_b(self, b)
        put_c(self, c)
        put_d(self, d)
        put_e(self, e)
        put_f(self, f)

    return __init__


def _put_7(put_a: Put, put_b: Put, put_c: Put, put_d: Put, put_e: Put, put_f: Put, put_g: Put) -> Constructor:
    def __init__(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> None:
        put_a(self, a)
        put_b(self, b)
        put_c(self, c)
        put_d(self, d)
        put_e(self, e)
        put_f(self, f)
        put_g(self, g)

    return __init__


def _put_8(
    put_a: Put, put_b: Put, put_c: Put, put_d: Put, put_e: Put, put_f: Put, put_g: Put, put_h: Put
) -> Constructor:
    def __init__(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> None:
        put_a(self, a)
        put_b(self, b)
        put_c(self, c)
        put_d(self, d)
        put_e(self, e)
        put_f(self, f)
        put_g(self, g)
        put_h(self, h)

    return __init__


def _put_9(
    put_a: Put, put_b: Put, put_c: Put, put_d: Put, put_e: Put, put_f: Put, put_g: Put, put_h: Put, put_i: Put
) -> Constructor:
    def __init__(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any) -> None:
        put_a(self, a)
        put_b(self, b)
        put_c(self, c)
        put_d(self, d)
        put_e(self, e)
        put_f(self, f)
        put_g(self, g)
        put_h(self, h)
        put_i(self, i)

    return __init__


def _put_10(
    put_a: Put,
    put_b: Put,
    put_c: Put,
    put_d: Put,
    put_e: Put,
    put_f: Put,
    put_g: Put,
    put_h: Put,
    put_i: Put,
    put_j: Put,
) -> Constructor:
    def __init__(
        self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any, j: Any
    ) -> None:
        put_a(self, a)
        put_b(self, b)
        put_c(self, c)
        put_d(self, d)
        put_e(self, e)
        put_f(self, f)
        put_g(self, g)
        put_h(self, h)
        put_i(self, i)
        put_j(self, j)

    return __init__


#: by number of fields
ASSIGNING: dict[int, FunctionType] = {
    1: _assign_1,  # type: ignore[dict-item]
    2: _assign_2,  # type: ignore[dict-item]
    3: _assign_3,  # type: ignore[dict-item]
    4: _assign_4,  # type: ignore[dict-item]
    5: _assign_5,  # type: ignore[dict-item]
    6: _assign_6,  # type: ignore[dict-item]
    7: _assign_7,  # type: ignore[dict-item]
    8: _assign_8,  # type: ignore[dict-item]
    9: _assign_9,  # type: ignore[dict-item]
    10: _assign_10,  # type: ignore[dict-item]
}

PUTTING: dict[int, Callable[..., Any]] = {
    1: _put_1,
    2: _put_2,
    3: _put_3,
    4: _put_4,
    5: _put_5,
    6: _put_6,
    7: _put_7,
    8: _put_8,
    9: _put_9,
    10: _put_10,
}
