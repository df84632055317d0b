"""Build back end (PEP 517, PEP 660): setuptools, plus the start-up hook `vdev.pth` at the top of every
wheel, and the compiled libraries in an ordinary one.

Decides two things: that a wheel, ordinary or editable, carries the hook, so that `pip install .`, `pip
install -e .` and `pip uninstall` treat it as they treat any other file of the distribution (setuptools
itself can put a file beside the packages neither in an editable wheel nor without a setup.py); and that a
wheel that was built where there is a C compiler carries `libvdev_opencl.so`, `libvdev_calls.so`,
`libvdev_ranges.so` and `libvdev_launches.so`, and is named for its platform.
It never changes anything else in the wheel. Without a compiler the wheel is one for all platforms, and the
libraries are compiled where they are first used, as in an editable installation.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

if __package__:
    from . import library
else:
    import library  # type: ignore[import-not-found, no-redef]  # a build finds both by `backend-path`

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

#: The hook lies beside this module in the tree, and beside the package `vdev` once it is installed.
HOOK = Path(__file__).with_name("vdev.pth")


def build_wheel(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the wheel in `directory` and return its file name, as PEP 517 says."""
    shutil.rmtree("build", ignore_errors=True)  # setuptools would pack what an earlier version left there
    for compiled in _in_tree():  # from an editable installation
        compiled.unlink(missing_ok=True)
    name = build_meta.build_wheel(directory, config_settings, metadata_directory)
    files = {HOOK.name: HOOK.read_bytes()}
    with tempfile.TemporaryDirectory() as scratch:
        try:
            platform = library.platform_tag(_compile_all(Path(scratch)))
        except library.NoCompiler as reason:
            print(f"built without the compiled libraries: {reason}", file=sys.stderr)
            return _with_files(directory, name, files)
        for made, place in library.PLACES.items():
            files[f"vdev/{place}/{made}"] = Path(scratch, made).read_bytes()
    return _with_files(directory, name, files, platform)


def build_editable(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the editable wheel in `directory` and return its file name, as PEP 660 says.

    The libraries are compiled into the tree, where the package is; once the sources change, into the cache where they are used.
    """
    for compiled in _in_tree():
        compiled.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            _compile_all(Path(scratch))
        except library.NoCompiler as reason:
            print(f"built without the compiled libraries: {reason}", file=sys.stderr)
        else:
            for compiled in _in_tree():
                shutil.copyfile(Path(scratch, compiled.name), compiled)
    name = build_meta.build_editable(directory, config_settings, metadata_directory)
    return _with_files(directory, name, {HOOK.name: HOOK.read_bytes()})


def _in_tree() -> list[Path]:
    """Where the packages of this tree have the compiled libraries."""
    return [library.folder(place) / name for name, place in library.PLACES.items()]


def _compile_all(folder: Path) -> list[str]:
    """Compile the libraries into a folder; the compiler's command. Raises NoCompiler."""
    library.compile_calls(folder / library.CALLS_NAME)
    library.compile_ranges(folder / library.RANGES_NAME)
    library.compile_launches(folder / library.LAUNCHES_NAME)
    return list(library.compile_library(folder / library.NAME, library.version_of_tree()))


def _with_files(directory: str, name: str, files: dict[str, bytes], platform: str = "") -> str:
    """Write the wheel anew with the files in it and in its RECORD, for `platform` if one is given; its name.

    A member of an archive cannot be replaced in place.
    """
    path = os.path.join(directory, name)
    tag = f"-{platform}.whl"
    with (
        tempfile.NamedTemporaryFile(dir=directory, delete=False) as scratch,
        zipfile.ZipFile(path) as wheel,
        zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as written,
    ):
        head = next(member for member in wheel.infolist() if member.filename.endswith(".dist-info/WHEEL"))
        about = _about(wheel.read(head), platform)
        for member in wheel.infolist():
            content = about if member.filename == head.filename else wheel.read(member)
            if member.filename.endswith(".dist-info/RECORD"):
                for added, data in files.items():
                    written.writestr(added, data)
                    content += _record_line(added, data).encode()
                content = _recorded(content, head.filename, about)
            written.writestr(member, content)
    os.chmod(scratch.name, 0o644)
    os.remove(path)
    name = name.replace("-any.whl", tag) if platform else name
    os.replace(scratch.name, os.path.join(directory, name))
    return name


def _about(content: bytes, platform: str) -> bytes:
    """The file WHEEL of a wheel for that platform."""
    if not platform:
        return content
    text = content.decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    return text.replace("-none-any", f"-none-{platform}").encode()


def _recorded(content: bytes, name: str, data: bytes) -> bytes:
    """RECORD with the line of a file that has changed."""
    lines = content.decode().splitlines(keepends=True)
    return "".join(
        _record_line(name, data) if line.startswith(f"{name},") else line for line in lines
    ).encode()


def _record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"
