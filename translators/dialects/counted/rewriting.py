"""The text of a counted program: edits in the user's own text, and what stands in front of it.

Decides where functions get the counters (the first parameter of each, the last of kernels). The walk through a
function's body is in `bodies`.
"""

from __future__ import annotations

import re

from clang.cindex import CursorKind

from ...frontend import clang
from ...frontend.edits import Edits, Function, Functions, Use, parentheses_after
from ...frontend.kernels import Untranslatable
from ...frontend.preprocessor import GENERATED_FILE, MAIN_FILE
from ...frontend.source import ParsedProgram
from .bodies import Body
from .program import CountedFunction, CountedProgram
from .recording import Recorder

__all__ = ["Untranslatable", "translate_counted"]


def translate_counted(program: ParsedProgram) -> CountedProgram:
    """Count every function of the user's. Raises Untranslatable, with the reason, where the text cannot be rewritten."""
    if not program.exact:
        raise Untranslatable("macros could not be expanded: " + "; ".join(program.doubts))
    return _Translation(program).run()


class _Translation:
    """One program being rewritten."""

    def __init__(self, program: ParsedProgram) -> None:
        self.program = program
        self.functions = Functions(program)
        self.edits = Edits(self.functions.text)
        self.prefix = _free_prefix(self.functions)
        self.recorder = Recorder(self.functions.text, self.prefix)
        #: functions that somebody wrote; what images are lowered to is left as it is
        self._written = [
            function
            for function in self.functions.defined
            if clang.presumed(function.cursor.location).file != GENERATED_FILE
        ]
        self._keys = frozenset(function.key for function in self._written)

    def run(self) -> CountedProgram:
        self._refuse()
        for name in sorted({function.name for function in self._written}):
            for use in self.functions.uses(name):
                self._thread(use)
        counted = [self._function(function) for function in self._written]
        prelude = "".join(self.recorder.definitions())
        recorder = self.recorder
        return CountedProgram(
            f'{prelude}#line 1 "{MAIN_FILE}"\n{self.edits.apply()}',
            self.program.engine_options,
            recorder.ncounters,
            tuple(recorder.statements),
            tuple(recorder.branches),
            tuple(counted),
            tuple(sorted(set(recorder.skipped))),
        )

    def _refuse(self) -> None:
        for function in self._written:
            for cursor in clang.walk(function.cursor):
                if cursor.kind is CursorKind.BLOCK_EXPR:
                    raise Untranslatable("a block is used", clang.line_of(cursor))

    def _thread(self, use: Use) -> None:
        """A name of a function that is counted: the counters as a parameter, or as an argument."""
        if use.target not in self._keys:
            return
        p = self.prefix
        text = f"__global uchar *{p}c" if use.declares else f"{p}c"
        place = parentheses_after(self.functions.text, use.offset + len(use.name.encode()))
        if place.empty:
            self.edits.replace(place.opening + 1, place.closing, text)
        elif use.name in self.program.kernels:
            self.edits.insert(place.closing, f", {text}")
        else:
            self.edits.insert(place.opening + 1, f"{text}, ")

    def _function(self, function: Function) -> CountedFunction:
        place = clang.presumed(function.cursor.location)
        counter = Body(self.recorder, self.edits, function).rewrite()
        return CountedFunction(place.file, place.line, function.name, function.kernel, counter)


def _free_prefix(functions: Functions) -> str:
    """A prefix that no identifier of the program starts with."""
    taken = {m.group() for m in (re.match(r"vcov\d*_", name) for name in functions.identifiers()) if m}
    number = 0
    while (prefix := f"vcov{number or ''}_") in taken:
        number += 1
    return prefix
