"""OpenCL C to OpenCL C that records which of its statements ran, and which outcomes its conditions had.

Decides what counts as a statement and as a branch, and how the text records it; whoever runs the program adds up the
records. Knows no device. Constructs that it cannot follow stay as they are, and it says where and why.
"""

from .program import Branch, CountedFunction, CountedProgram, Statement
from .rewriting import translate_counted

__all__ = ["Branch", "CountedFunction", "CountedProgram", "Statement", "translate_counted"]
