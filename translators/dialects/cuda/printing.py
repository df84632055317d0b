"""Prints CUDA C++ from the nodes of a program's statements and expressions.

A node is printed as the user's text between its parts, and what is printed for the parts. So the result is what the
user wrote, line by line, except where that means something else, or nothing, in C++: swizzles and vector literals,
vector conditions, shifts, implicit conversions that C++ lacks or that would choose another template, names of
built-in functions. What cannot be printed raises Untranslatable. Never decides about kernels' signatures, nor looks
at the text of expressions.

Words between the parts (address spaces, reserved names, attributes) mean the same wherever they occur, and libclang
does not tell all the places where they do: they are edited as words. C's declarators are also C++'s: they stay the
user's text, edited as `declarations` and `unaligned` say.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from ...frontend import clang
from ...frontend.edits import Edits, Functions
from ...frontend.kernels import Untranslatable
from ...frontend.operator_kinds import COMPARISONS, LOGICAL, SHIFTS, Unary
from ...frontend.source import ParsedProgram
from ...frontend.types import Space
from ...symbolic.exhaustive import assert_never
from . import nodes
from . import records as cuda_records
from . import tables as cuda_dialect
from .folding import folded
from .fusing import FUSED, Fusion, fusion_of, without_blanks
from .initialisers import Initialisers, characters
from .narrowing import low_bits, narrowed
from .nodes import Node, Part, Piece, Text, behind_conversions
from .reading import Reader
from .types import (
    ARRAYS,
    conversion,
    converted,
    is_half,
    is_volatile_class,
    is_volatile_record,
    literal,
    space_of,
    spell,
    vector_type,
)
from .unaligned import Unaligned
from .unrolling import COPIES, wants_copies

_TRUTHS = COMPARISONS | LOGICAL
_KEYWORDS = {CursorKind.STRUCT_DECL: "struct", CursorKind.UNION_DECL: "union"}
_IDENTIFIER = re.compile(r"\w+")
_ALIGNED = re.compile(rb"_*aligned_*\s*\(")
_IN_BRACKETS = re.compile(rb"\[\s*((?:(?:static|const|volatile|(?:__)?restrict(?:__)?)\b\s*)+)")


class Printer(Unaligned):
    """Prints one program (the text of its sub-grid translation)."""

    def __init__(
        self,
        program: ParsedProgram,
        functions: Functions,
        edits: Edits,
        prefix: str,
        *,
        single: bool,
        fuses: bool,
    ) -> None:
        """`single`: literals are of single precision. `fuses`: products may be fused with sums."""
        super().__init__(program, functions, edits, prefix)
        self._fuses = fuses
        self._within = b""  # the text of the function that is printed, without blanks
        self._reader = Reader(functions, cuda_dialect.constants(), single)
        self._parentheses = self._reader.parentheses
        self.uses_work_dim = False
        self.bodies: dict[str, list[Node]] = {}  #: of the functions, by name
        self._aligned: set[int] = set()  # where attributes end that ask for an alignment
        #: what gives the low bits of a call, by where it is, if these alone are used
        self._low: dict[int, str] = {}
        self._initialising = False  # a constant, which in C++ takes others' values only if these are integers

    # declarations -----------------------------------------------------------------------------------

    def declaration(self, cursor: Cursor) -> None:
        """One declaration at program scope."""
        if cursor.kind == CursorKind.VAR_DECL:
            self._storage([cursor], clang.extent_of(cursor)[0], "")
            variable = self._reader.variable(cursor)
            self._print(variable, self._variable(variable))
        elif cursor.kind == CursorKind.FUNCTION_DECL:
            self._function(cursor)
        elif cursor.kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL):
            self._settle(cursor)
            if cursor.kind == CursorKind.STRUCT_DECL:
                self._pad(cursor)
            moved = self._definitions(cursor)
            if not moved and cursor.is_definition() and self._own_name(cursor) is not None:
                self._assert_size(cursor, f"{_KEYWORDS[cursor.kind]} {self.word(cursor.spelling)}")
        elif cursor.kind == CursorKind.ENUM_DECL:
            self._definitions(cursor)
        elif cursor.kind == CursorKind.TYPEDEF_DECL:
            self._assert_size(cursor, self.word(cursor.spelling))
            start, stop = clang.extent_of(cursor)
            stop = self.text.find(b";", stop)  # clang leaves attributes out
            if b"ext_vector_type" in self.text[start:stop] or b"vector_size" in self.text[start:stop]:
                name = self.word(cursor.spelling)
                self.blank(start, stop, f"typedef {spell(cursor.underlying_typedef_type)} {name}")
        elif cursor.kind == CursorKind.LINKAGE_SPEC:
            raise Untranslatable("a linkage specification", clang.line_of(cursor))

    def _function(self, cursor: Cursor) -> None:
        self._enter(cursor)
        for child in cursor.get_children():
            if child.kind == CursorKind.COMPOUND_STMT:
                body, self._jumps = self._reader.body(child)
                self.bodies.setdefault(cursor.spelling, []).append(body)
                self._within = without_blanks(self.text[body.start : body.stop]) if self._fuses else b""
                self._print(body, [self._part(body)])
                self._within = b""
            elif child.kind == CursorKind.PARM_DECL:
                self._parameter(child)

    def _parameter(self, cursor: Cursor) -> None:
        """C99 6.7.5.3p7: an array's brackets may hold qualifiers of the pointer that it is."""
        start, stop = clang.extent_of(cursor)
        for match in _IN_BRACKETS.finditer(self.text, start, stop):
            self.blank(*match.span(1), "")

    def _assert_size(self, cursor: Cursor, name: str) -> None:
        """Have a named structure refused if C++ does not lay it out as OpenCL C does."""
        of = cursor.underlying_typedef_type if cursor.kind == CursorKind.TYPEDEF_DECL else cursor.type
        start, stop = clang.extent_of(cursor)
        end, nbytes = self.text.find(b";", stop), of.get_size()
        declared = clang.canonical(of).get_declaration().kind in _KEYWORDS and b"{" in self.text[start:stop]
        if declared and nbytes > 0 and end >= 0 and _IDENTIFIER.fullmatch(name.split()[-1]):
            self.edits.insert(end + 1, f' static_assert(sizeof({name}) == {nbytes}, "size of {name}");')

    def _variable(self, node: nodes.Variable) -> list[Part]:
        if self._is_done(node.start):
            return []
        space = space_of(node.type)
        self._initialising = space is Space.CONSTANT
        parts = [self._part(part, node.deduced) for part in node.parts]
        if node.type.is_const_qualified() and space is Space.PRIVATE and not node.initialised:
            self.edits.insert(node.stop, "{}")  # C++ has no constant without a value
        self._align(node.cursor)
        self._initialising = False
        return parts

    def _align(self, cursor: Cursor) -> None:
        """If a variable's attribute asks for less than its type's alignment, give it the type's: pointers to it are
        assumed to be aligned.
        """
        for attribute in cursor.get_children():
            if attribute.kind != CursorKind.ALIGNED_ATTR:
                continue
            start, stop = clang.extent_of(attribute)
            wanted, end = _ALIGNED.match(self.text, start), self.text.find(b"))", stop)
            if wanted is not None and end >= 0 and end not in self._aligned:
                self._aligned.add(end)
                value, least = (
                    self.renamed(self.text[wanted.end() : stop - 1].decode()),
                    cursor.type.get_align(),
                )
                # The last attribute counts.
                self.edits.insert(
                    end + 2, f" __attribute__((aligned(({value}) > {least} ? ({value}) : {least})))"
                )

    def _declare(self, node: nodes.Declare) -> Text:
        cursor, variables = node.cursor, [variable.cursor for variable in node.variables]
        if variables:
            if self._next_local is not None and all(space_of(v.type) is Space.LOCAL for v in variables):
                self._place(cursor, variables)
            else:
                self._storage(variables, node.start, "static ")
            if len(variables) == 1:
                self._assign_apart(cursor, variables[0])
        for child in cursor.get_children():
            if child.kind in _KEYWORDS:
                self._settle(child)
                if child.kind == CursorKind.STRUCT_DECL:
                    self._pad(child)
                self._take_out(child, node.start)
            elif child.kind == CursorKind.FUNCTION_DECL:
                raise Untranslatable("a function declared in a function", clang.line_of(child))
        parts = [part for variable in node.variables for part in self._variable(variable)]
        return _spliced(node, parts)

    # nodes ------------------------------------------------------------------------------------------

    def _print(self, node: Node, parts: Iterable[Part]) -> None:
        """Put the parts of a node in their places in the program's text."""
        at, pending = node.start, ""
        for piece in _spliced(node, parts):
            if isinstance(piece, str):
                pending += piece
                continue
            if pending or piece[0] > at:
                self.blank(at, piece[0], pending)
            at, pending = piece[1], ""
        if pending or at < node.stop:
            self.blank(at, node.stop, pending)

    def _part(self, node: Node, exact: bool = False, stored: bool = False) -> Part:
        return node.start, node.stop, self.printed(node, exact, stored)

    def _around(
        self, node: Node, opening: str, closing: str, exact: bool = False, stored: bool = False
    ) -> Part:
        return node.start, node.stop, [opening, *self.printed(node, exact, stored), closing]

    def _operand(self, node: Node, stored: bool = False) -> Part:
        """What stands before `.`, `->` or `[`. A vector literal of one value is a cast in C++, which binds less than these."""
        if isinstance(node, nodes.Cast):
            return self._around(node, "(", ")", stored=stored)
        return self._part(node, stored=stored)

    def _plain(self, node: Node, parts: Iterable[Node], exact: bool = False) -> Text:
        return _spliced(node, [self._part(part, exact) for part in parts])

    def printed(self, node: Node, exact: bool = False, stored: bool = False) -> Text:
        """A statement or expression. `exact`: its C type must show, as a template may be chosen by it. `stored`: it is assigned to."""
        if not stored and self._is_read(node):
            reading = "in_place" if clang.canonical(node.type).kind in ARRAYS else "value"
            return [f"::vdev_cl::{reading}(", *self._print_anew(node, exact, stored), ")"]
        return self._print_anew(node, exact, stored)

    def _print_anew(self, node: Node, exact: bool, stored: bool) -> Text:  # noqa: C901 (a case for each kind)
        match node:
            case nodes.Integer():
                return [(node.start, node.stop)]
            case nodes.Name():
                return self._name(node, exact)
            case nodes.Converted():
                return self._converted(node, exact, stored)
            case nodes.Parentheses(inner=inner):
                return _spliced(node, [self._part(inner, exact, stored)])
            case nodes.Calculation():
                return self._calculation(node, exact)
            case nodes.Index(parts=parts):
                parted = _spliced(node, [self._operand(parts[0]), *map(self._part, parts[1:])])
                return self._unsettled(node, parted)
            case nodes.Member(parts=parts):
                return self._unsettled(node, self._plain(node, parts))
            case nodes.Plain(parts=parts):
                return self._plain(node, parts)
            case nodes.Dereference(operand=operand):
                return self._plain(node, [operand], exact)
            case nodes.Call():
                return self._call(node)
            case nodes.Swizzle():
                return self._swizzle(node, stored)
            case nodes.Assignment():
                return self._assignment(node)
            case nodes.Update():
                return self._update(node)
            case nodes.Declare():
                return self._declare(node)
            case nodes.Cast(parts=parts):
                self._narrow(node)
                shown = vector_type(node.type) is not None or clang.canonical(node.type).kind == TypeKind.HALF
                return self._plain(node, parts, shown)
            case nodes.Constant():
                return self._constant(node, exact)
            case nodes.Operation(operator=operator, operand=operand):
                if operator is Unary.NOT and exact and vector_type(node.type) is None:
                    return ["((int)(", *self._plain(node, [operand]), "))"]
                return self._plain(node, [operand], exact and operator is not Unary.NOT)
            case nodes.Step():
                return self._step(node)
            case nodes.Address(operand=operand):
                inside = _spliced(node, [self._part(operand, exact, stored=True)])
                whole = not node.kept and self._unaligned_place(operand)
                return ["::vdev_cl::in_place(", *inside, ")"] if whole else inside
            case nodes.Comma(left=left, right=right):
                return _spliced(node, [self._part(left), self._part(right, exact)])
            case nodes.Conditional():
                return self._conditional(node, exact)
            case nodes.Float():
                return self._float(node)
            case nodes.Character():  # an int in C, a char in C++
                place = node.start, node.stop
                return ["((int)", place, ")"] if exact else [place]
            case nodes.String():
                listed = characters(node.written, node.type)
                return [(node.start, node.stop) if listed is None else listed]
            case nodes.List():
                return self._list(node)
            case nodes.CompoundLiteral():
                return self._compound_literal(node)
            case nodes.Known(text=text):
                return [text]
            case nodes.Chosen(kept=kept):
                return ["(", *self.printed(kept, exact), ")"]
            case nodes.Otherwise():
                return self._otherwise(node)
            case nodes.Unnamed(parts=parts):
                return self._plain(node, parts, exact)
            case nodes.Size(parts=parts):
                return self._plain(node, parts, exact=True)
            case nodes.Block():
                return self._block(node)
            case nodes.For():
                return self._for(node)
            case nodes.Guard():
                return self._guard(node)
            case nodes.Switch():
                return self._switch(node)
            case nodes.Case():
                return self._case(node)
            case nodes.Variable():
                return _spliced(node, self._variable(node))
        assert_never(node)

    # expressions ------------------------------------------------------------------------------------

    def _constant(self, node: nodes.Constant, exact: bool) -> Text:
        opening = None if node.source is None else conversion(node.type, node.source, exact)
        inside: Text = [(node.start, node.stop)]
        if node.narrowed:
            inside = ["((float)", *inside, ")"]
        return inside if opening is None else [f"({opening}(", *inside, "))"]

    def _name(self, node: nodes.Name, exact: bool) -> Text:
        kind = None if node.meaning is None else node.meaning.kind
        if kind == CursorKind.FUNCTION_DECL:
            raise Untranslatable(f"{node.cursor.spelling}() is used as a value", node.line)
        inside: Text = [(node.start, node.stop)]
        name = spell(node.type) if self._initialising else None
        if name is not None and isinstance(number := clang.evaluate(node.cursor), float):
            inside = [f"(({name}){number.hex()})"]
        return ["((int)", *inside, ")"] if exact and kind == CursorKind.ENUM_CONSTANT_DECL else inside

    def _float(self, node: nodes.Float) -> Text:
        if clang.canonical(node.type).kind == TypeKind.HALF:
            return [cuda_dialect.half_literal(node.written.rstrip("hH"))]
        return [(node.start, node.stop)]

    def _converted(self, node: nodes.Converted, exact: bool, stored: bool) -> Text:
        """An implicit conversion, written out if C++ would not do the same."""
        self._narrow(node)
        target, source = node.type, node.operand.type
        splat = vector_type(target) is not None and vector_type(source) is None
        shown = exact or splat or is_half(target, source)
        inside = _spliced(node, [self._part(node.operand, shown, stored)])
        if node.spreads:
            inside = ["(-(int)(", *inside, "))"]
        opening = conversion(target, source, exact or node.narrowed)
        if opening is None or (is_volatile_record(source) and self._unaligned_place(node.operand)):
            return inside
        return [f"({opening}(", *inside, "))"]

    def _swizzle(self, node: nodes.Swizzle, stored: bool) -> Text:
        numbers = ", ".join(map(str, node.components))
        if len(node.components) > 1:
            text = f"ref<{numbers}>()" if stored else f"get<{numbers}>()"
        elif stored and _is_view(node.base):
            text = f"at<{numbers}>()"
        elif not stored and self._unaligned_place(node.base):
            text = f"one<{numbers}>()"
        else:
            text = f"v[{numbers}]"
        base = self._operand(node.base, stored and node.access == ".")
        access = _at(node.access_start, node.access_stop, f"{node.access}{text}")
        return _spliced(node, [base, access])

    def _call(self, node: nodes.Call) -> Text:
        callee: Text = [(node.callee_start, node.callee_stop)]
        arguments = list(node.arguments)
        parts: list[Part] = []
        if node.callee_start in self._low:
            callee = [self._low[node.callee_start]]
        elif not node.ours:
            value = folded(node, self.text)
            if value is not None:
                return [value]
            callee = self._builtin(node)
            if node.name == "printf":
                callee, first = self._printf(node, arguments.pop(0))
                parts.append(first)
        parts += [self._part(argument, exact=not node.ours) for argument in arguments]
        return _spliced(node, [_at(node.callee_start, node.callee_stop, *callee), *parts])

    def _narrow(self, node: Node) -> None:
        """If a node has numbers cut off, have work-item functions called that give no more than what is left."""
        for call in narrowed(node):
            low = low_bits(call, self.functions.names)
            if low is not None:
                self._low[call.callee_start] = low

    def _builtin(self, node: nodes.Call) -> Text:
        """The name of a built-in function."""
        name, same = node.name, (node.callee_start, node.callee_stop)
        if name in ("to_global", "to_local", "to_private") or name in cuda_dialect.GNU_FUNCTIONS:
            return [same]  # clang does not tell where all of these are written, so they are edited as words
        if not name or node.callee != name:
            raise Untranslatable(f"a call of {name or 'something that is not a name'}", node.line)
        template = cuda_dialect.template_of(name)
        if template is not None:
            return [f"::vdev_cl::{template}"]
        if name == "get_work_dim":
            self.uses_work_dim = True
        elif name not in self.known:
            raise Untranslatable(f"the built-in function {name}() is not translated to CUDA", node.line)
        return [same]

    def _printf(self, node: nodes.Call, format_: Node) -> tuple[Text, Part]:
        """6.12.13.2: a conversion of a vector becomes one for each component, separated by commas."""
        first = self._part(format_, exact=True)
        inner = behind_conversions(format_)
        if not isinstance(inner, nodes.String):
            return [(node.callee_start, node.callee_stop)], first
        said = _VECTOR_FORMAT.sub(_one_by_one, inner.written)
        if said == inner.written and not any(is_half(argument.type) for argument in node.arguments[1:]):
            return [(node.callee_start, node.callee_stop)], first
        return ["::vdev_cl::print"], _at(inner.start, inner.stop, said)

    def _compound_literal(self, node: nodes.CompoundLiteral) -> Text:
        contents = node.contents
        if vector_type(node.type) is not None and contents is not None:
            head = _at(node.start, node.closing + 1, f"::vdev_cl::make<{spell(node.type)}>")
            return _spliced(node, [head, *self._components(contents)])
        if contents is None or (clang.canonical(node.type).kind in ARRAYS and not node.passes):
            raise Untranslatable(
                "an array literal whose address is kept: in C++ it ends with its expression", node.line
            )
        opening = _at(node.start, node.start + 1, "::vdev_cl::identity<")
        closing = _at(node.closing, node.closing + 1, ">")
        return _spliced(node, [opening, closing, self._part(contents)])

    def _components(self, contents: nodes.List) -> list[Part]:
        """The list of a vector's parts, whatever its brackets are, as arguments of make()."""
        parts = [self._part(item.value, exact=True) for item in contents.items]
        if not contents.braces:
            return parts
        end = contents.stop - 1
        comma = [] if contents.comma is None else [_at(contents.comma, contents.comma + 1)]
        return [_at(contents.start, contents.start + 1, "("), *parts, *comma, _at(end, end + 1, ")")]

    def _list(self, node: nodes.List) -> Text:
        if vector_type(node.type) is not None:
            maker = [f"::vdev_cl::make<{spell(node.type)}>"] if node.braces else []
            return [*maker, *_spliced(node, self._components(node))]
        if clang.canonical(node.type).kind not in (*ARRAYS, TypeKind.RECORD):
            return self._plain(node, [item.value for item in node.items], exact=True)
        if node.braces and len(node.items) == 1 and not node.items[0].names and _is_zero(node.items[0].value):
            return ["{}"]  # C99 6.7.8p21: everything is zero, whatever its type
        return _spliced(node, Initialisers(self.edits, self._initial).parts(node))

    def _initial(self, node: Node) -> Text:
        """An initialiser, whose C type must show."""
        record = clang.canonical(node.type).kind == TypeKind.RECORD and not isinstance(node, nodes.List)
        inside = self.printed(node, exact=True)
        return ["::vdev_cl::parted(", *inside, ")"] if self._fields and record else inside

    def _calculation(self, node: nodes.Calculation, exact: bool) -> Text:
        left, right, operator = node.left, node.right, node.operator
        if self._within and not self._initialising:
            fusion = fusion_of(node, self.text, self._within)
            if fusion is not None:
                return self._fused(node, fusion)
        if operator in SHIFTS:
            return _spliced(node, [self._part(left, exact), self._shift_by(right, node.type)])
        truth = operator in _TRUTHS
        parts = [
            self._part(operand, is_half(operand.type if truth else node.type, operand.type))
            for operand in (left, right)
        ]
        inside = _spliced(node, parts)
        return ["((int)(", *inside, "))"] if truth and exact and vector_type(node.type) is None else inside

    def _unsettled(self, node: nodes.Member | nodes.Index, text: Text) -> Text:
        """A member, or an element of one, that is volatile and a class in C++: it has not been declared as volatile (`_settle`)."""
        if self.settles and clang.canonical(node.type).kind not in ARRAYS and is_volatile_class(node.type):
            return ["::vdev_cl::unsettled(", *text, ")"]
        return text

    def _fused(self, node: nodes.Calculation, fusion: Fusion) -> Text:
        of, sign = FUSED[clang.canonical(node.type).kind], "-" if fusion.subtracts else ""
        left, right, addend = (self.printed(part) for part in (fusion.left, fusion.right, fusion.addend))
        if fusion.product_first:
            return [f"::vdev_cl::fused_{of}(", *left, ", ", *right, f", {sign}(", *addend, "))"]
        # Printed parts stay in the text's order.
        return [f"::vdev_cl::fused_onto_{of}(", *addend, f", {sign}(", *left, "), ", *right, ")"]

    def _assignment(self, node: nodes.Assignment) -> Text:
        left, right = node.left, node.right
        copying = cuda_records.copying(left.type, self.word)
        if copying is not None:
            comma = _at(node.equals, node.equals + 1, ",")
            parts = [self._part(left, stored=True), comma, self._part(right)]
            return ["::vdev_cl::assigned(", *_spliced(node, parts), f", {copying})"]
        if is_volatile_record(left.type):
            target = self._around(left, "::vdev_cl::settled(", ")", stored=True)
        else:
            target = self._part(left, stored=True)
        return _spliced(node, [target, self._part(right, is_half(left.type, right.type))])

    def _shift_by(self, right: Node, shifted: Type) -> Part:
        """OpenCL C 6.3 j: only the number's low bits count; in C++, shifts that are too large are undefined."""
        if vector_type(shifted) is not None:
            return self._part(right)
        nbits = 64 if clang.canonical(shifted).get_size() > 4 else 32  # small integers are promoted
        if (
            isinstance(behind_conversions(right), nodes.Integer)
            and 0 <= (clang.evaluate(right.cursor) or 0) < nbits
        ):
            return self._part(right)
        return self._around(right, "((", f") & {nbits - 1})")

    def _update(self, node: nodes.Update) -> Text:
        self._narrow(node)
        left, right = node.left, node.right
        if node.operator in SHIFTS:
            value = self._shift_by(right, left.type)
        else:
            value = self._part(right, is_half(left.type, right.type))
        return _spliced(node, [self._part(left, stored=True), value])

    def _step(self, node: nodes.Step) -> Text:
        parts = [self._part(node.operand, stored=True)]
        if clang.canonical(node.operand.type).kind != TypeKind.BOOL:
            return _spliced(node, parts)
        place = node.stop - 2 if node.behind else node.start
        parts.insert(node.behind, _at(place, place + 2))
        name = "raised" if node.raises else "lowered"
        inside = _spliced(node, parts)
        return [f"::vdev_cl::{name}(", *inside, f", {'true' if node.behind else 'false'})"]

    def _conditional(self, node: nodes.Conditional, exact: bool) -> Text:
        if vector_type(node.condition.type) is None:
            arms = [self._part(arm, exact) for arm in (node.yes, node.no)]
            return _spliced(node, [self._part(node.condition), *arms])
        parts = [
            self._part(node.condition), _at(node.question, node.question + 1, ","),
            self._part(node.yes), _at(node.colon, node.colon + 1, ","), self._part(node.no),
        ]  # fmt: skip
        return ["::vdev_cl::choose(", *_spliced(node, parts), ")"]

    def _otherwise(self, node: nodes.Otherwise) -> Text:
        """`a ?: b`, the first evaluated once."""
        if vector_type(node.type) is not None:
            raise Untranslatable("a conditional without its second operand (`a ?: b`)", node.line)
        name = spell(node.type)
        parts = [
            self._part(node.first, exact=True), _at(node.question, node.question + 1, ", [&]() { return "),
            _at(node.colon, node.colon + 1), self._part(node.other, exact=True),
        ]  # fmt: skip
        inside = _spliced(node, parts)
        return [f"({f'({name})' if name else ''}::vdev_cl::otherwise(", *inside, "; }))"]

    def _block(self, node: nodes.Block) -> Text:
        """`({ ... })` becomes a lambda that is called immediately; it returns the last statement's value.

        Where jumps lead out of it nobody takes its value, and it becomes the statement in braces that it holds.
        """
        if node.alone:
            before = _at(node.start, node.start + 1, "")
            return _spliced(
                node, [before, *map(self._part, node.statements), _at(node.stop - 1, node.stop, "")]
            )
        parts: list[Part] = [_at(node.body_start, node.body_start, "[&]() ")]
        parts += [self._part(statement) for statement in node.statements[:-1]]
        for last in node.statements[-1:]:
            gives = clang.canonical(node.type).kind != TypeKind.VOID
            parts.append(self._around(last, "return (", ")", exact=True) if gives else self._part(last))
        return _spliced(node, [*parts, _at(node.body_stop, node.body_stop, "()")])

    # statements -------------------------------------------------------------------------------------

    def _for(self, node: nodes.For) -> Text:
        """C99 6.8.5p5: a loop's body has its own scope; in C++ it shares that of the variables that the loop
        declares.
        """
        *clauses, body = node.parts
        last = self._around(body, "{", "}") if node.hides else self._part(body)
        hint = [f'_Pragma("unroll {COPIES}") '] if wants_copies(node, self.text) else []
        return [*hint, *_spliced(node, [*map(self._part, clauses), last])]

    def _guard(self, node: nodes.Guard) -> Text:
        """A jump for each condition. NVRTC computes `a || b` before it jumps, NVIDIA's OpenCL jumps where `a` holds: what `b` needs
        is then computed where it is needed, and what is known of `a` in a loop is used outside.
        """
        parts: list[Part] = []
        for condition, following in itertools.pairwise(node.conditions):
            parts.append(self._part(condition))
            gap = self.text[condition.stop : following.start].decode()
            parts.append(_at(condition.stop, following.start, gap.replace("||", f") {node.jump}; else if (")))
        return _spliced(node, [*parts, self._part(node.conditions[-1]), self._part(node.body)])

    def _switch(self, node: nodes.Switch) -> Text:
        """The condition is written with its type after C's promotions, which C++ does not apply to enumerations.

        C++ has no ranges of labels: a value in one becomes the range's first number, which is in no other label.
        """
        type_, before, behind = node.condition.type, "", ""
        for ends in node.ranges:
            if converted(clang.evaluate(ends[0]), type_) > converted(clang.evaluate(ends[1]), type_):
                raise Untranslatable("an empty range of case labels", clang.line_of(ends[0]))
            low, high = (literal(clang.evaluate(number), type_) for number in ends)
            before, behind = f"::vdev_cl::first_of({before}", f"{behind}, {low}, {high})"
        condition = self._around(node.condition, f"{before}({spell(type_)})(", f"){behind}")
        return _spliced(node, [condition, self._part(node.body)])

    def _case(self, node: nodes.Case) -> Text:
        """C99 6.8.4.2p5: each label is converted to the type of the condition, which C++ refuses if that changes the
        value.
        """
        label = _at(node.label_start, node.label_stop, literal(clang.evaluate(node.first), node.condition))
        return _spliced(node, [label, self._part(node.statement)])


def _at(start: int, stop: int, *pieces: Piece) -> Part:
    return start, stop, list(pieces)


def _spliced(node: Node, parts: Iterable[Part]) -> Text:
    """The text of a node with parts in their places, which are in order; of two in one place, the first."""
    found: Text = []
    start, stop = node.start, node.stop
    for first, last, text in parts:
        if first < start:
            continue
        if first > start:
            found.append((start, first))
        found += text
        start = last
    if start < stop:
        found.append((start, stop))
    return found


def _is_view(node: Node) -> bool:
    """Whether a vector is itself a swizzle."""
    while isinstance(node, nodes.Parentheses):
        node = node.inner
    return isinstance(node, nodes.Swizzle)


def _is_zero(node: Node) -> bool:
    """Whether an initialiser is a literal number, and zero."""
    inner = behind_conversions(node)
    return isinstance(inner, nodes.Integer | nodes.Float) and clang.evaluate(inner.cursor) == 0


_VECTOR_FORMAT = re.compile(
    r"(%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d*))?)v(16|[2348])(hh|hl|h|l)?([diouxXfFeEgGaA])"
)


def _one_by_one(match: re.Match[str]) -> str:
    """A conversion of a vector in a format: flags, width, precision; number of components; length; the conversion."""
    front, count, length, conversion_ = match.groups()
    # Anything shorter than an int is passed as an int.
    one = f"{front}{'l' if length == 'l' else ''}{conversion_}"
    return ",".join([one] * int(count))
