"""Variables that outlast a launch: which of them a program's functions may change."""

from __future__ import annotations

import pytest
from vdev.translators.dialects.subgrid import Untranslatable, translate_subgrid
from vdev.translators.frontend.source import parse_program

KERNEL = "kernel void k(global int *a) {{ {} }}"
STRUCT = "struct S { int x; int y[3]; float4 v; }; global struct S s[4]; "

#: what is declared, and what a kernel does: it only reads
READ = {
    "an element": ("global int t[4] = {1, 2, 3, 4};", "a[0] = t[a[1]] + t[1];"),
    "an element of a row": ("global int t[4][2];", "a[0] = t[a[1]][a[2]];"),
    "members": (STRUCT, "a[0] = s[1].y[2] + (s[2]).x + s[0].v.x + s[0].v.wz.x + s[1].v[2];"),
    "its size": ("global int t[4];", "a[0] = t[a[1]] + sizeof(t) / sizeof(t[0]) + sizeof(&t);"),
    "a number": ("int t = 4;", "a[0] = (t) * (short)t; if (t) a[1] = t ? t : -t; a[2] = (t, t);"),
    "a structure": (STRUCT, "struct S r = s[1]; a[0] = r.x;"),
    "one of two": (STRUCT + "global struct S r;", "a[0] = (a[1] ? s[0] : r).y[1];"),
    "a static one": ("", "static int t = 3; a[0] = t;"),
    "a constant by its address": ("const global int t[4] = {1};", "global const int *p = t; a[0] = p[1];"),
    "a table in constant memory": ("constant int t[4] = {1};", "constant int *p = t; a[0] = p[1];"),
}
#: the same, and it may change the last one declared
CHANGED = {
    "an element": ("global int t[4];", "t[a[0]] = 2;"),
    "one more": ("int t;", "a[0] = t++;"),
    "a sum": ("int t;", "t += a[0];"),
    "by its address": ("int t;", "*&t = 3;"),
    "an atomic": ("volatile int t;", "atomic_inc(&t);"),
    "a pointer to it": ("global int t[4];", "global int *p = t; p[0] = 3;"),
    "as a pointer": ("global int t[4];", "*t = 3;"),
    "a row, elsewhere": ("void f(global int *p) { *p = 1; } global int t[4][2];", "f(t[1]);"),
    "components": ("global int4 t;", "t.xy = (int2)(a[0]);"),
    "all components": ("global int4 t;", "t.wzyx = (int4)(a[0]);"),
    "a component by its number": ("global int4 t;", "t[1] = a[0];"),
    "a member": (STRUCT, "s[0].y[a[0]] = 3;"),
    "a member of what is pointed to": (STRUCT, "s->x = 3;"),
    "a pointer at program scope": ("global int t[4]; global int *global p = &t[1];", "*p = 3;"),
    "one of two": ("int u, t;", "*(a[0] ? &t : &u) = 3;"),
    "in parentheses": ("int t;", "(t) = 1;"),
    "before a comma": ("int t;", "a[0] = (t = 1, t);"),
    "in an index": ("global int u[3]; int t;", "a[0] = u[t++];"),
    "declared twice": ("int t; int t = 3;", "t = 1;"),
    "by a built-in function": ("global int t[4];", "vstore4((int4)1, 0, t);"),
    "a static one": ("", "static int t; a[0] = t++;"),
    "a static one of another function": (
        "global int *f(void) { static global int t; return &t; }",
        "*f() = 1;",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_only_read(name: str) -> None:
    declared, does = READ[name]
    program = parse_program(declared + KERNEL.format(does), ["-cl-std=CL2.0"])
    assert translate_subgrid(program).changed is None


@pytest.mark.parametrize("name", CHANGED)
def test_what_may_be_changed(name: str) -> None:
    declared, does = CHANGED[name]
    program = parse_program(declared + "\n" + KERNEL.format(does), ["-cl-std=CL2.0"])
    with pytest.raises(Untranslatable, match=r" is a (variable at program scope|static variable)") as caught:
        translate_subgrid(program)
    assert caught.value.line == (2 if name == "a static one" else 1)
    assert translate_subgrid(program, shared_variables=True).changed == (
        caught.value.reason,
        caught.value.line,
    )
