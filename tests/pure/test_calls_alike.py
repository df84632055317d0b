"""Calls of a kernel like the last one (`vdev.facade.repeat`, `vdev.facade.rotation`, `vdev.backends.opencl.launching`), and boxes of
transfers (`vdev.facade.transfers`): what becomes of their arguments, and what that takes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.bytecodes import Bytecodes
from vdev.backends.base import Allocation
from vdev.backends.opencl import launching
from vdev.facade import repeat as repeat_module
from vdev.facade import rotation as rotation_module
from vdev.facade import transfers
from vdev.facade.arguments import PACKERS, refuse
from vdev.facade.memory import Buffer, Memory
from vdev.facade.repeat import Repeat, RepeatOfArrays, repeat_of
from vdev.facade.rotation import Rotation
from vdev.facade.transfers import components
from vdev.session.commands import BufferArg

CALL = (None, (64,), (64,))
CONTEXT = object()


def buffer() -> Any:
    """A buffer with nothing behind it."""
    memory = cast(Any, object.__new__(Memory))
    memory.argument = BufferArg(cast(Any, None), 0, 64)
    memory.references, memory.context = 1, CONTEXT
    wrapper = cast(Any, object.__new__(Buffer))
    wrapper._vdev_state = memory
    return wrapper


def converted(arg: Any) -> Any:
    return arg._vdev_state if isinstance(arg, Buffer) else np.asarray(arg).tobytes()


def called(*args: Any) -> tuple[Any, Repeat]:
    """A kernel that was called with these arguments, and what takes the next call."""
    kernel = cast(
        Any,
        SimpleNamespace(
            args=[converted(arg) for arg in args],
            converting=[converted] * len(args),
            repetition=SimpleNamespace(takes_values=True),
            context=CONTEXT,
            images=(),
        ),
    )
    found = repeat_of(kernel, (*CALL, *args))
    assert found is not None
    return kernel, found


def captured(*args: Any) -> tuple[Any, ...]:
    return tuple(arg._vdev_state.argument if isinstance(arg, Buffer) else converted(arg) for arg in args)


NUMBERS = [
    *(
        kind(value)
        for kind in (np.float32, np.float64, np.float16, float)
        for value in (0.0, -0.0, 1.5, np.nan)
    ),
    *(
        kind(value)
        for kind in (np.complex64, complex)
        for value in (1, complex(1, -0.0), complex(-0.0, 1), 0)
    ),
    *(kind(value) for kind in (np.int8, np.uint64, int) for value in (0, 1, 7)),
    np.bool_(False),
    np.bool_(True),
]


@pytest.mark.parametrize("first", NUMBERS, ids=lambda number: f"{type(number).__name__} {number}")
def test_a_call_has_the_numbers_that_it_is_given(first: Any) -> None:
    """Some are equal and not the same: 0 and -0, also as parts of a complex number."""
    for second in NUMBERS:
        kernel, repeat = called(first, b"ab")
        for number in (second, first, second):
            found = repeat.takes(kernel, (*CALL, number, b"ab"))
            if type(number) is type(first) is not complex:  # Python's complex numbers go the usual way
                assert found == captured(number, b"ab"), (first, second)
                assert kernel.args == [*captured(number, b"ab")]
            elif number is not first:
                assert found is None


#: by struct character: the type of a kernel's argument that numbers are packed for
TYPED = {
    b"b": np.int8, b"B": np.uint8, b"i": np.int32, b"I": np.uint32, b"l": np.int64, b"L": np.uint64, b"f": np.float32, b"d": np.float64,
}  # fmt: skip


@pytest.mark.parametrize("given", TYPED.values(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("char", TYPED, ids=bytes.decode)
def test_numbers_of_other_types_than_the_kernels_are_converted_to_those(char: bytes, given: Any) -> None:
    """Also where the first were zeros, whose bytes are the same in both types."""
    kernel, _ = called(given(0), np.float32(1))
    packer = kernel.converting[0] = PACKERS[char]
    kernel.args[0] = TYPED[char](0).tobytes()
    repeat = Repeat(kernel, (*CALL, given(0), np.float32(1)))
    for number in (1, 3, 3, 0, 7, -1):
        value = np.array(number).astype(given)[()]
        found = repeat.takes(kernel, (*CALL, value, np.float32(number)))
        try:
            packed = packer(value)
        except (struct.error, AttributeError):  # the usual way says what is wrong
            assert found is None
        else:
            assert found == (packed, converted(np.float32(number)))
            assert kernel.args == [*found]


class Forgotten:
    """A kernel of whose last launch another thread forgets how to repeat it, as soon as somebody has looked."""

    args: list[Any]
    images = ()

    def __init__(self, like: Any) -> None:
        self.args, self.converting, self.context = like.args, like.converting, like.context
        self._repetition: Any = SimpleNamespace(takes_values=True)

    @property
    def repetition(self) -> Any:
        found, self._repetition = self._repetition, None
        return found

    @repetition.setter
    def repetition(self, repetition: Any) -> None:
        self._repetition = repetition


def test_another_thread_may_launch_the_kernel_in_another_way_meanwhile() -> None:
    kernel, repeat = called(np.int32(3), np.int32(3))
    found = repeat.takes(cast(Any, Forgotten(kernel)), (*CALL, np.int32(4), np.int32(3)))
    assert found == captured(np.int32(4), np.int32(3))
    arrays: Any = object.__new__(RepeatOfArrays)
    arrays._arrays, arrays._captured, places = [(0, 0)], [None, b""], [None, b""]
    assert arrays._moved(Forgotten(kernel), [np.int64(8)], places)
    assert places == [None, converted(np.int64(8))]


def test_what_no_converter_takes_goes_the_usual_way() -> None:
    """A zero for a complex number was given as bytes, which are those of other zeros, too."""
    kernel, _ = called(np.float64(0), np.float32(1))
    kernel.converting[0] = refuse
    repeat = Repeat(kernel, (*CALL, np.float64(0), np.float32(1)))
    assert repeat.takes(kernel, (*CALL, np.float64(2), np.float32(1))) is None


def test_buffers_take_each_others_places() -> None:
    one, other, third = buffer(), buffer(), buffer()
    kernel, repeat = called(one, np.int32(3), other)
    for _ in range(2):
        for first, second in ((other, one), (one, other), (third, third)):
            found = repeat.takes(kernel, (*CALL, first, np.int32(3), second))
            assert found == captured(first, np.int32(3), second)
            assert kernel.args == [first._vdev_state, converted(np.int32(3)), second._vdev_state]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("what", ["released", "deleted", "elsewhere", "no buffer", "without state"])
def test_what_is_no_buffer_of_the_kernels_context_goes_the_usual_way(what: str, place: int) -> None:
    """And the kernel keeps the arguments that it has."""
    args = [buffer(), buffer()]
    kernel, repeat = called(*args)
    before, wrong = list(kernel.args), buffer()
    if what == "released":
        wrong._vdev_state.references = 0
    elif what == "deleted":
        del wrong._vdev_state.argument
    elif what == "elsewhere":
        wrong._vdev_state.context = object()
    elif what == "no buffer":
        wrong._vdev_state = SimpleNamespace(references=1, argument=None, context=CONTEXT)
    else:
        wrong._vdev_state = None
    args[place] = wrong
    assert repeat.takes(kernel, (*CALL, *args)) is None
    assert kernel.args == before


def bytecodes(of: Any, function: Callable[..., Any], *args: Any) -> int:
    """How many a call executes in one module."""
    with Bytecodes(of.__file__) as found:
        function(*args)
    return found.count


def taking(buffers: int, numbers: int, kind: Any = float) -> tuple[int, int]:
    """Bytecodes of a call whose buffers are turned round and whose numbers are made again, and of finding that rotation."""
    wrappers = [buffer() for _ in range(buffers)]
    kernel, repeat = called(*wrappers, *(kind(number + 1.5) for number in range(numbers)))
    call = (*CALL, *wrappers[::-1], *(kind(number + 1.5) for number in range(numbers)))
    taken = bytecodes(repeat_module, repeat.takes, kernel, call)
    rotation, args = Rotation(), captured(*call[len(CALL) :])
    assert rotation.key(kernel, args) is not None
    return taken, bytecodes(rotation_module, rotation.key, kernel, args)


def test_arguments_that_change_places_cost_little_each() -> None:
    """Of a step over a grid with several fields, their arguments were a third of what a launch took."""
    few, many, numbers = taking(2, 2), taking(10, 2), taking(2, 10)
    assert many[0] - few[0] <= 8 * 56, "each buffer takes as much as one that has to be looked up"
    assert 0 < numbers[0] - few[0] <= 8 * 76
    assert taking(2, 10, np.float32)[0] - taking(2, 2, np.float32)[0] <= 8 * 48
    assert many[1] - few[1] <= 8 * 32
    assert numbers[1] - few[1] <= 8 * 20


class Native:
    """A native kernel that notes what is set."""

    def __init__(self) -> None:
        self.was_set: dict[int, object] = {}

    def set_arg(self, index: int, arg: object) -> None:
        self.was_set[index] = arg

    _set_arg_buf = set_arg


def setting(before: list[Any], now: list[Any]) -> tuple[dict[int, object], int]:
    """What is set for a launch whose arguments were others before, and the bytecodes of that."""
    native, none = Native(), cast(Any, None)
    kernel = launching.Kernel(native, None)
    backend = cast(Any, object.__new__(type("Backend", (), {"_set_argument": none})))
    backend._set_argument = lambda *args: launching.OpenCLLaunches._set_argument(backend, *args)
    set_arguments = launching.OpenCLLaunches._set_arguments
    set_arguments(backend, kernel, before)
    native.was_set.clear()
    taken = bytecodes(launching, set_arguments, backend, kernel, now)
    assert kernel.last == now
    return native.was_set, taken


def test_only_arguments_that_are_others_are_set() -> None:
    one, other = Allocation("one", 4), Allocation("other", 4)
    fixed = [bytes([number, 0]) for number in range(20)]
    found, taken = setting([one, b"\1", b"\2", other], [other, b"\1", b"\3", other])
    assert found == {0: "other", 2: b"\3"}
    found, more = setting([one, b"\1", b"\2", other, *fixed], [other, b"\1", b"\3", other, *fixed])
    assert found == {0: "other", 2: b"\3"}
    assert more == taken, "arguments that stay take a step each"
    assert setting([one, b"\1"], [one]) == ({0: "one"}, setting([b"\1"] * 2, [one])[1])


@pytest.mark.parametrize("kind", [tuple, list])
def test_boxes_are_looked_at_with_few_steps(kind: Callable[[Any], Any]) -> None:
    assert components("region", kind((3, 2)), (1, 1, 1)) == (3, 2, 1)
    assert components("pitches", kind(()), (0, 0)) == (0, 0)
    assert components("region", kind((np.int64(3), 2, 5)), (1, 1, 1)) == (3, 2, 5)
    for wrong in ((-1, 2, 3), (1, 2**64, 3), (1.0, 2, 3), (1, np.int32(-2), 3)):
        with pytest.raises(RuntimeError):
            components("region", kind(wrong), (1, 1, 1))
    taken = [
        bytecodes(transfers, components, "region", kind((1,) * number), (1, 1, 1)) for number in (1, 2, 3)
    ]
    assert taken[2] - taken[0] <= 2 * 24, "each component takes as much as one that is converted"
