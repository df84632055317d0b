"""The page of a real program on three CPU workers: its figures are those of the JSON report of the same run's kind."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cpu.test_explain import run
from tests.cpu.test_statistics import EVERYTHING
from tests.pure.test_page import Page, nbytes

SHOW = """
import json, vdev
figures = vdev.stats()
assert sum(row.nbytes for row in figures.exchanges) == figures.moved.nbytes
open("shown.html", "w").write("<html>" + figures._repr_html_() + "</html>")
print("\\n" + json.dumps(figures.as_dict()))
"""


def test_a_program_writes_a_page(tmp_path: Path) -> None:
    (tmp_path / "everything.py").write_text(EVERYTHING + SHOW)
    done = run(
        "-m", "vdev.cli.info", "--html", "report.html", "--explain", "everything.py", cwd=tmp_path, workers="cpu:3"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    written = Page((tmp_path / "report.html").read_text())
    shown = Page((tmp_path / "shown.html").read_text())
    for found in (written, shown):
        kernels = {row[0].partition("program")[0]: row for row in found.tables["kernels"][0][1:]}
        assert {name: int(row[1]) for name, row in kernels.items()} == {
            kernel["name"]: kernel["launches"] for kernel in figures["kernels"]
        }
        for kernel in figures["kernels"]:
            assert nbytes(kernels[kernel["name"]][7]) == sum(kernel["moved"].values())
            assert nbytes(kernels[kernel["name"]][4]) == kernel["times"]["kernel_ns"] > 0
        (matrix,) = found.tables["between holders"]
        assert sum(nbytes(cell) for row in matrix[1:] for cell in row[1:]) == sum(figures["moved"].values())
        assert {row[1] for rows in found.tables["holders"] for row in rows} >= {"worker 0", "worker 2"}
        assert "scatter" in found.text
    assert "Not known" not in written.text
    by_user: dict[str, int] = {}
    for row in figures["exchanges"]:
        by_user[row["user"]] = by_user.get(row["user"], 0) + row["nbytes"]
    for kernel in figures["kernels"]:
        assert by_user.get(kernel["name"], 0) == sum(kernel["moved"].values())


def test_what_cannot_be_asked_for(tmp_path: Path) -> None:
    info = ("-m", "vdev.cli.info")
    for words in (("--html", "a.html"), ("--explain", "--html", "a.html"), ("--explain", "--html")):
        assert run(*info, *words, cwd=tmp_path).returncode == 2
    assert run(*info, "--json", "--html", "a.html", "--explain", "-c", "1", cwd=tmp_path).returncode == 2
    done = run(*info, "--explain", "--html", "a.html", "-c", "print('hello')", cwd=tmp_path)
    assert (done.returncode, done.stdout, "no report: the program did not use" in done.stderr) == (
        0,
        "hello\n",
        True,
    )
    assert not (tmp_path / "a.html").exists()
