"""What the house counts, in this checkout and in others: `python -m tests.pure.house_counts [[NAME=]FOLDER ...] [--write FILE]`.

For each checkout a drawing of the imports between its packages (a module at the root of one is a package by itself), less
those that follow from others, and how many there are of: modules at each root, modules that import each other in rings
(for type checkers, too), within a package and through several, accesses to other objects' private names, places where the
translators tell kinds of nodes and operators apart by text, lines, and functions over 40 lines.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.pure.house import ROOT, find_modules, imports
from tests.pure.test_reaches import reaches
from tests.pure.typed_trees import found_in

Graph = dict[str, set[str]]
#: lines of a long function
LONG = 40


def graph_of(modules: Mapping[str, Path]) -> Graph:
    """By module, the modules of the distribution that it imports."""
    return {
        name: {other for _, other in imports(name, path, modules) if other in modules} - {name}
        for name, path in modules.items()
    }


def reached(graph: Graph, start: str) -> set[str]:
    """What can be reached from there by one import or more."""
    found: set[str] = set()
    pending = [start]
    while pending:
        new = graph.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def in_rings(graph: Graph) -> dict[str, bool]:
    """The modules that import themselves through others; whether the ring goes through more than one package."""
    far = {name: reached(graph, name) for name in graph}
    return {
        name: any(package_of(other) != package_of(name) and name in far[other] for other in far[name])
        for name in graph
        if name in far[name]
    }


def package_of(module: str) -> str:
    """`vdev.executor.worker` is in `executor`, `vdev.translators.frontend.clang` in `translators/frontend`."""
    parts = module.split(".")[1:]
    if parts[:1] == ["translators"]:
        return "/".join(parts[:2])
    return parts[0] if parts else "vdev"


def drawing(graph: Graph) -> str:
    """The imports between packages, less those that follow from others, as a Mermaid flowchart; rings stay whole."""
    between: Graph = {}
    for name, others in graph.items():
        package = package_of(name)
        between.setdefault(package, set()).update({package_of(other) for other in others} - {package})
    far = {package: reached(between, package) for package in between}
    lines = ["flowchart TD"]
    for package, others in sorted(between.items()):
        direct = {
            other
            for other in others
            if not any(other in far[near] and package not in far[near] for near in others - {other})
        }
        lines += [f"    {_node(package)} --> {_node(other)}" for other in sorted(direct)]
    return "\n".join(lines)


def _node(package: str) -> str:
    return package.strip("_").replace("/", "_") + f"[{package}]"


def counts(root: Path) -> dict[str, int]:
    """By what is counted, how many there are in a checkout."""
    modules = find_modules(root)
    rings = in_rings(graph_of(modules))
    texts = {name: path.read_text() for name, path in modules.items()}
    lengths = sorted(_lengths(texts.values()))
    translators = [text for name, text in texts.items() if name.startswith("vdev.translators")]
    return {
        "modules at the root of `vdev`": len(list((root / "vdev").glob("*.py"))),
        "modules at the root of `translators`": len(list((root / "translators").glob("*.py"))),
        "modules": len(modules),
        "modules in rings through several packages": sum(rings.values()),
        "modules in rings within a package": len(rings) - sum(rings.values()),
        "accesses to private names of others": sum(
            len(list(reaches(text, name))) for name, text in texts.items()
        ),
        "kinds told apart by text or place": sum(
            len(list(found_in(ast.parse(text)))) for text in translators
        ),
        "lines": sum(text.count("\n") for text in texts.values()),
        "functions": len(lengths),
        "lines that 95 % of them do not exceed": lengths[int(0.95 * len(lengths))],
        f"functions over {LONG} lines": sum(length > LONG for length in lengths),
    }


def _lengths(texts: Iterable[str]) -> Iterator[int]:
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                yield node.end_lineno - node.lineno + 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folders", nargs="*", metavar="[NAME=]FOLDER", help="other checkouts, the oldest first"
    )
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args()
    named = [text.rpartition("=") for text in options.folders]
    roots = [*(Path(folder) for _, _, folder in named), ROOT]
    found = [counts(root) for root in roots]
    names = [name or f"checkout {number}" for number, (name, _, _) in enumerate(named, 1)] + ["now"]
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    lines += [f"| {what} | " + " | ".join(str(each[what]) for each in found) + " |" for what in found[0]]
    for name, root in zip(names, roots, strict=True):
        lines += [
            "",
            f"## {name.capitalize()}",
            "",
            "```mermaid",
            drawing(graph_of(find_modules(root))),
            "```",
        ]
    text = "\n".join(lines)
    print(text)
    if options.write is not None:
        head = "# The house\n\nMade by `python -m tests.pure.house_counts 0.1.0=FOLDER`, where FOLDER is a checkout of vdev 0.1.0."
        options.write.write_text(f"{head}\n\n{text}\n")


if __name__ == "__main__":
    main()
