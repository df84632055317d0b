"""Checking: every split launch is repeated on one worker, and the results are compared (`VDEV_CHECK=1`).

Decides which differences are the program's own. It imports the session; the packages below do not know of it.
"""

__all__ = ["checking", "differences"]
