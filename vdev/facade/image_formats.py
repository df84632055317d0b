"""Formats of images: which exist, how many bytes a pixel has, and how a colour is encoded as a pixel.

Kernels compute on images as plain memory, so the formats are the virtual device's own, whatever its workers support:
those of Intel's CPU engine, which has more than others. `translators/include/images.cl` handles the pixels that
kernels access; this module encodes colours for fills (specification 8.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vdev.facade.errors import native

_orders, _types = native.channel_order, native.channel_type
_kinds = native.mem_object_type

#: channel orders that not every version of PyOpenCL has names for (CL/cl.h)
_ARGB, DEPTH, _SRGBA, _SBGRA = 0x10B7, 0x10BD, 0x10C1, 0x10C2

#: kernels get a row's pitch in 32 bits
MAX_ROW_NBYTES = 2**32 - 1
_NORMALIZED = (_types.UNORM_INT8, _types.UNORM_INT16, _types.SNORM_INT8, _types.SNORM_INT16)
_INTEGERS = (
    _types.SIGNED_INT8, _types.SIGNED_INT16, _types.SIGNED_INT32,
    _types.UNSIGNED_INT8, _types.UNSIGNED_INT16, _types.UNSIGNED_INT32,
)  # fmt: skip
_FLOATS = (_types.HALF_FLOAT, _types.FLOAT)
_BYTES = (
    _types.UNORM_INT8, _types.SNORM_INT8, _types.SNORM_INT16, _types.SIGNED_INT8, _types.UNSIGNED_INT8,
)  # fmt: skip
_ALL = (*_NORMALIZED, *_INTEGERS, *_FLOATS)

#: by channel order: (the types that it goes with, places of the components in a pixel)
_ORDERS: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    _orders.RGBA: (_ALL, (0, 1, 2, 3)),
    _orders.BGRA: (_BYTES, (2, 1, 0, 3)),
    _ARGB: (_BYTES, (3, 0, 1, 2)),
    _orders.INTENSITY: ((*_NORMALIZED, *_FLOATS), (0,)),
    _orders.LUMINANCE: ((*_NORMALIZED, *_FLOATS), (0,)),
    _orders.R: (_ALL, (0,)),
    _orders.A: (_ALL, (3,)),
    _orders.RA: (_ALL, (0, 3)),
    _orders.RG: (_ALL, (0, 1)),
    _SRGBA: ((_types.UNORM_INT8,), (0, 1, 2, 3)),
    _SBGRA: ((_types.UNORM_INT8,), (2, 1, 0, 3)),
    DEPTH: ((_types.FLOAT, _types.UNORM_INT16), (0,)),
}

_DTYPES: dict[int, Any] = {
    _types.SNORM_INT8: np.int8,
    _types.SNORM_INT16: np.int16,
    _types.UNORM_INT8: np.uint8,
    _types.UNORM_INT16: np.uint16,
    _types.SIGNED_INT8: np.int8,
    _types.SIGNED_INT16: np.int16,
    _types.SIGNED_INT32: np.int32,
    _types.UNSIGNED_INT8: np.uint8,
    _types.UNSIGNED_INT16: np.uint16,
    _types.UNSIGNED_INT32: np.uint32,
    _types.HALF_FLOAT: np.float16,
    _types.FLOAT: np.float32,
}


def formats(kind: int, *, only_read: bool) -> list[tuple[int, int]]:
    """(order, type) of every format for images of that CL_MEM_OBJECT_ type.

    Kernels only read sRGB; depth is for images with two dimensions.
    """
    return [
        (order, data_type)
        for order, (types, _) in _ORDERS.items()
        if (order != DEPTH or kind in (_kinds.IMAGE2D, _kinds.IMAGE2D_ARRAY))
        and (order not in (_SRGBA, _SBGRA) or only_read)
        for data_type in types
    ]


def is_format(order: int, data_type: int) -> bool:
    """Whether these are a channel order and a channel type at all, on any device."""
    return 0x10B0 <= order <= 0x10C3 and 0x10D0 <= data_type <= 0x10E0


def channel_count(order: int) -> int:
    return len(_ORDERS[order][1])


def pixel_nbytes(order: int, data_type: int) -> int:
    return channel_count(order) * int(np.dtype(_DTYPES[data_type]).itemsize)


def encode(order: int, data_type: int, color: npt.NDArray[Any]) -> bytes:
    """A pixel of four components: numbers of type float32, or int32 or uint32 for integer formats."""
    components: npt.NDArray[Any] = color[list(_ORDERS[order][1])]
    kind = np.dtype(_DTYPES[data_type])
    with np.errstate(over="ignore", invalid="ignore"):
        if data_type in _FLOATS:
            return bytes(components.astype(kind))
        limits = np.iinfo(kind)
        if data_type in _INTEGERS:
            return bytes(np.clip(components.astype(np.int64), limits.min, limits.max).astype(kind))
        if order in (_SRGBA, _SBGRA):
            components = _gamma(components, list(_ORDERS[order][1]))
        scaled = np.nan_to_num(components.astype(np.float32) * np.float32(limits.max), posinf=limits.max)
        return bytes(np.rint(np.clip(scaled, limits.min, limits.max)).astype(kind))


def color_dtype(data_type: int) -> Any:
    """The type of a fill colour's four components (clEnqueueFillImage)."""
    if data_type not in _INTEGERS:
        return np.float32
    return np.int32 if data_type in _INTEGERS[:3] else np.uint32


def _gamma(components: Any, places: list[int]) -> Any:
    """Linear light to sRGB (8.3.1.5); alpha is linear."""
    linear = np.clip(np.nan_to_num(components.astype(np.float64)), 0.0, 1.0)
    curved = np.where(linear < 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.where(np.asarray(places) == 3, linear, curved)
