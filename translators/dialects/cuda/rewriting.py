"""A program's text, rewritten from OpenCL C to CUDA C++ place by place.

The text stays what the user wrote; edited is only what means something else, or nothing, in C++: address spaces,
swizzles and literals of vectors, vector conditions, shifts, implicit conversions that C++ lacks or that would
choose another template, names of built-in functions and reserved words. What is outside raises Untranslatable.
Never decides about kernels' signatures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from ...frontend import clang
from ...frontend.edits import Edits, Functions, after_blanks, matching
from ...frontend.kernels import Untranslatable
from ...frontend.operator_kinds import COMPARISONS, LOGICAL, SHIFTS, Binary, Joining, Placed, Unary
from ...frontend.source import ParsedProgram
from ...frontend.syntax import swizzle_components
from ...frontend.types import Space
from . import gnu as cuda_gnu
from . import records as cuda_records
from . import tables as cuda_dialect
from .declarations import SKIPPED
from .initialisers import Initialisers, characters
from .types import ARRAYS, conversion, is_half, is_volatile_record, space_of, spell, vector_type
from .unaligned import Unaligned

_TRUTHS = COMPARISONS | LOGICAL
_KEYWORDS = {CursorKind.STRUCT_DECL: "struct", CursorKind.UNION_DECL: "union"}
_IDENTIFIER = re.compile(r"\w+")
_ALIGNED = re.compile(rb"_*aligned_*\s*\(")
_IN_BRACKETS = re.compile(rb"\[\s*((?:(?:static|const|volatile|(?:__)?restrict(?:__)?)\b\s*)+)")
_MEMBER = re.compile(rb"[\s)]*(\.|->)\s*(\w+)\s*")


class Rewriter(Unaligned):
    """Edits of one program (the text of its sub-grid translation)."""

    def __init__(
        self, program: ParsedProgram, functions: Functions, edits: Edits, prefix: str, single: bool
    ) -> None:
        super().__init__(program, functions, edits, prefix)
        self.single = single  # -cl-single-precision-constant
        self.constants = cuda_dialect.constants()
        self.uses_work_dim = False
        self._conditions: list[Type] = []  # of the `switch` statements around
        self._operands_at: set[tuple[int, int]] = set()  # where operands of operators stand
        self._spreading: set[tuple[int, int]] = set()  # where a bool, if it is one, becomes a vector
        self._passing: set[int] = set()  # array literals that nothing keeps
        self._aligned: set[int] = set()  # where attributes end that ask for an alignment
        self._initialising = (
            False  # a constant, which in C++ takes others' values only where these are integers
        )

    # declarations -----------------------------------------------------------------------------------

    def declaration(self, cursor: Cursor) -> None:
        """One declaration at program scope."""
        if cursor.kind == CursorKind.VAR_DECL:
            self._storage([cursor], clang.extent_of(cursor)[0], "")
            self._variable(cursor)
        elif cursor.kind == CursorKind.FUNCTION_DECL:
            self._enter(cursor)
            start, stop = clang.extent_of(cursor)
            self._jumps = re.search(rb"\b(?:goto|switch)\b", self.text[start:stop]) is not None
            for child in cursor.get_children():
                if child.kind == CursorKind.COMPOUND_STMT:
                    self.visit(child)
                elif child.kind == CursorKind.PARM_DECL:
                    self._parameter(child)
        elif cursor.kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL):
            if cursor.kind == CursorKind.STRUCT_DECL:
                self._pad(cursor)
            start, stop = clang.extent_of(cursor)
            moved = self._definitions(cursor)
            heading = self.text[start : self.text.find(b"{", start, stop)].split()
            if (
                not moved and cursor.is_definition() and cursor.spelling.encode() in heading
            ):  # else a typedef's name
                self._assert_size(cursor, f"{_KEYWORDS[cursor.kind]} {self.word(cursor.spelling)}")
        elif cursor.kind == CursorKind.TYPEDEF_DECL:
            self._assert_size(cursor, self.word(cursor.spelling))
            start, stop = clang.extent_of(cursor)
            stop = self.text.find(b";", stop)  # clang leaves attributes out
            if b"ext_vector_type" in self.text[start:stop] or b"vector_size" in self.text[start:stop]:
                name = self.word(cursor.spelling)
                self.blank(start, stop, f"typedef {spell(cursor.underlying_typedef_type)} {name}")
        elif cursor.kind == CursorKind.LINKAGE_SPEC:
            raise Untranslatable("a linkage specification", clang.line_of(cursor))

    def _parameter(self, cursor: Cursor) -> None:
        """C99 6.7.5.3p7: an array's brackets may hold qualifiers of the pointer that it is."""
        start, stop = clang.extent_of(cursor)
        for match in _IN_BRACKETS.finditer(self.text, start, stop):
            self.blank(*match.span(1), "")

    def _assert_size(self, cursor: Cursor, name: str) -> None:
        """Have a structure with a name refused where C++ does not lay it out as OpenCL C does."""
        of = cursor.underlying_typedef_type if cursor.kind == CursorKind.TYPEDEF_DECL else cursor.type
        start, stop = clang.extent_of(cursor)
        end, nbytes = self.text.find(b";", stop), of.get_size()
        declared = of.get_canonical().get_declaration().kind in _KEYWORDS and b"{" in self.text[start:stop]
        if declared and nbytes > 0 and end >= 0 and _IDENTIFIER.fullmatch(name.split()[-1]):
            self.edits.insert(end + 1, f' static_assert(sizeof({name}) == {nbytes}, "size of {name}");')

    def _variable(self, cursor: Cursor) -> None:
        if self._is_done(clang.extent_of(cursor)[0]):
            return
        self._initialising = space_of(cursor.type) is Space.CONSTANT
        # The initialiser's type is the variable's.
        exact = b"__auto_type" in self.text[clang.extent_of(cursor)[0] : cursor.location.offset]
        parts = [child for child in cursor.get_children() if child.kind not in SKIPPED]
        for child in parts:
            self.visit(child, exact)
        stop = clang.extent_of(cursor)[1]
        if (
            cursor.type.is_const_qualified()
            and space_of(cursor.type) is Space.PRIVATE
            and b"=" not in self.text[cursor.location.offset : stop]
        ):
            self.edits.insert(stop, "{}")  # C++ has no constant without a value
        self._align(cursor)
        self._initialising = False

    def _align(self, cursor: Cursor) -> None:
        """Where a variable's attribute asks for less than its type's alignment: that. Pointers to it are taken for aligned."""
        for attribute in cursor.get_children():
            if attribute.kind != CursorKind.ALIGNED_ATTR:
                continue
            start, stop = clang.extent_of(attribute)
            wanted, end = _ALIGNED.match(self.text, start), self.text.find(b"))", stop)
            if wanted is not None and end >= 0 and end not in self._aligned:
                self._aligned.add(end)
                value, least = self.text[wanted.end() : stop - 1].decode(), cursor.type.get_align()
                # The last attribute holds.
                self.edits.insert(
                    end + 2, f" __attribute__((aligned(({value}) > {least} ? ({value}) : {least})))"
                )

    def _declare(self, cursor: Cursor) -> None:
        variables = [c for c in cursor.get_children() if c.kind == CursorKind.VAR_DECL]
        if variables:
            if self._next_local is not None and all(space_of(v.type) is Space.LOCAL for v in variables):
                self._place(cursor, variables)
            else:
                self._storage(variables, clang.extent_of(cursor)[0], "static ")
            if len(variables) == 1:
                self._part(cursor, variables[0])
        for child in cursor.get_children():
            if child.kind == CursorKind.VAR_DECL:
                self._variable(child)
            elif child.kind in _KEYWORDS:
                if child.kind == CursorKind.STRUCT_DECL:
                    self._pad(child)
                self._take_out(child, clang.extent_of(cursor)[0])
            elif child.kind == CursorKind.FUNCTION_DECL:
                raise Untranslatable("a function declared in a function", clang.line_of(child))

    # expressions ------------------------------------------------------------------------------------

    def visit(self, cursor: Cursor, exact: bool = False, stored: bool = False) -> None:
        """A statement or expression. `exact`: its C type must show, as a template may be chosen by it. `stored`: it
        is assigned to.
        """
        kind = cursor.kind
        start, stop = clang.extent_of(cursor)
        if kind != CursorKind.DECL_REF_EXPR and self._is_constant(cursor, start, stop, exact):
            return
        if not stored and self._is_read(cursor):
            self._keep(cursor)
            reading = "in_place" if cursor.type.get_canonical().kind in ARRAYS else "value"
            self._wrap(start, stop, f"::vdev_cl::{reading}(", ")", lambda: self.visit(cursor, exact))
            return
        handler = self._HANDLERS.get(kind)
        if handler is not None:
            handler(self, cursor, start, stop, exact, stored)
            return
        for child in cursor.get_children():
            if child.kind not in SKIPPED:
                if kind == CursorKind.MEMBER_REF_EXPR:
                    self._keep(child)
                self.visit(child)

    def _is_constant(self, cursor: Cursor, start: int, stop: int, exact: bool) -> bool:
        """Whether this is a macro of the language's own, which is defined for C++ again; its inside is not text."""
        text = self.text[start:stop].decode("utf-8", "replace")
        if text not in self.constants:
            return False
        inner, narrowed = cursor, False
        while inner.kind == CursorKind.UNEXPOSED_EXPR and (below := self._only_child(inner)) is not None:
            narrowed |= self._is_narrowed(inner, below)
            inner = below
        opening = None if inner is cursor else conversion(cursor.type, inner.type, exact)
        if opening is not None:
            self.edits.insert(start, f"({opening}(")
        if narrowed:
            self._wrap(start, stop, "((float)", ")", lambda: None)
        if opening is not None:
            self.edits.insert(stop, "))")
        return True

    def _is_narrowed(self, cursor: Cursor, child: Cursor) -> bool:
        """Whether this is a literal under -cl-single-precision-constant: a double, converted."""
        kinds = (cursor.type.get_canonical().kind, child.type.get_canonical().kind)
        return (
            self.single
            and child.kind == CursorKind.FLOATING_LITERAL
            and kinds == (TypeKind.FLOAT, TypeKind.DOUBLE)
        )

    def _only_child(self, cursor: Cursor) -> Cursor | None:
        found = [c for c in cursor.get_children() if c.kind not in SKIPPED]
        return found[0] if len(found) == 1 else None

    def _unexposed(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        """An implicit conversion, a swizzle or something rare: libclang does not tell them apart."""
        if self.text[start:stop].startswith(b"__builtin_astype"):
            raise Untranslatable("__builtin_astype", clang.line_of(cursor))
        child = self._only_child(cursor)
        if child is None:
            if cuda_gnu.rewrite(self, cursor, start, stop, exact):
                return
            for part in cursor.get_children():
                if part.kind not in SKIPPED:
                    self.visit(part, exact)
            return
        child_stop = clang.extent_of(child)[1]
        member = _MEMBER.fullmatch(self.text, child_stop, stop)
        pointee = clang.pointee(child.type)
        base = vector_type(child.type) or (vector_type(pointee) if pointee is not None else None)
        if member is not None and base is not None:
            self._swizzle(cursor, child, member, base[1], stored)
            return
        splat = vector_type(cursor.type) is not None and vector_type(child.type) is None
        if splat and (start, stop) not in self._operands_at:
            self._spread(child)
        shown = exact or splat or is_half(cursor, child)
        exact |= self._is_narrowed(cursor, child)

        def inside() -> None:
            self.visit(child, shown, stored)

        kinds = [of.type.get_canonical().kind for of in (cursor, child)]
        if (start, stop) in self._spreading and kinds[1] == TypeKind.BOOL != kinds[0]:
            self._convert(
                cursor, child, start, stop, exact, lambda: self._wrap(start, stop, "(-(int)(", "))", inside)
            )
        else:
            self._convert(cursor, child, start, stop, exact, inside)

    def _spread(self, cursor: Cursor) -> None:
        """Have a bool that becomes a vector become all ones in it (6.2.2); `cursor`: its conversion to a component. As an operand of an
        operator, and in a vector literal, it becomes an integer first.
        """
        if cursor.kind == CursorKind.UNEXPOSED_EXPR:
            self._spreading.add(clang.extent_of(cursor))

    def _swizzle(
        self, cursor: Cursor, child: Cursor, member: re.Match[bytes], count: int, stored: bool
    ) -> None:
        components = swizzle_components(member.group(2).decode(), count)
        numbers = ", ".join(map(str, components))
        nested = self._is_view(child)
        if len(components) == 1:
            one = not stored and self._unaligned_place(child)
            text = (
                f"at<{numbers}>()" if stored and nested else f"one<{numbers}>()" if one else f"v[{numbers}]"
            )
        else:
            text = f"ref<{numbers}>()" if stored else f"get<{numbers}>()"
        self._keep(child)
        self.visit(child, False, stored and clang.pointee(child.type) is None)
        self._replace(member.start(1), member.end(2), member.group(1).decode() + text)

    def _is_view(self, cursor: Cursor) -> bool:
        """Whether the vector is itself a swizzle of several components."""
        while cursor.kind == CursorKind.PAREN_EXPR:
            inner = self._only_child(cursor)
            if inner is None:
                return False
            cursor = inner
        child = self._only_child(cursor) if cursor.kind == CursorKind.UNEXPOSED_EXPR else None
        if child is None:
            return False
        stop = clang.extent_of(cursor)[1]
        return _MEMBER.fullmatch(self.text, clang.extent_of(child)[1], stop) is not None

    def _convert(
        self, cursor: Cursor, child: Cursor, start: int, stop: int, exact: bool, inside: Callable[[], None]
    ) -> None:
        """An implicit conversion from `child` to `cursor`, said explicitly where C++ would not do the same."""
        opening = conversion(cursor.type, child.type, exact)
        if opening is None or (is_volatile_record(child.type) and self._unaligned_place(child)):
            inside()
        else:
            self._wrap(start, stop, f"({opening}(", "))", inside)

    def _paren(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        self._parentheses.add(start)
        for child in cursor.get_children():
            self.visit(child, exact, stored)

    def _call(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        callee, *arguments = [c for c in cursor.get_children() if c.kind not in SKIPPED]
        function = cursor.referenced
        # clang declares built-in functions where they are first called.
        ours = function is not None and self.functions.key(function) in self.functions.declared
        if not ours:
            self._builtin(cursor, callee)
        for argument in arguments:
            self._let_pass(argument)
            self.visit(argument, not ours)

    def _subscript(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        for child in cursor.get_children():
            self._let_pass(child)
            self._keep(child)
            self.visit(child)

    def _let_pass(self, cursor: Cursor) -> None:
        """An array literal used at once: C++ keeps it to the end of the expression (C to that of the block)."""
        while cursor.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR):
            inner = self._only_child(cursor)
            if inner is None:
                return
            cursor = inner
        if cursor.kind == CursorKind.COMPOUND_LITERAL_EXPR:
            self._passing.add(clang.extent_of(cursor)[0])

    def _builtin(self, cursor: Cursor, callee: Cursor) -> None:
        name, line = cursor.spelling, clang.line_of(cursor)
        start, stop = clang.extent_of(callee)
        if name in ("to_global", "to_local", "to_private") or name in cuda_dialect.GNU_FUNCTIONS:
            return  # clang does not tell where all of these are written: they are words
        if not name or self.text[start:stop] != name.encode():
            raise Untranslatable(f"a call of {name or 'something that is not a name'}", line)
        template = cuda_dialect.template_of(name)
        if template is not None:
            self._replace(start, stop, f"::vdev_cl::{template}")
        elif name == "get_work_dim":
            self.uses_work_dim = True
        elif name not in self.known:
            raise Untranslatable(f"the built-in function {name}() is not translated to CUDA", line)
        elif name == "printf":
            self._printf(cursor, start, stop)

    def _printf(self, cursor: Cursor, start: int, stop: int) -> None:
        """6.12.13.2: a conversion of a vector becomes one for each component, with commas between."""
        arguments = [c for c in cursor.get_children() if c.kind not in SKIPPED][1:]
        at, end = clang.extent_of(arguments[0])
        written = self.text[at:end].decode("utf-8", "surrogateescape")
        said = _VECTOR_FORMAT.sub(_one_by_one, written)
        halves = any(is_half(argument, argument) for argument in arguments[1:])
        if said != written or halves:
            self.blank(at, end, said)
            self._replace(start, stop, "::vdev_cl::print")

    def _compound_literal(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        contents = [c for c in cursor.get_children() if c.kind == CursorKind.INIT_LIST_EXPR]
        closing = matching(self.text, start)
        if vector_type(cursor.type) is not None and contents:
            self.blank(start, closing + 1, f"::vdev_cl::make<{spell(cursor.type)}>")
            opening = after_blanks(self.text, closing + 1)
            self._parts(contents[0], opening)
            return
        if not contents or (cursor.type.get_canonical().kind in ARRAYS and start not in self._passing):
            raise Untranslatable("an array literal that is kept lives shorter in C++", clang.line_of(cursor))
        self._replace(start, start + 1, "::vdev_cl::identity<")
        self._replace(closing, closing + 1, ">")
        self.visit(contents[0])

    def _parts(self, contents: Cursor, opening: int) -> None:
        """The list of a vector's parts, whatever its brackets, as arguments of make()."""
        closing = matching(self.text, opening)
        if self.text[opening : opening + 1] == b"{":
            self.edits.replace(opening, opening + 1, "(")
            last = closing
            while self.text[last - 1 : last].isspace():
                last -= 1
            if self.text[last - 1 : last] == b",":
                self.edits.replace(last - 1, last, "")
            self.edits.replace(closing, closing + 1, ")")
        for part in contents.get_children():
            if part.kind not in SKIPPED:
                self.visit(part, True)

    def _list(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        if vector_type(cursor.type) is not None:
            if self.text[start : start + 1] == b"{":
                self.edits.insert(start, f"::vdev_cl::make<{spell(cursor.type)}>")
            self._parts(cursor, start)
            return
        children = [c for c in cursor.get_children() if c.kind not in SKIPPED]
        inside = self.text[start + 1 : stop - 1].strip().rstrip(b",").strip()
        if cursor.type.get_canonical().kind in (*ARRAYS, TypeKind.RECORD) and re.fullmatch(
            rb"0|0\.0?f?", inside
        ):
            self.blank(start + 1, stop - 1, "")  # C99 6.7.8p21: everything is zero, whatever its type
            return
        if cursor.type.get_canonical().kind in (*ARRAYS, TypeKind.RECORD):
            self._initialise(cursor)
            return
        for child in children:
            self.visit(child, True)

    def _initialise(self, contents: Cursor) -> None:
        def visit(part: Cursor) -> None:
            if (
                self._fields
                and part.type.get_canonical().kind == TypeKind.RECORD
                and part.kind != CursorKind.INIT_LIST_EXPR
            ):
                self._wrap(*clang.extent_of(part), "::vdev_cl::parted(", ")", lambda: self.visit(part, True))
            else:
                self.visit(part, True)

        Initialisers(self.text, self.edits, self.blank, visit).rewrite(contents)

    def _binary(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        operator = clang.binary_operator(cursor)
        left, right = [c for c in cursor.get_children() if c.kind not in SKIPPED]
        if isinstance(operator, Binary):
            self._operands_at |= {clang.extent_of(left), clang.extent_of(right)}
        if operator in _TRUTHS and exact and vector_type(cursor.type) is None:
            self._wrap(start, stop, "((int)(", "))", lambda: self._operands(left, right))
        elif operator is Joining.ASSIGN:
            copying = cuda_records.copying(left.type, self.word)
            if copying is not None:
                self.edits.insert(start, "::vdev_cl::assigned(")
                self.visit(left, stored=True)
                self.mark(clang.extent_of(left)[1], b"=")
                self.visit(right)
                self.edits.insert(stop, f", {copying})")
                return
            if is_volatile_record(left.type):
                start, stop = clang.extent_of(left)
                self._wrap(start, stop, "::vdev_cl::settled(", ")", lambda: self.visit(left, stored=True))
            else:
                self.visit(left, stored=True)
            self.visit(right, is_half(left, right))
        elif operator is Joining.COMMA:
            self.visit(left)
            self.visit(right, exact)
        elif operator in SHIFTS:
            self.visit(left, exact)
            self._shift_by(right, cursor.type)
        elif operator in _TRUTHS:
            self._operands(left, right)
        else:
            for operand in (left, right):
                self.visit(operand, is_half(cursor, operand))

    def _operands(self, left: Cursor, right: Cursor) -> None:
        for operand in (left, right):
            self.visit(operand, is_half(operand, operand))

    def _shift_by(self, right: Cursor, shifted: Type) -> None:
        """OpenCL C 6.3 j: the number's low bits count; C++ leaves too large shifts undefined."""
        if vector_type(shifted) is not None:
            self.visit(right)
            return
        nbits = 64 if shifted.get_canonical().get_size() > 4 else 32  # small integers are promoted
        start, stop = clang.extent_of(right)
        text = self.text[start:stop].decode("utf-8", "replace")
        if (
            re.fullmatch(r"\d+[uUlL]*", text)
            and int(text.rstrip("uUlL"), 8 if text[0] == "0" else 10) < nbits
        ):
            self.visit(right)
        else:
            self._wrap(start, stop, "((", f") & {nbits - 1})", lambda: self.visit(right))

    def _update(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        left, right = [c for c in cursor.get_children() if c.kind not in SKIPPED]
        self._operands_at.add(clang.extent_of(right))
        self.visit(left, stored=True)
        if clang.binary_operator(cursor) in SHIFTS:
            self._shift_by(right, left.type)
        else:
            self.visit(right, is_half(left, right))

    def _unary(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        operator = clang.unary_operator(cursor)
        (operand,) = [c for c in cursor.get_children() if c.kind not in SKIPPED]
        if operator is Placed.RAISE or operator is Placed.LOWER:
            if operand.type.get_canonical().kind == TypeKind.BOOL:
                cuda_gnu.step(self, operator, start, stop)
            self.visit(operand, stored=True)
        elif operator is Unary.NOT and exact and vector_type(cursor.type) is None:
            self._wrap(start, stop, "((int)(", "))", lambda: self.visit(operand))
        elif (
            operator is Placed.ADDRESS and (start, stop) not in self._kept and self._unaligned_place(operand)
        ):
            self._wrap(start, stop, "::vdev_cl::in_place(", ")", lambda: self.visit(operand, stored=True))
        else:
            if operator is Placed.DEREFERENCE:
                self._keep(operand)
            self.visit(operand, exact and operator is not Unary.NOT, stored=operator is Placed.ADDRESS)

    def _conditional(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        parts = [c for c in cursor.get_children() if c.kind not in SKIPPED]
        if len(parts) != 3:
            raise Untranslatable("a conditional without its middle", clang.line_of(cursor))
        condition, yes, no = parts
        if vector_type(condition.type) is None:
            self.visit(condition)
            for arm in (yes, no):
                self.visit(arm, exact)
            return
        self._operands_at |= {clang.extent_of(yes), clang.extent_of(no)}
        self.edits.insert(start, "::vdev_cl::choose(")
        self.visit(condition)
        self.mark(clang.extent_of(condition)[1], b"?")
        self.visit(yes)
        self.mark(clang.extent_of(yes)[1], b":")
        self.visit(no)
        self.edits.insert(stop, ")")

    def mark(self, offset: int, mark: bytes, text: str = ",") -> int:
        """The `?`, `:` or `=` behind an operand becomes a comma, or `text`. Returns where it stands."""
        while (offset := after_blanks(self.text, offset)) < len(self.text) and self.text[
            offset : offset + 1
        ] == b")":
            offset += 1
        if self.text[offset : offset + 1] != mark:
            raise Untranslatable("a conditional that could not be read", self._line_at(offset))
        self.edits.replace(offset, offset + 1, text)
        return offset

    def _cast(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        vector = vector_type(cursor.type) is not None
        for child in cursor.get_children():
            if child.kind not in SKIPPED:
                if vector and not self._is_literal(start, clang.extent_of(child)[0]):
                    self._spread(child)
                self.visit(child, vector or cursor.type.get_canonical().kind == TypeKind.HALF)

    def _is_literal(self, start: int, operand: int) -> bool:
        """Whether the cast at `start` is a vector literal: another parenthesis opens behind the type's, before the operand."""
        behind = after_blanks(self.text, matching(self.text, start) + 1)
        return self.text[behind : behind + 1] == b"(" and behind < operand

    def _character(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        if exact:  # an int in C, a char in C++
            self._wrap(start, stop, "((int)", ")", lambda: None)

    def _reference(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        meaning = cursor.referenced
        if exact and meaning is not None and meaning.kind == CursorKind.ENUM_CONSTANT_DECL:
            self._wrap(start, stop, "((int)", ")", lambda: None)
        if meaning is not None and meaning.kind == CursorKind.FUNCTION_DECL:
            raise Untranslatable(f"{meaning.spelling}() is used as a value", clang.line_of(cursor))
        name = spell(cursor.type)
        if self._initialising and name is not None and isinstance(number := clang.evaluate(cursor), float):
            self._replace(start, stop, f"(({name}){number.hex()})")

    def _float(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        if cursor.type.get_canonical().kind == TypeKind.HALF:
            number = self.text[start:stop].rstrip(b"hH").decode()
            self._replace(start, stop, f"::vdev_cl::half({number}f)")

    def _string(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        listed = characters(self.text[start:stop].decode("utf-8", "surrogateescape"), cursor.type)
        if listed is not None:
            self.blank(start, stop, listed)

    def _for(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        first, *others = clang.children(cursor)
        for part in (first, *others):
            self.visit(part)
        self._apart(first, others[-1] if others else first)

    def _case(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        *numbers, statement = cursor.get_children()
        cuda_gnu.labels(self, numbers[0], numbers[-1], self._conditions[-1])
        self.visit(statement)

    def _switch(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        """The condition shows its type, after C's promotions, which that of an enumeration is not in C++."""
        condition, body = cursor.get_children()
        self._wrap(
            *clang.extent_of(condition), f"({spell(condition.type)})(", ")", lambda: self.visit(condition)
        )
        self._conditions.append(condition.type)
        self.visit(body)
        self._conditions.pop()

    def _statement_expression(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        """`({ ... })` becomes a lambda that is called at once; the last statement's value is what it returns."""
        (body,) = cursor.get_children()
        statements = list(body.get_children())
        jump = _jump_out_of(body)
        if jump is not None:
            raise Untranslatable("a jump out of an expression", clang.line_of(jump))
        opening, closing = clang.extent_of(body)
        self.edits.insert(opening, "[&]() ")
        for statement in statements[:-1]:
            self.visit(statement)
        if statements and cursor.type.get_canonical().kind != TypeKind.VOID:
            self._wrap(
                *clang.extent_of(statements[-1]), "return (", ")", lambda: self.visit(statements[-1], True)
            )
        elif statements:
            self.visit(statements[-1])
        self.edits.insert(closing, "()")

    def _size(self, cursor: Cursor, start: int, stop: int, exact: bool, stored: bool) -> None:
        parts = clang.children(cursor)
        if self.text[start:stop].startswith(b"vec_step"):
            vector = None
            for of in parts[-1:]:
                vector = vector_type(of.referenced.type if of.kind in SKIPPED else of.type)
            count = 1 if vector is None else 4 if vector[1] == 3 else vector[1]
            self.blank(start, stop, str(count))
            return
        if cuda_gnu.alignment(self, cursor, start, stop):
            return
        for child in parts:
            if child.kind not in SKIPPED:
                self._keep(child)
                self.visit(child, True)

    #: A conversion of a vector: flags, width, precision; number of components; length; the conversion

    #: by kind of node, what rewrites it
    _HANDLERS: ClassVar[dict[CursorKind, Callable[[Rewriter, Cursor, int, int, bool, bool], None]]] = {
        CursorKind.DECL_STMT: lambda self, cursor, *_: self._declare(cursor),
        CursorKind.UNEXPOSED_EXPR: _unexposed,
        CursorKind.PAREN_EXPR: _paren,
        CursorKind.CALL_EXPR: _call,
        CursorKind.ARRAY_SUBSCRIPT_EXPR: _subscript,
        CursorKind.COMPOUND_LITERAL_EXPR: _compound_literal,
        CursorKind.INIT_LIST_EXPR: _list,
        CursorKind.BINARY_OPERATOR: _binary,
        CursorKind.COMPOUND_ASSIGNMENT_OPERATOR: _update,
        CursorKind.UNARY_OPERATOR: _unary,
        CursorKind.CONDITIONAL_OPERATOR: _conditional,
        CursorKind.CSTYLE_CAST_EXPR: _cast,
        CursorKind.CHARACTER_LITERAL: _character,
        CursorKind.DECL_REF_EXPR: _reference,
        CursorKind.FLOATING_LITERAL: _float,
        CursorKind.STRING_LITERAL: _string,
        CursorKind.SWITCH_STMT: _switch,
        CursorKind.CASE_STMT: _case,
        CursorKind.FOR_STMT: _for,
        CursorKind.CXX_UNARY_EXPR: _size,
        CursorKind.GENERIC_SELECTION_EXPR: lambda self, cursor, *_: cuda_gnu.generic(cursor),
        CursorKind.StmtExpr: _statement_expression,
    }


_VECTOR_FORMAT = re.compile(
    r"(%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d*))?)v(16|[2348])(hh|hl|h|l)?([diouxXfFeEgGaA])"
)


def _one_by_one(match: re.Match[str]) -> str:
    front, count, length, conversion_ = match.groups()
    # What is shorter than an int is passed as an int.
    one = f"{front}{'l' if length == 'l' else ''}{conversion_}"
    return ",".join([one] * int(count))


_LOOPS = (CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT)
_JUMPS = (CursorKind.RETURN_STMT, CursorKind.GOTO_STMT, CursorKind.LABEL_STMT)


def _jump_out_of(cursor: Cursor, left: tuple[CursorKind, ...] = ()) -> Cursor | None:
    """A jump that may lead out of a statement (or into it, past a label), None where there is none.

    `left`: the kinds of jumps that stay inside where the statement stands.
    """
    for child in cursor.get_children():
        kind = child.kind
        if kind in _JUMPS or (kind in (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT) and kind not in left):
            return child
        inside = left
        if kind in _LOOPS:
            inside = (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT)
        elif kind == CursorKind.SWITCH_STMT:
            inside = (CursorKind.BREAK_STMT, *left)
        found = _jump_out_of(child, inside)
        if found is not None:
            return found
    return None
