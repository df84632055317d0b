"""What workers record of their work, on reference workers: every step has its time, and what failed is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from tests.pure.machine import KERNELS, Machine
from tests.pure.test_session_failures import Program, ended
from vdev.backends.reference import Faults
from vdev.observe.figures import Moved, Times
from vdev.observe.recorder import CommandRecord, Recorder, Shape
from vdev.observe.tallies import add_route
from vdev.observe.timeline import Run, Slice, Timeline
from vdev.observe.watch import Watch
from vdev.planner.instructions import HOST, Plan

NITEMS, WORKERS = 1024, 3
AXPY, SCATTER, COUNT = (
    next(kernel for kernel in KERNELS if kernel.name == name) for name in ("axpy", "scatter", "count")
)


class Watched:
    """A machine whose commands are recorded, and their slices."""

    def __init__(self, *, exact: bool, faults: dict[int, Faults] | None = None) -> None:
        self.machine = Machine(WORKERS, faults)
        self.moved = Moved()
        self.times = Times()
        self.slices: list[Slice] = []
        self.held_nbytes: dict[int, int] = {}
        self.kept: list[object] = []  #: until the work is done
        executor = self.machine.executor
        self.recorder = Recorder(executor.record(exact=exact), lambda recorder, until: None)
        self.recorder.queues[1] = True
        plans: dict[Any, Plan] = {}
        prepare, submit = executor.prepare, executor.submit

        def watched_prepare(plan: Plan, recipe: Any = None) -> Any:
            prepared = prepare(plan, recipe)
            plans[prepared] = plan
            return prepared

        def watched_submit(prepared: Any, *args: Any, **rest: Any) -> int:
            number = submit(prepared, *args, **rest)
            if prepared in plans:
                plan = plans[prepared]
                for route in plan.moved:
                    add_route(self.moved, *route)
                shape = Shape("command", self.times, plan)
                self.recorder.commands.append((number, number, number + 1, 1, 1, shape))
            return number

        executor.prepare, executor.submit = watched_prepare, watched_submit  # type: ignore[method-assign]

    # the sink

    def planned(self, started: int, ended: int, thread: int, name: str) -> None:
        raise AssertionError("plans are made elsewhere")

    def performed(self, command: CommandRecord, slices: Sequence[Slice]) -> None:
        self.slices += slices

    def performed_run(self, run: Run) -> None:
        for worker, starts, ends, shared in run.workers:
            rows = zip(run.which, starts.tolist(), ends.tolist(), shared.tolist(), strict=True)
            self.slices += [(run.shapes[which].steps[worker][0], *rest) for which, *rest in rows]

    def held(self, time: int, worker: int, nbytes: int) -> None:
        self.held_nbytes[worker] = nbytes

    def written(self) -> None:
        self.slices.sort(key=lambda item: item[1])

    def finish(self) -> None:
        """Wait for the work, and work it out."""
        self.machine.executor.quiesce()  # however long it takes: `close` leaves behind what takes longer
        self.machine.executor.close()
        Timeline([self]).take(self.recorder, until=self.machine.executor.last_number)

    @property
    def counted(self) -> Moved:
        counters = self.machine.executor.counters()
        return Moved(
            sum(counter.from_host for counter in counters),
            sum(counter.from_peer for counter in counters),
            sum(counter.to_host for counter in counters),
        )

    @property
    def undone(self) -> Moved:
        found = Moved()
        for (source, target), nbytes in self.machine.executor.undone_nbytes.items():
            add_route(found, source, target, nbytes)
        return found


def play(watched: Watched, *, profiled: bool = False) -> None:
    """Launches that move, merge and do neither, with transfers between. The buffers stay until the work is done: a
    reference worker frees memory by an operation, which no command counts.
    """
    machine = watched.machine
    a, b, out = (machine.buffer(NITEMS * 4) for _ in range(3))
    bins = machine.buffer(64)
    watched.kept += [a, b, out, bins]
    for buffer in (a, b):
        machine.write(buffer, np.arange(NITEMS, dtype=np.uint32), profiled=profiled)
    machine.fill(bins, 0, 64, b"\0\0\0\0", profiled=profiled)
    with ExitStack() as held:  # they find a row of launches, however slow it was in coming
        for number in range(WORKERS):
            held.enter_context(machine.executor.worker(number).turn)
        for _ in range(100):
            machine.launch(AXPY, [out, a, b], NITEMS, profiled=profiled)
    machine.launch(SCATTER, [b], NITEMS, profiled=profiled)
    machine.launch(COUNT, [bins, b], NITEMS, profiled=profiled)
    machine.launch(AXPY, [out, a, b], NITEMS, profiled=profiled)
    machine.read(out, np.empty(NITEMS, np.uint32), profiled=profiled)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("profiled", [False, True])
def test_every_step_has_its_time(exact: bool, profiled: bool) -> None:
    watched = Watched(exact=exact)
    play(watched, profiled=profiled)
    watched.finish()
    counters = watched.machine.executor.counters()
    by_worker: dict[int, list[Slice]] = defaultdict(list)
    for item in watched.slices:
        by_worker[item[0].worker].append(item)
    for number, counter in enumerate(counters):
        kernels = [item for item in by_worker[number] if item[0].kind == "kernel"]
        assert len(kernels) == counter.launches == 103
        assert watched.held_nbytes[number] == counter.allocated_nbytes
    for items in by_worker.values():
        ends = [start for _, start, _, _ in items[1:]]
        assert all(end <= following for (_, _, end, _), following in zip(items, ends, strict=False))
    assert any(item[3] for item in watched.slices) == (not exact and not profiled)
    moved = sum(item[0].nbytes for item in watched.slices if item[0].kind == "transfer")
    assert moved == watched.moved.nbytes == watched.counted.nbytes
    kinds = {(item[0].worker == HOST, item[0].kind) for item in watched.slices}
    assert {(True, "merge"), (True, "host"), (False, "transfer"), (False, "kernel")} <= kinds
    for kind in ("kernel", "transfer", "merge", "host", "device"):
        took = sum(end - start for step, start, end, _ in watched.slices if step.kind == kind)
        assert getattr(watched.times, f"{kind}_ns") == took
    assert watched.times.kernel_ns > 0
    assert watched.undone == Moved()


@pytest.mark.parametrize("operation", range(0, 12, 2))
@pytest.mark.parametrize("exact", [False, True])
def test_what_failed_is_told_apart(operation: int, exact: bool) -> None:
    """An operation that is refused: what was planned is what was counted and what is known to be undone."""
    watched = Watched(exact=exact, faults={1: Faults(refuse={operation: -5})})
    machine = watched.machine
    a, b, out = (machine.buffer(NITEMS * 4) for _ in range(3))
    host = np.arange(NITEMS, dtype=np.uint32)
    for _ in range(3):
        for buffer in (a, b):
            machine.repair([a, b, out])
            machine.write(buffer, host)
        machine.repair([a, b, out])
        machine.launch(AXPY, [out, a, b], NITEMS).wait()
        machine.repair([a, b, out])
        machine.launch(SCATTER, [out], NITEMS).wait()
    watched.finish()
    counted, undone = watched.counted, watched.undone
    counted.include(undone)
    assert watched.moved == counted


def test_without_a_recorder_nothing_is_kept() -> None:
    with Machine(2) as machine:
        assert all(worker.records is None for worker in machine.executor.all_workers)
        assert all(backend.timed_from_ns is None for backend in machine.backends)


def test_what_has_ended_is_worked_out_though_some_worker_gets_nothing_more() -> None:
    """Otherwise all commands of a long run would be kept until its end."""
    with Program(2) as program:
        watch = Watch("-", None)
        watch.begin(program.session)
        try:
            buffers = [program.buffer(number) for number in range(2)]  # at home
            for _ in range(8):
                program.launch(*buffers)
            assert ended(program.launch(*buffers)) == 0
            program.session.executor.quiesce()
            recorder = program.session.recorder
            assert recorder is not None
            recorder.take()
            assert not recorder.commands
            assert not watch._timeline._pending
            assert recorder.history is not None
            assert recorder.history.past().commands == 11
        finally:
            watch._session = None  # no report at the end of the tests
