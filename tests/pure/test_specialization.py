"""Specialization constants of SPIR-V: found, and written where they stand."""

from __future__ import annotations

import struct

import pytest

from vdev.session.specialization import Constant, Specializable

#: OpTypeInt and OpTypeFloat: result, width, sign
_TYPES = {1: (21, 8, 1), 2: (21, 16, 0), 3: (21, 32, 1), 4: (21, 64, 0), 5: (22, 32), 6: (22, 64)}


def _words(*numbers: int) -> list[int]:
    """An instruction: its code and operands."""
    code, *operands = numbers
    return [(len(numbers) << 16) | code, *operands]


def _module(order: str = "<") -> bytes:
    """Result `20 + kind` is a constant of each type, and has the number `100 + kind`; 30 and 31 are Booleans; 40 has no number."""
    words = [0x07230203, 0x10000, 0, 50, 0, *_words(17, 6)]
    for kind in (*_TYPES, 10, 11):
        words += _words(71, 20 + kind, 1, 100 + kind)  # OpDecorate SpecId
    words += _words(71, 21, 44, 4)  # another decoration
    for kind, (code, width, *sign) in _TYPES.items():
        words += _words(code, kind, width, *sign)
    words += _words(20, 7)  # OpTypeBool
    for kind, (_, width, *_) in _TYPES.items():
        words += _words(50, kind, 20 + kind, *([9] if width <= 32 else [9, 9]))
    words += [*_words(48, 7, 30), *_words(49, 7, 31), *_words(50, 3, 40, 9), *_words(54, 3, 41, 0, 3)]
    return struct.pack(f"{order}{len(words)}I", *words)


@pytest.mark.parametrize("order", "<>")
def test_constants_are_found(order: str) -> None:
    found = Specializable(_module(order)).constants
    sizes = {number: constant.nbytes for number, constant in found.items()}
    assert sizes == {101: 1, 102: 2, 103: 4, 104: 8, 105: 4, 106: 8, 110: 1, 111: 1}
    assert [number for number, constant in found.items() if constant.is_boolean] == [110, 111]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("number", "value", "literal"),
    [
        (101, b"\xfe", [0xFFFFFFFE]),  # narrower ones have their sign extended
        (101, b"\x7e", [0x7E]),
        (102, b"\xfe\xff", [0xFFFE]),
        (103, struct.pack("<i", -5), [0xFFFFFFFB]),
        (104, struct.pack("<Q", 0x123456789ABCDEF0), [0x9ABCDEF0, 0x12345678]),
        (105, struct.pack("<f", 1.5), [0x3FC00000]),
        (106, struct.pack("<d", 1.5), [0, 0x3FF80000]),
    ],
)
def test_values_are_written(order: str, number: int, value: bytes, literal: list[int]) -> None:
    program = Specializable(_module(order))
    changed = program.with_values({number: value})
    at = program.constants[number].word + 3
    count = len(changed) // 4
    before, after = (struct.unpack(f"{order}{count}I", each) for each in (_module(order), changed))
    assert list(after[at : at + len(literal)]) == literal
    assert (after[:at], after[at + len(literal) :]) == (before[:at], before[at + len(literal) :])


@pytest.mark.parametrize(("number", "value", "code"), [(110, b"\0", 49), (110, b"\1", 48), (111, b"\5", 48)])
def test_booleans_are_another_instruction(number: int, value: bytes, code: int) -> None:
    program = Specializable(_module())
    constant = Specializable(program.with_values({number: value})).constants[number]
    assert constant == Constant(program.constants[number].word, 1, True, False)
    words = struct.unpack(f"<{len(_module()) // 4}I", program.with_values({number: value}))
    assert words[constant.word] == 3 << 16 | code


def test_what_is_no_program_has_none() -> None:
    assert Specializable(_module()[:30]).constants == {}
    assert Specializable(_module()[:20] + bytes(8)).constants == {}
