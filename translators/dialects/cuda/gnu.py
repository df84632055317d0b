"""What GNU C adds to C's expressions and labels, for C++; clang takes it in OpenCL C, too.

Decides what is kept of a text where the compiler is asked. Words that are only spelled otherwise are `tables`'s affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clang.cindex import Cursor, Type

from ...frontend import clang
from ...frontend.kernels import Untranslatable
from ...frontend.operator_kinds import Placed
from .declarations import SKIPPED
from .types import converted, literal, spell, vector_type

if TYPE_CHECKING:
    from .rewriting import Rewriter

#: Labels of one range: each is written.
_MOST_CASES = 4096


def rewrite(rewriter: Rewriter, cursor: Cursor, start: int, stop: int, exact: bool) -> bool:
    """Rewrite an expression of several parts that clang gives no kind, if it is one of these. `exact`: as Rewriter.visit."""
    text = rewriter.text[start:stop]
    parts = [c for c in cursor.get_children() if c.kind not in SKIPPED]
    if text.startswith(b"__builtin_types_compatible_p"):
        rewriter.blank(start, stop, str(clang.evaluate(cursor)))
    elif text.startswith(b"__builtin_choose_expr"):
        condition, yes, no = parts
        _keep(rewriter, yes if clang.evaluate(condition) else no, start, stop, exact)
    elif len(parts) == 4 and len({clang.extent_of(part) for part in parts[:3]}) == 1:
        _otherwise(rewriter, cursor, parts[0], parts[3])
    else:
        return False
    return True


def _keep(rewriter: Rewriter, kept: Cursor, start: int, stop: int, exact: bool) -> None:
    first, last = clang.extent_of(kept)
    rewriter.blank(start, first, "(")
    rewriter.visit(kept, exact)
    rewriter.blank(last, stop, ")")


def _otherwise(rewriter: Rewriter, cursor: Cursor, first: Cursor, other: Cursor) -> None:
    """`a ?: b`, which clang has as `a ? a : b`, the first evaluated once."""
    if vector_type(cursor.type) is not None:
        raise Untranslatable("a conditional without its middle", clang.line_of(cursor))
    start, stop = clang.extent_of(cursor)
    name = spell(cursor.type)
    rewriter.edits.insert(start, f"({f'({name})' if name else ''}::vdev_cl::otherwise(")
    rewriter.visit(first, True)
    question = rewriter.mark(clang.extent_of(first)[1], b"?", ", [&]() { return ")
    rewriter.mark(question + 1, b":", "")
    rewriter.visit(other, True)
    rewriter.edits.insert(stop, "; }))")


def labels(rewriter: Rewriter, first: Cursor, last: Cursor, condition: Type) -> None:
    """`case first ... last:`, or one label that is both; C99 6.8.4.2p5: each is converted to the type of the condition, which C++ does
    not do where the value would change.
    """
    low, high = (converted(number, condition) for number in (clang.evaluate(first), clang.evaluate(last)))
    if not 0 <= high - low < _MOST_CASES:
        raise Untranslatable(f"{high - low + 1} case labels", clang.line_of(first))
    numbers = ": case ".join(literal(number, condition) for number in range(low, high + 1))
    rewriter.blank(clang.extent_of(first)[0], clang.extent_of(last)[1], numbers)


def alignment(rewriter: Rewriter, cursor: Cursor, start: int, stop: int) -> bool:
    """Rewrite `__alignof__` and its like, of an expression, too; False where it is `sizeof`."""
    if not rewriter.text[start:stop].startswith((b"__alignof", b"_Alignof")):
        return False
    rewriter.blank(start, stop, f"((size_t){clang.evaluate(cursor)})")
    return True


def step(rewriter: Rewriter, operator: Placed, start: int, stop: int) -> None:
    """`++` or `--` of a bool; the operand is rewritten by the caller."""
    text, name = ("++", "raised") if operator is Placed.RAISE else ("--", "lowered")
    behind = not rewriter.text.startswith(text.encode(), start)
    place = stop - len(text) if behind else start
    rewriter.edits.insert(start, f"::vdev_cl::{name}(")
    rewriter.blank(place, place + len(text), "")
    rewriter.edits.insert(stop, f", {'true' if behind else 'false'})")


def generic(cursor: Cursor) -> None:
    """C11's `_Generic`: clang does not tell which association is chosen."""
    raise Untranslatable("_Generic", clang.line_of(cursor))
