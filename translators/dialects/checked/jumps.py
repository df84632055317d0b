"""Jumps past barriers: which `goto` statements make a group diverge, and where it reconverges.

Considers each condition that work-items may see differently and under which a `goto` skips barriers or repeats them.
Decides where all work-items come together afterwards: at the label of a jump ahead, behind the condition of a jump
back. If the text does not show that all of them get there, it refuses the program: a vote that some never reach would
itself be a divergent barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from clang.cindex import Cursor, CursorKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.edits import Function
from ...frontend.kernels import Untranslatable

#: Levels of jumps in a function, after those of its statements and expressions.
FIRST_LEVEL, MOST = 56, 8
_WAYS_OUT = (CursorKind.RETURN_STMT, CursorKind.GOTO_STMT)


@dataclass(frozen=True)
class Leap:
    """A condition under which some work-items jump. `meets_at`: the byte after which the whole group is together
    again.
    """

    branch: Cursor
    level: int
    meets_at: int


def look(function: Function, text: bytes, calls: Sequence[Cursor], branches: Sequence[Cursor]) -> list[Leap]:
    """`calls`: calls that the whole group must reach; `branches`: statements with a `goto` that some may reach and
    others not. Raises Untranslatable.
    """
    cursors = list(clang.walk(function.cursor))
    labels = {str(c.spelling): c for c in cursors if c.kind is CursorKind.LABEL_STMT}
    found: list[Leap] = []
    for branch in branches:
        targets = {_target(c) for c in clang.walk(branch) if c.kind is CursorKind.GOTO_STMT}
        if len(targets) != 1 or not targets <= labels.keys():
            raise _refusal(branch)
        (name,) = targets
        label = labels[name]
        if not _passes(branch, label, calls):
            continue
        place = _meeting(function, text, cursors, branch, label)
        if place is None or branch.kind is not CursorKind.IF_STMT or len(found) == MOST:
            raise _refusal(branch)
        found.append(Leap(branch, FIRST_LEVEL + len(found), place))
    return found


def _refusal(cursor: Cursor) -> Untranslatable:
    return Untranslatable(
        "a goto past a barrier, after which a group may not meet again", clang.line_of(cursor)
    )


def _target(jump: Cursor) -> str:
    return next((str(c.spelling) for c in jump.get_children() if c.kind is CursorKind.LABEL_REF), "")


def _passes(branch: Cursor, label: Cursor, calls: Sequence[Cursor]) -> bool:
    """Whether a barrier stands between the two."""
    start, stop = sorted((clang.extent_of(branch)[0], clang.extent_of(label)[0]))
    stop = max(stop, clang.extent_of(branch)[1])
    return any(start <= clang.extent_of(call)[0] < stop for call in calls)


def _meeting(
    function: Function, text: bytes, cursors: Sequence[Cursor], branch: Cursor, label: Cursor
) -> int | None:
    """Where all work-items arrive, whether they have jumped or not; None if some may leave before."""
    begin, end = clang.extent_of(branch)
    at = clang.extent_of(label)[0]
    ahead = at >= end
    between = (end, at) if ahead else (at, begin)
    if any(between[0] <= clang.extent_of(c)[0] < between[1] for c in cursors if c.kind in _WAYS_OUT):
        return None
    if not ahead:
        return end if text[end - 1 : end] in (b"}", b";") else text.index(b";", end) + 1
    bodies = [c for c in function.cursor.get_children() if c.kind is CursorKind.COMPOUND_STMT]
    outermost = any(child == label for body in bodies for child in body.get_children())
    return text.index(b":", at) + 1 if outermost else None
