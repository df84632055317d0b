"""The abstract interpreter: walks a kernel once and records its accesses with the conditions on the way to them.

Decides how statements join and split the way, what a loop does to the variables it changes, and follows the program's own
functions. Values are `calculation`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from . import expression as ex
from .builtins import builtin
from .calculation import Calculator, Frame, State, join_envs, unknown_truth
from .expression import Expr, Trips
from .recording import LoopRewriter, Step, common_way, condition_since, merge_branches, steps_since
from .syntax import CType, Function, Node, SyntaxReader, Unsupported, Variable
from .values import (
    OPAQUE,
    SHARED,
    Aggregate,
    Argument,
    Number,
    Place,
    Pointer,
    Private,
    Shared,
    Target,
    Value,
    Vector,
    convert,
    join_values,
    places_of,
    pointer_into,
    pointer_to,
    same_value,
    unknown_number,
    unknown_value,
)

_MAX_DEPTH = 40


@dataclass
class _Returned:
    state: State
    value: Value


@dataclass
class _Jumps:
    """States that left a loop or switch, or went on to its next iteration."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


class Interpreter(Calculator):
    """Interprets one kernel."""

    def __init__(self, reader: SyntaxReader, deadline: float) -> None:
        super().__init__(deadline)
        self.reader = reader
        self.alive = True
        self.returned: list[_Returned] = []
        self.jumps: list[_Jumps] = []
        #: jumps out of the innermost statements so far; a statement without any ends where it began
        self.njumps = 0
        self.depth = 0
        self.outside_program: list[tuple[str, int | None]] = []
        self._program_places: dict[int, Place] = {}

    def run(self, function: Function, arguments: dict[str, Value]) -> None:
        """Interpret a kernel with `arguments` by name."""
        for parameter in function.parameters:
            self._bind(parameter, arguments[parameter.name])
        self.execute(function.body)
        self.records = merge_branches(self.records, self.ways)

    def _bind(self, parameter: Variable, value: Value) -> None:
        place = Private(parameter.name, parameter.type)
        self.frame[parameter.key] = place
        self.state.env[place] = value

    # calls ------------------------------------------------------------------------------------------

    def call(self, node: Node, *, used: bool) -> Value:
        name, args = node.args
        function = self.reader.function(name)
        if function is None:
            return builtin(self, node, used=used)
        values = [convert(self.value(arg), p.type) for arg, p in zip(args, function.parameters, strict=False)]
        if self.depth >= _MAX_DEPTH:
            raise Unsupported("functions call each other too deeply", node.line)
        return self._inline(function, values)

    def _inline(self, function: Function, values: list[Value]) -> Value:
        frame, returned, jumps = self.frame, self.returned, self.jumps
        njumps, way = self.njumps, self.state.way
        self.frame, self.returned, self.jumps = {}, [], []
        self.depth += 1
        for parameter, value in zip(function.parameters, values, strict=True):
            self._bind(parameter, value)
        self.execute(function.body)
        ends = self.returned
        if self.alive:
            ends.append(_Returned(self.state, unknown_value(function.result)))
        self.frame, self.returned, self.jumps, self.njumps = frame, returned, jumps, njumps
        self.depth -= 1
        if not ends:
            # It never returns: only so for a loop without end.
            self.alive = False
            return unknown_value(function.result)
        self.alive = True
        last = ends[-1]
        state, value = last.state, last.value
        for end in reversed(ends[:-1]):
            condition = condition_since(end.state.way, common_way(end.state.way, state.way))
            state = self._join(end.state, state)
            value = join_values(condition, end.value, value)
        self.state = State(state.env, way)
        return value

    def program_place(self, node: Node) -> Place:
        """A variable at program scope: constants are not buffers; other memory there would have to be shared."""
        key, name, cursor = node.args
        place = self._program_places.get(key)
        if place is None:
            place = Shared(self._constant_bounds(cursor))
            space = node.type.space if node.type.kind != "array" or node.type.element is None else node.type.element.space
            if space == 1:
                self.outside_program.append((f"`{name}` at program scope is memory of one device", node.line))
            self._program_places[key] = place
        return place

    def _constant_bounds(self, cursor: object) -> tuple[int, int] | None:
        """The least and the largest integer in a constant's initialiser, where they can be told."""
        variable = self.reader.program_variable(cursor)  # type: ignore[arg-type]
        if variable.init is None or variable.type.space not in (3,) and variable.type.kind != "array":
            return None
        numbers = [0]
        return (min(numbers), max(numbers)) if _literal_numbers(variable.init, numbers) else None

    # statements -------------------------------------------------------------------------------------

    def execute(self, node: Node) -> None:
        """Run a statement; afterwards `alive` says whether one comes out at its end."""
        if not self.alive:
            return
        self.tick()
        kind = node.kind
        if kind == "compound":
            for statement in node.args:
                self.execute(statement)
        elif kind == "declare":
            for variable in node.args:
                self.declare(variable)
        elif kind == "if":
            self._if(node)
        elif kind == "loop":
            self._loop(node)
        elif kind == "switch":
            self._switch(node)
        elif kind == "return":
            self._return(node)
        elif kind in ("break", "continue"):
            jumps = self.jumps[-1]
            (jumps.breaks if kind == "break" else jumps.continues).append(self.state)
            self.njumps += 1
            self.alive = False
        elif kind in ("case", "default"):
            raise Unsupported("a case label inside another statement", node.line)
        elif kind == "call":
            self.call(node, used=False)
        elif kind != "nothing":
            self.value(node)

    def _return(self, node: Node) -> None:
        value: Value = OPAQUE
        if node.args:
            value = convert(self.value(node.args[0]), node.args[0].type)
        self.returned.append(_Returned(self.state, value))
        self.njumps += 1
        self.alive = False

    def _join(self, a: State, b: State) -> State:
        """The state after two ways have come together."""
        start = common_way(a.way, b.way)
        first, second = condition_since(a.way, start), condition_since(b.way, start)
        env = join_envs(first, a.env, b.env)
        return State(env, self.ways.condition(start, ex.either(first, second)))

    def _come_together(self, states: list[State], way: Step | None) -> None:
        """Go on from all of `states`; `way`: known to lead to one of them whatever happens."""
        if not states:
            self.alive = False
            return
        self.alive = True
        state = states[0]
        for other in states[1:]:
            state = self._join(state, other)
        self.state = State(state.env, state.way if way is None else way)

    def _if(self, node: Node) -> None:
        test, then, otherwise = node.args
        condition = self.condition(test)
        if condition is ex.TRUE or condition is ex.FALSE:
            chosen = then if condition is ex.TRUE else otherwise
            if chosen is not None:
                self.execute(chosen)
            return
        start, njumps = self.state, self.njumps
        states = []
        for branch, branch_condition in ((then, condition), (otherwise, ex.negate(condition))):
            self.state = State(dict(start.env), self.ways.condition(start.way, branch_condition))
            self.alive = True
            if branch is not None:
                self.execute(branch)
            if self.alive:
                states.append(self.state)
        self._come_together(states, start.way if self.njumps == njumps else None)

    def _switch(self, node: Node) -> None:
        test, body = node.args
        value = self.number(test)
        statements = list(body.args) if body.kind == "compound" else [body]
        labels = [_labels(statement) for statement in statements]
        numbers = [label for found, _ in labels for label in found if label is not None]
        cases = [self.number(label) for label in numbers]
        nothing = ex.TRUE
        for case in cases:
            nothing = ex.both(nothing, ex.negate(ex.equal(value, case)))
        start, njumps = self.state, self.njumps
        self.jumps.append(_Jumps(continues=self.jumps[-1].continues if self.jumps else []))
        self.alive = False
        position = 0
        has_default = False
        for found, statement in labels:
            for label in found:
                if label is None:
                    has_default, condition = True, nothing
                else:
                    condition = ex.equal(value, cases[position])
                    position += 1
                self._enter_case(start, condition)
            self.execute(statement)
        ends = self.jumps.pop().breaks
        outer_jumps = self.njumps - njumps - len(ends)
        if self.alive:
            ends = [*ends, self.state]
        if not has_default:
            ends = [*ends, State(dict(start.env), self.ways.condition(start.way, nothing))]
        self.njumps = njumps + outer_jumps
        self._come_together(ends, start.way if outer_jumps == 0 else None)

    def _enter_case(self, start: State, condition: Expr) -> None:
        if condition is ex.FALSE:
            return
        entered = State(dict(start.env), self.ways.condition(start.way, condition))
        if self.alive:
            entered = self._join(self.state, entered)
        self.state, self.alive = entered, True

    # loops ------------------------------------------------------------------------------------------

    def _loop(self, node: Node) -> None:
        init = node.args[0]
        if init is not None:
            self.execute(init)
        start, njumps = self.state, self.njumps
        changed = {
            place
            for key in node.assigned or ()
            if isinstance(place := self.frame.get(key), Private) and place in start.env
        }
        wide: dict[Private, frozenset[Place]] = {}
        while True:
            attempt = _Loop(self, node, start, changed, wide)
            attempt.run()
            missed = attempt.missed()
            if not missed and not attempt.to_widen:
                break
            changed |= missed
            wide.update(attempt.to_widen)
            attempt.undo()
        attempt.finish()
        self.njumps = njumps + (1 if attempt.returns else 0)


class _Loop:
    """One loop: its body is run once, with a placeholder for the value that each changed variable has at its head."""

    def __init__(
        self,
        interpreter: Interpreter,
        node: Node,
        start: State,
        changed: set[Private],
        wide: dict[Private, frozenset[Place]],
    ) -> None:
        """`wide`: variables whose pointers change what they point into, with all places they were seen to."""
        self.interpreter = interpreter
        self.node = node
        self.start = start
        self.changed = set(changed)
        self.wide = dict(wide)
        self.counter = ex.counter("loop")
        self.mark = self.counter.serial  #: leaves younger than this belong to the body
        self.entry = interpreter.ways.step(start.way, "loop", ex.TRUE, self.counter)
        self.first_record = len(interpreter.records)
        self.first_return = len(interpreter.returned)
        self.written_before = interpreter.written
        self.head: dict[Private, Value] = {}
        self.slots: dict[Expr, tuple[Private, Number | None]] = {}
        self.breaks: list[State] = []
        self.back: State | None = None
        self.returns: list[_Returned] = []
        self.to_widen: dict[Private, frozenset[Place]] = {}

    def run(self) -> None:
        interpreter = self.interpreter
        _, before, body, step, after = self.node.args
        env = dict(self.start.env)
        for place in self.changed:
            env[place] = self.head[place] = self._head_value(place, self.start.env[place])
        interpreter.written = set()
        interpreter.state, interpreter.alive = State(env, self.entry), True
        jumps = _Jumps()
        interpreter.jumps.append(jumps)
        if before is not None:
            self._leave_unless(interpreter.condition(before), jumps)
        interpreter.execute(body)
        ends = [*jumps.continues, *([interpreter.state] if interpreter.alive else [])]
        interpreter._come_together(ends, None)
        if interpreter.alive and step is not None:
            interpreter.execute(step)
        if interpreter.alive and after is not None:
            self._leave_unless(interpreter.condition(after), jumps)
        interpreter.jumps.pop()
        self.back = interpreter.state if interpreter.alive else None
        self.breaks = jumps.breaks
        self.returns = interpreter.returned[self.first_return :]
        self._widen()

    def _leave_unless(self, condition: Expr, jumps: _Jumps) -> None:
        interpreter = self.interpreter
        state = interpreter.state
        if condition is not ex.TRUE:
            way = interpreter.ways.condition(state.way, ex.negate(condition))
            jumps.breaks.append(State(dict(state.env), way))
        if condition is ex.FALSE:
            interpreter.alive = False
        else:
            interpreter.state = State(state.env, interpreter.ways.condition(state.way, condition))

    # what the body may do to a variable -------------------------------------------------------------

    def _head_value(self, place: Private, value: Value) -> Value:
        """A placeholder for what the variable holds when an iteration begins."""
        if isinstance(value, Number):
            head = ex.counter("head")
            self.slots[head] = (place, value)
            return Number(head, value.kind)
        if isinstance(value, Vector):
            return Vector(tuple(self._head_value(place, item) for item in value.items))
        if isinstance(value, Pointer):
            if place in self.wide:
                return pointer_into(self.wide[place])
            moved = ex.counter("head")
            self.slots[moved] = (place, None)
            return value.moved(moved)
        if isinstance(value, Aggregate):
            return Aggregate({}, places_of(value) | self.wide.get(place, frozenset()))
        return value

    def _widen(self) -> None:
        """Find pointers that change what they point into."""
        if self.back is None:
            return
        for place, head in self.head.items():
            end = self.back.env.get(place)
            if end is None or not isinstance(head, Pointer | Aggregate):
                continue
            if isinstance(head, Pointer) and isinstance(end, Pointer) and place not in self.wide and _same_targets(head, end):
                continue
            seen = places_of(head) | places_of(end)
            if place not in self.wide and isinstance(head, Pointer) or not seen <= places_of(head):
                self.to_widen[place] = seen | self.wide.get(place, frozenset())

    def missed(self) -> set[Private]:
        """Variables that the body changed though nothing in its text said so."""
        return {p for p in self.interpreter.written if p in self.start.env and p not in self.changed}

    def undo(self) -> None:
        interpreter = self.interpreter
        del interpreter.records[self.first_record :]
        del interpreter.returned[self.first_return :]
        interpreter.written = self.written_before

    # what is known once the body is ------------------------------------------------------------------

    def finish(self) -> None:
        interpreter = self.interpreter
        interpreter.written = self.written_before | {p for p in interpreter.written if p in self.start.env}
        heads = self._inductions()
        stays = self._stays(heads)
        rewriter = LoopRewriter(interpreter.ways, self.entry, heads, stays)
        records = interpreter.records
        records[self.first_record :] = [rewriter.record(record) for record in records[self.first_record :]]
        self._leave(heads, rewriter, stays)

    def _inductions(self) -> dict[Expr, Expr]:
        """Each placeholder as a function of the counter: init + counter * step where the step is the same every time."""
        result: dict[Expr, Expr] = {}
        ends = self._ends()
        for head, (place, initial) in self.slots.items():
            end = ends.get(head)
            step = None
            if self.back is None:
                step = ex.ZERO
            elif end is not None and place not in self.wide:
                found = ex.coefficient_of(end, head)
                if found is not None and found[0] == 1 and self._invariant(found[1]):
                    step = found[1]
            start = ex.ZERO if initial is None else initial.expr
            if step is not None:
                result[head] = ex.add(start, ex.mul(self.counter, step))
            elif initial is None:
                result[head] = ex.unknown(-ex.INFINITE, ex.INFINITE)
            else:
                result[head] = self._between(head, end, initial)
        return result

    def _between(self, head: Expr, end: Expr | None, initial: Number) -> Expr:
        """What is left to say of a variable without a fixed step."""
        kind = initial.kind
        if end is not None and _shrinks(end, head):
            start = initial.observed()
            if start.lo >= 0:
                return ex.minimum(ex.unknown(0, kind.hi), start)
        return unknown_number(kind).expr

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
        """The conditions on which an iteration goes on to the next, each with whether it is regular.

        A condition that has to do with values read in the body says nothing of other iterations.
        """
        passed: set[Expr] = set()
        stays: list[tuple[Expr, bool]] = []
        inside = [state.way for state in self.breaks] + [returned.state.way for returned in self.returns]
        for way in inside:
            remaining = ex.TRUE
            for step in steps_since(way, self.entry):
                if step.kind == "maybe" or (step.kind in ("while", "earlier", "loop")):
                    remaining = ex.both(remaining, unknown_truth())
                elif step.expr not in passed:
                    remaining = ex.both(remaining, step.expr)
            stay = ex.negate(remaining)
            if stay is not ex.TRUE:
                passed.add(stay)
                stays.append((stay, self._regular(stay, heads)))
        return stays

    def _regular(self, stay: Expr, heads: dict[Expr, Expr]) -> bool:
        for leaf in stay.leaves:
            if leaf in heads:
                if any(u.serial >= self.mark and u is not self.counter and not _repeats(u) for u in heads[leaf].leaves):
                    return False
            elif leaf.serial >= self.mark and leaf is not self.counter and not _repeats(leaf):
                return False
        return True

    def _leave(self, heads: dict[Expr, Expr], rewriter: LoopRewriter, stays: list[tuple[Expr, bool]]) -> None:
        """Go on behind the loop: variables as they are when its last iteration is left."""
        interpreter = self.interpreter
        if self.back is None:
            last: dict[Expr, Expr] = {self.counter: ex.ZERO}
        else:
            last = {self.counter: ex.trips(lambda leaf: self._trips(leaf, rewriter, stays))}
        memo: dict[Expr, Expr] = {}

        def at_the_end(expr: Expr) -> Expr:
            return ex.substitute(rewriter.expr(expr), last, memo)

        way = self.start.way
        for returned in self.returns:
            returned.state = State(
                self._rewrite_env(returned.state.env, at_the_end),
                interpreter.ways.condition(way, unknown_truth()),
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
            way = interpreter.ways.step(way, "maybe", ex.TRUE, text="a loop that may return", line=line)
        interpreter.state, interpreter.alive = State(env, way), True

    def _rewrite_env(self, env: dict[Private, Value], rewrite: Callable[[Expr], Expr]) -> dict[Private, Value]:
        result: dict[Private, Value] = {}
        for place, value in env.items():
            before = self.start.env.get(place)
            if before is None:
                continue
            result[place] = value if value is before else rewrite_value(value, rewrite)
        return result

    def _trips(self, leaf: Expr, rewriter: LoopRewriter, stays: list[tuple[Expr, bool]]) -> Trips:
        condition = ex.TRUE
        for stay, regular in stays:
            if regular:
                condition = ex.both(condition, rewriter.expr(stay))
        exact = all(regular for _, regular in stays)

        def at(position: Expr) -> Expr:
            return ex.substitute(condition, {self.counter: position})

        before = at(ex.add(leaf, ex.const(-1)))
        if not exact:
            return Trips(ex.TRUE, before, ex.TRUE, False)
        return Trips(ex.negate(at(ex.ZERO)), before, ex.negate(at(leaf)), True)


def _repeats(leaf: Expr) -> bool:
    """Whether a leaf made in a loop's body is the same function of the ids in every iteration."""
    if leaf.op == "exit":
        return leaf.definition is not None and leaf.definition.exact
    return leaf.op not in ("unknown", "head", "loop")


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
        return Aggregate({key: rewrite_value(cell, rewrite) for key, cell in value.cells.items()}, value.places)
    return value


def _same_targets(head: Pointer, end: Pointer) -> bool:
    """Whether all targets have moved by one and the same distance."""
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
        moved = [leaf for leaf in head.targets[0].offset.leaves if leaf.op == "head"]
        distance = ex.sub(end.targets[0].offset, head.targets[0].offset)
        for leaf in moved:
            if all(leaf in target.offset.leaves for target in head.targets):
                found.setdefault(leaf, ex.add(leaf, distance))


def _shrinks(end: Expr, head: Expr) -> bool:
    """Whether `end` is `head` divided, shifted down or cut: never above it if it is not negative."""
    if end.op == "cast":
        return _shrinks(end.args[2], head)
    if end.op in ("shr", "div", "mod", "and"):
        inner = end.args[0]
        while inner.op == "cast":
            inner = inner.args[2]
        return inner is head and (end.args[1].lo >= 0)
    return False


def _labels(statement: Node) -> tuple[list[Node | None], Node]:
    """The case labels in front of a statement (None: default) and the statement."""
    labels: list[Node | None] = []
    while statement.kind in ("case", "default"):
        if statement.kind == "case":
            labels.append(statement.args[0])
            statement = statement.args[1]
        else:
            labels.append(None)
            statement = statement.args[0]
    return labels, statement


def _literal_numbers(node: Node, numbers: list[int]) -> bool:
    """Collect the integers of an initialiser; False where it has anything else."""
    if node.kind == "int":
        numbers.append(node.args[0])
        return True
    if node.kind == "unary" and node.args[0] == "-" and node.args[1].kind == "int":
        numbers.append(-node.args[1].args[0])
        return True
    if node.kind == "cast" and node.type.integer is not None and node.args[0].type.integer is not None:
        inner: list[int] = []
        found = _literal_numbers(node.args[0], inner)
        numbers.extend(node.type.integer.wrap(number) for number in inner)
        return found
    return node.kind == "list" and all(_literal_numbers(item, numbers) for item in node.args)


def interpret(reader: SyntaxReader, function: Function, arguments: dict[str, Value], seconds: float) -> Interpreter:
    """Walk a kernel. Raises Unsupported where something is not followed or time is over."""
    interpreter = Interpreter(reader, perf_counter() + seconds)
    interpreter.run(function, arguments)
    return interpreter


__all__ = ["Argument", "CType", "Frame", "Interpreter", "SHARED", "interpret", "pointer_to", "same_value"]
