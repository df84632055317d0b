"""Binaries of compiled programs."""

from __future__ import annotations

import json

import pytest

from vdev.facade.linking import CompiledObject, Declaration, load_object, pack_object

OBJECT = CompiledObject(
    (Declaration("int a;", frozenset({"b"}), frozenset({"a"}), ((4, "a"),)), Declaration("ä")), ("-w",), ""
)


def test_a_binary_is_the_object() -> None:
    assert load_object(pack_object(OBJECT, 2)) == (OBJECT, 2)


def test_other_binaries_are_not_taken() -> None:
    assert load_object(b"vdev program 2\n{}") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", json.dumps({"declarations": [1]}).encode()])
def test_a_damaged_binary(content: bytes) -> None:
    tag = pack_object(OBJECT, 1).partition(b"\n")[0]
    with pytest.raises(ValueError, match=r"damaged|Expecting"):
        load_object(tag + b"\n" + content)
