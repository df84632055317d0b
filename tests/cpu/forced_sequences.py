"""Random sequences of commands on several workers with every way of running launches forced in turn, compared with one worker:

    python -m tests.cpu.forced_sequences --workers cpu:3 --jobs 2 --seconds 60 --json forced.json
    python -m tests.cpu.forced_sequences --workers cuda:0,1 --jobs 8 --seconds 540 --json forced.json

Launches are cut in every way in turn, whatever that costs, over all workers or fewer, or as usual, and then plans are filled in where
launches differ in their numbers only; buffers are kept on one worker and let
go again, in the middle of sequences; in some, chunks begin before all of their bytes have come;
reductions stay pending or are merged at once; what chunks certainly write is trusted or
compared with a twin; in some sequences, ranges of two boxes are widened and buffers that lie in three are brought together. All
reads, and all buffers at the end, must have the bytes that one worker of the same kind gives for the same commands, and what is
known of the buffers in between must be possible.

A sequence depends on its seed alone. With `--json FILE` a run begins with the seed after the last one in the file, and is added
to it. A process that dies is a failure of the sequence at hand, and another one goes on after that. The exit status is 0 if
nothing differed.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from tests.cpu.random_commands import SOURCE, Commands
from tests.pure.forced_cuts import CutsInTurn
from vdev.backends.cuda import backend, compiling, host_copies
from vdev.executor import merge_steps
from vdev.executor.completion import Completion
from vdev.planner import builder, merges, placement, tidying, views
from vdev.planner.directory import check, kept_on
from vdev.planner.habits import Habits
from vdev.process.switches import parse_workers
from vdev.session import filling
from vdev.session.commands import BufferArg, Command, CopyBuffer, Fill, Launch, Map, Read, Unmap, Write
from vdev.session.filling import Forms
from vdev.session.interiors import Interiors
from vdev.session.ordering import UserCompletion
from vdev.session.session import Session, VirtualBuffer
from vdev.start.workers import open_workers

#: from how many bytes on a buffer is large for workers that the host reaches over links of their own
_LARGE_NBYTES = 512
#: the part of all sequences that is run with low limits of tidying, and these by module: any range of two boxes or more is
#: widened, any buffer of three or more is brought together, or what workers have copied of it is joined where nothing was
#: written, and plans are made on views of buffers in few boxes, too
_TIDIED = 0.3
_LOW_LIMITS = (
    (tidying, {"MOST_BOXES": 1, "RUN_NBYTES": 1 << 20, "KEPT_BOXES": 1}),
    (tidying, {"MOST_HELD": 2, "HELD_EACH": 0, "HELD_FRESH": 0, "UNWRITTEN": 1 << 20, "CUT_EACH": 1.0}),
    (tidying, {"MOST_COPIES": 0, "FEW_COPIES": 0, "MARGIN": 0.5}),
    (views, {"MOST_BOXES": 1, "FEW_BOXES": 0, "WORTH": 0}),
    (builder, {"FEW_ENTRIES": 0}),
)  # fmt: skip
#: the part of all sequences in which small buffers are merged, folded, divided and copied in pieces, as large ones are, and these limits
_IN_PIECES = 0.3
_SMALL_PIECES = (
    (merges, {"SHARED_NBYTES": 0}),
    (placement, {"GRANULE": 64}),
    (merge_steps, {"FOLD_NBYTES": 96}),
    (backend, {"FETCHED_NBYTES": 400, "_LONG_ROW": 9}),
    (compiling, {"FETCHED_NBYTES": 400}),
    (host_copies, {"AT_ONCE_NBYTES": 50, "DIRECT_NBYTES": 100, "_PACKED_NBYTES": 200, "_LEAST_PACKED_NBYTES": 50}),
)  # fmt: skip
#: the part of all sequences whose launches are cut as usual: only then are plans filled in with other numbers, or made in views
_USUAL = 0.3
#: and of sequences in which chunks begin before all of their bytes have come, wherever they can
_DIVIDED = 0.5
#: the part of them in which commands wait for events of the host's
_HOLDING = 0.15
#: seconds after which a process that says nothing is ended
_SILENCE = 90.0
#: seeds that a process takes at a time, and sequences after which it is replaced: compilers and caches keep what they made
_BATCH, _REPLACED = 20, 4000


class Different(AssertionError):
    """The workers do not give what one of them gives."""


@contextmanager
def with_limits(found: Sequence[tuple[ModuleType, dict[str, Any]]]) -> Iterator[None]:
    """Other limits, by module."""
    with ExitStack() as stack:
        for module, limits in found:
            stack.enter_context(mock.patch.multiple(module, **limits))
        yield


@contextmanager
def low_limits() -> Iterator[tuple[mock.Mock, mock.Mock]]:
    """Plans that are made meanwhile widen, bring together and join whatever they can: what this gives is called for the latter
    two.
    """
    with ExitStack() as stack:
        stack.enter_context(with_limits(_LOW_LIMITS))
        together = mock.patch.object(tidying, "bring_together", wraps=tidying.bring_together)
        joined = mock.patch.object(tidying, "join_copies", wraps=tidying.join_copies)
        yield stack.enter_context(together), stack.enter_context(joined)


@contextmanager
def traced_at_once() -> Iterator[None]:
    """Launches that are alike but for their numbers are traced from the second one on."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(filling, MOST_PLANNED=0, MOST_AT_FIRST=1 << 30))
        for name in ("_Kind", "_Pattern"):
            made = partial(getattr(filling, name), most_planned=0)
            stack.enter_context(mock.patch.object(filling, name, made))
        yield


def _check_states(buffers: Sequence[VirtualBuffer]) -> None:
    """What the directory says must be possible: it may be wrong long before a byte is."""
    for number, buffer in enumerate(buffers):
        try:
            check(buffer.state)
        except AssertionError as error:
            raise Different(f"the state of buffer {number}: {error}") from error


class _Errors(logging.Handler):
    """What vdev says of its own mistakes: it goes on in a more general way, and no byte shows them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@contextmanager
def no_errors() -> Iterator[None]:
    """Raises Different at the end if vdev has logged an error meanwhile."""
    errors, logger = _Errors(), logging.getLogger("vdev")
    logger.addHandler(errors)
    try:
        yield
    finally:
        logger.removeHandler(errors)
    if errors.texts:
        raise Different(f"logged: {errors.texts[0]}")


class Machine:
    """A session in which sequences run one after the other. `forced`: in every way in turn."""

    def __init__(self, workers: str, *, forced: bool) -> None:
        self.session = Session(open_workers(parse_workers(workers)))
        self.kernels = self.session.build(SOURCE).kernels
        self._options = options = self.session.launch_options
        #: as if the host reached each worker over a link of its own, so that small buffers are divided among them, too
        self._direct_links = replace(options.links, direct=options.workers, large_nbytes=_LARGE_NBYTES)
        self._forced = forced
        self.ways: Counter[str] = Counter()
        self._cuts = CutsInTurn()
        #: decides what is held back, if anything; and what has not been let go of it
        self._holds: random.Random | None = None
        self._held: list[UserCompletion] = []

    def run(self, commands: Commands, seed: int) -> list[bytes]:
        """What is read in a sequence, and its buffers at the end. Raises Different where a command fails."""
        ways = random.Random(seed)
        if not self._forced:
            return self._run(commands, ways)
        self._cuts = CutsInTurn(ways.randrange(1 << 16))
        self._take_way(ways)
        self._holds = random.Random(seed) if ways.random() < _HOLDING else None
        try:
            in_pieces = ways.random() < _IN_PIECES
            self.ways["in pieces"] += in_pieces
            with traced_at_once(), no_errors(), with_limits(_SMALL_PIECES if in_pieces else ()):
                return self._run_tidied(commands, ways)
        finally:
            self._let_all_begin()

    def _run_tidied(self, commands: Commands, ways: random.Random) -> list[bytes]:
        """With low limits of tidying, if its turn has come."""
        if ways.random() >= _TIDIED:
            return self._run(commands, ways)
        self.ways["tidied"] += 1
        with low_limits() as (together, joined):
            found = self._run(commands, ways)
        self.ways["brought together"] += together.call_count
        self.ways["joined"] += joined.call_count
        return found

    def _run(self, commands: Commands, ways: random.Random) -> list[bytes]:
        session = self.session
        queue = session.create_queue(in_order=True)
        buffers = [session.create_buffer(4 * words) for words in commands.words]
        hosts: list[np.ndarray] = []
        open_: list[Completion] = []

        def read(number: int, layout: Layout, host: np.ndarray) -> None:
            hosts.append(host)
            open_.append(self._submit(Read(buffers[number], layout, host), queue=queue))

        def read_part(number: int, start: int, stop: int) -> None:
            read(number, Layout.contiguous(start, stop - start), np.zeros(stop - start, np.uint8))

        def write(number: int, layout: Layout, content: bytes) -> None:
            data = np.frombuffer(content, np.uint8)
            open_.append(self._submit(Write(buffers[number], layout, data), queue=queue))

        for number, content in enumerate(commands.contents):
            write(number, Layout.contiguous(0, len(content)), content)
        for command in commands.list:
            if self._forced:
                self._change_way(ways, buffers)
            kind, number, *what = command
            match kind:
                case "launch":
                    open_ += self._launch(buffers, queue, number, *what)
                case "write":
                    start, content = what
                    write(number, Layout.contiguous(start, len(content)), content)
                case "read":
                    read_part(number, *what)
                case "write box":
                    box, content = what
                    write(number, Layout(*box), content)
                case "read box":
                    box, content = what
                    read(number, Layout(*box), np.frombuffer(content, np.uint8).copy())
                case "map":
                    hosts.append(self._map(buffers[number], queue, *what))
                case "fill":
                    open_.append(self._submit(Fill(buffers[number], *what), queue=queue))
                case "copy":
                    target, *boxes = what
                    copy = CopyBuffer(buffers[number], buffers[target], *boxes)
                    open_.append(self._submit(copy, queue=queue))
                case _:
                    raise ValueError(kind)
            _check_states(buffers)
        for number, words in enumerate(commands.words):
            read_part(number, 0, 4 * words)
        self._let_all_begin()
        for completion in open_:
            if status := completion.wait():
                raise Different(f"a command failed: {completion.reason} ({status})")
        self.ways += self._cuts.taken
        plans = [kernel.plans for kernel in self.kernels.values() if kernel.plans is not None]
        self.ways["filled in"] += sum(cache.forms.filled for cache in plans)
        return [host.tobytes() for host in hosts]

    def _map(
        self, buffer: VirtualBuffer, queue: Any, start: int, stop: int, written: bytes | None
    ) -> np.ndarray:
        """What the host sees in a mapping, in which it then writes, if at all."""
        self._let_all_begin()
        mapping = Map(buffer, start, stop - start, read=True, write=written is not None)
        self._wait(self.session.submit(mapping, queue=queue))
        memory = buffer.home()[start:stop]
        seen: np.ndarray = memory.copy()
        if written is not None:
            memory[:] = np.frombuffer(written, np.uint8)
        self._wait(self.session.submit(Unmap(mapping), queue=queue))
        return seen

    def _submit(self, command: Command, *, queue: Any) -> Completion:
        """Hand a command over. In some sequences it may have to wait for an event of the host's, and all behind it with it."""
        after = []
        if self._holds is not None and self._holds.random() < 0.15:
            after = [self.session.user_completion()]
            self._held += after
            self.ways["held"] += 1
        found = self.session.submit(command, after, queue=queue)
        if self._held and self._holds is not None and self._holds.random() < 0.4:
            self._held.pop(0).set_status(0)
        return found

    def _let_all_begin(self) -> None:
        while self._held:
            self._held.pop(0).set_status(0)

    def _wait(self, completion: Completion) -> None:
        if status := completion.wait():
            raise Different(f"a command failed: {completion.reason} ({status})")

    def _launch(
        self,
        buffers: Sequence[VirtualBuffer],
        queue: Any,
        name: str,
        bound: Sequence[tuple[int, int]],
        numbers: Sequence[tuple[int, ...]],
        size: tuple[int, ...],
        offset: tuple[int, ...],
        local: tuple[int, ...],
    ) -> list[Completion]:
        """One launch for each element of `numbers`."""
        pointers = [BufferArg(buffers[number], at, buffers[number].nbytes - at) for number, at in bound]
        ndrange, found = NDRange(size, local, offset), list[Completion]()
        command = None
        for values in numbers:
            args = (*pointers, *(np.uint32(value).tobytes() for value in values))
            again = command and command.repetition
            done = None
            if again and (again.takes_values or args == command.args):
                done = again.again(queue, ndrange, args)
            self.ways["repeated"] += done is not None
            if done is None:
                command = Launch(self.kernels[name], args, ndrange)
                done = self._submit(command, queue=queue)
            found.append(done)
        return found

    # ways ---------------------------------------------------------------------------------------

    def _take_way(self, ways: random.Random) -> None:
        """Plans are made anew, in a way for a sequence: over so many workers, with or without reductions that stay pending."""
        session, every = self.session, self._options.workers
        count = ways.randint(2, len(every)) if ways.random() < 0.3 else len(every)
        pending, trusted = ways.random() < 0.7, ways.random() < 0.8
        usual, divided = ways.random() < _USUAL, ways.random() < _DIVIDED
        links = self._direct_links if ways.random() < 0.4 else self._options.links
        self.ways[f"over {count}"] += 1
        self.ways["pending" if pending else "merged"] += 1
        self.ways["trusted" if trusted else "twins"] += 1
        self.ways["memory of their own"] += links is self._direct_links
        self.ways["usual cuts"] += usual
        with session.lock:
            session.links = links
            session.launch_options = replace(
                self._options,
                links=links,
                workers=every[:count],
                fewer=count < len(every),
                pending=pending,
                trust_exact=trusted,
                cuts=None if usual else self._cuts,
            )
            session.executor.standing = object()
            session.interiors = divided
            for kernel in self.kernels.values():
                if kernel.plans is not None:
                    self.ways["with interiors"] += kernel.plans.interiors.found
                    kernel.plans.forget()
                    kernel.plans.forms, kernel.plans.habits = Forms(), Habits()
                    kernel.plans.interiors = Interiors()
                    kernel.plans.interiors.begin(divided)

    def _change_way(self, ways: random.Random, buffers: Sequence[VirtualBuffer]) -> None:
        """In the middle of a sequence: buffers are kept on a worker, or let go."""
        if ways.random() >= 0.2:
            return
        session = self.session
        worker = ways.choice((None, *self._options.workers))
        with session.lock:
            session.executor.standing = object()
            for buffer in buffers:
                buffer.state = kept_on(buffer.state, worker)
        self.ways["kept" if worker is not None else "let go"] += 1


def reference_of(workers: str) -> str:
    """One worker of the same kind.

    >>> reference_of("cpu:3"), reference_of("cuda:0,1"), reference_of("cuda:0-3")
    ('cpu:1', 'cuda:0', 'cuda:0')
    """
    first = str(parse_workers(workers)[0])
    return "cpu:1" if first.startswith("cpu") else first.partition("*")[0]


def compare(one: Machine, several: Machine, seed: int) -> None:
    """Run a sequence on both. Raises Different."""
    commands = Commands(seed)
    expected, found = one.run(commands, seed), several.run(commands, seed)
    for number, (a, b) in enumerate(zip(expected, found, strict=True)):
        if a != b:
            where = np.flatnonzero(np.frombuffer(a, np.uint8) != np.frombuffer(b, np.uint8))
            last = number - (len(expected) - len(commands.words))
            what = f"buffer {last} at the end" if last >= 0 else f"read {number}"
            raise Different(f"{what}: {len(where)} of {len(a)} bytes differ, the first at {where[:4]}")


# processes ------------------------------------------------------------------------------------------


def work(workers: str, shares: Any, job: int, most: int, until: float, told: Any) -> None:
    """One process: sequences until there are no more, or it is time. `told` is sent (seed, difference or None), and ways at the end."""
    if hasattr(os, "sched_setaffinity") and workers.startswith("cpu"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[job % len(cores)], cores[(job + 1) % len(cores)]})
    one, several = Machine(reference_of(workers), forced=False), Machine(workers, forced=True)
    for _ in range(_REPLACED // _BATCH):
        with shares.get_lock():
            first = shares.value
            if time.time() > until or first >= most:
                break
            shares.value = min(first + _BATCH, most)
        for seed in range(first, min(first + _BATCH, most)):
            told.send(("begun", seed))
            try:
                compare(one, several, seed)
                told.send(("done", None))
            except Exception as error:
                told.send(("done", f"{type(error).__name__}: {error}"))
        told.send(("batch", dict(several.ways)))
        several.ways.clear()
    told.send(("end", None))
    one.session.close()
    several.session.close()


class Run:
    """The processes of one run, and what they found."""

    def __init__(self, workers: str, first: int, most: int, until: float) -> None:
        self.workers, self.until, self.most, self.first = workers, until, first + most, first
        self.context = multiprocessing.get_context("spawn")
        self.next = self.context.Value("q", first)
        self.done, self.ways, self.differences = 0, Counter[str](), dict[str, str]()
        self.ends = 0

    def start(self, job: int) -> tuple[Any, Any]:
        receiver, sender = self.context.Pipe(duplex=False)
        process = self.context.Process(
            target=work, args=(self.workers, self.next, job, self.most, self.until, sender)
        )
        process.start()
        sender.close()
        return process, receiver

    def run(self, jobs: int) -> None:
        running = {job: self.start(job) for job in range(jobs)}
        latest: dict[int, int | None] = dict.fromkeys(running)
        heard = dict.fromkeys(running, time.monotonic())
        while running:
            waiting = {receiver: job for job, (_, receiver) in running.items()}
            for job, (process, _) in running.items():
                if time.monotonic() - heard[job] > _SILENCE:
                    process.kill()
            for receiver in multiprocessing.connection.wait(list(waiting), timeout=1.0):
                job = waiting[receiver]
                heard[job] = time.monotonic()
                try:
                    kind, what = receiver.recv()
                except EOFError:  # without a word: it died
                    kind, what = "died", None
                if kind in ("end", "died"):
                    process, _ = running.pop(job)
                    process.join()
                    if kind == "died" and latest[job] is not None:
                        self.differences[str(latest[job])] = f"the process ended with {process.exitcode}"
                        self.done += 1
                        self.ends += 1
                    if (kind == "end" or latest[job] is not None) and self._goes_on():
                        latest[job] = None
                        running[job] = self.start(job)
                elif kind == "begun":
                    latest[job] = what
                elif kind == "batch":
                    self.ways.update(what)
                else:
                    self.done += 1
                    if what is not None:
                        self.differences[str(latest[job])] = what
                        print(f"seed {latest[job]}: {what}", file=sys.stderr, flush=True)
                    if self.done % 1000 == 0:
                        print(f"{self.done} sequences, {len(self.differences)} differ", flush=True)

    def _goes_on(self) -> bool:
        return time.time() < self.until and self.next.value < self.most and self.ends < 100


def version() -> str:
    root = Path(__file__).parents[2]
    found = subprocess.run(
        ["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    return found.stdout.strip()


def machine_of() -> str:
    names = [line for line in _processor_lines() if line]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def _processor_lines() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cpu.forced_sequences", description=__doc__)
    parser.add_argument("--workers", default=os.environ.get("VDEV_WORKERS") or "cpu:3")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--sequences", type=int, default=100_000, help="at most, in this run")
    parser.add_argument("--first", type=int, help="the first seed; that after the last one of the file, or 0")
    parser.add_argument("--seconds", type=float, default=540.0, help="after which none is begun")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ["VDEV_CACHE"] = "0"
    runs = json.loads(options.json.read_text())["runs"] if options.json and options.json.exists() else []
    same = [run for run in runs if run["workers"] == options.workers]
    first = max((run["next"] for run in same), default=0) if options.first is None else options.first
    began = time.time()
    run = Run(options.workers, first, options.sequences, began + options.seconds)
    run.run(options.jobs)
    runs.append(
        {
            "workers": options.workers,
            "first": first,
            "next": run.next.value,
            "sequences": run.done,
            "differences": run.differences,
            "ways": dict(sorted(run.ways.items())),
            "jobs": options.jobs,
            "seconds": round(time.time() - began, 1),
            "machine": machine_of(),
            "version": version(),
        }
    )
    totals: Counter[str] = Counter()
    for each in runs:
        totals[each["workers"]] += each["sequences"] - len(each["differences"])
    text = {"command": "python -m tests.cpu.forced_sequences", "same bytes": dict(totals), "runs": runs}
    if options.json:
        options.json.write_text(json.dumps(text, indent=1) + "\n")
    print(json.dumps(runs[-1], indent=1))
    return 1 if run.differences or not run.done else 0


if __name__ == "__main__":
    sys.exit(main())
