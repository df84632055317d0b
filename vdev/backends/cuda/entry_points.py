"""Functions of NVIDIA's driver as ctypes calls them."""

from __future__ import annotations

import ctypes
from typing import Any


def declared(function: Any, *types: Any) -> Any:
    """A function of the driver with its parameters' types; it returns a CUresult."""
    function.argtypes = types
    function.restype = ctypes.c_int
    return function
