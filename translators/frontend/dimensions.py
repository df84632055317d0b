"""How many dimensions a kernel's index space has, as far as its text shows: the highest one that it asks about.

Decides nothing about what a launch may have; a kernel may be launched with more, or with fewer.
"""

from __future__ import annotations

import re

from clang.cindex import CursorKind

from . import clang
from .source import ParsedProgram

__all__ = ["dimensions"]

_ASKED = re.compile(
    r"\bget_(?:global_id|local_id|group_id|num_groups|global_size|local_size)\s*\(\s*([012])[uU]?\s*\)"
)
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")


def dimensions(program: ParsedProgram, kernel: str) -> int:
    """From 1 to 3, according to the plain numbers with which the kernel and the functions that it names ask."""
    content = program.preprocessed.encode("utf-8", "surrogateescape")
    texts = {
        cursor.spelling: content[slice(*clang.extent_of(cursor))].decode("utf-8", "replace")
        for cursor in program.tu.cursor.get_children()
        if cursor.kind is CursorKind.FUNCTION_DECL and cursor.is_definition()
    }
    found, open_names, seen = 1, [kernel], {kernel}
    while open_names:
        text = texts.get(open_names.pop(), "")
        found = max([found, *(1 + int(number) for number in _ASKED.findall(text))])
        named = (set(_NAME.findall(text)) & set(texts)) - seen
        seen |= named
        open_names += named
    return found
