"""A test harness for OpenCL kernels: one kernel run from arrays, its accesses checked, results compared.

Decides what a kernel's run is worth: whether its arguments fit, what its accesses say of the program's mistakes, where
results differ. Imports sessions, back ends and translators; importing this package itself loads nothing, as pytest does so
in every project.
"""

from __future__ import annotations

import importlib
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vdev.harness.arguments import ArgumentError, empty, local
    from vdev.harness.comparing import assert_allclose, assert_equal
    from vdev.harness.findings import Finding, FindingsError
    from vdev.harness.program import Outputs, Program

__all__ = [
    "ArgumentError",
    "Finding",
    "FindingsError",
    "Outputs",
    "Program",
    "assert_allclose",
    "assert_equal",
    "empty",
    "findings",
    "formats",
    "local",
    "reports",
]

_HOMES = {
    "ArgumentError": "arguments",
    "empty": "arguments",
    "local": "arguments",
    "assert_allclose": "comparing",
    "assert_equal": "comparing",
    "Finding": "findings",
    "FindingsError": "findings",
    "Outputs": "program",
    "Program": "program",
}


def __getattr__(name: str) -> Any:
    """The names above, loaded when somebody asks for them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
