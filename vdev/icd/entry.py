"""Where the library enters Python: `start` gives it what it calls.

Decides what a failure means in C: OpenCL errors become their status codes; any other exception becomes a status code
too, and is printed to standard error, the only place where it can be seen.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType, TracebackType
from typing import Any

from vdev import boot
from vdev.icd.functions import EXTENSION_FUNCTIONS, FUNCTIONS
from vdev.process import ending
from vdev.process.folders import NATIVE_VENDORS

_LOADERS = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES")

_NO_STAND_IN = (
    "this program uses PyOpenCL, and needs VDEV=1 in its environment: vdev-run sets it where it is not set"
)
_OUT_OF_RESOURCES, _OUT_OF_HOST_MEMORY, _INVALID_VALUE = -5, -6, -30


def start(builtins: tuple[Callable[..., Any], ...], is_own: int) -> tuple[Any, ...]:
    """Take the library's functions, and give it the functions that it calls: twelve of its own, and one for each row
    of the tables.

    `is_own`: the library has started this interpreter, in which no Python program runs.
    """
    if is_own:
        _prepare_interpreter()
    with _native_environment():
        address_of, give_out, lend_out, item_at, take_back, count_of, set_platform, bind_calls, *rest = (
            builtins
        )
        _load_native(bind_calls)
        from vdev.icd import host, joining, programs, ready

        host.address_of, host.give_out, host.lend_out = address_of, give_out, lend_out
        host.item_at, host.take_back, host.count_of = item_at, take_back, count_of
        host.keep_ready, host.begin_era, host.set_callbacks = rest
        joining.use_handles()
        _open(set_platform)
        kernels = (programs.kernel_kinds, programs.set_argument, programs.launch)
        making = (ready.make, ready.made, ready.ended, ready.place, ready.may_be_kept)
        return (failure, acquire, drop, end, *kernels, *making, *_calls())


def _prepare_interpreter() -> None:
    """Without a program, nobody imports PyOpenCL. Its native module would, for functions that native kernels never use:
    they are those of its Python layer, which takes longer to load than the rest of vdev.
    """
    sys.argv = [""]
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        # Python's own module of signals has put it there. It raises in whatever call comes next, where the program
        # natively ends.
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    boot.start()
    ending.let_c_call()
    package, invoker = ModuleType("pyopencl"), ModuleType("pyopencl.invoker")
    invoker.generate_enqueue_and_set_args = lambda *args, **kwargs: (None, None)  # type: ignore[attr-defined]
    package.invoker = invoker  # type: ignore[attr-defined]
    sys.modules |= {module.__name__: module for module in (package, invoker)}


def _load_native(bind_calls: Callable[[bytes], int]) -> None:
    """PyOpenCL's native module brings a loader of its own. What it calls has to be found there, and not in the loader
    that the program is linked with, which knows vdev and no native driver.
    """
    from vdev.backends.opencl.native import load_native, native_path

    path = native_path()
    if not bind_calls(os.fsencode(path)):
        raise RuntimeError(f"the calls of {path} cannot be bound to its own OpenCL loader")
    load_native()


@contextlib.contextmanager
def _native_environment() -> Iterator[None]:
    """The environment in which native drivers are looked for: without what led the program's loader here. Programs that
    this one starts find it as it was.
    """
    before = {name: os.environ.get(name) for name in _LOADERS}
    for name in _LOADERS:
        os.environ.pop(name, None)
    native = os.environ.get(NATIVE_VENDORS)
    if native:
        os.environ[_LOADERS[0]] = native
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _open(set_platform: Callable[[Any], Any]) -> None:
    """Open the session, and let the library's platform stand for the façade's.

    Without workers, or with a wrong switch, there is no device; the first call that asks for one then reports why. Nor is there
    one for PyOpenCL without its stand-in: the only driver that its loader knows is this library.
    """
    from vdev.backends.opencl.native import load_native
    from vdev.facade import platform_device
    from vdev.facade.errors import native
    from vdev.icd import host
    from vdev.process import log
    from vdev.process.switches import SwitchError

    if sys.modules.get(boot.NATIVE_MODULE) is load_native():
        host.is_without_device = True
        _tell(_NO_STAND_IN)
        return
    try:
        log.start()
        set_platform(platform_device.get_platform())
    except native.Error as error:
        host.is_without_device = True
        _tell(error.args[0].what())
    except SwitchError as error:
        host.is_without_device = True
        _tell(str(error))


def _calls() -> Iterator[Any]:
    from vdev.icd import buffers, images, objects, programs, queries, shared

    modules = (objects, buffers, images, programs, shared, queries)
    for function in (*FUNCTIONS, *EXTENSION_FUNCTIONS):
        yield next(
            (found for module in modules if (found := vars(module).get(function.name)) is not None), None
        )


def failure(error: BaseException, trace: TracebackType | None) -> int:
    """The status code that a failed call returns."""
    from vdev.facade.errors import native

    if isinstance(error, native.Error):
        code: int = error.args[0].code()
        return code
    if isinstance(error, MemoryError):
        return _OUT_OF_HOST_MEMORY
    _tell("".join(traceback.format_exception(type(error), error, trace)))
    return _INVALID_VALUE if isinstance(error, TypeError | ValueError | OverflowError) else _OUT_OF_RESOURCES


def _tell(text: str) -> None:
    sys.stderr.write(f"vdev: {text.rstrip()}\n")
    sys.stderr.flush()


def acquire(memory: Any) -> None:
    """C code now holds a memory object that it did not hold before."""
    memory.retain()


def drop(memory: Any) -> None:
    """C code no longer holds it."""
    memory.release()


def end(reads: int, buffers: int, kernels: int) -> None:
    """The process is ending, and Python with it. How many reads, buffers and kernels the library has made without Python."""
    from vdev.icd import ready

    ready.report(reads, buffers, kernels)
    ending.end()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
