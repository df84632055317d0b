"""The classes of faults that were found in 0.1.0 stay mended: each program of `tests.cpu.first_faults`."""

from __future__ import annotations

import pytest

from tests.cpu.first_faults import FAULTS, outcome


@pytest.mark.parametrize("name", FAULTS)
def test_what_failed_at_first_is_right(name):
    assert outcome(name, limit=900) == "right", FAULTS[name].right
