"""Which accesses of the tests' and samples' kernels analysis sees exactly:

    python -m tests.pure.exactness [--translators FOLDER] [FILE]

Every OpenCL C program in a string of tests/ and samples/ that needs no macros; every kernel of it with NDRanges of one
to three dimensions, whole and cut in four, and two numbers for its integer arguments. One line for each access; with
FILE, the lines of another run, only those that differ, and exit status 1 where something was exact there and is not here.
`--translators`: the analysis is that of another version, whose folder `translators` this is.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
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


THIS = SimpleNamespace(
    parse_program=parse_program,
    CompileError=CompileError,
    analyse_kernel=analyse_kernel,
    Chunk=Chunk,
    whole_chunk=whole_chunk,
    ranges=RANGES,
)


def version_in(folder: Path) -> SimpleNamespace:
    """The analysis of another version, in the place of this one's: `vdev.translators` is that folder from now on."""
    for name in [name for name in sys.modules if name.split(".")[:2] == ["vdev", "translators"]]:
        del sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        "vdev.translators", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules["vdev.translators"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)

    def module(name: str, defines: str) -> Any:
        """The module of that name which defines that function, wherever it is."""
        path = next(path for path in folder.rglob(f"{name}.py") if f"\ndef {defines}(" in path.read_text())
        return importlib.import_module(
            ".".join(("vdev.translators", *path.relative_to(folder).with_suffix("").parts))
        )

    source, access = module("source", "parse_program"), module("access", "analyse_kernel")
    ndrange = module("ndrange", "whole_chunk")
    ranges = [
        ndrange.NDRange(each.global_size, each.local_size, (0,) * len(each.global_size)) for each in RANGES
    ]
    return SimpleNamespace(
        parse_program=source.parse_program,
        CompileError=source.CompileError,
        analyse_kernel=access.analyse_kernel,
        Chunk=ndrange.Chunk,
        whole_chunk=ndrange.whole_chunk,
        ranges=ranges,
    )


def lines(version: Any = THIS) -> Iterator[tuple[str, bool]]:
    """(access, whether it is exact)."""
    for where, text in programs():
        try:
            program = version.parse_program(text)
        except version.CompileError:
            continue
        for name in program.kernels:
            for ndrange in version.ranges:
                for number in NUMBERS:
                    launch = f"{where} {name} {'x'.join(map(str, ndrange.global_size))} {number}"
                    for access, exact in accesses(program, name, ndrange, number, version):
                        yield f"{launch} {access}", exact


def accesses(
    program: Any, name: str, ndrange: NDRange, number: int, version: Any = THIS
) -> Iterator[tuple[str, bool]]:
    summary = version.analyse_kernel(program, name)
    args = program.kernels[name].args
    values: dict[int, Any] = {}
    for index in summary.scalars:
        if index >= len(args) or args[index].scalar is None:
            return  # images' sizes, vectors and structures
        values[index] = 1.5 if args[index].scalar in "efd" else number
    sizes = {index: NBYTES for index, arg in enumerate(args) if arg.kind in ("global", "constant")}
    whole = version.whole_chunk(ndrange)
    last = whole.stop[-1] // 4
    quarters = [
        version.Chunk((*whole.start[:-1], part * last), (*whole.stop[:-1], (part + 1) * last))
        for part in range(4)
    ]
    for label, chunk in (("whole", whole), *((f"part {part}", each) for part, each in enumerate(quarters))):
        try:
            ranges = summary.evaluate(ndrange, chunk, values, sizes)
        except Exception as error:
            yield f"{label}: {type(error).__name__}", False
            continue
        for found in ranges:
            yield f"{label}: {found.mode} of argument {found.arg}", found.exact


def main() -> int:
    parser = argparse.ArgumentParser(description="Which accesses are exact.")
    parser.add_argument("--translators", type=Path, help="that folder of another version")
    parser.add_argument("file", type=Path, nargs="?", help="lines of another run")
    options = parser.parse_args()
    found = dict(lines(version_in(options.translators.resolve()) if options.translators else THIS))
    if options.file is None:
        for line, exact in found.items():
            print(f"{line}: {'exact' if exact else 'not exact'}")
        return 0
    worse = 0
    before = dict(line.rsplit(": ", 1) for line in options.file.read_text().splitlines())
    for line, exact in found.items():
        said = "exact" if exact else "not exact"
        if before.get(line, said) != said:
            print(f"{line}: {before[line]} before, {said} now")
            worse += not exact
    both = found.keys() & before.keys()
    exact_before = sum(before[line] == "exact" for line in both)
    exact_now = sum(found[line] for line in both)
    print(f"{len(both)} accesses in both: {exact_before} exact before, {exact_now} now, {worse} less exact")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
