"""Separate compilation: clCompileProgram and clLinkProgram on source text.

A compiled object is the preprocessed source of a program. Linking joins such texts into one translation unit,
in which a declaration that several of them have from a common header stands once. Names that C keeps within a
source (static functions and variables, types, enumerators) are replaced if they mean different things in
two of the sources (C99 6.2.2). It never decides whether the joined text is valid: that is for the compiler. The binary of an object is
the object itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from vdev.translators.values import dataclass


class LinkFailure(Exception):
    """A source that does not compile; `log` has clang's messages."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


@dataclass(frozen=True)
class Declaration:
    """One top-level declaration of a source.

    `private`: names that it declares and no other source can mean, `public` the others; `uses`: where its text has
    private names of its source, in ascending order.
    """

    text: str
    private: frozenset[str] = frozenset()
    public: frozenset[str] = frozenset()
    uses: tuple[tuple[int, str], ...] = ()

    def renamed(self, names: Mapping[str, str]) -> Declaration:
        """The declaration with other private names.

        >>> Declaration("int f(t x);", uses=((6, "t"),)).renamed({"t": "t_1"}).text
        'int f(t_1 x);'
        """
        pieces, uses, end, shift = [], [], 0, 0
        for start, name in self.uses:
            new = names.get(name, name)
            pieces += [self.text[end:start], new]
            uses.append((start + shift, new))
            end = start + len(name)
            shift += len(new) - len(name)
        text = "".join([*pieces, self.text[end:]])
        private = frozenset(names.get(name, name) for name in self.private)
        return Declaration(text, private, self.public, tuple(uses))

    @property
    def normal(self) -> str:
        """The tokens without line markers, for comparison."""
        lines = [line for line in self.text.splitlines() if not line.lstrip().startswith("#")]
        return " ".join(_TOKEN.findall("\n".join(lines)))


@dataclass(frozen=True)
class CompiledObject:
    """A source without macros and includes: top-level declarations, and the options a build still needs."""

    declarations: tuple[Declaration, ...]
    options: tuple[str, ...]
    log: str

    @property
    def source(self) -> str:
        return "\n".join(declaration.text for declaration in self.declarations)


_TAG = b"vdev object 1\n"
#: CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT and CL_PROGRAM_BINARY_TYPE_LIBRARY
_TYPES = (1, 2)


def pack_object(compiled: CompiledObject, binary_type: int) -> bytes:
    """The object in a form that `load_object` takes back; `binary_type`: CL_PROGRAM_BINARY_TYPE."""
    from vdev.session.programs import pack_binary

    declarations = [
        (each.text, sorted(each.private), sorted(each.public), each.uses) for each in compiled.declarations
    ]
    content: dict[str, object] = {
        "type": binary_type, "options": compiled.options, "declarations": declarations,
    }  # fmt: skip
    return pack_binary(_TAG, content)


def load_object(binary: bytes) -> tuple[CompiledObject, int] | None:
    """The object and its binary type; None for a binary of another kind. ValueError if it is damaged."""
    from vdev.session.programs import unpack_binary

    if not binary.startswith(_TAG):
        return None
    content = unpack_binary(_TAG, binary)
    try:
        declarations = tuple(
            Declaration(text, frozenset(private), frozenset(public), tuple((at, name) for at, name in uses))
            for text, private, public, uses in content["declarations"]
        )
        found, binary_type = CompiledObject(declarations, tuple(content["options"]), ""), content["type"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"a binary that is no compiled program: {error!r}") from error
    if binary_type not in _TYPES or not _has_right_types(found):
        raise ValueError("a binary that is no compiled program")
    return found, int(binary_type)


def _has_right_types(compiled: CompiledObject) -> bool:
    words = [*compiled.options]
    for each in compiled.declarations:
        words += [each.text, *each.private, *each.public, *(name for _, name in each.uses)]
        if not all(type(at) is int for at, _ in each.uses):
            return False
    return all(isinstance(word, str) for word in words)


def compile_object(
    source: str, options: Sequence[str], headers: Mapping[str, str], workers: Sequence[Any]
) -> CompiledObject:
    """Parse `source` with `headers` (name: text) in reach of its includes; LinkFailure where that fails."""
    import tempfile  # most programs link nothing

    # loads sympy and libclang: only programs that compile separately pay for that
    from vdev.session.programs import common_target, without_preprocessor_options
    from vdev.translators.frontend.options import quote_option
    from vdev.translators.frontend.source import CompileError, parse_program

    with tempfile.TemporaryDirectory(prefix="vdev-headers-") as folder:
        for name, text in headers.items():
            path = Path(folder, name)
            if Path(folder) not in path.resolve().parents:
                raise LinkFailure(f"error: header name '{name}' leads out of the include folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        try:
            parsed = parse_program(
                source, ["-I", quote_option(folder), *options], target=common_target(workers)
            )
        except CompileError as error:
            raise LinkFailure(error.log) from None
        declarations = top_level_declarations(parsed)
    return CompiledObject(tuple(declarations), tuple(without_preprocessor_options(options)), parsed.log)


def top_level_declarations(parsed: Any) -> list[Declaration]:
    """Every top-level declaration of a parsed program, in order, each with the directives before it."""
    text = parsed.preprocessed
    names = _Names(parsed, text)
    found, start = [], 0
    for piece in split_declarations(text, names.function_ends):
        start = text.index(piece, start)
        stop = start + len(piece)
        for spans in names.parts(start, stop):
            found.append(names.declaration(spans))
        start = stop
    return found


class _Names:
    """What a parsed program declares at its top level, and where it uses what is private to it."""

    def __init__(self, parsed: Any, text: str) -> None:
        self._text = text
        self._data = None if text.isascii() else text.encode()
        #: where function bodies end, as positions after the brace
        self.function_ends: set[int] = set()
        #: (position, name, whether it is private)
        self.declared: list[tuple[int, str, bool]] = []
        #: (position, private name)
        self.uses: list[tuple[int, str]] = []
        #: where named types are defined: (start, stop, position of the name)
        self.types: list[tuple[int, int, int]] = []
        private: set[str] = set()
        top = list(parsed.tu.cursor.get_children())
        for cursor in top:
            if cursor.kind.name == "FUNCTION_DECL" and cursor.is_definition():
                self.function_ends.add(self._position(cursor.extent.end.offset))
            elif cursor.kind.name in _TYPE_KINDS and cursor.is_definition():
                self._note_type(cursor)
            for each in (cursor, *(cursor.get_children() if cursor.kind.name == "ENUM_DECL" else ())):
                self._declare(each, private)
        if private:
            for cursor in top:
                self._look_for_uses(cursor, private)

    def _position(self, offset: int) -> int:
        """The character at that position: clang counts bytes."""
        return offset if self._data is None else len(self._data[:offset].decode())

    def _named_at(self, cursor: Any, name: str) -> int | None:
        """Where the text has `name` for `cursor`; None if it has something else there."""
        if not name or cursor.location.file is None:
            return None
        at = self._position(cursor.location.offset)
        return at if re.compile(rf"{re.escape(name)}\b").match(self._text, at) else None

    def _declare(self, cursor: Any, private: set[str]) -> None:
        at = self._named_at(cursor, cursor.spelling)
        if at is None:
            return
        kind = cursor.kind.name
        is_private = kind in _PRIVATE_KINDS or (
            kind in ("FUNCTION_DECL", "VAR_DECL") and cursor.linkage.name == "INTERNAL"
        )
        self.declared.append((at, cursor.spelling, is_private))
        if is_private:
            private.add(cursor.canonical.get_usr())
            self.uses.append((at, cursor.spelling))

    def _note_type(self, cursor: Any) -> None:
        at = self._named_at(cursor, cursor.spelling)
        start, stop = (self._position(end.offset) for end in (cursor.extent.start, cursor.extent.end))
        if at is not None and start < at < stop:
            self.types.append((start, stop, at))

    def parts(self, start: int, stop: int) -> Iterator[tuple[_Span, ...]]:
        """The declarations from `start` to `stop`, each as spans of text. One that defines a type and declares something of that type
        is two: another source may name the type by itself, or declare the same thing of it.
        """
        for begin, end, at in self.types:
            if not start <= begin < end < stop or not self._declares_more(end, stop):
                continue
            directives = max(
                (match.end() for match in _DIRECTIVE.finditer(self._text, start, begin)), default=start
            )
            if _DIRECTIVE.sub("", self._text[start:directives]).strip():
                break
            keyword = _KEYWORD.match(self._text, begin)
            name = _NAME.match(self._text, at)
            if keyword is None or name is None:
                break
            yield (start, directives, ""), (begin, end, ";")
            yield (directives, begin, ""), (*keyword.span(), " "), (*name.span(), ""), (end, stop, "")
            return
        yield ((start, stop, ""),)

    def _declares_more(self, end: int, stop: int) -> bool:
        """Whether a declaration goes on with names behind a type's definition; attributes there belong to the type."""
        following = _NAME.search(self._text, end, stop)
        return following is not None and not following.group().startswith("__attribute")

    def declaration(self, spans: Sequence[_Span]) -> Declaration:
        """What the spans together declare, each with the text that follows it."""
        text = ""
        private: set[str] = set()
        public: set[str] = set()
        uses: set[tuple[int, str]] = set()
        for start, stop, following in spans:
            shift = len(text) - start
            for at, name, is_private in self.declared:
                # a span that is a name alone refers to a type that stands before
                if start <= at < stop and (start, stop) != (at, at + len(name)):
                    (private if is_private else public).add(name)
            uses |= {(at + shift, name) for at, name in self.uses if start <= at < stop}
            text += self._text[start:stop] + following
        return Declaration(text, frozenset(private), frozenset(public), tuple(sorted(uses)))

    def _look_for_uses(self, top: Any, private: set[str]) -> None:
        for cursor in top.walk_preorder():
            target = cursor.referenced if cursor.kind.name in _REFERENCES else None
            if target is None or target.canonical.get_usr() not in private:
                continue
            at = self._named_at(cursor, target.spelling)
            if at is not None:
                self.uses.append((at, target.spelling))


#: (start, stop, what follows)
_Span: TypeAlias = tuple[int, int, str]
_TYPE_KINDS = ("STRUCT_DECL", "UNION_DECL", "ENUM_DECL")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*\n?", re.MULTILINE | re.DOTALL)
_KEYWORD = re.compile(r"struct\b|union\b|enum\b")
_NAME = re.compile(r"[A-Za-z_]\w*")
_PRIVATE_KINDS = ("STRUCT_DECL", "UNION_DECL", "ENUM_DECL", "TYPEDEF_DECL", "ENUM_CONSTANT_DECL")
_REFERENCES = ("DECL_REF_EXPR", "TYPE_REF")


_TOKEN = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\w.]+|\S""")
#: what may contain brackets that are not part of the program's structure: directives, strings, characters
_OPAQUE = re.compile(
    r"""^[ \t]*\#(?:[^\n\\]|\\.)*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.MULTILINE | re.DOTALL
)
_STRUCTURE = re.compile(_OPAQUE.pattern + r"|[{}()\[\];]", re.MULTILINE | re.DOTALL)


def split_declarations(text: str, function_ends: Collection[int]) -> list[str]:
    """Cut macro-free OpenCL C after every top-level semicolon and function body.

    >>> split_declarations("struct s { int a; } x; void f() { ; } int g();", {37})
    ['struct s { int a; } x;', ' void f() { ; }', ' int g();']
    """
    pieces: list[str] = []
    begin = depth = 0
    for match in _STRUCTURE.finditer(text):
        token = match.group()
        if token in ("{", "(", "["):
            depth += 1
        elif token in ("}", ")", "]"):
            depth -= 1
        if depth == 0 and (token == ";" or (token == "}" and match.end() in function_ends)):
            pieces.append(text[begin : match.end()])
            begin = match.end()
    pieces.append(text[begin:])
    return [piece for piece in pieces if piece.strip()]


def link_objects(objects: Sequence[CompiledObject]) -> CompiledObject:
    """One object of several: each declaration once, in the order of first appearance."""
    seen: dict[str, Declaration] = {}
    for number, item in enumerate(objects):
        others = [*seen.values(), *(each for other in objects[number + 1 :] for each in other.declarations)]
        for declaration in _told_apart(item, seen, others, number):
            seen.setdefault(declaration.normal, declaration)
    options = tuple(dict.fromkeys(option for item in objects for option in item.options))
    return CompiledObject(tuple(seen.values()), options, "")


def _told_apart(
    item: CompiledObject, seen: Mapping[str, Declaration], others: Sequence[Declaration], number: int
) -> Sequence[Declaration]:
    """The declarations of `item`, with new names for private things whose names mean something else in `seen` or are
    shared by other sources.
    """
    taken = {name for other in others for name in other.public}
    taken |= {name for other in seen.values() for name in other.private}
    names: dict[str, str] = {}
    while True:
        declarations = [declaration.renamed(names) for declaration in item.declarations]
        clashes = {
            name
            for declaration in declarations
            if declaration.normal not in seen
            for name in declaration.private
            if name in taken
        }
        if not clashes:
            return declarations
        # a declaration that uses a renamed name differs from now on: look again
        names |= dict(zip(sorted(clashes), _fresh(clashes, [*others, *declarations], number), strict=True))


def _fresh(names: Collection[str], others: Sequence[Declaration], number: int) -> Iterator[str]:
    """An unused name for each of `names`, which are sorted."""
    used = {name for other in others for name in (*other.private, *other.public)}
    for name in sorted(names):
        new = f"{name}__{number}"
        while new in used:
            new += "_"
        yield new
