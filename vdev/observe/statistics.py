"""Statistics: the figures of a run as plain data, for programs, reports and tests.

Decides which figures there are and what each means; `snapshots` fills them in.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from vdev.observe.figures import Moved, Times
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.observe.exchanges import Exchange, Steady
    from vdev.observe.history_data import Past


@dataclass(frozen=True)
class WorkerStatistics:
    """One worker, as its back end counted; bytes."""

    number: int
    backend: str
    name: str
    launches: int
    from_host_nbytes: int
    to_host_nbytes: int
    from_peer_nbytes: int  #: from other workers
    local_nbytes: int  #: copied within the worker
    filled_nbytes: int
    allocated_nbytes: int  #: held now
    peak_nbytes: int  #: the most ever held
    apart: tuple[str, ...] = ()  #: kernels that have run in a version for arguments that lie apart


@dataclass(frozen=True)
class Reason:
    """Why launches were not split over all workers, or why results had to be merged."""

    text: str
    line: int | None  #: of the kernel's source
    source: str = ""  #: the text of that line


@dataclass(frozen=True)
class PartitionStatistics:
    """One partition with which launches of a kernel were run.

    `chunks` are those of the first such launch: (worker, first work-group, one past the last), for every dimension;
    `global_size` and `local_size` are its sizes, too. `cycles`: for chunks that take turns, (dimension, work-groups
    of a block, work-groups from one block to the next), None for others.
    """

    launches: int
    workers: int  #: workers that took part
    available: int  #: workers that the device has
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    chunks: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
    reasons: tuple[Reason, ...]
    cycles: tuple[tuple[int, int, int] | None, ...] = ()


@dataclass(frozen=True)
class ArgumentStatistics:
    """One pointer argument of a kernel, over all launches; bytes.

    `access` is 'read', 'write', 'both', 'atomic' or 'none' (an atomic counts as such whatever else is done); 'unknown'
    where no launch needed to know it: on one worker a launch takes no plan, and nothing is analysed.
    `exact`: the analysis knew exactly which bytes each time; otherwise `reason` says why it did not, and
    `line` and `text` say for which access. `merged_nbytes` were compared with a twin or combined from atomics.
    """

    index: int
    name: str
    type_name: str
    access: str
    exact: bool
    reason: str | None
    line: int | None
    text: str
    nbytes: int  #: the largest it was
    shares_with: str | None  #: the argument under which its bytes are counted, if it is the same buffer
    moved: Moved
    merged_nbytes: int
    inexact_mode: str | None = None  #: 'read', 'write' or 'atomic': what `reason` is about
    fine: bool = False  #: in some launches it was fine-grain shared virtual memory


@dataclass(frozen=True)
class WayStatistics:
    """How long launches of a kernel took on a number of workers, as predicted by the time model and as measured: means of the busiest
    worker's seconds over the `measured_launches` that were sampled; None if none was.

    Of the launches that took at least 100 us (`judged`), `close` were predicted within a quarter.
    """

    workers: int
    launches: int
    measured_launches: int
    predicted: float | None
    measured: float | None
    judged: int
    close: int
    reason: str  #: why not on more workers


@dataclass(frozen=True)
class KernelStatistics:
    """One kernel of one source, over all launches."""

    name: str
    program: int  #: programs are numbered in the order of first launches
    line: int | None
    launches: int
    split: int  #: launches that ran on several workers
    partitions: tuple[PartitionStatistics, ...]  #: the most frequent first
    arguments: tuple[ArgumentStatistics, ...]  #: those that point to buffers
    moved: Moved
    merged_nbytes: int
    plans: int  #: plans made; those of all other launches came from the cache
    planning_ns: int  #: analysing the kernel and making plans
    times: Times
    ways: tuple[WayStatistics, ...] = ()  #: the way with most workers first


@dataclass(frozen=True)
class CommandStatistics:
    """All commands of one kind, launches apart: 'write', 'read', 'copybuffer', 'fill', 'map', 'unmap',
    'migrate'; and work that no command asked for: 'evict' (replicas that had to leave a worker's memory),
    'fold' (what atomics had left on several workers, merged for what uses it) and 'check' (VDEV_CHECK)."""

    kind: str
    count: int
    moved: Moved
    within_host_nbytes: int  #: between the program's arrays and the buffers' homes, both in host memory
    planning_ns: (
        int  #: of writes, reads, copies and fills; making the plans of other commands takes hardly any time
    )
    times: Times


@dataclass(frozen=True)
class Statistics:
    """What `vdev.stats()` returns.

    `moved` is the sum of the rows of `kernels` and `commands`, as planned; `counted` is what the back ends counted.
    `undone` is what was planned and not carried out because a command failed: `moved` = `counted` + `undone`. Times
    other than planning are 0 unless `timed`.
    """

    workers: tuple[WorkerStatistics, ...]
    kernels: tuple[KernelStatistics, ...]
    commands: tuple[CommandStatistics, ...]
    moved: Moved
    counted: Moved
    undone: Moved
    timed: bool
    #: only with VDEV_EXPLAIN: `moved` broken down by the command that wrote the bytes and the one that needed them
    exchanges: tuple[Exchange, ...] | None = None
    steady: Steady | None = None  #: only with VDEV_EXPLAIN
    past: Past | None = None  #: only with VDEV_EXPLAIN

    @property
    def launches(self) -> int:
        """All launches."""
        return sum(kernel.launches for kernel in self.kernels)

    def kernel(self, name: str) -> KernelStatistics:
        """The row of the kernel called `name`, the first of several. Raises KeyError."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)

    def as_dict(self) -> dict[str, Any]:
        """The same, without `past`, as dictionaries, lists, strings and numbers: what `--json` prints."""
        found: dict[str, Any] = dataclasses.asdict(dataclasses.replace(self, past=None))
        del found["past"]  # a trace has that
        return found
