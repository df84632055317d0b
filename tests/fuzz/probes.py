"""Stores that show where the analysis is one element off: each is the only one of its buffer, in rows with room on both sides.

Decides what such a place comes from: an operation on operands of few values, or a variable that branches, switches and
loops have given one of several values. Where many stores share a buffer, one hides what is wrong with another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .loops import Loops
from .program import Stmt
from .stores import Own
from .values import CHAR, INT, LONG, SHORT, UCHAR, UINT, Ex, IntType, cast


@dataclass
class Probes(Loops):
    """Stores, variables, loops, and stores in rows. `rows`: outputs with one store each. `row_inputs`: what is read once."""

    rows: list[Own] = field(default_factory=list)
    row_inputs: list[Own] = field(default_factory=list)

    def probed(self) -> list[Stmt]:
        """The one store into a row, or a row's one load."""
        row = self.rows.pop()
        self.forms.add("row")
        make = self.rng.choice([self._of_an_operation, self._of_a_variable])
        source = self.row_inputs.pop() if self.row_inputs and self.chance(0.6) else None
        lines, place, tests = make(row.count if source is None else min(row.count, source.count))
        value = cast(row.t, self.expressions.scalar(1)).text
        target = f"{row.name}[{row.base(self.me)} + {place}]"
        if source is not None:
            value = cast(row.t, Ex(f"{source.name}[{source.base(self.me)} + {place}]", source.t, 0, 0)).text
            if self.chance(0.5):  # the load alone is a matter of its place
                target = f"{row.name}[{row.base(self.me)}]"
        elif self.chance(0.2):
            return [*lines, *self._to_one_of_two(row, place, value)]
        elif self.chance(0.2):
            return self.rng.choice([self._to_a_swapped_one, self._to_a_moved_one])(row, value)
        store = f"{target} = {value};"
        if tests and self.chance(0.8):
            glue = self.rng.choice([" && ", " && ", " & "])
            store = f"if ({glue.join(f'({test})' for test in tests)}) {store}"
        return [*lines, Stmt(store)]

    def _to_one_of_two(self, row: Own, place: str, value: str) -> list[Stmt]:
        """Through a pointer that goes to the row, or to the first byte of the work-item's block elsewhere."""
        other = self.owns[0]
        with self.expressions.of_few():
            test = self.test_of(self.expressions.few_leaf())
        into = f"((global uchar *)({row.name} + {row.base(self.me)} + {place}))"
        elsewhere = f"((global uchar *)({other.name} + {other.base(self.me)}))"
        first, second = (into, elsewhere) if self.chance(0.5) else (elsewhere, into)
        p = self.fresh("q")
        lines = self.rng.choice(
            [
                f"global uchar *{p} = {test} ? {first} : {second};",
                f"global uchar *{p} = {first};\nif ({test}) {p} = {second};",
            ]
        )
        self.forms.add("pointer to one of two")
        return [Stmt(f"{lines}\n*{p} = (uchar)({value});")]

    def _to_a_swapped_one(self, row: Own, value: str) -> list[Stmt]:
        """Through one of two pointers, which a loop has exchanged so many times."""
        p, q, kept, step = self.fresh("q"), self.fresh("q"), self.fresh("q"), self.fresh("r")
        first, second = self.rng.sample(range(row.count), 2)
        with self.expressions.of_few():
            bound = self.expressions.moved_into(self.expressions.few_leaf(), 0, 5)
        rounds = str(self.rng.randrange(5)) if bound is None or self.chance(0.5) else cast(INT, bound).text
        leave = f" if ({self.doubt()}) break;" if self.chance(0.3) else ""
        base, pointer = f"{row.name} + {row.base(self.me)}", f"global {row.t.name} *"
        exchange = f"{pointer}{kept} = {p}; {p} = {q}; {q} = {kept};{leave}"
        self.forms.add("exchanged pointers")
        return [
            Stmt(f"{pointer}{p} = {base} + {first}, *{q} = {base} + {second};"),
            Stmt(f"for (int {step} = 0; {step} < {rounds}; ++{step}) {{ {exchange} }}", droppable=False),
            Stmt(f"*{p} = {value};"),
        ]

    def _to_a_moved_one(self, row: Own, value: str) -> list[Stmt]:
        """Through a pointer that a loop has moved by steps, up or down, to another one or until a condition holds."""
        p, end, step = self.fresh("q"), self.fresh("q"), self.rng.choice([1, 1, 2, 3])
        times = self.rng.randrange((row.count - 1) // step + 1)
        low = self.rng.randrange(row.count - times * step)
        first, last = low, low + times * step
        move, before = f"{p} += {step}", "<"
        if self.chance(0.4):
            first, last, move, before = last, first, f"{p} -= {step}", ">"
        leave = f"if ({self.doubt()}) break;" if self.chance(0.5) else ";"
        loop = self.rng.choice([
            f"while ({p} != {end}) {{ {leave} {move}; }}",
            f"for (; {p} {before} {end}; {move}) {leave}",
            f"do {{ {leave} }} while ({p} {before} {end} && ({move}) {before} {end});",
        ])  # fmt: skip
        base, pointer = f"{row.name} + {row.base(self.me)}", f"global {row.t.name} *"
        self.forms.add("moved pointer")
        return [
            Stmt(f"{pointer}{p} = {base} + {first}, *const {end} = {base} + {last};"),
            Stmt(loop, droppable=False),
            Stmt(f"*{p} = {value};"),
        ]

    def _of_an_operation(self, count: int) -> tuple[list[Stmt], str, list[str]]:
        e = self.expressions.probe(count)
        moved = self.expressions.moved_into(e, 0, count) or self.expressions.into(e, count)
        if not self.chance(0.3) or e.width < 3:
            return [], moved.text, []
        name = self.fresh("e")  # of a variable, conditions say more
        known = Ex(name, moved.t, moved.lo, moved.hi)
        return [Stmt(f"const {moved.t.name} {name} = {moved.text};")], name, [self.test_of(known)]

    def test_of(self, e: Ex) -> str:
        """A condition that some values of `e` fulfil."""
        other = self.expressions.near(e)
        if self.chance(0.3):
            with self.expressions.of_few():
                found = self.expressions.few_leaf()
            other = self.expressions.moved_into(found, e.lo, max(e.width, found.width)) or other
        test = f"{e.text} {self.rng.choice(['<', '<=', '>', '>=', '!=', '=='])} {other.text}"
        return test if self.chance(0.7) else f"!({test})"

    # a variable with one of several values ----------------------------------------------------------

    def _of_a_variable(self, count: int) -> tuple[list[Stmt], str, list[str]]:
        kinds: list[Callable[[str, IntType, list[str]], list[Stmt]]] = [
            self._by_branches, self._by_switch, self._by_switch, self._by_switch, self._by_jumps, self._by_jumps, self._by_counting,
            self._by_counting, self._by_pointer, self._by_pointer, self._by_helper, self._in_an_array, self._in_an_array,
            self._in_a_structure, self._read_anew,
        ]  # fmt: skip
        t, name = self.rng.choice([INT, INT, INT, UINT, CHAR, UCHAR, SHORT, LONG]), self.fresh("f")
        kind = self.rng.choice(kinds)
        numbers = self.rng.sample(range(count), min(5, count))
        lines = kind(name, t, [str(number) for number in numbers])
        self.forms.add(kind.__name__[1:].replace("_", " "))
        tests = [self.test_of(Ex(name, t, min(numbers), max(numbers)))] if self.chance(0.2) else []
        return lines, name, tests

    def doubt(self) -> str:
        """A condition that holds here and there: of data, of the work-item's number, of any expression."""
        e = self.expressions
        roll = self.rng.random()
        if roll < 0.5:
            found = e.loaded(0)
            if found is not None:
                return f"({found.text} & {1 << self.rng.randrange(3)})"
        if roll < 0.75:
            with e.of_few():
                found = e.few_leaf()
            return f"({self.test_of(found)})"
        return e.scalar(2).text

    def _by_branches(self, name: str, t: IntType, numbers: list[str]) -> list[Stmt]:
        a, b, c, *_ = numbers * 3
        inner = self.rng.choice([
            f"if ({self.doubt()}) {name} = {b}; else if ({self.doubt()}) {name} = {c};",
            f"if ({self.doubt()}) {{ if ({self.doubt()}) {name} = {b}; }} else {name} = {c};",
            f"{name} = {self.doubt()} ? {b} : {self.doubt()} ? {c} : {name};",
            f"({self.doubt()}) && ({name} = {b});\n({self.doubt()}) || ({name} = {c});",
        ])  # fmt: skip
        return [Stmt(f"{t.name} {name} = {a};\n{inner}", droppable=False)]

    def _read_anew(self, name: str, t: IntType, numbers: list[str]) -> list[Stmt]:
        """Negative numbers whose bytes are read as a type without a sign."""
        signed = self.rng.choice([CHAR, SHORT, INT])
        unsigned, word = signed.partner(False), self.fresh("w")
        least = (1 << signed.bits) - 100  # what the number 0 is read as
        a, b, *_ = (f"({signed.name})({int(number) - 100})" for number in numbers * 2)
        read = self.rng.choice([f"as_{unsigned.name}({word})", f"*({unsigned.name} *)&{word}"])
        return [
            Stmt(f"{signed.name} {word} = {self.doubt()} ? {a} : {b};", droppable=False),
            Stmt(f"{t.name} {name} = ({t.name})({read} - {least}u);", droppable=False),
        ]

    def _by_switch(self, name: str, t: IntType, numbers: list[str]) -> list[Stmt]:
        """With or without a default; cases fall into others."""
        first, *others = numbers
        with self.expressions.of_few():
            e = cast(INT, self.expressions.few_leaf())
        labels = [f"case {x}:" for x in range(e.lo, e.hi + 1) if self.chance(0.6)]
        if "range of case labels" not in self.skip and self.chance(0.5):
            labels = self._ranges_of_labels(e)
        labels += ["default:"] * self.chance(0.4)
        self.rng.shuffle(labels)
        lines = []
        for number, label in zip(others, labels, strict=False):
            lines.append(f"    {label} {name} = {number}; {self.rng.choice(['break;', 'break;', ''])}")
        if not lines:
            lines = [f"    case {e.lo}: {name} = {numbers[-1]};"]
        text = "\n".join([f"{t.name} {name} = {first};", f"switch ({e.text}) {{", *lines, "}"])
        return [Stmt(text, droppable=False)]

    def _ranges_of_labels(self, e: Ex) -> list[str]:
        """For all the values of `e`, as clang and GCC take them."""
        self.forms.add("range of case labels")
        labels, low = [], e.lo - self.rng.randrange(2)
        while low <= e.hi:
            high = low + self.rng.randrange(3)
            labels.append(f"case {low} ... {high}:")
            low = high + 1
        return labels

    def _by_jumps(self, name: str, t: IntType, numbers: list[str]) -> list[Stmt]:
        """In a loop that several jumps leave or begin anew."""
        first, *others = numbers
        counter = self.fresh("r")
        jumps = [
            f"    if ({self.doubt()}) {{ {name} = {number}; {jump}; }}"
            for number, jump in zip(others[1:], self.rng.choices(["break", "continue"], k=3), strict=False)
        ]
        if self.chance(0.3):  # out of a switch, which takes a break for itself
            case = f"case 0: {name} = {first}; {self.rng.choice(['break', 'continue'])};"
            default = f"default: {name} = {numbers[-1]}; {self.rng.choice(['break', 'continue'])};"
            with self.expressions.of_few():
                e = cast(INT, self.expressions.few_leaf())
            jumps.append(f"    switch ({e.text}) {{ {' '.join(self.rng.sample([case, default], 2))} }}")
        rounds = self.rng.randrange(1, 5)
        end = [f"    {name} = {others[0]};"] * self.chance(0.6) if others else []
        head = self.rng.choice(
            [
                f"for (int {counter} = 0; {counter} < {rounds}; ++{counter}) {{",
                f"for (int {counter} = {rounds}; {counter} > 0; {counter}--) {{",
            ]
        )
        if self.chance(0.3):
            head = f"int {counter} = 0;\nwhile ({counter}++ < {rounds}) {{"
        text = "\n".join([f"{t.name} {name} = {first};", head, *jumps, *end, "}"])
        return [Stmt(text, droppable=False)]

    def _by_counting(self, name: str, t: IntType, numbers: list[str]) -> list[Stmt]:
        """What a loop's variable is behind it."""
        low, high = sorted(map(int, numbers))[0], sorted(map(int, numbers))[-1]
        step = self.rng.choice([1, 1, 1, 2, 3])
        # a step is taken from below the bound alone, so that the last one stays in the row
        stop = max(high - step + 1, low)
        with self.expressions.of_few():
            e = self.expressions.few_leaf()
        bound = self.expressions.moved_into(e, low, max(stop - low + 1, 1))
        last = str(stop) if bound is None or bound.hi > stop else cast(t, bound).text
        leave = f"if ({self.doubt()}) break;" if self.chance(0.3) else ";"
        text = self.rng.choice([
            f"for ({name} = {low}; {name} < {last}; {name} += {step}) {leave}",
            f"{name} = {low};\nwhile ({name} < {last}) {{ {name} += {step}; {leave} }}",
            f"{name} = {low};\ndo {{ {leave} }} while ({name} < {last} && ({name} += {step}) < {last});",
            f"for ({name} = {last}; {name} > {low}; --{name}) {leave}",
        ])  # fmt: skip
        return [Stmt(f"{t.name} {name};\n{text}", droppable=False)]

    def _by_pointer(self, name: str, t: IntType, numbers: list[str]) -> list[Stmt]:
        """Through a pointer to one of two variables."""
        a, b, c, *_ = numbers * 3
        other, p, space = self.fresh("g"), self.fresh("q"), self.rng.choice(["", "private "])
        store = self.rng.choice([f"*{p} = {c};", f"{p}[0] = {c};", f"if ({self.doubt()}) *{p} = {c};"])
        aim = self.rng.choice(
            [
                f"{space}{t.name} *{p} = {self.doubt()} ? &{name} : &{other};",
                f"{space}{t.name} *{p} = &{name};\nif ({self.doubt()}) {p} = &{other};",
            ]
        )
        end = self.rng.choice(["", f"\n{name} = *{p};", f"\nif ({self.doubt()}) {name} = {other};"])
        return [Stmt(f"{t.name} {name} = {a}, {other} = {b};\n{aim}\n{store}{end}", droppable=False)]

    def _by_helper(self, name: str, t: IntType, numbers: list[str]) -> list[Stmt]:
        """By a helper that is given a pointer to it, or that returns from several places."""
        a, b, c, *_ = numbers * 3
        helper, test = self.prelude.fresh("give"), self.expressions.scalar(2).text
        if self.chance(0.5):
            store = self.rng.choice(
                [f"if (k & 1) *p = {b};", f"if (k & 2) {{ *p = {b}; return; }}\n    if (k & 1) *p = {c};"]
            )
            self.prelude.declare(f"static void {helper}({t.name} *p, int k) {{\n    {store}\n}}")
            return [Stmt(f"{t.name} {name} = {a};\n{helper}(&{name}, (int)({test}));", droppable=False)]
        counter = self.rng.choice(
            [
                f"for (int i = 0; i < 3; ++i) if (k >> i & 1) return {b} + i;",
                f"while (k & 1) {{ if (k & 4) return {c}; k >>= 1; }}",
            ]
        )
        if int(b) + 2 > max(map(int, numbers)):
            counter = counter.replace(" + i", "")
        self.prelude.declare(f"static {t.name} {helper}(uint k) {{\n    {counter}\n    return {a};\n}}")
        return [Stmt(f"const {t.name} {name} = {helper}((uint)({test}));", droppable=False)]

    def _in_an_array(self, name: str, t: IntType, numbers: list[str]) -> list[Stmt]:
        """Stored at a place that nobody knows, read at one that is known, or the other way round."""
        array, size = self.fresh("p"), self.rng.choice([2, 3, 4])
        content = ", ".join(self.rng.choice(numbers[:3]) for _ in range(size))
        known, at = str(self.rng.randrange(size)), self.expressions.index(size, 1).text
        store, load = self.rng.choice([(at, known), (at, known), (known, at), (at, at)])
        value = numbers[-1]
        line = f"{array}[{store}] = {value};"
        if self.chance(0.3):
            line = f"if ({self.doubt()}) {line}"
        if self.chance(0.2):
            counter = self.fresh("r")
            line = f"for (int {counter} = 0; {counter} < {self.rng.randrange(1, size + 1)}; ++{counter}) {array}[{counter}] = {value};"
        return [
            Stmt(
                f"{t.name} {array}[{size}] = {{{content}}};\n{line}\nconst {t.name} {name} = {array}[{load}];",
                droppable=False,
            )
        ]

    def _in_a_structure(self, name: str, t: IntType, numbers: list[str]) -> list[Stmt]:
        """A member of one of two structures, which are assigned as a whole."""
        a, b, c, *_ = numbers * 3
        s, other = self.fresh("s"), self.fresh("s")
        line = self.rng.choice([
            f"if ({self.doubt()}) {s} = {other};", f"if ({self.doubt()}) {s}.b = {c};", f"{s} = {self.doubt()} ? {other} : {s};",
            f"({self.doubt()} ? &{s} : &{other})->b = {c};",
        ])  # fmt: skip
        head = f"struct {{ char a; {t.name} b; }} {s} = {{1, {a}}}, {other} = {{2, {b}}};"
        return [Stmt(f"{head}\n{line}\nconst {t.name} {name} = {s}.b;", droppable=False)]
