"""Where a program's source is: in its own file, or in a file under the root folder that contains it, such as a string in
Python.

Decides what a file is called in reports: by its path from the root, with slashes. Files elsewhere belong to others and
are left out.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vdev.translators.frontend.preprocessor import MAIN_FILE
from vdev.translators.frontend.source import read_source

_LEAST = 20  #: characters of the text that is looked for
#: What PyOpenCL appends to a program that it builds, different each time.
_PYOPENCLS_OWN = re.compile(r"\n\n__constant int pyopencl_defeat_cache_\w+ = 0;\Z")
_ENDINGS = (".cl", ".clh", ".ocl", ".opencl")
_MOST_FOLDERS = 5000
_INSTALLED = ("site-packages", "dist-packages")


class Place(NamedTuple):
    """A file, its text, and the number of lines before the program's first. `exists`: whether there is such a file,
    rather than a name for a text that no file contains.
    """

    name: str
    text: str
    shift: int = 0
    nlines: int = 0  #: of the program, if it is a part of the file; 0: all of it
    exists: bool = True


class Places:
    """Finds the files of one program. `file`: its own, if it came from one. `root`: names are relative to it.
    `kernel`: gives the program its name if no file contains it.
    """

    def __init__(self, source: str, file: str, root: Path, kernel: str) -> None:
        self._root = root
        self._kernel = kernel
        self.main = self._own(_PYOPENCLS_OWN.sub("", source), file)
        self._beside = Path(file).parent if file else root
        self._found: dict[str, Place | None] = {MAIN_FILE: self.main}

    def of(self, file: str) -> Place | None:
        """The file that the preprocessor calls `file`; None for one outside the root."""
        if file not in self._found:
            self._found[file] = self._other(file)
        return self._found[file]

    def _own(self, source: str, file: str) -> Place:
        if file:
            return Place(_named(Path(file), self._root) or Path(file).as_posix(), source)
        for path in (*_python_files(self._root), *_kernel_files(self._root)):
            content = _content(path)
            at = content.find(source) if len(source) >= _LEAST else -1
            if at >= 0:
                nlines = 0 if content == source else source.count("\n") + 1
                return Place(_named(path, self._root), content, content.count("\n", 0, at), nlines)
        digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return Place(f"{self._kernel}-{digest}.cl", source, exists=False)

    def _other(self, file: str) -> Place | None:
        for base in (self._beside, self._root):
            path = base / file
            if path.is_file():
                name = _named(path, self._root)
                return Place(name, _content(path)) if name else None
        return Place(file, "", exists=False)  # from a `#line`: there is no such file


def _named(path: Path, root: Path) -> str:
    """The path from the root, as written or with links resolved; empty if it is not below the root."""
    for way in (os.path.abspath, os.path.realpath):
        found, base = Path(way(path)), Path(way(root))
        if found.is_relative_to(base):
            return found.relative_to(base).as_posix()
    return ""


def _python_files(root: Path) -> Iterator[Path]:
    """The program's own Python files below the root: those of its callers first, then everything imported."""
    seen = set()
    for name in _loaded():
        if name in seen:
            continue
        seen.add(name)
        path = Path(name)
        if path.suffix == ".py" and _named(path, root) and not set(_INSTALLED) & set(path.parts):
            yield path


@functools.cache
def _kernel_files(root: Path) -> tuple[Path, ...]:
    """Files of OpenCL C below the root, which programs may read themselves.

    Hidden and installed folders are left out, and all folders beyond the first `_MOST_FOLDERS`.
    """
    found: list[Path] = []
    for number, (folder, folders, files) in enumerate(os.walk(root)):
        if number >= _MOST_FOLDERS:
            break
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _INSTALLED
            and not Path(folder, name, "pyvenv.cfg").exists()
        )
        found += [Path(folder, name) for name in sorted(files) if name.endswith(_ENDINGS)]
    return tuple(found)


def _loaded() -> Iterator[str]:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame.f_code.co_filename
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield file


@functools.cache
def _content(path: Path) -> str:
    try:
        return read_source(path)
    except OSError:
        return ""
