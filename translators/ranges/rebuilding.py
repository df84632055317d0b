"""Things made again of other numbers, by steps that were written down once.

A step calls something with what constants, numbers and earlier steps have given; nothing is compiled for it. Decides what need not be
made again: whatever has no traced number in it. What the other steps are is the callers' to say.

What is called most is compiled as well (`compiled`): a change here needs the same change in `native/rebuilding.c`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import compiled
from .tracing import Number

#: where something lies: which of `KINDS`, and its place among them
Where = int
KINDS = CONSTANT, NUMBER, GIVEN, MADE = range(4)
#: what is called, None for a tuple of its arguments; and where these lie
Step = tuple[Callable[..., Any] | None, tuple[Where, ...]]


def where(kind: int, place: int) -> Where:
    """Where the thing of a kind at this place among them lies."""
    return place * len(KINDS) + kind


def built(
    constants: Sequence[Any],
    numbers: Sequence[Any],
    given: Sequence[Any],
    steps: Sequence[Step],
    result: Where,
) -> Any:
    """What lies at `result` once all steps were made, in their order; each makes one thing."""
    made: list[Any] = []
    kinds = constants, numbers, given, made
    for make, parts in steps:
        found = tuple([kinds[part & 3][part >> 2] for part in parts])
        made.append(found if make is None else make(*found))
    return kinds[result & 3][result >> 2]


class Record:
    """What is written down of things with traced numbers in them."""

    __slots__ = ("_number", "_other", "_plain", "_shown", "_where", "constants", "numbers", "steps")

    def __init__(self, number: Callable[[Number], Where], other: Callable[[Any], Where | None]) -> None:
        """`number`: gives where a number lies that has not been there yet. `other`: where anything else does, None if nothing in it is
        traced: what is neither plain nor a tuple."""
        self._number, self._other, self._plain = number, other, _PLAIN
        self.constants: list[Any] = []
        self._where: dict[int, Where] = {}  #: constants, by identity
        #: nothing that is made changes: what is made alike is one object
        self.steps: dict[Step, Where] = {}
        #: by the identity of a number's terms, and its constant
        self.numbers: dict[tuple[int, int], Where] = {}
        #: by identity: where what stands for a thing lies, None if nothing in it is traced; and the thing, which must not go
        self._shown: dict[int, tuple[Where | None, Any]] = {}

    def note(self, found: Any, place: Where | None) -> None:
        """What stands for something lies there."""
        self._shown[id(found)] = place, found

    def noted(self, found: Any) -> tuple[Where | None, Any] | None:
        return self._shown.get(id(found))

    def place(self, found: Any) -> Where | None:
        """Where anything lies; None if nothing in it is traced."""
        kind = type(found)
        if kind in _PLAIN:
            return None
        if kind is Number:
            known_number = self.numbers.get((id(found.terms), found.constant))
            return self._number(found) if known_number is None else known_number
        known = self._shown.get(id(found))
        if known is None:
            if kind is tuple:
                parts = self.places(found)
                place = None if parts is None else self.step(None, parts)
            else:
                place = self._other(found)
            known = self._shown[id(found)] = place, found
        return known[0]

    def places(self, found: tuple[Any, ...]) -> tuple[Where, ...] | None:
        """Where several things lie; None if nothing in them is traced."""
        places = [*map(self.place, found)]
        if places.count(None) == len(places):
            return None
        return tuple(
            [
                self.constant(part) if place is None else place
                for place, part in zip(places, found, strict=True)
            ]
        )

    def shown(self, found: Any) -> Where:
        """Where anything lies."""
        place = self.place(found)
        return self.constant(found) if place is None else place

    def constant(self, found: Any) -> Where:
        place = self._where.get(id(found))
        if place is None:
            place = self._where[id(found)] = where(CONSTANT, len(self.constants))
            self.constants.append(found)
        return place

    def step(self, make: Callable[..., Any] | None, parts: tuple[Where, ...]) -> Where:
        """Where that lies which a step makes."""
        return self.steps.setdefault((make, parts), where(MADE, len(self.steps)))


#: types of what has no numbers that are traced
_PLAIN = frozenset({int, bool, str, float, bytes, type(None)})

compiled.replace(globals(), ("built",))
compiled.replace_methods(Record, ("place", "places", "constant"))
