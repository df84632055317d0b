"""A kernel's arguments, checked against its signature.

Decides what may be given for each parameter and which bytes the kernel gets; every refusal names the kernel, the argument,
what was expected and what was given.
"""

from __future__ import annotations

import operator
import re
import reprlib
import struct
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdev.backends.base import LocalBytes
from vdev.harness.pixels import AXES, READ_ALONE, Image, Sampler, descriptor, shapes_of
from vdev.translators.frontend.source import ArgInfo
from vdev.translators.values import dataclass

Array = npt.NDArray[Any]
Dtype = np.dtype[Any]

_VECTOR = re.compile(r"(u?(?:char|short|int|long)|half|float|double)(2|3|4|8|16)")
_SCALARS = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8", "ulong": "u8",
    "half": "f2", "float": "f4", "double": "f8",
}  # fmt: skip
#: the characters of `struct` for them
_CODES = {
    "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f2": "e", "f4": "f", "f8": "d",
    "b1": "?",
}  # fmt: skip


#: What a vector of three consists of, as the layout names it.
_OF_THREE = (".x", ".y", ".z")


class ArgumentError(TypeError):
    """An argument that does not fit the kernel's signature."""


#: For pytest: a refused argument shows the user's line, and no line of this module.
__tracebackhide__ = operator.methodcaller("errisinstance", ArgumentError)


@dataclass(frozen=True)
class Empty:
    """An uninitialised buffer; returned as an array. `descriptor`: for an image, what kernels get besides the memory."""

    shape: tuple[int, ...]
    dtype: Dtype
    descriptor: bytes = b""


@dataclass(frozen=True)
class Given:
    """A buffer with an array's content. `whole`: the array as it was given. `descriptor`: as in `Empty`."""

    whole: Array
    descriptor: bytes = b""


#: What an argument becomes: a buffer, the bytes of a value, local memory, or a null pointer.
Ready = Given | Empty | bytes | LocalBytes | None


def empty(shape: int | Sequence[int], dtype: npt.DTypeLike) -> Empty:
    """An argument: a buffer for an array of this shape, without content. Reading an element before writing it is a
    finding.
    """
    sizes = (operator.index(shape),) if not isinstance(shape, Sequence) else tuple(map(operator.index, shape))
    if min(sizes, default=1) < 0:
        raise ArgumentError(f"empty: a shape has no negative sizes; got {shape}")
    return Empty(sizes, np.dtype(dtype))


def local(count: int, dtype: npt.DTypeLike = np.uint8) -> LocalBytes:
    """An argument: local memory for `count` elements."""
    return LocalBytes(operator.index(count) * np.dtype(dtype).itemsize)


def prepare(
    kernel: str, infos: Sequence[ArgInfo], types: Mapping[int, Dtype], args: Sequence[Any]
) -> list[Ready]:
    """Every argument in the form that a launch takes.

    `types`: by number, what pointers point to and what values are (see `translators.frontend.layout`). Raises
    ArgumentError.
    """
    if len(args) != len(infos):
        names = ", ".join(f"{info.type_name} {info.name}" for info in infos)
        takes = f"{len(infos)} argument{'s' if len(infos) != 1 else ''} ({names})"
        raise ArgumentError(
            f"kernel {kernel} takes {takes}, {len(args)} {'was' if len(args) == 1 else 'were'} given"
        )
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
            case "image":
                return self._image(arg)
            case "sampler":
                return self._sampler(arg)
            case kind:
                raise self._error(f"no {kind}: the harness cannot pass one", arg)

    def _error(self, expected: str, came: Any, hint: str = "") -> ArgumentError:
        info = self.info
        where = f"kernel {self.kernel}, argument {self.index} ({info.type_name} {info.name})"
        return ArgumentError(
            f"{where}: expected {expected}; got {_described(came)}" + (f" ({hint})" if hint else "")
        )

    def _buffer(self, arg: Any) -> Ready:
        if arg is None:
            return None
        if isinstance(arg, Empty):
            if arg.dtype.hasobject:
                raise self._error(f"{self._elements()}, not of Python's objects", arg)
            self._check_element(arg.dtype, arg.shape, arg)
            return arg
        if not isinstance(arg, np.ndarray):
            raise self._error(f"{self._elements()}, or None for a null pointer", arg)
        if arg.dtype.hasobject:
            raise self._error(f"{self._elements()}, not of Python's objects", arg)
        self._check_element(arg.dtype, arg.shape, arg)
        if not arg.flags.c_contiguous:
            raise self._error("an array in C order without gaps", arg, "numpy.ascontiguousarray makes one")
        return Given(np.asarray(arg))

    def _image(self, arg: Any) -> Given | Empty:
        name = next((word for word in self.info.type_name.split() if word in AXES), "")
        given = arg if isinstance(arg, Image) else Image(arg)
        if given.order in READ_ALONE and self.info.access_qualifier != "read_only":
            raise self._error(f"an order of channels that kernels can write, which {given.order} is not", arg)
        content = given.content
        if not name or not isinstance(content, np.ndarray | Empty):
            shapes = f" of {shapes_of(name)}" if name else ""
            raise self._error(f"an array{shapes}, empty(…) or image(…)", arg)
        try:
            packed = descriptor(name, content.shape, content.dtype, given)
        except ValueError as reason:
            raise self._error(str(reason), content) from None
        if isinstance(content, Empty):
            return Empty(content.shape, content.dtype, packed)
        if not content.flags.c_contiguous:
            raise self._error(
                "an array in C order without gaps", content, "numpy.ascontiguousarray makes one"
            )
        return Given(np.asarray(content), packed)

    def _sampler(self, arg: Any) -> bytes:
        if not isinstance(arg, Sampler):
            raise self._error("a sampler (vdev.harness.sampler)", arg)
        return arg.packed

    def _elements(self) -> str:
        if self.element is None:
            return "an array"
        if self.plain != self.element:
            return f"an array of {_named(self.plain)} with four for each {self.info.type_name[:-1]}"
        return f"an array of {_named(self.element)}"

    @property
    def plain(self) -> Dtype:
        """The element's type; for a vector of three, its components', with room for a fourth."""
        assert self.element is not None
        kinds = {kind for _, kind in _leaves(self.element)}
        return kinds.pop() if self.element.names == _OF_THREE else self.element

    def _check_element(self, dtype: Dtype, shape: tuple[int, ...], arg: Any) -> None:
        if self.element is not None and not self._fits(dtype):
            raise self._error(self._elements(), arg, self._hint(dtype))
        nbytes = prod(shape) * dtype.itemsize
        threes = self.element is not None and self.plain == dtype != self.element and shape[-1:] == (3,)
        if nbytes % self.info.nbytes or threes:
            hint = "the fourth of four is padding" if threes else ""
            raise self._error(f"a multiple of {self.info.nbytes} bytes", arg, hint)
        if not nbytes:
            raise self._error("at least one element", arg)

    def _hint(self, dtype: Dtype) -> str:
        if dtype.newbyteorder("=") == self.plain:
            return f"give array.astype({_named(self.plain)}): the device uses the other byte order"
        if dtype == np.bool_ and self.plain.itemsize == 1:
            return f"give array.view({_named(self.plain)})"
        if dtype.names is None and self.element is not None and self.element.names is None:
            return f"give array.astype({_named(self.plain)})"
        return ""

    def _fits(self, dtype: Dtype) -> bool:
        assert self.element is not None
        if dtype == self.plain:
            return True
        if dtype.kind == "c":  # as a pair of numbers
            return self.info.nbytes == dtype.itemsize and np.dtype(f"f{dtype.itemsize // 2}") == self.element
        if self.element.names is None and dtype.names is not None:  # a vector in PyOpenCL's types
            return dtype.itemsize == self.info.nbytes and {t for _, t in _leaves(dtype)} == {self.element}
        return (
            self.element.names is not None
            and dtype.itemsize == self.element.itemsize
            and _without_padding(dtype, self.element)
        )

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
        if (
            not isinstance(arg, np.void | np.ndarray)
            or arg.nbytes != self.info.nbytes
            or not self._alike(arg)
        ):
            members = "" if self.element is None else f": {_named(self.element)}"
            raise self._error(f"one element of a structured array, of {self.info.nbytes} bytes{members}", arg)
        return arg.tobytes()

    def _alike(self, arg: np.void | Array) -> bool:
        """Whether a structure has the parameter's scalars at the same bytes."""
        return self.element is None or (arg.size == 1 and _without_padding(arg.dtype, self.element))

    def _scalar(self, code: str, arg: Any) -> bytes:
        dtype = np.dtype(code)
        found = _packed(dtype, arg)
        if found is None:
            hint = f"give a Python number, or numpy.{dtype.name}(…)" if isinstance(arg, np.generic) else ""
            raise self._error(f"a number of type {dtype.name}{_range(dtype)}", arg, hint)
        return found

    def _vector(self, dtype: Dtype, count: int, arg: Any) -> bytes:
        expected = f"{count} numbers of type {dtype.name}{_range(dtype)}"
        if isinstance(arg, np.ndarray) and arg.dtype.names is not None and arg.size == 1:
            arg = arg.reshape(-1)[0]  # as PyOpenCL makes vectors
        if isinstance(arg, np.void) and arg.nbytes == self.info.nbytes:
            if {kind for _, kind in _leaves(arg.dtype)} != {dtype}:
                raise self._error(expected, arg)
            return arg.tobytes()
        if isinstance(arg, np.ndarray):
            if arg.dtype != dtype or arg.size != count:
                raise self._error(expected, arg)
            numbers: list[Any] = list(arg.reshape(-1))
        elif isinstance(arg, complex | np.complexfloating) and count == 2:
            numbers = [float(arg.real), float(arg.imag)]
        elif isinstance(arg, tuple | list) and len(arg) == count:
            numbers = list(arg)
        else:
            raise self._error(expected, arg)
        parts = [_packed(dtype, number) for number in numbers]
        if None in parts:
            raise self._error(expected, arg)
        return b"".join(part for part in parts if part is not None).ljust(self.info.nbytes, b"\0")


def _packed(dtype: Dtype, arg: Any) -> bytes | None:
    """The bytes of a number of this type; None if it is not a number that the type can hold."""
    if isinstance(arg, np.generic | np.ndarray):
        return arg.tobytes() if arg.dtype == dtype and arg.size == 1 else None
    if not isinstance(arg, int | float) or (isinstance(arg, float) and dtype.kind != "f"):
        return None
    try:
        return struct.pack("=" + _CODES[dtype.str[1:]], arg)
    except (struct.error, OverflowError):
        return None


def _range(dtype: Dtype) -> str:
    if dtype.kind not in "iu":
        return ""
    return f" ({np.iinfo(dtype).min} to {np.iinfo(dtype).max})" if dtype.itemsize < 8 else ""


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
    """Whether two structures have the same scalars at the same bytes. One of them may name fields that are padding in
    the other.
    """
    mine, other = set(_leaves(dtype)), set(_leaves(element))
    return other <= mine


def _named(dtype: Dtype) -> str:
    if dtype.names is None:
        return str(dtype.name) + ("" if dtype.isnative else " in the other byte order")
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
        case Image():
            return f"an image of {_described(arg.content)}"
        case Sampler():
            return repr(arg)
        case LocalBytes():
            return f"local memory of {arg.nbytes} bytes"
        case np.generic():
            return f"{arg!r} of type {arg.dtype.name}"
        case None:
            return "None"
        case _:
            return f"{reprlib.repr(arg)} of type {type(arg).__name__}"
