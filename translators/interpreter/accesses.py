"""Accesses of a kernel as analysis finds them, and the byte ranges that they become for a chunk.

Values alone: `access` finds accesses, `launch_ranges` makes ranges of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from vdev.translators.values import dataclass

from ..ranges.grain import NOTHING, Grain
from ..ranges.region import Region
from ..symbolic.nodes import Expr, Unknown, show
from .ways import Step, StepKind

__all__ = ["Access", "AccessRange", "Reason"]


@dataclass(frozen=True)
class Reason:
    """Why something could not be decided, with the user's source line if there is one."""

    text: str
    line: int | None = None

    def __str__(self) -> str:
        return self.text if self.line is None else f"{self.text} (line {self.line})"


@dataclass(frozen=True, slots=True)
class AccessRange:
    """The bytes of one argument that a chunk touches in one way.

    `region` is relative to the beginning of the argument's memory and clipped to it. A write that is exact writes every
    byte of `region` for certain (must-write); one that is not may write any of them (may-write).
    """

    arg: int
    mode: str  #: 'read', 'write' or 'atomic'
    region: Region
    exact: bool
    op: str | None = None  #: of an atomic: 'add', 'min', 'max', 'and', 'or', 'xor' when mergeable, else None
    dtype: str | None = None  #: NumPy name of an atomic's element
    reason: str | None = None  #: why it is not exact, or not mergeable
    line: int | None = None
    #: of a write: where stores begin and end in each part of `region`, counted from its beginning; parts may overlap,
    #: and bytes outside all of them may be stored one by one
    grains: tuple[tuple[Region, Grain], ...] = ()
    name: str = ""  #: the argument's, for messages


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One access in the kernel's text, as a function of ids, loop counters, scalar arguments and NDRange
    quantities.

    `nbytes` bytes at a symbolic byte offset of argument `arg`, in the iterations that `conditions` describe.
    """

    arg: int
    mode: str
    nbytes: int
    line: int | None
    op: str | None
    dtype: str | None
    reason: str | None
    names: Mapping[int, str] = field(repr=False)
    offset: Expr | None = field(repr=False)
    way: Step = field(repr=False)
    grain: Grain = NOTHING  #: of a write: see `AccessRange`; relative to the pointer

    @property
    def expression(self) -> Any:
        """The byte offset as a sympy expression, shortened if it is very long (see `to_sympy`); None if the access
        may be anywhere in the buffer.
        """
        from ..symbolic.report import to_sympy  # for messages

        return None if self.offset is None else to_sympy(self.offset, self.names)

    @property
    def depends_on_memory(self) -> bool:
        """Whether it is not known, whatever a launch's numbers are, where it is made or if it is made at all."""
        if self.offset is None or _is_unknown(self.offset):
            return True
        way: Step | None = self.way
        while way is not None:
            if way.kind is StepKind.MAYBE or (way.kind is not StepKind.ROOT and _is_unknown(way.expr)):
                return True
            way = way.parent
        return False

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must hold for the access to happen, outermost first."""
        found: list[str] = []
        way: Step | None = self.way
        while way is not None:
            match way.kind:
                case StepKind.MAYBE:
                    found.append(f"{way.text}?")
                case StepKind.IF | StepKind.WHILE | StepKind.EARLIER:
                    found.append(show(way.expr, self.names))
            way = way.parent
        return tuple(reversed(found))

    def __str__(self) -> str:
        name = self.names.get(self.arg, f"argument {self.arg}")
        place = "anywhere" if self.offset is None else str(self.expression)
        text = f"{self.mode} {self.nbytes} bytes of {name} at {place}"
        if self.conditions:
            text += " if " + " and ".join(self.conditions)
        if self.reason:
            text += f": {self.reason}"
        return text if self.line is None else f"{text} (line {self.line})"


def _is_unknown(expression: Expr) -> bool:
    return any(isinstance(leaf, Unknown) for leaf in expression.leaves)
