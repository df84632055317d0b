"""What `samples/benchmarks/command_buffers.py` finds out about a driver: that its checks can fail, and how its ratios are made.

Decides nothing about speed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "samples" / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import c_programs  # noqa: E402
import command_buffers  # noqa: E402

from vdev.packaging.library import compilers  # noqa: E402
from vdev.start import engines  # noqa: E402

#: by check: a text of the C program, and one in its place that leaves out or changes what the check tells of
PLANTED = {
    "order": (
        "        add_launch(made, back, SMALL, NULL);\n        add_copy(made, b, a, SMALL * sizeof(int));\n",
        "        add_copy(made, b, a, SMALL * sizeof(int));\n        add_launch(made, back, SMALL, NULL);\n",
    ),
    "keeps its arguments": (
        'check(finalize(made), "clFinalizeCommandBufferKHR");\n    check(clFinish(queue), "clFinish");',
        'check(clSetKernelArg(add, 1, sizeof nine, &nine), "early"); release(made); made = begin(0);\n'
        "    add_launch(made, add, SMALL, NULL);\n    add_copy(made, a, b, SMALL * sizeof(int));\n"
        '    check(finalize(made), "clFinalizeCommandBufferKHR");',
    ),
    "waits for events": ("submit(made, 1, &gate, &event);", "submit(made, 0, NULL, &event);"),
    "updates while pending": ("set_values(made, 1, &command, 1, sizeof k, &k);", ""),
}


def _found(source: Path) -> command_buffers.Figures:
    """What the program of that text finds with one round of each row."""
    if next(compilers(), None) is None or next(c_programs.loaders(), None) is None:
        pytest.skip("needs a C compiler and an OpenCL loader")
    engines.register_engines()
    with tempfile.TemporaryDirectory() as folder:
        program = c_programs.build(Path(folder), None, source)
        done = subprocess.run([str(program), "1"], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first.startswith("# ")
    return {name: float(value) for name, value in (line.split("\t") for line in lines)}


@pytest.fixture(scope="module")
def found() -> command_buffers.Figures:
    """With the program as it is; only where the driver has command buffers."""
    result = _found(command_buffers.SOURCE)
    if not result["version"]:
        pytest.skip("the driver has no command buffers")
    return result


def test_all_rows_are_measured(found: command_buffers.Figures) -> None:
    for figure in ("thread", "wall", "process"):
        of_rows = command_buffers.ratios(found, figure)
        kinds = {kind for kind, _ in of_rows}
        assert {"empty", "one work-group", "large", "copy", "large copy"} <= kinds
        assert of_rows.keys() == {(kind, count) for kind in kinds for count in (1, 2, 4, 8, 16)}
        assert all(value > 0 for value in of_rows.values())


@pytest.mark.parametrize("check", PLANTED)
def test_a_check_can_fail(check: str, found: command_buffers.Figures, tmp_path: Path) -> None:
    text, planted = command_buffers.SOURCE.read_text(), PLANTED[check]
    if f"check {check}" not in found:
        pytest.skip("the driver has no such thing")
    assert text.count(planted[0]) == 1
    # the rows are not what this is about
    text = text.replace(*planted).replace("measure_all();\n    return 0;", "return 0;")
    source = tmp_path / "planted.c"
    source.write_text(text)

    assert found[f"check {check}"] == 1, "the driver's own is well"
    assert _found(source)[f"check {check}"] == 0


def test_ratios_are_of_the_same_row() -> None:
    found = {
        "version": float(1 << 22),
        "mutable version": float(9 << 12 | 3),
        "check order": 1.0,
        "check keeps kernels": 0.0,
        "copy, 2, separate, thread": 4.0,
        "copy, 2, buffer, thread": 3.0,
        "copy, 4, separate, thread": 4.0,
        "copy, 4, buffer, thread": 8.0,
        "copy, 4, buffer, wall": 9.0,
        "copy, 4, separate, wall": 3.0,
    }

    assert command_buffers.ratios(found, "thread") == {("copy", 2): 0.75, ("copy", 4): 2.0}
    assert command_buffers.ratios(found, "wall") == {("copy", 4): 3.0}
    lines = command_buffers.table(found)
    assert lines[0] == "cl_khr_command_buffer 1.0.0, mutable dispatch 0.9.3; of 2 checks wrong: keeps kernels"
    assert "| copy | 0.75 | 2.00 |" in lines
    assert command_buffers.table({"version": 0.0}) == ["The driver has no cl_khr_command_buffer."]
