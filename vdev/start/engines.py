"""OpenCL engines (drivers) of this machine and this Python environment, and how the OpenCL loader learns of
them.

Decides which drivers the process's loader sees. If the user has set OCL_ICD_VENDORS, it is left as it is,
so that the numbers in `opencl:P.D` are those of the user's other programs. Otherwise the loader gets a folder with an
.icd file for each driver found: those the machine has registered, those that came with Python packages
(whose own .icd files name no path that exists) and NVIDIA's if it is installed but not registered. It chooses
no device, and loads a driver only to say why the loader could not.

The loader (ocl-icd in PyOpenCL's wheels, Khronos' elsewhere) reads OCL_ICD_VENDORS once, at the process's
first clGetPlatformIDs, so all this comes before it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from vdev.process import folders
from vdev.process.private_files import private_folder, read_private, write_private
from vdev.translators.values import dataclass

logger = logging.getLogger("vdev.start.engines")

VARIABLE = "OCL_ICD_VENDORS"
#: Distributions on PyPI that bring a CPU driver, and the file in each that is the driver.
_PACKAGED = (("intel-opencl-rt", "libintelocl.so"),)
_INTEL = "libintelocl"
_NVIDIA = "libnvidia-opencl.so.1"
_OWN = "libvdev_opencl.so"  #: vdev as a driver, which must not run on itself
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")

#: the most bytes of a path and of one name in it (PATH_MAX and NAME_MAX of Linux)
_LONGEST_PATH, _LONGEST_NAME = 4096, 255
#: bytes of an engine's key in the name of its .icd file
_LONGEST_KEY = 100
#: how many folders are tried in one place, if others have files there that are not ours
_MOST_FOLDERS = 16

_NO_DEVICE = "vdev found no OpenCL device to run on. "
_WHAT_TO_INSTALL = (
    "On x86-64 Linux, pip install 'vdev[cpu]' brings one for the CPU; a driver of the machine's own (PoCL, a "
    "GPU vendor's) is used as well once it is registered in /etc/OpenCL/vendors or named by OCL_ICD_VENDORS."
)


@dataclass(frozen=True)
class Engine:
    """A driver: the library as an .icd file names it (a full path, or a name for the dynamic linker)."""

    library: str
    origin: str  #: where it was found, for messages

    @property
    def key(self) -> str:
        """Equal for two copies of the same driver: loading both into one process ends badly."""
        return re.sub(r"\.so[.\d]*$", "", os.path.basename(self.library))


def find_engines() -> tuple[Engine, ...]:
    """The drivers that the loader will see. If the user's OCL_ICD_VENDORS names any, it alone decides."""
    named = tuple(_named_by_user())
    if named:
        return named
    engines: dict[str, Engine] = {}
    for engine in (*_packaged(), *_beside_pyopencl(), *_registered(_vendors_folder()), *_unregistered()):
        engines.setdefault(engine.key, engine)
    return tuple(engines.values())


def no_engine() -> str:
    """The message if no device was found: why the drivers that exist do not load, or else what to install.

    The loader passes over such a driver without a word; most often a library that it needs is missing.
    """
    reasons = [
        f"{engine.library} ({engine.origin}) cannot be loaded: {why}."
        for engine in find_engines()
        if (why := _why_not_loaded(engine.library))
    ]
    return _NO_DEVICE + (" ".join(reasons) or _WHAT_TO_INSTALL)


def misplaced() -> list[str]:
    """Of drivers that work only in some places and are elsewhere: what to do. Intel's finds its own folder in /proc/self/maps, and there
    reads a path up to the first space: it shows its device, and every context fails.
    """
    return [
        f"Intel's driver works in no folder with a space in its path, as {library} has: install it in another, such as a virtual "
        "environment whose path has none."
        for library in (os.path.realpath(engine.library) for engine in find_engines())
        if os.path.basename(library).startswith(_INTEL) and any(map(str.isspace, library))
    ]


def _why_not_loaded(library: str) -> str:
    """What the dynamic linker says about a library; empty if it loads."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return f"{error}"
    return ""


def register_engines() -> tuple[Engine, ...]:
    """Tell the loader of this process, and of those it starts, about the drivers found, and return them.

    Comes before the first OpenCL call of the process; calling again changes nothing.
    """
    engines = find_engines()
    if engines and not any(True for _ in _named_by_user()):
        os.environ[VARIABLE] = _folder_of_icds(engines)
    elif engines:
        os.environ[VARIABLE] = _vendors_of_user()
    return engines


def _vendors_of_user() -> str:
    """What OCL_ICD_VENDORS says, or said before it led programs to vdev's own driver (`vdev-run`)."""
    value = os.environ.get(VARIABLE, "")
    leads_here = value and os.path.exists(os.path.join(value, _OWN))
    return os.environ.get(folders.NATIVE_VENDORS, "") if leads_here else value


def _named_by_user() -> Iterator[Engine]:
    """What OCL_ICD_VENDORS names: a folder of .icd files, one of them, or a library (ocl-icd's manual)."""
    value = _vendors_of_user()
    if not value:
        return
    path = Path(value)
    if _is_ours(path):
        return
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


def _recorded(distribution: str, library: str) -> Iterator[Path]:
    """Where an installed distribution has put a library, by its record of installed files (PyPA's "Recording installed
    projects"). `importlib.metadata` tells the same; to load it takes a good part of a program's start.
    """
    name = f"{distribution.replace('-', '_')}-"
    for entry in sys.path:
        try:
            found = [each for each in os.listdir(entry or ".") if each.startswith(name)]
        except OSError:  # no folder
            continue
        for each in found:
            if each.endswith(".dist-info"):
                yield from _named_in(Path(entry, each, "RECORD"), library)


def _named_in(record: Path, library: str) -> Iterator[Path]:
    try:
        lines = record.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:  # a path that is relative to the folder above, its hash and size
        path = line.rsplit(",", 2)[0].strip('"').replace('""', '"')
        if os.path.basename(path) == library:
            yield Path(os.path.normpath(record.parents[1] / path))


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
    """The first line of an .icd file is the library (cl_khr_icd, "Vendor ICD enumeration on Linux").

    File names are bytes: those that are no text here count all the same. A file that cannot name a library is passed
    over with a warning, once in a process.
    """
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_PATH + 2).strip()
    except OSError as error:
        _pass_over(str(path), f"cannot be read ({error.strerror})")
        return
    if not line or b"\0" in line or len(line) > _LONGEST_PATH:
        _pass_over(str(path), "names no library in its first line")
        return
    if b"/" not in line and len(line) > _LONGEST_NAME:
        _pass_over(str(path), "has a first line that is too long for a library's name")
        return
    yield from _existing(os.fsdecode(line), origin)


@functools.cache
def _pass_over(path: str, why: str) -> None:
    logger.warning("the .icd file %a %s: skipped", path, why)


def _existing(library: str, origin: str) -> Iterator[Engine]:
    """Whether the library exists: a bare name is the dynamic linker's to find; a path must lead to something other
    than vdev itself.
    """
    if os.path.basename(library) == _OWN:
        return
    if library and ("/" not in library or os.path.exists(library)):
        yield Engine(library, origin)


def _unregistered() -> Iterable[Engine]:
    """NVIDIA's driver, which containers often have without its .icd file."""
    for folder in _LIBRARY_FOLDERS:
        path = os.path.join(folder, _NVIDIA)
        if os.path.exists(path):
            return [Engine(path, folder)]
    return []


def _folder_of_icds(engines: tuple[Engine, ...]) -> str:
    """What OCL_ICD_VENDORS says for these engines: a folder that holds exactly their .icd files, the same one for the
    same engines.

    Processes may make it at the same time: its name says its content, and each file appears in one piece. What a
    loader finds there it loads as code: a folder in which anybody else may have put a file is left as it is, and
    another one serves. Where none can be had, the first engine alone is named.
    """
    for parent in _parents_of_folders():
        for name in _names_of_folders(engines):
            try:
                private_folder(parent)
                if _write_icds(private_folder(parent / name), engines):
                    return str(parent / name)
            except OSError as error:
                logger.info("no .icd files in %s: %s", parent, error)
                break
    logger.warning("cannot create a folder for .icd files: only %s is used", engines[0].library)
    return engines[0].library


def _parents_of_folders() -> Iterator[Path]:
    for parent in (folders.cache_dir, folders.user_temporary_folder, _new_folder):
        try:
            found = parent()
        except OSError as error:  # where nothing can be written, there is no folder for temporary files
            logger.info("no folder for .icd files: %s", error)
            continue
        yield found


def _new_folder() -> Path:
    import tempfile  # hardly ever needed

    return Path(tempfile.mkdtemp(prefix="vdev-"))


def _names_of_folders(engines: tuple[Engine, ...]) -> Iterator[str]:
    content = b"\n".join(os.fsencode(engine.library) for engine in engines)
    name = f"icd-{hashlib.sha256(content).hexdigest()[:16]}"
    yield name
    for number in range(1, _MOST_FOLDERS):
        yield f"{name}-{number}"


def _is_ours(path: Path) -> bool:
    """Whether `register_engines` of a process that started this one may have made the folder: then it is checked
    again.
    """
    return re.fullmatch(r"icd-[0-9a-f]{16}(-\d+)?", path.name) is not None


def _write_icds(folder: Path, engines: tuple[Engine, ...]) -> bool:
    """Write these engines' files. False if the folder has any that are not vdev's own."""
    contents = {
        f"{number:02}-{_as_name(engine.key)}.icd": os.fsencode(engine.library) + b"\n"
        for number, engine in enumerate(engines)
    }
    if any(name.endswith(".icd") and name not in contents for name in os.listdir(folder)):
        logger.warning("%s has files that vdev did not write: ignored", folder)
        return False
    for name, content in contents.items():
        if read_private(folder, name) != content:
            write_private(folder, name, content)
    return True


def _as_name(key: str) -> str:
    """Part of a file's name that works in any locale and on any file system."""
    return re.sub(r"[^\w.+-]", "_", key, flags=re.ASCII)[:_LONGEST_KEY]
