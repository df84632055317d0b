"""Command queues: order of commands, flush and finish.

A queue knows its properties and the session's record of its order; what runs when is decided below.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vdev.facade.context import Context
from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_cast, fail_type, native, status
from vdev.facade.handles import Handle
from vdev.facade.platform_device import Device
from vdev.process.interrupts import waits
from vdev.session.room import NoRoom

if TYPE_CHECKING:
    from vdev.session.commands import Command
    from vdev.session.session import Completion

OUT_OF_ORDER = 1
PROFILING = 2
_ON_DEVICE = 0b1100
_QUEUE_PROPERTIES = 0x1093  # CL_QUEUE_PROPERTIES


def _parse_properties(properties: Any) -> tuple[int, list[int]]:
    """The property bits and the array that CL_QUEUE_PROPERTIES_ARRAY reports."""
    try:
        bits = properties.__index__()
    except AttributeError:
        entries = [0] * len(properties)
        for index, item in enumerate(properties):
            entries[index] = cast_int(item)
        return _bits_of_list(entries), [*entries, 0]
    if not 0 <= bits < 2**64:
        fail_cast()
    return bits, [_QUEUE_PROPERTIES, bits, 0]


def _bits_of_list(entries: list[int]) -> int:
    bits = 0
    entries = [*entries, 0]
    index = 0
    while entries[index] != 0:
        if entries[index] != _QUEUE_PROPERTIES or index + 1 >= len(entries):
            fail("CommandQueue", status.INVALID_VALUE)
        bits = entries[index + 1]
        index += 2
        if index >= len(entries):
            break
    return bits


class CommandQueue(Handle):
    """A queue of the one device, in order unless it says otherwise."""

    _retain = "clRetainCommandQueue"
    _invalid = status.INVALID_COMMAND_QUEUE

    def __init__(
        self, context: Context, device: Device | None = None, properties: int | Sequence[int] = 0
    ) -> None:
        check_type("__init__", context, Context)
        if device is not None:
            check_type("__init__", device, Device)
        if properties is None:
            fail_type("__init__", properties)
        self._handle = 0
        self._finalized = False
        self._context = context
        self._device = context._device
        self._properties, self._properties_array = _parse_properties(properties)
        if self._properties & ~(OUT_OF_ORDER | PROFILING | _ON_DEVICE):
            fail("CommandQueue", status.INVALID_VALUE)
        if self._properties & _ON_DEVICE:
            fail("CommandQueue", status.INVALID_QUEUE_PROPERTIES)
        self._profiling = bool(self._properties & PROFILING)
        self._session = context._session
        self._order = self._session.create_queue(
            in_order=not self._properties & OUT_OF_ORDER, profiled=self._profiling
        )

    def _finalize(self) -> None:
        self._finalized = True

    def _submit(self, command: Command, after: Sequence[Completion]) -> Completion:
        """Hand `command` to the session; every enqueue ends here."""
        if self._finalized:
            self._warn_used_after_exit()
        try:
            return self._session.submit(command, after, queue=self._order)
        except NoRoom as error:
            fail("clEnqueue", status.MEM_OBJECT_ALLOCATION_FAILURE, str(error))

    def _warn_used_after_exit(self) -> None:
        import pyopencl  # imports this module

        warnings.warn(
            "Command queue used after exit of context manager. "
            "This is deprecated and will stop working in 2023.",
            pyopencl.CommandQueueUsedAfterExit,
            stacklevel=4,
        )

    def get_info(self, arg: int, /) -> Any:
        arg = as_int("get_info", arg)
        info = native.command_queue_info
        if arg == info.CONTEXT:
            return self._context
        if arg == info.DEVICE:
            return self._device
        if arg == info.REFERENCE_COUNT:
            return 1
        if arg == info.PROPERTIES:
            return self._properties
        if arg == info.PROPERTIES_ARRAY:
            return list(self._properties_array)
        if arg == 0x1094:  # CL_QUEUE_SIZE: only for queues on a device
            fail("clGetCommandQueueInfo", status.INVALID_COMMAND_QUEUE)
        if arg == 0x1095:  # CL_QUEUE_DEVICE_DEFAULT: no queues on the device
            fail("clGetCommandQueueInfo", status.INVALID_VALUE)
        fail("CommandQueue.get_info", status.INVALID_VALUE)

    def flush(self) -> None:
        """Nothing waits for a flush: commands start as soon as what they depend on has completed."""
        if self._finalized:
            self._warn_used_after_exit()
        self._session.flush(self._order)

    @waits
    def finish(self) -> None:
        if not self._finalized:
            self._session.finish(self._order)
