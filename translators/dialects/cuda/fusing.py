"""Products that several sums of a function have in common, each of which is to be fused with them.

OpenCL C 6.12.1: the product and the sum of an expression may be rounded together, as FP_CONTRACT is on by default. NVIDIA's OpenCL
does so wherever it can. NVRTC computes a product once that is used several times, and then fuses none of these: `x * x + y * y` and
`x * x - y * y` take it two products and two sums, in place of a product and two fused ones. So these are printed as what they are to be.
All other products it fuses itself.

Decides which; prints nothing.
"""

from __future__ import annotations

import re

from clang.cindex import TypeKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.operator_kinds import Binary
from . import nodes
from .nodes import Node

#: names of the types whose numbers are fused, in those of the functions that do it (`machine.h`)
FUSED = {TypeKind.FLOAT: "float", TypeKind.DOUBLE: "double"}
_BLANKS = re.compile(rb"\s+")


@dataclass(frozen=True, slots=True)
class Fusion:
    """`left * right + addend`, or `addend + left * right`; the second of the two may be subtracted."""

    left: Node
    right: Node
    addend: Node
    product_first: bool
    subtracts: bool


def without_blanks(text: bytes) -> bytes:
    """A function's text as `fusion_of` takes it."""
    return _BLANKS.sub(b"", text)


def fusion_of(node: nodes.Calculation, text: bytes, function: bytes) -> Fusion | None:
    """What a sum is to be fused with; None where it has no product that the function has elsewhere as well.

    `text`: that of the program; `function`: its function's, without blanks. Too many may look the same there: fusing one that is used
    once is what the compiler does.
    """
    if node.operator not in (Binary.ADD, Binary.SUBTRACT) or _kind(node) not in FUSED:
        return None
    if b"\n" in text[node.start : node.stop]:
        return None  # lines are to stay where they are
    subtracts = node.operator is Binary.SUBTRACT
    left, right = _product(node.left), _product(node.right)
    if left is not None and right is not None and _factors(left, text) == _factors(right, text):
        return None  # what is 0 stays 0
    if left is not None and _is_shared(left, text, function):
        return Fusion(left.left, left.right, node.right, product_first=True, subtracts=subtracts)
    if left is None and right is not None and _is_shared(right, text, function):
        return Fusion(right.left, right.right, node.left, product_first=False, subtracts=subtracts)
    return None


def _kind(node: Node) -> TypeKind:
    return clang.canonical(node.type).kind


def _product(node: Node) -> nodes.Calculation | None:
    """The product that an operand of a sum is, of the same type."""
    while isinstance(node, nodes.Parentheses):
        node = node.inner
    is_product = isinstance(node, nodes.Calculation) and node.operator is Binary.MULTIPLY
    return node if is_product and isinstance(node, nodes.Calculation) else None


def _factors(product: nodes.Calculation, text: bytes) -> set[bytes]:
    return {without_blanks(text[factor.start : factor.stop]) for factor in (product.left, product.right)}


def _is_shared(product: nodes.Calculation, text: bytes, function: bytes) -> bool:
    return function.count(without_blanks(text[product.start : product.stop])) > 1
