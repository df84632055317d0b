"""The parts of clang's syntax tree that the access analysis needs, as plain Python objects.

Decides what there is in a tree (`syntax_reader` makes them), and what a part of one changes or does.
"""

from __future__ import annotations

from typing import Any

from .expression import IntType


class Unsupported(Exception):
    """A construct that the analysis does not follow."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.line = line


class CType:
    """A type: `kind` is int, bool, float, pointer, vector, array, record, void or other; sizes in bytes."""

    __slots__ = ("align", "count", "element", "fields", "integer", "kind", "size", "space", "volatile")

    def __init__(self, kind: str, size: int) -> None:
        self.kind = kind
        self.size = size
        self.align = 1  #: in bytes; 1 also where it is not known
        self.integer: IntType | None = None
        self.element: CType | None = None  #: of a pointer its pointee
        self.count = 0
        self.fields: dict[str, tuple[int, CType]] = {}  #: name -> (byte, type)
        self.space = (
            0  #: clang's address space of an object of this type: 1 global, 2 local, 3 constant, 4 private
        )
        self.volatile = False


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
