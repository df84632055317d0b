"""What becomes of a session in a forked child of the process that has opened it.

Decides nothing but what its uses raise. Knows no session, so that whoever asks about one need not load what makes one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NoReturn


class LostSession:
    """What a session becomes in a forked child of the process that has opened it: every use of it fails."""

    #: makes the error that everything raises
    failure: ClassVar[Callable[[], Exception]] = lambda: RuntimeError(
        "the session belongs to the parent process"
    )

    def __getattr__(self, name: str) -> NoReturn:
        raise type(self).failure()
