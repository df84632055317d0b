"""The façade's objects that a program holds, their states and their integer handles.

An object that a program holds has PyOpenCL's attributes and no others that the program could see or clash with. What
the façade keeps for it is its *state*, an object of a class with public, documented attributes. `state_of` is the
only way from the object to its state; it uses an attribute whose name does not occur in programs' own subclasses.

An integer handle takes the place of the address of the driver's object. It is valid within the process as long as the
object exists. If the library for programs in other languages exists (`vdev.icd`), it is the address of a handle that
C code can use like a driver's; otherwise it refers to no memory.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, SupportsIndex, TypeVar
from weakref import WeakValueDictionary

from vdev.facade.errors import as_int, fail

State = TypeVar("State")

#: high enough never to be a mapped address of a 47-bit process, spaced like small allocations
_numbers = itertools.count(0x8000_0000_0040, 0x40)
_live: WeakValueDictionary[int, Any] = WeakValueDictionary()
_lock = threading.RLock()
_open_addresses: Callable[[], Addresses | None] | None = None
_addresses: Addresses | None = None


class Addresses(Protocol):
    """Gives objects handles that C code can use."""

    def address_of(self, item: Any) -> int:
        """The handle, made at the first request; `item._handle` keeps it."""

    def item_at(self, address: int, kind: type) -> Any:
        """The object of that class with that handle, or None."""

    def take_back(self, address: int) -> bool:
        """Take over a reference that C code had; whether it had one."""


def use_addresses(opener: Callable[[], Addresses | None]) -> None:
    """From the first handle on, use what `opener` returns for handles, unless that is None."""
    global _open_addresses, _addresses
    _open_addresses, _addresses = opener, None


def addresses() -> Addresses | None:
    """The source of handles for C code; None if handles are plain numbers."""
    global _open_addresses, _addresses
    if _open_addresses is not None:
        with _lock:
            if _open_addresses is not None:
                _addresses = _open_addresses()
                _open_addresses = None  # not before: another thread would be told that there are none
    return _addresses


def item_of(handle: int, kind: type) -> Any:
    """The object with that handle if it is of that class, else None."""
    item = _live.get(handle)
    real = addresses() if item is None else None
    if real is not None:
        item = real.item_at(handle, kind)
    return item if isinstance(item, kind) else None


def take_back(handle: int) -> bool:
    """Take over a reference that C code had; whether it had one."""
    real = addresses()
    return real is not None and real.take_back(handle)


if TYPE_CHECKING:

    class Stateful(Protocol[State]):
        """An object that has a state."""

        _vdev_state: State

    def state_of(item: Stateful[State]) -> State:
        """What the façade keeps for an object that a program holds; AttributeError if that is nothing."""

else:
    state_of = attrgetter("_vdev_state")  # used in every launch: faster than a function


class Single:
    """An object that exists once: natively, neither `copy` nor `pickle` takes it. A copy would share the state, and let
    go of it a second time.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


class Numbered:
    """An object that has a handle."""

    __slots__ = ()

    _handle: Any  #: 0 until somebody asks; then a number, or the object that holds C code's handle

    def _vdev_handle(self) -> int:
        """The handle, made at the first request."""
        if not self._handle:
            with _lock:
                if not self._handle and addresses() is None:
                    self._handle = next(_numbers)
                    _live[self._handle] = self
        if type(self._handle) is int and self._handle:
            return self._handle
        real = addresses()
        assert real is not None
        return real.address_of(self)


class Handle(Numbered, Single):
    """Base of the classes that have a handle. Equality is identity: there is one façade object per driver's
    object.
    """

    __slots__ = ()

    _retain: ClassVar[str]  #: the routine that refuses a bad handle natively
    _invalid: ClassVar[int]  #: and its status code

    @property
    def int_ptr(self) -> int:
        """The object as an integer, valid within this process."""
        return self._vdev_handle()

    @classmethod
    def from_int_ptr(cls, int_ptr_value: int, retain: bool = True) -> Any:
        item = item_of(as_int("from_int_ptr", int_ptr_value), cls)
        if item is None:
            fail(cls._retain, cls._invalid)
        if not retain:
            take_back(int_ptr_value)
        return item
