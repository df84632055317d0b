"""All samples, one after the other in one process, small: `vdev-check --coverage tests/harness/sample_runs.py FOLDER`.

Decides nothing about results: each sample compares its own with NumPy and ends with a status. FOLDER gets their pictures.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
#: Sizes that end soon and leave work-groups partly used: where the samples' own tests take more (tests/cpu/test_samples.py).
SMALL: dict[str, str] = {}
#: Samples of which every kernel is one of PyOpenCL's own, with a branch for each case that PyOpenCL knows.
OTHERS = {"scan_sort_compact"}


def main(folder: str, names: list[str]) -> None:
    sys.path.insert(0, str(SAMPLES))
    sys.path.insert(0, str(SAMPLES.parent))
    from tests.cpu.test_samples import ARGUMENTS, PICTURES

    for name in names or sorted(set(ARGUMENTS) - OTHERS):
        arguments = SMALL.get(name, ARGUMENTS[name]).split()
        if name in PICTURES:
            arguments += ["--output", str(Path(folder, f"{name}.png"))]
        path = str(SAMPLES / f"{name}.py")
        sys.argv = [path, *arguments]
        runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
