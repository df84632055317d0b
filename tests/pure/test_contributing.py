"""What the pages for readers name is there: files, folders, links, modules that commands run, their options, switches."""

from __future__ import annotations

import configparser
import functools
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.pure import fake_cuda
from tests.pure.house import MODULES, ROOT
from vdev.harness import plugin
from vdev.process import switches

RESULTS = "samples/benchmarks/results/README.md"
PAGES = (
    "CONTRIBUTING.md",
    "README.md",
    "samples/README.md",
    RESULTS,
    "tests/fuzz/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "samples" / "guide").glob("*.md"))),
)
#: what the pages call files of the reader's own
READERS_OWN = {"script.py", "program.py", "square.py", "kernel.cl"}
#: options of programs that are not vdev's: pytest's and compute-sanitizer's
FOREIGN_OPTIONS = {"--dist", "--tool", "--error-exitcode", "--leak-check"}
#: modules with a command line that others of ours call
RUN_BY_OTHERS = {
    "samples/benchmarks/latency_cupy.py",
    "samples/benchmarks/measure.py",
    "tests/fuzz/child.py",
    "tests/fuzz/cuda_child.py",
}
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


def _is_there(path: Path) -> bool:
    """A file or folder, or what several files are called before the suffix (`--write`)."""
    return path.exists() or any(path.parent.glob(f"{path.name}.*"))


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
        and not (page == RESULTS and name.startswith("test_"))  # PyOpenCL's and loopy's
    }
    assert not [path for path in named if not any(_is_there(folder / path) for folder in _folders(page))]


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


def test_variables_that_tests_read_are_in_one_table() -> None:
    """Both ways round. None is called like a switch: `tests/conftest.py` takes these away."""
    section = (
        (ROOT / "CONTRIBUTING.md").read_text().partition("### Variables of tests")[2].partition("\n## ")[0]
    )
    table = set(re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE))
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    driver = (ROOT / "tests" / "pure" / "fake_cuda" / "driver.cc").read_text()
    numbers = {name for text in texts for name in re.findall(r"int\(os\.environ\.get\(\"(\w+)\"", text)}
    asked = set(re.findall(r"\b(?:getenv|number_in)\(\"(FAKE_CUDA_\w+)\"", driver))
    assert len(numbers) > 4
    assert len(asked) > 8
    assert numbers | asked | {fake_cuda.PLANTED} == table
    assert not [name for name in table if name.startswith("VDEV")]


def _drawing() -> str:
    return (ROOT / "CONTRIBUTING.md").read_text().partition("## A command's way")[2].partition("\n## ")[0]


def test_the_drawing_of_a_command_names_what_is_there() -> None:
    parts = "|".join(path.name for path in (ROOT / "vdev").iterdir() if path.is_dir())
    modules = set(re.findall(rf"\b(?:{parts})/[\w/]+(?:\.c)?", _drawing()))
    assert len(modules) > 30
    paths = [ROOT / "vdev" / module for module in modules]
    assert not [path for path in paths if not path.exists() and not path.with_suffix(".py").exists()]
    methods = re.findall(r"\b([A-Z]\w+)\.([a-z_]+)\b", _drawing())
    text = "\n".join(path.read_text() for path in (ROOT / "vdev").rglob("*.py"))
    assert methods
    assert not [
        (owner, method) for owner, method in methods
        if f"class {owner}" not in text or not re.search(rf"def {method}\b", text)
    ]  # fmt: skip


def test_every_module_with_its_own_command_line_is_documented() -> None:
    text = " ".join(_code("CONTRIBUTING.md") + _code("samples/README.md"))
    runnable = {
        path.relative_to(ROOT)
        for folder in ("tests", "samples/benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^    sys\.exit\(main\(\)\)|^    main\(\)$", path.read_text(), re.MULTILINE)
        and "argparse" in path.read_text()
    }
    assert len(runnable) > 8
    missing = set()
    for path in runnable:
        module = ".".join((path.parent if path.stem == "__main__" else path.with_suffix("")).parts)
        names = (rf"python3? -m {re.escape(module)}(?![.\w])", rf"benchmarks/{path.name}")
        if not any(re.search(name, text) for name in names):
            missing.add(str(path))
    assert missing == RUN_BY_OTHERS


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_are_named_are_installed(page: str) -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    scripts = config["options.entry_points"]["console_scripts"]
    installed = {line.split("=")[0].strip() for line in scripts.split("\n") if line}
    assert {
        name for code in _code(page) for name in re.findall(r"(?<![\w.-])vdev-[a-z]+\b", code)
    } <= installed


@pytest.mark.parametrize("page", PAGES)
def test_statements_that_are_named_run(page: str) -> None:
    for code in _code(page):
        for statement in re.findall(r'python3? -c "([^"]+)"', code):
            subprocess.run([sys.executable, "-c", statement], check=True, stdout=subprocess.DEVNULL)


def _resolves(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something that the text of a module mentions."""
    parts = name.split(".")
    for count in range(len(parts), 1, -1):
        module = ".".join(parts[:count])
        if module in MODULES:
            return count == len(parts) or parts[count] in re.findall(r"\w+", MODULES[module].read_text())
    return False


@pytest.mark.parametrize("name", sorted(MODULES))
def test_modules_named_in_comments_and_docstrings_exist(name: str) -> None:
    text = MODULES[name].read_text()
    roots = (ROOT, ROOT / "translators")
    files = re.findall(r"\b((?:vdev|tests|samples|translators|include)/[\w./]*\w\.\w+)", text)
    assert not [file for file in files if not any((root / file).exists() for root in roots)]
    modules = [dotted for dotted in re.findall(r"`(vdev(?:\.\w+)+)`", text) if dotted != "vdev.pth"]
    assert not [module for module in modules if not _resolves(module)]


def test_the_readme_is_short() -> None:
    """Under 900 words; its first screen has what the project is, a program, the command and its output."""
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) < 900
    screen = text.splitlines()[:40]
    assert screen[2].startswith("**One OpenCL device")
    fences = [line for line in screen if line.startswith("```")]
    assert [fence.removeprefix("```") for fence in fences if fence != "```"] == ["python", "sh", "text"]
    assert fences[-1] == "```", "the output ends on the first screen"


def test_invariants_that_are_named_exist() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Invariants")[2].partition("\n## ")[0]
    known = set(re.findall(r"^(\d+)\.", section, re.MULTILINE))
    named = {
        number
        for path in MODULES.values()
        for some in re.findall(r"[Ii]nvariants? ((?:\d+(?:, | and )?)+)", path.read_text())
        for number in re.findall(r"\d+", some)
    }
    assert len(named) > 5
    assert named <= known
