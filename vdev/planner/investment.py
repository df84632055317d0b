"""Investment: how many seconds the plans may take that are made once more because a program was built again.

The first plans of a kernel for several workers are paid once, and what launches gain by them comes after. Where a program is built
again, they have to be made again, and nobody knows how many launches follow this time. They are paid from what splitting
has gained so far, up to a part of what all launches together would have taken on one worker, and never many at a time: so much may
be lost if nothing is gained any more. Plans beyond that are weighed like all that goes on and on.

Decides which plans are paid so. Knows no clock.
"""

from __future__ import annotations

#: of the time that launches would have taken on one worker; and seconds, whatever they have taken
_SHARE, _MOST = 0.1, 0.1


class Investment:
    """That of one session, for all kernels together."""

    __slots__ = ("_left", "_one")

    def __init__(self) -> None:
        self._one = 0.0  #: seconds of all launches on one worker
        self._left = 0.0  #: seconds that were gained and not spent

    def earn(self, one: float, split: float) -> None:
        """Launches took `split` seconds, and would have taken `one` on one worker."""
        self._one += one
        self._left = min(max(self._left + one - split, 0.0), _SHARE * self._one, _MOST)

    def pays(self, seconds: float) -> bool:
        """Whether a plan that took so long is paid from it: then it is."""
        if seconds > self._left:
            return False
        self._left -= seconds
        return True
