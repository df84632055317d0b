"""Launches that need no plan of their own: on one worker that holds all their buffers whole.

Decides which launches these are: those of a session with only one worker, and those whose buffers are kept on one.
The kernel is not analysed, and scalars, index space and offsets in buffers do not matter: what has to move depends
only on the buffers' states, and if all of them are on the worker, all launches of a kernel share one plan. Launches
are left to plans made from access ranges if one worker's memory cannot hold their buffers, if a failure has affected
these, or if the host may use one at any time without sharing memory with the worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from vdev.executor.executor import Executor
from vdev.executor.launch_step import LaunchRecipe
from vdev.observe.recorder import Shape
from vdev.observe.tallies import KernelTally, count_plan
from vdev.planner.directory import BufferState
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.planner.whole import plan_whole
from vdev.session.buffers import Occupancy, VirtualBuffer
from vdev.session.capabilities import shares_host_memory
from vdev.session.commands import BufferArg, Launch
from vdev.session.launch_plans import PRESUMED, THRIFTY, CachedPlan, LaunchCache
from vdev.session.making_plans import keep
from vdev.session.programs import SessionKernel
from vdev.session.requests import hidden_packer, pointer_args

ONE_WORKER = (
    "one worker needs no plan: it holds its buffers whole, and the kernel's accesses are not analysed"
)

Found = tuple[CachedPlan, list[VirtualBuffer]]


class DirectLaunches:
    """The direct launches of one session. Under its lock."""

    def __init__(
        self,
        executor: Executor,
        occupancy: Occupancy,
        links: LinkCosts,
        observers: Sequence[object],
        planned: Callable[[KernelTally, str, int], None],
        keeper: Callable[[Sequence[VirtualBuffer], KernelTally, Launch], int | None],
        shape: Callable[[KernelTally, Plan], Shape | None],
        fold: Callable[[Sequence[VirtualBuffer]], None],
    ) -> None:
        """`observers`: if there are any, each launch has a plan that says what it does. `planned`: told of planning,
        like `Session._planned`.

        `keeper`: gives the worker on which a launch of a kernel on some buffers runs without a plan, None for none; asked if there are
        several workers. `shape`: of a plan, for the recorder, if there is one. `fold`: folds everything pending of some buffers.
        """
        self._executor = executor
        self._room = occupancy.room
        self._links = links
        self._observers = observers
        self._planned = planned
        self._keeper = keeper
        self._shape = shape
        self._fold = fold
        #: the only worker; None where launches are direct only if their buffers are kept
        self._only = 0 if len(executor.workers) == 1 else None
        self._in_place = [shares_host_memory(info) for info in executor.workers]

    def find(self, cache: LaunchCache, launch: Launch) -> Found | None:
        """The plan of a launch and its buffers by slot; None if it takes a plan made from access ranges."""
        if launch.shared:
            return None
        buffers: list[VirtualBuffer] = []
        places: list[tuple[int, int, int]] = []
        for index in cache.pointers:
            arg = launch.args[index]
            if type(arg) is not BufferArg:
                continue
            buffer = arg.buffer
            if buffer in buffers:
                places.append((index, buffers.index(buffer), arg.offset))
                continue
            if buffer.holdings.failure is not None:
                return None
            places.append((index, len(buffers), arg.offset))
            buffers.append(buffer)
        worker = self._only
        if worker is None:
            worker = self._keeper(buffers, cache.tally, launch)
        if worker is None or (worker and launch.kernel.stays):  # the planner has those on the first one
            return None
        launch.places = places
        if not self._observers and all(buffer.state.resident == worker for buffer in buffers):
            found = cache.resident.get((worker, len(buffers)))
            if found is not None:
                return found, buffers
        return self._placed(cache, launch, worker, buffers)

    def _placed(
        self, cache: LaunchCache, launch: Launch, worker: int, buffers: list[VirtualBuffer]
    ) -> Found | None:
        """The same when something has to move first, or no launch has been planned yet."""
        if any(buffer.state.pending for buffer in buffers):
            self._fold(buffers)
        states = tuple([buffer.state for buffer in buffers])
        key = (worker, states, launch.ndrange if self._observers else None)
        found = cache.placed.get(key)
        if found is None:
            at_home = [slot for slot, state in enumerate(states) if state.fine]
            if (at_home and not self._in_place[worker]) or 0 in launch.ndrange.global_size:
                return None
            if sum(state.nbytes for state in states) > self._room[worker]:
                return None
            found = self._made(cache, launch, worker, buffers, states, at_home)
            cache.place(key, found)
        if found.steady and not self._observers:
            cache.resident[worker, len(buffers)] = found
        return found, buffers

    def _made(
        self,
        cache: LaunchCache,
        launch: Launch,
        worker: int,
        buffers: Sequence[VirtualBuffer],
        states: tuple[BufferState, ...],
        at_home: Sequence[int],
    ) -> CachedPlan:
        started = time.perf_counter_ns()
        kernel = launch.kernel
        pointers = pointer_args(launch, buffers)
        kept = self._only is None
        reasons = (_why(buffers) if kept else ONE_WORKER,)
        plan = plan_whole(states, pointers, worker, launch.ndrange, self._links, reasons, at_home)
        if kept:
            plan = keep(plan, worker, self._links, small=True)
        recipe = LaunchRecipe(
            kernel.program.native, kernel.name, None, hidden_packer(kernel.subgrid), _narrowed(kernel)
        )
        prepared = self._executor.prepare(plan, recipe)
        available = len(self._executor.workers)
        counted = count_plan(cache.tally, kernel, launch.ndrange, pointers, plan, None, available)
        # In place, nothing is resident: the next launch may have other buffers to use in that way.
        steady = plan.states == states and not at_home
        found = CachedPlan(
            plan, prepared, plan.states, *counted, steady, self._shape(cache.tally, plan), direct=True
        )
        self._planned(cache.tally, f"plan {kernel.name}", started)
        return found


def _why(buffers: Sequence[VirtualBuffer]) -> str:
    """Why launches on these buffers are kept on one of several workers."""
    presumed = any(account.presumed for buffer in buffers if (account := buffer.account) is not None)
    return PRESUMED if presumed else THRIFTY


def _narrowed(
    kernel: SessionKernel,
) -> Callable[[Sequence[tuple[int, int, int]]], tuple[Sequence[int], Sequence[int]]]:
    """Which slots a launch at given places reads and may change, from an analysis that is made at the first request:
    only failures ask.
    """

    def narrow(places: Sequence[tuple[int, int, int]]) -> tuple[Sequence[int], Sequence[int]]:
        every = {slot for _, slot, _ in places}
        if kernel.summary is None:
            return sorted(every), sorted(every)
        modes = {(access.arg, access.mode) for access in kernel.summary.accesses}
        read = {slot for arg, slot, _ in places if (arg, "read") in modes or (arg, "atomic") in modes}
        written = {slot for arg, slot, _ in places if (arg, "write") in modes or (arg, "atomic") in modes}
        return sorted(read), sorted(written)

    return narrow
