"""Random loops: up, down, in odd steps, with variables that wrap or are cut, with literals and left-out clauses.

Decides the forms of a loop; each ends after few iterations, whatever the numbers are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .program import Stmt
from .stores import Stores
from .values import (
    CHAR,
    INT,
    INTS,
    LONG,
    UINT,
    ULONG,
    Ex,
    IntType,
    cast,
    constant,
    of_bits,
)  # fmt: skip


@dataclass
class Loops(Stores):
    """Stores, variables and loops."""

    @abstractmethod
    def block(self, count: int, depth: int) -> list[Stmt]: ...

    @contextmanager
    def looping(self, *leaves: Ex) -> Iterator[None]:
        before = self.in_loop, self.in_switch
        self.in_loop, self.in_switch = True, False
        with self.inside(*leaves):
            yield
        self.in_loop, self.in_switch = before

    @contextmanager
    def choosing(self) -> Iterator[None]:
        """Inside a switch, where `break` is the switch's and `continue` the loop's around it."""
        before, self.in_switch = self.in_switch, True
        with self.inside():
            yield
        self.in_switch = before

    def loop_body(self, depth: int, *leaves: Ex) -> list[Stmt]:
        with self.looping(*leaves):
            return self.block(self.rng.randrange(1, 3), depth)

    def loop(self, depth: int) -> list[Stmt]:
        """Up or down in steps, between bounds that may depend on anything."""
        rng, e = self.rng, self.expressions
        t = rng.choice([INT, INT, UINT, LONG, *e.types])
        name = self.fresh("i")
        start = e.moved_into(e.small(4, 2), 0, 8) or constant(rng.randrange(4))
        stop = e.moved_into(e.small(4, 2), start.lo, 9) or constant(start.hi + 2)
        step = rng.choice([1, 1, 1, 2, 3])
        uniform = start.uniform and stop.uniform
        if self.chance(0.5):
            i = Ex(name, t, start.lo, max(stop.hi, start.lo), uniform=uniform)
            test = rng.choice(
                [f"{name} < {stop.text}", f"{stop.text} > {name}", f"{name} + 1 <= {stop.text}"]
            )
            if not t.signed or not stop.t.signed:
                test = f"{name} < ({t.name}){stop.text}"
            steps = [f"{name} += {step}", f"{name} = {name} + {step}"] + (
                [f"{name}++", f"++{name}"] if step == 1 else []
            )
            head, first = rng.choice(steps), start.text
        elif t.signed or self.chance(0.5):
            t = t.partner(True)
            i = Ex(name, t, min(0, start.lo), stop.hi, uniform=uniform)
            test, first = (
                rng.choice(
                    [f"{name} >= {constant(start.lo).text}", f"{name} > {constant(start.lo - 1).text}"]
                ),
                stop.text,
            )
            head = rng.choice([f"{name} -= {step}"] + ([f"{name}--", f"--{name}"] if step == 1 else []))
            i = Ex(name, t, min(start.lo, stop.lo), stop.hi, uniform=uniform)
        else:  # unsigned, downwards: the test steps
            i = Ex(name, t, 0, max(stop.hi, 1), uniform=uniform)
            test, first, head = rng.choice([f"{name}-- > 0", f"{name}-- != 0"]), stop.text, ""
        self.forms.add("loop")
        body = self.loop_body(depth, i)
        style = rng.random()
        if style < 0.6:
            return [Stmt(f"for ({t.name} {name} = {first}; {test}; {head}) {{", body, "}")]
        if style < 0.75:
            return [
                Stmt(
                    "{",
                    [Stmt(f"{t.name} {name} = {first};"), Stmt(f"for (; {test}; {head}) {{", body, "}")],
                    "}",
                )
            ]
        if style < 0.85 and head and not any("continue" in line for s in body for line in s.lines()):
            inner = [*body, Stmt(f"{head};", droppable=False)]
            return [
                Stmt("{", [Stmt(f"{t.name} {name} = {first};"), Stmt(f"while ({test}) {{", inner, "}")], "}")
            ]
        if self.chance(0.5) and head:
            self.forms.add("comma in a loop's header")
            j = self.fresh("j")
            return [
                Stmt(
                    f"for ({t.name} {name} = {first}, {j} = 0; {j} < 9 && ({test}); {head}, ++{j}) {{",
                    body,
                    "}",
                )
            ]
        return [Stmt(f"for ({t.name} {name} = {first}; {test}; {head}) {{", body, "}")]

    def odd_loop(self, depth: int) -> list[Stmt]:
        """Halving, doubling, wrapping, narrowing; with clauses left out and literals in the header."""
        rng, name = self.rng, self.fresh("k")
        kinds = [
            self._halving, self._wrapping, self._narrowing, self._narrowing, self._literal, self._literal, self._do, self._walking
        ]  # fmt: skip
        kind = rng.choice([kind for kind in kinds if _form(kind) not in self.skip])
        self.forms.add(_form(kind))
        return kind(name, depth)

    def _halving(self, name: str, depth: int) -> list[Stmt]:
        t = self.rng.choice([INT, UINT, *self.expressions.types])
        start = self.expressions.into(self.expressions.scalar(1), min(t.hi, 64))
        step = self.rng.choice(
            [f"{name} >>= 1", f"{name} /= 2", f"{name} = {name} / 3", f"{name} = {name} >> 2"]
        )
        body = self.loop_body(depth, Ex(name, t, 1, max(start.hi, 1)))
        return [Stmt(f"for ({t.name} {name} = {start.text}; {name} > 0; {step}) {{", body, "}")]

    def _wrapping(self, name: str, depth: int) -> list[Stmt]:
        """Ends because the variable wraps."""
        t, back = self.rng.choice([INTS[1], INTS[3], UINT, ULONG]), self.rng.randrange(1, 5)
        low = t.hi - back + 1
        if self.chance(0.5):
            body = self.loop_body(depth, Ex(name, t, low, t.hi))
            first = constant(low, t).text
            return [Stmt(f"for ({t.name} {name} = {first}; {name} >= {first}; ++{name}) {{", body, "}")]
        body = self.loop_body(depth, Ex(name, t, 0, back))
        return [Stmt(f"for ({t.name} {name} = {back}; {name} <= {back}; {name}--) {{", body, "}")]

    def _narrowing(self, name: str, depth: int) -> list[Stmt]:
        """A variable that a cast may turn round, used as it goes."""
        if self.chance(0.5):
            t, narrow, start, step = self._turning(name)
        else:
            t, narrow, start, step = self._any_narrowing(name)
        i = Ex(name, t, min(start, narrow.lo), max(start, narrow.hi))
        counter, rounds = self.fresh("r"), self.rng.randrange(2, 5)
        body = self.loop_body(depth, i, Ex(f"({name} < 0)", INT, 0, 1), Ex(f"({name} > 0)", INT, 0, 1))
        body = [*self._sign_store(name), *body]
        if any("continue" in line for s in body for line in s.lines()):
            head = f"for (int {counter} = 0; {counter} < {rounds}; ++{counter}, {step[:-1]}) {{"
            loop = Stmt(head, body, "}")
        else:
            loop = Stmt(
                f"for (int {counter} = 0; {counter} < {rounds}; ++{counter}) {{", [*body, Stmt(step)], "}"
            )
        return [Stmt("{", [Stmt(f"{t.name} {name} = {start};"), loop], "}")]

    def _turning(self, name: str) -> tuple[IntType, IntType, int, str]:
        """Halved and cut to a signed type, so that what was above zero is below it: before the cast, or behind it."""
        t, narrow = self.rng.choice([INT, INT, LONG]), self.rng.choice([CHAR, CHAR, CHAR, of_bits(16, True)])
        half = 1 << (narrow.bits - 1)
        halved = self.rng.choice(["{0} >> 1", "{0} / 2"])
        if self.chance(0.5):
            start = 2 * half + self.rng.randrange(2 * half)
            return t, narrow, start, f"{name} = ({narrow.name})({halved.format(name)});"
        start = half + self.rng.randrange(half)
        return t, narrow, start, f"{name} = {halved.format(f'(({narrow.name}){name})')};"

    def _any_narrowing(self, name: str) -> tuple[IntType, IntType, int, str]:
        t = self.rng.choice([INT, INT, LONG, of_bits(16, True)])
        narrow = self.rng.choice([x for x in INTS if x.bits < t.bits])
        start = self.rng.choice([510, 300, 1000, 200, 130, 255, -130, 100, 32767, 33000, 70000])
        start = min(max(start, t.lo), t.hi)
        halving = ["({0} >> 1)", "{0} / 2", "({0} >> 2)", "{0} / 3"]
        by = self.rng.choice([*halving, "({0} + 1)", "({0} * 2)", "({0} - 100)", "-{0}", "({0} << 1)", "{0}"])
        inner = by.format(name) if self.chance(0.5) else by.format(f"(({narrow.name}){name})")
        next_text = f"({narrow.name})({inner})" if self.chance(0.8) else f"convert_{narrow.name}_sat({inner})"
        if inner == by.format(name):
            return t, narrow, start, f"{name} = {next_text};"
        plain = [inner] if by in (*halving, "{0}") else []
        return t, narrow, start, f"{name} = ({t.name})({self.rng.choice([next_text, *plain, *plain])});"

    def _sign_store(self, name: str) -> list[Stmt]:
        """Where the sign decides which of two places is written."""
        found = [own for own in self.owns if own.n == 1 and own.count > 1]
        if not found:
            return []
        own = self.rng.choice(found)
        at = self.rng.randrange(own.count - 1)
        test = self.rng.choice(
            [
                f"({name} < 0)",
                f"({name} > 0)",
                f"({name} == 0)",
                f"({name} <= 0)",
                f"({name} < 0)",
                f"({name} > 127)",
            ]
        )
        return [
            Stmt(
                f"{own.name}[{own.base(self.me)} + {at} + {test}] = {cast(own.t, Ex(name, INT, 0, 0)).text};",
                droppable=False,
            )
        ]

    def _literal(self, name: str, depth: int) -> list[Stmt]:
        """Character and string literals between a header's parentheses; a clause or two left out."""
        text, value = self.rng.choice(list(self.expressions.CHARACTERS.items()))
        start, first = self.rng.choice(
            [(f"'{text}'", value), ('";"[0]', 59), ('")"[0]', 41), (f"'{text}' + 2", value + 2)]
        )
        bound = self.expressions.moved_into(self.expressions.small(4, 1), first, 6) or constant(first + 2)
        body = self.loop_body(depth, Ex(name, INT, first, first + 6), Ex(f"({name} - {first})", INT, 0, 6))
        shape = self.rng.randrange(4)
        if shape == 0 or any("continue" in line for s in body for line in s.lines()):
            return [
                Stmt(
                    "{",
                    [
                        Stmt(f"int {name};"),
                        Stmt(f"for ({name} = {start}; {name} < {bound.text}; ++{name}) {{", body, "}"),
                    ],
                    "}",
                )
            ]
        inner = [*body, Stmt(f"++{name};", droppable=False)]
        if shape == 1:
            head = f"for ({name} = {start}; {name} < {bound.text}; ) {{"
        elif shape == 2:
            head = f"for ({name} = {start}; ; ) {{"
            inner = [Stmt(f"if ({name} >= {bound.text}) break;", droppable=False), *inner]
        else:
            head = f"for ({name} = {start}; {name} < {bound.text} && {name} != '('; ) {{"
        return [Stmt("{", [Stmt(f"int {name};"), Stmt(head, inner, "}"), *self.store()], "}")]

    def _do(self, name: str, depth: int) -> list[Stmt]:
        t = self.rng.choice([INT, UINT, LONG, ULONG])
        bound = self.expressions.moved_into(self.expressions.small(4, 2), 0, 6) or constant(3)
        body = self.loop_body(depth, Ex(name, t, 0, 6))
        test = self.rng.choice([f"++{name} < ({t.name}){bound.text}", f"{name}++ < ({t.name}){bound.text}"])
        return [Stmt("{", [Stmt(f"{t.name} {name} = 0;"), Stmt("do {", body, f"}} while ({test});")], "}")]

    def _walking(self, name: str, depth: int) -> list[Stmt]:
        """A pointer that walks through the work-item's own block."""
        found = [own for own in self.owns if own.n == 1]
        if not found:
            return self.store()
        own = self.rng.choice(found)
        steps = self.expressions.moved_into(
            self.expressions.small(own.count, 2), 0, own.count + 1
        ) or constant(own.count)
        counter = self.fresh("r")
        first = f"global {own.t.name} *{name} = {own.name} + {own.base(self.me)};"
        value = cast(own.t, self.expressions.scalar(2)).text
        if self.chance(0.3):
            first = f"global {own.t.name} *{name} = {own.name} + {own.base(self.me)} + {own.count};"
            store = self.rng.choice([f"*--{name} = {value};", f"--{name};\n{name}[0] = {value};"])
        else:
            store = self.rng.choice(
                [
                    f"*{name}++ = {value};",
                    f"{name}[0] = {value};\n++{name};",
                    f"*{name} = {value};\n{name} += 1;",
                ]
            )
        loop = Stmt(f"for (int {counter} = 0; {counter} < {steps.text}; {counter}++) {{", [Stmt(store)], "}")
        return [Stmt("{", [Stmt(first), loop], "}")]


def _form(kind: Callable[[str, int], list[Stmt]]) -> str:
    return kind.__name__[1:] + " loop"
