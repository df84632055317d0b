"""The text of a checked program: edits in the user's own text, and what stands in front of it.

Decides where functions get the context (the first parameter of each), where kernels make it, and how the program's
numbers get into `include/checked.cl`. The walk through a function's body is in `accesses`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from clang.cindex import Cursor, CursorKind

from ...frontend import clang
from ...frontend.depth import deep_translation
from ...frontend.edits import Edits, Function, Functions, Use, insert_at_entry, parentheses_after
from ...frontend.kernels import Untranslatable
from ...frontend.preprocessor import MAIN_FILE
from ...frontend.source import ArgKind, ParsedProgram
from ...frontend.types import Space
from . import alignment, copies, images
from .accesses import Body, Recorder
from .barriers import FIELDS, QUIET, VOTE_WORDS, Meetings
from .fast import FastBody
from .intervals import mixed_roots
from .numbers import Numbers
from .private import Private
from .program import (
    FAST_COUNTERS,
    FAST_HEAD_NUMBERS,
    HEAD_NUMBERS,
    INTENDED,
    KEPT,
    MOST_RECORDS,
    RECORD_WORDS,
    TRACKED_LAST,
    TRACKED_PLACES,
    TRACKED_WORDS,
    CheckedKernel,
    CheckedProgram,
    Kind,
    Root,
    far_offset,
    log_words,
)
from .provenance import is_closed
from .roots import is_address

__all__ = ["Untranslatable", "translate_checked", "translate_fast"]

#: The kinds' names in `include/checked.cl`.
_NAMES = {
    "P_OUTSIDE": Kind.OUTSIDE, "P_NULL": Kind.NULL, "P_GROUPS_RACE": Kind.GROUPS, "P_ITEMS_RACE": Kind.ITEMS,
    "P_UNWRITTEN": Kind.UNWRITTEN, "P_UNWRITTEN_LOCAL": Kind.UNWRITTEN_LOCAL, "P_INDEX": Kind.INDEX,
    "P_DIVISION": Kind.DIVISION, "P_SHIFT_KIND": Kind.SHIFT, "P_GROUPS_SAME": Kind.SAME_GROUPS,
    "P_ITEMS_SAME": Kind.SAME_ITEMS, "P_BARRIER": Kind.BARRIER,
    "P_CONVERSION": Kind.CONVERSION, "P_OVERFLOW": Kind.OVERFLOW, "P_NON_FINITE": Kind.NON_FINITE,
    "P_UNWRITTEN_PRIVATE": Kind.UNWRITTEN_PRIVATE,
    "P_UNFENCED_RACE": Kind.UNFENCED, "P_PIXEL": Kind.PIXEL, "P_MISALIGNED": Kind.MISALIGNED, "P_NOT_AWAITED": Kind.NOT_AWAITED,
    "P_NOTE_ELSEWHERE": Kind.NOTE_ELSEWHERE, "P_NOTE_ORDERED": Kind.NOTE_ORDERED,
}  # fmt: skip
_SPACES = (ArgKind.GLOBAL, ArgKind.CONSTANT, ArgKind.LOCAL)
_LEAST_SCRATCH = 128
#: A checked loop's body is too large to be unrolled: compilers would take seconds for it.
_UNROLL = re.compile(
    rb"^[ \t]*#[ \t]*pragma[ \t]+(?:clang[ \t]+loop[ \t]+)?(?:no)?unroll\b[^\n]*$", re.MULTILINE
)
_SUB_GROUPS = re.compile(r"(?:intel_)?(?:get_)?(?:max_|num_|enqueued_num_)?sub_groups?_?\w*")
_OF_DEVICES = "the result may depend on the size of sub-groups, which devices choose: run it on others too"
_MOST_FAST_ROOTS = 64  #: bits of a mask


def translate_checked(
    program: ParsedProgram, kinds: frozenset[str] = frozenset(), *, tracked: bool = False
) -> CheckedProgram:
    """Check every access of every kernel.

    `kinds`: what is looked for only on request (`ON_REQUEST`). `tracked`: a program that also says who wrote a few
    places (`include/tracked.cl`), with a table behind its log. Raises Untranslatable, with the reason, if the text
    cannot be rewritten.
    """
    if not program.exact:
        raise Untranslatable("macros could not be expanded: " + "; ".join(program.doubts))
    with deep_translation():
        return _Translation(program, kinds, tracked).run()


def translate_fast(program: ParsedProgram) -> CheckedProgram:
    """The same checks in a program that leaves a sign if one may have failed, and no record: the launch then has to
    be repeated. It has only the kernels that have such a form. Raises Untranslatable.
    """
    if not program.exact:
        raise Untranslatable("macros could not be expanded: " + "; ".join(program.doubts))
    with deep_translation():
        return _FastTranslation(program).run()


class _Translation:
    """One program being rewritten."""

    head_numbers = HEAD_NUMBERS
    fast = False

    def __init__(
        self, program: ParsedProgram, kinds: frozenset[str] = frozenset(), tracked: bool = False
    ) -> None:
        self.program = program
        self.tracked = tracked
        self.functions = Functions(program)
        self.edits = Edits(self.functions.text)
        self.prefix = _free_prefix(self.functions)
        self.recorder = Recorder(program, self.prefix, self.functions)
        self.kernels: dict[str, CheckedKernel] = {}
        self.kinds = kinds

    def run(self) -> CheckedProgram:
        left_out = self._leave_out()
        if images.leave(self.functions):
            self.recorder.has_images = True
            self.recorder.granule = images.GRANULE
        self._refuse()
        for match in _UNROLL.finditer(self.functions.text):
            if not any(each.body_start <= match.start() < each.stop for each in left_out):
                self.edits.replace(match.start(), match.end(), "")
        self._look()
        for name in sorted(self.functions.names):
            for use in self.functions.uses(name):
                self._thread(use)
        for function in self.functions.defined:
            if function.kernel:
                self._kernel(function)
            else:
                self._function(function)
        return self._checked()

    def _look(self) -> None:
        """Have each kind of check find what it has to insert where."""
        self.meetings = Meetings(self.functions, self.recorder, self.edits, fast=self.fast)
        self.numbers = Numbers(self.functions, self.recorder, self.edits, self.kinds, self.meetings.put)
        self.numbers.look()
        self.private = Private(self.functions, self.recorder, self.edits, self.meetings.put, fast=self.fast)
        self.private.look()
        self.copies = copies.look(self.functions, self.recorder, self.meetings.put)
        self.aligned = alignment.look(self.functions, self.recorder, self.meetings.put, fast=self.fast)
        self._note_sub_groups()

    def _checked(self) -> CheckedProgram:
        granule = self.recorder.granule
        scratch = max(_LEAST_SCRATCH, -(-self.recorder.most_nbytes // _LEAST_SCRATCH) * _LEAST_SCRATCH)
        text = f'{self._prelude(granule, scratch)}#line 1 "{MAIN_FILE}"\n{self.edits.apply()}'
        return CheckedProgram(
            text,
            self.program.engine_options,
            self.kernels,
            tuple(self.recorder.sites),
            granule,
            scratch,
            tuple(sorted(set(self.recorder.skipped))),
            f"{self.prefix}FAR",
            f"{self.prefix}NARROW",
            f"{self.prefix}INITS",
            frozenset(each.name for each in self.functions.defined if _is_intended(each.cursor)),
            self.tracked,
        )

    def _note_sub_groups(self) -> None:
        for function in self.functions.defined:
            for cursor in clang.walk(function.cursor):
                if cursor.kind is CursorKind.CALL_EXPR and _SUB_GROUPS.fullmatch(str(cursor.spelling)):
                    self.recorder.skip(cursor, _OF_DEVICES)

    def _leave_out(self) -> list[Function]:
        """Functions that no kernel calls cost a compiler as much as others: only their declarations stay."""
        found = self.functions.unreached()
        for function in found:
            lines = self.functions.text.count(b"\n", function.body_start, function.stop)
            self.edits.replace(function.body_start, function.stop, ";" + "\n" * lines)
        return found

    def _refuse(self) -> None:
        for function in self.functions.defined:
            for cursor in clang.walk(function.cursor):
                if cursor.kind is CursorKind.BLOCK_EXPR:
                    raise Untranslatable("a block is used", clang.line_of(cursor))
        for name in (function.name for function in self.functions.defined if function.kernel):
            for use in self.functions.uses(name):
                if not use.declares:
                    raise Untranslatable(f"kernel {name} is called as a function", clang.line_of(use.cursor))

    def _thread(self, use: Use) -> None:
        """An occurrence of a function with a body: in its declarations, the context and the roots of pointers become
        parameters; in calls, arguments.
        """
        if not use.declares or use.name in self.program.kernels:
            return
        stop = use.offset + len(use.name.encode())
        parameters = "".join(
            f", int {self.prefix}r{index}"
            for index, parameter in enumerate(use.cursor.get_arguments())
            if is_address(parameter)
        )
        place = parentheses_after(self.functions.text, stop)
        text = f"{self.prefix}C {self.prefix}c{parameters}"
        if place.empty:
            self.edits.replace(place.opening + 1, place.closing, text)
        else:
            self.edits.insert(place.opening + 1, f"{text}, ")

    def _function(self, function: Function) -> None:
        known = {
            int(parameter.hash): f"{self.prefix}r{index}"
            for index, parameter in enumerate(function.cursor.get_arguments())
            if is_address(parameter)
        }
        self._body(function, known)

    def _body(self, function: Function, known: dict[int, str]) -> None:
        Body(self.recorder, self.edits, self.functions, function, known, self.meetings).rewrite()

    def _kernel(self, function: Function) -> None:
        info = self.program.kernels[function.name]
        roots: list[Root] = []
        known: dict[int, str] = {}
        spellings: list[
            str
        ] = []  # the arguments' names in the text; images' pointers have names of their own
        for index, (arg, parameter) in enumerate(
            zip(info.args, function.cursor.get_arguments(), strict=True)
        ):
            if arg.kind in _SPACES and parameter.spelling:
                known[int(parameter.hash)] = str(len(roots))
                roots.append(Root(arg.name, arg.kind, index, 0, _is_intended(parameter)))
                spellings.append(parameter.spelling)
        arrays = list(self._local_variables(function))
        for _, variable in arrays:
            known[int(variable.hash)] = str(len(roots))
            nbytes = variable.type.get_size()
            roots.append(Root(variable.spelling, ArgKind.LOCAL, None, nbytes, _is_intended(variable)))
        local = any(root.space is ArgKind.LOCAL for root in roots)
        self._serialise(function, info.attributes)
        self._parameters(function)
        self._entry(function, roots, spellings, local)
        for (statement, variable), number in zip(
            arrays, range(len(roots) - len(arrays), len(roots)), strict=True
        ):
            self._register(statement, variable, number)
        self.kernels[function.name] = CheckedKernel(function.name, tuple(roots), local)
        self._body(function, known)

    def _local_variables(self, function: Function) -> Iterator[tuple[Cursor, Cursor]]:
        """(statement, variable) for everything that a kernel declares in local memory."""
        for cursor in clang.walk(function.cursor):
            if cursor.kind is CursorKind.DECL_STMT:
                for variable in cursor.get_children():
                    if (
                        variable.kind is CursorKind.VAR_DECL
                        and clang.address_space(variable.type) is Space.LOCAL
                    ):
                        yield cursor, variable

    def _register(self, statement: Cursor, variable: Cursor, number: int) -> None:
        p = self.prefix
        stop = clang.extent_of(statement)[1]
        self.edits.insert(stop, f" {p}root_l({p}c, {number}, &({variable.spelling}), {p}numbers);")

    def _parameters(self, function: Function) -> None:
        p = self.prefix
        hidden = (
            f"__global ulong *{p}numbers, __global uint *{p}cells, __global uchar *{p}init, __global uchar *{p}log, "
            f"__local ulong *{p}local"
        )
        for use in self.functions.uses(function.name):
            place = parentheses_after(self.functions.text, use.offset + len(use.name.encode()))
            if place.empty:
                self.edits.replace(place.opening + 1, place.closing, hidden)
            else:
                self.edits.insert(place.closing, f", {hidden}")

    def _serialise(self, function: Function, attributes: str) -> None:
        """Work-items run one after the other if the engine is Intel's: in lockstep, all would read the shadow before
        any of them marks it.
        """
        if "sub_group" not in attributes and "vec_len" not in attributes:
            self.edits.insert(function.start, "__attribute__((intel_vec_len_hint(1))) ")

    def _entry(self, function: Function, roots: list[Root], spellings: list[str], local: bool) -> None:
        p = self.prefix
        careful = self.meetings.careful
        text = [f" __local uint {p}votes[{VOTE_WORDS}];"] if careful else []
        text.append(f" {p}ctx {p}context; {p}C {p}c = &{p}context;")
        text.append(f"{p}begin({p}c, {p}numbers, {p}cells, {p}init, {p}log, {p}local);")
        text += [f"{p}meet_begin({p}c, {p}votes);"] if careful else []
        for number, (root, name) in enumerate(zip(roots, spellings, strict=False)):
            if root.space is ArgKind.LOCAL:
                text.append(f"{p}root_l({p}c, {number}, {name}, {p}numbers);")
            else:
                text.append(self._root(number, name))
        text += self._marks(function)
        if local:
            text.append(
                f"{p}clear({p}c, {p}numbers[0]); barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
            )
        insert_at_entry(self.edits, function.body_start, " ".join(text))

    def _root(self, number: int, name: str) -> str:
        p = self.prefix
        return f"{p}root({p}c, {number}, (ulong){name}, 0, {p}numbers);"

    def _marks(self, function: Function) -> list[str]:
        """What else a kernel tells its context."""
        return []

    def _prelude(self, granule: int, scratch: int) -> str:
        p = self.prefix
        most_roots = max([1, *(len(kernel.roots) for kernel in self.kernels.values())])
        numbers = {
            "P_ROOTS": most_roots, "P_HEAD": self.head_numbers, "P_SITES": len(self.recorder.sites) + 1, "P_KINDS": len(Kind),
            "P_KEPT": f"{KEPT}u", "P_MOST": f"{MOST_RECORDS}u", "P_WORDS": RECORD_WORDS, "P_SCRATCH": scratch,
            "P_SHIFT": granule.bit_length() - 1, "P_GRANULE": f"{granule}UL",
            "P_LOGGED": far_offset(len(self.recorder.sites), scratch, tracked=self.tracked),
            "P_CLOSED": int(is_closed(self.program, self.functions)),
            "P_TRACK_AT": log_words(len(self.recorder.sites)), "P_TRACK_PLACES": TRACKED_PLACES,
            "P_TRACK_WORDS": TRACKED_WORDS, "P_TRACK_LAST": f"{TRACKED_LAST}u",
        }  # fmt: skip
        numbers |= {name: f"{int(kind)}u" for name, kind in _NAMES.items()}
        text = "".join(f"#define {name} {value}\n" for name, value in numbers.items())
        return re.sub(r"\bP_", p, text + self._functions())

    def _functions(self) -> str:
        return self._kinds() + "".join(self.recorder.definitions()) + self.numbers.definitions()

    def _kinds(self) -> str:
        """`include/checked.cl`, and the files beside it for the kinds of checks that this program needs."""
        careful = self.meetings.careful
        fields = f"{FIELDS if careful else ''} {copies.FIELDS if self.copies else ''}"
        parts = [f"#define P_FIELDS {fields}\n#define P_QUIET(c) {QUIET if careful else '0'}\n"]
        parts.append(copies.MACROS if self.copies else copies.NO_MACROS)
        flights = _include("checked/copies.cl") if self.copies else ""
        parts.append(_include("checked.cl").replace("P_COPIES", flights))
        parts += [_include("tracked.cl")] if self.tracked else []
        parts += [_include("checked/barriers.cl")] if careful else []
        parts += [_include("checked/private.cl")] if self.private.used else []
        parts += [_include("checked/fetched.cl")] if self.recorder.noted else []
        parts += [alignment.DEFINITION] if self.aligned else []
        parts += [images.PRECISE + _include("checked/pixels.cl")] if self.recorder.has_images else []
        return "".join(parts)


class _FastTranslation(_Translation):
    """The same edits in the form of `fast`."""

    head_numbers = FAST_HEAD_NUMBERS
    fast = True

    def __init__(self, program: ParsedProgram) -> None:
        super().__init__(program)
        #: by kernel: roots of global memory written and read, roots of local memory with intervals of both
        self._masks: dict[str, tuple[set[int], set[int], set[int]]] = {}

    def run(self) -> CheckedProgram:
        program = super().run()
        kept: dict[str, CheckedKernel] = {}
        for function in self.functions.defined:
            if function.kernel and self.recorder.refused(function.key) is None:
                written, read, _ = self._masks[function.name]
                kernel = program.kernels[function.name]
                if len(kernel.roots) <= _MOST_FAST_ROOTS:
                    kept[function.name] = replace(kernel, written=frozenset(written), read=frozenset(read))
        return replace(program, kernels=kept)

    def _body(self, function: Function, known: dict[int, str]) -> None:
        body = FastBody(self.recorder, self.edits, self.functions, function, known, self.meetings)
        body.rewrite()
        if function.kernel:
            compound = next(c for c in function.cursor.get_children() if c.kind is CursorKind.COMPOUND_STMT)
            self._masks[function.name] = (
                {int(root) for root in body.writes if root.isdigit()},
                {int(root) for root in body.reads if root.isdigit()},
                mixed_roots(compound, body.touches),
            )

    def _serialise(self, function: Function, attributes: str) -> None:
        """Side by side, as the engine prefers."""

    def _root(self, number: int, name: str) -> str:
        p = self.prefix
        return f"{p}root_g({p}c, {number}, (ulong){name}, {p}numbers, {p}cells);"

    def _marks(self, function: Function) -> list[str]:
        p = self.prefix
        return [f"{p}c->{what} = {p}{what}_{function.name};" for what in ("written", "read", "mixed")]

    def _functions(self) -> str:
        masks = "".join(
            f"#define P_{what}_{name} {sum(1 << root for root in roots)}UL\n"
            for name, found in self._masks.items()
            for what, roots in zip(("written", "read", "mixed"), found, strict=True)
        )
        definitions = "#define P_report(c, ...) ((void)((c)->bad = 1))\n"
        definitions += _include("checked/private.cl") if self.private.used else ""
        if self.recorder.has_images:
            definitions += images.FAST + _include("checked/pixels.cl").replace("noinline", "always_inline")
        definitions += (
            "".join(self.recorder.definitions()).replace("noinline", "always_inline")
            + self.numbers.definitions()
        )
        masks += f"#define P_COUNTERS {FAST_COUNTERS}u\n"
        return (
            f"#ifndef P_INITS\n#define P_INITS 0\n#endif\n{masks}{_include('checked_fast.cl')}{definitions}"
        )


def _is_intended(declared: Cursor) -> bool:
    return any(
        child.kind is CursorKind.ANNOTATE_ATTR and INTENDED in child.spelling
        for child in declared.get_children()
    )


@lru_cache(maxsize=8)
def _include(name: str) -> str:
    with open(os.path.join(clang.INCLUDE_DIR, name), encoding="utf-8") as content:
        return content.read()


def _free_prefix(functions: Functions) -> str:
    """A prefix that no identifier of the program starts with."""
    taken = {m.group() for m in (re.match(r"vchk\d*_", name) for name in functions.identifiers()) if m}
    number = 0
    while (prefix := f"vchk{number or ''}_") in taken:
        number += 1
    return prefix
