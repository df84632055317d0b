"""Dialects: OpenCL C in, text for a worker's compiler out. A dialect is a table; this package has one module or package each.

Keeps invariant 5: what a kernel asks about its NDRange is answered as if there were one device. Imports `frontend` and
`ranges`; knows nothing of the interpreter.
"""

__all__ = ["image_arguments", "image_lowering", "subgrid", "subgrid_kernel"]
