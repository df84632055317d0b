"""Programs without the functions that their kernels do not call: headers bring hundreds, each of which costs a
translator and a compiler time.

Decides what is left out, by names alone. What is kept stays unchanged, and in its place.
"""

from __future__ import annotations

import re

from .edits import Functions
from .source import ParsedProgram, parse_program

#: Lines that say where the lines after them come from.
_PLACE = re.compile(rb"[ \t]*#[ \t]*(?:line\b|\d)")


def without_unused(program: ParsedProgram) -> ParsedProgram:
    """`program` with definitions of only those functions whose names kernels mention, directly or through others; the
    rest is only declared.

    The same program if that is all of them, or if macros stand in the way.
    """
    functions = Functions(program) if program.exact else None
    unused = _unused(functions) if functions is not None else []
    if functions is None or not unused:
        return program
    parts, position = [], 0
    for start, stop in unused:
        body = functions.text[start:stop].split(b"\n")
        # A directive cannot come on the first line, and needs its line to itself.
        lines = [b";", *(line if _PLACE.match(line) else b"" for line in body[1:])]
        parts += [functions.text[position:start], b"\n".join(lines)]
        position = stop
    text = b"".join((*parts, functions.text[position:])).decode("utf-8", "surrogateescape")
    return parse_program(text, program.engine_options, target=program.target)


def _unused(functions: Functions) -> list[tuple[int, int]]:
    """Where the bodies of functions are that no kernel can reach."""
    declarations = {
        int(cursor.location.offset) for cursor in functions.program.functions() if not cursor.is_definition()
    }
    mentioned: dict[str, set[str]] = {name: set() for name in functions.names}  # any function of that name
    wanted = {function.name for function in functions.defined if function.kernel}
    for name in functions.names:
        for offset in functions.offsets(name):
            function = functions.enclosing(offset)
            if function is not None:
                mentioned[function.name].add(name)
            elif offset not in declarations:
                wanted.add(name)
    known: set[str] = set()
    while wanted:
        name = wanted.pop()
        known.add(name)
        wanted |= mentioned[name] - known
    return sorted((f.body_start, f.stop) for f in functions.defined if f.name not in known)
