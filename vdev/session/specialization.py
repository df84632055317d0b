"""Specialization constants of SPIR-V: numbers in a program that are given between its creation and its build.

Decides where they stand (SPIR-V specification 2.12, 3.49.7), and writes others in their places: workers build the result like any
other program. It checks nothing else of a program; that is the workers' affair.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum

from vdev.translators.values import dataclass

_MAGIC, _HEADER = 0x07230203, 5
_SPEC_ID = 1  #: the decoration


class _Op(IntEnum):
    """Instructions (3.49)."""

    TYPE_INT = 21
    TYPE_FLOAT = 22
    SPEC_CONSTANT_TRUE = 48
    SPEC_CONSTANT_FALSE = 49
    SPEC_CONSTANT = 50
    DECORATE = 71


@dataclass(frozen=True)
class Constant:
    """One of them: the word at which its instruction begins, and how many bytes a value has (1 of a Boolean)."""

    word: int
    nbytes: int
    is_boolean: bool
    is_signed: bool


class Specializable:
    """A program in SPIR-V, and its constants by the numbers that programs know them by."""

    def __init__(self, il: bytes) -> None:
        self._order = "<" if il[:4] == struct.pack("<I", _MAGIC) else ">"
        count = len(il) // 4
        self._words = list(struct.unpack(f"{self._order}{count}I", il[: 4 * count]))
        self.constants = dict(self._found())

    def _instructions(self) -> Iterator[tuple[int, int, list[int]]]:
        """The first word of each, its code and its operands."""
        word = _HEADER
        while word < len(self._words):
            length, code = self._words[word] >> 16, self._words[word] & 0xFFFF
            if not length:
                return  # not valid
            yield word, code, self._words[word + 1 : word + length]
            word += length

    def _found(self) -> Iterator[tuple[int, Constant]]:
        numbers: dict[int, int] = {}
        types: dict[int, tuple[int, bool]] = {}
        for word, code, operands in self._instructions():
            match code, operands:
                case (_Op.DECORATE, [target, decoration, number]) if decoration == _SPEC_ID:
                    numbers[target] = number
                case (_Op.TYPE_INT, [result, width, sign]):
                    types[result] = width // 8, bool(sign)
                case (_Op.TYPE_FLOAT, [result, width, *_]):
                    types[result] = width // 8, False
                case (_Op.SPEC_CONSTANT_TRUE | _Op.SPEC_CONSTANT_FALSE, [_, result, *_]) if result in numbers:
                    yield numbers[result], Constant(word, 1, True, False)
                case (_Op.SPEC_CONSTANT, [kind, result, *_]) if result in numbers and kind in types:
                    yield numbers[result], Constant(word, types[kind][0], False, types[kind][1])

    def with_values(self, values: Mapping[int, bytes]) -> bytes:
        """The program with these values, of as many bytes as their constants have."""
        words = list(self._words)
        for number, value in values.items():
            constant = self.constants[number]
            if constant.is_boolean:
                code = _Op.SPEC_CONSTANT_TRUE if any(value) else _Op.SPEC_CONSTANT_FALSE
                words[constant.word] = words[constant.word] & ~0xFFFF | code
                continue
            whole = int.from_bytes(value, "little", signed=constant.is_signed)
            wide = max(constant.nbytes, 4)  # what is narrower has its sign extended
            literal = (whole & (1 << 8 * wide) - 1).to_bytes(wide, "little")
            words[constant.word + 3 : constant.word + 3 + wide // 4] = struct.unpack(
                f"<{wide // 4}I", literal
            )
        return struct.pack(f"{self._order}{len(words)}I", *words)
