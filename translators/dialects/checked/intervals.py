"""Which arrays in local memory are read and written between the same two barriers of a kernel.

Decides from the shape of the text: an interval begins at the kernel's entry or at a barrier, and has every access that
is reached from there without another one. All work-items of a group meet at the same barrier (OpenCL C 6.15.8), so
accesses that share no interval cannot race. Where control flow has no simple shape, all accesses count as sharing one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from clang.cindex import Cursor, CursorKind
from vdev.translators.values import dataclass

from ...frontend import clang

_UNSHAPED = (
    CursorKind.SWITCH_STMT, CursorKind.GOTO_STMT, CursorKind.INDIRECT_GOTO_STMT, CursorKind.LABEL_STMT,
    CursorKind.StmtExpr,
)  # fmt: skip
_BARRIERS = ("barrier", "work_group_barrier")
_LOCAL_FENCE = 1  # CLK_LOCAL_MEM_FENCE
_Starts = frozenset[int]


@dataclass(frozen=True)
class Touch:
    """An access, or a call that may make it. `offset`: its place in the text; `root`: the array's number in the
    kernel.
    """

    offset: int
    root: int
    reads: bool
    writes: bool


@dataclass
class _Loop:
    leaves: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)


class _Walk:
    def __init__(self, touches: Iterable[Touch]) -> None:
        self.touches = sorted(touches, key=lambda touch: touch.offset)
        self.reads: set[tuple[int, int]] = set()  # (start, root)
        self.writes: set[tuple[int, int]] = set()
        self.loops: list[_Loop] = []

    def statement(self, cursor: Cursor, starts: _Starts) -> _Starts:
        """The intervals that may be open after a statement, given those open before it."""
        kind, parts = cursor.kind, list(cursor.get_children())
        if kind is CursorKind.COMPOUND_STMT:
            for part in parts:
                starts = self.statement(part, starts)
            return starts
        if kind is CursorKind.IF_STMT:
            starts = self.leaf(parts[0], starts)
            after = [self.statement(part, starts) for part in parts[1:]]
            return frozenset().union(*after, starts if len(parts) < 3 else ())
        if kind in (CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT):
            return self.loop(parts, starts)
        return self.jump(kind, self.leaf(cursor, starts))

    def jump(self, kind: CursorKind, starts: _Starts) -> _Starts:
        if kind is CursorKind.BREAK_STMT and self.loops:
            self.loops[-1].leaves |= starts
        elif kind is CursorKind.CONTINUE_STMT and self.loops:
            self.loops[-1].again |= starts
        elif kind is not CursorKind.RETURN_STMT:
            return starts
        return frozenset()

    def loop(self, parts: list[Cursor], starts: _Starts) -> _Starts:
        """Repeated until nothing new appears: its parts in any order, any number of times."""
        loop = _Loop()
        self.loops.append(loop)
        found = starts
        while True:
            after = found
            for part in parts:
                after = after | self.statement(part, after)
            after = after | loop.again | loop.leaves
            if after == found:
                break
            found = after
        self.loops.pop()
        return found

    def leaf(self, cursor: Cursor, starts: _Starts) -> _Starts:
        """A statement without others in it, or a condition."""
        first, stop = clang.extent_of(cursor)
        for touch in self.touches:
            if first <= touch.offset < stop:
                self.reads |= {(start, touch.root) for start in starts if touch.reads}
                self.writes |= {(start, touch.root) for start in starts if touch.writes}
        if cursor.kind is CursorKind.CALL_EXPR and _ends_interval(cursor):
            return frozenset({first})
        return starts


def _ends_interval(call: Cursor) -> bool:
    if call.spelling not in _BARRIERS:
        return False
    flags = clang.evaluate(next(iter(call.get_arguments())))
    return isinstance(flags, int) and bool(flags & _LOCAL_FENCE)


def mixed_roots(body: Cursor, touches: list[Touch]) -> set[int]:
    """Roots that are both read and written in the same interval. `body`: of the kernel."""
    if any(found.kind in _UNSHAPED for found in clang.walk(body)):
        return {touch.root for touch in touches}
    walk = _Walk(touches)
    walk.statement(body, frozenset({-1}))
    return {root for start, root in walk.reads if (start, root) in walk.writes}
