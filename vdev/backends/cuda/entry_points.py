"""NVIDIA's driver and its functions as ctypes calls them."""

from __future__ import annotations

import ctypes
from typing import Any

from vdev.errors import CudaMissing


def driver_library(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    """The driver. `kind`: PyDLL for calls that keep the interpreter lock. CudaMissing if it is not installed."""
    try:
        return kind("libcuda.so.1")
    except OSError as error:
        raise CudaMissing(f"NVIDIA's driver is not installed ({error})") from error


def declared(function: Any, *types: Any) -> Any:
    """A function of the driver with its parameters' types; it returns a CUresult."""
    function.argtypes = types
    function.restype = ctypes.c_int
    return function
