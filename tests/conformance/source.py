"""PyOpenCL's source package: fetched with pip for the version that is installed, kept in the cache folder.

Only what is run here is unpacked, `test` and `examples`: a source folder `pyopencl` nearby would hide the
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
_WANTED = ("test", "examples")


def fetch() -> Path:
    """The folder with `test` and `examples` of the installed version; fetched where it is not there yet."""
    name = f"pyopencl-{metadata.version('pyopencl')}"
    folder = CACHE / name
    if all((folder / wanted).is_dir() for wanted in _WANTED):
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        _unpack(_download(name.replace("-", "=="), Path(scratch)), Path(scratch))
        folder.mkdir(exist_ok=True)
        for wanted in _WANTED:
            (Path(scratch) / name / wanted).rename(folder / wanted)
    return folder


def _download(requirement: str, target: Path) -> Path:
    command = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--no-binary", "pyopencl"]
    subprocess.run([*command, "--dest", str(target), requirement], check=True)
    return next(target.glob("*.tar.gz"))


def _unpack(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as tar:
        members = [
            member
            for member in tar.getmembers()
            if member.name.partition("/")[2].split("/")[0] in _WANTED and (member.isfile() or member.isdir())
        ]
        if any(".." in Path(member.name).parts or Path(member.name).is_absolute() for member in members):
            raise RuntimeError(f"{archive.name} has a member outside of its folder")
        tar.extractall(target, members)
