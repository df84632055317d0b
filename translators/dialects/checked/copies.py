"""Asynchronous copies that nobody waits for.

Decides whether a program has any, and which of them cannot be matched with a wait: what a copy writes is in flight
until the group has waited for it (OpenCL C 6.15.11), and earlier accesses to it are reported.
`include/checked/copies.cl` keeps track of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from clang.cindex import CursorKind

from ...frontend import clang
from ...frontend.edits import Functions
from .barriers import Wrap
from .sites import Recorder

_COPY = re.compile(r"async_work_group_(?:strided_)?copy")
#: The most copies of a group that are tracked at a time; others are assumed to have arrived.
_FLIGHTS = 16
FIELDS = f"ulong flying[{2 * _FLIGHTS}]; uint nflying;"
MACROS = (
    f"#define P_FLIGHTS {_FLIGHTS}\n#define P_IN_FLIGHT 0xfffffffUL\n"
    "#define P_begin_flights(c) ((c)->nflying = 0)\n#define P_landed(c) P_land(c)\n"
    "#define P_is_flying(cell) ((cell) >> 36 == P_IN_FLIGHT)\n"
)
NO_MACROS = (
    "#define P_begin_flights(c) (void)0\n#define P_landed(c) (void)0\n#define P_is_flying(cell) 0\n"
    "#define P_flies(c, cell, ncells, site) (void)0\n"
)


def look(functions: Functions, recorder: Recorder, put: Callable[[clang.Cursor, Wrap], None]) -> bool:
    """Whether the program copies asynchronously. If it never waits, every copy is reported."""
    found = [
        (function, cursor)
        for function in functions.defined
        for cursor in clang.walk(function.cursor)
        if cursor.kind is CursorKind.CALL_EXPR and _COPY.fullmatch(str(cursor.spelling))
    ]
    if found and "wait_group_events" not in functions.identifiers():
        for function, call in found:
            site = recorder.site(call, "copy", function.name, name=str(call.spelling))
            start, stop = recorder.extent(call)
            p = recorder.prefix
            put(call, Wrap(start, f"({p}report({p}c, {p}NOT_AWAITED, {site}, -1, 0, 0, 0, 0), ", stop, ")"))
    return bool(found)
