"""Reading programs, under the name that scripts import it by; the modules are in `frontend`."""

from .frontend.source import KernelInfo, ParsedProgram, parse_program

__all__ = ["KernelInfo", "ParsedProgram", "parse_program"]
