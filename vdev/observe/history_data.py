"""A run's timeline as data of bounded size: `history` makes it, and the page draws it. Decides nothing."""

from __future__ import annotations

from typing import Protocol

from vdev.translators.values import dataclass

BINS = 240  #: the most parts of a run
PLANNING = -2  #: the row for the host's planning, besides workers' numbers and -1 for host memory


@dataclass(frozen=True)
class Busy:
    """Nanoseconds that worker `worker` spent on `kind` ('kernel', 'transfer', 'device', 'merge', 'host', 'planning'), by part."""

    worker: int
    kind: str
    nanoseconds: tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    """One step of a command on a worker; times in nanoseconds from the run's first. `shared`: its time is a share of
    several short steps' time."""

    worker: int
    kind: str
    name: str
    nbytes: int
    start: int
    end: int
    shared: bool


@dataclass(frozen=True)
class Told:
    """A command with its steps, of which `left_out` are not kept."""

    number: int
    name: str
    pieces: tuple[Piece, ...]
    left_out: int


@dataclass(frozen=True)
class Past:
    """The run, in parts of `width` nanoseconds. `first` and `last` are single commands out of `commands` in total."""

    width: int
    busy: tuple[Busy, ...]
    commands: int
    first: tuple[Told, ...]
    last: tuple[Told, ...]


class Remembering(Protocol):
    """Something that has recorded a run, such as `history.History`."""

    def past(self) -> Past:
        """What was kept so far."""
