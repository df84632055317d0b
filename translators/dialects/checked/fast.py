"""Function bodies that say only whether something may be wrong, in a form that engines vectorise.

Decides how an access is written so that it does nothing if it must not happen, and which functions cannot be written
like that: they are checked precisely from the start. The shared walk (`accesses`) decides what is checked, and where.
"""

from __future__ import annotations

import re

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from ...frontend import clang
from ...frontend.edits import insert_at_entry
from ...frontend.operator_kinds import Joining, Placed
from ...frontend.types import Space
from .accesses import CHECKS, Body
from .calls import Call
from .intervals import Touch
from .roots import UNKNOWN, expression_parts, is_address, is_array, is_pointer
from .sites import integer_name
from .uses import (
    ATOMICALLY,
    MODES,
    READS,
    UNSURE,
    VECTORS,
    WRITES,
    Part,
    Use,
    touched_nbytes,
    wanted_runs,
)

INSIDE = 64  #: the indices' own tests say that the access is within its array
_FLOATS = {TypeKind.FLOAT: "float", TypeKind.DOUBLE: "double", TypeKind.HALF: "half"}
_SPELLED = {Space.GLOBAL: "__global", Space.LOCAL: "__local", Space.CONSTANT: "__constant"}
_UPDATE = re.compile(rb"\s*(?:[-+*/%&|^]|<<|>>)=\s*")
_COPIES = "copies by the whole group"
_RESULTS = "the result of an atomic function decides"


def value_name(type_: Type) -> str | None:
    """OpenCL C's name of a scalar or vector type; None for other types."""
    canonical = type_.get_canonical()
    if canonical.kind in VECTORS:
        element = value_name(canonical.element_type)
        return None if element is None else f"{element}{canonical.element_count}"
    name = integer_name(canonical)
    return _FLOATS.get(canonical.kind) if name in (None, "bool") else name


class FastBody(Body):
    """One function being rewritten. `touches`: its accesses to local memory; `reads` and `writes`: roots of global memory."""

    def rewrite(self) -> None:
        p, function = self.p, self.function
        self.touches: list[Touch] = []
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        insert_at_entry(self.edits, function.body_start, f" bool {p}ok = 1; (void){p}ok;")
        if not function.kernel:
            self.edits.insert(function.start, "__attribute__((always_inline)) ")
        super().rewrite()
        self._refuse_casts()
        if function.kernel:
            self.edits.insert(function.stop - 1, f" {p}end({p}c); ")

    def _refuse_casts(self) -> None:
        """Refuse casts that drop `const`: a caller takes a pointer to const for one that is only read."""
        for index, parameter in enumerate(self.function.cursor.get_arguments()):
            if f"{self.p}r{index}" in self.writes and is_address(parameter) and _is_const(parameter):
                self.refuse("memory is written through a pointer to const")

    def refuse(self, reason: str) -> None:
        """Neither this function nor its callers have a fast form."""
        self.recorder.precise_only.setdefault(self.function.key, reason)

    def _statement(self, cursor: Cursor) -> None:
        if cursor.kind is CursorKind.RETURN_STMT and self.function.kernel:
            self.edits.insert(clang.extent_of(cursor)[0], f"for ({self.p}end({self.p}c);;) ")
        super()._statement(cursor)

    def _discarded(self, cursor: Cursor) -> None:
        if not (self._stored(cursor) or self._counted(cursor)):
            super()._discarded(cursor)

    def _after(self, cursor: Cursor) -> None:
        """Nothing is checked after a store."""

    def _stored(self, cursor: Cursor) -> bool:
        """A store whose value is not used either happens or does not, as a statement of its own."""
        if cursor.kind is CursorKind.BINARY_OPERATOR and clang.binary_operator(cursor) is Joining.ASSIGN:
            use = Use.WRITE
        elif cursor.kind is CursorKind.COMPOUND_ASSIGNMENT_OPERATOR:
            use = Use.UPDATE
        else:
            return False
        target, value = expression_parts(cursor)
        space, type_ = self._plain(target), value_name((target if use is Use.WRITE else value).type)
        start, stop = self.recorder.extent(target)
        first, end = self.recorder.extent(value)[0], self.recorder.extent(cursor)[1]
        sign = self.functions.text[stop:first]
        if space is None or type_ is None or not (use is Use.WRITE or _UPDATE.fullmatch(sign)):
            return False
        p = self.p
        head, test = self._tested(target, space, use, Part(0, touched_nbytes(target)), 0)
        self.edits.insert(start, head)
        self._inside(target, use)
        if use is Use.WRITE:
            self.edits.insert(stop, f"); {type_} {p}v")
        else:
            self.edits.replace(stop, first, f"); {type_} {p}v = ")
        self._value(cursor, target, value)
        what = "=" if use is Use.WRITE else sign.decode().strip()
        self.edits.insert(end, f"; if ({test}) *{p}q {what} {p}v; }})")
        return True

    def _counted(self, cursor: Cursor) -> bool:
        """`a[i]++;`"""
        if cursor.kind is not CursorKind.UNARY_OPERATOR or clang.unary_operator(cursor) not in (
            Placed.RAISE,
            Placed.LOWER,
        ):
            return False
        target = expression_parts(cursor)[0]
        space = self._plain(target)
        start, stop = self.recorder.extent(target)
        whole = self.recorder.extent(cursor)
        if space is None or value_name(target.type) is None or start != whole[0]:
            return False
        head, test = self._tested(target, space, Use.UPDATE, Part(0, touched_nbytes(target)), 0)
        self.edits.insert(start, head)
        self._inside(target, Use.UPDATE)
        self.edits.insert(stop, f"); if ({test}) (*{self.p}q)")
        self.edits.insert(whole[1], "; })")
        return True

    def _plain(self, target: Cursor) -> Space | None:
        """The address space of a scalar or vector that the text accesses directly by its name."""
        named = target.kind in (
            CursorKind.ARRAY_SUBSCRIPT_EXPR,
            CursorKind.MEMBER_REF_EXPR,
            CursorKind.DECL_REF_EXPR,
        ) or (target.kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(target) is Placed.DEREFERENCE)
        if not named or is_array(target) or value_name(target.type) is None:
            return None
        space = self._space(target)
        return space if space is not None and self._is_checked(target, space) else None

    # accesses

    def _around(
        self, cursor: Cursor, space: Space, use: Use, flags: int, part: Part | None
    ) -> tuple[str, str]:
        if part is None:
            part = Part(0, touched_nbytes(cursor))
        p, type_ = self.p, value_name(cursor.type)
        head, test = self._tested(cursor, space, use, part, flags)
        if use is Use.READ and type_ is not None:
            return f"(({type_}){head}", f"); {test} ? *{p}q : ({type_})(0); }}))"
        mode = MODES[use]
        other = f"(__typeof__({p}q)){p}else_{CHECKS[space]}({p}c, {mode}u)"
        return f"(*{head}", f"); {test} ? {p}q : {other}; }}))"

    def _tested(self, cursor: Cursor, space: Space, use: Use, part: Part, flags: int) -> tuple[str, str]:
        """The beginning of a statement expression, up to the place, and the test whether the access may happen."""
        type_ = cursor.type.get_canonical()
        record = type_.kind is TypeKind.RECORD
        runs = wanted_runs(type_) if record and use is Use.READ and space is not Space.CONSTANT else []
        mode = MODES[use] | (UNSURE if record and runs != [(0, part.nbytes)] else 0)
        if type_.is_volatile_qualified():
            self.refuse("volatile memory")
        root = self.roots.of(cursor)
        self._touched(cursor, space, root, mode)
        if space is Space.LOCAL and self._is_indexed(cursor):
            mode |= INSIDE
        self.recorder.saw(type_)
        p, name = self.p, value_name(type_)
        const = "const " if use is Use.READ else ""
        pointer = (
            f"__typeof__(&({self.recorder.unevaluated(cursor)})) {p}q"
            if name is None
            else f"{const}{_SPELLED[space]} {name} *{p}q"
        )
        head = f"({{ bool {p}ok = 1; {pointer} = &("
        ok, alignment = f"{p}ok", type_.get_align()
        if self.recorder.askew and alignment > 1:
            ok += f" & !((ulong){p}q & {alignment - 1})"
        test = f"{p}try_{CHECKS[space]}({p}c, {p}q, {part.offset}u, {part.nbytes}u, {root}, {mode}u, {ok})"
        for byte, nbytes in runs if mode & UNSURE else ():
            test += f" && {p}set_{CHECKS[space]}({p}c, {p}q, {byte}u, {nbytes}u, {root})"
        return head, test

    def _touched(self, cursor: Cursor, space: Space, root: str, mode: int) -> None:
        if space is Space.CONSTANT:
            return
        if root == UNKNOWN:
            self.refuse("a pointer whose memory is not known from the text")
        elif space is Space.LOCAL:
            if root.isdigit():
                start = clang.extent_of(cursor)[0]
                self.touches.append(Touch(start, int(root), bool(mode & READS), bool(mode & WRITES)))
        else:
            if mode & (READS | ATOMICALLY):
                self.reads.add(root)
            if mode & (WRITES | ATOMICALLY):
                self.writes.add(root)

    def pixel_root(self, root: str, mode: int) -> None:
        if root == UNKNOWN:
            self.refuse("an image that is passed to a function")
        else:
            (self.writes if mode & WRITES else self.reads).add(root)

    def _is_indexed(self, cursor: Cursor) -> bool:
        """Whether a place is a variable, or part of one selected only by tested indices and members."""
        while cursor.kind is not CursorKind.DECL_REF_EXPR:
            parts = expression_parts(cursor)
            if not parts or (cursor.kind is CursorKind.MEMBER_REF_EXPR and is_pointer(parts[0])):
                return False
            inner = parts[0]
            if cursor.kind is CursorKind.ARRAY_SUBSCRIPT_EXPR:
                while inner.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR) and not is_array(
                    inner
                ):
                    inner = expression_parts(inner)[0]
                if not is_array(inner) or inner.type.get_canonical().kind is not TypeKind.CONSTANTARRAY:
                    return False
            elif cursor.kind is not CursorKind.MEMBER_REF_EXPR and cursor.kind is not CursorKind.PAREN_EXPR:
                return False
            cursor = inner
        return not is_pointer(cursor)

    # calls

    def _own_call(self, cursor: Cursor, arguments: list[Cursor]) -> None:
        for argument, parameter in zip(arguments, cursor.referenced.get_arguments(), strict=False):
            if is_address(argument):
                space = self._pointee_space(argument)
                mode = READS if _is_const(parameter) else READS | WRITES
                if space in CHECKS:
                    self._touched(cursor, space, self.roots.of(argument), mode)
        called = self.functions.key(cursor.referenced)
        self.recorder.calls.setdefault(self.function.key, set()).add(called)
        super()._own_call(cursor, arguments)

    def _pointer(self, cursor: Cursor, call: Call, pointer: Cursor) -> None:
        mode = call.mode | (ATOMICALLY if call.atomic else 0)
        if call.atomic and call.effect:
            self.refuse(_RESULTS)
        self._touched(cursor, self._pointee_space(pointer), self.roots.of(pointer), mode)
        super()._pointer(cursor, call, pointer)

    def _copied(self, cursor: Cursor, call: Call, arguments: list[Cursor]) -> None:
        self.refuse(_COPIES)
        super()._copied(cursor, call, arguments)


def _is_const(parameter: Cursor) -> bool:
    canonical = parameter.type.get_canonical()
    target = canonical.get_array_element_type() if is_array(parameter) else canonical.get_pointee()
    return bool(target.is_const_qualified())


__all__ = ["FastBody", "value_name"]
