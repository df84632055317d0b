"""Random stores and variables of a kernel whose work-items write only to places of their own.

Decides the forms of a store. Its place is `base + slot`: a base that belongs to the work-item alone, and a slot whose
bounds are the generator's own knowledge; so nothing is masked that need not be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .expressions import Expressions
from .prelude import Prelude
from .program import Stmt
from .scope import Scope, Table
from .values import (
    BOOL,
    CHAR,
    INT,
    LENGTHS,
    LONG,
    UCHAR,
    UINT,
    ULONG,
    Ex,
    IntType,
    cast,
    converted,
    vector_name,
)  # fmt: skip


@dataclass
class Own:
    """A pointer argument and a work-item's own block of it: elements [me * count, me * count + count), behind those before
    `first`.
    """

    name: str
    t: IntType
    count: int
    n: int = 1
    first: str = ""

    def base(self, me: str, scale: int = 1) -> str:
        if self.first:
            by = "" if scale == 1 else f" * {scale}"
            return f"{self.first}{by} + {me} * {self.count * scale}"
        return f"{me} * {self.count * scale}"


@dataclass
class Stores:
    """Writes the statements of one kernel. `me`: the text of the work-item's number, while it has one."""

    rng: random.Random
    prelude: Prelude
    scope: Scope
    expressions: Expressions
    owns: list[Own] = field(default_factory=list)
    me: str = "me"
    may_return: bool = False
    in_loop: bool = False
    in_switch: bool = False
    #: variables that may be assigned to; their bounds hold for ever
    mutables: list[Ex] = field(default_factory=list)
    forms: set[str] = field(default_factory=set)
    extra: list[Callable[[], list[Stmt]]] = field(default_factory=list)
    skip: frozenset[str] = frozenset()
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 10_000)))

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def fresh(self, stem: str) -> str:
        return f"{stem}{next(self.numbers)}"

    @contextmanager
    def inside(self, *leaves: Ex) -> Iterator[None]:
        """A block of its own: what is declared meanwhile is not known afterwards."""
        scope = self.scope
        before = len(scope.leaves), len(scope.tables), len(self.mutables)
        scope.leaves += leaves
        yield
        del scope.leaves[before[0] :], scope.tables[before[1] :], self.mutables[before[2] :]

    # stores -----------------------------------------------------------------------------------------

    def place(self, own: Own, scale: int = 1, room: int = 1) -> tuple[str, list[str]]:
        """An index of the work-item's own block, `scale` elements to each, `room` of them free behind it; and conditions
        under which alone it is one.
        """
        count = own.count * scale - room + 1
        base = own.base(self.me, scale)
        e = self.expressions.scalar(2) if self.chance(0.2) else None
        # What goes over several lines and names its own line is another number in the guard than in the index.
        if e is not None and "\n" not in e.text:  # guarded
            low = self.rng.randrange(0, count)
            name = e.text
            if own.count * scale > 1 and not (e.t is ULONG or e.t is UINT):
                wide = f"((long){name})"
                guards = [f"{wide} >= {-low}", f"{wide} < {count - low}"]
                return f"{base} + {low} + {name}", guards
            return f"{base} + {name}", [f"{name} < {count}"] if not e.t.signed else [
                f"(ulong){name} < {count}ul"
            ]
        if self.chance(0.6):
            e = self.expressions.small(count, 2)
            moved = self.expressions.moved_into(e, 0, count)
            slot = moved if moved is not None else self.expressions.index(count, 1)
        else:
            slot = self.expressions.index(count, 2)
        pointer_order = self.rng.random()
        return (f"{base} + {slot.text}" if pointer_order < 0.8 else f"{slot.text} + {base}"), []

    def element(self, name: str, index: str) -> str:
        return self.rng.choice(
            [f"{name}[{index}]", f"{name}[{index}]", f"*({name} + ({index}))", f"(&{name}[{index}])[0]"]
        )

    def store(self) -> list[Stmt]:
        if not self.owns:
            return self.declaration()
        own = self.rng.choice(self.owns)
        forms = [
            self.plain_store,
            self.plain_store,
            self.plain_store,
            self.byte_store,
            self.vector_store,
            self.update,
        ]
        text, guards = self.rng.choice(forms)(own)
        if guards:
            self.forms.add("guarded store")
            style = self.rng.randrange(4)
            if style == 0:
                return [Stmt(f"if ({' && '.join(guards)}) {text}")]
            if style == 1:
                return [Stmt("".join(f"if ({g}) " for g in guards) + text)]
            if style == 2:
                return [Stmt(f"if (!({' && '.join(guards)})) {{ }} else {{ {text} }}")]
            if self.in_loop and self.chance(0.5):
                return [Stmt(f"if (!({' && '.join(guards)})) continue;\n{text}")]
            both = " & ".join(f"({g})" for g in guards)
            return [Stmt(f"if ({both}) {{ {text} }}")]
        if self.chance(0.25):
            return [Stmt(f"if ({self.expressions.scalar(2).text}) {text}")]
        return [Stmt(text)]

    def value_of(self, own: Own) -> str:
        if own.n == 1:
            return cast(own.t, self.expressions.scalar(2)).text
        return self.expressions.vector(own.n, own.t, 1).text

    def plain_store(self, own: Own) -> tuple[str, list[str]]:
        index, guards = self.place(own)
        left = self.element(own.name, index)
        if own.n > 1 and self.chance(0.35):
            self.forms.add("components")
            return f"({left}){self.components(own.n, own.t)};", guards
        if own.n > 1 and self.chance(0.5):
            return (
                f"({left}).s{self.rng.randrange(own.n):x} = {cast(own.t, self.expressions.scalar(2)).text};",
                guards,
            )
        return f"{left} = {self.value_of(own)};", guards

    def components(self, n: int, t: IntType) -> str:
        """Some components of a vector of `n`, in any order, and what is assigned to them."""
        names = {"lo": n // 2, "hi": n // 2, "even": n // 2, "odd": n // 2} if n in (2, 4, 8, 16) else {}
        count = self.rng.choice([m for m in (2, 3, 4) if m <= n])
        chosen = self.rng.sample(range(n), count)
        names["s" + "".join(f"{at:x}" for at in chosen)] = count
        if n <= 4:
            names["".join("xyzw"[at] for at in chosen)] = count
        name = self.rng.choice(list(names))
        count = names[name]
        value = cast(t, self.expressions.scalar(1)) if count == 1 else self.expressions.vector(count, t, 1)
        op = self.rng.choice(["=", "=", "=", "^=", "|=", "&="])
        return f".{name} {op} {value.text}"

    def update(self, own: Own) -> tuple[str, list[str]]:
        index, guards = self.place(own)
        left = f"{own.name}[{index}]"
        if own.n > 1:
            return f"{left} ^= {self.expressions.vector(own.n, own.t, 1).text};", guards
        value = cast(own.t.partner(False), self.expressions.scalar(1)).text
        op = self.rng.choice(["^=", "|=", "&="] + ([] if own.t.signed else ["+=", "-=", "*="]))
        if not own.t.signed and self.chance(0.2):
            return self.rng.choice([f"{left}++;", f"--{left};"]), guards
        return f"{left} {op} {value};", guards

    def byte_store(self, own: Own) -> tuple[str, list[str]]:
        """Through a pointer to bytes; to a part of a vector."""
        if own.n == 3:
            return self.plain_store(own)
        t = self.rng.choice([UCHAR, CHAR])
        scale = own.t.nbytes * own.n
        index, guards = self.place(own, scale)
        self.forms.add("store as another type")
        return (
            f"((global {t.name} *){own.name})[{index}] = {cast(t, self.expressions.scalar(2)).text};",
            guards,
        )

    def vector_store(self, own: Own) -> tuple[str, list[str]]:
        if own.n != 1:
            return self.plain_store(own)
        lengths = [m for m in LENGTHS if m <= own.count]
        if not lengths:
            return self.plain_store(own)
        m = self.rng.choice(lengths)
        value = self.expressions.vector(m, own.t, 1).text
        self.forms.add("vector store")
        if own.count % m == 0 and m != 3 and not own.first and self.chance(0.5):
            part = Own(own.name, own.t, own.count // m)
            index, guards = self.place(part)
            return f"((global {vector_name(own.t, m)} *){own.name})[{index}] = {value};", guards
        if own.count % m == 0 and not own.first and self.chance(0.5):
            part = Own(own.name, own.t, own.count // m)
            index, guards = self.place(part)
            return f"vstore{m}({value}, {index}, {own.name});", guards
        index, guards = self.place(own, 1, m)
        return f"vstore{m}({value}, 0, {own.name} + {index});", guards

    # variables --------------------------------------------------------------------------------------

    def declaration(self) -> list[Stmt]:
        roll = self.rng.random()
        if roll < 0.12:
            return self.private_array()
        if roll < 0.18:
            return self.union()
        if roll < 0.5:
            return [self.vector_variable()]
        e = self.expressions.small(6, 2) if self.chance(0.5) else self.expressions.scalar(3)
        name = self.fresh("v")
        t = self.rng.choice([e.t, e.t, *self.expressions.types])
        lo, hi = converted(t, e.lo, e.hi)
        const = self.chance(0.5)
        found = Ex(name, t, lo, hi, uniform=e.uniform and const)
        if not const:
            if self.chance(0.4):  # room to move in
                found = Ex(
                    name, t, *converted(t, max(t.lo, min(lo, -3 if t.signed else 0)), min(t.hi, max(hi, 300)))
                )
                if not (found.lo <= lo and hi <= found.hi):
                    found = Ex(name, t, t.lo, t.hi)
            if t is not BOOL:
                self.mutables.append(found)
        self.scope.leaves.append(found)
        return [Stmt(f"{'const ' if const else ''}{t.name} {name} = {e.text};")]

    def vector_variable(self) -> Stmt:
        t, n = self.expressions.type(), self.rng.choice(LENGTHS)
        e = self.expressions.vector(n, t, 2)
        name = self.fresh("w")
        self.scope.leaves.append(Ex(name, t, e.lo, e.hi, n, e.uniform))
        self.forms.add("vector")
        if self.chance(0.2):
            self.scope.leaves[-1] = Ex(name, t, t.lo, t.hi, n)
            lines = [f"{t.name}{n} {name} = {e.text};"]
            for _ in range(self.rng.randrange(1, 3)):
                test = f"if ({self.expressions.scalar(1).text}) " if self.chance(0.3) else ""
                lines.append(f"{test}{name}{self.components(n, t)};")
            return Stmt("\n".join(lines))
        return Stmt(f"const {t.name}{n} {name} = {e.text};")

    def private_array(self) -> list[Stmt]:
        """Numbers in private memory, which may be read as another type; and perhaps another one stored there."""
        t, name = self.expressions.type(), self.fresh("p")
        count = self.rng.choice([2, 4, 8])
        content = [self.rng.randrange(max(t.lo, -3), 5) for _ in range(count)]
        numbers = ", ".join(str(x) for x in content)
        lines = [Stmt(f"{t.name} {name}[{count}] = {{{numbers}}};")]
        self.forms.add("private array")
        if self.chance(0.6):
            index, e = self.expressions.index(count, 1), self.expressions.small(5, 2)
            value = cast(t, e)
            lines.append(Stmt(f"{name}[{index.text}] = {value.text};"))
            lo, hi = min(*content, value.lo), max(*content, value.hi)
            at = self.expressions.index(count, 1)
            self.scope.leaves.append(Ex(f"{name}[{at.text}]", t, lo, hi))
            return lines
        self.scope.tables.append(Table(name, t, content, "private", t.nbytes))
        return lines

    def union(self) -> list[Stmt]:
        wide, narrow = self.rng.choice([(UINT, UCHAR), (INT, CHAR), (ULONG, UINT), (LONG, INT)])
        name, each = self.fresh("u"), wide.nbytes // narrow.nbytes
        e, at = cast(wide, self.expressions.scalar(2)), self.expressions.index(each, 1)
        self.scope.leaves.append(Ex(f"{name}.b[{at.text}]", narrow, narrow.lo, narrow.hi))
        self.forms.add("union")
        lines = [Stmt(f"union {{ {wide.name} a; {narrow.name} b[{each}]; }} {name};\n{name}.a = {e.text};")]
        if self.chance(0.5):
            lines.append(
                Stmt(
                    f"{name}.b[{self.expressions.index(each, 1).text}] = {cast(narrow, self.expressions.scalar(1)).text};"
                )
            )
            self.scope.leaves.append(Ex(f"{name}.a", wide, wide.lo, wide.hi))
        return lines

    def assignment(self) -> list[Stmt]:
        v = self.rng.choice(self.mutables)
        e = self.expressions.within(v, 2)
        if self.chance(0.3):
            return [Stmt(f"if ({self.expressions.scalar(2).text}) {v.text} = {e.text};")]
        return [Stmt(f"{v.text} = {e.text};")]
