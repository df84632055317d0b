"""The classes of faults that were found in 0.1.0, each as a small program that checks its own result.

    python -m tests.cpu.first_faults [NAME ...] [--workers cpu:3] [--python PYTHON] [--before-fails] [--results FILE]

Each program runs natively, on the virtual device of this version and, with `--python`, on that of the version installed
for another interpreter. It is right if it ends with status 0 and a line `right`. Prints a table; `--results` also
writes it to a file. The exit status is 1 if a program is not right natively or now, and with `--before-fails` also if one
that is not a guard is right in the other version. Guards are right in 0.1.0 too, and have to stay so.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

#: seconds after which a program counts as one that hangs
LIMIT = 120.0

COMMON = '''
import ctypes.util, os, shutil, signal, subprocess, sys, warnings
from pathlib import Path
import numpy as np
import pyopencl as cl

warnings.simplefilter("ignore")
VIRTUAL = os.environ["VDEV"] == "1"
ITEMS = 6144
item = np.arange(ITEMS, dtype=np.int32)
random = np.random.default_rng(77)
SHARED = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR

def device():
    context = cl.create_some_context(interactive=False)
    return context, cl.CommandQueue(context)

def result_of(source, before, *given, options=()):
    """What `run(result, *given)` makes of an array that begins as `before`."""
    context, queue = device()
    result = before.copy()
    buffers = [cl.Buffer(context, SHARED, hostbuf=each) for each in (result, *given)]
    cl.Program(context, source).build(list(options)).run(queue, (ITEMS,), (96,), *buffers)
    cl.enqueue_copy(queue, result, buffers[0])
    return result

def compare(result, expected):
    wrong = np.flatnonzero(result != expected)
    if wrong.size:
        sys.exit(f"{wrong.size} of {expected.size} values are wrong")

def expect(source, places, values, size, *given, options=()):
    """`run` stores `values` at `places` of an array of `size` elements of -3 and changes nothing else."""
    before = np.full(size, -3, np.int32)
    expected = before.copy()
    expected[places] = values
    compare(result_of(source, before, *given, options=options), expected)
'''


@dataclass(frozen=True)
class Fault:
    """A class of faults: what is right (and where the specification says so), and a program that has to find it."""

    right: str
    program: str
    guard: bool = False  #: 0.1.0 is right, too
    switches: tuple[tuple[str, str], ...] = ()


FAULTS: dict[str, Fault] = {
    "vector comparison": Fault(
        "A component of a comparison of vectors is -1 if it holds (OpenCL C, relational operators).",
        """
        expect('''kernel void run(global int *out) {
            long at = get_global_id(0);
            long2 late = (long2)(at, at + 1) > (long2)(2000);
            out[3 * at + 1 + late.s1] = at;
        }''', 3 * item + 1 - (item + 1 > 2000), item, 3 * ITEMS)
        """,
    ),
    "vector choice": Fault(
        "`?:` on vectors chooses each component by its own condition (OpenCL C, ternary selection operator).",
        """
        marks = random.integers(0, 10, (ITEMS, 2), dtype=np.int32)
        first, second = np.where(marks > 4, 2, 5).T
        expect('''kernel void run(global int *out, global const int *marks) {
            int at = get_global_id(0);
            int2 high = (int2)(marks[2 * at], marks[2 * at + 1]) > (int2)(4);
            int2 chosen = high ? (int2)(2) : (int2)(5);
            out[7 * at + 3 + chosen.x - chosen.y] = at;
        }''', 7 * item + 3 + first - second, item, 7 * ITEMS, marks)
        """,
    ),
    "select on vectors": Fault(
        "`select` on vectors chooses each component by the highest bit of its own condition (OpenCL C, relational functions).",
        """
        signs = random.choice([-9, 9], (ITEMS, 2)).astype(np.int32)
        first, second = np.where(signs < 0, 4, 1).T
        expect('''kernel void run(global int *out, global const int *signs) {
            int at = get_global_id(0);
            int2 chosen = select((int2)(1), (int2)(4), (int2)(signs[2 * at], signs[2 * at + 1]));
            out[7 * at + 3 + chosen.y - chosen.x] = at;
        }''', 7 * item + 3 + second - first, item, 7 * ITEMS, signs)
        """,
    ),
    "narrowing loop variable": Fault(
        "A loop variable that shrinks and is then converted to a narrower type may turn negative (C99 6.3.1.3).",
        """
        expect('''kernel void run(global int *out) {
            int at = get_global_id(0), value = 140000;
            for (int turn = 0; turn < 2; turn++) {
                out[2 * at + (value < 0)] = value;
                value = (short)(value >> 2);
            }
        }''', slice(None), np.tile([140000, -30536], ITEMS), 2 * ITEMS)
        """,
    ),
    "table of another type": Fault(
        "A constant table that is read through a pointer to a wider type has that type's values, not its own elements'.",
        """
        expect('''constant ushort steps[4] __attribute__((aligned(8))) = {1, 0, 0, 2};
        kernel void run(global int *out) {
            int at = get_global_id(0);
            constant uint *pairs = (constant uint *)steps;
            out[3 * at + (pairs[1] >> 16)] = at;
        }''', 3 * item + 2, item, 3 * ITEMS)
        """,
    ),
    "merge unit": Fault(
        "What workers wrote is merged by the narrowest store, if an earlier wider store may reach the whole buffer as well.",
        """
        slots = random.permutation(ITEMS).astype(np.uint32)
        values = random.integers(1, 65536, ITEMS, dtype=np.uint16)
        expected = np.zeros(ITEMS, np.uint16)
        expected[slots] = values
        compare(result_of('''
        kernel void run(global ulong *out, global const uint *slots, global const ushort *values) {
            uint at = get_global_id(0);
            if (values[at] == 0)
                out[slots[at] >> 2] = 1;
            else
                ((global ushort *)out)[slots[at]] = values[at];
        }''', np.zeros(ITEMS, np.uint16), slots, values), expected)
        """,
    ),
    "merge unit under the check": Fault(
        "VDEV_CHECK=1 stops a program whose bytes were merged wrongly; or the result is right.",
        """
        order = random.permutation(ITEMS).astype(np.int32)
        expected = np.zeros(ITEMS, np.uint8)
        expected[order] = item % 250 + 1
        try:
            result = result_of('''
            kernel void run(global short *out, global const int *order) {
                int at = get_global_id(0), to = order[at];
                global uchar *bytes = (global uchar *)out;
                if (to < 0) out[-to] = 0;
                if (to >= 0) bytes[to] = at % 250 + 1;
            }''', np.zeros(ITEMS, np.uint8), order)
        except Exception as error:
            if type(error).__name__ != "CheckFailure":
                raise
        else:
            compare(result, expected)
        """,
        switches=(("VDEV_CHECK", "1"),),
    ),
    "semicolon in a character": Fault(
        "A semicolon in a character constant ends no clause of a `for` (C99 6.4.4.4, 6.8.5.3).",
        """
        expect('''kernel void run(global int *out) {
            int at = get_global_id(0), count;
            out[2 * at] = at;
            for (count = ';' - 9; count < 63; )
                count += 2;
            out[2 * at + 1] = count;
        }''', slice(None), np.stack([item, np.full(ITEMS, 64)], 1).ravel(), 2 * ITEMS)
        """,
    ),
    "line after a macro": Fault(
        "`__LINE__` behind a macro call over several lines is the line that it stands on (C99 6.10.8).",
        """
        expect('''#define MIDDLE(a, b, c) (b)
        kernel void run(global int *out) {
            int at = get_global_id(0);
            out[2 * at] = MIDDLE(1,
                                 2,
                                 3) + 10 * __LINE__;
            out[2 * at + 1] = __LINE__;
        }''', slice(None), np.tile([62, 7], ITEMS), 2 * ITEMS)
        """,
    ),
    "bool to a vector": Fault(
        "`true` converted to a vector of integers sets all bits of each component (OpenCL C, conversions of scalars to vectors).",
        """
        heights = random.integers(0, 20, ITEMS, dtype=np.int32)
        expect('''kernel void run(global int *out, global const int *heights) {
            int at = get_global_id(0);
            bool tall = heights[at] > 9;
            long4 all = (long4)tall;
            out[3 * at + 1 + all.z] = at;
        }''', 3 * item + 1 - (heights > 9), item, 3 * ITEMS, heights)
        """,
    ),
    "array declared in a switch": Fault(
        "An array declared in front of the first `case` is private memory whose initialiser never runs (C99 6.8.4.2).",
        """
        expect('''kernel void run(global int *out) {
            int at = get_global_id(0);
            switch (at % 3) {
                int steps[3] = {1, 1, 1};
            default:
                steps[2] = 4;
                out[5 * at + steps[2]] = at;
            }
        }''', 5 * item + 4, item, 5 * ITEMS)
        """,
    ),
    "true in a condition": Fault(
        "`true` is 1 in a condition of the preprocessor, as for the native compiler.",
        """
        expect('''
        #if MODE == true
        #define PLACE 2
        #else
        #define PLACE 0
        #endif
        kernel void run(global int *out) { int at = get_global_id(0); out[3 * at + PLACE] = at; }
        ''', 3 * item + 2, item, 3 * ITEMS, options=["-DMODE=1"])
        """,
    ),
    "elifdef": Fault(
        "`#elifdef` opens a branch (C23 6.10.1), as for the native compiler.",
        """
        expect('''
        #ifdef SMALL
        #define PLACE 0
        #elifdef LARGE
        #define PLACE 3
        #else
        #define PLACE 1
        #endif
        kernel void run(global int *out) { int at = get_global_id(0); out[4 * at + PLACE] = at; }
        ''', 4 * item + 3, item, 4 * ITEMS, options=["-DLARGE"])
        """,
    ),
    "elifndef": Fault(
        "`#elifndef` opens a branch (C23 6.10.1), as for the native compiler.",
        """
        expect('''
        #ifdef SMALL
        #define PLACE 0
        #elifndef TINY
        #define PLACE 2
        #else
        #define PLACE 1
        #endif
        kernel void run(global int *out) { int at = get_global_id(0); out[4 * at + PLACE] = at; }
        ''', 4 * item + 2, item, 4 * ITEMS)
        """,
    ),
    "padding of structures": Fault(
        "Bytes of padding that a kernel's compiler does not store keep their values (C99 6.2.6.1 leaves it open).",
        """
        layout = np.dtype([("tag", "u1"), ("gap", "u1", 7), ("weight", "i8")])
        result = result_of('''
        typedef struct { uchar tag; long weight; } entry;
        entry make(int at) { entry made; made.tag = at % 9; made.weight = 5L * at; return made; }
        kernel void run(global entry *out) {
            entry made = make(get_global_id(0));
            out[get_global_id(0)] = made;
        }''', np.full(ITEMS * layout.itemsize, 0x5C, np.uint8)).view(layout)
        compare(result["tag"], item % 9)
        compare(result["weight"], 5 * item.astype(np.int64))
        compare(result["gap"].ravel(), np.full(7 * ITEMS, 0x5C))
        """,
    ),
    "warning options": Fault(
        "Options about warnings change no program, in the translation to CUDA C++ either (which needs no GPU).",
        """
        source = "kernel void run(global int *out) { int at = get_global_id(0), spare; out[at] = 3 * at; }"
        options = ["-Wextra", "-Wno-unused-parameter", "-Wno-error=unused-variable"]
        expect(source, item, 3 * item, ITEMS, options=options)
        if VIRTUAL:
            try:
                from vdev.translators.dialects.cuda.translation import translate_cuda
                from vdev.translators.frontend.source import parse_program
            except ImportError:  # 0.1.0
                from vdev.translators.cuda import translate_cuda
                from vdev.translators.source import parse_program
            for option in options:
                translate_cuda(parse_program(source, (option,)))
        """,
    ),
    "exit with queued work": Fault(
        "A program that ends with many seconds of work in its queue ends with its own status.",
        """
        import time
        context, queue = device()
        run = cl.Program(context, '''kernel void run(global float *out, int turns) {
            float value = get_global_id(0);
            while (turns-- > 0) value = sin(value) + 0.5f;
            out[get_global_id(0)] = value;
        }''').build().run
        out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * ITEMS)
        def seconds(turns):
            begun = time.perf_counter()
            run(queue, (ITEMS,), (96,), out, np.int32(turns))
            queue.finish()
            return time.perf_counter() - begun
        seconds(10)
        turns = 1000
        while (once := seconds(turns)) < 0.1:
            turns *= 2
        for _ in range(int(60 / once)):  # far less than a minute if the measurement was disturbed
            run(queue, (ITEMS,), (96,), out, np.int32(turns))
        queue.flush()
        """,
    ),
    "exit with a user event": Fault(
        "A command that waits for a user event that nobody sets does not hold up the end of the program.",
        """
        context, queue = device()
        run = cl.Program(context, "kernel void run(global char *a) { a[get_global_id(0)] += 2; }").build().run
        bytes_ = cl.Buffer(context, SHARED, hostbuf=np.zeros(ITEMS, np.int8))
        never = cl.UserEvent(context)
        run(queue, (ITEMS,), (96,), bytes_, wait_for=[never])
        run(queue, (ITEMS,), (96,), bytes_)
        queue.flush()
        """,
        guard=True,
    ),
    "fork with a context": Fault(
        "A forked child that uses OpenCL, with its parent's context or its own, gets a result or an error, and never hangs.",
        """
        SOURCE = "kernel void run(global int *a) { a[get_global_id(0)] += 11; }"
        def objects():
            context, queue = device()
            return context, queue, cl.Program(context, SOURCE).build().run
        def add(context, queue, run):
            numbers = item.copy()
            buffer = cl.Buffer(context, SHARED, hostbuf=numbers)
            run(queue, (ITEMS,), (96,), buffer)
            cl.enqueue_copy(queue, numbers, buffer)
            compare(numbers, item + 11)
        def child(make):
            number = os.fork()
            if number == 0:
                signal.alarm(300)
                try:
                    add(*make())
                except Exception:
                    pass
                os._exit(0)
            if os.waitpid(number, 0)[1] != 0:
                sys.exit("the child had to be killed")
        parents = objects()
        add(*parents)
        if VIRTUAL:  # OpenCL itself leaves open what happens
            child(lambda: parents)
            child(objects)
        add(*parents)
        """,
    ),
    "fork before a context": Fault(
        "Forked children that make contexts of their own get results, and so does the parent afterwards.",
        """
        def triple():
            result = result_of("kernel void run(global int *a) { a[get_global_id(0)] *= 3; }", item)
            compare(result, 3 * item)
        children = []
        for _ in range(2):
            children.append(os.fork())
            if children[-1] == 0:
                signal.alarm(300)
                triple()
                os._exit(0)
        if any(os.waitpid(child, 0)[1] for child in children):
            sys.exit("a child failed")
        triple()
        """,
        guard=True,
    ),
    "driver file with a long line": Fault(
        "An .icd file that names no library is passed over (cl_khr_icd), whatever its bytes.",
        """
        vendors = Path("vendors")
        vendors.mkdir()
        (vendors / "good.icd").write_text(sys.argv[1] + "\\n")
        environ = {**os.environ, "OPENCL_VENDOR_PATH": str(vendors.absolute())}
        del environ["OCL_ICD_VENDORS"]
        START = "import pyopencl; pyopencl.create_some_context(interactive=False)"
        for state in ("good", "bad"):
            if subprocess.run([sys.executable, "-c", START], env=environ).returncode:
                sys.exit(f"does not start with {state} files")
            (vendors / "bad.icd").write_bytes(b"\\xfc" * 700 + b"\\n")
        """,
    ),
    "damaged file in the cache": Fault(
        "Damaged .icd files in the cache folder are written anew.",
        """
        vendors, cache = Path("vendors"), Path("cache")
        vendors.mkdir()
        (vendors / "good.icd").write_text(sys.argv[1] + "\\n")
        environ = {**os.environ, "OPENCL_VENDOR_PATH": str(vendors.absolute()), "VDEV_CACHE_DIR": str(cache.absolute())}
        del environ["OCL_ICD_VENDORS"]
        START = "import pyopencl; pyopencl.create_some_context(interactive=False)"
        for state in ("new", "damaged"):
            if subprocess.run([sys.executable, "-c", START], env=environ).returncode:
                sys.exit(f"does not start with a {state} cache")
            for path in cache.rglob("*.icd"):
                path.write_bytes(b"\\x80\\x81")
        """,
    ),
    "foreign file in the cache": Fault(
        "An .icd file in the cache folder that vdev did not write is not given to the loader, which would run its library.",
        """
        vendors, cache, library = Path("vendors"), Path("cache").absolute(), Path("libstranger.so").absolute()
        vendors.mkdir()
        (vendors / "good.icd").write_text(sys.argv[1] + "\\n")
        shutil.copy(next(line.split()[-1] for line in open("/proc/self/maps") if "/libm.so" in line or "/libm-" in line), library)
        environ = {**os.environ, "OPENCL_VENDOR_PATH": str(vendors.absolute()), "VDEV_CACHE_DIR": str(cache)}
        del environ["OCL_ICD_VENDORS"]
        START = "import pyopencl, os; pyopencl.create_some_context(interactive=False); print(os.environ.get('OCL_ICD_VENDORS'))"
        def start(**more):
            command = [sys.executable, "-c", START]
            return subprocess.run(command, env={**environ, **more}, capture_output=True, text=True)
        ended = start()
        if ended.returncode:
            sys.exit("does not start")
        folder = Path(ended.stdout.strip())
        if VIRTUAL:
            (folder / "stranger.icd").write_text(f"{library}\\n")
        ended = start(LD_DEBUG="files")  # glibc's linker then names every library that it loads
        if library.name in ended.stderr:
            sys.exit("the foreign library was loaded")
        if ended.returncode or "libc.so" not in ended.stderr:
            sys.exit("does not start, or the linker did not say what it loaded")
        """,
    ),
    "interrupted planning": Fault(
        "An exception from a signal's handler while a launch is planned leaves its queue usable.",
        """
        class Stop(BaseException):
            pass
        def stop(number, frame):
            raise Stop
        signal.signal(signal.SIGALRM, stop)
        BODY = "".join(f"if (at % {k + 2} == 1) out[(at * {k + 3}) % {ITEMS}] = at; " for k in range(12))
        NAMES = [f"step{number}" for number in range(9)]
        SOURCE = "".join(f"kernel void {name}(global int *out) {{ int at = get_global_id(0); {BODY} }}" for name in NAMES)
        context, queue = device()
        built = cl.Program(context, SOURCE + "kernel void last(global int *out) { out[get_global_id(0)] = 8; }").build()
        kernels = [cl.Kernel(built, name) for name in NAMES]
        buffer = cl.Buffer(context, SHARED, hostbuf=item)
        calls, stop_at, stopped = 0, 0, 0
        def profile(frame, event, argument):
            global calls
            calls += 1
            if calls == stop_at:
                signal.raise_signal(signal.SIGALRM)
        def launch(kernel):
            global stopped
            try:
                sys.setprofile(profile)
                kernel(queue, (ITEMS,), (96,), buffer)
            except Stop:
                stopped += 1
            finally:
                sys.setprofile(None)
        launch(kernels[0])
        calls = 0
        launch(kernels[1])  # in which nothing is imported any more
        usual = calls
        for number, kernel in enumerate(kernels[2:], 1):
            calls, stop_at = 0, usual * number // len(kernels)
            launch(kernel)
        if VIRTUAL and stopped < 4:
            sys.exit(f"only {stopped} launches were interrupted")
        queue.finish()
        built.last(queue, (ITEMS,), (96,), buffer)
        result = np.zeros(ITEMS, np.int32)
        cl.enqueue_copy(queue, result, buffer)
        compare(result, np.full(ITEMS, 8))
        """,
    ),
}


def driver() -> str:
    """The library of the driver that this version finds, which native programs then find as well."""
    from vdev.start import engines

    return engines.register_engines()[0].library


def outcome(
    name: str,
    virtual: bool = True,
    workers: str = "cpu:3",
    python: str = sys.executable,
    limit: float = LIMIT,
) -> str:
    """What became of a program: `right`, or what is wrong."""
    fault = FAULTS[name]
    program = COMMON + textwrap.dedent(fault.program) + "\nprint('right', flush=True)\n"
    library = driver()
    environ = {key: text for key, text in os.environ.items() if not key.startswith(("VDEV", "PYTHON"))}
    environ |= {
        "VDEV": str(int(virtual)),
        "VDEV_WORKERS": workers,
        "VDEV_MIN_ITEMS": "0",
        "PYOPENCL_NO_CACHE": "1",
    }
    environ |= {"VDEV_PLANNING": "always", **dict(fault.switches)}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [python, "-c", program, library], cwd=folder, env={**environ, "VDEV_CACHE_DIR": f"{folder}/usual"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "hangs"
    return _judged(process.returncode, out, err)


def _judged(status: int, out: str, err: str) -> str:
    if status < 0:
        return f"ends with {signal.Signals(-status).name}"
    if status == 0:
        return "right" if out.splitlines()[-1:] == ["right"] else "ended early"
    last = [line for line in err.splitlines() if line.strip()][-1:] or [f"exit status {status}"]
    return "".join(character for character in last[0] if character.isprintable())[:100].strip()


def table(
    names: Iterable[str], workers: str, python: str | None, limit: float, told: Callable[[str], object]
) -> list[tuple[str, list[str]]]:
    """For each name what it comes to natively, now and, if there is another interpreter, before."""
    rows = []
    for name in names:
        ends = [outcome(name, virtual, workers, limit=limit) for virtual in (False, True)]
        if python is not None:
            ends.append(outcome(name, True, workers, python, limit))
        rows.append((name, ends))
        told(_line(name, ends))
    return rows


def _line(name: str, ends: Iterable[str]) -> str:
    guard = " (guard)" if FAULTS[name].guard else ""
    return (
        " | ".join([f"| {name}{guard}", FAULTS[name].right, *(end.replace("|", "/") for end in ends)]) + " |"
    )


def _head(python: str | None) -> list[str]:
    columns = ["class", "what is right", "native", "now"]
    if python is not None:
        ask = "from importlib.metadata import version; print(version('vdev'))"
        told = subprocess.run([python, "-c", ask], cwd="/", capture_output=True, text=True, check=True)
        columns.append(f"before ({told.stdout.strip()})")
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only faults whose names contain one of these")
    parser.add_argument("--workers", default="cpu:3", help="what VDEV_WORKERS says")
    parser.add_argument("--python", help="the interpreter of another version's environment")
    parser.add_argument(
        "--before-fails", action="store_true", help="the other version has to fail but for guards"
    )
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds after which a program hangs")
    parser.add_argument("--results", type=Path, help="file to write the table to")
    options = parser.parse_args()
    names = [name for name in FAULTS if not options.names or any(part in name for part in options.names)]
    head = _head(options.python)
    print(*head, sep="\n", flush=True)
    rows = table(names, options.workers, options.python, options.limit, lambda line: print(line, flush=True))
    if options.results is not None:
        options.results.write_text("\n".join([*head, *(_line(*row) for row in rows)]) + "\n")
    wrong = [name for name, ends in rows if ends[:2] != ["right", "right"]]
    unseen = [name for name, ends in rows if ends[2:] == ["right"] and not FAULTS[name].guard]
    print(
        f"{len(rows)} classes; not right: {', '.join(wrong) or 'none'}; not shown before: {', '.join(unseen) or 'none'}"
    )
    return 1 if wrong or (options.before_fails and unseen) else 0


if __name__ == "__main__":
    sys.exit(main())
