"""The guide: its programs run, its commands print what it shows, and what it says of each launch is what the session
did with it.

A command after `<!-- run -->` must succeed, after `<!-- run, fails -->` fail; the lines of the text block behind it must
be in its output.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from vdev.process import switches

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "samples" / "guide"
README = ROOT / "README.md"
PAGES = sorted(GUIDE.glob("*.md"))
PROGRAMS = sorted(GUIDE.glob("*.py"))
COUNT = 4


def run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """A command line of the guide, in a folder that has the samples."""
    if not (directory / "samples").exists():
        (directory / "samples").symlink_to(ROOT / "samples")
    command = re.sub(r"\bpython (?=-|samples|square)", f"{sys.executable} -W ignore ", command)
    command = re.sub(r"\bvdev-info\b", f"{sys.executable} -m vdev.cli.info", command)
    command = re.sub(r"^vdev-check\b", f"{sys.executable} -W ignore -m vdev.cli.check", command)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        command,
        shell=True,
        cwd=directory,
        env=environment,
        text=True,
        capture_output=True,
        timeout=900,
        check=False,
    )


# the launches ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """What a section of splitting.md says of the launch of its kernel."""

    title: str
    kernel: str
    source: str
    verdict: str
    reason: str
    nbytes: int | None


def claims() -> list[Claim]:
    found = []
    for section in (GUIDE / "splitting.md").read_text().split("\n### ")[1:]:
        section = section.split("\n## ")[0]
        source = re.search(r"```(?:c|py)\n(.*?)```", section, re.DOTALL)
        verdict = re.search(r"\*\*(Split|Merged|One worker)[.:]\*\*(?: `([^`]+)`\.)?", section)
        assert source, section
        assert verdict, section
        kernel = re.search(r"^__kernel void (\w+)|^(\w+)\(queue", source[1], re.MULTILINE)
        assert kernel
        moved = re.search(r"Moves\s(\d+)\sbytes", section)
        found.append(
            Claim(
                section.splitlines()[0],
                kernel[1] or kernel[2],
                source[1],
                verdict[1],
                verdict[2] or "",
                int(moved[1]) if moved else None,
            )
        )
    return found


CLAIMS = claims()


@functools.cache
def launches() -> list[dict[str, Any]]:
    """What the session did with the launches of splitting.py, on four workers."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")} | {
        "VDEV": "1",
        "VDEV_WORKERS": f"cpu:{COUNT}",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.cpu.observed", str(GUIDE / "splitting.py")],
        cwd=ROOT, env=environment, text=True, capture_output=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": ok\n") == len(CLAIMS), done.stdout
    return [
        json.loads(line.removeprefix("launch "))
        for line in done.stderr.splitlines()
        if line.startswith("launch ")
    ]


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.title for claim in CLAIMS])
def test_what_is_said_of_a_launch_is_so(claim: Claim) -> None:
    few = claim.kernel == "add" and claim.verdict == "One worker"
    (launch,) = [
        found for found in launches() if found["kernel"] == claim.kernel and (found["nitems"] < 1024) == few
    ]
    reasons = "\n".join(launch["reasons"])

    assert launch["workers"] == (1 if claim.verdict == "One worker" else COUNT), reasons
    assert claim.reason in reasons
    assert bool(claim.reason) == bool(reasons), reasons
    if claim.nbytes is not None:
        assert launch["moved_nbytes"] == claim.nbytes


def test_every_kernel_is_told_of_as_it_is() -> None:
    file = (GUIDE / "splitting.cl").read_text()
    program = (GUIDE / "splitting.py").read_text()

    assert {claim.kernel for claim in CLAIMS} == set(re.findall(r"__kernel void (\w+)", file))
    for claim in CLAIMS:
        assert claim.source in file or claim.source in program, claim.title


# commands ----------------------------------------------------------------------------------------


def commands() -> list[Any]:
    """(command, whether it succeeds, lines it prints) of all pages and the README."""
    found = []
    pattern = r"<!-- run(, fails)? -->\n```sh\n(.*?)\n```\n\n```text\n(.*?)```"
    for page in [*PAGES, README]:
        for number, match in enumerate(re.finditer(pattern, page.read_text(), re.DOTALL), 1):
            found.append(
                pytest.param(match[2], not match[1], match[3].splitlines(), id=f"{page.stem}-{number}")
            )
    return found


@pytest.mark.parametrize(("command", "succeeds", "lines"), commands())
def test_a_command_prints_what_the_guide_shows(
    command: str, succeeds: bool, lines: list[str], tmp_path: Path
) -> None:
    for name, program in re.findall(
        r"<!-- program: (.*) -->\n```python\n(.*?)```", README.read_text(), re.DOTALL
    ):
        (tmp_path / name).write_text(program)
    done = run(command, tmp_path)
    output = done.stdout + done.stderr

    assert (done.returncode == 0) == succeeds, output
    for line in lines:
        assert line.strip() in output, output
    for picture in tmp_path.glob("*.svg"):
        assert picture.read_text() == (GUIDE / picture.name).read_text(), (
            "the picture in the guide is an old one"
        )


def test_every_page_has_its_commands_run() -> None:
    marked = sum(len(re.findall(r"<!-- run", page.read_text())) for page in [*PAGES, README])
    assert marked == len(commands()) >= 9


def test_what_is_said_of_native_devices_is_so(tmp_path: Path) -> None:
    done = run("VDEV=1 VDEV_WORKERS=cpu:3 python samples/guide/native.py", tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("virtual device: vdev: 3 x ")
    assert done.stdout.count(": yes") >= 12


# pages -------------------------------------------------------------------------------------------


def test_the_switches_are_the_switches() -> None:
    """The table is the output of `python -c "from vdev.process import switches; print(switches.as_markdown())"`."""
    assert switches.as_markdown() in (GUIDE / "switches.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_links_lead_somewhere_and_switches_exist(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (page.parent / target).is_file(), target
    names = {switch.name for switch in switches.SWITCHES} | {"VDEV_"}
    assert set(re.findall(r"\bVDEV(?:_[A-Z_]*)?\b", text)) <= names


def test_every_file_is_led_to() -> None:
    linked = {target for page in PAGES for target in re.findall(r"\]\(([^)#]+)\)", page.read_text())}
    files = {path.name for path in GUIDE.iterdir() if path.is_file()} - {"README.md"}
    assert files <= linked
    assert "samples/guide/README.md" in README.read_text()


def test_drawings_are_drawings() -> None:
    for path in GUIDE.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
