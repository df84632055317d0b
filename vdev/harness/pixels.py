"""Images and samplers as arguments: arrays of pixels, and how a coordinate finds one.

Decides which image format an array has, and what its axes mean: if there is one more than the image has, the last
axis counts channels; the others are layers or slices, rows, and pixels of a row, in the order in which they lie in
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vdev.translators.dialects.image_arguments import pack_descriptor, pack_sampler
from vdev.translators.values import dataclass

Array = npt.NDArray[Any]
Dtype = np.dtype[Any]

#: By name: CL_ constant and channels (CL/cl.h; specification 5.3.1.1).
ORDERS = {
    "R": (0x10B0, 1), "A": (0x10B1, 1), "RG": (0x10B2, 2), "RA": (0x10B3, 2), "RGBA": (0x10B5, 4), "BGRA": (0x10B6, 4),
    "ARGB": (0x10B7, 4), "INTENSITY": (0x10B8, 1), "LUMINANCE": (0x10B9, 1), "DEPTH": (0x10BD, 1),
    "sRGBA": (0x10C1, 4), "sBGRA": (0x10C2, 4),
}  # fmt: skip
#: By number of channels: the order of an array that says nothing about it.
_PLAIN = {1: "R", 2: "RG", 4: "RGBA"}
_TYPES = {
    "i1": 0x10D7, "i2": 0x10D8, "i4": 0x10D9, "u1": 0x10DA, "u2": 0x10DB, "u4": 0x10DC, "f2": 0x10DD, "f4": 0x10DE,
}  # fmt: skip
_NORMALIZED = {"i1": 0x10D0, "i2": 0x10D1, "u1": 0x10D2, "u2": 0x10D3}
#: By order: its types, if it does not allow all of them (specification 5.3.1.1), normalised or not.
_FEWER: dict[str, tuple[set[str], set[str]]] = {
    "BGRA": ({"i1", "u1"}, {"i1", "u1"}), "ARGB": ({"i1", "u1"}, {"i1", "u1"}),
    "INTENSITY": (set(_NORMALIZED), {"f2", "f4"}), "LUMINANCE": (set(_NORMALIZED), {"f2", "f4"}),
    "DEPTH": ({"u2"}, {"f4"}), "sRGBA": ({"u1"}, set()), "sBGRA": ({"u1"}, set()),
}  # fmt: skip
READ_ALONE = ("sRGBA", "sBGRA")
#: By type: the number of axes that are sampled, and whether layers come before them.
AXES = {
    "image1d_t": (1, False), "image1d_buffer_t": (1, False), "image1d_array_t": (1, True), "image2d_t": (2, False),
    "image2d_array_t": (2, True), "image2d_depth_t": (2, False), "image2d_array_depth_t": (2, True), "image3d_t": (3, False),
}  # fmt: skip
#: CL_ADDRESS_ constants
ADDRESSING = {
    "none": 0x1130,
    "clamp_to_edge": 0x1131,
    "clamp": 0x1132,
    "repeat": 0x1133,
    "mirrored_repeat": 0x1134,
}


@dataclass(frozen=True, eq=False)
class Image:
    """An array of pixels, or an `empty` one, in a format that does not follow from its type: see `image`."""

    content: Any
    order: str | None = None
    normalized: bool = False


@dataclass(frozen=True)
class Sampler:
    """How coordinates find pixels: see `sampler`."""

    addressing: str
    linear: bool
    normalized: bool

    @property
    def packed(self) -> bytes:
        return pack_sampler(
            normalized=self.normalized, addressing=ADDRESSING[self.addressing], linear=self.linear
        )


def image(content: Any, *, order: str | None = None, normalized: bool = False) -> Image:
    """An argument: an image of an array's pixels, or of `empty(shape, dtype)`.

    An array by itself is enough if the channels are R, RG or RGBA in this order, and integers are unnormalised. `order` names another one,
    as in OpenCL without CL_ ("BGRA", "DEPTH"); `normalized`: integers represent numbers from 0 or -1 to 1, which
    `read_imagef` and `write_imagef` take. Raises ValueError for other orders.
    """
    if order is not None and order not in ORDERS:
        raise ValueError(f"unknown order of channels {order!r}; the orders are {', '.join(ORDERS)}")
    return Image(content, order, normalized)


def sampler(addressing: str = "clamp_to_edge", *, linear: bool = False, normalized: bool = False) -> Sampler:
    """An argument: a sampler. `addressing`: "none", "clamp_to_edge", "clamp" or, only with normalized coordinates, "repeat" and
    "mirrored_repeat" (OpenCL C 6.15.15.1). Raises ValueError for others.
    """
    if addressing not in ADDRESSING:
        raise ValueError(f"unknown addressing mode {addressing!r}; the modes are {', '.join(ADDRESSING)}")
    if "repeat" in addressing and not normalized:
        raise ValueError(f"{addressing} needs normalized coordinates")
    return Sampler(addressing, linear, normalized)


def is_depth(type_name: str) -> bool:
    return "depth" in type_name


def shapes_of(type_name: str) -> str:
    """The axes of the arrays for a type of image, in words."""
    dims, layered = AXES[type_name]
    names = [*(["layers"] if layered else []), *("depth", "height", "width")[3 - dims :]]
    return f"({', '.join(names)}{',' if len(names) == 1 else ''}) or ({', '.join([*names, 'channels'])})"


def descriptor(type_name: str, shape: Sequence[int], dtype: Dtype, given: Image) -> bytes:
    """What a kernel gets in addition to the pixels. Raises ValueError, which says what was expected."""
    dims, layered = AXES[type_name]
    axes = dims + layered
    if len(shape) not in (axes, axes + 1) or 0 in shape:
        raise ValueError(f"a shape of {shapes_of(type_name)}")
    channels = shape[axes] if len(shape) > axes else 1
    order = given.order or ("DEPTH" if is_depth(type_name) else _PLAIN.get(channels, ""))
    if not order or ORDERS[order][1] != channels:
        raise ValueError(
            f"{ORDERS[order][1]} channels for {order}" if given.order else "one, two or four channels"
        )
    constant, count = ORDERS[order]
    sizes = [*reversed(shape[layered:axes]), 1, 1][:3]
    if layered:
        sizes[2] = shape[0]
    element = count * dtype.itemsize
    row = sizes[0] * element
    width, height, depth = sizes
    type_ = _type(order, dtype, normalized=given.normalized)
    return pack_descriptor((width, height, depth), row, row * height, constant, type_, count, element)


def _type(order: str, dtype: Dtype, *, normalized: bool) -> int:
    known = _NORMALIZED if normalized else _TYPES
    code = dtype.str[1:] if dtype.isnative and dtype.names is None else ""
    fewer = _FEWER.get(order)
    allowed = set(known) if fewer is None else fewer[0 if normalized else 1]
    if code not in allowed:
        names = ", ".join(sorted(np.dtype(each).name for each in allowed)) or "none"
        what = "normalized numbers" if normalized else "numbers"
        raise ValueError(f"{what} of a type that {order} has ({names})")
    return known[code]
