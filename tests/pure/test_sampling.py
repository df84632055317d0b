"""Samples of launches: what they measure, and that they change nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from tests.pure.test_event_order import wait_until
from tests.pure.test_session_failures import LOCAL, NBYTES, WORDS, Program, ended, numbers, triple
from vdev.backends.base import Marker, Times
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.errors import OUT_OF_RESOURCES, BackendError
from vdev.executor.completion import Completion
from vdev.executor.sampling import Measured, Sample, sampled
from vdev.session.commands import BufferArg, Read
from vdev.session.session import VirtualBuffer


def one_sample(
    program: Program, out: VirtualBuffer, source: VirtualBuffer, *, profiled: bool = False
) -> tuple[Completion, Sample]:
    """The launch that the program made last, submitted once more with a sample taken. `profiled`: its own times are wanted as well."""
    cache = program.kernel.plans
    assert cache is not None
    cached = [*cache._plans.values(), *cache.placed.values()][-1]
    prepared, sample = sampled(cached.prepared)
    completion = Completion(profiled)
    program.session.executor.submit(
        prepared,
        [out.holdings, source.holdings],
        completion,
        args=(BufferArg(out, 0, NBYTES), BufferArg(source, 0, NBYTES)),
        ndrange=NDRange((WORDS,), (LOCAL,), (0,)),
        places=((0, 0, 0), (1, 1, 0)) if cached.direct else (),
    )
    return completion, sample


def measured_by(sample: Sample) -> Measured:
    """What a sample has measured of a launch that has ended: its worker's thread may have yet to note the markers."""
    wait_until(lambda: len(sample._parts) == sample._count)
    measured = sample.take()
    assert measured is not None
    return measured


def second_launch() -> int:
    """The number of the operation that a sampled launch is, behind bytes that are brought to it again."""
    with Program() as program:
        out, source = program.buffer(), program.buffer(5)
        program.launch(out, source)
        one_sample(program, out, source)
        program.session.executor.quiesce()
        return [at for at, what in enumerate(program.backends[1].log) if what == "launch"][1]


SECOND = second_launch()


def test_a_sample_has_the_times_of_the_kernel_and_of_its_transfers() -> None:
    with Program() as program:
        out, source = program.buffer(), program.buffer(5)
        assert ended(program.launch(out, source)) == 0
        moving, sample = one_sample(program, out, source)  # the plan that brought the source
        assert ended(moving) == 0
        measured = measured_by(sample)
        assert set(measured.kernel) == set(measured.before) == {0, 1}
        assert all(0 < took < 1000 for took in [*measured.kernel.values(), *measured.before.values()])
        assert [backend.counters.launches for backend in program.backends] == [2, 2]
        np.testing.assert_array_equal(program.content(out), triple(numbers(5)))


def test_a_launch_to_which_nothing_is_brought_has_a_kernel_alone() -> None:
    with Program() as program:
        out, source = program.buffer(), program.buffer(5)
        for _ in range(2):
            assert ended(program.launch(out, source)) == 0
        completion, sample = one_sample(program, out, source)
        assert ended(completion) == 0
        measured = measured_by(sample)
        assert set(measured.kernel) == {0, 1}
        assert measured.before == {}


@pytest.mark.parametrize("told", [(1000, 3000), (0, 0)], ids=["told", "not told"])
def test_the_kernel_alone_counts_where_the_back_end_tells_it(
    told: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between markers there is the host's time for handing the launch over, which a device without other work waits for."""
    with Program() as program:
        out, source = program.buffer(), program.buffer(5)
        assert ended(program.launch(out, source)) == 0
        monkeypatch.setattr(ReferenceBackend, "begins_timed", True)
        monkeypatch.setattr(ReferenceBackend, "begin_timed", lambda each: len(each.log))
        asked: list[int] = []

        def timer(each: ReferenceBackend, begun: object, count: int) -> Callable[[], tuple[int, int]]:
            assert isinstance(begun, int)
            assert each.log[begun:] == ["launch"] * count
            return lambda: asked.append(count) or told

        monkeypatch.setattr(ReferenceBackend, "timer", timer)
        completion, sample = one_sample(program, out, source)
        assert ended(completion) == 0
        measured = measured_by(sample)
        assert asked == [1, 1]
        assert [took == pytest.approx(2e-6) for took in measured.kernel.values()] == [told[1] > 0] * 2
        assert all(measured.kernel.values())


@pytest.mark.parametrize("launches", [1, 2], ids=["with its transfers", "alone"])
def test_a_sampled_launch_tells_its_own_times_too(launches: int) -> None:
    """The sample's markers stand around the kernel: nothing is left for one behind the launch."""
    with Program() as program:
        out, source = program.buffer(), program.buffer(5)
        for _ in range(launches):
            assert ended(program.launch(out, source)) == 0
        completion, sample = one_sample(program, out, source, profiled=True)
        assert ended(completion) == 0
        measured, times = measured_by(sample), completion.times
        assert times is not None
        assert (times[3] - times[2]) * 1e-9 > max(measured.kernel.values()) * 0.999
        assert set(measured.before) == ({0, 1} if launches == 1 else set())


def test_times_that_are_not_told_fail_nobody() -> None:
    """A launch asks for those of an earlier one."""

    class Untold(Marker):
        def wait(self) -> None:
            """It is done."""

        def done(self) -> bool:
            return True

        def times(self) -> Times | None:
            raise BackendError(OUT_OF_RESOURCES, "time of an event")

    sample = Sample(1, 1)
    sample.add(0, None, Untold())
    sample.end(0, Untold())
    assert sample.take() is None
    assert sample.take_after() == {}


def test_nobody_waits_for_a_sample() -> None:
    with Program() as program:
        out, source = program.buffer(), program.buffer(5)
        assert ended(program.launch(out, source)) == 0
        going_on = threading.Event()
        slow = Faults(delay=lambda number: 0 if going_on.wait(60) else 1)
        for backend in program.backends:
            backend.faults = slow
        completion, sample = one_sample(program, out, source)
        assert sample.take() is None, "not complete yet"
        going_on.set()
        assert ended(completion) == 0
        assert measured_by(sample)


@pytest.mark.parametrize(
    "faults",
    [Faults(refuse={SECOND: -5}), Faults(fail={SECOND: -5})],
    ids=["refused", "fails on the device"],
)
def test_a_launch_that_fails_fails_as_without_a_sample(faults: Faults) -> None:
    with Program(2, {1: faults}) as program:
        out, source = program.buffer(), program.buffer(5)
        assert ended(program.launch(out, source)) == 0
        completion, sample = one_sample(program, out, source)
        assert ended(completion) == -5
        assert sample.take() is None
        assert ended(program.launch(out, source)) == 0
        np.testing.assert_array_equal(program.content(out), triple(numbers(5)))


def test_a_sample_begins_behind_a_read_that_its_caller_has_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a read is no step of the worker's; what passes between it and the launch is the program's."""
    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", True)
    before: list[int] = []
    launch = ReferenceBackend.launch
    with Program(1) as program:
        out, source = program.buffer(), program.buffer(5)
        for _ in range(2):
            assert ended(program.launch(out, source)) == 0
        completion, sample = one_sample(program, out, source)
        assert ended(completion) == 0
        host = np.zeros(NBYTES, np.uint8)
        program.read(out)[0].wait()  # its plan is known from now on
        read = Read(out, Layout.contiguous(0, NBYTES), host)
        while program.session.read_at_once(read, program.queue) is None:
            pass
        (backend,) = program.backends
        assert backend.pending(), "a marker behind the read would be of use to nobody"
        monkeypatch.setattr(
            ReferenceBackend,
            "launch",
            lambda each, *args: before.append(each.pending()) or launch(each, *args),
        )
        completion, sample = one_sample(program, out, source)
        assert ended(completion) == 0
        assert before == [0]
        measured = measured_by(sample)
        assert measured.before == {}
