"""What an expression may name: leaves, tables, memory, helper functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from .values import Ex, IntType, vector_name


@dataclass
class Table:
    """Numbers in constant or private memory. `aligned`: bytes that its start is a multiple of."""

    name: str
    t: IntType
    content: list[int]
    space: str = "constant"
    aligned: int = 1

    def read_as(self, t: IntType) -> list[int]:
        data = b"".join((x % (1 << self.t.bits)).to_bytes(self.t.nbytes, "little") for x in self.content)
        size = t.nbytes
        return [
            int.from_bytes(data[i : i + size], "little", signed=t.signed)
            for i in range(0, len(data) - size + 1, size)
        ]


@dataclass
class Memory:
    """A pointer to global memory that may be read at any of `count` elements from `first`. `own`: only a work-item's own
    block of `count` elements from `base`.
    """

    name: str
    t: IntType
    count: int
    n: int = 1
    first: int = 0
    base: str = ""
    space: str = "global"

    @property
    def element(self) -> str:
        return vector_name(self.t, self.n)


@dataclass
class Function:
    """A helper: its parameters' types and bounds, and what it returns."""

    name: str
    parameters: list[Ex]
    result: Ex


@dataclass
class Scope:
    """What an expression may name."""

    leaves: list[Ex] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
