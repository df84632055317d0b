"""Addresses as numbers: where analysis sees them, pointers with memory before them, and launches in place."""

from __future__ import annotations

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev.planner.directory import HOST, buffer_state, check
from vdev.planner.footprints import PointerArg, gather
from vdev.planner.in_place import plan_in_place
from vdev.planner.instructions import Copy, Launch
from vdev.planner.links import LinkCosts

TYPES = """
typedef union { global float *p; ulong number; uint2 halves; } Either;
typedef struct Node { float value; global struct Node *next; } Node;
typedef struct { global float *p; ulong n; } Slice;
"""
STORED, NUMBER = "the address of a buffer is stored", "the address of a buffer is converted to a number"
PUNNED, COMPARED = (
    "the address of a buffer is read as another type",
    "the address of a buffer is compared with",
)
FOLLOWED = "memory is reached through a pointer that is not followed"
VISIBLE = {
    "global Node *a": ("a->next = a + 1;", STORED),
    "global Slice *a, global float *b": ("Slice s = {b, 1}; a[0] = s;", STORED),
    "global float *a": ("a[0] = (ulong) (a + 1) % 16;", NUMBER),
    "global float *a, global ulong *b": ("Either e; e.p = a; b[0] = e.number;", PUNNED),
    "global float *a, global uint *b": ("Either e; e.p = a; b[0] = e.halves.y;", PUNNED),
    "global Node *a, global int *b": ("b[0] = a->next == a;", COMPARED),
    "global Node *a, int n": ("global Node *p = a; while (n--) p = p->next; p->value = 1;", FOLLOWED),
    "ulong n": ("((global float *) n)[get_global_id(0)] = 1;", FOLLOWED),
    "global ulong *a": ("global float *p = (global float *) a[0]; p[0] = 1;", FOLLOWED),
    "global float *a, ulong n": ("Either e; e.p = a; e.number += n; e.p[0] = 1;", PUNNED),
}
INVISIBLE = {
    "global float *a, ulong n": "Slice s = {a, n}; s.p += s.n; s.p[get_global_id(0)] = s.n;",
    "global float *a, global float *b": "global float *p = get_global_id(0) & 1 ? a : b; p[get_global_id(0)] = p != a;",
    "global float *a, int k": "global float *p[2] = {a, a + 1}; p[k & 1][get_global_id(0)] = a + k - p[0];",
    "global Node *a, global Node *b": "Node n = b[0]; a[get_global_id(0)] = n; a[0].next = b[1].next;",
    "global Node *a": "if (a == 0 || a->next == 0) return; a->value = 1;",
    "global float4 *a": "vstore4(a[0], get_global_id(0), (global float *) a);",
    "global float *a, local float *l": "local float *q[1] = {l}; q[0][get_local_id(0)] = 1; a[0] = *l;",
}


def summary(parameters: str, body: str):
    return analyse_kernel(parse_program(f"{TYPES}\nkernel void k({parameters}) {{ {body} }}", []), "k")


@pytest.mark.parametrize("parameters", VISIBLE)
def test_addresses_that_become_visible(parameters):
    body, expected = VISIBLE[parameters]
    found = summary(parameters, body).addresses
    assert found is not None
    assert found.text.startswith(expected)


@pytest.mark.parametrize("parameters", INVISIBLE)
def test_addresses_that_do_not(parameters):
    assert summary(parameters, INVISIBLE[parameters]).addresses is None


def test_a_kernel_that_is_not_analysed_may_use_addresses():
    assert summary("global int *a", "again: if (a[0]) goto again;").addresses is not None


LINE = NDRange((16,), (4,), (0,))
HALF = Chunk((1,), (3,))


def test_a_pointer_with_memory_before_it():
    """Ranges count from the beginning of the memory; a pointer without any sees nothing there."""
    found = summary("global const int *a, global int *b", "int i = get_global_id(0); b[i] = a[i - 2];")
    sizes = {0: 80, 1: 64}
    ranges = {item.mode: item for item in found.evaluate(LINE, HALF, {}, sizes, {0: 20})}
    assert ranges["read"].region == Region.span(20 + 4 * 2, 20 + 4 * 10)
    assert ranges["read"].exact
    pointers = PointerArg(0, 0, 120, 80, 20), PointerArg(1, 1, 0, 64)
    footprints = gather(pointers, tuple(ranges.values()))
    assert footprints[0].reads == Region.span(128, 160)
    first = summary("global int *a", "a[(int) get_global_id(0) - 16] = 1;")
    (written,) = first.evaluate(LINE, HALF, {}, {0: 64}, {0: 64})
    assert (written.region, written.exact) == (Region.span(16, 48), True)
    assert first.evaluate(LINE, HALF, {}, {0: 64}) == ()
    (anywhere,) = summary("global int *a, global int *b", "a[b[0]] = 1;").evaluate(
        LINE, HALF, {}, {0: 64}, {0: 32}
    )
    assert anywhere.region == Region.span(0, 96)


def test_a_launch_in_place():
    """Homes hold what is shared, before and alone afterwards; other buffers are on the worker."""
    links = LinkCosts.uniform(3, host=1.0, peer=0.5)
    whole = Region.span(0, 100)
    states = (
        buffer_state(100, ((0, Region.span(0, 40)), (HOST, Region.span(40, 100))), ((0, 0, 100),)),
        buffer_state(100, ((2, whole),), ((2, 0, 100),)),
        buffer_state(100, ((1, whole), (HOST, whole)), ((1, 0, 100),)),
    )
    args = PointerArg(0, 0, 8, 92, 8), PointerArg(3, 1, 16, 84)
    plan = plan_in_place(states, args, {0, 2}, LINE, (0, 1, 2), links, "because")
    launch = plan.instructions[-1]
    assert isinstance(launch, Launch)
    assert launch.worker == 2, "it has the other buffer"
    assert (launch.bases, launch.homes) == (((3, 1, -16),), ((0, 0, 8),))
    assert [
        (item.source, item.target, item.region) for item in plan.instructions if isinstance(item, Copy)
    ] == [(0, HOST, Region.span(0, 40))]
    for state in plan.states:
        check(state)
    holders = [dict(state.valid) for state in plan.states]
    assert holders == [{HOST: whole}, {2: whole}, {HOST: whole}]
    assert plan.reasons == ("because",)
    assert [(touch.slot, touch.holder) for touch in plan.touches[-1]] == [(0, HOST), (1, 2), (2, HOST)]
