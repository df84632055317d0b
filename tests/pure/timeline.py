"""How long steps of programs would take on GPUs, from what vdev asks of their driver:

    python -m tests.pure.timeline [--workers 2,4,8] [--kernels 65,130,260] [--call 3] [--event 3]

A stencil on two volumes in turn, of which neighbours exchange planes of 1.6 MB, runs on the driver for machines without a GPU
(`fake_cuda`), whose kernels do nothing; its log says in which order streams were given work, and which events that waits for. From this
`ends` computes when each step would be done. Shown are the microseconds of a step for kernels that take so long on each GPU, without and
with interiors (`VDEV_INTERIORS=0` and `1`), and the calls of the driver's for a step.

What is given: a launch takes the time of its work-groups, and shares its GPU with what runs on other streams of it: more urgent ones have
what they can use; no launch takes less than `Rates.least`. A copy takes a latency, and its bytes at the rate of a link; it leaves
the GPU to others. A stream goes on some time after an event of another stream's was recorded. Each call takes the host the same time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from . import fake_cuda

#: planes, rows and columns of a volume, and steps: until plans are compiled and in a row, and then
VOLUME, WARM, STEPS = (640, 640, 640), 40, 30

PROGRAM = f"""
import ctypes
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
kernel = cl.Kernel(cl.Program(context, '''
kernel void stencil(global float *to, global const float *from, const int planes, const int rows, const int wide)
{{
    const int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    const long at = ((long)z * rows + y) * wide + x, plane = (long)rows * wide;
    if (x == 0 || y == 0 || z == 0 || x == wide - 1 || y == rows - 1 || z >= planes - 1) return;
    to[at] = 0.4f * from[at] + 0.1f * (from[at - 1] + from[at + 1] + from[at - wide] + from[at + wide]
                                       + from[at - plane] + from[at + plane]);
}}
kernel void fill(global float *to) {{ to[get_global_id(0)] = 0; }}
''').build(), "stencil")
fill = cl.Kernel(kernel.program, "fill")
kernel.set_arg_types([None, None, np.int32, np.int32, np.int32])
planes, rows, wide = {VOLUME}
pair = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * planes * rows * wide) for _ in range(2)]
for each in pair:
    fill(queue, (planes * rows * wide,), (256,), each)
note = ctypes.CDLL("libcuda.so.1").fake_note
for number in range({WARM + STEPS}):
    note(ctypes.c_long(number))
    kernel(queue, (wide, rows, planes), (64, 4, 1), pair[(number + 1) % 2], pair[number % 2], *map(np.int32, (planes, rows, wide)))
    if number < {WARM} - 10:  # the workers' threads are not behind, so that the next launches are made at once
        queue.finish()
note(ctypes.c_long({WARM + STEPS}))
queue.finish()
"""


#: by stream: its GPU, and how urgent it is, lower numbers more so
Streams = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Rates:
    """Seconds, and bytes a second, of GPUs and of the host."""

    group: float = 0.0  #: of each work-group of the program's, where a GPU has nothing else to do
    least: float = 3e-6  #: what any launch takes
    call: float = 3e-6  #: of the host's, for each call
    event: float = 3e-6  #: until a stream goes on that waits for an event of another stream's
    latency: float = 7.9e-6  #: of a copy
    link: float = 383e9


@dataclass
class Work:
    """What a stream was given with one call."""

    stream: int
    given: float  #: when the host had made the call
    step: int  #: the note before it
    work: float = 0.0  #: seconds of the whole GPU that it takes
    least: float = 0.0  #: seconds that it takes at least
    waits: tuple[str, str] | None = None  #: the event, and which of its places
    records: tuple[str, str] | None = None


def read(lines: Iterable[str], rates: Rates) -> tuple[list[Work], Streams]:
    """What a log says: the work in the order of the calls, and the streams."""
    found: list[Work] = []
    streams: dict[int, tuple[int, int]] = {}
    now, step = 0.0, -1
    for line in lines:
        kind, *rest = line.split()
        if kind == "stream":
            streams[int(rest[0])] = int(rest[1]), int(rest[2])
        elif kind == "note":
            step = int(rest[0])
        else:
            now += rates.call
            if kind != "context":
                found.append(_work(kind, rest, now, step, rates))
    return found, streams


def _work(kind: str, rest: Sequence[str], now: float, step: int, rates: Rates) -> Work:
    made = Work(int(rest[0]), now, step)
    if kind == "wait":
        return replace(made, waits=(rest[1], rest[2]))
    if kind == "record":
        return replace(made, records=(rest[1], rest[2]))
    if kind in ("copy", "fill"):
        return replace(made, least=rates.latency + int(rest[1]) / rates.link)
    name, groups, first, fifth = rest[1], int(rest[2]), int(rest[3]), int(rest[4])
    if name.startswith(
        "copy_"
    ):  # vdev's own: of one box the fifth parameter says how many units it has, of several the first
        units = first if name.startswith("copy_boxes_") else fifth
        return replace(made, least=rates.latency + units * int(name.rpartition("_u")[2]) / rates.link)
    return replace(made, work=groups * rates.group, least=rates.least)


def ends(work: Sequence[Work], streams: Streams, event: float) -> dict[int, float]:
    """By step, when the last of its work is done. `event`: as in `Rates`.

    >>> first, second = Work(0, 0.0, 0, work=5.0, least=1.0), Work(1, 0.0, 1, work=2.0, least=1.0)
    >>> ends([first, second], {0: (0, 0), 1: (0, -1)}, 0.0)  # the first stream has what the second leaves
    {0: 7.0, 1: 2.0}
    >>> record, wait = Work(0, 0.0, 0, records=("a", "1")), Work(1, 0.0, 1, waits=("a", "1"))
    >>> ends([first, record, wait, second], {0: (0, 0), 1: (1, 0)}, 0.5)
    {0: 5.0, 1: 7.5}
    """
    return _Run(work, streams, event).ends()


class _Run:
    """Streams that do their work, each in its order."""

    def __init__(self, work: Sequence[Work], streams: Streams, event: float) -> None:
        self._event = event
        self._gpus = {stream: gpu for stream, (gpu, _) in streams.items()}
        self._places = {stream: (priority, stream) for stream, (_, priority) in streams.items()}
        self._left: dict[int, list[Work]] = {stream: [] for stream in streams}
        for each in work:
            self._left[each.stream].append(each)
        for of_stream in self._left.values():
            of_stream.reverse()
        #: by stream: seconds of the GPU that its current work still takes, and the least that it takes
        self._running: dict[int, tuple[float, float]] = {}
        self._recorded: dict[tuple[str, str], tuple[float, int]] = {}
        self._ends: dict[int, float] = {}
        self._now = 0.0

    def ends(self) -> dict[int, float]:
        while any(self._left.values()):
            while self._begin():
                pass
            rates = self._rates()
            following = [self._now + self._seconds(stream, rates) for stream in self._running]
            following += [
                at
                for of_stream in self._left.values()
                if of_stream and (at := self._from(of_stream[-1])) > self._now
            ]
            if not following:
                assert not any(self._left.values()), "a stream waits for what never comes"
                break
            self._advance(min(following), rates)
        return dict(sorted(self._ends.items()))

    def _from(self, work: Work) -> float:
        """When it can begin as far as is known; never, where that is not known."""
        if work.stream in self._running:
            return float("-inf")
        if work.waits is None:
            return work.given
        at = self._recorded.get(work.waits)
        if at is None:
            return float("-inf")
        return max(work.given, at[0] + (self._event if at[1] != work.stream else 0.0))

    def _begin(self) -> bool:
        """What can begin now does: whether anything did."""
        some = False
        for stream, left in self._left.items():
            if not left or stream in self._running or not 0.0 <= self._from(left[-1]) <= self._now:
                continue
            some = True
            if left[-1].work or left[-1].least:
                self._running[stream] = left[-1].work, left[-1].least
            else:
                self._end(stream)
        return some

    def _end(self, stream: int) -> None:
        done = self._left[stream].pop()
        if done.records is not None:
            self._recorded[done.records] = self._now, stream
        self._ends[done.step] = max(self._ends.get(done.step, 0.0), self._now)

    def _rates(self) -> dict[int, float]:
        """By stream, the part of its GPU that it has: more urgent ones have what they can use."""
        free = dict.fromkeys(self._gpus.values(), 1.0)
        found: dict[int, float] = {}
        for stream in sorted(self._running, key=self._places.__getitem__):
            work, least = self._running[stream]
            gpu = self._gpus[stream]
            found[stream] = min(free[gpu], work / least if least > 0 else 1.0) if work else 0.0
            free[gpu] -= found[stream]
        return found

    def _seconds(self, stream: int, rates: Mapping[int, float]) -> float:
        work, least = self._running[stream]
        if not work:
            return least
        return work / rates[stream] if rates[stream] else float("inf")

    def _advance(self, until: float, rates: Mapping[int, float]) -> None:
        passed, finished = until - self._now, []
        for stream, (work, least) in self._running.items():
            if self._seconds(stream, rates) <= passed * (1 + 1e-9):
                finished.append(stream)
            else:
                self._running[stream] = (
                    work - passed * rates[stream],
                    max(0.0, least - passed) if not work else least,
                )
        self._now = until
        for stream in finished:
            del self._running[stream]
            self._end(stream)


def log_of(folder: Path, count: int, **switches: str) -> list[str]:
    """What vdev asks of so many GPUs' driver in the program."""
    path = folder / "log"
    env = fake_cuda.environment(folder, f"cuda:0-{count - 1}") | {
        "FAKE_CUDA_DEVICES": str(count),
        "FAKE_CUDA_IDLE": "1",
    }
    env |= {
        "VDEV_PLANNING": "always",
        "VDEV_GATHER": "0",
        "VDEV_MIN_ITEMS": "1",
        "FAKE_CUDA_LOG": str(path),
    } | switches
    fake_cuda.run(PROGRAM, env)
    return path.read_text().splitlines()


def step_of(lines: Sequence[str], rates: Rates) -> float:
    """Seconds of a step, once plans are compiled and in a row: the median, as on a busy machine some take other ways."""
    found = ends(*read(lines, rates), rates.event)
    steps = [step for step in found if WARM <= step < WARM + STEPS]
    return median((found[late] - found[early]) / (late - early) for early, late in pairwise(steps))


def calls_of(lines: Sequence[str]) -> float:
    """How many calls a step takes then, of which marks, behind some, are not."""
    notes = [at for at, line in enumerate(lines) if line.startswith("note")]
    return median(late - early - 1 for early, late in pairwise(notes[WARM:]))


def with_kernels(seconds: float, count: int) -> Rates:
    """Where a launch over the whole volume takes so long on each of the GPUs."""
    planes, rows, wide = VOLUME
    groups = planes * (rows // 4) * (wide // 64)
    return Rates(seconds * count / groups)


def main(show: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pure.timeline", description=__doc__)
    parser.add_argument("--workers", default="2,4,8", help="numbers of GPUs, separated by commas")
    parser.add_argument("--kernels", default="65,130,260,470", help="microseconds that kernels take on each")
    parser.add_argument("--call", type=float, default=3.0, help="microseconds of the host's for each call")
    parser.add_argument(
        "--event",
        type=float,
        default=3.0,
        help="microseconds until a stream goes on that waits for another's event",
    )
    parser.add_argument(
        "--switches", default="VDEV_INTERIORS=0,VDEV_INTERIORS=1", help="of each column, separated by commas"
    )
    given = parser.parse_args()
    columns = [each.split("=") for each in given.switches.split(",")]
    show("GPUs  kernel us  " + "  ".join(f"{'='.join(each):>26}" for each in columns))
    with tempfile.TemporaryDirectory() as folder:
        os.environ[fake_cuda.SHARED] = os.environ.get(fake_cuda.SHARED, folder)
        for count in map(int, given.workers.split(",")):
            logs = [log_of(Path(folder), count, **{name: value}) for name, value in columns]
            for kernel in map(float, given.kernels.split(",")):
                rates = replace(
                    with_kernels(kernel * 1e-6, count), call=given.call * 1e-6, event=given.event * 1e-6
                )
                times = [(step_of(log, rates) * 1e6, calls_of(log)) for log in logs]
                cells = [f"{time:8.1f} us, {calls:3.0f} calls  {time / kernel:4.2f}" for time, calls in times]
                show(f"{count:4}  {kernel:9.0f}  " + "  ".join(f"{cell:>26}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
