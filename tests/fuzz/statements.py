"""Random statements of a kernel: blocks, branches, exits, and small idioms that faults were found with.

Decides which statement comes next. What all are made of is in `stores` and `loops`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .probes import Probes
from .program import Stmt
from .stores import Own
from .values import (
    BOOL,
    INT,
    LENGTHS,
    LONG,
    UCHAR,
    UINT,
    ULONG,
    Ex,
    cast,
    constant,
    scalar_operation,
)  # fmt: skip


@dataclass
class Statements(Probes):
    """Writes the statements of one kernel. `endless_ranges`: of case labels, to the largest number of their type."""

    endless_ranges: bool = False

    def block(self, count: int, depth: int) -> list[Stmt]:
        found: list[Stmt] = []
        for _ in range(count):
            found += self.statement(depth)
        return found

    def statement(self, depth: int) -> list[Stmt]:
        roll = self.rng.random()
        if roll < 0.32:
            return self.store()
        if roll < 0.42:
            return self.idiom()
        if roll < 0.56:
            return self.declaration()
        if roll < 0.6 and self.mutables:
            return self.assignment()
        if depth <= 0:
            return self.store()
        if self.extra and roll < 0.68:
            return self.rng.choice(self.extra)()
        forms = [self.branch, self.loop, self.loop, self.switch, self.odd_loop, self.exit]
        if "goto" not in self.skip and self.chance(0.15):
            forms = [self.jump]
        return self.rng.choice(forms)(depth - 1)

    # branches ---------------------------------------------------------------------------------------

    def branch(self, depth: int) -> list[Stmt]:
        test = self.expressions.scalar(3).text
        with self.inside():
            first = Stmt(f"if ({test}) {{", self.block(self.rng.randrange(1, 3), depth), "}")
        if self.chance(0.5):
            return [first]
        with self.inside():
            second = self.block(self.rng.randrange(1, 3), depth)
        return [Stmt(first.text, [*first.body, Stmt("} else {"), *second], "}")]

    def exit(self, depth: int) -> list[Stmt]:
        test = self.expressions.scalar(2)
        ways = ["break"] * (self.in_loop or self.in_switch) + ["continue"] * self.in_loop
        if ways and self.chance(0.7):
            self.forms.add("break or continue")
            return [Stmt(f"if ({test.text}) {self.rng.choice(ways)};")]
        if self.may_return:
            self.forms.add("early return")
            return [Stmt(f"if ({test.text}) return;")]
        return self.store()

    def jump(self, depth: int) -> list[Stmt]:
        """By goto: over a block, out of a loop in a loop, or back while a number is small."""
        label, n = self.fresh("l"), self.fresh("n")
        self.forms.add("goto")
        kind = self.rng.randrange(3)
        if kind == 0:
            with self.inside():
                inner = self.block(self.rng.randrange(1, 3), depth)
            test = self.expressions.scalar(2).text
            return [
                Stmt(
                    "{", [Stmt(f"if ({test}) goto {label};"), Stmt("{", inner, "}"), Stmt(f"{label}:;")], "}"
                )
            ]
        counter = Ex(n, INT, 0, 8)
        if kind == 1:
            inner = self.loop_body(depth, counter)
            test = self.expressions.scalar(2).text
            loops = f"for (int {n} = 0; {n} < 2; ++{n}) for (int {n}b = 0; {n}b < 2; ++{n}b) {{"
            body = [Stmt(loops, [*inner, Stmt(f"if ({test}) goto {label};")], "}"), Stmt(f"{label}:;")]
            return [Stmt("{", body, "}")]
        rounds = self.rng.randrange(1, 4)
        before = self.in_loop, self.in_switch
        self.in_loop = self.in_switch = False  # neither break nor continue has a loop here
        with self.inside(counter):
            inner = self.block(1, depth)
        self.in_loop, self.in_switch = before
        body = [Stmt(f"int {n} = 0;\n{label}:;"), Stmt("{", inner, "}"),
                Stmt(f"if (++{n} < {rounds}) goto {label};", droppable=False)]  # fmt: skip
        return [Stmt("{", body, "}")]

    def switch(self, depth: int) -> list[Stmt]:
        """With labels in any order, fall through, declarations before the first label."""
        if "range of case labels" not in self.skip and self.chance(0.2):
            return self.ranges_in_switch(depth)
        e = self.expressions.small(5, 2) if self.chance(0.8) else self.expressions.scalar(2)
        if e.t is BOOL:
            e = cast(INT, e)
        if self.chance(0.2) and e.width < 10:  # labels with the highest bit of an unsigned type
            t = self.rng.choice([UINT, ULONG])
            e = scalar_operation("+", cast(t, e), constant((1 << (t.bits - 1)) - 2 - e.lo, t)) or e
            if e.width > 10:  # it wraps: the numbers are those beside the highest bit all the same
                e = replace(e, lo=(1 << (t.bits - 1)) - 2, hi=(1 << (t.bits - 1)) + 6)
        body: list[Stmt] = []
        self.forms.add("switch")
        with self.choosing():
            span = range(e.lo, e.hi + 1) if e.width < 10 else [-1, 0, 1, 5, 255]
            labels = [
                f"case {constant(x, e.t if e.lo > INT.hi else INT).text}:" for x in span if self.chance(0.7)
            ]
            if self.chance(0.7):
                labels.append("default:")
            self.rng.shuffle(labels)
            for label in labels:
                with self.inside():
                    inner = self.block(self.rng.randrange(0, 3), min(depth, 1))
                ending = self.rng.choice(["break;", "break;", ""])
                body.append(Stmt(f"{label} {{", inner, f"}} {ending}"))
        if not body:
            return self.store()
        return [Stmt(f"switch ({e.text}) {{", body, "}")]

    def ranges_in_switch(self, depth: int) -> list[Stmt]:
        """Labels that are ranges, as clang and GCC take them, also over the middle of an unsigned type's values."""
        t, e = self.rng.choice([INT, UINT, UINT, LONG, ULONG, ULONG]), self.expressions.small(7, 2)
        # of an unsigned type where its highest bit begins, in the middle of a range of labels
        first = self.rng.choice([0, -3]) if t.signed else (1 << (t.bits - 1)) - self.rng.choice([1, 1, 2, 3])
        condition = scalar_operation("+", cast(t, e), constant(first - e.lo, t))
        if condition is None:
            return self.store()
        self.forms.add("range of case labels")
        body: list[Stmt] = []
        low, behind = first, first + e.width
        with self.choosing():
            while low < behind:
                high = low + self.rng.randrange(4)
                label = f"case {constant(low, t).text} ... {constant(high, t).text}:"
                if high >= behind and self.endless_ranges:
                    label, high = f"case {constant(low, t).text} ... {constant(t.hi, t).text}:", t.hi
                if body and self.chance(0.2):
                    label, high = "default:", behind
                with self.inside():
                    inner = self.block(self.rng.randrange(1, 3), min(depth, 1))
                body.append(Stmt(f"{label} {{", inner, "} break;"))
                low = high + 1
        return [Stmt(f"switch ({condition.text}) {{", body, "}")]

    def declared_in_switch(self) -> list[Stmt]:
        """An array in front of the first label: in scope, never initialised (C99 6.8.4.2p7); each use stores first."""
        found = [own for own in self.owns if own.n == 1 and own.count >= 2]
        if not found:
            return self.store()
        own, e = self.rng.choice(found), self.expressions.small(3, 2)
        name, t = self.fresh("z"), self.rng.choice([INT, UINT, UCHAR, LONG])
        uses = []
        for at in range(2):
            small = (
                self.expressions.small(2, 1) if self.chance(0.5) else constant(self.rng.randrange(own.count))
            )
            slot = self.expressions.moved_into(small, 0, own.count) or constant(own.count - 1)
            value = cast(own.t, self.expressions.scalar(1)).text
            uses.append(
                f"{name}[{at}] = {slot.text};\n{own.name}[{own.base(self.me)} + {name}[{at}]] = {value};"
            )
        self.forms.add("declared in a switch")
        label = cast(INT, e) if e.t is BOOL else e
        head = self.rng.choice(
            [f"{t.name} {name}[2] = {{0, 0}};", f"{t.name} {name}[2] = {{0}};", f"{t.name} {name}[2];"]
        )
        body = [
            Stmt(head), Stmt(f"case {constant(self.rng.randrange(e.lo, e.hi + 1)).text}:"),
            Stmt(uses[0]), Stmt("break;"), Stmt("default:"), Stmt(uses[1]),
        ]  # fmt: skip
        return [Stmt(f"switch ({label.text}) {{", body, "}")]

    def continued_in_switch(self) -> list[Stmt]:
        """How often a loop came behind a switch that goes on with the next step, as a place."""
        found = [own for own in self.owns if own.n == 1 and own.count >= 2]
        if not found:
            return self.store()
        own, e = self.rng.choice(found), self.expressions.small(4, 2)
        count, step, times = self.fresh("z"), self.fresh("i"), self.rng.randrange(1, 4)
        chosen = self.rng.randrange(e.lo, e.hi + times)
        other = self.rng.choice(
            ["default: break;", f"case {chosen + 1}: {count}++; break;", f"case {chosen - 1}:;"]
        )
        known = Ex(count, INT, 0, 2 * times)
        slot = self.expressions.moved_into(known, 0, own.count) or self.expressions.into(known, own.count)
        self.forms.add("continue in a switch")
        labels = [Stmt(f"case {chosen}: continue;"), Stmt(other)]
        inner = [Stmt(f"switch ({cast(INT, e).text} + {step}) {{", labels, "}"), Stmt(f"{count}++;")]
        return [
            Stmt(f"int {count} = 0;"),
            Stmt(f"for (int {step} = 0; {step} < {times}; {step}++) {{", inner, "}"),
            Stmt(
                f"{own.name}[{own.base(self.me)} + {slot.text}] = {cast(own.t, self.expressions.scalar(1)).text};"
            ),
        ]

    # small programs in themselves -------------------------------------------------------------------

    def idiom(self) -> list[Stmt]:
        forms = {
            "vector condition as a place": self.flag_store, "__LINE__": self.line_store, "pointer variable": self.chain,
            "bool to vector": self.bool_store, "declared in a switch": self.declared_in_switch,
            "continue in a switch": self.continued_in_switch, "place from a table": self.table_store, "narrowing loop": self.narrowed,
            "pointers in an array": self.pointers, "half": self.half_store,
        }  # fmt: skip
        return self.rng.choice(
            [form for name, form in forms.items() if name not in self.skip] or [self.store]
        )()

    def flag_store(self) -> list[Stmt]:
        """A condition's components, or their difference, as a place."""
        found = [own for own in self.owns if own.n == 1 and own.count >= 3]
        if not found:
            return self.store()
        own, n = self.rng.choice(found), self.rng.choice(LENGTHS)
        t = self.expressions.type()
        if self.chance(0.7):
            t = t.partner(True)
        e = self.expressions
        v = e.small_vector(n, t, 1)
        name = self.fresh("c")
        lines = [Stmt(f"const {t.name}{n} {name} = {v.text};")]
        known = Ex(name, t, v.lo, v.hi, n)
        index = e.component_of(known)
        if self.chance(0.6):
            pair = e.rng.sample(range(n), 2)
            first, second = (Ex(f"{name}.s{at:x}", t, v.lo, v.hi) for at in pair)
            index = scalar_operation("-", first, second) or index
        moved = e.moved_into(index, 0, own.count) or e.into(index, own.count)
        lines.append(
            Stmt(f"{own.name}[{own.base(self.me)} + {moved.text}] = {cast(own.t, e.scalar(1)).text};")
        )
        self.scope.leaves.append(known)
        self.forms.add("vector condition as a place")
        return lines

    def bool_store(self) -> list[Stmt]:
        found = [own for own in self.owns if own.n == 1 and own.count >= 2]
        if not found:
            return self.store()
        own, n = self.rng.choice(found), self.rng.choice(LENGTHS)
        t = self.expressions.type()
        b, name = self.fresh("b"), self.fresh("w")
        lines = [Stmt(f"bool {b} = {self.expressions.scalar(2).text};")]
        literal = self.chance(0.3)
        how = (
            f"({t.name}{n})({b})"
            if literal
            else self.rng.choice([f"({t.name}{n}){b}", b, f"({t.name}{n})(bool){b}"])
        )
        lines.append(Stmt(f"{t.name}{n} {name} = {how};"))
        lo, hi = (0, 1) if literal else (-1, 0) if t.signed else (0, t.hi)
        v = Ex(name, t, lo, hi, n)
        index = self.expressions.component_of(v)
        if hi > 1:
            index = Ex(f"({index.text} >> {t.bits - 1})", t, 0, 1)
        moved = self.expressions.moved_into(index, 0, own.count) or self.expressions.into(index, own.count)
        lines.append(
            Stmt(
                f"{own.name}[{own.base(self.me)} + {moved.text}] = {cast(own.t, self.expressions.scalar(1)).text};"
            )
        )
        self.scope.leaves.append(v)
        self.forms.add("bool to vector")
        return lines

    def narrowed(self) -> list[Stmt]:
        self.forms.add("narrowing loop")
        return self._narrowing(self.fresh("k"), 0)

    def table_store(self) -> list[Stmt]:
        """A constant table decides the place, perhaps read as another type than its own."""
        found = [own for own in self.owns if own.n == 1 and own.count >= 2]
        e = self.expressions.table_word(1) if found else None
        if e is None:
            return self.store()
        own = self.rng.choice(found)
        moved = self.expressions.moved_into(e, 0, own.count) or self.expressions.into(e, own.count)
        self.forms.add("place from a table")
        return [
            Stmt(
                f"{own.name}[{own.base(self.me)} + {moved.text}] = {cast(own.t, self.expressions.scalar(1)).text};"
            )
        ]

    def line_store(self) -> list[Stmt]:
        found = [own for own in self.owns if own.n == 1]
        if not found:
            return self.store()
        own = self.rng.choice(found)
        self.forms.add("__LINE__")
        slot = self.expressions.index(own.count, 1)
        left = f"{own.name}[{own.base(self.me)} + {slot.text}]"
        forms = [f"{left} = __LINE__;", f"{left} = __LINE__ * 2 +\n __LINE__;", f"{left} = __COUNTER__;"]
        over_lines = [e.text for e in self.scope.leaves if "\n" in e.text]
        if over_lines and self.chance(0.8):
            call = self.rng.choice(over_lines)
            forms = [f"{left} = {call} + __LINE__;", f"(void){call}; {left} = __LINE__;", f"{left} = __LINE__ + {call};",
                     f"(void){call};\n{left} = __LINE__;"]  # fmt: skip
        return [Stmt(self.rng.choice(forms))]

    def pointers(self) -> list[Stmt]:
        """Pointers to places of the block in an array, and a pointer to one of these pointers."""
        found = [own for own in self.owns if own.n == 1 and own.count >= 2]
        if not found:
            return self.store()
        own, ps, e = self.rng.choice(found), self.fresh("ps"), self.expressions
        size = self.rng.choice([2, 3, 4])
        base = f"{own.name} + {own.base(self.me)}"
        places = [f"{base} + {e.index(own.count, 1).text}" for _ in range(size)]
        lines = [f"global {own.t.name} *{ps}[{size}] = {{{', '.join(places)}}};"]
        if self.chance(0.4):
            lines.append(
                f"if ({e.scalar(1).text}) {ps}[{e.index(size, 1).text}] = {self.rng.choice(places)};"
            )
        which, value = e.index(size, 2).text, cast(own.t, e.scalar(1)).text
        if self.chance(0.5):
            lines.append(f"*{ps}[{which}] = {value};")
        else:
            pp = self.fresh("pp")
            lines += [f"global {own.t.name} **{pp} = {ps} + {which};", f"**{pp} = {value};"]
        self.forms.add("pointers in an array")
        return [Stmt("\n".join(lines))]

    def half_store(self) -> list[Stmt]:
        """Numbers that a half has, stored as halves or loaded as such."""
        found = [own for own in self.owns if own.n == 1 and own.t.bits == 16]
        if not found:
            return self.store()
        own, e = self.rng.choice(found), self.expressions
        n = self.rng.choice([m for m in (1, 2, 3, 4, 8) if m <= own.count])
        slot = e.index(own.count - n + 1, 1).text
        values = [f"(float){e.small(200, 1).text}" for _ in range(n)]
        value = values[0] if n == 1 else f"(float{n})({', '.join(values)})"
        place = f"(global half *)({own.name} + {own.base(self.me)} + {slot})"
        name = f"vstore_half{n if n > 1 else ''}{self.rng.choice(['', '_rte', '_rtz'])}"
        lines = [Stmt(f"{name}({value}, 0, {place});")]
        self.forms.add("half")
        if self.chance(0.5):
            load = f"vload_half{n if n > 1 else ''}(0, {place})"
            component = "" if n == 1 else f".s{self.rng.randrange(n):x}"
            left, at = f"{own.name}[{own.base(self.me)}", e.index(own.count, 1).text
            lines.append(Stmt(f"{left} + {at}] = ({own.t.name})(int){load}{component};"))
        return [Stmt("\n".join(line.text for line in lines))]

    def chain(self) -> list[Stmt]:
        """Several names for one pointer, chosen by a condition."""
        found = [own for own in self.owns if own.n == 1 and own.count >= 2]
        if not found:
            return self.store()
        own, p = self.rng.choice(found), self.fresh("q")
        base = f"{own.name} + {own.base(self.me)}"
        at = self.rng.randrange(1, own.count)
        room = own.count - at
        slot = self.expressions.moved_into(self.expressions.small(room, 1), 0, room) or constant(0)
        test = self.expressions.scalar(2).text
        value = cast(own.t, self.expressions.scalar(2)).text
        self.forms.add("pointer variable")
        space = "global "
        if not self.prelude.plain and "generic pointer" not in self.skip and self.chance(0.4):
            space = ""
            self.forms.add("generic pointer")
            if self.chance(0.4):
                return self.elsewhere(own, p, f"{base} + {at}", test, slot.text, value)
        lines = [Stmt(f"{space}{own.t.name} *{p} = {test} ? {base} : {base} + {at};")]
        if self.chance(0.4):
            lines = [
                Stmt(f"{space}{own.t.name} *{p} = {base};"),
                Stmt(f"if ({test}) {p} += {at};"),
            ]
        lines.append(Stmt(f"{p}[{slot.text}] = {value};"))
        return lines

    def elsewhere(self, own: Own, p: str, there: str, test: str, slot: str, value: str) -> list[Stmt]:
        """A store through a pointer to the work-item's block, or to private memory, which is looked at afterwards."""
        aside, t = self.fresh("aside"), own.t
        self.forms.add("global or private")
        self.scope.leaves.append(Ex(f"{aside}[{self.rng.randrange(own.count)}]", t, t.lo, t.hi))
        lines = [f"{t.name} {aside}[{own.count}] = {{0}};"]
        if self.chance(0.5):
            lines.append(f"{t.name} *{p} = ({test}) ? ({t.name} *)({there}) : ({t.name} *){aside};")
        else:
            lines += [f"{t.name} *{p} = {aside};", f"if ({test}) {p} = {there};"]
        return [Stmt("\n".join([*lines, f"{p}[{slot}] = {value};"]))]
