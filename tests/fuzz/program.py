"""A generated program: kernels as trees of statements, buffers, and the steps of its host part.

Decides nothing: it is what the writer makes, the machines run, the shrinker cuts and the script writer prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from vdev.translators.dialects.image_arguments import pack_descriptor, pack_sampler

Memory = npt.NDArray[np.uint8]
#: what fills the padding of structures, before and after
PADDING = 0xAB


@dataclass
class Stmt:
    """A statement, or a block: `text`, the statements inside, `tail`. One that is not
    `droppable` ends a loop or sets what is read later; a declaration is, since nothing builds without one that is used."""

    text: str
    body: list[Stmt] = field(default_factory=list)
    tail: str = ""
    droppable: bool = True

    def lines(self, depth: int = 1) -> Iterator[str]:
        pad = "    " * depth
        for line in self.text.split("\n") if self.text else ():
            yield line if line.startswith("#") else pad + line
        for inner in self.body:
            yield from inner.lines(depth + 1)
        for line in self.tail.split("\n") if self.tail else ():
            yield line if line.startswith("#") else pad + line


@dataclass
class Arg:
    """A kernel's argument. `kind`: "buffer", "value", "local", "image" or "sampler"."""

    kind: str
    text: str  #: its declaration
    role: str = ""  #: of a buffer: which buffers it may be bound to


@dataclass
class Kernel:
    name: str
    args: list[Arg]
    body: list[Stmt]
    attributes: str = ""
    braces: tuple[str, str] = ("{", "}")

    def source(self) -> str:
        first, last = self.braces
        head = f"kernel {self.attributes}void {self.name}({', '.join(arg.text for arg in self.args)}) {first}"
        return "\n".join([head, *(line for s in self.body for line in s.lines()), last, ""])


@dataclass(frozen=True)
class Kind:
    """A type of images: PyOpenCL's name, and what OpenCL C calls its sizes."""

    name: str
    axes: tuple[str, ...]


#: by OpenCL C's name
KINDS = {
    "image1d_t": Kind("IMAGE1D", ("width",)),
    "image1d_array_t": Kind("IMAGE1D_ARRAY", ("width", "array_size")),
    "image2d_t": Kind("IMAGE2D", ("width", "height")),
    "image2d_array_t": Kind("IMAGE2D_ARRAY", ("width", "height", "array_size")),
    "image3d_t": Kind("IMAGE3D", ("width", "height", "depth")),
}
_COUNTS = {0x10B0: 1, 0x10B1: 1, 0x10B2: 2, 0x10B3: 2, 0x10B5: 4}
_NBYTES = {0x10D2: 1, 0x10D7: 1, 0x10D8: 2, 0x10D9: 4, 0x10DA: 1, 0x10DB: 2, 0x10DC: 4, 0x10DE: 4}


@dataclass(frozen=True)
class ImageForm:
    """An image whose pixels lie one after another. `sizes`: in pixels, or layers; `order`, `data_type`: CL_ constants."""

    kind: str
    sizes: tuple[int, ...]
    order: int
    data_type: int

    @property
    def region(self) -> tuple[int, int, int]:
        """All of it, as transfers name it."""
        width, height, depth = (*self.sizes, 1, 1)[:3]
        return width, height, depth

    @property
    def shape(self) -> tuple[int, int, int]:
        """Width, height, and depth or layers."""
        width, height, depth = self.region
        return (width, 1, height) if self.kind == "image1d_array_t" else (width, height, depth)

    @property
    def channels(self) -> int:
        return _COUNTS[self.order]

    @property
    def pixel_nbytes(self) -> int:
        return self.channels * _NBYTES[self.data_type]

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.sizes)) * self.pixel_nbytes

    def descriptor(self) -> bytes:
        """What a session's launches pass besides the pixels."""
        row = self.shape[0] * self.pixel_nbytes
        return pack_descriptor(
            self.shape,
            row,
            row * self.shape[1],
            self.order,
            self.data_type,
            self.channels,
            self.pixel_nbytes,
        )


@dataclass(frozen=True)
class SamplerBits:
    """A sampler that takes the nearest pixel. `addressing`: a CL_ADDRESS_ constant."""

    normalized: bool
    addressing: int

    def packed(self) -> bytes:
        """What a session's launches pass."""
        return pack_sampler(normalized=self.normalized, addressing=self.addressing, linear=False)


@dataclass(frozen=True)
class Buffer:
    """`padding`: for each byte whether it is padding of a structure; None where there is none. `image`: of one that is an image, which
    is written and read whole.
    """

    content: Memory
    padding: Memory | None = None
    image: ImageForm | None = None


@dataclass(frozen=True)
class Bound:
    """An argument: bytes [offset, offset + nbytes) of a buffer."""

    buffer: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class LocalSize:
    nbytes: int


#: what an argument is set to
Given = Bound | LocalSize | SamplerBits | bytes


@dataclass(frozen=True)
class Launch:
    kernel: int
    args: tuple[Given, ...]
    size: tuple[int, ...]
    local: tuple[int, ...]
    offset: tuple[int, ...]


@dataclass(frozen=True)
class Write:
    buffer: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class WriteRows:
    """`rows` rows of `width` bytes, `pitch` bytes apart in the buffer, together in `data`."""

    buffer: int
    offset: int
    rows: int
    width: int
    pitch: int
    data: bytes


@dataclass(frozen=True)
class Read:
    buffer: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Fill:
    buffer: int
    offset: int
    nbytes: int
    pattern: bytes


@dataclass(frozen=True)
class Copy:
    source: int
    target: int
    source_offset: int
    target_offset: int
    nbytes: int


Step = Launch | Write | WriteRows | Read | Fill | Copy


@dataclass
class Program:
    """`prelude`: what stands at program scope before the kernels."""

    name: str
    prelude: list[Stmt]
    kernels: list[Kernel]
    buffers: list[Buffer]
    steps: list[Step]
    forms: set[str] = field(default_factory=set)

    def source(self) -> str:
        lines = [line for s in self.prelude for line in s.lines(0)]
        return "\n".join([*lines, "", *(kernel.source() for kernel in self.kernels)])

    @property
    def nlaunches(self) -> int:
        return sum(isinstance(step, Launch) for step in self.steps)

    def with_steps(self, steps: list[Step]) -> Program:
        return replace(self, steps=steps)


@dataclass
class Batch:
    """What is built together: one source of several programs."""

    number: int
    seed: int
    options: tuple[str, ...]
    head: str
    programs: list[Program]

    def source(self, programs: list[Program] | None = None) -> str:
        chosen = self.programs if programs is None else programs
        return self.head + "\n".join(program.source() for program in chosen)
