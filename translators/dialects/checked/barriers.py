"""Barriers that not all work-items of a group reach: where a group may diverge, and where it reconverges.

Decides which statements need a vote of the group: those whose condition is not known to be the same for all
work-items, and that contain a barrier or a way past one. Everything else stays as it is.
`include/checked/barriers.cl` has the votes. While a group is diverged no barrier is executed, so that a mistake ends
in a finding and not in a hang.
"""

from __future__ import annotations

import re
from dataclasses import field

from clang.cindex import Cursor, CursorKind, TypeKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.edits import Edits, Function, Functions, after_blanks, insert_at_entry
from ...frontend.kernels import Untranslatable
from ...frontend.operator_kinds import LOGICAL
from ...frontend.source import ArgKind, ParsedProgram
from ...frontend.types import Space
from . import jumps
from .roots import expression_parts
from .sites import Recorder
from .uniform import LOOPS, Uniform, condition, semicolons

#: Fields of a work-item's context, and the state in which it reports nothing: after a missed barrier nothing is as it
#: should be.
FIELDS = "volatile __local uint *votes; uint base, parted, parted_site, parted_other, turn, escape, met[2]; uchar lost;"
QUIET = "(kind != P_BARRIER && (c)->votes[12])"
#: 32-bit words of local memory that votes need.
VOTE_WORDS = 13
#: Levels of a function: the functions that it calls count on from there.
_LEVELS = 64
#: Levels of conditional expressions, above those of statements.
_EXPRESSIONS = 40

_MEETS = re.compile(r"barrier|work_group_\w+|async_work_group_\w+|wait_group_events")
_RETURN, _BREAK, _CONTINUE = 1, 2, 3
_BRANCHING = (CursorKind.IF_STMT, CursorKind.SWITCH_STMT, *LOOPS)
_ESCAPES = {
    CursorKind.RETURN_STMT: _RETURN,
    CursorKind.BREAK_STMT: _BREAK,
    CursorKind.CONTINUE_STMT: _CONTINUE,
}


def waits(program: ParsedProgram) -> bool:
    """Whether work-items of a group may have to wait for each other in the checked program.

    They may if there are barriers or functions of the whole group, or local memory, whose shadow is cleared before
    anybody uses it.
    """
    if any(arg.kind is ArgKind.LOCAL for kernel in program.kernels.values() for arg in kernel.args):
        return True
    return any(
        _is_awaited(cursor)
        for function in Functions(program).defined
        for cursor in clang.walk(function.cursor)
    )


def _is_awaited(cursor: Cursor) -> bool:
    if cursor.kind is CursorKind.VAR_DECL:
        return clang.address_space(cursor.type) is Space.LOCAL
    return cursor.kind is CursorKind.CALL_EXPR and _MEETS.fullmatch(str(cursor.spelling)) is not None


@dataclass
class Wrap:
    """Text put around an expression or a statement; `keyword`: bytes at its start that the text replaces."""

    start: int
    before: str
    stop: int
    after: str
    keyword: int = 0

    def open(self, edits: Edits) -> None:
        edits.replace(self.start, self.start + self.keyword, self.before)

    def close(self, edits: Edits) -> None:
        edits.insert(self.stop, self.after)


@dataclass
class _Around:
    """What is around a statement. `planned`: label of the innermost statement that votes; `inside`: whether that is
    also within the innermost loop (or loop or switch).
    """

    level: int
    label: str | None
    returns: int
    breaks: int = 0
    continues: int = 0
    breaks_inside: bool = False
    continues_inside: bool = False


@dataclass
class _Plans:
    """Which statements of one function vote, by the cursors' numbers."""

    planned: set[int] = field(default_factory=set)
    targeted: set[int] = field(default_factory=set)
    leaps: list[jumps.Leap] = field(default_factory=list)


class Meetings:
    """The barriers of one program. `wraps`: by cursor, what is put around it. `fast`: nobody votes, and functions in
    which somebody would have to have no fast form.
    """

    def __init__(self, functions: Functions, recorder: Recorder, edits: Edits, *, fast: bool = False) -> None:
        self._functions = functions
        self._recorder = recorder
        self._edits = edits
        self._p = recorder.prefix
        self._labels = 0
        self._plans: dict[int, _Plans] = {}
        self._important: set[int] = set()
        self.wraps: dict[int, list[Wrap]] = {}
        self._meeting = self._meeting_functions()
        if not self._meeting:
            return
        self._uniform = Uniform(functions)
        for function in functions.defined:
            if function.key in self._meeting:
                self._decide(function)
        if self.careful and fast:
            for key in self._meeting:
                recorder.precise_only.setdefault(key, "a barrier that some work-items may not reach")
            self._plans.clear()
        elif self.careful:
            for function in functions.defined:
                self._emit(function)

    @property
    def careful(self) -> bool:
        """Whether any group may diverge before a barrier, as far as the text shows."""
        return any(plans.planned or plans.leaps for plans in self._plans.values())

    # which functions and statements contain barriers

    def _meeting_functions(self) -> set[int]:
        calls = {
            function.key: [c for c in clang.walk(function.cursor) if c.kind is CursorKind.CALL_EXPR]
            for function in self._functions.defined
        }
        found: set[int] = set()
        before = -1
        while before != (before := len(found)):
            for key, called in calls.items():
                if any(self._is_meeting(call, found) for call in called):
                    found.add(key)
        return found

    def _is_meeting(self, call: Cursor, own: set[int]) -> bool:
        key = None if call.referenced is None else self._functions.key(call.referenced)
        return key in own or (_MEETS.fullmatch(str(call.spelling)) is not None)

    def _meets(self, cursor: Cursor) -> bool:
        """Whether it contains a barrier, or a return before one."""
        return any(int(found.hash) in self._important for found in clang.walk(cursor))

    # which statements vote

    def _decide(self, function: Function) -> None:
        cursors = list(clang.walk(function.cursor))
        jump = next((c for c in cursors if c.kind is CursorKind.GOTO_STMT), None)
        plans = self._plans.setdefault(function.key, _Plans())
        calls = [c for c in cursors if c.kind is CursorKind.CALL_EXPR and self._is_meeting(c, self._meeting)]
        self._important |= {int(call.hash) for call in calls}
        loops = [c for c in cursors if c.kind in LOOPS and self._meets(c)]
        for cursor in cursors:
            if cursor.kind is CursorKind.RETURN_STMT:
                start = cursor.extent.start.offset
                later = any(call.extent.start.offset > start for call in calls)
                again = any(loop.extent.start.offset <= start < loop.extent.end.offset for loop in loops)
                if later or again:
                    self._important.add(int(cursor.hash))
        self._choose(function.cursor, plans, None, None)
        if jump is None:
            return
        if plans.planned:
            raise Untranslatable(
                "a goto beside a barrier that not all work-items may reach", clang.line_of(jump)
            )
        branches = [cursor for cursor in cursors if self._jumps(cursor)]
        plans.leaps = jumps.look(function, self._functions.text, calls, branches)

    def _jumps(self, cursor: Cursor) -> bool:
        """Whether some work-items may jump from here, and others not."""
        if cursor.kind not in _BRANCHING or self._uniform.of(condition(cursor)):
            return False
        return self._has(cursor, CursorKind.GOTO_STMT, ())

    def _choose(self, cursor: Cursor, plans: _Plans, loop: Cursor | None, target: Cursor | None) -> None:
        """`loop`: the innermost loop around it, `target`: what a break would leave."""
        inner_loop = cursor if cursor.kind in LOOPS else loop
        inner_target = cursor if cursor.kind in LOOPS or cursor.kind is CursorKind.SWITCH_STMT else target
        for child in clang.children(cursor):
            self._choose(child, plans, inner_loop, inner_target)
        if self._votes(cursor, plans, loop, target):
            plans.planned.add(int(cursor.hash))
            plans.targeted |= {int(each.hash) for each in self._left(cursor, loop, target)}

    def _votes(self, cursor: Cursor, plans: _Plans, loop: Cursor | None, target: Cursor | None) -> bool:
        if self._branches(cursor):
            asked, *rest = expression_parts(cursor)
            return not self._uniform.of(asked) and any(map(self._meets, rest))
        if cursor.kind not in _BRANCHING:
            return False
        if self._uniform.of(condition(cursor)) and int(cursor.hash) not in plans.targeted:
            return False
        return self._meets(cursor) or any(map(self._meets, self._left(cursor, loop, target)))

    def _left(self, cursor: Cursor, loop: Cursor | None, target: Cursor | None) -> list[Cursor]:
        """The loops and switches that some statement inside leaves or continues."""
        found = [] if cursor.kind in LOOPS else self._continues(cursor, loop)
        own = cursor.kind in LOOPS or cursor.kind is CursorKind.SWITCH_STMT
        if (
            not own
            and target is not None
            and self._has(cursor, CursorKind.BREAK_STMT, (*LOOPS, CursorKind.SWITCH_STMT))
        ):
            found.append(target)
        return found

    def _continues(self, cursor: Cursor, loop: Cursor | None) -> list[Cursor]:
        return [loop] if loop is not None and self._has(cursor, CursorKind.CONTINUE_STMT, LOOPS) else []

    def _has(self, cursor: Cursor, kind: CursorKind, within: tuple[CursorKind, ...]) -> bool:
        """Whether there is a statement of that kind below, other than in loops or switches of its own."""
        return any(
            child.kind is kind or (child.kind not in within and self._has(child, kind, within))
            for child in clang.children(cursor)
        )

    @staticmethod
    def _branches(cursor: Cursor) -> bool:
        if cursor.kind is CursorKind.CONDITIONAL_OPERATOR:
            return True
        return cursor.kind is CursorKind.BINARY_OPERATOR and clang.binary_operator(cursor) in LOGICAL

    # what the text becomes

    def put(self, cursor: Cursor, wrap: Wrap) -> None:
        """Put a text around a cursor, inside what has been put there before."""
        self.wraps.setdefault(int(cursor.hash), []).append(wrap)

    def _emit(self, function: Function) -> None:
        for cursor in clang.walk(function.cursor):
            if cursor.kind is CursorKind.CALL_EXPR and _MEETS.fullmatch(str(cursor.spelling)):
                self._guard(function, cursor)
        plans = self._plans.get(function.key)
        for leap in plans.leaps if plans is not None else []:
            asked = condition(leap.branch)
            site = self._recorder.site(leap.branch if asked is None else asked, "condition", function.name)
            self._asked(leap.branch, asked, f"{self._p}if({self._p}c, ", f"{leap.level}, {site})")
            self._edits.insert(leap.meets_at, f" {self._p}join({self._p}c, {leap.level}, 1, 1, 1);")
        if plans is None or not plans.planned:
            return
        around = _Around(1, None, 1)
        if not function.kernel:
            around.label = self._function(function)
        for child in function.cursor.get_children():
            if child.kind is CursorKind.COMPOUND_STMT:
                self._statements(function, plans, child, around)

    def _function(self, function: Function) -> str:
        """All ways out of a function lead to its end, where the group meets again."""
        p, label = self._p, self._label()
        result = function.cursor.result_type
        void = result.get_canonical().kind is TypeKind.VOID
        insert_at_entry(
            self._edits,
            function.body_start,
            f" {p}c->base += {_LEVELS};" + ("" if void else f" {result.spelling} {p}ret;"),
        )
        end = f" {label}: {p}join({p}c, 1, 1, 1, 1); {p}c->escape = 0; {p}c->base -= {_LEVELS}; "
        self.put(
            function.cursor,
            Wrap(function.stop - 1, "", function.stop - 1, end + ("" if void else f"return {p}ret; ")),
        )
        return label

    def _label(self) -> str:
        self._labels += 1
        return f"{self._p}end_{self._labels}"

    def _guard(self, function: Function, call: Cursor) -> None:
        """A barrier is executed only if the whole group has reached it."""
        name = str(call.spelling)
        start, stop = self._recorder.extent(call)
        site = self._recorder.site(call, "barrier", function.name, name=name)
        result = call.type.spelling
        other = "(void)0" if call.type.get_canonical().kind is TypeKind.VOID else f"({result})0"
        self.put(call, Wrap(start, f"({self._p}meet({self._p}c, {site}) ? ", stop, f" : {other})"))

    def _statements(self, function: Function, plans: _Plans, cursor: Cursor, around: _Around) -> None:
        number = int(cursor.hash)
        if cursor.kind in _ESCAPES:
            self._escape(cursor, around)
        if number in plans.planned and cursor.kind in _BRANCHING:
            around = self._planned(function, cursor, around)
        elif number in plans.planned:
            self._expression(function, cursor, around)
            around = _Around(around.level + 1, around.label, around.returns)
        elif cursor.kind in LOOPS:
            around = self._unplanned(around, loop=True)
        elif cursor.kind is CursorKind.SWITCH_STMT:
            around = self._unplanned(around, loop=False)
        for child in clang.children(cursor):
            self._statements(function, plans, child, around)

    @staticmethod
    def _unplanned(around: _Around, *, loop: bool) -> _Around:
        """Inside a loop or switch that all leave together: its own breaks stay as they are."""
        inside = around.continues_inside and not loop
        continues = around.level if loop else around.continues
        return _Around(around.level, around.label, around.returns, around.level, continues, False, inside)

    def _escape(self, cursor: Cursor, around: _Around) -> None:
        code = _ESCAPES[cursor.kind]
        through = {
            _RETURN: around.label is not None, _BREAK: around.breaks_inside, _CONTINUE: around.continues_inside,
        }[code]  # fmt: skip
        if not through:
            return
        p, text = self._p, self._functions.text
        start, stop = self._recorder.extent(cursor)
        end = after_blanks(text, stop) + 1
        leave = f"{p}c->escape = {code}; goto {around.label};"
        parts = expression_parts(cursor)
        if parts:
            value = self._recorder.extent(parts[0])
            self.put(cursor, Wrap(start, f"{{ {p}ret = ", end, f" {leave} }}", len("return")))
            assert value[0] > start
        else:
            self.put(cursor, Wrap(start, f"{{ {leave} }}", end, "", end - start))

    def _planned(self, function: Function, cursor: Cursor, around: _Around) -> _Around:
        """A statement that votes on its condition, and after which the group meets again; what is inside it."""
        p, kind = self._p, cursor.kind
        level, label = around.level + 2, self._label()
        asked = condition(cursor)
        shown = cursor if asked is None else asked
        site = self._recorder.site(shown, "condition", function.name)
        if kind in LOOPS:
            tail = f"{level}, {site}, {around.returns})"
            self._asked(cursor, asked, f"{p}loop({p}c, ", tail)
        elif kind is CursorKind.SWITCH_STMT:
            assert asked is not None
            raw = self._recorder.unevaluated(asked)
            start, stop = self._recorder.extent(asked)
            head = f"(__typeof__({raw})){p}pick({p}c, (ulong)("
            self.put(asked, Wrap(start, head, stop, f"), {level}, {site})"))
        else:
            self._asked(cursor, asked, f"{p}if({p}c, ", f"{level}, {site})")
        start, stop = self._recorder.extent(cursor)
        end = self._end(cursor, stop)
        self.put(cursor, Wrap(start, "{ ", end, f" {label}: ; {self._behind(cursor, around, level)} }}"))
        within = _Around(level, label, around.returns, around.breaks, around.continues, True, True)
        if kind in LOOPS:
            within = _Around(level, label, around.returns, level, level + 1)
        elif kind is CursorKind.SWITCH_STMT:
            within = _Around(level, label, around.returns, level, around.continues, False, True)
        return within

    def _asked(self, cursor: Cursor, asked: Cursor | None, head: str, tail: str) -> None:
        if asked is None:
            self._edits.insert(semicolons(cursor)[1], f"{head}1, {tail}")
            return
        start, stop = self._recorder.extent(asked)
        self.put(asked, Wrap(start, f"{head}!!(", stop, f"), {tail}"))

    def _end(self, cursor: Cursor, stop: int) -> int:
        """The end of a statement, with the semicolon that clang does not count."""
        text = self._functions.text
        if text[stop - 1 : stop] in (b"}", b";"):
            return stop
        following = after_blanks(text, stop)
        return following + 1 if text[following : following + 1] == b";" else stop

    def _behind(self, cursor: Cursor, around: _Around, level: int) -> str:
        """The meeting after a statement; those that have to leave an outer one then do so."""
        p = self._p
        found = [f"{p}join({p}c, {level}, {around.returns}, {around.breaks}, {around.continues});"]
        own = cursor.kind in LOOPS or cursor.kind is CursorKind.SWITCH_STMT
        if self._has(cursor, CursorKind.RETURN_STMT, ()):
            way = "return;" if around.label is None else f"goto {around.label};"
            found.append(f"if ({p}c->escape == {_RETURN}) {way}")
        if not own and self._has(cursor, CursorKind.BREAK_STMT, (*LOOPS, CursorKind.SWITCH_STMT)):
            way = f"goto {around.label};" if around.breaks_inside else f"{{ {p}c->escape = 0; break; }}"
            found.append(f"if ({p}c->escape == {_BREAK}) {way}")
        if cursor.kind not in LOOPS and self._has(cursor, CursorKind.CONTINUE_STMT, LOOPS):
            way = f"goto {around.label};" if around.continues_inside else f"{{ {p}c->escape = 0; continue; }}"
            found.append(f"if ({p}c->escape == {_CONTINUE}) {way}")
        return " ".join(found)

    def _expression(self, function: Function, cursor: Cursor, around: _Around) -> None:
        """`a ? b : c`, `a && b` with a barrier in an operand that not all evaluate."""
        p, level = self._p, _EXPRESSIONS + around.level
        asked = expression_parts(cursor)[0]
        site = self._recorder.site(asked, "condition", function.name)
        self._asked(cursor, asked, f"{p}if({p}c, ", f"{level}, {site})")
        start, stop = self._recorder.extent(cursor)
        join = f"{p}join({p}c, {level}, 1, 1, 1);"
        if cursor.type.get_canonical().kind is TypeKind.VOID:
            self.put(cursor, Wrap(start, "({ ", stop, f"; {join} }})"))
        else:
            head = f"({{ {cursor.type.spelling} {p}value = "
            self.put(cursor, Wrap(start, head, stop, f"; {join} {p}value; }})"))
