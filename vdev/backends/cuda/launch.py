"""Kernels on one GPU: their parameter buffers, and chunks as launches within CUDA's limits.

Decides how arguments and a chunk of an NDRange become CUDA's parameters and grids; starts nothing.
"""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vdev.backends.base import Allocation, KernelArgument, LaunchShape, LocalBytes
from vdev.backends.call_lists import DriverCall, PreparedCall, prepared
from vdev.backends.compiling import Placed
from vdev.backends.cuda.driver import (
    MAX_DYNAMIC_SHARED,
    MAX_THREADS_PER_BLOCK,
    NUM_REGS,
    SHARED_NBYTES,
    Driver,
    launch_handles,
)
from vdev.backends.cuda.errors import status_of_result
from vdev.backends.cuda.programs import Multiprocessor, Translated, fewer_groups
from vdev.errors import BackendError
from vdev.translators.dialects.cuda.program import CudaKernel
from vdev.translators.ranges.ndrange import Chunk, whole_chunk

INVALID_WORK_GROUP_SIZE = -54

#: CUDA's limit of work-groups in the second and third dimension of a launch
_MOST_GROUPS = 65535
#: Bytes of local memory, static and dynamic together, that need no permission.
_PLAIN_SHARED = 48 << 10
#: (groups in x, y, z; work-items in x, y, z; hidden argument)
Grid = tuple[int, int, int, int, int, int, bytes]

#: what an argument is set to of which that is not known
UNSET = object()
POINTER = struct.Struct("<Q")
_UINT = struct.Struct("<I")
#: how `driver.LaunchConfig` begins: groups and work-items of a group in three dimensions each
_SIZES = struct.Struct("<6I")
#: by the number of dimensions: what the others have
_ONES: tuple[tuple[int, ...], ...] = ((1, 1, 1), (1, 1), (1,), ())
_NO_SIZES = (0,) * 6
_WORK_DIMS = {dimensions: struct.pack("<Q", dimensions) for dimensions in (1, 2, 3)}


@contextmanager
def asking(driver: Any, what: str) -> Iterator[None]:
    """Functions of the `driver` for modules that fail raise BackendError, which says `what` was asked for."""
    try:
        yield
    except driver.CUDADriverError as error:
        raise BackendError(status_of_result(error.status), f"{what}: {error}") from error


class CudaAllocation(Allocation):
    """Memory of one GPU; `native` is the pool's block, which returns to the pool when it is dropped."""

    __slots__ = ("word",)

    def __init__(self, native: Any, nbytes: int, *, sparse: bool = False) -> None:
        super().__init__(native, nbytes, sparse=sparse)
        self.address = native.ptr
        self.word = POINTER.pack(self.address)  #: what a kernel gets that it is given to


def hidden_of(shape: LaunchShape) -> bytes:
    """The hidden argument of a launch that is one grid."""
    assert shape.hidden is not None, "`Kernel.starts_at_once`"
    return shape.hidden + _WORK_DIMS[len(shape.local_size)]


def address_of(allocation: Allocation) -> int:
    assert type(allocation) is CudaAllocation
    return allocation.address


class Grids:
    """A shape as launches within CUDA's limits."""

    __slots__ = ("bases", "grids", "shape", "threads")

    def __init__(self, shape: LaunchShape, grids: list[Grid]) -> None:
        self.shape = shape
        self.bases = bases_of(shape)
        self.grids = grids
        _, _, _, wide, high, deep, _ = grids[0]
        self.threads = wide * high * deep  #: of a work-group


def bases_of(shape: LaunchShape) -> Sequence[tuple[int, int]]:
    """(argument, bytes that its pointer is moved back by), for those that are moved."""
    if shape.hidden is not None:
        for _, shift in shape.bases:  # mostly none is moved
            if shift:
                return [base for base in shape.bases if base[1]]
    return ()


def moved(args: list[KernelArgument], bases: Sequence[tuple[int, int]]) -> list[KernelArgument]:
    """Arguments with the pointers that the kernel computes with. Moved here and not by the kernel: there the compiler spreads what is
    subtracted over all addresses of a loop, as a plain matrix product's (`samples/benchmarks/language_forms.py`).
    """
    if not bases:
        return args
    found = list(args)
    for index, shift in bases:
        arg = found[index]
        if type(arg) is tuple:
            found[index] = (arg[0], arg[1] - shift)
        elif type(arg) is CudaAllocation:
            found[index] = (arg, -shift)
    return found


def _layout(parameters: Sequence[tuple[int, int]]) -> str:
    """The parameters of a kernel, (offset, bytes) of each, as a format of `struct`.

    >>> _layout([(0, 8), (8, 4), (16, 8)])
    '<8s4s4x8s'
    """
    found, end = ["<"], 0
    for offset, nbytes in parameters:
        found.append((f"{offset - end}x" if offset > end else "") + f"{nbytes}s")
        end = offset + nbytes
    return "".join(found)


class Kernel:
    """A kernel on one GPU: its parameter buffer, what its arguments are set to, and the call that launches it, over whatever grid."""

    __slots__ = (
        "apart",
        "buffer",
        "config",
        "extra",
        "function",
        "grid",
        "handles",
        "info",
        "largest",
        "last",
        "latest",
        "offsets",
        "owner",
        "pack",
        "program",
        "shapes",
        "shared",
        "sizes",
        "start",
        "static",
        "textured",
        "threads",
    )

    def __init__(self, info: CudaKernel, program: LoadedProgram, function: int, driver: Driver) -> None:
        self.info = info
        self.program = program
        self.function = function
        parameters = driver.parameters(function, info.hidden_index + 1)
        self.offsets = [offset for offset, _ in parameters]
        self.sizes = [nbytes for _, nbytes in parameters]
        total = max((offset + nbytes for offset, nbytes in parameters), default=0)
        self.buffer = bytearray(total)
        address = (ctypes.c_char * total).from_buffer(self.buffer) if total else None
        size = ctypes.c_size_t(total)
        # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
        pointers = (ctypes.c_void_p * 5)(
            1, 0 if address is None else ctypes.addressof(address), 2, ctypes.addressof(size), 0
        )
        self.extra = (pointers, address, size, ctypes.addressof(pointers))
        #: of a call that launches it
        self.handles = launch_handles(function, self.extra[3])
        self.last: list[object] = [UNSET] * info.hidden_index
        #: writes the bytes of all parameters at once, which takes Python as long as one of them
        self.pack = struct.Struct(_layout(parameters)).pack_into
        #: the driver's call that launches it, once it has been made, what that reads sizes from, and what these are set to
        self.start: PreparedCall | None = None
        self.config: Any = None
        #: what it starts: a grid, or a shape of one (`set_over`)
        self.grid: Grid | LaunchShape | None = None
        self.owner: object = None  #: the call of `CudaBackend.again` whose parameters and grid they are
        self.shared = 0
        self.static = program.attribute(function, SHARED_NBYTES)
        self.threads = program.attribute(function, MAX_THREADS_PER_BLOCK)
        #: the same kernel for work-groups of up to 1024, once it has been needed
        self.largest: Kernel | None = None
        self.apart: Kernel | None = (
            None  #: the same for arguments that lie apart, where there is such a version
        )
        #: the same whose images' descriptors may hold textures, where there is such a version
        self.textured: Kernel | None = None
        #: by the identity of a shape: its grids
        self.shapes: dict[int, Grids] = {}
        self.latest: Grids | None = None  #: of these, the last that was asked for

    def grids(self, shape: LaunchShape) -> Grids:
        """The grids of a shape; remembered, since plans are launched again and again."""
        known = self.latest
        if known is not None and known.shape is shape:
            return known
        known = self.shapes.get(id(shape))
        if known is None or known.shape is not shape:
            if len(self.shapes) >= 1024:
                self.shapes.clear()
            known = self.shapes[id(shape)] = Grids(shape, grids(self.info, shape))
        self.latest = known
        return known

    def fitting(self, args: Sequence[KernelArgument], threads: int) -> Kernel:
        """The version for these arguments and this many work-items of a work-group. It also fits other memory, if those share memory that
        have shared it.
        """
        apart = self.apart
        if apart is None or threads > apart.threads or not lie_apart(self.info, args):
            return self
        return apart

    def takes_textures(self, args: Sequence[KernelArgument], threads: int) -> bool:
        """Whether there is a version that does, for these arguments and this many work-items."""
        textured = self.textured
        if textured is None or threads > textured.threads or not are_only_read(self.info, args):
            return False
        return self.apart is None or lie_apart(self.info, args)

    def caller(self, stream: int, driver: Driver) -> PreparedCall:
        """The driver's call that launches it, always the same: with the grid, the parameters and the local memory at the time of the call.
        To make one for each grid takes as long as some launches.
        """
        if self.start is None:
            call = driver.starting(_NO_SIZES, self.shared, stream, self.handles)
            self.config, self.start = call.args[0].kept, prepared(call)
        return self.start

    def ready(self, grid: Grid, stream: int, driver: Driver) -> PreparedCall:
        """The same once it starts that grid, with its hidden argument."""
        start = self.start or self.caller(stream, driver)
        if grid is not self.grid:
            self.set_hidden(grid[6])
            self.set_sizes(grid)
        return start

    def set_sizes(self, grid: Grid) -> None:
        """Have the driver's call, which there is, start that grid, whose hidden argument is set."""
        _SIZES.pack_into(self.config, 0, *grid[:6])
        self.grid = grid

    def starts_at_once(self, shape: LaunchShape) -> bool:
        """Whether a shape is one grid of this version's, which `set_over` and `hidden_of` take."""
        if shape.hidden is None:
            return False
        counts, threads = shape.counts, 1
        for local in shape.local_size:
            threads *= local
        return threads <= self.threads and (len(counts) == 1 or max(counts[1:]) <= _MOST_GROUPS)

    def set_over(self, shape: LaunchShape, hidden: bytes | None = None) -> None:
        """Have the driver's call, which there is, start a shape, with that hidden argument, or the one that is set: a grid that is launched
        but once takes longer to be made.
        """
        if hidden is not None:
            at = self.offsets[-1]
            self.buffer[at : at + len(hidden)] = hidden
        counts, local = shape.counts, shape.local_size
        ones = _ONES[len(counts)]
        _SIZES.pack_into(self.config, 0, *counts, *ones, *local, *ones)
        self.grid = shape

    def set_arguments(self, args: list[KernelArgument]) -> None:
        """Set those that are set to something else."""
        self.owner, last = None, self.last
        for index, arg in enumerate(args):
            if arg is not last[index] and arg != last[index]:
                self.set_argument(index, arg)

    def set_hidden(self, hidden: bytes) -> None:
        at = self.offsets[-1]
        self.buffer[at : at + len(hidden)] = hidden

    def set_argument(self, index: int, arg: KernelArgument) -> None:
        self.last[index] = UNSET
        at = self.offsets[index]
        if type(arg) is CudaAllocation:
            POINTER.pack_into(self.buffer, at, arg.address)
        elif type(arg) is bytes:
            nbytes = min(self.sizes[index], len(arg))
            self.buffer[at : at + nbytes] = arg[:nbytes]
        elif type(arg) is tuple:
            POINTER.pack_into(self.buffer, at, address_of(arg[0]) + arg[1])
        elif type(arg) is LocalBytes:
            self.last[index] = arg
            try:
                self.lay_out_local_memory()
            except BackendError:
                self.last[index] = UNSET  # the next launch must be refused, too
                raise
        else:
            POINTER.pack_into(self.buffer, at, 0)
        self.last[index] = arg

    def set_value(self, index: int, value: KernelArgument) -> None:
        """Set an argument that is a value, as a rule of as many bytes as it has."""
        if type(value) is not bytes or len(value) != self.sizes[index]:
            self.set_argument(index, value)
            return
        at = self.offsets[index]
        self.buffer[at : at + len(value)] = self.last[index] = value

    def assembled(self, grid: Grid, stream: int, driver: Driver) -> DriverCall:
        """The driver's call that starts a grid, with the parameters at the time of the call."""
        return driver.starting(grid[:6], self.shared, stream, self.handles)

    def with_own_parameters(self, args: list[KernelArgument], driver: Driver) -> Kernel | None:
        """The same kernel with these arguments in a parameter buffer of its own; None where launches of one change what the driver
        allows the other: how much local memory.
        """
        found, local = Kernel(self.info, self.program, self.function, driver), []
        for index in self.info.local_args:
            arg = args[index]
            local.append(arg.nbytes if isinstance(arg, LocalBytes) else 0)
        if self.static + self.info.local_layout(local)[1] > _PLAIN_SHARED:
            return None
        found.set_arguments(args)
        return found

    def placed_arguments(self) -> list[Placed] | None:
        """Every argument that is an address in memory of the GPU's; None where one does not lie on a word of eight bytes."""
        packed: Any = self.extra[1]
        found: list[Placed] = []
        for index, arg in enumerate(self.last):
            memory = arg[0] if type(arg) is tuple else arg
            if type(memory) is CudaAllocation:
                if self.offsets[index] % 8:
                    return None
                found.append(Placed((ctypes.addressof(packed) + self.offsets[index],), memory))
        return found

    def lay_out_local_memory(self) -> None:
        """Lay out the local arguments anew; those not set yet take no room."""
        indices = self.info.local_args
        set_to = [self.last[index] for index in indices]
        offsets, total = self.info.local_layout(
            [arg.nbytes if isinstance(arg, LocalBytes) else 0 for arg in set_to]
        )
        for index, offset in zip(indices, offsets, strict=True):
            _UINT.pack_into(self.buffer, self.offsets[index], offset)
        if self.static + total > _PLAIN_SHARED and total > self.shared:
            driver = self.program.cuda_driver
            with asking(driver, f"{total} bytes of local memory for kernel {self.info.name}"):
                driver.funcSetAttribute(self.function, MAX_DYNAMIC_SHARED, total)
        self.shared = total
        if self.config is not None:
            self.config.shared_nbytes = total


def lie_apart(info: CudaKernel, args: Sequence[KernelArgument]) -> bool:
    """Whether no memory that a kernel's second version only reads is memory that it writes."""
    apart = info.apart
    assert apart is not None, "it has one"
    written = {id(block) for index in apart.written if (block := _block_of(args[index])) is not None}
    return not any(id(_block_of(args[index])) in written for index in apart.read)


def are_only_read(info: CudaKernel, args: Sequence[KernelArgument]) -> bool:
    """Whether no memory of the images that a kernel's version reads as textures is that of another argument."""
    assert info.textured is not None, "it has one"
    images = {image.pixels for image in info.textured.images}
    others = {
        id(block) for at, arg in enumerate(args) if at not in images and (block := _block_of(arg)) is not None
    }
    return not any(id(_block_of(args[at])) in others for at in images)


def _block_of(arg: KernelArgument) -> object:
    """The memory that an argument points to: the same for all parts of an allocation, None for none."""
    memory = arg[0] if type(arg) is tuple else arg
    return memory.native if isinstance(memory, Allocation) else None


class LoadedProgram:
    """A program on one GPU. Its module is added to `unused` once nobody can launch a kernel of it any more."""

    module: int

    def __init__(
        self,
        cupy: Any,
        program: Translated,
        architecture: str,
        multiprocessor: Multiprocessor,
        unused: deque[int],
        *,
        full_groups: bool,
    ) -> None:
        self.cuda_driver = cupy.cuda.driver
        self.program = program
        self._unused = unused
        self.cubin, self.log = program.cubin(architecture, full_groups=full_groups)
        self.module = self.cuda_driver.moduleLoadData(self.cubin)
        self.kernels: dict[str, Kernel] = {}
        #: the program for work-groups of up to 1024, once it has been needed
        self.with_full_groups: LoadedProgram | None = None
        if not full_groups and (further := self._further(multiprocessor)):
            self.cubin, _ = program.cubin(architecture, further=further)
            first, self.module = self.module, self.cuda_driver.moduleLoadData(self.cubin)
            self.cuda_driver.moduleUnload(first)

    def __del__(self) -> None:
        # On any thread, and work may be under way: the back end unloads it later.
        if hasattr(self, "module"):
            self._unused.append(self.module)

    def _further(self, multiprocessor: Multiprocessor) -> tuple[str, ...]:
        """Options for compiling once more, now that the number of registers of each kernel is known."""
        found: list[str] = []
        for info in self.program.kernels.values():
            size = info.max_work_group_size
            if size is None or info.local_args or info.local_nbytes or self.program.registers_given:
                continue
            function = self.function(info.entry)
            if self.attribute(function, SHARED_NBYTES):
                continue
            fewer = fewer_groups(size, self.attribute(function, NUM_REGS), multiprocessor)
            if fewer is not None:
                found.append(info.resident_groups(fewer))
        return tuple(found)

    def function(self, entry: str) -> int:
        with asking(self.cuda_driver, f"kernel {entry}"):  # which a driver may load only here
            return int(self.cuda_driver.moduleGetFunction(self.module, entry))

    def attribute(self, function: int, number: int) -> int:
        with asking(self.cuda_driver, f"attribute {number} of a kernel"):
            return int(self.cuda_driver.funcGetAttribute(number, function))


def grids(info: CudaKernel, shape: LaunchShape) -> list[Grid]:
    """A chunk as launches within CUDA's limits."""
    ndrange, shifts = shape.ndrange, {}
    wide, high, deep = (*shape.local_size, 1, 1)[:3]
    if shape.hidden is None:  # pointers arrive in the form in which they are used
        chunk = whole_chunk(ndrange)
    else:
        counts = shape.counts
        x, y, z = (*counts, 1, 1)[:3]
        if y <= _MOST_GROUPS and z <= _MOST_GROUPS:  # as nearly always
            return [(x, y, z, wide, high, deep, shape.hidden + _WORK_DIMS[len(counts)])]
        chunk, shifts = shape.chunk, dict(shape.bases)
    found: list[Grid] = []
    for part in within_limits(chunk):
        try:
            hidden = info.pack(ndrange, part, [shifts.get(arg, 0) for arg in info.pointer_args])
        except ValueError as error:
            raise BackendError(INVALID_WORK_GROUP_SIZE, str(error)) from error
        x, y, z = (*part.counts, 1, 1)[:3]
        found.append((x, y, z, wide, high, deep, hidden))
    return found


def within_limits(chunk: Chunk) -> list[Chunk]:
    """Its parts within CUDA's limits."""
    if max(chunk.counts[1:], default=0) <= _MOST_GROUPS:
        return [chunk]
    found, rest = [], [chunk]
    while rest:
        part = rest.pop()
        counts = part.counts
        axis = next((axis for axis in range(1, len(counts)) if counts[axis] > _MOST_GROUPS), None)
        if axis is None:
            found.append(part)
            continue
        most, cycle = _MOST_GROUPS, part.cycle
        if cycle is not None and cycle.axis == axis and counts[axis] > cycle.block:
            most = max(most // cycle.block, 1) * cycle.block  # whole blocks
        rest += reversed(part.cut(axis, most))
    return found
