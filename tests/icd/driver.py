"""Programs in C and C++, built here and run natively and on the virtual device.

Decides what there is on this machine: compilers, OpenCL's headers, loaders, a native driver. What is missing is a reason to
skip, never a failure.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from vdev import __version__
from vdev.icd import library
from vdev.packaging.library import compile_library, compilers
from vdev.start import engines

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HEADERS = Path("/usr/include/CL")


@dataclass(frozen=True)
class Loader:
    """An OpenCL loader: the library, and whose it is."""

    path: Path
    name: str


def loaders() -> Iterator[Loader]:
    """Those of this machine and of the packages of this environment."""
    brought = Path(sys.prefix, "lib", "libOpenCL.so.1")
    if brought.exists():
        yield Loader(brought, "environment")
    found = ctypes.util.find_library("OpenCL")
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu"):
        if found and Path(folder, found).exists():
            yield Loader(Path(folder, found), "machine")
            return


LOADERS = tuple(loaders())


def need_library() -> None:
    """Skip where the driver cannot be had."""
    try:
        library.prepare()
    except library.NoLibrary as reason:
        pytest.skip(str(reason))


def need_headers(*names: str) -> None:
    """Skip where headers are missing below /usr/include."""
    for name in names:
        if not Path("/usr/include", name).exists():
            pytest.skip(f"there is no /usr/include/{name}")


def build(source: str, target: Path, flags: Sequence[str] = (), links: Sequence[str] = ()) -> Path:
    """Compile a program of this folder, linked with the first loader; skip where there is no compiler or no loader."""
    command = (
        next(compilers(), None)
        if source.endswith(".c")
        else [found]
        if (found := shutil.which("c++"))
        else None
    )
    if command is None:
        pytest.skip("there is no compiler")
    if not LOADERS:
        pytest.skip("there is no OpenCL loader")
    program = target / Path(source).stem
    words = [
        *command,
        "-O1",
        "-g",
        "-w",
        "-Wl,--allow-shlib-undefined",
        *flags,
        str(HERE / source),
        "-o",
        str(program),
        *links,
    ]
    done = subprocess.run([*words, str(LOADERS[0].path), "-lpthread"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def compile_specially(compiler: str, cache: Path) -> None:
    """Compile the library with that command into the folder of a cache that `vdev-run` takes it from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VDEV_CACHE_DIR", str(cache))
        patch.setenv("CC", compiler)
        path = library.prepare()
        compile_library(path, __version__)
        path.chmod(0o700)


def _environment(loader: Loader | None) -> dict[str, str]:
    loader = loader or next(iter(LOADERS), None)
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VDEV", "OCL_ICD", "PYTHON", "_VDEV"))
    }
    if loader is not None:
        environ["LD_LIBRARY_PATH"] = str(loader.path.parent)
    return environ


def environment_natively(loader: Loader | None = None) -> dict[str, str]:
    """Of programs on the first native driver; skip where there is none."""
    if not engines.find_engines():
        pytest.skip("there is no native OpenCL driver")
    return _environment(loader) | {
        "OCL_ICD_VENDORS": engines.register_engines() and os.environ["OCL_ICD_VENDORS"]
    }


def environment_on_vdev(loader: Loader | None = None, **switches: str) -> dict[str, str]:
    """Of programs that `vdev-run` starts on three workers of the CPU."""
    return _environment(loader) | {"VDEV_WORKERS": "cpu:3", "VDEV_PLANNING": "always"} | switches


def run_natively(
    *words: str | Path, loader: Loader | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """On the first native driver; in that folder."""
    return _run(words, environment_natively(loader), folder)


def run_on_vdev(
    *words: str | Path, loader: Loader | None = None, folder: Path | None = None, **switches: str
) -> subprocess.CompletedProcess[str]:
    """On three workers of the CPU, by `vdev-run`; in that folder."""
    before = [sys.executable, "-m", "vdev.cli.run"]
    return _run([*before, *words], environment_on_vdev(loader, **switches), folder)


def run_in_python(
    *words: str | Path, folder: Path | None = None, **switches: str
) -> subprocess.CompletedProcess[str]:
    """A PyOpenCL program, with `VDEV=1` on three workers of the CPU; in that folder."""
    return _run(words, environment_on_vdev(VDEV="1", **switches), folder)


def _run(
    words: Sequence[str | Path], environ: dict[str, str], folder: Path | None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
