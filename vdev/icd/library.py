"""Where `libvdev_opencl.so` is, and how the OpenCL loaders of programs find it.

A file beside the library tells it which Python to load, so each Python environment has a folder of its own in the
cache. The library is copied there from the package if the wheel contained it, and compiled there otherwise. Programs
load what lies in that folder as code: it belongs to the user alone, and is checked each time
(`vdev.process.private_files`).
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from vdev import __version__
from vdev.packaging import library as compiling
from vdev.process import folders
from vdev.process.private_files import private_folder, read_private, write_private

ICD = "vdev.icd"


class NoLibrary(RuntimeError):
    """The library cannot be made or used; the text says why and what to do."""


def python_library() -> Path:
    """The shared library of this Python. NoLibrary if it has none."""
    for path in _python_libraries():
        if path.is_file():
            return path.resolve()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    raise NoLibrary(
        f"this Python ({sys.executable}) has no shared library libpython{version}.so, which a C program needs to load "
        f"it: install it (Debian: apt install libpython{version}), or use a Python built with --enable-shared"
    )


def _python_libraries() -> Iterator[Path]:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = [f"libpython{version}.so.1.0", f"libpython{version}.so"]
    given = sysconfig.get_config_var("INSTSONAME") or ""
    if ".so" in given:
        names.insert(0, given)
    folders = [sysconfig.get_config_var("LIBDIR") or "", os.path.join(sys.base_prefix, "lib")]
    multiarch = sysconfig.get_config_var("MULTIARCH")
    folders += [f"/usr/lib/{multiarch}"] if multiarch else []
    for folder in folders:
        for name in names:
            yield Path(folder, name)


def prepare(*, joins: bool = False) -> Path:
    """The library in the cache folder, with the files that it needs beside it; made if it is not there.

    `joins`: it is for a Python process, which must not wait for a compiler and needs no other Python. Raises
    NoLibrary.
    """
    configuration = _configuration(joins)
    key = hashlib.sha256(f"{compiling.source_key()}\n{__version__}\n{configuration}".encode()).hexdigest()
    try:
        folder = _folder(f"driver-{key[:16]}")
        if read_private(folder, compiling.NAME) is None:
            write_private(folder, compiling.NAME, _content(compiles=not joins))
        path = folder / compiling.NAME
        beside = {f"{compiling.NAME}.conf": configuration, ICD: f"{path}\n"}
        for name, text in beside.items():
            if read_private(folder, name) != text.encode():
                write_private(folder, name, text.encode())
    except OSError as error:
        raise NoLibrary(f"the folder for the library cannot be created: {error}") from error
    return path


def _configuration(joins: bool) -> str:
    """What the library reads to start Python: its shared library and its executable. Empty if there is none and
    nobody needs it.
    """
    try:
        return f"{python_library()}\n{sys.executable}\n"
    except NoLibrary:
        if joins:
            return ""
        raise


def _folder(name: str) -> Path:
    """A folder of that name, in the cache or, if that is not possible, in this user's temporary folder."""
    try:
        return private_folder(private_folder(folders.cache_dir()) / name)
    except OSError:
        return private_folder(private_folder(folders.user_temporary_folder()) / name)


def _content(*, compiles: bool) -> bytes:
    """The compiled library: the one that came with the installation, if it was made from these sources, else compiled
    now.
    """
    packed = Path(compiling.__file__).parents[1] / "icd" / compiling.NAME
    if packed.is_file():
        content = packed.read_bytes()
        if compiling.source_key().encode() in content:
            return content
    if not compiles:
        raise NoLibrary("libvdev_opencl.so is not built yet: vdev-info --icd builds it")
    import tempfile  # at nearly every start of a program it exists already

    with tempfile.TemporaryDirectory(prefix="vdev-") as scratch:
        target = Path(scratch, compiling.NAME)
        try:
            compiling.compile_library(target, __version__)
        except compiling.NoCompiler as error:
            raise NoLibrary(f"libvdev_opencl.so is not built: {error}") from error
        return target.read_bytes()


def environment() -> dict[str, str]:
    """The environment in which a program's OpenCL loader finds vdev, and nothing else. Raises NoLibrary.

    PyOpenCL's loader would find nothing else either, even when vdev itself asks for native drivers: a program in Python needs
    the stand-in, unless its user has said otherwise.
    """
    path = prepare()
    # a folder for ocl-icd and newer versions of Khronos' loader, the library itself for older ones
    found = {"OCL_ICD_VENDORS": str(path.parent), "OCL_ICD_FILENAMES": str(path)}
    before = os.environ.get("OCL_ICD_VENDORS", "")
    if before and not os.path.exists(os.path.join(before, compiling.NAME)):
        found[folders.NATIVE_VENDORS] = before  # the native drivers that the user wants
    if not os.environ.get("VDEV"):
        found["VDEV"] = "1"
    return found
