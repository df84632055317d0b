"""Images lowered to plain memory: OpenCL C with images in, OpenCL C without them out.

A kernel's image argument becomes a pointer to bytes at the same place, its descriptor (sizes, pitches, format) a
structure behind the kernel's own arguments, a sampler an unsigned int; in the text an image is a structure of both,
and OpenCL C's image functions become functions of `include/images.cl`. Everything that comes after, the analysis and
the translators to dialects, meets buffers only. For the analysis there is a second text, with the functions of
`include/images_model.cl`: they touch the same bytes and compute nothing.

Engines that can create images from buffers (cl_khr_image2d_from_buffer) sample several times faster with their own
functions. For them there is a text whose kernels take additional arguments (`with_native_images`): for each image
that they read at floating-point coordinates, an image of the engine's and whether it may be used. The engine then
samples it; everything else is as in the first text, which also runs where no such image could be created.

GPUs' own units for textures read images where they lie. In the text for them (`LoweredProgram.for_textures`), a descriptor's depth is
either 1, as that of an image of two dimensions is, or the complement of a sampler: then it also holds a texture, which gives what is read
with that sampler. The entry functions of the translation to CUDA set it, so that the compiler knows which of both it is.

Decides how the text is rewritten and how a descriptor is laid out. Never decides what formats a device has, and
computes no pixels. What it cannot lower it refuses, with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property, lru_cache
from itertools import zip_longest

from clang.cindex import Cursor, CursorKind
from vdev.translators.values import dataclass

from ..frontend import clang
from ..frontend.edits import Edits, Function, Functions, Use, insert_at_entry, parentheses_after
from ..frontend.kernels import SampledImage, Untranslatable
from ..frontend.preprocessor import GENERATED_FILE, MAIN_FILE
from ..frontend.source import ArgKind, CompileError, ParsedProgram, parse_program
from .image_arguments import pack_descriptor, pack_sampler
from .sampled_images import READ, sampled_images

__all__ = [
    "LoweredProgram",
    "lower_images",
    "pack_descriptor",
    "pack_sampler",
    "uses_images",
    "with_native_images",
]

#: Types of images: the dimensions that are sampled, and whether layers come after them.
_KINDS = {
    "image1d_t": (1, False),
    "image1d_buffer_t": (1, False),
    "image1d_array_t": (1, True),
    "image2d_t": (2, False),
    "image2d_array_t": (2, True),
    "image2d_depth_t": (2, False),
    "image2d_array_depth_t": (2, True),
    "image3d_t": (3, False),
}
#: Types that OpenCL C has and our devices lack: several samples for each pixel.
_REFUSED = ("image2d_msaa_t", "image2d_array_msaa_t", "image2d_msaa_depth_t", "image2d_array_msaa_depth_t")
_ACCESS = {
    "read_only": "ro", "__read_only": "ro", "write_only": "wo", "__write_only": "wo", "read_write": "rw",
    "__read_write": "rw",
}  # fmt: skip
_WORDS = rb"(?:(?:__)?(?:read_only|write_only|read_write|private|restrict)|const|volatile)"
_WORDS_BEFORE = re.compile(rb"(?:\b" + _WORDS + rb"\b\s*)+$")
_WORDS_BEHIND = re.compile(rb"(?:\s*\b" + _WORDS + rb"\b)+")

_QUERIES = {
    "get_image_width": ("int", "im.d.width"),
    "get_image_height": ("int", "im.d.height"),
    "get_image_depth": ("int", "im.d.depth"),
    "get_image_array_size": ("size_t", "(size_t)im.d.depth"),
    "get_image_channel_order": ("int", "(int)(0x10B0u + (im.d.format & 255u))"),
    "get_image_channel_data_type": ("int", "(int)(0x10D0u + (im.d.format >> 8 & 255u))"),
}
_READS = {"read_imagef": "f", "read_imagei": "i", "read_imageui": "ui", "read_imageh": "f"}
_WRITES = {"write_imagef": "f", "write_imagei": "i", "write_imageui": "ui", "write_imageh": "f"}
#: of these, the ones that an engine's own image may handle
_SAMPLED = ("read_imagef", "read_imagei", "read_imageui")
#: possible values of a sampler: addressing modes that repeat are only for normalised coordinates (6.15.15.1)
_SAMPLERS = tuple(
    normalised | addressing | way
    for normalised, modes in ((0, (0, 2, 4)), (1, (0, 2, 4, 6, 8)))
    for addressing in modes
    for way in (0x10, 0x20)
)
_VALUES = {"f": "float4", "i": "int4", "ui": "uint4"}
_FUNCTIONS = (*_QUERIES, *_READS, *_WRITES, "get_image_dim")
_UNKNOWN = ("get_image_num_mip_levels", "get_image_num_samples")
_MENTIONED = re.compile(r"\bimage[123]d_\w+|\bsampler_t\b")

#: OpenCL C's constants that do not concern images: they stay.
_OTHER_CONSTANTS = re.compile(r"CLK_(?:LOCAL|GLOBAL|NULL|ENQUEUE|INVALID|DEVICE|EVENT|OUT|SUCCESS|PROFILING)")
#: Memory of a GPU is aligned as the buffer is, and so are the rows of an image in it; that of the host may lie anywhere.
_PIXELS_ANYWHERE = (
    "#define P_FOUR(T, q) vload4(0, (__global const T *)(q))\n"
    "#define P_PUT_FOUR(T, c, q) vstore4(c, 0, (__global T *)(q))\n"
)
_PIXELS_ALIGNED = (
    "#define P_TWO(T, q) (*(__global const T##2 *)(q))\n"
    "#define P_FOUR(T, q) (*(__global const T##4 *)(q))\n"
    "#define P_PUT_FOUR(T, c, q) (*(__global T##4 *)(q) = (c))\n"
)
_DESCRIPTOR = "struct P_desc { int width, height, depth; uint row; long slice; uint elem, format; };\n"


@dataclass(frozen=True, eq=False)
class LoweredProgram:
    """A program without images. `images`: a kernel's image arguments; their descriptors follow the user's arguments,
    in this order. `program` is for translators, `model` for the analysis; argument numbers are the same in both.
    """

    program: ParsedProgram
    images: Mapping[str, tuple[int, ...]]
    #: by kernel: the image arguments that an engine's own image may stand for; each has two more arguments
    native_images: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    _model: str | None = field(default=None, repr=False)
    #: the text for GPUs' textures, and what `ParsedProgram.sampled` is of it
    _textured: tuple[str, Mapping[str, tuple[SampledImage, ...]]] | None = field(default=None, repr=False)

    @cached_property
    def model(self) -> ParsedProgram:
        """What the analysis reads. CompileError would be a fault of ours."""
        if self._model is None:
            return self.program
        return _parse(self._model, self.program, self.program)

    @cached_property
    def for_textures(self) -> ParsedProgram:
        """The same as `program` for a GPU's translator. CompileError would be a fault of ours."""
        if self._textured is None:
            return self.program
        text, sampled = self._textured
        return replace(_parse(text, self.program, self.program), sampled=sampled)


def uses_images(program: ParsedProgram) -> bool:
    """Whether the program's text names images or samplers."""
    return _MENTIONED.search(program.preprocessed) is not None


def lower_images(program: ParsedProgram) -> LoweredProgram:
    """`program` without images; `program` itself if it has none. Raises Untranslatable."""
    if not uses_images(program):
        return LoweredProgram(program, {})
    if not program.exact:
        raise Untranslatable("macros could not be expanded: " + "; ".join(program.doubts))
    lowering = _Lowering(program)
    body = lowering.rewrite()
    images = {name: found for name in program.kernels if (found := _image_args(program, name))}
    text, model = (lowering.prelude(file) + body for file in ("images.cl", "images_model.cl"))
    try:
        lowered = _parse(text, program, program)
    except CompileError as error:
        raise Untranslatable(f"images could not be lowered:\n{error.log}") from error
    textured = None
    if not program.target.is_cpu and (sampled := sampled_images(program, lowering.functions, _constants())):
        textured = lowering.prelude("images.cl", textures=True) + body, sampled
    return LoweredProgram(lowered, images, _model=model, _textured=textured)


def with_native_images(program: ParsedProgram) -> LoweredProgram | None:
    """The same for engines that make images from buffers; None if that makes no difference. Raises Untranslatable."""
    if not uses_images(program) or not program.exact:
        return None
    lowering = _Lowering(program, native=True)
    if not lowering.natives:
        return None
    body = lowering.rewrite()
    images = {name: found for name in program.kernels if (found := _image_args(program, name))}
    try:
        lowered = _parse(lowering.prelude("images.cl") + body, program, program)
    except CompileError as error:
        raise Untranslatable(f"images could not be lowered:\n{error.log}") from error
    return LoweredProgram(lowered, images, lowering.natives)


def _parse(text: str, program: ParsedProgram, named: ParsedProgram) -> ParsedProgram:
    """Lowered text parsed, with the arguments' names that the kernels of `named` have."""
    parsed = parse_program(text, program.engine_options, target=program.target)
    kernels = {}
    for name, info in parsed.kernels.items():
        users = named.kernels[name].args
        pairs = zip_longest(info.args, users[: len(info.args)])
        args = (arg if user is None else replace(arg, name=user.name) for arg, user in pairs)
        kernels[name] = replace(info, args=tuple(args))
    return replace(parsed, kernels=kernels)


def _image_args(program: ParsedProgram, kernel: str) -> tuple[int, ...]:
    return tuple(index for index, arg in enumerate(program.kernels[kernel].args) if arg.kind is ArgKind.IMAGE)


@dataclass(frozen=True, order=True)
class _ImageType:
    """A type of images as a parameter has it: OpenCL C's name, and ro, wo or rw."""

    name: str
    access: str

    @staticmethod
    def of(spelling: str) -> _ImageType:
        """From clang's spelling, such as "const __write_only image2d_t"."""
        words = spelling.split()
        access = next((_ACCESS[word] for word in words if word in _ACCESS), "ro")
        name = next((word for word in words if word in _KINDS), words[-1])
        if name not in _KINDS:
            raise Untranslatable(f"the type {name} is used")
        return _ImageType(name, access)

    @property
    def tag(self) -> str:
        return f"{self.name[5:-2]}_{self.access}"

    @property
    def pointer(self) -> str:
        return "__global const uchar *" if self.access == "ro" else "__global uchar *"

    @property
    def is_depth(self) -> bool:
        return "depth" in self.name


@dataclass(frozen=True, order=True)
class _Variant:
    """One function of OpenCL C as the program calls it."""

    function: str
    image: _ImageType
    sampled: bool = False  #: it has a sampler
    floating: bool = False  #: its coordinates are floating point
    native: bool = False  #: it also gets an image of the engine's

    @property
    def may_be_textured(self) -> bool:
        """Whether a texture may give what it reads."""
        return (
            self.function == READ
            and self.sampled
            and self.floating
            and self.image == _ImageType("image2d_t", "ro")
        )

    @property
    def name(self) -> str:
        how = "s" * self.sampled + "f" * self.floating + "n" * self.native
        return f"{self.function}_{self.image.tag}" + (f"_{how}" if how else "")


class _Lowering:
    """One program being rewritten."""

    def __init__(self, program: ParsedProgram, *, native: bool = False) -> None:
        """`native`: for engines that make images from buffers."""
        self.program = program
        self.functions = Functions(program)
        self.text = self.functions.text
        self.edits = Edits(self.text)
        self.prefix = _free_prefix(self.functions)
        self.types: set[_ImageType] = set()
        self.variants: set[_Variant] = set()
        #: places of tokens in the parameter lists of kernels, which are rewritten separately
        self._taken: set[int] = set()
        #: by the offset of a call: the number of the kernel's argument that it reads, if there is a native image of
        #: it
        self._sampled = dict(self._find_sampled()) if native else {}
        self.natives: dict[str, tuple[int, ...]] = {}
        for offset, index in self._sampled.items():
            kernel = self._kernel_around(offset)
            assert kernel is not None
            self.natives[kernel.name] = tuple(sorted({*self.natives.get(kernel.name, ()), index}))

    def _find_sampled(self) -> Iterator[tuple[int, int]]:
        """Reads at floating-point coordinates, in kernels, of the kernels' own arguments: (offset, argument)."""
        called = {
            use.name for name in self.program.kernels for use in self.functions.uses(name) if not use.declares
        }
        for name in _SAMPLED:
            for use in self.functions.uses(name):
                kernel = None if use.declares or use.target is not None else self._kernel_around(use.offset)
                if kernel is None or kernel.name in called:
                    continue
                types = [
                    kind.get_canonical().spelling for kind in use.cursor.referenced.type.argument_types()
                ]
                index = self._argument_read(use, kernel)
                sampled = len(types) == 3 and types[1] == "sampler_t" and types[2].startswith("float")
                if index is not None and sampled:
                    yield use.offset, index

    def _kernel_around(self, offset: int) -> Function | None:
        holder = self.functions.enclosing(offset)
        return holder if holder is not None and holder.kernel else None

    def _argument_read(self, use: Use, kernel: Function) -> int | None:
        """The number of the image2d_t argument that a call's first argument names."""
        place = parentheses_after(self.text, use.offset + len(use.name.encode()))
        first = (
            self.text[place.opening + 1 : place.closing].split(b",", 1)[0].strip().decode("utf-8", "replace")
        )
        for index, parameter in enumerate(kernel.cursor.get_arguments()):
            spelling = parameter.type.get_canonical().spelling
            if parameter.spelling == first and "image2d_t" in spelling.split():
                return index if _ImageType.of(spelling).access == "ro" else None
        return None

    def rewrite(self) -> str:
        """The program's text after the prelude."""
        self._refuse()
        for name in self.program.kernels:
            if _image_args(self.program, name):
                self._kernel(name)
        self._sizes()
        self._types()
        self._samplers()
        self._constants()
        for name in _FUNCTIONS:
            for use in self.functions.uses(name):
                if use.target is None and not use.declares:
                    self._call(use)
        return f'#line 1 "{MAIN_FILE}"\n{self.edits.apply()}'

    def _refuse(self) -> None:
        for name in (*_REFUSED, "pipe"):
            for offset in self.functions.offsets(name):
                holder = self.functions.enclosing(offset)
                line = clang.line_of(holder.cursor) if holder is not None else 0
                raise Untranslatable(f"{name} is used together with images", line)
        for name in _UNKNOWN:
            for use in self.functions.uses(name):
                if use.target is None:
                    raise Untranslatable(f"{name}() is used", clang.line_of(use.cursor))

    # kernels

    def _kernel(self, name: str) -> None:
        """Parameters of all declarations, the beginning of the body, and calls."""
        images = _image_args(self.program, name)
        for use in self.functions.uses(name):
            if use.declares:
                parameters = list(use.cursor.get_arguments())
                for index in images:
                    self._parameter(parameters[index])
                more = [f"struct {self.prefix}desc {self.prefix}d_{index}" for index in images]
                for index in self.natives.get(name, ()):
                    more += [f"read_only image2d_t {self.prefix}n_{index}", f"uint {self.prefix}u_{index}"]
                self._append(use, more)
            else:
                self._kernel_call(use, images)
        for function in self.functions.defined:
            if function.name == name and function.kernel:
                self._enter(function, images)

    def _parameter(self, parameter: Cursor) -> None:
        kind = _ImageType.of(parameter.type.get_canonical().spelling)
        self.types.add(kind)
        start, stop = clang.extent_of(parameter)
        typedef = next((c for c in parameter.get_children() if c.kind == CursorKind.TYPE_REF), None)
        if typedef is not None:
            at, behind = clang.extent_of(typedef)
        else:
            at = next(o for o in self.functions.offsets(kind.name) if start <= o < stop)
            behind = at + len(kind.name)
        self.edits.replace(at, behind, kind.pointer)
        for word in ("const", "volatile"):  # of the image: in front of a pointer they would be of the bytes
            for offset in self.functions.offsets(word):
                if start <= offset < stop:
                    self.edits.replace(offset, offset + len(word), "")
        self._taken.add(at)
        if parameter.spelling:
            name_at = parameter.location.offset
            name_stop = name_at + len(parameter.spelling.encode())
            self.edits.replace(name_at, name_stop, f"{self.prefix}p_{parameter.spelling}")

    def _enter(self, function: Function, images: tuple[int, ...]) -> None:
        """At entry every image is declared again under its own name."""
        p, entry = self.prefix, []
        parameters = list(function.cursor.get_arguments())
        for index in images:
            name = parameters[index].spelling
            if name:
                tag = _ImageType.of(parameters[index].type.get_canonical().spelling).tag
                entry.append(f" {p}{tag} {name}; {name}.p = {p}p_{name}; {name}.d = {p}d_{index};")
        insert_at_entry(self.edits, function.body_start, "".join(entry))

    def _append(self, use: Use, arguments: Iterable[str]) -> None:
        place = parentheses_after(self.text, use.offset + len(use.name.encode()))
        self.edits.insert(place.closing, "".join(f", {text}" for text in arguments))

    def _kernel_call(self, use: Use, images: tuple[int, ...]) -> None:
        """In a call of a kernel as a function, images are taken apart."""
        holder = self.functions.enclosing(use.offset)
        call = next(
            (
                cursor
                for cursor in (clang.walk(holder.cursor) if holder is not None else ())
                if cursor.kind == CursorKind.CALL_EXPR and cursor.extent.start.offset == use.offset
            ),
            None,
        )
        if call is None:
            raise Untranslatable(f"{use.name}() is used as a value", clang.line_of(use.cursor))
        arguments = list(call.get_arguments())
        texts = []
        for index in images:
            start, stop = clang.extent_of(arguments[index])
            texts.append(f"({self.text[start:stop].decode()}).d")
            self.edits.insert(start, "(")
            self.edits.insert(stop, ").p")
        self._append(use, iter(texts))

    # types, samplers, constants

    def _sizes(self) -> None:
        """The size of an image or of a sampler is a pointer's (OpenCL C 6.1.5), whatever stands for it here."""
        places = set(self.functions.offsets("sizeof"))
        for cursor in clang.walk(self.program.tu.cursor) if places else ():
            if cursor.kind == CursorKind.CXX_UNARY_EXPR:
                start, stop = clang.extent_of(cursor)
                if start in places and self._is_opaque(cursor, start, stop):
                    self.edits.put(start, stop, "sizeof(__global uchar *)")

    def _is_opaque(self, cursor: Cursor, start: int, stop: int) -> bool:
        """Whether the operand of this sizeof is an image or a sampler, or the type of one."""
        operands = clang.children(cursor)
        if not operands:  # a type that is built in
            return re.search(rb"\bimage[123]d_\w+", self.text[start:stop]) is not None
        return _MENTIONED.search(operands[0].type.get_canonical().spelling) is not None

    def _types(self) -> None:
        for name in _KINDS:
            for offset in self.functions.offsets(name):
                if offset not in self._taken:
                    stop = offset + len(name)
                    kind = _ImageType(name, self._access_around(offset, stop))
                    self.types.add(kind)
                    self.edits.replace(offset, stop, f"{self.prefix}{kind.tag}")
        for word in _ACCESS:
            for offset in self.functions.offsets(word):
                self.edits.replace(offset, offset + len(word), "")

    def _access_around(self, start: int, stop: int) -> str:
        """The access qualifier beside a type's name; read_only if there is none (OpenCL C 6.6)."""
        before = _WORDS_BEFORE.search(self.text, max(0, start - 200), start)
        behind = _WORDS_BEHIND.match(self.text, stop)
        words = b" ".join(match.group() for match in (before, behind) if match).decode().split()
        return next((_ACCESS[word] for word in words if word in _ACCESS), "ro")

    def _samplers(self) -> None:
        """A sampler becomes its bits. At program scope OpenCL C treats it as constant even if it does not say so
        (6.15.15.1).
        """
        outside = [
            clang.extent_of(cursor)
            for cursor in self.program.declarations
            if cursor.kind == CursorKind.VAR_DECL
            and cursor.type.get_canonical().spelling.endswith("sampler_t")
        ]
        for offset in self.functions.offsets("sampler_t"):
            extent = next(((a, b) for a, b in outside if a <= offset < b), None)
            needs = extent is not None and not re.search(
                rb"\bconstant\b|\b__constant\b", self.text[slice(*extent)]
            )
            self.edits.replace(offset, offset + len("sampler_t"), "__constant uint" if needs else "uint")

    def _constants(self) -> None:
        for name in self.functions.identifiers():
            value = _constants().get(name)
            if value is not None:
                for offset in self.functions.offsets(name):
                    self.edits.replace(offset, offset + len(name), value)

    # calls

    def _call(self, use: Use) -> None:
        function = use.cursor.referenced
        types = [type_.get_canonical().spelling for type_ in function.type.argument_types()]
        kind = _ImageType.of(types[0])
        self.types.add(kind)
        rest = types[1:]
        sampled = bool(rest) and rest[0] == "sampler_t"
        if use.name in _READS:
            coordinates = rest[1:] if sampled else rest
            if len(coordinates) != 1:
                raise Untranslatable(f"{use.name}() with a level of detail", clang.line_of(use.cursor))
            native = use.offset in self._sampled
            variant = _Variant(use.name, kind, sampled, coordinates[0].startswith("float"), native)
            if native:
                index = self._sampled[use.offset]
                opening = parentheses_after(self.text, use.offset + len(use.name.encode())).opening
                self.edits.insert(opening + 1, f"{self.prefix}n_{index}, {self.prefix}u_{index}, ")
        elif use.name in _WRITES:
            if len(rest) != 2:
                raise Untranslatable(f"{use.name}() with a level of detail", clang.line_of(use.cursor))
            variant = _Variant(use.name, kind)
        else:
            variant = _Variant(use.name, kind)
        self.variants.add(variant)
        self.edits.replace(use.offset, use.offset + len(use.name), f"{self.prefix}{variant.name}")

    # the prelude

    def prelude(self, file: str, *, textures: bool = False) -> str:
        """Types and functions in front of the text: the real ones, or a model of them, depending on `file`. `textures`: a descriptor may
        hold one.
        """
        text = _DESCRIPTOR
        for kind in sorted(self.types):
            text += f"typedef struct {{ {kind.pointer}p; struct P_desc d; }} P_{kind.tag};\n"
        if any(v.function.startswith(("read", "write")) for v in self.variants):
            text += _PIXELS_ANYWHERE if self.program.target.is_cpu else _PIXELS_ALIGNED
            text += "#define P_TEXTURES\n" * textures
            text += _include(file)
        if any(variant.function.endswith("imageh") for variant in self.variants):
            text += "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
        text += "".join(
            _textured(variant) if textures and variant.may_be_textured else _definition(variant)
            for variant in sorted(self.variants)
        )
        return f'#line 1 "{GENERATED_FILE}"\n' + re.sub(r"\bP_", self.prefix, text)


def _definition(variant: _Variant) -> str:
    if variant.function in _READS:
        return _read(variant)
    if variant.function in _WRITES:
        return _write(variant)
    image = f"P_{variant.image.tag} im"
    if variant.function == "get_image_dim":
        if _KINDS[variant.image.name][0] == 3:
            return f"int4 P_{variant.name}({image}) {{ return (int4)(im.d.width, im.d.height, im.d.depth, 0); }}\n"
        return f"int2 P_{variant.name}({image}) {{ return (int2)(im.d.width, im.d.height); }}\n"
    result, value = _QUERIES[variant.function]
    return f"{result} P_{variant.name}({image}) {{ return {value}; }}\n"


def _coordinates(variant: _Variant) -> tuple[str, str]:
    """The type of the coordinates, and an expression for width, height and depth or layer in four components."""
    dims, layered = _KINDS[variant.image.name]
    scalar = "float" if variant.floating else "int"
    zero = "0.0f" if variant.floating else "0"
    count = dims + layered
    if count == 1:
        return scalar, f"({scalar}4)(c, {zero}, {zero}, {zero})"
    if count == 2:
        parts = f"c.x, {zero}, c.y, {zero}" if layered else f"c.x, c.y, {zero}, {zero}"
        return f"{scalar}2", f"({scalar}4)({parts})"
    return f"{scalar}4", f"({scalar}4)(c.x, c.y, c.z, {zero})"


def _read(variant: _Variant) -> str:
    dims, layered = _KINDS[variant.image.name]
    kind, position = _coordinates(variant)
    suffix = _READS[variant.function]
    core = f"P_sample_{suffix}" if variant.floating else f"P_read_{suffix}"
    shape = f"{dims}, {int(layered)}" if variant.floating else str(int(layered))
    sampler = "uint s, " if variant.sampled else ""
    call = f"{core}(im.p, im.d, {'s' if variant.sampled else '0u'}, {position}, {shape})"
    result = _VALUES[suffix]
    if variant.function == "read_imageh":
        result, call = "half4", f"convert_half4({call})"
    if variant.image.is_depth:
        result, call = "float", f"{call}.x"
    native = first = ""
    if variant.native:
        native = "read_only image2d_t n, uint u, "
        cases = "".join(
            f"case {bits}u: {{ const sampler_t t = {bits}; return {variant.function}(n, t, c); }} "
            for bits in _SAMPLERS
        )
        first = f"if (u) switch (s) {{ {cases}}} "
    body = f"{first}{_sizes_of(variant)}return {call};"
    return f"{result} P_{variant.name}({native}P_{variant.image.tag} im, {sampler}{kind} c) {{ {body} }}\n"


def _textured(variant: _Variant) -> str:
    """The same, where a descriptor may hold a texture. What that does not give is read by another function: nothing, as a rule."""
    plain = _read(variant)
    head, _, body = plain.partition("{")
    other = head.replace(f"P_{variant.name}(", f"P_{variant.name}_other(")
    given = "P_components_t(__vdev_texel((ulong)im.d.slice, c), im.d.format)"
    return (
        f"__attribute__((noinline)) {other}{{{body}"
        f"{head}{{ if (im.d.depth < 0) {{ if (im.d.depth == (int)~s) return {given}; "
        f"return P_{variant.name}_other(im, s, c); }}{body}"
    )


def _write(variant: _Variant) -> str:
    kind, position = _coordinates(variant)
    suffix = _WRITES[variant.function]
    value, given = _VALUES[suffix], "v"
    if variant.function == "write_imageh":
        value, given = "half4", "convert_float4(v)"
    if variant.image.is_depth:
        value, given = "float", "(float4)(v, 0.0f, 0.0f, 0.0f)"
    call = f"P_write_{suffix}(im.p, im.d, {position}, {given})"
    return f"void P_{variant.name}(P_{variant.image.tag} im, {kind} c, {value} v) {{ {_sizes_of(variant)}{call}; }}\n"


def _sizes_of(variant: _Variant) -> str:
    """What the compiler cannot know: that the sizes are 1 of the dimensions which the image lacks."""
    dims, layered = _KINDS[variant.image.name]
    height = "im.d.height = 1; " if dims == 1 else ""
    depth = "im.d.depth = 1; " if dims < 3 and not layered else ""
    return height + depth


@lru_cache(maxsize=2)
def _include(file: str) -> str:
    with open(os.path.join(clang.INCLUDE_DIR, file), encoding="utf-8") as content:
        return content.read()


@lru_cache(maxsize=1)
def _constants() -> Mapping[str, str]:
    """OpenCL C's constants for images and samplers by name. A fence for images is one for memory."""
    with open(clang.BASE_HEADER, encoding="utf-8") as header:
        found = re.findall(r"#define (CLK_\w+)\s+(0x\w+|\d+)\s*$", header.read(), re.MULTILINE)
    values = {name: value for name, value in found if not _OTHER_CONSTANTS.match(name)}
    return values | {"CLK_IMAGE_MEM_FENCE": "CLK_GLOBAL_MEM_FENCE"}


def _free_prefix(functions: Functions) -> str:
    """A prefix that no identifier of the program starts with."""
    taken = {m.group() for m in (re.match(r"vimg\d*_", name) for name in functions.identifiers()) if m}
    number = 0
    while (prefix := f"vimg{number or ''}_") in taken:
        number += 1
    return prefix
