"""OpenCL engines (drivers) of this machine and this Python environment, and how the OpenCL loader learns of
them.

Decides which drivers the process's loader sees. What the user says with OCL_ICD_VENDORS is left as it is,
so that `opencl:P.D` counts as the user's other programs count. Otherwise the loader gets a folder with an
.icd file for each driver found: those the machine has registered, those that came with Python packages
(whose own .icd files name no path that exists) and NVIDIA's where it is merely installed. It never loads a
driver and chooses no device.

The loader (ocl-icd in PyOpenCL's wheels, Khronos' elsewhere) reads OCL_ICD_VENDORS once, at the process's
first clGetPlatformIDs, so all this comes before it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from vdev import switches

VARIABLE = "OCL_ICD_VENDORS"
#: Distributions on PyPI that bring a CPU driver, and the file of theirs that is it.
_PACKAGED = (("intel-opencl-rt", "libintelocl.so"),)
_NVIDIA = "libnvidia-opencl.so.1"
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")

NO_ENGINE = (
    "vdev found no OpenCL device to run on. "
    "On x86-64 Linux, pip install 'vdev[cpu]' brings one for the CPU; a driver of the machine's own (PoCL, a "
    "GPU vendor's) is used as well once it is registered in /etc/OpenCL/vendors or named by OCL_ICD_VENDORS."
)


@dataclass(frozen=True)
class Engine:
    """A driver: the library as an .icd file names it (a full path, or a name for the dynamic linker)."""

    library: str
    origin: str  #: where it was found, for people

    @property
    def key(self) -> str:
        """Equal for two copies of one driver: loading both into a process ends badly."""
        return re.sub(r"\.so[.\d]*$", "", os.path.basename(self.library))


def find_engines() -> tuple[Engine, ...]:
    """The drivers that the loader will see, the user's OCL_ICD_VENDORS deciding alone where it names any."""
    named = tuple(_named_by_user())
    if named:
        return named
    engines: dict[str, Engine] = {}
    for engine in (*_packaged(), *_beside_pyopencl(), *_registered(_vendors_folder()), *_unregistered()):
        engines.setdefault(engine.key, engine)
    return tuple(engines.values())


def register_engines() -> tuple[Engine, ...]:
    """Tell the loader of this process, and of those it starts, about the drivers found, and return them.

    Comes before the first OpenCL call of the process; calling again changes nothing.
    """
    engines = find_engines()
    if engines and not any(True for _ in _named_by_user()):
        os.environ[VARIABLE] = str(_folder_of_icds(engines))
    return engines


def _named_by_user() -> Iterator[Engine]:
    """What OCL_ICD_VENDORS names: a folder of .icd files, one of them, or a library (ocl-icd's manual)."""
    value = os.environ.get(VARIABLE, "")
    if not value:
        return
    path = Path(value)
    if path.is_dir():
        yield from _registered(path, VARIABLE)
    elif value.endswith(".icd"):
        yield from _read_icd(path if "/" in value else _vendors_folder() / value, VARIABLE)
    else:
        yield from _existing(value, VARIABLE)


def _packaged() -> Iterator[Engine]:
    """Drivers from Python packages: by the installed files' own record, else in the environment's lib/."""
    for distribution, library in _PACKAGED:
        for path in (*_recorded(distribution, library), Path(sys.prefix, "lib", library)):
            if path.is_file():
                yield Engine(str(path.resolve().parent / library), f"Python package {distribution}")
                break


def _recorded(distribution: str, library: str) -> list[Path]:
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return []
    return [Path(os.path.normpath(file.locate())) for file in files if file.name == library]


def _beside_pyopencl() -> Iterator[Engine]:
    """Drivers that PyOpenCL's own loader looks for in its package (pocl-binary-distribution is one)."""
    spec = PathFinder.find_spec("pyopencl")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from _registered(Path(folder, ".libs"), "beside PyOpenCL")


def _vendors_folder() -> Path:
    return Path(os.environ.get("OPENCL_VENDOR_PATH") or "/etc/OpenCL/vendors")


def _registered(folder: Path, origin: str | None = None) -> Iterator[Engine]:
    try:
        paths = sorted(folder.glob("*.icd"))
    except OSError:
        return  # a folder that may not be read registers nothing for this user
    for path in paths:
        yield from _read_icd(path, origin or str(path))


def _read_icd(path: Path, origin: str) -> Iterator[Engine]:
    """The first line of an .icd file is the library (cl_khr_icd, "Vendor ICD enumeration on Linux")."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return
    yield from _existing(lines[0].strip() if lines else "", origin)


def _existing(library: str, origin: str) -> Iterator[Engine]:
    """A bare name is the dynamic linker's to find; a path must lead to something."""
    if library and ("/" not in library or os.path.exists(library)):
        yield Engine(library, origin)


def _unregistered() -> Iterable[Engine]:
    """NVIDIA's driver, which containers often have without its .icd file."""
    for folder in _LIBRARY_FOLDERS:
        path = os.path.join(folder, _NVIDIA)
        if os.path.exists(path):
            return [Engine(path, folder)]
    return []


def _folder_of_icds(engines: tuple[Engine, ...]) -> Path:
    """A folder that holds exactly these engines' .icd files, the same one for the same engines.

    Processes may make it at the same time: its name says its content, and each file appears in one piece.
    """
    content = "\n".join(engine.library for engine in engines)
    name = f"icd-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    last_resort = Path(tempfile.gettempdir(), f"vdev-{os.getuid()}")
    for parent in (switches.cache_dir(), last_resort):
        try:
            return _write_icds(parent / name, engines)
        except OSError as error:
            failure = error
    raise failure


def _write_icds(folder: Path, engines: tuple[Engine, ...]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if any(part.stat().st_uid != os.getuid() for part in (folder, folder.parent)):
        raise PermissionError(f"{folder} is not this user's alone")  # what its files name is loaded as code
    for number, engine in enumerate(engines):
        path = folder / f"{number:02}-{engine.key}.icd"
        text = engine.library + "\n"
        if not path.exists() or path.read_text() != text:
            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as scratch:
                scratch.write(text)
            os.replace(scratch.name, path)
    return folder
