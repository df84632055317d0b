"""The front end: build options and OpenCL C source in, a parsed program and its kernels' signatures out.

Decides what the macro-free text of a program is, whether the program is valid (clang decides; its messages
are the build log) and what each kernel's arguments are. Never changes the meaning of the text and never looks
inside a function's body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path

from clang.cindex import Cursor, CursorKind, Type, TypeKind
from vdev.translators.values import dataclass

from . import clang
from .agreement import difference, hides_pragmas
from .compiler_macros import clangs_answers
from .conditions import NAME, Malformed, evaluate_integer
from .kernels import BUFFERS, ArgInfo, ArgKind, CompileError, KernelInfo, SampledImage
from .macros import FEATURE, definitions
from .options import BuildOptions, may_include, parse_options
from .preprocessor import Preprocessed, preprocess
from .target import Target, base_macros, predefined_macros
from .tokens import tokenize, without_digraphs
from .types import Space

__all__ = [
    "BUFFERS",
    "ArgInfo",
    "ArgKind",
    "CompileError",
    "KernelInfo",
    "ParsedProgram",
    "Target",
    "parse_program",
    "read_source",
]

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

#: Answers to `Preprocessed.asked`; clang's own are used for those left out. May raise whatever ends a build.
Ask = Callable[[frozenset[str]], Mapping[str, str | None]]

_TABLE_EXTENSIONS = (
    "cl_khr_subgroup_", "cl_khr_extended_bit_ops", "cl_khr_integer_dot_product", "cl_ext_float_atomics",
    "cl_khr_kernel_clock",
)  # fmt: skip


_POINTERS = {
    Space.GLOBAL: ArgKind.GLOBAL, Space.CONSTANT: ArgKind.CONSTANT, Space.LOCAL: ArgKind.LOCAL,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ParsedProgram:
    """A valid program.

    `preprocessed`: macro-free text whose `#line` directives lead back to the user's lines; `tu` is its translation
    unit, so cursors' offsets are byte positions in `preprocessed` (UTF-8). `exact` is False if the text could not be
    made macro-free: then `preprocessed` and `tu` are of the original source and positions must not be used for
    rewriting; `doubts` says why. `engine_options` are the options without -D, -U and -I, for compiling text made from
    `preprocessed`. `sought`: every path at which a file to be included was looked for; None if only clang knows which
    these were. `sampled`: by kernel, what its images were, in a program for GPUs whose units for textures may read them.
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
    sought: frozenset[str] | None = frozenset()
    _bytes: bytes = field(default=b"", repr=False)
    sampled: Mapping[str, tuple[SampledImage, ...]] = field(default_factory=dict)

    def text_of(self, cursor: Cursor) -> str:
        """The text of a cursor."""
        start, stop = clang.extent_of(cursor)
        return self._bytes[start:stop].decode("utf-8", "replace")

    @cached_property
    def declarations(self) -> tuple[Cursor, ...]:
        """What the program's text declares at program scope, in order."""
        return tuple(cursor for cursor in clang.declarations(self.tu) if clang.in_text(cursor))

    def functions(self) -> list[Cursor]:
        """All function declarations and definitions of the program's text, in order."""
        return [cursor for cursor in self.declarations if cursor.kind == CursorKind.FUNCTION_DECL]

    def definition(self, name: str) -> Cursor:
        """The definition of function `name`. Raises KeyError."""
        for cursor in self.functions():
            if cursor.spelling == name and cursor.is_definition():
                return cursor
        raise KeyError(name)


def _expand_asking(
    source: str, options: BuildOptions, target: Target, ask: Ask | None
) -> tuple[Preprocessed, Target]:
    """The expanded text, and the target with everything that the device's own compiler has answered on the way."""
    text = _expand(source, options, target)
    sought = text.sought
    while ask is not None and (asked := text.asked - dict(target.answers).keys()):
        supposed = clangs_answers(asked)
        answers = dict(target.answers) | supposed | dict(ask(asked))
        target = replace(target, answers=tuple(answers.items()))
        if all(answers[question] == supposed[question] for question in asked):
            break  # the text that has been made already
        # Another branch may ask more.
        text = _expand(source, options, target)
        sought |= text.sought
    return replace(text, sought=sought), target


def read_source(path: Path) -> str:
    """The text of a file of OpenCL C: UTF-8 or, as in comments of old files, any bytes, each of which is a character of Latin-1.

    Raises OSError.
    """
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return path.read_text("latin-1")


def parse_program(
    source: str, options: Sequence[str] = (), *, target: Target | None = None, ask: Ask | None = None
) -> ParsedProgram:
    """Preprocess and parse. Raises CompileError with clang's messages if the program is not valid.

    `ask`: gives the answers of the device's own compiler, if conditions ask what compilers have defined.
    """
    target = target or Target()
    source = source.removeprefix("\ufeff")
    parsed_options = parse_options(options)
    text, target = _expand_asking(source, parsed_options, target, ask)
    language = [*_language(parsed_options, target), *clang.declared_for(source + text.text)]
    judged = [*language, *parsed_options.for_clang]
    folders = [f"-I{folder}" for folder in (*parsed_options.include_dirs, *target.include_dirs)]
    prologue = _prologue(parsed_options, target, text)
    hides = hides_pragmas(source) or hides_pragmas(text.text)
    written = clang.parse(source, [*judged, *folders], prologue=prologue, keep_skipped=hides)
    expanded = None
    if not _hard(text.doubts):
        arguments = [*language, *parsed_options.for_expanded]
        expanded = clang.parse(text.text, arguments, prologue=_defines(_answered(target, text)))
    log = ""
    if text.doubts or list(written.diagnostics) or expanded is None or list(expanded.diagnostics):
        log = _judge(source, [*judged, *folders], prologue, written)
    reasons = [*_hard(text.doubts), *(_errors(expanded) if expanded is not None else [])] or _errors(written)
    if not reasons and expanded is not None:
        other = difference(written, expanded, source + text.text, text.pragmas if hides else ())
        reasons += [] if other is None else [other]
    if reasons or expanded is None:
        text = replace(text, text=source, doubts=tuple(reasons))
        return _program(source, text, written, log, parsed_options, target, exact=False)
    return _program(source, text, expanded, log, parsed_options, target)


def _hard(doubts: Sequence[str]) -> list[str]:
    """The doubts, without those for which clang only has to be asked for a message."""
    return [doubt for doubt in doubts if not doubt.endswith("redefined") and not doubt.startswith("#warning")]


def _errors(unit: clang.TranslationUnit) -> list[str]:
    return [diagnostic.spelling for diagnostic in unit.diagnostics if diagnostic.severity >= 3]


def _judge(source: str, arguments: list[str], prologue: str, written: clang.TranslationUnit) -> str:
    """clang's messages about what the user wrote, where as_type() is an operation. Raises CompileError."""
    if "-DVDEV_AS_TYPE" in arguments:
        as_macros = [
            "-DVDEV_AS_MACRO" if argument == "-DVDEV_AS_TYPE" else argument for argument in arguments
        ]
        written = clang.parse(source, as_macros, prologue=prologue)
    log = clang.build_log(written, source)
    if clang.has_errors(written):
        raise CompileError(log)
    return log


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
    program = ParsedProgram(
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
        text.sought if exact or not may_include(source) else None,
        encoded,
    )
    for cursor in program.functions():
        attributes = _attributes(cursor, encoded) if exact else _printed_attributes(cursor)
        if cursor.is_definition() and is_kernel(attributes):
            kernels[cursor.spelling] = _kernel(cursor, attributes)
    return program


def _expand(source: str, options: BuildOptions, target: Target) -> Preprocessed:
    macros = dict(predefined_macros(target, options.c_version or target.c_version, options.fast_relaxed_math))
    try:
        for name, value in options.macros:
            # The header that every program includes implicitly comes after the options, as natively: its constants
            # stay.
            if name.partition("(")[0] in base_macros():
                continue
            if value is None:
                macros.pop(name, None)
            else:
                macro = next(definitions([f"{name}={value}"]))
                macros[macro.name] = macro
    except Malformed as error:
        return Preprocessed(source, (str(error),), ())
    undefined = frozenset(name for name, value in options.macros if value is None) - macros.keys()
    folders = (*options.include_dirs, *target.include_dirs)
    text = preprocess(source, macros, folders, dict(target.answers) | dict.fromkeys(undefined))
    # Passes that edit the text look for braces and brackets. Macros see how a token is spelled, so this comes after
    # their expansion.
    return replace(text, text=without_digraphs(text.text))


#: Of OpenCL C, that clang 18 has; with others it reads nothing.
_CLANG_VERSIONS = (100, 110, 120, 200, 300)


def _language(options: BuildOptions, target: Target) -> list[str]:
    # What clang does not know is for engines to accept or to refuse: the latest version before it stands for it.
    asked = options.c_version or target.c_version
    version = max((known for known in _CLANG_VERSIONS if known <= asked), default=_CLANG_VERSIONS[0])
    arguments = [f"-cl-std=CL{version // 100}.{version // 10 % 10}"]
    # clang's table declares these functions only if a header has defined their names.
    arguments += [f"-D{name}=1" for name in target.extensions if name.startswith(_TABLE_EXTENSIONS)]
    return arguments


def _prologue(options: BuildOptions, target: Target, text: Preprocessed) -> str:
    """Makes clang see, in the original source, the macros that `_expand` uses."""
    macros = predefined_macros(target, options.c_version or target.c_version, options.fast_relaxed_math)
    found: dict[str, str | None] = dict(_answered(target, text))
    # What clang predefines and the target does not. Others stay: clang's table of functions asks for them.
    found |= dict.fromkeys(name for name in text.asked if FEATURE.match(name))
    for macro in macros.values():
        if not macro.listed:
            parameters = "" if macro.parameters is None else f"({','.join(macro.parameters)})"
            found[f"{macro.name}{parameters}"] = " ".join(token.text for token in macro.body)
    for name, value in options.macros:
        if name.partition("(")[0] not in base_macros():
            found[name] = value
    return _defines(found)


def _answered(target: Target, text: Preprocessed) -> dict[str, str | None]:
    """The names among the questions that the device's compiler was asked."""
    names = (name for name in text.asked if NAME.fullmatch(name) and not FEATURE.match(name))
    answers = dict(target.answers)
    return {name: answers[name] for name in names if name in answers}


def _defines(macros: Mapping[str, str | None]) -> str:
    """Directives that define macros (None: undefine them), whatever they are before."""
    lines = []
    for name, value in macros.items():
        lines.append(f"#undef {name.partition('(')[0]}")
        if value is not None:
            lines.append(f"#define {name} {value}")
    if not lines:
        return ""
    quiet = ("#pragma clang diagnostic push", '#pragma clang diagnostic ignored "-Wbuiltin-macro-redefined"')
    return "\n".join([*quiet, '#line 1 "<command line>"', *lines, "#pragma clang diagnostic pop", ""])


def _attributes(function: Cursor, text: bytes) -> list[str]:
    """The texts of a function's attributes, including `__kernel`."""
    found = []
    for child in function.get_children():
        if child.kind.is_attribute():
            start, stop = clang.extent_of(child)
            found.append(text[start:stop].decode("utf-8", "replace"))
    return found


def _printed_attributes(function: Cursor) -> list[str]:
    """The same in a text with macros, whose positions say little: as clang prints them, with their values. Those of the
    first declaration hold for the definition, where clang does not print them.
    """
    first = function.canonical
    declarations = [function] if first == function else [first, function]
    heads = "\n".join(clang.printed(declared).partition("{")[0] for declared in declarations)
    return re.findall(r"\b(?:__)?kernel\b|(?<=__attribute__\(\()\w+\(.*?\)(?=\)\))", heads)


def is_kernel(attributes: Sequence[str]) -> bool:
    return "__kernel" in attributes or "kernel" in attributes


def _kernel(function: Cursor, attributes: Sequence[str]) -> KernelInfo:
    known = _known_attributes(attributes)
    sized = {
        name: text for name, text in known.items() if name in ("reqd_work_group_size", "work_group_size_hint")
    }
    if any(
        _sizes(text) is None for text in sized.values()
    ):  # `sizeof`, names of an enumeration: clang has their values
        sized |= _known_attributes(_printed_attributes(function))
    for name in ("reqd_work_group_size", "work_group_size_hint"):
        if (sizes := _sizes(sized.get(name))) is not None:
            known[name] = ",".join(map(str, sizes))
    return KernelInfo(
        name=function.spelling,
        args=tuple(
            _argument(parameter, type_)
            for parameter, type_ in zip(
                function.get_arguments(), clang.parameter_types(function), strict=True
            )
        ),
        line=clang.line_at(function.location),
        reqd_work_group_size=_sizes(known.get("reqd_work_group_size")),
        work_group_size_hint=_sizes(known.get("work_group_size_hint")),
        vec_type_hint=known.get("vec_type_hint"),
        attributes=" ".join(f"{name}({value})" for name, value in known.items()),
    )


def _known_attributes(attributes: Sequence[str]) -> dict[str, str]:
    """The parameters of attributes that kernels are asked for, by name."""
    known: dict[str, str] = {}
    for attribute in attributes:
        match = _SIZED_ATTRIBUTE.fullmatch(attribute)
        if match:
            blank = " " if match.group(1) == "vec_type_hint" else ""
            known[match.group(1)] = re.sub(r"\s+", blank, match.group(2).strip())
    return known


def _sizes(text: str | None) -> tuple[int, int, int] | None:
    """The values of three integer constant expressions; None if one needs more than a preprocessor, in which every
    name is 0.
    """
    if text is None or re.search(r"\b[A-Za-z_]", text):
        return None
    try:
        numbers = [evaluate_integer([token.text for token in tokenize(part)]) for part in text.split(",")]
    except Malformed:
        return None
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


def _pointer_argument(parameter: Cursor, type_: Type, target: Type) -> ArgInfo:
    space = clang.address_space(target)
    kind = _POINTERS.get(space, ArgKind.PRIVATE)
    is_const = target.is_const_qualified()
    qualifiers = (
        *(["const"] if is_const or kind is ArgKind.CONSTANT else []),
        *(["restrict"] if type_.get_canonical().is_restrict_qualified() else []),
        *(["volatile"] if target.is_volatile_qualified() else []),
    )
    written = type_.get_pointee() if type_.kind == TypeKind.POINTER else target
    return ArgInfo(
        name=parameter.spelling,
        type_name=_type_name(written) + "*",
        kind=kind,
        address_qualifier=space.name.lower(),
        access_qualifier="none",
        type_qualifiers=qualifiers,
        nbytes=max(target.get_size(), 1),
        scalar=None,
        pointee_const=is_const,
    )


def _argument(parameter: Cursor, type_: Type) -> ArgInfo:
    target = clang.pointee(type_)
    if target is not None:
        return _pointer_argument(parameter, type_, target)
    canonical = type_.get_canonical()
    kind = _value_kind(canonical)
    access = "none"
    if kind in (ArgKind.IMAGE, ArgKind.PIPE):
        access = next(
            (word for word in ("read_write", "write_only") if f"__{word}" in canonical.spelling), "read_only"
        )
    return ArgInfo(
        name=parameter.spelling,
        type_name=_type_name(type_),
        kind=kind,
        address_qualifier="global" if kind in (ArgKind.IMAGE, ArgKind.PIPE) else "private",
        access_qualifier=access,
        type_qualifiers=("pipe",) if kind is ArgKind.PIPE else (),
        nbytes=max(canonical.get_size(), 0) if kind is ArgKind.VALUE else 8,
        scalar=_scalar(canonical) if kind is ArgKind.VALUE else None,
        pointee_const=False,
    )


def _value_kind(canonical: Type) -> ArgKind:
    name = _type_name(canonical)
    if name.startswith("image"):
        return ArgKind.IMAGE
    if name.startswith("sampler_t"):
        return ArgKind.SAMPLER
    if name.startswith("queue_t"):
        return ArgKind.QUEUE
    return ArgKind.PIPE if "pipe" in name.split() or canonical.kind == TypeKind.PIPE else ArgKind.VALUE


def _scalar(canonical: Type) -> str | None:
    if canonical.kind == TypeKind.ENUM:
        return "i"
    return _SCALARS.get(canonical.kind)


def _type_name(type_: Type) -> str:
    words = " ".join(_QUALIFIER.sub(" ", type_.spelling).split())
    if words.startswith("unsigned "):
        return _UNSIGNED.get(words, words)
    return words
