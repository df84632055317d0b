"""What a program sees natively and on the virtual device, from one table that two processes run.

A table is a dictionary of functions of a world (`cl` and whatever the table's module adds). The native
process and the virtual one run all of it; results and exceptions are compared one by one. Decides how an
outcome is written down: the result, where JSON can hold it, or the exception's class, code and routine.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vdev.start.engines import register_engines

ROOT = Path(__file__).parents[2]
Call = Callable[[Any], Any]
_MARK = "RESULTS"


def outcome(call: Call, world: Any) -> list[Any]:
    """[class, status code, routine] of the exception, or ["ok", the result where it can be compared]."""
    try:
        result = call(world)
    except world.cl.Error as error:
        return [type(error).__name__, error.code, error.routine]
    except Exception as error:
        return [type(error).__name__]
    comparable = json.dumps(
        result, default=lambda value: value.tolist() if hasattr(value, "tolist") else None
    )
    return ["ok", json.loads(comparable)]


def report(module: str) -> None:
    """Run the table of `module` (its CALLS and make_world) in this process and print the outcomes."""
    warnings.simplefilter("ignore")
    table = importlib.import_module(module)
    world = table.make_world()
    results = {name: outcome(call, world) for name, call in dict(table.CALLS).items()}
    results["platform"] = world.device.platform.name
    world.queue.finish()
    print(_MARK + json.dumps(results))


def run(module: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The outcomes of the table of `module` in a process with that environment."""
    register_engines()
    variables = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    command = [sys.executable, "-m", "tests.cpu.side_by_side", module]
    done = subprocess.run(
        command, env=variables | dict(environment), capture_output=True, text=True, timeout=900,
        check=False, cwd=ROOT,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    assert lines, done.stdout + done.stderr
    results: dict[str, Any] = json.loads(lines[-1].removeprefix(_MARK))
    return results


if __name__ == "__main__":
    report(sys.argv[1])
