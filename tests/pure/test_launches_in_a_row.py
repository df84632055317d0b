"""When the façade prepares for more launches like the last ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange

from vdev.facade import launch
from vdev.facade.errors import native
from vdev.facade.kernel import Kernel, KernelState
from vdev.facade.repeat import repeat_of
from vdev.session.commands import ONCE, LocalArg

SMALL, LARGE = NDRange((64,), (64,), (0,)), NDRange((128,), (64,), (0,))


class Prepared(list[int]):
    """An `AtOnce` that hands everything over; the numbers of the launches behind which it was asked to prepare for more."""

    number = 0
    is_alone = False
    first = 0  #: of the commands that all went the same way since then

    def is_undisturbed(self, number: int) -> bool:
        return self.first <= number

    def launch(self, *_: object) -> object:
        self.number += 1
        return SimpleNamespace(stretch=SimpleNamespace(last=self.number))

    def formed(self, kernel: object, before: object) -> None:
        """There are others."""

    def in_a_row(self, kernel: object, queue: object, part: Any, timed: object = None) -> object:
        self.append(part.stretch.last)
        return SimpleNamespace(used=[False])


def unmade(*args: object) -> Any:
    """The state of a kernel that was never launched."""
    found = SimpleNamespace(
        repetition=None, launched=-1, args=[*args], kernel=None, rotation=None, pause=0, paused=0, formed=None
    )
    found.capture = lambda routine: tuple(found.args)
    return cast(Any, found)


def launched(*sizes: NDRange, others: int = 0, elsewhere: bool = False) -> Prepared:
    """Launches over these, which differ in nothing else; with so many other commands before each, which went `elsewhere` or not."""
    at_once = Prepared()
    line = cast(
        Any, SimpleNamespace(session=SimpleNamespace(at_once=at_once), order=SimpleNamespace(profiled=False))
    )
    kernel = unmade(None)
    for ndrange in sizes:
        if kernel.repetition not in (None, ONCE):
            break  # the next one is made by what was prepared
        at_once.number += others
        at_once.first = at_once.number + 1 if elsewhere else 0
        launch._handed_over(line, kernel, (None,), ndrange, (), (kernel.repetition, kernel.launched))
    return at_once


def test_the_second_launch_in_a_row_prepares_for_more() -> None:
    assert launched(SMALL) == []
    assert launched(SMALL, SMALL, SMALL) == [2]


def test_launches_over_other_sizes_prepare_for_more() -> None:
    """What makes a launch again takes any index space, where the back end can."""
    assert launched(LARGE, SMALL, SMALL) == [2]
    assert launched(*[SMALL, LARGE] * 4) == [2]


def test_launches_with_others_in_between_prepare_for_none_but_where_these_went_the_same_way() -> None:
    assert launched(*[SMALL] * 8, others=1, elsewhere=True) == []
    assert launched(*[SMALL] * 8, others=1) == [4]


@pytest.mark.parametrize("is_used", [False, True])
def test_what_is_never_of_use_is_prepared_ever_more_seldom(is_used: bool) -> None:
    at_once, kernel = Prepared(), unmade(None)
    line = cast(
        Any, SimpleNamespace(session=SimpleNamespace(at_once=at_once), order=SimpleNamespace(profiled=False))
    )
    made_at = []
    for number in range(300):
        before = len(at_once)
        launch._handed_over(line, kernel, (None,), SMALL, (), (kernel.repetition, kernel.launched))
        if len(at_once) > before:
            made_at.append(number)
            kernel.repetition.used[0] = is_used
    pauses = [later - earlier for earlier, later in pairwise(made_at)]
    assert pauses == ([1] * 298 if is_used else [2, 4, 8, 16, 32, 64, 64, 64])


def test_nothing_is_prepared_where_another_thread_has_set_an_argument() -> None:
    def in_a_row(*_: object) -> object:  # while the other thread runs
        kernel.args[0] = b"\5"
        return object()

    at_once = Prepared()
    line = cast(
        Any, SimpleNamespace(session=SimpleNamespace(at_once=at_once), order=SimpleNamespace(profiled=False))
    )
    kernel = unmade(b"\1")
    launch._handed_over(line, kernel, (b"\1",), SMALL, (), (kernel.repetition, kernel.launched))
    at_once.in_a_row = in_a_row  # type: ignore[method-assign]
    launch._handed_over(line, kernel, (b"\1",), SMALL, (), (kernel.repetition, kernel.launched))
    assert kernel.repetition is None


@pytest.mark.parametrize(
    "set_argument",
    [
        lambda kernel: Kernel.set_arg(kernel, 0, 5),
        lambda kernel: Kernel._set_arg_multi(kernel, (0, 5)),
        lambda kernel: Kernel._set_arg_buf_multi(kernel, (0, b"\5")),
    ],
)
@pytest.mark.parametrize("takes_values", [False, True])
def test_a_launch_while_an_argument_is_being_set_is_forgotten(
    set_argument: Callable[[Any], None], takes_values: bool
) -> None:
    class Arguments(list[object]):
        def __setitem__(self, index: Any, value: object) -> None:
            state.repetition = of_before  # another thread launches just before
            super().__setitem__(index, value)

    of_before = SimpleNamespace(takes_values=takes_values)

    state = cast(Any, object.__new__(KernelState))
    state.args, state.converters, state.converting = Arguments([b"\1"]), [lambda _: b"\5"], [None]
    state.nbytes, state.pointers, state.context = [1], frozenset(), None
    set_argument(SimpleNamespace(_vdev_state=state))
    assert state.args == [b"\5"]
    assert state.repetition is (of_before if takes_values else None)


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        (b"\1", b"\1", (True, True)),
        (b"\1", b"\2", (False, True)),
        (b"\1", b"\1\0", (False, False)),
        (LocalArg(64), LocalArg(64), (True, True)),
        (LocalArg(64), LocalArg(128), (False, False)),
        (None, b"\1", (False, False)),
        (b"\1", None, (False, False)),
    ],
)
def test_setting_an_argument_to_what_it_is_forgets_nothing(
    before: object, now: object, kept: tuple[bool, bool]
) -> None:
    for takes_values in (False, True):
        repetition = SimpleNamespace(takes_values=takes_values)
        state = cast(Any, object.__new__(KernelState))
        state.args, state.converters, state.converting = (
            [before, before],
            [lambda value: value] * 2,
            [None] * 2,
        )
        state.nbytes, state.pointers, state.context = [1, 1], frozenset(), None
        for set_arguments in (
            lambda kernel: Kernel.set_arg(kernel, 1, now),
            lambda kernel: Kernel._set_arg_multi(kernel, (0, before, 1, now)),
            lambda kernel: Kernel._set_arg_multi(kernel, (0, now, 1, before)),
        ):
            state.args, state.repetition = [before, before], repetition
            set_arguments(SimpleNamespace(_vdev_state=state))
            assert state.repetition is (repetition if kept[takes_values] else None)


@pytest.mark.parametrize(
    ("first", "second", "goes_on"),
    [
        (np.uint32(1), np.uint32(2), True),
        (np.uint32(1), np.uint32(1), True),
        (native.LocalMemory(64), native.LocalMemory(128), False),
        (native.LocalMemory(64), native.LocalMemory(64), True),
    ],
)
@pytest.mark.parametrize("takes_values", [False, True])
def test_only_a_number_may_change_in_what_is_repeated(
    first: Any, second: Any, goes_on: bool, takes_values: bool
) -> None:
    is_number = isinstance(first, np.uint32)
    convert = bytes if is_number else (lambda value: LocalArg(value.size))
    kernel = cast(
        Any,
        SimpleNamespace(
            args=[convert(first)],
            converting=[convert],
            repetition=SimpleNamespace(takes_values=takes_values),
            context=None,
            images=(),
        ),
    )
    call = (None, (64,), (64,))
    repeat = repeat_of(kernel, (*call, first))
    assert repeat is not None
    is_same = convert(first) == convert(second)
    assert repeat.takes(kernel, (*call, second)) == (convert(second),)
    assert kernel.args == [convert(second)]
    assert (kernel.repetition is not None) == (goes_on and (takes_values or is_same))
