"""What the CUDA dialect reads of a program's expressions and statements, and that printing keeps the user's lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import get_args

import pytest
from clang.cindex import CursorKind
from vdev.translators.dialects.cuda import nodes, tables
from vdev.translators.dialects.cuda.reading import Reader
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.edits import Functions
from vdev.translators.frontend.source import parse_program

HEAD = """\
typedef struct { int i; float f[3]; } S;
enum E { ONE = 1 };
int two(int a, const int *b) { return a; }
"""
DECLARED = "int a, b; bool t, *p; float x; int4 v, w, *q; S s, *r; enum E e;"


def read(statement: str, *, single: bool = False) -> nodes.Node:
    """The last statement of a function that begins with the declarations above."""
    program = parse_program(f"{HEAD}kernel void k(void) {{ {DECLARED}\n{statement} }}", ("-cl-std=CL2.0",))
    (kernel,) = (c for c in program.functions() if c.spelling == "k")
    (body,) = (c for c in kernel.get_children() if c.kind == CursorKind.COMPOUND_STMT)
    read, _ = Reader(Functions(program), tables.constants(), single).body(body)
    assert isinstance(read, nodes.Plain)
    return read.parts[-1]


def below(node: nodes.Node) -> Iterator[nodes.Node]:
    """The node and all nodes in it."""
    yield node
    for field in fields(node):
        value = getattr(node, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, nodes.Item):
                yield from below(part.value)
            elif isinstance(part, get_args(nodes.Node)):
                yield from below(part)


def found(statement: str, kind: type[nodes.Node], *, single: bool = False) -> list[nodes.Node]:
    return [node for node in below(read(statement, single=single)) if isinstance(node, kind)]


STATEMENTS = {
    nodes.Constant: "x = M_PI_F;",
    nodes.Name: "a;",
    nodes.Integer: "a = 3;",
    nodes.Character: "a = 'c';",
    nodes.Float: "x = 1.5f;",
    nodes.String: 'printf("%d", a);',
    nodes.Parentheses: "(a);",
    nodes.Converted: "x = a;",
    nodes.Swizzle: "v.xy;",
    nodes.Member: "s.i;",
    nodes.Index: "s.f[1];",
    nodes.Dereference: "*q;",
    nodes.Address: "&a;",
    nodes.Call: "two(a, &b);",
    nodes.List: "S n = {1};",
    nodes.CompoundLiteral: "s = (S){1};",
    nodes.Calculation: "a + b;",
    nodes.Assignment: "a = b;",
    nodes.Comma: "a, b;",
    nodes.Update: "a += b;",
    nodes.Step: "a++;",
    nodes.Operation: "-a;",
    nodes.Conditional: "a ? a : b;",
    nodes.Otherwise: "a ?: b;",
    nodes.Chosen: "__builtin_choose_expr(1, a, b);",
    nodes.Known: "vec_step(v);",
    nodes.Cast: "(float)a;",
    nodes.Size: "sizeof(a);",
    nodes.Block: "a = ({ b; });",
    nodes.Variable: "int n;",
    nodes.Declare: "int n;",
    nodes.For: "for (;;) a;",
    nodes.Guard: "while (1) if (a || b) break;",
    nodes.Switch: "switch (a) { case 1: b; }",
    nodes.Case: "switch (a) { case 1: b; }",
    nodes.Plain: "while (a) b;",
}


@pytest.mark.parametrize("kind", [kind for kind in get_args(nodes.Node) if kind is not nodes.Unnamed])
def test_kinds(kind: type[nodes.Node]) -> None:
    assert found(STATEMENTS[kind], kind)


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("v = (int4)t;", 1),  # a bool becomes all ones
        ("v = (int4)(t);", 0),  # a literal of one part
        ("v = (int4)(t, a, b, t);", 0),
        ("v + t;", 0),  # an operand is an integer first
        ("v = a ? v : t;", 1),
        ("v = w ? v : t;", 0),
        ("a = t;", 0),
    ],
)  # fmt: skip
def test_spreading(statement: str, number: int) -> None:
    assert sum(node.spreads for node in found(statement, nodes.Converted)) == number  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("statement", "kept"),
    [("s.f;", False), ("s.f[0];", True), ("(s.f)[0];", True), ("(s).i;", False), ("sizeof(s.f);", True)],
)
def test_places_that_are_not_read(statement: str, kept: bool) -> None:
    assert [node.kept for node in found(statement, nodes.Member)] == [kept]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("statement", "passes"),
    [
        ("two(1, (int[]){1, 2});", True),
        ("((int[]){1, 2})[a];", True),
        ("const int *n = (int[]){1, 2};", False),
    ],
)
def test_literals_that_nothing_keeps(statement: str, passes: bool) -> None:
    assert [node.passes for node in found(statement, nodes.CompoundLiteral)] == [passes]  # type: ignore[union-attr]


def test_names_of_initialisers() -> None:
    (outer, *_) = found("S n[4] = {[2].f[1] = 1.0f, [0 ... 1] = {0}, {.i = 3}};", nodes.List)
    assert isinstance(outer, nodes.List)
    assert [item.names for item in outer.items] == [(2, "f", 1), (range(2),), ()]
    inner = outer.items[2].value
    assert isinstance(inner, nodes.List)
    assert [item.names for item in inner.items] == [("i",)]


@pytest.mark.parametrize(
    ("statement", "access", "components"),
    [("v.wx;", ".", (3, 0)), ("q->s1;", "->", (1,)), ("(v) . hi;", ".", (2, 3)), ("(*q).odd;", ".", (1, 3))],
)  # fmt: skip
def test_swizzles(statement: str, access: str, components: tuple[int, ...]) -> None:
    (swizzle,) = found(statement, nodes.Swizzle)
    assert isinstance(swizzle, nodes.Swizzle)
    assert (swizzle.access, swizzle.components) == (access, components)


def test_narrowed_literals() -> None:
    assert [node.narrowed for node in found("x = 0.1;", nodes.Converted, single=True)] == [True]  # type: ignore[union-attr]
    assert [node.narrowed for node in found("x = 0.1;", nodes.Converted)] == [False]  # type: ignore[union-attr]


LONG = """\
kernel void k(global int *a) {
int4 v = (int4)(a[0],
 1, 2); v = v
 ?
 v.wzyx : v; v
 .x <<=
 a[1];
struct { int n[3]; float f; } s = { .f
 = 1, .n
 = { [1]
 = 2 } };
switch (a[0]) { case 1 ...
 3: a[1] = ({ int n
 = v.x; n; }); }
float4 w __attribute__((
 aligned(32)))
 = 0; a[2] = __builtin_choose_expr(1,
 vec_step(
 w), 4);
LAST
}
"""


def test_lines_stay() -> None:
    """Whatever is printed otherwise, what follows stands on the user's line."""
    source = LONG.replace("(a[0],\n 1, 2)", "(a[0],\n 1, 2, 3)").replace("LAST", "a[3] = 77777;")
    text = translate_cuda(parse_program(source)).source
    line = 0
    for printed in text.split("\n"):
        line += 1
        if printed.startswith("#line"):
            line = int(printed.split()[1]) - 1
        if "77777" in printed:
            break
    assert line == source.split("\n").index("a[3] = 77777;") + 1
