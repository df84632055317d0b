"""The command that runs real programs: what it makes of one with a mistake, one that is explained, and one that hangs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.harness import programs
from tests.harness.programs import Case, Known, is_well, run, table

OVERRUN = """
import numpy as np
import pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, "kernel void k(global int *a) { a[get_global_id(0) + 1] = 1; }").build()
a = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(65, np.int32))
program.k(queue, (64,), (1,), a)
program.k(queue, (65,), (1,), a)
queue.finish()
"""


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "overrun.py").write_text(OVERRUN)
    case = Case("own", "overrun", ("overrun.py",), folder)
    return case, run(case)


def test_a_mistake_is_in_the_row(row: tuple[Case, dict[str, Any]]) -> None:
    case, found = row

    assert found["ended"] == "well"
    assert found["checked"] == 2
    assert [text.split(":")[0] for text in found["findings"]] == ["out-of-bounds"]
    assert not is_well(case, found)
    cells = table([found]).splitlines()[-1].split(" | ")
    assert cells[:7] == ["| own: overrun", "well", "2", "1", "0", "0", ""]
    assert cells[7:] == [str(found["seconds"]), f"{found['commit']} |"]
    assert found["commit"]


def test_what_is_explained_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "EXPLAINED", (Known("k", "index", "[ab]", "it is meant", "p"),))
    finding = {"kind": "index", "message": "m", "kernel": "k", "argument": "a", "place": {"excerpt": " x;"}}
    found = programs._row(
        "p", {"findings": [finding], "nchecked": 1, "notes": [], "unchecked": {}, "status": 0}, ""
    )

    assert found["findings"] == []
    assert found["explained"] == {"index: m (x;)": "it is meant"}
    assert is_well(Case("own", "p", (), Path()), found)
    assert programs._finding("p", finding)[1] == "it is meant"
    assert programs._finding("p", finding | {"argument": "other"})[1] is None
    assert programs._finding("another", finding)[1] is None


def test_a_program_that_takes_too_long_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\ntime.sleep(3000)\n")
    case = Case("own", "waits", ("waits.py",), tmp_path, needs_end=False)
    found = run(case, 2)

    assert found["ended"].startswith("not done after 2 s")
    assert not is_well(case, found)


def test_a_program_that_is_deaf_to_interrupts_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LAST_SECONDS", 1)
    (tmp_path / "deaf.py").write_text("import time\ntime.sleep(3000)\n")
    case = Case("own", "deaf", ("deaf.py",), tmp_path, needs_end=False)
    # Processes inherit it, so that this one is deaf from the start.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        found = run(case, 1)
    finally:
        signal.signal(signal.SIGINT, before)

    assert found["ended"] == "not done after 1 s"
    assert not is_well(case, found)


def test_what_pytest_says_is_how_tests_ended() -> None:
    assert programs._ended(1, "...\n2 passed, 3 warnings in 1.20s\nrest") == "2 passed"
    assert programs._ended(3, "Traceback\nError: no\n") == "status 3: Error: no"
