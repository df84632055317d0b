"""A random kernel's arguments: what each is for, which expressions read it and which statements write it.

Decides which kinds of arguments a program has, so that no launch has a race: a work-item writes blocks of its own, or the
value that all write, or by atomics that commute; what it reads elsewhere nobody writes in that launch.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from .expressions import Expressions
from .host import Role, Shape
from .newer import atomic_store, atomic_update
from .prelude import Prelude
from .program import Arg, Stmt
from .scope import Memory
from .statements import Statements
from .stores import Own
from .values import (
    INT,
    INTS,
    LONG,
    UCHAR,
    UINT,
    ULONG,
    USHORT,
    Ex,
    IntType,
    cast,
    constant,
    vector_name,
)

#: by how many elements what a launch writes and reads may be moved on
FIRST = 64


@dataclass(frozen=True)
class Features:
    """What the devices of a run have."""

    partial_groups: bool = True  #: work-groups that do not divide the index space
    longs: bool = True  #: 64-bit atomics
    plain: bool = False  #: only what C99 and OpenCL C 1.2 have, for older compilers
    skip: frozenset[str] = frozenset()  #: forms that are left out, by which known defects would hide others


@dataclass
class Arguments:
    """A program on its way. `roles`: by argument, what the host part has to know."""

    rng: random.Random
    name: str
    features: Features
    rare: bool = False
    alternatives: bool = False
    light: bool = False  #: structures and little else, for a compiler that optimises
    odd: bool = False  #: braces that are digraphs, ranges of labels without an end, parameters that are written as arrays
    images: bool = False  #: most programs have some
    args: list[Arg] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)
    body: list[Stmt] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng
        skip = self.features.skip
        self.sweep = not self.light and rng.random() < 0.1
        self.first = "first" if self.sweep else ""
        self.shapes = random_shapes(rng, self.features, self.sweep)
        self.prelude = Prelude(
            rng,
            self.name,
            rare=self.rare,
            alternatives=self.alternatives,
            plain=self.features.plain,
            skip=skip,
        )
        self.prelude.write()
        self.scope = self.prelude.scope
        self.expressions = Expressions(rng, self.scope)
        self.statements = Statements(rng, self.prelude, self.scope, self.expressions, skip=skip)
        self.statements.endless_ranges = self.odd
        self.expressions.newer = not self.features.plain
        self.expressions.bool_vectors = "bool to vector" not in skip
        self.expressions.narrow_bounds = "narrow bounds" not in skip
        self.expressions.long_mad_sat = "mad_sat of longs" not in skip

    # arguments --------------------------------------------------------------------------------------

    def add(self, arg: Arg, role: Role) -> None:
        if (
            self.odd and arg.kind == "buffer" and (len(self.args) % 2 or role.kind == "row")
        ):  # a pointer all the same (C99 6.7.5.3p7)
            space, name = arg.text.rsplit("*", 1)
            alone = role.kind in ("row", "acc", "scatter")  # in a buffer of its own
            arg = replace(arg, text=f"{space}{name}[{'restrict 4' if alone else '4'}]")
        self.args.append(arg)
        self.roles.append(role)

    def scalars(self) -> None:
        """Values by argument, each between bounds of its own in all launches."""
        rng = self.rng
        if self.sweep:
            self.add(
                Arg("value", "int first"), Role("walk", lo=0, hi=FIRST, nbytes=rng.choice([1, 2, 5, 8, 16]))
            )
            self.scope.leaves.append(Ex("first", INT, 0, FIRST, uniform=True))
            self.prelude.forms.add("sweep")
        for number in range(rng.randrange(0, 4)):
            t, name = rng.choice(INTS), f"x{number}"
            lo, hi = rng.choice([(0, 1), (0, 3), (-2, 2), (1, 8), (-100, 100), (0, 255), (t.lo, t.hi)])
            lo, hi = max(lo, t.lo), min(hi, t.hi)
            n = rng.choice([1, 1, 1, 1, 2, 3, 4])
            self.scope.leaves.append(Ex(name, t, lo, hi, n, uniform=True))
            self.add(
                Arg("value", f"{rng.choice(['', 'const '])}{vector_name(t, n)} {name}"),
                Role("value", t=t, n=n, lo=lo, hi=hi),
            )

    def work_item_functions(self) -> None:
        dims = len(self.shapes[0].size)
        rng = self.rng
        for d in range(dims):
            most = {
                "get_global_id": max(s.size[d] + s.offset[d] for s in self.shapes) - 1,
                "get_local_id": max(s.local[d] for s in self.shapes) - 1,
                "get_group_id": max(s.groups[d] for s in self.shapes) - 1,
            }
            sizes = {
                "get_global_size": [s.size[d] for s in self.shapes],
                "get_local_size": [1, *(s.local[d] for s in self.shapes)],
                "get_num_groups": [s.groups[d] for s in self.shapes],
                "get_global_offset": [s.offset[d] for s in self.shapes],
            }
            for name, hi in most.items():
                if rng.random() < 0.5:
                    t = rng.choice([t for t in (INT, UINT, LONG, ULONG, USHORT, UCHAR) if t.hi >= hi])
                    self.scope.leaves.append(Ex(f"(({t.name}){name}({d}))", t, 0, hi))
            for name, found in sizes.items():
                if rng.random() < 0.3:
                    uniform = name != "get_local_size"  # of a partial work-group it is what there is
                    self.scope.leaves.append(
                        Ex(f"((int){name}({d}))", INT, min(found), max(found), uniform=uniform)
                    )
        if rng.random() < 0.2:
            self.scope.leaves.append(Ex("((int)get_work_dim())", INT, dims, dims, uniform=True))
            self.scope.leaves.append(Ex(f"((int)get_global_size({dims}))", INT, 1, 1, uniform=True))

    def inputs(self) -> None:
        """Pointers that may be read anywhere in launches that do not write there."""
        rng = self.rng
        for number in range(1 if self.sweep else rng.choice([1, 1, 2, 2, 3])):
            t, n = rng.choice(INTS), rng.choice([1, 1, 1, 1, 2, 3, 4])
            name, space = f"in{number}", "constant" if rng.random() < 0.15 else "global"
            count = self.capacity // (t.nbytes * (4 if n == 3 else n))
            upper = rng.random() < 0.35
            first, room = (count // 2, count // 2) if upper else (0, count)
            room = rng.choice([room, room, min(room, 16)])
            self.scope.memories.append(Memory(name, t, room, n, first, space=space))
            const = "const " if space == "global" and rng.random() < 0.8 else ""
            self.add(
                Arg("buffer", f"{space} {const}{vector_name(t, n)} *{name}"), Role("upper" if upper else "in")
            )

    def outputs(self) -> None:
        rng = self.rng
        rows = 0 if self.light else rng.choice([0, 1])
        for number in range(rows):
            self.row(f"row{number}", Role("row"))
        if rows and rng.random() < 0.5:
            self.row("rowin", Role("in"))
        for number in range(1 if rows else rng.choice([1, 1, 1, 2])):
            t, n = rng.choice(INTS), rng.choice([1, 1, 1, 1, 1, 2, 4])
            most = 64 // (t.nbytes * n)
            count = rng.choice([c for c in (1, 2, 2, 3, 4, 5, 8, 8, 16) if c <= most] or [1])
            name = f"out{number}"
            own = Own(name, t, count, n, self.first)
            self.statements.owns.append(own)
            self.scope.memories.append(Memory(name, t, count, n, base=own.base("me")))
            self.add(
                Arg("buffer", f"global {vector_name(t, n)} *{name}"),
                Role("out", lo=int(number == 0), nbytes=self.items * count * t.nbytes * n),
            )

    def row(self, name: str, role: Role) -> None:
        """Elements of each work-item of which one alone is written, or read: what is one off shows."""
        t = self.rng.choice(INTS)
        own = Own(
            name, t, 128 // t.nbytes if t.nbytes > 4 else self.rng.choice([16, 20, 24, 32]), 1, self.first
        )
        written = role.kind == "row"
        (self.statements.rows if written else self.statements.row_inputs).append(own)
        role = replace(role, nbytes=self.items * own.count * t.nbytes)
        self.add(Arg("buffer", f"global {'' if written else 'const '}{t.name} *{name}"), role)

    def alias(self) -> None:
        """The first output once more: as itself or as bytes, from a lower or the same offset of the same buffer.

        OpenCL leaves open what comes of writing a buffer and a sub-buffer of it in one launch (clCreateSubBuffer): CPU
        engines do as they are told, NVIDIA's does not always.
        """
        own = self.statements.owns[0]
        if self.features.plain:
            return
        t, scale = self.rng.choice([(own.t, 1), (UCHAR, own.t.nbytes)])
        if own.n > 1:
            return
        name = "alias0"
        self.add(Arg("buffer", f"global {t.name} *{name}"), Role("alias"))
        shift = f"shift0 / {t.nbytes}"
        self.add(Arg("value", "int shift0"), Role("shift", t=INT, lo=0, hi=1 << 20))
        self.aliases = [f"{name} + {shift}"]
        own_alias = Own(f"({name} + {shift})", t, own.count * scale)
        self.statements.owns.append(own_alias)
        self.scope.memories.append(Memory(own_alias.name, t, own_alias.count, base=f"me * {own_alias.count}"))
        self.prelude.forms.add("overlapping arguments")

    def accumulators(self) -> None:
        """Cells for atomics: each four of one operation. Behind them, what all write alike."""
        rng = self.rng
        t = rng.choice([INT, UINT] + ([LONG, ULONG] if self.features.longs else []))
        ops = [
            rng.choice(["add", "sub", "inc", "dec", "min", "max", "and", "or", "xor"])
            for _ in range(rng.randrange(1, 4))
        ]
        self.add(Arg("buffer", f"global {t.name} *acc"), Role("acc", t=t))
        newer = not self.features.plain and "C11 atomics" not in self.features.skip and rng.random() < 0.4
        if newer:
            self.prelude.forms.add("C11 atomics")

        def update() -> list[Stmt]:
            segment = rng.randrange(len(ops))
            op, e = ops[segment], self.expressions
            slot = e.index(4, 2).text
            of, pointer = t, "acc"
            if rng.random() < 0.3:
                of = t.partner(rng.random() < 0.5) if op not in ("min", "max") else t
                pointer = (
                    f"((volatile global {of.name} *)acc)"
                    if rng.random() < 0.5
                    else f"((global {of.name} *)acc)"
                )
            place = rng.choice([f"&{pointer}[{4 * segment} + {slot}]", f"{pointer} + {4 * segment} + {slot}"])
            prefix = "atomic" if t.bits == 32 else "atom"
            if newer and rng.random() < 0.4:
                call = atomic_update(rng, op, of, place, cast(of, e.scalar(2)).text)
            elif op in ("inc", "dec") or (op in ("add", "sub") and rng.random() < 0.1):
                call = f"{prefix}_{'inc' if op in ('inc', 'add') else 'dec'}({place});"
            else:
                name = rng.choice(["add", "sub"]) if op in ("add", "sub") else op
                call = f"{prefix}_{name}({place}, {cast(of, e.scalar(2)).text});"
            self.prelude.forms.add("atomics")
            return [Stmt(call if rng.random() < 0.6 else f"if ({e.scalar(2).text}) {call}")]

        def alike() -> list[Stmt]:
            number = rng.choice(self.alike_values)
            slot = self.expressions.index(4, 2).text
            self.prelude.forms.add("the same from all")
            place = f"acc[{16 + 4 * (number % 3)} + {slot}]"
            if newer and rng.random() < 0.2:
                store = atomic_store(rng, t, f"&{place}", constant(number).text)
                return [Stmt(f"if ({self.expressions.scalar(2).text}) {store}")]
            return [Stmt(f"if ({self.expressions.scalar(2).text}) {place} = {constant(number).text};")]

        def own_cell() -> list[Stmt]:
            cell = f"acc[32 + {self.statements.me}]"
            value = cast(t, self.expressions.scalar(1)).text
            if newer and rng.random() < 0.2:
                return [Stmt(atomic_store(rng, t, f"&{cell}", value))]
            if rng.random() < 0.5:
                return [Stmt(f"{cell} = {value};")]
            prefix = "atomic" if t.bits == 32 else "atom"
            if rng.random() < 0.2:
                old = self.statements.fresh("o")
                self.scope.leaves.append(Ex(old, t, t.lo, t.hi))
                return [Stmt(f"const {t.name} {old} = {prefix}_xchg(&{cell}, {value});")]
            return [Stmt(f"{prefix}_{rng.choice(['or', 'xor', 'add'])}(&{cell}, {value});")]

        self.alike_values = [3 * rng.randrange(1, 30) + part for part in range(3)]
        self.statements.extra += [update, update, update, alike, own_cell]

    def scatter(self) -> None:
        """Places that data decides, each a work-item's own: a part for every width of a store."""
        rng = self.rng
        t = rng.choice(INTS)
        self.add(Arg("buffer", f"global {t.name} *scat"), Role("scatter"))
        p = rng.choice([INT, UINT, USHORT])
        const = rng.choice(["const ", ""])
        self.add(Arg("buffer", f"global {const}{p.name} *perm"), Role("perm", t=p))
        widths = rng.sample(list(INTS), rng.choice([1, 2, 2, 3]))
        widths = [x for i, x in enumerate(widths) if x.nbytes not in {y.nbytes for y in widths[:i]}]

        def store() -> list[Stmt]:
            w = rng.choice(widths)
            first = {1: 0, 2: 1, 4: 1, 8: 1}[w.nbytes] * self.power
            pointer = "scat" if w is t else f"((global {w.name} *)scat)"
            me = self.statements.me
            self.prelude.forms.add("place from data")
            place = rng.choice([f"{first} + perm[{me}]", f"{first} + (perm[{me}] & {self.power - 1})"])
            if first == 0:
                place = place.removeprefix("0 + ")
            text = f"{pointer}[{place}] = {cast(w, self.expressions.scalar(1)).text};"
            return [Stmt(text if rng.random() < 0.4 else f"if ({self.expressions.scalar(2).text}) {text}")]

        self.statements.extra += [store, store]
        self.scatter_stores = store

    def structures(self) -> None:
        rng = self.rng
        struct = self.prelude.struct()
        self.add(Arg("buffer", f"global {struct.name} *so"), Role("struct out", struct=struct))
        self.add(Arg("buffer", f"global const {struct.name} *si"), Role("struct in", struct=struct))
        self.struct = struct
        e, me = self.expressions, self.statements

        def lvalue(base: str, arrow: str) -> tuple[str, IntType]:
            f = rng.choice(struct.fields)
            at = f"[{e.index(f.count, 1).text}]" if f.count > 1 else ""
            return f"{base}{arrow}{f.name}{at}", f.t

        def member() -> list[Stmt]:
            base, arrow = rng.choice(
                [(f"so[{me.me}]", "."), (f"(so + {me.me})", "->"), (f"(&so[{me.me}])", "->")]
            )
            left, t = lvalue(base, arrow)
            return [Stmt(f"{left} = {cast(t, e.scalar(2)).text};")]

        def fresh(p: str) -> list[Stmt]:
            """All members are given values and no byte of the padding: optimised code leaves that as it is in memory."""
            lines = [f"{struct.name} {p};"]
            for f in struct.fields:
                for at in range(f.count):
                    member = f"{p}.{f.name}" + (f"[{at}]" if f.count > 1 else "")
                    lines.append(f"{member} = {cast(f.t, e.scalar(1)).text};")
            return [Stmt("\n".join(lines)), Stmt(f"so[{me.me}] = {p};")]

        def whole() -> list[Stmt]:
            source = e.index(self.items, 2).text
            if rng.random() < 0.5:
                return [Stmt(f"so[{me.me}] = si[{source}];")]
            p = me.fresh("st")
            if self.light and rng.random() < 0.7:
                return fresh(p)
            left, t = lvalue(p, ".")
            lines = [
                Stmt(f"{struct.name} {p} = si[{source}];"),
                Stmt(f"{left} = {cast(t, e.scalar(2)).text};"),
            ]
            return [*lines, Stmt(f"so[{me.me}] = {p};")]

        if rng.random() < 0.5:
            self.add(
                Arg("value", f"{rng.choice(['', 'const '])}{struct.name} sv"), Role("value", by_value=struct)
            )
            self.prelude.forms.add("structure by value")
            for _ in range(rng.randrange(1, 4)):
                with e.only_uniform():
                    left, t = lvalue("sv", ".")
                self.scope.leaves.append(Ex(left, t, t.lo, t.hi, uniform=True))
        for _ in range(rng.randrange(1, 4)):
            left, t = lvalue(f"si[{e.index(self.items, 1).text}]", ".")
            self.scope.leaves.append(Ex(left, t, t.lo, t.hi))
        if rng.random() < 0.3:
            left, t = lvalue("q", "->")
            helper = self.prelude.fresh("set")
            if "[" not in left:
                self.prelude.declare(f"void {helper}(global {struct.name} *q, {t.name} v) {{ {left} = v; }}")
                me.extra.append(lambda: [Stmt(f"{helper}(&so[{me.me}], {cast(t, e.scalar(1)).text});")])
        me.extra += [member, member, whole]

    def helper_store(self) -> None:
        """A helper that stores through a pointer to global memory."""
        rng = self.rng
        own = rng.choice(self.statements.owns)
        if own.n != 1:
            return
        name, e, me = self.prelude.fresh("put"), self.expressions, self.statements
        kind = rng.randrange(3)
        t = own.t
        if not self.features.plain and "generic pointer" not in self.features.skip and rng.random() < 0.3:
            self.prelude.forms.add("generic pointer")
            self.prelude.declare(
                f"void {name}({t.name} *p, int k, {t.name} v) {{ {rng.choice(['p[k]', '*(p + k)'])} = v; }}"
            )
        elif kind == 0:
            self.prelude.declare(f"void {name}(global {t.name} *p, int k, {t.name} v) {{ p[k] = v; }}")
        elif kind == 1:
            self.prelude.declare(
                f"static void {name}(global {t.name} *p, int k, {t.name} v) {{\n    if (k < 0) return;\n    *(p + k) = v;\n}}"
            )
        else:
            self.prelude.declare(
                f"{t.name} {name}(global {t.name} *p, int k, {t.name} v) {{ {t.name} o = p[k]; p[k] = v ^ o; return o; }}"
            )

        def call() -> list[Stmt]:
            slot, value = e.index(own.count, 2), cast(t, e.scalar(1)).text
            if rng.random() < 0.5:
                return [Stmt(f"{name}({own.name} + {own.base(me.me)}, {slot.text}, {value});")]
            return [Stmt(f"{name}(&{own.name}[{own.base(me.me)} + {slot.text}], 0, {value});")]

        me.extra.append(call)
        self.prelude.forms.add("helper that stores")


def random_shapes(rng: random.Random, features: Features, sweep: bool = False) -> list[Shape]:
    """Index spaces of one number of dimensions; odd local sizes, offsets, partial work-groups. `sweep`: of one local size."""
    dims = rng.choice([1, 1, 1, 1, 2, 2, 3])
    shapes: list[Shape] = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        local = (
            shapes[0].local
            if sweep and shapes
            else tuple(
                rng.choice({1: [1, 2, 3, 4, 5, 7, 8, 16, 32], 2: [1, 2, 3, 4, 5, 8], 3: [1, 2, 3]}[dims])
                for _ in range(dims)
            )
        )
        groups = tuple(
            rng.choice({1: [1, 2, 3, 4, 5, 6, 7, 8, 11], 2: [1, 2, 3, 4, 5], 3: [1, 2, 3]}[dims])
            for _ in range(dims)
        )
        partial = features.partial_groups and rng.random() < 0.15
        size = tuple(n * g - (rng.randrange(n) if partial else 0) for n, g in zip(local, groups, strict=True))
        offset = tuple(rng.randrange(1, 9) if rng.random() < 0.15 else 0 for _ in range(dims))
        shapes.append(Shape(size, local, offset))
    return shapes
