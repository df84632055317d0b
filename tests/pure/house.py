"""The shape of the house: its parts in ranks, and what imports what. `python -m tests.pure.house` prints the drawing that
CONTRIBUTING.md shows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: From the bottom up. A part may import itself and whatever stands on a lower line, for type checkers, too.
LAYERS = (
    {"translators", "process", "packaging", "errors"},
    {"boot", "planner", "backends"},
    {"executor"},
    {"observe"},
    {"session"},
    {"check"},
    {"start"},
    {"facade", "harness"},
    {"icd"},
    {"cli", "__main__"},
)
#: The same within the translators; on top what scripts import.
TRANSLATORS = (
    {"collecting", "native_code", "values"},
    {"ranges"},
    {"symbolic"},
    {"frontend"},
    {"interpreter", "dialects"},
    {"source", "cuda"},
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}


def find_modules(root: Path = ROOT) -> dict[str, Path]:
    """Every module of the distribution by its installed name."""
    found = {}
    for folder, prefix in (("vdev", ()), ("translators", ("vdev",))):
        for path in (root / folder).rglob("*.py"):
            parts = (*prefix, *path.relative_to(root).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = find_modules()


@cache
def _statements(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Call, ...]:
    """The statements and calls of a module that import something."""
    return tuple(
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Call) and _imports(node))
    )


def _imports(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="importlib"), attr="import_module") | ast.Name(id="__import__"):
            return isinstance(call.args[0], ast.Constant)
    return False


def imports(name: str, path: Path, modules: Mapping[str, Path] = MODULES) -> Iterator[tuple[int, str]]:
    """(line, module) of everything that a module imports at any time, also for type checkers alone."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _statements(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in modules else base
        elif isinstance(node.args[0], ast.Constant):
            yield node.lineno, str(node.args[0].value)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def part_of(module: str) -> str:
    return module.split(".")[1] if module.startswith("vdev.") else ""


def translator_of(module: str) -> str:
    """The translators' package that a module is in; empty for what is none of theirs."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["translators"] and len(parts) > 2 else ""


def drawing() -> str:
    """The parts and their imports, less those that follow from others, as a Mermaid flowchart."""
    wanted: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        part = part_of(name)
        if part in RANK:
            found = {part_of(module) for _, module in imports(name, path) if module.startswith("vdev.")}
            wanted.setdefault(part, set()).update(found & set(RANK) - {part})
    lines = ["flowchart TD"]
    for parts in reversed(LAYERS):
        for part in sorted(parts & set(wanted)):
            below = wanted[part]
            direct = below - {far for near in below for far in _reached(near, wanted)}
            lines += [f"    {part} --> {other}" for other in sorted(direct)] or [f"    {part}"]
    return "\n".join(line.replace("__main__", "main") for line in lines)


def _reached(part: str, wanted: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [part]
    while pending:
        for other in wanted.get(pending.pop(), set()) - found:
            found.add(other)
            pending.append(other)
    return found


if __name__ == "__main__":
    print(drawing())
