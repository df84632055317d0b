"""Programs for the tests of VDEV_CHECK, run as `python -m tests.cpu.check_scenarios NAME`.

Each prints a line of JSON: what it found, and how many launches were compared.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from tests.cpu.program_device import Device, f32, i32, same
from vdev.check.checking import CheckFailure
from vdev.start.current import get_session

COUNT = 1 << 14
SIZES = (COUNT,), (64,)

SOURCE = """
__kernel void plus_one(__global int *out, __global const int *in) {
  size_t i = get_global_id(0);
  out[i] = in[i] + 1;
}
__kernel void neighbours(__global float *out, __global const float *in, int n) {
  int i = get_global_id(0);
  if (i > 0 && i < n - 1) out[i] = in[i - 1] + in[i + 1];
}
__kernel void gather(__global int *out, __global const int *index, __global const int *in) {
  size_t i = get_global_id(0);
  out[i] = in[index[i]];
}
__kernel void scatter(__global int *out, __global const int *index, __global const int *in) {
  size_t i = get_global_id(0);
  out[index[i]] = in[i];
}
__kernel void histogram(__global int *bins, __global const int *in) { atomic_inc(bins + (in[get_global_id(0)] & 63)); }
__kernel void last_group(__global int *flag, __global int *out) {
  flag[5] = get_group_id(0);
  out[get_global_id(0)] = 1;
}
__kernel void same_flag(__global int *flag) { flag[5] = 7; }
__kernel void tile(__global int *out, int pitch, __local int *scratch, __global int *nothing) {
  size_t x = get_global_id(0), y = get_global_id(1), l = get_local_id(0);
  scratch[l] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[y * pitch + x] = nothing ? -1 : scratch[get_local_size(0) - 1 - l] + 1000 * (int)y;
}
"""

PADDED = """
typedef struct { char letter; float3 place; } padded_t;
__kernel void copy_padded(__global padded_t *out, __global const padded_t *in) {
  size_t i = get_global_id(0);
  padded_t one;
  one.letter = in[i].letter + 1;
  one.place = in[i].place * 2;
  out[i] = one;
}
"""

SCENARIOS: dict[str, Callable[[], dict[str, Any]]] = {}


def scenario(run: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    SCENARIOS[run.__name__] = run
    return run


def nchecked() -> int:
    checker = get_session().checker
    return 0 if checker is None else checker.nchecked


def failing(call: Callable[[], object]) -> dict[str, Any]:
    """What CheckFailure the call raises."""
    try:
        call()
    except CheckFailure as failure:
        return {
            "kind": failure.kind,
            "kernel": failure.kernel,
            "argument": failure.argument,
            "offset": failure.offset,
            "writers": failure.writers,
            "text": str(failure),
        }
    return {"kind": None}


@scenario
def ordinary() -> dict[str, Any]:
    """A map, a stencil, a scatter through an index, a histogram, a flag that all groups set alike."""
    device = Device()
    program = device.build(SOURCE)
    numbers = device.integers(0, 1000, COUNT)
    values = device.floats(COUNT)
    index = device.random.permutation(COUNT).astype(i32)
    out, given = device.empty(4 * COUNT), device.buffer(numbers)
    program.plus_one(device.queue, *SIZES, out, given)
    same(device.read(out, i32, COUNT), numbers + 1)
    program.scatter(device.queue, *SIZES, out, device.buffer(index), given)
    expected = np.empty(COUNT, i32)
    expected[index] = numbers
    same(device.read(out, i32, COUNT), expected)
    around = device.buffer(values)
    program.neighbours(device.queue, *SIZES, around, device.buffer(values), i32(COUNT))
    expected = values.copy()
    expected[1:-1] = values[:-2] + values[2:]
    same(device.read(around, f32, COUNT), expected)
    bins = device.buffer(np.zeros(64, i32))
    program.histogram(device.queue, *SIZES, bins, given)
    same(device.read(bins, i32, 64), np.bincount(numbers & 63, minlength=64))
    program.same_flag(device.queue, *SIZES, bins)
    assert device.read(bins, i32, 64)[5] == 7
    return {}


@scenario
def shapes() -> dict[str, Any]:
    """Two dimensions with an offset, local memory, a null pointer; arguments in one buffer; overlapping
    sub-buffers."""
    device = Device()
    program = device.build(SOURCE)
    out = device.buffer(np.zeros((64, 128), i32))
    program.tile(
        device.queue, (96, 48), (16, 4), out, i32(128), cl.LocalMemory(64), None, global_offset=(16, 8)
    )
    x, y = np.meshgrid(np.arange(96), np.arange(48))
    expected = np.zeros((64, 128), i32)
    expected[8:56, 16:112] = (x // 16 * 16 + 15 - x % 16 + 16) + 1000 * (y + 8)
    same(device.read(out, i32, (64, 128)), expected)
    numbers = device.integers(0, 1000, 2 * COUNT)
    both = device.buffer(numbers)
    program.plus_one(device.queue, *SIZES, both, both)
    numbers[:COUNT] += 1
    low, high = both[: 4 * COUNT], both[2 * COUNT : 6 * COUNT]
    program.plus_one(device.queue, (COUNT // 2,), (64,), low, high)
    numbers[: COUNT // 2] = numbers[COUNT // 2 : COUNT] + 1
    same(device.read(both, i32, 2 * COUNT), numbers)
    return {}


@scenario
def orders() -> dict[str, Any]:
    """An out-of-order queue with wait lists, a user event, two threads."""
    device = Device()
    program = device.build(SOURCE)
    queue = cl.CommandQueue(
        device.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    )
    numbers = device.integers(0, 1000, COUNT)
    first, second = device.buffer(numbers), device.empty(4 * COUNT)
    gate = cl.UserEvent(device.context)
    one = program.plus_one(queue, *SIZES, second, first, wait_for=[gate])
    two = program.plus_one(queue, *SIZES, first, second, wait_for=[one])
    gate.set_status(cl.command_execution_status.COMPLETE)
    two.wait()
    same(device.read(first, i32, COUNT), numbers + 2)

    def work() -> None:
        mine, kernel = cl.CommandQueue(device.context), cl.Kernel(program, "plus_one")
        out = device.empty(4 * COUNT)
        for _ in range(3):
            kernel(mine, *SIZES, out, first)
        content = np.empty(COUNT, i32)
        cl.enqueue_copy(mine, content, out)
        same(content, numbers + 3)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {}


@scenario
def never_written() -> dict[str, Any]:
    """Results that follow from memory nobody has written are the program's affair."""
    device = Device()
    program = device.build(SOURCE)
    out = device.buffer(np.zeros(COUNT, f32))
    program.neighbours(device.queue, *SIZES, out, device.empty(4 * COUNT), i32(COUNT))
    half = device.empty(4 * COUNT)
    cl.enqueue_copy(device.queue, half, device.floats(COUNT // 2))
    program.neighbours(device.queue, *SIZES, out, half, i32(COUNT))
    device.queue.finish()
    return {}


@scenario
def padding() -> dict[str, Any]:
    """What is between the members of a structure is nobody's."""
    device = Device()
    program = device.build(PADDED)
    memory = device.random.integers(0, 64, 32 * COUNT, np.uint8)
    for _ in range(3):
        out = device.buffer(device.integers(0, 256, 32 * COUNT, np.uint8))
        program.copy_padded(device.queue, *SIZES, out, device.buffer(memory))
    letters = device.read(out, np.uint8, (COUNT, 32))[:, 0]
    same(letters, memory.reshape(COUNT, 32)[:, 0] + 1)
    return {}


@scenario
def race() -> dict[str, Any]:
    """Work-groups that write different values to one place; the failure stays."""
    device = Device()
    program = device.build(SOURCE)
    flag, out = device.buffer(np.zeros(64, i32)), device.empty(4 * COUNT)
    found = failing(lambda: program.last_group(device.queue, *SIZES, flag, out))
    again = failing(lambda: program.same_flag(device.queue, *SIZES, flag))
    return found | {"again": again["text"]}


@scenario
def race_behind_a_gate() -> dict[str, Any]:
    """A launch that waited for a user event is checked when that is set, and fails there; what else waited goes on."""
    device = Device()
    program = device.build(SOURCE)
    flag, out = device.buffer(np.zeros(64, i32)), device.empty(4 * COUNT)
    gate = cl.UserEvent(device.context)
    waiting = program.last_group(device.queue, *SIZES, flag, out, wait_for=[gate])
    content = np.empty(64, i32)
    copied = cl.enqueue_copy(device.queue, content, flag, is_blocking=False, wait_for=[waiting])
    found = failing(lambda: gate.set_status(cl.command_execution_status.COMPLETE))
    copied.wait()
    return found


@scenario
def race_in_a_callback() -> dict[str, Any]:
    """Nobody catches what a callback raises: the next launch raises it again."""
    device = Device()
    program = device.build(SOURCE)
    flag, out = device.buffer(np.zeros(64, i32)), device.empty(4 * COUNT)
    gate, done = cl.UserEvent(device.context), threading.Event()
    program.last_group(device.queue, *SIZES, flag, out, wait_for=[gate])

    def open_gate(status: int) -> None:
        try:
            gate.set_status(cl.command_execution_status.COMPLETE)
        finally:
            done.set()

    other = cl.CommandQueue(device.context)
    marker = cl.enqueue_marker(other)
    marker.set_callback(cl.command_execution_status.COMPLETE, open_gate)
    other.finish()
    assert done.wait(60)
    return failing(lambda: program.same_flag(device.queue, *SIZES, flag))


@scenario
def map_only() -> dict[str, Any]:
    """For planted faults: `out[i] = in[i] + 1`."""
    device = Device()
    program = device.build(SOURCE)
    out, given = device.buffer(np.zeros(COUNT, i32)), device.buffer(np.arange(COUNT, dtype=i32))
    return failing(lambda: program.plus_one(device.queue, *SIZES, out, given))


@scenario
def map_again() -> dict[str, Any]:
    """For planted faults: the same, where the result is there already."""
    device = Device()
    program = device.build(SOURCE)
    numbers = np.arange(COUNT, dtype=i32)
    out, given = device.buffer(numbers + 1), device.buffer(numbers)
    return failing(lambda: program.plus_one(device.queue, *SIZES, out, given))


@scenario
def map_after_gather() -> dict[str, Any]:
    """For planted faults: the same, where every worker has nearly all of `in`."""
    device = Device()
    program = device.build(SOURCE)
    # The fault drops the end of what gather reads: of the buffer, which goes on after what matters here.
    out, given = device.empty(4 * COUNT), device.buffer(np.arange(COUNT + 64, dtype=i32))
    program.gather(device.queue, *SIZES, device.empty(4 * COUNT), device.buffer(np.zeros(COUNT, i32)), given)
    return failing(lambda: program.plus_one(device.queue, *SIZES, out, given))


MERGED = """
typedef struct { int a; char b; } pair;
__kernel void mixed(__global int *out, __global const int *where, __global const int *wide) {
  int i = get_global_id(0);
  if (wide[i]) out[where[i] / 4] = i;
  else ((__global uchar *)out)[where[i]] = i;
}
__kernel void scattered(__global int *out, __global const int *where) { out[where[get_global_id(0)]] = get_global_id(0) + 7; }
__kernel void pairs(__global pair *out, __global const pair *in) {
  int i = get_global_id(0);
  pair p;
  p.a = i; p.b = i;
  out[i] = p;
}
__kernel void rows(__global int *out, __global const int *in, int width) {
  int x = get_global_id(0), y = get_global_id(1);
  out[y * width + x] = in[y * width + x] + 1;
}
__kernel void two(__global int *out, __global int *more, __global const int *in) {
  int i = get_global_id(0);
  out[i] = in[i];
  more[i] = in[i] + 5;
}
__kernel void reversed(__global int *out, __global const int *in, int n) {
  int i = get_global_id(0);
  out[n - 1 - i] = in[i];
}
typedef struct { float x, y; int from; } record;
__kernel void append(__global record *out, __global int *count, __global const int *in, int start, int most) {
  int i = get_global_id(0);
  if (i < start || in[i] & 1) return;
  int place = atomic_inc(count);
  if (place >= most) return;
  out[place].x = in[i];
  out[place].y = 0.5f * in[i];
  out[place].from = i;
}
__kernel void sums(__global float *out, __global const int *in, int start) {
  int i = get_global_id(0);
  if (i < start) return;
  volatile __global int *sum = (volatile __global int *)out + (in[i] & 63);
  int old, term = in[i];
  do old = *sum;
  while (atomic_cmpxchg(sum, old, as_int(as_float(old) + 1.0f / (1 + term))) != old);
}
"""


def _merged(
    name: str, *given: Any, size: tuple[int, ...] = (COUNT,), local: tuple[int, ...] = (64,)
) -> dict[str, Any]:
    device = Device()
    kernel = getattr(device.build(MERGED), name)
    args = [device.buffer(each) if isinstance(each, np.ndarray) else each for each in given]
    return failing(lambda: kernel(device.queue, size, local, *args))


@scenario
def bytes_of_words() -> dict[str, Any]:
    """For planted faults: neighbouring bytes written by work-items far apart."""
    where = np.random.default_rng(1).permutation(COUNT).astype(i32)
    return _merged("mixed", np.zeros(COUNT // 4, i32), where, np.zeros(COUNT, i32))


@scenario
def scatter_only() -> dict[str, Any]:
    """For planted faults: places from memory, half of the buffer."""
    where = np.random.default_rng(1).permutation(2 * COUNT)[:COUNT].astype(i32)
    return _merged("scattered", np.arange(2 * COUNT, dtype=i32), where)


@scenario
def pairs_only() -> dict[str, Any]:
    """For planted faults: structures with padding, over padding that is to stay."""
    return _merged("pairs", np.full(8 * COUNT, 0xAB, np.uint8), np.zeros(8 * COUNT, np.uint8))


@scenario
def rows_only() -> dict[str, Any]:
    """For planted faults: a map in two dimensions."""
    given = np.arange(COUNT, dtype=i32)
    return _merged("rows", np.zeros(COUNT, i32), given, i32(64), size=(64, COUNT // 64), local=(64, 1))


@scenario
def two_only() -> dict[str, Any]:
    """For planted faults: two arguments that are written."""
    given = np.arange(COUNT, dtype=i32)
    return _merged("two", np.zeros(COUNT, i32), np.zeros(COUNT, i32), given)


@scenario
def reversed_only() -> dict[str, Any]:
    """For planted faults: every chunk writes what another one of the same number reads."""
    return _merged("reversed", np.zeros(COUNT, i32), np.arange(COUNT, dtype=i32), i32(COUNT))


def _appended(start: int, most: int) -> dict[str, Any]:
    """Records appended by work-items from `start` on, over memory in which every byte is set."""
    out, given = np.full(12 * COUNT, 0xFF, np.uint8), np.random.default_rng(1).permutation(COUNT).astype(i32)
    return _merged("append", out, np.zeros(1, i32), given, i32(start), i32(most))


@scenario
def appended_only() -> dict[str, Any]:
    """For planted faults: places that an atomic hands out, to work-items of the last chunk."""
    return _appended(COUNT // 4 * 3, COUNT)


@scenario
def overflowing_only() -> dict[str, Any]:
    """For planted faults: the same with too few places, so that which records get one is a matter of chance."""
    return _appended(COUNT // 4 * 3, COUNT // 16)


@scenario
def sums_only() -> dict[str, Any]:
    """For planted faults: sums of floats, rounded as the order has it."""
    given = np.random.default_rng(1).permutation(COUNT).astype(i32)
    return _merged("sums", np.full(64, 7, f32), given, i32(COUNT // 4 * 3))


@scenario
def appended_by_all() -> dict[str, Any]:
    """For planted faults: places that an atomic hands out to all chunks."""
    return _appended(0, COUNT)


@scenario
def histogram_only() -> dict[str, Any]:
    """For planted faults: atomics."""
    device = Device()
    program = device.build(SOURCE)
    bins, given = device.buffer(np.full(64, 5, i32)), device.buffer(device.integers(0, 1000, COUNT))
    return failing(lambda: program.histogram(device.queue, *SIZES, bins, given))


@scenario
def halo_only() -> dict[str, Any]:
    """For planted faults: a stencil."""
    device = Device()
    program = device.build(SOURCE)
    out, given = device.buffer(np.zeros(COUNT, f32)), device.buffer(device.floats(COUNT))
    return failing(lambda: program.neighbours(device.queue, *SIZES, out, given, i32(COUNT)))


@scenario
def read_and_write_race() -> dict[str, Any]:
    """What one work-group reads another one writes: left to chance on one worker as well, which the log says."""
    device = Device()
    program = device.build(SOURCE)
    both = device.buffer(device.floats(COUNT))
    return failing(lambda: program.neighbours(device.queue, *SIZES, both, both, i32(COUNT)))


def main() -> None:
    found = SCENARIOS[sys.argv[1]]()
    print(json.dumps(found | {"nchecked": nchecked()}))


if __name__ == "__main__":
    main()
