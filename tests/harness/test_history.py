"""The script that checks public projects' kernels before and after they were mended, on a repository made here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vdev.harness import empty

BENCHMARKS = Path(__file__).resolve().parents[2] / "samples" / "benchmarks"
HEAD = 'R"(\n#define TWICE(x) (2 * (x))\n)"\n'
KERNEL = """// not between the quotes
kernel void k(global T *out, global const T *in, int n) {
  int i = get_global_id(0);
  if (i TEST n) out[i] = TWICE(in[i]);
}
"""


@pytest.fixture(scope="module")
def scripts() -> tuple[object, object]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import check_history
        import history_cases
    finally:
        sys.path.remove(str(BENCHMARKS))
    return check_history, history_cases


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *author, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def repository(folder: Path, name: str, tests: list[str], *, bare: bool) -> str:
    """A clone with a commit for each of the tests; the last one."""
    made = folder / "made" / name
    made.mkdir(parents=True)
    git(made, "init", "-q")
    for test in tests:
        (made / "head.opencl").write_text(HEAD)
        (made / "k.cl").write_text(KERNEL.replace("TEST", test))
        git(made, "add", ".")
        git(made, "commit", "-q", "-m", test)
    git(folder, "clone", "-q", *(["--bare"] if bare else []), str(made), str(folder / name))
    return git(made, "rev-parse", "HEAD")


def case(cases: object, project: str, commit: str, **more: object) -> object:
    return cases.Case(  # type: ignore[attr-defined, no-any-return]
        project, commit, ("head.opencl", "k.cl"), "k", "one too many",
        lambda _: (empty(50, np.float32), np.ones(50, np.float32), 50), (64,), (16,), "-DT=float", **more,
    )  # fmt: skip


@pytest.mark.parametrize("bare", [True, False])
def test_a_mistake_and_its_mend(
    scripts: tuple[object, object], tmp_path: Path, capsys: pytest.CaptureFixture[str], bare: bool
) -> None:
    check_history, cases = scripts
    commit = repository(tmp_path, "example+planted" if bare else "planted", ["<=", "<"], bare=bare)
    all_cases = [*cases.CASES, case(cases, "example/planted", commit)]  # type: ignore[attr-defined]
    status = check_history.main(  # type: ignore[attr-defined]
        ["--clones", str(tmp_path), "--json", str(tmp_path / "rows.json")], all_cases
    )
    *others, planted = json.loads((tmp_path / "rows.json").read_text())

    assert status == 0
    assert planted["found_before"] == ["out-of-bounds: in", "out-of-bounds: out"]
    assert (planted["found_after"], planted["notes"], planted["skipped"]) == ([], [], "")
    assert [each["skipped"] for each in others] == [f"no clone of {each['project']}" for each in others]
    printed = capsys.readouterr().out
    assert printed.count("skipped: no clone of ") == len(others) >= 10
    assert f"1 of 1 found before and silent after; {len(others)} skipped" in printed


def test_defects_not_mended_and_not_found_are_reported(
    scripts: tuple[object, object], tmp_path: Path
) -> None:
    check_history, cases = scripts
    worse = repository(tmp_path, "worse", ["<=", "<", "<="], bare=True)
    same = repository(tmp_path, "same", ["< 1 +", "<="], bare=True)
    for project, commit in (("a/worse", worse), ("a/same", same)):
        assert check_history.main(["--clones", str(tmp_path)], [case(cases, project, commit)]) == 1  # type: ignore[attr-defined]

    left = (("out-of-bounds: in", "out-of-bounds: out"), "the same mistake is no other one")
    row = check_history.row(case(cases, "a/same", same, left=left), tmp_path)  # type: ignore[attr-defined]
    assert not row.is_right


def test_a_commit_that_is_not_there_is_skipped(
    scripts: tuple[object, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_history, cases = scripts
    repository(tmp_path, "planted", ["<"], bare=True)
    commit = "0" * 40
    assert check_history.main(["--clones", str(tmp_path)], [case(cases, "example/planted", commit)]) == 0  # type: ignore[attr-defined]
    assert "skipped: the clone of example/planted has no 00000000~:head.opencl" in capsys.readouterr().out


def test_no_case_keeps_code(scripts: tuple[object, object]) -> None:
    """A case has what a program is made of, but for types that its host gives it."""
    _, cases = scripts
    for each in cases.CASES:  # type: ignore[attr-defined]
        assert len(each.mended_by) == 40
        assert all(line.startswith("typedef ") for line in each.preface.splitlines())
        assert len(each.preface) < 100
