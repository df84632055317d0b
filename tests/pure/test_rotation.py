"""Sets of buffers that take turns as a kernel's arguments (`vdev.facade.rotation`)."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vdev.facade import launch
from vdev.facade.memory import Memory
from vdev.facade.rotation import Known, Rotation
from vdev.session.commands import ONCE, BufferArg, LocalArg

FIRST: Known = ONCE, 1
SECOND: Known = ONCE, 2


def memory() -> Any:
    """What the façade keeps of a buffer, with nothing behind it."""
    made = cast(Any, object.__new__(Memory))
    made.argument = BufferArg(cast(Any, object()), 0, 64)
    return made


def kernel(*args: object) -> Any:
    return SimpleNamespace(args=[*args])


def captured(*args: Any) -> Any:
    """Arguments as a launch captures them."""
    return tuple([arg.argument if type(arg) is Memory else arg for arg in args])


def key(rotation: Rotation, *args: object) -> Any:
    return rotation.key(kernel(*args), captured(*args))


def test_what_was_kept_for_the_same_buffers_is_found_whatever_the_values() -> None:
    rotation, one, other = Rotation(), memory(), memory()
    rotation.keep(key(rotation, one, other, b"\1"), FIRST)
    rotation.keep(key(rotation, other, one, b"\1"), SECOND)
    assert rotation.find(key(rotation, one, other, b"\2")) is FIRST
    assert rotation.find(key(rotation, other, one, b"\1")) is SECOND
    assert rotation.find(key(rotation, one, one, b"\1")) is None


def test_buffers_that_take_no_turns_stay() -> None:
    rotation, one, other = Rotation(), memory(), memory()
    rotation.keep(key(rotation, one, other), FIRST)
    rotation.keep(key(rotation, other, one), SECOND)
    found = []
    for args in (one, other), (other, one), (one, other), (one, other), (one, one), (one, one):
        rotation.find(key(rotation, *args))
        found.append(rotation.stays)
    assert found == [False, False, False, True, False, False]


def test_what_makes_launches_of_buffers_that_stay_again_is_not_looked_for_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launch, "Event", SimpleNamespace(_vdev_of_command=lambda *given: given[-1]))
    rotation, one, other = Rotation(), memory(), memory()
    args, made = captured(one, other), object()
    again: Any = SimpleNamespace(again=lambda *given: made, takes_values=True, used=[False])
    rotation.keep(key(rotation, one, other), (again, 7))
    launched = kernel(one, other)
    launched.capture, launched.has_local, launched.kernel = (
        lambda _: args,
        False,
        SimpleNamespace(addresses=None),
    )
    launched.rotation, launched.repetition, launched.formed, launched.launched = rotation, None, None, 0
    queue: Any = SimpleNamespace(_vdev_state=SimpleNamespace(is_finalized=False, order=None, context=None))
    found = []
    for _ in range(3):
        assert launch._launched(queue, launched, args, cast(Any, None), ()) is made
        found.append((launched.repetition, launched.launched))
    assert found == [(None, 0), (again, 7), (again, 7)]


def test_local_memory_and_null_pointers_are_no_values() -> None:
    rotation, one = Rotation(), memory()
    small, large = LocalArg(64), LocalArg(128)
    rotation.keep(key(rotation, one, small), FIRST)
    assert rotation.find(key(rotation, one, large)) is None
    assert rotation.find(key(rotation, one, None)) is None
    assert rotation.find(key(rotation, one, LocalArg(64))) is FIRST


def test_nothing_of_a_buffer_is_kept_alive() -> None:
    """Its memory may be a large array of the program's."""
    rotation, one = Rotation(), memory()
    rotation.keep(key(rotation, one, b"\1"), FIRST)
    gone = weakref.ref(one)
    del one
    assert gone() is None
    assert rotation.find(key(rotation, memory(), b"\1")) is None


def test_a_buffer_that_serves_again_is_known() -> None:
    rotation, one, part = Rotation(), memory(), memory()
    part.argument = BufferArg(one.argument.buffer, 32, 32)
    rotation.keep(key(rotation, one), FIRST)
    assert rotation.find(key(rotation, part)) is None
    following = memory()
    following.argument, one.argument = one.argument, memory().argument
    assert rotation.find(key(rotation, following)) is FIRST
    assert rotation.find(key(rotation, one)) is None


def test_nobody_looks_where_another_thread_has_set_an_argument() -> None:
    rotation, one, other = Rotation(), memory(), memory()
    args = captured(one, b"\1")
    assert rotation.key(kernel(other, b"\1"), args) is None
    del one.argument  # the last reference to the buffer is gone
    assert rotation.key(kernel(one, b"\1"), args) is None
    assert rotation.key(kernel(LocalArg(8), b"\1"), (LocalArg(16), b"\1")) is None


def test_buffers_that_never_come_back_are_looked_at_ever_more_seldom() -> None:
    rotation, looked_at = Rotation(), []
    for number in range(3000):
        found = key(rotation, memory())
        if found is not None:
            rotation.keep(found, FIRST)
            looked_at.append(number)
    assert len(looked_at) < 150
    assert len(rotation._known) <= 8


def test_buffers_that_come_back_are_looked_at_always() -> None:
    rotation, pair = Rotation(), [memory(), memory()]
    for _ in range(1000):
        for each in (*pair, memory()):
            found = key(rotation, each)
            assert found is not None
            rotation.find(found)
            rotation.keep(found, FIRST)
