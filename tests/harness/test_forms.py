"""The forms in which programs check themselves: kept ones are those that were made, and are used without the source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from vdev.translators.dialects.checked import (
    checked_of_plain,
    plain_checked,
    translate_checked,
    translate_fast,
)
from vdev.translators.frontend.source import parse_program

from vdev.harness.findings import KINDS

SOURCES = (
    "kernel void k(global int *a, int n) { local int t[4]; t[0] = a[n]; a[0] = t[0] / n; }",
    "int f(global const int *p /* vdev: intended race */) { return p[1]; } kernel void k(global int *a, local int *b) { *b = f(a); }",
    "kernel void k(global int *a) { a[0] = sub_group_all(a[1]); }",
)
PROGRAM = """
import sys
import numpy as np
import pyopencl as cl

if sys.argv[1] == "kept":
    from vdev.session import programs
    programs.read = None  # whoever asks for the source fails
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
k = cl.Program(context, "kernel void k(global int *a, int n) { a[get_global_id(0) + n] = 1; }").build().k
a = cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 20)
for size, n in ((64, 0), (1 << 18, 0), (1 << 18, 1)):
    k(queue, (size,), (16,), a, np.int32(n))
queue.finish()
"""


@pytest.mark.parametrize("source", SOURCES)
def test_a_form_is_the_same_from_plain_values(source: str) -> None:
    parsed = parse_program(source)
    forms = [
        translate_fast(parsed),
        translate_checked(parsed),
        translate_checked(parsed, frozenset(KINDS), tracked=True),
    ]
    for form in forms:
        assert checked_of_plain(json.loads(json.dumps(plain_checked(form)))) == form


@pytest.mark.parametrize("access", ["d[i]", "(d)[i]", "i[d]"])
def test_a_parameter_written_as_an_array_has_no_bounds_of_its_own(access: str) -> None:
    source = f"kernel void k(global int d[4], int i) {{ {access} = 1; }}"
    form = translate_checked(parse_program(source), frozenset(KINDS), tracked=True)
    assert [site.action for site in form.sites] == ["write"]


def test_plain_values_of_something_else_are_refused() -> None:
    plain = plain_checked(translate_checked(parse_program(SOURCES[0])))
    with pytest.raises(KeyError):
        checked_of_plain({name: value for name, value in plain.items() if name != "sites"})
    with pytest.raises(TypeError):
        checked_of_plain(plain | {"other": 1})


def test_a_second_run_finds_the_same_without_the_source(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    first, kept = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "vdev.cli.check", "--format", "json", "program.py", how],
            cwd=tmp_path, env=os.environ | {"VDEV_CACHE": "1", "VDEV_CACHE_DIR": str(tmp_path / "cache"), "PYOPENCL_NO_CACHE": "1"},
            text=True, capture_output=True, timeout=900, check=False,
        )
        for how in ("made", "kept")
    )  # fmt: skip

    assert "1 finding; 3 launches checked" in first.stderr
    assert json.loads(first.stdout)
    assert (kept.stdout, kept.returncode) == (first.stdout, first.returncode)
    assert "1 finding; 3 launches checked" in kept.stderr
