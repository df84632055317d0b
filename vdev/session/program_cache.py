"""What is kept of programs between processes: translations and summaries, so that a second run reads no source.

Decides under which key they are kept and when they are still valid. A key covers the source, its options, what the
program may count on, which compilers the workers have, and every part of vdev that was involved, by content; the
files that were looked for to be included are compared on every use, found or not. `private_files` decides whether a
file of the cache folder can be trusted. Everything is written as JSON, member by member: what is read can never be
more than data.

What is noted about kernels while they are launched is written later, on a thread of its own or at the process's end: to replace a file
may take some milliseconds, for which no launch should wait.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

import vdev
from vdev import translators
from vdev.process import folders, switches
from vdev.process.ending import at_end
from vdev.process.forking import in_child
from vdev.process.private_files import Store
from vdev.session.translation import Translation
from vdev.translators.dialects.subgrid_kernel import SubgridKernel
from vdev.translators.frontend.kernels import ArgInfo, ArgKind, KernelInfo
from vdev.translators.interpreter.plain import plain_summary, summary_of_plain
from vdev.translators.interpreter.summaries import KernelSummary, Reason

if TYPE_CHECKING:
    from vdev.session.translation import Reading

__all__ = ["CACHE_NBYTES", "CachedProgram", "cached_program", "own_content", "write_notes"]

logger = logging.getLogger("vdev.session.program_cache")

T = TypeVar("T")

#: Bytes of translations and summaries kept; the ones unused for longest go first.
CACHE_NBYTES = 64 << 20
#: Kernels whose notes are in one file, about: it is written anew with each of them.
_SHARE = 16
#: Seconds until notes are written: most are made while a program's first launches wait.
_SOON = 0.5
#: Words in a text whose meaning changes from day to day.
_OF_TODAY = re.compile(r"__(?:DATE|TIME|TIMESTAMP)__")
#: Options that make clang look for files in further folders.
_CLANGS_FOLDERS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH")
#: What unexpected plain values raise.
_NOT_OURS = (ValueError, KeyError, TypeError, IndexError, AttributeError)
#: Modules of vdev, besides the translators, that produce what is kept.
_MAKERS = ("capabilities.py", "program_cache.py", "programs.py", "translation.py")


def cached_program(reading: Reading, compilers: Sequence[object]) -> CachedProgram | None:
    """What is kept, or may be, of a source; None if nothing may be. `compilers`: identifies the workers' compilers."""
    if not switches.cache() or _OF_TODAY.search(reading.source):
        return None
    folder = folders.cache_dir()
    content = own_content(folder)
    if content is None:
        return None
    target = sorted((name, repr(value)) for name, value in reading.target.items())
    given = [os.environ.get(name) for name in _CLANGS_FOLDERS]
    key = json.dumps(
        [content, target, list(compilers), given, reading.native_images, reading.options, reading.source]
    )
    return CachedProgram(_store(folder), key)


class CachedProgram:
    """The entries of one program. Any thread may use them."""

    def __init__(self, store: Store, key: str) -> None:
        #: identifies the source and everything that was included, once its translation is known: what is made from it
        #: is valid for as long; empty before, and where that cannot be told
        self.content = ""
        self._key = _hash(key)
        self._store = store
        self._lock = threading.Lock()  #: for what is noted
        self._shares = 1  #: into how many entries the notes of the kernels are divided
        self._notes: dict[
            str, dict[str, str]
        ] = {}  #: by entry, once it has been read: what is noted, as JSON

    def translation(self) -> Translation | None:
        """The translation that was kept, if it is still valid."""
        plain = self._get(f"{self._key} translation")
        if plain is None:
            return None
        try:
            if any(_stamp(path) != stamp for path, stamp in plain["sought"]):
                return None
            found = _translation_of_plain(plain)
            self._is_of(found, plain["sought"])
            return found
        except _NOT_OURS as error:
            logger.info("the cached translation of a program is not valid: %r", error)
            return None

    def keep_translation(self, translation: Translation) -> None:
        """Keep it, if it can be told what it comes from."""
        if translation.sought is None or _OF_TODAY.search(translation.source):
            return
        stamps = [[path, _stamp(path)] for path in sorted(translation.sought)]
        self._put(f"{self._key} translation", _plain_translation(translation) | {"sought": stamps})
        self._is_of(translation, stamps)

    def summary(self, kernel: str) -> KernelSummary | None:
        """The summary that was kept for a translation that is still valid."""
        return self.noted(kernel, "summary", summary_of_plain)

    def has_summary(self, kernel: str) -> bool:
        """Whether a summary was kept; it may turn out not to be valid."""
        return self.noted(kernel, "summary", lambda _: True) is not None

    def keep_summary(self, summary: KernelSummary) -> None:
        self.note(summary.name, "summary", plain_summary(summary))

    def noted(self, kernel: str, what: str, of_plain: Callable[[Any], T]) -> T | None:
        """What was noted about a kernel of the translated program; `of_plain` reads it. Kernels share the file that this comes from, which
        is read once: later notes of other processes are not seen.
        """
        if not self.content:
            return None
        name, noted = self._file_of(kernel), f"{kernel} {what}"
        text = _unwritten.of(self._store, name).get(noted)
        if text is None:
            with self._lock:
                text = self._known(name).get(noted)
        try:
            return None if text is None else of_plain(json.loads(text))
        except _NOT_OURS as error:
            logger.info("the cached %s of kernel %s is not valid: %r", what, kernel, error)
            return None

    def note(self, kernel: str, what: str, plain: Mapping[str, Any]) -> None:
        """Keep it, if it can be told how long it is valid; it is written soon (`write_notes`). Of two processes that do so at the same
        time, one may lose its note.
        """
        if not self.content:
            return
        name, noted, text = self._file_of(kernel), f"{kernel} {what}", json.dumps(plain)
        with self._lock:
            self._known(name)[noted] = text
        _unwritten.add(self._store, name, noted, text)

    def made(self, what: str, of_plain: Callable[[Any], T]) -> T | None:
        """What was made from the translated program and kept by itself; `of_plain` reads it."""
        plain = self._get(f"{self.content} {what}") if self.content else None
        try:
            return None if plain is None else of_plain(plain)
        except _NOT_OURS as error:
            logger.info("the cached %s is not valid: %r", what, error)
            return None

    def keep_made(self, what: str, plain: Mapping[str, Any]) -> None:
        """Keep it, if it can be told how long it is valid."""
        if self.content:
            self._put(f"{self.content} {what}", plain)

    def _is_of(self, translation: Translation, stamps: Sequence[Sequence[str | None]]) -> None:
        self._shares = -(-len(translation.kernels) // _SHARE) or 1
        self.content = _hash(json.dumps([self._key, stamps]))

    def _file_of(self, kernel: str) -> str:
        """The entry with a kernel's notes."""
        return f"{self.content} notes {crc32(kernel.encode()) % self._shares}"

    def _known(self, name: str) -> dict[str, str]:
        """The notes of an entry as they were when it was read, and those made since by this program. Under its lock."""
        notes = self._notes.get(name)
        if notes is None:
            # Looked at before the file, in which they are as soon as they are no longer there.
            unwritten = _unwritten.of(self._store, name)
            notes = self._notes[name] = _kept_notes(self._store, name) | unwritten
        return notes

    def _get(self, name: str) -> Any:
        return _read(self._store, name)

    def _put(self, name: str, plain: Mapping[str, Any]) -> None:
        _write(self._store, name, plain)


def _read(store: Store, name: str) -> Any:
    content = store.get(name)
    try:
        return None if content is None else json.loads(content)
    except ValueError:
        return None


def _write(store: Store, name: str, plain: Mapping[str, Any]) -> None:
    store.put(name, json.dumps(plain).encode(), CACHE_NBYTES)


def _kept_notes(store: Store, name: str) -> dict[str, str]:
    """The notes in an entry."""
    kept = _read(store, name)
    if not isinstance(kept, dict):
        return {}
    return {noted: text for noted, text in kept.items() if isinstance(text, str)}


class _Unwritten:
    """Notes of this process that are in no file yet. Any thread may use it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a forked child: they are the parent's, and so are locks and thread."""
        self._lock = threading.Lock()  #: for what follows; held for no more than a look
        self._writing = threading.Lock()  #: one writes at a time
        #: by entry: what is noted, as JSON
        self._notes: dict[tuple[Store, str], dict[str, str]] = {}
        self._waits = False  #: whether a thread waits to write
        self._at_end = False  #: whether what is left will be written at the process's end

    def of(self, store: Store, name: str) -> dict[str, str]:
        """Those for an entry."""
        with self._lock:
            return dict(self._notes.get((store, name), ()))

    def add(self, store: Store, name: str, noted: str, text: str) -> None:
        """One more, written soon."""
        with self._lock:
            self._notes.setdefault((store, name), {})[noted] = text
            if not self._at_end:
                self._at_end = True
                at_end(self.write)
            waits, self._waits = self._waits, True
        if not waits:
            threading.Thread(target=self._write_later, name="vdev-notes", daemon=True).start()

    def _write_later(self) -> None:
        time.sleep(_SOON)
        with self._lock:
            self._waits = False
        self.write()

    def write(self) -> None:
        """Write all of them. They are found here until they are found in their files."""
        with self._writing:
            with self._lock:
                entries = {entry: dict(notes) for entry, notes in self._notes.items()}
            for (store, name), notes in entries.items():
                _write(store, name, _kept_notes(store, name) | notes)
                with self._lock:
                    left = self._notes.pop((store, name))
                    left = {noted: text for noted, text in left.items() if notes.get(noted) != text}
                    if left:
                        self._notes[store, name] = left


_unwritten = _Unwritten()
in_child(_unwritten.forget)


def write_notes() -> None:
    """Write what has been noted about kernels so far. Nobody has to call it: it is done soon, and at the process's end."""
    _unwritten.write()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


@functools.cache
def _store(folder: Path) -> Store:
    return Store(folder / "programs", ".json")


def _stamp(path: str) -> str | None:
    """The content of a file, as a hash; None if there is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


# vdev's own part ------------------------------------------------------------------------------------


@functools.cache
def own_content(folder: Path) -> str | None:
    """A hash of everything that produces what is kept: vdev's version, the translators' files and libclang; None if
    it cannot be told.

    It is of the files as they are: reading them all takes longer than checking when each was last written, which is
    kept with the hash.
    """
    try:
        files = [
            *_files(Path(translators.__path__[0])),
            *(Path(__file__).with_name(name) for name in _MAKERS),
        ]
        states = [
            (str(path), status.st_size, status.st_mtime_ns) for path in files for status in [path.stat()]
        ]
        written = json.dumps([vdev.__version__, states, _libclang()])
        store = _store(folder)
        known = store.get(f"own content {written}")
        if known is not None:
            return known.decode()
        found = hashlib.sha256(json.dumps([vdev.__version__, _libclang()]).encode())
        for path in files:
            found.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
        content = found.hexdigest()
        store.put(f"own content {written}", content.encode(), CACHE_NBYTES)
        return content
    except OSError as error:
        logger.info("programs are not cached: %s", error)
        return None


def _files(folder: Path) -> list[Path]:
    """The files of a package that are read or executed, in order."""
    found: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                found += _files(Path(entry.path))
            elif entry.name.endswith((".py", ".h", ".cl")):
                found.append(Path(entry.path))
    return sorted(found)


def _libclang() -> list[object]:
    """Which parser there is: its file, its size and when it was written."""
    spec = PathFinder.find_spec("clang")
    for folder in (spec and spec.submodule_search_locations) or ():
        library = Path(folder, "native", "libclang.so")
        if library.exists():
            status = library.stat()
            return [str(library), status.st_size, status.st_mtime_ns]
    return [os.environ.get("LD_LIBRARY_PATH")]


# plain values ---------------------------------------------------------------------------------------


def _plain_translation(translation: Translation) -> dict[str, Any]:
    declared = translation.declared
    alike = declared == translation.kernels  # as in all programs without images
    return {
        "source": translation.source,
        "options": translation.options,
        "log": translation.log,
        "refusal": translation.refusal,
        "reasons": [[reason.text, reason.line] for reason in translation.reasons],
        "declared": None if declared is None else [_plain_kernel(info) for info in declared.values()],
        "kernels": None if alike else [_plain_kernel(info) for info in translation.kernels.values()],
        "images": dict(translation.images),
        "subgrid": [
            [each.name, each.hidden_index, each.pointer_args] for each in translation.subgrid.values()
        ],
        "native_images": {name: list(pairs) for name, pairs in translation.native_images.items()},
        "blind": sorted(translation.blind),
        "answers": translation.answers,
    }


def _translation_of_plain(plain: Mapping[str, Any]) -> Translation:
    declared = None if plain["declared"] is None else _kernels(plain["declared"])
    kernels = declared if plain["kernels"] is None else _kernels(plain["kernels"])
    return Translation(
        source=plain["source"],
        options=tuple(plain["options"]),
        log=plain["log"],
        refusal=plain["refusal"],
        reasons=tuple(Reason(*reason) for reason in plain["reasons"]),
        declared=declared,
        kernels=kernels or {},
        images={name: tuple(numbers) for name, numbers in plain["images"].items()},
        subgrid={
            name: SubgridKernel(name, hidden, tuple(pointers)) for name, hidden, pointers in plain["subgrid"]
        },
        native_images={
            name: tuple((pixels, descriptor) for pixels, descriptor in pairs)
            for name, pairs in plain["native_images"].items()
        },
        blind=frozenset(plain["blind"]),
        answers=tuple((question, answer) for question, answer in plain["answers"]),
    )


def _plain_kernel(info: KernelInfo) -> list[Any]:
    args = [
        [
            arg.name,
            arg.type_name,
            arg.kind.value,
            arg.address_qualifier,
            arg.access_qualifier,
            arg.type_qualifiers,
            arg.nbytes,
            arg.scalar,
            arg.pointee_const,
        ]
        for arg in info.args
    ]
    sizes = info.reqd_work_group_size, info.work_group_size_hint
    return [info.name, args, info.line, *sizes, info.vec_type_hint, info.attributes]


def _kernels(rows: Sequence[Sequence[Any]]) -> dict[str, KernelInfo]:
    found = {}
    for name, args, line, required, hint, vec_type_hint, attributes in rows:
        found[name] = KernelInfo(
            name,
            tuple(
                ArgInfo(arg[0], arg[1], ArgKind(arg[2]), arg[3], arg[4], tuple(arg[5]), *arg[6:])
                for arg in args
            ),
            line,
            _sizes(required),
            _sizes(hint),
            vec_type_hint,
            attributes,
        )
    return found


def _sizes(numbers: Sequence[int] | None) -> tuple[int, int, int] | None:
    return None if numbers is None else (numbers[0], numbers[1], numbers[2])
