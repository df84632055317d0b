"""The iterations that come to the end of each way, and the offsets that an access has in them.

Decides in which cases conditions and offsets are affine, and evaluates each condition once. Bytes are made of them by
`domain_image`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ranges.region import Region
from ..symbolic import nodes
from ..symbolic.domain import Form
from ..symbolic.domain_image import image
from ..symbolic.evaluation import Scope, explore
from ..symbolic.exhaustive import assert_never
from ..symbolic.nodes import Both, Expr
from .ways import Step, StepKind

__all__ = ["MAX_PARTS", "Image", "Ways", "byte_offset", "doubt"]

#: Parts of ranges evaluated for one chunk before whole buffers are taken instead.
MAX_PARTS = 4000
#: Cases at the end of one way.
MOST_SCOPES = 64
#: What the cases at the ends of all steps of one way may take to make, in variables that are copied, and what each case takes beside
#: these; conditions behind that are not looked at. Ten times what the longest way of a usual kernel takes.
MOST_ON_WAY, EACH_CASE = 4000, 4

Image = tuple[Region, bool, str | None]  #: region, whether it is exact, and why not


class Ways:
    """The domains at the ends of ways; each way's conditions are evaluated once."""

    def __init__(self, root: Scope, *, certain: bool = False) -> None:
        """`certain`: points are taken to be reached of which nobody knows whether they are; the caller keeps that in mind."""
        self._certain = certain
        self._known: dict[Step, list[Scope]] = {}
        #: by the way before it and its condition: what an `if` comes to
        self._assumed: dict[tuple[Step | None, Expr], list[Scope]] = {}
        #: what it took to come to the end of a way, in units of `MOST_ON_WAY`; and by case, its twin behind which no condition is
        #: looked at
        self._spent: dict[Step, int] = {}
        self._given_up: dict[int, Scope] = {}
        self._images: dict[tuple[Step, Expr, int, int], list[Image]] = {}
        #: by domain at the end of a way, terms of an offset, bytes and size: the constant of one offset, and its image
        self._alike: dict[tuple[int, frozenset[tuple[int, int]], int, int], tuple[int, Image]] = {}
        self._root = root
        self._nparts = 0

    def images(self, way: Step, offset: Expr, nbytes: int, size: int) -> list[Image]:
        """What an access at `offset` touches at the end of `way`, in parts: region, exact, reason."""
        key = (way, offset, nbytes, size)
        found = self._images.get(key)
        if found is None and self._nparts > MAX_PARTS:
            return [(Region.span(0, size), False, "a kernel with too many cases")]
        if found is None:
            parts = (
                self._image(start, scope, form, nbytes, size)
                for start in self.scopes(way)
                for scope, form in explore(start, lambda s: byte_offset(s, offset))
            )
            found = self._images[key] = [part for part in parts if part[0]]
            self._nparts += len(found)
        return found

    def _image(self, start: Scope, scope: Scope, form: Form, nbytes: int, size: int) -> Image:
        """`image` of the offset `form`, which was evaluated in `scope`, a copy of `start`.

        A neighbouring access, as stencils have them, touches the same bytes some distance further on, unless the ends
        of the memory cut either of them.
        """
        if not scope.domain.is_like(start.domain):
            return image(scope.domain, form, nbytes, size)
        if not scope.position:  # no case of several
            start.memo = scope.memo  # what its parts are also holds for the next offset
            start.words = scope.words
        low, high = scope.domain.bounds(form)
        if type(form.constant) is not int or low < 0 or high > size - nbytes:
            return image(scope.domain, form, nbytes, size)
        if not all(type(coefficient) is int for coefficient in form.terms.values()):
            return image(scope.domain, form, nbytes, size)  # traced numbers are no keys
        key = (id(start), frozenset(form.terms.items()), nbytes, size)
        known = self._alike.get(key)
        if known is None:
            found = image(scope.domain, form, nbytes, size)
            self._alike[key] = form.constant, found
            return found
        constant, (region, exact, reason) = known
        return region.shift(form.constant - constant), exact, reason

    def scopes(self, way: Step) -> list[Scope]:
        """The cases at the end of a way."""
        unknown: list[Step] = []
        step: Step | None = way
        while step is not None and step not in self._known:
            unknown.append(step)
            step = step.parent
        for step in reversed(unknown):  # not one inside the other: ways may have thousands of steps
            self._known[step] = self._after(step)
        return self._known[way]

    def _after(self, way: Step) -> list[Scope]:
        """The same; what is before the last step is known."""
        if way.parent is None:
            return [self._root]
        before = self._known[way.parent]
        spent = self._spent[way] = self._spent.get(way.parent, 0)
        if way.kind is StepKind.LOOP or (self._certain and way.kind is StepKind.MAYBE):
            return before
        if way.kind is StepKind.IF and spent > MOST_ON_WAY:
            return self._behind_too_many(way)
        starts, says = self._begin(way)
        found = _all_cases(starts, says)
        if len(found) > MOST_SCOPES:
            if starts is before:
                # Too many cases to follow: continue from the way's beginning, without what it says.
                found = [_blurred(start) for start in before]
            else:  # whatever they begin with, some would have to be one: no more are made of those that there are
                found = [scope for start in starts for scope, _ in explore(start, says, 0)]
        if way.kind is StepKind.IF:
            self._assumed[way.parent, way.expr] = found
        self._spent[way] = spent + sum([EACH_CASE + len(scope.domain.lo) for scope in found])
        return found

    def _behind_too_many(self, way: Step) -> list[Scope]:
        """What is known without the last condition of a way, and without those before it that have led to several cases."""
        step = way.parent
        assert step is not None
        while (
            len(self._known[step]) > 1
            and step.kind in (StepKind.IF, StepKind.MAYBE)
            and step.parent is not None
        ):
            step = step.parent
        known = self._known[step]
        return [self._unasked(scope) for scope in known]

    def _unasked(self, scope: Scope) -> Scope:
        """The twin of a case behind which no condition is looked at; the case itself if it is one."""
        found = self._given_up.get(id(scope))
        if found is None:
            found = _blurred(scope, "behind too many conditions")
            self._given_up[id(scope)] = self._given_up[id(found)] = found
        return found

    def _begin(self, way: Step) -> tuple[list[Scope], Callable[[Scope], None]]:
        """Where the last step of a way begins, and what is assumed there.

        What an operand of `&&` or `||` accesses has the truth of all operands before it for a condition, each one more than the
        last: a step begins where one with fewer conditions has come to.
        """
        parent, condition = way.parent, way.expr
        assert parent is not None
        if way.kind is StepKind.IF:
            rest: list[Expr] = []
            known = self._assumed.get((parent, condition))
            while known is None and isinstance(condition, Both):
                rest.append(condition.b)
                condition = condition.a
                known = self._assumed.get((parent, condition))
            if known is not None:
                rest.reverse()
                return known, lambda scope: _assume_all(scope, rest)
        return self._known[parent], lambda scope: _take(scope, way)


def _all_cases(starts: Sequence[Scope], says: Callable[[Scope], None]) -> list[Scope]:
    """What comes of all of them; not to the end if that is too many."""
    found: list[Scope] = []
    for start in starts:
        found += [scope for scope, _ in explore(start, says)]
        if len(found) > MOST_SCOPES:
            break
    return found


def _blurred(scope: Scope, reason: str = "a condition with too many cases") -> Scope:
    twin = scope.copy()
    twin.domain.blur(reason)
    return twin


def _assume_all(scope: Scope, conditions: Sequence[Expr]) -> None:
    for condition in conditions:
        scope.assume(condition)


def _take(scope: Scope, way: Step) -> None:
    """Assume what one step of a way says."""
    match way.kind:
        case StepKind.IF:
            scope.assume(way.expr)
        case StepKind.WHILE:
            assert way.counter is not None
            scope.assume_while(way.counter, way.expr)
        case StepKind.EARLIER:
            assert way.counter is not None
            scope.assume_earlier(way.counter, way.expr)
        case StepKind.MAYBE:
            scope.domain.blur(doubt(way))
        case StepKind.ROOT | StepKind.LOOP:  # says nothing
            pass
        case _:
            assert_never(way.kind)


def doubt(way: Step) -> str:
    """Why nobody knows whether a point is reached."""
    return way.text if way.line is None else f"{way.text} (line {way.line})"


def byte_offset(scope: Scope, offset: Expr) -> Any:
    """The offset's form; pointer arithmetic is modulo 2**64, so that an unsigned -1 moves back by one."""
    form = scope.value(offset)
    low, high = scope.domain.bounds(form)
    if nodes.LONG.lo <= low and high <= nodes.LONG.hi:
        return form
    return scope.cast(form, nodes.LONG)
