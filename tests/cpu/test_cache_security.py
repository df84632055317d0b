"""What somebody else puts where vdev keeps its files never runs: a library that leaves a mark when it is loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

START = "import pyopencl as cl, os; cl.create_some_context(interactive=False); print(os.environ['OCL_ICD_VENDORS'])"
LIBRARY = """
#include <stdio.h>
__attribute__((constructor)) static void mark(void) { fclose(fopen("%s", "w")); }
"""
NOBODY = 65534


class Attack:
    """A cache folder as vdev made it, and a library to be put there."""

    def __init__(self, root: Path) -> None:
        self.marker = root / "marker"
        self.library = root / "libforeign.so"
        self.cache = root / "cache"
        self.folder = self.cache

    def compile(self) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("this needs a C compiler")
        source = self.library.with_suffix(".c")
        source.write_text(LIBRARY % self.marker)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.library, source], check=True, timeout=900)

    def start(self) -> Path:
        """What a program hands to the OpenCL loader."""
        environ = {name: text for name, text in os.environ.items() if name != "OCL_ICD_VENDORS"}
        environ |= {"VDEV": "1", "VDEV_WORKERS": "cpu:2", "VDEV_CACHE_DIR": str(self.cache)}
        run = subprocess.run(
            [sys.executable, "-c", START], env=environ, capture_output=True, text=True, timeout=900
        )
        assert run.returncode == 0, run.stderr
        return Path(run.stdout.strip())


def a_foreign_file(attack: Attack) -> None:
    (attack.folder / "foreign.icd").write_text(f"{attack.library}\n")


def a_changed_file(attack: Attack) -> None:
    for path in attack.folder.iterdir():
        path.write_text(f"{attack.library}\n")


def a_link(attack: Attack) -> None:
    elsewhere = attack.cache.parent / "elsewhere"
    elsewhere.write_text(f"{attack.library}\n")
    for path in attack.folder.iterdir():
        path.unlink()
        path.symlink_to(elsewhere)


def a_loose_folder(attack: Attack) -> None:
    a_foreign_file(attack)
    attack.folder.chmod(0o777)


def a_linked_folder(attack: Attack) -> None:
    a_foreign_file(attack)
    elsewhere = attack.cache.parent / "elsewhere"
    attack.folder.rename(elsewhere)
    attack.folder.symlink_to(elsewhere)


def another_users_folder(attack: Attack) -> None:
    if os.getuid() != 0:
        pytest.skip(
            "only root can give files away; test_private_files.py lets a folder appear to be another user's"
        )
    a_foreign_file(attack)
    for path in (attack.folder, *attack.folder.iterdir()):
        os.chown(path, NOBODY, NOBODY)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Attack:
    """The folder as one program left it; each test attacks a copy."""
    attack = Attack(tmp_path_factory.mktemp("made"))
    attack.folder = attack.start()
    return attack


@pytest.fixture
def attack(made: Attack, tmp_path: Path) -> Attack:
    found = Attack(tmp_path)
    found.compile()
    shutil.copytree(made.cache, found.cache)
    found.folder = found.cache / made.folder.relative_to(made.cache)
    return found


@pytest.mark.parametrize(
    "put", [a_foreign_file, a_changed_file, a_link, a_loose_folder, a_linked_folder, another_users_folder]
)
def test_it_is_not_loaded(attack: Attack, put: Callable[[Attack], None]) -> None:
    put(attack)
    attack.start()
    assert not attack.marker.exists()


def test_the_library_leaves_a_mark_when_it_is_loaded(attack: Attack) -> None:
    """Otherwise the tests above could not fail."""
    a_foreign_file(attack)
    environ = {**os.environ, "OCL_ICD_VENDORS": str(attack.folder), "VDEV": "0"}
    subprocess.run([sys.executable, "-c", START], env=environ, check=True, timeout=900, capture_output=True)
    assert attack.marker.exists()
