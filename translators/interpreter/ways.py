"""Ways: the conditions under which a kernel reaches an access, one step after the other.

Decides nothing: the walk through a kernel makes them, and a launch evaluates them.
"""

from __future__ import annotations

from enum import Enum, auto

from ..symbolic.nodes import Expr

__all__ = ["Step", "StepKind"]


class StepKind(Enum):
    """What a step of a way says. Hashed by identity, since `Enum`'s own hash is a function in Python."""

    __hash__ = object.__hash__

    ROOT = auto()  #: the kernel's beginning
    IF = auto()  #: `expr` holds
    LOOP = auto()  #: a loop begins, `counter` counts its iterations from 0
    WHILE = auto()  #: `expr` holds in this and all earlier iterations of `counter`
    EARLIER = auto()  #: this is the first iteration, or `expr` (of the iteration before) held in all before
    MAYBE = auto()  #: nobody knows whether this point is reached; `text` and `line` say why


class Step:
    """One condition on the way to an access; `parent` is the way before it."""

    __slots__ = ("counter", "depth", "expr", "kind", "line", "parent", "text")

    def __init__(
        self,
        parent: Step | None,
        kind: StepKind,
        expr: Expr,
        counter: Expr | None = None,
        text: str = "",
        line: int | None = None,
    ) -> None:
        self.parent = parent
        self.kind = kind
        self.expr = expr
        self.counter = counter
        self.text = text
        self.line = line
        self.depth: int = parent.depth + 1 if parent is not None else 0
