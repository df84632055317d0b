"""How many of Python's instructions a thread executes: what a piece of code costs, the same on a busy machine.

Counts differ between versions of Python by a few per cent. Whoever needs microseconds measures them elsewhere: an instruction that calls
a function in C takes as long as many others, so loops that `map` and the like hide are fewer instructions and may take longer.
"""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType, TracebackType
from typing import Any


class Bytecodes:
    """Counts while it is entered, on the thread that has entered it: what is called there, but not what calls it."""

    def __init__(self, file: str = "") -> None:
        """`file`: of the only module whose instructions count."""
        self.count = 0
        self._file = file

    def __enter__(self) -> Bytecodes:
        self._caller = sys._getframe(1).f_code
        if sys.version_info >= (3, 12):
            self._tool = _Tool(self)
        else:
            self._before = sys.gettrace()
            sys.settrace(self._called)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.version_info >= (3, 12):
            self._tool.end()
        else:
            sys.settrace(self._before)

    def counts(self, code: CodeType) -> bool:
        """Whether instructions of that function do."""
        return (
            self._file in ("", code.co_filename) and code is not self._caller and code.co_filename != __file__
        )

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        if not self.counts(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._executed

    def _executed(self, frame: FrameType, event: str, _: Any) -> Any:
        self.count += event == "opcode"
        return self._executed


if sys.version_info >= (3, 12):  # from 3.13 on a trace function misses a function's first call

    class _Tool:
        """One of the tools that the interpreter tells of each instruction (PEP 669)."""

        def __init__(self, counter: Bytecodes) -> None:
            monitoring = sys.monitoring
            thread = threading.get_ident()

            def executed(code: CodeType, _: int) -> None:
                counter.count += threading.get_ident() == thread and counter.counts(code)

            self._number = next(number for number in range(6) if monitoring.get_tool(number) is None)
            monitoring.use_tool_id(self._number, "bytecodes")
            monitoring.register_callback(self._number, monitoring.events.INSTRUCTION, executed)
            monitoring.set_events(self._number, monitoring.events.INSTRUCTION)

        def end(self) -> None:
            sys.monitoring.set_events(self._number, 0)
            sys.monitoring.register_callback(self._number, sys.monitoring.events.INSTRUCTION, None)
            sys.monitoring.free_tool_id(self._number)
