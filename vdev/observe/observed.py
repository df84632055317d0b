"""What observers see of a session and of its kernels: as much as they need, and nothing that they could change."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from vdev.backends.base import WorkerInfo
from vdev.executor.executor import Executor
from vdev.observe.recorder import Recorder
from vdev.observe.tallies import Ledger


class ObservedSession(Protocol):
    """A session, as its observers see it."""

    #: told of every command, once it is set
    recorder: Recorder | None

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The workers behind the device."""

    @property
    def executor(self) -> Executor:
        """It has counted the work."""

    def observing(self, until: int = 0) -> AbstractContextManager[Ledger]:
        """What has been counted so far; nothing is planned meanwhile."""
