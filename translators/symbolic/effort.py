"""How much work an analysis may take, counted in steps instead of time, so that the outcome for a kernel is the same
on every machine, under any load, and in every run.

A step is roughly a microsecond on an ordinary processor of 2020. Code whose work grows with the size of something
calls `spend`; outside `limited` nothing is counted. Decides nothing about what happens to a kernel that takes too
much.
"""

from __future__ import annotations

import threading
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


class limited:
    """Inside it (`with limited(steps):`), this thread may spend that many steps."""

    __slots__ = ("_before", "_meter", "_steps")

    def __init__(self, steps: float) -> None:
        self._steps = steps

    def __enter__(self) -> None:
        meter = self._meter = own_meter()
        self._before = meter.limit, meter.left
        meter.limit = meter.left = self._steps

    def __exit__(self, *_: object) -> None:
        self._meter.limit, self._meter.left = self._before


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
