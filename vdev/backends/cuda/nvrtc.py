"""NVRTC's version, which is part of the key of every cubin, without loading NVRTC where an earlier process has found it.

Decides when NVRTC has to be loaded. It takes longer to load than the rest of CuPy that is used here, and a program whose cubins
are all in the cache needs nothing of it but its version. What an earlier process of the same environment found is kept beside
the cubins and holds while the library's file is the same.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vdev.process.private_files import Store

logger = logging.getLogger("vdev.cuda")

#: what decides, beside CuPy itself, where it looks for NVRTC
_SEARCHED = ("PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX")
#: Bytes of records kept, one for each environment.
_RECORDS_NBYTES = 1 << 20
_MAPPED = Path("/proc/self/maps")
#: The package of CuPy's bindings; to look for a module in it would import it.
_BINDINGS = "cupy_backends"
_LINKER_CACHE = "/etc/ld.so.cache"


class LoadedWhenUsed:
    """What `load` gives, which is called when something of it is first asked for."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._loaded: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._loaded is None:
            self._loaded = self._load()
        return getattr(self._loaded, attribute)


def nvrtc_version(nvrtc: Any, folder: Path) -> str:
    """The version of NVRTC that `nvrtc` loads, such as "13.0". Whatever that raises if there is none.

    `folder`: the one for what is kept between runs.
    """
    records = Store(folder / "cubins", ".nvrtc")
    environment = _environment(nvrtc)
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
        record = json.dumps([loaded, *_identity(loaded), version])
    except OSError as error:  # nothing tells the file, or it has been removed since it was loaded
        logger.info("it is not known which NVRTC was loaded, and it is looked for again next time: %r", error)
    else:
        records.put(environment, record.encode(), _RECORDS_NBYTES)
    return version


def _environment(nvrtc: Any) -> str:
    """What decides which library is found, as text that says nothing else. CuPy as a whole looks in more places than its
    bindings alone, so what it has found is not there for them.
    """
    paths = [os.environ.get(name, "").split(os.pathsep) for name in _SEARCHED]
    resolved = [[os.path.realpath(path) for path in each if path] for each in paths]
    files = [_known_identity(path) for path in (_bindings_path(), _LINKER_CACHE)]
    return json.dumps([sys.prefix, isinstance(nvrtc, LoadedWhenUsed), resolved, files])


def _bindings_path() -> str:
    """The file of CuPy's bindings, which is another one for another CuPy; "" where there are none."""
    try:
        found = importlib.util.find_spec(_BINDINGS)
    except (ImportError, ValueError):
        return ""
    return "" if found is None else found.origin or ""


def _known_identity(path: str) -> list[int]:
    try:
        return _identity(path)
    except OSError:
        return []


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
