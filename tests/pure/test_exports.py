"""`__all__` of a package says what of it is for others: every name is there, and others use no module besides."""

from __future__ import annotations

import ast
import importlib
from functools import cache

import pytest

from tests.pure.house import MODULES, imports

PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}
#: for people, entry points and tools, not for other packages
FOR_OTHERS = {
    "vdev": {"__version__", "stats"},
    "vdev.backends": {"reference"},  # the seam's executable definition
    "vdev.cli": {"info"},
    "vdev.facade": {"stand_in"},  # found by the start-up hook
    "vdev.harness": {  # for tests of kernels, loaded when first asked for
        "ArgumentError",
        "Call",
        "Finding",
        "FindingsError",
        "Outputs",
        "Program",
        "assert_allclose",
        "assert_equal",
        "empty",
        "image",
        "local",
        "sampler",
    },
    "vdev.icd": {
        "entry",
        "functions",
        "joining",
    },  # called by the library, read by its build, found by handles
    "vdev.observe": {"explain", "trace"},  # found by name where somebody asks for them
    "vdev.packaging": {"backend"},
    "vdev.start": {"workers"},
    "vdev.translators": {"cuda", "source"},  # for scripts
}


def package_of(module: str) -> str:
    return module if module in PACKAGES else module.rpartition(".")[0]


@cache
def declared(module: str) -> list[str]:
    """What `__all__` of a module lists; empty where it has none."""
    text = MODULES[module].read_text()
    if "__all__" not in text:
        return []
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                names: list[str] = ast.literal_eval(node.value)
                return names
    return []


@cache
def used_by_others() -> dict[str, set[str]]:
    """By package: its modules that modules of other packages import."""
    found: dict[str, set[str]] = {package: set() for package in PACKAGES}
    for name, path in MODULES.items():
        for _, module in imports(name, path):
            if module in MODULES and module not in PACKAGES and package_of(module) != package_of(name):
                package, _, last = module.rpartition(".")
                found[package].add(last)
    return found


def defined_in(package: str) -> set[str]:
    """What a package's own module imports from its modules, for others."""
    path = MODULES[package]
    return {
        alias.asname or alias.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ImportFrom) and (node.level == 1 or (node.module or "").startswith(package))
        for alias in node.names
    }


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_package_says_what_is_for_others(package: str) -> None:
    assert set(declared(package)) == used_by_others()[package] | FOR_OTHERS.get(package, set()) | defined_in(
        package
    )


@pytest.mark.parametrize("module", sorted(name for name in MODULES if declared(name)))
def test_the_names_exist(module: str) -> None:
    loaded = importlib.import_module(module)
    missing = [
        name for name in declared(module) if not hasattr(loaded, name) and f"{module}.{name}" not in MODULES
    ]
    assert not missing
    assert len(set(declared(module))) == len(declared(module))
