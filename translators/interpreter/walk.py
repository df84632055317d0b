"""The abstract interpreter: walks a kernel once and records its accesses with the conditions on the way to them.

Decides how statements join and split the way, what a loop does to the variables that it changes, and follows the
program's own functions. Values are computed in `calculation`.
"""

from __future__ import annotations

from itertools import chain

from ..frontend.syntax import (
    Block,
    Break,
    Call,
    Case,
    Compound,
    Continue,
    Declare,
    Default,
    Expression,
    Function,
    If,
    InitialiserList,
    Label,
    Loop,
    Node,
    Nothing,
    Return,
    Statement,
    Switch,
    Unsupported,
    Use,
    Variable,
    is_arithmetic,
)
from ..frontend.syntax_reader import SyntaxReader
from ..frontend.types import CArray, CVoid, Space, uniform_integer
from ..symbolic import logic
from ..symbolic.effort import spend
from ..symbolic.nodes import Const, Expr
from .access_recorder import common_way, condition_since, merge_branches
from .builtins import builtin
from .calculation import Calculator
from .loops import Jumps, LoopRun, Returned
from .memory import Memory, State, join_envs
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
from .ways import Step

_MAX_DEPTH = 40
#: The cost of going on to a statement (see `effort`).
_STEPS = 4


class Interpreter:
    """Interprets one kernel."""

    def __init__(self, reader: SyntaxReader) -> None:
        self.memory = Memory()
        self.calculator = Calculator(self.memory, self)
        self.reader = reader
        self.alive = True
        self.returned: list[Returned] = []
        self.jumps: list[Jumps] = []
        #: jumps out of the innermost statements so far; a statement without any ends where it began
        self.njumps = 0
        self.depth = 0
        self.outside_program: list[tuple[str, int | None]] = []
        self._program_places: dict[int, Place] = {}
        self._functions: dict[tuple[str, int | None], Function | None] = {}

    def run(self, function: Function, arguments: dict[str, Value]) -> None:
        """Interpret a kernel with `arguments` by name. Raises Unsupported if something cannot be followed."""
        for parameter in function.parameters:
            self._bind(parameter, arguments[parameter.name])
        self.execute(function.body)
        self.memory.records = merge_branches(self.memory.records, self.memory.ways)

    def end(self) -> None:
        """Nothing more will be interpreted. It and its calculator refer to each other: with that, all that they have would stay until
        Python looks for garbage.
        """
        del self.calculator

    @property
    def reached(self) -> int | None:
        """The user's line that the walk, or the reading before it, has reached."""
        return self.reader.reached if self.memory.line is None else self.memory.line

    def _bind(self, parameter: Variable, value: Value) -> None:
        place = Private(parameter.name, parameter.type)
        self.memory.frame[parameter.key] = place
        self.memory.state.env[place] = value

    # calls ------------------------------------------------------------------------------------------

    def call(self, node: Call, *, used: bool) -> Value:
        function = self._function(node.name, node.key)
        if function is None:
            return builtin(self.calculator, node, used=used)
        pairs = zip(node.arguments, function.parameters, strict=False)
        values = [convert(self.calculator.value(argument), parameter.type) for argument, parameter in pairs]
        if self.depth >= _MAX_DEPTH:
            raise Unsupported("functions call each other too deeply", node.line)
        before = self.memory.called_from
        self.memory.called_from = before if node.line is None else node.line
        result = self._inline(function, values)
        self.memory.called_from = before
        return result

    def _function(self, name: str, key: int | None) -> Function | None:
        """The program's function of that name; None for others. Reading it counts once for a kernel."""
        place = name, key
        if place not in self._functions:
            self._functions[place] = self.reader.function(name, key)
        return self._functions[place]

    def _inline(self, function: Function, values: list[Value]) -> Value:
        frame, returned, jumps = self.memory.frame, self.returned, self.jumps
        njumps, way = self.njumps, self.memory.state.way
        self.memory.frame, self.returned, self.jumps = {}, [], []
        self.depth += 1
        for parameter, value in zip(function.parameters, values, strict=True):
            self._bind(parameter, value)
        self.execute(function.body)
        ends = self.returned
        if self.alive:
            ends.append(Returned(self.memory.state, unknown_value(function.result)))
        self.memory.frame, self.returned, self.jumps, self.njumps = frame, returned, jumps, njumps
        self.depth -= 1
        if not ends:
            # It never returns: that happens only with an endless loop.
            self.alive = False
            return unknown_value(function.result)
        self.alive = True
        last = ends[-1]
        state, value = last.state, last.value
        for end in reversed(ends[:-1]):
            condition = condition_since(end.state.way, common_way(end.state.way, state.way))
            state = self._join(end.state, state)
            value = join_values(condition, end.value, value)
        self.memory.state = State(state.env, way)
        return value

    def block(self, node: Block) -> Value:
        """Statements in place of an expression; the value of the last one is the value of all."""
        njumps = self.njumps
        *before, last = node.statements or (Nothing(),)
        for statement in before:
            self.execute(statement)
        if isinstance(node.type, CVoid) or isinstance(last, Statement):
            self.execute(last)
            value = unknown_value(node.type)
        else:
            value = convert(self.calculator.value(last), node.type)
        if self.njumps != njumps:  # what is evaluated together with it would be left as well
            raise Unsupported("a jump out of an expression is not followed", node.line)
        return value

    def program_place(self, node: Use) -> Place:
        """A variable at program scope: constants are not buffers; other memory would have to be shared."""
        place = self._program_places.get(node.key)
        if place is None:
            place = self._program_places[node.key] = Shared(self._constants(node.key))
            held = node.type.element if isinstance(node.type, CArray) else node.type
            if held.space is Space.GLOBAL:
                text = f"`{node.name}` at program scope is memory that workers cannot share"
                self.outside_program.append((text, node.line))
        return place

    def _constants(self, key: int) -> Constants | None:
        """The bounds of the integers in a constant's initialiser, if it contains nothing else and all have one type."""
        variable = self.reader.program_variable(key)
        ctype = variable.type
        if variable.init is None or not (ctype.space is Space.CONSTANT or isinstance(ctype, CArray)):
            return None
        kind = uniform_integer(ctype)
        numbers = [0]
        if kind is None or not self._constant_numbers(variable.init, numbers):
            return None
        return Constants(kind, min(numbers), max(numbers))

    def _constant_numbers(self, node: Expression, numbers: list[int]) -> bool:
        """Collect the integers of an initialiser; False if it contains anything else."""
        if isinstance(node, InitialiserList):
            return all(self._constant_numbers(item, numbers) for item in node.items)
        if not is_arithmetic(node):
            return False
        value = self.calculator.value(node)
        items = value.items if isinstance(value, Vector) else (value,)
        for item in items:
            found = item.observed() if isinstance(item, Number) else None
            if not isinstance(found, Const):
                return False
            numbers.append(found.number)
        return True

    # statements -------------------------------------------------------------------------------------

    def execute(self, node: Node) -> None:  # noqa: C901 (a case for each kind)
        """Run a statement; afterwards `alive` says whether its end can be reached."""
        if not self.alive:
            return
        spend(_STEPS)
        match node:
            case Compound():
                for statement in node.statements:
                    self.execute(statement)
            case Declare():
                for variable in node.variables:
                    self.calculator.declare(variable)
            case If():
                self._if(node)
            case Loop():
                self._loop(node)
            case Switch():
                self._switch(node)
            case Return():
                self._return(node)
            case Break():
                self._jump(self.jumps[-1].breaks)
            case Continue():
                self._jump(self.jumps[-1].continues)
            case Case() | Default():
                raise Unsupported("a case label inside another statement")
            case Nothing():
                pass
            case Call():
                self.call(node, used=False)
            case _:
                self.calculator.value(node)

    def _jump(self, states: list[State]) -> None:
        states.append(self.memory.state)
        self.njumps += 1
        self.alive = False

    def _return(self, node: Return) -> None:
        value: Value = OPAQUE
        if node.value is not None:
            value = convert(self.calculator.value(node.value), node.value.type)
        self.returned.append(Returned(self.memory.state, value))
        self.njumps += 1
        self.alive = False

    def _join(self, a: State, b: State) -> State:
        """The state after two ways have joined."""
        start = common_way(a.way, b.way)
        first, second = condition_since(a.way, start), condition_since(b.way, start)
        env = join_envs(first, a.env, b.env)
        return State(env, self.memory.ways.condition(start, logic.either(first, second)))

    def come_together(self, states: list[State], way: Step | None) -> None:
        """Continue from all of `states`; `way`: known to lead to one of them whatever happens."""
        if not states:
            self.alive = False
            return
        self.alive = True
        state = states[0]
        for other in states[1:]:
            state = self._join(state, other)
        self.memory.state = State(state.env, state.way if way is None else way)

    def _if(self, node: If) -> None:
        condition = self.calculator.condition(node.condition)
        if condition is logic.TRUE or condition is logic.FALSE:
            chosen = node.then if condition is logic.TRUE else node.otherwise
            if chosen is not None:
                self.execute(chosen)
            return
        start, njumps = self.memory.state, self.njumps
        states = []
        for branch, branch_condition in ((node.then, condition), (node.otherwise, logic.negate(condition))):
            self.memory.state = start.branch(self.memory.ways.condition(start.way, branch_condition))
            self.alive = True
            if branch is not None:
                self.execute(branch)
            if self.alive:
                states.append(self.memory.state)
        self.come_together(states, start.way if self.njumps == njumps else None)

    def _switch(self, node: Switch) -> None:
        value = self.calculator.number(node.value)
        statements = node.body.statements if isinstance(node.body, Compound) else (node.body,)
        labels = [_labels(statement) for statement in statements]
        conditions = [
            [self._case(value, label) for label in found if isinstance(label, Case)] for found, _ in labels
        ]
        nothing = logic.TRUE
        for condition in chain.from_iterable(conditions):
            nothing = logic.both(nothing, logic.negate(condition))
        start, njumps = self.memory.state, self.njumps
        self.jumps.append(Jumps(continues=self.jumps[-1].continues if self.jumps else []))
        self.alive = False
        has_default = False
        for (found, statement), entries in zip(labels, conditions, strict=True):
            if any(isinstance(label, Default) for label in found):
                has_default = True
                entries.append(nothing)
            for condition in entries:
                self._enter_case(start, condition)
            self._in_scope(statement)
            self.execute(statement)
        ends = self.jumps.pop().breaks
        outer_jumps = self.njumps - njumps - len(ends)
        if self.alive:
            ends = [*ends, self.memory.state]
        if not has_default:
            ends = [*ends, start.branch(self.memory.ways.condition(start.way, nothing))]
        self.njumps = njumps + outer_jumps
        self.come_together(ends, start.way if outer_jumps == 0 else None)

    def _case(self, value: Expr, label: Case) -> Expr:
        """Whether a value is the label's number, or in its range."""
        first = self.calculator.number(label.first)
        if label.last is None:
            return logic.equal(value, first)
        last = self.calculator.number(label.last)
        return logic.both(logic.less_equal(first, value), logic.less_equal(value, last))

    def _in_scope(self, statement: Node) -> None:
        """What is declared in a `switch` stays in scope after it, even if a jump passes over its initialiser."""
        if isinstance(statement, Declare) and not self.alive:
            for variable in statement.variables:
                self.calculator.declare_only(variable)

    def _enter_case(self, start: State, condition: Expr) -> None:
        if condition is logic.FALSE:
            return
        entered = start.branch(self.memory.ways.condition(start.way, condition))
        if self.alive:
            entered = self._join(self.memory.state, entered)
        self.memory.state, self.alive = entered, True

    # loops ------------------------------------------------------------------------------------------

    def _loop(self, node: Loop) -> None:
        if node.init is not None:
            self.execute(node.init)
        start, njumps = self.memory.state, self.njumps
        changed = {
            place
            for key in node.assigned
            if isinstance(place := self.memory.frame.get(key), Private) and place in start.env
        }
        wide: dict[Private, frozenset[Place]] = {}
        while True:
            attempt = LoopRun(self, node, start, changed, wide)
            attempt.run()
            missed = attempt.missed()
            if not missed and not attempt.to_widen:
                break
            changed |= missed
            wide.update(attempt.to_widen)
            attempt.undo()
        attempt.finish()
        self.njumps = njumps + (1 if attempt.returns else 0)


def _labels(statement: Node) -> tuple[list[Label], Node]:
    """The labels in front of a statement, and the statement."""
    labels: list[Label] = []
    while isinstance(statement, Label):
        labels.append(statement)
        statement = statement.statement
    return labels, statement
