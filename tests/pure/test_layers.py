"""Imports point one way, and PyOpenCL is known to the façade and to native workers alone (design,
"Layout")."""

from __future__ import annotations

import ast
import configparser
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: From the bottom up. A part may import itself and whatever stands on a lower line, for type checkers, too.
LAYERS = (
    {"translators", "process", "packaging"},
    {"boot", "planner", "backends"},
    {"executor"},
    {"observe"},
    {"session"},
    {"check"},
    {"start"},
    {"facade"},
    {"cli", "__main__"},
)
#: The same within the translators.
TRANSLATORS = ({"ranges"}, {"symbolic"}, {"frontend"}, {"interpreter", "dialects"})
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
#: The planner is pure: what it decides depends on its arguments alone (a lock guards what it has interned).
IMPURE = {"asyncio", "ctypes", "io", "logging", "multiprocessing", "os", "pathlib", "random", "socket", "subprocess", "sys", "tempfile", "time"}  # fmt: skip  # noqa: E501
KNOW_PYOPENCL = ("vdev.facade", "vdev.backends.opencl")


def _modules() -> dict[str, Path]:
    """Every module of the distribution by its installed name."""
    found = {}
    for folder, prefix in (("vdev", ()), ("translators", ("vdev",))):
        for path in (ROOT / folder).rglob("*.py"):
            parts = (*prefix, *path.relative_to(ROOT).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _imports(name: str, path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of everything that a module imports at any time, also for type checkers alone."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in MODULES else base
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("importlib.import_module", "__import__")
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def _part(module: str) -> str:
    return module.split(".")[1] if module.startswith("vdev.") else ""


def _translator(module: str) -> str:
    """The translators' package that a module is in; empty for what is none of theirs."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["translators"] and len(parts) > 2 else ""


def test_there_is_something_to_check():
    assert {"vdev", "vdev.facade.stand_in", "vdev.session.session", "vdev.translators.ranges.region"} <= set(MODULES)
    assert sum(1 for _ in _imports("vdev.session.session", MODULES["vdev.session.session"])) > 5


def test_every_part_has_its_layer():
    assert {_part(name) for name in MODULES} - {""} == set(RANK)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_point_one_way(name):
    wrong = [
        f"line {line}: {module}"
        for line, module in _imports(name, MODULES[name])
        if module.startswith("vdev.")
        and _part(module) != _part(name)
        and not RANK[_part(module)] < _rank(name)
    ]
    assert not wrong


@pytest.mark.parametrize("name", sorted(name for name in MODULES if _translator(name)))
def test_imports_of_translators_point_one_way(name):
    ranks = {package: rank for rank, packages in enumerate(TRANSLATORS) for package in packages}
    wrong = [
        f"line {line}: {module}"
        for line, module in _imports(name, MODULES[name])
        if _part(module) == "translators"
        and _translator(module) != _translator(name)
        and not ranks[_translator(module)] < ranks[_translator(name)]
    ]
    assert not wrong


def _rank(name: str) -> int:
    """A module of no part is the package itself, which imports anything, when it is asked to."""
    return RANK[_part(name)] if _part(name) else len(LAYERS)


@pytest.mark.parametrize("name", sorted(name for name in MODULES if _part(name) == "planner"))
def test_the_planner_is_pure(name):
    assert not {module.partition(".")[0] for _, module in _imports(name, MODULES[name])} & IMPURE


@pytest.mark.parametrize("name", sorted(name for name in MODULES if not name.startswith(KNOW_PYOPENCL)))
def test_who_knows_pyopencl(name):
    assert not [
        module for _, module in _imports(name, MODULES[name]) if module.partition(".")[0] == "pyopencl"
    ]


def test_every_package_is_packaged():
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert set(config["options"]["packages"].split()) == packages
