"""CuPy's bindings, which an installed CuPy would have, are not there: its stand-in is `cupy`."""

raise ImportError("these GPUs are none")
