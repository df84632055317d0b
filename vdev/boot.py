"""The start-up hook: puts vdev's stand-in in the place of PyOpenCL's native module `pyopencl._cl`.

Decides when the stand-in is loaded: at the first import of `pyopencl._cl` in a process where the hook is
installed. Until then it imports no other module of vdev, since every Python process with VDEV=1 pays for
what it imports.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # all of these at run time would cost more than the rest of this module
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

NATIVE_MODULE = "pyopencl._cl"
STAND_IN = "vdev.facade.stand_in"
HANDLES = "vdev.icd.joining"


class StandInFinder:
    """Finds `pyopencl._cl`, and only that, for `sys.meta_path`; is also its loader."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The stand-in's specification, or None for every other module."""
        if name != NATIVE_MODULE:
            return None
        from importlib.machinery import ModuleSpec  # not before it is needed

        return ModuleSpec(name, cls, origin=STAND_IN)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """An ordinary module is wanted."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Give `module` the names of PyOpenCL's native module. Raises SwitchError for a wrong switch."""
        import gc  # not before they are needed
        import importlib

        collects = gc.isenabled()
        gc.disable()  # what is loaded is there to stay, and to look for garbage among it takes a tenth of the time
        try:
            importlib.import_module("vdev.process.switches").enabled()
            importlib.import_module("vdev.process.log").start()
            importlib.import_module(STAND_IN).populate(module)
            importlib.import_module(HANDLES).use_handles()
        finally:
            if collects:
                gc.enable()


def install() -> None:
    """Install the finder in this process and, through the environment, in every process that it starts.

    Raises RuntimeError where PyOpenCL's native module is loaded already: objects of both would meet.
    """
    start()
    os.environ["VDEV"] = "1"


def start() -> None:
    """What the start-up hook does where VDEV says anything but 0: install the finder in this process.

    Whether VDEV says something valid is asked when a program wants PyOpenCL, where an error reaches it.
    """
    if StandInFinder in sys.meta_path:
        return
    if NATIVE_MODULE in sys.modules:
        raise RuntimeError(
            "vdev cannot take over: PyOpenCL's native module is already loaded in this process. "
            "Start the program with VDEV=1 in its environment or with `python -m vdev`."
        )
    sys.meta_path.insert(0, StandInFinder)
    atexit.register(_end)


def _end() -> None:
    """After all exit handlers of the program, which has registered them later."""
    ending = sys.modules.get("vdev.process.ending")
    if ending is not None:
        ending.end()
