"""One virtual OpenCL device made of all workers of a machine, for unmodified PyOpenCL programs.

Importing this package decides nothing and loads nothing: `VDEV=1` in the environment, or `python -m vdev`,
installs the stand-in for PyOpenCL's native module (`vdev.boot`). `stats` says what the virtual device did.
"""

from __future__ import annotations

__all__ = ["__version__", "boot", "errors", "stats"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vdev.observe.statistics import Statistics

__version__ = "0.1.0"


def stats() -> Statistics:
    """What the virtual device did in this process so far: launches, bytes and times, by kernel, kind of
    command and worker.

    Waits for the commands submitted so far. See `vdev.observe.statistics` for what the figures mean;
    `as_dict()` gives them as dictionaries and lists. Nothing is counted twice: two calls give the figures
    from the beginning. Empty where no virtual device was opened.
    """
    from vdev.observe import snapshots  # nothing is loaded until somebody asks

    return snapshots.current()
