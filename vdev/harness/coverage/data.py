"""What was counted, by file: in memory, in one file for each process, and merged.

Decides when two counts belong to the same thing: the same place in the same file with the same text. So a program
that is built with several sets of options has the lines of all builds.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import uuid
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import Any

from vdev.translators.values import dataclass

#: Where processes leave their counts, in the folder in which they were started.
FOLDER = ".opencl-coverage"
_VERSION = 1


@dataclass
class Statement:
    """`hits`: launches in which it ran."""

    stop: int  #: last line
    hits: int = 0


@dataclass
class Condition:
    """The possible outcomes of a condition, and in how many launches each occurred."""

    text: str
    outcomes: dict[str, int]


@dataclass
class FileCount:
    """One file. `text` is empty if nobody has it.

    `spans`: first and last lines of the programs in it, unless it is OpenCL C throughout. A key is a line, from 1,
    and an index among the things on that line, from 0.
    """

    name: str
    text: str
    spans: set[tuple[int, int]] = field(default_factory=set)
    statements: dict[tuple[int, int], Statement] = field(default_factory=dict)
    conditions: dict[tuple[int, int, str], Condition] = field(default_factory=dict)
    functions: dict[tuple[int, str, bool], int] = field(default_factory=dict)  #: line, name, whether a kernel

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def add_statement(self, key: tuple[int, int], stop: int, hits: int) -> None:
        found = self.statements.setdefault(key, Statement(stop))
        found.stop = max(found.stop, stop)
        found.hits += hits

    def add_outcome(self, key: tuple[int, int, str], text: str, outcome: str, hits: int) -> None:
        outcomes = self.conditions.setdefault(key, Condition(text, {})).outcomes
        outcomes[outcome] = outcomes.get(outcome, 0) + hits

    def add_function(self, key: tuple[int, str, bool], hits: int) -> None:
        self.functions[key] = self.functions.get(key, 0) + hits

    def merge(self, other: FileCount) -> None:
        """Add another process's count of the same text."""
        self.spans |= other.spans
        for statement_key, statement in other.statements.items():
            self.add_statement(statement_key, statement.stop, statement.hits)
        for key, condition in other.conditions.items():
            for outcome, hits in condition.outcomes.items():
                self.add_outcome(key, condition.text, outcome, hits)
        for function_key, hits in other.functions.items():
            self.add_function(function_key, hits)


class Data:
    """All files. `notes`: (file, line, what is not counted and why); line 0 stands for the whole file."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], FileCount] = {}
        self.notes: set[tuple[str, int, str]] = set()
        self.nlaunches = 0

    def file(self, name: str, text: str) -> FileCount:
        """The count of a file of that name and text."""
        new = FileCount(name, text)
        return self.files.setdefault((name, new.digest), new)

    def merge(self, other: Data) -> None:
        for key, count in other.files.items():
            self.files.setdefault(key, FileCount(count.name, count.text)).merge(count)
        self.notes |= other.notes
        self.nlaunches += other.nlaunches

    def latest(self, root: Path) -> list[FileCount]:
        """One count for each file name, in order: for the text that the file has now, if it was edited between runs."""
        found: dict[str, FileCount] = {}
        for (name, _), count in self.files.items():
            if name not in found or _is_current(root / name, count.text):
                found[name] = count
        return [found[name] for name in sorted(found)]


def _is_current(path: Path, text: str) -> bool:
    try:
        return path.read_text("utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


# files of processes ---------------------------------------------------------------------------------


def erase(folder: Path) -> None:
    """Forget what earlier runs counted."""
    for path in folder.glob("*.json"):
        path.unlink(missing_ok=True)


def save(data: Data, folder: Path) -> None:
    """A file of this process's own; readers never see half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", "utf-8")
    name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    written = folder / f"{name}.part"
    written.write_text(json.dumps(_as_json(data)), "utf-8")
    written.rename(folder / f"{name}.json")


def load(folder: Path) -> Data:
    """Load what all processes have left. ValueError for a file that none of them wrote, naming it."""
    data = Data()
    for path in sorted(folder.glob("*.json")):
        try:
            data.merge(_from_json(json.loads(path.read_text("utf-8"))))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not coverage data of this version: {error}") from error
    return data


def _as_json(data: Data) -> dict[str, Any]:
    files = [
        {
            "name": count.name,
            "text": count.text,
            "spans": sorted(count.spans),
            "statements": [[*key, found.stop, found.hits] for key, found in count.statements.items()],
            "conditions": [
                [*key, found.text, list(found.outcomes.items())] for key, found in count.conditions.items()
            ],
            "functions": [[*key, hits] for key, hits in count.functions.items()],
        }
        for count in data.files.values()
    ]
    return {"version": _VERSION, "files": files, "notes": sorted(data.notes), "launches": data.nlaunches}


def _from_json(content: dict[str, Any]) -> Data:
    if content["version"] != _VERSION:
        raise ValueError(f"version {content['version']}")
    data = Data()
    data.nlaunches = content["launches"]
    data.notes = {(file, line, what) for file, line, what in content["notes"]}
    for each in content["files"]:
        _read_file(data.file(each["name"], each["text"]), each)
    return data


def _read_file(count: FileCount, content: dict[str, Any]) -> None:
    count.spans |= _pairs(content["spans"])
    for line, ordinal, stop, hits in content["statements"]:
        count.add_statement((line, ordinal), stop, hits)
    for line, ordinal, kind, text, outcomes in content["conditions"]:
        for outcome, hits in outcomes:
            count.add_outcome((line, ordinal, kind), text, outcome, hits)
    for line, name, kernel, hits in content["functions"]:
        count.add_function((line, name, kernel), hits)


def _pairs(items: Iterable[list[int]]) -> set[tuple[int, int]]:
    return {(start, stop) for start, stop in items}
