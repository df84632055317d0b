"""What a counted program consists of: its text, and what each of its counters stands for.

Decides nothing; `rewriting` makes it. Lines and files are the user's, as `#line` directives tell them.
"""

from __future__ import annotations

from vdev.translators.values import dataclass


@dataclass(frozen=True)
class Statement:
    """A statement that starts on `line`; `stop` is its last line, or for an `if` or a loop the last of its head.

    It has run if the byte `counter` is not 0. `ordinal`: its index among the line's statements, from 0.
    """

    file: str
    line: int
    ordinal: int
    stop: int
    counter: int


@dataclass(frozen=True)
class Branch:
    """A condition that is not constant, or a `switch`.

    `outcomes`: the possible outcomes, each with its counter. `ordinal`: its index among the line's conditions,
    constant ones included, from 0. `text`: the condition, macros expanded.
    """

    file: str
    line: int
    ordinal: int
    kind: str  #: 'if', 'for', 'while', 'do', '?:', '&&', '||', 'switch'
    text: str
    outcomes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class CountedFunction:
    """A function with a body; it has been entered if the byte `counter` is not 0."""

    file: str
    line: int
    name: str
    kernel: bool
    counter: int


@dataclass(frozen=True)
class CountedProgram:
    """OpenCL C whose kernels take a pointer to `ncounters` bytes of global memory, all of them 0, behind their own arguments.

    `skipped`: (file, line, what is not counted and why).
    """

    source: str
    options: tuple[str, ...]
    ncounters: int
    statements: tuple[Statement, ...]
    branches: tuple[Branch, ...]
    functions: tuple[CountedFunction, ...]
    skipped: tuple[tuple[str, int, str], ...]
