"""Khronos' conformance tests of OpenCL, natively and on three workers: what passes natively passes?

`python -m tests.icd.cts --build FOLDER [PROGRAM …]` runs what has been built of OpenCL-CTS in FOLDER, or the programs named
(`test_api`, or one test of it as `test_api/retain_context`), each with a limit of time. It
builds and fetches nothing. What passes on vdev is not run natively. `--write STEM` keeps the results
as STEM.json and STEM.md, beside those of programs that were not run now.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from tests.icd.driver import environment_natively, environment_on_vdev

#: by program and test: 'pass' on vdev, what became there of one that passes natively, or 'natively: …' of one that does not
Results: TypeAlias = dict[str, dict[str, str]]

#: "wimpy": less of the same, where a test can do with that
_OPTIONS = ("-w",)
#: by program: of one allocation at a time, a small part of what the device offers; where programs in SPIR-V are, beside it
_MORE_OPTIONS = {
    "test_allocations": ("single", "2%"),
    "test_spirv_new": ("--spirv-binaries-path", "{folder}/spirv_bin"),
}
_PASS = "pass"
#: what the suite prints when it begins with a test, and when that has ended; some tests end no line before
_BEGUN = re.compile(r"^(\w+)\.\.\.$", re.M)
_TOLD = re.compile(
    r"(?:^|\.\.\.|^\(seed = \d+\) )(\w+) (passed|FAILED|test not supported|skipped)(?: \(.*\))?$", re.M
)
_WORDS = {"passed": _PASS, "FAILED": "fail", "test not supported": "skip", "skipped": "skip"}
#: what it prints before it ends, where no test of a program can be done
_NOTHING = "Test skipped while initialization"

_SUB_DEVICES = "needs sub-devices, which the virtual device does not have (optional since OpenCL 3.0)"
_SPIRV = "needs cl_khr_spirv_queries, which is not offered"
_INTEGERS = "needs built-in functions of an extension that is not offered"
_NEWER = "needs OpenCL 3.1; the virtual device is of 3.0"
_VARIABLES = "needs variables of program scope that keep their values (optional since OpenCL 3.0)"
_SUB_GROUPS = "needs sub-groups (optional since OpenCL 3.0)"
_QUEUES = "needs queues on the device (optional since OpenCL 3.0)"
_PIPES = "needs pipes (optional since OpenCL 3.0)"
#: why a test that passes natively does not on vdev, by `program/test`, or by program where that is so of all its tests
REASONS = {
    "test_generic_address_space": _VARIABLES,
    "test_subgroups": _SUB_GROUPS,
    "test_device_execution": _QUEUES,
    "test_pipes": _PIPES,
    "test_api/get_context_info_mult_devices": _SUB_DEVICES,
    "test_api/negative_create_sub_devices": _SUB_DEVICES,
    "test_api/get_device_info_31": _NEWER,
    "test_api/negative_invalid_arg_queue": _QUEUES,
    "test_api/set_default_device_command_queue": _QUEUES,
    "test_api/pipe_properties_queries": _PIPES,
    "test_api/spirv_query_dependencies": _SPIRV,
    "test_api/spirv_query_requirements": _SPIRV,
    "test_api/sub_group_dispatch": _SUB_GROUPS,
    **{
        f"test_basic/progvar_{name}": _VARIABLES
        for name in ("func_scope", "prog_scope_init", "prog_scope_misc", "prog_scope_uninit")
    },
    **{
        f"test_spirv_new/{name}": "programs in SPIR-V are not compiled and linked apart"
        for name in (
            "linkage_export_function_compile",
            "linkage_import_function_compile",
            "linkage_import_function_link",
            "linkage_linkonce_odr",
            "op_type_opaque_simple",
        )
    },
    **{
        f"test_spirv_new/spirv14_image_operand_{name}extend": "kernels in SPIR-V take no images"
        for name in ("sign", "zero")
    },
    **{
        f"test_integer_ops/{name}": _INTEGERS
        for name in (
            "extended_bit_ops_extract",
            "extended_bit_ops_insert",
            "extended_bit_ops_reverse",
            "integer_dot_product",
        )
    },
    "test_printf/ptrdiff_t": _NEWER,
    "test_printf/size_t": _NEWER,
    "test_compiler/get_program_info_mult_devices": _SUB_DEVICES,
    "test_computeinfo/device_uuid": "needs cl_khr_device_uuid, which is not offered: the device is several",
}


def programs(build: Path, wanted: Sequence[str]) -> Iterator[tuple[Path, list[str]]]:
    """Programs that were built, each with those of its tests that are wanted, none for all."""
    for path in sorted(build.rglob("test_*")):
        if not path.is_file() or not os.access(path, os.X_OK) or path.suffix:
            continue
        named = [word.partition("/") for word in wanted if word.partition("/")[0] == path.name]
        if named or not wanted:
            yield path, [test for _, slash, test in named if slash]


def tests_of(program: Path) -> list[str]:
    """The names of a program's tests."""
    done = subprocess.run([program, "--list"], capture_output=True, text=True, env=environment_natively())
    return [line.strip() for line in done.stdout.splitlines() if line.startswith("\t") and line.strip()]


def outcomes(
    program: Path, tests: Sequence[str], environment: dict[str, str], before: Sequence[str], limit: float
) -> dict[str, str]:
    """By test: 'pass', 'fail', 'skip', what has ended it, or 'nothing for' so many seconds.

    All in one process, and once more without the test at which that has ended, or stands still.
    """
    found: dict[str, str] = {}
    while left := [test for test in tests if test not in found]:
        with tempfile.TemporaryDirectory() as folder:
            words = [
                *_by_lines(),
                *before,
                str(program),
                *_OPTIONS,
                *(word.format(folder=program.parent) for word in _MORE_OPTIONS.get(program.name, ())),
                *left,
            ]
            ending, text = _run(words, environment, folder, limit)
        if _NOTHING in text:
            return found | dict.fromkeys(left, "skip")
        told = {name: _WORDS[word] for name, word in _TOLD.findall(text) if name in left}
        found |= told
        if len(told) < len(left):
            begun = [name for name in _BEGUN.findall(text) if name in left and name not in told]
            found[begun[-1] if begun else next(test for test in left if test not in told)] = ending
    return found


def _by_lines() -> list[str]:
    """What lets a program write each line at once, although a file takes its output: a slow test is not one that stands still."""
    found = shutil.which("stdbuf")
    return [found, "-oL"] if found else []


def _run(words: Sequence[str], environment: dict[str, str], folder: str, limit: float) -> tuple[str, str]:
    """How a process has ended, and what it has printed; its end where it has printed nothing for `limit` seconds."""
    path = Path(folder, "output")
    with path.open("wb") as output:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        nbytes, since = 0, time.monotonic()
        while process.poll() is None and time.monotonic() - since < limit:
            time.sleep(0.1)
            if path.stat().st_size > nbytes:
                nbytes, since = path.stat().st_size, time.monotonic()
        is_late = process.poll() is None
        process.kill()
        status = process.wait()
    text = path.read_text(errors="replace")
    if is_late:
        return f"nothing for {limit:.0f} s", text
    return f"signal {-status}" if status < 0 else f"status {status}", text


def compare(program: Path, tests: Sequence[str], limit: float) -> dict[str, str]:
    """Run tests on vdev, and natively those that do not pass there."""
    before = [sys.executable, "-m", "vdev.cli.run"]
    found = outcomes(program, tests, environment_on_vdev(), before, 4 * limit)
    others = [test for test in tests if found[test] != _PASS]
    natively = outcomes(program, others, environment_natively(), (), limit) if others else {}
    found |= {test: f"natively: {what}" for test, what in natively.items() if what != _PASS}
    for test in others:
        print(f"{program.name}/{test}: {found[test]}", flush=True)
    return found


def table(results: Results) -> str:
    """The results in Markdown: counts by program, and each test that passes natively only, with the reason."""
    lines = [
        "# OpenCL-CTS, natively and on three workers",
        "",
        "The suite's short form (`-w`), on Intel's engine for the CPU; `python -m tests.icd.cts`.",
        "",
        "| program | tests | pass on `cpu:3` | pass natively only | pass on neither |",
        "|---|---:|---:|---:|---:|",
    ]
    counts = {name: _counts(found) for name, found in sorted(results.items())}
    lines += [f"| {name} | {' | '.join(map(str, numbers))} |" for name, numbers in counts.items()]
    totals = [sum(column) for column in zip(*counts.values(), strict=True)]
    lines += [f"| all | {' | '.join(map(str, totals))} |", ""]
    different = [
        (f"{name}/{test}", what)
        for name, found in sorted(results.items())
        for test, what in found.items()
        if what != _PASS and not what.startswith("natively")
    ]
    if different:
        lines += ["| passes natively only | on `cpu:3` | why |", "|---|---|---|"]
        lines += [f"| {name} | {what} | {_reason(name)} |" for name, what in different]
    return "\n".join(lines).rstrip() + "\n"


def _reason(name: str) -> str:
    return REASONS.get(name) or REASONS.get(name.partition("/")[0], "not known")


def _counts(found: dict[str, str]) -> tuple[int, int, int, int]:
    passed = list(found.values()).count(_PASS)
    neither = sum(what.startswith("natively") for what in found.values())
    return len(found), passed, len(found) - passed - neither, neither


def main(words: Sequence[str] | None = None) -> int:
    """0 where every test that passes natively passes on vdev too."""
    parser = argparse.ArgumentParser(prog="python -m tests.icd.cts", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="where OpenCL-CTS was built")
    parser.add_argument(
        "--limit", type=float, default=60, help="seconds for a test natively; on vdev four times that"
    )
    parser.add_argument("--write", type=Path, help="keep the results as this with .json and .md")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args(words)
    kept = options.write and options.write.with_suffix(".json")
    results: Results = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for program, named in programs(options.build, options.programs):
        found = compare(program, named or tests_of(program), options.limit)
        results.setdefault(program.name, {}).update(found)
        if kept:
            kept.write_text(json.dumps(results, indent=1) + "\n")
            kept.with_suffix(".md").write_text(table(results))
    print(table(results))
    return 0 if not any(_counts(found)[2] for found in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
