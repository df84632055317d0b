"""Random kernels of the forms that access analysis must see, as OpenCL C and as Python that runs one item.

The generator is the definition of what a kernel does: it writes both texts from one choice, with C's
conversions spelled out in the Python one, so that no parser and no interpreter of C stands between a kernel
and the bytes it touches.

Memory has no contents that matter: a load returns a number that depends on place and kernel only, so that
every run of a work-item is one of those the analysis must allow for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: C name -> (bits, signed)
TYPES = {
    "uchar": (8, False), "short": (16, True), "ushort": (16, False), "int": (32, True), "uint": (32, False),
    "long": (64, True), "ulong": (64, False),
}  # fmt: skip
NAMES = {kind: name for name, kind in TYPES.items()}


class E(NamedTuple):
    """An integer expression: C text, Python text, C type."""

    c: str
    py: str
    type: str


def promote(name: str) -> str:
    return "int" if TYPES[name][0] < 32 else name


def usual(a: str, b: str) -> str:
    """C's usual arithmetic conversions."""
    (bits_a, signed_a), (bits_b, signed_b) = TYPES[promote(a)], TYPES[promote(b)]
    if bits_a != bits_b:
        return promote(a) if bits_a > bits_b else promote(b)
    return NAMES[bits_a, signed_a and signed_b]


def to(e: E, name: str) -> E:
    """An implicit conversion: nothing in C."""
    if e.type == name:
        return e
    return E(e.c, f"w_{name}({e.py})", name)


def cast(e: E, name: str) -> E:
    return E(f"(({name}){e.c})", f"w_{name}({e.py})", name)


def const(number: int) -> E:
    return E(str(number), str(number), "int") if number >= 0 else E(f"({number})", f"({number})", "int")


def binary(operator: str, a: E, b: E) -> E:
    name = usual(a.type, b.type)
    x, y = to(a, name), to(b, name)
    c = f"({a.c} {operator} {b.c})"
    if operator == "/":
        return E(c, f"w_{name}(c_div({x.py}, {y.py}))", name)
    if operator == "%":
        return E(c, f"w_{name}(c_mod({x.py}, {y.py}))", name)
    return E(c, f"w_{name}({x.py} {operator} {y.py})", name)


def shift(operator: str, a: E, amount: int) -> E:
    name = promote(a.type)
    return E(f"({a.c} {operator} {amount})", f"w_{name}({a.py} {operator} {amount})", name)


def compare(operator: str, a: E, b: E) -> E:
    name = usual(a.type, b.type)
    return E(f"({a.c} {operator} {b.c})", f"int({to(a, name).py} {operator} {to(b, name).py})", "int")


def conditional(test: E, a: E, b: E) -> E:
    name = usual(a.type, b.type)
    return E(f"({test.c} ? {a.c} : {b.c})", f"({to(a, name).py} if {test.py} else {to(b, name).py})", name)


def call(function: str, name: str, *args: E) -> E:
    """A built-in function on arguments of one type."""
    cs = ", ".join(f"({name}){a.c}" for a in args)
    return E(f"{function}({cs})", f"w_{name}(c_{function}({', '.join(to(a, name).py for a in args)}))", name)


@dataclass(frozen=True)
class Buffer:
    """A pointer argument; `integer`: the type of its elements where they are integers."""

    index: int
    name: str
    type: str
    nbytes: int
    integer: str | None
    scalar_nbytes: int


_ELEMENTS = [
    ("int", 4, "int", 4), ("int", 4, "int", 4), ("uint", 4, "uint", 4), ("float", 4, None, 4),
    ("uchar", 1, "uchar", 1),
    ("short", 2, "short", 2), ("float4", 16, None, 4), ("struct item", 24, None, 4), ("long", 8, "long", 8),
]  # fmt: skip

STRUCT = """struct item { int a; float b[3]; short c; int d; };
__constant int table[4] = {2, -1, 3, 0};
"""
_FIELDS = [(".a", 0, 4), (".b[0]", 4, 4), (".b[2]", 12, 4), (".c", 16, 2), (".d", 20, 4)]


@dataclass
class GeneratedKernel:
    """`c`: the program; `run(item)` runs one work-item; `scalars`: scalar arguments by index."""

    c: str
    py: str
    buffers: list[Buffer]
    scalars: dict[int, int]
    run: Any
    forms: set[str] = field(default_factory=set)


class Generator:
    """Writes one kernel. `rng` has the methods of `random.Random`."""

    def __init__(self, rng: Any, dims: int) -> None:
        self.rng = rng
        self.dims = dims
        self.c: list[str] = []
        self.py: list[str] = []
        self.depth = 1
        self.names = 0
        self.budget = rng.randrange(3, 20)
        self.loops = 0
        self.ints: list[tuple[str, str]] = []  #: (variable, C type) that may be read
        self.assignable: list[tuple[str, str]] = []
        self.pointers: list[tuple[str, Buffer]] = []
        self.helpers: list[tuple[str, str]] = []
        self.forms: set[str] = set()
        self.loop_kinds: list[str] = []
        self.in_expression = False  #: which nothing may jump out of
        nbuffers = rng.randrange(1, 4)
        self.buffers = [Buffer(i, "abc"[i], *rng.choice(_ELEMENTS)) for i in range(nbuffers)]
        self.scalar_types: dict[str, str] = {}
        self.scalars: dict[str, int] = {}
        for name in ("n", "w")[: rng.randrange(3)]:
            self.scalar_types[name] = rng.choice(["int", "int", "uint", "long"])
            self.scalars[name] = (
                rng.choice([1, 2, 3, 5, 7, 8, 13, 16, 20, 33]) if rng.random() < 0.9 else rng.randrange(-3, 1)
            )
            if self.scalar_types[name] == "uint":
                self.scalars[name] = abs(self.scalars[name])
            self.ints.append((name, self.scalar_types[name]))

    # text -------------------------------------------------------------------------------------------

    def line(self, c: str | None, py: str | None) -> None:
        if c is not None:
            self.c.append("  " * self.depth + c)
        if py is not None:
            self.py.append("    " * self.depth + py)

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    # expressions ------------------------------------------------------------------------------------

    def leaf(self) -> E:
        kind = self.rng.randrange(10)
        d = self.rng.randrange(self.dims) if self.chance(0.9) else 0
        if kind < 4 and self.ints:
            name, ctype = self.rng.choice(self.ints)
            return E(name, name, ctype)
        if kind < 6:
            return const(self.rng.choice([0, 1, 1, 2, 3, 4, 5, 8, -1]))
        if kind < 8:
            return E(f"get_global_id({d})", f"item.gid[{d}]", "ulong")
        function, field_name = self.rng.choice(
            [
                ("get_local_id", "lid"), ("get_group_id", "group"), ("get_local_size", "lsize"),
                ("get_global_size", "gsize"),
                ("get_num_groups", "ngroups"), ("get_global_offset", "offset"),
            ]
        )  # fmt: skip
        return E(f"{function}({d})", f"item.{field_name}[{d}]", "ulong")

    def expr(self, depth: int) -> E:
        if depth <= 0 or self.chance(0.25):
            return self.leaf()
        choice = self.rng.randrange(24)
        if choice < 10:
            return binary(self.rng.choice("++++-"), self.expr(depth - 1), self.expr(depth - 1))
        if choice < 14:
            return binary(
                "*", self.expr(depth - 1), self.rng.choice([const(2), const(3), const(4), self.leaf()])
            )
        if choice < 15:
            self.forms.add("quotient")
            return binary(
                self.rng.choice("/%"), self.expr(depth - 1), const(self.rng.choice([2, 3, 4, 5, 8, 16]))
            )
        if choice < 16 and self.scalars:
            self.forms.add("quotient")
            name = self.rng.choice(list(self.scalars))
            return binary(self.rng.choice("/%"), self.expr(depth - 1), E(name, name, self.scalar_types[name]))
        if choice < 18:
            self.forms.add("bits")
            operator = self.rng.choice(["<<", ">>", "&", "&", "|", "^"])
            if operator in ("<<", ">>"):
                return shift(operator, self.expr(depth - 1), self.rng.randrange(4))
            return binary(
                operator, self.expr(depth - 1), const(self.rng.choice([1, 2, 3, 4, 7, 8, 12, 15, -4, -8]))
            )
        if choice < 20:
            self.forms.add("min/max")
            return self._function(depth)
        if choice < 21:
            self.forms.add("?:")
            return conditional(self.condition(depth - 1), self.expr(depth - 1), self.expr(depth - 1))
        if choice < 23:
            return cast(
                self.expr(depth - 1),
                self.rng.choice(["int", "int", "uint", "long", "ulong", "uchar", "short"]),
            )
        return self.data()

    def _function(self, depth: int) -> E:
        name = self.rng.choice(["int", "int", "long", "uint"])
        function = self.rng.choice(["min", "max", "min", "max", "clamp", "mad24", "mul24", "select"])
        if function == "clamp":
            low = self.rng.randrange(0, 4)
            return call(
                "clamp", name, self.expr(depth - 1), const(low), const(low + self.rng.randrange(1, 12))
            )
        if function in ("mad24", "mul24"):
            operands = [self.expr(depth - 1), const(self.rng.randrange(1, 5)), self.leaf()]
            return call(function, "int", *operands[: 3 if function == "mad24" else 2])
        if function == "select":
            return call("select", "int", self.expr(depth - 1), self.expr(depth - 1), self.condition(0))
        return call(function, name, self.expr(depth - 1), self.expr(depth - 1))

    def data(self) -> E:
        """A number loaded from memory."""
        found = [b for b in self.buffers if b.integer is not None]
        if not found:
            return self.leaf()
        self.forms.add("indirect")
        buffer = self.rng.choice(found)
        assert buffer.integer is not None
        index = self.expr(1)
        value = E(
            f"{buffer.name}[{index.c}]",
            f"item.load({buffer.index}, {index.py} * {buffer.nbytes}, {buffer.nbytes}, {buffer.integer!r})",
            buffer.integer,
        )
        if self.chance(0.5):
            return binary("&", value, const(self.rng.choice([1, 3, 7, 15])))
        return value

    def condition(self, depth: int) -> E:
        choice = self.rng.randrange(12)
        if depth > 0 and choice < 2:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            if choice == 0:
                return E(f"({a.c} && {b.c})", f"int(bool({a.py} and {b.py}))", "int")
            return E(f"({a.c} || {b.c})", f"int(bool({a.py} or {b.py}))", "int")
        if depth > 0 and choice == 2:
            inner = self.condition(depth - 1)
            return E(f"(!{inner.c})", f"int(not {inner.py})", "int")
        if choice == 3:
            return compare("==", E("get_local_id(0)", "item.lid[0]", "ulong"), const(0))
        if choice == 4:
            return compare(self.rng.choice(["<", "=="]), self.data(), const(self.rng.randrange(8)))
        operator = self.rng.choice(["<", "<", "<=", ">", ">=", "==", "!="])
        return compare(operator, self.expr(depth), self.expr(max(depth - 1, 0)))

    # accesses ---------------------------------------------------------------------------------------

    def access(self) -> None:
        """One statement that touches memory."""
        if self.pointers and self.chance(0.3):
            self._through_pointer()
            return
        buffer = self.rng.choice(self.buffers)
        index = self.expr(2)
        form = self.rng.randrange(12)
        place = (f"{buffer.name}[{index.c}]", f"{index.py} * {buffer.nbytes}", buffer.nbytes)
        if buffer.type == "struct item" and form < 9:
            self.forms.add("struct")
            name, byte, nbytes = self.rng.choice(_FIELDS)
            place = (f"{buffer.name}[{index.c}]{name}", f"{index.py} * 24 + {byte}", nbytes)
            self._touch(buffer, *place)
        elif buffer.type == "struct item":
            self.line(
                f"struct item {(v := self.fresh('s'))} = {place[0]}; (void){v};",
                f"item.read({buffer.index}, {place[1]}, 24)",
            )
            if self.chance(0.5):
                self.line(f"{buffer.name}[{index.c}] = {v};", f"item.write({buffer.index}, {place[1]}, 24)")
        elif form == 0:
            self._vector(buffer, index)
        elif form == 1 and buffer.type in ("int", "uint"):
            self._atomic(buffer, index)
        elif form == 2 and buffer.type == "float4":
            self.forms.add("swizzle")
            name, byte = self.rng.choice([(".x", 0), (".w", 12), (".y", 4)])
            self._touch(buffer, place[0] + name, f"{place[1]} + {byte}", 4)
        elif form == 3:
            self._reinterpreted(buffer, index)
        else:
            self._touch(buffer, *place)

    def _touch(self, buffer: Buffer, c: str, offset: str, nbytes: int) -> None:
        form = self.rng.randrange(8)
        if form < 4:
            value = "1" if nbytes < 16 else "(float4)(1.0f)"
            self.line(f"{c} = {value};", f"item.write({buffer.index}, {offset}, {nbytes})")
        elif form < 6:
            ctype = "float4" if nbytes == 16 else "float"
            self.line(f"{ctype} {self.fresh('r')} = {c};", f"item.read({buffer.index}, {offset}, {nbytes})")
        else:
            text = f"{c} += 1;" if form == 6 or nbytes == 16 else f"{c}++;"
            self.line(text, f"item.update({buffer.index}, {offset}, {nbytes})")

    def _vector(self, buffer: Buffer, index: E) -> None:
        self.forms.add("vload")
        count = self.rng.choice([2, 3, 4, 8])
        element = {"float4": "float"}.get(buffer.type, buffer.type)
        nbytes = buffer.scalar_nbytes
        pointer = buffer.name if buffer.type != "float4" else f"((__global float*){buffer.name})"
        offset = f"({index.py}) * {count * nbytes}"
        if self.chance(0.5):
            self.line(
                f"vstore{count}(({element}{count})(1), {index.c}, {pointer});",
                f"item.write({buffer.index}, {offset}, {count * nbytes})",
            )
        else:
            self.line(
                f"{element}{count} {self.fresh('v')} = vload{count}({index.c}, {pointer});",
                f"item.read({buffer.index}, {offset}, {count * nbytes})",
            )

    def _atomic(self, buffer: Buffer, index: E) -> None:
        self.forms.add("atomic")
        function, op = self.rng.choice(
            [
                ("atomic_add(%s, 1)", "add"), ("atomic_inc(%s)", "add"), ("atomic_sub(%s, 2)", "add"),
                ("atomic_min(%s, 3)", "min"),
                ("atomic_or(%s, 1)", "or"), ("atomic_xchg(%s, 1)", None),
            ]
        )  # fmt: skip
        text = function % f"&{buffer.name}[{index.c}]"
        if self.chance(0.2):
            op, text = None, f"int {self.fresh('old')} = {text}"
        self.line(
            f"{text};",
            f"item.atomic({buffer.index}, ({index.py}) * {buffer.nbytes}, {buffer.nbytes}, {op!r})",
        )

    def _reinterpreted(self, buffer: Buffer, index: E) -> None:
        self.forms.add("pointer cast")
        ctype, nbytes = self.rng.choice([("uchar", 1), ("short", 2), ("int", 4), ("long", 8), ("int2", 8)])
        self._touch_plain(
            buffer,
            f"((__global {ctype}*){buffer.name})[{index.c}]",
            f"({index.py}) * {nbytes}",
            nbytes,
            ctype,
        )

    def _touch_plain(self, buffer: Buffer, c: str, offset: str, nbytes: int, ctype: str) -> None:
        if self.chance(0.6):
            self.line(f"{c} = ({ctype})(1);", f"item.write({buffer.index}, {offset}, {nbytes})")
        else:
            self.line(f"{ctype} {self.fresh('r')} = {c};", f"item.read({buffer.index}, {offset}, {nbytes})")

    # pointers ---------------------------------------------------------------------------------------

    def declare_pointer(self) -> None:
        self.forms.add("pointer")
        simple = [b for b in self.buffers if b.type != "struct item"]
        if not simple:
            return
        buffer = self.rng.choice(simple)
        name = self.fresh("p")
        index = self.expr(1)
        if self.chance(0.3):
            other = self.rng.choice([b for b in simple if b.type == buffer.type])
            test = self.condition(1)
            self.line(
                f"__global {buffer.type} *{name} = {test.c} ? {buffer.name} + {index.c} : {other.name};",
                f"{name} = [{buffer.index}, ({index.py}) * {buffer.nbytes}] "
                f"if {test.py} else [{other.index}, 0]",
            )
        else:
            self.line(
                f"__global {buffer.type} *{name} = {buffer.name} + {index.c};",
                f"{name} = [{buffer.index}, ({index.py}) * {buffer.nbytes}]",
            )
        self.pointers.append((name, buffer))

    def _through_pointer(self) -> None:
        name, buffer = self.rng.choice(self.pointers)
        size = buffer.nbytes
        value = "(float4)(1.0f)" if buffer.type == "float4" else "1"
        form = self.rng.randrange(6)
        if form == 0:
            self.line(
                f"*{name}++ = {value};", f"item.write({name}[0], {name}[1], {size}); {name}[1] += {size}"
            )
        elif form == 1:
            step = self.expr(1)
            self.line(f"{name} += {step.c};", f"{name}[1] += ({step.py}) * {size}")
        elif form == 2:
            self.line(f"*{name} += {value};", f"item.update({name}[0], {name}[1], {size})")
        elif form == 3:
            self.line(
                f"{buffer.type} {self.fresh('r')} = *{name};", f"item.read({name}[0], {name}[1], {size})"
            )
        else:
            index = self.expr(1)
            self.line(
                f"{name}[{index.c}] = {value};",
                f"item.write({name}[0], {name}[1] + ({index.py}) * {size}, {size})",
            )

    # statements -------------------------------------------------------------------------------------

    def declare(self) -> None:
        name, value = self.fresh("x"), self.expr(2)
        ctype = self.rng.choice(["int", "int", "uint", "long", "ulong", "short", value.type])
        self.line(f"{ctype} {name} = {value.c};", f"{name} = {to(value, ctype).py}")
        self.ints.append((name, ctype))
        self.assignable.append((name, ctype))

    def assign(self) -> None:
        if not self.assignable:
            self.declare()
            return
        name, ctype = self.rng.choice(self.assignable)
        value = self.expr(2)
        operator = self.rng.choice(["=", "+=", "-=", "*=", "++"])
        this = E(name, name, ctype)
        if operator == "=":
            self.line(f"{name} = {value.c};", f"{name} = {to(value, ctype).py}")
        elif operator == "++":
            self.line(f"{name}++;", f"{name} = {to(binary('+', this, const(1)), ctype).py}")
        else:
            self.line(
                f"{name} {operator} {value.c};", f"{name} = {to(binary(operator[0], this, value), ctype).py}"
            )

    def block(self, count: int) -> None:
        """A nested block: what it declares is gone behind it."""
        kept = len(self.ints), len(self.assignable), len(self.pointers)
        self.depth += 1
        self.line(None, "pass")
        for _ in range(count):
            self.statement()
        self.depth -= 1
        del self.ints[kept[0] :], self.assignable[kept[1] :], self.pointers[kept[2] :]

    def branch(self) -> None:
        test = self.condition(2)
        self.line(f"if ({test.c}) {{", f"if {test.py}:")
        self.block(self.rng.randrange(1, 3))
        if self.chance(0.4):
            self.line("} else {", "else:")
            self.block(self.rng.randrange(1, 3))
        self.line("}", None)

    def leave(self) -> None:
        """An early return, a break or a continue under a condition."""
        words = [] if self.in_expression else ["return"]
        if self.loop_kinds:
            words += ["break", "break", "break"]
            # A continue in a while loop would skip its step.
            words += ["continue"] * (2 if self.loop_kinds[-1] not in ("while", "do") else 0)
        if not words:
            self.access()
            return
        word = self.rng.choice(words)
        self.forms.add(word)
        test = self.condition(1)
        self.line(f"if ({test.c}) {word};", f"if {test.py}: {word}")

    def loop(self) -> None:
        self.loops += 1
        kind = self.rng.choice(["for", "for", "for", "grid", "grid", "down", "while", "do", "not equal"])
        self.forms.add(f"{kind} loop")
        name = self.fresh("i")
        first = self.fresh("first")
        ctype = self.rng.choice(["int", "int", "uint", "long", "ulong"])
        this = E(name, name, ctype)
        start, stop = self.expr(1), binary("+", self.expr(1), const(self.rng.randrange(5)))
        step = self.rng.choice([const(1), const(1), const(2), const(3), self.leaf()])
        if kind == "grid":
            start, step = (
                E("get_global_id(0)", "item.gid[0]", "ulong"),
                E("get_global_size(0)", "item.gsize[0]", "ulong"),
            )
        test = compare(self.rng.choice(["<", "<", "<="]), this, stop)
        advance = to(binary("+", this, step), ctype)
        if kind == "down":
            start, step = stop, const(1)
            ctype = "int"
            this = E(name, name, ctype)
            test = compare(self.rng.choice([">", ">="]), this, const(self.rng.randrange(3)))
            advance = to(binary("-", this, step), ctype)
        if kind == "not equal":
            start, step = const(self.rng.randrange(3)), const(1)
            test = compare("!=", this, stop)
            advance = to(binary("+", this, step), ctype)
        change = f"{name} {'-' if kind == 'down' else '+'}= {step.c}"
        if step.c == "1" and self.chance(0.5):
            change = f"{name}{'--' if kind == 'down' else '++'}"
        self.line(None, f"{name} = {to(start, ctype).py}; {first} = True")
        if kind in ("while", "do"):
            self.line(f"{ctype} {name} = {start.c};", None)
            self.line(f"while ({test.c}) {{" if kind == "while" else "do {", "while item.tick():")
        else:
            self.line(f"for ({ctype} {name} = {start.c}; {test.c}; {change}) {{", "while item.tick():")
        self.depth += 1
        if kind == "while":
            self.line(None, f"if not {test.py}: break")
        elif kind == "do":
            self.line(None, f"if not {first} and not {test.py}: break")
            self.line(None, f"{first} = False")
        else:
            self.line(None, f"if not {first}: {name} = {advance.py}")
            self.line(None, f"{first} = False")
            self.line(None, f"if not {test.py}: break")
        self.depth -= 1
        self.loop_kinds.append(kind)
        self.ints.append((name, ctype))
        self.depth += 1
        if kind in ("while", "do"):
            self._body_with_step(change, f"{name} = {advance.py}")
        else:
            self.depth -= 1
            self.block(self.rng.randrange(1, 4))
            self.depth += 1
        self.depth -= 1
        self.ints.remove((name, ctype))
        self.loop_kinds.pop()
        self.line(f"}} while ({test.c});" if kind == "do" else "}", None)

    def _body_with_step(self, c: str, py: str) -> None:
        """A body that changes the counter itself, before or after the rest."""
        early = self.chance(0.3)
        if early:
            self.line(f"{c};", py)
        self.depth -= 1
        self.block(self.rng.randrange(1, 3))
        self.depth += 1
        if self.chance(0.2):
            test = self.condition(1)
            self.line(f"if ({test.c}) break;", f"if {test.py}: break")
        if not early:
            self.line(f"{c};", py)

    def halving_loop(self) -> None:
        """for (s = n; s > 0; s >>= 1)"""
        self.loops += 1
        self.forms.add("halving loop")
        name, start = self.fresh("s"), self.expr(1)
        change = self.rng.choice([(">>= 1", "{0} >> 1"), ("/= 2", "c_div({0}, 2)"), (">>= 2", "{0} >> 2")])
        self.line(
            f"for (int {name} = {start.c}; {name} > 0; {name} {change[0]}) {{",
            f"{name} = {to(start, 'int').py}",
        )
        self.py.append(
            "    " * self.depth + f"{name} = {name} * 2 + 1 if {change[0] != '>>= 2'} else {name} * 4 + 1"
        )
        self.line(None, "while item.tick():")
        self.depth += 1
        self.line(None, f"{name} = {change[1].format(name)}")
        self.line(None, f"if not {name} > 0: break")
        self.depth -= 1
        self._loop_block("for", name, "int")
        self.line("}", None)

    def endless_loop(self) -> None:
        """while (1) with breaks, the counter changed before or after the access."""
        self.loops += 1
        self.forms.add("endless loop")
        name, start, stop = self.fresh("i"), self.expr(1), self.expr(1)
        self.line(f"int {name} = {start.c};", f"{name} = {to(start, 'int').py}")
        self.line("while (1) {", "while item.tick():")
        test = compare(self.rng.choice([">=", ">", "=="]), E(name, name, "int"), stop)
        self.depth += 1
        if self.chance(0.5):
            self.line(f"if ({test.c}) break;", f"if {test.py}: break")
            test = E("0", "0", "int")
        self.depth -= 1
        self._loop_block("while", name, "int")
        self.depth += 1
        step = self.rng.choice([1, 1, 2, 3])
        self.line(f"{name} += {step};", f"{name} = w_int({name} + {step})")
        if test.c != "0":
            self.line(f"if ({test.c}) break;", f"if {test.py}: break")
        self.depth -= 1
        self.line("}", None)

    def _loop_block(self, kind: str, name: str, ctype: str) -> None:
        self.loop_kinds.append(kind)
        self.ints.append((name, ctype))
        self.block(self.rng.randrange(1, 4))
        self.ints.remove((name, ctype))
        self.loop_kinds.pop()

    def pointer_loop(self) -> None:
        """A pointer that walks through rows: moved in an inner and an outer loop."""
        self.loops += 2
        self.forms.add("pointer loop")
        simple = [b for b in self.buffers if b.type not in ("struct item", "float4")]
        if not simple:
            self.access()
            return
        buffer = self.rng.choice(simple)
        name, i, j = self.fresh("p"), self.fresh("i"), self.fresh("j")
        base, rows, columns, gap = self.expr(1), self.rng.randrange(1, 4), self.expr(0), self.expr(0)
        size = buffer.nbytes
        inner = to(columns, usual("int", columns.type))
        self.line(
            f"__global {buffer.type} *{name} = {buffer.name} + {base.c};",
            f"{name} = [{buffer.index}, ({base.py}) * {size}]",
        )
        self.line(f"for (int {i} = 0; {i} < {rows}; {i}++) {{", f"for {i} in range({rows}):")
        self.depth += 1
        self.line(f"for (int {j} = 0; {j} < {columns.c}; {j}++) {{", f"{j} = -1")
        self.line(None, "while item.tick():")
        self.depth += 1
        self.line(None, f"{j} += 1")
        self.line(None, f"if not ARITH[{inner.type!r}]({j}) < {inner.py}: break")
        if self.chance(0.2):
            test = self.condition(1)
            self.line(f"if ({test.c}) break;", f"if {test.py}: break")
        self.line(f"*{name}++ = 1;", f"item.write({buffer.index}, {name}[1], {size}); {name}[1] += {size}")
        self.depth -= 1
        self.line("}", None)
        self.line(f"{name} += {gap.c};", f"{name}[1] += ({gap.py}) * {size}")
        self.depth -= 1
        self.line("}", None)

    def rows_loop(self) -> None:
        """A row of a sparse matrix: its bounds come from memory."""
        self.loops += 1
        self.forms.add("loop with loaded bounds")
        found = [b for b in self.buffers if b.integer == "int"]
        if not found:
            self.loop()
            return
        buffer = self.rng.choice(found)
        name, stop, index = self.fresh("i"), self.fresh("e"), self.expr(1)
        load = "item.load({0}, ({1}) * {2}, {2}, 'int')"
        self.line(
            f"int {name} = {buffer.name}[{index.c}], {stop} = {buffer.name}[{index.c} + 1];",
            f"{name} = {load.format(buffer.index, index.py, 4)}; "
            f"{stop} = {load.format(buffer.index, binary('+', index, const(1)).py, 4)}",
        )
        first = self.fresh("first")
        self.line(f"for (; {name} < {stop}; {name}++) {{", f"{first} = True")
        self.line(None, "while item.tick():")
        self.depth += 1
        self.line(None, f"if not {first}: {name} += 1")
        self.line(None, f"{first} = False")
        self.line(None, f"if not {name} < {stop}: break")
        self.depth -= 1
        self._loop_block("for", name, "int")
        self.line("}", None)

    def async_copy(self) -> None:
        self.forms.add("async copy")
        found = [b for b in self.buffers if b.type == "int"]
        if not found or self.loop_kinds or self.depth > 1:
            self.access()
            return
        buffer = self.rng.choice(found)
        base = binary("*", E("get_group_id(0)", "item.group[0]", "ulong"), const(self.rng.randrange(1, 6)))
        count = self.rng.randrange(1, 9)
        if self.chance(0.5):
            c, method = f"async_work_group_copy(tile, {buffer.name} + {base.c}, {count}, 0)", "read"
        else:
            c, method = f"async_work_group_copy({buffer.name} + {base.c}, tile, {count}, 0)", "write"
        self.line(
            f"event_t {self.fresh('e')} = {c};",
            f"item.{method}({buffer.index}, ({base.py}) * 4, {4 * count})",
        )

    def table(self) -> None:
        self.forms.add("constant table")
        name = self.fresh("x")
        index = binary("&", self.expr(1), const(3))
        self.line(f"int {name} = table[{index.c}];", f"{name} = (2, -1, 3, 0)[{index.py}]")
        self.ints.append((name, "int"))

    def volatile_access(self) -> None:
        self.forms.add("volatile")
        buffer = self.rng.choice(self.buffers)
        if buffer.type in ("struct item", "float4"):
            self.access()
            return
        index = self.expr(1)
        self.line(
            f"((volatile __global {buffer.type}*){buffer.name})[{index.c}] = 1;",
            f"item.atomic({buffer.index}, ({index.py}) * {buffer.nbytes}, {buffer.nbytes}, None)",
        )

    def side_effects(self) -> None:
        """Increments inside subscripts and short circuits."""
        self.forms.add("side effects")
        simple = [b for b in self.buffers if b.type not in ("struct item", "float4")]
        if not simple:
            self.access()
            return
        buffer = self.rng.choice(simple)
        name, start, test = self.fresh("x"), self.expr(1), self.condition(1)
        touch = f"item.write({buffer.index}, ({name} - 1) * {buffer.nbytes}, {buffer.nbytes})"
        self.line(f"int {name} = {start.c};", f"{name} = {to(start, 'int').py}")
        if self.chance(0.5):
            self.line(f"{buffer.name}[{name}++] = 1;", f"{name} = w_int({name} + 1); {touch}")
        else:
            self.line(f"if ({test.c} && {name}++ > 3) {buffer.name}[{name} - 1] = 1;", f"if {test.py}:")
            self.py.append("    " * (self.depth + 1) + f"{name} = w_int({name} + 1)")
            self.py.append("    " * (self.depth + 1) + f"if {name} - 1 > 3: {touch}")
        self.ints.append((name, "int"))

    def switch(self) -> None:
        self.forms.add("switch")
        value = binary("%", self.expr(1), const(4))
        tag = self.fresh("tag")
        self.line(f"switch ((int){value.c}) {{", f"{tag} = w_int({value.py})")
        kinds, self.loop_kinds = self.loop_kinds, []
        for number in self.rng.sample(range(4), self.rng.randrange(1, 4)):
            self.line(f"case {number}: {{", f"if {tag} == {number}:")
            self.block(1)
            self.line("} break;", None)
        self.loop_kinds = kinds
        self.line("}", None)

    def statement_expression(self) -> None:
        """`({ ... })`, sometimes in a part of an expression that may be left out."""
        self.forms.add("statement expression")
        name, test, other = self.fresh("x"), self.condition(1), self.expr(1)
        always = self.chance(0.5)
        kept = self.loop_kinds, self.in_expression
        self.loop_kinds, self.in_expression = [], True
        start = "" if always else f"{test.c} ? "
        self.line(f"int {name} = {start}({{", "if True:" if always else f"if {test.py}:")
        self.block(self.rng.randrange(1, 3))
        self.loop_kinds, self.in_expression = kept
        value = self.expr(1)
        common = value.type if always else usual(value.type, other.type)
        self.depth += 1
        self.line(
            f"{value.c}; }}){'' if always else f' : {other.c}'};",
            f"{name} = {to(to(value, common), 'int').py}",
        )
        self.depth -= 1
        if not always:
            self.line(None, f"else: {name} = {to(to(other, common), 'int').py}")
        self.ints.append((name, "int"))

    def local_memory(self) -> None:
        self.forms.add("local memory")
        name, value = self.fresh("l"), self.expr(1)
        self.line(f"tile[get_local_id(0) & 63] = {value.c};", f"_ = {value.py}")
        self.line(
            f"int {name} = tile[(get_local_id(0) + 1) & 63];", f"{name} = item.noise({self.names}, 'int')"
        )
        self.ints.append((name, "int"))

    def private_array(self) -> None:
        self.forms.add("private array")
        name, result = self.fresh("q"), self.fresh("x")
        items = [self.expr(1) for _ in range(3)]
        index = binary("&", self.expr(1), const(1)) if self.chance(0.5) else const(self.rng.randrange(3))
        self.line(
            f"int {name}[3] = {{{', '.join(e.c for e in items)}}};",
            f"{name} = [{', '.join(to(e, 'int').py for e in items)}]",
        )
        self.line(f"{name}[{index.c}] += 1;", f"{name}[{index.py}] = w_int({name}[{index.py}] + 1)")
        other = self.rng.randrange(3)
        self.line(f"int {result} = {name}[{other}];", f"{result} = {name}[{other}]")
        self.ints.append((result, "int"))

    def vector_position(self) -> None:
        self.forms.add("vector arithmetic")
        name = self.fresh("pos")
        x, y = self.expr(1), self.expr(1)
        self.line(
            f"int2 {name} = (int2)({x.c}, {y.c}) + (int2)(1, 2);",
            f"{name} = [w_int({to(x, 'int').py} + 1), w_int({to(y, 'int').py} + 2)]",
        )
        for component, index in (("x", 0), ("y", 1)):
            local = self.fresh("x")
            self.line(f"int {local} = {name}.{component};", f"{local} = {name}[{index}]")
            self.ints.append((local, "int"))

    def call_helper(self) -> None:
        """A call of a function of the program, written for the occasion."""
        self.forms.add("helper")
        simple = [b for b in self.buffers if b.integer is not None]
        if not simple:
            self.access()
            return
        buffer = self.rng.choice(simple)
        function, result = self.fresh("f"), self.fresh("x")
        limit = self.rng.randrange(1, 20)
        scale = self.rng.randrange(1, 4)
        self.helpers.append(
            (
                f"int {function}(__global {buffer.type} *p, int i) {{\n"
                f"  if (i >= {limit}) return -1;\n  p[i * {scale}] = 1;\n  return i + {scale};\n}}\n",
                f"def {function}(item, p, i):\n    if i >= {limit}: return -1\n"
                f"    item.write(p[0], p[1] + w_int(i * {scale}) * {buffer.nbytes}, {buffer.nbytes})\n"
                f"    return w_int(i + {scale})\n",
            )
        )
        base, index = self.expr(1), self.expr(1)
        self.line(
            f"int {result} = {function}({buffer.name} + {base.c}, {index.c});",
            f"{result} = {function}(item, ({buffer.index}, ({base.py}) * {buffer.nbytes}), "
            f"{to(index, 'int').py})",
        )
        self.ints.append((result, "int"))

    def statement(self) -> None:
        self.budget -= 1
        if self.budget < 0:
            self.access()
            return
        choice = self.rng.randrange(30)
        if self.loop_kinds and self.chance(0.15):
            self.leave()
        elif choice < 8:
            self.access()
        elif choice < 14 and self.loops < 4 and len(self.loop_kinds) < 3:
            self.rng.choice(
                [
                    self.loop,
                    self.loop,
                    self.loop,
                    self.loop,
                    self.halving_loop,
                    self.endless_loop,
                    self.pointer_loop,
                    self.rows_loop,
                ]
            )()
        elif choice < 16:
            self.branch()
        elif choice < 17:
            self.leave()
        elif choice < 18:
            self.rng.choice([self.async_copy, self.table, self.volatile_access, self.side_effects])()
        elif choice < 21:
            self.declare()
        elif choice < 23:
            self.assign()
        elif choice < 25:
            self.declare_pointer()
        else:
            self.rng.choice(
                [
                    self.switch,
                    self.statement_expression,
                    self.local_memory,
                    self.private_array,
                    self.vector_position,
                    self.call_helper,
                    self.call_helper,
                ]
            )()

    def write(self) -> GeneratedKernel:
        """The kernel as texts and as a function."""
        for d in range(self.dims):
            if self.chance(0.7):
                ctype = self.rng.choice(["int", "int", "uint", "ulong"])
                name = "xyz"[d]
                self.line(f"{ctype} {name} = get_global_id({d});", f"{name} = w_{ctype}(item.gid[{d}])")
                self.ints.append((name, ctype))
        self.line("__local int tile[64];", None)
        if self.chance(0.5):
            test = self.condition(1)
            self.line(f"if ({test.c}) return;", f"if {test.py}: return")
        for _ in range(self.rng.randrange(1, 5)):
            self.statement()
        self.access()
        parameters = [f"__global {b.type} *{b.name}" for b in self.buffers]
        parameters += [f"{ctype} {name}" for name, ctype in self.scalar_types.items()]
        c = STRUCT + "".join(helper for helper, _ in self.helpers)
        c += f"__kernel void k({', '.join(parameters)}) {{\n" + "\n".join(self.c) + "\n}\n"
        py = "".join(helper for _, helper in self.helpers)
        py += f"def run(item{''.join(', ' + name for name in self.scalars)}):\n" + "\n".join(self.py) + "\n"
        from .oracle import ARITHMETIC

        scope: dict[str, Any] = {**ARITHMETIC, "ARITH": {name: ARITHMETIC[f"w_{name}"] for name in TYPES}}
        exec(compile(py, "<kernel>", "exec"), scope)
        first = len(self.buffers)
        numbers = {first + i: number for i, number in enumerate(self.scalars.values())}
        return GeneratedKernel(c, py, self.buffers, numbers, scope["run"], self.forms)
