"""Numbers put together from bits of others, as `&`, `|`, `^` and shifts with constants do it: which bit of which expression is where.

Decides for which of them that is known in a launch, by the bounds that others have there, and gives these an affine form: a bit that is
kept is a digit, the quotient by one power of two less a multiple of that by another one. So curves, bits in reversed order, and digits
that change places are exact, however many steps they take: none of the steps is evaluated. Of all others nothing is said here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from .domain import Domain, Form, added_up
from .nodes import BitAnd, BitOr, BitXor, Cast, Expr, ShiftLeft, ShiftRight, Sum

#: Digits in the form of one number: of as many as a number of 64 bits has. And bits that a number may be moved by.
MOST_DIGITS = 64


class Scope(Protocol):
    """What is asked of an evaluation."""

    @property
    def domain(self) -> Domain: ...

    @property
    def words(self) -> dict[Expr, Word]: ...

    def value(self, expr: Expr) -> Form: ...

    def floor_div(self, form: Form, divisor: int) -> Form: ...


class Word(NamedTuple):
    """A number by its bits. No place is in two of its parts; those in none have no bit."""

    #: an expression, and how far to the left (with a negative number, to the right) it is moved: the places that its bits are at
    fields: dict[tuple[Expr, int], int]
    ones: int = 0  #: places whose bits are set; of a negative number all from one on
    flipped: int = 0  #: places of fields at which the bit is the contrary of the expression's
    unknown: int = 0  #: places of which nothing is known; negative where the number may be

    @property
    def places(self) -> int:
        """All that may have a bit."""
        found = self.ones | self.unknown
        for mask in self.fields.values():
            found |= mask
        return found

    def within(self, mask: int) -> Word:
        """Its bits at these places."""
        fields = {field: kept for field, places in self.fields.items() if (kept := places & mask)}
        return Word(fields, self.ones & mask, self.flipped & mask, self.unknown & mask)

    def moved(self, by: int) -> Word:
        """Moved to the left, or by a negative number to the right, where bits are lost."""
        if by >= 0:
            fields = {(expr, at + by): places << by for (expr, at), places in self.fields.items()}
            return Word(fields, self.ones << by, self.flipped << by, self.unknown << by)
        fields = {
            (expr, at + by): kept for (expr, at), places in self.fields.items() if (kept := places >> -by)
        }
        return Word(fields, self.ones >> -by, self.flipped >> -by, self.unknown >> -by)


_NOTHING_KNOWN = Word({}, unknown=-1)


def form_of(scope: Scope, expr: Expr) -> Form | None:
    """The affine form of a number put together from bits; None where it is not known of each where it comes from."""
    word = word_of(scope, expr)
    if word.unknown:
        return None
    constant, multiples, ndigits = word.ones, dict[Expr, dict[int, int]](), 0
    for (source, at), places in word.fields.items():
        of_source = multiples.setdefault(source, {})
        for sign, mask in ((1, places & ~word.flipped), (-1, places & word.flipped)):
            for low, high in _runs(mask):
                of_source[low - at] = of_source.get(low - at, 0) + (sign << low)
                of_source[high - at] = of_source.get(high - at, 0) - (sign << high)
                ndigits += 1
        constant += places & word.flipped
    return None if ndigits > MOST_DIGITS else _added_up(scope, constant, multiples)


def _added_up(scope: Scope, constant: int, multiples: dict[Expr, dict[int, int]]) -> Form:
    """`multiples`: by expression and by how far it is shifted to the right, how often it is taken."""
    forms, factors = [], []
    for source, of_source in multiples.items():
        value = scope.value(source)
        for shift in sorted(of_source):  # so that each is a quotient of the one before
            if of_source[shift]:
                forms.append(scope.floor_div(value, 1 << shift))
                factors.append((None, of_source[shift]))
    return added_up(constant, tuple(factors), forms)


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """The places of a mask that follow one another: the first one, and the one behind the last."""
    while mask:
        low = (mask & -mask).bit_length() - 1
        high = low + (~(mask >> low) & (mask >> low) + 1).bit_length() - 1
        yield low, high
        mask &= -1 << high


def word_of(scope: Scope, expr: Expr) -> Word:
    """What is known of each bit of a number."""
    known = scope.words
    found = known.get(expr)
    if found is None:
        found = _put_together(scope, expr)
        if found is None:
            found = _of_one(scope, expr)
        known[expr] = found
    return found


def _of_one(scope: Scope, expr: Expr) -> Word:
    """As a number that has all its bits from itself."""
    form = scope.value(expr)
    low, high = scope.domain.bounds(form)
    if type(low) is not int or type(high) is not int:
        return _NOTHING_KNOWN  # traced
    if low == high:
        return Word({}, ones=low)
    if low < 0 or high.bit_length() > MOST_DIGITS:
        return _NOTHING_KNOWN
    places = (1 << high.bit_length()) - 1
    return Word({}, unknown=places) if scope.domain.is_loose(form) else Word({(expr, 0): places})


def _put_together(scope: Scope, expr: Expr) -> Word | None:
    """As a number that has its bits from others; None for all others."""
    match expr:
        case BitAnd():
            return _both(word_of(scope, expr.a), word_of(scope, expr.b))
        case BitOr():
            return _either(word_of(scope, expr.a), word_of(scope, expr.b))
        case BitXor():
            return _differing(word_of(scope, expr.a), word_of(scope, expr.b))
        case ShiftLeft() | ShiftRight():
            by = word_of(scope, expr.b)
            if not _is_number(by) or not 0 <= by.ones < MOST_DIGITS:
                return _NOTHING_KNOWN
            return word_of(scope, expr.a).moved(by.ones if type(expr) is ShiftLeft else -by.ones)
        case Cast():
            return _cast(word_of(scope, expr.a), expr)
        case Sum():
            return _sum(scope, expr)
    return None


def _cast(word: Word, expr: Cast) -> Word | None:
    kind = expr.kind
    if word.unknown < 0:
        return None
    if kind.lo == 0:
        return word.within(kind.hi)
    return word if 0 <= word.places <= kind.hi else None


def _sum(scope: Scope, expr: Sum) -> Word | None:
    """Of numbers that have no place in common: nothing is carried."""
    if expr.constant < 0 or any(factor <= 0 or factor & (factor - 1) for _, factor in expr.terms):
        return None
    found = Word({}, ones=expr.constant)
    for term, factor in expr.terms:
        more = word_of(scope, term).moved(factor.bit_length() - 1)
        if more.unknown < 0 or found.places & more.places:
            return None
        found = _apart(found, more)
    return found


def _apart(a: Word, b: Word) -> Word:
    """Both, where they have no place in common."""
    fields = {**a.fields, **b.fields}
    if len(fields) < len(a.fields) + len(b.fields):
        fields = {field: a.fields.get(field, 0) | b.fields.get(field, 0) for field in fields}
    return Word(fields, a.ones | b.ones, a.flipped | b.flipped, a.unknown | b.unknown)


def _lost(a: Word, b: Word, places: int) -> Word:
    """Both, with nothing known of the places that both have."""
    found = _apart(a.within(~places), b.within(~places))
    return Word(found.fields, found.ones, found.flipped, found.unknown | places)


def _is_number(word: Word) -> bool:
    return not (word.fields or word.unknown)


def _both(a: Word, b: Word) -> Word:
    if _is_number(a):
        a, b = b, a
    if _is_number(b):
        return a.within(b.ones)
    return Word({}, unknown=a.places & b.places)


def _either(a: Word, b: Word) -> Word:
    if _is_number(a):
        a, b = b, a
    common = a.places & b.places
    if _is_number(b):
        return _apart(a.within(~b.ones), b)
    return _lost(a, b, common) if common else _apart(a, b)


def _differing(a: Word, b: Word) -> Word:
    if _is_number(a):
        a, b = b, a
    common = a.places & b.places
    if _is_number(b):
        flipped = b.ones & a.places & ~(a.ones | a.unknown)
        ones = (a.ones ^ b.ones) & ~(flipped | a.unknown)
        return Word(a.fields, ones, a.flipped ^ flipped, a.unknown)
    return _lost(a, b, common) if common else _apart(a, b)
