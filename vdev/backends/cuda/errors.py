"""What CUDA's error codes mean: which OpenCL status each becomes, and from which of them a GPU does not recover."""

from __future__ import annotations

from collections.abc import Mapping

from vdev.errors import INVALID_VALUE, MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_RESOURCES

__all__ = [
    "ALREADY_ENABLED",
    "ELSEWHERE",
    "ERROR_INVALID_VALUE",
    "ERROR_NOT_READY",
    "ERROR_OUT_OF_MEMORY",
    "FATAL",
    "SUCCESS",
    "status_of_result",
]

# CUresult numbers
SUCCESS, ERROR_INVALID_VALUE, ERROR_OUT_OF_MEMORY, ERROR_NOT_READY = 0, 1, 2, 600
#: cudaErrorPeerAccessAlreadyEnabled, for which CuPy has no name: another worker on the GPU, or the program's own use
#: of CUDA, came first
ALREADY_ENABLED = 704
#: CUDA_ERROR_INVALID_CONTEXT and CUDA_ERROR_INVALID_HANDLE: what a driver may say that launches in the calling thread's context only.
#: That of CUDA 13 launches in the context of the function and the stream.
ELSEWHERE = frozenset({201, 400})

#: Errors after which a GPU's context refuses everything ("the process must be terminated and relaunched", in CUDA's
#: words). The runtime's errors have the same numbers.
FATAL: Mapping[int, str] = {
    214: "an uncorrectable memory error",
    220: "an uncorrectable error of a link between GPUs",
    226: "a hardware error",
    700: "an access to an invalid address",
    702: "a kernel that exceeded the time limit",
    709: "its context was destroyed",
    710: "an assertion in a kernel",
    714: "a hardware stack error",
    715: "an illegal instruction",
    716: "a misaligned access",
    717: "an access to the wrong kind of memory",
    718: "an invalid program counter",
    719: "a failed kernel",
}

_STATUSES = {ERROR_INVALID_VALUE: INVALID_VALUE, ERROR_OUT_OF_MEMORY: MEM_OBJECT_ALLOCATION_FAILURE}


def status_of_result(result: int) -> int:
    """The OpenCL status of a CUresult that is an error."""
    return _STATUSES.get(result, OUT_OF_RESOURCES)
