"""Programs and launches on one GPU (`vdev.backends.cuda.backend`).

Decides how a launch reaches the driver: what is set and asked before it, and how it is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdev.backends.base import (
    Backend,
    BackendProgram,
    BuildResult,
    KernelArgument,
    KernelResources,
    LaunchShape,
    Repeated,
)
from vdev.backends.call_lists import ELSEWHERE, DriverCall
from vdev.backends.cuda.boxes import PlacedBox
from vdev.backends.cuda.driver import LOCAL_NBYTES, SHARED_NBYTES, Driver
from vdev.backends.cuda.gpu import Gpu
from vdev.backends.cuda.launch import Kernel, LoadedProgram
from vdev.backends.cuda.modules import Modules

#: so often a launch that is made again finds its kernel's parameters set to others before it gets a parameter buffer of its own
_MOST_LOST = 4


class CudaLaunches(Backend):
    """The part of a GPU's back end that builds and launches."""

    context: int
    stream: int
    driver: Driver
    _gpu: Gpu
    _modules: Modules
    _fetches: list[PlacedBox]  #: copies from peers that have been requested and not started
    _first: int  #: of the operations since the last marker
    _count: int

    def _begin(self) -> None:
        """One more operation is about to be handed over."""
        raise NotImplementedError

    def build(self, program: BackendProgram) -> BuildResult:
        loaded = self._load(program)
        kernels = {}
        for name, info in loaded.program.kernels.items():
            function = loaded.function(info.entry)
            size = info.max_work_group_size
            kernels[name] = KernelResources(
                work_group_size=size or self.info.max_work_group_size,
                compile_work_group_size=(0, 0, 0),
                local_memory_nbytes=loaded.attribute(function, SHARED_NBYTES) + info.local_nbytes,
                private_memory_nbytes=loaded.attribute(function, LOCAL_NBYTES),
                preferred_multiple=32,
            )
        return BuildResult(loaded.log, kernels, loaded.cubin)

    def _load(self, program: BackendProgram) -> LoadedProgram:
        self._gpu.check_live()
        return self._modules.load(program)

    def kernel(self, program: BackendProgram, name: str) -> Kernel:
        return self._modules.kernel(self._load(program), name)

    def launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> None:
        assert type(kernel) is Kernel
        known = kernel.latest
        if known is None or known.shape is not shape:
            known = kernel.grids(shape)
        if known.threads > kernel.threads:
            kernel = self._modules.with_full_groups(kernel)
            known = kernel.grids(shape)
        kernel.set_arguments(args)
        if self._fetches or not self._first or self._gpu.lost is not None:
            self._begin()
        else:
            self._count += 1
        starts = known.starts
        if starts is None or known.shared != kernel.shared:
            starts = kernel.assemble(known, self.stream, self.driver)
        for hidden, start in starts:
            if hidden is not kernel.hidden:
                kernel.set_hidden(hidden)
            result = start()
            if result:
                raise self._gpu.error(result, f"launch of kernel {kernel.info.name}")
        self.counters.launches += 1

    def again(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> Repeated | None:
        assert type(kernel) is Kernel
        known = kernel.grids(shape)
        if len(known.grids) != 1:  # the second may be refused after the first has started
            return None
        if known.threads > kernel.threads:
            kernel = self._modules.with_full_groups(kernel)
        grid, driver, own = known.grids[0], self.driver, self.context
        start = kernel.assembled(grid, self.stream, driver)
        here = driver.within(own, start)
        counters, visit = self.counters, self.visitor()
        # The driver copies the parameters when it is called.
        used, set_value, mine, lost = kernel, kernel.set_argument, object(), 0

        def launch(changed: Sequence[tuple[int, bytes]] = (), /) -> None:
            nonlocal used, set_value, start, here, lost
            if used.owner is mine:
                for index, value in changed:
                    set_value(index, value)
                    args[index] = value
            else:
                for index, value in changed:
                    args[index] = value
                lost += 1
                before, used = used, _set_up(used, args, grid[6], lost, driver)
                if used is not before:
                    start = used.assembled(grid, self.stream, driver)
                    here = driver.within(own, start)
                set_value, used.owner = used.set_argument, mine
            result = ELSEWHERE if self._fetches or not self._first or self._gpu.lost is not None else here()
            if result == 0:
                self._count += 1
            else:  # the name is the kernel's, which must exist as long as this may be called
                self._launch_elsewhere(result, visit, start, kernel.info.name)
            counters.launches += 1

        return launch

    def _launch_elsewhere(
        self, result: int, visit: Callable[[], object], start: DriverCall, name: str
    ) -> None:
        """Make a launch on a thread that may have another GPU's context; or raise why it was refused, where it was."""
        if result == ELSEWHERE:
            outside, result = self._visiting(visit, start)
            if outside is not None:
                self.leave(outside)
        if result:
            raise self._gpu.error(result, f"launch of kernel {name}")

    def _visiting(self, visit: Callable[[], object], call: DriverCall) -> tuple[object, int]:
        """Count an operation and make its call on a thread that may have another GPU's context: what that is, for `leave`, or None, and
        a CUresult. Where the call is refused, there is nothing to leave.
        """
        outside, result = visit(), -1
        try:
            self._begin()
            result = call()
            if result:
                self._count -= 1
        finally:
            if result and outside is not None:
                self.leave(outside)
        return None if result else outside, result


def _set_up(kernel: Kernel, args: list[KernelArgument], hidden: bytes, lost: int, driver: Driver) -> Kernel:
    """The kernel with these arguments; with parameters of its own where others have set them so often."""
    found = kernel.with_own_parameters(args, driver) if lost == _MOST_LOST else None
    if found is None:
        found = kernel
        found.set_arguments(args)
    if hidden is not found.hidden:
        found.set_hidden(hidden)
    return found
