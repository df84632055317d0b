"""One process that runs a file of tests under a planted defect: `python -m tests.fuzz.planted_tests DEFECT`, started by `strength`.

Decides only that the defect is planted before anything of vdev is imported. The last line says how many tests ran until one failed,
and which that was.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

from tests.pure.fake_cuda import PLANTED

from .mutations import BY_NAME, nowhere, plant


class Counting:
    """How many tests ran, and the first that failed."""

    def __init__(self) -> None:
        self.ran = 0
        self.failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.ran += report.when == "call"
        if report.failed and not self.failed:
            self.failed = report.nodeid.rpartition("::")[2]


def main() -> None:
    name = sys.argv[1]
    plant(name)
    os.environ[PLANTED] = name
    counting = Counting()
    # Rewritten assertions would have pytest load the modules, this package being one of its plugins.
    pytest.main(
        ["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", BY_NAME[name].tests], plugins=[counting]
    )
    # What fails in a process of its own may be imported there alone.
    if not counting.failed and (missing := nowhere(name)):
        raise SystemExit(f"{name}: nothing imports {', '.join(missing)}")
    print("TESTS " + json.dumps({"ran": counting.ran, "failed": counting.failed}), flush=True)


if __name__ == "__main__":
    main()
