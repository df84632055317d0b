"""Comparing the contents of buffers: which bytes belong to which element, which differences are rounding, and copies of
memory in which all but certain bytes have other values.

Pure; knows types of elements, plain or structured, and nothing of launches. What a difference means is for
`vdev.check.checking`.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Dtype = np.dtype[np.generic]

_FEW_RUNS = 1000  #: runs of a region that are gone through one by one, at most
_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8", "ulong": "u8",
    "half": "f2", "float": "f4", "double": "f8",
}  # fmt: skip


def element_type(type_name: str, nbytes: int = 1) -> Dtype:
    """The scalar type behind a pointer's type name as OpenCL has it (CL_KERNEL_ARG_TYPE_NAME); V and the `nbytes` of
    what is pointed to for any other.

    >>> element_type("float4*", 16), element_type("uint*", 4), element_type("body_t*", 28)
    (dtype('float32'), dtype('uint32'), dtype('V28'))
    """
    match = re.fullmatch(r"([a-z]+)(?:2|3|4|8|16)?\s*\*", type_name.strip())
    return np.dtype(_TYPES.get(match[1] if match else "", f"V{max(nbytes, 1)}"))


@dataclass(frozen=True)
class Place:
    """A scalar in a buffer of elements: [start, stop) in bytes, its type, and what to call it."""

    start: int
    stop: int
    dtype: Dtype
    name: str


def place_of(offset: int, dtype: Dtype) -> Place:
    """The scalar at byte `offset` of elements of `dtype`; one byte where there is none.

    >>> place_of(22, np.dtype("f4")).name
    'element 5 of float32'
    >>> place_of(22, np.dtype({"names": ["a", "b.x"], "formats": ["u1", "f4"], "offsets": [0, 4], "itemsize": 8})).name
    'element 2, b.x'
    """
    index, inside = divmod(offset, dtype.itemsize)
    first = offset - inside
    if dtype.kind != "V":
        return Place(first, first + dtype.itemsize, dtype, f"element {index} of {dtype.name}")
    for name, (kind, start, *_) in (dtype.fields or {}).items():
        if start <= inside < start + kind.itemsize:
            return Place(
                first + start, first + start + kind.itemsize, kind, f"element {index}, {name.lstrip('.')}"
            )
    return Place(offset, offset + 1, np.dtype("V1"), f"byte {inside} of element {index}")


def data_mask(nbytes: int, dtype: Dtype) -> Mask:
    """A mask that is False at the padding of elements of `dtype` that fill `nbytes` bytes."""
    if not dtype.fields:
        return np.ones(nbytes, bool)
    one = np.zeros(dtype.itemsize, bool)
    for kind, start, *_ in dtype.fields.values():
        one[start : start + kind.itemsize] = True
    found: Mask = np.tile(one, -(-nbytes // len(one)))[:nbytes]  # np.resize makes an object for each element
    return found


def whole_scalars(mask: Mask, dtype: Dtype) -> Mask:
    """`mask` widened to all bytes of each scalar of which it has a byte, in elements of `dtype`."""
    count = len(mask) // dtype.itemsize
    whole = count * dtype.itemsize
    result: Mask = mask.copy()
    elements = result[:whole].reshape(count, dtype.itemsize)
    scalars = [(kind, start) for kind, start, *_ in dtype.fields.values()] if dtype.fields else [(dtype, 0)]
    for kind, start in scalars:
        part = elements[:, start : start + kind.itemsize]
        part |= part.any(axis=1, keepdims=True)
    return result


def mask_of(region: Region, nbytes: int) -> Mask:
    """True at the bytes of `region`."""
    if len(region.runs) <= _FEW_RUNS:  # whatever the size of the buffer: no further arrays of that size
        mask = np.zeros(nbytes, np.bool_)
        for start, stop in region.runs.tolist():
            mask[start:stop] = True
        return mask
    steps = np.zeros(nbytes + 1, np.int8)
    steps[region.runs[:, 0]] += 1
    steps[region.runs[:, 1]] -= 1
    return np.cumsum(steps[:-1], dtype=np.int8).astype(bool)


def close_elements(one: Bytes, other: Bytes, dtype: Dtype) -> Mask:
    """By byte: whether it belongs to a float, in elements of `dtype`, that is the same in both except for rounding.

    The tolerance is the square root of the type's precision (half of the digits), relative to the larger of the two;
    and that much of the largest of all.
    """
    count = len(one) // dtype.itemsize
    whole = count * dtype.itemsize
    found = np.zeros((count, dtype.itemsize), bool)
    elements = [part[:whole].reshape(count, dtype.itemsize) for part in (one, other)]
    scalars = [(kind, start) for kind, start, *_ in dtype.fields.values()] if dtype.fields else [(dtype, 0)]
    for kind, start in scalars:
        if kind.kind == "f":
            stop = start + kind.itemsize
            first, second = (np.ascontiguousarray(part[:, start:stop]).view(kind)[:, 0] for part in elements)
            found[:, start:stop] = _close(first.astype(np.float64), second.astype(np.float64), kind)[:, None]
    result = np.zeros(len(one), bool)
    result[:whole] = found.reshape(-1)
    return result


def _close(first: Doubles, second: Doubles, dtype: Dtype) -> Mask:
    tolerance = float(np.sqrt(np.finfo(dtype).eps))  # type: ignore[type-var]
    sizes = np.maximum(np.abs(first), np.abs(second))
    finite = sizes[np.isfinite(sizes)]
    floor = tolerance * float(finite.max()) if len(finite) else 0.0
    with np.errstate(invalid="ignore"):
        near: Mask = np.isfinite(sizes) & (np.abs(first - second) <= tolerance * np.maximum(sizes, floor))
    near |= (first == second) | (np.isnan(first) & np.isnan(second))
    return near


def exchanged(content: Bytes, kept: Region, dtype: Dtype) -> Bytes:
    """`content` with other elements of it everywhere except in `kept`.

    They come from the other half of the buffer, reversed: a value that serves as an index elsewhere also does so
    here, and a buffer of equal values stays one.
    """
    nbytes = len(content)
    if kept.nbytes == nbytes:
        return content
    count = nbytes // dtype.itemsize
    elements = content[: count * dtype.itemsize].reshape(count, dtype.itemsize)
    turned: Bytes = content.copy()
    turned[: count * dtype.itemsize] = np.roll(elements, count // 2 + 1, axis=0)[::-1].reshape(-1)
    np.copyto(turned, content, where=mask_of(kept, nbytes))
    return turned


def filled(content: Bytes, region: Region, dtype: Dtype) -> Bytes:
    """`content` with ones of `dtype` in `region` (bytes 1 for other than plain types)."""
    pattern = np.ones(1, dtype if dtype.kind != "V" else np.uint8).view(np.uint8)
    ones = np.tile(pattern, -(-len(content) // len(pattern)))[: len(content)]
    result: Bytes = content.copy()
    np.copyto(result, ones, where=mask_of(region, len(content)))
    return result


def show_element(content: Bytes, dtype: Dtype) -> str:
    """One scalar for a message; floats with all their digits, bytes without a type in hexadecimal."""
    if dtype.kind == "V" or len(content) < dtype.itemsize:
        return "0x" + content.tobytes().hex()
    return repr(content.copy().view(dtype)[0].item())
