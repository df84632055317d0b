"""The real `pyopencl._cl`: PyOpenCL's native module, beside the stand-in or by itself.

Decides which copy of the native module the process uses: the one that PyOpenCL has imported if nothing stands in for
it, else one loaded privately and kept out of `sys.modules`. There is never more than one. It never imports the
stand-in.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from vdev.errors import NativeModuleMissing

NAME = "pyopencl._cl"

_INVOKER, _GENERATE = "pyopencl.invoker", "generate_enqueue_and_set_args"
_SPARES = "vdev_spares_workers"  #: an attribute of the function in its place

_lock = threading.Lock()
_making = threading.local()  #: whether the thread is making a kernel for a worker


@functools.cache
def _load_once() -> Any:
    package = _package_folder()
    if not _stands_in(package):
        importlib.import_module("pyopencl")
        return sys.modules[NAME]
    # What PyOpenCL does before it loads the module: its OpenCL loader looks for drivers beside the package.
    os.environ.setdefault("PYOPENCL_HOME", str(package))
    module = _load_privately(package)
    _complete(module)
    return module


def load_native() -> Any:
    """The native module. Raises NativeModuleMissing if PyOpenCL is not installed."""
    with _lock:
        return _load_once()


def native_kernel(native: Any, program: Any, name: str) -> Any:
    """A kernel of a program of the native module's, for a worker, which sets arguments and launches by the module's own functions.

    For each kernel the module has PyOpenCL write or look up Python functions that do the same for programs. That takes longer than all
    else about a kernel, so these are left out.
    """
    invoker = importlib.import_module(_INVOKER)
    with _lock:
        generate = vars(invoker).get(_GENERATE)
        if generate is not None and not hasattr(generate, _SPARES):
            setattr(invoker, _GENERATE, _sparing(generate))
    _making.kernel = True
    try:
        return native.Kernel(program, name)
    finally:
        _making.kernel = False


def _sparing(generate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(generate)
    def generate_for_programs(*args: Any, **kwargs: Any) -> Any:
        return (None, None) if getattr(_making, "kernel", False) else generate(*args, **kwargs)

    setattr(generate_for_programs, _SPARES, True)
    return generate_for_programs


def native_path() -> str:
    """The native module's file. Raises NativeModuleMissing where PyOpenCL is not installed."""
    origin = _extension_spec(_package_folder()).origin
    assert origin is not None
    return origin


def _package_folder() -> Path:
    spec = PathFinder.find_spec("pyopencl")
    if spec is None or not spec.submodule_search_locations:
        raise NativeModuleMissing("PyOpenCL is not installed: pip install pyopencl")
    return Path(next(iter(spec.submodule_search_locations)))


def _stands_in(package: Path) -> bool:
    """Whether an import of `pyopencl._cl` gives (or gave) something other than PyOpenCL's own extension module."""
    module = sys.modules.get(NAME)
    if module is not None:
        return not isinstance(getattr(module, "__loader__", None), ExtensionFileLoader)
    for finder in sys.meta_path:
        spec = finder.find_spec(NAME, [str(package)], None)
        if spec is not None:
            return not isinstance(spec.loader, ExtensionFileLoader)
    return False


def _load_privately(package: Path) -> Any:
    spec = _extension_spec(package)
    assert spec.loader is not None
    # An extension module with single-phase initialisation registers itself under its name, but that place belongs to
    # the stand-in.
    missing = object()
    before: object = sys.modules.get(NAME, missing)
    try:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        if before is missing:
            sys.modules.pop(NAME, None)
        else:
            sys.modules[NAME] = before  # type: ignore[assignment]
    return module


def _extension_spec(package: Path) -> ModuleSpec:
    for suffix in EXTENSION_SUFFIXES:
        path = package / f"_cl{suffix}"
        if path.exists():
            # The name stays PyOpenCL's: its on-disk caches pickle objects of this module under it.
            spec = spec_from_file_location(NAME, path, loader=ExtensionFileLoader(NAME, str(path)))
            assert spec is not None
            return spec
    raise NativeModuleMissing(f"PyOpenCL's native module is missing in {package}")


def _complete(module: Any) -> None:
    """Supply what C++ calls back for, and `pyopencl/_monkeypatch.py` would have added."""
    devices = module.context_info.DEVICES
    module.Context.devices = property(lambda context: context.get_info(devices))

    def init_image(self: Any, *args: Any) -> None:
        module.Image._custom_init(self, *args)

    module.Image.__init__ = init_image
