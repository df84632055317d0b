"""A program's statements and expressions as the printer needs them: a class for each kind that C++ may need written
differently.

Every node knows the bytes of the text that it was read from; what lies between its parts is printed as it stands.
Decides what there is in a tree (`reading` makes them), and nothing about C++.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, get_args

from clang.cindex import Cursor, Type
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.operator_kinds import Binary, Unary


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    cursor: Cursor
    start: int
    stop: int

    @property
    def line(self) -> int:
        """The user's line."""
        return clang.line_of(self.cursor)

    @property
    def type(self) -> Type:
        """The type in OpenCL C, of an expression."""
        return self.cursor.type


# expressions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Constant(_Node):
    """A macro of the language itself, which stays a name. `source`: its type before implicit conversions, if there
    are any; `narrowed`: a double that -cl-single-precision-constant makes a float.
    """

    source: Type | None
    narrowed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Name(_Node):
    """A name of a variable, a function or an enumerator, whose declaration is `meaning`."""

    meaning: Cursor | None


@dataclass(frozen=True, slots=True, eq=False)
class Integer(_Node):
    """An integer as a literal."""


@dataclass(frozen=True, slots=True, eq=False)
class Character(_Node):
    """A character as a literal: an `int`."""


@dataclass(frozen=True, slots=True, eq=False)
class Float(_Node):
    """A floating-point number as a literal, as it is written."""

    written: str


@dataclass(frozen=True, slots=True, eq=False)
class String(_Node):
    """A string as a literal, as it is written."""

    written: str


@dataclass(frozen=True, slots=True, eq=False)
class Parentheses(_Node):
    """`(inner)`."""

    inner: Node


@dataclass(frozen=True, slots=True, eq=False)
class Converted(_Node):
    """An implicit conversion. `spreads`: of a bool to a vector, where it becomes all ones (6.2.2); `narrowed`: as in
    Constant.
    """

    operand: Node
    spreads: bool
    narrowed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Swizzle(_Node):
    """Components of a vector; `base` is a pointer to one where `access` is `->`. `access_start`, `access_stop`: of `.name`."""

    base: Node
    access: str
    access_start: int
    access_stop: int
    components: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Member(_Node):
    """A member of what `parts` name. `kept`: it is not read as a whole; the surrounding expression says what is done
    with it.
    """

    parts: tuple[Node, ...]
    kept: bool


@dataclass(frozen=True, slots=True, eq=False)
class Index(_Node):
    """`base[index]`; `kept` as in Member."""

    parts: tuple[Node, ...]
    kept: bool


@dataclass(frozen=True, slots=True, eq=False)
class Dereference(_Node):
    """`*operand`; `kept` as in Member."""

    operand: Node
    kept: bool


@dataclass(frozen=True, slots=True, eq=False)
class Address(_Node):
    """`&operand`; `kept` as in Member."""

    operand: Node
    kept: bool


@dataclass(frozen=True, slots=True, eq=False)
class Call(_Node):
    """A call. `ours`: of a function that the program declares; `callee_start`, `callee_stop`: the place of what is
    called, `callee` its text.
    """

    name: str
    ours: bool
    callee: str
    callee_start: int
    callee_stop: int
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class List(_Node):
    """Initialisers in braces, or the parts of a vector in parentheses. `comma`: the place of a comma after the last
    one.
    """

    braces: bool
    comma: int | None
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One initialiser, and where its text starts (names included) and stops. `names`: what it names, from the outermost on;
    `value_start`: behind the names and the `=`.
    """

    value: Node
    start: int
    stop: int
    names: tuple[str | int | range, ...]
    value_start: int


@dataclass(frozen=True, slots=True, eq=False)
class CompoundLiteral(_Node):
    """`(type){ … }`, or a vector literal. `closing`: where the type's parenthesis closes; `passes`: it is used
    immediately.
    """

    closing: int
    contents: List | None
    passes: bool


@dataclass(frozen=True, slots=True, eq=False)
class Calculation(_Node):
    """`left operator right`; None: an operator that OpenCL C lacks."""

    operator: Binary | None
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Assignment(_Node):
    """`left = right`; `equals`: the place of the sign."""

    left: Node
    right: Node
    equals: int


@dataclass(frozen=True, slots=True, eq=False)
class Comma(_Node):
    """`left, right`."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Update(_Node):
    """`left operator= right`."""

    operator: Binary | None
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Step(_Node):
    """`++` and `--`."""

    operand: Node
    raises: bool
    behind: bool


@dataclass(frozen=True, slots=True, eq=False)
class Operation(_Node):
    """`operator operand`; None: an operator that OpenCL C lacks."""

    operator: Unary | None
    operand: Node


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(_Node):
    """`condition ? yes : no`; `question`, `colon`: the places of these signs."""

    condition: Node
    yes: Node
    no: Node
    question: int
    colon: int


@dataclass(frozen=True, slots=True, eq=False)
class Otherwise(_Node):
    """GNU C's `first ?: other`."""

    first: Node
    other: Node
    question: int
    colon: int


@dataclass(frozen=True, slots=True, eq=False)
class Chosen(_Node):
    """`__builtin_choose_expr`, of which one part remains."""

    kept: Node


@dataclass(frozen=True, slots=True, eq=False)
class Known(_Node):
    """What only clang can tell: `__alignof__`, `vec_step`, `__builtin_types_compatible_p`, the text that `__func__` stands for."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Cast(_Node):
    """A conversion that is written; `parts`: expressions in the type, and the operand."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Size(_Node):
    """`sizeof`, of an expression or of a type with expressions in it."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Block(_Node):
    """`({ … })`; `body_start`, `body_stop`: of the compound statement. `alone`: it is a statement, and jumps may lead out of it."""

    statements: tuple[Node, ...]
    body_start: int
    body_stop: int
    alone: bool


@dataclass(frozen=True, slots=True, eq=False)
class Unnamed(_Node):
    """An expression of several parts to which clang gives no kind."""

    parts: tuple[Node, ...]


# statements -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Variable(_Node):
    """A declared variable; `parts`: expressions in its type, and its initialiser, if it is `initialised`."""

    parts: tuple[Node, ...]
    initialised: bool
    deduced: bool  #: its type is the initialiser's


@dataclass(frozen=True, slots=True, eq=False)
class Declare(_Node):
    """A declaration in a function."""

    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For(_Node):
    """A `for`, its clauses and its body. `hides`: its body declares names again that the loop declares."""

    parts: tuple[Node, ...]
    hides: bool


@dataclass(frozen=True, slots=True, eq=False)
class Guard(_Node):
    """`if (first || ... || last) jump;` of two conditions or more, without `else`; `jump`: its text, without the semicolon."""

    conditions: tuple[Node, ...]
    body: Node
    jump: str


@dataclass(frozen=True, slots=True, eq=False)
class Switch(_Node):
    """`switch (condition) body`. `ranges`: the ends of those labels that are ranges."""

    condition: Node
    body: Node
    ranges: tuple[tuple[Cursor, Cursor], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Case(_Node):
    """`case first: statement`, or `case first ... last:`. `condition`: the type of the value that the `switch` is
    about; `label_start`, `label_stop`: the place of the numbers.
    """

    first: Cursor
    condition: Type
    label_start: int
    label_stop: int
    statement: Node


@dataclass(frozen=True, slots=True, eq=False)
class Plain(_Node):
    """Anything else, which means the same in C++ as in C: its parts are printed, and the text between them."""

    parts: tuple[Node, ...]


Node: TypeAlias = (
    Constant | Name | Integer | Character | Float | String | Parentheses | Converted | Swizzle | Member | Index | Dereference
    | Address | Call | List | CompoundLiteral | Calculation | Assignment | Comma | Update | Step | Operation | Conditional
    | Otherwise | Chosen | Known | Cast | Size | Block | Unnamed | Variable | Declare | For | Guard | Switch | Case | Plain
)  # fmt: skip


def behind_conversions(node: Node) -> Node:
    """The node under its implicit conversions."""
    while isinstance(node, Converted):
        node = node.operand
    return node


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for part in parts(node):
        yield from walk(part)


def parts(node: Node) -> Iterator[Node]:
    """What is right below a node."""
    for name in _FIELDS[type(node)]:
        value = getattr(node, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Item):
                yield part.value
            elif isinstance(part, _Node):
                yield part  # type: ignore[misc]


#: words in the types of fields that hold no nodes
_WITHOUT_NODES = frozenset({"Cursor", "Type", "Binary", "Unary", "None", "int", "bool", "str", "tuple"})
#: of each kind of node, the fields that may hold some
_FIELDS: Mapping[type, Sequence[str]] = {
    kind: [
        field.name
        for field in dataclasses.fields(kind)
        if not _WITHOUT_NODES.issuperset(re.findall(r"\w+", str(field.type)))
    ]
    for kind in get_args(Node)
}

#: A part of the text as it stands, or what is printed in its place; and the place of a printed part in the text.
Piece: TypeAlias = str | tuple[int, int]
Text: TypeAlias = list[Piece]
Part: TypeAlias = tuple[int, int, Text]
