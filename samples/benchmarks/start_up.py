"""What a short program takes from its start to its end: natively and on 1, 2 ... workers, the first run and later ones.

    python samples/benchmarks/start_up.py [--runs N] [--workers 1,2] [--kind cpu|cuda] [--json FILE]

Two programs, each a process: one kernel (saxpy), and ten. The first run of each column begins with empty folders for
what vdev, PyOpenCL and CUDA keep; of the later runs, which alternate with the other columns', the fastest counts. Also shown is the
least processor time of such a process, which says more than elapsed time if the machine is busy. The target
is for the second run on CPU workers: at most 1.15 times the native one plus 0.1 s. On GPUs a third process tells what CUDA itself
takes: it opens the contexts of as many GPUs one after the other, allocates and fills a little memory on each, and ends. There a later
run on four GPUs is to take at most 1.3 times as long as that.
"""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import columns
import machine

RUNS, FACTOR, MORE_SECONDS = 7, 1.15, 0.1
#: of what CUDA's own start of the contexts takes, and on how many GPUs
CONTEXTS_FACTOR, CONTEXTS = 1.3, 4

PROGRAM = '''
import sys
import numpy as np, pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
count = int(sys.argv[1])
source = """
kernel void saxpy{0}(float a, global const float *x, global float *y, int n) {{
    int i = get_global_id(0);
    if (i < n) y[i] += (a + {0}) * x[i];
    for (int k = 0; k < {0}; ++k) if (i + k < n && x[i] < -1.0f) y[i + k] = k;
}}
"""
program = cl.Program(context, "".join(source.format(number) for number in range(count))).build()
x = np.ones(1 << 16, np.float32)
y = np.zeros_like(x)
given, out = (cl.Buffer(context, flags, hostbuf=each) for each in (x, y))
for number in range(count):
    kernel = cl.Kernel(program, f"saxpy{number}")
    kernel(queue, x.shape, None, np.float32(1), given, out, np.int32(x.size))
cl.enqueue_copy(queue, y, out)
assert (y == count + count * (count - 1) // 2).all()
'''
KERNELS = {"one kernel": 1, "ten kernels": 10}
OPEN_CONTEXTS = """
import ctypes, sys

driver = ctypes.CDLL("libcuda.so.1")
def done(status):
    assert status == 0, status
done(driver.cuInit(0))
for ordinal in range(int(sys.argv[1])):
    context, address = ctypes.c_void_p(), ctypes.c_void_p()
    done(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal))
    done(driver.cuCtxSetCurrent(context))
    done(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 18)))
    done(driver.cuMemsetD8_v2(address, 1, ctypes.c_size_t(1 << 18)))
    done(driver.cuCtxSynchronize())
"""


class Column:
    """Runs of the two programs in one environment, with folders of its own for what is kept."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.environment = environment | {
            "VDEV_CACHE_DIR": str(folder / "vdev"),
            "XDG_CACHE_HOME": str(folder / "pyopencl"),
            "CUDA_CACHE_PATH": str(folder / "cuda"),
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)  # all of the machine's, as its users see them
        self.found: columns.Figures = {}

    def run(self, name: str, program: str, count: int) -> None:
        """Seconds of one process with `count` as its argument: the first, or the least of those after it."""
        command = [sys.executable, "-W", "ignore", "-c", program, str(count)]
        began, used = time.perf_counter(), processor_seconds()
        done = subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=columns.TIMEOUT,
            check=False,
        )
        seconds = time.perf_counter() - began
        if done.returncode:
            self.found["failed"] = done.stderr[-1500:]
        elif f"{name}, first" not in self.found:
            self.found[f"{name}, first"] = seconds
        else:
            took = {f"{name}, later": seconds, f"{name}, processor": processor_seconds() - used}
            for later, value in took.items():
                self.found[later] = min(value, self.found.get(later, value))


def processor_seconds() -> float:
    """Of all processes that have been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def environments(kind: str, counts: list[int], native: str | None) -> dict[str, dict[str, str]]:
    """By column. The native one finds its driver as it stands, without vdev's help."""
    found = {machine.NATIVE: machine.environment(kind, None, native)}
    if kind == "cpu" and native is None:
        from vdev.start.engines import find_engines

        found[machine.NATIVE]["OCL_ICD_VENDORS"] = find_engines()[0].library
    return found | {str(count): machine.environment(kind, count) for count in counts}


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="after the first (default: %(default)s)")
    parser.set_defaults(workers="1,2")
    options = parser.parse_args()
    kind = machine.kind_of(options)
    with tempfile.TemporaryDirectory(prefix="start-up-") as folder:
        made = {
            name: Column(environment, Path(folder, name))
            for name, environment in environments(kind, machine.counts_of(options), options.native).items()
        }
        for _ in range(options.runs + 1):
            for name, kernels in KERNELS.items():
                for column in made.values():
                    column.run(name, PROGRAM, kernels)
            for count in machine.counts_of(options) if kind == "cuda" else ():
                made[machine.NATIVE].run(_contexts(count), OPEN_CONTEXTS, count)
    found = {name: column.found for name, column in made.items()}
    lines = [f"load: {', '.join(f'{load:.1f}' for load in os.getloadavg())}", *_beside_native(found)]
    if kind == "cpu":
        return columns.conclude(options, found, lines, _bars_beside_native(found))
    lines += [line for count in machine.counts_of(options) for line in _beside_contexts(found, count)]
    bars = [_bar_beside_contexts(found)] if str(CONTEXTS) in found else []
    return columns.conclude(options, found, lines, bars)


def _beside_native(found: dict[str, columns.Figures]) -> Iterator[str]:
    for name, when in itertools.product(KERNELS, ("first", "later", "processor")):
        what = f"{name}, {when}"
        native = columns.value(found, machine.NATIVE, what)
        for column in found:
            seconds = columns.value(found, column, what)
            ratio = columns.quotient(seconds, native)
            if seconds is not None and ratio is not None:
                yield f"{what:20} {column:7} {seconds:6.3f} s, {ratio:5.2f} of native"


def _bars_beside_native(found: dict[str, columns.Figures]) -> list[columns.Figures]:
    bars = []
    for name, column in itertools.product(KERNELS, found):
        if column != machine.NATIVE:
            what = f"{name}, later"
            native = columns.value(found, machine.NATIVE, what)
            most = 0.0 if native is None else FACTOR * native + MORE_SECONDS
            seconds = columns.value(found, column, what)
            bars.append(columns.most(f"{what} run, {column} workers, seconds", seconds, most))
    return bars


def _beside_contexts(found: dict[str, columns.Figures], count: int) -> Iterator[str]:
    own = columns.value(found, machine.NATIVE, f"{_contexts(count)}, later")
    for name in KERNELS:
        ratio = columns.quotient(columns.value(found, str(count), f"{name}, later"), own)
        if own is not None and ratio is not None:
            yield f"{_contexts(count)}: CUDA's own {own:.3f} s; {name}, later: {ratio:.2f} of it"


def _bar_beside_contexts(found: dict[str, columns.Figures]) -> columns.Figures:
    own = columns.value(found, machine.NATIVE, f"{_contexts(CONTEXTS)}, later")
    later = columns.value(found, str(CONTEXTS), "one kernel, later")
    most = 0.0 if own is None else CONTEXTS_FACTOR * own
    return columns.most(f"one kernel, later run, {CONTEXTS} workers, seconds", later, most)


def _contexts(count: int) -> str:
    return "1 context" if count == 1 else f"{count} contexts"


if __name__ == "__main__":
    sys.exit(main())
