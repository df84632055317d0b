"""An ordinary OpenCL program in C, natively and through `vdev-run` on 1, 2, 4 ... workers.

    python samples/benchmarks/c_programs.py [--workers 1,2] [--kind cpu|cuda] [--small] [--loader FILE] [--json FILE]

Four programs, each a process: the bandwidth of a triad on vectors of 8 GiB each, an N-body of all pairs of a million bodies,
clEnqueueNDRangeKernel of an empty kernel, and a program that launches one and ends (its second run, by the clock and by
processor time). The first two are shown at a quarter of that size and half as many bodies as well, where what a launch and a
wait cost the host is a larger part, and a quarter of the bodies no longer fills a GPU. The bars are those on GPUs, for speed
0.97, 1.9 and 3.7 times the native one on 1, 2 and 4 workers; and on one worker of the CPU at most 3 us a launch and 0.25 s a
start more than natively. Results must agree with the native ones.
Needs a C compiler, and an OpenCL loader: the machine's, or one of this Python environment.
"""

from __future__ import annotations

import ctypes.util
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

from vdev.packaging.library import compilers
from vdev.start import engines

SOURCE = Path(__file__).with_suffix(".c")
#: by what is shown: program, size and repeats, and all where little is to be shown in little time
SIZES = {
    "bandwidth": ("bandwidth", 1 << 30, 15),
    "nbody": ("nbody", 1 << 20, 2),
    "bandwidth, 2 GiB": ("bandwidth", 1 << 28, 30),
    "nbody, half": ("nbody", 1 << 19, 4),
    "launch": ("launch", 2000, 40),
}
SMALL = {
    "bandwidth": ("bandwidth", 1 << 20, 10),
    "nbody": ("nbody", 1 << 11, 2),
    "launch": ("launch", 2000, 40),
}
SPEEDS = {"1": 0.97, "2": 1.9, "4": 3.7}
MORE_MICROSECONDS, MORE_SECONDS, STARTS = 3.0, 0.25, 5


def loaders() -> Iterator[str]:
    """Files that a program can be linked with, those of this environment after the machine's."""
    found = ctypes.util.find_library("OpenCL")
    if found is not None:
        yield from (str(path) for path in Path("/usr").glob(f"lib*/**/{found}"))
    yield from (str(path) for path in Path(sys.prefix, "lib").glob("libOpenCL.so.1"))


def build(folder: Path, loader: str | None, source: Path = SOURCE) -> Path:
    """A program, compiled and linked. SystemExit where that cannot be."""
    linked = loader or next(loaders(), None)
    command = next(compilers(), None)
    if linked is None or command is None:
        sys.exit("needs an OpenCL loader (--loader FILE) and a C compiler")
    program, where = folder / source.stem, Path(linked).resolve().parent
    words = [
        *command,
        "-O1",
        str(source),
        "-o",
        str(program),
        linked,
        f"-Wl,-rpath,{where},--disable-new-dtags",
    ]
    done = subprocess.run(
        [*words, "-Wl,--allow-shlib-undefined"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return program


def run(program: Path, name: str, size: int, repeats: int) -> columns.Figures:
    """What a process of the program has printed, and its seconds by the clock and of processors' time."""
    words = [str(program), name, str(size), str(repeats)]
    environment = {name: value for name, value in os.environ.items() if name != "VDEV"}
    if os.environ.get("VDEV") == "1":
        words = [sys.executable, "-m", "vdev.cli.run", *words]
    began, used = time.perf_counter(), _processor_seconds()
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    seconds, processor = time.perf_counter() - began, _processor_seconds() - used
    if done.returncode:
        raise RuntimeError(f"{name}: status {done.returncode}: {done.stdout}{done.stderr}")
    figures = {key: float(value) for key, value in (line.split() for line in done.stdout.splitlines())}
    return figures | {"seconds": seconds, "processor": processor}


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(sizes: dict[str, tuple[str, int, int]], loader: str | None) -> columns.Figures:
    """A column's figures: of each program its speed and its check, and what a start takes."""
    if os.environ.get("VDEV") != "1":
        engines.register_engines()
    found: columns.Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder), loader)
        for name, (what, size, repeats) in sizes.items():
            figures = run(program, what, size, repeats)
            found |= {name: figures["speed"], f"{name} check": figures["check"]}
        run(program, "start", 1, 1)
        starts = [run(program, "start", 1, 1) for _ in range(STARTS)]
    for key in ("seconds", "processor"):
        found[f"start {key}"] = min(figures[key] for figures in starts)
    return found


def bars(found: dict[str, columns.Figures], kind: str) -> list[columns.Figures]:
    """What is wanted of the columns that were run."""
    result = []
    if kind == "cuda":
        for name in ("bandwidth", "nbody"):
            for workers, wanted in SPEEDS.items():
                if workers in found:
                    speeds = (columns.value(found, column, name) for column in (workers, machine.NATIVE))
                    title = f"{name} on {workers} beside native"
                    result.append(columns.least(title, columns.quotient(*speeds), wanted))
    for name, more in (("launch", MORE_MICROSECONDS), ("start seconds", MORE_SECONDS)):
        both = [columns.value(found, column, name) for column in ("1", machine.NATIVE)]
        if kind == "cpu" and None not in both:
            result.append(columns.most(f"{name}, more than natively", both[0] - both[1], more))
    return result


def rows(found: dict[str, columns.Figures]) -> list[str]:
    """A line for each column, and one for each result that is not the native one."""
    lines = [
        f"{'':8} {'GB/s':>9} {'10^9 pairs/s':>13} {'us a launch':>12} {'start s':>8} {'processor s':>12}"
    ]
    for name, figures in found.items():
        if "failed" not in figures:
            lines.append(
                f"{name:8} {figures['bandwidth']:9.1f} {figures['nbody']:13.2f} {figures['launch']:12.2f} "
                f"{figures['start seconds']:8.3f} {figures['start processor']:12.3f}"
            )
            lines += [
                f"  {name}, {what}: {figures[what]:.1f}"
                for what in ("bandwidth, 2 GiB", "nbody, half")
                if what in figures
            ]
            lines += _differences(name, figures, found.get(machine.NATIVE, {}))
    return lines


def _differences(name: str, figures: columns.Figures, native: columns.Figures) -> Iterator[str]:
    for key, value in figures.items():
        if key.endswith(" check") and abs(value - native.get(key, value)) > 1e-4 * abs(value):
            yield f"{name}: WRONG: {key} {value}, natively {native[key]}"


def main() -> int:
    """1 where something failed or is wrong."""
    parser = columns.parser(__doc__)
    parser.add_argument("--small", action="store_true", help="small sizes, where there is no GPU")
    parser.add_argument("--loader", help="the OpenCL loader to link with (default: found)")
    options = parser.parse_args()
    sizes = SMALL if options.small else SIZES
    found = columns.measured(options, lambda: measure(sizes, options.loader))
    lines = rows(found)
    failed = columns.conclude(options, found, lines, bars(found, machine.kind_of(options)))
    return 1 if failed or any("WRONG" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
