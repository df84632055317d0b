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

__all__ = ["Meter", "TooMuch", "limited", "own_meter", "spend", "spent"]


class TooMuch(Exception):
    """All steps have been spent."""


class Meter:
    """The steps of one thread: others may be evaluating launches at the same time."""

    __slots__ = ("left", "limit")

    def __init__(self) -> None:
        self.limit = self.left = inf


class _Threads(threading.local):
    """Keeps each thread's meter: to ask for what belongs to a thread takes longer than to count."""

    def __init__(self) -> None:
        self.meter = Meter()


_threads = _Threads()


def own_meter() -> Meter:
    """This thread's meter, for code that spends steps so often that the call of `spend` counts."""
    return _threads.meter


@contextmanager
def limited(steps: float) -> Iterator[None]:
    """Inside it, this thread may spend that many steps."""
    meter = own_meter()
    kept = meter.limit, meter.left
    meter.limit = meter.left = steps
    try:
        yield
    finally:
        meter.limit, meter.left = kept


def spend(steps: int) -> None:
    """Count `steps`. Raises TooMuch if there are none left."""
    meter = _threads.meter
    left = meter.left = meter.left - steps
    if left < 0:
        raise TooMuch


def spent() -> float:
    """The steps that this thread has spent since `limited` began; meaningless outside it."""
    meter = own_meter()
    return meter.limit - meter.left
