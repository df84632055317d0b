"""Run a program and say what the session did with each of its launches: `python -m tests.cpu.observed script.py …`.

Writes a line of JSON for each launch to standard error, after the word `launch`.
"""

from __future__ import annotations

import json
import runpy
import sys
from typing import Any

from vdev import boot
from vdev.session.commands import Launch
from vdev.start.current import get_session


def tell(command: Any, plan: Any) -> None:
    if isinstance(command, Launch):
        found = {
            "kernel": command.kernel.name,
            "nitems": command.ndrange.nitems,
            "workers": len(plan.partition),
            "reasons": plan.reasons,
            "moved_nbytes": plan.moved_nbytes,
        }
        print("launch", json.dumps(found), file=sys.stderr)


def main() -> None:
    boot.start()
    get_session().observers.append(tell)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
