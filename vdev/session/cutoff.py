"""The cutoff: how many work-items a launch must have to be planned, and split, on workers that share hardware.

Such workers gain nothing by splitting launches, and who asks for them wants to see large ones split: no measured time tells which
those are. So size tells, and what planning, handing over and exchanging take has a budget, as in fork-join programs, which do not
fork below a *sequential cutoff*. It is raised above launches that have cost too much; what is below it, or would not be cut anyway,
runs on one worker without plans soon. Both the launches on some buffers (an account's) and those of one kernel, on whatever buffers,
have a cutoff; launches take no plan below either.

Decides up to which size launches are better off without plans. Changes no ways, knows no clock.
"""

from __future__ import annotations

from math import inf

#: seconds that launches of one account may lose by having plans, and those below the cutoff in a row
_BUDGET, _BUDGET_BELOW = 0.006, 0.0005
#: launches below it in a row that it takes at least, however much they lose: plans that are made once are soon made
_LEAST_BELOW = 3
#: beyond the budget, of the time that their kernels take, what they may lose
_PART = 0.05
#: launches that are so many times as large as those that have cost too much are others
_LARGER = 4


class Cutoff:
    """That of an account or of a kernel.

    >>> buffers, kernel = Cutoff(1024), Cutoff(0)
    >>> buffers.lost(4096, 0.004, kernel)
    >>> buffers.is_exceeded(0.0)
    False
    >>> buffers.lost(4096, 0.004, kernel)
    >>> buffers.is_exceeded(0.0), buffers.below
    (True, 16384)
    """

    __slots__ = ("_in_a_row", "_largest", "_lost", "below", "seconds")

    def __init__(self, below: float = inf) -> None:
        #: launches of fewer work-items take no plans; inf: none does, whatever its size, since time decides and not size
        self.below = below
        self._lost = 0.0  #: seconds lost beyond what launches may lose
        self._in_a_row = 0.0  #: seconds lost by launches below it since the last that was not
        self._largest = 0  #: work-items of a launch that was not below it
        self.seconds = 0.0  #: lost in all

    def lost(
        self, nitems: int, seconds: float, kernel: Cutoff, *, launches: int = 1, kernels: float = 0.0
    ) -> None:
        """So many launches of `nitems` work-items each had plans, on an account's buffers, and took these seconds longer than without;
        the work of the kernel itself, whose cutoff is given, took `kernels`.
        """
        self.seconds += seconds
        self._lost = max(self._lost + seconds - _PART * kernels, 0.0)
        if nitems < max(self.below, kernel.below):
            self._in_a_row += min(seconds, launches * _BUDGET_BELOW / _LEAST_BELOW)
        else:
            self._in_a_row = 0.0
            self._largest = max(self._largest, nitems)

    def is_exceeded(self, change: float, *, known: bool = True) -> bool:
        """Whether launches on these buffers take no plans from now on, up to the cutoff: it is raised if need be. `change`: seconds
        for bringing the buffers to one worker. `known`: whether it is known what kernels take.
        """
        if known and self._lost >= max(_BUDGET, 2 * change):
            self._lost = self._in_a_row = 0.0
            self.rise(self._largest)
            return True
        if self._in_a_row < max(_BUDGET_BELOW, 2 * change):
            return False
        self._in_a_row = 0.0
        return True

    def rise(self, nitems: int) -> None:
        """Launches of about so many work-items are below it from now on."""
        if nitems >= self.below:
            self.below = _LARGER * nitems

    def join(self, other: Cutoff) -> None:
        """The launches of both are on the same buffers from now on."""
        self.below = max(self.below, other.below)
        self.seconds += other.seconds
        self._lost += other._lost
        self._in_a_row += other._in_a_row
        self._largest = max(self._largest, other._largest)
