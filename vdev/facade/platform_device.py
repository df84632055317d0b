"""Platform and device: one of each in a process.

Decides when the session starts (at the first question that needs the workers) and answers the information
queries. What the values are is `device_info`'s affair.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vdev.facade import device_info
from vdev.facade.errors import as_int, cast_int, fail, fail_type, make_error, native, status
from vdev.facade.handles import Handle, state_of
from vdev.process import switches
from vdev.session.lost import LostSession
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.session.session import Session

logger = logging.getLogger("vdev.facade.platform_device")
_lock = threading.RLock()

_TYPE_DEFAULT, _TYPE_ALL, _TYPE_KNOWN = 1, 0xFFFFFFFF, 0x1F


def _names(info: Any) -> dict[int, str]:
    """Query codes of an info class to their names."""
    return {value: name for name, value in vars(info).items() if name[0].isupper() and isinstance(value, int)}


class PlatformState:
    """The session that everything is submitted to, the device, and answers to queries by their names."""

    def __init__(self, platform: Platform, session: Session) -> None:
        self.session = session
        self.device = Device(platform, session)
        answers = state_of(self.device).values
        self.values = {
            "PROFILE": "FULL_PROFILE",
            "VERSION": answers["VERSION"],
            "NAME": device_info.PLATFORM_NAME,
            "VENDOR": device_info.VENDOR,
            "EXTENSIONS": answers["EXTENSIONS"],
            "HOST_TIMER_RESOLUTION": 1,
            "NUMERIC_VERSION": answers["NUMERIC_VERSION"],
            "EXTENSIONS_WITH_VERSION": answers["EXTENSIONS_WITH_VERSION"],
        }

    def open_session(self) -> Session:
        """The session that contexts of this platform use; a forked child has another one."""
        if isinstance(self.session, LostSession):
            self.session = _open_session()
        return self.session

    def devices_of_type(self, device_type: int) -> list[Device]:
        """The device, if it is of one of those types."""
        is_wanted = device_type & (state_of(self.device).values["TYPE"] | _TYPE_DEFAULT)
        return [self.device] if is_wanted else []


class Platform(Handle):
    """The one platform."""

    _retain = "clGetPlatformInfo"
    _invalid = status.INVALID_PLATFORM

    def __init__(self, session: Session) -> None:
        self._handle = 0
        self._vdev_state = PlatformState(self, session)

    def get_info(self, arg: int, /) -> Any:
        name = _PLATFORM_QUERIES.get(as_int("get_info", arg))
        if name is None:
            fail("Platform.get_info", status.INVALID_VALUE)
        return _copied(self._vdev_state.values[name])

    def get_devices(self, device_type: int = _TYPE_ALL) -> list[Device]:
        wanted = as_int("get_devices", device_type)
        if wanted == 0 or (wanted & ~_TYPE_KNOWN and wanted != _TYPE_ALL):
            fail("clGetDeviceIDs", status.INVALID_DEVICE_TYPE)
        return self._vdev_state.devices_of_type(wanted)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The platform, and answers to queries by their names."""

    platform: Platform
    values: Mapping[str, Any]


class Device(Handle):
    """The one device: all workers added up."""

    _retain = "clRetainDevice"
    _invalid = status.INVALID_DEVICE

    def __init__(self, platform: Platform, session: Session) -> None:
        self._handle = 0
        #: the handle that it had when it was asked for, and what that was as an integer
        self._address: tuple[Any, int] = (None, 0)
        self._vdev_state = DeviceState(platform, device_info.device_values(session.workers))

    @property
    def int_ptr(self) -> int:
        handle, address = self._address
        if handle is not self._handle:  # PyOpenCL asks twice in each operation on arrays
            address = self._vdev_handle()
            self._address = self._handle, address
        return address

    def get_info(self, arg: int, /) -> Any:
        name = _DEVICE_QUERIES.get(as_int("get_info", arg))
        if name == "PLATFORM":
            return self._vdev_state.platform
        if name is None:
            fail("Device.get_info", status.INVALID_VALUE)
        if name not in self._vdev_state.values:
            fail("clGetDeviceInfo", status.INVALID_VALUE)
        return _copied(self._vdev_state.values[name])

    def create_sub_devices(self, arg: Sequence[int], /) -> list[Device]:
        """The virtual device cannot be partitioned: it reports no partition properties."""
        for item in arg:
            cast_int(item, -(2**63), 2**63 - 1)
        fail("clCreateSubDevices", status.INVALID_VALUE)

    def device_and_host_timer(self) -> tuple[int, int]:
        """Nanoseconds; both are the clock of the host, which also gives profiling times."""
        now = time.perf_counter_ns()
        return now, now

    def host_timer(self) -> int:
        return time.perf_counter_ns()


_PLATFORM_QUERIES = _names(native.platform_info)
_DEVICE_QUERIES = _names(native.device_info)


def _copied(value: Any) -> Any:
    """A new list for every query, as natively."""
    return list(value) if isinstance(value, list) else value


def get_platform() -> Platform:
    """The platform; starts the session if it has not been started.

    Raises what the session raises if there are no workers.
    """
    with _lock:
        return _make_platform()


@functools.cache
def _make_platform() -> Platform:
    return Platform(_open_session())


@functools.cache
def _say_once(text: str) -> None:
    logger.warning("%s", text)


def _open_session() -> Session:
    # loads the whole machine: not at import
    from vdev.errors import NoWorkers
    from vdev.start.current import get_session

    try:
        return get_session()
    except NoWorkers as error:
        # Natively there is then no platform, and PyOpenCL says what to install, without our message. If the switch
        # names workers that do not exist, another status lets our message through.
        named = bool(os.environ.get(switches.WORKERS.name))
        if not named:
            _say_once(str(error))
        code = status.INVALID_VALUE if named else status.PLATFORM_NOT_FOUND_KHR
        raise make_error("clGetPlatformIDs", code, str(error)) from None


def _lost() -> Exception:
    """The error that every use of a context gives in a forked child of the process that made it."""
    text = "the context belongs to the parent process; a forked child has to create its own"
    return make_error("fork", status.INVALID_CONTEXT, text)


LostSession.failure = staticmethod(_lost)


def get_platforms() -> list[Platform]:
    return [get_platform()]


def get_cl_header_version() -> tuple[int, int]:
    version: tuple[int, int] = native.get_cl_header_version()
    return version


def unload_platform_compiler(arg: Platform, /) -> None:
    """A hint (clUnloadPlatformCompiler): libclang stays loaded."""
    if not isinstance(arg, Platform):
        fail_type("unload_platform_compiler", arg)
