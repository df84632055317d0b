"""Binaries of compiled programs and of executables: only what was packed is taken."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from vdev.facade.linking import CompiledObject, Declaration, load_object, pack_object
from vdev.session.programs import BINARY_TAG, load_binary, pack_binary

OBJECT = CompiledObject(
    (Declaration("int a;", frozenset({"b"}), frozenset({"a"}), ((4, "a"),)), Declaration("ä")), ("-w",), ""
)
OBJECT_TAG = b"vdev object 1\n"
PROGRAM = pack_binary(BINARY_TAG, {"options": ["-w"], "source": "kernel void f() {}"})


def _with(**changed: Any) -> bytes:
    content = {"type": 1, "options": ["-w"], "declarations": [["int a;", ["b"], ["a"], [[4, "a"]]]]}
    return pack_binary(OBJECT_TAG, content | changed)


def test_a_binary_is_the_object() -> None:
    assert load_object(pack_object(OBJECT, 2)) == (OBJECT, 2)
    assert load_object(_with()) is not None


def test_a_binary_is_the_program() -> None:
    assert load_binary(PROGRAM) == ("kernel void f() {}", ("-w",))
    language = pack_binary(BINARY_TAG, {"options": [], "il": base64.b64encode(b"\3\2").decode()})
    assert load_binary(language) == (b"\3\2", ())


def test_other_binaries_are_no_objects() -> None:
    assert load_object(PROGRAM) is None


def test_a_byte_that_is_another_one_or_missing() -> None:
    for whole, load in ((pack_object(OBJECT, 1), load_object), (PROGRAM, load_binary)):
        start = whole.index(b"\n") + 1
        for at in range(start, len(whole)):
            with pytest.raises(ValueError, match="damaged"):
                load(whole[:at])
            with pytest.raises(ValueError, match="damaged"):
                load(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match="damaged"):
            load(whole + b" ")


@pytest.mark.parametrize(
    "changed",
    [
        {"type": 4},
        {"type": 1e400},
        {"type": None},
        {"options": [1]},
        {"options": 1},
        {"declarations": 1},
        {"declarations": [1]},
        {"declarations": [["int a;", [], []]]},
        {"declarations": [[1, [], [], []]]},
        {"declarations": [["int a;", [1], [], []]]},
        {"declarations": [["int a;", [[]], [], []]]},
        {"declarations": [["int a;", [], [], [1]]]},
        {"declarations": [["int a;", [], [], [["4", "a"]]]]},
        {"declarations": [["int a;", [], [], [[4, 5]]]]},
    ],
    ids=str,
)
def test_an_object_of_another_make(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no compiled program|unpack"):
        load_object(_with(**changed))


@pytest.mark.parametrize(
    "content",
    [
        [],
        1,
        {},
        {"source": "a"},
        {"options": []},
        {"source": 1, "options": []},
        {"source": "a", "options": [1]},
    ],
    ids=str,
)
def test_a_program_of_another_make(content: Any) -> None:
    with pytest.raises(ValueError, match="no program"):
        load_binary(pack_binary(BINARY_TAG, content))


@pytest.mark.parametrize(
    ("tag", "load"), [(OBJECT_TAG, load_object), (BINARY_TAG, load_binary)], ids=["object", "program"]
)
def test_content_that_is_nested_too_deeply(tag: bytes, load: Callable[[bytes], object]) -> None:
    text = b"[" * 100_000
    with pytest.raises(ValueError, match=r"nested|Expecting"):
        load(tag + hashlib.sha256(tag + text).digest() + text)
