"""What the benchmarks run on: environments of native and virtual runs, and the description of the machine.

Decides which devices a measurement sees; never how anything is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

KINDS = "cuda", "cpu"
NATIVE = "native"
_NVIDIA_DRIVER = "libnvidia-opencl.so.1"
_ENGINE = "BENCHMARK_ENGINE"  # tells a native run that the CPU engine has to be found first


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that all benchmarks share."""
    parser.add_argument(
        "--workers", default="1,2,4", help="numbers of workers, by commas (default: %(default)s)"
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default=None,
        help="of workers (default: cuda where there is a GPU, else cpu)",
    )
    parser.add_argument(
        "--native", metavar="FOLDER", help="of the .icd file of the native OpenCL driver (default: found)"
    )


def kind_of(options: argparse.Namespace) -> str:
    """The kind of workers that the options ask for."""
    return options.kind or ("cuda" if gpus() else "cpu")


def last_line(said: str) -> str:
    """What a process that failed has said last: its error, without the traceback, which names this machine's folders."""
    return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")


def counts_of(options: argparse.Namespace) -> list[int]:
    """The numbers of workers that the options ask for."""
    return [int(text) for text in options.workers.split(",")]


def environment(kind: str, workers: int | None, native: str | None = None) -> dict[str, str]:
    """The environment of a run on so many workers, or of a native one where `workers` is None."""
    result = {name: value for name, value in os.environ.items() if not name.startswith(("VDEV", _ENGINE))}
    result["PYOPENCL_COMPILER_OUTPUT"] = "0"
    result.setdefault("OPENBLAS_NUM_THREADS", "8")  # checks run beside the next measurement
    for name in ("VDEV_CACHE_DIR", "VDEV_MIN_ITEMS", "VDEV_PLANNING", "VDEV_MEMORY"):
        if name in os.environ:
            result[name] = os.environ[name]
    if workers is not None:
        if kind == "cuda":
            where = "cuda:0" if workers == 1 else f"cuda:0-{workers - 1}"
        else:
            where = f"cpu:{workers}"
        return result | {"VDEV": "1", "VDEV_WORKERS": where}
    if native is not None:
        result["OCL_ICD_VENDORS"] = native
    elif kind == "cuda":
        result["OCL_ICD_VENDORS"] = _nvidia_folder()
    else:
        result[_ENGINE] = "1"
    if kind == "cuda":
        result["CUDA_VISIBLE_DEVICES"] = "0"
    return result


def find_engine() -> None:
    """In a native run on a machine without GPUs: make the CPU engine known before PyOpenCL looks for drivers."""
    if os.environ.get("VDEV") == "1" and "vdev.boot" not in sys.modules:
        sys.exit(
            "VDEV=1 is set and vdev's start-up hook is not installed, so this would measure the native device: pip install ."
        )
    if _ENGINE in os.environ:
        from vdev.start.engines import register_engines

        register_engines()


@functools.cache
def _nvidia_folder() -> str:
    """A folder with an .icd file of NVIDIA's driver and no other; it stays for this process's children."""
    folder = tempfile.mkdtemp(prefix="nvidia-icd-")
    (Path(folder) / "nvidia.icd").write_text(_NVIDIA_DRIVER + "\n")
    return folder


@functools.cache
def gpus() -> tuple[str, ...]:
    """Name, memory and driver of each NVIDIA GPU; nothing where there is no driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
        query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())


def command_line(arguments: list[str]) -> str:
    """The command as others would type it: without the folders that results go to here."""
    kept, rest = [], iter([Path(arguments[0]).name, *arguments[1:]])
    for argument in rest:
        if argument in ("--json", "--results"):
            next(rest, None)
        elif not argument.startswith(("--json=", "--results=")):
            kept.append(argument)
    return "python samples/benchmarks/" + shlex.join(kept)


def description() -> dict[str, Any]:
    """The machine and the versions of what matters, for the results."""
    versions = {}
    for name in ("vdev", "pyopencl", "numpy", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cuda-nvrtc"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "gpus": list(gpus()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
        "load": round(os.getloadavg()[0], 1),
    }


def one_line(machine: dict[str, Any]) -> str:
    """The description as a sentence's worth of text."""
    names = machine["gpus"]
    devices = f"{len(names)} x {names[0]}; " if names else ""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{devices}{machine['processor']}, {machine['cores']} cores (load {machine['load']} before the run); "
        f"{machine['system']}; Python {machine['python']}, {versions}"
    )


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
