"""What every test needs: hypothesis profiles, and an environment without the developer's own switches."""

from __future__ import annotations

import os

import hypothesis
import pytest

# Runs on shared machines have no steady clock; how many examples are tried is the tests' own business.
hypothesis.settings.register_profile("vdev", deadline=None)
hypothesis.settings.load_profile("vdev")

#: A developer may choose the workers that tests run on; anything else that is set would change results.
_KEPT = {"VDEV", "VDEV_WORKERS"}
for _name in [name for name in os.environ if name.startswith("VDEV_") and name not in _KEPT]:
    del os.environ[_name]
#: Tests are about launches that are split, on machines where that gains nothing; those of the budget set it anew.
os.environ["VDEV_PLANNING"] = "always"
#: They say what is made now, and some of them with faults that are planted; those of what is kept set it anew.
os.environ["VDEV_CACHE"] = "0"


def pytest_configure(config: pytest.Config) -> None:
    """Files run in the order of their names: those of `tests/conformance` and `tests/cpu`, of which some take minutes, begin early.

    pytest-xdist would begin with the files that have most tests, and end with a long one, for which the other processes wait.
    """
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
