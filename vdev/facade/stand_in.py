"""The stand-in module itself: fills `pyopencl._cl`.

Decides which names come from where: constants, error classes and plain records are the native module's own;
everything that concerns a device is the façade's.
"""

from __future__ import annotations

import inspect
from types import ModuleType

from vdev.facade import (
    context,
    event,
    image_transfers,
    images,
    kernel,
    launch,
    maps,
    memory,
    platform_device,
    pools,
    program,
    queue,
    svm,
    svm_pools,
    sync,
    transfers,
)
from vdev.facade.errors import native
from vdev.process import interrupts
from vdev.process.inside import part_of_calls

#: what the stand-in takes from the native module besides its constants: nothing that belongs to a device
_FROM_NATIVE = (
    "Error",
    "MemoryError",
    "LogicError",
    "RuntimeError",
    "_ErrorRecord",
    "DeviceTopologyAmd",
    "ImageFormat",
    "LocalMemory",
    "NameVersion",
    "_sizeof_size_t",
    "bitlog2",
)

_MODULES = (
    platform_device,
    context,
    queue,
    event,
    memory,
    transfers,
    maps,
    sync,
    program,
    kernel,
    launch,
    pools,
    images,
    image_transfers,
    svm,
    svm_pools,
)


#: where PyOpenCL, pickles and caches look for the classes of the contract
NATIVE_MODULE = "pyopencl._cl"


def have_gl() -> bool:
    """No sharing with OpenGL."""
    return False


def populate(module: ModuleType) -> None:
    """Give `module`, which takes the place of `pyopencl._cl`, every name that programs and PyOpenCL's Python layer
    look for there.
    """
    interrupts.install()
    # its methods of our classes; what it keeps on disk, under a lock that is a file; `SVMMap`
    part_of_calls(("pyopencl._monkeypatch", "pyopencl.cache"), ("pyopencl",))
    for name in vars(native):
        if _is_constant_class(name) or name in _FROM_NATIVE:
            setattr(module, name, getattr(native, name))
    module.have_gl = have_gl  # type: ignore[attr-defined]
    for source in _MODULES:
        for name, value in vars(source).items():
            if hasattr(native, name) and (inspect.isclass(value) or inspect.isfunction(value)):
                # PyOpenCL's caches and pickles name classes by their module
                value.__module__ = NATIVE_MODULE
                setattr(module, name, value)


def _is_constant_class(name: str) -> bool:
    return name[0].islower() and inspect.isclass(getattr(native, name))
