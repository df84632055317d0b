"""Puts a launch's numbers into symbolic expressions: expressions become affine forms over bounded integer variables.

What is not affine is split into cases that are (`min`, `max`, `?:`, wrap-around), given a variable of its own with
exact constraints (quotients and remainders by a number), or, failing both, a variable of which only bounds are known,
which makes the access inexact. Cases are explored by replay: an evaluation follows a script of choices, and every new
choice leaves its alternatives to be run later from the same starting point. Decides no byte ranges: `domain_image`
does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import TypeVar

from .domain import SOME_VALUE, Domain, Form, Infeasible, divided
from .exhaustive import assert_never
from .launch_numbers import Launch
from .logic import conjuncts, negate
from .nodes import (
    Arithmetic,
    Both,
    Cast,
    Comparison,
    Comparisons,
    Const,
    Either,
    Expr,
    GlobalId,
    GroupId,
    IntType,
    IsZero,
    ItemId,
    Leaf,
    LocalId,
    Not,
    NotNegative,
    NotZero,
    Product,
    Select,
    Sum,
    Unknown,
    origins,
)
from .operations import RULES
from .words import Word

T = TypeVar("T")
_Division = tuple[frozenset[tuple[int, int]], int, int]  #: a form's terms and constant, and the divisor

#: Cases of one condition or one offset before bounds are used instead.
_MAX_CASES = 24
_MAX_SCRIPT = 8
#: Comparisons that are decided for one offset or condition: each may ask for others, and these again.
_MAX_TRIALS = 200


class Scope:
    """A domain and the values of expressions within it."""

    __slots__ = (
        "alternatives",
        "divisors",
        "domain",
        "doubtful",
        "frozen",
        "ids",
        "launch",
        "memo",
        "position",
        "quotients",
        "script",
        "trials",
        "words",
    )

    def __init__(self, launch: Launch, domain: Domain) -> None:
        self.launch = launch
        self.domain = domain
        self.ids: dict[tuple[type[ItemId], int], Form] = {}
        self.memo: dict[Expr, Form] = {}
        self.words: dict[Expr, Word] = {}  #: of expressions whose bits were asked for
        self.quotients: dict[_Division, Form] = {}
        self.divisors: dict[int, tuple[_Division, ...]] = {}  #: the quotients that there are, by divisor
        self.script: tuple[int, ...] = ()
        self.position = 0
        self.alternatives: list[tuple[int, ...]] = []
        #: no new choices: bounds are used instead
        self.frozen = False
        #: comparisons that may still be decided, shared with the copies in which they are tried
        self.trials = [_MAX_TRIALS]
        #: casts assumed to be the identity on trial, see `_assume_while`
        self.doubtful: list[tuple[Form, IntType]] | None = None

    def copy(self, script: tuple[int, ...] = ()) -> Scope:
        twin = Scope.__new__(Scope)
        twin.launch = self.launch
        twin.domain = self.domain.copy()
        twin.ids = self.ids
        twin.memo = self.memo.copy()
        twin.words = self.words.copy() if self.words else {}
        twin.quotients = self.quotients.copy() if self.quotients else {}
        twin.divisors = self.divisors.copy() if self.quotients else {}
        twin.script = script
        twin.position = 0
        twin.alternatives = []
        twin.frozen = False
        twin.trials = [_MAX_TRIALS]
        twin.doubtful = None
        return twin

    # cases ------------------------------------------------------------------------------------------

    def may_choose(self) -> bool:
        done = self.frozen or len(self.script) >= _MAX_SCRIPT or self.trials[0] == 0
        return self.position < len(self.script) or not done

    def choose(self, ncases: int = 2) -> int:
        """The case to take; later replays take the others."""
        if self.position < len(self.script):
            case = self.script[self.position]
        else:
            case = 0
            self.alternatives.extend((*self.script, other) for other in range(1, ncases))
            self.script = (*self.script, 0)
        self.position += 1
        return case

    # values -----------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Form:
        """The affine form of an integer expression."""
        found = self.memo.get(expr)
        if found is None:
            found = self.memo[expr] = RULES[type(expr)](self, expr)
        return found

    def between(
        self, lo: int, hi: int, *sources: Form, origin: str = "a calculation that is not affine"
    ) -> Form:
        """Some value between `lo` and `hi`, made from `sources` in a way that is not followed.

        `origin`: what it is, for messages; the unknown part of a source takes precedence.
        """
        if lo == hi:
            return Form(lo, {})
        domain = self.domain
        depends: frozenset[int] = frozenset().union(*map(domain.ancestors, sources))
        known = domain.origins.keys() & depends
        if known:
            origin = domain.origins[min(known)]
        return Form(0, {domain.variable(lo, hi, loose=True, depends=depends, origin=origin): 1})

    def floor_div(self, form: Form, divisor: int) -> Form:
        """The quotient rounded down, `divisor` > 0."""
        base, remainder = divided(form, divisor)
        if remainder is None:
            return base
        low, high = self.domain.bounds(remainder)
        low, high = low // divisor, high // divisor
        if low == high:
            return base.shifted(low)
        key = (frozenset(remainder.terms.items()), remainder.constant, divisor)
        known = self.quotients.get(key)
        if known is None:
            finer = self._divided_before(remainder, divisor)
            known = self.quotients[key] = (
                self._quotient(remainder, divisor, low, high) if finer is None else self.floor_div(*finer)
            )
            self.divisors[divisor] = (*self.divisors.get(divisor, ()), key)
        return base.plus(known)

    def _quotient(self, form: Form, divisor: int, low: int, high: int) -> Form:
        """A new variable from `low` to `high` for a form's quotient."""
        domain = self.domain
        variable = domain.variable(low, high, loose=domain.is_loose(form), depends=domain.ancestors(form))
        quotient = Form(0, {variable: 1})
        exact, domain.exact = domain.exact, False
        above = form.plus(quotient, -divisor)
        domain.require(above)
        domain.require(Form(divisor - 1, {}).plus(above, -1))
        domain.exact = exact  # a definition, not a condition: it removes no iteration, and blurs nothing
        return quotient

    def _divided_before(self, form: Form, divisor: int) -> tuple[Form, int] | None:
        """What a form's quotient is one of as well, and by which number: of its quotient by the largest factor of `divisor` for which there
        is one. As the digits of a number then follow from one another, none is tied to more than the next, and what is x / 4 is also
        x / 2 / 2.
        """
        for factor in sorted(self.divisors, reverse=True):
            if factor >= divisor or divisor % factor:
                continue
            for key in self.divisors[factor]:
                rest = form.plus(Form(key[1], dict(key[0])), -1)
                if all(number % factor == 0 for number in (rest.constant, *rest.terms.values())):
                    parts = {variable: number // factor for variable, number in rest.terms.items()}
                    found = Form(rest.constant // factor, parts).plus(self.quotients[key])
                    return found, divisor // factor
        return None

    def trunc_div(self, form: Form, divisor: int) -> Form:
        """C's quotient by a number other than zero."""
        if divisor < 0:
            return self.trunc_div(form, -divisor).times(-1)
        low, high = self.domain.bounds(form)
        if low >= 0:
            return self.floor_div(form, divisor)
        if high < divisor:
            # Values in (-divisor, divisor) have quotient 0 whatever their sign.
            if low > -divisor:
                return Form(0, {})
            if high <= 0:
                return self.floor_div(form.times(-1), divisor).times(-1)
        if self.may_choose() and not self.domain.is_loose(form):
            if self.choose() == 0:
                self.domain.require(form)
                return self.floor_div(form, divisor)
            self.domain.require(form.times(-1).shifted(-1))
            return self.floor_div(form.times(-1), divisor).times(-1)
        return self.between(-(-low // divisor), high // divisor, form)

    def low_bits(self, form: Form, nbits: int) -> Form:
        """`form` modulo 2**nbits, which is at least 0."""
        size = 1 << nbits
        low, high = self.domain.bounds(form)
        if low >= 0 and high < size:
            return form
        return form.plus(self.floor_div(form, size), -size)

    def cast(self, form: Form, kind: IntType) -> Form:
        low, high = self.domain.bounds(form)
        if kind.lo <= low and high <= kind.hi:
            return form
        low, high = self.domain.tight_bounds(form)
        if kind.lo <= low and high <= kind.hi:
            return form
        if self.doubtful is not None:
            self.doubtful.append((form, kind))
            return form
        size = 1 << kind.bits
        first, last = (low - kind.lo) // size, (high - kind.lo) // size
        if first == last:
            return form.shifted(-first * size)
        if last - first <= 2 and self.may_choose() and not self.domain.is_loose(form):
            window = first + self.choose(last - first + 1)
            self.domain.require(form.shifted(-kind.lo - window * size))
            self.domain.require(form.times(-1).shifted(kind.hi + window * size))
            return form.shifted(-window * size)
        return self.between(kind.lo, kind.hi, form)

    # conditions -------------------------------------------------------------------------------------

    def assume(self, condition: Expr) -> None:  # noqa: C901 (a case for each kind)
        """Keep the iterations for which `condition` holds. Raises Infeasible if none is left."""
        match condition:
            case NotNegative():
                self.domain.require(self.value(condition.a))
            case IsZero():
                self._assume_zero(self.value(condition.a))
            case NotZero():
                self._assume_not_zero(self.value(condition.a))
            case Both():
                for part in conjuncts(condition):
                    self.assume(part)
            case Either():
                self._assume_either(condition.a, condition.b)
            case Const():
                if not condition.number:
                    raise Infeasible
            case Not() | Unknown():
                self.domain.blur(f"a condition on {_origin(condition)}")
            case Select():
                self._assume_select(condition)
            case Sum() | Product() | Cast() | Arithmetic() | Leaf():
                self._assume_not_zero(self.value(condition))
            case _:
                assert_never(condition)

    def _assume_zero(self, form: Form) -> None:
        if form.terms and form.constant % gcd(*form.terms.values()):
            raise Infeasible
        self.domain.require(form)
        self.domain.require(form.times(-1))

    def _assume_not_zero(self, form: Form) -> None:
        domain = self.domain
        low, high = domain.bounds(form)
        if low > 0 or high < 0:
            return
        if low == high:
            raise Infeasible
        if low == 0:
            domain.require(form.shifted(-1))
        elif high == 0:
            domain.require(form.times(-1).shifted(-1))
        elif form.constant % gcd(*form.terms.values()):
            return
        elif not domain.is_loose(form) and self.may_choose():
            domain.require(form.shifted(-1) if self.choose() == 0 else form.times(-1).shifted(-1))
        else:
            loose = domain.is_loose(form)
            domain.blur(
                f"a condition on {domain.origin(form)}"
                if loose
                else "an inequality (`!=`) that splits the range in two"
            )

    def _assume_either(self, a: Expr, b: Expr) -> None:
        known = self.decide(a)
        if known is True:
            return
        if known is False:
            self.assume(b)
            return
        known = self.decide(b)
        if known is True:
            return
        if known is False:
            self.assume(a)
        elif self.may_choose():
            if self.choose() == 0:
                self.assume(a)
            else:
                self.assume(negate(a))
                self.assume(b)
        else:
            self.domain.blur("a disjunction with too many cases")

    def _assume_select(self, choice: Select) -> None:
        if not self.may_choose():
            self.domain.blur("a condition with too many cases")
        elif self.choose() == 0:
            self.assume(choice.condition)
            self.assume(choice.a)
        else:
            self.assume(negate(choice.condition))
            self.assume(choice.b)

    def decide(self, condition: Expr) -> bool | None:
        """Whether `condition` holds everywhere or nowhere in the domain; None if that is not immediately clear."""
        return self._decided(condition, {})

    def _decided(self, condition: Expr, known: dict[Expr, bool | None]) -> bool | None:
        """`known`: what has been decided on the way, since one condition may be part of many."""
        match condition:
            case Const(number=number):
                return bool(number)
            case Both() | Either():
                if condition not in known:
                    known[condition] = self._joined(condition, known)
                return known[condition]
            case NotNegative():
                bounds = self._trial(condition.a)
                if bounds is None:
                    return None
                return True if bounds[0] >= 0 else False if bounds[1] < 0 else None
            case IsZero() | NotZero():
                bounds = self._trial(condition.a)
                if bounds is None:
                    return None
                if bounds[0] > 0 or bounds[1] < 0:
                    return isinstance(condition, NotZero)
                return isinstance(condition, IsZero) if bounds[0] == bounds[1] else None
        return None

    def _joined(self, condition: Both | Either, known: dict[Expr, bool | None]) -> bool | None:
        first, second = self._decided(condition.a, known), self._decided(condition.b, known)
        strong = isinstance(condition, Either)
        if first is strong or second is strong:
            return strong
        return None if first is None or second is None else not strong

    def _trial(self, expr: Expr) -> tuple[int, int] | None:
        """The bounds of a value without any choice; None if it has none, or if enough has been tried."""
        if self.trials[0] == 0:
            return None
        self.trials[0] -= 1
        trial = self.copy()
        trial.frozen, trial.trials = True, self.trials
        try:
            return trial.domain.bounds(trial.value(expr))
        except Infeasible:
            return None

    # loops ------------------------------------------------------------------------------------------

    def assume_while(self, counter: Expr, condition: Expr, first: int = 0) -> None:
        """`condition` held in every iteration from `first` up to the one that `counter` stands for.

        It is required of that iteration. It then holds in the earlier ones too if it can only change from
        true to false as the counter grows; where that does not show, the domain stays a superset and is no
        longer exact.
        """
        for part in conjuncts(condition):
            if counter not in part.leaves:
                self.assume(part)
            elif isinstance(part, Comparison):
                self._assume_while(counter, part, first)
            else:
                self.assume(part)
                self.domain.blur("a loop condition that is not followed")

    def _assume_while(self, counter: Expr, condition: Comparisons, first: int) -> None:
        domain = self.domain
        (variable,) = self.value(counter).terms or (None,)
        if variable is None:
            self.assume(condition)
            return
        form = self._unwrapped(counter, variable, condition, first)
        if form is None:
            self.assume(condition)
            domain.blur("a loop whose counter may wrap around")
            return
        coefficient = form.terms.get(variable, 0)
        if isinstance(condition, IsZero):
            self._assume_zero(form)
            domain.blur("a loop that runs while two values are equal")
            return
        later = domain.lo[variable] > first  # the domain no longer has the first iterations
        changed = domain.require(form)
        if (changed or later) and any(variable in domain.depends.get(other, ()) for other in form.terms):
            domain.blur("a loop condition that is not affine")
        elif (changed or later) and coefficient > 0:
            rest = Form(
                form.constant + coefficient * first, {v: c for v, c in form.terms.items() if v != variable}
            )
            if domain.bounds(rest)[0] < 0:
                domain.blur("a loop condition that may become true again")

    def _unwrapped(self, counter: Expr, variable: int, condition: Comparisons, first: int) -> Form | None:
        """The form that is >= 0 while the loop runs, with wrap-around of the loop's variables ruled out; else
        None.

        Casts of values that grow with the counter are taken as the identity on trial. By induction over the
        iterations they are: in the first one where such a value left its type's range, the condition held in
        the one before, so that the counter is at most one step beyond the condition's bound; if all values
        fit their types up to there, no such iteration exists.
        """
        for part in _without(condition.a, counter):
            self.value(part)
        memo, self.memo = self.memo, dict(self.memo)
        words, self.words = self.words, dict(self.words)
        frozen, self.frozen = self.frozen, True
        self.doubtful = []
        try:
            script, self.script = self.script, self.script[: self.position]
            form: Form | None = self.value(condition.a)
        finally:
            self.script = script
            doubtful, self.doubtful = self.doubtful, None
            self.frozen = frozen
        assert form is not None
        if isinstance(condition, NotZero):
            form = self._until_equal(form, variable, form.terms.get(variable, 0), first)
        if form is None:
            self.memo, self.words = memo, words
            return None
        if doubtful and not self._fit(doubtful, variable, form, first):
            self.memo, self.words = memo, words
            return None
        return form

    def _fit(self, doubtful: list[tuple[Form, IntType]], variable: int, form: Form, first: int) -> bool:
        """Whether all these values fit their types while `form` is >= 0, and one step beyond."""
        domain = self.domain
        coefficient = form.terms.get(variable, 0)
        low, high = domain.lo[variable], domain.hi[variable]
        domain.lo[variable] = first  # the domain may have lost the first iterations
        if coefficient < 0:
            rest = Form(form.constant, {v: c for v, c in form.terms.items() if v != variable})
            domain.hi[variable] = max(first, min(high, domain.bounds(rest)[1] // -coefficient + 1))
        fits = all(
            kind.lo <= bounds[0] and bounds[1] <= kind.hi
            for bounds, kind in ((domain.tight_bounds(value), kind) for value, kind in doubtful)
        )
        domain.lo[variable], domain.hi[variable] = low, high
        return fits

    def _until_equal(self, form: Form, variable: int, coefficient: int, first: int) -> Form | None:
        """For a loop that runs while `form` != 0: a form that is >= 0 just as long; None where the loop may
        step over zero."""
        if coefficient == 0:
            return None
        rest = Form(form.constant, {v: c for v, c in form.terms.items() if v != variable})
        if coefficient > 0:
            form, rest = form.times(-1), rest.times(-1)
        low, _ = self.domain.bounds(rest.shifted(-abs(coefficient) * first))
        divides = abs(coefficient) == 1 or all(
            number % coefficient == 0 for number in (rest.constant, *rest.terms.values())
        )
        if low < 0 or not divides:
            return None
        return form.shifted(-1)

    def assume_earlier(self, counter: Expr, condition: Expr) -> None:
        """Either this is the first iteration, or `condition` (written for the iteration before) held in all
        before."""
        form = self.value(counter)
        low, high = self.domain.bounds(form)
        if high == 0:
            return
        if low == 0:
            if not self.may_choose():
                self.domain.blur("a loop with too many cases")
                return
            if self.choose() == 0:
                self.domain.require(form.times(-1))
                self.memo = {expr: self.domain.fold(known) for expr, known in self.memo.items()}
                return
            self.domain.require(form.shifted(-1))
        self.assume_while(counter, condition, 1)


def _variable_form(domain: Domain, lo: int, hi: int) -> Form:
    if lo == hi:
        return Form(lo, {})
    return Form(0, {domain.variable(lo, hi): 1})


def scope_of(launch: Launch) -> Scope:
    """The work-items of the launch's chunk: nothing assumed yet."""
    domain = Domain()
    scope = Scope(launch, domain)
    ndrange, chunk = launch.ndrange, launch.chunk
    for d in range(ndrange.work_dim):
        size, local, offset = ndrange.global_size[d], ndrange.local_size[d], ndrange.offset[d]
        start, stop = chunk.start[d], chunk.stop[d]
        cycle = chunk.cycle if chunk.cycle is not None and chunk.cycle.axis == d else None
        if cycle is not None:  # (g - start) = block's number * stride + g', 0 <= g' < block
            number = _variable_form(domain, 0, (stop - start) // cycle.stride)
            stop = start + cycle.block
        if d in launch.merged:
            last = min(stop * local, size)
            ids = _variable_form(domain, start * local, last - 1).shifted(offset)
            scope.ids[GlobalId, d] = ids if cycle is None else ids.plus(number, cycle.stride * local)
            continue
        group = _variable_form(domain, start, stop - 1)
        if cycle is not None:
            group = group.plus(number, cycle.stride)
        item = _variable_form(domain, 0, min(local, size) - 1)
        scope.ids[GroupId, d] = group
        scope.ids[LocalId, d] = item
        inside = item.plus(group, local)
        if stop * local > size:
            # Only the last work-group of a dimension may be partial (OpenCL 2.0, 5.8).
            domain.require(Form(size - 1, {}).plus(inside, -1))
        scope.ids[GlobalId, d] = inside.shifted(offset)
    return scope


def _origin(condition: Expr) -> str:
    """Where what is not known of a condition comes from."""
    return next(origins(condition), SOME_VALUE)


def _without(expr: Expr, leaf: Expr) -> Iterator[Expr]:
    """The largest parts of `expr` in which `leaf` does not occur."""
    if leaf not in expr.leaves:
        yield expr
    else:
        for part in expr.parts:
            yield from _without(part, leaf)


def explore(start: Scope, action: Callable[[Scope], T], most: int = _MAX_CASES) -> Iterator[tuple[Scope, T]]:
    """Run `action` on copies of `start`, once for each case it distinguishes; empty cases are left out. With more than `most` cases
    some are one, and with none all are.
    """
    pending: list[tuple[int, ...]] = [()]
    nruns = 0
    while pending:
        scope = start.copy(pending.pop())
        scope.frozen = nruns + len(pending) >= most
        nruns += 1
        try:
            result = action(scope)
        except Infeasible:
            pending.extend(scope.alternatives)
            continue
        pending.extend(scope.alternatives)
        yield scope, result
