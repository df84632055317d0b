"""Shared virtual memory: what is native on one device is the same on 1, 2, 3 and 8 workers; what the virtual
device alone decides (splitting, work in place, refusals); memory back to where it began.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.cpu.svm_programs import CALLS, DRIVERS_OWN, FINE, LINKED, PROGRAMS, SOURCE
from vdev.check.checking import LaunchChecker
from vdev.facade import launch, stand_in, svm, svm_memory
from vdev.facade.errors import native
from vdev.facade.platform_device import Platform
from vdev.facade.repeat import RepeatOfPointers
from vdev.process.finalisers import collect
from vdev.process.switches import WorkerSpec
from vdev.session import buffers, making_plans
from vdev.session.session import Session
from vdev.start.engines import register_engines
from vdev.start.workers import open_workers

cl: Any = ModuleType("pyopencl._cl")
stand_in.populate(cl)
FINE_GRAIN = native.svm_mem_flags.SVM_FINE_GRAIN_BUFFER


@functools.cache
def results(workers: int | None) -> dict[str, Any]:
    """What `tests.cpu.svm_programs` finds natively (None) or on so many workers."""
    register_engines()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    environ |= {"PYOPENCL_NO_CACHE": "1"}
    if workers is not None:
        environ |= {
            "VDEV": "1",
            "VDEV_WORKERS": f"cpu:{workers}",
            "VDEV_MIN_ITEMS": "0",
            "VDEV_PLANNING": "always",
        }
    command = [sys.executable, "-m", "tests.cpu.svm_programs"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=900)
    assert "RESULTS" in done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.split("RESULTS")[1])
    assert (found["platform"] == "vdev") == (workers is not None)
    return found


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("name", [*PROGRAMS, *FINE, *LINKED])
def test_programs(name: str, workers: int) -> None:
    assert results(workers)[name] == results(None)[name]


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    native_one = results(None)
    if name in DRIVERS_OWN and "Intel" not in native_one["platform"]:
        pytest.skip("the driver has an answer of its own")
    assert results(2)["calls"][name] == native_one["calls"][name]


# what the virtual device alone decides ----------------------------------------------------------


class Device:
    """A context and a queue over three workers, with the plans of all commands."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ctx = cl.Context(Platform(session).get_devices())
        self.queue = cl.CommandQueue(self.ctx)
        self.program = cl._Program(self.ctx, SOURCE)
        self.program._build(b"")
        self.plans: list[Any] = []
        session.observers.append(lambda command, plan: self.plans.append(plan))

    def allocate(self, nbytes: int, flags: int = 1, queue: Any = None) -> Any:
        return cl.SVMAllocation(self.ctx, nbytes, 0, flags, queue)

    def launch(self, name: str, size: int, *args: Any) -> Any:
        kernel = cl.Kernel(self.program, name)
        for index, arg in enumerate(args):
            kernel.set_arg(index, arg)
        cl.enqueue_nd_range_kernel(self.queue, kernel, (size,), (1,))
        return self.plans[-1]

    def content(self, pointer: Any, dtype: Any = np.float32) -> Any:
        out = np.empty(pointer.size, np.uint8)
        cl._enqueue_svm_memcpy(self.queue, True, cl.SVM(out), pointer)
        return out.view(dtype)


@pytest.fixture
def device() -> Iterator[Device]:
    session = Session(open_workers([WorkerSpec("cpu", (), 3)]))
    yield Device(session)
    session.close()


def test_what_is_offered(device: Device) -> None:
    """Buffers of either grain, without atomics: flags for these and the host's own memory are refused."""
    kinds, flags = native.device_svm_capabilities, native.svm_mem_flags
    (found,) = device.ctx.get_info(native.context_info.DEVICES)
    offered = kinds.COARSE_GRAIN_BUFFER | kinds.FINE_GRAIN_BUFFER
    assert found.get_info(native.device_info.SVM_CAPABILITIES) == offered
    for access in (0, flags.READ_WRITE, flags.READ_ONLY, flags.WRITE_ONLY):
        assert device.allocate(64, access | flags.SVM_FINE_GRAIN_BUFFER).svm_ptr
    for finer in (flags.SVM_ATOMICS, flags.SVM_FINE_GRAIN_BUFFER | flags.SVM_ATOMICS):
        with pytest.raises(native.RuntimeError) as error:
            device.allocate(64, flags.READ_WRITE | finer)
        assert error.value.args[0].routine() == "clSVMAlloc"
    host = cl.SVM(np.zeros(16, np.float32))
    for call, routine, code in (
        (lambda: device.launch("scale", 16, host), "clSetKernelArgSVMPointer", "INVALID_ARG_VALUE"),
        (lambda: cl._enqueue_svm_map(device.queue, True, 1, host), "clEnqueueSVMMap", "INVALID_VALUE"),
        (lambda: cl._enqueue_svm_unmap(device.queue, host), "clEnqueueSVMUnmap", "INVALID_VALUE"),
    ):
        with pytest.raises(native.LogicError) as refused:
            call()
        record = refused.value.args[0]
        assert (record.routine(), record.code()) == (routine, getattr(native.status_code, code))


def test_kernels_are_split_as_with_buffers(device: Device) -> None:
    a, b = device.allocate(3000), device.allocate(3000)
    cl._enqueue_svm_memfill(device.queue, a, np.float32(2))
    cl._enqueue_svm_memfill(device.queue, b, np.float32(3))
    plan = device.launch("add", 750, a, b, a)
    assert len(plan.partition) == 3
    assert (device.content(a) == 5).all()
    plan = device.launch("add", 750, a, b, a)
    assert plan.moved == (), "what a worker has written it has"
    assert (device.content(a) == 8).all()


def test_linked_structures_work_in_place_on_one_worker(device: Device) -> None:
    nodes, out = device.allocate(16 * 90), device.allocate(4 * 30)
    made = device.launch("chain", 90, nodes, np.int32(90))
    followed = device.launch("total", 30, nodes, out)
    for plan, reason in ((made, "the address of a buffer is stored"), (followed, "a pointer that is not")):
        assert len(plan.partition) == 1
        assert reason in plan.reasons[0]
    split = device.launch("values", 90, nodes, np.float32(1))
    assert len(split.partition) == 3, "only where addresses matter"
    assert (device.content(out) == 89 * 45).all()


def test_without_shared_memory_the_same_kernels_only_concern_buffers(device: Device) -> None:
    mf = native.mem_flags
    table = cl.Buffer(device.ctx, mf.READ_WRITE | mf.COPY_HOST_PTR, 0, np.zeros(8, np.uint64))
    plan = device.launch("tell", 8, table, table)
    assert len(plan.partition) > 1
    device.queue.finish()


def test_a_kernel_is_not_analysed_for_memory_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker plans nothing, so that only a kernel's use of addresses could ask for its analysis; and that counts from
    the moment when there is shared virtual memory, also for a kernel whose last launch would be made again.
    """
    assert not svm_memory.is_in_use()
    asked: list[Any] = []
    real = launch.reached_by_address
    monkeypatch.setattr(launch, "reached_by_address", lambda *args: asked.append(real(*args)) or asked[-1])
    session = Session(open_workers([WorkerSpec("cpu", (), 1)]))
    device = Device(session)
    session.observers.clear()
    table, kernel = cl.Buffer(device.ctx, 1, 64), cl.Kernel(device.program, "tell")
    kernel.set_arg(0, table)
    kernel.set_arg(1, table)
    state = kernel._vdev_state

    def launch_twice() -> None:
        launch.launch_captured(device.queue, kernel, state.capture("test"), (8,), (1,), None)
        cl.enqueue_nd_range_kernel(device.queue, kernel, (8,), (1,))

    for _ in range(3):
        launch_twice()
    assert "summary" not in vars(state.kernel)
    assert not asked
    shared = device.allocate(64)
    launch_twice()
    assert [len(found) for found in asked] == [1, 1]
    del shared
    session.close()


def test_refused_where_addresses_mean_nothing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """As clEnqueueNDRangeKernel does for pointers stored in allocations on devices without system SVM."""
    monkeypatch.setattr(svm, "shares_host_memory", lambda worker: False)
    nodes, out = device.allocate(16 * 90), device.allocate(4 * 30)
    with pytest.raises(native.LogicError) as error:
        device.launch("total", 30, nodes, out)
    record = error.value.args[0]
    assert (record.routine(), record.code()) == (
        "clEnqueueNDRangeKernel",
        native.status_code.INVALID_OPERATION,
    )
    assert "a pointer that is not followed (line 19)" in record.what()
    assert len(device.launch("add", 30, out, out, out).partition) == 3
    buffer = cl.Buffer(device.ctx, native.mem_flags.READ_WRITE, 16 * 90)
    assert device.launch("values", 90, buffer, np.float32(1)).partition


# fine-grain memory --------------------------------------------------------------------------------


def fine_array(device: Device, content: Any, dtype: Any = np.float32) -> Any:
    """Fine-grain memory as an array, filled without a command."""
    wanted = np.asarray(content, dtype)
    made = device.allocate(wanted.nbytes, 1 | FINE_GRAIN).buf.view(dtype)
    made[:] = wanted
    return made


@pytest.fixture(params=["in place", "apart"])
def grain(request: pytest.FixtureRequest, device: Device, monkeypatch: pytest.MonkeyPatch) -> str:
    """Workers that use the host's memory in place, and workers that cannot."""
    if request.param == "apart":
        for module in (svm, making_plans):
            monkeypatch.setattr(module, "shares_host_memory", lambda worker: False)
    kind: str = request.param
    return kind


def test_fine_grain_memory_is_used_by_all_workers(device: Device, grain: str) -> None:
    a, b = fine_array(device, np.arange(750)), fine_array(device, np.zeros(750))
    for number in range(5):
        a[:] += 1
        expected = b + a
        plan = device.launch("add", 750, cl.SVM(a), cl.SVM(b), cl.SVM(b))
        device.queue.finish()
        np.testing.assert_array_equal(b, expected)
        assert len(plan.partition) == 3
        assert plan.moved_nbytes == (0 if grain == "in place" else 3 * 3000), number


def test_scattered_writes_beside_the_host(device: Device, grain: str) -> None:
    """The host writes between the places a kernel writes, at the same time: neither loses anything."""
    count = 3000
    a = fine_array(device, np.full(2 * count, -1), np.int32)
    at = fine_array(device, np.random.default_rng(1).permutation(count) * 2, np.int32)
    for number in range(30):
        plan = device.launch("scatter", count, cl.SVM(a), cl.SVM(at))
        a[1::2] = number
        device.queue.finish()
        assert len(plan.partition) == 3
        np.testing.assert_array_equal(a[at], np.arange(count))
        assert (a[1::2] == number).all()
        at[:] = np.roll(at, 7)


def test_counts_beside_the_host(device: Device, grain: str) -> None:
    count = 3000
    bins, of = (
        fine_array(device, np.zeros(count), np.int32),
        fine_array(device, np.arange(count) % 10 * 2, np.int32),
    )
    for number in range(1, 20):
        plan = device.launch("count", count, cl.SVM(bins), cl.SVM(of))
        bins[1::2] = number
        device.queue.finish()
        assert len(plan.partition) == 3
        assert (bins[1::2] == number).all()
        assert (bins[:20:2] == 300 * number).all()


def test_one_kernel_called_again_and_again(device: Device, grain: str) -> None:
    """What shortens repeated launches shortens no way of fine-grain memory, be it given as a buffer."""
    content = fine_array(device, np.ones(300))
    buffer = cl.Buffer(device.ctx, native.mem_flags.READ_WRITE | native.mem_flags.USE_HOST_PTR, 0, content)
    kernel = cl.Kernel(device.program, "scale")
    kernel.set_arg(0, buffer)
    kernel.set_arg(1, np.float32(2))
    for number in range(50):
        content[:] = number
        event = cl.enqueue_nd_range_kernel(device.queue, kernel, (300,), (1,))
        event.wait()
        assert (content == 2 * number).all()


def test_fine_grain_launches_are_checked(device: Device, grain: str) -> None:
    """VDEV_CHECK, while the host is at work in the same allocation."""
    session = device.session
    session.checker = LaunchChecker(session.executor, session.links)
    a = fine_array(device, np.full(6000, -1), np.int32)
    at = fine_array(device, np.random.default_rng(1).permutation(3000) * 2, np.int32)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            a[1::2] += 1

    host = threading.Thread(target=write)
    host.start()
    try:
        for _ in range(3):
            device.launch("scatter", 3000, cl.SVM(a), cl.SVM(at))
    finally:
        stop.set()
        host.join()
    device.queue.finish()
    np.testing.assert_array_equal(a[at], np.arange(3000))
    assert session.checker.nchecked == 3


def allocations() -> int:
    """How many there are; the table forgets what was freed when it is asked for anything."""
    assert svm_memory.find(0) is None
    return len(svm_memory.starts)


def settled(condition: Callable[[], bool]) -> bool:
    """Whether it holds in time: what ends with a command is given back by another thread."""
    deadline = time.monotonic() + 100
    collect()
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
        collect()
    return condition()


def test_memory_goes_back(device: Device) -> None:
    """Released, dropped, enqueued for release, pooled: nothing stays behind."""

    def use(round_number: int) -> None:
        a, b = device.allocate(4000), device.allocate(4000, queue=device.queue)
        c = device.allocate(4000)
        pool = cl.SVMPool(cl.SVMAllocator(device.ctx, 0, 1, device.queue))
        d, e = pool(4000), pool(4000)
        for item in (a, b, c, d, e):
            cl._enqueue_svm_memfill(device.queue, item, np.float32(round_number))
        device.launch("add", 1000, a, b, c)
        device.launch("add", 1000, d, e, d)
        cl._enqueue_svm_map(device.queue, True, 3, c)
        cl._enqueue_svm_unmap(device.queue, c)
        a.release()
        c.enqueue_release(device.queue).wait()
        e.release()

    collect()
    known = len(buffers._by_holdings)
    for number in range(20):
        use(number)
    device.queue.finish()
    assert settled(lambda: allocations() == 0 and len(buffers._by_holdings) <= known)
    assert not svm_memory.is_in_use()


def test_a_kernel_keeps_no_memory(device: Device) -> None:
    kernel = cl.Kernel(device.program, "scale")
    a = device.allocate(4000)
    kernel.set_arg(0, a)
    kernel.set_arg(1, np.float32(2))
    a.release()
    assert svm_memory.find(a.svm_ptr) is None
    with pytest.raises(native.LogicError) as error:
        cl.enqueue_nd_range_kernel(device.queue, kernel, (4,), None)
    assert error.value.args[0].code() == native.status_code.INVALID_KERNEL_ARGS


def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call like the one before it with pointers: whether it was taken for one."""
    found: list[bool] = []
    takes = RepeatOfPointers.takes

    def told(repeat: RepeatOfPointers, kernel: Any, args: Any) -> Any:
        captured = takes(repeat, kernel, args)
        found.append(captured is not None)
        return captured

    monkeypatch.setattr(RepeatOfPointers, "takes", told)
    return found


def callable_kernel(device: Device, name: str) -> Any:
    """A kernel that programs call, without what PyOpenCL generates for its signature."""

    def enqueue(kernel: Any, queue: Any, size: Any, local: Any, *args: Any, wait_for: Any = None) -> Any:
        kernel._set_arg_multi(tuple(itertools.chain(*enumerate(args))))
        return cl.enqueue_nd_range_kernel(queue, kernel, size, local, None, wait_for)

    kernel = cl.Kernel(device.program, name)
    kernel._enqueue = enqueue
    return kernel


@pytest.mark.parametrize("workers", [1, 3])
def test_calls_with_the_same_pointers(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made as those with buffers, with whatever numbers, and others come between; mappings are seen."""
    found = taken(monkeypatch)
    session = Session(open_workers([WorkerSpec("cpu", (), workers)]))
    device = Device(session)
    session.observers.clear()
    queue, kernel = device.queue, callable_kernel(device, "scale")
    a, b = device.allocate(4000), device.allocate(4000)
    made, expected = {}, {}
    for pointer in (a, b):
        made[pointer], expected[pointer] = pointer.buf.view(np.float32), np.arange(1000, dtype=np.float32)
        made[pointer][:] = expected[pointer]
    for number, pointer in enumerate([a] * 12 + [b] * 8 + [a, b] * 3):
        factor = np.float32(1 + number % 3)
        kernel(queue, (1000,), (1,), pointer, factor)
        expected[pointer] *= factor
        if number % 5 == 4:
            cl._enqueue_svm_map(queue, True, 3, pointer)
            np.testing.assert_array_equal(made[pointer], expected[pointer])
            expected[pointer] = made[pointer][:] = (made[pointer] + number) % 64
            cl._enqueue_svm_unmap(queue, pointer)
    for pointer in (a, b):
        np.testing.assert_array_equal(device.content(pointer), expected[pointer])
    assert sum(found) >= 16
    session.close()


def test_fills_and_copies_are_handed_over_as_those_of_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    like_others = svm._like_others

    def told(*given: Any) -> Any:
        done = like_others(*given)
        found.append(done is not None)
        return done

    monkeypatch.setattr(svm, "_like_others", told)
    session = Session(open_workers([WorkerSpec("cpu", (), 1)]))
    device = Device(session)
    session.observers.clear()
    queue, kernel = device.queue, callable_kernel(device, "add")
    a, b, c = (device.allocate(4000) for _ in range(3))
    expected = {pointer: np.zeros(1000, np.float32) for pointer in (a, b, c)}
    for number in range(20):
        start, stop = number * 13, number * 17 + 300
        value = np.float32(number + 1)
        cl._enqueue_svm_memfill(queue, cl.SVM(a.buf[4 * start : 4 * stop]), value)
        expected[a][start:stop] = value
        kernel(queue, (1000,), (1,), a, b, b)
        expected[b] += expected[a]
        span = slice(0, 1000) if number % 2 and number < 8 else slice(start, stop)
        source, target = (cl.SVM(each.buf[4 * span.start : 4 * span.stop]) for each in (b, c))
        cl._enqueue_svm_memcpy(queue, number % 3 == 0, target, source)
        expected[c][span] = expected[b][span]
        kernel(queue, (1000,), (1,), a, c, c)
        expected[c] += expected[a]
    for pointer in (a, b, c):
        np.testing.assert_array_equal(device.content(pointer), expected[pointer])
    assert sum(found) >= 30
    session.close()


def test_pointers_that_are_no_longer_what_they_were(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Released, released in the order of the queue, or freed under an array: the next call has the pointer looked at again."""
    found, queue = taken(monkeypatch), device.queue
    for number in range(3):
        a, out = device.allocate(4000), device.allocate(4000)
        cl._enqueue_svm_memfill(queue, a, np.float32(2))
        cl._enqueue_svm_memfill(queue, out, np.float32(0))
        wrapped = cl.SVM(a.buf)
        kernel = callable_kernel(device, "add")
        given = wrapped if number == 2 else a
        for _ in range(4):
            kernel(queue, (1000,), (1,), given, given, out)
        assert (device.content(out) == 4).all()
        assert found[-2:] == [True, True]
        del found[:]
        if number == 1:
            held = cl.UserEvent(device.ctx)
            a.enqueue_release(queue, [held])
        else:
            a.release()
        if number == 2:
            with pytest.raises(native.LogicError) as error:
                kernel(queue, (1000,), (1,), given, given, out)
            assert "INVALID_ARG_VALUE" in str(error.value)
        else:  # a null pointer by now
            kernel._enqueue = lambda *args, **kwargs: None  # what comes next would use it
            kernel(queue, (1000,), (1,), given, given, out)
        assert found == [False]
        if number == 1:
            held.set_status(native.command_execution_status.COMPLETE)
        del wrapped, given, kernel
    queue.finish()
    out.release()


def test_called_kernels_keep_no_memory(device: Device) -> None:
    kernel, a = callable_kernel(device, "scale"), device.allocate(4000)
    for number in range(6):
        kernel(device.queue, (1000,), (1,), a, np.float32(number))
    device.queue.finish()
    known = len(buffers._by_holdings)
    a.release()
    assert settled(lambda: allocations() == 0 and len(buffers._by_holdings) < known)
    del kernel


def test_many_threads(device: Device) -> None:
    """Allocations, linked work and split work at once, each thread on memory and a queue of its own."""
    problems: list[str] = []

    def work(seed: int) -> None:
        queue, add, total, chain = cl.CommandQueue(device.ctx), "add", "total", "chain"
        kernels = {name: cl.Kernel(device.program, name) for name in (add, total, chain)}
        for number in range(12):
            a, nodes, out = (device.allocate(n, queue=queue) for n in (1200, 16 * 20, 4 * 5))
            cl._enqueue_svm_memfill(queue, a, np.float32(seed))
            for name, size, args in (
                (chain, 20, (nodes, np.int32(20 - number))),
                (add, 300, (a, a, a)),
                (total, 5, (nodes, out)),
            ):
                for index, arg in enumerate(args):
                    kernels[name].set_arg(index, arg)
                cl.enqueue_nd_range_kernel(queue, kernels[name], (size,), (1,))
            sums, found = np.empty(5, np.float32), np.empty(300, np.float32)
            cl._enqueue_svm_memcpy(queue, True, cl.SVM(sums), out)
            cl._enqueue_svm_memcpy(queue, True, cl.SVM(found), a)
            expected = sum(range(20 - number))
            if (sums != expected).any() or (found != 2 * seed).any():
                problems.append(f"thread {seed}, round {number}: {sums[:2]} for {expected}, {found[:2]}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert problems == []


class Model:
    """Allocations beside NumPy arrays, and random commands on both."""

    def __init__(self, device: Device, seed: int) -> None:
        self.device, self.queue = device, device.queue
        self.random = np.random.default_rng(seed)
        self.shared = [self.allocation() for _ in range(3)]
        self.expected = [np.zeros(240, np.float32) for _ in range(3)]
        for pointer, wanted in zip(self.shared, self.expected, strict=True):
            cl._enqueue_svm_memfill(self.queue, pointer, np.float32(0))
            wanted[:] = 0

    def allocation(self) -> Any:
        """Of either grain."""
        return self.device.allocate(4 * 240, 1 | int(self.random.choice([0, FINE_GRAIN])))

    def part(self, count: int) -> tuple[Any, Any]:
        """A pointer to `count` random neighbours, and the same of the model."""
        which, start = self.random.integers(3), self.random.integers(0, 240 - count + 1)
        memory = self.shared[which].buf.view(np.float32)[start : start + count]
        return cl.SVM(memory), self.expected[which][start : start + count]

    def numbers(self, count: int) -> Any:
        return self.random.integers(-9, 9, count).astype(np.float32)

    def split(self) -> None:
        (a, x), (b, y) = self.part(60), self.part(60)
        factor = self.random.choice([-1, 1, 2])
        self.device.launch("scale", 60, a, np.float32(factor))
        x *= np.float32(factor)
        if not np.shares_memory(x, y):
            self.device.launch("add", 60, a, b, b)
            y += x

    def in_place(self) -> None:
        a, x = self.part(40)
        self.device.launch("by_number", 40, np.uint64(a.svm_ptr))
        x[:] = np.arange(40)

    def copy(self) -> None:
        (a, x), (b, y) = self.part(50), self.part(50)
        if not np.shares_memory(x, y):
            cl._enqueue_svm_memcpy(self.queue, bool(self.random.integers(2)), a, b)
            x[:] = y

    def from_host(self) -> None:
        a, x = self.part(70)
        x[:] = self.numbers(70)
        cl._enqueue_svm_memcpy(self.queue, True, a, cl.SVM(x.copy()))

    def fill(self) -> None:
        a, x = self.part(int(self.random.integers(1, 100)))
        x[:] = self.numbers(1)
        cl._enqueue_svm_memfill(self.queue, a, x[:1].copy())

    def map(self) -> None:
        a, x = self.part(30)
        cl._enqueue_svm_map(self.queue, True, 3, a)
        assert (a.mem == x).all()
        x[::2] = self.numbers(15)
        a.mem[::2] = x[::2]
        cl._enqueue_svm_unmap(self.queue, a)

    def scribble(self) -> None:
        """The host writes to fine-grain memory when the queue is done, without a command, and sees what is there."""
        self.queue.finish()
        for pointer, wanted in zip(self.shared, self.expected, strict=True):
            if svm_memory.find(pointer.svm_ptr).buffer.state.fine:
                seen = pointer.buf.view(np.float32)
                np.testing.assert_array_equal(seen, wanted)
                seen[::7] = wanted[::7] = self.numbers(35)

    def replace(self) -> None:
        """Free one with commands on it on their way, and take another."""
        which = self.random.integers(3)
        self.shared[which].enqueue_release(self.queue)
        self.shared[which] = self.allocation()
        self.expected[which][:] = self.numbers(240)
        content = cl.SVM(self.expected[which].copy())
        cl._enqueue_svm_memcpy(self.queue, True, self.shared[which], content)

    def check(self) -> None:
        for pointer, wanted in zip(self.shared, self.expected, strict=True):
            np.testing.assert_array_equal(self.device.content(pointer), wanted)


@pytest.mark.parametrize("seed", range(10))
def test_random_commands(device: Device, seed: int) -> None:
    model = Model(device, seed)
    commands = (
        model.split, model.split, model.in_place, model.copy, model.from_host, model.fill, model.map,
        model.replace, model.check, model.scribble,
    )  # fmt: skip
    for number in model.random.integers(0, len(commands), 120):
        commands[number]()
    model.check()


def test_mappings_that_only_a_collection_finds(device: Device) -> None:
    """As `pyopencl.SVMMap` does it: the finaliser unmaps, and a collection may run it anywhere."""

    class Mapping:
        def __init__(self, pointer: Any) -> None:
            self.svm, self.itself = pointer, self
            cl._enqueue_svm_map(device.queue, True, 3, pointer)

        def __del__(self) -> None:
            cl._enqueue_svm_unmap(device.queue, self.svm)

    for _ in range(20):
        Mapping(device.allocate(64))
    assert settled(lambda: allocations() == 0)
