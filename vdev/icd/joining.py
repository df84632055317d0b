"""One process, one device: handles for the objects of a Python program.

If the library exists, an object's `int_ptr` is a handle that C code in the process can use, and
handles that come from C code are mapped back to the façade's objects.
"""

from __future__ import annotations

import ctypes
import logging
from typing import Any

from vdev.facade import handles
from vdev.facade.context import Context
from vdev.facade.event import Event
from vdev.facade.images import Sampler
from vdev.facade.kernel import Kernel
from vdev.facade.memory import Memory
from vdev.facade.platform_device import Device, Platform
from vdev.facade.program import _Program
from vdev.facade.queue import CommandQueue
from vdev.icd import host

logger = logging.getLogger("vdev.icd")

_KINDS: tuple[tuple[type, int], ...] = (
    (Event, host.EVENT),
    (Memory, host.MEM),
    (CommandQueue, host.QUEUE),
    (Kernel, host.KERNEL),
    (_Program, host.PROGRAM),
    (Context, host.CONTEXT),
    (Sampler, host.SAMPLER),
    (Device, host.DEVICE),
    (Platform, host.PLATFORM),
)


class _Addresses:
    """Handles that the library makes."""

    def __init__(self) -> None:
        self._kinds: dict[type, int] = {}  # PyOpenCL asks for a device's handle again and again

    def address_of(self, item: Any) -> int:
        kind = self._kinds.get(type(item))
        if kind is None:
            kind = next(number for known, number in _KINDS if isinstance(item, known))
            self._kinds[type(item)] = kind
        address: int = host.address_of(item, kind)
        return address

    def item_at(self, address: int, kind: type) -> Any:
        return host.item_at(address, next(number for known, number in _KINDS if issubclass(kind, known)))

    def take_back(self, address: int) -> bool:
        return bool(host.take_back(address))


def _open() -> handles.Addresses | None:
    """Load the library; None if it is not there and cannot be made."""
    if host.address_of is None:
        from vdev.icd import library  # most programs never ask for a handle

        try:
            path = library.prepare(joins=True)
            joined = ctypes.PyDLL(str(path), mode=ctypes.RTLD_LOCAL).vdev_join()
        except (OSError, library.NoLibrary) as error:
            logger.info("C code cannot use this program's OpenCL handles, which are plain numbers: %s", error)
            return None
        if not joined:
            return None
    return _Addresses()


def use_handles() -> None:
    """From now on, objects get their handles from the library."""
    handles.use_addresses(_open)
