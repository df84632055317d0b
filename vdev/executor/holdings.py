"""Holdings: where the bytes of one buffer really are, and who has been given work that touches them.

The planner's directory says where each byte should be; a `Holdings` says where it is. It keeps the replicas of a
buffer and the record from which hazards between commands follow. It never decides what is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from itertools import count
from typing import Any, Protocol

from vdev.backends import compiled
from vdev.backends.base import Allocation, Backend, Bytes
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

#: steps by the worker they were handed to: worker -> number of the last of them
Steps = dict[int, int]

#: a home is pinned after so many times its bytes have been copied to it or from it, each time at least so many
PINNED_AFTER, PINNED_NBYTES = 4, 64 << 10
#: after so many times that a buffer has served again, what it was is forgotten as far as nothing is left of that
_FORMER_LOOKED_AT = 16
_NEVER = 1 << 62
_NONE: dict[int, int | None] = {}  #: of most buffers, which serve once


_numbers = count(1)


class Replica:
    """Device memory for bytes `start` <= b < `stop` of a buffer."""

    __slots__ = ("allocation", "number", "start", "stop")

    def __init__(self, allocation: Allocation, start: int, stop: int) -> None:
        self.allocation = allocation
        self.number = next(_numbers)  #: which no other replica has
        self.start = start
        self.stop = stop


@dataclass
class Damage:
    """Where the directory believes too much after a failure.

    `invalid`: bytes by holder that are not valid there. `replicas`: all the device memory there is, (start,
    stop) by worker. `origins`: bytes that were not copied from a worker and are still in that replica.
    """

    status: int
    invalid: dict[int, Region] = field(default_factory=dict)
    replicas: dict[int, tuple[int, int]] = field(default_factory=dict)
    origins: list[tuple[int, Region, Replica]] = field(default_factory=list)

    def add(self, holder: int, region: Region) -> None:
        self.invalid[holder] = self.invalid[holder] | region if holder in self.invalid else region


class Discards(Protocol):
    """Takes memory back from any thread, at any moment, without a lock."""

    def discard(self, allocation: Allocation) -> None: ...


class Holdings:
    """One buffer's memory on all workers; owned by the buffer and gone with it."""

    __slots__ = (
        "__weakref__",
        "_home",
        "_owners",
        "_pinned",
        "_unpinned_nbytes",
        "blank",
        "damage",
        "failure",
        "fine",
        "former",
        "home_reads",
        "home_writes",
        "is_given",
        "nbytes",
        "noted",
        "readers",
        "replicas",
        "written",
    )

    def __init__(
        self,
        owners: tuple[Discards, ...],
        nbytes: int,
        home: Callable[[], Bytes],
        *,
        blank: bool = False,
        fine: bool = False,
    ) -> None:
        """`home` gives the buffer's host memory (1-D uint8), made on first use; any thread may call it.

        `blank`: it is all zeros, and nobody changes it before the executor is told. `fine`: the host changes it without telling.
        """
        count = len(owners)
        self._owners = owners
        self.nbytes = nbytes
        self._home = home
        #: the home is zeros that nothing has touched, so zeros need not be written to it
        self.blank = blank
        self.fine = fine
        self.is_given = False  #: whether the home is the program's own memory (CL_MEM_USE_HOST_PTR)
        #: by worker; changed by that worker's thread only
        self.replicas: list[Replica | None] = [None] * count
        #: by worker: its last step that changes its own replica. Nobody else ever changes it.
        self.written: list[int] = [0] * count
        #: by worker: steps of others that read its replica
        self.readers: list[Steps | None] = [None] * count
        #: steps that read or change the home
        self.home_reads: Steps = {}
        self.home_writes: Steps = {}
        #: the status of every command that reads the buffer, until a command overwrites it whole (of a fine-grain
        #: one, until the command that failed has ended)
        self.failure: int | None = None
        #: what the buffer was before it served again: by the number of the last command that may concern each, the failure of that one
        self.former = _NONE
        self.damage: Damage | None = None
        #: bytes that may still be copied to and from the home before it is pinned, and what keeps it pinned
        self._unpinned_nbytes = PINNED_AFTER * nbytes
        self.noted: Any = None  #: what a report keeps of the buffer (`vdev.observe.exchanges`)
        self._pinned: object | None = None

    def __del__(self) -> None:
        # Whoever uses the replicas keeps this object alive, so nothing uses them any more.
        owners, number = self._owners, 0
        for replica in self.replicas:
            if replica is not None:
                owners[number].discard(replica.allocation)
            number += 1  # noqa: SIM113 (each buffer comes here, and has one or two)

    @property
    def is_pinned(self) -> bool:
        """Whether a worker's back end copies all of the home by itself, in the order of its work."""
        return self._pinned is not None

    @property
    def is_sound(self) -> bool:
        """Whether no failure concerns it."""
        return self.failure is None and self.damage is None

    def renew(self, number: int, unsettled: Iterable[int]) -> None:
        """The buffer is another one for commands after that `number`. `unsettled`: the numbers of those that have not ended. Any thread may
        call this, without a lock.
        """
        if self.former is _NONE:
            self.former = {}
        elif len(self.former) % _FORMER_LOOKED_AT == 0:
            oldest = min([*unsettled], default=number)
            for last in [*self.former]:
                if last < oldest:
                    del self.former[last]
        self.former[number] = None

    def is_another_for(self, number: int) -> bool:
        """Whether the buffer was another one when the command of that number was submitted: it has served again since."""
        return any(number <= last for last in [*self.former])

    def failure_for(self, number: int) -> int | None:
        """The failure that concerns the command of that number."""
        return next((failure for last, failure in [*self.former.items()] if number <= last), self.failure)

    def fail(self, number: int, status: int | None) -> None:
        """The command of that number has failed with a status; None: it overwrites the buffer whole."""
        last = next((last for last in [*self.former] if number <= last), None)
        if last is None:
            self.failure = status
        else:
            self.former[last] = status

    def home(self) -> Bytes:
        """The buffer's host memory, for a step that may change it."""
        self.blank = False
        return self._home()

    def home_for(self, backend: Backend, nbytes: int) -> Bytes:
        """The same for a step that copies so many bytes between it and a worker. A home that is copied again and again is pinned, where
        the worker's back end can do that: it pays once as much has been copied as pinning takes.
        """
        home = self.home()
        if backend.pins_memory and nbytes >= PINNED_NBYTES:
            self._unpinned_nbytes -= nbytes
            if self._unpinned_nbytes < 0 and self._pinned is None:
                self._pinned = backend.pin(home)
                self._unpinned_nbytes = _NEVER  # asked once
        return home

    # hazards: called under the executor's lock, in submission order ---------------------------------

    def before_read(self, holder: int) -> Iterable[tuple[int, int]]:
        """(worker, step) of what must be done before bytes at `holder` (-1: the home) may be read. Steps of the
        reader itself may be among them, and steps 0, which stand for none.
        """
        return self.home_writes.items() if holder < 0 else ((holder, self.written[holder]),)

    def before_write(self, holder: int) -> Collection[tuple[int, int]]:
        """The same before bytes at `holder` may be changed; the steps that have changed a replica are its own worker's."""
        if holder < 0:
            return [*self.home_writes.items(), *self.home_reads.items()]
        readers = self.readers[holder]
        return () if readers is None else readers.items()

    def did_read(self, holder: int, reader: int, step: int) -> None:
        if holder < 0:
            self.home_reads[reader] = step
        elif holder != reader:
            readers = self.readers[holder]
            if readers is None:
                readers = self.readers[holder] = {}
            readers[reader] = step

    def did_write(self, holder: int, writer: int, step: int, *, first: bool) -> None:
        """`first`: the plan's first change at this holder. It waits for everything before, which can therefore be
        forgotten.
        """
        if holder >= 0:
            self.written[holder] = step
            self.readers[holder] = None
            return
        if first:
            self.home_reads = {}
            self.home_writes = {}
        self.home_writes[writer] = step


compiled.code.replace_methods(Holdings, ())  # which compiled methods read
compiled.code.replace_methods(Replica, ())
