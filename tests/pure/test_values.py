"""Classes of `vdev.translators.values` are what those of `dataclasses` are."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest
from vdev.translators import values
from vdev.translators.values import dataclass

OPTIONS = [
    dict(zip(("frozen", "slots", "eq", "repr"), values, strict=True))
    for values in itertools.product((False, True), repeat=4)
]


def _classes(decorator: Callable[..., Any], options: dict[str, bool]) -> tuple[type, type]:
    @decorator(**options)
    class Base:
        """With every kind of field."""

        number: int
        items: list[int] = field(default_factory=list)
        note: str = field(default="", compare=False)
        twice: int = field(init=False, default=4)
        hidden: int = field(default=5, repr=False, kw_only=True)

    @decorator(**options)
    class Derived(Base):
        more: int = 6

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2 * self.number)

    return Base, Derived


def _tried(function: Callable[[], Any]) -> object:
    try:
        found = function()
    except Exception as error:
        return type(error), str(error)
    return found if isinstance(found, bool | int | tuple | dict) else repr(found)


def _facts(classes: tuple[type, type]) -> list[object]:
    found: list[object] = []
    for cls in classes:
        one, other = cls(1, note="a"), cls(1)
        different = cls(2, [3], hidden=7)
        found += [
            one == other,
            one == different,
            one == (1, [], "a", 4, 5),
            cls.__hash__ is None,
            cls.__match_args__,
            hasattr(one, "__dict__"),
            repr(one).partition(" object at ")[0],
            dataclasses.asdict(different),
            dataclasses.asdict(dataclasses.replace(different, number=9)),
            _tried(lambda one=one: setattr(one, "number", 3)),
            _tried(lambda one=one: delattr(one, "note")),
            # with slots, the standard library's own method of a frozen class fails otherwise
            isinstance(_tried(lambda one=one: setattr(one, "unknown", 3) is None), tuple),
            _tried(lambda cls=cls: cls()),
            _tried(lambda cls=cls: cls(1, unknown=2)),
            _tried(lambda cls=cls: hash(cls(1, ())) == hash(cls(1, (), note="b"))),
        ]
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_as_the_standard_library(options: dict[str, bool]) -> None:
    assert _facts(_classes(dataclass, options)) == _facts(_classes(dataclasses.dataclass, options))


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    first: int
    second: str = "b"


def test_order_and_pickles() -> None:
    assert sorted([Kept(2), Kept(1, "c"), Kept(1)]) == [Kept(1), Kept(1, "c"), Kept(2)]
    assert pickle.loads(pickle.dumps(Kept(3, "d"))) == Kept(3, "d")
    with pytest.raises(TypeError):
        Kept(1) < 1  # type: ignore[operator]  # noqa: B015
    assert len({Kept(1), Kept(1), Kept(2)}) == 2


def test_what_a_class_defines_stays() -> None:
    @dataclass(frozen=True)
    class Own:
        number: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    assert Own(1) == Own(2)
    assert repr(Own(1)) == "own"


def test_nothing_is_compiled_before_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    execute = exec

    def noted(text: str, *names: dict[str, Any]) -> None:
        compiled.append(text)
        execute(text, *names)

    monkeypatch.setattr("builtins.exec", noted)
    _classes(dataclass, {"frozen": True, "slots": True, "order": True})
    assert not compiled
    _classes(dataclasses.dataclass, {"frozen": True})
    assert compiled


def _plain(decorator: Callable[..., Any], options: dict[str, bool]) -> type:
    @decorator(**options)
    class Plain:
        number: int
        items: list[int] = field(default_factory=list)
        note: str = "a"

        def __post_init__(self) -> None:
            object.__setattr__(self, "note", self.note + "b")

    return Plain


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_object_is_made_alike(options: dict[str, bool]) -> None:
    """Before its constructor is compiled, and after that."""
    cls, standard = _plain(dataclass, options), _plain(dataclasses.dataclass, options)
    ways: list[Callable[[Any], Any]] = [
        lambda c: c(1),
        lambda c: c(1, [2]),
        lambda c: c(1, note="c"),
        lambda c: c(note="c", items=[3], number=1),
    ]
    wrong: list[Callable[[Any], Any]] = [
        lambda c: c(),
        lambda c: c(1, [], "", 4),
        lambda c: c(1, number=2),
        lambda c: c(1, other=2),
    ]
    for way in ways * 20:
        assert dataclasses.asdict(way(cls)) == dataclasses.asdict(way(standard))
    for way in wrong:
        assert _tried(lambda way=way: way(_plain(dataclass, options))) == _tried(
            lambda way=way: way(standard)
        )
    first, second = cls(1), cls(1)
    assert first.items is not second.items


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_object_without_arguments_has_its_fields(options: dict[str, bool]) -> None:
    @dataclass(**options)
    class Counted:
        count: int = field(init=False, default=3)
        limit: int = field(default=4, kw_only=True)

    assert (Counted().count, Counted().limit) == (3, 4)


def test_a_class_whose_objects_are_made_often_refuses_nothing() -> None:
    class Often:
        made_often = True

    @dataclass(frozen=True, slots=True, eq=False)
    class Node(Often):
        number: int

    @dataclass(frozen=True, slots=True)
    class Compared(Often):
        number: int

    node, compared = Node(1), Compared(1)
    node.number = 2  # type: ignore[misc]  # mypy refuses it
    assert node.number == 2
    assert hash(node) == object.__hash__(node)
    with pytest.raises(dataclasses.FrozenInstanceError):  # equal objects must stay so
        compared.number = 2  # type: ignore[misc]
    assert {compared: 3}[Compared(1)] == 3


@pytest.mark.parametrize("number", [1, 100])  # of objects: the constructor is compiled on the way
def test_equal_objects_that_are_made_often_stay_so(number: int) -> None:
    @dataclass(frozen=True)
    class Kept:
        made_often = True
        number: int
        items: tuple[int, ...] = ()
        names: list[str] = field(default_factory=list, compare=False)

    made = [Kept(at, names=["a"]) for at in range(number)]
    last = made[-1]
    assert last == Kept(number - 1, ())
    assert hash(last) == hash(Kept(number - 1))
    assert (last.number, last.items, last.names, Kept(0).names) == (number - 1, (), ["a"], [])
    with pytest.raises(dataclasses.FrozenInstanceError):
        last.number = 5  # type: ignore[misc]
    assert not hasattr(last, "_values")


@dataclass(frozen=True, slots=True)
class Changing:
    a: int
    b: list[int]
    c: int = 3

    def __post_init__(self) -> None:
        assert self.a < 10


def test_an_object_with_other_values_is_as_the_standard_librarys() -> None:
    before = Changing(1, [2])
    for changes in ({}, {"a": 5}, {"c": 4, "a": 2}, {"b": [7]}):
        ours, theirs = values.replace(before, **changes), dataclasses.replace(before, **changes)  # type: ignore[arg-type]
        assert ours == theirs
        assert ours.b is theirs.b
        assert ours is not before
    assert before == Changing(1, [2])
    for wrong, error in (({"d": 1}, TypeError), ({"a": 10}, AssertionError)):
        with pytest.raises(error):
            values.replace(before, **wrong)  # type: ignore[arg-type]


def test_fields_that_are_no_parameters_are_left_to_the_standard_library() -> None:
    @dataclasses.dataclass
    class Counted:
        a: int
        b: int = dataclasses.field(default=0, init=False)
        c: int = dataclasses.field(default=0, kw_only=True)

    before = Counted(1, c=2)
    before.b = 7
    assert values.replace(before, a=3) == Counted(3, c=2)
