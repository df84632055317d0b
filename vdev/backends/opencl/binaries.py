"""Compiled programs, kept between processes: the driver's binary and what it says of the kernels.

Decides under which key a binary is kept: the text and its options, the names and versions of driver and device, the
processor's features, and the variables that drivers read. Texts that may include files are not kept, because only the
compiler knows which files. If a driver rejects its own binary, the text is compiled.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vdev.backends.base import BackendProgram, BuildResult, KernelResources, NativeArg
from vdev.process import folders, switches
from vdev.process.private_files import Store
from vdev.translators.frontend.options import joined_lines, may_include

__all__ = ["Binaries"]

logger = logging.getLogger("vdev.opencl.binaries")

#: Bytes of binaries kept; the ones unused for longest go first.
CACHE_NBYTES = 256 << 20
#: Raised with every change to what is written into an entry.
_FORMAT = 1
#: Words in a text whose meaning changes from day to day.
_OF_TODAY = re.compile(r"__(?:DATE|TIME|TIMESTAMP)__")
#: Settings of the drivers.
_SETTINGS = (b"CL_CONFIG_", b"POCL_", b"VOLCANO_", b"IGC_")
#: In /proc/cpuinfo: the first processor.
_PROCESSOR_NBYTES = 4096


class Binaries:
    """The compiled programs of one native device. Any thread may use it."""

    def __init__(self, cl: Any, native: Any) -> None:
        info = cl.device_info
        platform = native.get_info(info.PLATFORM)
        names = [platform.get_info(each) for each in (cl.platform_info.NAME, cl.platform_info.VERSION)]
        names += [
            native.get_info(each) for each in (info.NAME, info.VENDOR, info.VERSION, info.DRIVER_VERSION)
        ]
        self._device = [_FORMAT, *names, _processor()]

    def get(self, program: BackendProgram) -> BuildResult | None:
        """What was kept of a program."""
        store = _usable_store(program)
        content = None if store is None else store.get(self._key(program))
        if content is None:
            return None
        try:
            head, _, binary = content.partition(b"\n")
            plain = json.loads(head)
            kernels = {name: _resources(found) for name, found in plain["kernels"].items()}
            return BuildResult(plain["log"], kernels, binary) if binary else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            logger.info("a cached binary is not valid: %r", error)
            return None

    def put(self, program: BackendProgram, result: BuildResult) -> None:
        """Keep the result of a build."""
        store = _usable_store(program)
        if store is None or not result.binary:
            return
        kernels = {name: asdict(found) for name, found in result.kernels.items()}
        head = json.dumps({"log": result.log, "kernels": kernels}).encode()
        store.put(self._key(program), head + b"\n" + result.binary, CACHE_NBYTES)

    def _key(self, program: BackendProgram) -> str:
        # as bytes: to decode all variables, most of which matter to nobody here, takes as long as all that follows
        names = sorted([name for name in os.environb if name.startswith(_SETTINGS)])
        settings = [[os.fsdecode(name), os.fsdecode(os.environb[name])] for name in names]
        return json.dumps([self._device, settings, program.options, program.source])


def _usable_store(program: BackendProgram) -> Store | None:
    source = program.source
    if (
        isinstance(source, bytes)
        or not switches.cache()
        or may_include(source)
        or _OF_TODAY.search(joined_lines(source))
    ):
        return None
    return _store(folders.cache_dir())


@functools.cache
def _store(folder: Path) -> Store:
    return Store(folder / "binaries", ".bin")


@functools.cache
def _processor() -> str:
    """The host's processor and its instructions: the name that a driver gives the device says less."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            text = file.read(_PROCESSOR_NBYTES).decode("ascii", "replace")
    except OSError:
        return ""
    return "\n".join(re.findall(r"^(?:model name|flags|Features)\s*:.*", text, re.MULTILINE))


def _resources(plain: Mapping[str, Any]) -> KernelResources:
    sizes = plain["compile_work_group_size"]
    return KernelResources(
        work_group_size=plain["work_group_size"],
        compile_work_group_size=(sizes[0], sizes[1], sizes[2]),
        local_memory_nbytes=plain["local_memory_nbytes"],
        private_memory_nbytes=plain["private_memory_nbytes"],
        preferred_multiple=plain["preferred_multiple"],
        args=tuple(NativeArg(**arg) for arg in plain["args"]),
    )
