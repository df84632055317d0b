"""Programs and launches on one GPU (`vdev.backends.cuda.backend`).

Decides how a launch reaches the driver: what is set and asked before it, and how it is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from vdev.backends.base import (
    Backend,
    BackendProgram,
    BuildResult,
    KernelArgument,
    KernelResources,
    LaunchShape,
    Repeated,
    RepeatedWhole,
)
from vdev.backends.call_lists import PreparedCall
from vdev.backends.cuda.boxes import PlacedBox
from vdev.backends.cuda.driver import LOCAL_NBYTES, SHARED_NBYTES, Driver
from vdev.backends.cuda.errors import ELSEWHERE
from vdev.backends.cuda.gpu import Gpu
from vdev.backends.cuda.launch import (
    POINTER,
    UNSET,
    CudaAllocation,
    Kernel,
    LoadedProgram,
    address_of,
    hidden_of,
    moved,
)
from vdev.backends.cuda.marker import Lapse
from vdev.backends.cuda.modules import Modules
from vdev.backends.cuda.textures import Textures

T = TypeVar("T")

#: so often a launch that is made again finds its kernel's parameters set to others before it gets a parameter buffer of its own
_MOST_LOST = 4


class CudaLaunches(Backend):
    """The part of a GPU's back end that builds and launches."""

    context: int
    stream: int
    driver: Driver
    _gpu: Gpu
    _modules: Modules
    _textures: Textures
    _fetches: list[PlacedBox]  #: copies from peers that have been requested and not started
    _first: int  #: of the operations since the last marker
    _count: int
    _lapse: Lapse | None = None  #: of a command whose times are wanted, while it is handed over

    def _begin(self) -> None:
        """One more operation is about to be handed over."""
        raise NotImplementedError

    def kept(self, program: BackendProgram) -> BuildResult | None:
        return self.build(program) if self._modules.keeps(program) else None

    def translate(self, program: BackendProgram) -> None:
        self._modules.translate(program)

    def compile_ahead(self, program: BackendProgram) -> None:
        self._modules.compile(program)

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
        known = kernel.grids(shape)
        given = moved(args, known.bases) if known.bases else args
        if known.threads > kernel.threads:
            kernel = self._modules.with_full_groups(kernel)
            known = kernel.grids(shape)
        if kernel.apart is not None or kernel.textured is not None:
            kernel, given = self._version(kernel, given, known.threads)
            known = kernel.grids(shape)
        kernel.set_arguments(given)
        if self._fetches or not self._first or self._gpu.lost is not None:
            self._begin()
        else:
            self._count += 1
        for grid in known.grids:
            start = kernel.ready(grid, self.stream, self.driver)
            result = start() if self._lapse is None else self._timed(start, self._lapse)
            if result:
                raise self._gpu.error(result, f"launch of kernel {kernel.info.name}")
        self.counters.launches += 1

    def _timed(self, call: PreparedCall, lapse: Lapse) -> int:
        """Make the call between two events; what it returns."""
        lapse.begin(self.stream)
        result = call()
        if not result:
            lapse.finish(self.stream, self._count)
        return result

    def _fitting(self, kernel: Kernel, args: Sequence[KernelArgument], threads: int) -> Kernel:
        """As `Kernel.fitting`; counted."""
        found = kernel.fitting(args, threads)
        if found is not kernel:
            self.counters.apart.add(kernel.info.name)
        return found

    def _version(
        self, kernel: Kernel, args: list[KernelArgument], threads: int
    ) -> tuple[Kernel, list[KernelArgument]]:
        """The version for these arguments and this many work-items of a work-group, and the arguments as it takes them. It also fits other
        memory, if those share memory that have shared it, with textures of that.
        """
        if kernel.takes_textures(args, threads):
            assert kernel.info.textured is not None, "it has such a version"
            given = self._textures.given(kernel.info.textured.images, args)
            if given is not None:
                assert kernel.textured is not None, "as above"
                return kernel.textured, given
        return self._fitting(kernel, args, threads), args

    def _in_own_context(self, call: Callable[[], T]) -> T:
        outside = self.visit()
        try:
            return call()
        finally:
            if outside is not None:
                self.leave(outside)

    def _start(self, call: PreparedCall, what: str) -> None:
        """Count an operation and make its call, in whatever context the calling thread has."""
        if self._fetches or not self._first or self._gpu.lost is not None:
            self._in_own_context(self._begin)
        else:
            self._count += 1
        result = call() if self._lapse is None else self._timed(call, self._lapse)
        if result:
            self._start_elsewhere(result, call, what)

    def _start_elsewhere(self, result: int, call: PreparedCall, what: str) -> None:
        """Make a call that was refused in the GPU's own context, if it may be for that; raise BackendError if it is refused there."""
        if result in ELSEWHERE:
            result = self._in_own_context(call)
        if result:
            self._count -= 1
            raise self._gpu.error(result, what)

    def again(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> Repeated | None:
        assert type(kernel) is Kernel
        known = kernel.grids(shape)
        if len(known.grids) != 1:  # the second may be refused after the first has started
            return None
        if known.threads > kernel.threads:
            kernel = self._modules.with_full_groups(kernel)
        args = moved(args, known.bases)
        plain = self._again(self._fitting(kernel, args, known.threads), [*args], shape)
        if kernel.textured is None or not kernel.takes_textures(args, known.threads):
            return plain
        textured = self._again(kernel.textured, [*args], shape)
        return _Textured(textured, plain, self._textures, kernel, args, shape).again

    def _again(self, kernel: Kernel, args: list[KernelArgument], shape: LaunchShape) -> Repeated:
        """The same of one version."""
        made = _Made(kernel, args, shape, self.stream, self.driver)
        start = kernel.caller(self.stream, self.driver)
        counters = self.counters
        # The driver copies the parameters when it is called.
        used, set_value = kernel, kernel.set_argument

        def launch(
            changed: Sequence[tuple[int, KernelArgument]] = (), other: LaunchShape | None = None, /
        ) -> int:
            nonlocal used, set_value, start
            if used.owner is made:
                for index, value in changed:
                    set_value(index, value)
                    args[index] = value
                if other is not None:
                    made.shape = other
                    if other is not used.grid:
                        used.set_over(other, hidden_of(other))
            else:
                start = made.ready(changed, other)
                used, set_value = made.kernel, made.kernel.set_argument
            if self._fetches or not self._first or self._gpu.lost is not None:
                self._in_own_context(self._begin)
            else:
                self._count += 1
            result = start() if self._lapse is None else self._timed(start, self._lapse)
            if result:  # the name is the kernel's, which must exist as long as this may be called
                self._start_elsewhere(result, start, f"launch of kernel {kernel.info.name}")
            counters.launches += 1
            return self._count

        return launch

    def again_whole(
        self, kernel: object, args: Sequence[KernelArgument], shape: LaunchShape
    ) -> RepeatedWhole | None:
        assert type(kernel) is Kernel
        known = kernel.grids(shape)
        if len(known.grids) != 1 or known.bases:
            return None
        if not all(type(arg) is bytes or type(arg) is CudaAllocation for arg in args):
            return None
        if known.threads > kernel.threads:
            kernel = self._modules.with_full_groups(kernel)
        plain = self._again_whole(self._fitting(kernel, args, known.threads), args, shape)
        if kernel.textured is None or not kernel.takes_textures(args, known.threads):
            return plain
        textured = self._again_whole(kernel.textured, args, shape)
        return _Textured(textured, plain, self._textures, kernel, [*args], shape).again_whole

    def _again_whole(
        self, kernel: Kernel, args: Sequence[KernelArgument], shape: LaunchShape
    ) -> RepeatedWhole:
        """The same of one version."""
        known = kernel.grids(shape)
        pointers = [at for at, arg in enumerate(args) if type(arg) is CudaAllocation]
        counters, owner, pack, buffer = self.counters, object(), kernel.pack, kernel.buffer
        last, unset, what = kernel.last, [UNSET] * len(args), f"launch of kernel {kernel.info.name}"
        start = kernel.caller(self.stream, self.driver)
        hidden, over = known.grids[0][6], shape

        def launch(now: Sequence[KernelArgument], other: LaunchShape | None, /) -> int:
            nonlocal hidden, over
            if other is not None:
                over, hidden = other, hidden_of(other)
            words: list[Any] = [*now]
            for at in pointers:
                arg = words[at]
                words[at] = (
                    arg.word if type(arg) is CudaAllocation else POINTER.pack(address_of(arg[0]) + arg[1])
                )
            if kernel.owner is not owner:
                last[:] = unset  # others set all of them anew
                kernel.owner = owner
            pack(buffer, 0, *words, hidden)
            if over is not kernel.grid:
                kernel.set_over(over)
            if self._fetches or not self._first or self._gpu.lost is not None:
                self._in_own_context(self._begin)
            else:
                self._count += 1
            result = start() if self._lapse is None else self._timed(start, self._lapse)
            if result:
                self._start_elsewhere(result, start, what)
            counters.launches += 1
            return self._count

        return launch

    def repeats_elsewhere(self, kernel: object) -> bool:
        assert type(kernel) is Kernel
        return kernel.textured is None

    def repeats_over(self, kernel: object, shape: LaunchShape) -> bool:
        assert type(kernel) is Kernel
        apart, textured = kernel.apart, kernel.textured
        return (
            kernel.starts_at_once(shape)
            and (apart is None or apart.starts_at_once(shape))
            and (textured is None or textured.starts_at_once(shape))
        )


class _Textured:
    """A launch that is made again with textures where all images have one, and by the kernel's other version where they have not."""

    __slots__ = ("_args", "_images", "_plain", "_read", "_shape", "_textured", "_textures", "_used")

    def __init__(
        self,
        textured: Any,
        plain: Any,
        textures: Textures,
        kernel: Kernel,
        args: list[KernelArgument],
        shape: LaunchShape,
    ) -> None:
        """`textured`, `plain`: those versions' launches, both `Repeated` or both `RepeatedWhole`. `args`: without textures."""
        assert kernel.info.textured is not None, "it has such a version"
        self._textured, self._plain = textured, plain
        self._used: Any = None  #: of these, the one that has been told of all arguments
        self._textures, self._images = textures, kernel.info.textured.images
        self._read = {at for image in self._images for at in (image.pixels, image.descriptor, image.sampler)}
        self._args, self._shape = args, shape

    def again(
        self, changed: Sequence[tuple[int, KernelArgument]] = (), other: LaunchShape | None = None, /
    ) -> int:
        args, used = self._args, self._used
        for at, value in changed:
            args[at] = value
        if other is not None:
            self._shape = other
        if used is not None and not any(at in self._read for at, _ in changed):
            return int(used(changed, other))
        given = self._textures.given(self._images, args)
        self._used = self._plain if given is None else self._textured
        return int(self._used([*enumerate(args if given is None else given)], self._shape))

    def again_whole(self, now: Sequence[KernelArgument], other: LaunchShape | None, /) -> int:
        given, used = self._textures.given(self._images, now), self._used
        if other is not None:
            self._shape = other
        self._used = self._plain if given is None else self._textured
        return int(self._used(now if given is None else given, other if self._used is used else self._shape))


class _Made:
    """A launch that is made again: its shape, its arguments, and the kernel whose parameters are set to them."""

    __slots__ = ("_args", "_driver", "_lost", "_stream", "kernel", "shape")

    def __init__(
        self, kernel: Kernel, args: list[KernelArgument], shape: LaunchShape, stream: int, driver: Driver
    ) -> None:
        self.kernel, self.shape = kernel, shape
        self._args = args
        self._stream, self._driver = stream, driver
        self._lost = 0  #: how often the parameters were found set to others

    def ready(self, changed: Sequence[tuple[int, KernelArgument]], shape: LaunchShape | None) -> PreparedCall:
        """The driver's call, with the parameters set, these values `changed`, and over another `shape` if there is one. Others have
        set the kernel's parameters.
        """
        for index, value in changed:
            self._args[index] = value
        if shape is not None:
            self.shape = shape
        kernel = self.kernel = self._set_up(self.kernel)
        return kernel.ready(kernel.grids(self.shape).grids[0], self._stream, self._driver)

    def _set_up(self, kernel: Kernel) -> Kernel:
        """The kernel with the arguments; with parameters of its own where others have set them so often."""
        self._lost += 1
        found = kernel.with_own_parameters(self._args, self._driver) if self._lost == _MOST_LOST else None
        if found is None:
            found = kernel
            found.set_arguments(self._args)
        found.owner = self
        return found
