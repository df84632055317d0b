"""What CONTRIBUTING.md and the README name is there: files, folders, modules that commands run."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.pure.house import ROOT

PAGES = ("CONTRIBUTING.md", "README.md")


def _code(page: str) -> list[str]:
    """What stands in backquotes and in fences."""
    text = (ROOT / page).read_text()
    fences = re.findall(r"```(?:sh)?\n(.*?)```", text, re.DOTALL)
    return [*re.findall(r"`([^`\n]+)`", text), *(line for fence in fences for line in fence.splitlines())]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    named = {
        path
        for code in _code(page)
        for path in re.findall(r"(?<![\w./-])(?:\.?\w+/)+[\w./]*", code)
        if path.split("/")[0] in {"vdev", "translators", "tests", "samples", ".ci"}
    }
    assert len(named) > 1
    assert not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    assert targets
    assert not [
        target for target in targets if not target.startswith("https://") and not (ROOT / target).exists()
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
