"""libclang as an OpenCL C front end: translation units, exact extents, presumed lines, operator kinds,
clang's messages.

Decides how clang is called (language options, our base header). Never interprets a program.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    PyDLL,
    Structure,
    byref,
    c_double,
    c_int,
    c_longlong,
    c_uint,
    c_ulonglong,
    c_void_p,
    py_object,
)
from functools import cache, lru_cache
from typing import Any, NamedTuple
from weakref import ref

import clang.cindex as cindex
from clang.cindex import Cursor, CursorKind, SourceLocation, SourceRange, TranslationUnit, Type, TypeKind

from .kernels import Line
from .operator_kinds import Binary, Joining, Placed, Unary
from .types import Space

INCLUDE_DIR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "include")
BASE_HEADER = os.path.join(INCLUDE_DIR, "opencl-c-base.h")
#: Bytes of the types of which as_type() makes values, and of their vectors.
_AS_NBYTES = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4, "float": 4, "long": 8, "ulong": 8,
    "double": 8,
}  # fmt: skip
_AS_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
#: as_type(), as a type and a vector's size; or the beginning of a name
_AS_TYPE = re.compile(rf"\bas_(?:({'|'.join(_AS_NBYTES)})(2|3|4|8|16|)\b|(?!\w))")
#: The file name under which a translation unit's text is given: one that no program includes.
TEXT_FILE = "<kernel>"
#: Names of what is no file: the program's own text, and none. What vdev adds to a text is named in such brackets, too.
_OWN_FILES = (TEXT_FILE, "<generated>", "")
#: The name of what is read between the base header and the text: no real file has it.
_PROLOGUE_FILE = "/vdev/<prologue>"

#: By CXBinaryOperatorKind; from 23 on they are compound assignments.
_BINARY: dict[int, Binary | Joining] = {
    3: Binary.MULTIPLY, 4: Binary.DIVIDE, 5: Binary.REMAINDER, 6: Binary.ADD, 7: Binary.SUBTRACT,
    8: Binary.SHIFT_LEFT, 9: Binary.SHIFT_RIGHT, 11: Binary.LESS, 12: Binary.GREATER, 13: Binary.LESS_EQUAL,
    14: Binary.GREATER_EQUAL, 15: Binary.EQUAL, 16: Binary.NOT_EQUAL, 17: Binary.AND, 18: Binary.XOR,
    19: Binary.OR, 20: Binary.BOTH, 21: Binary.EITHER, 22: Joining.ASSIGN,
    23: Binary.MULTIPLY, 24: Binary.DIVIDE, 25: Binary.REMAINDER, 26: Binary.ADD, 27: Binary.SUBTRACT,
    28: Binary.SHIFT_LEFT, 29: Binary.SHIFT_RIGHT, 30: Binary.AND, 31: Binary.XOR, 32: Binary.OR, 33: Joining.COMMA,
}  # fmt: skip
#: By CXUnaryOperatorKind.
_UNARY: dict[int, Unary | Placed] = {
    1: Placed.RAISE, 2: Placed.LOWER, 3: Placed.RAISE, 4: Placed.LOWER, 5: Placed.ADDRESS, 6: Placed.DEREFERENCE,
    7: Unary.PLUS, 8: Unary.MINUS, 9: Unary.COMPLEMENT, 10: Unary.NOT,
}  # fmt: skip
_SPACES = {space.value: space for space in Space}
_ARRAYS = (cindex.TypeKind.INCOMPLETEARRAY, cindex.TypeKind.CONSTANTARRAY, cindex.TypeKind.VARIABLEARRAY)
_SEVERITIES = {1: "note", 2: "warning", 3: "error", 4: "fatal error"}
#: libclang's CXEvalResultKind
_EVALUATED_INT, _EVALUATED_FLOAT = 1, 2
#: of a translation unit's attributes: weak references to its types, by `type_key`
_TYPES = "vdev_types"
#: of a type's attributes: what `canonical` has found, or True
_CANONICAL = "vdev_canonical"
#: libclang's functions during which other threads may run
_TAKE_LONG = (
    "clang_parseTranslationUnit", "clang_reparseTranslationUnit", "clang_createTranslationUnit", "clang_saveTranslationUnit",
    "clang_disposeTranslationUnit", "clang_codeCompleteAt",
)  # fmt: skip
_lock = threading.Lock()


class Presumed(NamedTuple):
    """A place according to `#line` directives: the user's file and line."""

    file: str
    line: int
    column: int


class _SourceRanges(Structure):
    """libclang's CXSourceRangeList"""

    _fields_ = (("count", c_uint), ("ranges", POINTER(SourceRange)))


_cursor_kind, _type_kind = cache(CursorKind.from_id), cache(TypeKind.from_id)


class _Once:
    """What an object says of itself again and again: asked for once, and an attribute from then on."""

    def __init__(self, asked: Callable[[Any], Any]) -> None:
        self._asked, self._name = asked, asked.__name__

    def __get__(self, of: Any, _: object) -> Any:
        found = of.__dict__[self._name] = self._asked(of)
        return found


class _Type(cindex.Type):  # type: ignore[misc]
    """A type as all of libclang's functions give it here."""

    @_Once
    def kind(self) -> TypeKind:
        return _type_kind(self._kind_id)


class _Cursor(cindex.Cursor):  # type: ignore[misc]
    """A cursor as all of libclang's functions give it here."""

    @_Once
    def kind(self) -> CursorKind:
        return _cursor_kind(self._kind_id)

    @_Once
    def type(self) -> Type:
        """Cursors of one type share it, and with it what is known of it, while one of them has it: types hold their unit, which must
        not hold them.
        """
        made = _bare("clang_getCursorType", _Type)(self)
        known = self._tu.__dict__.setdefault(_TYPES, {})
        reference = known.get(key := made.data[0])
        found = None if reference is None else reference()
        if found is None:
            found, made._tu = made, self._tu
            known[key] = ref(made)
        return found

    def get_children(self) -> Iterator[Cursor]:
        return iter(children(self))


@lru_cache(maxsize=1)
def opened_library() -> Any:
    """libclang with the functions the Python wrapper lacks."""
    library = cindex.conf.lib
    library.clang_getPresumedLocation.argtypes = [
        SourceLocation,
        POINTER(cindex._CXString),
        POINTER(c_uint),
        POINTER(c_uint),
    ]
    library.clang_getCursorBinaryOperatorKind.argtypes = [Cursor]
    library.clang_getCursorBinaryOperatorKind.restype = c_int
    library.clang_getCursorUnaryOperatorKind.argtypes = [Cursor]
    library.clang_getCursorUnaryOperatorKind.restype = c_int
    library.clang_Cursor_Evaluate.argtypes = [Cursor]
    library.clang_Cursor_Evaluate.restype = c_void_p
    library.clang_getCursorPrettyPrinted.argtypes = [Cursor, c_void_p]
    library.clang_getCursorPrettyPrinted.restype = cindex._CXString
    library.clang_Cursor_getVarDeclInitializer.argtypes = [Cursor]
    library.clang_Cursor_getVarDeclInitializer.restype = _Cursor
    library.clang_getSkippedRanges.argtypes = [TranslationUnit, c_void_p]
    library.clang_getSkippedRanges.restype = POINTER(_SourceRanges)
    library.clang_disposeSourceRangeList.argtypes = [POINTER(_SourceRanges)]
    library.clang_disposeSourceRangeList.restype = None
    for name, result in (
        ("getKind", c_int),
        ("isUnsignedInt", c_uint),
        ("getAsUnsigned", c_ulonglong),
        ("getAsLongLong", c_longlong),
        ("getAsDouble", c_double),
        ("dispose", None),
    ):
        function = getattr(library, f"clang_EvalResult_{name}")
        function.argtypes = [c_void_p]
        function.restype = result
    return library


@cache
def _bare(name: str, result: Any, *others: Any) -> Any:
    """A function of libclang that takes a cursor, and arguments of `others`, without the wrapper's processing of each result."""
    return PYFUNCTYPE(result, Cursor, *others)((name, cindex.conf.lib))


def kind_number(cursor: Cursor) -> int:
    """libclang's number of a cursor's kind (`CursorKind.value`)."""
    number: int = cursor._kind_id
    return number


def type_key(cursor: Cursor) -> int:
    """Distinguishes a cursor's type from others of its translation unit, including its qualifiers; 0: it has none."""
    return _bare("clang_getCursorType", cindex.Type)(cursor).data[0] or 0


def referenced(cursor: Cursor) -> Cursor:
    """The declaration that a name stands for (`Cursor.referenced`)."""
    found: Cursor = _bare("clang_getCursorReferenced", _Cursor)(cursor)
    found._tu = cursor._tu
    return found


def evaluate(cursor: Cursor) -> int | float | None:
    """The value of a constant expression, computed by clang whether or not it has effects; None if there is none."""
    library = opened_library()
    result = library.clang_Cursor_Evaluate(cursor)
    if not result:
        return None
    try:
        kind = library.clang_EvalResult_getKind(result)
        if kind == _EVALUATED_FLOAT:
            return float(library.clang_EvalResult_getAsDouble(result))
        if kind != _EVALUATED_INT:
            return None
        if library.clang_EvalResult_isUnsignedInt(result):
            return int(library.clang_EvalResult_getAsUnsigned(result))
        return int(library.clang_EvalResult_getAsLongLong(result))
    finally:
        library.clang_EvalResult_dispose(result)


@lru_cache(maxsize=1)
def _index() -> cindex.Index:
    _keep_the_interpreter_lock()
    return cindex.Index.create()


def _keep_the_interpreter_lock() -> None:
    """Have libclang called without letting other threads run, but for what takes long.

    A tree is read by tens of thousands of calls that take less than a microsecond each. If every one of them gave up the interpreter
    lock, other threads, which wait for devices and look again and again, would take it each time.
    """
    library = cindex.conf.lib
    held = PyDLL(cindex.conf.get_filename())
    cindex.register_functions(held, not cindex.Config.compatibility_check)
    for name in _TAKE_LONG:
        setattr(held, name, getattr(library, name))
    ours = {Cursor: _Cursor, Type: _Type}
    for function in vars(held).values():
        if (result := getattr(function, "restype", None)) in ours:
            function.restype = ours[result]
    cindex.conf.lib = held


def _string(value: Any) -> str:
    # The wrapper only converts the results of its own functions.
    return cindex.conf.lib.clang_getCString(value) or ""


def _reinterpretations(text: str) -> list[str]:
    """By the sizes of the types that are named: there are some seven hundred functions of all sizes, which take longer to read
    than a short program.
    """
    found = set(_AS_TYPE.findall(text))
    if ("", "") in found:  # a name that a macro composes
        return [f"-DVDEV_AS_OF_{nbytes}" for nbytes in _AS_SIZES]
    sizes = {_AS_NBYTES[name] * {"": 1, "3": 4}.get(count, int(count or 1)) for name, count in found}
    return [f"-DVDEV_AS_OF_{nbytes}" for nbytes in sorted(sizes)]


def declared_for(text: str) -> list[str]:
    """Directives that make the base header declare functions that `text` mentions and that few programs use.

    >>> declared_for("float f = as_float(as_int(g)); ulong2 bias_l = as_ulong2(v);")
    ['-DVDEV_AS_TYPE', '-DVDEV_AS_OF_4', '-DVDEV_AS_OF_16']
    """
    found = ["-DVDEV_AS_TYPE", *_reinterpretations(text)] if "as_" in text else []
    return [*found, "-DVDEV_INTEL_SUBGROUPS"] if "intel_sub_group_" in text else found


def parse(
    text: str, arguments: Sequence[str], *, prologue: str = "", keep_skipped: bool = False
) -> TranslationUnit:
    """The translation unit of OpenCL C `text`; its diagnostics say whether it is valid.

    `prologue`: directives between the base header and the text. `keep_skipped`: `skipped_lines` may be called for it,
    which costs some time.
    """
    command = [
        "-x", "cl", "-target", "spir64", "-Xclang", "-fdeclare-opencl-builtins", "-Xclang", "-cl-ext=+all",
        f"-I{INCLUDE_DIR}", "-ferror-limit=100", "-fno-spell-checking", *arguments,
    ]  # fmt: skip
    files = [(TEXT_FILE, text.encode("utf-8", "surrogateescape"))]
    if prologue:
        command += ["-include", _PROLOGUE_FILE]
        files.append((_PROLOGUE_FILE, prologue.encode("utf-8", "surrogateescape")))
    options = TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD if keep_skipped else 0
    with _lock:
        return _index().parse(TEXT_FILE, command, unsaved_files=files, options=options)


def printed(cursor: Cursor) -> str:
    """A declaration and everything in it, as clang prints its tree: constants by value, no macros, no comments."""
    return _string(opened_library().clang_getCursorPrettyPrinted(cursor, None))


def skipped_lines(unit: TranslationUnit, path: str | None) -> list[tuple[int, int]]:
    """First and last lines of what conditions left out, each time that `path` was read (None: the text itself)."""
    library = opened_library()
    file = cindex.File.from_name(unit, TEXT_FILE if path is None else path)
    found = library.clang_getSkippedRanges(unit, file)
    try:
        ranges = [found.contents.ranges[index] for index in range(found.contents.count)]
        return [(each.start.line, each.end.line) for each in ranges]
    finally:
        library.clang_disposeSourceRangeList(found)


@lru_cache(maxsize=1024)
def holds(condition: str) -> bool | None:
    """Whether `#if condition` holds, for questions that the preprocessor leaves to clang itself; None if it is
    malformed.
    """
    unit = parse(f"#if {condition}\nvoid found(void);\n#endif\n", ())
    if any(diagnostic.severity >= cindex.Diagnostic.Error for diagnostic in unit.diagnostics):
        return None
    return any(cursor.spelling == "found" for cursor in unit.cursor.get_children())


@lru_cache(maxsize=1024)
def definition(name: str) -> str | None:
    """What one of clang's own macros expands to; None if there is none of that name."""
    head = "#define VDEV_SPELLED(...) #__VA_ARGS__\n#define VDEV_SPELL(...) VDEV_SPELLED(__VA_ARGS__)\n"
    unit = parse(f"{head}#ifdef {name}\nconstant char found[] = VDEV_SPELL({name});\n#endif\n", ())
    for cursor in unit.cursor.get_children():
        if cursor.spelling == "found":
            quoted = printed(cursor).partition('"')[2].rpartition('"')[0]
            return re.sub(r"\\(.)", r"\1", quoted)
    return None


def presumed(location: SourceLocation) -> Presumed:
    """File, line and column according to `#line` directives."""
    library = opened_library()
    file, line, column = cindex._CXString(), c_uint(), c_uint()
    library.clang_getPresumedLocation(location, byref(file), byref(line), byref(column))
    return Presumed(_string(file), line.value, column.value)


def presumed_line(cursor: Cursor) -> int:
    """Only the line of a cursor, as `presumed` gives it for its location; 0 if there is none."""
    line = c_uint()
    location = _bare("clang_getCursorLocation", SourceLocation)(cursor)
    opened_library().clang_getPresumedLocation(location, None, byref(line), None)
    return line.value


def line_of(cursor: Cursor) -> int:
    """The user's line on which the cursor starts."""
    return line_at(cursor.extent.start)


def line_at(location: SourceLocation) -> int:
    """The user's line, with its file's name where that is not the program's own text."""
    place = presumed(location)
    return place.line if place.file in _OWN_FILES else Line(place.line, place.file)


def canonical(type_: Type) -> Type:
    """The type without the names that the program has for it (`Type.get_canonical`), which is asked for again and again."""
    known = type_.__dict__.get(_CANONICAL)
    if known is None:
        known = type_.get_canonical()
        known.__dict__[_CANONICAL] = True  # not itself, which would be garbage only for the collector
        type_.__dict__[_CANONICAL] = known
    return type_ if known is True else known


def extent_of(cursor: Cursor) -> tuple[int, int]:
    """Byte offsets (start, stop) of the cursor in the text it was parsed from."""
    library = cindex.conf.lib
    extent = _bare("clang_getCursorExtent", SourceRange)(cursor)
    start, stop = c_uint(), c_uint()
    # The wrapper would also ask each place for its file, line and column.
    offset_of = library.clang_getInstantiationLocation
    offset_of(library.clang_getRangeStart(extent), None, None, None, byref(start))
    offset_of(library.clang_getRangeEnd(extent), None, None, None, byref(stop))
    return start.value, stop.value


def in_text(cursor: Cursor) -> bool:
    """Whether the cursor stands in the program's text, not in the base header."""
    file = cursor.location.file
    return file is not None and file.name == TEXT_FILE


def _visit(child: Cursor, parent: Cursor, found: list[Cursor]) -> int:
    found.append(child)
    return 1  # and continue with its next sibling (CXChildVisit_Continue)


_VISIT = CFUNCTYPE(c_int, _Cursor, _Cursor, py_object)
_visited = _VISIT(_visit)


def children(cursor: Cursor) -> list[Cursor]:
    """Like `Cursor.get_children`, which makes a new callback each time: reading a syntax tree consists mostly of
    that.
    """
    found: list[Cursor] = []
    _bare("clang_visitChildren", c_uint, _VISIT, py_object)(cursor, _visited, found)
    unit = cursor._tu
    for child in found:
        child._tu = unit  # lives as long as its cursors
    return found


def declarations(unit: TranslationUnit) -> list[Cursor]:
    """What a program and the files that it includes declare at program scope, in order: all but the base header's declarations,
    which come first, and are so many that reading a short program would consist mostly of looking at them.
    """
    found: list[Cursor] = []
    for cursor in reversed(children(unit.cursor)):
        file = cursor.location.file
        if file is None or cursor.kind.is_preprocessing():
            continue
        if file.name == BASE_HEADER:
            break
        found.append(cursor)
    found.reverse()
    return found


def initialiser(cursor: Cursor) -> Cursor | None:
    """The initialiser of a VAR_DECL."""
    child = opened_library().clang_Cursor_getVarDeclInitializer(cursor)
    if child is None or child.kind.is_invalid():
        return None
    child._tu = cursor._tu  # lives as long as its cursors
    return child


def walk(cursor: Cursor) -> Iterator[Cursor]:
    """The cursor and everything below it, in the order of the text."""
    stack = [cursor]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def binary_operator(cursor: Cursor) -> Binary | Joining | None:
    """The operator of a BINARY_OPERATOR; for a COMPOUND_ASSIGNMENT_OPERATOR, what it does before it assigns. None for
    operators that OpenCL C lacks.
    """
    return _BINARY.get(opened_library().clang_getCursorBinaryOperatorKind(cursor))


def unary_operator(cursor: Cursor) -> Unary | Placed | None:
    """The operator of a UNARY_OPERATOR; see `is_postfix` for `++` and `--`."""
    return _UNARY.get(opened_library().clang_getCursorUnaryOperatorKind(cursor))


def is_postfix(cursor: Cursor) -> bool:
    """Whether a UNARY_OPERATOR follows its operand (CXUnaryOperator_PostInc, _PostDec: 1, 2)."""
    return opened_library().clang_getCursorUnaryOperatorKind(cursor) in (1, 2)


def address_space(type_: cindex.Type) -> Space:
    """The address space a type is qualified with."""
    return _SPACES.get(type_.get_address_space(), Space.OTHER)


def pointee(type_: cindex.Type) -> cindex.Type | None:
    """What a pointer points to, or None: libclang crashes on some questions about other types' pointees."""
    canonical = type_.get_canonical()
    return canonical.get_pointee() if canonical.kind == cindex.TypeKind.POINTER else None


def parameter_types(function: Cursor) -> list[cindex.Type]:
    """Types of a function's parameters, with arrays adjusted to pointers (C99 6.7.5.3p7)."""
    if function.type.kind != cindex.TypeKind.FUNCTIONPROTO:
        return []
    # libclang shows a decayed array as it was written; only the canonical function type is adjusted.
    pairs = zip(function.type.argument_types(), function.type.get_canonical().argument_types(), strict=True)
    return [canonical if written.get_canonical().kind in _ARRAYS else written for written, canonical in pairs]


def has_errors(unit: TranslationUnit) -> bool:
    return any(diagnostic.severity >= cindex.Diagnostic.Error for diagnostic in unit.diagnostics)


def build_log(unit: TranslationUnit, source: str) -> str:
    """clang's messages in clang's layout: place, text, the source line and a caret. Notes follow what they
    explain.
    """
    lines = source.split("\n")
    entries: list[str] = []
    for diagnostic in unit.diagnostics:
        entries += _entry(diagnostic, lines)
        for note in diagnostic.children:
            entries += _entry(note, lines)
    return "\n".join(entries)


def _entry(diagnostic: Any, lines: Sequence[str]) -> list[str]:
    severity = _SEVERITIES.get(diagnostic.severity)
    if severity is None:
        return []
    option = f" [{diagnostic.option}]" if diagnostic.option else ""
    message = f"{severity}: {diagnostic.spelling}{option}"
    location = diagnostic.location
    if location.file is None:
        return [message]
    place = presumed(location)
    in_main = location.file.name == TEXT_FILE
    name = os.path.basename(place.file) if place.file == BASE_HEADER else place.file
    entry = [f"{name}:{place.line}:{place.column}: {message}"]
    text = lines[location.line - 1] if in_main and 0 < location.line <= len(lines) else _file_line(location)
    if text is not None:
        number = f"{place.line:5d}"
        entry += [f"{number} | {text.rstrip()}", f"{' ' * len(number)} | {_carets(diagnostic, text)}"]
    return entry


def _file_line(location: SourceLocation) -> str | None:
    try:
        with open(location.file.name, encoding="utf-8", errors="replace") as file:
            return next((text for number, text in enumerate(file, 1) if number == location.line), None)
    except OSError:
        return None


def _carets(diagnostic: Any, text: str) -> str:
    location = diagnostic.location
    columns = {}
    for span in diagnostic.ranges:
        if span.start.line == location.line and span.end.line == location.line:
            columns.update(dict.fromkeys(range(span.start.column, span.end.column), "~"))
    columns[location.column] = "^"
    padded = text.ljust(max(columns))
    marks = (columns.get(k, "\t" if padded[k - 1] == "\t" else " ") for k in range(1, max(columns) + 1))
    return "".join(marks)


__all__ = [
    "BASE_HEADER",
    "INCLUDE_DIR",
    "Cursor",
    "CursorKind",
    "Presumed",
    "SourceRange",
    "TranslationUnit",
    "address_space",
    "binary_operator",
    "build_log",
    "canonical",
    "children",
    "declarations",
    "declared_for",
    "extent_of",
    "has_errors",
    "in_text",
    "initialiser",
    "is_postfix",
    "kind_number",
    "line_at",
    "line_of",
    "parameter_types",
    "parse",
    "pointee",
    "presumed",
    "presumed_line",
    "printed",
    "referenced",
    "skipped_lines",
    "type_key",
    "unary_operator",
    "walk",
]  # fmt: skip
