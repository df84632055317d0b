"""Stand-ins for functions of the whole process's modules, such as `os`, that only the test's own thread meets."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any


def on_this_thread(stand_in: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """`stand_in` for calls of the thread that this is called on; `real` for those of others, which earlier tests may have left."""
    own = get_ident()
    return lambda *args, **named: (stand_in if get_ident() == own else real)(*args, **named)
