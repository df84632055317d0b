"""The exit of a C program waits for threads inside libraries that were loaded late."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: As the driver's library has it: the interpreter is never finalised, and the C library calls what is registered.
_PROGRAM = """
import ctypes, os, sys, threading, time
from vdev.process import ending, late_libraries

WAY = sys.argv[1]
if WAY != "python":
    ending.let_c_call()
late_libraries._LONGEST = 0.3 if WAY == "hangs" else 200
library = late_libraries.LateLibrary("the compiler")
exits = ctypes.CDLL(None)["__cxa_atexit"]


def say(text):
    os.write(1, text.encode() + b"\\n")


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def tear_down(_):
    try:
        with library.inside():
            say("somebody is let in")
    except late_libraries.Ending as error:
        say(str(error))
    say("torn down")


def compile():
    with library.inside():
        if WAY != "python":
            exits(tear_down, None, None)
        library.loaded()
        library.loaded()
        entered.set()
        if WAY in ("hangs", "python"):
            time.sleep(600)
        ends.wait()
        time.sleep(0.5)  # it is still inside when the exit begins
        say("compiled")


entered, ends = threading.Event(), threading.Event()
threading.Thread(target=compile, daemon=True).start()
entered.wait()
if WAY == "forked":
    child = os.fork()
    if not child:
        ctypes.CDLL(None).exit(0)
    os.waitpid(child, 0)
    say("the child has ended")
ends.set()
if WAY != "python":
    ctypes.CDLL(None).exit(3)
sys.exit(3)
"""

_REFUSED = "the compiler cannot be used any more: the process is ending"


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("compiles", ["compiled", _REFUSED, "torn down"]),
        ("hangs", []),
        # the child has none of its parent's threads to wait for
        ("forked", [_REFUSED, "torn down", "the child has ended", "compiled", _REFUSED, "torn down"]),
        ("python", []),
    ],
)
def test_an_exit_waits_for_who_is_inside(way: str, said: list[str], tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(_PROGRAM)
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        # from 3.12 on Python warns of every fork of a process with threads
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", str(script), way],
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (3, said, "")
