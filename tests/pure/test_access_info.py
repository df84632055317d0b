"""`vdev-info --access`: the text, the JSON and the picture of what analysis sees; without any device."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from vdev.translators.ranges.region import Region

from vdev.cli import info
from vdev.cli.access_facts import Setting
from vdev.cli.access_picture import COLOURS, Row, draw
from vdev.cli.access_report import report_file

SOURCE = """
#include "types.h"
__kernel void add(__global const real *a, __global const real *b, __global real *out, uint n, real factor)
{
    size_t i = get_global_id(0);
    if (i < n) out[i] = a[i] + factor * b[i + SHIFT];
}
__kernel void tile(__global const float *a, __global float *out, int width)
{
    out[get_global_id(1) * width + get_global_id(0)] = a[get_global_id(1)];
}
__kernel void scatter(__global int *out, __global const int *index, __global int *count)
{
    out[index[get_global_id(0)]] = 1;
    atomic_inc(count);
}
__kernel void ticket(__global int *next, __global int *out)
{
    out[get_global_id(0)] = atomic_inc(next);
}
__kernel void turns(__global int *turn)
{
    while (turn[0] != get_global_id(0)) ;
    turn[0]++;
}
"""


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    (tmp_path / "types.h").write_text("typedef float real;\n")
    path = tmp_path / "kernels.cl"
    path.write_text(SOURCE)
    return path


def access(capsys: pytest.CaptureFixture[str], path: Path, *arguments: str) -> tuple[int, str, str]:
    status = info.main(["--access", str(path), "-DSHIFT=4", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_text_without_a_launch(capsys, kernels):
    status, text, _ = access(capsys, kernels)

    assert status == 0
    squeezed = re.sub(r" +", " ", text)
    assert "kernel add, line 3" in text
    assert "a global real* read 4 bytes at 4*gid0 if n - gid0 >= 1 (line 6)" in squeezed
    assert "b global real* read 4 bytes at 4*gid0 + 16 if n - gid0 >= 1 (line 6)" in squeezed
    assert "n uint determines which bytes are accessed" in squeezed
    assert "factor real does not matter" in squeezed
    assert "out global int* write 4 bytes at 4*? (line 14)" in squeezed
    assert "atomic 4 bytes at 0, atomic add, merged (line 15)" in squeezed
    assert "the result of an atomic function is used (line 19)" in squeezed
    assert re.search(
        r"kernel turns, line 21(\n .*)*\n  one worker: a loop that waits for `turn` to change \(line 23\)",
        text,
    )


def test_the_text_says_which_work_groups_each_worker_runs(capsys, kernels):
    sizes = ("--global", "1000", "--local", "10", "--workers", "2", "--set", "n=990")
    _, text, _ = access(capsys, kernels, "--kernel", "add", *sizes)

    assert "    worker 1 runs work-groups 50..99\n" in text


def test_a_launch_is_planned_as_the_session_would(capsys, kernels):
    status, text, _ = access(
        capsys, kernels, "--kernel", "add", "--global", "1000", "--local", "10", "--workers", "2", "--set", "n=990",
        "--json",
    )  # fmt: skip

    assert status == 0
    (kernel,) = json.loads(text)
    launch = kernel["launch"]
    assert launch["split"]
    assert launch["sizes"] == {"a": 3960, "b": 3976, "out": 3960}
    first, second = launch["workers"]
    assert (first["first_group"], first["last_group_before"]) == ([0], [50])
    ranges = {found["argument"]: found for found in second["ranges"]}
    assert [
        (ranges[name]["mode"], ranges[name]["start"], ranges[name]["stop"]) for name in ("a", "b", "out")
    ] == [
        ("read", 2000, 3960),
        ("read", 2016, 3976),
        ("write", 2000, 3960),
    ]
    assert all(found["exact"] for found in ranges.values())
    assert launch["moved_nbytes"] == 2 * 3960


def test_reasons_for_one_worker_and_for_merging(capsys, kernels):
    _, text, _ = access(capsys, kernels, "--kernel", "ticket", "--global", "1024", "--json")
    (launch,) = (kernel["launch"] for kernel in json.loads(text))
    assert not launch["split"]
    assert "line 19" in launch["reasons"][0]

    _, text, _ = access(capsys, kernels, "--kernel", "scatter", "--global", "1024", "--json")
    (launch,) = (kernel["launch"] for kernel in json.loads(text))
    assert launch["split"]
    assert launch["sizes"] == {"out": 4096, "index": 4096, "count": 4}
    assert any("compared with a twin" in reason and "line 14" in reason for reason in launch["reasons"])
    assert any("atomic add" in reason for reason in launch["reasons"])
    (written,) = (found for found in launch["workers"][0]["ranges"] if found["mode"] == "write")
    assert not written["exact"]
    assert written["line"] == 14


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--kernel", "add", "--global", "64"], "--set n="),
        (["--kernel", "add", "--global", "64", "--set", "n=many"], "not a number of type uint"),
        (
            ["--kernel", "add", "--global", "64", "--set", "m=3"],
            "there is no argument m; there are a, b, factor, n, out",
        ),
        (["--kernel", "sub"], "no kernel sub in kernels.cl; it has add, tile, scatter, ticket, turns"),
        (["--kernel", "add", "--global", "64", "--local", "8,8", "--set", "n=1"], "the same number for each"),
        (["--picture", "a.png"], "SVG"),
    ],
)
def test_what_is_missing_is_said(capsys, kernels, arguments, complaint):
    status, text, errors = access(capsys, kernels, *arguments)

    assert status == 1
    assert complaint in text + errors


def test_a_wrong_program_shows_the_compilers_text(capsys, kernels):
    kernels.write_text("__kernel void k(__global int *a) { a[0] = undeclared; }")

    status, _, errors = access(capsys, kernels)

    assert status == 1
    assert "undeclared identifier" in errors


def test_the_picture_shows_each_byte_at_its_place(capsys, kernels, tmp_path):
    picture = tmp_path / "tile.svg"
    status, _, _ = access(
        capsys, kernels, "--kernel", "tile", "--global", "64,32", "--local", "8,8", "--workers", "2",
        "--set", "width=64", "--picture", str(picture),
    )  # fmt: skip

    assert status == 0
    root = ElementTree.parse(picture).getroot()
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "8192 bytes, 256 a row" in texts, "the pitch follows from a work-group's writes"
    boxes = [element.attrib for element in root.iter("{http://www.w3.org/2000/svg}rect")]
    frames = [box for box in boxes if box.get("stroke")][-2:]
    writes = [box for box in boxes if box.get("class") == "write"]
    assert len(writes) == 2
    for frame, box, part in zip(frames, writes, (0, 0.5), strict=True):
        assert float(box["width"]) == pytest.approx(float(frame["width"]), abs=0.1)
        top = (float(box["y"]) - float(frame["y"])) / float(frame["height"])
        assert top == pytest.approx(part, abs=0.05)
        assert float(box["height"]) / float(frame["height"]) == pytest.approx(0.5, abs=0.05)


def test_bars_are_as_long_as_the_bytes_are_many():
    row = Row(
        "a", 1000, [{"read": Region.span(0, 500)}, {"write": Region.from_runs([(250, 500), (750, 1000)])}]
    )

    boxes = [
        element.attrib
        for element in ElementTree.fromstring(draw("t", [row])).iter("{http://www.w3.org/2000/svg}rect")
        if element.get("class")
    ]

    frame = 720
    assert [(box["class"], round(float(box["width"]) / frame, 2)) for box in boxes] == [
        ("read", 0.5),
        ("write", 0.25),
        ("write", 0.25),
    ]
    assert {box["fill"] for box in boxes} == {COLOURS["read"], COLOURS["write"]}


def test_no_device_is_asked_for(kernels):
    code = (
        "import sys; from vdev.cli import info; info.main(sys.argv[1:]); "
        "assert not {'pyopencl', 'vdev.session.session', 'vdev.backends'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--access", str(kernels), "-D", "SHIFT=0"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "kernel add" in done.stdout


def test_sizes_may_be_given(kernels):
    setting = Setting((256,), (64,), workers=4, values={"n": "256"}, sizes={"out": 512})
    (report,) = report_file(kernels, ["-DSHIFT=0"], setting, "add")

    assert report.launch is not None
    assert report.launch.sizes[2] == 512
    written = Region.union(
        found.region for part in report.launch.parts for found in part.ranges if found.mode == "write"
    )
    assert written == Region.span(0, 512)


def test_a_file_in_another_encoding_than_utf_8(tmp_path: Path) -> None:
    old = tmp_path / "old.cl"
    old.write_text("// carré\nkernel void k(global int *a) { a[get_global_id(0)] = 1; }\n", "latin-1")
    assert [report.info.name for report in report_file(old)] == ["k"]
