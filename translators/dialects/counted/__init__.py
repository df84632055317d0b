"""OpenCL C to OpenCL C that notes which of its statements ran, and which way its conditions went.

Decides what counts as a statement and as a branch, and how the text says so; who runs it adds up what is noted. Knows no
device. What it cannot follow it leaves as it is, and says where and why.
"""

from .program import Branch, CountedFunction, CountedProgram, Statement
from .rewriting import translate_counted

__all__ = ["Branch", "CountedFunction", "CountedProgram", "Statement", "translate_counted"]
