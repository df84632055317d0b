"""What commands cost the host on several workers where all that they touch is kept on one: as much as on a lone worker.

Python's calls of the submitting thread are counted, and what its workers' threads are asked for; no clock is read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from tests.pure import virtual_gpus
from tests.pure.test_choosing import Program
from tests.pure.test_direct import attempts
from tests.pure.test_never_slower import Bench, simulated_host
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND, VirtualGpu
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor, _single
from vdev.executor.steps import CallStep
from vdev.executor.worker import Worker
from vdev.observe.snapshots import of_session
from vdev.planner.directory import kept_on
from vdev.session import launches
from vdev.session.choosing import Choosing
from vdev.session.commands import BufferArg, CopyBuffer, Fill, Launch, Marker, Read, Write
from vdev.session.immediate_moves import RepeatedWrite
from vdev.session.in_a_row import InARow
from vdev.session.kernel_timing import FIRST_PLAN, UNTIL_LOOKED_AT
from vdev.session.samples import Samples
from vdev.session.session import VirtualBuffer

SOURCE = """
kernel void add(global uint *to, global const uint *from, const uint step)
{
    to[get_global_id(0)] = from[get_global_id(0)] + step;
}
kernel void chain(global uint *to, global const uint *from)
{
    const uint i = get_global_id(0), n = get_global_size(0);
    to[i] = from[(i + n / 4) % n] + 1;
}
"""
ITEMS = 65536
#: launches until everything is kept, plans are made and what kernels take is known
ENOUGH = 600
#: seconds of the host that a submission takes, beside what it hands over
SUBMISSION = 6e-5
#: calls that a command may cost more than on a lone worker: whether its buffers are kept is looked at
MOST_MORE = 2


@pytest.fixture(autouse=True)
def as_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VirtualGpu, "can_wait_for_all", True)
    monkeypatch.setattr(VirtualGpu, "wait_for_all", lambda self: True, raising=False)
    monkeypatch.setattr(VirtualGpu, "small_write_nbytes", 1 << 14)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Bench]]:
    """The simulated host, for which each submission takes time."""
    submit = Executor.submit
    with simulated_host() as benches:

        def submitted(*args: Any, **named: Any) -> int:
            if benches:
                benches[-1].program.machine.host += SUBMISSION
            return submit(*args, **named)

        monkeypatch.setattr(Executor, "submit", submitted)
        yield benches


class Kept:
    """A program on so many GPUs whose launches take no time to speak of; those of `chain` so many seconds for a work-item."""

    def __init__(self, clocks: list[Bench], workers: int, chain: float = 1e-15) -> None:
        bench = Bench({"add": 1e-15, "chain": chain}, ITEMS, 0, workers, PEER_BYTES_PER_SECOND)
        bench.build(SOURCE)
        clocks.append(bench)
        self.program: Program = bench.program
        self.session, self.queue = self.program.session, self.program.queue
        self.buffers = [self.program.buffer(4 * ITEMS) for _ in range(2)]
        self.number = 0

    def launch(
        self,
        *buffers: VirtualBuffer,
        name: str = "add",
        after: tuple[Completion, ...] = (),
        ndrange: NDRange | None = None,
    ) -> Completion:
        self.number += 1
        given: list[Any] = [BufferArg(buffer, 0, buffer.nbytes) for buffer in buffers or self.buffers]
        if name == "add":
            given.append(np.uint32(self.number).tobytes())
        launch = Launch(self.program.kernels[name], tuple(given), ndrange or NDRange((ITEMS,), (64,), (0,)))
        return self.session.submit(launch, after, queue=self.queue)

    def turn(self) -> None:
        """A launch that reads what others have written in the launch before."""
        self.launch(*self.buffers, name="chain")
        self.buffers.reverse()

    def settled(self) -> Kept:
        for _ in range(ENOUGH):
            self.launch()
        self.program.wait()
        return self


def _enqueue_write(kept: Kept) -> None:
    command = Write(kept.buffers[1], Layout.contiguous(0, 64), np.zeros(64, np.uint8))
    if kept.session.write_at_once(command, (), kept.queue) is None:
        kept.session.submit(command, queue=kept.queue)


def _write_again(kept: Kept) -> None:
    """As it was made before, where that is possible."""
    writing, at_once = kept.buffers[1].writing, kept.session.at_once
    part = None
    if type(writing) is RepeatedWrite and at_once is not None:
        part = at_once.write_again(kept.buffers[1], writing, np.zeros(64, np.uint8), kept.queue)
    if part is None:
        _enqueue_write(kept)


#: by name, what makes a command of a program
Command = Callable[[Kept], object]


def _read(kept: Kept) -> None:
    kept.launch()
    layout = Layout.contiguous(0, 64)
    command = Read(kept.buffers[0], layout, np.zeros(64, np.uint8))
    if kept.session.read_at_once(command, kept.queue) is None:
        kept.session.submit(command, queue=kept.queue).wait()


def _write(kept: Kept) -> None:
    command = Write(kept.buffers[1], Layout.contiguous(0, 64), np.zeros(64, np.uint8))
    if kept.session.write_at_once(command, (), kept.queue) is None:
        kept.session.submit(command, queue=kept.queue).wait()


COMMANDS: dict[str, Command] = {
    "launch": lambda kept: kept.launch(),
    "launch behind another": lambda kept: kept.launch(after=(kept.launch(),)),
    "launch and wait": lambda kept: kept.launch().wait(),
    "new buffer": lambda kept: kept.launch(kept.session.create_buffer(4 * ITEMS), kept.buffers[1]),
    "new buffers": lambda kept: kept.launch(*[kept.session.create_buffer(4096) for _ in range(2)]),
    "buffers of the program's memory": lambda kept: kept.launch(
        *[kept.session.create_buffer(4096, np.zeros(4096, np.uint8)) for _ in range(2)]
    ),
    "read": _read,
    "write": _write,
    "fill": lambda kept: kept.session.submit(Fill(kept.buffers[0], 0, 64, bytes(4)), queue=kept.queue),
    "copy": lambda kept: kept.session.submit(
        CopyBuffer(*kept.buffers, (1, 1, 64), 0, (64, 64), 0, (64, 64)), queue=kept.queue
    ),
}


#: commands that are enqueued and not waited for
ENQUEUED: dict[str, Command] = {
    "launch": lambda kept: kept.launch(),
    "write": lambda kept: _enqueue_write(kept),
    "write again": _write_again,
    "fill": COMMANDS["fill"],
    "copy": COMMANDS["copy"],
}


def cost(kept: Kept, command: Command, woken: list[int]) -> tuple[int, int, int]:
    """Of a command in the middle of many: Python's calls, threads woken, markers made."""
    for _ in range(3):
        command(kept)
    found = []
    for _ in range(9):
        counts, before = [0], len(woken)
        markers = sum(worker.marked for worker in kept.session.executor.all_workers)

        def count(frame: object, event: str, arg: object, counts: list[int] = counts) -> None:
            counts[0] += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            command(kept)
        finally:
            sys.setprofile(None)
        markers = sum(worker.marked for worker in kept.session.executor.all_workers) - markers
        found.append((counts[0], len(woken) - before, int(markers > 0)))
    return sorted(found)[len(found) // 2]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_kept_buffers_costs_the_same_as_on_a_lone_worker(
    clocks: list[Bench], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[int] = []
    wake = Worker.wake
    monkeypatch.setattr(Worker, "wake", lambda worker: woken.append(worker.number) or wake(worker))
    found = {}
    for workers in (1, 3):
        kept = Kept(clocks, workers).settled()
        if workers > 1:
            assert [buffer.state.kept for buffer in kept.buffers] == [0, 0]
        found[workers] = cost(kept, COMMANDS[name], woken)
    # what is done beside a launch counts as a command's, too: a wait for an event; a read, and the look at how long that took
    more = {
        "launch behind another": 2,
        "new buffer": 2,
        "new buffers": 9,
        "buffers of the program's memory": 18,
        "read": 9,
    }
    most = MOST_MORE * more.get(name, 1)
    assert found[3][0] <= found[1][0] + most
    assert found[3][1:] <= found[1][1:]


def test_launches_that_depend_across_workers_are_on_one_soon_and_stay(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = attempts(monkeypatch)
    kept = Kept(clocks, 2)
    for _ in range(ENOUGH):
        kept.turn()
    tried.clear()
    for _ in range(4000):
        kept.turn()
    kept.program.wait()
    assert of_session(kept.session).kernel("chain").split < 60
    assert tried.count(True) >= 3900


def test_new_buffers_of_a_program_on_one_worker_begin_there(clocks: list[Bench]) -> None:
    kept = Kept(clocks, 2)
    before = kept.program.buffer(4 * ITEMS)
    assert before.state.resident is None
    kept.settled()
    filled, copied = kept.program.buffer(4 * ITEMS), kept.session.create_buffer(4 * ITEMS)
    copy = CopyBuffer(kept.buffers[0], copied, (1, 1, 64), 0, (64, 64), 0, (64, 64))
    kept.session.submit(copy, queue=kept.queue)
    assert [filled.state.resident, copied.state.resident] == [0, 0]


def test_launches_on_nothing_but_new_buffers_do_not_end_that(clocks: list[Bench]) -> None:
    """As `zeros(n) + 1` of PyOpenCL's arrays: no buffer of such a launch is kept anywhere, so it takes the long way."""
    kept = Kept(clocks, 2).settled()
    for _ in range(3):
        kept.launch(kept.session.create_buffer(4 * ITEMS), kept.program.buffer(4 * ITEMS))
        assert kept.program.buffer(4 * ITEMS).state.resident == 0


MIXED = """
kernel void large(global float *a, global const float *b, global const uint *parameters)
{
    a[get_global_id(0)] += b[get_global_id(0)] * parameters[0];
}
kernel void small(global uint *parameters) { parameters[get_global_id(0)] += 1; }
"""


def test_keeping_small_buffers_does_not_keep_launches_on_large_ones(clocks: list[Bench]) -> None:
    """A launch runs where its large buffers say: one parameter on a worker does not bring them there."""
    n = 1 << 24
    bench = Bench({"large": 2e-3 / n, "small": 1e-9}, n, 0, 2, PEER_BYTES_PER_SECOND)
    bench.build(MIXED)
    clocks.append(bench)
    buffers, parameters = [bench.zeros(n) for _ in range(2)], bench.zeros(64)
    for _ in range(200):
        bench.run("small", (64,), (64,), parameters)
    assert parameters.made.state.kept == 0
    for _ in range(200):
        bench.run("small", (64,), (64,), parameters)
        bench.run("large", (n,), (64,), *buffers, parameters)
        buffers.reverse()
    bench.program.wait()
    assert of_session(bench.program.session).kernel("large").split == 200


def test_small_kernels_in_rotation_go_to_one_worker_before_each_is_planned(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is large enough to be split, so that nobody waits for what they take."""
    names, planned = [f"k{k}" for k in range(60)], []
    bench = Bench(dict.fromkeys(names, 1e-9), ITEMS, 0, 2, PEER_BYTES_PER_SECOND)
    text = "kernel void {}(global uint *a, const uint b) {{ a[get_global_id(0)] += b; }}"
    bench.build("\n".join(map(text.format, names)))
    clocks.append(bench)
    make_plan = launches.make_plan

    def slowly(*args: Any) -> Any:
        planned.append(args)
        bench.program.machine.host += FIRST_PLAN
        return make_plan(*args)

    monkeypatch.setattr(launches, "make_plan", slowly)
    buffer = bench.zeros(64)
    for name in names:
        bench.run(name, (64,), (64,), buffer, np.uint32(1))
    assert len(planned) < 20
    assert buffer.made.state.kept == 0


def test_buffers_kept_for_their_exchanges_lose_plans_that_are_handed_over_in_vain(
    clocks: list[Bench],
) -> None:
    kept = Kept(clocks, 2)
    kept.turn()
    account, choosing = kept.buffers[0].account, kept.session.choosing
    assert choosing is not None
    assert account.keeper is None
    assert choosing._changes.change(account)
    assert not account.thrifty
    for _ in range(400):
        kept.turn()
    assert account.thrifty
    assert account.keeper == 0


def not_ended(kept: Kept, number: int) -> tuple[Completion, int]:
    """A command of a worker's that was handed over and will not end, and its step."""
    executor = kept.session.executor
    worker, found = executor.all_workers[number], Completion()
    executor.submit(_single(number, CallStep(lambda backend: None)), (), found)
    while worker.issued < worker.submitted or not worker.asleep:
        pass
    assert not found.settled
    return found, worker.submitted


@pytest.fixture
def kept(clocks: list[Bench], monkeypatch: pytest.MonkeyPatch) -> Kept:
    """On worker 0 of two, neither of which ends with anything from now on."""
    found = Kept(clocks, 2).settled()
    for command in ENQUEUED.values():  # their plans are known
        for _ in range(3):
            command(found)
            found.session.executor.quiesce()
    monkeypatch.setattr(virtual_gpus._Marker, "done", lambda marker: False)
    assert [buffer.state.resident for buffer in found.buffers] == [0, 0]
    return found


def test_what_was_submitted_to_another_worker_is_waited_for(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch that waits for a command of the same worker comes behind it anyway; one of another worker's has to end first."""
    tried = attempts(monkeypatch)
    for number in (0, 1):
        earlier, _ = not_ended(kept, number)
        tried.clear()
        kept.launch(after=(earlier,))
        assert tried == ([True] if number == 0 else [])


@pytest.mark.parametrize("command", list(ENQUEUED))
@pytest.mark.parametrize("in_order", [True, False])
def test_what_is_before_it_in_its_queue_ends_first(
    kept: Kept, in_order: bool, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event of an in-order queue says that what was enqueued before has ended, too (specification 5.11): of what another
    worker still has to do nobody knows at the worker that keeps the buffers.
    """
    tried = attempts(monkeypatch)
    kept.queue = kept.session.create_queue(in_order=in_order)
    for number in (0, 1):
        earlier, _ = not_ended(kept, number)
        kept.queue.remember(earlier)
        tried.clear()
        ENQUEUED[command](kept)
        assert tried == ([True] if number == 0 or not in_order else [])


def test_a_barrier_is_waited_for(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever what is before it is: the barrier itself has not ended."""
    tried = attempts(monkeypatch)
    kept.queue = kept.session.create_queue(in_order=False)
    kept.launch()
    assert tried == [True]
    earlier, _ = not_ended(kept, 1)
    kept.session.submit(Marker(barrier=True), (earlier,), queue=kept.queue)
    tried.clear()
    kept.launch()
    assert tried == []


@pytest.mark.parametrize("command", list(ENQUEUED))
def test_who_still_reads_kept_buffers_is_waited_for(
    kept: Kept, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another worker has yet to copy from them must not change before."""
    tried, executor = attempts(monkeypatch), kept.session.executor
    for number in (0, 1):
        _, step = not_ended(kept, number)
        for buffer in kept.buffers:
            buffer.holdings.did_read(0, number, step)
        tried.clear()
        ENQUEUED[command](kept)
        assert tried == ([True] if number == 0 else [])
    last = executor.unsettled[max(executor.unsettled)]
    assert last.clock[1] >= step, "it comes behind the reader"


class FormOfKept:
    """What launches of a form ask for each (`AtOnce.are_kept`)."""

    def __init__(self, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
        at_once, line, cache = (
            kept.session.at_once,
            kept.session.executor.lines[0],
            kept.program.kernels["add"].plans,
        )
        assert at_once is not None
        assert line is not None
        assert cache is not None
        self.kept, self.at_once, self.line, self.cache = kept, at_once, line, cache
        self.asked = 0  #: times that it took more than a glance
        ask = at_once._are_kept

        def asked(*args: Any) -> bool:
            self.asked += 1
            return ask(*args)

        monkeypatch.setattr(at_once, "_are_kept", asked)
        kept.launch()

    def may_go(self) -> bool:
        kept, self.at_once.until_looked_at, self.asked = self.kept, UNTIL_LOOKED_AT, 0
        holdings, stay = (
            [buffer.holdings for buffer in kept.buffers],
            all(buffer.stays == 0 for buffer in kept.buffers),
        )
        ndrange = NDRange((ITEMS,), (64,), (0,))
        return self.at_once.are_kept(self.line, self.cache, ndrange, kept.buffers, holdings, kept.queue, stay)


def test_launches_of_a_form_are_made_only_where_nobody_else_is_concerned(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those that are looked up are (`AtOnce.are_kept`)."""
    form = FormOfKept(kept, monkeypatch)
    at_once, cache, may_go, account = form.at_once, form.cache, form.may_go, kept.buffers[0].account
    assert may_go()
    assert at_once.until_looked_at == UNTIL_LOOKED_AT - cache.weight
    for keeper, thrifty in ((0, False), (1, True)):
        account.keep_on(keeper, thrifty=thrifty)
        assert not may_go(), (keeper, thrifty)
        account.keep_on(0, thrifty=True)
    account.cutoff.below = ITEMS // 2
    assert not may_go(), "launches of that size are split"
    account.cutoff.below = 2 * ITEMS
    assert may_go()
    assert kept.buffers[0].stays is None, "larger ones may not"
    last = kept.queue.last
    earlier, step = not_ended(kept, 1)
    kept.queue.remember(earlier)
    assert not may_go(), "the one before it in its queue is another worker's"
    kept.queue.remember(last)
    assert may_go()
    at_once.submits, cache.weight = (
        cache,
        UNTIL_LOOKED_AT + 1,
    )  # the turn of each of its launches to be looked at has come
    assert not may_go(), "this one is sampled"
    at_once.submits = None
    assert may_go(), "it is looked at behind it"
    assert at_once.until_looked_at == -1
    kept.buffers[1].holdings.did_read(0, 1, step)
    assert not may_go(), "another worker has yet to copy from one of them"


def test_launches_on_buffers_that_stay_take_a_glance_while_nothing_is_submitted_elsewhere(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(clocks, 2).settled()
    form = FormOfKept(kept, monkeypatch)
    first, second = kept.buffers
    for change in (
        lambda: None,
        lambda: setattr(first, "state", kept_on(first.state, None)),
        lambda: first.account.keep_on(0, thrifty=True),
        lambda: first.account.enter(second),
    ):
        change()
        first.state = kept_on(first.state, 0)
        form.may_go()  # which takes note
        assert form.may_go()
        assert form.asked == 0
        assert (first.stays, second.stays) == (0, 0)
    change = [
        lambda: first.account.enter(second),
        lambda: setattr(second, "state", kept_on(second.state, None)),
        lambda: first.account.keep_on(1, thrifty=True),
        lambda: first.account.keep_on(0, thrifty=False),
    ]
    for each in change:
        first.stays = second.stays = 0
        each()
        assert None in (first.stays, second.stays)
    first.account.keep_on(0, thrifty=True)
    second.state = kept_on(second.state, 0)
    monkeypatch.setattr(virtual_gpus._Marker, "done", lambda marker: False)
    form.may_go()
    assert form.may_go()
    assert form.asked == 0
    not_ended(kept, 1)
    assert form.may_go(), "which concerns none of them"
    assert form.asked == 1, "it might read one of them"
    kept.launch()
    for _ in range(2):
        assert form.may_go()
        assert form.asked == 1, "it still might"


def test_what_a_look_finds_is_for_the_next_launch(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is looked at has been handed over: the worker is busy meanwhile."""
    kept = Kept(clocks, 4).settled()
    at_once, cache, executor = kept.session.at_once, kept.program.kernels["add"].plans, kept.session.executor
    assert at_once is not None
    assert cache is not None
    ndrange, did, account, made = (
        NDRange((ITEMS,), (64,), (0,)),
        list[str](),
        kept.buffers[0].account,
        object(),
    )

    def hand_over() -> Any:
        did.append("handed over")
        return made

    def look(found: bool, change: bool) -> tuple[bool, bool]:
        """Whether the next launch of the kernel is submitted; and whether nothing is repeated that was before."""

        def asked(*_: object) -> bool:
            did.append("looked")
            if change:
                account.keep_on(None, thrifty=False)
            return found

        monkeypatch.setattr(Choosing, "is_to_be_submitted", asked)
        standing, at_once.until_looked_at, at_once.submits = executor.standing, -1, None
        did.clear()
        assert at_once.looked_at(hand_over, cache, ndrange, kept.buffers, 0) is made
        return at_once.submits is cache, executor.standing is not standing

    for passes in (True, False):
        monkeypatch.setattr(Choosing, "passes_by", lambda *_, passes=passes: passes)
        assert look(found=False, change=False) == (False, False)
        assert did == ["handed over"] + ["looked"] * (not passes)
        assert at_once.until_looked_at == UNTIL_LOOKED_AT
    assert look(found=True, change=False) == (True, False)
    assert at_once.until_looked_at == 0, "at the next turn"
    assert look(found=True, change=True) == (True, True)
    assert look(found=False, change=False) == (False, True), "they are split by now"
    assert did == ["handed over"]
    account.keep_on(0, thrifty=True)
    monkeypatch.setattr(Choosing, "is_to_be_submitted", lambda *_: pytest.fail("nothing was handed over"))
    assert at_once.looked_at(lambda: None, cache, ndrange, kept.buffers, 0) is None


def test_launches_that_lose_by_being_split_are_hardly_looked_at(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look takes the host as long as several launches. Most turns to look pass by, since nothing would come of it."""
    kept, looks = Kept(clocks, 4).settled(), Counter[str]()
    for name in ("is_to_be_submitted", "passes_by"):
        asked = getattr(Choosing, name)

        def counted(self: Choosing, *args: Any, asked: Any = asked, name: str = name) -> Any:
            looks[name] += 1
            return asked(self, *args)

        monkeypatch.setattr(Choosing, name, counted)
    for _ in range(64):
        for _ in range(UNTIL_LOOKED_AT):
            kept.launch()
        kept.program.wait()
    assert looks["passes_by"] >= 60, "there were turns"
    assert 8 <= looks["is_to_be_submitted"] <= 24, (
        "one in 256 launches is weighed, and in a while one is sampled"
    )


def test_launches_on_one_worker_count_by_their_sizes(clocks: list[Bench]) -> None:
    """Those for the levels of a grid: one that is looked at does not stand for others that do less, or more."""
    kept = Kept(clocks, 4).settled()
    with kept.session.observing() as ledger:
        tally = next(each for each in ledger.kernels.values() if each.name == "add")
    choosing = kept.session.choosing
    assert choosing is not None
    timing, one, spaces = choosing.times.timing(tally), choosing._one, (ITEMS, 64, 64, 64)
    ndranges = {items: NDRange((items,), (64,), (0,)) for items in spaces}
    tally.passed.clear()
    for _ in range(5):  # fewer than are passed before one is looked at
        for items in spaces:
            kept.launch(ndrange=ndranges[items])
    stake = one._stake_alone(timing, ndranges[64])
    passed = sorted((each.nitems, number) for each, number in one._passed(tally, timing, stake, 40))
    assert passed == [(64, 30), (ITEMS, 10)]
    assert one._passed(tally, timing, stake, 7) == [(stake, 7)], "there were none since"
    assert timing.spaces == 2
    assert timing.settling_seconds == max(timing.settling, 2) * (timing.plan.value or 0)
    timing.spaces = 100
    assert timing.settling_seconds == 100 * (timing.plan.value or 0) > 0


def test_launches_on_one_worker_gain_no_more_than_the_largest_that_were_measured(clocks: list[Bench]) -> None:
    """Of levels of a grid the coarsest come first, which mostly wait: as many times as long as the finest has more work-items it would
    take seconds, and would be split for that.
    """
    kept = Kept(clocks, 4).settled()
    with kept.session.observing() as ledger:
        tally = next(each for each in ledger.kernels.values() if each.name == "add")
    choosing = kept.session.choosing
    assert choosing is not None
    timing, one = choosing.times.timing(tally), choosing._one
    account = kept.buffers[0].account
    for _ in range(4):
        timing.times.add(ITEMS, [1e-3])
    alone = []
    for items in (timing.times.covered(ITEMS << 12), ITEMS << 12, ITEMS << 16):
        stake = one._stake_alone(timing, NDRange((items,), (64,), (0,)))
        assert stake.nitems == items
        alone.append(one._weigh_alone(account, timing, [(stake, 10.0)], tally.launches))
    assert alone[0] == alone[1] == alone[2]
    assert 10 * timing.times.whole(ITEMS) < alone[0][0].device < 40 * timing.times.whole(ITEMS)


def test_a_turn_passes_by_only_while_buffers_are_kept_for_launches_without_plans(clocks: list[Bench]) -> None:
    kept = Kept(clocks, 4).settled()
    at_once, cache = kept.session.at_once, kept.program.kernels["add"].plans
    assert at_once is not None
    assert cache is not None
    account = kept.buffers[0].account
    timing = kept.session.choosing.times.timing(cache.tally)  # type: ignore[union-attr]
    timing.pause, timing.skipped, timing.due_at = 1 << 20, 0, cache.tally.launches
    timing.direct = 10

    def goes_on(worker: int = 0) -> bool:
        at_once.until_looked_at = 0
        found = at_once.goes_on(cache, NDRange((ITEMS,), (64,), (0,)), kept.buffers, worker)
        assert at_once.until_looked_at == (UNTIL_LOOKED_AT if found else 0)
        return found

    assert goes_on()
    assert not goes_on(worker=1)
    account.keep_on(0, thrifty=False)  # its launches have plans again, to see what they exchange
    assert not goes_on()
    account.keep_on(0, thrifty=True)
    timing.pause = 0
    assert not goes_on(), "one is due"


@pytest.mark.parametrize(("each", "samples"), [(1e-15, 1), (1e-4 / ITEMS, 4)])
def test_first_launches_are_sampled_until_their_kernel_is_known_to_be_short(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch, each: float, samples: int
) -> None:
    """On one of several workers. A sample takes the host longer than some launches of a short kernel."""
    kept, taken, prepared = Kept(clocks, 4, each).settled(), list[str](), Samples.prepared

    def noted(samples: Samples, cache: Any, cached: Any, *args: Any) -> Any:
        found = prepared(samples, cache, cached, *args)
        taken.extend([cache.tally.name] if cached.direct else ())
        return found

    monkeypatch.setattr(Samples, "prepared", noted)
    for _ in range(32):
        kept.launch(name="chain")
        kept.program.wait()
    assert taken == ["chain"] * samples


@pytest.mark.parametrize("submits", [False, True])
def test_a_row_goes_on_with_a_launch_whose_turn_to_be_looked_at_has_come(
    clocks: list[Bench], *, submits: bool
) -> None:
    kept = Kept(clocks, 4).settled()
    cache, made = kept.program.kernels["add"].plans, SimpleNamespace(stretch=SimpleNamespace(completion=None))
    assert cache is not None
    handed: list[Any] = []

    def looked_at(hand_over: Callable[[], Any], *given: Any) -> Any:
        assert given[0] is cache
        found, at_once.until_looked_at = hand_over(), UNTIL_LOOKED_AT
        return found

    at_once: Any = SimpleNamespace(until_looked_at=0, streak_length=1, is_alone=False, looked_at=looked_at)
    at_once.submits = cache if submits else None
    streak = SimpleNamespace(is_renewed=False, buffers=lambda args: kept.buffers)
    worker = SimpleNamespace(number=0, marked=0)
    line = SimpleNamespace(worker=worker, looked_at=0, again=lambda *args: handed.append(args) or made)
    cached, ndrange, queue = (
        SimpleNamespace(outcome=SimpleNamespace(launches=0)),
        object(),
        SimpleNamespace(last=None, profiled=False),
    )
    row: Any = InARow
    row = row(kept.session, at_once, line, streak, None, cached, queue, cache, looks=True)
    found = row.again(queue, ndrange, ())
    assert (found is made, len(handed), at_once.until_looked_at) == (
        (False, 0, -cache.weight) if submits else (True, 1, UNTIL_LOOKED_AT)
    )
