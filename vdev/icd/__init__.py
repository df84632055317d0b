"""The virtual device as a driver that OpenCL's loaders find, for programs in any language.

`libvdev_opencl.so` (`native/library.c`) holds the dispatch table and the handles; it calls `entry` in the interpreter that
the process has, or that it starts. Each function of OpenCL that needs Python is a function of the same name here, which takes
C's arguments apart and calls the façade's commands. How they cross is one table (`functions`). Nothing here decides what a
command does, or where.
"""

__all__ = ["entry", "functions", "joining", "library"]
