"""What the interpreter writes down: accesses and the conditions on the way to them.

Decides how records of a loop's body are rewritten once the loop is understood, and which of them are certain when taken
together. Never evaluates anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from vdev.translators.values import dataclass

from ..symbolic import expression as ex
from ..symbolic import logic, nodes
from ..symbolic.effort import spend
from ..symbolic.nodes import LOOP_END, Expr
from ..symbolic.substitution import substitute
from .ways import Step, StepKind

_CONDITIONS = (StepKind.IF, StepKind.WHILE, StepKind.EARLIER)
#: in the place of an argument, in the record of a loop whose body touches none: how often it runs tells what it takes
NO_ARGUMENT = -1


class Ways:
    """Makes steps; equal ways are one object."""

    def __init__(self) -> None:
        self.root = Step(None, StepKind.ROOT, logic.TRUE)
        self._known: dict[tuple[object, ...], Step] = {}

    def step(
        self,
        parent: Step,
        kind: StepKind,
        expr: Expr,
        counter: Expr | None = None,
        text: str = "",
        line: int | None = None,
    ) -> Step:
        if kind in _CONDITIONS and expr is logic.TRUE:
            return parent
        key = (parent, kind, expr, counter, text)
        spend(1)
        found = self._known.get(key)
        if found is None:
            found = Step(parent, kind, expr, counter, text, line)
            self._known[key] = found
        return found

    def condition(self, parent: Step, expr: Expr) -> Step:
        """The way on if `expr` holds."""
        return self.step(parent, StepKind.IF, expr)


def steps_since(way: Step, start: Step) -> list[Step]:
    """The steps after `start` up to `way`, in order."""
    found = []
    while way is not start:
        found.append(way)
        assert way.parent is not None
        way = way.parent
    found.reverse()
    return found


def common_way(a: Step, b: Step) -> Step:
    """The longest common beginning."""
    while a is not b:
        if a.depth >= b.depth:
            assert a.parent is not None
            a = a.parent
        else:
            assert b.parent is not None
            b = b.parent
    return a


def condition_since(way: Step, start: Step) -> Expr:
    """What must hold on the way from `start` to `way`."""
    condition = logic.TRUE
    for step in steps_since(way, start):
        if step.kind is StepKind.IF or step.kind is StepKind.WHILE:
            condition = logic.both(condition, step.expr)
        else:
            condition = logic.both(condition, ex.unknown(0, 1, LOOP_END))
    return condition


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One access of a work-item: `nbytes` bytes at `offset` of argument `arg` (None: of any), if the way is
    taken."""

    arg: int | None
    mode: str
    offset: Expr | None  #: None: anywhere in the buffer
    nbytes: int
    way: Step
    line: int | None
    op: str | None = None
    dtype: str | None = None
    reason: str | None = None
    #: of a write: (byte from `offset`, size) of the parts that may be stored separately; otherwise it is one store
    pieces: tuple[tuple[int, int], ...] = ()


def hides(rewritten: Expr, *stays: Expr) -> bool:
    """Whether conditions became too long when they were rewritten (`expression.TOO_LONG`): then the loop's counter
    does not appear in them, and they would be the same in all iterations.
    """
    before = {leaf for stay in stays for leaf in stay.leaves}
    return any(
        isinstance(leaf, nodes.Unknown) and leaf.origin == ex.TOO_LONG and leaf not in before
        for leaf in rewritten.leaves
    )


class LoopRewriter:
    """Rewrites records of a loop's body: head values become functions of the loop's counter.

    `stays`: conditions under which the loop continues; they hold in all iterations before.
    """

    def __init__(
        self,
        ways: Ways,
        entry: Step,
        heads: Mapping[Expr, Expr],
        stays: list[tuple[Expr, bool]],
    ) -> None:
        """`entry`: the loop's step. `stays`: (condition, whether it is the same in all iterations)."""
        self.ways = ways
        self.entry = entry
        self.heads = heads
        self.stays = stays
        self.memo: dict[Expr, Expr] = {}
        self.way_memo: dict[Step, Step] = {}
        counter = entry.counter
        assert counter is not None
        before = {counter: ex.add(counter, ex.const(-1))}
        #: nobody knows what an irregular condition was in earlier iterations; the first has none before it
        self.earlier: dict[Expr, Expr] = {
            stay: substitute(self.expr(stay), before)
            if regular and not hides(self.expr(stay), stay)
            else ex.unknown(0, 1, LOOP_END)
            for stay, regular in stays
        }

    def expr(self, expr: Expr) -> Expr:
        return substitute(expr, self.heads, self.memo)

    def way(self, way: Step) -> Step:
        found = self.way_memo.get(way)
        if found is None:
            found = self._rewrite(way)
            self.way_memo[way] = found
        return found

    def _rewrite(self, way: Step) -> Step:
        steps = steps_since(way, self.entry)
        passed = {step.expr for step in steps if step.kind is StepKind.IF}
        counter = self.entry.counter
        result = self.entry
        for stay, before in self.earlier.items():
            if stay in passed:
                continue
            result = self.ways.step(result, StepKind.EARLIER, before, counter)
        for step in steps:
            if step.kind is StepKind.IF and step.expr in self.earlier:
                result = self.ways.step(result, StepKind.WHILE, self.expr(step.expr), counter)
            else:
                result = self.ways.step(
                    result, step.kind, self.expr(step.expr), step.counter, step.text, step.line
                )
        return result

    def record(self, record: Record) -> Record:
        spend(8)
        offset = record.offset
        return replace(record, way=self.way(record.way), offset=None if offset is None else self.expr(offset))


def merge_branches(records: Iterable[Record], ways: Ways) -> list[Record]:
    """The records without repetition; an access on both branches of an unknown condition becomes one access without
    it.
    """
    groups: dict[tuple[object, ...], dict[Step, Record]] = {}
    for record in records:
        spend(2)
        key = (record.arg, record.mode, record.offset, record.nbytes, record.op, record.dtype, record.pieces)
        groups.setdefault(key, {}).setdefault(record.way, record)
    result: list[Record] = []
    for by_way in groups.values():
        pending = list(by_way)
        while pending:
            way = pending.pop()
            if way not in by_way or way.kind is not StepKind.IF or way.parent is None:
                continue
            other = ways.step(way.parent, StepKind.IF, logic.negate(way.expr))
            if other in by_way and other is not way:
                record = by_way.pop(way)
                del by_way[other]
                if way.parent not in by_way:
                    by_way[way.parent] = replace(record, way=way.parent)
                    pending.append(way.parent)
        result.extend(by_way.values())
    return result
