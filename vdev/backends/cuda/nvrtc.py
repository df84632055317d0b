"""NVRTC's version, which is part of the key of every cubin, without loading NVRTC where an earlier process has found it.

Decides when NVRTC has to be loaded. It takes longer to load than the rest of CuPy that is used here, and a program whose cubins
are all in the cache needs nothing of it but its version. What an earlier process of the same environment found is kept beside
the cubins and holds while the library's file is the same.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from vdev.process.private_files import Store

logger = logging.getLogger("vdev.cuda")

#: what decides, beside Python's prefix, where CuPy looks for NVRTC
_SEARCHED = ("PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX")
#: Bytes of records kept, one for each environment.
_RECORDS_NBYTES = 1 << 20
_MAPPED = Path("/proc/self/maps")


class LoadedWhenUsed:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


def nvrtc_version(nvrtc: Any, folder: Path) -> str:
    """The version of NVRTC that CuPy's module `nvrtc` loads, such as "13.0". Whatever CuPy raises if there is none.

    `folder`: the one for what is kept between runs.
    """
    records = Store(folder / "cubins", ".nvrtc")
    environment = _environment()
    kept = records.get(environment)
    try:
        if kept is not None:
            path, *identity, version = json.loads(kept)
            if identity == _identity(path):
                return str(version)
    except (OSError, ValueError, TypeError) as error:
        logger.info("NVRTC is not where it was, and is looked for again: %r", error)
    version = ".".join(map(str, nvrtc.getVersion()))
    try:
        loaded = _loaded_path()
        record = json.dumps([loaded, *_identity(loaded), version]) if loaded else ""
    except OSError as error:  # no /proc, or the file has been replaced since it was loaded
        logger.info("where NVRTC was loaded from is not known: %r", error)
        return version
    if record:
        records.put(environment, record.encode(), _RECORDS_NBYTES)
    return version


def _environment() -> str:
    return "\0".join([sys.prefix, *(os.environ.get(name, "") for name in _SEARCHED)])


def _identity(path: str) -> list[int]:
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns, found.st_ino]


def _loaded_path() -> str:
    """The file of the NVRTC that this process has loaded; "" if that cannot be told."""
    for line in _MAPPED.read_text(errors="surrogateescape").splitlines():
        path = line.split(maxsplit=5)[-1]
        if os.path.basename(path).startswith("libnvrtc.so"):
            return path
    return ""
