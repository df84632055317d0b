"""What was loaded is not looked through for garbage while the process is young.

Modules are there to stay, and the first look at all objects of the process (`translators.collecting` says when it comes) has hardly
any others to find: some twenty milliseconds of a program that may take a hundred. Decides that what there is when modules are loaded is
passed over for so long, as `gc.freeze` does it, and that it is looked at as ever after that, or once the program itself asks for a
look: then it finds what it would have found. A program that freezes objects has its way.
"""

from __future__ import annotations

import gc
import time

#: whether the look that begins is `look_at_the_rest`
_is_of_the_rest = False
#: seconds after which a look at all that was loaded takes less than a hundredth of the time
YOUNG = 5.0


class _PassedOver:
    """What there is now, until it is looked at again."""

    def __init__(self) -> None:
        self._until = time.monotonic() + YOUNG
        gc.freeze()
        #: how many objects are frozen; 0 once they are no more
        self._count = gc.get_freeze_count()
        # It stays in the list: who takes something from it while that is gone through has the next one's turn left out.
        gc.callbacks.append(self._called)

    def _called(self, phase: str, info: dict[str, int]) -> None:
        """A look for garbage begins or ends."""
        if self._count and phase == "start" and (self._is_asked_for(info) or time.monotonic() > self._until):
            count, self._count = self._count, 0
            if gc.get_freeze_count() <= count:  # else the program has frozen more since
                gc.unfreeze()

    @staticmethod
    def _is_asked_for(info: dict[str, int]) -> bool:
        """Whether all is looked at before Python would do it by itself."""
        return info["generation"] == 2 and gc.get_count()[2] <= gc.get_threshold()[2] and not _is_of_the_rest


def pass_over() -> None:
    """Pass over what there is now, if the program has not said itself what is passed over."""
    if not gc.get_freeze_count():
        _PassedOver()


def look_at_the_rest() -> None:
    """Look at all objects but those that are passed over, at once: Python does so soon where many are new to it."""
    global _is_of_the_rest
    _is_of_the_rest = True
    try:
        gc.collect()
    finally:
        _is_of_the_rest = False
