"""Imports point one way, and only the façade and native workers know PyOpenCL (CONTRIBUTING, "Layers")."""

from __future__ import annotations

import ast
import configparser

import pytest

from tests.pure import house_counts
from tests.pure.house import (
    LAYERS,
    MODULES,
    RANK,
    ROOT,
    TRANSLATORS,
    drawing,
    imports,
    part_of,
    translator_of,
)

#: The planner is pure: what it decides depends on its arguments alone (a lock guards what it has interned).
IMPURE = {"asyncio", "ctypes", "io", "logging", "multiprocessing", "os", "pathlib", "random", "socket", "subprocess", "sys", "tempfile", "time"}  # fmt: skip  # noqa: E501
KNOW_PYOPENCL = ("vdev.facade", "vdev.backends.opencl")


def test_there_is_something_to_check():
    assert {"vdev", "vdev.facade.stand_in", "vdev.session.session", "vdev.translators.ranges.region"} <= set(
        MODULES
    )
    assert sum(1 for _ in imports("vdev.session.session", MODULES["vdev.session.session"])) > 5


def test_every_part_has_its_layer():
    assert {part_of(name) for name in MODULES} - {""} == set(RANK)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_point_one_way(name):
    wrong = [
        f"line {line}: {module}"
        for line, module in imports(name, MODULES[name])
        if module.startswith("vdev.")
        and part_of(module) != part_of(name)
        and not RANK[part_of(module)] < rank_of(name)
    ]
    assert not wrong


@pytest.mark.parametrize("name", sorted(name for name in MODULES if translator_of(name)))
def test_imports_of_translators_point_one_way(name):
    ranks = {package: rank for rank, packages in enumerate(TRANSLATORS) for package in packages}
    wrong = [
        f"line {line}: {module}"
        for line, module in imports(name, MODULES[name])
        if part_of(module) == "translators"
        and translator_of(module) != translator_of(name)
        and not ranks[translator_of(module)] < ranks[translator_of(name)]
    ]
    assert not wrong


def test_no_module_imports_itself_through_others():
    assert not house_counts.in_rings(house_counts.graph_of(MODULES))


def rank_of(name: str) -> int:
    """A module of no part is the package itself, which imports anything, when it is asked to."""
    return RANK[part_of(name)] if part_of(name) else len(LAYERS)


@pytest.mark.parametrize("name", sorted(name for name in MODULES if part_of(name) == "planner"))
def test_the_planner_is_pure(name):
    assert not {module.partition(".")[0] for _, module in imports(name, MODULES[name])} & IMPURE


@pytest.mark.parametrize("name", sorted(name for name in MODULES if not name.startswith(KNOW_PYOPENCL)))
def test_who_knows_pyopencl(name):
    assert not [
        module for _, module in imports(name, MODULES[name]) if module.partition(".")[0] == "pyopencl"
    ]


def test_every_package_is_packaged():
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert set(config["options"]["packages"].split()) == packages


def test_the_drawing_shows_the_house():
    assert f"```mermaid\n{drawing()}\n```" in (ROOT / "CONTRIBUTING.md").read_text()


def test_no_function_of_the_executor_is_long():
    """At most 40 lines each, docstrings included: it is read as often as it is run."""
    lengths = {
        f"{name}.{node.name}": node.end_lineno - node.lineno + 1
        for name, path in MODULES.items()
        if name.startswith("vdev.executor.")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert len(lengths) > 400
    assert {name: length for name, length in lengths.items() if length > 40} == {}


def test_an_account_alone_says_where_it_is_kept():
    """What was found of its buffers' launches has to be forgotten with it (`Account.keep_on`)."""
    found = {
        (name, function.name, node.attr)
        for name, path in MODULES.items()
        if name.startswith("vdev.session.")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr in ("keeper", "thrifty")
    }
    account = {
        ("vdev.session.accounts", name, each)
        for name in ("__init__", "keep_on")
        for each in ("keeper", "thrifty")
    }
    assert found == account | {("vdev.session.choosing", "__init__", "thrifty")}
