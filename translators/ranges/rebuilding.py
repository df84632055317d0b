"""Things made again of other numbers, by steps that were written down once.

A step calls something with what constants, numbers and earlier steps have given; nothing is compiled for it. Decides nothing: what the
steps are is its callers' to say.

The function is compiled as well (`compiled`): a change here needs the same change in `native/rebuilding.c`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import compiled

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


compiled.replace(globals(), ("built",))
