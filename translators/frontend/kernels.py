"""What a program declares about its kernels, and how a program is refused: all of the front end that launching
kernels needs.

Decides nothing and reads no source, so that no parser is loaded for programs whose kernels are known already.
"""

from __future__ import annotations

from enum import Enum

from vdev.translators.values import dataclass

__all__ = [
    "BUFFERS",
    "ArgInfo",
    "ArgKind",
    "CompileError",
    "KernelInfo",
    "Line",
    "SampledImage",
    "Untranslatable",
]


class Line(int):
    """A line of another file than the program's own text, and shown as such. Lines of the text are plain numbers.

    >>> f"line {Line(3, 'common.h')}"
    'line 3 of common.h'
    """

    file: str

    def __new__(cls, number: int, file: str) -> Line:
        line = super().__new__(cls, number)
        line.file = file
        return line

    def __str__(self) -> str:
        return f"{int(self)} of {self.file}"

    def __format__(self, specification: str) -> str:
        return format(int(self), specification) if specification else str(self)

    def __reduce__(self) -> tuple[type[Line], tuple[int, str]]:
        return Line, (int(self), self.file)


class CompileError(Exception):
    """The program is not valid. `log`: clang's messages, with the user's lines."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


class Untranslatable(Exception):
    """The program means something that translation cannot preserve. `line`: the user's, or 0."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line


class ArgKind(str, Enum):
    """The kind of a kernel's argument; its text is OpenCL C's name for it."""

    GLOBAL = "global"
    CONSTANT = "constant"
    LOCAL = "local"
    PRIVATE = "private"  #: a pointer, in a function that only other kernels call
    VALUE = "value"
    IMAGE = "image"
    SAMPLER = "sampler"
    PIPE = "pipe"
    QUEUE = "queue"
    UNKNOWN = "unknown"  #: in a kernel whose source is not known

    def __str__(self) -> str:
        return self.value


#: Arguments that are buffers.
BUFFERS = (ArgKind.GLOBAL, ArgKind.CONSTANT)


@dataclass(frozen=True)
class ArgInfo:
    """One kernel argument. Strings are those of CL_KERNEL_ARG_…: `type_name` as in "float*" or "uint".

    `nbytes`: of a value, or of what a pointer points to (1 for void). `scalar`: struct's format
    character of a scalar value.
    """

    name: str
    type_name: str
    kind: ArgKind
    address_qualifier: str
    access_qualifier: str
    type_qualifiers: tuple[str, ...]
    nbytes: int
    scalar: str | None
    pointee_const: bool


@dataclass(frozen=True)
class SampledImage:
    """An image of two dimensions that a kernel only reads, in a program without images: the numbers of the arguments that are its pixels
    and its descriptor, and the sampler with which it is expected to be read at floating-point coordinates, which is another argument's
    value, or `bits` of a constant; None and 0: nobody knows it, or there are several.
    """

    pixels: int
    descriptor: int
    sampler: int | None
    bits: int

    @property
    def is_known(self) -> bool:
        """Whether its sampler is."""
        return self.sampler is not None or self.bits != 0


@dataclass(frozen=True)
class KernelInfo:
    """Signature and attributes of a kernel; `line` is the user's."""

    name: str
    args: tuple[ArgInfo, ...]
    line: int
    reqd_work_group_size: tuple[int, int, int] | None
    work_group_size_hint: tuple[int, int, int] | None
    vec_type_hint: str | None
    attributes: str
