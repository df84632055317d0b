"""What checking a kernel's accesses costs: processor time, compared with the kernel alone and with Oclgrind, and memory.

Each program runs in turn as it is and checked, on one CPU worker; the least of several runs counts. `kernel` is the time
of the launches alone, `call` that of everything from arrays to arrays: copies, shadow memory, reading back.
Compilation is left out, so the forms are the optimised ones, which small launches get only after many of them. Oclgrind
(Debian package `oclgrind`) is slow, so it has a size of its own, at which the checked kernels are run again.
Memory is the most that a process takes in addition to what it had once everything was built.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import check_programs
import numpy as np
from check_programs import MAKERS, Case

MOST_RATIO, LEAST_GAIN, MEMORY_FACTOR, MEMORY_MORE = 15, 100, 4, 200_000_000
_OCLGRIND = ("oclgrind", "--data-races", "--uninitialized", "--log", "/dev/null")


def arguments(case: Case) -> list[Any]:
    from vdev.harness.checked_launch import Memory, Pointer

    contents = [array.copy().view(np.uint8) for array in case.arrays]
    return [Pointer(Memory(each, np.ones(len(each), np.bool_)), 0, len(each)) for each in contents]


class Timer:
    """Processor time of a worker's launches, in `seconds`."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.seconds = 0.0
        self.launches = 0
        self._launch = backend.launch

    def __enter__(self) -> Timer:
        self.backend.launch = self._timed
        return self

    def __exit__(self, *_: object) -> None:
        del self.backend.launch

    def _timed(self, *given: Any) -> None:
        self.backend.record().wait()
        started = time.process_time()
        self._launch(*given)
        self.backend.record().wait()
        self.seconds += time.process_time() - started
        self.launches += 1


def once(backend: Any, case: Case, launch: Callable[[list[Any]], object]) -> tuple[float, float, float]:
    """(kernel, call, launches): seconds of all launches of a case."""
    pointers = arguments(case)
    with Timer(backend) as timer:
        started = time.process_time()
        for scalars in case.launches:
            launch([*pointers, *(scalar.tobytes() for scalar in scalars)])
        return timer.seconds, time.process_time() - started, timer.launches / len(case.launches)


def compare(backend: Any, case: Case, repeats: int) -> dict[str, float]:
    """Seconds of the kernel alone and of its checked launches."""
    from vdev.translators.frontend.source import parse_program
    from vdev.translators.ranges.ndrange import NDRange

    from vdev.backends.base import BackendProgram
    from vdev.harness.checked_launch import CheckedSource
    from vdev.harness.running import whole_launch

    grid = NDRange(case.global_size, case.local_size, (0,) * len(case.global_size))
    native, checked = BackendProgram(case.source), CheckedSource(parse_program(case.source))
    checked.expect_many("k")

    def found(args: list[Any]) -> None:
        findings = checked.launch(backend, "k", args, grid).findings
        assert not findings, findings

    alone, watched = [], []
    for _ in range(repeats):
        alone.append(once(backend, case, lambda args: whole_launch(backend, native, "k", args, grid)))
        watched.append(once(backend, case, found))
    least = {
        f"{name}_{what}": min(run[number] for run in runs)
        for name, runs in (("native", alone), ("checked", watched))
        for number, what in enumerate(("kernel", "call"))
    }
    return {**least, "launches_for_each": watched[-1][2]}


def measure(name: str, size: int, repeats: int) -> dict[str, float]:
    from vdev.harness.running import open_session

    case = check_programs.case(name, size)
    found: dict[str, float] = open_session("cpu:1").executor.call(
        0, lambda backend: compare(backend, case, repeats)
    )
    return found


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * resource.getpagesize()


def watched(backend: Any, case: Case) -> int:
    """Bytes that the process has at most while the launches of a case are checked: copies, shadow memory, what is read."""
    from vdev.translators.frontend.source import parse_program
    from vdev.translators.ranges.ndrange import NDRange

    from vdev.harness.checked_launch import CheckedSource

    grid = NDRange(case.global_size, case.local_size, (0,) * len(case.global_size))
    checked = CheckedSource(parse_program(case.source))
    once(backend, case, lambda args: checked.launch(backend, "k", args, grid))
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def peak(name: str, size: int) -> dict[str, int]:
    """Bytes that checking takes beyond those of a process that has opened its device and made its arrays."""
    from vdev.harness.running import open_session

    measure(name, 64, 2)
    case = check_programs.case(name, size)
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the peak begins anew (proc(5))
    before = resident()
    call = open_session("cpu:1").executor.call
    most = call(0, lambda backend: watched(backend, case))
    return {"buffers": case.nbytes, "taken": max(0, most - before)}


def under_oclgrind(name: str, size: int) -> dict[str, float]:
    """Processor seconds of the launches, in a process that Oclgrind has."""
    import pyopencl as cl

    case = check_programs.case(name, size)
    context = cl.Context(cl.get_platforms()[0].get_devices())
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, case.source).build().k
    copied = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, copied, hostbuf=array) for array in case.arrays]
    queue.finish()
    started = time.process_time()
    for scalars in case.launches:
        kernel(queue, case.global_size, case.local_size, *buffers, *scalars)
    queue.finish()
    return {"kernel": time.process_time() - started}


def child(kind: str, name: str, size: int, repeats: int, before: tuple[str, ...] = ()) -> dict[str, float]:
    """A measurement in a process of its own."""
    command = [*before, sys.executable, __file__, "--child", kind, "--program", name, "--size", str(size)]
    done = subprocess.run(
        [*command, "--repeats", str(repeats)], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """All that is measured of one program."""
    found: dict[str, Any] = {"program": check_programs.case(name, 64).name, "size": given.size}
    found |= child("time", name, given.size, given.repeats)
    if given.memory_size:
        found["memory"] = {"size": given.memory_size, **child("memory", name, given.memory_size, 1)}
    if given.oclgrind_size and shutil.which("oclgrind"):
        size = given.oclgrind_size
        seconds = child("oclgrind", name, size, 1, _OCLGRIND)["kernel"]
        found["oclgrind"] = {
            "size": size,
            "seconds": seconds,
            **child("time", name, size, max(12, given.repeats)),
        }
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as Markdown."""
    head = (
        "program", "native ms", "checked ms", "ratio", "calls: native ms", "checked ms", "ratio", "Oclgrind s",
        "checked s there", "ratio", "buffers MB", "memory MB",
    )  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for each in rows:
        cells = [each["program"]]
        for what in ("kernel", "call"):
            native, checked = each[f"native_{what}"], each[f"checked_{what}"]
            cells += [f"{1e3 * native:.2f}", f"{1e3 * checked:.2f}", f"{checked / native:.1f}"]
        other = each.get("oclgrind")
        if other:
            seconds, checked = other["seconds"], other["checked_kernel"]
            cells += [f"{seconds:.2f}", f"{checked:.5f}", f"{seconds / checked:,.0f}"]
        else:
            cells += ["", "", ""]
        memory = each.get("memory")
        cells += [f"{memory['buffers'] / 1e6:.0f}", f"{memory['taken'] / 1e6:.0f}"] if memory else ["", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def missed(each: dict[str, Any]) -> list[str]:
    """What of the bars a program misses."""
    found = []
    if each["checked_kernel"] > MOST_RATIO * each["native_kernel"]:
        found.append(f"more than {MOST_RATIO} times native")
    other, memory = each.get("oclgrind"), each.get("memory")
    if other and other["seconds"] < LEAST_GAIN * other["checked_kernel"]:
        found.append(f"less than {LEAST_GAIN} times as fast as Oclgrind")
    if memory and memory["taken"] > MEMORY_FACTOR * memory["buffers"] + MEMORY_MORE:
        found.append(f"more than {MEMORY_FACTOR} times its buffers and {MEMORY_MORE / 1e6:.0f} MB")
    return [f"{each['program']}: {text}" for text in found]


def machine() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=256, help="a multiple of 32; default: %(default)s")
    parser.add_argument("--oclgrind-size", type=int, default=0, help="0, the default: without Oclgrind")
    parser.add_argument("--memory-size", type=int, default=0, help="0, the default: memory is not measured")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--program", choices=sorted(MAKERS), action="append")
    parser.add_argument("--child", choices=("time", "memory", "oclgrind"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name = given.program[0]
        kinds = {
            "time": lambda: measure(name, given.size, given.repeats),
            "memory": lambda: peak(name, given.size),
            "oclgrind": lambda: under_oclgrind(name, given.size),
        }
        print(json.dumps(kinds[given.child]()))
        return
    rows = [row(name, given) for name in given.program or MAKERS]
    print(table(rows))
    for each in rows:
        for text in missed(each):
            print(f"missed: {text}")
    if given.json:
        found = {"machine": machine(), "command": sys.argv[1:], "programs": rows}
        given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
