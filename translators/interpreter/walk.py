"""The abstract interpreter: walks a kernel once and records its accesses with the conditions on the way to
them.

Decides how statements join and split the way, what a loop does to the variables it changes, and follows the
program's own functions. Values are `calculation`'s.
"""

from __future__ import annotations

from itertools import chain
from time import perf_counter

from clang.cindex import Cursor

from ..frontend.syntax import VOID, Function, Node, Unsupported, Variable, is_arithmetic, uniform_integer
from ..frontend.syntax_reader import SyntaxReader
from ..symbolic import logic
from ..symbolic.expression import Expr
from .access_recorder import Step, common_way, condition_since, merge_branches
from .builtins import builtin
from .calculation import Calculator
from .loops import Jumps, Loop, Returned
from .memory import State, join_envs
from .values import (
    OPAQUE,
    Constants,
    Number,
    Place,
    Private,
    Shared,
    Value,
    Vector,
    convert,
    join_values,
    unknown_value,
)

_MAX_DEPTH = 40


class Interpreter(Calculator):
    """Interprets one kernel."""

    def __init__(self, reader: SyntaxReader, deadline: float) -> None:
        super().__init__(deadline)
        self.reader = reader
        self.alive = True
        self.returned: list[Returned] = []
        self.jumps: list[Jumps] = []
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
        before = self.called_from
        self.called_from = before if node.line is None else node.line
        result = self._inline(function, values)
        self.called_from = before
        return result

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
            ends.append(Returned(self.state, unknown_value(function.result)))
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

    def block(self, node: Node) -> Value:
        """Statements in place of an expression; the last one's value is that of all."""
        njumps = self.njumps
        *before, last = node.args or (Node("nothing", VOID),)
        for statement in before:
            self.execute(statement)
        if node.type.kind == "void":
            self.execute(last)
            value = unknown_value(node.type)
        else:
            value = convert(self.value(last), node.type)
        if self.njumps != njumps:  # what is evaluated with it would be left as well
            raise Unsupported("a jump out of an expression is not followed", node.line)
        return value

    def program_place(self, node: Node) -> Place:
        """A variable at program scope: constants are no buffers; other memory would have to be shared."""
        key, name, cursor = node.args
        place = self._program_places.get(key)
        if place is None:
            place = Shared(self._constants(cursor))
            space = (
                node.type.space
                if node.type.kind != "array" or node.type.element is None
                else node.type.element.space
            )
            if space == 1:
                self.outside_program.append((f"`{name}` at program scope is memory of one device", node.line))
            self._program_places[key] = place
        return place

    def _constants(self, cursor: Cursor) -> Constants | None:
        """The bounds of the integers in a constant's initialiser, where it has nothing else and all are of one type."""
        variable = self.reader.program_variable(cursor)
        if variable.init is None or (variable.type.space != 3 and variable.type.kind != "array"):
            return None
        kind = uniform_integer(variable.type)
        numbers = [0]
        if kind is None or not self._constant_numbers(variable.init, numbers):
            return None
        return Constants(kind, min(numbers), max(numbers))

    def _constant_numbers(self, node: Node, numbers: list[int]) -> bool:
        """Collect the integers of an initialiser; False where it has anything else."""
        if node.kind == "list":
            return all(self._constant_numbers(item, numbers) for item in node.args)
        if not is_arithmetic(node):
            return False
        value = self.value(node)
        items = value.items if isinstance(value, Vector) else (value,)
        for item in items:
            found = item.observed() if isinstance(item, Number) else None
            if found is None or found.op != "const":
                return False
            numbers.append(found.args[0])
        return True

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
        self.returned.append(Returned(self.state, value))
        self.njumps += 1
        self.alive = False

    def _join(self, a: State, b: State) -> State:
        """The state after two ways have come together."""
        start = common_way(a.way, b.way)
        first, second = condition_since(a.way, start), condition_since(b.way, start)
        env = join_envs(first, a.env, b.env)
        return State(env, self.ways.condition(start, logic.either(first, second)))

    def come_together(self, states: list[State], way: Step | None) -> None:
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
        if condition is logic.TRUE or condition is logic.FALSE:
            chosen = then if condition is logic.TRUE else otherwise
            if chosen is not None:
                self.execute(chosen)
            return
        start, njumps = self.state, self.njumps
        states = []
        for branch, branch_condition in ((then, condition), (otherwise, logic.negate(condition))):
            self.state = State(dict(start.env), self.ways.condition(start.way, branch_condition))
            self.alive = True
            if branch is not None:
                self.execute(branch)
            if self.alive:
                states.append(self.state)
        self.come_together(states, start.way if self.njumps == njumps else None)

    def _switch(self, node: Node) -> None:
        test, body = node.args
        value = self.number(test)
        statements = list(body.args) if body.kind == "compound" else [body]
        labels = [_labels(statement) for statement in statements]
        conditions = [[self._case(value, label) for label in found if label] for found, _ in labels]
        nothing = logic.TRUE
        for condition in chain.from_iterable(conditions):
            nothing = logic.both(nothing, logic.negate(condition))
        start, njumps = self.state, self.njumps
        self.jumps.append(Jumps(continues=self.jumps[-1].continues if self.jumps else []))
        self.alive = False
        has_default = False
        for (found, statement), entries in zip(labels, conditions, strict=True):
            if () in found:
                has_default = True
                entries.append(nothing)
            for condition in entries:
                self._enter_case(start, condition)
            self._in_scope(statement)
            self.execute(statement)
        ends = self.jumps.pop().breaks
        outer_jumps = self.njumps - njumps - len(ends)
        if self.alive:
            ends = [*ends, self.state]
        if not has_default:
            ends = [*ends, State(dict(start.env), self.ways.condition(start.way, nothing))]
        self.njumps = njumps + outer_jumps
        self.come_together(ends, start.way if outer_jumps == 0 else None)

    def _case(self, value: Expr, label: tuple[Node, ...]) -> Expr:
        """Whether a value is the label's number, or in its range."""
        first, *last = (self.number(number) for number in label)
        if not last:
            return logic.equal(value, first)
        return logic.both(logic.less_equal(first, value), logic.less_equal(value, last[0]))

    def _in_scope(self, statement: Node) -> None:
        """What is declared in a `switch` is in scope behind it, also where a jump passes over its initialiser."""
        if statement.kind == "declare" and not self.alive:
            for variable in statement.args:
                self.declare_only(variable)

    def _enter_case(self, start: State, condition: Expr) -> None:
        if condition is logic.FALSE:
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
            attempt = Loop(self, node, start, changed, wide)
            attempt.run()
            missed = attempt.missed()
            if not missed and not attempt.to_widen:
                break
            changed |= missed
            wide.update(attempt.to_widen)
            attempt.undo()
        attempt.finish()
        self.njumps = njumps + (1 if attempt.returns else 0)


def _labels(statement: Node) -> tuple[list[tuple[Node, ...]], Node]:
    """The case labels in front of a statement (a number, the ends of a range, or nothing: default) and the statement."""
    labels: list[tuple[Node, ...]] = []
    while statement.kind in ("case", "default"):
        labels.append(statement.args[0] if statement.kind == "case" else ())
        statement = statement.args[-1]
    return labels, statement


def interpret(
    reader: SyntaxReader, function: Function, arguments: dict[str, Value], seconds: float
) -> Interpreter:
    """Walk a kernel. Raises Unsupported where something is not followed or time is over."""
    interpreter = Interpreter(reader, perf_counter() + seconds)
    interpreter.run(function, arguments)
    return interpreter
