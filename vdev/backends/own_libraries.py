"""Libraries of this project's own that Python loads: those that come with the installation, or else compiled once into the cache.

Decides where a library is looked for. What is in it is whoever's who asks; it has the key of its sources in it.
"""

from __future__ import annotations

import ctypes
import logging
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from vdev.backends import compiled as launches
from vdev.packaging.library import NoCompiler, compile_launches, compile_ranges
from vdev.process import folders, switches
from vdev.process.private_files import private_folder, read_private, write_private
from vdev.translators.native_code import NativeCode
from vdev.translators.ranges import compiled as ranges

logger = logging.getLogger("vdev.libraries")


def find(name: str, key: str, packed: Path, compile_as: Callable[[Path], object]) -> ctypes.PyDLL:
    """The library at `packed`, if it was made from the sources that have the key and for this machine, else the one in the cache.

    `name`: names its folder there. `compile_as`: compiles it as a file. Raises NoCompiler, and OSError where it cannot be loaded.
    """
    if packed.is_file() and key.encode() in packed.read_bytes():
        try:
            return ctypes.PyDLL(str(packed))
        except OSError as error:  # of another machine that shares the disk
            logger.info("the library that came with the installation cannot be loaded: %s", error)
    folder = None
    if switches.cache():
        folder = private_folder(folders.cache_dir()) / f"{name}-{key}-{sysconfig.get_platform()}"
        if read_private(private_folder(folder), packed.name) is not None:
            try:
                return ctypes.PyDLL(str(folder / packed.name))
            except OSError as error:  # cut short
                logger.info("the library in the cache cannot be loaded, and is compiled again: %s", error)
    with tempfile.TemporaryDirectory(prefix="vdev-") as scratch:
        target = Path(scratch, packed.name)
        compile_as(target)
        if folder is not None:
            write_private(folder, packed.name, target.read_bytes())
        return ctypes.PyDLL(str(target))


def load_ranges() -> bool:
    """Have sets of bytes be worked with by compiled functions; whether they are. Without a compiler it takes longer, that is all."""
    return _load("ranges", ranges.code, compile_ranges)


def load_launches() -> bool:
    """The same of what launches pass through."""
    return _load("launches", launches.code, compile_launches)


def _load(name: str, code: NativeCode, compile_as: Callable[[Path], object]) -> bool:
    if code.are_compiled():
        return True
    try:
        return code.load(find(name, code.key(), code.packed, compile_as))
    except (NoCompiler, OSError) as error:
        logger.info("%s are worked with in Python: %s", name, error)
        return False
