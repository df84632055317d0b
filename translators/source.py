"""Reading programs, under the name by which scripts import it; the modules are in `frontend`."""

from .frontend.source import KernelInfo, ParsedProgram, parse_program

__all__ = ["KernelInfo", "ParsedProgram", "parse_program"]
