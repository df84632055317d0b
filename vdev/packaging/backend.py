"""Build back end (PEP 517, PEP 660): setuptools, plus the start-up hook `vdev.pth` at the top of every
wheel.

Decides one thing: that a wheel, ordinary or editable, carries the hook, so that `pip install .`, `pip
install -e .` and `pip uninstall` treat it as they treat any other file of the distribution. setuptools
itself can put a file beside the packages neither in an editable wheel nor without a setup.py. It never
changes anything else in the wheel.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
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

#: The hook lies beside this module in the tree, and beside the package `vdev` where it is installed.
HOOK = Path(__file__).with_name("vdev.pth")


def build_wheel(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the wheel in `directory` and return its file name, as PEP 517 says."""
    shutil.rmtree("build", ignore_errors=True)  # setuptools packs what an earlier version left there
    return _with_hook(directory, build_meta.build_wheel(directory, config_settings, metadata_directory))


def build_editable(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the editable wheel in `directory` and return its file name, as PEP 660 says."""
    return _with_hook(directory, build_meta.build_editable(directory, config_settings, metadata_directory))


def _with_hook(directory: str, name: str) -> str:
    """Write the wheel anew with the hook in it and in its RECORD: an archive's member cannot be replaced."""
    path = os.path.join(directory, name)
    with (
        tempfile.NamedTemporaryFile(dir=directory, delete=False) as scratch,
        zipfile.ZipFile(path) as wheel,
        zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as written,
    ):
        for member in wheel.infolist():
            content = wheel.read(member)
            if member.filename.endswith(".dist-info/RECORD"):
                written.writestr(HOOK.name, HOOK.read_bytes())
                content += _record_line().encode()
            written.writestr(member, content)
    os.chmod(scratch.name, 0o644)
    os.replace(scratch.name, path)
    return name


def _record_line() -> str:
    content = HOOK.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{HOOK.name},sha256={digest},{len(content)}\n"
