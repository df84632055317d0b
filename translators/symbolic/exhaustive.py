"""For the end of a `match` that has a case for every class (`typing.assert_never`, which Python 3.10 lacks)."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """Type checkers prove that this is never reached; a call would be a fault of ours."""
    raise AssertionError(f"no rule for {value!r}")
