"""Which programs of a batch are built together: all at first, halves where the native compiler takes them not.

So a program that it refuses, or that ends it, takes only itself along.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Programs [first, stop) of the batch `number`.

    >>> Part(7, 0, 5).halves()
    [Part(number=7, first=0, stop=2), Part(number=7, first=2, stop=5)]
    >>> Part.parse(str(Part(7, 2, 5)))
    Part(number=7, first=2, stop=5)
    """

    number: int
    first: int
    stop: int

    def __str__(self) -> str:
        return f"{self.number}:{self.first}-{self.stop}"

    @classmethod
    def parse(cls, text: str) -> Part:
        number, _, programs = text.partition(":")
        first, _, stop = programs.partition("-")
        return cls(int(number), int(first), int(stop))

    def halves(self) -> list[Part]:
        """Nothing of a single program."""
        middle = (self.first + self.stop) // 2
        if middle == self.first:
            return []
        return [Part(self.number, self.first, middle), Part(self.number, middle, self.stop)]
