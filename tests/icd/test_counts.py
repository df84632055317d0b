"""What the library's commands are counted as where two threads tell of theirs at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vdev.icd import ready
from vdev.session.in_a_row import ReadyLaunch


def test_no_threads_launches_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Count(int):
        def __radd__(self, other: int) -> int:  # where another thread may come between
            ready._made += 100
            return int(self) + other

    launch: Any = object.__new__(ReadyLaunch)
    launch.maker = SimpleNamespace(ended=lambda launches, moves: None)
    monkeypatch.setattr(ready, "_made", 0)
    ready.ended(((launch, Count(3)),))
    assert ready._made == 103
