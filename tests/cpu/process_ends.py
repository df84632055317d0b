"""Ways for a process to end, natively and on the virtual device: exit status, seconds, output.

    python -m tests.cpu.process_ends [NAME ...] [--jobs N] [--limit SECONDS] [--results FOLDER]

Each way is a small program that runs twice, with VDEV=0 and with VDEV=1, from the line that it prints when it begins to
end. Status and output must be the same and it may take a second longer; where they differ, it runs natively again, up to
three times, since some ways do not end alike in two native runs. Prints a table; with `--results` also written
there, as process_ends.json and process_ends.md. The exit status is 1 where one differs. Natively the loader has to find
a driver: the one that vdev finds is registered for it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

HEAD = ("| way | native | virtual | output | differs |", "|---|---|---|---|---|")
#: seconds that an end may take longer than natively, and after which it counts as a hang
ALLOWED, LIMIT = 1.0, 60.0
#: Natively some ways end in a race, now with an abort and now with a message: so many runs have to differ from the virtual one.
NATIVE_RUNS = 4

COMMON = """
import atexit, gc, os, signal, subprocess, sys, threading, time
import numpy as np
import pyopencl as cl
SOURCE = '''
kernel void spin(global uint *out, uint rounds) {
    uint x = get_global_id(0) + 1;
    for (uint k = 0; k < rounds; ++k) x = x * 1664525u + 1013904223u ^ (x >> 7);
    out[get_global_id(0)] += x;
}
kernel void one(global int *a) { a[get_global_id(0)] = 1; }
'''
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build()
spin, one = program.spin, program.one
N = 4096
out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * N)
spin(queue, (N,), (64,), out, np.uint32(10))
one(queue, (N,), (64,), out)
queue.finish()
def work(seconds):
    # rounds of about 50 ms each; never less than asked for on a slow machine
    for _ in range(int(seconds * 20)):
        spin(queue, (N,), (64,), out, np.uint32(30_000))
    queue.flush()
def read():
    host = np.empty(N, np.int32)
    cl.enqueue_copy(queue, host, out)
    return int(host[0])
def leave():
    print("left", time.monotonic(), flush=True)
"""

#: by name: what the program does from there on
WAYS: dict[str, str] = {
    "nothing queued": "leave()",
    "a launch queued": "one(queue, (N,), None, out); leave()",
    "seconds queued": "work(12); leave()",
    "seconds queued, sys.exit(3)": "work(12); leave(); sys.exit(3)",
    "seconds queued, sys.exit with a text": "work(12); leave(); sys.exit('a reason')",
    "seconds queued, SystemExit(None)": "work(12); leave(); raise SystemExit",
    "seconds queued, an exception": "work(12); leave(); raise ValueError('the program says so')",
    "seconds queued, os._exit(4)": "work(12); leave(); os._exit(4)",
    "seconds queued, os.abort": "work(12); leave(); os.abort()",
    "seconds queued, SIGTERM": "work(12); leave(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)",
    "seconds queued, SIGKILL": "work(12); leave(); os.kill(os.getpid(), signal.SIGKILL); time.sleep(9)",
    "seconds queued, SIGINT": "work(12); leave(); os.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
    "seconds queued, SIGINT by default": (
        "signal.signal(signal.SIGINT, signal.SIG_DFL); work(12); leave(); os.kill(os.getpid(), signal.SIGINT)"
    ),
    "seconds queued, SIGTERM handled": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); work(12); leave(); "
        "os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)"
    ),
    "seconds queued out of order": """
        mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        queue = cl.CommandQueue(context, properties=mode); work(12); leave()""",
    "seconds queued with profiling": """
        queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        work(4); leave()""",
    "seconds queued in two queues": "work(6); queue = cl.CommandQueue(context); work(6); leave()",
    "seconds queued, objects in a cycle": """
        class Node: pass
        node = Node(); node.self = node; node.held = (context, queue, out, program)
        work(12); del context, queue, out, program; leave()""",
    "seconds queued, objects dropped": "work(12); del queue, out, spin, one, program, context; leave()",
    "seconds queued, a callback": """
        event = one(queue, (N,), None, out); work(12)
        spin(queue, (N,), None, out, np.uint32(1)).set_callback(0, lambda status: None); leave()""",
    "seconds queued, a daemon thread waits": """
        work(12); threading.Thread(target=queue.finish, daemon=True).start(); time.sleep(0.2); leave()""",
    "seconds queued, an event kept": "work(12); event = spin(queue, (N,), None, out, np.uint32(1)); leave()",
    "a user event nobody sets": """
        event = cl.UserEvent(context); one(queue, (N,), None, out, wait_for=[event]); leave()""",
    "a user event nobody sets, sys.exit(5)": """
        event = cl.UserEvent(context); one(queue, (N,), None, out, wait_for=[event]); leave(); sys.exit(5)""",
    "a user event, a daemon thread waits for it": """
        event = cl.UserEvent(context)
        threading.Thread(target=event.wait, daemon=True).start(); time.sleep(0.1); leave()""",
    "a user event that failed": """
        event = cl.UserEvent(context); one(queue, (N,), None, out, wait_for=[event])
        event.set_status(-1); leave()""",
    "an exception": "leave(); raise KeyError('x')",
    "an exception of OpenCL's": "leave(); one.set_args(1, 2, 3)",
    "KeyboardInterrupt raised": "leave(); raise KeyboardInterrupt",
    "sys.exit in a thread": """
        thread = threading.Thread(target=lambda: (work(0.1), sys.exit(9))); thread.start(); thread.join(); leave()""",
    "an exception in a thread": """
        def fail(): one(queue, (N,), None, out); raise ValueError('in a thread')
        thread = threading.Thread(target=fail); thread.start(); thread.join(); leave()""",
    "a thread that goes on": """
        def later():
            time.sleep(0.5); one(queue, (N,), None, out); print(read(), flush=True)
        threading.Thread(target=later).start(); leave()""",
    "daemon threads that enqueue": """
        def enqueue():
            while True: one(queue, (N,), None, out)
        def copy():
            while True: read()
        for act in (enqueue, enqueue, copy): threading.Thread(target=act, daemon=True).start()
        time.sleep(0.3); leave()""",
    "daemon threads that build": """
        def build():
            k = 0
            while True:
                k += 1
                cl.Program(context, 'kernel void f(global int *a) { a[0] = %d; }' % k).build(cache_dir=False)
        threading.Thread(target=build, daemon=True).start(); time.sleep(0.5); leave()""",
    "an exit handler that computes": """
        def last():
            one(queue, (N,), None, out); print(read(), flush=True)
        atexit.register(last); leave()""",
    "an exit handler from before": """
        leave()""",
    "an exit handler that fails": """
        def last():
            one(queue, (N,), None, out); raise ValueError('at exit')
        atexit.register(last); leave()""",
    "an exit handler, seconds queued": "atexit.register(lambda: print('bye', flush=True)); work(12); leave()",
    "a finaliser of a global": """
        class Last:
            def __del__(self, out=out): print('dropped', flush=True)
        last = Last(); one(queue, (N,), None, out); leave()""",
    "a finaliser that releases": """
        class Last:
            def __init__(self): self.buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
            def __del__(self): self.buffer.release()
        last = Last(); leave()""",
    "a finaliser that finishes": """
        class Last:
            def __init__(self): self.queue = queue
            def __del__(self): self.queue.finish(); print('finished', flush=True)
        last = Last(); one(queue, (N,), None, out); leave()""",
    "a mapping kept": """
        array, _ = cl.enqueue_map_buffer(queue, out, cl.map_flags.WRITE, 0, N, np.int32); leave()""",
    "a transfer on its way": """
        host = np.empty(N, np.int32); work(0.2); event = cl.enqueue_copy(queue, host, out, is_blocking=False)
        leave()""",
    "shared virtual memory kept": """
        svm = cl.SVM(cl.csvm_empty(context, N, np.int32)); one(queue, (N,), None, svm); leave()""",
    "a pool kept": """
        from pyopencl.tools import ImmediateAllocator, MemoryPool
        pool = MemoryPool(ImmediateAllocator(queue)); held = pool(4096); leave()""",
    "a forked child with sys.exit": """
        sys.stdout.flush(); child = os.fork()
        if child == 0: sys.exit(6)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True); leave()""",
    "a forked child, seconds queued": """
        work(12); sys.stdout.flush(); child = os.fork()
        if child == 0: os._exit(6)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True); leave()""",
    "a program started and left": """
        subprocess.run([sys.executable, '-c', 'print(1)'], check=True); work(12); leave()""",
    "exec of another program": """
        work(12); leave(); os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(8)'])""",
    "standard output closed": "work(1); leave(); os.close(1)",
    "a faulty pointer": "work(3); leave(); import ctypes; ctypes.string_at(8)",
}
#: what comes before everything else
BEFORE = {
    "an exit handler from before": """
import atexit
def last():
    one(queue, (N,), None, out)
    print(read(), flush=True)
atexit.register(last)
""",
}


@dataclass(frozen=True)
class End:
    """How a process ended; `status` as subprocess has it, None for a hang; `seconds` from where it was leaving."""

    status: int | None
    seconds: float
    out: str
    err: str


def end_of(name: str, environ: dict[str, str], limit: float = LIMIT) -> End:
    """Run a way in `environ`."""
    program = BEFORE.get(name, "") + COMMON + textwrap.dedent(WAYS[name]).strip("\n") + "\n"
    command = [sys.executable, "-W", "ignore", "-c", program]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return End(None, limit, out, err)
    ended = time.monotonic()  # the same clock for both processes
    lines = out.splitlines()
    left = [float(line.split()[1]) for line in lines if line.startswith("left ")]
    rest = "\n".join(line for line in lines if not line.startswith("left "))
    return End(process.returncode, ended - left[-1] if left else float("nan"), rest, _last_line(err))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def environs() -> tuple[dict[str, str], dict[str, str]]:
    """For the native engine and for the virtual device."""
    from vdev.start import engines

    engines.register_engines()
    found = {**os.environ, "PYOPENCL_CTX": "", "PYTHONUNBUFFERED": "1"}
    found.pop("PYOPENCL_CTX")
    native = {**found, "VDEV": "0"}
    return native, {"VDEV_WORKERS": "cpu:3", **found, "VDEV": "1"}


def differs(native: End, virtual: End) -> str:
    """What is not as natively; nothing where all is. Where natively a process crashes, any end but a hang is one."""
    if virtual.status is None:
        return "" if native.status is None else "a hang"
    crashed = native.status is None or (native.status < 0 and native.status in (-6, -11) != virtual.status)
    if not crashed and virtual.status != native.status:
        return f"status {virtual.status}, natively {native.status}"
    if not crashed and (virtual.out, virtual.err) != (native.out, native.err):
        return f"other output: {virtual.out} {virtual.err}"
    if virtual.seconds > native.seconds + ALLOWED:
        return f"{virtual.seconds - native.seconds:.1f} s later"
    return ""


def table(
    names: Sequence[str], jobs: int = 1, limit: float = LIMIT, told: Callable[[str], object] = len
) -> list[dict[str, object]]:
    """Both ends of each way, and what differs; `told` is called with each line as it comes."""
    both = environs()

    def row(name: str) -> dict[str, object]:
        native, virtual = (end_of(name, environ, limit) for environ in both)
        for _ in range(NATIVE_RUNS - 1):
            if differs(native, virtual):
                native = end_of(name, both[0], limit)
        found = {
            "way": name,
            "native": asdict(native),
            "virtual": asdict(virtual),
            "differs": differs(native, virtual),
        }
        told(_line(found))
        return found

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(row, names))


def as_markdown(rows: Sequence[dict[str, object]]) -> str:
    """The table for people."""
    return "\n".join([*HEAD, *(_line(row) for row in rows)]) + "\n"


def _line(row: dict[str, object]) -> str:
    ends = [_short(row[key]) for key in ("native", "virtual")]
    output = " / ".join(str(row["virtual"][key]) for key in ("out", "err") if row["virtual"][key])  # type: ignore[index]
    return f"| {row['way']} | {ends[0]} | {ends[1]} | {output} | {row['differs']} |"


def _short(end: object) -> str:
    assert isinstance(end, dict)
    return "a hang" if end["status"] is None else f"{end['status']}, {end['seconds']:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only ways whose names contain one of these")
    parser.add_argument("--jobs", type=int, default=1, help="ways at a time")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for each")
    parser.add_argument("--results", type=Path, help="folder to write the table to")
    options = parser.parse_args()
    names = [name for name in WAYS if not options.names or any(part in name for part in options.names)]
    print(*HEAD, sep="\n", flush=True)
    rows = table(names, options.jobs, options.limit, lambda line: print(line, flush=True))
    text = as_markdown(rows)
    if options.results is not None:
        (options.results / "process_ends.md").write_text(text)
        (options.results / "process_ends.json").write_text(json.dumps(rows, indent=1) + "\n")
    wrong = [row for row in rows if row["differs"]]
    print(f"{len(rows)} ways, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
