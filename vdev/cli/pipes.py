"""Output into a pipe whose reader has had enough, as in `vdev-info | head`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

#: what a shell reports of a process that SIGPIPE ended, as it ends most programs then
_STATUS = 128 + 13

P = ParamSpec("P")


def ends_with_its_reader(main: Callable[P, int]) -> Callable[P, int]:
    """A command that ends silently, with status 141, when nobody reads any more what it prints."""

    @wraps(main)
    def run(*args: P.args, **options: P.kwargs) -> int:
        try:
            try:
                return main(*args, **options)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _STATUS

    return run
