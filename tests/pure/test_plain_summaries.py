"""Summaries that were written down and read back say what they said before: node by node, and in the ranges they give."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from vdev.translators.frontend.source import CompileError, ParsedProgram, parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.plain import plain_summary, summary_of_plain
from vdev.translators.interpreter.summaries import KernelSummary
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.symbolic import nodes
from vdev.translators.symbolic.nodes import Expr
from vdev.translators.symbolic.tables import Writer, read_table

from .exactness import RANGES, programs
from .fuzzing import random_chunk, random_ndrange
from .kernels import Generator

RANDOM_KERNELS = 100
#: of the programs in the tests' and samples' own texts, one in so many
EVERY = 4
#: what each kernel has of its own
OWN = nodes.Counter, nodes.Head, nodes.Exit, nodes.Unknown


def expressions(summary: KernelSummary) -> list[Expr]:
    """Those of all accesses and of the ways to them, in order."""
    found: list[Expr | None] = []
    for access in summary.accesses:
        found.append(access.offset)
        way: Any = access.way
        while way is not None:
            found += way.expr, way.counter
            way = way.parent
    return [expr for expr in found if expr is not None]


def compare_nodes(summary: KernelSummary) -> Counter[str]:
    """What is read is what was written, each row's node the twin of one node; how many of which kind there were."""
    writer = Writer()
    for expr in expressions(summary):
        writer.number(expr)
    rows = json.loads(json.dumps(writer.table()))
    nodes = read_table(rows)
    assert len(nodes) == len(writer.nodes) == len(set(nodes))
    twins = dict(zip(writer.nodes, nodes, strict=True))
    for one, two in twins.items():
        assert (type(one), one.lo, one.hi) == (type(two), two.lo, two.hi)
        assert fields(one, lambda node: twins[node]) == fields(two, lambda node: node)
        own = any(isinstance(leaf, OWN) for leaf in one.leaves)
        assert (one is two) == (not own)
        assert {twins[leaf] for leaf in one.leaves} == two.leaves
    return Counter(type(node).__name__ for node in nodes)


def fields(node: Expr, twin: Callable[[Expr], Expr]) -> Any:
    """All that makes a node, with the twins of its operands. Where their order says only which is older, there is none."""
    match node:
        case nodes.Sum():
            return node.constant, {twin(term): factor for term, factor in node.terms}
        case nodes.Product() | nodes.Minimum() | nodes.Maximum():
            return Counter(twin(part) for part in node.parts)
        case nodes.Exit():
            return [twin(part) for part in node.definition.parts], node.definition.exact
        case nodes.Cast():
            return twin(node.a), node.kind
        case nodes.Const():
            return node.number
        case nodes.WorkItem():
            return node.dimension
        case nodes.Argument():
            return node.index, node.byte, node.kind
        case nodes.Unknown():
            return node.origin
    return [twin(part) for part in node.parts]


def read_back(summary: KernelSummary) -> KernelSummary:
    """Through JSON. All but its expressions is compared here."""
    again = summary_of_plain(json.loads(json.dumps(plain_summary(summary))))
    for name in ("name", "one_worker", "scalars", "images", "addresses", "names", "merged"):
        assert getattr(summary, name) == getattr(again, name), name
    for access, twin in zip(summary.accesses, again.accesses, strict=True):
        for name in ("arg", "mode", "nbytes", "line", "op", "dtype", "reason", "grain", "names"):
            assert getattr(access, name) == getattr(twin, name), name
        assert ways(access) == ways(twin)
    return again


def ways(access: Any) -> list[Any]:
    found, way = [], access.way
    while way is not None:
        found.append((way.kind, way.text, way.line, way.depth))
        way = way.parent
    return found


def launches(rng: random.Random) -> list[tuple[NDRange, Chunk]]:
    spaces = (*RANGES, random_ndrange(rng))
    return [(space, random_chunk(rng, space)) for space in spaces]


def compare_ranges(program: ParsedProgram, name: str, rng: random.Random) -> Counter[str]:
    summary = analyse_kernel(program, name)
    counts = compare_nodes(summary)
    again = read_back(summary)
    sizes = {index: rng.choice((96, 4096, 1 << 20)) for index in range(len(program.kernels[name].args))}
    for space, chunk in launches(rng):
        for number in (0, 3, 1000):
            values: dict[int, Any] = dict.fromkeys(summary.scalars, number)
            for index in summary.scalars:
                info = program.kernels[name].args[index]
                if info.scalar is None:
                    values[index] = number.to_bytes(4, "little") * -(-info.nbytes // 4)
            found = summary.evaluate(space, chunk, values, sizes)
            assert again.evaluate(space, chunk, values, sizes) == found
            counts["ranges"] += len(found)
    return counts


def test_random_kernels() -> None:
    counts: Counter[str] = Counter()
    for seed in range(RANDOM_KERNELS):
        rng = random.Random(seed)
        kernel = Generator(rng, 1 + seed % 3).write()
        counts += compare_ranges(parse_program(kernel.c), "k", rng)
    assert counts["ranges"] > 1000
    wanted = ("Exit", "Counter", "Unknown", "Sum", "Cast", "Select", "Both")
    assert not [kind for kind in wanted if not counts[kind]]


@pytest.mark.parametrize("first", range(EVERY))
def test_kernels_of_tests_and_samples(first: int) -> None:
    counts: Counter[str] = Counter()
    for number, (_, text) in enumerate(programs()):
        if number % (EVERY * EVERY) != first:
            continue
        try:
            program = parse_program(text)
        except CompileError:
            continue
        for name in program.kernels:
            counts += compare_ranges(program, name, random.Random(number))
            counts["kernels"] += 1
    assert counts["kernels"] > 10
    assert counts["ranges"] > 100


SOURCE = """
kernel void k(global int *out, int n) {
    int i = get_global_id(0);
    while (i * i < n)
        ++i;
    out[i / 2] = min(i, n) * n;
}
"""


@pytest.mark.parametrize(
    "spoil",
    [
        lambda plain: plain.update(format=0),
        lambda plain: plain.pop("names"),
        lambda plain: plain["nodes"].append(["Lambda", 0, 0, 0]),
        lambda plain: plain["nodes"].append(["Sum", 0, 0, 0, [[-1, 2]]]),
        lambda plain: plain["nodes"].append(["Select", 0, 1, 0]),
        lambda plain: plain["accesses"][0].append(1),
        lambda plain: plain["ways"][0].__setitem__(1, "PERHAPS"),
        lambda plain: plain.update(nodes=[row for row in plain["nodes"] if row[0] != "Trips"]),
    ],
)
def test_what_is_no_summary_is_refused(spoil: Callable[[dict[str, Any]], Any]) -> None:
    plain = json.loads(json.dumps(plain_summary(analyse_kernel(parse_program(SOURCE), "k"))))
    summary_of_plain(plain)
    assert any(row[0] == "Trips" for row in plain["nodes"])
    spoil(plain)
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        summary_of_plain(plain)
