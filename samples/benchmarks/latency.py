"""How long short steps take on several workers: natively, on 1, 2, 4 workers, and with plain CuPy calls on as many GPUs.

    python samples/benchmarks/latency.py [--workers 1,2,4] [--kind cpu|cuda] [--shared] [--only NAME,...] [--json FILE]

The programs are checked against NumPy. Shown are the microseconds of a step, and the part that the host's calls take (until the last
call returns; the rest is waiting):

    stencil     seven points in three dimensions; two volumes change places, so that neighbours exchange a plane a step
    merge       bins counted by global atomics, then read by a tiny kernel, so that they are merged at each step
    stencil_short, merge_short
                the same with kernels of 240 and 150 us on a quarter of an H200
    chain       every launch reads what another worker wrote in the launch before
    ping_pong   half of the items write one buffer from the other half's items of another, and the other way round
    small_read  a kernel and a blocking read of 64 bytes that it wrote
    late_read   the same with a kernel that takes some 20 us
    empty       a kernel of one work-group that does nothing
    rotation    100 kernels in rotation, each with a scalar that changes
    repeated    a launch over many work-groups, without exchange
    waited      the same, with a wait for each launch
    anew        a kernel object for each launch, as `program.name(queue, ...)` makes them
    callback    a launch whose end an event tells by a callback, and a wait for that
    boxes       a box of 4 KB copied between buffers, another one each time

`--shared` puts all workers and CuPy's streams on one GPU: what the host's calls cost shows there, too. Columns
`cupy N` (`latency_cupy.py`) are the same steps as one thread makes them with CuPy by hand.

Of some processes for each column that one counts in which the last seven take least together.

Targets (four GPUs): a step of `stencil` and `merge`, short or not, at most 1.15 times the kernel alone on a quarter, `repeated` at
most 25 us of host time; on one `empty` at most 9 us of host time; `small_read` at most 1.3 times native.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import columns
import machine

if "--shared" in sys.argv and os.environ.get("VDEV_WORKERS", "").startswith("cuda:0-"):
    os.environ["VDEV_WORKERS"] = f"cuda:0*{int(os.environ['VDEV_WORKERS'].partition('-')[2]) + 1}"
machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import pyopencl as cl  # noqa: E402

SOURCE = """
__kernel void stencil(__global float *to, __global const float *from, const int planes, const int rows, const int wide)
{
    const int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    const long at = ((long)z * rows + y) * wide + x;
    if (x == 0 || y == 0 || z == 0 || x == wide - 1 || y == rows - 1 || z >= planes - 1)
        return;
    to[at] = 0.4f * from[at] + 0.1f * (from[at - 1] + from[at + 1] + from[at - wide] + from[at + wide]
                                       + from[at - (long)rows * wide] + from[at + (long)rows * wide]);
}
__kernel void count(__global uint *bins, __global const uint *values, const uint n)
{
    for (uint i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(&bins[values[i] % BINS]);
}
__kernel void look(__global uint *seen, __global const uint *bins)
{
    seen[get_global_id(0)] += bins[get_global_id(0)] & 1;
}
__kernel void chain(__global uint *to, __global const uint *from)
{
    const uint i = get_global_id(0), n = get_global_size(0);
    to[i] = from[(i + n / 4) % n] + 1;
}
__kernel void half_of(__global uint *to, __global const uint *from, const uint first, const uint other)
{
    to[first + get_global_id(0)] = from[other + get_global_id(0)] + 1;
}
__kernel void add(__global uint *counts, const uint step) { counts[get_global_id(0)] += step; }
__kernel void turn(__global uint *counts, const uint times)
{
    uint found = counts[get_global_id(0)];
    for (uint k = 0; k < times; k++)
        found = found * 1664525 + 1013904223;
    counts[get_global_id(0)] = found;
}
__kernel void nothing(__global uint *counts) {}
__kernel void fill_volume(__global float *to) { to[get_global_id(0)] = get_global_id(0) % 1009; }
__kernel void fill_values(__global uint *to) { to[get_global_id(0)] = (uint)(get_global_id(0) % 16384) * 2654435761u >> 7; }
"""
BINS, GROUP = 1024, 256
MANY = "".join(
    f"__kernel void k{k}(__global uint *counts, const uint step) {{ counts[get_global_id(0)] += {k} + step; }}\n"
    for k in range(100)
)
#: by kind of workers: planes, rows and columns of the volume; values to count; items of the repeated launch
SIZES = {
    "cuda": {"volume": (1280, 640, 640), "values": 1 << 25, "items": 1 << 20},
    "cpu": {"volume": (64, 64, 64), "values": 1 << 16, "items": 1 << 16},
}
CHAINED, SMALL = 65536, 16
#: turns of the kernel before `late_read`
TURNED = 4000
#: of the buffers of `boxes`, and of a box, in numbers
ROWS = WIDE = 512
BOX = 32
#: steps of a round, and rounds, of which the best counts
STEPS, ROUNDS = {"cuda": 200, "cpu": 60}, 3
#: processes of each column: one is fast or slow as a whole, by half and more; and those rows that tell which, as the host takes the time
TURNS = {"cuda": 3, "cpu": 2}
OF_THE_HOST = ("chain", "ping_pong", "small_read", "empty", "rotation", "repeated", "waited")
#: programs whose kernels take as long as is told, and so much of their size that a quarter of them takes some 240 and 150 us on an H200
CUT, SHORT = ("stencil", "merge"), {"stencil_short": 1 / 2, "merge_short": 3 / 16}
NAMES = (*CUT, *SHORT, *OF_THE_HOST, "late_read", "anew", "callback", "boxes")

Step = Callable[[int], object]
#: a step by number, and whether the results are right after so many
Program = tuple[Step, Callable[[int], bool]]


class Bench:
    """A context, a queue, and the programs on them."""

    def __init__(self, kind: str) -> None:
        self.sizes = SIZES[kind]
        self.context, self.queue = common.open_queue()
        built = cl.Program(self.context, SOURCE).build([f"-DBINS={BINS}"])
        self.kernels = {kernel.function_name: kernel for kernel in built.all_kernels()}

    def kernel(self, name: str, *types: object) -> cl.Kernel:
        found: cl.Kernel = self.kernels[name]
        found.set_arg_types(types)
        return found

    def buffer(self, array: common.Array) -> cl.Buffer:
        return common.write(self.queue, array, kept=True)

    def filled(self, kernel: str, items: int) -> cl.Buffer:
        """A buffer of four bytes an item, filled by a kernel: inputs of some gigabytes take the host longer than all steps."""
        found = common.room(self.queue, 4 * items)
        self.kernels[kernel](self.queue, (items,), (GROUP,), found)
        return found

    def content(self, buffer: cl.Buffer, like: common.Array) -> common.Array:
        found = np.empty_like(like)
        cl.enqueue_copy(self.queue, found, buffer)
        return found

    def stencil(self, share: float = 1) -> Program:
        """`share`: of the planes."""
        planes, rows, wide = self.sizes["volume"]  # type: ignore[misc]
        planes = int(planes * share)
        pair = [self.filled("fill_volume", planes * rows * wide) for _ in range(2)]
        kernel = self.kernel("stencil", None, None, np.int32, np.int32, np.int32)
        numbers = np.int32(planes), np.int32(rows), np.int32(wide)

        def step(number: int) -> None:
            to, source = pair[(number + 1) % 2], pair[number % 2]
            kernel(self.queue, (wide, rows, planes), (min(wide, 64), 4, 1), to, source, *numbers)

        def is_right(steps: int) -> bool:
            """The last step, on the planes at which quarters meet."""
            plane = np.empty((5, rows, wide), np.float32)
            for quarter in (1, 2, 3):
                offset = max(0, min(planes * quarter // 4 - 2, planes - 5)) * plane[0].nbytes
                source, to = plane.copy(), plane.copy()
                cl.enqueue_copy(self.queue, source, pair[(steps + 1) % 2], src_offset=offset)
                cl.enqueue_copy(self.queue, to, pair[steps % 2], src_offset=offset)
                if not np.allclose(to[1:-1, 1:-1, 1:-1], _smoothed(source), 1e-5):
                    return False
            return True

        return step, is_right

    def merge(self, share: float = 1) -> Program:
        """`share`: of the values."""
        n = int(self.sizes["values"] * share)  # type: ignore[operator]
        some = (np.arange(1 << 14, dtype=np.uint32) * np.uint32(2654435761)) >> np.uint32(7)
        bins, seen = self.buffer(np.zeros(BINS, np.uint32)), self.buffer(np.zeros(BINS, np.uint32))
        given = self.filled("fill_values", n)
        count, look = self.kernel("count", None, None, np.uint32), self.kernel("look", None, None)
        grid = (min(n, 132 * 64 * GROUP),)
        bins_of_some = np.bincount(some % BINS, minlength=BINS) * (n // len(some))
        expected = (bins_of_some + np.bincount(some[: n % len(some)] % BINS, minlength=BINS)).astype(
            np.uint32
        )

        def step(_: int) -> None:
            count(self.queue, grid, (GROUP,), bins, given, np.uint32(n))
            look(self.queue, (BINS,), (GROUP,), seen, bins)

        def is_right(steps: int) -> bool:
            return bool((self.content(bins, expected) == expected * np.uint32(steps)).all())

        return step, is_right

    def stencil_short(self, share: float = 1) -> Program:
        return self.stencil(share * SHORT["stencil_short"])

    def merge_short(self, share: float = 1) -> Program:
        return self.merge(share * SHORT["merge_short"])

    def chain(self) -> Program:
        start = np.arange(CHAINED, dtype=np.uint32)
        pair = [self.buffer(start), self.buffer(start)]
        kernel = self.kernel("chain", None, None)

        def step(number: int) -> None:
            kernel(self.queue, (CHAINED,), (GROUP,), pair[(number + 1) % 2], pair[number % 2])

        def is_right(steps: int) -> bool:
            expected = np.roll(start, -(steps * (CHAINED // 4))) + np.uint32(steps)
            return bool((self.content(pair[steps % 2], start) == expected).all())

        return step, is_right

    def ping_pong(self) -> Program:
        start, half = np.zeros(CHAINED, np.uint32), CHAINED // 2
        pair = [self.buffer(start), self.buffer(start)]
        kernel = self.kernel("half_of", None, None, np.uint32, np.uint32)

        def step(number: int) -> None:
            first, other = (0, half) if number % 2 == 0 else (half, 0)
            to, source = pair[number % 2], pair[(number + 1) % 2]
            kernel(self.queue, (half,), (GROUP,), to, source, np.uint32(first), np.uint32(other))

        def is_right(steps: int) -> bool:
            expected = [start.copy(), start.copy()]
            for number in range(steps):
                first, other = (0, half) if number % 2 == 0 else (half, 0)
                source = expected[(number + 1) % 2][other : other + half]
                expected[number % 2][first : first + half] = source + np.uint32(1)
            return all((self.content(b, start) == e).all() for b, e in zip(pair, expected, strict=True))

        return step, is_right

    def small_read(self) -> Program:
        counts, seen = self.buffer(np.zeros(GROUP, np.uint32)), np.zeros(SMALL, np.uint32)
        add = self.kernel("add", None, np.uint32)

        def step(_: int) -> None:
            add(self.queue, (GROUP,), (GROUP,), counts, np.uint32(1))
            cl.enqueue_copy(self.queue, seen, counts)

        return step, lambda steps: bool((seen == steps).all())

    def late_read(self) -> Program:
        counts, seen = self.buffer(np.zeros(GROUP, np.uint32)), np.zeros(SMALL, np.uint32)
        turn = self.kernel("turn", None, np.uint32)

        def step(_: int) -> None:
            turn(self.queue, (GROUP,), (GROUP,), counts, np.uint32(TURNED))
            cl.enqueue_copy(self.queue, seen, counts)

        def is_right(steps: int) -> bool:
            expected = 0
            for _ in range(steps * TURNED):
                expected = (expected * 1664525 + 1013904223) % 2**32
            return bool((seen == expected).all())

        return step, is_right

    def empty(self) -> Program:
        counts = self.buffer(np.zeros(GROUP, np.uint32))
        kernel = self.kernel("nothing", None)
        return lambda _: kernel(self.queue, (GROUP,), (GROUP,), counts), lambda _: True

    def rotation(self) -> Program:
        counts = self.buffer(np.zeros(GROUP, np.uint32))
        built = cl.Program(self.context, MANY).build()
        kernels = [cl.Kernel(built, f"k{k}") for k in range(100)]
        for kernel in kernels:
            kernel.set_arg_types([None, np.uint32])

        def step(number: int) -> None:
            kernels[number % 100](self.queue, (GROUP,), (GROUP,), counts, np.uint32(number))

        def is_right(steps: int) -> bool:
            total = sum(number % 100 + number for number in range(steps))
            return bool((self.content(counts, np.zeros(GROUP, np.uint32)) == total).all())

        return step, is_right

    def anew(self) -> Program:
        counts = self.buffer(np.zeros(GROUP, np.uint32))
        built = cl.Program(self.context, MANY).build()

        def step(number: int) -> None:
            cl.Kernel(built, "k1")(self.queue, (GROUP,), (GROUP,), counts, np.uint32(number))

        def is_right(steps: int) -> bool:
            total = sum(1 + number for number in range(steps))
            return bool((self.content(counts, np.zeros(GROUP, np.uint32)) == total).all())

        return step, is_right

    def callback(self) -> Program:
        counts = self.buffer(np.zeros(GROUP, np.uint32))
        add, called = self.kernel("add", None, np.uint32), threading.Semaphore(0)

        def step(_: int) -> None:
            event = add(self.queue, (GROUP,), (GROUP,), counts, np.uint32(1))
            event.set_callback(cl.command_execution_status.COMPLETE, lambda status: called.release())
            self.queue.flush()
            called.acquire()

        return step, lambda steps: bool((self.content(counts, np.zeros(GROUP, np.uint32)) == steps).all())

    def boxes(self) -> Program:
        volume = np.arange(ROWS * WIDE, dtype=np.uint32).reshape(ROWS, WIDE)
        source, target, expected = (
            self.buffer(volume),
            self.buffer(np.zeros_like(volume)),
            np.zeros_like(volume),
        )
        pitches = 4 * WIDE, 4 * ROWS * WIDE

        def place(number: int) -> tuple[int, int]:
            return number * 7 % (WIDE - BOX), number * 13 % (ROWS - BOX)

        def step(number: int) -> None:
            x, y = place(number)
            cl.enqueue_copy(
                self.queue, target, source, src_origin=(4 * x, y, 0), dst_origin=(4 * y, x, 0), region=(4 * BOX, BOX, 1),
                src_pitches=pitches, dst_pitches=pitches,
            )  # fmt: skip

        def is_right(steps: int) -> bool:
            for number in range(steps):
                x, y = place(number)
                expected[x : x + BOX, y : y + BOX] = volume[y : y + BOX, x : x + BOX]
            return bool((self.content(target, np.zeros_like(volume)) == expected).all())

        return step, is_right

    def repeated(self) -> Program:
        items = int(self.sizes["items"])  # type: ignore[call-overload]
        start = np.zeros(items, np.uint32)
        counts, add = self.buffer(start), self.kernel("add", None, np.uint32)
        one = np.uint32(1)

        def step(_: int) -> None:
            add(self.queue, (items,), (GROUP,), counts, one)

        return step, lambda steps: bool((self.content(counts, start) == steps).all())

    def waited(self) -> Program:
        launch, is_right = self.repeated()

        def step(number: int) -> None:
            launch(number)
            self.queue.finish()

        return step, is_right

    def timed(self, program: Program, steps: int) -> tuple[float, float]:
        """Microseconds of a step, and of its calls, the best of some rounds. ValueError where results are wrong."""
        step, is_right = program
        best, number = (float("inf"), float("inf")), 0
        for _ in range(ROUNDS + 1):
            self.queue.finish()
            began = time.perf_counter()
            for _ in range(steps):
                step(number)
                number += 1
            called = time.perf_counter()
            self.queue.finish()
            ended = time.perf_counter()
            best = min(best, ((ended - began) / steps * 1e6, (called - began) / steps * 1e6))
        if not is_right(number):
            raise ValueError("the results are wrong")
        return best


def _smoothed(volume: common.Array) -> common.Array:
    """The stencil within a volume."""
    near = volume[:-2, 1:-1, 1:-1] + volume[2:, 1:-1, 1:-1] + volume[1:-1, :-2, 1:-1] + volume[1:-1, 2:, 1:-1]
    near = near + volume[1:-1, 1:-1, :-2] + volume[1:-1, 1:-1, 2:]
    result: common.Array = np.float32(0.4) * volume[1:-1, 1:-1, 1:-1] + np.float32(0.1) * near
    return result


def measure(kind: str, only: list[str], alone: bool) -> columns.Figures:
    """By program, microseconds of a step and of its calls; `alone`: of the kernels that are cut, on a quarter, too."""
    bench = Bench(kind)
    found: columns.Figures = {"device": bench.queue.device.name.strip(), "sum": 0.0}
    programs: dict[str, Callable[[], Program]] = {name: getattr(bench, name) for name in NAMES}
    if alone:
        quarters: dict[str, Callable[[], Program]] = {
            f"{name} on a quarter": functools.partial(getattr(bench, name), 1 / 4) for name in (*CUT, *SHORT)
        }
        programs |= quarters
    for name, program in programs.items():
        if only and name.split()[0] not in only:
            continue
        found[name], found[f"{name}, calls"] = bench.timed(program(), STEPS[kind])
        if name in OF_THE_HOST:
            found["sum"] += found[name]
    return found


def by_cupy(count: int, options: object, shared: bool, only: list[str]) -> columns.Figures:
    """The same by CuPy on so many GPUs, in a process of its own."""
    devices = ",".join("0" if shared else str(number) for number in range(count))
    command = [sys.executable, str(Path(__file__).with_name("latency_cupy.py")), "--devices", devices]
    command += ["--only", ",".join(only)] if only else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stdout + done.stderr}
    found: columns.Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="NAME,...")
    parser.add_argument("--shared", action="store_true", help="all workers on one GPU")
    options = parser.parse_args()
    kind = machine.kind_of(options)
    native = os.environ.get("VDEV") != "1"
    found = columns.measured(
        options, lambda: measure(kind, options.only, native), turns=TURNS[kind], least="sum", timeout=400
    )
    if kind == "cuda":
        for count in machine.counts_of(options):
            found[f"cupy {count}"] = by_cupy(count, options, options.shared, options.only)
    lines = []
    for name in next(iter(found.values())):
        if name in ("device", "sum", "failed") or name.endswith(", calls"):
            continue
        cells = [
            f"{column} {values[name]:.1f} ({values.get(f'{name}, calls', 0):.1f})"
            for column, values in found.items()
            if name in values
        ]
        lines.append(f"{name:28}" + "; ".join(cells))
    return columns.conclude(options, found, lines, bars(found))


def bars(found: dict[str, columns.Figures]) -> list[columns.Figures]:
    """What issue and README promise, where it was measured."""
    result = []
    if "4" in found:
        for name in (*CUT, *SHORT):
            alone = columns.value(found, machine.NATIVE, f"{name} on a quarter")
            step = columns.quotient(columns.value(found, "4", name), alone)
            result.append(columns.most(f"{name}, a step on 4 over its kernel on a quarter", step, 1.15))
        calls = columns.value(found, "4", "repeated, calls")
        result.append(columns.most("repeated, us of the host on 4", calls, 25))
    result.append(columns.most("empty, us of the host on 1", columns.value(found, "1", "empty, calls"), 9))
    for column in found:
        if column != machine.NATIVE and not column.startswith("cupy"):
            native = columns.value(found, machine.NATIVE, "small_read")
            ratio = columns.quotient(columns.value(found, column, "small_read"), native)
            result.append(columns.most(f"small_read, {column} over native", ratio, 1.3))
    return result


if __name__ == "__main__":
    sys.exit(main())
