"""What a native driver's errors mean to vdev."""

from __future__ import annotations

from typing import Any

from vdev.backends.opencl.native import load_native
from vdev.errors import (
    DEPENDENCY_FAILED,
    INVALID_BUFFER_SIZE,
    MEM_OBJECT_ALLOCATION_FAILURE,
    BackendError,
)

__all__ = ["allocation_failure_of", "failure_of"]


def failure_of(error: Any, text: str, *, named: bool = False) -> BackendError:
    """A native error as a BackendError. PyOpenCL's own `code` property is missing where only vdev loaded the
    module. `named`: the text names the status as OpenCL does.
    """
    record: Any = error.args[0] if error.args else None
    status = record.code() if hasattr(record, "code") else DEPENDENCY_FAILED
    routine = record.routine() if hasattr(record, "routine") else ""
    if named:
        names = vars(load_native().status_code).items()
        text += f" with {next((name for name, value in names if value == status), 'an unknown status')}"
    return BackendError(int(status), f"{text}: {routine}" if routine else text)


def allocation_failure_of(error: Any, text: str) -> BackendError:
    """The same for memory: a buffer larger than CL_DEVICE_MAX_MEM_ALLOC_SIZE counts as out of memory."""
    found = failure_of(error, text)
    return (
        BackendError(MEM_OBJECT_ALLOCATION_FAILURE, found.text)
        if found.status == INVALID_BUFFER_SIZE
        else found
    )
