"""Files that vdev keeps between runs, in folders that are the user's alone.

Decides what to trust: a folder that is no link, that this user owns and that nobody else may write to;
and in it, this user's regular files whose content matches the hash stored with it. As files found there are
loaded as code, everything else is left as it is and never used. Never decides what is kept, nor
where.

Files are reached through a descriptor of their folder, so that what was checked is what is read, even if
the path is replaced meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: Seconds after which an unfinished file counts as abandoned.
_ABANDONED_SECONDS = 3600
#: Bytes that are read at a time of a file that is not as long as it was.
_PIECE_NBYTES = 1 << 20
#: begins every entry of a `Store`; the number is that of the format
_HEADER = b"vdev entry 2\n"
_HEAD_NBYTES = len(_HEADER) + hashlib.sha256().digest_size


class Untrusted(PermissionError):
    """A folder or a file that somebody else may have written to; the text names it and says why."""


def private_folder(path: Path) -> Path:
    """`path` as a folder of this user alone, made (mode 0700, as are its parents) if it does not exist.

    Raises Untrusted if it belongs to somebody else, is a link, or is writable by others; OSError if it cannot be
    made.
    """
    _make(path)
    with _opened(path):
        return path


def _make(path: Path) -> None:
    for folder in (*reversed(path.parents), path):
        with contextlib.suppress(FileExistsError, IsADirectoryError):
            if not os.path.lexists(folder):
                os.mkdir(folder, 0o700)


@contextlib.contextmanager
def _opened(path: Path, inside: int | None = None) -> Iterator[int]:
    """A descriptor of a private folder, closed at the end. As `_open`."""
    folder = _open(path, inside)
    try:
        yield folder
    finally:
        os.close(folder)


def _open(path: Path, inside: int | None = None, checked: set[tuple[int, int]] | None = None) -> int:
    """A descriptor of a private folder. Raises as `private_folder` does. `inside`: a descriptor of the one that holds it: from
    there nobody else can have led elsewhere, and what lies above it has been checked. `checked`: folders (device and inode) above
    which everything has been checked, this one from now on.
    """
    try:
        name = path if inside is None else path.name
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    except OSError as error:
        if os.path.islink(path):
            raise Untrusted(f"{path} is a link") from error
        raise
    try:
        state = os.fstat(folder)
        if state.st_uid != os.getuid():
            raise Untrusted(f"{path} is not this user's alone: it belongs to user {state.st_uid}")
        if state.st_mode & _OTHERS_MAY_WRITE:
            mode = stat.S_IMODE(state.st_mode)
            raise Untrusted(f"{path} is not this user's alone: others may write to it (mode {mode:04o})")
        if inside is None and (checked is None or (state.st_dev, state.st_ino) not in checked):
            _check_parents(path)
            if checked is not None:
                checked.add((state.st_dev, state.st_ino))
    except BaseException:
        os.close(folder)
        raise
    return folder


def _check_parents(path: Path) -> None:
    """Check the folders above: whoever may write to one of them can put another folder in this one's place, unless it
    only lets owners move their files.
    """
    for folder in Path(os.path.realpath(path)).parents:
        mode = os.stat(folder).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise Untrusted(f"{path} is not this user's alone: others may write to {folder} above it")


def read_private(folder: Path, name: str) -> bytes | None:
    """The content of a file of this user in a private folder; None if there is none that can be trusted.

    Raises as `private_folder` does, for the folder.
    """
    with _opened(folder) as opened:
        return _read(opened, name)


def _read(folder: int, name: str) -> bytes | None:
    try:
        # O_NONBLOCK: opening a pipe that somebody has put there must not wait for its other end.
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:  # it does not exist, is a link, or is not readable
        return None
    try:
        state = os.fstat(handle)
        if (
            state.st_uid != os.getuid()
            or state.st_mode & _OTHERS_MAY_WRITE
            or not stat.S_ISREG(state.st_mode)
        ):
            return None
        found = os.read(handle, state.st_size + 1)
        while piece := os.read(handle, _PIECE_NBYTES) if len(found) != state.st_size else b"":
            found += piece
        return found
    finally:
        os.close(handle)


def write_private(folder: Path, name: str, content: bytes) -> None:
    """Write a file into a private folder, in one piece: other processes see all of it or nothing.

    Raises as `private_folder` does, and OSError if there is no room.
    """
    with _opened(folder) as opened:
        _write(opened, name, content)


def _write(folder: int, name: str, content: bytes) -> None:
    scratch = f".{name}.{os.getpid()}.{os.urandom(4).hex()}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(scratch, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(content)
        os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # an interrupt leaves nothing behind either
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch, dir_fd=folder)
        raise


class Store:
    """Entries by key in one private folder, each with its hash. Any thread and any process may use it at the same
    time.

    If there is no such folder, or it cannot be trusted, nothing is kept and nothing is found; that is logged once.
    """

    def __init__(self, folder: Path, suffix: str) -> None:
        """`suffix`: of the entries' files, such as ".cubin"."""
        self._folder, self._above = folder, folder.parent
        self._suffix = suffix
        #: folders that entries were found in. Who comes to write above one later can only put another in its place.
        self._checked: set[tuple[int, int]] = set()
        self._refused = False
        self._untrimmed: int | None = (
            None  #: bytes written since entries were last trimmed; None: never trimmed
        )

    def name(self, key: str) -> str:
        """The file of an entry."""
        return hashlib.sha256(key.encode()).hexdigest() + self._suffix

    def get(self, key: str) -> bytes | None:
        """What `put` kept under `key`; None if it kept nothing, or something else lies in its place."""
        name = self.name(key)
        try:
            written = self._written(name)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._refuse(error)
            return None
        if written is None:
            return None
        content = written[_HEAD_NBYTES:]
        if written[:_HEAD_NBYTES] != _head(name, content):
            _logger().info("%s in %s is damaged and is ignored", name, self._folder)
            return None
        return content

    def _written(self, name: str) -> bytes | None:
        """The content of an entry's file, which is used now; None if there is none that can be trusted."""
        above = _open(self._above, checked=self._checked)
        try:
            folder = _open(self._folder, above)
        finally:
            os.close(above)
        try:
            written = _read(folder, name)
            if written is not None:
                os.utime(name, dir_fd=folder, follow_symlinks=False)
            return written
        finally:
            os.close(folder)

    def put(self, key: str, content: bytes, most_nbytes: int) -> None:
        """Keep `content`. If all entries take more than `most_nbytes`, those unused for longest go.

        Looking at all of them takes longer than writing one: that is done at the process's first entry, and again
        whenever it has written a sixteenth of the limit.
        """
        name = self.name(key)
        try:
            private_folder(self._above)
            private_folder(self._folder)
            with _opened(self._folder) as folder:
                _write(folder, name, _head(name, content) + content)
                self._trim_at_times(folder, len(content), most_nbytes)
        except OSError as error:
            self._refuse(error)

    def _trim_at_times(self, folder: int, nbytes: int, most_nbytes: int) -> None:
        if self._untrimmed is None or self._untrimmed + nbytes > most_nbytes // 16:
            self._trim(folder, most_nbytes)
            self._untrimmed = 0
        else:
            self._untrimmed += nbytes

    def _trim(self, folder: int, most_nbytes: int) -> None:
        found = []
        for name in os.listdir(folder):
            if name.endswith(".part"):
                self._drop_abandoned(folder, name)
            elif name.endswith(self._suffix):
                with contextlib.suppress(FileNotFoundError):  # another process is trimming as well
                    state = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    found.append((state.st_mtime, state.st_size, name))
        total = sum(size for _, size, _ in found)
        for _, size, name in sorted(found):
            if total <= most_nbytes:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            total -= size

    @staticmethod
    def _drop_abandoned(folder: int, name: str) -> None:
        """Remove what a killed process did not finish writing."""
        with contextlib.suppress(FileNotFoundError):
            state = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(state.st_mode) and time.time() - state.st_mtime > _ABANDONED_SECONDS:
                os.unlink(name, dir_fd=folder)

    def _refuse(self, error: OSError) -> None:
        if not self._refused:
            self._refused = True
            logger = _logger()
            tell = logger.warning if isinstance(error, Untrusted) else logger.info
            tell("nothing is cached in %s: %s", self._folder, error)


def _logger() -> logging.Logger:
    import logging  # hardly ever needed, and loading it takes longer than everything else here

    return logging.getLogger("vdev.files")


def _head(name: str, content: bytes) -> bytes:
    """What an entry's file begins with: the hash also covers its name, so that one entry cannot stand for another."""
    found = hashlib.sha256(name.encode() + b"\0")
    found.update(content)
    return _HEADER + found.digest()
