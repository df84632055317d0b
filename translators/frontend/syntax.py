"""The parts of clang's syntax tree that the access analysis needs: a class for each kind of expression and statement.

Decides what there is in a tree (`syntax_reader` makes them), and what a part of a tree changes or does.
"""

from __future__ import annotations

from typing import TypeAlias

from vdev.translators.values import dataclass

from ..symbolic.exhaustive import assert_never
from .operator_kinds import Binary, Unary
from .types import CBits, CType


class Unsupported(Exception):
    """A construct that the analysis does not follow."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.line = line


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A declaration of a variable or parameter."""

    key: int
    name: str
    type: CType
    init: Expression | None
    line: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function with a body."""

    name: str
    parameters: tuple[Variable, ...]
    result: CType
    body: Compound


# expressions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Expression:
    type: CType
    line: int | None  #: the user's; None in text that no user wrote


@dataclass(frozen=True, slots=True, eq=False)
class IntLiteral(_Expression):
    """An integer constant, evaluated by clang."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class FloatLiteral(_Expression):
    """A floating-point number."""


@dataclass(frozen=True, slots=True, eq=False)
class StringLiteral(_Expression):
    """A string."""


@dataclass(frozen=True, slots=True, eq=False)
class FunctionName(_Expression):
    """A function's name, called or not."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Use(_Expression):
    """A variable's name. `key`: its declaration's key."""

    key: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Index(_Expression):
    """`base[index]`, of a pointer, an array or a vector."""

    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Member(_Expression):
    """`base.name`, or `base->name` if it is an `arrow`. `bits`: for a bit-field, the bytes that are read and written
    with it.
    """

    base: Expression
    byte: int
    arrow: bool
    bits: CBits | None


@dataclass(frozen=True, slots=True, eq=False)
class Swizzle(_Expression):
    """Components of a vector, in their order; `base` is a pointer if it is an `arrow`."""

    base: Expression
    components: tuple[int, ...]
    arrow: bool


@dataclass(frozen=True, slots=True, eq=False)
class Dereference(_Expression):
    """`*pointer`."""

    pointer: Expression


@dataclass(frozen=True, slots=True, eq=False)
class AddressOf(_Expression):
    """`&place`."""

    place: Expression


@dataclass(frozen=True, slots=True, eq=False)
class BinaryOperation(_Expression):
    """`left operator right`."""

    operator: Binary
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class UnaryOperation(_Expression):
    """`operator operand`."""

    operator: Unary
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Assign(_Expression):
    """`target = value`."""

    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Update(_Expression):
    """`target += value` and similar."""

    operator: Binary
    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Increment(_Expression):
    """`++` and `--`: by how much, and whether the result is the value before."""

    target: Expression
    by: int
    postfix: bool


@dataclass(frozen=True, slots=True, eq=False)
class Cast(_Expression):
    """A conversion, written or implicit."""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Spread(_Expression):
    """A `bool` converted to a vector: true becomes all bits (OpenCL C 6.2.2)."""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Reinterpret(_Expression):
    """The same bytes as another type: `as_type()`."""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Comma(_Expression):
    """`first, second`."""

    first: Expression
    second: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(_Expression):
    """`condition ? yes : no`."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Call(_Expression):
    """A call. `key`: tells which of the program's functions of that name it is; None for one that the program does
    not define.
    """

    name: str
    key: int | None
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class InitialiserList(_Expression):
    """`{ … }`, or the parts of a vector literal."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Block(_Expression):
    """Statements in place of an expression: `({ … })`, whose last one gives the value."""

    statements: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Opaque(_Expression):
    """Something that is not followed, consisting of `parts`."""

    parts: tuple[Node, ...] = ()


# statements -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Compound:
    """`{ … }`."""

    statements: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Declare:
    """Declarations of variables; none if something else is declared."""

    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """`if (condition) then else otherwise`."""

    condition: Expression
    then: Node
    otherwise: Node | None


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A loop of any form; parts that it lacks are None. `assigned`: declarations that it may assign."""

    init: Node | None
    before: Expression | None  #: the condition for entering the body
    body: Node
    step: Expression | None
    after: Expression | None  #: the condition after the body for continuing
    line: int | None
    assigned: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """`switch (value) body`."""

    value: Expression
    body: Node
    line: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """`case first: statement`, or `case first ... last: statement` (GNU C)."""

    first: Expression
    last: Expression | None
    statement: Node


@dataclass(frozen=True, slots=True, eq=False)
class Default:
    """`default: statement`."""

    statement: Node


@dataclass(frozen=True, slots=True, eq=False)
class Return:
    """`return value`."""

    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Break:
    """`break`."""


@dataclass(frozen=True, slots=True, eq=False)
class Continue:
    """`continue`."""


@dataclass(frozen=True, slots=True, eq=False)
class Nothing:
    """An empty statement."""


Expression: TypeAlias = (
    IntLiteral | FloatLiteral | StringLiteral | FunctionName | Use | Index | Member | Swizzle | Dereference | AddressOf
    | BinaryOperation | UnaryOperation | Assign | Update | Increment | Cast | Spread | Reinterpret | Comma | Conditional
    | Call | InitialiserList | Block | Opaque
)  # fmt: skip
Statement: TypeAlias = (
    Compound | Declare | If | Loop | Switch | Case | Default | Return | Break | Continue | Nothing
)
Label: TypeAlias = Case | Default
Node: TypeAlias = Expression | Statement


def parts_of(node: Node) -> tuple[Node, ...]:  # noqa: C901 (a case for each kind)
    """What a node consists of, in the order of the text."""
    match node:
        case IntLiteral() | FloatLiteral() | StringLiteral() | FunctionName() | Use():
            return ()
        case Break() | Continue() | Nothing():
            return ()
        case Cast(operand=part) | Spread(operand=part) | Reinterpret(operand=part):
            return (part,)
        case UnaryOperation(operand=part) | Increment(target=part) | AddressOf(place=part):
            return (part,)
        case Dereference(pointer=part) | Member(base=part) | Swizzle(base=part):
            return (part,)
        case Index(base=a, index=b) | BinaryOperation(left=a, right=b) | Comma(first=a, second=b):
            return a, b
        case Assign(target=a, value=b) | Update(target=a, value=b) | Switch(value=a, body=b):
            return a, b
        case Conditional():
            return node.condition, node.yes, node.no
        case Call(arguments=parts) | InitialiserList(items=parts):
            return parts
        case Opaque(parts=parts) | Block(statements=parts) | Compound(statements=parts):
            return parts
        case Declare():
            return tuple(variable.init for variable in node.variables if variable.init is not None)
        case If():
            return _present(node.condition, node.then, node.otherwise)
        case Loop():
            return _present(node.init, node.before, node.body, node.step, node.after)
        case Case():
            return _present(node.first, node.last, node.statement)
        case Default(statement=statement):
            return (statement,)
        case Return(value=value):
            return _present(value)
    assert_never(node)


def _present(*nodes: Node | None) -> tuple[Node, ...]:
    return tuple(node for node in nodes if node is not None)


_COMPONENTS = {c: i for i, c in enumerate("xyzw")} | {c: i for i, c in enumerate("rgba")}


def swizzle_components(name: str, count: int) -> tuple[int, ...]:
    """The components that `.name` of a vector of `count` names (OpenCL C 6.1.7)."""
    half = (count + (count == 3)) // 2
    halves = {
        "lo": range(0, half),
        "hi": range(half, 2 * half),
        "even": range(0, 2 * half, 2),
        "odd": range(1, 2 * half, 2),
    }
    if name in halves:
        return tuple(halves[name])
    if name[0] in "sS" and len(name) > 1:
        return tuple(int(digit, 16) for digit in name[1:])
    return tuple(_COMPONENTS[letter] for letter in name)


def has_effects(node: Node) -> bool:
    """Whether evaluating `node` does, or may do, more than give a value."""
    effective = isinstance(node, Assign | Update | Increment | Call | Block | Statement)
    return effective or any(map(has_effects, parts_of(node)))


def is_arithmetic(node: Node) -> bool:
    """Whether an expression consists of numbers alone: no memory, no calls."""
    plain = IntLiteral | UnaryOperation | BinaryOperation | Cast | Conditional | InitialiserList | Spread
    return isinstance(node, plain) and all(map(is_arithmetic, parts_of(node)))


def behind_labels(statement: Node) -> Node:
    """The statement after case labels; a statement without labels is itself."""
    while isinstance(statement, Label):
        statement = statement.statement
    return statement


def has_labels(node: Node) -> bool:
    """Whether labels of a `switch` around `node` are inside it."""
    if isinstance(node, Label):
        return True
    return not isinstance(node, Switch) and any(map(has_labels, parts_of(node)))


def collect_assigned(node: Node, found: set[int]) -> None:
    """Declarations that `node` assigns or takes the address of."""
    match node:
        case Assign(target=place) | Update(target=place) | Increment(target=place) | AddressOf(place=place):
            _collect_root(place, found)
    for part in parts_of(node):
        collect_assigned(part, found)


def _collect_root(node: Expression, found: set[int]) -> None:
    while True:
        match node:
            case Index(base=inner) | Member(base=inner) | Swizzle(base=inner):
                node = inner
            case Cast(operand=inner) | Dereference(pointer=inner):
                node = inner
            case Use(key=key):
                found.add(key)
                return
            case _:
                return
