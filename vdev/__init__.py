"""One virtual OpenCL device made of all workers of a machine, for unmodified PyOpenCL programs.

Importing this package decides nothing and loads nothing: `VDEV=1` in the environment, or `python -m vdev`,
installs the stand-in for PyOpenCL's native module (`vdev.boot`).
"""

__version__ = "0.1.0"
