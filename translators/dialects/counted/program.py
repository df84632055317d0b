"""What a counted program consists of: its text, and what each of its counters stands for.

Decides nothing; `rewriting` makes it. Lines and files are the user's, as `#line` directives tell them.
"""

from __future__ import annotations

from vdev.translators.values import dataclass


@dataclass(frozen=True)
class Statement:
    """A statement that starts on `line`; `stop` is the last line of it, of an `if` or a loop of its head. It has run where
    the byte `counter` is not 0. `ordinal`: which of the line's statements it is, from 0.
    """

    file: str
    line: int
    ordinal: int
    stop: int
    counter: int


@dataclass(frozen=True)
class Branch:
    """A condition that is no constant, or a `switch`. `outcomes`: what it may lead to, each with its counter.

    `ordinal`: which of the line's conditions it is, constants among them, from 0. `text`: the condition, macros expanded.
    """

    file: str
    line: int
    ordinal: int
    kind: str  #: 'if', 'for', 'while', 'do', '?:', '&&', '||', 'switch'
    text: str
    outcomes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class CountedFunction:
    """A function with a body, entered where the byte `counter` is not 0."""

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
