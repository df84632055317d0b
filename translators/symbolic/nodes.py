"""The nodes of symbolic expressions: one small class for each kind, and how a node is written out.

Decides what an expression may be made of. `expression` makes nodes, folds and shares them; nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

from vdev.translators.values import dataclass

from .exhaustive import assert_never

#: Stands for "no bound"; sums and products of a few of them still compare as intended.
INFINITE = 1 << 100

#: The origin of an unknown truth value, for messages.
LOOP_END = "how long a loop runs"


class _Width(NamedTuple):
    bits: int
    signed: bool


class IntType(_Width):
    """An integer type of OpenCL C: its width in bits and whether it has a sign."""

    @cached_property
    def lo(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @cached_property
    def hi(self) -> int:
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    def wrap(self, number: int) -> int:
        """The representative of `number` modulo 2**bits in the type's range."""
        return (number - self.lo) % (1 << self.bits) + self.lo


BOOL = IntType(1, False)
INT = IntType(32, True)
UINT = IntType(32, False)
LONG = IntType(64, True)
ULONG = IntType(64, False)


_NO_LEAVES: frozenset[Expr] = frozenset()


class _Interned:
    """Nodes are held weakly by whoever looks for equal ones."""

    __slots__ = ("__weakref__", "_leaves")
    made_often = True  # an analysis makes hundreds (`values.MADE_OFTEN`)
    _leaves: frozenset[Expr]  #: once somebody has asked for them


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node(_Interned):
    """One node. Nodes are interned: equal expressions are (nearly always) the same object; a lost sharing costs precision
    only. `lo` and `hi` bound the value for any launch; `serial` grows with each node that is made; `depth`: the number of
    nodes on the longest way down, not counting leaves that equal no other.
    """

    lo: int
    hi: int
    serial: int
    depth: int

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The operands that are expressions."""
        return ()

    @property
    def leaves(self) -> frozenset[Expr]:
        """All leaves of the expression."""
        found: frozenset[Expr] | None = getattr(self, "_leaves", None)
        if found is None:
            first, *others = [part.leaves for part in self.parts] or (_NO_LEAVES,)
            found = first.union(*others) if others else first
            object.__setattr__(self, "_leaves", found)
        return found

    def __repr__(self) -> str:
        return show(self)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Leaf(Node):
    """An expression that neither consists of others nor is a number."""

    @property
    def leaves(self) -> frozenset[Expr]:
        return frozenset((self,))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WorkItem(Leaf):
    """The answer of a work-item function for one `dimension`, from 0 to 2."""

    dimension: int


class ItemId(WorkItem):
    """A quantity that each work-item has for itself."""

    __slots__ = ()


class Uniform(WorkItem):
    """A quantity that is the same for all work-items of a work-group."""

    __slots__ = ()


class GlobalId(ItemId):
    """`get_global_id`"""

    __slots__ = ()


class GroupId(ItemId):
    """`get_group_id`"""

    __slots__ = ()


class LocalId(ItemId):
    """`get_local_id`"""

    __slots__ = ()


class GlobalSize(Uniform):
    """`get_global_size`"""

    __slots__ = ()


class LocalSize(Uniform):
    """`get_local_size`"""

    __slots__ = ()


class WholeLocalSize(Uniform):
    """`get_enqueued_local_size`"""

    __slots__ = ()


class NumGroups(Uniform):
    """`get_num_groups`"""

    __slots__ = ()


class GlobalOffset(Uniform):
    """`get_global_offset`"""

    __slots__ = ()


class WorkDim(Leaf):
    """`get_work_dim`"""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Argument(Leaf):
    """The integer of type `kind` at `byte` of the value argument `index`."""

    index: int
    byte: int
    kind: IntType


class Counter(Leaf):
    """How often a loop's body ran before, from 0 on."""

    __slots__ = ()


class Head(Leaf):
    """The value of a variable at the beginning of a loop's iteration."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exit(Leaf):
    """How often a loop's body ran to its end, from 0 on. `definition`: what is known of it, once it has been set."""

    definition: Trips = field(init=False)

    @property
    def leaves(self) -> frozenset[Expr]:
        """Itself and those of its definition."""
        return self._leaves


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unknown(Leaf):
    """A value of which only bounds are known. `origin`: where it comes from, for messages."""

    origin: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Const(Node):
    """A number."""

    number: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sum(Node):
    """`constant` and the sum of coefficient times term, in the order of their age."""

    constant: int
    terms: tuple[tuple[Expr, int], ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return tuple(term for term, _ in self.terms)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Product(Node):
    """A product of two factors or more, in the order of their age."""

    factors: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.factors


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pair(Node):
    """An operation with two operands."""

    a: Expr
    b: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.a, self.b


class Arithmetic(Pair):
    """One that gives a number."""

    __slots__ = ()


class Quotient(Arithmetic):
    """C's `a / b`, towards zero."""

    __slots__ = ()


class Remainder(Arithmetic):
    """C's `a % b`, with the sign of `a`."""

    __slots__ = ()


class ShiftLeft(Arithmetic):
    """`a << b`"""

    __slots__ = ()


class ShiftRight(Arithmetic):
    """`a >> b`, rounded down."""

    __slots__ = ()


class BitAnd(Arithmetic):
    """`a & b`"""

    __slots__ = ()


class BitOr(Arithmetic):
    """`a | b`"""

    __slots__ = ()


class BitXor(Arithmetic):
    """`a ^ b`"""

    __slots__ = ()


class Minimum(Arithmetic):
    """The smaller one."""

    __slots__ = ()


class Maximum(Arithmetic):
    """The larger one."""

    __slots__ = ()


class Both(Pair):
    """Whether two truth values hold."""

    __slots__ = ()


class Either(Pair):
    """Whether one of two truth values holds."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Select(Node):
    """C's `condition ? a : b`."""

    condition: Expr
    a: Expr
    b: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.condition, self.a, self.b


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Single(Node):
    """An operation with one operand."""

    a: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(Single):
    """The value of type `kind` congruent to `a`."""

    kind: IntType


class Comparison(Single):
    """A number compared with zero."""

    __slots__ = ()


class NotNegative(Comparison):
    """`a >= 0`"""

    __slots__ = ()


class IsZero(Comparison):
    """`a == 0`"""

    __slots__ = ()


class NotZero(Comparison):
    """`a != 0`"""

    __slots__ = ()


class Not(Single):
    """The negation of an unknown truth value."""

    __slots__ = ()


Expr: TypeAlias = (
    Const | Sum | Product | Cast | Select | Quotient | Remainder | ShiftLeft | ShiftRight | BitAnd | BitOr | BitXor
    | Minimum | Maximum | NotNegative | IsZero | NotZero | Both | Either | Not | GlobalId | GroupId | LocalId | GlobalSize
    | LocalSize | WholeLocalSize | NumGroups | GlobalOffset | WorkDim | Argument | Counter | Head | Exit | Unknown
)  # fmt: skip
#: Expressions of two operands.
Pairs: TypeAlias = (
    Quotient
    | Remainder
    | ShiftLeft
    | ShiftRight
    | BitAnd
    | BitOr
    | BitXor
    | Minimum
    | Maximum
    | Both
    | Either
)
WorkItems: TypeAlias = (
    GlobalId | GroupId | LocalId | GlobalSize | LocalSize | WholeLocalSize | NumGroups | GlobalOffset
)
#: Numbers compared with zero.
Comparisons: TypeAlias = NotNegative | IsZero | NotZero
#: The class of nodes, where a class is needed.
Interned = TypeVar("Interned", bound=Node)


def origins(expr: Expr) -> Iterator[str]:
    """Where the unknown parts of an expression come from."""
    return (leaf.origin for leaf in expr.leaves if isinstance(leaf, Unknown) and leaf.origin)


@dataclass(frozen=True)
class Trips:
    """What is known of T, the number of times a loop's body ran to its end.

    Either T is 0 and `none` holds, or `before` (the body is entered for the last time), and `after` in both
    cases; `exact`: these hold for one T only.
    """

    none: Expr
    before: Expr
    after: Expr
    exact: bool

    @property
    def parts(self) -> tuple[Expr, Expr, Expr]:
        return self.none, self.before, self.after


# written out -------------------------------------------------------------------------------------

#: Limits for writing out an expression; the rest is left out. Parts that are shared are single nodes in memory, but
#: written many times.
MOST_WRITTEN = 100

_COMPARED = {NotNegative: ">=", IsZero: "==", NotZero: "!="}
_INFIX: dict[type[Node], str] = {
    Quotient: "/",
    Remainder: "%",
    ShiftLeft: "<<",
    ShiftRight: ">>",
    BitAnd: "&",
    BitOr: "|",
    BitXor: "^",
    Both: "&&",
    Either: "||",
}
NAMES: dict[type[Node], str] = {
    GlobalId: "gid",
    GroupId: "group",
    LocalId: "lid",
    GlobalSize: "gsize",
    LocalSize: "lsize",
    WholeLocalSize: "whole_lsize",
    NumGroups: "ngroups",
    GlobalOffset: "goffset",
    WorkDim: "workdim",
    Counter: "k",
    Exit: "trips",
    Unknown: "u",
    Head: "h",
    Quotient: "div",
    Remainder: "mod",
    ShiftLeft: "shl",
    ShiftRight: "shr",
    BitAnd: "and",
    BitOr: "or",
    BitXor: "xor",
    Minimum: "min",
    Maximum: "max",
    Select: "select",
    NotNegative: "ge0",
    IsZero: "eq0",
    NotZero: "ne0",
    Both: "land",
    Either: "lor",
    Not: "not",
}


def leaf_name(leaf: Leaf, names: Mapping[int, str] | None = None) -> str:
    """A readable name: `gid0`, the argument's own name, `k12` for a loop's counter."""
    match leaf:
        case Argument():
            name = (names or {}).get(leaf.index, f"arg{leaf.index}")
            return f"{name}_{leaf.byte}" if leaf.byte else name
        case WorkItem():
            return f"{NAMES[type(leaf)]}{leaf.dimension}"
        case WorkDim():
            return NAMES[WorkDim]
    return f"{NAMES[type(leaf)]}{leaf.serial}"


def type_name(expr: Cast) -> str:
    return f"{'int' if expr.kind.signed else 'uint'}{expr.kind.bits}"


def show(expr: Expr, names: Mapping[int, str] | None = None) -> str:
    """The expression in C's notation, with `...` in place of what is too much."""
    return _shown(expr, names, [MOST_WRITTEN])


def _shown(expr: Expr, names: Mapping[int, str] | None, left: list[int]) -> str:
    """`left`: how many parts may still be written."""
    left[0] -= 1
    if left[0] < 0:
        return "..."
    match expr:
        case Const():
            return str(expr.number)
        case Leaf():
            return leaf_name(expr, names)
        case Sum():
            # Terms are kept in the order in which they were first met, by whichever kernel.
            terms = sorted((c < 0, _shown(t, names, left), c) for t, c in expr.terms)
            parts = [text if c == 1 else f"{c}*{text}" for _, text, c in terms]
            return "(" + " + ".join(parts + ([str(expr.constant)] if expr.constant else [])) + ")"
        case Product():
            return "*".join(_shown(factor, names, left) for factor in expr.factors)
        case Cast():
            return f"{type_name(expr)}({_shown(expr.a, names, left)})"
        case NotNegative() | IsZero() | NotZero():
            return f"({_shown(expr.a, names, left)} {_COMPARED[type(expr)]} 0)"
        case Minimum() | Maximum() | Select() | Not():
            return f"{NAMES[type(expr)]}({', '.join(_shown(part, names, left) for part in expr.parts)})"
        case Arithmetic() | Both() | Either():
            return f"({_shown(expr.a, names, left)} {_INFIX[type(expr)]} {_shown(expr.b, names, left)})"
    assert_never(expr)
