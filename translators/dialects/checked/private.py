"""Private variables that are used before they are written.

Decides which variables are certainly written before each use, by the paths through a function; only the others get
shadow memory of their own (`include/checked/private.cl`). A copy to another variable does not count as a use: the
copy is as uninitialised as its source, whether that is a variable or an address in local or global memory, and a
value that is read and never used is not reported. A function that is given a variable's address may have written it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from clang.cindex import Cursor, CursorKind, Type, TypeKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.edits import Edits, Function, Functions
from ...frontend.operator_kinds import Joining, Placed
from ...frontend.syntax import swizzle_components
from ...frontend.types import OWN, Space
from .barriers import Wrap
from .calls import is_plain
from .definite_assignment import THROUGH, Paths, PathsWithin, variable_of
from .roots import expression_parts, is_array, is_pointer
from .sites import Recorder, flat, least_scalar
from .uses import MOST_LEAVES, VECTORS, is_place, leaves, touched_nbytes

_SCALARS = (
    TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.UCHAR, TypeKind.SHORT, TypeKind.USHORT, TypeKind.INT, TypeKind.UINT,
    TypeKind.LONG, TypeKind.ULONG, TypeKind.HALF, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.BOOL, TypeKind.ENUM,
)  # fmt: skip
_SWIZZLE = re.compile(r"\s*\.\s*(\w+)\s*")
#: Variables with more bytes than this have no shadow.
_LARGEST = 4096


@dataclass(frozen=True)
class _Variable:
    number: int
    cursor: Cursor = field(compare=False)
    statement: Cursor = field(compare=False)
    granule: int
    initial: Cursor | None = field(compare=False)

    @property
    def key(self) -> int:
        return int(self.cursor.hash)

    @property
    def nbytes(self) -> int:
        return int(self.cursor.type.get_size())


class Private:
    """The private variables of one program. `put`: takes what is put around a cursor."""

    def __init__(
        self,
        functions: Functions,
        recorder: Recorder,
        edits: Edits,
        put: Callable[[Cursor, Wrap], None],
        *,
        fast: bool,
    ) -> None:
        """`fast`: values that are copied out of memory are checked there."""
        self._fast = fast
        self._functions = functions
        self._recorder = recorder
        self._edits = edits
        self._put = put
        self._p = recorder.prefix
        self._parents: dict[int, Cursor] = {}
        self._tracked: dict[int, _Variable] = {}
        self._sites: dict[int, int] = {}
        #: numbers and vectors that are copied out of memory in the current function
        self._fetches: set[int] = set()
        self._own = {function.key: function for function in functions.defined}
        #: by function and number of a parameter: whether its value is used; True until that is known
        self._needed: dict[tuple[int, int], bool] = {}

    @property
    def used(self) -> bool:
        """Whether any variable has a shadow."""
        return bool(self._sites)

    def look(self) -> None:
        """Plan what all functions need."""
        for function in self._functions.defined:
            self._look(function)

    def _look(self, function: Function) -> None:
        self._parents = {}
        declared: dict[int, _Variable] = {}
        references: list[Cursor] = []
        stack = [function.cursor]
        while stack:
            cursor = stack.pop()
            for child in clang.children(cursor):
                self._parents[int(child.hash)] = cursor
                stack.append(child)
                if child.kind is CursorKind.DECL_REF_EXPR:
                    references.append(child)
                elif child.kind is CursorKind.VAR_DECL:
                    self._declare(declared, child, cursor)
        candidates = {key: v.cursor for key, v in declared.items() if v.initial is None}
        values = self._values(declared, references)
        fetched = {key for key in declared if self._is_fetched(declared[key], values.get(key, []))}
        self._fetches = {key for key in fetched if not _is_record(declared[key].cursor.type)}
        if not (candidates or fetched):
            return
        paths = Paths(candidates, self._needs)
        for child in function.cursor.get_children():
            if child.kind is CursorKind.COMPOUND_STMT:
                paths.follow(child, frozenset())
        unsure = {key: declared[key] for key in paths.unsure | fetched}
        self._tracked = self._with_copies(unsure, declared, references)
        # In the text's order: what a variable is copied from stands before it.
        for variable in sorted(self._tracked.values(), key=lambda each: each.cursor.extent.start.offset):
            self._declaration(function, variable)
        for reference in references:
            self._reference(function, reference)

    def _declare(self, declared: dict[int, _Variable], cursor: Cursor, statement: Cursor) -> None:
        type_ = cursor.type
        body = self._parents.get(int(statement.hash))
        inside = statement.kind is CursorKind.DECL_STMT and body is not None
        if (
            not inside
            or body is None
            or body.kind is not CursorKind.COMPOUND_STMT
            or clang.address_space(type_) not in OWN
        ):
            return
        storage = getattr(cursor.storage_class, "name", "")
        if type_.is_volatile_qualified() or storage in ("STATIC", "EXTERN") or not _is_data(type_):
            return
        if 0 < type_.get_size() <= _LARGEST:
            parts = expression_parts(cursor)
            # an array's size is an expression, too
            initial = parts[-1] if parts and not is_array(cursor) else None
            if is_array(cursor) and any(p.kind is CursorKind.INIT_LIST_EXPR for p in parts):
                return
            variable = _Variable(len(declared), cursor, statement, least_scalar(type_), initial)
            declared[variable.key] = variable

    def _needs(self, call: Cursor, number: int) -> bool:
        """Whether a function uses the value of an argument, rather than overwriting it first: passing an argument is
        only a copy.
        """
        callee = None if call.referenced is None else self._own.get(self._functions.key(call.referenced))
        if callee is None:
            return True
        key = callee.key, number
        if key not in self._needed:
            self._needed[key] = True
            parameters = list(callee.cursor.get_arguments())
            parameter = int(parameters[number].hash) if number < len(parameters) else 0
            paths = PathsWithin({parameter: parameters[number]} if parameter else {}, self._needs)
            for child in callee.cursor.get_children():
                if child.kind is CursorKind.COMPOUND_STMT:
                    paths.follow(child, frozenset())
            self._needed[key] = not parameter or parameter in paths.unsure
        return self._needed[key]

    def _is_needed(self, reference: Cursor) -> bool:
        """False for an argument that its function overwrites."""
        cursor, parent = reference, self._parents[int(reference.hash)]
        while parent.kind in THROUGH and len(expression_parts(parent)) == 1:
            cursor, parent = parent, self._parents[int(parent.hash)]
        if parent.kind is not CursorKind.CALL_EXPR or variable_of(cursor) is None:
            return True
        numbers = [number for number, part in enumerate(expression_parts(parent)[1:]) if part == cursor]
        return not numbers or self._needs(parent, numbers[0])

    def _values(self, declared: dict[int, _Variable], references: list[Cursor]) -> dict[int, list[Cursor]]:
        """By variable: the values assigned to all of it."""
        found = {key: [v.initial] for key, v in declared.items() if v.initial is not None}
        for reference in references:
            key, parent = variable_of(reference), self._parents[int(reference.hash)]
            if key in declared and _is_assigned(reference, parent):
                found.setdefault(key, []).append(expression_parts(parent)[1])
        return found

    def _is_fetched(self, variable: _Variable, values: list[Cursor]) -> bool:
        """Whether a variable gets its whole value out of memory that others write."""
        alone = variable.initial is None or len(list(variable.statement.get_children())) == 1
        kind = variable.cursor.type.get_canonical().kind
        if self._fast or not alone or kind not in (TypeKind.RECORD, *_SCALARS, *VECTORS):
            return False
        found = {int(self._innermost(value).hash) for value in values if self._is_memory(value)}
        self._recorder.noted |= found
        return bool(found)

    def _is_memory(self, value: Cursor) -> bool:
        place = self._innermost(value)
        if not is_place(place) or clang.address_space(place.type) not in (Space.GLOBAL, Space.LOCAL):
            return False
        return _is_record(place.type) or not (
            place.type.is_volatile_qualified() or is_array(place) or self._is_part(value)
        )

    def _is_part(self, value: Cursor) -> bool:
        """Whether a value is components of a vector."""
        while value.kind in THROUGH:
            inner = expression_parts(value)[0]
            if self._swizzled(value, inner) is not None:
                return True
            value = inner
        return False

    def _fetched(self, variable: _Variable, value: Cursor | None) -> str | None:
        """Marks a variable as written if the place that it was copied from is."""
        if value is None or int(self._innermost(value).hash) not in self._recorder.noted:
            return None
        cells, p = -(-variable.nbytes // variable.granule), self._p
        if variable.key in self._fetches:
            place = self._innermost(value).type
            alike = place.get_size() == variable.nbytes and least_scalar(place) == variable.granule
            granule, nbytes = variable.granule if alike else 0, touched_nbytes(self._innermost(value))
            return f"{p}got({p}c, {self._shadow(variable)}, {cells}, {granule}, {nbytes}, &{self._source(variable)})"
        return f"{p}fetched({p}c, {self._shadow(variable)}, {cells}, {variable.granule})"

    def _with_copies(
        self, tracked: dict[int, _Variable], declared: dict[int, _Variable], references: list[Cursor]
    ) -> dict[int, _Variable]:
        """Variables that are copies of an unsure one are unsure as well."""
        before = -1
        while before != (before := len(tracked)):
            for reference in references:
                if variable_of(reference) in tracked:
                    target = self._copied_to(reference)
                    if target in declared:
                        tracked[target] = declared[target]
        return tracked

    def _copied_to(self, reference: Cursor) -> int | None:
        """The variable that gets this one's value, whole and unchanged."""
        cursor, parent = reference, self._parents[int(reference.hash)]
        while (
            parent.kind in THROUGH
            and len(expression_parts(parent)) == 1
            and not self._swizzled(parent, cursor)
        ):
            cursor, parent = parent, self._parents[int(parent.hash)]
        if parent.kind is CursorKind.VAR_DECL and not is_array(parent):
            target, type_ = int(parent.hash), parent.type
        elif parent.kind is CursorKind.BINARY_OPERATOR and clang.binary_operator(parent) is Joining.ASSIGN:
            place, value = expression_parts(parent)
            named = variable_of(place)
            if value != cursor or named is None or place.kind is not CursorKind.DECL_REF_EXPR:
                return None
            target, type_ = named, place.type
        else:
            return None
        same = type_.get_canonical().get_size() == reference.type.get_size()
        plain = least_scalar(type_) == least_scalar(reference.type)
        return target if same and plain and not is_array(reference) else None

    def _declaration(self, function: Function, variable: _Variable) -> None:
        p = self._p
        self._sites[variable.key] = self._recorder.site(
            variable.cursor, "declaration", function.name, name=variable.cursor.spelling, space="private"
        )
        name, cells = self._shadow(variable), -(-variable.nbytes // variable.granule)
        source = None if variable.initial is None else self._tracked.get(variable_of(variable.initial) or 0)
        copied = source is not None and self._before(source.statement, variable.cursor)
        copied = (
            copied
            and source is not None
            and self._copied_to(self._innermost(variable.initial)) == variable.key
        )
        text = f" uchar {name}[{cells}]; "
        if self._fetches:
            text += f"{p}from {self._source(variable)}; {self._source(variable)}.place = 0; "
        if variable.initial is None:
            text += f"{p}mark({name}, 0, {cells}, {cells}, 0);"
        elif copied and source is not None:
            text += f"{p}copied({name}, {self._shadow(source)}, {cells});"
            text += f" {self._source(variable)} = {self._source(source)};" if self._fetches else ""
        else:
            fetched = self._fetched(variable, variable.initial)
            text += f"{fetched or f'{p}mark({name}, 0, {cells}, {cells}, 1)'};"
        stop = self._recorder.extent(variable.statement)[1]
        self._edits.insert(stop, text)

    @staticmethod
    def _innermost(cursor: Cursor | None) -> Cursor:
        assert cursor is not None
        while cursor.kind in THROUGH:
            cursor = expression_parts(cursor)[0]
        return cursor

    @staticmethod
    def _before(statement: Cursor, cursor: Cursor) -> bool:
        return bool(statement.extent.end.offset <= cursor.extent.start.offset)

    def _shadow(self, variable: _Variable) -> str:
        return f"{self._p}w_{self._sites[variable.key]}"

    def _source(self, variable: _Variable) -> str:
        """The name of the record of where a variable's value was read."""
        return f"{self._p}f_{self._sites[variable.key]}"

    # uses

    def _reference(self, function: Function, reference: Cursor) -> None:
        variable = self._tracked.get(variable_of(reference) or 0)
        if variable is None or not self._before(variable.statement, reference):
            return
        place, parent = self._place(reference)
        if parent.kind is CursorKind.CXX_UNARY_EXPR:
            return
        kind = parent.kind
        assigns = kind is CursorKind.BINARY_OPERATOR and clang.binary_operator(parent) is Joining.ASSIGN
        first = bool(expression_parts(parent)) and expression_parts(parent)[0] == place
        if assigns and first:
            self._written(variable, place, parent)
        elif kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(parent) is Placed.ADDRESS:
            self._around(parent, self._marks_all(variable))
        elif is_array(place):
            self._around(place, self._marks_all(variable))
        elif (kind is CursorKind.COMPOUND_ASSIGNMENT_OPERATOR and first) or (
            kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(parent) in (Placed.RAISE, Placed.LOWER)
        ):
            self._read(function, variable, place, parent)
        elif self._is_needed(reference) and (
            self._copied_to(reference) not in self._tracked or place != reference
        ):
            self._read(function, variable, place, place)

    def _place(self, reference: Cursor) -> tuple[Cursor, Cursor]:
        """The outermost place that contains a variable's name, and what surrounds it."""
        place, parent = reference, self._parents[int(reference.hash)]
        while self._goes_on(place, parent):
            place, parent = parent, self._parents[int(parent.hash)]
        return place, parent

    def _goes_on(self, place: Cursor, parent: Cursor) -> bool:
        kind = parent.kind
        if kind is CursorKind.PAREN_EXPR:
            return True
        if kind is CursorKind.MEMBER_REF_EXPR:
            return not is_pointer(place)
        if kind is CursorKind.ARRAY_SUBSCRIPT_EXPR:
            base = expression_parts(parent)[0]
            return base == place and (not is_pointer(place) or place.kind is CursorKind.UNEXPOSED_EXPR)
        if kind is CursorKind.UNEXPOSED_EXPR and is_array(place) and is_pointer(parent):
            above = self._parents[int(parent.hash)]
            return above.kind is CursorKind.ARRAY_SUBSCRIPT_EXPR and expression_parts(above)[0] == parent
        return kind is CursorKind.UNEXPOSED_EXPR and self._swizzled(parent, place) is not None

    def _swizzled(self, cursor: Cursor, inner: Cursor) -> list[int] | None:
        """Which components of a vector an expression chooses."""
        if inner.type.get_canonical().kind not in VECTORS:
            return None
        stop, end = clang.extent_of(inner)[1], clang.extent_of(cursor)[1]
        match = _SWIZZLE.fullmatch(flat(self._functions.text[stop:end].decode("utf-8", "replace")))
        if match is None or clang.extent_of(cursor)[0] != clang.extent_of(inner)[0]:
            return None
        return list(swizzle_components(match[1], inner.type.get_canonical().element_count))

    def _parts(self, variable: _Variable, place: Cursor) -> list[tuple[str, str]] | None:
        """(first cell, cells) of a place, as text; None if the place cannot be evaluated twice."""
        if not is_plain(place):
            return None
        granule, inner, chosen = variable.granule, place, None
        while inner.kind is CursorKind.PAREN_EXPR:
            inner = expression_parts(inner)[0]
        if inner.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.MEMBER_REF_EXPR) and expression_parts(inner):
            base = expression_parts(inner)[0]
            chosen = self._swizzled(inner, base)
            place = place if chosen is None else base
        if any(c.type.get_canonical().kind in VECTORS for c in self._subscripted(place)):
            return None
        name, text = variable.cursor.spelling, self._recorder.text(place)
        first = (
            "0"
            if text == name
            else f"(uint)((__private uchar *)&({text}) - (__private uchar *)&{name}) / {granule}"
        )
        if chosen is None:
            return [(first, str(max(1, touched_nbytes(place) // granule)))]
        width = place.type.get_canonical().element_type.get_size() // granule
        return [(f"{first} + {component * width}", str(width)) for component in sorted(set(chosen))]

    @staticmethod
    def _subscripted(place: Cursor) -> list[Cursor]:
        """What is subscripted within a place: elements of vectors have no address."""
        return [
            expression_parts(found)[0]
            for found in clang.walk(place)
            if found.kind is CursorKind.ARRAY_SUBSCRIPT_EXPR
        ]

    def _marks_all(self, variable: _Variable) -> str:
        cells = -(-variable.nbytes // variable.granule)
        return f"{self._p}mark({self._shadow(variable)}, 0, {cells}, {cells}, 1)"

    def _around(self, cursor: Cursor, before: str, after: str = "") -> None:
        """Two parentheses: after the type of a vector, one alone would list its components."""
        start, stop = self._recorder.extent(cursor)
        self._put(cursor, Wrap(start, f"(({before}, " if before else "((", stop, f"{after}))"))

    def _written(self, variable: _Variable, place: Cursor, assignment: Cursor) -> None:
        p, shadow = self._p, self._shadow(variable)
        parts = self._parts(variable, place)
        cells = -(-variable.nbytes // variable.granule)
        if parts is None:
            self._around(assignment, self._marks_all(variable))
            return
        value = expression_parts(assignment)[1]
        source = self._tracked.get(variable_of(value) or 0)
        fetched = self._fetched(variable, value) if place.kind is CursorKind.DECL_REF_EXPR else None
        if fetched is not None:
            marks = [fetched]
        elif source is not None and self._copied_to(self._innermost(value)) == variable.key:
            marks = [f"{p}copied({shadow}, {self._shadow(source)}, {cells})"]
            if self._fetches:
                marks.append(f"{self._source(variable)} = {self._source(source)}")
        else:
            marks = [f"{p}mark({shadow}, {first}, {count}, {cells}, 1)" for first, count in parts]
        self._around(assignment, "", f", {', '.join(marks)}, {self._recorder.text(place)}")

    def _read(self, function: Function, variable: _Variable, place: Cursor, around: Cursor) -> None:
        parts = self._parts(variable, place)
        if parts is None:
            return
        p, cells = self._p, -(-variable.nbytes // variable.granule)
        whole = place.type.get_canonical().kind in (TypeKind.RECORD, *VECTORS)
        stored = whole and around == place and self._is_stored(place)
        if stored and place.type.get_canonical().kind is TypeKind.RECORD:
            scalars = list(leaves(place.type))
            if len(scalars) <= MOST_LEAVES:
                first, granule = parts[0][0], variable.granule
                parts = [
                    (f"{first} + {byte // granule}", str(max(1, size // granule))) for byte, size in scalars
                ]
        site = self._recorder.site(
            place,
            "private",
            function.name,
            name=variable.cursor.spelling,
            space="private",
            nbytes=touched_nbytes(place),
        )
        some = int(whole and not stored and len(parts) == 1)
        tail = f"{cells}, {some}, {site}, {self._sites[variable.key]}"
        look = "written"
        if self._fetches:
            look, tail = "used", f"{tail}, &{self._source(variable)}"
        looks = [
            f"{p}{look}({p}c, {self._shadow(variable)}, {first}, {count}, {tail})" for first, count in parts
        ]
        self._around(around, ", ".join(looks))

    def _is_stored(self, place: Cursor) -> bool:
        """Whether a value goes, unchanged, to memory that others see."""
        cursor, parent = place, self._parents[int(place.hash)]
        while parent.kind in THROUGH:
            cursor, parent = parent, self._parents[int(parent.hash)]
        if parent.kind is CursorKind.CALL_EXPR:
            return str(parent.spelling).startswith(("vstore", "write_image"))
        if parent.kind is not CursorKind.BINARY_OPERATOR:
            return False
        if clang.binary_operator(parent) is not Joining.ASSIGN:
            return False
        target, value = expression_parts(parent)
        return value == cursor and clang.address_space(target.type) not in OWN


def _is_assigned(place: Cursor, parent: Cursor) -> bool:
    assigns = parent.kind is CursorKind.BINARY_OPERATOR and clang.binary_operator(parent) is Joining.ASSIGN
    return assigns and expression_parts(parent)[0] == place


def _is_record(type_: Type) -> bool:
    return bool(type_.get_canonical().kind is TypeKind.RECORD)


def _is_data(type_: Type) -> bool:
    canonical = type_.get_canonical()
    if canonical.kind in (TypeKind.CONSTANTARRAY, *VECTORS):
        return _is_data(canonical.element_type)
    if canonical.kind is TypeKind.RECORD:
        fields = list(canonical.get_fields())
        union = canonical.get_declaration().kind is CursorKind.UNION_DECL
        return bool(fields) and not union and all(not f.is_bitfield() and _is_data(f.type) for f in fields)
    return canonical.kind in _SCALARS or canonical.kind is TypeKind.POINTER
