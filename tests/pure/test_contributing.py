"""What the pages for readers name is there: files, folders, links, modules that commands run, their options, switches."""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path
from typing import Any, cast

import pytest

from tests.pure.house import ROOT
from vdev.harness import plugin
from vdev.process import switches

PAGES = (
    "CONTRIBUTING.md",
    "README.md",
    "samples/README.md",
    "tests/fuzz/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "samples" / "guide").glob("*.md"))),
)
#: what the pages call files of the reader's own
READERS_OWN = {"script.py", "program.py", "square.py", "kernel.cl"}
#: options of programs that are not vdev's: pytest's and pip's
FOREIGN_OPTIONS = {"--dist"}
#: where the options of a command are written
OWNERS = {"vdev-info": ("vdev/cli", "vdev/observe"), "vdev-check": ("vdev/cli", "vdev/harness")}


def _code(page: str) -> list[str]:
    """What stands in backquotes, in fences and in indented blocks."""
    text = (ROOT / page).read_text()
    fences = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    indented = re.findall(r"^    (\S.*)$", text, re.MULTILINE)
    return [
        *re.findall(r"`([^`\n]+)`", text),
        *(line for fence in fences for line in fence.splitlines()),
        *indented,
    ]


def _folders(page: str) -> tuple[Path, ...]:
    """Where a page's relative names may lead."""
    return (ROOT, (ROOT / page).parent, ROOT / "samples" / "benchmarks")


class _Parser:
    """Takes the plugin's options as pytest's parser does, and keeps their names."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def getgroup(self, *names: str) -> _Parser:
        return self

    def addoption(self, *names: str, **settings: Any) -> None:
        self.names.update(names)

    def addini(self, name: str, *settings: Any, **more: Any) -> None:
        self.names.add(name)


@functools.cache
def _pytest_names() -> frozenset[str]:
    """What the plugin adds to pytest's command line and configuration file."""
    parser = _Parser()
    plugin.pytest_addoption(cast("pytest.Parser", parser))
    return frozenset(parser.names)


@functools.cache
def _options_in(folder: Path) -> frozenset[str]:
    """Options that the Python files of a folder write as strings."""
    return frozenset(
        option
        for path in ([folder] if folder.is_file() else folder.rglob("*.py"))
        for option in re.findall(r"[\"' ](--[a-z][\w-]*)", path.read_text())
    )


def _owners(code: str) -> tuple[Path, ...]:
    """The files or folders that define the options of a command; all of vdev for an option that stands alone."""
    if module := re.search(r"python3? -m ((?:tests|samples)[\w.]+)", code):
        path = ROOT.joinpath(*module[1].split("."))
        return (path,) if path.is_dir() else (path.with_suffix(".py"),)
    if script := re.search(r"python3? (samples/[\w/]+\.py)", code):
        return (ROOT / script[1], (ROOT / script[1]).parent / "common.py")
    command = re.search(r"\bvdev-(?:info|check)\b", code)
    return tuple(
        ROOT / folder for folder in (OWNERS[command[0]] if command else ("vdev", "tests", "samples"))
    )


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    tops = {path.name for folder in _folders(page) for path in folder.iterdir() if path.is_dir()}
    named = {
        path
        for code in _code(page)
        for path in re.findall(r"(?<![\w./~-])(?:\.?\w+/)+[\w./]*", code)
        if path.split("/")[0] in tops and path.split("/")[0] != "."
    }
    named |= {
        name
        for code in _code(page)
        for name in re.findall(r"(?<![\w./%-])\w+\.(?:py|cl)\b", code)
        if name not in READERS_OWN
    }
    assert not [path for path in named if not any((folder / path).exists() for folder in _folders(page))]


def test_files_are_named() -> None:
    """The patterns above find something: a page of nothing but prose would pass."""
    code = " ".join(_code("CONTRIBUTING.md") + _code("samples/README.md"))
    assert "vdev/process/switches.py" in code
    assert "benchmarks/upload.py" in code


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    assert not [
        target
        for target in targets
        if not target.startswith("https://") and not ((ROOT / page).parent / target).exists()
    ]


def test_modules_that_commands_run_exist() -> None:
    modules = {
        module
        for page in PAGES
        for code in _code(page)
        for module in re.findall(r"python3? -m ([\w.]+)", code)
    }
    assert len(modules) > 10
    assert not [module for module in modules if importlib.util.find_spec(module) is None]


@pytest.mark.parametrize("page", PAGES)
def test_options_that_are_named_exist(page: str) -> None:
    wrong = [
        (option, code)
        for code in _code(page)
        for option in re.findall(r"(?<![\w-])(--[a-z][\w-]*)", code)
        if option not in FOREIGN_OPTIONS | _pytest_names()
        and not any(option in _options_in(owner) for owner in _owners(code) if owner.exists())
    ]
    assert not wrong
    settings = set(re.findall(r"\bopencl_(?!program)[a-z_]+\b(?!\()", " ".join(_code(page))))
    assert settings <= _pytest_names()


@pytest.mark.parametrize("page", PAGES)
def test_switches_that_are_named_exist(page: str) -> None:
    known = {switch.name for switch in switches.SWITCHES}
    assert set(re.findall(r"\bVDEV(?:_[A-Z]+)*\b(?!_)", " ".join(_code(page)))) <= known


def test_every_module_with_a_command_line_of_its_own_is_told_of() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    runnable = {
        path
        for folder in ("tests", "samples/benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^    sys\.exit\(main\(\)\)|^    main\(\)$", path.read_text(), re.MULTILINE)
        and "argparse" in path.read_text()
    }
    assert len(runnable) > 8
    missing = [path for path in runnable if path.stem not in text and path.parent.name not in text]
    assert not missing
