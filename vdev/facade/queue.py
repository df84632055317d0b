"""Command queues: order of commands, flush and finish.

A queue knows its properties and the session's record of its order; the layers below decide what runs when.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vdev.errors import NoRoom
from vdev.facade.context import Context, ContextState
from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_cast, fail_type, native, status
from vdev.facade.handles import Handle, state_of
from vdev.facade.platform_device import Device
from vdev.facade.svm_memory import is_shared
from vdev.process.interrupts import waits

if TYPE_CHECKING:
    from vdev.executor.stretch import Clocked
    from vdev.session.commands import Command, Map, Read, Write
    from vdev.session.ordering import QueueOrder
    from vdev.session.session import Completion, Session

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


class QueueState:
    """A queue's context, its properties, and the session's record of its order."""

    __slots__ = ("context", "is_finalized", "is_profiling", "order", "properties", "session")

    def __init__(self, context: Context, properties: int) -> None:
        self.context = context
        self.properties = properties  #: bits of CL_QUEUE_PROPERTIES
        self.is_profiling = bool(properties & PROFILING)
        self.is_finalized = False  #: whether the program has left the queue's `with` block
        self.session: Session = state_of(context).session
        self.order: QueueOrder = self.session.create_queue(
            in_order=not properties & OUT_OF_ORDER, profiled=self.is_profiling
        )

    def submit(self, command: Command, after: Sequence[Completion]) -> Completion:
        """Hand `command` to the session; every enqueue ends here."""
        if self.is_finalized:
            _warn_used_after_exit()
        try:
            return self.session.submit(command, after, queue=self.order)
        except NoRoom as error:
            fail("clEnqueue", error.status, str(error))

    @waits
    def read_at_once(self, command: Read, after: Sequence[Completion], clocked: Clocked | None) -> int | None:
        """The status of a blocking read that could be done immediately; None if it has to be submitted. `clocked`: its completion in a
        profiled queue.
        """
        if self.is_finalized or is_shared(command.host):
            return None
        return self.session.read_at_once(command, self.order, after, clocked)

    @waits
    def map_at_once(self, command: Map, after: Sequence[Completion]) -> int | None:
        """The status of a blocking mapping that could be made immediately; None if it has to be submitted."""
        if self.is_finalized:
            return None
        return self.session.map_at_once(command, self.order, after)

    def write_at_once(self, command: Write, after: Sequence[Completion]) -> Completion | None:
        """The completion of a write that has read the program's memory when this returns; None if it has to be
        submitted.
        """
        if self.is_finalized or is_shared(command.host):
            return None
        try:
            return self.session.write_at_once(command, after, self.order)
        except NoRoom as error:
            fail("clEnqueue", error.status, str(error))


def _warn_used_after_exit() -> None:
    """Warn at the line that called the façade."""
    import pyopencl  # imports this module

    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("vdev.facade"):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(
        "Command queue used after exit of context manager. This is deprecated and will stop working in 2023.",
        pyopencl.CommandQueueUsedAfterExit,
        stacklevel=depth,
    )


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
        bits, self._properties_array = _parse_properties(properties)
        if bits & ~(OUT_OF_ORDER | PROFILING | _ON_DEVICE):
            fail("CommandQueue", status.INVALID_VALUE)
        if bits & _ON_DEVICE:
            fail("CommandQueue", status.INVALID_QUEUE_PROPERTIES)
        self._vdev_state = QueueState(context, bits)

    def _finalize(self) -> None:
        self._vdev_state.is_finalized = True

    def get_info(self, arg: int, /) -> Any:
        arg = as_int("get_info", arg)
        info = native.command_queue_info
        if arg == info.CONTEXT:
            return self._vdev_state.context
        if arg == info.DEVICE:
            return state_of(self._vdev_state.context).device
        if arg == info.REFERENCE_COUNT:
            return 1
        if arg == info.PROPERTIES:
            return self._vdev_state.properties
        if arg == info.PROPERTIES_ARRAY:
            return list(self._properties_array)
        if arg == 0x1094:  # CL_QUEUE_SIZE: only for queues on a device
            fail("clGetCommandQueueInfo", status.INVALID_COMMAND_QUEUE)
        if arg == 0x1095:  # CL_QUEUE_DEVICE_DEFAULT: no queues on the device
            fail("clGetCommandQueueInfo", status.INVALID_VALUE)
        fail("CommandQueue.get_info", status.INVALID_VALUE)

    def flush(self) -> None:
        """Nothing waits for a flush: commands start as soon as what they depend on has completed."""
        if self._vdev_state.is_finalized:
            _warn_used_after_exit()
        self._vdev_state.session.flush(self._vdev_state.order)

    @waits
    def finish(self) -> None:
        if not self._vdev_state.is_finalized:
            self._vdev_state.session.finish(self._vdev_state.order)


ContextState.queue_class = CommandQueue
