"""What the built distributions contain, and that installing and uninstalling them leaves what it should."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from vdev.packaging import library

ROOT = Path(__file__).parents[2]
COMPILED = (
    "vdev/icd/libvdev_opencl.so",
    "vdev/backends/libvdev_calls.so",
    "vdev/backends/libvdev_launches.so",
    "vdev/translators/ranges/libvdev_ranges.so",
)
BUILD = "import sys, backend; print(getattr(backend, sys.argv[1])(sys.argv[2]))"


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the tree: building leaves things behind."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("vdev", "translators"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def _built(tree: Path, kind: str, target: Path) -> Path:
    """Build as pip does, but with the setuptools at hand."""
    code = f"import sys; sys.path.insert(0, {str(tree / 'vdev/packaging')!r}); {BUILD}"
    done = subprocess.run([sys.executable, "-c", code, kind, str(target)], cwd=tree, text=True, capture_output=True, check=False)  # fmt: skip  # noqa: E501
    assert done.returncode == 0, done.stderr
    return target / done.stdout.split()[-1]


@pytest.fixture(scope="module", params=["build_wheel", "build_editable"])
def wheel(request, tree, tmp_path_factory) -> Path:
    return _built(tree, request.param, tmp_path_factory.mktemp("wheel"))


def test_the_whole_tree_is_in_the_wheel(tree, tmp_path):
    """And nothing else, such as a module that an earlier build left behind."""
    (tree / "build/lib/vdev").mkdir(parents=True, exist_ok=True)
    (tree / "build/lib/vdev/gone.py").touch()
    with zipfile.ZipFile(_built(tree, "build_wheel", tmp_path)) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    folders = ((tree / "vdev", "vdev"), (tree / "translators", "vdev/translators"))
    sources = {
        f"{prefix}/{path.relative_to(folder).as_posix()}"
        for folder, prefix in folders
        for path in folder.rglob("*")
        if path.suffix in (".py", ".h", ".cl", ".pth", ".typed", ".c")
    }
    compiled = set(COMPILED) if any(True for _ in library.compilers()) else set()
    assert names == sources | {"vdev.pth"} | compiled


@pytest.mark.skipif(not any(True for _ in library.compilers()), reason="there is no C compiler")
def test_a_wheel_with_compiled_libraries_says_its_platform(tree, tmp_path):
    wheel = _built(tree, "build_wheel", tmp_path)
    assert "-none-any" not in wheel.name
    with zipfile.ZipFile(wheel) as content:
        (about,) = (name for name in content.namelist() if name.endswith(".dist-info/WHEEL"))
        text = content.read(about).decode()
        assert f"-none-{wheel.stem.rpartition('-')[2]}" in text
        assert "Root-Is-Purelib: false" in text
        for name in COMPILED:
            assert content.read(name)[:4] == b"\x7fELF"


def test_a_wheel_without_a_compiler_is_for_all_platforms(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    wheel = _built(tree, "build_wheel", tmp_path)
    assert wheel.name.endswith("-none-any.whl")
    with zipfile.ZipFile(wheel) as content:
        assert not set(COMPILED) & set(content.namelist())


def test_installed_and_uninstalled(wheel, tmp_path, monkeypatch):
    """The hook comes with either wheel, works, and goes with it."""
    # pip looks for compiled modules where its own would be
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    venv.create(tmp_path, with_pip=False)
    python = tmp_path / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    hook = next(tmp_path.glob("lib/python*/site-packages/vdev.pth"))
    seen = "import sys; print('vdev.boot' in sys.modules)"
    for value, expected in (("1", "True"), ("0", "False")):
        done = subprocess.run(
            [python, "-c", seen], env={"VDEV": value}, capture_output=True, text=True, check=True
        )
        assert (done.stdout.strip(), done.stderr) == (expected, "")
    whole = "import vdev.boot, vdev.translators, sys; print(vdev.boot.StandInFinder in sys.meta_path)"
    done = subprocess.run([python, "-c", whole], env={"VDEV": "1"}, cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.strip() == "True"
    subprocess.run([*pip, "uninstall", "--yes", "vdev"], check=True)
    assert not hook.exists()
    assert not list(hook.parent.glob("*vdev*"))


def test_a_source_distribution_can_be_built_from(tree, tmp_path):
    archive = _built(tree, "build_sdist", tmp_path)
    shutil.unpack_archive(archive, tmp_path)
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    with zipfile.ZipFile(_built(unpacked, "build_wheel", tmp_path)) as wheel:
        assert {"vdev.pth", "vdev/boot.py", "vdev/translators/ranges/region.py"} <= set(wheel.namelist())


COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf made > "$2"
cat {target} > {seen}
exit {status}
"""


@pytest.mark.parametrize(("status", "left"), [(0, "made"), (1, "before")])
def test_a_library_is_replaced_when_all_of_it_is_there(
    status: int, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that starts while it is compiled anew loads the one before."""
    target, seen, compiler = (tmp_path / name for name in ("library.so", "seen", "compiler"))
    target.write_text("before")
    compiler.write_text(COMPILER.format(target=target, seen=seen, status=status))
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with contextlib.suppress(library.NoCompiler):
        library.compile_calls(target)
    assert (seen.read_text(), target.read_text()) == ("before", left)
    assert {path.name for path in tmp_path.iterdir()} == {"library.so", "seen", "compiler"}
