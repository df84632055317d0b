"""What a translation to CUDA C++ is, and how its kernels are called. Decides nothing of the text: see `translation`."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from vdev.translators.values import dataclass

from ...frontend.kernels import SampledImage, Untranslatable
from ...ranges.ndrange import Chunk, NDRange
from ..subgrid_kernel import SubgridKernel

__all__ = [
    "LARGEST_GROUP",
    "LOCAL_ALIGNMENT",
    "USUAL_GROUP",
    "VERSION",
    "Apart",
    "CudaKernel",
    "CudaProgram",
    "Textured",
    "UnknownOption",
    "bounds",
    "bounds_macro",
    "resident_macro",
]

#: Raised with every change to translations: part of the key under which cubins are kept.
VERSION = 21

#: Work-items of the largest work-groups that a kernel is compiled for where nothing is known of them.
USUAL_GROUP = 256
#: of the largest that a GPU has
LARGEST_GROUP = 1024

#: Local memory is aligned for the largest type of OpenCL C, long16 (6.1.5).
LOCAL_ALIGNMENT = 128


class UnknownOption(Untranslatable):
    """An unknown build option (CL_INVALID_BUILD_OPTIONS)."""


@dataclass(frozen=True)
class Apart:
    """A kernel's second version, for launches in which no memory of an argument in `read` is that of one in `written`."""

    entry: str  #: as of `CudaKernel`
    read: tuple[int, ...]
    written: tuple[int, ...]


@dataclass(frozen=True)
class Textured:
    """A kernel's version in which the descriptors of these images hold textures (`image_arguments.with_texture`), each for the image's
    sampler. It also relies on what `Apart` says, where the kernel has such a version.
    """

    entry: str  #: as of `CudaKernel`
    images: tuple[SampledImage, ...]


@dataclass(frozen=True)
class CudaKernel:
    """A kernel as CUDA sees it.

    `entry`: the function's name in the module. CUDA's arguments are the user's, in order, then the hidden one:
    a pointer for global and constant arguments, an `unsigned int` (from `local_layout`) for each of `local_args`, the
    bytes of a value. `pointer_args`: arguments that have a shift. `max_work_group_size`: what the entry function
    is compiled for, or None.
    """

    name: str
    entry: str
    hidden_index: int
    pointer_args: tuple[int, ...]
    local_args: tuple[int, ...]
    max_work_group_size: int | None
    subgrid: SubgridKernel
    #: dynamic shared memory of the kernel's own local variables, at its beginning
    local_nbytes: int = 0
    apart: Apart | None = None
    textured: Textured | None = None

    def resident_groups(self, count: int) -> str:
        """NVRTC's option that lets the kernel use as many registers as `count` work-groups on a multiprocessor allow.
        For kernels with a `max_work_group_size`.
        """
        return f"-D{resident_macro(self.entry)}={count}"

    def bounded(self, threads: int | None) -> str:
        """NVRTC's option that compiles the kernel for work-groups of up to so many work-items, which leaves each of them 65536 / `threads`
        registers, 255 at most; None: for no size, so that it may come out too large for many. For kernels without a
        `max_work_group_size`, which are compiled for `USUAL_GROUP` otherwise.
        """
        return f"-D{bounds_macro(self.entry)}={'' if threads is None else bounds(threads)}"

    @property
    def hidden_nbytes(self) -> int:
        return self.subgrid.hidden_nbytes + 8

    def pack(self, ndrange: NDRange, chunk: Chunk, shifts: Sequence[int] = ()) -> bytes:
        """The hidden argument: as SubgridKernel.pack, followed by the number of dimensions.

        The grid has the chunk's work-groups, a block the NDRange's local size. Raises ValueError for a wrong number
        of shifts, and for partial work-groups, which CUDA does not have.
        """
        for size, local in zip(ndrange.global_size, ndrange.local_size, strict=True):
            if size % local:
                raise ValueError(f"kernel {self.name}: {size} work-items are not a multiple of {local}")
        return self.subgrid.pack(ndrange, chunk, shifts) + struct.pack("<Q", ndrange.work_dim)

    def local_layout(self, sizes: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """Values of the local arguments, of `sizes` bytes each, and the dynamic shared memory that a launch needs (which
        may be some without local arguments, too: `local_nbytes`).
        """
        if len(sizes) != len(self.local_args):
            raise ValueError(
                f"kernel {self.name}: {len(self.local_args)} local sizes expected, {len(sizes)} given"
            )
        offsets, total = [], self.local_nbytes
        for nbytes in sizes:
            offsets.append(total)
            total += -(-nbytes // LOCAL_ALIGNMENT) * LOCAL_ALIGNMENT
        return tuple(offsets), total


@dataclass(frozen=True)
class CudaProgram:
    """CUDA C++, complete in itself, the options to compile it with (without --gpu-architecture), and its kernels."""

    source: str
    options: tuple[str, ...]
    kernels: Mapping[str, CudaKernel]


def bounds(threads: int) -> str:
    """What tells the compiler of the largest work-groups."""
    return f"__launch_bounds__({threads})"


def bounds_macro(entry: str) -> str:
    """The macro with that, of a kernel whose source says nothing of it."""
    return f"{entry}_bounds"


def resident_macro(entry: str) -> str:
    """The macro with the least number of work-groups on a multiprocessor."""
    return f"{entry}_resident"
