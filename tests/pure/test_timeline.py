"""What steps would take on GPUs (`tests.pure.timeline`): of small logs, and of a stencil, whose interiors wait for no other GPU's."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from . import fake_cuda, timeline
from .cuda_host import COMPILER, MISSING
from .timeline import Rates, Work, ends, log_of, read, step_of, with_kernels


def test_examples() -> None:
    found = doctest.testmod(timeline)
    assert found.attempted > 3
    assert not found.failed


def test_a_log_is_read() -> None:
    lines = [
        "stream 0 0 0",
        "stream 1 1 -1",
        "note 7",
        "launch 0 mine 50 0 0",
        "record 0 e 1",
        "context",
        "wait 1 e 1",
    ]
    lines += ["launch 1 copy_u4 64 0 100", "launch 1 copy_boxes_u16 64 100 0", "copy 1 80"]
    rates = Rates(group=2.0, least=1.0, call=0.5, event=3.0, latency=5.0, link=10.0)
    work, streams = read(lines, rates)
    assert streams == {0: (0, 0), 1: (1, -1)}
    assert work == [
        Work(0, 0.5, 7, work=100.0, least=1.0),
        Work(0, 1.0, 7, records=("e", "1")),
        Work(1, 2.0, 7, waits=("e", "1")),
        *[Work(1, at, 7, least=least) for at, least in ((2.5, 45.0), (3.0, 165.0), (3.5, 13.0))],
    ]
    assert ends(work, streams, rates.event) == {7: 0.5 + 100.0 + 3.0 + 45.0 + 165.0 + 13.0}


def test_a_wait_for_what_never_comes_is_found() -> None:
    with pytest.raises(AssertionError, match="never comes"):
        ends([Work(0, 0.0, 0, waits=("e", "1"))], {0: (0, 0)}, 0.0)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_interiors_hide_what_neighbours_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two planes of 1.6 MB come to the middle one of three GPUs, which take a latency and 8 us."""
    monkeypatch.setenv(fake_cuda.SHARED, str(tmp_path))
    kernel, taken = 260e-6, []
    for interiors in "01":
        taken.append(step_of(log_of(tmp_path, 3, VDEV_INTERIORS=interiors), with_kernels(kernel, 3)))
    whole, divided = taken
    assert whole > kernel + 15e-6
    assert kernel - 2e-6 < divided < kernel + 1e-6
