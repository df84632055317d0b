"""Bytes by route, and times by activity: what tallies count and statistics show."""

from __future__ import annotations

from vdev.translators.values import dataclass


@dataclass(slots=True)
class Moved:
    """Bytes that moved between holders, by route. A copy on the way through host memory counts once."""

    host_to_worker: int = 0
    worker_to_worker: int = 0
    worker_to_host: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes on all routes."""
        return self.host_to_worker + self.worker_to_worker + self.worker_to_host

    def include(self, other: Moved) -> None:
        self.host_to_worker += other.host_to_worker
        self.worker_to_worker += other.worker_to_worker
        self.worker_to_host += other.worker_to_host


@dataclass(slots=True)
class Times:
    """Nanoseconds: `kernel`, `transfer` and `device` (fills, copies within a worker, making room) on
    devices, all workers added up; `merge` on devices or the host; `host` (copies and fills in host memory) on
    the host.
    """

    kernel_ns: int = 0
    transfer_ns: int = 0
    device_ns: int = 0
    merge_ns: int = 0
    host_ns: int = 0

    def include(self, other: Times) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
