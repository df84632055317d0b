"""The walk through a function's body: which expressions touch memory, how, and what is put around them.

Decides for each place whether it is read, written, changed or merely named (C99 6.3.2.1): an access is the outermost
place in a chain of subscripts and members; a place of array type is not an access. Every edit is put in front of an
expression or behind it, so that edits nest as expressions do.
"""

from __future__ import annotations

import re

from clang.cindex import Cursor, CursorKind, TypeKind

from ...frontend import clang
from ...frontend.edits import Edits, Function, Functions
from ...frontend.operator_kinds import SHIFTS, Binary, Joining, Placed
from ...frontend.syntax import swizzle_components
from ...frontend.types import OWN, Space
from . import images
from .barriers import Meetings, Wrap
from .calls import Call, classify, is_plain
from .roots import Roots, expression_parts, is_address, is_array, is_parameter, is_pointer
from .sites import Recorder, flat, integer_name
from .uses import (
    ATOMICALLY,
    CHECKS,
    MODES,
    SETTLES,
    UNSURE,
    VECTORS,
    VOLATILE,
    Part,
    Use,
    is_place,
    part_of,
    touched_nbytes,
    wanted_runs,
)

__all__ = ["CHECKS", "Body", "Recorder"]

_STATEMENT_PARTS = (
    CursorKind.COMPOUND_STMT,
    CursorKind.LABEL_STMT,
    CursorKind.CASE_STMT,
    CursorKind.DEFAULT_STMT,
)
_BRANCHES = (CursorKind.IF_STMT, CursorKind.WHILE_STMT, CursorKind.FOR_STMT)
_SWIZZLE = re.compile(r"\s*(\.|->)\s*(\w+)\s*")
_NO_TYPE = (TypeKind.INVALID, TypeKind.UNEXPOSED, TypeKind.OVERLOAD, TypeKind.DEPENDENT)


class Body:
    """One function being rewritten. `known`: the names of its parameters' roots (see `roots`)."""

    def __init__(
        self,
        recorder: Recorder,
        edits: Edits,
        functions: Functions,
        function: Function,
        known: dict[int, str],
        meetings: Meetings,
    ) -> None:
        self.wraps = meetings.wraps
        self.recorder = recorder
        self.edits = edits
        self.functions = functions
        self.function = function
        self.p = recorder.prefix
        self.roots = Roots(function.cursor, known)
        self.own = frozenset(function.key for function in functions.defined)
        self._stored_whole: set[int] = set()  #: places of structures that are copied to memory unchanged

    def rewrite(self) -> None:
        ends = self._wrapped(self.function.cursor)
        for child in self.function.cursor.get_children():
            if child.kind is CursorKind.COMPOUND_STMT:
                self._statement(child)
        self._close(ends)

    def _wrapped(self, cursor: Cursor) -> list[Wrap]:
        """What other modules put before an expression or a statement; `_close` puts the rest behind it."""
        found = self.wraps.pop(int(cursor.hash), [])
        for wrap in found:
            wrap.open(self.edits)
        return found

    def _close(self, wraps: list[Wrap]) -> None:
        for wrap in reversed(wraps):
            wrap.close(self.edits)

    # statements

    def _statement(self, cursor: Cursor) -> None:
        """A statement, or an expression whose value is not used."""
        ends = self._wrapped(cursor)
        self._bare_statement(cursor)
        self._close(ends)

    def _bare_statement(self, cursor: Cursor) -> None:  # noqa: C901 (a case for each kind)
        parts = list(cursor.get_children())
        if cursor.kind in _STATEMENT_PARTS:
            for part in parts[:-1] if cursor.kind is CursorKind.CASE_STMT else []:
                self._expression(part)
            for part in parts[-1:] if cursor.kind is CursorKind.CASE_STMT else parts:
                self._statement(part)
        elif cursor.kind in _BRANCHES:
            first = 1 if cursor.kind is not CursorKind.FOR_STMT else len(parts) - 1
            for index, part in enumerate(parts):
                (self._statement if index >= first else self._expression)(part)
        elif cursor.kind is CursorKind.DO_STMT:
            self._statement(parts[0])
            self._expression(parts[1])
        elif cursor.kind is CursorKind.SWITCH_STMT:
            self._expression(parts[0])
            self._statement(parts[-1])
        elif cursor.kind is CursorKind.DECL_STMT:
            for part in parts:
                self._declaration(part)
        elif cursor.kind.is_statement():  # return, goto, break and similar
            for part in parts:
                self._expression(part)
        else:
            self._discarded(cursor)

    def _declaration(self, cursor: Cursor) -> None:
        if cursor.kind is CursorKind.VAR_DECL and clang.address_space(cursor.type) in OWN:
            for part in expression_parts(cursor):
                self._expression(part)

    def _discarded(self, cursor: Cursor) -> None:
        """An expression statement: a check of what a store replaces can come after it."""
        if cursor.kind is CursorKind.BINARY_OPERATOR and clang.binary_operator(cursor) is Joining.ASSIGN:
            target, value = expression_parts(cursor)
            self._copies(target, value)
            settles = self._space(target) in (Space.GLOBAL, Space.LOCAL) and not self._calls_own(value)
            self._expression(target, Use.WRITE, SETTLES if settles else 0)
            self._expression(value)
            if settles:
                self._after(cursor)
        elif cursor.kind is CursorKind.CALL_EXPR:
            self._call(cursor, wanted=False)
        else:
            self._expression(cursor)

    def _copies(self, target: Cursor, value: Cursor) -> None:
        """A structure that goes from memory to memory is needed whole, except for its padding."""
        if value.type.get_canonical().kind is TypeKind.RECORD and self._space(target) is not None:
            while value.kind in (CursorKind.PAREN_EXPR, CursorKind.UNEXPOSED_EXPR):
                value = expression_parts(value)[0]
            self._stored_whole.add(int(value.hash))

    def _after(self, cursor: Cursor) -> None:
        self.edits.insert(self.recorder.extent(cursor)[1], f", {self.p}after({self.p}c)")

    def _calls_own(self, cursor: Cursor) -> bool:
        """Whether functions of the program's own run in between, whose stores would be checked before this one is
        made.
        """
        calls = (found for found in clang.walk(cursor) if found.kind is CursorKind.CALL_EXPR)
        return any(c.referenced is not None and self.functions.key(c.referenced) in self.own for c in calls)

    # expressions

    def _expression(self, cursor: Cursor, use: Use = Use.READ, flags: int = 0) -> None:
        ends = self._wrapped(cursor)
        self._bare_expression(cursor, use, flags)
        self._close(ends)

    def _bare_expression(self, cursor: Cursor, use: Use, flags: int) -> None:  # noqa: C901 (a case for each kind)
        kind = cursor.kind
        if kind.is_statement():
            self._statement(cursor)
        elif kind is CursorKind.PAREN_EXPR:
            self._expression(expression_parts(cursor)[0], use, flags)
        elif kind is CursorKind.UNEXPOSED_EXPR:
            self._unexposed(cursor, use, flags)
        elif kind in (CursorKind.ARRAY_SUBSCRIPT_EXPR, CursorKind.MEMBER_REF_EXPR, CursorKind.DECL_REF_EXPR):
            self._place(cursor, use, flags)
        elif kind is CursorKind.UNARY_OPERATOR:
            self._unary(cursor, use, flags)
        elif kind in (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR):
            self._binary(cursor)
        elif kind is CursorKind.CALL_EXPR:
            self._call(cursor, wanted=True)
        elif kind is CursorKind.StmtExpr:
            self._block(next(iter(cursor.get_children())))
        elif kind is not CursorKind.CXX_UNARY_EXPR:  # sizeof evaluates nothing (C99 6.5.3.4)
            for part in expression_parts(cursor):
                self._expression(part)

    def _block(self, cursor: Cursor) -> None:
        """The statements of `({ … })`, whose last one gives the value."""
        parts = list(cursor.get_children())
        for part in parts[:-1]:
            self._statement(part)
        for part in parts[-1:]:
            self._expression(part)

    def _unary(self, cursor: Cursor, use: Use, flags: int) -> None:
        operator, parts = clang.unary_operator(cursor), expression_parts(cursor)
        if operator is Placed.DEREFERENCE:
            self._place(cursor, use, flags)
        elif operator in (Placed.RAISE, Placed.LOWER):
            self._expression(parts[0], Use.UPDATE)
        elif operator is Placed.ADDRESS:
            self._expression(parts[0], Use.NAMED)
        else:
            for part in parts:
                self._expression(part)

    def _binary(self, cursor: Cursor) -> None:
        operator = clang.binary_operator(cursor)
        target, value = expression_parts(cursor)
        use = Use.READ
        if cursor.kind is CursorKind.COMPOUND_ASSIGNMENT_OPERATOR:
            use = Use.UPDATE
        elif operator is Joining.ASSIGN:
            use = Use.WRITE
            self._copies(target, value)
        self._expression(target, use)
        self._value(cursor, target, value)

    def _value(self, cursor: Cursor, target: Cursor, value: Cursor) -> None:
        """The right operand."""
        operator = clang.binary_operator(cursor)
        if operator in (Binary.DIVIDE, Binary.REMAINDER):
            self._divisor(cursor, value)
        elif operator in SHIFTS:
            self._shift(cursor, target, value)
        else:
            self._expression(value)

    def _divisor(self, cursor: Cursor, value: Cursor) -> None:
        name = integer_name(value.type) if value.type.kind not in _NO_TYPE else None
        constant = clang.evaluate(value) if name is not None else None
        if name is None or name.startswith("bool") or constant not in (None, 0):
            self._expression(value)
            return
        site = self.recorder.site(cursor, "division", self.function.name)
        start, stop = self.recorder.extent(value)
        self.edits.insert(start, f"{self.recorder.divisor(name)}({self.p}c, (")
        self._expression(value)
        self.edits.insert(stop, f"), {site})")

    def _shift(self, cursor: Cursor, target: Cursor, value: Cursor) -> None:
        name = integer_name(value.type) if value.type.kind not in _NO_TYPE else None
        bits = 8 * cursor.type.get_size()
        constant = clang.evaluate(value) if name is not None else None
        known = isinstance(constant, int) and 0 <= constant < bits
        if name is None or name[-1].isdigit() or name == "bool" or integer_name(target.type) is None or known:
            self._expression(value)
            return
        site = self.recorder.site(cursor, "shift", self.function.name, limit=bits)
        start, stop = self.recorder.extent(value)
        self.edits.insert(start, f"{self.recorder.shift(name)}({self.p}c, (")
        self._expression(value)
        self.edits.insert(stop, f"), {bits}u, {site})")

    # places

    def _unexposed(self, cursor: Cursor, use: Use, flags: int) -> None:
        """A conversion, or components of a vector."""
        parts = expression_parts(cursor)
        if len(parts) != 1:
            for part in parts:
                self._expression(part)
            return
        found = self._swizzle(cursor, parts[0])
        if found is None:
            self._expression(parts[0], use, flags)
            return
        arrow, part = found
        if arrow:
            self.recorder.skip(cursor, "components behind a pointer to a vector are not checked")
            self._expression(parts[0])
        else:
            self._place(parts[0], use, flags, part)

    def _swizzle(self, cursor: Cursor, inner: Cursor) -> tuple[bool, Part] | None:
        if inner.type.kind in _NO_TYPE:
            return None
        stop, end = clang.extent_of(inner)[1], clang.extent_of(cursor)[1]
        match = _SWIZZLE.fullmatch(flat(self.functions.text[stop:end].decode("utf-8", "replace")))
        if match is None or clang.extent_of(cursor)[0] != clang.extent_of(inner)[0]:
            return None
        if match[1] == "->":
            return True, Part(0, 0)
        vector = inner.type.get_canonical()
        nbytes = vector.element_type.get_size()
        chosen = swizzle_components(match[2], vector.element_count)
        count = 1
        while count < len(chosen) and chosen[count] == chosen[0] + count:
            count += 1
        return False, Part(chosen[0] * nbytes, count * nbytes)

    def _place(self, cursor: Cursor, use: Use, flags: int, part: Part | None = None) -> None:
        """An expression that names an object, and all within it."""
        while cursor.kind is CursorKind.PAREN_EXPR:
            cursor = expression_parts(cursor)[0]
        space = self._space(cursor)
        if not is_place(cursor):
            self._expression(cursor, use, flags)
            return
        if use in MODES and is_array(cursor):
            use = Use.NAMED  # it becomes a pointer to its first element
        if use not in MODES or space is None or not self._is_checked(cursor, space):
            self._inside(cursor, use)
            return
        start, stop = self.recorder.extent(cursor)
        before, after = self._around(cursor, space, use, flags, part)
        self.edits.insert(start, before)
        self._inside(cursor, use)
        self.edits.insert(stop, after)

    def _space(self, cursor: Cursor) -> Space | None:
        if cursor.type.kind in _NO_TYPE:
            return None
        space = clang.address_space(cursor.type)
        if space is Space.GENERIC:
            self.recorder.skip(cursor, "a pointer to the generic address space is not checked")
        return space if space in CHECKS else None

    def _is_checked(self, cursor: Cursor, space: Space) -> bool:
        if cursor.kind is CursorKind.DECL_REF_EXPR:
            return space is Space.LOCAL  # variables of the program's scope stay where they are
        return not (cursor.kind is CursorKind.MEMBER_REF_EXPR and cursor.referenced.is_bitfield())

    def _around(
        self, cursor: Cursor, space: Space, use: Use, flags: int, part: Part | None
    ) -> tuple[str, str]:
        type_ = cursor.type.get_canonical()
        if part is None:
            part = Part(0, touched_nbytes(cursor))
        mode = MODES[use] | flags
        if type_.kind is TypeKind.RECORD:
            mode |= UNSURE
        if type_.is_volatile_qualified():
            # In local memory the store may still turn out to have the same value; elsewhere groups wait for each
            # other in this way.
            mode = mode | VOLATILE if space is Space.LOCAL else mode & ~SETTLES | ATOMICALLY | VOLATILE
        self.recorder.saw(type_)
        root = self.roots.of(cursor)
        site = self.recorder.site(
            cursor,
            use.value,
            self.function.name,
            name=self._root_name(cursor),
            space=space.name.lower(),
            nbytes=part.nbytes,
        )
        raw, p, check = self.recorder.unevaluated(cursor), self.p, CHECKS[space]
        looks = []
        if use is Use.READ and int(cursor.hash) in self._stored_whole and space is not Space.CONSTANT:
            looks = wanted_runs(type_)
        before = f"(*(__typeof__(&({raw}))){p}{check}({p}c, {f'{p}members_{check}({p}c, ' * len(looks)}&("
        after = "".join(f", {byte}u, {nbytes}u, {site}, {root})" for byte, nbytes in looks)
        if use is Use.READ and int(cursor.hash) in self.recorder.noted:
            before, after = before[:-2] + f"{p}note_{check}({p}c, &(", f", {site})" + after
            mode |= UNSURE
        return before, f"){after}, {part.offset}u, {part.nbytes}u, {site}, {root}, {mode}u))"

    def _root_name(self, cursor: Cursor) -> str:
        """The variable at the bottom of a place, for messages."""
        while True:
            if cursor.kind is CursorKind.DECL_REF_EXPR:
                return str(cursor.spelling)
            parts = [part for part in expression_parts(cursor) if part.type.kind not in _NO_TYPE]
            chosen = [part for part in parts if is_pointer(part) or is_array(part)] or parts
            if not chosen:
                return ""
            cursor = chosen[0]

    def _inside(self, cursor: Cursor, use: Use) -> None:
        """Everything that has to be evaluated to find the place."""
        parts = expression_parts(cursor)
        if cursor.kind is CursorKind.ARRAY_SUBSCRIPT_EXPR:
            self._subscript(cursor, parts, use)
        elif cursor.kind is CursorKind.MEMBER_REF_EXPR and parts:
            if is_pointer(parts[0]):
                self._expression(parts[0])
            else:
                self._place(parts[0], part_of(use) if is_place(parts[0]) else Use.READ, 0)
        elif cursor.kind is not CursorKind.DECL_REF_EXPR:
            for part in parts:
                self._expression(part)

    def _subscript(self, cursor: Cursor, parts: list[Cursor], use: Use) -> None:
        base, index = parts
        if not (is_pointer(base) or is_array(base)) and base.type.get_canonical().kind not in VECTORS:
            self._expression(base)  # as in 3[a]
            self._expression(index)
            return
        if base.type.get_canonical().kind in VECTORS:
            self.recorder.skip(cursor, "an element of a vector, chosen by number, is not checked")
            self._place(base, Use.NAMED, 0)
            self._expression(index)
            return
        array = base
        while array.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR) and not is_array(array):
            inner = expression_parts(array)
            if len(inner) != 1:
                break
            array = inner[0]
        self._expression(base, part_of(use) if is_array(array) else Use.READ)
        count = (
            array.type.get_canonical().element_count
            if array.type.get_canonical().kind is TypeKind.CONSTANTARRAY and not is_parameter(array)
            else 0
        )
        if count:
            self._index(cursor, index, count, use)
        else:
            self._expression(index)

    def _index(self, cursor: Cursor, index: Cursor, count: int, use: Use) -> None:
        limit = count + 1 if use is Use.NAMED else count
        constant = clang.evaluate(index)
        if isinstance(constant, int) and 0 <= constant < limit:
            self._expression(index)
            return
        space = self._space(cursor)
        # 1: the check of the access that follows sends it elsewhere; 2: nothing is accessed; 0: the first element is
        # used
        where = 0 if space is None else 2 if use in (Use.NAMED, Use.NAMED_PART) else 1
        site = self.recorder.site(
            cursor,
            "index",
            self.function.name,
            name=self._root_name(cursor),
            space=(space or Space.PRIVATE).name.lower(),
            limit=count,
        )
        start, stop = self.recorder.extent(index)
        self.edits.insert(start, f"{self.p}ix({self.p}c, (long)(")
        self._expression(index)
        self.edits.insert(stop, f"), {limit}u, {site}, {where}u)")

    # calls

    def _call(self, cursor: Cursor, *, wanted: bool) -> None:
        parts = expression_parts(cursor)
        name, arguments = str(cursor.spelling), parts[1:]
        callee = cursor.referenced
        if callee is not None and self.functions.key(callee) in self.own:
            self._own_call(cursor, arguments)
            return
        pixels = images.classify(name) if self.recorder.has_images else None
        if pixels is not None:
            self._pixels(cursor, pixels, arguments)
            return
        texts = [self.recorder.text(argument) for argument in arguments]
        call = classify(name, arguments, texts, wanted=wanted)
        if call is None:
            for argument in arguments:
                self._expression(argument)
        else:
            self._known_call(cursor, call, arguments)

    def _own_call(self, cursor: Cursor, arguments: list[Cursor]) -> None:
        roots = "".join(f", {self.roots.of(argument)}" for argument in arguments if is_address(argument))
        text = f"{self.p}c{roots}"
        if arguments:
            self.edits.insert(self.recorder.extent(arguments[0])[0], f"{text}, ")
        else:
            self.edits.insert(self.recorder.extent(cursor)[1] - 1, text)
        for argument in arguments:
            self._expression(argument)

    def _pixels(self, cursor: Cursor, call: images.Pixels, arguments: list[Cursor]) -> None:
        """A pixel is checked if its coordinates are known."""
        image, place = arguments[0], arguments[call.place]
        p, text = self.p, self.recorder.text(image)
        site = self.recorder.site(
            cursor,
            "pixel write" if call.writes else "pixel read",
            self.function.name,
            name=text,
            space="global",
        )
        sampler = f"({self.recorder.text(arguments[1])})" if call.sampled else f"{p}STRICT"
        root = images.root_of(image, self.function.cursor, self.roots.known)
        self.pixel_root(root, call.mode)
        parts = ", ".join(
            f"({text}).d.{name}" for name in ("width", "height", "depth", "row", "slice", "elem")
        )
        start, stop = self.recorder.extent(place)
        self.edits.insert(start, f"({{ __typeof__({self.recorder.unevaluated(place)}) {p}at = (")
        at = call.coordinates(p, text, sampler)
        tail = f"{at}, {sampler}, {site}, {root}, {call.mode}u); {p}at; }})"
        for argument in arguments:
            self._expression(argument)
        self.edits.insert(stop, f"); {p}pixel({p}c, ({text}).p, {parts}, {tail}")

    def pixel_root(self, root: str, mode: int) -> None:
        """A pixel of an image is read or written."""

    def _known_call(self, cursor: Cursor, call: Call, arguments: list[Cursor]) -> None:
        start, stop = self.recorder.extent(cursor)
        if call.effect:
            self.edits.insert(start, "(" + re.sub(r"\bP_", self.p, call.effect) + ", ")
        pointer = None if call.pointer is None else arguments[call.pointer]
        checked = pointer is not None and self._pointee_space(pointer) in (Space.GLOBAL, Space.LOCAL)
        for number, argument in enumerate(arguments):
            if checked and number == call.pointer:
                self._pointer(cursor, call, argument)
            elif checked and number == call.offset and pointer is not None:
                self._offset(argument, pointer)
            elif number == call.count:
                self._copied(cursor, call, arguments)
            else:
                self._expression(argument)
        if call.effect:
            self.edits.insert(stop, ")")

    def _pointee_space(self, pointer: Cursor) -> Space:
        target = clang.pointee(_as_written(pointer).type)
        space = Space.OTHER if target is None else clang.address_space(target)
        if space is Space.GENERIC:
            self.recorder.skip(pointer, "a pointer to the generic address space is not checked")
        return space

    def _pointer(self, cursor: Cursor, call: Call, pointer: Cursor) -> None:
        """The pointer through which a built-in function accesses memory."""
        pointee, space = (
            pointer.type.get_canonical().get_pointee().get_canonical(),
            self._pointee_space(pointer),
        )
        self.recorder.saw(pointee)
        element = pointee.get_size()
        nbytes = element * call.elements
        self.recorder.most_nbytes = max(self.recorder.most_nbytes, nbytes)
        name = self._root_name(pointer)
        site = self.recorder.site(
            cursor, call.action, self.function.name, name=name, space=space.name.lower(), nbytes=nbytes
        )
        mode = call.mode | (ATOMICALLY if call.atomic else 0)
        start, stop = self.recorder.extent(pointer)
        check = f"{self.p}{CHECKS[space]}"
        if call.offset is None:
            raw = self.recorder.unevaluated(pointer)
            self.edits.insert(start, f"({_pointer_type(raw)}){check}({self.p}c, (")
            first = "0u"
        else:
            self.edits.insert(start, "(")
            first = f"{element * call.stride}u"
        self._expression(pointer)
        self.edits.insert(stop, f"), {first}, {nbytes}u, {site}, {self.roots.of(pointer)}, {mode}u)")

    def _offset(self, offset: Cursor, pointer: Cursor) -> None:
        """Vectors are counted from the pointer: the function gets a pointer to the right one."""
        raw, space = self.recorder.unevaluated(pointer), self._pointee_space(pointer)
        start, stop = self.recorder.extent(offset)
        self.edits.insert(start, f"0, ({_pointer_type(raw)}){self.p}{CHECKS[space]}v({self.p}c, (long)(")
        self._expression(offset)
        self.edits.insert(stop, ")")

    def _copied(self, cursor: Cursor, call: Call, arguments: list[Cursor]) -> None:
        """How many elements a copy by the whole group moves; none if it would leave its memory."""
        target, source, count = arguments[:3]
        step = None if call.step is None else arguments[call.step]
        if not all(is_plain(argument) for argument in (target, source, *([] if step is None else [step]))):
            self.recorder.skip(cursor, "a copy whose arguments have effects is not checked")
            self._expression(count)
            return
        to_local = self._pointee_space(target) is Space.LOCAL
        near, far = (target, source) if to_local else (source, target)
        pointee = target.type.get_canonical().get_pointee()
        self.recorder.saw(pointee)
        site = self.recorder.site(
            cursor,
            "copy",
            self.function.name,
            name=self._root_name(far),
            space="global",
            nbytes=pointee.get_size(),
        )
        text = {name: self.recorder.text(c) for name, c in (("near", near), ("far", far))}
        stride = "1" if step is None else f"(ulong)({self.recorder.text(step)})"
        start, stop = self.recorder.extent(count)
        head = f"(size_t){self.p}async({self.p}c, {text['near']}, {text['far']}, ("
        self.edits.insert(start, head)
        self._expression(count)
        roots = f"{self.roots.of(near)}, {self.roots.of(far)}"
        self.edits.insert(stop, f"), {pointee.get_size()}, {stride}, {site}, {roots}, {int(to_local)}u)")


def _as_written(pointer: Cursor) -> Cursor:
    """The pointer in front of its conversion to the generic address space, which the text does not show.

    From OpenCL C 2.0 on, built-in functions that take a pointer take it to that space (6.15.7, 6.15.2).
    """
    while pointer.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR):
        target, parts = clang.pointee(pointer.type), expression_parts(pointer)
        generic = target is not None and clang.address_space(target) is Space.GENERIC
        if not generic or len(parts) != 1 or not is_pointer(parts[0]):
            break
        pointer = parts[0]
    return pointer


def _pointer_type(raw: str) -> str:
    """The type of a pointer as text, or what an array's type becomes (C99 6.3.2.1)."""
    return f"__typeof__(&({raw})[0])"
