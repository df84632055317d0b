"""Budget: how many seconds first plans may take, of those that a program's launches take.

A first plan takes milliseconds, and nobody knows whether launches will make up for it: of some kernels the first launch does, of
others thousands do not. As long as plans have not gained what they took, they may take a small part of the time that launches would
have taken on one worker, and what it would take to get out of their way: a program that ends at any moment has lost no more. What plans
have gained pays for more of them.

Of a kernel of which nothing is known yet a few launches of each program are tried: it may be a long one.

Knows no clock, and makes no choice: `vdev.session.first_plans` does.
"""

from __future__ import annotations

from vdev.planner.regret import Median

#: of the seconds that launches would have taken on one worker, what plans may take that have gained nothing yet
_SHARE = 0.1
#: and beyond that, as long as launches that have begun to be split on purpose make up for them
_BEYOND = 0.3
#: seconds of a plan before one was made
_FIRST = 0.004
#: plans that count for what the next one takes
_PLANS = 9
#: after how many plans it is told what they take, and how much that may differ from what was known
_TOLD, _ALIKE = (3, 9, 64), 1.5
#: so many times what plans take is what a kernel's plans take at most, by what its last one took
_LONGER = 2.0
#: seconds of gains that pay for plans of other launches than those that have gained, at most
_MOST_POOLED = 0.1
#: plans of each built program for launches of which nothing is known: while those of the first run, nobody knows how long they take
_TRIES = 2


class Budget:
    """That of one session: what any plan takes, and what all have gained."""

    __slots__ = ("_count", "_kept", "_made", "_pool")

    def __init__(self, kept: float | None = None) -> None:
        """`kept`: seconds that a plan took in earlier runs."""
        self._made = Median(_PLANS, 1)
        self._count = 0
        self._kept = kept
        self._pool = 0.0

    def made(self, seconds: float) -> None:
        """A plan was made, which took so long."""
        self._made.add(seconds)
        self._count += 1
        self._pool = max(self._pool - seconds, 0.0)

    def earn(self, one: float, split: float) -> None:
        """Launches took `split` seconds, and would have taken `one` on one worker."""
        self._pool = min(max(self._pool + one - split, 0.0), _MOST_POOLED)

    def wait(self, seconds: float) -> None:
        """Launches took so long on one worker: a small part of that may go into plans for other buffers."""
        self.earn(_SHARE * seconds, 0.0)

    @property
    def expected(self) -> float:
        """Seconds that a plan takes which has to be made."""
        return self._made.value or self._kept or _FIRST

    def like(self, latest: float) -> float:
        """Seconds that a plan takes like one that took `latest`, which a busy host may have made longer; 0: there was none."""
        return min(latest, _LONGER * self.expected) if latest else self.expected

    def news(self) -> float | None:
        """What a plan takes, for the next run, where that is something else than was known; None where it is not, or not yet."""
        found, kept = self._made.value, self._kept
        if self._count not in _TOLD or found is None or (kept and kept / _ALIKE < found < kept * _ALIKE):
            return None
        self._kept = found
        return found

    def pools(self, seconds: float) -> bool:
        """Whether what was gained so far pays for a plan that takes so long."""
        return seconds <= self._pool

    @staticmethod
    def may_try(tried: int) -> bool:
        """Whether one more launch of which nothing is known may be planned, after so many of its program."""
        return tried < _TRIES


class Fund:
    """That of one account: what its launches have taken and gained, and its plans."""

    __slots__ = ("_gained", "_one", "_spent", "granted", "since_ns")

    def __init__(self) -> None:
        self._one = self._gained = self._spent = 0.0
        self.granted = (
            False  #: whether launches are split since plans are a small part of what they took on one worker
        )
        self.since_ns = 0  #: when a launch of unknown length was handed over, by the host's clock

    def earn(self, one: float, split: float) -> None:
        """As for the session. What launches lose by exchanging is weighed elsewhere."""
        self._one += one
        self._gained += max(one - split, 0.0)

    def spend(self, seconds: float) -> None:
        """A plan took so long."""
        self._spent += seconds

    def excuse(self, seconds: float) -> None:
        """A plan that is tried takes so long, whatever else is made."""
        self._spent -= seconds

    @property
    def left(self) -> float:
        """Seconds that plans may take; below 0 where they have taken more."""
        return _SHARE * self._one + self._gained - self._spent

    @property
    def committed(self) -> bool:
        """Whether launches are split on purpose, and plans have not taken far more than was meant."""
        return self.granted and self.left > -_BEYOND * self._one

    def join(self, other: Fund) -> None:
        """The launches of both are on the same buffers from now on."""
        self._one += other._one
        self._gained += other._gained
        self._spent += other._spent
        self.granted = self.granted or other.granted
        self.since_ns = max(self.since_ns, other.since_ns)
