"""What a program holds and what stands behind it: the façade's objects, their states and their integer handles.

An object that a program holds has PyOpenCL's attributes and no others that it could see or clash with. What the façade
keeps for it is its *state*, an object of a class with public, documented attributes, and `state_of` is the one way from
the one to the other; the attribute behind it has a name that programs' own subclasses do not use. An integer handle
stands where natively the address of the driver's object stands. It is valid within the process while somebody holds the
object. It never refers to memory.
"""

from __future__ import annotations

import itertools
import threading
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar
from weakref import WeakValueDictionary

from vdev.facade.errors import as_int, fail

State = TypeVar("State")

#: high enough never to be a mapped address of a 47-bit process, spaced like small allocations
_numbers = itertools.count(0x8000_0000_0040, 0x40)
_live: WeakValueDictionary[int, Any] = WeakValueDictionary()
_lock = threading.RLock()

if TYPE_CHECKING:

    class Stateful(Protocol[State]):
        """What has a state."""

        _vdev_state: State

    def state_of(item: Stateful[State]) -> State:
        """What the façade keeps for an object that a program holds; AttributeError where it keeps nothing."""

else:
    state_of = attrgetter("_vdev_state")  # on the way of every launch: faster than a function


class Handle:
    """Base of the classes that have a handle. Equality is identity: there is one façade object per driver's
    object.
    """

    __slots__ = ()

    _handle: int  #: 0 until somebody asks
    _retain: ClassVar[str]  #: routine that natively refuses a bad handle
    _invalid: ClassVar[int]  #: and its status code

    @property
    def int_ptr(self) -> int:
        """The object as an integer, valid within this process."""
        item: Any = self  # subclasses have the slot
        if not item._handle:
            with _lock:
                if not item._handle:
                    item._handle = next(_numbers)
                    _live[item._handle] = item
        return self._handle

    @classmethod
    def from_int_ptr(cls, int_ptr_value: int, retain: bool = True) -> Any:
        item = _live.get(as_int("from_int_ptr", int_ptr_value))
        if not isinstance(item, cls):
            fail(cls._retain, cls._invalid)
        return item
