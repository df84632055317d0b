"""Data classes that cost little to define, and properties that are computed once.

`dataclasses.dataclass` compiles the text of up to six functions for each class. For over a hundred classes that took
half of what importing vdev took, and a short program makes few objects of few of them. Here a class's constructor is
compiled once it has been called often, and comparing, hashing and printing are done by functions that all classes
share, given the class's fields. Fields and so on are those of `dataclasses`. Decides nothing else: a class
behaves like one made by `dataclasses`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter, ge, gt, le, lt
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["computed_once", "dataclass", "replace"]

#: A class with this attribute, compared by identity, is frozen for mypy alone, which finds every assignment to a field. To refuse it
#: while the program runs makes a constructor call a setter for each field, and so take twice as long. Equal objects must stay so: where
#: they are compared by value, the constructor of such a class writes to their dictionary instead, if they have one.
MADE_OFTEN = "made_often"

_MISSING = dataclasses.MISSING
_Getter = Callable[[Any], "tuple[Any, ...]"]


def _define(cls: type, *, eq: bool, repr: bool, frozen: bool, order: bool, slots: bool) -> type:
    frozen = frozen and not (getattr(cls, MADE_OFTEN, False) and not eq)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # otherwise dataclasses would derive one from the signature, which takes longer than everything else
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    fields = dataclasses.fields(made)
    compared = _getter([field.name for field in fields if field.compare])
    methods: dict[str, Any] = {"__init__": _constructor(made, frozen, slots)}
    if repr:
        methods["__repr__"] = _repr([field.name for field in fields if field.repr])
    if eq:
        methods["__eq__"] = _equality(compared)
    if order:
        methods |= {f"__{test.__name__}__": _order(test, compared) for test in (lt, le, gt, ge)}
    if frozen:
        methods |= _refusals(made, {field.name for field in fields})
        if slots:
            methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    own = vars(made)
    methods = {name: method for name, method in methods.items() if name not in own}
    # A class that defines equality has no hash, unless it defines that too.
    if eq and (own.get("__hash__") is None):
        kept = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
        methods["__hash__"] = _hash(_getter(kept)) if frozen else None
    for name, method in methods.items():
        setattr(made, name, method)
    return made


def _getter(names: Sequence[str]) -> _Getter:
    """The values of attributes, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        get = attrgetter(names[0])
        return lambda item: (get(item),)
    return lambda item: ()


def _equality(values: _Getter) -> Callable[[Any, object], Any]:
    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return __eq__


def _order(test: Callable[[Any, Any], Any], values: _Getter) -> Callable[[Any, object], Any]:
    def compare(self: Any, other: object) -> Any:
        if other.__class__ is self.__class__:
            return test(values(self), values(other))
        return NotImplemented

    return compare


def _hash(values: _Getter) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _repr(names: Sequence[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({values})"

    return __repr__


def _refusals(cls: type, names: set[str]) -> dict[str, Any]:
    """Methods that keep an object from being changed."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


# constructors -----------------------------------------------------------------------------------


#: objects of a class that are made field by field: compiling its constructor takes as long as making that many
_MOST_UNCOMPILED = 32


def _constructor(cls: Any, frozen: bool, slots: bool) -> Callable[..., None]:
    """A constructor that puts the compiled one in its place once it has been called often."""
    fields: list[Any] = []
    setters: list[Any] = []
    left = _MOST_UNCOMPILED

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal left
        if left == _MOST_UNCOMPILED:
            fields[:] = dataclasses.fields(cls)
            if slots:
                setters[:] = [getattr(cls, field.name).__set__ for field in fields]
            if any(field.kw_only or not field.init for field in fields):
                left = 0
        left -= 1
        plain = not kwargs and len(args) == len(fields)
        values = args if plain else _values_of(fields, args, kwargs)
        if left < 0 or values is None:
            compiled = _compile(cls, frozen, slots)
            cls.__init__ = compiled
            compiled(self, *args, **kwargs)
            return
        if slots:
            for put, value in zip(setters, values, strict=True):
                put(self, value)
        else:
            self.__dict__.update({field.name: value for field, value in zip(fields, values, strict=True)})
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    return __init__


def _values_of(fields: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any] | None:
    """By field, the argument that a constructor is given for it; None if a closer look is needed."""
    found = list(args)
    given = len(args)
    for field in fields[given:]:
        if field.name in kwargs:
            given += 1
            found.append(kwargs[field.name])
        elif field.default is not _MISSING:
            found.append(field.default)
        elif field.default_factory is not _MISSING:
            found.append(field.default_factory())
        else:
            return None
    return found if given == len(args) + len(kwargs) and len(found) == len(fields) else None


def _assignment(cls: Any, frozen: bool, slots: bool) -> str:
    """How a constructor gives the field {0} the value {1}."""
    if not frozen:
        return "self.{0} = {1}"
    if slots:
        return "_set_{0}(self, {1})"
    return "_values[{0!r}] = {1}" if getattr(cls, MADE_OFTEN, False) else "_set(self, {0!r}, {1})"


def _compile(cls: Any, frozen: bool, slots: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": _MISSING}
    if frozen and slots:  # the slot's own setter takes two thirds of the time
        names |= {f"_set_{field.name}": getattr(cls, field.name).__set__ for field in dataclasses.fields(cls)}
    parameters, body = ["self"], []
    by_keyword: list[str] = []
    assign = _assignment(cls, frozen, slots)
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        if field.default_factory is not _MISSING:
            names[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _missing else {name}" if field.init else f"_make_{name}()"
            parameter = f"{name}=_missing"
        elif field.default is not _MISSING:
            names[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
            value = name if field.init else f"_default_{name}"
        else:
            parameter = name
        if field.init:
            (by_keyword if field.kw_only else parameters).append(parameter)
        elif value == name or (field.default is not _MISSING and not slots):
            continue  # has no value yet, or the class's
        body.append(assign.format(name, value))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    if by_keyword:
        parameters += ["*", *by_keyword]
    if assign.startswith("_values"):
        body.insert(0, "_values = self.__dict__")
    text = f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(body or ["pass"])
    exec(text, names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


@cache
def _places_of(cls: Any) -> tuple[_Getter, dict[str, int]] | None:
    """What gives a class's values in the order of its constructor's parameters, and their places; None where some are no such."""
    fields = dataclasses.fields(cls)
    if any(field.kw_only or not field.init for field in fields):
        return None
    return _getter([field.name for field in fields]), {field.name: at for at, field in enumerate(fields)}


if TYPE_CHECKING:
    from dataclasses import dataclass, replace
    from functools import cached_property as computed_once
else:

    def replace(item: Any, /, **changes: Any) -> Any:
        """`dataclasses.replace`, which asks each field for itself and passes all by name: that takes three times as long."""
        known = _places_of(type(item))
        if known is None:
            return dataclasses.replace(item, **changes)
        get, places = known
        values = [*get(item)]
        for name, value in changes.items():
            if name not in places:
                raise TypeError(f"{type(item).__name__} has no field {name!r}")
            values[places[name]] = value
        return type(item)(*values)

    class computed_once:
        """A property of a value that never changes: computed at the first request, and an attribute of the object from then on.

        `functools.cached_property` without the lock that it takes before Python 3.12, which costs more than what is computed here. Two
        threads may both compute it, and find the same.
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self._name = function.__name__
            self.__doc__ = function.__doc__

        def __get__(self, item: Any, owner: type | None = None) -> Any:
            if item is None:
                return self
            found = item.__dict__[self._name] = self._function(item)
            return found

    def dataclass(
        cls: type | None = None,
        /,
        *,
        eq: bool = True,
        repr: bool = True,
        frozen: bool = False,
        order: bool = False,
        slots: bool = False,
    ) -> Any:
        """`dataclasses.dataclass`, as far as vdev uses it."""

        def define(cls: type) -> type:
            return _define(cls, eq=eq, repr=repr, frozen=frozen, order=order, slots=slots)

        return define if cls is None else define(cls)
