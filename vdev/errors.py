"""What can go wrong: the exceptions of vdev, and OpenCL's status codes for them.

    Exception
    ├── Failure              ends as an OpenCL status in the program
    │   ├── BackendError     work that a worker could not do
    │   │   └── BuildFailure     a program that a worker's compiler rejected
    │   ├── BuildError       a program that no worker could build
    │   └── NoRoom           a command that does not fit into a worker's memory
    ├── RuntimeError
    │   ├── NoWorkers        the machine has no device for the workers asked for
    │   └── CudaMissing      CUDA cannot be used here
    └── ImportError
        └── NativeModuleMissing     PyOpenCL is not there, or not all of it

Each part raises of these what its seam names; exceptions that a part raises and catches itself stay its own, and those
that say what a user has written wrongly stay with what they are about (`process.switches.SwitchError`,
`process.private_files.Untrusted`, `check.checking.CheckFailure`). What a driver reports becomes one of these in one
place for each back end (`backends.cuda.errors`, `backends.opencl.errors`), and what of these a program sees becomes
PyOpenCL's exception in `facade.errors`. Nothing here decides when something is wrong.
"""

from __future__ import annotations

__all__ = [
    "BUILD_PROGRAM_FAILURE",
    "DEPENDENCY_FAILED",
    "INVALID_BUFFER_SIZE",
    "INVALID_VALUE",
    "MEM_COPY_OVERLAP",
    "MEM_OBJECT_ALLOCATION_FAILURE",
    "OUT_OF_HOST_MEMORY",
    "OUT_OF_RESOURCES",
    "BackendError",
    "BuildError",
    "BuildFailure",
    "CudaMissing",
    "Failure",
    "NativeModuleMissing",
    "NoRoom",
    "NoWorkers",
    "status_of",
]

# Status codes that vdev gives of its own accord (OpenCL 3.0, table "Error codes")
MEM_OBJECT_ALLOCATION_FAILURE = -4
OUT_OF_RESOURCES = -5
OUT_OF_HOST_MEMORY = -6
MEM_COPY_OVERLAP = -8
BUILD_PROGRAM_FAILURE = -11
DEPENDENCY_FAILED = -14  #: CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
INVALID_VALUE = -30
INVALID_BUFFER_SIZE = -61


class Failure(Exception):
    """Something that a program sees as an OpenCL status; `status` is negative, but for what a driver says wrongly."""

    status: int


class BackendError(Failure):
    """Work that a worker could not do; `status` is the OpenCL status the command gets.

    From a marker: `at` names the operations that failed, counted from the marker before; empty where the back
    end cannot tell.
    """

    def __init__(self, status: int, text: str, at: tuple[int, ...] = ()) -> None:
        super().__init__(f"{text} ({status})")
        self.status = status
        self.text = text
        self.at = at


class BuildFailure(BackendError):
    """A program that a worker's compiler rejected; `log` is the compiler's text."""

    def __init__(self, log: str, status: int = BUILD_PROGRAM_FAILURE) -> None:
        super().__init__(status, "the worker's compiler rejected the program")
        self.log = log


class BuildError(Failure):
    """A program that no worker could build; `log` is the compiler's text."""

    def __init__(self, log: str, status: int = BUILD_PROGRAM_FAILURE) -> None:
        super().__init__(log)
        self.log = log
        self.status = status


class NoRoom(Failure):
    """A command needs more memory than any worker has, even with everything else moved to the host. It has ended with
    this status, and nothing of it has happened.
    """

    status = MEM_OBJECT_ALLOCATION_FAILURE


class NoWorkers(RuntimeError):
    """The machine has no device for the workers asked for; the text says what to do."""


class CudaMissing(RuntimeError):
    """CUDA cannot be used here; the text says why and what to do."""


class NativeModuleMissing(ImportError):
    """PyOpenCL is not installed, or without its native module."""


def status_of(error: Exception) -> int:
    """The OpenCL status of a command from what one of its steps raised: negative, whatever that is."""
    if isinstance(error, Failure):
        return error.status if error.status < 0 else OUT_OF_RESOURCES
    return OUT_OF_HOST_MEMORY if isinstance(error, MemoryError) else OUT_OF_RESOURCES
