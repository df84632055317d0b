"""What a tiny launch costs the host on one worker, compared with a native queue, in the forms in which programs make it.

    python samples/benchmarks/one_worker.py [--launches N] [--only NAME ...] [--kind cpu|cuda] [--json FILE]

Programs of many launches of one work-group and a wait at the end:

    same, scalar, space, in turn  the same again; a scalar that changes; an origin and an index space too; two kernels
    thirty                        thirty kernels in rotation, and the number of the step
    swap                          two buffers that change places
    parts                         sub-buffers, made before, another one each time
    local                         local memory and a scalar that changes
    kinds                         scalars of six types, of which some change
    untyped                       the same without `set_arg_types`
    set args                      `set_args`, then `enqueue_nd_range_kernel`
    after                         waits for the event of the launch before
    queues                        two queues, alternating
    out of order                  an out-of-order queue
    filled                        a fill before each launch
    copied                        a copy between buffers before each launch
    array                         pyopencl.array: a sum of two arrays, into a new one
    in place                      pyopencl.array: an array added to another one
    reduced                       pyopencl.array: a reduction that stays on the device
    added, dot                    the same of a multiple of an array; of a scalar product that the host reads
    summed                        a sum that the host reads
    part of, cleared, made        a slice of an array; a new array of zeros; a new array that goes at once
    elementwise, scan             kernels that PyOpenCL makes: an ElementwiseKernel, an InclusiveScanKernel
    one by one                    `set_arg` for each argument, then `enqueue_nd_range_kernel`
    short-lived                   a new buffer for each launch
    marked                        a marker behind each launch
    read                          a launch and a blocking read of what it has written
    written                       a blocking write of some parameters before each launch
    mapped                        a launch, and what it has written mapped for reading
    waited, finished              a launch and a wait for its event, or for its queue
    search                        a flag is written, a launch sets it, and it is read
    clusters                      parameters are written, results filled, a launch adds to them, and both are read
    step by step                  parameters are written, a launch, a wait for the queue, and a read of what it has written
    tried                         the same on two new buffers, as tests of libraries do
    temporaries                   pyopencl.array: three operations, each into a new array, and a sum that the host reads
    pooled, immediate             a launch on a buffer of a memory pool; of an immediate allocator
    by attribute, new kernel      `program.kernel(queue, ...)`; a kernel object made for each launch
    built                         a small program built again, and its kernel launched
    read later, 4 and 64 KiB      a read that is waited for by its event: of 4 bytes, of 64 KiB
    read now, write, copy, fill   of 4 bytes each, one after the other, without a kernel
    called back, profiled         a launch whose event calls back, or is asked for its times
    from host, host's, part       a buffer made with a copy of the host's array; in its memory; a part of a buffer

The time is divided by the number of launches; the best round of three processes for each column. The target is how
much more than natively a launch may cost; several commands may cost as many times that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import pyopencl as cl  # noqa: E402
import pyopencl.array as cl_array  # noqa: E402
import pyopencl.clmath as cl_math  # noqa: E402
from pyopencl.elementwise import ElementwiseKernel  # noqa: E402
from pyopencl.scan import InclusiveScanKernel  # noqa: E402

SOURCE = """
__kernel void add(__global uint *counts, uint step) { counts[get_global_id(0)] += step; }
__kernel void twice(__global uint *counts, uint step) { counts[get_global_id(0) + 64] += 2 * step; }
__kernel void step(__global uint *to, __global const uint *from, uint step)
{
    to[get_global_id(0)] = from[get_global_id(0)] + step;
}
__kernel void added(__global uint *counts, __global uint *sums, __global const float *factors, uint step)
{
    counts[get_global_id(0)] += step;
    sums[get_global_id(0)] += (uint)(factors[get_global_id(0)] * step);
}
__kernel void turned(__global uint *counts, __local uint *spare, uint step)
{
    spare[get_local_id(0)] = counts[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    counts[get_global_id(0)] = spare[get_local_size(0) - 1 - get_local_id(0)] + step;
}
__kernel void kinds(__global uint *counts, char c, short s, int i, long l, float f, double d)
{
    counts[get_global_id(0)] += (uint)(c + s + i + l + f + d);
}
"""
MANY = "".join(
    f"__kernel void k{k}(__global uint *counts, uint step) {{ counts[get_global_id(0)] += {k} + step; }}\n"
    for k in range(30)
)
ITEMS, ROUNDS, TURNS, MOST_US = 64, 5, 3, 5.0
PARTS = 8
#: by program: commands for each launch that is counted, where it is not one
COMMANDS = dict.fromkeys(("filled", "copied", "read", "written", "marked", "added", "cleared"), 2) | {
    "mapped": 3,
    "search": 3,
    "summed": 3,
    "dot": 3,
    "scan": 3,
    "clusters": 6,
    "step by step": 4,
    "tried": 6,
    "temporaries": 9,
    "read later 64": 2,
    "built": 2,
}

Launch = Callable[[int], object]


class Bench:
    """A context, two queues and two buffers, and what launches on them."""

    def __init__(self) -> None:
        self.context, self.queue = common.open_queue()
        self.other_queue = cl.CommandQueue(self.context)
        out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.loose_queue = cl.CommandQueue(self.context, properties=out_of_order)
        self.counts, self.others = (
            common.write(self.queue, np.zeros(PARTS * ITEMS * 8, np.uint32), kept=True) for _ in range(2)
        )
        built = cl.Program(self.context, SOURCE).build()
        self.add, self.twice, self.step, self.added = (
            cl.Kernel(built, name) for name in ("add", "twice", "step", "added")
        )
        self.turned, self.kinds, self.untyped = (
            cl.Kernel(built, name) for name in ("turned", "kinds", "kinds")
        )
        many = cl.Program(self.context, MANY).build()
        self.many = [cl.Kernel(many, f"k{k}") for k in range(30)]
        for kernel in (self.add, self.twice, *self.many):
            kernel.set_arg_types([None, np.uint32])
        self.step.set_arg_types([None, None, np.uint32])
        self.added.set_arg_types([None, None, None, np.uint32])
        types = [None, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64]
        self.kinds.set_arg_types(types)
        self.parameters = common.room(self.queue, 4 * ITEMS)
        self.program = built
        properties = cl.command_queue_properties.PROFILING_ENABLE
        self.profiled_queue = cl.CommandQueue(self.context, properties=properties)
        self.last: cl.Event | None = None

    def in_a_row(self) -> dict[str, Launch]:
        """By name, the launch of a number: of one kernel, whatever changes."""
        queue, add, counts, size = self.queue, self.add, self.counts, (ITEMS,)
        value, spare = np.uint32(3), cl.LocalMemory(4 * ITEMS)

        def space(number: int) -> None:
            items = 1 + number % ITEMS
            add(queue, (items,), (items,), counts, np.uint32(number))

        def local(number: int) -> None:
            self.turned(queue, size, size, counts, spare, np.uint32(number))

        def scalars(number: int) -> tuple[np.generic, ...]:
            return (
                np.int8(3),
                np.int16(5),
                np.int32(number),
                np.int64(7),
                np.float32(number),
                np.float64(1.5),
            )

        def set_args(number: int) -> None:
            add.set_args(counts, np.uint32(number))
            cl.enqueue_nd_range_kernel(queue, add, size, size)

        def after(number: int) -> None:
            self.last = add(queue, size, size, counts, value, wait_for=[self.last] if self.last else None)

        def one_by_one(number: int) -> None:
            add.set_arg(0, counts)
            add.set_arg(1, np.uint32(number))
            cl.enqueue_nd_range_kernel(queue, add, size, size)

        def short_lived(_: int) -> None:
            add(queue, size, size, cl.Buffer(self.context, cl.mem_flags.READ_WRITE, 4 * ITEMS), value)

        return {
            "same": lambda _: add(queue, size, size, counts, value),
            "scalar": lambda number: add(queue, size, size, counts, np.uint32(number)),
            "space": space,
            "local": local,
            "kinds": lambda number: self.kinds(queue, size, size, counts, *scalars(number)),
            "untyped": lambda number: self.untyped(queue, size, size, counts, *scalars(number)),
            "set args": set_args,
            "one by one": one_by_one,
            "short-lived": short_lived,
            "after": after,
        }

    def in_turn(self) -> dict[str, Launch]:
        """The same of kernels, buffers and queues by turns."""
        queue, add, counts, others, size = self.queue, self.add, self.counts, self.others, (ITEMS,)
        value, queues = np.uint32(3), (self.queue, self.other_queue)
        parts = [counts.get_sub_region(part * 4 * ITEMS * 8, 4 * ITEMS * 8) for part in range(PARTS)]

        def swap(number: int) -> None:
            to, source = (counts, others) if number & 1 else (others, counts)
            self.step(queue, size, size, to, source, value)

        return {
            "in turn": lambda number: (self.twice if number & 1 else add)(queue, size, size, counts, value),
            "thirty": lambda number: self.many[number % 30](queue, size, size, counts, np.uint32(number)),
            "swap": swap,
            "parts": lambda number: add(queue, size, size, parts[number % PARTS], value),
            "queues": lambda number: add(queues[number & 1], size, size, counts, value),
            "out of order": lambda number: add(self.loose_queue, size, size, counts, value),
        }

    def with_others(self) -> dict[str, Launch]:
        """The same with other commands in between."""
        queue, add, counts, others, size = self.queue, self.add, self.counts, self.others, (ITEMS,)
        seen, zero, nbytes = np.zeros(ITEMS, np.uint32), np.uint32(0), 4 * ITEMS

        def filled(number: int) -> None:
            cl.enqueue_fill_buffer(queue, others, zero, 0, nbytes)
            add(queue, size, size, counts, np.uint32(number))

        def copied(number: int) -> None:
            cl.enqueue_copy(queue, others, counts, byte_count=nbytes)
            add(queue, size, size, counts, np.uint32(number))

        def read(number: int) -> None:
            add(queue, size, size, counts, np.uint32(number))
            cl.enqueue_copy(queue, seen, counts)

        def written(number: int) -> None:
            seen[0] = number
            cl.enqueue_copy(queue, others, seen)
            self.step(queue, size, size, counts, others, np.uint32(number))

        return {
            "filled": filled,
            "written": written,
            "copied": copied,
            "read": read,
            "waited": lambda number: add(queue, size, size, counts, np.uint32(number)).wait(),
        }

    def in_steps(self) -> dict[str, Launch]:
        """The same in steps, as programs make them that decide with the host what comes next."""
        queue, add, counts, others, size = self.queue, self.add, self.counts, self.others, (ITEMS,)
        seen, zero = np.zeros(ITEMS, np.uint32), np.uint32(0)
        flag, sums, parameters = seen[:1].copy(), seen[:16].copy(), np.zeros((4, 16), np.float32)

        def mapped(number: int) -> None:
            add(queue, size, size, counts, np.uint32(number))
            array, _ = cl.enqueue_map_buffer(queue, counts, cl.map_flags.READ, 0, seen.shape, seen.dtype)
            array.base.release(queue)

        def marked(number: int) -> None:
            add(queue, size, size, counts, np.uint32(number))
            cl.enqueue_marker(queue)

        def finished(number: int) -> None:
            add(queue, size, size, counts, np.uint32(number))
            queue.finish()

        def search(number: int) -> None:
            flag[:] = 0
            cl.enqueue_copy(queue, others, flag)
            self.step(queue, size, size, others, counts, np.uint32(number))
            cl.enqueue_copy(queue, flag, others)

        def clusters(number: int) -> None:
            cl.enqueue_copy(queue, self.parameters, parameters)
            for buffer in (counts, others):
                cl.enqueue_fill_buffer(queue, buffer, zero, 0, buffer.size)
            self.added(queue, size, size, counts, others, self.parameters, np.uint32(number))
            for host, buffer in ((seen, counts), (sums, others)):
                cl.enqueue_copy(queue, host, buffer)

        def step_by_step(number: int, given: cl.Buffer = others, result: cl.Buffer = counts) -> None:
            seen[0] = number
            cl.enqueue_copy(queue, given, seen)
            self.step(queue, size, size, result, given, np.uint32(number))
            queue.finish()
            cl.enqueue_copy(queue, seen, result)

        def tried(number: int) -> None:
            flags = cl.mem_flags.READ_WRITE
            step_by_step(number, *(cl.Buffer(self.context, flags, seen.nbytes) for _ in range(2)))

        return {
            "mapped": mapped,
            "marked": marked,
            "finished": finished,
            "search": search,
            "clusters": clusters,
            "step by step": step_by_step,
            "tried": tried,
        }

    def arrays(self) -> dict[str, Launch]:
        """The same by pyopencl.array."""
        queue = self.queue
        a, b, x = (cl_array.to_device(queue, np.arange(ITEMS, dtype=np.float32)) for _ in range(3))
        scanned = cl_array.empty_like(b)
        factor = np.float32(0.5)
        combined = ElementwiseKernel(self.context, "float *z, float s, const float *x", "z[i] = s * x[i]")
        scan = InclusiveScanKernel(self.context, np.float32, "a + b", neutral="0")

        def in_place(_: int) -> None:
            nonlocal a
            a += b

        def added(_: int) -> None:
            nonlocal x
            x += factor * b

        return {
            "array": lambda _: a + b,
            "in place": in_place,
            "added": added,
            "reduced": lambda _: cl_array.sum(b),
            "summed": lambda _: cl_array.sum(b).get(),
            "dot": lambda _: cl_array.dot(b, b).get(),
            "part of": lambda _: b[8:24],
            "cleared": lambda _: cl_array.zeros(queue, ITEMS, np.float32),
            "made": lambda _: cl_array.empty(queue, ITEMS, np.float32),
            "elementwise": lambda number: combined(scanned, np.float32(number), b),
            "scan": lambda _: scan(b, scanned, queue=queue),
        }

    def moves(self) -> dict[str, Launch]:
        """Transfers alone, and what is asked of events."""
        queue, counts, others, size = self.queue, self.counts, self.others, (ITEMS,)
        word, much, zero = np.zeros(1, np.uint32), np.zeros(64 << 8, np.uint32), np.uint32(0)
        large = common.room(queue, much.nbytes)

        def read_later(host: np.ndarray, buffer: cl.Buffer) -> Launch:
            return lambda _: cl.enqueue_copy(queue, host, buffer, is_blocking=False).wait()

        def called_back(number: int) -> None:
            event = self.add(queue, size, size, counts, np.uint32(number))
            event.set_callback(cl.command_execution_status.COMPLETE, lambda _: None)

        def profiled(number: int) -> int:
            event = self.add(self.profiled_queue, size, size, counts, np.uint32(number))
            event.wait()
            return event.profile.end - event.profile.start

        return {
            "read later 4": read_later(word, counts),
            "read later 64": read_later(much, large),
            "read now": lambda _: cl.enqueue_copy(queue, word, counts),
            "write": lambda _: cl.enqueue_copy(queue, counts, word),
            "copy": lambda _: cl.enqueue_copy(queue, others, counts, byte_count=4),
            "fill": lambda _: cl.enqueue_fill_buffer(queue, others, zero, 0, 4),
            "called back": called_back,
            "profiled": profiled,
        }

    def objects(self) -> dict[str, Launch]:
        """Objects that programs make again for each launch."""
        queue, counts, size, flags = self.queue, self.counts, (ITEMS,), cl.mem_flags
        value, host = np.uint32(3), np.zeros(ITEMS, np.uint32)
        immediate = cl.tools.ImmediateAllocator(queue)
        pool = cl.tools.MemoryPool(immediate)
        named = self.program.add
        named.set_arg_types([None, np.uint32])
        a, b = (cl_array.to_device(queue, np.arange(1000, dtype=np.float32)) for _ in range(2))

        def temporaries(_: int) -> float:
            c = a + b
            d = c * 2
            e = cl_math.sin(d)
            return float(cl_array.sum(e).get())

        def built(_: int) -> None:
            program = cl.Program(self.context, SOURCE).build()
            cl.Kernel(program, "add")(queue, size, size, counts, value)

        def of_host(how: int) -> Launch:
            return lambda _: cl.Buffer(self.context, flags.READ_WRITE | how, hostbuf=host)

        return {
            "temporaries": temporaries,
            "pooled": lambda _: self.add(queue, size, size, pool.allocate(4 * ITEMS), value),
            "immediate": lambda _: self.add(queue, size, size, immediate(4 * ITEMS), value),
            "by attribute": lambda _: self.program.add(queue, size, size, counts, value),
            "new kernel": lambda _: cl.Kernel(self.program, "add")(queue, size, size, counts, value),
            "built": built,
            "from host": of_host(flags.COPY_HOST_PTR),
            "host's": of_host(flags.USE_HOST_PTR),
            "part": lambda _: counts.get_sub_region(0, 4 * ITEMS),
        }


def programs(bench: Bench) -> dict[str, Launch]:
    """By name, the launch of a number."""
    launches = bench.in_a_row() | bench.in_turn() | bench.with_others() | bench.in_steps()
    return launches | bench.arrays() | bench.moves() | bench.objects()


def measure(
    launches: int, only: list[str], clock: Callable[[], float] = time.perf_counter
) -> columns.Figures:
    """Microseconds of a launch in each program, the best of some rounds."""
    bench = Bench()
    found: columns.Figures = {"device": bench.queue.device.name.strip(), "launches": launches, "sum": 0.0}
    for name, launch in programs(bench).items():
        if only and name not in only:
            continue
        rounds = []
        for _ in range(ROUNDS + 1):
            common.finish(bench.queue)
            begin = clock()
            for number in range(launches):
                launch(number)
            for queue in (bench.queue, bench.other_queue, bench.loose_queue, bench.profiled_queue):
                queue.finish()
            rounds.append((clock() - begin) / launches * 1e6)
        found[name] = min(rounds[1:])
        found["sum"] += found[name]
    return found


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--launches", type=common.positive, default=1000, help="(default: %(default)s)")
    parser.add_argument("--only", nargs="*", metavar="NAME", default=[], help="programs to run")
    parser.add_argument("--thread", action="store_true", help="processor time of the calling thread")
    parser.set_defaults(workers="1")
    options = parser.parse_args()
    clock = time.thread_time if options.thread else time.perf_counter
    found = columns.measured(
        options, lambda: measure(options.launches, options.only, clock), turns=TURNS, least="sum"
    )
    lines, bars = [], []
    names = [
        name for name in next(iter(found.values())) if name not in ("device", "launches", "sum", "failed")
    ]
    for name in names:
        natively = columns.value(found, machine.NATIVE, name)
        for column in found:
            vdev = columns.value(found, column, name)
            if column == machine.NATIVE or vdev is None or natively is None:
                continue
            most = MOST_US * COMMANDS.get(name, 1)
            lines.append(f"{name:14}{natively:8.1f} us natively{vdev:8.1f} us on {column}")
            bars.append(columns.most(f"{name}: us more than natively on {column}", vdev - natively, most))
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
