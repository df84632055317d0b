"""The C program's memory: what is at an address.

Decides nothing about validity: the caller has checked that an address is not NULL. What is read is copied; only `memory`
is the program's memory itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from vdev.facade.errors import fail, native, status
from vdev.facade.hostbuf import Bytes

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.restype = ctypes.py_object
_view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_WRITABLE = 0x200  # PyBUF_WRITE
_MOST = 2**63 - 1
INVALID_PROPERTY = -64  #: CL_INVALID_PROPERTY, for which PyOpenCL has no name

#: set by `entry.start`: (item, kind) -> the address of its handle; and the same with a reference for the program
address_of: Any = None
give_out: Any = None
lend_out: Any = None
item_at: Any = None
take_back: Any = None
count_of: Any = None
keep_ready: Any = None  #: says that the call changes nothing for launches that are ready (`vdev.icd.ready`)
#: how many events the program was given; with that number: all commands up to then are known to be complete
begin_era: Any = None
#: how many callbacks have not returned: while there are any, the library leaves waits to Python
set_callbacks: Any = None
#: by object: what the program gave, that is a context's or a sampler's properties, or a program's source
given: WeakKeyDictionary[Any, bytes] = WeakKeyDictionary()
#: whether there were no workers for a session when the library entered Python
is_without_device = False

#: numbers of kinds, in the order of `functions.KINDS`
PLATFORM, DEVICE, CONTEXT, QUEUE, MEM, SAMPLER, PROGRAM, KERNEL, EVENT = range(9)


def memory(address: int, nbytes: int) -> Bytes:
    """`nbytes` bytes of the program's memory, which the array does not keep alive."""
    if not nbytes:
        return np.empty(0, np.uint8)
    if nbytes > _MOST:
        fail("host memory", status.INVALID_VALUE)
    return np.frombuffer(_view(address, nbytes, _WRITABLE), np.uint8)


def sizes(address: int, count: int) -> tuple[int, ...]:
    """`count` numbers of type size_t."""
    return tuple((ctypes.c_size_t * count).from_address(address))


def signed(address: int, count: int) -> tuple[int, ...]:
    """`count` numbers of type intptr_t."""
    return tuple((ctypes.c_ssize_t * count).from_address(address))


def uint(address: int) -> int:
    """A cl_uint."""
    return ctypes.c_uint32.from_address(address).value


def text(address: int) -> bytes:
    """The characters up to the next NUL; none for NULL."""
    return ctypes.string_at(address) if address else b""


def block(address: int, nbytes: int) -> bytes:
    """A copy of bytes."""
    return ctypes.string_at(address, nbytes)


def pairs(address: int) -> list[tuple[int, int]]:
    """A list of properties: names and values in turn, up to a zero; none for NULL."""
    found: list[tuple[int, int]] = []
    while address:
        name = signed(address, 1)[0]
        if not name:
            break
        found.append((name, signed(address + 8, 1)[0]))
        address += 16
    return found


def put_uint(address: int, value: int) -> None:
    """Write a cl_uint, if there is a place for it."""
    if address:
        ctypes.c_uint32.from_address(address).value = value


def put_int(address: int, value: int) -> None:
    """Write a cl_int, if there is a place for it."""
    if address:
        ctypes.c_int32.from_address(address).value = value


def put_size(address: int, value: int) -> None:
    """Write a size_t, if there is a place for it."""
    if address:
        ctypes.c_size_t.from_address(address).value = value


def put_ulong(address: int, value: int) -> None:
    """Write a cl_ulong."""
    ctypes.c_uint64.from_address(address).value = value


def put_bytes(address: int, content: bytes) -> None:
    """Write bytes."""
    ctypes.memmove(address, content, len(content))


def items(kind: int, address: int, count: int, invalid: int, routine: str) -> list[Any]:
    """The objects of a list of handles; the error `invalid` if one of them is not of that kind."""
    found = [item_at(handle, kind) for handle in sizes(address, count)] if count else []
    if any(item is None for item in found):
        fail(routine, invalid)
    return found


def check_devices(routine: str, count: int, address: int) -> None:
    """Check a list of devices, which may be missing: there is only one device."""
    if (count == 0) != (address == 0):
        fail(routine, status.INVALID_VALUE)
    items(DEVICE, address, count, status.INVALID_DEVICE, routine)


def check_callback(routine: str, function: int, user_data: int) -> None:
    """INVALID_VALUE for a callback's data without a callback."""
    if user_data and not function:
        fail(routine, status.INVALID_VALUE)


def call_back(function: int, *arguments: int) -> None:
    """Call a program's function with addresses."""
    kinds = (ctypes.c_void_p,) * len(arguments)
    ctypes.CFUNCTYPE(None, *kinds)(function)(*arguments)


def code_of(error: BaseException) -> int | None:
    """The status code of an OpenCL error; None for any other exception."""
    if isinstance(error, native.Error) and error.args:
        code: int = error.args[0].code()
        return code
    return None


def packed(values: Sequence[int]) -> bytes:
    """Numbers as an array of size_t."""
    return b"".join(value.to_bytes(8, "little", signed=value < 0) for value in values)
