"""Functions during which Python looks for garbage less often than the program has it.

To analyse a kernel or to plan a launch, thousands of objects are made that are gone when it is done, and hardly any of them is garbage
that refers to itself. The collector comes whenever some hundreds more are alive, and takes those that it finds twice for such as stay.
When there are a quarter more of these than before it looks at all objects of the process, which takes tens of milliseconds. Decides
nothing: what a program has left, and what such a function leaves, is found after it.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["MEANWHILE", "seldom_collected"]

Function = TypeVar("Function", bound=Callable[..., Any])

#: new objects after which Python looks for garbage meanwhile: a large kernel's must not pile up
MEANWHILE = 100_000


def seldom_collected(function: Function) -> Function:
    """The same function, during which the collector comes after `MEANWHILE` new objects at the earliest.

    Only how often is changed, so that a program that has turned collecting off, or does so meanwhile on another thread, has its way; and
    so has one that says meanwhile how often.
    """

    @functools.wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        young, *older = before = gc.get_threshold()
        seldom = (young and max(young, MEANWHILE), *older)
        if seldom == before:
            # As a caller or another thread has it, who puts back what the program has: nobody else may.
            return function(*args, **kwargs)
        gc.set_threshold(*seldom)
        try:
            return function(*args, **kwargs)
        finally:
            if gc.get_threshold() == seldom:
                gc.set_threshold(*before)

    return whole  # type: ignore[return-value]
