"""What stands at program scope: tables, macros, conditions of the preprocessor, structures, helper functions.

Decides what a program's kernels may name beside their arguments. All names begin with the program's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .expressions import Expressions
from .program import Stmt
from .scope import Function, Scope, Table
from .values import INT, INTS, LONG, UINT, ULONG, Ex, IntType, cast, constant, converted

#: -D options of a source, and what `#if` makes of them
OPTIONS = ("-DUSE=true", "-DNOT=false", "-DNUM=3", "-D FLAG", "-DTWO=(1+1)", "-DNOTHING=")
#: what quotes mean in an option is the engine's business: for few sources alone
RARE_OPTIONS = ("-DSEMI=';'", "-DLETTER='a'")
RARE_CONDITIONS = ("SEMI == 59", "LETTER == 97", "LETTER")
#: conditions, all of which clang decides
CONDITIONS = (
    "USE", "!USE", "NOT", "true", "false", "!true", "NUM > 2", "NUM == 4", "defined(FLAG)", "defined FLAG && NUM",
    "!defined(FLAG)", "TWO == 2", "'a' == 97", "'\\\\' == 92", "-1 > 0u", "-1 < 0", "UNKNOWN", "!UNKNOWN",
    "1 ? 0 : 1", "(2 || 1 / 0)", "0 && (1 / 0)", "0x10 == 16", "010 == 8", "1L == 1u", "~0 == -1",
    "(-7 / 2) == -3", "(-7 % 4) == -3", "(1 << 3) > 7", "-8 >> 1 == -4", "NUM /* ; */ == 3", "USE && NUM", "TWO - 2",
    "0xffffffff + 1 > 0", "0x8000000000000000 > 0", "-1 == 0xffffffffffffffffu", "0x80000000 - 1 > 0", "(1u - 2) > 0",
    "__OPENCL_VERSION__ >= 110", "defined(__OPENCL_C_VERSION__)", "USE == 1", "(USE) + (USE) == 2",
)  # fmt: skip


#: C23's, and clang's in every language
NEWER_CONDITIONS = ("0b11 == 3",)


#: what a helper may ask of its work-item
WORK_ITEM = (
    Ex("((int)get_local_id(0))", INT, 0, 255), Ex("((int)get_num_groups(0))", INT, 1, 4096, uniform=True),
    Ex("((int)get_global_id(0))", INT, 0, 1 << 20), Ex("((int)get_group_id(0))", INT, 0, 4096),
    Ex("((int)get_global_size(0))", INT, 1, 1 << 20, uniform=True),
)  # fmt: skip


@dataclass
class Field:
    name: str
    t: IntType
    offset: int
    count: int = 1  #: of an array


@dataclass
class Struct:
    name: str
    fields: list[Field]
    nbytes: int
    align: int
    text: str

    def padding(self) -> list[int]:
        """1 for each byte that no member has."""
        found = [1] * self.nbytes
        for f in self.fields:
            size = f.t.nbytes * f.count
            found[f.offset : f.offset + size] = [0] * size
        return found


@dataclass
class Prelude:
    """Made for one program."""

    rng: random.Random
    name: str
    scope: Scope = field(default_factory=Scope)
    statements: list[Stmt] = field(default_factory=list)
    structs: list[Struct] = field(default_factory=list)
    forms: set[str] = field(default_factory=set)
    #: whether forms are wanted that may send the whole source down the safe path
    rare: bool = False
    #: whether `#elifdef` may come: in few programs of a source, as what refuses one refuses all
    alternatives: bool = False
    plain: bool = False  #: as of Features
    skip: frozenset[str] = frozenset()
    #: values that `#elifdef` chooses: each is stored somewhere, since few programs have one
    chosen: list[Ex] = field(default_factory=list)

    def fresh(self, stem: str) -> str:
        self._number = getattr(self, "_number", 0) + 1
        return f"{self.name}_{stem}{self._number}"

    def declare(self, text: str) -> None:
        self.statements.append(Stmt(text))

    # tables -----------------------------------------------------------------------------------------

    def table(self) -> None:
        rng, name = self.rng, self.fresh("t")
        t = rng.choice(INTS)
        count = rng.choice([2, 4, 8, 8, 16])
        most = rng.choice([2, 3, 8, t.hi])
        content = [rng.randrange(max(t.lo, -most), min(t.hi, most) + 1) for _ in range(count)]
        if rng.random() < 0.6:  # mostly zeros: wider words have other bounds than their bytes
            content = [x if rng.random() < 0.3 else 0 for x in content]
        aligned = rng.choice([1, 4, 8, 16])
        attribute = f" __attribute__((aligned({aligned})))" if aligned > 1 else ""
        numbers = ", ".join(constant(x, t).text for x in content)
        size = rng.choice(["", str(count)])
        self.declare(f"constant {t.name} {name}[{size}]{attribute} = {{{numbers}}};")
        self.scope.tables.append(Table(name, t, content, aligned=aligned))
        self.forms.add("constant table")

    def string(self) -> None:
        name = self.fresh("s")
        text, value = self.rng.choice(
            [
                ("a;b", "a;b"),
                ("){(", "){("),
                ('\\"x\\"', '"x"'),
                ("//*", "//*"),
                ("\\\\n", "\\n"),
                ("\\x01\\2;", "\x01\x02;"),
            ]
        )
        content = [*map(ord, value), 0]
        self.declare(f'constant char {name}[] = "{text}";')
        self.scope.tables.append(Table(name, INTS[0], content))
        self.forms.add("string table")

    def struct_table(self) -> None:
        """Structures in constant memory, and members of them that are arrays."""
        rng, name, t, u = self.rng, self.fresh("k"), *self.rng.sample(INTS, 2)
        kind, count = self.fresh("K"), rng.choice([2, 3, 4])
        rows = [[rng.randrange(max(x.lo, -3), 6) for x in (t, u, u)] for _ in range(count)]
        self.declare(f"typedef struct {{ {t.name} a; {u.name} b[2]; }} {kind};")
        texts = [
            f"{{{constant(a, t).text}, {{{constant(b, u).text}, {constant(c, u).text}}}}}" for a, b, c in rows
        ]
        self.declare(f"constant {kind} {name}[{count}] = {{{', '.join(texts)}}};")
        index = Expressions(rng, Scope(list(self.scope.leaves))).index(count, 1)
        firsts, others = [row[0] for row in rows], [x for row in rows for x in row[1:]]
        self.scope.leaves += [
            Ex(f"{name}[{index.text}].a", t, min(firsts), max(firsts), uniform=True),
            Ex(f"({name} + {index.text})->b[{rng.randrange(2)}]", u, min(others), max(others), uniform=True),
        ]
        self.forms.add("table of structures")

    def number(self) -> None:
        """A number at program scope: in constant memory, an enumerator, or a macro."""
        rng, name = self.rng, self.fresh("n")
        t = rng.choice([INT, UINT, UINT, LONG, ULONG])
        value = rng.choice([t.hi, t.hi // 2, t.hi // 2 + 1, t.hi - 1, 3, max(t.lo, -2)])
        text = constant(value, t).text
        kinds = [f"constant {t.name} {name} = {text};", f"#define {name} {text}"]
        if value <= INT.hi:
            kinds.append(f"enum {{ {name}_ = 7, {name} = {text} }};")
        chosen = rng.choice(kinds)
        self.declare(chosen)
        known = INT if chosen.startswith("enum") else t
        self.scope.leaves.append(Ex(f"({name})", known, value, value, uniform=True))
        self.forms.add("number at program scope")

    # preprocessor -----------------------------------------------------------------------------------

    def condition(self) -> None:
        """A macro whose value a condition of the preprocessor chooses."""
        rng, name = self.rng, self.fresh("V")
        conditions = (
            CONDITIONS + (() if self.plain else NEWER_CONDITIONS) + (RARE_CONDITIONS * 4 if self.rare else ())
        )
        first, second = rng.choice(conditions), rng.choice(conditions)
        values = rng.sample(range(-2, 6), 3)
        opening = rng.choice(
            [f"#if {first}", f"#if {first}", "#ifdef NUM", "#ifdef UNKNOWN", "#ifndef USE", "#ifndef X"]
        )
        middle = f"#elif {second}"  # #elifdef: C23, and clang in every language
        if self.alternatives and rng.random() < 0.7:
            middle = rng.choice(["#elifdef FLAG", "#elifdef NO", "#elifndef NO", "#elifndef USE"])
        lines = [opening, f"#define {name} {values[0]}", middle, f"#define {name} ({values[1]})", "#else",
                 f"  #  define {name} \\\n {values[2]}", "#endif"]  # fmt: skip
        self.declare("\n".join(lines))
        found = Ex(f"({name})", INT, min(values), max(values), uniform=True)
        self.scope.leaves.append(found)
        if middle.startswith(("#elifdef", "#elifndef")):
            self.chosen.append(found)
        self.forms.add("preprocessor condition")

    def macro(self) -> None:
        """A function-like macro, used with its arguments on several lines."""
        name = self.fresh("M")
        kinds = [
            "first",
            "second",
            "or",
            "line",
            "paste",
            "varargs",
            "statement",
            "string",
            "indirect",
            "empty",
        ]
        kind = self.rng.choice([*kinds, *["optional"] * (not self.plain)])
        if kind == "string":
            self.declare(f"#define {name}(a) ((int)(#a)[0])")
            argument, value = self.rng.choice(
                [("  1 ", 49), ('"x"', 34), ("';'", 39), ("", 0), ("( \n 2)", 40)]
            )
            text, lo, hi = f"{name}({argument})", value, value
        elif kind == "indirect":
            self.declare(f"#define {name}_(a, b) a ## b\n#define {name}(a, b) {name}_(a, b)")
            text, lo, hi = self.rng.choice([(f"{name}(NUM, 1)", 31, 31), (f"{name}(1,\n NUM)", 13, 13)])
        elif kind == "empty":
            self.declare(f"#define {name}(a, b) (a + b 1)")
            text, lo, hi = self.rng.choice(
                [(f"{name}(,)", 1, 1), (f"{name}(2, -)", 1, 1), (f"{name}( , 3 *)", 3, 3)]
            )
        elif kind == "optional":
            self.declare(f"#define {name}(a, ...) (a __VA_OPT__(+) __VA_ARGS__)")
            text, lo, hi = self.rng.choice(
                [(f"{name}(2)", 2, 2), (f"{name}(2, 3)", 5, 5), (f"{name}(2,)", 2, 2)]
            )
        elif kind == "paste":
            self.declare(f"#define {name}(a, b) a##b")
            text, lo, hi = f"{name}(1, 2)", 12, 12
        elif kind == "varargs":
            self.declare(f"#define {name}(a, ...) ((a) ? (__VA_ARGS__) : 2)")
            text, lo, hi = f"{name}({self.inner()}, (0,\n 1))", 1, 2
        elif kind == "line":
            self.declare(f"#define {name}(a, b) ((a) + (b) + __LINE__)")
            text, lo, hi = f"{name}(1,\n\n 2)", 0, 1 << 20
        else:
            body = {"first": "((a) > 0)", "second": "((b) != 0)"}.get(kind, "((a) < 0 || (b) == 1)")
            self.declare(f"#define {name}(a, b) \\\n    {body}")
            text, lo, hi = f"{name}({self.inner()},\n    {self.inner()})", 0, 1
        self.scope.leaves.append(Ex(text, INT, lo, hi, uniform=True))
        self.forms.add("macro over lines")

    def inner(self) -> str:
        return self.rng.choice(["1", "NUM", "(USE)", "';' - 58", "__LINE__", "(0, 1)", "-1"])

    # structures and functions -----------------------------------------------------------------------

    def struct(self) -> Struct:
        """A structure with padding, mostly; sometimes one inside another, an array, a packed one."""
        rng, name = self.rng, self.fresh("S")
        packed = rng.random() < 0.1
        fields: list[Field] = []
        parts: list[str] = []
        offset, align = 0, 1
        for number in range(rng.randrange(2, 5)):
            t = rng.choice(INTS)
            count = rng.choice([1, 1, 1, 2, 3])
            nested = rng.random() < 0.2
            own = 1 if packed else t.nbytes
            if nested:
                own = 1 if packed else 2
            offset = -(-offset // own) * own
            align = max(align, own)
            if nested:  # struct { char p; short q; }, 4 bytes, one of them padding
                start = offset
                fields.append(Field(f"n{number}.p", INTS[0], start))
                fields.append(Field(f"n{number}.q", INTS[2], start + 2))
                parts.append(f"struct {{ char p; short q; }} n{number};")
                offset = start + 4
                continue
            fields.append(Field(f"f{number}", t, offset, count))
            parts.append(f"{t.name} f{number}{f'[{count}]' if count > 1 else ''};")
            offset += t.nbytes * count
        attribute = " __attribute__((packed))" if packed else ""
        nbytes = -(-offset // align) * align
        text = f"typedef struct{attribute} {{ {' '.join(parts)} }} {name};"
        self.declare(text)
        found = Struct(name, fields, nbytes, align, text)
        self.structs.append(found)
        self.forms.add("structure")
        return found

    def helper(self) -> None:
        """A function of small numbers, perhaps with an early return or a pointer to private memory."""
        rng, name = self.rng, self.fresh("h")
        parameters = []
        for letter in "abc"[: rng.randrange(1, 4)]:
            t = rng.choice(INTS)
            lo, hi = rng.choice([(t.lo, t.hi), (max(t.lo, -4), 8), (0, 3)])
            parameters.append(Ex(letter, t, lo, hi, uniform=True))
        inner = Scope(list(parameters), list(self.scope.tables), [], [])
        inner.leaves += [e for e in self.scope.leaves if rng.random() < 0.5]
        ids = rng.random() < 0.4
        if ids:
            inner.leaves += WORK_ITEM
        expressions = Expressions(rng, inner)
        expressions.loads = False
        result, t = expressions.scalar(2), rng.choice(INTS)
        result = cast(t, expressions.small(4, 2)) if rng.random() < 0.5 else cast(t, result)
        if ids and rng.random() < 0.5:
            asked = rng.choice(WORK_ITEM)
            text = f"({cast(UINT, result).text} ^ {cast(UINT, asked).text})"
            result = cast(t, Ex(text, UINT, 0, UINT.hi, uniform=result.uniform and asked.uniform))
            self.forms.add("work-item functions in a helper")
        lines = []
        lo, hi, uniform = result.lo, result.hi, result.uniform
        if rng.random() < 0.4:
            early = cast(t, expressions.small(3, 1))
            test = expressions.scalar(1)
            lines.append(f"    if ({test.text}) return {early.text};")
            lo, hi, uniform = min(lo, early.lo), max(hi, early.hi), uniform and early.uniform and test.uniform
        lines.append(f"    return {result.text};")
        head = f"{rng.choice(['', 'static ', 'inline static '])}{t.name} {name}"
        texts = ", ".join(f"{p.t.name} {p.text}" for p in parameters)
        self.declare(f"{head}({texts}) {{\n" + "\n".join(lines) + "\n}")
        lo, hi = converted(t, lo, hi)
        self.scope.functions.append(Function(name, parameters, Ex("", t, lo, hi, uniform=uniform)))
        self.forms.add("helper function")

    def write(self) -> None:
        """A random choice of all."""
        rng = self.rng
        skipped = {
            "preprocessor condition": self.condition,
            "macro over lines": self.macro,
            "constant table": self.table,
        }
        skip = {id(make.__func__) for name, make in skipped.items() if name in self.skip}
        for make, chance in (
            (self.table, 0.6),
            (self.string, 0.15),
            (self.struct_table, 0.15),
            (self.number, 0.25),
            (self.condition, 0.3),
            (self.macro, 0.3),
        ):
            while rng.random() < chance and id(make.__func__) not in skip:
                make()
                chance *= 0.6
        if rng.random() < 0.15:
            self.declare(f"#line {rng.randrange(1, 5000)}")
        if self.alternatives and "preprocessor condition" not in self.skip:
            self.condition()
        while rng.random() < 0.45:
            self.helper()


__all__ = ["OPTIONS", "RARE_OPTIONS", "UINT", "Field", "Prelude", "Struct"]
