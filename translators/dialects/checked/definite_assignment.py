"""Definite assignment: which variables are certainly written before each use, on every path through a function.

Decides nothing about shadows; `private` gives them to the variables that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from clang.cindex import Cursor, CursorKind

from ...frontend import clang
from ...frontend.operator_kinds import LOGICAL, Joining, Placed
from .roots import expression_parts, is_array, is_pointer
from .uniform import LOOPS, condition

THROUGH = (CursorKind.PAREN_EXPR, CursorKind.UNEXPOSED_EXPR)

#: Variables that are certainly written; None on unreachable paths.
State = frozenset[int] | None


def _joined(states: Iterable[State]) -> State:
    """What is certainly written where paths meet."""
    found: State = None
    for state in states:
        found = state if found is None else found if state is None else found & state
    return found


class Paths:
    """The paths through a function: `unsure` has the variables that some path may use unwritten."""

    def __init__(self, variables: dict[int, Cursor], needs: Callable[[Cursor, int], bool]) -> None:
        """`needs`: tells whether a call needs the value of its argument of that number."""
        self._variables = variables
        self._needs = needs
        self.unsure: set[int] = set()
        self._breaks: list[list[State]] = []
        self._continues: list[list[State]] = []

    def follow(self, cursor: Cursor, state: State) -> State:
        kind = cursor.kind
        if kind is CursorKind.IF_STMT:
            return self._if(list(cursor.get_children()), state)
        if kind in LOOPS:
            return self._loop(cursor, state)
        if kind is CursorKind.SWITCH_STMT:
            return self._switch(cursor, state)
        if kind in (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT):
            targets = self._breaks if kind is CursorKind.BREAK_STMT else self._continues
            targets[-1].append(state)
            return None
        if kind in (CursorKind.RETURN_STMT, CursorKind.GOTO_STMT):
            self._all(cursor, state)
            return None
        if kind is CursorKind.LABEL_STMT:
            return self._all(cursor, frozenset())
        return self._expression(cursor, state)

    def _all(self, cursor: Cursor, state: State) -> State:
        for child in clang.children(cursor):
            state = self.follow(child, state)
        return state

    def _expression(self, cursor: Cursor, state: State) -> State:
        kind = cursor.kind
        if kind is CursorKind.CXX_UNARY_EXPR:
            return state
        if kind is CursorKind.DECL_REF_EXPR:
            return self._used(cursor, state)
        parts = expression_parts(cursor)
        if kind is CursorKind.CALL_EXPR:
            return self._called(cursor, parts, state)
        if kind is CursorKind.BINARY_OPERATOR and clang.binary_operator(cursor) is Joining.ASSIGN:
            return self._assigned(parts[0], self.follow(parts[1], state))
        if kind is CursorKind.CONDITIONAL_OPERATOR and len(parts) == 3:
            state = self.follow(parts[0], state)
            return _joined([self.follow(parts[1], state), self.follow(parts[2], state)])
        if kind is CursorKind.BINARY_OPERATOR and clang.binary_operator(cursor) in LOGICAL:
            state = self.follow(parts[0], state)
            return _joined([state, self.follow(parts[1], state)])
        if kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(cursor) is Placed.ADDRESS:
            return self._assigned(parts[0], state)
        if (
            kind is CursorKind.UNEXPOSED_EXPR
            and len(parts) == 1
            and is_array(parts[0])
            and is_pointer(cursor)
        ):
            return self.follow(parts[0], state)
        if kind is CursorKind.VAR_DECL and state is not None:
            state = self._all(cursor, state)
            return None if state is None else state - {int(cursor.hash)}
        return self._all(cursor, state)

    def _called(self, cursor: Cursor, parts: list[Cursor], state: State) -> State:
        for number, part in enumerate(parts):
            if number == 0 or variable_of(part) not in self._variables or self._needs(cursor, number - 1):
                state = self.follow(part, state)
        return state

    def _used(self, cursor: Cursor, state: State) -> State:
        key = 0 if cursor.referenced is None else int(cursor.referenced.hash)
        if key in self._variables and state is not None and key not in state:
            self.unsure.add(key)
        return state

    def _assigned(self, place: Cursor, state: State) -> State:
        while place.kind is CursorKind.PAREN_EXPR:
            place = expression_parts(place)[0]
        if place.kind is not CursorKind.DECL_REF_EXPR:
            return self._all(place, state)
        key = 0 if place.referenced is None else int(place.referenced.hash)
        return state | {key} if state is not None and key in self._variables else state

    def _if(self, parts: list[Cursor], state: State) -> State:
        state = self.follow(parts[0], state)
        ways = [self.follow(part, state) for part in parts[1:]]
        return _joined(ways if len(ways) == 2 else [state, *ways])

    def _loop(self, cursor: Cursor, state: State) -> State:
        parts = list(cursor.get_children())
        asked = condition(cursor)
        self._breaks.append([])
        self._continues.append([])
        if cursor.kind is CursorKind.DO_STMT:
            state = _joined([self.follow(parts[0], state), *self._continues[-1]])
            state = self.follow(parts[1], state)
        else:
            body, others = parts[-1], parts[:-1]
            place = -1 if asked is None else asked.extent.start.offset
            for part in others:
                if (asked is not None and part.extent.start.offset <= place) or (
                    asked is None and part.kind is CursorKind.DECL_STMT
                ):
                    state = self.follow(part, state)
            end = _joined([self.follow(body, state), *self._continues[-1]])
            for part in others:
                if part.extent.start.offset > place and part.kind is not CursorKind.DECL_STMT:
                    self.follow(part, end)
        ends = asked is not None and not (clang.evaluate(asked) or 0)
        after = _joined([state if ends else None, *self._breaks.pop()])
        self._continues.pop()
        return after if after is None else after | self._filled(cursor, {})

    def _switch(self, cursor: Cursor, state: State) -> State:
        parts = list(cursor.get_children())
        state = self.follow(parts[0], state)
        self._breaks.append([])
        end: State = None
        default = False
        for statement in clang.children(parts[-1]):
            while statement.kind in (CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT):
                end = _joined([state, end])
                default = default or statement.kind is CursorKind.DEFAULT_STMT
                statement = list(statement.get_children())[-1]
            end = self.follow(statement, end)
        return _joined([end, *self._breaks.pop(), None if default else state])

    def _filled(self, loop: Cursor, bounds: dict[int, int]) -> set[int]:
        """Arrays of which a counting loop writes every element."""
        counter = _counter(loop)
        if counter is None:
            return set()
        bounds = bounds | dict([counter])
        body = list(loop.get_children())[-1]
        found: set[int] = set()
        for statement in clang.children(body) if body.kind is CursorKind.COMPOUND_STMT else [body]:
            if statement.kind is CursorKind.FOR_STMT:
                found |= self._filled(statement, bounds)
            elif (
                statement.kind is CursorKind.BINARY_OPERATOR
                and clang.binary_operator(statement) is Joining.ASSIGN
            ):
                found |= _whole_array(expression_parts(statement)[0], bounds)
        leaves = any(
            c.kind in (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT, CursorKind.GOTO_STMT)
            for c in clang.walk(body)
        )
        return set() if leaves else found & set(self._variables)


class PathsWithin(Paths):
    """The same for the parameters of a function that is called: writing one component counts as writing all of them."""

    def _assigned(self, place: Cursor, state: State) -> State:
        base = place
        while base.kind in (*THROUGH, CursorKind.MEMBER_REF_EXPR) and len(expression_parts(base)) == 1:
            base = expression_parts(base)[0]
        return super()._assigned(base if variable_of(base) in self._variables else place, state)


def _counter(loop: Cursor) -> tuple[int, int] | None:
    """(variable, turns) of `for (int i = 0; i < N; i++)`."""
    parts = list(loop.get_children())
    if loop.kind is not CursorKind.FOR_STMT or len(parts) != 4:
        return None
    declared = next(parts[0].get_children(), None) if parts[0].kind is CursorKind.DECL_STMT else None
    if declared is None or declared.kind is not CursorKind.VAR_DECL:
        return None
    start = expression_parts(declared)
    operands = expression_parts(parts[1])
    if not start or clang.evaluate(start[-1]) != 0 or parts[1].kind is not CursorKind.BINARY_OPERATOR:
        return None
    turns = clang.evaluate(operands[1])
    counts = (
        getattr(clang.binary_operator(parts[1]), "name", "") == "LESS"
        and variable_of(operands[0]) == declared.hash
    )
    steps = parts[2].kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(parts[2]) is Placed.RAISE
    return (int(declared.hash), turns) if counts and steps and isinstance(turns, int) else None


def variable_of(cursor: Cursor) -> int | None:
    while cursor.kind in THROUGH and len(expression_parts(cursor)) == 1:
        cursor = expression_parts(cursor)[0]
    declared = cursor.referenced if cursor.kind is CursorKind.DECL_REF_EXPR else None
    return None if declared is None else int(declared.hash)


def _whole_array(place: Cursor, bounds: dict[int, int]) -> set[int]:
    """The array of which a place is every element in turn, as its indices count."""
    seen: set[int] = set()
    while place.kind is CursorKind.ARRAY_SUBSCRIPT_EXPR:
        base, index = expression_parts(place)
        while base.kind in THROUGH and not is_array(base) and len(expression_parts(base)) == 1:
            base = expression_parts(base)[0]
        counted = variable_of(index)
        count = base.type.get_canonical().element_count if is_array(base) else -1
        if counted is None or counted in seen or bounds.get(counted) != count:
            return set()
        seen.add(counted)
        place = base
    variable = variable_of(place)
    return set() if variable is None or not seen else {variable}
