"""The library for C programs under gcc's sanitizers: invalid accesses, memory of its own that leaks, data races.

`python -m tests.icd.sanitized [address] [thread]` compiles the library for each and runs this folder's programs with it. Python and
the engines are as they are: what they leave to the end of the process is reported as leaked, too, and only reports that name the library
count. Needs gcc with its sanitizers.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.icd.driver import HEADERS, HERE, build, compile_specially, environment_on_vdev
from vdev.packaging.library import NAME

#: by sanitizer: its library, its options' variable, and the options
_OPTIONS = {
    "address": (
        "libasan.so",
        "ASAN_OPTIONS",
        "exitcode=0:handle_segv=0:use_sigaltstack=0:symbolize=0:verify_asan_link_order=0",
    ),
    "thread": (
        "libtsan.so",
        "TSAN_OPTIONS",
        "exitcode=0:ignore_noninstrumented_modules=1:history_size=5:symbolize=0",
    ),
}
#: source and words of each program, and its workers
_RUNS = (
    *(("repeated.c", words, "cpu:1") for words in ((), ("orphan",), ("strange",), ("sizes",))),
    ("with_events.c", (), "cpu:1"),
    ("with_events.c", ("failing",), "cpu:1"),
    ("hostile.c", (), "cpu:1"),
    *(("released.c", words, "cpu:1") for words in ((), ("gone",), ("contexts",))),
    ("every_call.c", (), "cpu:3"),
    ("threads.c", (), "cpu:3"),
    ("pipeline.c", (), "cpu:3"),
    ("pipeline.c", (), "cpu:1"),
)
#: reports begin like this; an empty line ends each
_REPORT = re.compile(
    r"^(?:=+\d*=*(?:ERROR|WARNING): |WARNING: ThreadSanitizer|(?:Direct|Indirect) leak of ).*", re.M
)


def sanitized_library(sanitizer: str, cache: Path) -> None:
    """Compile the library into the folder that `vdev-run` takes it from."""
    compile_specially(f"gcc -fsanitize={sanitizer} -fno-omit-frame-pointer", cache)


def reports(text: str) -> list[str]:
    """Those that concern the library: it is in them, or they are of an invalid access wherever that is."""
    found = []
    for match in _REPORT.finditer(text):
        report = text[match.start() :].partition("\n\n")[0]
        if NAME in report or "ERROR: AddressSanitizer" in report:
            found.append(report)
    return found


def run(
    program: Path, words: Sequence[str], sanitizer: str, cache: Path, **switches: str
) -> tuple[int, list[str]]:
    """A program's status, and reports."""
    file, name, options = _OPTIONS[sanitizer]
    preloaded = " ".join(_file_of_gcc(each) for each in (file, "libstdc++.so.6"))
    environ = environment_on_vdev(**switches) | {name: options, "VDEV_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "vdev.cli.run", "env", f"LD_PRELOAD={preloaded}", str(program), *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, errors="replace", check=False)
    return done.returncode, reports(done.stderr)


def _file_of_gcc(name: str) -> str:
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(words: Sequence[str]) -> int:
    """0 where nothing is reported."""
    bad = 0
    for sanitizer in words or _OPTIONS:
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder, "cache")
            sanitized_library(sanitizer, cache)
            for source, given, workers in _RUNS:
                if "<CL/" in Path(HERE, source).read_text() and not HEADERS.exists():
                    print(f"{sanitizer:8} {source}: left out, since there is no {HEADERS}")
                    continue
                program = build(source, Path(folder))
                status, found = run(program, given, sanitizer, cache, VDEV_WORKERS=workers)
                print(
                    f"{sanitizer:8} {' '.join((program.name, *given)):16} {workers}: status {status}, {len(found)} reports"
                )
                print("\n".join(found), end="\n" if found else "", flush=True)
                bad += len(found) + (status != 0)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
