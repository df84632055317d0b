"""OpenCL C to OpenCL C that checks itself: every access to memory goes through a function that is told the access's
number.

Decides what is checked and how the text does it; whoever runs the program reads the findings. Knows no device.
Constructs that it cannot follow stay as they are, and it says where and why.
"""

from .barriers import waits
from .numbers import ON_REQUEST
from .plain import checked_of_plain, plain_checked
from .program import CheckedKernel, CheckedProgram, Root, Site
from .rewriting import translate_checked, translate_fast

__all__ = [
    "ON_REQUEST",
    "CheckedKernel",
    "CheckedProgram",
    "Root",
    "Site",
    "checked_of_plain",
    "plain_checked",
    "program",
    "translate_checked",
    "translate_fast",
    "waits",
]
