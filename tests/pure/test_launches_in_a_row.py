"""When the façade prepares for more launches like the last ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from vdev.translators.ranges.ndrange import NDRange

from vdev.facade import launch
from vdev.session.commands import ONCE

SMALL, LARGE = NDRange((64,), (64,), (0,)), NDRange((128,), (64,), (0,))


class Prepared(list[NDRange]):
    """An `AtOnce` that hands everything over; the index spaces for which it was asked to prepare."""

    number = 0

    def launch(self, *_: object) -> object:
        self.number += 1
        return SimpleNamespace(stretch=SimpleNamespace(last=self.number))

    def in_a_row(self, kernel: object, ndrange: NDRange, *_: object) -> object:
        self.append(ndrange)
        return object()


def launched(*sizes: NDRange, others: int = 0) -> Prepared:
    """Launches over these, which differ in nothing else; with so many other commands before each."""
    at_once = Prepared()
    line = cast(Any, SimpleNamespace(session=SimpleNamespace(at_once=at_once), order=None))
    kernel = cast(Any, SimpleNamespace(repetition=None, launched=(-1, None), args=[None], kernel=None))
    for ndrange in sizes:
        if kernel.repetition not in (None, ONCE):
            break  # the next one is made by what was prepared
        at_once.number += others
        launch._handed_over(line, kernel, (), ndrange, ())
    return at_once


def test_the_second_launch_in_a_row_prepares_for_more() -> None:
    assert launched(SMALL) == []
    assert launched(SMALL, SMALL, SMALL) == [SMALL]
    assert launched(LARGE, SMALL, SMALL) == [SMALL]


def test_launches_over_other_sizes_prepare_for_none() -> None:
    assert launched(*[SMALL, LARGE] * 4) == []


def test_launches_with_others_in_between_prepare_for_none() -> None:
    assert launched(*[SMALL] * 8, others=1) == []
