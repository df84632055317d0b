"""What launches pass through, compiled (`vdev.backends.compiled`), against the methods in Python: each is called in a world of its own, and
what it gives and what it has changed there must be the same.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import numpy as np
import pytest

from vdev.backends import compiled, own_libraries
from vdev.executor.holdings import Holdings, Replica
from vdev.executor.line import Line
from vdev.executor.mark import Mark
from vdev.executor.stretch import Part, Stretch
from vdev.executor.whole import Form
from vdev.facade.errors import native
from vdev.facade.kernel import KernelState
from vdev.facade.memory import Buffer, Memory
from vdev.facade.repeat import _PACK_OFFSET, Repeat, RepeatOfArrays
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import BufferArg
from vdev.session.immediate_forms import Formed

#: calls a method by the names of its class and its own, with an object and parameters
Caller: TypeAlias = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    assert own_libraries.load_launches()


def replaced() -> dict[tuple[type, str], tuple[Any, Any]]:
    """By class and name: the compiled method and the one in Python."""
    return {
        (cls, name): (cls.__dict__[name], plain)
        for cls, methods in compiled.code.with_methods
        for name, plain in methods.items()
    }


def test_methods_are_compiled() -> None:
    found = replaced()
    assert {(Repeat, "takes"), (RepeatOfArrays, "takes"), (Form, "changes"), (Line, "_enter")} <= found.keys()
    for method, plain in found.values():
        assert hasattr(plain, "__code__")
        assert not hasattr(method, "__code__")
    with compiled.code.plainly():
        assert all(cls.__dict__[name] is plain for (cls, name), (_, plain) in found.items())


class World:
    """Objects that have names, so that those of two worlds can be compared, and what was called."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.calls: list[Any] = []
        self._names: dict[int, tuple[str, Any]] = {}

    def named(self, name: str, found: Any) -> Any:
        self._names[id(found)] = name, found
        return found

    def made(self, name: str, cls: Any, **slots: Any) -> Any:
        """An object of a class with these slots and no others."""
        found = object.__new__(cls)
        for slot, value in slots.items():
            getattr(cls, slot).__set__(found, value)
        return self.named(name, found)

    def called(self, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self.calls.append((name, self.shown([*given])))
            return answer(*given)

        return call

    def shown(self, found: Any) -> Any:
        if id(found) in self._names:
            return self._names[id(found)][0]
        if isinstance(found, list | tuple | deque):
            return type(found).__name__, [*map(self.shown, found)]
        if isinstance(found, dict):
            return {str(self.shown(key)): self.shown(value) for key, value in found.items()}
        if isinstance(found, np.generic):
            return type(found), found.tobytes()
        if isinstance(found, int | float | str | bytes | None):
            return type(found), found
        if type(found) is Part:
            return "part", self.shown(found.stretch), found.index
        return type(found)


def both(seed: int, play: Callable[[World, Caller], Iterator[Any]]) -> list[Any]:
    """What is played with methods in Python, which has to be what is played with compiled ones."""

    def outcome(which: int) -> list[Any]:
        world = World(seed)

        def call(cls: type, name: str, *given: Any) -> Any:
            try:
                return replaced()[cls, name][which](*given)
            except ZeroDivisionError as error:  # what worlds raise
                return f"raised {error}"

        return [world.shown(each) for each in play(world, call)] + [world.calls]

    found = outcome(0)
    assert found == outcome(1)
    return found


# {{{ calls of a kernel


def _memory(world: World, name: str, context: Any, cls: Any = Memory) -> Any:
    argument = world.named(f"argument of {name}", BufferArg(cast(Any, None), 0, 64))
    memory = world.made(name, cls, argument=argument, references=1, context=context)
    wrapper = cast(Any, object.__new__(Buffer))
    wrapper._vdev_state = memory
    return world.named(f"wrapper of {name}", wrapper)


def _value(rng: random.Random) -> Any:
    kind = rng.choice((np.int32, np.int32, np.float32, np.float64, int, float, bytes, native.LocalMemory))
    number = rng.choice((0, 0, 1, 7, 70000))
    return b"ab" if kind is bytes else kind(number + 1 if kind is native.LocalMemory else number)


def _converted(value: Any) -> Any:
    if isinstance(value, bytes | native.LocalMemory):
        return value
    if isinstance(value, np.float64):
        raise TypeError("no such argument")
    return np.asarray(value).tobytes()


class Kernels:
    """A kernel with what takes its calls, and memory objects for these."""

    def __init__(self, world: World, arrays: bool) -> None:
        rng = self.rng = world.random
        self.world = world
        context = world.named("context", object())
        self.wrappers = [_memory(world, f"memory {at}", context) for at in range(4)]
        self.wrappers.append(_memory(world, "another context's", world.named("other", object())))
        self.wrappers.append(_memory(world, "an image", context, type("Image", (Memory,), {"__slots__": ()})))
        self.queue = world.named("queue", object())
        self.form = (np.dtype(np.float32), world.named("strides", (4,)), (16,))
        kinds = [rng.choice("bbv") for _ in range(rng.randrange(1, 6))]
        self.kinds = ["a" if arrays and rng.random() < 0.6 else kind for kind in kinds]
        args = [self.arg(kind, first=True) for kind in self.kinds]
        kept: list[Any] = []
        converting: list[Any] = []
        for kind, arg in zip(self.kinds, args, strict=True):
            value = (
                arg.base_data._vdev_state
                if kind == "a"
                else arg._vdev_state
                if kind == "b"
                else _converted(arg)
            )
            kept += [value, _PACK_OFFSET(0)] if kind == "a" else [value]
            converting += [_converted, _PACK_OFFSET] if kind == "a" else [_converted]
        repetition = world.named("repetition", SimpleNamespace(takes_values=rng.random() < 0.5))
        self.kernel = world.made(
            "kernel",
            KernelState,
            args=kept,
            converting=converting,
            repetition=repetition,
            context=context,
            images=(),
        )
        call = (self.queue, (64,), None, *args)
        places = [at for at, kind in enumerate(self.kinds) if kind == "a"]
        self.repeat = RepeatOfArrays(self.kernel, call, places) if places else Repeat(self.kernel, call)
        self.last = args

    def arg(self, kind: str, first: bool = False) -> Any:
        rng = self.rng
        if kind == "v":
            return rng.choice((1.0, np.int32(3))) if first else _value(rng)
        wrapper = self.wrappers[rng.randrange(4 if first or rng.random() < 0.9 else 6)]
        if kind == "b":
            return wrapper
        dtype, strides, shape = self.form
        array = SimpleNamespace(
            queue=self.queue,
            shape=shape,
            strides=strides,
            dtype=dtype,
            base_data=wrapper,
            offset=0,
            events=[],
        )
        if first or rng.random() < 0.6:
            return array
        odd = rng.randrange(6)
        array.flags = SimpleNamespace(forc=rng.random() < 0.5)
        array.shape = (8, 2) if odd == 0 else (16,)
        array.offset = rng.choice((0, 64)) if odd == 1 else 0
        array.queue = rng.choice((None, self.world)) if odd == 2 else self.queue
        array.dtype = np.dtype(np.int32) if odd == 3 else np.dtype("f4")
        if odd == 4:
            del array.base_data
        return array

    def call(self) -> tuple[Any, ...]:
        rng = self.rng
        args = [
            arg if rng.random() < 0.5 else self.arg(kind)
            for kind, arg in zip(self.kinds, self.last, strict=True)
        ]
        if rng.random() < 0.05:
            args[rng.randrange(len(args))] = rng.choice((None, "x", self.wrappers[0], 1))
        if rng.random() < 0.05:
            args = args[:-1]
        elif rng.random() < 0.9:
            self.last = args
        return (self.queue, (64,), None, *args)


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("seed", range(150))
def test_calls(seed: int, arrays: bool) -> None:
    def play(world: World, call: Caller) -> Iterator[Any]:
        kernels = Kernels(world, arrays)
        repeat, kernel = kernels.repeat, kernels.kernel
        for _ in range(12):
            if world.random.random() < 0.1:
                world.random.choice(kernels.wrappers)._vdev_state.references = world.random.randrange(2)
            released = world.random.choice(kernels.wrappers)._vdev_state
            if world.random.random() < 0.05 and hasattr(released, "argument"):
                del released.argument
            yield call(type(repeat), "takes", repeat, kernel, kernels.call())
            yield kernel.args, kernel.repetition, repeat._values, repeat._captured, repeat._memories
            if isinstance(repeat, RepeatOfArrays):
                yield repeat._forms, repeat._offsets
            kernel.repetition = world.random.choice(
                (kernel.repetition, None, world.named("another", SimpleNamespace(takes_values=False)))
            )

    both(seed, play)


# }}}

# {{{ launches of a form


class Memories:
    """Whose type stands for a back end's allocations; and those of another kind."""


class OtherMemories:
    pass


def _holdings(world: World, name: str, workers: int) -> Any:
    rng, nbytes = world.random, world.random.choice((64, 64, 1 << 40))
    replicas: list[Any] = [None] * workers
    for at in range(workers):
        if rng.random() < 0.95:
            start = 0 if rng.random() < 0.97 else 16
            stop = nbytes if rng.random() < 0.9 else rng.choice((nbytes - 1, nbytes + 8))
            kind = Memories if rng.random() < 0.97 else OtherMemories
            allocation = world.named(f"memory {at} of {name}", kind())
            replicas[at] = world.made(
                f"replica {at} of {name}", Replica, allocation=allocation, start=start, stop=stop
            )
    return world.made(name, Holdings, nbytes=nbytes, replicas=replicas, written=[0] * workers, _owners=())


@pytest.mark.parametrize("seed", range(300))
def test_what_differs_from_the_last_launch(seed: int) -> None:
    def play(world: World, call: Caller) -> Iterator[Any]:
        rng = world.random
        held = [_holdings(world, f"holdings {at}", 2) for at in range(3)]
        count = rng.randrange(1, 5)
        pointers = [(at, rng.randrange(3)) for at in range(count) if rng.random() < 0.7]
        ndranges = [world.named(f"ndrange {at}", object()) for at in range(3)]
        places = world.named("places", tuple([(at, slot, 0) for at, slot in pointers]))
        shapes = {id(ndranges[0]): world.named("shape 0", object()), id(ndranges[1]): None}

        def over(worker: Any, ndrange: Any, places: Any) -> Any:
            if id(ndrange) not in shapes:
                raise ZeroDivisionError
            return shapes[id(ndrange)]

        step = SimpleNamespace(over=over, is_told=False)  # which may be asked twice
        kinds = [Memories if at in dict(pointers) else bytes for at in range(count)]
        form = world.made(
            "form", Form, _kinds=kinds, _ndrange=rng.choice((None, ndranges[0], ndranges[2])), _number=rng.randrange(2),
            _places=places, _pointers=pointers, _step=step, _by_shape=False, _takes_offsets=rng.random() < 0.5,
        )  # fmt: skip
        for _ in range(6):
            args = tuple(
                [BufferArg(cast(Any, None), 0, 1) if at in dict(pointers) else b"ab" for at in range(count)]
            )
            if rng.random() < 0.1:
                args = (*args[:-1], rng.choice((None, 5)))
            other = tuple([(at, slot, rng.choice((0, 0, 16))) for at, slot in pointers])
            entry = (
                None,
                rng.choice((list, tuple))(held),
                args,
                rng.choice((None, *ndranges)),
                rng.choice((places, places, other)),
                (),
            )
            yield call(Form, "changes", form, "worker", entry)
            yield form._places is places
        _let_go(held)

    both(seed, play)


def _let_go(held: list[Any]) -> None:
    """Nothing is given back of what was never there."""
    for each in held:
        each.replicas = []


@pytest.mark.parametrize("seed", range(300))
def test_launches_of_a_form_are_handed_over(seed: int) -> None:
    def play(world: World, call: Caller) -> Iterator[Any]:
        rng = world.random
        held = [_holdings(world, f"holdings {at}", 1) for at in range(4)]
        buffers = [
            world.made(
                f"buffer {at}",
                VirtualBuffer,
                holdings=each,
                resident=rng.choice((0, 0, 0, 0, 0, 1, None)),
                used=0,
                stays=rng.choice((0, 0, 0, 0, 0, 0, 1, -1)),
            )
            for at, each in enumerate(held)
        ]
        refuses, fails, alone = (rng.random() < chance for chance in (0.1, 0.1, 0.5))
        part = world.named("part", object())
        count = rng.randrange(1, 4)
        outcome, recorder = SimpleNamespace(launches=3), None
        cached = world.named("cached", SimpleNamespace(prepared="prepared", outcome=outcome))
        session = SimpleNamespace(number=7, recorder=recorder)
        at_once = SimpleNamespace(
            streak_length=1, until_looked_at=rng.choice((0, 0, 5, -1)),
            looked_at=world.called("looked at", lambda hand_over, *given: hand_over()),
            are_here=world.called("are_here", lambda *given: rng.random() < 0.5),
            are_kept=world.called("are_kept", lambda *given: 1 // 0 if rng.random() < 0.05 else rng.random() < 0.8),
        )  # fmt: skip
        line = SimpleNamespace(
            hand_over_formed=world.called(
                "hand over", lambda *given: 1 // 0 if fails else None if refuses else part
            )
        )
        cache = world.named(
            "cache",
            SimpleNamespace(pointers=rng.choice((list, tuple))(range(count)), tally=None),
        )
        passes: deque[Any] = deque(maxlen=4)
        places = tuple([(at, at, 0) for at in range(count)])
        known = {
            way: (f"form {way}", cached, places) for way in [(), (0, 0), (0, 0, 2)] if rng.random() < 0.8
        }
        formed = world.made(
            "formed", Formed, _alone=alone, _at=0, _at_once=at_once, _cache=cache, _known=known, _passes=passes.append,
            _pointers=cache.pointers, _session=session, line=line,
        )  # fmt: skip
        for _ in range(6):
            args = [
                BufferArg(rng.choice(buffers), 16 if rng.random() < 0.05 else 0, 64) for _ in range(count)
            ]
            given = tuple([None if rng.random() < 0.03 else arg for arg in args])
            yield call(
                Formed,
                "_handed_over",
                formed,
                "queue",
                "ndrange",
                given,
                (),
                "standing",
                5,
            )
            yield (
                known,
                passes,
                session.number,
                at_once.streak_length,
                outcome.launches,
                [buffer.used for buffer in buffers],
            )
        _let_go(held)

    both(seed, play)


@pytest.mark.parametrize("seed", range(200))
def test_commands_are_entered(seed: int) -> None:
    def play(world: World, call: Caller) -> Iterator[Any]:
        rng = world.random
        mark = world.made("mark", Mark, ends=[0], jobs=[])
        worker = SimpleNamespace(next_mark=mark, issued=2)
        held = [_holdings(world, f"holdings {at}", 2) for at in range(3)]
        stretch = world.made(
            "stretch",
            Stretch,
            clock=[2, 2],
            ends=[4],
            entries=["entry"],
            is_open=True,
            last=10,
            launches=1,
            mark=mark,
            number=10,
        )
        opened: list[Any] = []

        def open_another(self: Any, mark: Any, number: int, step: int, entry: Any, timed: Any) -> Any:
            opened.append((number, step))
            self._stretch = world.made(
                f"stretch {number}", Stretch, clock=[step - 1] * 2, ends=[], entries=[], is_open=True, last=number - 1, launches=0,
                mark=mark, number=number,
            )  # fmt: skip
            return self._stretch

        line = world.made(
            "line", Line, _alone=rng.random() < 0.5, _at=rng.randrange(2), last=10, _stretch=stretch, first=4, worker=worker,
            tells_times=True, _pending=lambda: 99,
        )  # fmt: skip
        number, step = 10, 2
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Line, "_open", open_another)
            for _ in range(8):
                number, step = number + rng.choice((1, 1, 1, 1, 2)), step + rng.choice((1, 1, 1, 1, 2))
                if rng.random() < 0.1:
                    line._stretch.is_open = False
                if rng.random() < 0.2:
                    line.last -= 1  # something else came before
                if rng.random() < 0.1:
                    worker.next_mark = world.made(f"mark {number}", Mark, ends=[0], jobs=[])
                entry = (None, rng.choice((list, tuple))(rng.sample(held, 2)), (), None, (), ())
                more = rng.choice(((number,), (number,), (-1,), (), (number, None), (number, None, None)))
                yield call(Line, "_enter", line, entry, number, step, *more)
                now = line._stretch
                yield (
                    line.first,
                    line.last,
                    worker.issued,
                    now,
                    now.clock,
                    now.ends,
                    len(now.entries),
                    now.last,
                    now.launches,
                )
                yield worker.next_mark.ends, [each.written for each in held], opened
        _let_go(held)

    both(seed, play)


# }}}
