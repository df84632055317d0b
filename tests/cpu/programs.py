"""Whole programs as they are found in benchmark suites and books, each checked against NumPy.

Run as a script on the device that the environment gives; prints one JSON object: for each program what went wrong
(null where nothing did) and the workers and reasons of its launches. The programs themselves know nothing of vdev.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import tests.cpu.programs_irregular
import tests.cpu.programs_moving
import tests.cpu.programs_regular  # noqa: F401  (registers its programs, as the others do)
from tests.cpu.program_device import PROGRAMS, Device
from vdev.session.commands import Launch
from vdev.start.current import get_session


def launches() -> list[dict[str, Any]]:
    """A list that grows by every launch on the virtual device."""
    seen: list[dict[str, Any]] = []

    def note(command: Any, plan: Any) -> None:
        if isinstance(command, Launch):
            seen.append(
                {"kernel": command.kernel.name, "workers": len(plan.partition), "reasons": list(plan.reasons)}
            )

    get_session().observers.append(note)
    return seen


def main() -> None:
    warnings.simplefilter("ignore")
    seen = launches()
    results: dict[str, Any] = {}
    for name, run in PROGRAMS.items():
        first, error = len(seen), None
        try:
            run(Device())
        except Exception as problem:  # every kind of failure is a result
            error = f"{type(problem).__name__}: {problem}"
        results[name] = {"error": error, "launches": seen[first:]}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
