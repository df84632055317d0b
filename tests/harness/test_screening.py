"""The fast form of a check: it takes no mistake for none, and most correct launches end with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from vdev.translators.dialects.checked import ON_REQUEST
from vdev.translators.dialects.image_lowering import lower_images
from vdev.translators.frontend.layout import element_types
from vdev.translators.frontend.source import ParsedProgram, parse_program
from vdev.translators.ranges.ndrange import NDRange

from tests.harness.pairs import PAIRS
from tests.harness.pairs_form import Pair
from vdev.harness import Program
from vdev.harness.arguments import Empty, prepare
from vdev.harness.checked_launch import CheckedSource
from vdev.harness.forms import Forms
from vdev.harness.memories import Memory, Pointer, launched, memory_of
from vdev.harness.program import Kernel
from vdev.harness.running import open_session
from vdev.harness.screening import Screen
from vdev.harness.small import FLEETING

#: Kinds that are looked for on request are looked for without a screen, and whether results depend on the order otherwise.
SCREENED = [pair for pair in PAIRS if pair.kind not in ON_REQUEST | {"order-dependent"}]
#: What stands at the beginning of a line and declares a name.
_NAMES = re.compile(r"^(?:typedef .*\} (\w+);|[a-z][\w \*]*?\b(\w+)(?:\(|\[| =))", re.MULTILINE)
_SMALL = re.compile(r"char|short|half|uchar")


def lowered(source: str) -> ParsedProgram:
    """A program as it is checked: images are buffers with descriptors."""
    return lower_images(parse_program(source)).program


def has_fast_form(source: str) -> bool:
    """Whether a kernel has one where it stands alone: a helper function without one would keep it from all others."""
    program = Screen(Forms(lambda: lowered(source))).program
    return program is not None and bool(program.kernels)


def kind_of(pair: Pair, side: str) -> tuple[bool, bool]:
    """What a pair's program has in common: whether it has small types; whether a launch looks for what nobody has written, for which
    there is a form of its own.
    """
    unwritten = any(isinstance(arg, Empty) for arg in pair.args)
    return bool(_SMALL.search(getattr(pair, side))), unwritten


@cache
def together(kind: tuple[bool, bool]) -> tuple[str, dict[str, str]]:
    """All pairs of a kind in one program, so that it is built once: (text, kernels' names by pair and side)."""
    texts, kernels = [], {}
    for number, pair in enumerate(PAIRS):
        for side, source in (("faulty", pair.faulty), ("twin", pair.twin)):
            if pair.options or kind_of(pair, side) != kind or not has_fast_form(source):
                continue
            suffix = f"_{number}_{side}"
            names = {match[1] or match[2] for match in _NAMES.finditer(source)}
            texts.append("".join(f"#define {name} {name}{suffix}\n" for name in sorted(names)))
            texts.append(f"{source}\n" + "".join(f"#undef {name}\n" for name in sorted(names)))
            kernels[pair.name + side] = f"k{suffix}"
    return "".join(texts), kernels


@cache
def program(kind: tuple[bool, bool]) -> tuple[Program, Screen]:
    text, _ = together(kind)
    return Program(text), Screen(Forms(lambda: lowered(text)))


def passes(pair: Pair, side: str) -> bool | None:
    """Whether a launch of the pair passes the screen; None where its kernel has no fast form."""
    kind = kind_of(pair, side)
    _, kernels = together(kind)
    if pair.name + side not in kernels:
        return None
    whole, screen = program(kind)
    kernel: Kernel = whole.kernel(kernels[pair.name + side])
    infos, parsed = kernel._kernel.declared.args, kernel._kernel.program.parsed
    assert parsed is not None
    assert screen.program is not None
    if kernel.name not in screen.program.kernels:
        return None
    ready = prepare(kernel.name, infos, element_types(parsed, kernel.name), pair.args)
    args = launched(ready, [memory_of(arg) for arg in ready])
    grid = kernel._ndrange(pair.global_size, pair.local_size, None)
    found: bool = open_session("cpu:1").executor.call(
        0, lambda backend: screen.passes(backend, kernel.name, args, grid)
    )
    return found


def test_no_mistake_passes() -> None:
    found = {pair.name: passes(pair, "faulty") for pair in SCREENED}

    assert [name for name, passed in found.items() if passed] == []
    assert sum(passed is not None for passed in found.values()) > 0.75 * len(SCREENED)


#: Atomics leave no mark of whom they are: beside other accesses, behind a barrier too, a launch is made again.
BESIDE_ATOMICS = [
    "a counter in global memory that nobody has set to zero",
    "a start value beside atomics",
    "reading what atomics make, too early",
]
#: So is one that copies a structure of which not all is written, whether or not the rest of it is wanted.
OF_MEMBERS = [
    "a copy stored whole, one member set on the way",
    "a member of a copy in a loop, used",
    "a member of a copy out of local memory, used",
]
#: So is one that reads what nobody has written, and drops it.
OF_DROPPED = [
    "a tile's value kept in hand, used one too early",
    "a vector behind the end of what is filled, copied on and stored",
]


def test_correct_launches_pass() -> None:
    found = {pair.name: passes(pair, "twin") for pair in PAIRS}

    missed = sorted(name for name, passed in found.items() if passed is False)
    assert missed == sorted(OF_MEMBERS + OF_DROPPED + BESIDE_ATOMICS)


LOCAL_TABLES = """
kernel void k(global const int *puts, global const int *gets, global const int *more, global int *out) {
  local int t[64];
  int l = get_local_id(0), i = get_global_id(0), sum = 0;
  t[l] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (puts[l] >= 0) t[puts[l]] = l;
  if (gets[l] >= 0) sum += t[gets[l]];
  if (more[l] >= 0) t[more[l]] += l;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = sum + t[l];
}"""
GLOBAL_TABLES = """
kernel void k(global const int *puts, global const int *gets, global const int *more, global int *t) {
  int i = get_global_id(0), sum = 0;
  if (puts[i] >= 0) t[puts[i]] = i;
  if (gets[i] >= 0) sum += t[gets[i]];
  if (more[i] >= 0) t[more[i]] += sum;
}"""


LOCALLY, GLOBALLY = (
    GLOBAL_TABLES.replace("\n  if (gets", f"\n  barrier({fence});\n  if (gets").replace(
        "\n  if (more", f"\n  barrier({fence});\n  if (more"
    )
    for fence in ("CLK_LOCAL_MEM_FENCE", "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE")
)


def tables(random: np.random.Generator, conflicts: int) -> list[np.ndarray]:
    """By work-item, the element that each of three accesses goes to, or -1: disjoint but for some `conflicts` of them."""
    places, own = random.permutation(64).astype(np.int32), random.integers(0, 3, 64)
    found = [np.where((own == kind) | (random.random(64) < 0.3), places, -1) for kind in range(3)]
    for _ in range(conflicts):
        found[random.integers(3)][random.integers(64)] = random.integers(64)
    return [each.astype(np.int32) for each in found]


ITEMS, GROUPS = np.arange(64), np.arange(64) // 16


def in_conflict(accesses: list[np.ndarray], who: np.ndarray) -> bool:
    """Whether two of `who` meet at an element and one of them writes; the second of the accesses only reads."""
    for place in range(64):
        users = [set(who[each == place].tolist()) for each in accesses]
        if (users[0] | users[2]) and len(users[0] | users[1] | users[2]) > 1:
            return True
    return False


def in_conflict_between_fences(accesses: list[np.ndarray]) -> bool:
    """The same where work-items of a group meet within one access alone: there is a fence between any two."""
    nowhere = np.full(64, -1, np.int32)
    alone = [[a if k == j else nowhere for j in range(3)] for k, a in enumerate(accesses)]
    return in_conflict(accesses, GROUPS) or any(in_conflict(each, ITEMS) for each in alone)


@pytest.mark.parametrize(
    ("source", "local_size", "met"),
    [
        (LOCAL_TABLES, 64, lambda each: in_conflict(each, ITEMS)),
        (GLOBAL_TABLES, 16, lambda each: in_conflict(each, ITEMS)),
        (LOCALLY, 16, lambda each: in_conflict(each, ITEMS)),
        (GLOBALLY, 16, in_conflict_between_fences),
        (GLOBAL_TABLES, 1, lambda each: in_conflict(each, ITEMS)),
    ],
    ids=["local", "global", "wrong fence", "fence", "groups of one"],
)
def test_conflicts_by_brute_force(
    source: str, local_size: int, met: Callable[[list[np.ndarray]], bool]
) -> None:
    """Three accesses of each work-item go where tables say: what meets does not pass, and what does not meet does."""
    screen, precise = Screen(Forms(lambda: parse_program(source))), CheckedSource(parse_program(source))
    random = np.random.default_rng(7)
    counted = [0, 0]
    for number in range(120):
        accesses = tables(random, number % 3)
        memories = [Memory(each.view(np.uint8), np.ones(256, np.bool_)) for each in accesses]
        memories.append(Memory(np.zeros(256, np.uint8), np.ones(256, np.bool_)))
        args = [Pointer(memory, 0, 256) for memory in memories]
        grid = NDRange((64,), (local_size,), (0,))
        passed = open_session("cpu:1").executor.call(
            0, lambda backend, args=args, grid=grid: screen.passes(backend, "k", args, grid)
        )
        meeting = met(accesses)
        counted[meeting] += 1
        assert passed is not meeting, [each.tolist() for each in accesses]
        if number % 4 == 0:  # the precise form says the same, whose launches take longer
            memories[3].content[:] = 0
            checked = open_session("cpu:1").executor.call(
                0, lambda backend, args=args, grid=grid: precise.precisely(backend, "k", args, grid)
            )
            assert bool(checked.findings) is meeting, ([each.tolist() for each in accesses], checked)
    assert min(counted) > 20, counted


@pytest.mark.parametrize(
    "source", [LOCAL_TABLES, GLOBAL_TABLES, LOCALLY], ids=["local", "global", "wrong fence"]
)
def test_conflicts_of_two_items_side_by_side(source: str) -> None:
    """Engines run some work-items in step: what two of them do at once is seen like what they do one after the other."""
    screen = Screen(Forms(lambda: parse_program(source)))
    grid = NDRange((64,), (64,), (0,))
    for first, second in [(a, b) for a in range(0, 32, 3) for b in range(0, 32, 5) if a != b]:
        for both, then in ((0, None), (1, 2), (2, None)):
            accesses = [np.full(64, -1, np.int32) for _ in range(3)]
            accesses[both][[first, second]] = 5
            if then is not None:
                accesses[then][second] = 5
            memories = [Memory(each.view(np.uint8), np.ones(256, np.bool_)) for each in accesses]
            memories.append(Memory(np.zeros(256, np.uint8), np.ones(256, np.bool_)))
            args = [Pointer(memory, 0, 256) for memory in memories]
            passed = open_session("cpu:1").executor.call(
                0, lambda backend, args=args: screen.passes(backend, "k", args, grid)
            )
            assert not passed, (first, second, both, then)


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_small_launches_are_optimised_where_many_are_expected(many: bool) -> None:
    checked = CheckedSource(parse_program("kernel void k(global int *a) { a[get_global_id(0)] = 1; }"))
    if many:
        checked.expect_many("k")
    options: list[str] = []

    def launch(backend: Any) -> None:
        build = backend.build
        backend.build = lambda program: (options.extend(program.options), build(program))[1]
        try:
            args = [Pointer(Memory(np.zeros(256, np.uint8), np.ones(256, np.bool_)), 0, 256)]
            checked.launch(backend, "k", args, NDRange((64,), (16,), (0,)))
        finally:
            del backend.build

    open_session("cpu:1").executor.call(0, launch)
    assert options
    assert (FLEETING in options) is not many


def test_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "kernel void k(global char *a) { a[get_global_id(0) + 1] = 1; }"
    monkeypatch.setenv("VDEV_CHECK_MEMORY", "64K")
    outputs = Program(source).k(np.zeros(64_001, np.int8), global_size=64_000)

    (note,) = outputs.notes
    assert note[0] == 1
    assert re.search(
        r"accesses are not checked: it would take [\d.]+ MB .* the limit is 0\.1 MB \(VDEV_CHECK_MEMORY\)",
        note[1],
    )
