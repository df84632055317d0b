"""Integer handles for the façade's objects: `int_ptr` and `from_int_ptr`.

A handle stands where natively the address of the driver's object stands. It is valid within the process while
somebody holds the object. It never refers to memory.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, ClassVar, TypeVar
from weakref import WeakValueDictionary

from vdev.facade.errors import as_int, fail

Object = TypeVar("Object")

#: high enough never to be a mapped address of a 47-bit process, spaced like small allocations
_numbers = itertools.count(0x8000_0000_0040, 0x40)
_live: WeakValueDictionary[int, Any] = WeakValueDictionary()
_lock = threading.RLock()


def number_of(item: Any) -> int:
    """The handle of `item`, whose attribute `_handle` is 0 until somebody asks."""
    handle: int = item._handle
    if not handle:
        with _lock:
            if not item._handle:
                item._handle = next(_numbers)
                _live[item._handle] = item
        handle = item._handle
    return handle


def object_of(handle: int, kind: type[Object], routine: str, code: int) -> Object:
    """The live object of that handle and class; the error `code` of `routine` where there is none."""
    item = _live.get(handle)
    if not isinstance(item, kind):
        fail(routine, code)
    return item


class Handle:
    """Base of the classes that have a handle. Equality is identity: there is one façade object per driver's
    object.
    """

    __slots__ = ()

    _handle: int
    _retain: ClassVar[str]  #: routine that natively refuses a bad handle
    _invalid: ClassVar[int]  #: and its status code

    @property
    def int_ptr(self) -> int:
        """The object as an integer, valid within this process."""
        return number_of(self)

    @classmethod
    def from_int_ptr(cls, int_ptr_value: int, retain: bool = True) -> Any:
        number = as_int("from_int_ptr", int_ptr_value)
        return object_of(number, cls, cls._retain, cls._invalid)
