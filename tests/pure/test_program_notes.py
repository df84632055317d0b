"""What is kept of a program's kernels between processes: few files, read once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from vdev.translators.frontend.kernels import KernelInfo

from vdev.backends.base import WorkerInfo
from vdev.process.private_files import Store
from vdev.session import program_cache, programs
from vdev.session.program_cache import CachedProgram, write_notes
from vdev.session.translation import Translation


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often entries were looked for and written."""
    found = Counter[str]()
    for name in ("get", "put"):
        real = getattr(Store, name)

        def noted(self: Store, *args: Any, name: str = name, real: Any = real) -> Any:
            found[name] += 1
            return real(self, *args)

        monkeypatch.setattr(Store, name, noted)
    return found


def program(folder: Path, count: int = 3, key: str = "key") -> CachedProgram:
    """A program with so many kernels, as a process finds it that translates it."""
    kernels = {name: KernelInfo(name, (), 1, None, None, None, "") for name in names(count)}
    found = CachedProgram(Store(folder / "cache" / "programs", ".json"), key)
    found.keep_translation(Translation("source", (), kernels=kernels))
    return found


def names(count: int) -> list[str]:
    return [f"kernel_{number}" for number in range(count)]


def number(plain: Any) -> int:
    return int(plain["number"])


def test_kernels_of_a_program_are_in_one_file_that_is_read_once(tmp_path: Path, asked: Counter[str]) -> None:
    before = program(tmp_path)
    for at, name in enumerate(names(3)):
        before.note(name, "cuts", {"number": at})
    write_notes()
    now = program(tmp_path)
    asked.clear()
    for _ in range(2):
        assert [now.noted(name, "cuts", number) for name in names(3)] == [0, 1, 2]
        assert [now.noted(name, "workers", number) for name in names(3)] == [None] * 3
    assert asked == {"get": 1}
    assert len(list((tmp_path / "cache/programs").iterdir())) == 2  # with the translation


def test_large_programs_have_several(tmp_path: Path, asked: Counter[str]) -> None:
    """To write all of a hundred kernels anew with each of them would take long."""
    found = program(tmp_path, 100)
    for at, name in enumerate(names(100)):
        found.note(name, "cuts", {"number": at})
    write_notes()
    files = [path.stat().st_size for path in (tmp_path / "cache/programs").iterdir()]
    assert 4 <= len(files) <= 1 + 100 / 10
    again = program(tmp_path, 100)
    asked.clear()
    assert [again.noted(name, "cuts", number) for name in names(100)] == [*range(100)]
    assert asked["get"] == len(files) - 1


def test_notes_of_several_processes(tmp_path: Path) -> None:
    one, two = program(tmp_path), program(tmp_path)
    assert one.noted("kernel_0", "cuts", number) is None
    two.note("kernel_0", "cuts", {"number": 1})
    write_notes()
    one.note("kernel_1", "cuts", {"number": 2})
    one.note("kernel_0", "workers", {"number": 3})
    write_notes()
    found = program(tmp_path)
    assert [found.noted(*what, number) for what in (("kernel_0", "cuts"), ("kernel_1", "cuts"))] == [1, 2]
    assert found.noted("kernel_0", "workers", number) == 3
    one.note("kernel_0", "cuts", {"number": 4})
    write_notes()
    assert program(tmp_path).noted("kernel_0", "cuts", number) == 4
    assert program(tmp_path, key="another").noted("kernel_0", "cuts", number) is None


def test_what_was_in_no_file_when_that_was_read_is_found_once_it_is_in_it(tmp_path: Path) -> None:
    """A program that is built again looks for something else before what was noted about it is written."""
    first, again = program(tmp_path), program(tmp_path)
    again._store = first._store  # as in one process
    first.note("kernel_0", "cuts", {"number": 1})
    assert again.noted("kernel_0", "workers", number) is None
    write_notes()
    assert again.noted("kernel_0", "cuts", number) == 1


def test_nothing_is_noted_of_what_may_change(tmp_path: Path, asked: Counter[str]) -> None:
    found = CachedProgram(Store(tmp_path / "cache" / "programs", ".json"), "key")
    found.keep_translation(Translation("source", (), sought=None))
    found.note("kernel_0", "cuts", {"number": 1})
    assert found.noted("kernel_0", "cuts", number) is None
    assert not asked


@pytest.mark.parametrize(
    "plain", [["a list"], {"kernel_0 cuts": 3}, {"kernel_0 cuts": "{"}, {"kernel_0 cuts": "{}"}]
)
def test_notes_that_are_none(tmp_path: Path, plain: object) -> None:
    found = program(tmp_path)
    found.note("kernel_0", "cuts", {"number": 1})
    write_notes()
    found._put(f"{found.content} notes 0", plain)  # type: ignore[arg-type]
    again = program(tmp_path)
    assert again.noted("kernel_0", "cuts", number) is None
    again.note("kernel_0", "cuts", {"number": 2})
    write_notes()
    assert program(tmp_path).noted("kernel_0", "cuts", number) == 2


def test_no_launch_waits_until_notes_are_written(
    tmp_path: Path, asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread writes them, all at once; until then whoever builds the same program finds them."""
    monkeypatch.setattr(program_cache, "_SOON", 3600.0)
    written, store = Event(), Store(tmp_path / "cache" / "programs", ".json")
    kernels = {name: KernelInfo(name, (), 1, None, None, None, "") for name in names(3)}
    one, two = (CachedProgram(store, "key") for _ in range(2))
    for each in (one, two):
        each.keep_translation(Translation("source", (), kernels=kernels))
    asked.clear()
    for at, name in enumerate(names(3)):
        one.note(name, "cuts", {"number": at})
        one.note(name, "workers", {"number": at})
    assert asked["put"] == 0
    assert [two.noted(name, "cuts", number) for name in names(3)] == [0, 1, 2]
    program_cache._unwritten.forget()
    assert program(tmp_path).noted("kernel_0", "cuts", number) is None

    def put(self: Store, *args: Any, real: Any = Store.put) -> None:
        real(self, *args)
        written.set()

    monkeypatch.setattr(Store, "put", put)
    monkeypatch.setattr(program_cache, "_SOON", 0.0)
    asked.clear()
    one.note("kernel_0", "cuts", {"number": 4})
    assert written.wait(60)
    program_cache.write_notes()  # which waits until that is done
    assert asked["put"] == 1
    assert program(tmp_path).noted("kernel_0", "cuts", number) == 4
    assert one.noted("kernel_0", "workers", number) == 0


def test_a_note_that_is_made_while_others_are_written_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_cache, "_SOON", 3600.0)
    found, more = program(tmp_path), [5, 6]

    def put(self: Store, *args: Any, real: Any = Store.put) -> None:
        real(self, *args)
        if more:
            found.note("kernel_0", "cuts", {"number": more.pop()})

    found.note("kernel_0", "cuts", {"number": 4})
    monkeypatch.setattr(Store, "put", put)
    for _ in range(3):
        write_notes()
    monkeypatch.undo()
    assert not more
    assert program(tmp_path).noted("kernel_0", "cuts", number) == 5


ENDING = """
import sys
from pathlib import Path
from tests.pure.test_program_notes import program
program(Path(sys.argv[1])).note("kernel_0", "cuts", {"number": 7})
"""


def test_notes_are_written_at_the_end_of_the_process(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", ENDING, str(tmp_path)], check=True, timeout=900, cwd=root)
    assert program(tmp_path).noted("kernel_0", "cuts", number) == 7


def test_a_child_leaves_its_parents_notes_to_the_parent(tmp_path: Path) -> None:
    found = program(tmp_path)
    with program_cache._unwritten._writing:  # not even late is anything written before the child has ended
        found.note("kernel_0", "cuts", {"number": 1})
        child = os.fork()
        if not child:
            write_notes()
            wrong = program(tmp_path).noted("kernel_0", "cuts", number)
            os._exit(0 if wrong is None else 1)
        assert os.waitpid(child, 0)[1] == 0
    write_notes()
    assert program(tmp_path).noted("kernel_0", "cuts", number) == 1


def test_what_workers_have_in_common_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    target = programs._target
    monkeypatch.setattr(programs, "_target", lambda workers: asked.append(len(workers)) or target(workers))
    sizes = 1, 1 << 30, 1 << 30, 256, (256,) * 3, 1 << 16, 128
    infos = [
        WorkerInfo("reference", "r", ("r",), *sizes, version=f"OpenCL {each} r") for each in ("3.0", "2.1")
    ]
    three, both = (infos[0],), (*infos,)
    assert [programs._common(three)[0]["opencl_version"] for _ in range(3)] == [300] * 3
    assert asked == [1]
    assert programs._common(both)[0]["opencl_version"] == 210
    assert programs._common(three)[0]["opencl_version"] == 300
    several = [infos[0]]
    programs._common(several)
    several[0] = infos[1]  # a list may change
    assert programs._common(several)[0]["opencl_version"] == 210
