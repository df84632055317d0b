"""OpenCL C read: options, the preprocessor, clang, and the syntax tree that everything else works on.

Decides what program a source is, as the worker's own compiler would; if it cannot tell, the program is left as
written. Imports `symbolic` for the types of integers, nothing above.
"""

__all__ = [
    "clang",
    "compiler_macros",
    "depth",
    "dimensions",
    "edits",
    "grouping",
    "kernels",
    "layout",
    "operator_kinds",
    "options",
    "preprocessor",
    "source",
    "syntax",
    "syntax_reader",
    "types",
    "unused_functions",
]
