"""Words of a program's text for C++: address spaces, reserved names, attributes, overloaded functions, typeof.

Handles what is determined by words and their places alone, and keeps the record of what has been edited. Words and
not nodes, because a reserved word must be renamed wherever it occurs (as a label, a tag, a member, a designator), and
libclang does not show all of these. Never looks into expressions.
"""

from __future__ import annotations

import re

from ...frontend.edits import Edits, Functions, after_blanks, matching, parentheses_after
from ...frontend.kernels import Untranslatable
from ...frontend.source import ParsedProgram
from . import tables as cuda_dialect

_ATTRIBUTE = re.compile(rb"__attribute(?:__)?\b")
_NAME = re.compile(rb"[A-Za-z_]\w*")


class Words:
    """Edits of one program (the text of its sub-grid translation): words, and what all editing needs."""

    def __init__(self, program: ParsedProgram, functions: Functions, edits: Edits, prefix: str) -> None:
        self.program = program
        self.functions = functions
        self.text = functions.text
        self.edits = edits
        self.prefix = prefix  # of our own names
        self.known = cuda_dialect.known_functions()
        #: Bytes whose text is replaced: nothing else may be edited there.
        self._done: set[int] = set()
        #: Where expressions in parentheses begin.
        self._parentheses: set[int] = set()

    def words(self, c_version: int) -> None:
        """Everything that words alone determine."""
        self._attributes()  # before names: CUDA has macros with the names of some
        self._names(c_version)
        for offset in self.functions.offsets("__label__"):  # C++ has labels of functions only
            self._replace(offset, self.text.find(b";", offset), "")
        for name in ("__typeof__", "__typeof"):
            for offset in self.functions.offsets(name):
                if not self._is_done(offset):
                    self._typeof(offset, len(name))

    def _names(self, c_version: int) -> None:
        table = {**cuda_dialect.WORDS, **cuda_dialect.GNU_FUNCTIONS}
        if c_version >= 200:
            table["generic"] = ""
        for name in self.functions.identifiers():
            offsets = self.functions.offsets(name)
            if name in cuda_dialect.REFUSED:
                raise Untranslatable(f"{name} is not translated to CUDA", self.functions.line_at(offsets[0]))
            replacement = table.get(name)
            if replacement is None and name in cuda_dialect.RESERVED:
                replacement = self.word(name)
            if replacement is not None:
                for offset in offsets:
                    self._replace(offset, offset + len(name), replacement)

    def _attributes(self) -> None:
        behind = self._behind_members()
        for name in ("__attribute__", "__attribute"):
            for offset in self.functions.offsets(name):
                self._attribute(offset, len(name), behind.get(offset))

    def overloads(self) -> dict[int, str]:
        """Own names for functions that share theirs, with each other or with one of ours: the address spaces that
        told them apart are gone. Returns the new names by the functions' keys.
        """
        renamed: dict[int, str] = {}
        keys: dict[str, set[int]] = {}
        for cursor in self.program.functions():
            keys.setdefault(cursor.spelling, set()).add(self.functions.key(cursor))
        for name, found in keys.items():
            if len(found) < 2 and name not in self.known:
                continue
            numbers = {key: number for number, key in enumerate(sorted(found))}
            renamed.update((key, f"{self.prefix}{number}_{name}") for key, number in numbers.items())
            for use in self.functions.uses(name):
                if use.target is not None:
                    self._replace(use.offset, use.offset + len(name), renamed[use.target])
        return renamed

    def _behind_members(self) -> dict[int, int]:
        """Attributes that follow the members of a structure, by where they begin, and where its keyword ends.

        NVRTC takes them in either place but heeds them only behind the keyword.
        """
        found: dict[int, int] = {}
        for keyword in ("struct", "union", "enum"):
            for offset in self.functions.offsets(keyword):
                at = self._past_attributes(offset + len(keyword))[0]
                if name := _NAME.match(self.text, at):
                    at = self._past_attributes(name.end())[0]
                if self.text[at : at + 1] == b"{":
                    for start in self._past_attributes(matching(self.text, at) + 1)[1]:
                        found[start] = offset + len(keyword)
        return found

    def _past_attributes(self, offset: int) -> tuple[int, list[int]]:
        """The position after white space and attributes, and where those attributes begin."""
        found: list[int] = []
        at = after_blanks(self.text, offset)
        while attribute := _ATTRIBUTE.match(self.text, at):
            found.append(at)
            at = after_blanks(self.text, parentheses_after(self.text, attribute.end()).closing + 1)
        return at, found

    def _attribute(self, offset: int, length: int, keyword_stop: int | None) -> None:
        """Keep the part of an attribute that CUDA knows; `keyword_stop`: as `_behind_members` says."""
        if self._is_done(offset):
            return
        place = parentheses_after(self.text, offset + length)
        inside = self.text[place.opening + 1 : place.closing].decode().strip()[1:-1]
        kept = [text for entry in _top_level_parts(inside) if (text := self._known_attribute(entry))]
        text = f"__attribute__(({', '.join(kept)}))" if kept else ""
        if match := re.fullmatch(r"\s*(?:__)?opencl_unroll_hint(?:__)?\s*(?:\(\s*(\d+)\s*\))?\s*", inside):
            text = f'_Pragma("unroll{" " + match.group(1) if match.group(1) else ""}")'
        if keyword_stop is not None and kept:
            self.edits.insert(keyword_stop, f" {text} ")
            text = ""
        self.blank(offset, place.closing + 1, text)

    def _known_attribute(self, entry: str) -> str:
        """An attribute that CUDA knows, without the underscores around its name and on one line; empty for others."""
        name, opening, arguments = entry.partition("(")
        name = name.strip().strip("_")
        if name not in cuda_dialect.ATTRIBUTES:
            return ""
        return name + " ".join((opening + self.renamed(arguments)).split())

    def _typeof(self, offset: int, length: int) -> None:
        place = parentheses_after(self.text, offset + length)
        # of an expression: in parentheses decltype makes it a reference
        if place.opening in self._parentheses:
            self._replace(offset, offset + length, "::vdev_cl::referred_t<decltype(")
            self.edits.insert(place.closing + 1, ")>")
            return
        inside = self.text[place.opening + 1 : place.closing].decode()
        if not re.fullmatch(r"[\w\s]+[\s*]*", inside):
            raise Untranslatable(
                "typeof of an expression that would have to be evaluated", self.functions.line_at(offset)
            )
        self._replace(offset, offset + length, "::vdev_cl::identity")
        self.edits.replace(place.opening, place.opening + 1, "<")
        self.edits.replace(place.closing, place.closing + 1, ">")

    def _replace(self, start: int, stop: int, text: str) -> None:
        if not self._is_done(start):
            self._done.add(start)
            self.edits.replace(start, stop, self._on_its_lines(start, stop, text))

    def _is_done(self, offset: int) -> bool:
        return offset in self._done

    def word(self, name: str) -> str:
        """A name of the program's in a form that C++ allows."""
        return f"{self.prefix}user_{name}" if name in cuda_dialect.RESERVED else name

    def renamed(self, text: str) -> str:
        """A piece of the program's text with its names in such a form."""
        return re.sub(r"[A-Za-z_]\w*", lambda found: self.word(found.group()), text)

    def blank(self, start: int, stop: int, text: str) -> None:
        """Replace all of a range, including the words in it."""
        self._done.update(range(start, stop))
        self.edits.replace(start, stop, self._on_its_lines(start, stop, text))

    def _on_its_lines(self, start: int, stop: int, text: str) -> str:
        """`text` with as many line ends as what it replaces, so that what follows stays on the user's line."""
        replaced = self.text[start:stop]
        if b"\n#" in replaced:
            return f"{text}\n#line {self.functions.line_at(stop)}\n"
        return text + "\n" * (replaced.count(b"\n") - text.count("\n"))


def _top_level_parts(text: str) -> list[str]:
    """`text` cut at the commas outside all parentheses.

    >>> _top_level_parts("packed, aligned(max(2, 4))")
    ['packed', ' aligned(max(2, 4))']
    """
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]
