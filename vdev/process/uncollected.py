"""Functions during which Python's collector of garbage does not come.

To plan a launch, thousands of objects are made that are gone when it is done. The collector comes whenever some hundreds more are
alive, and takes those that it finds twice for such as stay. When there are a quarter more of these than before it looks at all objects
of the process, which takes tens of milliseconds. Decides nothing: what a program has left, and what such a function leaves, is found
after it.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def uncollected(function: Function) -> Function:
    """The same function, during which nothing is collected; afterwards it is as the program has it."""

    @functools.wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        collects = gc.isenabled()
        try:
            gc.disable()
            return function(*args, **kwargs)
        finally:
            if collects:
                gc.enable()

    return whole  # type: ignore[return-value]
