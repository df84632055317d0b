"""Native CPU workers that behave as GPUs do towards planner and executor: `python -m tests.cpu.far_workers MODULE
[arguments]` runs a module on them; `--changing` before it has buffers kept on one worker and let go, and launches split over
any number of workers and cut elsewhere than evenly, at random.

Arrays of any size go straight to them, and they merge what several of them changed, all together however little
it is, and addresses of the host's memory mean nothing to them. So every path that GPUs take is taken here, with real
kernels, but for the CUDA back end itself.
"""

from __future__ import annotations

import random
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields, replace
from math import inf
from typing import Any
from unittest import mock

import numpy as np
from vdev.translators.ranges.grain import Grain
from vdev.translators.ranges.region import Region

import vdev.session.choosing
import vdev.session.core
import vdev.session.split_plans
import vdev.start.workers
from vdev.backends.base import Allocation, Backend, Box
from vdev.backends.merging import combine, copy_changes
from vdev.backends.opencl.backend import OpenCLBackend
from vdev.planner import links, merges, regret
from vdev.planner.balance import Balance, Recut, cut_dimension
from vdev.planner.partitioner import Partition
from vdev.session.choosing import Choosing
from vdev.session.session import Session
from vdev.session.split_launches import SplitLaunches
from vdev.session.worker_counts import WorkerCounts

_SVM_CAPABILITIES = 0x1053  #: CL_DEVICE_


class FarBackend(OpenCLBackend):
    """One that merges on the host, at once, after all that it was given."""

    def __init__(self, device: Any, share: int = 1) -> None:
        super().__init__(device, share)
        native = {**self.info.native, _SVM_CAPABILITIES: 0}
        self.info = replace(self.info, is_cpu=False, merges=True, peer_cost=0.1, native=native)

    def merge(
        self,
        target: Allocation,
        target_start: int,
        stage: Allocation,
        stage_start: int,
        twin: Allocation | None,
        twin_start: int,
        region: Region,
        op: str,
        dtype: str,
        grain: Grain,
    ) -> None:
        into, new = self._content(target), self._content(stage)
        old = None if twin is None else self._content(twin)
        for start, stop in region.runs.tolist():
            run, version = (
                memory[start - first : stop - first]
                for memory, first in ((into, target_start), (new, stage_start))
            )
            if old is None:
                combine(run, version, op, dtype)
            else:
                unchanged = old[start - twin_start : stop - twin_start]
                copy_changes(run, version, unchanged, start, grain)
        self.write(target, into, Box.contiguous(0, 0, target.nbytes))
        self._cl.CommandQueue.finish(self._queue)
        self.counters.merged += region.nbytes

    def _content(self, allocation: Allocation) -> np.ndarray:
        content = np.empty(allocation.nbytes, np.uint8)
        self.read(allocation, content, Box.contiguous(0, 0, allocation.nbytes))
        self._cl.CommandQueue.finish(self._queue)
        return content


def far(device: Any, share: int = 1) -> Callable[[], Backend]:
    """An opener of such a worker."""
    return lambda: FarBackend(device, share)


@contextmanager
def changing() -> Iterator[None]:
    """The ways in use change at random, whatever launches take: after one launch in three. Over how many workers launches are
    split and where they are cut is random as well, for one launch and one plan in two.
    """
    drawn = random.Random(0)

    def odd(*_: object) -> bool:
        return drawn.random() < 1 / 2

    def anywhere(_: Balance, num_groups: Sequence[int], partition: Partition, *__: object) -> Recut | None:
        dimension = cut_dimension(num_groups, partition.chunks)
        if dimension is None or odd():
            return None
        groups = num_groups[dimension]
        inner = drawn.sample(range(1, groups), len(partition.chunks) - 1)
        return Recut((0, *sorted(inner), groups), inf, inf)

    def weigh(*_: object) -> bool:
        return drawn.random() < 1 / 3

    def take_other(counts: Any, account: Any) -> bool:
        return odd() and counts.take(account, drawn.randint(1, len(counts._options.workers)))

    def stake_of(*arguments: Any, **options: Any) -> regret.Stake | None:
        found = regret.stake_of(*arguments, **options)
        return None if found is None else replace(found, exchanges=True)

    with (
        mock.patch.dict(Session.__init__.__kwdefaults__, gather=None),
        mock.patch.object(vdev.session.core, "can_choose", return_value=True),
        mock.patch.object(vdev.session.choosing, "stake_of", stake_of),
        mock.patch.object(vdev.session.split_plans, "stake_of", stake_of),
        mock.patch.object(Balance, "find", anywhere),
        mock.patch.multiple(Balance, elsewhere=odd, wants=odd, wants_sample=odd, measured=odd, spend=odd),
        mock.patch.object(WorkerCounts, "take_other", take_other),
        mock.patch.object(SplitLaunches, "exchanges_lose", weigh),
        mock.patch.object(Choosing, "_weigh_kept", weigh),
    ):
        yield


def main() -> None:
    sys.argv = sys.argv[1:]
    ways: AbstractContextManager[None] = nullcontext()
    if sys.argv[0] == "--changing":
        sys.argv = sys.argv[1:]
        ways = changing()
    large = next(each for each in fields(links.LinkCosts) if each.name == "large_nbytes")
    with (
        ways,
        mock.patch.object(vdev.start.workers, "opener", far),
        mock.patch.object(merges, "SHARED_NBYTES", 0),
        mock.patch.object(large, "default", 1),
    ):
        assert links.LinkCosts.uniform(1).large_nbytes == 1
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
