"""Folders of this user's own: for what is kept between runs, and for what finds no other place.

Apart from the other switches, since every program that `vdev-run` starts waits until this is loaded. Decides nothing about
what is kept there.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

#: the switch that names the cache's folder, and what it says by default
CACHE_SWITCH, CACHE_DEFAULT = "VDEV_CACHE_DIR", "~/.cache/vdev"


def cache_dir() -> Path:
    """The folder for what is kept between runs; it may not exist yet."""
    return parse_folder(os.environ.get(CACHE_SWITCH) or CACHE_DEFAULT)


def parse_folder(text: str) -> Path:
    """The folder that `text` names, with `~` for this user's home."""
    named = os.path.expanduser(text)
    if named.startswith("~"):  # this user has no home
        return user_temporary_folder()
    return _path(named) if os.path.isabs(named) else Path(named).absolute()


# A cache's entries are asked for again and again, and to read a path takes longer than to look for the folder.
_path = lru_cache(maxsize=16)(Path)


def user_temporary_folder() -> Path:
    """Where files of this user go that find no other place; the folder may not exist yet."""
    import tempfile  # most programs do not need it

    return Path(tempfile.gettempdir(), f"vdev-{os.getuid()}")
