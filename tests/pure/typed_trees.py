"""Where the translators tell nodes, operators and types apart by text or by place: `python -m tests.pure.typed_trees`.

Counted are, of whatever is called a kind, an operator or an address space: comparisons with strings, `match` cases that
are strings, and look-ups in tables by it; and of a node's `args` and `children`: an index that is a number, and taking
them apart into names. What a program's text itself is compared with (a token's spelling, a function's name) is not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.pure.house import MODULES, ROOT, translator_of

#: What such things are called, as attributes, as variables, and as functions that return them.
KINDS = frozenset(("kind", "op", "operator", "space", "opcode"))
FUNCTIONS = frozenset(("binary_operator", "unary_operator", "address_space", "space_of"))
PARTS = frozenset(("args", "children"))


def places() -> Iterator[tuple[str, int, str]]:
    """(file, line, what stands there)."""
    for name, path in MODULES.items():
        if translator_of(name) or name.startswith("vdev.translators"):
            text = path.read_text()
            for node in found_in(ast.parse(text)):
                yield str(path.relative_to(ROOT)), node.lineno, ast.unparse(node).splitlines()[0]


def found_in(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    tables = set(_tables_by_text(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(map(_is_kind, sides)) and any(map(_is_text, sides)):
                    yield node
            case ast.Match(subject=subject, cases=cases) if _is_kind(subject):
                yield from (
                    pattern.value
                    for case in cases
                    for pattern in ast.walk(case.pattern)
                    if isinstance(pattern, ast.MatchValue) and _is_text(pattern.value)
                )
            case ast.Subscript(value=value, slice=index):
                number = isinstance(index, ast.Constant | ast.UnaryOp | ast.Slice)
                if (number and _is_parts(value)) or (_is_kind(index) and _is_table(value, tables)):
                    yield node
            case ast.Call(func=ast.Attribute(attr="get", value=value), args=[first, *_]):
                if _is_kind(first) and _is_table(value, tables):
                    yield node
            case ast.Assign(targets=[ast.Tuple()], value=ast.Attribute() as value) if _is_parts(value):
                yield node


def _tables_by_text(tree: ast.Module) -> Iterator[str]:
    """Names of a module's tables whose keys are strings."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ) if _is_table(value, set()):
                yield name


def _is_table(node: ast.expr | None, known: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in known
        case ast.Dict(keys=keys):
            return any(key is not None and _is_text(key) for key in keys)
    return False


def _is_kind(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in KINDS
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in FUNCTIONS
        case ast.NamedExpr(value=value):
            return _is_kind(value)
    return False


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str | bytes)
        case ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.List(elts=parts):
            return bool(parts) and all(map(_is_text, parts))
    return False


def _is_parts(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr in PARTS) or (
        isinstance(node, ast.Name) and node.id == "children"
    )


if __name__ == "__main__":
    for file, line, what in places():
        print(f"{file}:{line}: {what}")
