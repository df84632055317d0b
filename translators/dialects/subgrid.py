"""OpenCL C to OpenCL C for a sub-grid: a kernel that runs one chunk and answers as if it ran the whole NDRange.

Every kernel gets one hidden by-value structure behind its own parameters. Work-item functions that depend on the
NDRange read it, also in helper functions (which get a pointer to it as their first parameter); global ids are the
engine's own, since launches have offsets (CUDA's have none and read these from the structure, too). Chunks with
cycles need a separate translation, which renumbers work-groups, because others would pay for that. Pointers to global
and constant memory are moved by a shift at kernel entry, so that a buffer of the engine's only has to hold a window
of the user's (PPoPP'11, section 3.5).

Decides how the text is rewritten. Never decides how an NDRange is cut. What it cannot translate it refuses, with the
reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from clang.cindex import Cursor, CursorKind, TypeKind
from vdev.translators.values import dataclass

from ..frontend import clang
from ..frontend.edits import Edits, Function, Functions, Use, insert_at_entry, parentheses_after
from ..frontend.kernels import Untranslatable
from ..frontend.preprocessor import MAIN_FILE
from ..frontend.source import BUFFERS, KernelInfo, ParsedProgram
from .lasting import changeable_variable
from .subgrid_kernel import SubgridKernel

__all__ = ["SubgridKernel", "SubgridProgram", "Untranslatable", "translate_subgrid"]

#: Work-item functions whose answer depends on the whole NDRange (OpenCL C specification 6.15.1). get_local_…,
#: get_work_dim and get_enqueued_local_size are the same in a chunk as in the whole.
_GRID_FUNCTIONS = (
    "get_global_id",
    "get_group_id",
    "get_num_groups",
    "get_global_size",
    "get_global_offset",
    "get_global_linear_id",
)
#: Built-in functions that launch work of their own or ask about kernels as values: blocks could capture what has been
#: rewritten.
_REFUSED = ("enqueue_kernel", "get_kernel_work_group_size", "get_kernel_preferred_work_group_size_multiple")

#: Where a kernel shifts a pointer, for a translator that follows: the parameter, the user's name, and the shift.
SHIFT = re.compile(
    rb"__typeof__\((\w+)\) (\w+) = \(__typeof__\(\1\)\)\(\(__\w+ char \*\)\1 - (\w+\.shift\[\d+\])\);"
)

# {p}: the prefix; fields in the order of SubgridKernel.pack.
_GRID = """\
struct {p}grid {{ ulong group[3], groups[3], size[3], offset[3], first[3]{fields}; }};
#define {p}IN __private const struct {p}grid *{p}g
"""
#: The answer of each function. A dimension from 3 on is answered as the specification says (ids 0, sizes 1); dimensions from
#: get_work_dim() to 2 are in the structure with those same answers. Global ids where launches have no offsets, or work-groups are
#: renumbered; {gid}: the beginning of a call for one.
_ANSWERS = {
    "get_global_id": "d < 3 ? get_global_id(d){first}{items} : 0",
    "get_group_id": "d < 3 ? get_group_id(d) + (size_t){p}g->group[d]{groups} : 0",
    "get_num_groups": "d < 3 ? (size_t){p}g->groups[d] : 1",
    "get_global_size": "d < 3 ? (size_t){p}g->size[d] : 1",
    "get_global_offset": "d < 3 ? (size_t){p}g->offset[d] : 0",
    "get_global_linear_id": """(({gid}2) - {p}get_global_offset({p}g, 2)) * {p}get_global_size({p}g, 1)
    + {gid}1) - {p}get_global_offset({p}g, 1)) * {p}get_global_size({p}g, 0)
    + {gid}0) - {p}get_global_offset({p}g, 0)""",
}
#: The low 32 bits of each, for a translator that follows and finds no more of it used.
_LOW_ANSWERS = {
    "get_global_id": """
    d < 3 ? (uint)get_group_id(d) * (uint)get_local_size(d) + (uint)get_local_id(d) + (uint){p}g->first[d]{items} : 0""",
    "get_group_id": "d < 3 ? (uint)get_group_id(d) + (uint){p}g->group[d]{groups} : 0",
    "get_num_groups": "d < 3 ? (uint){p}g->groups[d] : 1",
    "get_global_size": "d < 3 ? (uint){p}g->size[d] : 1",
    "get_global_offset": "d < 3 ? (uint){p}g->offset[d] : 0",
    "get_global_linear_id": _ANSWERS["get_global_linear_id"].replace("{p}get", "{p}low_get"),
}
_LINEAR = "get_global_linear_id"  #: the one that has no dimension, and asks others
_LINEAR_NEEDS = ("get_global_id", "get_global_size", "get_global_offset")
#: If work-groups are renumbered: the number of the block that contains a work-group.
_FIELDS = ", factor[3], shift[3], groups_between[3], items_between[3]"
_BLOCK_DECLARED = "size_t __attribute__((always_inline)) {p}get_block({p}IN, uint d);\n"
_BLOCK_DEFINED = """\
size_t {p}get_block({p}IN, uint d) {{
  return (size_t)((ulong)(uint)get_group_id(d) * (ulong)(uint){p}g->factor[d] >> (uint){p}g->shift[d]); }}
"""


@dataclass(frozen=True)
class SubgridProgram:
    """OpenCL C for a native engine, to be built with the program's `engine_options`, and how to call its
    kernels.
    """

    source: str
    kernels: Mapping[str, SubgridKernel]
    #: why all launches have to be whole, and on the same worker, and the line; None where a launch leaves nothing to later ones but
    #: the content of buffers
    changed: tuple[str, int] | None = None


def translate_subgrid(
    program: ParsedProgram,
    *,
    shared_variables: bool = False,
    offsets: bool = True,
    renumbers: bool = False,
) -> SubgridProgram:
    """Translate all kernels. If it raises Untranslatable, the original has to run, as one chunk.

    `shared_variables`: variables at program scope may change, because the caller then launches whole NDRanges on one
    worker. `offsets`: launches have the chunk's first ids as offset. Global ids are then the engine's own, and what
    compilers know about them (Intel's derives loop bounds from guards) holds as in the original. `renumbers`: for
    chunks with cycles.
    """
    if not program.exact:
        raise Untranslatable("macros could not be expanded: " + "; ".join(program.doubts))
    return _Translation(program, shared_variables, offsets, renumbers).run()


class _Translation:
    """One program being rewritten."""

    def __init__(
        self, program: ParsedProgram, shared_variables: bool, offsets: bool, renumbers: bool
    ) -> None:
        self.program = program
        self.offsets = offsets
        self.renumbers = renumbers
        self.own_ids = offsets and not renumbers  #: get_global_id() is the engine's
        #: work-item functions that are rewritten
        self.grid_functions = _GRID_FUNCTIONS[self.own_ids :]  # the first is get_global_id
        self.shared_variables = shared_variables
        self.functions = Functions(program)
        self.edits = Edits(self.functions.text)
        self.changed = _why_whole(program, self.functions)
        self.prefix = _free_prefix(self.functions)
        self.kernels = {
            name: SubgridKernel(name, len(info.args), _pointer_args(info), renumbers)
            for name, info in program.kernels.items()
        }
        self.used: set[str] = set()  #: of these, those that were found
        #: The number of a kernel's structure: a type must not have the name of a function.
        self.numbers = {name: index for index, name in enumerate(self.kernels)}

    def run(self) -> SubgridProgram:
        self._refuse()
        threaded, uses = self._threaded()
        for use in uses:
            self._rewrite(use, threaded)
        for function in self.functions.defined:
            if function.kernel:
                self._enter_kernel(function)
        text = f'{self._prelude()}#line 1 "{MAIN_FILE}"\n{self.edits.apply()}'
        return SubgridProgram(text, self.kernels, self.changed)

    def _refuse(self) -> None:
        for name in _REFUSED:
            for use in self.functions.uses(name):
                if use.target is None:
                    raise Untranslatable(f"{name}() is used", clang.line_of(use.cursor))
        if b"^" in self.functions.text:
            for function in self.functions.defined:
                if b"^" in self.functions.text[function.start : function.stop]:
                    _refuse_blocks(function.cursor)
        if not self.shared_variables and self.changed is not None:
            raise Untranslatable(*self.changed)

    def _threaded(self) -> tuple[frozenset[int], list[Use]]:
        """Keys of the functions that need the grid, and all uses and declarations to be rewritten.

        A function needs it if it uses a work-item function of the grid, calls a kernel or calls a function that needs
        it. Which functions might need it is read from spellings first: asking clang about every name of a large
        header takes long.
        """
        functions = self.functions
        kernels = {function.key for function in functions.defined if function.kernel}
        wanted = {*self.grid_functions, *(function.name for function in functions.defined if function.kernel)}
        by_key = {function.key: function.name for function in functions.defined}
        mentions = functions.mentions({*functions.names, *self.grid_functions})
        growing = list(wanted)
        while growing:
            for key in mentions.get(growing.pop(), ()):
                if by_key[key] not in wanted:
                    wanted.add(by_key[key])
                    growing.append(by_key[key])
        uses = [use for name in sorted(wanted) for use in functions.uses(name)]
        callers: dict[int | str, set[int]] = {}
        for use in uses:
            holder = functions.enclosing(use.offset)
            if holder is not None and not use.declares:
                callers.setdefault(use.name if use.target is None else use.target, set()).add(holder.key)
        threaded = set(kernels)
        pending: list[int | str] = [*self.grid_functions, *kernels]
        while pending:
            for key in callers.get(pending.pop(), ()):
                if key not in threaded:
                    threaded.add(key)
                    pending.append(key)
        self._check_reach(threaded, by_key)
        return frozenset(threaded), uses

    def _check_reach(self, threaded: set[int], by_key: Mapping[int, str]) -> None:
        for function in self.functions.defined:
            if function.key not in threaded:
                continue
            cursor, name = function.cursor, by_key[function.key]
            if cursor.type.kind == TypeKind.FUNCTIONPROTO and cursor.type.is_function_variadic():
                raise Untranslatable(f"{name}() takes variable arguments", clang.line_of(cursor))
            place = parentheses_after(self.functions.text, cursor.location.offset + len(name))
            if any(clang.extent_of(parameter)[0] > place.closing for parameter in cursor.get_arguments()):
                # C99 6.9.1p6: the list in parentheses is of names only.
                raise Untranslatable(
                    f"{name}() declares its parameters after the list of their names (the old style of C)",
                    clang.line_of(cursor),
                )

    def _rewrite(self, use: Use, threaded: frozenset[int]) -> None:
        """One occurrence of a function's name."""
        stop = use.offset + len(use.name.encode())
        if use.target is None:
            if use.name in self.grid_functions:
                self.used.add(use.name)
                self.edits.replace(use.offset, stop, f"{self.prefix}{use.name}")
                self._argument_first(stop, f"{self.prefix}g")
            return
        if use.target not in threaded:
            return
        kernel = self.kernels.get(use.name)
        if kernel is None:
            grid = f"__private const struct {self.prefix}grid *{self.prefix}g"
            self._argument_first(stop, grid if use.declares else f"{self.prefix}g")
        else:
            number = self.numbers[use.name]
            hidden = f"struct {self.prefix}args{number} {self.prefix}hidden"
            # A kernel that is called gets pointers that have been shifted already.
            self._argument_last(
                stop, hidden if use.declares else f"{self.prefix}unshifted{number}({self.prefix}g)"
            )

    def _argument_first(self, name_stop: int, text: str) -> None:
        place = parentheses_after(self.functions.text, name_stop)
        if place.empty:
            self.edits.replace(place.opening + 1, place.closing, text)
        else:
            self.edits.insert(place.opening + 1, f"{text}, ")

    def _argument_last(self, name_stop: int, text: str) -> None:
        place = parentheses_after(self.functions.text, name_stop)
        if place.empty:
            self.edits.replace(place.opening + 1, place.closing, text)
        else:
            self.edits.insert(place.closing, f", {text}")

    def _enter_kernel(self, function: Function) -> None:
        """At entry: the grid's address, and every pointer parameter again under its own name, shifted."""
        p = self.prefix
        entry = [f" __private const struct {p}grid *{p}g = &{p}hidden.grid;"]
        parameters = list(function.cursor.get_arguments())
        kinds = self.program.kernels[function.name].args
        for number, index in enumerate(self.kernels[function.name].pointer_args):
            parameter = parameters[index]
            name = parameter.spelling
            if not name:
                continue
            offset = parameter.location.offset
            if self.functions.text[offset : offset + len(name)] != name.encode():
                raise Untranslatable(
                    f"parameter {name} is not written where it is declared (a macro?)",
                    clang.line_of(parameter),
                )
            self.edits.replace(offset, offset + len(name), f"{p}p_{name}")
            # By pointer arithmetic, so that the compiler still knows what is restrict and which address space it is.
            # Outside the buffer that is undefined (C99 6.5.6p8), but no compiler knows the shift, which is 0 for no
            # buffer; with pointers made from integers, Intel's vectoriser ran a guarded float16 kernel without its
            # guard.
            own, kind = f"{p}p_{name}", kinds[index].kind
            entry.append(
                f" __typeof__({own}) {name} = (__typeof__({own}))((__{kind} char *){own} - {p}hidden.shift[{number}]);"
            )
        insert_at_entry(self.edits, function.body_start, "".join(entry))

    def _prelude(self) -> str:
        p = self.prefix
        text = _GRID.format(p=p, fields=_FIELDS if self.renumbers else "")
        if self.used:
            text += self._functions()
        text += f"#undef {p}IN\n"
        for name, kernel in self.kernels.items():
            number, npointers = self.numbers[name], len(kernel.pointer_args)
            shift = f" long shift[{npointers}];" if npointers else ""
            text += f"struct {p}args{number} {{ struct {p}grid grid;{shift} }};\n"
        return text + "".join(self._unshifted(number) for number in self._called_kernels())

    def _functions(self) -> str:
        """The functions that are called in place of the program's work-item functions: those alone, since whoever reads the text that is
        made spends more time with these few than with a short kernel.
        """
        p, used = self.prefix, set(self.used)
        if _LINEAR in used:
            used.update(_LINEAR_NEEDS)
        names = [name for name in self.grid_functions if name in used]
        first = "" if self.offsets else f" + (size_t){p}g->first[d]"
        gid = "get_global_id(" if self.own_ids else f"{p}get_global_id({p}g, "
        declared, defined = self._answered(names, "size_t", p, _ANSWERS, first=first, gid=gid)
        if not self.offsets:
            low, gid = f"{p}low_", f"{p}low_get_global_id({p}g, "
            more = self._answered(names, "uint", low, _LOW_ANSWERS, cast="(uint)", gid=gid)
            declared, defined = declared + more[0], defined + more[1]
        if self.renumbers:
            declared, defined = _BLOCK_DECLARED.format(p=p) + declared, _BLOCK_DEFINED.format(p=p) + defined
        return declared + defined

    def _answered(
        self,
        names: Sequence[str],
        result: str,
        begin: str,
        answers: Mapping[str, str],
        *,
        first: str = "",
        cast: str = "",
        gid: str,
    ) -> tuple[str, str]:
        """Declarations and definitions of functions that return a `result` and whose names `begin` so. `cast`: to it, of a size_t."""
        p, between = self.prefix, ""
        if self.renumbers:
            between = f" + {cast}{p}get_block({p}g, d) * ({result}){p}g->{{}}_between[d]"
        groups, items = between.format("groups"), between.format("items")
        declared = defined = ""
        for name in names:
            head = f"{begin}{name}({p}IN{'' if name == _LINEAR else ', uint d'})"
            answer = answers[name].format(p=p, groups=groups, items=items, first=first, gid=gid)
            declared += f"{result} __attribute__((always_inline)) {head};\n"
            defined += f"{result} {head} {{ return {answer}; }}\n"
        return declared, defined

    def _called_kernels(self) -> list[int]:
        """Numbers of the kernels that other functions call."""
        return [
            number
            for name, number in self.numbers.items()
            if any(not use.declares for use in self.functions.uses(name))
        ]

    def _unshifted(self, number: int) -> str:
        p = self.prefix
        npointers = len(list(self.kernels.values())[number].pointer_args)
        zeros = "".join(f" a.shift[{index}] = 0;" for index in range(npointers))
        head = f"struct {p}args{number} {p}unshifted{number}(__private const struct {p}grid *{p}g)"
        return f"{head};\n{head} {{ struct {p}args{number} a; a.grid = *{p}g;{zeros} return a; }}\n"


def low_name(function: str) -> str:
    """What gives the low 32 bits of a rewritten function's value, where the translation has no engine's offsets."""
    prefix, _, name = function.partition("get_")
    return f"{prefix}low_get_{name}"


def _why_whole(program: ParsedProgram, functions: Functions) -> tuple[str, int] | None:
    # OpenCL C 2.0 and later, 6.7.1: such variables live in global memory and outlast a launch.
    variable = changeable_variable(program, functions)
    if variable is None:
        return None
    own = variable.semantic_parent.kind == CursorKind.FUNCTION_DECL
    what = "static variable" if own else "variable at program scope"
    return f"{variable.spelling} is a {what}", clang.line_of(variable)


def _pointer_args(info: KernelInfo) -> tuple[int, ...]:
    return tuple(index for index, arg in enumerate(info.args) if arg.kind in BUFFERS)


def _free_prefix(functions: Functions) -> str:
    """A prefix that no identifier of the program starts with."""
    taken = {
        match.group() for match in (re.match(r"vdev\d*_", name) for name in functions.identifiers()) if match
    }
    number = 0
    while (prefix := f"vdev{number or ''}_") in taken:
        number += 1
    return prefix


def _refuse_blocks(function: Cursor) -> None:
    for cursor in clang.walk(function):
        if cursor.kind == CursorKind.BLOCK_EXPR:
            raise Untranslatable("a block is used", clang.line_of(cursor))
