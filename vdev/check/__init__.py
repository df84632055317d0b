"""Checking: every split launch is repeated on one worker, and the results are compared (`VDEV_CHECK=1`).

Decides which differences are the program's own. Imports the session; nothing below knows of it.
"""

__all__ = ["checking", "differences"]
