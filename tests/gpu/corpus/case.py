"""What a kernel of the corpus is: data, and what may be made of it without running it.

Decides how inputs are drawn and how far results may be apart; never runs anything.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: OpenCL C's scalar types as NumPy's
TYPES = {
    "char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16, "int": np.int32, "uint": np.uint32,
    "long": np.int64, "ulong": np.uint64, "half": np.float16, "float": np.float32, "double": np.float64,
}  # fmt: skip
INTEGERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
REALS = ("float", "double")
WIDTHS = (1, 2, 3, 4, 8, 16)


@dataclass(frozen=True)
class Local:
    """A local argument of so many bytes."""

    nbytes: int


Argument = Array | np.generic | Local


@dataclass(frozen=True, eq=False)
class Case:
    """One kernel and one launch of it.

    `args`: arrays become buffers with that content, NumPy scalars and structured scalars are values. `outputs`: indices of the
    arguments to compare afterwards. `ulp`: how far two real results may be apart in units in the last place (both sides have
    errors of their own); integers are to be equal. `expected`: what the outputs hold, for devices whose own compiler lacks what the
    kernel uses. `native_errs`: why `expected` counts even where a native compiler has the kernel, since one is known that
    computes something else; with the clause of OpenCL C 1.2, of 2.0 for what came with it. `needs`: extensions that a device
    may lack. `alone`: the text shares names with others and may not stand in one program with them.
    """

    name: str
    source: str
    kernel: str
    args: tuple[Argument, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    outputs: tuple[int, ...]
    ulp: float = 0
    options: tuple[str, ...] = ()
    expected: tuple[Array, ...] | None = None
    needs: tuple[str, ...] = ()
    alone: bool = False
    compare: bool = field(default=True)
    native_errs: str = ""

    def stating(self, *expected: Array, native_errs: str = "") -> Case:
        """This case with what its outputs hold (shaped as the arguments), computed from the inputs."""
        held = tuple(
            np.ascontiguousarray(values, given.dtype).reshape(given.shape)
            for values, given in zip(expected, (self.args[index] for index in self.outputs), strict=True)
            if isinstance(given, np.ndarray)
        )
        return replace(self, expected=held, native_errs=native_errs)


def differences(found: Array, expected: Array, ulp: float) -> Array:
    """Indices (of the flattened arrays) at which they are further apart than allowed.

    An infinity is one unit beyond the largest finite number: what errs by less than `ulp` units there (7.4) is rounded to it.

    >>> one = np.array([1, np.nan, 0], np.float32)
    >>> differences(one, np.array([1 + 2**-23, np.nan, -0.0], np.float32), 1)
    array([], dtype=int64)
    >>> differences(np.array([np.inf, np.inf]), np.array([np.finfo(float).max, 1e308]), 4)
    array([1])
    """
    a, b = found.reshape(-1), expected.reshape(-1)
    if a.dtype.kind != "f":
        if a.dtype.fields is not None:
            a, b = a.view(np.uint8), b.view(np.uint8)
        return np.flatnonzero(a != b)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if ulp:
            same |= ~np.isnan(a) & ~np.isnan(b) & (_apart(a, b) <= ulp)
    return np.flatnonzero(~same)


def _apart(a: Array, b: Array) -> Array:
    """Distance in units of the last place: of the numbers' order as integers, zeros being one."""
    kind = np.dtype(f"i{a.dtype.itemsize}")
    lowest = np.int64(np.iinfo(kind).min)
    x, y = (
        np.where(bits < 0, lowest - bits, bits)
        for bits in (array.view(kind).astype(np.int64) for array in (a, b))
    )
    rough = np.abs(x.astype(np.float64) - y)
    return np.where(rough < 2.0**60, np.abs(x - y), rough)  # exact where it does not leave 64 bits


def generator(name: str) -> np.random.Generator:
    """Random numbers that are the same in each run."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def integers(name: str, type_: str, count: int, low: int | None = None, high: int | None = None) -> Array:
    """Random integers, of all magnitudes where no range is given, and the extremes among them."""
    kind = TYPES[type_]
    info = np.iinfo(kind)
    random = generator(name)
    if low is not None and high is not None:
        return random.integers(low, high, count, endpoint=True, dtype=np.int64).astype(kind)
    bits = random.integers(0, info.bits + 1, count)
    whole = random.integers(info.min, info.max, count, endpoint=True, dtype=kind)
    result = np.where(bits < info.bits, whole >> np.minimum(bits, info.bits - 1).astype(kind), whole).astype(
        kind
    )
    edges = np.array([0, 1, info.max, info.min, info.max - 1, info.max // 2 + 1], kind)
    place = random.permutation(count)[: len(edges)]
    result[place] = edges[: len(place)]
    return result


def reals(
    name: str, type_: str, count: int, low: float = -100.0, high: float = 100.0, *, edges: bool = False
) -> Array:
    """Random numbers of a range; `edges` puts zeros, ones, infinities, not-a-number and the smallest numbers among them."""
    kind = TYPES[type_]
    random = generator(name)
    result = (low + (high - low) * random.random(count)).astype(kind)
    if edges:
        info = np.finfo(kind)
        special = np.array(
            [
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                -2.0,
                3.0,
                np.inf,
                -np.inf,
                np.nan,
                info.max,
                -info.max,
                info.tiny,
                info.smallest_subnormal,
            ],
            kind,
        )
        result[random.permutation(count)[: len(special)]] = special[:count]
    return result


def drawn(name: str, type_: str, count: int) -> Array:
    return reals(name, type_, count) if type_ in ("half", *REALS) else integers(name, type_, count)


def vector(type_: str, width: int) -> str:
    return type_ if width == 1 else f"{type_}{width}"


def load(width: int, pointer: str, index: str = "i") -> str:
    return f"{pointer}[{index}]" if width == 1 else f"vload{width}({index}, {pointer})"


def store(width: int, value: str, pointer: str, index: str = "i") -> str:
    return f"{pointer}[{index}] = {value}" if width == 1 else f"vstore{width}({value}, {index}, {pointer})"


#: Work-items of a launch, unless it matters
COUNT = 64


def function_case(
    name: str,
    call: str,
    inputs: Sequence[tuple[str, Array]],
    result: str,
    *,
    width: int = 1,
    ulp: float = 0,
    options: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
) -> Case:
    """`call` of the arguments a, b, c of `inputs` (scalar type and COUNT * width numbers each), stored as vectors of `width`
    components of `result`.
    """
    letters = "abcdef"[: len(inputs)]
    parameters = ", ".join(
        f"global const {type_} *{x}_" for x, (type_, _) in zip(letters, inputs, strict=True)
    )
    loads = " ".join(
        f"{vector(type_, width)} {x} = {load(width, x + '_')};"
        for x, (type_, _) in zip(letters, inputs, strict=True)
    )
    source = (
        f"kernel void {name}({parameters}, global {result} *r_) {{\n"
        f"  size_t i = get_global_id(0); {loads}\n  {store(width, call, 'r_')};\n}}\n"
    )
    out = np.zeros(COUNT * width, TYPES[result])
    return Case(
        name,
        source,
        name,
        (*(array for _, array in inputs), out),
        (COUNT,),
        None,
        (len(inputs),),
        ulp,
        options,
        needs=needs,
    )


Maker = Callable[[], list[Case]]
