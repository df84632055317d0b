"""The front end: build options and OpenCL C source in, a parsed program and its kernels' signatures out.

Decides what the macro-free text of a program is, whether the program is valid (clang decides; its messages
are the build log) and what each kernel's arguments are. Never changes the meaning of the text and never looks
inside a function's body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from . import clang
from .conditions import Malformed, evaluate_integer
from .macros import definitions, tokenize
from .options import BuildOptions, parse_options
from .preprocess import Preprocessed, preprocess
from .target import Target, predefined_macros

__all__ = ["ArgInfo", "CompileError", "KernelInfo", "ParsedProgram", "Target", "parse_program"]

#: struct's format characters of the scalar types a kernel may take by value.
_SCALARS = {
    TypeKind.CHAR_S: "b", TypeKind.SCHAR: "b", TypeKind.CHAR_U: "B", TypeKind.UCHAR: "B", TypeKind.SHORT: "h",
    TypeKind.USHORT: "H", TypeKind.INT: "i", TypeKind.UINT: "I", TypeKind.LONG: "q", TypeKind.ULONG: "Q",
    TypeKind.HALF: "e", TypeKind.FLOAT: "f", TypeKind.DOUBLE: "d", TypeKind.BOOL: "?",
}  # fmt: skip
_QUALIFIER = re.compile(
    r"\b(?:__)?(?:global|local|constant|private|generic|read_only|write_only|read_write|const|volatile|restrict)\b"
)
_SIZED_ATTRIBUTE = re.compile(
    r"(?:__)?(reqd_work_group_size|work_group_size_hint|vec_type_hint|intel_\w+?)(?:__)?\s*\((.*)\)",
    re.DOTALL,
)
_UNSIGNED = {
    "unsigned char": "uchar",
    "unsigned short": "ushort",
    "unsigned int": "uint",
    "unsigned long": "ulong",
}

_TABLE_EXTENSIONS = (
    "cl_khr_subgroup_", "cl_khr_extended_bit_ops", "cl_khr_integer_dot_product", "cl_ext_float_atomics",
    "cl_khr_kernel_clock",
)  # fmt: skip


class CompileError(Exception):
    """The program is not valid. `log`: clang's messages, with the user's lines."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


@dataclass(frozen=True)
class ArgInfo:
    """One kernel argument. Strings are those of CL_KERNEL_ARG_…: `type_name` as in "float*" or "uint".

    `kind`: 'global', 'constant' and 'local' are pointers; 'value', 'image', 'sampler', 'pipe', 'queue' are
    not. `nbytes`: of a value, or of what a pointer points to (1 for void). `scalar`: struct's format
    character of a scalar value.
    """

    name: str
    type_name: str
    kind: str
    address_qualifier: str
    access_qualifier: str
    type_qualifiers: tuple[str, ...]
    nbytes: int
    scalar: str | None
    pointee_const: bool


@dataclass(frozen=True)
class KernelInfo:
    """Signature and attributes of a kernel; `line` is the user's."""

    name: str
    args: tuple[ArgInfo, ...]
    line: int
    reqd_work_group_size: tuple[int, int, int] | None
    work_group_size_hint: tuple[int, int, int] | None
    vec_type_hint: str | None
    attributes: str


@dataclass(frozen=True, eq=False)
class ParsedProgram:
    """A valid program.

    `preprocessed`: macro-free text whose `#line` directives lead back to the user's lines; `tu` is its
    translation unit, so cursors' offsets are byte positions in `preprocessed` (UTF-8). `exact` is False where
    the text could not be made macro-free: then `preprocessed` and `tu` are of the original source and
    positions must not be used for rewriting; `doubts` says why. `engine_options` are the options less -D, -U
    and -I, for compiling text made from `preprocessed`.
    """

    source: str
    preprocessed: str
    log: str
    options: tuple[str, ...]
    engine_options: tuple[str, ...]
    kernels: Mapping[str, KernelInfo]
    tu: clang.TranslationUnit
    target: Target
    exact: bool = True
    doubts: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    _bytes: bytes = field(default=b"", repr=False)

    def text_of(self, cursor: Cursor) -> str:
        """The text of a cursor."""
        start, stop = clang.extent_of(cursor)
        return self._bytes[start:stop].decode("utf-8", "replace")

    def functions(self) -> list[Cursor]:
        """All function declarations and definitions of the program's text, in order."""
        return [
            c
            for c in self.tu.cursor.get_children()
            if c.kind == CursorKind.FUNCTION_DECL and clang.in_text(c)
        ]

    def definition(self, name: str) -> Cursor:
        """The definition of function `name`. Raises KeyError."""
        for cursor in self.functions():
            if cursor.spelling == name and cursor.is_definition():
                return cursor
        raise KeyError(name)


def parse_program(source: str, options: Sequence[str] = (), *, target: Target | None = None) -> ParsedProgram:
    """Preprocess and parse. Raises CompileError with clang's messages if the program is not valid."""
    target = target or Target()
    source = source.removeprefix("\ufeff")
    parsed_options = parse_options(options)
    text = _expand(source, parsed_options, target)
    arguments = _language(parsed_options, target)
    if not text.doubts:
        unit = clang.parse(text.text, arguments)
        if not list(unit.diagnostics):
            return _program(source, text, unit, "", parsed_options, target)
    # Something to report or not understood: clang looks at what the user wrote.
    original = clang.parse(source, [*arguments, *_definitions_for_clang(parsed_options, target)])
    log = clang.build_log(original, source)
    if clang.has_errors(original):
        raise CompileError(log)
    unit = clang.parse(text.text, arguments)
    hard = [
        doubt for doubt in text.doubts if not doubt.endswith("redefined") and not doubt.startswith("#warning")
    ]
    if clang.has_errors(unit) or hard:
        reasons = (*hard, *(d.spelling for d in unit.diagnostics if d.severity >= 3))
        text = Preprocessed(source, reasons, text.included)
        return _program(source, text, original, log, parsed_options, target, exact=False)
    return _program(source, text, unit, log, parsed_options, target)


def _program(
    source: str,
    text: Preprocessed,
    unit: clang.TranslationUnit,
    log: str,
    options: BuildOptions,
    target: Target,
    *,
    exact: bool = True,
) -> ParsedProgram:
    encoded = text.text.encode("utf-8", "surrogateescape")
    kernels: dict[str, KernelInfo] = {}
    for cursor in unit.cursor.get_children():
        if cursor.kind == CursorKind.FUNCTION_DECL and clang.in_text(cursor):
            attributes = _attributes(cursor, encoded)
            if cursor.is_definition() and is_kernel(attributes):
                kernels[cursor.spelling] = _kernel(cursor, attributes)
    return ParsedProgram(
        source,
        text.text,
        log,
        options.given,
        options.for_engine,
        kernels,
        unit,
        target,
        exact,
        text.doubts,
        text.included,
        encoded,
    )


def _expand(source: str, options: BuildOptions, target: Target) -> Preprocessed:
    macros = dict(predefined_macros(target, options.c_version or target.c_version, options.fast_relaxed_math))
    try:
        for name, value in options.macros:
            if value is None:
                macros.pop(name, None)
            else:
                macro = next(definitions([f"{name}={value}"]))
                macros[macro.name] = macro
    except Malformed as error:
        return Preprocessed(source, (str(error),), ())
    return preprocess(source, macros, (*options.include_dirs, *target.include_dirs))


def _language(options: BuildOptions, target: Target) -> list[str]:
    # clang 18 knows language versions up to 3.0; later engines are asked for by the same name.
    version = min(options.c_version or target.c_version, 300)
    arguments = [f"-cl-std=CL{version // 100}.{version // 10 % 10}", *options.for_clang]
    # clang's table declares the functions of these only where a header has defined their names.
    arguments += [f"-D{name}=1" for name in target.extensions if name.startswith(_TABLE_EXTENSIONS)]
    return arguments


def _definitions_for_clang(options: BuildOptions, target: Target) -> list[str]:
    """What makes clang see, in the original source, the macros that `_expand` uses."""
    macros = predefined_macros(target, options.c_version or target.c_version, options.fast_relaxed_math)
    arguments = ["-DVDEV_AS_MACRO", "-Wno-builtin-macro-redefined", "-Wno-macro-redefined"]
    for macro in macros.values():
        if not macro.listed and macro.name not in (
            "__OPENCL_C_VERSION__",
            "__STDC__",
            "__STDC_VERSION__",
            "__ENDIAN_LITTLE__",
        ):
            parameters = "" if macro.parameters is None else f"({','.join(macro.parameters)})"
            arguments += [
                f"-U{macro.name}",
                f"-D{macro.name}{parameters}={' '.join(t.text for t in macro.body)}",
            ]
    arguments.append("-Wmacro-redefined")
    for name, value in options.macros:
        arguments.append(f"-U{name}" if value is None else f"-D{name}={value}")
    arguments += [f"-I{folder}" for folder in (*options.include_dirs, *target.include_dirs)]
    return arguments


def _attributes(function: Cursor, text: bytes) -> list[str]:
    """The texts of a function's attributes, `__kernel` among them."""
    found = []
    for child in function.get_children():
        if child.kind.is_attribute():
            start, stop = clang.extent_of(child)
            found.append(text[start:stop].decode("utf-8", "replace"))
    return found


def is_kernel(attributes: Sequence[str]) -> bool:
    return "__kernel" in attributes or "kernel" in attributes


def _kernel(function: Cursor, attributes: Sequence[str]) -> KernelInfo:
    known: dict[str, str] = {}
    for attribute in attributes:
        match = _SIZED_ATTRIBUTE.fullmatch(attribute)
        if match:
            blank = " " if match.group(1) == "vec_type_hint" else ""
            known[match.group(1)] = re.sub(r"\s+", blank, match.group(2).strip())
    for name in ("reqd_work_group_size", "work_group_size_hint"):
        if (sizes := _sizes(known.get(name))) is not None:
            known[name] = ",".join(map(str, sizes))
    return KernelInfo(
        name=function.spelling,
        args=tuple(
            _argument(parameter, type_)
            for parameter, type_ in zip(
                function.get_arguments(), clang.parameter_types(function), strict=True
            )
        ),
        line=clang.presumed(function.location).line,
        reqd_work_group_size=_sizes(known.get("reqd_work_group_size")),
        work_group_size_hint=_sizes(known.get("work_group_size_hint")),
        vec_type_hint=known.get("vec_type_hint"),
        attributes=" ".join(f"{name}({value})" for name, value in known.items()),
    )


def _sizes(text: str | None) -> tuple[int, int, int] | None:
    """Three integer constant expressions' values; None where one needs more than a preprocessor."""
    if text is None:
        return None
    try:
        numbers = [evaluate_integer([token.text for token in tokenize(part)]) for part in text.split(",")]
    except Malformed:
        return None
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


def _argument(parameter: Cursor, type_: Type) -> ArgInfo:
    target = clang.pointee(type_)
    if target is not None:
        space = clang.address_space(target)
        constant = space == "constant"
        is_const = target.is_const_qualified()
        qualifiers = (
            *(["const"] if is_const or constant else []),
            *(["restrict"] if type_.get_canonical().is_restrict_qualified() else []),
            *(["volatile"] if target.is_volatile_qualified() else []),
        )
        written = type_.get_pointee() if type_.kind == TypeKind.POINTER else target
        size = target.get_size()
        return ArgInfo(
            parameter.spelling,
            _type_name(written) + "*",
            space,
            space,
            "none",
            qualifiers,
            size if size > 0 else 1,
            None,
            is_const,
        )
    canonical = type_.get_canonical()
    kind = _value_kind(canonical)
    access = "none"
    if kind in ("image", "pipe"):
        access = next(
            (word for word in ("read_write", "write_only") if f"__{word}" in canonical.spelling), "read_only"
        )
    return ArgInfo(
        name=parameter.spelling,
        type_name=_type_name(type_),
        kind=kind,
        address_qualifier="global" if kind in ("image", "pipe") else "private",
        access_qualifier=access,
        type_qualifiers=("pipe",) if kind == "pipe" else (),
        nbytes=max(canonical.get_size(), 0) if kind == "value" else 8,
        scalar=_scalar(canonical) if kind == "value" else None,
        pointee_const=False,
    )


def _value_kind(canonical: Type) -> str:
    name = _type_name(canonical)
    if name.startswith("image"):
        return "image"
    if name.startswith("sampler_t"):
        return "sampler"
    if name.startswith("queue_t"):
        return "queue"
    return "pipe" if "pipe" in name.split() or canonical.kind == TypeKind.PIPE else "value"


def _scalar(canonical: Type) -> str | None:
    if canonical.kind == TypeKind.ENUM:
        return "i"
    return _SCALARS.get(canonical.kind)


def _type_name(type_: Type) -> str:
    words = " ".join(_QUALIFIER.sub(" ", type_.spelling).split())
    if words.startswith("unsigned "):
        return _UNSIGNED.get(words, words)
    return words
