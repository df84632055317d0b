"""The translators tell nodes, operators and types apart by class, not by text (see `typed_trees`)."""

from __future__ import annotations

import ast

import pytest

from tests.pure.typed_trees import found_in, places

#: How many there are.
LEFT = 0

FOUND = (
    'node.kind == "call"',
    'node.type.kind in ("record", "array")',
    '"const" != op',
    '{"a": 1}[expr.op]',
    'TABLE = {"a": 1}\nTABLE.get(node.kind)',
    "node.args[0]",
    "children[-1]",
    "operator, a, b = node.args",
    'match operator:\n    case "<<" | ">>": pass',
    'clang.binary_operator(cursor) in ("<<=", ">>=")',
)  # fmt: skip
LEFT_ALONE = (
    "node.kind is Kind.CALL",
    'token.text == "("',
    "TABLE = {Binary.ADD: add}\nTABLE[operator]",
    "node.arguments[0]",
    'match text:\n    case "-" | "+": pass',
)  # fmt: skip


@pytest.mark.parametrize("text", FOUND)
def test_text_and_places_are_found(text: str) -> None:
    assert list(found_in(ast.parse(text)))


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_classes_and_names_are_not(text: str) -> None:
    assert not list(found_in(ast.parse(text)))


def test_no_more_are_added() -> None:
    found = [f"{file}:{line}: {what}" for file, line, what in places()]
    assert len(found) == LEFT, found
