"""OpenCL C to OpenCL C that notes which of its statements ran, and which way its conditions went.

Decides what counts as a statement and as a branch, and how the text records it; whoever runs the program adds up the
records. Knows no device. It leaves what it cannot follow as it is, and says where and why.
"""

from .program import Branch, CountedFunction, CountedProgram, Statement
from .rewriting import translate_counted

__all__ = ["Branch", "CountedFunction", "CountedProgram", "Statement", "translate_counted"]
