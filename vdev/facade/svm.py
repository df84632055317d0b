"""Shared virtual memory, which the device does not have.

Decides only how it is refused: as on a device that reports no SVM capability. Sizes and pointers of host
memory tagged as SVM are answered, since tagging alone asks nothing of a device.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from vdev.facade.context import Context
from vdev.facade.errors import as_int, check_type, fail, fail_cast, fail_type, status
from vdev.facade.event import parse_wait_list
from vdev.facade.hostbuf import as_bytes
from vdev.facade.queue import OUT_OF_ORDER, CommandQueue
from vdev.facade.sync import _enqueue_marker_with_wait_list


class SVMPointer:
    """Base of what points to shared virtual memory."""

    _memory_bytes: Any = None

    @property
    def svm_ptr(self) -> int:
        address: int = self._memory_bytes.ctypes.data
        return address

    @property
    def size(self) -> int | None:
        nbytes: int = self._memory_bytes.size
        return nbytes

    @property
    def buf(self) -> Any:
        return np.asarray(self._memory_bytes)


class SVM(SVMPointer):
    """Tags host memory as shared virtual memory."""

    def __init__(self, arg: Any, /) -> None:
        self._memory_bytes = as_bytes(arg, writable=True)
        self._mem = arg

    @property
    def mem(self) -> Any:
        return self._mem


def _check_queue(queue: CommandQueue | None, function: str, text: str) -> None:
    if queue is None:
        return
    check_type(function, queue, CommandQueue)
    if queue._properties & OUT_OF_ORDER:
        fail(function, status.INVALID_VALUE, text)


class SVMAllocation(SVMPointer):
    """clSVMAlloc: fails, except for nothing at all."""

    def __init__(
        self, context: Context, size: int, alignment: int, flags: int, queue: CommandQueue | None = None
    ) -> None:
        check_type("__init__", context, Context)
        nbytes = as_int("__init__", size)
        as_int("__init__", alignment, 0, 2**32 - 1)
        as_int("__init__", flags)
        _check_queue(
            queue,
            "SVMAllocation.__init__",
            "supplying an out-of-order queue to SVMAllocation is invalid",
        )
        if nbytes:
            fail("clSVMAlloc", status.OUT_OF_RESOURCES)
        self._memory_bytes = np.empty(0, np.uint8)
        self._bound = queue

    def release(self) -> None:
        """There is nothing to give back."""

    def enqueue_release(self, queue: CommandQueue | None = None, wait_for: Any = None) -> Any:
        used = queue or self._bound
        if used is None:
            fail(
                "SVMAllocation.enqueue_release",
                status.INVALID_VALUE,
                "no implicit queue available, must be provided explicitly",
            )
        return _enqueue_marker_with_wait_list(used, wait_for)

    def bind_to_queue(self, queue: CommandQueue) -> None:
        check_type("bind_to_queue", queue, CommandQueue)
        text = "supplying an out-of-order queue to SVMAllocation is invalid"
        _check_queue(queue, "SVMAllocation.bind_to_queue", text)
        self._bound = queue

    def unbind_from_queue(self) -> None:
        if self._bound is not None:
            self._bound.finish()
        self._bound = None

    @property
    def _queue(self) -> CommandQueue | None:
        return self._bound


class SVMAllocator:
    """Allocates shared virtual memory: the same refusal as SVMAllocation."""

    def __init__(
        self, context: Context, alignment: int = 0, flags: int = 1, queue: CommandQueue | None = None
    ) -> None:
        check_type("__init__", context, Context)
        if queue is not None:
            check_type("__init__", queue, CommandQueue)
        self._arguments = (context, alignment, flags, queue)

    def __call__(self, size: int) -> SVMAllocation:
        context, alignment, flags, queue = self._arguments
        return SVMAllocation(context, size, alignment, flags, queue)


def _refuse(routine: str, queue: CommandQueue, wait_for: Any, *pointers: Any) -> NoReturn:
    """clEnqueueSVM*: INVALID_OPERATION where the queue's device has no SVM."""
    check_type(routine, queue, CommandQueue)
    for pointer in pointers:
        check_type(routine, pointer, SVMPointer)
    parse_wait_list(wait_for, queue._context, routine)
    fail(routine, status.INVALID_OPERATION)


def _enqueue_svm_memcpy(
    queue: CommandQueue,
    is_blocking: int,
    dst: SVMPointer,
    src: SVMPointer,
    wait_for: Any = None,
    byte_count: Any = None,
) -> Any:
    _refuse("clEnqueueSVMMemcpy", queue, wait_for, dst, src)


def _enqueue_svm_memfill(
    queue: CommandQueue, dst: SVMPointer, pattern: Any, byte_count: Any = None, wait_for: Any = None
) -> Any:
    as_bytes(pattern)
    _refuse("clEnqueueSVMMemFill", queue, wait_for, dst)


def _enqueue_svm_map(
    queue: CommandQueue, is_blocking: int, flags: int, svm: SVMPointer, wait_for: Any = None, size: Any = None
) -> Any:
    _refuse("clEnqueueSVMMap", queue, wait_for, svm)


def _enqueue_svm_unmap(queue: CommandQueue, svm: SVMPointer, wait_for: Any = None) -> Any:
    _refuse("clEnqueueSVMUnmap", queue, wait_for, svm)


def _enqueue_svm_migrate_mem(
    queue: CommandQueue, svms: Any, flags: int | None = None, wait_for: Any = None
) -> Any:
    if svms is None:
        fail_type("_enqueue_svm_migrate_mem", svms)
    for svm in svms:
        if not isinstance(svm, SVMPointer):
            fail_cast()
    _refuse("clEnqueueSVMMigrateMem", queue, wait_for)
