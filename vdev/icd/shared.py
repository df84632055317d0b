"""Shared virtual memory of C programs (specification 5.6)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from vdev.facade import svm
from vdev.facade.calls import NOTHING, SVM_FREE
from vdev.facade.context import Context
from vdev.facade.errors import fail, status
from vdev.facade.event import Event
from vdev.facade.handles import state_of
from vdev.facade.kernel import Kernel
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_memory import allocate, find
from vdev.facade.transfers import PATTERN_SIZES
from vdev.icd import host
from vdev.icd.buffers import Waits
from vdev.icd.callbacks import call_in_order, wait_for_calls


class _Pointer(svm.SVMPointer):
    """An address that a program gave, and how many bytes from there are meant."""

    def __init__(self, address: int, nbytes: int) -> None:
        super().__init__(address, nbytes, None)


def _memory(routine: str, address: int, nbytes: int) -> svm.SVMPointer:
    """An address in the form that commands take: shared virtual memory, or plain host memory."""
    if not address:
        fail(routine, status.INVALID_VALUE)
    return _Pointer(address, nbytes) if find(address) is not None else svm.SVM(host.memory(address, nbytes))


def _after_calls(event: Event, queue: CommandQueue, blocking: int) -> Event:
    """The event of a command that the program has waited for, or not."""
    if blocking:
        wait_for_calls(queue)
    return event


def clSVMAlloc(context: Context, flags: int, nbytes: int, alignment: int) -> int:
    found = allocate(context, nbytes, alignment, flags)
    return 0 if found is None else found.start


def clSVMFree(context: Context, address: int) -> None:
    _free(address)


def _free(*addresses: int) -> None:
    for address in addresses:
        found = find(address) if address else None
        if found is not None and found.start == address:
            found.free()


def clEnqueueSVMFree(
    queue: CommandQueue, count: int, pointers: int, function: int, user_data: int, waits: Waits
) -> Event:
    if (count == 0) != (pointers == 0):
        SVM_FREE.fail(status.INVALID_VALUE)
    addresses = host.sizes(pointers, count) if count else ()
    event = SVM_FREE.submit(queue, NOTHING, SVM_FREE.after(queue, waits))
    if not function:
        state_of(event).add_callback(lambda ended: _free(*addresses))
        return event
    kinds = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)
    c_function = ctypes.CFUNCTYPE(None, *kinds)(function)
    handle = host.lend_out(queue, host.QUEUE)

    def call(ended: int) -> None:
        given = (ctypes.c_void_p * count)(*addresses)
        c_function(handle, count, ctypes.addressof(given), user_data)
        host.take_back(handle)

    call_in_order(event, 0, call)
    return event


def clEnqueueSVMMemcpy(
    queue: CommandQueue, blocking: int, target: int, source: int, nbytes: int, waits: Waits
) -> Event:
    routine = "clEnqueueSVMMemcpy"
    pointers = _memory(routine, target, nbytes), _memory(routine, source, nbytes)
    event = svm._enqueue_svm_memcpy(queue, blocking, *pointers, waits)
    return _after_calls(event, queue, blocking)


def clEnqueueSVMMemFill(
    queue: CommandQueue, address: int, pattern: int, size: int, nbytes: int, waits: Waits
) -> Event:
    routine = "clEnqueueSVMMemFill"
    if not pattern or size not in PATTERN_SIZES:
        fail(routine, status.INVALID_VALUE)
    pointer = _memory(routine, address, nbytes)
    return svm._enqueue_svm_memfill(queue, pointer, host.block(pattern, size), None, waits)


def clEnqueueSVMMap(
    queue: CommandQueue, blocking: int, flags: int, address: int, nbytes: int, waits: Waits
) -> Event:
    if not address or not nbytes:
        fail("clEnqueueSVMMap", status.INVALID_VALUE)
    event = svm._enqueue_svm_map(queue, blocking, flags, _Pointer(address, nbytes), waits)
    return _after_calls(event, queue, blocking)


def clEnqueueSVMUnmap(queue: CommandQueue, address: int, waits: Waits) -> Event | None:
    if not address:
        fail("clEnqueueSVMUnmap", status.INVALID_VALUE)
    return svm._enqueue_svm_unmap(queue, _Pointer(address, 0), waits)


def clEnqueueSVMMigrateMem(
    queue: CommandQueue, count: int, pointers: int, sizes: int, flags: int, waits: Waits
) -> Event:
    if not count or not pointers:
        fail("clEnqueueSVMMigrateMem", status.INVALID_VALUE)
    nbytes: Sequence[int] = host.sizes(sizes, count) if sizes else (0,) * count
    found: list[Any] = [_Pointer(*place) for place in zip(host.sizes(pointers, count), nbytes, strict=True)]
    return svm._enqueue_svm_migrate_mem(queue, found, flags, waits)


def clSetKernelArgSVMPointer(kernel: Kernel, index: int, address: int) -> None:
    state = state_of(kernel)
    if index >= len(state.args):
        fail("clSetKernelArgSVMPointer", status.INVALID_ARG_INDEX)
    kernel.set_arg(index, _Pointer(address, 1))
