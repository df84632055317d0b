"""A kernel's arguments, checked against its signature.

Decides what may be given for each parameter and what bytes it is; every refusal names the kernel, the argument, what was
expected and what came.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdev.backends.base import LocalBytes
from vdev.translators.frontend.source import ArgInfo

Array = npt.NDArray[Any]
Dtype = np.dtype[Any]

_VECTOR = re.compile(r"(u?(?:char|short|int|long)|half|float|double)(2|3|4|8|16)")
_SCALARS = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8", "ulong": "u8",
    "half": "f2", "float": "f4", "double": "f8",
}  # fmt: skip


class ArgumentError(TypeError):
    """An argument that does not fit the kernel's signature."""


@dataclass(frozen=True)
class Empty:
    """A buffer that nobody has written yet; comes back as an array."""

    shape: tuple[int, ...]
    dtype: Dtype


@dataclass(frozen=True)
class Given:
    """A buffer with an array's content. `whole`: the array, as it was given."""

    whole: Array


#: What an argument has become: a buffer, the bytes of a value, local memory, or a null pointer.
Ready = Given | Empty | bytes | LocalBytes | None


def empty(shape: int | Sequence[int], dtype: npt.DTypeLike) -> Empty:
    """An argument: a buffer for an array of this shape, without content. Reading an element before writing it is a
    finding.
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return Empty(sizes, np.dtype(dtype))


def local(count: int, dtype: npt.DTypeLike = np.uint8) -> LocalBytes:
    """An argument: local memory for `count` elements."""
    return LocalBytes(count * np.dtype(dtype).itemsize)


def prepare(
    kernel: str, infos: Sequence[ArgInfo], types: Mapping[int, Dtype], args: Sequence[Any]
) -> list[Ready]:
    """Every argument as a launch takes it. `types`: by number, what pointers point to (see
    `translators.frontend.layout`). Raises ArgumentError.

    """
    if len(args) != len(infos):
        names = ", ".join(f"{info.type_name} {info.name}" for info in infos)
        raise ArgumentError(f"kernel {kernel} takes {len(infos)} arguments ({names}), {len(args)} were given")
    return [
        _Parameter(kernel, index, info, types.get(index)).take(arg)
        for index, (info, arg) in enumerate(zip(infos, args, strict=True))
    ]


@dataclass(frozen=True)
class _Parameter:
    """One parameter of a kernel."""

    kernel: str
    index: int
    info: ArgInfo
    element: Dtype | None

    def take(self, arg: Any) -> Ready:
        match self.info.kind:
            case "global" | "constant":
                return self._buffer(arg)
            case "local":
                return self._local(arg)
            case "value":
                return self._value(arg)
            case kind:
                raise self._error(f"an {kind}, which kernels are not given here", arg)

    def _error(self, expected: str, came: Any) -> ArgumentError:
        info = self.info
        where = f"kernel {self.kernel}, argument {self.index} ({info.type_name} {info.name})"
        return ArgumentError(f"{where}: expected {expected}; got {_described(came)}")

    def _buffer(self, arg: Any) -> Ready:
        if arg is None:
            return None
        if isinstance(arg, Empty):
            self._check_element(arg.dtype, prod(arg.shape) * arg.dtype.itemsize, arg)
            return arg
        if not isinstance(arg, np.ndarray):
            raise self._error(f"{self._elements()}, or None for a null pointer", arg)
        if not arg.flags.c_contiguous:
            raise self._error("an array in C order without gaps", arg)
        self._check_element(arg.dtype, arg.nbytes, arg)
        return Given(arg)

    def _elements(self) -> str:
        return "an array" if self.element is None else f"an array of {_named(self.element)}"

    def _check_element(self, dtype: Dtype, nbytes: int, arg: Any) -> None:
        if self.element is not None and not self._fits(dtype):
            raise self._error(self._elements(), arg)
        if nbytes % self.info.nbytes:
            raise self._error(f"a multiple of {self.info.nbytes} bytes", arg)
        if not nbytes:
            raise self._error("at least one element", arg)

    def _fits(self, dtype: Dtype) -> bool:
        assert self.element is not None
        if self.element.names is None:
            if dtype.names is not None:  # a vector as PyOpenCL's types have it
                return dtype.itemsize == self.info.nbytes and {t for _, t in _leaves(dtype)} == {self.element}
            return dtype == self.element
        return dtype.itemsize == self.element.itemsize and _without_padding(dtype, self.element)

    def _local(self, arg: Any) -> LocalBytes:
        if not isinstance(arg, LocalBytes):
            raise self._error("local memory (vdev.harness.local)", arg)
        if not arg.nbytes or arg.nbytes % self.info.nbytes:
            raise self._error(f"local memory of a multiple of {self.info.nbytes} bytes", arg)
        return arg

    def _value(self, arg: Any) -> bytes:
        if self.info.scalar is not None:
            return self._scalar(self.info.scalar, arg)
        vector = _VECTOR.fullmatch(self.info.type_name)
        if vector is not None:
            return self._vector(np.dtype(_SCALARS[vector[1]]), int(vector[2]), arg)
        if not isinstance(arg, np.void | np.ndarray) or arg.nbytes != self.info.nbytes:
            raise self._error(f"one element of a structured array, of {self.info.nbytes} bytes", arg)
        return arg.tobytes()

    def _scalar(self, code: str, arg: Any) -> bytes:
        dtype = np.dtype(code)
        expected = f"a number of type {dtype.name}"
        if isinstance(arg, np.generic | np.ndarray):
            if arg.dtype != dtype or arg.size != 1:
                raise self._error(expected, arg)
            return arg.tobytes()
        if not isinstance(arg, int | float) or (isinstance(arg, float) and dtype.kind != "f"):
            raise self._error(expected, arg)
        try:
            return struct.pack("=" + code, arg)
        except (struct.error, OverflowError):
            raise self._error(expected, arg) from None

    def _vector(self, dtype: Dtype, count: int, arg: Any) -> bytes:
        expected = f"{count} numbers of type {dtype.name}"
        if isinstance(arg, np.void) and arg.nbytes == self.info.nbytes:
            return arg.tobytes()
        if isinstance(arg, np.ndarray):
            if arg.dtype != dtype or arg.size != count:
                raise self._error(expected, arg)
        elif not isinstance(arg, tuple | list) or len(arg) != count:
            raise self._error(expected, arg)
        found = np.zeros(self.info.nbytes // dtype.itemsize, dtype)
        found[:count] = np.asarray(arg).reshape(-1)
        return found.tobytes()


def _leaves(dtype: Dtype, byte: int = 0) -> list[tuple[int, Dtype]]:
    """(byte, type) of the scalars in a type."""
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        return [leaf for k in range(prod(shape)) for leaf in _leaves(inner, byte + k * inner.itemsize)]
    if dtype.names is None:
        return [(byte, dtype)]
    assert dtype.fields is not None
    members = (dtype.fields[name] for name in dtype.names)
    return [leaf for inner, offset, *_ in members for leaf in _leaves(inner, byte + offset)]


def _without_padding(dtype: Dtype, element: Dtype) -> bool:
    """Whether two structures have the same scalars at the same bytes; one may name what is padding in the other."""
    mine, other = set(_leaves(dtype)), set(_leaves(element))
    return other <= mine


def _named(dtype: Dtype) -> str:
    if dtype.names is None:
        return str(dtype.name)
    members = ", ".join(f"{kind.name} at byte {byte}" for byte, kind in _leaves(dtype))
    return f"structures of {dtype.itemsize} bytes ({members})"


def _described(arg: Any) -> str:
    match arg:
        case np.ndarray() if arg.flags.c_contiguous:
            return f"an array of {_named(arg.dtype)}, shape {arg.shape}"
        case np.ndarray():
            return f"an array of {_named(arg.dtype)}, shape {arg.shape}, strides {arg.strides}"
        case Empty():
            return f"an empty array of {_named(arg.dtype)}, shape {arg.shape}"
        case LocalBytes():
            return f"local memory of {arg.nbytes} bytes"
        case np.generic():
            return f"{arg!r} of type {arg.dtype.name}"
        case None:
            return "None"
        case _:
            return f"{arg!r} of type {type(arg).__name__}"
