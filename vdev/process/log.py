"""Where vdev's log goes: to standard error from the level that VDEV_LOG gives, or nowhere.

If the program configures the logger `vdev` itself, its handlers stay, and VDEV_LOG only adds one.
"""

from __future__ import annotations

import logging

from vdev.process import switches

_FORMAT = "%(asctime)s %(name)s %(levelname)s: %(message)s"


def start() -> None:
    """Do what VDEV_LOG says. Raises SwitchError."""
    level = switches.log_level()
    if level is None:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    logger = logging.getLogger("vdev")
    logger.addHandler(handler)
    logger.setLevel(level)
