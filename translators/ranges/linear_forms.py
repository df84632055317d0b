"""Linear forms over numbered variables: their arithmetic, what follows from equations, and how they are shown.

What is called most is compiled as well (`compiled`): a change here needs the same change in `native/numbers.c`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from . import compiled

Linear = tuple[tuple[int, int], ...]  #: (variable, coefficient), ascending
#: the least and the largest value, if there are any, of a linear part
Range = tuple[int | None, int | None, Linear]


class Solution:
    """Variables expressed as forms of others, which follow from equations."""

    __slots__ = "_in_forms_of", "_parameters", "forms"

    def __init__(self, parameters: set[int]) -> None:
        """`parameters`: the variables that are replaced first, the last of them before others."""
        self._parameters = parameters
        #: terms and a constant, in the variables that are left
        self.forms: dict[int, tuple[dict[int, int], int]] = {}
        #: by variable that is left: those in whose forms it is
        self._in_forms_of: dict[int, set[int]] = {}

    def add(self, terms: dict[int, int], constant: int) -> None:
        """Add a form that is 0. Ignored if no variable follows from it by whole numbers; it remains an equation."""
        terms, constant = self.reduced(terms, constant)
        simple = [variable for variable, coefficient in terms.items() if abs(coefficient) == 1]
        if not simple:
            return
        gone = max(simple, key=lambda variable: (variable in self._parameters, variable))
        sign = -terms.pop(gone)
        form = {variable: sign * coefficient for variable, coefficient in terms.items()}, sign * constant
        for variable in self._in_forms_of.pop(gone, ()):
            old, more = self.forms[variable]
            factor = old[gone]
            rest = {other: coefficient for other, coefficient in old.items() if other != gone}
            self._keep(variable, plus(rest, form[0], factor), more + factor * form[1])
        self._keep(gone, *form)

    def _keep(self, variable: int, terms: dict[int, int], constant: int) -> None:
        before, _ = self.forms.get(variable, ({}, 0))
        for other in before.keys() - terms.keys():
            self._in_forms_of.get(other, set()).discard(variable)
        for other in terms.keys() - before.keys():
            self._in_forms_of.setdefault(other, set()).add(variable)
        self.forms[variable] = terms, constant

    def reduced(self, terms: dict[int, int], constant: int) -> tuple[dict[int, int], int]:
        """The same form in the variables that are left."""
        forms = self.forms
        known = terms.keys() & forms.keys()
        if known:
            terms = dict(terms)
        for variable in known:
            factor = terms.pop(variable)
            form, more = forms[variable]
            constant += factor * more
            for other, coefficient in form.items():  # as of `plus`: none of these is in `known`
                total = terms.get(other, 0) + factor * coefficient
                if total:
                    terms[other] = total
                else:
                    del terms[other]
        return dict(sorted(terms.items())), constant  # the same, however it was found

    def range_of(self, linear: Linear, low: int | None, high: int | None) -> Range | None:
        """A range of a linear part in the variables that are left; None if the part is a constant then."""
        if self.forms.keys().isdisjoint(dict(linear)):
            return low, high, linear
        terms, constant = self.reduced(dict(linear), 0)
        if not terms:
            return None
        rest, factor = normal(terms)
        if factor < 0:
            low, high, constant, factor = high, low, -constant, -factor
            low, high = (None if bound is None else -bound for bound in (low, high))
        low = None if low is None else -((constant - low) // factor)
        high = None if high is None else (high - constant) // factor
        return low, high, rest


def solved(parameters: set[int], ranges: Mapping[Linear, tuple[int | None, int | None]]) -> Solution:
    """What follows from those ranges of linear parts that have one value. `parameters`: as of `Solution`."""
    found = Solution(parameters)
    for linear, (low, high) in ranges.items():
        if low is not None and low == high:
            found.add(dict(linear), -low)
    return found


def larger(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return first if second is None else second
    return max(first, second)


def smaller(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return first if second is None else second
    return min(first, second)


def plus(terms: dict[int, int], others: dict[int, int], factor: int) -> dict[int, int]:
    """The terms of one form and `factor` times another."""
    found = terms.copy()
    get = found.get
    for variable, coefficient in others.items():
        total = get(variable, 0) + factor * coefficient
        if total:
            found[variable] = total
        else:
            del found[variable]
    return found


def normal(terms: dict[int, int]) -> tuple[Linear, int]:
    """The linear part divided by the largest common factor, with its first coefficient positive; and that factor."""
    if len(terms) == 1:
        ((variable, coefficient),) = terms.items()
        return ((variable, 1),), coefficient
    items = sorted(terms.items())
    factor = gcd(*terms.values())
    if items[0][1] < 0:
        factor = -factor
    if factor == 1:
        return tuple(items), 1
    return tuple([(variable, coefficient // factor) for variable, coefficient in items]), factor


def show(terms: dict[int, int], constant: int) -> str:
    """A form as text."""
    parts: list[str] = []
    for variable, coefficient in terms.items():
        if coefficient == 1:
            parts.append(f"+ v{variable}")
        elif coefficient == -1:
            parts.append(f"- v{variable}")
        elif coefficient > 0:
            parts.append(f"+ {coefficient} * v{variable}")
        else:
            parts.append(f"- {-coefficient} * v{variable}")
    if constant or not parts:
        parts.append(f"- {-constant}" if constant < 0 else f"+ {constant}")
    text = " ".join(parts)
    return text[2:] if text.startswith("+ ") else f"-{text[2:]}"


compiled.replace(globals(), ("plus", "normal", "solved"))
compiled.replace_methods(Solution, ("reduced", "range_of"))
