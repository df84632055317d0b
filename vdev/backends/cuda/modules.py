"""Programs on one GPU: loaded when first needed, unloaded when they are released and none of their kernels runs.

`programs` compiles them, and `launch` launches their kernels.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections import deque
from typing import Any

from vdev.backends.base import BackendProgram, Marker
from vdev.backends.cuda.driver import Driver
from vdev.backends.cuda.launch import Kernel, LoadedProgram
from vdev.backends.cuda.programs import Cubins, Multiprocessor, Translated, kept, translated
from vdev.errors import BuildFailure
from vdev.translators.dialects.cuda.program import CudaKernel

logger = logging.getLogger("vdev.cuda")


class Modules:
    """The programs of one GPU and their kernels."""

    def __init__(
        self, cupy: Any, driver: Driver, cubins: Cubins, architecture: str, multiprocessor: Multiprocessor
    ) -> None:
        self._cupy = cupy
        self._driver = driver
        self._cubins = cubins
        self._architecture = architecture
        self._multiprocessor = multiprocessor
        #: by program, as long as the program exists
        self.loaded: weakref.WeakKeyDictionary[BackendProgram, LoadedProgram] = weakref.WeakKeyDictionary()
        #: modules of programs that are gone; and modules with a marker behind all work that may still use them
        self._unused: deque[int] = deque()
        self._leaving: deque[tuple[Marker, list[int]]] = deque()
        #: what the next markers are for; empty where `unload` has nothing to do
        self.awaiting = (self._unused, self._leaving)

    def load(self, program: BackendProgram) -> LoadedProgram:
        """The program, compiled; BuildFailure if it cannot be."""
        found = self.loaded.get(program)
        if found is None:
            found = self.loaded[program] = self._load_cubin(
                translated(program, self._cubins), full_groups=False
            )
        return found

    def translate(self, program: BackendProgram) -> None:
        """Have it translated when it is compiled; a refusal is kept."""
        with contextlib.suppress(BuildFailure):
            translated(program, self._cubins)

    def compile(self, program: BackendProgram) -> None:
        """Have it compiled when it is loaded: by any thread, which needs no GPU. BuildFailure if it cannot be."""
        translated(program, self._cubins).cubin(self._architecture)

    def keeps(self, program: BackendProgram) -> bool:
        """Whether it is loaded, or can be without a compiler, and nobody is at it."""
        if program in self.loaded:
            return True
        ready = kept(program, self._cubins)
        return ready is not None and ready.is_kept(self._architecture)

    def _load_cubin(self, program: Translated, *, full_groups: bool) -> LoadedProgram:
        try:
            return LoadedProgram(
                self._cupy,
                program,
                self._architecture,
                self._multiprocessor,
                self._unused,
                full_groups=full_groups,
            )
        except self._cupy.cuda.driver.CUDADriverError as error:
            raise BuildFailure(f"the GPU rejects the compiled program: {error}") from error

    def kernel(self, loaded: LoadedProgram, name: str) -> Kernel:
        """A kernel of the program, made at the first request."""
        found = loaded.kernels.get(name)
        if found is None:
            info = loaded.program.kernels[name]
            found = loaded.kernels[name] = self._version(info, loaded, info.entry)
            if info.apart is not None:
                found.apart = self._version(info, loaded, info.apart.entry)
            if info.textured is not None:
                found.textured = self._version(info, loaded, info.textured.entry)
        return found

    def _version(self, info: CudaKernel, loaded: LoadedProgram, entry: str) -> Kernel:
        found = Kernel(info, loaded, loaded.function(entry), self._driver)
        if info.local_nbytes:  # its own local variables, for which there is no static shared memory
            found.lay_out_local_memory()
        return found

    def with_full_groups(self, kernel: Kernel) -> Kernel:
        """The same kernel, compiled for the largest work-groups."""
        largest = kernel.largest
        if largest is None:
            program = kernel.program
            if program.with_full_groups is None:
                program.with_full_groups = self._load_cubin(program.program, full_groups=True)
            largest = kernel.largest = self.kernel(program.with_full_groups, kernel.info.name)
        return largest

    def unload(self, marker: Marker) -> None:
        """Unload what nobody uses any more, and no work before `marker` does either."""
        unused, leaving = self._unused, self._leaving
        if unused:
            leaving.append((marker, [unused.popleft() for _ in range(len(unused))]))
        driver = self._cupy.cuda.driver
        while leaving and leaving[0][0].done():
            for module in leaving.popleft()[1]:
                try:
                    driver.moduleUnload(module)
                except driver.CUDADriverError as error:
                    # A GPU that has failed refuses everything, and its work reports that: this is no command's
                    # failure.
                    logger.debug("unloading the module of a released program failed: %s", error)
