"""An executor for simulated machines: the thread that submits does all work itself, always in the same order.

Workers' threads open and close their back ends, and do nothing in between. What a simulated machine takes then depends on the
program alone, and not on which of several threads was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest

from vdev.backends.base import Backend
from vdev.executor import executor
from vdev.executor.executor import Executor
from vdev.executor.prepare import PreparedPlan
from vdev.executor.worker import Worker
from vdev.executor.worker_progress import Entry
from vdev.process.finalisers import enter_own_thread, leave_own_thread


class _Worker(Worker):
    """Its thread sleeps from when the back end is open until that is to be closed."""

    def wake(self) -> None:
        if self.stopping:
            super().wake()

    def _main(self, open_backend: Callable[[], Backend]) -> None:
        try:
            self.backend = open_backend()
        except Exception as error:
            self.failure = error
            return
        finally:
            self.asleep = True
            self.opened.set()
        enter_own_thread()
        self._gate.acquire()
        self._close()
        leave_own_thread()


class OneThreadExecutor(Executor):
    """Commands are performed when they are submitted, as far as devices let them."""

    def __init__(self, openers: Sequence[Callable[[], Backend]]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(executor, "Worker", _Worker)
            super().__init__(openers)

    def submit(self, prepared: PreparedPlan, *args: Any, **rest: Any) -> int:
        number = super().submit(prepared, *args, **rest)
        if any(worker.queue for worker in self.all_workers):
            self._perform_queued()
        for worker in self.all_workers:
            worker.poll()
        return number

    def _perform_queued(self) -> None:
        """A step of each worker in turn, where what it waits for has been handed over."""
        for worker in self.all_workers:
            assert worker.take_turn()
        try:
            running: dict[int, tuple[Entry, Generator[None, None, None]]] = {}
            while running or any(worker.queue for worker in self.all_workers):
                for worker in self.all_workers:
                    if worker.number not in running and worker.queue:
                        entry = worker.queue.popleft()
                        running[worker.number] = entry, worker.stepwise(entry)
                ready = [number for number, (entry, _) in running.items() if self._is_ready(number, entry)]
                assert ready, "steps that wait for each other"
                for number in ready:
                    if next(running[number][1], running) is running:
                        del running[number]
        finally:
            for worker in self.all_workers:
                worker.give_turn()

    def _is_ready(self, number: int, entry: Entry) -> bool:
        """Whether the next step of an entry has to wait for none that is still to be handed over."""
        job, batch, first, waits = entry
        index = max(self.worker(number).issued - first, 0)
        if index >= len(batch.steps):
            return True
        needed = [(other, job.bases[other] + step + 1) for other, step in batch.waits[index]]
        needed += [(other, step) for at, other, step in waits or () if at <= batch.rows[index]]
        return all(self.worker(other).issued >= step for other, step in needed)
