"""What plans spend most of their time with, compiled from C (`native/`): sets of bytes, numbers that are traced, iteration domains.

Decides whether functions of `bands`, `labelled_bands`, `slicing` and others, and methods of regions, of domains and of numbers that are
traced, are those in Python or compiled ones, which stand in their places under their names and give the same results. Those in Python
are the definition; they serve where there is no library, and compiled ones call them for whatever is not as it mostly is.

The library lies beside this module where it was built with the distribution; whoever has compiled it elsewhere calls `load`.
"""

from __future__ import annotations

from pathlib import Path

from ..native_code import NativeCode

NAME = "libvdev_ranges.so"

_HERE = Path(__file__).parent
code = NativeCode(_HERE / NAME, [_HERE / "native", _HERE.parent / "native"], "vdev_range")
are_compiled, load, plainly = code.are_compiled, code.load, code.plainly
replace, replace_methods = code.replace, code.replace_methods
