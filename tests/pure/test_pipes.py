"""Commands whose output nobody reads to its end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from vdev.cli import check, info

PROGRAM = """
import sys
from vdev.cli.pipes import ends_with_its_reader
sys.exit(ends_with_its_reader(lambda: print("a line\\n" * 10_000) or 0)())
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_command_ends_silently_with_its_reader(unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.parametrize("command", [check.main, info.main])
def test_commands_with_much_output_do(command: object) -> None:
    assert hasattr(command, "__wrapped__")
