"""How much work an analysis may take, counted in steps instead of time, so that the outcome for a kernel is the same
on every machine, under any load, and in every run.

A step is roughly a microsecond on an ordinary processor of 2020. Code whose work grows with the size of something
calls `spend`; outside `limited` nothing is counted. Decides nothing about what happens to a kernel that takes too
much.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

__all__ = ["TooMuch", "limited", "spend", "spent"]


class TooMuch(Exception):
    """All steps have been spent."""


class _Meter(threading.local):
    """The count of one thread: others may be evaluating launches at the same time."""

    limit: float = inf
    left: float = inf


_meter = _Meter()


@contextmanager
def limited(steps: float) -> Iterator[None]:
    """Inside it, this thread may spend that many steps."""
    kept = _meter.limit, _meter.left
    _meter.limit = _meter.left = steps
    try:
        yield
    finally:
        _meter.limit, _meter.left = kept


def spend(steps: int) -> None:
    """Count `steps`. Raises TooMuch if there are none left."""
    left = _meter.left = _meter.left - steps
    if left < 0:
        raise TooMuch


def spent() -> float:
    """The steps that this thread has spent since `limited` began; meaningless outside it."""
    return _meter.limit - _meter.left
