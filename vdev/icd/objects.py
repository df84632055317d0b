"""Platform, device, contexts, queues, samplers and events of C programs (specification 4, 5.1, 5.7, 5.11)."""

from __future__ import annotations

import ctypes
import weakref
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from vdev.executor.completion import call_soon
from vdev.facade.context import Context
from vdev.facade.errors import fail, native, status
from vdev.facade.event import Event, UserEvent, wait_for_events
from vdev.facade.handles import state_of
from vdev.facade.images import Sampler
from vdev.facade.platform_device import Device, Platform, get_platform
from vdev.facade.queue import CommandQueue
from vdev.icd import host, ready
from vdev.icd.callbacks import call_in_order, wait_for_calls
from vdev.icd.host import INVALID_PROPERTY

#: by context: the functions to call once it is gone, with its handle and their data
_at_end: WeakKeyDictionary[Context, list[tuple[int, int, int]]] = WeakKeyDictionary()

_PLATFORM = native.context_properties.PLATFORM
_INTEROP_USER_SYNC = 0x1085
_QUEUE_PROPERTIES, _QUEUE_SIZE, _ON_DEVICE = 0x1093, 0x1094, 0b1100


def the_device() -> Device:
    """The one device."""
    device: Device = state_of(get_platform()).device
    return device


def clGetDeviceIDs(platform: Any, kinds: int, room: int, devices: int, found: int) -> None:
    routine = "clGetDeviceIDs"
    if (room == 0) != (devices == 0) or not (devices or found):
        fail(routine, status.INVALID_VALUE)
    if host.is_without_device:
        fail(routine, status.DEVICE_NOT_FOUND)
    names = get_platform().get_devices(kinds)
    if not names:
        fail(routine, status.DEVICE_NOT_FOUND)
    if devices:
        host.put_size(devices, host.address_of(names[0], host.DEVICE))
    host.put_uint(found, len(names))


def clCreateSubDevices(device: Device, properties: int, room: int, devices: int, found: int) -> None:
    fail("clCreateSubDevices", status.INVALID_VALUE)


def _context_properties(routine: str, address: int) -> list[tuple[int, Any]]:
    """Pairs of names and values; INVALID_PROPERTY for properties that contexts do not have, or that are given twice."""
    given: list[tuple[int, Any]] = []
    pairs = host.pairs(address)
    if len({name for name, _ in pairs}) < len(pairs):
        fail(routine, INVALID_PROPERTY)
    for name, value in pairs:
        if name == _PLATFORM:
            get_platform()
            platform = host.item_at(value % 2**64, host.PLATFORM)
            if platform is None:
                fail(routine, status.INVALID_PLATFORM)
            given.append((name, platform))
        elif name != _INTEROP_USER_SYNC or value not in (0, 1):
            fail(routine, INVALID_PROPERTY)
    return given


def _made(context: Context, properties: int) -> Context:
    """The context, which remembers its properties as they were given."""
    pairs = [number for pair in host.pairs(properties) for number in pair]
    host.given[context] = host.packed([*pairs, 0]) if properties else b""
    return context


def clCreateContext(properties: int, count: int, devices: int, notify: int, user_data: int) -> Context:
    routine = "clCreateContext"
    if not count or not devices:
        fail(routine, status.INVALID_VALUE)
    host.check_callback(routine, notify, user_data)
    given = _context_properties(routine, properties)
    found = host.items(host.DEVICE, devices, count, status.INVALID_DEVICE, routine)
    return _made(Context(found[:1], given or None), properties)


def clCreateContextFromType(properties: int, kinds: int, notify: int, user_data: int) -> Context:
    routine = "clCreateContextFromType"
    host.check_callback(routine, notify, user_data)
    given = _context_properties(routine, properties)
    return _made(Context(None, given or None, kinds), properties)


def clSetContextDestructorCallback(context: Context, function: int, user_data: int) -> None:
    if not function:
        fail("clSetContextDestructorCallback", status.INVALID_VALUE)
    callbacks = _at_end.get(context)
    if callbacks is None:
        callbacks = _at_end[context] = []
        # A collection may end it while any lock is held, and the program's function may call anything.
        weakref.finalize(context, call_soon, partial(_call_back, callbacks)).atexit = False
    callbacks.append((function, host.address_of(context, host.CONTEXT), user_data))


def _call_back(callbacks: list[tuple[int, int, int]]) -> None:
    """Call the functions, the one registered last first."""
    for function, address, user_data in reversed(callbacks):
        host.call_back(function, address, user_data)


def clSetDefaultDeviceCommandQueue(context: Context, device: Device, queue: CommandQueue | None) -> None:
    """The device has no queues of its own."""
    fail("clSetDefaultDeviceCommandQueue", status.INVALID_OPERATION)


def clCreateCommandQueue(context: Context, device: Device, properties: int) -> CommandQueue:
    queue = CommandQueue(context, device, properties)
    host.given[queue] = b""  # no list of properties
    return queue


def clCreateCommandQueueWithProperties(context: Context, device: Device, properties: int) -> CommandQueue:
    bits, numbers = 0, []
    for name, value in host.pairs(properties):
        if name == _QUEUE_PROPERTIES:
            bits = value
        elif name != _QUEUE_SIZE or not bits & _ON_DEVICE:
            fail("clCreateCommandQueueWithProperties", status.INVALID_VALUE)
        numbers += [name, value]
    queue = CommandQueue(context, device, bits)
    host.given[queue] = host.packed([*numbers, 0]) if properties else b""
    return queue


def clSetCommandQueueProperty(queue: CommandQueue, bits: int, enable: int, before: int) -> None:
    """Deprecated in OpenCL 1.1, and optional since (CL_INVALID_OPERATION)."""
    fail("clSetCommandQueueProperty", status.INVALID_OPERATION)


def clFlush(queue: CommandQueue) -> None:
    queue.flush()


def clFinish(queue: CommandQueue) -> None:
    queue.finish()
    wait_for_calls(queue)
    ready.waited(queue)


def clCreateSampler(context: Context, normalized: int, addressing: int, filtering: int) -> Sampler:
    return Sampler(context, bool(normalized), addressing, filtering)


def clCreateSamplerWithProperties(context: Context, properties: int) -> Sampler:
    numbers = [number for pair in host.pairs(properties) for number in pair]
    sampler = Sampler(context, [*numbers, 0])
    host.given[sampler] = host.packed([*numbers, 0]) if properties else b""
    return sampler


def clGetDeviceAndHostTimer(device: Device, device_time: int, host_time: int) -> None:
    if not device_time or not host_time:
        fail("clGetDeviceAndHostTimer", status.INVALID_VALUE)
    times = device.device_and_host_timer()
    host.put_ulong(device_time, times[0])
    host.put_ulong(host_time, times[1])


def clGetHostTimer(device: Device, host_time: int) -> None:
    if not host_time:
        fail("clGetHostTimer", status.INVALID_VALUE)
    host.put_ulong(host_time, device.host_timer())


# events -----------------------------------------------------------------------------------------


def clCreateUserEvent(context: Context) -> UserEvent:
    return UserEvent(context)


def clSetUserEventStatus(event: Event, code: int) -> None:
    if not isinstance(event, UserEvent):
        fail("clSetUserEventStatus", status.INVALID_EVENT)
    event.set_status(code)


def clWaitForEvents(count: int, events: int) -> None:
    if not count or not events:
        fail("clWaitForEvents", status.INVALID_VALUE)
    found = host.items(host.EVENT, events, count, status.INVALID_EVENT, "clWaitForEvents")
    wait_for_events(found)
    queue = found[0].get_info(native.event_info.COMMAND_QUEUE)
    if queue is not None:  # it is no user event
        wait_for_calls(queue)
        ready.waited(queue)


def clSetEventCallback(event: Event, state: int, function: int, user_data: int) -> None:
    if not function:
        fail("clSetEventCallback", status.INVALID_VALUE)
    c_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)(function)

    def call(reached: int) -> None:
        try:
            c_function(address, reached, user_data)
        finally:
            host.take_back(address)

    if state not in (0, 1, 2):
        fail("clSetEventCallback", status.INVALID_VALUE)
    address = host.lend_out(event, host.EVENT)
    call_in_order(event, state, call)


def platform_item(platform: Any) -> Platform:
    """The platform, opened if necessary."""
    return platform if platform is not None else get_platform()
