"""Checking: every split launch made again on one worker, and the results compared (`VDEV_CHECK=1`).

Decides which differences are the program's own. Imports the session; nothing below knows of it.
"""

__all__ = ["checking", "differences"]
