"""Loops: what their bodies do to variables, as functions of a counter, and what is known after them.

Decides which variables move by a fixed step, which conditions keep a loop going and how often it runs. `walk` runs
the body itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

from vdev.translators.values import dataclass

from ..frontend.syntax import Loop, Node
from ..symbolic import expression as ex
from ..symbolic import logic, nodes
from ..symbolic.effort import spend
from ..symbolic.nodes import LOOP_END, Expr, Trips
from ..symbolic.substitution import coefficient_of, substitute
from .access_recorder import NO_ARGUMENT, LoopRewriter, Record, condition_since, hides, steps_since
from .calculation import Calculator
from .memory import Memory, State, join_envs, unknown_truth
from .values import (
    Aggregate,
    Number,
    Place,
    Pointer,
    Private,
    Target,
    Value,
    Vector,
    places_of,
    pointer_into,
    unknown_number,
)
from .ways import Step, StepKind


@dataclass
class Returned:
    """How a function was left, and with what."""

    state: State
    value: Value


@dataclass
class Jumps:
    """States that left a loop or switch, or continued with its next iteration."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


class Walk(Protocol):
    """What a loop needs from the interpreter that meets it: to run statements, and the state in which that leaves the
    walk.
    """

    alive: bool
    returned: list[Returned]
    jumps: list[Jumps]

    @property
    def memory(self) -> Memory: ...

    @property
    def calculator(self) -> Calculator: ...

    def execute(self, node: Node) -> None: ...

    def come_together(self, states: list[State], way: Step | None) -> None: ...


class LoopRun:
    """A loop being interpreted: its body is run once, with a placeholder for the value that each changed variable has at its
    head."""

    def __init__(
        self,
        interpreter: Walk,
        node: Loop,
        start: State,
        changed: set[Private],
        wide: dict[Private, frozenset[Place]],
    ) -> None:
        """`wide`: variables whose pointers change what they point into, with all places that they were seen to point
        into.
        """
        self.interpreter = interpreter
        self.node = node
        self.start = start
        self.changed = set(changed)
        self.wide = dict(wide)
        self.counter = ex.counter()
        self.mark = self.counter.serial  #: leaves younger than this belong to the body
        self.entry = interpreter.memory.ways.step(start.way, StepKind.LOOP, logic.TRUE, self.counter)
        self.first_record = len(interpreter.memory.records)
        self.first_return = len(interpreter.returned)
        self.first_poll = len(interpreter.memory.polls)
        self.written_before = interpreter.memory.written
        self.head: dict[Private, Value] = {}
        self.slots: dict[Expr, tuple[Private, Number | None]] = {}
        self.breaks: list[State] = []
        self.back: State | None = None
        self.returns: list[Returned] = []
        self.to_widen: dict[Private, frozenset[Place]] = {}

    def run(self) -> None:
        interpreter, node = self.interpreter, self.node
        state = self.start.branch(self.entry)
        for place in self.changed:
            state.env[place] = self.head[place] = self._head_value(place, self.start.env[place])
        interpreter.memory.written = set()
        interpreter.memory.state, interpreter.alive = state, True
        jumps = Jumps()
        interpreter.jumps.append(jumps)
        if node.before is not None:
            self._leave_unless(interpreter.calculator.condition(node.before), jumps)
        interpreter.execute(node.body)
        ends = [*jumps.continues, *([interpreter.memory.state] if interpreter.alive else [])]
        interpreter.come_together(ends, None)
        if interpreter.alive and node.step is not None:
            interpreter.execute(node.step)
        if interpreter.alive and node.after is not None:
            self._leave_unless(interpreter.calculator.condition(node.after), jumps)
        interpreter.jumps.pop()
        self.back = interpreter.memory.state if interpreter.alive else None
        self.breaks = jumps.breaks
        self.returns = interpreter.returned[self.first_return :]
        self._widen()

    def _leave_unless(self, condition: Expr, jumps: Jumps) -> None:
        interpreter = self.interpreter
        state = interpreter.memory.state
        if condition is not logic.TRUE:
            way = interpreter.memory.ways.condition(state.way, logic.negate(condition))
            jumps.breaks.append(state.branch(way))
        if condition is logic.FALSE:
            interpreter.alive = False
        else:
            interpreter.memory.state = State(
                state.env, interpreter.memory.ways.condition(state.way, condition)
            )

    # what the body may do to a variable -------------------------------------------------------------

    def _head_value(self, place: Private, value: Value) -> Value:
        """A placeholder for what the variable holds when an iteration begins."""
        if isinstance(value, Number):
            head = ex.head()
            self.slots[head] = (place, value)
            return Number(head, value.kind)
        if isinstance(value, Vector):
            return Vector(tuple(self._head_value(place, item) for item in value.items))
        if isinstance(value, Pointer):
            if place in self.wide:
                return pointer_into(self.wide[place])
            moved = ex.head()
            self.slots[moved] = (place, None)
            return value.moved(moved)
        if isinstance(value, Aggregate):
            places = places_of(value) | self.wide.get(place, frozenset())
            return Aggregate({}, places, complete=value.complete)
        return value

    def _widen(self) -> None:
        """Find pointers that change what they point into."""
        if self.back is None:
            return
        for place, head in self.head.items():
            end = self.back.env.get(place)
            if end is None or not isinstance(head, Pointer | Aggregate):
                continue
            if (
                isinstance(head, Pointer)
                and isinstance(end, Pointer)
                and place not in self.wide
                and _same_targets(head, end)
            ):
                continue
            seen = places_of(head) | places_of(end)
            if (place not in self.wide and isinstance(head, Pointer)) or not seen <= places_of(head):
                self.to_widen[place] = seen | self.wide.get(place, frozenset())

    def missed(self) -> set[Private]:
        """Variables that the body changed although nothing in its text shows it."""
        return {p for p in self.interpreter.memory.written if p in self.start.env and p not in self.changed}

    def undo(self) -> None:
        interpreter = self.interpreter
        del interpreter.memory.records[self.first_record :]
        del interpreter.returned[self.first_return :]
        del interpreter.memory.polls[self.first_poll :]
        interpreter.memory.written = self.written_before

    # what is known once the body is ------------------------------------------------------------------

    def finish(self) -> None:
        interpreter = self.interpreter
        interpreter.memory.written = self.written_before | {
            p for p in interpreter.memory.written if p in self.start.env
        }
        heads = self._inductions()
        stays = self._stays(heads)
        self._note_polls(stays)
        rewriter = LoopRewriter(interpreter.memory.ways, self.entry, heads, stays)
        records = interpreter.memory.records
        if self.back is not None and len(records) == self.first_record and not self._ends_soon(stays):
            records.append(Record(NO_ARGUMENT, "read", None, 0, self.back.way, self.node.line))
        records[self.first_record :] = [rewriter.record(record) for record in records[self.first_record :]]
        self._leave(heads, rewriter, stays)

    def _inductions(self) -> dict[Expr, Expr]:
        """Each placeholder as a function of the counter: init + counter * step if the step is the same every time."""
        result: dict[Expr, Expr] = {}
        ends = self._ends()
        for head, (place, initial) in self.slots.items():
            end = ends.get(head)
            step: Expr | None = None
            if self.back is None:
                step = ex.ZERO
            elif end is not None and place not in self.wide:
                found = coefficient_of(end, head)
                if found is not None and found[0] == 1 and self._invariant(found[1]):
                    step = found[1]
            start = ex.ZERO if initial is None else initial.expr
            if step is not None:
                result[head] = ex.add(start, ex.mul(self.counter, step))
            elif initial is None:
                result[head] = ex.unknown(
                    -nodes.INFINITE, nodes.INFINITE, "a pointer that moves by varying steps"
                )
            else:
                result[head] = self._between(head, end, initial)
        return result

    def _between(self, head: Expr, end: Expr | None, initial: Number) -> Expr:
        """What can still be said of a variable without a fixed step."""
        kind = initial.kind
        start = initial.observed()
        if end is not None and start.lo >= 0 and _shrinks(end, head, start.hi):
            return ex.minimum(ex.unknown(0, kind.hi), start)
        return unknown_number(kind, _origin(end) or "a variable that changes by varying steps").expr

    def _ends(self) -> dict[Expr, Expr]:
        """For each placeholder the expression that the variable has when the iteration ends."""
        found: dict[Expr, Expr] = {}
        if self.back is None:
            return found
        for place, head in self.head.items():
            end = self.back.env.get(place)
            if end is not None:
                _pair(head, end, found)
        return found

    def _invariant(self, expr: Expr) -> bool:
        return not any(
            leaf in self.slots or (leaf.serial >= self.mark and not _repeats(leaf)) for leaf in expr.leaves
        )

    def _stays(self, heads: dict[Expr, Expr]) -> list[tuple[Expr, bool]]:
        """The conditions under which an iteration is followed by another, each with whether it is regular.

        A condition that depends on values read in the body says nothing about other iterations.
        """
        passed: set[Expr] = set()
        stays: list[tuple[Expr, bool]] = []
        inside = [state.way for state in self.breaks] + [returned.state.way for returned in self.returns]
        for way in inside:
            remaining = logic.TRUE
            for step in steps_since(way, self.entry):
                if step.kind is not StepKind.IF:
                    remaining = logic.both(remaining, unknown_truth(LOOP_END))
                elif step.expr not in passed:
                    remaining = logic.both(remaining, step.expr)
            stay = logic.negate(remaining)
            if stay is not logic.TRUE:
                passed.add(stay)
                stays.append((stay, self._regular(stay, heads)))
        return stays

    def _ends_soon(self, stays: list[tuple[Expr, bool]]) -> bool:
        """Whether it goes on by a number that is halved or doubled each time, as reductions in local memory do: it runs no more often
        than a number has bits.
        """
        ends, leaves = self._ends(), {leaf for stay, _ in stays for leaf in stay.leaves}
        return any(head in leaves and _is_scaled(end, head) for head, end in ends.items())

    def _note_polls(self, stays: list[tuple[Expr, bool]]) -> None:
        """Note if the loop can only end when somebody else changes what it loads, always from one place."""
        if not stays or any(regular for _, regular in stays):
            return
        ends = self._ends()
        leaves: set[Expr] = set()
        for stay, _ in stays:
            for leaf in stay.leaves:
                leaves |= ends[leaf].leaves if leaf in ends else {leaf}
        polled: set[int] = set()
        for leaf in leaves:
            if leaf.serial < self.mark or _repeats(leaf):
                continue
            if isinstance(leaf, nodes.Unknown) and leaf.origin == ex.TOO_LONG:
                polled |= self._loaded()  # whatever it consists of
                continue
            arg, offset = self.interpreter.memory.loads.get(leaf, (-1, ex.ZERO))
            if arg < 0 or not self._invariant(offset) or self._stores(arg, offset):
                return
            polled.add(arg)
        self.interpreter.memory.polls.extend((arg, self.node.line) for arg in sorted(polled))

    def _loaded(self) -> set[int]:
        """The arguments that the body reads."""
        body = self.interpreter.memory.records[self.first_record :]
        read = {record.arg for record in body if record.arg is not None and record.mode != "write"}
        return read - {NO_ARGUMENT}

    def _stores(self, arg: int, offset: Expr) -> bool:
        """Whether the body itself writes to what it loads."""
        body = self.interpreter.memory.records[self.first_record :]
        return any(r.arg == arg and r.offset is offset and r.mode != "read" for r in body)

    def _regular(self, stay: Expr, heads: dict[Expr, Expr]) -> bool:
        for leaf in stay.leaves:
            if leaf in heads:
                if any(
                    u.serial >= self.mark and u is not self.counter and not _repeats(u)
                    for u in heads[leaf].leaves
                ):
                    return False
            elif leaf.serial >= self.mark and leaf is not self.counter and not _repeats(leaf):
                return False
        return True

    def _leave(self, heads: dict[Expr, Expr], rewriter: LoopRewriter, stays: list[tuple[Expr, bool]]) -> None:
        """Continue after the loop: variables have their values at the end of its last iteration."""
        interpreter = self.interpreter
        if self.back is None:
            last: dict[Expr, Expr] = {self.counter: ex.ZERO}
        else:
            last = {self.counter: ex.trips(lambda leaf: self._trips(leaf, rewriter, stays))}
        memo: dict[Expr, Expr] = {}

        def at_the_end(expr: Expr) -> Expr:
            return substitute(rewriter.expr(expr), last, memo)

        way = self.start.way
        for returned in self.returns:
            returned.state = State(
                self._rewrite_env(returned.state.env, at_the_end),
                interpreter.memory.ways.condition(way, unknown_truth(LOOP_END)),
            )
            returned.value = rewrite_value(returned.value, at_the_end)
        if not self.breaks:
            interpreter.alive = False
            return
        env: dict[Private, Value] | None = None
        for state in reversed(self.breaks):
            found = self._rewrite_env(state.env, at_the_end)
            if env is None:
                env = found
            else:
                env = join_envs(at_the_end(condition_since(state.way, self.entry)), found, env)
        assert env is not None
        if self.returns:
            line = self.node.line
            way = interpreter.memory.ways.step(
                way, StepKind.MAYBE, logic.TRUE, text="a loop that may return early", line=line
            )
        interpreter.memory.state, interpreter.alive = State(env, way), True

    def _rewrite_env(
        self, env: dict[Private, Value], rewrite: Callable[[Expr], Expr]
    ) -> dict[Private, Value]:
        spend(len(env) >> 3)
        result: dict[Private, Value] = {}
        for place, value in env.items():
            before = self.start.env.get(place)
            if before is None:
                continue
            result[place] = value if value is before else rewrite_value(value, rewrite)
        return result

    def _trips(self, leaf: Expr, rewriter: LoopRewriter, stays: list[tuple[Expr, bool]]) -> Trips:
        condition = logic.TRUE
        for stay, regular in stays:
            if regular:
                condition = logic.both(condition, rewriter.expr(stay))
        exact = all(regular for _, regular in stays)
        if hides(condition, *(stay for stay, _ in stays)):
            condition, exact = logic.TRUE, False

        def at(position: Expr) -> Expr:
            return substitute(condition, {self.counter: position})

        before = at(ex.add(leaf, ex.const(-1)))
        if not exact:
            return Trips(logic.TRUE, before, logic.TRUE, False)
        return Trips(logic.negate(at(ex.ZERO)), before, logic.negate(at(leaf)), True)


def _origin(end: Expr | None) -> str:
    """The origin of a value that a loop gives to a variable, if it does not depend on the previous value."""
    if end is None or any(isinstance(leaf, nodes.Head) for leaf in end.leaves):
        return ""
    return next(nodes.origins(end), "")


def _is_scaled(end: Expr, head: Expr) -> bool:
    """Whether `end` is a multiple or a fraction of `head`, whatever is converted on the way."""
    end = _unconverted(end)
    if isinstance(end, nodes.Quotient | nodes.ShiftRight | nodes.ShiftLeft):
        least = 2 if isinstance(end, nodes.Quotient) else 1
        return _unconverted(end.a) is head and isinstance(end.b, nodes.Const) and end.b.number >= least
    found = coefficient_of(end, head)
    return found is not None and found[0] >= 2 and found[1] is ex.ZERO


def _unconverted(expr: Expr) -> Expr:
    while isinstance(expr, nodes.Cast):
        expr = expr.a
    return expr


def _repeats(leaf: Expr) -> bool:
    """Whether a leaf made in a loop's body is the same function of the ids in every iteration."""
    if isinstance(leaf, nodes.Exit):
        return leaf.definition.exact
    return not isinstance(leaf, nodes.Unknown | nodes.Head | nodes.Counter)


def rewrite_value(value: Value, rewrite: Callable[[Expr], Expr]) -> Value:
    """A value with all expressions in it rewritten."""
    change = rewrite
    if isinstance(value, Number):
        expr = change(value.expr)
        return value if expr is value.expr else Number(expr, value.kind)
    if isinstance(value, Vector):
        return Vector(tuple(rewrite_value(item, rewrite) for item in value.items))
    if isinstance(value, Pointer):
        return Pointer(
            tuple(
                Target(t.place, change(t.offset), None if t.condition is None else change(t.condition))
                for t in value.targets
            )
        )
    if isinstance(value, Aggregate):
        return Aggregate(
            {key: rewrite_value(cell, rewrite) for key, cell in value.cells.items()},
            value.places,
            complete=value.complete,
        )
    return value


def _same_targets(head: Pointer, end: Pointer) -> bool:
    """Whether all targets have moved by the same distance."""
    if len(head.targets) != len(end.targets):
        return False
    distances = set()
    for a, b in zip(head.targets, end.targets, strict=True):
        if a.place is not b.place or a.condition is not b.condition:
            return False
        distances.add(ex.sub(b.offset, a.offset))
    return len(distances) <= 1


def _pair(head: Value, end: Value, found: dict[Expr, Expr]) -> None:
    if isinstance(head, Number) and isinstance(end, Number):
        found[head.expr] = end.expr
    elif isinstance(head, Vector) and isinstance(end, Vector) and len(head.items) == len(end.items):
        for a, b in zip(head.items, end.items, strict=True):
            _pair(a, b, found)
    elif isinstance(head, Pointer) and isinstance(end, Pointer) and head.targets and end.targets:
        moved = [leaf for leaf in head.targets[0].offset.leaves if isinstance(leaf, nodes.Head)]
        distance = ex.sub(end.targets[0].offset, head.targets[0].offset)
        for leaf in moved:
            if all(leaf in target.offset.leaves for target in head.targets):
                found.setdefault(leaf, ex.add(leaf, distance))


def _shrinks(end: Expr, head: Expr, highest: int) -> bool:
    """Whether `end` is between 0 and `head` for every `head` from 0 to `highest`: divided, shifted down or cut.

    A conversion to a type that does not hold `highest` may change the sign, unless the type is unsigned (C99
    6.3.1.3).
    """
    if end is head:
        return True
    match end:
        case nodes.Cast():
            return (not end.kind.signed or highest <= end.kind.hi) and _shrinks(end.a, head, highest)
        case nodes.ShiftRight() | nodes.Quotient() | nodes.Remainder() | nodes.BitAnd():
            return end.b.lo >= 0 and _shrinks(end.a, head, highest)
    return False
