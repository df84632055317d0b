"""The parts of clang's syntax tree that the access analysis needs, as plain Python objects.

Decides what there is in a tree (`syntax_reader` makes them), and what a part of one changes or does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..symbolic.expression import IntType


class Unsupported(Exception):
    """A construct that the analysis does not follow."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.line = line


class CType:
    """A type: `kind` is int, bool, float, pointer, vector, array, record, bits, void or other; sizes in bytes.

    `bits`: the bytes that a store to a bit-field may change.
    """

    __slots__ = ("count", "element", "fields", "integer", "kind", "size", "space", "volatile")

    def __init__(self, kind: str, size: int) -> None:
        self.kind = kind
        self.size = size
        self.integer: IntType | None = None
        self.element: CType | None = None  #: of a pointer its pointee
        self.count = 0
        self.fields: dict[str, tuple[int, CType]] = {}  #: name -> (byte, type)
        self.space = (
            0  #: clang's address space of an object of this type: 1 global, 2 local, 3 constant, 4 private
        )
        self.volatile = False


#: Parts of an object that are told apart; of one with more its bytes are.
MOST_LEAVES = 64


def leaves_of(ctype: CType) -> tuple[tuple[int, int], ...]:
    """(byte, size) of what in an object a program can store by itself, without padding; the first of them, one more
    than `MOST_LEAVES`, where there are so many.
    """
    return tuple(islice(_leaves(ctype, 0), MOST_LEAVES + 1))


def _leaves(ctype: CType, byte: int) -> Iterator[tuple[int, int]]:
    if ctype.kind == "record":
        for at, member in ctype.fields.values():
            yield from _leaves(member, byte + at)
    elif ctype.kind in ("array", "vector") and ctype.element is not None:
        for index in range(ctype.count):
            yield from _leaves(ctype.element, byte + index * ctype.element.size)
    elif ctype.kind == "bits":
        yield from ((at, 1) for at in range(byte, byte + ctype.size))
    else:
        yield byte, ctype.size


def has_gaps(ctype: CType) -> bool:
    """Whether there are bytes in an object that its value may leave as they are: padding (C99 6.2.6.1), and what
    another member of a union has beyond the one that was set.
    """
    if ctype.kind == "vector":
        return ctype.count == 3
    if ctype.kind == "array":
        return ctype.element is not None and has_gaps(ctype.element)
    if ctype.kind != "record":
        return ctype.kind == "bits"
    end = 0
    for byte, size in sorted({(byte, member.size) for byte, member in ctype.fields.values()}):
        if byte != end:
            return True
        end = byte + size
    return end != ctype.size or any(has_gaps(member) for _, member in ctype.fields.values())


class Node:
    """One expression or statement. `args` depends on `kind`."""

    __slots__ = ("args", "assigned", "kind", "line", "type")

    def __init__(self, kind: str, ctype: CType, args: tuple[Any, ...] = (), line: int | None = None) -> None:
        self.kind = kind
        self.type = ctype
        self.args = args
        self.line = line
        self.assigned: frozenset[int] | None = None  #: of a loop: declarations that it may assign


class Variable:
    """A declaration of a variable or parameter."""

    __slots__ = ("init", "key", "line", "name", "type")

    def __init__(self, key: int, name: str, ctype: CType, init: Node | None, line: int | None) -> None:
        self.key = key
        self.name = name
        self.type = ctype
        self.init = init
        self.line = line


class Function:
    """A function with a body."""

    __slots__ = ("body", "name", "parameters", "result")

    def __init__(self, name: str, parameters: tuple[Variable, ...], result: CType, body: Node) -> None:
        self.name = name
        self.parameters = parameters
        self.result = result
        self.body = body


VOID = CType("void", 0)


def uniform_integer(ctype: CType) -> IntType | None:
    """The type of integers that an object consists of, when there is nothing else in it, no padding either."""
    if ctype.integer is not None:
        return None if ctype.kind == "bool" else ctype.integer
    if ctype.kind == "record":
        members = [member for _, member in ctype.fields.values()]
        kinds = {uniform_integer(member) for member in members}
        whole = sum(member.size for member in members) == ctype.size
        return kinds.pop() if whole and len(kinds) == 1 else None
    if ctype.kind in ("array", "vector") and ctype.element is not None:
        whole = ctype.count * ctype.element.size == ctype.size
        return uniform_integer(ctype.element) if whole else None
    return None


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
    return (
        node.kind in ("assign", "update", "step", "call", "block")
        or node.type is VOID
        or any(has_effects(part) for part in _parts(node))
    )


def is_arithmetic(node: Node) -> bool:
    """Whether an expression is made of numbers alone: no memory, no calls."""
    return node.kind in ("int", "unary", "binary", "cast", "conditional", "list", "spread") and all(
        is_arithmetic(part) for part in _parts(node)
    )


def behind_labels(statement: Node) -> Node:
    """The statement that case labels stand in front of; one without any is its own."""
    while statement.kind in ("case", "default"):
        statement = statement.args[-1]
    return statement


def has_labels(node: Node) -> bool:
    """Whether labels of a `switch` around `node` stand in it."""
    return node.kind in ("case", "default") or (
        node.kind != "switch" and any(has_labels(part) for part in _parts(node))
    )


def collect_assigned(node: Node, found: set[int]) -> None:
    """Declarations that `node` assigns or takes the address of."""
    if node.kind in ("assign", "step", "address"):
        _collect_root(node.args[0], found)
    elif node.kind == "update":
        _collect_root(node.args[1], found)
    for child in _parts(node):
        collect_assigned(child, found)


def _parts(node: Node) -> list[Node]:
    parts: list[Node] = []
    for arg in node.args:
        if isinstance(arg, Node):
            parts.append(arg)
        elif isinstance(arg, Variable):
            if arg.init is not None:
                parts.append(arg.init)
        elif isinstance(arg, tuple):
            parts.extend(a for a in arg if isinstance(a, Node))
    return parts


def _collect_root(node: Node, found: set[int]) -> None:
    while node.kind in ("index", "member", "swizzle", "cast", "deref"):
        node = node.args[0]
    if node.kind == "variable":
        found.add(node.args[0])
