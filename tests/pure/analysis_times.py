"""Print how long analysis takes, program by program: `python -m tests.pure.analysis_times FOLDER`.

Programs are *.cl files; a .json file of the same name may hold their build options under "options".
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from time import perf_counter

from vdev.translators.frontend.source import CompileError, parse_program
from vdev.translators.interpreter.access import analyse_kernel


def main(folder: str) -> None:
    times: list[tuple[float, str, int]] = []
    gave_up: list[str] = []
    for path in sorted(Path(folder).glob("*.cl")):
        settings = path.with_suffix(".json")
        options = json.loads(settings.read_text())["options"] if settings.exists() else ""
        try:
            program = parse_program(path.read_text(), [options])
        except CompileError:
            continue
        start = perf_counter()
        summaries = [analyse_kernel(program, name) for name in program.kernels]
        times.append((perf_counter() - start, path.name, len(summaries)))
        gave_up += [f"{path.name}: {s.name}: {reason}" for s in summaries for reason in s.one_worker]
    times.sort(reverse=True)
    for seconds, name, nkernels in times[:20]:
        print(f"{seconds * 1e3:9.2f} ms  {name} ({nkernels} kernels)")
    for line in gave_up:
        print(line)
    if times:
        seconds = [t for t, _, _ in times]
        median, longest = statistics.median(seconds) * 1e3, max(seconds) * 1e3
        print(f"{len(times)} programs: median {median:.2f} ms, longest {longest:.2f} ms")


if __name__ == "__main__":
    main(sys.argv[1])
