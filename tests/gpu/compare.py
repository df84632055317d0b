"""What each kernel of the corpus computes under vdev, against a native OpenCL run of the same kernel.

    python -m tests.gpu.compare --workers cuda:0 --json differences.json

Each side runs in a process of its own: natively (PyOpenCL as it is, on the first GPU, or CPU for `--workers cpu…`), and with VDEV=1. What
the native compiler lacks, or is known to compute wrong, is compared with the values the corpus states. Prints a table of the
differences, and of where the native side is not what a case states ("native errs"); the status is 1 if vdev differs anywhere.
Never decides what counts as equal: the cases do.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vdev.start.engines import register_engines

from .corpus import Case, Local, all_cases, batches, differences

Arrays = tuple[npt.NDArray[Any], ...]
#: Results of one side: the outputs of a case, or why there are none
Outcome = Arrays | str
#: Processes that one side may use up.
_MOST_STARTS = 25


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workers", default="cuda:0", help="VDEV_WORKERS of the side under vdev (default: %(default)s)"
    )
    parser.add_argument(
        "--native", action="store_true", help="run the native side alone and compare with stated values"
    )
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="cases by name, as in a shell; may be repeated"
    )
    parser.add_argument("--json", metavar="FILE", help="write everything found to a file")
    parser.add_argument(
        "--limit", type=float, default=900, metavar="SECONDS", help="for one side (default: %(default)s)"
    )
    parser.add_argument("--run", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="", help=argparse.SUPPRESS)
    parser.add_argument("--names", metavar="FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    cases = chosen(args.only)
    if args.run:
        if args.names:
            wanted = set(Path(args.names).read_text().split("\n"))
            cases = [case for case in cases if case.name in wanted]
        write_outcomes(args.run, run_cases(cases, args.device))
        return 0
    kind = "CPU" if args.workers.startswith(("cpu", "opencl")) else "GPU"
    native = run_side(kind, None, args.only, args.limit)
    under = native if args.native else run_side("", args.workers, args.only, args.limit)
    found = compared(cases, native, under, alone=args.native, same_compiler=kind == "CPU")
    report(found, len(cases))
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))
    return int(any(entry["verdict"] in ("differs", "fails") for entry in found))


def chosen(patterns: Sequence[str] | None) -> list[Case]:
    return [
        case
        for case in all_cases()
        if not patterns or any(fnmatch.fnmatchcase(case.name, p) for p in patterns)
    ]


# one side ---------------------------------------------------------------------------------------------


def run_side(
    device: str, workers: str | None, only: Sequence[str] | None, limit: float
) -> dict[str, Outcome]:
    """All cases in a process of its own, and what a case that ends the process leaves in another one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    environment["PYOPENCL_NO_CACHE"] = "1"
    if workers is not None:
        environment.update(VDEV="1", VDEV_WORKERS=workers)
    found: dict[str, Outcome] = {}
    names = [case.name for case in chosen(only)]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for start in range(_MOST_STARTS):
            left = [name for name in names if name not in found]
            if not left:
                break
            wanted, path = Path(folder) / f"names{start}", Path(folder) / f"outcomes{start}"
            wanted.write_text("\n".join(left))
            command = [sys.executable, "-m", "tests.gpu.compare", "--run", str(path), "--names", str(wanted)]
            try:
                done = subprocess.run(
                    [*command, "--device", device], env=environment, timeout=limit, check=False
                )
                ending = f"the process ended with status {done.returncode}"
            except subprocess.TimeoutExpired:
                ending = f"the process did not end within {limit:.0f} s"
            outcomes, last = read_outcomes(path)
            found.update(outcomes)
            if last is not None or not outcomes:
                found.setdefault(last or left[0], ending)
    for name in names:
        found.setdefault(name, f"not run: {_MOST_STARTS} processes have ended before")
    print(f"{workers or 'native'}: {time.perf_counter() - started:.1f} s", flush=True)
    return found


def run_cases(cases: Sequence[Case], device: str) -> Iterator[tuple[str, Outcome | None]]:
    """Outcomes by name, before each its name with None. Ends with the first launch that fails: what comes after it on
    the same device would say nothing.
    """
    if device:  # natively: drivers that came with Python packages are found by vdev's help
        register_engines()
    import pyopencl as cl

    context = open_context(cl, device)
    queue = cl.CommandQueue(context)
    for text, options, group in batches(cases):
        program: object = build(cl, context, text, options)
        for case in group:
            own = (
                program
                if not isinstance(program, str) or len(group) == 1
                else build(cl, context, case.source, options)
            )
            yield case.name, None
            outcome = own if isinstance(own, str) else run_case(cl, queue, own, case)
            yield case.name, outcome
            if isinstance(outcome, str) and outcome.startswith("run:"):
                return


def open_context(cl: Any, device: str) -> Any:
    """Of the first device of that type ("GPU", "CPU"), or of any."""
    if not device:
        return cl.create_some_context(interactive=False)
    wanted = getattr(cl.device_type, device)
    for platform in cl.get_platforms():
        found = [d for d in platform.get_devices() if d.type & wanted]
        if found:
            return cl.Context(found[:1])
    raise SystemExit(f"no native {device}")


def build(cl: Any, context: Any, text: str, options: Sequence[str]) -> Any:
    """The program, or why there is none."""
    try:
        return cl.Program(context, text).build(list(options))
    except cl.Error as error:
        return f"build: {str(error)[:2000]}"


def run_case(cl: Any, queue: Any, program: Any, case: Case) -> Outcome:
    flags = cl.mem_flags
    missing = [
        name for name in case.needs if name.startswith("cl_") and name not in queue.device.extensions.split()
    ]
    if missing:
        return f"the device lacks {missing[0]}"
    try:
        kernel = cl.Kernel(program, case.kernel)
        args: list[Any] = []
        for arg in case.args:
            if isinstance(arg, Local):
                args.append(cl.LocalMemory(arg.nbytes))
            elif isinstance(arg, np.ndarray):
                args.append(
                    cl.Buffer(queue.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=arg)
                    if arg.size
                    else None
                )
            else:
                args.append(arg)
        kernel(queue, case.global_size, case.local_size, *args)
        found = []
        for index in case.outputs:
            array = np.empty_like(case.args[index])
            cl.enqueue_copy(queue, array, args[index])
            found.append(array)
        queue.finish()
    except cl.Error as error:
        return f"run: {str(error)[:500]}"
    return tuple(found)


def write_outcomes(path: str, outcomes: Iterator[tuple[str, Outcome | None]]) -> None:
    """Line by line, so that what has been run is kept whatever comes."""
    with open(path, "w", encoding="utf-8") as file:
        for name, outcome in outcomes:
            content: object = outcome
            if isinstance(outcome, tuple):
                content = [[array.dtype.str, array.tobytes().hex()] for array in outcome]
            file.write(json.dumps([name, content]) + "\n")
            file.flush()


def read_outcomes(path: Path) -> tuple[dict[str, Outcome], str | None]:
    """The outcomes, and the case that had begun last and has none."""
    found: dict[str, Outcome] = {}
    last: str | None = None
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        name, content = json.loads(line)
        last = name if content is None else None
        if isinstance(content, str):
            found[name] = content
        elif content is not None:
            found[name] = tuple(np.frombuffer(bytes.fromhex(text), dtype) for dtype, text in content)
    return found, last


# both sides -------------------------------------------------------------------------------------------


def compared(
    cases: Sequence[Case],
    native: dict[str, Outcome],
    under: dict[str, Outcome],
    *,
    alone: bool,
    same_compiler: bool = False,
) -> list[dict[str, Any]]:
    """What is not plainly equal, with a verdict: "differs", "fails" (vdev's side alone), "native errs" (from what a case states),
    "not comparable". `same_compiler`: vdev's workers compile with the native compiler, so that its errors are theirs.
    """
    found: list[dict[str, Any]] = []
    side = "native" if alone else "vdev"
    for case in cases:
        ours, theirs = under[case.name], native[case.name]
        stated = case.expected is not None and (
            alone
            or bool(case.native_errs and not same_compiler)
            or isinstance(theirs, str)
            or "sub-groups of 32" in case.needs
        )
        reference: Outcome = case.expected if stated and case.expected is not None else theirs
        if isinstance(ours, str):
            lacking = isinstance(theirs, str) or ours.startswith("the device lacks")
            found.append(
                {
                    "name": case.name,
                    "verdict": "not comparable" if lacking else "fails",
                    "why": ours,
                    "native": _text(theirs),
                }
            )
        elif isinstance(reference, str):
            found.append(
                {"name": case.name, "verdict": "not comparable", "why": "the native side " + reference}
            )
        elif case.compare:
            if not (alone and case.native_errs):
                found += _differing(case, ours, reference, (side, "stated" if stated else "native"))
            if case.native_errs and case.expected is not None and not isinstance(theirs, str):
                found += [
                    {**entry, "verdict": "native errs", "why": case.native_errs}
                    for entry in _differing(case, theirs, case.expected, ("native", "stated"))
                ]
    return found


def _text(outcome: Outcome) -> str:
    return outcome if isinstance(outcome, str) else "runs"


def _differing(case: Case, found: Arrays, reference: Arrays, sides: tuple[str, str]) -> list[dict[str, Any]]:
    for output, (a, b) in enumerate(zip(found, reference, strict=True)):
        places = differences(a, b, case.ulp)
        if len(places):
            kinds = a.dtype.fields is None
            first = [
                {"index": int(p), sides[0]: str(a.reshape(-1)[p]) if kinds else "", sides[1]: str(b.reshape(-1)[p]) if kinds else "",
                 "inputs": _inputs(case, int(p), a.size)}
                for p in places[:3]
            ]  # fmt: skip
            return [
                {
                    "name": case.name,
                    "verdict": "differs",
                    "output": output,
                    "count": len(places),
                    "of": a.size,
                    "ulp": case.ulp,
                    "sides": sides,
                    "first": first,
                }
            ]
    return []


def _inputs(case: Case, place: int, size: int) -> str:
    """The inputs at the same place, where they have as many numbers as the output."""
    arrays = [
        arg
        for index, arg in enumerate(case.args)
        if isinstance(arg, np.ndarray) and index not in case.outputs
    ]
    return ", ".join(str(array.reshape(-1)[place]) for array in arrays if array.size == size)


def report(found: Sequence[dict[str, Any]], total: int) -> None:
    for entry in found:
        if "first" in entry:
            first = entry["first"][0]
            values = ", ".join(f"{side} {first[side]}" for side in entry["sides"])
            of = f", of {first['inputs']}" if first["inputs"] else ""
            print(
                f"{entry['name']:32} {entry['verdict']} at {entry['count']} of {entry['of']}: [{first['index']}] {values}{of}"
                + (f" ({entry['why']})" if "why" in entry else "")
            )
        else:
            print(f"{entry['name']:32} {entry['verdict']}: {' '.join(entry['why'].split())[:200]}")
    counts = {
        verdict: sum(entry["verdict"] == verdict for entry in found)
        for verdict in ("differs", "fails", "native errs", "not comparable")
    }
    print(f"{total} cases: " + ", ".join(f"{number} {verdict}" for verdict, number in counts.items()))


if __name__ == "__main__":
    sys.exit(main())
