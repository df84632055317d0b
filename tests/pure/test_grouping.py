"""Which kernels cannot tell how their work-items are grouped."""

from __future__ import annotations

import pytest
from vdev.translators.frontend.grouping import blind_to_groups
from vdev.translators.frontend.source import parse_program

HELPERS = """
int deep() { return get_local_id(0); }
int middle() { return deep() + 1; }
int harmless() { return get_global_id(0) + get_global_size(1) + get_global_offset(0) + get_work_dim(); }
#define LOCALLY get_local_size(1)
"""


def is_blind(body: str, arguments: str = "global int *a") -> bool:
    program = parse_program(f"{HELPERS}kernel void k({arguments}) {{ {body} }}", ("-cl-std=CL2.0",))
    assert program.exact
    return "k" in blind_to_groups(program)


@pytest.mark.parametrize(
    "body",
    [
        "a[get_global_id(0)] = get_global_id(1) * get_global_size(0);",
        "a[harmless()] = 1;",
        "for (int i = get_global_id(0); i < 100; i += get_global_size(0)) a[i] += i;",
        "atomic_add(a, 1); mem_fence(CLK_GLOBAL_MEM_FENCE);",
        "int localised = 3, locals = a[1]; a[0] = localised + locals;",
        "vstore4(vload4(0, a), 1, a);",
    ],
)
def test_these_cannot(body: str) -> None:
    assert is_blind(body)


@pytest.mark.parametrize(
    "body",
    [
        "a[get_local_id(0)] = 1;",
        "a[0] = get_local_size(2);",
        "a[get_group_id(0)] = 1;",
        "a[0] = get_num_groups(0);",
        "a[0] = get_enqueued_local_size(0);",
        "a[0] = get_local_linear_id();",
        "a[middle()] = 1;",
        "a[0] = LOCALLY;",
        "local int part; part = 1;",
        "__local int part[4]; part[0] = 1;",
        "barrier(CLK_GLOBAL_MEM_FENCE);",
        "work_group_barrier(CLK_GLOBAL_MEM_FENCE);",
        "a[0] = work_group_reduce_add(a[1]);",
        "atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_relaxed, memory_scope_work_group);",
    ],
)
def test_these_can(body: str) -> None:
    assert not is_blind(body)


def test_a_local_argument_and_a_required_size() -> None:
    assert not is_blind("a[0] = b[0];", "global int *a, local int *b")
    program = parse_program(
        "kernel __attribute__((work_group_size_hint(8, 1, 1))) void k(global int *a) { a[0] = 1; }"
    )
    assert blind_to_groups(program) == {"k"}


def test_each_kernel_by_itself() -> None:
    program = parse_program(
        f"{HELPERS}kernel void one(global int *a) {{ a[harmless()] = 1; }} kernel void two(global int *a) {{ a[middle()] = 1; }}"
    )
    assert blind_to_groups(program) == {"one"}
