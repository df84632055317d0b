"""Accepted findings: which entry covers what, the file, and what becomes of it in the command and the plugin."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.test_command import check
from vdev.harness import Finding
from vdev.harness.accepted import Accepted, AcceptedError, Entry, entry_of
from vdev.harness.findings import Place, Who

HERE = Place("kernels/k.cl", 12, 3, "k", "a[0]", "  a[0]  = get_group_id(0);\n")
THERE = Place("kernels/k.cl", 9, 3, "k", "a[0]", "  int b = a[0];")
RACE = Finding("race-between-groups", "…", "k", "a", "write", HERE, Who((1,)), other=THERE)
ENTRY = Entry("race-between-groups", "k", text="a[0] = get_group_id(0);", line=12)


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        (ENTRY, True),
        (replace(ENTRY, line=99), True),  # lines move
        (replace(ENTRY, text="int b = a[0];"), True),  # the other side
        (replace(ENTRY, text=""), True),
        (replace(ENTRY, text="", line=9), True),
        (replace(ENTRY, text="", line=13), False),
        (replace(ENTRY, text="a[1] = get_group_id(0);"), False),
        (replace(ENTRY, kind="race-between-items"), False),
        (replace(ENTRY, kernel="l"), False),
        (replace(ENTRY, file="k.cl"), True),
        (replace(ENTRY, file="kernels/k.cl"), True),
        (replace(ENTRY, file="ernels/k.cl"), False),
        (replace(ENTRY, file="other.cl"), False),
    ],
)
def test_what_an_entry_covers(entry: Entry, covered: bool) -> None:
    assert entry.covers(RACE) is covered


def test_a_file_is_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "accepted.txt"
    first = Accepted(path)
    assert first.left([RACE]) == [RACE]
    first.takes = True
    assert first.left([RACE, replace(RACE, place=THERE, other=HERE)]) == []
    assert first.write() == 1

    again = Accepted(path)
    assert again.entries == [replace(entry_of(RACE), number=4)]
    assert again.entries[0].text == "int b = a[0];"
    assert again.summary() == [
        f"{path}:4: not found this time: race-between-groups in kernel k",
        f"{path}:4: accepted without a reason",
    ]
    path.write_text(path.read_text().replace("reason:", "reason: the last one may win"))
    last = Accepted(path)
    assert last.left([RACE, replace(RACE, kernel="l")]) == [replace(RACE, kernel="l")]
    assert last.summary() == []
    last.takes = True
    last.left([replace(RACE, kernel="l")])
    last.write()
    assert [entry.kernel for entry in Accepted(path).entries] == ["k", "l"]
    assert "may win" in path.read_text()


def test_what_processes_tell_each_other(tmp_path: Path) -> None:
    path = tmp_path / "accepted.txt"
    path.write_text("kind: race-between-groups\nkernel: k\nline: 9\nreason: r\n")
    worker, controller = Accepted(path), Accepted(path)
    worker.takes = controller.takes = True
    worker.left([RACE, replace(RACE, kernel="l")])
    for _ in range(2):
        controller.hear(worker.told())

    assert controller.summary() == []
    assert [entry.kernel for entry in controller.taken] == ["l"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("kind: race\nline: 1", ":1: unknown kind of finding 'race'; the kinds are out-of-bounds"),
        ("\nkind: index\nkernel: k\n", ":2: an entry needs the text of its line, or the line's number"),
        ("kind: index\nline: three\n", ":1: an entry needs"),
        (
            "kind: index\nlines: 1\n",
            ":2: expected one of kind, kernel, file, line, text, reason, and a colon",
        ),
        ("# only this\nwords", ":2: expected one of"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, content: str, text: str) -> None:
    (tmp_path / "accepted.txt").write_text(content)
    with pytest.raises(AcceptedError) as caught:
        Accepted(tmp_path / "accepted.txt")
    assert text in str(caught.value)


PROGRAM = """
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void k(global int *out) {
  out[0] = get_group_id(0);
}
kernel void shift(global int *out) { out[get_global_id(0)] >>= get_global_id(0); }
''').build()
out = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(64, np.int32))
program.k(queue, (64,), (16,), out)
program.shift(queue, (64,), (16,), out)
queue.finish()
"""


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    written = check("--accepted", "accepted.txt", "--write-accepted", "program.py", folder=tmp_path)
    path = tmp_path / "accepted.txt"
    path.write_text(
        path.read_text().replace("reason:", "reason: meant")
        + "\nkind: index\nkernel: gone\nline: 1\nreason: r\n"
    )
    (tmp_path / "program.py").write_text(PROGRAM.replace("kernel void k(", "// a line more\nkernel void k("))
    again = check("--accepted", "accepted.txt", "program.py", folder=tmp_path)

    assert written.returncode == 0, written.stderr
    assert "0 findings; 2 launches checked; 2 accepted\n" in written.stdout
    assert "accepted.txt: 2 written: give each a reason" in written.stdout
    assert again.returncode == 0, again.stdout
    assert "0 findings; 2 launches checked; 2 accepted\n" in again.stdout
    assert "accepted.txt:18: not found this time: index in kernel gone" in again.stdout
    assert "kernel shift: split over several workers" in again.stdout


def test_kinds_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = check("--ignore", "shift-too-wide", "program.py", folder=tmp_path)

    assert "race-between-groups" in done.stdout
    assert "shift-too-wide" not in done.stdout
    assert check("--ignore", "shifts", "program.py", folder=tmp_path).returncode == 2
    assert check("--write-accepted", "program.py", folder=tmp_path).returncode == 2


TESTS = """
import numpy as np
import pytest

SOURCE = '''
kernel void k(global int *out) {
  out[0] = get_group_id(0);
}
kernel void l(global int *out) {
  out[1] = get_group_id(0);
}
'''


@pytest.mark.opencl(SOURCE)
@pytest.mark.parametrize("name", ["k", "l"])
def test_it(kernels, name):
    kernels.kernel(name)(np.zeros(2, np.int32), global_size=64, local_size=16)
"""


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=900, check=False)
    return done.stdout + done.stderr


def test_the_plugin_and_xdist(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    path = tmp_path / "accepted.txt"

    assert "2 passed" in run(tmp_path, "-n", "2", "--opencl-accepted=accepted.txt", "--opencl-write-accepted")
    assert path.read_text().count("reason:") == 2
    entries = path.read_text().replace("reason:", "reason: meant").split("\n\n")
    gone = "kind: index\nkernel: gone\nline: 1\nreason: r\n"
    path.write_text("\n\n".join(entries[:2]) + f"\n\n{gone}")
    (tmp_path / "pytest.ini").write_text("[pytest]\nopencl_accepted = accepted.txt\n")
    output = run(tmp_path, "-n", "2")

    assert "1 failed, 1 passed" in output, output
    assert f"{path}:10: not found this time: index in kernel gone" in output
    assert "2 failed" in run(tmp_path, "--opencl-accepted=other.txt", "-n", "0")
    assert "needs --opencl-accepted FILE" in run(tmp_path, "--opencl-write-accepted", "-c", "/dev/null")
