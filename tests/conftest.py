"""What every test needs: hypothesis profiles, and an environment without the developer's own switches."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator

import hypothesis
import pytest

from tests.pure import fake_cuda

# Runs on shared machines have no steady clock; how many examples are tried is the tests' own business, and how long drawing
# them takes, and how many are refused on the way, is chance.
hypothesis.settings.register_profile(
    "vdev", deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile("vdev")

#: A developer may choose the workers that tests run on; anything else that is set would change results. What the stand-in for NVRTC
#: makes goes into the folder of the test that uses it, not into the user's.
_KEPT = {"VDEV", "VDEV_WORKERS", "VDEV_CACHE_DIR"}
for _name in [name for name in os.environ if name.startswith("VDEV_") and name not in _KEPT]:
    del os.environ[_name]
#: Tests are about launches that are split, on machines where that gains nothing; those of the budget set it anew.
os.environ["VDEV_PLANNING"] = "always"
#: They say what is made now, and some of them with faults that are planted; those of what is kept set it anew.
os.environ["VDEV_CACHE"] = "0"
#: how many of the slowest files are listed after a run of more
_FILES = 30
#: seconds after which what does not end hangs
_PATIENCE = 300


@pytest.fixture(autouse=True)
def nothing_is_left_beside() -> Iterator[None]:
    """What a test has begun beside it ends with it: it would have a part in what the next ones change or count in this process."""
    yield
    if (module := sys.modules.get("vdev.process.beside")) is not None:
        for each in (module.beside, module.compilers):
            with each._changed:
                done = each._changed.wait_for(lambda each=each: not each._is_at_work(), _PATIENCE)
            assert done, "work beside the test does not end"


def pytest_configure(config: pytest.Config) -> None:
    """Files run in the order of their names: those of `tests/conformance` and `tests/cpu`, of which some take minutes, begin early.

    pytest-xdist would begin with the files that have most tests, and end with a long one, for which the other processes wait.
    """
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    if (
        fake_cuda.SHARED not in os.environ
    ):  # the processes that pytest-xdist starts have it from the first one
        os.environ[fake_cuda.SHARED] = folder = tempfile.mkdtemp(prefix="fake-cuda-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """At the end of a run of many files: those that took longest."""
    seconds = Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]
    if len(seconds) > _FILES:
        terminalreporter.section(f"the {_FILES} slowest of {len(seconds)} files")
        for name, took in seconds.most_common(_FILES):
            terminalreporter.write_line(f"{took:7.1f} s  {name}")
