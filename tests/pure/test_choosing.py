"""When launches that exchange much are kept on one worker, on GPUs that tell H200's times.

The programs are the samples', at the sizes of their benchmarks; nothing is computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vdev.translators.ranges.ndrange import Chunk, NDRange

from tests.pure.one_thread import OneThreadExecutor
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND, Machine
from vdev.observe.advice import advise
from vdev.observe.snapshots import of_session
from vdev.planner.instructions import Plan
from vdev.session import core, folding, immediate, launches, moves, weighed_recalls
from vdev.session.choosing import Choosing, can_choose
from vdev.session.commands import BufferArg, Command, Fill, Launch
from vdev.session.launch_plans import KEPT
from vdev.session.session import Session, VirtualBuffer

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(autouse=True)
def simulated_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the session takes for its own time is the virtual machine's, however busy the machine of the test is."""

    def now() -> int:
        return 0 if Program.latest is None else round(Program.latest.machine.host * 1e9)

    def busy() -> int:
        machine = None if Program.latest is None else Program.latest.machine
        return 0 if machine is None else round((machine.host - machine.waited) * 1e9)

    monkeypatch.setattr(Program, "latest", None)
    for module in (launches, immediate, moves, folding, weighed_recalls):
        monkeypatch.setattr(module, "busy_ns", busy)
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter_ns=now), raising=False)


def source_of(sample: str) -> str:
    """The kernels of a sample."""
    found = re.search(r'^SOURCE = """(.*?)^"""', (SAMPLES / f"{sample}.py").read_text(), re.S | re.M)
    assert found is not None
    return found[1]


class Program:
    """A host program on virtual GPUs."""

    #: the one whose host's clock `simulated_clock` reads
    latest: Program | None = None

    def __init__(
        self,
        source: str,
        per_item: Mapping[str, float | Callable[[Chunk], float]],
        *,
        workers: int = 4,
        gather: bool | None = None,
        options: tuple[str, ...] = (),
        memory_nbytes: int = 140 << 30,
        peer_rate: float = PEER_BYTES_PER_SECOND,
    ) -> None:
        self.machine = Machine(per_item, peer_rate)
        openers = [self.machine.opener(number, memory_nbytes) for number in range(workers)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(core, "Executor", OneThreadExecutor)
            self.session = Session(openers, min_items=None, gather=gather)
        if self.session.choosing is not None:
            # It would be by the kernels' texts, which have nothing to do with what they take here.
            self.session.choosing._one._presumes = False
        Program.latest = self
        self.queue = self.session.create_queue(in_order=True)
        self.built = self.session.build(source, options)
        self.kernels = self.built.kernels
        self.plans: list[Plan] = []
        self.session.observers.append(self._observe)

    def _observe(self, command: Command, plan: Plan) -> None:
        if isinstance(command, Launch):
            self.plans.append(plan)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def buffer(self, nbytes: int) -> VirtualBuffer:
        """With content that the host brought, a part on each worker."""
        made = self.session.create_buffer(nbytes)
        self.fill(made)
        return made

    def fill(self, buffer: VirtualBuffer) -> None:
        self.session.submit(Fill(buffer, 0, buffer.nbytes, bytes(4)), queue=self.queue)

    def launch(
        self, name: str, size: tuple[int, ...], group: tuple[int, ...], *args: VirtualBuffer | np.generic
    ) -> None:
        given = tuple(
            BufferArg(arg, 0, arg.nbytes) if isinstance(arg, VirtualBuffer) else arg.tobytes() for arg in args
        )
        ndrange = NDRange(size, group, (0,) * len(size))
        self.session.submit(Launch(self.kernels[name], given, ndrange), queue=self.queue)

    def wait(self) -> float:
        """Seconds of the devices' time since the program began."""
        self.session.finish(self.queue)
        self.session.executor.quiesce()
        return self.machine.seconds

    def spans(self) -> list[int]:
        """On how many workers each launch since the last call ran."""
        found = [len(plan.partition) for plan in self.plans]
        self.plans.clear()
        return found


@dataclass
class Case:
    """A sample: what one launch of all its kernels does."""

    sample: str
    per_item: dict[str, float]
    begin: Callable[[Program], Callable[[], None]]
    options: tuple[str, ...] = ()

    def times(self, rounds: int, **settings: Any) -> list[float]:
        """Seconds of each of so many rounds on resident data."""
        with Program(source_of(self.sample), self.per_item, options=self.options, **settings) as program:
            one_round = self.begin(program)
            found = [program.wait()]
            for _ in range(rounds):
                one_round()
                found.append(program.wait())
        return [float(took) for took in np.diff(found)]


def _fft(log_points: int = 28) -> Callable[[Program], Callable[[], None]]:
    def begin(program: Program) -> Callable[[], None]:
        n = 1 << log_points
        signal = program.buffer(8 * n)
        buffers = [signal, *(program.session.create_buffer(8 * n) for _ in range(2))]
        order = [0, *[1, 2] * log_points]

        def one_round() -> None:
            for number in range(log_points):
                pair = buffers[order[number]], buffers[order[number + 1]]
                numbers = np.uint32(n // 2), np.uint32(1 << number)
                program.launch("butterflies", (n // 2,), (128,), *pair, *numbers)

        return one_round

    return begin


def _heat(program: Program) -> Callable[[], None]:
    size = 16384
    now, following = program.buffer(4 * size * size), program.buffer(4 * size * size)
    held = program.buffer(size * size)

    def one_round() -> None:
        for step in range(50):
            pair = (now, following) if step % 2 == 0 else (following, now)
            numbers = np.uint32(size), np.uint32(size), np.float32(0.24)
            program.launch("advance", (size, size), (32, 8), *pair, held, *numbers)

    return one_round


def _bitonic(program: Program) -> Callable[[], None]:
    n, run = 1 << 27, 1024
    buffers = [program.buffer(4 * n) for _ in range(4)]

    def one_round() -> None:
        grid, group = (n // 2,), (run // 2,)
        program.launch("sort_shared", grid, group, *buffers)
        length = 2 * run
        while length <= n:
            reach = length // 2
            while reach > run // 2:
                program.launch("merge_global", grid, group, *buffers[2:], np.uint32(length), np.uint32(reach))
                reach //= 2
            program.launch("merge_shared", grid, group, *buffers[2:], np.uint32(length))
            length *= 2

    return one_round


FFT = Case("fft", {"butterflies": 1.0e-3 / (1 << 27)}, _fft(), ("-DGROUP=128",))
HEAT = Case("heat_equation", {"advance": 95e-3 / 100 / 16384**2}, _heat)
BITONIC = Case(
    "bitonic_sort",
    {
        name: took / (1 << 26)
        for name, took in (("sort_shared", 10.7e-3), ("merge_global", 1.15e-3), ("merge_shared", 1.8e-3))
    },
    _bitonic,
    ("-DRUN=1024",),
)

#: what any kernel may do with data: turn it by half, with everything changing hands, or work on it in place
MIXED = """
__kernel void turn(__global const float *from, __global float *to, const uint n, const uint by) {
  const uint i = get_global_id(0);
  to[i] = from[i + by < n ? i + by : i + by - n] + from[n - 1 - i];
}
__kernel void scale(__global float *data) { data[get_global_id(0)] *= 2.0f; }
__kernel void work(__global float *data) { data[get_global_id(0)] += 1.0f; }
"""
N = 1 << 27
#: seconds of one GPU for N items: of the first two bound by its memory, of the last by arithmetic
MIXED_TIMES = {"turn": 0.4e-3 / N, "scale": 0.27e-3 / N, "work": 30e-3 / N}


class Mixed(Program):
    """Two buffers on which the kernels of MIXED work in any order."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(MIXED, MIXED_TIMES, **settings)
        self.now, self.then = self.buffer(4 * N), self.buffer(4 * N)

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            numbers = np.uint32(N), np.uint32(N // 8)
            self.launch("turn", (N,), (256,), self.now, self.then, *numbers)
            self.now, self.then = self.then, self.now

    def touch(self, name: str, count: int = 1) -> None:
        for _ in range(count):
            self.launch(name, (N,), (256,), self.now)


def taken(run: Callable[[Mixed], object], **settings: Any) -> float:
    """Seconds that a program takes."""
    with Mixed(**settings) as program:
        begun = program.wait()
        run(program)
        return program.wait() - begun


@pytest.mark.parametrize("rate", [360e9, 150e9, 40e9])
def test_the_transform_is_no_slower_than_on_one(rate: float) -> None:
    """Every pass exchanges: once that has cost more than gathering, one GPU does the rest."""
    one = FFT.times(1, workers=1)[0]
    split = FFT.times(2, gather=False, peer_rate=rate)[-1]
    chosen = FFT.times(10, peer_rate=rate)
    assert chosen[-1] <= 1.05 * min(one, split)
    assert sum(chosen) <= 3 * 10 * min(one, split)
    if split > 1.2 * one:
        assert chosen[-1] == pytest.approx(one, rel=0.01)


@pytest.mark.parametrize("case", [HEAT, BITONIC], ids=lambda case: case.sample)
def test_what_gains_stays_split(case: Case) -> None:
    one, split = case.times(1, workers=1)[0], case.times(1, gather=False)[0]
    assert split < one / 2
    for chosen in case.times(3):
        assert chosen == pytest.approx(split, rel=0.01)


def test_halos_and_launches_in_place_are_not_even_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """They cost two comparisons: nothing is weighed, and no other plan is submitted for them."""
    monkeypatch.setattr(Choosing, "weigh", lambda *_: pytest.fail("weighed"))
    HEAT.times(1)
    taken(lambda program: program.touch("scale", 20))


def test_launches_without_exchange_are_split_again() -> None:
    with Mixed() as program:
        program.turn(60)
        assert program.spans()[-5:] == [1] * 5
        program.touch("work", 10)
        spans = program.spans()
        assert spans[-5:] == [4] * 5
        assert spans == sorted(spans), "changed once"


def test_the_reason_is_recorded() -> None:
    with Mixed() as program:
        program.turn(60)
        assert program.plans[-1].reasons == (KEPT,)
        program.wait()
        statistics = of_session(program.session)
        (whole,) = (found for found in statistics.kernels[0].partitions if found.workers == 1)
        assert whole.available == 4
        assert whole.reasons[0].text == KEPT
        found = [item for item in advise(statistics) if KEPT in item.problem]
        assert len(found) == 1
        assert "VDEV_GATHER=0" in found[0].change


@given(st.lists(st.tuples(st.sampled_from(["turn", "scale", "work"]), st.integers(1, 40)), max_size=8))
@example([("turn", 17), ("scale", 2), ("work", 5)])  # five launches that would gain by being split
@settings(max_examples=10, deadline=None)
def test_any_program_takes_hardly_longer_than_with_the_better_way(parts: list[tuple[str, int]]) -> None:
    def run(program: Mixed) -> None:
        for name, count in parts:
            if name == "turn":
                program.turn(count)
            else:
                program.touch(name, count)

    alone, split = taken(run, workers=1), taken(run, gather=False)
    gathering = 3 * 4 * N / 4 / 360e9
    # Two changes, of two buffers each, and what is split before the first times are known. A program that ends before it is noticed
    # that it would be faster split takes what one worker takes.
    assert taken(run) <= max(3 * min(alone, split), 1.03 * alone) + 8 * gathering + 4e-3


def test_two_sets_of_buffers_go_their_own_ways() -> None:
    with Mixed() as program:
        other = program.buffer(4 * N)
        for _ in range(30):
            program.turn(2)
            program.launch("work", (N,), (256,), other)
        assert program.spans()[-6:] == [1, 1, 4] * 2


def test_separate_sets_of_buffers_are_kept_on_different_workers() -> None:
    with Mixed() as program:
        program.turn(60)
        first = program.now, program.then
        program.now, program.then = program.buffer(4 * N), program.buffer(4 * N)
        program.turn(60)
        assert {buffer.state.kept for buffer in first} == {0}
        workers = {plan.partition[0][0] for plan in program.plans if len(plan.partition) == 1}
        assert workers == {0, 1}


def test_what_can_be_cut_otherwise_is_split_again_on_all_buffers() -> None:
    """Not only on those of the kernel's last launch: a program may have two sets, in turn."""
    with Mixed() as program:
        program.turn(60)
        first = program.now, program.then
        program.now, program.then = program.buffer(4 * N), program.buffer(4 * N)
        program.turn(60)
        choosing, turn = program.session.choosing, program.kernels["turn"].plans.tally
        choosing.begin_again([])
        assert all(buffer.state.kept is not None for buffer in (*first, program.now, program.then))
        choosing.begin_again([turn])
        assert all(buffer.state.kept is None for buffer in (*first, program.now, program.then))
        assert id(turn) not in choosing.alone


def test_sets_that_meet_are_kept_together() -> None:
    with Mixed() as program:
        program.turn(60)
        first, also_first = program.now, program.then
        program.now, program.then = program.buffer(4 * N), program.buffer(4 * N)
        program.turn(60)
        program.then = first
        program.plans.clear()
        program.turn(10)
        assert {plan.partition[0][0] for plan in program.plans} == {1}
        assert program.spans() == [1] * 10
        assert also_first.state.kept == 1


def test_temporaries_are_kept_where_their_data_is() -> None:
    with Mixed() as program:
        program.turn(60)
        program.plans.clear()
        for _ in range(5):
            program.then = program.session.create_buffer(4 * N)
            program.turn()
        assert program.spans() == [1] * 5


def test_buffers_that_do_not_fit_on_one_worker_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdev.session.accounts._ROOM_SHARE", -1.0)
    with Mixed() as program:
        program.turn(60)
        assert set(program.spans()) == {4}
        assert not program.session.choosing.open


def test_what_no_longer_fits_is_split_again() -> None:
    with Mixed(memory_nbytes=11 * N) as program:
        program.turn(60)
        assert program.spans()[-1] == 1
        third = program.buffer(4 * N)
        program.then = third
        program.turn(2)
        fourth = program.buffer(4 * N)
        program.then = fourth
        program.turn(2)
        assert program.spans()[-1] == 4


def test_the_switch_forces_it_and_turns_it_off() -> None:
    with Mixed(gather=True) as program:
        program.turn(5)
        assert program.spans() == [1] * 5
    with Mixed(gather=False) as program:
        program.turn(60)
        assert set(program.spans()) == {4}
        assert program.session.choosing is None


def test_workers_that_share_memory_or_hardware_choose_nothing() -> None:
    with Mixed() as program:
        gpus = program.session.workers
    assert can_choose(gpus)
    assert not can_choose(gpus[:1])
    assert not can_choose([replace(gpu, is_cpu=True) for gpu in gpus])
    assert not can_choose([replace(gpu, device_key=("one",)) for gpu in gpus])
    assert not can_choose([*gpus, replace(gpus[0], backend="another", device_key=("another",))])
