"""A package's source: fetched with pip for the version that is installed, kept in the cache folder.

Only what is run here is unpacked, its tests and its examples: a source folder of the package's name nearby would hide the
installed one.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "conformance"
#: By package: the folders of its source that are run.
_WANTED = {"pyopencl": ("test", "examples"), "loopy": ("test",)}


def fetch(package: str = "pyopencl") -> Path:
    """The folder with what is run of the installed version; fetched where it is not there yet."""
    name = f"{package}-{metadata.version(package)}"
    folder, wanted = CACHE / name, _WANTED[package]
    if all((folder / each).is_dir() for each in wanted):
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        _unpack(_download(package, name.replace("-", "=="), Path(scratch)), Path(scratch), wanted)
        folder.mkdir(exist_ok=True)
        for each in wanted:
            (Path(scratch) / name / each).rename(folder / each)
    return folder


def _download(package: str, requirement: str, target: Path) -> Path:
    command = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--no-binary", package]
    subprocess.run([*command, "--dest", str(target), requirement], check=True)
    return next(target.glob("*.tar.gz"))


def _unpack(archive: Path, target: Path, wanted: tuple[str, ...]) -> None:
    with tarfile.open(archive) as tar:
        members = [
            member
            for member in tar.getmembers()
            if member.name.partition("/")[2].split("/")[0] in wanted and (member.isfile() or member.isdir())
        ]
        if any(".." in Path(member.name).parts or Path(member.name).is_absolute() for member in members):
            raise RuntimeError(f"{archive.name} has a member outside of its folder")
        tar.extractall(target, members)
