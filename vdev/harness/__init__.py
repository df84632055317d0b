"""A test harness for OpenCL kernels: kernels are called with arrays, their accesses checked, and results compared.

Decides whether a kernel's arguments fit, which mistakes its accesses show, and where results differ. Its modules import
sessions, back ends and translators; importing the package itself loads nothing, because pytest does so in every project.
"""

from __future__ import annotations

import importlib
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vdev.harness.arguments import ArgumentError, empty, local
    from vdev.harness.calls import Call
    from vdev.harness.comparing import assert_allclose, assert_equal
    from vdev.harness.failures import FindingsError
    from vdev.harness.findings import Finding
    from vdev.harness.outputs import Outputs
    from vdev.harness.pixels import image, sampler
    from vdev.harness.program import Program

__all__ = [
    "ArgumentError",
    "Call",
    "Finding",
    "FindingsError",
    "Outputs",
    "Program",
    "accepted",
    "assert_allclose",
    "assert_equal",
    "checked_launch",
    "empty",
    "findings",
    "formats",
    "image",
    "launch_arguments",
    "local",
    "reports",
    "running",
    "sampler",
]

_HOMES = {
    "ArgumentError": "arguments",
    "Call": "calls",
    "empty": "arguments",
    "image": "pixels",
    "local": "arguments",
    "sampler": "pixels",
    "assert_allclose": "comparing",
    "assert_equal": "comparing",
    "Finding": "findings",
    "FindingsError": "failures",
    "Outputs": "outputs",
    "Program": "program",
}


def __getattr__(name: str) -> Any:
    """The names above, loaded when somebody asks for them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
