"""Access summaries: which bytes of which argument a chunk of a kernel's index space reads and writes.

The public face of the access analysis (PPoPP'11 section 3.3, AMGE section 4.1). Decides nothing about partitions, buffers or
workers: it says what is touched, whether that is the very set, and where it had to guess and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .ndrange import Chunk, NDRange
from .region import Region

if TYPE_CHECKING:
    from .source import ParsedProgram


@dataclass(frozen=True)
class Reason:
    """Why something could not be decided, with the user's source line where there is one."""

    text: str
    line: int | None = None

    def __str__(self) -> str:
        return self.text if self.line is None else f"{self.text} (line {self.line})"


@dataclass(frozen=True)
class AccessRange:
    """The bytes of one argument that a chunk touches in one way.

    `region` is relative to the pointer argument and clipped to its size. A write that is exact writes every byte of `region` for
    certain (must-write); one that is not may write any of them (may-write).
    """

    arg: int
    mode: str  #: 'read', 'write' or 'atomic'
    region: Region
    exact: bool
    op: str | None = None  #: of an atomic: 'add', 'min', 'max', 'and', 'or', 'xor' when mergeable, else None
    dtype: str | None = None  #: NumPy name of an atomic's element
    reason: str | None = None  #: why it is not exact, or not mergeable
    line: int | None = None


@dataclass(frozen=True)
class KernelSummary:
    """What one kernel does to its pointer arguments."""

    name: str
    one_worker: tuple[Reason, ...] = ()
    scalars: frozenset[int] = frozenset()
    images: tuple[int, ...] = ()
    accesses: tuple[object, ...] = field(default=())

    def evaluate(
        self, ndrange: NDRange, chunk: Chunk, values: Mapping[int, int | float], sizes: Mapping[int, int]
    ) -> tuple[AccessRange, ...]:
        """The ranges of `chunk`: at most one per (arg, mode, op, dtype)."""
        raise NotImplementedError


def analyse_kernel(program: ParsedProgram, name: str) -> KernelSummary:
    """The summary of kernel `name`."""
    raise NotImplementedError
