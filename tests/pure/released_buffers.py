"""Programs that release buffers and make others of their size, through PyOpenCL: a process of its own, started by `test_spare_buffers`.

Each function is one program; it fails where a new buffer has anything of a released one but its memory.
"""

from __future__ import annotations

import os
import sys
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pyopencl as cl

from tests.pure.fake_cuda import PLANTED
from vdev.process.finalisers import collect
from vdev.session import spare_buffers

SOURCE = """
kernel void numbered(global uint *out, uint by) { out[get_global_id(0)] = get_global_id(0) * by; }
kernel void added(global uint *out, global const uint *a) { out[get_global_id(0)] += a[get_global_id(0)]; }
kernel void turned(global uint *out, global const uint *a)
{
    out[get_global_id(0)] = a[get_global_size(0) - 1 - get_global_id(0)];
}
kernel void scattered(global uint *out, global const uint *at, uint by) { out[at[get_global_id(0)]] = by; }
"""
N, GROUP = 4096, 64
#: seconds that something may take which waits for nobody; where a defect is planted, it never ends
PATIENCE = 10 if PLANTED in os.environ else 100
FLAGS = cl.mem_flags


class Program:
    """What all of them start with."""

    def __init__(self) -> None:
        self.context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(self.context)
        built = cl.Program(self.context, SOURCE).build()
        self.kernels = {name: cl.Kernel(built, name) for name in ("numbered", "added", "turned", "scattered")}
        self.session: Any = self.context._vdev_state.session

    def new(self, nbytes: int = 4 * N) -> cl.Buffer:
        return cl.Buffer(self.context, FLAGS.READ_WRITE, nbytes)

    def given(self, content: np.ndarray) -> cl.Buffer:
        return cl.Buffer(self.context, FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR, hostbuf=content)

    def launch(self, name: str, *args: Any) -> cl.Event:
        return self.kernels[name](self.queue, (N,), (GROUP,), *args)

    def content(self, buffer: cl.Buffer) -> np.ndarray:
        found = np.empty(N, np.uint32)
        cl.enqueue_copy(self.queue, found, buffer)
        return found


def virtual(buffer: cl.Buffer) -> Any:
    return buffer._vdev_state.buffer


def again(program: Program) -> None:
    """A buffer of the size of one that was released is that one, has nothing of its content, and makes nobody plan anew."""
    wanted = np.arange(N, dtype=np.uint32)[::-1] * np.uint32(3)
    seen, plans = set(), []
    for step in range(12):
        a, b = program.new(), program.new()
        if step > 2:
            assert id(virtual(a)) in seen
            assert a._vdev_state.argument.buffer is virtual(a)
        seen |= {id(virtual(a)), id(virtual(b))}
        if len(program.session.workers) > 1:
            assert not virtual(a).state.initialised
        program.launch("numbered", a, np.uint32(3))
        program.launch("turned", b, a)
        assert (program.content(b) == wanted).all(), step
        plans.append(sum(kernel.planning_ns for kernel in program.session.ledger.kernels.values()))
        del a, b
    assert len(seen) == 2, len(seen)
    assert plans[6] == plans[-1], plans
    assert id(virtual(program.new(4 * N + 4))) not in seen


def in_a_row(program: Program) -> None:
    """A launch that is repeated without a look at anything is not repeated so on a buffer that has become another's."""
    a = program.given(np.arange(N, dtype=np.uint32))
    for first, then in ((1, 1), (2, 1), (3, 2), (4, 4), (6, 3)):
        out = program.new()
        for _ in range(first):
            program.launch("turned", out, a)
        del out
        out = program.new()
        for _ in range(then):
            program.launch("turned", out, a)
        assert (program.content(out) == np.arange(N)[::-1]).all()
        program.launch("added", out, a)
        assert (program.content(out) == N - 1).all()
        del out


def failing(program: Program) -> None:
    """A command that fails once its buffer is another one's is none of that one's business."""
    first = program.new()
    program.launch("numbered", first, np.uint32(1))
    number, known = program.session.executor.last_number, virtual(first)
    del first
    second = program.new()
    assert virtual(second) is known
    known.holdings.fail(number, -5)
    assert known.holdings.is_sound
    assert known.holdings.failure_for(number) == -5


def held_back(program: Program) -> None:
    """While a command waits for an event of the program's, no buffer of its own serves anything else."""
    a = program.given(np.arange(N, dtype=np.uint32))
    other = cl.CommandQueue(program.context)
    event, first = cl.UserEvent(program.context), program.new()
    cl.enqueue_copy(other, first, a, wait_for=[event])
    del first
    second = program.new()
    program.launch("numbered", second, np.uint32(5))
    assert (program.content(second) == np.arange(N) * 5).all()  # which nobody could wait for otherwise
    event.set_status(cl.command_execution_status.COMPLETE)
    other.finish()
    assert (program.content(second) == np.arange(N) * 5).all()


def still_in_use(program: Program) -> None:
    """A part, a mapping and another reference keep a buffer from serving anything else; one that is gone stays so."""
    whole = program.new()
    part, known = whole.get_sub_region(0, 2 * N), virtual(whole)
    del whole
    assert virtual(program.new()) is not known
    del part
    first = program.new()
    assert virtual(first) is known or virtual(program.new()) is known
    second = cl.MemoryObject.from_int_ptr(first.int_ptr)
    known = virtual(first)
    first.release()
    third = program.new()
    assert virtual(third) is not known
    second.release()
    for gone in (first, second):
        try:
            program.launch("numbered", gone, np.uint32(1))
        except cl.LogicError as error:
            code = error.code
        else:
            code = 0
        assert code == cl.status_code.INVALID_MEM_OBJECT, code
    mapped = program.new()
    known = virtual(mapped)
    array, _ = cl.enqueue_map_buffer(program.queue, mapped, cl.map_flags.WRITE, 0, (N,), np.uint32)
    mapped.release()
    assert virtual(program.new()) is not known
    del array


def garbage(program: Program) -> None:
    """Buffers of garbage that refers to itself, whose finalisers run all together."""
    wanted, others = np.arange(N, dtype=np.uint32), []
    zeros = program.given(np.zeros(N, np.uint32))
    for step in range(1, 9):
        round_about: list[Any] = [program.new() for _ in range(3)]
        round_about.append(round_about)
        for each in round_about[:3]:
            program.launch("numbered", each, np.uint32(step))
            assert (program.content(each) == wanted * np.uint32(step)).all()
        del round_about, each
        collect()
        others.append(program.given(wanted + np.uint32(step)))  # in memory that is free
        program.launch("added", others[-1], zeros)
    for step, other in enumerate(others, 1):
        assert (program.content(other) == wanted + np.uint32(step)).all(), step
    assert len(program.session.spares) in (2, 3)  # the last array may have been given one of them


def locked(program: Program) -> None:
    """Whoever makes or releases a buffer waits for nobody who is planning, or in the midst of another release."""
    spares = program.session.spares
    done = threading.Event()

    def work() -> None:
        kept = (
            program.new()
        )  # another thread holds the session's lock, and this one may hold what that one wants
        assert virtual(kept) is not known
        kept.release()
        done.set()

    known = virtual(program.new())
    assert len(spares) == 1
    thread = threading.Thread(target=work, daemon=True)
    with program.session.lock:
        thread.start()
        assert done.wait(PATIENCE), "it waits for the session's lock"
    before = len(spares)
    with spares._lock:  # as where a collection amid a change releases a buffer
        program.new().release()
        assert not spares.drop()
    assert len(spares) == before
    assert virtual(program.new()) is not None


def few(program: Program) -> None:
    """Not many are kept, nor much, nor large ones."""
    spares = program.session.spares
    held = [program.new(4 * number) for number in range(1, 200)]
    held.clear()
    assert len(spares) == spare_buffers.MOST_BUFFERS
    assert virtual(program.new(4 * 199)) is not None
    assert len(spares) == spare_buffers.MOST_BUFFERS - 1 + 1
    held = [program.new(spare_buffers.MOST_EACH) for _ in range(8)]
    held.clear()
    assert spares.nbytes <= spare_buffers.MOST_NBYTES
    before = len(spares)
    program.new(spare_buffers.MOST_EACH + 4).release()
    assert len(spares) == before
    assert spares.drop()
    assert not spares.drop()
    assert (len(spares), spares.nbytes) == (0, 0)


def room(program: Program) -> None:
    """Released buffers are in nobody's way: workers have 200 KiB."""
    a = program.given(np.arange(N, dtype=np.uint32))
    held = [program.new() for _ in range(8)]
    for each in held:
        program.launch("turned", each, a)
    held.clear()
    each = None
    assert len(program.session.spares) > 4
    large = (40 << 10) * len(program.session.workers)  # a part on each
    out = cl.Buffer(program.context, FLAGS.READ_WRITE, 4 * large)
    for _ in range(2):
        program.kernels["numbered"](program.queue, (large,), (GROUP,), out, np.uint32(7))
        found = np.empty(large, np.uint32)
        cl.enqueue_copy(program.queue, found, out)
        assert (found == np.arange(large, dtype=np.uint32) * np.uint32(7)).all()
    assert not len(program.session.spares)


def _moved(program: Program, out: str) -> int:
    """Bytes that were moved for the first argument of a kernel of that name, and merged."""
    found = [kernel.arguments for kernel in program.session.ledger.kernels.values() if kernel.name == out]
    return sum(
        each[0].merged_nbytes + each[0].moved.host_to_worker + each[0].moved.worker_to_worker
        for each in found
        if 0 in each
    )


def scattered(program: Program) -> None:
    """What a kernel does not write of a new buffer is not brought from where the last one had it."""
    at = program.given(np.random.default_rng(1).permutation(N).astype(np.uint32))
    moved = []
    for step in range(6):
        out = program.new()
        program.launch("scattered", out, at, np.uint32(step))
        assert (program.content(out) == step).all()
        moved.append(_moved(program, out="scattered"))
        del out
    differences = [later - earlier for earlier, later in pairwise(moved)]
    assert max(differences[1:]) <= differences[0], differences


def main() -> None:
    program = Program()
    for name in sys.argv[1:]:
        collect()
        globals()[name](program)
        program.queue.finish()
        program.session.spares.drop()
    print("done", *sys.argv[1:])
