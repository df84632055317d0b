"""Rows of numbers to lines of text, many at a time.

A trace consists of a few templates and very many numbers; writing the numbers one by one would cost more than
everything else. Decides how a line is written: each number in a field as wide as the widest number of its kind,
padded with spaces, which JSON allows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_SPACE, _POINT = ord(" "), ord(".")


class Templates:
    """Lines with fields: `{n:x}` is number n in hexadecimal, `{n:d}` in decimal, `{n:.3f}` thousandths."""

    def __init__(self) -> None:
        self._pieces: list[list[tuple[bytes, int, str]]] = []
        self._ends: list[bytes] = []
        self._numbers: dict[tuple[str | int, ...], int] = {}

    def add(self, *parts: str | tuple[int, str]) -> int:
        """Add a template of texts and (number's index, kind) with kind 'x', 'd' or 'f'; returns its number. Numbers
        are not negative.
        """
        key = tuple(part if isinstance(part, str) else f"\0{part[0]}{part[1]}" for part in parts)
        found = self._numbers.get(key)
        if found is not None:
            return found
        pieces: list[tuple[bytes, int, str]] = []
        text = b""
        for part in parts:
            if isinstance(part, str):
                text += part.encode()
            else:
                pieces.append((text, *part))
                text = b""
        self._pieces.append(pieces)
        self._ends.append(text)
        number = self._numbers[key] = len(self._ends) - 1
        return number

    def lines(self, template: int, columns: Sequence[Numbers]) -> npt.NDArray[np.uint8]:
        """The lines of a template as bytes, one in each row; `columns`: the numbers that its fields show."""
        fields = [(text, _FORMATS[kind](columns[index])) for text, index, kind in self._pieces[template]]
        last = self._ends[template]
        width = len(last) + sum(len(text) + found.shape[1] for text, found in fields)
        lines = np.empty((len(columns[0]), width), np.uint8)
        at = 0
        for text, found in fields:
            lines[:, at : at + len(text)] = np.frombuffer(text, np.uint8)
            at += len(text)
            lines[:, at : at + found.shape[1]] = found
            at += found.shape[1]
        lines[:, at:] = np.frombuffer(last, np.uint8)
        return lines


def _digits(values: Numbers, base: int, least: int) -> npt.NDArray[np.uint8]:
    """Digits in columns, the lowest last; leading zeros before the last `least` digits become spaces."""
    largest, width = int(values.max()), least
    while largest >= base**width:
        width += 1
    pieces: list[npt.NDArray[np.uint8]] = []
    rest = values
    for _ in range(0, width, 3):
        rest, three = np.divmod(rest, base**3)
        pieces.append(_THREE[base][three])
    found = np.concatenate(pieces[::-1], axis=1)[:, -width:]
    for column in range(width - least):
        found[values < base ** (width - 1 - column), column] = _SPACE
    return found


def _three_digits(base: int) -> npt.NDArray[np.uint8]:
    """The digits of all numbers of up to three."""
    numbers = np.arange(base**3)
    return np.stack([_DIGITS[numbers // base**place % base] for place in (2, 1, 0)], axis=1)


_THREE = {base: _three_digits(base) for base in (10, 16)}


def decimal(values: Numbers) -> npt.NDArray[np.uint8]:
    """Whole numbers, which are not negative."""
    return _digits(values, 10, 1)


def hexadecimal(values: Numbers) -> npt.NDArray[np.uint8]:
    """Whole numbers, which are not negative, with eight hexadecimal digits, or sixteen if any of them needs more."""
    return _digits(values, 16, 8 if int(values.max()) < 1 << 32 else 16)


def thousandths(values: Numbers) -> npt.NDArray[np.uint8]:
    """Thousandths, given as whole numbers that are not negative, with three digits after the point."""
    found = _digits(values, 10, 4)
    point = np.full((len(found), 1), _POINT, np.uint8)
    return np.concatenate((found[:, :-3], point, found[:, -3:]), axis=1)


_FORMATS = {"x": hexadecimal, "d": decimal, "f": thousandths}
