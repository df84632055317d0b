"""The library for C programs where memory cannot be had, and where other threads' calls come between (`hostile.h`): a call fails and
nothing has happened, or it is as it always is.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.icd.driver import HERE, build, compile_specially, need_library, run_on_vdev
from vdev.packaging.library import compilers


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the library, to which all that may happen."""
    need_library()
    command = next(compilers(), None)
    if command is None:
        pytest.skip("there is no compiler")
    folder = tmp_path_factory.mktemp("hostile") / "cache"
    compile_specially(" ".join([*command, "-include", str(HERE / "hostile.h")]), folder)
    return folder


def run(cache: Path, **happens: str) -> str:
    """The program's log, which has made all that it wanted, and seen no error but those that it expects."""
    program = build("hostile.c", cache.parent)
    switches = {"VDEV_WORKERS": "cpu:1", "VDEV_LOG": "info", "VDEV_CACHE_DIR": str(cache)} | happens
    done = run_on_vdev(program, **switches)
    assert (done.returncode, done.stdout) == (0, "0 wrong, 0 other errors\n"), done.stderr
    return done.stderr


def failed(log: str) -> int:
    """How often a call of the program's failed."""
    found = re.search(r"^(\d+) failed$", log, re.M)
    assert found is not None, log
    return int(found[1])


@pytest.mark.parametrize("every", [13, 43, 101, 211])
def test_memory_that_cannot_be_had(cache: Path, every: int) -> None:
    """Each piece of so many."""
    assert failed(run(cache, FAILING=str(every))) > 0


def test_arguments_of_which_python_cannot_be_told(cache: Path) -> None:
    """No launch has what was set before."""
    assert failed(run(cache, UNTOLD="1")) > 0


def test_events_of_which_python_cannot_be_told(cache: Path) -> None:
    """They are the program's all the same."""
    assert failed(run(cache, UNHELD="1")) == 0


def test_what_python_has_said_is_of_no_use_once_another_call_has_changed_something(cache: Path) -> None:
    log = run(cache, DISTURBED="1")
    assert " 0 buffers and " in log
    assert "reads" not in log, "neither launches nor reads were made without Python"
    log = run(cache)
    assert re.search(r"[1-9]\d* launches were made without Python, and [1-9]\d* reads", log), log
    assert re.search(r"[1-9]\d* buffers and [1-9]\d* kernels were made without Python", log), log
