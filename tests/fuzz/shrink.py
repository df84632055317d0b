"""Cuts a failing program down: fewer programs in its source, fewer steps, fewer statements.

Decides what may be left out: what declares nothing. A smaller program counts if it still builds natively, gives the
same bytes natively twice, and still differs.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator

from .machines import Difference, Machines, Native, compare
from .program import Batch, Program, Stmt, Write
from .writer import STIR

#: in place of workers, where a program does not build
_BUILD = "build"


class Shrinker:
    """`seconds`: after which what there is has to do."""

    def __init__(self, native: Native, machines: Machines, batch: Batch, seconds: float = 30.0) -> None:
        self.native, self.machines, self.batch = native, machines, batch
        self.end = time.monotonic() + seconds
        self.tried = 0
        #: whether it is the build that fails; not known before the first look
        self.is_of_build: bool | None = None

    def differs(self, source: str, program: Program) -> Difference | None:
        """None as well where there is nothing to compare, and where something else fails than at first: a program that lacks what it needs
        may build natively.
        """
        self.tried += 1
        found = self._difference(source, program)
        if found is None:
            return None
        is_of_build = found.workers == _BUILD
        if self.is_of_build is None:
            self.is_of_build = is_of_build
        return found if is_of_build == self.is_of_build else None

    def _difference(self, source: str, program: Program) -> Difference | None:
        try:
            native = self.native.build(source, self.batch.options)
        except RuntimeError:
            return None
        expected = self.native.run(native, program)
        if compare("native", program, expected, self.native.run(native, program)) is not None:
            return None
        try:
            built = self.machines.build(source, self.batch.options)
        except Exception as error:
            return Difference(_BUILD, f"{type(error).__name__}: {error}")
        return self.machines.check(built, program, expected)

    def shrink(self, program: Program) -> tuple[str, Program, Difference | None]:
        """The smallest source found with its program, and the difference; None where it did not show again."""
        head = self.batch.head.replace(STIR, "")
        source = head + program.source()
        found = self.differs(source, program)
        if found is None:  # perhaps it takes the others to show it
            source = self.batch.source()
            return source, program, self.differs(source, program)
        program = self.fewer_steps(head, program)
        program = self.fewer_statements(head, program)
        return self.result(head, program)

    def result(self, head: str, program: Program) -> tuple[str, Program, Difference | None]:
        for smaller in ("", head):
            source = smaller + program.source()
            found = self.differs(source, program)
            if found is not None:
                return source, program, found
        return head + program.source(), program, None

    def fewer_steps(self, head: str, program: Program) -> Program:
        """Without rebuilding: halves of the steps, then single ones."""
        source = head + program.source()
        try:
            native = self.native.build(source, self.batch.options)
            built = self.machines.build(source, self.batch.options)
        except Exception:  # such as one that fails to build: there is nothing to try
            return program

        def fails(candidate: Program) -> bool:
            expected = self.native.run(native, candidate)
            return self.machines.check(built, candidate, expected) is not None

        size = max(len(program.steps) // 2, 1)
        while size and time.monotonic() < self.end:
            at = 0
            while at < len(program.steps) and time.monotonic() < self.end:
                fewer = program.with_steps(program.steps[:at] + program.steps[at + size :])
                if fewer.nlaunches and fails(fewer):
                    program = fewer
                else:
                    at += size
            size //= 2
        return program

    def fewer_statements(self, head: str, program: Program) -> Program:
        again = True
        while again and time.monotonic() < self.end:
            again = False
            for cut in self.cuts(program):
                if time.monotonic() > self.end:
                    break
                smaller = copy.deepcopy(program)
                cut(smaller)
                if self.differs(head + smaller.source(), smaller) is not None:
                    program, again = smaller, True
                    break
        return program

    @staticmethod
    def cuts(program: Program) -> Iterator[Callable[[Program], None]]:
        """Ways to leave one statement out, large ones first. Declarations go where nothing needs them: then it builds."""
        places: list[tuple[int, tuple[int, ...]]] = []
        for number, kernel in enumerate(program.kernels):
            pending: list[tuple[tuple[int, ...], list[Stmt]]] = [((), kernel.body)]
            while pending:
                path, body = pending.pop(0)
                for at, stmt in enumerate(body):
                    if stmt.droppable:
                        places.append((number, (*path, at)))
                    pending.append(((*path, at), stmt.body))

        def removed(number: int, path: tuple[int, ...]) -> Callable[[Program], None]:
            def cut(target: Program) -> None:
                body = target.kernels[number].body
                for at in path[:-1]:
                    body = body[at].body
                del body[path[-1]]

            return cut

        def remains(at: int) -> Callable[[Program], None]:
            return lambda target: target.prelude.pop(at) and None  # type: ignore[func-returns-value]

        for number, path in places:
            yield removed(number, path)
        for at in range(len(program.prelude)):
            yield remains(at)


__all__ = ["Shrinker", "Write"]
