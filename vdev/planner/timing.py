"""The time model: how long a launch takes, in seconds, in each of the ways in which it can run.

A launch occupies the host, which hands it over, and the devices, which fetch what it needs and run it. They
work at the same time, so a series of launches takes as long as the busier of the two (`Way`, `vdev.planner.regret`). The times for
moving and handing over on a machine are `MachineTimes`, measured once and stored (`vdev-info --links`). Kernels' times are
learnt from their launches (`KernelTimes`): a part that every launch takes, however small, and a part for its work-items;
uneven work makes the largest share larger.

Decides nothing about ways; knows no clock, and never measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from vdev.translators.values import dataclass

#: the weight of a new measurement in a mean
_WEIGHT = 0.25
#: what is known is out of date where two measurements in a row are off to the same side by more than this part of it
_OFF = 0.25
#: a measurement counts for at most this many times what is known: a single one may have waited for something
_MOST_LONGER = 4.0
#: the most seconds assumed for what every kernel takes: the least one that was seen may be a long one
MOST_FLOOR = 1e-5
#: the largest share of the work is assumed to be at most this many times an even one: one bad measurement must not
#: decide for all
_MOST_UNEVEN = 8.0


@dataclass(frozen=True, slots=True)
class Way:
    """Seconds of the host, and of the busiest device, that launches take in one way."""

    host: float
    device: float

    def __add__(self, other: Way) -> Way:
        return Way(self.host + other.host, self.device + other.device)

    def times(self, count: float) -> Way:
        """This many launches of this kind."""
        return Way(self.host * count, self.device * count)

    @property
    def seconds(self) -> float:
        """How long they take: both work at the same time."""
        return max(self.host, self.device)


@dataclass(frozen=True, slots=True)
class MachineTimes:
    """What handing over and moving take on one machine, in seconds.

    The defaults are those of a machine of which nothing was measured; they are near to what NVIDIA's H100 and H200 were seen
    to take.
    """

    launch: float = 1e-5  #: the host: a launch on one worker that needs no plan
    part: float = 1e-5  #: the host: what each further worker adds to a launch
    message: float = 1e-5  #: the host: each transfer between workers that a launch needs
    latency: float = 1e-5  #: a worker: until the bytes of a transfer begin to arrive
    per_byte: float = (
        1e-10  #: a worker: what a unit of `LinkCosts` takes, which is a byte over the host's link
    )

    def handing_over(self, workers: int, messages: int) -> float:
        """Seconds of the host for a launch on this many workers that needs this many transfers in all."""
        return self.launch + self.part * (workers - 1) + self.message * messages

    def exchanging(self, messages: int, cost: float, unit: float | None = None) -> float:
        """Seconds of the busiest worker for so many transfers of its, of such a cost in all; `unit`: seconds for one of cost
        where that is known better.
        """
        return self.latency * messages + cost * (self.per_byte if unit is None else unit)


class Least:
    """The least that any kernel took on a machine, which is what every launch takes whatever it does."""

    __slots__ = ("_least",)

    def __init__(self) -> None:
        self._least = inf

    def add(self, seconds: float) -> None:
        self._least = min(self._least, seconds)

    @property
    def value(self) -> float:
        """In seconds; 0 before anything was seen."""
        return 0.0 if self._least == inf else min(self._least, MOST_FLOOR)


@dataclass(frozen=True, slots=True)
class _Rate:
    """What a launch takes for each of its work-items, as it was measured: what every launch takes may be known better later on."""

    seconds: float
    chunks: float

    def beyond(self, floor: float) -> float:
        """Seconds of one worker for each, beyond what every launch takes."""
        return max(self.seconds - floor * self.chunks, 0.0)

    def less(self, seconds: float) -> _Rate:
        return _Rate(self.seconds - seconds, self.chunks)

    def mixed(self, other: _Rate) -> _Rate:
        """A mean in which the other one has the weight of a new measurement."""
        return _Rate(
            self.seconds + _WEIGHT * (other.seconds - self.seconds),
            self.chunks + _WEIGHT * (other.chunks - self.chunks),
        )


class KernelTimes:
    """What launches of one kernel take, by the number of their work-items.

    Rates are kept for every power of two of work-items: what a kernel does with a few is not what it does with millions, as
    the levels of a grid have it. Measurements err by being too long: the first of a kernel counts until there is another, for drivers
    load a kernel when it is first launched, and one that is much longer than those before counts in part. What kernels do changes, too:
    with the data, or with a number that says how far each work-item goes. Two in a row that say so count alone.
    """

    __slots__ = ("_first", "_least", "_off", "_rates", "_uneven")

    def __init__(self, least: Least) -> None:
        """`least`: of the machine."""
        self._least = least
        #: by the bits of the number of work-items
        self._rates: dict[int, _Rate] = {}
        self._first: int | None = None  #: the bits of the first launch, until there is another one of as many
        #: by the same bits: the last measurement, if it was off
        self._off: dict[int, _Rate] = {}
        #: the largest share of the work that a chunk had, over an even one
        self._uneven = 1.0

    @property
    def known(self) -> bool:
        """Whether any launch was measured."""
        return bool(self._rates)

    @property
    def is_of_one_launch(self) -> bool:
        """Whether all that is known is what the kernel's first measured launch took."""
        return self._first in self._rates and len(self._rates) == 1

    def is_certain(self, nitems: int) -> bool:
        """Whether launches of about so many work-items were measured, and not only the first of the kernel."""
        bits = nitems.bit_length()
        return bits in self._rates and bits != self._first

    def took_at_most(self, nitems: int, seconds: float) -> bool:
        """Whether launches of about so many work-items were measured, and take no longer than this on one worker. One is enough for that:
        measurements err by being too long.
        """
        return nitems.bit_length() in self._rates and self.whole(nitems) <= seconds

    def covers(self, nitems: int) -> bool:
        """Whether launches of about so many work-items were measured, or larger ones, or none at all: what small ones take is mostly what
        every launch waits for, and says that many times as many work-items take many times too long.
        """
        return not self._rates or nitems.bit_length() <= max(self._rates) + 1

    def covered(self, nitems: int) -> int:
        """Of so many work-items, as many as launches are covered of: a launch of all of them takes longer than one of these."""
        return nitems if self.covers(nitems) else (2 << max(self._rates)) - 1

    def add(self, nitems: int, chunks: Sequence[float]) -> None:
        """A launch of so many work-items was measured: seconds of each of its chunks, which are about equal."""
        for took in chunks:
            self._least.add(took)
        floor, bits = self._least.value, nitems.bit_length()
        found = _Rate(sum(chunks) / max(nitems, 1), len(chunks) / max(nitems, 1))
        rate, before = found.beyond(floor), self._rates.get(bits)
        if before is None:
            self._first = self._first if self._rates else bits
        elif bits == self._first:
            self._first = None
            if rate < before.beyond(floor):  # the second launch says more than the first
                before, self._uneven = None, 1.0
        self._rates[bits] = found if before is None else self._mixed(bits, before, found)
        works = [max(took - floor, 0.0) for took in chunks]
        if len(works) > 1 and sum(works) > 0:
            uneven = min(max(works) * len(works) / sum(works), _MOST_UNEVEN)
            self._uneven += _WEIGHT * (uneven - self._uneven)

    def _mixed(self, bits: int, before: _Rate, found: _Rate) -> _Rate:
        """What is known after `found` was measured of a launch of about so many work-items, of which `before` was known."""
        floor = self._least.value
        rate, known = found.beyond(floor), before.beyond(floor)
        last = self._off.pop(bits, None)
        if abs(rate - known) > _OFF * known:
            if last is not None and (last.beyond(floor) > known) == (rate > known):
                return min(last, found, key=lambda each: each.beyond(floor))
            self._off[bits] = found
        longest = _MOST_LONGER * known or rate
        return before.mixed(found.less(max(rate - longest, 0.0)))

    def forget_shares(self) -> None:
        """From now on launches are cut elsewhere: what is known of the largest share is not valid for them."""
        self._uneven = 1.0

    def chunk(self, nitems: int, share: float) -> float:
        """Seconds of the largest chunk, which has this fraction of the work-groups, of a launch of this many
        work-items. 0 if nothing was measured.
        """
        if not self._rates:
            return 0.0
        bits = nitems.bit_length()
        rate = self._rates.get(bits)
        if rate is None:
            nearest = min(self._rates, key=lambda known: (abs(known - bits), -known))
            rate = self._rates[nearest]
        part = share if share >= 1 else min(share * self._uneven, 1.0)
        floor = self._least.value
        return floor + rate.beyond(floor) * nitems * part

    def whole(self, nitems: int) -> float:
        """Seconds of a launch on one worker."""
        return self.chunk(nitems, 1.0)
