"""The executor: hands the steps of submitted plans to their workers, in order, and carries failures to
everything they concern.

Decides which earlier steps a step has to wait for, and when a command is complete or has failed. It never
decides what moves or where a kernel runs: that is in the plan. Submissions come in the order in which they
were planned, and never wait for a device.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeVar

from vdev.backends.base import (
    Backend,
    BackendProgram,
    BuildResult,
    Bytes,
    Counters,
    Merging,
    WorkerInfo,
)
from vdev.errors import OUT_OF_RESOURCES, BackendError
from vdev.executor.calling_thread import drained, idle_workers, never_waits, perform_here
from vdev.executor.compiled_plan import Given, submit_compiled
from vdev.executor.completion import COMPLETE, Completion
from vdev.executor.failures import Failures
from vdev.executor.forks import hold_workers
from vdev.executor.hazards import Hazards
from vdev.executor.holdings import Damage, Holdings, Steps
from vdev.executor.host import HostBackend
from vdev.executor.job import Job
from vdev.executor.launch_step import LaunchRecipe
from vdev.executor.line import Line
from vdev.executor.mark import Mark
from vdev.executor.prepare import NOTHING, Batch, PreparedPlan
from vdev.executor.records import WorkRecords
from vdev.executor.refilled_plan import submit_refilled
from vdev.executor.step import Step
from vdev.executor.steps import CallStep
from vdev.executor.stretch import Stretch
from vdev.executor.together import Together
from vdev.executor.worker import Worker
from vdev.executor.worker_progress import Waits, WorkerProgress
from vdev.planner.instructions import HOST, Plan
from vdev.process import ending
from vdev.process.beside import compilers
from vdev.process.finalisers import may_wait
from vdev.process.forking import keep_for_ever, renew

if TYPE_CHECKING:
    from vdev.translators.ranges.ndrange import NDRange
    from vdev.translators.ranges.rectangles import Layout

T = TypeVar("T")

#: seconds: engines abandon what is queued when a process ends; what is nearly done may still complete
EXIT_TIMEOUT = 0.15

#: batches queued at one worker above which `throttle` holds the caller back: enough to keep a worker busy
#: while another thread has the interpreter, few enough for what they hold to stay in the cache
QUEUE_LIMIT = 128
#: after one command has waited in vain for workers to become idle, so many do not wait
_WITHOUT_WAITING = 16


class Executor:
    """Workers, one thread each, and one more for host memory. One executor per process is usual."""

    def __init__(self, openers: Sequence[Callable[[], Backend]]) -> None:
        """`openers` are called on their worker's thread. Raises what the first of them that fails raises."""
        count = len(openers)
        self.no_steps = [0] * (count + 1)
        #: held while anything is handed over or settled; reentrant: a collection inside may run a finaliser that submits
        self.lock = threading.RLock()
        self.last_number = 0  #: of the last plan submitted
        #: how often a thread that submits, or waits for commands, had to wait for a device: as good as exact
        self.waits = 0
        #: … and how often it asked for the end of less than a worker had been given
        self.early_waits = 0
        self.unsettled: dict[int, Job] = {}  #: by number: commands that have not ended
        #: by worker: commands that are not complete before its step, as a heap of (step, number, job)
        self.followers: list[list[tuple[int, int, Job]]] = [[] for _ in range(count + 1)]
        self.failures = Failures(self.unsettled)  #: under `lock`
        self.closed = False  #: whether nothing is taken any more
        self.is_holding = False  #: whether a fork is about to come, for which workers step aside
        #: bytes that a plan counted as moved and that were not, by (source, target): their command had failed
        self.undone_nbytes: dict[tuple[int, int], int] = {}
        #: called with each plan that no command asked for, and its number
        self.unasked: Callable[[str, Plan, int, Sequence[Holdings]], None] | None = None
        #: called where a worker has no memory left: gives up what nobody uses at the moment; whether there was anything
        self.let_go: Callable[[], bool] = lambda: False
        self.red_zones = False  #: whether replicas get them
        #: replaced by another object whenever something is submitted after which an earlier launch may not simply be
        #: repeated; with a single worker, launches that move nothing do not count
        self.standing: object = object()
        #: called at the interpreter's exit, when nothing will be done any more
        self.ended: Callable[[], None] | None = None
        self.exit_timeout = EXIT_TIMEOUT  #: seconds that the interpreter's exit waits for work still running
        self._vain = 0  #: how many more commands do not wait for workers to become idle
        self._open(openers)
        #: the direct way to all workers at once for plans that were compiled, where there are such plans
        self.together = Together(self) if self.compiles else None

    def _open(self, openers: Sequence[Callable[[], Backend]]) -> None:
        """Start the workers, and find the ways to them."""
        self._lone = len(openers) == 1
        self.all_workers: tuple[Worker, ...] = tuple(
            Worker(self, number, opener) for number, opener in [*enumerate(openers), (HOST, HostBackend)]
        )
        self._memories = tuple(worker.memory for worker in self.all_workers[:-1])
        self.hazards = Hazards(self.all_workers)
        #: whether anything under way still uses arrays of the host's; under the lock
        self.uses_host = self.hazards.uses_host
        #: the same of anything on a worker other than the one of that number; under the lock
        self.uses_host_elsewhere = self.hazards.uses_host_elsewhere
        #: what a step of a worker's reads or writes of them; under the lock
        self.enter_host = self.hazards.enter_host
        ending.at_end(self._end)
        self._await_workers()
        self._find_lines()

    def _find_lines(self) -> None:
        """Find out which workers any thread may work with, and the direct ways to them."""
        #: whether there is a worker that lets any thread work with it
        self.any_thread = any(worker.backend.any_thread for worker in self.all_workers)
        #: whether plans are compiled into calls of the back ends (`vdev.executor.compiled_plan`)
        self.compiles = not self._lone and all(worker.compiling for worker in self.all_workers[:-1])
        host = self.all_workers[HOST]
        #: by worker: the direct way to it for the threads that submit, if any thread may work with it
        self.lines: tuple[Line | None, ...] = tuple(
            [
                Line(self, worker, host, alone=self._lone) if worker.backend.any_thread else None
                for worker in self.all_workers[:-1]
            ]
        )

    def _await_workers(self) -> None:
        """Wait until all back ends are open, and let any thread work with those that allow it. Raises what has failed first."""
        for worker in self.all_workers:
            worker.opened.wait()
        failed = next((worker.failure for worker in self.all_workers if worker.failure is not None), None)
        if failed is not None:
            self.close()
            raise failed
        together = self._lone or _is_one_company(self.all_workers[:-1])
        for worker in self.all_workers[:-1]:
            if together:
                worker.among_its_own()
            worker.allow_waits()
            worker.marks_by_age = not self._lone and worker.backend.cheap_markers

    # questions ----------------------------------------------------------------------------------

    def worker(self, number: int) -> Worker:
        """The worker of a number; HOST, which is -1, is the last."""
        return self.all_workers[number]

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        return tuple(worker.backend.info for worker in self.all_workers[:-1])

    def counters(self) -> tuple[Counters, ...]:
        """What each worker has moved and launched so far."""
        return tuple(worker.backend.counters for worker in self.all_workers[:-1])

    def record(self, *, exact: bool) -> WorkRecords:
        """Record all work from now on; call it before there is any. `exact`: as for `WorkRecords`."""
        records = WorkRecords(len(self.workers), exact=exact)
        for worker in self.all_workers:
            worker.start_recording(records)
        return records

    def refused(self) -> dict[int, tuple[int, int]]:
        """By each worker that has refused memory: what allocations would have added up to, and the most that they
        ever did.
        """
        return {w.number: w.memory.refused for w in self.all_workers[:-1] if w.memory.refused is not None}

    @property
    def damaged(self) -> bool:
        """Whether a failure left the directory believing too much: call `repair` before planning anything."""
        return self.failures.damaged

    @property
    def has_failed(self) -> bool:
        """Whether any command that concerns a buffer ever has."""
        return self.failures.any

    @property
    def poisons_memory(self) -> bool:
        """Whether workers overwrite memory that they take and give back, so that later use shows."""
        return self.all_workers[0].memory.poisoned

    # work ---------------------------------------------------------------------------------------

    def holdings(
        self, nbytes: int, home: Callable[[], Bytes], *, blank: bool = False, fine: bool = False
    ) -> Holdings:
        """The record of a new buffer; `home`, `blank` and `fine` as in `Holdings`."""
        return Holdings(self._memories, nbytes, home, blank=blank, fine=fine)

    def prepare(self, plan: Plan, recipe: LaunchRecipe | None = None) -> PreparedPlan:
        """`plan` made ready to be submitted any number of times; a launch's with its recipe."""
        return PreparedPlan(plan, recipe)

    def submit(
        self,
        prepared: PreparedPlan,
        holdings: Sequence[Holdings],
        completion: Completion,
        *,
        args: Sequence[Any] = (),
        ndrange: NDRange | None = None,
        places: Sequence[tuple[int, int, int]] = (),
        host: Bytes | None = None,
        layout: Layout | None = None,
        host_writes: bool = False,
        shares_host: bool = True,
        homes: Sequence[int] = (),
        after: Sequence[Completion] = (),
        order: Completion | None = None,
    ) -> int:
        """Hand a command's plan to the workers; its number, for records. Call in the order of planning.

        `holdings` by slot. `args`: the kernel's arguments, with anything in the place of a buffer that the plan gives; of a write from a
        `host` that it does not share, all of that as bytes, and the layout, if it may be compiled.
        `ndrange`, `places`: as in `Job`, if the plan leaves them open. `host`, `layout`: the command's host array (1-D uint8, not
        to be released before completion), which the command changes if `host_writes`, and which nobody else knows unless it
        `shares_host`. `homes`: slots whose home the program will touch by itself after completion (a mapping). `after`:
        completions that must be complete first and whose failure fails this one (-14); `order`: one that this command may not
        overtake, whose failure is its own affair. Both were submitted or are settled.
        """
        may_be_here = self.any_thread and never_waits(self.all_workers, prepared)
        if may_be_here and may_wait():
            self._drain(prepared)
            if self.compiles and prepared.is_compilable and (args or not prepared.uses_host_array):
                given = (args, ndrange, places, after, order)
                if (done := self._submit_as_before(prepared, holdings, completion, given)) is not None:
                    return done.number
        job = Job(self, 0, prepared, holdings, completion)
        job.args, job.ndrange, job.places = args, ndrange, tuple(places)
        if host is not None:
            job.host, job.layout, job.shares_host = host, layout, shares_host
        return self._enqueue(job, after, order, homes, host_writes, may_be_here)

    def _submit_as_before(
        self,
        prepared: PreparedPlan,
        holdings: Sequence[Holdings],
        completion: Completion,
        given: Given,
    ) -> Job | None:
        """Submit a plan that has come before, or one like it with other numbers, as it was compiled; None if it has to be submitted like
        any other: then nothing has happened.
        """
        done = submit_compiled(self, prepared, holdings, completion, given)
        if done is None and prepared.refills is not None:
            done = submit_refilled(self, prepared, holdings, completion, given)
        return done

    def _enqueue(
        self,
        job: Job,
        after: Sequence[Completion],
        order: Completion | None,
        homes: Sequence[int],
        host_writes: bool,
        may_be_here: bool,
    ) -> int:
        """Hand `job` to the workers, or perform it on this thread where `may_be_here` and they are idle; its number. The others as in
        `submit`.
        """
        here: tuple[Worker, ...] | None = None
        with self.lock:
            if self.closed:  # a finaliser at the interpreter's end: nobody is left to do it
                ending.stop_here()
                job.completion.settle(OUT_OF_RESOURCES)
                return 0
            # Counted first: a collection inside may run a finaliser that submits.
            job.number = self.last_number = self.last_number + 1
            job.follow(after, order)
            waits = self.hazards.find(job, homes, host_writes)
            if self._admit(job, waits, host_writes):
                return job.number
            if may_be_here:
                here = idle_workers(self.all_workers, job.prepared, waits)
            self.queue_job(job, waits, wake=here is None)
        if here is not None:  # not under the lock: a worker's thread that is in its turn may want it
            perform_here(self.all_workers, job, here, waits)
        return job.number

    def _drain(self, prepared: PreparedPlan) -> None:
        """Let the workers finish what is queued, so that a plan can be performed on this thread; after a vain wait,
        some commands go without.

        Not under the lock, which the workers' threads may need.
        """
        if self._vain:
            self._vain -= 1
        elif not drained(self.all_workers, prepared):
            self._vain = _WITHOUT_WAITING

    def _admit(self, job: Job, waits: dict[int, Waits] | None, host_writes: bool) -> bool:
        """Under the lock: enter a job among those that are not complete; whether nothing is left to be queued."""
        prepared, completion = job.prepared, job.completion
        if not self._lone or waits or job.after or completion.profiled or not prepared.plain:
            self.standing = object()
        if prepared.batches:
            self.hazards.enter(job, host_writes)
        self.unsettled[job.number] = job
        self.failures.admit(job)
        completion.bind(job)
        if prepared.inline and not waits and self._run_inline(job):
            return True
        if not prepared.batches:
            self.settle((job,))
        return not prepared.batches

    def queue_job(self, job: Job, waits: dict[int, Waits] | None, wake: bool) -> None:
        """Under the lock: put a job's batches into the workers' queues."""
        bases, workers = job.bases, self.all_workers
        for at, batch in job.prepared.batches:
            worker = workers[at]
            worker.queue.append((job, batch, bases[at], waits.get(at) if waits else None))
            if wake and worker.asleep:
                worker.wake()

    def let_arrive(self, host: Bytes) -> None:
        """Before a transfer with an array of the host's is submitted: wait for small reads under way that bring bytes there, since
        nothing else orders them. Outside all locks.
        """
        if not any(worker.arrivals for worker in self.all_workers) or not may_wait():
            return
        with self.lock:
            steps = self.hazards.arriving(host)
        for number, step in steps:
            self.all_workers[number].wait_for(step)

    def submit_empty(
        self, completion: Completion, after: Sequence[Completion] = (), order: Completion | None = None
    ) -> int:
        """A command without work: complete when what it waits for is. Its number, for records."""
        return self.submit(NOTHING, (), completion, after=after, order=order)

    def submit_unasked(
        self,
        kind: str,
        plan: Plan,
        holdings: Sequence[Holdings],
        completion: Completion,
        *,
        recipe: LaunchRecipe | None = None,
        **rest: Any,
    ) -> None:
        """Submit a plan that no command asked for: of `kind` 'evict' or 'check'. `rest` as in `submit`."""
        number = self.submit(self.prepare(plan, recipe), holdings, completion, **rest)
        if self.unasked is not None:
            self.unasked(kind, plan, number, holdings)

    def throttle(self) -> None:
        """Hold the caller back once a worker's queue is long, until all of it is handed over. Call it outside every lock.

        Waking up earlier would leave the queues long for as long as the program submits: its thread and the workers' compete for the
        interpreter, while commands for idle workers take none of their threads.
        """
        for worker in self.all_workers:
            last = worker.submitted
            if len(worker.queue) > QUEUE_LIMIT and not self.closed and not self._on_a_worker():
                worker.marker_at(last)

    def _on_a_worker(self) -> bool:
        """Whether this is one of the threads that must not wait, running a finaliser of the program's."""
        current = threading.current_thread()
        return any(worker.thread is current for worker in self.all_workers)

    def call(self, number: int, function: Callable[[Backend], T]) -> T:
        """`function(back end)` on the worker's thread, after what was submitted to it; its result or
        exception.
        """
        return self._ask(number, function)()

    def _ask(self, number: int, function: Callable[[Backend], T]) -> Callable[[], T]:
        """Submit a call; the function that is returned waits for its result or exception."""
        step = CallStep(function)
        completion = Completion()
        self.submit(_single(number, step), (), completion)

        def answer() -> T:
            if completion.wait() < 0:
                raise BackendError(completion.status, "the executor is closed")
            if step.error is not None:
                raise step.error
            result: T = step.result
            return result

        return answer

    def build(
        self, program: BackendProgram, meanwhile: Callable[[], object] | None = None
    ) -> tuple[BuildResult, ...]:
        """Build on every worker; raises BuildFailure if one of them refuses. `meanwhile` is called while they compile, after all
        that takes Python before.

        All devices build at once. On each of them one worker builds before the others, which then find the program
        built. It is always the same worker: a driver's compiler may keep memory for every thread that ever builds
        (Intel's for the CPU keeps about 29 MB), and the first build on a thread takes longer. What takes no compiler is done on this
        thread, for one device while the others' threads do the same.
        """
        first: dict[tuple[object, ...], int] = {}
        for number, info in enumerate(self.workers):
            first.setdefault(info.device_key, number)
        here, *others = first.values()
        if meanwhile is not None:
            self.all_workers[here].backend.translate(program)
        answers = {number: self._ask(number, lambda backend: backend.build(program)) for number in others}
        found = self._kept(here, program)
        if found is None:
            answers[here] = self._ask(here, lambda backend: backend.build(program))
        if answers and meanwhile is not None:
            meanwhile()
        results = {number: answer() for number, answer in answers.items()}
        if found is not None:
            results[here] = found
        for number in range(len(self.workers)):
            if number not in results:
                found = self._kept(number, program)
                results[number] = found or self.call(number, lambda backend: backend.build(program))
        return tuple([results[number] for number in range(len(self.workers))])

    def begin_preparations(self) -> None:
        """Have done beside the program what workers may need of a compiler for their exchanges with others."""
        if len(self.workers) > 1:
            for worker in self.all_workers[: len(self.workers)]:
                for piece in worker.backend.preparations():
                    compilers.begin(piece)

    def begin_merge_preparations(self, merges: Iterable[Merging]) -> None:
        """The same for what several workers may have to merge."""
        for merging in merges:
            for worker in self.all_workers[: len(self.workers)]:
                for piece in worker.backend.merge_preparations(merging):
                    compilers.begin(piece)

    @property
    def compiles_ahead(self) -> bool:
        """Whether `compile_ahead` does anything, for all workers."""
        return all(worker.backend.compiles_ahead for worker in self.all_workers[: len(self.workers)])

    def compile_ahead(self, program: BackendProgram) -> None:
        """Have compilers at a program that will be built soon, which takes none then. No worker is held up meanwhile. On any thread;
        raises BuildFailure if one of them refuses.
        """
        for worker in self.all_workers[: len(self.workers)]:
            worker.backend.compile_ahead(program)

    def _kept(self, number: int, program: BackendProgram) -> BuildResult | None:
        """A program built on this thread, if that takes no compiler and nobody is busy with the worker; None otherwise."""
        worker = self.all_workers[number]
        if self.closed or not worker.backend.any_thread or not may_wait() or not worker.take_turn():
            return None
        try:
            worker.backend.enter()
            return worker.backend.kept(program)
        finally:
            worker.give_turn(issued=False)

    def quiesce(self) -> None:
        """Return when everything submitted so far is complete."""
        for worker in self.all_workers:
            worker.wait_for(worker.submitted)

    def ended_up_to(self) -> int:
        """Commands up to this number have ended, as far as anybody has looked, or never will."""
        with self.lock:
            return min(self.unsettled, default=self.last_number + 1) - 1

    def repair(self) -> list[tuple[Holdings, Damage]]:
        """After failures: wait until everything has settled; for each affected buffer, where the directory believes
        too much.
        """
        self.quiesce()
        with self.lock:
            return self.failures.take_damage()  # whoever owns the directory applies `repaired` to each

    def close(self, timeout: float | None = None) -> None:
        """End the workers once they have done what they were given.

        Those that hang are left behind after `timeout` seconds in all; by default after `exit_timeout`.
        """
        with self.lock:
            if self.closed:
                return
            self.closed, self.standing = True, object()
        deadline = time.monotonic() + (self.exit_timeout if timeout is None else timeout)
        for worker in self.all_workers:
            worker.stopping = True
            worker.wake()
        for worker in self.all_workers:
            worker.thread.join(max(0.0, deadline - time.monotonic()))
        if not self._left():
            ending.not_at_end(self._end)
            self._give_back_memory()

    def _give_back_memory(self) -> None:
        """Once all workers have ended, and unless another thread is kept inside one: what it holds is left to the engines."""
        opened = [worker for worker in self.all_workers if worker.failure is None]
        taken = [worker for worker in opened if worker.turn.acquire(blocking=False)]
        if len(taken) == len(opened):
            for worker in opened:
                worker.backend.give_back()
        for worker in taken:
            worker.turn.release()

    def _left(self) -> bool:
        return any(worker.thread.is_alive() for worker in self.all_workers)

    def _end(self) -> None:
        """At the interpreter's exit: close, and leave behind what does not end."""
        ending.give_up()
        self.close()
        if self.ended is not None:
            self.ended()
        if not self._left():
            return
        # Threads may hold these for good.
        self.lock = threading.RLock()
        for worker in self.all_workers:
            worker.lock = threading.RLock()
        for job in list(self.unsettled.values()):
            job.abandon(OUT_OF_RESOURCES)
        ending.leave_behind(self)

    # around a fork ------------------------------------------------------------------------------

    def hold(self) -> Callable[[], None]:
        """Keep all threads out of the back ends for a fork; returns a function that lets them go on."""
        self.is_holding = True
        let_go = hold_workers(self.all_workers)

        def go_on() -> None:
            self.is_holding = False
            let_go()

        return go_on

    def lose(self) -> None:
        """In a forked child: there are no threads, and nothing will ever be done."""
        keep_for_ever(self)
        self.closed, self.last_number, self.standing = True, -1, object()
        for lock in (
            self.lock,
            *(lock for worker in self.all_workers for lock in (worker.turn, worker.lock)),
        ):
            renew(lock)
        for job in list(self.unsettled.values()):
            job.abandon(OUT_OF_RESOURCES)
        ending.leave_behind(self)

    def have_ended(self, steps: Steps) -> bool:
        """Whether these steps, by worker, are known to be complete."""
        workers = self.all_workers
        for number in steps:  # noqa: SIM110 (mostly there are none, or one: a generator takes longer than the rest)
            if workers[number].completed < steps[number]:
                return False
        return True

    def _run_inline(self, job: Job) -> bool:
        """Do a little host work on this thread, if the host's worker is idle: handing it over costs more."""
        host = self.all_workers[HOST]
        if host.completed != job.bases[HOST] or job.completion.profiled or not job.prepared.batches:
            return False
        completion, records = job.completion, host.records
        for index, step in enumerate(job.prepared.batches[0][1].steps):
            if completion.error is not None and not step.coherent:
                self.undone(HOST, step)
                continue
            started = 0 if records is None else time.perf_counter_ns()
            try:
                step.run(host, job)
            except Exception as error:  # the command's failure, as on the thread
                self.undone(HOST, step)
                self.step_failed(job, step, error)
            if records is not None:
                records.steps[HOST].append((job.number, index, 0, started, time.perf_counter_ns()))
        with host.lock:
            host.completed = host.marked = host.issued = job.clock[HOST]
            if records is not None:
                records.marks[HOST].append(((job.number,), (), (), None))
        host.serve()  # a thread that waits for the command may have seen it since it was bound
        self.settle((job,))
        return True

    # ends ---------------------------------------------------------------------------------------

    def undone(self, number: int, step: Step) -> None:
        """Worker `number` did not perform a step, or not completely, because its command failed."""
        for source, target, nbytes in step.moves(number):
            with self.lock:
                found = self.undone_nbytes.get((source, target), 0)
                self.undone_nbytes[source, target] = found + nbytes

    def has_done_all(self, number: int) -> None:
        """The devices have done all that they were given up to the command of that number."""
        if self.together is not None:
            self.together.done = number

    def step_failed(self, job: Job, step: Step, error: Exception) -> None:
        """A step could not be handed over."""
        with self.lock:
            self._stand_alone()
            self.failures.step_failed(job, step, error)

    def work_failed(self, mark: Mark, error: BackendError) -> None:
        """Work behind `mark` failed on a device, and coherent steps there did not do what they should have."""
        with self.lock:
            self._stand_alone()
            self.failures.work_failed(*mark.concerned(error), error)

    def admit_each(self, stretch: Stretch) -> None:
        """What has failed was not known when the commands of a stretch were made: fail those that it concerns."""
        with self.lock:
            self._stand_alone()
            for job in stretch.parts or ():
                self.failures.admit(job)

    def _stand_alone(self) -> None:
        """Before a failure spreads: turn stretches into separate commands, and let nothing more be handed over as if
        all were well. Under the lock.
        """
        self.standing = object()
        if any(job.successors is None and type(job) is not Job for job in self.unsettled.values()):
            jobs = [each for job in self.unsettled.values() for each in job.one_by_one()]
            self.unsettled.clear()
            self.unsettled.update((job.number, job) for job in jobs)

    def settle(self, jobs: Iterable[Job], worker: WorkerProgress | None = None) -> None:
        """Settle those of `jobs` that are complete, and those that waited for no more than `worker`."""
        ended: list[Job] = []
        with self.lock:
            self._settle_locked(jobs, ended)
            if worker is not None:
                followers = self.followers[worker.number]
                while followers and followers[0][0] <= worker.completed:
                    job = heappop(followers)[2]
                    job.follows = False
                    self._settle_locked((job,), ended)
        # Not under the lock: a command may have kept objects of the program's alive, with finalisers that submit.
        for job in ended:
            job.let_go()

    def _settle_locked(self, jobs: Iterable[Job], ended: list[Job]) -> None:
        workers, unsettled = self.all_workers, self.unsettled
        for job in jobs:
            if job.successors is not None:
                self._settle_locked(job.successors, ended)
                if not any(part.number in unsettled for part in job.successors):
                    job.completion.settle(COMPLETE)
                continue
            if job.number not in unsettled:
                continue
            for number, step in enumerate(job.clock):
                if workers[number].completed < step:
                    if not job.follows:  # look again when that worker has got so far
                        job.follows = True
                        heappush(self.followers[number], (step, job.number, job))
                    break
            else:
                for each in self._behind_others(job):
                    del unsettled[each.number]
                    completion = each.completion
                    if completion.profiled:
                        _take_times(each)
                    if completion.error is not None:
                        self.failures.ended(each)
                    each.settle()
                    ended.append(each)

    def _behind_others(self, job: Job) -> Sequence[Job]:
        """`job`, which is complete, behind those that have to be settled before it.

        Callbacks are called in the order in which commands are settled: that in which they were submitted, whichever thread
        has learnt first that one is complete.
        """
        if job.is_awaited:
            return [*self._complete_jobs(job.number), job]
        return self._with_predecessors(job) if job.completion.profiled else (job,)

    def _complete_jobs(self, end: int) -> list[Job]:
        """Commands with smaller numbers than `end` that are complete and not settled, in their order. Under the lock."""
        workers, found = self.all_workers, []
        for number, job in self.unsettled.items():
            if number >= end:
                break
            if job.successors is None and all(
                worker.completed >= step for worker, step in zip(workers, job.clock, strict=True)
            ):
                found.append(job)
        return found

    def settle_complete(self) -> None:
        """Settle all commands that are complete, in their order: somebody asks to be called for one that has been settled."""
        with self.lock:
            jobs = self._complete_jobs(self.last_number + 1)
        self.settle(jobs)

    def _with_predecessors(self, job: Job) -> Sequence[Job]:
        """`job`, which is complete, behind the commands that it waited for and whose end nobody has looked at yet.

        They are complete as well, since its clock includes theirs; its own times are counted from their end.
        """
        if job.order is None and not job.after:
            return (job,)
        found, ahead = {job.number: job}, [job]
        while ahead:
            for earlier in ahead.pop().predecessors():
                progress = earlier.progress
                # One without times may have grown since: a run or a stretch.
                if (
                    isinstance(progress, Job)
                    and progress.completion.profiled
                    and progress.number in self.unsettled
                    and progress.number not in found
                ):
                    found[progress.number] = progress
                    ahead.append(progress)
        return [found[number] for number in sorted(found)]


def _is_one_company(workers: Sequence[Worker]) -> bool:
    """Whether they wait for one another only on the device."""
    companies = {worker.backend.company for worker in workers}
    return len(companies) == 1 and None not in companies


def _take_times(job: Job) -> None:
    for marker in job.markers:
        times = marker.times()
        if times is not None:
            job.completion.spans.append((times[2], times[3]))
    if job.order is None and not job.after:
        return
    ends = [times[3] for earlier in job.predecessors() if (times := earlier.times) is not None]
    job.completion.not_before_ns = max(ends, default=0)


def _single(number: int, step: Step) -> PreparedPlan:
    prepared = PreparedPlan(Plan((), (), (), ()), None)
    prepared.batches = ((number, Batch((step,), ((),), (True,))),)
    prepared.careful, prepared.inline = True, False
    return prepared
