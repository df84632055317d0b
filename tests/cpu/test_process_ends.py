"""Processes end on the virtual device as natively: a slice of `tests.cpu.process_ends`."""

from __future__ import annotations

import pytest

from tests.cpu.process_ends import ALLOWED, End, differs, table

SLICE = (
    "seconds queued, sys.exit(3)",
    "seconds queued, an exception",
    "daemon threads that enqueue",
    "an exit handler from before",
)


@pytest.mark.parametrize("way", SLICE)
def test_a_process_ends_as_natively(way):
    """How long that takes is for the whole table to say: here other tests have the processors as well."""
    (row,) = table([way], limit=300)
    assert not row["differs"] or row["differs"].endswith("later"), row


def test_what_counts_as_different():
    native = End(3, 0.1, "out", "err")
    assert differs(native, native) == ""
    assert differs(native, End(0, 0.1, "out", "err")) == "status 0, natively 3"
    assert differs(native, End(-6, 0.1, "out", "err")) == "status -6, natively 3"
    assert differs(native, End(None, 60, "", "")) == "a hang"
    assert differs(native, End(3, 0.2 + ALLOWED, "out", "err")).endswith("later")
    assert differs(native, End(3, 0.1, "out", "something of its own")).startswith("other output")
