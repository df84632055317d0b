"""Launches that are weighed, and come again all the same: on several GPUs, on machines without one (`vdev.session.weighed_recalls`);
and how often launches that exchange much are weighed, on simulated GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange

from tests.pure import fake_cuda
from tests.pure.cuda_host import COMPILER, MISSING
from tests.pure.test_choosing import Program, source_of
from tests.pure.test_never_slower import Bench, simulated_host
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND
from vdev.observe.snapshots import of_session
from vdev.planner.links import LinkCosts
from vdev.planner.regret import Stake
from vdev.planner.timing import Least, MachineTimes
from vdev.session.accounts import Account
from vdev.session.choosing import Choosing
from vdev.session.kernel_timing import LONG_UNKNOWN, KernelTiming
from vdev.session.split_launches import SplitLaunches
from vdev.session.way_times import WayTimes

#: each launch is weighed, which changes nothing until it does; what is read of a buffer is changed by others a step later
PROGRAM = """
import numpy as np, pyopencl as cl
from vdev.session import launches
from vdev.session.choosing import Choosing
from vdev.start.current import get_session
handed, weighed, answer = [0], [0], [False]
recall = launches.recall_weighed
def counted(*given):
    found = recall(*given)
    handed[0] += found is not None
    return found
launches.recall_weighed = counted
def weigh(self, *given):
    weighed[0] += 1
    return answer[0]
Choosing.weigh, Choosing.counts = weigh, lambda self, *given, **named: True
context = cl.create_some_context(interactive=False)
queue, other = cl.CommandQueue(context), cl.CommandQueue(context)
turned = cl.Kernel(cl.Program(context, '''kernel void turned(global uint *out, global const uint *a, const uint n)
{ const uint i = get_global_id(0); uint sum = a[i]; for (uint k = 0; k < n; k += n / 8) sum += a[(i + k) % n]; out[i] = sum; }
''').build(), "turned")
turned.set_arg_types([None, None, np.uint32])
n, flags = 6144, cl.mem_flags
array = np.arange(n, dtype=np.uint32)
pair = [cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=array) for _ in range(2)]
last = []
def step(number):
    global array, last
    here = queue if number % 5 else other
    last = [turned(here, (n,), (64,), pair[1 - number % 2], pair[number % 2], np.uint32(n), wait_for=last)]
    array = array + sum(np.roll(array, -k) for k in range(0, n, n // 8))
def is_right(number):
    found = np.empty(n, np.uint32)
    cl.enqueue_copy(queue, found, pair[number % 2], wait_for=last)
    return (found == array).all()
for number in range(40):
    step(number)
    queue.finish(), other.finish()
assert is_right(40)
before, asked, number = handed[0], weighed[0], 40
for number in range(40, 120):
    step(number)
    if number % 30 == 9:
        assert is_right(number + 1)
assert is_right(120)
assert weighed[0] >= asked + 80, (asked, weighed, handed)
assert handed[0] >= before + 20, (before, handed)  # a worker's thread that is at work, on a busy machine, takes a launch itself
before, answer[0] = handed[0], True
for number in range(120, 124):
    step(number)
assert handed[0] == before, "its way changes"
assert is_right(124)
print("right")
"""


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("orders", [{"late": 0}, {"seed": 3}], ids=["late-0", "seed-3"])
def test_weighed_launches_come_again(tmp_path: Path, orders: dict[str, int]) -> None:
    assert "right" in _run(tmp_path, "", **orders)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize(
    "defect",
    ["weighed launches are submitted", "launches are handed over as before though their way changes"],
)
def test_a_defect_is_found(tmp_path: Path, defect: str) -> None:
    with pytest.raises(AssertionError):
        _run(tmp_path, defect, late=0)


def _run(folder: Path, planted: str, **orders: int) -> str:
    always = {"VDEV_PLANNING": "auto", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "3"}
    env = fake_cuda.environment(folder, "cuda:0-2", **orders) | always
    if planted:
        env[fake_cuda.PLANTED] = planted
    return fake_cuda.run(PROGRAM, env)


@pytest.fixture
def clocks() -> Iterator[list[Bench]]:
    with simulated_host() as benches:
        yield benches


def test_launches_that_gain_are_seldom_weighed_though_they_exchange_much(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each weighing takes the host as long as several launches."""
    weighed, weigh = [0], Choosing.weigh

    def counted(self: Choosing, *given: object, **more: object) -> bool:
        weighed[0] += 1
        return weigh(self, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Choosing, "weigh", counted)
    n, steps = 1 << 22, 400
    bench = Bench({"share": 3e-12, "dangle": 1e-10, "gather": 4e-3 / n}, n, steps, 4, PEER_BYTES_PER_SECOND)
    clocks.append(bench)
    bench.build(source_of("page_rank"), GROUP=256)
    nbytes = (4 * n + 4, 32 * n, 4 * n, 4 * n, 4 * n, 1024)
    starts, sources, links, ranks, shares, partial = [bench.program.buffer(each) for each in nbytes]
    count, seen = np.int32(n), 0
    for step in range(steps):
        if step == steps // 2:
            seen = weighed[0]
        bench.run("share", (n,), (256,), ranks, links, shares, count)
        bench.run("dangle", (1 << 16,), (256,), ranks, links, partial, count)
        bench.run(
            "gather",
            (n,),
            (256,),
            starts,
            sources,
            shares,
            partial,
            np.int32(256),
            ranks,
            np.float32(0.85),
            count,
        )
    assert of_session(bench.program.session).kernel("gather").split >= steps // 2
    assert weighed[0] - seen <= steps // 4, "of three times as many launches"


def test_only_split_launches_stand_behind_the_next_that_is_weighed() -> None:
    """Those that run on one worker, where their buffers are kept, have neither gained nor lost by exchanges; nor do those count that were
    split before another way was taken.
    """
    with Program("kernel void f(global int *a) { a[get_global_id(0)] = 1; }", {"f": 1e-9}) as program:
        program.launch("f", (1 << 20,), (64,), program.buffer(4 << 20))
        choosing, plans = program.session.choosing, program.kernels["f"].plans
        assert choosing is not None
        assert plans is not None
        timing, stake = (
            choosing.times.timing(plans.tally),
            Stake(1 << 20, 0.25, None, (0,), 0.0, (), 0.0, False),
        )
        timing.pause, timing.unweighed = 100, 0
        for kept, counted in ((None, 1), (0, 1), (None, 2)):
            assert not choosing.counts(replace(stake, kept=kept), 0.0, plans.tally)
            assert timing.unweighed == counted
        timing.look_again()
        assert timing.unweighed == 0


def test_what_leaves_its_buffers_as_they_are_does_not_rest() -> None:
    """Once it is not weighed it is repeated, which asks nobody: launches of one work-group would be planned as long as the program runs."""
    with Program("kernel void f(global int *a) { a[get_global_id(0)] = 1; }", {"f": 1e-9}) as program:
        program.launch("f", (64,), (64,), program.buffer(256))
        choosing, plans = program.session.choosing, program.kernels["f"].plans
        assert choosing is not None
        assert plans is not None
        choosing.thrifty = True
        timing = choosing.times.timing(plans.tally)
        timing.rests(1e-5, 1e-4)
        assert timing.rest > 100
        stake = Stake(64, 1.0, None, (0,), 0.0, (), 0.0, False)
        for steady in (True, False):
            assert choosing.counts(stake, 0.0, plans.tally, steady=steady) == steady


def _gains_and_loses() -> tuple[SplitLaunches, Account, Any, list[KernelTiming], list[Stake]]:
    """Two kernels of one account, of which the first is known: it gains 490 us with each launch, and the other one loses 95 us."""
    times = WayTimes(MachineTimes(), LinkCosts.uniform(2), exchanges=True)
    times.unit = 1e-10
    samples: Any = SimpleNamespace(are_under_way=lambda timing: False)
    split, account = SplitLaunches(times, samples, counts=cast(Any, None)), Account()
    launch: Any = SimpleNamespace(ndrange=NDRange((1 << 20,), (64,), (0,)))
    nitems, tally = 1 << 20, cast(Any, SimpleNamespace(launches=0))
    timings, stakes = [], []
    for number, moved in enumerate((1e5, 1e6)):  # 10 us and 100 us
        stake = Stake(nitems, 0.5, None, (0,), moved, (0, 1), 1e5, True, workers=2, incoming=moved)
        timing = KernelTiming(Least())
        timing.stake, timing.sizes[nitems.bit_length()] = stake, stake
        account.kernels[number] = tally, timing, 0
        timings.append(timing)
        stakes.append(stake)
    timings[0].times.add(nitems, [5e-4, 5e-4])
    return split, account, launch, timings, stakes


def test_what_gains_is_weighed_together_with_what_loses_once_both_are_known() -> None:
    """A kernel is measured sooner than another: what launches of both have exchanged until then is one sum, and not the losses alone."""
    split, account, launch, (gains, loses), stakes = _gains_and_loses()
    for _ in range(20):
        assert not split.exchanges_lose(account, launch, gains, stakes[0], stakes[0].moved)
        loses.unweighed += 1
    loses.times.add(1 << 20, [5e-6, 5e-6])
    assert not split.exchanges_lose(account, launch, loses, stakes[1], stakes[1].moved)
    assert gains.unweighed == loses.unweighed == 0
    found = [split.exchanges_lose(account, launch, loses, stakes[1], stakes[1].moved) for _ in range(20)]
    assert any(found), "from now on there are none that gain"


def test_what_stays_unknown_is_not_weighed_for_the_time_before() -> None:
    """What others gained meanwhile was weighed without it."""
    split, account, launch, (gains, loses), stakes = _gains_and_loses()
    for _ in range(LONG_UNKNOWN):
        account.kernels[1][0].launches += 1
        split.exchanges_lose(account, launch, gains, stakes[0], stakes[0].moved)
        loses.unweighed += 1
    assert not split.exchanges_lose(account, launch, gains, stakes[0], stakes[0].moved)
    loses.times.add(1 << 20, [5e-6, 5e-6])
    assert not gains.unweighed
    assert not loses.unweighed


def test_plans_that_were_gained_before_have_to_be_made_once_more_over_another_number_of_workers() -> None:
    times, nitems = WayTimes(MachineTimes(), LinkCosts.uniform(4), exchanges=True), 1 << 20
    split = SplitLaunches(times, cast(Any, None), cast(Any, SimpleNamespace(of=lambda account: 4)))
    kernel: Any = SimpleNamespace(scalars=())
    launch: Any = SimpleNamespace(kernel=kernel, args=(), ndrange=NDRange((nitems,), (64,), (0,)))
    tally: Any = SimpleNamespace(launches=0)
    account, stake = Account(), Stake(nitems, 0.25, None, (0,), 0.0, (), 0.0, False, workers=4)
    account.prepaid = 0.01
    split._note(account, launch, tally, stake, 5e-4)
    assert account.thought_once == 0.0
    assert (account.prepaid, account.planned) == pytest.approx((0.0095, 5e-4))
