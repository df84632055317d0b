"""Which accesses of the tests' and samples' kernels analysis sees exactly: `python -m tests.pure.exactness [FILE]`.

Every OpenCL C program in a string of tests/ and samples/ that needs no macros; every kernel of it with NDRanges of one
to three dimensions, whole and cut in four, and two numbers for its integer arguments. One line for each access; with
FILE, the lines of another run, only those that differ, and exit status 1 where something was exact there and is not here.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vdev.translators.frontend.source import CompileError, parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges.ndrange import Chunk, NDRange, whole_chunk

ROOT = Path(__file__).parents[2]
RANGES = (
    NDRange((4096,), (64,), (0,)),
    NDRange((128, 64), (8, 8), (0, 0)),
    NDRange((32, 16, 16), (4, 4, 4), (0, 0, 0)),
)
NUMBERS = (64, 1000)
NBYTES = 1 << 20


def programs() -> Iterator[tuple[str, str]]:
    """(where it stands, source) of every program."""
    for folder in ("tests", "samples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            texts = [
                node.value
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
            for number, text in enumerate(text for text in texts if "kernel void" in text and "{" in text):
                yield f"{path.relative_to(ROOT)}#{number}", text


def lines() -> Iterator[tuple[str, bool]]:
    """(access, whether it is exact)."""
    for where, text in programs():
        try:
            program = parse_program(text)
        except CompileError:
            continue
        for name in program.kernels:
            for ndrange in RANGES:
                for number in NUMBERS:
                    launch = f"{where} {name} {'x'.join(map(str, ndrange.global_size))} {number}"
                    for access, exact in accesses(program, name, ndrange, number):
                        yield f"{launch} {access}", exact


def accesses(program: Any, name: str, ndrange: NDRange, number: int) -> Iterator[tuple[str, bool]]:
    summary = analyse_kernel(program, name)
    args = program.kernels[name].args
    values: dict[int, Any] = {}
    for index in summary.scalars:
        if index >= len(args) or args[index].scalar is None:
            return  # images' sizes, vectors and structures
        values[index] = 1.5 if args[index].scalar in "efd" else number
    sizes = {index: NBYTES for index, arg in enumerate(args) if arg.kind in ("global", "constant")}
    whole = whole_chunk(ndrange)
    last = whole.stop[-1] // 4
    quarters = [
        Chunk((*whole.start[:-1], part * last), (*whole.stop[:-1], (part + 1) * last)) for part in range(4)
    ]
    for label, chunk in (("whole", whole), *((f"part {part}", each) for part, each in enumerate(quarters))):
        try:
            ranges = summary.evaluate(ndrange, chunk, values, sizes)
        except Exception as error:
            yield f"{label}: {type(error).__name__}", False
            continue
        for found in ranges:
            yield f"{label}: {found.mode} of argument {found.arg}", found.exact


def main(other: str | None = None) -> int:
    found = dict(lines())
    if other is None:
        for line, exact in found.items():
            print(f"{line}: {'exact' if exact else 'not exact'}")
        return 0
    worse = 0
    before = dict(line.rsplit(": ", 1) for line in Path(other).read_text().splitlines())
    for line, exact in found.items():
        said = "exact" if exact else "not exact"
        if before.get(line, said) != said:
            print(f"{line}: {before[line]} before, {said} now")
            worse += not exact
    both = found.keys() & before.keys()
    print(f"{len(both)} accesses in both, {sum(found.values())} exact now, {worse} less exact than before")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
