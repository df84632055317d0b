"""Host memory given by the program: any object with Python's buffer protocol, seen as bytes.

Decides which objects are accepted, and which exception the others get: the one that `PyObject_GetBuffer` raises for
the native module. It never copies.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_export_lock = threading.RLock()


def as_bytes(source: Any, *, writable: bool = False) -> Bytes:
    """The memory of `source` as a one-dimensional uint8 array that keeps `source` alive.

    Raises TypeError for objects without a buffer, ValueError or BufferError for memory that is not contiguous
    or not writable.
    """
    if isinstance(source, np.ndarray):
        return _array_bytes(source, writable)
    view = memoryview(source)
    if not view.contiguous:
        raise BufferError("memoryview: underlying buffer is not contiguous")
    if writable and view.readonly:
        raise BufferError("Object is not writable.")
    if view.nbytes == 0:
        return np.empty(0, np.uint8)
    if not view.c_contiguous:
        return _array_bytes(np.asarray(view), writable)
    return np.frombuffer(view.cast("B"), np.uint8)


def _array_bytes(array: npt.NDArray[Any], writable: bool) -> Bytes:
    flags = array.flags
    if not flags.forc:
        raise ValueError("ndarray is not contiguous")
    if writable and not flags.writeable:
        raise ValueError("buffer source array is read-only")
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    # "A" keeps the order in memory: a contiguous array, C or Fortran, is not copied
    plain = array if type(array) is np.ndarray else array.view(np.ndarray)
    flat: Bytes = plain.reshape(-1, order="A").view(np.uint8)
    return flat


def value_bytes(source: Any) -> bytes:
    """A copy of the memory of `source`, for kernel arguments and patterns."""
    if isinstance(source, np.generic):
        return source.tobytes()
    return as_bytes(source).tobytes()


def export_array(owner: Any, interface: dict[str, Any]) -> Any:
    """An array over memory that `owner` keeps alive: `owner` is its `.base`, as with arrays that the native module
    makes.

    Before Python 3.12 a class written in Python has no buffer protocol, so NumPy is asked through the array
    interface. `owner` has it only for that moment: natively these objects are not arrays themselves.
    """
    with _export_lock:
        owner.__array_interface__ = interface
        try:
            return np.asarray(owner)
        finally:
            del owner.__array_interface__


def array_interface(
    memory: Bytes, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]
) -> dict[str, Any]:
    """The array interface (version 3) of an array at the start of `memory`, writable as natively."""
    return {
        "version": 3,
        "data": (memory.__array_interface__["data"][0], False),
        "shape": shape,
        "strides": strides,
        "typestr": dtype.str if dtype.fields is None and dtype.subdtype is None else f"|V{dtype.itemsize}",
        "descr": dtype,
    }


def contiguous_strides(shape: tuple[int, ...], itemsize: int, order: str) -> tuple[int, ...]:
    """Strides in bytes of a contiguous array of that shape, `order` C or F."""
    strides = [0] * len(shape)
    step = itemsize
    for axis in range(len(shape)) if order == "F" else reversed(range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
