"""When the façade prepares for more launches like the last ones."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from vdev.translators.ranges.ndrange import NDRange

from vdev.facade import launch
from vdev.facade.kernel import Kernel, KernelState
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
        launch._handed_over(line, kernel, (None,), ndrange, ())
    return at_once


def test_the_second_launch_in_a_row_prepares_for_more() -> None:
    assert launched(SMALL) == []
    assert launched(SMALL, SMALL, SMALL) == [SMALL]
    assert launched(LARGE, SMALL, SMALL) == [SMALL]


def test_launches_over_other_sizes_prepare_for_none() -> None:
    assert launched(*[SMALL, LARGE] * 4) == []


def test_launches_with_others_in_between_prepare_for_none() -> None:
    assert launched(*[SMALL] * 8, others=1) == []


def test_nothing_is_prepared_where_another_thread_has_set_an_argument() -> None:
    def in_a_row(*_: object) -> object:  # while the other thread runs
        kernel.args[0] = b"\5"
        return object()

    at_once = Prepared()
    line = cast(Any, SimpleNamespace(session=SimpleNamespace(at_once=at_once), order=None))
    kernel = cast(Any, SimpleNamespace(repetition=None, launched=(-1, None), args=[b"\1"], kernel=None))
    launch._handed_over(line, kernel, (b"\1",), SMALL, ())
    at_once.in_a_row = in_a_row  # type: ignore[method-assign]
    launch._handed_over(line, kernel, (b"\1",), SMALL, ())
    assert kernel.repetition is None


@pytest.mark.parametrize(
    "set_argument",
    [
        lambda kernel: Kernel.set_arg(kernel, 0, 5),
        lambda kernel: Kernel._set_arg_multi(kernel, (0, 5)),
        lambda kernel: Kernel._set_arg_buf_multi(kernel, (0, b"\5")),
    ],
)
def test_a_launch_while_an_argument_is_being_set_is_forgotten(
    set_argument: Callable[[Any], None],
) -> None:
    class Arguments(list[object]):
        def __setitem__(self, index: Any, value: object) -> None:
            state.repetition = "of the value before"  # another thread launches just before
            super().__setitem__(index, value)

    state = cast(Any, object.__new__(KernelState))
    state.args, state.converters, state.converting = Arguments([b"\1"]), [lambda _: b"\5"], [None]
    state.nbytes, state.pointers, state.context = [1], frozenset(), None
    set_argument(SimpleNamespace(_vdev_state=state))
    assert state.args == [b"\5"]
    assert state.repetition is None
