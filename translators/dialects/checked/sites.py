"""The numbered places of a checked program, and the parts of its prelude that depend on them.

Decides nothing about what is checked: it keeps what the walk through the bodies has found.
"""

from __future__ import annotations

import re

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from ...frontend import clang
from ...frontend.edits import Edits, Functions
from ...frontend.source import ParsedProgram
from .program import Site
from .roots import expression_parts, is_address

#: OpenCL C's names of integer types by clang's kinds.
_INTEGERS = {
    TypeKind.CHAR_S: "char", TypeKind.SCHAR: "char", TypeKind.CHAR_U: "uchar", TypeKind.UCHAR: "uchar",
    TypeKind.SHORT: "short", TypeKind.USHORT: "ushort", TypeKind.INT: "int", TypeKind.UINT: "uint",
    TypeKind.LONG: "long", TypeKind.ULONG: "ulong", TypeKind.LONGLONG: "long", TypeKind.ULONGLONG: "ulong",
    TypeKind.BOOL: "bool", TypeKind.ENUM: "int",
}  # fmt: skip
#: Parentheses, and quoted texts, in which they do not count.
_PARENTHESIS = re.compile(rb"""[()]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)
#: The functions that accesses to pixels are lowered to.
_LOWERED = re.compile(r"\bvimg\d*_((?:read|write)_image[a-z]+)_\w+")
_LONGEST = 60  #: characters of an expression in a site's text
#: The shadow is at most this coarse, and as fine as the scalars.
_COARSEST = 8


def integer_name(type_: Type) -> str | None:
    """`int`, `ulong4` and so on; None for a type that is not an integer."""
    canonical = type_.get_canonical()
    if canonical.kind in (TypeKind.EXTVECTOR, TypeKind.VECTOR):
        element = _INTEGERS.get(canonical.element_type.get_canonical().kind)
        return None if element is None else f"{element}{canonical.element_count}"
    return _INTEGERS.get(canonical.kind)


def least_scalar(type_: Type) -> int:
    """Bytes of the smallest scalar in an object of the type."""
    canonical = type_.get_canonical()
    if canonical.kind in (TypeKind.EXTVECTOR, TypeKind.VECTOR, TypeKind.CONSTANTARRAY):
        return least_scalar(canonical.element_type)
    if canonical.kind is TypeKind.RECORD:
        return min((least_scalar(field.type) for field in canonical.get_fields()), default=1)
    return max(1, int(canonical.get_size()))


class Recorder:
    """What is collected over all functions of a program."""

    def __init__(self, program: ParsedProgram, prefix: str, functions: Functions) -> None:
        self.program = program
        self._functions = functions
        self._own = {function.key for function in functions.defined}
        self.prefix = prefix
        self.sites: list[Site] = []
        self.skipped: list[tuple[int, str]] = []
        self.granule = _COARSEST
        #: by the keys of functions: why they have no fast form
        self.precise_only: dict[int, str] = {}
        #: by the keys of functions: the functions that they call
        self.calls: dict[int, set[int]] = {}
        self.most_nbytes = 0
        #: whether there are functions that images are lowered to
        self.has_images = False
        #: in a fast program: whether pointers may be less aligned than what they point to
        self.askew = False
        #: places of structures, by their hashes, whose addresses the context keeps until the copy is made
        self.noted: set[int] = set()
        self._text = program.preprocessed.encode("utf-8", "surrogateescape")
        self._divisors: set[str] = set()
        self._shifts: set[str] = set()

    def extent(self, cursor: Cursor) -> tuple[int, int]:
        """First byte and one past the last.

        clang leaves out the last parenthesis of a vector made of one scalar, `(float4)(0.0f)`, and of everything that
        ends with it.
        """
        start, stop = clang.extent_of(cursor)
        depth = sum(
            {b"(": 1, b")": -1}.get(m.group(), 0) for m in _PARENTHESIS.finditer(self._text, start, stop)
        )
        while depth > 0 and (closing := self._text.find(b")", stop)) >= 0:
            stop, depth = closing + 1, depth - 1
        return start, stop

    def text(self, cursor: Cursor) -> str:
        """The source text there, in one line."""
        start, stop = self.extent(cursor)
        return flat(self._text[start:stop].decode("utf-8", "replace"))

    def unevaluated(self, cursor: Cursor) -> str:
        """The same for `__typeof__`: calls of the program's own functions have the arguments that they get here, with
        the right types.
        """
        start, stop = self.extent(cursor)
        edits = Edits(self._text[start:stop])
        for call in clang.walk(cursor):
            if call.kind is CursorKind.CALL_EXPR and self._is_own(call):
                arguments = expression_parts(call)[1:]
                place = self.extent(arguments[0])[0] if arguments else self.extent(call)[1] - 1
                hidden = "".join(", 0" for argument in arguments if is_address(argument))
                edits.insert(place - start, f"{self.prefix}c{hidden}{', ' if arguments else ''}")
        return flat(edits.apply())

    def _is_own(self, call: Cursor) -> bool:
        callee = call.referenced
        return callee is not None and self._functions.key(callee) in self._own

    def site(
        self,
        cursor: Cursor,
        action: str,
        function: str,
        *,
        name: str = "",
        space: str = "",
        nbytes: int = 0,
        limit: int = 0,
    ) -> int:
        """The number of a new site, from 1 on."""
        place = clang.presumed(cursor.extent.start)
        text = _LOWERED.sub(r"\1", self.text(cursor)) if self.has_images else self.text(cursor)
        text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
        number = len(self.sites) + 1
        self.sites.append(
            Site(
                number,
                action,
                place.file,
                place.line,
                place.column,
                function,
                text,
                name,
                space,
                nbytes,
                limit,
            )
        )
        return number

    def refused(self, key: int) -> str | None:
        """A function, and with it everything that it calls, has no fast form, and why."""
        seen, open_ = {key}, [key]
        while open_:
            one = open_.pop()
            if one in self.precise_only:
                return self.precise_only[one]
            more = self.calls.get(one, set()) - seen
            seen |= more
            open_ += more
        return None

    def skip(self, cursor: Cursor, reason: str) -> None:
        self.skipped.append((clang.line_of(cursor), reason))

    def saw(self, type_: Type) -> None:
        """An object of this type is accessed in memory that has shadow."""
        least = least_scalar(type_)
        while self.granule > least or least % self.granule:
            self.granule //= 2
        self.most_nbytes = max(self.most_nbytes, int(type_.get_size()))

    def divisor(self, name: str) -> str:
        self._divisors.add(name)
        return f"{self.prefix}d_{name}"

    def shift(self, name: str) -> str:
        self._shifts.add(name)
        return f"{self.prefix}s_{name}"

    def definitions(self) -> list[str]:
        """Functions for the types of divisors and of what shifts shift by."""
        found = []
        for name in sorted(self._divisors):
            # Comparing vectors gives -1 for true (OpenCL C 6.3.d).
            zero = f"({name})(0)"
            test, one = (
                (f"any(d == {zero})", f"d - as_{name}(d == {zero})")
                if name[-1].isdigit()
                else ("d == 0", f"({name})1")
            )
            head = f"__attribute__((noinline)) {name} P_d_{name}(P_C c, {name} d, uint site)"
            found.append(
                f"{head};\n{head} {{ if ({test}) {{ P_divided(c, site); return {one}; }} return d; }}\n"
            )
        for name in sorted(self._shifts):
            head = f"{name} P_s_{name}(P_C c, {name} n, uint bits, uint site)"
            found.append(
                f"{head};\n{head} {{ if (n < 0 || n >= bits) P_shifted(c, (long)n, site); return n; }}\n"
            )
        return found


def flat(text: str) -> str:
    """A text of several lines as one, without directives."""
    return " ".join(re.sub(r"^[ \t]*#[^\n]*$", " ", text, flags=re.MULTILINE).split())
