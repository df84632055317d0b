"""Random numbers as calculations meet them: mostly small, large now and then, and some that stand for others."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any


class SomeNumbers:
    """A source of them, which depends on its seed alone."""

    #: the large ones, and in which part of the places a number is given
    LARGE: Sequence[int] = ()
    GIVEN = 0.0

    def __init__(self, seed: int, large: int, given: Callable[[int], Any] = int) -> None:
        """`large`: in how many of a hundred places numbers are large. `given`: what stands for a number, and may be traced."""
        self.rng, self.large, self.given = random.Random(seed), large, given

    def number(self, low: int, high: int) -> Any:
        if self.rng.randrange(100) < self.large:
            return self.rng.choice(self.LARGE)
        found = self.rng.randint(low, high)
        return self.given(found) if self.rng.random() < self.GIVEN else found
