"""What is kept of programs between runs: the second run does as the first without reading the source, and nothing that
does not hold any more, or that is not to be trusted, is used.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("cached_program.py")
LITTLE_NBYTES = 512
HEADER = "#define FACTOR 3\n"


class Place:
    """A cache folder and a folder of headers."""

    def __init__(self, root: Path) -> None:
        self.cache = root / "cache"
        self.headers = root / "headers"
        self.headers.mkdir()
        self.header("factor.h", HEADER)

    def header(self, name: str, text: str) -> None:
        (self.headers / name).write_text(text)

    def environ(self, **further: str) -> dict[str, str]:
        keep = {
            name: text for name, text in os.environ.items() if name not in ("VDEV_CACHE", "PYOPENCL_NO_CACHE")
        }
        own = {
            "VDEV": "1",
            "VDEV_WORKERS": "cpu:2",
            "VDEV_CACHE_DIR": str(self.cache),
            "PYOPENCL_NO_CACHE": "1",
        }
        return {**keep, **own, "PYOPENCL_COMPILER_OUTPUT": "0", **further}

    def run(
        self,
        *words: str,
        limit: Callable[[], None] | None = None,
        cwd: Path | None = None,
        **further: str,
    ) -> Mapping[str, Any]:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(self.headers), *words],
            env=self.environ(**further),
            capture_output=True,
            text=True,
            timeout=900,
            preexec_fn=limit,
            cwd=cwd,
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout), stderr=done.stderr)

    def entries(self) -> list[Path]:
        return sorted(path for kind in ("programs", "binaries") for path in (self.cache / kind).glob("*"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Mapping[str, Any]]:
    """A place after one run, and what that printed."""
    place = Place(tmp_path_factory.mktemp("made"))
    return place, place.run()


@pytest.fixture
def place(made: tuple[Place, Any], tmp_path: Path) -> Place:
    """A copy of it; its headers stand where they stood."""
    found = Place(tmp_path)
    shutil.copytree(made[0].cache, found.cache)
    found.headers = made[0].headers
    return found


def same(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    return all(one[name] == two[name] for name in ("found", "log", "arguments", "launches"))


def test_the_second_run_reads_no_source(made: tuple[Place, Any]) -> None:
    place, first = made
    assert "clang.cindex" in first["loaded"]
    second = place.run()
    assert second["loaded"] == []
    assert same(first, second)


def test_a_build_loads_what_analyses_kernels_if_launches_will_need_it(made: tuple[Place, Any]) -> None:
    place, first = made
    assert first["analysis"]
    assert not place.run()["analysis"]  # what it finds out was kept
    assert not place.run(VDEV_CACHE="0", VDEV_WORKERS="cpu:1")["analysis"]


def test_it_is_as_without(made: tuple[Place, Any]) -> None:
    place, first = made
    before = place.entries()
    without = place.run(VDEV_CACHE="0")
    assert "clang.cindex" in without["loaded"]
    assert same(first, without)
    assert place.entries() == before


def test_another_number_of_workers(made: tuple[Place, Any]) -> None:
    """What is kept says nothing of how many there are."""
    place, first = made
    other = place.run(VDEV_WORKERS="cpu:3")
    assert other["loaded"] == []
    assert other["found"] == first["found"]
    assert len(other["launches"]) == 3


def test_a_header_that_has_changed(made: tuple[Place, Any], tmp_path: Path) -> None:
    place = Place(tmp_path)
    first = place.run()
    place.header("factor.h", "#define FACTOR 5\n")
    changed = place.run()
    assert "clang.cindex" in changed["loaded"]
    assert changed["found"]["scale"] != first["found"]["scale"]
    assert same(changed, place.run(VDEV_CACHE="0"))
    place.header("factor.h", HEADER)
    assert same(first, place.run())
    nearer = tmp_path / "nearer"  # what was looked for first, and was not there
    nearer.mkdir()
    (nearer / "factor.h").write_text("#define FACTOR 5\n")
    assert same(changed, place.run(cwd=nearer))


def test_a_header_that_is_imported(tmp_path: Path) -> None:
    """By `#import`, which clang knows as well as `#include`."""
    place = Place(tmp_path)
    first = place.run("import")
    place.header("factor.h", "#define FACTOR 5\n")
    changed = place.run("import")
    assert changed["found"]["scale"] != first["found"]["scale"]


def test_a_header_that_changes_what_is_written(tmp_path: Path) -> None:
    """What was found out about a kernel's accesses is of the headers as they were."""
    place, split = Place(tmp_path), {"VDEV_PLANNING": "always", "VDEV_MIN_ITEMS": "1"}
    first = place.run(**split)
    place.header("factor.h", f"{HEADER}#define PLACE(i, n) n - 1 - i\n")
    changed = place.run(**split)
    assert changed["found"]["scale"] != first["found"]["scale"]
    assert same(changed, place.run(**split, VDEV_CACHE="0"))


def foreign(path: Path) -> None:
    path.write_bytes(b'{"source": "kernel void scale() {}"}')


def linked(path: Path) -> None:
    other = path.with_suffix(".moved")
    path.rename(other)
    path.symlink_to(other)


def swapped(path: Path) -> None:
    """All entries of a folder are one of them."""
    first = min(path.parent.glob("*" + path.suffix))
    if path != first:
        shutil.copyfile(first, path)


@pytest.mark.parametrize("spoil", [foreign, linked, swapped])
def test_entries_that_are_not_as_they_were_written(
    made: tuple[Place, Any], place: Place, spoil: Callable[[Path], None]
) -> None:
    entries = place.entries()
    assert len(entries) > 3
    for path in entries:
        spoil(path)
    again = place.run()
    assert "clang.cindex" in again["loaded"]
    assert same(made[1], again)


def test_a_folder_that_others_may_write_to(made: tuple[Place, Any], place: Place) -> None:
    for kind in ("programs", "binaries"):
        (place.cache / kind).chmod(0o777)
    again = place.run()
    assert "clang.cindex" in again["loaded"]
    assert same(made[1], again)


def no_room() -> None:
    """No entry can be written; what is smaller can."""
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LITTLE_NBYTES, resource.RLIM_INFINITY))


def test_a_full_disk(made: tuple[Place, Any], tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert same(made[1], place.run(limit=no_room))
    assert all(path.stat().st_size <= LITTLE_NBYTES for path in place.entries())


def test_no_home(made: tuple[Place, Any]) -> None:
    place, first = made
    assert same(first, place.run(VDEV_CACHE_DIR="/proc/self/nothing"))


def test_several_processes_at_once(made: tuple[Place, Any], tmp_path: Path) -> None:
    place = Place(tmp_path)
    command = [sys.executable, str(PROGRAM), str(place.headers)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=place.environ(), **pipes) for _ in range(3)]
    for process in processes:
        out, err = process.communicate(timeout=900)
        assert process.returncode == 0, err
        assert same(made[1], json.loads(out))
    assert place.run()["loaded"] == []


def test_what_is_kept_is_bounded(made: tuple[Place, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from vdev.backends.opencl import binaries
    from vdev.session import program_cache

    sizes = [path.stat().st_size for path in made[0].entries()]
    assert sum(sizes) < 1 << 20
    assert program_cache.CACHE_NBYTES + binaries.CACHE_NBYTES <= 512 << 20
