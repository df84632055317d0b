"""What is done beside the program: in order, whatever fails; and kernels for cuts in cycles, for which no launch waits."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from vdev.translators.interpreter import access

from tests.pure.own_thread import on_this_thread
from tests.pure.test_choosing import Program, source_of
from tests.pure.test_never_slower import Bench, simulated_host
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND, VirtualGpu
from vdev.backends.base import BackendProgram, BuildResult, Merging
from vdev.errors import BuildFailure
from vdev.planner.instructions import Plan
from vdev.process import beside as beside_module
from vdev.process import ending
from vdev.process.beside import Beside, beside
from vdev.process.beside import compilers as compiling
from vdev.session import programs

#: whether a test has left a piece of work, and what that has done
_left: list[str] = []


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """For pieces that end soon, on a machine that has much to do."""
    for name in ("_LONGEST", "_PAUSING"):
        monkeypatch.setattr(beside_module, name, 100.0)


def test_a_test_may_leave_work_beside_it() -> None:
    _left.append("begun")
    assert beside.begin(lambda: time.sleep(0.3) or _left.append("done"))


def test_and_the_next_one_begins_when_that_is_done() -> None:
    """It would have a part in what the next test changes or counts in this process (`conftest`)."""
    assert _left in ([], ["begun", "done"])


def test_pieces_are_done_in_order_whatever_fails(caplog: pytest.LogCaptureFixture) -> None:
    done: list[Any] = []

    def fail() -> None:
        done.append("failed")
        raise OSError("a piece that fails")

    with caplog.at_level(logging.ERROR, "vdev.process.beside"):
        own = Beside()
        assert all(
            own.begin(each)
            for each in (lambda: done.append(threading.get_ident()), fail, lambda: done.append(2))
        )
        own.wait()
    assert done[1:] == ["failed", 2]
    assert done[0] != threading.get_ident()
    assert "a piece that fails" in caplog.text
    assert own.begin(lambda: done.append(3)), "its thread had gone"
    own.wait()
    assert done[-1] == 3


@pytest.mark.parametrize("later", [0, 1])
def test_some_pieces_are_done_at_a_time_and_a_fork_waits_for_each(later: int) -> None:
    several, together, done = Beside(2), threading.Barrier(3), []
    may_end = [threading.Event(), threading.Event()]

    def piece(number: int) -> None:
        together.wait(100)
        may_end[number].wait(100)
        done.append(number)

    for number in range(2):
        assert several.begin(partial(piece, number))
    assert several.begin(lambda: done.append(2))
    together.wait(100)
    assert not done
    may_end[1 - later].set()
    threading.Timer(0.05, may_end[later].set).start()
    let_go = several._pause()
    begun = {*done}
    let_go()
    assert begun >= {0, 1}
    several.wait()
    assert sorted(done) == [0, 1, 2]


def test_where_there_is_one_thread_and_no_other_that_one_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    several, may_end, done = Beside(2), threading.Event(), []
    assert several.begin(may_end.wait)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", on_this_thread(refuse, threading.Thread.start))
        assert several.begin(lambda: done.append("later"))
    may_end.set()
    several.wait()
    assert done == ["later"]


def test_the_end_waits_for_what_has_begun_and_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    actions: list[Any] = []
    monkeypatch.setattr(ending, "at_end", actions.append)
    own, begun, may_end, done = Beside(), threading.Event(), threading.Event(), []

    def first() -> None:
        begun.set()
        may_end.wait()
        done.append("first")

    own.begin(first)
    own.begin(lambda: done.append("second"))
    begun.wait()
    (end,) = actions
    threading.Timer(0.05, may_end.set).start()
    end()
    own.wait()
    assert done == ["first"]
    assert not own.begin(first), "the process ends"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_waits_for_what_has_begun() -> None:
    begun, may_end, done = threading.Event(), threading.Event(), []

    def piece() -> None:
        begun.set()
        may_end.wait()
        done.append("piece")

    assert beside.begin(piece)
    begun.wait()
    threading.Timer(0.05, may_end.set).start()
    child = os.fork()
    if not child:
        os._exit(0 if done and beside.begin(begun.clear) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert beside.begin(begun.clear), "it goes on"
    beside.wait()
    assert not begun.is_set()


def test_without_another_thread_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    own, done = Beside(), []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", on_this_thread(refuse, threading.Thread.start))
        assert not own.begin(lambda: done.append("refused"))
    own.wait()
    assert own.begin(lambda: done.append("later"))
    own.wait()
    assert done == ["later"]


LOCKED = """
import os, threading
from vdev.process import beside as module
from vdev.process.beside import beside
from vdev.process.forking import before_fork
module._PAUSING = 100.0
lock, running, begun, done = threading.Lock(), threading.Event(), threading.Event(), []
def held():
    lock.acquire()
    return lock.release
before_fork(held)
def piece():
    running.set()
    begun.wait()
    with lock:
        done.append("piece")
assert beside.begin(piece)
running.wait()  # one that has not begun does not begin during a fork
threading.Timer(0.05, begun.set).start()
child = os.fork()
if not child:
    os._exit(0 if done else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the fork did not wait"
"""


def test_a_piece_gets_the_locks_that_others_hold_during_a_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOCKED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_c_program_has_nothing_done_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "is_called_by_c", lambda: True)
    assert not Beside().begin(lambda: None)


class Compilers:
    """Simulated GPUs whose compiler takes as long as the test likes."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.may_end = threading.Event()
        self.ahead: list[BackendProgram] = []
        self.built: list[BackendProgram] = []
        self.calling = threading.get_ident()

    def compile_ahead(self, _: VirtualGpu, program: BackendProgram) -> None:
        assert threading.get_ident() != self.calling, "the program waits"
        self.may_end.wait()
        self.ahead.append(program)
        if self.refuses:
            raise BuildFailure("refused")

    def build(self, gpu: VirtualGpu, program: BackendProgram) -> BuildResult:
        if program.renumbers:
            assert program in self.ahead, "the program waits"
            if self.refuses:
                raise BuildFailure("refused")
        return BUILD(gpu, program)


BUILD = VirtualGpu.build


@pytest.fixture
def clocks() -> Iterator[list[Bench]]:
    with simulated_host() as found:
        yield found


@pytest.fixture(params=[False, True])
def compilers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Compilers]:
    found = Compilers(refuses=request.param)
    monkeypatch.setattr(VirtualGpu, "compiles_ahead", True)
    monkeypatch.setattr(
        VirtualGpu, "compile_ahead", lambda gpu, program: found.compile_ahead(gpu, program), raising=False
    )
    monkeypatch.setattr(VirtualGpu, "build", lambda gpu, program: found.build(gpu, program))
    yield found
    found.may_end.set()
    compiling.wait()


def _rounds(bench: Bench, count: int) -> bool:
    """Fill and sum so many times; whether the last writes were cut into blocks in turn."""
    n, groups = bench.size, 4096
    values, sums = bench.zeros(n), bench.zeros(groups)
    plans: list[Plan] = []
    bench.program.session.observers[:] = [lambda _, plan: plans.append(plan)]
    for number in range(count):
        bench.run("fill", (n,), (256,), values, np.float32(1), np.uint32(number), np.uint32(n))
        bench.run("sum", (groups * 256,), (256,), values, sums, np.uint32(n))
        bench.program.wait()
    return any(chunk.cycle is not None for _, chunk in plans[-2].partition)


def test_kernels_are_analysed_beside_the_program(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time that they are launched that is done."""
    found: list[tuple[str, bool]] = []
    analyse, calling = access.analyse_kernel, threading.get_ident()

    def analysed(model: Any, kernel: str) -> Any:
        found.append((kernel, threading.get_ident() == calling))
        time.sleep(0.15)  # others have the processor
        until = time.thread_time() + 0.15
        while (
            time.thread_time() < until
        ):  # and the collector comes by, with all objects of the process to look at
            gc.collect()
        return analyse(model, kernel)

    monkeypatch.setattr(access, "analyse_kernel", analysed)
    monkeypatch.setenv("VDEV_CACHE", "0")
    n = 1 << 22
    bench = Bench({"fill": 1e-9, "sum": 1e-9}, n, 0, 2, PEER_BYTES_PER_SECOND)
    bench.build(source_of("fill_and_sum"), GROUP=256)
    clocks.append(bench)
    beside.wait()
    bench.run("fill", (n,), (256,), bench.zeros(n), np.float32(1), np.uint32(0), np.uint32(n))
    assert sorted(found) == [("fill", False), ("sum", False)]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_exchanges_need_is_compiled_beside_the_first_program(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    done: list[tuple[int, bool]] = []
    calling = threading.get_ident()

    def preparations(gpu: VirtualGpu) -> list[Any]:
        return [lambda: done.append((gpu._number, threading.get_ident() == calling))]

    monkeypatch.setattr(VirtualGpu, "preparations", preparations)
    with Program(
        source_of("fill_and_sum"), {"fill": 1e-9, "sum": 1e-9}, workers=workers, options=("-DGROUP=256",)
    ) as program:
        program.session.build("kernel void other(global int *a) { a[0] = 1; }")
        compiling.wait()
    assert sorted(done) == (
        [(0, False), (1, False)] if workers > 1 else []
    )  # two are compiled at a time where there are four processors


def test_compilers_begin_before_the_first_program_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read and to translate it takes the calling thread as long as they take."""
    done: list[str] = []
    translate = programs.translate
    monkeypatch.setattr(VirtualGpu, "preparations", lambda gpu: done.append("compilers") or [])
    monkeypatch.setattr(programs, "translate", lambda given: done.append("translation") or translate(given))
    monkeypatch.setenv("VDEV_CACHE", "0")
    with Program(MERGED, {}, workers=2):
        assert done == ["compilers", "compilers", "translation"]
        beside.wait()


def test_no_analysis_waits_for_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, done = threading.Event(), []
    analyse = access.analyse_kernel

    def compile_one() -> None:
        may_end.wait(100)  # so long only where somebody waits for it
        done.append("compiled")

    monkeypatch.setattr(VirtualGpu, "preparations", lambda gpu: [compile_one])
    monkeypatch.setattr(access, "analyse_kernel", lambda *given: done.append("analysed") or analyse(*given))
    monkeypatch.setenv("VDEV_CACHE", "0")
    with Program(MERGED, {}, workers=2):
        beside.wait()
        may_end.set()
        compiling.wait()
    assert done[0] == "analysed"


#: kernels, and what several workers may have to merge of them: a store of which it is known what it writes is no such
MERGED = """
kernel void known(global int *a, int n) { int i = get_global_id(0); if (i < n) a[i] = n; }
kernel void scattered(global float *a, global const int *at) { a[at[get_global_id(0)]] = 1; }
kernel void marked(global uchar *a, global const int *b) { int i = get_global_id(0); if (b[i] > 0) a[i] = 1; }
kernel void counted(global uint *a, global const int *b) { atomic_inc(&a[b[get_global_id(0)]]); }
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_what_merges_need_is_compiled_beside_the_program(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Once the analysis has found that there may be some: the launch that merges first would wait for a compiler."""
    done: list[tuple[int, str, str, int | None]] = []
    calling = threading.get_ident()

    def preparations(gpu: VirtualGpu, merging: Merging) -> list[Any]:
        op, dtype, grain = merging
        return [
            lambda: done.append(
                (gpu._number, op, dtype or "", threading.get_ident() != calling and grain.unit)
            )
        ]

    monkeypatch.setattr(VirtualGpu, "merge_preparations", preparations)
    monkeypatch.setenv("VDEV_CACHE", "0")
    times = dict.fromkeys(("known", "scattered", "marked", "counted"), 1e-9)
    with Program(MERGED, times, workers=workers):
        beside.wait()
        compiling.wait()
    each = [("add", "uint32", None), ("diff", "", 1), ("diff", "", 4)]
    numbers = range(workers) if workers > 1 else ()
    assert sorted(done) == [(number, *kind) for number in numbers for kind in each]


def test_launches_go_on_while_kernels_for_cycles_are_compiled(
    clocks: list[Bench], compilers: Compilers
) -> None:
    n = 1 << 29
    bench = Bench({"fill": 0.9e-3 / n, "sum": 1.3e-3 / (4096 * 256)}, n, 0, 2, PEER_BYTES_PER_SECOND)
    bench.build(source_of("fill_and_sum"), GROUP=256)
    clocks.append(bench)
    assert not _rounds(bench, 12), "the compiler is still at it"
    assert not compilers.ahead
    analysed = threading.Event()
    assert beside.begin(analysed.set)
    assert analysed.wait(100), "an analysis waits for the compiler"
    compilers.may_end.set()
    compiling.wait()
    assert {program.renumbers for program in compilers.ahead} == {True}
    assert _rounds(bench, 12) is not compilers.refuses


@pytest.mark.parametrize("rounds", [12, 160])
def test_what_was_kept_meanwhile_is_split_once_kernels_are_there(
    clocks: list[Bench], compilers: Compilers, rounds: int
) -> None:
    """Until then launches exchange so much that one worker is better: that says nothing of how they are cut now."""
    n = 1 << 29
    bench = Bench({"fill": 0.9e-3 / n, "sum": 1.3e-3 / (4096 * 256)}, n, 0, 2, PEER_BYTES_PER_SECOND)
    bench.build(source_of("fill_and_sum"), GROUP=256)
    clocks.append(bench)
    for _ in range(rounds // 12):  # on new buffers each time
        assert not _rounds(bench, 12)
    compilers.may_end.set()
    compiling.wait()
    assert _rounds(bench, 40) is not compilers.refuses
