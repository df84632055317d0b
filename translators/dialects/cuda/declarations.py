"""Declarations for C++: the memory that variables live in, the sizes of structures, initialisations that are jumped
over.

Decides where local and constant variables are placed. Never looks into expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clang.cindex import Cursor, CursorKind, StorageClass, TypeKind

from ...frontend import clang
from ...frontend.edits import Edits, Functions, after_blanks, matching
from ...frontend.kernels import Untranslatable
from ...frontend.source import ParsedProgram
from ...frontend.types import Space
from .program import LOCAL_ALIGNMENT
from .types import holds_pointer, holds_vector, is_volatile_class, space_of, vector_type
from .words import Words

_DEFINING = (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL, CursorKind.ENUM_DECL)
_VOLATILE = re.compile(rb"\b(?:__)?volatile(?:__)?\b")
#: After a record's definition: the function whose result has the type.
_RETURNED = re.compile(rb"\s*\**\s*(?!__attribute)\w+\s*\(")
SKIPPED = (CursorKind.TYPE_REF, CursorKind.UNEXPOSED_ATTR, CursorKind.ANNOTATE_ATTR, CursorKind.ALIGNED_ATTR)
_OUTERMOST = (CursorKind.COMPOUND_STMT, CursorKind.LABEL_STMT, CursorKind.DECL_STMT)
_ARRAYS = (TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY)
#: The largest vector, of sixteen numbers; what is larger is a record that holds a table.
_VECTOR_NBYTES = 128
#: NVIDIA's constant memory of a module, minus what the compiler uses itself.
_CONSTANT_NBYTES = 60000
#: CUDA's static shared memory, minus what our own functions use.
_STATIC_NBYTES = 47 << 10


class Declarations(Words):
    """Edits of declarations, for whoever walks a program."""

    def __init__(self, program: ParsedProgram, functions: Functions, edits: Edits, prefix: str) -> None:
        super().__init__(program, functions, edits, prefix)
        self._constant_nbytes = 0
        self._padded: set[int] = set()
        self._settled_at: set[int] = set()  # where members' declarations have been changed
        self.settles = False  #: whether there are members that the program declares as volatile and that are classes in C++
        self._taken_out: set[int] = set()
        self._stored: set[int] = set()  # where declarations with a word of their own for constants begin
        self._jumps = False  # whether the function has jumps that may pass over initialisations
        #: Kernels whose local variables are in dynamic shared memory, and how many bytes of it a launch needs for
        #: them.
        self.large: dict[str, int] = {}
        self._next_local: int | None = None  # the offset of the next local variable, within such a kernel
        #: Whether constants hold addresses: NVVM takes a pointer loaded from constant memory for one to global
        #: memory.
        self._addresses = any(
            space_of(cursor.type) is Space.CONSTANT and holds_pointer(cursor.type)
            for cursor in program.declarations
            if cursor.kind == CursorKind.VAR_DECL
        )

    def _storage(self, variables: list[Cursor], start: int, static: str) -> None:
        """Choose the memory for variables that are declared together."""
        spaces = {space_of(variable.type) for variable in variables}
        if len(spaces) > 1 and spaces & {Space.LOCAL, Space.CONSTANT}:
            raise Untranslatable(
                "one declaration of variables in several address spaces", clang.line_of(variables[0])
            )
        if spaces == {Space.LOCAL}:
            self.edits.insert(start, "__shared__ ")
        elif spaces == {Space.CONSTANT}:
            where = "__constant__" if self._fits_constant_memory(variables) else "__device__"
            word = "" if variables[0].storage_class == StorageClass.STATIC else static
            if start not in self._stored:  # at program scope, variables declared together come one by one
                self._stored.add(start)
                self.edits.insert(start, f"{word}{where} ")

    def _fits_constant_memory(self, variables: list[Cursor]) -> bool:
        """Whether variables in OpenCL's constant address space are placed in NVIDIA's constant memory.

        Tables are not. Constant memory serves one address of a warp after another, and from a cache of a few KB: natively on H200, a table
        of 4 KB that is read at places which data give takes 32 times as long as the same table in a buffer
        (samples/benchmarks/constant_tables.py). Elements at places that the compiler knows are part of the code in either case.
        """
        types = [clang.canonical(variable.type) for variable in variables]
        if self._addresses or any(t.kind in _ARRAYS or t.get_size() > _VECTOR_NBYTES for t in types):
            return False
        self._constant_nbytes += sum(max(t.get_size(), 0) for t in types)
        return self._constant_nbytes <= _CONSTANT_NBYTES

    def _enter(self, function: Cursor) -> None:
        """Decide where the local variables of a function live: CUDA's static shared memory holds 48 KB."""
        self._next_local = None
        start, stop = clang.extent_of(function)
        if function.spelling not in self.program.kernels or b"local" not in self.text[start:stop]:
            return
        found = list(_local_variables(function))
        nbytes = sum(_local_nbytes(variable) for variable in found)
        if nbytes > _STATIC_NBYTES:
            # Kernels that call each other each have their own place.
            self._next_local = max(self.large.values(), default=0) if self._kernels_call() else 0
            self.large[function.spelling] = self._next_local + nbytes

    def _settle(self, record: Cursor) -> None:
        """Declare members that are volatile and classes in C++ (structures, unions, vectors) as others are: such a member would keep the
        whole from being copied. The expressions that name them say that they are volatile.
        """
        for inner in record.get_children():
            if inner.kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL):
                self._settle(inner)
        for field in clang.canonical(record.type).get_fields() if record.is_definition() else ():
            if is_volatile_class(field.type):
                self.settles = True
                for start, stop, text in self._settled(field):
                    if start not in self._settled_at:  # members may be declared together
                        self._settled_at.add(start)
                        self.blank(start, stop, text)

    def _settled(self, field: Cursor) -> Iterator[tuple[int, int, str]]:
        """What takes the place of which bytes in a declaration of members, for them not to be volatile."""
        start, stop = clang.extent_of(field)[0], int(field.location.offset)
        opening = self.text.find(b"{", start, stop)
        behind = start if opening < 0 else matching(self.text, opening)  # their type may be defined here
        words = [
            *_VOLATILE.finditer(self.text, start, max(opening, start)),
            *_VOLATILE.finditer(self.text, behind, stop),
        ]
        for word in words:
            yield *word.span(), ""
        for child in field.get_children():
            if child.kind == CursorKind.TYPE_REF and is_volatile_class(child.type):
                first, last = clang.extent_of(child)
                yield first, last, f"::vdev_cl::bare_t<{self.text[first:last].decode()}>"

    def _pad(self, record: Cursor) -> None:
        """Name the bytes behind a structure's last member.

        C++ may use those for something else if a member has constructors, as vectors do; NVCC then copies the members
        before them byte by byte.
        """
        for inner in record.get_children():
            if inner.kind == CursorKind.STRUCT_DECL:
                self._pad(inner)
        start, stop = clang.extent_of(record)
        fields = list(clang.canonical(record.type).get_fields()) if record.is_definition() else []
        opening = self.text.find(b"{", start, stop)
        if not fields or opening < 0 or opening in self._padded or not holds_vector(record.type):
            return
        self._padded.add(opening)
        last = fields[-1]
        rest = record.type.get_size() - last.get_field_offsetof() // 8 - clang.canonical(last.type).get_size()
        if rest > 0 and not last.is_bitfield():
            self.edits.insert(matching(self.text, opening), f"unsigned char {self.prefix}rest[{rest}]; ")

    def _definitions(self, record: Cursor) -> bool:
        """Put the definitions within a record at program scope before its declaration; the record's own, too, where it stands in the
        type of a function's result (returns True).
        """
        start, stop = clang.extent_of(record)
        returned = _RETURNED.match(self.text, stop) is not None
        if returned or any(inner.kind in _DEFINING for inner in record.get_children()):
            around = [clang.extent_of(cursor) for cursor in self.program.declarations]
            begins = min(first for first, last in around if first <= start < last)
            self._take_out(record, begins)
            if returned:
                self._define_before(record, begins)
        return returned

    def _take_out(self, record: Cursor, start: int) -> None:
        """Define what a record defines inside it before the declaration that begins at `start`: in C such structures,
        unions and enumerators belong to the enclosing scope (6.2.1), in C++ to the record.
        """
        for inner in record.get_children():
            if inner.kind in _DEFINING and inner.is_definition():
                self._take_out(inner, start)
                self._define_before(inner, start)

    def _define_before(self, record: Cursor, start: int) -> None:
        """Move a definition with a name, or of enumerators, to the declaration's beginning."""
        first, last = clang.extent_of(record)
        words = self.text[first : self.text.find(b"{", first, last)].split()
        tag = self.word(record.spelling) if self._own_name(record) is not None else ""
        if first in self._taken_out or not (tag or record.kind == CursorKind.ENUM_DECL):
            return
        self._taken_out.add(first)
        keyword = words[0].decode()
        alone = self.text.startswith(b";", after_blanks(self.text, last))
        if not tag and not alone:
            tag = f"{self.prefix}enum{first}"
            opening = self.text.find(b"{", first, last)
            self.edits.replace(opening, opening + 1, f" {tag} {{")  # behind attributes that move there
        self.edits.put(start, start, (first, last), "; ")
        self.edits.put(first, last, "" if alone else f"{keyword} {tag} ")  # a name may follow the brace

    def _own_name(self, record: Cursor) -> int | None:
        """Where a record's name stands between its keyword and its members; None: it has none, or a typedef's."""
        start, stop = clang.extent_of(record)
        name, spelling = int(record.location.offset), record.spelling.encode()
        stands = start < name < self.text.find(b"{", start, stop) and self.text.startswith(spelling, name)
        return name if stands else None

    def _kernels_call(self) -> bool:
        names = [function.name for function in self.functions.defined if function.kernel]
        return any(not use.declares for name in names for use in self.functions.uses(name))

    def _place(self, statement: Cursor, variables: list[Cursor]) -> None:
        """Local variables in dynamic shared memory: a structure with their declarations, and references to its
        members.
        """
        assert self._next_local is not None
        start, stop = clang.extent_of(statement)
        name = f"{self.prefix}local{start}"
        self.edits.insert(start, f"struct {name} {{ ")
        references = "".join(
            f" auto &{self.word(v.spelling)} = {name}_.{self.word(v.spelling)};" for v in variables
        )
        place = f"*({name} *)({self.prefix}shared + {self._next_local})"
        self.edits.insert(stop, f" }}; {name} &{name}_ = {place};{references}")
        self._next_local += sum(_local_nbytes(variable) for variable in variables)

    def _assign_apart(self, statement: Cursor, variable: Cursor) -> None:
        """Declare a vector first and assign to it afterwards if a goto may pass over it: C++ does not let a goto pass
        over a constructor.
        """
        start = clang.extent_of(statement)[0]
        opened = self.text[:start].rstrip().endswith(b"(")  # a loop's own variable: no jump passes over that
        if (
            not self._jumps
            or opened
            or vector_type(variable.type) is None
            or variable.type.is_const_qualified()
        ):
            return
        parts = [child for child in variable.get_children() if child.kind not in SKIPPED]
        if not parts:
            return
        name_stop = int(variable.location.offset) + len(variable.spelling)
        equals = self.text.find(b"=", name_stop, clang.extent_of(parts[-1])[0])
        if equals >= 0:
            self.edits.replace(equals, equals + 1, f"; {self.word(variable.spelling)} =")


def _local_variables(around: Cursor) -> Iterator[Cursor]:
    """The local variables of a kernel, which stand in its outermost scope alone (OpenCL C 6.5.2); behind a label, too."""
    for child in clang.children(around):
        if child.kind in _OUTERMOST:
            yield from _local_variables(child)
        elif child.kind == CursorKind.VAR_DECL and space_of(child.type) is Space.LOCAL:
            yield child


def _local_nbytes(variable: Cursor) -> int:
    nbytes = max(int(clang.canonical(variable.type).get_size()), 0)
    return -(-nbytes // LOCAL_ALIGNMENT) * LOCAL_ALIGNMENT
