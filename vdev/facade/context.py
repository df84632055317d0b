"""Contexts: what groups a program's objects. All contexts share the process's one session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_cast, status
from vdev.facade.errors import native as native_cl
from vdev.facade.handles import Handle, state_of
from vdev.facade.platform_device import Device, Platform, get_platform
from vdev.session.lost import LostSession
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vdev.session.session import Session

_TYPE_DEFAULT, _TYPE_KNOWN = 1, 0x1F


def _parse_properties(properties: Any) -> list[tuple[int, Any]]:
    result: list[tuple[int, Any]] = []
    for pair in properties:
        if not isinstance(pair, tuple):
            fail_cast()
        if len(pair) != 2:
            fail("Context", status.INVALID_VALUE, "property tuple must have length 2")
        key = cast_int(pair[0], -(2**63), 2**63 - 1)
        if key != native_cl.context_properties.PLATFORM:
            fail("Context", status.INVALID_VALUE, "invalid context property")
        if not isinstance(pair[1], Platform):
            fail_cast()
        result.append((key, pair[1]))
    return result


def _device_of_type(dev_type: Any) -> Device:
    wanted = _TYPE_DEFAULT if dev_type is None else cast_int(dev_type)
    if wanted == 0 or (wanted & ~_TYPE_KNOWN and wanted != 0xFFFFFFFF):
        fail("Context", status.INVALID_DEVICE_TYPE)
    devices = state_of(get_platform()).devices_of_type(wanted)
    if not devices:
        fail("Context", status.DEVICE_NOT_FOUND)
    return devices[0]


@dataclass(frozen=True, slots=True)
class ContextState:
    """The session that a context's commands go to, its device, and the device's answers to queries, by their names."""

    session: Session
    device: Device
    limits: Mapping[str, Any]
    queue_class: ClassVar[type]  #: `CommandQueue`, which is in a module above

    @property
    def is_lost(self) -> bool:
        """Whether this process is a forked child, and the context its parent's."""
        return isinstance(self.session, LostSession)


class Context(Handle):
    """A context of the one device."""

    _retain = "clRetainContext"
    _invalid = status.INVALID_CONTEXT

    def __init__(
        self,
        devices: Sequence[Device] | None = None,
        properties: Sequence[tuple[int, Any]] | None = None,
        dev_type: int | None = None,
    ) -> None:
        self._handle = 0
        self._properties = [] if properties is None else _parse_properties(properties)
        if devices is None:
            found = [_device_of_type(dev_type)]
        elif dev_type is not None:
            fail("Context", status.INVALID_VALUE, "one of 'devices' or 'dev_type' must be None")
        else:
            found = list(devices)
            if not all(isinstance(device, Device) for device in found):
                fail_cast()
            if not found:
                fail("Context", status.INVALID_VALUE)
        device = state_of(found[0])
        session = state_of(device.platform).open_session()
        self._vdev_state = ContextState(session, found[0], device.values)

    def get_info(self, arg: int, /) -> Any:
        arg = as_int("get_info", arg)
        info = native_cl.context_info
        if arg in (info.REFERENCE_COUNT, info.NUM_DEVICES):
            return 1
        if arg == info.DEVICES:
            return [self._vdev_state.device]
        if arg == info.PROPERTIES:
            return [*self._properties, (0, None)] if self._properties else []
        fail("Context.get_info", status.INVALID_VALUE)

    def set_default_device_command_queue(self, device: Device, queue: Any, /) -> None:
        """The device has no queues of its own (clSetDefaultDeviceCommandQueue, INVALID_COMMAND_QUEUE for a
        host queue).
        """
        check_type("set_default_device_command_queue", device, Device)
        check_type("set_default_device_command_queue", queue, ContextState.queue_class)
        fail("clSetDefaultDeviceCommandQueue", status.INVALID_COMMAND_QUEUE)
