"""A native OpenCL device that workers share: its context, what is built for it, and how much memory they hold.

Decides what is built once for all of them, and in which order launches reach a driver for which the order matters.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any, ClassVar

from vdev.backends.base import BackendProgram, BuildResult, LaunchShape
from vdev.backends.opencl.binaries import Binaries
from vdev.backends.opencl.errors import failure_of
from vdev.backends.opencl.info import kernel_resources, loses_compiled_kernels
from vdev.backends.opencl.native import load_native, native_kernel
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError, BuildFailure
from vdev.process.forking import in_child, keep_for_ever

logger = logging.getLogger("vdev.opencl.device")


class SharedDevice:
    """One native device in use: its context, the programs built for it and the memory its workers hold
    together.
    """

    _opened: ClassVar[weakref.WeakValueDictionary[int, SharedDevice]] = weakref.WeakValueDictionary()
    _opening = threading.Lock()

    def __init__(self, native: Any) -> None:
        self.cl = load_native()
        self.native = native
        self.context = self.cl.Context([native])
        self.memory_nbytes = int(native.get_info(self.cl.device_info.GLOBAL_MEM_SIZE))
        self.held_nbytes = 0
        self.is_cpu = bool(native.get_info(self.cl.device_info.TYPE) & self.cl.device_type.CPU)
        self._launch_order = threading.Lock() if loses_compiled_kernels(self.cl, native) else None
        self._last_launch: Any = None
        self._lock = threading.Lock()
        self._programs: weakref.WeakKeyDictionary[BackendProgram, Built] = weakref.WeakKeyDictionary()
        self._binaries = Binaries(self.cl, native)

    @classmethod
    def of(cls, native: Any) -> SharedDevice:
        """The one SharedDevice of a native device, made on first use."""
        with cls._opening:
            found = cls._opened.get(native.int_ptr)
            if found is None:
                found = cls._opened[native.int_ptr] = cls(native)
            return found

    @classmethod
    def forget(cls) -> None:
        """In a forked child: it makes contexts of its own."""
        keep_for_ever(dict(cls._opened))
        cls._opened.clear()

    @property
    def orders_launches(self) -> bool:
        """Whether the launches of all queues have to come one after the other."""
        return self._launch_order is not None

    def reserve(self, nbytes: int) -> None:
        """Count memory against the device's. A CPU engine overcommits: without this the process would be killed
        rather than told.
        """
        with self._lock:
            if self.held_nbytes + nbytes > self.memory_nbytes:
                raise BackendError(
                    MEM_OBJECT_ALLOCATION_FAILURE, f"{nbytes} bytes do not fit into the device's memory"
                )
            self.held_nbytes += nbytes

    def give_back(self, nbytes: int) -> None:
        with self._lock:
            self.held_nbytes -= nbytes

    @staticmethod
    def local_size(shape: LaunchShape) -> tuple[int, ...] | None:
        """None where the engine chooses: it knows best what suits it, if nobody can tell the difference."""
        part = shape.part
        regroups = shape.ndrange.regroups and (
            part is None or part.cycle is None
        )  # cycles consist of work-groups
        return None if regroups else shape.local_size

    def enqueue(self, queue: Any, kernel: Any, shape: LaunchShape) -> Any:
        """Launch, after the launches of all other queues if the driver needs that; the event."""
        enqueue = self.cl.enqueue_nd_range_kernel
        local_size = self.local_size(shape)
        if self._launch_order is None:
            return enqueue(queue, kernel, shape.global_size, local_size, shape.first, None, False, False)
        with self._launch_order:
            last = self._last_launch
            if last is not None and last.get_info(self.cl.event_info.COMMAND_EXECUTION_STATUS) <= 0:
                last = None
            waits = None if last is None else [last]
            event = enqueue(queue, kernel, shape.global_size, local_size, shape.first, waits, False, False)
            self._last_launch = event
            return event

    def build(self, program: BackendProgram) -> Built:
        """Build once, whichever worker comes first; the others wait for it."""
        built = self._built(program)
        with built.lock:
            if built.native is None and built.failure is None and not self._take_kept(program, built):
                self._compile(program, built)
        if built.failure is not None:
            raise BuildFailure(built.failure.log, built.failure.status)
        return built

    def kept(self, program: BackendProgram) -> BuildResult | None:
        """The result, if it was built before, now or by an earlier process, and nobody is at it; None otherwise."""
        built = self._built(program)
        if not built.lock.acquire(blocking=False):
            return None
        try:
            if built.native is None and built.failure is None:
                self._take_kept(program, built)
            return built.result
        finally:
            built.lock.release()

    def _built(self, program: BackendProgram) -> Built:
        with self._lock:
            built = self._programs.get(program)
            if built is None:
                built = self._programs[program] = Built()
            return built

    def _compile(self, program: BackendProgram, built: Built) -> None:
        cl = self.cl
        options = _options(program)
        native = self._native_program(program.source)
        try:
            native._build(options=options, devices=None)
            # A program without kernels has no names to ask for.
            count = native.get_info(cl.program_info.NUM_KERNELS)
            names = native.get_info(cl.program_info.KERNEL_NAMES).split(";") if count else []
            kernels = {
                name: kernel_resources(cl, native_kernel(cl, native, name), self.native)
                for name in names
                if name
            }
        except cl.Error as error:
            built.failure = BuildFailure(self._log(native), failure_of(error, "build").status)
            return
        binaries = native.get_info(cl.program_info.BINARIES)
        built.result = BuildResult(self._log(native), kernels, bytes(binaries[0]) if binaries else b"")
        built.native = native
        self._binaries.put(program, built.result)

    def _take_kept(self, program: BackendProgram, built: Built) -> bool:
        """Build from the binary of an earlier process. False if there is none that the driver takes; that is asked once."""
        kept = None if built.sought else self._binaries.get(program)
        built.sought = True
        if kept is None:
            return False
        try:
            native = self.cl._Program(self.context, [self.native], [kept.binary])
            native._build(options=_options(program), devices=None)
        except self.cl.Error as error:
            logger.info("a driver rejects a binary that it made itself; compiling the text again: %s", error)
            return False
        built.result, built.native = kept, native
        return True

    def _native_program(self, source: str | bytes) -> Any:
        if isinstance(source, bytes):
            return self.cl._create_program_with_il(self.context, source)
        return self.cl._Program(self.context, source)

    def _log(self, native: Any) -> str:
        try:
            return str(native.get_build_info(self.native, self.cl.program_build_info.LOG))
        except self.cl.Error as error:
            return f"<no log: {failure_of(error, 'build log')}>"


in_child(SharedDevice.forget)


def _options(program: BackendProgram) -> bytes:
    return " ".join(("-cl-kernel-arg-info", *program.options)).encode()  # a value may be missing at the end


class Built:
    """A program while it is being built for a device: `native` and `result`, or `failure`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.native: Any = None
        self.result: BuildResult | None = None
        self.failure: BuildFailure | None = None
        self.sought = False  #: whether it was looked for among what earlier processes have built
