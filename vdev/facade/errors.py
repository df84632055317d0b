"""Errors as the native module raises them: class, status code and name of the routine.

Every error of the façade is raised through `fail`. The classes are the native module's own, so that
`pyopencl.LogicError` and the records inside are the ones that programs, pickles and PyOpenCL's Python layer
know. Nothing here decides when a call is wrong.

    Error
    ├── MemoryError     status MEM_OBJECT_ALLOCATION_FAILURE
    ├── LogicError      status <= INVALID_VALUE: the program is at fault
    └── RuntimeError    the other negative status codes: the machine is
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from vdev.backends.opencl.native import load_native

native: Any = load_native()
status: Any = native.status_code

#: CL_INVALID_VALUE: the highest code of a LogicError
_LOGIC_ERROR = -30

_BAD_CAST = "std::bad_cast"


def make_error(routine: str, code: int, text: str = "") -> Exception:
    """The exception that PyOpenCL raises when `routine` returns `code`; not raised yet."""
    record = native._ErrorRecord(routine=routine, code=code, msg=text)
    if code == status.MEM_OBJECT_ALLOCATION_FAILURE:
        kind = native.MemoryError
    elif code <= _LOGIC_ERROR:
        kind = native.LogicError
    elif code < 0:
        kind = native.RuntimeError
    else:
        kind = native.Error
    error: Exception = kind(record)
    return error


def fail(routine: str, code: int, text: str = "") -> NoReturn:
    """Raise the error of `routine` with status `code`, as natively."""
    raise make_error(routine, code, text)


def fail_type(function: str, *values: Any) -> NoReturn:
    """Raise what nanobind raises when no overload of `function` takes arguments of these types."""
    kinds = ", ".join(type(value).__name__ for value in values)
    raise TypeError(f"{function}(): incompatible function arguments. Invoked with types: {kinds}")


def fail_cast() -> NoReturn:
    """Raise what a failed conversion inside the native module raises: a plain RuntimeError."""
    raise RuntimeError(_BAD_CAST)


def check_type(function: str, value: Any, kind: type | tuple[type, ...]) -> None:
    """TypeError unless `value` is an instance of `kind`."""
    if not isinstance(value, kind):
        fail_type(function, value)


def as_int(function: str, value: Any, low: int = 0, high: int = 2**64 - 1) -> int:
    """`value` as nanobind converts to an integer type of that range: ints and what has `__index__`, no
    floats.
    """
    if type(value) is int and low <= value <= high:
        return value
    try:
        number = value.__index__()
    except AttributeError:
        fail_type(function, value)
    if not low <= number <= high:
        fail_type(function, value)
    result: int = number
    return result


def cast_int(value: Any, low: int = 0, high: int = 2**64 - 1) -> int:
    """Like `as_int` for values inside a sequence, where the native module's cast ends in a RuntimeError."""
    try:
        number = value.__index__()
    except (AttributeError, TypeError):  # a TypeError from an array of several dimensions
        fail_cast()
    if not low <= number <= high:
        fail_cast()
    result: int = number
    return result


def cast_ints(values: Iterable[Any]) -> tuple[int, ...]:
    """A sequence of sizes."""
    return tuple(cast_int(value) for value in values)
